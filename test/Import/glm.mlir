// RUN: mla-opt %s --mla-import-config="config=%data/configs/glm_4_7_flash.json tp=4" | FileCheck %s --check-prefix=FLASH
// RUN: mla-opt %s --mla-import-config="config=%data/configs/glm_5_2.json norm-eps-from-config=true" 2>&1 | FileCheck %s --check-prefix=GLM5
// RUN: mla-opt %s --mla-import-config="config=%data/configs/glm_5_3_flash.json form=absorbed" | FileCheck %s --check-prefix=NOROPE

// FLASH: module @glm4_moe_lite
// FLASH: mla.rope_table <order = interleaved, dim = 64, theta = 1.000000e+06, length = 202752> :
// FLASH: mla.latent_project {{.*}} eps 9.9{{.*}}E-7
// FLASH: mla.attention {{.*}} scale 6.250000e-02
// FLASH-SAME: tensor<?x5x256xbf16>

// GLM5: module @glm_moe_dsa
// GLM5: mla.rope_table <order = interleaved, dim = 64, theta = 8.000000e+06, length = 1048576> :
// GLM5: mla.latent_project {{.*}} eps {{1.000000e-05|1.0.*E-5}}
// GLM5: mla.attention {{.*}} scale 6.250000e-02

// R = 0: no rotary part anywhere.
// NOROPE-LABEL: func.func @decode
// NOROPE-SAME: fields = [latent: {{[0-9]*}}]
// NOROPE-NOT: mla.rope
// NOROPE: mla.append %{{[a-z_0-9]*}} into
// NOROPE-NOT: tensor.extract_slice {{.*}}1536
// NOROPE: mla.attention query(%{{[a-z_0-9]*}} : tensor<?x20x256xbf16>) latent(%{{[a-z_0-9]*}} : tensor<?x512xbf16>)
// NOROPE-SAME: scale 6.250000e-02 {form = #mla.form<absorbed>}
