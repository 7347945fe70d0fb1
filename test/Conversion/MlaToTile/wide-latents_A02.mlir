// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 | FileCheck %s --check-prefixes=CHECK,GPU
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu | FileCheck %s --check-prefixes=CHECK,CPU

// A02. Latents wider than an accumulator of 64 rows: 16 heads of 1024 columns are what the side of a
// product that is not padded holds, so 40 heads are three programs, which read the same keys.

!cache = !mla.cache<page_size = 16, fields = [latent: 1024, rope: 64], element = bf16, rope_order = half>

// CHECK-LABEL: tile.plan @decode
// GPU: tile.work keys_per_block 64 rows_per_token 40 rows_per_tile 16
// GPU: tile.launch @absorbed_attention grid(%c3{{[_0-9]*}}, %{{.*}}, %c1{{[_0-9]*}})
// CPU: tile.launch @absorbed_attention grid(%c3{{[_0-9]*}}, %{{.*}}, %c1{{[_0-9]*}})

// GPU-LABEL: tile.kernel @absorbed_attention
// GPU-SAME: tile.max_rows = 16
// GPU: %[[TILE:.*]] = tile.program_id 0
// GPU: arith.muli %[[TILE]], %c16
// GPU: tile.attend queries({{.*}} : tensor<64x1024xbf16>, tensor<64x64xbf16>)
// GPU-SAME: -> tensor<64x1024xf32>
func.func @decode(%q: tensor<?x40x1024xbf16> {mla.input = "q"}, %pe: tensor<?x40x64xbf16> {mla.input = "q_pe"},
    %batch: !mla.batch<query_len = 1>, %cache: !cache) -> (tensor<?x40x1024xbf16> {mla.output = "output"}) {
  %o = mla.absorbed_attention query(%q, %pe : tensor<?x40x1024xbf16>, tensor<?x40x64xbf16>) over %cache, %batch
      : <page_size = 16, fields = [latent: 1024, rope: 64], element = bf16, rope_order = half>, <query_len = 1>
      scale 0.1 -> tensor<?x40x1024xbf16>
  return %o : tensor<?x40x1024xbf16>
}
