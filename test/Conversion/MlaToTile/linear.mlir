// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --cse | FileCheck %s --check-prefixes=CHECK,GPU
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --cse | FileCheck %s --check-prefixes=CHECK,CPU

// A plain projection: tile shapes chosen by the number of tokens. K = 40 and
// O = 72 are no multiples of anything: tiles are padded, views are not. On sm90 few
// tokens are multiplied columns first (columns-first.mlir).

// CHECK-LABEL: tile.plan @project
// CHECK: %[[T:.*]] = tile.dim "num_tokens"
// CHECK: %[[GIVEN:.*]] = arith.muli %[[T]], %c40
// CHECK: %[[X:.*]] = tile.buffer input "hidden" elements %[[GIVEN]] : memref<?xbf16>
// CHECK: %[[W:.*]] = tile.buffer weight "w" shape [72, 40] : memref<?xbf16>
// CHECK: %[[B:.*]] = tile.buffer weight "b" shape [72] : memref<?xbf16>
// CHECK: %[[WRITTEN:.*]] = arith.muli %[[T]], %c72
// CHECK: %[[Y:.*]] = tile.buffer output "output" elements %[[WRITTEN]] : memref<?xbf16>
// GPU: %[[FEW:.*]] = arith.cmpi sle, %[[T]], %c16
// CPU: %[[FEW:.*]] = arith.cmpi sle, %[[T]], %c4
// CHECK: scf.if %[[FEW]]
// GPU: tile.launch @linear_72x40_rows_16{{.*}} args(%[[X]], %[[W]], %[[Y]], %[[T]], %[[B]])
// CPU: tile.launch @linear_72x40_tile_1x32{{.*}} args(%[[X]], %[[W]], %[[Y]], %[[T]], %[[B]])
// CHECK: } else {
// GPU: tile.launch @linear_72x40_rows_64
// GPU: tile.launch @linear_72x40_tile_128x128
// CPU: tile.launch @linear_72x40_tile_16x64
func.func @project(%x: tensor<?x40xbf16> {mla.input = "hidden"},
                   %w: tensor<72x40xbf16> {mla.weight = "w"},
                   %b: tensor<72xbf16> {mla.weight = "b"})
    -> (tensor<?x72xbf16> {mla.output = "output"}) {
  %y = mla.project %x, %w bias(%b : tensor<72xbf16>) : tensor<?x40xbf16>, tensor<72x40xbf16> -> tensor<?x72xbf16>
  return %y : tensor<?x72xbf16>
}

// Per-head rows of a weight are a strided view, no copy: batch of heads, 24 rows
// of 40 apart, starting at row 16 of each head.

// CHECK-LABEL: tile.plan @project_heads
// CHECK-NOT: tile.workspace
// GPU: tile.launch @[[HEADS:linear_8x40_tile_64x16[_0-9]*]] grid(%{{.*}}, %c1{{.*}}, %c3{{.*}})
// CPU: tile.launch @[[HEADS:linear_8x40_tile_1x16[_0-9]*]] grid(%{{.*}}, %c1{{.*}}, %c3{{.*}})
func.func @project_heads(%x: tensor<?x40xbf16> {mla.input = "hidden"},
                         %w: tensor<72x40xbf16> {mla.weight = "w"})
    -> (tensor<?x3x8xbf16> {mla.output = "output"}) {
  %heads = tensor.expand_shape %w [[0, 1], [2]] output_shape [3, 24, 40] : tensor<72x40xbf16> into tensor<3x24x40xbf16>
  %part = tensor.extract_slice %heads[0, 16, 0] [3, 8, 40] [1, 1, 1] : tensor<3x24x40xbf16> to tensor<3x8x40xbf16>
  %y = mla.project %x, %part : tensor<?x40xbf16>, tensor<3x8x40xbf16> -> tensor<?x3x8xbf16>
  return %y : tensor<?x3x8xbf16>
}

// Weights alone: rows are static, so one launch. fold_query reads its first
// operand transposed, as strides.

// CHECK-LABEL: tile.plan @prepare
// CHECK: tile.buffer derived "w_q_uk" shape [3, 32, 48]
// CHECK: tile.buffer derived "w_uv_o" shape [64, 96]
// CHECK-NOT: scf.if
// CHECK: tile.launch @[[FOLD:linear_48x8_[a-z0-9_]*]]
// CHECK: tile.launch @[[FOLD_O:linear_32x16_[a-z0-9_]*]]
func.func @prepare(%uq: tensor<3x8x48xbf16> {mla.weight = "uq"},
                   %uk: tensor<3x8x32xbf16> {mla.weight = "uk"},
                   %uv: tensor<3x16x32xbf16> {mla.weight = "uv"},
                   %o: tensor<64x48xbf16> {mla.weight = "o"})
    -> (tensor<3x32x48xbf16> {mla.derived = "w_q_uk"}, tensor<64x96xbf16> {mla.derived = "w_uv_o"}) {
  %q = mla.fold_query %uq, %uk : tensor<3x8x48xbf16>, tensor<3x8x32xbf16> -> tensor<3x32x48xbf16>
  %f = mla.fold_output %uv, %o : tensor<3x16x32xbf16>, tensor<64x48xbf16> -> tensor<64x96xbf16>
  return %q, %f : tensor<3x32x48xbf16>, tensor<64x96xbf16>
}

// Both orientations. On sm90 few and many rows need the same kernel here.

// CHECK-LABEL: tile.plan @head_project
// CHECK: tile.launch @[[BY_ROWS:linear_32x8_[a-z0-9_]*]]
// CHECK: tile.launch @[[BY_COLUMNS:linear_8x32_[a-z0-9_]*]]
func.func @head_project(%x: tensor<?x3x8xbf16> {mla.input = "hidden"},
                        %w: tensor<3x8x32xbf16> {mla.weight = "w"})
    -> (tensor<?x3x8xbf16> {mla.output = "output"}) {
  %y = mla.head_project %x, %w contract_rows : tensor<?x3x8xbf16>, tensor<3x8x32xbf16> -> tensor<?x3x32xbf16>
  %z = mla.head_project %y, %w : tensor<?x3x32xbf16>, tensor<3x8x32xbf16> -> tensor<?x3x8xbf16>
  return %z : tensor<?x3x8xbf16>
}

// CHECK-LABEL: tile.kernel @linear_72x40_tile_{{128x64|1x32}}(
// CHECK-SAME: %[[X:.*]]: memref<?xbf16>, %[[W:.*]]: memref<?xbf16>{{.*}}, %[[Y:.*]]: memref<?xbf16>, %[[ROWS:[a-z0-9]*]]: index{{.*}}, %[[BIAS:.*]]: memref<?xbf16>)
// CHECK: %[[XV:.*]] = memref.reinterpret_cast %[[X]] to offset: [0], sizes: [%[[ROWS]], 40], strides: [40, 1]
// CHECK: %[[WV:.*]] = memref.reinterpret_cast %[[W]] to offset: [0], sizes: [72, 40], strides: [40, 1]
// CHECK: %[[XT:.*]] = tile.load %[[XV]]
// CHECK-SAME: -> tensor<{{64x64|1x48}}xbf16>
// CHECK: %[[WT:.*]] = tile.load %[[WV]]
// CHECK-SAME: -> tensor<{{64x64|32x48}}xbf16>
// CHECK: %[[ACC:.*]] = tile.dot %[[XT]], %[[WT]], %{{.*}} transpose_rhs
// CHECK: memref.reinterpret_cast %[[BIAS]] to offset: [0], sizes: [{{[0-9]+}}, 72], strides: [0, 1]
// CHECK: arith.addf %[[ACC]]
// CHECK: arith.truncf
// CHECK: tile.store

// CHECK: tile.kernel @[[HEADS]](
// CHECK: %[[HEAD:.*]] = tile.program_id 2
// CHECK: %[[AT:.*]] = arith.muli %[[HEAD]], %c960
// CHECK: %[[START:.*]] = arith.addi %[[AT]], %c640
// CHECK: memref.reinterpret_cast %{{.*}} to offset: [%[[START]]], sizes: [8, 40], strides: [40, 1]

// CHECK: tile.kernel @[[FOLD]](
// CHECK: memref.reinterpret_cast %{{.*}} sizes: [%{{.*}}, 8], strides: [1, 32]
// CHECK-NOT: transpose_rhs
// CHECK: tile.kernel @[[FOLD_O]](
// CHECK: tile.kernel @[[BY_ROWS]](
// CHECK-NOT: transpose_rhs
// CHECK: tile.kernel @[[BY_COLUMNS]](
// CHECK: transpose_rhs
