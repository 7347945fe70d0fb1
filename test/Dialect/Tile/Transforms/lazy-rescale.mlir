// RUN: mla-opt %s --pass-pipeline='builtin.module(tile.kernel(tile-lazy-rescale{threshold=8}))' --split-input-file | FileCheck %s
// RUN: mla-opt %s --pass-pipeline='builtin.module(tile.kernel(tile-lazy-rescale{threshold=0}))' --split-input-file | FileCheck %s --check-prefix=ZERO

!rows = tensor<64xf32>
!tile = tensor<64x64xf32>

// CHECK-LABEL: tile.kernel @softmax
// CHECK:       scf.for {{.*}} iter_args(%[[CARRIED:.*]] = %{{.*}}, %{{.*}} = %{{.*}})
// CHECK:         %[[BLOCK:.*]] = tile.reduce
// CHECK-NEXT:    %[[BY:.*]] = arith.constant dense<8.0{{.*}}> : tensor<64xf32>
// CHECK-NEXT:    %[[LIMIT:.*]] = arith.addf %[[CARRIED]], %[[BY]]
// CHECK-NEXT:    %[[EXCEEDS:.*]] = arith.cmpf ugt, %[[BLOCK]], %[[LIMIT]]
// CHECK-NEXT:    %[[NEW:.*]] = arith.select %[[EXCEEDS]], %[[BLOCK]], %[[CARRIED]]
// CHECK-NOT:     arith.maximumf
// CHECK:         arith.subf %[[CARRIED]], %[[NEW]]
// CHECK:         tile.broadcast %[[NEW]]
// CHECK:         scf.yield %[[NEW]]
// ZERO-LABEL:  tile.kernel @softmax
// ZERO:          arith.maximumf
tile.kernel @softmax(%x: memref<?xf32>, %out: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %start = arith.constant dense<-1.0e30> : !rows
  %zero = arith.constant dense<0.0> : !rows
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xf32> to memref<?x64xf32, strided<[64, 1]>>
  %r:2 = scf.for %i = %c0 to %n step %c64 iter_args(%max = %start, %sum = %zero) -> (!rows, !rows) {
    %s = tile.load %v[%i, %c0] : memref<?x64xf32, strided<[64, 1]>> -> !tile
    %t = tile.reduce max %s : !tile -> !rows
    %new = arith.maximumf %max, %t : !rows
    %d = arith.subf %max, %new : !rows
    %correction = math.exp2 %d : !rows
    %b = tile.broadcast %new : !rows -> !tile
    %e = arith.subf %s, %b : !tile
    %p = math.exp2 %e : !tile
    %share = tile.reduce sum %p : !tile -> !rows
    %scaled = arith.mulf %sum, %correction : !rows
    %next = arith.addf %scaled, %share : !rows
    scf.yield %new, %next : !rows, !rows
  }
  %log = math.log2 %r#1 : !rows
  %lse = arith.addf %r#0, %log : !rows
  tile.store %lse, %out[%c0] : !rows, memref<?xf32>
  tile.return
}

// -----

// The schedule of the kernel decides.
// CHECK-LABEL: tile.kernel @planned
// CHECK:         arith.constant dense<4.0{{.*}}> : tensor<64xf32>
// CHECK:         arith.cmpf ugt
// ZERO-LABEL:  tile.kernel @planned
// ZERO:          arith.cmpf ugt
!rows = tensor<64xf32>
tile.kernel @planned(%x: memref<?xf32>, %out: memref<?xf32>, %n: index)
    attributes {tile.schedule = {kind = "relay", lazy_threshold = 4.0 : f64}} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %start = arith.constant dense<-1.0e30> : !rows
  %zero = arith.constant dense<0.0> : !rows
  %r:2 = scf.for %i = %c0 to %n step %c64 iter_args(%max = %start, %sum = %zero) -> (!rows, !rows) {
    %t = tile.load %x[%i] : memref<?xf32> -> !rows
    %new = arith.maximumf %t, %max : !rows
    %d = arith.subf %max, %new : !rows
    %correction = math.exp2 %d : !rows
    %e = arith.subf %t, %new : !rows
    %p = math.exp2 %e : !rows
    %scaled = arith.mulf %sum, %correction : !rows
    %next = arith.addf %scaled, %p : !rows
    scf.yield %new, %next : !rows, !rows
  }
  tile.store %r#1, %out[%c0] : !rows, memref<?xf32>
  tile.return
}

// -----

// The maximum itself is stored: it must stay exact.
// CHECK-LABEL: tile.kernel @stored
// CHECK:         arith.maximumf
// CHECK-NOT:     arith.select
!rows = tensor<64xf32>
tile.kernel @stored(%x: memref<?xf32>, %out: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %start = arith.constant dense<-1.0e30> : !rows
  %zero = arith.constant dense<0.0> : !rows
  %r:2 = scf.for %i = %c0 to %n step %c64 iter_args(%max = %start, %sum = %zero) -> (!rows, !rows) {
    %t = tile.load %x[%i] : memref<?xf32> -> !rows
    %new = arith.maximumf %max, %t : !rows
    %d = arith.subf %max, %new : !rows
    %correction = math.exp2 %d : !rows
    %e = arith.subf %t, %new : !rows
    %p = math.exp2 %e : !rows
    %scaled = arith.mulf %sum, %correction : !rows
    %next = arith.addf %scaled, %p : !rows
    scf.yield %new, %next : !rows, !rows
  }
  tile.store %r#0, %out[%c0] : !rows, memref<?xf32>
  tile.store %r#1, %out[%c64] : !rows, memref<?xf32>
  tile.return
}

// -----

// A maximum without corrections (the first pass of a merge) is no reference that
// moves.
// CHECK-LABEL: tile.kernel @only_maximum
// CHECK:         arith.maximumf
// CHECK-NOT:     arith.select
!rows = tensor<64xf32>
tile.kernel @only_maximum(%x: memref<?xf32>, %out: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %start = arith.constant dense<-1.0e30> : !rows
  %r = scf.for %i = %c0 to %n step %c64 iter_args(%max = %start) -> (!rows) {
    %t = tile.load %x[%i] : memref<?xf32> -> !rows
    %new = arith.maximumf %max, %t : !rows
    scf.yield %new : !rows
  }
  %log = math.log2 %r : !rows
  %lse = arith.addf %r, %log : !rows
  tile.store %lse, %out[%c0] : !rows, memref<?xf32>
  tile.return
}

// -----

// The new maximum is compared with in the loop.
// CHECK-LABEL: tile.kernel @compared
// CHECK:         arith.maximumf
// CHECK-NOT:     arith.cmpf ugt
!rows = tensor<64xf32>
tile.kernel @compared(%x: memref<?xf32>, %out: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %start = arith.constant dense<-1.0e30> : !rows
  %zero = arith.constant dense<0.0> : !rows
  %r:2 = scf.for %i = %c0 to %n step %c64 iter_args(%max = %start, %sum = %zero) -> (!rows, !rows) {
    %t = tile.load %x[%i] : memref<?xf32> -> !rows
    %new = arith.maximumf %max, %t : !rows
    %d = arith.subf %max, %new : !rows
    %correction = math.exp2 %d : !rows
    %is_max = arith.cmpf oeq, %t, %new : !rows
    %p = arith.select %is_max, %correction, %zero : tensor<64xi1>, !rows
    %next = arith.addf %sum, %p : !rows
    scf.yield %new, %next : !rows, !rows
  }
  tile.store %r#1, %out[%c0] : !rows, memref<?xf32>
  tile.return
}
