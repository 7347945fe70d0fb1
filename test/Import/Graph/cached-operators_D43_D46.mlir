// RUN: mla-opt %s --split-input-file --mla-cache-attention="attention=PagedMultiHead page-size=16" -verify-diagnostics=all 2>&1 | FileCheck %s --check-prefixes=CHECK,PAGED
// RUN: mla-opt %s --split-input-file --mla-cache-attention="attention=MultiHead" -verify-diagnostics=all 2>&1 | FileCheck %s --check-prefixes=CHECK,ROWS
// RUN: not mla-opt %s --split-input-file --mla-cache-attention="attention=TritonWithFlattenedInputs" 2>&1 | FileCheck %s --check-prefix=PLAIN
// RUN: not mla-opt %s --split-input-file --mla-cache-attention="attention=Other" 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: error: option attention is 'Other', expected one of Packaged, MultiHead, TritonWithFlattenedInputs, PagedMultiHead, MultiHeadLatent

// Operators of descriptors: rows, metadata of the graph's tokens, caches of each node, one buffer of
// all, constants. The second attention is AutoDeploy's canonical node.

// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[IDS:[a-z0-9]+]]: tensor<?x?xi64> {graph.input = "input_ids"}
// CHECK-SAME: %[[LEN:[a-z0-9]+]]: tensor<?xi32> {graph.input = "seq_len"}, %[[POS:[a-z0-9]+]]: tensor<?xi32> {graph.input = "input_pos"}, %[[LOC:[a-z0-9]+]]: tensor<?xi32> {graph.input = "cache_loc"}, %[[PAGES:[a-z0-9]+]]: tensor<?xi32> {graph.input = "pages_per_seq"}
// CHECK-SAME: %[[K0:[a-z0-9]+]]: tensor<?x?x2x16xf32> {graph.input = "k_cache_0"}, %[[V0:[a-z0-9]+]]: tensor<?x?x2x8xf32> {graph.input = "v_cache_0"}
// PAGED-SAME: %[[FREQS:[a-z0-9]+]]: tensor<0xf32> {graph.input = "freqs_cis_None_10000_0_1_0"}
// CHECK-SAME: %[[K1:[a-z0-9]+]]: tensor<?x?x4x16xf32> {graph.input = "k_cache_1"}, %[[V1:[a-z0-9]+]]: tensor<?x?x4x16xf32> {graph.input = "v_cache_1"}
// CHECK-NOT: freqs_cis
// PAGED: %[[M:.*]], %[[M0:.*]], %[[M1:.*]], %[[M2:.*]], %[[M3:.*]] = graph.node "mlac.prepare_paged_metadata.default"(%[[IDS]], %[[LEN]], %[[POS]], %[[LOC]], %[[PAGES]]) {cache_loc = #graph.in<3>, input_ids = #graph.in<0>, input_pos = #graph.in<2>, page_size = 16 : i64, pages_per_seq = #graph.in<4>, seq_len = #graph.in<1>}
// ROWS: %[[M:.*]], %[[M0:.*]], %[[M1:.*]], %[[M2:.*]] = graph.node "attention.prepare_fused_mha_metadata.default"(%[[IDS]], %[[LEN]], %[[POS]], %[[LOC]], %[[PAGES]]) {{{.*}}page_size = 64 : i64
// CHECK-NOT: _metadata.default
// CHECK: %[[Q:.*]] = graph.node "aten.permute.default"
// CHECK: %[[K:.*]] = graph.node "aten.permute.default"
// CHECK: %[[V:.*]] = graph.node "aten.permute.default"
// PAGED: %[[O:.*]] = graph.node "mlac.paged_mha_with_cache.default"(%[[Q]], %[[K]], %[[V]], %[[M]], %[[M0]], %[[M1]], %[[M2]], %[[M3]], %[[K0]], %[[V0]], %[[FREQS]]) {cache_loc = #graph.in<5>, freqs_cis = #graph.in<10>, input_pos = #graph.in<4>, k = #graph.in<1>, k_cache = #graph.in<8>, page_table = #graph.in<7>, q = #graph.in<0>, scale = 2.500000e-01 : f64, seq_len = #graph.in<3>, seq_start = #graph.in<6>, softcap = 0.000000e+00 : f64, v = #graph.in<2>, v_cache = #graph.in<9>, window = 0 : i64}
// ROWS: %[[O:.*]] = graph.node "attention.flattened_mha_with_cache.default"(%[[Q]], %[[K]], %[[V]], %[[M]], %[[M0]], %[[M1]], %[[M2]], %[[K0]], %[[V0]]) {cache_loc = #graph.in<5>, input_pos = #graph.in<4>, k = #graph.in<1>, k_cache = #graph.in<7>, q = #graph.in<0>, scale = 2.500000e-01 : f64, seq_len = #graph.in<3>, seq_start = #graph.in<6>, softcap = 0.000000e+00 : f64, v = #graph.in<2>, v_cache = #graph.in<8>, window = 0 : i64}
// CHECK-SAME: -> tensor<?x?x32xf32>
// CHECK: %[[H:.*]] = graph.node "aten.unflatten.int"(%[[O]]) {dim = -1 : i64, self = #graph.in<0>, sizes = [4, 8]} {{.*}} -> tensor<?x?x4x8xf32>
// CHECK: graph.node "aten.permute.default"(%[[H]]) {dims = [0, 2, 1, 3], self = #graph.in<0>}
// PAGED: graph.node "mlac.paged_mha_with_cache.default"({{.*}}, %[[M]], %[[M0]], %[[M1]], %[[M2]], %[[M3]], %[[K1]], %[[V1]], %[[FREQS]])
// ROWS: graph.node "attention.flattened_mha_with_cache.default"({{.*}}, %[[M]], %[[M0]], %[[M1]], %[[M2]], %[[K1]], %[[V1]])
// CHECK-SAME: scale = 5.000000e-01

// PLAIN: error: node 'attention_1' (attention.scaled_dot_product_attention.default) in layers.1: its attention has a scale of 0.500000, not 0.250000, which the operator of 'TritonWithFlattenedInputs' does not take
func.func @forward(%ids: tensor<?x?xi64> {graph.input = "input_ids"}, %q: tensor<?x4x?x16xf32> {graph.input = "query"},
    %k: tensor<?x2x?x16xf32> {graph.input = "key"}, %v: tensor<?x2x?x8xf32> {graph.input = "value"}) -> (tensor<?x4x?x8xf32>, tensor<?x4x?x16xf32>) {
  %k4 = graph.node "aten.repeat_interleave.self_int"(%k) {self = #graph.in<0>, repeats = 2 : i64, dim = 1 : i64} called "keys" : (tensor<?x2x?x16xf32>) -> tensor<?x4x?x16xf32>
  %v4 = graph.node "aten.repeat_interleave.self_int"(%v) {self = #graph.in<0>, repeats = 2 : i64, dim = 1 : i64} called "values" : (tensor<?x2x?x8xf32>) -> tensor<?x4x?x8xf32>
  %o = graph.node "aten.scaled_dot_product_attention.default"(%q, %k4, %v4) {query = #graph.in<0>, key = #graph.in<1>, value = #graph.in<2>, is_causal = true} called "attention_0" in "layers.0" : (tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>, tensor<?x4x?x8xf32>) -> tensor<?x4x?x8xf32>
  %p = graph.node "attention.scaled_dot_product_attention.default"(%q, %q, %q) {query = #graph.in<0>, key = #graph.in<1>, value = #graph.in<2>, is_causal = true, scale = 0.5 : f64} called "attention_1" in "layers.1" : (tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>) -> tensor<?x4x?x16xf32>
  return %o, %p : tensor<?x4x?x8xf32>, tensor<?x4x?x16xf32>
}
