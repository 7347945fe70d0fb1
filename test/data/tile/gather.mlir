// Copies one request's cached rows (pages of 16 tokens, rows of 576) to a dense
// buffer. Grid: (tokens / 64, requests).
tile.kernel @gather(%pool: memref<?xbf16>, %block_table: memref<?xi32>, %lengths: memref<?xi32>, %out: memref<?xbf16>,
                    %pages: index, %max_blocks: index, %max_tokens: index,
                    %page_stride: index {tile.divisibility = 8 : i64}) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c576 = arith.constant 576 : index
  %pid = tile.program_id 0
  %request = tile.program_id 1
  %row = arith.muli %pid, %c64 : index
  %len32 = memref.load %lengths[%request] : memref<?xi32>
  %length = arith.index_cast %len32 : i32 to index
  %table_offset = arith.muli %request, %max_blocks : index
  %first = arith.muli %request, %max_tokens : index
  %o_offset = arith.muli %first, %c576 : index
  %pv = memref.reinterpret_cast %pool to offset: [0], sizes: [%pages, 16, 576], strides: [%page_stride, 576, 1]
      : memref<?xbf16> to memref<?x16x576xbf16, strided<[?, 576, 1]>>
  %table = memref.reinterpret_cast %block_table to offset: [%table_offset], sizes: [%max_blocks], strides: [1]
      : memref<?xi32> to memref<?xi32, strided<[1], offset: ?>>
  %ov = memref.reinterpret_cast %out to offset: [%o_offset], sizes: [%length, 576], strides: [576, 1]
      : memref<?xbf16> to memref<?x576xbf16, strided<[576, 1], offset: ?>>
  %t = tile.load_paged %pv[%table at %row, %c0] limit %length
      : memref<?x16x576xbf16, strided<[?, 576, 1]>>, memref<?xi32, strided<[1], offset: ?>> -> tensor<64x576xbf16>
  tile.store %t, %ov[%row, %c0] : tensor<64x576xbf16>, memref<?x576xbf16, strided<[576, 1], offset: ?>>
  tile.return
}
