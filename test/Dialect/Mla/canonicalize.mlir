// RUN: mla-opt %s --canonicalize | FileCheck %s

!cache = !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved>
!lse = tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
!lse_splits = tensor<?x?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
!lse_two = tensor<16x?xf32, #mla.lse<base = two, layout = head_major, empty = pos_inf>>
!partial = tensor<?x16x128xf32>

// CHECK-LABEL: func @static_dims
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[TWO:.*]] = arith.constant 2 : index
// CHECK-DAG: %[[SEVEN:.*]] = arith.constant 7 : index
// CHECK-DAG: %[[NINE:.*]] = arith.constant 9 : index
// CHECK: return %[[TWO]], %[[SEVEN]], %[[NINE]], %[[ZERO]], %[[ZERO]], %[[ZERO]], %[[ZERO]]
func.func @static_dims(%a: !mla.batch<query_len = 2, context_len = 7>, %b: !mla.batch<context_len = 0>)
    -> (index, index, index, index, index, index, index) {
  %0 = mla.batch_dim %a "max_query_len" : !mla.batch<query_len = 2, context_len = 7>
  %1 = mla.batch_dim %a "max_context_len" : !mla.batch<query_len = 2, context_len = 7>
  %2 = mla.batch_dim %a "max_seq_len" : !mla.batch<query_len = 2, context_len = 7>
  %3 = mla.batch_dim %b "total_context_len" : !mla.batch<context_len = 0>
  %4 = mla.batch_dim %b "num_chunks" : !mla.batch<context_len = 0>
  %5 = mla.batch_dim %b "num_context_requests" : !mla.batch<context_len = 0>
  %6 = mla.batch_dim %b "chunk_tokens" : !mla.batch<context_len = 0>
  return %0, %1, %2, %3, %4, %5, %6 : index, index, index, index, index, index, index
}

// Totals depend on the number of requests; dynamic lengths fold nothing.
// CHECK-LABEL: func @dynamic_dims
// CHECK: mla.batch_dim %{{.*}} "total_context_len"
// CHECK: mla.batch_dim %{{.*}} "num_chunks"
// CHECK: mla.batch_dim %{{.*}} "max_query_len"
// CHECK: mla.batch_dim %{{.*}} "max_seq_len"
func.func @dynamic_dims(%a: !mla.batch<query_len = 2, context_len = 7>, %b: !mla.batch<context_len = 0>)
    -> (index, index, index, index) {
  %0 = mla.batch_dim %a "total_context_len" : !mla.batch<query_len = 2, context_len = 7>
  %1 = mla.batch_dim %a "num_chunks" : !mla.batch<query_len = 2, context_len = 7>
  %2 = mla.batch_dim %b "max_query_len" : !mla.batch<context_len = 0>
  %3 = mla.batch_dim %b "max_seq_len" : !mla.batch<context_len = 0>
  return %0, %1, %2, %3 : index, index, index, index
}

// CHECK-LABEL: func @convert_lse_to_itself
// CHECK-SAME: %[[LSE:.*]]: tensor
// CHECK: return %[[LSE]], %[[LSE]]
func.func @convert_lse_to_itself(%lse: !lse) -> (!lse, !lse) {
  %0 = mla.convert_lse %lse : !lse -> !lse
  %1 = mla.convert_lse %lse : !lse -> !lse_two
  %2 = mla.convert_lse %1 : !lse_two -> !lse
  return %0, %2 : !lse, !lse
}

// CHECK-LABEL: func @unused_lse
// CHECK: mla.expanded_attention {{.*}} -> tensor<?x16x128xf32>{{$}}
// CHECK: mla.absorbed_attention {{.*}} {hint = 1 : i32} -> tensor<?x16x512xbf16>{{$}}
// CHECK: mla.merge_splits {{.*}} -> tensor<?x16x512xbf16>{{$}}
func.func @unused_lse(%q: tensor<?x16x128xbf16>, %q_lat: tensor<?x16x512xbf16>, %cache: !cache, %batch: !mla.batch,
                      %i: index) -> (!partial, tensor<?x16x512xbf16>, tensor<?x16x512xbf16>) {
  %0, %lse0 = mla.expanded_attention query(%q : tensor<?x16x128xbf16>) keys(%q : tensor<?x16x128xbf16>)
      values(%q : tensor<?x16x128xbf16>) over %batch : !mla.batch scale 0.5 -> !partial, !lse
  %1, %lse1 = mla.absorbed_attention query(%q_lat : tensor<?x16x512xbf16>) over %cache, %batch : !cache, !mla.batch
      scale 0.5 {hint = 1 : i32} -> tensor<?x16x512xbf16>, !lse
  %2, %lse2 = mla.absorbed_attention query(%q_lat : tensor<?x16x512xbf16>) over %cache, %batch : !cache, !mla.batch
      splits %i scale 0.5 -> tensor<?x?x16x512xf32>, !lse_splits
  %3, %lse3 = mla.merge_splits %2, %lse2 : tensor<?x?x16x512xf32>, !lse_splits -> tensor<?x16x512xbf16>, !lse
  return %0, %1, %3 : !partial, tensor<?x16x512xbf16>, tensor<?x16x512xbf16>
}

// Of splits the LSE stays; maxima that the merge does not read go with it.
// CHECK-LABEL: func @unused_results_of_lists
// CHECK: mla.sparse_attention {{.*}} -> tensor<?x16x512xbf16> max_logits tensor<?x16xf32>{{$}}
// CHECK: %[[P:.*]], %[[L:.*]] = mla.sparse_attention {{.*}} splits {{.*}} -> tensor<?x?x16x512xf32> lse tensor<?x?x16xf32, #mla.lse<{{.*}}>>{{$}}
// CHECK: mla.merge_splits %[[P]], %[[L]] {{.*}} -> tensor<?x16x512xbf16>{{$}}
func.func @unused_results_of_lists(%q: tensor<?x16x512xbf16>, %rows: tensor<?x64xi32>, %cache: !cache, %batch: !mla.batch,
    %i: index) -> (tensor<?x16x512xbf16>, tensor<?x16xf32>, tensor<?x16x512xbf16>) {
  %0, %lse0, %max0 = mla.sparse_attention query(%q : tensor<?x16x512xbf16>) rows(%rows : tensor<?x64xi32>)
      over %cache, %batch : !cache, !mla.batch scale 0.5 -> tensor<?x16x512xbf16> lse !lse max_logits tensor<?x16xf32>
  %1, %lse1, %max1 = mla.sparse_attention query(%q : tensor<?x16x512xbf16>) rows(%rows : tensor<?x64xi32>)
      over %cache, %batch : !cache, !mla.batch splits %i scale 0.5
      -> tensor<?x?x16x512xf32> lse !lse_splits max_logits tensor<?x?x16xf32>
  %2, %lse2 = mla.merge_splits %1, %lse1 : tensor<?x?x16x512xf32>, !lse_splits -> tensor<?x16x512xbf16>, !lse
  return %0, %max0, %2 : tensor<?x16x512xbf16>, tensor<?x16xf32>, tensor<?x16x512xbf16>
}

// CHECK-LABEL: func @merge_with_empty
// CHECK: %[[OUTPUT:.*]], %[[LSE:.*]] = mla.expanded_attention
// CHECK-NOT: mla.merge
// CHECK: return %[[OUTPUT]], %[[LSE]], %[[OUTPUT]]
func.func @merge_with_empty(%q: tensor<?x16x128xbf16>, %batch: !mla.batch) -> (!partial, !lse, !partial) {
  %e, %e_lse = mla.empty_partial %batch : !mla.batch -> !partial, !lse
  %o, %o_lse = mla.expanded_attention query(%q : tensor<?x16x128xbf16>) keys(%q : tensor<?x16x128xbf16>)
      values(%q : tensor<?x16x128xbf16>) over %batch : !mla.batch scale 0.5 -> !partial, !lse
  %0, %m_lse = mla.merge %e, %e_lse with %o, %o_lse : !partial, !lse with !partial, !lse -> !partial, !lse
  %1 = mla.merge %o, %o_lse with %e, %e_lse : !partial, !lse with !partial, !lse -> !partial
  return %0, %m_lse, %1 : !partial, !lse, !partial
}

// Going on from nothing is starting.
// CHECK-LABEL: func @onto_empty
// CHECK-NOT: mla.empty_partial
// CHECK: mla.expanded_attention
// CHECK-NOT: onto
// CHECK-SAME: -> tensor<?x16x128xbf16>
func.func @onto_empty(%q: tensor<?x16x128xbf16>, %batch: !mla.batch) -> tensor<?x16x128xbf16> {
  %e, %e_lse = mla.empty_partial %batch : !mla.batch -> !partial, !lse
  %o = mla.expanded_attention query(%q : tensor<?x16x128xbf16>) keys(%q : tensor<?x16x128xbf16>)
      values(%q : tensor<?x16x128xbf16>) over %batch : !mla.batch onto(%e, %e_lse : !partial, !lse)
      scale 0.5 -> tensor<?x16x128xbf16>
  return %o : tensor<?x16x128xbf16>
}

// A merge that converts the type, or that defines the rows of a partial whose
// empty rows may hold anything, stays.
// CHECK-LABEL: func @merge_stays
// CHECK-COUNT-2: mla.merge
func.func @merge_stays(%q: tensor<?x16x128xbf16>, %x: !partial, %x_lse: !lse, %batch: !mla.batch)
    -> (tensor<?x16x128xbf16>, !partial) {
  %e, %e_lse = mla.empty_partial %batch : !mla.batch -> !partial, !lse
  %o, %o_lse = mla.expanded_attention query(%q : tensor<?x16x128xbf16>) keys(%q : tensor<?x16x128xbf16>)
      values(%q : tensor<?x16x128xbf16>) over %batch : !mla.batch scale 0.5 -> !partial, !lse
  %0 = mla.merge %e, %e_lse with %o, %o_lse : !partial, !lse with !partial, !lse -> tensor<?x16x128xbf16>
  %1 = mla.merge %e, %e_lse with %x, %x_lse : !partial, !lse with !partial, !lse -> !partial
  return %0, %1 : tensor<?x16x128xbf16>, !partial
}
