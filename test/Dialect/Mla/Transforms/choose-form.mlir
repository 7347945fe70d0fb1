// A03, C04: the form is chosen by the class of the batch, by cost at run time
// where the batch type leaves lengths open, and can be forced.
//
// RUN: mla-opt %s --mla-choose-form | FileCheck %s
// RUN: mla-opt %s --mla-choose-form=form=expanded | FileCheck %s --check-prefix=EXPANDED
// RUN: mla-opt %s --mla-choose-form=form=absorbed | FileCheck %s --check-prefix=ABSORBED
// RUN: mla-opt %s --mla-choose-form=expand-from=40 | FileCheck %s --check-prefix=FROM
// RUN: mla-opt %s --mla-choose-form=expand-from=1 | FileCheck %s --check-prefix=ALWAYS
// RUN: mla-opt %s --mla-choose-form=most-latent=32 | FileCheck %s
// RUN: mla-opt %s --mla-choose-form=most-latent=31 | FileCheck %s --check-prefix=WIDE
// RUN: mla-opt %s --mla-choose-form='most-latent=31 most-decoded-latent=32' | FileCheck %s --check-prefix=DECODED
// RUN: mla-opt %s --mla-choose-form='most-latent=30 most-decoded-latent=31' | FileCheck %s --check-prefix=WIDE
// RUN: not mla-opt %s --mla-choose-form=expand-from=-1 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not mla-opt %s --mla-choose-form=most-latent=-2 2>&1 | FileCheck %s --check-prefix=LATENT
// LATENT: mla-choose-form: expected most-latent >= 0, got -2
// RUN: not mla-opt %s --mla-choose-form=form=folded 2>&1 | FileCheck %s --check-prefix=INVALID

// Latents of 32 columns are wider than sums may be, whatever the cost.
// WIDE-LABEL: func @decode_A03
// WIDE: form = #mla.form<expanded>
// WIDE-LABEL: func @prefill_A03_C04
// WIDE-NOT: scf.if
// WIDE: form = #mla.form<expanded>

// But where requests have one query, if the target says so.
// DECODED-LABEL: func @decode_A03
// DECODED: form = #mla.form<absorbed>
// DECODED-LABEL: func @prefill_A03_C04
// DECODED-NOT: scf.if
// DECODED: form = #mla.form<expanded>

// INVALID: folded
// NEGATIVE: mla-choose-form: expected expand-from >= 0, got -1

// C22: the longest query decides alone, now where it is known.
// FROM-LABEL: func @decode_A03
// FROM: form = #mla.form<absorbed>
// ALWAYS-LABEL: func @decode_A03
// ALWAYS: form = #mla.form<expanded>
// FROM-LABEL: func @prefill_A03_C04
// FROM-NOT: total_context_len
// FROM: %[[LONGEST:.*]] = mla.batch_dim %{{.*}} "max_query_len"
// FROM: %[[LEAST:.*]] = arith.constant 40 : index
// FROM: %[[TAKES:.*]] = arith.cmpi sge, %[[LONGEST]], %[[LEAST]]
// FROM: scf.if %[[TAKES]]
// FROM: form = #mla.form<expanded>
// FROM: } else {
// FROM: form = #mla.form<absorbed>
// FROM: mla.crossover_query_len = 4.000000e+01

// N = 4, Lkv = 32, P = V = 16: Lkv(P+V) = 1024, 2Lkv-P-V = 32, Sq* = 32.
!cache = !mla.cache<page_size = 4, fields = [latent: 32, rope: 8], element = f32, rope_order = interleaved>

// CHECK-LABEL: func @decode_A03
// CHECK-NOT: scf.if
// CHECK: mla.attention
// CHECK-SAME: form = #mla.form<absorbed>
// EXPANDED-LABEL: func @decode_A03
// EXPANDED: mla.attention
// EXPANDED-SAME: form = #mla.form<expanded>
// ABSORBED-LABEL: func @decode_A03
// ABSORBED: form = #mla.form<absorbed>
func.func @decode_A03(%qn: tensor<?x4x16xf32>, %qp: tensor<?x4x8xf32>, %c: tensor<?x32xf32>, %kp: tensor<?x8xf32>,
    %uk: tensor<4x16x32xf32>, %uv: tensor<4x16x32xf32>, %cache: !cache, %batch: !mla.batch<query_len = 1>) -> tensor<?x4x16xf32> {
  %0 = mla.attention query(%qn, %qp : tensor<?x4x16xf32>, tensor<?x4x8xf32>) latent(%c, %kp : tensor<?x32xf32>, tensor<?x8xf32>)
      weights(%uk, %uv : tensor<4x16x32xf32>, tensor<4x16x32xf32>) over %cache, %batch : !cache, !mla.batch<query_len = 1>
      scale 0.2 -> tensor<?x4x16xf32>
  return %0 : tensor<?x4x16xf32>
}

// CHECK-LABEL: func @no_context
// CHECK-NOT: scf.if
// CHECK: mla.attention
// CHECK-SAME: form = #mla.form<expanded>
// EXPANDED-LABEL: func @no_context
// ABSORBED-LABEL: func @no_context
// ABSORBED: form = #mla.form<absorbed>
func.func @no_context(%qn: tensor<?x4x16xf32>, %qp: tensor<?x4x8xf32>, %c: tensor<?x32xf32>, %kp: tensor<?x8xf32>,
    %uk: tensor<4x16x32xf32>, %uv: tensor<4x16x32xf32>, %cache: !cache, %batch: !mla.batch<context_len = 0>) -> tensor<?x4x16xf32> {
  %0 = mla.attention query(%qn, %qp : tensor<?x4x16xf32>, tensor<?x4x8xf32>) latent(%c, %kp : tensor<?x32xf32>, tensor<?x8xf32>)
      weights(%uk, %uv : tensor<4x16x32xf32>, tensor<4x16x32xf32>) over %cache, %batch : !cache, !mla.batch<context_len = 0>
      scale 0.2 -> tensor<?x4x16xf32>
  return %0 : tensor<?x4x16xf32>
}

// CHECK-LABEL: func @prefill_A03_C04
// CHECK-SAME: %[[BATCH:[a-z0-9]+]]: !mla.batch
// CHECK: %[[C:.*]] = mla.batch_dim %[[BATCH]] "total_context_len"
// CHECK: %[[UP:.*]] = arith.constant 1024 : index
// CHECK: %[[L:.*]] = arith.muli %[[C]], %[[UP]]
// CHECK: %[[A:.*]] = mla.batch_dim %[[BATCH]] "attended_pairs"
// CHECK: %[[EXTRA:.*]] = arith.constant 32 : index
// CHECK: %[[R:.*]] = arith.muli %[[A]], %[[EXTRA]]
// CHECK: %[[COND:.*]] = arith.cmpi sle, %[[L]], %[[R]]
// CHECK: %[[IF:.*]]:2 = scf.if %[[COND]]
// CHECK:   %[[E:.*]], %[[ELSE:.*]] = mla.attention
// CHECK-SAME: form = #mla.form<expanded>
// CHECK:   scf.yield %[[E]], %[[ELSE]]
// CHECK: } else {
// CHECK:   mla.attention
// CHECK-SAME: form = #mla.form<absorbed>
// CHECK: } {mla.crossover_query_len = 3.200000e+01 : f64}
// CHECK: return %[[IF]]#0, %[[IF]]#1
// EXPANDED-LABEL: func @prefill_A03_C04
// EXPANDED-NOT: scf.if
// EXPANDED: form = #mla.form<expanded>
// ABSORBED-LABEL: func @prefill_A03_C04
// ABSORBED-NOT: scf.if
// ABSORBED: form = #mla.form<absorbed>
func.func @prefill_A03_C04(%qn: tensor<?x4x16xf32>, %qp: tensor<?x4x8xf32>, %c: tensor<?x32xf32>, %kp: tensor<?x8xf32>,
    %uk: tensor<4x16x32xf32>, %uv: tensor<4x16x32xf32>, %cache: !cache, %batch: !mla.batch<query_len = ?>)
    -> (tensor<?x4x16xf32>, tensor<?x4xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>) {
  %0, %1 = mla.attention query(%qn, %qp : tensor<?x4x16xf32>, tensor<?x4x8xf32>) latent(%c, %kp : tensor<?x32xf32>, tensor<?x8xf32>)
      weights(%uk, %uv : tensor<4x16x32xf32>, tensor<4x16x32xf32>) over %cache, %batch : !cache, !mla.batch<query_len = ?>
      scale 0.2 -> tensor<?x4x16xf32>, tensor<?x4xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
  return %0, %1 : tensor<?x4x16xf32>, tensor<?x4xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
}

// At Sq* and above the expanded form wins for every context.
// CHECK-LABEL: func @long_query
// CHECK-NOT: scf.if
// CHECK: form = #mla.form<expanded>
func.func @long_query(%qn: tensor<?x4x16xf32>, %qp: tensor<?x4x8xf32>, %c: tensor<?x32xf32>, %kp: tensor<?x8xf32>,
    %uk: tensor<4x16x32xf32>, %uv: tensor<4x16x32xf32>, %cache: !cache, %batch: !mla.batch<query_len = 32>) -> tensor<?x4x16xf32> {
  %0 = mla.attention query(%qn, %qp : tensor<?x4x16xf32>, tensor<?x4x8xf32>) latent(%c, %kp : tensor<?x32xf32>, tensor<?x8xf32>)
      weights(%uk, %uv : tensor<4x16x32xf32>, tensor<4x16x32xf32>) over %cache, %batch : !cache, !mla.batch<query_len = 32>
      scale 0.2 -> tensor<?x4x16xf32>
  return %0 : tensor<?x4x16xf32>
}

// With 4 new tokens (speculative decode) absorbed wins from one cached token on.
// CHECK-LABEL: func @speculative
// CHECK-NOT: scf.if
// CHECK: form = #mla.form<absorbed>
func.func @speculative(%qn: tensor<?x4x16xf32>, %qp: tensor<?x4x8xf32>, %c: tensor<?x32xf32>, %kp: tensor<?x8xf32>,
    %uk: tensor<4x16x32xf32>, %uv: tensor<4x16x32xf32>, %cache: !cache, %batch: !mla.batch<query_len = 4>) -> tensor<?x4x16xf32> {
  %0 = mla.attention query(%qn, %qp : tensor<?x4x16xf32>, tensor<?x4x8xf32>) latent(%c, %kp : tensor<?x32xf32>, tensor<?x8xf32>)
      weights(%uk, %uv : tensor<4x16x32xf32>, tensor<4x16x32xf32>) over %cache, %batch : !cache, !mla.batch<query_len = 4>
      scale 0.2 -> tensor<?x4x16xf32>
  return %0 : tensor<?x4x16xf32>
}

// With 8, expanded wins after one cached token but not after a thousand.
// CHECK-LABEL: func @between
// CHECK: scf.if
func.func @between(%qn: tensor<?x4x16xf32>, %qp: tensor<?x4x8xf32>, %c: tensor<?x32xf32>, %kp: tensor<?x8xf32>,
    %uk: tensor<4x16x32xf32>, %uv: tensor<4x16x32xf32>, %cache: !cache, %batch: !mla.batch<query_len = 8>) -> tensor<?x4x16xf32> {
  %0 = mla.attention query(%qn, %qp : tensor<?x4x16xf32>, tensor<?x4x8xf32>) latent(%c, %kp : tensor<?x32xf32>, tensor<?x8xf32>)
      weights(%uk, %uv : tensor<4x16x32xf32>, tensor<4x16x32xf32>) over %cache, %batch : !cache, !mla.batch<query_len = 8>
      scale 0.2 -> tensor<?x4x16xf32>
  return %0 : tensor<?x4x16xf32>
}

// Both lengths known: 8 new tokens after 1000.
// CHECK-LABEL: func @all_static
// CHECK-NOT: scf.if
// CHECK: form = #mla.form<absorbed>
func.func @all_static(%qn: tensor<?x4x16xf32>, %qp: tensor<?x4x8xf32>, %c: tensor<?x32xf32>, %kp: tensor<?x8xf32>,
    %uk: tensor<4x16x32xf32>, %uv: tensor<4x16x32xf32>, %cache: !cache, %batch: !mla.batch<query_len = 8, context_len = 1000>) -> tensor<?x4x16xf32> {
  %0 = mla.attention query(%qn, %qp : tensor<?x4x16xf32>, tensor<?x4x8xf32>) latent(%c, %kp : tensor<?x32xf32>, tensor<?x8xf32>)
      weights(%uk, %uv : tensor<4x16x32xf32>, tensor<4x16x32xf32>) over %cache, %batch : !cache, !mla.batch<query_len = 8, context_len = 1000>
      scale 0.2 -> tensor<?x4x16xf32>
  return %0 : tensor<?x4x16xf32>
}

// 2 Lkv <= P + V: no number of new tokens makes the expanded form cheaper.
!narrow = !mla.cache<page_size = 4, fields = [latent: 16], element = f32, rope_order = interleaved>
// CHECK-LABEL: func @narrow_latent
// CHECK-NOT: scf.if
// CHECK: form = #mla.form<absorbed>
func.func @narrow_latent(%qn: tensor<?x4x16xf32>, %c: tensor<?x16xf32>, %uk: tensor<4x16x16xf32>, %uv: tensor<4x16x16xf32>,
    %cache: !narrow, %batch: !mla.batch<query_len = ?>) -> tensor<?x4x16xf32> {
  %0 = mla.attention query(%qn : tensor<?x4x16xf32>) latent(%c : tensor<?x16xf32>)
      weights(%uk, %uv : tensor<4x16x16xf32>, tensor<4x16x16xf32>) over %cache, %batch : !narrow, !mla.batch<query_len = ?>
      scale 0.25 -> tensor<?x4x16xf32>
  return %0 : tensor<?x4x16xf32>
}

// A form that is given stays, whatever the option says.
// CHECK-LABEL: func @given
// CHECK-NOT: scf.if
// CHECK: form = #mla.form<expanded>
// ABSORBED-LABEL: func @given
// ABSORBED: form = #mla.form<expanded>
func.func @given(%qn: tensor<?x4x16xf32>, %qp: tensor<?x4x8xf32>, %c: tensor<?x32xf32>, %kp: tensor<?x8xf32>,
    %uk: tensor<4x16x32xf32>, %uv: tensor<4x16x32xf32>, %cache: !cache, %batch: !mla.batch<query_len = 1>) -> tensor<?x4x16xf32> {
  %0 = mla.attention query(%qn, %qp : tensor<?x4x16xf32>, tensor<?x4x8xf32>) latent(%c, %kp : tensor<?x32xf32>, tensor<?x8xf32>)
      weights(%uk, %uv : tensor<4x16x32xf32>, tensor<4x16x32xf32>) over %cache, %batch : !cache, !mla.batch<query_len = 1>
      scale 0.2 {form = #mla.form<expanded>} -> tensor<?x4x16xf32>
  return %0 : tensor<?x4x16xf32>
}
