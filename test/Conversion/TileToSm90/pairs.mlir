// RUN: mla-opt %s --pass-pipeline='builtin.module(convert-tile-to-sm90,canonicalize,cse)' | FileCheck %s
// Elements that are neighbours in memory are one access of both tiles: pairs of interleaved channels.
// In a row kernel a thread has runs of as many pairs as are 16 bytes.

!even = memref<?x32xbf16, strided<[64, 2]>>
!odd = memref<?x32xbf16, strided<[64, 2], offset: 1>>

// CHECK-LABEL: sm90.kernel @exchanged
// CHECK-SAME:    sm90.column_run = 4
// CHECK:         %[[FIRST:.*]], %[[SECOND:.*]] = sm90.load_pairs %{{.*}} : memref<?x32xbf16, strided<[64, 2]>>
// CHECK-NOT:     sm90.load
// CHECK-NOT:     sm90.store %
// CHECK:         sm90.store_pairs %[[SECOND]], %[[FIRST]] to %{{.*}} : {{.*}} memref<?x32xbf16, strided<[64, 2]>>
// CHECK-NOT:     sm90.store
tile.kernel @exchanged(%x: memref<?xbf16>, %y: memref<?xbf16>, %tokens: index) attributes {tile.row_kernel} {
  %c0 = arith.constant 0 : index
  %even = memref.reinterpret_cast %x to offset: [0], sizes: [%tokens, 32], strides: [64, 2] : memref<?xbf16> to !even
  %a = tile.load %even[%c0, %c0] : !even -> tensor<64x32xbf16>
  %odd = memref.reinterpret_cast %x to offset: [1], sizes: [%tokens, 32], strides: [64, 2] : memref<?xbf16> to !odd
  %b = tile.load %odd[%c0, %c0] : !odd -> tensor<64x32xbf16>
  %to_even = memref.reinterpret_cast %y to offset: [0], sizes: [%tokens, 32], strides: [64, 2] : memref<?xbf16> to !even
  tile.store %b, %to_even[%c0, %c0] : tensor<64x32xbf16>, !even
  %to_odd = memref.reinterpret_cast %y to offset: [1], sizes: [%tokens, 32], strides: [64, 2] : memref<?xbf16> to !odd
  tile.store %a, %to_odd[%c0, %c0] : tensor<64x32xbf16>, !odd
  tile.return
}

// Heads in groups, from an offset that is known at run time only. Codes are 8 pairs in 16 bytes.

!first = memref<3x2x16xf8E4M3FN, strided<[64, 32, 2], offset: ?>>

// CHECK-LABEL: sm90.kernel @groups
// CHECK-SAME:    sm90.column_run = 8
// CHECK:         sm90.load_pairs %{{.*}} : memref<3x2x16xf8E4M3FN, strided<[64, 32, 2], offset: ?>>
// CHECK-COUNT-2: sm90.store %
tile.kernel @groups(%x: memref<?xf8E4M3FN>, %y: memref<?xf8E4M3FN>) attributes {tile.row_kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c192 = arith.constant 192 : index
  %pid = tile.program_id 0
  %at = arith.muli %pid, %c192 : index
  %behind = arith.addi %at, %c1 : index
  %even = memref.reinterpret_cast %x to offset: [%at], sizes: [3, 2, 16], strides: [64, 32, 2] : memref<?xf8E4M3FN> to !first
  %odd = memref.reinterpret_cast %x to offset: [%behind], sizes: [3, 2, 16], strides: [64, 32, 2] : memref<?xf8E4M3FN> to !first
  %a = tile.load %even[%c0, %c0] : !first -> tensor<64x16xf8E4M3FN>
  %b = tile.load %odd[%c0, %c0] : !first -> tensor<64x16xf8E4M3FN>
  %v = memref.reinterpret_cast %y to offset: [0], sizes: [64, 16], strides: [16, 1] : memref<?xf8E4M3FN> to memref<64x16xf8E4M3FN, strided<[16, 1]>>
  %w = memref.reinterpret_cast %y to offset: [1024], sizes: [64, 16], strides: [16, 1] : memref<?xf8E4M3FN> to memref<64x16xf8E4M3FN, strided<[16, 1], offset: 1024>>
  tile.store %a, %v[%c0, %c0] : tensor<64x16xf8E4M3FN>, memref<64x16xf8E4M3FN, strided<[16, 1]>>
  tile.store %b, %w[%c0, %c0] : tensor<64x16xf8E4M3FN>, memref<64x16xf8E4M3FN, strided<[16, 1], offset: 1024>>
  tile.return
}

// Rows of 66 elements are aligned to pairs alone, and what a thread has is two; loads between which memory changes are two.

!narrow = memref<?x32xbf16, strided<[66, 2]>>
!behind = memref<?x32xbf16, strided<[66, 2], offset: 1>>

// CHECK-LABEL: sm90.kernel @unaligned
// CHECK-COUNT-2: sm90.load %
// CHECK-COUNT-2: sm90.store %
tile.kernel @unaligned(%x: memref<?xbf16>, %y: memref<?xbf16>, %tokens: index) attributes {tile.row_kernel} {
  %c0 = arith.constant 0 : index
  %even = memref.reinterpret_cast %x to offset: [0], sizes: [%tokens, 32], strides: [66, 2] : memref<?xbf16> to !narrow
  %a = tile.load %even[%c0, %c0] : !narrow -> tensor<64x32xbf16>
  %odd = memref.reinterpret_cast %x to offset: [1], sizes: [%tokens, 32], strides: [66, 2] : memref<?xbf16> to !behind
  %b = tile.load %odd[%c0, %c0] : !behind -> tensor<64x32xbf16>
  %to_even = memref.reinterpret_cast %y to offset: [0], sizes: [%tokens, 32], strides: [66, 2] : memref<?xbf16> to !narrow
  tile.store %b, %to_even[%c0, %c0] : tensor<64x32xbf16>, !narrow
  %to_odd = memref.reinterpret_cast %y to offset: [1], sizes: [%tokens, 32], strides: [66, 2] : memref<?xbf16> to !behind
  tile.store %a, %to_odd[%c0, %c0] : tensor<64x32xbf16>, !behind
  tile.return
}

// CHECK-LABEL: sm90.kernel @changed
// CHECK:         sm90.load %
// CHECK:         sm90.store %
// CHECK:         sm90.load %
// CHECK:         sm90.store %
tile.kernel @changed(%x: memref<?xbf16>, %tokens: index) attributes {tile.row_kernel} {
  %c0 = arith.constant 0 : index
  %even = memref.reinterpret_cast %x to offset: [0], sizes: [%tokens, 32], strides: [64, 2] : memref<?xbf16> to !even
  %odd = memref.reinterpret_cast %x to offset: [1], sizes: [%tokens, 32], strides: [64, 2] : memref<?xbf16> to !odd
  %a = tile.load %even[%c0, %c0] : !even -> tensor<64x32xbf16>
  tile.store %a, %odd[%c0, %c0] : tensor<64x32xbf16>, !odd
  %b = tile.load %odd[%c0, %c0] : !odd -> tensor<64x32xbf16>
  tile.store %b, %even[%c0, %c0] : tensor<64x32xbf16>, !even
  tile.return
}
