// A03, A35, A36: in a function with a decode threshold, decodes attend in the absorbed form
// and prefills in the expanded one, each over its part of the batch.
//
// RUN: mla-opt %s --mla-split-batch | FileCheck %s
// RUN: mla-opt %s --mla-split-batch=form=absorbed | FileCheck %s --check-prefix=FORCED
// RUN: mla-opt %s --mla-split-batch=most-latent=32 | FileCheck %s
// RUN: mla-opt %s --mla-split-batch=most-latent=31 | FileCheck %s --check-prefix=FORCED
// RUN: mla-opt %s --mla-split-batch='most-latent=31 most-decoded-latent=32' | FileCheck %s --check-prefix=DECODED

!cache = !mla.cache<page_size = 4, fields = [latent: 32, rope: 8], element = bf16, rope_order = interleaved>
!head_major = tensor<4x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>>

// FORCED-NOT: mla.batch_part
// FORCED-NOT: mla.decode_threshold

// CHECK-LABEL: func @one_token_A03
// CHECK-SAME: %[[QN:[a-z0-9]+]]: tensor<?x4x16xbf16>, %[[QP:[a-z0-9]+]]: tensor<?x4x8xbf16>, %[[C:[a-z0-9]+]]: tensor<?x32xbf16>, %[[KP:[a-z0-9]+]]: tensor<?x8xbf16>, %[[UK:[a-z0-9]+]]: tensor<4x16x32xbf16>, %[[UV:[a-z0-9]+]]: tensor<4x24x32xbf16>, %[[CACHE:[a-z0-9]+]]: !mla.cache{{.*}}, %[[BATCH:[a-z0-9]+]]: !mla.batch
// CHECK-SAME: attributes {mla.decode_threshold = 1 : i64}
// CHECK: %[[P:.*]] = mla.batch_part %[[BATCH]] prefills : <query_len = ?> -> <query_len = ?>
// CHECK: %[[PQN:.*]] = mla.part_rows %[[QN]] of %[[P]]
// CHECK: %[[PQP:.*]] = mla.part_rows %[[QP]] of %[[P]]
// CHECK: %[[PC:.*]] = mla.part_rows %[[C]] of %[[P]]
// CHECK: %[[PKP:.*]] = mla.part_rows %[[KP]] of %[[P]]
// CHECK: %[[PO:.*]] = mla.attention query(%[[PQN]], %[[PQP]] : {{.*}}) latent(%[[PC]], %[[PKP]] : {{.*}}) weights(%[[UK]], %[[UV]] : {{.*}}) over %[[CACHE]], %[[P]] {{.*}} {form = #mla.form<expanded>}
// CHECK: %[[D:.*]] = mla.batch_part %[[BATCH]] decodes : <query_len = ?> -> <query_len = 1>
// CHECK: %[[DQN:.*]] = mla.part_rows %[[QN]] of %[[D]]
// CHECK: %[[DQP:.*]] = mla.part_rows %[[QP]] of %[[D]]
// CHECK: %[[DC:.*]] = mla.part_rows %[[C]] of %[[D]]
// CHECK: %[[DKP:.*]] = mla.part_rows %[[KP]] of %[[D]]
// CHECK: %[[DO:.*]] = mla.attention query(%[[DQN]], %[[DQP]] : {{.*}}) latent(%[[DC]], %[[DKP]] : {{.*}}) weights(%[[UK]], %[[UV]] : {{.*}}) over %[[CACHE]], %[[D]] {{.*}} {form = #mla.form<absorbed>}
// CHECK: %[[O:.*]] = mla.join_parts %[[DO]], %[[PO]] : tensor<?x4x24xbf16>
// CHECK: return %[[O]]
func.func @one_token_A03(%qn: tensor<?x4x16xbf16>, %qp: tensor<?x4x8xbf16>, %c: tensor<?x32xbf16>, %kp: tensor<?x8xbf16>,
    %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %cache: !cache, %batch: !mla.batch) -> tensor<?x4x24xbf16>
    attributes {mla.decode_threshold = 1 : i64} {
  %0 = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x8xbf16>) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch
      scale 0.2 -> tensor<?x4x24xbf16>
  return %0 : tensor<?x4x24xbf16>
}

// Of latents that only decodes of one query attend to themselves.
// DECODED-LABEL: func @one_token_A03
// DECODED: mla.batch_part %{{.*}} decodes : <query_len = ?> -> <query_len = 1>
// DECODED-LABEL: func @speculative_A35
// DECODED-NOT: mla.batch_part

// Longer decodes have any length up to the threshold. LSEs are joined by tokens.
// CHECK-LABEL: func @speculative_A35
// CHECK: mla.batch_part %{{.*}} decodes : <query_len = ?> -> <query_len = ?>
// CHECK: %[[LSE:.*]] = mla.join_parts {{.*}} : tensor<?x4xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
// CHECK: %[[API:.*]] = mla.convert_lse %[[LSE]]
// CHECK: return %{{.*}}, %[[API]]
func.func @speculative_A35(%qn: tensor<?x4x16xbf16>, %qp: tensor<?x4x8xbf16>, %c: tensor<?x32xbf16>, %kp: tensor<?x8xbf16>,
    %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %cache: !cache, %batch: !mla.batch) -> (tensor<?x4x24xbf16>, !head_major)
    attributes {mla.decode_threshold = 4 : i64} {
  %0, %lse = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x8xbf16>) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch
      scale 0.2 -> tensor<?x4x24xbf16>, !head_major
  return %0, %lse : tensor<?x4x24xbf16>, !head_major
}

// DECODED-LABEL: func @form_is_given
// CHECK-LABEL: func @form_is_given
// CHECK-NOT: mla.decode_threshold
// CHECK-NOT: mla.batch_part
func.func @form_is_given(%qn: tensor<?x4x16xbf16>, %qp: tensor<?x4x8xbf16>, %c: tensor<?x32xbf16>, %kp: tensor<?x8xbf16>,
    %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %cache: !cache, %batch: !mla.batch) -> tensor<?x4x24xbf16>
    attributes {mla.decode_threshold = 1 : i64} {
  %0 = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x8xbf16>) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch
      scale 0.2 {form = #mla.form<absorbed>} -> tensor<?x4x24xbf16>
  return %0 : tensor<?x4x24xbf16>
}

// CHECK-LABEL: func @no_threshold
// CHECK-NOT: mla.batch_part
func.func @no_threshold(%qn: tensor<?x4x16xbf16>, %qp: tensor<?x4x8xbf16>, %c: tensor<?x32xbf16>, %kp: tensor<?x8xbf16>,
    %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %cache: !cache, %batch: !mla.batch) -> tensor<?x4x24xbf16> {
  %0 = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x8xbf16>) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch
      scale 0.2 -> tensor<?x4x24xbf16>
  return %0 : tensor<?x4x24xbf16>
}

// Batches of decodes alone, in the absorbed form: of latents that are too wide there is none.
// CHECK-LABEL: func @two_tokens_decodes
// DECODED-NOT: func @two_tokens_decodes
// DECODED-LABEL: func @one_token_decodes
func.func @two_tokens_decodes(%qn: tensor<?x4x16xbf16>, %qp: tensor<?x4x8xbf16>, %c: tensor<?x32xbf16>, %kp: tensor<?x8xbf16>,
    %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %cache: !cache, %batch: !mla.batch<query_len = 2>) -> tensor<?x4x24xbf16>
    attributes {mla.decodes_of = "step"} {
  %0 = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x8xbf16>) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch<query_len = 2>
      scale 0.2 {form = #mla.form<absorbed>} -> tensor<?x4x24xbf16>
  return %0 : tensor<?x4x24xbf16>
}

func.func @one_token_decodes(%qn: tensor<?x4x16xbf16>, %qp: tensor<?x4x8xbf16>, %c: tensor<?x32xbf16>, %kp: tensor<?x8xbf16>,
    %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %cache: !cache, %batch: !mla.batch<query_len = 1>) -> tensor<?x4x24xbf16>
    attributes {mla.decodes_of = "step"} {
  %0 = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x8xbf16>) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch<query_len = 1>
      scale 0.2 {form = #mla.form<absorbed>} -> tensor<?x4x24xbf16>
  return %0 : tensor<?x4x24xbf16>
}
