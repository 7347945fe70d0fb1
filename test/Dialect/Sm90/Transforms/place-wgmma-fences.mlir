// RUN: mla-opt %s --pass-pipeline='builtin.module(sm90.kernel(sm90-place-wgmma-fences))' | FileCheck %s
// RUN: mla-opt %s --pass-pipeline='builtin.module(sm90.kernel(sm90-place-wgmma-fences,sm90-place-wgmma-fences))' | FileCheck %s

!tile = !sm90.smem<64x64xbf16>
!acc = tensor<64x64xf32, #sm90.fragment<column_split = 1>>
!frag = tensor<64x64xbf16, #sm90.fragment<column_split = 1>>
!ring = !sm90.ring<stages = 2, parts = 2, tiles = [!tile]>

// One fence opens a group. A group that goes on with the accumulator of the one
// before needs none (its first part is committed early, to signal how far it
// is); another accumulator does.
// CHECK-LABEL: sm90.kernel @groups
// CHECK-NOT:     sm90.wgmma_fence
// CHECK:         sm90.alloc
// CHECK:         sm90.alloc
// CHECK-NEXT:    sm90.wgmma_fence
// CHECK-NEXT:    sm90.wgmma
// CHECK-NEXT:    sm90.wgmma
// CHECK-NEXT:    sm90.wgmma_commit
// CHECK-NEXT:    sm90.wgmma
// CHECK-NEXT:    sm90.wgmma_commit
// CHECK-NEXT:    sm90.wgmma_fence
// CHECK-NEXT:    sm90.wgmma
// CHECK-NEXT:    sm90.wgmma_commit
// CHECK-NEXT:    sm90.wgmma_wait
// CHECK-NOT:     sm90.wgmma_fence
// CHECK:         sm90.return
sm90.kernel @groups() attributes {warpgroups = 1 : i32} {
  %zero = arith.constant dense<0.0> : !acc
  sm90.wgmma_fence
  %a = sm90.alloc : !tile
  %b = sm90.alloc : !tile
  %0 = sm90.wgmma %a, %b, %zero : !tile, !tile -> !acc
  sm90.wgmma_fence
  %1 = sm90.wgmma %a, %b, %0 : !tile, !tile -> !acc
  sm90.wgmma_commit
  sm90.wgmma_fence
  %2 = sm90.wgmma %a, %b, %1 : !tile, !tile -> !acc
  sm90.wgmma_commit
  %3 = sm90.wgmma %b, %a, %zero : !tile, !tile -> !acc
  sm90.wgmma_commit
  %4:2 = sm90.wgmma_wait 0, %2, %3 : !acc, !acc
  sm90.wgmma_fence
  sm90.return
}

// Waits for mbarriers within a group, by the role or by its elected thread.
// CHECK-LABEL: sm90.kernel @await
// CHECK:         sm90.await %{{.*}} part 0
// CHECK:         sm90.wgmma_fence
// CHECK-NEXT:    sm90.wgmma
// CHECK-NEXT:    sm90.await %{{.*}} part 1
// CHECK-NEXT:    sm90.wgmma_fence
// CHECK-NEXT:    sm90.wgmma
// CHECK-NEXT:    sm90.elect
// CHECK:         }
// CHECK-NEXT:    sm90.wgmma_fence
// CHECK-NEXT:    sm90.wgmma
// CHECK-NEXT:    sm90.publish
// CHECK-NEXT:    sm90.wgmma
// CHECK-NEXT:    sm90.wgmma_commit
// CHECK-NOT:     sm90.wgmma_fence
// CHECK:         sm90.return
sm90.kernel @await() attributes {warpgroups = 1 : i32} {
  %ring = sm90.ring full_count 1 empty_count 4 : !ring
  sm90.role "math" warpgroups 0 to 1 {
    %zero = arith.constant dense<0.0> : !acc
    %s = sm90.stage_start
    %t = sm90.stage_tile %ring[%s] tile 0 : !ring -> !tile
    sm90.await %ring[%s] part 0 : !ring
    %0 = sm90.wgmma %t, %t, %zero : !tile, !tile -> !acc
    sm90.await %ring[%s] part 1 : !ring
    %1 = sm90.wgmma %t, %t, %0 : !tile, !tile -> !acc
    sm90.elect {
      sm90.acquire %ring[%s] : !ring
    }
    %2 = sm90.wgmma %t, %t, %1 : !tile, !tile -> !acc
    sm90.publish %ring[%s] part 0 : !ring
    %3 = sm90.wgmma %t, %t, %2 : !tile, !tile -> !acc
    sm90.wgmma_commit
    %4 = sm90.wgmma_wait 0, %3 : !acc
  }
  sm90.return
}

// Registers of the group itself count, others do not: exponentials between two
// wgmma need no fence, a left operand read from shared memory or a scaled
// accumulator does.
// CHECK-LABEL: sm90.kernel @registers
// CHECK:         sm90.wgmma_fence
// CHECK-NEXT:    sm90.wgmma
// CHECK-NEXT:    math.exp2
// CHECK-NEXT:    sm90.wgmma
// CHECK-NEXT:    sm90.load_shared
// CHECK-NEXT:    sm90.wgmma_fence
// CHECK-NEXT:    sm90.wgmma
// CHECK-NEXT:    arith.mulf
// CHECK-NEXT:    sm90.wgmma_fence
// CHECK-NEXT:    sm90.wgmma
// CHECK-NEXT:    sm90.wgmma_commit
// CHECK-NOT:     sm90.wgmma_fence
// CHECK:         sm90.return
sm90.kernel @registers(%x: memref<?xf32>) attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [64, 64], strides: [64, 1]
      : memref<?xf32> to memref<64x64xf32, strided<[64, 1]>>
  %zero = arith.constant dense<0.0> : !acc
  %a = sm90.alloc : !tile
  %other = sm90.load %v[%c0, %c0] : memref<64x64xf32, strided<[64, 1]>> -> !acc
  %0 = sm90.wgmma %a, %a, %zero : !tile, !tile -> !acc
  %e = math.exp2 %other : !acc
  %1 = sm90.wgmma %a, %a, %0 : !tile, !tile -> !acc
  %f = sm90.load_shared %a : !tile -> !frag
  %2 = sm90.wgmma %f, %a, %1 : !frag, !tile -> !acc
  %g = arith.mulf %e, %other : !acc
  %3 = sm90.wgmma %a, %a, %g : !tile, !tile -> !acc
  sm90.wgmma_commit
  %4:2 = sm90.wgmma_wait 0, %2, %3 : !acc, !acc
  sm90.return
}

// In flight across a back edge: the first wait of the body is for 0 groups.
// CHECK-LABEL: sm90.kernel @across
// CHECK:         scf.for
// CHECK-NEXT:      sm90.wgmma_fence
// CHECK-NEXT:      sm90.wgmma
// CHECK-NEXT:      sm90.wgmma_commit
// CHECK-NEXT:      sm90.wgmma_wait 0
sm90.kernel @across(%n: index) attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : !acc
  %a = sm90.alloc : !tile
  %i = sm90.wgmma %a, %a, %zero : !tile, !tile -> !acc
  sm90.wgmma_commit
  %r:2 = scf.for %k = %c0 to %n step %c1 iter_args(%s = %i, %o = %zero) -> (!acc, !acc) {
    %0 = sm90.wgmma %a, %a, %o : !tile, !tile -> !acc
    sm90.wgmma_commit
    %1:2 = sm90.wgmma_wait 0, %s, %0 : !acc, !acc
    %2 = arith.truncf %1#0 : !acc to !frag
    sm90.barrier
    sm90.store_shared %2, %a : !frag, !tile
    sm90.barrier
    %3 = sm90.wgmma %a, %a, %zero : !tile, !tile -> !acc
    sm90.wgmma_commit
    scf.yield %3, %1#1 : !acc, !acc
  } {sm90.at_least_once}
  %4:2 = sm90.wgmma_wait 0, %r#0, %r#1 : !acc, !acc
  sm90.return
}

// An accumulator chain that only wgmma touch may leave groups in flight at every
// wait of the body (a GEMM); its last wait covers all.
// CHECK-LABEL: sm90.kernel @chain
// CHECK:         scf.for
// CHECK:           sm90.wgmma_wait 1
sm90.kernel @chain(%n: index) attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : !acc
  %a = sm90.alloc : !tile
  %r = scf.for %k = %c0 to %n step %c1 iter_args(%acc = %zero) -> (!acc) {
    %0 = sm90.wgmma %a, %a, %acc : !tile, !tile -> !acc
    sm90.wgmma_commit
    %1 = sm90.wgmma_wait 1, %0 : !acc
    scf.yield %1 : !acc
  } {sm90.at_least_once}
  %2 = sm90.wgmma_wait 0, %r : !acc
  %3 = arith.truncf %2 : !acc to !frag
  sm90.return
}
