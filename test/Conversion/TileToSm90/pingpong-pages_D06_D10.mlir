// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse --tile-plan-schedules \
// RUN:     --tile-loop-over-programs --canonicalize --cse --tile-to-sm90 2>/dev/null | FileCheck %s
// RUN: not mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse \
// RUN:     --tile-plan-schedules="schedule=pingpong option=key-block=80" 2>&1 | FileCheck %s --check-prefix=BOXES

// BOXES: blocks of 80 keys are not boxes of pages of 32 and 32 rows

// Keys and values of a prompt lie in pages of 32 rows of two heads: a block of 128 keys is four
// boxes, whose head is a column. Four numbers of pages are registers of the thread that copies.
// CHECK-LABEL: sm90.kernel @grouped_prompts
// CHECK-DAG: sizes: [%{{.*}}, 32, 256], strides: [%{{.*}}, 256, 1]
// CHECK-DAG: sm90.tensor_map %{{.*}} -> <32x64xbf16>
// CHECK: %[[KEYS:.*]] = sm90.ring "keys" full_count 1 empty_count 8
// CHECK: %[[VALUES:.*]] = sm90.ring "values" full_count 1 empty_count 8
// CHECK: sm90.role "load" warpgroups 0 to 1 registers 72
// CHECK: sm90.elect
// The last block's pages are asked for, as far as the request goes,
// CHECK: scf.while
// CHECK-COUNT-4: arith.minsi
// CHECK: sm90.acquire %[[KEYS]]
// CHECK-COUNT-4: sm90.tma_load
// the others' follow each other in the block table.
// CHECK: scf.for
// CHECK-NOT: arith.minsi
// CHECK: %[[ENTRY:.*]] = arith.divui %{{.*}}, %c32
// CHECK: memref.load %{{.*}}[%[[ENTRY]]]
// CHECK: arith.addi %[[ENTRY]], %c1
// CHECK: arith.addi %[[ENTRY]], %c2
// CHECK: arith.addi %[[ENTRY]], %c3
// CHECK: sm90.acquire %[[KEYS]]
// CHECK: sm90.acquire %[[VALUES]]
!both = !mla.cache<page_size = 32, fields = [key: 2x128, value: 2x128], element = bf16, format = "kv_nhd">
func.func @prompt(%q: tensor<?x8x128xbf16> {mla.input = "q"}, %batch: !mla.batch, %kv: !both)
    -> (tensor<?x8x128xbf16> {mla.output = "output"}) {
  %o = mla.grouped_attention query(%q : tensor<?x8x128xbf16>) keys(%kv : !both) values(%kv : !both)
      over %batch : !mla.batch scale 0.088 -> tensor<?x8x128xbf16>
  return %o : tensor<?x8x128xbf16>
}
