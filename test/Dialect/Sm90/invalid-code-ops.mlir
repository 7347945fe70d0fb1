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
