// RUN: mla-opt %s --convert-tile-to-sm90 --split-input-file --verify-diagnostics

tile.kernel @rows(%x: memref<?xf32>) {
  // expected-error @+1 {{expected tiles of 64 rows on sm_90a, got 'tensor<16x64xf32>'}}
  %t = arith.constant dense<0.0> : tensor<16x64xf32>
  tile.return
}

// -----

tile.kernel @columns(%x: memref<?xf32>) {
  // expected-error @+1 {{expected columns in groups of 8 that 8 warpgroups can hold, at most 256 each, got 'tensor<64x12xf32>'}}
  %t = arith.constant dense<0.0> : tensor<64x12xf32>
  tile.return
}

// -----

tile.kernel @element(%x: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xf32> to memref<?x64xf32, strided<[64, 1]>>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  // expected-error @+1 {{expected a bf16, f16 or f8E4M3FN operand of a dot on sm_90a, got 'tensor<64x64xf32>'}}
  %t = tile.load %v[%c0, %c0] : memref<?x64xf32, strided<[64, 1]>> -> tensor<64x64xf32>
  %d = tile.dot %t, %t, %zero transpose_rhs : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  tile.return
}

// -----

tile.kernel @depth(%x: memref<?xbf16>, %n: index) {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 40], strides: [40, 1]
      : memref<?xbf16> to memref<?x40xbf16, strided<[40, 1]>>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %t = tile.load %v[%c0, %c0] : memref<?x40xbf16, strided<[40, 1]>> -> tensor<64x40xbf16>
  // expected-error @+1 {{expected a contraction width that is a multiple of 16 on sm_90a, got 40}}
  %d = tile.dot %t, %t, %zero transpose_rhs : tensor<64x40xbf16>, tensor<64x40xbf16> -> tensor<64x64xf32>
  tile.return
}

// -----

tile.kernel @panels(%x: memref<?xbf16>, %n: index) {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 288], strides: [288, 1]
      : memref<?xbf16> to memref<?x288xbf16, strided<[288, 1]>>
  %zero = arith.constant dense<0.0> : tensor<64x288xf32>
  %a = tile.load %v[%c0, %c0] : memref<?x288xbf16, strided<[288, 1]>> -> tensor<64x64xbf16>
  %b = tile.load %v[%c0, %c0] : memref<?x288xbf16, strided<[288, 1]>> -> tensor<64x288xbf16>
  // expected-error @+1 {{expected 288 columns to split into panels of 64 over 2 warpgroups, got 144 each}}
  %d = tile.dot %a, %b, %zero : tensor<64x64xbf16>, tensor<64x288xbf16> -> tensor<64x288xf32>
  tile.return
}

// -----

tile.kernel @slice_offset(%x: memref<?xbf16>, %n: index) {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 128], strides: [128, 1]
      : memref<?xbf16> to memref<?x128xbf16, strided<[128, 1]>>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %t = tile.load %v[%c0, %c0] : memref<?x128xbf16, strided<[128, 1]>> -> tensor<64x128xbf16>
  // expected-error @+1 {{expected a dot's slice to start at a multiple of 64 columns on sm_90a, got 32}}
  %s = tensor.extract_slice %t[0, 32] [64, 64] [1, 1] : tensor<64x128xbf16> to tensor<64x64xbf16>
  %d = tile.dot %s, %s, %zero transpose_rhs : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
  tile.return
}

// -----

tile.kernel @slice_of_computed() {
  %t = arith.constant dense<0.0> : tensor<64x128xbf16>
  %u = arith.addf %t, %t : tensor<64x128xbf16>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  // expected-error @+1 {{expected a slice of consecutive columns, at a static offset, of a load}}
  %s = tensor.extract_slice %u[0, 64] [64, 64] [1, 1] : tensor<64x128xbf16> to tensor<64x64xbf16>
  %d = tile.dot %s, %s, %zero transpose_rhs : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
  tile.return
}

// -----

tile.kernel @constant() {
  // expected-error @+1 {{expected a constant tile of one value}}
  %t = arith.constant dense<[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]> : tensor<64xf32>
  tile.return
}

// -----

tile.kernel @unsupported(%n: index) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{is not supported in a kernel for sm_90a}}
  scf.while : () -> () {
    %b = arith.cmpi slt, %c0, %n : index
    scf.condition(%b)
  } do {
    scf.yield
  }
  tile.return
}

// -----

tile.kernel @reduce_columns() {
  %t = arith.constant dense<0.0> : tensor<64x64xf32>
  // expected-error @+1 {{expected dim 1 or less than 64 columns in the simple schedule for sm_90a, got dim 0 and 'tensor<64xf32>'}}
  %r = tile.reduce sum %t dim 0 : tensor<64x64xf32> -> tensor<64xf32>
  tile.return
}

// -----

tile.kernel @sum_groups() {
  %t = arith.constant dense<0.0> : tensor<64xf32>
  // expected-error @+1 {{expected groups of at most 16 rows, those of a warp, on sm_90a, got 32}}
  %r = tile.sum_groups %t of 32 : tensor<64xf32>
  tile.return
}

// -----

tile.kernel @test_bits() {
  %w = arith.constant dense<1> : tensor<64xi32>
  // expected-error @+1 {{expected one warpgroup to have all columns on sm_90a, got 2}}
  %t = tile.test_bits %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w
      : tensor<64xi32>, tensor<64xi32>, tensor<64xi32>, tensor<64xi32>, tensor<64xi32>, tensor<64xi32>, tensor<64xi32>, tensor<64xi32>,
        tensor<64xi32>, tensor<64xi32>, tensor<64xi32>, tensor<64xi32>, tensor<64xi32>, tensor<64xi32>, tensor<64xi32>, tensor<64xi32> -> tensor<64x512xi1>
  tile.return
}

// -----

tile.kernel @broadcast_row() {
  %t = arith.constant dense<0.0> : tensor<64xf32>
  // expected-error @+1 {{expected dim 1 or less than 64 columns in the simple schedule for sm_90a, got dim 0 and 'tensor<64xf32>'}}
  %r = tile.broadcast %t dim 0 : tensor<64xf32> -> tensor<64x64xf32>
  tile.return
}
