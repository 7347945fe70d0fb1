// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse | FileCheck %s
// RUN: mla-opt %s --convert-mla-to-tile='target=sm90 persistent-products=false' --cse | FileCheck %s --check-prefix=PLAIN
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --cse | FileCheck %s --check-prefix=PLAIN

// Products of many rows on Hopper: tiles of 128 rows by programs that go over them
// (PersistentProduct.h).

// PLAIN-NOT: num_sms

// Which tiles are the fastest depends on how many there are, and so on the rows: the plan chooses among
// a few kernels (ProductRanges.h). Of those for many rows narrow tiles take the last turn where one is
// enough for all of them; without full turns the wide ones are not launched.

// CHECK-LABEL: tile.plan @wide
// CHECK-DAG: %[[T:.*]] = tile.dim "num_tokens"
// CHECK-DAG: %[[SMS:.*]] = tile.dim "num_sms"
// CHECK: tile.launch @linear_7168x2048_rows_64
// CHECK-NOT: tile.launch @linear_7168x2048_rows_128
// CHECK: %[[IN:.*]] = arith.cmpi sle, %[[T]], %c896
// CHECK: arith.select %[[IN]], %c3, %c0
// CHECK: %[[FEWEST:.*]] = arith.cmpi sle, %[[T]], %c128
// CHECK: %[[CHOICE:.*]] = arith.select %[[FEWEST]], %c1, %{{.*}}
// CHECK: arith.cmpi sle, %[[CHOICE]], %c0
// CHECK: %[[ROWS:.*]] = arith.ceildivsi %[[T]], %c128
// CHECK: %[[TILES:.*]] = arith.muli %[[ROWS]], %c28
// CHECK: %[[REST:.*]] = arith.remsi %[[TILES]], %[[SMS]]
// CHECK: %[[PARTS:.*]] = arith.muli %[[REST]], %c2
// CHECK: %[[FITS:.*]] = arith.cmpi sle, %[[PARTS]], %[[SMS]]
// CHECK: %[[TAIL:.*]] = arith.select %[[FITS]], %[[REST]], %c0
// CHECK: arith.cmpi sle, %[[TAIL]], %c0
// CHECK: tile.launch @[[WIDE:linear_7168x2048_tile_128x256]] grid(%[[SMS]], {{.*}} %c0, %[[TILES]])
// CHECK: else
// CHECK: %[[END:.*]] = arith.subi %[[TILES]], %[[TAIL]]
// CHECK: arith.cmpi sgt, %[[END]], %c0
// CHECK: tile.launch @[[WIDE]] grid(%[[SMS]], {{.*}} %c0, %[[END]])
// CHECK: tile.launch @[[NARROW:linear_7168x2048_tile_128x128]] grid(%[[SMS]],
// CHECK: arith.cmpi sle, %[[CHOICE]], %c1
// CHECK: %[[HALVES:.*]] = arith.ceildivsi %[[T]], %c64
// CHECK: %[[SMALL_TILES:.*]] = arith.muli %[[HALVES]], %c56
// CHECK: tile.launch @[[SMALL:linear_7168x2048_tile_64x128]] grid(%[[SMS]], {{.*}} %c0, %[[SMALL_TILES]])
// CHECK: arith.cmpi sle, %[[CHOICE]], %c2
// CHECK: tile.launch @linear_7168x2048_tile_128x192 grid(%[[SMS]],
// CHECK: else
// CHECK: tile.launch @[[NARROW]] grid(%[[SMS]], {{.*}} %c0,
func.func @wide(%x: tensor<?x2048xbf16> {mla.input = "x"},
                %w: tensor<7168x2048xbf16> {mla.weight = "w"})
    -> (tensor<?x7168xbf16> {mla.output = "output"}) {
  %y = mla.project %x, %w : tensor<?x2048xbf16>, tensor<7168x2048xbf16> -> tensor<?x7168xbf16>
  return %y : tensor<?x7168xbf16>
}

// At most 128 rows of a deep product of few columns: 33 tiles, each by four programs for a quarter of
// the depth, side by side in the workspace; a kernel adds the quarters.

// CHECK-LABEL: tile.plan @deep
// CHECK-DAG: %[[SMS:.*]] = tile.dim "num_sms"
// CHECK: %[[SUMS:.*]] = tile.workspace %c1081344 : memref<?xf32>
// CHECK: %[[ROW_TILES:.*]] = arith.ceildivsi %{{.*}}, %c128
// CHECK: %[[PARTS:.*]] = arith.muli %[[ROW_TILES]], %c132
// CHECK: tile.launch @[[PART:linear_2112x7168_tile_128x64_parts_4]] grid(%[[SMS]], %c1, %c1) args(%{{.*}}, %{{.*}}, %[[SUMS]], %{{.*}}, %[[SMS]], %c0, %[[PARTS]])
// CHECK: tile.launch @[[SUM:sum_4_parts_2112]] grid(%{{.*}}, %c3, %c1) dependent args(%[[SUMS]],
func.func @deep(%x: tensor<?x7168xbf16> {mla.input = "x"},
                %w: tensor<2112x7168xbf16> {mla.weight = "w"})
    -> (tensor<?x2112xbf16> {mla.output = "output"}) {
  %y = mla.project %x, %w : tensor<?x7168xbf16>, tensor<2112x7168xbf16> -> tensor<?x2112xbf16>
  return %y : tensor<?x2112xbf16>
}

// A bias is added once: not in parts.

// CHECK-LABEL: tile.plan @bias
// CHECK-NOT: parts
// CHECK: tile.return
func.func @bias(%x: tensor<?x7168xbf16> {mla.input = "x"},
                %w: tensor<2112x7168xbf16> {mla.weight = "w"}, %b: tensor<2112xbf16> {mla.weight = "b"})
    -> (tensor<?x2112xbf16> {mla.output = "output"}) {
  %y = mla.project %x, %w bias(%b : tensor<2112xbf16>) : tensor<?x7168xbf16>, tensor<2112x7168xbf16> -> tensor<?x2112xbf16>
  return %y : tensor<?x2112xbf16>
}

// Rows of 36 elements are not aligned as TMA needs them, and without its ring two
// accumulators of this size fit in no schedule.

// CHECK-LABEL: tile.plan @unaligned
// CHECK-NOT: _tile_128x
// CHECK: tile.return
func.func @unaligned(%x: tensor<?x36xbf16> {mla.input = "x"},
                     %w: tensor<256x36xbf16> {mla.weight = "w"})
    -> (tensor<?x256xbf16> {mla.output = "output"}) {
  %y = mla.project %x, %w : tensor<?x36xbf16>, tensor<256x36xbf16> -> tensor<?x256xbf16>
  return %y : tensor<?x256xbf16>
}

// Two products share the weights' tile.

// CHECK: tile.kernel @[[WIDE]](%[[X:.*]]: memref<?xbf16>, %[[W:.*]]: memref<?xbf16> {tile.invariant}, %{{.*}}: memref<?xbf16>, %[[R:.*]]: index, %[[N:.*]]: index, %[[FIRST:.*]]: index, %[[LAST:.*]]: index)
// CHECK: %[[ID:.*]] = tile.program_id 0
// CHECK: %[[START:.*]] = arith.addi %[[FIRST]], %[[ID]]
// CHECK: scf.for %{{.*}} = %[[START]] to %[[LAST]] step %[[N]]
// CHECK: scf.for {{.*}} step %c64
// CHECK-DAG: %[[A:.*]] = tile.load {{.*}} -> tensor<64x64xbf16>
// CHECK-DAG: %[[B:.*]] = tile.load {{.*}} -> tensor<64x64xbf16>
// CHECK-DAG: %[[C:.*]] = tile.load {{.*}} -> tensor<256x64xbf16>
// CHECK: tile.dot %{{.*}}, %[[C]], %{{.*}} transpose_rhs
// CHECK: tile.dot %{{.*}}, %[[C]], %{{.*}} transpose_rhs
// CHECK: tile.store
// CHECK: tile.store
// CHECK: tile.kernel @[[NARROW]](
// CHECK: tile.load {{.*}} -> tensor<128x64xbf16>

// The last tile of 64 rows ends with the rows.

// CHECK: tile.kernel @[[SMALL]](%{{.*}}: memref<?xbf16>, %{{.*}}: memref<?xbf16> {tile.invariant}, %{{.*}}: memref<?xbf16>, %[[M:.*]]: index, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index)
// CHECK: %[[AT:.*]] = arith.muli %{{.*}}, %c64
// CHECK: %[[LAST_ROW:.*]] = arith.subi %[[M]], %c64
// CHECK: %[[BELOW:.*]] = arith.minsi %[[AT]], %[[LAST_ROW]]
// CHECK: %[[ROW:.*]] = arith.maxsi %[[BELOW]], %c0
// CHECK: tile.load %{{.*}}[%[[ROW]], %{{.*}}] : {{.*}} -> tensor<64x64xbf16>
// CHECK-NEXT: tile.load {{.*}} -> tensor<128x64xbf16>
// CHECK: tile.store %{{.*}}, %{{.*}}[%[[ROW]], %{{.*}}]

// CHECK: tile.kernel @[[PART]](
// CHECK: memref.reinterpret_cast %{{.*}} sizes: [%{{.*}}, 2112], strides: [8448, 1]
// CHECK: scf.for {{.*}} to %c1792 step %c64
// CHECK: tile.kernel @[[SUM]](
// CHECK: tile.load
// CHECK: tile.load
// CHECK: arith.addf
// CHECK: tile.store
