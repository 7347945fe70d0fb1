// Codes that are widened, scaled and narrowed ahead of a product: the consumer does that in registers, 64 of
// the depth at a time, and has them as the left operand. The scale is loaded ahead of the wait, and the ring
// of codes is free as soon as they are in registers.
//
// RUN: mla-opt %s --tile-plan-schedules --convert-tile-to-sm90 --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-LABEL: sm90.kernel @turned
// CHECK-SAME: warpgroups = 4
// CHECK-DAG: %[[CODES:.*]] = sm90.ring "invariant" {{.*}} tiles = [<64x128xf8E4M3FN>, <64x128xf8E4M3FN>]
// CHECK-DAG: %[[TOKENS:.*]] = sm90.ring "operands" {{.*}} tiles = [<192x128xbf16>]
// CHECK: sm90.role "load_invariant"
// CHECK: sm90.role "load"
// CHECK: sm90.role "math0"
// CHECK: scf.for {{.*}} iter_args(%[[SUM:[a-z0-9]+]] = %
// CHECK: %[[SCALE:.*]] = memref.load
// CHECK: sm90.await %[[CODES]]
// CHECK: sm90.await %[[TOKENS]]
// CHECK: %[[FIRST:.*]] = sm90.load_shared %{{.*}} column 0 : <64x128xf8E4M3FN>
// CHECK: %[[SECOND:.*]] = sm90.load_shared %{{.*}} column 64 : <64x128xf8E4M3FN>
// CHECK: sm90.release %[[CODES]]
// CHECK: %[[WIDE:.*]] = arith.extf %[[FIRST]]
// CHECK: %[[SCALES:.*]] = sm90.splat %[[SCALE]] : f32 -> tensor<64x64xf32
// CHECK: %[[SCALED:.*]] = arith.mulf %[[WIDE]], %[[SCALES]]
// CHECK: %[[VALUES:.*]] = arith.truncf %[[SCALED]] : {{.*}} to tensor<64x64xbf16
// CHECK: %[[PRODUCT:.*]] = sm90.wgmma %[[VALUES]], %{{.*}}, %[[SUM]] transpose_rhs
// CHECK: arith.extf %[[SECOND]]
// CHECK: sm90.wgmma %{{.*}}, %{{.*}}, %[[PRODUCT]] transpose_rhs
// CHECK: sm90.wgmma_wait 0
// CHECK: sm90.release %[[TOKENS]]
// CHECK: sm90.store_shared %{{.*}} transposed
// CHECK: sm90.tma_store
// CHECK: sm90.role "math1"
// expected-remark @below {{kernel 'turned': schedule product product-stages=2}}
tile.kernel @turned(%x: memref<?xbf16>, %w: memref<?xf8E4M3FN> {tile.invariant}, %y: memref<?xbf16>, %rows: index,
                    %ws: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %c512 = arith.constant 512 : index
  %zero = arith.constant dense<0.0> : tensor<64x192xf32>
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%rows, 512], strides: [512, 1]
      : memref<?xbf16> to memref<?x512xbf16, strided<[512, 1]>>
  %wv = memref.reinterpret_cast %w to offset: [0], sizes: [128, 512], strides: [512, 1]
      : memref<?xf8E4M3FN> to memref<128x512xf8E4M3FN, strided<[512, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [%rows, 128], strides: [128, 1]
      : memref<?xbf16> to memref<?x128xbf16, strided<[128, 1]>>
  %sums:2 = scf.for %k = %c0 to %c512 step %c128 iter_args(%a = %zero, %b = %zero) -> (tensor<64x192xf32>, tensor<64x192xf32>) {
    %block = arith.divui %k, %c128 : index
    %scale = memref.load %ws[%block] : memref<?xf32>
    %scales = tile.splat %scale : f32 -> tensor<64x128xf32>
    %tokens = tile.load %xv[%c0, %k] : memref<?x512xbf16, strided<[512, 1]>> -> tensor<192x128xbf16>
    %c = tile.load %wv[%c0, %k] : memref<128x512xf8E4M3FN, strided<[512, 1]>> -> tensor<64x128xf8E4M3FN>
    %cw = arith.extf %c : tensor<64x128xf8E4M3FN> to tensor<64x128xf32>
    %cs = arith.mulf %cw, %scales : tensor<64x128xf32>
    %cv = arith.truncf %cs : tensor<64x128xf32> to tensor<64x128xbf16>
    %p = tile.dot %cv, %tokens, %a transpose_rhs : tensor<64x128xbf16>, tensor<192x128xbf16> -> tensor<64x192xf32>
    %d = tile.load %wv[%c64, %k] : memref<128x512xf8E4M3FN, strided<[512, 1]>> -> tensor<64x128xf8E4M3FN>
    %dw = arith.extf %d : tensor<64x128xf8E4M3FN> to tensor<64x128xf32>
    %ds = arith.mulf %scales, %dw : tensor<64x128xf32>
    %dv = arith.truncf %ds : tensor<64x128xf32> to tensor<64x128xbf16>
    %q = tile.dot %dv, %tokens, %b transpose_rhs : tensor<64x128xbf16>, tensor<192x128xbf16> -> tensor<64x192xf32>
    scf.yield %p, %q : tensor<64x192xf32>, tensor<64x192xf32>
  }
  %first = arith.truncf %sums#0 : tensor<64x192xf32> to tensor<64x192xbf16>
  tile.store %first, %yv[%c0, %c0] transposed : tensor<64x192xbf16>, memref<?x128xbf16, strided<[128, 1]>>
  %second = arith.truncf %sums#1 : tensor<64x192xf32> to tensor<64x192xbf16>
  tile.store %second, %yv[%c0, %c64] transposed : tensor<64x192xbf16>, memref<?x128xbf16, strided<[128, 1]>>
  tile.return
}

// -----

// A factor for each code is no scale, and such codes are no operand of the schedule.
// CHECK-LABEL: sm90.kernel @factors
// CHECK-NOT: sm90.ring
// expected-remark @below {{kernel 'factors': schedule simple: an operand is not a load of the same step}}
tile.kernel @factors(%x: memref<?xbf16>, %w: memref<?xf8E4M3FN> {tile.invariant}, %y: memref<?xbf16>, %rows: index,
                     %ws: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %c512 = arith.constant 512 : index
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%rows, 512], strides: [512, 1]
      : memref<?xbf16> to memref<?x512xbf16, strided<[512, 1]>>
  %wv = memref.reinterpret_cast %w to offset: [0], sizes: [64, 512], strides: [512, 1]
      : memref<?xf8E4M3FN> to memref<64x512xf8E4M3FN, strided<[512, 1]>>
  %fv = memref.reinterpret_cast %ws to offset: [0], sizes: [64, 512], strides: [512, 1]
      : memref<?xf32> to memref<64x512xf32, strided<[512, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [%rows, 64], strides: [64, 1]
      : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1]>>
  %sum = scf.for %k = %c0 to %c512 step %c128 iter_args(%a = %zero) -> (tensor<64x64xf32>) {
    %factors = tile.load %fv[%c0, %k] : memref<64x512xf32, strided<[512, 1]>> -> tensor<64x128xf32>
    %tokens = tile.load %xv[%c0, %k] : memref<?x512xbf16, strided<[512, 1]>> -> tensor<64x128xbf16>
    %c = tile.load %wv[%c0, %k] : memref<64x512xf8E4M3FN, strided<[512, 1]>> -> tensor<64x128xf8E4M3FN>
    %cw = arith.extf %c : tensor<64x128xf8E4M3FN> to tensor<64x128xf32>
    %cs = arith.mulf %cw, %factors : tensor<64x128xf32>
    %cv = arith.truncf %cs : tensor<64x128xf32> to tensor<64x128xbf16>
    %p = tile.dot %cv, %tokens, %a transpose_rhs : tensor<64x128xbf16>, tensor<64x128xbf16> -> tensor<64x64xf32>
    scf.yield %p : tensor<64x64xf32>
  }
  %narrow = arith.truncf %sum : tensor<64x64xf32> to tensor<64x64xbf16>
  tile.store %narrow, %yv[%c0, %c0] transposed : tensor<64x64xbf16>, memref<?x64xbf16, strided<[64, 1]>>
  tile.return
}
