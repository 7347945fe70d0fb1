// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --cse | FileCheck %s --check-prefixes=CHECK,GPU
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --cse | FileCheck %s --check-prefixes=CHECK,CPU

// A21. The latent projection writes one raw buffer; the norm reads its first L
// columns; the tail is a view of the others (stride 48) for whoever reads it.

// CHECK-LABEL: tile.plan @latent
// CHECK: %[[LATENT:.*]] = tile.workspace
// CHECK: %[[RAW:.*]] = tile.workspace
// CHECK: tile.launch @linear_48x64_{{.*}} args(%{{.*}}, %{{.*}}, %[[RAW]], %{{.*}})
// CPU: tile.launch @rms_norm_32 {{.*}} args(%[[RAW]], %{{.*}}, %[[LATENT]], %{{.*}})
// GPU: tile.launch @rms_norm_row_32 {{.*}} args(%[[RAW]], %{{.*}}, %[[LATENT]])
// CHECK-NOT: tile.workspace
// CHECK: tile.launch @append {{.*}} %[[LATENT]], %[[RAW]])
func.func @latent(%x: tensor<?x64xbf16> {mla.input = "hidden"},
                  %w: tensor<48x64xbf16> {mla.weight = "w"},
                  %gamma: tensor<32xbf16> {mla.weight = "gamma"}, %batch: !mla.batch,
                  %cache: !mla.cache<page_size = 16, fields = [latent: 32, rope: 16],
                                     element = bf16, rope_order = half>)
    -> !mla.cache<page_size = 16, fields = [latent: 32, rope: 16],
                  element = bf16, rope_order = half> {
  %latent, %tail = mla.latent_project %x, %w, %gamma eps 1.0e-6 {multiplier = 2.0 : f64}
      : tensor<?x64xbf16>, tensor<48x64xbf16>, tensor<32xbf16> -> tensor<?x32xbf16>, tensor<?x16xbf16>
  %new = mla.append %latent, %tail into %cache, %batch
      : tensor<?x32xbf16>, tensor<?x16xbf16>
      into <page_size = 16, fields = [latent: 32, rope: 16], element = bf16, rope_order = half>, <query_len = ?>
  return %new : !mla.cache<page_size = 16, fields = [latent: 32, rope: 16],
                           element = bf16, rope_order = half>
}

// CHECK-LABEL: tile.plan @norm
// GPU: tile.launch @[[WIDE:rms_norm_row_1536]] grid(%{{.*}}, %c1
// CPU: tile.launch @[[WIDE:rms_norm_1536]]
func.func @norm(%x: tensor<?x1536xbf16> {mla.input = "hidden"},
                %gamma: tensor<1536xbf16> {mla.weight = "gamma"})
    -> (tensor<?x1536xbf16> {mla.output = "output"}) {
  %y = mla.rms_norm %x, %gamma eps 1.0e-6 : tensor<?x1536xbf16>, tensor<1536xbf16> -> tensor<?x1536xbf16>
  return %y : tensor<?x1536xbf16>
}

// CPU-LABEL: tile.kernel @rms_norm_32(
// CPU: %[[X:.*]] = memref.reinterpret_cast %{{.*}} to offset: [0], sizes: [%[[ROWS:.*]], 32], strides: [48, 1]
// CPU: %[[G:.*]] = memref.reinterpret_cast %{{.*}} to offset: [0], sizes: [%[[ROWS]], 32], strides: [0, 1]
// CPU: %[[XT:.*]] = tile.load %[[X]]
// CPU: %[[WIDE_X:.*]] = arith.extf %[[XT]]
// CPU: %[[SQUARES:.*]] = arith.mulf %[[WIDE_X]], %[[WIDE_X]]
// CPU: tile.reduce sum %[[SQUARES]]
// CPU: dense<3.125000e-02>
// CPU: %[[R:.*]] = math.rsqrt
// CPU: dense<2.000000e+00>
// CPU: %[[SCALE:.*]] = arith.mulf %[[R]]
// CPU: %[[B:.*]] = tile.broadcast %[[SCALE]]
// CPU: %[[NORMED:.*]] = arith.mulf %{{.*}}, %[[B]]
// CPU: tile.load %[[G]]
// CPU: %[[Y:.*]] = arith.mulf %[[NORMED]]
// CPU: arith.truncf %[[Y]]

// GPU-LABEL: tile.kernel @rms_norm_row_32(
// GPU: sizes: [4, 8], strides: [8, 1]
// GPU: %[[AT:.*]] = arith.muli %{{.*}}, %c48
// GPU: memref.reinterpret_cast %{{.*}} to offset: [%[[AT]]], sizes: [4, 8], strides: [8, 1]
// GPU: %[[SQUARES:.*]] = arith.mulf %[[X:.*]], %[[X]]
// GPU: tile.reduce sum %[[SQUARES]] dim 0
// GPU: dense<3.125000e-02>
// GPU: math.rsqrt
// GPU: dense<2.000000e+00>
// GPU: tile.store

// The tail: 16 columns from column 32 of rows of 48.
// CHECK-LABEL: tile.kernel @append(
// CHECK: memref.reinterpret_cast %{{.*}} to offset: [32], sizes: [%{{.*}}, 16], strides: [48, 1]

// Rows wider than a tile: two loops over blocks of columns; on sm90 one row, as a tile
// of 64 rows that is read once.
// CHECK: tile.kernel @[[WIDE]](
// GPU-NOT: scf.for
// GPU: sizes: [64, 24], strides: [24, 1]
// GPU: tile.reduce sum %{{.*}} dim 0 : tensor<64x24xf32> -> tensor<24xf32>
// GPU: tile.broadcast %{{.*}} dim 0 : tensor<24xf32> -> tensor<64x24xf32>
// GPU: tile.reduce sum %{{.*}} : tensor<64x24xf32> -> tensor<64xf32>
// CPU: scf.for %{{.*}} = %c0 to %c1536 step %c512 iter_args(%{{.*}}) -> (tensor<1xf32>)
// CHECK: math.rsqrt
// CPU: scf.for
