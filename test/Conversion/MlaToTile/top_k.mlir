// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --cse | FileCheck %s

// B41: a program for each row; its length comes from the batch, or is given.

// CHECK-LABEL: tile.plan @step
// CHECK: %[[COLUMNS:.*]] = tile.dim "max_seq_len"
// CHECK: tile.launch @[[STEP:top_k[_0-9]*]] grid({{.*}}%[[COLUMNS]]
func.func @step_B41(%s: tensor<?x?xf32> {mla.input = "scores"}, %batch: !mla.batch)
    -> (tensor<?x2048xi32> {mla.output = "positions"}) {
  %0 = mla.top_k %s over %batch k 2048 : tensor<?x?xf32>, !mla.batch -> tensor<?x2048xi32>
  return %0 : tensor<?x2048xi32>
}

// CHECK-LABEL: tile.plan @given
// CHECK: tile.buffer input "lengths"
// CHECK: tile.launch @[[GIVEN:top_k[_0-9]*]]
func.func @given_B41(%s: tensor<?x8192xf32> {mla.input = "scores"}, %l: tensor<?xi32> {mla.input = "lengths"},
                     %batch: !mla.batch) -> (tensor<?x7xi32> {mla.output = "positions"}) {
  %0 = mla.top_k %s lengths(%l : tensor<?xi32>) over %batch k 7 : tensor<?x8192xf32>, !mla.batch -> tensor<?x7xi32>
  return %0 : tensor<?x7xi32>
}

// CHECK: tile.kernel @[[STEP]]
// CHECK: tile.top_k %{{.*}}[%[[ROW:.*]]] length %{{.*}} to %{{.*}} : memref<?x?xf32, strided<[?, 1]>>, memref<?x2048xi32, strided<[2048, 1]>>
// CHECK: tile.kernel @[[GIVEN]]
// CHECK: tile.top_k {{.*}} : memref<?x8192xf32, strided<[8192, 1]>>, memref<?x7xi32, strided<[7, 1]>>
