// RUN: mla-opt %s --split-input-file --mla-cache-attention --verify-diagnostics

// Ones and zeros that are numbers are added to scores: as truth values they would be a causal mask.

func.func @numbers(%q: tensor<?x2x?x4xf32> {graph.input = "query"}, %p: tensor<?x?xi64> {graph.input = "position_ids"}) -> tensor<?x2x?x4xf32> {
  %n = graph.node "aten.sym_size.int"(%p) {self = #graph.in<0>, dim = 1 : i64} called "tokens" : (tensor<?x?xi64>) -> index
  %o = graph.node "aten.ones.default"(%n) {size = [#graph.in<0>, #graph.in<0>]} called "ones" : (index) -> tensor<?x?xf32>
  %m = graph.node "aten.tril.default"(%o) {self = #graph.in<0>} called "mask" : (tensor<?x?xf32>) -> tensor<?x?xf32>
  // expected-error @below {{node 'attention' (aten.scaled_dot_product_attention.default): its attention cannot be cached: its mask is no input of the graph and not causal but a mask of keys from 0 to any tokens before the query}}
  %a = graph.node "aten.scaled_dot_product_attention.default"(%q, %m) {query = #graph.in<0>, key = #graph.in<0>, value = #graph.in<0>, attn_mask = #graph.in<1>} called "attention" : (tensor<?x2x?x4xf32>, tensor<?x?xf32>) -> tensor<?x2x?x4xf32>
  return %a : tensor<?x2x?x4xf32>
}
