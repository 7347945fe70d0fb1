// The numbers of each row from %first on as bits. Grid: (rows).
tile.kernel @set_bits(%list: memref<?xi32>, %out: memref<?xi32>, %rows: index, %words: index,
                      %first: index) {
  %row = tile.program_id 0
  %l = memref.reinterpret_cast %list to offset: [0], sizes: [%rows, 300], strides: [300, 1]
      : memref<?xi32> to memref<?x300xi32, strided<[300, 1]>>
  %o = memref.reinterpret_cast %out to offset: [0], sizes: [%rows, %words], strides: [%words, 1]
      : memref<?xi32> to memref<?x?xi32, strided<[?, 1]>>
  tile.set_bits %l[%row] from %first to %o : memref<?x300xi32, strided<[300, 1]>>, memref<?x?xi32, strided<[?, 1]>>
  tile.return
}
