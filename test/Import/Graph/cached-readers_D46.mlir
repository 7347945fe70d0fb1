// RUN: mla-opt %s --split-input-file --mla-cache-attention --verify-diagnostics

// Scores are read beside the attention: over caches, whoever runs the rest would have those of new
// tokens alone. Granite's sinks are a logarithm of their sum.

func.func @sinks(%q: tensor<?x2x?x4xf32> {graph.input = "query"}, %p: tensor<?x?xi64> {graph.input = "position_ids"}) -> tensor<?x2x?x4xf32> {
  %n = graph.node "aten.sym_size.int"(%p) {self = #graph.in<0>, dim = 1 : i64} called "tokens" : (tensor<?x?xi64>) -> index
  %h = graph.node "aten.full.default"(%n, %n) {size = [#graph.in<0>, #graph.in<1>], fill_value = -65504.0 : f64} called "hidden" : (index, index) -> tensor<?x?xf32>
  %w = graph.node "aten.triu.default"(%h) {self = #graph.in<0>, diagonal = 1 : i64} called "mask" : (tensor<?x?xf32>) -> tensor<?x?xf32>
  %k = graph.node "aten.transpose.int"(%q) {dim0 = -1 : i64, dim1 = -2 : i64, self = #graph.in<0>} called "key" : (tensor<?x2x?x4xf32>) -> tensor<?x2x4x?xf32>
  %s = graph.node "aten.matmul.default"(%q, %k) {other = #graph.in<1>, self = #graph.in<0>} called "scores" : (tensor<?x2x?x4xf32>, tensor<?x2x4x?xf32>) -> tensor<?x2x?x?xf32>
  %a = graph.node "aten.add.Tensor"(%s, %w) {other = #graph.in<1>, self = #graph.in<0>} called "masked" : (tensor<?x2x?x?xf32>, tensor<?x?xf32>) -> tensor<?x2x?x?xf32>
  // expected-error @below {{node 'sum' (aten.logsumexp.default): reads scores of queries and keys beside the attention that is cached: of the keys, new tokens alone would be left}}
  %l = graph.node "aten.logsumexp.default"(%a) {dim = [-1], keepdim = true, self = #graph.in<0>} called "sum" : (tensor<?x2x?x?xf32>) -> tensor<?x2x?x1xf32>
  %x = graph.node "aten.softmax.int"(%a) {dim = -1 : i64, self = #graph.in<0>} called "weights" : (tensor<?x2x?x?xf32>) -> tensor<?x2x?x?xf32>
  %o = graph.node "aten.matmul.default"(%x, %q) {other = #graph.in<1>, self = #graph.in<0>} called "attention" : (tensor<?x2x?x?xf32>, tensor<?x2x?x4xf32>) -> tensor<?x2x?x4xf32>
  %r = graph.node "aten.mul.Tensor"(%o, %l) {other = #graph.in<1>, self = #graph.in<0>} called "scaled" : (tensor<?x2x?x4xf32>, tensor<?x2x?x1xf32>) -> tensor<?x2x?x4xf32>
  return %r : tensor<?x2x?x4xf32>
}

// -----

// What weighs the keys is an output, as of output_attentions.

func.func @output(%q: tensor<?x2x?x4xf32> {graph.input = "query"}, %p: tensor<?x?xi64> {graph.input = "position_ids"}) -> (tensor<?x2x?x4xf32>, tensor<?x2x?x?xf32>) {
  %n = graph.node "aten.sym_size.int"(%p) {self = #graph.in<0>, dim = 1 : i64} called "tokens" : (tensor<?x?xi64>) -> index
  %h = graph.node "aten.full.default"(%n, %n) {size = [#graph.in<0>, #graph.in<1>], fill_value = -65504.0 : f64} called "hidden" : (index, index) -> tensor<?x?xf32>
  %w = graph.node "aten.triu.default"(%h) {self = #graph.in<0>, diagonal = 1 : i64} called "mask" : (tensor<?x?xf32>) -> tensor<?x?xf32>
  %k = graph.node "aten.transpose.int"(%q) {dim0 = -1 : i64, dim1 = -2 : i64, self = #graph.in<0>} called "key" : (tensor<?x2x?x4xf32>) -> tensor<?x2x4x?xf32>
  %s = graph.node "aten.matmul.default"(%q, %k) {other = #graph.in<1>, self = #graph.in<0>} called "scores" : (tensor<?x2x?x4xf32>, tensor<?x2x4x?xf32>) -> tensor<?x2x?x?xf32>
  %a = graph.node "aten.add.Tensor"(%s, %w) {other = #graph.in<1>, self = #graph.in<0>} called "masked" : (tensor<?x2x?x?xf32>, tensor<?x?xf32>) -> tensor<?x2x?x?xf32>
  // expected-error @below {{node 'weights' (aten.softmax.int) in layers.0: its scores of queries and keys are an output of the graph}}
  %x = graph.node "aten.softmax.int"(%a) {dim = -1 : i64, self = #graph.in<0>} called "weights" in "layers.0" : (tensor<?x2x?x?xf32>) -> tensor<?x2x?x?xf32>
  %o = graph.node "aten.matmul.default"(%x, %q) {other = #graph.in<1>, self = #graph.in<0>} called "attention" : (tensor<?x2x?x?xf32>, tensor<?x2x?x4xf32>) -> tensor<?x2x?x4xf32>
  return %o, %x : tensor<?x2x?x4xf32>, tensor<?x2x?x?xf32>
}
