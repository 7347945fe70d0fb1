// RUN: mla-opt %s --split-input-file --convert-mla-to-tile=target=cpu --verify-diagnostics

// Two caches without names would be one memory.
!cache = !mla.cache<page_size = 16, fields = [latent: 64], element = bf16>
// expected-error @+1 {{expected the caches of arguments 2 and 3 to be marked mla.pool with names of their own, got none}}
func.func @unnamed(%c: tensor<?x64xbf16> {mla.input = "c"}, %batch: !mla.batch<query_len = ?>, %a: !cache, %b: !cache) -> !cache {
  %0 = mla.append %c into %b, %batch : tensor<?x64xbf16> into !cache, !mla.batch<query_len = ?>
  return %0 : !cache
}

// -----

!cache = !mla.cache<page_size = 16, fields = [latent: 64], element = bf16>
// expected-error @+1 {{expected the caches of arguments 2 and 3 to be marked mla.pool with names of their own, got 'index' twice}}
func.func @twice(%c: tensor<?x64xbf16> {mla.input = "c"}, %batch: !mla.batch<query_len = ?>, %a: !cache {mla.pool = "index"},
    %b: !cache {mla.pool = "index"}) -> !cache {
  %0 = mla.append %c into %b, %batch : tensor<?x64xbf16> into !cache, !mla.batch<query_len = ?>
  return %0 : !cache
}

// -----

!cache = !mla.cache<page_size = 16, fields = [latent: 64], element = bf16>
// expected-error @+1 {{expected mla.pool of argument 2 to be a name without '/' and not 'cache', got "a/b"}}
func.func @slash(%c: tensor<?x64xbf16> {mla.input = "c"}, %batch: !mla.batch<query_len = ?>, %a: !cache {mla.pool = "a/b"}) -> !cache {
  %0 = mla.append %c into %a, %batch : tensor<?x64xbf16> into !cache, !mla.batch<query_len = ?>
  return %0 : !cache
}
