// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --cse | FileCheck %s --check-prefixes=CHECK,GPU
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --cse | FileCheck %s --check-prefixes=CHECK,CPU

// A18. Pairs are two strided views: stride 2 for interleaved, R/2 apart for half.


// CHECK-LABEL: tile.plan @tokens_A18
// CHECK: tile.launch @rope_8 grid
func.func @tokens_A18(%x: tensor<?x8xf32> {mla.input = "hidden"}, %batch: !mla.batch)
    -> (tensor<?x8xf32> {mla.output = "output"}) {
  %table = mla.rope_table <order = interleaved, dim = 8, theta = 1.0e4, length = 128> : tensor<?x8xf32>
  %y = mla.rope %x, %table, %batch with <order = interleaved, dim = 8, theta = 1.0e4, length = 128>
      : tensor<?x8xf32>, tensor<?x8xf32>, <query_len = ?>
  return %y : tensor<?x8xf32>
}

// CHECK-LABEL: tile.plan @heads_A18
// CHECK: %[[T:.*]] = tile.dim "num_tokens"
// GPU: tile.launch @rope_8_heads grid(%[[T]], %c1{{.*}}, %c1{{.*}})
// CPU: tile.launch @rope_8_heads grid(%[[T]], %c2{{.*}}, %c1{{.*}})
func.func @heads_A18(%x: tensor<?x20x8xf32> {mla.input = "hidden"}, %batch: !mla.batch)
    -> (tensor<?x20x8xf32> {mla.output = "output"}) {
  %table = mla.rope_table <order = half, dim = 8, theta = 1.0e4, length = 128> : tensor<?x8xf32>
  %y = mla.rope %x, %table, %batch with <order = half, dim = 8, theta = 1.0e4, length = 128> inverse
      : tensor<?x20x8xf32>, tensor<?x8xf32>, <query_len = ?>
  return %y : tensor<?x20x8xf32>
}

// 24 pairs are two programs of 16 on a GPU, or of many tokens one.

// CHECK-LABEL: tile.plan @pairs_A18
// GPU: %[[PROGRAMS:.*]] = arith.muli %{{.*}}, %c2
// GPU: arith.cmpi sle, %[[PROGRAMS]], %c2048
// GPU: tile.launch @rope_48_heads grid(%{{.*}}, %c1{{.*}}, %c2{{.*}})
// GPU: tile.launch @rope_48_heads_many grid(%{{.*}}, %c1{{.*}}, %c1{{.*}})
// CPU: tile.launch @rope_48_heads grid(%{{.*}}, %c2{{.*}}, %c1{{.*}})
func.func @pairs_A18(%x: tensor<?x20x48xf32> {mla.input = "hidden"}, %batch: !mla.batch)
    -> (tensor<?x20x48xf32> {mla.output = "output"}) {
  %table = mla.rope_table <order = half, dim = 48, theta = 1.0e4, length = 128> : tensor<?x48xf32>
  %y = mla.rope %x, %table, %batch with <order = half, dim = 48, theta = 1.0e4, length = 128>
      : tensor<?x20x48xf32>, tensor<?x48xf32>, <query_len = ?>
  return %y : tensor<?x20x48xf32>
}

// Three heads that are folded: 16 pairs of each in a row of the tile.

// CPU-NOT: @rope_64_heads_many
// GPU-LABEL: tile.plan @folded_A18
// GPU: tile.launch @rope_64_heads grid(%{{.*}}, %c1{{.*}}, %c2{{.*}})
// GPU: tile.launch @rope_64_heads_many grid(%{{.*}}, %c1{{.*}}, %c1{{.*}})
func.func @folded_A18(%x: tensor<?x3x64xf32> {mla.input = "hidden"}, %batch: !mla.batch)
    -> (tensor<?x3x64xf32> {mla.output = "output"}) {
  %table = mla.rope_table <order = interleaved, dim = 64, theta = 1.0e4, length = 128> : tensor<?x64xf32>
  %y = mla.rope %x, %table, %batch with <order = interleaved, dim = 64, theta = 1.0e4, length = 128>
      : tensor<?x3x64xf32>, tensor<?x64xf32>, <query_len = ?>
  return %y : tensor<?x3x64xf32>
}

// CHECK-LABEL: tile.kernel @rope_8(
// CHECK-SAME: %[[X:.*]]: memref<?xf32>, %[[Y:.*]]: memref<?xf32>, %[[TABLE:.*]]: memref<?xf32>, %[[POSITIONS:.*]]: memref<?xi64>, %[[T:.*]]: index, %[[LENGTH:.*]]: index)
// CHECK: %[[COS:.*]] = memref.reinterpret_cast %[[TABLE]] to offset: [0], sizes: [%[[LENGTH]], 4], strides: [8, 1]
// CHECK: %[[SIN:.*]] = memref.reinterpret_cast %[[TABLE]] to offset: [4], sizes: [%[[LENGTH]], 4], strides: [8, 1]
// CHECK: %[[LIST:.*]] = memref.reinterpret_cast %[[POSITIONS]]
// CHECK: tile.load_rows %[[COS]][%[[LIST]] at
// CHECK: tile.load_rows %[[SIN]][%[[LIST]] at
// CHECK: %[[A:.*]] = memref.reinterpret_cast %[[X]] to offset: [0], sizes: [%[[T]], 4], strides: [8, 2]
// CHECK: %[[B:.*]] = memref.reinterpret_cast %[[X]] to offset: [1], sizes: [%[[T]], 4], strides: [8, 2]
// CHECK: tile.load %[[A]]
// CHECK: tile.load %[[B]]
// CHECK: arith.subf
// CHECK: arith.addf

// One token's heads are the rows; they share the table's row of its position.
// CHECK-LABEL: tile.kernel @rope_8_heads(
// CHECK-SAME: %[[X:.*]]: memref<?xf32>, %[[Y:.*]]: memref<?xf32>, %[[TABLE:.*]]: memref<?xf32>, %[[POSITIONS:.*]]: memref<?xi64>,
// CHECK: %[[TOKEN:.*]] = tile.program_id 0
// CHECK: %[[AT:.*]] = arith.muli %[[TOKEN]], %c160
// CHECK: memref.load %[[POSITIONS]][%[[TOKEN]]]
// CHECK: memref.reinterpret_cast %[[TABLE]] to offset: [%{{.*}}], sizes: [20, 4], strides: [0, 1]
// GPU: tile.load {{.*}} -> tensor<64x16xf32>
// CPU: tile.load {{.*}} -> tensor<16x16xf32>
// CHECK: memref.reinterpret_cast %[[X]] to offset: [%[[AT]]], sizes: [20, 4], strides: [8, 1]
// CHECK: %[[B_AT:.*]] = arith.addi %[[AT]], %c4
// CHECK: memref.reinterpret_cast %[[X]] to offset: [%[[B_AT]]], sizes: [20, 4], strides: [8, 1]
// The inverse rotation swaps the signs.
// CHECK: arith.addf
// CHECK: arith.subf

// GPU-LABEL: tile.kernel @rope_64_heads_many(
// GPU-SAME: %[[X:.*]]: memref<?xf32>, %[[Y:.*]]: memref<?xf32>, %[[TABLE:.*]]: memref<?xf32>,
// GPU: memref.reinterpret_cast %[[TABLE]] to offset: [%{{.*}}], sizes: [3, 2, 16], strides: [0, 16, 1]
// GPU: tile.load {{.*}} -> tensor<64x16xf32>
// GPU: memref.reinterpret_cast %[[X]] to offset: [%{{.*}}], sizes: [3, 2, 16], strides: [64, 32, 2]
// GPU: memref.reinterpret_cast %[[X]] to offset: [%{{.*}}], sizes: [3, 2, 16], strides: [64, 32, 2]
