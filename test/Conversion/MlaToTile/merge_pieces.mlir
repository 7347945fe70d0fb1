// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --cse | FileCheck %s

// B22. With many heads, many pieces are the columns of a tile: sums stay in a quad of
// threads, and the tiles of a program share the weights.

!cache = !mla.cache<page_size = 64, kv_lora_rank = 512, qk_rope_head_dim = 0,
                    element = bf16, rope_order = half>

// 128 heads: 4 tiles of 64 columns, 2 programs for each row. 16 pieces take 1024 programs
// up to 4 requests.
// CHECK-LABEL: tile.plan @heads128
// CHECK: scf.if
// CHECK: tile.launch @merge_partials
// CHECK: %[[FEW:.*]] = arith.cmpi sle, %{{.*}}, %c4
// CHECK: scf.if %[[FEW]]
// CHECK: tile.launch @[[K16:.*]] grid(%{{.*}}, %c2{{.*}}, %{{.*}})
// CHECK: tile.launch @merge_partials
// CHECK: tile.launch @[[K32:.*]] grid(%{{.*}}, %c2{{.*}}, %{{.*}})
// CHECK: tile.launch @[[K64:.*]] grid(%{{.*}}, %c2{{.*}}, %{{.*}})
func.func @heads128(%q: tensor<?x128x512xbf16> {mla.input = "q"}, %batch: !mla.batch<query_len = 1>,
                    %cache: !cache) -> (tensor<?x128x512xbf16> {mla.output = "output"}) {
  %o = mla.absorbed_attention query(%q : tensor<?x128x512xbf16>) over %cache, %batch
      : !cache, !mla.batch<query_len = 1> scale 0.25 -> tensor<?x128x512xbf16>
  return %o : tensor<?x128x512xbf16>
}

// 16 heads: one tile of 64 columns; more than 32 pieces are rows, of 32 columns.
// CHECK-LABEL: tile.plan @heads16
// CHECK: tile.launch @{{merge_many.*}} grid(%{{.*}}, %c8{{.*}}, %{{.*}})
// CHECK: tile.launch @{{merge_many.*}} grid(%{{.*}}, %c8{{.*}}, %{{.*}})
// CHECK: tile.launch @[[ROWS:merge_many.*]] grid(%{{.*}}, %c16{{.*}}, %{{.*}})
func.func @heads16(%q: tensor<?x16x512xbf16> {mla.input = "q"}, %batch: !mla.batch<query_len = 1>,
                   %cache: !cache) -> (tensor<?x16x512xbf16> {mla.output = "output"}) {
  %o = mla.absorbed_attention query(%q : tensor<?x16x512xbf16>) over %cache, %batch
      : !cache, !mla.batch<query_len = 1> scale 0.25 -> tensor<?x16x512xbf16>
  return %o : tensor<?x16x512xbf16>
}

// CHECK: tile.kernel @[[K16]](
// CHECK: tile.load %{{.*}} -> tensor<64x16xf32>
// CHECK: tile.kernel @[[K32]](
// CHECK: tile.load %{{.*}} -> tensor<64x32xf32>
// CHECK: tile.kernel @[[K64]](
// CHECK: sizes: [64, %[[PIECES:.*]]], strides: [0, 128]
// CHECK: sizes: [256, %[[PIECES]]], strides: [1, 65536]
// CHECK: scf.for
// CHECK: tile.load %{{.*}} -> tensor<64x64xf32>
// CHECK-COUNT-4: tile.load %{{.*}} -> tensor<64x64xf32>
// CHECK: tile.reduce {{ *}}max %{{.*}} : tensor<64x64xf32> -> tensor<64xf32>
// CHECK: math.exp %{{.*}} : tensor<64x64xf32>
// CHECK-NOT: math.exp
// CHECK: scf.yield
// CHECK-COUNT-4: tile.store %{{.*}} : tensor<64xbf16>

// CHECK: tile.kernel @[[ROWS]](
// CHECK: tile.load %{{.*}} -> tensor<64x32xf32>
