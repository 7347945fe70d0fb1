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

// Parts of rows in pages, by slots: codes whose bare exponents are in a section of their own, and
// columns as they are. Each group of codes is multiplied by its exponent; then all columns are one
// operand of both products.
// CHECK-LABEL: tile.kernel @parts
// CHECK: scf.for
// CHECK: %[[BYTES:.*]] = tile.load_rows %{{.*}} : memref<?x2x16xi8, strided<[?, 8, 0], offset: 1152>>, {{.*}} -> tensor<64x16xi8>
// CHECK: arith.extui %[[BYTES]] : tensor<64x16xi8> to tensor<64x16xi32>
// CHECK: arith.shli
// CHECK: %[[POWERS:.*]] = arith.bitcast %{{.*}} : tensor<64x16xi32> to tensor<64x16xf32>
// CHECK: %[[SCALE:.*]] = tile.reduce max %[[POWERS]]
// CHECK: %[[WIDE:.*]] = tile.broadcast %[[SCALE]]
// CHECK: %[[CODES:.*]] = tile.load_rows %{{.*}}[%{{.*}} at %{{.*}}, %c0{{[_0-9]*}}] : memref<?x2x128xf8E4M3FN, {{.*}} -> tensor<64x64xf8E4M3FN>
// CHECK: arith.extf %[[CODES]]
// CHECK: %[[FIRST:.*]] = arith.truncf
// CHECK: tile.load_rows %{{.*}}[%{{.*}} at %{{.*}}, %c64{{[_0-9]*}}] : memref<?x2x128xf8E4M3FN, {{.*}} -> tensor<64x64xf8E4M3FN>
// CHECK: %[[SECOND:.*]] = arith.truncf
// CHECK: %[[PLAIN:.*]] = tile.load_rows {{.*}} -> tensor<64x64xbf16>
// CHECK: %[[ROWS:.*]] = tensor.concat dim(1) %[[FIRST]], %[[SECOND]], %[[PLAIN]] : {{.*}} -> tensor<64x192xbf16>
// CHECK: tile.dot %{{.*}}, %[[ROWS]]
// CHECK: arith.muli %{{.*}}, %c2
// CHECK: tile.dot %{{.*}}, %[[ROWS]]
tile.kernel @parts(%q: memref<?xbf16>, %codes: memref<?xf8E4M3FN>, %plain: memref<?xbf16>, %bytes: memref<?xi8>,
                   %list: memref<?xi32>, %out: memref<?xf32>, %pages: index, %stride: index, %half: index, %n: index) {
  %c0 = arith.constant 0 : index
  %qs = memref.reinterpret_cast %q to offset: [0], sizes: [64, 192], strides: [192, 1]
      : memref<?xbf16> to memref<64x192xbf16, strided<[192, 1]>>
  %cs = memref.reinterpret_cast %codes to offset: [0], sizes: [%pages, 2, 128], strides: [%stride, 256, 1]
      : memref<?xf8E4M3FN> to memref<?x2x128xf8E4M3FN, strided<[?, 256, 1]>>
  %ps = memref.reinterpret_cast %plain to offset: [64], sizes: [%pages, 2, 64], strides: [%half, 128, 1]
      : memref<?xbf16> to memref<?x2x64xbf16, strided<[?, 128, 1], offset: 64>>
  %bs = memref.reinterpret_cast %bytes to offset: [1152], sizes: [%pages, 2, 2], strides: [%stride, 8, 1]
      : memref<?xi8> to memref<?x2x2xi8, strided<[?, 8, 1], offset: 1152>>
  %ls = memref.reinterpret_cast %list to offset: [0], sizes: [%n], strides: [1]
      : memref<?xi32> to memref<?xi32, strided<[1]>>
  %t = tile.load %qs[%c0, %c0] : memref<64x192xbf16, strided<[192, 1]>> -> tensor<64x192xbf16>
  %m, %l, %o = tile.attend queries(%t : tensor<64x192xbf16>)
      keys(%cs, %ps : memref<?x2x128xf8E4M3FN, strided<[?, 256, 1]>>, memref<?x2x64xbf16, strided<[?, 128, 1], offset: 64>>)
      rows(%ls : memref<?xi32, strided<[1]>>)
      scales(%bs : memref<?x2x2xi8, strided<[?, 8, 1], offset: 1152>>)
      range %c0 to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x192xf32>
  tile.store %l, %out[%c0] : tensor<64xf32>, memref<?xf32>
  tile.return
}

// A window beside a diagonal: bounds are counted from the block's first key, so that no element of
// the tile is added to.
// CHECK-LABEL: tile.kernel @window
// CHECK: %[[COLUMN:.*]] = tile.iota 1 : tensor<64x64xi32>
// CHECK: %[[THERE:.*]] = arith.cmpi slt, %[[COLUMN]], %{{.*}}
// CHECK: %[[OWN:.*]] = arith.cmpi sle, %[[COLUMN]], %{{.*}}
// CHECK: %[[PAST:.*]] = arith.andi %[[THERE]], %[[OWN]]
// CHECK: %[[START:.*]] = arith.subi %{{.*}}, %{{.*}} : tensor<64xi32>
// CHECK: %[[STARTS:.*]] = tile.broadcast %[[START]] : tensor<64xi32> -> tensor<64x64xi32>
// CHECK: %[[SEEN:.*]] = arith.cmpi sge, %[[COLUMN]], %[[STARTS]]
// CHECK: arith.andi %[[PAST]], %[[SEEN]]
tile.kernel @window(%q: memref<?xbf16>, %k: memref<?xbf16>, %v: memref<?xbf16>, %out: memref<?xf32>,
                    %n: index, %own: index) {
  %c0 = arith.constant 0 : index
  %first = tile.iota 0 : tensor<64xi32>
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
      range %c0 to %n limit %n behind(%first : tensor<64xi32>) diagonal %own
      {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  tile.store %o, %os[%c0, %c0] : tensor<64x64xf32>, !outputs
  tile.return
}

// Keys and values of codes: each times its own of the two scales.
// CHECK-LABEL: tile.kernel @codes
// CHECK-SAME: %{{.*}}: memref<?xbf16>, %{{.*}}: memref<?xf8E4M3FN>, %[[S:[a-z0-9]+]]: memref<?xf32>
// CHECK: scf.for
// CHECK-DAG: %[[KS:.*]] = memref.load %[[S]][%c0]
// CHECK-DAG: %[[KC:.*]] = tile.load_paged {{.*}} -> tensor<64x128xf8E4M3FN>
// CHECK-DAG: %[[VS:.*]] = memref.load %[[S]][%c1]
// CHECK-DAG: %[[VC:.*]] = tile.load_paged {{.*}} -> tensor<64x64xf8E4M3FN>
// CHECK-DAG: %[[KSS:.*]] = tile.splat %[[KS]] : f32 -> tensor<64x128xf32>
// CHECK-DAG: %[[KW:.*]] = arith.extf %[[KC]]
// CHECK-DAG: arith.mulf %[[KW]], %[[KSS]] : tensor<64x128xf32>
// CHECK-DAG: %[[VSS:.*]] = tile.splat %[[VS]] : f32 -> tensor<64x64xf32>
// CHECK-DAG: %[[VW:.*]] = arith.extf %[[VC]]
// CHECK-DAG: %[[V:.*]] = arith.mulf %[[VW]], %[[VSS]] : tensor<64x64xf32>
// CHECK-DAG: arith.truncf %[[V]] : tensor<64x64xf32> to tensor<64x64xbf16>
!keyCodes = memref<?x16x128xf8E4M3FN, strided<[3072, 128, 1]>>
!valueCodes = memref<?x16x64xf8E4M3FN, strided<[3072, 64, 1], offset: 2048>>
tile.kernel @codes(%q: memref<?xbf16>, %pool: memref<?xf8E4M3FN>, %scales: memref<?xf32>, %table: memref<?xi32>,
                   %out: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %qs = memref.reinterpret_cast %q to offset: [0], sizes: [%n, 128], strides: [128, 1] : memref<?xbf16> to !rows
  %ks = memref.reinterpret_cast %pool to offset: [0], sizes: [%n, 16, 128], strides: [3072, 128, 1]
      : memref<?xf8E4M3FN> to !keyCodes
  %vs = memref.reinterpret_cast %pool to offset: [2048], sizes: [%n, 16, 64], strides: [3072, 64, 1]
      : memref<?xf8E4M3FN> to !valueCodes
  %os = memref.reinterpret_cast %out to offset: [0], sizes: [%n, 64], strides: [64, 1] : memref<?xf32> to !outputs
  %rows = tile.load %qs[%c0, %c0] : !rows -> tensor<64x128xbf16>
  %m, %l, %o = tile.attend queries(%rows : tensor<64x128xbf16>) keys(%ks : !keyCodes) pages(%table : memref<?xi32>)
      values(%vs : !valueCodes) value_pages(%table : memref<?xi32>)
      scales(%scales : memref<?xf32>) range %c0 to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  tile.store %o, %os[%c0, %c0] : tensor<64x64xf32>, !outputs
  tile.return
}

// B06: what each row's marks name of a block. A word for every 32 keys, none behind a row's last: words are loaded at
// the number of the block's first key, or of the row's last word. They mask scores that the diagonal has masked.
// CHECK-LABEL: tile.kernel @marked_B06
// CHECK-SAME: %[[MARKS:[a-z0-9]+]]: memref<?xi32>, %{{.*}}: memref<?xf32>, %[[N:.*]]: index, %[[WORDS:.*]]: index, %[[AT:.*]]: index
// CHECK: scf.for %[[KEY:.*]] = %{{.*}} to %[[N]]
// CHECK: %[[SCORES:.*]] = tile.dot
// CHECK: %[[MASKED:.*]] = arith.select %{{.*}}, %[[SCORES]], %[[NONE:[a-z0-9_]+]]
// CHECK: %[[LAST:.*]] = arith.subi %[[WORDS]], %c1
// CHECK: %[[LOW:.*]] = arith.divui %[[KEY]], %c32
// CHECK: %[[LOW_THERE:.*]] = arith.minsi %[[LOW]], %[[LAST]]
// CHECK: %[[LOW_AT:.*]] = arith.addi %[[AT]], %[[LOW_THERE]]
// CHECK: %[[LOW_VIEW:.*]] = memref.reinterpret_cast %[[MARKS]] to offset: [%[[LOW_AT]]], sizes: [%[[N]]], strides: [%[[WORDS]]]
// CHECK: %[[LOW_WORD:.*]] = tile.load %[[LOW_VIEW]][%c0{{[_0-9]*}}] : {{.*}} -> tensor<64xi32>
// CHECK: %[[NEXT:.*]] = arith.addi %[[KEY]], %c32
// CHECK: %[[HIGH:.*]] = arith.divui %[[NEXT]], %c32
// CHECK: %[[HIGH_THERE:.*]] = arith.minsi %[[HIGH]], %[[LAST]]
// CHECK: %[[HIGH_AT:.*]] = arith.addi %[[AT]], %[[HIGH_THERE]]
// CHECK: %[[HIGH_VIEW:.*]] = memref.reinterpret_cast %[[MARKS]] to offset: [%[[HIGH_AT]]]
// CHECK: %[[HIGH_WORD:.*]] = tile.load %[[HIGH_VIEW]]
// CHECK: %[[MARKED:.*]] = tile.test_bits %[[LOW_WORD]], %[[HIGH_WORD]] : tensor<64xi32>, tensor<64xi32> -> tensor<64x64xi1>
// CHECK: %[[SEEN:.*]] = arith.select %[[MARKED]], %[[MASKED]], %[[NONE]]
// CHECK: tile.reduce {{ *}}max %[[SEEN]]
!words = memref<?x?xi32, strided<[?, 1], offset: ?>>
tile.kernel @marked_B06(%q: memref<?xbf16>, %k: memref<?xbf16>, %marks: memref<?xi32>, %out: memref<?xf32>,
                        %n: index, %words: index, %at: index) {
  %c0 = arith.constant 0 : index
  %qs = memref.reinterpret_cast %q to offset: [0], sizes: [%n, 128], strides: [128, 1]
      : memref<?xbf16> to !rows
  %ks = memref.reinterpret_cast %k to offset: [0], sizes: [%n, 128], strides: [128, 1]
      : memref<?xbf16> to !rows
  %ms = memref.reinterpret_cast %marks to offset: [%at], sizes: [%n, %words], strides: [%words, 1]
      : memref<?xi32> to !words
  %rows = tile.load %qs[%c0, %c0] : !rows -> tensor<64x128xbf16>
  %m, %l, %o = tile.attend queries(%rows : tensor<64x128xbf16>) keys(%ks : !rows)
      range %c0 to %n limit %n diagonal %c0 marks(%ms : !words)
      {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x128xf32>
  tile.store %l, %out[%c0] : tensor<64xf32>, memref<?xf32>
  tile.return
}
