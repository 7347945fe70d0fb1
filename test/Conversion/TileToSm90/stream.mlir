// RUN: mla-opt %s --convert-tile-to-sm90 --split-input-file --verify-diagnostics | FileCheck %s
// RUN: mla-opt %s --convert-tile-to-sm90=schedule=simple --split-input-file | FileCheck %s --check-prefix=SIMPLE
// RUN: mla-opt %s --tile-to-sm90 --split-input-file -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// A kernel as tile-swap-operands leaves it: 16 query rows, latent 128, RoPE 64,
// pages of 32. Queries and keys come by TMA from one thread; the consumer keeps
// everything else.

// CHECK-LABEL: sm90.kernel @attention
// CHECK-SAME: warpgroups = 2
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
// CHECK: sm90.acquire %[[QUERIES]][%[[QS]]]
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
tile.kernel @attention(%pool: memref<?xbf16>, %pages: index, %page_stride: index {tile.divisibility = 8 : i64},
                       %table: memref<?xi32>, %items: memref<?xi32>, %q: memref<?xbf16>, %q_rope: memref<?xbf16>,
                       %out: memref<?xf32>, %lse: memref<?xf32>, %rows: index, %num_items: index)
    attributes {tile.schedule = {kind = "stream", stages = 3 : i64, part_columns = 64 : i64}} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<64x16xf32>
  %start = arith.constant dense<-1.0e30> : tensor<16xf32>
  %inf = arith.constant dense<0xFF800000> : tensor<64x16xf32>
  scf.for %item = %c0 to %num_items step %c1 {
    %len32 = memref.load %items[%item] : memref<?xi32>
    %len = arith.index_cast %len32 : i32 to index
    %blocks = arith.ceildivsi %len, %c64 : index
    %row = arith.muli %item, %c16 : index
    %pv = memref.reinterpret_cast %pool to offset: [0], sizes: [%pages, 32, 128], strides: [%page_stride, 192, 1]
        : memref<?xbf16> to memref<?x32x128xbf16, strided<[?, 192, 1]>>
    %rv = memref.reinterpret_cast %pool to offset: [128], sizes: [%pages, 32, 64], strides: [%page_stride, 192, 1]
        : memref<?xbf16> to memref<?x32x64xbf16, strided<[?, 192, 1], offset: 128>>
    %qv = memref.reinterpret_cast %q to offset: [0], sizes: [%rows, 128], strides: [128, 1]
        : memref<?xbf16> to memref<?x128xbf16, strided<[128, 1]>>
    %qrv = memref.reinterpret_cast %q_rope to offset: [0], sizes: [%rows, 64], strides: [64, 1]
        : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1]>>
    %query = tile.load %qv[%row, %c0] : memref<?x128xbf16, strided<[128, 1]>> -> tensor<16x128xbf16>
    %query_rope = tile.load %qrv[%row, %c0] : memref<?x64xbf16, strided<[64, 1]>> -> tensor<16x64xbf16>
    %limits = tile.splat %len32 : i32 -> tensor<16xi32>
    %state:4 = scf.for %block = %c0 to %blocks step %c1 iter_args(%m = %start, %sum = %zero, %o0 = %zero, %o1 = %zero)
        -> (tensor<16xf32>, tensor<64x16xf32>, tensor<64x16xf32>, tensor<64x16xf32>) {
      %key = arith.muli %block, %c64 : index
      %k = tile.load_paged %pv[%table at %key, %c0] limit %len
          : memref<?x32x128xbf16, strided<[?, 192, 1]>>, memref<?xi32> -> tensor<64x128xbf16>
      %s0 = tile.dot %k, %query, %zero transpose_rhs : tensor<64x128xbf16>, tensor<16x128xbf16> -> tensor<64x16xf32>
      %kr = tile.load_paged %rv[%table at %key, %c0] limit %len
          : memref<?x32x64xbf16, strided<[?, 192, 1], offset: 128>>, memref<?xi32> -> tensor<64x64xbf16>
      %s = tile.dot %kr, %query_rope, %s0 transpose_rhs : tensor<64x64xbf16>, tensor<16x64xbf16> -> tensor<64x16xf32>
      %i = tile.iota 0 : tensor<64x16xi32>
      %key32 = arith.index_cast %key : index to i32
      %first = tile.splat %key32 : i32 -> tensor<64x16xi32>
      %position = arith.addi %i, %first : tensor<64x16xi32>
      %limit = tile.broadcast %limits dim 0 : tensor<16xi32> -> tensor<64x16xi32>
      %seen = arith.cmpi slt, %position, %limit : tensor<64x16xi32>
      %masked = arith.select %seen, %s, %inf : tensor<64x16xi1>, tensor<64x16xf32>
      %bm = tile.reduce max %masked dim 0 : tensor<64x16xf32> -> tensor<16xf32>
      %max = arith.maximumf %m, %bm : tensor<16xf32>
      %d = arith.subf %m, %max : tensor<16xf32>
      %f = math.exp2 %d : tensor<16xf32>
      %mb = tile.broadcast %max dim 0 : tensor<16xf32> -> tensor<64x16xf32>
      %shifted = arith.subf %masked, %mb : tensor<64x16xf32>
      %e = math.exp2 %shifted : tensor<64x16xf32>
      %fb = tile.broadcast %f dim 0 : tensor<16xf32> -> tensor<64x16xf32>
      %old = arith.mulf %sum, %fb : tensor<64x16xf32>
      %new = arith.addf %old, %e : tensor<64x16xf32>
      %a0 = arith.mulf %o0, %fb : tensor<64x16xf32>
      %a1 = arith.mulf %o1, %fb : tensor<64x16xf32>
      %p = arith.truncf %e : tensor<64x16xf32> to tensor<64x16xbf16>
      %v0 = tensor.extract_slice %k[0, 0] [64, 64] [1, 1] : tensor<64x128xbf16> to tensor<64x64xbf16>
      %r0 = tile.dot %v0, %p, %a0 transpose_lhs : tensor<64x64xbf16>, tensor<64x16xbf16> -> tensor<64x16xf32>
      %v1 = tensor.extract_slice %k[0, 64] [64, 64] [1, 1] : tensor<64x128xbf16> to tensor<64x64xbf16>
      %r1 = tile.dot %v1, %p, %a1 transpose_lhs : tensor<64x64xbf16>, tensor<64x16xbf16> -> tensor<64x16xf32>
      scf.yield %max, %new, %r0, %r1 : tensor<16xf32>, tensor<64x16xf32>, tensor<64x16xf32>, tensor<64x16xf32>
    }
    %total = tile.reduce sum %state#1 dim 0 : tensor<64x16xf32> -> tensor<16xf32>
    %tb = tile.broadcast %total dim 0 : tensor<16xf32> -> tensor<64x16xf32>
    %y0 = arith.divf %state#2, %tb : tensor<64x16xf32>
    %y1 = arith.divf %state#3, %tb : tensor<64x16xf32>
    %some = arith.cmpi slt, %c0, %len : index
    scf.if %some {
      %ov = memref.reinterpret_cast %out to offset: [0], sizes: [%rows, 128], strides: [128, 1]
          : memref<?xf32> to memref<?x128xf32, strided<[128, 1]>>
      tile.store %y0, %ov[%row, %c0] transposed : tensor<64x16xf32>, memref<?x128xf32, strided<[128, 1]>>
      tile.store %y1, %ov[%row, %c64] transposed : tensor<64x16xf32>, memref<?x128xf32, strided<[128, 1]>>
      tile.store %total, %lse[%row] : tensor<16xf32>, memref<?xf32>
    }
  }
  tile.return
}

// -----

// Pages of 4 rows are too small for TMA's swizzle: the producer's threads copy rows,
// and zeros behind the end.

// CHECK-LABEL: sm90.kernel @small_pages
// CHECK: %[[KEYS:.*]] = sm90.ring "keys" full_count 128 empty_count 4
// CHECK: sm90.role "load"
// CHECK: sm90.elect {
// CHECK: sm90.tma_load
// CHECK: scf.for
// CHECK: sm90.acquire %[[KEYS]][%[[S:arg[0-9]+]]]
// CHECK: sm90.copy_paged {{.*}} vector_bytes 16
// CHECK-NEXT: sm90.copy_publish %[[KEYS]][%[[S]]] part 0
// CHECK: sm90.role "math"
// CHECK-NOT: sm90.zero_rows
tile.kernel @small_pages(%pool: memref<?xbf16>, %pages: index, %table: memref<?xi32>, %q: memref<?xbf16>,
                         %out: memref<?xf32>, %len: index)
    attributes {tile.schedule = {kind = "stream"}} {
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

// REMARK: remark: kernel 'moving_queries' gets the simple schedule, not 'stream': TMA cannot copy its queries
// CHECK-LABEL: sm90.kernel @moving_queries
// CHECK-NOT: sm90.role
// expected-remark @below {{kernel 'moving_queries' gets the simple schedule, not 'stream': TMA cannot copy its queries}}
tile.kernel @moving_queries(%pool: memref<?xbf16>, %pages: index, %table: memref<?xi32>, %q: memref<?xbf16>,
                         %out: memref<?xf32>, %len: index)
    attributes {tile.schedule = {kind = "stream"}} {
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
