// DeepSeek-V4's three kinds of layers: pools, rotary tables, ranks.
//
// RUN: mla-opt %s --mla-import-config="config=%data/configs/deepseek_v4.json" | FileCheck %s --check-prefix=WINDOW
// RUN: mla-opt %s --mla-import-config="config=%data/configs/deepseek_v4.json layer=2 tp=2 decode-threshold=2" | FileCheck %s --check-prefix=SELECTED
// RUN: mla-opt %s --mla-import-config="config=%data/configs/deepseek_v4.json layer=2" | mla-opt --verify-roundtrip
// RUN: mla-opt %s --mla-import-config="config=%data/configs/deepseek_v4.json layer=4 indexer=shared" | FileCheck %s --check-prefix=GIVEN
// RUN: mla-opt %s --mla-import-config="config=%data/configs/deepseek_v4.json layer=3" | FileCheck %s --check-prefix=ALL
// RUN: mla-opt %s --mla-import-config="config=%data/configs/deepseek_v4.json layer=43" | FileCheck %s --check-prefix=WINDOW
// RUN: not mla-opt %s --mla-import-config="config=%data/configs/deepseek_v4.json cache-format=mla_fp8_tensor" 2>&1 | FileCheck %s --check-prefix=FORMAT
// RUN: not mla-opt %s --mla-import-config="config=%data/configs/deepseek_v4.json cache-format=fp8 dtype=f16" 2>&1 | FileCheck %s --check-prefix=ELEMENT
// RUN: mla-opt %s --mla-import-config="config=%data/configs/deepseek_v4.json layer=3 cache-format=fp8_ds_mla" | FileCheck %s --check-prefix=RECORD
// RUN: mla-opt %s --mla-import-config="config=%data/configs/deepseek_v4.json layer=2 cache-format=fp8" | mla-opt --verify-roundtrip

// WINDOW: module @deepseek_v4
// WINDOW-LABEL: func.func @prefill
// WINDOW-SAME: !mla.batch<query_len = ?>, %{{.*}}: !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved>, %{{.*}}: tensor<1024x4096xbf16> {mla.weight = "q_a_proj.weight"}
// WINDOW-SAME: tensor<64xf32> {mla.weight = "sinks"}
// WINDOW-NOT: mla.pool
// WINDOW: mla.rope_table <order = interleaved, dim = 64, theta = 1.000000e+04, length = 1048576>
// WINDOW-NOT: mla.compress
// WINDOW: %[[N:.*]], %[[KEYS:.*]] = mla.seen_keys %{{.*}} window 128
// WINDOW: mla.sparse_attention {{.*}} lengths(%[[N]] : tensor<?xi32>) sink(%{{.*}} : tensor<64xf32>) over {{.*}} scale 0.044194173824159216
// WINDOW: mla.rope {{.*}} offset 448 inverse
// WINDOW: mla.head_project %{{.*}}, %{{.*}} : tensor<?x8x4096xbf16>, tensor<8x1024x4096xbf16> -> tensor<?x8x1024xbf16>
// WINDOW-LABEL: func.func @decode

// Heads and groups are shared by ranks; whatever makes keys is whole on each.
// SELECTED-LABEL: func.func @prefill
// SELECTED-SAME: !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved, tokens_per_row = 4> {mla.pool = "entries"}
// SELECTED-SAME: !mla.cache<page_size = 4, fields = [key: 1024, value: 1024], element = f32, format = "kv_nhd", window = 8> {mla.pool = "states"}
// SELECTED-SAME: !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = interleaved, format = "index_k", scale_rule = power_of_two, tokens_per_row = 4> {mla.pool = "index"}
// SELECTED-SAME: !mla.cache<page_size = 4, fields = [key: 256, value: 256], element = f32, format = "kv_nhd", window = 8> {mla.pool = "index_states"}
// SELECTED-SAME: tensor<16384x1024xbf16> {mla.weight = "q_b_proj.weight"}
// SELECTED-SAME: tensor<512x4096xbf16> {mla.weight = "kv_proj.weight"}
// SELECTED-SAME: tensor<32xf32> {mla.weight = "sinks"}
// SELECTED-SAME: tensor<4096x4096xbf16> {mla.weight = "o_a_proj.weight"}, %{{.*}}: tensor<4096x4096xbf16> {mla.weight = "o_b_proj.weight"}
// SELECTED-SAME: tensor<4x1024xf32> {mla.weight = "compressor.position_bias"}
// SELECTED-SAME: tensor<8192x1024xbf16> {mla.weight = "compressor.indexer.q_b_proj.weight"}
// SELECTED: mla.rope_table <order = interleaved, dim = 64, theta = 1.600000e+05, length = 1048576, scaling = yarn, factor = 1.600000e+01
// SELECTED: mla.compress %{{.*}}, %{{.*}} every 4 overlap
// SELECTED: mla.rope {{.*}} offset 448 every 4
// SELECTED: %[[SCORES:.*]] = mla.index_scores
// SELECTED: %[[COUNT:.*]] = mla.seen_keys %{{.*}} every 4
// SELECTED: mla.top_k %[[SCORES]] lengths(%[[COUNT]] : tensor<?xi32>) over %{{.*}} k 512
// SELECTED: mla.sparse_attention {{.*}} beside(
// SELECTED-LABEL: func.func @step
// SELECTED-SAME: attributes {mla.decode_threshold = 2 : i64}

// GIVEN-LABEL: func.func @prefill
// GIVEN-SAME: tensor<?x512xi32> {mla.input = "selected"}
// GIVEN-NOT: mla.index_scores
// GIVEN: mla.sparse_attention {{.*}} beside(
// GIVEN-LABEL: func.func @decode

// ALL-LABEL: func.func @prefill
// ALL-SAME: !mla.cache<page_size = 2, fields = [latent: 512], element = bf16, rope_order = interleaved, tokens_per_row = 128> {mla.pool = "entries"}
// ALL-SAME: !mla.cache<page_size = 8, fields = [key: 512, value: 512], element = f32, format = "kv_nhd", window = 128> {mla.pool = "states"}
// ALL: mla.compress %{{.*}}, %{{.*}} every 128 :
// ALL: mla.seen_keys %{{.*}} every 128 : <query_len = ?> -> tensor<?xi32>, tensor<?x8192xi32>

// FORMAT: cache format 'mla_fp8_tensor' is not supported for deepseek_v4, expected model1_584 (fp8) or rows of the activations' type
// ELEMENT: cache format model1_584 does not take elements of 'f16'

// Keys and entries in records of 584 bytes; a query of whole rows.
// RECORD-LABEL: func.func @prefill
// RECORD-SAME: !mla.cache<page_size = 64, fields = [latent: 448, rope: 64], element = bf16, rope_order = interleaved, format = "model1_584", scale_rule = power_of_two>
// RECORD-SAME: !mla.cache<page_size = 2, fields = [latent: 448, rope: 64], element = bf16, rope_order = interleaved, format = "model1_584", scale_rule = power_of_two, tokens_per_row = 128> {mla.pool = "entries"}
// RECORD: mla.append %{{.*}}, %{{.*}} into
// RECORD: mla.sparse_attention query(%{{.*}} : tensor<?x64x512xbf16>) {{.*}} beside({{.*}} -> tensor<?x64x512xbf16>

module {}
