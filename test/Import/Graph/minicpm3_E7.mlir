// MiniCPM3, eager, in core operators.
// Recorded by torch.export 2.11 from a module of transformers 5.17 (mla-import-archive).
// RUN: echo 'module {}' > %t.empty
// RUN: mla-opt %t.empty --mla-import-config="config=%S/Inputs/minicpm3.json dtype=f32" -o %t.config
// RUN: mla-opt %s --mla-raise-graph="config=%S/Inputs/minicpm3.json dtype=f32" -o %t.graph
// RUN: cmp %t.graph %t.config

module {
  func.func @forward(%arg0: tensor<40x120xf32> {graph.weight = "attn.q_a_proj.weight"}, %arg1: tensor<40xf32> {graph.weight = "attn.q_a_layernorm.weight"}, %arg2: tensor<192x40xf32> {graph.weight = "attn.q_b_proj.weight"}, %arg3: tensor<64x120xf32> {graph.weight = "attn.kv_a_proj_with_mqa.weight"}, %arg4: tensor<56xf32> {graph.weight = "attn.kv_a_layernorm.weight"}, %arg5: tensor<240x56xf32> {graph.weight = "attn.kv_b_proj.weight"}, %arg6: tensor<120x96xf32> {graph.weight = "attn.o_proj.weight"}, %arg7: tensor<1x24x120xf32> {graph.input = "hidden_states"}, %arg8: tensor<1x24x8xf32> {graph.input = "cos"}, %arg9: tensor<1x24x8xf32> {graph.input = "sin"}, %arg10: tensor<1x1x24x24xf32> {graph.input = "mask"}) -> tensor<1x24x120xf32> {
    %permute = graph.node "aten.permute.default"(%arg0) {dims = [1, 0], self = #graph.in<0>} called "permute" in "attn.q_a_proj: Linear" : (tensor<40x120xf32>) -> tensor<120x40xf32>
    %view = graph.node "aten.view.default"(%arg7) {self = #graph.in<0>, size = [24, 120]} called "view" in "attn.q_a_proj: Linear" : (tensor<1x24x120xf32>) -> tensor<24x120xf32>
    %mm = graph.node "aten.mm.default"(%view, %permute) {mat2 = #graph.in<1>, self = #graph.in<0>} called "mm" in "attn.q_a_proj: Linear" : (tensor<24x120xf32>, tensor<120x40xf32>) -> tensor<24x40xf32>
    %view_1 = graph.node "aten.view.default"(%mm) {self = #graph.in<0>, size = [1, 24, 40]} called "view_1" in "attn.q_a_proj: Linear" : (tensor<24x40xf32>) -> tensor<1x24x40xf32>
    graph.node "aten._assert_tensor_metadata.default"(%view_1) {a = #graph.in<0>, device = "<as_device>", dtype = 7 : i64, layout = 7 : i64, size, stride} called "_assert_tensor_metadata" in "attn.q_a_layernorm: MiniCPM3RMSNorm" : (tensor<1x24x40xf32>) -> ()
    %pow_1 = graph.node "aten.pow.Tensor_Scalar"(%view_1) {exponent = 2 : i64, self = #graph.in<0>} called "pow_1" in "attn.q_a_layernorm: MiniCPM3RMSNorm" : (tensor<1x24x40xf32>) -> tensor<1x24x40xf32>
    %mean = graph.node "aten.mean.dim"(%pow_1) {dim = [-1], keepdim = true, self = #graph.in<0>} called "mean" in "attn.q_a_layernorm: MiniCPM3RMSNorm" : (tensor<1x24x40xf32>) -> tensor<1x24x1xf32>
    %add = graph.node "aten.add.Tensor"(%mean) {other = 9.9999999999999995E-7 : f64, self = #graph.in<0>} called "add" in "attn.q_a_layernorm: MiniCPM3RMSNorm" : (tensor<1x24x1xf32>) -> tensor<1x24x1xf32>
    %rsqrt = graph.node "aten.rsqrt.default"(%add) {self = #graph.in<0>} called "rsqrt" in "attn.q_a_layernorm: MiniCPM3RMSNorm" : (tensor<1x24x1xf32>) -> tensor<1x24x1xf32>
    %mul = graph.node "aten.mul.Tensor"(%view_1, %rsqrt) {other = #graph.in<1>, self = #graph.in<0>} called "mul" in "attn.q_a_layernorm: MiniCPM3RMSNorm" : (tensor<1x24x40xf32>, tensor<1x24x1xf32>) -> tensor<1x24x40xf32>
    graph.node "aten._assert_tensor_metadata.default"(%mul) {a = #graph.in<0>, device = "<as_device>", dtype = 7 : i64, layout = 7 : i64, size, stride} called "_assert_tensor_metadata_1" in "attn.q_a_layernorm: MiniCPM3RMSNorm" : (tensor<1x24x40xf32>) -> ()
    %mul_1 = graph.node "aten.mul.Tensor"(%arg1, %mul) {other = #graph.in<1>, self = #graph.in<0>} called "mul_1" in "attn.q_a_layernorm: MiniCPM3RMSNorm" : (tensor<40xf32>, tensor<1x24x40xf32>) -> tensor<1x24x40xf32>
    %permute_1 = graph.node "aten.permute.default"(%arg2) {dims = [1, 0], self = #graph.in<0>} called "permute_1" in "attn.q_b_proj: Linear" : (tensor<192x40xf32>) -> tensor<40x192xf32>
    %view_2 = graph.node "aten.view.default"(%mul_1) {self = #graph.in<0>, size = [24, 40]} called "view_2" in "attn.q_b_proj: Linear" : (tensor<1x24x40xf32>) -> tensor<24x40xf32>
    %mm_1 = graph.node "aten.mm.default"(%view_2, %permute_1) {mat2 = #graph.in<1>, self = #graph.in<0>} called "mm_1" in "attn.q_b_proj: Linear" : (tensor<24x40xf32>, tensor<40x192xf32>) -> tensor<24x192xf32>
    %view_3 = graph.node "aten.view.default"(%mm_1) {self = #graph.in<0>, size = [1, 24, 192]} called "view_3" in "attn.q_b_proj: Linear" : (tensor<24x192xf32>) -> tensor<1x24x192xf32>
    %view_4 = graph.node "aten.view.default"(%view_3) {self = #graph.in<0>, size = [1, 24, -1, 32]} called "view_4" in "attn: MiniCPM3Attention" : (tensor<1x24x192xf32>) -> tensor<1x24x6x32xf32>
    %permute_2 = graph.node "aten.permute.default"(%view_4) {dims = [0, 2, 1, 3], self = #graph.in<0>} called "permute_2" in "attn: MiniCPM3Attention" : (tensor<1x24x6x32xf32>) -> tensor<1x6x24x32xf32>
    %split_with_sizes, %split_with_sizes_0 = graph.node "aten.split_with_sizes.default"(%permute_2) {dim = -1 : i64, self = #graph.in<0>, split_sizes = [24, 8]} called "split_with_sizes" in "attn: MiniCPM3Attention" : (tensor<1x6x24x32xf32>) -> (tensor<1x6x24x24xf32>, tensor<1x6x24x8xf32>)
    %permute_3 = graph.node "aten.permute.default"(%arg3) {dims = [1, 0], self = #graph.in<0>} called "permute_3" in "attn.kv_a_proj_with_mqa: Linear" : (tensor<64x120xf32>) -> tensor<120x64xf32>
    %view_5 = graph.node "aten.view.default"(%arg7) {self = #graph.in<0>, size = [24, 120]} called "view_5" in "attn.kv_a_proj_with_mqa: Linear" : (tensor<1x24x120xf32>) -> tensor<24x120xf32>
    %mm_2 = graph.node "aten.mm.default"(%view_5, %permute_3) {mat2 = #graph.in<1>, self = #graph.in<0>} called "mm_2" in "attn.kv_a_proj_with_mqa: Linear" : (tensor<24x120xf32>, tensor<120x64xf32>) -> tensor<24x64xf32>
    %view_6 = graph.node "aten.view.default"(%mm_2) {self = #graph.in<0>, size = [1, 24, 64]} called "view_6" in "attn.kv_a_proj_with_mqa: Linear" : (tensor<24x64xf32>) -> tensor<1x24x64xf32>
    %split_with_sizes_1, %split_with_sizes_1_1 = graph.node "aten.split_with_sizes.default"(%view_6) {dim = -1 : i64, self = #graph.in<0>, split_sizes = [56, 8]} called "split_with_sizes_1" in "attn: MiniCPM3Attention" : (tensor<1x24x64xf32>) -> (tensor<1x24x56xf32>, tensor<1x24x8xf32>)
    graph.node "aten._assert_tensor_metadata.default"(%split_with_sizes_1) {a = #graph.in<0>, device = "<as_device>", dtype = 7 : i64, layout = 7 : i64, size, stride} called "_assert_tensor_metadata_2" in "attn.kv_a_layernorm: MiniCPM3RMSNorm" : (tensor<1x24x56xf32>) -> ()
    %pow_2 = graph.node "aten.pow.Tensor_Scalar"(%split_with_sizes_1) {exponent = 2 : i64, self = #graph.in<0>} called "pow_2" in "attn.kv_a_layernorm: MiniCPM3RMSNorm" : (tensor<1x24x56xf32>) -> tensor<1x24x56xf32>
    %mean_1 = graph.node "aten.mean.dim"(%pow_2) {dim = [-1], keepdim = true, self = #graph.in<0>} called "mean_1" in "attn.kv_a_layernorm: MiniCPM3RMSNorm" : (tensor<1x24x56xf32>) -> tensor<1x24x1xf32>
    %add_1 = graph.node "aten.add.Tensor"(%mean_1) {other = 9.9999999999999995E-7 : f64, self = #graph.in<0>} called "add_1" in "attn.kv_a_layernorm: MiniCPM3RMSNorm" : (tensor<1x24x1xf32>) -> tensor<1x24x1xf32>
    %rsqrt_1 = graph.node "aten.rsqrt.default"(%add_1) {self = #graph.in<0>} called "rsqrt_1" in "attn.kv_a_layernorm: MiniCPM3RMSNorm" : (tensor<1x24x1xf32>) -> tensor<1x24x1xf32>
    %mul_2 = graph.node "aten.mul.Tensor"(%split_with_sizes_1, %rsqrt_1) {other = #graph.in<1>, self = #graph.in<0>} called "mul_2" in "attn.kv_a_layernorm: MiniCPM3RMSNorm" : (tensor<1x24x56xf32>, tensor<1x24x1xf32>) -> tensor<1x24x56xf32>
    graph.node "aten._assert_tensor_metadata.default"(%mul_2) {a = #graph.in<0>, device = "<as_device>", dtype = 7 : i64, layout = 7 : i64, size, stride} called "_assert_tensor_metadata_3" in "attn.kv_a_layernorm: MiniCPM3RMSNorm" : (tensor<1x24x56xf32>) -> ()
    %mul_3 = graph.node "aten.mul.Tensor"(%arg4, %mul_2) {other = #graph.in<1>, self = #graph.in<0>} called "mul_3" in "attn.kv_a_layernorm: MiniCPM3RMSNorm" : (tensor<56xf32>, tensor<1x24x56xf32>) -> tensor<1x24x56xf32>
    %view_7 = graph.node "aten.view.default"(%mul_3) {self = #graph.in<0>, size = [1, 1, 24, 56]} called "view_7" in "attn: MiniCPM3Attention" : (tensor<1x24x56xf32>) -> tensor<1x1x24x56xf32>
    %view_8 = graph.node "aten.view.default"(%split_with_sizes_1_1) {self = #graph.in<0>, size = [1, 1, 24, 8]} called "view_8" in "attn: MiniCPM3Attention" : (tensor<1x24x8xf32>) -> tensor<1x1x24x8xf32>
    %unsqueeze = graph.node "aten.unsqueeze.default"(%arg8) {dim = 1 : i64, self = #graph.in<0>} called "unsqueeze" in "attn: MiniCPM3Attention" : (tensor<1x24x8xf32>) -> tensor<1x1x24x8xf32>
    %unsqueeze_1 = graph.node "aten.unsqueeze.default"(%arg9) {dim = 1 : i64, self = #graph.in<0>} called "unsqueeze_1" in "attn: MiniCPM3Attention" : (tensor<1x24x8xf32>) -> tensor<1x1x24x8xf32>
    %mul_4 = graph.node "aten.mul.Tensor"(%split_with_sizes_0, %unsqueeze) {other = #graph.in<1>, self = #graph.in<0>} called "mul_4" in "attn: MiniCPM3Attention" : (tensor<1x6x24x8xf32>, tensor<1x1x24x8xf32>) -> tensor<1x6x24x8xf32>
    %slice_1 = graph.node "aten.slice.Tensor"(%split_with_sizes_0) {dim = 3 : i64, end = 4 : i64, self = #graph.in<0>, start = 0 : i64} called "slice_1" in "attn: MiniCPM3Attention" : (tensor<1x6x24x8xf32>) -> tensor<1x6x24x4xf32>
    %slice_2 = graph.node "aten.slice.Tensor"(%split_with_sizes_0) {dim = 3 : i64, end = 9223372036854775807 : i64, self = #graph.in<0>, start = 4 : i64} called "slice_2" in "attn: MiniCPM3Attention" : (tensor<1x6x24x8xf32>) -> tensor<1x6x24x4xf32>
    %neg = graph.node "aten.neg.default"(%slice_2) {self = #graph.in<0>} called "neg" in "attn: MiniCPM3Attention" : (tensor<1x6x24x4xf32>) -> tensor<1x6x24x4xf32>
    %cat = graph.node "aten.cat.default"(%neg, %slice_1) {dim = -1 : i64, tensors = [#graph.in<0>, #graph.in<1>]} called "cat" in "attn: MiniCPM3Attention" : (tensor<1x6x24x4xf32>, tensor<1x6x24x4xf32>) -> tensor<1x6x24x8xf32>
    %mul_5 = graph.node "aten.mul.Tensor"(%cat, %unsqueeze_1) {other = #graph.in<1>, self = #graph.in<0>} called "mul_5" in "attn: MiniCPM3Attention" : (tensor<1x6x24x8xf32>, tensor<1x1x24x8xf32>) -> tensor<1x6x24x8xf32>
    %add_2 = graph.node "aten.add.Tensor"(%mul_4, %mul_5) {other = #graph.in<1>, self = #graph.in<0>} called "add_2" in "attn: MiniCPM3Attention" : (tensor<1x6x24x8xf32>, tensor<1x6x24x8xf32>) -> tensor<1x6x24x8xf32>
    %mul_6 = graph.node "aten.mul.Tensor"(%view_8, %unsqueeze) {other = #graph.in<1>, self = #graph.in<0>} called "mul_6" in "attn: MiniCPM3Attention" : (tensor<1x1x24x8xf32>, tensor<1x1x24x8xf32>) -> tensor<1x1x24x8xf32>
    %slice_3 = graph.node "aten.slice.Tensor"(%view_8) {dim = 3 : i64, end = 4 : i64, self = #graph.in<0>, start = 0 : i64} called "slice_3" in "attn: MiniCPM3Attention" : (tensor<1x1x24x8xf32>) -> tensor<1x1x24x4xf32>
    %slice_4 = graph.node "aten.slice.Tensor"(%view_8) {dim = 3 : i64, end = 9223372036854775807 : i64, self = #graph.in<0>, start = 4 : i64} called "slice_4" in "attn: MiniCPM3Attention" : (tensor<1x1x24x8xf32>) -> tensor<1x1x24x4xf32>
    %neg_1 = graph.node "aten.neg.default"(%slice_4) {self = #graph.in<0>} called "neg_1" in "attn: MiniCPM3Attention" : (tensor<1x1x24x4xf32>) -> tensor<1x1x24x4xf32>
    %cat_1 = graph.node "aten.cat.default"(%neg_1, %slice_3) {dim = -1 : i64, tensors = [#graph.in<0>, #graph.in<1>]} called "cat_1" in "attn: MiniCPM3Attention" : (tensor<1x1x24x4xf32>, tensor<1x1x24x4xf32>) -> tensor<1x1x24x8xf32>
    %mul_7 = graph.node "aten.mul.Tensor"(%cat_1, %unsqueeze_1) {other = #graph.in<1>, self = #graph.in<0>} called "mul_7" in "attn: MiniCPM3Attention" : (tensor<1x1x24x8xf32>, tensor<1x1x24x8xf32>) -> tensor<1x1x24x8xf32>
    %add_3 = graph.node "aten.add.Tensor"(%mul_6, %mul_7) {other = #graph.in<1>, self = #graph.in<0>} called "add_3" in "attn: MiniCPM3Attention" : (tensor<1x1x24x8xf32>, tensor<1x1x24x8xf32>) -> tensor<1x1x24x8xf32>
    %cat_2 = graph.node "aten.cat.default"(%split_with_sizes, %add_2) {dim = -1 : i64, tensors = [#graph.in<0>, #graph.in<1>]} called "cat_2" in "attn: MiniCPM3Attention" : (tensor<1x6x24x24xf32>, tensor<1x6x24x8xf32>) -> tensor<1x6x24x32xf32>
    %permute_4 = graph.node "aten.permute.default"(%arg5) {dims = [1, 0], self = #graph.in<0>} called "permute_4" in "attn.kv_b_proj: Linear" : (tensor<240x56xf32>) -> tensor<56x240xf32>
    %view_9 = graph.node "aten.view.default"(%view_7) {self = #graph.in<0>, size = [24, 56]} called "view_9" in "attn.kv_b_proj: Linear" : (tensor<1x1x24x56xf32>) -> tensor<24x56xf32>
    %mm_3 = graph.node "aten.mm.default"(%view_9, %permute_4) {mat2 = #graph.in<1>, self = #graph.in<0>} called "mm_3" in "attn.kv_b_proj: Linear" : (tensor<24x56xf32>, tensor<56x240xf32>) -> tensor<24x240xf32>
    %view_10 = graph.node "aten.view.default"(%mm_3) {self = #graph.in<0>, size = [1, 1, 24, 240]} called "view_10" in "attn.kv_b_proj: Linear" : (tensor<24x240xf32>) -> tensor<1x1x24x240xf32>
    %view_11 = graph.node "aten.view.default"(%view_10) {self = #graph.in<0>, size = [1, 24, -1, 40]} called "view_11" in "attn: MiniCPM3Attention" : (tensor<1x1x24x240xf32>) -> tensor<1x24x6x40xf32>
    %permute_5 = graph.node "aten.permute.default"(%view_11) {dims = [0, 2, 1, 3], self = #graph.in<0>} called "permute_5" in "attn: MiniCPM3Attention" : (tensor<1x24x6x40xf32>) -> tensor<1x6x24x40xf32>
    %split_with_sizes_2, %split_with_sizes_2_2 = graph.node "aten.split_with_sizes.default"(%permute_5) {dim = -1 : i64, self = #graph.in<0>, split_sizes = [24, 16]} called "split_with_sizes_2" in "attn: MiniCPM3Attention" : (tensor<1x6x24x40xf32>) -> (tensor<1x6x24x24xf32>, tensor<1x6x24x16xf32>)
    %expand = graph.node "aten.expand.default"(%add_3) {self = #graph.in<0>, size = [-1, 6, -1, -1]} called "expand" in "attn: MiniCPM3Attention" : (tensor<1x1x24x8xf32>) -> tensor<1x6x24x8xf32>
    %empty = graph.node "aten.empty.memory_format"() {device = "<as_device>", dtype = 7 : i64, layout = 7 : i64, pin_memory = false, size = [1, 6, 24, 32]} called "empty" in "attn: MiniCPM3Attention" : () -> tensor<1x6x24x32xf32>
    %slice_5 = graph.node "aten.slice.Tensor"(%empty) {dim = 3 : i64, end = 24 : i64, self = #graph.in<0>, start = 0 : i64} called "slice_5" in "attn: MiniCPM3Attention" : (tensor<1x6x24x32xf32>) -> tensor<1x6x24x24xf32>
    %copy = graph.node "aten.copy.default"(%slice_5, %split_with_sizes_2) {self = #graph.in<0>, src = #graph.in<1>} called "copy" in "attn: MiniCPM3Attention" : (tensor<1x6x24x24xf32>, tensor<1x6x24x24xf32>) -> tensor<1x6x24x24xf32>
    %slice_scatter = graph.node "aten.slice_scatter.default"(%empty, %copy) {dim = 3 : i64, end = 24 : i64, self = #graph.in<0>, src = #graph.in<1>, start = 0 : i64} called "slice_scatter" in "attn: MiniCPM3Attention" : (tensor<1x6x24x32xf32>, tensor<1x6x24x24xf32>) -> tensor<1x6x24x32xf32>
    %slice_8 = graph.node "aten.slice.Tensor"(%slice_scatter) {dim = 3 : i64, end = 9223372036854775807 : i64, self = #graph.in<0>, start = 24 : i64} called "slice_8" in "attn: MiniCPM3Attention" : (tensor<1x6x24x32xf32>) -> tensor<1x6x24x8xf32>
    %copy_1 = graph.node "aten.copy.default"(%slice_8, %expand) {self = #graph.in<0>, src = #graph.in<1>} called "copy_1" in "attn: MiniCPM3Attention" : (tensor<1x6x24x8xf32>, tensor<1x6x24x8xf32>) -> tensor<1x6x24x8xf32>
    %slice_scatter_1 = graph.node "aten.slice_scatter.default"(%slice_scatter, %copy_1) {dim = 3 : i64, end = 9223372036854775807 : i64, self = #graph.in<0>, src = #graph.in<1>, start = 24 : i64} called "slice_scatter_1" in "attn: MiniCPM3Attention" : (tensor<1x6x24x32xf32>, tensor<1x6x24x8xf32>) -> tensor<1x6x24x32xf32>
    %expand_1 = graph.node "aten.expand.default"(%cat_2) {self = #graph.in<0>, size = [1, 6, 24, 32]} called "expand_1" in "attn: MiniCPM3Attention" : (tensor<1x6x24x32xf32>) -> tensor<1x6x24x32xf32>
    %view_12 = graph.node "aten.view.default"(%expand_1) {self = #graph.in<0>, size = [6, 24, 32]} called "view_12" in "attn: MiniCPM3Attention" : (tensor<1x6x24x32xf32>) -> tensor<6x24x32xf32>
    %permute_9 = graph.node "aten.permute.default"(%slice_scatter_1) {dims = [0, 1, 3, 2], self = #graph.in<0>} called "permute_9" in "attn: MiniCPM3Attention" : (tensor<1x6x24x32xf32>) -> tensor<1x6x32x24xf32>
    %expand_4 = graph.node "aten.expand.default"(%permute_9) {self = #graph.in<0>, size = [1, 6, 32, 24]} called "expand_4" in "attn: MiniCPM3Attention" : (tensor<1x6x32x24xf32>) -> tensor<1x6x32x24xf32>
    %view_14 = graph.node "aten.view.default"(%expand_4) {self = #graph.in<0>, size = [6, 32, 24]} called "view_14" in "attn: MiniCPM3Attention" : (tensor<1x6x32x24xf32>) -> tensor<6x32x24xf32>
    %bmm = graph.node "aten.bmm.default"(%view_12, %view_14) {mat2 = #graph.in<1>, self = #graph.in<0>} called "bmm" in "attn: MiniCPM3Attention" : (tensor<6x24x32xf32>, tensor<6x32x24xf32>) -> tensor<6x24x24xf32>
    %view_15 = graph.node "aten.view.default"(%bmm) {self = #graph.in<0>, size = [1, 6, 24, 24]} called "view_15" in "attn: MiniCPM3Attention" : (tensor<6x24x24xf32>) -> tensor<1x6x24x24xf32>
    %mul_8 = graph.node "aten.mul.Tensor"(%view_15) {other = 0.17677669529663689 : f64, self = #graph.in<0>} called "mul_8" in "attn: MiniCPM3Attention" : (tensor<1x6x24x24xf32>) -> tensor<1x6x24x24xf32>
    %add_4 = graph.node "aten.add.Tensor"(%mul_8, %arg10) {other = #graph.in<1>, self = #graph.in<0>} called "add_4" in "attn: MiniCPM3Attention" : (tensor<1x6x24x24xf32>, tensor<1x1x24x24xf32>) -> tensor<1x6x24x24xf32>
    %_softmax = graph.node "aten._softmax.default"(%add_4) {dim = -1 : i64, half_to_float = false, self = #graph.in<0>} called "_softmax" in "attn: MiniCPM3Attention" : (tensor<1x6x24x24xf32>) -> tensor<1x6x24x24xf32>
    graph.node "aten._assert_tensor_metadata.default"(%_softmax) {a = #graph.in<0>, device = "<as_device>", dtype = 7 : i64, layout = 7 : i64, size, stride} called "_assert_tensor_metadata_4" in "attn: MiniCPM3Attention" : (tensor<1x6x24x24xf32>) -> ()
    %clone = graph.node "aten.clone.default"(%_softmax) {self = #graph.in<0>} called "clone" in "attn: MiniCPM3Attention" : (tensor<1x6x24x24xf32>) -> tensor<1x6x24x24xf32>
    %expand_5 = graph.node "aten.expand.default"(%clone) {self = #graph.in<0>, size = [1, 6, 24, 24]} called "expand_5" in "attn: MiniCPM3Attention" : (tensor<1x6x24x24xf32>) -> tensor<1x6x24x24xf32>
    %view_16 = graph.node "aten.view.default"(%expand_5) {self = #graph.in<0>, size = [6, 24, 24]} called "view_16" in "attn: MiniCPM3Attention" : (tensor<1x6x24x24xf32>) -> tensor<6x24x24xf32>
    %expand_6 = graph.node "aten.expand.default"(%split_with_sizes_2_2) {self = #graph.in<0>, size = [1, 6, 24, 16]} called "expand_6" in "attn: MiniCPM3Attention" : (tensor<1x6x24x16xf32>) -> tensor<1x6x24x16xf32>
    %view_17 = graph.node "aten.view.default"(%expand_6) {self = #graph.in<0>, size = [6, 24, 16]} called "view_17" in "attn: MiniCPM3Attention" : (tensor<1x6x24x16xf32>) -> tensor<6x24x16xf32>
    %bmm_1 = graph.node "aten.bmm.default"(%view_16, %view_17) {mat2 = #graph.in<1>, self = #graph.in<0>} called "bmm_1" in "attn: MiniCPM3Attention" : (tensor<6x24x24xf32>, tensor<6x24x16xf32>) -> tensor<6x24x16xf32>
    %view_18 = graph.node "aten.view.default"(%bmm_1) {self = #graph.in<0>, size = [1, 6, 24, 16]} called "view_18" in "attn: MiniCPM3Attention" : (tensor<6x24x16xf32>) -> tensor<1x6x24x16xf32>
    %permute_10 = graph.node "aten.permute.default"(%view_18) {dims = [0, 2, 1, 3], self = #graph.in<0>} called "permute_10" in "attn: MiniCPM3Attention" : (tensor<1x6x24x16xf32>) -> tensor<1x24x6x16xf32>
    %clone_1 = graph.node "aten.clone.default"(%permute_10) {memory_format = 1 : i64, self = #graph.in<0>} called "clone_1" in "attn: MiniCPM3Attention" : (tensor<1x24x6x16xf32>) -> tensor<1x24x6x16xf32>
    %view_19 = graph.node "aten.view.default"(%clone_1) {self = #graph.in<0>, size = [1, 24, -1]} called "view_19" in "attn: MiniCPM3Attention" : (tensor<1x24x6x16xf32>) -> tensor<1x24x96xf32>
    %permute_11 = graph.node "aten.permute.default"(%arg6) {dims = [1, 0], self = #graph.in<0>} called "permute_11" in "attn.o_proj: Linear" : (tensor<120x96xf32>) -> tensor<96x120xf32>
    %view_20 = graph.node "aten.view.default"(%view_19) {self = #graph.in<0>, size = [24, 96]} called "view_20" in "attn.o_proj: Linear" : (tensor<1x24x96xf32>) -> tensor<24x96xf32>
    %mm_4 = graph.node "aten.mm.default"(%view_20, %permute_11) {mat2 = #graph.in<1>, self = #graph.in<0>} called "mm_4" in "attn.o_proj: Linear" : (tensor<24x96xf32>, tensor<96x120xf32>) -> tensor<24x120xf32>
    %view_21 = graph.node "aten.view.default"(%mm_4) {self = #graph.in<0>, size = [1, 24, 120]} called "view_21" in "attn.o_proj: Linear" : (tensor<24x120xf32>) -> tensor<1x24x120xf32>
    return %view_21 : tensor<1x24x120xf32>
  }
}

