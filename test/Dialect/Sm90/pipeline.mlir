// RUN: mla-opt %s | mla-opt | FileCheck %s
// RUN: mla-opt --mlir-print-op-generic %s | mla-opt | FileCheck %s

// Two roles that talk through rings: one thread copies, a warpgroup multiplies.

#frag = #sm90.fragment<column_split = 1>
!ring = !sm90.ring<stages = 2, parts = 2, tiles = [!sm90.smem<64x128xbf16>]>

// CHECK-LABEL: sm90.kernel @roles
sm90.kernel @roles(%x: memref<?xbf16>, %n: index, %out: memref<?xf32>) attributes {warpgroups = 2 : i32} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 128], strides: [128, 1]
      : memref<?xbf16> to memref<?x128xbf16, strided<[128, 1]>>
  %o = memref.reinterpret_cast %out to offset: [0], sizes: [64, 64], strides: [64, 1]
      : memref<?xf32> to memref<64x64xf32, strided<[64, 1]>>
  // CHECK: sm90.tensor_map %{{.*}} : memref<?x128xbf16, strided<[128, 1]>> -> <64x64xbf16>
  %map = sm90.tensor_map %v : memref<?x128xbf16, strided<[128, 1]>> -> !sm90.tensor_map<64x64xbf16>
  // CHECK: sm90.tensor_map %{{.*}} : memref<?x128xbf16, strided<[128, 1]>> -> <64x128xbf16>
  %wide = sm90.tensor_map %v : memref<?x128xbf16, strided<[128, 1]>> -> !sm90.tensor_map<64x128xbf16>
  // CHECK: sm90.ring "keys" full_count 1 empty_count 4 : <stages = 2, parts = 2, tiles = [<64x128xbf16>]>
  %ring = sm90.ring "keys" full_count 1 empty_count 4 : !ring
  // CHECK: sm90.ring full_count 4 empty_count 0 : <stages = 1, parts = 1>
  %signal = sm90.ring full_count 4 empty_count 0 : !sm90.ring<stages = 1, parts = 1>
  // CHECK: sm90.role "copy" warpgroups 0 to 1 registers 40 {
  sm90.role "copy" warpgroups 0 to 1 registers 40 {
    // CHECK: sm90.elect {
    sm90.elect {
      %s0 = sm90.stage_start
      %s = scf.for %i = %c0 to %n step %c64 iter_args(%st = %s0) -> (!sm90.stage) {
        // CHECK: sm90.acquire %{{.*}}[%{{.*}}] keeps : <stages
        sm90.acquire %ring[%st] keeps : !ring
        %t = sm90.stage_tile %ring[%st] tile 0 : !ring -> !sm90.smem<64x128xbf16>
        // CHECK: sm90.expect %{{.*}}[%{{.*}}] part 0 bytes 16384
        sm90.expect %ring[%st] part 0 bytes 16384 : !ring
        // CHECK: sm90.tma_load %{{.*}}[%{{.*}}, %{{.*}}] to %{{.*}} signals %{{.*}}[%{{.*}}] part 0 : <64x64xbf16>, <64x128xbf16>, <stages
        sm90.tma_load %map[%i, %c0] to %t signals %ring[%st] part 0 : !sm90.tensor_map<64x64xbf16>, !sm90.smem<64x128xbf16>, !ring
        %next = sm90.stage_next %st of %ring : !ring
        scf.yield %next : !sm90.stage
      }
    }
  }
  // CHECK: sm90.role "math" warpgroups 1 to 2 registers 232 {
  sm90.role "math" warpgroups 1 to 2 registers 232 {
    %s = sm90.stage_start
    %zero = arith.constant dense<0.0> : tensor<64x64xf32, #frag>
    // CHECK: sm90.await %{{.*}}[%{{.*}}] part 1
    sm90.await %ring[%s] part 0 : !ring
    sm90.await %ring[%s] part 1 : !ring
    %t = sm90.stage_tile %ring[%s] tile 0 : !ring -> !sm90.smem<64x128xbf16>
    // CHECK: sm90.load_shared %{{.*}} : <64x128xbf16> -> tensor<64x128xbf16
    %a = sm90.load_shared %t : !sm90.smem<64x128xbf16> -> tensor<64x128xbf16, #frag>
    sm90.wgmma_fence
    // CHECK: sm90.wgmma %{{.*}}, %{{.*}}, %{{.*}} transpose_rhs : tensor<64x128xbf16
    %0 = sm90.wgmma %a, %t, %zero transpose_rhs : tensor<64x128xbf16, #frag>, !sm90.smem<64x128xbf16> -> tensor<64x64xf32, #frag>
    sm90.wgmma_commit
    %1 = sm90.wgmma_wait 0, %0 : tensor<64x64xf32, #frag>
    // CHECK: sm90.pin %{{.*}} : tensor<64x64xf32
    %pinned = sm90.pin %1 : tensor<64x64xf32, #frag>
    // CHECK: sm90.release
    sm90.release %ring[%s] : !ring
    // CHECK: sm90.reduce {{ *}}sum %{{.*}} : tensor<64x64xf32, {{.*}}> -> tensor<64x4xf32, #sm90.partial>
    %p = sm90.reduce sum %1 : tensor<64x64xf32, #frag> -> tensor<64x4xf32, #sm90.partial>
    %r = sm90.reduce sum %p : tensor<64x4xf32, #sm90.partial> -> tensor<64xf32, #sm90.rows>
    // CHECK: sm90.sum_groups %{{.*}} of 8 : tensor<64xf32, #sm90.rows>
    %g = sm90.sum_groups %r of 8 : tensor<64xf32, #sm90.rows>
    // CHECK: sm90.test_bits %[[W:.*]], %[[W]] : tensor<64xi32, #sm90.rows>, tensor<64xi32, #sm90.rows> -> tensor<64x64xi1, #sm90.fragment<column_split = 1>>
    %w = sm90.iota 0 : tensor<64xi32, #sm90.rows>
    %bits = sm90.test_bits %w, %w : tensor<64xi32, #sm90.rows>, tensor<64xi32, #sm90.rows> -> tensor<64x64xi1, #frag>
    %cond = arith.cmpf one, %r, %r : tensor<64xf32, #sm90.rows>
    %any = sm90.warp_any %cond : tensor<64xi1, #sm90.rows>
    %2 = scf.if %any -> (tensor<64x64xf32, #frag>) {
      %b = sm90.broadcast %r : tensor<64xf32, #sm90.rows> -> tensor<64x64xf32, #frag>
      %m = arith.mulf %1, %b : tensor<64x64xf32, #frag>
      scf.yield %m : tensor<64x64xf32, #frag>
    } else {
      scf.yield %1 : tensor<64x64xf32, #frag>
    }
    // CHECK: sm90.role_any %{{.*}} : tensor<64x64xi1
    %beyond = arith.cmpf ugt, %1, %pinned : tensor<64x64xf32, #frag>
    %anywhere = sm90.role_any %beyond : tensor<64x64xi1, #frag>
    scf.if %anywhere {
      sm90.barrier
    }
    // CHECK: sm90.store %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] transposed
    sm90.store %2, %o[%c0, %c0] transposed : tensor<64x64xf32, #frag>, memref<64x64xf32, strided<[64, 1]>>
    // CHECK: sm90.publish %{{.*}}[%{{.*}}] part 0 : <stages = 1, parts = 1>
    sm90.publish %signal[%s] part 0 : !sm90.ring<stages = 1, parts = 1>
  }
  sm90.return
}

!tile = !sm90.smem<64x64xbf16>
!narrow = tensor<64x32xf32, #frag>
!rows = !sm90.smem<1x64xf32, linear>

// Clusters, dependent launches, bulk copies both ways: what @roles has not.
// CHECK-LABEL: sm90.kernel @copies
// CHECK-SAME:  cluster = 2 : i32
sm90.kernel @copies(%x: memref<?xbf16>, %f: memref<?xf32>, %n: index)
    attributes {cluster = 2 : i32, warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [%n], sizes: [%n, 16, 64], strides: [1024, 64, 1]
      : memref<?xbf16> to memref<?x16x64xbf16, strided<[1024, 64, 1], offset: ?>>
  // CHECK: sm90.tensor_map %{{.*}} : memref<?x16x64xbf16, strided<[1024, 64, 1], offset: ?>> -> <32x64xbf16>
  %half = sm90.tensor_map %v : memref<?x16x64xbf16, strided<[1024, 64, 1], offset: ?>> -> !sm90.tensor_map<32x64xbf16>
  %map = sm90.tensor_map %v : memref<?x16x64xbf16, strided<[1024, 64, 1], offset: ?>> -> !sm90.tensor_map<64x64xbf16>
  // CHECK: sm90.ring "keys" full_count 1 empty_count 8 offset 1024 barrier_offset 17416 : <stages = 2, parts = 1, tiles = [<64x64xbf16>]>
  %ring = sm90.ring "keys" full_count 1 empty_count 8 offset 1024 barrier_offset 17416 : !sm90.ring<stages = 2, parts = 1, tiles = [!tile]>
  // CHECK: sm90.wait_dependency
  sm90.wait_dependency
  // CHECK: sm90.cluster_rank
  %rank = sm90.cluster_rank
  // CHECK: sm90.cluster_barrier
  sm90.cluster_barrier
  %s = sm90.stage_start
  // CHECK: sm90.stage_next %{{.*}} of %{{.*}} : <stages = 2
  %s1 = sm90.stage_next %s of %ring : !sm90.ring<stages = 2, parts = 1, tiles = [!tile]>
  // CHECK: sm90.stage_tile %{{.*}}[%{{.*}}] tile 0 : <stages = 2, {{.*}} -> <64x64xbf16>
  %t = sm90.stage_tile %ring[%s1] tile 0 : !sm90.ring<stages = 2, parts = 1, tiles = [!tile]> -> !tile
  %l = sm90.alloc : !rows
  sm90.elect {
    // CHECK: sm90.tma_load %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] to %{{.*}} row 32 signals %{{.*}}[%{{.*}}] part 0 multicast 3 : <32x64xbf16>
    sm90.tma_load %half[%n, %c0, %c0] to %t row 32 signals %ring[%s1] part 0 multicast 3 : !sm90.tensor_map<32x64xbf16>, !tile, !sm90.ring<stages = 2, parts = 1, tiles = [!tile]>
    // CHECK: sm90.bulk_load %{{.*}}[%{{.*}}] to %{{.*}} signals %{{.*}}[%{{.*}}] part 0 : memref<?xf32>, <1x64xf32, linear>
    sm90.bulk_load %f[%n] to %l signals %ring[%s1] part 0 : memref<?xf32>, !rows, !sm90.ring<stages = 2, parts = 1, tiles = [!tile]>
    // CHECK: sm90.prefetch %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] bytes 128 : memref
    sm90.prefetch %v[%n, %c0, %c0] bytes 128 : memref<?x16x64xbf16, strided<[1024, 64, 1], offset: ?>>
    // CHECK: sm90.tma_store %{{.*}} to %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] : <64x64xbf16>, <64x64xbf16>
    sm90.tma_store %t to %map[%n, %c0, %c0] : !tile, !sm90.tensor_map<64x64xbf16>
    // CHECK: sm90.store_commit
    sm90.store_commit
    // CHECK: sm90.store_wait 1
    sm90.store_wait 1
  }
  // CHECK: sm90.copy_publish %{{.*}}[%{{.*}}] part 0
  sm90.copy_publish %ring[%s1] part 0 : !sm90.ring<stages = 2, parts = 1, tiles = [!tile]>
  // CHECK: sm90.release %{{.*}}[%{{.*}}] remote
  sm90.release %ring[%s1] remote : !sm90.ring<stages = 2, parts = 1, tiles = [!tile]>
  // CHECK: sm90.named_barrier 8 warps 12
  sm90.named_barrier 8 warps 12
  // CHECK: sm90.named_barrier arrive 15 warps 1
  sm90.named_barrier arrive 15 warps 1
  // CHECK: sm90.launch_dependents
  sm90.launch_dependents
  sm90.return
}

// Keys on M, rows on N: columns, transposes and reductions over dimension 0.
// CHECK-LABEL: sm90.kernel @swapped
sm90.kernel @swapped(%x: memref<?xf32>, %n: index) attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : !narrow
  %keys = sm90.alloc : !tile
  %weights = sm90.alloc : !sm90.smem<32x64xbf16>
  %queries = sm90.alloc : !sm90.smem<64x32xbf16>
  %scratch = sm90.alloc : !sm90.smem<4x32xf32, linear>
  %l = sm90.alloc : !rows
  // CHECK: sm90.zero_rows %{{.*}} from %{{.*}} : <64x64xbf16>
  sm90.zero_rows %keys from %n : !tile
  // CHECK: sm90.wgmma %{{.*}}, %{{.*}}, %{{.*}} transpose_lhs : !sm90.smem<64x64xbf16>
  %0 = sm90.wgmma %keys, %queries, %zero transpose_lhs : !tile, !sm90.smem<64x32xbf16> -> !narrow
  // CHECK: sm90.wgmma %{{.*}}, %{{.*}}, %{{.*}} transpose_lhs transpose_rhs
  %1 = sm90.wgmma %keys, %weights, %0 transpose_lhs transpose_rhs : !tile, !sm90.smem<32x64xbf16> -> !narrow
  sm90.wgmma_commit
  %2 = sm90.wgmma_wait 0, %1 : !narrow
  // CHECK: sm90.reduce {{ *}}max %{{.*}} dim 0 scratch %{{.*}} : !sm90.smem<4x32xf32, linear> : tensor<64x32xf32, {{.*}}> -> tensor<32xf32, #sm90.columns>
  %3 = sm90.reduce max %2 dim 0 scratch %scratch : !sm90.smem<4x32xf32, linear> : !narrow -> tensor<32xf32, #sm90.columns>
  // CHECK: sm90.broadcast %{{.*}} : tensor<32xf32, #sm90.columns> -> tensor<64x32xf32
  %4 = sm90.broadcast %3 : tensor<32xf32, #sm90.columns> -> !narrow
  %5 = arith.subf %2, %4 : !narrow
  %6 = arith.truncf %5 : !narrow to tensor<64x32xbf16, #frag>
  // CHECK: sm90.store_shared %{{.*}}, %{{.*}} transposed : tensor<64x32xbf16, {{.*}}>, <32x64xbf16>
  sm90.store_shared %6, %weights transposed : tensor<64x32xbf16, #frag>, !sm90.smem<32x64xbf16>
  // CHECK: sm90.store %{{.*}}, %{{.*}}[%{{.*}}] : tensor<32xf32, #sm90.columns>
  sm90.store %3, %x[%c0] : tensor<32xf32, #sm90.columns>, memref<?xf32>
  // CHECK: sm90.load_shared %{{.*}} : <1x64xf32, linear> -> tensor<64xf32, #sm90.rows>
  %7 = sm90.load_shared %l : !rows -> tensor<64xf32, #sm90.rows>
  %scales = sm90.alloc : !sm90.smem<1x32xf32, linear>
  // CHECK: sm90.load_shared %{{.*}} : <1x32xf32, linear> -> tensor<32xf32, #sm90.columns>
  %9 = sm90.load_shared %scales : !sm90.smem<1x32xf32, linear> -> tensor<32xf32, #sm90.columns>
  // CHECK: sm90.broadcast %{{.*}} : tensor<64xf32, #sm90.rows> -> tensor<64x4xf32, #sm90.partial>
  %8 = sm90.broadcast %7 : tensor<64xf32, #sm90.rows> -> tensor<64x4xf32, #sm90.partial>
  // CHECK: sm90.store_shared %{{.*}}, %{{.*}} : tensor<64xf32, #sm90.rows>, <1x64xf32, linear>
  sm90.store_shared %7, %l : tensor<64xf32, #sm90.rows>, !rows
  sm90.return
}

// CHECK-LABEL: sm90.kernel @staged
sm90.kernel @staged(%out: memref<?xf32>, %n: index, %row: index) attributes {warpgroups = 1 : i32} {
  %c64 = arith.constant 64 : index
  %v = memref.reinterpret_cast %out to offset: [0], sizes: [%n, 128], strides: [128, 1]
      : memref<?xf32> to memref<?x128xf32, strided<[128, 1]>>
  %value = arith.constant dense<1.0> : tensor<64x64xf32, #sm90.fragment<column_split = 1>>
  %t = sm90.alloc : !sm90.smem<64x64xbf16>
  // CHECK: sm90.store_staged %{{.*}} through %{{.*}} to %{{.*}}[%{{.*}}, %{{.*}}] : tensor<64x64xf32, #sm90.fragment<column_split = 1>>, <64x64xbf16>, memref<?x128xf32, strided<[128, 1]>>
  sm90.store_staged %value through %t to %v[%row, %c64]
      : tensor<64x64xf32, #sm90.fragment<column_split = 1>>, !sm90.smem<64x64xbf16>, memref<?x128xf32, strided<[128, 1]>>
  sm90.return
}

// Codes of 8 bits come by TMA, 128 columns to a panel, and are read and stored by columns.
// CHECK-LABEL: sm90.kernel @codes
// CHECK: sm90.tensor_map %{{.*}} : {{.*}} -> <64x256xf8E4M3FN>
// CHECK: sm90.slice %{{.*}}[128] : <64x256xf8E4M3FN> -> <64x128xf8E4M3FN>
// CHECK: sm90.load_shared %{{.*}} column 48 : <64x128xf8E4M3FN> -> tensor<64x16xf8E4M3FN
// CHECK: sm90.store_shared %{{.*}}, %{{.*}} column 16 : tensor<64x16xbf16
sm90.kernel @codes(%pool: memref<?xf8E4M3FN>, %rows: index) attributes {warpgroups = 1 : i32} {
  %v = memref.reinterpret_cast %pool to offset: [0], sizes: [%rows, 512], strides: [656, 1]
      : memref<?xf8E4M3FN> to memref<?x512xf8E4M3FN, strided<[656, 1]>>
  %map = sm90.tensor_map %v : memref<?x512xf8E4M3FN, strided<[656, 1]>> -> !sm90.tensor_map<64x256xf8E4M3FN>
  %codes = sm90.alloc : !sm90.smem<64x256xf8E4M3FN>
  %operand = sm90.alloc : !sm90.smem<64x64xbf16>
  %half = sm90.slice %codes[128] : !sm90.smem<64x256xf8E4M3FN> -> !sm90.smem<64x128xf8E4M3FN>
  %c = sm90.load_shared %half column 48 : !sm90.smem<64x128xf8E4M3FN> -> tensor<64x16xf8E4M3FN, #sm90.fragment<column_split = 1>>
  %w = arith.extf %c : tensor<64x16xf8E4M3FN, #sm90.fragment<column_split = 1>> to tensor<64x16xf32, #sm90.fragment<column_split = 1>>
  %n = arith.truncf %w : tensor<64x16xf32, #sm90.fragment<column_split = 1>> to tensor<64x16xbf16, #sm90.fragment<column_split = 1>>
  sm90.store_shared %n, %operand column 16 : tensor<64x16xbf16, #sm90.fragment<column_split = 1>>, !sm90.smem<64x64xbf16>
  sm90.return
}

!sum = !sm90.smem<4x256xf32, linear>
!sums = !sm90.ring<stages = 1, parts = 1, tiles = [!sum]>

// CTAs of a cluster that send each other what they hold.
// CHECK-LABEL: sm90.kernel @exchange
sm90.kernel @exchange() attributes {cluster = 2 : i32, warpgroups = 1 : i32} {
  %ring = sm90.ring full_count 8 empty_count 8 : !sums
  %s = sm90.stage_start
  sm90.role "math" warpgroups 0 to 1 {
    %value = arith.constant dense<0.0> : tensor<64x16xf32, #frag>
    %t = sm90.stage_tile %ring[%s] tile 0 : !sums -> !sum
    // CHECK: sm90.park %{{.*}} to %{{.*}} rank 1 : tensor<64x16xf32, {{.*}}>, <4x256xf32, linear>
    sm90.park %value to %t rank 1 : tensor<64x16xf32, #frag>, !sum
    // CHECK: sm90.publish %{{.*}}[%{{.*}}] part 0 remote : <stages = 1
    sm90.publish %ring[%s] part 0 remote : !sums
    // CHECK: sm90.await %{{.*}}[%{{.*}}] part 0 remote : <stages = 1
    sm90.await %ring[%s] part 0 remote : !sums
  }
  sm90.return
}
