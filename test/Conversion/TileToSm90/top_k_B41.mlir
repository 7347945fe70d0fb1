// RUN: mla-opt %s --convert-tile-to-sm90 --canonicalize | FileCheck %s

// B41: a row that is selected whole is counted up by one program; one that fits into a list is held by one. Of
// others each program keeps candidates; the last one to meet searches the list, or the row where the list is no good.

// CHECK-LABEL: sm90.kernel @top_k
// CHECK-SAME: warpgroups = 8 : i32
// CHECK: %[[WORK:.*]] = sm90.alloc : <1x2240xi32, linear>
// CHECK: %[[LIST:.*]] = sm90.alloc : <2x8192xf32, linear>
// CHECK: %[[WHOLE:.*]] = arith.cmpi sle, %[[LENGTH:.*]], %c7
// CHECK: %[[HELD:.*]] = arith.cmpi sle, %[[LENGTH]], %c8192
// CHECK: scf.if %[[WHOLE]]
// CHECK: sm90.select_count_up %[[LENGTH]]
// CHECK: } else {
// CHECK: %[[NO_GOOD:.*]] = scf.if %[[HELD]] -> (i1)
// CHECK: sm90.select_begin %[[WORK]]
// CHECK-NEXT: sm90.barrier
// CHECK-NEXT: %[[NUMBERS:.*]] = sm90.select_hold {{.*}} of %[[LENGTH]] to %[[LIST]] work %[[WORK]]
// CHECK-NEXT: sm90.barrier
// CHECK-NEXT: %[[ENOUGH:.*]] = arith.cmpi uge, %[[NUMBERS]], %c7
// CHECK: scf.if %[[ENOUGH]] {
// CHECK: %[[KEY:.*]], %[[BEFORE:.*]] = sm90.select_cut list(%[[LIST]] : {{.*}}) in_order of
// CHECK-NEXT: sm90.barrier
// CHECK-NEXT: sm90.select_write_in_order %[[LIST]] of %{{.*}} cut %[[KEY]], %[[BEFORE]]
// CHECK: } else {
// CHECK: sm90.select_begin %[[WORK]]
// CHECK-NEXT: sm90.barrier
// CHECK-NEXT: %[[COUNT:.*]] = sm90.select_keep {{.*}} of %[[LENGTH]] rank 7 to %[[LIST]] work %[[WORK]]
// CHECK: %[[ALL:.*]]:2 = scf.if
// CHECK-NEXT: scf.yield %true, %[[COUNT]]
// CHECK: sm90.barrier
// CHECK-NEXT: sm90.select_meet %[[LIST]] of %[[COUNT]]
// CHECK: scf.if %[[ALL]]#0
// CHECK-NEXT: sm90.barrier
// CHECK: sm90.select_cut list(%[[LIST]] : {{.*}}) of %[[ALL]]#1 rank 7
// CHECK-NEXT: sm90.barrier
// CHECK-NEXT: sm90.select_write list(%[[LIST]]
// CHECK: scf.if %[[NO_GOOD]]
// CHECK: sm90.select_cut values(
// CHECK-NEXT: sm90.barrier
// CHECK-NEXT: sm90.select_write values(
tile.kernel @top_k(%scores: memref<?xf32>, %out: memref<?xi32>, %lists: memref<?xf32>, %counters: memref<?xi32>,
                   %rows: index, %columns: index, %length: index, %slices: index) {
  %row = tile.program_id 0
  %slice = tile.program_id 1
  %s = memref.reinterpret_cast %scores to offset: [0], sizes: [%rows, %columns], strides: [%columns, 1]
      : memref<?xf32> to memref<?x?xf32, strided<[?, 1]>>
  %o = memref.reinterpret_cast %out to offset: [0], sizes: [%rows, 7], strides: [7, 1]
      : memref<?xi32> to memref<?x7xi32, strided<[7, 1]>>
  %l = memref.reinterpret_cast %lists to offset: [0], sizes: [%rows, 2, 8192], strides: [16384, 8192, 1]
      : memref<?xf32> to memref<?x2x8192xf32, strided<[16384, 8192, 1]>>
  tile.top_k %s[%row] length %length slice %slice of %slices
      lists(%l : memref<?x2x8192xf32, strided<[16384, 8192, 1]>>) counters(%counters : memref<?xi32>) to %o
      : memref<?x?xf32, strided<[?, 1]>>, memref<?x7xi32, strided<[7, 1]>>
  tile.return
}

// Many short rows: a few threads each, with little memory, so that several programs share a multiprocessor.
// CHECK-LABEL: sm90.kernel @short
// CHECK-SAME: warpgroups = 2 : i32
// CHECK: sm90.alloc : <2x4096xf32, linear>
// CHECK: sm90.alloc : <1x256xi32, linear>
// CHECK-NOT: sm90.select_meet
tile.kernel @short(%scores: memref<?xf32>, %out: memref<?xi32>, %rows: index, %columns: index, %length: index) {
  %row = tile.program_id 0
  %s = memref.reinterpret_cast %scores to offset: [0], sizes: [%rows, %columns], strides: [%columns, 1]
      : memref<?xf32> to memref<?x?xf32, strided<[?, 1]>>
  %o = memref.reinterpret_cast %out to offset: [0], sizes: [%rows, 7], strides: [7, 1]
      : memref<?xi32> to memref<?x7xi32, strided<[7, 1]>>
  tile.top_k %s[%row] length %length to %o {longest = 8192 : i64}
      : memref<?x?xf32, strided<[?, 1]>>, memref<?x7xi32, strided<[7, 1]>>
  tile.return
}
