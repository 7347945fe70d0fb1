// V4-41: what does not wait for each other runs on two streams; what needs both comes behind the join.
// A step with more tokens has one stream.
//
// RUN: mla-opt %s --split-input-file --tile-overlap-launches=least=2 | FileCheck %s
// RUN: mla-opt %s --split-input-file --tile-overlap-launches="least=2 tokens=16" | FileCheck %s --check-prefix=FEW
// RUN: mla-opt %s --split-input-file --tile-overlap-launches | FileCheck %s --check-prefix=NONE

tile.kernel @copy(%from: memref<?xf32>, %to: memref<?xf32>) attributes {tile.waits_for_dependency} {
  %c0 = arith.constant 0 : index
  %v = memref.load %from[%c0] : memref<?xf32>
  memref.store %v, %to[%c0] : memref<?xf32>
  tile.return
}
tile.kernel @add(%a: memref<?xf32>, %b: memref<?xf32>, %to: memref<?xf32>) attributes {tile.waits_for_dependency} {
  %c0 = arith.constant 0 : index
  %x = memref.load %a[%c0] : memref<?xf32>
  %y = memref.load %b[%c0] : memref<?xf32>
  %z = arith.addf %x, %y : f32
  memref.store %z, %to[%c0] : memref<?xf32>
  tile.return
}

// NONE-NOT: tile.fork
// FEW: %[[MOST:.*]] = arith.constant 16 : index
// FEW: arith.cmpi sle, %{{.*}}, %[[MOST]]
//
// CHECK-LABEL: tile.plan @decode
// CHECK: %[[X:.*]] = tile.buffer input "x"
// CHECK: %[[OUT:.*]] = tile.buffer output "out"
// CHECK: tile.launch @copy {{.*}} args(%[[X]], %[[L:.*]])
// Sizes between the launches come ahead of both sides.
// CHECK: tile.workspace
// CHECK: %[[TOKENS:.*]] = tile.dim "num_tokens"
// CHECK: %[[MOST:.*]] = arith.constant 1024 : index
// CHECK: %[[ARE_FEW:.*]] = arith.cmpi sle, %[[TOKENS]], %[[MOST]] : index
// CHECK: tile.fork if %[[ARE_FEW]] {
// A launch that was dependent is none where a stream begins, and stays one behind another.
// CHECK-NEXT: tile.launch @copy grid(%{{.*}}) args(%[[L]], %[[Q:[0-9a-z]+]])
// CHECK-NEXT: tile.launch @copy grid(%{{.*}}) dependent args(%[[Q]], %[[Q2:[0-9a-z]+]])
// CHECK-NEXT: tile.launch @copy grid(%{{.*}}) dependent args(%[[Q2]], %[[Q3:[0-9a-z]+]])
// CHECK-NEXT: } beside {
// CHECK-NEXT: tile.launch @copy grid(%{{.*}}) args(%[[L]], %[[K:[0-9a-z]+]])
// CHECK-NEXT: scf.if
// CHECK-NEXT: tile.launch @copy grid(%{{.*}}) dependent args(%[[K]], %[[S:[0-9a-z]+]])
// CHECK: tile.launch @add grid(%{{.*}}) args(%[[Q3]], %[[S]], %[[OUT]])
// CHECK-NOT: tile.fork
// CHECK: tile.return
tile.plan @decode {
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %x = tile.buffer input "x" : memref<?xf32>
  %out = tile.buffer output "out" : memref<?xf32>
  %l = tile.workspace %c64 : memref<?xf32>
  tile.launch @copy grid(%c1, %c1, %c1) args(%x, %l) : memref<?xf32>, memref<?xf32>
  %q = tile.workspace %c64 : memref<?xf32>
  tile.launch @copy grid(%c1, %c1, %c1) dependent args(%l, %q) : memref<?xf32>, memref<?xf32>
  %k = tile.workspace %c64 : memref<?xf32>
  tile.launch @copy grid(%c1, %c1, %c1) dependent args(%l, %k) : memref<?xf32>, memref<?xf32>
  %q2 = tile.workspace %c64 : memref<?xf32>
  tile.launch @copy grid(%c1, %c1, %c1) dependent args(%q, %q2) : memref<?xf32>, memref<?xf32>
  %s = tile.workspace %c64 : memref<?xf32>
  %t = tile.dim "num_requests"
  %has = arith.cmpi sgt, %t, %c1 : index
  scf.if %has {
    tile.launch @copy grid(%c1, %c1, %c1) dependent args(%k, %s) : memref<?xf32>, memref<?xf32>
  } else {
    tile.launch @copy grid(%c1, %c1, %c1) dependent args(%l, %s) : memref<?xf32>, memref<?xf32>
  }
  %q3 = tile.workspace %c64 : memref<?xf32>
  tile.launch @copy grid(%c1, %c1, %c1) dependent args(%q2, %q3) : memref<?xf32>, memref<?xf32>
  tile.launch @add grid(%c1, %c1, %c1) dependent args(%q3, %s, %out) : memref<?xf32>, memref<?xf32>, memref<?xf32>
  tile.return
}

// -----

// One chain: each launch reads what the one before wrote, or writes what it read.
// CHECK-LABEL: tile.plan @chain
// CHECK-NOT: tile.fork
tile.kernel @copy(%from: memref<?xf32>, %to: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %v = memref.load %from[%c0] : memref<?xf32>
  memref.store %v, %to[%c0] : memref<?xf32>
  tile.return
}
tile.plan @chain {
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %x = tile.buffer input "x" : memref<?xf32>
  %out = tile.buffer output "out" : memref<?xf32>
  %a = tile.workspace %c64 : memref<?xf32>
  %b = tile.workspace %c64 : memref<?xf32>
  tile.launch @copy grid(%c1, %c1, %c1) args(%x, %a) : memref<?xf32>, memref<?xf32>
  tile.launch @copy grid(%c1, %c1, %c1) args(%a, %b) : memref<?xf32>, memref<?xf32>
  tile.launch @copy grid(%c1, %c1, %c1) args(%x, %a) : memref<?xf32>, memref<?xf32>
  tile.launch @copy grid(%c1, %c1, %c1) args(%a, %out) : memref<?xf32>, memref<?xf32>
  tile.return
}

// -----

// Of a branch the side with the fewest launches counts: a product of many tokens may be two. The smaller side is
// two launches here, which are enough for two and not for three.
// CHECK-LABEL: tile.plan @versions
// CHECK: tile.fork if
// CHECK: } beside {
tile.kernel @copy(%from: memref<?xf32>, %to: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %v = memref.load %from[%c0] : memref<?xf32>
  memref.store %v, %to[%c0] : memref<?xf32>
  tile.return
}
tile.plan @versions {
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %x = tile.buffer input "x" : memref<?xf32>
  %y = tile.buffer input "y" : memref<?xf32>
  %out = tile.buffer output "out" : memref<?xf32>
  %other = tile.buffer output "other" : memref<?xf32>
  %a = tile.workspace %c64 : memref<?xf32>
  %b = tile.workspace %c64 : memref<?xf32>
  %c = tile.workspace %c64 : memref<?xf32>
  %t = tile.dim "num_tokens"
  %few = arith.cmpi sle, %t, %c64 : index
  scf.if %few {
    tile.launch @copy grid(%c1, %c1, %c1) args(%x, %a) : memref<?xf32>, memref<?xf32>
  } else {
    tile.launch @copy grid(%c1, %c1, %c1) args(%x, %a) : memref<?xf32>, memref<?xf32>
    tile.launch @copy grid(%c1, %c1, %c1) args(%x, %a) : memref<?xf32>, memref<?xf32>
  }
  tile.launch @copy grid(%c1, %c1, %c1) args(%a, %out) : memref<?xf32>, memref<?xf32>
  tile.launch @copy grid(%c1, %c1, %c1) args(%y, %b) : memref<?xf32>, memref<?xf32>
  tile.launch @copy grid(%c1, %c1, %c1) args(%b, %c) : memref<?xf32>, memref<?xf32>
  tile.launch @copy grid(%c1, %c1, %c1) args(%c, %other) : memref<?xf32>, memref<?xf32>
  tile.return
}
