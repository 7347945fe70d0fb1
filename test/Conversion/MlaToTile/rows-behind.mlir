// A tile of 64 rows and more of what another kernel made is read whole, whatever lies behind the last row: the
// workspace has memory there. The caller's rows have none, and fewer rows are read as they are.
//
// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse | FileCheck %s
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --canonicalize --cse | FileCheck %s --check-prefix=CPU

// CHECK-LABEL: tile.plan @chain
// CHECK: %[[TOKENS:.*]] = tile.dim "num_tokens"
// CHECK: %[[OWN:.*]] = arith.muli %[[TOKENS]], %c256 : index
// CHECK: %[[ALL:.*]] = arith.addi %[[OWN]], %c{{32768|65536}} : index
// CHECK: tile.workspace %[[ALL]] : memref<?xbf16>
// CHECK-LABEL: tile.kernel @linear_256x512_rows_64
// CHECK: memref.reinterpret_cast %arg0 to offset: [0], sizes: [%arg3, 512], strides: [512, 1]
// CHECK-LABEL: tile.kernel @linear_128x256_rows_32
// CHECK: memref.reinterpret_cast %arg0 to offset: [0], sizes: [%arg3, 256], strides: [256, 1]
// CHECK-LABEL: tile.kernel @linear_128x256_rows_64
// CHECK: memref.reinterpret_cast %arg0 to offset: [0], sizes: [64, 256], strides: [256, 1]
// CHECK: memref.reinterpret_cast %arg2 to offset: [0], sizes: [%arg3, 128], strides: [128, 1]
// CPU-LABEL: tile.plan @chain
// CPU: %[[TOKENS:.*]] = tile.dim "num_tokens"
// CPU: %[[OWN:.*]] = arith.muli %[[TOKENS]], %c256 : index
// CPU: tile.workspace %[[OWN]] : memref<?xbf16>
func.func @chain(%x: tensor<?x512xbf16> {mla.input = "x"}, %a: tensor<256x512xbf16> {mla.weight = "a"},
                 %b: tensor<128x256xbf16> {mla.weight = "b"}) -> (tensor<?x128xbf16> {mla.output = "y"}) {
  %h = mla.project %x, %a : tensor<?x512xbf16>, tensor<256x512xbf16> -> tensor<?x256xbf16>
  %y = mla.project %h, %b : tensor<?x256xbf16>, tensor<128x256xbf16> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
