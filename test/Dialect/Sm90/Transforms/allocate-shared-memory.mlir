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

// A linear tile needs 16-byte alignment only: it goes behind the swizzled one.
// CHECK-LABEL: sm90.kernel @alignment
// CHECK-SAME:  shared_bytes = 8704 : i64
// CHECK:       sm90.alloc offset 8192 : <2x64xf32, linear>
// CHECK:       sm90.alloc offset 0 : <64x64xbf16>
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

!ring = !sm90.ring<stages = 2, parts = 3, tiles = [!sm90.smem<64x64xbf16>, !sm90.smem<1x64xf32, linear>]>
!rows = !sm90.ring<stages = 1, parts = 1, tiles = [!sm90.smem<1x64xf32, linear>]>
!signal = !sm90.ring<stages = 2, parts = 1>

// Rings live for the whole kernel: a stage of !ring is 8192 + 256 bytes, aligned
// to 9216. Behind them the tiles of the roles, which run at the same time and
// share nothing; within @left two tiles do. Linear pieces go behind the swizzled
// ones, the 8 + 2 + 2 barriers behind all.
// CHECK-LABEL: sm90.kernel @roles
// CHECK-SAME:  shared_bytes = 43872 : i64
// CHECK:       sm90.ring "keys" full_count 1 empty_count 4 offset 0 barrier_offset 43776
// CHECK:       sm90.ring full_count 4 empty_count 4 offset 43008 barrier_offset 43840
// CHECK:       sm90.ring full_count 4 empty_count 0 barrier_offset 43856
// CHECK:       sm90.alloc offset 18432 : <64x64xbf16>
// CHECK:       sm90.role "left"
// CHECK:         sm90.alloc offset 26624
// CHECK:         sm90.alloc offset 26624
// CHECK:       sm90.role "right"
// CHECK:         sm90.alloc offset 34816
// CHECK:         sm90.alloc offset 43264 : <4x32xf32, linear>
sm90.kernel @roles() attributes {warpgroups = 2 : i32} {
  %keys = sm90.ring "keys" full_count 1 empty_count 4 : !ring
  %alpha = sm90.ring full_count 4 empty_count 4 : !rows
  %gate = sm90.ring full_count 4 empty_count 0 : !signal
  %shared = sm90.alloc : !tile
  sm90.role "left" warpgroups 0 to 1 {
    %acc = arith.constant dense<0.0> : !acc
    %p = arith.constant dense<1.0> : !frag
    sm90.store_shared %p, %shared : !frag, !tile
    %a = sm90.alloc : !tile
    sm90.store_shared %p, %a : !frag, !tile
    sm90.barrier
    %0 = sm90.wgmma %a, %a, %acc transpose_rhs : !tile, !tile -> !acc
    %1 = sm90.wgmma_wait 0, %0 : !acc
    sm90.barrier
    %b = sm90.alloc : !tile
    sm90.store_shared %p, %b : !frag, !tile
    sm90.barrier
    %2 = sm90.wgmma %b, %b, %1 transpose_rhs : !tile, !tile -> !acc
    %3 = sm90.wgmma_wait 0, %2 : !acc
  }
  sm90.role "right" warpgroups 1 to 2 {
    %acc = arith.constant dense<0.0> : tensor<64x32xf32, #sm90.fragment<column_split = 1>>
    %p = arith.constant dense<1.0> : !frag
    %a = sm90.alloc : !tile
    sm90.store_shared %p, %a : !frag, !tile
    sm90.barrier
    %0 = sm90.load_shared %a : !tile -> !frag
    %scratch = sm90.alloc : !sm90.smem<4x32xf32, linear>
    %1 = sm90.reduce max %acc dim 0 scratch %scratch : !sm90.smem<4x32xf32, linear>
        : tensor<64x32xf32, #sm90.fragment<column_split = 1>> -> tensor<32xf32, #sm90.columns>
  }
  sm90.return
}

// The wgmma that reads A is still in flight when the role meets: B may not
// take its bytes. Targets of bulk copies are ordered by mbarriers, which the
// pass does not follow.
// CHECK-LABEL: sm90.kernel @in_flight
// CHECK:         sm90.alloc offset 0
// CHECK:         sm90.alloc offset 8192
// CHECK-LABEL: sm90.kernel @bulk
// CHECK:         sm90.alloc offset 0 : <64x64xbf16>
// CHECK:         sm90.alloc offset 8192 : <64x64xbf16>
sm90.kernel @in_flight() attributes {warpgroups = 1 : i32} {
  sm90.role "only" warpgroups 0 to 1 {
    %acc = arith.constant dense<0.0> : !acc
    %p = arith.constant dense<1.0> : !frag
    %a = sm90.alloc : !tile
    sm90.store_shared %p, %a : !frag, !tile
    sm90.barrier
    %0 = sm90.wgmma %a, %a, %acc transpose_rhs : !tile, !tile -> !acc
    sm90.barrier
    %b = sm90.alloc : !tile
    sm90.store_shared %p, %b : !frag, !tile
    sm90.barrier
    %1 = sm90.wgmma %b, %b, %0 transpose_rhs : !tile, !tile -> !acc
    %2 = sm90.wgmma_wait 0, %1 : !acc
  }
  sm90.return
}

sm90.kernel @bulk(%x: memref<?xbf16>) attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [64, 64], strides: [64, 1]
      : memref<?xbf16> to memref<64x64xbf16, strided<[64, 1]>>
  %map = sm90.tensor_map %v : memref<64x64xbf16, strided<[64, 1]>> -> !sm90.tensor_map<64x64xbf16>
  %gate = sm90.ring full_count 1 empty_count 0 : !signal
  %s = sm90.stage_start
  sm90.role "only" warpgroups 0 to 1 {
    %p = arith.constant dense<1.0> : !frag
    %a = sm90.alloc : !tile
    sm90.store_shared %p, %a : !frag, !tile
    sm90.barrier
    %0 = sm90.load_shared %a : !tile -> !frag
    sm90.barrier
    %b = sm90.alloc : !tile
    sm90.elect {
      sm90.expect %gate[%s] part 0 bytes 8192 : !signal
      sm90.tma_load %map[%c0, %c0] to %b signals %gate[%s] part 0 : !sm90.tensor_map<64x64xbf16>, !tile, !signal
    }
    sm90.await %gate[%s] part 0 : !signal
    %1 = sm90.load_shared %b : !tile -> !frag
  }
  sm90.return
}

// A program that is to be alone has more than half of the shared memory, so that no second one fits.
// CHECK-LABEL: sm90.kernel @alone
// CHECK-SAME: shared_bytes = 115720
sm90.kernel @alone() attributes {warpgroups = 1 : i32, tile.resident_programs = 1 : i64} {
  sm90.return
}
