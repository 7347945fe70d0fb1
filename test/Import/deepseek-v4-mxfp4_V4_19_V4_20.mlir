// The indexer's keys and queries in MXFP4: no scales of queries in the weights of heads.
//
// RUN: echo "module {}" | mla-opt --mla-import-config="config=%data/configs/deepseek_v4.json layer=2 index-format=mxfp4" | FileCheck %s
// RUN: echo "module {}" | mla-opt --mla-import-config="config=%data/configs/deepseek_v4.json layer=2 index-format=mxfp4 index-hadamard" | FileCheck %s --check-prefix=TURNED
// RUN: echo "module {}" | mla-opt --mla-import-config="config=%data/configs/deepseek_v4.json layer=3 index-format=mxfp4" | FileCheck %s --check-prefix=OTHER
// RUN: not mla-compile %data/configs/deepseek_v32.json --index-format=mxfp4 --emit=mla 2>&1 | FileCheck %s --check-prefix=MODEL
// RUN: mla-compile %data/configs/deepseek_v4.json --layer=2 --index-format=mxfp4 --target=cpu --emit=tile | FileCheck %s --check-prefix=TILE

// CHECK: mla.model = #mla.model<"deepseek_v4"{{.*}}--index-format=mxfp4
// CHECK-LABEL: func.func @prefill
// CHECK-SAME: format = "index_k_mxfp4", scale_rule = power_of_two, tokens_per_row = 4> {mla.pool = "index"}
// CHECK: %[[KEY:.*]] = mla.rope {{.*}} offset 64 every 4 : tensor<?x128xf32>
// CHECK-NEXT: mla.append %[[KEY]]
// CHECK: %[[ROTATED:.*]] = mla.rope {{.*}} : tensor<?x64x128xbf16>
// CHECK-NEXT: %[[QUERY:.*]] = mla.round_mxfp4 %[[ROTATED]] : tensor<?x64x128xbf16>
// CHECK: %[[WEIGHTS:.*]] = mla.index_weights %{{[a-z0-9]+}} factor 0.01104854{{.*}} : tensor<?x64xbf16> -> tensor<?x64xf32>
// CHECK-NEXT: mla.index_scores query(%[[QUERY]] : tensor<?x64x128xbf16>) weights(%[[WEIGHTS]]

// TURNED: format = "index_k_mxfp4", scale_rule = power_of_two, tokens_per_row = 4, hadamard = true>
// TURNED: %[[TURNED:.*]] = mla.hadamard %{{.*}} : tensor<?x64x128xbf16>
// TURNED-NEXT: mla.round_mxfp4 %[[TURNED]]

// OTHER-LABEL: func.func @prefill
// OTHER-NOT: mxfp4

// MODEL: index-format does not apply to deepseek_v32, expected a model whose indexer selects entries (deepseek_v4)

// Keys and queries are tiles of even and of odd columns.
// TILE: tile.kernel @index_scores_64x128
// TILE-COUNT-2: tile.load %{{.*}} -> tensor<64x64x
