// RUN: mla-opt %s --convert-tile-to-cpu --canonicalize --cse --split-input-file | FileCheck %s
// RUN: mla-opt %s --tile-to-cpu-llvm=lanes=16 --split-input-file | FileCheck %s --check-prefix=LLVM

// The ABI: pointers, integers and floats are read from the argument array.
// LLVM-NOT: {{(= | )(scf|vector|arith)\.}}
// CHECK-LABEL: llvm.func @scale(
// CHECK-SAME: %[[ARGS:.*]]: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: i64)
// CHECK-SAME: mlac.scratch_bytes
// CHECK: llvm.load %[[ARGS]] {{.*}} -> !llvm.ptr
// CHECK: llvm.load {{.*}} -> i64
// CHECK: llvm.load {{.*}} -> f32
// A tile inside its view is scaled in one loop, without a copy.
// CHECK: scf.for
// CHECK: llvm.load {{.*}} -> vector<8xf32>
// CHECK: arith.mulf {{.*}} : vector<8xf32>
// CHECK: llvm.store {{.*}} : vector<8xf32>, !llvm.ptr
// CHECK-NOT: tile.
tile.kernel @scale(%x: memref<?xf32>, %y: memref<?xf32>, %rows: index, %s: f32) {
  %c0 = arith.constant 0 : index
  %pid = tile.program_id 0
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [%rows, 64], strides: [64, 1]
      : memref<?xf32> to memref<?x64xf32, strided<[64, 1]>>
  %w = memref.reinterpret_cast %y to offset: [0], sizes: [%rows, 64], strides: [64, 1]
      : memref<?xf32> to memref<?x64xf32, strided<[64, 1]>>
  %t = tile.load %v[%pid, %c0] : memref<?x64xf32, strided<[64, 1]>> -> tensor<1x64xf32>
  %sv = tile.splat %s : f32 -> tensor<1x64xf32>
  %r = arith.mulf %t, %sv : tensor<1x64xf32>
  tile.store %r, %w[%pid, %c0] : tensor<1x64xf32>, memref<?x64xf32, strided<[64, 1]>>
  tile.return
}

// -----

// An accumulator is updated where it is: the loop carries no tile and copies none.
// CHECK-LABEL: llvm.func @accumulate
// CHECK: scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{[^ ]*}} {
// CHECK: vector.fma
// CHECK-NOT: "llvm.intr.memcpy"
// CHECK: vector.extract_strided_slice
tile.kernel @accumulate(%a: memref<?xbf16>, %b: memref<?xbf16>, %c: memref<?xf32>, %k: index) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %av = memref.reinterpret_cast %a to offset: [0], sizes: [4, %k], strides: [%k, 1]
      : memref<?xbf16> to memref<4x?xbf16, strided<[?, 1]>>
  %bv = memref.reinterpret_cast %b to offset: [0], sizes: [16, %k], strides: [%k, 1]
      : memref<?xbf16> to memref<16x?xbf16, strided<[?, 1]>>
  %cv = memref.reinterpret_cast %c to offset: [0], sizes: [4, 16], strides: [16, 1]
      : memref<?xf32> to memref<4x16xf32, strided<[16, 1]>>
  %zero = arith.constant dense<0.0> : tensor<4x16xf32>
  %r = scf.for %i = %c0 to %k step %c32 iter_args(%acc = %zero) -> (tensor<4x16xf32>) {
    %x = tile.load %av[%c0, %i] : memref<4x?xbf16, strided<[?, 1]>> -> tensor<4x32xbf16>
    %y = tile.load %bv[%c0, %i] : memref<16x?xbf16, strided<[?, 1]>> -> tensor<16x32xbf16>
    %d = tile.dot %x, %y, %acc transpose_rhs : tensor<4x32xbf16>, tensor<16x32xbf16> -> tensor<4x16xf32>
    scf.yield %d : tensor<4x16xf32>
  }
  tile.store %r, %cv[%c0, %c0] : tensor<4x16xf32>, memref<4x16xf32, strided<[16, 1]>>
  tile.return
}

// -----

// The left operand [K, M] is turned in scratch.
// CHECK-LABEL: llvm.func @transposed_lhs(
// CHECK: scf.for
// CHECK: scf.for
// CHECK: scf.for
// CHECK: %[[ELEMENT:.*]] = llvm.load {{.*}} -> f32
// CHECK: llvm.store %[[ELEMENT]], {{.*}} : f32, !llvm.ptr
// CHECK: vector.fma
tile.kernel @transposed_lhs(%a: memref<?xf32>, %b: memref<?xf32>, %c: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %av = memref.reinterpret_cast %a to offset: [0], sizes: [32, 4], strides: [4, 1]
      : memref<?xf32> to memref<32x4xf32, strided<[4, 1]>>
  %bv = memref.reinterpret_cast %b to offset: [0], sizes: [32, 16], strides: [16, 1]
      : memref<?xf32> to memref<32x16xf32, strided<[16, 1]>>
  %cv = memref.reinterpret_cast %c to offset: [0], sizes: [4, 16], strides: [16, 1]
      : memref<?xf32> to memref<4x16xf32, strided<[16, 1]>>
  %zero = arith.constant dense<0.0> : tensor<4x16xf32>
  %x = tile.load %av[%c0, %c0] : memref<32x4xf32, strided<[4, 1]>> -> tensor<32x4xf32>
  %y = tile.load %bv[%c0, %c0] : memref<32x16xf32, strided<[16, 1]>> -> tensor<32x16xf32>
  %d = tile.dot %x, %y, %zero transpose_lhs : tensor<32x4xf32>, tensor<32x16xf32> -> tensor<4x16xf32>
  tile.store %d, %cv[%c0, %c0] : tensor<4x16xf32>, memref<4x16xf32, strided<[16, 1]>>
  tile.return
}

// -----

// What the host does is not the CPU target's.
// CHECK: module
// CHECK-NOT: tile.plan
tile.plan @decode {
  tile.return
}

// Of bf16 it is the bits that are chosen: a processor without bf16 would round them again, by a call.
// CHECK-LABEL: llvm.func @choose(
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : vector<{{[0-9]+}}xi16>
// CHECK-NOT: arith.select {{.*}}bf16
tile.kernel @choose(%a: memref<?xbf16>, %b: memref<?xbf16>, %o: memref<?xbf16>, %which: index) {
  %c0 = arith.constant 0 : index
  %n = arith.constant 64 : index
  %va = memref.reinterpret_cast %a to offset: [0], sizes: [%n, 16], strides: [16, 1] : memref<?xbf16> to memref<?x16xbf16, strided<[16, 1]>>
  %vb = memref.reinterpret_cast %b to offset: [0], sizes: [%n, 16], strides: [16, 1] : memref<?xbf16> to memref<?x16xbf16, strided<[16, 1]>>
  %vo = memref.reinterpret_cast %o to offset: [0], sizes: [%n, 16], strides: [16, 1] : memref<?xbf16> to memref<?x16xbf16, strided<[16, 1]>>
  %x = tile.load %va[%c0, %c0] : memref<?x16xbf16, strided<[16, 1]>> -> tensor<64x16xbf16>
  %y = tile.load %vb[%c0, %c0] : memref<?x16xbf16, strided<[16, 1]>> -> tensor<64x16xbf16>
  %first = arith.cmpi eq, %which, %c0 : index
  %z = arith.select %first, %x, %y : tensor<64x16xbf16>
  tile.store %z, %vo[%c0, %c0] : tensor<64x16xbf16>, memref<?x16xbf16, strided<[16, 1]>>
  tile.return
}

// -----

// B06: a row of zeros, of which bits are set one number after another: in 64 bits, so that no number of an i32 is
// taken for one of a bit.
// CHECK-LABEL: llvm.func @set_bits_B06(
// CHECK: "llvm.intr.memset"(%[[OUT:.*]], %c0_i8
// CHECK: scf.for {{.*}} to %c48_i64
// CHECK: %[[ENTRY:.*]] = llvm.load {{.*}} -> i32
// CHECK: %[[WIDE:.*]] = arith.extsi %[[ENTRY]] : i32 to i64
// CHECK: %[[NUMBER:.*]] = arith.subi %[[WIDE]], %{{.*}} : i64
// CHECK: arith.cmpi sge, %[[NUMBER]], %c0_i64
// CHECK: arith.cmpi slt, %[[NUMBER]], %{{.*}} : i64
// CHECK: scf.if
// CHECK: arith.divui %[[NUMBER]], %c32_i64
// CHECK: arith.remui %[[NUMBER]], %c32_i64
// CHECK: %[[WORD:.*]] = llvm.getelementptr %[[OUT]]
// CHECK: %[[BIT:.*]] = arith.shli %c1_i32
// CHECK: %[[BEFORE:.*]] = llvm.load %[[WORD]]
// CHECK: %[[AFTER:.*]] = arith.ori %[[BEFORE]], %[[BIT]]
// CHECK: llvm.store %[[AFTER]], %[[WORD]]
tile.kernel @set_bits_B06(%list: memref<?xi32>, %out: memref<?xi32>, %rows: index, %words: index, %first: index) {
  %row = tile.program_id 0
  %l = memref.reinterpret_cast %list to offset: [0], sizes: [%rows, 48], strides: [48, 1]
      : memref<?xi32> to memref<?x48xi32, strided<[48, 1]>>
  %o = memref.reinterpret_cast %out to offset: [0], sizes: [%rows, %words], strides: [%words, 1]
      : memref<?xi32> to memref<?x?xi32, strided<[?, 1]>>
  tile.set_bits %l[%row] from %first to %o : memref<?x48xi32, strided<[48, 1]>>, memref<?x?xi32, strided<[?, 1]>>
  tile.return
}

// Of two words each column asks its own, in one loop with what is chosen by it.
// CHECK-LABEL: llvm.func @test_bits_B06(
// CHECK: %[[COLUMN:.*]] = arith.addi %{{.*}}, %{{.*}} : vector<8xi32>
// CHECK: %[[IS_LOW:.*]] = arith.cmpi slt, %[[COLUMN]], %{{.*}} : vector<8xi32>
// CHECK: %[[WORD:.*]] = arith.select %[[IS_LOW]], %{{.*}}, %{{.*}} : vector<8xi1>, vector<8xi32>
// CHECK: %[[BIT:.*]] = arith.andi %[[COLUMN]], %{{.*}} : vector<8xi32>
// CHECK: %[[SHIFTED:.*]] = arith.shrui %[[WORD]], %[[BIT]] : vector<8xi32>
// CHECK: %[[SET:.*]] = arith.andi %[[SHIFTED]], %{{.*}} : vector<8xi32>
// CHECK: %[[IS_SET:.*]] = arith.cmpi ne, %[[SET]], %{{.*}} : vector<8xi32>
// CHECK: arith.select %[[IS_SET]], %{{.*}}, %{{.*}} : vector<8xi1>, vector<8xf32>
tile.kernel @test_bits_B06(%words: memref<?xi32>, %out: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %o = memref.reinterpret_cast %out to offset: [0], sizes: [64, 64], strides: [64, 1]
      : memref<?xf32> to memref<64x64xf32, strided<[64, 1]>>
  %low = tile.load %words[%c0] : memref<?xi32> -> tensor<64xi32>
  %high = tile.load %words[%c64] : memref<?xi32> -> tensor<64xi32>
  %bits = tile.test_bits %low, %high : tensor<64xi32>, tensor<64xi32> -> tensor<64x64xi1>
  %one = arith.constant dense<1.0> : tensor<64x64xf32>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %r = arith.select %bits, %one, %zero : tensor<64x64xi1>, tensor<64x64xf32>
  tile.store %r, %o[%c0, %c0] : tensor<64x64xf32>, memref<64x64xf32, strided<[64, 1]>>
  tile.return
}
