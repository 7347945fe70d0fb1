// RUN: mla-opt %s --mla-join-projections --mla-fuse-append=target=sm90 --mla-sum-parts=target=sm90 --convert-mla-to-tile=target=sm90 --cse | FileCheck %s
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --cse | FileCheck %s --check-prefix=CPU

// Products of few rows on Hopper, columns of the result on M (Product.h).

// Heads lie one below the other in the weight and side by side in activations. 128
// heads of two tiles are 128 programs of two tiles each. The first launch of a plan
// does not begin early; weights may be read early by all. From 65 tokens on there are tiles of tokens.

// CPU-NOT: _rows_
// CPU-NOT: tile.invariant

// CHECK-LABEL: tile.plan @heads
// CHECK: tile.launch @[[FIRST:linear_128x192_rows_16]] grid(%c1{{.*}}, %c1{{.*}}, %c128{{.*}}) args
// CHECK: tile.launch @linear_128x192_rows_32
// CHECK: tile.launch @linear_128x192_rows_64
// CHECK: tile.launch @linear_128x192_tile_128x128
// CHECK: tile.launch @[[SECOND:linear_64x128_rows_16]] grid(%c1{{.*}}, %c1{{.*}}, %c128{{.*}}) dependent args
// CHECK: tile.launch @linear_64x128_tile_128x64
func.func @heads(%x: tensor<?x192xbf16> {mla.input = "x"},
                 %all: tensor<128x160x192xbf16> {mla.weight = "w"},
                 %u: tensor<128x128x64xbf16> {mla.weight = "u"})
    -> (tensor<?x128x64xbf16> {mla.output = "output"}) {
  %w = tensor.extract_slice %all[0, 32, 0] [128, 128, 192] [1, 1, 1] : tensor<128x160x192xbf16> to tensor<128x128x192xbf16>
  %y = mla.project %x, %w : tensor<?x192xbf16>, tensor<128x128x192xbf16> -> tensor<?x128x128xbf16>
  %z = mla.head_project %y, %u contract_rows : tensor<?x128x128xbf16>, tensor<128x128x64xbf16> -> tensor<?x128x64xbf16>
  return %z : tensor<?x128x64xbf16>
}

// Few columns: parts of the depth, which the norm's kernel sums, fewer of them for more than 64
// rows. Workspaces do not grow with the step.

// CHECK-LABEL: tile.plan @latent
// CHECK: %[[SUMS:.*]] = tile.workspace %c{{[0-9]+}} : memref<?xf32>
// CHECK: tile.launch @[[PART:linear_576x1024_rows_16]] grid(%c9{{.*}}, %c8{{.*}}, %c1{{.*}}) args(%{{.*}}, %{{.*}}, %[[SUMS]],
// CHECK: tile.launch @[[SUM:sum_rms_norm_512]] grid(%{{.*}}, %c1{{.*}}, %c1{{.*}}) dependent args(%[[SUMS]],
// CHECK: arith.cmpi sle, %{{.*}}, %c128
// CHECK: %[[FEWER:.*]] = tile.workspace %c294912{{.*}} : memref<?xf32>
// CHECK: tile.launch @linear_576x1024_tile_64x64_parts_4 grid({{.*}}) args(%{{.*}}, %{{.*}}, %[[FEWER]],
// CHECK: tile.launch @sum_rms_norm_512{{.*}} dependent args(%[[FEWER]],
// CHECK: tile.launch @linear_576x1024_tile_
// CHECK: tile.launch @rms_norm_row_512
func.func @latent(%x: tensor<?x1024xbf16> {mla.input = "x"},
                  %w: tensor<576x1024xbf16> {mla.weight = "w"},
                  %g: tensor<512xbf16> {mla.weight = "g"})
    -> (tensor<?x512xbf16> {mla.output = "output"}, tensor<?x64xbf16> {mla.output = "tail"}) {
  %y, %tail = mla.latent_project %x, %w, %g eps 1.0e-6
      : tensor<?x1024xbf16>, tensor<576x1024xbf16>, tensor<512xbf16> -> tensor<?x512xbf16>, tensor<?x64xbf16>
  return %y, %tail : tensor<?x512xbf16>, tensor<?x64xbf16>
}

// Keys and values of a head are rows of one product, for new tokens and for those of a
// chunk, which share the slices of the weight.

// CHECK-LABEL: tile.plan @neighbours
// CHECK: tile.launch @linear_384x64_rows_16 grid({{.*}}) args(%[[NEW:[a-z0-9_]*]],
// CHECK: tile.launch @linear_384x64_rows_16{{[_0-9]*}} grid({{.*}}) dependent args(%[[OLD:[a-z0-9_]*]],
// CHECK-NOT: linear_192x64
// CHECK: tile.return
func.func @neighbours(%x: tensor<?x64xbf16> {mla.input = "x"}, %z: tensor<?x64xbf16> {mla.input = "z"},
                      %w: tensor<3x128x64xbf16> {mla.weight = "w"},
                      %u: tensor<3x64x64xbf16> {mla.weight = "u"})
    -> (tensor<?x3x64xbf16> {mla.output = "a"}, tensor<?x3x64xbf16> {mla.output = "b"},
        tensor<?x3x64xbf16> {mla.output = "c"}, tensor<?x3x64xbf16> {mla.output = "d"}) {
  %k = tensor.extract_slice %w[0, 0, 0] [3, 64, 64] [1, 1, 1] : tensor<3x128x64xbf16> to tensor<3x64x64xbf16>
  %v = tensor.extract_slice %w[0, 64, 0] [3, 64, 64] [1, 1, 1] : tensor<3x128x64xbf16> to tensor<3x64x64xbf16>
  %xk = mla.project %x, %k : tensor<?x64xbf16>, tensor<3x64x64xbf16> -> tensor<?x3x64xbf16>
  %xv = mla.project %x, %v : tensor<?x64xbf16>, tensor<3x64x64xbf16> -> tensor<?x3x64xbf16>
  %zk = mla.project %z, %k : tensor<?x64xbf16>, tensor<3x64x64xbf16> -> tensor<?x3x64xbf16>
  %zv = mla.project %z, %v : tensor<?x64xbf16>, tensor<3x64x64xbf16> -> tensor<?x3x64xbf16>
  %a = mla.head_project %xk, %u : tensor<?x3x64xbf16>, tensor<3x64x64xbf16> -> tensor<?x3x64xbf16>
  %b = mla.head_project %xv, %u : tensor<?x3x64xbf16>, tensor<3x64x64xbf16> -> tensor<?x3x64xbf16>
  %c = mla.head_project %zk, %u : tensor<?x3x64xbf16>, tensor<3x64x64xbf16> -> tensor<?x3x64xbf16>
  %d = mla.head_project %zv, %u : tensor<?x3x64xbf16>, tensor<3x64x64xbf16> -> tensor<?x3x64xbf16>
  return %a, %b, %c, %d : tensor<?x3x64xbf16>, tensor<?x3x64xbf16>, tensor<?x3x64xbf16>, tensor<?x3x64xbf16>
}

// 40 columns of a head would reach into the next one: rows first.

// CHECK-LABEL: tile.plan @narrow_heads
// CHECK-NOT: _rows_
// CHECK: tile.return
func.func @narrow_heads(%x: tensor<?x64xbf16> {mla.input = "x"},
                        %w: tensor<3x48x64xbf16> {mla.weight = "w"})
    -> (tensor<?x3x40xbf16> {mla.output = "output"}) {
  %part = tensor.extract_slice %w[0, 0, 0] [3, 40, 64] [1, 1, 1] : tensor<3x48x64xbf16> to tensor<3x40x64xbf16>
  %y = mla.project %x, %part : tensor<?x64xbf16>, tensor<3x40x64xbf16> -> tensor<?x3x40xbf16>
  return %y : tensor<?x3x40xbf16>
}

// CHECK: tile.kernel @[[FIRST]](%{{.*}}: memref<?xbf16>, %[[W:.*]]: memref<?xbf16> {tile.invariant},
// CHECK-SAME: attributes {tile.triggers_dependents}
// CHECK: memref.reinterpret_cast %[[W]] to offset: [6144], sizes: [20448, 192], strides: [192, 1]
// CHECK: scf.for %{{.*}} = %c0{{.*}} to %c128{{.*}} step %c64
// CHECK: %[[X:.*]] = tile.load {{.*}} -> tensor<16x64xbf16>
// CHECK: %[[WT:.*]] = tile.load {{.*}} -> tensor<64x64xbf16>
// CHECK: tile.dot %[[WT]], %[[X]], %{{.*}} transpose_rhs
// CHECK: tile.store %{{.*}} transposed

// CHECK: tile.kernel @[[SECOND]](
// CHECK-SAME: attributes {tile.triggers_dependents, tile.waits_for_dependency}
// CHECK: tile.dot %{{.*}}, %{{.*}}, %{{.*}} transpose_lhs transpose_rhs : tensor<128x64xbf16>, tensor<16x128xbf16>

// CHECK: tile.kernel @[[PART]](
// CHECK: arith.muli %{{.*}}, %c128
// CHECK: tile.kernel @[[SUM]](
// CHECK: arith.addf
// CHECK: tile.store
