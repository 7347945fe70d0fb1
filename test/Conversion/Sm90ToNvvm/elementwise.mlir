// Arithmetic on fragments becomes scalar operations on registers.
// RUN: mla-opt %s --convert-sm90-to-nvvm | FileCheck %s

#f1 = #sm90.fragment<column_split = 1>

// CHECK-LABEL: llvm.func @functions
// CHECK-COUNT-4: arith.mulf %{{.*}}, %{{.*}} fastmath<contract> : f32
// CHECK-COUNT-4: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz"
// CHECK-COUNT-4: llvm.call_intrinsic "llvm.nvvm.div.full"
// CHECK-COUNT-2: llvm.fptrunc %{{.*}} : vector<2xf32> to vector<2xbf16>
sm90.kernel @functions(%x: memref<?xf32>, %y: memref<?xbf16>, %s: f32)
    attributes {warpgroups = 1 : i32, shared_bytes = 0 : i64} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [64, 8], strides: [8, 1]
      : memref<?xf32> to memref<64x8xf32, strided<[8, 1]>>
  %w = memref.reinterpret_cast %y to offset: [0], sizes: [64, 8], strides: [8, 1]
      : memref<?xbf16> to memref<64x8xbf16, strided<[8, 1]>>
  %a = sm90.load %v[%c0, %c0] : memref<64x8xf32, strided<[8, 1]>> -> tensor<64x8xf32, #f1>
  %k = sm90.splat %s : f32 -> tensor<64x8xf32, #f1>
  %b = arith.mulf %a, %k : tensor<64x8xf32, #f1>
  %c = math.exp2 %b : tensor<64x8xf32, #f1>
  %d = arith.divf %c, %k : tensor<64x8xf32, #f1>
  %e = arith.truncf %d : tensor<64x8xf32, #f1> to tensor<64x8xbf16, #f1>
  sm90.store %e, %w[%c0, %c0] : tensor<64x8xbf16, #f1>, memref<64x8xbf16, strided<[8, 1]>>
  sm90.return
}

// Loops carry registers, not tiles.
// CHECK-LABEL: llvm.func @loop
// CHECK:         scf.for {{.*}} iter_args({{.*}}) -> (f32, f32, f32, f32)
// CHECK:           scf.yield %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : f32, f32, f32, f32
// CHECK-NOT:     tensor
sm90.kernel @loop(%y: memref<?xf32>, %n: index, %s: f32)
    attributes {warpgroups = 1 : i32, shared_bytes = 0 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %w = memref.reinterpret_cast %y to offset: [0], sizes: [64, 8], strides: [8, 1]
      : memref<?xf32> to memref<64x8xf32, strided<[8, 1]>>
  %k = sm90.splat %s : f32 -> tensor<64x8xf32, #f1>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %k) -> (tensor<64x8xf32, #f1>) {
    %b = arith.addf %a, %k : tensor<64x8xf32, #f1>
    scf.yield %b : tensor<64x8xf32, #f1>
  }
  sm90.store %r, %w[%c0, %c0] : tensor<64x8xf32, #f1>, memref<64x8xf32, strided<[8, 1]>>
  sm90.return
}

// e4m3, which LLVM does not have, is bytes; neighbours convert together, the second
// first. A marked division is the correctly rounded one.
// CHECK-LABEL: llvm.func @e4m3
// CHECK:         llvm.load %{{.*}} : !llvm.ptr<1> -> vector<2xi8>
// CHECK:         %[[F:.*]] = nvvm.convert.f8x2.to.f16x2 %{{.*}} : vector<2xi8>(f8E4M3FN) -> vector<2xf16>
// CHECK:         llvm.fpext %{{.*}} : f16 to f32
// CHECK-COUNT-4: llvm.fdiv %{{.*}} : f32
// CHECK:         nvvm.convert.f32x2.to.f8x2 %{{.*}}, %{{.*}} {rnd = #nvvm.fp_rnd_mode<rn>, sat = #nvvm.sat_mode<satfinite>} : vector<2xi8>(f8E4M3FN)
sm90.kernel @e4m3(%x: memref<?xf8E4M3FN>, %y: memref<?xf8E4M3FN>, %s: f32)
    attributes {warpgroups = 1 : i32, shared_bytes = 0 : i64} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [64, 8], strides: [8, 1]
      : memref<?xf8E4M3FN> to memref<64x8xf8E4M3FN, strided<[8, 1]>>
  %w = memref.reinterpret_cast %y to offset: [0], sizes: [64, 8], strides: [8, 1]
      : memref<?xf8E4M3FN> to memref<64x8xf8E4M3FN, strided<[8, 1]>>
  %a = sm90.load %v[%c0, %c0] paired : memref<64x8xf8E4M3FN, strided<[8, 1]>> -> tensor<64x8xf8E4M3FN, #f1>
  %b = arith.extf %a : tensor<64x8xf8E4M3FN, #f1> to tensor<64x8xf32, #f1>
  %k = sm90.splat %s : f32 -> tensor<64x8xf32, #f1>
  %d = arith.divf %b, %k {tile.correctly_rounded} : tensor<64x8xf32, #f1>
  %e = arith.truncf %d : tensor<64x8xf32, #f1> to tensor<64x8xf8E4M3FN, #f1>
  sm90.store %e, %w[%c0, %c0] paired : tensor<64x8xf8E4M3FN, #f1>, memref<64x8xf8E4M3FN, strided<[8, 1]>>
  sm90.return
}
