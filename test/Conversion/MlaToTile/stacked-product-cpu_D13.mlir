// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --cse | FileCheck %s

// A CPU multiplies them one after the other, each to its own columns.
// CHECK-LABEL: tile.plan @apart
// CHECK: %[[Y:.*]] = tile.buffer output "y"
// CHECK: tile.launch @[[A:linear_192x256[^ ]*]]
// CHECK: tile.launch @[[B:linear_128x256[^ ]*]]
// CHECK: tile.kernel @[[A]](
// CHECK: to offset: [0], sizes: [%{{.*}}, 192], strides: [320, 1]
// CHECK: tile.kernel @[[B]](
// CHECK: to offset: [192], sizes: [%{{.*}}, 128], strides: [320, 1]
func.func @apart(%x: tensor<?x256xbf16> {mla.input = "x"}, %a: tensor<192x256xbf16> {mla.weight = "a"},
                 %b: tensor<128x256xbf16> {mla.weight = "b"}) -> (tensor<?x320xbf16> {mla.output = "y"}) {
  %w = tensor.concat dim(0) %a, %b : (tensor<192x256xbf16>, tensor<128x256xbf16>) -> tensor<320x256xbf16>
  %all = mla.project %x, %w : tensor<?x256xbf16>, tensor<320x256xbf16> -> tensor<?x320xbf16>
  return %all : tensor<?x320xbf16>
}
