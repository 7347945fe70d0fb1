// RUN: mla-opt %s --split-input-file --tile-loop-over-programs --canonicalize --cse | FileCheck %s
// RUN: mla-opt %s --split-input-file --tile-loop-over-programs="l2-bytes=65536 side-by-side=1" \
// RUN:     --canonicalize --cse | FileCheck %s --check-prefix=SMALL
// RUN: mla-opt %s --split-input-file --tile-loop-over-programs 2>&1 >/dev/null \
// RUN:     | FileCheck %s --check-prefix=REMARK

// A ragged batch: programs over tiles of 64 rows, 20 heads, requests.

// CHECK-LABEL: tile.plan @ragged
// CHECK: %[[SMS:.*]] = tile.dim "num_sms"
// CHECK: %[[COUNTERS:.*]] = tile.buffer metadata "item_counters" : memref<?xi32>
// CHECK: %[[B:.*]] = tile.dim "num_requests"
// CHECK: tile.launch @ragged_kernel grid(%[[SMS]], %c1{{.*}}, %c1{{.*}}) args({{.*}}, %c20{{.*}}, %[[B]], %[[SMS]], %[[COUNTERS]])
tile.plan @ragged {
  %starts = tile.buffer metadata "query_start_loc" : memref<?xi32>
  %x = tile.buffer input "x" : memref<?xf32>
  %y = tile.buffer output "y" : memref<?xf32>
  %tiles = tile.dim "max_query_len"
  %b = tile.dim "num_requests"
  %c20 = arith.constant 20 : index
  tile.launch @ragged_kernel grid(%tiles, %c20, %b) args(%starts, %x, %y)
      : memref<?xi32>, memref<?xf32>, memref<?xf32>
  tile.return
}

// CHECK-LABEL: tile.kernel @ragged_kernel(
// CHECK-SAME: %[[HEADS:[a-z0-9]*]]: index, %[[REQUESTS:[a-z0-9]*]]: index, %[[PROGRAMS:[a-z0-9]*]]: index, %{{.*}}: memref<?xi32> {tile.item_counters})
// CHECK-DAG: %[[NUM_HEADS:.*]] = arith.index_cast %[[HEADS]]
// CHECK-DAG: %[[STEP:.*]] = arith.index_cast %[[PROGRAMS]]
// CHECK: %[[ID:.*]] = tile.program_id 0
// CHECK: %[[POSITION:.*]] = arith.index_cast %[[ID]]
// CHECK: scf.for %[[Z:.*]] = %c0{{.*}} to %[[REQUESTS]] step %c1{{.*}} iter_args(%[[FIRST:.*]] = %[[POSITION]])
// The request's own rows, loaded once; groups of two tiles of 64.
// CHECK: %[[ROWS:.*]] = arith.subi
// CHECK: arith.divui %{{.*}}, %c128_i32
// Heads that fit in the cache: 32 columns of 4 bytes.
// CHECK: %[[BYTES:.*]] = arith.muli %{{.*}}, %c128_i32
// CHECK: arith.divui %c33554432_i32
// SMALL: arith.divui %c65536_i32
// CHECK: %[[ITEMS:.*]] = arith.muli %{{.*}}, %[[NUM_HEADS]]
// CHECK: scf.for %[[ITEM:.*]] = %[[FIRST]] to %[[ITEMS]] step %[[STEP]]
// The longest first.
// CHECK: %[[REST:.*]] = arith.subi %{{.*}}, %c1_i32
// CHECK: %[[GROUP:.*]] = arith.subi %[[REST]], %{{.*}}
// CHECK: scf.for %[[SIDE:.*]] = %c0{{.*}} to %c2{{.*}} step %c1
// CHECK: %[[X:.*]] = arith.addi %{{.*}}, %[[SIDE]]
// CHECK: %[[ROW:.*]] = arith.muli %[[X]], %c64
// CHECK: arith.cmpi slt, %[[ROW]], %[[ROWS]]
// CHECK: scf.if
// CHECK: } {tile.side_by_side}
// SMALL-NOT: tile.side_by_side
// The program's first item of the next request.
// CHECK: scf.yield %{{.*}} : i32
tile.kernel @ragged_kernel(%starts: memref<?xi32>, %x: memref<?xf32>, %y: memref<?xf32>)
    attributes {tile.schedule = #tile.pingpong} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c640 = arith.constant 640 : index
  %i = tile.program_id 0
  %head = tile.program_id 1
  %request = tile.program_id 2
  %next = arith.addi %request, %c1 : index
  %begin32 = memref.load %starts[%request] : memref<?xi32>
  %end32 = memref.load %starts[%next] : memref<?xi32>
  %begin = arith.index_cast %begin32 : i32 to index
  %end = arith.index_cast %end32 : i32 to index
  %rows = arith.subi %end, %begin : index
  %row = arith.muli %i, %c64 : index
  %exists = arith.cmpi slt, %row, %rows : index
  scf.if %exists {
    %first = arith.muli %begin, %c640 : index
    %column = arith.muli %head, %c32 : index
    %offset = arith.addi %first, %column : index
    %from = memref.reinterpret_cast %x to offset: [%offset], sizes: [%rows, 32], strides: [640, 1]
        : memref<?xf32> to memref<?x32xf32, strided<[640, 1], offset: ?>>
    %to = memref.reinterpret_cast %y to offset: [%offset], sizes: [%rows, 32], strides: [640, 1]
        : memref<?xf32> to memref<?x32xf32, strided<[640, 1], offset: ?>>
    %q = tile.load %from[%row, %c0] : memref<?x32xf32, strided<[640, 1], offset: ?>> -> tensor<64x32xf32>
    %m, %l, %o = tile.attend queries(%q : tensor<64x32xf32>)
        keys(%from : memref<?x32xf32, strided<[640, 1], offset: ?>>)
        range %c0 to %rows limit %rows {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x32xf32>
    tile.store %o, %to[%row, %c0] : tensor<64x32xf32>, memref<?x32xf32, strided<[640, 1], offset: ?>>
  }
  tile.return
}

// -----

// Heads that share keys are one section, whatever the cache holds.
// CHECK-LABEL: tile.kernel @grouped_kernel(
// CHECK-NOT: arith.divui %c33554432_i32
// SMALL-NOT: arith.divui %c65536_i32
// CHECK: } {tile.side_by_side}
tile.kernel @grouped_kernel(%starts: memref<?xi32>, %x: memref<?xf32>, %y: memref<?xf32>)
    attributes {tile.schedule = #tile.pingpong} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c640 = arith.constant 640 : index
  %i = tile.program_id 0
  %head = tile.program_id 1
  %request = tile.program_id 2
  %next = arith.addi %request, %c1 : index
  %begin32 = memref.load %starts[%request] : memref<?xi32>
  %end32 = memref.load %starts[%next] : memref<?xi32>
  %begin = arith.index_cast %begin32 : i32 to index
  %end = arith.index_cast %end32 : i32 to index
  %rows = arith.subi %end, %begin : index
  %row = arith.muli %i, %c64 : index
  %exists = arith.cmpi slt, %row, %rows : index
  scf.if %exists {
    %first = arith.muli %begin, %c640 : index
    %column = arith.muli %head, %c32 : index
    %offset = arith.addi %first, %column : index
    %of = arith.divui %head, %c4 : index
    %key_column = arith.muli %of, %c32 : index
    %key_offset = arith.addi %first, %key_column : index
    %keys = memref.reinterpret_cast %x to offset: [%key_offset], sizes: [%rows, 32], strides: [640, 1]
        : memref<?xf32> to memref<?x32xf32, strided<[640, 1], offset: ?>>
    %from = memref.reinterpret_cast %x to offset: [%offset], sizes: [%rows, 32], strides: [640, 1]
        : memref<?xf32> to memref<?x32xf32, strided<[640, 1], offset: ?>>
    %to = memref.reinterpret_cast %y to offset: [%offset], sizes: [%rows, 32], strides: [640, 1]
        : memref<?xf32> to memref<?x32xf32, strided<[640, 1], offset: ?>>
    %q = tile.load %from[%row, %c0] : memref<?x32xf32, strided<[640, 1], offset: ?>> -> tensor<64x32xf32>
    %m, %l, %o = tile.attend queries(%q : tensor<64x32xf32>)
        keys(%keys : memref<?x32xf32, strided<[640, 1], offset: ?>>)
        range %c0 to %rows limit %rows {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x32xf32>
    tile.store %o, %to[%row, %c0] : tensor<64x32xf32>, memref<?x32xf32, strided<[640, 1], offset: ?>>
  }
  tile.return
}

// -----

// Another kind of schedule.
// CHECK-LABEL: tile.kernel @other_kind
// CHECK-NOT: scf.for
// CHECK: tile.return
tile.kernel @other_kind(%n: index) attributes {tile.schedule = #tile.simple} {
  %c64 = arith.constant 64 : index
  %i = tile.program_id 0
  %row = arith.muli %i, %c64 : index
  %exists = arith.cmpi slt, %row, %n : index
  scf.if %exists {
  }
  tile.return
}

// -----

// REMARK: kernel 'no_guard' keeps its grid: it has no condition on its rows
// CHECK-LABEL: tile.kernel @no_guard
// CHECK-NOT: scf.for
tile.kernel @no_guard(%n: index) attributes {tile.schedule = #tile.pingpong} {
  tile.return
}

// -----

// REMARK: kernel 'rows_of_head' keeps its grid: its number of rows depends on more than the request
tile.kernel @rows_of_head(%counts: memref<?xi32>) attributes {tile.schedule = #tile.pingpong} {
  %c64 = arith.constant 64 : index
  %i = tile.program_id 0
  %head = tile.program_id 1
  %count = memref.load %counts[%head] : memref<?xi32>
  %rows = arith.index_cast %count : i32 to index
  %row = arith.muli %i, %c64 : index
  %exists = arith.cmpi slt, %row, %rows : index
  scf.if %exists {
  }
  tile.return
}

// -----

// REMARK: kernel 'other_row' keeps its grid: its first row is not a multiple of the program's position
tile.kernel @other_row(%n: index) attributes {tile.schedule = #tile.pingpong} {
  %head = tile.program_id 1
  %exists = arith.cmpi slt, %head, %n : index
  scf.if %exists {
  }
  tile.return
}

// -----

// REMARK: kernel 'position_inside' keeps its grid: its body asks for the program's position
// CHECK-LABEL: tile.kernel @position_inside
// CHECK-NOT: scf.for
// CHECK: tile.return
tile.kernel @position_inside(%n: index, %a: memref<?xf32>) attributes {tile.schedule = #tile.pingpong} {
  %c64 = arith.constant 64 : index
  %i = tile.program_id 0
  %row = arith.muli %i, %c64 : index
  %exists = arith.cmpi slt, %row, %n : index
  scf.if %exists {
    %head = tile.program_id 1
    %value = arith.constant 1.0 : f32
    memref.store %value, %a[%head] : memref<?xf32>
  }
  tile.return
}
