// From a configuration to phase 4, for DeepSeek-V3 (q-lora, head dims 128/64/128):
//   1. mla-import-config    @prefill and @decode, form auto
//   2. mla-choose-form      decode absorbed, prefill both on a condition
//   3. mla-absorb-weights   W_UQ·W_UK and W_UV·W_O folded
//   4. mla-hoist-prepare    the folded weights come from @prepare, shared by both steps
//   5. mla-chunk-context    expanded branch: new tokens, then chunks of context
//   6. mla-fuse-merge       each attention goes on from what came before it
//   7. mla-split-kv         absorbed branches: splits
//   8. mla-join-projections keys and values of a chunk, and of the new tokens, by one product
//   9. mla-fuse-append      norm, rotation and write of the new rows at once
//  10. mla-sum-parts        both down-projections as one product, in parts of its depth
// W_QR stays a projection of its own (A09), raw weights stay for prefill (A10).
//
// RUN: mla-opt %s --mla-import-config="config=%data/configs/deepseek_v3.json" \
// RUN:   --mla-choose-form --mla-absorb-weights=mode=offline --mla-hoist-prepare \
// RUN:   --mla-chunk-context --mla-fuse-merge --mla-split-kv --canonicalize --cse \
// RUN:   --mla-join-projections --mla-fuse-append=target=sm90 --mla-sum-parts=target=sm90 | FileCheck %s --implicit-check-not="mla.attention "

// CHECK-LABEL: func.func @prepare
// CHECK-SAME: -> (tensor<128x512x1536xbf16> {mla.derived = "w_q_uk"}, tensor<7168x65536xbf16> {mla.derived = "w_uv_o"})
// CHECK: mla.fold_query
// CHECK: mla.fold_output
// CHECK-NOT: mla.fold

// CHECK-LABEL: func.func @prefill
// CHECK-SAME: {mla.weight = "kv_b_proj.weight"}
// CHECK-SAME: %[[WQ:[a-z0-9]+]]: tensor<128x512x1536xbf16> {mla.derived = "w_q_uk"}, %[[WO:[a-z0-9]+]]: tensor<7168x65536xbf16> {mla.derived = "w_uv_o"}
// CHECK: mla.sum_parts 4
// CHECK-NEXT: mla.latent_project
// CHECK-NEXT: mla.latent_append {{.*}} kept
// CHECK-NEXT: mla.yield
// CHECK: scf.if %{{.*}} -> (tensor<?x7168xbf16>)
// CHECK: mla.project {{.*}} -> tensor<?x128x256xbf16>
// CHECK: scf.if %{{.*}} -> (tensor<?x128x128xbf16>)
// CHECK: scf.for
// CHECK: mla.gather
// CHECK: mla.project {{.*}} -> tensor<?x128x256xbf16>
// CHECK: mla.expanded_attention {{.*}} chunk %{{.*}} onto
// CHECK-NOT: mla.merge
// CHECK: mla.expanded_attention {{.*}} onto
// CHECK: else
// CHECK: mla.expanded_attention
// CHECK: else
// CHECK: mla.project %{{.*}}, %[[WQ]]
// CHECK: scf.if
// CHECK: mla.absorbed_attention {{.*}} splits
// CHECK: mla.merge_splits
// CHECK: else
// CHECK: mla.absorbed_attention {{.*}} {mla.unsplit}
// CHECK: mla.project %{{.*}}, %[[WO]]

// CHECK-LABEL: func.func @decode
// CHECK-SAME: {mla.derived = "w_q_uk"}
// CHECK: mla.sum_parts 4
// CHECK-NEXT: mla.latent_project
// CHECK-NEXT: mla.latent_append
// CHECK-NEXT: mla.yield
// CHECK: mla.project {{.*}} tensor<128x64x1536xbf16> -> tensor<?x128x64xbf16>
// CHECK-NOT: mla.expanded_attention
// CHECK-NOT: scf.for
// CHECK: mla.absorbed_attention {{.*}} splits
// CHECK: mla.absorbed_attention {{.*}} {mla.unsplit}
