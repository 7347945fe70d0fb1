// RUN: mla-opt %s --canonicalize --cse | FileCheck %s

// Stores by TMA write the map's view: none is dead, nor is one the other's repetition.

// CHECK-LABEL: sm90.kernel @stores
// CHECK: sm90.tma_store
// CHECK: sm90.tma_store
// CHECK-NOT: sm90.stage_start
sm90.kernel @stores(%y: memref<?xbf16>) attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %y to offset: [0], sizes: [64, 64], strides: [64, 1]
      : memref<?xbf16> to memref<64x64xbf16, strided<[64, 1]>>
  %map = sm90.tensor_map %v : memref<64x64xbf16, strided<[64, 1]>> -> !sm90.tensor_map<64x64xbf16>
  %t = sm90.alloc : !sm90.smem<64x64xbf16>
  %unused = sm90.stage_start
  sm90.elect {
    sm90.tma_store %t to %map[%c0, %c0] : !sm90.smem<64x64xbf16>, !sm90.tensor_map<64x64xbf16>
    sm90.tma_store %t to %map[%c0, %c0] : !sm90.smem<64x64xbf16>, !sm90.tensor_map<64x64xbf16>
    sm90.store_commit
    sm90.store_wait 0
  }
  sm90.return
}
