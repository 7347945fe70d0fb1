// RUN: mla-opt %s --convert-mla-to-tile=target=cpu | FileCheck %s

// What a step reads of a tensor's size is the plan's: of its rows a dim, of its columns a constant.

// CHECK-LABEL: tile.plan @rows
// CHECK: %[[TOKENS:.*]] = tile.dim "num_tokens"
// CHECK: %[[FEW:.*]] = arith.cmpi sle, %[[TOKENS]], %c8
// CHECK: scf.if %[[FEW]]
func.func @rows(%x: tensor<?x8xbf16> {mla.input = "x"}, %batch: !mla.batch,
                %w: tensor<8x8xbf16> {mla.weight = "w"}, %v: tensor<8x8xbf16> {mla.weight = "v"})
    -> (tensor<?x8xbf16> {mla.output = "y"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = tensor.dim %x, %c0 : tensor<?x8xbf16>
  %columns = tensor.dim %x, %c1 : tensor<?x8xbf16>
  %few = arith.cmpi sle, %rows, %columns : index
  %y = scf.if %few -> tensor<?x8xbf16> {
    %z = mla.project %x, %w : tensor<?x8xbf16>, tensor<8x8xbf16> -> tensor<?x8xbf16>
    scf.yield %z : tensor<?x8xbf16>
  } else {
    %z = mla.project %x, %v : tensor<?x8xbf16>, tensor<8x8xbf16> -> tensor<?x8xbf16>
    scf.yield %z : tensor<?x8xbf16>
  }
  return %y : tensor<?x8xbf16>
}
