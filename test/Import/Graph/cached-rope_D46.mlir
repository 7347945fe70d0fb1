// RUN: mla-opt %s --split-input-file --mla-cache-attention | FileCheck %s
// RUN: mla-opt %s --split-input-file --mla-cache-attention=attention=PagedMultiHead | FileCheck %s --check-prefix=OWN
// RUN: sed 's/(%%q, %%k, %%v)/(%%q, %%k, %%x)/' %s | mla-opt --split-input-file --mla-cache-attention | FileCheck %s --check-prefix=MORE

// Two attentions under one rope of halves, whose tables the graph makes of positions and stored
// frequencies, times a factor (YaRN's). Queries and keys are taken from before it, the frequencies
// are a buffer that both share, and nothing of the graph's rope is left. An operator without rope
// has the graph's, and so have heads of one key that have values of their own: the cache has more
// keys than there are before rope.

// MORE-LABEL: func.func @halves
// MORE: aten.cos
// MORE: aten.repeat_interleave
// MORE: mlac.cached_attention
// MORE-NOT: rope_order
// MORE-LABEL: func.func @last_pair
// CHECK-LABEL: func.func @halves
// CHECK-SAME: %[[X:.*]]: tensor<1x2x?x4xf32> {graph.input = "query"}, %[[Y:.*]]: tensor<1x1x?x4xf32> {graph.input = "key"}, %[[P:.*]]: tensor<1x?xi64> {graph.input = "position_ids"}, %[[F:.*]]: tensor<2xf32> {graph.values
// CHECK: mlac.prepare_metadata
// CHECK-NOT: aten.cos
// CHECK-NOT: aten.sin
// CHECK-NOT: aten.cat
// CHECK: %[[Q:.*]] = graph.node "aten.permute.default"(%[[X]])
// CHECK: %[[K:.*]] = graph.node "aten.permute.default"(%[[Y]])
// CHECK: graph.node "mlac.cached_attention"(%[[Q]], %[[K]], {{.*}}, %[[F]]) {{.*}}inv_freq = #graph.in<8>, {{.*}}rope_dim = 4 : i64, rope_first = 0 : i64, rope_multiplier = 2.000000e+00 : f64, rope_order = "half"
// CHECK: graph.node "mlac.cached_attention"({{.*}}, %[[F]]) {{.*}}rope_order = "half"
// OWN-LABEL: func.func @halves
// OWN-DAG: aten.cos
// OWN-DAG: aten.sin
// OWN-NOT: rope_order
func.func @halves(%x: tensor<1x2x?x4xf32> {graph.input = "query"}, %y: tensor<1x1x?x4xf32> {graph.input = "key"},
    %p: tensor<1x?xi64> {graph.input = "position_ids"},
    %f: tensor<2xf32> {graph.weight = "inv_freq", graph.values = dense<[1.0, 0.125]> : tensor<2xf32>}) -> tensor<1x2x?x4xf32> {
  %p1 = graph.node "aten.unsqueeze.default"(%p) {self = #graph.in<0>, dim = 2 : i64} called "p1" : (tensor<1x?xi64>) -> tensor<1x?x1xi64>
  %angles = graph.node "aten.mul.Tensor"(%p1, %f) {self = #graph.in<0>, other = #graph.in<1>} called "angles" : (tensor<1x?x1xi64>, tensor<2xf32>) -> tensor<1x?x2xf32>
  %both = graph.node "aten.cat.default"(%angles, %angles) {tensors = [#graph.in<0>, #graph.in<1>], dim = -1 : i64} called "both" : (tensor<1x?x2xf32>, tensor<1x?x2xf32>) -> tensor<1x?x4xf32>
  %c0 = graph.node "aten.cos.default"(%both) {self = #graph.in<0>} called "c0" : (tensor<1x?x4xf32>) -> tensor<1x?x4xf32>
  %c1 = graph.node "aten.mul.Tensor"(%c0) {self = #graph.in<0>, other = 2.0 : f64} called "c1" : (tensor<1x?x4xf32>) -> tensor<1x?x4xf32>
  %s0 = graph.node "aten.sin.default"(%both) {self = #graph.in<0>} called "s0" : (tensor<1x?x4xf32>) -> tensor<1x?x4xf32>
  %s1 = graph.node "aten.mul.Tensor"(%s0) {self = #graph.in<0>, other = 2.0 : f64} called "s1" : (tensor<1x?x4xf32>) -> tensor<1x?x4xf32>
  %c = graph.node "aten.unsqueeze.default"(%c1) {self = #graph.in<0>, dim = 1 : i64} called "c" : (tensor<1x?x4xf32>) -> tensor<1x1x?x4xf32>
  %s = graph.node "aten.unsqueeze.default"(%s1) {self = #graph.in<0>, dim = 1 : i64} called "s" : (tensor<1x?x4xf32>) -> tensor<1x1x?x4xf32>

  %xc = graph.node "aten.mul.Tensor"(%x, %c) {self = #graph.in<0>, other = #graph.in<1>} called "xc" : (tensor<1x2x?x4xf32>, tensor<1x1x?x4xf32>) -> tensor<1x2x?x4xf32>
  %x0 = graph.node "aten.slice.Tensor"(%x) {self = #graph.in<0>, dim = 3 : i64, start = 0 : i64, end = 2 : i64} called "x0" : (tensor<1x2x?x4xf32>) -> tensor<1x2x?x2xf32>
  %x1 = graph.node "aten.slice.Tensor"(%x) {self = #graph.in<0>, dim = 3 : i64, start = 2 : i64, end = 4 : i64} called "x1" : (tensor<1x2x?x4xf32>) -> tensor<1x2x?x2xf32>
  %xn = graph.node "aten.neg.default"(%x1) {self = #graph.in<0>} called "xn" : (tensor<1x2x?x2xf32>) -> tensor<1x2x?x2xf32>
  %xt = graph.node "aten.cat.default"(%xn, %x0) {tensors = [#graph.in<0>, #graph.in<1>], dim = -1 : i64} called "xt" : (tensor<1x2x?x2xf32>, tensor<1x2x?x2xf32>) -> tensor<1x2x?x4xf32>
  %xs = graph.node "aten.mul.Tensor"(%xt, %s) {self = #graph.in<0>, other = #graph.in<1>} called "xs" : (tensor<1x2x?x4xf32>, tensor<1x1x?x4xf32>) -> tensor<1x2x?x4xf32>
  %q = graph.node "aten.add.Tensor"(%xc, %xs) {self = #graph.in<0>, other = #graph.in<1>} called "q" : (tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32>) -> tensor<1x2x?x4xf32>

  %yc = graph.node "aten.mul.Tensor"(%y, %c) {self = #graph.in<0>, other = #graph.in<1>} called "yc" : (tensor<1x1x?x4xf32>, tensor<1x1x?x4xf32>) -> tensor<1x1x?x4xf32>
  %y0 = graph.node "aten.slice.Tensor"(%y) {self = #graph.in<0>, dim = 3 : i64, start = 0 : i64, end = 2 : i64} called "y0" : (tensor<1x1x?x4xf32>) -> tensor<1x1x?x2xf32>
  %y1 = graph.node "aten.slice.Tensor"(%y) {self = #graph.in<0>, dim = 3 : i64, start = 2 : i64, end = 4 : i64} called "y1" : (tensor<1x1x?x4xf32>) -> tensor<1x1x?x2xf32>
  %yn = graph.node "aten.neg.default"(%y1) {self = #graph.in<0>} called "yn" : (tensor<1x1x?x2xf32>) -> tensor<1x1x?x2xf32>
  %yt = graph.node "aten.cat.default"(%yn, %y0) {tensors = [#graph.in<0>, #graph.in<1>], dim = -1 : i64} called "yt" : (tensor<1x1x?x2xf32>, tensor<1x1x?x2xf32>) -> tensor<1x1x?x4xf32>
  %ys = graph.node "aten.mul.Tensor"(%yt, %s) {self = #graph.in<0>, other = #graph.in<1>} called "ys" : (tensor<1x1x?x4xf32>, tensor<1x1x?x4xf32>) -> tensor<1x1x?x4xf32>
  %k1 = graph.node "aten.add.Tensor"(%yc, %ys) {self = #graph.in<0>, other = #graph.in<1>} called "k1" : (tensor<1x1x?x4xf32>, tensor<1x1x?x4xf32>) -> tensor<1x1x?x4xf32>
  %k = graph.node "aten.repeat_interleave.self_int"(%k1) {self = #graph.in<0>, repeats = 2 : i64, dim = 1 : i64} called "k" : (tensor<1x1x?x4xf32>) -> tensor<1x2x?x4xf32>

  %v = graph.node "aten.repeat_interleave.self_int"(%y) {self = #graph.in<0>, repeats = 2 : i64, dim = 1 : i64} called "v" : (tensor<1x1x?x4xf32>) -> tensor<1x2x?x4xf32>
  %a = graph.node "aten.scaled_dot_product_attention.default"(%q, %k, %v) {query = #graph.in<0>, key = #graph.in<1>, value = #graph.in<2>, is_causal = true, scale = 0.5 : f64} called "attention_0" in "layers.0" : (tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32>) -> tensor<1x2x?x4xf32>
  %b = graph.node "aten.scaled_dot_product_attention.default"(%q, %k, %v) {query = #graph.in<0>, key = #graph.in<1>, value = #graph.in<2>, is_causal = true, scale = 0.25 : f64} called "attention_1" in "layers.1" : (tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32>) -> tensor<1x2x?x4xf32>
  graph.node "aten._assert_tensor_metadata.default"(%c1) {a = #graph.in<0>} called "check" : (tensor<1x?x4xf32>) -> ()
  %sum = graph.node "aten.add.Tensor"(%a, %b) {self = #graph.in<0>, other = #graph.in<1>} called "sum" : (tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32>) -> tensor<1x2x?x4xf32>
  return %sum : tensor<1x2x?x4xf32>
}

// -----

// One pair of the last channels of each head is turned, by the token's place in the graph.

// CHECK-LABEL: func.func @last_pair
// CHECK-SAME: %[[X:.*]]: tensor<1x2x?x4xf32> {graph.input = "query"}
// CHECK-NOT: aten.cos
// CHECK: %[[Q:.*]] = graph.node "aten.permute.default"(%[[X]])
// CHECK: graph.node "mlac.cached_attention"(%[[Q]],
// CHECK-SAME: rope_dim = 2 : i64, rope_first = 2 : i64, rope_multiplier = 1.000000e+00 : f64, rope_order = "half"
func.func @last_pair(%x: tensor<1x2x?x4xf32> {graph.input = "query"}, %ids: tensor<1x?xi64> {graph.input = "ids"},
    %f: tensor<1xf32> {graph.weight = "inv_freq", graph.values = dense<[0.5]> : tensor<1xf32>}) -> tensor<1x2x?x4xf32> {
  %n = graph.node "aten.sym_size.int"(%ids) {self = #graph.in<0>, dim = 1 : i64} called "n" : (tensor<1x?xi64>) -> index
  %i = graph.node "aten.arange.default"(%n) {end = #graph.in<0>} called "i" : (index) -> tensor<?xi64>
  %i1 = graph.node "aten.unsqueeze.default"(%i) {self = #graph.in<0>, dim = 1 : i64} called "i1" : (tensor<?xi64>) -> tensor<?x1xi64>
  %angles = graph.node "aten.mul.Tensor"(%i1, %f) {self = #graph.in<0>, other = #graph.in<1>} called "angles" : (tensor<?x1xi64>, tensor<1xf32>) -> tensor<?x1xf32>
  %c = graph.node "aten.cos.default"(%angles) {self = #graph.in<0>} called "c" : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %s = graph.node "aten.sin.default"(%angles) {self = #graph.in<0>} called "s" : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %same = graph.node "aten.slice.Tensor"(%x) {self = #graph.in<0>, dim = 3 : i64, start = 0 : i64, end = 2 : i64} called "same" : (tensor<1x2x?x4xf32>) -> tensor<1x2x?x2xf32>
  %x0 = graph.node "aten.slice.Tensor"(%x) {self = #graph.in<0>, dim = 3 : i64, start = 2 : i64, end = 3 : i64} called "x0" : (tensor<1x2x?x4xf32>) -> tensor<1x2x?x1xf32>
  %x1 = graph.node "aten.slice.Tensor"(%x) {self = #graph.in<0>, dim = 3 : i64, start = 3 : i64, end = 4 : i64} called "x1" : (tensor<1x2x?x4xf32>) -> tensor<1x2x?x1xf32>
  %x0c = graph.node "aten.mul.Tensor"(%x0, %c) {self = #graph.in<0>, other = #graph.in<1>} called "x0c" : (tensor<1x2x?x1xf32>, tensor<?x1xf32>) -> tensor<1x2x?x1xf32>
  %x1s = graph.node "aten.mul.Tensor"(%x1, %s) {self = #graph.in<0>, other = #graph.in<1>} called "x1s" : (tensor<1x2x?x1xf32>, tensor<?x1xf32>) -> tensor<1x2x?x1xf32>
  %x1c = graph.node "aten.mul.Tensor"(%x1, %c) {self = #graph.in<0>, other = #graph.in<1>} called "x1c" : (tensor<1x2x?x1xf32>, tensor<?x1xf32>) -> tensor<1x2x?x1xf32>
  %x0s = graph.node "aten.mul.Tensor"(%x0, %s) {self = #graph.in<0>, other = #graph.in<1>} called "x0s" : (tensor<1x2x?x1xf32>, tensor<?x1xf32>) -> tensor<1x2x?x1xf32>
  %t0 = graph.node "aten.sub.Tensor"(%x0c, %x1s) {self = #graph.in<0>, other = #graph.in<1>} called "t0" : (tensor<1x2x?x1xf32>, tensor<1x2x?x1xf32>) -> tensor<1x2x?x1xf32>
  %t1 = graph.node "aten.add.Tensor"(%x1c, %x0s) {self = #graph.in<0>, other = #graph.in<1>} called "t1" : (tensor<1x2x?x1xf32>, tensor<1x2x?x1xf32>) -> tensor<1x2x?x1xf32>
  %q = graph.node "aten.cat.default"(%same, %t0, %t1) {tensors = [#graph.in<0>, #graph.in<1>, #graph.in<2>], dim = -1 : i64} called "q" : (tensor<1x2x?x2xf32>, tensor<1x2x?x1xf32>, tensor<1x2x?x1xf32>) -> tensor<1x2x?x4xf32>
  %a = graph.node "aten.scaled_dot_product_attention.default"(%q, %q, %x) {query = #graph.in<0>, key = #graph.in<1>, value = #graph.in<2>, is_causal = true, scale = 0.5 : f64} called "attention" in "layers.0" : (tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32>) -> tensor<1x2x?x4xf32>
  return %a : tensor<1x2x?x4xf32>
}

// -----

// Cosines alone, of queries alone: nothing that a package has.

// CHECK-LABEL: func.func @unlike
// CHECK: aten.cos
// CHECK: mlac.cached_attention
// CHECK-NOT: rope_order
func.func @unlike(%x: tensor<1x2x?x2xf32> {graph.input = "query"}, %ids: tensor<1x?xi64> {graph.input = "ids"},
    %f: tensor<2xf32> {graph.weight = "inv_freq", graph.values = dense<[0.5, 0.25]> : tensor<2xf32>}) -> tensor<1x2x?x2xf32> {
  %n = graph.node "aten.sym_size.int"(%ids) {self = #graph.in<0>, dim = 1 : i64} called "n" : (tensor<1x?xi64>) -> index
  %i = graph.node "aten.arange.default"(%n) {end = #graph.in<0>} called "i" : (index) -> tensor<?xi64>
  %i1 = graph.node "aten.unsqueeze.default"(%i) {self = #graph.in<0>, dim = 1 : i64} called "i1" : (tensor<?xi64>) -> tensor<?x1xi64>
  %angles = graph.node "aten.mul.Tensor"(%i1, %f) {self = #graph.in<0>, other = #graph.in<1>} called "angles" : (tensor<?x1xi64>, tensor<2xf32>) -> tensor<?x2xf32>
  %c = graph.node "aten.cos.default"(%angles) {self = #graph.in<0>} called "c" : (tensor<?x2xf32>) -> tensor<?x2xf32>
  %q = graph.node "aten.mul.Tensor"(%x, %c) {self = #graph.in<0>, other = #graph.in<1>} called "q" : (tensor<1x2x?x2xf32>, tensor<?x2xf32>) -> tensor<1x2x?x2xf32>
  %a = graph.node "aten.scaled_dot_product_attention.default"(%q, %x, %x) {query = #graph.in<0>, key = #graph.in<1>, value = #graph.in<2>, is_causal = true, scale = 0.5 : f64} called "attention" in "layers.0" : (tensor<1x2x?x2xf32>, tensor<1x2x?x2xf32>, tensor<1x2x?x2xf32>) -> tensor<1x2x?x2xf32>
  return %a : tensor<1x2x?x2xf32>
}

// -----

// Frequencies of a theta, 10000: an operator with a table of angles by theta rotates whole heads of halves.

// CHECK-LABEL: func.func @theta
// OWN-LABEL: func.func @theta
// OWN-SAME: %[[X:[a-z0-9]+]]: tensor<1x2x?x4xf32> {graph.input = "query"}
// OWN-SAME: %[[FREQS:[a-z0-9]+]]: tensor<?x2x2xf32> {graph.input = "freqs_cis_rope_10000_0_1_0"}
// OWN-NOT: aten.cos
// OWN: %[[Q:.*]] = graph.node "aten.permute.default"(%[[X]])
// OWN: graph.node "mlac.paged_mha_with_cache.default"(%[[Q]], {{.*}}, %[[FREQS]])
func.func @theta(%x: tensor<1x2x?x4xf32> {graph.input = "query"}, %p: tensor<1x?xi64> {graph.input = "position_ids"},
    %f: tensor<2xf32> {graph.weight = "inv_freq", graph.values = dense<[1.0, 0.01]> : tensor<2xf32>}) -> tensor<1x2x?x4xf32> {
  %p1 = graph.node "aten.unsqueeze.default"(%p) {self = #graph.in<0>, dim = 2 : i64} called "p1" : (tensor<1x?xi64>) -> tensor<1x?x1xi64>
  %angles = graph.node "aten.mul.Tensor"(%p1, %f) {self = #graph.in<0>, other = #graph.in<1>} called "angles" : (tensor<1x?x1xi64>, tensor<2xf32>) -> tensor<1x?x2xf32>
  %both = graph.node "aten.cat.default"(%angles, %angles) {tensors = [#graph.in<0>, #graph.in<1>], dim = -1 : i64} called "both" : (tensor<1x?x2xf32>, tensor<1x?x2xf32>) -> tensor<1x?x4xf32>
  %c0 = graph.node "aten.cos.default"(%both) {self = #graph.in<0>} called "c0" : (tensor<1x?x4xf32>) -> tensor<1x?x4xf32>
  %s0 = graph.node "aten.sin.default"(%both) {self = #graph.in<0>} called "s0" : (tensor<1x?x4xf32>) -> tensor<1x?x4xf32>
  %c = graph.node "aten.unsqueeze.default"(%c0) {self = #graph.in<0>, dim = 1 : i64} called "c" : (tensor<1x?x4xf32>) -> tensor<1x1x?x4xf32>
  %s = graph.node "aten.unsqueeze.default"(%s0) {self = #graph.in<0>, dim = 1 : i64} called "s" : (tensor<1x?x4xf32>) -> tensor<1x1x?x4xf32>
  %xc = graph.node "aten.mul.Tensor"(%x, %c) {self = #graph.in<0>, other = #graph.in<1>} called "xc" : (tensor<1x2x?x4xf32>, tensor<1x1x?x4xf32>) -> tensor<1x2x?x4xf32>
  %x0 = graph.node "aten.slice.Tensor"(%x) {self = #graph.in<0>, dim = 3 : i64, start = 0 : i64, end = 2 : i64} called "x0" : (tensor<1x2x?x4xf32>) -> tensor<1x2x?x2xf32>
  %x1 = graph.node "aten.slice.Tensor"(%x) {self = #graph.in<0>, dim = 3 : i64, start = 2 : i64, end = 4 : i64} called "x1" : (tensor<1x2x?x4xf32>) -> tensor<1x2x?x2xf32>
  %xn = graph.node "aten.neg.default"(%x1) {self = #graph.in<0>} called "xn" : (tensor<1x2x?x2xf32>) -> tensor<1x2x?x2xf32>
  %xt = graph.node "aten.cat.default"(%xn, %x0) {tensors = [#graph.in<0>, #graph.in<1>], dim = -1 : i64} called "xt" : (tensor<1x2x?x2xf32>, tensor<1x2x?x2xf32>) -> tensor<1x2x?x4xf32>
  %xs = graph.node "aten.mul.Tensor"(%xt, %s) {self = #graph.in<0>, other = #graph.in<1>} called "xs" : (tensor<1x2x?x4xf32>, tensor<1x1x?x4xf32>) -> tensor<1x2x?x4xf32>
  %q = graph.node "aten.add.Tensor"(%xc, %xs) {self = #graph.in<0>, other = #graph.in<1>} called "q" : (tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32>) -> tensor<1x2x?x4xf32>
  %a = graph.node "aten.scaled_dot_product_attention.default"(%q, %q, %x) {query = #graph.in<0>, key = #graph.in<1>, value = #graph.in<2>, is_causal = true, scale = 0.5 : f64} called "attention" in "layers.0" : (tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32>) -> tensor<1x2x?x4xf32>
  return %a : tensor<1x2x?x4xf32>
}

// -----

// Cosines and sines that are inputs: the operator takes a row of each token, and no frequencies.

// CHECK-LABEL: func.func @tables
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<1x2x?x2xf32> {graph.input = "query"}, %[[C:[a-z0-9]+]]: tensor<1x?x1xf32> {graph.input = "cos"}, %[[S:[a-z0-9]+]]: tensor<1x?x1xf32> {graph.input = "sin"}
// CHECK: %[[Q:.*]] = graph.node "aten.permute.default"(%[[X]])
// CHECK: graph.node "mlac.cached_attention"(%[[Q]], {{.*}}) {{{.*}}cos = #graph.in<8>, {{.*}}rope_dim = 2 : i64, rope_first = 0 : i64, rope_order = "half", {{.*}}sin = #graph.in<9>
// OWN-LABEL: func.func @tables
// OWN-SAME: tensor<0xf32> {graph.input = "freqs_cis_None_10000_0_1_0"}
// OWN: aten.cat
func.func @tables(%x: tensor<1x2x?x2xf32> {graph.input = "query"}, %c: tensor<1x?x1xf32> {graph.input = "cos"},
    %s: tensor<1x?x1xf32> {graph.input = "sin"}) -> tensor<1x2x?x2xf32> {
  %c1 = graph.node "aten.unsqueeze.default"(%c) {self = #graph.in<0>, dim = 1 : i64} called "c1" : (tensor<1x?x1xf32>) -> tensor<1x1x?x1xf32>
  %s1 = graph.node "aten.unsqueeze.default"(%s) {self = #graph.in<0>, dim = 1 : i64} called "s1" : (tensor<1x?x1xf32>) -> tensor<1x1x?x1xf32>
  %x0 = graph.node "aten.slice.Tensor"(%x) {self = #graph.in<0>, dim = 3 : i64, start = 0 : i64, end = 1 : i64} called "x0" : (tensor<1x2x?x2xf32>) -> tensor<1x2x?x1xf32>
  %x1 = graph.node "aten.slice.Tensor"(%x) {self = #graph.in<0>, dim = 3 : i64, start = 1 : i64, end = 2 : i64} called "x1" : (tensor<1x2x?x2xf32>) -> tensor<1x2x?x1xf32>
  %x0c = graph.node "aten.mul.Tensor"(%x0, %c1) {self = #graph.in<0>, other = #graph.in<1>} called "x0c" : (tensor<1x2x?x1xf32>, tensor<1x1x?x1xf32>) -> tensor<1x2x?x1xf32>
  %x1s = graph.node "aten.mul.Tensor"(%x1, %s1) {self = #graph.in<0>, other = #graph.in<1>} called "x1s" : (tensor<1x2x?x1xf32>, tensor<1x1x?x1xf32>) -> tensor<1x2x?x1xf32>
  %x1c = graph.node "aten.mul.Tensor"(%x1, %c1) {self = #graph.in<0>, other = #graph.in<1>} called "x1c" : (tensor<1x2x?x1xf32>, tensor<1x1x?x1xf32>) -> tensor<1x2x?x1xf32>
  %x0s = graph.node "aten.mul.Tensor"(%x0, %s1) {self = #graph.in<0>, other = #graph.in<1>} called "x0s" : (tensor<1x2x?x1xf32>, tensor<1x1x?x1xf32>) -> tensor<1x2x?x1xf32>
  %t0 = graph.node "aten.sub.Tensor"(%x0c, %x1s) {self = #graph.in<0>, other = #graph.in<1>} called "t0" : (tensor<1x2x?x1xf32>, tensor<1x2x?x1xf32>) -> tensor<1x2x?x1xf32>
  %t1 = graph.node "aten.add.Tensor"(%x1c, %x0s) {self = #graph.in<0>, other = #graph.in<1>} called "t1" : (tensor<1x2x?x1xf32>, tensor<1x2x?x1xf32>) -> tensor<1x2x?x1xf32>
  %q = graph.node "aten.cat.default"(%t0, %t1) {tensors = [#graph.in<0>, #graph.in<1>], dim = -1 : i64} called "q" : (tensor<1x2x?x1xf32>, tensor<1x2x?x1xf32>) -> tensor<1x2x?x2xf32>
  %a = graph.node "aten.scaled_dot_product_attention.default"(%q, %q, %x) {query = #graph.in<0>, key = #graph.in<1>, value = #graph.in<2>, is_causal = true, scale = 0.5 : f64} called "attention" in "layers.0" : (tensor<1x2x?x2xf32>, tensor<1x2x?x2xf32>, tensor<1x2x?x2xf32>) -> tensor<1x2x?x2xf32>
  return %a : tensor<1x2x?x2xf32>
}

// -----

// Two ropes, as Gemma 3 has them for windows and for all tokens: there is one table of positions, that of
// the first frequencies. The other attention takes rows of the graph's cosines and sines.

// CHECK-LABEL: func.func @two_ropes
// CHECK-NOT: aten.cos
// CHECK: graph.node "mlac.cached_attention"({{.*}}) {{{.*}}inv_freq = #graph.in<8>
// CHECK: %[[COS:.*]] = graph.node "aten.unsqueeze.default"(%cos1)
// CHECK: %[[SIN:.*]] = graph.node "aten.unsqueeze.default"(%sin1)
// CHECK-NOT: aten.scaled_dot_product_attention
// CHECK: graph.node "mlac.cached_attention"({{.*}}, %[[COS]], %[[SIN]]) {{{.*}}cos = #graph.in<8>
// CHECK-NOT: inv_freq
// OWN-LABEL: func.func @two_ropes
func.func @two_ropes(%x: tensor<1x2x?x2xf32> {graph.input = "query"}, %p: tensor<1x?xi64> {graph.input = "position_ids"},
    %f0: tensor<1xf32> {graph.weight = "local_freq", graph.values = dense<1.0> : tensor<1xf32>},
    %f1: tensor<1xf32> {graph.weight = "global_freq", graph.values = dense<0.5> : tensor<1xf32>}) -> tensor<1x2x?x2xf32> {
  %p1 = graph.node "aten.unsqueeze.default"(%p) {self = #graph.in<0>, dim = 2 : i64} called "p1" : (tensor<1x?xi64>) -> tensor<1x?x1xi64>
  %angle0 = graph.node "aten.mul.Tensor"(%p1, %f0) {self = #graph.in<0>, other = #graph.in<1>} called "angle0" : (tensor<1x?x1xi64>, tensor<1xf32>) -> tensor<1x?x1xf32>
  %cos0 = graph.node "aten.cos.default"(%angle0) {self = #graph.in<0>} called "cos0" : (tensor<1x?x1xf32>) -> tensor<1x?x1xf32>
  %cos_h0 = graph.node "aten.unsqueeze.default"(%cos0) {self = #graph.in<0>, dim = 1 : i64} called "cos_h0" : (tensor<1x?x1xf32>) -> tensor<1x1x?x1xf32>
  %sin0 = graph.node "aten.sin.default"(%angle0) {self = #graph.in<0>} called "sin0" : (tensor<1x?x1xf32>) -> tensor<1x?x1xf32>
  %sin_h0 = graph.node "aten.unsqueeze.default"(%sin0) {self = #graph.in<0>, dim = 1 : i64} called "sin_h0" : (tensor<1x?x1xf32>) -> tensor<1x1x?x1xf32>
  %x0_0 = graph.node "aten.slice.Tensor"(%x) {self = #graph.in<0>, dim = 3 : i64, start = 0 : i64, end = 1 : i64} called "x0_0" : (tensor<1x2x?x2xf32>) -> tensor<1x2x?x1xf32>
  %x1_0 = graph.node "aten.slice.Tensor"(%x) {self = #graph.in<0>, dim = 3 : i64, start = 1 : i64, end = 2 : i64} called "x1_0" : (tensor<1x2x?x2xf32>) -> tensor<1x2x?x1xf32>
  %x0cos0 = graph.node "aten.mul.Tensor"(%x0_0, %cos_h0) {self = #graph.in<0>, other = #graph.in<1>} called "x0cos0" : (tensor<1x2x?x1xf32>, tensor<1x1x?x1xf32>) -> tensor<1x2x?x1xf32>
  %x1sin0 = graph.node "aten.mul.Tensor"(%x1_0, %sin_h0) {self = #graph.in<0>, other = #graph.in<1>} called "x1sin0" : (tensor<1x2x?x1xf32>, tensor<1x1x?x1xf32>) -> tensor<1x2x?x1xf32>
  %x1cos0 = graph.node "aten.mul.Tensor"(%x1_0, %cos_h0) {self = #graph.in<0>, other = #graph.in<1>} called "x1cos0" : (tensor<1x2x?x1xf32>, tensor<1x1x?x1xf32>) -> tensor<1x2x?x1xf32>
  %x0sin0 = graph.node "aten.mul.Tensor"(%x0_0, %sin_h0) {self = #graph.in<0>, other = #graph.in<1>} called "x0sin0" : (tensor<1x2x?x1xf32>, tensor<1x1x?x1xf32>) -> tensor<1x2x?x1xf32>
  %t0_0 = graph.node "aten.sub.Tensor"(%x0cos0, %x1sin0) {self = #graph.in<0>, other = #graph.in<1>} called "t0_0" : (tensor<1x2x?x1xf32>, tensor<1x2x?x1xf32>) -> tensor<1x2x?x1xf32>
  %t1_0 = graph.node "aten.add.Tensor"(%x1cos0, %x0sin0) {self = #graph.in<0>, other = #graph.in<1>} called "t1_0" : (tensor<1x2x?x1xf32>, tensor<1x2x?x1xf32>) -> tensor<1x2x?x1xf32>
  %q0 = graph.node "aten.cat.default"(%t0_0, %t1_0) {tensors = [#graph.in<0>, #graph.in<1>], dim = -1 : i64} called "q0" : (tensor<1x2x?x1xf32>, tensor<1x2x?x1xf32>) -> tensor<1x2x?x2xf32>
  %a0 = graph.node "aten.scaled_dot_product_attention.default"(%q0, %q0, %x) {query = #graph.in<0>, key = #graph.in<1>, value = #graph.in<2>, is_causal = true, scale = 0.5 : f64} called "attention0" in "layers.0" : (tensor<1x2x?x2xf32>, tensor<1x2x?x2xf32>, tensor<1x2x?x2xf32>) -> tensor<1x2x?x2xf32>
  %angle1 = graph.node "aten.mul.Tensor"(%p1, %f1) {self = #graph.in<0>, other = #graph.in<1>} called "angle1" : (tensor<1x?x1xi64>, tensor<1xf32>) -> tensor<1x?x1xf32>
  %cos1 = graph.node "aten.cos.default"(%angle1) {self = #graph.in<0>} called "cos1" : (tensor<1x?x1xf32>) -> tensor<1x?x1xf32>
  %cos_h1 = graph.node "aten.unsqueeze.default"(%cos1) {self = #graph.in<0>, dim = 1 : i64} called "cos_h1" : (tensor<1x?x1xf32>) -> tensor<1x1x?x1xf32>
  %sin1 = graph.node "aten.sin.default"(%angle1) {self = #graph.in<0>} called "sin1" : (tensor<1x?x1xf32>) -> tensor<1x?x1xf32>
  %sin_h1 = graph.node "aten.unsqueeze.default"(%sin1) {self = #graph.in<0>, dim = 1 : i64} called "sin_h1" : (tensor<1x?x1xf32>) -> tensor<1x1x?x1xf32>
  %x0_1 = graph.node "aten.slice.Tensor"(%a0) {self = #graph.in<0>, dim = 3 : i64, start = 0 : i64, end = 1 : i64} called "x0_1" : (tensor<1x2x?x2xf32>) -> tensor<1x2x?x1xf32>
  %x1_1 = graph.node "aten.slice.Tensor"(%a0) {self = #graph.in<0>, dim = 3 : i64, start = 1 : i64, end = 2 : i64} called "x1_1" : (tensor<1x2x?x2xf32>) -> tensor<1x2x?x1xf32>
  %x0cos1 = graph.node "aten.mul.Tensor"(%x0_1, %cos_h1) {self = #graph.in<0>, other = #graph.in<1>} called "x0cos1" : (tensor<1x2x?x1xf32>, tensor<1x1x?x1xf32>) -> tensor<1x2x?x1xf32>
  %x1sin1 = graph.node "aten.mul.Tensor"(%x1_1, %sin_h1) {self = #graph.in<0>, other = #graph.in<1>} called "x1sin1" : (tensor<1x2x?x1xf32>, tensor<1x1x?x1xf32>) -> tensor<1x2x?x1xf32>
  %x1cos1 = graph.node "aten.mul.Tensor"(%x1_1, %cos_h1) {self = #graph.in<0>, other = #graph.in<1>} called "x1cos1" : (tensor<1x2x?x1xf32>, tensor<1x1x?x1xf32>) -> tensor<1x2x?x1xf32>
  %x0sin1 = graph.node "aten.mul.Tensor"(%x0_1, %sin_h1) {self = #graph.in<0>, other = #graph.in<1>} called "x0sin1" : (tensor<1x2x?x1xf32>, tensor<1x1x?x1xf32>) -> tensor<1x2x?x1xf32>
  %t0_1 = graph.node "aten.sub.Tensor"(%x0cos1, %x1sin1) {self = #graph.in<0>, other = #graph.in<1>} called "t0_1" : (tensor<1x2x?x1xf32>, tensor<1x2x?x1xf32>) -> tensor<1x2x?x1xf32>
  %t1_1 = graph.node "aten.add.Tensor"(%x1cos1, %x0sin1) {self = #graph.in<0>, other = #graph.in<1>} called "t1_1" : (tensor<1x2x?x1xf32>, tensor<1x2x?x1xf32>) -> tensor<1x2x?x1xf32>
  %q1 = graph.node "aten.cat.default"(%t0_1, %t1_1) {tensors = [#graph.in<0>, #graph.in<1>], dim = -1 : i64} called "q1" : (tensor<1x2x?x1xf32>, tensor<1x2x?x1xf32>) -> tensor<1x2x?x2xf32>
  %a1 = graph.node "aten.scaled_dot_product_attention.default"(%q1, %q1, %a0) {query = #graph.in<0>, key = #graph.in<1>, value = #graph.in<2>, is_causal = true, scale = 0.5 : f64} called "attention1" in "layers.1" : (tensor<1x2x?x2xf32>, tensor<1x2x?x2xf32>, tensor<1x2x?x2xf32>) -> tensor<1x2x?x2xf32>
  return %a1 : tensor<1x2x?x2xf32>
}
