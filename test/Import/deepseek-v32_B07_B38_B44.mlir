// The sparse layer of DeepSeek-V3.2: its indexer's rows, scores and selection, which the attention
// takes. Covers B07 (K from the configuration), B38, B44.
//
// RUN: mla-opt %s --mla-import-config="config=%data/configs/deepseek_v32.json tp=8 decode-threshold=2" | FileCheck %s
// RUN: mla-opt %s --mla-import-config="config=%data/configs/deepseek_v32.json tp=8" | mla-opt --verify-roundtrip
// RUN: mla-opt %s --mla-import-config="config=%data/configs/deepseek_v32.json indexer=shared" | FileCheck %s --check-prefix=SHARED
// RUN: mla-opt %s --mla-import-config="config=%data/configs/deepseek_v32.json indexer=none" 2>&1 | FileCheck %s --check-prefix=DENSE
// RUN: mla-opt %s --mla-import-config="config=%data/configs/glm_5_2.json" | FileCheck %s --check-prefix=GIVES
// RUN: not mla-opt %s --mla-import-config="config=%data/configs/deepseek_v3.json indexer=shared" 2>&1 | FileCheck %s --check-prefix=NONE

// CHECK: module @deepseek_v32
// CHECK-LABEL: func.func @prefill
// CHECK-SAME: %[[HIDDEN:.*]]: tensor<?x7168xbf16> {mla.input = "hidden"}, %[[BATCH:.*]]: !mla.batch
// CHECK-SAME: %[[CACHE:.*]]: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64]
// CHECK-SAME: %[[INDEX:.*]]: !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k", scale_rule = power_of_two> {mla.pool = "index"}
// Every rank has the whole indexer: 64 heads, where 16 of 128 attend.
// CHECK-SAME: tensor<8192x1536xbf16> {mla.weight = "indexer.wq_b.weight"}
// CHECK-SAME: tensor<128xbf16> {mla.weight = "indexer.k_norm.bias"}
// CHECK: mla.rope_table <{{.*}} length = 163840
// CHECK: %[[QC:.*]] = mla.latent_project %[[HIDDEN]]
// CHECK: %[[APPENDED:.*]] = mla.append %{{.*}}, %{{.*}} into %[[CACHE]], %[[BATCH]]
// CHECK: %[[RAW:.*]] = mla.project %[[HIDDEN]], %{{.*}} -> tensor<?x128xbf16>
// CHECK: %[[NORM:.*]] = mla.layer_norm %[[RAW]]
// CHECK: %[[KEY:.*]] = mla.rope %[[NORM]], %{{.*}}, %[[BATCH]] with <order = half, {{.*}}> offset 0
// CHECK: %[[KEYS:.*]] = mla.append %[[KEY]] into %[[INDEX]], %[[BATCH]]
// CHECK: %[[UP:.*]] = tensor.expand_shape {{.*}} output_shape [64, 128, 1536]
// CHECK: %[[QUERY:.*]] = mla.project %[[QC]], %[[UP]] {{.*}} -> tensor<?x64x128xbf16>
// CHECK: %[[ROTATED:.*]] = mla.rope %[[QUERY]], %{{.*}}, %[[BATCH]] with <order = half, {{.*}}> offset 0
// CHECK: %[[CODES:.*]], %[[SCALES:.*]] = mla.quantize %[[ROTATED]] group 128 rule <power_of_two>
// CHECK: %[[HEADS:.*]] = mla.project %[[HIDDEN]], %{{.*}} -> tensor<?x64xbf16>
// CHECK: %[[WEIGHTS:.*]] = mla.index_weights %[[HEADS]], %[[SCALES]] factor 0.01104854
// CHECK: %[[SCORES:.*]] = mla.index_scores query(%[[CODES]] : {{.*}}) weights(%[[WEIGHTS]] : {{.*}}) over %[[KEYS]], %[[BATCH]]
// CHECK: %[[SELECTED:.*]] = mla.top_k %[[SCORES]] over %[[BATCH]] k 2048
// CHECK: %[[O:.*]] = mla.attention query({{.*}} : tensor<?x16x128xbf16>, {{.*}} over %[[APPENDED]], %[[BATCH]] {{.*}} selected(%[[SELECTED]] : tensor<?x2048xi32>) scale 0.1352337{{[0-9]*}} {form = #mla.form<absorbed>}
// CHECK: return %{{.*}}, %[[APPENDED]], %[[KEYS]]
// CHECK-LABEL: func.func @decode
// Decodes and prefills attend alike, so that a step needs no function for decodes alone.
// CHECK-LABEL: func.func @step
// CHECK-NOT: func.func @step_decodes

// SHARED-LABEL: func.func @prefill
// SHARED-SAME: %[[SELECTED:[a-z0-9]*]]: tensor<?x2048xi32> {mla.input = "selected"}
// SHARED-NOT: indexer
// SHARED: mla.attention {{.*}} selected(%[[SELECTED]] : tensor<?x2048xi32>)

// The rotary table ends at index_topk, so that longer sequences are refused.
// DENSE: warning: deepseek_v32: sparse attention is imported as dense, which is equal up to index_topk = 2048 tokens
// DENSE: mla.rope_table <order = interleaved, dim = 64, theta = 1.000000e+04, length = 2048, scaling = yarn
// DENSE-NOT: selected
// DENSE: mla.attention {{.*}} scale 0.1352337

// Three of four layers take the selection of the one before them.
// GIVES-LABEL: func.func @prefill
// GIVES-SAME: tensor<?x2048xi32> {mla.output = "selected"})
// GIVES: mla.rope {{.*}} with <order = interleaved, {{.*}}> offset 0
// GIVES: %[[SELECTED:.*]] = mla.top_k
// GIVES: return {{.*}}, %[[SELECTED]] :

// NONE: deepseek_v3.json:{{.*}}models of this type have no indexer: --indexer does not apply
