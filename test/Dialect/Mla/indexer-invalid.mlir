// RUN: mla-opt %s -split-input-file -verify-diagnostics

// The operations of the lightning indexer and its pool, a case per constraint.

// expected-error @+1 {{cache format index_k: expected index of a multiple of 128, got 64}}
func.func private @cache_v5_group(!mla.cache<page_size = 64, fields = [index: 64], element = bf16, format = "index_k">)

// -----

// expected-error @+1 {{cache format index_k: expected pages of a multiple of 16 bytes, got 132}}
func.func private @cache_v5_page(!mla.cache<page_size = 1, fields = [index: 128], element = bf16, format = "index_k">)

// -----

// expected-error @+1 {{expected a field 'index' of a cache with hadamard = true}}
func.func private @cache_v7(!mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = half, hadamard = true>)

// -----

// expected-error @+1 {{unknown hadamard 'yes'}}
func.func private @cache_hadamard(!mla.cache<page_size = 64, fields = [index: 128], element = bf16, format = "index_k", hadamard = yes>)

// -----

func.func @rope_c1_offset(%x: tensor<?x16x128xbf16>, %t: tensor<?x64xf32>, %b: !mla.batch) {
  // expected-error @+1 {{expected an offset of at least 0 with 64 channels behind it, got 65 in 'tensor<?x16x128xbf16>'}}
  %0 = mla.rope %x, %t, %b with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> offset 65 : tensor<?x16x128xbf16>, tensor<?x64xf32>, !mla.batch
  return
}

// -----

func.func @quantize_c1_heads(%x: tensor<?x64x128xbf16>) {
  // expected-error @+1 {{expected scales to be [T, N, L / group] with L / group = 1 (from group), got 'tensor<?x64x2xf32>'}}
  %0, %1 = mla.quantize %x group 128 rule <raw> floor 1.0e-38 amax_floor 1.0e-4 : tensor<?x64x128xbf16> -> tensor<?x64x128xf8E4M3FN>, tensor<?x64x2xf32>
  return
}

// -----

func.func @quantize_c2_amax(%x: tensor<?x128xbf16>) {
  // expected-error @+1 {{expected amax_floor to be a finite f32 of at least 0, got -1.0}}
  %0, %1 = mla.quantize %x group 128 rule <raw> floor 1.0e-38 amax_floor -1.0 : tensor<?x128xbf16> -> tensor<?x128xf8E4M3FN>, tensor<?x1xf32>
  return
}

// -----

func.func @layer_norm_c1(%x: tensor<?x128xbf16>, %w: tensor<64xf32>, %b: tensor<64xf32>) {
  // expected-error @+1 {{expected weight to be [L] with L = 128 (from input), got 'tensor<64xf32>'}}
  %0 = mla.layer_norm %x, %w, %b epsilon 1.0e-6 : tensor<?x128xbf16>, tensor<64xf32>, tensor<64xf32> -> tensor<?x128xbf16>
  return
}

// -----

func.func @layer_norm_c2(%x: tensor<?x128xbf16>, %w: tensor<128xf32>, %b: tensor<128xbf16>) {
  // expected-error @+1 {{expected bias to have weight's element type 'f32', got 'bf16'}}
  %0 = mla.layer_norm %x, %w, %b epsilon 1.0e-6 : tensor<?x128xbf16>, tensor<128xf32>, tensor<128xbf16> -> tensor<?x128xbf16>
  return
}

// -----

func.func @layer_norm_c3(%x: tensor<?x128xbf16>, %w: tensor<128xf32>) {
  // expected-error @+1 {{expected epsilon > 0, got 0.0}}
  %0 = mla.layer_norm %x, %w, %w epsilon 0.0 : tensor<?x128xbf16>, tensor<128xf32>, tensor<128xf32> -> tensor<?x128xbf16>
  return
}

// -----

func.func @hadamard_c1(%x: tensor<?x64x96xbf16>) {
  // expected-error @+1 {{expected [T, D] or [T, N, D] with D a power of two, got 'tensor<?x64x96xbf16>'}}
  %0 = mla.hadamard %x : tensor<?x64x96xbf16>
  return
}

// -----

func.func @index_weights_c1(%x: tensor<?x64xbf16>, %s: tensor<?x64x2xf32>) {
  // expected-error @+1 {{expected scales to be [T, Hi, 1] with 1 = 1 (from mla.quantize of whole rows), got 'tensor<?x64x2xf32>'}}
  %0 = mla.index_weights %x, %s factor 1.0 : tensor<?x64xbf16>, tensor<?x64x2xf32> -> tensor<?x64xf32>
  return
}

// -----

func.func @index_weights_c2(%x: tensor<?x64xbf16>, %s: tensor<?x64x1xf32>) {
  // expected-error @+1 {{expected a finite factor, got INF}}
  %0 = mla.index_weights %x, %s factor 0x7FF0000000000000 : tensor<?x64xbf16>, tensor<?x64x1xf32> -> tensor<?x64xf32>
  return
}

// -----

!pool = !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = half>
func.func @index_scores_c1_cache(%q: tensor<?x64x128xf8E4M3FN>, %w: tensor<?x64xf32>, %c: !pool, %b: !mla.batch) {
  // expected-error @+1 {{expected a cache with the field 'index' alone, got '!mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = half>'}}
  %0 = mla.index_scores query(%q : tensor<?x64x128xf8E4M3FN>) weights(%w : tensor<?x64xf32>) over %c, %b : !pool, !mla.batch -> tensor<?x?xf32>
  return
}

// -----

!pool = !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k">
func.func @index_scores_c1(%q: tensor<?x64x256xf8E4M3FN>, %w: tensor<?x64xf32>, %c: !pool, %b: !mla.batch) {
  // expected-error @+1 {{expected query to be [T, Hi, Di] with Di = 128 (from cache), got 'tensor<?x64x256xf8E4M3FN>'}}
  %0 = mla.index_scores query(%q : tensor<?x64x256xf8E4M3FN>) weights(%w : tensor<?x64xf32>) over %c, %b : !pool, !mla.batch -> tensor<?x?xf32>
  return
}

// -----

!pool = !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k", window = 64>
func.func @index_scores_c2(%q: tensor<?x64x128xf8E4M3FN>, %w: tensor<?x64xf32>, %c: !pool, %b: !mla.batch) {
  // expected-error @+1 {{expected a cache that keeps all rows, got window = 64}}
  %0 = mla.index_scores query(%q : tensor<?x64x128xf8E4M3FN>) weights(%w : tensor<?x64xf32>) over %c, %b : !pool, !mla.batch -> tensor<?x?xf32>
  return
}

// -----

!pool = !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k">
func.func @index_scores_c3(%q: tensor<?x64x128xf8E4M3FN>, %w: tensor<?x64xf32>, %c: !pool, %b: !mla.batch, %first: index) {
  // expected-error @+1 {{expected scores [T, ?], with 'from' [static, ?] or [?, ?] of 'rows', got 'tensor<?x?xf32>'}}
  %0 = mla.index_scores query(%q : tensor<?x64x128xf8E4M3FN>) weights(%w : tensor<?x64xf32>) over %c, %b from %first : !pool, !mla.batch -> tensor<?x?xf32>
  return
}

// -----

!pool = !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k", hadamard = true>
func.func @index_scores_c4(%x: tensor<?x64x128xbf16>, %t: tensor<?x64xf32>, %w: tensor<?x64xf32>, %c: !pool, %b: !mla.batch) {
  %r = mla.rope %x, %t, %b with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0 : tensor<?x64x128xbf16>, tensor<?x64xf32>, !mla.batch
  %q, %s = mla.quantize %r group 128 rule <power_of_two> floor 1.0e-38 amax_floor 1.0e-4 : tensor<?x64x128xbf16> -> tensor<?x64x128xf8E4M3FN>, tensor<?x64x1xf32>
  // expected-error @+1 {{expected the query to be rotated by mla.hadamard, of a cache with hadamard = true}}
  %0 = mla.index_scores query(%q : tensor<?x64x128xf8E4M3FN>) weights(%w : tensor<?x64xf32>) over %c, %b : !pool, !mla.batch -> tensor<?x?xf32>
  return
}

// -----

!pool = !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k">
func.func @append_c2_index(%x: tensor<?x128xbf16>, %t: tensor<?x64xf32>, %c: !pool, %b: !mla.batch) {
  %r = mla.rope %x, %t, %b with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> offset 0 : tensor<?x128xbf16>, tensor<?x64xf32>, !mla.batch
  // expected-error @+1 {{expected the key in the cache's rope order half, got interleaved}}
  %0 = mla.append %r into %c, %b : tensor<?x128xbf16> into !pool, !mla.batch
  return
}

// -----

!pool = !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k">
func.func @append_c2_hadamard(%x: tensor<?x128xbf16>, %c: !pool, %b: !mla.batch) {
  %h = mla.hadamard %x : tensor<?x128xbf16>
  // expected-error @+1 {{expected the key not to be rotated by mla.hadamard, of a cache with hadamard = false}}
  %0 = mla.append %h into %c, %b : tensor<?x128xbf16> into !pool, !mla.batch
  return
}

// -----

// expected-error @+1 {{cache format index_k_mxfp4: expected rows of a multiple of 16 bytes, got 88}}
func.func private @mxfp4_row(!mla.cache<page_size = 64, fields = [index: 176], element = bf16, format = "index_k_mxfp4", scale_rule = power_of_two>)

// -----

// expected-error @+1 {{cache format index_k_mxfp4 does not take elements of 'f16'}}
func.func private @mxfp4_element(!mla.cache<page_size = 64, fields = [index: 128], element = f16, format = "index_k_mxfp4", scale_rule = power_of_two>)

// -----

// expected-error @+1 {{expected scale_rule power_of_two: scales of cache format index_k_mxfp4 are bare exponents}}
func.func private @mxfp4_rule(!mla.cache<page_size = 64, fields = [index: 128], element = bf16, format = "index_k_mxfp4">)

// -----

func.func @round_mxfp4_c1(%x: tensor<?x64x80xbf16>) {
  // expected-error @+1 {{expected [T, D] or [T, N, D] with D a multiple of 32, got 'tensor<?x64x80xbf16>'}}
  %0 = mla.round_mxfp4 %x : tensor<?x64x80xbf16>
  return
}

// -----

func.func @round_mxfp4_c2(%x: tensor<?x64xf16>) {
  // expected-error @+1 {{expected elements of bf16 or f32, got 'tensor<?x64xf16>'}}
  %0 = mla.round_mxfp4 %x : tensor<?x64xf16>
  return
}

// -----

!pool = !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k">
func.func @index_scores_c5(%q: tensor<?x64x128xbf16>, %w: tensor<?x64xf32>, %c: !pool, %b: !mla.batch) {
  // expected-error @+1 {{expected a query of 'f8E4M3FN' over keys of the format index_k, got 'tensor<?x64x128xbf16>'}}
  %0 = mla.index_scores query(%q : tensor<?x64x128xbf16>) weights(%w : tensor<?x64xf32>) over %c, %b : !pool, !mla.batch -> tensor<?x?xf32>
  return
}

// -----

!pool = !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = interleaved, format = "index_k_mxfp4", scale_rule = power_of_two>
func.func @index_scores_c5_mxfp4(%q: tensor<?x64x128xf8E4M3FN>, %w: tensor<?x64xf32>, %c: !pool, %b: !mla.batch) {
  // expected-error @+1 {{expected a query of 'bf16' over keys of the format index_k_mxfp4, got 'tensor<?x64x128xf8E4M3FN>'}}
  %0 = mla.index_scores query(%q : tensor<?x64x128xf8E4M3FN>) weights(%w : tensor<?x64xf32>) over %c, %b : !pool, !mla.batch -> tensor<?x?xf32>
  return
}

// -----

!pool = !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = interleaved, format = "index_k_mxfp4", scale_rule = power_of_two, hadamard = true>
func.func @index_scores_c4_mxfp4(%x: tensor<?x64x128xbf16>, %t: tensor<?x64xf32>, %w: tensor<?x64xf32>, %c: !pool, %b: !mla.batch) {
  %r = mla.rope %x, %t, %b with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> offset 64 : tensor<?x64x128xbf16>, tensor<?x64xf32>, !mla.batch
  %q = mla.round_mxfp4 %r : tensor<?x64x128xbf16>
  // expected-error @+1 {{expected the query to be rotated by mla.hadamard, of a cache with hadamard = true}}
  %0 = mla.index_scores query(%q : tensor<?x64x128xbf16>) weights(%w : tensor<?x64xf32>) over %c, %b : !pool, !mla.batch -> tensor<?x?xf32>
  return
}

// -----

!pool = !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = interleaved, format = "index_k_mxfp4", scale_rule = power_of_two>
func.func @gather_c3(%c: !pool, %b: !mla.batch, %i: index) {
  // expected-error @+1 {{expected a cache of whole bytes for each column, got}}
  %0 = mla.gather %c, %b chunk %i : !pool, !mla.batch -> tensor<?x128xbf16>
  return
}

// -----

!pool = !mla.cache<page_size = 64, fields = [index: 32], element = bf16, rope_order = half, format = "index_k_mxfp4", scale_rule = power_of_two>
func.func @index_append_c5_mxfp4(%x: tensor<?x32xbf16>, %g: tensor<32xf32>, %t: tensor<?x16xf32>, %b: !mla.batch, %c: !pool) {
  // expected-error @+1 {{expected a cache of index: 32 in e4m3 with one scale and without hadamard, got}}
  %0 = mla.index_append %x, %g, %g epsilon 1.0 rope %t with <order = half, dim = 16, theta = 1.0e4, length = 4096> offset 0 into %c, %b : tensor<?x32xbf16>, tensor<32xf32>, tensor<32xf32> rope tensor<?x16xf32> into !pool, !mla.batch
  return
}

// -----

!pool = !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k">
func.func @index_scores_c3_rows(%q: tensor<?x64x128xf8E4M3FN>, %w: tensor<?x64xf32>, %c: !pool, %b: !mla.batch, %rows: index) {
  // expected-error @+1 {{expected scores [T, ?], with 'from' [static, ?] or [?, ?] of 'rows', got 'tensor<?x?xf32>'}}
  %0 = mla.index_scores query(%q : tensor<?x64x128xf8E4M3FN>) weights(%w : tensor<?x64xf32>) over %c, %b rows %rows : !pool, !mla.batch -> tensor<?x?xf32>
  return
}

// -----

func.func @top_k_c5_onto(%s: tensor<64x?xf32>, %o: tensor<?x8xi32>, %b: !mla.batch, %first: index) {
  // expected-error @+1 {{expected onto of the result's type 'tensor<?x16xi32>', got 'tensor<?x8xi32>'}}
  %0 = mla.top_k %s over %b from %first onto(%o : tensor<?x8xi32>) k 16 : tensor<64x?xf32>, !mla.batch -> tensor<?x16xi32>
  return
}

// -----

func.func @top_k_c5_first(%s: tensor<64x?xf32>, %b: !mla.batch, %first: index) {
  // expected-error @+1 {{expected from and onto together}}
  %0 = "mla.top_k"(%s, %b, %first) <{k = 16 : i64, operandSegmentSizes = array<i32: 1, 0, 1, 1, 0>}> : (tensor<64x?xf32>, !mla.batch, index) -> tensor<?x16xi32>
  return
}
