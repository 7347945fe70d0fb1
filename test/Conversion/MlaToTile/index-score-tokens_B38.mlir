// Programs of index scores have as many new tokens as make 128 columns with their heads, eight at most, where
// requests have as many; of 64 heads two, of one new token one.
//
// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse | FileCheck %s

!cache = !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k", scale_rule = power_of_two>

// CHECK-LABEL: tile.plan @sixteen
// CHECK: %[[LONGEST:.*]] = tile.dim "max_query_len"
// CHECK: %[[FEW:.*]] = arith.cmpi sle, %[[LONGEST]], %c7
// CHECK: scf.if %[[FEW]]
// CHECK: arith.ceildivsi %[[LONGEST]], %c2
// CHECK: tile.launch @index_scores_16x128 grid
// CHECK: else
// CHECK: arith.ceildivsi %[[LONGEST]], %c8
// CHECK: tile.launch @index_scores_16x128_tokens_8 grid
func.func @sixteen(%q: tensor<?x16x128xf8E4M3FN> {mla.input = "q"}, %w: tensor<?x16xf32> {mla.input = "w"},
    %batch: !mla.batch, %keys: !cache) -> (tensor<?x?xf32> {mla.output = "scores"}) {
  %s = mla.index_scores query(%q : tensor<?x16x128xf8E4M3FN>) weights(%w : tensor<?x16xf32>) over %keys, %batch
      : !cache, !mla.batch -> tensor<?x?xf32>
  return %s : tensor<?x?xf32>
}

// CHECK-LABEL: tile.plan @thirty_two
// CHECK: arith.cmpi sle, %{{.*}}, %c3
// CHECK: tile.launch @index_scores_32x128 grid
// CHECK: tile.launch @index_scores_32x128_tokens_4 grid
func.func @thirty_two(%q: tensor<?x32x128xf8E4M3FN> {mla.input = "q"}, %w: tensor<?x32xf32> {mla.input = "w"},
    %batch: !mla.batch, %keys: !cache) -> (tensor<?x?xf32> {mla.output = "scores"}) {
  %s = mla.index_scores query(%q : tensor<?x32x128xf8E4M3FN>) weights(%w : tensor<?x32xf32>) over %keys, %batch
      : !cache, !mla.batch -> tensor<?x?xf32>
  return %s : tensor<?x?xf32>
}

// CHECK-LABEL: tile.plan @sixty_four
// CHECK-NOT: scf.if
// CHECK: tile.launch @index_scores_64x128 grid
func.func @sixty_four(%q: tensor<?x64x128xf8E4M3FN> {mla.input = "q"}, %w: tensor<?x64xf32> {mla.input = "w"},
    %batch: !mla.batch, %keys: !cache) -> (tensor<?x?xf32> {mla.output = "scores"}) {
  %s = mla.index_scores query(%q : tensor<?x64x128xf8E4M3FN>) weights(%w : tensor<?x64xf32>) over %keys, %batch
      : !cache, !mla.batch -> tensor<?x?xf32>
  return %s : tensor<?x?xf32>
}

// CHECK-LABEL: tile.plan @one_token
// CHECK-NOT: scf.if
// CHECK: tile.launch @index_scores_16x128_{{[0-9]+}} grid
func.func @one_token(%q: tensor<?x16x128xf8E4M3FN> {mla.input = "q"}, %w: tensor<?x16xf32> {mla.input = "w"},
    %batch: !mla.batch<query_len = 1>, %keys: !cache) -> (tensor<?x?xf32> {mla.output = "scores"}) {
  %s = mla.index_scores query(%q : tensor<?x16x128xf8E4M3FN>) weights(%w : tensor<?x16xf32>) over %keys, %batch
      : !cache, !mla.batch<query_len = 1> -> tensor<?x?xf32>
  return %s : tensor<?x?xf32>
}
