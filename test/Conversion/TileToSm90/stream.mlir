// RUN: mla-opt %S/Inputs/few_rows.mlir --convert-tile-to-sm90 | FileCheck %s
// RUN: mla-opt %S/Inputs/few_rows.mlir --convert-tile-to-sm90=schedule=simple | FileCheck %s --check-prefix=SIMPLE
// RUN: mla-opt %s --convert-tile-to-sm90 --split-input-file --verify-diagnostics | FileCheck %s --check-prefix=OTHERS

// Both schedules compute the same bits, without a race, for 150 and for 22 keys.
// DEFINE: %{args} = random:36864,6,6144,3/0/4/1/5:5,150/22:2,random:4096,random:2048,nan:4096,nan:32,32,2
// RUN: mla-opt %S/Inputs/few_rows.mlir --tile-to-sm90 --sm90-simulate="args=%{args} seeds=10 print=4096" -o /dev/null 2>&1 | grep -o "argument [78]: .*" > %t.stream
// RUN: sed 's/kind = "stream"/kind = "simple"/' %S/Inputs/few_rows.mlir | mla-opt --tile-to-sm90 --sm90-simulate="args=%{args} seeds=2 print=4096" -o /dev/null 2>&1 | grep -o "argument [78]: .*" > %t.simple
// RUN: diff %t.stream %t.simple
// RUN: FileCheck %s --check-prefix=VALUES --input-file=%t.stream
// VALUES: argument 7: 0.3138
// VALUES: argument 8: 2.095

// Queries and keys come by TMA from one thread; the consumer keeps everything else.

// CHECK-LABEL: sm90.kernel @attention
// CHECK-SAME: warpgroups = 2
// CHECK: sm90.launch_dependents
// CHECK-NOT: sm90.wait_dependency
// CHECK-DAG: %[[LATENT:.*]] = sm90.tensor_map %{{.*}} : memref<?x32x128xbf16, {{.*}}> -> <32x64xbf16>
// CHECK-DAG: %[[ROPE:.*]] = sm90.tensor_map %{{.*}} : memref<?x32x64xbf16, {{.*}}> -> <32x64xbf16>
// CHECK-DAG: %[[QUERY:.*]] = sm90.tensor_map %{{.*}} : memref<?x128xbf16, {{.*}}> -> <16x64xbf16>
// CHECK: %[[KEYS:.*]] = sm90.ring "keys" full_count 1 empty_count 4 : <stages = 3, parts = 3, tiles = [<64x128xbf16>, <64x64xbf16>]>
// CHECK: %[[QUERIES:.*]] = sm90.ring "queries" full_count 1 empty_count 4 : <stages = 2, parts = 1, tiles = [<16x128xbf16>, <16x64xbf16>]>
// CHECK-DAG: %[[SCRATCH:.*]] = sm90.alloc : <4x16xf32, linear>
// CHECK-DAG: %[[P:.*]] = sm90.alloc : <16x64xbf16>

// The producer: per item the queries, per block of keys two boxes of each tile. The
// block table is read before the wait for a free stage.
// CHECK: sm90.role "load" warpgroups 0 to 1 {
// CHECK: sm90.elect {
// CHECK: %[[START:.*]] = sm90.stage_start
// CHECK: scf.for {{.*}} iter_args(%[[KS:.*]] = %[[START]], %[[QS:.*]] = %[[START]])
// CHECK: sm90.wait_dependency
// CHECK-NEXT: sm90.acquire %[[QUERIES]][%[[QS]]]
// CHECK: sm90.expect %[[QUERIES]][%[[QS]]] part 0 bytes 6144
// CHECK: sm90.tma_load %[[QUERY]]
// CHECK: scf.for {{.*}} iter_args(%[[S:.*]] = %[[KS]])
// CHECK: memref.load
// CHECK: memref.load
// CHECK: sm90.acquire %[[KEYS]][%[[S]]]
// CHECK: sm90.expect %[[KEYS]][%[[S]]] part 0 bytes 8192
// CHECK: sm90.tma_load %[[LATENT]]{{.*}} part 0
// CHECK: sm90.tma_load %[[LATENT]]{{.*}} row 32 {{.*}} part 0
// CHECK: sm90.expect {{.*}} part 1
// CHECK: sm90.expect {{.*}} part 2
// CHECK: sm90.tma_load %[[ROPE]]{{.*}} part 2
// CHECK-NOT: sm90.wgmma

// The consumer: scores part by part, weights transposed into shared memory, zeros
// behind the request's end, two tiles of the output in one group, release.
// CHECK: sm90.role "math" warpgroups 1 to 2 {
// CHECK: scf.for {{.*}} iter_args(%[[KS:.*]] = %{{.*}}, %[[QS:.*]] = %{{.*}})
// CHECK: sm90.await %[[QUERIES]][%[[QS]]] part 0
// CHECK: scf.for
// CHECK: sm90.await %[[KEYS]][%[[S:.*]]] part 0
// CHECK: sm90.wgmma_fence
// CHECK: sm90.wgmma {{.*}} transpose_rhs : !sm90.smem<64x64xbf16>, <16x64xbf16>
// CHECK: sm90.await %[[KEYS]][%[[S]]] part 1
// CHECK: sm90.wgmma_fence
// CHECK: sm90.wgmma
// CHECK: sm90.await %[[KEYS]][%[[S]]] part 2
// CHECK: sm90.wgmma_fence
// CHECK: sm90.wgmma
// CHECK-NEXT: sm90.wgmma_commit
// The mask is computed beside the products.
// CHECK: arith.cmpi
// CHECK: sm90.wgmma_wait 0, %{{[^,]*}} :
// CHECK: sm90.reduce {{ *}}max %{{.*}} dim 0 scratch %[[SCRATCH]]
// CHECK: sm90.store_shared %{{.*}}, %[[P]] transposed
// CHECK: scf.if
// CHECK-NEXT: sm90.zero_rows
// CHECK: sm90.barrier
// CHECK-NEXT: sm90.wgmma_fence
// CHECK: sm90.wgmma %{{.*}}, %[[P]], %{{.*}} transpose_lhs transpose_rhs
// CHECK-NEXT: sm90.wgmma %{{.*}}, %[[P]], %{{.*}} transpose_lhs transpose_rhs
// CHECK-NEXT: sm90.wgmma_commit
// CHECK-NEXT: sm90.wgmma_wait 0, %{{.*}}, %{{.*}} :
// CHECK-NEXT: sm90.release %[[KEYS]][%[[S]]]
// CHECK: scf.yield
// CHECK: sm90.release %[[QUERIES]][%[[QS]]]
// CHECK: sm90.wait_dependency
// CHECK: sm90.reduce {{ *}}sum
// CHECK: sm90.store {{.*}} transposed
// CHECK: sm90.store {{.*}} transposed
// CHECK: sm90.store {{.*}} : tensor<16xf32, #sm90.columns>

// The simple schedule takes the same kernel.
// SIMPLE-LABEL: sm90.kernel @attention
// SIMPLE-SAME: warpgroups = 1
// SIMPLE: sm90.wgmma {{.*}} transpose_rhs : !sm90.smem<64x128xbf16>, <16x128xbf16>
// SIMPLE: sm90.reduce {{ *}}max %{{.*}} dim 0 scratch
// SIMPLE: sm90.wgmma {{.*}} transpose_lhs : !sm90.smem<64x64xbf16>, <64x16xbf16>
// SIMPLE: sm90.store {{.*}} transposed

// Pages of 4 rows are too small for TMA's swizzle: the producer's threads copy rows,
// and zeros behind the end.

// OTHERS-LABEL: sm90.kernel @small_pages
// OTHERS: %[[KEYS:.*]] = sm90.ring "keys" full_count 128 empty_count 4
// OTHERS: sm90.role "load"
// OTHERS: sm90.elect {
// OTHERS: sm90.tma_load
// OTHERS: scf.for
// OTHERS: sm90.acquire %[[KEYS]][%[[S:arg[0-9]+]]]
// OTHERS: sm90.copy_paged {{.*}} vector_bytes 16
// OTHERS-NEXT: sm90.copy_publish %[[KEYS]][%[[S]]] part 0
// OTHERS: sm90.role "math"
// OTHERS-NOT: sm90.zero_rows
tile.kernel @small_pages(%pool: memref<?xbf16>, %pages: index, %table: memref<?xi32>, %q: memref<?xbf16>,
                         %out: memref<?xf32>, %len: index)
    attributes {tile.schedule = #tile.stream} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<64x8xf32>
  %pv = memref.reinterpret_cast %pool to offset: [0], sizes: [%pages, 4, 64], strides: [256, 64, 1]
      : memref<?xbf16> to memref<?x4x64xbf16, strided<[256, 64, 1]>>
  %qv = memref.reinterpret_cast %q to offset: [0], sizes: [8, 64], strides: [64, 1]
      : memref<?xbf16> to memref<8x64xbf16, strided<[64, 1]>>
  %ov = memref.reinterpret_cast %out to offset: [0], sizes: [8, 64], strides: [64, 1]
      : memref<?xf32> to memref<8x64xf32, strided<[64, 1]>>
  %query = tile.load %qv[%c0, %c0] : memref<8x64xbf16, strided<[64, 1]>> -> tensor<8x64xbf16>
  %o = scf.for %key = %c0 to %len step %c64 iter_args(%acc = %zero) -> (tensor<64x8xf32>) {
    %k = tile.load_paged %pv[%table at %key, %c0] limit %len
        : memref<?x4x64xbf16, strided<[256, 64, 1]>>, memref<?xi32> -> tensor<64x64xbf16>
    %s = tile.dot %k, %query, %zero transpose_rhs : tensor<64x64xbf16>, tensor<8x64xbf16> -> tensor<64x8xf32>
    %p = arith.truncf %s : tensor<64x8xf32> to tensor<64x8xbf16>
    %r = tile.dot %k, %p, %acc transpose_lhs : tensor<64x64xbf16>, tensor<64x8xbf16> -> tensor<64x8xf32>
    scf.yield %r : tensor<64x8xf32>
  }
  tile.store %o, %ov[%c0, %c0] transposed : tensor<64x8xf32>, memref<8x64xf32, strided<[64, 1]>>
  tile.return
}

// -----

// Queries at an offset that the host does not know: the simple schedule, and a
// remark.

// OTHERS-LABEL: sm90.kernel @moving_queries
// OTHERS-NOT: sm90.role
// expected-remark @below {{kernel 'moving_queries' gets the simple schedule, not 'stream': TMA cannot copy its queries}}
tile.kernel @moving_queries(%pool: memref<?xbf16>, %pages: index, %table: memref<?xi32>, %q: memref<?xbf16>,
                         %out: memref<?xf32>, %len: index)
    attributes {tile.schedule = #tile.stream} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<64x8xf32>
  %pv = memref.reinterpret_cast %pool to offset: [0], sizes: [%pages, 4, 64], strides: [256, 64, 1]
      : memref<?xbf16> to memref<?x4x64xbf16, strided<[256, 64, 1]>>
  %first = memref.load %table[%c0] : memref<?xi32>
  %offset = arith.index_cast %first : i32 to index
  %qv = memref.reinterpret_cast %q to offset: [%offset], sizes: [8, 64], strides: [64, 1]
      : memref<?xbf16> to memref<8x64xbf16, strided<[64, 1], offset: ?>>
  %ov = memref.reinterpret_cast %out to offset: [0], sizes: [8, 64], strides: [64, 1]
      : memref<?xf32> to memref<8x64xf32, strided<[64, 1]>>
  %query = tile.load %qv[%c0, %c0] : memref<8x64xbf16, strided<[64, 1], offset: ?>> -> tensor<8x64xbf16>
  %o = scf.for %key = %c0 to %len step %c64 iter_args(%acc = %zero) -> (tensor<64x8xf32>) {
    %k = tile.load_paged %pv[%table at %key, %c0] limit %len
        : memref<?x4x64xbf16, strided<[256, 64, 1]>>, memref<?xi32> -> tensor<64x64xbf16>
    %s = tile.dot %k, %query, %zero transpose_rhs : tensor<64x64xbf16>, tensor<8x64xbf16> -> tensor<64x8xf32>
    %p = arith.truncf %s : tensor<64x8xf32> to tensor<64x8xbf16>
    %r = tile.dot %k, %p, %acc transpose_lhs : tensor<64x64xbf16>, tensor<64x8xbf16> -> tensor<64x8xf32>
    scf.yield %r : tensor<64x8xf32>
  }
  tile.store %o, %ov[%c0, %c0] transposed : tensor<64x8xf32>, memref<8x64xf32, strided<[64, 1]>>
  tile.return
}
