// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --cse | FileCheck %s --check-prefixes=CHECK,SM90
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --cse | FileCheck %s --check-prefixes=CHECK,CPU

!both = !mla.cache<page_size = 16, fields = [key: 2x96, value: 2x32], element = bf16, format = "kv_nhd">

// With norms a program has all channels of its heads: on sm90 8 heads of 64 are 32 pairs each, of which a head is two
// rows of 16 columns, whose sums of squares are one; the other 32 of each pair's channels stand behind.
// CHECK-LABEL: tile.plan @normed
// SM90: tile.launch @norm_rope_64_append grid(%{{.*}}, %c1{{.*}}, %c1{{.*}}) args(
// SM90-NOT: tile.launch
// CPU: tile.launch @norm_rope_64_append grid(
// CHECK-NOT: tile.launch

// SM90-LABEL: tile.kernel @norm_rope_64_append
// SM90: %[[SQUARES:.*]] = tile.reduce {{ *}}sum %{{.*}} : tensor<64x16xf32> -> tensor<64xf32>
// SM90: %[[REST:.*]] = tile.reduce {{ *}}sum %{{.*}} : tensor<64x16xf32> -> tensor<64xf32>
// SM90: %[[ROWS:.*]] = arith.addf %[[SQUARES]], %[[REST]]
// SM90: %[[HEADS:.*]] = tile.sum_groups %[[ROWS]] of 2 : tensor<64xf32>
// SM90: arith.mulf %[[HEADS]]
// SM90: math.rsqrt
// SM90-COUNT-3: tile.store
// SM90: tile.sum_groups %{{.*}} of 2 : tensor<64xf32>
// SM90-COUNT-4: tile.store
// CPU-LABEL: tile.kernel @norm_rope_64_append
// CPU-NOT: tile.sum_groups
// CPU-COUNT-7: tile.store
func.func @normed(%q: tensor<?x8x96xbf16> {mla.input = "q"}, %k: tensor<?x2x96xbf16> {mla.input = "k"}, %v: tensor<?x2x32xbf16> {mla.input = "v"},
    %qg: tensor<96xbf16> {mla.weight = "q_norm"}, %kg: tensor<96xbf16> {mla.weight = "k_norm"},
    %t: tensor<128x64xf32> {mla.input = "table"}, %batch: !mla.batch, %cache: !both)
    -> (tensor<?x8x96xbf16> {mla.output = "rotated"}, !both) {
  %rotated, %0 = mla.grouped_append %q, %k, %v norms %qg, %kg epsilon 1.0e-6
      rope %t with <order = half, dim = 64, theta = 1.0e4, length = 128> offset 0 into %cache, %batch
      : tensor<?x8x96xbf16>, tensor<?x2x96xbf16>, tensor<?x2x32xbf16> norms tensor<96xbf16>, tensor<96xbf16> rope tensor<128x64xf32>
      into <page_size = 16, fields = [key: 2x96, value: 2x32], element = bf16, format = "kv_nhd">, <query_len = ?>
  return %rotated, %0 : tensor<?x8x96xbf16>, !both
}
