// RUN: mla-opt %s --mla-import-config="config=%data/configs/minicpm3_4b.json dtype=f32 page-size=16" | FileCheck %s

// Half-split rope with longrope factors; 40 heads; v_head_dim derived.
// CHECK: module @minicpm3
// CHECK: !mla.cache<page_size = 16, fields = [latent: 256, rope: 32], element = f32, rope_order = half>
// CHECK: mla.rope_table <order = half, dim = 32, theta = 1.000000e+04, length = 32768, scaling = longrope, original_max_position = 32768, short_factors = [1.000436
// CHECK: mla.attention {{.*}} scale 0.1020620
// CHECK-SAME: tensor<?x40x64xf32>
