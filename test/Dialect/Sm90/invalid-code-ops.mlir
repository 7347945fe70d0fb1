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
