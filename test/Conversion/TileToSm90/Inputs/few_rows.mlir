// A kernel as tile-swap-operands leaves it: 16 query rows per item, latent 128, RoPE
// 64, pages of 32 rows.

tile.kernel @attention(%pool: memref<?xbf16>, %pages: index, %page_stride: index {tile.divisibility = 8 : i64},
                       %table: memref<?xi32>, %items: memref<?xi32>, %q: memref<?xbf16>, %q_rope: memref<?xbf16>,
                       %out: memref<?xf32>, %lse: memref<?xf32>, %rows: index, %num_items: index)
    attributes {tile.schedule = #tile.stream<stages = 3, part_columns = 64>,
                tile.triggers_dependents, tile.waits_for_dependency} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<64x16xf32>
  %start = arith.constant dense<-1.0e30> : tensor<16xf32>
  %inf = arith.constant dense<0xFF800000> : tensor<64x16xf32>
  scf.for %item = %c0 to %num_items step %c1 {
    %len32 = memref.load %items[%item] : memref<?xi32>
    %len = arith.index_cast %len32 : i32 to index
    %blocks = arith.ceildivsi %len, %c64 : index
    %row = arith.muli %item, %c16 : index
    %pv = memref.reinterpret_cast %pool to offset: [0], sizes: [%pages, 32, 128], strides: [%page_stride, 192, 1]
        : memref<?xbf16> to memref<?x32x128xbf16, strided<[?, 192, 1]>>
    %rv = memref.reinterpret_cast %pool to offset: [128], sizes: [%pages, 32, 64], strides: [%page_stride, 192, 1]
        : memref<?xbf16> to memref<?x32x64xbf16, strided<[?, 192, 1], offset: 128>>
    %qv = memref.reinterpret_cast %q to offset: [0], sizes: [%rows, 128], strides: [128, 1]
        : memref<?xbf16> to memref<?x128xbf16, strided<[128, 1]>>
    %qrv = memref.reinterpret_cast %q_rope to offset: [0], sizes: [%rows, 64], strides: [64, 1]
        : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1]>>
    %query = tile.load %qv[%row, %c0] : memref<?x128xbf16, strided<[128, 1]>> -> tensor<16x128xbf16>
    %query_rope = tile.load %qrv[%row, %c0] : memref<?x64xbf16, strided<[64, 1]>> -> tensor<16x64xbf16>
    %limits = tile.splat %len32 : i32 -> tensor<16xi32>
    %state:4 = scf.for %block = %c0 to %blocks step %c1 iter_args(%m = %start, %sum = %zero, %o0 = %zero, %o1 = %zero)
        -> (tensor<16xf32>, tensor<64x16xf32>, tensor<64x16xf32>, tensor<64x16xf32>) {
      %key = arith.muli %block, %c64 : index
      %k = tile.load_paged %pv[%table at %key, %c0] limit %len
          : memref<?x32x128xbf16, strided<[?, 192, 1]>>, memref<?xi32> -> tensor<64x128xbf16>
      %s0 = tile.dot %k, %query, %zero transpose_rhs : tensor<64x128xbf16>, tensor<16x128xbf16> -> tensor<64x16xf32>
      %kr = tile.load_paged %rv[%table at %key, %c0] limit %len
          : memref<?x32x64xbf16, strided<[?, 192, 1], offset: 128>>, memref<?xi32> -> tensor<64x64xbf16>
      %s = tile.dot %kr, %query_rope, %s0 transpose_rhs : tensor<64x64xbf16>, tensor<16x64xbf16> -> tensor<64x16xf32>
      %i = tile.iota 0 : tensor<64x16xi32>
      %key32 = arith.index_cast %key : index to i32
      %first = tile.splat %key32 : i32 -> tensor<64x16xi32>
      %position = arith.addi %i, %first : tensor<64x16xi32>
      %limit = tile.broadcast %limits dim 0 : tensor<16xi32> -> tensor<64x16xi32>
      %seen = arith.cmpi slt, %position, %limit : tensor<64x16xi32>
      %masked = arith.select %seen, %s, %inf : tensor<64x16xi1>, tensor<64x16xf32>
      %bm = tile.reduce max %masked dim 0 : tensor<64x16xf32> -> tensor<16xf32>
      %max = arith.maximumf %m, %bm : tensor<16xf32>
      %d = arith.subf %m, %max : tensor<16xf32>
      %f = math.exp2 %d : tensor<16xf32>
      %mb = tile.broadcast %max dim 0 : tensor<16xf32> -> tensor<64x16xf32>
      %shifted = arith.subf %masked, %mb : tensor<64x16xf32>
      %e = math.exp2 %shifted : tensor<64x16xf32>
      %fb = tile.broadcast %f dim 0 : tensor<16xf32> -> tensor<64x16xf32>
      %old = arith.mulf %sum, %fb : tensor<64x16xf32>
      %new = arith.addf %old, %e : tensor<64x16xf32>
      %a0 = arith.mulf %o0, %fb : tensor<64x16xf32>
      %a1 = arith.mulf %o1, %fb : tensor<64x16xf32>
      %p = arith.truncf %e : tensor<64x16xf32> to tensor<64x16xbf16>
      %v0 = tensor.extract_slice %k[0, 0] [64, 64] [1, 1] : tensor<64x128xbf16> to tensor<64x64xbf16>
      %r0 = tile.dot %v0, %p, %a0 transpose_lhs : tensor<64x64xbf16>, tensor<64x16xbf16> -> tensor<64x16xf32>
      %v1 = tensor.extract_slice %k[0, 64] [64, 64] [1, 1] : tensor<64x128xbf16> to tensor<64x64xbf16>
      %r1 = tile.dot %v1, %p, %a1 transpose_lhs : tensor<64x64xbf16>, tensor<64x16xbf16> -> tensor<64x16xf32>
      scf.yield %max, %new, %r0, %r1 : tensor<16xf32>, tensor<64x16xf32>, tensor<64x16xf32>, tensor<64x16xf32>
    }
    %total = tile.reduce sum %state#1 dim 0 : tensor<64x16xf32> -> tensor<16xf32>
    %tb = tile.broadcast %total dim 0 : tensor<16xf32> -> tensor<64x16xf32>
    %y0 = arith.divf %state#2, %tb : tensor<64x16xf32>
    %y1 = arith.divf %state#3, %tb : tensor<64x16xf32>
    %some = arith.cmpi slt, %c0, %len : index
    scf.if %some {
      %ov = memref.reinterpret_cast %out to offset: [0], sizes: [%rows, 128], strides: [128, 1]
          : memref<?xf32> to memref<?x128xf32, strided<[128, 1]>>
      tile.store %y0, %ov[%row, %c0] transposed : tensor<64x16xf32>, memref<?x128xf32, strided<[128, 1]>>
      tile.store %y1, %ov[%row, %c64] transposed : tensor<64x16xf32>, memref<?x128xf32, strided<[128, 1]>>
      tile.store %total, %lse[%row] : tensor<16xf32>, memref<?xf32>
    }
  }
  tile.return
}
