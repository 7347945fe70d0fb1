// RUN: mla-opt %s --mla-import-config="config=%data/configs/deepseek_v32.json" 2>&1 | FileCheck %s

// Dense attention equals the sparse model's up to index_topk tokens: the rotary
// table ends there, so that longer sequences are refused.
// CHECK: warning: deepseek_v32: sparse attention is imported as dense, which is equal up to index_topk = 2048 tokens
// CHECK: module @deepseek_v32
// CHECK: mla.rope_table <order = interleaved, dim = 64, theta = 1.000000e+04, length = 2048, scaling = yarn
// CHECK: mla.attention {{.*}} scale 0.1352337
