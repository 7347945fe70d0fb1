// Products, waits and barriers.
// RUN: mla-opt %s --convert-sm90-to-nvvm | FileCheck %s
// RUN: mla-opt %s --pass-pipeline='builtin.module(convert-sm90-to-nvvm,llvm.func(convert-nvvm-kernel-to-llvm))' \
// RUN:   | FileCheck %s --check-prefix=LLVM

#f1 = #sm90.fragment<column_split = 1>
#f2 = #sm90.fragment<column_split = 2>

// The first step overwrites a zero accumulator, the second adds to it. B is
// stored [N, K]: K-major, "col". A step of 16 along K is 32 bytes, 2 units. Low
// words of descriptors are constants: 1024 bytes, where dynamic shared memory
// starts, are 64 units. The high word says stride 1024 and 128-byte swizzle.
// CHECK-LABEL: llvm.func @k_major
// CHECK:         nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
// CHECK:         nvvm.barrier0
// CHECK:         nvvm.wgmma.fence.aligned
// CHECK:         %[[ACC:.*]] = llvm.mlir.undef
// CHECK:         %[[ALOW:.*]] = arith.extui %c65600_i32{{.*}} : i32 to i64
// CHECK:         %[[HIGH:.*]] = arith.constant 4611686293305294848 : i64
// CHECK:         %[[A:.*]] = arith.ori %[[ALOW]], %[[HIGH]]
// CHECK:         %[[BLOW:.*]] = arith.extui %c66112_i32{{.*}} : i32 to i64
// CHECK:         %[[B:.*]] = arith.ori %[[BLOW]]
// CHECK:         %[[D0:.*]] = nvvm.wgmma.mma_async %[[A]], %[[B]], %[[ACC]], <m = 64, n = 64, k = 16>, D[<f32>, <zero>], A[<bf16>, <one>, <row>], B[<bf16>, <one>, <col>]
// CHECK:         arith.extui %c65602_i32{{.*}} : i32 to i64
// CHECK:         arith.extui %c66114_i32{{.*}} : i32 to i64
// CHECK:         nvvm.wgmma.mma_async %{{.*}}, %{{.*}}, %[[D0]], {{.*}} D[<f32>, <one>]
// CHECK:         nvvm.wgmma.commit.group.sync.aligned
// CHECK:         llvm.inline_asm has_side_effects {{.*}}"wgmma.wait_group.sync.aligned 0;", "=f,=f
// LLVM-LABEL: llvm.func @k_major
// LLVM-NOT:      scf.
// LLVM-NOT:      arith.
// LLVM-NOT:      nvvm.wgmma.mma_async
// LLVM:          llvm.inline_asm has_side_effects {{.*}}wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
sm90.kernel @k_major(%y: memref<?xf32>) attributes {warpgroups = 1 : i32, shared_bytes = 16384 : i64} {
  %c0 = arith.constant 0 : index
  %a = sm90.alloc offset 0 : !sm90.smem<64x32xbf16>
  %b = sm90.alloc offset 8192 : !sm90.smem<64x32xbf16>
  sm90.proxy_fence
  sm90.barrier
  sm90.wgmma_fence
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #f1>
  %p = sm90.wgmma %a, %b, %zero transpose_rhs
      : !sm90.smem<64x32xbf16>, !sm90.smem<64x32xbf16> -> tensor<64x64xf32, #f1>
  sm90.wgmma_commit
  %r = sm90.wgmma_wait 0, %p : tensor<64x64xf32, #f1>
  %s = sm90.reduce sum %r : tensor<64x64xf32, #f1> -> tensor<64xf32, #sm90.rows>
  sm90.store %s, %y[%c0] : tensor<64xf32, #sm90.rows>, memref<?xf32>
  sm90.return
}

// B stored [K, N]: MN-major, "row", leading offset of one panel (8192 bytes,
// 512 units). Warpgroup 1 starts two panels on: 1024 units.
// CHECK-LABEL: llvm.func @mn_major
// CHECK:         %[[PART:.*]] = arith.muli %{{.*}}, %c1024_i32{{.*}}
// CHECK:         arith.addi %[[PART]], %c512_i32
// CHECK:         %c33554496_i32{{.*}} = arith.constant 33554496 : i32
// CHECK:         nvvm.wgmma.mma_async {{.*}} <m = 64, n = 128, k = 16>, D[<f32>, <one>], A[<f16>, <one>, <row>], B[<f16>, <one>, <row>]
// CHECK:         nvvm.shfl.sync bfly
// CHECK:         nvvm.barrier0
sm90.kernel @mn_major(%y: memref<?xf32>, %s: f32)
    attributes {warpgroups = 2 : i32, shared_bytes = 41472 : i64} {
  %c0 = arith.constant 0 : index
  %a = sm90.alloc offset 0 : !sm90.smem<64x64xf16>
  %b = sm90.alloc offset 8192 : !sm90.smem<64x256xf16>
  %scratch = sm90.alloc offset 40960 : !sm90.smem<2x64xf32, linear>
  %acc = sm90.splat %s : f32 -> tensor<64x256xf32, #f2>
  sm90.wgmma_fence
  %p = sm90.wgmma %a, %b, %acc
      : !sm90.smem<64x64xf16>, !sm90.smem<64x256xf16> -> tensor<64x256xf32, #f2>
  sm90.wgmma_commit
  %r = sm90.wgmma_wait 0, %p : tensor<64x256xf32, #f2>
  %m = sm90.reduce max %r scratch %scratch : !sm90.smem<2x64xf32, linear>
      : tensor<64x256xf32, #f2> -> tensor<64xf32, #sm90.rows>
  sm90.store %m, %y[%c0] : tensor<64xf32, #sm90.rows>, memref<?xf32>
  sm90.return
}

// 512 threads are launched with 128 registers: 128 accumulators of one instruction would not fit,
// so that two have 128 columns each. The second's start two panels on: 16384 bytes, 1024 units.
// CHECK-LABEL: llvm.func @pieces
// CHECK:         %c33555008_i32{{.*}} = arith.constant
// CHECK-COUNT-4: nvvm.wgmma.mma_async {{.*}} <m = 64, n = 128, k = 16>
// CHECK:         %c33556032_i32{{.*}} = arith.constant
// CHECK-COUNT-4: nvvm.wgmma.mma_async {{.*}} <m = 64, n = 128, k = 16>
// CHECK-NOT:     nvvm.wgmma.mma_async
// CHECK:         nvvm.wgmma.commit.group.sync.aligned
// CHECK-LABEL: llvm.func @whole
// CHECK-COUNT-4: nvvm.wgmma.mma_async {{.*}} <m = 64, n = 256, k = 16>
sm90.kernel @pieces(%y: memref<?xf32>)
    attributes {warpgroups = 4 : i32, shared_bytes = 65536 : i64} {
  sm90.role "a" warpgroups 0 to 1 {
    %c0 = arith.constant 0 : index
    %a = sm90.alloc offset 0 : !sm90.smem<64x64xf16>
    %v = sm90.alloc offset 8192 : !sm90.smem<64x256xf16>
    %acc = arith.constant dense<1.0> : tensor<64x256xf32, #f1>
    sm90.wgmma_fence
    %p = sm90.wgmma %a, %v, %acc : !sm90.smem<64x64xf16>, !sm90.smem<64x256xf16> -> tensor<64x256xf32, #f1>
    sm90.wgmma_commit
    %r = sm90.wgmma_wait 0, %p : tensor<64x256xf32, #f1>
    %s = sm90.reduce sum %r : tensor<64x256xf32, #f1> -> tensor<64xf32, #sm90.rows>
    sm90.store %s, %y[%c0] : tensor<64xf32, #sm90.rows>, memref<?xf32>
  }
  sm90.return
}

sm90.kernel @whole(%y: memref<?xf32>)
    attributes {warpgroups = 3 : i32, shared_bytes = 65536 : i64} {
  sm90.role "a" warpgroups 0 to 1 {
    %c0 = arith.constant 0 : index
    %a = sm90.alloc offset 0 : !sm90.smem<64x64xf16>
    %v = sm90.alloc offset 8192 : !sm90.smem<64x256xf16>
    %acc = arith.constant dense<1.0> : tensor<64x256xf32, #f1>
    sm90.wgmma_fence
    %p = sm90.wgmma %a, %v, %acc : !sm90.smem<64x64xf16>, !sm90.smem<64x256xf16> -> tensor<64x256xf32, #f1>
    sm90.wgmma_commit
    %r = sm90.wgmma_wait 0, %p : tensor<64x256xf32, #f1>
    %s = sm90.reduce sum %r : tensor<64x256xf32, #f1> -> tensor<64xf32, #sm90.rows>
    sm90.store %s, %y[%c0] : tensor<64xf32, #sm90.rows>, memref<?xf32>
  }
  sm90.return
}
