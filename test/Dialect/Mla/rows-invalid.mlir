// RUN: mla-opt %s -split-input-file -verify-diagnostics

// The operations that mla-fuse-rows makes, a case per constraint.

func.func @norm_rope_c1(%x: tensor<?x4x512xbf16>, %g: tensor<64xf32>, %t: tensor<?x64xf32>, %b: !mla.batch) {
  // expected-error @+1 {{expected gamma to be [D] with D = 512 (from input), got 'tensor<64xf32>'}}
  %0 = mla.norm_rope %x gamma(%g : tensor<64xf32>) eps 1.0 rope %t, %b with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> offset 448 : tensor<?x4x512xbf16> rope tensor<?x64xf32>, !mla.batch -> tensor<?x4x512xbf16>
  return
}

// -----

func.func @norm_rope_c2(%x: tensor<?x4x512xbf16>, %g: tensor<512xf32>, %t: tensor<?x64xf32>, %b: !mla.batch) {
  // expected-error @+1 {{expected eps}}
  %0 = mla.norm_rope %x gamma(%g : tensor<512xf32>) eps 0.0 rope %t, %b with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> offset 448 : tensor<?x4x512xbf16> rope tensor<?x64xf32>, !mla.batch -> tensor<?x4x512xbf16>
  return
}

// -----

func.func @norm_rope_c3(%x: tensor<?x4x512xbf16>, %g: tensor<512xf32>, %t: tensor<?x64xf32>, %b: !mla.batch) {
  // expected-error @+1 {{expected an offset of at least 0 with 64 channels behind it, got 449 in 512}}
  %0 = mla.norm_rope %x gamma(%g : tensor<512xf32>) eps 1.0 rope %t, %b with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> offset 449 : tensor<?x4x512xbf16> rope tensor<?x64xf32>, !mla.batch -> tensor<?x4x512xbf16>
  return
}

// -----

func.func @norm_rope_c3_table(%x: tensor<?x4x512xbf16>, %g: tensor<512xf32>, %t: tensor<?x32xf32>, %b: !mla.batch) {
  // expected-error @+1 {{expected table to be [length, R] with R = 64 (from rope), got 'tensor<?x32xf32>'}}
  %0 = mla.norm_rope %x gamma(%g : tensor<512xf32>) eps 1.0 rope %t, %b with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> offset 448 : tensor<?x4x512xbf16> rope tensor<?x32xf32>, !mla.batch -> tensor<?x4x512xbf16>
  return
}

// -----

func.func @norm_rope_c4(%x: tensor<?x4x512xbf16>, %g: tensor<512xf32>, %t: tensor<?x64xf32>, %b: !mla.batch) {
  // expected-error @+1 {{expected a result of the input's shape, got 'tensor<?x4x256xbf16>' of 'tensor<?x4x512xbf16>'}}
  %0 = mla.norm_rope %x gamma(%g : tensor<512xf32>) eps 1.0 rope %t, %b with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> offset 448 : tensor<?x4x512xbf16> rope tensor<?x64xf32>, !mla.batch -> tensor<?x4x256xbf16>
  return
}

// -----

func.func @rope_append_c1(%x: tensor<?x512xbf16>, %g: tensor<64xf32>, %t: tensor<?x64xf32>, %b: !mla.batch, %c: !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved>) {
  // expected-error @+1 {{expected gamma to be [D] with D = 512 (from input), got 'tensor<64xf32>'}}
  %0 = mla.rope_append %x gamma(%g : tensor<64xf32>) eps 1.0 rope %t with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> offset 448 into %c, %b : tensor<?x512xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved>, !mla.batch
  return
}

// -----

func.func @rope_append_c2(%x: tensor<?x512xbf16>, %g: tensor<512xf32>, %t: tensor<?x64xf32>, %b: !mla.batch, %c: !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved>) {
  // expected-error @+1 {{expected gamma with eps alone}}
  %0 = mla.rope_append %x gamma(%g : tensor<512xf32>) rope %t with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> offset 448 into %c, %b : tensor<?x512xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved>, !mla.batch
  return
}

// -----

func.func @rope_append_c2_eps(%x: tensor<?x512xbf16>, %g: tensor<512xf32>, %t: tensor<?x64xf32>, %b: !mla.batch, %c: !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved>) {
  // expected-error @+1 {{expected eps}}
  %0 = mla.rope_append %x gamma(%g : tensor<512xf32>) eps -1.0 rope %t with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> offset 448 into %c, %b : tensor<?x512xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved>, !mla.batch
  return
}

// -----

func.func @rope_append_c3(%x: tensor<?x512xbf16>, %g: tensor<512xf32>, %t: tensor<?x64xf32>, %b: !mla.batch, %c: !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved>) {
  // expected-error @+1 {{expected an offset of at least 0 with 64 channels behind it, got -1 in 512}}
  %0 = mla.rope_append %x gamma(%g : tensor<512xf32>) eps 1.0 rope %t with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> offset -1 into %c, %b : tensor<?x512xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved>, !mla.batch
  return
}

// -----

func.func @rope_append_c4(%x: tensor<?x512xbf16>, %g: tensor<512xf32>, %t: tensor<?x64xf32>, %b: !mla.batch, %c: !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved>) {
  // expected-error @+1 {{expected every > 0, got 0}}
  %0 = mla.rope_append %x gamma(%g : tensor<512xf32>) eps 1.0 rope %t with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> offset 448 every 0 into %c, %b : tensor<?x512xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved>, !mla.batch
  return
}

// -----

func.func @rope_append_c5(%x: tensor<?x512xbf16>, %g: tensor<512xf32>, %t: tensor<?x64xf32>, %b: !mla.batch, %c: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>) {
  // expected-error @+1 {{expected a cache of one latent or index of 512 columns, as they are or with one scale a row, and without hadamard, got}}
  %0 = mla.rope_append %x gamma(%g : tensor<512xf32>) eps 1.0 rope %t with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> offset 448 into %c, %b : tensor<?x512xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, !mla.batch
  return
}

// -----

func.func @rope_append_c5_order(%x: tensor<?x512xbf16>, %g: tensor<512xf32>, %t: tensor<?x64xf32>, %b: !mla.batch, %c: !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved>) {
  // expected-error @+1 {{expected rows in the cache's rope order interleaved, got half}}
  %0 = mla.rope_append %x gamma(%g : tensor<512xf32>) eps 1.0 rope %t with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 448 into %c, %b : tensor<?x512xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved>, !mla.batch
  return
}

// -----

func.func @rope_append_c5_hadamard(%x: tensor<?x128xbf16>, %g: tensor<128xf32>, %t: tensor<?x64xf32>, %b: !mla.batch, %c: !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = interleaved, format = "index_k", hadamard = true>) {
  // expected-error @+1 {{expected a cache of one latent or index of 128 columns}}
  %0 = mla.rope_append %x gamma(%g : tensor<128xf32>) eps 1.0 rope %t with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> offset 0 into %c, %b : tensor<?x128xbf16> rope tensor<?x64xf32> into !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = interleaved, format = "index_k", hadamard = true>, !mla.batch
  return
}

// -----

func.func @bias_append_c1(%v: tensor<?x64xf32>, %g: tensor<?x32xf32>, %p: tensor<4x64xf32>, %b: !mla.batch, %c: !mla.cache<page_size = 4, fields = [key: 64, value: 64], element = f32, format = "kv_nhd">) {
  // expected-error @+1 {{expected gates to be [T, C] with C = 64 (from values), got 'tensor<?x32xf32>'}}
  %0 = mla.bias_append %v, %g bias %p into %c, %b : tensor<?x64xf32>, tensor<?x32xf32> bias tensor<4x64xf32> into !mla.cache<page_size = 4, fields = [key: 64, value: 64], element = f32, format = "kv_nhd">, !mla.batch
  return
}

// -----

func.func @bias_append_c1_bias(%v: tensor<?x64xf32>, %g: tensor<?x64xf32>, %p: tensor<?x64xf32>, %b: !mla.batch, %c: !mla.cache<page_size = 4, fields = [key: 64, value: 64], element = f32, format = "kv_nhd">) {
  // expected-error @+1 {{expected a bias of static sizes above 0, got 'tensor<?x64xf32>'}}
  %0 = mla.bias_append %v, %g bias %p into %c, %b : tensor<?x64xf32>, tensor<?x64xf32> bias tensor<?x64xf32> into !mla.cache<page_size = 4, fields = [key: 64, value: 64], element = f32, format = "kv_nhd">, !mla.batch
  return
}

// -----

func.func @bias_append_c2(%v: tensor<?x64xf32>, %g: tensor<?x64xf32>, %p: tensor<4x64xf32>, %b: !mla.batch, %c: !mla.cache<page_size = 4, fields = [key: 64, value: 64], element = bf16, format = "kv_nhd">) {
  // expected-error @+1 {{expected a cache of f32 with a key and a value of 64 columns, got}}
  %0 = mla.bias_append %v, %g bias %p into %c, %b : tensor<?x64xf32>, tensor<?x64xf32> bias tensor<4x64xf32> into !mla.cache<page_size = 4, fields = [key: 64, value: 64], element = bf16, format = "kv_nhd">, !mla.batch
  return
}
