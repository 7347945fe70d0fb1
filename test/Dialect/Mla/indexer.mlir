// RUN: mla-opt %s --verify-roundtrip | FileCheck %s

// The operations of the lightning indexer and its pool.

!index_cache = !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k", scale_rule = power_of_two>

// CHECK-LABEL: func private @index_caches
// CHECK-SAME: <page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k", scale_rule = power_of_two>
// CHECK-SAME: rope_order = interleaved, format = "index_k", hadamard = true>
func.func private @index_caches(!index_cache, !mla.cache<page_size = 4, fields = [index: 256], element = f32, format = "index_k", hadamard = true>)

// CHECK-LABEL: func @indexer
func.func @indexer(%q: tensor<?x64x128xbf16>, %k: tensor<?x128xbf16>, %weight: tensor<128xf32>, %table: tensor<?x64xf32>,
                   %heads: tensor<?x64xbf16>, %cache: !index_cache, %batch: !mla.batch, %first: index) -> !index_cache {
  // CHECK: mla.layer_norm %{{.*}}, %{{.*}}, %{{.*}} epsilon 9.99{{.*}} : tensor<?x128xbf16>, tensor<128xf32>, tensor<128xf32> -> tensor<?x128xbf16>
  %n = mla.layer_norm %k, %weight, %weight epsilon 1.0e-6 : tensor<?x128xbf16>, tensor<128xf32>, tensor<128xf32> -> tensor<?x128xbf16>
  // CHECK: mla.rope {{.*}} length = 4096> offset 64 inverse :
  %r = mla.rope %q, %table, %batch with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 64 inverse
      : tensor<?x64x128xbf16>, tensor<?x64xf32>, !mla.batch
  // CHECK: mla.hadamard %{{.*}} : tensor<?x64x128xbf16>
  %h = mla.hadamard %q : tensor<?x64x128xbf16>
  // CHECK: mla.quantize %{{.*}} group 128 rule <power_of_two> floor {{.*}} amax_floor 1.000000e-04 : tensor<?x64x128xbf16> -> tensor<?x64x128xf8E4M3FN>, tensor<?x64x1xf32>
  %q8, %s = mla.quantize %r group 128 rule <power_of_two> floor 1.0e-38 amax_floor 1.0e-4
      : tensor<?x64x128xbf16> -> tensor<?x64x128xf8E4M3FN>, tensor<?x64x1xf32>
  // CHECK: mla.index_weights %{{.*}}, %{{.*}} factor 1.250000e-01 : tensor<?x64xbf16>, tensor<?x64x1xf32> -> tensor<?x64xf32>
  %w = mla.index_weights %heads, %s factor 0.125 : tensor<?x64xbf16>, tensor<?x64x1xf32> -> tensor<?x64xf32>
  // CHECK: mla.append %{{.*}} into %{{.*}}, %{{.*}} : tensor<?x128xbf16> into
  %after = mla.append %n into %cache, %batch : tensor<?x128xbf16> into !index_cache, !mla.batch
  // CHECK: mla.index_scores query(%{{.*}} : tensor<?x64x128xf8E4M3FN>) weights(%{{.*}} : tensor<?x64xf32>) over %{{.*}}, %{{.*}} : <page_size = 64
  // CHECK-SAME: -> tensor<?x?xf32>
  %all = mla.index_scores query(%q8 : tensor<?x64x128xf8E4M3FN>) weights(%w : tensor<?x64xf32>) over %after, %batch
      : !index_cache, !mla.batch -> tensor<?x?xf32>
  // CHECK: mla.index_scores {{.*}} from %{{.*}} : {{.*}} -> tensor<512x?xf32>
  %some = mla.index_scores query(%q8 : tensor<?x64x128xf8E4M3FN>) weights(%w : tensor<?x64xf32>) over %after, %batch from %first
      : !index_cache, !mla.batch -> tensor<512x?xf32>
  // CHECK: mla.index_scores {{.*}} from %{{.*}} rows %{{.*}} : {{.*}} -> tensor<?x?xf32>
  %others = mla.index_scores query(%q8 : tensor<?x64x128xf8E4M3FN>) weights(%w : tensor<?x64xf32>) over %after, %batch from %first rows %first
      : !index_cache, !mla.batch -> tensor<?x?xf32>
  return %after : !index_cache
}

!fours = !mla.cache<page_size = 64, fields = [index: 96], element = bf16, format = "index_k_mxfp4", scale_rule = power_of_two, tokens_per_row = 4>

// Queries with their scales in them, over keys in MXFP4.
// CHECK-LABEL: func @mxfp4
// CHECK-SAME: format = "index_k_mxfp4", scale_rule = power_of_two, tokens_per_row = 4>
func.func @mxfp4(%q: tensor<?x5x96xbf16>, %heads: tensor<?x5xbf16>, %cache: !fours, %batch: !mla.batch) -> tensor<?x?xf32> {
  // CHECK: mla.round_mxfp4 %{{.*}} : tensor<?x5x96xbf16>
  %r = mla.round_mxfp4 %q : tensor<?x5x96xbf16>
  // CHECK: mla.index_weights %{{[a-z0-9]+}} factor 1.250000e-01 : tensor<?x5xbf16> -> tensor<?x5xf32>
  %w = mla.index_weights %heads factor 0.125 : tensor<?x5xbf16> -> tensor<?x5xf32>
  // CHECK: mla.index_scores query(%{{.*}} : tensor<?x5x96xbf16>)
  %s = mla.index_scores query(%r : tensor<?x5x96xbf16>) weights(%w : tensor<?x5xf32>) over %cache, %batch
      : !fours, !mla.batch -> tensor<?x?xf32>
  return %s : tensor<?x?xf32>
}

// CHECK-LABEL: func @slice
func.func @slice(%s: tensor<64x?xf32>, %before: tensor<?x16xi32>, %len: tensor<?xi32>, %batch: !mla.batch, %first: index)
    -> (tensor<?x16xi32>, tensor<?x16xi32>) {
  // CHECK: mla.top_k %{{.*}} over %{{.*}} from %{{.*}} onto(%{{.*}} : tensor<?x16xi32>) k 16 : tensor<64x?xf32>, <query_len = ?> -> tensor<?x16xi32>
  %0 = mla.top_k %s over %batch from %first onto(%before : tensor<?x16xi32>) k 16 : tensor<64x?xf32>, !mla.batch -> tensor<?x16xi32>
  // CHECK: mla.top_k %{{.*}} lengths(%{{.*}} : tensor<?xi32>) over %{{.*}} from %{{.*}} onto(%{{.*}} : tensor<?x16xi32>) k 16
  %1 = mla.top_k %s lengths(%len : tensor<?xi32>) over %batch from %first onto(%before : tensor<?x16xi32>) k 16 : tensor<64x?xf32>, !mla.batch -> tensor<?x16xi32>
  return %0, %1 : tensor<?x16xi32>, tensor<?x16xi32>
}
