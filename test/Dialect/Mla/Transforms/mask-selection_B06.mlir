// B06: prompts see the keys that were selected through a mask over all, while that takes fewer FLOPs.
//
// RUN: mla-opt %s --mla-mask-selection | FileCheck %s
// RUN: mla-opt %s --mla-mask-selection="head-tile=64 cost=2 chunk-flops=960 budget=1000 context-budget=3200" | FileCheck %s --check-prefix=TILE
// RUN: mla-opt %s --mla-mask-selection=mode=always | FileCheck %s --check-prefix=ALWAYS
// RUN: mla-opt %s --mla-mask-selection=mode=never | FileCheck %s --check-prefix=NEVER
// RUN: not mla-opt %s --mla-mask-selection=head-tile=0 2>&1 | FileCheck %s --check-prefix=HEADS
// RUN: not mla-opt %s --mla-mask-selection=cost=0 2>&1 | FileCheck %s --check-prefix=COST
// RUN: not mla-opt %s --mla-mask-selection=budget=-1 2>&1 | FileCheck %s --check-prefix=BUDGET
// HEADS: mla-mask-selection: expected head-tile >= 1, got 0
// COST: mla-mask-selection: expected cost > 0, got 0
// BUDGET: mla-mask-selection: expected budget from 0 to 2^50, got -1
// RUN: not mla-opt %s --mla-mask-selection=budget=2305843009213693952 2>&1 | FileCheck %s --check-prefix=LARGE
// LARGE: mla-mask-selection: expected budget from 0 to 2^50, got 2305843009213693952
// RUN: not mla-opt %s --mla-mask-selection=chunk-flops=nan 2>&1 | FileCheck %s --check-prefix=FLOPS
// FLOPS: mla-mask-selection: expected chunk-flops >= 0, got nan
// RUN: not mla-opt %s --mla-mask-selection=context-budget=-1 2>&1 | FileCheck %s --check-prefix=CONTEXT
// CONTEXT: mla-mask-selection: expected context-budget from 0 to 2^50, got -1
// RUN: mla-opt %s --mla-mask-selection=cost=1e-300 | FileCheck %s --check-prefix=CHEAP
// CHEAP-COUNT-4: arith.constant 67108864 : index
// NEVER-NOT: expanded
// NEVER-NOT: optional_chunks

!cache = !mla.cache<page_size = 4, fields = [latent: 32, rope: 8], element = bf16, rope_order = interleaved>
!rows = tensor<?x24xi32>
!qn = tensor<?x4x16xbf16>
!qp = tensor<?x4x8xbf16>
!c = tensor<?x32xbf16>
!o = tensor<?x4x24xbf16>

// Of each selected key a head takes 72 columns, of each seen one 48: 1536 / 1024. A cached token's keys and
// values take 32 * 40 / 48 = 27 more, once for all tokens, and steps with any 960 / (2 * 4 * 48) = 3 or none, as
// FLOPs are given. In tiles of 64 heads at twice the time 64 * 72 * 1024 / (4 * 48 * 2) = 12288, 14 and 2. Bits of
// 256 MiB, or of 1000 bytes; keys and values of a GiB, or of 10 tokens of 320 bytes.
// CHECK-LABEL: func @prefill
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<?x24xi32>
// CHECK-SAME: attributes {mla.optional_chunks}
// CHECK-DAG: %[[LONGEST:.*]] = mla.batch_dim %{{.*}} "max_query_len"
// CHECK-DAG: %[[IN_CHUNK:.*]] = mla.batch_dim %{{.*}} "chunk_request_tokens"
// CHECK-DAG: %[[WIDEST:.*]] = arith.maxsi %[[LONGEST]], %[[IN_CHUNK]]
// CHECK-DAG: %[[TOKENS:.*]] = mla.batch_dim %{{.*}} "num_tokens"
// CHECK-DAG: %[[ALL:.*]] = arith.muli %[[TOKENS]], %[[WIDEST]]
// CHECK-DAG: %[[BITS:.*]] = arith.constant 2147483648 : index
// CHECK-DAG: %[[FEW_BITS:.*]] = arith.cmpi sle, %[[ALL]], %[[BITS]]
// CHECK-DAG: %[[CACHED:.*]] = mla.batch_dim %{{.*}} "total_context_len"
// CHECK-DAG: %[[CHUNKS:.*]] = mla.batch_dim %{{.*}} "num_chunks"
// CHECK-DAG: %[[ANY:.*]] = arith.cmpi sgt, %[[CHUNKS]], %c0
// CHECK-DAG: %[[OUT:.*]] = arith.select %[[ANY]], %c0{{.*}}, %[[CACHED]] : index
// CHECK-DAG: arith.cmpi sle, %[[OUT]], %c0
// CHECK-DAG: %[[ROWS:.*]] = mla.batch_dim %{{.*}} "chunk_tokens"
// CHECK-DAG: %[[MOST_ROWS:.*]] = arith.constant 3355443 : index
// CHECK-DAG: arith.cmpi sle, %[[ROWS]], %[[MOST_ROWS]]
// CHECK-DAG: %[[PAIRS:.*]] = mla.batch_dim %{{.*}} "attended_pairs"
// CHECK-DAG: %[[PROJECTED:.*]] = arith.muli %{{.*}}, %c27
// CHECK-DAG: %[[LAUNCHED:.*]] = arith.select %{{.*}}, %c0{{.*}}, %c0{{.*}} : index
// CHECK-DAG: %[[FOR_CHUNKS:.*]] = arith.addi %[[PROJECTED]], %[[LAUNCHED]]
// CHECK-DAG: %[[MASKED:.*]] = arith.addi %[[PAIRS]], %[[FOR_CHUNKS]]
// CHECK-DAG: %[[MOST:.*]] = arith.muli %{{.*}}, %c24
// CHECK-DAG: %[[TAKEN:.*]] = arith.minsi %[[PAIRS]], %[[MOST]]
// CHECK-DAG: %[[SCALED:.*]] = arith.muli %[[TAKEN]], %c1536
// CHECK-DAG: %[[GATHERED:.*]] = arith.divsi %[[SCALED]], %c1024
// CHECK-DAG: arith.cmpi sle, %[[MASKED]], %[[GATHERED]]
// CHECK: scf.if %{{.*}} -> (tensor<?x4x24xbf16>) {
// CHECK-NEXT: %[[M:.*]] = mla.attention {{.*}} selected(%[[S]] : tensor<?x24xi32>) scale 2.000000e-01 {form = #mla.form<expanded>}
// CHECK-NEXT: scf.yield %[[M]]
// CHECK: } else {
// CHECK-NEXT: mla.attention {{.*}} selected(%[[S]] : tensor<?x24xi32>) scale 2.000000e-01 ->
// TILE-DAG: arith.constant 12288 : index
// TILE-DAG: arith.constant 14 : index
// TILE-DAG: arith.constant 2 : index
// TILE-DAG: arith.constant 8000 : index
// TILE-DAG: arith.constant 10 : index
// ALWAYS-LABEL: func @prefill
// ALWAYS-NOT: "attended_pairs"
// ALWAYS: form = #mla.form<expanded>
func.func @prefill(%selected: !rows, %qn: !qn, %qp: !qp, %c: !c, %kp: tensor<?x8xbf16>, %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %cache: !cache, %batch: !mla.batch) -> !o {
  %o = mla.attention query(%qn, %qp : !qn, !qp) latent(%c, %kp : !c, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch
      selected(%selected : !rows) scale 0.2 -> !o
  return %o : !o
}

// Nothing cached, no chunks.
// CHECK-LABEL: func @fresh
// CHECK-NOT: mla.optional_chunks
// CHECK-NOT: chunk
// CHECK: form = #mla.form<expanded>
func.func @fresh(%selected: !rows, %qn: !qn, %qp: !qp, %c: !c, %kp: tensor<?x8xbf16>, %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %cache: !cache, %batch: !mla.batch<context_len = 0>) -> !o {
  %o = mla.attention query(%qn, %qp : !qn, !qp) latent(%c, %kp : !c, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch<context_len = 0>
      selected(%selected : !rows) scale 0.2 -> !o
  return %o : !o
}

// Of decodes and prompts the prompts, if there are any; decodes are a part of their own then.
// CHECK-LABEL: func @step
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<?x24xi32>
// CHECK: %[[P:.*]] = mla.batch_part %[[BATCH:.*]] prefills
// CHECK-DAG: %[[LONGEST:.*]] = mla.batch_dim %[[P]] "max_query_len"
// CHECK-DAG: mla.batch_dim %[[P]] "num_tokens"
// CHECK-DAG: arith.cmpi sgt, %[[LONGEST]], %c0
// CHECK-DAG: mla.batch_dim %[[P]] "total_context_len"
// CHECK-DAG: mla.batch_dim %[[P]] "num_chunks"
// CHECK-DAG: mla.batch_dim %[[P]] "attended_pairs"
// CHECK: scf.if
// CHECK: %[[OF_P:.*]] = mla.part_rows %[[S]] of %[[P]]
// CHECK: %[[PO:.*]] = mla.attention {{.*}} over %{{.*}}, %[[P]] {{.*}} selected(%[[OF_P]] {{.*}}form = #mla.form<expanded>
// CHECK: %[[D:.*]] = mla.batch_part %[[BATCH]] decodes : <query_len = ?> -> <query_len = 1>
// CHECK: %[[OF_D:.*]] = mla.part_rows %[[S]] of %[[D]]
// CHECK: %[[DO:.*]] = mla.attention {{.*}} over %{{.*}}, %[[D]] {{.*}} selected(%[[OF_D]] {{.*}}form = #mla.form<absorbed>
// CHECK: mla.join_parts %[[DO]], %[[PO]]
// CHECK: } else {
// CHECK: mla.attention {{.*}} over %{{.*}}, %[[BATCH]] {{.*}} selected(%[[S]]

// Not decodes, nor what sees all keys.
// CHECK-LABEL: func @decode
// CHECK-NOT: expanded
// CHECK-LABEL: func @dense
// CHECK-NOT: expanded
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
