// RUN: mla-opt %s --mla-fuse-rows=target=sm90 | FileCheck %s
// RUN: mla-opt %s --mla-fuse-rows=target=sm90 --mla-fuse-rows=target=sm90 | FileCheck %s
// RUN: mla-opt %s --mla-fuse-rows | FileCheck %s --check-prefix=CPU

// Norm and rotation of heads, norm, rotation and append of rows, bias and append of gates are one
// operation each, where a program holds a row (V4-05, V4-13), and keys that a token sees are listed as the pool's
// rows (V4-24). A CPU's programs hold tiles of rows.

!latents = !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved>
!entries = !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved, tokens_per_row = 4>
!keys = !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = interleaved, format = "index_k", scale_rule = power_of_two, tokens_per_row = 4>
!states = !mla.cache<page_size = 4, fields = [key: 1024, value: 1024], element = f32, format = "kv_nhd", window = 8>
!t = tensor<?x64xf32>
#rope = #mla.rope<order = interleaved, dim = 64, theta = 1.0e4, length = 4096>

// CPU-NOT: mla.norm_rope
// CPU-NOT: mla.rope_append
// CPU-NOT: mla.bias_append
// CPU-NOT: mla.seen_keys {{.*}} in %

// CHECK-LABEL: func @queries
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<?x64x512xbf16>, %[[T:[a-z0-9]+]]: tensor<?x64xf32>, %[[B:[a-z0-9]+]]:
// CHECK-NEXT: %[[R:.*]] = mla.norm_rope %[[Q]] eps 9.{{[0-9]*}}E-7 rope %[[T]], %[[B]] with <order = interleaved, dim = 64, {{.*}}> offset 448 : tensor<?x64x512xbf16> rope tensor<?x64xf32>, <query_len = ?> -> tensor<?x64x512xbf16>
// CHECK-NEXT: return %[[R]]
func.func @queries(%q: tensor<?x64x512xbf16>, %t: !t, %b: !mla.batch) -> tensor<?x64x512xbf16> {
  %n = mla.rms_norm %q eps 1.0e-6 : tensor<?x64x512xbf16> -> tensor<?x64x512xf32>
  %r = mla.rope %n, %t, %b with #rope offset 448 : tensor<?x64x512xf32>, !t, !mla.batch -> tensor<?x64x512xbf16>
  return %r : tensor<?x64x512xbf16>
}

// CHECK-LABEL: func @keys_of_the_window
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<?x512xbf16>, %[[T:[a-z0-9]+]]: tensor<?x64xf32>, %[[B:[a-z0-9]+]]: !mla.batch<query_len = ?>, %[[C:[a-z0-9]+]]:
// CHECK-NEXT: %[[NEW:.*]] = mla.rope_append %[[X]] rope %[[T]] with <order = interleaved, dim = 64, {{.*}}> offset 448 into %[[C]], %[[B]] :
// CHECK-NEXT: return %[[NEW]]
func.func @keys_of_the_window(%x: tensor<?x512xbf16>, %t: !t, %b: !mla.batch, %c: !latents) -> !latents {
  %r = mla.rope %x, %t, %b with #rope offset 448 : tensor<?x512xbf16>, !t, !mla.batch
  %new = mla.append %r into %c, %b : tensor<?x512xbf16> into !latents, !mla.batch
  return %new : !latents
}

// CHECK-LABEL: func @entries
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<?x512xf32>, %[[G:[a-z0-9]+]]: tensor<512xf32>, %[[T:[a-z0-9]+]]: tensor<?x64xf32>, %[[B:[a-z0-9]+]]: !mla.batch<query_len = ?>, %[[C:[a-z0-9]+]]:
// CHECK-NEXT: %[[NEW:.*]] = mla.rope_append %[[X]] gamma(%[[G]] : tensor<512xf32>) eps 9.{{[0-9]*}}E-7 rope %[[T]] with <order = interleaved, dim = 64, {{.*}}> offset 448 every 4 into %[[C]], %[[B]] :
// CHECK-NEXT: return %[[NEW]]
func.func @entries(%x: tensor<?x512xf32>, %g: tensor<512xf32>, %t: !t, %b: !mla.batch, %c: !entries) -> !entries {
  %n = mla.rms_norm %x, %g eps 1.0e-6 : tensor<?x512xf32>, tensor<512xf32> -> tensor<?x512xf32>
  %r = mla.rope %n, %t, %b with #rope offset 448 every 4 : tensor<?x512xf32>, !t, !mla.batch -> tensor<?x512xbf16>
  %new = mla.append %r into %c, %b : tensor<?x512xbf16> into !entries, !mla.batch
  return %new : !entries
}

// CHECK-LABEL: func @keys_of_entries
// CHECK-NEXT: mla.rope_append %{{.*}} gamma(%{{.*}} : tensor<128xf32>) eps 9.{{[0-9]*}}E-7 rope %{{.*}} offset 64 every 4 into %{{.*}} into <page_size = 64, fields = [index: 128], {{.*}}>
// CHECK-NEXT: return
func.func @keys_of_entries(%x: tensor<?x128xf32>, %g: tensor<128xf32>, %t: !t, %b: !mla.batch, %c: !keys) -> !keys {
  %n = mla.rms_norm %x, %g eps 1.0e-6 : tensor<?x128xf32>, tensor<128xf32> -> tensor<?x128xf32>
  %r = mla.rope %n, %t, %b with #rope offset 64 every 4 : tensor<?x128xf32>, !t, !mla.batch -> tensor<?x128xbf16>
  %new = mla.append %r into %c, %b : tensor<?x128xbf16> into !keys, !mla.batch
  return %new : !keys
}

// CHECK-LABEL: func @gates
// CHECK-SAME: %[[V:[a-z0-9]+]]: tensor<?x1024xf32>, %[[G:[a-z0-9]+]]: tensor<?x1024xf32>, %[[P:[a-z0-9]+]]: tensor<4x1024xf32>, %[[B:[a-z0-9]+]]: !mla.batch<query_len = ?>, %[[C:[a-z0-9]+]]:
// CHECK-NEXT: %[[NEW:.*]] = mla.bias_append %[[V]], %[[G]] bias %[[P]] into %[[C]], %[[B]] :
// CHECK-NEXT: return %[[NEW]]
func.func @gates(%v: tensor<?x1024xf32>, %g: tensor<?x1024xf32>, %p: tensor<4x1024xf32>, %b: !mla.batch, %c: !states) -> !states {
  %sum = mla.add_position_bias %g, %p, %b : tensor<?x1024xf32>, tensor<4x1024xf32>, !mla.batch
  %new = mla.append %v, %sum into %c, %b : tensor<?x1024xf32>, tensor<?x1024xf32> into !states, !mla.batch
  return %new : !states
}

// Not where something else reads what stands between, where a norm is rounded, or rows are turned back.
// CHECK-LABEL: func @others
// CHECK-NOT: mla.norm_rope
// CHECK-NOT: mla.rope_append
// CHECK-NOT: mla.bias_append
func.func @others(%q: tensor<?x64x512xbf16>, %x: tensor<?x512xbf16>, %v: tensor<?x1024xf32>, %g: tensor<?x1024xf32>, %p: tensor<4x1024xf32>,
                  %t: !t, %b: !mla.batch, %c: !latents, %s: !states)
    -> (tensor<?x64x512xbf16>, tensor<?x64x512xbf16>, tensor<?x64x512xf32>, tensor<?x512xbf16>, !latents, tensor<?x1024xf32>, !states) {
  %n = mla.rms_norm %q eps 1.0e-6 : tensor<?x64x512xbf16> -> tensor<?x64x512xbf16>
  %rounded = mla.rope %n, %t, %b with #rope offset 448 : tensor<?x64x512xbf16>, !t, !mla.batch
  %w = mla.rms_norm %q eps 1.0e-6 : tensor<?x64x512xbf16> -> tensor<?x64x512xf32>
  %read = mla.rope %w, %t, %b with #rope offset 448 : tensor<?x64x512xf32>, !t, !mla.batch -> tensor<?x64x512xbf16>
  %r = mla.rope %x, %t, %b with #rope offset 448 : tensor<?x512xbf16>, !t, !mla.batch
  %new = mla.append %r into %c, %b : tensor<?x512xbf16> into !latents, !mla.batch
  %sum = mla.add_position_bias %g, %p, %b : tensor<?x1024xf32>, tensor<4x1024xf32>, !mla.batch
  %after = mla.append %v, %sum into %s, %b : tensor<?x1024xf32>, tensor<?x1024xf32> into !states, !mla.batch
  return %rounded, %read, %w, %r, %new, %sum, %after
      : tensor<?x64x512xbf16>, tensor<?x64x512xbf16>, tensor<?x64x512xf32>, tensor<?x512xbf16>, !latents, tensor<?x1024xf32>, !states
}

// CHECK-LABEL: func @inverse
// CHECK: mla.rms_norm
// CHECK: mla.rope {{.*}} inverse
func.func @inverse(%x: tensor<?x512xf32>, %t: !t, %b: !mla.batch) -> tensor<?x512xbf16> {
  %n = mla.rms_norm %x eps 1.0e-6 : tensor<?x512xf32> -> tensor<?x512xf32>
  %r = mla.rope %n, %t, %b with #rope offset 448 inverse : tensor<?x512xf32>, !t, !mla.batch -> tensor<?x512xbf16>
  return %r : tensor<?x512xbf16>
}

// CHECK-LABEL: func @seen
// CHECK-SAME: %[[B:[a-z0-9]+]]: !mla.batch<query_len = ?>, %[[C:[a-z0-9]+]]:
// CHECK-NEXT: %[[N:.*]], %[[ROWS:.*]] = mla.seen_keys %[[B]] window 128 in %[[C]] : <query_len = ?> in !mla.cache<page_size = 64, {{.*}}> -> tensor<?xi32>, tensor<?x128xi32>
// CHECK-NEXT: return %[[N]], %[[ROWS]]
func.func @seen(%b: !mla.batch, %c: !latents) -> (tensor<?xi32>, tensor<?x128xi32>) {
  %n, %keys = mla.seen_keys %b window 128 : !mla.batch -> tensor<?xi32>, tensor<?x128xi32>
  %rows = mla.convert_indices %keys in %c, %b : tensor<?x128xi32> in !latents, !mla.batch
  return %n, %rows : tensor<?xi32>, tensor<?x128xi32>
}

// Lists of the step's pools come ahead of all else, whoever writes to these. Not where the keys themselves are read.
// CHECK-LABEL: func @read_keys
// CHECK-SAME: %[[C:[a-z0-9]+]]: !mla.cache<{{[^>]*}}tokens_per_row = 4>, %[[S:[a-z0-9]+]]: tensor<?x?xf32>
// CHECK-NEXT: mla.seen_keys %{{.*}} every 4 in %[[C]]
// CHECK-NEXT: %{{.*}}, %[[NEAR:.*]] = mla.seen_keys %{{.*}} window 128 :
// CHECK-NEXT: mla.convert_indices %[[NEAR]]
// CHECK-NEXT: mla.append
// CHECK-NEXT: mla.top_k
// CHECK-NEXT: return
func.func @read_keys(%b: !mla.batch, %c: !entries, %s: tensor<?x?xf32>, %e: tensor<?x512xbf16>) -> (tensor<?x128xi32>, tensor<?x128xi32>, tensor<?x64xi32>, tensor<?x128xi32>) {
  %n, %keys = mla.seen_keys %b window 128 : !mla.batch -> tensor<?xi32>, tensor<?x128xi32>
  %rows = mla.convert_indices %keys in %c, %b : tensor<?x128xi32> in !entries, !mla.batch
  %new = mla.append %e into %c, %b : tensor<?x512xbf16> into !entries, !mla.batch
  %m, %all = mla.seen_keys %b every 4 : !mla.batch -> tensor<?xi32>, tensor<?x128xi32>
  %top = mla.top_k %s lengths(%m : tensor<?xi32>) over %b k 64 : tensor<?x?xf32>, !mla.batch -> tensor<?x64xi32>
  %far = mla.convert_indices %all in %new, %b : tensor<?x128xi32> in !entries, !mla.batch
  return %keys, %rows, %top, %far : tensor<?x128xi32>, tensor<?x128xi32>, tensor<?x64xi32>, tensor<?x128xi32>
}
