// A37, C15: a step that may be padded writes only rows of tokens.
//
// RUN: mla-opt %s --mla-guard-padding | FileCheck %s

// CHECK-LABEL: func @step
// CHECK-SAME: %[[O:[a-z0-9]+]]: tensor<?x64xbf16>, %[[W:[a-z0-9]+]]: tensor<32x64xbf16>, %[[BATCH:[a-z0-9]+]]: !mla.batch
// CHECK: %[[PADDED:.*]] = mla.batch_dim %[[BATCH]] "is_padded"
// CHECK: %[[COND:.*]] = arith.cmpi ne, %[[PADDED]]
// CHECK: %[[Y:.*]] = scf.if %[[COND]] -> (tensor<?x32xbf16>) {
// CHECK:   %[[ALL:.*]] = mla.project %[[O]], %[[W]]
// CHECK:   %[[KEPT:.*]] = mla.keep_rows %[[ALL]], %[[BATCH]]
// CHECK:   scf.yield %[[KEPT]]
// CHECK: } else {
// CHECK:   %[[PLAIN:.*]] = mla.project %[[O]], %[[W]]
// CHECK:   scf.yield %[[PLAIN]]
// CHECK: return %[[Y]]
func.func @step(%o: tensor<?x64xbf16>, %w: tensor<32x64xbf16>, %batch: !mla.batch)
    -> (tensor<?x32xbf16> {mla.output = "output"}) attributes {mla.decode_threshold = 1 : i64} {
  %y = mla.project %o, %w : tensor<?x64xbf16>, tensor<32x64xbf16> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}

// What takes the step's batches of decodes alone is padded like the step.
// CHECK-LABEL: func @step_decodes
// CHECK: mla.keep_rows
func.func @step_decodes(%o: tensor<?x64xbf16>, %w: tensor<32x64xbf16>, %batch: !mla.batch<query_len = 1>)
    -> (tensor<?x32xbf16> {mla.output = "output"}) attributes {mla.decodes_of = "step"} {
  %y = mla.project %o, %w : tensor<?x64xbf16>, tensor<32x64xbf16> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}

// CHECK-LABEL: func @prefill
// CHECK-NOT: mla.keep_rows
func.func @prefill(%o: tensor<?x64xbf16>, %w: tensor<32x64xbf16>, %batch: !mla.batch)
    -> (tensor<?x32xbf16> {mla.output = "output"}) {
  %y = mla.project %o, %w : tensor<?x64xbf16>, tensor<32x64xbf16> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}

// CHECK-LABEL: func @not_an_output
// CHECK-NOT: mla.keep_rows
func.func @not_an_output(%o: tensor<?x64xbf16>, %w: tensor<32x64xbf16>, %batch: !mla.batch)
    -> tensor<?x32xbf16> attributes {mla.decode_threshold = 1 : i64} {
  %y = mla.project %o, %w : tensor<?x64xbf16>, tensor<32x64xbf16> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}
