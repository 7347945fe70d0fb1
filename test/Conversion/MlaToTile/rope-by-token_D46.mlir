// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --cse | FileCheck %s
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --cse | FileCheck %s

// Angles of tokens are read without a position: rows in order, and of heads the token's.

// CHECK-LABEL: tile.plan @by_token_D46
// CHECK: tile.launch @rope_8 grid
// CHECK: tile.launch @rope_8_heads grid
// CHECK-LABEL: tile.kernel @rope_8(
// CHECK-NOT: tile.load_rows
// CHECK-COUNT-4: tile.load %
// CHECK-LABEL: tile.kernel @rope_8_heads(
// CHECK-NOT: memref<?xi64> to
// CHECK: tile.return
func.func @by_token_D46(%x: tensor<?x8xf32> {mla.input = "x"}, %h: tensor<?x20x8xf32> {mla.input = "h"},
    %table: tensor<?x8xf32> {mla.input = "angles"}, %batch: !mla.batch)
    -> (tensor<?x8xf32> {mla.output = "y"}, tensor<?x20x8xf32> {mla.output = "z"}) {
  %y = mla.rope %x, %table, %batch with <order = half, dim = 8, theta = 1.0, length = 128> {mla.by_token}
      : tensor<?x8xf32>, tensor<?x8xf32>, <query_len = ?>
  %z = mla.rope %h, %table, %batch with <order = half, dim = 8, theta = 1.0, length = 128> {mla.by_token}
      : tensor<?x20x8xf32>, tensor<?x8xf32>, <query_len = ?>
  return %y, %z : tensor<?x8xf32>, tensor<?x20x8xf32>
}
