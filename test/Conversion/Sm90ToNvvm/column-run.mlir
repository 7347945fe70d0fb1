// Kernels that only move and compute rows may have runs of more than two columns in a
// thread, which then moves 16 bytes at a time (Layout.h).
// RUN: mla-opt %s --convert-sm90-to-nvvm | FileCheck %s

#f1 = #sm90.fragment<column_split = 1>

// CHECK-LABEL: llvm.func @runs
// CHECK:         arith.constant 8 : i32
// CHECK-COUNT-2: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<8xbf16>
// CHECK-COUNT-2: llvm.store %{{.*}} {alignment = 16 : i64} : vector<8xbf16>
sm90.kernel @runs(%x: memref<?xbf16>, %y: memref<?xbf16>)
    attributes {warpgroups = 1 : i32, shared_bytes = 0 : i64, sm90.column_run = 8 : i64} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [64, 32], strides: [32, 1]
      : memref<?xbf16> to memref<64x32xbf16, strided<[32, 1]>>
  %w = memref.reinterpret_cast %y to offset: [0], sizes: [64, 32], strides: [32, 1]
      : memref<?xbf16> to memref<64x32xbf16, strided<[32, 1]>>
  %a = sm90.load %v[%c0, %c0] paired : memref<64x32xbf16, strided<[32, 1]>> -> tensor<64x32xbf16, #f1>
  sm90.store %a, %w[%c0, %c0] paired : tensor<64x32xbf16, #f1>, memref<64x32xbf16, strided<[32, 1]>>
  sm90.return
}

// f32 has four elements in 16 bytes; 16 columns leave four to a thread.
// CHECK-LABEL: llvm.func @narrow
// CHECK-COUNT-2: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK-NOT:     llvm.load
sm90.kernel @narrow(%x: memref<?xf32>, %y: memref<?xf32>)
    attributes {warpgroups = 1 : i32, shared_bytes = 0 : i64, sm90.column_run = 8 : i64} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [64, 16], strides: [16, 1]
      : memref<?xf32> to memref<64x16xf32, strided<[16, 1]>>
  %w = memref.reinterpret_cast %y to offset: [0], sizes: [64, 16], strides: [16, 1]
      : memref<?xf32> to memref<64x16xf32, strided<[16, 1]>>
  %a = sm90.load %v[%c0, %c0] paired : memref<64x16xf32, strided<[16, 1]>> -> tensor<64x16xf32, #f1>
  sm90.store %a, %w[%c0, %c0] paired : tensor<64x16xf32, #f1>, memref<64x16xf32, strided<[16, 1]>>
  sm90.return
}

// Pairs of four columns are 16 bytes of bf16: an even element of each goes to the first tile.
// CHECK-LABEL: llvm.func @pairs
// CHECK:         %[[LOADED:.*]] = llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<8xbf16>
// CHECK:         llvm.extractelement %[[LOADED]][%{{.*}} : i32] : vector<8xbf16>
// CHECK:         llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<8xbf16>
// CHECK-NOT:     llvm.load
// CHECK-COUNT-2: llvm.store %{{.*}} {alignment = 16 : i64} : vector<8xbf16>
// CHECK-NOT:     llvm.store
sm90.kernel @pairs(%x: memref<?xbf16>, %y: memref<?xbf16>)
    attributes {warpgroups = 1 : i32, shared_bytes = 0 : i64, sm90.column_run = 4 : i64} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [64, 16], strides: [32, 2]
      : memref<?xbf16> to memref<64x16xbf16, strided<[32, 2]>>
  %w = memref.reinterpret_cast %y to offset: [0], sizes: [64, 16], strides: [32, 2]
      : memref<?xbf16> to memref<64x16xbf16, strided<[32, 2]>>
  %a, %b = sm90.load_pairs %v[%c0, %c0] : memref<64x16xbf16, strided<[32, 2]>> -> tensor<64x16xbf16, #f1>, tensor<64x16xbf16, #f1>
  sm90.store_pairs %b, %a to %w[%c0, %c0] : tensor<64x16xbf16, #f1>, tensor<64x16xbf16, #f1>, memref<64x16xbf16, strided<[32, 2]>>
  sm90.return
}

// Columns of a vector are where the run has them.
// CHECK-LABEL: llvm.func @columns
// CHECK-COUNT-4: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
sm90.kernel @columns(%x: memref<?xf32>, %y: memref<?xf32>)
    attributes {warpgroups = 1 : i32, shared_bytes = 512 : i64, sm90.column_run = 8 : i64} {
  %c0 = arith.constant 0 : index
  %scratch = sm90.alloc offset 0 : <4x32xf32, linear>
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [64, 32], strides: [32, 1]
      : memref<?xf32> to memref<64x32xf32, strided<[32, 1]>>
  %a = sm90.load %v[%c0, %c0] paired : memref<64x32xf32, strided<[32, 1]>> -> tensor<64x32xf32, #f1>
  %s = sm90.reduce sum %a dim 0 scratch %scratch : !sm90.smem<4x32xf32, linear> : tensor<64x32xf32, #f1> -> tensor<32xf32, #sm90.columns>
  sm90.store %s, %y[%c0] : tensor<32xf32, #sm90.columns>, memref<?xf32>
  sm90.return
}
