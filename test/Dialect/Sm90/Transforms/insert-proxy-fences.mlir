// RUN: mla-opt %s --pass-pipeline='builtin.module(sm90.kernel(sm90-insert-proxy-fences))' | FileCheck %s
// RUN: mla-opt %s --pass-pipeline='builtin.module(sm90.kernel(sm90-insert-proxy-fences,sm90-insert-proxy-fences))' | FileCheck %s

// A fence after the wait for copies, before the barrier; none before a barrier
// across which only reads go.
// CHECK-LABEL: sm90.kernel @loop
// CHECK:       sm90.copy_wait 0
// CHECK-NEXT:  sm90.proxy_fence
// CHECK-NEXT:  sm90.barrier
// CHECK:       scf.for
// CHECK:         arith.truncf
// CHECK-NEXT:    sm90.barrier
// CHECK-NEXT:    sm90.store_shared
// CHECK-NEXT:    sm90.proxy_fence
// CHECK-NEXT:    sm90.barrier
// CHECK-NEXT:  }
sm90.kernel @loop(%x: memref<?xbf16>, %n: index) attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1]>>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #sm90.fragment<column_split = 1>>
  %s = sm90.alloc : !sm90.smem<64x64xbf16>
  sm90.copy %v[%c0, %c0] to %s vector_bytes 16 : memref<?x64xbf16, strided<[64, 1]>>, !sm90.smem<64x64xbf16>
  sm90.copy_commit
  sm90.copy_wait 0
  sm90.barrier
  scf.for %i = %c0 to %n step %c1 {
    sm90.wgmma_fence
    %0 = sm90.wgmma %s, %s, %zero transpose_rhs : !sm90.smem<64x64xbf16>, !sm90.smem<64x64xbf16> -> tensor<64x64xf32, #sm90.fragment<column_split = 1>>
    sm90.wgmma_commit
    %1 = sm90.wgmma_wait 0, %0 : tensor<64x64xf32, #sm90.fragment<column_split = 1>>
    %2 = arith.truncf %1 : tensor<64x64xf32, #sm90.fragment<column_split = 1>> to tensor<64x64xbf16, #sm90.fragment<column_split = 1>>
    sm90.barrier
    sm90.store_shared %2, %s : tensor<64x64xbf16, #sm90.fragment<column_split = 1>>, !sm90.smem<64x64xbf16>
    sm90.barrier
  }
  sm90.return
}

// The write is in one branch only.
// CHECK-LABEL: sm90.kernel @branch
// CHECK:       scf.if
// CHECK:         sm90.store_shared
// CHECK:       sm90.proxy_fence
// CHECK-NEXT:  sm90.barrier
// CHECK-NEXT:  sm90.wgmma_fence
sm90.kernel @branch(%b: f32) attributes {warpgroups = 1 : i32} {
  %f = arith.constant 0.0 : f32
  %c = arith.cmpf oeq, %b, %f : f32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #sm90.fragment<column_split = 1>>
  %p = arith.constant dense<1.0> : tensor<64x64xbf16, #sm90.fragment<column_split = 1>>
  %s = sm90.alloc : !sm90.smem<64x64xbf16>
  scf.if %c {
    sm90.store_shared %p, %s : tensor<64x64xbf16, #sm90.fragment<column_split = 1>>, !sm90.smem<64x64xbf16>
  }
  sm90.barrier
  sm90.wgmma_fence
  %0 = sm90.wgmma %s, %s, %zero transpose_rhs : !sm90.smem<64x64xbf16>, !sm90.smem<64x64xbf16> -> tensor<64x64xf32, #sm90.fragment<column_split = 1>>
  sm90.wgmma_commit
  %1 = sm90.wgmma_wait 0, %0 : tensor<64x64xf32, #sm90.fragment<column_split = 1>>
  sm90.return
}

// Nobody reads through the async proxy.
// CHECK-LABEL: sm90.kernel @no_wgmma
// CHECK-NOT:   sm90.proxy_fence
// CHECK:       sm90.return
sm90.kernel @no_wgmma() attributes {warpgroups = 1 : i32} {
  %p = arith.constant dense<1.0> : tensor<64x64xbf16, #sm90.fragment<column_split = 1>>
  %s = sm90.alloc : !sm90.smem<64x64xbf16>
  sm90.store_shared %p, %s : tensor<64x64xbf16, #sm90.fragment<column_split = 1>>, !sm90.smem<64x64xbf16>
  sm90.barrier
  sm90.return
}
