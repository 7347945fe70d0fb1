// RUN: mla-opt %s --mla-import-config="config=%data/configs/deepseek_v2_lite.json" | FileCheck %s --check-prefix=LITE
// RUN: mla-opt %s --mla-import-config="config=%data/configs/deepseek_v2.json tp=4" | FileCheck %s --check-prefix=V2

// A04: without a query latent the projections read the hidden states and q_proj.
// LITE: module @deepseek_v2
// LITE-LABEL: func.func @decode
// LITE-SAME: %[[HIDDEN:[a-z0-9]*]]: tensor<?x2048xbf16> {mla.input = "hidden"}
// LITE-NOT: q_a_proj
// LITE-SAME: %[[Q:[a-z0-9]*]]: tensor<3072x2048xbf16> {mla.weight = "q_proj.weight"}
// LITE: %[[HEADS:.*]] = tensor.expand_shape %[[Q]] {{.*}} output_shape [16, 192, 2048]
// LITE: %[[NOPE:.*]] = tensor.extract_slice %[[HEADS]][0, 0, 0] [16, 128, 2048]
// LITE: mla.project %[[HIDDEN]], %[[NOPE]]
// LITE: mla.attention {{.*}} scale 0.1147213

// V2-LABEL: func.func @decode
// V2-SAME: tensor<1536x5120xbf16> {mla.weight = "q_a_proj.weight"}
// V2-SAME: tensor<6144x1536xbf16> {mla.weight = "q_b_proj.weight"}
// V2: mla.attention {{.*}} scale 0.1147213
