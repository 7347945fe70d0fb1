// Roles, rings, tensor maps and bulk copies.
// RUN: mla-opt %s --convert-sm90-to-nvvm | FileCheck %s
// RUN: mla-opt %s --pass-pipeline='builtin.module(convert-sm90-to-nvvm,llvm.func(convert-nvvm-kernel-to-llvm))' \
// RUN:   | FileCheck %s --check-prefix=LLVM

!ring = !sm90.ring<stages = 3, parts = 2, tiles = [!sm90.smem<64x128xbf16>]>
!one = !sm90.ring<stages = 1, parts = 1, tiles = [!sm90.smem<64x64xbf16>]>
!signal = !sm90.ring<stages = 1, parts = 1>

// Each map is a parameter of 128 bytes; what it describes is for the launch:
// [factor, argument or -1].
// CHECK-LABEL: llvm.func @roles(
// CHECK-SAME:    %[[MAP:[a-z0-9]+]]: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<16 x i64>, nvvm.grid_constant})
// CHECK-SAME:    mlac.tensor_maps = [{argument = 0 : i64, box = array<i64: 64, 64>, offset = array<i64: 0, -1>,
// CHECK-SAME:      sizes = [array<i64: 64, 1>, array<i64: 128, -1>], strides = [array<i64: 1, 2>, array<i64: 1, -1>]}]
// CHECK-SAME:    nvvm.maxntid = array<i32: 384>, nvvm.minctasm = 1 : i32

// Shared memory is at a constant address, or the kernel stops.
// CHECK:         %[[WARPGROUP:.*]] = nvvm.shfl.sync idx
// CHECK:         %[[SYMBOL:.*]] = llvm.ptrtoint
// CHECK:         arith.cmpi ne, %{{.*}}, %c1024_i32
// CHECK:         llvm.intr.trap
// CHECK:         %[[SHARED:.*]] = llvm.inttoptr %c1024_i32{{.*}} : i32 to !llvm.ptr<3>

// One thread makes 6 full and 3 empty barriers of the first ring, 2 and 1.
// CHECK:         scf.if
// CHECK-COUNT-6:   nvvm.mbarrier.init %{{.*}}, %c1_i32
// CHECK-COUNT-3:   nvvm.mbarrier.init %{{.*}}, %c4_i32
// CHECK-COUNT-2:   nvvm.mbarrier.init %{{.*}}, %c8_i32
// CHECK-NEXT:      nvvm.fence.mbarrier.init
// CHECK-NEXT:      nvvm.prefetch tensormap, %[[MAP]]
// CHECK:         nvvm.barrier0

// 168 registers at the launch: 65536 / 384 rounded down to a multiple of 8.
// CHECK:         arith.cmpi eq, %[[WARPGROUP]], %c0
// CHECK:         scf.if
// CHECK:           nvvm.setmaxregister decrease 40
// A thread that copies by TMA is elected within the first warp.
// CHECK:           %[[WARP:.*]] = arith.cmpi ult, %{{.*}}, %c32_i32
// CHECK:           scf.if %[[WARP]] {
// CHECK:             %[[ELECTED:.*]] = nvvm.elect.sync -> i1
// CHECK:             scf.if %[[ELECTED]] {
// CHECK:             scf.for {{.*}} -> (i32, i32)
// Waits for the parity before: a fresh barrier is free.
// CHECK:               %[[BEFORE:.*]] = arith.xori %[[PHASE:.*]], %c1_i32
// CHECK:               scf.while
// CHECK:                 nvvm.mbarrier.try_wait %{{.*}}, %[[BEFORE]] : !llvm.ptr<3>, i32 -> i1
// CHECK:               nvvm.mbarrier.arrive.expect_tx %{{.*}}, %c16384_i32
// A panel each, columns first.
// CHECK:               nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[MAP]], %[[BAR:.*]], box[%[[C:.*]], %{{.*}}] {isCTAOnly = true}
// CHECK:               %[[C64:.*]] = arith.constant 64 : i32
// CHECK:               nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[MAP]], %[[BAR]], box[%c64
// CHECK:               %[[WRAPS:.*]] = arith.cmpi eq, %[[NEXT:.*]], %c3_i32
// CHECK:               %[[FLIP:.*]] = arith.extui %[[WRAPS]]
// CHECK:               arith.select %[[WRAPS]], %c0_i32{{.*}}, %[[NEXT]]
// CHECK:               arith.xori %[[PHASE]], %[[FLIP]]
// CHECK:           nvvm.bar.warp.sync
// CHECK:         } else {
// The second role: two warpgroups, 184 registers.
// CHECK:           scf.if
// CHECK:             nvvm.setmaxregister increase 184
// CHECK:             llvm.intr.assume
// CHECK:             scf.for
// CHECK:               nvvm.mbarrier.try_wait
// CHECK:               nvvm.bar.warp.sync
// CHECK:               %[[FIRST:.*]] = arith.cmpi eq, %{{.*}}, %c0_i32
// CHECK:               scf.if %[[FIRST]] {
// CHECK-NEXT:            nvvm.mbarrier.arrive %{{.*}} : !llvm.ptr<3>
// CHECK-NEXT:          }
// CHECK:             nvvm.barrier id = %c2_i32{{.*}} number_of_threads = %c256_i32
// CHECK:             nvvm.barrier0
// LLVM-LABEL: llvm.func @roles
// LLVM:         nvvm.mbarrier.init
// LLVM:         nvvm.cp.async.bulk.tensor.shared.cluster.global
// LLVM-NOT:     scf.
sm90.kernel @roles(%x: memref<?xbf16>, %n: index, %stride: index)
    attributes {warpgroups = 3 : i32, shared_bytes = 66560 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %rows = arith.muli %n, %c64 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [%rows, 128], strides: [%stride, 1]
      : memref<?xbf16> to memref<?x128xbf16, strided<[?, 1]>>
  %map = sm90.tensor_map %v : memref<?x128xbf16, strided<[?, 1]>> -> !sm90.tensor_map<64x64xbf16>
  %ring = sm90.ring "keys" full_count 1 empty_count 4 offset 0 barrier_offset 57344 : !ring
  %signal = sm90.ring full_count 8 empty_count 8 barrier_offset 57432 : !signal
  sm90.role "copy" warpgroups 0 to 1 registers 40 {
    sm90.elect {
      %s0 = sm90.stage_start
      %s = scf.for %i = %c0 to %n step %c1 iter_args(%st = %s0) -> (!sm90.stage) {
        sm90.acquire %ring[%st] : !ring
        %t = sm90.stage_tile %ring[%st] tile 0 : !ring -> !sm90.smem<64x128xbf16>
        sm90.expect %ring[%st] part 0 bytes 16384 : !ring
        sm90.tma_load %map[%i, %c0] to %t signals %ring[%st] part 0 : !sm90.tensor_map<64x64xbf16>, !sm90.smem<64x128xbf16>, !ring
        %next = sm90.stage_next %st of %ring : !ring
        scf.yield %next : !sm90.stage
      }
    }
  }
  sm90.role "math" warpgroups 1 to 3 registers 184 {
    %s0 = sm90.stage_start
    %s = scf.for %i = %c0 to %n step %c1 iter_args(%st = %s0) -> (!sm90.stage) {
      sm90.await %ring[%st] part 0 : !ring
      sm90.release %ring[%st] : !ring
      %next = sm90.stage_next %st of %ring : !ring
      scf.yield %next : !sm90.stage
    } {sm90.at_least_once}
    sm90.barrier
  }
  sm90.barrier
  sm90.return
}

// A box of several panels is one instruction, with a dimension for the panels: the
// view's whole ones (4 of 288 columns).
// CHECK-LABEL: llvm.func @panels(
// CHECK-SAME:    box = array<i64: 1, 2, 64, 64>
// CHECK-SAME:    sizes = [array<i64: 1, 1>, array<i64: 4, -1>, array<i64: 64, -1>, array<i64: 64, -1>]
// CHECK-SAME:    strides = [array<i64: 18432, -1>, array<i64: 64, -1>, array<i64: 288, -1>, array<i64: 1, -1>]
// CHECK:         %[[PAGE:.*]] = arith.{{.*}} : index to i32
// CHECK:         nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}} box[%c0{{.*}}, %c0{{.*}}, %c1{{.*}}, %[[PAGE]]]
// CHECK-NOT:     nvvm.cp.async.bulk.tensor.shared.cluster.global
// CHECK:         nvvm.cp.async.bulk.tensor.global.shared.cta %{{.*}}, %{{.*}}, box[%c0{{.*}}, %c0{{.*}}, %c2{{.*}}, %{{.*}}]
// CHECK-NOT:     nvvm.cp.async.bulk.tensor.global.shared.cta
!pair = !sm90.ring<stages = 1, parts = 1, tiles = [!sm90.smem<64x128xbf16>]>
sm90.kernel @panels(%x: memref<?xbf16>, %n: index)
    attributes {warpgroups = 1 : i32, shared_bytes = 17408 : i64} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 64, 288], strides: [18432, 288, 1]
      : memref<?xbf16> to memref<?x64x288xbf16, strided<[18432, 288, 1]>>
  %map = sm90.tensor_map %v : memref<?x64x288xbf16, strided<[18432, 288, 1]>> -> !sm90.tensor_map<64x128xbf16>
  %ring = sm90.ring full_count 1 empty_count 1 offset 0 barrier_offset 16384 : !pair
  %s = sm90.stage_start
  sm90.elect {
    %t = sm90.stage_tile %ring[%s] tile 0 : !pair -> !sm90.smem<64x128xbf16>
    sm90.expect %ring[%s] part 0 bytes 16384 : !pair
    sm90.tma_load %map[%n, %c0, %c64] to %t signals %ring[%s] part 0 : !sm90.tensor_map<64x128xbf16>, !sm90.smem<64x128xbf16>, !pair
    sm90.tma_store %t to %map[%n, %c0, %c128] : !sm90.smem<64x128xbf16>, !sm90.tensor_map<64x128xbf16>
  }
  sm90.return
}

// A box of a part of a panel, from any column: its rows lie as far apart as a panel's, 16 of
// them 2048 bytes.
// CHECK-LABEL: llvm.func @part_of_panel(
// CHECK-SAME:    box = array<i64: 1, 16, 64>
// CHECK:         nvvm.mbarrier.arrive.expect_tx %{{.*}}, %c2048_i32
// CHECK:         %[[COLUMN:.*]] = arith.index_cast %{{.*}} : index to i32
// CHECK:         nvvm.cp.async.bulk.tensor.shared.cluster.global %[[TILE:.*]], %arg3, %{{.*}}, box[%[[COLUMN]], %{{.*}}, %{{.*}}]
// CHECK:         %[[BEHIND:.*]] = llvm.getelementptr %[[TILE]][%c2048_i32{{.*}}]
// CHECK:         nvvm.cp.async.bulk.tensor.shared.cluster.global %[[BEHIND]],
!heads = !sm90.ring<stages = 1, parts = 1, tiles = [!sm90.smem<32x64xf8E4M3FN>]>
sm90.kernel @part_of_panel(%x: memref<?xf8E4M3FN>, %n: index, %column: index)
    attributes {warpgroups = 1 : i32, shared_bytes = 8192 : i64} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 16, 512], strides: [16384, 512, 1]
      : memref<?xf8E4M3FN> to memref<?x16x512xf8E4M3FN, strided<[16384, 512, 1]>>
  %map = sm90.tensor_map %v : memref<?x16x512xf8E4M3FN, strided<[16384, 512, 1]>> -> !sm90.tensor_map<16x64xf8E4M3FN>
  %ring = sm90.ring full_count 1 empty_count 1 offset 0 barrier_offset 4096 : !heads
  %s = sm90.stage_start
  sm90.elect {
    %t = sm90.stage_tile %ring[%s] tile 0 : !heads -> !sm90.smem<32x64xf8E4M3FN>
    sm90.expect %ring[%s] part 0 bytes 2048 : !heads
    sm90.tma_load %map[%n, %c0, %column] to %t signals %ring[%s] part 0 : !sm90.tensor_map<16x64xf8E4M3FN>, !sm90.smem<32x64xf8E4M3FN>, !heads
    sm90.tma_load %map[%n, %c0, %column] to %t row 16 signals %ring[%s] part 0 : !sm90.tensor_map<16x64xf8E4M3FN>, !sm90.smem<32x64xf8E4M3FN>, !heads
  }
  sm90.return
}

// Heads of 96 columns as a dimension: a box is rows of a part of a page of 128, and its second panel
// ends with the head's columns.
// CHECK-LABEL: llvm.func @rows_of_a_group(
// CHECK-SAME:    box = array<i64: 1, 1, 64, 64>
// CHECK:         nvvm.mbarrier.arrive.expect_tx %{{.*}}, %c16384_i32
// CHECK:         nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %arg3, %{{.*}}, box[%[[FIRST:.*]], %[[ROW:.*]], %[[PAGE:.*]], %[[HEAD:.*]]]
// CHECK:         nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %arg3, %{{.*}}, box[%c64_i32{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}]
!narrow = !sm90.ring<stages = 1, parts = 1, tiles = [!sm90.smem<64x96xbf16>]>
sm90.kernel @rows_of_a_group(%x: memref<?xbf16>, %n: index, %row: index)
    attributes {warpgroups = 1 : i32, shared_bytes = 20480 : i64} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [4, %n, 128, 96], strides: [96, 49152, 384, 1]
      : memref<?xbf16> to memref<4x?x128x96xbf16, strided<[96, 49152, 384, 1]>>
  %map = sm90.tensor_map %v : memref<4x?x128x96xbf16, strided<[96, 49152, 384, 1]>> -> !sm90.tensor_map<64x64xbf16>
  %ring = sm90.ring full_count 1 empty_count 1 offset 0 barrier_offset 16384 : !narrow
  %s = sm90.stage_start
  sm90.elect {
    %t = sm90.stage_tile %ring[%s] tile 0 : !narrow -> !sm90.smem<64x96xbf16>
    sm90.expect %ring[%s] part 0 bytes 16384 : !narrow
    sm90.tma_load %map[%c0, %n, %row, %c0] to %t signals %ring[%s] part 0 : !sm90.tensor_map<64x64xbf16>, !sm90.smem<64x96xbf16>, !narrow
  }
  sm90.return
}

// The slot of a ring of one stage is no arithmetic. An elected thread arrives
// alone; a row of pages is three coordinates.
// CHECK-LABEL: llvm.func @elected(
// CHECK-SAME:    box = array<i64: 1, 64, 64>
// CHECK:         nvvm.prefetch tensormap
// CHECK:         scf.if
// CHECK-NOT:       arith.muli
// CHECK:           nvvm.mbarrier.try_wait
// CHECK:           nvvm.cp.async.bulk.tensor.shared.cluster.global {{.*}} box[%{{.*}}, %{{.*}}, %{{.*}}] {isCTAOnly = true}
// CHECK-NOT:       nvvm.bar.warp.sync
// CHECK:           nvvm.mbarrier.arrive %{{.*}} : !llvm.ptr<3>
// CHECK:           nvvm.cp.async.bulk.tensor.global.shared.cta %{{.*}}, %{{.*}}, box[%{{.*}}, %{{.*}}, %{{.*}}]
// CHECK:           nvvm.cp.async.bulk.commit.group
// CHECK:           nvvm.cp.async.bulk.wait_group 0 {read}
// CHECK:           nvvm.cp.async.bulk.prefetch %{{.*}}, %c1024_i32
// CHECK:         }
// CHECK:         nvvm.bar.warp.sync
// CHECK:         nvvm.cp.async.mbarrier.arrive %{{.*}} {noinc = true}
sm90.kernel @elected(%x: memref<?xbf16>, %n: index)
    attributes {warpgroups = 1 : i32, shared_bytes = 9216 : i64} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 64, 64], strides: [4096, 64, 1]
      : memref<?xbf16> to memref<?x64x64xbf16, strided<[4096, 64, 1]>>
  %map = sm90.tensor_map %v : memref<?x64x64xbf16, strided<[4096, 64, 1]>> -> !sm90.tensor_map<64x64xbf16>
  %ring = sm90.ring full_count 1 empty_count 1 offset 0 barrier_offset 8192 : !one
  %s = sm90.stage_start
  sm90.elect {
    sm90.acquire %ring[%s] : !one
    %t = sm90.stage_tile %ring[%s] tile 0 : !one -> !sm90.smem<64x64xbf16>
    sm90.expect %ring[%s] part 0 bytes 8192 : !one
    sm90.tma_load %map[%n, %c0, %c0] to %t signals %ring[%s] part 0 : !sm90.tensor_map<64x64xbf16>, !sm90.smem<64x64xbf16>, !one
    sm90.release %ring[%s] : !one
    sm90.tma_store %t to %map[%n, %c0, %c0] : !sm90.smem<64x64xbf16>, !sm90.tensor_map<64x64xbf16>
    sm90.store_commit
    sm90.store_wait 0
    sm90.prefetch %v[%n, %c0, %c0] bytes 1024 : memref<?x64x64xbf16, strided<[4096, 64, 1]>>
  }
  sm90.copy_publish %ring[%s] part 0 : !one
  sm90.return
}

// Pointers of a cluster's CTA keep the symbol; a multicast names the CTAs, a
// remote release has no cluster scope.
// CHECK-LABEL: llvm.func @cluster(
// CHECK-SAME:    nvvm.cluster_dim = array<i32: 2, 1, 1>
// CHECK-NOT:     llvm.inttoptr
// CHECK:         nvvm.fence.mbarrier.init
// CHECK:         nvvm.cluster.arrive {aligned}
// CHECK-NEXT:    nvvm.cluster.wait {aligned}
// CHECK:         nvvm.read.ptx.sreg.cluster.ctarank
// CHECK:         %[[MASK:.*]] = arith.constant 3 : i16
// CHECK:         nvvm.cp.async.bulk.tensor.shared.cluster.global {{.*}} multicast_mask = %[[MASK]] : !llvm.ptr<7>
// CHECK:         arith.cmpi ult, %{{.*}}, %c2_i32
// CHECK:         llvm.inline_asm has_side_effects {{.*}}mapa.shared::cluster.u32 remote, $0, $1; mbarrier.arrive.shared::cluster.b64 _, [remote];
// CHECK:         nvvm.cluster.wait {aligned}
sm90.kernel @cluster(%x: memref<?xbf16>, %n: index)
    attributes {warpgroups = 1 : i32, cluster = 2 : i32, shared_bytes = 9216 : i64} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [64], sizes: [%n, 64], strides: [64, 1]
      : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1], offset: 64>>
  %map = sm90.tensor_map %v : memref<?x64xbf16, strided<[64, 1], offset: 64>> -> !sm90.tensor_map<32x64xbf16>
  %ring = sm90.ring full_count 1 empty_count 8 offset 0 barrier_offset 8192 : !one
  %s = sm90.stage_start
  %rank = sm90.cluster_rank
  %t = sm90.stage_tile %ring[%s] tile 0 : !one -> !sm90.smem<64x64xbf16>
  sm90.elect {
    sm90.expect %ring[%s] part 0 bytes 8192 : !one
    sm90.tma_load %map[%rank, %c0] to %t row 32 signals %ring[%s] part 0 multicast 3 : !sm90.tensor_map<32x64xbf16>, !sm90.smem<64x64xbf16>, !one
  }
  sm90.await %ring[%s] part 0 : !one
  sm90.release %ring[%s] remote : !one
  sm90.cluster_barrier
  sm90.return
}

// What goes to another CTA is published, and awaited, at cluster scope.
// CHECK-LABEL: llvm.func @exchange(
// CHECK:         %[[PLACE:.*]] = nvvm.mapa %{{.*}}, %{{.*}} : !llvm.ptr<3> -> !llvm.ptr<7>
// CHECK:         llvm.store %{{.*}}, %[[PLACE]] {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<7>
// CHECK:         llvm.inline_asm has_side_effects {{.*}}mapa.shared::cluster.u32 remote, $0, $1; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote]; }", "r,r,~{memory}"
// CHECK:         nvvm.mbarrier.try_wait {{.*}}scope = #nvvm.mem_scope<cluster>
sm90.kernel @exchange()
    attributes {warpgroups = 1 : i32, cluster = 2 : i32, shared_bytes = 5120 : i64} {
  %ring = sm90.ring full_count 8 empty_count 8 offset 0 barrier_offset 4096 : !sm90.ring<stages = 1, parts = 1, tiles = [!sm90.smem<4x256xf32, linear>]>
  %s = sm90.stage_start
  sm90.role "math" warpgroups 0 to 1 {
    %value = arith.constant dense<0.0> : tensor<64x16xf32, #sm90.fragment<column_split = 1>>
    %t = sm90.stage_tile %ring[%s] tile 0 : !sm90.ring<stages = 1, parts = 1, tiles = [!sm90.smem<4x256xf32, linear>]> -> !sm90.smem<4x256xf32, linear>
    sm90.park %value to %t rank 1 : tensor<64x16xf32, #sm90.fragment<column_split = 1>>, !sm90.smem<4x256xf32, linear>
    sm90.publish %ring[%s] part 0 remote : !sm90.ring<stages = 1, parts = 1, tiles = [!sm90.smem<4x256xf32, linear>]>
    sm90.await %ring[%s] part 0 remote : !sm90.ring<stages = 1, parts = 1, tiles = [!sm90.smem<4x256xf32, linear>]>
  }
  sm90.return
}

// CHECK-LABEL: llvm.func @bulk
// CHECK:         nvvm.cp.async.bulk.shared.cluster.global %{{.*}}, %{{.*}}, %{{.*}}, %c256_i32
// CHECK:         nvvm.barrier id = %c9_i32{{.*}} number_of_threads = %c64_i32
// CHECK:         llvm.call_intrinsic "llvm.nvvm.barrier.cta.arrive.aligned.count"(%c8_i32{{.*}}, %c128_i32
// CHECK:         llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.wait;", "~{memory}"
// CHECK:         nvvm.griddepcontrol launch_dependents
sm90.kernel @bulk(%x: memref<?xf32>, %n: index)
    attributes {warpgroups = 1 : i32, shared_bytes = 1024 : i64} {
  %ring = sm90.ring full_count 1 empty_count 0 barrier_offset 512 : !signal
  %t = sm90.alloc offset 0 : !sm90.smem<1x64xf32, linear>
  %s = sm90.stage_start
  sm90.elect {
    sm90.bulk_load %x[%n] to %t signals %ring[%s] part 0 : memref<?xf32>, !sm90.smem<1x64xf32, linear>, !signal
  }
  sm90.named_barrier 9 warps 2
  sm90.named_barrier arrive 8 warps 4
  sm90.wait_dependency
  sm90.launch_dependents
  sm90.return
}
