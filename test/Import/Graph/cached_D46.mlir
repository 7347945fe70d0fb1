// RUN: mla-opt %s --split-input-file --mla-cache-attention --verify-diagnostics | FileCheck %s

// Two attentions: by scaled_dot_product_attention, whose keys are repeated for groups of queries,
// and by products and a softmax over the graph's own mask with a window. Metadata is made once.

// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[Q:.*]]: tensor<1x4x?x8xf32> {graph.input = "query"}, %[[K:.*]]: tensor<1x2x?x8xf32> {graph.input = "key"}, %[[V:.*]]: tensor<1x2x?x8xf32> {graph.input = "value"}, %[[H:.*]]: tensor<1x?x64xf32> {graph.input = "hidden_states"}
// CHECK-SAME: %[[LEN:.*]]: tensor<?xi32> {graph.input = "seq_len"}, %[[POS:.*]]: tensor<?xi32> {graph.input = "input_pos"}, %[[LOC:.*]]: tensor<?xi32> {graph.input = "cache_loc"}, %[[PAGES:.*]]: tensor<?xi32> {graph.input = "pages_per_seq"}
// CHECK-SAME: %[[CACHE0:.*]]: tensor<?x?x32xf32> {graph.input = "kv_cache_0"}, %[[CACHE1:.*]]: tensor<?x?x64xf32> {graph.input = "kv_cache_1"}
// CHECK: %[[META:.*]], %[[META0:.*]], %[[META1:.*]], %[[META2:.*]] = graph.node "mlac.prepare_metadata"(%[[LEN]], %[[POS]], %[[LOC]], %[[PAGES]]) {cache_loc = #graph.in<2>, input_pos = #graph.in<1>, pages_per_seq = #graph.in<3>, seq_len = #graph.in<0>}
// CHECK-NOT: scaled_dot_product_attention
// CHECK: %[[QR:.*]] = graph.node "aten.permute.default"(%[[Q]]) {dims = [0, 2, 1, 3], self = #graph.in<0>}
// CHECK: %[[KH:.*]] = graph.node "aten.slice.Tensor"({{.*}}) {dim = 1 : i64, end = 9223372036854775807 : i64, self = #graph.in<0>, start = 0 : i64, step = 2 : i64} {{.*}} -> tensor<1x2x?x8xf32>
// CHECK: %[[KR:.*]] = graph.node "aten.permute.default"(%[[KH]])
// CHECK: %[[VH:.*]] = graph.node "aten.slice.Tensor"
// CHECK: %[[VR:.*]] = graph.node "aten.permute.default"(%[[VH]])
// CHECK: %[[O:.*]] = graph.node "mlac.cached_attention"(%[[QR]], %[[KR]], %[[VR]], %[[META]], %[[META0]], %[[META1]], %[[META2]], %[[CACHE0]])
// CHECK-SAME: kv_cache = #graph.in<7>, page_table = #graph.in<5>, query = #graph.in<0>, scale = 0.35355339059327373 : f64, seq_len = #graph.in<3>, seq_start = #graph.in<6>, softcap = 0.000000e+00 : f64, value = #graph.in<2>, window = 0 : i64}
// CHECK: graph.node "aten.permute.default"(%[[O]]) {dims = [0, 2, 1, 3]
// CHECK-NOT: prepare_metadata
// CHECK: graph.node "mlac.cached_attention"({{.*}}, %[[META]], %[[META0]], %[[META1]], %[[META2]], %[[CACHE1]])
// CHECK-SAME: scale = 5.000000e-01 : f64
// CHECK-SAME: window = 3 : i64
func.func @forward(%q: tensor<1x4x?x8xf32> {graph.input = "query"},
    %k: tensor<1x2x?x8xf32> {graph.input = "key"}, %v: tensor<1x2x?x8xf32> {graph.input = "value"},
    %x: tensor<1x?x64xf32> {graph.input = "hidden_states"}) -> tensor<1x4x?x8xf32> {
  %k4 = graph.node "aten.repeat_interleave.self_int"(%k) {self = #graph.in<0>, repeats = 2 : i64, dim = 1 : i64} called "keys" : (tensor<1x2x?x8xf32>) -> tensor<1x4x?x8xf32>
  %v4 = graph.node "aten.repeat_interleave.self_int"(%v) {self = #graph.in<0>, repeats = 2 : i64, dim = 1 : i64} called "values" : (tensor<1x2x?x8xf32>) -> tensor<1x4x?x8xf32>
  %o = graph.node "aten.scaled_dot_product_attention.default"(%q, %k4, %v4) {query = #graph.in<0>, key = #graph.in<1>, value = #graph.in<2>, is_causal = true} called "attention_0" in "layers.0" : (tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>) -> tensor<1x4x?x8xf32>
  %n = graph.node "aten.sym_size.int"(%x) {self = #graph.in<0>, dim = 1 : i64} called "tokens" : (tensor<1x?x64xf32>) -> index
  %i = graph.node "aten.arange.default"(%n) {end = #graph.in<0>} called "positions" : (index) -> tensor<?xi64>
  %a = graph.node "aten.unsqueeze.default"(%i) {self = #graph.in<0>, dim = 1 : i64} called "rows" : (tensor<?xi64>) -> tensor<?x1xi64>
  %d = graph.node "aten.sub.Tensor"(%a, %i) {self = #graph.in<0>, other = #graph.in<1>} called "distance" : (tensor<?x1xi64>, tensor<?xi64>) -> tensor<?x?xi64>
  %past = graph.node "aten.ge.Scalar"(%d) {self = #graph.in<0>, other = 0 : i64} called "past" : (tensor<?x?xi64>) -> tensor<?x?xi1>
  %near = graph.node "aten.lt.Scalar"(%d) {self = #graph.in<0>, other = 3 : i64} called "near" : (tensor<?x?xi64>) -> tensor<?x?xi1>
  %seen = graph.node "aten.logical_and.default"(%past, %near) {self = #graph.in<0>, other = #graph.in<1>} called "seen" : (tensor<?x?xi1>, tensor<?x?xi1>) -> tensor<?x?xi1>
  %kt = graph.node "aten.transpose.int"(%q) {self = #graph.in<0>, dim0 = 2 : i64, dim1 = 3 : i64} called "transposed" : (tensor<1x4x?x8xf32>) -> tensor<1x4x8x?xf32>
  %s = graph.node "aten.matmul.default"(%q, %kt) {self = #graph.in<0>, other = #graph.in<1>} called "scores" : (tensor<1x4x?x8xf32>, tensor<1x4x8x?xf32>) -> tensor<1x4x?x?xf32>
  %half = graph.node "aten.mul.Tensor"(%s) {self = #graph.in<0>, other = 0.5 : f64} called "scaled" : (tensor<1x4x?x?xf32>) -> tensor<1x4x?x?xf32>
  %not = graph.node "aten.logical_not.default"(%seen) {self = #graph.in<0>} called "hidden" : (tensor<?x?xi1>) -> tensor<?x?xi1>
  %masked = graph.node "aten.masked_fill.Scalar"(%half, %not) {self = #graph.in<0>, mask = #graph.in<1>, value = -1.0e9 : f64} called "masked" : (tensor<1x4x?x?xf32>, tensor<?x?xi1>) -> tensor<1x4x?x?xf32>
  %w = graph.node "aten.softmax.int"(%masked) {self = #graph.in<0>, dim = -1 : i64} called "weights" : (tensor<1x4x?x?xf32>) -> tensor<1x4x?x?xf32>
  %p = graph.node "aten.matmul.default"(%w, %v4) {self = #graph.in<0>, other = #graph.in<1>} called "attention_1" in "layers.1" : (tensor<1x4x?x?xf32>, tensor<1x4x?x8xf32>) -> tensor<1x4x?x8xf32>
  return %p : tensor<1x4x?x8xf32>
}

// -----

func.func @forward(%q: tensor<1x4x?x8xf32> {graph.input = "query"},
    %x: tensor<1x?x64xf32> {graph.input = "hidden_states"}) -> tensor<1x4x?x8xf32> {
  // expected-error @below {{node 'attention' (aten.scaled_dot_product_attention.default) in layers.0: its attention cannot be cached: it has no mask, so that tokens see those after them}}
  %o = graph.node "aten.scaled_dot_product_attention.default"(%q, %q, %q) {query = #graph.in<0>, key = #graph.in<1>, value = #graph.in<2>} called "attention" in "layers.0" : (tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>) -> tensor<1x4x?x8xf32>
  return %o : tensor<1x4x?x8xf32>
}

// -----

// expected-error @below {{the graph has no attention}}
func.func @forward(%x: tensor<1x?x64xf32> {graph.input = "hidden_states"}) -> tensor<1x?x64xf32> {
  return %x : tensor<1x?x64xf32>
}

// -----

func.func @forward(%x: tensor<1x?x64xf32> {graph.input = "hidden_states"}) -> tensor<1x?x64xf32> {
  // expected-error @below {{node 'write' (aten.frob_.default): may write to memory in a way that is not followed: the operator is not one that is followed (torch makes a graph that does not write: program.run_decompositions({}))}}
  %y = graph.node "aten.frob_.default"(%x) {self = #graph.in<0>} called "write" : (tensor<1x?x64xf32>) -> tensor<1x?x64xf32>
  return %y : tensor<1x?x64xf32>
}

// -----

// Another library's operator may write, whatever its name, but not in a graph that torch verified.

func.func @forward(%q: tensor<1x4x?x8xf32> {graph.input = "query"},
    %x: tensor<1x?x64xf32> {graph.input = "hidden_states"}) -> tensor<1x4x?x8xf32> {
  // expected-error @below {{node 'experts' (library.experts.default) in layers.0.mlp: may write to memory in a way that is not followed: the operator is not one that is followed (torch}}
  %y = graph.node "library.experts.default"(%x) {input = #graph.in<0>} called "experts" in "layers.0.mlp" : (tensor<1x?x64xf32>) -> tensor<1x?x64xf32>
  %o = graph.node "aten.scaled_dot_product_attention.default"(%q, %q, %q) {query = #graph.in<0>, key = #graph.in<1>, value = #graph.in<2>, is_causal = true} called "attention" : (tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>) -> tensor<1x4x?x8xf32>
  return %o : tensor<1x4x?x8xf32>
}

// -----

// CHECK-LABEL: func.func @verified
// CHECK-SAME: attributes {graph.functional}
// CHECK: graph.node "library.experts.default"
// CHECK: graph.node "mlac.cached_attention"
func.func @verified(%q: tensor<1x4x?x8xf32> {graph.input = "query"},
    %x: tensor<1x?x64xf32> {graph.input = "hidden_states"}) -> (tensor<1x4x?x8xf32>, tensor<1x?x64xf32>) attributes {graph.functional} {
  %y = graph.node "library.experts.default"(%x) {input = #graph.in<0>} called "experts" in "layers.0.mlp" : (tensor<1x?x64xf32>) -> tensor<1x?x64xf32>
  %o = graph.node "aten.scaled_dot_product_attention.default"(%q, %q, %q) {query = #graph.in<0>, key = #graph.in<1>, value = #graph.in<2>, is_causal = true} called "attention" : (tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>) -> tensor<1x4x?x8xf32>
  return %o, %y : tensor<1x4x?x8xf32>, tensor<1x?x64xf32>
}

// -----

// A name that says that it writes is believed there, too.

func.func @forward(%x: tensor<1x?x64xf32> {graph.input = "hidden_states"}) -> tensor<1x?x64xf32> attributes {graph.functional} {
  // expected-error-re @below {{node 'write' (aten.frob_.default): may write to memory in a way that is not followed: the operator is not one that is followed{{$}}}}
  %y = graph.node "aten.frob_.default"(%x) {self = #graph.in<0>} called "write" : (tensor<1x?x64xf32>) -> tensor<1x?x64xf32>
  return %y : tensor<1x?x64xf32>
}

// -----

// transformers chooses between a stored 0 and the least number; heads may be unflattened.

// CHECK-LABEL: func.func @stored
// CHECK: graph.node "mlac.cached_attention"
// CHECK-SAME: window = 7 : i64
func.func @stored(%x: tensor<1x?x32xf32> {graph.input = "hidden_states"},
    %zero: tensor<bf16> {graph.weight = "lifted_tensor_0", graph.values = dense<0.0> : tensor<bf16>}) -> tensor<1x4x?x8xf32> {
  %u = graph.node "aten.unflatten.int"(%x) {self = #graph.in<0>, dim = -1 : i64, sizes = [4, -1]} called "heads" : (tensor<1x?x32xf32>) -> tensor<1x?x4x8xf32>
  %q = graph.node "aten.transpose.int"(%u) {self = #graph.in<0>, dim0 = 1 : i64, dim1 = 2 : i64} called "query" : (tensor<1x?x4x8xf32>) -> tensor<1x4x?x8xf32>
  %n = graph.node "aten.sym_size.int"(%x) {self = #graph.in<0>, dim = 1 : i64} called "tokens" : (tensor<1x?x32xf32>) -> index
  %i = graph.node "aten.arange.default"(%n) {end = #graph.in<0>} called "positions" : (index) -> tensor<?xi64>
  %a = graph.node "aten.unsqueeze.default"(%i) {self = #graph.in<0>, dim = 1 : i64} called "rows" : (tensor<?xi64>) -> tensor<?x1xi64>
  %d = graph.node "aten.sub.Tensor"(%a, %i) {self = #graph.in<0>, other = #graph.in<1>} called "distance" : (tensor<?x1xi64>, tensor<?xi64>) -> tensor<?x?xi64>
  %past = graph.node "aten.ge.Scalar"(%d) {self = #graph.in<0>, other = 0 : i64} called "past" : (tensor<?x?xi64>) -> tensor<?x?xi1>
  %near = graph.node "aten.lt.Scalar"(%d) {self = #graph.in<0>, other = 7 : i64} called "near" : (tensor<?x?xi64>) -> tensor<?x?xi1>
  %seen = graph.node "aten.logical_and.default"(%past, %near) {self = #graph.in<0>, other = #graph.in<1>} called "seen" : (tensor<?x?xi1>, tensor<?x?xi1>) -> tensor<?x?xi1>
  %mask = graph.node "aten.where.ScalarOther"(%seen, %zero) {condition = #graph.in<0>, self = #graph.in<1>, other = -3.0e38 : f64} called "mask" : (tensor<?x?xi1>, tensor<bf16>) -> tensor<?x?xf32>
  %o = graph.node "aten.scaled_dot_product_attention.default"(%q, %q, %q, %mask) {query = #graph.in<0>, key = #graph.in<1>, value = #graph.in<2>, attn_mask = #graph.in<3>} called "attention" : (tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>, tensor<?x?xf32>) -> tensor<1x4x?x8xf32>
  return %o : tensor<1x4x?x8xf32>
}

// -----

// Masks ahead of their scores: the condition of a choice, and the first of a sum.

// CHECK-LABEL: func.func @ahead
// CHECK: graph.node "mlac.cached_attention"
// CHECK-SAME: window = 0 : i64
// CHECK: graph.node "mlac.cached_attention"
// CHECK-SAME: window = 0 : i64
// CHECK-NOT: aten.softmax
func.func @ahead(%q: tensor<1x4x?x8xf32> {graph.input = "query"},
    %x: tensor<1x?x64xf32> {graph.input = "hidden_states"}) -> (tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>) {
  %n = graph.node "aten.sym_size.int"(%x) {self = #graph.in<0>, dim = 1 : i64} called "tokens" : (tensor<1x?x64xf32>) -> index
  %i = graph.node "aten.arange.default"(%n) {end = #graph.in<0>} called "positions" : (index) -> tensor<?xi64>
  %a = graph.node "aten.unsqueeze.default"(%i) {self = #graph.in<0>, dim = 1 : i64} called "rows" : (tensor<?xi64>) -> tensor<?x1xi64>
  %seen = graph.node "aten.ge.Tensor"(%a, %i) {self = #graph.in<0>, other = #graph.in<1>} called "seen" : (tensor<?x1xi64>, tensor<?xi64>) -> tensor<?x?xi1>
  %kt = graph.node "aten.transpose.int"(%q) {self = #graph.in<0>, dim0 = 2 : i64, dim1 = 3 : i64} called "transposed" : (tensor<1x4x?x8xf32>) -> tensor<1x4x8x?xf32>
  %s = graph.node "aten.matmul.default"(%q, %kt) {self = #graph.in<0>, other = #graph.in<1>} called "scores" : (tensor<1x4x?x8xf32>, tensor<1x4x8x?xf32>) -> tensor<1x4x?x?xf32>
  %chosen = graph.node "aten.where.ScalarOther"(%seen, %s) {condition = #graph.in<0>, self = #graph.in<1>, other = -1.0e9 : f64} called "chosen" : (tensor<?x?xi1>, tensor<1x4x?x?xf32>) -> tensor<1x4x?x?xf32>
  %w = graph.node "aten.softmax.int"(%chosen) {self = #graph.in<0>, dim = -1 : i64} called "weights" : (tensor<1x4x?x?xf32>) -> tensor<1x4x?x?xf32>
  %o = graph.node "aten.matmul.default"(%w, %q) {self = #graph.in<0>, other = #graph.in<1>} called "attention" in "layers.0" : (tensor<1x4x?x?xf32>, tensor<1x4x?x8xf32>) -> tensor<1x4x?x8xf32>
  %mask = graph.node "aten.where.Scalar"(%seen) {condition = #graph.in<0>, self = 0.0 : f64, other = -1.0e9 : f64} called "mask" : (tensor<?x?xi1>) -> tensor<?x?xf32>
  %sum = graph.node "aten.add.Tensor"(%mask, %s) {self = #graph.in<0>, other = #graph.in<1>} called "sum" : (tensor<?x?xf32>, tensor<1x4x?x?xf32>) -> tensor<1x4x?x?xf32>
  %w1 = graph.node "aten.softmax.int"(%sum) {self = #graph.in<0>, dim = -1 : i64} called "weights_1" : (tensor<1x4x?x?xf32>) -> tensor<1x4x?x?xf32>
  %o1 = graph.node "aten.matmul.default"(%w1, %q) {self = #graph.in<0>, other = #graph.in<1>} called "attention_1" in "layers.1" : (tensor<1x4x?x?xf32>, tensor<1x4x?x8xf32>) -> tensor<1x4x?x8xf32>
  return %o, %o1 : tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>
}
