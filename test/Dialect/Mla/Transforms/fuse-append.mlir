// RUN: mla-opt %s --mla-fuse-append=target=sm90 | FileCheck %s
// RUN: mla-opt %s --mla-fuse-append=target=sm90 --mla-fuse-append=target=sm90 | FileCheck %s
// RUN: mla-opt %s --mla-fuse-append | FileCheck %s --check-prefix=CPU

// A CPU's programs hold no rows as tiles.
// CPU-NOT: mla.latent_append

!cache = !mla.cache<page_size = 16, fields = [latent: 64, rope: 32], element = bf16, rope_order = interleaved>
!fp8 = !mla.cache<page_size = 16, fields = [latent: 64, rope: 32], element = bf16, rope_order = interleaved, format = "mla_fp8_tensor">
!x = tensor<?x64xbf16>
!k = tensor<?x32xbf16>
!groups = !mla.cache<page_size = 16, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved, format = "fp8_ds_mla">
#rope = #mla.rope<order = interleaved, dim = 32, theta = 1.0e4, length = 64>
#wide = #mla.rope<order = interleaved, dim = 64, theta = 1.0e4, length = 64>

// The write moves to the projection, in front of what reads other values.
// CHECK-LABEL: func @fused
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<?x64xbf16>, %[[W:[a-z0-9]+]]: tensor<96x64xbf16>, %[[G:[a-z0-9]+]]: tensor<64xbf16>, %[[T:[a-z0-9]+]]: tensor<?x32xf32>, %[[B:[a-z0-9]+]]: !mla.batch<query_len = ?>, %[[C:[a-z0-9]+]]:
// CHECK-NEXT: %[[NEW:.*]] = mla.latent_append %[[X]], %[[W]], %[[G]] eps 1.0{{.*}} rope %[[T]] with <order = interleaved, dim = 32, {{.*}}> into %[[C]], %[[B]] {multiplier = 2.000000e+00 : f64}
// CHECK-NEXT: mla.rms_norm
// CHECK-NEXT: return %{{.*}}, %[[NEW]]
func.func @fused(%x: !x, %w: tensor<96x64xbf16>, %g: tensor<64xbf16>, %t: tensor<?x32xf32>, %b: !mla.batch,
                 %cache: !cache) -> (!x, !cache) {
  %c, %tail = mla.latent_project %x, %w, %g eps 1.0 {multiplier = 2.0 : f64} : !x, tensor<96x64xbf16>, tensor<64xbf16> -> !x, !k
  %y = mla.rms_norm %x, %g eps 1.0 : !x, tensor<64xbf16> -> !x
  %k = mla.rope %tail, %t, %b with #rope : !k, tensor<?x32xf32>, <query_len = ?>
  %new = mla.append %c, %k into %cache, %b : !x, !k into !cache, !mla.batch
  return %y, %new : !x, !cache
}

// A bias goes along.
// CHECK-LABEL: func @bias
// CHECK: mla.latent_append {{.*}} bias(%{{.*}} : tensor<96xbf16>) eps
func.func @bias(%x: !x, %w: tensor<96x64xbf16>, %g: tensor<64xbf16>, %u: tensor<96xbf16>, %t: tensor<?x32xf32>,
                %b: !mla.batch, %cache: !cache) -> !cache {
  %c, %tail = mla.latent_project %x, %w, %g bias(%u : tensor<96xbf16>) eps 1.0 : !x, tensor<96x64xbf16>, tensor<64xbf16> -> !x, !k
  %k = mla.rope %tail, %t, %b with #rope : !k, tensor<?x32xf32>, <query_len = ?>
  %new = mla.append %c, %k into %cache, %b : !x, !k into !cache, !mla.batch
  return %new : !cache
}

// A tail that nothing rotates is written as it is (Kimi Linear), and kept where something reads it.
// CHECK-LABEL: func @plain
// CHECK-NEXT: %[[FIRST:.*]] = mla.latent_append %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} eps 1.0{{.*}} into %{{.*}} :
// CHECK-NEXT: %[[LAST:.*]], %[[ROWS:.*]]:2 = mla.latent_append {{.*}} eps 2.0{{.*}} into %[[FIRST]], %{{.*}} kept
// CHECK-NEXT: return %[[ROWS]]#1, %[[LAST]]
func.func @plain(%x: !x, %w: tensor<96x64xbf16>, %g: tensor<64xbf16>, %b: !mla.batch, %cache: !cache) -> (!k, !cache) {
  %c, %tail = mla.latent_project %x, %w, %g eps 1.0 : !x, tensor<96x64xbf16>, tensor<64xbf16> -> !x, !k
  %new = mla.append %c, %tail into %cache, %b : !x, !k into !cache, !mla.batch
  %d, %rest = mla.latent_project %x, %w, %g eps 2.0 : !x, tensor<96x64xbf16>, tensor<64xbf16> -> !x, !k
  %last = mla.append %d, %rest into %new, %b : !x, !k into !cache, !mla.batch
  return %rest, %last : !k, !cache
}

// So is a latent without a tail.
// CHECK-LABEL: func @latent_alone
// CHECK-NEXT: %[[NEW:.*]], %[[ROWS:.*]] = mla.latent_append {{.*}} kept : tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64xbf16> into
// CHECK-NEXT: return %[[ROWS]], %[[NEW]]
func.func @latent_alone(%x: !x, %w: tensor<64x64xbf16>, %g: tensor<64xbf16>, %b: !mla.batch,
                        %cache: !mla.cache<page_size = 16, fields = [latent: 64], element = bf16, rope_order = interleaved>)
    -> (!x, !mla.cache<page_size = 16, fields = [latent: 64], element = bf16, rope_order = interleaved>) {
  %c = mla.latent_project %x, %w, %g eps 1.0 : !x, tensor<64x64xbf16>, tensor<64xbf16> -> !x
  %new = mla.append %c into %cache, %b : !x
    into !mla.cache<page_size = 16, fields = [latent: 64], element = bf16, rope_order = interleaved>, !mla.batch
  return %c, %new : !x, !mla.cache<page_size = 16, fields = [latent: 64], element = bf16, rope_order = interleaved>
}

// Into codes with a scale for each group.
// CHECK-LABEL: func @groups
// CHECK-NEXT: mla.latent_append
// CHECK-NEXT: return
func.func @groups(%x: !x, %w: tensor<576x64xbf16>, %g: tensor<512xbf16>, %t: tensor<?x64xf32>, %b: !mla.batch, %cache: !groups) -> !groups {
  %c, %tail = mla.latent_project %x, %w, %g eps 1.0 : !x, tensor<576x64xbf16>, tensor<512xbf16> -> tensor<?x512xbf16>, tensor<?x64xbf16>
  %k = mla.rope %tail, %t, %b with #wide : tensor<?x64xbf16>, tensor<?x64xf32>, <query_len = ?>
  %new = mla.append %c, %k into %cache, %b : tensor<?x512xbf16>, tensor<?x64xbf16> into !groups, !mla.batch
  return %new : !groups
}

// What something else reads, the latent or the rotated key, is kept.
// CHECK-LABEL: func @read
// CHECK-NEXT: %[[FIRST:.*]], %[[ROWS:.*]]:2 = mla.latent_append %{{.*}} kept
// CHECK-NEXT: %[[LAST:.*]], %[[MORE:.*]]:2 = mla.latent_append %[[ROWS]]#0, %{{.*}} into %[[FIRST]], %{{.*}} kept
// CHECK-NEXT: return %[[MORE]]#0, %[[MORE]]#1, %[[LAST]]
func.func @read(%x: !x, %w: tensor<96x64xbf16>, %g: tensor<64xbf16>, %t: tensor<?x32xf32>, %b: !mla.batch,
                %cache: !cache) -> (!x, !k, !cache) {
  %c, %tail = mla.latent_project %x, %w, %g eps 1.0 : !x, tensor<96x64xbf16>, tensor<64xbf16> -> !x, !k
  %k = mla.rope %tail, %t, %b with #rope : !k, tensor<?x32xf32>, <query_len = ?>
  %new = mla.append %c, %k into %cache, %b : !x, !k into !cache, !mla.batch
  %d, %rest = mla.latent_project %c, %w, %g eps 1.0 : !x, tensor<96x64xbf16>, tensor<64xbf16> -> !x, !k
  %l = mla.rope %rest, %t, %b with #rope : !k, tensor<?x32xf32>, <query_len = ?>
  %last = mla.append %d, %l into %new, %b : !x, !k into !cache, !mla.batch
  return %d, %l, %last : !x, !k, !cache
}

// Not where two appends have the same rows, nor where the latent is codes for what reads it.
// CHECK-LABEL: func @twice
// CHECK-COUNT-3: mla.append
// CHECK-NOT: mla.latent_append
func.func @twice(%x: !x, %w: tensor<96x64xbf16>, %g: tensor<64xbf16>, %t: tensor<?x32xf32>, %b: !mla.batch,
                 %one: !cache, %other: !cache) -> (!cache, !cache, !cache) {
  %c, %tail = mla.latent_project %x, %w, %g eps 1.0 : !x, tensor<96x64xbf16>, tensor<64xbf16> -> !x, !k
  %k = mla.rope %tail, %t, %b with #rope : !k, tensor<?x32xf32>, <query_len = ?>
  %first = mla.append %c, %k into %one, %b : !x, !k into !cache, !mla.batch
  %second = mla.append %c, %k into %other, %b : !x, !k into !cache, !mla.batch
  %d, %rest = mla.latent_project %x, %w, %g eps 1.0 {codes_group = 64 : i64} : !x, tensor<96x64xbf16>, tensor<64xbf16> -> !x, !k
  %l = mla.rope %rest, %t, %b with #rope : !k, tensor<?x32xf32>, <query_len = ?>
  %last = mla.append %d, %l into %first, %b : !x, !k into !cache, !mla.batch
  return %first, %second, %last : !cache, !cache, !cache
}

// Into codes of one scale, the rope key's, too; not where the cache is known only later.
// CHECK-LABEL: func @codes
// CHECK-NEXT: mla.latent_append {{.*}} rope %{{.*}} into %{{.*}} format = "mla_fp8_tensor">
// CHECK: mla.latent_append
// CHECK-NOT: mla.latent_append
// CHECK: mla.append
func.func @codes(%x: !x, %w: tensor<96x64xbf16>, %g: tensor<64xbf16>, %t: tensor<?x32xf32>, %b: !mla.batch,
                 %codes: !fp8, %cache: !cache) -> (!fp8, !cache) {
  %c, %tail = mla.latent_project %x, %w, %g eps 1.0 : !x, tensor<96x64xbf16>, tensor<64xbf16> -> !x, !k
  %k = mla.rope %tail, %t, %b with #rope : !k, tensor<?x32xf32>, <query_len = ?>
  %new = mla.append %c, %k into %codes, %b : !x, !k into !fp8, !mla.batch
  %d, %rest = mla.latent_project %x, %w, %g eps 1.0 : !x, tensor<96x64xbf16>, tensor<64xbf16> -> !x, !k
  %e, %other = mla.latent_project %x, %w, %g eps 2.0 : !x, tensor<96x64xbf16>, tensor<64xbf16> -> !x, !k
  %m = mla.rope %other, %t, %b with #rope : !k, tensor<?x32xf32>, <query_len = ?>
  %first = mla.append %e, %m into %cache, %b : !x, !k into !cache, !mla.batch
  %l = mla.rope %rest, %t, %b with #rope : !k, tensor<?x32xf32>, <query_len = ?>
  %last = mla.append %d, %l into %first, %b : !x, !k into !cache, !mla.batch
  return %new, %last : !fp8, !cache
}

// Not where no tile of 64 rows holds the row: the widest tile that 6208 columns fill is 97 rows of
// 64. Nor for an inverse rotation.
// CHECK-LABEL: func @wide
// CHECK-NOT: mla.latent_append
func.func @wide(%x: !x, %w: tensor<6240x64xbf16>, %g: tensor<6208xbf16>, %v: tensor<96x64xbf16>, %h: tensor<64xbf16>,
                %t: tensor<?x32xf32>, %b: !mla.batch, %other: !cache,
                %cache: !mla.cache<page_size = 16, fields = [latent: 6208, rope: 32], element = bf16, rope_order = interleaved>)
    -> (!mla.cache<page_size = 16, fields = [latent: 6208, rope: 32], element = bf16, rope_order = interleaved>, !cache) {
  %c, %tail = mla.latent_project %x, %w, %g eps 1.0 : !x, tensor<6240x64xbf16>, tensor<6208xbf16> -> tensor<?x6208xbf16>, !k
  %k = mla.rope %tail, %t, %b with #rope : !k, tensor<?x32xf32>, <query_len = ?>
  %new = mla.append %c, %k into %cache, %b : tensor<?x6208xbf16>, !k
    into !mla.cache<page_size = 16, fields = [latent: 6208, rope: 32], element = bf16, rope_order = interleaved>, !mla.batch
  %d, %rest = mla.latent_project %x, %v, %h eps 1.0 : !x, tensor<96x64xbf16>, tensor<64xbf16> -> !x, !k
  %l = mla.rope %rest, %t, %b with #rope inverse : !k, tensor<?x32xf32>, <query_len = ?>
  %last = mla.append %d, %l into %other, %b : !x, !k into !cache, !mla.batch
  return %new, %last : !mla.cache<page_size = 16, fields = [latent: 6208, rope: 32], element = bf16, rope_order = interleaved>, !cache
}
