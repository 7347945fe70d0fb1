// RUN: mla-opt %s | mla-opt | FileCheck %s

// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[W:.*]]: tensor<4x8xf32> {graph.weight = "a.weight"}
// CHECK-SAME: tensor<2xf32> {graph.values = dense<[1.000000e+00, 5.000000e-01]> : tensor<2xf32>, graph.weight = "inv_freq"}
func.func @forward(%w: tensor<4x8xf32> {graph.weight = "a.weight"},
                   %f: tensor<2xf32> {graph.weight = "inv_freq",
                                      graph.values = dense<[1.0, 0.5]> : tensor<2xf32>},
                   %x: tensor<1x?x8xf32> {graph.input = "hidden_states"}) -> tensor<1x?x4xf32> {
  // CHECK: %[[S:.*]] = graph.node "aten.sym_size.int"(%{{.*}}) {dim = 1 : i64, self = #graph.in<0>} called "s"
  %s = graph.node "aten.sym_size.int"(%x) {dim = 1, self = #graph.in<0>} called "s"
      : (tensor<1x?x8xf32>) -> index
  // CHECK: %linear = graph.node "aten.linear.default"(%{{.*}}, %[[W]]) {input = #graph.in<0>, weight = #graph.in<1>} called "linear" in "a: Linear"
  %y = graph.node "aten.linear.default"(%x, %w) {input = #graph.in<0>, weight = #graph.in<1>}
      called "linear" in "a: Linear" : (tensor<1x?x8xf32>, tensor<4x8xf32>) -> tensor<1x?x4xf32>
  // CHECK: %parts, %parts_0 = graph.node "aten.split_with_sizes.default"
  %parts:2 = graph.node "aten.split_with_sizes.default"(%y) {self = #graph.in<0>, split_sizes = [1, 3], dim = -1}
      called "parts" : (tensor<1x?x4xf32>) -> (tensor<1x?x1xf32>, tensor<1x?x3xf32>)
  // CHECK: size = [1, #graph.in<1>, 4]
  %z = graph.node "aten.view.default"(%y, %s) {self = #graph.in<0>, size = [1, #graph.in<1>, 4]}
      called "view" : (tensor<1x?x4xf32>, index) -> tensor<1x?x4xf32>
  return %z : tensor<1x?x4xf32>
}

// CHECK-LABEL: func.func @verified
// CHECK-SAME: attributes {graph.functional}
func.func @verified(%x: tensor<4xf32> {graph.input = "x"}) -> tensor<4xf32> attributes {graph.functional} {
  return %x : tensor<4xf32>
}
