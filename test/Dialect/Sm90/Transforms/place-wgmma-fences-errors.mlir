// RUN: mla-opt %s --pass-pipeline='builtin.module(sm90.kernel(sm90-place-wgmma-fences))' --split-input-file --verify-diagnostics

!tile = !sm90.smem<64x64xbf16>
!acc = tensor<64x64xf32, #sm90.fragment<column_split = 1>>
!frag = tensor<64x64xbf16, #sm90.fragment<column_split = 1>>
sm90.kernel @no_wait() attributes {warpgroups = 1 : i32} {
  %zero = arith.constant dense<0.0> : !acc
  %a = sm90.alloc : !tile
  // expected-note @+1 {{of this wgmma}}
  %0 = sm90.wgmma %a, %a, %zero : !tile, !tile -> !acc
  sm90.wgmma_commit
  // expected-error @+1 {{uses an accumulator that a wgmma may still write: no sm90.wgmma_wait has covered its group}}
  %1 = arith.truncf %0 : !acc to !frag
  sm90.return
}

// -----

// The wait leaves the group of its own accumulator in flight.
!tile = !sm90.smem<64x64xbf16>
!acc = tensor<64x64xf32, #sm90.fragment<column_split = 1>>
!frag = tensor<64x64xbf16, #sm90.fragment<column_split = 1>>
sm90.kernel @not_covered() attributes {warpgroups = 1 : i32} {
  %zero = arith.constant dense<0.0> : !acc
  %a = sm90.alloc : !tile
  // expected-note @+1 {{of this wgmma}}
  %0 = sm90.wgmma %a, %a, %zero : !tile, !tile -> !acc
  sm90.wgmma_commit
  %1 = sm90.wgmma_wait 1, %0 : !acc
  // expected-error @+1 {{uses an accumulator that a wgmma may still write: no sm90.wgmma_wait has covered its group}}
  %2 = arith.truncf %1 : !acc to !frag
  sm90.return
}

// -----

!tile = !sm90.smem<64x64xbf16>
!acc = tensor<64x64xf32, #sm90.fragment<column_split = 1>>
!frag = tensor<64x64xbf16, #sm90.fragment<column_split = 1>>
sm90.kernel @no_commit() attributes {warpgroups = 1 : i32} {
  %zero = arith.constant dense<0.0> : !acc
  %a = sm90.alloc : !tile
  // expected-note @+1 {{of this wgmma}}
  %0 = sm90.wgmma %a, %a, %zero : !tile, !tile -> !acc
  // expected-error @+1 {{takes an accumulator whose group no sm90.wgmma_commit has closed}}
  %1 = sm90.wgmma_wait 0, %0 : !acc
  sm90.return
}

// -----

// Through a loop: the use is in the next iteration.
!tile = !sm90.smem<64x64xbf16>
!acc = tensor<64x64xf32, #sm90.fragment<column_split = 1>>
!frag = tensor<64x64xbf16, #sm90.fragment<column_split = 1>>
sm90.kernel @no_wait_in_loop(%n: index) attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : !acc
  %a = sm90.alloc : !tile
  %r = scf.for %k = %c0 to %n step %c1 iter_args(%acc = %zero) -> (!acc) {
    // expected-error @+1 {{uses an accumulator that a wgmma may still write: no sm90.wgmma_wait has covered its group}}
    %0 = math.exp2 %acc : !acc
    // expected-note @+1 {{of this wgmma}}
    %1 = sm90.wgmma %a, %a, %0 : !tile, !tile -> !acc
    sm90.wgmma_commit
    scf.yield %1 : !acc
  }
  sm90.return
}

// -----

// ptxas 13.0: "(C7514) Potential Performance Loss: wgmma.mma_async instructions
// are serialized due to non wgmma instructions reading accumulator registers".
!tile = !sm90.smem<64x64xbf16>
!acc = tensor<64x64xf32, #sm90.fragment<column_split = 1>>
!frag = tensor<64x64xbf16, #sm90.fragment<column_split = 1>>
sm90.kernel @first_wait(%n: index) attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : !acc
  %a = sm90.alloc : !tile
  %i = sm90.wgmma %a, %a, %zero : !tile, !tile -> !acc
  sm90.wgmma_commit
  %r:2 = scf.for %k = %c0 to %n step %c1 iter_args(%s = %i, %o = %zero) -> (!acc, !acc) {
    %0 = sm90.wgmma %a, %a, %o : !tile, !tile -> !acc
    sm90.wgmma_commit
    // expected-error @+1 {{is the first wait of a loop body and leaves 1 groups in flight, but an accumulator in flight across the back edge is read in the body: ptxas serialises every wgmma of such a loop (C7514)}}
    %1 = sm90.wgmma_wait 1, %s : !acc
    // expected-note @+1 {{reads its accumulator}}
    %2 = arith.truncf %1 : !acc to !frag
    %3 = sm90.wgmma_wait 0, %0 : !acc
    // expected-note @+1 {{in flight at the end of the body}}
    %4 = sm90.wgmma %a, %a, %zero : !tile, !tile -> !acc
    sm90.wgmma_commit
    scf.yield %4, %3 : !acc, !acc
  } {sm90.at_least_once}
  %4:2 = sm90.wgmma_wait 0, %r#0, %r#1 : !acc, !acc
  sm90.return
}

// -----

!tile = !sm90.smem<64x64xbf16>
!acc = tensor<64x64xf32, #sm90.fragment<column_split = 1>>
!frag = tensor<64x64xbf16, #sm90.fragment<column_split = 1>>
sm90.kernel @left_operand(%n: index) attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : !acc
  %a = sm90.alloc : !tile
  %r = scf.for %k = %c0 to %n step %c1 iter_args(%acc = %zero) -> (!acc) {
    %l = sm90.load_shared %a : !tile -> !frag
    // expected-error @+1 {{may still read its left operand's registers when the next iteration writes them}}
    %0 = sm90.wgmma %l, %a, %acc : !frag, !tile -> !acc
    sm90.wgmma_commit
    %1 = sm90.wgmma_wait 1, %0 : !acc
    scf.yield %1 : !acc
  } {sm90.at_least_once}
  %2 = sm90.wgmma_wait 0, %r : !acc
  sm90.return
}

// -----

!tile = !sm90.smem<64x64xbf16>
!acc = tensor<64x64xf32, #sm90.fragment<column_split = 1>>
sm90.kernel @while_in_flight(%n: index) attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : !acc
  %a = sm90.alloc : !tile
  %r:2 = scf.while (%i = %c0, %acc = %zero) : (index, !acc) -> (index, !acc) {
    %goes_on = arith.cmpi slt, %i, %n : index
    scf.condition(%goes_on) %i, %acc : index, !acc
  } do {
  ^bb0(%i: index, %acc: !acc):
    // expected-error @+1 {{is in flight at the end of an scf.while's body}}
    %0 = sm90.wgmma %a, %a, %acc : !tile, !tile -> !acc
    sm90.wgmma_commit
    %next = arith.addi %i, %c1 : index
    scf.yield %next, %0 : index, !acc
  }
  %2 = sm90.wgmma_wait 0, %r#1 : !acc
  sm90.return
}
