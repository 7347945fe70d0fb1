// One kernel with at most 16 rows, rank 512, no rope, pages of 16.

// RUN: mla-opt %s --pass-pipeline='builtin.module(tile-plan-schedules{schedule=relay option=left-stages=2,early=1,lazy-threshold=0})' 2>&1 | FileCheck %s --check-prefix=RELAY
// RELAY: remark: kernel 'few_rows': schedule relay left-stages=2 right-stages=
// RELAY: tile.schedule = #tile.relay<left_stages = 2, right_stages = {{[0-9]+}}, early = 1, score_registers = 168, output_registers = 168, steps_per_turn = 1, lazy_threshold = 0.000000e+00>

// RUN: mla-opt %s --pass-pipeline='builtin.module(tile-plan-schedules{schedule=simple})' 2>/dev/null | FileCheck %s --check-prefix=SIMPLE
// SIMPLE: tile.schedule = #tile.simple

// RUN: not mla-opt %s --pass-pipeline='builtin.module(tile-plan-schedules{schedule=relay option=left-stages=4})' 2>&1 | FileCheck %s --check-prefix=DEEP
// DEEP: error: kernel 'few_rows': not relay: left-stages 4, right-stages 2 and rope-stages 0 take 239616 bytes of shared memory, a CTA has 232448

// RUN: not mla-opt %s --pass-pipeline='builtin.module(tile-plan-schedules{schedule=relay option=rope-stages=2})' 2>&1 | FileCheck %s --check-prefix=ROPE
// ROPE: error: kernel 'few_rows': not relay: rope-stages: there are no rope keys

// RUN: not mla-opt %s --pass-pipeline='builtin.module(tile-plan-schedules{schedule=fast})' 2>&1 | FileCheck %s --check-prefix=NAME
// NAME: error: schedule: expected auto, simple, relay, stream, pingpong, scores or product, got 'fast'

// RUN: not mla-opt %s --pass-pipeline='builtin.module(tile-plan-schedules{option=early=none})' 2>&1 | FileCheck %s --check-prefix=VALUE
// VALUE: error: schedule: early: expected an integer from 0 to 113, got 'none'

// RUN: not mla-opt %s --pass-pipeline='builtin.module(tile-plan-schedules{schedule=relay option=left-stages=1})' 2>&1 | FileCheck %s --check-prefix=LEAST
// LEAST: error: kernel 'few_rows': not relay: left-stages: expected at least 2, got 1

// RUN: mla-opt %s --pass-pipeline='builtin.module(tile-plan-schedules{schedule=relay option=gate=none,steps-per-turn=1})' 2>/dev/null | FileCheck %s --check-prefix=NONE
// NONE: tile.schedule = #tile.relay<{{.*}}early = -1,{{.*}}steps_per_turn = 1

tile.kernel @few_rows(%pool: memref<?xbf16>, %table: memref<?xi32>, %q: memref<?xbf16>,
                      %out: memref<?xf32>, %len: index) attributes {tile.max_rows = 16 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %pv = memref.reinterpret_cast %pool to offset: [0], sizes: [%len, 64, 512], strides: [32768, 512, 1]
      : memref<?xbf16> to memref<?x64x512xbf16, strided<[32768, 512, 1]>>
  %qv = memref.reinterpret_cast %q to offset: [0], sizes: [16, 512], strides: [512, 1]
      : memref<?xbf16> to memref<16x512xbf16, strided<[512, 1]>>
  scf.for %item = %c0 to %len step %c1 {
    %query = tile.load %qv[%item, %c0] : memref<16x512xbf16, strided<[512, 1]>> -> tensor<64x512xbf16>
    %m, %l, %o = tile.attend queries(%query : tensor<64x512xbf16>)
        keys(%pv : memref<?x64x512xbf16, strided<[32768, 512, 1]>>)
        pages(%table : memref<?xi32>) range %c0 to %len limit %len
        {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x512xf32>
  }
  tile.return
}
