// RUN: mla-opt %s --pass-pipeline='builtin.module(sm90.kernel(sm90-allocate-shared-memory))' | FileCheck %s

!tile = !sm90.smem<64x64xbf16>
!wide = !sm90.smem<64x80xbf16>
!acc = tensor<64x64xf32, #sm90.fragment<column_split = 1>>
!frag = tensor<64x64xbf16, #sm90.fragment<column_split = 1>>
!frag80 = tensor<64x80xbf16, #sm90.fragment<column_split = 1>>

// A lives through the loop; B and C do not meet and share bytes; 80 columns
// take two panels.
// CHECK-LABEL: sm90.kernel @share
// CHECK-SAME:  shared_bytes = 24576 : i64
// CHECK:       sm90.alloc offset 0 : <64x64xbf16>
// CHECK:       scf.for
// CHECK:         sm90.alloc offset 8192 : <64x80xbf16>
// CHECK:         sm90.alloc offset 8192 : <64x64xbf16>
sm90.kernel @share(%n: index) attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : !acc
  %p = arith.constant dense<1.0> : !frag
  %q = arith.constant dense<1.0> : !frag80
  %a = sm90.alloc : !tile
  sm90.store_shared %p, %a : !frag, !tile
  sm90.barrier
  scf.for %i = %c0 to %n step %c1 {
    %b = sm90.alloc : !wide
    sm90.store_shared %q, %b : !frag80, !wide
    sm90.barrier
    %bs = sm90.slice %b[0] : !wide -> !tile
    sm90.wgmma_fence
    %0 = sm90.wgmma %a, %bs, %zero transpose_rhs : !tile, !tile -> !acc
    sm90.wgmma_commit
    %1 = sm90.wgmma_wait 0, %0 : !acc
    sm90.barrier
    %c = sm90.alloc : !tile
    sm90.store_shared %p, %c : !frag, !tile
    sm90.barrier
    sm90.wgmma_fence
    %2 = sm90.wgmma %a, %c, %1 transpose_rhs : !tile, !tile -> !acc
    sm90.wgmma_commit
    %3 = sm90.wgmma_wait 0, %2 : !acc
    sm90.barrier
  }
  sm90.return
}

// Without a barrier between the read of B and the write of C they may not share.
// CHECK-LABEL: sm90.kernel @unordered
// CHECK-SAME:  shared_bytes = 16384 : i64
// CHECK:       sm90.alloc offset 0
// CHECK:       sm90.alloc offset 8192
sm90.kernel @unordered() attributes {warpgroups = 1 : i32} {
  %zero = arith.constant dense<0.0> : !acc
  %p = arith.constant dense<1.0> : !frag
  %b = sm90.alloc : !tile
  sm90.store_shared %p, %b : !frag, !tile
  sm90.barrier
  sm90.wgmma_fence
  %0 = sm90.wgmma %b, %b, %zero transpose_rhs : !tile, !tile -> !acc
  sm90.wgmma_commit
  %1 = sm90.wgmma_wait 0, %0 : !acc
  %c = sm90.alloc : !tile
  sm90.store_shared %p, %c : !frag, !tile
  sm90.barrier
  sm90.wgmma_fence
  %2 = sm90.wgmma %c, %c, %1 transpose_rhs : !tile, !tile -> !acc
  sm90.wgmma_commit
  %3 = sm90.wgmma_wait 0, %2 : !acc
  sm90.return
}

// A linear tile needs 16-byte alignment only; a swizzled one after it 1024.
// CHECK-LABEL: sm90.kernel @alignment
// CHECK-SAME:  shared_bytes = 9216 : i64
// CHECK:       sm90.alloc offset 0 : <2x64xf32, linear>
// CHECK:       sm90.alloc offset 1024 : <64x64xbf16>
sm90.kernel @alignment() attributes {warpgroups = 2 : i32} {
  %zero = arith.constant dense<0.0> : !acc
  %wide = arith.constant dense<0.0> : tensor<64x512xf32, #sm90.fragment<column_split = 2>>
  %p = arith.constant dense<1.0> : !frag
  %a = sm90.alloc : !sm90.smem<2x64xf32, linear>
  %b = sm90.alloc : !tile
  sm90.store_shared %p, %b : !frag, !tile
  sm90.barrier
  %r = sm90.reduce max %wide scratch %a : !sm90.smem<2x64xf32, linear>
      : tensor<64x512xf32, #sm90.fragment<column_split = 2>> -> tensor<64xf32, #sm90.rows>
  sm90.wgmma_fence
  %0 = sm90.wgmma %b, %b, %zero transpose_rhs : !tile, !tile -> !acc
  sm90.wgmma_commit
  %1 = sm90.wgmma_wait 0, %0 : !acc
  sm90.return
}
