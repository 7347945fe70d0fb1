// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse | FileCheck %s
// RUN: mla-opt %s --convert-mla-to-tile='target=sm90 persistent-products=false' --cse | FileCheck %s --check-prefix=PLAIN
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --cse | FileCheck %s --check-prefix=PLAIN

// Products of many rows on Hopper: tiles of 128 rows by programs that go over them
// (PersistentProduct.h).

// PLAIN-NOT: num_sms

// Narrow tiles take the last turn where one is enough for all of them; without full
// turns the wide ones are not launched.

// CHECK-LABEL: tile.plan @wide
// CHECK-DAG: %[[T:.*]] = tile.dim "num_tokens"
// CHECK-DAG: %[[SMS:.*]] = tile.dim "num_sms"
// CHECK: tile.launch @linear_7168x2048_rows_128
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
func.func @wide(%x: tensor<?x2048xbf16> {mla.input = "x"},
                %w: tensor<7168x2048xbf16> {mla.weight = "w"})
    -> (tensor<?x7168xbf16> {mla.output = "output"}) {
  %y = mla.project %x, %w : tensor<?x2048xbf16>, tensor<7168x2048xbf16> -> tensor<?x7168xbf16>
  return %y : tensor<?x7168xbf16>
}

// At most 128 rows of a deep product: 64 wide tiles, each by two programs for half of the depth,
// side by side in the workspace; a kernel adds the halves.

// CHECK-LABEL: tile.plan @deep
// CHECK-DAG: %[[SMS:.*]] = tile.dim "num_sms"
// CHECK-NOT: tile.launch @linear_7168x16384_rows_128
// CHECK: %[[SUMS:.*]] = tile.workspace %c1835008 : memref<?xf32>
// CHECK: tile.launch @[[HALVES:linear_7168x16384_tile_128x112_parts_2]] grid(%[[SMS]], %c1, %c1) args(%{{.*}}, %{{.*}}, %[[SUMS]], %{{.*}}, %[[SMS]], %c0, %c128)
// CHECK: tile.launch @[[SUM:sum_2_parts_7168]] grid(%{{.*}}, %c7, %c1) dependent args(%[[SUMS]],
// CHECK: tile.launch @linear_7168x16384_tile_128x256
func.func @deep(%x: tensor<?x16384xbf16> {mla.input = "x"},
                %w: tensor<7168x16384xbf16> {mla.weight = "w"})
    -> (tensor<?x7168xbf16> {mla.output = "output"}) {
  %y = mla.project %x, %w : tensor<?x16384xbf16>, tensor<7168x16384xbf16> -> tensor<?x7168xbf16>
  return %y : tensor<?x7168xbf16>
}

// A bias is added once: not in parts.

// CHECK-LABEL: tile.plan @bias
// CHECK-NOT: parts
// CHECK: tile.return
func.func @bias(%x: tensor<?x16384xbf16> {mla.input = "x"},
                %w: tensor<7168x16384xbf16> {mla.weight = "w"}, %b: tensor<7168xbf16> {mla.weight = "b"})
    -> (tensor<?x7168xbf16> {mla.output = "output"}) {
  %y = mla.project %x, %w bias(%b : tensor<7168xbf16>) : tensor<?x16384xbf16>, tensor<7168x16384xbf16> -> tensor<?x7168xbf16>
  return %y : tensor<?x7168xbf16>
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

// CHECK: tile.kernel @[[HALVES]](
// CHECK: memref.reinterpret_cast %{{.*}} sizes: [%{{.*}}, 7168], strides: [14336, 1]
// CHECK: scf.for {{.*}} to %c8192 step %c64
// CHECK: tile.kernel @[[SUM]](
// CHECK: tile.load
// CHECK: tile.load
// CHECK: arith.addf
// CHECK: tile.store
