// On a GPU both latents of DeepSeek-V4's layers, and what its compressors take, are one product, and one
// kernel normalises both latents, each with its own weights.
//
// RUN: mla-compile %data/configs/deepseek_v4.json --layer=3 --target=sm_90a --functions=decode --emit=mla --quiet | FileCheck %s --check-prefix=MLA
// RUN: mla-compile %data/configs/deepseek_v4.json --layer=3 --target=sm_90a --functions=decode --emit=tile --quiet | FileCheck %s --check-prefix=TILE

// MLA-LABEL: func.func @decode
// MLA: %[[BOTH:.*]]:4 = mla.sum_parts {{.*}} -> tensor<?x1024xbf16>, tensor<?x512xbf16>, tensor<?x512xf32>, tensor<?x512xf32>
// MLA-NEXT: mla.latent_project {{.*}} tensor<1024x4096xbf16>, tensor<1024xbf16> -> tensor<?x1024xbf16>
// MLA-NEXT: mla.latent_project {{.*}} tensor<512x4096xbf16>, tensor<512xbf16> -> tensor<?x512xbf16>
// MLA-NEXT: mla.project
// MLA-NEXT: mla.project
// MLA: mla.project %[[BOTH]]#0
// MLA: mla.rope_append %[[BOTH]]#1
// MLA: mla.bias_append %[[BOTH]]#2, %[[BOTH]]#3

// TILE: tile.kernel @linear_2560x4096_rows_16
// TILE: tile.kernel @sum_rms_norm_1024_sum_rms_norm_512

module {}
