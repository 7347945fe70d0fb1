// Norms of heads before rope: Qwen3 of transformers 5, in core operators.
// Recorded by torch.export 2.15 (mla-import-archive).
// RUN: echo 'module {}' > %t.empty
// RUN: sed -e 's/llama/qwen3/' -e 's/: 32/: 64/' -e 's/"max_position_embeddings": 64/"max_position_embeddings": 512/' -e 's/"head_dim": 8/"head_dim": 24/' %S/Inputs/grouped.json > %t.json
// RUN: mla-opt %t.empty --mla-import-config="config=%t.json dtype=f32" -o %t.config
// RUN: mla-opt %s --mla-raise-graph="config=%t.json dtype=f32" -o %t.graph
// RUN: cmp %t.graph %t.config

module {
  func.func @forward(%arg0: tensor<96x64xf32> {graph.weight = "attn.q_proj.weight"}, %arg1: tensor<48x64xf32> {graph.weight = "attn.k_proj.weight"}, %arg2: tensor<48x64xf32> {graph.weight = "attn.v_proj.weight"}, %arg3: tensor<64x96xf32> {graph.weight = "attn.o_proj.weight"}, %arg4: tensor<24xf32> {graph.weight = "attn.q_norm.weight"}, %arg5: tensor<24xf32> {graph.weight = "attn.k_norm.weight"}, %arg6: tensor<1x24x64xf32> {graph.input = "hidden_states"}, %arg7: tensor<1x24x24xf32> {graph.input = "cos"}, %arg8: tensor<1x24x24xf32> {graph.input = "sin"}, %arg9: tensor<1x1x24x24xf32> {graph.input = "mask"}) -> tensor<1x24x64xf32> {
    %permute = graph.node "aten.permute.default"(%arg0) {dims = [1, 0], self = #graph.in<0>} called "permute" in "attn.q_proj: Linear" : (tensor<96x64xf32>) -> tensor<64x96xf32>
    %view = graph.node "aten.view.default"(%arg6) {self = #graph.in<0>, size = [24, 64]} called "view" in "attn.q_proj: Linear" : (tensor<1x24x64xf32>) -> tensor<24x64xf32>
    %mm = graph.node "aten.mm.default"(%view, %permute) {mat2 = #graph.in<1>, self = #graph.in<0>} called "mm" in "attn.q_proj: Linear" : (tensor<24x64xf32>, tensor<64x96xf32>) -> tensor<24x96xf32>
    %view_1 = graph.node "aten.view.default"(%mm) {self = #graph.in<0>, size = [1, 24, 96]} called "view_1" in "attn.q_proj: Linear" : (tensor<24x96xf32>) -> tensor<1x24x96xf32>
    %view_2 = graph.node "aten.view.default"(%view_1) {self = #graph.in<0>, size = [1, 24, -1, 24]} called "view_2" in "attn: Qwen3Attention" : (tensor<1x24x96xf32>) -> tensor<1x24x4x24xf32>
    graph.node "aten._assert_tensor_metadata.default"(%view_2) {a = #graph.in<0>, device = "<as_device>", dtype = 7 : i64, layout = 7 : i64, size, stride} called "_assert_tensor_metadata" in "attn.q_norm: Qwen3RMSNorm" : (tensor<1x24x4x24xf32>) -> ()
    %pow_1 = graph.node "aten.pow.Tensor_Scalar"(%view_2) {exponent = 2 : i64, self = #graph.in<0>} called "pow_1" in "attn.q_norm: Qwen3RMSNorm" : (tensor<1x24x4x24xf32>) -> tensor<1x24x4x24xf32>
    %mean = graph.node "aten.mean.dim"(%pow_1) {dim = [-1], keepdim = true, self = #graph.in<0>} called "mean" in "attn.q_norm: Qwen3RMSNorm" : (tensor<1x24x4x24xf32>) -> tensor<1x24x4x1xf32>
    %add = graph.node "aten.add.Tensor"(%mean) {other = 9.9999999999999995E-7 : f64, self = #graph.in<0>} called "add" in "attn.q_norm: Qwen3RMSNorm" : (tensor<1x24x4x1xf32>) -> tensor<1x24x4x1xf32>
    %rsqrt = graph.node "aten.rsqrt.default"(%add) {self = #graph.in<0>} called "rsqrt" in "attn.q_norm: Qwen3RMSNorm" : (tensor<1x24x4x1xf32>) -> tensor<1x24x4x1xf32>
    %mul = graph.node "aten.mul.Tensor"(%view_2, %rsqrt) {other = #graph.in<1>, self = #graph.in<0>} called "mul" in "attn.q_norm: Qwen3RMSNorm" : (tensor<1x24x4x24xf32>, tensor<1x24x4x1xf32>) -> tensor<1x24x4x24xf32>
    graph.node "aten._assert_tensor_metadata.default"(%mul) {a = #graph.in<0>, device = "<as_device>", dtype = 7 : i64, layout = 7 : i64, size, stride} called "_assert_tensor_metadata_1" in "attn.q_norm: Qwen3RMSNorm" : (tensor<1x24x4x24xf32>) -> ()
    %mul_1 = graph.node "aten.mul.Tensor"(%arg4, %mul) {other = #graph.in<1>, self = #graph.in<0>} called "mul_1" in "attn.q_norm: Qwen3RMSNorm" : (tensor<24xf32>, tensor<1x24x4x24xf32>) -> tensor<1x24x4x24xf32>
    %permute_1 = graph.node "aten.permute.default"(%mul_1) {dims = [0, 2, 1, 3], self = #graph.in<0>} called "permute_1" in "attn: Qwen3Attention" : (tensor<1x24x4x24xf32>) -> tensor<1x4x24x24xf32>
    %permute_2 = graph.node "aten.permute.default"(%arg1) {dims = [1, 0], self = #graph.in<0>} called "permute_2" in "attn.k_proj: Linear" : (tensor<48x64xf32>) -> tensor<64x48xf32>
    %view_3 = graph.node "aten.view.default"(%arg6) {self = #graph.in<0>, size = [24, 64]} called "view_3" in "attn.k_proj: Linear" : (tensor<1x24x64xf32>) -> tensor<24x64xf32>
    %mm_1 = graph.node "aten.mm.default"(%view_3, %permute_2) {mat2 = #graph.in<1>, self = #graph.in<0>} called "mm_1" in "attn.k_proj: Linear" : (tensor<24x64xf32>, tensor<64x48xf32>) -> tensor<24x48xf32>
    %view_4 = graph.node "aten.view.default"(%mm_1) {self = #graph.in<0>, size = [1, 24, 48]} called "view_4" in "attn.k_proj: Linear" : (tensor<24x48xf32>) -> tensor<1x24x48xf32>
    %view_5 = graph.node "aten.view.default"(%view_4) {self = #graph.in<0>, size = [1, 24, -1, 24]} called "view_5" in "attn: Qwen3Attention" : (tensor<1x24x48xf32>) -> tensor<1x24x2x24xf32>
    graph.node "aten._assert_tensor_metadata.default"(%view_5) {a = #graph.in<0>, device = "<as_device>", dtype = 7 : i64, layout = 7 : i64, size, stride} called "_assert_tensor_metadata_2" in "attn.k_norm: Qwen3RMSNorm" : (tensor<1x24x2x24xf32>) -> ()
    %pow_2 = graph.node "aten.pow.Tensor_Scalar"(%view_5) {exponent = 2 : i64, self = #graph.in<0>} called "pow_2" in "attn.k_norm: Qwen3RMSNorm" : (tensor<1x24x2x24xf32>) -> tensor<1x24x2x24xf32>
    %mean_1 = graph.node "aten.mean.dim"(%pow_2) {dim = [-1], keepdim = true, self = #graph.in<0>} called "mean_1" in "attn.k_norm: Qwen3RMSNorm" : (tensor<1x24x2x24xf32>) -> tensor<1x24x2x1xf32>
    %add_1 = graph.node "aten.add.Tensor"(%mean_1) {other = 9.9999999999999995E-7 : f64, self = #graph.in<0>} called "add_1" in "attn.k_norm: Qwen3RMSNorm" : (tensor<1x24x2x1xf32>) -> tensor<1x24x2x1xf32>
    %rsqrt_1 = graph.node "aten.rsqrt.default"(%add_1) {self = #graph.in<0>} called "rsqrt_1" in "attn.k_norm: Qwen3RMSNorm" : (tensor<1x24x2x1xf32>) -> tensor<1x24x2x1xf32>
    %mul_2 = graph.node "aten.mul.Tensor"(%view_5, %rsqrt_1) {other = #graph.in<1>, self = #graph.in<0>} called "mul_2" in "attn.k_norm: Qwen3RMSNorm" : (tensor<1x24x2x24xf32>, tensor<1x24x2x1xf32>) -> tensor<1x24x2x24xf32>
    graph.node "aten._assert_tensor_metadata.default"(%mul_2) {a = #graph.in<0>, device = "<as_device>", dtype = 7 : i64, layout = 7 : i64, size, stride} called "_assert_tensor_metadata_3" in "attn.k_norm: Qwen3RMSNorm" : (tensor<1x24x2x24xf32>) -> ()
    %mul_3 = graph.node "aten.mul.Tensor"(%arg5, %mul_2) {other = #graph.in<1>, self = #graph.in<0>} called "mul_3" in "attn.k_norm: Qwen3RMSNorm" : (tensor<24xf32>, tensor<1x24x2x24xf32>) -> tensor<1x24x2x24xf32>
    %permute_3 = graph.node "aten.permute.default"(%mul_3) {dims = [0, 2, 1, 3], self = #graph.in<0>} called "permute_3" in "attn: Qwen3Attention" : (tensor<1x24x2x24xf32>) -> tensor<1x2x24x24xf32>
    %permute_4 = graph.node "aten.permute.default"(%arg2) {dims = [1, 0], self = #graph.in<0>} called "permute_4" in "attn.v_proj: Linear" : (tensor<48x64xf32>) -> tensor<64x48xf32>
    %view_6 = graph.node "aten.view.default"(%arg6) {self = #graph.in<0>, size = [24, 64]} called "view_6" in "attn.v_proj: Linear" : (tensor<1x24x64xf32>) -> tensor<24x64xf32>
    %mm_2 = graph.node "aten.mm.default"(%view_6, %permute_4) {mat2 = #graph.in<1>, self = #graph.in<0>} called "mm_2" in "attn.v_proj: Linear" : (tensor<24x64xf32>, tensor<64x48xf32>) -> tensor<24x48xf32>
    %view_7 = graph.node "aten.view.default"(%mm_2) {self = #graph.in<0>, size = [1, 24, 48]} called "view_7" in "attn.v_proj: Linear" : (tensor<24x48xf32>) -> tensor<1x24x48xf32>
    %view_8 = graph.node "aten.view.default"(%view_7) {self = #graph.in<0>, size = [1, 24, -1, 24]} called "view_8" in "attn: Qwen3Attention" : (tensor<1x24x48xf32>) -> tensor<1x24x2x24xf32>
    %permute_5 = graph.node "aten.permute.default"(%view_8) {dims = [0, 2, 1, 3], self = #graph.in<0>} called "permute_5" in "attn: Qwen3Attention" : (tensor<1x24x2x24xf32>) -> tensor<1x2x24x24xf32>
    %unsqueeze = graph.node "aten.unsqueeze.default"(%arg7) {dim = 1 : i64, self = #graph.in<0>} called "unsqueeze" in "attn: Qwen3Attention" : (tensor<1x24x24xf32>) -> tensor<1x1x24x24xf32>
    %unsqueeze_1 = graph.node "aten.unsqueeze.default"(%arg8) {dim = 1 : i64, self = #graph.in<0>} called "unsqueeze_1" in "attn: Qwen3Attention" : (tensor<1x24x24xf32>) -> tensor<1x1x24x24xf32>
    %mul_4 = graph.node "aten.mul.Tensor"(%permute_1, %unsqueeze) {other = #graph.in<1>, self = #graph.in<0>} called "mul_4" in "attn: Qwen3Attention" : (tensor<1x4x24x24xf32>, tensor<1x1x24x24xf32>) -> tensor<1x4x24x24xf32>
    %slice_1 = graph.node "aten.slice.Tensor"(%permute_1) {dim = 3 : i64, end = 12 : i64, self = #graph.in<0>, start = 0 : i64} called "slice_1" in "attn: Qwen3Attention" : (tensor<1x4x24x24xf32>) -> tensor<1x4x24x12xf32>
    %slice_2 = graph.node "aten.slice.Tensor"(%permute_1) {dim = 3 : i64, end = 9223372036854775807 : i64, self = #graph.in<0>, start = 12 : i64} called "slice_2" in "attn: Qwen3Attention" : (tensor<1x4x24x24xf32>) -> tensor<1x4x24x12xf32>
    %neg = graph.node "aten.neg.default"(%slice_2) {self = #graph.in<0>} called "neg" in "attn: Qwen3Attention" : (tensor<1x4x24x12xf32>) -> tensor<1x4x24x12xf32>
    %cat = graph.node "aten.cat.default"(%neg, %slice_1) {dim = -1 : i64, tensors = [#graph.in<0>, #graph.in<1>]} called "cat" in "attn: Qwen3Attention" : (tensor<1x4x24x12xf32>, tensor<1x4x24x12xf32>) -> tensor<1x4x24x24xf32>
    %mul_5 = graph.node "aten.mul.Tensor"(%cat, %unsqueeze_1) {other = #graph.in<1>, self = #graph.in<0>} called "mul_5" in "attn: Qwen3Attention" : (tensor<1x4x24x24xf32>, tensor<1x1x24x24xf32>) -> tensor<1x4x24x24xf32>
    %add_2 = graph.node "aten.add.Tensor"(%mul_4, %mul_5) {other = #graph.in<1>, self = #graph.in<0>} called "add_2" in "attn: Qwen3Attention" : (tensor<1x4x24x24xf32>, tensor<1x4x24x24xf32>) -> tensor<1x4x24x24xf32>
    %mul_6 = graph.node "aten.mul.Tensor"(%permute_3, %unsqueeze) {other = #graph.in<1>, self = #graph.in<0>} called "mul_6" in "attn: Qwen3Attention" : (tensor<1x2x24x24xf32>, tensor<1x1x24x24xf32>) -> tensor<1x2x24x24xf32>
    %slice_3 = graph.node "aten.slice.Tensor"(%permute_3) {dim = 3 : i64, end = 12 : i64, self = #graph.in<0>, start = 0 : i64} called "slice_3" in "attn: Qwen3Attention" : (tensor<1x2x24x24xf32>) -> tensor<1x2x24x12xf32>
    %slice_4 = graph.node "aten.slice.Tensor"(%permute_3) {dim = 3 : i64, end = 9223372036854775807 : i64, self = #graph.in<0>, start = 12 : i64} called "slice_4" in "attn: Qwen3Attention" : (tensor<1x2x24x24xf32>) -> tensor<1x2x24x12xf32>
    %neg_1 = graph.node "aten.neg.default"(%slice_4) {self = #graph.in<0>} called "neg_1" in "attn: Qwen3Attention" : (tensor<1x2x24x12xf32>) -> tensor<1x2x24x12xf32>
    %cat_1 = graph.node "aten.cat.default"(%neg_1, %slice_3) {dim = -1 : i64, tensors = [#graph.in<0>, #graph.in<1>]} called "cat_1" in "attn: Qwen3Attention" : (tensor<1x2x24x12xf32>, tensor<1x2x24x12xf32>) -> tensor<1x2x24x24xf32>
    %mul_7 = graph.node "aten.mul.Tensor"(%cat_1, %unsqueeze_1) {other = #graph.in<1>, self = #graph.in<0>} called "mul_7" in "attn: Qwen3Attention" : (tensor<1x2x24x24xf32>, tensor<1x1x24x24xf32>) -> tensor<1x2x24x24xf32>
    %add_3 = graph.node "aten.add.Tensor"(%mul_6, %mul_7) {other = #graph.in<1>, self = #graph.in<0>} called "add_3" in "attn: Qwen3Attention" : (tensor<1x2x24x24xf32>, tensor<1x2x24x24xf32>) -> tensor<1x2x24x24xf32>
    %unsqueeze_2 = graph.node "aten.unsqueeze.default"(%add_3) {dim = 2 : i64, self = #graph.in<0>} called "unsqueeze_2" in "attn: Qwen3Attention" : (tensor<1x2x24x24xf32>) -> tensor<1x2x1x24x24xf32>
    %expand = graph.node "aten.expand.default"(%unsqueeze_2) {self = #graph.in<0>, size = [1, 2, 2, 24, 24]} called "expand" in "attn: Qwen3Attention" : (tensor<1x2x1x24x24xf32>) -> tensor<1x2x2x24x24xf32>
    %clone = graph.node "aten.clone.default"(%expand) {memory_format = 1 : i64, self = #graph.in<0>} called "clone" in "attn: Qwen3Attention" : (tensor<1x2x2x24x24xf32>) -> tensor<1x2x2x24x24xf32>
    %view_9 = graph.node "aten.view.default"(%clone) {self = #graph.in<0>, size = [1, 4, 24, 24]} called "view_9" in "attn: Qwen3Attention" : (tensor<1x2x2x24x24xf32>) -> tensor<1x4x24x24xf32>
    %unsqueeze_3 = graph.node "aten.unsqueeze.default"(%permute_5) {dim = 2 : i64, self = #graph.in<0>} called "unsqueeze_3" in "attn: Qwen3Attention" : (tensor<1x2x24x24xf32>) -> tensor<1x2x1x24x24xf32>
    %expand_1 = graph.node "aten.expand.default"(%unsqueeze_3) {self = #graph.in<0>, size = [1, 2, 2, 24, 24]} called "expand_1" in "attn: Qwen3Attention" : (tensor<1x2x1x24x24xf32>) -> tensor<1x2x2x24x24xf32>
    %clone_1 = graph.node "aten.clone.default"(%expand_1) {memory_format = 1 : i64, self = #graph.in<0>} called "clone_1" in "attn: Qwen3Attention" : (tensor<1x2x2x24x24xf32>) -> tensor<1x2x2x24x24xf32>
    %view_10 = graph.node "aten.view.default"(%clone_1) {self = #graph.in<0>, size = [1, 4, 24, 24]} called "view_10" in "attn: Qwen3Attention" : (tensor<1x2x2x24x24xf32>) -> tensor<1x4x24x24xf32>
    %mul_8 = graph.node "aten.mul.Scalar"(%add_2) {other = 0.45180100180492244 : f64, self = #graph.in<0>} called "mul_8" in "attn: Qwen3Attention" : (tensor<1x4x24x24xf32>) -> tensor<1x4x24x24xf32>
    %permute_6 = graph.node "aten.permute.default"(%view_9) {dims = [0, 1, 3, 2], self = #graph.in<0>} called "permute_6" in "attn: Qwen3Attention" : (tensor<1x4x24x24xf32>) -> tensor<1x4x24x24xf32>
    %mul_9 = graph.node "aten.mul.Scalar"(%permute_6) {other = 0.45180100180492244 : f64, self = #graph.in<0>} called "mul_9" in "attn: Qwen3Attention" : (tensor<1x4x24x24xf32>) -> tensor<1x4x24x24xf32>
    %expand_2 = graph.node "aten.expand.default"(%mul_8) {self = #graph.in<0>, size = [1, 4, 24, 24]} called "expand_2" in "attn: Qwen3Attention" : (tensor<1x4x24x24xf32>) -> tensor<1x4x24x24xf32>
    %view_11 = graph.node "aten.view.default"(%expand_2) {self = #graph.in<0>, size = [4, 24, 24]} called "view_11" in "attn: Qwen3Attention" : (tensor<1x4x24x24xf32>) -> tensor<4x24x24xf32>
    %expand_3 = graph.node "aten.expand.default"(%mul_9) {self = #graph.in<0>, size = [1, 4, 24, 24]} called "expand_3" in "attn: Qwen3Attention" : (tensor<1x4x24x24xf32>) -> tensor<1x4x24x24xf32>
    %view_12 = graph.node "aten.view.default"(%expand_3) {self = #graph.in<0>, size = [4, 24, 24]} called "view_12" in "attn: Qwen3Attention" : (tensor<1x4x24x24xf32>) -> tensor<4x24x24xf32>
    %bmm = graph.node "aten.bmm.default"(%view_11, %view_12) {mat2 = #graph.in<1>, self = #graph.in<0>} called "bmm" in "attn: Qwen3Attention" : (tensor<4x24x24xf32>, tensor<4x24x24xf32>) -> tensor<4x24x24xf32>
    %view_13 = graph.node "aten.view.default"(%bmm) {self = #graph.in<0>, size = [1, 4, 24, 24]} called "view_13" in "attn: Qwen3Attention" : (tensor<4x24x24xf32>) -> tensor<1x4x24x24xf32>
    %add_4 = graph.node "aten.add.Tensor"(%view_13, %arg9) {other = #graph.in<1>, self = #graph.in<0>} called "add_4" in "attn: Qwen3Attention" : (tensor<1x4x24x24xf32>, tensor<1x1x24x24xf32>) -> tensor<1x4x24x24xf32>
    %_softmax = graph.node "aten._softmax.default"(%add_4) {dim = -1 : i64, half_to_float = false, self = #graph.in<0>} called "_softmax" in "attn: Qwen3Attention" : (tensor<1x4x24x24xf32>) -> tensor<1x4x24x24xf32>
    %eq = graph.node "aten.eq.Scalar"(%add_4) {other = 0xFFF0000000000000 : f64, self = #graph.in<0>} called "eq" in "attn: Qwen3Attention" : (tensor<1x4x24x24xf32>) -> tensor<1x4x24x24xi1>
    %logical_not = graph.node "aten.logical_not.default"(%eq) {self = #graph.in<0>} called "logical_not" in "attn: Qwen3Attention" : (tensor<1x4x24x24xi1>) -> tensor<1x4x24x24xi1>
    %any_1 = graph.node "aten.any.dim"(%logical_not) {dim = -1 : i64, keepdim = true, self = #graph.in<0>} called "any_1" in "attn: Qwen3Attention" : (tensor<1x4x24x24xi1>) -> tensor<1x4x24x1xi1>
    %logical_not_1 = graph.node "aten.logical_not.default"(%any_1) {self = #graph.in<0>} called "logical_not_1" in "attn: Qwen3Attention" : (tensor<1x4x24x1xi1>) -> tensor<1x4x24x1xi1>
    %full_like = graph.node "aten.full_like.default"(%_softmax) {fill_value = 0 : i64, memory_format = 4 : i64, pin_memory = false, self = #graph.in<0>} called "full_like" in "attn: Qwen3Attention" : (tensor<1x4x24x24xf32>) -> tensor<1x4x24x24xf32>
    %where = graph.node "aten.where.self"(%logical_not_1, %full_like, %_softmax) {condition = #graph.in<0>, other = #graph.in<2>, self = #graph.in<1>} called "where" in "attn: Qwen3Attention" : (tensor<1x4x24x1xi1>, tensor<1x4x24x24xf32>, tensor<1x4x24x24xf32>) -> tensor<1x4x24x24xf32>
    %expand_4 = graph.node "aten.expand.default"(%where) {self = #graph.in<0>, size = [1, 4, 24, 24]} called "expand_4" in "attn: Qwen3Attention" : (tensor<1x4x24x24xf32>) -> tensor<1x4x24x24xf32>
    %view_14 = graph.node "aten.view.default"(%expand_4) {self = #graph.in<0>, size = [4, 24, 24]} called "view_14" in "attn: Qwen3Attention" : (tensor<1x4x24x24xf32>) -> tensor<4x24x24xf32>
    %expand_5 = graph.node "aten.expand.default"(%view_10) {self = #graph.in<0>, size = [1, 4, 24, 24]} called "expand_5" in "attn: Qwen3Attention" : (tensor<1x4x24x24xf32>) -> tensor<1x4x24x24xf32>
    %view_15 = graph.node "aten.view.default"(%expand_5) {self = #graph.in<0>, size = [4, 24, 24]} called "view_15" in "attn: Qwen3Attention" : (tensor<1x4x24x24xf32>) -> tensor<4x24x24xf32>
    %bmm_1 = graph.node "aten.bmm.default"(%view_14, %view_15) {mat2 = #graph.in<1>, self = #graph.in<0>} called "bmm_1" in "attn: Qwen3Attention" : (tensor<4x24x24xf32>, tensor<4x24x24xf32>) -> tensor<4x24x24xf32>
    %view_16 = graph.node "aten.view.default"(%bmm_1) {self = #graph.in<0>, size = [1, 4, 24, 24]} called "view_16" in "attn: Qwen3Attention" : (tensor<4x24x24xf32>) -> tensor<1x4x24x24xf32>
    %permute_7 = graph.node "aten.permute.default"(%view_16) {dims = [2, 0, 1, 3], self = #graph.in<0>} called "permute_7" in "attn: Qwen3Attention" : (tensor<1x4x24x24xf32>) -> tensor<24x1x4x24xf32>
    %clone_2 = graph.node "aten.clone.default"(%permute_7) {memory_format = 1 : i64, self = #graph.in<0>} called "clone_2" in "attn: Qwen3Attention" : (tensor<24x1x4x24xf32>) -> tensor<24x1x4x24xf32>
    %permute_8 = graph.node "aten.permute.default"(%clone_2) {dims = [1, 2, 0, 3], self = #graph.in<0>} called "permute_8" in "attn: Qwen3Attention" : (tensor<24x1x4x24xf32>) -> tensor<1x4x24x24xf32>
    %view_17 = graph.node "aten.view.default"(%permute_8) {self = #graph.in<0>, size = [1, 4, 24, 24]} called "view_17" in "attn: Qwen3Attention" : (tensor<1x4x24x24xf32>) -> tensor<1x4x24x24xf32>
    %permute_9 = graph.node "aten.permute.default"(%view_17) {dims = [0, 2, 1, 3], self = #graph.in<0>} called "permute_9" in "attn: Qwen3Attention" : (tensor<1x4x24x24xf32>) -> tensor<1x24x4x24xf32>
    %view_18 = graph.node "aten.view.default"(%permute_9) {self = #graph.in<0>, size = [1, 24, -1]} called "view_18" in "attn: Qwen3Attention" : (tensor<1x24x4x24xf32>) -> tensor<1x24x96xf32>
    %permute_10 = graph.node "aten.permute.default"(%arg3) {dims = [1, 0], self = #graph.in<0>} called "permute_10" in "attn.o_proj: Linear" : (tensor<64x96xf32>) -> tensor<96x64xf32>
    %view_19 = graph.node "aten.view.default"(%view_18) {self = #graph.in<0>, size = [24, 96]} called "view_19" in "attn.o_proj: Linear" : (tensor<1x24x96xf32>) -> tensor<24x96xf32>
    %mm_3 = graph.node "aten.mm.default"(%view_19, %permute_10) {mat2 = #graph.in<1>, self = #graph.in<0>} called "mm_3" in "attn.o_proj: Linear" : (tensor<24x96xf32>, tensor<96x64xf32>) -> tensor<24x64xf32>
    %view_20 = graph.node "aten.view.default"(%mm_3) {self = #graph.in<0>, size = [1, 24, 64]} called "view_20" in "attn.o_proj: Linear" : (tensor<24x64xf32>) -> tensor<1x24x64xf32>
    return %view_20 : tensor<1x24x64xf32>
  }
}

