// The KV range of absorbed attention is split at run time so that about one
// program per multiprocessor runs.
//
// RUN: mla-opt %s --mla-split-kv | FileCheck %s
// RUN: mla-opt %s --mla-split-kv=num-splits=3 | FileCheck %s --check-prefix=FORCED
// RUN: mla-opt %s --mla-split-kv=num-splits=1 | FileCheck %s --check-prefix=ONE
// RUN: mla-opt %s --mla-split-kv="tile-rows=16 block-tokens=32 min-split-blocks=4 max-splits=8" | FileCheck %s --check-prefix=OPTIONS
// RUN: mla-opt %s --mla-split-kv --mla-split-kv=num-splits=3 | FileCheck %s
// RUN: mla-opt %s --mla-split-kv=lists-only=true | FileCheck %s --check-prefix=LISTS
// RUN: mla-opt %s --mla-split-kv="merge-blocks=4 partial-rows-per-block=4096" | FileCheck %s --check-prefix=PAYS
// RUN: not mla-opt %s --mla-split-kv=merge-blocks=-1 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not mla-opt %s --mla-split-kv=partial-rows-per-block=0 2>&1 | FileCheck %s --check-prefix=NOPARTIALS
// NEGATIVE: mla-split-kv: expected merge-blocks >= 0, got -1
// NOPARTIALS: mla-split-kv: expected partial-rows-per-block >= 1, got 0

!cache = !mla.cache<page_size = 4, fields = [latent: 32, rope: 8], element = bf16, rope_order = interleaved>

// CHECK-LABEL: func @decode
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<?x20x32xbf16>, %[[QP:[a-z0-9]+]]: tensor<?x20x8xbf16>, %[[CACHE:[a-z0-9]+]]: !mla.cache{{.*}}, %[[BATCH:[a-z0-9]+]]: !mla.batch
// CHECK-DAG: %[[LEN:.*]] = mla.batch_dim %[[BATCH]] "max_query_len"
// CHECK-DAG: %[[HEADS:.*]] = arith.constant 20 : index
// CHECK: %[[ROWS:.*]] = arith.muli %[[LEN]], %[[HEADS]]
// CHECK: %[[M:.*]] = arith.constant 64 : index
// CHECK: %[[ROWTILES:.*]] = arith.ceildivsi %[[ROWS]], %[[M]]
// CHECK: %[[B:.*]] = mla.batch_dim %[[BATCH]] "num_requests"
// CHECK: %[[TILES:.*]] = arith.muli %[[B]], %[[ROWTILES]]
// CHECK: %[[DIV:.*]] = arith.maxsi %[[TILES]]
// CHECK: %[[SMS:.*]] = mla.batch_dim %[[BATCH]] "num_sms"
// CHECK: %[[PARTS:.*]] = arith.divsi %[[SMS]], %[[DIV]]
// CHECK: %[[FILL:.*]] = arith.maxsi %[[PARTS]]
// CHECK: %[[SEQ:.*]] = mla.batch_dim %[[BATCH]] "max_seq_len"
// CHECK: %[[BLOCKS:.*]] = arith.ceildivsi %[[SEQ]]
// CHECK: %[[USE:.*]] = arith.ceildivsi %[[BLOCKS]]
// CHECK: %[[USEFUL:.*]] = arith.maxsi %[[USE]]
// CHECK: %[[MIN:.*]] = arith.minsi %[[FILL]], %[[USEFUL]]
// CHECK: %[[CAP:.*]] = arith.constant 160
// CHECK: %[[S:.*]] = arith.minsi %[[MIN]], %[[CAP]]
// CHECK: %[[MANY:.*]] = arith.cmpi sgt, %[[S]]
// CHECK: %[[OUT:.*]] = scf.if %[[MANY]] -> (tensor<?x20x32xbf16>)
// CHECK:   %[[P:.*]], %[[PL:.*]] = mla.absorbed_attention query(%[[Q]], %[[QP]] : {{.*}}) over %[[CACHE]], %[[BATCH]] : {{.*}} splits %[[S]] scale 2.000000e-01 -> tensor<?x?x20x32xbf16>, tensor<?x?x20xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
// CHECK:   %[[MERGED:.*]] = mla.merge_splits %[[P]], %[[PL]] : {{.*}} -> tensor<?x20x32xbf16>{{$}}
// CHECK:   scf.yield %[[MERGED]]
// CHECK: } else {
// CHECK:   %[[WHOLE:.*]] = mla.absorbed_attention
// CHECK-SAME: {mla.unsplit} -> tensor<?x20x32xbf16>{{$}}
// CHECK:   scf.yield %[[WHOLE]]
// CHECK: return %[[OUT]]

// FORCED-LABEL: func @decode
// FORCED-NOT: scf.if
// FORCED: %[[S:.*]] = arith.constant 3 : index
// FORCED: %[[P:.*]], %[[PL:.*]] = mla.absorbed_attention
// FORCED-SAME: splits %[[S]]
// FORCED: mla.merge_splits %[[P]], %[[PL]]
// FORCED-NOT: mla.absorbed_attention
// FORCED: return

// ONE-LABEL: func @decode
// ONE-NOT: scf.if
// ONE-NOT: mla.merge_splits
// ONE: mla.absorbed_attention
// ONE-SAME: {mla.unsplit} -> tensor<?x20x32xbf16>{{$}}
// ONE: return

// OPTIONS-LABEL: func @decode
// OPTIONS-DAG: arith.constant 16 : index
// OPTIONS-DAG: arith.constant 32 : index
// OPTIONS-DAG: arith.constant 4 : index
// OPTIONS-DAG: arith.constant 8 : index
func.func @decode(%q: tensor<?x20x32xbf16>, %qp: tensor<?x20x8xbf16>, %cache: !cache, %batch: !mla.batch<query_len = 1>) -> tensor<?x20x32xbf16> {
  %0 = mla.absorbed_attention query(%q, %qp : tensor<?x20x32xbf16>, tensor<?x20x8xbf16>) over %cache, %batch : !cache, !mla.batch<query_len = 1>
      scale 0.2 -> tensor<?x20x32xbf16>
  return %0 : tensor<?x20x32xbf16>
}

// The final LSE comes from the merge.
// FORCED-LABEL: func @with_lse
// FORCED: mla.merge_splits {{.*}} -> tensor<?x20x32xbf16>, tensor<?x20xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @with_lse(%q: tensor<?x20x32xbf16>, %qp: tensor<?x20x8xbf16>, %cache: !cache, %batch: !mla.batch<query_len = 1>)
    -> (tensor<?x20x32xbf16>, tensor<?x20xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>) {
  %0, %1 = mla.absorbed_attention query(%q, %qp : tensor<?x20x32xbf16>, tensor<?x20x8xbf16>) over %cache, %batch : !cache, !mla.batch<query_len = 1>
      scale 0.2 -> tensor<?x20x32xbf16>, tensor<?x20xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
  return %0, %1 : tensor<?x20x32xbf16>, tensor<?x20xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
}

// A split count that is there stays.
// CHECK-LABEL: func @given
// CHECK-NOT: scf.if
// CHECK: mla.absorbed_attention
// CHECK-SAME: splits %{{.*}} scale
// CHECK-NOT: mla.absorbed_attention
// CHECK: return
func.func @given(%q: tensor<?x20x32xbf16>, %qp: tensor<?x20x8xbf16>, %cache: !cache, %batch: !mla.batch<query_len = 1>, %s: index)
    -> tensor<?x20x32xbf16> {
  %0, %1 = mla.absorbed_attention query(%q, %qp : tensor<?x20x32xbf16>, tensor<?x20x8xbf16>) over %cache, %batch : !cache, !mla.batch<query_len = 1>
      splits %s scale 0.2 -> tensor<?x?x20x32xf32>, tensor<?x?x20xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
  %2 = mla.merge_splits %0, %1 : tensor<?x?x20x32xf32>, tensor<?x?x20xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>> -> tensor<?x20x32xbf16>
  return %2 : tensor<?x20x32xbf16>
}

// Lists are a token's, and all as wide. The sink is applied where splits are joined.
// CHECK-LABEL: func @lists
// CHECK: %[[T:.*]] = mla.batch_dim %{{.*}} "num_tokens"
// CHECK: %[[TILESOFTOKEN:.*]] = arith.constant 1 : index
// CHECK: arith.muli %[[T]], %[[TILESOFTOKEN]]
// CHECK: mla.batch_dim %{{.*}} "num_sms"
// CHECK: arith.constant 2048 : index
// CHECK: scf.if
// CHECK: %[[P:.*]], %[[L:.*]], %[[M:.*]] = mla.sparse_attention {{.*}} lengths({{.*}}) over {{.*}} splits
// CHECK: mla.merge_splits %[[P]], %[[L]] max(%[[M]] : {{.*}}) sink(%{{.*}} : tensor<20xf32>)
// CHECK: } else {
// CHECK: mla.sparse_attention {{.*}} sink(%{{.*}} : tensor<20xf32>) over {{.*}} {mla.unsplit}
// Only where a program saves more than 4 blocks and one for each 4096 rows of partials.
// PAYS-LABEL: func @lists
// PAYS: %[[BLOCKS:.*]] = arith.ceildivsi
// PAYS: arith.minsi
// PAYS: %[[S:.*]] = arith.minsi
// PAYS: %[[LEFT:.*]] = arith.ceildivsi %[[BLOCKS]], %[[S]]
// PAYS: %[[SAVED:.*]] = arith.subi %[[BLOCKS]], %[[LEFT]]
// PAYS: %[[FOUR:.*]] = arith.constant 4 : index
// PAYS: %[[REST:.*]] = arith.subi %[[SAVED]], %[[FOUR]]
// PAYS: %[[EACH:.*]] = arith.constant 4096 : index
// PAYS: %[[AFFORDED:.*]] = arith.muli %[[REST]], %[[EACH]]
// PAYS: %[[HEADS:.*]] = arith.constant 20 : index
// PAYS: %[[TOKENS:.*]] = mla.batch_dim %{{.*}} "num_tokens"
// PAYS: %[[ROWS:.*]] = arith.muli %[[TOKENS]], %[[HEADS]]
// PAYS: %[[PARTIALS:.*]] = arith.muli %[[ROWS]], %[[S]]
// PAYS: %[[PAYS:.*]] = arith.cmpi sgt, %[[AFFORDED]], %[[PARTIALS]]
// PAYS: %[[UNIT:.*]] = arith.constant 1 : index
// PAYS: %[[N:.*]] = arith.select %[[PAYS]], %[[S]], %[[UNIT]]
// PAYS: arith.cmpi sgt, %[[N]]
// PAYS: mla.sparse_attention {{.*}} splits %[[N]]
// LISTS-LABEL: func @decode
// LISTS-NOT: splits
// LISTS: return
// LISTS-LABEL: func @lists
// LISTS: mla.sparse_attention {{.*}} splits
func.func @lists(%q: tensor<?x20x32xbf16>, %qp: tensor<?x20x8xbf16>, %rows: tensor<?x2048xi32>, %len: tensor<?xi32>,
    %sink: tensor<20xf32>, %cache: !cache, %batch: !mla.batch) -> (tensor<?x20x32xbf16>, tensor<?x20xf32>) {
  %0, %1 = mla.sparse_attention query(%q, %qp : tensor<?x20x32xbf16>, tensor<?x20x8xbf16>) rows(%rows : tensor<?x2048xi32>)
      lengths(%len : tensor<?xi32>) sink(%sink : tensor<20xf32>) over %cache, %batch : !cache, !mla.batch scale 0.2
      -> tensor<?x20x32xbf16> max_logits tensor<?x20xf32>
  return %0, %1 : tensor<?x20x32xbf16>, tensor<?x20xf32>
}

// A workspace has no batch to count programs of.
// CHECK-LABEL: func @workspace
// CHECK-NOT: splits
// CHECK: return
func.func @workspace(%q: tensor<?x20x32xbf16>, %rows: tensor<?x2048xi32>, %keys: tensor<?x32xbf16>) -> tensor<?x20x32xbf16> {
  %0 = mla.sparse_attention query(%q : tensor<?x20x32xbf16>) rows(%rows : tensor<?x2048xi32>)
      keys(%keys : tensor<?x32xbf16>) scale 0.2 -> tensor<?x20x32xbf16>
  return %0 : tensor<?x20x32xbf16>
}
