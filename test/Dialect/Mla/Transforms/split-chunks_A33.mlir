// Keys of a chunk are split where a step has fewer programs than the machine has
// multiprocessors.
//
// RUN: mla-opt %s --mla-split-chunks | FileCheck %s
// RUN: mla-opt %s --mla-split-chunks --mla-split-chunks=num-splits=3 | FileCheck %s
// RUN: mla-opt %s --mla-split-chunks=num-splits=3 | FileCheck %s --check-prefix=FORCED
// RUN: mla-opt %s --mla-split-chunks=num-splits=1 | FileCheck %s --check-prefix=ONE
// RUN: mla-opt %s --mla-split-chunks="program-rows=32 block-keys=64 flops-per-cycle=1024 item-cycles=7 merge-cycles=9 turn-cycles=5 bytes-per-cycle=2048" | FileCheck %s --check-prefix=OPTIONS
// RUN: not mla-opt %s --mla-split-chunks=num-splits=-1 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not mla-opt %s --mla-split-chunks=program-rows=0 2>&1 | FileCheck %s --check-prefix=ROWS
// RUN: not mla-opt %s --mla-split-chunks=block-keys=0 2>&1 | FileCheck %s --check-prefix=NOKEYS
// RUN: not mla-opt %s --mla-split-chunks=item-cycles=-1 2>&1 | FileCheck %s --check-prefix=ITEM
// RUN: not mla-opt %s --mla-split-chunks=merge-cycles=-2 2>&1 | FileCheck %s --check-prefix=MERGE
// RUN: not mla-opt %s --mla-split-chunks=turn-cycles=-3 2>&1 | FileCheck %s --check-prefix=TURN
// RUN: not mla-opt %s --mla-split-chunks=flops-per-cycle=0 2>&1 | FileCheck %s --check-prefix=FLOPS
// RUN: not mla-opt %s --mla-split-chunks=bytes-per-cycle=-1 2>&1 | FileCheck %s --check-prefix=BYTES
// NEGATIVE: mla-split-chunks: expected num-splits >= 0, got -1
// ROWS: mla-split-chunks: expected program-rows >= 1, got 0
// NOKEYS: mla-split-chunks: expected block-keys >= 1, got 0
// ITEM: mla-split-chunks: expected item-cycles >= 0, got -1
// TURN: mla-split-chunks: expected turn-cycles >= 0, got -3
// MERGE: mla-split-chunks: expected merge-cycles >= 0, got -2
// FLOPS: mla-split-chunks: expected a positive flops-per-cycle, got 0
// BYTES: mla-split-chunks: expected a positive bytes-per-cycle, got -1

!q = tensor<?x4x16xbf16>
!partial = tensor<?x4x16xf32>
!lse = tensor<?x4xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>

// CHECK-LABEL: func @chunk
// CHECK-SAME: %[[BATCH:[a-z0-9]+]]: !mla.batch
// CHECK: %[[SMS:.*]] = mla.batch_dim %[[BATCH]] "num_sms"
// CHECK: %[[CAP:.*]] = mla.batch_dim %[[BATCH]] "chunk_capacity"
// CHECK: %[[CTX:.*]] = mla.batch_dim %[[BATCH]] "max_context_len"
// CHECK: %[[MIN:.*]] = arith.minsi %[[CAP]], %[[CTX]]
// CHECK: %[[LONGEST:.*]] = arith.maxsi %[[MIN]]
// CHECK: %[[LEN:.*]] = mla.batch_dim %[[BATCH]] "max_query_len"
// CHECK: %[[R:.*]] = arith.constant 128 : index
// CHECK: %[[TILES:.*]] = arith.ceildivsi %[[LEN]], %[[R]]
// CHECK: %[[KEYS:.*]] = mla.batch_dim %[[BATCH]] "chunk_tokens"
// CHECK: %[[REQUESTS:.*]] = arith.ceildivsi %[[KEYS]], %[[LONGEST]]
// CHECK: %[[N:.*]] = arith.constant 4 : index
// CHECK: %[[OFHEADS:.*]] = arith.muli %[[TILES]], %[[N]]
// CHECK: %[[PRODUCT:.*]] = arith.muli %[[OFHEADS]], %[[REQUESTS]]
// CHECK: %[[ITEMS:.*]] = arith.maxsi %[[PRODUCT]]
// CHECK: %[[BLOCKS:.*]] = arith.ceildivsi %[[LONGEST]]
// Eight waves of 132 programs of 128 rows, by the rows of a split.
// CHECK: "num_tokens"
// CHECK: %[[ALL:.*]] = arith.constant 1024 : index
// CHECK: %[[PLACES:.*]] = arith.muli %[[SMS]], %[[ALL]]
// CHECK: %[[FIT:.*]] = arith.divsi %[[PLACES]]
// CHECK: %[[FEWER:.*]] = arith.minsi %[[FIT]], %[[BLOCKS]]
// CHECK: %[[MOST:.*]] = arith.maxsi %[[FEWER]]
// A quarter of a wave, and what it takes: a block is 2 * 128 * 128 * 32 / 3500 cycles.
// CHECK: arith.constant 300 : index
// CHECK: arith.constant 4000 : index
// CHECK: %[[QUARTERS:.*]] = arith.muli %[[ITEMS]]
// CHECK: %[[WAVE:.*]] = arith.muli %[[SMS]]
// CHECK: %[[FILL:.*]] = arith.divsi %[[WAVE]], %[[QUARTERS]]
// CHECK: arith.minsi %{{.*}}, %[[MOST]]
// CHECK: arith.constant 1000 : index
// CHECK: arith.constant 3000 : index
// CHECK: %[[LESS:.*]] = arith.cmpi sgt
// CHECK: arith.select %[[LESS]]
// CHECK-COUNT-9: arith.cmpi sgt
// CHECK: %[[S:.*]] = arith.select
// CHECK-NOT: arith.cmpi
// CHECK: mla.expanded_attention {{.*}} chunk %{{.*}} onto({{.*}}) splits %[[S]] scale

// FORCED-LABEL: func @chunk
// FORCED: %[[S:.*]] = arith.constant 3 : index
// FORCED-NEXT: mla.expanded_attention {{.*}} splits %[[S]]
// FORCED: return

// ONE-LABEL: func @chunk
// ONE-NOT: splits
// ONE: return

// OPTIONS-LABEL: func @chunk
// OPTIONS: arith.constant 32 : index
// OPTIONS: arith.constant 64 : index
// A block is 2 * 32 * 64 * 32 operations.
// OPTIONS: arith.constant 128 : index
// OPTIONS: arith.constant 128 : index
// OPTIONS: arith.constant 7 : index
// Rows of 2 * 4 * 16 bytes in 1024 cycles.
// OPTIONS: arith.constant 16384 : index
// OPTIONS: arith.constant 5 : index
// OPTIONS: arith.constant 9 : index
func.func @chunk(%batch: !mla.batch, %q: !q, %k: !q, %p: !partial, %l: !lse, %i: index) -> (!partial, !lse) {
  %o, %lse = mla.expanded_attention query(%q : !q) keys(%k : !q) values(%k : !q) over %batch : !mla.batch
      chunk %i onto(%p, %l : !partial, !lse) scale 0.5 -> !partial, !lse
  return %o, %lse : !partial, !lse
}

// New tokens are not split, and who has a count keeps it.
// CHECK-LABEL: func @others
// CHECK-NOT: batch_dim
// CHECK: mla.expanded_attention
// CHECK-NOT: splits
// CHECK: mla.expanded_attention {{.*}} splits %{{.*}} scale
// FORCED-LABEL: func @others
// FORCED-SAME: %[[I:[a-z0-9]+]]: index)
// FORCED: mla.expanded_attention
// FORCED-NOT: splits
// FORCED: mla.expanded_attention {{.*}} splits %[[I]] scale
func.func @others(%batch: !mla.batch, %q: !q, %k: !q, %i: index) -> (!q, !q) {
  %new = mla.expanded_attention query(%q : !q) keys(%q : !q) values(%q : !q) over %batch : !mla.batch scale 0.5 -> !q
  %split = mla.expanded_attention query(%q : !q) keys(%k : !q) values(%k : !q) over %batch : !mla.batch
      chunk %i splits %i scale 0.5 -> !q
  return %new, %split : !q, !q
}
