// RUN: mla-opt %s --convert-tile-to-cpu --split-input-file --verify-diagnostics
// RUN: not mla-opt %s --convert-tile-to-cpu=lanes=4 --split-input-file 2>&1 | FileCheck %s --check-prefix=LANES
// LANES: error: expected lanes 8 or 16, got 4

tile.kernel @constant_of_unequal_elements(%x: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [2], strides: [1] : memref<?xf32> to memref<2xf32, strided<[1]>>
  // expected-error @+1 {{expected a tile constant of equal elements}}
  %t = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  tile.store %t, %v[%c0] : tensor<2xf32>, memref<2xf32, strided<[1]>>
  tile.return
}

// -----

tile.kernel @index_tile() {
  // expected-error @+1 {{expected tiles of integers or floats, got 'tensor<4xindex>'}}
  %t = arith.constant dense<1> : tensor<4xindex>
  tile.return
}

// -----

tile.kernel @unknown_tile_operation() {
  // expected-error @+1 {{expected an operation that the CPU target lowers on tiles}}
  %t = tensor.empty() : tensor<1x16xf32>
  tile.return
}

// -----

tile.kernel @dynamic_tile(%n: index) {
  // expected-error @+1 {{expected static tiles of rank 1 or 2, got 'tensor<?x16xf32>'}}
  %t = tensor.empty(%n) : tensor<?x16xf32>
  tile.return
}

// -----

tile.kernel @view_of_a_branch(%x: memref<?xf32>, %y: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %first = arith.cmpi eq, %n, %c0 : index
  // expected-error @+1 {{expected views to be made by memref.reinterpret_cast}}
  %v = scf.if %first -> (memref<?xf32>) {
    scf.yield %x : memref<?xf32>
  } else {
    scf.yield %y : memref<?xf32>
  }
  tile.return
}
