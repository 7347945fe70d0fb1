// RUN: mla-opt %s --split-input-file --verify-diagnostics

// Roles, rings and asynchronous copies (Sm90PipelineOps.td).

func.func @role_parent() {
  // expected-error @+1 {{expects parent op 'sm90.kernel'}}
  sm90.role "a" warpgroups 0 to 1 {
  }
  return
}

// -----

sm90.kernel @role_empty() attributes {warpgroups = 2 : i32} {
  // expected-error @+1 {{expected at least one warpgroup, got 1 to 1}}
  sm90.role "a" warpgroups 1 to 1 {
  }
  sm90.return
}

// -----

sm90.kernel @role_registers() attributes {warpgroups = 1 : i32} {
  // expected-error @+1 {{expected registers in multiples of 8 from 24 to 240, got 36}}
  sm90.role "a" warpgroups 0 to 1 registers 36 {
  }
  sm90.return
}

// -----

sm90.kernel @role_registers_bound() attributes {warpgroups = 1 : i32} {
  // expected-error @+1 {{expected registers in multiples of 8 from 24 to 240, got 248}}
  sm90.role "a" warpgroups 0 to 1 registers 248 {
  }
  sm90.return
}

// -----

sm90.kernel @role_tensor() attributes {warpgroups = 1 : i32} {
  %x = sm90.iota 0 : tensor<64xi32, #sm90.rows>
  sm90.role "a" warpgroups 0 to 1 {
    // expected-error @+1 {{uses a tensor from outside of role 'a'}}
    %y = arith.addi %x, %x : tensor<64xi32, #sm90.rows>
  }
  sm90.return
}

// -----

sm90.kernel @elect_fragment() attributes {warpgroups = 1 : i32} {
  sm90.elect {
    // expected-error @+1 {{cannot be executed by one thread (inside sm90.elect)}}
    %x = sm90.iota 0 : tensor<64xi32, #sm90.rows>
  }
  sm90.return
}

// -----

sm90.kernel @elect_barrier() attributes {warpgroups = 1 : i32} {
  sm90.elect {
    // expected-error @+1 {{cannot be executed by one thread (inside sm90.elect)}}
    sm90.barrier
  }
  sm90.return
}

// -----

func.func @warp_any_element(%x: tensor<64xi32, #sm90.rows>) {
  // expected-error @+1 {{expected a condition of i1, got 'tensor<64xi32, #sm90.rows>'}}
  %0 = sm90.warp_any %x : tensor<64xi32, #sm90.rows>
  return
}

// -----

func.func @warp_any_user(%x: tensor<64xi1, #sm90.rows>) -> i1 {
  // expected-error @+1 {{expected to be used by scf.if only, got func.return}}
  %0 = sm90.warp_any %x : tensor<64xi1, #sm90.rows>
  return %0 : i1
}

// -----

func.func @warp_any_body(%x: tensor<64xi1, #sm90.rows>) {
  %0 = sm90.warp_any %x : tensor<64xi1, #sm90.rows>
  // expected-error @+1 {{depends on sm90.warp_any, so it holds element-wise ops only}}
  scf.if %0 {
    sm90.barrier
  }
  return
}

// -----

func.func @role_any_element(%x: tensor<64x64xf32, #sm90.fragment<column_split = 1>>) {
  // expected-error @+1 {{expected a fragment of i1 with column_split 1, got 'tensor<64x64xf32}}
  %0 = sm90.role_any %x : tensor<64x64xf32, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @role_any_split(%x: tensor<64x64xi1, #sm90.fragment<column_split = 2>>) {
  // expected-error @+1 {{expected a fragment of i1 with column_split 1, got 'tensor<64x64xi1}}
  %0 = sm90.role_any %x : tensor<64x64xi1, #sm90.fragment<column_split = 2>>
  return
}

// -----

sm90.kernel @role_any_outside() attributes {warpgroups = 1 : i32} {
  %x = arith.constant dense<true> : tensor<64x64xi1, #sm90.fragment<column_split = 1>>
  // expected-error @+1 {{expected a role of one warpgroup around it}}
  %0 = sm90.role_any %x : tensor<64x64xi1, #sm90.fragment<column_split = 1>>
  sm90.return
}

// -----

sm90.kernel @ring_full_count() attributes {warpgroups = 1 : i32} {
  // expected-error @+1 {{attribute 'full_count' failed to satisfy constraint: 32-bit signless integer attribute whose value is positive}}
  %r = sm90.ring full_count 0 empty_count 1 : !sm90.ring<stages = 2, parts = 1>
  sm90.return
}

// -----

sm90.kernel @ring_offset() attributes {warpgroups = 1 : i32} {
  // expected-error @+1 {{expected an offset that is a multiple of 1024, got 512}}
  %r = sm90.ring full_count 1 empty_count 1 offset 512 : !sm90.ring<stages = 2, parts = 1, tiles = [!sm90.smem<64x64xbf16>]>
  sm90.return
}

// -----

sm90.kernel @ring_barrier_offset() attributes {warpgroups = 1 : i32} {
  // expected-error @+1 {{expected a barrier_offset that is a multiple of 8, got 12}}
  %r = sm90.ring full_count 1 empty_count 1 barrier_offset 12 : !sm90.ring<stages = 2, parts = 1>
  sm90.return
}

// -----

func.func @ring_parent() {
  // expected-error @+1 {{expects parent op 'sm90.kernel'}}
  %r = sm90.ring full_count 1 empty_count 1 : !sm90.ring<stages = 2, parts = 1>
  return
}

// -----

!ring = !sm90.ring<stages = 2, parts = 1, tiles = [!sm90.smem<64x64xbf16>]>
func.func @stage_tile_index(%r: !ring, %s: !sm90.stage) {
  // expected-error @+1 {{expected an index below the ring's 1 tiles, got 1}}
  %t = sm90.stage_tile %r[%s] tile 1 : !ring -> !sm90.smem<64x64xbf16>
  return
}

// -----

!ring = !sm90.ring<stages = 2, parts = 1, tiles = [!sm90.smem<64x64xbf16>]>
func.func @stage_tile_type(%r: !ring, %s: !sm90.stage) {
  // expected-error @+1 {{expected a result of type '!sm90.smem<64x64xbf16>', got '!sm90.smem<64x128xbf16>'}}
  %t = sm90.stage_tile %r[%s] tile 0 : !ring -> !sm90.smem<64x128xbf16>
  return
}

// -----

!ring = !sm90.ring<stages = 2, parts = 1>
sm90.kernel @acquire_signal() attributes {warpgroups = 1 : i32} {
  %r = sm90.ring full_count 1 empty_count 0 : !ring
  %s = sm90.stage_start
  // expected-error @+1 {{expected a ring with an empty_count above 0}}
  sm90.acquire %r[%s] : !ring
  sm90.return
}

// -----

!ring = !sm90.ring<stages = 2, parts = 1>
sm90.kernel @release_signal() attributes {warpgroups = 1 : i32} {
  %r = sm90.ring full_count 1 empty_count 0 : !ring
  %s = sm90.stage_start
  // expected-error @+1 {{expected a ring with an empty_count above 0}}
  sm90.release %r[%s] : !ring
  sm90.return
}

// -----

!ring = !sm90.ring<stages = 2, parts = 1>
sm90.kernel @release_remote() attributes {warpgroups = 1 : i32} {
  %r = sm90.ring full_count 1 empty_count 1 : !ring
  %s = sm90.stage_start
  // expected-error @+1 {{'remote' expects a kernel with a cluster of more than 1 CTA}}
  sm90.release %r[%s] remote : !ring
  sm90.return
}

// -----

!ring = !sm90.ring<stages = 2, parts = 1>
sm90.kernel @publish_remote() attributes {warpgroups = 1 : i32} {
  %r = sm90.ring full_count 1 empty_count 1 : !ring
  %s = sm90.stage_start
  // expected-error @+1 {{'remote' expects a kernel with a cluster of more than 1 CTA}}
  sm90.publish %r[%s] part 0 remote : !ring
  sm90.return
}

// -----

!ring = !sm90.ring<stages = 2, parts = 1>
sm90.kernel @await_remote() attributes {warpgroups = 1 : i32} {
  %r = sm90.ring full_count 1 empty_count 1 : !ring
  %s = sm90.stage_start
  // expected-error @+1 {{'remote' expects a kernel with a cluster of more than 1 CTA}}
  sm90.await %r[%s] part 0 remote : !ring
  sm90.return
}

// -----

!ring = !sm90.ring<stages = 2, parts = 2>
sm90.kernel @expect_part(%r: index) attributes {warpgroups = 1 : i32} {
  %ring = sm90.ring full_count 1 empty_count 1 : !ring
  %s = sm90.stage_start
  sm90.elect {
    // expected-error @+1 {{expected a part below the ring's 2, got 2}}
    sm90.expect %ring[%s] part 2 bytes 16 : !ring
  }
  sm90.return
}

// -----

!ring = !sm90.ring<stages = 2, parts = 2>
func.func @expect_elected(%r: !ring, %s: !sm90.stage) {
  // expected-error @+1 {{expected to stand inside sm90.elect: one thread issues it}}
  sm90.expect %r[%s] part 1 bytes 16 : !ring
  return
}

// -----

!ring = !sm90.ring<stages = 2, parts = 2>
func.func @expect_bytes(%r: !ring, %s: !sm90.stage) {
  sm90.elect {
    // expected-error @+1 {{expected at most 1048575 bytes, got 1048576}}
    sm90.expect %r[%s] part 1 bytes 1048576 : !ring
  }
  return
}

// -----

!ring = !sm90.ring<stages = 2, parts = 2>
func.func @publish_part(%r: !ring, %s: !sm90.stage) {
  // expected-error @+1 {{expected a part below the ring's 2, got -1}}
  sm90.publish %r[%s] part -1 : !ring
  return
}

// -----

!ring = !sm90.ring<stages = 2, parts = 2>
func.func @copy_publish_part(%r: !ring, %s: !sm90.stage) {
  // expected-error @+1 {{expected a part below the ring's 2, got 2}}
  sm90.copy_publish %r[%s] part 2 : !ring
  return
}

// -----

!ring = !sm90.ring<stages = 2, parts = 2>
func.func @await_part(%r: !ring, %s: !sm90.stage) {
  // expected-error @+1 {{expected a part below the ring's 2, got 3}}
  sm90.await %r[%s] part 3 : !ring
  return
}

// -----

func.func @named_barrier_id() {
  // expected-error @+1 {{attribute 'id' failed to satisfy constraint: 32-bit signless integer attribute whose minimum value is 8 whose maximum value is 15}}
  sm90.named_barrier 7 warps 4
  return
}

// -----

func.func @named_barrier_warps() {
  // expected-error @+1 {{attribute 'warps' failed to satisfy constraint: 32-bit signless integer attribute whose minimum value is 1 whose maximum value is 32}}
  sm90.named_barrier 8 warps 33
  return
}

// -----

sm90.kernel @tensor_map_rank(%x: memref<?xbf16>) attributes {warpgroups = 1 : i32} {
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [64], strides: [1] : memref<?xbf16> to memref<64xbf16>
  // expected-error @+1 {{expected a view of rank 2 to 4, got rank 1}}
  %m = sm90.tensor_map %v : memref<64xbf16> -> !sm90.tensor_map<64x64xbf16>
  sm90.return
}

// -----

sm90.kernel @tensor_map_groups(%x: memref<?xbf16>) attributes {warpgroups = 1 : i32} {
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [5, 2, 3, 64], strides: [384, 192, 64, 1] : memref<?xbf16> to memref<5x2x3x64xbf16, strided<[384, 192, 64, 1]>>
  // expected-error @+1 {{expected groups of a static size that divides 64 rows or is a multiple, and boxes of one panel, got}}
  %m = sm90.tensor_map %v : memref<5x2x3x64xbf16, strided<[384, 192, 64, 1]>> -> !sm90.tensor_map<64x64xbf16>
  sm90.return
}

// -----

sm90.kernel @tensor_map_stride(%x: memref<?xbf16>) attributes {warpgroups = 1 : i32} {
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [64, 64], strides: [128, 2] : memref<?xbf16> to memref<64x64xbf16, strided<[128, 2]>>
  // expected-error @+1 {{expected a view of 'bf16' with innermost stride 1, got 'memref<64x64xbf16, strided<[128, 2]>>'}}
  %m = sm90.tensor_map %v : memref<64x64xbf16, strided<[128, 2]>> -> !sm90.tensor_map<64x64xbf16>
  sm90.return
}

// -----

sm90.kernel @tensor_map_element(%x: memref<?xbf16>) attributes {warpgroups = 1 : i32} {
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [64, 64], strides: [64, 1] : memref<?xbf16> to memref<64x64xbf16, strided<[64, 1]>>
  // expected-error @+1 {{expected a view of 'f16' with innermost stride 1}}
  %m = sm90.tensor_map %v : memref<64x64xbf16, strided<[64, 1]>> -> !sm90.tensor_map<64x64xf16>
  sm90.return
}

// -----

sm90.kernel @tensor_map_source(%x: memref<?xbf16>) attributes {warpgroups = 1 : i32} {
  %v = memref.alloca() : memref<64x64xbf16>
  // expected-error @+1 {{expected a memref.reinterpret_cast of a kernel argument}}
  %m = sm90.tensor_map %v : memref<64x64xbf16> -> !sm90.tensor_map<64x64xbf16>
  sm90.return
}

// -----

sm90.kernel @tensor_map_sizes(%x: memref<?xbf16>, %n: index) attributes {warpgroups = 1 : i32} {
  %m = arith.addi %n, %n : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [%m, 64], strides: [64, 1] : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1]>>
  // expected-error @+1 {{expected offset, sizes and strides that are constants, arguments or an argument times a constant}}
  %t = sm90.tensor_map %v : memref<?x64xbf16, strided<[64, 1]>> -> !sm90.tensor_map<64x64xbf16>
  sm90.return
}

// -----

!ring = !sm90.ring<stages = 2, parts = 1>
!map = !sm90.tensor_map<64x64xbf16>
func.func @tma_load_target(%m: !map, %t: !sm90.smem<64x64xf16>, %r: !ring, %s: !sm90.stage, %i: index) {
  sm90.elect {
    // expected-error @+1 {{expected a swizzle128 target of 'bf16', got '!sm90.smem<64x64xf16>'}}
    sm90.tma_load %m[%i, %i] to %t signals %r[%s] part 0 : !map, !sm90.smem<64x64xf16>, !ring
  }
  return
}

// -----

!ring = !sm90.ring<stages = 2, parts = 1>
!map = !sm90.tensor_map<32x64xbf16>
func.func @tma_load_row(%m: !map, %t: !sm90.smem<64x64xbf16>, %r: !ring, %s: !sm90.stage, %i: index) {
  sm90.elect {
    // expected-error @+1 {{expected 32 rows from a multiple of 8 within the target's 64, got row 40}}
    sm90.tma_load %m[%i, %i] to %t row 40 signals %r[%s] part 0 : !map, !sm90.smem<64x64xbf16>, !ring
  }
  return
}

// -----

!ring = !sm90.ring<stages = 2, parts = 1>
!map = !sm90.tensor_map<64x64xbf16>
func.func @tma_load_part(%m: !map, %t: !sm90.smem<64x64xbf16>, %r: !ring, %s: !sm90.stage, %i: index) {
  sm90.elect {
    // expected-error @+1 {{expected a part below the ring's 1, got 1}}
    sm90.tma_load %m[%i, %i] to %t signals %r[%s] part 1 : !map, !sm90.smem<64x64xbf16>, !ring
  }
  return
}

// -----

!ring = !sm90.ring<stages = 2, parts = 1>
!map = !sm90.tensor_map<64x64xbf16>
func.func @tma_load_elected(%m: !map, %t: !sm90.smem<64x64xbf16>, %r: !ring, %s: !sm90.stage, %i: index) {
  // expected-error @+1 {{expected to stand inside sm90.elect: one thread issues it}}
  sm90.tma_load %m[%i, %i] to %t signals %r[%s] part 0 : !map, !sm90.smem<64x64xbf16>, !ring
  return
}

// -----

!ring = !sm90.ring<stages = 2, parts = 1>
!map = !sm90.tensor_map<64x64xbf16>
sm90.kernel @tma_load_multicast(%x: memref<?xbf16>) attributes {cluster = 2 : i32, warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [64, 64], strides: [64, 1] : memref<?xbf16> to memref<64x64xbf16, strided<[64, 1]>>
  %m = sm90.tensor_map %v : memref<64x64xbf16, strided<[64, 1]>> -> !map
  %t = sm90.alloc : !sm90.smem<64x64xbf16>
  %r = sm90.ring full_count 1 empty_count 1 : !ring
  %s = sm90.stage_start
  sm90.elect {
    // expected-error @+1 {{expected a multicast mask of the cluster's 2 ranks, got 4}}
    sm90.tma_load %m[%c0, %c0] to %t signals %r[%s] part 0 multicast 4 : !map, !sm90.smem<64x64xbf16>, !ring
  }
  sm90.return
}

// -----

!ring = !sm90.ring<stages = 2, parts = 1>
!map = !sm90.tensor_map<64x64xbf16>
sm90.kernel @tma_load_coordinates(%x: memref<?xbf16>) attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [64, 64], strides: [64, 1] : memref<?xbf16> to memref<64x64xbf16, strided<[64, 1]>>
  %m = sm90.tensor_map %v : memref<64x64xbf16, strided<[64, 1]>> -> !map
  %t = sm90.alloc : !sm90.smem<64x64xbf16>
  %r = sm90.ring full_count 1 empty_count 1 : !ring
  %s = sm90.stage_start
  sm90.elect {
    // expected-error @+1 {{expected 2 coordinates, got 1}}
    sm90.tma_load %m[%c0] to %t signals %r[%s] part 0 : !map, !sm90.smem<64x64xbf16>, !ring
  }
  sm90.return
}

// -----

sm90.kernel @tensor_map_panels(%x: memref<?xbf16>) attributes {warpgroups = 1 : i32} {
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [64, 64], strides: [64, 1] : memref<?xbf16> to memref<64x64xbf16, strided<[64, 1]>>
  // expected-error @+1 {{expected a view of at least 128 columns for boxes of as many, got 'memref<64x64xbf16, strided<[64, 1]>>'}}
  %m = sm90.tensor_map %v : memref<64x64xbf16, strided<[64, 1]>> -> !sm90.tensor_map<64x128xbf16>
  sm90.return
}

// -----

!ring = !sm90.ring<stages = 2, parts = 1>
!map = !sm90.tensor_map<32x128xbf16>
func.func @tma_load_boxes(%m: !map, %t: !sm90.smem<64x128xbf16>, %r: !ring, %s: !sm90.stage, %i: index) {
  %c0 = arith.constant 0 : index
  sm90.elect {
    // expected-error @+1 {{expected a tile of whole boxes of 32 rows and 128 columns, got '!sm90.smem<64x128xbf16>'}}
    sm90.tma_load %m[%i, %c0] to %t signals %r[%s] part 0 : !map, !sm90.smem<64x128xbf16>, !ring
  }
  return
}

// -----

!ring = !sm90.ring<stages = 2, parts = 1>
!map = !sm90.tensor_map<64x64xf8E4M3FN>
func.func @tma_load_part_of_panel(%m: !map, %t: !sm90.smem<64x128xf8E4M3FN>, %r: !ring, %s: !sm90.stage, %i: index) {
  sm90.elect {
    // expected-error @+1 {{expected a tile of 64 columns, as boxes of a part of a panel have, got '!sm90.smem<64x128xf8E4M3FN>'}}
    sm90.tma_load %m[%i, %i] to %t signals %r[%s] part 0 : !map, !sm90.smem<64x128xf8E4M3FN>, !ring
  }
  return
}

// -----

!ring = !sm90.ring<stages = 2, parts = 1>
!map = !sm90.tensor_map<64x128xbf16>
func.func @tma_load_column(%m: !map, %t: !sm90.smem<64x128xbf16>, %r: !ring, %s: !sm90.stage, %i: index) {
  sm90.elect {
    // expected-error @+1 {{expected the column of a box of 128 columns to be a constant multiple of 64}}
    sm90.tma_load %m[%i, %i] to %t signals %r[%s] part 0 : !map, !sm90.smem<64x128xbf16>, !ring
  }
  return
}

// -----

!map = !sm90.tensor_map<64x128xbf16>
func.func @tma_store_boxes(%m: !map, %t: !sm90.smem<64x64xbf16>, %i: index) {
  %c0 = arith.constant 0 : index
  sm90.elect {
    // expected-error @+1 {{expected a tile of whole boxes of 64 rows and 128 columns, got '!sm90.smem<64x64xbf16>'}}
    sm90.tma_store %t to %m[%i, %c0] : !sm90.smem<64x64xbf16>, !map
  }
  return
}

// -----

!map = !sm90.tensor_map<64x64xbf16>
sm90.kernel @tma_store_coordinates(%x: memref<?xbf16>) attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [64, 64], strides: [64, 1] : memref<?xbf16> to memref<64x64xbf16, strided<[64, 1]>>
  %m = sm90.tensor_map %v : memref<64x64xbf16, strided<[64, 1]>> -> !map
  %t = sm90.alloc : !sm90.smem<64x64xbf16>
  sm90.elect {
    // expected-error @+1 {{expected 2 coordinates, got 1}}
    sm90.tma_store %t to %m[%c0] : !sm90.smem<64x64xbf16>, !map
  }
  sm90.return
}

// -----

!map = !sm90.tensor_map<64x64xbf16>
func.func @tma_store_source(%m: !map, %t: !sm90.smem<32x64xbf16>, %i: index) {
  sm90.elect {
    // expected-error @+1 {{expected a swizzle128 source of 64 rows of 'bf16', got '!sm90.smem<32x64xbf16>'}}
    sm90.tma_store %t to %m[%i, %i] : !sm90.smem<32x64xbf16>, !map
  }
  return
}

// -----

!map = !sm90.tensor_map<64x64xbf16>
func.func @tma_store_elected(%m: !map, %t: !sm90.smem<64x64xbf16>, %i: index) {
  // expected-error @+1 {{expected to stand inside sm90.elect: one thread issues it}}
  sm90.tma_store %t to %m[%i, %i] : !sm90.smem<64x64xbf16>, !map
  return
}

// -----

!ring = !sm90.ring<stages = 2, parts = 1>
func.func @bulk_load_target(%x: memref<?xf32>, %t: !sm90.smem<1x63xf32, linear>, %r: !ring, %s: !sm90.stage, %i: index) {
  sm90.elect {
    // expected-error @+1 {{expected a linear target of 'f32' of a multiple of 16 bytes, got '!sm90.smem<1x63xf32, linear>'}}
    sm90.bulk_load %x[%i] to %t signals %r[%s] part 0 : memref<?xf32>, !sm90.smem<1x63xf32, linear>, !ring
  }
  return
}

// -----

!ring = !sm90.ring<stages = 2, parts = 1>
func.func @bulk_load_part(%x: memref<?xf32>, %t: !sm90.smem<1x64xf32, linear>, %r: !ring, %s: !sm90.stage, %i: index) {
  sm90.elect {
    // expected-error @+1 {{expected a part below the ring's 1, got 1}}
    sm90.bulk_load %x[%i] to %t signals %r[%s] part 1 : memref<?xf32>, !sm90.smem<1x64xf32, linear>, !ring
  }
  return
}

// -----

!ring = !sm90.ring<stages = 2, parts = 1>
func.func @bulk_load_view(%x: memref<?x64xf32>, %t: !sm90.smem<1x64xf32, linear>, %r: !ring, %s: !sm90.stage, %i: index) {
  sm90.elect {
    // expected-error @+1 {{expected a view of rank 1 with stride 1, got 'memref<?x64xf32>'}}
    sm90.bulk_load %x[%i] to %t signals %r[%s] part 0 : memref<?x64xf32>, !sm90.smem<1x64xf32, linear>, !ring
  }
  return
}

// -----

!ring = !sm90.ring<stages = 2, parts = 1>
func.func @bulk_load_elected(%x: memref<?xf32>, %t: !sm90.smem<1x64xf32, linear>, %r: !ring, %s: !sm90.stage, %i: index) {
  // expected-error @+1 {{expected to stand inside sm90.elect: one thread issues it}}
  sm90.bulk_load %x[%i] to %t signals %r[%s] part 0 : memref<?xf32>, !sm90.smem<1x64xf32, linear>, !ring
  return
}

// -----

func.func @prefetch_bytes(%x: memref<?x64xf32>, %i: index) {
  sm90.elect {
    // expected-error @+1 {{expected a multiple of 16 bytes, got 24}}
    sm90.prefetch %x[%i, %i] bytes 24 : memref<?x64xf32>
  }
  return
}

// -----

func.func @prefetch_offsets(%x: memref<?x64xf32>, %i: index) {
  sm90.elect {
    // expected-error @+1 {{expected 2 offsets, got 1}}
    sm90.prefetch %x[%i] bytes 32 : memref<?x64xf32>
  }
  return
}

// -----

func.func @prefetch_elected(%x: memref<?x64xf32>, %i: index) {
  // expected-error @+1 {{expected to stand inside sm90.elect: one thread issues it}}
  sm90.prefetch %x[%i, %i] bytes 32 : memref<?x64xf32>
  return
}

// -----

func.func @load_shared_shape(%s: !sm90.smem<64x128xbf16>) {
  // expected-error @+1 {{expected a swizzle128 source of the shape and element type of a fragment that is not split, columns a multiple of 16}}
  %0 = sm90.load_shared %s : !sm90.smem<64x128xbf16> -> tensor<64x64xbf16, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @load_shared_split(%s: !sm90.smem<64x64xbf16>) {
  // expected-error @+1 {{expected a swizzle128 source of the shape and element type of a fragment that is not split}}
  %0 = sm90.load_shared %s : !sm90.smem<64x64xbf16> -> tensor<64x64xbf16, #sm90.fragment<column_split = 2>>
  return
}

// -----

func.func @load_shared_columns(%s: !sm90.smem<64x24xbf16>) {
  // expected-error @+1 {{columns a multiple of 16}}
  %0 = sm90.load_shared %s : !sm90.smem<64x24xbf16> -> tensor<64x24xbf16, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @load_shared_column_vector(%s: !sm90.smem<1x16xf32, linear>) {
  // expected-error @+1 {{expected a source of type '!sm90.smem<1x32xf32, linear>', got '!sm90.smem<1x16xf32, linear>'}}
  %0 = sm90.load_shared %s : !sm90.smem<1x16xf32, linear> -> tensor<32xf32, #sm90.columns>
  return
}

// -----

func.func @load_shared_column_of_columns(%s: !sm90.smem<64x16xf32, linear>) {
  // expected-error @+1 {{expected no column, as the result is a vector of columns: 'tensor<64xf32, #sm90.columns>'}}
  %0 = sm90.load_shared %s column 0 : !sm90.smem<64x16xf32, linear> -> tensor<64xf32, #sm90.columns>
  return
}

// -----

func.func @load_shared_rows(%s: !sm90.smem<2x64xf32, linear>) {
  // expected-error @+1 {{expected a source of type '!sm90.smem<1x64xf32, linear>', got '!sm90.smem<2x64xf32, linear>'}}
  %0 = sm90.load_shared %s : !sm90.smem<2x64xf32, linear> -> tensor<64xf32, #sm90.rows>
  return
}

// -----

func.func @zero_rows_linear(%s: !sm90.smem<2x64xf32, linear>, %i: index) {
  // expected-error @+1 {{expected a swizzle128 target, got '!sm90.smem<2x64xf32, linear>'}}
  sm90.zero_rows %s from %i : !sm90.smem<2x64xf32, linear>
  return
}

// -----

sm90.kernel @cluster_barrier() attributes {warpgroups = 1 : i32} {
  // expected-error @+1 {{expected a kernel with a cluster of more than 1 CTA}}
  sm90.cluster_barrier
  sm90.return
}

// -----

func.func @end_parent() {
  // expected-error @+1 {{expects parent op to be one of 'sm90.role, sm90.elect'}}
  sm90.end
}

// -----

func.func @pin_element(%x: tensor<64x64xbf16, #sm90.fragment<column_split = 1>>) {
  // expected-error @+1 {{expected a fragment of f32, got 'tensor<64x64xbf16, #sm90.fragment<column_split = 1>>'}}
  %0 = sm90.pin %x : tensor<64x64xbf16, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @store_staged_split(%v: memref<?x128xf32>, %i: index, %t: !sm90.smem<64x64xbf16>,
                               %x: tensor<64x64xf32, #sm90.fragment<column_split = 2>>) {
  %c = arith.constant 0 : index
  // expected-error @+1 {{expected a fragment with column_split 1 of 2- or 4-byte elements, got}}
  sm90.store_staged %x through %t to %v[%i, %c] : tensor<64x64xf32, #sm90.fragment<column_split = 2>>, !sm90.smem<64x64xbf16>, memref<?x128xf32>
  return
}

// -----

func.func @store_staged_scratch(%v: memref<?x128xbf16>, %i: index, %t: !sm90.smem<64x128xbf16>,
                               %x: tensor<64x64xbf16, #sm90.fragment<column_split = 1>>) {
  %c = arith.constant 0 : index
  // expected-error @+1 {{expected swizzle128 scratch of 64 rows whose bytes divide those of a row of}}
  sm90.store_staged %x through %t to %v[%i, %c] : tensor<64x64xbf16, #sm90.fragment<column_split = 1>>, !sm90.smem<64x128xbf16>, memref<?x128xbf16>
  return
}

// -----

func.func @store_staged_view(%v: memref<?x?xbf16>, %i: index, %t: !sm90.smem<64x64xbf16>,
                               %x: tensor<64x64xbf16, #sm90.fragment<column_split = 1>>) {
  %c = arith.constant 0 : index
  // expected-error @+1 {{expected a view [rows, constant columns] of 'bf16' with innermost stride 1 and two offsets, got 'memref<?x?xbf16>'}}
  sm90.store_staged %x through %t to %v[%i, %c] : tensor<64x64xbf16, #sm90.fragment<column_split = 1>>, !sm90.smem<64x64xbf16>, memref<?x?xbf16>
  return
}

// -----

func.func @store_staged_column(%v: memref<?x128xbf16>, %i: index, %t: !sm90.smem<64x64xbf16>,
                               %x: tensor<64x64xbf16, #sm90.fragment<column_split = 1>>) {
  %c = arith.constant 96 : index
  // expected-error @+1 {{expected a constant column from which 64 are inside the view's 128}}
  sm90.store_staged %x through %t to %v[%i, %c] : tensor<64x64xbf16, #sm90.fragment<column_split = 1>>, !sm90.smem<64x64xbf16>, memref<?x128xbf16>
  return
}

// -----

func.func @load_shared_column(%s: !sm90.smem<64x128xf8E4M3FN>) {
  // expected-error @+1 {{expected columns from a multiple of 16 within the source's 128, got 8 of}}
  %0 = sm90.load_shared %s column 8 : !sm90.smem<64x128xf8E4M3FN> -> tensor<64x16xf8E4M3FN, #sm90.fragment<column_split = 1>>
  return
}
