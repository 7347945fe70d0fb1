// What tokens contribute to entries: sums in f32, or rounded to the activations' type first, as engines
// have it whose weights are quantised.
//
// RUN: mla-opt %s --mla-import-config="config=%data/configs/deepseek_v4.json layer=3 round-states" | FileCheck %s --check-prefix=ON
// RUN: mla-opt %s --mla-import-config="config=%data/configs/deepseek_v4.json layer=3" | FileCheck %s --check-prefix=OFF
// RUN: mla-opt %s --mla-import-config="config=%data/configs/deepseek_v4.json layer=3 round-states dtype=f32" | FileCheck %s --check-prefix=OFF
// RUN: not mla-compile %data/configs/deepseek_v3.json --round-states --emit=mla 2>&1 | FileCheck %s --check-prefix=MODEL

// ON: mla.model = #mla.model<"deepseek_v4"{{.*}}--round-states
// ON: mla.project {{.*}} {rounded} : {{.*}} -> tensor<?x512xf32>
// ON: mla.project {{.*}} {rounded} : {{.*}} -> tensor<?x512xf32>
// OFF-NOT: {rounded}
// OFF: mla.compress
// MODEL: round-states does not apply to deepseek_v3, expected a model that makes entries of tokens (deepseek_v4)

module {}
