// A12: what absorption multiplies by becomes codes in the blocks of the checkpoint's. W_UK is turned, so
// that what is contracted lies in columns.
//
// RUN: mla-opt %s --mla-absorb-weights=requantize | FileCheck %s --check-prefixes=CHECK,ONLINE
// RUN: mla-opt %s --mla-absorb-weights="mode=offline requantize" | FileCheck %s --check-prefixes=CHECK,OFFLINE
// RUN: mla-opt %s --mla-absorb-weights=requantize --mla-quantize-activations | FileCheck %s --check-prefix=BOTH
// RUN: mla-opt %s --mla-absorb-weights="mode=offline requantize" --mla-quantize-activations --mla-quantize-activations | FileCheck %s --check-prefix=TWICE
// RUN: mla-opt %s --mla-absorb-weights=requantize --mla-hoist-prepare | FileCheck %s --check-prefix=PREPARE
// RUN: mla-opt %s --mla-absorb-weights="mode=offline requantize" --mla-hoist-prepare | FileCheck %s --check-prefix=FOLDED

!cache = !mla.cache<page_size = 4, fields = [latent: 256, rope: 8], element = bf16, rope_order = interleaved>

// CHECK-LABEL: func.func @decode
// CHECK-SAME: %[[QC:[a-z0-9]+]]: tensor<?x384xbf16>, %[[UQ:[a-z0-9]+]]: tensor<2x128x384xbf16>{{.*}}, %{{[a-z0-9]+}}: tensor<?x2x8xbf16>, %[[UK:[a-z0-9]+]]: tensor<2x128x256xbf16>{{.*}}, %[[UV:[a-z0-9]+]]: tensor<2x64x256xbf16>{{.*}}, %[[WO:[a-z0-9]+]]: tensor<192x128xbf16>
//
// ONLINE: %[[QN:.*]] = mla.project %[[QC]], %[[UQ]]
// ONLINE: %[[C:.*]], %[[S:.*]] = mla.requantize %[[UK]] block [128, 128] transposed : tensor<2x128x256xbf16> -> tensor<512x128xf8E4M3FN>, tensor<4x1xf32>
// ONLINE: %[[W:.*]] = mla.scaled_weight %[[C]], %[[S]] block [128, 128] : {{.*}} -> tensor<512x128xbf16>
// ONLINE: %[[H:.*]] = tensor.expand_shape %[[W]] {{.*}} into tensor<2x256x128xbf16>
// ONLINE: mla.head_project %[[QN]], %[[H]] : {{.*}} -> tensor<?x2x256xbf16>
// ONLINE: %[[OL:.*]] = mla.absorbed_attention
// ONLINE: %[[VC:.*]], %[[VS:.*]] = mla.requantize %[[UV]] block [128, 128] : tensor<2x64x256xbf16> -> tensor<128x256xf8E4M3FN>, tensor<1x2xf32>
// ONLINE: mla.scaled_weight %[[VC]], %[[VS]]
// ONLINE: %[[V:.*]] = tensor.expand_shape {{.*}} into tensor<2x64x256xbf16>
// ONLINE: %[[O:.*]] = mla.head_project %[[OL]], %[[V]] : {{.*}} -> tensor<?x2x64xbf16>
// ONLINE: mla.project %[[O]], %[[WO]]
//
// OFFLINE: %[[F:.*]] = mla.fold_query %[[UQ]], %[[UK]]
// OFFLINE: mla.requantize %[[F]] block [128, 128] : tensor<2x256x384xbf16> -> tensor<512x384xf8E4M3FN>, tensor<4x3xf32>
// OFFLINE: mla.project %[[QC]], %{{.*}} : {{.*}} -> tensor<?x2x256xbf16>
// OFFLINE: %[[G:.*]] = mla.fold_output
// OFFLINE: mla.requantize %[[G]] block [128, 128] : tensor<192x512xbf16> -> tensor<192x512xf8E4M3FN>, tensor<2x4xf32>
//
// BOTH-DAG: mla.coded_rows %{{.*}} group 128 : tensor<?x2x128xbf16>
// BOTH-DAG: mla.coded_rows %{{.*}} group 128 : tensor<?x2x256xbf16>
// Codes are quantised once.
// TWICE-COUNT-2: mla.coded_rows
// TWICE-NOT: mla.coded_rows
//
// PREPARE: func.func @prepare
// PREPARE-SAME: (tensor<512x128xf8E4M3FN> {mla.derived = "w_uk"}, tensor<4x1xf32> {mla.derived = "w_uk_scales"}, tensor<128x256xf8E4M3FN> {mla.derived = "w_uv"}, tensor<1x2xf32> {mla.derived = "w_uv_scales"})
// PREPARE-LABEL: func.func @decode
// PREPARE-NOT: mla.requantize
//
// FOLDED: {mla.derived = "w_q_uk"}, {{.*}} {mla.derived = "w_q_uk_scales"}, {{.*}} {mla.derived = "w_uv_o"}, {{.*}} {mla.derived = "w_uv_o_scales"}
module attributes {mla.weight_scales = array<i64: 128, 128>} {
  func.func @decode(%qc: tensor<?x384xbf16>, %uq: tensor<2x128x384xbf16> {mla.weight = "uq"}, %q_pe: tensor<?x2x8xbf16>,
                    %uk: tensor<2x128x256xbf16> {mla.weight = "uk"}, %uv: tensor<2x64x256xbf16> {mla.weight = "uv"},
                    %wo: tensor<192x128xbf16> {mla.weight = "wo"}, %c: tensor<?x256xbf16>, %k_pe: tensor<?x8xbf16>,
                    %cache: !cache, %batch: !mla.batch<query_len = 1>) -> tensor<?x192xbf16> {
    %q_nope = mla.project %qc, %uq : tensor<?x384xbf16>, tensor<2x128x384xbf16> -> tensor<?x2x128xbf16>
    %out = mla.attention query(%q_nope, %q_pe : tensor<?x2x128xbf16>, tensor<?x2x8xbf16>) latent(%c, %k_pe : tensor<?x256xbf16>, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<2x128x256xbf16>, tensor<2x64x256xbf16>) over %cache, %batch : !cache, !mla.batch<query_len = 1>
      scale 0.1 {form = #mla.form<absorbed>} -> tensor<?x2x64xbf16>
    %y = mla.project %out, %wo : tensor<?x2x64xbf16>, tensor<192x128xbf16> -> tensor<?x192xbf16>
    return %y : tensor<?x192xbf16>
  }
}
