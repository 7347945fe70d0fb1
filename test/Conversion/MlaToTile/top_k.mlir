// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --cse | FileCheck %s
// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --cse | FileCheck %s --check-prefix=GPU

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

// Few rows are shared by programs, as many as there are multiprocessors for; many short ones have a kernel of their own.
// GPU-LABEL: tile.plan @step
// GPU: %[[COLUMNS:.*]] = tile.dim "max_seq_len"
// GPU: %[[SMS:.*]] = tile.dim "num_sms"
// GPU: %[[COUNTERS:.*]] = tile.buffer metadata "item_counters"
// GPU: %[[SHARED:.*]] = arith.divsi %[[SMS]], %c2
// GPU: %[[LISTS:.*]] = arith.minsi %{{.*}}, %[[SHARED]]
// GPU: tile.workspace
// GPU: %[[EACH:.*]] = arith.divsi %[[SMS]]
// GPU: %[[MOST:.*]] = arith.minsi %[[EACH]], %c128
// GPU: %[[SLICES:.*]] = arith.maxsi %[[MOST]], %c1
// GPU: arith.cmpi sle, %[[COLUMNS]], %c8192
// GPU: tile.launch @[[ANY:top_k[_0-9]*]] grid(%{{.*}}, %[[SLICES]], %c1) args({{.*}}, %[[SLICES]], %{{.*}}, %[[LISTS]], %[[COUNTERS]])
// GPU: } else {
// GPU: tile.launch @[[SHORT:top_k_short[_0-9]*]] grid(%{{.*}}, %c1, %c1)
// GPU: } else {
// GPU: tile.launch @[[ANY]]

// GPU: tile.kernel @[[ANY]](
// GPU: tile.top_k {{.*}} slice %{{.*}} of %{{.*}} lists({{.*}}memref<?x2x8192xf32
// GPU: tile.kernel @[[SHORT]](
// GPU: tile.top_k {{.*}} {longest = 8192 : i64}
