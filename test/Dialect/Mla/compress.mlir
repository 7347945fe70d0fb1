// Rows of several tokens, and attention over two scopes. Covers V4-12 to V4-14, V4-24, V4-27.
//
// RUN: mla-opt %s | mla-opt --verify-roundtrip | FileCheck %s

!states = !mla.cache<page_size = 4, fields = [key: 1024, value: 1024], element = f32, format = "kv_nhd", window = 8>
!states128 = !mla.cache<page_size = 8, fields = [key: 512, value: 512], element = f32, format = "kv_nhd">
!window = !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved>
!entries = !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved, tokens_per_row = 4>

// CHECK-LABEL: func @rows
func.func @rows(%x: tensor<?x512xbf16>, %q: tensor<?x64x512xbf16>, %w: tensor<1024x512xbf16>,
                %bias: tensor<4x1024xf32>, %table: tensor<?x64xf32>, %s: !states, %s128: !states128,
                %b: !mla.batch) {
  // CHECK: mla.project {{.*}} -> tensor<?x1024xf32>
  %kv = mla.project %x, %w : tensor<?x512xbf16>, tensor<1024x512xbf16> -> tensor<?x1024xf32>
  // CHECK: mla.add_position_bias %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x1024xf32>, tensor<4x1024xf32>, <query_len = ?>
  %gate = mla.add_position_bias %kv, %bias, %b : tensor<?x1024xf32>, tensor<4x1024xf32>, !mla.batch
  %after = mla.append %kv, %gate into %s, %b : tensor<?x1024xf32>, tensor<?x1024xf32> into !states, !mla.batch
  // CHECK: mla.compress %{{.*}}, %{{.*}} every 4 overlap :
  %e = mla.compress %after, %b every 4 overlap : !states, !mla.batch -> tensor<?x512xf32>
  // CHECK: mla.compress %{{.*}}, %{{.*}} every 128 :
  %f = mla.compress %s128, %b every 128 : !states128, !mla.batch -> tensor<?x512xf32>
  // CHECK: mla.rope {{.*}} offset 448 every 4 : tensor<?x512xf32>, tensor<?x64xf32>, <query_len = ?> -> tensor<?x512xbf16>
  %r = mla.rope %e, %table, %b with <order = interleaved, dim = 64, theta = 1.6e5, length = 4096> offset 448 every 4
    : tensor<?x512xf32>, tensor<?x64xf32>, !mla.batch -> tensor<?x512xbf16>
  // CHECK: mla.rms_norm %{{.*}} eps {{.*}} : tensor<?x64x512xbf16> -> tensor<?x64x512xf32>
  %n = mla.rms_norm %q eps 1.0e-6 : tensor<?x64x512xbf16> -> tensor<?x64x512xf32>
  // CHECK: mla.rope {{.*}} offset 448 inverse : tensor<?x64x512xbf16>, tensor<?x64xf32>, <query_len = ?>{{$}}
  %i = mla.rope %q, %table, %b with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> offset 448 inverse
    : tensor<?x64x512xbf16>, tensor<?x64xf32>, !mla.batch
  return
}

// CHECK-LABEL: func @scopes
func.func @scopes(%q: tensor<?x64x512xbf16>, %far: tensor<?x512xi32>, %sink: tensor<64xf32>, %w: !window, %e: !entries,
                  %b: !mla.batch, %splits: index) {
  // CHECK: mla.seen_keys %{{.*}} window 128 : <query_len = ?> -> tensor<?xi32>, tensor<?x128xi32>
  %n, %near = mla.seen_keys %b window 128 : !mla.batch -> tensor<?xi32>, tensor<?x128xi32>
  // CHECK: mla.seen_keys %{{.*}} window 128 in %{{.*}} : <query_len = ?> in !mla.cache<{{.*}}> -> tensor<?xi32>, tensor<?x128xi32>
  %count, %rows = mla.seen_keys %b window 128 in %w : !mla.batch in !window -> tensor<?xi32>, tensor<?x128xi32>
  // CHECK: mla.seen_keys %{{.*}} every 4 : <query_len = ?> -> tensor<?xi32>{{$}}
  %m = mla.seen_keys %b every 4 : !mla.batch -> tensor<?xi32>
  // CHECK: mla.sparse_attention {{.*}} beside(%{{.*}}, %{{.*}}, %{{.*}} : tensor<?x512xi32>, tensor<?xi32>, !mla.cache<{{.*}} tokens_per_row = 4>) scale
  %o = mla.sparse_attention query(%q : tensor<?x64x512xbf16>) rows(%near : tensor<?x128xi32>)
    lengths(%n : tensor<?xi32>) sink(%sink : tensor<64xf32>) over %w, %b : !window, !mla.batch
    beside(%far, %m, %e : tensor<?x512xi32>, tensor<?xi32>, !entries) scale 0.0441 -> tensor<?x64x512xbf16>
  // CHECK: mla.sparse_attention {{.*}} beside({{.*}}) splits %{{.*}} scale
  %p, %lse = mla.sparse_attention query(%q : tensor<?x64x512xbf16>) rows(%near : tensor<?x128xi32>)
    over %w, %b : !window, !mla.batch
    beside(%far, %m, %e : tensor<?x512xi32>, tensor<?xi32>, !entries) splits %splits scale 0.0441
    -> tensor<?x?x64x512xf32> lse tensor<?x?x64xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
  return
}
