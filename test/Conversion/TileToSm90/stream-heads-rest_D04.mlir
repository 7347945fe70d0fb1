// Heads that end within a panel: the first copies to a stage write zeros behind a head, whose boxes take longer. The stage
// keeps them, and later copies end with the head: 64 and 32 columns of 96.
// RUN: mla-opt %s --mla-lower-to-tile=target=sm90 --tile-plan-schedules --tile-swap-operands --convert-tile-to-sm90 2>/dev/null | FileCheck %s
// RUN: sed 's/8x96/8x128/g; s/x32x96x/x32x128x/g' %s | mla-opt --mla-lower-to-tile=target=sm90 --tile-plan-schedules --tile-swap-operands --convert-tile-to-sm90 2>/dev/null | FileCheck %s --check-prefix=WHOLE

// CHECK: sm90.kernel @grouped_attention
// CHECK: %[[ALL:.*]] = sm90.tensor_map %{{.*}} : memref<8x?x64x96xbf16, {{.*}}> -> <64x64xbf16>
// CHECK: %[[REST:.*]] = sm90.tensor_map %{{.*}} : memref<8x?x64x96xbf16, {{.*}}> -> <64x32xbf16>
// CHECK: %[[KEYS:.*]] = sm90.ring "keys" {{.*}} <stages = [[STAGES:[0-9]+]],
// CHECK: sm90.role "load"
// CHECK: sm90.acquire %[[KEYS]][%{{.*}}] keeps
// CHECK: %[[AGAIN:.*]] = arith.cmpi eq, %[[FRESH:.*]], %c0
// CHECK: scf.if %[[AGAIN]]
// CHECK: sm90.expect %[[KEYS]]{{.*}} part 0 bytes 12288
// CHECK: sm90.slice %{{.*}}[0] : <64x96xbf16> -> <64x64xbf16>
// CHECK: sm90.tma_load %[[ALL]][
// CHECK: sm90.slice %{{.*}}[64] : <64x96xbf16> -> <64x32xbf16>
// CHECK: sm90.tma_load %[[REST]][
// CHECK: } else {
// CHECK: sm90.expect %[[KEYS]]{{.*}} part 0 bytes 16384
// CHECK: sm90.tma_load %[[ALL]][{{.*}} : <64x64xbf16>, <64x96xbf16>
// CHECK: }
// CHECK: arith.subi %[[FRESH]], %c1

// WHOLE: sm90.kernel @grouped_attention
// WHOLE-NOT: keeps

!keys = !mla.cache<page_size = 64, fields = [key: 8x96], element = bf16, format = "k_nhd">
!values = !mla.cache<page_size = 64, fields = [value: 8x96], element = bf16, format = "v_nhd">
func.func @decode(%q: tensor<?x32x96xbf16> {mla.input = "q"}, %batch: !mla.batch<query_len = 1>, %keys: !keys, %values: !values {mla.pool = "values"})
    -> (tensor<?x32x96xbf16> {mla.output = "output"}) {
  %o = mla.grouped_attention query(%q : tensor<?x32x96xbf16>) keys(%keys : !keys) values(%values : !values)
      over %batch : !mla.batch<query_len = 1> scale 0.1 -> tensor<?x32x96xbf16>
  return %o : tensor<?x32x96xbf16>
}
