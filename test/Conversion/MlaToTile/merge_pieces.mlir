// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --cse | FileCheck %s

// B22. Each request is merged in the form that its own number of pieces wants. With many
// heads, many pieces are the columns of a tile: sums stay in a quad of threads, and the
// tiles of a unit share the weights. Outputs of pieces have the output's type, LSEs are f32.

!cache = !mla.cache<page_size = 64, fields = [latent: 512],
                    element = bf16, rope_order = half>

// 128 heads: units of 64 rows and 32 columns, or of a row and 4 tiles of 64 columns.
// CHECK-LABEL: tile.plan @heads128
// CHECK: merge_forms [4, 64, 16, 16, 1, 2, 2147483647, 1, 2] merge_programs 3
// CHECK: %[[PROGRAMS:.*]] = tile.dim "num_merge_programs"
// CHECK: scf.if
// CHECK: tile.launch @merge_partials grid(%[[PROGRAMS]], %c1{{[_0-9]*}}, %c1{{[_0-9]*}})
// CHECK-NOT: tile.launch
func.func @heads128(%q: tensor<?x128x512xbf16> {mla.input = "q"}, %batch: !mla.batch<query_len = 1>,
                    %cache: !cache) -> (tensor<?x128x512xbf16> {mla.output = "output"}) {
  %o = mla.absorbed_attention query(%q : tensor<?x128x512xbf16>) over %cache, %batch
      : !cache, !mla.batch<query_len = 1> scale 0.25 -> tensor<?x128x512xbf16>
  return %o : tensor<?x128x512xbf16>
}

// 16 heads: one tile of 64 columns; more than 16 pieces are rows, of 32 columns.
// CHECK-LABEL: tile.plan @heads16
// CHECK: merge_forms [4, 64, 16, 16, 1, 8, 2147483647, 1, 16] merge_programs 4
func.func @heads16(%q: tensor<?x16x512xbf16> {mla.input = "q"}, %batch: !mla.batch<query_len = 1>,
                   %cache: !cache) -> (tensor<?x16x512xbf16> {mla.output = "output"}) {
  %o = mla.absorbed_attention query(%q : tensor<?x16x512xbf16>) over %cache, %batch
      : !cache, !mla.batch<query_len = 1> scale 0.25 -> tensor<?x16x512xbf16>
  return %o : tensor<?x16x512xbf16>
}

// CHECK: tile.kernel @merge_partials(
// CHECK: tile.load %{{.*}} -> tensor<64x32xbf16>
// CHECK: arith.cmpi slt, %{{.*}}, %c2
// CHECK: tile.load %{{.*}} -> tensor<64x16xf32>
// CHECK: tile.load %{{.*}} -> tensor<64x16xbf16>
// CHECK: } else {
// CHECK: sizes: [64, %[[PIECES:.*]]], strides: [0, 128]
// CHECK: sizes: [256, %[[PIECES]]], strides: [1, 65536]
// CHECK: scf.for
// CHECK: tile.load %{{.*}} -> tensor<64x32xf32>
// CHECK-COUNT-4: tile.load %{{.*}} -> tensor<64x32xbf16>
// CHECK: tile.reduce {{ *}}max %{{.*}} : tensor<64x32xf32> -> tensor<64xf32>
// CHECK: math.exp %{{.*}} : tensor<64x32xf32>
// CHECK-NOT: math.exp
// CHECK: scf.yield
// CHECK-COUNT-4: tile.store %{{.*}} : tensor<64xbf16>

// CHECK: tile.kernel @merge_partials_{{.*}}(
// CHECK: arith.cmpi slt, %{{.*}}, %c2
// CHECK: } else {
// CHECK: tile.load %{{.*}} -> tensor<64x32xbf16>
// CHECK: arith.extf
// CHECK: tile.reduce {{ *}}max %{{.*}} dim 0
