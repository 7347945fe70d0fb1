// RUN: mla-opt %s --tile-expand-attend | FileCheck %s

// Attention becomes a loop over its keys. One whose results nobody reads goes with what the
// expansion of another finds to be common; it must not be expanded after that.
// CHECK-LABEL: tile.kernel @two
// CHECK: scf.for
// CHECK: tile.reduce max
// CHECK-NOT: scf.for
// CHECK-NOT: tile.attend
// CHECK: tile.store
// CHECK-NEXT: tile.return
!rows = memref<?x128xbf16, strided<[128, 1]>>
!values = memref<?x64xbf16, strided<[64, 1]>>
!outputs = memref<?x64xf32, strided<[64, 1]>>
tile.kernel @two(%q: memref<?xbf16>, %k: memref<?xbf16>, %v: memref<?xbf16>, %out: memref<?xf32>,
                 %n: index) {
  %c0 = arith.constant 0 : index
  %qs = memref.reinterpret_cast %q to offset: [0], sizes: [%n, 128], strides: [128, 1]
      : memref<?xbf16> to !rows
  %ks = memref.reinterpret_cast %k to offset: [0], sizes: [%n, 128], strides: [128, 1]
      : memref<?xbf16> to !rows
  %vs = memref.reinterpret_cast %v to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xbf16> to !values
  %os = memref.reinterpret_cast %out to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xf32> to !outputs
  %rows = tile.load %qs[%c0, %c0] : !rows -> tensor<64x128xbf16>
  %m, %l, %o = tile.attend queries(%rows : tensor<64x128xbf16>) keys(%ks : !rows) values(%vs : !values)
      range %c0 to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  %m1, %l1, %o1 = tile.attend queries(%rows : tensor<64x128xbf16>) keys(%ks : !rows) values(%vs : !values)
      range %c0 to %n limit %n {block = 64 : i64, scale = 0.2 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  tile.store %o, %os[%c0, %c0] : tensor<64x64xf32>, !outputs
  tile.return
}

// Rows by a list: of the list nothing behind the limit is read, and entries that name no row
// are masked, for all rows alike.
// CHECK-LABEL: tile.kernel @listed
// CHECK-SAME: %{{.*}}: memref<?xbf16>, %[[K:.*]]: memref<?xbf16>, %[[LIST:.*]]: memref<?xi32>, %{{.*}}, %[[ROWS:.*]]: index, %[[N:.*]]: index
// CHECK-DAG: %[[KEYS:.*]] = memref.reinterpret_cast %[[K]] {{.*}} sizes: [%[[ROWS]], 128]
// CHECK: scf.for %[[KEY:.*]] = %{{.*}} to %[[N]]
// CHECK-DAG: %[[SHORT:.*]] = memref.reinterpret_cast %[[LIST]] to offset: [8], sizes: [%[[N]]], strides: [1]
// CHECK-DAG: tile.load_rows %[[KEYS]][%[[SHORT]] at %[[KEY]], %{{.*}}]
// CHECK-DAG: %[[REPEATED:.*]] = memref.reinterpret_cast %[[LIST]] to offset: [8], sizes: [64, %[[N]]], strides: [0, 1]
// CHECK: %[[ENTRIES:.*]] = tile.load %[[REPEATED]][%{{.*}}, %[[KEY]]] : {{.*}} -> tensor<64x64xi32>
// CHECK: %[[COUNT:.*]] = arith.minsi %[[ROWS]], %c2147483647
// CHECK: %[[ISROW:.*]] = arith.cmpi ult, %[[ENTRIES]]
// CHECK: %[[SEEN:.*]] = arith.andi %{{.*}}, %[[ISROW]]
// CHECK: arith.select %[[SEEN]]
!listed = memref<?x128xbf16, strided<[192, 1]>>
tile.kernel @listed(%q: memref<?xbf16>, %k: memref<?xbf16>, %list: memref<?xi32>, %out: memref<?xf32>,
                    %rows: index, %n: index) {
  %c0 = arith.constant 0 : index
  %qs = memref.reinterpret_cast %q to offset: [0], sizes: [64, 128], strides: [128, 1]
      : memref<?xbf16> to memref<64x128xbf16, strided<[128, 1]>>
  %ks = memref.reinterpret_cast %k to offset: [0], sizes: [%rows, 128], strides: [192, 1]
      : memref<?xbf16> to !listed
  %ls = memref.reinterpret_cast %list to offset: [8], sizes: [%rows], strides: [1]
      : memref<?xi32> to memref<?xi32, strided<[1], offset: 8>>
  %t = tile.load %qs[%c0, %c0] : memref<64x128xbf16, strided<[128, 1]>> -> tensor<64x128xbf16>
  %m, %l, %o = tile.attend queries(%t : tensor<64x128xbf16>) keys(%ks : !listed)
      rows(%ls : memref<?xi32, strided<[1], offset: 8>>)
      range %c0 to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x128xf32>
  tile.store %l, %out[%c0] : tensor<64xf32>, memref<?xf32>
  tile.return
}
