// RUN: mla-opt %s --mla-import-config=config=%data/configs/deepseek_v3_tiny.json --mla-lower-to-tile="target=cpu" -o %t.cpu.mlir
// RUN: FileCheck %s --input-file=%t.cpu.mlir
// RUN: mla-opt %s --mla-import-config=config=%data/configs/deepseek_v3_tiny.json --mla-lower-to-tile="target=sm90 absorb=offline" -o %t.sm90.mlir
// RUN: FileCheck %s --input-file=%t.sm90.mlir --check-prefixes=CHECK,OFFLINE
// RUN: mla-opt %t.sm90.mlir --tile-to-sm90 --sm90-to-nvvm | FileCheck %s --check-prefix=NVVM
// RUN: mla-opt %t.sm90.mlir --tile-to-sm90 --sm90-to-nvvm --nvvm-to-llvm | FileCheck %s --check-prefix=LLVM
// RUN: mla-opt %t.cpu.mlir --tile-to-cpu-llvm="lanes=8" | FileCheck %s --check-prefix=CPU

// The whole way of a configuration. Stages of mla-lower-to-tile:
//   1. mla-choose-form            both forms under a condition in @prefill
//   2. mla-absorb-weights         head projections around absorbed attention
//   3. mla-hoist-prepare          folded weights into @prepare
//   4. mla-chunk-context          context in chunks, merged by LSE
//   5. mla-fuse-merge             attention goes on from what it would be merged with
//   6. mla-split-kv               KV splits of decode
//   7. mla-join-projections       neighbouring parts of a weight by one product (scheduled kernels)
//   8. mla-fuse-append            norm, rotation and write of new rows at once
//   9. mla-sum-parts              down-projections of few rows in parts of the depth
//  10. convert-mla-to-tile        plans and kernels

// OFFLINE: tile.plan @prepare
// OFFLINE: tile.buffer derived "w_q_uk"
// The module keeps what it describes (mla.model), but no op of the dialect.
// CHECK-NOT: {{^ *(%.* = )?mla[.]}}
// CHECK: tile.plan @prefill {
// CHECK: scf.if
// CHECK: scf.for
// CHECK: tile.plan @decode max_query_len 1 {
// CHECK: tile.launch @absorbed_attention
// CHECK: tile.kernel

// NVVM-NOT: sm90.
// NVVM: llvm.func @{{.*}} nvvm.kernel
// LLVM-NOT: scf.
// LLVM: llvm.func @
// CPU-NOT: tile.
// CPU: llvm.func @
