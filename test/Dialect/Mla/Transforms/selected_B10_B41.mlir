// B10, B41: attention to selected keys is absorbed whatever else is asked for, is not split into
// decodes and prefills, and reads rows of the cache that the selected positions lie at.
//
// RUN: mla-opt %s --mla-split-batch --mla-choose-form=form=expanded | FileCheck %s --check-prefix=FORM
// RUN: mla-opt %s --mla-choose-form --mla-share-prefix=mode=always --mla-absorb-weights=mode=offline | FileCheck %s

!cache = !mla.cache<page_size = 4, fields = [latent: 32, rope: 8], element = bf16, rope_order = interleaved>
!by_head = tensor<4x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>>

// FORM-LABEL: func @step
// FORM-NOT: mla.decode_threshold
// FORM-NOT: mla.batch_part
// FORM: mla.attention {{.*}} selected({{.*}} {form = #mla.form<absorbed>}

// CHECK-LABEL: func @step
// CHECK-SAME: %[[CACHE:[a-z0-9]+]]: !mla.cache{{.*}}, %[[BATCH:[a-z0-9]+]]: !mla.batch{{.*}}, %[[SELECTED:[a-z0-9]+]]: tensor<?x24xi32>
// CHECK-NOT: mla.share_prefix
// CHECK: mla.fold_query
// CHECK: %[[QL:.*]] = mla.project
// CHECK: %[[ROWS:.*]] = mla.convert_indices %[[SELECTED]] in %[[CACHE]], %[[BATCH]]
// CHECK: %[[OL:.*]], %[[LSE:.*]] = mla.sparse_attention query(%[[QL]], %{{.*}}) rows(%[[ROWS]] : tensor<?x24xi32>) over %[[CACHE]], %[[BATCH]] {{.*}} scale 2.000000e-01 -> tensor<?x4x32xbf16> lse
// CHECK: %[[BY_HEAD:.*]] = mla.convert_lse %[[LSE]]
// CHECK: mla.fold_output
// CHECK: %[[Y:.*]] = mla.project %[[OL]]
// CHECK: return %[[Y]], %[[BY_HEAD]]
func.func @step(%qc: tensor<?x48xbf16>, %uq: tensor<4x16x48xbf16>, %qp: tensor<?x4x8xbf16>, %c: tensor<?x32xbf16>, %kp: tensor<?x8xbf16>,
    %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %wo: tensor<64x96xbf16>, %cache: !cache, %batch: !mla.batch,
    %selected: tensor<?x24xi32>) -> (tensor<?x64xbf16>, !by_head) attributes {mla.decode_threshold = 1 : i64} {
  %qn = mla.project %qc, %uq : tensor<?x48xbf16>, tensor<4x16x48xbf16> -> tensor<?x4x16xbf16>
  %o, %lse = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x8xbf16>) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch
      selected(%selected : tensor<?x24xi32>) scale 0.2 -> tensor<?x4x24xbf16>, !by_head
  %y = mla.project %o, %wo : tensor<?x4x24xbf16>, tensor<64x96xbf16> -> tensor<?x64xbf16>
  return %y, %lse : tensor<?x64xbf16>, !by_head
}
