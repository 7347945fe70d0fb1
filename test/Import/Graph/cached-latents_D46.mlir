// RUN: mla-opt %s --split-input-file --mla-cache-attention | FileCheck %s
// RUN: mla-opt %s --split-input-file --mla-cache-attention="attention=MultiHeadLatent page-size=16" | FileCheck %s --check-prefix=FOLDED
// RUN: mla-opt %s --split-input-file --mla-cache-attention="attention=PagedMultiHead" | FileCheck %s --check-prefix=HEADS

// Two heads whose keys' first channels and values are rows of one weight times a norm's result, and
// whose keys' last channels are shared, one pair under rope. Keys are copied
// into new memory. The operator takes that row and the channels from before rope; the
// up-projection, rope and the memory are gone.

// CHECK-LABEL: func.func @latents
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<1x2x?x4xf32> {graph.input = "query"}, %[[L:[a-z0-9]+]]: tensor<1x?x3xf32> {graph.input = "latent"}, %[[K:[a-z0-9]+]]: tensor<1x1x?x2xf32> {graph.input = "k_pe"}
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<8x3xf32> {graph.weight = "kv_b_proj.weight"}
// CHECK-SAME: %[[CACHE:[a-z0-9]+]]: tensor<?x?x5xf32> {graph.input = "kv_cache_0"}
// CHECK: mlac.prepare_metadata
// CHECK-NOT: aten.cos
// CHECK-NOT: aten.linear
// CHECK-NOT: aten.new_empty
// CHECK-NOT: aten.copy_
// CHECK: %[[QR:.*]] = graph.node "aten.permute.default"(%[[Q]]) {{.*}} -> tensor<1x?x2x4xf32>
// CHECK: %[[KR:.*]] = graph.node "aten.squeeze.dim"(%[[K]]) {{.*}} -> tensor<1x?x2xf32>
// CHECK: %[[O:.*]] = graph.node "mlac.cached_latent_attention"(%[[QR]], %[[L]], %[[KR]], {{.*}}, %[[CACHE]], %[[W]], %{{.*}}) {{{.*}}k_pe = #graph.in<2>, kv_b_proj = #graph.in<8>, kv_cache = #graph.in<7>, kv_lora_rank = 3 : i64, latent = #graph.in<1>, {{.*}}rope_dim = 2 : i64, rope_first = 0 : i64, rope_multiplier = 1.000000e+00 : f64, rope_order = "half", scale = 5.000000e-01 : f64
// CHECK-SAME: -> tensor<1x?x2x2xf32>
// CHECK: graph.node "aten.permute.default"(%[[O]])

// One frequency says no theta: rope stays the graph's for the descriptor's operator. Queries are
// folded by the weight's rows of keys, outputs unfolded by those of values.

// FOLDED-LABEL: func.func @latents
// FOLDED-SAME: %[[W:[a-z0-9]+]]: tensor<8x3xf32> {graph.weight = "kv_b_proj.weight"}
// FOLDED-SAME: %[[COS:[a-z0-9]+]]: tensor<0xf32> {graph.input = "cos_None_10000_0_1_0"}, %[[SIN:[a-z0-9]+]]: tensor<0xf32> {graph.input = "sin_None_10000_0_1_0"}
// FOLDED: aten.cos
// FOLDED: %[[WH:.*]] = graph.node "aten.unflatten.int"(%[[W]]) {dim = 0 : i64, self = #graph.in<0>, sizes = [2, 4]}
// FOLDED: %[[WK:.*]] = graph.node "aten.slice.Tensor"(%[[WH]]) {dim = 1 : i64, end = 2 : i64, self = #graph.in<0>, start = 0 : i64, step = 1 : i64}
// FOLDED: %[[FOLD:.*]] = graph.node "aten.matmul.default"({{.*}}, %[[WK]]) {{.*}} -> tensor<1x2x?x3xf32>
// FOLDED: %[[QL:.*]] = graph.node "aten.permute.default"(%[[FOLD]])
// FOLDED: %[[O:.*]] = graph.node "mlac.mla_with_cache.default"(%[[QL]], {{.*}}, %[[COS]], %[[SIN]]) {{{.*}}kv_lora_rank = 3 : i64, layout = "mla_f32", {{.*}}scale = 5.000000e-01 : f64
// FOLDED-SAME: -> tensor<1x?x6xf32>
// FOLDED: graph.node "aten.matmul.default"({{.*}}) {{.*}} -> tensor<1x2x?x2xf32>

// HEADS-LABEL: func.func @latents
// HEADS: aten.linear
// HEADS: aten.copy_
// HEADS: mlac.paged_mha_with_cache.default
func.func @latents(%q: tensor<1x2x?x4xf32> {graph.input = "query"}, %l: tensor<1x?x3xf32> {graph.input = "latent"},
    %k: tensor<1x1x?x2xf32> {graph.input = "k_pe"}, %p: tensor<1x?xi64> {graph.input = "position_ids"},
    %w: tensor<8x3xf32> {graph.weight = "kv_b_proj.weight"},
    %f: tensor<1xf32> {graph.weight = "inv_freq", graph.values = dense<[0.5]> : tensor<1xf32>}) -> tensor<1x2x?x2xf32> {
  %n = graph.node "aten.sym_size.int"(%l) {self = #graph.in<0>, dim = 1 : i64} called "n" : (tensor<1x?x3xf32>) -> index
  %p1 = graph.node "aten.unsqueeze.default"(%p) {self = #graph.in<0>, dim = 2 : i64} called "p1" : (tensor<1x?xi64>) -> tensor<1x?x1xi64>
  %angles = graph.node "aten.mul.Tensor"(%p1, %f) {self = #graph.in<0>, other = #graph.in<1>} called "angles" : (tensor<1x?x1xi64>, tensor<1xf32>) -> tensor<1x?x1xf32>
  %c0 = graph.node "aten.cos.default"(%angles) {self = #graph.in<0>} called "c0" : (tensor<1x?x1xf32>) -> tensor<1x?x1xf32>
  %s0 = graph.node "aten.sin.default"(%angles) {self = #graph.in<0>} called "s0" : (tensor<1x?x1xf32>) -> tensor<1x?x1xf32>
  %c = graph.node "aten.unsqueeze.default"(%c0) {self = #graph.in<0>, dim = 1 : i64} called "c" : (tensor<1x?x1xf32>) -> tensor<1x1x?x1xf32>
  %s = graph.node "aten.unsqueeze.default"(%s0) {self = #graph.in<0>, dim = 1 : i64} called "s" : (tensor<1x?x1xf32>) -> tensor<1x1x?x1xf32>

  %qn, %qr = graph.node "aten.split_with_sizes.default"(%q) {self = #graph.in<0>, split_sizes = [2, 2], dim = -1 : i64} called "query_parts" : (tensor<1x2x?x4xf32>) -> (tensor<1x2x?x2xf32>, tensor<1x2x?x2xf32>)
  %q0 = graph.node "aten.slice.Tensor"(%qr) {self = #graph.in<0>, dim = 3 : i64, start = 0 : i64, end = 1 : i64} called "q0" : (tensor<1x2x?x2xf32>) -> tensor<1x2x?x1xf32>
  %q1 = graph.node "aten.slice.Tensor"(%qr) {self = #graph.in<0>, dim = 3 : i64, start = 1 : i64, end = 2 : i64} called "q1" : (tensor<1x2x?x2xf32>) -> tensor<1x2x?x1xf32>
  %q0c = graph.node "aten.mul.Tensor"(%q0, %c) {self = #graph.in<0>, other = #graph.in<1>} called "q0c" : (tensor<1x2x?x1xf32>, tensor<1x1x?x1xf32>) -> tensor<1x2x?x1xf32>
  %q1s = graph.node "aten.mul.Tensor"(%q1, %s) {self = #graph.in<0>, other = #graph.in<1>} called "q1s" : (tensor<1x2x?x1xf32>, tensor<1x1x?x1xf32>) -> tensor<1x2x?x1xf32>
  %q1c = graph.node "aten.mul.Tensor"(%q1, %c) {self = #graph.in<0>, other = #graph.in<1>} called "q1c" : (tensor<1x2x?x1xf32>, tensor<1x1x?x1xf32>) -> tensor<1x2x?x1xf32>
  %q0s = graph.node "aten.mul.Tensor"(%q0, %s) {self = #graph.in<0>, other = #graph.in<1>} called "q0s" : (tensor<1x2x?x1xf32>, tensor<1x1x?x1xf32>) -> tensor<1x2x?x1xf32>
  %qt0 = graph.node "aten.sub.Tensor"(%q0c, %q1s) {self = #graph.in<0>, other = #graph.in<1>} called "qt0" : (tensor<1x2x?x1xf32>, tensor<1x2x?x1xf32>) -> tensor<1x2x?x1xf32>
  %qt1 = graph.node "aten.add.Tensor"(%q1c, %q0s) {self = #graph.in<0>, other = #graph.in<1>} called "qt1" : (tensor<1x2x?x1xf32>, tensor<1x2x?x1xf32>) -> tensor<1x2x?x1xf32>
  %qt = graph.node "aten.cat.default"(%qn, %qt0, %qt1) {tensors = [#graph.in<0>, #graph.in<1>, #graph.in<2>], dim = -1 : i64} called "qt" : (tensor<1x2x?x2xf32>, tensor<1x2x?x1xf32>, tensor<1x2x?x1xf32>) -> tensor<1x2x?x4xf32>

  %k0 = graph.node "aten.slice.Tensor"(%k) {self = #graph.in<0>, dim = 3 : i64, start = 0 : i64, end = 1 : i64} called "k0" : (tensor<1x1x?x2xf32>) -> tensor<1x1x?x1xf32>
  %k1 = graph.node "aten.slice.Tensor"(%k) {self = #graph.in<0>, dim = 3 : i64, start = 1 : i64, end = 2 : i64} called "k1" : (tensor<1x1x?x2xf32>) -> tensor<1x1x?x1xf32>
  %k0c = graph.node "aten.mul.Tensor"(%k0, %c) {self = #graph.in<0>, other = #graph.in<1>} called "k0c" : (tensor<1x1x?x1xf32>, tensor<1x1x?x1xf32>) -> tensor<1x1x?x1xf32>
  %k1s = graph.node "aten.mul.Tensor"(%k1, %s) {self = #graph.in<0>, other = #graph.in<1>} called "k1s" : (tensor<1x1x?x1xf32>, tensor<1x1x?x1xf32>) -> tensor<1x1x?x1xf32>
  %k1c = graph.node "aten.mul.Tensor"(%k1, %c) {self = #graph.in<0>, other = #graph.in<1>} called "k1c" : (tensor<1x1x?x1xf32>, tensor<1x1x?x1xf32>) -> tensor<1x1x?x1xf32>
  %k0s = graph.node "aten.mul.Tensor"(%k0, %s) {self = #graph.in<0>, other = #graph.in<1>} called "k0s" : (tensor<1x1x?x1xf32>, tensor<1x1x?x1xf32>) -> tensor<1x1x?x1xf32>
  %kt0 = graph.node "aten.sub.Tensor"(%k0c, %k1s) {self = #graph.in<0>, other = #graph.in<1>} called "kt0" : (tensor<1x1x?x1xf32>, tensor<1x1x?x1xf32>) -> tensor<1x1x?x1xf32>
  %kt1 = graph.node "aten.add.Tensor"(%k1c, %k0s) {self = #graph.in<0>, other = #graph.in<1>} called "kt1" : (tensor<1x1x?x1xf32>, tensor<1x1x?x1xf32>) -> tensor<1x1x?x1xf32>
  %kt = graph.node "aten.cat.default"(%kt0, %kt1) {tensors = [#graph.in<0>, #graph.in<1>], dim = -1 : i64} called "kt" : (tensor<1x1x?x1xf32>, tensor<1x1x?x1xf32>) -> tensor<1x1x?x2xf32>
  %ke = graph.node "aten.expand.default"(%kt) {self = #graph.in<0>, size = [-1, 2, -1, -1]} called "ke" : (tensor<1x1x?x2xf32>) -> tensor<1x2x?x2xf32>

  %up = graph.node "aten.linear.default"(%l, %w) {input = #graph.in<0>, weight = #graph.in<1>} called "up" : (tensor<1x?x3xf32>, tensor<8x3xf32>) -> tensor<1x?x8xf32>
  %heads = graph.node "aten.view.default"(%up, %n) {self = #graph.in<0>, size = [1, #graph.in<1>, 2, 4]} called "heads" : (tensor<1x?x8xf32>, index) -> tensor<1x?x2x4xf32>
  %ht = graph.node "aten.transpose.int"(%heads) {self = #graph.in<0>, dim0 = 1 : i64, dim1 = 2 : i64} called "ht" : (tensor<1x?x2x4xf32>) -> tensor<1x2x?x4xf32>
  %kn, %v = graph.node "aten.split_with_sizes.default"(%ht) {self = #graph.in<0>, split_sizes = [2, 2], dim = -1 : i64} called "key_and_value" : (tensor<1x2x?x4xf32>) -> (tensor<1x2x?x2xf32>, tensor<1x2x?x2xf32>)
  %key = graph.node "aten.new_empty.default"(%ht, %n) {self = #graph.in<0>, size = [1, 2, #graph.in<1>, 4], pin_memory = false} called "key" : (tensor<1x2x?x4xf32>, index) -> tensor<1x2x?x4xf32>
  %first = graph.node "aten.slice.Tensor"(%key) {self = #graph.in<0>, dim = 3 : i64, start = 0 : i64, end = 2 : i64} called "first" : (tensor<1x2x?x4xf32>) -> tensor<1x2x?x2xf32>
  %w0 = graph.node "aten.copy_.default"(%first, %kn) {self = #graph.in<0>, src = #graph.in<1>} called "w0" : (tensor<1x2x?x2xf32>, tensor<1x2x?x2xf32>) -> tensor<1x2x?x2xf32>
  %last = graph.node "aten.slice.Tensor"(%key) {self = #graph.in<0>, dim = 3 : i64, start = 2 : i64, end = 4 : i64} called "last" : (tensor<1x2x?x4xf32>) -> tensor<1x2x?x2xf32>
  %w1 = graph.node "aten.copy_.default"(%last, %ke) {self = #graph.in<0>, src = #graph.in<1>} called "w1" : (tensor<1x2x?x2xf32>, tensor<1x2x?x2xf32>) -> tensor<1x2x?x2xf32>
  %o = graph.node "aten.scaled_dot_product_attention.default"(%qt, %key, %v) {query = #graph.in<0>, key = #graph.in<1>, value = #graph.in<2>, is_causal = true, scale = 0.5 : f64} called "attention" in "layers.0" : (tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32>, tensor<1x2x?x2xf32>) -> tensor<1x2x?x2xf32>
  return %o : tensor<1x2x?x2xf32>
}
