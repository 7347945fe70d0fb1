// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --tile-plan-schedules --tile-swap-operands --convert-tile-to-sm90 | FileCheck %s

// A02. Of latents of 1024 columns no two blocks of keys fit into shared memory. Stages of the ring are
// panels of 64 columns: a block takes 17, the next one's first 8 come while it is read.

!cache = !mla.cache<page_size = 64, fields = [latent: 1024, rope: 64], element = bf16, rope_order = half>

// CHECK-LABEL: sm90.kernel @absorbed_attention
// CHECK: %[[KEYS:.*]] = sm90.ring "keys" full_count 1 empty_count 4 : <stages = 25, parts = 1, tiles = [<64x64xbf16>]>
// CHECK: sm90.ring "queries" full_count 1 empty_count 4 : <stages = 1, parts = 1, tiles = [<8x1024xbf16>, <8x64xbf16>]>

// Each panel has a slot that is waited for, and its own bytes.
// CHECK: sm90.role "load"
// CHECK: scf.for {{.*}} iter_args(%[[S:[a-z0-9]+]] = %{{[a-z0-9]+}}) -> (!sm90.stage)
// CHECK: %[[SECOND:.*]] = sm90.stage_next %[[S]] of %[[KEYS]]
// CHECK: sm90.acquire %[[KEYS]][%[[S]]]
// CHECK: sm90.expect %[[KEYS]][%[[S]]] part 0 bytes 8192
// CHECK: sm90.tma_load {{.*}} part 0
// CHECK: sm90.acquire %[[KEYS]][%[[SECOND]]]
// CHECK: sm90.expect %[[KEYS]][%[[SECOND]]] part 0 bytes 8192

// Scores begin with the first panel; all are released behind the products of values.
// CHECK: sm90.role "math"
// CHECK: sm90.await %[[KEYS]][%[[S:.*]]] part 0
// CHECK: sm90.wgmma
// CHECK: sm90.await %[[KEYS]][%[[SECOND:.*]]] part 0
// CHECK: sm90.wgmma_wait
// CHECK: sm90.wgmma_wait
// CHECK: sm90.release %[[KEYS]][%[[S]]]
// CHECK: sm90.release %[[KEYS]][%[[SECOND]]]
func.func @decode(%q: tensor<?x8x1024xbf16> {mla.input = "q"}, %pe: tensor<?x8x64xbf16> {mla.input = "q_pe"},
    %batch: !mla.batch<query_len = 1>, %cache: !cache) -> (tensor<?x8x1024xbf16> {mla.output = "output"}) {
  %o = mla.absorbed_attention query(%q, %pe : tensor<?x8x1024xbf16>, tensor<?x8x64xbf16>) over %cache, %batch
      : <page_size = 64, fields = [latent: 1024, rope: 64], element = bf16, rope_order = half>, <query_len = 1>
      scale 0.1 -> tensor<?x8x1024xbf16>
  return %o : tensor<?x8x1024xbf16>
}
