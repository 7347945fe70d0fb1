// B06: queries on latents are made ahead of the branch that attends with them, under its condition.
//
// RUN: mla-opt %s --mla-hoist-queries | FileCheck %s
// RUN: mla-opt %s --mla-hoist-queries --mla-hoist-queries | FileCheck %s

!cache = !mla.cache<page_size = 4, fields = [latent: 32, rope: 8], element = bf16, rope_order = interleaved>
!rows = tensor<?x24xi32>
!qn = tensor<?x4x16xbf16>
!qp = tensor<?x4x8xbf16>
!ql = tensor<?x4x32xbf16>

// Where neither condition holds, behind both and ahead of the selection.
// CHECK-LABEL: func @nested
// CHECK-SAME: %[[QN:[a-z0-9]+]]: tensor<?x4x16xbf16>
// CHECK: %[[ALL:.*]] = arith.cmpi sle, %{{.*}}, %c24
// CHECK: %[[FEW:.*]] = arith.cmpi sle, %{{.*}}, %c9
// CHECK: %[[EITHER:.*]] = arith.ori %[[FEW]], %[[ALL]]
// CHECK: %[[Q:.*]] = scf.if %[[EITHER]] -> (tensor<?x4x32xbf16>) {
// CHECK-NEXT: tensor.empty
// CHECK: } else {
// CHECK-NEXT: mla.head_project %[[QN]], %{{.*}} contract_rows
// CHECK: mla.top_k
// CHECK: scf.if %[[ALL]]
// CHECK: scf.if %[[FEW]]
// CHECK: mla.sparse_attention query(%[[Q]], %{{.*}})
func.func @nested(%qn: !qn, %qp: !qp, %uk: tensor<4x16x32xbf16>, %scores: tensor<?x?xf32>, %none: !ql, %cache: !cache, %batch: !mla.batch) -> !ql attributes {mla.decode_threshold = 1 : i64} {
  %c24 = arith.constant 24 : index
  %c9 = arith.constant 9 : index
  %keys = mla.batch_dim %batch "max_seq_len" : !mla.batch
  %all = arith.cmpi sle, %keys, %c24 : index
  %few = arith.cmpi sle, %keys, %c9 : index
  %selected = mla.top_k %scores over %batch k 24 : tensor<?x?xf32>, !mla.batch -> !rows
  %o = scf.if %all -> (!ql) {
    scf.yield %none : !ql
  } else {
    %p = scf.if %few -> (!ql) {
      scf.yield %none : !ql
    } else {
      %q = mla.head_project %qn, %uk contract_rows : !qn, tensor<4x16x32xbf16> -> !ql
      %rows = mla.convert_indices %selected in %cache, %batch : !rows in !cache, !mla.batch
      %a = mla.sparse_attention query(%q, %qp : !ql, !qp) rows(%rows : !rows) over %cache, %batch : !cache, !mla.batch scale 0.2 -> !ql
      scf.yield %a : !ql
    }
    scf.yield %p : !ql
  }
  return %o : !ql
}

// Not of a condition that is known behind the selection only, nor out of a branch's first region, nor what is in no
// branch, nor in steps of prompts alone.
// CHECK-LABEL: func @late
// CHECK: scf.if
// CHECK: } else {
// CHECK-NEXT: mla.head_project
// CHECK-LABEL: func @first
// CHECK: scf.if
// CHECK-NEXT: mla.head_project
// CHECK-LABEL: func @plain
// CHECK-NOT: scf.if
// CHECK-LABEL: func @prompts
// CHECK: scf.if
// CHECK: } else {
// CHECK-NEXT: mla.head_project
func.func @late(%qn: !qn, %qp: !qp, %uk: tensor<4x16x32xbf16>, %scores: tensor<?x?xf32>, %none: !ql, %cache: !cache, %batch: !mla.batch) -> !ql attributes {mla.decode_threshold = 1 : i64} {
  %c24 = arith.constant 24 : index
  %selected = mla.top_k %scores over %batch k 24 : tensor<?x?xf32>, !mla.batch -> !rows
  %keys = mla.batch_dim %batch "max_seq_len" : !mla.batch
  %all = arith.cmpi sle, %keys, %c24 : index
  %o = scf.if %all -> (!ql) {
    scf.yield %none : !ql
  } else {
    %q = mla.head_project %qn, %uk contract_rows : !qn, tensor<4x16x32xbf16> -> !ql
    %rows = mla.convert_indices %selected in %cache, %batch : !rows in !cache, !mla.batch
    %a = mla.sparse_attention query(%q, %qp : !ql, !qp) rows(%rows : !rows) over %cache, %batch : !cache, !mla.batch scale 0.2 -> !ql
    scf.yield %a : !ql
  }
  return %o : !ql
}
func.func @first(%qn: !qn, %qp: !qp, %uk: tensor<4x16x32xbf16>, %selected: !rows, %none: !ql, %all: i1, %cache: !cache, %batch: !mla.batch) -> !ql attributes {mla.decode_threshold = 1 : i64} {
  %o = scf.if %all -> (!ql) {
    %q = mla.head_project %qn, %uk contract_rows : !qn, tensor<4x16x32xbf16> -> !ql
    %rows = mla.convert_indices %selected in %cache, %batch : !rows in !cache, !mla.batch
    %a = mla.sparse_attention query(%q, %qp : !ql, !qp) rows(%rows : !rows) over %cache, %batch : !cache, !mla.batch scale 0.2 -> !ql
    scf.yield %a : !ql
  } else {
    scf.yield %none : !ql
  }
  return %o : !ql
}
func.func @plain(%qn: !qn, %qp: !qp, %uk: tensor<4x16x32xbf16>, %selected: !rows, %cache: !cache, %batch: !mla.batch) -> !ql attributes {mla.decode_threshold = 1 : i64} {
  %q = mla.head_project %qn, %uk contract_rows : !qn, tensor<4x16x32xbf16> -> !ql
  %rows = mla.convert_indices %selected in %cache, %batch : !rows in !cache, !mla.batch
  %a = mla.sparse_attention query(%q, %qp : !ql, !qp) rows(%rows : !rows) over %cache, %batch : !cache, !mla.batch scale 0.2 -> !ql
  return %a : !ql
}
func.func @prompts(%qn: !qn, %qp: !qp, %uk: tensor<4x16x32xbf16>, %selected: !rows, %none: !ql, %all: i1, %cache: !cache, %batch: !mla.batch) -> !ql {
  %o = scf.if %all -> (!ql) {
    scf.yield %none : !ql
  } else {
    %q = mla.head_project %qn, %uk contract_rows : !qn, tensor<4x16x32xbf16> -> !ql
    %rows = mla.convert_indices %selected in %cache, %batch : !rows in !cache, !mla.batch
    %a = mla.sparse_attention query(%q, %qp : !ql, !qp) rows(%rows : !rows) over %cache, %batch : !cache, !mla.batch scale 0.2 -> !ql
    scf.yield %a : !ql
  }
  return %o : !ql
}
