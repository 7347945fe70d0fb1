// B23, B24: a step that takes any mix brings a function for batches of decodes alone, which
// has nothing of prefills. A forced form is not split and brings none.
//
// RUN: mla-opt %s --mla-import-config="config=%data/configs/deepseek_v3.json decode-threshold=3" | FileCheck %s
// RUN: mla-opt %s --mla-import-config="config=%data/configs/deepseek_v3.json decode-threshold=3 form=expanded" | FileCheck %s --check-prefix=FORCED

// CHECK-LABEL: func.func @step(
// CHECK-SAME: !mla.batch<query_len = ?>
// CHECK-SAME: attributes {mla.decode_threshold = 3 : i64}
// CHECK: mla.attention {{.*}} scale {{[0-9.]+}} ->
// CHECK-LABEL: func.func @step_decodes(
// CHECK-SAME: !mla.batch<query_len = 3>
// CHECK-SAME: attributes {mla.decodes_of = "step"}
// CHECK: mla.attention {{.*}} {form = #mla.form<absorbed>}

// FORCED: func.func @step(
// FORCED-NOT: @step_decodes
