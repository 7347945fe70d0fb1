// out[T, N] = x[T, K] · weight[N, K]^T with ragged T, N and K: loads outside the
// views are zero, stores there are dropped. Grid: (T / 64, N / 128).
tile.kernel @linear(%x: memref<?xbf16>, %weight: memref<?xbf16>, %out: memref<?xbf16>, %tokens: index) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %k = arith.constant 200 : index
  %pid_m = tile.program_id 0
  %pid_n = tile.program_id 1
  %row = arith.muli %pid_m, %c64 : index
  %col = arith.muli %pid_n, %c128 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%tokens, 200], strides: [200, 1]
      : memref<?xbf16> to memref<?x200xbf16, strided<[200, 1]>>
  %wv = memref.reinterpret_cast %weight to offset: [0], sizes: [168, 200], strides: [200, 1]
      : memref<?xbf16> to memref<168x200xbf16, strided<[200, 1]>>
  %ov = memref.reinterpret_cast %out to offset: [0], sizes: [%tokens, 168], strides: [168, 1]
      : memref<?xbf16> to memref<?x168xbf16, strided<[168, 1]>>
  %zero = arith.constant dense<0.0> : tensor<64x128xf32>
  %acc = scf.for %i = %c0 to %k step %c64 iter_args(%a = %zero) -> (tensor<64x128xf32>) {
    %xt = tile.load %xv[%row, %i] : memref<?x200xbf16, strided<[200, 1]>> -> tensor<64x64xbf16>
    %wt = tile.load %wv[%col, %i] : memref<168x200xbf16, strided<[200, 1]>> -> tensor<128x64xbf16>
    %d = tile.dot %xt, %wt, %a transpose_rhs : tensor<64x64xbf16>, tensor<128x64xbf16> -> tensor<64x128xf32>
    scf.yield %d : tensor<64x128xf32>
  }
  %o = arith.truncf %acc : tensor<64x128xf32> to tensor<64x128xbf16>
  tile.store %o, %ov[%row, %col] : tensor<64x128xbf16>, memref<?x168xbf16, strided<[168, 1]>>
  tile.return
}
