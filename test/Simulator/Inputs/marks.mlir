// The numbers of two lists of 24 from %first on as bits of four words each, and these as columns of 0 and 1.
sm90.kernel @marks(%list: memref<?xi32>, %marks: memref<?xi32>, %out: memref<?xf32>, %first: index)
    attributes {shared_bytes = 256 : i64, warpgroups = 2 : i32} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %l = memref.reinterpret_cast %list to offset: [0], sizes: [2, 24], strides: [24, 1]
      : memref<?xi32> to memref<2x24xi32, strided<[24, 1]>>
  %w = memref.reinterpret_cast %marks to offset: [0], sizes: [2, 4], strides: [4, 1]
      : memref<?xi32> to memref<2x4xi32, strided<[4, 1]>>
  %w0 = memref.reinterpret_cast %marks to offset: [0], sizes: [2], strides: [4]
      : memref<?xi32> to memref<2xi32, strided<[4]>>
  %w1 = memref.reinterpret_cast %marks to offset: [1], sizes: [2], strides: [4]
      : memref<?xi32> to memref<2xi32, strided<[4], offset: 1>>
  %w2 = memref.reinterpret_cast %marks to offset: [2], sizes: [2], strides: [4]
      : memref<?xi32> to memref<2xi32, strided<[4], offset: 2>>
  %w3 = memref.reinterpret_cast %marks to offset: [3], sizes: [2], strides: [4]
      : memref<?xi32> to memref<2xi32, strided<[4], offset: 3>>
  %o = memref.reinterpret_cast %out to offset: [0], sizes: [2, 128], strides: [128, 1]
      : memref<?xf32> to memref<2x128xf32, strided<[128, 1]>>
  %work = sm90.alloc offset 0 : !sm90.smem<1x64xi32, linear>
  scf.for %row = %c0 to %c2 step %c1 {
    sm90.set_bits %l[%row] from %first to %w work %work
        : memref<2x24xi32, strided<[24, 1]>>, memref<2x4xi32, strided<[4, 1]>>, !sm90.smem<1x64xi32, linear>
    sm90.barrier
  }
  %b0 = sm90.load %w0[%c0] : memref<2xi32, strided<[4]>> -> tensor<64xi32, #sm90.rows>
  %b1 = sm90.load %w1[%c0] : memref<2xi32, strided<[4], offset: 1>> -> tensor<64xi32, #sm90.rows>
  %b2 = sm90.load %w2[%c0] : memref<2xi32, strided<[4], offset: 2>> -> tensor<64xi32, #sm90.rows>
  %b3 = sm90.load %w3[%c0] : memref<2xi32, strided<[4], offset: 3>> -> tensor<64xi32, #sm90.rows>
  %bits = sm90.test_bits %b0, %b1, %b2, %b3
      : tensor<64xi32, #sm90.rows>, tensor<64xi32, #sm90.rows>, tensor<64xi32, #sm90.rows>, tensor<64xi32, #sm90.rows>
      -> tensor<64x128xi1, #sm90.fragment<column_split = 1>>
  %one = arith.constant dense<1.0> : tensor<64x128xf32, #sm90.fragment<column_split = 1>>
  %none = arith.constant dense<0.0> : tensor<64x128xf32, #sm90.fragment<column_split = 1>>
  %r = arith.select %bits, %one, %none
      : tensor<64x128xi1, #sm90.fragment<column_split = 1>>, tensor<64x128xf32, #sm90.fragment<column_split = 1>>
  sm90.store %r, %o[%c0, %c0]
      : tensor<64x128xf32, #sm90.fragment<column_split = 1>>, memref<2x128xf32, strided<[128, 1]>>
  sm90.return
}
