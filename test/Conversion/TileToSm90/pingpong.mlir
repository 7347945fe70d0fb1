// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse --tile-plan-schedules \
// RUN:     --tile-loop-over-programs --canonicalize --cse --tile-to-sm90 2>/dev/null | FileCheck %s
// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse --tile-plan-schedules \
// RUN:     --tile-to-sm90 2>&1 >/dev/null | FileCheck %s --check-prefix=NOT-LOOPED
// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse \
// RUN:     --tile-plan-schedules="option=key-block=64,key-stages=3" --tile-loop-over-programs \
// RUN:     --canonicalize --cse --tile-to-sm90 2>/dev/null | FileCheck %s --check-prefix=FORCED

// NOT-LOOPED: kernel 'expanded_attention_causal' gets the simple schedule, not 'pingpong': its programs are not looped over

// Heads of 128 and 64 (queries, keys) and 128 (values).
// CHECK-LABEL: sm90.kernel @expanded_attention_causal
// CHECK-SAME: warpgroups = 3
// Keys as [heads, rows of all requests, width]; the RoPE key has no heads.
// CHECK-DAG: sizes: [16, %[[ROWS:.*]], 128], strides: [128, 2048, 1]
// CHECK-DAG: sizes: [%{{.*}}, 64], strides: [64, 1]
// CHECK-DAG: sm90.tensor_map %{{.*}} -> <64x64xbf16>
// CHECK-DAG: sm90.tensor_map %{{.*}} -> <128x64xbf16>
// CHECK: sm90.ring "first queries" full_count 1 empty_count 4
// CHECK-SAME: <stages = 1, parts = 1, tiles = [<64x128xbf16>, <64x64xbf16>]>
// CHECK: sm90.ring "second queries"
// CHECK: %[[KEYS:.*]] = sm90.ring "keys" full_count 1 empty_count 8
// CHECK-SAME: <stages = 2, parts = 1, tiles = [<128x128xbf16>, <128x64xbf16>]>
// CHECK: %[[VALUES:.*]] = sm90.ring "values" full_count 1 empty_count 8
// What is left holds a tile of each consumer that outputs go through.
// CHECK: %[[FIRST_OUT:.*]] = sm90.alloc offset {{[0-9]+}} : <64x64xbf16>
// CHECK: %[[SECOND_OUT:.*]] = sm90.alloc offset {{[0-9]+}} : <64x64xbf16>
// FORCED: sm90.ring "keys"
// FORCED-SAME: stages = 3, parts = 1, tiles = [<64x128xbf16>, <64x64xbf16>]

// CHECK: sm90.role "load" warpgroups 0 to 1 registers 56
// CHECK: sm90.elect
// CHECK: scf.for
// CHECK: scf.while
// The last block of keys, and for the other roles the item and its request.
// CHECK: sm90.acquire %[[KEYS]]
// CHECK: sm90.tma_load %{{.*}}[%{{.*}}, %{{.*}}, %c0{{.*}}] to
// CHECK: memref.store %{{.*}}, %[[COUNTERS:.*]][
// CHECK: memref.store %{{.*}}, %[[COUNTERS]][
// CHECK: sm90.publish
// The queries, then the other blocks down to the first, and the next item.
// CHECK: scf.for
// CHECK: sm90.acquire %[[KEYS]]
// CHECK: sm90.acquire %[[VALUES]]
// CHECK: memref.atomic_rmw addi %c1_i32{{.*}}, %[[COUNTERS]][%c0{{.*}}]
// CHECK: sm90.acquire %[[VALUES]]
// Behind the last item no request, and the counters as they were.
// CHECK: memref.store %c0_i32{{.*}}, %[[COUNTERS]][
// CHECK: sm90.publish
// CHECK: %[[DONE:.*]] = memref.atomic_rmw addi %c1_i32{{.*}}, %[[COUNTERS]][%c1{{.*}}]
// CHECK: arith.cmpi eq, %[[DONE]]
// CHECK: memref.store %c0_i32

// CHECK: sm90.role "first" warpgroups 1 to 2 registers 224
// One loop over the items that come, whatever their requests.
// CHECK: memref.load %[[COUNTERS]]
// CHECK-NOT: scf.for
// CHECK: scf.while
// The last block: masked, and zeros behind the request's end.
// CHECK: sm90.wgmma
// CHECK: sm90.wgmma_wait 0
// CHECK: arith.select
// CHECK: scf.if
// CHECK: sm90.zero_rows
// CHECK: sm90.named_barrier 10 warps 8
// The others: no mask; scores, then the product of the block before.
// CHECK: scf.for
// CHECK-NOT: dense<0xFF800000>
// CHECK: sm90.named_barrier 8 warps 8
// CHECK: %[[S:.*]] = sm90.wgmma %{{.*}} transpose_rhs
// CHECK: %[[SCORES:.*]] = sm90.wgmma %{{.*}}, %{{.*}}, %[[S]] transpose_rhs
// CHECK: sm90.wgmma_commit
// CHECK: sm90.await %[[VALUES]]
// CHECK: %[[O:.*]] = sm90.wgmma %{{.*}} : tensor<64x128xbf16, #sm90.fragment<column_split = 1>>
// CHECK: sm90.wgmma_commit
// CHECK: sm90.named_barrier arrive 9 warps 8
// CHECK: sm90.wgmma_wait 1, %[[SCORES]]
// CHECK: sm90.release %[[KEYS]]
// CHECK: math.exp2
// CHECK: sm90.wgmma_wait 0, %[[O]]
// CHECK: sm90.release %[[VALUES]]
// CHECK: sm90.warp_any
// CHECK: arith.truncf
// CHECK: scf.yield
// CHECK: memref.load %[[COUNTERS]]
// CHECK: sm90.store_staged %{{.*}} through %[[FIRST_OUT]] to

// CHECK: sm90.role "second" warpgroups 2 to 3 registers 224
// CHECK: sm90.named_barrier arrive 8 warps 8
// CHECK-NOT: sm90.zero_rows
// CHECK: sm90.named_barrier 10 warps 8
// CHECK: sm90.named_barrier 9 warps 8
// CHECK: sm90.named_barrier arrive 8 warps 8
func.func @wide(%q: tensor<?x16x128xbf16> {mla.input = "q"}, %q_pe: tensor<?x16x64xbf16> {mla.input = "q_pe"},
                %k: tensor<?x16x128xbf16> {mla.input = "k"}, %k_pe: tensor<?x64xbf16> {mla.input = "k_pe"},
                %v: tensor<?x16x128xbf16> {mla.input = "v"}, %batch: !mla.batch)
    -> (tensor<?x16x128xbf16> {mla.output = "output"}) {
  %o = mla.expanded_attention query(%q, %q_pe : tensor<?x16x128xbf16>, tensor<?x16x64xbf16>)
      keys(%k, %k_pe : tensor<?x16x128xbf16>, tensor<?x64xbf16>) values(%v : tensor<?x16x128xbf16>)
      over %batch : <query_len = ?> scale 0.25 -> tensor<?x16x128xbf16>
  return %o : tensor<?x16x128xbf16>
}

// A chunk of context: keys and values bounded by the chunk's rows, f32 out.
// CHECK-LABEL: sm90.kernel @expanded_attention_chunk
// CHECK: sm90.role "first"
func.func @chunk(%q: tensor<?x16x64xbf16> {mla.input = "q"}, %batch: !mla.batch,
                 %k: tensor<?x16x64xbf16> {mla.input = "k"}, %v: tensor<?x16x64xbf16> {mla.input = "v"})
    -> (tensor<?x16x64xf32> {mla.output = "output"}) {
  %chunk = arith.constant 0 : index
  %o = mla.expanded_attention query(%q : tensor<?x16x64xbf16>) keys(%k : tensor<?x16x64xbf16>)
      values(%v : tensor<?x16x64xbf16>) over %batch : <query_len = ?> chunk %chunk
      scale 0.25 -> tensor<?x16x64xf32>
  return %o : tensor<?x16x64xf32>
}

// From a partial: its rows are under way before the first scores, and become the state
// behind them.
// CHECK-LABEL: sm90.kernel @expanded_attention_causal_onto
// CHECK: sm90.role "load"
// CHECK-NOT: sm90.load
// CHECK: sm90.role "first"
// CHECK: %[[O:.*]] = sm90.load %{{.*}} paired {{.*}} -> tensor<64x64xf32, #sm90.fragment<column_split = 1>>
// CHECK: %[[L:.*]] = sm90.load %{{.*}} -> tensor<64xf32, #sm90.rows>
// CHECK: sm90.await
// CHECK: sm90.wgmma %
// CHECK: sm90.wgmma_wait 0
// CHECK: math.absf %[[L]]
// The sum as shares of four lanes.
// CHECK: %[[SHARES:.*]] = sm90.broadcast %{{.*}} -> tensor<64x4xf32, #sm90.partial>
// CHECK: arith.mulf %[[SHARES]], %{{.*}} : tensor<64x4xf32, #sm90.partial>
// CHECK: sm90.reduce{{ +}}max
// CHECK: arith.mulf %[[O]]
// CHECK: sm90.warp_any
// CHECK: scf.for
func.func @onto(%q: tensor<?x16x64xbf16> {mla.input = "q"}, %batch: !mla.batch, %p: tensor<?x16x64xf32> {mla.input = "p"},
                %lse: tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>> {mla.input = "lse"})
    -> (tensor<?x16x64xbf16> {mla.output = "output"}) {
  %o = mla.expanded_attention query(%q : tensor<?x16x64xbf16>) keys(%q : tensor<?x16x64xbf16>)
      values(%q : tensor<?x16x64xbf16>) over %batch : <query_len = ?>
      onto(%p, %lse : tensor<?x16x64xf32>, tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>)
      scale 0.25 -> tensor<?x16x64xbf16>
  return %o : tensor<?x16x64xbf16>
}

// Three stages of keys and values leave no room: every thread stores for itself.
// CHECK-LABEL: sm90.kernel @expanded_attention_causal_0
// CHECK: sm90.ring "keys"
// CHECK-SAME: stages = 3
// CHECK-NOT: sm90.alloc
// CHECK: sm90.store %{{.*}} paired
func.func @no_room(%q: tensor<?x16x128xbf16> {mla.input = "q"}, %k: tensor<?x16x128xbf16> {mla.input = "k"},
                   %v: tensor<?x16x128xbf16> {mla.input = "v"}, %batch: !mla.batch)
    -> (tensor<?x16x128xbf16> {mla.output = "output"}) {
  %o = mla.expanded_attention query(%q : tensor<?x16x128xbf16>) keys(%k : tensor<?x16x128xbf16>)
      values(%v : tensor<?x16x128xbf16>) over %batch : <query_len = ?> scale 0.25
      -> tensor<?x16x128xbf16>
  return %o : tensor<?x16x128xbf16>
}
