// Prefill in the expanded form: 64 query rows of one head and one request,
// causal, keys in two parts (nope 128 per head, rope 64 shared), values 128.
// Grid: (query tiles, heads, requests).
tile.kernel @expanded_attention(%q: memref<?xbf16>, %k_nope: memref<?xbf16>, %k_rope: memref<?xbf16>,
                                %v: memref<?xbf16>, %out: memref<?xbf16>, %starts: memref<?xi32>,
                                %heads: index, %scale_log2: f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %c192 = arith.constant 192 : index
  %pid_m = tile.program_id 0
  %head = tile.program_id 1
  %request = tile.program_id 2
  %next = arith.addi %request, %c1 : index
  %s32 = memref.load %starts[%request] : memref<?xi32>
  %e32 = memref.load %starts[%next] : memref<?xi32>
  %start = arith.index_cast %s32 : i32 to index
  %end = arith.index_cast %e32 : i32 to index
  %length = arith.subi %end, %start : index
  %row = arith.muli %pid_m, %c64 : index
  %active = arith.cmpi slt, %row, %length : index
  scf.if %active {
    %q_stride = arith.muli %heads, %c192 : index
    %v_stride = arith.muli %heads, %c128 : index
    %q_head = arith.muli %head, %c192 : index
    %v_head = arith.muli %head, %c128 : index
    %q_start = arith.muli %start, %q_stride : index
    %v_start = arith.muli %start, %v_stride : index
    %r_start = arith.muli %start, %c64 : index
    %q_offset = arith.addi %q_start, %q_head : index
    %v_offset = arith.addi %v_start, %v_head : index
    %qv = memref.reinterpret_cast %q to offset: [%q_offset], sizes: [%length, 192], strides: [%q_stride, 1]
        : memref<?xbf16> to memref<?x192xbf16, strided<[?, 1], offset: ?>>
    %nv = memref.reinterpret_cast %k_nope to offset: [%v_offset], sizes: [%length, 128], strides: [%v_stride, 1]
        : memref<?xbf16> to memref<?x128xbf16, strided<[?, 1], offset: ?>>
    %rv = memref.reinterpret_cast %k_rope to offset: [%r_start], sizes: [%length, 64], strides: [64, 1]
        : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1], offset: ?>>
    %vv = memref.reinterpret_cast %v to offset: [%v_offset], sizes: [%length, 128], strides: [%v_stride, 1]
        : memref<?xbf16> to memref<?x128xbf16, strided<[?, 1], offset: ?>>
    %ov = memref.reinterpret_cast %out to offset: [%v_offset], sizes: [%length, 128], strides: [%v_stride, 1]
        : memref<?xbf16> to memref<?x128xbf16, strided<[?, 1], offset: ?>>
    %qt = tile.load %qv[%row, %c0] : memref<?x192xbf16, strided<[?, 1], offset: ?>> -> tensor<64x192xbf16>
    %q_nope = tensor.extract_slice %qt[0, 0] [64, 128] [1, 1] : tensor<64x192xbf16> to tensor<64x128xbf16>
    %q_rope = tensor.extract_slice %qt[0, 128] [64, 64] [1, 1] : tensor<64x192xbf16> to tensor<64x64xbf16>
    %scale = tile.splat %scale_log2 : f32 -> tensor<64x64xf32>
    %minus_infinity = arith.constant dense<0xFF800000> : tensor<64x64xf32>
    %lowest = arith.constant dense<-1.0e30> : tensor<64xf32>
    %zero_row = arith.constant dense<0.0> : tensor<64xf32>
    %one_row = arith.constant dense<1.0> : tensor<64xf32>
    %zero_s = arith.constant dense<0.0> : tensor<64x64xf32>
    %zero_o = arith.constant dense<0.0> : tensor<64x128xf32>
    %column = tile.iota 1 : tensor<64x64xi32>
    %line = tile.iota 0 : tensor<64x64xi32>
    %last = arith.addi %row, %c64 : index
    %stop = arith.minsi %last, %length : index
    %max, %sum, %acc = scf.for %t = %c0 to %stop step %c64
        iter_args(%m = %lowest, %l = %zero_row, %o = %zero_o) -> (tensor<64xf32>, tensor<64xf32>, tensor<64x128xf32>) {
      %kn = tile.load %nv[%t, %c0] : memref<?x128xbf16, strided<[?, 1], offset: ?>> -> tensor<64x128xbf16>
      %kr = tile.load %rv[%t, %c0] : memref<?x64xbf16, strided<[64, 1], offset: ?>> -> tensor<64x64xbf16>
      %vt = tile.load %vv[%t, %c0] : memref<?x128xbf16, strided<[?, 1], offset: ?>> -> tensor<64x128xbf16>
      %s0 = tile.dot %q_nope, %kn, %zero_s transpose_rhs : tensor<64x128xbf16>, tensor<64x128xbf16> -> tensor<64x64xf32>
      %s1 = tile.dot %q_rope, %kr, %s0 transpose_rhs : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
      %scaled = arith.mulf %s1, %scale : tensor<64x64xf32>
      %ahead = arith.subi %row, %t : index
      %ahead32 = arith.index_cast %ahead : index to i32
      %ahead_tile = tile.splat %ahead32 : i32 -> tensor<64x64xi32>
      %bound = arith.addi %line, %ahead_tile : tensor<64x64xi32>
      %visible = arith.cmpi sle, %column, %bound : tensor<64x64xi32>
      %masked = arith.select %visible, %scaled, %minus_infinity : tensor<64x64xi1>, tensor<64x64xf32>
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
      %rescale_o = tile.broadcast %rescale : tensor<64xf32> -> tensor<64x128xf32>
      %old_o = arith.mulf %o, %rescale_o : tensor<64x128xf32>
      %new_o = tile.dot %p16, %vt, %old_o : tensor<64x64xbf16>, tensor<64x128xbf16> -> tensor<64x128xf32>
      scf.yield %new_max, %new_sum, %new_o : tensor<64xf32>, tensor<64xf32>, tensor<64x128xf32>
    }
    %empty = arith.cmpf oeq, %sum, %zero_row : tensor<64xf32>
    %safe_sum = arith.select %empty, %one_row, %sum : tensor<64xi1>, tensor<64xf32>
    %inverse = arith.divf %one_row, %safe_sum : tensor<64xf32>
    %inverse_o = tile.broadcast %inverse : tensor<64xf32> -> tensor<64x128xf32>
    %normal = arith.mulf %acc, %inverse_o : tensor<64x128xf32>
    %o16 = arith.truncf %normal : tensor<64x128xf32> to tensor<64x128xbf16>
    tile.store %o16, %ov[%row, %c0] : tensor<64x128xbf16>, memref<?x128xbf16, strided<[?, 1], offset: ?>>
  }
  tile.return
}
