// RUN: mla-opt %s --split-input-file --convert-mla-to-tile=target=cpu | FileCheck %s

!latents = !mla.cache<page_size = 16, fields = [latent: 64, rope: 16], element = bf16, rope_order = half>
!pairs = !mla.cache<page_size = 4, fields = [key: 2x32, value: 2x16], element = bf16, format = "kv_nhd">

// Each pool has sizes, slots and memory of its own; those of the cache without a name are the package's first pool's.
// CHECK-LABEL: tile.plan @append
// CHECK-DAG: %[[C:.*]] = tile.buffer cache "cache"
// CHECK-DAG: %[[P:.*]] = tile.buffer cache "pairs"
// CHECK-DAG: %[[CN:.*]] = tile.dim "num_pages"
// CHECK-DAG: %[[PN:.*]] = tile.dim "pairs/num_pages"
// CHECK-DAG: %[[CS:.*]] = tile.dim "page_stride"
// CHECK-DAG: %[[PS:.*]] = tile.dim "pairs/page_stride"
// CHECK-DAG: %[[CM:.*]] = tile.buffer metadata "slot_mapping"
// CHECK-DAG: %[[PM:.*]] = tile.buffer metadata "pairs/slot_mapping"
// CHECK: tile.launch @append{{.*}}(%[[C]], %[[CN]], %[[CS]], %[[CM]],
// CHECK: tile.launch @append{{.*}}(%[[P]], %[[PN]], %[[PS]], %[[PM]],
func.func @append(%c: tensor<?x64xbf16> {mla.input = "c"}, %r: tensor<?x16xbf16> {mla.input = "r"},
    %k: tensor<?x2x32xbf16> {mla.input = "k"}, %v: tensor<?x2x16xbf16> {mla.input = "v"}, %batch: !mla.batch<query_len = ?>,
    %latents: !latents, %pairs: !pairs {mla.pool = "pairs"}) -> (!latents, !pairs) {
  %0 = mla.append %c, %r into %latents, %batch : tensor<?x64xbf16>, tensor<?x16xbf16> into !latents, !mla.batch<query_len = ?>
  %1 = mla.append %k, %v into %pairs, %batch : tensor<?x2x32xbf16>, tensor<?x2x16xbf16> into !pairs, !mla.batch<query_len = ?>
  return %0, %1 : !latents, !pairs
}

// CHECK-LABEL: tile.plan @gather
// CHECK-DAG: %[[T:.*]] = tile.buffer metadata "pairs/block_table"
// CHECK-DAG: %[[M:.*]] = tile.dim "pairs/max_blocks_per_request"
// CHECK: tile.launch @gather{{.*}}%[[T]], %[[M]],
func.func @gather(%batch: !mla.batch<query_len = ?>, %pairs: !pairs {mla.pool = "pairs"})
    -> (tensor<?x64xbf16> {mla.output = "k"}, tensor<?x2x16xbf16> {mla.output = "v"}) {
  %chunk = arith.constant 0 : index
  %k, %v = mla.gather %pairs, %batch chunk %chunk : !pairs, !mla.batch<query_len = ?> -> tensor<?x64xbf16>, tensor<?x2x16xbf16>
  return %k, %v : tensor<?x64xbf16>, tensor<?x2x16xbf16>
}
