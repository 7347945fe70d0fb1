// RUN: mla-opt %s --mla-lower-to-tile=target=sm90 | FileCheck %s

// A token's partial costs what it has of bytes, however many tokens a request has: the planner counts tokens.

!cache = !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>
!q = tensor<?x128x512xbf16>
!r = tensor<?x128x64xbf16>

// CHECK-LABEL: tile.plan @one max_query_len 1
// CHECK: tile.work {{.*}} partial_cost 7.390000e-02
func.func @one(%q: !q {mla.input = "q"}, %r: !r {mla.input = "r"}, %batch: !mla.batch<query_len = 1>, %cache: !cache)
    -> (!q {mla.output = "output"}) {
  %o = mla.absorbed_attention query(%q, %r : !q, !r) over %cache, %batch : !cache, !mla.batch<query_len = 1> scale 0.1 -> !q
  return %o : !q
}

// CHECK-LABEL: tile.plan @four max_query_len 4
// CHECK: tile.work {{.*}} partial_cost 7.390000e-02
func.func @four(%q: !q {mla.input = "q"}, %r: !r {mla.input = "r"}, %batch: !mla.batch<query_len = 4>, %cache: !cache)
    -> (!q {mla.output = "output"}) {
  %o = mla.absorbed_attention query(%q, %r : !q, !r) over %cache, %batch : !cache, !mla.batch<query_len = 4> scale 0.1 -> !q
  return %o : !q
}
