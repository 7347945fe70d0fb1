// RUN: mla-opt %s --mla-import-config="config=%S/Inputs/bias.json" | FileCheck %s --check-prefix=ONE
// RUN: mla-opt %s --mla-import-config="config=%S/Inputs/bias.json tp=2" | FileCheck %s --check-prefix=TWO

// Biases of q_a, kv_a and o. With several ranks whoever reduces their outputs
// adds o_proj.bias once, so it is no argument.
// ONE-LABEL: func.func @prefill
// ONE-SAME: %[[Q_BIAS:[a-z0-9]*]]: tensor<48xbf16> {mla.weight = "q_a_proj.bias"}
// ONE-SAME: %[[KV_BIAS:[a-z0-9]*]]: tensor<40xbf16> {mla.weight = "kv_a_proj_with_mqa.bias"}
// ONE-SAME: %[[O_BIAS:[a-z0-9]*]]: tensor<64xbf16> {mla.weight = "o_proj.bias"}
// ONE: mla.latent_project {{.*}} bias(%[[Q_BIAS]]
// ONE: mla.latent_project {{.*}} bias(%[[KV_BIAS]]
// ONE: mla.attention
// ONE: mla.project {{.*}} bias(%[[O_BIAS]]

// TWO-LABEL: func.func @prefill
// TWO-SAME: "kv_a_proj_with_mqa.bias"
// TWO-NOT: "o_proj.bias"
