// RUN: mla-opt %s --mla-fuse-grouped-append | FileCheck %s
// RUN: mla-opt %s --mla-fuse-grouped-append --mla-fuse-grouped-append | FileCheck %s
// RUN: mla-opt %s --mla-fuse-grouped-append=target=sm90 | FileCheck %s --check-prefix=SM90

!both = !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">
!keys = !mla.cache<page_size = 16, fields = [key: 2x64], element = bf16, format = "k_nhd">
!values = !mla.cache<page_size = 64, fields = [value: 2x32], element = bf16, format = "v_nhd">
!q = tensor<?x8x64xbf16>
!k = tensor<?x2x64xbf16>
!v = tensor<?x2x32xbf16>
!t = tensor<?x64xf32>
!g = tensor<64xbf16>
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

// Norms of both come along: not rounded between norm and rotation.
// CHECK-LABEL: func @norms
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<?x8x64xbf16>, %[[K:[a-z0-9]+]]: tensor<?x2x64xbf16>, %[[V:[a-z0-9]+]]: tensor<?x2x32xbf16>, %[[G:[a-z0-9]+]]: tensor<64xbf16>, %[[H:[a-z0-9]+]]: tensor<64xbf16>
// CHECK-NEXT: mla.grouped_append %[[Q]], %[[K]], %[[V]] norms %[[G]], %[[H]] epsilon 9.9{{[0-9]+}}E-7 rope
// CHECK-NEXT: return
func.func @norms(%q: !q, %k: !k, %v: !v, %g: !g, %h: !g, %t: !t, %b: !mla.batch, %cache: !both) -> (!q, !both) {
  %qn = mla.rms_norm %q, %g eps 1.0e-6 : !q, !g -> !q
  %kn = mla.rms_norm %k, %h eps 1.0e-6 : !k, !g -> !k
  %query = mla.rope %qn, %t, %b with #rope : !q, !t, !mla.batch
  %key = mla.rope %kn, %t, %b with #rope : !k, !t, !mla.batch
  %new = mla.append %key, %v into %cache, %b : !k, !v into !both, !mla.batch
  return %query, %new : !q, !both
}


// Not of one alone, with another epsilon, a multiplier, without gamma, or if what they form is read elsewhere.
// CHECK-LABEL: func @keys_alone
// CHECK: mla.rms_norm
// CHECK-NEXT: mla.grouped_append %{{.*}}, %{{.*}}, %{{.*}} rope
func.func @keys_alone(%q: !q, %k: !k, %v: !v, %h: !g, %t: !t, %b: !mla.batch, %cache: !both) -> (!q, !both) {
  %kn = mla.rms_norm %k, %h eps 1.0e-6 : !k, !g -> !k
  %query = mla.rope %q, %t, %b with #rope : !q, !t, !mla.batch
  %key = mla.rope %kn, %t, %b with #rope : !k, !t, !mla.batch
  %new = mla.append %key, %v into %cache, %b : !k, !v into !both, !mla.batch
  return %query, %new : !q, !both
}

// CHECK-LABEL: func @epsilons
// CHECK-COUNT-2: mla.rms_norm
// CHECK: mla.grouped_append %{{.*}}, %{{.*}}, %{{.*}} rope
func.func @epsilons(%q: !q, %k: !k, %v: !v, %h: !g, %t: !t, %b: !mla.batch, %cache: !both) -> (!q, !both) {
  %qn = mla.rms_norm %q, %h eps 1.0e-5 : !q, !g -> !q
  %kn = mla.rms_norm %k, %h eps 1.0e-6 : !k, !g -> !k
  %query = mla.rope %qn, %t, %b with #rope : !q, !t, !mla.batch
  %key = mla.rope %kn, %t, %b with #rope : !k, !t, !mla.batch
  %new = mla.append %key, %v into %cache, %b : !k, !v into !both, !mla.batch
  return %query, %new : !q, !both
}

// CHECK-LABEL: func @other_norms
// CHECK-COUNT-2: mla.rms_norm
// CHECK: mla.grouped_append %{{.*}}, %{{.*}}, %{{.*}} rope
func.func @other_norms(%q: !q, %k: !k, %v: !v, %h: !g, %t: !t, %b: !mla.batch, %cache: !both) -> (!q, !both) {
  %qn = mla.rms_norm %q, %h eps 1.0e-6 {multiplier = 2.0} : !q, !g -> !q
  %kn = mla.rms_norm %k eps 1.0e-6 : !k -> !k
  %query = mla.rope %qn, %t, %b with #rope : !q, !t, !mla.batch
  %key = mla.rope %kn, %t, %b with #rope : !k, !t, !mla.batch
  %new = mla.append %key, %v into %cache, %b : !k, !v into !both, !mla.batch
  return %query, %new : !q, !both
}

// CHECK-LABEL: func @read_elsewhere
// CHECK-COUNT-2: mla.rms_norm
// CHECK: mla.grouped_append %{{.*}}, %{{.*}}, %{{.*}} rope
func.func @read_elsewhere(%q: !q, %k: !k, %v: !v, %h: !g, %t: !t, %b: !mla.batch, %cache: !both) -> (!q, !k, !both) {
  %qn = mla.rms_norm %q, %h eps 1.0e-6 : !q, !g -> !q
  %kn = mla.rms_norm %k, %h eps 1.0e-6 : !k, !g -> !k
  %query = mla.rope %qn, %t, %b with #rope : !q, !t, !mla.batch
  %key = mla.rope %kn, %t, %b with #rope : !k, !t, !mla.batch
  %new = mla.append %key, %v into %cache, %b : !k, !v into !both, !mla.batch
  return %query, %kn, %new : !q, !k, !both
}

// Heads of 160 channels are no rows of whole tiles' columns: too wide for a program on sm90.
// CHECK-LABEL: func @wide_heads
// CHECK-NEXT: mla.grouped_append {{.*}} norms
// SM90-LABEL: func @wide_heads
// SM90-COUNT-2: mla.rms_norm
// SM90: mla.grouped_append %{{.*}}, %{{.*}}, %{{.*}} rope
!wide_both = !mla.cache<page_size = 16, fields = [key: 2x160, value: 2x32], element = bf16, format = "kv_nhd">
func.func @wide_heads(%q: tensor<?x8x160xbf16>, %k: tensor<?x2x160xbf16>, %v: !v, %h: tensor<160xbf16>, %t: tensor<?x160xf32>, %b: !mla.batch, %cache: !wide_both) -> (tensor<?x8x160xbf16>, !wide_both) {
  %qn = mla.rms_norm %q, %h eps 1.0e-6 : tensor<?x8x160xbf16>, tensor<160xbf16> -> tensor<?x8x160xbf16>
  %kn = mla.rms_norm %k, %h eps 1.0e-6 : tensor<?x2x160xbf16>, tensor<160xbf16> -> tensor<?x2x160xbf16>
  %query = mla.rope %qn, %t, %b with <order = half, dim = 160, theta = 1.0e4, length = 64> : tensor<?x8x160xbf16>, tensor<?x160xf32>, !mla.batch
  %key = mla.rope %kn, %t, %b with <order = half, dim = 160, theta = 1.0e4, length = 64> : tensor<?x2x160xbf16>, tensor<?x160xf32>, !mla.batch
  %new = mla.append %key, %v into %cache, %b : tensor<?x2x160xbf16>, !v into !wide_both, !mla.batch
  return %query, %new : tensor<?x8x160xbf16>, !wide_both
}
