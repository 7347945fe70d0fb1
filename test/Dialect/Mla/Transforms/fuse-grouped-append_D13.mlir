// RUN: mla-opt %s --mla-fuse-grouped-append | FileCheck %s
// RUN: mla-opt %s --mla-fuse-grouped-append --mla-fuse-grouped-append | FileCheck %s

!both = !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">
!keys = !mla.cache<page_size = 16, fields = [key: 2x64], element = bf16, format = "k_nhd">
!values = !mla.cache<page_size = 64, fields = [value: 2x32], element = bf16, format = "v_nhd">
!q = tensor<?x8x64xbf16>
!k = tensor<?x2x64xbf16>
!v = tensor<?x2x32xbf16>
!t = tensor<?x64xf32>
#rope = #mla.rope<order = half, dim = 64, theta = 1.0e4, length = 64>
#part = #mla.rope<order = interleaved, dim = 32, theta = 1.0e4, length = 64>

// CHECK-LABEL: func @both
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<?x8x64xbf16>, %[[K:[a-z0-9]+]]: tensor<?x2x64xbf16>, %[[V:[a-z0-9]+]]: tensor<?x2x32xbf16>, %[[T:[a-z0-9]+]]: tensor<?x64xf32>, %[[B:[a-z0-9]+]]: !mla.batch<query_len = ?>, %[[C:[a-z0-9]+]]:
// CHECK-NEXT: %[[ROTATED:.*]], %[[NEW:.*]] = mla.grouped_append %[[Q]], %[[K]], %[[V]] rope %[[T]] with <order = half, dim = 64, {{.*}}> offset 0 into %[[C]], %[[B]]
// CHECK-NEXT: mla.grouped_attention query(%[[ROTATED]] : {{.*}}) keys(%[[NEW]]
// CHECK-NEXT: return
func.func @both(%q: !q, %k: !k, %v: !v, %t: !t, %b: !mla.batch, %cache: !both) -> (tensor<?x8x32xbf16>, !both) {
  %key = mla.rope %k, %t, %b with #rope : !k, !t, !mla.batch
  %query = mla.rope %q, %t, %b with #rope : !q, !t, !mla.batch
  %new = mla.append %key, %v into %cache, %b : !k, !v into !both, !mla.batch
  %o = mla.grouped_attention query(%query : !q) keys(%new : !both) values(%new : !both) over %b : !mla.batch scale 0.125 -> tensor<?x8x32xbf16>
  return %o, %new : tensor<?x8x32xbf16>, !both
}

// Pools of their own, values first; a part of the channels.
// CHECK-LABEL: func @apart
// CHECK-NEXT: %[[ROTATED:.*]], %[[KEYS:.*]], %[[VALUES:.*]] = mla.grouped_append {{.*}} with <order = interleaved, dim = 32, {{.*}}> offset 32 into %{{.*}} values %{{.*}}, %
// CHECK-NEXT: return %[[ROTATED]], %[[KEYS]], %[[VALUES]]
func.func @apart(%q: !q, %k: !k, %v: !v, %t: tensor<64x16x2xf16>, %b: !mla.batch, %keys: !keys, %values: !values) -> (!q, !keys, !values) {
  %query = mla.rope %q, %t, %b with #part offset 32 : !q, tensor<64x16x2xf16>, !mla.batch
  %new_values = mla.append %v into %values, %b : !v into !values, !mla.batch
  %key = mla.rope %k, %t, %b with #part offset 32 : !k, tensor<64x16x2xf16>, !mla.batch
  %new = mla.append %key into %keys, %b : !k into !keys, !mla.batch
  return %query, %new, %new_values : !q, !keys, !values
}

// Not if something else reads the rotated keys; not keys without values; not keys that stay as they are.
// CHECK-LABEL: func @keys
// CHECK-NOT: mla.grouped_append
// CHECK: return
func.func @keys(%q: !q, %k: !k, %v: !v, %t: !t, %b: !mla.batch, %both: !both, %keys: !keys, %last: !both) -> (!q, !k, !both, !keys, !both) {
  %query = mla.rope %q, %t, %b with #rope : !q, !t, !mla.batch
  %key = mla.rope %k, %t, %b with #rope : !k, !t, !mla.batch
  %0 = mla.append %key, %v into %both, %b : !k, !v into !both, !mla.batch
  %other = mla.rope %k, %t, %b with #rope : !k, !t, !mla.batch
  %1 = mla.append %other into %keys, %b : !k into !keys, !mla.batch
  %2 = mla.append %k, %v into %last, %b : !k, !v into !both, !mla.batch
  return %query, %key, %0, %1, %2 : !q, !k, !both, !keys, !both
}

// Not by other angles: another table, other channels, back.
// CHECK-LABEL: func @angles
// CHECK-NOT: mla.grouped_append
// CHECK: return
func.func @angles(%q: !q, %k: !k, %v: !v, %t: !t, %u: !t, %p: tensor<?x32xf32>, %b: !mla.batch, %both: !both) -> (!q, !q, !q, !both) {
  %0 = mla.rope %q, %u, %b with #rope : !q, !t, !mla.batch
  %1 = mla.rope %q, %p, %b with #part offset 0 : !q, tensor<?x32xf32>, !mla.batch
  %2 = mla.rope %q, %t, %b with #rope inverse : !q, !t, !mla.batch
  %key = mla.rope %k, %t, %b with #rope : !k, !t, !mla.batch
  %3 = mla.append %key, %v into %both, %b : !k, !v into !both, !mla.batch
  return %0, %1, %2, %3 : !q, !q, !q, !both
}

// Not where the rotated queries are needed before or by the append; not values of more heads.
// CHECK-LABEL: func @early
// CHECK-NOT: mla.grouped_append
// CHECK: return
!wide = !mla.cache<page_size = 16, fields = [key: 2x64, value: 8x64], element = bf16, format = "kv_nhd">
func.func @early(%q: !q, %k: !k, %v: !v, %t: !t, %b: !mla.batch, %both: !both, %wide: !wide) -> (!q, !both, !wide) {
  %query = mla.rope %q, %t, %b with #rope : !q, !t, !mla.batch
  %again = mla.rope %query, %t, %b with #rope inverse : !q, !t, !mla.batch
  %key = mla.rope %k, %t, %b with #rope : !k, !t, !mla.batch
  %new = mla.append %key, %v into %both, %b : !k, !v into !both, !mla.batch
  %other = mla.rope %k, %t, %b with #rope : !k, !t, !mla.batch
  %value = mla.rope %q, %t, %b with #rope : !q, !t, !mla.batch
  %last = mla.append %other, %value into %wide, %b : !k, !q into !wide, !mla.batch
  return %again, %new, %last : !q, !both, !wide
}

// Angles of tokens stay such; not beside those of positions.
// CHECK-LABEL: func @by_token
// CHECK-NEXT: mla.grouped_append {{.*}} {mla.by_token} :
// CHECK-NEXT: return
func.func @by_token(%q: !q, %k: !k, %v: !v, %t: !t, %b: !mla.batch, %cache: !both) -> (!q, !both) {
  %key = mla.rope %k, %t, %b with #rope {mla.by_token} : !k, !t, !mla.batch
  %query = mla.rope %q, %t, %b with #rope {mla.by_token} : !q, !t, !mla.batch
  %new = mla.append %key, %v into %cache, %b : !k, !v into !both, !mla.batch
  return %query, %new : !q, !both
}

// CHECK-LABEL: func @by_token_and_position
// CHECK-NOT: mla.grouped_append
func.func @by_token_and_position(%q: !q, %k: !k, %v: !v, %t: !t, %b: !mla.batch, %cache: !both) -> (!q, !both) {
  %key = mla.rope %k, %t, %b with #rope {mla.by_token} : !k, !t, !mla.batch
  %query = mla.rope %q, %t, %b with #rope : !q, !t, !mla.batch
  %new = mla.append %key, %v into %cache, %b : !k, !v into !both, !mla.batch
  return %query, %new : !q, !both
}
