// RUN: mla-opt %s --convert-tile-to-cpu --split-input-file --verify-diagnostics

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

tile.kernel @unknown_tile_operation(%x: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [1, 16], strides: [16, 1] : memref<?xf32> to memref<1x16xf32, strided<[16, 1]>>
  %t = tile.load %v[%c0, %c0] : memref<1x16xf32, strided<[16, 1]>> -> tensor<1x16xf32>
  // expected-error @+1 {{expected an operation that the CPU target lowers on tiles}}
  %u = tensor.cast %t : tensor<1x16xf32> to tensor<?x16xf32>
  tile.return
}
