// RUN: mla-opt %s --split-input-file --convert-mla-to-tile=target=sm90 --cse | FileCheck %s

// One launch for all rows, and the products' results are columns of one memory.
// CHECK-LABEL: tile.plan @few
// CHECK: tile.launch @linear_320x256_rows_16
// CHECK-NOT: tile.launch @linear_192x256
// CHECK: tile.launch @rms_norm_row_64

// Two weights and their biases, as one product: each tile of 64 columns has one weight, chosen by its
// first column, and the bias of it.
// CHECK-LABEL: tile.kernel @linear_320x256_rows_16
// CHECK-SAME: %[[X:.*]]: memref<?xbf16>, %[[A:.*]]: memref<?xbf16> {tile.invariant}, %[[OUT:.*]]: memref<?xbf16>, %[[ROWS:.*]]: index, %[[B:.*]]: memref<?xbf16> {tile.invariant}, %[[C:.*]]: memref<?xbf16>, %[[D:.*]]: memref<?xbf16>)
// CHECK-DAG: %[[OF_A:.*]] = memref.reinterpret_cast %[[A]] to offset: [0], sizes: [192, 256]
// CHECK-DAG: %[[OF_B:.*]] = memref.reinterpret_cast %[[B]] to offset: [0], sizes: [128, 256]
// CHECK-DAG: tile.load %[[OF_A]]
// CHECK-DAG: tile.load %[[OF_B]]
// CHECK: arith.select
// CHECK: tile.dot
// CHECK: arith.select %{{.*}}, %[[C]], %[[D]] : memref<?xbf16>
// CHECK: tile.store %{{.*}} transposed
func.func @few(%x: tensor<?x256xbf16> {mla.input = "x"}, %a: tensor<192x256xbf16> {mla.weight = "a"},
               %b: tensor<128x256xbf16> {mla.weight = "b"}, %c: tensor<192xbf16> {mla.weight = "c"},
               %d: tensor<128xbf16> {mla.weight = "d"}, %g: tensor<64xbf16> {mla.weight = "g"})
    -> (tensor<?x3x64xbf16> {mla.output = "p"}, tensor<?x2x64xbf16> {mla.output = "q"}) {
  %w = tensor.concat dim(0) %a, %b : (tensor<192x256xbf16>, tensor<128x256xbf16>) -> tensor<320x256xbf16>
  %e = tensor.concat dim(0) %c, %d : (tensor<192xbf16>, tensor<128xbf16>) -> tensor<320xbf16>
  %all = mla.project %x, %w bias(%e : tensor<320xbf16>) : tensor<?x256xbf16>, tensor<320x256xbf16> -> tensor<?x320xbf16>
  %c0 = arith.constant 0 : index
  %n = tensor.dim %all, %c0 : tensor<?x320xbf16>
  %p2 = tensor.extract_slice %all[0, 0] [%n, 192] [1, 1] : tensor<?x320xbf16> to tensor<?x192xbf16>
  %q2 = tensor.extract_slice %all[0, 192] [%n, 128] [1, 1] : tensor<?x320xbf16> to tensor<?x128xbf16>
  %p = tensor.expand_shape %p2 [[0], [1, 2]] output_shape [%n, 3, 64] : tensor<?x192xbf16> into tensor<?x3x64xbf16>
  %q = tensor.expand_shape %q2 [[0], [1, 2]] output_shape [%n, 2, 64] : tensor<?x128xbf16> into tensor<?x2x64xbf16>
  %np = mla.rms_norm %p, %g eps 1.0e-6 : tensor<?x3x64xbf16>, tensor<64xbf16> -> tensor<?x3x64xbf16>
  %nq = mla.rms_norm %q, %g eps 1.0e-6 : tensor<?x2x64xbf16>, tensor<64xbf16> -> tensor<?x2x64xbf16>
  return %np, %nq : tensor<?x3x64xbf16>, tensor<?x2x64xbf16>
}

// -----

// 448 columns end within a tile of 128: as many rows as that is faster for are multiplied apart.
// CHECK-LABEL: tile.plan @many
// CHECK: %[[MOST:.*]] = arith.cmpi sle
// CHECK: scf.if %[[MOST]]
// CHECK: tile.launch @linear_4928x4032
// CHECK: } else {
// CHECK: tile.launch @linear_4032x4032_tile
// CHECK: tile.launch @linear_448x4032_tile
// CHECK: tile.launch @linear_448x4032_tile
func.func @many(%x: tensor<?x4032xbf16> {mla.input = "x"}, %a: tensor<4032x4032xbf16> {mla.weight = "a"},
                %b: tensor<448x4032xbf16> {mla.weight = "b"}, %c: tensor<448x4032xbf16> {mla.weight = "c"})
    -> (tensor<?x4928xbf16> {mla.output = "y"}) {
  %w = tensor.concat dim(0) %a, %b, %c : (tensor<4032x4032xbf16>, tensor<448x4032xbf16>, tensor<448x4032xbf16>) -> tensor<4928x4032xbf16>
  %y = mla.project %x, %w : tensor<?x4032xbf16>, tensor<4928x4032xbf16> -> tensor<?x4928xbf16>
  return %y : tensor<?x4928xbf16>
}
