// B06: keys that each row's marks name, in the ping-pong schedule.
//
// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse --tile-plan-schedules --tile-loop-over-programs --canonicalize --cse --tile-to-sm90 2>/dev/null | FileCheck %s
// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse --tile-plan-schedules -o /dev/null 2>&1 | FileCheck %s --check-prefix=REPORT
// RUN: not mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse --tile-plan-schedules="schedule=pingpong option=key-block=80" 2>&1 | FileCheck %s --check-prefix=WORDS
//
// Without marks it is 112 keys: a block is of whole words.
// REPORT: kernel 'expanded_attention_marked': schedule pingpong key-block=96
// WORDS: error: kernel 'expanded_attention_marked': not pingpong: blocks of 80 keys are not whole words of marks, of 32 keys each

// Words are under way before the scores of their block are waited for, and mask what the diagonal leaves: in the last
// block, in those that the diagonal may cross as well, and alone in the others. Rows end before their last block does.
// CHECK-LABEL: sm90.kernel @expanded_attention_marked
// CHECK: sm90.role "load"
// CHECK-NOT: sm90.load
// CHECK: sm90.role "first"
// CHECK: scf.while
// CHECK: %[[LAST:.*]] = arith.subi %{{.*}}, %c1 : index
// CHECK: arith.minsi %{{.*}}, %[[LAST]] : index
// CHECK: %[[A:.*]] = sm90.load %{{.*}} -> tensor<64xi32, #sm90.rows>
// CHECK: arith.minsi %{{.*}}, %[[LAST]] : index
// CHECK: %[[B:.*]] = sm90.load %{{.*}} -> tensor<64xi32, #sm90.rows>
// CHECK: arith.minsi %{{.*}}, %[[LAST]] : index
// CHECK: %[[C:.*]] = sm90.load %{{.*}} -> tensor<64xi32, #sm90.rows>
// CHECK-NOT: sm90.load
// CHECK: sm90.await
// CHECK: sm90.wgmma %
// CHECK: %[[SCORES:.*]] = sm90.wgmma_wait 0
// CHECK: %[[MARKED:.*]] = sm90.test_bits %[[A]], %[[B]], %[[C]] : {{.*}} -> tensor<64x96xi1, #sm90.fragment<column_split = 1>>
// CHECK: %[[MASKED:.*]] = arith.select %{{.*}}, %[[SCORES]]
// CHECK-NEXT: arith.select %[[MARKED]], %[[MASKED]]
// CHECK: math.exp2
// CHECK: scf.for
// CHECK-COUNT-3: sm90.load %{{.*}} -> tensor<64xi32, #sm90.rows>
// CHECK-NOT: sm90.load
// CHECK: sm90.await
// CHECK: sm90.wgmma %
// CHECK: %[[NEXT:.*]] = sm90.wgmma_wait 1
// CHECK: %[[NAMED:.*]] = sm90.test_bits
// CHECK: %[[BOUND:.*]] = arith.select %{{.*}}, %[[NEXT]]
// CHECK-NEXT: arith.select %[[NAMED]], %[[BOUND]]
// CHECK: scf.yield
// CHECK: scf.for
// CHECK-NOT: sm90.wgmma
// CHECK: %[[D:.*]] = sm90.load %{{.*}} -> tensor<64xi32, #sm90.rows>
// CHECK: %[[E:.*]] = sm90.load %{{.*}} -> tensor<64xi32, #sm90.rows>
// CHECK: %[[F:.*]] = sm90.load %{{.*}} -> tensor<64xi32, #sm90.rows>
// CHECK-NEXT: sm90.await
// CHECK-NEXT: sm90.named_barrier 8 warps 8
// CHECK: sm90.wgmma %
// CHECK: %[[REST:.*]] = sm90.wgmma_wait 1
// CHECK: %[[ALONE:.*]] = sm90.test_bits %[[D]], %[[E]], %[[F]]
// CHECK-NEXT: arith.select %[[ALONE]], %[[REST]]
// CHECK: scf.yield
// CHECK: sm90.role "second"
// CHECK-COUNT-3: sm90.test_bits
// CHECK-NOT: sm90.test_bits
func.func @marked(%q: tensor<?x16x160xbf16> {mla.input = "q"}, %k: tensor<?x16x160xbf16> {mla.input = "k"},
                  %selected: tensor<?x48xi32> {mla.input = "selected"}, %batch: !mla.batch)
    -> (tensor<?x16x160xbf16> {mla.output = "output"}) {
  %marks = mla.mark_selected %selected over %batch : tensor<?x48xi32>, !mla.batch -> tensor<?x?xi32>
  %o = mla.expanded_attention query(%q : tensor<?x16x160xbf16>) keys(%k : tensor<?x16x160xbf16>)
      values(%k : tensor<?x16x160xbf16>) over %batch : <query_len = ?> marks(%marks : tensor<?x?xi32>)
      scale 0.25 -> tensor<?x16x160xbf16>
  return %o : tensor<?x16x160xbf16>
}
