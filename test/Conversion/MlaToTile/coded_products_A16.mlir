// Products whose weight is codes with scales: up to 128 rows multiply the codes, more the values that
// these are turned into on the way, and so many that it takes longer get all values first; on a CPU
// all multiply the codes.
//
// RUN: mla-opt %s --split-input-file --verify-diagnostics --convert-mla-to-tile=target=sm90 --canonicalize --cse | FileCheck %s
// RUN: mla-opt %s --split-input-file --verify-diagnostics --convert-mla-to-tile=target=cpu --canonicalize --cse | FileCheck %s --check-prefix=CPU

// CHECK-LABEL: tile.plan @blocks
// CHECK: scf.if
// CHECK: tile.launch @linear_codes_128x512_rows_16
// CHECK: tile.launch @linear_codes_128x512_rows_64
// CHECK: tile.launch @linear_codes_128x512_rows_128
// CHECK: arith.cmpi sle, %{{.*}}, %c1024
// CHECK: tile.launch @linear_codes_128x512_tile_256x128
// CHECK: tile.launch @linear_codes_128x512_tile_64x128
// CHECK: tile.launch @dequantise_128x512
// CHECK: tile.launch @linear_128x512_tile_128x{{.*}} dependent
// CHECK-LABEL: tile.kernel @linear_codes_128x512_rows_16
// CHECK-SAME: %[[CODES:[a-z0-9]+]]: memref<?xf8E4M3FN> {tile.invariant}
// CHECK: scf.for {{.*}} -> (tensor<64x16xf32>, tensor<64x16xf32>)
// CHECK: %[[TILE:.*]] = tile.load %{{.*}} -> tensor<64x128xf8E4M3FN>
// CHECK: %[[PART:.*]] = tile.dot %[[TILE]], %{{.*}}, %cst{{.*}} transpose_rhs : tensor<64x128xf8E4M3FN>, tensor<16x128xbf16>
// CHECK: %[[SCALE:.*]] = memref.load %
// CHECK: %[[SCALES:.*]] = tile.splat %[[SCALE]]
// CHECK: math.fma %[[PART]], %[[SCALES]], %
//
// Each of two products turns codes of 64 columns, which have one scale for 128 of the depth.
// CHECK-LABEL: tile.kernel @linear_codes_128x512_tile_256x128
// CHECK-SAME: memref<?xf8E4M3FN> {tile.invariant}
// CHECK: %[[SUMS:.*]]:2 = scf.for {{.*}} iter_args(%[[SUM:[a-z0-9]+]] = %{{.*}}, %{{.*}}) -> (tensor<64x256xf32>, tensor<64x256xf32>)
// CHECK: %[[X:.*]] = tile.load %{{.*}} -> tensor<256x128xbf16>
// CHECK: %[[TILE:.*]] = tile.load %{{.*}} -> tensor<64x128xf8E4M3FN>
// CHECK: %[[SCALE:.*]] = memref.load %
// CHECK: %[[WIDE:.*]] = arith.extf %[[TILE]]
// CHECK: %[[SCALES:.*]] = tile.splat %[[SCALE]] : f32 -> tensor<64x128xf32>
// CHECK: %[[SCALED:.*]] = arith.mulf %[[WIDE]], %[[SCALES]]
// CHECK: %[[VALUES:.*]] = arith.truncf %[[SCALED]] : tensor<64x128xf32> to tensor<64x128xbf16>
// CHECK: tile.dot %[[VALUES]], %[[X]], %[[SUM]] transpose_rhs
// CHECK: tile.dot %{{.*}}, %[[X]], %{{.*}} transpose_rhs
// CHECK: scf.yield
// CHECK-COUNT-2: tile.store %{{.*}} transposed
//
// Values are written by the widest accesses that a thread has.
// CHECK-LABEL: tile.kernel @dequantise_128x512
// CHECK-SAME: tile.row_kernel
//
// CPU-LABEL: tile.plan @blocks
// CPU: tile.launch @linear_codes_128x512_tile_1x32
// CPU: tile.launch @linear_codes_128x512_tile_16x64
// CPU-NOT: dequantise
// CPU-LABEL: tile.kernel @linear_codes_128x512_tile_1x32
// CPU: tile.dot %{{.*}}, %{{.*}}, %{{.*}} transpose_rhs : tensor<1x128xbf16>, tensor<32x128xf8E4M3FN>
func.func @blocks(%x: tensor<?x512xbf16> {mla.input = "x"}, %c: tensor<128x512xf8E4M3FN> {mla.weight = "w.weight"},
                  %s: tensor<1x4xf32> {mla.weight = "w.weight_scale_inv"}) -> (tensor<?x128xbf16> {mla.output = "y"}) {
  %w = mla.scaled_weight %c, %s block [128, 128] : tensor<128x512xf8E4M3FN>, tensor<1x4xf32> -> tensor<128x512xbf16>
  %y = mla.project %x, %w : tensor<?x512xbf16>, tensor<128x512xbf16> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

// -----

// The scales of rows are applied once, behind the loop.
// CHECK-LABEL: tile.kernel @linear_codes_128x512_rows_16
// CHECK: scf.for
// CHECK: tile.dot
// CHECK-NOT: mulf
// CHECK: scf.yield
// CHECK: arith.addf
// CHECK: %[[ROWS:.*]] = tile.load %{{.*}} memref<128xf32, strided<[1]>> -> tensor<64xf32>
// CHECK: %[[FACTORS:.*]] = tile.broadcast %[[ROWS]] :
// CHECK: arith.mulf %{{.*}}, %[[FACTORS]]
// Of more rows, too: codes are multiplied as they are.
// CHECK-LABEL: tile.kernel @linear_codes_128x512_tile_{{[0-9]+}}x128
// CHECK: scf.for {{.*}} -> (tensor<64x{{[0-9]+}}xf32>, tensor<64x{{[0-9]+}}xf32>)
// CHECK-NOT: arith.mulf %{{.*}} tensor
// CHECK-COUNT-2: tile.dot %{{.*}} : tensor<64x128xf8E4M3FN>, tensor<{{[0-9]+}}x128xbf16>
// CHECK: scf.yield
// CHECK: tile.broadcast %{{.*}} : tensor<64xf32>
// CPU-LABEL: tile.kernel @linear_codes_128x512_tile_1x32
func.func @channels(%x: tensor<?x512xbf16> {mla.input = "x"}, %c: tensor<128x512xf8E4M3FN> {mla.weight = "w.weight"},
                    %s: tensor<128x1xf32> {mla.weight = "w.weight_scale_inv"}) -> (tensor<?x128xbf16> {mla.output = "y"}) {
  %w = mla.scaled_weight %c, %s block [1, 0] : tensor<128x512xf8E4M3FN>, tensor<128x1xf32> -> tensor<128x512xbf16>
  %y = mla.project %x, %w : tensor<?x512xbf16>, tensor<128x512xbf16> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

// -----

// A scale for each row and block: more than 128 rows get values.
// CHECK-LABEL: tile.plan @rows_and_blocks
// CHECK: tile.launch @linear_codes_128x512_rows_128
// CHECK-NOT: linear_codes
// CHECK: tile.launch @dequantise_128x512
func.func @rows_and_blocks(%x: tensor<?x512xbf16> {mla.input = "x"}, %c: tensor<128x512xf8E4M3FN> {mla.weight = "w.weight"},
                           %s: tensor<128x4xf32> {mla.weight = "w.weight_scale_inv"}) -> (tensor<?x128xbf16> {mla.output = "y"}) {
  %w = mla.scaled_weight %c, %s block [1, 128] : tensor<128x512xf8E4M3FN>, tensor<128x4xf32> -> tensor<128x512xbf16>
  %y = mla.project %x, %w : tensor<?x512xbf16>, tensor<128x512xbf16> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

// -----

// Rows that do not lie in tiles of one scale: the values, for any number of tokens.
// CHECK-LABEL: tile.plan @part
// CHECK-NOT: linear_codes
// CHECK: tile.launch @dequantise_192x512
// CHECK: tile.launch @linear_32x512
// CPU-LABEL: tile.plan @part
// CPU: tile.launch @dequantise_192x512
func.func @part(%x: tensor<?x512xbf16> {mla.input = "x"}, %c: tensor<192x512xf8E4M3FN> {mla.weight = "w.weight"},
                %s: tensor<2x4xf32> {mla.weight = "w.weight_scale_inv"}) -> (tensor<?x2x32xbf16> {mla.output = "y"}) {
  %w = mla.scaled_weight %c, %s block [128, 128] : tensor<192x512xf8E4M3FN>, tensor<2x4xf32> -> tensor<192x512xbf16>
  %e = tensor.expand_shape %w [[0, 1], [2]] output_shape [2, 96, 512] : tensor<192x512xbf16> into tensor<2x96x512xbf16>
  %p = tensor.extract_slice %e[0, 32, 0] [2, 32, 512] [1, 1, 1] : tensor<2x96x512xbf16> to tensor<2x32x512xbf16>
  %y = mla.project %x, %p : tensor<?x512xbf16>, tensor<2x32x512xbf16> -> tensor<?x2x32xbf16>
  return %y : tensor<?x2x32xbf16>
}

// -----

func.func @others(%x: tensor<?x2x64xbf16> {mla.input = "x"}, %c: tensor<128x512xf8E4M3FN> {mla.weight = "w.weight"},
                  %s: tensor<1x4xf32> {mla.weight = "w.weight_scale_inv"}) -> (tensor<?x2x512xbf16> {mla.output = "y"}) {
  // expected-error@+1 {{expected a weight of projections only}}
  %w = mla.scaled_weight %c, %s block [128, 128] : tensor<128x512xf8E4M3FN>, tensor<1x4xf32> -> tensor<128x512xbf16>
  %e = tensor.expand_shape %w [[0, 1], [2]] output_shape [2, 64, 512] : tensor<128x512xbf16> into tensor<2x64x512xbf16>
  // expected-note@+1 {{also read here}}
  %y = mla.head_project %x, %e contract_rows : tensor<?x2x64xbf16>, tensor<2x64x512xbf16> -> tensor<?x2x512xbf16>
  return %y : tensor<?x2x512xbf16>
}
