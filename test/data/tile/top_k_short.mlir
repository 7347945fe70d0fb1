// Positions of the 64 largest values of each row of up to 8192. Grid: (rows).
tile.kernel @top_k_short(%scores: memref<?xf32>, %out: memref<?xi32>, %rows: index, %columns: index, %lengths: memref<?xi32>) {
  %row = tile.program_id 0
  %s = memref.reinterpret_cast %scores to offset: [0], sizes: [%rows, %columns], strides: [%columns, 1]
      : memref<?xf32> to memref<?x?xf32, strided<[?, 1]>>
  %o = memref.reinterpret_cast %out to offset: [0], sizes: [%rows, 64], strides: [64, 1]
      : memref<?xi32> to memref<?x64xi32, strided<[64, 1]>>
  %given = memref.load %lengths[%row] : memref<?xi32>
  %length = arith.index_cast %given : i32 to index
  tile.top_k %s[%row] length %length to %o {longest = 8192 : i64}
      : memref<?x?xf32, strided<[?, 1]>>, memref<?x64xi32, strided<[64, 1]>>
  tile.return
}
