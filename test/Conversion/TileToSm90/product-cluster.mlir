// A cluster of two runs what a program does: each CTA has half of the steps and stores half of the columns, whose sums
// it gets from the other. The plan's grid counts CTAs.
//
// RUN: mla-opt %s --tile-plan-schedules --split-input-file --verify-diagnostics | FileCheck %s --check-prefix=PLAN
// RUN: mla-opt %s --tile-plan-schedules --convert-tile-to-sm90 --split-input-file 2>/dev/null | FileCheck %s

// PLAN-LABEL: tile.plan @step
// PLAN: %[[CTAS:.*]] = arith.constant 8 : index
// PLAN: tile.launch @pair grid(%[[CTAS]], %c1, %c1)
tile.plan @step {
  %x = tile.buffer input "x" : memref<?xbf16>
  %w = tile.buffer weight "w" : memref<?xbf16>
  %bias = tile.buffer weight "bias" : memref<?xbf16>
  %y = tile.buffer output "y" : memref<?xbf16>
  %n = tile.dim "num_tokens"
  %c4 = arith.constant 4 : index
  %c1 = arith.constant 1 : index
  tile.launch @pair grid(%c4, %c1, %c1) args(%x, %w, %bias, %y, %n)
      : memref<?xbf16>, memref<?xbf16>, memref<?xbf16>, memref<?xbf16>, index
  tile.return
}

// PLAN-LABEL: tile.kernel @pair
// PLAN-SAME: tile.depth_cluster = 2

// CHECK-LABEL: sm90.kernel @pair
// CHECK-SAME: cluster = 2
// CHECK: %[[CTA:.*]] = sm90.program_id 0
// CHECK: arith.divui %[[CTA]], %{{.*}}
// CHECK: %[[RANK:.*]] = sm90.cluster_rank
// CHECK: %[[BEGIN:.*]] = arith.muli %[[RANK]], %{{.*}}
// CHECK: %[[SUMS:.*]] = sm90.ring "cluster_sums0" full_count 8 empty_count 8 : <stages = 1, parts = 1, tiles = [<4x512xf32, linear>]>
// CHECK: sm90.role "load_invariant"
// CHECK: %[[END:.*]] = arith.constant 256 : index
// CHECK: scf.for %[[K:.*]] = %{{.*}} to %[[END]]
// CHECK: arith.addi %[[K]], %[[BEGIN]]
// CHECK: sm90.role "math0"
// CHECK: sm90.acquire %[[SUMS]][%{{.*}}] keeps
// CHECK: %[[OWN:.*]] = scf.if {{.*}} -> (tensor<64x32xf32, {{.*}}>) {
// CHECK: sm90.take_columns %{{.*}}[32]
// CHECK: sm90.park {{.*}} rank 1
// CHECK: %[[FIRST:.*]] = sm90.take_columns %{{.*}}[0]
// CHECK: scf.yield %[[FIRST]]
// CHECK: } else {
// CHECK: sm90.take_columns %{{.*}}[0]
// CHECK: sm90.park {{.*}} rank 0
// CHECK: sm90.publish %[[SUMS]][%{{.*}}] part 0 remote
// CHECK: sm90.await %[[SUMS]][%{{.*}}] part 0 remote
// CHECK: %[[OTHER:.*]] = sm90.unpark
// CHECK: %[[SUM:.*]] = arith.addf %[[OWN]], %[[OTHER]]
// CHECK: sm90.release %[[SUMS]][%{{.*}}] remote
// CHECK: %[[BIAS:.*]] = sm90.load {{.*}} -> tensor<64x32xbf16
// CHECK: %[[COLUMN:.*]] = arith.muli %[[RANK]], %{{.*}}
// CHECK: sm90.store {{.*}} : tensor<64x32xbf16
// CHECK: sm90.acquire %[[SUMS]][%{{.*}}] keeps
// expected-remark @below {{kernel 'pair': schedule product product-stages=12}}
tile.kernel @pair(%x: memref<?xbf16>, %w: memref<?xbf16> {tile.invariant}, %bias: memref<?xbf16> {tile.invariant},
                    %y: memref<?xbf16>, %rows: index) attributes {tile.depth_cluster = 2 : i64} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c512 = arith.constant 512 : index
  %pid = tile.program_id 0
  %column = arith.muli %pid, %c64 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%rows, 512], strides: [512, 1]
      : memref<?xbf16> to memref<?x512xbf16, strided<[512, 1]>>
  %wv = memref.reinterpret_cast %w to offset: [0], sizes: [256, 512], strides: [512, 1]
      : memref<?xbf16> to memref<256x512xbf16, strided<[512, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [%rows, 256], strides: [256, 1]
      : memref<?xbf16> to memref<?x256xbf16, strided<[256, 1]>>
  %bv = memref.reinterpret_cast %bias to offset: [0], sizes: [%rows, 256], strides: [0, 1]
      : memref<?xbf16> to memref<?x256xbf16, strided<[0, 1]>>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %acc = scf.for %k = %c0 to %c512 step %c64 iter_args(%o = %zero) -> (tensor<64x64xf32>) {
    %xt = tile.load %xv[%c0, %k] : memref<?x512xbf16, strided<[512, 1]>> -> tensor<64x64xbf16>
    %wt = tile.load %wv[%column, %k] : memref<256x512xbf16, strided<[512, 1]>> -> tensor<64x64xbf16>
    %p = tile.dot %xt, %wt, %o transpose_rhs : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    scf.yield %p : tensor<64x64xf32>
  }
  %b16 = tile.load %bv[%c0, %column] : memref<?x256xbf16, strided<[0, 1]>> -> tensor<64x64xbf16>
  %b = arith.extf %b16 : tensor<64x64xbf16> to tensor<64x64xf32>
  %sum = arith.addf %acc, %b : tensor<64x64xf32>
  %t = arith.truncf %sum : tensor<64x64xf32> to tensor<64x64xbf16>
  tile.store %t, %yv[%c0, %column] : tensor<64x64xbf16>, memref<?x256xbf16, strided<[256, 1]>>
  tile.return
}

// -----

// Seven steps are no whole number for each: the kernel stays as it is, and so does the grid.

// PLAN-LABEL: tile.plan @step
// PLAN: tile.launch @odd grid(%c4, %c1, %c1)
tile.plan @step {
  %x = tile.buffer input "x" : memref<?xbf16>
  %w = tile.buffer weight "w" : memref<?xbf16>
  %bias = tile.buffer weight "bias" : memref<?xbf16>
  %y = tile.buffer output "y" : memref<?xbf16>
  %n = tile.dim "num_tokens"
  %c4 = arith.constant 4 : index
  %c1 = arith.constant 1 : index
  tile.launch @odd grid(%c4, %c1, %c1) args(%x, %w, %bias, %y, %n)
      : memref<?xbf16>, memref<?xbf16>, memref<?xbf16>, memref<?xbf16>, index
  tile.return
}

// PLAN-LABEL: tile.kernel @odd
// PLAN-NOT: depth_cluster
// PLAN: tile.return

// CHECK-LABEL: sm90.kernel @odd
// CHECK-NOT: cluster
// CHECK: sm90.return
// expected-remark @below {{kernel 'odd': schedule product product-stages=12}}
tile.kernel @odd(%x: memref<?xbf16>, %w: memref<?xbf16> {tile.invariant}, %bias: memref<?xbf16> {tile.invariant},
                    %y: memref<?xbf16>, %rows: index) attributes {tile.depth_cluster = 2 : i64} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c512 = arith.constant 448 : index
  %pid = tile.program_id 0
  %column = arith.muli %pid, %c64 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%rows, 448], strides: [448, 1]
      : memref<?xbf16> to memref<?x448xbf16, strided<[448, 1]>>
  %wv = memref.reinterpret_cast %w to offset: [0], sizes: [256, 448], strides: [448, 1]
      : memref<?xbf16> to memref<256x448xbf16, strided<[448, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [%rows, 256], strides: [256, 1]
      : memref<?xbf16> to memref<?x256xbf16, strided<[256, 1]>>
  %bv = memref.reinterpret_cast %bias to offset: [0], sizes: [%rows, 256], strides: [0, 1]
      : memref<?xbf16> to memref<?x256xbf16, strided<[0, 1]>>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %acc = scf.for %k = %c0 to %c512 step %c64 iter_args(%o = %zero) -> (tensor<64x64xf32>) {
    %xt = tile.load %xv[%c0, %k] : memref<?x448xbf16, strided<[448, 1]>> -> tensor<64x64xbf16>
    %wt = tile.load %wv[%column, %k] : memref<256x448xbf16, strided<[448, 1]>> -> tensor<64x64xbf16>
    %p = tile.dot %xt, %wt, %o transpose_rhs : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    scf.yield %p : tensor<64x64xf32>
  }
  %b16 = tile.load %bv[%c0, %column] : memref<?x256xbf16, strided<[0, 1]>> -> tensor<64x64xbf16>
  %b = arith.extf %b16 : tensor<64x64xbf16> to tensor<64x64xf32>
  %sum = arith.addf %acc, %b : tensor<64x64xf32>
  %t = arith.truncf %sum : tensor<64x64xf32> to tensor<64x64xbf16>
  tile.store %t, %yv[%c0, %column] : tensor<64x64xbf16>, memref<?x256xbf16, strided<[256, 1]>>
  tile.return
}
