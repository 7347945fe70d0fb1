// B06: numbers as bits, and bits as a mask, in the simple schedule.
// RUN: mla-opt %s --convert-tile-to-sm90 | FileCheck %s

// Words of 32768 keys at a time, in shared memory; all of a program is one op.
// CHECK-LABEL: sm90.kernel @set_bits
// CHECK-SAME: %[[FIRST:[a-z0-9]+]]: index)
// CHECK-SAME: warpgroups = 1 : i32
// CHECK: %[[ROW:.*]] = sm90.program_id 0
// CHECK: %[[LIST:.*]] = memref.reinterpret_cast %{{.*}} sizes: [%{{.*}}, 48]
// CHECK: %[[OUT:.*]] = memref.reinterpret_cast
// CHECK: %[[WORK:.*]] = sm90.alloc : <1x1024xi32, linear>
// CHECK-NEXT: sm90.set_bits %[[LIST]][%[[ROW]]] from %[[FIRST]] to %[[OUT]] work %[[WORK]]
// CHECK-NEXT: sm90.return
tile.kernel @set_bits(%list: memref<?xi32>, %out: memref<?xi32>, %rows: index, %words: index, %first: index) {
  %row = tile.program_id 0
  %l = memref.reinterpret_cast %list to offset: [0], sizes: [%rows, 48], strides: [48, 1]
      : memref<?xi32> to memref<?x48xi32, strided<[48, 1]>>
  %o = memref.reinterpret_cast %out to offset: [0], sizes: [%rows, %words], strides: [%words, 1]
      : memref<?xi32> to memref<?x?xi32, strided<[?, 1]>>
  tile.set_bits %l[%row] from %first to %o : memref<?x48xi32, strided<[48, 1]>>, memref<?x?xi32, strided<[?, 1]>>
  tile.return
}

// Every thread has the words of its rows, and no shared memory is needed.
// CHECK-LABEL: sm90.kernel @test_bits
// CHECK-NOT: sm90.alloc
// CHECK: %[[LOW:.*]] = sm90.load %{{.*}} -> tensor<64xi32, #sm90.rows>
// CHECK: %[[HIGH:.*]] = sm90.load %{{.*}} -> tensor<64xi32, #sm90.rows>
// CHECK: %[[BITS:.*]] = sm90.test_bits %[[LOW]], %[[HIGH]] : {{.*}} -> tensor<64x64xi1, #sm90.fragment<column_split = 1>>
// CHECK: arith.select %[[BITS]]
// CHECK-NOT: sm90.alloc
// CHECK: sm90.return
tile.kernel @test_bits(%words: memref<?xi32>, %out: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %w = memref.reinterpret_cast %words to offset: [0], sizes: [%n], strides: [2]
      : memref<?xi32> to memref<?xi32, strided<[2]>>
  %v = memref.reinterpret_cast %words to offset: [1], sizes: [%n], strides: [2]
      : memref<?xi32> to memref<?xi32, strided<[2], offset: 1>>
  %o = memref.reinterpret_cast %out to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xf32> to memref<?x64xf32, strided<[64, 1]>>
  %low = tile.load %w[%c0] : memref<?xi32, strided<[2]>> -> tensor<64xi32>
  %high = tile.load %v[%c0] : memref<?xi32, strided<[2], offset: 1>> -> tensor<64xi32>
  %bits = tile.test_bits %low, %high : tensor<64xi32>, tensor<64xi32> -> tensor<64x64xi1>
  %one = arith.constant dense<1.0> : tensor<64x64xf32>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %r = arith.select %bits, %one, %zero : tensor<64x64xi1>, tensor<64x64xf32>
  tile.store %r, %o[%c0, %c0] : tensor<64x64xf32>, memref<?x64xf32, strided<[64, 1]>>
  tile.return
}
