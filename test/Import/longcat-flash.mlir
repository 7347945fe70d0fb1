// RUN: mla-opt %s --mla-import-config="config=%data/configs/longcat_flash.json" | FileCheck %s

// The query's factor enters with its latent: projections are linear.
// CHECK: module @longcat_flash
// CHECK: mla.rope_table <order = interleaved, dim = 64, theta = 1.000000e+07, length = 131072> :
// CHECK: mla.latent_project {{.*}} {multiplier = 2.000000e+00 : f64}
// CHECK: mla.latent_project {{.*}} {multiplier = 3.464101615{{[0-9]*}} : f64}
// CHECK: mla.attention {{.*}} scale 0.072168
