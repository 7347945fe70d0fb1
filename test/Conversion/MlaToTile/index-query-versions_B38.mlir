// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse | FileCheck %s

// Codes of an indexer's queries: a program for each head's row, then four of them, and tiles of a token's
// heads from as many programs on as keep the machine busy (112, with two tiles of 96 heads 56 tokens).

// CHECK-LABEL: tile.plan @step
// CHECK: %[[T:.*]] = tile.dim "num_tokens"
// CHECK: %[[ROWS:.*]] = arith.muli %[[T]], %c96
// CHECK: arith.cmpi sle, %[[ROWS]], %c2048
// CHECK: tile.launch @rope_query_64_128 grid(%[[T]], %c96, %c1)
// CHECK: %[[TILES:.*]] = arith.muli %[[T]], %c2
// CHECK: arith.cmpi sle, %[[TILES]], %c111
// CHECK: tile.launch @rope_query_64_128_rows_4 grid(%[[T]], %c24, %c1)
// CHECK: tile.launch @index_query_96x128 grid(%[[T]], %c2, %c1)
#rope = #mla.rope<order = half, dim = 64, theta = 1.0e4, length = 64>
func.func @step(%q: tensor<?x96x128xbf16> {mla.input = "q"}, %h: tensor<?x96xbf16> {mla.input = "h"}, %batch: !mla.batch)
    -> (tensor<?x96x128xf8E4M3FN> {mla.output = "codes"}, tensor<?x96xf32> {mla.output = "weights"}) {
  %table = mla.rope_table #rope : tensor<?x64xf32>
  %codes, %weights = mla.index_query %q, %h factor 0.125 rope %table, %batch with #rope offset 0 rule <power_of_two> floor 1.0e-38 amax_floor 1.0e-4
      : tensor<?x96x128xbf16>, tensor<?x96xbf16> rope tensor<?x64xf32>, !mla.batch -> tensor<?x96x128xf8E4M3FN>, tensor<?x96xf32>
  return %codes, %weights : tensor<?x96x128xf8E4M3FN>, tensor<?x96xf32>
}
