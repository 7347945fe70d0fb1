// Prefill in the expanded form over the keys whose bits are set: one head of 64, one request.
// Grid: (query tiles).
tile.kernel @marked_attention(%q: memref<?xbf16>, %k: memref<?xbf16>, %marks: memref<?xi32>, %out: memref<?xf32>,
                              %sums: memref<?xf32>, %tokens: index, %words: index) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %pid = tile.program_id 0
  %row = arith.muli %pid, %c64 : index
  %offset = arith.muli %row, %words : index
  %left = arith.subi %tokens, %row : index
  %qv = memref.reinterpret_cast %q to offset: [0], sizes: [%tokens, 64], strides: [64, 1]
      : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1]>>
  %kv = memref.reinterpret_cast %k to offset: [0], sizes: [%tokens, 64], strides: [64, 1]
      : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1]>>
  %mv = memref.reinterpret_cast %marks to offset: [%offset], sizes: [%left, %words], strides: [%words, 1]
      : memref<?xi32> to memref<?x?xi32, strided<[?, 1], offset: ?>>
  %ov = memref.reinterpret_cast %out to offset: [0], sizes: [%tokens, 64], strides: [64, 1]
      : memref<?xf32> to memref<?x64xf32, strided<[64, 1]>>
  %sv = memref.reinterpret_cast %sums to offset: [0], sizes: [%tokens], strides: [1]
      : memref<?xf32> to memref<?xf32, strided<[1]>>
  %qt = tile.load %qv[%row, %c0] : memref<?x64xbf16, strided<[64, 1]>> -> tensor<64x64xbf16>
  %next = arith.addi %row, %c64 : index
  %end = arith.minsi %next, %tokens : index
  %m, %l, %o = tile.attend queries(%qt : tensor<64x64xbf16>) keys(%kv : memref<?x64xbf16, strided<[64, 1]>>)
      range %c0 to %end limit %tokens diagonal %row marks(%mv : memref<?x?xi32, strided<[?, 1], offset: ?>>)
      {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  tile.store %o, %ov[%row, %c0] : tensor<64x64xf32>, memref<?x64xf32, strided<[64, 1]>>
  tile.store %l, %sv[%row] : tensor<64xf32>, memref<?xf32, strided<[1]>>
  tile.return
}
