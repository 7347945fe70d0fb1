// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --cse | FileCheck %s --check-prefixes=CHECK,GPU
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --cse | FileCheck %s --check-prefixes=CHECK,CPU

// A02, C11. Rows are (query, head) pairs of a request; the latent's tile is key
// and value. Latent 40 wide, rope 8 wide: two loads of a page, each padded with
// zeros.

!cache = !mla.cache<page_size = 16, kv_lora_rank = 40, qk_rope_head_dim = 8,
                    element = bf16, rope_order = half>

// One query per request: rows are heads.
// CHECK-LABEL: tile.plan @decode max_query_len 1
// CHECK: %[[CACHE:.*]] = tile.buffer cache "cache"
// CHECK: %[[B:.*]] = tile.dim "num_requests"
// GPU: tile.launch @absorbed_attention grid(%c1{{[_0-9]*}}, %[[B]], %c1{{[_0-9]*}}) args(%[[CACHE]]
// CPU: tile.launch @absorbed_attention grid(%c3{{[_0-9]*}}, %[[B]], %c1{{[_0-9]*}}) args(%[[CACHE]]
func.func @decode(%q: tensor<?x40x40xbf16> {mla.input = "q"}, %q_pe: tensor<?x40x8xbf16> {mla.input = "q_pe"},
                  %batch: !mla.batch<query_len = 1>, %cache: !cache)
    -> (tensor<?x40x40xbf16> {mla.output = "output"}) {
  %o = mla.absorbed_attention query(%q, %q_pe : tensor<?x40x40xbf16>, tensor<?x40x8xbf16>)
      over %cache, %batch : <page_size = 16, kv_lora_rank = 40, qk_rope_head_dim = 8, element = bf16, rope_order = half>, <query_len = 1>
      scale 0.25 -> tensor<?x40x40xbf16>
  return %o : tensor<?x40x40xbf16>
}

// Splits: partials in workspaces, f32, then one merge into the output.
// CHECK-LABEL: tile.plan @split {
// CHECK: %[[T:.*]] = tile.dim "num_tokens"
// CHECK: %[[SPLITS:.*]] = tile.dim "num_sms"
// CHECK: %[[OUTPUT:.*]] = tile.buffer output "output" : memref<?xbf16>
// CHECK: %[[ROWS:.*]] = arith.muli %[[SPLITS]], %[[T]]
// CHECK: %[[SIZE:.*]] = arith.muli %[[ROWS]], %c1600
// CHECK: %[[PARTIAL:.*]] = tile.workspace %[[SIZE]] : memref<?xf32>
// CHECK: %[[LSE:.*]] = tile.workspace %{{.*}} : memref<?xf32>
// CHECK: tile.launch @absorbed_attention_split grid(%{{.*}}, %{{.*}}, %[[SPLITS]]) args({{.*}}, %[[SPLITS]], %{{.*}}, %[[PARTIAL]], %{{.*}}, %[[LSE]])
// CHECK: tile.launch @merge_splits {{.*}} args(%[[T]], %[[SPLITS]], %[[PARTIAL]], %[[LSE]], %[[OUTPUT]])
func.func @split(%q: tensor<?x40x40xbf16> {mla.input = "q"}, %q_pe: tensor<?x40x8xbf16> {mla.input = "q_pe"},
                 %batch: !mla.batch, %cache: !cache)
    -> (tensor<?x40x40xbf16> {mla.output = "output"}) {
  %splits = mla.batch_dim %batch "num_sms" : <query_len = ?>
  %o, %lse = mla.absorbed_attention query(%q, %q_pe : tensor<?x40x40xbf16>, tensor<?x40x8xbf16>)
      over %cache, %batch : <page_size = 16, kv_lora_rank = 40, qk_rope_head_dim = 8, element = bf16, rope_order = half>, <query_len = ?>
      splits %splits scale 0.25
      -> tensor<?x?x40x40xf32>, tensor<?x?x40xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
  %y = mla.merge_splits %o, %lse : tensor<?x?x40x40xf32>, tensor<?x?x40xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>> -> tensor<?x40x40xbf16>
  return %y : tensor<?x40x40xbf16>
}

// CHECK-LABEL: tile.kernel @absorbed_attention(
// CHECK: arith.divsi
// CHECK: %[[SEEN_KEYS:.*]] = arith.addi {{.*}} : tensor<{{64|16}}xi32>
// CHECK: scf.for
// CHECK: %[[LATENT:.*]] = tile.load_paged {{.*}} -> tensor<64x48xbf16>
// CHECK: %[[SCORES:.*]] = tile.dot %{{.*}}, %[[LATENT]], %{{.*}} transpose_rhs
// CHECK: tile.load_paged {{.*}} -> tensor<64x16xbf16>
// CHECK: tile.dot %{{.*}}, %{{.*}}, %[[SCORES]] transpose_rhs
// CHECK: tile.broadcast %[[SEEN_KEYS]]
// CHECK: tile.dot %{{.*}}, %[[LATENT]], %{{.*}} : tensor<{{64|16}}x64xbf16>, tensor<64x48xbf16>
// CHECK: arith.truncf
// CHECK: tile.store

// Rows of several queries: row / 40 is the query, which sees one key more than
// the one before. A split's range is a multiple of 64 keys.
// CHECK-LABEL: tile.kernel @absorbed_attention_split(
// CHECK: arith.ceildivsi %{{.*}}, %c64
// CHECK: arith.divui %{{.*}}, %{{.*}} : i32
// CHECK: arith.muli %{{.*}}, %c64
// CHECK: arith.minsi
// CHECK: %[[ROW:.*]] = arith.addi %{{.*}} : tensor<{{64|16}}xi32>
// CHECK: %[[HEADS:.*]] = arith.constant dense<40> : tensor<{{64|16}}xi32>
// CHECK: arith.divsi %[[ROW]], %[[HEADS]]
