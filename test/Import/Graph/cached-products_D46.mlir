// RUN: mla-opt %s --split-input-file --mla-cache-attention="attention=PagedMultiHead page-size=16" -verify-diagnostics=all 2>&1 | FileCheck %s

// Products of three dimensions, of whose first the batch is a factor: operands of the operator have
// both, and so has what stands for the second product. Sizes of views are products of sizes.

// CHECK-LABEL: func.func @forward
// CHECK: %[[Q3:.*]] = graph.node "aten.view.default"({{.*}} called "query_3"
// CHECK: %[[K3:.*]] = graph.node "aten.permute.default"({{.*}} called "key_turned"
// CHECK: %[[V3:.*]] = graph.node "aten.view.default"({{.*}} called "value_3"
// CHECK: %[[Q:.*]] = graph.node "aten.unflatten.int"(%[[Q3]]) {dim = 0 : i64, self = #graph.in<0>, sizes = [-1, 4]} {{.*}} -> tensor<?x4x?x16xf32>
// CHECK: graph.node "aten.permute.default"(%[[Q]]) {dims = [0, 2, 1, 3], self = #graph.in<0>}
// CHECK: %[[K:.*]] = graph.node "aten.unflatten.int"(%[[K3]]) {dim = 0 : i64, self = #graph.in<0>, sizes = [-1, 4]} {{.*}} -> tensor<?x4x16x?xf32>
// CHECK: graph.node "aten.permute.default"(%[[K]]) {dims = [0, 3, 1, 2], self = #graph.in<0>}
// CHECK: %[[V:.*]] = graph.node "aten.unflatten.int"(%[[V3]]) {dim = 0 : i64, self = #graph.in<0>, sizes = [-1, 4]} {{.*}} -> tensor<?x4x?x8xf32>
// CHECK: graph.node "mlac.paged_mha_with_cache.default"
// CHECK: %[[O:.*]] = graph.node "aten.permute.default"({{.*}} -> tensor<?x4x?x8xf32>
// CHECK: %[[J:.*]] = graph.node "aten.flatten.using_ints"(%[[O]]) {end_dim = 1 : i64, self = #graph.in<0>, start_dim = 0 : i64} {{.*}} : (tensor<?x4x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK: return %[[J]]
func.func @forward(%ids: tensor<?x?xi64> {graph.input = "input_ids"}, %q: tensor<?x4x?x16xf32> {graph.input = "query"},
    %k: tensor<?x4x?x16xf32> {graph.input = "key"}, %v: tensor<?x4x?x8xf32> {graph.input = "value"}) -> tensor<?x?x8xf32> {
  %b = graph.node "aten.sym_size.int"(%ids) {self = #graph.in<0>, dim = 0 : i64} called "batch" : (tensor<?x?xi64>) -> index
  %n = graph.node "aten.sym_size.int"(%ids) {self = #graph.in<0>, dim = 1 : i64} called "tokens" : (tensor<?x?xi64>) -> index
  %bh = graph.node "_operator.mul"(%b) {a = #graph.in<0>, b = 4 : i64} called "rows" : (index) -> index
  %q3 = graph.node "aten.view.default"(%q, %bh, %n) {self = #graph.in<0>, size = [#graph.in<1>, #graph.in<2>, 16]} called "query_3" : (tensor<?x4x?x16xf32>, index, index) -> tensor<?x?x16xf32>
  %k3 = graph.node "aten.view.default"(%k, %bh, %n) {self = #graph.in<0>, size = [#graph.in<1>, #graph.in<2>, 16]} called "key_3" : (tensor<?x4x?x16xf32>, index, index) -> tensor<?x?x16xf32>
  %kt = graph.node "aten.permute.default"(%k3) {self = #graph.in<0>, dims = [0, 2, 1]} called "key_turned" : (tensor<?x?x16xf32>) -> tensor<?x16x?xf32>
  %v3 = graph.node "aten.view.default"(%v, %bh, %n) {self = #graph.in<0>, size = [#graph.in<1>, #graph.in<2>, 8]} called "value_3" : (tensor<?x4x?x8xf32>, index, index) -> tensor<?x?x8xf32>
  %s = graph.node "aten.bmm.default"(%q3, %kt) {self = #graph.in<0>, mat2 = #graph.in<1>} called "scores" : (tensor<?x?x16xf32>, tensor<?x16x?xf32>) -> tensor<?x?x?xf32>
  %m = graph.node "aten.ones.default"(%n) {size = [#graph.in<0>, #graph.in<0>], dtype = "bool"} called "ones" : (index) -> tensor<?x?xi1>
  %t = graph.node "aten.tril.default"(%m) {self = #graph.in<0>} called "causal" : (tensor<?x?xi1>) -> tensor<?x?xi1>
  %u = graph.node "aten.logical_not.default"(%t) {self = #graph.in<0>} called "future" : (tensor<?x?xi1>) -> tensor<?x?xi1>
  %f = graph.node "aten.masked_fill.Scalar"(%s, %u) {self = #graph.in<0>, mask = #graph.in<1>, value = 0xFFF0000000000000 : f64} called "masked" : (tensor<?x?x?xf32>, tensor<?x?xi1>) -> tensor<?x?x?xf32>
  %w = graph.node "aten.softmax.int"(%f) {self = #graph.in<0>, dim = -1 : i64} called "weights" : (tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %o = graph.node "aten.bmm.default"(%w, %v3) {self = #graph.in<0>, mat2 = #graph.in<1>} called "output" : (tensor<?x?x?xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  return %o : tensor<?x?x8xf32>
}

// -----

// Of einsum the products are followed that torch makes of it.
func.func @einsum(%ids: tensor<?x?xi64> {graph.input = "input_ids"}, %q: tensor<?x4x?x16xf32> {graph.input = "query"}) -> tensor<?x4x?x?xf32> {
  %s = graph.node "aten.einsum.default"(%q, %q) {equation = "bhqd,bhkd->bhqk", tensors = [#graph.in<0>, #graph.in<1>]} called "einsum" : (tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>) -> tensor<?x4x?x?xf32>
  // expected-error @+1 {{node 'weights' (aten.softmax.int): its attention is not understood: what its argument 'self' holds is not followed: node 'einsum' (aten.einsum.default): of einsum only the products are followed that torch makes of it (program.run_decompositions; mlac.export and mlac.cached do it)}}
  %w = graph.node "aten.softmax.int"(%s) {self = #graph.in<0>, dim = -1 : i64} called "weights" : (tensor<?x4x?x?xf32>) -> tensor<?x4x?x?xf32>
  return %w : tensor<?x4x?x?xf32>
}
