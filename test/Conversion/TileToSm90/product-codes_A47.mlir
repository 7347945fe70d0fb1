// Codes times codes: both operands go from the ring to wgmma, and what 128 of the depth add up to, times the
// scales, to a sum of the consumer's own. The scales are loaded ahead of the wait.
//
// RUN: mla-opt %s --tile-plan-schedules --convert-tile-to-sm90 --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-LABEL: sm90.kernel @narrow
// CHECK-SAME: warpgroups = 3
// CHECK-DAG: sm90.ring "invariant" {{.*}} tiles = [<64x128xf8E4M3FN>]
// CHECK-DAG: sm90.ring "operands" {{.*}} tiles = [<64x128xf8E4M3FN>]
// CHECK: sm90.role "load_invariant" warpgroups 0 to 1 {
// CHECK-NOT: sm90.wait_dependency
// CHECK: sm90.role "load" warpgroups 1 to 2 {
// CHECK: sm90.role "math0" warpgroups 2 to 3 {
// CHECK: sm90.wait_dependency
// CHECK: scf.for {{.*}} iter_args(%[[ACC:.*]] = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}})
// CHECK-DAG: %[[ROWS:.*]] = sm90.load %{{.*}} -> tensor<64xf32, #sm90.rows>
// CHECK-DAG: %[[SCALE:.*]] = memref.load
// CHECK: %[[FACTOR:.*]] = sm90.broadcast
// CHECK: sm90.await
// CHECK: sm90.await
// CHECK: sm90.wgmma %{{.*}}, %{{.*}}, %{{.*}} transpose_rhs : !sm90.smem<64x128xf8E4M3FN>, <64x128xf8E4M3FN>
// CHECK: %[[PART:.*]] = sm90.wgmma_wait 0
// CHECK: sm90.release
// CHECK: sm90.release
// CHECK: math.fma %[[PART]], %[[FACTOR]], %[[ACC]]
// expected-remark @below {{kernel 'narrow': schedule product product-stages=12}}
tile.kernel @narrow(%x: memref<?xf8E4M3FN>, %w: memref<?xf8E4M3FN> {tile.invariant}, %y: memref<?xbf16>, %rows: index,
                    %xs: memref<?xf32>, %ws: memref<?xf32>) attributes {tile.waits_for_dependency} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %width = arith.constant 64 : index
  %height = arith.constant 64 : index
  %c512 = arith.constant 512 : index
  %pid = tile.program_id 0
  %pid1 = tile.program_id 1
  %column = arith.muli %pid, %width : index
  %r0 = arith.muli %pid1, %height : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%rows, 512], strides: [512, 1]
      : memref<?xf8E4M3FN> to memref<?x512xf8E4M3FN, strided<[512, 1]>>
  %wv = memref.reinterpret_cast %w to offset: [0], sizes: [256, 512], strides: [512, 1]
      : memref<?xf8E4M3FN> to memref<256x512xf8E4M3FN, strided<[512, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [%rows, 256], strides: [256, 1]
      : memref<?xbf16> to memref<?x256xbf16, strided<[256, 1]>>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %acc = scf.for %k = %c0 to %c512 step %c128 iter_args(%o0 = %zero) -> (tensor<64x64xf32>) {
    %group = arith.divui %k, %c128 : index
    %av = memref.reinterpret_cast %xs to offset: [%group], sizes: [%rows], strides: [4]
        : memref<?xf32> to memref<?xf32, strided<[4], offset: ?>>
    %x0 = tile.load %xv[%r0, %k] : memref<?x512xf8E4M3FN, strided<[512, 1]>> -> tensor<64x128xf8E4M3FN>
    %wt = tile.load %wv[%column, %k] : memref<256x512xf8E4M3FN, strided<[512, 1]>> -> tensor<64x128xf8E4M3FN>
    %scale = memref.load %ws[%group] : memref<?xf32>
    %b = tile.splat %scale : f32 -> tensor<64xf32>
    %p0 = tile.dot %x0, %wt, %zero transpose_rhs : tensor<64x128xf8E4M3FN>, tensor<64x128xf8E4M3FN> -> tensor<64x64xf32>
    %a0 = tile.load %av[%r0] : memref<?xf32, strided<[4], offset: ?>> -> tensor<64xf32>
    %m0 = arith.mulf %a0, %b : tensor<64xf32>
    %f0 = tile.broadcast %m0 : tensor<64xf32> -> tensor<64x64xf32>
    %n0 = math.fma %p0, %f0, %o0 : tensor<64x64xf32>
    scf.yield %n0 : tensor<64x64xf32>
  }
  %t0 = arith.truncf %acc : tensor<64x64xf32> to tensor<64x64xbf16>
  tile.store %t0, %yv[%r0, %column] : tensor<64x64xbf16>, memref<?x256xbf16, strided<[256, 1]>>
  tile.return
}

// -----

// Two accumulators of 128 columns each leave a second producer no registers. Two steps at a time: the second product
// is in flight while the first is scaled and added.

// CHECK-LABEL: sm90.kernel @wide
// CHECK-SAME: warpgroups = 3
// CHECK: sm90.ring "operands" {{.*}} tiles = [<64x128xf8E4M3FN>, <64x128xf8E4M3FN>, <128x128xf8E4M3FN>]
// CHECK: sm90.role "load" warpgroups 0 to 1 registers 40 {
// CHECK: sm90.wait_dependency
// CHECK: sm90.role "math0" warpgroups 1 to 2 registers 232 {
// CHECK: scf.for {{.*}} iter_args(%[[ACC:.*]] = %{{.*}}, %{{.*}} = %{{.*}})
// CHECK: sm90.await
// CHECK: %[[FIRST:.*]] = sm90.wgmma {{.*}} <128x128xf8E4M3FN> -> tensor<64x128xf32
// CHECK: %[[FACTOR:.*]] = sm90.broadcast
// CHECK: sm90.await
// CHECK: %[[SECOND:.*]] = sm90.wgmma {{.*}} <128x128xf8E4M3FN> -> tensor<64x128xf32
// CHECK: %[[OTHER:.*]] = sm90.broadcast
// CHECK: %[[PART:.*]] = sm90.wgmma_wait 1, %[[FIRST]]
// CHECK-NEXT: sm90.release
// CHECK: %[[SUM:.*]] = math.fma %[[PART]], %[[FACTOR]], %[[ACC]]
// CHECK: %[[LAST:.*]] = sm90.wgmma_wait 0, %[[SECOND]]
// CHECK-NEXT: sm90.release
// CHECK: %[[NEXT:.*]] = math.fma %[[LAST]], %[[OTHER]], %[[SUM]]
// CHECK: scf.yield %[[NEXT]]
// CHECK: sm90.role "math1" warpgroups 2 to 3 registers 232 {
// expected-remark @below {{kernel 'wide': schedule product product-stages=6}}
tile.kernel @wide(%x: memref<?xf8E4M3FN>, %w: memref<?xf8E4M3FN> {tile.invariant}, %y: memref<?xbf16>, %rows: index,
                    %xs: memref<?xf32>, %ws: memref<?xf32>) attributes {tile.waits_for_dependency} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %width = arith.constant 128 : index
  %height = arith.constant 128 : index
  %c512 = arith.constant 512 : index
  %pid = tile.program_id 0
  %pid1 = tile.program_id 1
  %column = arith.muli %pid, %width : index
  %r0 = arith.muli %pid1, %height : index
  %r1 = arith.addi %r0, %c64 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%rows, 512], strides: [512, 1]
      : memref<?xf8E4M3FN> to memref<?x512xf8E4M3FN, strided<[512, 1]>>
  %wv = memref.reinterpret_cast %w to offset: [0], sizes: [256, 512], strides: [512, 1]
      : memref<?xf8E4M3FN> to memref<256x512xf8E4M3FN, strided<[512, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [%rows, 256], strides: [256, 1]
      : memref<?xbf16> to memref<?x256xbf16, strided<[256, 1]>>
  %zero = arith.constant dense<0.0> : tensor<64x128xf32>
  %acc:2 = scf.for %k = %c0 to %c512 step %c128 iter_args(%o0 = %zero, %o1 = %zero) -> (tensor<64x128xf32>, tensor<64x128xf32>) {
    %group = arith.divui %k, %c128 : index
    %av = memref.reinterpret_cast %xs to offset: [%group], sizes: [%rows], strides: [4]
        : memref<?xf32> to memref<?xf32, strided<[4], offset: ?>>
    %x0 = tile.load %xv[%r0, %k] : memref<?x512xf8E4M3FN, strided<[512, 1]>> -> tensor<64x128xf8E4M3FN>
    %x1 = tile.load %xv[%r1, %k] : memref<?x512xf8E4M3FN, strided<[512, 1]>> -> tensor<64x128xf8E4M3FN>
    %wt = tile.load %wv[%column, %k] : memref<256x512xf8E4M3FN, strided<[512, 1]>> -> tensor<128x128xf8E4M3FN>
    %scale = memref.load %ws[%group] : memref<?xf32>
    %b = tile.splat %scale : f32 -> tensor<64xf32>
    %p0 = tile.dot %x0, %wt, %zero transpose_rhs : tensor<64x128xf8E4M3FN>, tensor<128x128xf8E4M3FN> -> tensor<64x128xf32>
    %a0 = tile.load %av[%r0] : memref<?xf32, strided<[4], offset: ?>> -> tensor<64xf32>
    %m0 = arith.mulf %a0, %b : tensor<64xf32>
    %f0 = tile.broadcast %m0 : tensor<64xf32> -> tensor<64x128xf32>
    %n0 = math.fma %p0, %f0, %o0 : tensor<64x128xf32>
    %p1 = tile.dot %x1, %wt, %zero transpose_rhs : tensor<64x128xf8E4M3FN>, tensor<128x128xf8E4M3FN> -> tensor<64x128xf32>
    %a1 = tile.load %av[%r1] : memref<?xf32, strided<[4], offset: ?>> -> tensor<64xf32>
    %m1 = arith.mulf %a1, %b : tensor<64xf32>
    %f1 = tile.broadcast %m1 : tensor<64xf32> -> tensor<64x128xf32>
    %n1 = math.fma %p1, %f1, %o1 : tensor<64x128xf32>
    scf.yield %n0, %n1 : tensor<64x128xf32>, tensor<64x128xf32>
  }
  %t0 = arith.truncf %acc#0 : tensor<64x128xf32> to tensor<64x128xbf16>
  tile.store %t0, %yv[%r0, %column] : tensor<64x128xbf16>, memref<?x256xbf16, strided<[256, 1]>>
  %t1 = arith.truncf %acc#1 : tensor<64x128xf32> to tensor<64x128xbf16>
  tile.store %t1, %yv[%r1, %column] : tensor<64x128xbf16>, memref<?x256xbf16, strided<[256, 1]>>
  tile.return
}

// -----

// Columns first: rows of the weight are those of the sum, and a vector has a scale for each token, which are its
// columns. Two sums take the blocks of the depth in turns, each of a consumer's own; three blocks of each: two in the loop,
// then one.

// CHECK-LABEL: sm90.kernel @columns
// CHECK-SAME: warpgroups = 4
// CHECK: sm90.ring "sums"
// CHECK: sm90.role "math0" warpgroups 2 to 3 {
// CHECK: scf.for
// CHECK: sm90.load %{{.*}} -> tensor<16xf32, #sm90.columns>
// CHECK: arith.mulf %{{.*}} : tensor<16xf32, #sm90.columns>
// CHECK: sm90.broadcast %{{.*}} : tensor<16xf32, #sm90.columns> -> tensor<64x16xf32, #sm90.fragment<column_split = 1>>
// CHECK: sm90.await
// CHECK: sm90.wgmma_wait 1
// CHECK: sm90.wgmma_wait 0
// CHECK: scf.yield
// CHECK: sm90.wgmma_wait 0
// CHECK: sm90.unpark
// CHECK: sm90.role "math1" warpgroups 3 to 4 {
// CHECK: sm90.park
// expected-remark @below {{kernel 'columns': schedule product product-stages=11}}
tile.kernel @columns(%x: memref<?xf8E4M3FN>, %w: memref<?xf8E4M3FN> {tile.invariant}, %y: memref<?xbf16>, %rows: index,
                     %xs: memref<?xf32>, %ws: memref<?xf32>) attributes {tile.waits_for_dependency} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %c256 = arith.constant 256 : index
  %c768 = arith.constant 768 : index
  %pid = tile.program_id 0
  %column = arith.muli %pid, %c64 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%rows, 768], strides: [768, 1]
      : memref<?xf8E4M3FN> to memref<?x768xf8E4M3FN, strided<[768, 1]>>
  %wv = memref.reinterpret_cast %w to offset: [0], sizes: [256, 768], strides: [768, 1]
      : memref<?xf8E4M3FN> to memref<256x768xf8E4M3FN, strided<[768, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [%rows, 256], strides: [256, 1]
      : memref<?xbf16> to memref<?x256xbf16, strided<[256, 1]>>
  %zero = arith.constant dense<0.0> : tensor<64x16xf32>
  %acc:2 = scf.for %k = %c0 to %c768 step %c256 iter_args(%o0 = %zero, %o1 = %zero) -> (tensor<64x16xf32>, tensor<64x16xf32>) {
    %g0 = arith.divui %k, %c128 : index
    %k1 = arith.addi %k, %c128 : index
    %g1 = arith.divui %k1, %c128 : index
    %v0 = memref.reinterpret_cast %xs to offset: [%g0], sizes: [16], strides: [6]
        : memref<?xf32> to memref<16xf32, strided<[6], offset: ?>>
    %v1 = memref.reinterpret_cast %xs to offset: [%g1], sizes: [16], strides: [6]
        : memref<?xf32> to memref<16xf32, strided<[6], offset: ?>>
    %x0 = tile.load %xv[%c0, %k] : memref<?x768xf8E4M3FN, strided<[768, 1]>> -> tensor<16x128xf8E4M3FN>
    %w0 = tile.load %wv[%column, %k] : memref<256x768xf8E4M3FN, strided<[768, 1]>> -> tensor<64x128xf8E4M3FN>
    %p0 = tile.dot %w0, %x0, %zero transpose_rhs : tensor<64x128xf8E4M3FN>, tensor<16x128xf8E4M3FN> -> tensor<64x16xf32>
    %a0 = tile.load %v0[%c0] : memref<16xf32, strided<[6], offset: ?>> -> tensor<16xf32>
    %s0 = memref.load %ws[%g0] : memref<?xf32>
    %b0 = tile.splat %s0 : f32 -> tensor<16xf32>
    %m0 = arith.mulf %a0, %b0 : tensor<16xf32>
    %f0 = tile.broadcast %m0 dim 0 : tensor<16xf32> -> tensor<64x16xf32>
    %n0 = math.fma %p0, %f0, %o0 : tensor<64x16xf32>
    %x1 = tile.load %xv[%c0, %k1] : memref<?x768xf8E4M3FN, strided<[768, 1]>> -> tensor<16x128xf8E4M3FN>
    %w1 = tile.load %wv[%column, %k1] : memref<256x768xf8E4M3FN, strided<[768, 1]>> -> tensor<64x128xf8E4M3FN>
    %p1 = tile.dot %w1, %x1, %zero transpose_rhs : tensor<64x128xf8E4M3FN>, tensor<16x128xf8E4M3FN> -> tensor<64x16xf32>
    %a1 = tile.load %v1[%c0] : memref<16xf32, strided<[6], offset: ?>> -> tensor<16xf32>
    %s1 = memref.load %ws[%g1] : memref<?xf32>
    %b1 = tile.splat %s1 : f32 -> tensor<16xf32>
    %m1 = arith.mulf %a1, %b1 : tensor<16xf32>
    %f1 = tile.broadcast %m1 dim 0 : tensor<16xf32> -> tensor<64x16xf32>
    %n1 = math.fma %p1, %f1, %o1 : tensor<64x16xf32>
    scf.yield %n0, %n1 : tensor<64x16xf32>, tensor<64x16xf32>
  }
  %sum = arith.addf %acc#0, %acc#1 : tensor<64x16xf32>
  %t = arith.truncf %sum : tensor<64x16xf32> to tensor<64x16xbf16>
  tile.store %t, %yv[%c0, %column] transposed : tensor<64x16xbf16>, memref<?x256xbf16, strided<[256, 1]>>
  tile.return
}

// -----

// Scales of 64 tokens that lie together come with the step's operands; nobody takes turns at the tensor cores, as
// the consumers have steps of their own.

// CHECK-LABEL: sm90.kernel @together
// CHECK: sm90.ring "operands" {{.*}} tiles = [<64x128xf8E4M3FN>, <64x128xf8E4M3FN>, <1x64xf32, linear>, <1x64xf32, linear>]
// CHECK: sm90.role "load" warpgroups 1 to 2
// CHECK-COUNT-2: sm90.bulk_load {{.*}} <1x64xf32, linear>
// CHECK: sm90.role "math0" warpgroups 2 to 3
// CHECK: sm90.wgmma
// CHECK: %[[SCALES:.*]] = sm90.load_shared %{{.*}} : <1x64xf32, linear> -> tensor<64xf32, #sm90.columns>
// CHECK: %[[BOTH:.*]] = arith.mulf %[[SCALES]], %{{.*}} : tensor<64xf32, #sm90.columns>
// CHECK: %[[FACTOR:.*]] = sm90.broadcast %[[BOTH]]
// CHECK: %[[PART:.*]] = sm90.wgmma_wait 0
// CHECK: sm90.release
// CHECK: math.fma %[[PART]], %[[FACTOR]]
// CHECK-NOT: sm90.named_barrier
// CHECK: sm90.role "math1"
// expected-remark @below {{kernel 'together': schedule product product-stages=6}}
tile.kernel @together(%x: memref<?xf8E4M3FN>, %w: memref<?xf8E4M3FN> {tile.invariant}, %y: memref<?xbf16>, %rows: index,
                     %xs: memref<?xf32>, %ws: memref<?xf32>) attributes {tile.waits_for_dependency} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %c256 = arith.constant 256 : index
  %c768 = arith.constant 768 : index
  %pid = tile.program_id 0
  %column = arith.muli %pid, %c64 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%rows, 768], strides: [768, 1]
      : memref<?xf8E4M3FN> to memref<?x768xf8E4M3FN, strided<[768, 1]>>
  %wv = memref.reinterpret_cast %w to offset: [0], sizes: [256, 768], strides: [768, 1]
      : memref<?xf8E4M3FN> to memref<256x768xf8E4M3FN, strided<[768, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [%rows, 256], strides: [256, 1]
      : memref<?xbf16> to memref<?x256xbf16, strided<[256, 1]>>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %acc:2 = scf.for %k = %c0 to %c768 step %c256 iter_args(%o0 = %zero, %o1 = %zero) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
    %g0 = arith.divui %k, %c128 : index
    %k1 = arith.addi %k, %c128 : index
    %g1 = arith.divui %k1, %c128 : index
    %at0 = arith.muli %g0, %c64 : index
    %v0 = memref.reinterpret_cast %xs to offset: [%at0], sizes: [64], strides: [1]
        : memref<?xf32> to memref<64xf32, strided<[1], offset: ?>>
    %at1 = arith.muli %g1, %c64 : index
    %v1 = memref.reinterpret_cast %xs to offset: [%at1], sizes: [64], strides: [1]
        : memref<?xf32> to memref<64xf32, strided<[1], offset: ?>>
    %x0 = tile.load %xv[%c0, %k] : memref<?x768xf8E4M3FN, strided<[768, 1]>> -> tensor<64x128xf8E4M3FN>
    %w0 = tile.load %wv[%column, %k] : memref<256x768xf8E4M3FN, strided<[768, 1]>> -> tensor<64x128xf8E4M3FN>
    %p0 = tile.dot %w0, %x0, %zero transpose_rhs : tensor<64x128xf8E4M3FN>, tensor<64x128xf8E4M3FN> -> tensor<64x64xf32>
    %a0 = tile.load %v0[%c0] : memref<64xf32, strided<[1], offset: ?>> -> tensor<64xf32>
    %s0 = memref.load %ws[%g0] : memref<?xf32>
    %b0 = tile.splat %s0 : f32 -> tensor<64xf32>
    %m0 = arith.mulf %a0, %b0 : tensor<64xf32>
    %f0 = tile.broadcast %m0 dim 0 : tensor<64xf32> -> tensor<64x64xf32>
    %n0 = math.fma %p0, %f0, %o0 : tensor<64x64xf32>
    %x1 = tile.load %xv[%c0, %k1] : memref<?x768xf8E4M3FN, strided<[768, 1]>> -> tensor<64x128xf8E4M3FN>
    %w1 = tile.load %wv[%column, %k1] : memref<256x768xf8E4M3FN, strided<[768, 1]>> -> tensor<64x128xf8E4M3FN>
    %p1 = tile.dot %w1, %x1, %zero transpose_rhs : tensor<64x128xf8E4M3FN>, tensor<64x128xf8E4M3FN> -> tensor<64x64xf32>
    %a1 = tile.load %v1[%c0] : memref<64xf32, strided<[1], offset: ?>> -> tensor<64xf32>
    %s1 = memref.load %ws[%g1] : memref<?xf32>
    %b1 = tile.splat %s1 : f32 -> tensor<64xf32>
    %m1 = arith.mulf %a1, %b1 : tensor<64xf32>
    %f1 = tile.broadcast %m1 dim 0 : tensor<64xf32> -> tensor<64x64xf32>
    %n1 = math.fma %p1, %f1, %o1 : tensor<64x64xf32>
    scf.yield %n0, %n1 : tensor<64x64xf32>, tensor<64x64xf32>
  }
  %sum = arith.addf %acc#0, %acc#1 : tensor<64x64xf32>
  %t = arith.truncf %sum : tensor<64x64xf32> to tensor<64x64xbf16>
  tile.store %t, %yv[%c0, %column] transposed : tensor<64x64xbf16>, memref<?x256xbf16, strided<[256, 1]>>
  tile.return
}

// -----

// Four products of which each consumer has two, by turns: their scales come with a step's operands, and while one
// product is added to its sum those of the other consumer run. The stage is free behind the second.

// CHECK-LABEL: sm90.kernel @turns
// CHECK-SAME: sm90.spill_bytes = 128
// CHECK: %[[RING:.*]] = sm90.ring "operands" {{.*}} empty_count 8 {{.*}} tiles = [<64x128xf8E4M3FN>, <64x128xf8E4M3FN>, <64x128xf8E4M3FN>, <64x128xf8E4M3FN>, <128x128xf8E4M3FN>, <1x64xf32, linear>, <1x64xf32, linear>, <1x64xf32, linear>, <1x64xf32, linear>]
// CHECK: sm90.role "load" warpgroups 0 to 1 registers 40
// CHECK: sm90.expect %[[RING]]{{.*}} bytes 50176
// CHECK-COUNT-5: sm90.tma_load
// CHECK-COUNT-4: sm90.bulk_load {{.*}} <1x64xf32, linear>
// CHECK: sm90.role "math0" warpgroups 1 to 2 registers 232
// CHECK: scf.for {{.*}} iter_args(%[[FIRST:.*]] = %{{.*}}, %[[SECOND:.*]] = %{{.*}}, %{{.*}} = %{{.*}})
// CHECK: sm90.await
// CHECK: sm90.named_barrier 8 warps 8
// CHECK: sm90.wgmma
// CHECK: sm90.named_barrier arrive 9 warps 8
// CHECK: %[[SCALES:.*]] = sm90.load_shared %{{.*}} : <1x64xf32, linear> -> tensor<64xf32, #sm90.rows>
// CHECK: %[[BOTH:.*]] = arith.mulf %[[SCALES]]
// CHECK: %[[FACTOR:.*]] = sm90.broadcast %[[BOTH]]
// CHECK: %[[PART:.*]] = sm90.wgmma_wait 0
// CHECK-NOT: sm90.release
// CHECK: math.fma %[[PART]], %[[FACTOR]], %[[FIRST]]
// CHECK: sm90.named_barrier 8 warps 8
// CHECK: sm90.wgmma
// CHECK: sm90.named_barrier arrive 9 warps 8
// CHECK: sm90.load_shared
// CHECK: %[[PART:.*]] = sm90.wgmma_wait 0
// CHECK: sm90.release
// CHECK: math.fma %[[PART]], %{{.*}}, %[[SECOND]]
// CHECK: sm90.named_barrier 8 warps 8
// CHECK: sm90.role "math1"
// CHECK: sm90.named_barrier arrive 8 warps 8
// CHECK: sm90.named_barrier 9 warps 8
// CHECK: sm90.named_barrier arrive 8 warps 8
// CHECK-NOT: sm90.load %
// expected-remark @below {{kernel 'turns': schedule product product-stages=3}}
tile.kernel @turns(%x: memref<?xf8E4M3FN>, %w: memref<?xf8E4M3FN> {tile.invariant}, %y: memref<?xbf16>, %rows: index,
                    %xs: memref<?xf32>, %ws: memref<?xf32>) attributes {tile.waits_for_dependency} {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %c512 = arith.constant 512 : index
  %pid = tile.program_id 0
  %block0 = arith.muli %pid, %c4 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%rows, 512], strides: [512, 1]
      : memref<?xf8E4M3FN> to memref<?x512xf8E4M3FN, strided<[512, 1]>>
  %wv = memref.reinterpret_cast %w to offset: [0], sizes: [128, 512], strides: [512, 1]
      : memref<?xf8E4M3FN> to memref<128x512xf8E4M3FN, strided<[512, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [%rows, 128], strides: [128, 1]
      : memref<?xbf16> to memref<?x128xbf16, strided<[128, 1]>>
  %zero = arith.constant dense<0.0> : tensor<64x128xf32>
  %r0 = arith.muli %block0, %c64 : index
  %n1 = arith.constant 1 : index
  %block1 = arith.addi %block0, %n1 : index
  %r1 = arith.muli %block1, %c64 : index
  %n2 = arith.constant 2 : index
  %block2 = arith.addi %block0, %n2 : index
  %r2 = arith.muli %block2, %c64 : index
  %n3 = arith.constant 3 : index
  %block3 = arith.addi %block0, %n3 : index
  %r3 = arith.muli %block3, %c64 : index
  %acc:4 = scf.for %k = %c0 to %c512 step %c128 iter_args(%o0 = %zero, %o1 = %zero, %o2 = %zero, %o3 = %zero)
      -> (tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>) {
    %group = arith.divui %k, %c128 : index
    %x0 = tile.load %xv[%r0, %k] : memref<?x512xf8E4M3FN, strided<[512, 1]>> -> tensor<64x128xf8E4M3FN>
    %x1 = tile.load %xv[%r1, %k] : memref<?x512xf8E4M3FN, strided<[512, 1]>> -> tensor<64x128xf8E4M3FN>
    %x2 = tile.load %xv[%r2, %k] : memref<?x512xf8E4M3FN, strided<[512, 1]>> -> tensor<64x128xf8E4M3FN>
    %x3 = tile.load %xv[%r3, %k] : memref<?x512xf8E4M3FN, strided<[512, 1]>> -> tensor<64x128xf8E4M3FN>
    %wt = tile.load %wv[%c0, %k] : memref<128x512xf8E4M3FN, strided<[512, 1]>> -> tensor<128x128xf8E4M3FN>
    %scale = memref.load %ws[%group] : memref<?xf32>
    %b = tile.splat %scale : f32 -> tensor<64xf32>
    %p0 = tile.dot %x0, %wt, %zero transpose_rhs : tensor<64x128xf8E4M3FN>, tensor<128x128xf8E4M3FN> -> tensor<64x128xf32>
    %g0 = arith.muli %block0, %c4 : index
    %h0 = arith.addi %g0, %group : index
    %at0 = arith.muli %h0, %c64 : index
    %av0 = memref.reinterpret_cast %xs to offset: [%at0], sizes: [64], strides: [1]
        : memref<?xf32> to memref<64xf32, strided<[1], offset: ?>>
    %a0 = tile.load %av0[%c0] : memref<64xf32, strided<[1], offset: ?>> -> tensor<64xf32>
    %m0 = arith.mulf %a0, %b : tensor<64xf32>
    %f0 = tile.broadcast %m0 : tensor<64xf32> -> tensor<64x128xf32>
    %s0 = math.fma %p0, %f0, %o0 : tensor<64x128xf32>
    %p1 = tile.dot %x1, %wt, %zero transpose_rhs : tensor<64x128xf8E4M3FN>, tensor<128x128xf8E4M3FN> -> tensor<64x128xf32>
    %g1 = arith.muli %block1, %c4 : index
    %h1 = arith.addi %g1, %group : index
    %at1 = arith.muli %h1, %c64 : index
    %av1 = memref.reinterpret_cast %xs to offset: [%at1], sizes: [64], strides: [1]
        : memref<?xf32> to memref<64xf32, strided<[1], offset: ?>>
    %a1 = tile.load %av1[%c0] : memref<64xf32, strided<[1], offset: ?>> -> tensor<64xf32>
    %m1 = arith.mulf %a1, %b : tensor<64xf32>
    %f1 = tile.broadcast %m1 : tensor<64xf32> -> tensor<64x128xf32>
    %s1 = math.fma %p1, %f1, %o1 : tensor<64x128xf32>
    %p2 = tile.dot %x2, %wt, %zero transpose_rhs : tensor<64x128xf8E4M3FN>, tensor<128x128xf8E4M3FN> -> tensor<64x128xf32>
    %g2 = arith.muli %block2, %c4 : index
    %h2 = arith.addi %g2, %group : index
    %at2 = arith.muli %h2, %c64 : index
    %av2 = memref.reinterpret_cast %xs to offset: [%at2], sizes: [64], strides: [1]
        : memref<?xf32> to memref<64xf32, strided<[1], offset: ?>>
    %a2 = tile.load %av2[%c0] : memref<64xf32, strided<[1], offset: ?>> -> tensor<64xf32>
    %m2 = arith.mulf %a2, %b : tensor<64xf32>
    %f2 = tile.broadcast %m2 : tensor<64xf32> -> tensor<64x128xf32>
    %s2 = math.fma %p2, %f2, %o2 : tensor<64x128xf32>
    %p3 = tile.dot %x3, %wt, %zero transpose_rhs : tensor<64x128xf8E4M3FN>, tensor<128x128xf8E4M3FN> -> tensor<64x128xf32>
    %g3 = arith.muli %block3, %c4 : index
    %h3 = arith.addi %g3, %group : index
    %at3 = arith.muli %h3, %c64 : index
    %av3 = memref.reinterpret_cast %xs to offset: [%at3], sizes: [64], strides: [1]
        : memref<?xf32> to memref<64xf32, strided<[1], offset: ?>>
    %a3 = tile.load %av3[%c0] : memref<64xf32, strided<[1], offset: ?>> -> tensor<64xf32>
    %m3 = arith.mulf %a3, %b : tensor<64xf32>
    %f3 = tile.broadcast %m3 : tensor<64xf32> -> tensor<64x128xf32>
    %s3 = math.fma %p3, %f3, %o3 : tensor<64x128xf32>
    scf.yield %s0, %s1, %s2, %s3 : tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>
  }
  %z0 = arith.truncf %acc#0 : tensor<64x128xf32> to tensor<64x128xbf16>
  tile.store %z0, %yv[%r0, %c0] : tensor<64x128xbf16>, memref<?x128xbf16, strided<[128, 1]>>
  %z1 = arith.truncf %acc#1 : tensor<64x128xf32> to tensor<64x128xbf16>
  tile.store %z1, %yv[%r1, %c0] : tensor<64x128xbf16>, memref<?x128xbf16, strided<[128, 1]>>
  %z2 = arith.truncf %acc#2 : tensor<64x128xf32> to tensor<64x128xbf16>
  tile.store %z2, %yv[%r2, %c0] : tensor<64x128xbf16>, memref<?x128xbf16, strided<[128, 1]>>
  %z3 = arith.truncf %acc#3 : tensor<64x128xf32> to tensor<64x128xbf16>
  tile.store %z3, %yv[%r3, %c0] : tensor<64x128xbf16>, memref<?x128xbf16, strided<[128, 1]>>
  tile.return
}

// -----

// Row by row they are no one copy, and the loads of a thread have no place beside two sums.
// CHECK-LABEL: sm90.kernel @row_by_row
// CHECK-NOT: sm90.bulk_load
// expected-remark @below {{kernel 'row_by_row': schedule simple: its products are not of codes whose scales lie together}}
tile.kernel @row_by_row(%x: memref<?xf8E4M3FN>, %w: memref<?xf8E4M3FN> {tile.invariant}, %y: memref<?xbf16>, %rows: index,
                    %xs: memref<?xf32>, %ws: memref<?xf32>) attributes {tile.waits_for_dependency} {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %c512 = arith.constant 512 : index
  %pid = tile.program_id 0
  %block0 = arith.muli %pid, %c4 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%rows, 512], strides: [512, 1]
      : memref<?xf8E4M3FN> to memref<?x512xf8E4M3FN, strided<[512, 1]>>
  %wv = memref.reinterpret_cast %w to offset: [0], sizes: [128, 512], strides: [512, 1]
      : memref<?xf8E4M3FN> to memref<128x512xf8E4M3FN, strided<[512, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [%rows, 128], strides: [128, 1]
      : memref<?xbf16> to memref<?x128xbf16, strided<[128, 1]>>
  %zero = arith.constant dense<0.0> : tensor<64x128xf32>
  %r0 = arith.muli %block0, %c64 : index
  %n1 = arith.constant 1 : index
  %block1 = arith.addi %block0, %n1 : index
  %r1 = arith.muli %block1, %c64 : index
  %n2 = arith.constant 2 : index
  %block2 = arith.addi %block0, %n2 : index
  %r2 = arith.muli %block2, %c64 : index
  %n3 = arith.constant 3 : index
  %block3 = arith.addi %block0, %n3 : index
  %r3 = arith.muli %block3, %c64 : index
  %acc:4 = scf.for %k = %c0 to %c512 step %c128 iter_args(%o0 = %zero, %o1 = %zero, %o2 = %zero, %o3 = %zero)
      -> (tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>) {
    %group = arith.divui %k, %c128 : index
    %x0 = tile.load %xv[%r0, %k] : memref<?x512xf8E4M3FN, strided<[512, 1]>> -> tensor<64x128xf8E4M3FN>
    %x1 = tile.load %xv[%r1, %k] : memref<?x512xf8E4M3FN, strided<[512, 1]>> -> tensor<64x128xf8E4M3FN>
    %x2 = tile.load %xv[%r2, %k] : memref<?x512xf8E4M3FN, strided<[512, 1]>> -> tensor<64x128xf8E4M3FN>
    %x3 = tile.load %xv[%r3, %k] : memref<?x512xf8E4M3FN, strided<[512, 1]>> -> tensor<64x128xf8E4M3FN>
    %wt = tile.load %wv[%c0, %k] : memref<128x512xf8E4M3FN, strided<[512, 1]>> -> tensor<128x128xf8E4M3FN>
    %scale = memref.load %ws[%group] : memref<?xf32>
    %b = tile.splat %scale : f32 -> tensor<64xf32>
    %p0 = tile.dot %x0, %wt, %zero transpose_rhs : tensor<64x128xf8E4M3FN>, tensor<128x128xf8E4M3FN> -> tensor<64x128xf32>
    %av0 = memref.reinterpret_cast %xs to offset: [%group], sizes: [%rows], strides: [4]
        : memref<?xf32> to memref<?xf32, strided<[4], offset: ?>>
    %a0 = tile.load %av0[%r0] : memref<?xf32, strided<[4], offset: ?>> -> tensor<64xf32>
    %m0 = arith.mulf %a0, %b : tensor<64xf32>
    %f0 = tile.broadcast %m0 : tensor<64xf32> -> tensor<64x128xf32>
    %s0 = math.fma %p0, %f0, %o0 : tensor<64x128xf32>
    %p1 = tile.dot %x1, %wt, %zero transpose_rhs : tensor<64x128xf8E4M3FN>, tensor<128x128xf8E4M3FN> -> tensor<64x128xf32>
    %av1 = memref.reinterpret_cast %xs to offset: [%group], sizes: [%rows], strides: [4]
        : memref<?xf32> to memref<?xf32, strided<[4], offset: ?>>
    %a1 = tile.load %av1[%r1] : memref<?xf32, strided<[4], offset: ?>> -> tensor<64xf32>
    %m1 = arith.mulf %a1, %b : tensor<64xf32>
    %f1 = tile.broadcast %m1 : tensor<64xf32> -> tensor<64x128xf32>
    %s1 = math.fma %p1, %f1, %o1 : tensor<64x128xf32>
    %p2 = tile.dot %x2, %wt, %zero transpose_rhs : tensor<64x128xf8E4M3FN>, tensor<128x128xf8E4M3FN> -> tensor<64x128xf32>
    %av2 = memref.reinterpret_cast %xs to offset: [%group], sizes: [%rows], strides: [4]
        : memref<?xf32> to memref<?xf32, strided<[4], offset: ?>>
    %a2 = tile.load %av2[%r2] : memref<?xf32, strided<[4], offset: ?>> -> tensor<64xf32>
    %m2 = arith.mulf %a2, %b : tensor<64xf32>
    %f2 = tile.broadcast %m2 : tensor<64xf32> -> tensor<64x128xf32>
    %s2 = math.fma %p2, %f2, %o2 : tensor<64x128xf32>
    %p3 = tile.dot %x3, %wt, %zero transpose_rhs : tensor<64x128xf8E4M3FN>, tensor<128x128xf8E4M3FN> -> tensor<64x128xf32>
    %av3 = memref.reinterpret_cast %xs to offset: [%group], sizes: [%rows], strides: [4]
        : memref<?xf32> to memref<?xf32, strided<[4], offset: ?>>
    %a3 = tile.load %av3[%r3] : memref<?xf32, strided<[4], offset: ?>> -> tensor<64xf32>
    %m3 = arith.mulf %a3, %b : tensor<64xf32>
    %f3 = tile.broadcast %m3 : tensor<64xf32> -> tensor<64x128xf32>
    %s3 = math.fma %p3, %f3, %o3 : tensor<64x128xf32>
    scf.yield %s0, %s1, %s2, %s3 : tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>
  }
  %z0 = arith.truncf %acc#0 : tensor<64x128xf32> to tensor<64x128xbf16>
  tile.store %z0, %yv[%r0, %c0] : tensor<64x128xbf16>, memref<?x128xbf16, strided<[128, 1]>>
  %z1 = arith.truncf %acc#1 : tensor<64x128xf32> to tensor<64x128xbf16>
  tile.store %z1, %yv[%r1, %c0] : tensor<64x128xbf16>, memref<?x128xbf16, strided<[128, 1]>>
  %z2 = arith.truncf %acc#2 : tensor<64x128xf32> to tensor<64x128xbf16>
  tile.store %z2, %yv[%r2, %c0] : tensor<64x128xbf16>, memref<?x128xbf16, strided<[128, 1]>>
  %z3 = arith.truncf %acc#3 : tensor<64x128xf32> to tensor<64x128xbf16>
  tile.store %z3, %yv[%r3, %c0] : tensor<64x128xbf16>, memref<?x128xbf16, strided<[128, 1]>>
  tile.return
}
