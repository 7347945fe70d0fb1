// RUN: mla-opt %s --split-input-file --verify-diagnostics

!codes = !sm90.smem<64x128xf8E4M3FN>
sm90.kernel @c1(%s: f32) attributes {warpgroups = 1 : i32} {
  %tile = sm90.alloc : !codes
  %target = sm90.alloc : !sm90.smem<64x64xf8E4M3FN>
  sm90.role "output" warpgroups 0 to 1 {
    // expected-error @+1 {{expected swizzle128 codes of f8E4M3FN and a target of bf16 or f16, of 64 rows, got '!sm90.smem<64x128xf8E4M3FN>' and '!sm90.smem<64x64xf8E4M3FN>'}}
    sm90.transform_codes %tile by %s to %target column 0 : !codes, f32, !sm90.smem<64x64xf8E4M3FN>
  }
  sm90.return
}

// -----

!codes = !sm90.smem<64x128xf8E4M3FN>
sm90.kernel @c2() attributes {warpgroups = 1 : i32} {
  %tile = sm90.alloc : !codes
  %target = sm90.alloc : !sm90.smem<64x128xbf16>
  sm90.role "output" warpgroups 0 to 1 {
    %scales = arith.constant dense<1.0> : tensor<64xf16, #sm90.rows>
    // expected-error @+1 {{expected a scale of each row as f32, got 'tensor<64xf16, #sm90.rows>'}}
    sm90.transform_codes %tile by %scales to %target column 0 : !codes, tensor<64xf16, #sm90.rows>, !sm90.smem<64x128xbf16>
  }
  sm90.return
}

// -----

!codes = !sm90.smem<64x128xf8E4M3FN>
sm90.kernel @c3(%s: f32) attributes {warpgroups = 1 : i32} {
  %tile = sm90.alloc : !codes
  %target = sm90.alloc : !sm90.smem<64x128xbf16>
  sm90.role "output" warpgroups 0 to 1 {
    // expected-error @+1 {{expected a column that is a multiple of 64 within the target's 128, got 128}}
    sm90.transform_codes %tile by %s to %target column 128 : !codes, f32, !sm90.smem<64x128xbf16>
  }
  sm90.return
}

// -----

!codes = !sm90.smem<64x128xf8E4M3FN>
sm90.kernel @c4(%s: f32) attributes {warpgroups = 2 : i32} {
  %tile = sm90.alloc : !codes
  %target = sm90.alloc : !sm90.smem<64x128xbf16>
  sm90.role "output" warpgroups 0 to 2 {
    // expected-error @+1 {{expected a role of one warpgroup around it}}
    sm90.transform_codes %tile by %s to %target column 0 : !codes, f32, !sm90.smem<64x128xbf16>
  }
  sm90.return
}

// -----

func.func @scales(%pool: memref<?x?x164xf32>, %table: memref<?xi32>, %n: index) {
  // expected-error @+1 {{expected a static page size (pool dimension 1), got 'memref<?x?x164xf32>'}}
  %scales = sm90.load_code_scales %pool[%table at %n, %n] limit %n : memref<?x?x164xf32>, memref<?xi32> -> tensor<64xf32, #sm90.rows>
  return
}

// -----

sm90.kernel @park_c1() attributes {warpgroups = 1 : i32} {
  %rest = sm90.alloc : !sm90.smem<4x128xf32, linear>
  sm90.role "left" warpgroups 0 to 1 {
    %scores = arith.constant dense<0.0> : tensor<64x16xf32, #sm90.fragment<column_split = 1>>
    // expected-error @+1 {{expected a whole fragment of f32 and a linear tile of f32 with 4 rows of 256 elements, got 'tensor<64x16xf32, #sm90.fragment<column_split = 1>>' and '!sm90.smem<4x128xf32, linear>'}}
    sm90.park %scores to %rest : tensor<64x16xf32, #sm90.fragment<column_split = 1>>, !sm90.smem<4x128xf32, linear>
  }
  sm90.return
}

// -----

sm90.kernel @unpark_c1() attributes {warpgroups = 1 : i32} {
  %rest = sm90.alloc : !sm90.smem<4x256xbf16, linear>
  sm90.role "left" warpgroups 0 to 1 {
    // expected-error @+1 {{expected a whole fragment of f32 and a linear tile of f32 with 4 rows of 256 elements}}
    %back = sm90.unpark %rest : !sm90.smem<4x256xbf16, linear> -> tensor<64x16xbf16, #sm90.fragment<column_split = 1>>
  }
  sm90.return
}

// -----

sm90.kernel @park_c2() attributes {warpgroups = 2 : i32} {
  %rest = sm90.alloc : !sm90.smem<4x256xf32, linear>
  sm90.role "both" warpgroups 0 to 2 {
    %scores = arith.constant dense<0.0> : tensor<64x16xf32, #sm90.fragment<column_split = 1>>
    // expected-error @+1 {{expected a role of one warpgroup around it}}
    sm90.park %scores to %rest : tensor<64x16xf32, #sm90.fragment<column_split = 1>>, !sm90.smem<4x256xf32, linear>
  }
  sm90.return
}

// -----

sm90.kernel @park_c3() attributes {cluster = 2 : i32, warpgroups = 1 : i32} {
  %rest = sm90.alloc : !sm90.smem<4x256xf32, linear>
  sm90.role "left" warpgroups 0 to 1 {
    %scores = arith.constant dense<0.0> : tensor<64x16xf32, #sm90.fragment<column_split = 1>>
    // expected-error @+1 {{expected a rank of the cluster's 2, got 2}}
    sm90.park %scores to %rest rank 2 : tensor<64x16xf32, #sm90.fragment<column_split = 1>>, !sm90.smem<4x256xf32, linear>
  }
  sm90.return
}

// -----

sm90.kernel @words_c1() attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %codes = sm90.alloc : !sm90.smem<64x128xf8E4M3FN>
  %queries = sm90.alloc : !sm90.smem<16x64xbf16>
  %s = arith.constant 1.0 : f32
  sm90.role "left" warpgroups 0 to 1 {
    // expected-error @+1 {{expected a swizzle128 tile of 64 rows of f8E4M3FN, got '!sm90.smem<16x64xbf16>'}}
    %w = sm90.load_code_words %queries column 0 columns 64 : !sm90.smem<16x64xbf16> -> tensor<64x16xi32, #sm90.fragment<column_split = 1>>
  }
  sm90.return
}

// -----

sm90.kernel @words_c2_start() attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %codes = sm90.alloc : !sm90.smem<64x128xf8E4M3FN>
  %queries = sm90.alloc : !sm90.smem<16x64xbf16>
  %s = arith.constant 1.0 : f32
  sm90.role "left" warpgroups 0 to 1 {
    // expected-error @+1 {{expected 8 words for each 32 columns, from a multiple of 32 on, within the tile's 128, got 'tensor<64x16xi32, #sm90.fragment<column_split = 1>>' of 64 from 16 on}}
    %w = sm90.load_code_words %codes column 16 columns 64 : !sm90.smem<64x128xf8E4M3FN> -> tensor<64x16xi32, #sm90.fragment<column_split = 1>>
  }
  sm90.return
}

// -----

sm90.kernel @words_c2_count() attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %codes = sm90.alloc : !sm90.smem<64x128xf8E4M3FN>
  %queries = sm90.alloc : !sm90.smem<16x64xbf16>
  %s = arith.constant 1.0 : f32
  sm90.role "left" warpgroups 0 to 1 {
    // expected-error @+1 {{got 'tensor<64x16xi32, #sm90.fragment<column_split = 1>>' of 96 from 0 on}}
    %w = sm90.load_code_words %codes column 0 columns 96 : !sm90.smem<64x128xf8E4M3FN> -> tensor<64x16xi32, #sm90.fragment<column_split = 1>>
  }
  sm90.return
}

// -----

sm90.kernel @words_c3() attributes {warpgroups = 2 : i32} {
  %c0 = arith.constant 0 : index
  %codes = sm90.alloc : !sm90.smem<64x128xf8E4M3FN>
  %queries = sm90.alloc : !sm90.smem<16x64xbf16>
  %s = arith.constant 1.0 : f32
  sm90.role "left" warpgroups 0 to 2 {
    // expected-error @+1 {{expected a role of one warpgroup around it}}
    %w = sm90.load_code_words %codes column 0 columns 64 : !sm90.smem<64x128xf8E4M3FN> -> tensor<64x16xi32, #sm90.fragment<column_split = 1>>
  }
  sm90.return
}

// -----

sm90.kernel @scale_c1() attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %codes = sm90.alloc : !sm90.smem<64x128xf8E4M3FN>
  %queries = sm90.alloc : !sm90.smem<16x64xbf16>
  %s = arith.constant 1.0 : f32
  sm90.role "left" warpgroups 0 to 1 {
    %w = arith.constant dense<0> : tensor<64x16xi32, #sm90.fragment<column_split = 1>>
    // expected-error @+1 {{expected a whole fragment of f16 and 8 words for each 32 columns of it, got 'tensor<64x64xbf16, #sm90.fragment<column_split = 1>>' of 'tensor<64x16xi32, #sm90.fragment<column_split = 1>>'}}
    %k = sm90.scale_codes %w by %s : tensor<64x16xi32, #sm90.fragment<column_split = 1>>, f32 -> tensor<64x64xbf16, #sm90.fragment<column_split = 1>>
  }
  sm90.return
}

// -----

sm90.kernel @scale_c2() attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %codes = sm90.alloc : !sm90.smem<64x128xf8E4M3FN>
  %queries = sm90.alloc : !sm90.smem<16x64xbf16>
  %s = arith.constant 1.0 : f32
  sm90.role "left" warpgroups 0 to 1 {
    %w = arith.constant dense<0> : tensor<64x16xi32, #sm90.fragment<column_split = 1>>
    %rows = arith.constant dense<1.0> : tensor<64xf16, #sm90.rows>
    // expected-error @+1 {{expected a scale of each row as f32, got 'tensor<64xf16, #sm90.rows>'}}
    %k = sm90.scale_codes %w by %rows : tensor<64x16xi32, #sm90.fragment<column_split = 1>>, tensor<64xf16, #sm90.rows> -> tensor<64x64xf16, #sm90.fragment<column_split = 1>>
  }
  sm90.return
}

// -----

sm90.kernel @order_c1() attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %codes = sm90.alloc : !sm90.smem<64x128xf8E4M3FN>
  %queries = sm90.alloc : !sm90.smem<16x64xbf16>
  %s = arith.constant 1.0 : f32
  sm90.role "left" warpgroups 0 to 1 {
    // expected-error @+1 {{expected swizzle128 tiles of one shape, of bf16 or f16 and of f16, got '!sm90.smem<16x64xbf16>' and '!sm90.smem<16x64xbf16>'}}
    %o = sm90.order_runs %queries by %s : !sm90.smem<16x64xbf16> -> !sm90.smem<16x64xbf16>
  }
  sm90.return
}

// -----

sm90.kernel @order_c2() attributes {warpgroups = 2 : i32} {
  %c0 = arith.constant 0 : index
  %codes = sm90.alloc : !sm90.smem<64x128xf8E4M3FN>
  %queries = sm90.alloc : !sm90.smem<16x64xbf16>
  %s = arith.constant 1.0 : f32
  sm90.role "left" warpgroups 0 to 2 {
    // expected-error @+1 {{expected a role of one warpgroup around it}}
    %o = sm90.order_runs %queries by %s : !sm90.smem<16x64xbf16> -> !sm90.smem<16x64xf16>
  }
  sm90.return
}

// -----

sm90.kernel @store_c1(%p: memref<?xbf16>) attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %codes = sm90.alloc : !sm90.smem<64x128xf8E4M3FN>
  %queries = sm90.alloc : !sm90.smem<16x64xbf16>
  %s = arith.constant 1.0 : f32
  sm90.role "left" warpgroups 0 to 1 {
    %view = memref.reinterpret_cast %p to offset: [0], sizes: [64, 16], strides: [16, 1]
        : memref<?xbf16> to memref<64x16xbf16, strided<[16, 1]>>
    %v = arith.constant dense<0.0> : tensor<64x16xf32, #sm90.fragment<column_split = 1>>
    // expected-error @+1 {{expected a whole fragment, and a view and offsets of rank 2 of its element type, got 'tensor<64x16xf32, #sm90.fragment<column_split = 1>>', 'memref<64x16xbf16, strided<[16, 1]>>' and 2 offsets}}
    sm90.store_runs %v, %view[%c0, %c0] : tensor<64x16xf32, #sm90.fragment<column_split = 1>>, memref<64x16xbf16, strided<[16, 1]>>
  }
  sm90.return
}

// -----

sm90.kernel @store_c2_paired(%p: memref<?xf32>) attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %view = memref.reinterpret_cast %p to offset: [0], sizes: [16, 64], strides: [64, 1]
      : memref<?xf32> to memref<16x64xf32, strided<[64, 1]>>
  sm90.role "left" warpgroups 0 to 1 {
    %v = arith.constant dense<0.0> : tensor<64x16xf32, #sm90.fragment<column_split = 1>>
    // expected-error @+1 {{expected a transposed store not to be paired}}
    sm90.store_runs %v, %view[%c0, %c0] paired transposed : tensor<64x16xf32, #sm90.fragment<column_split = 1>>, memref<16x64xf32, strided<[64, 1]>>
  }
  sm90.return
}

// -----

sm90.kernel @columns_c1() attributes {warpgroups = 1 : i32} {
  %codes = sm90.alloc : !sm90.smem<64x128xf8E4M3FN>
  %queries = sm90.alloc : !sm90.smem<64x64xbf16>
  sm90.role "left" warpgroups 0 to 1 {
    // expected-error @+1 {{expected a swizzle128 tile of 64 rows of f8E4M3FN, got '!sm90.smem<64x64xbf16>'}}
    %w = sm90.load_code_columns %queries column 0 : !sm90.smem<64x64xbf16> -> tensor<64x16xi32, #sm90.fragment<column_split = 1>>
  }
  sm90.return
}

// -----

sm90.kernel @columns_c2_start() attributes {warpgroups = 1 : i32} {
  %codes = sm90.alloc : !sm90.smem<64x128xf8E4M3FN>
  %queries = sm90.alloc : !sm90.smem<64x64xbf16>
  sm90.role "left" warpgroups 0 to 1 {
    // expected-error @+1 {{expected a fragment [64, 16] of i32 of 64 columns from a multiple of 64 on, within the tile's 128, got 'tensor<64x16xi32, #sm90.fragment<column_split = 1>>' from 32 on}}
    %w = sm90.load_code_columns %codes column 32 : !sm90.smem<64x128xf8E4M3FN> -> tensor<64x16xi32, #sm90.fragment<column_split = 1>>
  }
  sm90.return
}

// -----

sm90.kernel @columns_c2_end() attributes {warpgroups = 1 : i32} {
  %codes = sm90.alloc : !sm90.smem<64x128xf8E4M3FN>
  %queries = sm90.alloc : !sm90.smem<64x64xbf16>
  sm90.role "left" warpgroups 0 to 1 {
    // expected-error @+1 {{within the tile's 128, got 'tensor<64x16xi32, #sm90.fragment<column_split = 1>>' from 128 on}}
    %w = sm90.load_code_columns %codes column 128 : !sm90.smem<64x128xf8E4M3FN> -> tensor<64x16xi32, #sm90.fragment<column_split = 1>>
  }
  sm90.return
}

// -----

sm90.kernel @columns_c2_result() attributes {warpgroups = 1 : i32} {
  %codes = sm90.alloc : !sm90.smem<64x128xf8E4M3FN>
  %queries = sm90.alloc : !sm90.smem<64x64xbf16>
  sm90.role "left" warpgroups 0 to 1 {
    // expected-error @+1 {{got 'tensor<64x32xi32, #sm90.fragment<column_split = 1>>' from 0 on}}
    %w = sm90.load_code_columns %codes column 0 : !sm90.smem<64x128xf8E4M3FN> -> tensor<64x32xi32, #sm90.fragment<column_split = 1>>
  }
  sm90.return
}

// -----

sm90.kernel @columns_c3() attributes {warpgroups = 2 : i32} {
  %codes = sm90.alloc : !sm90.smem<64x128xf8E4M3FN>
  %queries = sm90.alloc : !sm90.smem<64x64xbf16>
  sm90.role "left" warpgroups 0 to 2 {
    // expected-error @+1 {{expected a role of one warpgroup around it}}
    %w = sm90.load_code_columns %codes column 0 : !sm90.smem<64x128xf8E4M3FN> -> tensor<64x16xi32, #sm90.fragment<column_split = 1>>
  }
  sm90.return
}

// -----

sm90.kernel @store_c2_pairs(%p: memref<?xf32>) attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %view = memref.reinterpret_cast %p to offset: [0], sizes: [64, 16], strides: [16, 1]
      : memref<?xf32> to memref<64x16xf32, strided<[16, 1]>>
  sm90.role "left" warpgroups 0 to 1 {
    %v = arith.constant dense<0.0> : tensor<64x16xf32, #sm90.fragment<column_split = 1>>
    // expected-error @+1 {{expected a store of pairs of rows to be transposed}}
    sm90.store_runs %v, %view[%c0, %c0] pairs : tensor<64x16xf32, #sm90.fragment<column_split = 1>>, memref<64x16xf32, strided<[16, 1]>>
  }
  sm90.return
}

// -----

sm90.kernel @store_c2(%p: memref<?xf32>) attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %codes = sm90.alloc : !sm90.smem<64x128xf8E4M3FN>
  %queries = sm90.alloc : !sm90.smem<16x64xbf16>
  %s = arith.constant 1.0 : f32
  sm90.role "left" warpgroups 0 to 1 {
    %view = memref.reinterpret_cast %p to offset: [0], sizes: [64, 8], strides: [8, 1]
        : memref<?xf32> to memref<64x8xf32, strided<[8, 1]>>
    %v = arith.constant dense<0.0> : tensor<64x8xf32, #sm90.fragment<column_split = 1>>
    // expected-error @+1 {{expected a multiple of 16 columns, got 8}}
    sm90.store_runs %v, %view[%c0, %c0] : tensor<64x8xf32, #sm90.fragment<column_split = 1>>, memref<64x8xf32, strided<[8, 1]>>
  }
  sm90.return
}
