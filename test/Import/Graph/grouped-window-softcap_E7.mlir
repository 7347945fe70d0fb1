// A window and a softcap, eager: truth values that fill scores.
// Recorded by torch.export 2.15 (mla-import-archive).
// RUN: echo 'module {}' > %t.empty
// RUN: sed -e 's/llama/gemma2/' -e 's/"head_dim"/"attn_logit_softcapping": 3.0, "query_pre_attn_scalar": 8, "head_dim"/' %S/Inputs/grouped.json > %t.json
// RUN: mla-opt %t.empty --mla-import-config="config=%t.json dtype=f32" -o %t.config
// RUN: mla-opt %s --mla-raise-graph="config=%t.json dtype=f32" -o %t.graph
// RUN: cmp %t.graph %t.config

module {
  func.func @forward(%arg0: tensor<32x32xf32> {graph.weight = "q_proj.weight"}, %arg1: tensor<16x32xf32> {graph.weight = "k_proj.weight"}, %arg2: tensor<16x32xf32> {graph.weight = "v_proj.weight"}, %arg3: tensor<32x32xf32> {graph.weight = "o_proj.weight"}, %arg4: tensor<4xf32> {graph.values = dense<[1.000000e+00, 1.000000e-01, 0.00999999977, 1.000000e-03]> : tensor<4xf32>, graph.weight = "inv_freq"}, %arg5: tensor<1x12x32xf32> {graph.input = "hidden_states"}) -> tensor<1x12x32xf32> {
    %linear = graph.node "aten.linear.default"(%arg5, %arg0) {input = #graph.in<0>, weight = #graph.in<1>} called "linear" in "q_proj: Linear" : (tensor<1x12x32xf32>, tensor<32x32xf32>) -> tensor<1x12x32xf32>
    %linear_1 = graph.node "aten.linear.default"(%arg5, %arg1) {input = #graph.in<0>, weight = #graph.in<1>} called "linear_1" in "k_proj: Linear" : (tensor<1x12x32xf32>, tensor<16x32xf32>) -> tensor<1x12x16xf32>
    %linear_2 = graph.node "aten.linear.default"(%arg5, %arg2) {input = #graph.in<0>, weight = #graph.in<1>} called "linear_2" in "v_proj: Linear" : (tensor<1x12x32xf32>, tensor<16x32xf32>) -> tensor<1x12x16xf32>
    %view = graph.node "aten.view.default"(%linear) {self = #graph.in<0>, size = [1, 12, -1, 8]} called "view" in "Own" : (tensor<1x12x32xf32>) -> tensor<1x12x4x8xf32>
    %transpose = graph.node "aten.transpose.int"(%view) {dim0 = 1 : i64, dim1 = 2 : i64, self = #graph.in<0>} called "transpose" in "Own" : (tensor<1x12x4x8xf32>) -> tensor<1x4x12x8xf32>
    %view_1 = graph.node "aten.view.default"(%linear_1) {self = #graph.in<0>, size = [1, 12, -1, 8]} called "view_1" in "Own" : (tensor<1x12x16xf32>) -> tensor<1x12x2x8xf32>
    %transpose_1 = graph.node "aten.transpose.int"(%view_1) {dim0 = 1 : i64, dim1 = 2 : i64, self = #graph.in<0>} called "transpose_1" in "Own" : (tensor<1x12x2x8xf32>) -> tensor<1x2x12x8xf32>
    %view_2 = graph.node "aten.view.default"(%linear_2) {self = #graph.in<0>, size = [1, 12, -1, 8]} called "view_2" in "Own" : (tensor<1x12x16xf32>) -> tensor<1x12x2x8xf32>
    %transpose_2 = graph.node "aten.transpose.int"(%view_2) {dim0 = 1 : i64, dim1 = 2 : i64, self = #graph.in<0>} called "transpose_2" in "Own" : (tensor<1x12x2x8xf32>) -> tensor<1x2x12x8xf32>
    %arange = graph.node "aten.arange.default"() {device = "<as_device>", end = 12 : i64, pin_memory = false} called "arange" in "Own" : () -> tensor<12xi64>
    %unsqueeze = graph.node "aten.unsqueeze.default"(%arange) {dim = 1 : i64, self = #graph.in<0>} called "unsqueeze" in "Own" : (tensor<12xi64>) -> tensor<12x1xi64>
    graph.node "aten._assert_tensor_metadata.default"(%unsqueeze) {a = #graph.in<0>, device = "<as_device>", dtype = 5 : i64, layout = 7 : i64} called "_assert_tensor_metadata_default" in "Own" : (tensor<12x1xi64>) -> ()
    %to = graph.node "aten.to.dtype"(%unsqueeze) {dtype = 7 : i64, self = #graph.in<0>} called "to" in "Own" : (tensor<12x1xi64>) -> tensor<12x1xf32>
    %mul = graph.node "aten.mul.Tensor"(%to, %arg4) {other = #graph.in<1>, self = #graph.in<0>} called "mul" in "Own" : (tensor<12x1xf32>, tensor<4xf32>) -> tensor<12x4xf32>
    %cat = graph.node "aten.cat.default"(%mul, %mul) {dim = -1 : i64, tensors = [#graph.in<0>, #graph.in<1>]} called "cat" in "Own" : (tensor<12x4xf32>, tensor<12x4xf32>) -> tensor<12x8xf32>
    %cos = graph.node "aten.cos.default"(%cat) {self = #graph.in<0>} called "cos" in "Own" : (tensor<12x8xf32>) -> tensor<12x8xf32>
    %sin = graph.node "aten.sin.default"(%cat) {self = #graph.in<0>} called "sin" in "Own" : (tensor<12x8xf32>) -> tensor<12x8xf32>
    %alias = graph.node "aten.alias.default"(%transpose) {self = #graph.in<0>} called "alias" in "Own" : (tensor<1x4x12x8xf32>) -> tensor<1x4x12x8xf32>
    %slice_1 = graph.node "aten.slice.Tensor"(%transpose) {dim = 3 : i64, end = 9223372036854775807 : i64, self = #graph.in<0>, start = 8 : i64} called "slice_1" in "Own" : (tensor<1x4x12x8xf32>) -> tensor<1x4x12x0xf32>
    %mul_1 = graph.node "aten.mul.Tensor"(%alias, %cos) {other = #graph.in<1>, self = #graph.in<0>} called "mul_1" in "Own" : (tensor<1x4x12x8xf32>, tensor<12x8xf32>) -> tensor<1x4x12x8xf32>
    %slice_2 = graph.node "aten.slice.Tensor"(%alias) {dim = 3 : i64, end = 9223372036854775807 : i64, self = #graph.in<0>, start = 4 : i64} called "slice_2" in "Own" : (tensor<1x4x12x8xf32>) -> tensor<1x4x12x4xf32>
    %neg = graph.node "aten.neg.default"(%slice_2) {self = #graph.in<0>} called "neg" in "Own" : (tensor<1x4x12x4xf32>) -> tensor<1x4x12x4xf32>
    %slice_3 = graph.node "aten.slice.Tensor"(%alias) {dim = 3 : i64, end = 4 : i64, self = #graph.in<0>, start = 0 : i64} called "slice_3" in "Own" : (tensor<1x4x12x8xf32>) -> tensor<1x4x12x4xf32>
    %cat_1 = graph.node "aten.cat.default"(%neg, %slice_3) {dim = -1 : i64, tensors = [#graph.in<0>, #graph.in<1>]} called "cat_1" in "Own" : (tensor<1x4x12x4xf32>, tensor<1x4x12x4xf32>) -> tensor<1x4x12x8xf32>
    %mul_2 = graph.node "aten.mul.Tensor"(%cat_1, %sin) {other = #graph.in<1>, self = #graph.in<0>} called "mul_2" in "Own" : (tensor<1x4x12x8xf32>, tensor<12x8xf32>) -> tensor<1x4x12x8xf32>
    %add = graph.node "aten.add.Tensor"(%mul_1, %mul_2) {other = #graph.in<1>, self = #graph.in<0>} called "add" in "Own" : (tensor<1x4x12x8xf32>, tensor<1x4x12x8xf32>) -> tensor<1x4x12x8xf32>
    %alias_1 = graph.node "aten.alias.default"(%transpose_1) {self = #graph.in<0>} called "alias_1" in "Own" : (tensor<1x2x12x8xf32>) -> tensor<1x2x12x8xf32>
    %slice_4 = graph.node "aten.slice.Tensor"(%transpose_1) {dim = 3 : i64, end = 9223372036854775807 : i64, self = #graph.in<0>, start = 8 : i64} called "slice_4" in "Own" : (tensor<1x2x12x8xf32>) -> tensor<1x2x12x0xf32>
    %mul_3 = graph.node "aten.mul.Tensor"(%alias_1, %cos) {other = #graph.in<1>, self = #graph.in<0>} called "mul_3" in "Own" : (tensor<1x2x12x8xf32>, tensor<12x8xf32>) -> tensor<1x2x12x8xf32>
    %slice_5 = graph.node "aten.slice.Tensor"(%alias_1) {dim = 3 : i64, end = 9223372036854775807 : i64, self = #graph.in<0>, start = 4 : i64} called "slice_5" in "Own" : (tensor<1x2x12x8xf32>) -> tensor<1x2x12x4xf32>
    %neg_1 = graph.node "aten.neg.default"(%slice_5) {self = #graph.in<0>} called "neg_1" in "Own" : (tensor<1x2x12x4xf32>) -> tensor<1x2x12x4xf32>
    %slice_6 = graph.node "aten.slice.Tensor"(%alias_1) {dim = 3 : i64, end = 4 : i64, self = #graph.in<0>, start = 0 : i64} called "slice_6" in "Own" : (tensor<1x2x12x8xf32>) -> tensor<1x2x12x4xf32>
    %cat_2 = graph.node "aten.cat.default"(%neg_1, %slice_6) {dim = -1 : i64, tensors = [#graph.in<0>, #graph.in<1>]} called "cat_2" in "Own" : (tensor<1x2x12x4xf32>, tensor<1x2x12x4xf32>) -> tensor<1x2x12x8xf32>
    %mul_4 = graph.node "aten.mul.Tensor"(%cat_2, %sin) {other = #graph.in<1>, self = #graph.in<0>} called "mul_4" in "Own" : (tensor<1x2x12x8xf32>, tensor<12x8xf32>) -> tensor<1x2x12x8xf32>
    %add_1 = graph.node "aten.add.Tensor"(%mul_3, %mul_4) {other = #graph.in<1>, self = #graph.in<0>} called "add_1" in "Own" : (tensor<1x2x12x8xf32>, tensor<1x2x12x8xf32>) -> tensor<1x2x12x8xf32>
    %unsqueeze_1 = graph.node "aten.unsqueeze.default"(%add_1) {dim = 2 : i64, self = #graph.in<0>} called "unsqueeze_1" in "Own" : (tensor<1x2x12x8xf32>) -> tensor<1x2x1x12x8xf32>
    %expand = graph.node "aten.expand.default"(%unsqueeze_1) {self = #graph.in<0>, size = [1, 2, 2, 12, 8]} called "expand" in "Own" : (tensor<1x2x1x12x8xf32>) -> tensor<1x2x2x12x8xf32>
    %reshape = graph.node "aten.reshape.default"(%expand) {self = #graph.in<0>, shape = [1, 4, 12, 8]} called "reshape" in "Own" : (tensor<1x2x2x12x8xf32>) -> tensor<1x4x12x8xf32>
    %unsqueeze_2 = graph.node "aten.unsqueeze.default"(%transpose_2) {dim = 2 : i64, self = #graph.in<0>} called "unsqueeze_2" in "Own" : (tensor<1x2x12x8xf32>) -> tensor<1x2x1x12x8xf32>
    %expand_1 = graph.node "aten.expand.default"(%unsqueeze_2) {self = #graph.in<0>, size = [1, 2, 2, 12, 8]} called "expand_1" in "Own" : (tensor<1x2x1x12x8xf32>) -> tensor<1x2x2x12x8xf32>
    %reshape_1 = graph.node "aten.reshape.default"(%expand_1) {self = #graph.in<0>, shape = [1, 4, 12, 8]} called "reshape_1" in "Own" : (tensor<1x2x2x12x8xf32>) -> tensor<1x4x12x8xf32>
    %arange_1 = graph.node "aten.arange.default"() {device = "<as_device>", end = 12 : i64, pin_memory = false} called "arange_1" in "Own" : () -> tensor<12xi64>
    %ones = graph.node "aten.ones.default"() {device = "<as_device>", dtype = 12 : i64, pin_memory = false, size = [12, 12]} called "ones" in "Own" : () -> tensor<12x12xi1>
    %tril = graph.node "aten.tril.default"(%ones) {self = #graph.in<0>} called "tril" in "Own" : (tensor<12x12xi1>) -> tensor<12x12xi1>
    %ones_1 = graph.node "aten.ones.default"() {device = "<as_device>", dtype = 12 : i64, pin_memory = false, size = [12, 12]} called "ones_1" in "Own" : () -> tensor<12x12xi1>
    %tril_1 = graph.node "aten.tril.default"(%ones_1) {diagonal = -5 : i64, self = #graph.in<0>} called "tril_1" in "Own" : (tensor<12x12xi1>) -> tensor<12x12xi1>
    %bitwise_not = graph.node "aten.bitwise_not.default"(%tril_1) {self = #graph.in<0>} called "bitwise_not" in "Own" : (tensor<12x12xi1>) -> tensor<12x12xi1>
    %and_1 = graph.node "aten.__and__.Tensor"(%tril, %bitwise_not) {other = #graph.in<1>, self = #graph.in<0>} called "and_1" in "Own" : (tensor<12x12xi1>, tensor<12x12xi1>) -> tensor<12x12xi1>
    %transpose_3 = graph.node "aten.transpose.int"(%reshape) {dim0 = -1 : i64, dim1 = -2 : i64, self = #graph.in<0>} called "transpose_3" in "Own" : (tensor<1x4x12x8xf32>) -> tensor<1x4x8x12xf32>
    %matmul = graph.node "aten.matmul.default"(%add, %transpose_3) {other = #graph.in<1>, self = #graph.in<0>} called "matmul" in "Own" : (tensor<1x4x12x8xf32>, tensor<1x4x8x12xf32>) -> tensor<1x4x12x12xf32>
    %div = graph.node "aten.div.Tensor"(%matmul) {other = 2.8284271247461903 : f64, self = #graph.in<0>} called "div" in "Own" : (tensor<1x4x12x12xf32>) -> tensor<1x4x12x12xf32>
    %div_1 = graph.node "aten.div.Tensor"(%div) {other = 3.000000e+00 : f64, self = #graph.in<0>} called "div_1" in "Own" : (tensor<1x4x12x12xf32>) -> tensor<1x4x12x12xf32>
    %tanh = graph.node "aten.tanh.default"(%div_1) {self = #graph.in<0>} called "tanh" in "Own" : (tensor<1x4x12x12xf32>) -> tensor<1x4x12x12xf32>
    %mul_5 = graph.node "aten.mul.Tensor"(%tanh) {other = 3.000000e+00 : f64, self = #graph.in<0>} called "mul_5" in "Own" : (tensor<1x4x12x12xf32>) -> tensor<1x4x12x12xf32>
    %bitwise_not_1 = graph.node "aten.bitwise_not.default"(%and_1) {self = #graph.in<0>} called "bitwise_not_1" in "Own" : (tensor<12x12xi1>) -> tensor<12x12xi1>
    %masked_fill = graph.node "aten.masked_fill.Scalar"(%mul_5, %bitwise_not_1) {mask = #graph.in<1>, self = #graph.in<0>, value = 0xFFF0000000000000 : f64} called "masked_fill" in "Own" : (tensor<1x4x12x12xf32>, tensor<12x12xi1>) -> tensor<1x4x12x12xf32>
    %softmax = graph.node "aten.softmax.int"(%masked_fill) {dim = -1 : i64, self = #graph.in<0>} called "softmax" in "Own" : (tensor<1x4x12x12xf32>) -> tensor<1x4x12x12xf32>
    %matmul_1 = graph.node "aten.matmul.default"(%softmax, %reshape_1) {other = #graph.in<1>, self = #graph.in<0>} called "matmul_1" in "Own" : (tensor<1x4x12x12xf32>, tensor<1x4x12x8xf32>) -> tensor<1x4x12x8xf32>
    %transpose_4 = graph.node "aten.transpose.int"(%matmul_1) {dim0 = 1 : i64, dim1 = 2 : i64, self = #graph.in<0>} called "transpose_4" in "Own" : (tensor<1x4x12x8xf32>) -> tensor<1x12x4x8xf32>
    %reshape_2 = graph.node "aten.reshape.default"(%transpose_4) {self = #graph.in<0>, shape = [1, 12, 32]} called "reshape_2" in "Own" : (tensor<1x12x4x8xf32>) -> tensor<1x12x32xf32>
    %linear_3 = graph.node "aten.linear.default"(%reshape_2, %arg3) {input = #graph.in<0>, weight = #graph.in<1>} called "linear_3" in "o_proj: Linear" : (tensor<1x12x32xf32>, tensor<32x32xf32>) -> tensor<1x12x32xf32>
    return %linear_3 : tensor<1x12x32xf32>
  }
}

