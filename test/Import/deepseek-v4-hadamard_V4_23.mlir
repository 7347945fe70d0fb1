// Queries and keys of an indexer that selects entries are both multiplied by a Hadamard matrix, or
// neither is.
//
// RUN: mla-opt %s --split-input-file --verify-diagnostics
// RUN: echo "module {}" | mla-opt --mla-import-config="config=%data/configs/deepseek_v4.json layer=2 index-hadamard" | FileCheck %s --check-prefix=ON
// RUN: echo "module {}" | mla-opt --mla-import-config="config=%data/configs/deepseek_v4.json layer=2" | FileCheck %s --check-prefix=OFF
// RUN: echo "module {}" | mla-opt --mla-import-config="config=%data/configs/deepseek_v4.json layer=3 index-hadamard" | FileCheck %s --check-prefix=OFF
// RUN: not mla-compile %data/configs/deepseek_v3.json --index-hadamard --emit=mla 2>&1 | FileCheck %s --check-prefix=MODEL

// ON: mla.model = #mla.model<"deepseek_v4"{{.*}}--index-hadamard
// ON-LABEL: func.func @prefill
// ON-SAME: format = "index_k", scale_rule = power_of_two, tokens_per_row = 4, hadamard = true> {mla.pool = "index"}
// ON: %[[ENTRY:.*]] = mla.rope {{.*}} every 4
// ON-NEXT: mla.append %[[ENTRY]]
// ON: %[[KEY:.*]] = mla.rope {{.*}} every 4
// ON-NEXT: %[[TURNED:.*]] = mla.hadamard %[[KEY]] : tensor<?x128xbf16>
// ON-NEXT: mla.append %[[TURNED]]
// ON: %[[QUERY:.*]] = mla.hadamard %{{.*}} : tensor<?x64x128xbf16>
// ON-NEXT: mla.quantize %[[QUERY]]

// OFF-LABEL: func.func @prefill
// OFF-NOT: hadamard

// MODEL: index-hadamard does not apply to deepseek_v3, expected a model whose indexer selects entries (deepseek_v4)

!pool = !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = interleaved, format = "index_k", scale_rule = power_of_two, tokens_per_row = 4>
func.func @query_alone(%x: tensor<?x64x128xbf16>, %t: tensor<?x64xf32>, %w: tensor<?x64xf32>, %c: !pool, %b: !mla.batch) {
  %r = mla.rope %x, %t, %b with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> offset 64 : tensor<?x64x128xbf16>, tensor<?x64xf32>, !mla.batch
  %h = mla.hadamard %r : tensor<?x64x128xbf16>
  %q, %s = mla.quantize %h group 128 rule <power_of_two> floor 1.0e-38 amax_floor 1.0e-4 : tensor<?x64x128xbf16> -> tensor<?x64x128xf8E4M3FN>, tensor<?x64x1xf32>
  // expected-error @+1 {{expected the query not to be rotated by mla.hadamard, of a cache with hadamard = false}}
  %0 = mla.index_scores query(%q : tensor<?x64x128xf8E4M3FN>) weights(%w : tensor<?x64xf32>) over %c, %b : !pool, !mla.batch -> tensor<?x?xf32>
  return
}

// -----

!pool = !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = interleaved, format = "index_k", scale_rule = power_of_two, tokens_per_row = 4, hadamard = true>
func.func @key_without(%x: tensor<?x128xbf16>, %t: tensor<?x64xf32>, %c: !pool, %b: !mla.batch) {
  %r = mla.rope %x, %t, %b with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> offset 64 every 4 : tensor<?x128xbf16>, tensor<?x64xf32>, !mla.batch
  // expected-error @+1 {{expected the key to be rotated by mla.hadamard, of a cache with hadamard = true}}
  %0 = mla.append %r into %c, %b : tensor<?x128xbf16> into !pool, !mla.batch
  return
}
