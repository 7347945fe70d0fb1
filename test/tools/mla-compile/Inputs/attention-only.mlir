!cache = !mla.cache<page_size = 16, fields = [latent: 32, rope: 8], element = bf16, rope_order = interleaved>
!lse = tensor<?x12xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>

module @attention_only {
  func.func @decode(%q_lat: tensor<?x12x32xbf16> {mla.input = "q_lat"}, %q_pe: tensor<?x12x8xbf16> {mla.input = "q_pe"},
                    %batch: !mla.batch<query_len = 4>, %cache: !cache)
      -> (tensor<?x12x32xbf16> {mla.output = "output"}, !lse {mla.output = "lse"}) {
    %output, %lse = mla.absorbed_attention query(%q_lat, %q_pe : tensor<?x12x32xbf16>, tensor<?x12x8xbf16>)
      over %cache, %batch : !cache, !mla.batch<query_len = 4> scale 0.25 -> tensor<?x12x32xbf16>, !lse
    return %output, %lse : tensor<?x12x32xbf16>, !lse
  }
  func.func @advance(%batch: !mla.batch, %cache: !cache) -> !cache {
    return %cache : !cache
  }
}
