// RUN: mla-opt %s --mla-import-config="config=%data/configs/kimi_k2_instruct.json" | FileCheck %s --check-prefix=K2
// RUN: mla-opt %s --mla-import-config="config=%data/configs/kimi_k2_0905.json" | FileCheck %s --check-prefix=K0905

// K2: module @kimi_k2
// K2: theta = 5.000000e+04, length = 131072, scaling = yarn, factor = 3.200000e+01, beta_fast = 1.000000e+00
// K2: mla.attention {{.*}} scale 0.1308607
// K2-SAME: tensor<?x64x128xbf16>

// K0905: length = 262144, scaling = yarn, factor = 6.400000e+01
// K0905: mla.attention {{.*}} scale 0.1446796
