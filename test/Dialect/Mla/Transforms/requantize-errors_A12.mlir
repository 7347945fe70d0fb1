// A12: blocks that products of codes do not have, and shapes, by their names.
//
// RUN: mla-opt %s --split-input-file --verify-diagnostics --mla-absorb-weights=requantize

!cache = !mla.cache<page_size = 4, fields = [latent: 256, rope: 8], element = bf16, rope_order = interleaved>

// GLM's heads have 192 columns.
module attributes {mla.weight_scales = array<i64: 128, 128>} {
  func.func @depth(%q: tensor<?x2x192xbf16>, %q_pe: tensor<?x2x8xbf16>, %uk: tensor<2x192x256xbf16>,
                   %uv: tensor<2x64x256xbf16>, %c: tensor<?x256xbf16>, %k_pe: tensor<?x8xbf16>, %cache: !cache,
                   %batch: !mla.batch<query_len = 1>) -> tensor<?x2x64xbf16> {
    // expected-error@+1 {{cannot requantise W_UK: expected a product of a multiple of 64 columns with a depth that is a multiple of 128, got 256 with 192}}
    %out = mla.attention query(%q, %q_pe : tensor<?x2x192xbf16>, tensor<?x2x8xbf16>) latent(%c, %k_pe : tensor<?x256xbf16>, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<2x192x256xbf16>, tensor<2x64x256xbf16>) over %cache, %batch : !cache, !mla.batch<query_len = 1>
      scale 0.1 {form = #mla.form<absorbed>} -> tensor<?x2x64xbf16>
    return %out : tensor<?x2x64xbf16>
  }
}

// -----

!cache = !mla.cache<page_size = 4, fields = [latent: 256, rope: 8], element = bf16, rope_order = interleaved>

module attributes {mla.weight_scales = array<i64: 48, 56>} {
  func.func @blocks(%q: tensor<?x2x128xbf16>, %q_pe: tensor<?x2x8xbf16>, %uk: tensor<2x128x256xbf16>,
                    %uv: tensor<2x64x256xbf16>, %c: tensor<?x256xbf16>, %k_pe: tensor<?x8xbf16>, %cache: !cache,
                    %batch: !mla.batch<query_len = 1>) -> tensor<?x2x64xbf16> {
    // expected-error@+1 {{cannot requantise W_UK: expected scales of the tensor, of rows, or of blocks of one row or a multiple of 64 by 128 columns, got blocks of 48 x 56}}
    %out = mla.attention query(%q, %q_pe : tensor<?x2x128xbf16>, tensor<?x2x8xbf16>) latent(%c, %k_pe : tensor<?x256xbf16>, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<2x128x256xbf16>, tensor<2x64x256xbf16>) over %cache, %batch : !cache, !mla.batch<query_len = 1>
      scale 0.1 {form = #mla.form<absorbed>} -> tensor<?x2x64xbf16>
    return %out : tensor<?x2x64xbf16>
  }
}

// -----

// expected-error@+1 {{mla-absorb-weights: requantize expects a module with mla.weight_scales, the blocks of its weights' scales}}
module {}
