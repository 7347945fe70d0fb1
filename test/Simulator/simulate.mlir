// RUN: mla-opt %S/Inputs/relay.mlir --sm90-simulate="args=random:8192,random:65536,4/1/7/2/0:5,nan:8192,8,300,0.05 seeds=20 print=4" -o /dev/null 2>&1 | FileCheck %s
// RUN: mla-opt %S/Inputs/relay.mlir --sm90-simulate="args=random:8192,random:65536,4/1/7/2/0:5,nan:8192,8,0,0.05 print=2" -o /dev/null 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: mla-opt %s --sm90-simulate="args=iota:64,zero:64,3 print=4" -o /dev/null 2>&1 | FileCheck %s --check-prefix=DOUBLE

// CHECK: remark: argument 0: {{.*}}
// CHECK: remark: argument 3: {{[-0-9.]+ [-0-9.]+ [-0-9.]+ [-0-9.]+}}
// EMPTY: remark: argument 3: 0 0
// DOUBLE: remark: argument 1: 0 2 4 0

// The arguments of the pass, and what they make.
sm90.kernel @doubles(%x: memref<?xf32>, %y: memref<?xf32>, %n: index) attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%n], strides: [1] : memref<?xf32> to memref<?xf32, strided<[1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [%n], strides: [1] : memref<?xf32> to memref<?xf32, strided<[1]>>
  %t = sm90.load %xv[%c0] : memref<?xf32, strided<[1]>> -> tensor<64xf32, #sm90.rows>
  %d = arith.addf %t, %t : tensor<64xf32, #sm90.rows>
  sm90.store %d, %yv[%c0] : tensor<64xf32, #sm90.rows>, memref<?xf32, strided<[1]>>
  sm90.return
}
