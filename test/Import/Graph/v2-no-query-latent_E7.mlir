// Queries projected from the hidden states; a complex table as the input.
// Recorded by torch.export 2.11 from a module of transformers 5.17 (mla-import-archive).
// RUN: echo 'module {}' > %t.empty
// RUN: mla-opt %t.empty --mla-import-config="config=%S/Inputs/v2-no-query-latent.json dtype=f32" -o %t.config
// RUN: mla-opt %s --mla-raise-graph="config=%S/Inputs/v2-no-query-latent.json dtype=f32" -o %t.graph
// RUN: cmp %t.graph %t.config

module {
  func.func @forward(%arg0: tensor<96x64xf32> {graph.weight = "attn.q_proj.weight"}, %arg1: tensor<40x64xf32> {graph.weight = "attn.kv_a_proj_with_mqa.weight"}, %arg2: tensor<32xf32> {graph.weight = "attn.kv_a_layernorm.weight"}, %arg3: tensor<128x32xf32> {graph.weight = "attn.kv_b_proj.weight"}, %arg4: tensor<64x64xf32> {graph.weight = "attn.o_proj.weight"}, %arg5: tensor<1x24x64xf32> {graph.input = "hidden_states"}, %arg6: tensor<1x24x4xcomplex<f32>> {graph.input = "freqs"}, %arg7: tensor<1x1x24x24xf32> {graph.input = "mask"}) -> tensor<1x24x64xf32> {
    %linear = graph.node "aten.linear.default"(%arg5, %arg0) {input = #graph.in<0>, weight = #graph.in<1>} called "linear" in "attn.q_proj: Linear" : (tensor<1x24x64xf32>, tensor<96x64xf32>) -> tensor<1x24x96xf32>
    %view = graph.node "aten.view.default"(%linear) {self = #graph.in<0>, size = [1, 24, -1, 24]} called "view" in "attn: DeepseekV2Attention" : (tensor<1x24x96xf32>) -> tensor<1x24x4x24xf32>
    %transpose = graph.node "aten.transpose.int"(%view) {dim0 = 1 : i64, dim1 = 2 : i64, self = #graph.in<0>} called "transpose" in "attn: DeepseekV2Attention" : (tensor<1x24x4x24xf32>) -> tensor<1x4x24x24xf32>
    %split_with_sizes, %split_with_sizes_0 = graph.node "aten.split_with_sizes.default"(%transpose) {dim = -1 : i64, self = #graph.in<0>, split_sizes = [16, 8]} called "split_with_sizes" in "attn: DeepseekV2Attention" : (tensor<1x4x24x24xf32>) -> (tensor<1x4x24x16xf32>, tensor<1x4x24x8xf32>)
    %linear_1 = graph.node "aten.linear.default"(%arg5, %arg1) {input = #graph.in<0>, weight = #graph.in<1>} called "linear_1" in "attn.kv_a_proj_with_mqa: Linear" : (tensor<1x24x64xf32>, tensor<40x64xf32>) -> tensor<1x24x40xf32>
    %split_with_sizes_1, %split_with_sizes_1_1 = graph.node "aten.split_with_sizes.default"(%linear_1) {dim = -1 : i64, self = #graph.in<0>, split_sizes = [32, 8]} called "split_with_sizes_1" in "attn: DeepseekV2Attention" : (tensor<1x24x40xf32>) -> (tensor<1x24x32xf32>, tensor<1x24x8xf32>)
    graph.node "aten._assert_tensor_metadata.default"(%split_with_sizes_1) {a = #graph.in<0>, device = "<as_device>", dtype = 7 : i64, layout = 7 : i64} called "_assert_tensor_metadata_default" in "attn.kv_a_layernorm: DeepseekV2RMSNorm" : (tensor<1x24x32xf32>) -> ()
    %to = graph.node "aten.to.dtype"(%split_with_sizes_1) {dtype = 7 : i64, self = #graph.in<0>} called "to" in "attn.kv_a_layernorm: DeepseekV2RMSNorm" : (tensor<1x24x32xf32>) -> tensor<1x24x32xf32>
    %pow_1 = graph.node "aten.pow.Tensor_Scalar"(%to) {exponent = 2 : i64, self = #graph.in<0>} called "pow_1" in "attn.kv_a_layernorm: DeepseekV2RMSNorm" : (tensor<1x24x32xf32>) -> tensor<1x24x32xf32>
    %mean = graph.node "aten.mean.dim"(%pow_1) {dim = [-1], keepdim = true, self = #graph.in<0>} called "mean" in "attn.kv_a_layernorm: DeepseekV2RMSNorm" : (tensor<1x24x32xf32>) -> tensor<1x24x1xf32>
    %add = graph.node "aten.add.Tensor"(%mean) {other = 9.9999999999999995E-7 : f64, self = #graph.in<0>} called "add" in "attn.kv_a_layernorm: DeepseekV2RMSNorm" : (tensor<1x24x1xf32>) -> tensor<1x24x1xf32>
    %rsqrt = graph.node "aten.rsqrt.default"(%add) {self = #graph.in<0>} called "rsqrt" in "attn.kv_a_layernorm: DeepseekV2RMSNorm" : (tensor<1x24x1xf32>) -> tensor<1x24x1xf32>
    %mul = graph.node "aten.mul.Tensor"(%to, %rsqrt) {other = #graph.in<1>, self = #graph.in<0>} called "mul" in "attn.kv_a_layernorm: DeepseekV2RMSNorm" : (tensor<1x24x32xf32>, tensor<1x24x1xf32>) -> tensor<1x24x32xf32>
    graph.node "aten._assert_tensor_metadata.default"(%mul) {a = #graph.in<0>, device = "<as_device>", dtype = 7 : i64, layout = 7 : i64} called "_assert_tensor_metadata_default_1" in "attn.kv_a_layernorm: DeepseekV2RMSNorm" : (tensor<1x24x32xf32>) -> ()
    %to_1 = graph.node "aten.to.dtype"(%mul) {dtype = 7 : i64, self = #graph.in<0>} called "to_1" in "attn.kv_a_layernorm: DeepseekV2RMSNorm" : (tensor<1x24x32xf32>) -> tensor<1x24x32xf32>
    %mul_1 = graph.node "aten.mul.Tensor"(%arg2, %to_1) {other = #graph.in<1>, self = #graph.in<0>} called "mul_1" in "attn.kv_a_layernorm: DeepseekV2RMSNorm" : (tensor<32xf32>, tensor<1x24x32xf32>) -> tensor<1x24x32xf32>
    %view_1 = graph.node "aten.view.default"(%mul_1) {self = #graph.in<0>, size = [1, 1, 24, 32]} called "view_1" in "attn: DeepseekV2Attention" : (tensor<1x24x32xf32>) -> tensor<1x1x24x32xf32>
    %view_2 = graph.node "aten.view.default"(%split_with_sizes_1_1) {self = #graph.in<0>, size = [1, 1, 24, 8]} called "view_2" in "attn: DeepseekV2Attention" : (tensor<1x24x8xf32>) -> tensor<1x1x24x8xf32>
    graph.node "aten._assert_tensor_metadata.default"(%arg6) {a = #graph.in<0>, device = "<as_device>", dtype = 10 : i64, layout = 7 : i64} called "_assert_tensor_metadata_default_2" in "attn: DeepseekV2Attention" : (tensor<1x24x4xcomplex<f32>>) -> ()
    %to_2 = graph.node "aten.to.dtype_layout"(%arg6) {device = "<as_device>", dtype = 10 : i64, layout = 7 : i64, self = #graph.in<0>} called "to_2" in "attn: DeepseekV2Attention" : (tensor<1x24x4xcomplex<f32>>) -> tensor<1x24x4xcomplex<f32>>
    graph.node "aten._assert_tensor_metadata.default"(%split_with_sizes_0) {a = #graph.in<0>, device = "<as_device>", dtype = 7 : i64, layout = 7 : i64} called "_assert_tensor_metadata_default_3" in "attn: DeepseekV2Attention" : (tensor<1x4x24x8xf32>) -> ()
    %to_3 = graph.node "aten.to.dtype"(%split_with_sizes_0) {dtype = 7 : i64, self = #graph.in<0>} called "to_3" in "attn: DeepseekV2Attention" : (tensor<1x4x24x8xf32>) -> tensor<1x4x24x8xf32>
    %reshape = graph.node "aten.reshape.default"(%to_3) {self = #graph.in<0>, shape = [1, 4, 24, -1, 2]} called "reshape" in "attn: DeepseekV2Attention" : (tensor<1x4x24x8xf32>) -> tensor<1x4x24x4x2xf32>
    %view_as_complex = graph.node "aten.view_as_complex.default"(%reshape) {self = #graph.in<0>} called "view_as_complex" in "attn: DeepseekV2Attention" : (tensor<1x4x24x4x2xf32>) -> tensor<1x4x24x4xcomplex<f32>>
    graph.node "aten._assert_tensor_metadata.default"(%view_2) {a = #graph.in<0>, device = "<as_device>", dtype = 7 : i64, layout = 7 : i64} called "_assert_tensor_metadata_default_4" in "attn: DeepseekV2Attention" : (tensor<1x1x24x8xf32>) -> ()
    %to_4 = graph.node "aten.to.dtype"(%view_2) {dtype = 7 : i64, self = #graph.in<0>} called "to_4" in "attn: DeepseekV2Attention" : (tensor<1x1x24x8xf32>) -> tensor<1x1x24x8xf32>
    %reshape_1 = graph.node "aten.reshape.default"(%to_4) {self = #graph.in<0>, shape = [1, 1, 24, -1, 2]} called "reshape_1" in "attn: DeepseekV2Attention" : (tensor<1x1x24x8xf32>) -> tensor<1x1x24x4x2xf32>
    %view_as_complex_1 = graph.node "aten.view_as_complex.default"(%reshape_1) {self = #graph.in<0>} called "view_as_complex_1" in "attn: DeepseekV2Attention" : (tensor<1x1x24x4x2xf32>) -> tensor<1x1x24x4xcomplex<f32>>
    %unsqueeze = graph.node "aten.unsqueeze.default"(%to_2) {dim = 1 : i64, self = #graph.in<0>} called "unsqueeze" in "attn: DeepseekV2Attention" : (tensor<1x24x4xcomplex<f32>>) -> tensor<1x1x24x4xcomplex<f32>>
    graph.node "aten._assert_tensor_metadata.default"(%unsqueeze) {a = #graph.in<0>, device = "<as_device>", dtype = 10 : i64, layout = 7 : i64} called "_assert_tensor_metadata_default_5" in "attn: DeepseekV2Attention" : (tensor<1x1x24x4xcomplex<f32>>) -> ()
    %to_5 = graph.node "aten.to.dtype_layout"(%unsqueeze) {device = "<as_device>", dtype = 10 : i64, layout = 7 : i64, self = #graph.in<0>} called "to_5" in "attn: DeepseekV2Attention" : (tensor<1x1x24x4xcomplex<f32>>) -> tensor<1x1x24x4xcomplex<f32>>
    %mul_2 = graph.node "aten.mul.Tensor"(%view_as_complex, %to_5) {other = #graph.in<1>, self = #graph.in<0>} called "mul_2" in "attn: DeepseekV2Attention" : (tensor<1x4x24x4xcomplex<f32>>, tensor<1x1x24x4xcomplex<f32>>) -> tensor<1x4x24x4xcomplex<f32>>
    %view_as_real = graph.node "aten.view_as_real.default"(%mul_2) {self = #graph.in<0>} called "view_as_real" in "attn: DeepseekV2Attention" : (tensor<1x4x24x4xcomplex<f32>>) -> tensor<1x4x24x4x2xf32>
    %flatten = graph.node "aten.flatten.using_ints"(%view_as_real) {self = #graph.in<0>, start_dim = 3 : i64} called "flatten" in "attn: DeepseekV2Attention" : (tensor<1x4x24x4x2xf32>) -> tensor<1x4x24x8xf32>
    %type_as = graph.node "aten.type_as.default"(%flatten, %to_3) {other = #graph.in<1>, self = #graph.in<0>} called "type_as" in "attn: DeepseekV2Attention" : (tensor<1x4x24x8xf32>, tensor<1x4x24x8xf32>) -> tensor<1x4x24x8xf32>
    %mul_3 = graph.node "aten.mul.Tensor"(%view_as_complex_1, %to_5) {other = #graph.in<1>, self = #graph.in<0>} called "mul_3" in "attn: DeepseekV2Attention" : (tensor<1x1x24x4xcomplex<f32>>, tensor<1x1x24x4xcomplex<f32>>) -> tensor<1x1x24x4xcomplex<f32>>
    %view_as_real_1 = graph.node "aten.view_as_real.default"(%mul_3) {self = #graph.in<0>} called "view_as_real_1" in "attn: DeepseekV2Attention" : (tensor<1x1x24x4xcomplex<f32>>) -> tensor<1x1x24x4x2xf32>
    %flatten_1 = graph.node "aten.flatten.using_ints"(%view_as_real_1) {self = #graph.in<0>, start_dim = 3 : i64} called "flatten_1" in "attn: DeepseekV2Attention" : (tensor<1x1x24x4x2xf32>) -> tensor<1x1x24x8xf32>
    %type_as_1 = graph.node "aten.type_as.default"(%flatten_1, %to_4) {other = #graph.in<1>, self = #graph.in<0>} called "type_as_1" in "attn: DeepseekV2Attention" : (tensor<1x1x24x8xf32>, tensor<1x1x24x8xf32>) -> tensor<1x1x24x8xf32>
    %cat = graph.node "aten.cat.default"(%split_with_sizes, %type_as) {dim = -1 : i64, tensors = [#graph.in<0>, #graph.in<1>]} called "cat" in "attn: DeepseekV2Attention" : (tensor<1x4x24x16xf32>, tensor<1x4x24x8xf32>) -> tensor<1x4x24x24xf32>
    %linear_2 = graph.node "aten.linear.default"(%view_1, %arg3) {input = #graph.in<0>, weight = #graph.in<1>} called "linear_2" in "attn.kv_b_proj: Linear" : (tensor<1x1x24x32xf32>, tensor<128x32xf32>) -> tensor<1x1x24x128xf32>
    %view_3 = graph.node "aten.view.default"(%linear_2) {self = #graph.in<0>, size = [1, 24, -1, 32]} called "view_3" in "attn: DeepseekV2Attention" : (tensor<1x1x24x128xf32>) -> tensor<1x24x4x32xf32>
    %transpose_1 = graph.node "aten.transpose.int"(%view_3) {dim0 = 1 : i64, dim1 = 2 : i64, self = #graph.in<0>} called "transpose_1" in "attn: DeepseekV2Attention" : (tensor<1x24x4x32xf32>) -> tensor<1x4x24x32xf32>
    %split_with_sizes_2, %split_with_sizes_2_2 = graph.node "aten.split_with_sizes.default"(%transpose_1) {dim = -1 : i64, self = #graph.in<0>, split_sizes = [16, 16]} called "split_with_sizes_2" in "attn: DeepseekV2Attention" : (tensor<1x4x24x32xf32>) -> (tensor<1x4x24x16xf32>, tensor<1x4x24x16xf32>)
    %expand = graph.node "aten.expand.default"(%type_as_1) {self = #graph.in<0>, size = [-1, 4, -1, -1]} called "expand" in "attn: DeepseekV2Attention" : (tensor<1x1x24x8xf32>) -> tensor<1x4x24x8xf32>
    %new_empty = graph.node "aten.new_empty.default"(%transpose_1) {pin_memory = false, self = #graph.in<0>, size = [1, 4, 24, 24]} called "new_empty" in "attn: DeepseekV2Attention" : (tensor<1x4x24x32xf32>) -> tensor<1x4x24x24xf32>
    %slice_1 = graph.node "aten.slice.Tensor"(%new_empty) {dim = 3 : i64, end = 16 : i64, self = #graph.in<0>, start = 0 : i64} called "slice_1" in "attn: DeepseekV2Attention" : (tensor<1x4x24x24xf32>) -> tensor<1x4x24x16xf32>
    %copy_ = graph.node "aten.copy_.default"(%slice_1, %split_with_sizes_2) {self = #graph.in<0>, src = #graph.in<1>} called "copy_" in "attn: DeepseekV2Attention" : (tensor<1x4x24x16xf32>, tensor<1x4x24x16xf32>) -> tensor<1x4x24x16xf32>
    %slice_2 = graph.node "aten.slice.Tensor"(%new_empty) {dim = 3 : i64, end = 9223372036854775807 : i64, self = #graph.in<0>, start = 16 : i64} called "slice_2" in "attn: DeepseekV2Attention" : (tensor<1x4x24x24xf32>) -> tensor<1x4x24x8xf32>
    %copy__1 = graph.node "aten.copy_.default"(%slice_2, %expand) {self = #graph.in<0>, src = #graph.in<1>} called "copy__1" in "attn: DeepseekV2Attention" : (tensor<1x4x24x8xf32>, tensor<1x4x24x8xf32>) -> tensor<1x4x24x8xf32>
    %transpose_2 = graph.node "aten.transpose.int"(%new_empty) {dim0 = 2 : i64, dim1 = 3 : i64, self = #graph.in<0>} called "transpose_2" in "attn: DeepseekV2Attention" : (tensor<1x4x24x24xf32>) -> tensor<1x4x24x24xf32>
    %matmul = graph.node "aten.matmul.default"(%cat, %transpose_2) {other = #graph.in<1>, self = #graph.in<0>} called "matmul" in "attn: DeepseekV2Attention" : (tensor<1x4x24x24xf32>, tensor<1x4x24x24xf32>) -> tensor<1x4x24x24xf32>
    %mul_4 = graph.node "aten.mul.Tensor"(%matmul) {other = 0.38249888831204115 : f64, self = #graph.in<0>} called "mul_4" in "attn: DeepseekV2Attention" : (tensor<1x4x24x24xf32>) -> tensor<1x4x24x24xf32>
    %add_1 = graph.node "aten.add.Tensor"(%mul_4, %arg7) {other = #graph.in<1>, self = #graph.in<0>} called "add_1" in "attn: DeepseekV2Attention" : (tensor<1x4x24x24xf32>, tensor<1x1x24x24xf32>) -> tensor<1x4x24x24xf32>
    %softmax = graph.node "aten.softmax.int"(%add_1) {dim = -1 : i64, dtype = 7 : i64, self = #graph.in<0>} called "softmax" in "attn: DeepseekV2Attention" : (tensor<1x4x24x24xf32>) -> tensor<1x4x24x24xf32>
    graph.node "aten._assert_tensor_metadata.default"(%softmax) {a = #graph.in<0>, device = "<as_device>", dtype = 7 : i64, layout = 7 : i64} called "_assert_tensor_metadata_default_6" in "attn: DeepseekV2Attention" : (tensor<1x4x24x24xf32>) -> ()
    %to_6 = graph.node "aten.to.dtype"(%softmax) {dtype = 7 : i64, self = #graph.in<0>} called "to_6" in "attn: DeepseekV2Attention" : (tensor<1x4x24x24xf32>) -> tensor<1x4x24x24xf32>
    %dropout = graph.node "aten.dropout.default"(%to_6) {input = #graph.in<0>, p = 0.000000e+00 : f64, train = false} called "dropout" in "attn: DeepseekV2Attention" : (tensor<1x4x24x24xf32>) -> tensor<1x4x24x24xf32>
    %matmul_1 = graph.node "aten.matmul.default"(%dropout, %split_with_sizes_2_2) {other = #graph.in<1>, self = #graph.in<0>} called "matmul_1" in "attn: DeepseekV2Attention" : (tensor<1x4x24x24xf32>, tensor<1x4x24x16xf32>) -> tensor<1x4x24x16xf32>
    %transpose_3 = graph.node "aten.transpose.int"(%matmul_1) {dim0 = 1 : i64, dim1 = 2 : i64, self = #graph.in<0>} called "transpose_3" in "attn: DeepseekV2Attention" : (tensor<1x4x24x16xf32>) -> tensor<1x24x4x16xf32>
    %contiguous = graph.node "aten.contiguous.default"(%transpose_3) {self = #graph.in<0>} called "contiguous" in "attn: DeepseekV2Attention" : (tensor<1x24x4x16xf32>) -> tensor<1x24x4x16xf32>
    %reshape_2 = graph.node "aten.reshape.default"(%contiguous) {self = #graph.in<0>, shape = [1, 24, -1]} called "reshape_2" in "attn: DeepseekV2Attention" : (tensor<1x24x4x16xf32>) -> tensor<1x24x64xf32>
    %linear_3 = graph.node "aten.linear.default"(%reshape_2, %arg4) {input = #graph.in<0>, weight = #graph.in<1>} called "linear_3" in "attn.o_proj: Linear" : (tensor<1x24x64xf32>, tensor<64x64xf32>) -> tensor<1x24x64xf32>
    return %linear_3 : tensor<1x24x64xf32>
  }
}

