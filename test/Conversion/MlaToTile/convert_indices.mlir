// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --cse | FileCheck %s
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --cse | FileCheck %s

// Positions of tokens become rows of the pool through the block table, or of a workspace.

!cache = !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16,
                    rope_order = interleaved, format = "fp8_ds_mla">

// Rows are 656 bytes; pages whose rows need more than 31 bits are left out.
// CHECK-LABEL: tile.plan @decode
// CHECK: %[[STRIDE:.*]] = tile.dim "page_stride"
// CHECK: %[[ROWS:.*]] = arith.divsi %[[STRIDE]], %c656
// CHECK: %[[FIT:.*]] = arith.divsi %c2147483647{{.*}}, %[[ROWS]]
// CHECK: %[[LIMIT:.*]] = arith.minsi %{{.*}}, %[[FIT]]
// CHECK: tile.launch @[[DECODE:convert_indices[_0-9]*]] {{.*}}%[[ROWS]], %[[LIMIT]])
func.func @decode(%p: tensor<?x2048xi32> {mla.input = "positions"}, %batch: !mla.batch, %cache: !cache)
    -> (tensor<?x2048xi32> {mla.output = "rows"}) {
  %0 = mla.convert_indices %p in %cache, %batch : tensor<?x2048xi32> in !cache, !mla.batch
  return %0 : tensor<?x2048xi32>
}

// Starts are of requests, unlike all else that a caller binds.
// CHECK-LABEL: tile.plan @mixed
// CHECK: %[[REQUESTS:.*]] = tile.dim "num_requests"
// CHECK: %[[STARTS:.*]] = arith.muli %[[REQUESTS]], %c1
// CHECK: tile.buffer input "starts" elements %[[STARTS]] :
// CHECK: tile.launch @[[MIXED:convert_indices[_0-9]*]]
func.func @mixed(%p: tensor<?x2048xi32> {mla.input = "positions"}, %r: tensor<?xi32> {mla.input = "prefills"},
                 %s: tensor<?xi32> {mla.input = "starts"}, %batch: !mla.batch, %cache: !cache)
    -> (tensor<?x2048xi32> {mla.output = "rows"}) {
  %0 = mla.convert_indices %p in %cache, %batch prefill %r, %s
      : tensor<?x2048xi32> in !cache, !mla.batch prefill tensor<?xi32>, tensor<?xi32>
  return %0 : tensor<?x2048xi32>
}

// Every page comes through the table, nothing through the workspace.
// CHECK: tile.kernel @[[DECODE]]
// CHECK-SAME: tile.row_kernel
// CHECK: tile.load_elements %{{.*}}[%{{.*}}, %{{.*}}] : memref<?x?xi32
// CHECK-NOT: tile.load_elements
// CHECK: tile.store
// CHECK: tile.kernel @[[MIXED]]
// CHECK: tile.load_elements %{{.*}}[%{{.*}}, %{{.*}}] : memref<?x?xi32
// CHECK: tile.load_elements %{{.*}}[%{{.*}}] : memref<?xi32
