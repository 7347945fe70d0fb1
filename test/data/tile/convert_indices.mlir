// Positions of tokens become rows of a pool of pages of 48 tokens, or of a workspace where
// a token is of a prefill (what mla.convert_indices becomes). Grid: (tokens / 64).
tile.kernel @convert_indices(%positions: memref<?xi32>, %rows: memref<?xi32>, %tokens: index,
                            %requests: memref<?xi32>, %num_requests: index,
                            %table: memref<?xi32>, %max_blocks: index, %page_rows: index, %page_limit: index,
                            %prefills: memref<?xi32>, %starts: memref<?xi32>, %num_starts: index) attributes {tile.row_kernel} {
  %cst = arith.constant dense<-2147483648> : tensor<64xi32>
  %cst_0 = arith.constant dense<0> : tensor<64x112xi32>
  %cst_1 = arith.constant dense<-1> : tensor<64x112xi32>
  %cst_2 = arith.constant dense<48> : tensor<64x112xi32>
  %cst_3 = arith.constant dense<0> : tensor<64xi32>
  %c112 = arith.constant 112 : index
  %c64 = arith.constant 64 : index
  %0 = tile.program_id 1
  %1 = tile.program_id 0
  %2 = arith.muli %1, %c64 : index
  %3 = arith.muli %0, %c112 : index
  %reinterpret_cast = memref.reinterpret_cast %positions to offset: [0], sizes: [%tokens, 100], strides: [100, 1]
      : memref<?xi32> to memref<?x100xi32, strided<[100, 1]>>
  %4 = tile.load %reinterpret_cast[%2, %3] : memref<?x100xi32, strided<[100, 1]>> -> tensor<64x112xi32>
  %reinterpret_cast_4 = memref.reinterpret_cast %requests to offset: [0], sizes: [%tokens], strides: [1]
      : memref<?xi32> to memref<?xi32, strided<[1]>>
  %5 = tile.load %reinterpret_cast_4[%2] : memref<?xi32, strided<[1]>> -> tensor<64xi32>
  %6 = arith.index_cast %num_requests : index to i32
  %7 = tile.splat %6 : i32 -> tensor<64xi32>
  %8 = arith.cmpi ult, %5, %7 : tensor<64xi32>
  %9 = arith.index_cast %max_blocks : index to i32
  %10 = tile.splat %9 : i32 -> tensor<64xi32>
  %11 = arith.select %8, %10, %cst_3 : tensor<64xi1>, tensor<64xi32>
  %12 = arith.divui %4, %cst_2 : tensor<64x112xi32>
  %13 = arith.muli %12, %cst_2 : tensor<64x112xi32>
  %14 = arith.subi %4, %13 : tensor<64x112xi32>
  %reinterpret_cast_5 = memref.reinterpret_cast %table to offset: [0], sizes: [%num_requests, %max_blocks], strides: [%max_blocks, 1]
      : memref<?xi32> to memref<?x?xi32, strided<[?, 1]>>
  %15 = tile.broadcast %5 : tensor<64xi32> -> tensor<64x112xi32>
  %16 = tile.load_elements %reinterpret_cast_5[%15, %12]
      : memref<?x?xi32, strided<[?, 1]>>, tensor<64x112xi32>, tensor<64x112xi32> -> tensor<64x112xi32>
  %17 = tile.broadcast %11 : tensor<64xi32> -> tensor<64x112xi32>
  %18 = arith.cmpi ult, %12, %17 : tensor<64x112xi32>
  %19 = arith.index_cast %page_limit : index to i32
  %20 = tile.splat %19 : i32 -> tensor<64x112xi32>
  %21 = arith.cmpi ult, %16, %20 : tensor<64x112xi32>
  %22 = arith.andi %18, %21 : tensor<64x112xi1>
  %23 = arith.index_cast %page_rows : index to i32
  %24 = tile.splat %23 : i32 -> tensor<64x112xi32>
  %25 = arith.muli %16, %24 : tensor<64x112xi32>
  %26 = arith.addi %25, %14 : tensor<64x112xi32>
  %27 = arith.select %22, %26, %cst_1 : tensor<64x112xi1>, tensor<64x112xi32>
  %reinterpret_cast_6 = memref.reinterpret_cast %prefills to offset: [0], sizes: [%tokens], strides: [1]
      : memref<?xi32> to memref<?xi32, strided<[1]>>
  %28 = tile.load %reinterpret_cast_6[%2] : memref<?xi32, strided<[1]>> -> tensor<64xi32>
  %29 = tile.broadcast %28 : tensor<64xi32> -> tensor<64x112xi32>
  %30 = arith.cmpi slt, %29, %cst_0 : tensor<64x112xi32>
  %reinterpret_cast_7 = memref.reinterpret_cast %starts to offset: [0], sizes: [%num_starts], strides: [1]
      : memref<?xi32> to memref<?xi32, strided<[1]>>
  %31 = arith.index_cast %num_starts : index to i32
  %32 = tile.splat %31 : i32 -> tensor<64xi32>
  %33 = arith.cmpi ult, %28, %32 : tensor<64xi32>
  %34 = tile.load_elements %reinterpret_cast_7[%28]
      : memref<?xi32, strided<[1]>>, tensor<64xi32> -> tensor<64xi32>
  %35 = arith.select %33, %34, %cst : tensor<64xi1>, tensor<64xi32>
  %36 = tile.broadcast %35 : tensor<64xi32> -> tensor<64x112xi32>
  %37 = arith.addi %36, %4 : tensor<64x112xi32>
  %38 = arith.maxsi %37, %cst_1 : tensor<64x112xi32>
  %39 = arith.select %30, %27, %38 : tensor<64x112xi1>, tensor<64x112xi32>
  %40 = arith.cmpi sge, %4, %cst_0 : tensor<64x112xi32>
  %41 = arith.select %40, %39, %cst_1 : tensor<64x112xi1>, tensor<64x112xi32>
  %reinterpret_cast_8 = memref.reinterpret_cast %rows to offset: [0], sizes: [%tokens, 100], strides: [100, 1]
      : memref<?xi32> to memref<?x100xi32, strided<[100, 1]>>
  tile.store %41, %reinterpret_cast_8[%2, %3] : tensor<64x112xi32>, memref<?x100xi32, strided<[100, 1]>>
  tile.return
}
