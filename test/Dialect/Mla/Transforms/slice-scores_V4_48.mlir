// An indexer's scores of all tokens and keys are made and selected from in slices of the tokens. A slice has
// as many tiles of 64 rows as the budget has with the step's longest request, whose rows are of four tokens each.
//
// RUN: mla-opt %s --mla-slice-scores="budget=262144" | FileCheck %s
// RUN: mla-opt %s --mla-slice-scores="budget=1" | FileCheck %s --check-prefix=LEAST
// RUN: not mla-opt %s --mla-slice-scores="budget=0" 2>&1 | FileCheck %s --check-prefix=BUDGET

// BUDGET: mla-slice-scores: expected a budget of at least 1 byte, got 0

!keys = !mla.cache<page_size = 64, fields = [index: 128], element = bf16, format = "index_k", scale_rule = power_of_two, tokens_per_row = 4>
!q = tensor<?x8x128xf8E4M3FN>
!w = tensor<?x8xf32>
!selected = tensor<?x16xi32>

// CHECK-LABEL: func @prefill
// CHECK-SAME: %[[Q:.*]]: tensor<?x8x128xf8E4M3FN>, %[[W:.*]]: tensor<?x8xf32>, %[[LENGTHS:.*]]: tensor<?xi32>, %[[KEYS:[a-z0-9]+]]: !mla.cache<{{.*}}>, %[[BATCH:.*]]: !mla.batch
// CHECK: %[[TOKENS:.*]] = mla.batch_dim %[[BATCH]] "num_tokens"
// CHECK: %[[LONGEST:.*]] = mla.batch_dim %[[BATCH]] "max_seq_len"
// CHECK: %[[TILE:.*]] = arith.constant 256 : index
// CHECK: %[[TILES:.*]] = arith.ceildivsi %[[LONGEST]], %[[TILE]]
// CHECK: %[[COLUMNS:.*]] = arith.maxsi %[[TILES]], %c1
// CHECK: %[[MOST:.*]] = arith.constant 16 : index
// CHECK: %[[FIT:.*]] = arith.divsi %[[MOST]], %[[COLUMNS]]
// CHECK: %[[NEEDED:.*]] = arith.ceildivsi %[[TOKENS]], %c64
// CHECK: %[[SOME:.*]] = arith.minsi %[[FIT]], %[[NEEDED]]
// CHECK: %[[KEPT:.*]] = arith.maxsi %[[SOME]], %c1
// CHECK: %[[ROWS:.*]] = arith.muli %[[KEPT]], %c64
// CHECK: %[[SLICES:.*]] = arith.ceildivsi %[[TOKENS]], %[[ROWS]]
// CHECK: %[[NONE:.*]] = tensor.empty(%[[TOKENS]]) : tensor<?x16xi32>
// CHECK: %[[RESULT:.*]] = scf.for %[[I:.*]] = %{{.*}} to %[[SLICES]] step %{{.*}} iter_args(%[[BEFORE:.*]] = %[[NONE]])
// CHECK:   %[[FIRST:.*]] = arith.muli %[[I]], %[[ROWS]]
// CHECK:   %[[PART:.*]] = mla.index_scores query(%[[Q]] : {{.*}}) weights(%[[W]] : {{.*}}) over %[[KEYS]], %[[BATCH]] from %[[FIRST]] rows %[[ROWS]] : {{.*}} -> tensor<?x?xf32>
// CHECK:   mla.top_k %[[PART]] lengths(%[[LENGTHS]] : tensor<?xi32>) over %[[BATCH]] from %[[FIRST]] onto(%[[BEFORE]] : tensor<?x16xi32>) k 16
// CHECK: return %[[RESULT]]

// LEAST-LABEL: func @prefill
// LEAST: arith.constant 0 : index
// LEAST: arith.divsi
func.func @prefill(%q: !q, %w: !w, %len: tensor<?xi32>, %keys: !keys, %batch: !mla.batch) -> !selected {
  %s = mla.index_scores query(%q : !q) weights(%w : !w) over %keys, %batch : !keys, !mla.batch -> tensor<?x?xf32>
  %t = mla.top_k %s lengths(%len : tensor<?xi32>) over %batch k 16 : tensor<?x?xf32>, !mla.batch -> !selected
  return %t : !selected
}

// Few tokens of each request; scores that are a result, too.
// CHECK-LABEL: func @decode
// CHECK-NOT: scf.for
func.func @decode(%q: !q, %w: !w, %keys: !keys, %batch: !mla.batch<query_len = 1>) -> !selected {
  %s = mla.index_scores query(%q : !q) weights(%w : !w) over %keys, %batch : !keys, !mla.batch<query_len = 1> -> tensor<?x?xf32>
  %t = mla.top_k %s over %batch k 16 : tensor<?x?xf32>, !mla.batch<query_len = 1> -> !selected
  return %t : !selected
}
func.func @kept(%q: !q, %w: !w, %keys: !keys, %batch: !mla.batch) -> (!selected, tensor<?x?xf32>) {
  %s = mla.index_scores query(%q : !q) weights(%w : !w) over %keys, %batch : !keys, !mla.batch -> tensor<?x?xf32>
  %t = mla.top_k %s over %batch k 16 : tensor<?x?xf32>, !mla.batch -> !selected
  return %t, %s : !selected, tensor<?x?xf32>
}
