// RUN: mla-opt %s --split-input-file --verify-diagnostics

// One case for each constraint of Sm90SelectOps.td.

sm90.kernel @select_c0() attributes {warpgroups = 1 : i32} {
  %w = sm90.alloc : !sm90.smem<1x2240xi32, linear>
  // expected-error @below {{expected a kernel of at least 2 warpgroups, and no role: all threads of the CTA work together}}
  sm90.select_begin %w : !sm90.smem<1x2240xi32, linear>
  sm90.return
}

// -----

func.func @select_begin_c1(%w: !sm90.smem<1x2048xi32, linear>) {
  // expected-error @below {{expected work of type '!sm90.smem<1x2240xi32, linear>', got '!sm90.smem<1x2048xi32, linear>'}}
  sm90.select_begin %w : !sm90.smem<1x2048xi32, linear>
  return
}

// -----

func.func @select_count_up_c1(%n: index, %o: memref<?x?xi32>) {
  // expected-error @below {{expected out [rows, columns] of 'i32' with static columns, got 'memref<?x?xi32>'}}
  sm90.select_count_up %n to %o[%n] : memref<?x?xi32>
  return
}

// -----

func.func @select_keep_c1(%n: index, %v: memref<?xf32>, %l: !sm90.smem<2x4096xf32, linear>, %w: !sm90.smem<1x2240xi32, linear>) {
  // expected-error @below {{expected values [rows, columns] of 'f32', got 'memref<?xf32>'}}
  %c = sm90.select_keep %v[%n] range %n to %n of %n rank 7 to %l work %w : memref<?xf32>, !sm90.smem<2x4096xf32, linear>, !sm90.smem<1x2240xi32, linear>
  return
}

// -----

func.func @select_keep_c2(%n: index, %v: memref<?x?xf32, strided<[?, 1]>>, %l: !sm90.smem<1x4096xf32, linear>, %w: !sm90.smem<1x2240xi32, linear>) {
  // expected-error @below {{expected a list of type '!sm90.smem<2x4096xf32, linear>', got '!sm90.smem<1x4096xf32, linear>'}}
  %c = sm90.select_keep %v[%n] range %n to %n of %n rank 7 to %l work %w : memref<?x?xf32, strided<[?, 1]>>, !sm90.smem<1x4096xf32, linear>, !sm90.smem<1x2240xi32, linear>
  return
}

// -----

sm90.kernel @select_keep_c2_samples(%s: memref<?xf32>, %n: index) attributes {warpgroups = 8 : i32} {
  %v = memref.reinterpret_cast %s to offset: [0], sizes: [%n, %n], strides: [%n, 1]
      : memref<?xf32> to memref<?x?xf32, strided<[?, 1]>>
  %w = sm90.alloc : !sm90.smem<1x2240xi32, linear>
  %l = sm90.alloc : !sm90.smem<2x4096xf32, linear>
  // expected-error @below {{expected a list with room for 16384 samples, got 8192}}
  %c = sm90.select_keep %v[%n] range %n to %n of %n rank 7 to %l work %w
      : memref<?x?xf32, strided<[?, 1]>>, !sm90.smem<2x4096xf32, linear>, !sm90.smem<1x2240xi32, linear>
  sm90.return
}

// -----

func.func @select_keep_c3(%n: index, %v: memref<?x?xf32, strided<[?, 1]>>, %l: !sm90.smem<2x4096xf32, linear>, %w: !sm90.smem<2x4096xf32, linear>) {
  // expected-error @below {{expected work of type '!sm90.smem<1x2240xi32, linear>', got '!sm90.smem<2x4096xf32, linear>'}}
  %c = sm90.select_keep %v[%n] range %n to %n of %n rank 7 to %l work %w : memref<?x?xf32, strided<[?, 1]>>, !sm90.smem<2x4096xf32, linear>, !sm90.smem<2x4096xf32, linear>
  return
}

// -----

func.func @select_meet_c1(%n: index, %i: i32, %l: !sm90.smem<2x4096xf32, linear>, %w: !sm90.smem<1x2240xi32, linear>, %k: memref<?xi32>, %g: memref<?x2x100xf32>) {
  // expected-error @below {{expected lists [rows, 2, 4096] of f32, got 'memref<?x2x100xf32>'}}
  %a, %b = sm90.select_meet %l of %i at %g[%n] counters %k programs %n work %w : !sm90.smem<2x4096xf32, linear>, memref<?x2x100xf32>, memref<?xi32>, !sm90.smem<1x2240xi32, linear>
  return
}

// -----

func.func @select_meet_c2(%n: index, %i: i32, %l: !sm90.smem<2x4096xf32, linear>, %w: !sm90.smem<2x4096xf32, linear>, %k: memref<?xi32>, %g: memref<?x2x4096xf32>) {
  // expected-error @below {{expected work of type '!sm90.smem<1x2240xi32, linear>', got '!sm90.smem<2x4096xf32, linear>'}}
  %a, %b = sm90.select_meet %l of %i at %g[%n] counters %k programs %n work %w : !sm90.smem<2x4096xf32, linear>, memref<?x2x4096xf32>, memref<?xi32>, !sm90.smem<2x4096xf32, linear>
  return
}

// -----

func.func @select_cut_c1(%i: i32, %w: !sm90.smem<1x2240xi32, linear>) {
  // expected-error @below {{expected a list, or a row of values}}
  %k, %b = sm90.select_cut of %i rank 7 work %w : !sm90.smem<1x2240xi32, linear>
  return
}

// -----

func.func @select_cut_c2(%i: i32, %l: !sm90.smem<2x4096xf32, linear>, %w: !sm90.smem<2x4096xf32, linear>) {
  // expected-error @below {{expected work of type '!sm90.smem<1x2240xi32, linear>', got '!sm90.smem<2x4096xf32, linear>'}}
  %k, %b = sm90.select_cut list(%l : !sm90.smem<2x4096xf32, linear>) of %i rank 7 work %w : !sm90.smem<2x4096xf32, linear>
  return
}

// -----

func.func @select_write_c1(%n: index, %i: i32, %l: !sm90.smem<2x4096xf32, linear>, %w: !sm90.smem<1x2240xi32, linear>, %b: !sm90.smem<1x8xi32, linear>, %p: !sm90.smem<1x2xi32, linear>, %o: memref<?x7xi32, strided<[7, 1]>>) {
  // expected-error @below {{expected a list with a count, or values}}
  sm90.select_write  length %n cut %i, %i to %o[%n] bitmap %b places %p work %w : memref<?x7xi32, strided<[7, 1]>>, !sm90.smem<1x8xi32, linear>, !sm90.smem<1x2xi32, linear>, !sm90.smem<1x2240xi32, linear>
  return
}

// -----

func.func @select_write_c2(%n: index, %i: i32, %l: !sm90.smem<2x4096xf32, linear>, %w: !sm90.smem<1x2240xi32, linear>, %b: !sm90.smem<1x8xi32, linear>, %p: !sm90.smem<1x2xi32, linear>, %o: memref<?x?xi32>) {
  // expected-error @below {{expected out [rows, columns] of 'i32' with static columns, got 'memref<?x?xi32>'}}
  sm90.select_write list(%l : !sm90.smem<2x4096xf32, linear>) of %i length %n cut %i, %i to %o[%n] bitmap %b places %p work %w : memref<?x?xi32>, !sm90.smem<1x8xi32, linear>, !sm90.smem<1x2xi32, linear>, !sm90.smem<1x2240xi32, linear>
  return
}

// -----

func.func @select_write_c3(%n: index, %i: i32, %l: !sm90.smem<2x4096xf32, linear>, %w: !sm90.smem<1x2240xi32, linear>, %b: !sm90.smem<1x2xi32, linear>, %p: !sm90.smem<1x2xi32, linear>, %o: memref<?x7xi32, strided<[7, 1]>>) {
  // expected-error @below {{expected a bitmap of type '!sm90.smem<1x8xi32, linear>', got '!sm90.smem<1x2xi32, linear>'}}
  sm90.select_write list(%l : !sm90.smem<2x4096xf32, linear>) of %i length %n cut %i, %i to %o[%n] bitmap %b places %p work %w : memref<?x7xi32, strided<[7, 1]>>, !sm90.smem<1x2xi32, linear>, !sm90.smem<1x2xi32, linear>, !sm90.smem<1x2240xi32, linear>
  return
}

// -----

func.func @select_write_c4(%n: index, %i: i32, %l: !sm90.smem<2x4096xf32, linear>, %w: !sm90.smem<2x4096xf32, linear>, %b: !sm90.smem<1x8xi32, linear>, %p: !sm90.smem<1x2xi32, linear>, %o: memref<?x7xi32, strided<[7, 1]>>) {
  // expected-error @below {{expected work of type '!sm90.smem<1x2240xi32, linear>', got '!sm90.smem<2x4096xf32, linear>'}}
  sm90.select_write list(%l : !sm90.smem<2x4096xf32, linear>) of %i length %n cut %i, %i to %o[%n] bitmap %b places %p work %w : memref<?x7xi32, strided<[7, 1]>>, !sm90.smem<1x8xi32, linear>, !sm90.smem<1x2xi32, linear>, !sm90.smem<2x4096xf32, linear>
  return
}

// -----

func.func @select_hold_c1(%n: index, %v: memref<?x?xbf16>, %l: !sm90.smem<2x4096xf32, linear>, %w: !sm90.smem<1x2240xi32, linear>) {
  // expected-error @below {{expected values [rows, columns] of 'f32', got 'memref<?x?xbf16>'}}
  %c = sm90.select_hold %v[%n] of %n to %l work %w : memref<?x?xbf16>, !sm90.smem<2x4096xf32, linear>, !sm90.smem<1x2240xi32, linear>
  return
}

// -----

func.func @select_hold_c2(%n: index, %v: memref<?x?xf32>, %l: !sm90.smem<1x4096xf32, linear>, %w: !sm90.smem<1x2240xi32, linear>) {
  // expected-error @below {{expected a list of type '!sm90.smem<2x4096xf32, linear>', got '!sm90.smem<1x4096xf32, linear>'}}
  %c = sm90.select_hold %v[%n] of %n to %l work %w : memref<?x?xf32>, !sm90.smem<1x4096xf32, linear>, !sm90.smem<1x2240xi32, linear>
  return
}

// -----

func.func @select_hold_c3(%n: index, %v: memref<?x?xf32>, %l: !sm90.smem<2x4096xf32, linear>, %w: !sm90.smem<1x2048xi32, linear>) {
  // expected-error @below {{expected work of type '!sm90.smem<1x2240xi32, linear>', got '!sm90.smem<1x2048xi32, linear>'}}
  %c = sm90.select_hold %v[%n] of %n to %l work %w : memref<?x?xf32>, !sm90.smem<2x4096xf32, linear>, !sm90.smem<1x2048xi32, linear>
  return
}

// -----

func.func @select_cut_c1_in_order(%i: i32, %n: index, %v: memref<?x?xf32>, %w: !sm90.smem<1x2240xi32, linear>) {
  // expected-error @below {{expected a list where they are in order}}
  %k, %b = sm90.select_cut in_order values(%v : memref<?x?xf32>)[%n] of %i rank 7 work %w : !sm90.smem<1x2240xi32, linear>
  return
}

// -----

func.func @select_write_in_order_c1(%n: index, %i: i32, %l: !sm90.smem<1x4096xf32, linear>, %w: !sm90.smem<1x2240xi32, linear>, %o: memref<?x7xi32, strided<[7, 1]>>) {
  // expected-error @below {{expected a list of type '!sm90.smem<2x4096xf32, linear>', got '!sm90.smem<1x4096xf32, linear>'}}
  sm90.select_write_in_order %l of %i cut %i, %i to %o[%n] work %w : !sm90.smem<1x4096xf32, linear>, memref<?x7xi32, strided<[7, 1]>>, !sm90.smem<1x2240xi32, linear>
  return
}

// -----

func.func @select_write_in_order_c2(%n: index, %i: i32, %l: !sm90.smem<2x4096xf32, linear>, %w: !sm90.smem<1x2240xi32, linear>, %o: memref<?x?xi32>) {
  // expected-error @below {{expected out [rows, columns] of 'i32' with static columns, got 'memref<?x?xi32>'}}
  sm90.select_write_in_order %l of %i cut %i, %i to %o[%n] work %w : !sm90.smem<2x4096xf32, linear>, memref<?x?xi32>, !sm90.smem<1x2240xi32, linear>
  return
}

// -----

func.func @select_write_in_order_c3(%n: index, %i: i32, %l: !sm90.smem<2x4096xf32, linear>, %w: !sm90.smem<2x4096xf32, linear>, %o: memref<?x7xi32, strided<[7, 1]>>) {
  // expected-error @below {{expected work of type '!sm90.smem<1x2240xi32, linear>', got '!sm90.smem<2x4096xf32, linear>'}}
  sm90.select_write_in_order %l of %i cut %i, %i to %o[%n] work %w : !sm90.smem<2x4096xf32, linear>, memref<?x7xi32, strided<[7, 1]>>, !sm90.smem<2x4096xf32, linear>
  return
}

// -----

func.func @set_bits_c1_list(%n: index, %l: memref<?x?xi32>, %o: memref<?x?xi32>, %w: !sm90.smem<1x64xi32, linear>) {
  // expected-error @below {{expected list [rows, columns] of 'i32' with static columns, got 'memref<?x?xi32>'}}
  sm90.set_bits %l[%n] from %n to %o work %w : memref<?x?xi32>, memref<?x?xi32>, !sm90.smem<1x64xi32, linear>
  return
}

// -----

func.func @set_bits_c1_list_type(%n: index, %l: memref<?x8xi64>, %o: memref<?x?xi32>, %w: !sm90.smem<1x64xi32, linear>) {
  // expected-error @below {{expected list [rows, columns] of 'i32' with static columns, got 'memref<?x8xi64>'}}
  sm90.set_bits %l[%n] from %n to %o work %w : memref<?x8xi64>, memref<?x?xi32>, !sm90.smem<1x64xi32, linear>
  return
}

// -----

func.func @set_bits_c1_out(%n: index, %l: memref<?x8xi32>, %o: memref<?xi32>, %w: !sm90.smem<1x64xi32, linear>) {
  // expected-error @below {{expected out [rows, columns] of 'i32', got 'memref<?xi32>'}}
  sm90.set_bits %l[%n] from %n to %o work %w : memref<?x8xi32>, memref<?xi32>, !sm90.smem<1x64xi32, linear>
  return
}

// -----

func.func @set_bits_c2_element(%n: index, %l: memref<?x8xi32>, %o: memref<?x?xi32>, %w: !sm90.smem<1x64xf32, linear>) {
  // expected-error @below {{expected work [1, W] of i32, linear, W a multiple of 4, got '!sm90.smem<1x64xf32, linear>'}}
  sm90.set_bits %l[%n] from %n to %o work %w : memref<?x8xi32>, memref<?x?xi32>, !sm90.smem<1x64xf32, linear>
  return
}

// -----

func.func @set_bits_c2_rows(%n: index, %l: memref<?x8xi32>, %o: memref<?x?xi32>, %w: !sm90.smem<2x64xi32, linear>) {
  // expected-error @below {{expected work [1, W] of i32, linear, W a multiple of 4, got '!sm90.smem<2x64xi32, linear>'}}
  sm90.set_bits %l[%n] from %n to %o work %w : memref<?x8xi32>, memref<?x?xi32>, !sm90.smem<2x64xi32, linear>
  return
}

// -----

func.func @set_bits_c2_multiple(%n: index, %l: memref<?x8xi32>, %o: memref<?x?xi32>, %w: !sm90.smem<1x66xi32, linear>) {
  // expected-error @below {{expected work [1, W] of i32, linear, W a multiple of 4, got '!sm90.smem<1x66xi32, linear>'}}
  sm90.set_bits %l[%n] from %n to %o work %w : memref<?x8xi32>, memref<?x?xi32>, !sm90.smem<1x66xi32, linear>
  return
}
