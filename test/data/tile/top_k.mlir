// Positions of the 512 largest values of each row, by several programs. Grid: (rows, slices).
tile.kernel @top_k(%scores: memref<?xf32>, %out: memref<?xi32>, %rows: index, %columns: index, %lengths: memref<?xi32>,
                  %slices: index, %lists: memref<?xf32>, %counters: memref<?xi32>) {
  %row = tile.program_id 0
  %s = memref.reinterpret_cast %scores to offset: [0], sizes: [%rows, %columns], strides: [%columns, 1]
      : memref<?xf32> to memref<?x?xf32, strided<[?, 1]>>
  %o = memref.reinterpret_cast %out to offset: [0], sizes: [%rows, 512], strides: [512, 1]
      : memref<?xi32> to memref<?x512xi32, strided<[512, 1]>>
  %given = memref.load %lengths[%row] : memref<?xi32>
  %length = arith.index_cast %given : i32 to index
  %slice = tile.program_id 1
  %l = memref.reinterpret_cast %lists to offset: [0], sizes: [%rows, 2, 8192], strides: [16384, 8192, 1]
      : memref<?xf32> to memref<?x2x8192xf32, strided<[16384, 8192, 1]>>
  tile.top_k %s[%row] length %length slice %slice of %slices
      lists(%l : memref<?x2x8192xf32, strided<[16384, 8192, 1]>>) counters(%counters : memref<?xi32>)
      to %o
      : memref<?x?xf32, strided<[?, 1]>>, memref<?x512xi32, strided<[512, 1]>>
  tile.return
}
