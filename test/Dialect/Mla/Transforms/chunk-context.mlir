// A24, A25, A33: causal attention over new tokens, with an LSE only when there is
// context; context in chunks, unmasked, merged chunk by chunk and then with the
// new tokens' part.
//
// RUN: mla-opt %s --mla-chunk-context | FileCheck %s

!cache = !mla.cache<page_size = 4, fields = [latent: 32, rope: 8], element = bf16, rope_order = interleaved>

// CHECK-LABEL: func @with_context_A24_A25_A33
// CHECK-SAME: %[[QN:[a-z0-9]+]]: tensor<?x4x16xbf16>, %[[QP:[a-z0-9]+]]: tensor<?x4x8xbf16>, %[[C:[a-z0-9]+]]: tensor<?x32xbf16>, %[[KP:[a-z0-9]+]]: tensor<?x8xbf16>, %[[UK:[a-z0-9]+]]: tensor<4x16x32xbf16>, %[[UV:[a-z0-9]+]]: tensor<4x24x32xbf16>, %[[CACHE:[a-z0-9]+]]: !mla.cache{{.*}}, %[[BATCH:[a-z0-9]+]]: !mla.batch
// CHECK: %[[K:.*]] = mla.project %[[C]], %[[UK]] : {{.*}} -> tensor<?x4x16xbf16>
// CHECK: %[[V:.*]] = mla.project %[[C]], %[[UV]] : {{.*}} -> tensor<?x4x24xbf16>
// CHECK: %[[CHUNKS:.*]] = mla.batch_dim %[[BATCH]] "num_chunks"
// CHECK: %[[C0:.*]] = arith.constant 0
// CHECK: %[[ANY:.*]] = arith.cmpi sgt, %[[CHUNKS]], %[[C0]]
// CHECK: %[[OUT:.*]] = scf.if %[[ANY]] -> (tensor<?x4x24xbf16>)
// CHECK:   %[[NEW:.*]], %[[NEW_LSE:.*]] = mla.expanded_attention query(%[[QN]], %[[QP]] : {{.*}}) keys(%[[K]], %[[KP]] : {{.*}}) values(%[[V]] : {{.*}}) over %[[BATCH]]
// CHECK-NOT: chunk
// CHECK-SAME: -> tensor<?x4x24xf32>, tensor<?x4xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
// CHECK:   %[[NONE:.*]], %[[NONE_LSE:.*]] = mla.empty_partial %[[BATCH]]
// CHECK:   %[[CTX:.*]]:2 = scf.for %[[I:.*]] = %{{.*}} to %[[CHUNKS]] step %{{.*}} iter_args(%[[ACC:.*]] = %[[NONE]], %[[ACC_LSE:.*]] = %[[NONE_LSE]])
// CHECK:     %[[ROWS:.*]]:2 = mla.gather %[[CACHE]], %[[BATCH]] chunk %[[I]] : {{.*}} -> tensor<?x32xbf16>, tensor<?x8xbf16>
// CHECK:     %[[KI:.*]] = mla.project %[[ROWS]]#0, %[[UK]]
// CHECK:     %[[VI:.*]] = mla.project %[[ROWS]]#0, %[[UV]]
// CHECK:     %[[OI:.*]], %[[LI:.*]] = mla.expanded_attention query(%[[QN]], %[[QP]] : {{.*}}) keys(%[[KI]], %[[ROWS]]#1 : {{.*}}) values(%[[VI]] : {{.*}}) over %[[BATCH]] {{.*}} chunk %[[I]] scale 2.000000e-01
// CHECK:     %[[O:.*]], %[[L:.*]] = mla.merge %[[ACC]], %[[ACC_LSE]] with %[[OI]], %[[LI]]
// CHECK:     scf.yield %[[O]], %[[L]]
// CHECK:   %[[ALL:.*]] = mla.merge %[[CTX]]#0, %[[CTX]]#1 with %[[NEW]], %[[NEW_LSE]] : {{.*}} -> tensor<?x4x24xbf16>{{$}}
// CHECK:   scf.yield %[[ALL]]
// CHECK: } else {
// CHECK:   %[[ALONE:.*]] = mla.expanded_attention {{.*}} keys(%[[K]], %[[KP]] : {{.*}} -> tensor<?x4x24xbf16>{{$}}
// CHECK:   scf.yield %[[ALONE]]
// CHECK: return %[[OUT]]
func.func @with_context_A24_A25_A33(%qn: tensor<?x4x16xbf16>, %qp: tensor<?x4x8xbf16>, %c: tensor<?x32xbf16>, %kp: tensor<?x8xbf16>,
    %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %cache: !cache, %batch: !mla.batch<query_len = ?>) -> tensor<?x4x24xbf16> {
  %0 = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x8xbf16>) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch<query_len = ?>
      scale 0.2 {form = #mla.form<expanded>} -> tensor<?x4x24xbf16>
  return %0 : tensor<?x4x24xbf16>
}

// Nothing cached: no loop, no LSE, no branch.
// CHECK-LABEL: func @no_context
// CHECK-NOT: scf
// CHECK-NOT: mla.gather
// CHECK-NOT: mla.merge
// CHECK: mla.expanded_attention
// CHECK-SAME: -> tensor<?x4x24xbf16>{{$}}
// CHECK-NOT: mla.expanded_attention
// CHECK: return
func.func @no_context(%qn: tensor<?x4x16xbf16>, %qp: tensor<?x4x8xbf16>, %c: tensor<?x32xbf16>, %kp: tensor<?x8xbf16>,
    %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %cache: !cache, %batch: !mla.batch<context_len = 0>) -> tensor<?x4x24xbf16> {
  %0 = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x8xbf16>) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch<context_len = 0>
      scale 0.2 {form = #mla.form<expanded>} -> tensor<?x4x24xbf16>
  return %0 : tensor<?x4x24xbf16>
}

// Context for certain: no branch.
// CHECK-LABEL: func @static_context
// CHECK-NOT: scf.if
// CHECK: scf.for
// CHECK: mla.merge
// CHECK: mla.merge
func.func @static_context(%qn: tensor<?x4x16xbf16>, %qp: tensor<?x4x8xbf16>, %c: tensor<?x32xbf16>, %kp: tensor<?x8xbf16>,
    %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %cache: !cache, %batch: !mla.batch<context_len = 9>) -> tensor<?x4x24xbf16> {
  %0 = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x8xbf16>) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch<context_len = 9>
      scale 0.2 {form = #mla.form<expanded>} -> tensor<?x4x24xbf16>
  return %0 : tensor<?x4x24xbf16>
}

// R = 0: no rope parts anywhere. The LSE that is asked for is head-major.
!norope = !mla.cache<page_size = 4, fields = [latent: 32], element = bf16, rope_order = interleaved>
// CHECK-LABEL: func @no_rope_with_lse
// CHECK: mla.expanded_attention query(%{{[^,]*}} : tensor<?x4x16xbf16>) keys(%{{[^,]*}} : tensor<?x4x16xbf16>)
// CHECK: %{{[^,:]*}} = mla.gather
// CHECK: %[[O:.*]], %[[L:.*]] = mla.merge {{.*}} -> tensor<?x4x24xbf16>, tensor<?x4xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
// CHECK: %[[H:.*]] = mla.convert_lse %[[L]] : {{.*}} -> tensor<4x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>>
// CHECK: scf.yield %[[O]], %[[H]]
// CHECK: else
// CHECK: mla.expanded_attention
// CHECK-SAME: -> tensor<?x4x24xbf16>, tensor<4x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>>
func.func @no_rope_with_lse(%qn: tensor<?x4x16xbf16>, %c: tensor<?x32xbf16>, %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>,
    %cache: !norope, %batch: !mla.batch<query_len = ?>)
    -> (tensor<?x4x24xbf16>, tensor<4x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>>) {
  %0, %1 = mla.attention query(%qn : tensor<?x4x16xbf16>) latent(%c : tensor<?x32xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !norope, !mla.batch<query_len = ?>
      scale 0.25 {form = #mla.form<expanded>} -> tensor<?x4x24xbf16>, tensor<4x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>>
  return %0, %1 : tensor<?x4x24xbf16>, tensor<4x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>>
}

// The absorbed form reads the cache as it is: not this pass's business.
// CHECK-LABEL: func @absorbed
// CHECK-NOT: mla.expanded_attention
// CHECK: mla.attention
// CHECK-SAME: form = #mla.form<absorbed>
func.func @absorbed(%qn: tensor<?x4x16xbf16>, %qp: tensor<?x4x8xbf16>, %c: tensor<?x32xbf16>, %kp: tensor<?x8xbf16>,
    %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %cache: !cache, %batch: !mla.batch<query_len = ?>) -> tensor<?x4x24xbf16> {
  %0 = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x8xbf16>) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch<query_len = ?>
      scale 0.2 {form = #mla.form<absorbed>} -> tensor<?x4x24xbf16>
  return %0 : tensor<?x4x24xbf16>
}

// B06: selected keys through a mask over all: those of a chunk, and of the new tokens. The function still does
// without chunks where there are none, which others do not.
// CHECK-LABEL: func @selected_B06
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<?x24xi32>
// CHECK-SAME: attributes {mla.optional_chunks}
// CHECK: scf.if
// CHECK:   %[[NEW:.*]] = mla.mark_selected %[[S]] over %[[BATCH:.*]] : tensor<?x24xi32>
// CHECK:   mla.expanded_attention {{.*}} over %[[BATCH]] : <query_len = ?> marks(%[[NEW]] : tensor<?x?xi32>)
// CHECK:   scf.for %[[I:[a-z0-9]+]] =
// CHECK:     mla.gather %{{.*}}, %[[BATCH]] chunk %[[I]]
// CHECK:     %[[OLD:.*]] = mla.mark_selected %[[S]] over %[[BATCH]] chunk %[[I]] : tensor<?x24xi32>
// CHECK:     mla.expanded_attention {{.*}} over %[[BATCH]] : <query_len = ?> chunk %[[I]] marks(%[[OLD]] : tensor<?x?xi32>)
// CHECK: } else {
// CHECK:   %[[ALL:.*]] = mla.mark_selected %[[S]] over %[[BATCH]] : tensor<?x24xi32>
// CHECK:   mla.expanded_attention {{.*}} over %[[BATCH]] : <query_len = ?> marks(%[[ALL]] : tensor<?x?xi32>)
func.func @selected_B06(%s: tensor<?x24xi32>, %qn: tensor<?x4x16xbf16>, %qp: tensor<?x4x8xbf16>, %c: tensor<?x32xbf16>, %kp: tensor<?x8xbf16>,
    %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %cache: !cache, %batch: !mla.batch) -> tensor<?x4x24xbf16>
    attributes {mla.optional_chunks} {
  %0 = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x8xbf16>) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch
      selected(%s : tensor<?x24xi32>) scale 0.2 {form = #mla.form<expanded>} -> tensor<?x4x24xbf16>
  return %0 : tensor<?x4x24xbf16>
}

// CHECK-LABEL: func @needs_chunks
// CHECK-NOT: mla.optional_chunks
// CHECK: return
func.func @needs_chunks(%qn: tensor<?x4x16xbf16>, %qp: tensor<?x4x8xbf16>, %c: tensor<?x32xbf16>, %kp: tensor<?x8xbf16>,
    %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %cache: !cache, %batch: !mla.batch) -> tensor<?x4x24xbf16>
    attributes {mla.optional_chunks} {
  %0 = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x8xbf16>) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch
      scale 0.2 {form = #mla.form<expanded>} -> tensor<?x4x24xbf16>
  return %0 : tensor<?x4x24xbf16>
}
