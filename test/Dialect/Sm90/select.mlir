// RUN: mla-opt %s --verify-roundtrip | FileCheck %s

// B41: the steps of a selection, of a list and of a row.
// CHECK-LABEL: func @select_B41
func.func @select_B41(%v: memref<?x?xf32, strided<[?, 1]>>, %o: memref<?x7xi32, strided<[7, 1]>>, %g: memref<?x2x4096xf32>, %k: memref<?xi32>, %n: index, %w: !sm90.smem<1x2240xi32, linear>, %l: !sm90.smem<2x4096xf32, linear>, %b: !sm90.smem<1x8xi32, linear>, %p: !sm90.smem<1x2xi32, linear>) {
  // CHECK: sm90.select_begin %{{.*}} : <1x2240xi32, linear>
  sm90.select_begin %w : !sm90.smem<1x2240xi32, linear>
  // CHECK: sm90.select_count_up %{{.*}} to %{{.*}}[%{{.*}}] : memref<?x7xi32, strided<[7, 1]>>
  sm90.select_count_up %n to %o[%n] : memref<?x7xi32, strided<[7, 1]>>
  // CHECK: %[[COUNT:.*]] = sm90.select_keep %{{.*}}[%{{.*}}] range %{{.*}} to %{{.*}} of %{{.*}} rank 7 to %{{.*}} work
  %c = sm90.select_keep %v[%n] range %n to %n of %n rank 7 to %l work %w : memref<?x?xf32, strided<[?, 1]>>, !sm90.smem<2x4096xf32, linear>, !sm90.smem<1x2240xi32, linear>
  // CHECK: %[[NUMBERS:.*]] = sm90.select_hold %{{.*}}[%{{.*}}] of %{{.*}} to %{{.*}} work
  %h = sm90.select_hold %v[%n] of %n to %l work %w : memref<?x?xf32, strided<[?, 1]>>, !sm90.smem<2x4096xf32, linear>, !sm90.smem<1x2240xi32, linear>
  // CHECK: sm90.select_cut list(%{{.*}} : !sm90.smem<2x4096xf32, linear>) in_order of %[[NUMBERS]] rank 7
  %q, %r = sm90.select_cut list(%l : !sm90.smem<2x4096xf32, linear>) in_order of %h rank 7 work %w : !sm90.smem<1x2240xi32, linear>
  // CHECK: sm90.select_write_in_order %{{.*}} of %[[NUMBERS]] cut %{{.*}}, %{{.*}} to %{{.*}}[%{{.*}}] work
  sm90.select_write_in_order %l of %h cut %q, %r to %o[%n] work %w : !sm90.smem<2x4096xf32, linear>, memref<?x7xi32, strided<[7, 1]>>, !sm90.smem<1x2240xi32, linear>
  // CHECK: %{{.*}}, %[[TOTAL:.*]] = sm90.select_meet %{{.*}} of %[[COUNT]] at %{{.*}}[%{{.*}}] counters
  %a, %t = sm90.select_meet %l of %c at %g[%n] counters %k programs %n work %w
      : !sm90.smem<2x4096xf32, linear>, memref<?x2x4096xf32>, memref<?xi32>, !sm90.smem<1x2240xi32, linear>
  // CHECK: sm90.select_cut list(%{{.*}} : !sm90.smem<2x4096xf32, linear>) of %[[TOTAL]] rank 7 work
  %x, %y = sm90.select_cut list(%l : !sm90.smem<2x4096xf32, linear>) of %t rank 7 work %w : !sm90.smem<1x2240xi32, linear>
  // CHECK: sm90.select_cut values(%{{.*}} : memref<?x?xf32, strided<[?, 1]>>) [%{{.*}}] of %[[TOTAL]] rank 7
  %s, %u = sm90.select_cut values(%v : memref<?x?xf32, strided<[?, 1]>>)[%n] of %t rank 7 work %w : !sm90.smem<1x2240xi32, linear>
  // CHECK: sm90.select_write list(%{{.*}} : !sm90.smem<2x4096xf32, linear>) of %[[TOTAL]] length
  sm90.select_write list(%l : !sm90.smem<2x4096xf32, linear>) of %t length %n cut %x, %y to %o[%n] bitmap %b places %p work %w
      : memref<?x7xi32, strided<[7, 1]>>, !sm90.smem<1x8xi32, linear>, !sm90.smem<1x2xi32, linear>, !sm90.smem<1x2240xi32, linear>
  // CHECK: sm90.select_write values(%{{.*}} : memref<?x?xf32, strided<[?, 1]>>) length
  sm90.select_write values(%v : memref<?x?xf32, strided<[?, 1]>>) length %n cut %s, %u to %o[%n] bitmap %b places %p work %w
      : memref<?x7xi32, strided<[7, 1]>>, !sm90.smem<1x8xi32, linear>, !sm90.smem<1x2xi32, linear>, !sm90.smem<1x2240xi32, linear>
  return
}

// B06: a list's numbers as bits.
// CHECK-LABEL: func @set_bits_B06
func.func @set_bits_B06(%l: memref<?x8xi32, strided<[8, 1]>>, %o: memref<?x?xi32, strided<[?, 1]>>, %n: index, %w: !sm90.smem<1x64xi32, linear>) {
  // CHECK: sm90.set_bits %{{.*}}[%{{.*}}] from %{{.*}} to %{{.*}} work %{{.*}} : memref<?x8xi32, strided<[8, 1]>>, memref<?x?xi32, strided<[?, 1]>>, <1x64xi32, linear>
  sm90.set_bits %l[%n] from %n to %o work %w : memref<?x8xi32, strided<[8, 1]>>, memref<?x?xi32, strided<[?, 1]>>, !sm90.smem<1x64xi32, linear>
  return
}
