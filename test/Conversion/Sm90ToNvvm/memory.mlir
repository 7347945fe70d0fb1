// Copies between global memory, shared memory and registers.
// What they compute is tested by running them (test/unit/Conversion/Sm90ToNvvm).
// RUN: mla-opt %s --convert-sm90-to-nvvm | FileCheck %s

#f1 = #sm90.fragment<column_split = 1>
#f2 = #sm90.fragment<column_split = 2>

// CHECK: llvm.mlir.global external @mlac_shared() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>

// CHECK-LABEL: llvm.func @abi(
// CHECK-SAME:    %{{.*}}: !llvm.ptr<1>, %{{.*}}: i64, %{{.*}}: f32)
// CHECK-SAME:    mlac.shared_bytes = 1024 : i64, mlac.threads = 384 : i64
// CHECK-SAME:    nvvm.kernel
// CHECK-SAME:    nvvm.maxntid = array<i32: 384>
// CHECK-NOT:     llvm.intr.trap
// CHECK:         llvm.return
sm90.kernel @abi(%x: memref<?xbf16>, %n: index, %s: f32)
    attributes {warpgroups = 3 : i32, shared_bytes = 1024 : i64} {
  sm90.return
}

// A row is found once; its two panels differ by a constant. Rows beyond the
// view copy 0 bytes, which fills with zeros.
// CHECK-LABEL: llvm.func @vectors
// CHECK:         %[[INSIDE:.*]] = arith.cmpi slt
// CHECK:         %[[BYTES:.*]] = arith.select %[[INSIDE]], %c16{{.*}}, %c0
// CHECK:         nvvm.cp.async.shared.global %{{.*}}, %{{.*}}, 16, cache = cg, %[[BYTES]]
// CHECK:         nvvm.cp.async.shared.global %{{.*}}, %{{.*}}, 16, cache = cg
// CHECK:         nvvm.cp.async.commit.group
// CHECK:         nvvm.cp.async.wait.group 0
sm90.kernel @vectors(%x: memref<?xbf16>, %n: index)
    attributes {warpgroups = 1 : i32, shared_bytes = 16384 : i64} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 128], strides: [128, 1]
      : memref<?xbf16> to memref<?x128xbf16, strided<[128, 1]>>
  %t = sm90.alloc offset 0 : !sm90.smem<64x128xbf16>
  sm90.copy %v[%c0, %c0] to %t vector_bytes 16
      : memref<?x128xbf16, strided<[128, 1]>>, !sm90.smem<64x128xbf16>
  sm90.copy_commit
  sm90.copy_wait 0
  sm90.return
}

// Rows in groups of 3: a row's address is its group's and its place in it, and there are as many
// groups as the view has.
// CHECK-LABEL: llvm.func @groups
// CHECK:         %[[GROUP:.*]] = arith.divui %{{.*}}, %[[SIZE:.*]] : i64
// CHECK:         arith.cmpi slt, %[[GROUP]], %{{.*}} : i64
// CHECK:         arith.remui %{{.*}}, %[[SIZE]] : i64
// CHECK:         nvvm.cp.async.shared.global
sm90.kernel @groups(%x: memref<?xbf16>, %n: index)
    attributes {warpgroups = 1 : i32, shared_bytes = 16384 : i64} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 3, 128], strides: [1536, 128, 1]
      : memref<?xbf16> to memref<?x3x128xbf16, strided<[1536, 128, 1]>>
  %t = sm90.alloc offset 0 : !sm90.smem<64x128xbf16>
  sm90.copy %v[%c0, %c0] to %t vector_bytes 16
      : memref<?x3x128xbf16, strided<[1536, 128, 1]>>, !sm90.smem<64x128xbf16>
  sm90.copy_commit
  sm90.copy_wait 0
  sm90.return
}

// A map of rows in groups has boxes of whole groups of one run.
// CHECK-LABEL: llvm.func @map_of_groups
// CHECK-SAME:    mlac.tensor_maps = [{argument = 0 : i64, box = array<i64: 10, 1, 3, 64>
sm90.kernel @map_of_groups(%x: memref<?xbf16>, %n: index)
    attributes {warpgroups = 1 : i32, shared_bytes = 16384 : i64} {
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 4, 3, 128], strides: [1536, 384, 128, 1]
      : memref<?xbf16> to memref<?x4x3x128xbf16, strided<[1536, 384, 128, 1]>>
  %m = sm90.tensor_map %v : memref<?x4x3x128xbf16, strided<[1536, 384, 128, 1]>> -> !sm90.tensor_map<30x64xbf16>
  sm90.return
}

// A head's last panel is a box of what it has of one.
// CHECK-LABEL: llvm.func @map_of_heads
// CHECK-SAME:    box = array<i64: 1, 1, 64, 64>
// CHECK-SAME:    box = array<i64: 1, 1, 64, 32>
sm90.kernel @map_of_heads(%x: memref<?xbf16>, %n: index)
    attributes {warpgroups = 1 : i32, shared_bytes = 16384 : i64} {
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [2, %n, 64, 96], strides: [96, 12288, 192, 1]
      : memref<?xbf16> to memref<2x?x64x96xbf16, strided<[96, 12288, 192, 1]>>
  %m = sm90.tensor_map %v : memref<2x?x64x96xbf16, strided<[96, 12288, 192, 1]>> -> !sm90.tensor_map<64x64xbf16>
  %r = sm90.tensor_map %v : memref<2x?x64x96xbf16, strided<[96, 12288, 192, 1]>> -> !sm90.tensor_map<64x32xbf16>
  sm90.return
}

// Without a promise of alignment elements go one by one.
// CHECK-LABEL: llvm.func @elements
// CHECK-NOT:     nvvm.cp.async.shared.global
// CHECK:         %[[ZEROS:.*]] = llvm.mlir.addressof @mlac_zeros
// CHECK:         scf.for
// CHECK:         %[[FROM:.*]] = arith.select %{{.*}}, %{{.*}}, %[[ZEROS]] : !llvm.ptr<1>
// CHECK:         %[[E:.*]] = llvm.load %[[FROM]]
// CHECK:         llvm.store %[[E]], %{{.*}} : bf16, !llvm.ptr<3>
sm90.kernel @elements(%x: memref<?xbf16>, %n: index)
    attributes {warpgroups = 1 : i32, shared_bytes = 8192 : i64} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 32], strides: [64, 2]
      : memref<?xbf16> to memref<?x32xbf16, strided<[64, 2]>>
  %t = sm90.alloc offset 0 : !sm90.smem<64x32xbf16>
  sm90.copy %v[%c0, %c0] to %t vector_bytes 2
      : memref<?x32xbf16, strided<[64, 2]>>, !sm90.smem<64x32xbf16>
  sm90.return
}

// The table is read under the limit only.
// CHECK-LABEL: llvm.func @paged
// CHECK:         %[[ZEROS:.*]] = llvm.mlir.addressof @mlac_zeros
// CHECK:         %[[SEEN:.*]] = arith.cmpi slt, %{{.*}}, %{{.*}} : i64
// CHECK:         %[[ENTRY:.*]] = arith.select %[[SEEN]], %{{.*}}, %[[ZEROS]]
// CHECK:         llvm.load %[[ENTRY]] : !llvm.ptr<1> -> i32
// CHECK:         nvvm.cp.async.shared.global %{{.*}}, %{{.*}}, 8, cache = ca
sm90.kernel @paged(%x: memref<?xbf16>, %table: memref<?xi32>, %n: index, %limit: index)
    attributes {warpgroups = 1 : i32, shared_bytes = 8192 : i64} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 16, 64], strides: [1024, 64, 1]
      : memref<?xbf16> to memref<?x16x64xbf16, strided<[1024, 64, 1]>>
  %t = sm90.alloc offset 0 : !sm90.smem<64x64xbf16>
  sm90.copy_paged %v[%table at %c0, %c0] limit %limit to %t vector_bytes 8
      : memref<?x16x64xbf16, strided<[1024, 64, 1]>>, memref<?xi32>, !sm90.smem<64x64xbf16>
  sm90.return
}

// A pair is one access; a column bound is checked only where types leave it open.
// An absent row is exchanged for zeros as a whole.
// CHECK-LABEL: llvm.func @fragments
// CHECK:         %[[ZEROS:.*]] = llvm.mlir.addressof @mlac_zeros
// CHECK:         arith.select %{{.*}}, %{{.*}}, %[[ZEROS]]
// CHECK-COUNT-2: llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr<1> -> vector<2xbf16>
// CHECK:         arith.select %{{.*}}, %{{.*}}, %[[ZEROS]]
// CHECK-COUNT-2: llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr<1> -> vector<2xbf16>
// CHECK-NOT:     arith.select
// CHECK:         scf.if %{{.*}} {
// CHECK:           scf.if %{{.*}} {
// CHECK:             llvm.store %{{.*}}, %{{.*}} : bf16, !llvm.ptr<1>
sm90.kernel @fragments(%x: memref<?xbf16>, %y: memref<?xbf16>, %n: index)
    attributes {warpgroups = 1 : i32, shared_bytes = 0 : i64} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 16], strides: [16, 1]
      : memref<?xbf16> to memref<?x16xbf16, strided<[16, 1]>>
  %w = memref.reinterpret_cast %y to offset: [0], sizes: [%n, %n], strides: [%n, 1]
      : memref<?xbf16> to memref<?x?xbf16, strided<[?, 1]>>
  %t = sm90.load %v[%c0, %c0] paired : memref<?x16xbf16, strided<[16, 1]>> -> tensor<64x16xbf16, #f1>
  sm90.store %t, %w[%c0, %c0] : tensor<64x16xbf16, #f1>, memref<?x?xbf16, strided<[?, 1]>>
  sm90.return
}

// A fragment split over two of three warpgroups is written by the first two,
// 16 columns at a time.
// CHECK-LABEL: llvm.func @shared
// CHECK:         %[[G:.*]] = nvvm.shfl.sync idx
// CHECK:         %[[W:.*]] = arith.cmpi ult, %[[G]], %{{.*}} : i32
// CHECK:         scf.if %[[W]] {
// CHECK-COUNT-2:   nvvm.stmatrix %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {{{.*}}layout = #nvvm.mma_layout<row>
// CHECK-NOT:       llvm.store
sm90.kernel @shared(%s: f32) attributes {warpgroups = 3 : i32, shared_bytes = 8192 : i64} {
  %t = sm90.alloc offset 0 : !sm90.smem<64x64xbf16>
  %x = sm90.splat %s : f32 -> tensor<64x64xf32, #f2>
  %y = arith.truncf %x : tensor<64x64xf32, #f2> to tensor<64x64xbf16, #f2>
  sm90.store_shared %y, %t : tensor<64x64xbf16, #f2>, !sm90.smem<64x64xbf16>
  sm90.return
}

// A warp writes its rows of a pass (a tile's bytes: here 32 of 64 words) and reads them
// back in pieces of 16 bytes, without a barrier. Rows outside are left out.
// CHECK-LABEL: llvm.func @staged(
// CHECK-COUNT-8: llvm.store %{{.*}} {alignment = 8 : i64} : vector<2xf32>, !llvm.ptr<3>
// CHECK:         nvvm.bar.warp.sync
// CHECK:         scf.for
// CHECK-COUNT-4:   llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK:           scf.if
// CHECK:             llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK:         nvvm.bar.warp.sync
// CHECK-COUNT-8: llvm.store %{{.*}} {alignment = 8 : i64} : vector<2xf32>, !llvm.ptr<3>
// CHECK:         nvvm.bar.warp.sync
// CHECK:         scf.for
// CHECK-NOT:     nvvm.barrier
// CHECK:         llvm.return
sm90.kernel @staged(%out: memref<?xf32>, %n: index, %row: index, %x: f32)
    attributes {warpgroups = 1 : i32, shared_bytes = 8192 : i64} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %out to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xf32> to memref<?x64xf32, strided<[64, 1]>>
  %value = sm90.splat %x : f32 -> tensor<64x64xf32, #sm90.fragment<column_split = 1>>
  %t = sm90.alloc offset 0 : !sm90.smem<64x64xbf16>
  sm90.store_staged %value through %t to %v[%row, %c0]
      : tensor<64x64xf32, #sm90.fragment<column_split = 1>>, !sm90.smem<64x64xbf16>, memref<?x64xf32, strided<[64, 1]>>
  sm90.return
}

// Halves go to the tile by matrices, all in one pass.
// CHECK-LABEL: llvm.func @staged_halves(
// CHECK-COUNT-4: nvvm.stmatrix
// CHECK:         nvvm.bar.warp.sync
// CHECK:         scf.for
// CHECK-NOT:     nvvm.bar.warp.sync
// CHECK:         llvm.return
sm90.kernel @staged_halves(%out: memref<?xbf16>, %n: index, %row: index, %x: f32)
    attributes {warpgroups = 1 : i32, shared_bytes = 8192 : i64} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %out to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1]>>
  %wide = sm90.splat %x : f32 -> tensor<64x64xf32, #sm90.fragment<column_split = 1>>
  %value = arith.truncf %wide : tensor<64x64xf32, #sm90.fragment<column_split = 1>> to tensor<64x64xbf16, #sm90.fragment<column_split = 1>>
  %t = sm90.alloc offset 0 : !sm90.smem<64x64xbf16>
  sm90.store_staged %value through %t to %v[%row, %c0]
      : tensor<64x64xbf16, #sm90.fragment<column_split = 1>>, !sm90.smem<64x64xbf16>, memref<?x64xbf16, strided<[64, 1]>>
  sm90.return
}

// In a role the thread's number is a new one at each store: what follows from it is
// not kept around the role's loops.
// CHECK-LABEL: llvm.func @pinned
// CHECK:         %[[TID:.*]] = nvvm.read.ptx.sreg.tid.x
// CHECK:         scf.if
// CHECK:         %[[NEW:.*]] = llvm.inline_asm has_side_effects asm_dialect = att "", "=r,0"
// CHECK:         arith.remui %[[NEW]]
// CHECK-NOT:     %[[TID]]
// CHECK:         llvm.store
// CHECK-NOT:     %[[TID]]
// CHECK:         llvm.return
sm90.kernel @pinned(%x: memref<?xf32>)
    attributes {warpgroups = 2 : i32, shared_bytes = 1024 : i64} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [64], strides: [1]
      : memref<?xf32> to memref<64xf32>
  sm90.role "rows" warpgroups 1 to 2 {
    %rows = arith.constant dense<1.0> : tensor<64xf32, #sm90.rows>
    sm90.store %rows, %v[%c0] : tensor<64xf32, #sm90.rows>, memref<64xf32>
    sm90.end
  }
  sm90.return
}

// Outside roles there is nothing to save registers for.
// CHECK-LABEL: llvm.func @unpinned
// CHECK-NOT:     llvm.inline_asm
// CHECK:         llvm.return
sm90.kernel @unpinned(%x: memref<?xf32>)
    attributes {warpgroups = 1 : i32, shared_bytes = 1024 : i64} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [64], strides: [1]
      : memref<?xf32> to memref<64xf32>
  %rows = arith.constant dense<1.0> : tensor<64xf32, #sm90.rows>
  sm90.store %rows, %v[%c0] : tensor<64xf32, #sm90.rows>, memref<64xf32>
  sm90.return
}

// How many programs are to fit on a multiprocessor bounds the registers of a thread.
// CHECK-LABEL: llvm.func @resident
// CHECK-SAME: nvvm.minctasm = 3 : i32
sm90.kernel @resident()
    attributes {warpgroups = 1 : i32, shared_bytes = 0 : i64, tile.resident_programs = 3 : i64} {
  sm90.return
}

// Of two buffers one is chosen: its address, not what is there.
// CHECK-LABEL: llvm.func @chosen(
// CHECK-SAME:    %[[X:.*]]: !llvm.ptr<1>, %[[Y:.*]]: !llvm.ptr<1>, %{{.*}}: i64, %{{.*}}: i64)
// CHECK:         %[[FIRST:.*]] = arith.cmpi slt
// CHECK:         %[[BASE:.*]] = arith.select %[[FIRST]], %[[X]], %[[Y]] : !llvm.ptr<1>
// CHECK-NOT:     llvm.load
// CHECK:         llvm.getelementptr %[[BASE]]
// CHECK:         nvvm.cp.async.shared.global
sm90.kernel @chosen(%x: memref<?xbf16>, %y: memref<?xbf16>, %n: index, %m: index)
    attributes {warpgroups = 1 : i32, shared_bytes = 8192 : i64} {
  %c0 = arith.constant 0 : index
  %first = arith.cmpi slt, %n, %m : index
  %z = arith.select %first, %x, %y : memref<?xbf16>
  %v = memref.reinterpret_cast %z to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1]>>
  %t = sm90.alloc offset 0 : !sm90.smem<64x64xbf16>
  sm90.copy %v[%c0, %c0] to %t vector_bytes 16
      : memref<?x64xbf16, strided<[64, 1]>>, !sm90.smem<64x64xbf16>
  sm90.copy_commit
  sm90.copy_wait 0
  sm90.return
}
