// Global memory: what the model says about other CTAs and other kernels.

// RUN: not mla-opt %s --sm90-simulate="args=random:64,zero:64 grid=2" --split-input-file -o /dev/null 2>&1 | FileCheck %s

// CHECK: error: 'sm90.store' op [race] writes element 0 of a buffer, where CTA 0 wrote another value
sm90.kernel @two_writers(%x: memref<?xf32>, %y: memref<?xf32>) attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %id = sm90.program_id 0
  %i = arith.index_cast %id : index to i32
  %f = arith.sitofp %i : i32 to f32
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [64], strides: [1] : memref<?xf32> to memref<64xf32, strided<[1]>>
  %t = sm90.splat %f : f32 -> tensor<64xf32, #sm90.rows>
  sm90.store %t, %yv[%c0] : tensor<64xf32, #sm90.rows>, memref<64xf32, strided<[1]>>
  sm90.return
}

// -----

// The same value is no harm.
// CHECK-NOT: error
sm90.kernel @same_value(%x: memref<?xf32>, %y: memref<?xf32>) attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  sm90.wait_dependency
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [64], strides: [1] : memref<?xf32> to memref<64xf32, strided<[1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [64], strides: [1] : memref<?xf32> to memref<64xf32, strided<[1]>>
  %t = sm90.load %xv[%c0] : memref<64xf32, strided<[1]>> -> tensor<64xf32, #sm90.rows>
  sm90.store %t, %yv[%c0] : tensor<64xf32, #sm90.rows>, memref<64xf32, strided<[1]>>
  sm90.return
}

// -----

// CHECK: error: 'sm90.load' op [missing wait] accesses global memory before the kernel's wait_dependency
sm90.kernel @early(%x: memref<?xf32>, %y: memref<?xf32>) attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [64], strides: [1] : memref<?xf32> to memref<64xf32, strided<[1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [64], strides: [1] : memref<?xf32> to memref<64xf32, strided<[1]>>
  %t = sm90.load %xv[%c0] : memref<64xf32, strided<[1]>> -> tensor<64xf32, #sm90.rows>
  sm90.wait_dependency
  sm90.store %t, %yv[%c0] : tensor<64xf32, #sm90.rows>, memref<64xf32, strided<[1]>>
  sm90.return
}
