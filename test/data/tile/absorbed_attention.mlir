// Decode in the absorbed form over a paged cache: 64 rows (heads) of one request,
// keys [kv, 512 + 64], values = the first 512 columns of the keys. Writes the
// output and the natural-log LSE. Grid: (heads / 64, requests).
tile.kernel @absorbed_attention(%q: memref<?xbf16>, %pool: memref<?xbf16>, %block_table: memref<?xi32>,
                                %seq_lens: memref<?xi32>, %out: memref<?xbf16>, %lse: memref<?xf32>,
                                %requests: index, %heads: index, %pages: index, %max_blocks: index,
                                %page_stride: index {tile.divisibility = 8 : i64}, %scale_log2: f32) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c576 = arith.constant 576 : index
  %c512 = arith.constant 512 : index
  %pid_h = tile.program_id 0
  %request = tile.program_id 1
  %row = arith.muli %pid_h, %c64 : index
  %len32 = memref.load %seq_lens[%request] : memref<?xi32>
  %length = arith.index_cast %len32 : i32 to index
  %first_head = arith.muli %request, %heads : index
  %q_offset = arith.muli %first_head, %c576 : index
  %o_offset = arith.muli %first_head, %c512 : index
  %table_offset = arith.muli %request, %max_blocks : index
  %qv = memref.reinterpret_cast %q to offset: [%q_offset], sizes: [%heads, 576], strides: [576, 1]
      : memref<?xbf16> to memref<?x576xbf16, strided<[576, 1], offset: ?>>
  %kv = memref.reinterpret_cast %pool to offset: [0], sizes: [%pages, 64, 576], strides: [%page_stride, 576, 1]
      : memref<?xbf16> to memref<?x64x576xbf16, strided<[?, 576, 1]>>
  %table = memref.reinterpret_cast %block_table to offset: [%table_offset], sizes: [%max_blocks], strides: [1]
      : memref<?xi32> to memref<?xi32, strided<[1], offset: ?>>
  %ov = memref.reinterpret_cast %out to offset: [%o_offset], sizes: [%heads, 512], strides: [512, 1]
      : memref<?xbf16> to memref<?x512xbf16, strided<[512, 1], offset: ?>>
  %lv = memref.reinterpret_cast %lse to offset: [%first_head], sizes: [%heads], strides: [1]
      : memref<?xf32> to memref<?xf32, strided<[1], offset: ?>>
  %qt = tile.load %qv[%row, %c0] : memref<?x576xbf16, strided<[576, 1], offset: ?>> -> tensor<64x576xbf16>
  %scale = tile.splat %scale_log2 : f32 -> tensor<64x64xf32>
  %minus_infinity = arith.constant dense<0xFF800000> : tensor<64x64xf32>
  %lowest = arith.constant dense<-1.0e30> : tensor<64xf32>
  %zero_row = arith.constant dense<0.0> : tensor<64xf32>
  %zero_s = arith.constant dense<0.0> : tensor<64x64xf32>
  %zero_o = arith.constant dense<0.0> : tensor<64x512xf32>
  %column = tile.iota 1 : tensor<64x64xi32>
  %max, %sum, %acc = scf.for %t = %c0 to %length step %c64
      iter_args(%m = %lowest, %l = %zero_row, %o = %zero_o) -> (tensor<64xf32>, tensor<64xf32>, tensor<64x512xf32>) {
    %k = tile.load_paged %kv[%table at %t, %c0] limit %length
        : memref<?x64x576xbf16, strided<[?, 576, 1]>>, memref<?xi32, strided<[1], offset: ?>> -> tensor<64x576xbf16>
    %s = tile.dot %qt, %k, %zero_s transpose_rhs : tensor<64x576xbf16>, tensor<64x576xbf16> -> tensor<64x64xf32>
    %scaled = arith.mulf %s, %scale : tensor<64x64xf32>
    %left = arith.subi %length, %t : index
    %left32 = arith.index_cast %left : index to i32
    %bound = tile.splat %left32 : i32 -> tensor<64x64xi32>
    %inside = arith.cmpi slt, %column, %bound : tensor<64x64xi32>
    %masked = arith.select %inside, %scaled, %minus_infinity : tensor<64x64xi1>, tensor<64x64xf32>
    %tile_max = tile.reduce max %masked : tensor<64x64xf32> -> tensor<64xf32>
    %new_max = arith.maximumf %m, %tile_max : tensor<64xf32>
    %shift = arith.subf %m, %new_max : tensor<64xf32>
    %rescale = math.exp2 %shift : tensor<64xf32>
    %max_tile = tile.broadcast %new_max : tensor<64xf32> -> tensor<64x64xf32>
    %centred = arith.subf %masked, %max_tile : tensor<64x64xf32>
    %p = math.exp2 %centred : tensor<64x64xf32>
    %tile_sum = tile.reduce sum %p : tensor<64x64xf32> -> tensor<64xf32>
    %old_sum = arith.mulf %l, %rescale : tensor<64xf32>
    %new_sum = arith.addf %old_sum, %tile_sum : tensor<64xf32>
    %p16 = arith.truncf %p : tensor<64x64xf32> to tensor<64x64xbf16>
    %v = tensor.extract_slice %k[0, 0] [64, 512] [1, 1] : tensor<64x576xbf16> to tensor<64x512xbf16>
    %rescale_o = tile.broadcast %rescale : tensor<64xf32> -> tensor<64x512xf32>
    %old_o = arith.mulf %o, %rescale_o : tensor<64x512xf32>
    %new_o = tile.dot %p16, %v, %old_o : tensor<64x64xbf16>, tensor<64x512xbf16> -> tensor<64x512xf32>
    scf.yield %new_max, %new_sum, %new_o : tensor<64xf32>, tensor<64xf32>, tensor<64x512xf32>
  }
  %one_row = arith.constant dense<1.0> : tensor<64xf32>
  %infinity_row = arith.constant dense<0xFF800000> : tensor<64xf32>
  %ln2 = arith.constant dense<0.693147182> : tensor<64xf32>
  %empty = arith.cmpf oeq, %sum, %zero_row : tensor<64xf32>
  %safe_sum = arith.select %empty, %one_row, %sum : tensor<64xi1>, tensor<64xf32>
  %inverse = arith.divf %one_row, %safe_sum : tensor<64xf32>
  %inverse_o = tile.broadcast %inverse : tensor<64xf32> -> tensor<64x512xf32>
  %normal = arith.mulf %acc, %inverse_o : tensor<64x512xf32>
  %o16 = arith.truncf %normal : tensor<64x512xf32> to tensor<64x512xbf16>
  tile.store %o16, %ov[%row, %c0] : tensor<64x512xbf16>, memref<?x512xbf16, strided<[512, 1], offset: ?>>
  %log_sum = math.log2 %safe_sum : tensor<64xf32>
  %log2 = arith.addf %max, %log_sum : tensor<64xf32>
  %ln = arith.mulf %log2, %ln2 : tensor<64xf32>
  %lse_row = arith.select %empty, %infinity_row, %ln : tensor<64xi1>, tensor<64xf32>
  tile.store %lse_row, %lv[%row] : tensor<64xf32>, memref<?xf32, strided<[1], offset: ?>>
  tile.return
}
