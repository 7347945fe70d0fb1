// RUN: mla-opt %s --pass-pipeline='builtin.module(sm90.kernel(sm90-insert-proxy-fences))' --split-input-file --verify-diagnostics

!tile = !sm90.smem<64x64xbf16>
!acc = tensor<64x64xf32, #sm90.fragment<column_split = 1>>
!frag = tensor<64x64xbf16, #sm90.fragment<column_split = 1>>
sm90.kernel @no_barrier() attributes {warpgroups = 1 : i32} {
  %zero = arith.constant dense<0.0> : !acc
  %p = arith.constant dense<1.0> : !frag
  %s = sm90.alloc : !tile
  sm90.store_shared %p, %s : !frag, !tile
  sm90.wgmma_fence
  // expected-error @+1 {{reads shared memory without a barrier after the last write}}
  %0 = sm90.wgmma %s, %s, %zero transpose_rhs : !tile, !tile -> !acc
  sm90.wgmma_commit
  %1 = sm90.wgmma_wait 0, %0 : !acc
  sm90.return
}

// -----

!tile = !sm90.smem<64x64xbf16>
!acc = tensor<64x64xf32, #sm90.fragment<column_split = 1>>
sm90.kernel @no_wait(%x: memref<?xbf16>, %n: index) attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1]>>
  %zero = arith.constant dense<0.0> : !acc
  %s = sm90.alloc : !tile
  sm90.copy %v[%c0, %c0] to %s vector_bytes 16 : memref<?x64xbf16, strided<[64, 1]>>, !tile
  sm90.copy_commit
  sm90.barrier
  sm90.wgmma_fence
  // expected-error @+1 {{reads shared memory before a wait for the copies into it}}
  %0 = sm90.wgmma %s, %s, %zero transpose_rhs : !tile, !tile -> !acc
  sm90.wgmma_commit
  %1 = sm90.wgmma_wait 0, %0 : !acc
  sm90.return
}

// -----

// The race is between iterations: nothing stands between the wgmma of one and
// the store of the next.
!tile = !sm90.smem<64x64xbf16>
!acc = tensor<64x64xf32, #sm90.fragment<column_split = 1>>
!frag = tensor<64x64xbf16, #sm90.fragment<column_split = 1>>
sm90.kernel @across_iterations(%n: index) attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : !acc
  %p = arith.constant dense<1.0> : !frag
  scf.for %i = %c0 to %n step %c1 {
    %s = sm90.alloc : !tile
    // expected-error @+1 {{writes shared memory that other warps may still read: no barrier after the last read}}
    sm90.store_shared %p, %s : !frag, !tile
    sm90.barrier
    sm90.wgmma_fence
    %0 = sm90.wgmma %s, %s, %zero transpose_rhs : !tile, !tile -> !acc
    sm90.wgmma_commit
    %1 = sm90.wgmma_wait 0, %0 : !acc
  }
  sm90.return
}

// -----

// A tile of one role only is ordered by the role's barriers. Tiles of rings are
// not: mbarriers order them, and this pass does not follow those.
!tile = !sm90.smem<64x64xbf16>
!acc = tensor<64x64xf32, #sm90.fragment<column_split = 1>>
!frag = tensor<64x64xbf16, #sm90.fragment<column_split = 1>>
!ring = !sm90.ring<stages = 1, parts = 1, tiles = [!sm90.smem<64x64xbf16>]>
sm90.kernel @role() attributes {warpgroups = 2 : i32} {
  %ring = sm90.ring full_count 4 empty_count 4 : !ring
  %s = sm90.stage_start
  %t = sm90.stage_tile %ring[%s] tile 0 : !ring -> !tile
  sm90.role "own" warpgroups 0 to 1 {
    %zero = arith.constant dense<0.0> : !acc
    %p = arith.constant dense<1.0> : !frag
    %a = sm90.alloc : !tile
    sm90.store_shared %p, %a : !frag, !tile
    sm90.wgmma_fence
    // expected-error @+1 {{reads shared memory without a barrier after the last write}}
    %0 = sm90.wgmma %a, %a, %zero transpose_rhs : !tile, !tile -> !acc
    sm90.wgmma_commit
    %1 = sm90.wgmma_wait 0, %0 : !acc
    // expected-error @+1 {{writes shared memory that other warps may still read: no barrier after the last read}}
    sm90.store_shared %p, %a : !frag, !tile
  }
  sm90.role "ring" warpgroups 1 to 2 {
    %zero = arith.constant dense<0.0> : !acc
    %p = arith.constant dense<1.0> : !frag
    sm90.store_shared %p, %t : !frag, !tile
    %0 = sm90.wgmma %t, %t, %zero transpose_rhs : !tile, !tile -> !acc
    %1 = sm90.wgmma_wait 0, %0 : !acc
    sm90.store_shared %p, %t : !frag, !tile
  }
  sm90.return
}
