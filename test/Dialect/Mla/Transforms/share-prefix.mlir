// A prefix that all requests share is attended to once, expanded; each request's own keys
// absorbed; then both are merged.
//
// RUN: mla-opt %s --split-input-file --mla-share-prefix=mode=always | FileCheck %s
// RUN: mla-opt %s --split-input-file --mla-share-prefix=mode=never | FileCheck %s --check-prefix=NEVER
// RUN: mla-opt %s --split-input-file --mla-share-prefix 2>&1 | FileCheck %s --check-prefix=COST
// RUN: mla-opt %s --split-input-file --mla-share-prefix=mode=always --mla-absorb-weights --mla-chunk-context | FileCheck %s --check-prefix=STEPS

// NEVER-NOT: mla.share_prefix

!cache = !mla.cache<page_size = 4, fields = [latent: 32, rope: 8], element = bf16, rope_order = interleaved>
!decode = !mla.batch<query_len = 1>

// CHECK-LABEL: func @decode
// CHECK-SAME: %[[QN:[a-z0-9]+]]: tensor<?x4x16xbf16>, %[[QP:[a-z0-9]+]]: tensor<?x4x8xbf16>
// CHECK-SAME: %[[CACHE:[a-z0-9]+]]: !mla.cache{{.*}}, %[[BATCH:[a-z0-9]+]]: !mla.batch
// CHECK: %[[COMMON:.*]] = mla.batch_dim %[[BATCH]] "num_common_tokens"
// CHECK: %[[SHARED:.*]], %[[OWN:.*]] = mla.share_prefix %[[COMMON]] of %[[BATCH]] : <query_len = 1> -> <query_len = ?>, <query_len = 1>
// CHECK: %[[TAKEN:.*]] = mla.batch_dim %[[BATCH]] "num_shared_tokens"
// CHECK: %[[IF:.*]] = arith.cmpi sgt, %[[TAKEN]], %c0
// CHECK: %[[O:.*]] = scf.if %[[IF]] -> (tensor<?x4x24xbf16>) {
// CHECK:   %[[A:.*]], %[[AL:.*]] = mla.attention query(%[[QN]], %[[QP]] {{.*}} over %[[CACHE]], %[[OWN]] {{.*}} {form = #mla.form<absorbed>} -> tensor<?x4x24xbf16>, tensor<?x4xf32, {{.*}}token_major
// CHECK:   %[[B:.*]], %[[BL:.*]] = mla.attention query(%[[QN]], %[[QP]] {{.*}} over %[[CACHE]], %[[SHARED]] {{.*}} {form = #mla.form<expanded>} -> tensor<?x4x24xf32>, tensor<?x4xf32, {{.*}}token_major
// CHECK:   %[[M:.*]] = mla.merge %[[A]], %[[AL]] with %[[B]], %[[BL]]
// CHECK:   scf.yield %[[M]]
// CHECK: } else {
// CHECK:   mla.attention {{.*}} over %[[CACHE]], %[[BATCH]] {{.*}} {form = #mla.form<absorbed>} -> tensor<?x4x24xbf16>
// CHECK: return %[[O]]

// The condition follows the cost model, for the target of the module (an H200).
// COST: remark: a shared prefix pays with 512 tokens {{.*}}, 2048 tokens from {{[0-9]+}} one-token queries on
// COST-LABEL: func @decode
// COST: %[[COMMON:.*]] = mla.batch_dim %{{.*}} "num_common_tokens"
// Turns of the machine as a whole, or shares of it and what splitting takes.
// COST: arith.ceildivsi %[[ITEMS:.*]], %c132
// COST: %[[WHOLE:.*]] = arith.muli %{{.*}}, %[[COMMON]]
// COST: %[[OFITEMS:.*]] = arith.muli %[[ITEMS]]
// COST: %[[SHARES:.*]] = arith.muli %[[OFITEMS]], %[[COMMON]]
// COST: %[[SHARE:.*]] = arith.ceildivsi %[[SHARES]]
// COST: %[[CUT:.*]] = arith.addi %[[SHARE]]
// COST: arith.minsi %[[WHOLE]], %[[CUT]]
// COST: %[[PAYS:.*]] = arith.cmpi sgt
// COST: %[[N:.*]] = arith.select %[[PAYS]], %[[COMMON]], %c0
// COST: mla.share_prefix %[[N]] of

// The prefix comes in chunks; the first of them needs no merge.
// STEPS-LABEL: func @decode
// STEPS: scf.if
// STEPS:   %[[A:.*]], %[[AL:.*]] = mla.absorbed_attention {{.*}}, %[[OWN:.*]] :
// STEPS:   %[[HEADS:.*]] = mla.head_project %[[A]]
// STEPS:   %[[CHUNKS:.*]] = mla.batch_dim %[[SHARED:.*]] "num_chunks"
// STEPS:   mla.gather %{{.*}}, %[[SHARED]] chunk %[[C0:.*]] :
// STEPS:   %[[B:.*]], %[[BL:.*]] = mla.expanded_attention {{.*}} over %[[SHARED]] {{.*}} chunk %[[C0]]
// STEPS-NOT: mla.empty_partial
// STEPS:   %[[OTHERS:.*]] = arith.subi %[[CHUNKS]]
// STEPS:   %[[P:.*]]:2 = scf.for %[[I:.*]] = %{{.*}} to %[[OTHERS]] step %{{.*}} iter_args(%{{.*}} = %[[B]], %{{.*}} = %[[BL]])
// STEPS:     %[[CHUNK:.*]] = arith.addi %[[I]]
// STEPS:     mla.gather %{{.*}}, %[[SHARED]] chunk %[[CHUNK]]
// STEPS:     mla.merge
// STEPS:   mla.merge %[[HEADS]], %[[AL]] with %[[P]]#0, %[[P]]#1
// STEPS: } else {
// STEPS:   mla.absorbed_attention
func.func @decode(%qn: tensor<?x4x16xbf16>, %qp: tensor<?x4x8xbf16>, %c: tensor<?x32xbf16>, %kp: tensor<?x8xbf16>,
    %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %cache: !cache, %batch: !decode) -> tensor<?x4x24xbf16> {
  %0 = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x8xbf16>) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !decode
      scale 0.2 {form = #mla.form<absorbed>} -> tensor<?x4x24xbf16>
  return %0 : tensor<?x4x24xbf16>
}

// -----

// The decodes of a split batch, with an LSE in another layout.
!cache = !mla.cache<page_size = 4, fields = [latent: 32, rope: 8], element = bf16, rope_order = interleaved>
!lse = tensor<4x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>>

// CHECK-LABEL: func @parts
// CHECK: %[[D:.*]] = mla.batch_part %{{.*}} decodes
// CHECK: mla.share_prefix %{{.*}} of %[[D]] : <query_len = ?> -> <query_len = ?>, <query_len = ?>
// CHECK: %[[O:.*]], %[[L:.*]] = mla.merge
// CHECK: mla.convert_lse %[[L]]
func.func @parts(%qn: tensor<?x4x16xbf16>, %qp: tensor<?x4x8xbf16>, %c: tensor<?x32xbf16>, %kp: tensor<?x8xbf16>,
    %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %cache: !cache, %batch: !mla.batch) -> (tensor<?x4x24xbf16>, !lse)
    attributes {mla.decode_threshold = 4 : i64} {
  %d = mla.batch_part %batch decodes : <query_len = ?> -> <query_len = ?>
  %0, %lse = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x8xbf16>) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %d : !cache, !mla.batch
      scale 0.2 {form = #mla.form<absorbed>} -> tensor<?x4x24xbf16>, !lse
  return %0, %lse : tensor<?x4x24xbf16>, !lse
}

// -----

// Not: expanded attention shares already, and without context there is no prefix.
!cache = !mla.cache<page_size = 4, fields = [latent: 32, rope: 8], element = bf16, rope_order = interleaved>
!fresh = !mla.batch<query_len = 2, context_len = 0>

// CHECK-LABEL: func @others
// CHECK-NOT: mla.share_prefix
func.func @others(%qn: tensor<?x4x16xbf16>, %qp: tensor<?x4x8xbf16>, %c: tensor<?x32xbf16>, %kp: tensor<?x8xbf16>,
    %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %cache: !cache, %batch: !mla.batch, %new: !fresh) -> (tensor<?x4x24xbf16>, tensor<?x4x24xbf16>) {
  %0 = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x8xbf16>) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch
      scale 0.2 {form = #mla.form<expanded>} -> tensor<?x4x24xbf16>
  %1 = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x8xbf16>) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %new : !cache, !fresh
      scale 0.2 {form = #mla.form<absorbed>} -> tensor<?x4x24xbf16>
  return %0, %1 : tensor<?x4x24xbf16>, tensor<?x4x24xbf16>
}

// -----

// The whole batch of a function that splits it: its parts share prefixes, not it.

!cache = !mla.cache<page_size = 4, fields = [latent: 32, rope: 8], element = bf16, rope_order = interleaved>

// CHECK-LABEL: func @whole_batch
// CHECK-NOT: mla.share_prefix
func.func @whole_batch(%qn: tensor<?x4x16xbf16>, %qp: tensor<?x4x8xbf16>, %c: tensor<?x32xbf16>, %kp: tensor<?x8xbf16>,
    %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %cache: !cache, %batch: !mla.batch) -> tensor<?x4x24xbf16>
    attributes {mla.decode_threshold = 1 : i64} {
  %0 = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x8xbf16>) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch
      scale 0.2 {form = #mla.form<absorbed>} -> tensor<?x4x24xbf16>
  return %0 : tensor<?x4x24xbf16>
}
