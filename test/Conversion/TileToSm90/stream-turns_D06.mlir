// Heads of 64 columns: a block arrives sooner than one consumer ends with one, so that two take blocks in turns, each with
// queries, weights and a softmax of its own; at the end the second gives its state to the first. Of wider heads memory is the
// bound and there is one; two tiles of rows that share keys are not in turns either.
// RUN: mla-opt %s --mla-lower-to-tile=target=sm90 --tile-plan-schedules --tile-swap-operands --convert-tile-to-sm90 2>/dev/null | FileCheck %s
// RUN: sed 's/8x64/8x128/g; s/x32x64x/x32x128x/g' %s | mla-opt --mla-lower-to-tile=target=sm90 --tile-plan-schedules --tile-swap-operands --convert-tile-to-sm90 2>/dev/null | FileCheck %s --check-prefix=WIDE
// RUN: sed 's/8x64/8x96/g; s/x32x64x/x32x96x/g' %s | mla-opt --mla-lower-to-tile=target=sm90 --tile-plan-schedules --tile-swap-operands --convert-tile-to-sm90 2>/dev/null | FileCheck %s --check-prefix=WIDE
// RUN: sed 's/query_len = 1/query_len = 12/g' %s | mla-opt --mla-lower-to-tile=target=sm90 --tile-plan-schedules --tile-swap-operands --convert-tile-to-sm90 2>/dev/null | FileCheck %s --check-prefix=SIDES

// CHECK: sm90.kernel @grouped_attention
// No second program on a multiprocessor, which would be one of the next launch.
// CHECK-SAME: tile.resident_programs = 1
// CHECK-SAME: warpgroups = 3
// CHECK: %[[KEYS:.*]] = sm90.ring "keys" full_count 1 empty_count 4 : <stages = 4, {{.*}}tiles = [<64x64xbf16>, <64x64xbf16>]>
// CHECK: %[[QUERIES:.*]] = sm90.ring "queries" full_count 1 empty_count 8 : <stages = 2, parts = 1, tiles = [<8x64xbf16>, <8x64xbf16>]>
// CHECK: %[[STATE:.*]] = sm90.ring "state 1" full_count 4 empty_count 4 : <stages = 3, parts = 1, tiles = [<4x128xf32, linear>]>

// Registers as the launch gives: one of the next kernel has room beside it. The queries twice.
// CHECK: sm90.role "load" warpgroups 0 to 1 {
// CHECK: sm90.expect %[[QUERIES]]{{.*}} bytes 2048
// CHECK-COUNT-2: sm90.tma_load

// CHECK: sm90.role "math" warpgroups 1 to 2 {
// CHECK: sm90.stage_tile %[[QUERIES]][%{{.*}}] tile 0
// Every second block, and a stage of every two.
// CHECK: %[[STEP:.*]] = arith.muli %{{.*}}, %c2
// CHECK: scf.for %{{.*}} step %[[STEP]]
// CHECK: sm90.await %[[KEYS]]
// CHECK: sm90.wgmma
// CHECK: sm90.zero_rows
// CHECK: sm90.release %[[KEYS]]
// CHECK-NEXT: sm90.stage_next
// CHECK-NEXT: sm90.stage_next
// CHECK: scf.yield
// CHECK: sm90.await %[[STATE]]
// CHECK: sm90.unpark
// CHECK: sm90.release %[[STATE]]
// CHECK: sm90.reduce max
// CHECK-COUNT-2: sm90.unpark
// CHECK-NOT: sm90.unpark
// CHECK: sm90.store

// CHECK: sm90.role "math1" warpgroups 2 to 3 {
// CHECK: sm90.stage_tile %[[QUERIES]][%{{.*}}] tile 1
// CHECK: scf.for
// Of its own block.
// CHECK: sm90.zero_rows
// CHECK: scf.yield
// CHECK: sm90.acquire %[[STATE]]
// CHECK: sm90.park
// CHECK-NEXT: sm90.publish %[[STATE]]
// CHECK-COUNT-2: sm90.park
// CHECK-NOT: sm90.store
// CHECK: sm90.return

// WIDE: sm90.kernel @grouped_attention
// WIDE-SAME: warpgroups = 2
// WIDE-NOT: "state

// SIDES: sm90.kernel @grouped_attention
// SIDES-SAME: warpgroups = 3
// SIDES-NOT: "state

!keys = !mla.cache<page_size = 64, fields = [key: 8x64], element = bf16, format = "k_nhd">
!values = !mla.cache<page_size = 64, fields = [value: 8x64], element = bf16, format = "v_nhd">
func.func @decode(%q: tensor<?x32x64xbf16> {mla.input = "q"}, %batch: !mla.batch<query_len = 1>, %keys: !keys, %values: !values {mla.pool = "values"})
    -> (tensor<?x32x64xbf16> {mla.output = "output"}) {
  %o = mla.grouped_attention query(%q : tensor<?x32x64xbf16>) keys(%keys : !keys) values(%values : !values)
      over %batch : !mla.batch<query_len = 1> scale 0.1 -> tensor<?x32x64xbf16>
  return %o : tensor<?x32x64xbf16>
}
