// RUN: mla-opt %s --mla-fuse-indexer=target=sm90 | FileCheck %s
// RUN: mla-opt %s --mla-fuse-indexer | FileCheck %s
// RUN: mla-opt %s --mla-fuse-indexer --mla-fuse-indexer | FileCheck %s

// An indexer's keys, and its queries, in one operation each (B38).

!keys = !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k", scale_rule = power_of_two>
!turned = !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k", scale_rule = power_of_two, hadamard = true>
!wide = !mla.cache<page_size = 64, fields = [index: 256], element = bf16, rope_order = half, format = "index_k", scale_rule = power_of_two>
!k = tensor<?x128xbf16>
!q = tensor<?x64x128xbf16>
!q8 = tensor<?x64x128xf8E4M3FN>
!v = tensor<128xf32>
!t = tensor<?x64xf32>
#rope = #mla.rope<order = half, dim = 64, theta = 1.0e4, length = 4096>
#odd = #mla.rope<order = half, dim = 48, theta = 1.0e4, length = 4096>

// CHECK-LABEL: func @keys
// CHECK-SAME: %[[K:[a-z0-9]+]]: tensor<?x128xbf16>, %[[G:[a-z0-9]+]]: tensor<128xf32>, %[[U:[a-z0-9]+]]: tensor<128xf32>, %[[T:[a-z0-9]+]]: tensor<?x64xf32>, %[[B:[a-z0-9]+]]: !mla.batch<query_len = ?>, %[[C:[a-z0-9]+]]:
// CHECK-NEXT: %[[NEW:.*]] = mla.index_append %[[K]], %[[G]], %[[U]] epsilon 9.{{[0-9]*}}E-7 rope %[[T]] with <order = half, dim = 64, {{.*}}> offset 0 into %[[C]], %[[B]]
// CHECK-NEXT: return %[[NEW]]
func.func @keys(%k: !k, %g: !v, %u: !v, %t: !t, %b: !mla.batch, %c: !keys) -> !keys {
  %n = mla.layer_norm %k, %g, %u epsilon 1.0e-6 : !k, !v, !v -> !k
  %r = mla.rope %n, %t, %b with #rope offset 0 : !k, !t, !mla.batch
  %new = mla.append %r into %c, %b : !k into !keys, !mla.batch
  return %new : !keys
}

// CHECK-LABEL: func @queries
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<?x64x128xbf16>, %[[X:[a-z0-9]+]]: tensor<?x64xbf16>, %[[T:[a-z0-9]+]]: tensor<?x64xf32>, %[[B:[a-z0-9]+]]:
// CHECK-NEXT: %[[Q8:.*]], %[[W:.*]] = mla.index_query %[[Q]], %[[X]] factor 1.250000e-01 rope %[[T]], %[[B]] with <order = half, dim = 64, {{.*}}> offset 64 rule <power_of_two> floor 9.{{[0-9]*}}E-39 amax_floor 1.000000e-04
// CHECK-NEXT: return %[[Q8]], %[[W]]
func.func @queries(%q: !q, %x: tensor<?x64xbf16>, %t: !t, %b: !mla.batch) -> (!q8, tensor<?x64xf32>) {
  %r = mla.rope %q, %t, %b with #rope offset 64 : !q, !t, !mla.batch
  %q8, %s = mla.quantize %r group 128 rule <power_of_two> floor 1.0e-38 amax_floor 1.0e-4 : !q -> !q8, tensor<?x64x1xf32>
  %w = mla.index_weights %x, %s factor 0.125 : tensor<?x64xbf16>, tensor<?x64x1xf32> -> tensor<?x64xf32>
  return %q8, %w : !q8, tensor<?x64xf32>
}

// Not where something else reads what stands between, nor what hadamard has rotated.
// CHECK-LABEL: func @read
// CHECK-NOT: mla.index_
// CHECK: mla.append
// CHECK: mla.index_weights
// CHECK-NOT: mla.index_append
// CHECK-NOT: mla.index_query
func.func @read(%k: !k, %g: !v, %u: !v, %q: !q, %x: tensor<?x64xbf16>, %t: !t, %b: !mla.batch, %c: !keys)
    -> (!k, !keys, !q8, tensor<?x64x1xf32>, tensor<?x64xf32>) {
  %n = mla.layer_norm %k, %g, %u epsilon 1.0e-6 : !k, !v, !v -> !k
  %r = mla.rope %n, %t, %b with #rope offset 0 : !k, !t, !mla.batch
  %new = mla.append %r into %c, %b : !k into !keys, !mla.batch
  %p = mla.rope %q, %t, %b with #rope offset 64 : !q, !t, !mla.batch
  %q8, %s = mla.quantize %p group 128 rule <power_of_two> floor 1.0e-38 amax_floor 1.0e-4 : !q -> !q8, tensor<?x64x1xf32>
  %w = mla.index_weights %x, %s factor 0.125 : tensor<?x64xbf16>, tensor<?x64x1xf32> -> tensor<?x64xf32>
  return %n, %new, %q8, %s, %w : !k, !keys, !q8, tensor<?x64x1xf32>, tensor<?x64xf32>
}

// CHECK-LABEL: func @hadamard
// CHECK: mla.layer_norm
// CHECK: mla.append
// CHECK: mla.quantize
// CHECK: mla.index_weights
func.func @hadamard(%k: !k, %g: !v, %u: !v, %q: !q, %x: tensor<?x64xbf16>, %t: !t, %b: !mla.batch, %c: !turned)
    -> (!turned, !q8, tensor<?x64xf32>) {
  %n = mla.layer_norm %k, %g, %u epsilon 1.0e-6 : !k, !v, !v -> !k
  %r = mla.rope %n, %t, %b with #rope offset 0 : !k, !t, !mla.batch
  %h = mla.hadamard %r : !k
  %new = mla.append %h into %c, %b : !k into !turned, !mla.batch
  %p = mla.rope %q, %t, %b with #rope offset 64 : !q, !t, !mla.batch
  %i = mla.hadamard %p : !q
  %q8, %s = mla.quantize %i group 128 rule <power_of_two> floor 1.0e-38 amax_floor 1.0e-4 : !q -> !q8, tensor<?x64x1xf32>
  %w = mla.index_weights %x, %s factor 0.125 : tensor<?x64xbf16>, tensor<?x64x1xf32> -> tensor<?x64xf32>
  return %new, %q8, %w : !turned, !q8, tensor<?x64xf32>
}

// Rows of several scales; pairs that are no whole tiles.
// CHECK-LABEL: func @wide
// CHECK: mla.append
func.func @wide(%k: tensor<?x256xbf16>, %g: tensor<256xf32>, %u: tensor<256xf32>, %t: !t, %b: !mla.batch, %c: !wide) -> !wide {
  %n = mla.layer_norm %k, %g, %u epsilon 1.0e-6 : tensor<?x256xbf16>, tensor<256xf32>, tensor<256xf32> -> tensor<?x256xbf16>
  %r = mla.rope %n, %t, %b with #rope offset 0 : tensor<?x256xbf16>, !t, !mla.batch
  %new = mla.append %r into %c, %b : tensor<?x256xbf16> into !wide, !mla.batch
  return %new : !wide
}

// CHECK-LABEL: func @odd
// CHECK: mla.append
func.func @odd(%k: !k, %g: !v, %u: !v, %t: tensor<?x48xf32>, %b: !mla.batch, %c: !keys) -> !keys {
  %n = mla.layer_norm %k, %g, %u epsilon 1.0e-6 : !k, !v, !v -> !k
  %r = mla.rope %n, %t, %b with #odd offset 0 : !k, tensor<?x48xf32>, !mla.batch
  %new = mla.append %r into %c, %b : !k into !keys, !mla.batch
  return %new : !keys
}
