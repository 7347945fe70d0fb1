// RUN: mla-opt %s --pass-pipeline='builtin.module(tile.kernel(tile-swap-operands,canonicalize,cse))' --split-input-file --verify-diagnostics | FileCheck %s

// 12 rows become N = 16; 128 output columns are two tiles [64, 16]. The running
// sum is carried as a tile and reduced after the loop.

// CHECK-LABEL: tile.kernel @attention
// CHECK-SAME: tile.schedule = {kind = "stream"}
tile.kernel @attention(%pool: memref<?xbf16>, %pages: index, %table: memref<?xi32>, %q: memref<?xbf16>,
                       %out: memref<?xf32>, %lse: memref<?xf32>, %len: index, %rows: index)
    attributes {tile.max_rows = 12 : i64} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %zeros = arith.constant dense<0.0> : tensor<64x128xf32>
  %none = arith.constant dense<0.0> : tensor<64xf32>
  %start = arith.constant dense<-1.0e30> : tensor<64xf32>
  %inf = arith.constant dense<0xFF800000> : tensor<64x64xf32>
  // CHECK-DAG: %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<64x16xf32>
  // CHECK-DAG: %[[START:.*]] = arith.constant dense<{{.*}}> : tensor<16xf32>
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
  %state:3 = scf.for %key = %c0 to %len step %c64 iter_args(%m = %start, %sum = %none, %o = %zeros)
      -> (tensor<64xf32>, tensor<64xf32>, tensor<64x128xf32>) {
    // CHECK: %[[K:.*]] = tile.load_paged {{.*}} -> tensor<64x128xbf16>
    %k = tile.load_paged %pv[%table at %key, %c0] limit %len
        : memref<?x64x128xbf16, strided<[8192, 128, 1]>>, memref<?xi32> -> tensor<64x128xbf16>
    // CHECK: %[[S:.*]] = tile.dot %[[K]], %[[Q]], %[[ZERO]] transpose_rhs : tensor<64x128xbf16>, tensor<16x128xbf16> -> tensor<64x16xf32>
    %s = tile.dot %query, %k, %zero transpose_rhs : tensor<64x128xbf16>, tensor<64x128xbf16> -> tensor<64x64xf32>
    // CHECK: %[[POSITION:.*]] = tile.iota 0 : tensor<64x16xi32>
    %position = tile.iota 1 : tensor<64x64xi32>
    // CHECK: %[[LIMIT:.*]] = tile.broadcast %[[LIMITS]] dim 0 : tensor<16xi32> -> tensor<64x16xi32>
    %limit = tile.broadcast %limits : tensor<64xi32> -> tensor<64x64xi32>
    // CHECK: %[[SEEN:.*]] = arith.cmpi slt, %[[POSITION]], %[[LIMIT]] : tensor<64x16xi32>
    %seen = arith.cmpi slt, %position, %limit : tensor<64x64xi32>
    // CHECK: %[[MASKED:.*]] = arith.select %[[SEEN]], %[[S]]
    %masked = arith.select %seen, %s, %inf : tensor<64x64xi1>, tensor<64x64xf32>
    // CHECK: %[[M:.*]] = tile.reduce {{ *}}max %[[MASKED]] dim 0 : tensor<64x16xf32> -> tensor<16xf32>
    %bm = tile.reduce max %masked : tensor<64x64xf32> -> tensor<64xf32>
    %max = arith.maximumf %m, %bm : tensor<64xf32>
    %d = arith.subf %m, %max : tensor<64xf32>
    // CHECK: %[[FACTOR:.*]] = math.exp2 %{{.*}} : tensor<16xf32>
    %f = math.exp2 %d : tensor<64xf32>
    %mb = tile.broadcast %max : tensor<64xf32> -> tensor<64x64xf32>
    %shifted = arith.subf %masked, %mb : tensor<64x64xf32>
    // CHECK: %[[E:.*]] = math.exp2 %{{.*}} : tensor<64x16xf32>
    %e = math.exp2 %shifted : tensor<64x64xf32>
    // CHECK: %[[FB:.*]] = tile.broadcast %[[FACTOR]] dim 0
    // CHECK: %[[OLD:.*]] = arith.mulf %[[SUM]], %[[FB]] : tensor<64x16xf32>
    // CHECK: %[[NEW:.*]] = arith.addf %[[OLD]], %[[E]] : tensor<64x16xf32>
    %old = arith.mulf %sum, %f : tensor<64xf32>
    %bs = tile.reduce sum %e : tensor<64x64xf32> -> tensor<64xf32>
    %new = arith.addf %old, %bs : tensor<64xf32>
    // CHECK: %[[A0:.*]] = arith.mulf %[[O0]], %[[FB]]
    // CHECK: %[[A1:.*]] = arith.mulf %[[O1]], %[[FB]]
    %fb = tile.broadcast %f : tensor<64xf32> -> tensor<64x128xf32>
    %a = arith.mulf %o, %fb : tensor<64x128xf32>
    // CHECK: %[[P:.*]] = arith.truncf %[[E]] : tensor<64x16xf32> to tensor<64x16xbf16>
    %p = arith.truncf %e : tensor<64x64xf32> to tensor<64x64xbf16>
    // CHECK: %[[V0:.*]] = tensor.extract_slice %[[K]][0, 0] [64, 64]
    // CHECK: %[[R0:.*]] = tile.dot %[[V0]], %[[P]], %[[A0]] transpose_lhs
    // CHECK: %[[V1:.*]] = tensor.extract_slice %[[K]][0, 64] [64, 64]
    // CHECK: %[[R1:.*]] = tile.dot %[[V1]], %[[P]], %[[A1]] transpose_lhs
    %r = tile.dot %p, %k, %a : tensor<64x64xbf16>, tensor<64x128xbf16> -> tensor<64x128xf32>
    // CHECK: scf.yield %{{.*}}, %[[NEW]], %[[R0]], %[[R1]]
    scf.yield %max, %new, %r : tensor<64xf32>, tensor<64xf32>, tensor<64x128xf32>
  }
  // CHECK: %[[TOTAL:.*]] = tile.reduce {{ *}}sum %[[STATE]]#1 dim 0
  // CHECK: %[[DIVISOR:.*]] = tile.broadcast %[[TOTAL]] dim 0
  %sb = tile.broadcast %state#1 : tensor<64xf32> -> tensor<64x128xf32>
  // CHECK: %[[Y0:.*]] = arith.divf %[[STATE]]#2, %[[DIVISOR]]
  // CHECK: %[[Y1:.*]] = arith.divf %[[STATE]]#3, %[[DIVISOR]]
  %y = arith.divf %state#2, %sb : tensor<64x128xf32>
  // CHECK: scf.if
  %some = arith.cmpi slt, %c0, %rows : index
  scf.if %some {
    // CHECK: tile.store %[[Y0]], %{{.*}}[%c0, %c0] transposed : tensor<64x16xf32>
    // CHECK: tile.store %[[Y1]], %{{.*}}[%c0, %c64] transposed : tensor<64x16xf32>
    tile.store %y, %ov[%c0, %c0] : tensor<64x128xf32>, memref<?x128xf32, strided<[128, 1]>>
    // CHECK: tile.store %[[TOTAL]], %{{.*}}[%c0] : tensor<16xf32>
    tile.store %state#1, %lse[%c0] : tensor<64xf32>, memref<?xf32>
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
    attributes {tile.max_rows = 8 : i64, tile.schedule = {kind = "relay"}} {
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

// expected-remark @below {{operands not swapped: no products of queries with keys and of weights with values}}
tile.kernel @no_attention(%x: memref<?xf32>) attributes {tile.max_rows = 8 : i64} {
  tile.return
}
