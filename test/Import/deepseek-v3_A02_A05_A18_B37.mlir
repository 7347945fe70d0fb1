// RUN: mla-opt %s --mla-import-config="config=%data/configs/deepseek_v3.json tp=8" | FileCheck %s
// RUN: mla-opt %s --mla-import-config="config=%data/configs/deepseek_v3.json tp=8" | mla-opt --verify-roundtrip

// The whole layer of one of 8 ranks: 16 heads, the latents replicated. Covers
// A02 (one KV head: the cache has no head dimension), A05, A18 and B37 (the scale).

// CHECK: module @deepseek_v3

// CHECK-LABEL: func.func @prefill
// CHECK-SAME: %[[HIDDEN:.*]]: tensor<?x7168xbf16> {mla.input = "hidden"}
// CHECK-SAME: %[[BATCH:.*]]: !mla.batch<query_len = ?>
// CHECK-SAME: %[[CACHE:.*]]: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>
// CHECK-SAME: %[[Q_A:.*]]: tensor<1536x7168xbf16> {mla.weight = "q_a_proj.weight"}
// CHECK-SAME: %[[Q_NORM:.*]]: tensor<1536xbf16> {mla.weight = "q_a_layernorm.weight"}
// CHECK-SAME: %[[Q_B:.*]]: tensor<3072x1536xbf16> {mla.weight = "q_b_proj.weight"}
// CHECK-SAME: %[[KV_A:.*]]: tensor<576x7168xbf16> {mla.weight = "kv_a_proj_with_mqa.weight"}
// CHECK-SAME: %[[KV_NORM:.*]]: tensor<512xbf16> {mla.weight = "kv_a_layernorm.weight"}
// CHECK-SAME: %[[KV_B:.*]]: tensor<4096x512xbf16> {mla.weight = "kv_b_proj.weight"}
// CHECK-SAME: %[[O:.*]]: tensor<7168x2048xbf16> {mla.weight = "o_proj.weight"}
// CHECK-SAME: -> (tensor<?x7168xbf16> {mla.output = "output"}, !mla.cache<

// CHECK: %[[TABLE:.*]] = mla.rope_table <order = interleaved, dim = 64, theta = 1.000000e+04, length = 163840, scaling = yarn, factor = 4.000000e+01, beta_fast = 3.200000e+01, beta_slow = 1.000000e+00, original_max_position = 4096>
// CHECK: %[[QC:.*]] = mla.latent_project %[[HIDDEN]], %[[Q_A]], %[[Q_NORM]] eps 9.99{{.*}}E-7
// CHECK: %[[Q_HEADS:.*]] = tensor.expand_shape %[[Q_B]] {{\[\[}}0, 1], [2]] output_shape [16, 192, 1536]
// CHECK: %[[W_UQ:.*]] = tensor.extract_slice %[[Q_HEADS]][0, 0, 0] [16, 128, 1536]
// CHECK: %[[Q_NOPE:.*]] = mla.project %[[QC]], %[[W_UQ]]
// CHECK: %[[W_QR:.*]] = tensor.extract_slice %[[Q_HEADS]][0, 128, 0] [16, 64, 1536]
// CHECK: %[[Q_RAW:.*]] = mla.project %[[QC]], %[[W_QR]]
// CHECK: %[[Q_PE:.*]] = mla.rope %[[Q_RAW]], %[[TABLE]], %[[BATCH]]
// CHECK: %[[LATENT:.*]], %[[TAIL:.*]] = mla.latent_project %[[HIDDEN]], %[[KV_A]], %[[KV_NORM]]
// CHECK: %[[K_PE:.*]] = mla.rope %[[TAIL]], %[[TABLE]], %[[BATCH]]
// CHECK: %[[APPENDED:.*]] = mla.append %[[LATENT]], %[[K_PE]] into %[[CACHE]], %[[BATCH]]
// CHECK: %[[KV_HEADS:.*]] = tensor.expand_shape %[[KV_B]] {{\[\[}}0, 1], [2]] output_shape [16, 256, 512]
// CHECK: %[[W_UK:.*]] = tensor.extract_slice %[[KV_HEADS]][0, 0, 0] [16, 128, 512]
// CHECK: %[[W_UV:.*]] = tensor.extract_slice %[[KV_HEADS]][0, 128, 0] [16, 128, 512]
// CHECK: %[[HEADS:.*]] = mla.attention query(%[[Q_NOPE]], %[[Q_PE]]
// CHECK-SAME: latent(%[[LATENT]], %[[K_PE]]
// CHECK-SAME: weights(%[[W_UK]], %[[W_UV]]
// CHECK-SAME: over %[[APPENDED]], %[[BATCH]]
// CHECK-SAME: scale 0.1352337
// CHECK-NOT: form
// CHECK-SAME: tensor<?x16x128xbf16>
// CHECK: %[[OUTPUT:.*]] = mla.project %[[HEADS]], %[[O]]
// CHECK: return %[[OUTPUT]], %[[APPENDED]]

// CHECK-LABEL: func.func @decode
// CHECK-SAME: !mla.batch<query_len = 1>
// CHECK: mla.attention
// CHECK: return
