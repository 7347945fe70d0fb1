// A window and sinks, eager, for any number of tokens.
// Recorded by torch.export 2.15 (mla-import-archive).
// RUN: echo 'module {}' > %t.empty
// RUN: sed -e 's/llama/gpt_oss/' -e 's/"head_dim"/"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}, "head_dim"/' %S/Inputs/grouped.json > %t.json
// RUN: mla-opt %t.empty --mla-import-config="config=%t.json dtype=f32" -o %t.config
// RUN: mla-opt %s --mla-raise-graph="config=%t.json dtype=f32" -o %t.graph
// RUN: cmp %t.graph %t.config

module {
  func.func @forward(%arg0: tensor<4xf32> {graph.weight = "sinks"}, %arg1: tensor<32x32xf32> {graph.weight = "q_proj.weight"}, %arg2: tensor<16x32xf32> {graph.weight = "k_proj.weight"}, %arg3: tensor<16x32xf32> {graph.weight = "v_proj.weight"}, %arg4: tensor<32x32xf32> {graph.weight = "o_proj.weight"}, %arg5: tensor<4xf32> {graph.values = dense<[1.000000e+00, 1.000000e-01, 0.00999999977, 1.000000e-03]> : tensor<4xf32>, graph.weight = "inv_freq"}, %arg6: tensor<1x?x32xf32> {graph.input = "hidden_states"}) -> tensor<1x?x32xf32> {
    %sym_size_int_4 = graph.node "aten.sym_size.int"(%arg6) {dim = 1 : i64, self = #graph.in<0>} called "sym_size_int_4" : (tensor<1x?x32xf32>) -> index
    %linear = graph.node "aten.linear.default"(%arg6, %arg1) {input = #graph.in<0>, weight = #graph.in<1>} called "linear" in "q_proj: Linear" : (tensor<1x?x32xf32>, tensor<32x32xf32>) -> tensor<1x?x32xf32>
    %linear_1 = graph.node "aten.linear.default"(%arg6, %arg2) {input = #graph.in<0>, weight = #graph.in<1>} called "linear_1" in "k_proj: Linear" : (tensor<1x?x32xf32>, tensor<16x32xf32>) -> tensor<1x?x16xf32>
    %linear_2 = graph.node "aten.linear.default"(%arg6, %arg3) {input = #graph.in<0>, weight = #graph.in<1>} called "linear_2" in "v_proj: Linear" : (tensor<1x?x32xf32>, tensor<16x32xf32>) -> tensor<1x?x16xf32>
    %view = graph.node "aten.view.default"(%linear, %sym_size_int_4) {self = #graph.in<0>, size = [1, #graph.in<1>, -1, 8]} called "view" in "Own" : (tensor<1x?x32xf32>, index) -> tensor<1x?x4x8xf32>
    %transpose = graph.node "aten.transpose.int"(%view) {dim0 = 1 : i64, dim1 = 2 : i64, self = #graph.in<0>} called "transpose" in "Own" : (tensor<1x?x4x8xf32>) -> tensor<1x4x?x8xf32>
    %view_1 = graph.node "aten.view.default"(%linear_1, %sym_size_int_4) {self = #graph.in<0>, size = [1, #graph.in<1>, -1, 8]} called "view_1" in "Own" : (tensor<1x?x16xf32>, index) -> tensor<1x?x2x8xf32>
    %transpose_1 = graph.node "aten.transpose.int"(%view_1) {dim0 = 1 : i64, dim1 = 2 : i64, self = #graph.in<0>} called "transpose_1" in "Own" : (tensor<1x?x2x8xf32>) -> tensor<1x2x?x8xf32>
    %view_2 = graph.node "aten.view.default"(%linear_2, %sym_size_int_4) {self = #graph.in<0>, size = [1, #graph.in<1>, -1, 8]} called "view_2" in "Own" : (tensor<1x?x16xf32>, index) -> tensor<1x?x2x8xf32>
    %transpose_2 = graph.node "aten.transpose.int"(%view_2) {dim0 = 1 : i64, dim1 = 2 : i64, self = #graph.in<0>} called "transpose_2" in "Own" : (tensor<1x?x2x8xf32>) -> tensor<1x2x?x8xf32>
    %arange = graph.node "aten.arange.default"(%sym_size_int_4) {device = "<as_device>", end = #graph.in<0>, pin_memory = false} called "arange" in "Own" : (index) -> tensor<?xi64>
    %unsqueeze = graph.node "aten.unsqueeze.default"(%arange) {dim = 1 : i64, self = #graph.in<0>} called "unsqueeze" in "Own" : (tensor<?xi64>) -> tensor<?x1xi64>
    graph.node "aten._assert_tensor_metadata.default"(%unsqueeze) {a = #graph.in<0>, device = "<as_device>", dtype = 5 : i64, layout = 7 : i64} called "_assert_tensor_metadata_default" in "Own" : (tensor<?x1xi64>) -> ()
    %to = graph.node "aten.to.dtype"(%unsqueeze) {dtype = 7 : i64, self = #graph.in<0>} called "to" in "Own" : (tensor<?x1xi64>) -> tensor<?x1xf32>
    %mul = graph.node "aten.mul.Tensor"(%to, %arg5) {other = #graph.in<1>, self = #graph.in<0>} called "mul" in "Own" : (tensor<?x1xf32>, tensor<4xf32>) -> tensor<?x4xf32>
    %cat = graph.node "aten.cat.default"(%mul, %mul) {dim = -1 : i64, tensors = [#graph.in<0>, #graph.in<1>]} called "cat" in "Own" : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x8xf32>
    %cos = graph.node "aten.cos.default"(%cat) {self = #graph.in<0>} called "cos" in "Own" : (tensor<?x8xf32>) -> tensor<?x8xf32>
    %sin = graph.node "aten.sin.default"(%cat) {self = #graph.in<0>} called "sin" in "Own" : (tensor<?x8xf32>) -> tensor<?x8xf32>
    %alias = graph.node "aten.alias.default"(%transpose) {self = #graph.in<0>} called "alias" in "Own" : (tensor<1x4x?x8xf32>) -> tensor<1x4x?x8xf32>
    %slice_1 = graph.node "aten.slice.Tensor"(%transpose) {dim = 3 : i64, end = 9223372036854775807 : i64, self = #graph.in<0>, start = 8 : i64} called "slice_1" in "Own" : (tensor<1x4x?x8xf32>) -> tensor<1x4x?x0xf32>
    %mul_1 = graph.node "aten.mul.Tensor"(%alias, %cos) {other = #graph.in<1>, self = #graph.in<0>} called "mul_1" in "Own" : (tensor<1x4x?x8xf32>, tensor<?x8xf32>) -> tensor<1x4x?x8xf32>
    %slice_2 = graph.node "aten.slice.Tensor"(%alias) {dim = 3 : i64, end = 9223372036854775807 : i64, self = #graph.in<0>, start = 4 : i64} called "slice_2" in "Own" : (tensor<1x4x?x8xf32>) -> tensor<1x4x?x4xf32>
    %neg = graph.node "aten.neg.default"(%slice_2) {self = #graph.in<0>} called "neg" in "Own" : (tensor<1x4x?x4xf32>) -> tensor<1x4x?x4xf32>
    %slice_3 = graph.node "aten.slice.Tensor"(%alias) {dim = 3 : i64, end = 4 : i64, self = #graph.in<0>, start = 0 : i64} called "slice_3" in "Own" : (tensor<1x4x?x8xf32>) -> tensor<1x4x?x4xf32>
    %cat_1 = graph.node "aten.cat.default"(%neg, %slice_3) {dim = -1 : i64, tensors = [#graph.in<0>, #graph.in<1>]} called "cat_1" in "Own" : (tensor<1x4x?x4xf32>, tensor<1x4x?x4xf32>) -> tensor<1x4x?x8xf32>
    %mul_2 = graph.node "aten.mul.Tensor"(%cat_1, %sin) {other = #graph.in<1>, self = #graph.in<0>} called "mul_2" in "Own" : (tensor<1x4x?x8xf32>, tensor<?x8xf32>) -> tensor<1x4x?x8xf32>
    %add = graph.node "aten.add.Tensor"(%mul_1, %mul_2) {other = #graph.in<1>, self = #graph.in<0>} called "add" in "Own" : (tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>) -> tensor<1x4x?x8xf32>
    %alias_1 = graph.node "aten.alias.default"(%transpose_1) {self = #graph.in<0>} called "alias_1" in "Own" : (tensor<1x2x?x8xf32>) -> tensor<1x2x?x8xf32>
    %slice_4 = graph.node "aten.slice.Tensor"(%transpose_1) {dim = 3 : i64, end = 9223372036854775807 : i64, self = #graph.in<0>, start = 8 : i64} called "slice_4" in "Own" : (tensor<1x2x?x8xf32>) -> tensor<1x2x?x0xf32>
    %mul_3 = graph.node "aten.mul.Tensor"(%alias_1, %cos) {other = #graph.in<1>, self = #graph.in<0>} called "mul_3" in "Own" : (tensor<1x2x?x8xf32>, tensor<?x8xf32>) -> tensor<1x2x?x8xf32>
    %slice_5 = graph.node "aten.slice.Tensor"(%alias_1) {dim = 3 : i64, end = 9223372036854775807 : i64, self = #graph.in<0>, start = 4 : i64} called "slice_5" in "Own" : (tensor<1x2x?x8xf32>) -> tensor<1x2x?x4xf32>
    %neg_1 = graph.node "aten.neg.default"(%slice_5) {self = #graph.in<0>} called "neg_1" in "Own" : (tensor<1x2x?x4xf32>) -> tensor<1x2x?x4xf32>
    %slice_6 = graph.node "aten.slice.Tensor"(%alias_1) {dim = 3 : i64, end = 4 : i64, self = #graph.in<0>, start = 0 : i64} called "slice_6" in "Own" : (tensor<1x2x?x8xf32>) -> tensor<1x2x?x4xf32>
    %cat_2 = graph.node "aten.cat.default"(%neg_1, %slice_6) {dim = -1 : i64, tensors = [#graph.in<0>, #graph.in<1>]} called "cat_2" in "Own" : (tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32>) -> tensor<1x2x?x8xf32>
    %mul_4 = graph.node "aten.mul.Tensor"(%cat_2, %sin) {other = #graph.in<1>, self = #graph.in<0>} called "mul_4" in "Own" : (tensor<1x2x?x8xf32>, tensor<?x8xf32>) -> tensor<1x2x?x8xf32>
    %add_1 = graph.node "aten.add.Tensor"(%mul_3, %mul_4) {other = #graph.in<1>, self = #graph.in<0>} called "add_1" in "Own" : (tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>) -> tensor<1x2x?x8xf32>
    %unsqueeze_1 = graph.node "aten.unsqueeze.default"(%add_1) {dim = 2 : i64, self = #graph.in<0>} called "unsqueeze_1" in "Own" : (tensor<1x2x?x8xf32>) -> tensor<1x2x1x?x8xf32>
    %expand = graph.node "aten.expand.default"(%unsqueeze_1, %sym_size_int_4) {self = #graph.in<0>, size = [1, 2, 2, #graph.in<1>, 8]} called "expand" in "Own" : (tensor<1x2x1x?x8xf32>, index) -> tensor<1x2x2x?x8xf32>
    %reshape = graph.node "aten.reshape.default"(%expand, %sym_size_int_4) {self = #graph.in<0>, shape = [1, 4, #graph.in<1>, 8]} called "reshape" in "Own" : (tensor<1x2x2x?x8xf32>, index) -> tensor<1x4x?x8xf32>
    %unsqueeze_2 = graph.node "aten.unsqueeze.default"(%transpose_2) {dim = 2 : i64, self = #graph.in<0>} called "unsqueeze_2" in "Own" : (tensor<1x2x?x8xf32>) -> tensor<1x2x1x?x8xf32>
    %expand_1 = graph.node "aten.expand.default"(%unsqueeze_2, %sym_size_int_4) {self = #graph.in<0>, size = [1, 2, 2, #graph.in<1>, 8]} called "expand_1" in "Own" : (tensor<1x2x1x?x8xf32>, index) -> tensor<1x2x2x?x8xf32>
    %reshape_1 = graph.node "aten.reshape.default"(%expand_1, %sym_size_int_4) {self = #graph.in<0>, shape = [1, 4, #graph.in<1>, 8]} called "reshape_1" in "Own" : (tensor<1x2x2x?x8xf32>, index) -> tensor<1x4x?x8xf32>
    %arange_1 = graph.node "aten.arange.default"(%sym_size_int_4) {device = "<as_device>", end = #graph.in<0>, pin_memory = false} called "arange_1" in "Own" : (index) -> tensor<?xi64>
    %unsqueeze_3 = graph.node "aten.unsqueeze.default"(%arange_1) {dim = 1 : i64, self = #graph.in<0>} called "unsqueeze_3" in "Own" : (tensor<?xi64>) -> tensor<?x1xi64>
    %unsqueeze_4 = graph.node "aten.unsqueeze.default"(%arange_1) {dim = 0 : i64, self = #graph.in<0>} called "unsqueeze_4" in "Own" : (tensor<?xi64>) -> tensor<1x?xi64>
    %le_3 = graph.node "aten.le.Tensor"(%unsqueeze_4, %unsqueeze_3) {other = #graph.in<1>, self = #graph.in<0>} called "le_3" in "Own" : (tensor<1x?xi64>, tensor<?x1xi64>) -> tensor<?x?xi1>
    %sub = graph.node "aten.sub.Tensor"(%unsqueeze_3) {other = 5 : i64, self = #graph.in<0>} called "sub" in "Own" : (tensor<?x1xi64>) -> tensor<?x1xi64>
    %gt = graph.node "aten.gt.Tensor"(%unsqueeze_4, %sub) {other = #graph.in<1>, self = #graph.in<0>} called "gt" in "Own" : (tensor<1x?xi64>, tensor<?x1xi64>) -> tensor<?x?xi1>
    %and_1 = graph.node "aten.__and__.Tensor"(%le_3, %gt) {other = #graph.in<1>, self = #graph.in<0>} called "and_1" in "Own" : (tensor<?x?xi1>, tensor<?x?xi1>) -> tensor<?x?xi1>
    %transpose_3 = graph.node "aten.transpose.int"(%reshape) {dim0 = -1 : i64, dim1 = -2 : i64, self = #graph.in<0>} called "transpose_3" in "Own" : (tensor<1x4x?x8xf32>) -> tensor<1x4x8x?xf32>
    %matmul = graph.node "aten.matmul.default"(%add, %transpose_3) {other = #graph.in<1>, self = #graph.in<0>} called "matmul" in "Own" : (tensor<1x4x?x8xf32>, tensor<1x4x8x?xf32>) -> tensor<1x4x?x?xf32>
    %div = graph.node "aten.div.Tensor"(%matmul) {other = 2.8284271247461903 : f64, self = #graph.in<0>} called "div" in "Own" : (tensor<1x4x?x?xf32>) -> tensor<1x4x?x?xf32>
    %bitwise_not = graph.node "aten.bitwise_not.default"(%and_1) {self = #graph.in<0>} called "bitwise_not" in "Own" : (tensor<?x?xi1>) -> tensor<?x?xi1>
    %masked_fill = graph.node "aten.masked_fill.Scalar"(%div, %bitwise_not) {mask = #graph.in<1>, self = #graph.in<0>, value = 0xFFF0000000000000 : f64} called "masked_fill" in "Own" : (tensor<1x4x?x?xf32>, tensor<?x?xi1>) -> tensor<1x4x?x?xf32>
    %view_3 = graph.node "aten.view.default"(%arg0) {self = #graph.in<0>, size = [1, 4, 1, 1]} called "view_3" in "Own" : (tensor<4xf32>) -> tensor<1x4x1x1xf32>
    %expand_2 = graph.node "aten.expand.default"(%view_3, %sym_size_int_4) {self = #graph.in<0>, size = [1, 4, #graph.in<1>, 1]} called "expand_2" in "Own" : (tensor<1x4x1x1xf32>, index) -> tensor<1x4x?x1xf32>
    %cat_3 = graph.node "aten.cat.default"(%masked_fill, %expand_2) {dim = -1 : i64, tensors = [#graph.in<0>, #graph.in<1>]} called "cat_3" in "Own" : (tensor<1x4x?x?xf32>, tensor<1x4x?x1xf32>) -> tensor<1x4x?x?xf32>
    %softmax = graph.node "aten.softmax.int"(%cat_3) {dim = -1 : i64, self = #graph.in<0>} called "softmax" in "Own" : (tensor<1x4x?x?xf32>) -> tensor<1x4x?x?xf32>
    %slice_7 = graph.node "aten.slice.Tensor"(%softmax) {dim = 3 : i64, end = -1 : i64, self = #graph.in<0>, start = 0 : i64} called "slice_7" in "Own" : (tensor<1x4x?x?xf32>) -> tensor<1x4x?x?xf32>
    %matmul_1 = graph.node "aten.matmul.default"(%slice_7, %reshape_1) {other = #graph.in<1>, self = #graph.in<0>} called "matmul_1" in "Own" : (tensor<1x4x?x?xf32>, tensor<1x4x?x8xf32>) -> tensor<1x4x?x8xf32>
    %transpose_4 = graph.node "aten.transpose.int"(%matmul_1) {dim0 = 1 : i64, dim1 = 2 : i64, self = #graph.in<0>} called "transpose_4" in "Own" : (tensor<1x4x?x8xf32>) -> tensor<1x?x4x8xf32>
    %reshape_2 = graph.node "aten.reshape.default"(%transpose_4, %sym_size_int_4) {self = #graph.in<0>, shape = [1, #graph.in<1>, 32]} called "reshape_2" in "Own" : (tensor<1x?x4x8xf32>, index) -> tensor<1x?x32xf32>
    %linear_3 = graph.node "aten.linear.default"(%reshape_2, %arg4) {input = #graph.in<0>, weight = #graph.in<1>} called "linear_3" in "o_proj: Linear" : (tensor<1x?x32xf32>, tensor<32x32xf32>) -> tensor<1x?x32xf32>
    return %linear_3 : tensor<1x?x32xf32>
  }
}

