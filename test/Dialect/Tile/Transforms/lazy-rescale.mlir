// RUN: mla-opt %s --pass-pipeline='builtin.module(tile.kernel(tile-lazy-rescale{threshold=8}))' | FileCheck %s
// RUN: mla-opt %s --pass-pipeline='builtin.module(tile.kernel(tile-lazy-rescale{threshold=0}))' | FileCheck %s --check-prefix=ZERO
// RUN: mla-opt %s --pass-pipeline='builtin.module(tile.kernel(tile-lazy-rescale{threshold=8},tile-expand-attend))' | FileCheck %s --check-prefix=LOOP

// CHECK-LABEL: tile.kernel @softmax
// CHECK:         tile.attend {{.*}}lag = 8.0
// ZERO-LABEL:  tile.kernel @softmax
// ZERO:          tile.attend
// ZERO-NOT:      lag
// ZERO-LABEL:  tile.kernel @planned

// LOOP-LABEL:  tile.kernel @softmax
// LOOP:        scf.for {{.*}} iter_args(%[[CARRIED:.*]] = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}})
// LOOP:          %[[MAX:.*]] = tile.reduce max
// LOOP:          %[[BLOCK:.*]] = arith.mulf %[[MAX]]
// LOOP:          %[[BY:.*]] = arith.constant dense<8.0{{.*}}> : tensor<64xf32>
// LOOP:          %[[LIMIT:.*]] = arith.addf %[[CARRIED]], %[[BY]]
// LOOP:          %[[EXCEEDS:.*]] = arith.cmpf ugt, %[[BLOCK]], %[[LIMIT]]
// LOOP:          %[[NEW:.*]] = arith.select %[[EXCEEDS]], %[[BLOCK]], %[[CARRIED]]
// LOOP-NOT:      arith.maximumf
// LOOP:          arith.subf %[[CARRIED]], %[[NEW]]
// LOOP:          tile.broadcast %[[NEW]]
// LOOP:          scf.yield %[[NEW]]
tile.kernel @softmax(%q: memref<?xbf16>, %k: memref<?xbf16>, %out: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %qv = memref.reinterpret_cast %q to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1]>>
  %kv = memref.reinterpret_cast %k to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1]>>
  %query = tile.load %qv[%c0, %c0] : memref<?x64xbf16, strided<[64, 1]>> -> tensor<64x64xbf16>
  %m, %l, %o = tile.attend queries(%query : tensor<64x64xbf16>)
      keys(%kv : memref<?x64xbf16, strided<[64, 1]>>) range %c0 to %n limit %n
      {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  tile.store %l, %out[%c0] : tensor<64xf32>, memref<?xf32>
  tile.return
}

// The schedule of the kernel decides.
// CHECK-LABEL: tile.kernel @planned
// CHECK:         tile.attend {{.*}}lag = 4.0
// ZERO:          tile.attend {{.*}}lag = 4.0
tile.kernel @planned(%q: memref<?xbf16>, %k: memref<?xbf16>, %out: memref<?xf32>, %n: index)
    attributes {tile.schedule = #tile.relay<lazy_threshold = 4.0>} {
  %c0 = arith.constant 0 : index
  %qv = memref.reinterpret_cast %q to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1]>>
  %query = tile.load %qv[%c0, %c0] : memref<?x64xbf16, strided<[64, 1]>> -> tensor<64x64xbf16>
  %m, %l, %o = tile.attend queries(%query : tensor<64x64xbf16>)
      keys(%qv : memref<?x64xbf16, strided<[64, 1]>>) range %c0 to %n limit %n
      {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  tile.store %l, %out[%c0] : tensor<64xf32>, memref<?xf32>
  tile.return
}

// An exact reference stays the maximum.
// CHECK-LABEL: tile.kernel @exact
// CHECK:         tile.attend
// CHECK-NOT:     lag
// CHECK:         tile.return
tile.kernel @exact(%q: memref<?xbf16>, %out: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %qv = memref.reinterpret_cast %q to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1]>>
  %query = tile.load %qv[%c0, %c0] : memref<?x64xbf16, strided<[64, 1]>> -> tensor<64x64xbf16>
  %m, %l, %o = tile.attend queries(%query : tensor<64x64xbf16>)
      keys(%qv : memref<?x64xbf16, strided<[64, 1]>>) range %c0 to %n limit %n
      {block = 64 : i64, exact, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  tile.store %m, %out[%c0] : tensor<64xf32>, memref<?xf32>
  tile.return
}
