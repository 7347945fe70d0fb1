// Register operands, matrices to and from shared memory, partials and columns.
// What they compute is tested by running them (test/unit/Conversion/Sm90ToNvvm).
// RUN: mla-opt %s --convert-sm90-to-nvvm | FileCheck %s

#f1 = #sm90.fragment<column_split = 1>

// Four registers of A for each step, B's descriptor, scale-d 0 in the first step
// on an accumulator of zeros; B is stored [N, K]: not transposed.
// CHECK-LABEL: llvm.func @registers
// CHECK:         nvvm.ldmatrix %{{.*}} {{{.*}}layout = #nvvm.mma_layout<row>, num = 4 : i32
// CHECK:         nvvm.ldmatrix
// CHECK-NOT:     nvvm.ldmatrix
// CHECK:         llvm.inline_asm has_side_effects asm_dialect = att "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {$0, $1, $2, $3}, {$4, $5, $6, $7}, $8, 0, 1, 1, 0;", "=f,=f,=f,=f,r,r,r,r,l,0,1,2,3"
// CHECK:         llvm.inline_asm {{.*}} $8, 1, 1, 1, 0;"
// CHECK-NOT:     llvm.inline_asm
// CHECK:         nvvm.wgmma.commit
sm90.kernel @registers(%y: memref<?xf32>) attributes {warpgroups = 1 : i32, shared_bytes = 9216 : i64} {
  %a = sm90.alloc offset 0 : !sm90.smem<64x32xbf16>
  %b = sm90.alloc offset 8192 : !sm90.smem<8x32xbf16>
  %f = sm90.load_shared %a : !sm90.smem<64x32xbf16> -> tensor<64x32xbf16, #f1>
  %zero = arith.constant dense<0.0> : tensor<64x8xf32, #f1>
  sm90.wgmma_fence
  %p = sm90.wgmma %f, %b, %zero transpose_rhs
      : tensor<64x32xbf16, #f1>, !sm90.smem<8x32xbf16> -> tensor<64x8xf32, #f1>
  sm90.wgmma_commit
  %r = sm90.wgmma_wait 0, %p : tensor<64x8xf32, #f1>
  sm90.return
}

// A stored [K, 64] is MN-major, "col"; its steps are 16 rows, 128 units.
// CHECK-LABEL: llvm.func @transposed
// CHECK:         nvvm.stmatrix %{{.*}} {{{.*}}layout = #nvvm.mma_layout<col>
// CHECK:         arith.extui %[[START:.*]] : i32 to i64
// CHECK:         nvvm.wgmma.mma_async {{.*}} A[<f16>, <one>, <col>], B[<f16>, <one>, <row>]
// CHECK:         arith.extui %c16777408_i32
// CHECK:         nvvm.wgmma.mma_async
sm90.kernel @transposed(%s: f32) attributes {warpgroups = 1 : i32, shared_bytes = 8192 : i64} {
  %a = sm90.alloc offset 0 : !sm90.smem<32x64xf16>
  %b = sm90.alloc offset 4096 : !sm90.smem<32x64xf16>
  %acc = sm90.splat %s : f32 -> tensor<64x64xf32, #f1>
  %v = arith.constant dense<1.0> : tensor<64x32xf16, #f1>
  sm90.store_shared %v, %a transposed : tensor<64x32xf16, #f1>, !sm90.smem<32x64xf16>
  sm90.wgmma_fence
  %p = sm90.wgmma %a, %b, %acc transpose_lhs
      : !sm90.smem<32x64xf16>, !sm90.smem<32x64xf16> -> tensor<64x64xf32, #f1>
  sm90.wgmma_commit
  %r = sm90.wgmma_wait 0, %p : tensor<64x64xf32, #f1>
  sm90.return
}

// Codes: a step is 32 of them, the same 32 bytes of a row, and K-major on both sides.
// CHECK-LABEL: llvm.func @codes
// CHECK-COUNT-4: nvvm.wgmma.mma_async {{.*}} A[<e4m3>, <one>, <row>], B[<e4m3>, <one>, <col>]
// CHECK-NOT:     nvvm.wgmma.mma_async
sm90.kernel @codes() attributes {warpgroups = 1 : i32, shared_bytes = 10240 : i64} {
  %a = sm90.alloc offset 0 : !sm90.smem<64x128xf8E4M3FN>
  %b = sm90.alloc offset 8192 : !sm90.smem<16x128xf8E4M3FN>
  %zero = arith.constant dense<0.0> : tensor<64x16xf32, #f1>
  sm90.wgmma_fence
  %p = sm90.wgmma %a, %b, %zero transpose_rhs
      : !sm90.smem<64x128xf8E4M3FN>, !sm90.smem<16x128xf8E4M3FN> -> tensor<64x16xf32, #f1>
  sm90.wgmma_commit
  %r = sm90.wgmma_wait 0, %p : tensor<64x16xf32, #f1>
  sm90.return
}

// To a partial no lanes exchange; from it they do, two steps for each row.
// CHECK-LABEL: llvm.func @partial
// CHECK-NOT:     nvvm.shfl.sync bfly
// CHECK-COUNT-6: arith.addf
// CHECK-COUNT-4: nvvm.shfl.sync bfly
// CHECK-NOT:     nvvm.shfl.sync bfly
// CHECK:         nvvm.vote.sync any %{{.*}}, %{{.*}} -> i1
sm90.kernel @partial(%y: memref<?xf32>) attributes {warpgroups = 1 : i32, shared_bytes = 0 : i64} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %y to offset: [0], sizes: [64, 16], strides: [16, 1]
      : memref<?xf32> to memref<64x16xf32, strided<[16, 1]>>
  %t = sm90.load %v[%c0, %c0] : memref<64x16xf32, strided<[16, 1]>> -> tensor<64x16xf32, #f1>
  %p = sm90.reduce sum %t : tensor<64x16xf32, #f1> -> tensor<64x4xf32, #sm90.partial>
  %r = sm90.reduce sum %p : tensor<64x4xf32, #sm90.partial> -> tensor<64xf32, #sm90.rows>
  %c = arith.cmpf one, %r, %r : tensor<64xf32, #sm90.rows>
  %any = sm90.warp_any %c : tensor<64xi1, #sm90.rows>
  scf.if %any {
  }
  sm90.return
}

// Of 4 rows: lanes 4 and 8 apart, for both rows of a thread; of 16 a thread adds its own two first.
// CHECK-LABEL: llvm.func @groups
// CHECK-COUNT-4: nvvm.shfl.sync bfly
// CHECK-NOT:     nvvm.shfl.sync bfly
// CHECK:         arith.addf
// CHECK:         arith.addf
// CHECK-COUNT-3: nvvm.shfl.sync bfly
// CHECK-NOT:     nvvm.shfl.sync bfly
sm90.kernel @groups(%y: memref<?xf32>) attributes {warpgroups = 1 : i32, shared_bytes = 0 : i64} {
  %c0 = arith.constant 0 : index
  %t = arith.constant dense<1.0> : tensor<64xf32, #sm90.rows>
  %four = sm90.sum_groups %t of 4 : tensor<64xf32, #sm90.rows>
  %all = sm90.sum_groups %four of 16 : tensor<64xf32, #sm90.rows>
  sm90.store %all, %y[%c0] : tensor<64xf32, #sm90.rows>, memref<?xf32>
  sm90.return
}

// Two columns of a thread: lanes 4, 8 and 16 apart, then four warps of the role
// through memory. The role's barrier is 1 + its number.
// CHECK-LABEL: llvm.func @columns
// CHECK-COUNT-6: nvvm.shfl.sync bfly
// CHECK-NOT:     nvvm.shfl.sync bfly
// CHECK:         llvm.store %{{.*}} {alignment = 8 : i64} : vector<2xf32>, !llvm.ptr<3>
// CHECK:         nvvm.barrier id = %c1_i32{{.*}} number_of_threads = %c128_i32
// CHECK-COUNT-4: llvm.load %{{.*}} {alignment = 8 : i64} : !llvm.ptr<3> -> vector<2xf32>
// The first quad writes a column vector, eight columns apart.
// CHECK:         llvm.store %{{.*}} {alignment = 8 : i64} : vector<2xf32>, !llvm.ptr<3>
// The vote of a role is a barrier of it.
// CHECK:         llvm.call_intrinsic "llvm.nvvm.barrier.cta.red.or.aligned.count"(%c1_i32{{.*}}, %c128_i32{{.*}}, %{{.*}}) : (i32, i32, i1) -> i1
// Zeroes 16 rows at a time, 16 bytes a thread.
// CHECK:         scf.for
// CHECK:           llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
sm90.kernel @columns(%y: memref<?xf32>, %first: index)
    attributes {warpgroups = 2 : i32, shared_bytes = 9216 : i64} {
  %c0 = arith.constant 0 : index
  %row = sm90.alloc offset 8960 : !sm90.smem<1x8xf32, linear>
  %v = memref.reinterpret_cast %y to offset: [0], sizes: [64, 8], strides: [8, 1]
      : memref<?xf32> to memref<64x8xf32, strided<[8, 1]>>
  %scratch = sm90.alloc offset 8192 : !sm90.smem<4x8xf32, linear>
  %tile = sm90.alloc offset 0 : !sm90.smem<64x64xbf16>
  sm90.role "columns" warpgroups 1 to 2 {
    %t = sm90.load %v[%c0, %c0] : memref<64x8xf32, strided<[8, 1]>> -> tensor<64x8xf32, #f1>
    %m = sm90.reduce max %t dim 0 scratch %scratch : !sm90.smem<4x8xf32, linear>
        : tensor<64x8xf32, #f1> -> tensor<8xf32, #sm90.columns>
    sm90.store %m, %y[%c0] : tensor<8xf32, #sm90.columns>, memref<?xf32>
    sm90.store_shared %m, %row : tensor<8xf32, #sm90.columns>, !sm90.smem<1x8xf32, linear>
    %beyond = arith.cmpf ogt, %t, %t : tensor<64x8xf32, #f1>
    %any = sm90.role_any %beyond : tensor<64x8xi1, #f1>
    scf.if %any {
      sm90.barrier
    }
    sm90.zero_rows %tile from %first : !sm90.smem<64x64xbf16>
  }
  sm90.return
}

// B06: one shift of each word that a thread has, by its lane's first column; all else of a column is a constant. Two
// rows of two words: of word 0 columns 0, 1, 8, ..., 25 behind the lane's first, then the same of word 1.
// CHECK-LABEL: llvm.func @bits_B06
// CHECK:         %[[A:.*]] = llvm.load %{{.*}} -> i32
// CHECK:         %[[B:.*]] = llvm.load %{{.*}} -> i32
// CHECK:         %[[C:.*]] = llvm.load %{{.*}} -> i32
// CHECK:         %[[D:.*]] = llvm.load %{{.*}} -> i32
// CHECK-NOT:     arith.shrui %[[A]]
// CHECK:         %[[A0:.*]] = arith.shrui %[[A]], %[[FIRST:.*]] : i32
// CHECK-NEXT:    %[[B0:.*]] = arith.shrui %[[B]], %[[FIRST]] : i32
// CHECK-NEXT:    %[[C0:.*]] = arith.shrui %[[C]], %[[FIRST]] : i32
// CHECK-NEXT:    %[[D0:.*]] = arith.shrui %[[D]], %[[FIRST]] : i32
// CHECK-NOT:     arith.shrui
// CHECK:         arith.andi %[[A0]], %c1_i32
// CHECK:         arith.cmpi ne
// CHECK:         arith.andi %[[A0]], %c2_i32
// CHECK:         arith.andi %[[B0]], %c1_i32
// CHECK:         arith.andi %[[B0]], %c2_i32
// CHECK:         arith.andi %[[A0]], %c256_i32
// CHECK:         arith.andi %[[B0]], %c33554432_i32
// CHECK:         arith.andi %[[C0]], %c1_i32
// CHECK:         arith.andi %[[D0]], %c33554432_i32
// CHECK-NOT:     arith.shrui
// CHECK:         llvm.return
sm90.kernel @bits_B06(%x: memref<?xi32>, %y: memref<?xf32>) attributes {warpgroups = 1 : i32, shared_bytes = 0 : i64} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %v = memref.reinterpret_cast %y to offset: [0], sizes: [64, 64], strides: [64, 1]
      : memref<?xf32> to memref<64x64xf32, strided<[64, 1]>>
  %low = sm90.load %x[%c0] : memref<?xi32> -> tensor<64xi32, #sm90.rows>
  %high = sm90.load %x[%c64] : memref<?xi32> -> tensor<64xi32, #sm90.rows>
  %bits = sm90.test_bits %low, %high : tensor<64xi32, #sm90.rows>, tensor<64xi32, #sm90.rows> -> tensor<64x64xi1, #f1>
  %one = arith.constant dense<1.0> : tensor<64x64xf32, #f1>
  %none = arith.constant dense<0.0> : tensor<64x64xf32, #f1>
  %r = arith.select %bits, %one, %none : tensor<64x64xi1, #f1>, tensor<64x64xf32, #f1>
  sm90.store %r, %v[%c0, %c0] : tensor<64x64xf32, #f1>, memref<64x64xf32, strided<[64, 1]>>
  sm90.return
}
