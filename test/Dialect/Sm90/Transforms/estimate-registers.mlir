// RUN: mla-opt %s --pass-pipeline='builtin.module(sm90.kernel(sm90-estimate-registers{report}))' --split-input-file --verify-diagnostics

!tile = !sm90.smem<64x64xbf16>
!wide = !sm90.smem<64x256xbf16>
!scores = tensor<64x64xf32, #sm90.fragment<column_split = 1>>
!weights = tensor<64x64xbf16, #sm90.fragment<column_split = 1>>
!queries = tensor<64x256xbf16, #sm90.fragment<column_split = 1>>
!output = tensor<64x256xf32, #sm90.fragment<column_split = 1>>
!rows = tensor<64xf32, #sm90.rows>

sm90.kernel @roles(%n: index) attributes {warpgroups = 3 : i32} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %q = sm90.alloc : !wide
  %k = sm90.alloc : !wide
  %p = sm90.alloc : !tile
  // The queries (64) live through the loop, the scores (32) become exponentials
  // in place, and both they and the weights (16) live at the conversion, with a
  // maximum per row (2).
  // expected-remark @+1 {{role 'scores' needs about 140 registers, 114 of them for fragments, of 184}}
  sm90.role "scores" warpgroups 0 to 1 registers 184 {
    %zero = arith.constant dense<0.0> : !scores
    %start = arith.constant dense<-1.0e30> : !rows
    %l = sm90.load_shared %q : !wide -> !queries
    %m = scf.for %i = %c0 to %n step %c1 iter_args(%max = %start) -> (!rows) {
      %0 = sm90.wgmma %l, %k, %zero transpose_rhs : !queries, !wide -> !scores
      sm90.wgmma_commit
      %1 = sm90.wgmma_wait 0, %0 : !scores
      %2 = sm90.reduce max %1 : !scores -> !rows
      %3 = arith.maximumf %2, %max : !rows
      %4 = sm90.broadcast %3 : !rows -> !scores
      %5 = arith.subf %1, %4 : !scores
      %6 = math.exp2 %5 : !scores
      // expected-note @+1 {{behind this op}}
      %7 = arith.truncf %6 : !scores to !weights
      sm90.store_shared %7, %p : !weights, !tile
      %8 = sm90.reduce sum %6 : !scores -> !rows
      %9 = arith.addf %8, %3 : !rows
      scf.yield %9 : !rows
    }
  }
  // An accumulator alone.
  // expected-remark @+1 {{role 'values' needs about 154 registers, 128 of them for fragments, of 160}}
  sm90.role "values" warpgroups 1 to 2 registers 160 {
    %zero = arith.constant dense<0.0> : !output
    %o = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (!output) {
      // expected-note @+1 {{behind this op}}
      %0 = sm90.wgmma %p, %k, %acc : !tile, !wide -> !output
      sm90.wgmma_commit
      %1 = sm90.wgmma_wait 0, %0 : !output
      scf.yield %1 : !output
    }
    %h = arith.truncf %o : !output to !queries
    sm90.store_shared %h, %q : !queries, !wide
  }
  // No fragments, no remark.
  sm90.role "copy" warpgroups 2 to 3 registers 40 {
  }
  sm90.return
}

// -----

// ptxas 13.0: "(C7602) … wgmma … needs a register target of 154".
!tile = !sm90.smem<64x64xbf16>
!wide = !sm90.smem<64x256xbf16>
!output = tensor<64x256xf32, #sm90.fragment<column_split = 1>>
sm90.kernel @too_many() attributes {warpgroups = 1 : i32} {
  %k = sm90.alloc : !wide
  %p = sm90.alloc : !tile
  // expected-remark @+2 {{role 'values' needs about 154 registers, 128 of them for fragments, of 152}}
  // expected-error @+1 {{expected role 'values' to need at most its 152 registers, got 128 in fragments and 26 for addresses}}
  sm90.role "values" warpgroups 0 to 1 registers 152 {
    %zero = arith.constant dense<0.0> : !output
    // expected-note @+1 {{behind this op}}
    %0 = sm90.wgmma %p, %k, %zero : !tile, !wide -> !output
    sm90.wgmma_commit
    %1 = sm90.wgmma_wait 0, %0 : !output
    %2 = math.exp2 %1 : !output
    %3 = arith.truncf %2 : !output to tensor<64x256xbf16, #sm90.fragment<column_split = 1>>
    sm90.store_shared %3, %k : tensor<64x256xbf16, #sm90.fragment<column_split = 1>>, !wide
  }
  sm90.return
}

// -----

// Operands in registers are free behind the first wait for their product: two of three are alive at once,
// 16 registers each, beside 32 of the accumulator.
!queries = !sm90.smem<64x64xf16>
!words = !sm90.smem<64x64xf16>
!keys = tensor<64x64xf16, #sm90.fragment<column_split = 1>>
!acc = tensor<64x64xf32, #sm90.fragment<column_split = 1>>
sm90.kernel @pending() attributes {warpgroups = 1 : i32} {
  %q = sm90.alloc : !queries
  %k = sm90.alloc : !words
  // expected-remark @+1 {{role 'scores' needs about 90 registers, 64 of them for fragments, of 96}}
  sm90.role "scores" warpgroups 0 to 1 registers 96 {
    %zero = arith.constant dense<0.0> : !acc
    %k0 = sm90.load_shared %k : !words -> !keys
    %0 = sm90.wgmma %k0, %q, %zero transpose_rhs : !keys, !queries -> !acc
    sm90.wgmma_commit
    // expected-note @+1 {{behind this op}}
    %k1 = sm90.load_shared %k : !words -> !keys
    %1 = sm90.wgmma %k1, %q, %0 transpose_rhs : !keys, !queries -> !acc
    sm90.wgmma_commit
    sm90.wgmma_wait 1
    %k2 = sm90.load_shared %k : !words -> !keys
    %2 = sm90.wgmma %k2, %q, %1 transpose_rhs : !keys, !queries -> !acc
    sm90.wgmma_commit
    %3 = sm90.wgmma_wait 0, %2 : !acc
    %4 = math.exp2 %3 : !acc
    %5 = arith.truncf %4 : !acc to !keys
    sm90.store_shared %5, %k : !keys, !words
  }
  sm90.return
}
