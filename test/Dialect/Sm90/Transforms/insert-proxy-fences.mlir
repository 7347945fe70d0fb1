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

!tile = !sm90.smem<64x64xbf16>
!acc = tensor<64x64xf32, #sm90.fragment<column_split = 1>>
!frag = tensor<64x64xbf16, #sm90.fragment<column_split = 1>>
!rows = !sm90.smem<1x64xf32, linear>
!weights = !sm90.ring<stages = 1, parts = 1, tiles = [!tile, !rows]>
!keys = !sm90.ring<stages = 2, parts = 1, tiles = [!tile]>

// The tile is read by wgmma of another role: fenced before its publish, in each
// iteration. The row vector is read by ordinary loads: no fence. Keys arrive by
// TMA: no fence, until a role writes zeros to them.
// CHECK-LABEL: sm90.kernel @roles
// CHECK:       sm90.role "scores"
// CHECK:         scf.for
// CHECK:           sm90.acquire
// CHECK-NOT:       sm90.proxy_fence
// CHECK:           sm90.store_shared %{{.*}} : tensor<64x64xbf16
// CHECK-NEXT:      sm90.store_shared %{{.*}} : tensor<64xf32
// CHECK-NEXT:      sm90.proxy_fence
// CHECK-NEXT:      sm90.publish
// CHECK-NOT:       sm90.proxy_fence
// CHECK:       sm90.role "product"
// CHECK-NOT:       sm90.proxy_fence
// CHECK:           scf.if
// CHECK-NEXT:        sm90.zero_rows
// CHECK-NEXT:        sm90.proxy_fence
// CHECK-NEXT:        sm90.barrier
// CHECK-NOT:     sm90.proxy_fence
// CHECK:       sm90.return
sm90.kernel @roles(%n: index, %last: index) attributes {warpgroups = 2 : i32} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %keys = sm90.ring full_count 1 empty_count 4 : !keys
  %weights = sm90.ring full_count 4 empty_count 4 : !weights
  sm90.role "scores" warpgroups 0 to 1 {
    %p = arith.constant dense<1.0> : !frag
    %r = arith.constant dense<1.0> : tensor<64xf32, #sm90.rows>
    %s0 = sm90.stage_start
    %s = scf.for %i = %c0 to %n step %c1 iter_args(%st = %s0) -> (!sm90.stage) {
      sm90.acquire %weights[%st] : !weights
      %t = sm90.stage_tile %weights[%st] tile 0 : !weights -> !tile
      %a = sm90.stage_tile %weights[%st] tile 1 : !weights -> !rows
      sm90.store_shared %p, %t : !frag, !tile
      sm90.store_shared %r, %a : tensor<64xf32, #sm90.rows>, !rows
      sm90.publish %weights[%st] part 0 : !weights
      %next = sm90.stage_next %st of %weights : !weights
      scf.yield %next : !sm90.stage
    }
  }
  sm90.role "product" warpgroups 1 to 2 {
    %zero = arith.constant dense<0.0> : !acc
    %s0 = sm90.stage_start
    %s, %o = scf.for %i = %c0 to %n step %c1 iter_args(%st = %s0, %acc = %zero) -> (!sm90.stage, !acc) {
      sm90.await %weights[%st] part 0 : !weights
      sm90.await %keys[%st] part 0 : !keys
      %t = sm90.stage_tile %weights[%st] tile 0 : !weights -> !tile
      %k = sm90.stage_tile %keys[%st] tile 0 : !keys -> !tile
      %is_last = arith.cmpi eq, %i, %last : index
      scf.if %is_last {
        sm90.zero_rows %k from %c1 : !tile
        sm90.barrier
      }
      sm90.wgmma_fence
      %0 = sm90.wgmma %t, %k, %acc : !tile, !tile -> !acc
      sm90.wgmma_commit
      %1 = sm90.wgmma_wait 0, %0 : !acc
      sm90.release %weights[%st] : !weights
      sm90.release %keys[%st] : !keys
      %next = sm90.stage_next %st of %weights : !weights
      scf.yield %next, %1 : !sm90.stage, !acc
    }
  }
  sm90.return
}

// Only ordinary loads read what the first role publishes.
// CHECK-LABEL: sm90.kernel @generic_only
// CHECK-NOT:   sm90.proxy_fence
// CHECK:       sm90.return
sm90.kernel @generic_only() attributes {warpgroups = 2 : i32} {
  %ring = sm90.ring full_count 4 empty_count 0 : !keys
  sm90.role "a" warpgroups 0 to 1 {
    %p = arith.constant dense<1.0> : !frag
    %s = sm90.stage_start
    %t = sm90.stage_tile %ring[%s] tile 0 : !keys -> !tile
    sm90.store_shared %p, %t : !frag, !tile
    sm90.publish %ring[%s] part 0 : !keys
  }
  sm90.role "b" warpgroups 1 to 2 {
    %acc = arith.constant dense<0.0> : !acc
    %other = sm90.alloc : !tile
    %s = sm90.stage_start
    sm90.await %ring[%s] part 0 : !keys
    %t = sm90.stage_tile %ring[%s] tile 0 : !keys -> !tile
    %0 = sm90.load_shared %t : !tile -> !frag
    %1 = sm90.wgmma %0, %other, %acc : !frag, !tile -> !acc
    %2 = sm90.wgmma_wait 0, %1 : !acc
  }
  sm90.return
}

// cp.async arrives by itself: nothing to fence on the producer's side, but each
// consumer fences before its wgmma, once for all parts.
// CHECK-LABEL: sm90.kernel @copy_publish
// CHECK:       sm90.role "copy"
// CHECK-NOT:     sm90.proxy_fence
// CHECK:       sm90.role "multiply"
// CHECK:         sm90.await %{{.*}} part 0
// CHECK-NOT:     sm90.proxy_fence
// CHECK:         sm90.await %{{.*}} part 1
// CHECK:         sm90.proxy_fence
// CHECK-NEXT:    sm90.wgmma_fence
// CHECK-NEXT:    sm90.wgmma
// CHECK-NEXT:    sm90.wgmma
// CHECK-NOT:     sm90.proxy_fence
// CHECK:       sm90.return
!parts = !sm90.ring<stages = 1, parts = 2, tiles = [!tile]>
sm90.kernel @copy_publish(%x: memref<?xbf16>) attributes {warpgroups = 2 : i32} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [64, 64], strides: [64, 1]
      : memref<?xbf16> to memref<64x64xbf16, strided<[64, 1]>>
  %ring = sm90.ring full_count 128 empty_count 4 : !parts
  sm90.role "copy" warpgroups 0 to 1 {
    %s = sm90.stage_start
    sm90.acquire %ring[%s] : !parts
    %t = sm90.stage_tile %ring[%s] tile 0 : !parts -> !tile
    sm90.copy %v[%c0, %c0] to %t vector_bytes 16 : memref<64x64xbf16, strided<[64, 1]>>, !tile
    sm90.copy_publish %ring[%s] part 0 : !parts
    sm90.copy_publish %ring[%s] part 1 : !parts
  }
  sm90.role "multiply" warpgroups 1 to 2 {
    %acc = arith.constant dense<0.0> : !acc
    %s = sm90.stage_start
    %t = sm90.stage_tile %ring[%s] tile 0 : !parts -> !tile
    sm90.await %ring[%s] part 0 : !parts
    sm90.await %ring[%s] part 1 : !parts
    sm90.wgmma_fence
    %0 = sm90.wgmma %t, %t, %acc : !tile, !tile -> !acc
    %1 = sm90.wgmma %t, %t, %0 : !tile, !tile -> !acc
    sm90.wgmma_commit
    %2 = sm90.wgmma_wait 0, %1 : !acc
    sm90.release %ring[%s] : !parts
  }
  sm90.return
}

// A role that waits for its own copies and publishes them: older groups land
// while newer ones fly. The staging tile of an epilogue: fenced before the barrier
// after which one thread stores it.
// CHECK-LABEL: sm90.kernel @copy_wait
// CHECK:         sm90.copy_wait 1
// CHECK-NEXT:    sm90.proxy_fence
// CHECK-NEXT:    sm90.publish
// CHECK-NEXT:    sm90.copy_wait 0
// CHECK-NEXT:    sm90.proxy_fence
// CHECK-NEXT:    sm90.publish
// CHECK:       sm90.role "multiply"
// CHECK:         sm90.store_shared
// CHECK-NEXT:    sm90.proxy_fence
// CHECK-NEXT:    sm90.barrier
// CHECK-NEXT:    sm90.elect
// CHECK-NOT:     sm90.proxy_fence
// CHECK:       sm90.return
sm90.kernel @copy_wait(%x: memref<?xbf16>) attributes {warpgroups = 2 : i32} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [64, 64], strides: [64, 1]
      : memref<?xbf16> to memref<64x64xbf16, strided<[64, 1]>>
  %map = sm90.tensor_map %v : memref<64x64xbf16, strided<[64, 1]>> -> !sm90.tensor_map<64x64xbf16>
  %ring = sm90.ring full_count 4 empty_count 4 : !keys
  %s0 = sm90.stage_start
  %s1 = sm90.stage_next %s0 of %ring : !keys
  %t0 = sm90.stage_tile %ring[%s0] tile 0 : !keys -> !tile
  %t1 = sm90.stage_tile %ring[%s1] tile 0 : !keys -> !tile
  sm90.role "copy" warpgroups 0 to 1 {
    sm90.copy %v[%c0, %c0] to %t0 vector_bytes 16 : memref<64x64xbf16, strided<[64, 1]>>, !tile
    sm90.copy_commit
    sm90.copy %v[%c0, %c0] to %t1 vector_bytes 16 : memref<64x64xbf16, strided<[64, 1]>>, !tile
    sm90.copy_commit
    sm90.copy_wait 1
    sm90.publish %ring[%s0] part 0 : !keys
    sm90.copy_wait 0
    sm90.publish %ring[%s1] part 0 : !keys
  }
  sm90.role "multiply" warpgroups 1 to 2 {
    %acc = arith.constant dense<0.0> : !acc
    %staging = sm90.alloc : !tile
    sm90.await %ring[%s0] part 0 : !keys
    sm90.await %ring[%s1] part 0 : !keys
    sm90.wgmma_fence
    %0 = sm90.wgmma %t0, %t1, %acc : !tile, !tile -> !acc
    sm90.wgmma_commit
    %1 = sm90.wgmma_wait 0, %0 : !acc
    %2 = arith.truncf %1 : !acc to !frag
    sm90.store_shared %2, %staging : !frag, !tile
    sm90.barrier
    sm90.elect {
      sm90.tma_store %staging to %map[%c0, %c0] : !tile, !sm90.tensor_map<64x64xbf16>
      sm90.store_commit
      sm90.store_wait 0
    }
  }
  sm90.return
}

// TMA fills again what was read: an mbarrier alone would not wait for the loads. Reads in front of a
// fence need no second one, nor what wgmma has read, nor a ring that TMA does not fill.
// CHECK-LABEL: sm90.kernel @reads
// CHECK:       sm90.role "read"
// CHECK:         sm90.load_shared
// CHECK-NEXT:    sm90.proxy_fence
// CHECK-NEXT:    sm90.release
// CHECK-NOT:     sm90.proxy_fence
// CHECK:         sm90.release
// CHECK:         sm90.load_shared
// CHECK-NOT:     sm90.proxy_fence
// CHECK:       sm90.return
sm90.kernel @reads(%x: memref<?xbf16>) attributes {warpgroups = 2 : i32} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [64, 64], strides: [64, 1]
      : memref<?xbf16> to memref<64x64xbf16, strided<[64, 1]>>
  %map = sm90.tensor_map %v : memref<64x64xbf16, strided<[64, 1]>> -> !sm90.tensor_map<64x64xbf16>
  %filled = sm90.ring full_count 1 empty_count 4 : !keys
  %other = sm90.ring full_count 4 empty_count 4 : !keys
  sm90.role "copy" warpgroups 0 to 1 {
    %s = sm90.stage_start
    %p = arith.constant dense<1.0> : !frag
    %u = sm90.stage_tile %other[%s] tile 0 : !keys -> !tile
    sm90.store_shared %p, %u : !frag, !tile
    sm90.publish %other[%s] part 0 : !keys
    sm90.elect {
      %t = sm90.stage_tile %filled[%s] tile 0 : !keys -> !tile
      sm90.acquire %filled[%s] : !keys
      sm90.expect %filled[%s] part 0 bytes 8192 : !keys
      sm90.tma_load %map[%c0, %c0] to %t signals %filled[%s] part 0
          : !sm90.tensor_map<64x64xbf16>, !tile, !keys
    }
  }
  sm90.role "read" warpgroups 1 to 2 {
    %s = sm90.stage_start
    sm90.await %filled[%s] part 0 : !keys
    %t = sm90.stage_tile %filled[%s] tile 0 : !keys -> !tile
    %0 = sm90.load_shared %t : !tile -> !frag
    sm90.release %filled[%s] : !keys
    %next = sm90.stage_next %s of %filled : !keys
    sm90.release %filled[%next] : !keys
    sm90.await %other[%s] part 0 : !keys
    %u = sm90.stage_tile %other[%s] tile 0 : !keys -> !tile
    %1 = sm90.load_shared %u : !tile -> !frag
    sm90.release %other[%s] : !keys
  }
  sm90.return
}

// What was written into a ring's stage is shown by a publish of a ring with tiles, its own or one behind it:
// neither by what frees another ring's stage, nor by a ring that only orders roles, nor by a barrier of a role
// that does not multiply it. A role that does has to see it.
// CHECK-LABEL: sm90.kernel @stages
// CHECK:       sm90.role "write"
// CHECK:         sm90.store_shared
// CHECK-NOT:     sm90.proxy_fence
// CHECK:         sm90.release
// CHECK-NOT:     sm90.proxy_fence
// CHECK:         sm90.barrier
// CHECK-NOT:     sm90.proxy_fence
// CHECK:         sm90.role_any
// CHECK-NOT:     sm90.proxy_fence
// CHECK:         sm90.publish {{.*}} part 0 : <stages = 1, parts = 1>{{$}}
// CHECK-NEXT:    sm90.proxy_fence
// CHECK-NEXT:    sm90.publish
// CHECK-NOT:     sm90.proxy_fence
// CHECK:       sm90.role "multiply"
// CHECK:         sm90.store_shared
// CHECK-NEXT:    sm90.proxy_fence
// CHECK-NEXT:    sm90.barrier
// CHECK-NOT:     sm90.proxy_fence
// CHECK:       sm90.return
!signal = !sm90.ring<stages = 1, parts = 1>
sm90.kernel @stages() attributes {warpgroups = 2 : i32} {
  %values = sm90.ring full_count 4 empty_count 4 : !keys
  %codes = sm90.ring full_count 4 empty_count 4 : !keys
  %gate = sm90.ring full_count 4 empty_count 0 : !signal
  %zero = arith.constant dense<0.0> : !acc
  sm90.role "write" warpgroups 0 to 1 {
    %s = sm90.stage_start
    %p = arith.constant dense<1.0> : !frag
    %t = sm90.stage_tile %values[%s] tile 0 : !keys -> !tile
    sm90.store_shared %p, %t : !frag, !tile
    sm90.release %codes[%s] : !keys
    sm90.barrier
    %c = arith.constant dense<true> : tensor<64x64xi1, #sm90.fragment<column_split = 1>>
    %any = sm90.role_any %c : tensor<64x64xi1, #sm90.fragment<column_split = 1>>
    sm90.publish %gate[%s] part 0 : !signal
    sm90.publish %values[%s] part 0 : !keys
  }
  sm90.role "multiply" warpgroups 1 to 2 {
    %s = sm90.stage_start
    sm90.await %values[%s] part 0 : !keys
    %t = sm90.stage_tile %values[%s] tile 0 : !keys -> !tile
    %p = arith.constant dense<2.0> : !frag
    sm90.store_shared %p, %t : !frag, !tile
    sm90.barrier
    sm90.wgmma_fence
    %0 = sm90.wgmma %t, %t, %zero transpose_rhs : !tile, !tile -> !acc
    sm90.wgmma_commit
    %1 = sm90.wgmma_wait 0, %0 : !acc
    sm90.release %values[%s] : !keys
  }
  sm90.return
}
