// B40: where no request has more keys than are selected, nothing is scored and attention is dense.
//
// RUN: mla-opt %s --mla-skip-selection | FileCheck %s
// RUN: mla-opt %s --mla-skip-selection --mla-skip-selection | FileCheck %s
// RUN: not mla-opt %s --mla-skip-selection=most-latent=-1 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// NEGATIVE: mla-skip-selection: expected most-latent >= 0, got -1
// RUN: mla-opt %s --mla-skip-selection=most-latent=16 | FileCheck %s --check-prefix=WIDE

!cache = !mla.cache<page_size = 4, fields = [latent: 32, rope: 8], element = bf16, rope_order = interleaved>
!index = !mla.cache<page_size = 4, fields = [index: 128], element = bf16, rope_order = half, format = "index_k", scale_rule = power_of_two>
!decodes = !mla.batch<query_len = 1>
!codes = tensor<?x4x128xf8E4M3FN>
!w = tensor<?x4xf32>
!rows = tensor<?x24xi32>
!ql = tensor<?x4x32xbf16>
!qp = tensor<?x4x8xbf16>

// Decodes: the list and what makes it where it can matter, ahead of the queries; projections stay.
// CHECK-LABEL: func @decode
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<?x4x128xf8E4M3FN>, %[[W:[a-z0-9]+]]: tensor<?x4xf32>, %[[QN:[a-z0-9]+]]: tensor<?x4x16xbf16>
// CHECK: %[[LONGEST:.*]] = mla.batch_dim %{{.*}} "max_seq_len"
// CHECK: %[[ALL:.*]] = arith.cmpi sle, %[[LONGEST]], %c24
// CHECK: %[[ROWS:.*]] = scf.if %[[ALL]] -> (tensor<?x24xi32>) {
// CHECK-NEXT: tensor.empty
// CHECK-NEXT: scf.yield
// CHECK-NEXT: } else {
// CHECK-NEXT: mla.index_scores query(%[[Q]]
// CHECK-NEXT: mla.top_k
// CHECK-NEXT: mla.convert_indices
// CHECK-NEXT: scf.yield
// CHECK-NEXT: }
// CHECK-NEXT: %[[QL:.*]] = mla.head_project %[[QN]]
// CHECK-NEXT: %[[O:.*]] = scf.if %[[ALL]] -> (tensor<?x4x32xbf16>) {
// CHECK-NEXT: mla.absorbed_attention query(%[[QL]], %{{.*}}) over %{{.*}} scale 2.000000e-01
// CHECK-NEXT: scf.yield
// CHECK-NEXT: } else {
// CHECK-NEXT: mla.sparse_attention query(%[[QL]], %{{.*}}) rows(%[[ROWS]]
// CHECK-NEXT: scf.yield
// CHECK-NEXT: }
// CHECK-NEXT: return %[[O]]
// WIDE-LABEL: func @decode
// WIDE-NOT: scf.if
// WIDE: return
func.func @decode(%q: !codes, %w: !w, %qn: tensor<?x4x16xbf16>, %qp: !qp, %uk: tensor<4x16x32xbf16>, %cache: !cache, %index: !index, %batch: !decodes) -> !ql {
  %scores = mla.index_scores query(%q : !codes) weights(%w : !w) over %index, %batch : !index, !decodes -> tensor<?x?xf32>
  %selected = mla.top_k %scores over %batch k 24 : tensor<?x?xf32>, !decodes -> !rows
  %ql = mla.head_project %qn, %uk contract_rows : tensor<?x4x16xbf16>, tensor<4x16x32xbf16> -> !ql
  %rows = mla.convert_indices %selected in %cache, %batch : !rows in !cache, !decodes
  %o = mla.sparse_attention query(%ql, %qp : !ql, !qp) rows(%rows : !rows) over %cache, %batch : !cache, !decodes scale 0.2 -> !ql
  return %o : !ql
}

// Prompts, whose form is still open: without context, over their own rows.
// CHECK-LABEL: func @prefill
// CHECK: %[[FEW:.*]] = arith.cmpi sle, %{{.*}}, %c24
// CHECK: %[[CACHED:.*]] = mla.batch_dim %{{.*}} "total_context_len"
// CHECK: %[[NONE:.*]] = arith.cmpi sle, %[[CACHED]], %c0
// CHECK: %[[ALL:.*]] = arith.andi %[[FEW]], %[[NONE]]
// CHECK: %[[SELECTED:.*]] = scf.if %[[ALL]] -> (tensor<?x24xi32>) {
// CHECK-NEXT: tensor.empty
// CHECK: mla.index_scores
// CHECK-NEXT: mla.top_k
// CHECK: scf.if %[[ALL]] -> (tensor<?x4x24xbf16>) {
// CHECK-NEXT: %[[K:.*]] = mla.project %[[C:.*]], %{{.*}} : tensor<?x32xbf16>, tensor<4x16x32xbf16>
// CHECK-NEXT: %[[V:.*]] = mla.project %[[C]], %{{.*}} : tensor<?x32xbf16>, tensor<4x24x32xbf16>
// CHECK-NEXT: mla.expanded_attention query(%{{.*}}) keys(%[[K]], %{{.*}}) values(%[[V]]
// CHECK: } else {
// CHECK-NEXT: mla.attention {{.*}} selected(%[[SELECTED]]
func.func @prefill(%q: !codes, %w: !w, %qn: tensor<?x4x16xbf16>, %qp: !qp, %c: tensor<?x32xbf16>, %kp: tensor<?x8xbf16>, %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>,
    %cache: !cache, %index: !index, %batch: !mla.batch) -> tensor<?x4x24xbf16> {
  %scores = mla.index_scores query(%q : !codes) weights(%w : !w) over %index, %batch : !index, !mla.batch -> tensor<?x?xf32>
  %selected = mla.top_k %scores over %batch k 24 : tensor<?x?xf32>, !mla.batch -> !rows
  %o = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, !qp) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch
      selected(%selected : !rows) scale 0.2 -> tensor<?x4x24xbf16>
  return %o : tensor<?x4x24xbf16>
}

// Not a selection that something else reads, nor one of a caller; not in steps of decodes and prompts.
// CHECK-LABEL: func @given
// CHECK-NOT: scf.if
// CHECK-LABEL: func @kept
// CHECK-NOT: scf.if
// CHECK-LABEL: func @step
// CHECK-NOT: scf.if
func.func @given(%ql: !ql, %qp: !qp, %selected: !rows, %cache: !cache, %batch: !decodes) -> !ql {
  %rows = mla.convert_indices %selected in %cache, %batch : !rows in !cache, !decodes
  %o = mla.sparse_attention query(%ql, %qp : !ql, !qp) rows(%rows : !rows) over %cache, %batch : !cache, !decodes scale 0.2 -> !ql
  return %o : !ql
}
func.func @kept(%q: !codes, %w: !w, %ql: !ql, %qp: !qp, %cache: !cache, %index: !index, %batch: !decodes) -> (!ql, !rows) {
  %scores = mla.index_scores query(%q : !codes) weights(%w : !w) over %index, %batch : !index, !decodes -> tensor<?x?xf32>
  %selected = mla.top_k %scores over %batch k 24 : tensor<?x?xf32>, !decodes -> !rows
  %rows = mla.convert_indices %selected in %cache, %batch : !rows in !cache, !decodes
  %o = mla.sparse_attention query(%ql, %qp : !ql, !qp) rows(%rows : !rows) over %cache, %batch : !cache, !decodes scale 0.2 -> !ql
  return %o, %selected : !ql, !rows
}
func.func @step(%q: !codes, %w: !w, %qn: tensor<?x4x16xbf16>, %qp: !qp, %c: tensor<?x32xbf16>, %kp: tensor<?x8xbf16>, %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>,
    %cache: !cache, %index: !index, %batch: !mla.batch) -> tensor<?x4x24xbf16> attributes {mla.decode_threshold = 1 : i64} {
  %scores = mla.index_scores query(%q : !codes) weights(%w : !w) over %index, %batch : !index, !mla.batch -> tensor<?x?xf32>
  %selected = mla.top_k %scores over %batch k 24 : tensor<?x?xf32>, !mla.batch -> !rows
  %o = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, !qp) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch
      selected(%selected : !rows) scale 0.2 -> tensor<?x4x24xbf16>
  return %o : tensor<?x4x24xbf16>
}
