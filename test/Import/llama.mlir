// RUN: mla-opt %s --mla-import-config="config=%S/Graph/Inputs/grouped.json dtype=f32 page-size=16" | FileCheck %s
// RUN: sed -e 's/llama/gpt_oss/' -e 's/"attention_bias": false/"attention_bias": true/' %S/Graph/Inputs/grouped.json > %t.json
// RUN: mla-opt %s --mla-import-config="config=%t.json dtype=bf16 decode-threshold=4" | FileCheck %s --check-prefix=OSS
// RUN: sed -e 's/llama/qwen3/' %S/Graph/Inputs/grouped.json > %t.qwen.json
// RUN: mla-opt %s --mla-import-config="config=%t.qwen.json tp=2" | FileCheck %s --check-prefix=QWEN
// RUN: not mla-opt %s --mla-import-config="config=%t.qwen.json page-size=0" 2>&1 | FileCheck %s --check-prefix=PAGE
// RUN: sed -e 's/"head_dim": 8/"head_dim": 2/' %S/Graph/Inputs/grouped.json > %t.narrow.json
// RUN: not mla-opt %s --mla-import-config="config=%t.narrow.json" 2>&1 | FileCheck %s --check-prefix=NARROW

// Keys and values of each KV head lie beside each other in a page.
// CHECK: module @llama
// CHECK: func.func @prefill(%[[X:.*]]: tensor<?x32xf32> {mla.input = "hidden"}, %[[BATCH:.*]]: !mla.batch<query_len = ?>,
// CHECK-SAME: %[[CACHE:.*]]: !mla.cache<page_size = 16, fields = [key: 2x8, value: 2x8], element = f32, format = "kv_nhd">,
// CHECK-SAME: tensor<32x32xf32> {mla.weight = "q_proj.weight"}
// CHECK-SAME: tensor<16x32xf32> {mla.weight = "v_proj.weight"}
// CHECK: %[[TABLE:.*]] = mla.rope_table <order = half, dim = 8, theta = 1.000000e+04, length = 64>
// CHECK: %[[Q:.*]] = mla.project %[[X]], {{.*}} -> tensor<?x4x8xf32>
// CHECK: %[[QR:.*]] = mla.rope %[[Q]], %[[TABLE]], %[[BATCH]] with
// CHECK: %[[K:.*]] = mla.project %[[X]], {{.*}} -> tensor<?x2x8xf32>
// CHECK: %[[KR:.*]] = mla.rope %[[K]], %[[TABLE]], %[[BATCH]] with
// CHECK: %[[V:.*]] = mla.project %[[X]], {{.*}} -> tensor<?x2x8xf32>
// CHECK: %[[NEW:.*]] = mla.append %[[KR]], %[[V]] into %[[CACHE]], %[[BATCH]]
// CHECK: %[[O:.*]] = mla.grouped_attention query(%[[QR]] : {{.*}}) keys(%[[NEW]] : {{.*}}) values(%[[NEW]] : {{.*}}) over %[[BATCH]] : <query_len = ?> scale 0.35355339059327373
// CHECK: mla.project %[[O]], {{.*}} -> tensor<?x32xf32>
// CHECK: func.func @decode
// CHECK-SAME: !mla.batch<query_len = 1>

// Every second layer has the window, all have sinks, which are f32.
// OSS: func.func @prefill({{.*}} tensor<4xf32> {mla.weight = "sinks"}
// OSS: mla.project {{.*}} bias(
// OSS: mla.grouped_attention {{.*}} sink(%{{.*}} : tensor<4xf32>) window 5 scale
// OSS: func.func @step
// OSS-SAME: mla.decode_threshold = 4

// A rank's share of heads; norms before rope.
// QWEN: fields = [key: 8, value: 8]
// QWEN: %[[Q:.*]] = mla.project {{.*}} -> tensor<?x2x8xbf16>
// QWEN: %[[N:.*]] = mla.rms_norm %[[Q]], {{.*}} eps
// QWEN: mla.rope %[[N]]

// PAGE: page size 0, expected 1 to 65536
// NARROW: error: {{.*}}16 bytes
