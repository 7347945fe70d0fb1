// RUN: mla-opt %s --mla-join-projections | FileCheck %s
// RUN: mla-opt %s --mla-join-projections --mla-join-projections | FileCheck %s

!w = tensor<3x128x64xbf16>
!part = tensor<3x64x64xbf16>
!heads = tensor<?x3x64xbf16>

// Keys and values of the new tokens and of a chunk, which share the slices of the weight.
// CHECK-LABEL: func @keys_and_values
// CHECK-SAME: %[[X:.*]]: tensor<?x64xbf16>, %[[Z:.*]]: tensor<?x64xbf16>, %[[W:.*]]: tensor<3x128x64xbf16>
// CHECK: %[[NEW:.*]] = mla.project %[[X]], %[[W]] : tensor<?x64xbf16>, tensor<3x128x64xbf16> -> tensor<?x3x128xbf16>
// CHECK: %[[K:.*]] = tensor.extract_slice %[[NEW]][0, 0, 0] [%{{.*}}, 3, 64] [1, 1, 1]
// CHECK: %[[V:.*]] = tensor.extract_slice %[[NEW]][0, 0, 64] [%{{.*}}, 3, 64] [1, 1, 1]
// CHECK: mla.project %[[Z]], %[[W]] : {{.*}} -> tensor<?x3x128xbf16>
// CHECK-NOT: mla.project
// CHECK: mla.head_project %[[K]],
// CHECK: mla.head_project %[[V]],
func.func @keys_and_values(%x: tensor<?x64xbf16>, %z: tensor<?x64xbf16>, %w: !w, %u: !part)
    -> (!heads, !heads, !heads, !heads) {
  %k = tensor.extract_slice %w[0, 0, 0] [3, 64, 64] [1, 1, 1] : !w to !part
  %v = tensor.extract_slice %w[0, 64, 0] [3, 64, 64] [1, 1, 1] : !w to !part
  %xk = mla.project %x, %k : tensor<?x64xbf16>, !part -> !heads
  %zk = mla.project %z, %k : tensor<?x64xbf16>, !part -> !heads
  %xv = mla.project %x, %v : tensor<?x64xbf16>, !part -> !heads
  %zv = mla.project %z, %v : tensor<?x64xbf16>, !part -> !heads
  %a = mla.head_project %xk, %u : !heads, !part -> !heads
  %b = mla.head_project %xv, %u : !heads, !part -> !heads
  %c = mla.head_project %zk, %u : !heads, !part -> !heads
  %d = mla.head_project %zv, %u : !heads, !part -> !heads
  return %a, %b, %c, %d : !heads, !heads, !heads, !heads
}

// Two parts in the middle of a weight are one slice of it.
// CHECK-LABEL: func @middle
// CHECK: %[[BOTH:.*]] = tensor.extract_slice %{{.*}}[0, 32, 0] [3, 96, 64] [1, 1, 1] : tensor<3x160x64xbf16> to tensor<3x96x64xbf16>
// CHECK: mla.project %{{.*}}, %[[BOTH]] : {{.*}} -> tensor<?x3x96xbf16>
func.func @middle(%x: tensor<?x64xbf16>, %w: tensor<3x160x64xbf16>, %u: !part, %p: tensor<3x64x32xbf16>)
    -> (!heads, !heads) {
  %k = tensor.extract_slice %w[0, 32, 0] [3, 64, 64] [1, 1, 1] : tensor<3x160x64xbf16> to !part
  %r = tensor.extract_slice %w[0, 96, 0] [3, 32, 64] [1, 1, 1] : tensor<3x160x64xbf16> to tensor<3x32x64xbf16>
  %xk = mla.project %x, %k : tensor<?x64xbf16>, !part -> !heads
  %xr = mla.project %x, %r : tensor<?x64xbf16>, tensor<3x32x64xbf16> -> tensor<?x3x32xbf16>
  %a = mla.head_project %xk, %u : !heads, !part -> !heads
  %b = mla.head_project %xr, %p : tensor<?x3x32xbf16>, tensor<3x64x32xbf16> -> !heads
  return %a, %b : !heads, !heads
}

// Not if a result leaves the function as it is: its rows must lie together.
// CHECK-LABEL: func @returned
// CHECK-COUNT-2: mla.project
func.func @returned(%x: tensor<?x64xbf16>, %w: !w, %u: !part) -> (!heads, !heads) {
  %k = tensor.extract_slice %w[0, 0, 0] [3, 64, 64] [1, 1, 1] : !w to !part
  %v = tensor.extract_slice %w[0, 64, 0] [3, 64, 64] [1, 1, 1] : !w to !part
  %xk = mla.project %x, %k : tensor<?x64xbf16>, !part -> !heads
  %xv = mla.project %x, %v : tensor<?x64xbf16>, !part -> !heads
  %a = mla.head_project %xk, %u : !heads, !part -> !heads
  return %a, %xv : !heads, !heads
}

// Not for different inputs, nor for parts with a gap between them.
// CHECK-LABEL: func @apart
// CHECK-COUNT-4: mla.project
func.func @apart(%x: tensor<?x64xbf16>, %z: tensor<?x64xbf16>, %w: !w, %g: tensor<3x136x64xbf16>, %u: !part)
    -> (!heads, !heads, !heads, !heads) {
  %k = tensor.extract_slice %w[0, 0, 0] [3, 64, 64] [1, 1, 1] : !w to !part
  %v = tensor.extract_slice %w[0, 64, 0] [3, 64, 64] [1, 1, 1] : !w to !part
  %gk = tensor.extract_slice %g[0, 0, 0] [3, 64, 64] [1, 1, 1] : tensor<3x136x64xbf16> to !part
  %gv = tensor.extract_slice %g[0, 72, 0] [3, 64, 64] [1, 1, 1] : tensor<3x136x64xbf16> to !part
  %xk = mla.project %x, %k : tensor<?x64xbf16>, !part -> !heads
  %zv = mla.project %z, %v : tensor<?x64xbf16>, !part -> !heads
  %xg = mla.project %x, %gk : tensor<?x64xbf16>, !part -> !heads
  %xh = mla.project %x, %gv : tensor<?x64xbf16>, !part -> !heads
  %a = mla.head_project %xk, %u : !heads, !part -> !heads
  %b = mla.head_project %zv, %u : !heads, !part -> !heads
  %c = mla.head_project %xg, %u : !heads, !part -> !heads
  %d = mla.head_project %xh, %u : !heads, !part -> !heads
  return %a, %b, %c, %d : !heads, !heads, !heads, !heads
}

// Queries that nothing rotates (Kimi Linear): attention takes the second part at its place in the rows.
// CHECK-LABEL: func @absorbed_queries
// CHECK-SAME: %[[X:.*]]: tensor<?x64xbf16>
// CHECK: %[[BOTH:.*]] = mla.project %[[X]], %{{.*}} : tensor<?x64xbf16>, tensor<3x128x64xbf16> -> tensor<?x3x128xbf16>
// CHECK-NOT: mla.project
// CHECK: %[[PE:.*]] = tensor.extract_slice %[[BOTH]][0, 0, 64] [%{{.*}}, 3, 64] [1, 1, 1]
// CHECK: mla.absorbed_attention query(%{{.*}}, %[[PE]] :
func.func @absorbed_queries(%x: tensor<?x64xbf16>, %w: !w, %k: tensor<3x64x64xbf16>,
    %cache: !mla.cache<page_size = 64, fields = [latent: 64, rope: 64], element = bf16, rope_order = interleaved>,
    %batch: !mla.batch<query_len = 1>) -> tensor<?x3x64xbf16> {
  %nope = tensor.extract_slice %w[0, 0, 0] [3, 64, 64] [1, 1, 1] : !w to !part
  %pe = tensor.extract_slice %w[0, 64, 0] [3, 64, 64] [1, 1, 1] : !w to !part
  %q = mla.project %x, %nope : tensor<?x64xbf16>, !part -> !heads
  %r = mla.project %x, %pe : tensor<?x64xbf16>, !part -> !heads
  %l = mla.head_project %q, %k contract_rows : !heads, !part -> !heads
  %o = mla.absorbed_attention query(%l, %r : !heads, !heads) over %cache, %batch : <page_size = 64, fields = [latent: 64, rope: 64], element = bf16, rope_order = interleaved>, <query_len = 1> scale 1.000000e-01 -> !heads
  return %o : !heads
}

// Rows of decodes and of prefills are rows of the same memory.
// CHECK-LABEL: func @parts
// CHECK: %[[ALL:.*]] = mla.project %{{.*}}, %{{.*}} : {{.*}} -> tensor<?x3x128xbf16>
// CHECK: %[[K:.*]] = tensor.extract_slice %[[ALL]][0, 0, 0]
// CHECK: %[[V:.*]] = tensor.extract_slice %[[ALL]][0, 0, 64]
// CHECK-NOT: mla.project
// CHECK: mla.part_rows %[[K]] of
// CHECK: mla.part_rows %[[V]] of
func.func @parts(%x: tensor<?x64xbf16>, %w: !w, %u: !part, %batch: !mla.batch) -> (!heads, !heads) attributes {mla.decode_threshold = 1 : i64} {
  %k = tensor.extract_slice %w[0, 0, 0] [3, 64, 64] [1, 1, 1] : !w to !part
  %v = tensor.extract_slice %w[0, 64, 0] [3, 64, 64] [1, 1, 1] : !w to !part
  %xk = mla.project %x, %k : tensor<?x64xbf16>, !part -> !heads
  %xv = mla.project %x, %v : tensor<?x64xbf16>, !part -> !heads
  %p = mla.batch_part %batch decodes : !mla.batch -> !mla.batch<query_len = 1>
  %pk = mla.part_rows %xk of %p : !heads, !mla.batch<query_len = 1>
  %pv = mla.part_rows %xv of %p : !heads, !mla.batch<query_len = 1>
  %a = mla.head_project %pk, %u : !heads, !part -> !heads
  %b = mla.head_project %pv, %u : !heads, !part -> !heads
  return %a, %b : !heads, !heads
}

// But not rows that something else reads, too.
// CHECK-LABEL: func @returned_part
// CHECK-COUNT-2: mla.project
func.func @returned_part(%x: tensor<?x64xbf16>, %w: !w, %u: !part, %batch: !mla.batch) -> (!heads, !heads) attributes {mla.decode_threshold = 1 : i64} {
  %k = tensor.extract_slice %w[0, 0, 0] [3, 64, 64] [1, 1, 1] : !w to !part
  %v = tensor.extract_slice %w[0, 64, 0] [3, 64, 64] [1, 1, 1] : !w to !part
  %xk = mla.project %x, %k : tensor<?x64xbf16>, !part -> !heads
  %xv = mla.project %x, %v : tensor<?x64xbf16>, !part -> !heads
  %p = mla.batch_part %batch decodes : !mla.batch -> !mla.batch<query_len = 1>
  %pk = mla.part_rows %xk of %p : !heads, !mla.batch<query_len = 1>
  %a = mla.head_project %xv, %u : !heads, !part -> !heads
  return %pk, %a : !heads, !heads
}
