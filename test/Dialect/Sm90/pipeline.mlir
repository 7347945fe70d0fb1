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
        // CHECK: sm90.acquire %{{.*}}[%{{.*}}] : <stages
        sm90.acquire %ring[%st] : !ring
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
    %cond = arith.cmpf one, %r, %r : tensor<64xf32, #sm90.rows>
    %any = sm90.warp_any %cond : tensor<64xi1, #sm90.rows>
    %2 = scf.if %any -> (tensor<64x64xf32, #frag>) {
      %b = sm90.broadcast %r : tensor<64xf32, #sm90.rows> -> tensor<64x64xf32, #frag>
      %m = arith.mulf %1, %b : tensor<64x64xf32, #frag>
      scf.yield %m : tensor<64x64xf32, #frag>
    } else {
      scf.yield %1 : tensor<64x64xf32, #frag>
    }
    // CHECK: sm90.store %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] transposed
    sm90.store %2, %o[%c0, %c0] transposed : tensor<64x64xf32, #frag>, memref<64x64xf32, strided<[64, 1]>>
    // CHECK: sm90.publish %{{.*}}[%{{.*}}] part 0 : <stages = 1, parts = 1>
    sm90.publish %signal[%s] part 0 : !sm90.ring<stages = 1, parts = 1>
  }
  sm90.return
}
