// Positions of the 4096 largest values of each row. Grid: (rows).
tile.kernel @top_k_most(%scores: memref<?xf32>, %out: memref<?xi32>, %rows: index, %columns: index, %lengths: memref<?xi32>) {
  %row = tile.program_id 0
  %s = memref.reinterpret_cast %scores to offset: [0], sizes: [%rows, %columns], strides: [%columns, 1]
      : memref<?xf32> to memref<?x?xf32, strided<[?, 1]>>
  %o = memref.reinterpret_cast %out to offset: [0], sizes: [%rows, 4096], strides: [4096, 1]
      : memref<?xi32> to memref<?x4096xi32, strided<[4096, 1]>>
  %given = memref.load %lengths[%row] : memref<?xi32>
  %length = arith.index_cast %given : i32 to index
  tile.top_k %s[%row] length %length to %o
      : memref<?x?xf32, strided<[?, 1]>>, memref<?x4096xi32, strided<[4096, 1]>>
  tile.return
}
