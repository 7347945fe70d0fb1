// RUN: mla-opt %s --split-input-file --mla-cache-attention --verify-diagnostics | FileCheck %s

// A row may hold several sequences, which transformers tells apart by positions that do not follow
// each other. Over caches a row is of one: what is left is the causal mask.

// CHECK-LABEL: func.func @packed
// CHECK: graph.node "mlac.cached_attention"
// CHECK-SAME: window = 0 : i64
func.func @packed(%q: tensor<?x4x?x8xf32> {graph.input = "query"}, %ids: tensor<?x?xi64> {graph.input = "input_ids"},
    %p: tensor<?x?xi64> {graph.input = "position_ids"}) -> tensor<?x4x?x8xf32> {
  %b = graph.node "aten.sym_size.int"(%p) {self = #graph.in<0>, dim = 0 : i64} called "batch" : (tensor<?x?xi64>) -> index
  %n = graph.node "aten.sym_size.int"(%p) {self = #graph.in<0>, dim = 1 : i64} called "tokens" : (tensor<?x?xi64>) -> index
  %f = graph.node "aten.slice.Tensor"(%p) {self = #graph.in<0>, dim = 1 : i64, start = 0 : i64, end = 1 : i64} called "first" : (tensor<?x?xi64>) -> tensor<?x1xi64>
  %g = graph.node "aten.sub.Tensor"(%f) {self = #graph.in<0>, other = 1 : i64} called "before" : (tensor<?x1xi64>) -> tensor<?x1xi64>
  %d = graph.node "aten.diff.default"(%p, %g) {self = #graph.in<0>, n = 1 : i64, dim = -1 : i64, prepend = #graph.in<1>} called "steps" : (tensor<?x?xi64>, tensor<?x1xi64>) -> tensor<?x?xi64>
  %e = graph.node "aten.ne.Scalar"(%d) {self = #graph.in<0>, other = 1 : i64} called "breaks" : (tensor<?x?xi64>) -> tensor<?x?xi1>
  %s = graph.node "aten.cumsum.default"(%e) {self = #graph.in<0>, dim = -1 : i64} called "sequences" : (tensor<?x?xi1>) -> tensor<?x?xi64>
  %ab = graph.node "aten.arange.default"(%b) {end = #graph.in<0>} called "rows" : (index) -> tensor<?xi64>
  %rows = graph.node "aten.view.default"(%ab) {self = #graph.in<0>, size = [-1, 1, 1, 1]} called "rows_4d" : (tensor<?xi64>) -> tensor<?x1x1x1xi64>
  %at = graph.node "aten.arange.default"(%n) {end = #graph.in<0>} called "positions" : (index) -> tensor<?xi64>
  %qs = graph.node "aten.view.default"(%at) {self = #graph.in<0>, size = [1, 1, -1, 1]} called "queries" : (tensor<?xi64>) -> tensor<1x1x?x1xi64>
  %ks = graph.node "aten.view.default"(%at) {self = #graph.in<0>, size = [1, 1, 1, -1]} called "keys" : (tensor<?xi64>) -> tensor<1x1x1x?xi64>
  %le = graph.node "aten.le.Tensor"(%ks, %qs) {self = #graph.in<0>, other = #graph.in<1>} called "past" : (tensor<1x1x1x?xi64>, tensor<1x1x?x1xi64>) -> tensor<1x1x?x?xi1>
  %sq = graph.node "aten.index.Tensor"(%s, %rows, %qs) {self = #graph.in<0>, indices = [#graph.in<1>, #graph.in<2>]} called "of_queries" : (tensor<?x?xi64>, tensor<?x1x1x1xi64>, tensor<1x1x?x1xi64>) -> tensor<?x1x?x1xi64>
  %sk = graph.node "aten.index.Tensor"(%s, %rows, %ks) {self = #graph.in<0>, indices = [#graph.in<1>, #graph.in<2>]} called "of_keys" : (tensor<?x?xi64>, tensor<?x1x1x1xi64>, tensor<1x1x1x?xi64>) -> tensor<?x1x1x?xi64>
  %eq = graph.node "aten.eq.Tensor"(%sq, %sk) {self = #graph.in<0>, other = #graph.in<1>} called "same" : (tensor<?x1x?x1xi64>, tensor<?x1x1x?xi64>) -> tensor<?x1x?x?xi1>
  %m = graph.node "aten.__and__.Tensor"(%le, %eq) {self = #graph.in<0>, other = #graph.in<1>} called "mask" : (tensor<1x1x?x?xi1>, tensor<?x1x?x?xi1>) -> tensor<?x1x?x?xi1>
  %o = graph.node "aten.scaled_dot_product_attention.default"(%q, %q, %q, %m) {query = #graph.in<0>, key = #graph.in<1>, value = #graph.in<2>, attn_mask = #graph.in<3>} called "attention" : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x1x?x?xi1>) -> tensor<?x4x?x8xf32>
  return %o : tensor<?x4x?x8xf32>
}

// -----

// Later versions compare what the input says of a query's position and of a key's.

// CHECK-LABEL: func.func @of_positions
// CHECK: graph.node "mlac.cached_attention"
// CHECK-SAME: window = 0 : i64
func.func @of_positions(%q: tensor<?x4x?x8xf32> {graph.input = "query"}, %ids: tensor<?x?xi64> {graph.input = "input_ids"},
    %p: tensor<?x?xi64> {graph.input = "position_ids"}) -> tensor<?x4x?x8xf32> {
  %b = graph.node "aten.sym_size.int"(%p) {self = #graph.in<0>, dim = 0 : i64} called "batch" : (tensor<?x?xi64>) -> index
  %n = graph.node "aten.sym_size.int"(%p) {self = #graph.in<0>, dim = 1 : i64} called "tokens" : (tensor<?x?xi64>) -> index
  %ab = graph.node "aten.arange.default"(%b) {end = #graph.in<0>} called "rows" : (index) -> tensor<?xi64>
  %rows = graph.node "aten.view.default"(%ab) {self = #graph.in<0>, size = [-1, 1, 1, 1]} called "rows_4d" : (tensor<?xi64>) -> tensor<?x1x1x1xi64>
  %at = graph.node "aten.arange.default"(%n) {end = #graph.in<0>} called "positions" : (index) -> tensor<?xi64>
  %qs = graph.node "aten.view.default"(%at) {self = #graph.in<0>, size = [1, 1, -1, 1]} called "queries" : (tensor<?xi64>) -> tensor<1x1x?x1xi64>
  %ks = graph.node "aten.view.default"(%at) {self = #graph.in<0>, size = [1, 1, 1, -1]} called "keys" : (tensor<?xi64>) -> tensor<1x1x1x?xi64>
  %pq = graph.node "aten.index.Tensor"(%p, %rows, %qs) {self = #graph.in<0>, indices = [#graph.in<1>, #graph.in<2>]} called "of_queries" : (tensor<?x?xi64>, tensor<?x1x1x1xi64>, tensor<1x1x?x1xi64>) -> tensor<?x1x?x1xi64>
  %pk = graph.node "aten.index.Tensor"(%p, %rows, %ks) {self = #graph.in<0>, indices = [#graph.in<1>, #graph.in<2>]} called "of_keys" : (tensor<?x?xi64>, tensor<?x1x1x1xi64>, tensor<1x1x1x?xi64>) -> tensor<?x1x1x?xi64>
  %m = graph.node "aten.le.Tensor"(%pk, %pq) {self = #graph.in<0>, other = #graph.in<1>} called "past" : (tensor<?x1x1x?xi64>, tensor<?x1x?x1xi64>) -> tensor<?x1x?x?xi1>
  %o = graph.node "aten.scaled_dot_product_attention.default"(%q, %q, %q, %m) {query = #graph.in<0>, key = #graph.in<1>, value = #graph.in<2>, attn_mask = #graph.in<3>} called "attention" : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x1x?x?xi1>) -> tensor<?x4x?x8xf32>
  return %o : tensor<?x4x?x8xf32>
}

// -----

// Tokens are no positions.

func.func @of_tokens(%q: tensor<?x4x?x8xf32> {graph.input = "query"}, %ids: tensor<?x?xi64> {graph.input = "input_ids"},
    %p: tensor<?x?xi64> {graph.input = "position_ids"}) -> tensor<?x4x?x8xf32> {
  %b = graph.node "aten.sym_size.int"(%p) {self = #graph.in<0>, dim = 0 : i64} called "batch" : (tensor<?x?xi64>) -> index
  %n = graph.node "aten.sym_size.int"(%p) {self = #graph.in<0>, dim = 1 : i64} called "tokens" : (tensor<?x?xi64>) -> index
  %ab = graph.node "aten.arange.default"(%b) {end = #graph.in<0>} called "rows" : (index) -> tensor<?xi64>
  %rows = graph.node "aten.view.default"(%ab) {self = #graph.in<0>, size = [-1, 1, 1, 1]} called "rows_4d" : (tensor<?xi64>) -> tensor<?x1x1x1xi64>
  %at = graph.node "aten.arange.default"(%n) {end = #graph.in<0>} called "positions" : (index) -> tensor<?xi64>
  %qs = graph.node "aten.view.default"(%at) {self = #graph.in<0>, size = [1, 1, -1, 1]} called "queries" : (tensor<?xi64>) -> tensor<1x1x?x1xi64>
  %ks = graph.node "aten.view.default"(%at) {self = #graph.in<0>, size = [1, 1, 1, -1]} called "keys" : (tensor<?xi64>) -> tensor<1x1x1x?xi64>
  %pq = graph.node "aten.index.Tensor"(%ids, %rows, %qs) {self = #graph.in<0>, indices = [#graph.in<1>, #graph.in<2>]} called "of_queries" : (tensor<?x?xi64>, tensor<?x1x1x1xi64>, tensor<1x1x?x1xi64>) -> tensor<?x1x?x1xi64>
  %pk = graph.node "aten.index.Tensor"(%ids, %rows, %ks) {self = #graph.in<0>, indices = [#graph.in<1>, #graph.in<2>]} called "of_keys" : (tensor<?x?xi64>, tensor<?x1x1x1xi64>, tensor<1x1x1x?xi64>) -> tensor<?x1x1x?xi64>
  %m = graph.node "aten.le.Tensor"(%pk, %pq) {self = #graph.in<0>, other = #graph.in<1>} called "past" : (tensor<?x1x1x?xi64>, tensor<?x1x?x1xi64>) -> tensor<?x1x?x?xi1>
  // expected-error @below {{its attention is not understood: what its argument 'attn_mask' holds is not followed}}
  %o = graph.node "aten.scaled_dot_product_attention.default"(%q, %q, %q, %m) {query = #graph.in<0>, key = #graph.in<1>, value = #graph.in<2>, attn_mask = #graph.in<3>} called "attention" : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x1x?x?xi1>) -> tensor<?x4x?x8xf32>
  return %o : tensor<?x4x?x8xf32>
}

// -----

// Without what stands before the first position, it is not known that no place is counted.

func.func @forward(%q: tensor<?x4x?x8xf32> {graph.input = "query"}, %ids: tensor<?x?xi64> {graph.input = "input_ids"},
    %p: tensor<?x?xi64> {graph.input = "position_ids"}) -> tensor<?x4x?x8xf32> {
  %f = graph.node "aten.slice.Tensor"(%p) {self = #graph.in<0>, dim = 1 : i64, start = 0 : i64, end = 1 : i64} called "first" : (tensor<?x?xi64>) -> tensor<?x1xi64>
  %d = graph.node "aten.diff.default"(%p, %f) {self = #graph.in<0>, n = 1 : i64, dim = -1 : i64, prepend = #graph.in<1>} called "steps" : (tensor<?x?xi64>, tensor<?x1xi64>) -> tensor<?x?xi64>
  %m = graph.node "aten.unsqueeze.default"(%d) {self = #graph.in<0>, dim = 1 : i64} called "mask" : (tensor<?x?xi64>) -> tensor<?x1x?xi64>
  // expected-error @below {{node 'attention' (aten.scaled_dot_product_attention.default) in layers.0: its attention is not understood: what it computes with is not followed: node 'steps' (aten.diff.default): the number before the first position is not that less 1}}
  %o = graph.node "aten.scaled_dot_product_attention.default"(%q, %q, %q, %m) {query = #graph.in<0>, key = #graph.in<1>, value = #graph.in<2>, attn_mask = #graph.in<3>} called "attention" in "layers.0" : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x1x?xi64>) -> tensor<?x4x?x8xf32>
  return %o : tensor<?x4x?x8xf32>
}

// -----

// A softmax over tokens that is not followed is not left to whoever runs the rest, as one over experts is.

func.func @forward(%s: tensor<?x4x?x?xf32> {graph.input = "scores"}, %x: tensor<?x?x64xf32> {graph.input = "hidden_states"}) -> (tensor<?x?x64xf32>, tensor<?x4x?x?xf32>) {
  %r = graph.node "aten.softmax.int"(%x) {self = #graph.in<0>, dim = -1 : i64} called "router" : (tensor<?x?x64xf32>) -> tensor<?x?x64xf32>
  %y = graph.node "aten.frobnicate.default"(%s) {self = #graph.in<0>} called "odd" : (tensor<?x4x?x?xf32>) -> tensor<?x4x?x?xf32>
  // expected-error @below {{node 'weights' (aten.softmax.int): its attention is not understood: }}
  %w = graph.node "aten.softmax.int"(%y) {self = #graph.in<0>, dim = -1 : i64} called "weights" : (tensor<?x4x?x?xf32>) -> tensor<?x4x?x?xf32>
  return %r, %w : tensor<?x?x64xf32>, tensor<?x4x?x?xf32>
}

// -----

// What is written to the first token is seen through no copy of it.

func.func @forward(%x: tensor<?x?x64xf32> {graph.input = "hidden_states"}) -> tensor<?x?x64xf32> {
  %f = graph.node "aten.slice.Tensor"(%x) {self = #graph.in<0>, dim = 1 : i64, start = 0 : i64, end = 1 : i64} called "first" : (tensor<?x?x64xf32>) -> tensor<?x1x64xf32>
  // expected-error @below {{node 'write' (aten.mul_.Tensor): may write to memory in a way that is not followed: it writes to memory that others may read}}
  %y = graph.node "aten.mul_.Tensor"(%f) {self = #graph.in<0>, other = 2.0 : f64} called "write" : (tensor<?x1x64xf32>) -> tensor<?x1x64xf32>
  return %x : tensor<?x?x64xf32>
}
