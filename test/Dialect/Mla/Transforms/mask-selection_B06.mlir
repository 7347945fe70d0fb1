// B06: prompts without cached tokens see the keys that were selected through a mask over all, while
// that takes fewer FLOPs.
//
// RUN: mla-opt %s --mla-mask-selection | FileCheck %s
// RUN: mla-opt %s --mla-mask-selection="head-tile=64 cost=2 budget=1000" | FileCheck %s --check-prefix=TILE
// RUN: mla-opt %s --mla-mask-selection=mode=always | FileCheck %s --check-prefix=ALWAYS
// RUN: mla-opt %s --mla-mask-selection=mode=never | FileCheck %s --check-prefix=NEVER
// RUN: not mla-opt %s --mla-mask-selection=head-tile=0 2>&1 | FileCheck %s --check-prefix=HEADS
// RUN: not mla-opt %s --mla-mask-selection=cost=0 2>&1 | FileCheck %s --check-prefix=COST
// RUN: not mla-opt %s --mla-mask-selection=budget=-1 2>&1 | FileCheck %s --check-prefix=BUDGET
// HEADS: mla-mask-selection: expected head-tile >= 1, got 0
// COST: mla-mask-selection: expected cost > 0, got 0
// BUDGET: mla-mask-selection: expected a budget from 0 to 2^50, got -1
// RUN: not mla-opt %s --mla-mask-selection=budget=2305843009213693952 2>&1 | FileCheck %s --check-prefix=LARGE
// LARGE: mla-mask-selection: expected a budget from 0 to 2^50, got 2305843009213693952
// RUN: mla-opt %s --mla-mask-selection=cost=1e-300 | FileCheck %s --check-prefix=CHEAP
// CHEAP: arith.constant 2251799813685248 : index
// NEVER-NOT: mla.mark_selected

!cache = !mla.cache<page_size = 4, fields = [latent: 32, rope: 8], element = bf16, rope_order = interleaved>
!rows = tensor<?x24xi32>
!qn = tensor<?x4x16xbf16>
!qp = tensor<?x4x8xbf16>
!c = tensor<?x32xbf16>
!o = tensor<?x4x24xbf16>

// Of 24 selected keys each head takes 72 columns, of each seen one 48: 24 * 72 / 48 = 36 keys on
// average, 72 of the longest prompt. In tiles of 64 heads at twice the time 2 * 24 * 64 * 72 / (4 * 48 * 2)
// = 576. Bits of 256 MiB, or of 1000 bytes.
// CHECK-LABEL: func @prefill
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<?x24xi32>
// CHECK-DAG: %[[BITS:.*]] = arith.constant 2147483648 : index
// CHECK-DAG: %[[KEYS:.*]] = arith.constant 72 : index
// CHECK-DAG: %[[TOKENS:.*]] = mla.batch_dim %{{.*}} "num_tokens"
// CHECK-DAG: %[[CACHED:.*]] = mla.batch_dim %{{.*}} "total_context_len"
// CHECK-DAG: %[[LONGEST:.*]] = mla.batch_dim %{{.*}} "max_query_len"
// CHECK-DAG: arith.cmpi sle, %[[CACHED]], %c0
// CHECK-DAG: %[[ALL:.*]] = arith.muli %[[TOKENS]], %[[LONGEST]]
// CHECK-DAG: arith.cmpi sle, %[[ALL]], %[[BITS]]
// CHECK-DAG: arith.cmpi sle, %[[LONGEST]], %[[KEYS]]
// CHECK: scf.if %{{.*}} -> (tensor<?x4x24xbf16>) {
// CHECK-NEXT: %[[M:.*]] = mla.mark_selected %[[S]] over %{{.*}} : tensor<?x24xi32>, <query_len = ?> -> tensor<?x?xi32>
// CHECK-NEXT: %[[K:.*]] = mla.project %[[C:.*]], %{{.*}} : tensor<?x32xbf16>, tensor<4x16x32xbf16>
// CHECK-NEXT: %[[V:.*]] = mla.project %[[C]], %{{.*}} : tensor<?x32xbf16>, tensor<4x24x32xbf16>
// CHECK-NEXT: mla.expanded_attention query(%{{.*}}) keys(%[[K]], %{{.*}}) values(%[[V]] {{.*}} marks(%[[M]] : tensor<?x?xi32>) scale 2.000000e-01
// CHECK: } else {
// CHECK-NEXT: mla.attention {{.*}} selected(%[[S]]
// TILE-DAG: arith.constant 576 : index
// TILE-DAG: arith.constant 8000 : index
// ALWAYS-LABEL: func @prefill
// ALWAYS-NOT: arith.constant 72
// ALWAYS: mla.mark_selected
func.func @prefill(%selected: !rows, %qn: !qn, %qp: !qp, %c: !c, %kp: tensor<?x8xbf16>, %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %cache: !cache, %batch: !mla.batch) -> !o {
  %o = mla.attention query(%qn, %qp : !qn, !qp) latent(%c, %kp : !c, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch
      selected(%selected : !rows) scale 0.2 -> !o
  return %o : !o
}

// Of decodes and prompts the prompts, if there are any; decodes are a part of their own then.
// CHECK-LABEL: func @step
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<?x24xi32>
// CHECK: %[[P:.*]] = mla.batch_part %[[BATCH:.*]] prefills
// CHECK-DAG: mla.batch_dim %[[P]] "total_context_len"
// CHECK-DAG: %[[LONGEST:.*]] = mla.batch_dim %[[P]] "max_query_len"
// CHECK-DAG: mla.batch_dim %[[P]] "num_tokens"
// CHECK-DAG: arith.cmpi sge, %[[LONGEST]], %c1
// CHECK: scf.if
// CHECK: %[[OF_P:.*]] = mla.part_rows %[[S]] of %[[P]]
// CHECK: mla.mark_selected %[[OF_P]] over %[[P]]
// CHECK: %[[PO:.*]] = mla.expanded_attention {{.*}} over %[[P]] {{.*}} marks(
// CHECK: %[[D:.*]] = mla.batch_part %[[BATCH]] decodes : <query_len = ?> -> <query_len = 1>
// CHECK: %[[OF_D:.*]] = mla.part_rows %[[S]] of %[[D]]
// CHECK: %[[DO:.*]] = mla.attention {{.*}} over %{{.*}}, %[[D]] {{.*}} selected(%[[OF_D]] {{.*}}form = #mla.form<absorbed>
// CHECK: mla.join_parts %[[DO]], %[[PO]]
// CHECK: } else {
// CHECK: mla.attention {{.*}} over %{{.*}}, %[[BATCH]] {{.*}} selected(%[[S]]

// Not decodes, nor what sees all keys.
// CHECK-LABEL: func @decode
// CHECK-NOT: mla.mark_selected
// CHECK-LABEL: func @dense
// CHECK-NOT: mla.mark_selected
func.func @step(%selected: !rows, %qn: !qn, %qp: !qp, %c: !c, %kp: tensor<?x8xbf16>, %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %cache: !cache, %batch: !mla.batch) -> !o attributes {mla.decode_threshold = 1 : i64} {
  %o = mla.attention query(%qn, %qp : !qn, !qp) latent(%c, %kp : !c, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch
      selected(%selected : !rows) scale 0.2 -> !o
  return %o : !o
}
func.func @decode(%selected: !rows, %qn: !qn, %qp: !qp, %c: !c, %kp: tensor<?x8xbf16>, %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %cache: !cache, %batch: !mla.batch<query_len = 1>) -> !o {
  %o = mla.attention query(%qn, %qp : !qn, !qp) latent(%c, %kp : !c, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch<query_len = 1>
      selected(%selected : !rows) scale 0.2 -> !o
  return %o : !o
}
func.func @dense(%qn: !qn, %qp: !qp, %c: !c, %kp: tensor<?x8xbf16>, %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %cache: !cache, %batch: !mla.batch) -> !o {
  %o = mla.attention query(%qn, %qp : !qn, !qp) latent(%c, %kp : !c, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch
      scale 0.2 -> !o
  return %o : !o
}
