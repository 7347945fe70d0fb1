module {
  func.func @forward(%arg0: tensor<384x192xf32> {graph.weight = "attn.q_proj.weight"}, %arg1: tensor<96x192xf32> {graph.weight = "attn.k_proj.weight"}, %arg2: tensor<96x192xf32> {graph.weight = "attn.v_proj.weight"}, %arg3: tensor<192x384xf32> {graph.weight = "attn.o_proj.weight"}, %arg4: tensor<1x40x192xf32> {graph.input = "hidden_states"}, %arg5: tensor<1x40x48xf32> {graph.input = "cos"}, %arg6: tensor<1x40x48xf32> {graph.input = "sin"}, %arg7: tensor<1x1x40x40xf32> {graph.input = "mask"}) -> tensor<1x40x192xf32> {
    %linear = graph.node "aten.linear.default"(%arg4, %arg0) {input = #graph.in<0>, weight = #graph.in<1>} called "linear" in "attn.q_proj: Linear" : (tensor<1x40x192xf32>, tensor<384x192xf32>) -> tensor<1x40x384xf32>
    %view = graph.node "aten.view.default"(%linear) {self = #graph.in<0>, size = [1, 40, -1, 48]} called "view" in "attn: LlamaAttention" : (tensor<1x40x384xf32>) -> tensor<1x40x8x48xf32>
    %transpose = graph.node "aten.transpose.int"(%view) {dim0 = 1 : i64, dim1 = 2 : i64, self = #graph.in<0>} called "transpose" in "attn: LlamaAttention" : (tensor<1x40x8x48xf32>) -> tensor<1x8x40x48xf32>
    %linear_1 = graph.node "aten.linear.default"(%arg4, %arg1) {input = #graph.in<0>, weight = #graph.in<1>} called "linear_1" in "attn.k_proj: Linear" : (tensor<1x40x192xf32>, tensor<96x192xf32>) -> tensor<1x40x96xf32>
    %view_1 = graph.node "aten.view.default"(%linear_1) {self = #graph.in<0>, size = [1, 40, -1, 48]} called "view_1" in "attn: LlamaAttention" : (tensor<1x40x96xf32>) -> tensor<1x40x2x48xf32>
    %transpose_1 = graph.node "aten.transpose.int"(%view_1) {dim0 = 1 : i64, dim1 = 2 : i64, self = #graph.in<0>} called "transpose_1" in "attn: LlamaAttention" : (tensor<1x40x2x48xf32>) -> tensor<1x2x40x48xf32>
    %linear_2 = graph.node "aten.linear.default"(%arg4, %arg2) {input = #graph.in<0>, weight = #graph.in<1>} called "linear_2" in "attn.v_proj: Linear" : (tensor<1x40x192xf32>, tensor<96x192xf32>) -> tensor<1x40x96xf32>
    %view_2 = graph.node "aten.view.default"(%linear_2) {self = #graph.in<0>, size = [1, 40, -1, 48]} called "view_2" in "attn: LlamaAttention" : (tensor<1x40x96xf32>) -> tensor<1x40x2x48xf32>
    %transpose_2 = graph.node "aten.transpose.int"(%view_2) {dim0 = 1 : i64, dim1 = 2 : i64, self = #graph.in<0>} called "transpose_2" in "attn: LlamaAttention" : (tensor<1x40x2x48xf32>) -> tensor<1x2x40x48xf32>
    %unsqueeze = graph.node "aten.unsqueeze.default"(%arg5) {dim = 1 : i64, self = #graph.in<0>} called "unsqueeze" in "attn: LlamaAttention" : (tensor<1x40x48xf32>) -> tensor<1x1x40x48xf32>
    %unsqueeze_1 = graph.node "aten.unsqueeze.default"(%arg6) {dim = 1 : i64, self = #graph.in<0>} called "unsqueeze_1" in "attn: LlamaAttention" : (tensor<1x40x48xf32>) -> tensor<1x1x40x48xf32>
    %mul = graph.node "aten.mul.Tensor"(%transpose, %unsqueeze) {other = #graph.in<1>, self = #graph.in<0>} called "mul" in "attn: LlamaAttention" : (tensor<1x8x40x48xf32>, tensor<1x1x40x48xf32>) -> tensor<1x8x40x48xf32>
    %slice_1 = graph.node "aten.slice.Tensor"(%transpose) {dim = 3 : i64, end = 24 : i64, self = #graph.in<0>, start = 0 : i64} called "slice_1" in "attn: LlamaAttention" : (tensor<1x8x40x48xf32>) -> tensor<1x8x40x24xf32>
    %slice_2 = graph.node "aten.slice.Tensor"(%transpose) {dim = 3 : i64, end = 9223372036854775807 : i64, self = #graph.in<0>, start = 24 : i64} called "slice_2" in "attn: LlamaAttention" : (tensor<1x8x40x48xf32>) -> tensor<1x8x40x24xf32>
    %neg = graph.node "aten.neg.default"(%slice_2) {self = #graph.in<0>} called "neg" in "attn: LlamaAttention" : (tensor<1x8x40x24xf32>) -> tensor<1x8x40x24xf32>
    %cat = graph.node "aten.cat.default"(%neg, %slice_1) {dim = -1 : i64, tensors = [#graph.in<0>, #graph.in<1>]} called "cat" in "attn: LlamaAttention" : (tensor<1x8x40x24xf32>, tensor<1x8x40x24xf32>) -> tensor<1x8x40x48xf32>
    %mul_1 = graph.node "aten.mul.Tensor"(%cat, %unsqueeze_1) {other = #graph.in<1>, self = #graph.in<0>} called "mul_1" in "attn: LlamaAttention" : (tensor<1x8x40x48xf32>, tensor<1x1x40x48xf32>) -> tensor<1x8x40x48xf32>
    %add = graph.node "aten.add.Tensor"(%mul, %mul_1) {other = #graph.in<1>, self = #graph.in<0>} called "add" in "attn: LlamaAttention" : (tensor<1x8x40x48xf32>, tensor<1x8x40x48xf32>) -> tensor<1x8x40x48xf32>
    %mul_2 = graph.node "aten.mul.Tensor"(%transpose_1, %unsqueeze) {other = #graph.in<1>, self = #graph.in<0>} called "mul_2" in "attn: LlamaAttention" : (tensor<1x2x40x48xf32>, tensor<1x1x40x48xf32>) -> tensor<1x2x40x48xf32>
    %slice_3 = graph.node "aten.slice.Tensor"(%transpose_1) {dim = 3 : i64, end = 24 : i64, self = #graph.in<0>, start = 0 : i64} called "slice_3" in "attn: LlamaAttention" : (tensor<1x2x40x48xf32>) -> tensor<1x2x40x24xf32>
    %slice_4 = graph.node "aten.slice.Tensor"(%transpose_1) {dim = 3 : i64, end = 9223372036854775807 : i64, self = #graph.in<0>, start = 24 : i64} called "slice_4" in "attn: LlamaAttention" : (tensor<1x2x40x48xf32>) -> tensor<1x2x40x24xf32>
    %neg_1 = graph.node "aten.neg.default"(%slice_4) {self = #graph.in<0>} called "neg_1" in "attn: LlamaAttention" : (tensor<1x2x40x24xf32>) -> tensor<1x2x40x24xf32>
    %cat_1 = graph.node "aten.cat.default"(%neg_1, %slice_3) {dim = -1 : i64, tensors = [#graph.in<0>, #graph.in<1>]} called "cat_1" in "attn: LlamaAttention" : (tensor<1x2x40x24xf32>, tensor<1x2x40x24xf32>) -> tensor<1x2x40x48xf32>
    %mul_3 = graph.node "aten.mul.Tensor"(%cat_1, %unsqueeze_1) {other = #graph.in<1>, self = #graph.in<0>} called "mul_3" in "attn: LlamaAttention" : (tensor<1x2x40x48xf32>, tensor<1x1x40x48xf32>) -> tensor<1x2x40x48xf32>
    %add_1 = graph.node "aten.add.Tensor"(%mul_2, %mul_3) {other = #graph.in<1>, self = #graph.in<0>} called "add_1" in "attn: LlamaAttention" : (tensor<1x2x40x48xf32>, tensor<1x2x40x48xf32>) -> tensor<1x2x40x48xf32>
    %unsqueeze_2 = graph.node "aten.unsqueeze.default"(%add_1) {dim = 2 : i64, self = #graph.in<0>} called "unsqueeze_2" in "attn: LlamaAttention" : (tensor<1x2x40x48xf32>) -> tensor<1x2x1x40x48xf32>
    %expand = graph.node "aten.expand.default"(%unsqueeze_2) {self = #graph.in<0>, size = [1, 2, 4, 40, 48]} called "expand" in "attn: LlamaAttention" : (tensor<1x2x1x40x48xf32>) -> tensor<1x2x4x40x48xf32>
    %reshape = graph.node "aten.reshape.default"(%expand) {self = #graph.in<0>, shape = [1, 8, 40, 48]} called "reshape" in "attn: LlamaAttention" : (tensor<1x2x4x40x48xf32>) -> tensor<1x8x40x48xf32>
    %unsqueeze_3 = graph.node "aten.unsqueeze.default"(%transpose_2) {dim = 2 : i64, self = #graph.in<0>} called "unsqueeze_3" in "attn: LlamaAttention" : (tensor<1x2x40x48xf32>) -> tensor<1x2x1x40x48xf32>
    %expand_1 = graph.node "aten.expand.default"(%unsqueeze_3) {self = #graph.in<0>, size = [1, 2, 4, 40, 48]} called "expand_1" in "attn: LlamaAttention" : (tensor<1x2x1x40x48xf32>) -> tensor<1x2x4x40x48xf32>
    %reshape_1 = graph.node "aten.reshape.default"(%expand_1) {self = #graph.in<0>, shape = [1, 8, 40, 48]} called "reshape_1" in "attn: LlamaAttention" : (tensor<1x2x4x40x48xf32>) -> tensor<1x8x40x48xf32>
    %scaled_dot_product_attention = graph.node "aten.scaled_dot_product_attention.default"(%add, %reshape, %reshape_1, %arg7) {attn_mask = #graph.in<3>, key = #graph.in<1>, query = #graph.in<0>, scale = 0.14433756729740643 : f64, value = #graph.in<2>} called "scaled_dot_product_attention" in "attn: LlamaAttention" : (tensor<1x8x40x48xf32>, tensor<1x8x40x48xf32>, tensor<1x8x40x48xf32>, tensor<1x1x40x40xf32>) -> tensor<1x8x40x48xf32>
    %transpose_3 = graph.node "aten.transpose.int"(%scaled_dot_product_attention) {dim0 = 1 : i64, dim1 = 2 : i64, self = #graph.in<0>} called "transpose_3" in "attn: LlamaAttention" : (tensor<1x8x40x48xf32>) -> tensor<1x40x8x48xf32>
    %reshape_2 = graph.node "aten.reshape.default"(%transpose_3) {self = #graph.in<0>, shape = [1, 40, -1]} called "reshape_2" in "attn: LlamaAttention" : (tensor<1x40x8x48xf32>) -> tensor<1x40x384xf32>
    %linear_3 = graph.node "aten.linear.default"(%reshape_2, %arg3) {input = #graph.in<0>, weight = #graph.in<1>} called "linear_3" in "attn.o_proj: Linear" : (tensor<1x40x384xf32>, tensor<192x384xf32>) -> tensor<1x40x192xf32>
    return %linear_3 : tensor<1x40x192xf32>
  }
}

