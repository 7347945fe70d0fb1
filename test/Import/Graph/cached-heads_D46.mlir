// RUN: mla-opt %s --mla-cache-attention="attention=PagedMultiHead page-size=16" -verify-diagnostics=all 2>&1 | FileCheck %s

// Queries of 4 heads beside their tokens, [batch, tokens * heads, channels], times the keys of one
// head: their factors are split and ordered for the operator, and what it gives goes the way back.

// CHECK-LABEL: func.func @forward
// CHECK: %[[Q3:.*]] = graph.node "aten.view.default"({{.*}} called "rows"
// CHECK: %[[Q4:.*]] = graph.node "aten.unflatten.int"(%[[Q3]]) {dim = 1 : i64, self = #graph.in<0>, sizes = [-1, 4]} {{.*}} -> tensor<?x?x4x16xf32>
// CHECK: %[[Q:.*]] = graph.node "aten.permute.default"(%[[Q4]]) {dims = [0, 2, 1, 3], self = #graph.in<0>} {{.*}} -> tensor<?x4x?x16xf32>
// CHECK: graph.node "aten.unflatten.int"({{.*}}) {dim = 0 : i64, self = #graph.in<0>, sizes = [-1, 1]} {{.*}} -> tensor<?x1x16x?xf32>
// CHECK: graph.node "mlac.paged_mha_with_cache.default"
// CHECK: %[[O:.*]] = graph.node "aten.permute.default"({{.*}} called "cached_attention_0_output" : {{.*}} -> tensor<?x4x?x16xf32>
// CHECK: %[[B:.*]] = graph.node "aten.permute.default"(%[[O]]) {dims = [0, 2, 1, 3], self = #graph.in<0>}
// CHECK: %[[J:.*]] = graph.node "aten.flatten.using_ints"(%[[B]]) {end_dim = 2 : i64, self = #graph.in<0>, start_dim = 1 : i64} {{.*}} -> tensor<?x?x16xf32>
// CHECK: return %[[J]]
func.func @forward(%ids: tensor<?x?xi64> {graph.input = "input_ids"},
    %k: tensor<?x?x16xf32> {graph.input = "key"}) -> tensor<?x?x16xf32> {
  %b = graph.node "aten.sym_size.int"(%ids) {self = #graph.in<0>, dim = 0 : i64} called "batch" : (tensor<?x?xi64>) -> index
  %n = graph.node "aten.sym_size.int"(%ids) {self = #graph.in<0>, dim = 1 : i64} called "tokens" : (tensor<?x?xi64>) -> index
  %p = graph.node "aten.unsqueeze.default"(%k) {self = #graph.in<0>, dim = 2 : i64} called "key_4" : (tensor<?x?x16xf32>) -> tensor<?x?x1x16xf32>
  %e = graph.node "aten.expand.default"(%p, %b, %n) {self = #graph.in<0>, size = [#graph.in<1>, #graph.in<2>, 4, 16]} called "query_4" : (tensor<?x?x1x16xf32>, index, index) -> tensor<?x?x4x16xf32>
  %nh = graph.node "_operator.mul"(%n) {a = #graph.in<0>, b = 4 : i64} called "count" : (index) -> index
  %r = graph.node "aten.view.default"(%e, %b, %nh) {self = #graph.in<0>, size = [#graph.in<1>, #graph.in<2>, 16]} called "rows" : (tensor<?x?x4x16xf32>, index, index) -> tensor<?x?x16xf32>
  %t = graph.node "aten.permute.default"(%k) {self = #graph.in<0>, dims = [0, 2, 1]} called "key_turned" : (tensor<?x?x16xf32>) -> tensor<?x16x?xf32>
  %s = graph.node "aten.bmm.default"(%r, %t) {self = #graph.in<0>, mat2 = #graph.in<1>} called "scores" : (tensor<?x?x16xf32>, tensor<?x16x?xf32>) -> tensor<?x?x?xf32>
  %v4 = graph.node "aten.view.default"(%s, %b, %n) {self = #graph.in<0>, size = [#graph.in<1>, #graph.in<2>, 4, #graph.in<2>]} called "scores_4" : (tensor<?x?x?xf32>, index, index) -> tensor<?x?x4x?xf32>
  %h = graph.node "aten.permute.default"(%v4) {self = #graph.in<0>, dims = [0, 2, 1, 3]} called "heads" : (tensor<?x?x4x?xf32>) -> tensor<?x4x?x?xf32>
  %m = graph.node "aten.ones.default"(%n) {size = [#graph.in<0>, #graph.in<0>], dtype = "bool"} called "ones" : (index) -> tensor<?x?xi1>
  %l = graph.node "aten.tril.default"(%m) {self = #graph.in<0>} called "causal" : (tensor<?x?xi1>) -> tensor<?x?xi1>
  %u = graph.node "aten.logical_not.default"(%l) {self = #graph.in<0>} called "future" : (tensor<?x?xi1>) -> tensor<?x?xi1>
  %f = graph.node "aten.masked_fill.Scalar"(%h, %u) {self = #graph.in<0>, mask = #graph.in<1>, value = 0xFFF0000000000000 : f64} called "masked" : (tensor<?x4x?x?xf32>, tensor<?x?xi1>) -> tensor<?x4x?x?xf32>
  %w = graph.node "aten.softmax.int"(%f) {self = #graph.in<0>, dim = -1 : i64} called "weights" : (tensor<?x4x?x?xf32>) -> tensor<?x4x?x?xf32>
  %wt = graph.node "aten.permute.default"(%w) {self = #graph.in<0>, dims = [0, 2, 1, 3]} called "weights_turned" : (tensor<?x4x?x?xf32>) -> tensor<?x?x4x?xf32>
  %wr = graph.node "aten.view.default"(%wt, %b, %nh, %n) {self = #graph.in<0>, size = [#graph.in<1>, #graph.in<2>, #graph.in<3>]} called "weight_rows" : (tensor<?x?x4x?xf32>, index, index, index) -> tensor<?x?x?xf32>
  %o = graph.node "aten.bmm.default"(%wr, %k) {self = #graph.in<0>, mat2 = #graph.in<1>} called "output" : (tensor<?x?x?xf32>, tensor<?x?x16xf32>) -> tensor<?x?x16xf32>
  return %o : tensor<?x?x16xf32>
}
