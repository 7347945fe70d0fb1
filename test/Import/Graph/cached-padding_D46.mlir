// RUN: mla-opt %s --split-input-file --mla-cache-attention --verify-diagnostics | FileCheck %s

// Models make a padding mask of ones where none is given, whose keys are all seen, and may scale scores
// and mask together.

// CHECK-LABEL: func.func @ones
// CHECK: graph.node "mlac.cached_attention"
// CHECK-SAME: scale = 5.000000e-01
// CHECK-SAME: window = 0 : i64
func.func @ones(%q: tensor<?x2x?x4xf32> {graph.input = "query"}, %p: tensor<?x?xi64> {graph.input = "position_ids"}) -> tensor<?x2x?x4xf32> {
  %b = graph.node "aten.sym_size.int"(%p) {self = #graph.in<0>, dim = 0 : i64} called "batch" : (tensor<?x?xi64>) -> index
  %n = graph.node "aten.sym_size.int"(%p) {self = #graph.in<0>, dim = 1 : i64} called "tokens" : (tensor<?x?xi64>) -> index
  %f = graph.node "aten.ones.default"(%b, %n) {size = [#graph.in<0>, #graph.in<1>]} called "ones" : (index, index) -> tensor<?x?xf32>
  %t = graph.node "aten.to.device"(%f) {self = #graph.in<0>, device = "cpu", dtype = 12 : i64} called "padding" : (tensor<?x?xf32>) -> tensor<?x?xi1>
  %ab = graph.node "aten.arange.default"(%b) {end = #graph.in<0>} called "rows" : (index) -> tensor<?xi64>
  %rows = graph.node "aten.view.default"(%ab) {self = #graph.in<0>, size = [-1, 1, 1, 1]} called "rows_4d" : (tensor<?xi64>) -> tensor<?x1x1x1xi64>
  %at = graph.node "aten.arange.default"(%n) {end = #graph.in<0>} called "positions" : (index) -> tensor<?xi64>
  %qs = graph.node "aten.view.default"(%at) {self = #graph.in<0>, size = [1, 1, -1, 1]} called "queries" : (tensor<?xi64>) -> tensor<1x1x?x1xi64>
  %ks = graph.node "aten.view.default"(%at) {self = #graph.in<0>, size = [1, 1, 1, -1]} called "keys" : (tensor<?xi64>) -> tensor<1x1x1x?xi64>
  %le = graph.node "aten.le.Tensor"(%ks, %qs) {self = #graph.in<0>, other = #graph.in<1>} called "past" : (tensor<1x1x1x?xi64>, tensor<1x1x?x1xi64>) -> tensor<1x1x?x?xi1>
  %own = graph.node "aten.index.Tensor"(%t, %rows, %ks) {self = #graph.in<0>, indices = [#graph.in<1>, #graph.in<2>]} called "of_keys" : (tensor<?x?xi1>, tensor<?x1x1x1xi64>, tensor<1x1x1x?xi64>) -> tensor<?x1x1x?xi1>
  %m = graph.node "aten.__and__.Tensor"(%le, %own) {self = #graph.in<0>, other = #graph.in<1>} called "seen" : (tensor<1x1x?x?xi1>, tensor<?x1x1x?xi1>) -> tensor<?x1x?x?xi1>
  %w = graph.node "aten.where.Scalar"(%m) {condition = #graph.in<0>, other = -3.4028234663852886E+38 : f64, self = 0.0 : f64} called "mask" : (tensor<?x1x?x?xi1>) -> tensor<?x1x?x?xf32>
  %k = graph.node "aten.transpose.int"(%q) {dim0 = -1 : i64, dim1 = -2 : i64, self = #graph.in<0>} called "key" : (tensor<?x2x?x4xf32>) -> tensor<?x2x4x?xf32>
  %s = graph.node "aten.matmul.default"(%q, %k) {other = #graph.in<1>, self = #graph.in<0>} called "scores" : (tensor<?x2x?x4xf32>, tensor<?x2x4x?xf32>) -> tensor<?x2x?x?xf32>
  %a = graph.node "aten.add.Tensor"(%s, %w) {other = #graph.in<1>, self = #graph.in<0>} called "masked" : (tensor<?x2x?x?xf32>, tensor<?x1x?x?xf32>) -> tensor<?x2x?x?xf32>
  %d = graph.node "aten.div.Tensor"(%a) {other = 2.0 : f64, self = #graph.in<0>} called "scaled" : (tensor<?x2x?x?xf32>) -> tensor<?x2x?x?xf32>
  %x = graph.node "aten.softmax.int"(%d) {dim = -1 : i64, self = #graph.in<0>} called "weights" : (tensor<?x2x?x?xf32>) -> tensor<?x2x?x?xf32>
  %o = graph.node "aten.matmul.default"(%x, %q) {other = #graph.in<1>, self = #graph.in<0>} called "attention" : (tensor<?x2x?x?xf32>, tensor<?x2x?x4xf32>) -> tensor<?x2x?x4xf32>
  return %o : tensor<?x2x?x4xf32>
}

// -----

// Divided by 64, what hides scores is -1023, which a larger score may undo.

func.func @small(%q: tensor<?x2x?x4xf32> {graph.input = "query"}, %p: tensor<?x?xi64> {graph.input = "position_ids"}) -> tensor<?x2x?x4xf32> {
  %n = graph.node "aten.sym_size.int"(%p) {self = #graph.in<0>, dim = 1 : i64} called "tokens" : (tensor<?x?xi64>) -> index
  %h = graph.node "aten.full.default"(%n, %n) {size = [#graph.in<0>, #graph.in<1>], fill_value = -65504.0 : f64} called "hidden" : (index, index) -> tensor<?x?xf32>
  %w = graph.node "aten.triu.default"(%h) {self = #graph.in<0>, diagonal = 1 : i64} called "mask" : (tensor<?x?xf32>) -> tensor<?x?xf32>
  %k = graph.node "aten.transpose.int"(%q) {dim0 = -1 : i64, dim1 = -2 : i64, self = #graph.in<0>} called "key" : (tensor<?x2x?x4xf32>) -> tensor<?x2x4x?xf32>
  %s = graph.node "aten.matmul.default"(%q, %k) {other = #graph.in<1>, self = #graph.in<0>} called "scores" : (tensor<?x2x?x4xf32>, tensor<?x2x4x?xf32>) -> tensor<?x2x?x?xf32>
  %a = graph.node "aten.add.Tensor"(%s, %w) {other = #graph.in<1>, self = #graph.in<0>} called "masked" : (tensor<?x2x?x?xf32>, tensor<?x?xf32>) -> tensor<?x2x?x?xf32>
  %d = graph.node "aten.div.Tensor"(%a) {other = 64.0 : f64, self = #graph.in<0>} called "scaled" : (tensor<?x2x?x?xf32>) -> tensor<?x2x?x?xf32>
  %x = graph.node "aten.softmax.int"(%d) {dim = -1 : i64, self = #graph.in<0>} called "weights" : (tensor<?x2x?x?xf32>) -> tensor<?x2x?x?xf32>
  // expected-error @below {{its attention cannot be cached: expected scores of queries and keys}}
  %o = graph.node "aten.matmul.default"(%x, %q) {other = #graph.in<1>, self = #graph.in<0>} called "attention" : (tensor<?x2x?x?xf32>, tensor<?x2x?x4xf32>) -> tensor<?x2x?x4xf32>
  return %o : tensor<?x2x?x4xf32>
}

// -----

// Zeros hide all keys.

func.func @zeros(%q: tensor<?x2x?x4xf32> {graph.input = "query"}, %p: tensor<?x?xi64> {graph.input = "position_ids"}) -> tensor<?x2x?x4xf32> {
  %b = graph.node "aten.sym_size.int"(%p) {self = #graph.in<0>, dim = 0 : i64} called "batch" : (tensor<?x?xi64>) -> index
  %n = graph.node "aten.sym_size.int"(%p) {self = #graph.in<0>, dim = 1 : i64} called "tokens" : (tensor<?x?xi64>) -> index
  %f = graph.node "aten.zeros.default"(%b, %n) {size = [#graph.in<0>, #graph.in<1>]} called "zeros" : (index, index) -> tensor<?x?xf32>
  %t = graph.node "aten.to.device"(%f) {self = #graph.in<0>, device = "cpu", dtype = 12 : i64} called "padding" : (tensor<?x?xf32>) -> tensor<?x?xi1>
  %ab = graph.node "aten.arange.default"(%b) {end = #graph.in<0>} called "rows" : (index) -> tensor<?xi64>
  %rows = graph.node "aten.view.default"(%ab) {self = #graph.in<0>, size = [-1, 1, 1, 1]} called "rows_4d" : (tensor<?xi64>) -> tensor<?x1x1x1xi64>
  %at = graph.node "aten.arange.default"(%n) {end = #graph.in<0>} called "positions" : (index) -> tensor<?xi64>
  %qs = graph.node "aten.view.default"(%at) {self = #graph.in<0>, size = [1, 1, -1, 1]} called "queries" : (tensor<?xi64>) -> tensor<1x1x?x1xi64>
  %ks = graph.node "aten.view.default"(%at) {self = #graph.in<0>, size = [1, 1, 1, -1]} called "keys" : (tensor<?xi64>) -> tensor<1x1x1x?xi64>
  %le = graph.node "aten.le.Tensor"(%ks, %qs) {self = #graph.in<0>, other = #graph.in<1>} called "past" : (tensor<1x1x1x?xi64>, tensor<1x1x?x1xi64>) -> tensor<1x1x?x?xi1>
  %own = graph.node "aten.index.Tensor"(%t, %rows, %ks) {self = #graph.in<0>, indices = [#graph.in<1>, #graph.in<2>]} called "of_keys" : (tensor<?x?xi1>, tensor<?x1x1x1xi64>, tensor<1x1x1x?xi64>) -> tensor<?x1x1x?xi1>
  %m = graph.node "aten.__and__.Tensor"(%le, %own) {self = #graph.in<0>, other = #graph.in<1>} called "seen" : (tensor<1x1x?x?xi1>, tensor<?x1x1x?xi1>) -> tensor<?x1x?x?xi1>
  // expected-error @below {{node 'seen' (aten.__and__.Tensor): it combines other truth values than those of positions}}
  %o = graph.node "aten.scaled_dot_product_attention.default"(%q, %q, %q, %m) {query = #graph.in<0>, key = #graph.in<1>, value = #graph.in<2>, attn_mask = #graph.in<3>} called "attention" : (tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x1x?x?xi1>) -> tensor<?x2x?x4xf32>
  return %o : tensor<?x2x?x4xf32>
}

// -----

// One that is an input is a tokenizer's.

func.func @given(%q: tensor<?x2x?x4xf32> {graph.input = "query"}, %p: tensor<?x?xi64> {graph.input = "attention_mask"}) -> tensor<?x2x?x4xf32> {
  %t = graph.node "aten.to.device"(%p) {self = #graph.in<0>, device = "cpu", dtype = 12 : i64} called "padding" : (tensor<?x?xi64>) -> tensor<?x?xi1>
  %m = graph.node "aten.view.default"(%t) {self = #graph.in<0>, size = [-1, 1, 1, -1]} called "seen" : (tensor<?x?xi1>) -> tensor<?x1x1x?xi1>
  // expected-error @below {{node 'padding' (aten.to.device): it casts to a type of other numbers: if input 'attention_mask' says which tokens are padding, leave it out: over caches there is none}}
  %o = graph.node "aten.scaled_dot_product_attention.default"(%q, %q, %q, %m) {query = #graph.in<0>, key = #graph.in<1>, value = #graph.in<2>, attn_mask = #graph.in<3>} called "attention" : (tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x1x1x?xi1>) -> tensor<?x2x?x4xf32>
  return %o : tensor<?x2x?x4xf32>
}
