// RUN: mla-opt %s --split-input-file --verify-diagnostics

// One case per constraint; the function is named after the op and the constraint.
// A15: the weights of a product share their element type.

// expected-error @+1 {{expected page_size and tokens_per_row above 0 and window >= 0, got 0, 1 and 0}}
func.func private @cache_v1(!mla.cache<page_size = 0, fields = [latent: 512, rope: 64], element = bf16, rope_order = half>)

// -----

// expected-error @+1 {{expected an even width of the field 'rope', got 63}}
func.func private @cache_v2(!mla.cache<page_size = 64, fields = [latent: 512, rope: 63], element = bf16, rope_order = half>)

// -----

// expected-error @+1 {{expected a width above 0 of the field 'latent', got 1 x 0}}
func.func private @cache_v1_width(!mla.cache<page_size = 64, fields = [latent: 0], element = bf16>)

// -----

// expected-error @+1 {{expected the field 'value' of format kv_nhd, got no other field}}
func.func private @cache_v4_missing(!mla.cache<page_size = 64, fields = [key: 8x128], element = bf16, format = "kv_nhd">)

// -----

// expected-error @+1 {{expected the field 'latent' of format mla_16, got 'key'}}
func.func private @cache_v4_other(!mla.cache<page_size = 64, fields = [key: 8x128, value: 8x128], element = bf16>)

// -----

// expected-error @+1 {{no format of the cache has a field 'state'}}
func.func private @cache_v4_unknown(!mla.cache<page_size = 64, fields = [state: 8], element = bf16>)

// -----

// expected-error @+1 {{expected a cache element of bf16, f16 or f32, got 'i8'}}
func.func private @cache_v3(!mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = i8, rope_order = half>)

// -----

// expected-error @+1 {{expected a cache format of mla_16, mla_f32, mla_fp8_tensor, fp8_ds_mla, split_ckv_kpe, kv_nhd, k_nhd, v_nhd, kv_nhd_fp8, index_k, index_k_mxfp4, model1_584, got model1_585}}
func.func private @cache_v4_name(!mla.cache<page_size = 64, fields = [latent: 448, rope: 64], element = bf16, rope_order = half, format = "model1_585">)

// -----

// expected-error @+1 {{expected scale_rule power_of_two: scales of cache format model1_584 are bare exponents}}
func.func private @cache_v5_exponents(!mla.cache<page_size = 64, fields = [latent: 448, rope: 64], element = bf16, rope_order = half, format = "model1_584">)

// -----

// A view of whole rows of 584 bytes is none of this format: its scales are no field of a row.
// expected-error @+1 {{cache format model1_584 has latent 448, got 512}}
func.func private @cache_v4_interleaved(!mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = half, format = "model1_584", scale_rule = power_of_two>)

// -----

// expected-error @+1 {{cache format fp8_ds_mla does not take elements of 'f16'}}
func.func private @cache_v4_element(!mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = f16, rope_order = half, format = "fp8_ds_mla">)

// -----

// expected-error @+1 {{cache format fp8_ds_mla has latent 512, got 256}}
func.func private @cache_v4_width(!mla.cache<page_size = 64, fields = [latent: 256, rope: 64], element = bf16, rope_order = half, format = "fp8_ds_mla">)

// -----

// expected-error @+1 {{cache format mla_fp8_tensor: expected rows of a multiple of 16 bytes, got 40}}
func.func private @cache_v5(!mla.cache<page_size = 64, fields = [latent: 32, rope: 8], element = bf16, rope_order = half, format = "mla_fp8_tensor">)

// -----

// expected-error @+1 {{cache format split_ckv_kpe: expected rows of a multiple of 16 bytes, got 8}}
func.func private @cache_v5_section(!mla.cache<page_size = 64, fields = [latent: 32, rope: 4], element = bf16, rope_order = half, format = "split_ckv_kpe">)

// -----

// expected-error @+1 {{expected scale_rule raw, got power_of_two: cache format mla_fp8_tensor has no groups of scales}}
func.func private @cache_v6(!mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = half, format = "mla_fp8_tensor", scale_rule = power_of_two>)

// -----

// expected-error @+1 {{expected query_len >= 1, got 0}}
func.func private @batch_v1(!mla.batch<query_len = 0>)

// -----

// expected-error @+1 {{expected context_len >= 0, got -1}}
func.func private @batch_context_v1(!mla.batch<query_len = 1, context_len = -1>)

// -----

// expected-error @+1 {{expected query_len of at most 2147483647, got 2147483648}}
func.func private @batch_length_v1(!mla.batch<query_len = 2147483648>)

// -----

// Bytes of a page had no number.
// expected-error @+1 {{expected a page_size of at most 2147483647, got 2147483648}}
func.func private @cache_page_v1(!mla.cache<page_size = 2147483648, fields = [key: 2x128, value: 2x128], element = bf16, format = "kv_nhd">)

// -----

// expected-error @+1 {{expected query_len or context_len, got length}}
func.func private @batch_field(!mla.batch<length = 1>)

// -----

// expected-error @+1 {{expected an even rope dim above 0, got 63}}
func.func private @rope_v1() attributes {rope = #mla.rope<order = half, dim = 63, theta = 1.0e4, length = 4096>}

// -----

// expected-error @+1 {{expected theta and length above 0, got 0.000000e+00 and 4096}}
func.func private @rope_v2() attributes {rope = #mla.rope<order = half, dim = 64, theta = 0.0, length = 4096>}

// -----

// expected-error @+1 {{yarn: expected factor and original_max_position above 0, got 4.000000e+01 and 0}}
func.func private @rope_v3() attributes {rope = #mla.rope<order = half, dim = 64, theta = 1.0e4, length = 4096, scaling = yarn, factor = 40.0>}

// -----

// expected-error @+1 {{expected theta above 0 that f32 holds, got 1.000000e-39}}
func.func private @rope_v5_theta() attributes {rope = #mla.rope<order = half, dim = 4, length = 4096, theta = 1.0e-39>}

// -----

// expected-error @+1 {{expected a multiplier that f32 holds, got 1.000000e+39}}
func.func private @rope_v5_multiplier() attributes {rope = #mla.rope<order = half, dim = 4, length = 4096, theta = 1.0e4, multiplier = 1.0e39>}

// -----

// expected-error @+1 {{expected factor above 0 that f32 holds, got 1.000000e+39}}
func.func private @rope_v5_factor() attributes {rope = #mla.rope<order = half, dim = 4, length = 4096, theta = 1.0e4, scaling = yarn, factor = 1.0e39, original_max_position = 8>}

// -----

// expected-error @+1 {{expected beta_slow above 0 that f32 holds, got 0.000000e+00}}
func.func private @rope_v5_beta() attributes {rope = #mla.rope<order = half, dim = 4, length = 4096, theta = 1.0e4, scaling = yarn, factor = 4.0, original_max_position = 8, beta_slow = 0.0>}

// -----

// expected-error @+1 {{expected longrope's factors above 0 that f32 holds, got 0.000000e+00}}
func.func private @rope_v5_factors() attributes {rope = #mla.rope<order = half, dim = 4, length = 4096, theta = 1.0e4, scaling = longrope, original_max_position = 8, short_factors = [1.0, 2.0], long_factors = [1.0, 0.0]>}

// -----

// expected-error @+1 {{longrope: expected 32 factors, got 1}}
func.func private @rope_v4() attributes {rope = #mla.rope<order = half, dim = 64, theta = 1.0e4, length = 4096, scaling = longrope, short_factors = [1.0]>}

// -----

// expected-error @+1 {{unknown rope order 'odd'}}
func.func private @rope_order() attributes {rope = #mla.rope<order = odd, dim = 64, theta = 1.0e4, length = 4096>}

// -----

// expected-error @+1 {{unknown rope field 'size'}}
func.func private @rope_field() attributes {rope = #mla.rope<order = half, size = 64>}

// -----

func.func @rms_norm_c1(%x: tensor<?x512xbf16>, %g: tensor<256xbf16>) {
  // expected-error @+1 {{expected gamma to be [L] with L = 512 (from input), got 'tensor<256xbf16>'}}
  %0 = mla.rms_norm %x, %g eps 1.0e-6 : tensor<?x512xbf16>, tensor<256xbf16> -> tensor<?x512xbf16>
  return
}

// -----

func.func @rms_norm_c1_element(%x: tensor<?x512xbf16>, %g: tensor<512xf32>) {
  // expected-error @+1 {{expected gamma to have input's element type 'bf16', got 'f32'}}
  %0 = mla.rms_norm %x, %g eps 1.0e-6 : tensor<?x512xbf16>, tensor<512xf32> -> tensor<?x512xbf16>
  return
}

// -----

func.func @rms_norm_c2(%x: tensor<?x512xbf16>, %g: tensor<512xbf16>) {
  // expected-error @+1 {{expected eps > 0, got 0.000000e+00}}
  %0 = mla.rms_norm %x, %g eps 0.0 : tensor<?x512xbf16>, tensor<512xbf16> -> tensor<?x512xbf16>
  return
}

// -----

func.func @project_c1(%x: tensor<?x16x128xbf16>, %w: tensor<7168x2000xbf16>) {
  // expected-error @+1 {{expected weight to be [O, I] with I = 2048 (from input's rows), got 'tensor<7168x2000xbf16>'}}
  %0 = mla.project %x, %w : tensor<?x16x128xbf16>, tensor<7168x2000xbf16> -> tensor<?x7168xbf16>
  return
}

// -----

func.func @project_c2(%x: tensor<?x1536xbf16>, %w: tensor<16x128x1536xbf16>) {
  // expected-error @+1 {{expected result to be [T, N, J] with J = 128 (from weight), got 'tensor<?x16x64xbf16>'}}
  %0 = mla.project %x, %w : tensor<?x1536xbf16>, tensor<16x128x1536xbf16> -> tensor<?x16x64xbf16>
  return
}

// -----

func.func @project_c3(%x: tensor<?x1536xbf16>, %w: tensor<64x1536xf32>) {
  // expected-error @+1 {{expected weight to have input's element type 'bf16', got 'f32'}}
  %0 = mla.project %x, %w : tensor<?x1536xbf16>, tensor<64x1536xf32> -> tensor<?x64xbf16>
  return
}

// -----

func.func @project_c5(%x: tensor<?x1536xbf16>, %w: tensor<64x1536xbf16>) {
  // expected-error @+1 {{expected rows [T, O] of f32 and no bias of rounded sums, got 'tensor<?x64xbf16>'}}
  %0 = mla.project %x, %w {rounded} : tensor<?x1536xbf16>, tensor<64x1536xbf16> -> tensor<?x64xbf16>
  return
}

// -----

func.func @project_c4(%x: tensor<?x1536xbf16>, %w: tensor<16x128x1536xbf16>, %b: tensor<16xbf16>) {
  // expected-error @+1 {{expected weight of rank 2 beside a bias, got 'tensor<16x128x1536xbf16>'}}
  %0 = mla.project %x, %w bias(%b : tensor<16xbf16>) : tensor<?x1536xbf16>, tensor<16x128x1536xbf16> -> tensor<?x16x128xbf16>
  return
}

// -----

func.func @project_c4_shape(%x: tensor<?x1536xbf16>, %w: tensor<64x1536xbf16>, %b: tensor<16xbf16>) {
  // expected-error @+1 {{expected bias to be [O] with O = 64 (from weight), got 'tensor<16xbf16>'}}
  %0 = mla.project %x, %w bias(%b : tensor<16xbf16>) : tensor<?x1536xbf16>, tensor<64x1536xbf16> -> tensor<?x64xbf16>
  return
}

// -----

func.func @latent_project_c1(%h: tensor<?x7168xbf16>, %w: tensor<576x7168xbf16>, %g: tensor<512xbf16>) {
  // expected-error @+1 {{expected tail with R = 64 (from weight and gamma), got none}}
  %0 = mla.latent_project %h, %w, %g eps 1.0e-6 : tensor<?x7168xbf16>, tensor<576x7168xbf16>, tensor<512xbf16> -> tensor<?x512xbf16>
  return
}

// -----

func.func @latent_project_c1_rows(%h: tensor<?x7168xbf16>, %w: tensor<500x7168xbf16>, %g: tensor<512xbf16>) {
  // expected-error @+1 {{expected weight to have at least gamma's 512 rows, got 500}}
  %0 = mla.latent_project %h, %w, %g eps 1.0e-6 : tensor<?x7168xbf16>, tensor<500x7168xbf16>, tensor<512xbf16> -> tensor<?x512xbf16>
  return
}

// -----

func.func @latent_project_c1_tail(%h: tensor<?x7168xbf16>, %w: tensor<576x7168xbf16>, %g: tensor<512xbf16>) {
  // expected-error @+1 {{expected tail to be [T, R] with R = 64 (from weight and gamma), got 'tensor<?x32xbf16>'}}
  %0, %1 = mla.latent_project %h, %w, %g eps 1.0e-6 : tensor<?x7168xbf16>, tensor<576x7168xbf16>, tensor<512xbf16> -> tensor<?x512xbf16>, tensor<?x32xbf16>
  return
}

// -----

func.func @latent_project_c2(%h: tensor<?x7168xbf16>, %w: tensor<576x7168xbf16>, %g: tensor<512xbf16>) {
  // expected-error @+1 {{expected latent to have input's element type 'bf16', got 'f32'}}
  %0, %1 = mla.latent_project %h, %w, %g eps 1.0e-6 : tensor<?x7168xbf16>, tensor<576x7168xbf16>, tensor<512xbf16> -> tensor<?x512xf32>, tensor<?x64xbf16>
  return
}

// -----

func.func @latent_project_c3(%h: tensor<?x7168xbf16>, %w: tensor<576x7168xbf16>, %g: tensor<512xbf16>) {
  // expected-error @+1 {{expected eps > 0, got -1.000000e+00}}
  %0, %1 = mla.latent_project %h, %w, %g eps -1.0 : tensor<?x7168xbf16>, tensor<576x7168xbf16>, tensor<512xbf16> -> tensor<?x512xbf16>, tensor<?x64xbf16>
  return
}

// -----

func.func @latent_project_c4(%h: tensor<?x7168xbf16>, %w: tensor<576x7168xbf16>, %g: tensor<512xbf16>, %b: tensor<512xbf16>) {
  // expected-error @+1 {{expected bias to be [L + R] with L + R = 576 (from weight), got 'tensor<512xbf16>'}}
  %0, %1 = mla.latent_project %h, %w, %g bias(%b : tensor<512xbf16>) eps 1.0e-6 : tensor<?x7168xbf16>, tensor<576x7168xbf16>, tensor<512xbf16> -> tensor<?x512xbf16>, tensor<?x64xbf16>
  return
}

// -----

func.func @head_project_c1(%x: tensor<?x16x128xbf16>, %w: tensor<16x128x512xbf16>) {
  // expected-error @+1 {{expected weight to be [N, J, K] with K = 128 (from input), got 'tensor<16x128x512xbf16>'}}
  %0 = mla.head_project %x, %w : tensor<?x16x128xbf16>, tensor<16x128x512xbf16> -> tensor<?x16x512xbf16>
  return
}

// -----

func.func @head_project_c2(%x: tensor<?x16x128xbf16>, %w: tensor<16x128x512xf16>) {
  // expected-error @+1 {{expected weight to have input's element type 'bf16', got 'f16'}}
  %0 = mla.head_project %x, %w contract_rows : tensor<?x16x128xbf16>, tensor<16x128x512xf16> -> tensor<?x16x512xbf16>
  return
}

// -----

func.func @fold_query_c1(%a: tensor<16x128x1536xbf16>, %b: tensor<16x64x512xbf16>) {
  // expected-error @+1 {{expected w_uk to be [N, P, Lkv] with P = 128 (from w_uq), got 'tensor<16x64x512xbf16>'}}
  %0 = mla.fold_query %a, %b : tensor<16x128x1536xbf16>, tensor<16x64x512xbf16> -> tensor<16x512x1536xbf16>
  return
}

// -----

func.func @fold_query_c2_A15(%a: tensor<16x128x1536xbf16>, %b: tensor<16x128x512xf32>) {
  // expected-error @+1 {{expected w_uk to have w_uq's element type 'bf16', got 'f32'}}
  %0 = mla.fold_query %a, %b : tensor<16x128x1536xbf16>, tensor<16x128x512xf32> -> tensor<16x512x1536xbf16>
  return
}

// -----

func.func @requantize_c1_A12(%w: tensor<192x512xbf16>) {
  // expected-error@+1 {{expected a weight [O, I], [N, J, I] or, transposed, [N, I, J], of static shape, got 'tensor<192x512xbf16>'}}
  %0, %1 = mla.requantize %w block [128, 128] transposed : tensor<192x512xbf16> -> tensor<512x192xf8E4M3FN>, tensor<4x2xf32>
  return
}

// -----

func.func @requantize_c1_codes_A12(%w: tensor<2x128x256xbf16>) {
  // expected-error@+1 {{expected codes 'tensor<512x128xf8E4M3FN>' of 'tensor<2x128x256xbf16>', got 'tensor<256x256xf8E4M3FN>'}}
  %0, %1 = mla.requantize %w block [128, 128] transposed : tensor<2x128x256xbf16> -> tensor<256x256xf8E4M3FN>, tensor<2x2xf32>
  return
}

// -----

func.func @requantize_c2_A12(%w: tensor<192x512xbf16>) {
  // expected-error@+1 {{expected scales 'tensor<2x4xf32>' of blocks array<i64: 128, 128>, got 'tensor<1x4xf32>'}}
  %0, %1 = mla.requantize %w block [128, 128] : tensor<192x512xbf16> -> tensor<192x512xf8E4M3FN>, tensor<1x4xf32>
  return
}

// -----

func.func @scaled_weight_c1(%c: tensor<256x384xf8E4M3FN>, %s: tensor<2x3xf32>) {
  // expected-error@+1 {{expected result to be [O, I] with I = 384 (from codes), got 'tensor<256x256xbf16>'}}
  %0 = mla.scaled_weight %c, %s block [128, 128] : tensor<256x384xf8E4M3FN>, tensor<2x3xf32> -> tensor<256x256xbf16>
  return
}

// -----

func.func @scaled_weight_c2_A16(%c: tensor<300x384xf8E4M3FN>, %s: tensor<2x3xf32>) {
  // expected-error@+1 {{expected scales 'tensor<3x3xf32>' of blocks array<i64: 128, 128>, got 'tensor<2x3xf32>'}}
  %0 = mla.scaled_weight %c, %s block [128, 128] : tensor<300x384xf8E4M3FN>, tensor<2x3xf32> -> tensor<300x384xbf16>
  return
}

// -----

func.func @scaled_weight_c2_block(%c: tensor<300x384xf8E4M3FN>, %s: tensor<300x1xf32>) {
  // expected-error@+1 {{expected block to be two numbers of at least 0, got array<i64: 1>}}
  %0 = mla.scaled_weight %c, %s block [1] : tensor<300x384xf8E4M3FN>, tensor<300x1xf32> -> tensor<300x384xbf16>
  return
}

// -----

func.func @coded_rows_c1(%x: tensor<?x?xbf16>) {
  // expected-error@+1 {{expected input [T, I] or [T, N, K] with static I, N and K, got 'tensor<?x?xbf16>'}}
  %0 = mla.coded_rows %x group 128 : tensor<?x?xbf16>
  return
}

// -----

func.func @coded_rows_c2(%x: tensor<?x3x64xbf16>) {
  // expected-error@+1 {{expected a group above 0 that divides 192 columns, got 128}}
  %0 = mla.coded_rows %x group 128 : tensor<?x3x64xbf16>
  return
}

// -----

func.func @coded_rows_c2_zero(%x: tensor<?x128xbf16>) {
  // expected-error@+1 {{expected a group above 0 that divides 128 columns, got 0}}
  %0 = mla.coded_rows %x group 0 : tensor<?x128xbf16>
  return
}

// -----

func.func @latent_project_c5(%x: tensor<?x256xbf16>, %w: tensor<192x256xbf16>, %g: tensor<192xbf16>) {
  // expected-error@+1 {{expected a group above 0 that divides 192 columns, got 128}}
  %0 = mla.latent_project %x, %w, %g eps 1.0e-6 {codes_group = 128 : i64}
      : tensor<?x256xbf16>, tensor<192x256xbf16>, tensor<192xbf16> -> tensor<?x192xbf16>
  return
}

// -----

func.func @fold_output_c1(%a: tensor<16x128x512xbf16>, %b: tensor<7168x1024xbf16>) {
  // expected-error @+1 {{expected w_o to be [H, N * V] with N * V = 2048 (from w_uv), got 'tensor<7168x1024xbf16>'}}
  %0 = mla.fold_output %a, %b : tensor<16x128x512xbf16>, tensor<7168x1024xbf16> -> tensor<7168x8192xbf16>
  return
}

// -----

func.func @fold_output_c2(%a: tensor<16x128x512xbf16>, %b: tensor<7168x2048xbf16>) {
  // expected-error @+1 {{expected result to have w_uv's element type 'bf16', got 'f32'}}
  %0 = mla.fold_output %a, %b : tensor<16x128x512xbf16>, tensor<7168x2048xbf16> -> tensor<7168x8192xf32>
  return
}

// -----

func.func @fold_output_c2_w_o_A15(%a: tensor<16x128x512xbf16>, %b: tensor<7168x2048xf32>) {
  // expected-error @+1 {{expected w_o to have w_uv's element type 'bf16', got 'f32'}}
  %0 = mla.fold_output %a, %b : tensor<16x128x512xbf16>, tensor<7168x2048xf32> -> tensor<7168x8192xbf16>
  return
}

// -----

func.func @rope_table_c1() {
  // expected-error @+1 {{expected result to be [length, R] with R = 64 (from rope), got 'tensor<?x32xf32>'}}
  %0 = mla.rope_table <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> : tensor<?x32xf32>
  return
}

// -----

func.func @rope_c1(%x: tensor<?x16x32xbf16>, %t: tensor<?x64xf32>, %b: !mla.batch) {
  // expected-error @+1 {{expected input to be [T, N, R] with R = 64 (from rope), got 'tensor<?x16x32xbf16>'}}
  %0 = mla.rope %x, %t, %b with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> : tensor<?x16x32xbf16>, tensor<?x64xf32>, !mla.batch
  return
}

// -----

func.func @rope_c2(%x: tensor<?x64xbf16>, %t: tensor<?x32xf32>, %b: !mla.batch) {
  // expected-error @+1 {{expected table to be [length, R] with R = 64 (from rope), got 'tensor<?x32xf32>'}}
  %0 = mla.rope %x, %t, %b with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> : tensor<?x64xbf16>, tensor<?x32xf32>, !mla.batch
  return
}

// -----

func.func @append_c1(%c: tensor<?x256xbf16>, %k: tensor<?x64xbf16>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch) {
  // expected-error @+1 {{expected latent to be [T, latent] with latent = 512 (from cache), got 'tensor<?x256xbf16>'}}
  %0 = mla.append %c, %k into %cache, %b : tensor<?x256xbf16>, tensor<?x64xbf16> into !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch
  return
}

// -----

func.func @append_c1_element(%c: tensor<?x512xbf16>, %k: tensor<?x64xf32>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch) {
  // expected-error @+1 {{expected rope to have the cache's element type 'bf16', got 'f32'}}
  %0 = mla.append %c, %k into %cache, %b : tensor<?x512xbf16>, tensor<?x64xf32> into !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch
  return
}

// -----

func.func @append_c1_k_pe(%c: tensor<?x512xbf16>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch) {
  // expected-error @+1 {{expected a tensor for each of the cache's 2 fields, got 1}}
  %0 = mla.append %c into %cache, %b : tensor<?x512xbf16> into !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch
  return
}

// -----

func.func @append_c1_no_k_pe(%c: tensor<?x512xbf16>, %k: tensor<?x64xbf16>, %cache: !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved>, %b: !mla.batch) {
  // expected-error @+1 {{expected a tensor for each of the cache's 1 fields, got 2}}
  %0 = mla.append %c, %k into %cache, %b : tensor<?x512xbf16>, tensor<?x64xbf16> into !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved>, !mla.batch
  return
}

// -----

func.func @append_c2(%c: tensor<?x512xbf16>, %k: tensor<?x64xbf16>, %t: tensor<?x64xf32>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch) {
  %r = mla.rope %k, %t, %b with <order = half, dim = 64, theta = 1.0e4, length = 4096> : tensor<?x64xbf16>, tensor<?x64xf32>, !mla.batch
  // expected-error @+1 {{expected the rope key in the cache's rope order interleaved, got half}}
  %0 = mla.append %c, %r into %cache, %b : tensor<?x512xbf16>, tensor<?x64xbf16> into !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch
  return
}

// -----

func.func @gather_c1(%cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch, %i: index) {
  // expected-error @+1 {{expected rope to be [S, rope] with rope = 64 (from cache), got 'tensor<?x32xbf16>'}}
  %0, %1 = mla.gather %cache, %b chunk %i : !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch -> tensor<?x512xbf16>, tensor<?x32xbf16>
  return
}

// -----

func.func @append_c1_heads(%k: tensor<?x8x64xbf16>, %v: tensor<?x8x64xbf16>, %cache: !mla.cache<page_size = 16, fields = [key: 4x64, value: 4x64], element = bf16, format = "kv_nhd">, %b: !mla.batch) {
  // expected-error @+1 {{expected key to be [T, key heads, key columns] with key heads = 4 (from cache), got 'tensor<?x8x64xbf16>'}}
  %0 = mla.append %k, %v into %cache, %b : tensor<?x8x64xbf16>, tensor<?x8x64xbf16> into !mla.cache<page_size = 16, fields = [key: 4x64, value: 4x64], element = bf16, format = "kv_nhd">, !mla.batch
  return
}

// -----

func.func @gather_c2(%cache: !mla.cache<page_size = 16, fields = [latent: 512], element = bf16, tokens_per_row = 4>, %b: !mla.batch, %i: index) {
  // expected-error @+1 {{expected a cache with a row of every token, got tokens_per_row = 4, window = 0}}
  %0 = mla.gather %cache, %b chunk %i : !mla.cache<page_size = 16, fields = [latent: 512], element = bf16, tokens_per_row = 4>, !mla.batch -> tensor<?x512xbf16>
  return
}

// -----

func.func @attention_c8_expanded(%q: tensor<?x3x8xf32>, %c: tensor<?x32xf32>, %wk: tensor<3x8x32xf32>, %wv: tensor<3x16x32xf32>, %cache: !mla.cache<page_size = 4, fields = [latent: 32], element = f32>, %b: !mla.batch, %s: tensor<?x24xi32>) {
  // expected-error @+1 {{expected form auto or absorbed with gathered, got expanded}}
  %0 = mla.attention query(%q : tensor<?x3x8xf32>) latent(%c : tensor<?x32xf32>) weights(%wk, %wv : tensor<3x8x32xf32>, tensor<3x16x32xf32>)
      over %cache, %b : !mla.cache<page_size = 4, fields = [latent: 32], element = f32>, !mla.batch selected(%s : tensor<?x24xi32>) scale 0.5 {form = #mla.form<expanded>, gathered} -> tensor<?x3x16xf32>
  return
}

// -----

func.func @attention_c7_shape(%q: tensor<5x3x8xf32>, %c: tensor<5x32xf32>, %wk: tensor<3x8x32xf32>, %wv: tensor<3x16x32xf32>, %cache: !mla.cache<page_size = 4, fields = [latent: 32], element = f32>, %b: !mla.batch, %s: tensor<4x24xi32>) {
  // expected-error @+1 {{expected selected to be [T, K] with T = 5 (from q_nope), got 'tensor<4x24xi32>'}}
  %0 = mla.attention query(%q : tensor<5x3x8xf32>) latent(%c : tensor<5x32xf32>) weights(%wk, %wv : tensor<3x8x32xf32>, tensor<3x16x32xf32>)
      over %cache, %b : !mla.cache<page_size = 4, fields = [latent: 32], element = f32>, !mla.batch selected(%s : tensor<4x24xi32>) scale 0.5 -> tensor<5x3x16xf32>
  return
}

// -----

func.func @attention_c1(%q: tensor<?x16x128xbf16>, %qp: tensor<?x16x64xbf16>, %l: tensor<?x512xbf16>, %k: tensor<?x64xbf16>, %wk: tensor<16x64x512xbf16>, %wv: tensor<16x128x512xbf16>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch) {
  // expected-error @+1 {{expected w_uk to be [N, P, Lkv] with P = 128 (from q_nope), got 'tensor<16x64x512xbf16>'}}
  %0 = mla.attention query(%q, %qp : tensor<?x16x128xbf16>, tensor<?x16x64xbf16>) latent(%l, %k : tensor<?x512xbf16>, tensor<?x64xbf16>) weights(%wk, %wv : tensor<16x64x512xbf16>, tensor<16x128x512xbf16>)
      over %cache, %b : !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch scale 0.1352 -> tensor<?x16x128xbf16>
  return
}

// -----

func.func @attention_c1_output(%q: tensor<?x16x128xbf16>, %qp: tensor<?x16x64xbf16>, %l: tensor<?x512xbf16>, %k: tensor<?x64xbf16>, %wk: tensor<16x128x512xbf16>, %wv: tensor<16x96x512xbf16>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch) {
  // expected-error @+1 {{expected output to be [T, N, V] with V = 96 (from w_uv), got 'tensor<?x16x128xbf16>'}}
  %0 = mla.attention query(%q, %qp : tensor<?x16x128xbf16>, tensor<?x16x64xbf16>) latent(%l, %k : tensor<?x512xbf16>, tensor<?x64xbf16>) weights(%wk, %wv : tensor<16x128x512xbf16>, tensor<16x96x512xbf16>)
      over %cache, %b : !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch scale 0.1352 -> tensor<?x16x128xbf16>
  return
}

// -----

func.func @attention_c1_q_pe(%q: tensor<?x16x128xbf16>, %qp: index, %l: tensor<?x512xbf16>, %k: tensor<?x64xbf16>, %wk: tensor<16x128x512xbf16>, %wv: tensor<16x128x512xbf16>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch) {
  // expected-error @+1 {{expected q_pe with R = 64 (from cache), got none}}
  %0 = mla.attention query(%q : tensor<?x16x128xbf16>) latent(%l, %k : tensor<?x512xbf16>, tensor<?x64xbf16>) weights(%wk, %wv : tensor<16x128x512xbf16>, tensor<16x128x512xbf16>)
      over %cache, %b : !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch scale 0.1352 -> tensor<?x16x128xbf16>
  return
}

// -----

func.func @attention_c2(%q: tensor<?x16x128xbf16>, %qp: tensor<?x16x64xbf16>, %l: tensor<?x256xbf16>, %k: tensor<?x64xbf16>, %wk: tensor<16x128x512xbf16>, %wv: tensor<16x128x512xbf16>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch) {
  // expected-error @+1 {{expected latent to be [T, Lkv] with Lkv = 512 (from cache), got 'tensor<?x256xbf16>'}}
  %0 = mla.attention query(%q, %qp : tensor<?x16x128xbf16>, tensor<?x16x64xbf16>) latent(%l, %k : tensor<?x256xbf16>, tensor<?x64xbf16>) weights(%wk, %wv : tensor<16x128x512xbf16>, tensor<16x128x512xbf16>)
      over %cache, %b : !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch scale 0.1352 -> tensor<?x16x128xbf16>
  return
}

// -----

func.func @attention_c3(%q: tensor<?x16x128xbf16>, %qp: tensor<?x16x64xbf16>, %l: tensor<?x512xbf16>, %k: tensor<?x64xbf16>, %wk: tensor<16x128x512xbf16>, %wv: tensor<16x128x512xbf16>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch) {
  // expected-error @+1 {{expected scale > 0, got 0.000000e+00}}
  %0 = mla.attention query(%q, %qp : tensor<?x16x128xbf16>, tensor<?x16x64xbf16>) latent(%l, %k : tensor<?x512xbf16>, tensor<?x64xbf16>) weights(%wk, %wv : tensor<16x128x512xbf16>, tensor<16x128x512xbf16>)
      over %cache, %b : !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch scale 0.0 -> tensor<?x16x128xbf16>
  return
}

// -----

func.func @attention_c4(%q: tensor<?x16x128xbf16>, %qp: tensor<?x16x64xbf16>, %l: tensor<?x512xbf16>, %k: tensor<?x64xbf16>, %wk: tensor<16x128x512xbf16>, %wv: tensor<16x128x512xf32>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch) {
  // expected-error @+1 {{expected w_uv to have q_nope's element type 'bf16', got 'f32'}}
  %0 = mla.attention query(%q, %qp : tensor<?x16x128xbf16>, tensor<?x16x64xbf16>) latent(%l, %k : tensor<?x512xbf16>, tensor<?x64xbf16>) weights(%wk, %wv : tensor<16x128x512xbf16>, tensor<16x128x512xf32>)
      over %cache, %b : !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch scale 0.1352 -> tensor<?x16x128xbf16>
  return
}

// -----

func.func @attention_c5(%q: tensor<?x16x128xbf16>, %qp: tensor<?x16x64xbf16>, %l: tensor<?x512xbf16>, %k: tensor<?x64xbf16>, %wk: tensor<16x128x512xbf16>, %wv: tensor<16x128x512xbf16>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch) {
  // expected-error @+1 {{expected lse to have an #mla.lse encoding, got 'tensor<?x16xf32>'}}
  %0, %1 = mla.attention query(%q, %qp : tensor<?x16x128xbf16>, tensor<?x16x64xbf16>) latent(%l, %k : tensor<?x512xbf16>, tensor<?x64xbf16>) weights(%wk, %wv : tensor<16x128x512xbf16>, tensor<16x128x512xbf16>)
      over %cache, %b : !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch scale 0.1352 -> tensor<?x16x128xbf16>, tensor<?x16xf32>
  return
}

// -----

func.func @attention_c5_base(%q: tensor<?x16x128xbf16>, %qp: tensor<?x16x64xbf16>, %l: tensor<?x512xbf16>, %k: tensor<?x64xbf16>, %wk: tensor<16x128x512xbf16>, %wv: tensor<16x128x512xbf16>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch) {
  // expected-error @+1 {{expected lse with base = e and empty = neg_inf, got #mla.lse<base = two, layout = token_major, empty = neg_inf>}}
  %0, %1 = mla.attention query(%q, %qp : tensor<?x16x128xbf16>, tensor<?x16x64xbf16>) latent(%l, %k : tensor<?x512xbf16>, tensor<?x64xbf16>) weights(%wk, %wv : tensor<16x128x512xbf16>, tensor<16x128x512xbf16>)
      over %cache, %b : !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch scale 0.1352 -> tensor<?x16x128xbf16>, tensor<?x16xf32, #mla.lse<base = two, layout = token_major, empty = neg_inf>>
  return
}

// -----

func.func @attention_c5_shape(%q: tensor<?x16x128xbf16>, %qp: tensor<?x16x64xbf16>, %l: tensor<?x512xbf16>, %k: tensor<?x64xbf16>, %wk: tensor<16x128x512xbf16>, %wv: tensor<16x128x512xbf16>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch) {
  // expected-error @+1 {{expected lse to be [N, T] with N = 16 (from q_nope), got 'tensor<32x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>>'}}
  %0, %1 = mla.attention query(%q, %qp : tensor<?x16x128xbf16>, tensor<?x16x64xbf16>) latent(%l, %k : tensor<?x512xbf16>, tensor<?x64xbf16>) weights(%wk, %wv : tensor<16x128x512xbf16>, tensor<16x128x512xbf16>)
      over %cache, %b : !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch scale 0.1352 -> tensor<?x16x128xbf16>, tensor<32x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>>
  return
}

// -----

func.func @expanded_c1(%q: tensor<?x16x128xbf16>, %qp: tensor<?x16x64xbf16>, %kn: tensor<?x16x64xbf16>, %k: tensor<?x64xbf16>, %v: tensor<?x16x128xbf16>, %b: !mla.batch, %i: index) {
  // expected-error @+1 {{expected k_nope to be [S, N, P] with P = 128 (from q_nope), got 'tensor<?x16x64xbf16>'}}
  %0 = mla.expanded_attention query(%q, %qp : tensor<?x16x128xbf16>, tensor<?x16x64xbf16>) keys(%kn, %k : tensor<?x16x64xbf16>, tensor<?x64xbf16>) values(%v : tensor<?x16x128xbf16>)
      over %b : !mla.batch chunk %i scale 0.5 -> tensor<?x16x128xf32>
  return
}

// -----

func.func @expanded_c1_rope(%q: tensor<?x16x128xbf16>, %qp: tensor<?x16x64xbf16>, %kn: tensor<?x16x128xbf16>, %k: index, %v: tensor<?x16x128xbf16>, %b: !mla.batch, %i: index) {
  // expected-error @+1 {{expected q_pe and k_pe both or neither, got q_pe only}}
  %0 = mla.expanded_attention query(%q, %qp : tensor<?x16x128xbf16>, tensor<?x16x64xbf16>) keys(%kn : tensor<?x16x128xbf16>) values(%v : tensor<?x16x128xbf16>)
      over %b : !mla.batch scale 0.5 -> tensor<?x16x128xf32>
  return
}

// -----

func.func @expanded_c1_causal(%q: tensor<8x16x128xbf16>, %qp: tensor<?x16x64xbf16>, %kn: tensor<4x16x128xbf16>, %k: tensor<?x64xbf16>, %v: tensor<?x16x128xbf16>, %b: !mla.batch, %i: index) {
  // expected-error @+1 {{expected k_nope to be [T, N, P] with T = 8 (from q_nope), got 'tensor<4x16x128xbf16>'}}
  %0 = mla.expanded_attention query(%q, %qp : tensor<8x16x128xbf16>, tensor<?x16x64xbf16>) keys(%kn, %k : tensor<4x16x128xbf16>, tensor<?x64xbf16>) values(%v : tensor<?x16x128xbf16>)
      over %b : !mla.batch scale 0.5 -> tensor<?x16x128xf32>
  return
}

// -----

func.func @expanded_c1_element(%q: tensor<?x16x128xbf16>, %qp: tensor<?x16x64xbf16>, %kn: tensor<?x16x128xbf16>, %k: tensor<?x64xbf16>, %v: tensor<?x16x128xf16>, %b: !mla.batch, %i: index) {
  // expected-error @+1 {{expected v to have q_nope's element type 'bf16', got 'f16'}}
  %0 = mla.expanded_attention query(%q, %qp : tensor<?x16x128xbf16>, tensor<?x16x64xbf16>) keys(%kn, %k : tensor<?x16x128xbf16>, tensor<?x64xbf16>) values(%v : tensor<?x16x128xf16>)
      over %b : !mla.batch scale 0.5 -> tensor<?x16x128xf32>
  return
}

// -----

func.func @expanded_c1_output(%q: tensor<?x16x128xbf16>, %qp: tensor<?x16x64xbf16>, %kn: tensor<?x16x128xbf16>, %k: tensor<?x64xbf16>, %v: tensor<?x16x128xbf16>, %b: !mla.batch, %i: index) {
  // expected-error @+1 {{expected output of the query's element type 'bf16' or f32, got 'f16'}}
  %0 = mla.expanded_attention query(%q, %qp : tensor<?x16x128xbf16>, tensor<?x16x64xbf16>) keys(%kn, %k : tensor<?x16x128xbf16>, tensor<?x64xbf16>) values(%v : tensor<?x16x128xbf16>)
      over %b : !mla.batch scale 0.5 -> tensor<?x16x128xf16>
  return
}

// -----

func.func @expanded_c2(%q: tensor<?x16x128xbf16>, %qp: tensor<?x16x64xbf16>, %kn: tensor<?x16x128xbf16>, %k: tensor<?x64xbf16>, %v: tensor<?x16x128xbf16>, %b: !mla.batch, %i: index) {
  // expected-error @+1 {{expected scale > 0, got -5.000000e-01}}
  %0 = mla.expanded_attention query(%q, %qp : tensor<?x16x128xbf16>, tensor<?x16x64xbf16>) keys(%kn, %k : tensor<?x16x128xbf16>, tensor<?x64xbf16>) values(%v : tensor<?x16x128xbf16>)
      over %b : !mla.batch scale -0.5 -> tensor<?x16x128xf32>
  return
}

// -----

func.func @expanded_c5_causal(%q: tensor<?x16x128xbf16>, %b: !mla.batch, %i: index) {
  // expected-error @+1 {{expected splits of a chunk's keys only, got splits without chunk}}
  %0 = mla.expanded_attention query(%q : tensor<?x16x128xbf16>) keys(%q : tensor<?x16x128xbf16>) values(%q : tensor<?x16x128xbf16>)
      over %b : !mla.batch splits %i scale 0.5 -> tensor<?x16x128xf32>
  return
}

// -----

func.func @expanded_c5_layout(%q: tensor<?x16x128xbf16>, %b: !mla.batch, %i: index) {
  // expected-error @+1 {{expected a token_major lse with splits, got 'tensor<16x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>>'}}
  %0, %1 = mla.expanded_attention query(%q : tensor<?x16x128xbf16>) keys(%q : tensor<?x16x128xbf16>) values(%q : tensor<?x16x128xbf16>)
      over %b : !mla.batch chunk %i splits %i scale 0.5 -> tensor<?x16x128xf32>, tensor<16x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>>
  return
}

// -----

func.func @expanded_c3(%q: tensor<?x16x128xbf16>, %qp: tensor<?x16x64xbf16>, %kn: tensor<?x16x128xbf16>, %k: tensor<?x64xbf16>, %v: tensor<?x16x128xbf16>, %b: !mla.batch, %i: index) {
  // expected-error @+1 {{expected lse with base = e and empty = neg_inf, got #mla.lse<base = e, layout = token_major, empty = pos_inf>}}
  %0, %1 = mla.expanded_attention query(%q, %qp : tensor<?x16x128xbf16>, tensor<?x16x64xbf16>) keys(%kn, %k : tensor<?x16x128xbf16>, tensor<?x64xbf16>) values(%v : tensor<?x16x128xbf16>)
      over %b : !mla.batch scale 0.5 -> tensor<?x16x128xf32>, tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = pos_inf>>
  return
}

// -----

func.func @expanded_c4_element(%q: tensor<?x16x128xbf16>, %b: !mla.batch, %p: tensor<?x16x128xbf16>, %l: tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>) {
  // expected-error @+1 {{expected an f32 partial, got 'tensor<?x16x128xbf16>'}}
  %0 = mla.expanded_attention query(%q : tensor<?x16x128xbf16>) keys(%q : tensor<?x16x128xbf16>) values(%q : tensor<?x16x128xbf16>)
      over %b : !mla.batch onto(%p, %l : tensor<?x16x128xbf16>, tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>) scale 0.5 -> tensor<?x16x128xbf16>
  return
}

// -----

func.func @expanded_c4_shape(%q: tensor<?x16x128xbf16>, %b: !mla.batch, %p: tensor<?x16x64xf32>, %l: tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>) {
  // expected-error @+1 {{expected partial to be [T, N, V] with V = 128 (from v), got 'tensor<?x16x64xf32>'}}
  %0 = mla.expanded_attention query(%q : tensor<?x16x128xbf16>) keys(%q : tensor<?x16x128xbf16>) values(%q : tensor<?x16x128xbf16>)
      over %b : !mla.batch onto(%p, %l : tensor<?x16x64xf32>, tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>) scale 0.5 -> tensor<?x16x128xbf16>
  return
}

// -----

func.func @expanded_c4_lse(%q: tensor<?x16x128xbf16>, %b: !mla.batch, %p: tensor<?x16x128xf32>, %l: tensor<?x16xf32, #mla.lse<base = two, layout = token_major, empty = neg_inf>>) {
  // expected-error @+1 {{expected partial_lse with base = e and empty = neg_inf, got #mla.lse<base = two, layout = token_major, empty = neg_inf>}}
  %0 = mla.expanded_attention query(%q : tensor<?x16x128xbf16>) keys(%q : tensor<?x16x128xbf16>) values(%q : tensor<?x16x128xbf16>)
      over %b : !mla.batch onto(%p, %l : tensor<?x16x128xf32>, tensor<?x16xf32, #mla.lse<base = two, layout = token_major, empty = neg_inf>>) scale 0.5 -> tensor<?x16x128xbf16>
  return
}

// -----

func.func @expanded_c4_both(%q: tensor<?x16x128xbf16>, %b: !mla.batch, %p: tensor<?x16x128xf32>) {
  // expected-error @+1 {{expected partial and partial_lse both or neither, got partial only}}
  %0 = "mla.expanded_attention"(%q, %q, %q, %b, %p) <{operandSegmentSizes = array<i32: 1, 0, 1, 0, 1, 1, 0, 1, 0, 0, 0>, scale = 5.0e-01 : f64}>
      : (tensor<?x16x128xbf16>, tensor<?x16x128xbf16>, tensor<?x16x128xbf16>, !mla.batch, tensor<?x16x128xf32>) -> tensor<?x16x128xbf16>
  return
}

// -----

func.func @expanded_c6_rank(%q: tensor<?x16x128xbf16>, %b: !mla.batch, %m: tensor<?xi32>) {
  // expected-error @+1 {{expected marks to be [T, W], got 'tensor<?xi32>'}}
  %0 = mla.expanded_attention query(%q : tensor<?x16x128xbf16>) keys(%q : tensor<?x16x128xbf16>) values(%q : tensor<?x16x128xbf16>)
      over %b : !mla.batch marks(%m : tensor<?xi32>) scale 0.5 -> tensor<?x16x128xbf16>
  return
}

// -----

func.func @absorbed_c1(%q: tensor<?x16x576xbf16>, %qp: tensor<?x16x64xbf16>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch, %s: index) {
  // expected-error @+1 {{expected q_lat to be [T, N, Lkv] with Lkv = 512 (from cache), got 'tensor<?x16x576xbf16>'}}
  %0 = mla.absorbed_attention query(%q, %qp : tensor<?x16x576xbf16>, tensor<?x16x64xbf16>) over %cache, %b : !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch
      scale 0.5 -> tensor<?x16x512xbf16>
  return
}

// -----

func.func @absorbed_c1_rope(%q: tensor<?x16x512xbf16>, %qp: tensor<?x16x64xbf16>, %cache: !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved>, %b: !mla.batch, %s: index) {
  // expected-error @+1 {{expected no q_pe with R = 0 (from cache), got one}}
  %0 = mla.absorbed_attention query(%q, %qp : tensor<?x16x512xbf16>, tensor<?x16x64xbf16>) over %cache, %b : !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved>, !mla.batch
      scale 0.5 -> tensor<?x16x512xbf16>
  return
}

// -----

func.func @absorbed_c1_element(%q: tensor<?x16x512xf32>, %qp: tensor<?x16x64xf32>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch, %s: index) {
  // expected-error @+1 {{expected q_lat to have the cache's element type 'bf16', got 'f32'}}
  %0 = mla.absorbed_attention query(%q, %qp : tensor<?x16x512xf32>, tensor<?x16x64xf32>) over %cache, %b : !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch
      scale 0.5 -> tensor<?x16x512xbf16>
  return
}

// -----

func.func @absorbed_c1_output(%q: tensor<?x16x512xbf16>, %qp: tensor<?x16x64xbf16>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch, %s: index) {
  // expected-error @+1 {{expected output to be [T, N, Lkv] with N = 16 (from q_lat), got 'tensor<?x8x512xbf16>'}}
  %0 = mla.absorbed_attention query(%q, %qp : tensor<?x16x512xbf16>, tensor<?x16x64xbf16>) over %cache, %b : !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch
      scale 0.5 -> tensor<?x8x512xbf16>
  return
}

// -----

func.func @absorbed_c2(%q: tensor<?x16x512xbf16>, %qp: tensor<?x16x64xbf16>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch, %s: index) {
  // expected-error @+1 {{expected scale > 0, got 0.000000e+00}}
  %0 = mla.absorbed_attention query(%q, %qp : tensor<?x16x512xbf16>, tensor<?x16x64xbf16>) over %cache, %b : !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch
      scale 0.0 -> tensor<?x16x512xbf16>
  return
}

// -----

func.func @absorbed_c3(%q: tensor<?x16x512xbf16>, %qp: tensor<?x16x64xbf16>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch, %s: index) {
  // expected-error @+1 {{expected lse with layout = token_major, got #mla.lse<base = e, layout = head_major, empty = neg_inf>}}
  %0, %1 = mla.absorbed_attention query(%q, %qp : tensor<?x16x512xbf16>, tensor<?x16x64xbf16>) over %cache, %b : !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch
      scale 0.5 -> tensor<?x16x512xbf16>, tensor<16x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>>
  return
}

// -----

func.func @absorbed_c4_lse(%q: tensor<?x16x512xbf16>, %qp: tensor<?x16x64xbf16>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch, %s: index) {
  // expected-error @+1 {{expected an lse beside num_splits, got none}}
  %0 = mla.absorbed_attention query(%q, %qp : tensor<?x16x512xbf16>, tensor<?x16x64xbf16>) over %cache, %b : !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch splits %s
      scale 0.5 -> tensor<?x?x16x512xf32>
  return
}

// -----

func.func @empty_partial_c1(%b: !mla.batch) {
  // expected-error @+1 {{expected lse to be [T, N] with N = 16 (from output), got 'tensor<?x8xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>'}}
  %0, %1 = mla.empty_partial %b : !mla.batch -> tensor<?x16x128xf32>, tensor<?x8xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
  return
}

// -----

func.func @merge_c1(%a: tensor<?x16x128xf32>, %al: tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>, %b: tensor<?x16x64xf32>, %bl: tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>) {
  // expected-error @+1 {{expected b to be [T, N, V] with V = 128 (from a), got 'tensor<?x16x64xf32>'}}
  %0 = mla.merge %a, %al with %b, %bl : tensor<?x16x128xf32>, tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
      with tensor<?x16x64xf32>, tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>> -> tensor<?x16x128xf32>
  return
}

// -----

func.func @merge_c2(%a: tensor<?x16x128xf32>, %al: tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>, %b: tensor<?x16x128xf32>, %bl: tensor<16x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>>) {
  // expected-error @+1 {{expected b_lse to have a_lse's encoding #mla.lse<base = e, layout = token_major, empty = neg_inf>, got #mla.lse<base = e, layout = head_major, empty = neg_inf>}}
  %0 = mla.merge %a, %al with %b, %bl : tensor<?x16x128xf32>, tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
      with tensor<?x16x128xf32>, tensor<16x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>> -> tensor<?x16x128xf32>
  return
}

// -----

func.func @merge_c2_base(%a: tensor<?x16x128xf32>, %al: tensor<?x16xf32, #mla.lse<base = two, layout = token_major, empty = neg_inf>>, %b: tensor<?x16x128xf32>, %bl: tensor<?x16xf32, #mla.lse<base = two, layout = token_major, empty = neg_inf>>) {
  // expected-error @+1 {{expected a_lse with base = e and empty = neg_inf, got #mla.lse<base = two, layout = token_major, empty = neg_inf>}}
  %0 = mla.merge %a, %al with %b, %bl : tensor<?x16x128xf32>, tensor<?x16xf32, #mla.lse<base = two, layout = token_major, empty = neg_inf>>
      with tensor<?x16x128xf32>, tensor<?x16xf32, #mla.lse<base = two, layout = token_major, empty = neg_inf>> -> tensor<?x16x128xf32>
  return
}

// -----

func.func @merge_c2_result(%a: tensor<?x16x128xf32>, %al: tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>, %b: tensor<?x16x128xf32>, %bl: tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>) {
  // expected-error @+1 {{expected lse to have a_lse's encoding #mla.lse<base = e, layout = token_major, empty = neg_inf>, got #mla.lse<base = e, layout = head_major, empty = neg_inf>}}
  %0, %1 = mla.merge %a, %al with %b, %bl : tensor<?x16x128xf32>, tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
      with tensor<?x16x128xf32>, tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>> -> tensor<?x16x128xf32>, tensor<16x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>>
  return
}

// -----

func.func @merge_splits_c1(%p: tensor<?x?x16x512xf32>, %pl: tensor<?x?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>) {
  // expected-error @+1 {{expected output to be [T, N, V] with V = 512 (from partial_output), got 'tensor<?x16x128xbf16>'}}
  %0 = mla.merge_splits %p, %pl : tensor<?x?x16x512xf32>, tensor<?x?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
      -> tensor<?x16x128xbf16>
  return
}

// -----

func.func @merge_splits_c1_element(%p: tensor<?x?x16x512xf16>, %pl: tensor<?x?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>) {
  // expected-error @+1 {{expected a partial_output of f32 or the output's element type, got 'tensor<?x?x16x512xf16>'}}
  %0 = mla.merge_splits %p, %pl : tensor<?x?x16x512xf16>, tensor<?x?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
      -> tensor<?x16x512xbf16>
  return
}

// -----

func.func @merge_splits_c2(%p: tensor<?x?x16x512xf32>, %pl: tensor<?x16x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>>) {
  // expected-error @+1 {{expected partial_lse with layout = token_major, got #mla.lse<base = e, layout = head_major, empty = neg_inf>}}
  %0 = mla.merge_splits %p, %pl : tensor<?x?x16x512xf32>, tensor<?x16x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>>
      -> tensor<?x16x512xbf16>
  return
}

// -----

func.func @merge_splits_c2_result(%p: tensor<?x?x16x512xf32>, %pl: tensor<?x?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>) {
  // expected-error @+1 {{expected lse to have partial_lse's encoding #mla.lse<base = e, layout = token_major, empty = neg_inf>, got #mla.lse<base = e, layout = head_major, empty = neg_inf>}}
  %0, %1 = mla.merge_splits %p, %pl : tensor<?x?x16x512xf32>, tensor<?x?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
      -> tensor<?x16x512xbf16>, tensor<16x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>>
  return
}

// -----

func.func @convert_lse_c1(%l: tensor<?x16xf32>) {
  // expected-error @+1 {{expected input to have an #mla.lse encoding, got 'tensor<?x16xf32>'}}
  %0 = mla.convert_lse %l : tensor<?x16xf32> -> tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
  return
}

// -----

func.func @convert_lse_c1_shape(%l: tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>) {
  // expected-error @+1 {{expected result to be [N, T] with N = 16 (from input), got 'tensor<8x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>>'}}
  %0 = mla.convert_lse %l : tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>> -> tensor<8x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>>
  return
}

// -----

func.func @convert_lse_c1_rank(%l: tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>) {
  // expected-error @+1 {{expected result of input's rank 2, got 'tensor<?x?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>'}}
  %0 = mla.convert_lse %l : tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>> -> tensor<?x?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
  return
}

// -----

func.func @quantize_c1(%x: tensor<?x512xbf16>) {
  // expected-error @+1 {{expected group to be above 0 and to divide L, got 100 for 'tensor<?x512xbf16>'}}
  %q, %s = mla.quantize %x group 100 rule <raw> floor 1.0e-4 : tensor<?x512xbf16> -> tensor<?x512xf8E4M3FN>, tensor<?x5xf32>
  return
}

// -----

func.func @quantize_c1_scales(%x: tensor<?x512xbf16>) {
  // expected-error @+1 {{expected scales to be [T, L / group] with L / group = 4 (from group), got 'tensor<?x5xf32>'}}
  %q, %s = mla.quantize %x group 128 rule <raw> floor 1.0e-4 : tensor<?x512xbf16> -> tensor<?x512xf8E4M3FN>, tensor<?x5xf32>
  return
}

// -----

func.func @quantize_c2(%x: tensor<?x512xbf16>) {
  // expected-error @+1 {{expected scale_floor > 0, got 0.000000e+00}}
  %q, %s = mla.quantize %x group 128 rule <raw> floor 0.0 : tensor<?x512xbf16> -> tensor<?x512xf8E4M3FN>, tensor<?x4xf32>
  return
}

// -----

func.func @dequantize_c1(%q: tensor<?x512xf8E4M3FN>, %s: tensor<?x4xf32>) {
  // expected-error @+1 {{expected scales to be [T, L / group] with L / group = 8 (from group), got 'tensor<?x4xf32>'}}
  %0 = mla.dequantize %q, %s group 64 : tensor<?x512xf8E4M3FN>, tensor<?x4xf32> -> tensor<?x512xbf16>
  return
}

// -----

func.func @batch_dim_c1(%b: !mla.batch) {
  // expected-error @+1 {{num_shared_tokens, got 'num_dogs'}}
  %0 = mla.batch_dim %b "num_dogs" : !mla.batch
  return
}

// -----

func.func @batch_part_c1(%b: !mla.batch) {
  // expected-error @+1 {{expected a function with a positive mla.decode_threshold}}
  %0 = mla.batch_part %b decodes : !mla.batch -> !mla.batch
  return
}

// -----

func.func @batch_part_c2(%b: !mla.batch<query_len = 1>) attributes {mla.decode_threshold = 1 : i64} {
  // expected-error @+1 {{expected an argument of the function with a dynamic query_len, got '!mla.batch<query_len = 1>'}}
  %0 = mla.batch_part %b decodes : !mla.batch<query_len = 1> -> !mla.batch
  return
}

// -----

func.func @batch_part_c2_part_of_part(%b: !mla.batch) attributes {mla.decode_threshold = 1 : i64} {
  %0 = mla.batch_part %b prefills : !mla.batch -> !mla.batch
  // expected-error @+1 {{expected an argument of the function}}
  %1 = mla.batch_part %0 decodes : !mla.batch -> !mla.batch
  return
}

// -----

func.func @batch_part_c3_decodes(%b: !mla.batch) attributes {mla.decode_threshold = 2 : i64} {
  // expected-error @+1 {{expected query_len = ? and the batch's context_len, got '!mla.batch<query_len = 1>'}}
  %0 = mla.batch_part %b decodes : !mla.batch -> !mla.batch<query_len = 1>
  return
}

// -----

func.func @batch_part_c3_context(%b: !mla.batch) attributes {mla.decode_threshold = 1 : i64} {
  // expected-error @+1 {{expected query_len = 1 or ? and the batch's context_len, got '!mla.batch<query_len = 1, context_len = 0>'}}
  %0 = mla.batch_part %b decodes : !mla.batch -> !mla.batch<query_len = 1, context_len = 0>
  return
}

// -----

func.func @share_prefix_c1(%n: index, %b: !mla.batch) attributes {mla.decode_threshold = 1 : i64} {
  // expected-error @+1 {{expected the decodes of the split batch}}
  %s, %o = mla.share_prefix %n of %b : !mla.batch -> !mla.batch, !mla.batch
  return
}

// -----

func.func @share_prefix_c3(%n: index, %b: !mla.batch) {
  // expected-error @+1 {{expected at most one in a function}}
  %s, %o = mla.share_prefix %n of %b : !mla.batch -> !mla.batch, !mla.batch
  %t, %p = mla.share_prefix %n of %b : !mla.batch -> !mla.batch, !mla.batch
  return
}

// -----

func.func @share_prefix_c2(%n: index, %b: !mla.batch<query_len = 1>) {
  // expected-error @+1 {{expected a shared part with query_len = ? and own parts of type '!mla.batch<query_len = 1>', got '!mla.batch<query_len = 1>'}}
  %s, %o = mla.share_prefix %n of %b : !mla.batch<query_len = 1> -> !mla.batch<query_len = 1>, !mla.batch<query_len = 1>
  return
}

// -----

func.func @attention_c6(%n: index, %qn: tensor<?x4x16xbf16>, %qp: tensor<?x4x8xbf16>, %c: tensor<?x32xbf16>, %kp: tensor<?x8xbf16>,
    %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %b: !mla.batch,
    %cache: !mla.cache<page_size = 4, fields = [latent: 32, rope: 8], element = bf16, rope_order = interleaved>) {
  %s, %o = mla.share_prefix %n of %b : !mla.batch -> !mla.batch, !mla.batch
  // expected-error @+1 {{expected form expanded over a shared prefix, got absorbed}}
  %0 = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x8xbf16>) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %s
      : !mla.cache<page_size = 4, fields = [latent: 32, rope: 8], element = bf16, rope_order = interleaved>, !mla.batch
      scale 0.2 {form = #mla.form<absorbed>} -> tensor<?x4x24xbf16>
  return
}

// -----

func.func @part_rows_c1(%b: !mla.batch, %x: tensor<8x16xbf16>) attributes {mla.decode_threshold = 1 : i64} {
  %d = mla.batch_part %b decodes : !mla.batch -> !mla.batch
  // expected-error @+1 {{expected a dynamic first size, got 'tensor<8x16xbf16>'}}
  %0 = mla.part_rows %x of %d : tensor<8x16xbf16>, !mla.batch
  return
}

// -----

func.func @part_rows_c2(%b: !mla.batch, %x: tensor<?x16xbf16>) {
  // expected-error @+1 {{expected a mla.batch_part, got <block argument>}}
  %0 = mla.part_rows %x of %b : tensor<?x16xbf16>, !mla.batch
  return
}

// -----

func.func @copy_pages_c1(%b: !mla.batch, %cache: !mla.cache<page_size = 1, fields = [latent: 12], element = bf16, rope_order = half>) {
  // expected-error @+1 {{expected pages of a multiple of 16 bytes, got 24}}
  %0 = mla.copy_pages %cache to %cache, %b : !mla.cache<page_size = 1, fields = [latent: 12], element = bf16, rope_order = half>, !mla.batch
  return
}

// -----

func.func @convert_indices_c1(%p: tensor<?x?xi32>, %b: !mla.batch, %cache: !mla.cache<page_size = 1, fields = [latent: 16], element = bf16, rope_order = half>) {
  // expected-error @+1 {{expected positions [T, K] of a static K, got 'tensor<?x?xi32>'}}
  %0 = mla.convert_indices %p in %cache, %b : tensor<?x?xi32> in !mla.cache<page_size = 1, fields = [latent: 16], element = bf16, rope_order = half>, !mla.batch
  return
}

// -----

func.func @convert_indices_c2_both(%p: tensor<?x4xi32>, %r: tensor<?xi32>, %b: !mla.batch, %cache: !mla.cache<page_size = 1, fields = [latent: 16], element = bf16, rope_order = half>) {
  // expected-error @+1 {{expected prefill_requests and workspace_starts together}}
  %0 = "mla.convert_indices"(%p, %cache, %b, %r) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>}> : (tensor<?x4xi32>, !mla.cache<page_size = 1, fields = [latent: 16], element = bf16, rope_order = half>, !mla.batch, tensor<?xi32>) -> tensor<?x4xi32>
  return
}

// -----

func.func @convert_indices_c2_rank(%p: tensor<?x4xi32>, %r: tensor<?xi32>, %b: !mla.batch, %cache: !mla.cache<page_size = 1, fields = [latent: 16], element = bf16, rope_order = half>) {
  // expected-error @+1 {{expected workspace_starts of rank 1, got 'tensor<?x4xi32>'}}
  %0 = mla.convert_indices %p in %cache, %b prefill %r, %p : tensor<?x4xi32> in !mla.cache<page_size = 1, fields = [latent: 16], element = bf16, rope_order = half>, !mla.batch prefill tensor<?xi32>, tensor<?x4xi32>
  return
}

// -----

func.func @keep_rows_c1(%b: !mla.batch, %x: tensor<?x?xbf16>) {
  // expected-error @+1 {{expected rows of a static size, got 'tensor<?x?xbf16>'}}
  %0 = mla.keep_rows %x, %b : tensor<?x?xbf16>, !mla.batch
  return
}

// -----

!kp = !mla.cache<page_size = 16, fields = [key: 4x64], element = bf16, format = "k_nhd">
!vp = !mla.cache<page_size = 16, fields = [value: 4x32], element = bf16, format = "v_nhd">
func.func @grouped_c1_field(%q: tensor<?x8x64xbf16>, %k: !kp, %v: !vp, %b: !mla.batch, %n: index) {
  // expected-error @+1 {{expected a pool with the field 'key', got '!mla.cache<page_size = 16, fields = [value: 4x32], element = bf16, format = "v_nhd">'}}
  %0 = mla.grouped_attention query(%q : tensor<?x8x64xbf16>) keys(%v : !vp) values(%v : !vp)
      over %b : !mla.batch scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

!kp = !mla.cache<page_size = 16, fields = [key: 4x64], element = bf16, format = "k_nhd">
!vp = !mla.cache<page_size = 16, fields = [value: 2x32], element = bf16, format = "v_nhd">
func.func @grouped_c1_heads(%q: tensor<?x8x64xbf16>, %k: !kp, %v: !vp, %b: !mla.batch, %n: index) {
  // expected-error @+1 {{expected as many heads of values as of keys, 4, got 2}}
  %0 = mla.grouped_attention query(%q : tensor<?x8x64xbf16>) keys(%k : !kp) values(%v : !vp)
      over %b : !mla.batch scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

!kp = !mla.cache<page_size = 16, fields = [key: 4x64], element = bf16, format = "k_nhd">
!vp = !mla.cache<page_size = 16, fields = [value: 4x32], element = bf16, format = "v_nhd">
func.func @grouped_c1_group(%q: tensor<?x6x64xbf16>, %k: !kp, %v: !vp, %b: !mla.batch, %n: index) {
  // expected-error @+1 {{expected query heads that are a multiple of the 4 of the keys, got 'tensor<?x6x64xbf16>'}}
  %0 = mla.grouped_attention query(%q : tensor<?x6x64xbf16>) keys(%k : !kp) values(%v : !vp)
      over %b : !mla.batch scale 0.1 -> tensor<?x6x32xbf16>
  return
}

// -----

!kp = !mla.cache<page_size = 16, fields = [key: 4x64], element = bf16, format = "k_nhd">
!vp = !mla.cache<page_size = 16, fields = [value: 4x32], element = bf16, format = "v_nhd">
func.func @grouped_c1_width(%q: tensor<?x8x32xbf16>, %k: !kp, %v: !vp, %b: !mla.batch, %n: index) {
  // expected-error @+1 {{expected query to be [T, N, Dk] with Dk = 64 (from keys), got 'tensor<?x8x32xbf16>'}}
  %0 = mla.grouped_attention query(%q : tensor<?x8x32xbf16>) keys(%k : !kp) values(%v : !vp)
      over %b : !mla.batch scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

!kp = !mla.cache<page_size = 16, fields = [key: 4x64], element = bf16, format = "k_nhd">
!vp = !mla.cache<page_size = 16, fields = [value: 4x32], element = bf16, format = "v_nhd">
func.func @grouped_c1_output(%q: tensor<?x8x64xbf16>, %k: !kp, %v: !vp, %b: !mla.batch, %n: index) {
  // expected-error @+1 {{expected output to be [T, N, Dv] with Dv = 32 (from values), got 'tensor<?x8x64xbf16>'}}
  %0 = mla.grouped_attention query(%q : tensor<?x8x64xbf16>) keys(%k : !kp) values(%v : !vp)
      over %b : !mla.batch scale 0.1 -> tensor<?x8x64xbf16>
  return
}

// -----

!kp = !mla.cache<page_size = 16, fields = [key: 4x64], element = bf16, format = "k_nhd">
!vp = !mla.cache<page_size = 16, fields = [value: 4x32], element = bf16, format = "v_nhd">
func.func @grouped_c1_sink(%q: tensor<?x8x64xbf16>, %k: !kp, %v: !vp, %b: !mla.batch, %s: tensor<4xf32>) {
  // expected-error @+1 {{expected sink to be [N] with N = 8 (from query), got 'tensor<4xf32>'}}
  %0 = mla.grouped_attention query(%q : tensor<?x8x64xbf16>) keys(%k : !kp) values(%v : !vp)
      over %b : !mla.batch sink(%s : tensor<4xf32>) scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

!kp = !mla.cache<page_size = 16, fields = [key: 4x64], element = bf16, format = "k_nhd">
!vp = !mla.cache<page_size = 16, fields = [value: 4x32], element = bf16, format = "v_nhd">
func.func @grouped_c4_softcap(%q: tensor<?x8x64xbf16>, %k: !kp, %v: !vp, %b: !mla.batch, %n: index) {
  // expected-error @+1 {{expected a finite softcap >= 0, got -2.0}}
  %0 = mla.grouped_attention query(%q : tensor<?x8x64xbf16>) keys(%k : !kp) values(%v : !vp)
      over %b : !mla.batch softcap -2.0 scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

!kp = !mla.cache<page_size = 16, fields = [key: 4x64], element = bf16, format = "k_nhd">
!vp = !mla.cache<page_size = 16, fields = [value: 4x32], element = bf16, format = "v_nhd">
func.func @grouped_c4_softcap_wide(%q: tensor<?x8x64xbf16>, %k: !kp, %v: !vp, %b: !mla.batch, %n: index) {
  // expected-error @+1 {{expected a softcap <= 512, got 5.125000e+02}}
  %0 = mla.grouped_attention query(%q : tensor<?x8x64xbf16>) keys(%k : !kp) values(%v : !vp)
      over %b : !mla.batch softcap 512.5 scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

!kp = !mla.cache<page_size = 16, fields = [key: 4x64], element = bf16, format = "k_nhd">
!vp = !mla.cache<page_size = 16, fields = [value: 4x32], element = bf16, format = "v_nhd">
func.func @grouped_c4_scale_infinite(%q: tensor<?x8x64xbf16>, %k: !kp, %v: !vp, %b: !mla.batch, %n: index) {
  // expected-error @+1 {{expected scale <= 1.000000e+38, got 1.000000e+39}}
  %0 = mla.grouped_attention query(%q : tensor<?x8x64xbf16>) keys(%k : !kp) values(%v : !vp)
      over %b : !mla.batch softcap 512.0 scale 1.0e39 -> tensor<?x8x32xbf16>
  return
}

// -----

!kp = !mla.cache<page_size = 16, fields = [key: 4x64], element = bf16, format = "k_nhd">
!vp = !mla.cache<page_size = 16, fields = [value: 4x32], element = bf16, format = "v_nhd">
func.func @grouped_c4_softcap_infinite(%q: tensor<?x8x64xbf16>, %k: !kp, %v: !vp, %b: !mla.batch, %n: index) {
  // expected-error @+1 {{expected a finite softcap >= 0, got}}
  %0 = mla.grouped_attention query(%q : tensor<?x8x64xbf16>) keys(%k : !kp) values(%v : !vp)
      over %b : !mla.batch softcap 0x7FF0000000000000 scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

!kp = !mla.cache<page_size = 16, fields = [key: 4x64], element = bf16, format = "k_nhd">
!vp = !mla.cache<page_size = 16, fields = [value: 4x32], element = f32, format = "v_nhd">
func.func @grouped_c2_element(%q: tensor<?x8x64xbf16>, %k: !kp, %v: !vp, %b: !mla.batch, %n: index) {
  // expected-error @+1 {{expected query to have the element type of the pool of values, 'f32', got 'bf16'}}
  %0 = mla.grouped_attention query(%q : tensor<?x8x64xbf16>) keys(%k : !kp) values(%v : !vp)
      over %b : !mla.batch scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

!kp = !mla.cache<page_size = 16, fields = [key: 4x64], element = bf16, format = "k_nhd", tokens_per_row = 4>
!vp = !mla.cache<page_size = 16, fields = [value: 4x32], element = bf16, format = "v_nhd">
func.func @grouped_c3_rows(%q: tensor<?x8x64xbf16>, %k: !kp, %v: !vp, %b: !mla.batch, %n: index) {
  // expected-error @+1 {{expected a pool of keys with tokens_per_row = 1, got 4}}
  %0 = mla.grouped_attention query(%q : tensor<?x8x64xbf16>) keys(%k : !kp) values(%v : !vp)
      over %b : !mla.batch scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

!kp = !mla.cache<page_size = 16, fields = [key: 4x64], element = bf16, format = "k_nhd", window = 64>
!vp = !mla.cache<page_size = 16, fields = [value: 4x32], element = bf16, format = "v_nhd">
func.func @grouped_c3_window(%q: tensor<?x8x64xbf16>, %k: !kp, %v: !vp, %b: !mla.batch, %n: index) {
  // expected-error @+1 {{expected a window from 1 to the 64 tokens that the pool of keys keeps, got 65}}
  %0 = mla.grouped_attention query(%q : tensor<?x8x64xbf16>) keys(%k : !kp) values(%v : !vp)
      over %b : !mla.batch window 65 scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

!kp = !mla.cache<page_size = 16, fields = [key: 4x64], element = bf16, format = "k_nhd", window = 64>
!vp = !mla.cache<page_size = 16, fields = [value: 4x32], element = bf16, format = "v_nhd">
func.func @grouped_c3_no_window(%q: tensor<?x8x64xbf16>, %k: !kp, %v: !vp, %b: !mla.batch, %n: index) {
  // expected-error @+1 {{expected a window from 1 to the 64 tokens that the pool of keys keeps, got 0}}
  %0 = mla.grouped_attention query(%q : tensor<?x8x64xbf16>) keys(%k : !kp) values(%v : !vp)
      over %b : !mla.batch scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

!kp = !mla.cache<page_size = 16, fields = [key: 4x64], element = bf16, format = "k_nhd">
!vp = !mla.cache<page_size = 16, fields = [value: 4x32], element = bf16, format = "v_nhd">
func.func @grouped_c4_scale(%q: tensor<?x8x64xbf16>, %k: !kp, %v: !vp, %b: !mla.batch, %n: index) {
  // expected-error @+1 {{expected scale > 0, got 0.000000e+00}}
  %0 = mla.grouped_attention query(%q : tensor<?x8x64xbf16>) keys(%k : !kp) values(%v : !vp)
      over %b : !mla.batch scale 0.0 -> tensor<?x8x32xbf16>
  return
}

// -----

!kp = !mla.cache<page_size = 16, fields = [key: 4x64], element = bf16, format = "k_nhd">
!vp = !mla.cache<page_size = 16, fields = [value: 4x32], element = bf16, format = "v_nhd">
func.func @grouped_c4_window(%q: tensor<?x8x64xbf16>, %k: !kp, %v: !vp, %b: !mla.batch, %n: index) {
  // expected-error @+1 {{expected a window >= 0, got -1}}
  %0 = mla.grouped_attention query(%q : tensor<?x8x64xbf16>) keys(%k : !kp) values(%v : !vp)
      over %b : !mla.batch window -1 scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

!kp = !mla.cache<page_size = 16, fields = [key: 4x64], element = bf16, format = "k_nhd">
!vp = !mla.cache<page_size = 16, fields = [value: 4x32], element = bf16, format = "v_nhd">
func.func @grouped_c6_lse(%q: tensor<?x8x64xbf16>, %k: !kp, %v: !vp, %b: !mla.batch, %n: index) {
  // expected-error @+1 {{expected an lse beside num_splits, got none}}
  %0 = mla.grouped_attention query(%q : tensor<?x8x64xbf16>) keys(%k : !kp) values(%v : !vp)
      over %b : !mla.batch splits %n scale 0.1 -> tensor<?x?x8x32xf32>
  return
}

// -----

func.func @join_parts_c1(%x: tensor<8x16xf32>, %g: tensor<16xf32>) {
  %p = mla.rms_norm %x, %g eps 1.0e-6 : tensor<8x16xf32>, tensor<16xf32> -> tensor<8x16xf32>
  %d = mla.rms_norm %x, %g eps 1.0e-6 : tensor<8x16xf32>, tensor<16xf32> -> tensor<8x16xf32>
  // expected-error @+1 {{expected a dynamic first size, got 'tensor<8x16xf32>'}}
  %0 = mla.join_parts %d, %p : tensor<8x16xf32>
  return
}

// -----

func.func @join_parts_c2(%x: tensor<?x16xf32>, %g: tensor<16xf32>) {
  %d = mla.rms_norm %x, %g eps 1.0e-6 : tensor<?x16xf32>, tensor<16xf32> -> tensor<?x16xf32>
  %p = mla.rms_norm %x, %g eps 1.0e-6 : tensor<?x16xf32>, tensor<16xf32> -> tensor<?x16xf32>
  // expected-error @+1 {{expected decodes computed behind prefills, both here and for this only}}
  %0 = mla.join_parts %d, %p : tensor<?x16xf32>
  return
}

// -----

// expected-error @+1 {{unknown attribute mla.wieght; those of arguments are mla.input mla.heads_outermost mla.pool mla.weight mla.derived mla.output}}
func.func @misspelt(%w: tensor<4x4xbf16> {mla.wieght = "w"}) {
  return
}

// -----

// expected-error @+1 {{expected mla.output to be a string, got unit}}
func.func @nameless(%a: tensor<4x4xbf16>) -> (tensor<4x4xbf16> {mla.output}) {
  return %a : tensor<4x4xbf16>
}

// -----

// expected-error @+1 {{mla.target to be rates, as #mla.target<...>, got "h200"}}
module attributes {mla.target = "h200"} {}

// -----

func.func @index_append_c1(%x: tensor<?x128xbf16>, %g: tensor<128xf32>, %u: tensor<64xf32>, %t: tensor<?x64xf32>, %b: !mla.batch, %cache: !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k">) {
  // expected-error @+1 {{expected bias to be [D] with D = 128 (from input), got 'tensor<64xf32>'}}
  %0 = mla.index_append %x, %g, %u epsilon 1.0 rope %t with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0 into %cache, %b : tensor<?x128xbf16>, tensor<128xf32>, tensor<64xf32> rope tensor<?x64xf32> into !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k">, !mla.batch
  return
}

// -----

func.func @index_append_c2(%x: tensor<?x128xbf16>, %g: tensor<128xf32>, %u: tensor<128xbf16>, %t: tensor<?x64xf32>, %b: !mla.batch, %cache: !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k">) {
  // expected-error @+1 {{expected bias to have weight's element type 'f32', got 'bf16'}}
  %0 = mla.index_append %x, %g, %u epsilon 1.0 rope %t with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0 into %cache, %b : tensor<?x128xbf16>, tensor<128xf32>, tensor<128xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k">, !mla.batch
  return
}

// -----

func.func @index_append_c3(%x: tensor<?x128xbf16>, %g: tensor<128xf32>, %u: tensor<128xf32>, %t: tensor<?x64xf32>, %b: !mla.batch, %cache: !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k">) {
  // expected-error @+1 {{expected epsilon > 0, got 0.000000e+00}}
  %0 = mla.index_append %x, %g, %u epsilon 0.0 rope %t with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0 into %cache, %b : tensor<?x128xbf16>, tensor<128xf32>, tensor<128xf32> rope tensor<?x64xf32> into !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k">, !mla.batch
  return
}

// -----

func.func @index_append_c4(%x: tensor<?x128xbf16>, %g: tensor<128xf32>, %u: tensor<128xf32>, %t: tensor<?x64xf32>, %b: !mla.batch, %cache: !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k">) {
  // expected-error @+1 {{expected an offset of at least 0 with 64 channels behind it, got 65 in 128}}
  %0 = mla.index_append %x, %g, %u epsilon 1.0 rope %t with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 65 into %cache, %b : tensor<?x128xbf16>, tensor<128xf32>, tensor<128xf32> rope tensor<?x64xf32> into !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k">, !mla.batch
  return
}

// -----

func.func @index_append_c4_table(%x: tensor<?x128xbf16>, %g: tensor<128xf32>, %u: tensor<128xf32>, %t: tensor<?x32xf32>, %b: !mla.batch, %cache: !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k">) {
  // expected-error @+1 {{expected table to be [length, R] with R = 64 (from rope), got 'tensor<?x32xf32>'}}
  %0 = mla.index_append %x, %g, %u epsilon 1.0 rope %t with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0 into %cache, %b : tensor<?x128xbf16>, tensor<128xf32>, tensor<128xf32> rope tensor<?x32xf32> into !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k">, !mla.batch
  return
}

// -----

func.func @index_append_c5(%x: tensor<?x128xbf16>, %g: tensor<128xf32>, %u: tensor<128xf32>, %t: tensor<?x64xf32>, %b: !mla.batch, %cache: !mla.cache<page_size = 64, fields = [index: 256], element = bf16, rope_order = half, format = "index_k">) {
  // expected-error @+1 {{expected a cache of index: 128 in e4m3 with one scale and without hadamard, got}}
  %0 = mla.index_append %x, %g, %u epsilon 1.0 rope %t with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0 into %cache, %b : tensor<?x128xbf16>, tensor<128xf32>, tensor<128xf32> rope tensor<?x64xf32> into !mla.cache<page_size = 64, fields = [index: 256], element = bf16, rope_order = half, format = "index_k">, !mla.batch
  return
}

// -----

func.func @index_append_c5_groups(%x: tensor<?x256xbf16>, %g: tensor<256xf32>, %u: tensor<256xf32>, %t: tensor<?x64xf32>, %b: !mla.batch, %cache: !mla.cache<page_size = 64, fields = [index: 256], element = bf16, rope_order = half, format = "index_k">) {
  // expected-error @+1 {{expected a cache of index: 256 in e4m3 with one scale and without hadamard, got}}
  %0 = mla.index_append %x, %g, %u epsilon 1.0 rope %t with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0 into %cache, %b : tensor<?x256xbf16>, tensor<256xf32>, tensor<256xf32> rope tensor<?x64xf32> into !mla.cache<page_size = 64, fields = [index: 256], element = bf16, rope_order = half, format = "index_k">, !mla.batch
  return
}

// -----

func.func @index_append_c5_order(%x: tensor<?x128xbf16>, %g: tensor<128xf32>, %u: tensor<128xf32>, %t: tensor<?x64xf32>, %b: !mla.batch, %cache: !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k">) {
  // expected-error @+1 {{expected the keys in the cache's rope order half, got interleaved}}
  %0 = mla.index_append %x, %g, %u epsilon 1.0 rope %t with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> offset 0 into %cache, %b : tensor<?x128xbf16>, tensor<128xf32>, tensor<128xf32> rope tensor<?x64xf32> into !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k">, !mla.batch
  return
}

// -----

func.func @index_query_c1(%q: tensor<?x8x128xbf16>, %x: tensor<?x8xbf16>, %t: tensor<?x64xf32>, %b: !mla.batch) {
  // expected-error @+1 {{expected weights to be [T, Hi] with Hi = 8 (from input), got 'tensor<?x4xf32>'}}
  %0, %1 = mla.index_query %q, %x factor 0.125 rope %t, %b with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0 rule <raw> floor 1.0 amax_floor 0.0 : tensor<?x8x128xbf16>, tensor<?x8xbf16> rope tensor<?x64xf32>, !mla.batch -> tensor<?x8x128xf8E4M3FN>, tensor<?x4xf32>
  return
}

// -----

func.func @index_query_c2(%q: tensor<?x8x128xbf16>, %x: tensor<?x8xbf16>, %t: tensor<?x64xf32>, %b: !mla.batch) {
  // expected-error @+1 {{expected an offset of at least 0 with 64 channels behind it, got -1 in 128}}
  %0, %1 = mla.index_query %q, %x factor 0.125 rope %t, %b with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset -1 rule <raw> floor 1.0 amax_floor 0.0 : tensor<?x8x128xbf16>, tensor<?x8xbf16> rope tensor<?x64xf32>, !mla.batch -> tensor<?x8x128xf8E4M3FN>, tensor<?x8xf32>
  return
}

// -----

func.func @index_query_c3(%q: tensor<?x8x128xbf16>, %x: tensor<?x8xbf16>, %t: tensor<?x64xf32>, %b: !mla.batch) {
  // expected-error @+1 {{expected scale_floor > 0, got 0.000000e+00}}
  %0, %1 = mla.index_query %q, %x factor 0.125 rope %t, %b with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0 rule <raw> floor 0.0 amax_floor 0.0 : tensor<?x8x128xbf16>, tensor<?x8xbf16> rope tensor<?x64xf32>, !mla.batch -> tensor<?x8x128xf8E4M3FN>, tensor<?x8xf32>
  return
}

// -----

func.func @index_query_c3_amax(%q: tensor<?x8x128xbf16>, %x: tensor<?x8xbf16>, %t: tensor<?x64xf32>, %b: !mla.batch) {
  // expected-error @+1 {{expected amax_floor to be a finite f32 of at least 0, got -1.000000e+00}}
  %0, %1 = mla.index_query %q, %x factor 0.125 rope %t, %b with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0 rule <raw> floor 1.0 amax_floor -1.0 : tensor<?x8x128xbf16>, tensor<?x8xbf16> rope tensor<?x64xf32>, !mla.batch -> tensor<?x8x128xf8E4M3FN>, tensor<?x8xf32>
  return
}

// -----

func.func @index_query_c4(%q: tensor<?x8x128xbf16>, %x: tensor<?x8xbf16>, %t: tensor<?x64xf32>, %b: !mla.batch) {
  // expected-error @+1 {{expected a finite factor, got INF}}
  %0, %1 = mla.index_query %q, %x factor 0x7FF0000000000000 rope %t, %b with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0 rule <raw> floor 1.0 amax_floor 0.0 : tensor<?x8x128xbf16>, tensor<?x8xbf16> rope tensor<?x64xf32>, !mla.batch -> tensor<?x8x128xf8E4M3FN>, tensor<?x8xf32>
  return
}

// -----

func.func @index_scores_c4_index_query(%q: tensor<?x8x128xbf16>, %x: tensor<?x8xbf16>, %t: tensor<?x64xf32>, %b: !mla.batch, %cache: !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k">) {
  %c, %w = mla.index_query %q, %x factor 1.0 rope %t, %b with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> offset 0 rule <raw> floor 1.0 : tensor<?x8x128xbf16>, tensor<?x8xbf16> rope tensor<?x64xf32>, !mla.batch -> tensor<?x8x128xf8E4M3FN>, tensor<?x8xf32>
  // expected-error @+1 {{expected the query in the cache's rope order half, got interleaved}}
  %s = mla.index_scores query(%c : tensor<?x8x128xf8E4M3FN>) weights(%w : tensor<?x8xf32>) over %cache, %b : !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k">, !mla.batch -> tensor<?x?xf32>
  return
}

// -----

func.func @rope_c2_beside(%x: tensor<?x64xbf16>, %t: tensor<?x16x2xf16>, %b: !mla.batch) {
  // expected-error @+1 {{expected table to be [length, R / 2, 2] with R / 2 = 32 (from rope), got 'tensor<?x16x2xf16>'}}
  %0 = mla.rope %x, %t, %b with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> : tensor<?x64xbf16>, tensor<?x16x2xf16>, !mla.batch
  return
}

// -----

func.func @rope_c2_triples(%x: tensor<?x64xbf16>, %t: tensor<?x32x3xf32>, %b: !mla.batch) {
  // expected-error @+1 {{expected table to be [length, R / 2, 2] with 2 = 2 (from cosine and sine), got 'tensor<?x32x3xf32>'}}
  %0 = mla.rope %x, %t, %b with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> : tensor<?x64xbf16>, tensor<?x32x3xf32>, !mla.batch
  return
}

// -----

func.func @rope_c2_f16(%x: tensor<?x64xbf16>, %t: tensor<?x64xf16>, %b: !mla.batch) {
  // expected-error @+1 {{expected a table of f32 where cosines stand before sines, got 'tensor<?x64xf16>'}}
  %0 = mla.rope %x, %t, %b with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> : tensor<?x64xbf16>, tensor<?x64xf16>, !mla.batch
  return
}

// -----

func.func @grouped_append_c1_key(%q: tensor<?x8x64xbf16>, %k: tensor<?x2x32xbf16>, %v: tensor<?x2x32xbf16>, %t: tensor<?x64xf32>, %c: !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">, %b: !mla.batch) {
  // expected-error @+1 {{expected key to be [T, Nkv, Dk] with Dk = 64 (from query), got 'tensor<?x2x32xbf16>'}}
  %0:2 = mla.grouped_append %q, %k, %v rope %t with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0 into %c, %b : tensor<?x8x64xbf16>, tensor<?x2x32xbf16>, tensor<?x2x32xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">, !mla.batch
  return
}

// -----

func.func @grouped_append_c1_value(%q: tensor<?x8x64xbf16>, %k: tensor<?x2x64xbf16>, %v: tensor<?x4x32xbf16>, %t: tensor<?x64xf32>, %c: !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">, %b: !mla.batch) {
  // expected-error @+1 {{expected value to be [T, Nkv, Dv] with Nkv = 2 (from key), got 'tensor<?x4x32xbf16>'}}
  %0:2 = mla.grouped_append %q, %k, %v rope %t with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0 into %c, %b : tensor<?x8x64xbf16>, tensor<?x2x64xbf16>, tensor<?x4x32xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">, !mla.batch
  return
}

// -----

func.func @grouped_append_c2(%q: tensor<?x8x64xbf16>, %k: tensor<?x2x64xbf16>, %v: tensor<?x2x32xf16>, %t: tensor<?x64xf32>, %c: !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">, %b: !mla.batch) {
  // expected-error @+1 {{expected value to have query's element type 'bf16', got 'f16'}}
  %0:2 = mla.grouped_append %q, %k, %v rope %t with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0 into %c, %b : tensor<?x8x64xbf16>, tensor<?x2x64xbf16>, tensor<?x2x32xf16> rope tensor<?x64xf32> into !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">, !mla.batch
  return
}

// -----

func.func @grouped_append_c2_cache(%q: tensor<?x8x64xbf16>, %k: tensor<?x2x64xbf16>, %v: tensor<?x2x32xbf16>, %t: tensor<?x64xf32>, %c: !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = f16, format = "kv_nhd">, %b: !mla.batch) {
  // expected-error @+1 {{expected key to have the cache's element type 'f16', got 'bf16'}}
  %0:2 = mla.grouped_append %q, %k, %v rope %t with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0 into %c, %b : tensor<?x8x64xbf16>, tensor<?x2x64xbf16>, tensor<?x2x32xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = f16, format = "kv_nhd">, !mla.batch
  return
}

// -----

func.func @grouped_append_c6_gamma(%q: tensor<?x8x64xbf16>, %k: tensor<?x2x64xbf16>, %v: tensor<?x2x32xbf16>, %g: tensor<64xbf16>, %h: tensor<32xbf16>, %t: tensor<?x64xf32>, %c: !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">, %b: !mla.batch) {
  // expected-error @+1 {{expected key_gamma to be [Dk] with Dk = 64 (from query), got 'tensor<32xbf16>'}}
  %0:2 = mla.grouped_append %q, %k, %v norms %g, %h epsilon 1.0e-6 rope %t with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0 into %c, %b : tensor<?x8x64xbf16>, tensor<?x2x64xbf16>, tensor<?x2x32xbf16> norms tensor<64xbf16>, tensor<32xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">, !mla.batch
  return
}

// -----

func.func @grouped_append_c6_element(%q: tensor<?x8x64xbf16>, %k: tensor<?x2x64xbf16>, %v: tensor<?x2x32xbf16>, %g: tensor<64xf32>, %h: tensor<64xbf16>, %t: tensor<?x64xf32>, %c: !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">, %b: !mla.batch) {
  // expected-error @+1 {{expected query_gamma to have query's element type 'bf16', got 'f32'}}
  %0:2 = mla.grouped_append %q, %k, %v norms %g, %h epsilon 1.0e-6 rope %t with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0 into %c, %b : tensor<?x8x64xbf16>, tensor<?x2x64xbf16>, tensor<?x2x32xbf16> norms tensor<64xf32>, tensor<64xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">, !mla.batch
  return
}

// -----

func.func @grouped_append_c6_epsilon(%q: tensor<?x8x64xbf16>, %k: tensor<?x2x64xbf16>, %v: tensor<?x2x32xbf16>, %g: tensor<64xbf16>, %h: tensor<64xbf16>, %t: tensor<?x64xf32>, %c: !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">, %b: !mla.batch) {
  // expected-error @+1 {{expected epsilon > 0, got 0.000000e+00}}
  %0:2 = mla.grouped_append %q, %k, %v norms %g, %h epsilon 0.0 rope %t with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0 into %c, %b : tensor<?x8x64xbf16>, tensor<?x2x64xbf16>, tensor<?x2x32xbf16> norms tensor<64xbf16>, tensor<64xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">, !mla.batch
  return
}

// -----

func.func @grouped_append_c6_some(%q: tensor<?x8x64xbf16>, %k: tensor<?x2x64xbf16>, %v: tensor<?x2x32xbf16>, %t: tensor<?x64xf32>, %c: !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">, %b: !mla.batch) {
  // expected-error @+1 {{expected norms of queries and of keys with an epsilon, got only some}}
  %0:2 = "mla.grouped_append"(%q, %k, %v, %t, %c, %b) <{epsilon = 1.0e-6, rope = #mla.rope<order = half, dim = 64, theta = 1.0e4, length = 4096>, offset = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 1>}> : (tensor<?x8x64xbf16>, tensor<?x2x64xbf16>, tensor<?x2x32xbf16>, tensor<?x64xf32>, !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">, !mla.batch) -> (tensor<?x8x64xbf16>, !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">)
  return
}

// -----

func.func @grouped_append_c3(%q: tensor<?x8x64xbf16>, %k: tensor<?x2x64xbf16>, %v: tensor<?x2x32xbf16>, %t: tensor<?x64xf32>, %c: !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">, %b: !mla.batch) {
  // expected-error @+1 {{expected an offset of at least 0 with 64 channels behind it, got 16 in 64}}
  %0:2 = mla.grouped_append %q, %k, %v rope %t with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 16 into %c, %b : tensor<?x8x64xbf16>, tensor<?x2x64xbf16>, tensor<?x2x32xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">, !mla.batch
  return
}

// -----

func.func @grouped_append_c3_negative(%q: tensor<?x8x64xbf16>, %k: tensor<?x2x64xbf16>, %v: tensor<?x2x32xbf16>, %t: tensor<?x64xf32>, %c: !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">, %b: !mla.batch) {
  // expected-error @+1 {{expected an offset of at least 0 with 64 channels behind it, got -1 in 64}}
  %0:2 = mla.grouped_append %q, %k, %v rope %t with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset -1 into %c, %b : tensor<?x8x64xbf16>, tensor<?x2x64xbf16>, tensor<?x2x32xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">, !mla.batch
  return
}

// -----

func.func @grouped_append_c3_overflow(%q: tensor<?x8x64xbf16>, %k: tensor<?x2x64xbf16>, %v: tensor<?x2x32xbf16>, %t: tensor<?x64xf32>, %c: !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">, %b: !mla.batch) {
  // expected-error @+1 {{expected an offset of at least 0 with 64 channels behind it, got 9223372036854775807 in 64}}
  %0:2 = mla.grouped_append %q, %k, %v rope %t with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 9223372036854775807 into %c, %b : tensor<?x8x64xbf16>, tensor<?x2x64xbf16>, tensor<?x2x32xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">, !mla.batch
  return
}

// -----

func.func @rope_c1_overflow(%x: tensor<?x8x128xbf16>, %t: tensor<?x64xf32>, %b: !mla.batch) {
  // expected-error @+1 {{expected an offset of at least 0 with 64 channels behind it, got 9223372036854775807 in 'tensor<?x8x128xbf16>'}}
  %0 = mla.rope %x, %t, %b with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 9223372036854775807 : tensor<?x8x128xbf16>, tensor<?x64xf32>, !mla.batch
  return
}

// -----

func.func @grouped_append_c4(%q: tensor<?x8x64xbf16>, %k: tensor<?x2x64xbf16>, %v: tensor<?x2x32xbf16>, %t: tensor<?x32xf32>, %c: !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">, %b: !mla.batch) {
  // expected-error @+1 {{expected table to be [length, R] with R = 64 (from rope), got 'tensor<?x32xf32>'}}
  %0:2 = mla.grouped_append %q, %k, %v rope %t with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0 into %c, %b : tensor<?x8x64xbf16>, tensor<?x2x64xbf16>, tensor<?x2x32xbf16> rope tensor<?x32xf32> into !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">, !mla.batch
  return
}

// -----

func.func @grouped_append_c5_alone(%q: tensor<?x8x64xbf16>, %k: tensor<?x2x64xbf16>, %v: tensor<?x2x32xbf16>, %t: tensor<?x64xf32>, %c: !mla.cache<page_size = 16, fields = [key: 2x64], element = bf16, format = "k_nhd">, %b: !mla.batch) {
  // expected-error @+1 {{expected a cache of keys and values, got}}
  %0:2 = mla.grouped_append %q, %k, %v rope %t with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0 into %c, %b : tensor<?x8x64xbf16>, tensor<?x2x64xbf16>, tensor<?x2x32xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 16, fields = [key: 2x64], element = bf16, format = "k_nhd">, !mla.batch
  return
}

// -----

func.func @grouped_append_c5_latent(%q: tensor<?x8x64xbf16>, %k: tensor<?x2x64xbf16>, %v: tensor<?x2x32xbf16>, %t: tensor<?x64xf32>, %c: !mla.cache<page_size = 16, fields = [latent: 64, rope: 64], element = bf16, rope_order = half>, %b: !mla.batch) {
  // expected-error @+1 {{expected a cache of keys and values, got}}
  %0:2 = mla.grouped_append %q, %k, %v rope %t with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0 into %c, %b : tensor<?x8x64xbf16>, tensor<?x2x64xbf16>, tensor<?x2x32xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 16, fields = [latent: 64, rope: 64], element = bf16, rope_order = half>, !mla.batch
  return
}

// -----

func.func @grouped_append_c5_both(%q: tensor<?x8x64xbf16>, %k: tensor<?x2x64xbf16>, %v: tensor<?x2x32xbf16>, %t: tensor<?x64xf32>, %c: !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">, %b: !mla.batch, %d: !mla.cache<page_size = 16, fields = [value: 2x32], element = bf16, format = "v_nhd">) {
  // expected-error @+1 {{expected a cache of keys beside that of values, got}}
  %0:3 = mla.grouped_append %q, %k, %v rope %t with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0 into %c values %d, %b : tensor<?x8x64xbf16>, tensor<?x2x64xbf16>, tensor<?x2x32xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd"> values !mla.cache<page_size = 16, fields = [value: 2x32], element = bf16, format = "v_nhd">, !mla.batch
  return
}

// -----

func.func @grouped_append_c5_values(%q: tensor<?x8x64xbf16>, %k: tensor<?x2x64xbf16>, %v: tensor<?x2x32xbf16>, %t: tensor<?x64xf32>, %c: !mla.cache<page_size = 16, fields = [key: 2x64], element = bf16, format = "k_nhd">, %b: !mla.batch, %d: !mla.cache<page_size = 16, fields = [key: 2x64], element = bf16, format = "k_nhd">) {
  // expected-error @+1 {{expected a cache of values, got}}
  %0:3 = mla.grouped_append %q, %k, %v rope %t with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0 into %c values %d, %b : tensor<?x8x64xbf16>, tensor<?x2x64xbf16>, tensor<?x2x32xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 16, fields = [key: 2x64], element = bf16, format = "k_nhd"> values !mla.cache<page_size = 16, fields = [key: 2x64], element = bf16, format = "k_nhd">, !mla.batch
  return
}

// -----

func.func @grouped_append_c5_width(%q: tensor<?x8x64xbf16>, %k: tensor<?x2x64xbf16>, %v: tensor<?x2x32xbf16>, %t: tensor<?x64xf32>, %c: !mla.cache<page_size = 16, fields = [key: 2x64], element = bf16, format = "k_nhd">, %b: !mla.batch, %d: !mla.cache<page_size = 16, fields = [value: 2x16], element = bf16, format = "v_nhd">) {
  // expected-error @+1 {{expected value to be [T, value heads, value columns] with value columns = 16 (from cache), got 'tensor<?x2x32xbf16>'}}
  %0:3 = mla.grouped_append %q, %k, %v rope %t with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0 into %c values %d, %b : tensor<?x8x64xbf16>, tensor<?x2x64xbf16>, tensor<?x2x32xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 16, fields = [key: 2x64], element = bf16, format = "k_nhd"> values !mla.cache<page_size = 16, fields = [value: 2x16], element = bf16, format = "v_nhd">, !mla.batch
  return
}

// -----

func.func @latent_append_c1(%h: tensor<?x7168xbf16>, %w: tensor<512x7168xbf16>, %g: tensor<512xbf16>, %t: tensor<?x64xf32>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch) {
  // expected-error @+1 {{expected weight to be [L + R, I] with L + R = 576 (from gamma and rope), got 'tensor<512x7168xbf16>'}}
  %0 = mla.latent_append %h, %w, %g eps 1.0 rope %t with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> into %cache, %b : tensor<?x7168xbf16>, tensor<512x7168xbf16>, tensor<512xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch
  return
}

// -----

func.func @latent_append_c2(%h: tensor<?x7168xbf16>, %w: tensor<576x7168xbf16>, %g: tensor<512xf32>, %t: tensor<?x64xf32>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch) {
  // expected-error @+1 {{expected gamma to have input's element type 'bf16', got 'f32'}}
  %0 = mla.latent_append %h, %w, %g eps 1.0 rope %t with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> into %cache, %b : tensor<?x7168xbf16>, tensor<576x7168xbf16>, tensor<512xf32> rope tensor<?x64xf32> into !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch
  return
}

// -----

func.func @latent_append_c3(%h: tensor<?x7168xbf16>, %w: tensor<576x7168xbf16>, %g: tensor<512xbf16>, %t: tensor<?x64xf32>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch) {
  // expected-error @+1 {{expected eps > 0, got -1.000000e+00}}
  %0 = mla.latent_append %h, %w, %g eps -1.0 rope %t with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> into %cache, %b : tensor<?x7168xbf16>, tensor<576x7168xbf16>, tensor<512xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch
  return
}

// -----

func.func @latent_append_c4(%h: tensor<?x7168xbf16>, %w: tensor<576x7168xbf16>, %g: tensor<512xbf16>, %u: tensor<512xbf16>, %t: tensor<?x64xf32>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch) {
  // expected-error @+1 {{expected bias to be [L + R] with L + R = 576 (from gamma and rope), got 'tensor<512xbf16>'}}
  %0 = mla.latent_append %h, %w, %g bias(%u : tensor<512xbf16>) eps 1.0 rope %t with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> into %cache, %b : tensor<?x7168xbf16>, tensor<576x7168xbf16>, tensor<512xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch
  return
}

// -----

func.func @latent_append_c5(%h: tensor<?x7168xbf16>, %w: tensor<576x7168xbf16>, %g: tensor<512xbf16>, %t: tensor<?x64xf32>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 32], element = bf16, rope_order = interleaved>, %b: !mla.batch) {
  // expected-error @+1 {{expected a cache of latent: 512, rope: 64, got}}
  %0 = mla.latent_append %h, %w, %g eps 1.0 rope %t with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> into %cache, %b : tensor<?x7168xbf16>, tensor<576x7168xbf16>, tensor<512xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 64, fields = [latent: 512, rope: 32], element = bf16, rope_order = interleaved>, !mla.batch
  return
}

// -----

func.func @latent_append_c5_codes(%h: tensor<?x7168xbf16>, %w: tensor<576x7168xbf16>, %g: tensor<512xbf16>, %t: tensor<?x64xf32>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = f16, rope_order = interleaved, format = "mla_fp8_tensor">, %b: !mla.batch) {
  // expected-error @+1 {{expected a cache of 'bf16' as it is, in codes of one scale, or of latents in groups with a scale, got}}
  %0 = mla.latent_append %h, %w, %g eps 1.0 rope %t with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> into %cache, %b : tensor<?x7168xbf16>, tensor<576x7168xbf16>, tensor<512xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = f16, rope_order = interleaved, format = "mla_fp8_tensor">, !mla.batch
  return
}

// -----

func.func @latent_append_c5_order(%h: tensor<?x7168xbf16>, %w: tensor<576x7168xbf16>, %g: tensor<512xbf16>, %t: tensor<?x64xf32>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch) {
  // expected-error @+1 {{expected the rope key in the cache's rope order interleaved, got half}}
  %0 = mla.latent_append %h, %w, %g eps 1.0 rope %t with <order = half, dim = 64, theta = 1.0e4, length = 4096> into %cache, %b : tensor<?x7168xbf16>, tensor<576x7168xbf16>, tensor<512xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch
  return
}

// -----

func.func @latent_append_c6(%h: tensor<?x7168xbf16>, %w: tensor<576x7168xbf16>, %g: tensor<512xbf16>, %t: tensor<?x32xf32>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch) {
  // expected-error @+1 {{expected table to be [length, R] with R = 64 (from rope), got 'tensor<?x32xf32>'}}
  %0 = mla.latent_append %h, %w, %g eps 1.0 rope %t with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> into %cache, %b : tensor<?x7168xbf16>, tensor<576x7168xbf16>, tensor<512xbf16> rope tensor<?x32xf32> into !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch
  return
}

// -----

func.func @latent_append_c1_plain(%h: tensor<?x7168xbf16>, %w: tensor<448x7168xbf16>, %g: tensor<512xbf16>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch) {
  // expected-error @+1 {{expected a weight of L rows and more, where nothing is rotated, for gamma 'tensor<512xbf16>', got 'tensor<448x7168xbf16>'}}
  %0 = mla.latent_append %h, %w, %g eps 1.0 into %cache, %b : tensor<?x7168xbf16>, tensor<448x7168xbf16>, tensor<512xbf16> into !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch
  return
}

// -----

func.func @latent_append_c5_plain(%h: tensor<?x7168xbf16>, %w: tensor<512x7168xbf16>, %g: tensor<512xbf16>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch) {
  // expected-error @+1 {{expected a cache of latent: 512, got}}
  %0 = mla.latent_append %h, %w, %g eps 1.0 into %cache, %b : tensor<?x7168xbf16>, tensor<512x7168xbf16>, tensor<512xbf16> into !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch
  return
}

// -----

func.func @latent_append_c6_alone(%h: tensor<?x7168xbf16>, %w: tensor<576x7168xbf16>, %g: tensor<512xbf16>, %t: tensor<?x64xf32>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch) {
  // expected-error @+1 {{expected a table of angles and a rotation, or neither, got a table alone}}
  %0 = "mla.latent_append"(%h, %w, %g, %t, %cache, %b) <{eps = 1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1>}> : (tensor<?x7168xbf16>, tensor<576x7168xbf16>, tensor<512xbf16>, tensor<?x64xf32>, !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch) -> !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>
  return
}

// -----

func.func @latent_append_kept(%h: tensor<?x7168xbf16>, %w: tensor<576x7168xbf16>, %g: tensor<512xbf16>, %t: tensor<?x64xf32>, %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, %b: !mla.batch) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{'mla.latent_append' op inferred type(s) '!mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>', 'tensor<?x512xbf16>', 'tensor<?x64xbf16>' are incompatible with return type(s) of operation '!mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>'}}
  %0 = "mla.latent_append"(%h, %w, %g, %t, %cache, %b) <{eps = 1.0 : f64, kept, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1>, rope = #mla.rope<order = interleaved, dim = 64, theta = 1.0e4, length = 4096>}> : (tensor<?x7168xbf16>, tensor<576x7168xbf16>, tensor<512xbf16>, tensor<?x64xf32>, !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch) -> !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>
  return
}

// -----

func.func @sum_parts_c1_none(%h: tensor<?x64xbf16>, %x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>, %g: tensor<64xbf16>) {
  // expected-error @+1 {{expected one projection or more, got none}}
  %0 = mla.sum_parts 2 -> tensor<?x64xbf16> {
    mla.yield %x : tensor<?x64xbf16>
  }
  return
}

// -----

func.func @sum_parts_c1_op(%h: tensor<?x64xbf16>, %x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>, %g: tensor<64xbf16>) {
  %0 = mla.sum_parts 2 -> tensor<?x64xbf16> {
    // expected-error @+1 {{expected mla.project, mla.latent_project or mla.latent_append in mla.sum_parts}}
    %a = mla.rms_norm %h, %g eps 1.0 : tensor<?x64xbf16>, tensor<64xbf16> -> tensor<?x64xbf16>
    mla.yield %a : tensor<?x64xbf16>
  }
  return
}

// -----

func.func @sum_parts_c1_yield(%h: tensor<?x64xbf16>, %x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>, %g: tensor<64xbf16>) {
  // expected-error @+1 {{expected mla.yield of all results of the body in order}}
  %0 = mla.sum_parts 2 -> tensor<?x64xbf16> {
    %a = mla.latent_project %h, %w, %g eps 1.0 : tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64xbf16> -> tensor<?x64xbf16>
    mla.yield %x : tensor<?x64xbf16>
  }
  return
}

// -----

func.func @sum_parts_c1_types(%h: tensor<?x64xbf16>, %x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>, %g: tensor<64xbf16>) {
  // expected-error @+1 {{expected results of the types that the body yields}}
  %0 = mla.sum_parts 2 -> tensor<?x32xbf16> {
    %a = mla.latent_project %h, %w, %g eps 1.0 : tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64xbf16> -> tensor<?x64xbf16>
    mla.yield %a : tensor<?x64xbf16>
  }
  return
}

// -----

func.func @sum_parts_c2(%h: tensor<?x64xbf16>, %x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>, %g: tensor<64xbf16>) {
  %0 = mla.sum_parts 2 -> tensor<?x64xbf16> {
    %a = mla.latent_project %h, %w, %g eps 1.0 : tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64xbf16> -> tensor<?x64xbf16>
    // expected-error @+1 {{expected the input of the projection before}}
    %b = mla.latent_project %x, %w, %g eps 1.0 : tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64xbf16> -> tensor<?x64xbf16>
    mla.yield %a : tensor<?x64xbf16>
  }
  return
}

// -----

func.func @sum_parts_c2_bias(%h: tensor<?x64xbf16>, %x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>, %g: tensor<64xbf16>) {
  %0 = mla.sum_parts 2 -> tensor<?x64xbf16> {
    // expected-error @+1 {{expected no bias in mla.sum_parts}}
    %a = mla.latent_project %h, %w, %g bias(%g : tensor<64xbf16>) eps 1.0 : tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64xbf16> -> tensor<?x64xbf16>
    mla.yield %a : tensor<?x64xbf16>
  }
  return
}

// -----

func.func @sum_parts_c2_bias_of_project(%h: tensor<?x64xbf16>, %w: tensor<64x64xbf16>, %g: tensor<64xbf16>) {
  %0 = mla.sum_parts 2 -> tensor<?x64xbf16> {
    // expected-error@+1 {{expected no bias in mla.sum_parts}}
    %a = mla.project %h, %w bias(%g : tensor<64xbf16>) : tensor<?x64xbf16>, tensor<64x64xbf16> -> tensor<?x64xbf16>
    mla.yield %a : tensor<?x64xbf16>
  }
  return
}

// -----

func.func @sum_parts_c2_rank(%h: tensor<?x64xbf16>, %w: tensor<2x32x64xbf16>) {
  %0 = mla.sum_parts 2 -> tensor<?x2x32xbf16> {
    // expected-error@+1 {{expected a weight [columns, depth] in mla.sum_parts, got 'tensor<2x32x64xbf16>'}}
    %a = mla.project %h, %w : tensor<?x64xbf16>, tensor<2x32x64xbf16> -> tensor<?x2x32xbf16>
    mla.yield %a : tensor<?x2x32xbf16>
  }
  return
}

// -----

func.func @sum_parts_c3(%h: tensor<?x64xbf16>, %x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>, %g: tensor<64xbf16>) {
  // expected-error @+1 {{expected parts above 1 that divide the depth of 64, got 3}}
  %0 = mla.sum_parts 3 -> tensor<?x64xbf16> {
    %a = mla.latent_project %h, %w, %g eps 1.0 : tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64xbf16> -> tensor<?x64xbf16>
    mla.yield %a : tensor<?x64xbf16>
  }
  return
}

// -----

func.func @sum_parts_c3_one(%h: tensor<?x64xbf16>, %x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>, %g: tensor<64xbf16>) {
  // expected-error @+1 {{expected parts above 1 that divide the depth of 64, got 1}}
  %0 = mla.sum_parts 1 -> tensor<?x64xbf16> {
    %a = mla.latent_project %h, %w, %g eps 1.0 : tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64xbf16> -> tensor<?x64xbf16>
    mla.yield %a : tensor<?x64xbf16>
  }
  return
}

// -----

func.func @yield_parent(%x: tensor<?x64xbf16>) {
  // expected-error @+1 {{expects parent op 'mla.sum_parts'}}
  mla.yield %x : tensor<?x64xbf16>
}

// -----

func.func @mark_selected_c1_selected(%b: !mla.batch, %s: tensor<?xi32>) {
  // expected-error @+1 {{expected selected to be [T, K], got 'tensor<?xi32>'}}
  %0 = mla.mark_selected %s over %b : tensor<?xi32>, !mla.batch -> tensor<?x?xi32>
  return
}

// -----

func.func @mark_selected_c1_result(%b: !mla.batch, %s: tensor<?x8xi32>) {
  // expected-error @+1 {{expected result to be [T, W], got 'tensor<?xi32>'}}
  %0 = mla.mark_selected %s over %b : tensor<?x8xi32>, !mla.batch -> tensor<?xi32>
  return
}

// -----

func.func @mark_selected_c1_columns(%b: !mla.batch, %s: tensor<?x?xi32>) {
  // expected-error @+1 {{expected a static number of selected positions, got 'tensor<?x?xi32>'}}
  %0 = mla.mark_selected %s over %b : tensor<?x?xi32>, !mla.batch -> tensor<?x?xi32>
  return
}

// -----

func.func @mark_selected_c1_words(%b: !mla.batch, %s: tensor<?x8xi32>) {
  // expected-error @+1 {{expected a result [T, W] of dynamic W, got 'tensor<?x4xi32>'}}
  %0 = mla.mark_selected %s over %b : tensor<?x8xi32>, !mla.batch -> tensor<?x4xi32>
  return
}

// -----

func.func @mark_selected_c2_own(%b: !mla.batch<query_len = 1>, %s: tensor<?x8xi32>, %n: index) {
  %shared, %own = mla.share_prefix %n of %b : !mla.batch<query_len = 1> -> !mla.batch, !mla.batch<query_len = 1>
  // expected-error @+1 {{expected a batch that shares no prefix: its rows are those of another}}
  %0 = mla.mark_selected %s over %own : tensor<?x8xi32>, !mla.batch<query_len = 1> -> tensor<?x?xi32>
  return
}

// -----

func.func @mark_selected_c2_shared(%b: !mla.batch<query_len = 1>, %s: tensor<?x8xi32>, %n: index) {
  %shared, %own = mla.share_prefix %n of %b : !mla.batch<query_len = 1> -> !mla.batch, !mla.batch<query_len = 1>
  // expected-error @+1 {{expected a batch that shares no prefix: its rows are those of another}}
  %0 = mla.mark_selected %s over %shared : tensor<?x8xi32>, !mla.batch -> tensor<?x?xi32>
  return
}

// -----

func.func @top_k_c1_scores(%b: !mla.batch, %s: tensor<?xf32>) {
  // expected-error @+1 {{expected scores to be [T, S], got 'tensor<?xf32>'}}
  %0 = mla.top_k %s over %b k 2 : tensor<?xf32>, !mla.batch -> tensor<?x2xi32>
  return
}

// -----

func.func @top_k_c1_result(%b: !mla.batch, %s: tensor<?x?xf32>) {
  // expected-error @+1 {{expected a result [T, 2] for k = 2, got 'tensor<?x3xi32>'}}
  %0 = mla.top_k %s over %b k 2 : tensor<?x?xf32>, !mla.batch -> tensor<?x3xi32>
  return
}

// -----

func.func @top_k_c2_zero(%b: !mla.batch, %s: tensor<?x?xf32>) {
  // expected-error @+1 {{expected k from 1 to 4096, got 0}}
  %0 = mla.top_k %s over %b k 0 : tensor<?x?xf32>, !mla.batch -> tensor<?x0xi32>
  return
}

// -----

func.func @top_k_c2_many(%b: !mla.batch, %s: tensor<?x?xf32>) {
  // expected-error @+1 {{expected k from 1 to 4096, got 4097}}
  %0 = mla.top_k %s over %b k 4097 : tensor<?x?xf32>, !mla.batch -> tensor<?x4097xi32>
  return
}

// -----

func.func @top_k_c3(%b: !mla.batch, %s: tensor<?x?xf32>, %l: tensor<?x1xi32>) {
  // expected-error @+1 {{expected lengths to be [T], got 'tensor<?x1xi32>'}}
  %0 = mla.top_k %s lengths(%l : tensor<?x1xi32>) over %b k 2 : tensor<?x?xf32>, !mla.batch -> tensor<?x2xi32>
  return
}

// -----

func.func @top_k_c4(%b: !mla.batch<query_len = 1>, %s: tensor<?x?xf32>, %n: index) {
  %shared, %own = mla.share_prefix %n of %b : !mla.batch<query_len = 1> -> !mla.batch, !mla.batch<query_len = 1>
  // expected-error @+1 {{expected a batch that shares no prefix: its rows are those of another}}
  %0 = mla.top_k %s over %own k 2 : tensor<?x?xf32>, !mla.batch<query_len = 1> -> tensor<?x2xi32>
  return
}

// -----

!sc = !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = bf16, rope_order = half>
!sl = tensor<?x8xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @sparse_c1_query(%q: tensor<?x8x32xbf16>, %p: tensor<?x8x16xbf16>, %r: tensor<?x40xi32>, %c: !sc, %b: !mla.batch,
    %k: tensor<?x32xbf16>, %kp: tensor<?x16xbf16>, %x: tensor<?x8x48xbf16>, %n: index) {
  // expected-error @+1 {{expected q_lat to be [T, N, Lkv] with Lkv = 32 (from cache), got 'tensor<?x8x48xbf16>'}}
  %0 = mla.sparse_attention query(%x, %p : tensor<?x8x48xbf16>, tensor<?x8x16xbf16>) rows(%r : tensor<?x40xi32>) over %c, %b : !sc, !mla.batch scale 0.1 -> tensor<?x8x48xbf16>
  return
}

// -----

!sc = !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = bf16, rope_order = half>
!sl = tensor<?x8xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @sparse_c1_rope(%q: tensor<?x8x32xbf16>, %p: tensor<?x8x16xbf16>, %r: tensor<?x40xi32>, %c: !sc, %b: !mla.batch,
    %k: tensor<?x32xbf16>, %kp: tensor<?x16xbf16>, %x: index, %n: index) {
  // expected-error @+1 {{expected q_pe with R = 16 (from cache), got none}}
  %0 = mla.sparse_attention query(%q : tensor<?x8x32xbf16>) rows(%r : tensor<?x40xi32>) over %c, %b : !sc, !mla.batch scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

!sc = !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = bf16, rope_order = half>
!sl = tensor<?x8xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @sparse_c1_rows(%q: tensor<?x8x32xbf16>, %p: tensor<?x8x16xbf16>, %r: tensor<?x40xi32>, %c: !sc, %b: !mla.batch,
    %k: tensor<?x32xbf16>, %kp: tensor<?x16xbf16>, %x: tensor<?xi32>, %n: index) {
  // expected-error @+1 {{expected rows to be [T, K], got 'tensor<?xi32>'}}
  %0 = mla.sparse_attention query(%q, %p : tensor<?x8x32xbf16>, tensor<?x8x16xbf16>) rows(%x : tensor<?xi32>) over %c, %b : !sc, !mla.batch scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

!sc = !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = bf16, rope_order = half>
!sl = tensor<?x8xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @sparse_c1_no_rows(%q: tensor<?x8x32xbf16>, %p: tensor<?x8x16xbf16>, %r: tensor<?x40xi32>, %c: !sc, %b: !mla.batch,
    %k: tensor<?x32xbf16>, %kp: tensor<?x16xbf16>, %x: tensor<?x0xi32>, %n: index) {
  // expected-error @+1 {{expected rows [T, K] of a static K > 0, got 'tensor<?x0xi32>'}}
  %0 = mla.sparse_attention query(%q, %p : tensor<?x8x32xbf16>, tensor<?x8x16xbf16>) rows(%x : tensor<?x0xi32>) over %c, %b : !sc, !mla.batch scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

!sc = !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = bf16, rope_order = half>
!sl = tensor<?x8xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @sparse_c1_dynamic_rows(%q: tensor<?x8x32xbf16>, %p: tensor<?x8x16xbf16>, %r: tensor<?x40xi32>, %c: !sc, %b: !mla.batch,
    %k: tensor<?x32xbf16>, %kp: tensor<?x16xbf16>, %x: tensor<?x?xi32>, %n: index) {
  // expected-error @+1 {{expected rows [T, K] of a static K > 0, got 'tensor<?x?xi32>'}}
  %0 = mla.sparse_attention query(%q, %p : tensor<?x8x32xbf16>, tensor<?x8x16xbf16>) rows(%x : tensor<?x?xi32>) over %c, %b : !sc, !mla.batch scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

!sc = !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = bf16, rope_order = half>
!sl = tensor<?x8xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @sparse_c1_integers(%q: tensor<?x8x32xbf16>, %p: tensor<?x8x16xbf16>, %r: tensor<?x40xi32>, %c: !sc, %b: !mla.batch,
    %k: tensor<?x32xbf16>, %kp: tensor<?x16xbf16>, %x: tensor<?x40xi64>, %n: index) {
  // expected-error @+1 {{must be ranked tensor of 32-bit signless integer values, but got 'tensor<?x40xi64>'}}
  %0 = mla.sparse_attention query(%q, %p : tensor<?x8x32xbf16>, tensor<?x8x16xbf16>) rows(%x : tensor<?x40xi64>) over %c, %b : !sc, !mla.batch scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

!sc = !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = bf16, rope_order = half>
!sl = tensor<?x8xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @sparse_c1_lengths(%q: tensor<?x8x32xbf16>, %p: tensor<?x8x16xbf16>, %r: tensor<?x40xi32>, %c: !sc, %b: !mla.batch,
    %k: tensor<?x32xbf16>, %kp: tensor<?x16xbf16>, %x: tensor<?x1xi32>, %n: index) {
  // expected-error @+1 {{expected lengths to be [T], got 'tensor<?x1xi32>'}}
  %0 = mla.sparse_attention query(%q, %p : tensor<?x8x32xbf16>, tensor<?x8x16xbf16>) rows(%r : tensor<?x40xi32>) lengths(%x : tensor<?x1xi32>) over %c, %b : !sc, !mla.batch scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

!sc = !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = bf16, rope_order = half>
!sl = tensor<?x8xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @sparse_c1_sink(%q: tensor<?x8x32xbf16>, %p: tensor<?x8x16xbf16>, %r: tensor<?x40xi32>, %c: !sc, %b: !mla.batch,
    %k: tensor<?x32xbf16>, %kp: tensor<?x16xbf16>, %x: tensor<9xf32>, %n: index) {
  // expected-error @+1 {{expected sink to be [N] with N = 8 (from q_lat), got 'tensor<9xf32>'}}
  %0 = mla.sparse_attention query(%q, %p : tensor<?x8x32xbf16>, tensor<?x8x16xbf16>) rows(%r : tensor<?x40xi32>) sink(%x : tensor<9xf32>) over %c, %b : !sc, !mla.batch scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

!sc = !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = bf16, rope_order = half>
!sl = tensor<?x8xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @sparse_c1_output(%q: tensor<?x8x32xbf16>, %p: tensor<?x8x16xbf16>, %r: tensor<?x40xi32>, %c: !sc, %b: !mla.batch,
    %k: tensor<?x32xbf16>, %kp: tensor<?x16xbf16>, %x: index, %n: index) {
  // expected-error @+1 {{expected output to be [T, N, Lkv] with Lkv = 32 (from cache), got 'tensor<?x8x16xbf16>'}}
  %0 = mla.sparse_attention query(%q, %p : tensor<?x8x32xbf16>, tensor<?x8x16xbf16>) rows(%r : tensor<?x40xi32>) over %c, %b : !sc, !mla.batch scale 0.1 -> tensor<?x8x16xbf16>
  return
}

// -----

!sc = !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = bf16, rope_order = half>
!sl = tensor<?x8xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @sparse_c1_keys(%q: tensor<?x8x32xbf16>, %p: tensor<?x8x16xbf16>, %r: tensor<?x40xi32>, %c: !sc, %b: !mla.batch,
    %k: tensor<?x32xbf16>, %kp: tensor<?x16xbf16>, %x: tensor<?x8xbf16>, %n: index) {
  // expected-error @+1 {{expected q_pe to be [T, N, R] with R = 8 (from keys), got 'tensor<?x8x16xbf16>'}}
  %0 = mla.sparse_attention query(%q, %p : tensor<?x8x32xbf16>, tensor<?x8x16xbf16>) rows(%r : tensor<?x40xi32>) keys(%k, %x : tensor<?x32xbf16>, tensor<?x8xbf16>) scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

!sc = !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = bf16, rope_order = half>
!sl = tensor<?x8xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @sparse_c2_neither(%q: tensor<?x8x32xbf16>, %p: tensor<?x8x16xbf16>, %r: tensor<?x40xi32>, %c: !sc, %b: !mla.batch,
    %k: tensor<?x32xbf16>, %kp: tensor<?x16xbf16>, %x: index, %n: index) {
  // expected-error @+1 {{expected rows over a cache and a batch, or of keys}}
  %0 = mla.sparse_attention query(%q, %p : tensor<?x8x32xbf16>, tensor<?x8x16xbf16>) rows(%r : tensor<?x40xi32>) scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

!sc = !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = bf16, rope_order = half>
!sl = tensor<?x8xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @sparse_c2_both(%q: tensor<?x8x32xbf16>, %p: tensor<?x8x16xbf16>, %r: tensor<?x40xi32>, %c: !sc, %b: !mla.batch,
    %k: tensor<?x32xbf16>, %kp: tensor<?x16xbf16>, %x: index, %n: index) {
  // expected-error @+1 {{expected rows over a cache and a batch, or of keys}}
  %0 = mla.sparse_attention query(%q, %p : tensor<?x8x32xbf16>, tensor<?x8x16xbf16>) rows(%r : tensor<?x40xi32>) over %c, %b : !sc, !mla.batch keys(%k, %kp : tensor<?x32xbf16>, tensor<?x16xbf16>) scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

!sc = !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = bf16, rope_order = half>
!sl = tensor<?x8xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @sparse_c3_rope(%q: tensor<?x8x32xbf16>, %p: tensor<?x8x16xbf16>, %r: tensor<?x40xi32>, %c: !sc, %b: !mla.batch,
    %k: tensor<?x32xbf16>, %kp: tensor<?x16xbf16>, %x: tensor<?x8x16xf16>, %n: index) {
  // expected-error @+1 {{expected q_pe to have q_lat's element type 'bf16', got 'f16'}}
  %0 = mla.sparse_attention query(%q, %x : tensor<?x8x32xbf16>, tensor<?x8x16xf16>) rows(%r : tensor<?x40xi32>) over %c, %b : !sc, !mla.batch scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

!sc = !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = bf16, rope_order = half>
!sl = tensor<?x8xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @sparse_c3_cache(%q: tensor<?x8x32xbf16>, %p: tensor<?x8x16xbf16>, %r: tensor<?x40xi32>, %c: !sc, %b: !mla.batch,
    %k: tensor<?x32xbf16>, %kp: tensor<?x16xbf16>, %x: tensor<?x8x32xf16>, %n: index) {
  // expected-error @+1 {{expected q_pe to have q_lat's element type 'f16', got 'bf16'}}
  %0 = mla.sparse_attention query(%x, %p : tensor<?x8x32xf16>, tensor<?x8x16xbf16>) rows(%r : tensor<?x40xi32>) over %c, %b : !sc, !mla.batch scale 0.1 -> tensor<?x8x32xf16>
  return
}

// -----

!sc = !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = bf16, rope_order = half>
!sl = tensor<?x8xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @sparse_c3_keys(%q: tensor<?x8x32xbf16>, %p: tensor<?x8x16xbf16>, %r: tensor<?x40xi32>, %c: !sc, %b: !mla.batch,
    %k: tensor<?x32xbf16>, %kp: tensor<?x16xbf16>, %x: tensor<?x32xf32>, %n: index) {
  // expected-error @+1 {{expected latent to have q_lat's element type 'bf16', got 'f32'}}
  %0 = mla.sparse_attention query(%q, %p : tensor<?x8x32xbf16>, tensor<?x8x16xbf16>) rows(%r : tensor<?x40xi32>) keys(%x, %kp : tensor<?x32xf32>, tensor<?x16xbf16>) scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

!sc = !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = bf16, rope_order = half>
!sl = tensor<?x8xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @sparse_c3_output(%q: tensor<?x8x32xbf16>, %p: tensor<?x8x16xbf16>, %r: tensor<?x40xi32>, %c: !sc, %b: !mla.batch,
    %k: tensor<?x32xbf16>, %kp: tensor<?x16xbf16>, %x: index, %n: index) {
  // expected-error @+1 {{expected output of the query's element type 'bf16' or f32, got 'f16'}}
  %0 = mla.sparse_attention query(%q, %p : tensor<?x8x32xbf16>, tensor<?x8x16xbf16>) rows(%r : tensor<?x40xi32>) over %c, %b : !sc, !mla.batch scale 0.1 -> tensor<?x8x32xf16>
  return
}

// -----

!sc = !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = bf16, rope_order = half>
!sl = tensor<?x8xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @sparse_c4(%q: tensor<?x8x32xbf16>, %p: tensor<?x8x16xbf16>, %r: tensor<?x40xi32>, %c: !sc, %b: !mla.batch,
    %k: tensor<?x32xbf16>, %kp: tensor<?x16xbf16>, %x: !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = bf16, rope_order = half, format = "split_ckv_kpe">, %n: index) {
  // expected-error @+1 {{expected a cache of rows that begin with a latent, in one section of a page or read whole, got format split_ckv_kpe}}
  %0 = mla.sparse_attention query(%q, %p : tensor<?x8x32xbf16>, tensor<?x8x16xbf16>) rows(%r : tensor<?x40xi32>) over %x, %b : !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = bf16, rope_order = half, format = "split_ckv_kpe">, !mla.batch scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

!sc = !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = bf16, rope_order = half>
!sl = tensor<?x8xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @sparse_c5_B17(%q: tensor<?x8x32xbf16>, %p: tensor<?x8x16xbf16>, %r: tensor<?x40xi32>, %c: !sc, %b: !mla.batch,
    %k: tensor<?x32xbf16>, %kp: tensor<?x16xbf16>, %x: tensor<?x129x32xbf16>, %n: index) {
  // expected-error @+1 {{expected 1 to 128 heads, got 129}}
  %0 = mla.sparse_attention query(%x, %x : tensor<?x129x32xbf16>, tensor<?x129x32xbf16>) rows(%r : tensor<?x40xi32>) keys(%k, %k : tensor<?x32xbf16>, tensor<?x32xbf16>) scale 0.1 -> tensor<?x129x32xbf16>
  return
}

// -----

!sc = !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = bf16, rope_order = half>
!sl = tensor<?x8xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @sparse_c6(%q: tensor<?x8x32xbf16>, %p: tensor<?x8x16xbf16>, %r: tensor<?x40xi32>, %c: !sc, %b: !mla.batch,
    %k: tensor<?x32xbf16>, %kp: tensor<?x16xbf16>, %x: index, %n: index) {
  // expected-error @+1 {{expected scale > 0, got -1.000000e-01}}
  %0 = mla.sparse_attention query(%q, %p : tensor<?x8x32xbf16>, tensor<?x8x16xbf16>) rows(%r : tensor<?x40xi32>) over %c, %b : !sc, !mla.batch scale -0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

!sc = !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = bf16, rope_order = half>
!sl = tensor<?x8xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @sparse_c7_lse(%q: tensor<?x8x32xbf16>, %p: tensor<?x8x16xbf16>, %r: tensor<?x40xi32>, %c: !sc, %b: !mla.batch,
    %k: tensor<?x32xbf16>, %kp: tensor<?x16xbf16>, %x: index, %n: index) {
  // expected-error @+1 {{expected lse to have an #mla.lse encoding, got 'tensor<?x8xf32>'}}
  %0, %1 = mla.sparse_attention query(%q, %p : tensor<?x8x32xbf16>, tensor<?x8x16xbf16>) rows(%r : tensor<?x40xi32>) over %c, %b : !sc, !mla.batch scale 0.1 -> tensor<?x8x32xbf16> lse tensor<?x8xf32>
  return
}

// -----

!sc = !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = bf16, rope_order = half>
!sl = tensor<?x8xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @sparse_c7_max(%q: tensor<?x8x32xbf16>, %p: tensor<?x8x16xbf16>, %r: tensor<?x40xi32>, %c: !sc, %b: !mla.batch,
    %k: tensor<?x32xbf16>, %kp: tensor<?x16xbf16>, %x: index, %n: index) {
  // expected-error @+1 {{expected max_logits without an encoding, got 'tensor<?x8xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>'}}
  %0, %1 = mla.sparse_attention query(%q, %p : tensor<?x8x32xbf16>, tensor<?x8x16xbf16>) rows(%r : tensor<?x40xi32>) over %c, %b : !sc, !mla.batch scale 0.1 -> tensor<?x8x32xbf16> max_logits !sl
  return
}

// -----

!sc = !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = bf16, rope_order = half>
!sl = tensor<?x8xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @sparse_c8_lse(%q: tensor<?x8x32xbf16>, %p: tensor<?x8x16xbf16>, %r: tensor<?x40xi32>, %c: !sc, %b: !mla.batch,
    %k: tensor<?x32xbf16>, %kp: tensor<?x16xbf16>, %x: index, %n: index) {
  // expected-error @+1 {{expected an lse beside num_splits, got none}}
  %0 = mla.sparse_attention query(%q, %p : tensor<?x8x32xbf16>, tensor<?x8x16xbf16>) rows(%r : tensor<?x40xi32>) over %c, %b : !sc, !mla.batch splits %n scale 0.1 -> tensor<?x?x8x32xf32>
  return
}

// -----

!sc = !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = bf16, rope_order = half>
!sl = tensor<?x8xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @sparse_c8_sink(%q: tensor<?x8x32xbf16>, %p: tensor<?x8x16xbf16>, %r: tensor<?x40xi32>, %c: !sc, %b: !mla.batch,
    %k: tensor<?x32xbf16>, %kp: tensor<?x16xbf16>, %x: tensor<8xf32>, %n: index) {
  // expected-error @+1 {{expected no sink beside num_splits: it goes to mla.merge_splits}}
  %0 = mla.sparse_attention query(%q, %p : tensor<?x8x32xbf16>, tensor<?x8x16xbf16>) rows(%r : tensor<?x40xi32>) sink(%x : tensor<8xf32>) over %c, %b : !sc, !mla.batch splits %n scale 0.1 -> tensor<?x?x8x32xf32>
  return
}

// -----

!ml = tensor<?x?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @merge_splits_c3_missing(%p: tensor<?x?x16x512xf32>, %pl: !ml) {
  // expected-error @+1 {{expected a partial_max beside max_logits, got none}}
  %0, %1 = mla.merge_splits %p, %pl : tensor<?x?x16x512xf32>, !ml -> tensor<?x16x512xbf16> max_logits tensor<?x16xf32>
  return
}

// -----

!ml = tensor<?x?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @merge_splits_c3_encoding(%p: tensor<?x?x16x512xf32>, %pl: !ml) {
  // expected-error @+1 {{expected partial_max without an encoding, got}}
  %0, %1 = mla.merge_splits %p, %pl max(%pl : !ml) : tensor<?x?x16x512xf32>, !ml -> tensor<?x16x512xbf16> max_logits tensor<?x16xf32>
  return
}

// -----

!ml = tensor<?x?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @merge_splits_c1_sink(%p: tensor<?x?x16x512xf32>, %pl: !ml, %s: tensor<8xf32>) {
  // expected-error @+1 {{expected sink to be [N] with N = 16 (from partial_output), got 'tensor<8xf32>'}}
  %0 = mla.merge_splits %p, %pl sink(%s : tensor<8xf32>) : tensor<?x?x16x512xf32>, !ml -> tensor<?x16x512xbf16>
  return
}

// -----

// A chunk of requests.
func.func @sparse_attention_c9_keys(%q: tensor<?x8x32xbf16>, %r: tensor<?x40xi32>, %b: !mla.batch, %i: index, %c: !mla.cache<page_size = 16, fields = [latent: 32], element = bf16>) {
  // expected-error @+1 {{expected the keys of a chunk, got a cache}}
  %0 = mla.sparse_attention query(%q : tensor<?x8x32xbf16>) rows(%r : tensor<?x40xi32>) over %c, %b : !mla.cache<page_size = 16, fields = [latent: 32], element = bf16>, !mla.batch of %b chunk %i onto %q : !mla.batch, tensor<?x8x32xbf16> scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

func.func @sparse_attention_c9_lse(%q: tensor<?x8x32xbf16>, %r: tensor<?x40xi32>, %b: !mla.batch, %i: index, %k: tensor<?x32xbf16>) {
  // expected-error @+1 {{expected neither splits nor lse and max_logits of a chunk}}
  %0, %1 = mla.sparse_attention query(%q : tensor<?x8x32xbf16>) rows(%r : tensor<?x40xi32>) keys(%k : tensor<?x32xbf16>) of %b chunk %i onto %q : !mla.batch, tensor<?x8x32xbf16> scale 0.1 -> tensor<?x8x32xbf16> max_logits tensor<?x8xf32>
  return
}

// -----

func.func @sparse_attention_c9_onto(%q: tensor<?x8x32xbf16>, %r: tensor<?x40xi32>, %b: !mla.batch, %i: index, %k: tensor<?x32xbf16>, %o: tensor<?x8x32xf32>) {
  // expected-error @+1 {{expected onto to have the output's type 'tensor<?x8x32xbf16>', got 'tensor<?x8x32xf32>'}}
  %0 = mla.sparse_attention query(%q : tensor<?x8x32xbf16>) rows(%r : tensor<?x40xi32>) keys(%k : tensor<?x32xbf16>) of %b chunk %i onto %o : !mla.batch, tensor<?x8x32xf32> scale 0.1 -> tensor<?x8x32xbf16>
  return
}

// -----

func.func @sparse_attention_c9_together(%q: tensor<?x8x32xbf16>, %r: tensor<?x40xi32>, %b: !mla.batch, %k: tensor<?x32xbf16>) {
  // expected-error @+1 {{expected prefills, chunk and onto together}}
  %0 = "mla.sparse_attention"(%q, %r, %k, %b) <{operandSegmentSizes = array<i32: 1, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0>, scale = 1.000000e-01 : f64}> : (tensor<?x8x32xbf16>, tensor<?x40xi32>, tensor<?x32xbf16>, !mla.batch) -> tensor<?x8x32xbf16>
  return
}

// -----

func.func @convert_indices_c2_workspace(%p: tensor<?x4xi32>, %r: tensor<?xi32>, %b: !mla.batch, %cache: !mla.cache<page_size = 1, fields = [latent: 16], element = bf16, rope_order = half>) {
  // expected-error @+1 {{expected no prefill_requests beside workspace: the step has them}}
  %0 = mla.convert_indices %p in %cache, %b prefill %r, %r workspace : tensor<?x4xi32> in !mla.cache<page_size = 1, fields = [latent: 16], element = bf16, rope_order = half>, !mla.batch prefill tensor<?xi32>, tensor<?xi32>
  return
}

// -----

func.func @attention_c8_selected(%q: tensor<?x3x16xf32>, %c: tensor<?x32xf32>, %uk: tensor<3x16x32xf32>, %b: !mla.batch, %cache: !mla.cache<page_size = 4, fields = [latent: 32], element = f32>) {
  // expected-error @+1 {{expected selected keys with gathered: other attention has chunks of context}}
  %0 = mla.attention query(%q : tensor<?x3x16xf32>) latent(%c : tensor<?x32xf32>) weights(%uk, %uk : tensor<3x16x32xf32>, tensor<3x16x32xf32>)
      over %cache, %b : !mla.cache<page_size = 4, fields = [latent: 32], element = f32>, !mla.batch scale 0.5 {gathered} -> tensor<?x3x16xf32>
  return
}

// -----

func.func @attention_c8_decodes(%q: tensor<?x3x16xf32>, %c: tensor<?x32xf32>, %uk: tensor<3x16x32xf32>, %s: tensor<?x24xi32>, %b: !mla.batch, %cache: !mla.cache<page_size = 4, fields = [latent: 32], element = f32>) attributes {mla.decode_threshold = 1 : i64} {
  %d = mla.batch_part %b decodes : !mla.batch -> !mla.batch<query_len = 1>
  // expected-error @+1 {{expected no decodes with gathered: each would gather its whole context}}
  %0 = mla.attention query(%q : tensor<?x3x16xf32>) latent(%c : tensor<?x32xf32>) weights(%uk, %uk : tensor<3x16x32xf32>, tensor<3x16x32xf32>)
      over %cache, %d : !mla.cache<page_size = 4, fields = [latent: 32], element = f32>, !mla.batch<query_len = 1> selected(%s : tensor<?x24xi32>) scale 0.5 {gathered} -> tensor<?x3x16xf32>
  return
}

// -----

// expected-error @+1 {{expected argument 0, which is marked mla.heads_outermost, to be a tensor of tokens, heads and columns of which only tokens are dynamic, got 'tensor<?x64xbf16>'}}
func.func @heads_outermost_rank(%q: tensor<?x64xbf16> {mla.input = "q", mla.heads_outermost}) {
  return
}

// -----

// expected-error @+1 {{expected argument 0, which is marked mla.heads_outermost, to be a tensor of tokens, heads and columns of which only tokens are dynamic, got 'tensor<?x?x64xbf16>'}}
func.func @heads_outermost_dynamic(%q: tensor<?x?x64xbf16> {mla.input = "q", mla.heads_outermost}) {
  return
}

// -----

// expected-error @+1 {{expected argument 0, which is marked mla.heads_outermost, to be marked mla.input}}
func.func @heads_outermost_weight(%q: tensor<4x4x64xbf16> {mla.weight = "q", mla.heads_outermost}) {
  return
}

// -----

// expected-error @+1 {{expected mla.heads_outermost to be no value, got true}}
func.func @heads_outermost_value(%q: tensor<?x4x64xbf16> {mla.input = "q", mla.heads_outermost = true}) {
  return
}

// -----

// expected-error @+1 {{expected mla.optional_chunks to be no value, got 1 : i64}}
func.func @optional_chunks_value(%b: !mla.batch) attributes {mla.optional_chunks = 1 : i64} {
  return
}

// -----

// expected-error @+1 {{mla.optional_chunks is for func.func}}
module attributes {mla.optional_chunks} {}
