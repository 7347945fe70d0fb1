// Rotates the interleaved pairs (x[2i], x[2i+1]) of the last 32 columns of 96, in
// place: even and odd elements are views with column stride 2. The table holds
// cos then sin, a row per position.
tile.kernel @rope(%x: memref<?xbf16>, %table: memref<?xf32>, %positions: memref<?xi64>, %tokens: index, %length: index) {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c64 = arith.constant 64 : index
  %pid = tile.program_id 0
  %row = arith.muli %pid, %c64 : index
  %even = memref.reinterpret_cast %x to offset: [64], sizes: [%tokens, 16], strides: [96, 2]
      : memref<?xbf16> to memref<?x16xbf16, strided<[96, 2], offset: 64>>
  %odd = memref.reinterpret_cast %x to offset: [65], sizes: [%tokens, 16], strides: [96, 2]
      : memref<?xbf16> to memref<?x16xbf16, strided<[96, 2], offset: 65>>
  %tv = memref.reinterpret_cast %table to offset: [0], sizes: [%length, 32], strides: [32, 1]
      : memref<?xf32> to memref<?x32xf32, strided<[32, 1]>>
  %list = memref.reinterpret_cast %positions to offset: [0], sizes: [%tokens], strides: [1]
      : memref<?xi64> to memref<?xi64, strided<[1]>>
  %a = tile.load %even[%row, %c0] : memref<?x16xbf16, strided<[96, 2], offset: 64>> -> tensor<64x16xbf16>
  %b = tile.load %odd[%row, %c0] : memref<?x16xbf16, strided<[96, 2], offset: 65>> -> tensor<64x16xbf16>
  %cos = tile.load_rows %tv[%list at %row, %c0] : memref<?x32xf32, strided<[32, 1]>>, memref<?xi64, strided<[1]>> -> tensor<64x16xf32>
  %sin = tile.load_rows %tv[%list at %row, %c16] : memref<?x32xf32, strided<[32, 1]>>, memref<?xi64, strided<[1]>> -> tensor<64x16xf32>
  %af = arith.extf %a : tensor<64x16xbf16> to tensor<64x16xf32>
  %bf = arith.extf %b : tensor<64x16xbf16> to tensor<64x16xf32>
  %ac = arith.mulf %af, %cos : tensor<64x16xf32>
  %bs = arith.mulf %bf, %sin : tensor<64x16xf32>
  %as = arith.mulf %af, %sin : tensor<64x16xf32>
  %bc = arith.mulf %bf, %cos : tensor<64x16xf32>
  %re = arith.subf %ac, %bs : tensor<64x16xf32>
  %im = arith.addf %as, %bc : tensor<64x16xf32>
  %re16 = arith.truncf %re : tensor<64x16xf32> to tensor<64x16xbf16>
  %im16 = arith.truncf %im : tensor<64x16xf32> to tensor<64x16xbf16>
  tile.store %re16, %even[%row, %c0] : tensor<64x16xbf16>, memref<?x16xbf16, strided<[96, 2], offset: 64>>
  tile.store %im16, %odd[%row, %c0] : tensor<64x16xbf16>, memref<?x16xbf16, strided<[96, 2], offset: 65>>
  tile.return
}
