// RUN: mla-opt %s --convert-sm90-to-nvvm --split-input-file --verify-diagnostics

sm90.kernel @no_offset() attributes {warpgroups = 1 : i32} {
  // expected-error @+2 {{has no offset; run sm90-allocate-shared-memory first}}
  // expected-error @+1 {{failed to legalize operation 'sm90.alloc'}}
  %t = sm90.alloc : !sm90.smem<64x64xbf16>
  sm90.return
}

// -----

sm90.kernel @no_ring_offset() attributes {warpgroups = 1 : i32} {
  // expected-error @+1 {{has no offsets; run sm90-allocate-shared-memory first}}
  %r = sm90.ring full_count 1 empty_count 0 : !sm90.ring<stages = 1, parts = 1>
  sm90.return
}

// -----

sm90.kernel @no_tile_offset() attributes {warpgroups = 1 : i32} {
  // expected-error @+1 {{has no offsets; run sm90-allocate-shared-memory first}}
  %r = sm90.ring full_count 1 empty_count 0 barrier_offset 0
      : !sm90.ring<stages = 1, parts = 1, tiles = [!sm90.smem<8x64xbf16>]>
  sm90.return
}

// -----

// Which ring it is must be known: offsets are compile-time numbers.
sm90.kernel @chosen_ring(%c: index) attributes {warpgroups = 1 : i32, shared_bytes = 16 : i64} {
  %c0 = arith.constant 0 : index
  %a = sm90.ring full_count 1 empty_count 0 barrier_offset 0 : !sm90.ring<stages = 1, parts = 1>
  %b = sm90.ring full_count 1 empty_count 0 barrier_offset 8 : !sm90.ring<stages = 1, parts = 1>
  %first = arith.cmpi eq, %c, %c0 : index
  %s = sm90.stage_start
  %r = scf.if %first -> (!sm90.ring<stages = 1, parts = 1>) {
    scf.yield %a : !sm90.ring<stages = 1, parts = 1>
  } else {
    scf.yield %b : !sm90.ring<stages = 1, parts = 1>
  }
  // expected-error @+2 {{expected the result of a sm90.ring}}
  // expected-error @+1 {{failed to legalize operation 'sm90.await'}}
  sm90.await %r[%s] part 0 : !sm90.ring<stages = 1, parts = 1>
  sm90.return
}

// -----

// A tensor without an encoding is in no registers.
sm90.kernel @plain_tensor() attributes {warpgroups = 1 : i32} {
  // expected-error @+1 {{expected tensors with an encoding of sm90, got 'tensor<64x16xf32>'}}
  %zero = arith.constant dense<0.0> : tensor<64x16xf32>
  sm90.return
}

// -----

// Elements of a tile are values of a thread, each of its own: a wide one took minutes.
sm90.kernel @wide_tile() attributes {warpgroups = 1 : i32} {
  // expected-error @+1 {{expected at most 1024 elements of a tile in a thread, got 524288 of 'tensor<64x1048576xf32, #sm90.fragment<column_split = 1>>'}}
  %zero = arith.constant dense<0.0> : tensor<64x1048576xf32, #sm90.fragment<column_split = 1>>
  sm90.return
}

// -----

sm90.kernel @long_columns() attributes {warpgroups = 1 : i32} {
  // expected-error @+1 {{expected at most 1024 elements of a tile in a thread, got 1026 of 'tensor<4104xi32, #sm90.columns>'}}
  %columns = arith.constant dense<0> : tensor<4104xi32, #sm90.columns>
  sm90.return
}
