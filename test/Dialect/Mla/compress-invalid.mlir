// RUN: mla-opt %s --split-input-file --verify-diagnostics

// One case per constraint; the function is named after the op and the constraint.

func.func @rms_norm_c1_heads(%x: tensor<?x8x64xbf16>) {
  // expected-error @+1 {{expected result to be [T, N, L] with N = 8 (from input), got 'tensor<?x4x64xf32>'}}
  %0 = mla.rms_norm %x eps 1.0e-6 : tensor<?x8x64xbf16> -> tensor<?x4x64xf32>
  return
}

// -----

func.func @rms_norm_c1_wider(%x: tensor<?x64xf32>) {
  // expected-error @+1 {{expected result to have input's element type 'f32', got 'bf16'}}
  %0 = mla.rms_norm %x eps 1.0e-6 : tensor<?x64xf32> -> tensor<?x64xbf16>
  return
}

// -----

func.func @rope_c3(%x: tensor<?x64xbf16>, %t: tensor<?x64xf32>, %b: !mla.batch) {
  // expected-error @+1 {{expected a result of the input's shape and element type, or of an input of f32, got 'tensor<?x64xf32>' of 'tensor<?x64xbf16>'}}
  %0 = mla.rope %x, %t, %b with <order = half, dim = 64, theta = 1.0e4, length = 4096> : tensor<?x64xbf16>, tensor<?x64xf32>, !mla.batch -> tensor<?x64xf32>
  return
}

// -----

func.func @rope_c5_heads(%x: tensor<?x64xbf16>, %t: tensor<?x64xf32>, %b: !mla.batch) {
  // expected-error @+1 {{expected rows of heads [T, N, D] to become codes, got 'tensor<?x64xbf16>'}}
  %0 = mla.rope %x, %t, %b with <order = half, dim = 64, theta = 1.0e4, length = 4096> {codes_group = 64 : i64} : tensor<?x64xbf16>, tensor<?x64xf32>, !mla.batch
  return
}

// -----

func.func @rope_c5_group(%x: tensor<?x2x64xbf16>, %t: tensor<?x64xf32>, %b: !mla.batch) {
  // expected-error @+1 {{expected a group above 0 that divides 64 columns, got 48}}
  %0 = mla.rope %x, %t, %b with <order = half, dim = 64, theta = 1.0e4, length = 4096> {codes_group = 48 : i64} : tensor<?x2x64xbf16>, tensor<?x64xf32>, !mla.batch
  return
}

// -----

func.func @rope_c4(%x: tensor<?x64xbf16>, %t: tensor<?x64xf32>, %b: !mla.batch) {
  // expected-error @+1 {{expected every > 0, got 0}}
  %0 = mla.rope %x, %t, %b with <order = half, dim = 64, theta = 1.0e4, length = 4096> every 0 : tensor<?x64xbf16>, tensor<?x64xf32>, !mla.batch
  return
}

// -----

func.func @add_position_bias_c1(%x: tensor<?x64xf32>, %w: tensor<4x32xf32>, %b: !mla.batch) {
  // expected-error @+1 {{expected bias to be [r, C] with C = 64 (from input), got 'tensor<4x32xf32>'}}
  %0 = mla.add_position_bias %x, %w, %b : tensor<?x64xf32>, tensor<4x32xf32>, !mla.batch
  return
}

// -----

func.func @add_position_bias_c1_static(%x: tensor<?x64xf32>, %w: tensor<?x64xf32>, %b: !mla.batch) {
  // expected-error @+1 {{expected a bias of static sizes above 0, got 'tensor<?x64xf32>'}}
  %0 = mla.add_position_bias %x, %w, %b : tensor<?x64xf32>, tensor<?x64xf32>, !mla.batch
  return
}

// -----

!c = !mla.cache<page_size = 4, fields = [key: 64, value: 32], element = f32, format = "kv_nhd">
func.func @compress_c1(%c: !c, %b: !mla.batch) {
  // expected-error @+1 {{expected a pool with one key and one value, equally wide, got}}
  %0 = mla.compress %c, %b every 4 : !c, !mla.batch -> tensor<?x64xf32>
  return
}

// -----

!c = !mla.cache<page_size = 4, fields = [key: 64, value: 64], element = f32, format = "kv_nhd">
func.func @compress_c2(%c: !c, %b: !mla.batch) {
  // expected-error @+1 {{expected result to be [T, D] with D = 32 (from cache), got 'tensor<?x64xf32>'}}
  %0 = mla.compress %c, %b every 4 overlap : !c, !mla.batch -> tensor<?x64xf32>
  return
}

// -----

!c = !mla.cache<page_size = 4, fields = [key: 64, value: 64], element = f32, format = "kv_nhd">
func.func @compress_c2_element(%c: !c, %b: !mla.batch) {
  // expected-error @+1 {{expected a result of f32, got 'tensor<?x64xbf16>'}}
  %0 = mla.compress %c, %b every 4 : !c, !mla.batch -> tensor<?x64xbf16>
  return
}

// -----

!c = !mla.cache<page_size = 4, fields = [key: 64, value: 64], element = f32, format = "kv_nhd">
func.func @compress_c3(%c: !c, %b: !mla.batch) {
  // expected-error @+1 {{expected every > 0, got 0}}
  %0 = mla.compress %c, %b every 0 : !c, !mla.batch -> tensor<?x64xf32>
  return
}

// -----

!c = !mla.cache<page_size = 4, fields = [key: 64, value: 64], element = f32, format = "kv_nhd", window = 7>
func.func @compress_c4(%c: !c, %b: !mla.batch) {
  // expected-error @+1 {{expected a row of every token, of the last 8 at least, got tokens_per_row = 1, window = 7}}
  %0 = mla.compress %c, %b every 4 overlap : !c, !mla.batch -> tensor<?x32xf32>
  return
}

// -----

func.func @seen_keys_c1(%b: !mla.batch) {
  // expected-error @+1 {{expected a window >= 0, and none beside every = 4, got 8}}
  %0 = mla.seen_keys %b window 8 every 4 : !mla.batch -> tensor<?xi32>
  return
}

// -----

func.func @seen_keys_c1_every(%b: !mla.batch) {
  // expected-error @+1 {{expected every > 0, got 0}}
  %0 = mla.seen_keys %b every 0 : !mla.batch -> tensor<?xi32>
  return
}

// -----

func.func @seen_keys_c2(%b: !mla.batch) {
  // expected-error @+1 {{expected keys [T, K] of a static K above 0 and not below the window 8, got 'tensor<?x7xi32>'}}
  %0, %1 = mla.seen_keys %b window 8 : !mla.batch -> tensor<?xi32>, tensor<?x7xi32>
  return
}

// -----

func.func @seen_keys_c4(%b: !mla.batch, %c: !mla.cache<page_size = 64, fields = [latent: 32], element = bf16>) {
  // expected-error @+1 {{expected a pool with keys alone}}
  %0 = mla.seen_keys %b window 8 in %c : !mla.batch in !mla.cache<page_size = 64, fields = [latent: 32], element = bf16> -> tensor<?xi32>
  return
}

// -----

func.func @seen_keys_c3(%b: !mla.batch) attributes {mla.decode_threshold = 1 : i64} {
  %d = mla.batch_part %b decodes : !mla.batch -> !mla.batch
  // expected-error @+1 {{expected the batch of a step, got a part of one}}
  %0 = mla.seen_keys %d window 8 : !mla.batch -> tensor<?xi32>
  return
}

// -----

!w = !mla.cache<page_size = 64, fields = [latent: 32], element = bf16, rope_order = interleaved>
!e = !mla.cache<page_size = 64, fields = [latent: 64], element = bf16, rope_order = interleaved>
func.func @sparse_attention_c10(%q: tensor<?x8x32xbf16>, %r: tensor<?x40xi32>, %n: tensor<?xi32>, %w: !w, %e: !e, %b: !mla.batch) {
  // expected-error @+1 {{expected a second scope of rows as the first one's, got}}
  %0 = mla.sparse_attention query(%q : tensor<?x8x32xbf16>) rows(%r : tensor<?x40xi32>) over %w, %b : !w, !mla.batch beside(%r, %n, %e : tensor<?x40xi32>, tensor<?xi32>, !e) scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

!w = !mla.cache<page_size = 64, fields = [latent: 32], element = bf16, rope_order = interleaved>
func.func @sparse_attention_c10_keys(%q: tensor<?x8x32xbf16>, %k: tensor<?x32xbf16>, %r: tensor<?x40xi32>, %n: tensor<?xi32>, %w: !w) {
  // expected-error @+1 {{expected rows, lengths and a cache of a second scope, beside a cache}}
  %0 = mla.sparse_attention query(%q : tensor<?x8x32xbf16>) rows(%r : tensor<?x40xi32>) keys(%k : tensor<?x32xbf16>) beside(%r, %n, %w : tensor<?x40xi32>, tensor<?xi32>, !w) scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

!w = !mla.cache<page_size = 64, fields = [latent: 32], element = bf16, rope_order = interleaved>
func.func @sparse_attention_c10_width(%q: tensor<?x8x32xbf16>, %r: tensor<?x40xi32>, %f: tensor<?x?xi32>, %n: tensor<?xi32>, %w: !w, %e: !w, %b: !mla.batch) {
  // expected-error @+1 {{expected rows [T, K2] of a static K2 > 0, got 'tensor<?x?xi32>'}}
  %0 = mla.sparse_attention query(%q : tensor<?x8x32xbf16>) rows(%r : tensor<?x40xi32>) over %w, %b : !w, !mla.batch beside(%f, %n, %e : tensor<?x?xi32>, tensor<?xi32>, !w) scale 0.1 -> tensor<?x8x32xbf16>
  return
}
