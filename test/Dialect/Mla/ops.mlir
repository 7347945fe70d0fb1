// RUN: mla-opt %s --verify-roundtrip | FileCheck %s

// Every op in its smallest and its fullest form.

!cache = !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>
!flat_cache = !mla.cache<page_size = 1, fields = [latent: 32], element = f32, rope_order = half>
!lse = tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
!lse_by_head = tensor<16x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>>
!lse_splits = tensor<?x?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
#rope = #mla.rope<order = interleaved, dim = 64, theta = 1.0e4, length = 4096>
#yarn = #mla.rope<order = half, dim = 64, theta = 1.0e4, length = 163840, scaling = yarn, multiplier = 0.5,
                  factor = 40.0, beta_fast = 16.0, beta_slow = 2.0, original_max_position = 4096>
#longrope = #mla.rope<order = half, dim = 4, theta = 1.0e4, length = 64, scaling = longrope,
                      original_max_position = 32, short_factors = [1.0, 1.5], long_factors = [2.0, 4.0]>

// CHECK-LABEL: func @types(
// CHECK-SAME: !mla.batch<query_len = ?>, %{{.*}}: !mla.batch<query_len = 1>
// CHECK-SAME: !mla.batch<query_len = ?, context_len = 0>, %{{.*}}: !mla.batch<query_len = 2, context_len = 64>
// CHECK-SAME: !mla.cache<page_size = 1, fields = [latent: 32], element = f32, rope_order = half>
func.func @types(%a: !mla.batch, %b: !mla.batch<query_len = 1>, %c: !mla.batch<context_len = 0>,
                 %d: !mla.batch<query_len = 2, context_len = 64>, %cache: !flat_cache)
    attributes {target = #mla.target<"h200", num_sms = 132, matmul_tflops = 700.0, read_gbps = 4000.0, launch_us = 3.5>} {
  return
}

// CHECK-LABEL: func private @cache_formats
// CHECK-SAME: rope_order = half, format = "mla_fp8_tensor">
// CHECK-SAME: rope_order = half, format = "fp8_ds_mla", scale_rule = power_of_two>
func.func private @cache_formats(!mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = half, format = "mla_fp8_tensor">,
    !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = half, format = "fp8_ds_mla", scale_rule = power_of_two>)

// CHECK-LABEL: func @rms_norm
func.func @rms_norm(%x: tensor<?x512xbf16>, %gamma: tensor<512xbf16>) {
  // CHECK: mla.rms_norm %{{.*}}, %{{.*}} eps 9.99{{.*}} : tensor<?x512xbf16>, tensor<512xbf16> -> tensor<?x512xbf16>
  %0 = mla.rms_norm %x, %gamma eps 1.0e-6 : tensor<?x512xbf16>, tensor<512xbf16> -> tensor<?x512xbf16>
  // CHECK: mla.rms_norm {{.*}} {multiplier = 2.000000e+00 : f64}
  %1 = mla.rms_norm %x, %gamma eps 1.0e-6 {multiplier = 2.0 : f64} : tensor<?x512xbf16>, tensor<512xbf16> -> tensor<?x512xbf16>
  return
}

// CHECK-LABEL: func @project
func.func @project(%x: tensor<?x1536xbf16>, %heads: tensor<?x16x128xbf16>, %w3: tensor<16x128x1536xbf16>,
                   %w2: tensor<7168x2048xbf16>, %bias: tensor<7168xbf16>) {
  // CHECK: mla.project %{{.*}}, %{{.*}} : tensor<?x1536xbf16>, tensor<16x128x1536xbf16> -> tensor<?x16x128xbf16>
  %0 = mla.project %x, %w3 : tensor<?x1536xbf16>, tensor<16x128x1536xbf16> -> tensor<?x16x128xbf16>
  // CHECK: mla.project %{{.*}}, %{{.*}} {rounded} : tensor<?x16x128xbf16>, tensor<7168x2048xbf16> -> tensor<?x7168xf32>
  %r = mla.project %heads, %w2 {rounded} : tensor<?x16x128xbf16>, tensor<7168x2048xbf16> -> tensor<?x7168xf32>
  // CHECK: mla.project %{{.*}}, %{{.*}} bias(%{{.*}} : tensor<7168xbf16>) : tensor<?x16x128xbf16>, tensor<7168x2048xbf16> -> tensor<?x7168xbf16>
  %1 = mla.project %heads, %w2 bias(%bias : tensor<7168xbf16>) : tensor<?x16x128xbf16>, tensor<7168x2048xbf16> -> tensor<?x7168xbf16>
  return
}

// CHECK-LABEL: func @latent_project
func.func @latent_project(%h: tensor<?x7168xbf16>, %w_q: tensor<1536x7168xbf16>, %gamma_q: tensor<1536xbf16>,
                          %w_kv: tensor<576x7168xbf16>, %gamma_kv: tensor<512xbf16>, %bias: tensor<576xbf16>) {
  // CHECK: mla.latent_project {{.*}} -> tensor<?x1536xbf16>
  %q = mla.latent_project %h, %w_q, %gamma_q eps 1.0e-6
      : tensor<?x7168xbf16>, tensor<1536x7168xbf16>, tensor<1536xbf16> -> tensor<?x1536xbf16>
  // CHECK: %{{.*}}, %{{.*}} = mla.latent_project %{{.*}}, %{{.*}}, %{{.*}} bias(%{{.*}} : tensor<576xbf16>) eps {{.*}} {multiplier = 2.000000e+00 : f64}
  // CHECK-SAME: -> tensor<?x512xbf16>, tensor<?x64xbf16>
  %c, %k = mla.latent_project %h, %w_kv, %gamma_kv bias(%bias : tensor<576xbf16>) eps 1.0e-6 {multiplier = 2.0 : f64}
      : tensor<?x7168xbf16>, tensor<576x7168xbf16>, tensor<512xbf16> -> tensor<?x512xbf16>, tensor<?x64xbf16>
  return
}

// CHECK-LABEL: func @latent_append
func.func @latent_append(%h: tensor<?x7168xbf16>, %w: tensor<576x7168xbf16>, %gamma: tensor<512xbf16>, %bias: tensor<576xbf16>,
                         %table: tensor<?x64xf32>, %cache: !cache, %batch: !mla.batch)
    -> (!cache, !cache, tensor<?x512xbf16>, tensor<?x64xbf16>) {
  // CHECK: mla.latent_append %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} eps 2.000000e+00 into %{{.*}}, %{{.*}} : tensor<?x7168xbf16>, tensor<576x7168xbf16>, tensor<512xbf16> into
  %plain = mla.latent_append %h, %w, %gamma eps 2.0 into %cache, %batch
      : tensor<?x7168xbf16>, tensor<576x7168xbf16>, tensor<512xbf16> into !cache, !mla.batch
  // CHECK: mla.latent_append %{{.*}}, %{{.*}}, %{{.*}} eps 1.000000e+00 rope %{{.*}} with <order = interleaved, {{.*}}> into %{{.*}}, %{{.*}} : {{.*}} rope tensor<?x64xf32> into <page_size = 64, {{.*}}>, <query_len = ?>
  %0 = mla.latent_append %h, %w, %gamma eps 1.0 rope %table with #rope into %cache, %batch
      : tensor<?x7168xbf16>, tensor<576x7168xbf16>, tensor<512xbf16> rope tensor<?x64xf32> into !cache, !mla.batch
  // CHECK: mla.latent_append {{.*}} bias(%{{.*}} : tensor<576xbf16>) eps {{.*}} {multiplier = 2.000000e+00 : f64}
  %1 = mla.latent_append %h, %w, %gamma bias(%bias : tensor<576xbf16>) eps 1.0 rope %table with #rope into %cache, %batch {multiplier = 2.0 : f64}
      : tensor<?x7168xbf16>, tensor<576x7168xbf16>, tensor<512xbf16> rope tensor<?x64xf32> into !cache, !mla.batch
  // CHECK: %{{.*}}, %[[ROWS:.*]]:2 = mla.latent_append {{.*}} into %{{.*}}, %{{.*}} kept : tensor<?x7168xbf16>
  // CHECK-NEXT: return %{{.*}}, %{{.*}}, %[[ROWS]]#0, %[[ROWS]]#1
  %2, %rows:2 = mla.latent_append %h, %w, %gamma eps 1.0 rope %table with #rope into %0, %batch kept
      : tensor<?x7168xbf16>, tensor<576x7168xbf16>, tensor<512xbf16> rope tensor<?x64xf32> into !cache, !mla.batch
  return %1, %2, %rows#0, %rows#1 : !cache, !cache, tensor<?x512xbf16>, tensor<?x64xbf16>
}

// CHECK-LABEL: func @grouped_append
func.func @grouped_append(%q: tensor<?x32x128xbf16>, %k: tensor<?x8x128xbf16>, %v: tensor<?x8x64xbf16>, %table: tensor<?x64xf32>, %pairs: tensor<4096x32x2xf16>,
    %gamma: tensor<128xbf16>,
    %both: !mla.cache<page_size = 16, fields = [key: 8x128, value: 8x64], element = bf16, format = "kv_nhd">,
    %keys: !mla.cache<page_size = 16, fields = [key: 8x128], element = bf16, format = "k_nhd">,
    %values: !mla.cache<page_size = 64, fields = [value: 8x64], element = bf16, format = "v_nhd">, %batch: !mla.batch) {
  // CHECK: %{{.*}}, %{{.*}} = mla.grouped_append %{{.*}}, %{{.*}}, %{{.*}} rope %{{.*}} with <order = interleaved, {{.*}}> offset 64 into %{{.*}}, %{{.*}} : tensor<?x32x128xbf16>, tensor<?x8x128xbf16>, tensor<?x8x64xbf16> rope tensor<?x64xf32> into <page_size = 16, {{.*}}>, <query_len = ?>
  %0, %1 = mla.grouped_append %q, %k, %v rope %table with #rope offset 64 into %both, %batch
      : tensor<?x32x128xbf16>, tensor<?x8x128xbf16>, tensor<?x8x64xbf16> rope tensor<?x64xf32>
      into <page_size = 16, fields = [key: 8x128, value: 8x64], element = bf16, format = "kv_nhd">, !mla.batch
  // CHECK: %{{.*}}, %{{.*}}, %{{.*}} = mla.grouped_append {{.*}} offset 0 into %{{.*}} values %{{.*}}, %{{.*}} : {{.*}} rope tensor<4096x32x2xf16> into <page_size = 16, {{.*}}> values !mla.cache<page_size = 64, {{.*}}>, <query_len = ?>
  %2, %3, %4 = mla.grouped_append %q, %k, %v rope %pairs with #rope offset 0 into %keys values %values, %batch
      : tensor<?x32x128xbf16>, tensor<?x8x128xbf16>, tensor<?x8x64xbf16> rope tensor<4096x32x2xf16>
      into <page_size = 16, fields = [key: 8x128], element = bf16, format = "k_nhd">
      values !mla.cache<page_size = 64, fields = [value: 8x64], element = bf16, format = "v_nhd">, !mla.batch
  // CHECK: mla.grouped_append %{{.*}}, %{{.*}}, %{{.*}} norms %[[GAMMA:.*]], %[[GAMMA]] epsilon 9.9{{[0-9]+}}E-7 rope %{{.*}} with {{.*}} : tensor<?x32x128xbf16>, tensor<?x8x128xbf16>, tensor<?x8x64xbf16> norms tensor<128xbf16>, tensor<128xbf16> rope tensor<?x64xf32> into <page_size = 16, {{.*}}>, <query_len = ?>
  %5, %6 = mla.grouped_append %q, %k, %v norms %gamma, %gamma epsilon 1.0e-6 rope %table with #rope offset 64 into %both, %batch
      : tensor<?x32x128xbf16>, tensor<?x8x128xbf16>, tensor<?x8x64xbf16> norms tensor<128xbf16>, tensor<128xbf16> rope tensor<?x64xf32>
      into <page_size = 16, fields = [key: 8x128, value: 8x64], element = bf16, format = "kv_nhd">, !mla.batch
  return
}

// CHECK-LABEL: func @index_rows
func.func @index_rows(%k: tensor<?x128xbf16>, %g: tensor<128xf32>, %u: tensor<128xf32>, %q: tensor<?x64x128xbf16>, %x: tensor<?x64xbf16>,
                      %table: tensor<?x64xf32>, %batch: !mla.batch,
                      %keys: !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k">) {
  // CHECK: mla.index_append %{{.*}}, %{{.*}}, %{{.*}} epsilon 1.000000e+00 rope %{{.*}} with <order = half, {{.*}}> offset 32 into %{{.*}}, %{{.*}} : tensor<?x128xbf16>, tensor<128xf32>, tensor<128xf32> rope tensor<?x64xf32> into <page_size = 64, {{.*}}>, <query_len = ?>
  %new = mla.index_append %k, %g, %u epsilon 1.0 rope %table with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 32 into %keys, %batch
      : tensor<?x128xbf16>, tensor<128xf32>, tensor<128xf32> rope tensor<?x64xf32>
      into <page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k">, <query_len = ?>
  // CHECK: mla.index_query %{{.*}}, %{{.*}} factor 1.250000e-01 rope %{{.*}}, %{{.*}} with <order = half, {{.*}}> offset 0 rule <power_of_two> floor {{.*}} amax_floor 1.000000e-04 : tensor<?x64x128xbf16>, tensor<?x64xbf16> rope tensor<?x64xf32>, <query_len = ?> -> tensor<?x64x128xf8E4M3FN>, tensor<?x64xf32>
  %q8, %w = mla.index_query %q, %x factor 0.125 rope %table, %batch with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0
      rule <power_of_two> floor 1.0e-38 amax_floor 1.0e-4 : tensor<?x64x128xbf16>, tensor<?x64xbf16> rope tensor<?x64xf32>, <query_len = ?>
      -> tensor<?x64x128xf8E4M3FN>, tensor<?x64xf32>
  return
}

// CHECK-LABEL: func @rows
func.func @rows(%q: tensor<?x4x512xbf16>, %x: tensor<?x512xf32>, %g: tensor<512xf32>, %v: tensor<?x64xf32>, %p: tensor<4x64xf32>, %table: tensor<?x64xf32>,
                %batch: !mla.batch, %latents: !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved>, %states: !mla.cache<page_size = 4, fields = [key: 64, value: 64], element = f32, format = "kv_nhd">) {
  // CHECK: mla.norm_rope %{{.*}} eps 1.000000e+00 rope %{{.*}}, %{{.*}} with <order = interleaved, {{.*}}> offset 448 : tensor<?x4x512xbf16> rope tensor<?x64xf32>, <query_len = ?> -> tensor<?x4x512xbf16>
  %0 = mla.norm_rope %q eps 1.0 rope %table, %batch with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> offset 448 : tensor<?x4x512xbf16> rope tensor<?x64xf32>, !mla.batch -> tensor<?x4x512xbf16>
  // CHECK: mla.norm_rope %{{.*}} gamma(%{{.*}} : tensor<512xf32>) eps 1.000000e+00 rope
  %1 = mla.norm_rope %x gamma(%g : tensor<512xf32>) eps 1.0 rope %table, %batch with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> offset 0 : tensor<?x512xf32> rope tensor<?x64xf32>, !mla.batch -> tensor<?x512xbf16>
  // CHECK: mla.rope_append %{{.*}} rope %{{.*}} with <order = interleaved, {{.*}}> offset 448 into %{{.*}}, %{{.*}} : tensor<?x512xf32> rope tensor<?x64xf32> into <page_size = 64, {{.*}}>, <query_len = ?>
  %2 = mla.rope_append %x rope %table with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> offset 448 into %latents, %batch : tensor<?x512xf32> rope tensor<?x64xf32> into !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved>, !mla.batch
  // CHECK: mla.rope_append %{{.*}} gamma(%{{.*}} : tensor<512xf32>) eps 1.000000e+00 rope %{{.*}} offset 448 every 4 into
  %3 = mla.rope_append %x gamma(%g : tensor<512xf32>) eps 1.0 rope %table with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> offset 448 every 4 into %2, %batch : tensor<?x512xf32> rope tensor<?x64xf32> into !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved>, !mla.batch
  // CHECK: mla.bias_append %{{.*}}, %{{.*}} bias %{{.*}} into %{{.*}}, %{{.*}} : tensor<?x64xf32>, tensor<?x64xf32> bias tensor<4x64xf32> into <page_size = 4, {{.*}}>, <query_len = ?>
  %4 = mla.bias_append %v, %v bias %p into %states, %batch : tensor<?x64xf32>, tensor<?x64xf32> bias tensor<4x64xf32> into !mla.cache<page_size = 4, fields = [key: 64, value: 64], element = f32, format = "kv_nhd">, !mla.batch
  return
}

// CHECK-LABEL: func @sum_parts
func.func @sum_parts(%h: tensor<?x7168xbf16>, %w_q: tensor<1536x7168xbf16>, %gamma_q: tensor<1536xbf16>,
                     %w: tensor<576x7168xbf16>, %gamma: tensor<512xbf16>, %table: tensor<?x64xf32>,
                     %cache: !cache, %batch: !mla.batch) {
  // CHECK: mla.sum_parts 2 -> tensor<?x1536xbf16> {
  // CHECK-NEXT: mla.latent_project
  // CHECK-NEXT: mla.yield %{{.*}} : tensor<?x1536xbf16>
  %0 = mla.sum_parts 2 -> tensor<?x1536xbf16> {
    %q = mla.latent_project %h, %w_q, %gamma_q eps 1.0 : tensor<?x7168xbf16>, tensor<1536x7168xbf16>, tensor<1536xbf16> -> tensor<?x1536xbf16>
    mla.yield %q : tensor<?x1536xbf16>
  }
  // CHECK: %{{.*}}:2 = mla.sum_parts 4 -> tensor<?x1536xbf16>, tensor<?x576xbf16> {
  // CHECK: mla.project
  %p:2 = mla.sum_parts 4 -> tensor<?x1536xbf16>, tensor<?x576xbf16> {
    %q = mla.latent_project %h, %w_q, %gamma_q eps 1.0 : tensor<?x7168xbf16>, tensor<1536x7168xbf16>, tensor<1536xbf16> -> tensor<?x1536xbf16>
    %k = mla.project %h, %w : tensor<?x7168xbf16>, tensor<576x7168xbf16> -> tensor<?x576xbf16>
    mla.yield %q, %k : tensor<?x1536xbf16>, tensor<?x576xbf16>
  }
  // CHECK: %{{.*}}:3 = mla.sum_parts 4 -> !mla.cache<{{.*}}>, tensor<?x512xbf16>, tensor<?x64xbf16> {
  // CHECK: mla.yield %{{.*}}, %{{.*}}, %{{.*}} :
  %1:3 = mla.sum_parts 4 -> !cache, tensor<?x512xbf16>, tensor<?x64xbf16> {
    %new = mla.latent_append %h, %w, %gamma eps 1.0 rope %table with #rope into %cache, %batch
        : tensor<?x7168xbf16>, tensor<576x7168xbf16>, tensor<512xbf16> rope tensor<?x64xf32> into !cache, !mla.batch
    %c, %k = mla.latent_project %h, %w, %gamma eps 1.0 : tensor<?x7168xbf16>, tensor<576x7168xbf16>, tensor<512xbf16> -> tensor<?x512xbf16>, tensor<?x64xbf16>
    mla.yield %new, %c, %k : !cache, tensor<?x512xbf16>, tensor<?x64xbf16>
  }
  return
}

// CHECK-LABEL: func @head_project
func.func @head_project(%q: tensor<?x16x128xbf16>, %o: tensor<?x16x512xbf16>, %w: tensor<16x128x512xbf16>) {
  // CHECK: mla.head_project %{{.*}}, %{{.*}} : tensor<?x16x512xbf16>, tensor<16x128x512xbf16> -> tensor<?x16x128xbf16>
  %0 = mla.head_project %o, %w : tensor<?x16x512xbf16>, tensor<16x128x512xbf16> -> tensor<?x16x128xbf16>
  // CHECK: mla.head_project %{{.*}}, %{{.*}} contract_rows : tensor<?x16x128xbf16>
  %1 = mla.head_project %q, %w contract_rows : tensor<?x16x128xbf16>, tensor<16x128x512xbf16> -> tensor<?x16x512xbf16>
  return
}

// CHECK-LABEL: func.func @requantized_A12
func.func @requantized_A12(%w: tensor<2x128x256xbf16>, %o: tensor<192x512xbf16>) {
  // CHECK: mla.requantize %{{.*}} block [128, 128] transposed : tensor<2x128x256xbf16> -> tensor<512x128xf8E4M3FN>, tensor<4x1xf32>
  %0, %1 = mla.requantize %w block [128, 128] transposed : tensor<2x128x256xbf16> -> tensor<512x128xf8E4M3FN>, tensor<4x1xf32>
  // CHECK: mla.requantize %{{.*}} block [1, 0] : tensor<2x128x256xbf16> -> tensor<256x256xf8E4M3FN>, tensor<256x1xf32>
  %2, %3 = mla.requantize %w block [1, 0] : tensor<2x128x256xbf16> -> tensor<256x256xf8E4M3FN>, tensor<256x1xf32>
  // CHECK: mla.requantize %{{.*}} block [0, 0] : tensor<192x512xbf16> -> tensor<192x512xf8E4M3FN>, tensor<1x1xf32>
  %4, %5 = mla.requantize %o block [0, 0] : tensor<192x512xbf16> -> tensor<192x512xf8E4M3FN>, tensor<1x1xf32>
  return
}

// CHECK-LABEL: func.func @scaled_weights
func.func @scaled_weights(%c: tensor<576x384xf8E4M3FN>, %blocks: tensor<5x3xf32>,
                          %rows: tensor<576x1xf32>, %one: tensor<1x1xf32>) {
  // CHECK: mla.scaled_weight %{{.*}}, %{{.*}} block [128, 128] : tensor<576x384xf8E4M3FN>, tensor<5x3xf32> -> tensor<576x384xbf16>
  %0 = mla.scaled_weight %c, %blocks block [128, 128] : tensor<576x384xf8E4M3FN>, tensor<5x3xf32> -> tensor<576x384xbf16>
  // CHECK: mla.scaled_weight %{{.*}} block [1, 0]
  %1 = mla.scaled_weight %c, %rows block [1, 0] : tensor<576x384xf8E4M3FN>, tensor<576x1xf32> -> tensor<576x384xf16>
  // CHECK: mla.scaled_weight %{{.*}} block [0, 0]
  %2 = mla.scaled_weight %c, %one block [0, 0] : tensor<576x384xf8E4M3FN>, tensor<1x1xf32> -> tensor<576x384xf32>
  return
}

// CHECK-LABEL: func.func @coded_rows
func.func @coded_rows(%x: tensor<?x7168xbf16>, %o: tensor<?x16x64xf16>, %w: tensor<1536x7168xbf16>, %g: tensor<1536xbf16>) {
  // CHECK: mla.coded_rows %{{.*}} group 128 : tensor<?x7168xbf16>
  %0 = mla.coded_rows %x group 128 : tensor<?x7168xbf16>
  // CHECK: mla.coded_rows %{{.*}} group 128 : tensor<?x16x64xf16>
  %1 = mla.coded_rows %o group 128 : tensor<?x16x64xf16>
  // CHECK: mla.latent_project %{{.*}} eps {{.*}} {codes_group = 128 : i64}
  %2 = mla.latent_project %0, %w, %g eps 1.0e-6 {codes_group = 128 : i64}
      : tensor<?x7168xbf16>, tensor<1536x7168xbf16>, tensor<1536xbf16> -> tensor<?x1536xbf16>
  return
}

// CHECK-LABEL: func @fold
func.func @fold(%w_uq: tensor<16x128x1536xbf16>, %w_uk: tensor<16x128x512xbf16>,
                %w_uv: tensor<16x96x512xbf16>, %w_o: tensor<7168x1536xbf16>) {
  // CHECK: mla.fold_query {{.*}} -> tensor<16x512x1536xbf16>
  %0 = mla.fold_query %w_uq, %w_uk : tensor<16x128x1536xbf16>, tensor<16x128x512xbf16> -> tensor<16x512x1536xbf16>
  // CHECK: mla.fold_output {{.*}} -> tensor<7168x8192xbf16>
  %1 = mla.fold_output %w_uv, %w_o : tensor<16x96x512xbf16>, tensor<7168x1536xbf16> -> tensor<7168x8192xbf16>
  return
}

// CHECK-LABEL: func @rope
func.func @rope(%k: tensor<?x64xbf16>, %q: tensor<?x16x64xbf16>, %pairs: tensor<4096x32x2xf16>, %batch: !mla.batch) {
  // CHECK: mla.rope_table <order = interleaved, dim = 64, theta = 1.000000e+04, length = 4096> : tensor<?x64xf32>
  %table = mla.rope_table #rope : tensor<?x64xf32>
  // CHECK: mla.rope_table <order = half, dim = 64, theta = 1.000000e+04, length = 163840, multiplier = 5.000000e-01, scaling = yarn, factor = 4.000000e+01, beta_fast = 1.600000e+01, beta_slow = 2.000000e+00, original_max_position = 4096> : tensor<163840x64xf32>
  %yarn = mla.rope_table #yarn : tensor<163840x64xf32>
  // CHECK: mla.rope_table {{.*}} scaling = longrope, original_max_position = 32, short_factors = [1.000000e+00, 1.500000e+00], long_factors = [2.000000e+00, 4.000000e+00]>
  %long = mla.rope_table #longrope : tensor<?x4xf32>
  // CHECK: mla.rope {{.*}} with <order = interleaved, dim = 64, theta = 1.000000e+04, length = 4096> : tensor<?x64xbf16>, tensor<?x64xf32>, <query_len = ?>
  %0 = mla.rope %k, %table, %batch with #rope : tensor<?x64xbf16>, tensor<?x64xf32>, !mla.batch
  // CHECK: mla.rope {{.*}} inverse {codes_group = 64 : i64} : tensor<?x16x64xbf16>
  %coded = mla.rope %q, %table, %batch with #rope inverse {codes_group = 64 : i64} : tensor<?x16x64xbf16>, tensor<?x64xf32>, !mla.batch
  // CHECK: mla.rope {{.*}} inverse : tensor<?x16x64xbf16>
  %1 = mla.rope %q, %table, %batch with #rope inverse : tensor<?x16x64xbf16>, tensor<?x64xf32>, !mla.batch
  // CHECK: mla.rope {{.*}} : tensor<?x64xbf16>, tensor<4096x32x2xf16>, <query_len = ?>
  %2 = mla.rope %k, %pairs, %batch with #rope : tensor<?x64xbf16>, tensor<4096x32x2xf16>, !mla.batch
  return
}

// CHECK-LABEL: func @append
func.func @append(%c: tensor<?x512xbf16>, %k_pe: tensor<?x64xbf16>, %cache: !cache, %batch: !mla.batch,
                  %c32: tensor<?x32xf32>, %flat: !flat_cache) -> (!cache, !flat_cache) {
  // CHECK: mla.append %{{.*}}, %{{.*}} into %{{.*}}, %{{.*}} : tensor<?x512xbf16>, tensor<?x64xbf16> into
  %0 = mla.append %c, %k_pe into %cache, %batch : tensor<?x512xbf16>, tensor<?x64xbf16> into !cache, !mla.batch
  // CHECK: mla.append %{{.*}} into %{{.*}}, %{{.*}} : tensor<?x32xf32> into
  %1 = mla.append %c32 into %flat, %batch : tensor<?x32xf32> into !flat_cache, !mla.batch
  return %0, %1 : !cache, !flat_cache
}

// CHECK-LABEL: func @gather
func.func @gather(%cache: !cache, %flat: !flat_cache, %batch: !mla.batch, %i: index) {
  // CHECK: mla.gather {{.*}} -> tensor<?x32xf32>
  %0 = mla.gather %flat, %batch chunk %i : !flat_cache, !mla.batch -> tensor<?x32xf32>
  // CHECK: mla.gather {{.*}} -> tensor<?x512xbf16>, tensor<?x64xbf16>
  %1, %2 = mla.gather %cache, %batch chunk %i : !cache, !mla.batch -> tensor<?x512xbf16>, tensor<?x64xbf16>
  return
}

// CHECK-LABEL: func @keys_and_values
func.func @keys_and_values(%k: tensor<?x8x128xbf16>, %v: tensor<?x512xbf16>, %batch: !mla.batch, %i: index,
    %cache: !mla.cache<page_size = 16, fields = [key: 8x128, value: 8x64], element = bf16, format = "kv_nhd">) {
  // CHECK: mla.append %{{.*}}, %{{.*}} into %{{.*}} : tensor<?x8x128xbf16>, tensor<?x512xbf16> into <page_size = 16, fields = [key: 8x128, value: 8x64], element = bf16, format = "kv_nhd">
  %0 = mla.append %k, %v into %cache, %batch : tensor<?x8x128xbf16>, tensor<?x512xbf16> into !mla.cache<page_size = 16, fields = [key: 8x128, value: 8x64], element = bf16, format = "kv_nhd">, !mla.batch
  // CHECK: mla.gather {{.*}} -> tensor<?x8x128xbf16>, tensor<?x8x64xbf16>
  %1, %2 = mla.gather %cache, %batch chunk %i : !mla.cache<page_size = 16, fields = [key: 8x128, value: 8x64], element = bf16, format = "kv_nhd">, !mla.batch -> tensor<?x8x128xbf16>, tensor<?x8x64xbf16>
  return
}

!key_pool = !mla.cache<page_size = 16, fields = [key: 8x128], element = bf16, format = "k_nhd">
!value_pool = !mla.cache<page_size = 32, fields = [value: 8x64], element = bf16, format = "v_nhd">
// CHECK-LABEL: func @grouped_attention
func.func @grouped_attention(%q: tensor<?x16x128xbf16>, %k: !key_pool, %v: !value_pool, %batch: !mla.batch,
    %splits: index, %sink: tensor<16xf32>) -> tensor<?x16x64xbf16> {
  // CHECK: mla.grouped_attention query(%{{.*}} : tensor<?x16x128xbf16>) keys(%{{.*}} : <page_size = 16, fields = [key: 8x128], element = bf16, format = "k_nhd">) values(%{{.*}} : <page_size = 32, fields = [value: 8x64], element = bf16, format = "v_nhd">) over %{{.*}} : <query_len = ?> window 128 scale {{.*}} -> tensor<?x16x64xbf16>
  %o = mla.grouped_attention query(%q : tensor<?x16x128xbf16>) keys(%k : !key_pool) values(%v : !value_pool)
      over %batch : !mla.batch window 128 scale 0.088 -> tensor<?x16x64xbf16>
  // CHECK: mla.grouped_attention {{.*}} splits %{{.*}} scale {{.*}} -> tensor<?x?x16x64xf32>, tensor<?x?x16xf32, #mla.lse
  %p, %l = mla.grouped_attention query(%q : tensor<?x16x128xbf16>) keys(%k : !key_pool) values(%v : !value_pool)
      over %batch : !mla.batch splits %splits scale 0.088 -> tensor<?x?x16x64xf32>, !lse_splits
  // CHECK: mla.grouped_attention {{.*}} over %{{.*}} : <query_len = ?> sink(%{{.*}} : tensor<16xf32>) splits %{{.*}} window 128 softcap 5.000000e+01 scale {{.*}} -> tensor<?x?x16x64xf32>, tensor<?x?x16xf32, #mla.lse
  %s, %t = mla.grouped_attention query(%q : tensor<?x16x128xbf16>) keys(%k : !key_pool) values(%v : !value_pool)
      over %batch : !mla.batch sink(%sink : tensor<16xf32>) splits %splits window 128 softcap 50.0 scale 0.088
      -> tensor<?x?x16x64xf32>, !lse_splits
  return %o : tensor<?x16x64xbf16>
}

!rows656 = !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved, format = "fp8_ds_mla">
// CHECK-LABEL: func @sparse_attention
func.func @sparse_attention(%q: tensor<?x16x512xbf16>, %q_pe: tensor<?x16x64xbf16>, %rows: tensor<?x2048xi32>,
    %len: tensor<?xi32>, %sink: tensor<16xf32>, %cache: !rows656, %batch: !mla.batch, %c: tensor<?x512xbf16>,
    %k_pe: tensor<?x64xbf16>, %flat: tensor<?x1x32xf32>, %keys: tensor<40x32xf32>, %one: tensor<?x1xi32>, %splits: index) {
  // CHECK: mla.sparse_attention query(%{{.*}} : tensor<?x1x32xf32>) rows(%{{.*}} : tensor<?x1xi32>)
  // CHECK-SAME: keys(%{{.*}} : tensor<40x32xf32>) scale 5.000000e-01 -> tensor<?x1x32xf32>{{$}}
  %0 = mla.sparse_attention query(%flat : tensor<?x1x32xf32>) rows(%one : tensor<?x1xi32>)
      keys(%keys : tensor<40x32xf32>) scale 0.5 -> tensor<?x1x32xf32>
  // CHECK: mla.sparse_attention query(%{{.*}}, %{{.*}} : tensor<?x16x512xbf16>, tensor<?x16x64xbf16>)
  // CHECK-SAME: rows(%{{.*}} : tensor<?x2048xi32>) lengths(%{{.*}} : tensor<?xi32>) sink(%{{.*}} : tensor<16xf32>)
  // CHECK-SAME: over %{{.*}}, %{{.*}} : !mla.cache<{{.*}} format = "fp8_ds_mla">, !mla.batch<query_len = ?> scale
  // CHECK-SAME: -> tensor<?x16x512xf32> lse tensor<?x16xf32, #mla.lse<{{.*}}>> max_logits tensor<?x16xf32>
  %1, %lse, %max = mla.sparse_attention query(%q, %q_pe : tensor<?x16x512xbf16>, tensor<?x16x64xbf16>)
      rows(%rows : tensor<?x2048xi32>) lengths(%len : tensor<?xi32>) sink(%sink : tensor<16xf32>)
      over %cache, %batch : !rows656, !mla.batch scale 0.1352
      -> tensor<?x16x512xf32> lse !lse max_logits tensor<?x16xf32>
  // CHECK: mla.sparse_attention {{.*}} keys(%{{.*}}, %{{.*}} : tensor<?x512xbf16>, tensor<?x64xbf16>) scale {{.*}} max_logits
  %2, %max2 = mla.sparse_attention query(%q, %q_pe : tensor<?x16x512xbf16>, tensor<?x16x64xbf16>)
      rows(%rows : tensor<?x2048xi32>) keys(%c, %k_pe : tensor<?x512xbf16>, tensor<?x64xbf16>) scale 0.1352
      -> tensor<?x16x512xbf16> max_logits tensor<?x16xf32>
  // CHECK: mla.gather %{{.*}}, %{{.*}} whole chunk %{{.*}} : {{.*}} -> tensor<?x512xbf16>, tensor<?x64xbf16>
  %chunk:2 = mla.gather %cache, %batch whole chunk %splits : !rows656, !mla.batch -> tensor<?x512xbf16>, tensor<?x64xbf16>
  // CHECK: mla.sparse_attention {{.*}} keys({{.*}}) of %{{.*}} chunk %{{.*}} onto %{{.*}} : !mla.batch<query_len = ?>, tensor<?x16x512xbf16> scale
  %onto = mla.sparse_attention query(%q, %q_pe : tensor<?x16x512xbf16>, tensor<?x16x64xbf16>)
      rows(%rows : tensor<?x2048xi32>) keys(%chunk#0, %chunk#1 : tensor<?x512xbf16>, tensor<?x64xbf16>)
      of %batch chunk %splits onto %2 : !mla.batch, tensor<?x16x512xbf16> scale 0.1352 -> tensor<?x16x512xbf16>
  // CHECK: mla.sparse_attention {{.*}} splits %{{.*}} scale
  %3, %lse3, %max3 = mla.sparse_attention query(%q, %q_pe : tensor<?x16x512xbf16>, tensor<?x16x64xbf16>)
      rows(%rows : tensor<?x2048xi32>) over %cache, %batch : !rows656, !mla.batch splits %splits scale 0.1352
      -> tensor<?x?x16x512xf32> lse !lse_splits max_logits tensor<?x?x16xf32>
  // CHECK: mla.merge_splits %{{.*}}, %{{.*}} max(%{{.*}} : tensor<?x?x16xf32>) sink(%{{.*}} : tensor<16xf32>)
  // CHECK-SAME: -> tensor<?x16x512xbf16>, tensor<?x16xf32, #mla.lse<{{.*}}>> max_logits tensor<?x16xf32>
  %4, %lse4, %max4 = mla.merge_splits %3, %lse3 max(%max3 : tensor<?x?x16xf32>) sink(%sink : tensor<16xf32>)
      : tensor<?x?x16x512xf32>, !lse_splits -> tensor<?x16x512xbf16>, !lse max_logits tensor<?x16xf32>
  return
}

// CHECK-LABEL: func private @compressed
// CHECK-SAME: !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved, tokens_per_row = 4, window = 128>
func.func private @compressed(!mla.cache<page_size = 64, fields = [latent: 512], element = bf16, tokens_per_row = 4, window = 128>)

// CHECK-LABEL: func @attention
func.func @attention(%q: tensor<?x16x128xbf16>, %q_pe: tensor<?x16x64xbf16>, %c: tensor<?x512xbf16>,
                     %k_pe: tensor<?x64xbf16>, %w: tensor<16x128x512xbf16>, %cache: !cache, %batch: !mla.batch,
                     %q32: tensor<?x3x8xf32>, %c32: tensor<?x32xf32>, %w_uk: tensor<3x8x32xf32>,
                     %w_uv: tensor<3x16x32xf32>, %flat: !flat_cache, %selected: tensor<?x24xi32>) {
  // CHECK: mla.attention {{.*}} selected(%{{.*}} : tensor<?x24xi32>) scale 5.000000e-01 -> tensor<?x3x16xf32>
  %2 = mla.attention query(%q32 : tensor<?x3x8xf32>) latent(%c32 : tensor<?x32xf32>)
      weights(%w_uk, %w_uv : tensor<3x8x32xf32>, tensor<3x16x32xf32>)
      over %flat, %batch : !flat_cache, !mla.batch selected(%selected : tensor<?x24xi32>) scale 0.5 -> tensor<?x3x16xf32>
  // CHECK: mla.attention query(%{{.*}} : tensor<?x3x8xf32>) latent(%{{.*}} : tensor<?x32xf32>)
  // CHECK-SAME: scale 5.000000e-01 -> tensor<?x3x16xf32>
  %0 = mla.attention query(%q32 : tensor<?x3x8xf32>) latent(%c32 : tensor<?x32xf32>)
      weights(%w_uk, %w_uv : tensor<3x8x32xf32>, tensor<3x16x32xf32>)
      over %flat, %batch : !flat_cache, !mla.batch scale 0.5 -> tensor<?x3x16xf32>
  // CHECK: mla.attention query(%{{.*}}, %{{.*}} : tensor<?x16x128xbf16>, tensor<?x16x64xbf16>)
  // CHECK-SAME: {form = #mla.form<absorbed>} -> tensor<?x16x128xbf16>, tensor<16x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>>
  %1, %lse = mla.attention query(%q, %q_pe : tensor<?x16x128xbf16>, tensor<?x16x64xbf16>)
      latent(%c, %k_pe : tensor<?x512xbf16>, tensor<?x64xbf16>)
      weights(%w, %w : tensor<16x128x512xbf16>, tensor<16x128x512xbf16>)
      over %cache, %batch : !cache, !mla.batch scale 0.1352 {form = #mla.form<absorbed>}
      -> tensor<?x16x128xbf16>, !lse_by_head
  return
}

// CHECK-LABEL: func @expanded_attention
func.func @expanded_attention(%q: tensor<?x16x128xbf16>, %q_pe: tensor<?x16x64xbf16>, %k: tensor<?x16x128xbf16>,
                              %k_pe: tensor<?x64xbf16>, %v: tensor<?x16x96xbf16>, %batch: !mla.batch, %i: index) {
  // CHECK: mla.expanded_attention query(%{{.*}} : tensor<?x16x128xbf16>) keys(%{{.*}} : tensor<?x16x128xbf16>)
  // CHECK-NOT: chunk
  // CHECK-SAME: -> tensor<?x16x96xbf16>
  %0 = mla.expanded_attention query(%q : tensor<?x16x128xbf16>) keys(%k : tensor<?x16x128xbf16>)
      values(%v : tensor<?x16x96xbf16>) over %batch : !mla.batch scale 0.5 -> tensor<?x16x96xbf16>
  // CHECK: mla.expanded_attention {{.*}} chunk %{{.*}} scale 5.000000e-01 -> tensor<?x16x96xf32>, tensor<?x16xf32, #mla.lse
  %1, %lse = mla.expanded_attention query(%q, %q_pe : tensor<?x16x128xbf16>, tensor<?x16x64xbf16>)
      keys(%k, %k_pe : tensor<?x16x128xbf16>, tensor<?x64xbf16>)
      values(%v : tensor<?x16x96xbf16>) over %batch : !mla.batch chunk %i scale 0.5 -> tensor<?x16x96xf32>, !lse
  // CHECK: mla.expanded_attention {{.*}} over %{{.*}} : <query_len = ?> onto(%[[P:.*]], %[[L:.*]] : tensor<?x16x96xf32>, tensor<?x16xf32, #mla.lse
  // CHECK-SAME: scale 5.000000e-01 -> tensor<?x16x96xbf16>
  %2 = mla.expanded_attention query(%q : tensor<?x16x128xbf16>) keys(%k : tensor<?x16x128xbf16>)
      values(%v : tensor<?x16x96xbf16>) over %batch : !mla.batch onto(%1, %lse : tensor<?x16x96xf32>, !lse)
      scale 0.5 -> tensor<?x16x96xbf16>
  // CHECK: mla.expanded_attention {{.*}} chunk %[[I:.*]] onto({{.*}}) splits %[[I]] scale 5.000000e-01 -> tensor<?x16x96xf32>, tensor<?x16xf32, #mla.lse
  %3, %lse3 = mla.expanded_attention query(%q : tensor<?x16x128xbf16>) keys(%k : tensor<?x16x128xbf16>)
      values(%v : tensor<?x16x96xbf16>) over %batch : !mla.batch chunk %i onto(%1, %lse : tensor<?x16x96xf32>, !lse)
      splits %i scale 0.5 -> tensor<?x16x96xf32>, !lse
  return
}

// CHECK-LABEL: func @absorbed_attention
func.func @absorbed_attention(%q: tensor<?x16x512xbf16>, %q_pe: tensor<?x16x64xbf16>, %cache: !cache,
                              %q32: tensor<?x3x32xf32>, %flat: !flat_cache, %batch: !mla.batch, %splits: index) {
  // CHECK: mla.absorbed_attention query(%{{.*}} : tensor<?x3x32xf32>) over {{.*}} scale 5.000000e-01 -> tensor<?x3x32xf32>
  %0 = mla.absorbed_attention query(%q32 : tensor<?x3x32xf32>) over %flat, %batch : !flat_cache, !mla.batch
      scale 0.5 -> tensor<?x3x32xf32>
  // CHECK: mla.absorbed_attention {{.*}} splits %{{.*}} scale {{.*}} -> tensor<?x?x16x512xf32>, tensor<?x?x16xf32, #mla.lse
  %1, %lse = mla.absorbed_attention query(%q, %q_pe : tensor<?x16x512xbf16>, tensor<?x16x64xbf16>)
      over %cache, %batch : !cache, !mla.batch splits %splits scale 0.5 -> tensor<?x?x16x512xf32>, !lse_splits
  return
}

// CHECK-LABEL: func @merge
func.func @merge(%batch: !mla.batch, %p: tensor<?x?x16x512xf32>, %p_lse: !lse_splits, %b: tensor<?x16x128xbf16>,
                 %b_lse: !lse) {
  // CHECK: mla.empty_partial %{{.*}} : <query_len = ?> -> tensor<?x16x128xf32>, tensor<?x16xf32, #mla.lse
  %e, %e_lse = mla.empty_partial %batch : !mla.batch -> tensor<?x16x128xf32>, !lse
  // CHECK: %{{.*}}, %{{.*}} = mla.merge %{{.*}}, %{{.*}} with %{{.*}}, %{{.*}} : tensor<?x16x128xf32>, {{.*}} with tensor<?x16x128xbf16>
  %0, %m_lse = mla.merge %e, %e_lse with %b, %b_lse : tensor<?x16x128xf32>, !lse with tensor<?x16x128xbf16>, !lse
      -> tensor<?x16x128xf32>, !lse
  // CHECK: mla.merge {{.*}} -> tensor<?x16x128xbf16>{{$}}
  %1 = mla.merge %e, %e_lse with %b, %b_lse : tensor<?x16x128xf32>, !lse with tensor<?x16x128xbf16>, !lse
      -> tensor<?x16x128xbf16>
  // CHECK: mla.merge_splits {{.*}} -> tensor<?x16x512xbf16>{{$}}
  %2 = mla.merge_splits %p, %p_lse : tensor<?x?x16x512xf32>, !lse_splits -> tensor<?x16x512xbf16>
  // CHECK: mla.merge_splits {{.*}} -> tensor<?x16x512xf32>, tensor<?x16xf32, #mla.lse
  %3, %s_lse = mla.merge_splits %p, %p_lse : tensor<?x?x16x512xf32>, !lse_splits -> tensor<?x16x512xf32>, !lse
  return
}

// CHECK-LABEL: func @convert_lse
func.func @convert_lse(%lse: !lse) {
  // CHECK: mla.convert_lse {{.*}} -> tensor<16x?xf32, #mla.lse<base = two, layout = head_major, empty = pos_inf>>
  %0 = mla.convert_lse %lse : !lse -> tensor<16x?xf32, #mla.lse<base = two, layout = head_major, empty = pos_inf>>
  return
}

// CHECK-LABEL: func @quantize
func.func @quantize(%c: tensor<?x512xbf16>) {
  // CHECK: mla.quantize %{{.*}} group 128 rule <power_of_two> floor 1.000000e-04
  %q, %s = mla.quantize %c group 128 rule <power_of_two> floor 1.0e-4 : tensor<?x512xbf16> -> tensor<?x512xf8E4M3FN>, tensor<?x4xf32>
  // CHECK: mla.dequantize %{{.*}}, %{{.*}} group 128 : tensor<?x512xf8E4M3FN>, tensor<?x4xf32> -> tensor<?x512xbf16>
  %0 = mla.dequantize %q, %s group 128 : tensor<?x512xf8E4M3FN>, tensor<?x4xf32> -> tensor<?x512xbf16>
  return
}

// CHECK-LABEL: func @batch_dim
func.func @batch_dim(%batch: !mla.batch) -> index {
  // CHECK: mla.batch_dim %{{.*}} "num_chunks" : <query_len = ?>
  %0 = mla.batch_dim %batch "num_chunks" : !mla.batch
  return %0 : index
}

// CHECK-LABEL: func @share_prefix
func.func @share_prefix(%n: index, %batch: !mla.batch<query_len = 1>) -> index {
  // CHECK: %[[S:.*]], %{{.*}} = mla.share_prefix %{{.*}} of %{{.*}} : <query_len = 1> -> <query_len = ?>, <query_len = 1>
  %shared, %own = mla.share_prefix %n of %batch : !mla.batch<query_len = 1> -> !mla.batch, !mla.batch<query_len = 1>
  // CHECK: mla.batch_dim %[[S]] "num_chunks"
  %0 = mla.batch_dim %shared "num_chunks" : !mla.batch
  return %0 : index
}

// CHECK-LABEL: func @batch_parts
func.func @batch_parts(%q: tensor<?x4x16xbf16>, %batch: !mla.batch) -> tensor<?x4x16xbf16>
    attributes {mla.decode_threshold = 1 : i64} {
  // CHECK: %[[P:.*]] = mla.batch_part %{{.*}} prefills : <query_len = ?> -> <query_len = ?>
  %p = mla.batch_part %batch prefills : !mla.batch -> !mla.batch
  // CHECK: %[[D:.*]] = mla.batch_part %{{.*}} decodes : <query_len = ?> -> <query_len = 1>
  %d = mla.batch_part %batch decodes : !mla.batch -> !mla.batch<query_len = 1>
  %w = arith.constant dense<0.0> : tensor<4x16x16xbf16>
  %prefilled = mla.head_project %q, %w : tensor<?x4x16xbf16>, tensor<4x16x16xbf16> -> tensor<?x4x16xbf16>
  // CHECK: mla.part_rows %{{.*}} of %[[D]] : tensor<?x4x16xbf16>, <query_len = 1>
  %rows = mla.part_rows %q of %d : tensor<?x4x16xbf16>, !mla.batch<query_len = 1>
  %decoded = mla.head_project %rows, %w : tensor<?x4x16xbf16>, tensor<4x16x16xbf16> -> tensor<?x4x16xbf16>
  // CHECK: mla.join_parts %{{.*}}, %{{.*}} : tensor<?x4x16xbf16>
  %o = mla.join_parts %decoded, %prefilled : tensor<?x4x16xbf16>
  return %o : tensor<?x4x16xbf16>
}

// CHECK-LABEL: func @copy_pages
func.func @copy_pages(%cache: !cache, %host: !cache, %batch: !mla.batch) -> !cache {
  // CHECK: %[[MOVED:.*]] = mla.copy_pages %[[CACHE:.*]] to %[[CACHE]], %{{.*}} : <page_size = 64, {{.*}}>, <query_len = ?>
  %moved = mla.copy_pages %cache to %cache, %batch : !cache, !mla.batch
  // CHECK: mla.copy_pages %{{.*}} to %[[MOVED]]
  %0 = mla.copy_pages %host to %moved, %batch : !cache, !mla.batch
  return %0 : !cache
}

// CHECK-LABEL: func @convert_indices
func.func @convert_indices(%p: tensor<?x100xi32>, %r: tensor<?xi32>, %s: tensor<?xi32>, %cache: !cache,
                           %batch: !mla.batch) -> (tensor<?x100xi32>, tensor<?x100xi32>) {
  // CHECK: mla.convert_indices %{{.*}} in %{{.*}}, %{{.*}} : tensor<?x100xi32> in <page_size = 64, {{.*}}>, <query_len = ?>
  %0 = mla.convert_indices %p in %cache, %batch : tensor<?x100xi32> in !cache, !mla.batch
  // CHECK: mla.convert_indices %{{.*}} in %{{.*}}, %{{.*}} prefill %{{.*}}, %{{.*}} : {{.*}} prefill tensor<?xi32>, tensor<?xi32>
  %1 = mla.convert_indices %p in %cache, %batch prefill %r, %s
      : tensor<?x100xi32> in !cache, !mla.batch prefill tensor<?xi32>, tensor<?xi32>
  // CHECK: mla.convert_indices %{{.*}} in %{{.*}}, %{{.*}} workspace : tensor<?x100xi32> in
  %2 = mla.convert_indices %p in %cache, %batch workspace : tensor<?x100xi32> in !cache, !mla.batch
  return %0, %1 : tensor<?x100xi32>, tensor<?x100xi32>
}

// CHECK-LABEL: func @keep_rows
func.func @keep_rows(%y: tensor<?x64xf32>, %batch: !mla.batch) -> tensor<?x64xf32> {
  // CHECK: mla.keep_rows %{{.*}}, %{{.*}} : tensor<?x64xf32>, <query_len = ?>
  %0 = mla.keep_rows %y, %batch : tensor<?x64xf32>, !mla.batch
  return %0 : tensor<?x64xf32>
}

// B41: part 1, top-k.
// CHECK-LABEL: func @top_k_B41
func.func @top_k_B41(%s: tensor<?x?xf32>, %f: tensor<?x4096xf32>, %len: tensor<?xi32>, %batch: !mla.batch)
    -> (tensor<?x2048xi32>, tensor<?x7xi32>) {
  // CHECK: mla.top_k %{{.*}} over %{{.*}} k 2048 : tensor<?x?xf32>, <query_len = ?> -> tensor<?x2048xi32>
  %0 = mla.top_k %s over %batch k 2048 : tensor<?x?xf32>, !mla.batch -> tensor<?x2048xi32>
  // CHECK: mla.top_k %{{.*}} lengths(%{{.*}} : tensor<?xi32>) over %{{.*}} k 7 : tensor<?x4096xf32>, <query_len = ?> -> tensor<?x7xi32>
  %1 = mla.top_k %f lengths(%len : tensor<?xi32>) over %batch k 7
      : tensor<?x4096xf32>, !mla.batch -> tensor<?x7xi32>
  return %0, %1 : tensor<?x2048xi32>, tensor<?x7xi32>
}

// B06: selected positions as bits, and attention to the keys whose bits are set.
// CHECK-LABEL: func @marks_B06
func.func @marks_B06(%s: tensor<?x2048xi32>, %q: tensor<?x16x128xbf16>, %batch: !mla.batch, %i: index)
    -> (tensor<?x16x128xbf16>, tensor<?x16x128xbf16>) {
  // CHECK: %[[M:.*]] = mla.mark_selected %{{.*}} over %{{.*}} : tensor<?x2048xi32>, <query_len = ?> -> tensor<?x?xi32>
  %marks = mla.mark_selected %s over %batch : tensor<?x2048xi32>, !mla.batch -> tensor<?x?xi32>
  // CHECK: mla.expanded_attention {{.*}} over %{{.*}} : <query_len = ?> marks(%[[M]] : tensor<?x?xi32>) scale 5.000000e-01 -> tensor<?x16x128xbf16>
  %o = mla.expanded_attention query(%q : tensor<?x16x128xbf16>) keys(%q : tensor<?x16x128xbf16>)
      values(%q : tensor<?x16x128xbf16>) over %batch : !mla.batch marks(%marks : tensor<?x?xi32>) scale 0.5
      -> tensor<?x16x128xbf16>
  // CHECK: %[[C:.*]] = mla.mark_selected %{{.*}} over %{{.*}} chunk %[[I:.*]] : tensor<?x2048xi32>, <query_len = ?> -> tensor<?x?xi32>
  %cached = mla.mark_selected %s over %batch chunk %i : tensor<?x2048xi32>, !mla.batch -> tensor<?x?xi32>
  // CHECK: mla.expanded_attention {{.*}} over %{{.*}} : <query_len = ?> chunk %[[I]] marks(%[[C]] : tensor<?x?xi32>) scale 5.000000e-01 -> tensor<?x16x128xbf16>
  %p = mla.expanded_attention query(%q : tensor<?x16x128xbf16>) keys(%q : tensor<?x16x128xbf16>)
      values(%q : tensor<?x16x128xbf16>) over %batch : !mla.batch chunk %i marks(%cached : tensor<?x?xi32>) scale 0.5
      -> tensor<?x16x128xbf16>
  return %o, %p : tensor<?x16x128xbf16>, tensor<?x16x128xbf16>
}
