// 32 rows of 256 columns over codes, with a window: spilled registers, so that no package was written.
//
// RUN: mla-compile %s --target=sm_90a -o %t.mlac 2>&1 | FileCheck %s

// CHECK-NOT: error
// CHECK: .mlac: {{.*}} MB
// CHECK-NOT: error

!kv = !mla.cache<page_size = 64, fields = [key: 2x256, value: 2x256], element = bf16, format = "kv_nhd_fp8">
func.func @attend(%q: tensor<?x16x256xbf16> {mla.input = "query"}, %batch: !mla.batch<query_len = 4>, %kv: !kv)
    -> (tensor<?x16x256xbf16> {mla.output = "output"}) {
  %o = mla.grouped_attention query(%q : tensor<?x16x256xbf16>) keys(%kv : !kv) values(%kv : !kv)
      over %batch : !mla.batch<query_len = 4> window 100 scale 0.1 -> tensor<?x16x256xbf16>
  return %o : tensor<?x16x256xbf16>
}
