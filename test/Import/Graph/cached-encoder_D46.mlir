// RUN: mla-opt %s --split-input-file --mla-cache-attention --verify-diagnostics

// The mask of an encoder asks for positions of at least 0, which all are: BERT of transformers.

func.func @encoder(%q: tensor<?x2x?x4xf32> {graph.input = "query"}, %p: tensor<?x?xi64> {graph.input = "position_ids"}) -> tensor<?x2x?x4xf32> {
  %n = graph.node "aten.sym_size.int"(%p) {self = #graph.in<0>, dim = 1 : i64} called "tokens" : (tensor<?x?xi64>) -> index
  %r = graph.node "aten.arange.default"(%n) {end = #graph.in<0>} called "places" : (index) -> tensor<?xi64>
  %u = graph.node "aten.unsqueeze.default"(%r) {dim = 1 : i64, self = #graph.in<0>} called "column" : (tensor<?xi64>) -> tensor<?x1xi64>
  %g = graph.node "aten.ge.Scalar"(%u) {other = 0 : i64, self = #graph.in<0>} called "some" : (tensor<?x1xi64>) -> tensor<?x1xi1>
  %m = graph.node "aten.expand.default"(%g, %n, %n) {size = [#graph.in<1>, #graph.in<2>], self = #graph.in<0>} called "mask" : (tensor<?x1xi1>, index, index) -> tensor<?x?xi1>
  // expected-error @below {{node 'attention' (aten.scaled_dot_product_attention.default) in layers.0: its attention cannot be cached: it has no mask, so that tokens see those after them}}
  %a = graph.node "aten.scaled_dot_product_attention.default"(%q, %m) {query = #graph.in<0>, key = #graph.in<0>, value = #graph.in<0>, attn_mask = #graph.in<1>} called "attention" in "layers.0" : (tensor<?x2x?x4xf32>, tensor<?x?xi1>) -> tensor<?x2x?x4xf32>
  return %a : tensor<?x2x?x4xf32>
}

// -----

// Positions that are repeated for each row of a batch, as Whisper's decoder has them, are positions.

func.func @repeated(%q: tensor<?x2x?x4xf32> {graph.input = "query"}, %p: tensor<?x?xi64> {graph.input = "position_ids"}) -> tensor<?x2x?x4xf32> {
  %b = graph.node "aten.sym_size.int"(%p) {self = #graph.in<0>, dim = 0 : i64} called "batch" : (tensor<?x?xi64>) -> index
  %n = graph.node "aten.sym_size.int"(%p) {self = #graph.in<0>, dim = 1 : i64} called "tokens" : (tensor<?x?xi64>) -> index
  %r = graph.node "aten.arange.default"(%n) {end = #graph.in<0>} called "places" : (index) -> tensor<?xi64>
  %x = graph.node "aten.unsqueeze.default"(%r) {dim = 0 : i64, self = #graph.in<0>} called "row" : (tensor<?xi64>) -> tensor<1x?xi64>
  %y = graph.node "aten.repeat.default"(%x, %b) {repeats = [#graph.in<1>, 1], self = #graph.in<0>} called "rows" : (tensor<1x?xi64>, index) -> tensor<?x?xi64>
  %k = graph.node "aten.view.default"(%y, %b, %n) {size = [#graph.in<1>, 1, 1, #graph.in<2>], self = #graph.in<0>} called "keys" : (tensor<?x?xi64>, index, index) -> tensor<?x1x1x?xi64>
  %u = graph.node "aten.view.default"(%y, %b, %n) {size = [#graph.in<1>, 1, #graph.in<2>, 1], self = #graph.in<0>} called "queries" : (tensor<?x?xi64>, index, index) -> tensor<?x1x?x1xi64>
  %m = graph.node "aten.le.Tensor"(%k, %u) {other = #graph.in<1>, self = #graph.in<0>} called "mask" : (tensor<?x1x1x?xi64>, tensor<?x1x?x1xi64>) -> tensor<?x1x?x?xi1>
  %a = graph.node "aten.scaled_dot_product_attention.default"(%q, %m) {query = #graph.in<0>, key = #graph.in<0>, value = #graph.in<0>, attn_mask = #graph.in<1>} called "attention" : (tensor<?x2x?x4xf32>, tensor<?x1x?x?xi1>) -> tensor<?x2x?x4xf32>
  return %a : tensor<?x2x?x4xf32>
}

// -----

// Other numbers said again would be those of other tokens.

func.func @said_again(%q: tensor<?x2x?x4xf32> {graph.input = "query"}, %p: tensor<?x?xi64> {graph.input = "position_ids"}) -> tensor<?x2x?x4xf32> {
  %n = graph.node "aten.sym_size.int"(%p) {self = #graph.in<0>, dim = 1 : i64} called "tokens" : (tensor<?x?xi64>) -> index
  %h = graph.node "aten.full.default"(%n, %n) {size = [#graph.in<0>, #graph.in<1>], fill_value = -65504.0 : f64} called "hidden" : (index, index) -> tensor<?x?xf32>
  %w = graph.node "aten.triu.default"(%h) {self = #graph.in<0>, diagonal = 1 : i64} called "mask" : (tensor<?x?xf32>) -> tensor<?x?xf32>
  %y = graph.node "aten.repeat.default"(%w) {repeats = [1, 2], self = #graph.in<0>} called "twice" : (tensor<?x?xf32>) -> tensor<?x?xf32>
  // expected-error @below {{node 'twice' (aten.repeat.default): it repeats a dimension that is not of size 1}}
  %a = graph.node "aten.scaled_dot_product_attention.default"(%q, %y) {query = #graph.in<0>, key = #graph.in<0>, value = #graph.in<0>, attn_mask = #graph.in<1>} called "attention" : (tensor<?x2x?x4xf32>, tensor<?x?xf32>) -> tensor<?x2x?x4xf32>
  return %a : tensor<?x2x?x4xf32>
}
