// RUN: mla-opt %s --pass-pipeline='builtin.module(tile.kernel(tile-swap-operands,canonicalize,cse))' --split-input-file --verify-diagnostics | FileCheck %s

// 12 rows become N = 16; 128 output columns are two tiles [64, 16]. The running
// sum is carried as a tile and reduced after the loop.

// CHECK-LABEL: tile.kernel @attention
// CHECK-SAME: tile.schedule = #tile.stream
tile.kernel @attention(%pool: memref<?xbf16>, %pages: index, %table: memref<?xi32>, %q: memref<?xbf16>,
                       %out: memref<?xf32>, %lse: memref<?xf32>, %len: index, %rows: index)
    attributes {tile.max_rows = 12 : i64} {
  %c0 = arith.constant 0 : index
  // CHECK-DAG: %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<64x16xf32>
  // CHECK-DAG: %[[START:.*]] = arith.constant dense<-1.000000e+30> : tensor<16xf32>
  %pv = memref.reinterpret_cast %pool to offset: [0], sizes: [%pages, 64, 128], strides: [8192, 128, 1]
      : memref<?xbf16> to memref<?x64x128xbf16, strided<[8192, 128, 1]>>
  %qv = memref.reinterpret_cast %q to offset: [0], sizes: [%rows, 128], strides: [128, 1]
      : memref<?xbf16> to memref<?x128xbf16, strided<[128, 1]>>
  %ov = memref.reinterpret_cast %out to offset: [0], sizes: [%rows, 128], strides: [128, 1]
      : memref<?xf32> to memref<?x128xf32, strided<[128, 1]>>
  // CHECK: %[[Q:.*]] = tile.load %{{.*}} -> tensor<16x128xbf16>
  %query = tile.load %qv[%c0, %c0] : memref<?x128xbf16, strided<[128, 1]>> -> tensor<64x128xbf16>
  %last = arith.index_cast %len : index to i32
  // CHECK: %[[LIMITS:.*]] = tile.splat %{{.*}} : i32 -> tensor<16xi32>
  %limits = tile.splat %last : i32 -> tensor<64xi32>
  // CHECK: %[[STATE:.*]]:4 = scf.for {{.*}} iter_args(%[[MAX:.*]] = %[[START]], %[[SUM:.*]] = %[[ZERO]], %[[O0:.*]] = %[[ZERO]], %[[O1:.*]] = %[[ZERO]])
  // CHECK: %[[K:.*]] = tile.load_paged {{.*}} -> tensor<64x128xbf16>
  // CHECK: %[[S:.*]] = tile.dot %[[K]], %[[Q]], %[[ZERO]] transpose_rhs : tensor<64x128xbf16>, tensor<16x128xbf16> -> tensor<64x16xf32>
  // CHECK: %[[POSITION:.*]] = tile.iota 0 : tensor<64x16xi32>
  // CHECK: %[[KEY:.*]] = arith.addi %[[POSITION]]
  // CHECK: %[[LIMIT:.*]] = tile.broadcast %[[LIMITS]] dim 0 : tensor<16xi32> -> tensor<64x16xi32>
  // CHECK: %[[SEEN:.*]] = arith.cmpi slt, %[[KEY]], %[[LIMIT]] : tensor<64x16xi32>
  // CHECK: %[[MASKED:.*]] = arith.select %[[SEEN]], %[[S]]
  // CHECK: %[[M:.*]] = tile.reduce {{ *}}max %[[MASKED]] dim 0 : tensor<64x16xf32> -> tensor<16xf32>
  // CHECK: %[[FACTOR:.*]] = math.exp2 %{{.*}} : tensor<16xf32>
  // CHECK: %[[E:.*]] = math.exp2 %{{.*}} : tensor<64x16xf32>
  // CHECK: %[[FB:.*]] = tile.broadcast %[[FACTOR]] dim 0
  // CHECK: %[[OLD:.*]] = arith.mulf %[[SUM]], %[[FB]] : tensor<64x16xf32>
  // CHECK: %[[NEW:.*]] = arith.addf %[[OLD]], %[[E]] : tensor<64x16xf32>
  // CHECK: %[[A0:.*]] = arith.mulf %[[O0]], %[[FB]]
  // CHECK: %[[A1:.*]] = arith.mulf %[[O1]], %[[FB]]
  // CHECK: %[[P:.*]] = arith.truncf %[[E]] : tensor<64x16xf32> to tensor<64x16xbf16>
  // CHECK: %[[V0:.*]] = tensor.extract_slice %[[K]][0, 0] [64, 64]
  // CHECK: %[[R0:.*]] = tile.dot %[[V0]], %[[P]], %[[A0]] transpose_lhs
  // CHECK: %[[V1:.*]] = tensor.extract_slice %[[K]][0, 64] [64, 64]
  // CHECK: %[[R1:.*]] = tile.dot %[[V1]], %[[P]], %[[A1]] transpose_lhs
  // CHECK: scf.yield %{{.*}}, %[[NEW]], %[[R0]], %[[R1]]
  %m, %l, %o = tile.attend queries(%query : tensor<64x128xbf16>)
      keys(%pv : memref<?x64x128xbf16, strided<[8192, 128, 1]>>)
      pages(%table : memref<?xi32>) range %c0 to %len limit %len sees(%limits : tensor<64xi32>)
      {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x128xf32>
  // CHECK: %[[TOTAL:.*]] = tile.reduce {{ *}}sum %[[STATE]]#1 dim 0
  // CHECK: %[[DIVISOR:.*]] = tile.broadcast %[[TOTAL]] dim 0
  %sb = tile.broadcast %l : tensor<64xf32> -> tensor<64x128xf32>
  // CHECK: %[[Y0:.*]] = arith.divf %[[STATE]]#2, %[[DIVISOR]]
  // CHECK: %[[Y1:.*]] = arith.divf %[[STATE]]#3, %[[DIVISOR]]
  %y = arith.divf %o, %sb : tensor<64x128xf32>
  // CHECK: scf.if
  %some = arith.cmpi slt, %c0, %rows : index
  scf.if %some {
    // CHECK: tile.store %[[Y0]], %{{.*}}[%c0, %c0] transposed : tensor<64x16xf32>
    // CHECK: tile.store %[[Y1]], %{{.*}}[%c0, %c64] transposed : tensor<64x16xf32>
    tile.store %y, %ov[%c0, %c0] : tensor<64x128xf32>, memref<?x128xf32, strided<[128, 1]>>
    // CHECK: tile.store %[[TOTAL]], %{{.*}}[%c0] : tensor<16xf32>
    tile.store %l, %lse[%c0] : tensor<64xf32>, memref<?xf32>
  }
  tile.return
}

// -----

// Nothing is known of the rows, or another schedule was chosen: no remark.

// CHECK-LABEL: tile.kernel @unknown_rows
// CHECK-NOT: dim 0
// CHECK: tile.kernel @other_schedule
// CHECK-NOT: dim 0
tile.kernel @unknown_rows(%x: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xf32> to memref<?x64xf32, strided<[64, 1]>>
  %t = tile.load %v[%c0, %c0] : memref<?x64xf32, strided<[64, 1]>> -> tensor<64x64xf32>
  %m = tile.reduce max %t : tensor<64x64xf32> -> tensor<64xf32>
  tile.store %m, %x[%c0] : tensor<64xf32>, memref<?xf32>
  tile.return
}
tile.kernel @other_schedule(%x: memref<?xf32>, %n: index)
    attributes {tile.max_rows = 8 : i64, tile.schedule = #tile.relay} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xf32> to memref<?x64xf32, strided<[64, 1]>>
  %t = tile.load %v[%c0, %c0] : memref<?x64xf32, strided<[64, 1]>> -> tensor<64x64xf32>
  %m = tile.reduce max %t : tensor<64x64xf32> -> tensor<64xf32>
  tile.store %m, %x[%c0] : tensor<64xf32>, memref<?xf32>
  tile.return
}

// -----

// expected-remark @below {{operands not swapped: 33 query rows, padded to 40, are more than 32}}
tile.kernel @many_rows(%x: memref<?xf32>, %n: index) attributes {tile.max_rows = 33 : i64} {
  tile.return
}

// -----

// expected-remark @below {{operands not swapped: 'tile.load' in a form not known}}
tile.kernel @load_is_no_query(%x: memref<?xf32>, %n: index) attributes {tile.max_rows = 8 : i64} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xf32> to memref<?x64xf32, strided<[64, 1]>>
  %t = tile.load %v[%c0, %c0] : memref<?x64xf32, strided<[64, 1]>> -> tensor<64x64xf32>
  %m = tile.reduce max %t : tensor<64x64xf32> -> tensor<64xf32>
  tile.store %m, %x[%c0] : tensor<64xf32>, memref<?xf32>
  tile.return
}

// -----

// expected-remark @below {{operands not swapped: a tile whose rows or columns do not come in 64}}
tile.kernel @narrow_output(%x: memref<?xf32>) attributes {tile.max_rows = 8 : i64} {
  %c0 = arith.constant 0 : index
  %zeros = arith.constant dense<0.0> : tensor<64x48xf32>
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [64, 48], strides: [48, 1]
      : memref<?xf32> to memref<64x48xf32, strided<[48, 1]>>
  tile.store %zeros, %v[%c0, %c0] : tensor<64x48xf32>, memref<64x48xf32, strided<[48, 1]>>
  tile.return
}

// -----

// expected-remark @below {{operands not swapped: it has not one attention}}
tile.kernel @no_attention(%x: memref<?xf32>) attributes {tile.max_rows = 8 : i64} {
  tile.return
}

// -----

// What the loop cannot be swapped for.

!view = memref<?x64xbf16, strided<[64, 1]>>
// expected-remark @below {{operands not swapped: its keys do not come in pages}}
tile.kernel @dense(%q: memref<?xbf16>, %n: index) attributes {tile.max_rows = 8 : i64} {
  %c0 = arith.constant 0 : index
  %qv = memref.reinterpret_cast %q to offset: [0], sizes: [%n, 64], strides: [64, 1] : memref<?xbf16> to !view
  %query = tile.load %qv[%c0, %c0] : !view -> tensor<64x64xbf16>
  %m, %l, %o = tile.attend queries(%query : tensor<64x64xbf16>) keys(%qv : !view)
      range %c0 to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  tile.return
}

// -----

!view = memref<?x64xbf16, strided<[64, 1]>>
!pool = memref<?x64x64xbf16, strided<[4096, 64, 1]>>
// expected-remark @below {{operands not swapped: its attention goes on from a partial}}
tile.kernel @started(%q: memref<?xbf16>, %table: memref<?xi32>, %n: index) attributes {tile.max_rows = 8 : i64} {
  %c0 = arith.constant 0 : index
  %rows = arith.constant dense<0.0> : tensor<64xf32>
  %zeros = arith.constant dense<1.0> : tensor<64x64xf32>
  %qv = memref.reinterpret_cast %q to offset: [0], sizes: [%n, 64], strides: [64, 1] : memref<?xbf16> to !view
  %pv = memref.reinterpret_cast %q to offset: [0], sizes: [%n, 64, 64], strides: [4096, 64, 1] : memref<?xbf16> to !pool
  %query = tile.load %qv[%c0, %c0] : !view -> tensor<64x64xbf16>
  %m, %l, %o = tile.attend queries(%query : tensor<64x64xbf16>) keys(%pv : !pool)
      pages(%table : memref<?xi32>) range %c0 to %n limit %n
      start(%rows, %rows, %zeros : tensor<64xf32>, tensor<64xf32>, tensor<64x64xf32>)
      {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  tile.return
}

// -----

// Rows that have seen a score of no value: their sums start in equal parts, one for each row of keys.
!view = memref<?x64xbf16, strided<[64, 1]>>
!pool = memref<?x64x64xbf16, strided<[4096, 64, 1]>>
// CHECK-LABEL: tile.kernel @with_sinks
// CHECK-DAG: %[[SHARE:.*]] = arith.constant dense<1.562500e-02> : tensor<64x8xf32>
// CHECK-DAG: %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<64x8xf32>
// CHECK: %[[SINK:.*]] = tile.load {{.*}} -> tensor<8xf32>
// CHECK: %[[ONES:.*]] = tile.broadcast %{{.*}} dim 0 : tensor<8xf32> -> tensor<64x8xf32>
// CHECK: %[[SUM:.*]] = arith.mulf %[[ONES]], %[[SHARE]]
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %[[SINK]], %{{.*}} = %[[SUM]], %{{.*}} = %[[ZERO]])
tile.kernel @with_sinks(%q: memref<?xbf16>, %s: memref<?xf32>, %table: memref<?xi32>, %n: index) attributes {tile.max_rows = 8 : i64} {
  %c0 = arith.constant 0 : index
  %ones = arith.constant dense<1.0> : tensor<64xf32>
  %zeros = arith.constant dense<0.0> : tensor<64x64xf32>
  %qv = memref.reinterpret_cast %q to offset: [0], sizes: [%n, 64], strides: [64, 1] : memref<?xbf16> to !view
  %sv = memref.reinterpret_cast %s to offset: [0], sizes: [8], strides: [1] : memref<?xf32> to memref<8xf32, strided<[1]>>
  %pv = memref.reinterpret_cast %q to offset: [0], sizes: [%n, 64, 64], strides: [4096, 64, 1] : memref<?xbf16> to !pool
  %query = tile.load %qv[%c0, %c0] : !view -> tensor<64x64xbf16>
  %sinks = tile.load %sv[%c0] : memref<8xf32, strided<[1]>> -> tensor<64xf32>
  %m, %l, %o = tile.attend queries(%query : tensor<64x64xbf16>) keys(%pv : !pool)
      pages(%table : memref<?xi32>) range %c0 to %n limit %n
      start(%sinks, %ones, %zeros : tensor<64xf32>, tensor<64xf32>, tensor<64x64xf32>)
      {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  %ov = memref.reinterpret_cast %s to offset: [64], sizes: [%n, 64], strides: [64, 1] : memref<?xf32> to memref<?x64xf32, strided<[64, 1], offset: 64>>
  tile.store %o, %ov[%c0, %c0] : tensor<64x64xf32>, memref<?x64xf32, strided<[64, 1], offset: 64>>
  tile.return
}

// -----

// Attention over two lists is one loop, over the blocks of the first (%n keys from 0 on) and then the second's: V4-27.
// Pool, list, limit and the block's first entry are chosen where a block begins.
!row = memref<?x64xbf16, strided<[64, 1]>>
!list = memref<?xi32, strided<[1], offset: ?>>
// CHECK-LABEL: tile.kernel @two_lists
// CHECK-SAME: (%{{.*}}, %[[NEAR:.*]]: memref<?xbf16>, %[[FAR:.*]]: memref<?xbf16>, %[[LIST:.*]]: memref<?xi32>, %[[OTHER:.*]]: memref<?xi32>, {{.*}}, %[[N:.*]]: index, %[[M:.*]]: index)
// CHECK: %[[FIRST:.*]] = arith.maxsi %[[N]]
// CHECK: %[[BEGIN:.*]] = arith.muli %{{.*}}, %c64
// CHECK: %[[SECOND:.*]] = arith.maxsi %[[M]]
// CHECK: %[[END:.*]] = arith.addi %[[BEGIN]], %[[SECOND]]
// CHECK: scf.for %[[POSITION:.*]] = %c0 to %[[END]] step %c64
// CHECK: %[[BEHIND:.*]] = arith.cmpi sge, %[[POSITION]], %[[BEGIN]]
// CHECK-DAG: %[[POOL:.*]] = arith.select %[[BEHIND]], %[[FAR]], %[[NEAR]] : memref<?xbf16>
// CHECK-DAG: %[[CHOSEN:.*]] = arith.select %[[BEHIND]], %[[OTHER]], %[[LIST]] : memref<?xi32>
// CHECK-DAG: arith.select %[[BEHIND]], %[[M]], %[[N]] : index
// CHECK: tile.load_rows
// CHECK-NOT: scf.for
// CHECK: tile.store
tile.kernel @two_lists(%q: memref<?xbf16>, %near: memref<?xbf16>, %far: memref<?xbf16>, %list: memref<?xi32>,
                       %other: memref<?xi32>, %out: memref<?xf32>, %rows: index, %n: index, %m: index)
    attributes {tile.max_rows = 8 : i64} {
  %c0 = arith.constant 0 : index
  %qv = memref.reinterpret_cast %q to offset: [0], sizes: [%n, 64], strides: [64, 1] : memref<?xbf16> to !row
  %nv = memref.reinterpret_cast %near to offset: [0], sizes: [%rows, 64], strides: [64, 1] : memref<?xbf16> to !row
  %fv = memref.reinterpret_cast %far to offset: [0], sizes: [%rows, 64], strides: [64, 1] : memref<?xbf16> to !row
  %nl = memref.reinterpret_cast %list to offset: [%rows], sizes: [%n], strides: [1] : memref<?xi32> to !list
  %fl = memref.reinterpret_cast %other to offset: [%rows], sizes: [%m], strides: [1] : memref<?xi32> to !list
  %query = tile.load %qv[%c0, %c0] : !row -> tensor<64x64xbf16>
  %r, %s, %o = tile.attend queries(%query : tensor<64x64xbf16>) keys(%nv : !row) rows(%nl : !list)
      range %c0 to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  %r2, %s2, %o2 = tile.attend queries(%query : tensor<64x64xbf16>) keys(%fv : !row) rows(%fl : !list)
      range %c0 to %m limit %m start(%r, %s, %o : tensor<64xf32>, tensor<64xf32>, tensor<64x64xf32>)
      {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  %ov = memref.reinterpret_cast %out to offset: [64], sizes: [%n, 64], strides: [64, 1] : memref<?xf32> to memref<?x64xf32, strided<[64, 1], offset: 64>>
  tile.store %o2, %ov[%c0, %c0] : tensor<64x64xf32>, memref<?x64xf32, strided<[64, 1], offset: 64>>
  tile.return
}

// -----

// Another scale: these are two attentions.
!row = memref<?x64xbf16, strided<[64, 1]>>
!list = memref<?xi32, strided<[1], offset: ?>>
// expected-remark @below {{operands not swapped: it has not one attention}}
tile.kernel @two_scales(%q: memref<?xbf16>, %list: memref<?xi32>, %n: index) attributes {tile.max_rows = 8 : i64} {
  %c0 = arith.constant 0 : index
  %qv = memref.reinterpret_cast %q to offset: [0], sizes: [%n, 64], strides: [64, 1] : memref<?xbf16> to !row
  %nl = memref.reinterpret_cast %list to offset: [%n], sizes: [%n], strides: [1] : memref<?xi32> to !list
  %query = tile.load %qv[%c0, %c0] : !row -> tensor<64x64xbf16>
  %r, %s, %o = tile.attend queries(%query : tensor<64x64xbf16>) keys(%qv : !row) rows(%nl : !list)
      range %c0 to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  %r2, %s2, %o2 = tile.attend queries(%query : tensor<64x64xbf16>) keys(%qv : !row) rows(%nl : !list)
      range %c0 to %n limit %n start(%r, %s, %o : tensor<64xf32>, tensor<64xf32>, tensor<64x64xf32>)
      {block = 64 : i64, scale = 0.2 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  tile.return
}

// -----

// What is between them is stored: these are two attentions.
!row = memref<?x64xbf16, strided<[64, 1]>>
!list = memref<?xi32, strided<[1], offset: ?>>
// expected-remark @below {{operands not swapped: it has not one attention}}
tile.kernel @stored_between(%q: memref<?xbf16>, %list: memref<?xi32>, %out: memref<?xf32>, %n: index) attributes {tile.max_rows = 8 : i64} {
  %c0 = arith.constant 0 : index
  %qv = memref.reinterpret_cast %q to offset: [0], sizes: [%n, 64], strides: [64, 1] : memref<?xbf16> to !row
  %nl = memref.reinterpret_cast %list to offset: [%n], sizes: [%n], strides: [1] : memref<?xi32> to !list
  %sv = memref.reinterpret_cast %out to offset: [0], sizes: [64], strides: [1] : memref<?xf32> to memref<64xf32, strided<[1]>>
  %query = tile.load %qv[%c0, %c0] : !row -> tensor<64x64xbf16>
  %r, %s, %o = tile.attend queries(%query : tensor<64x64xbf16>) keys(%qv : !row) rows(%nl : !list)
      range %c0 to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  tile.store %s, %sv[%c0] : tensor<64xf32>, memref<64xf32, strided<[1]>>
  %r2, %s2, %o2 = tile.attend queries(%query : tensor<64x64xbf16>) keys(%qv : !row) rows(%nl : !list)
      range %c0 to %n limit %n start(%r, %s, %o : tensor<64xf32>, tensor<64xf32>, tensor<64x64xf32>)
      {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  tile.return
}

// -----

!row = memref<?x64xbf16, strided<[64, 1]>>
!list = memref<?xi32, strided<[1], offset: ?>>
// expected-remark @below {{operands not swapped: nothing uses its attention}}
tile.kernel @unused(%q: memref<?xbf16>, %list: memref<?xi32>, %n: index) attributes {tile.max_rows = 8 : i64} {
  %c0 = arith.constant 0 : index
  %qv = memref.reinterpret_cast %q to offset: [0], sizes: [%n, 64], strides: [64, 1] : memref<?xbf16> to !row
  %nl = memref.reinterpret_cast %list to offset: [%n], sizes: [%n], strides: [1] : memref<?xi32> to !list
  %query = tile.load %qv[%c0, %c0] : !row -> tensor<64x64xbf16>
  %r, %s, %o = tile.attend queries(%query : tensor<64x64xbf16>) keys(%qv : !row) rows(%nl : !list)
      range %c0 to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  tile.return
}
