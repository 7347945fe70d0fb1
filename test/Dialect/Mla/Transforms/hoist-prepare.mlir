// A10, C09: weight-only computation moves into @prepare and is shared between
// steps; views of raw weights stay where they are.
//
// RUN: mla-opt %s --split-input-file --mla-hoist-prepare | FileCheck %s

// Two steps fold the same weights; one folds another pair too.
// CHECK-LABEL: func @prepare
// CHECK-SAME: %[[UQ:[a-z0-9]+]]: tensor<4x16x48xbf16> {mla.weight = "uq"}
// CHECK-SAME: %[[KVB:[a-z0-9]+]]: tensor<128x32xbf16> {mla.weight = "kv_b_proj.weight"}
// CHECK-SAME: %[[WO:[a-z0-9]+]]: tensor<64x64xbf16> {mla.weight = "o_proj.weight"}
// CHECK-SAME: -> (tensor<4x32x48xbf16> {mla.derived = "w_q_uk"}, tensor<64x128xbf16> {mla.derived = "w_uv_o"})
// CHECK: %[[HEADS:.*]] = tensor.expand_shape %[[KVB]]
// CHECK-NOT: tensor.expand_shape
// CHECK: %[[UK:.*]] = tensor.extract_slice %[[HEADS]][0, 0, 0]
// CHECK: %[[Q:.*]] = mla.fold_query %[[UQ]], %[[UK]]
// CHECK-NOT: mla.fold_query
// CHECK: %[[UV:.*]] = tensor.extract_slice %[[HEADS]][0, 16, 0]
// CHECK: %[[O:.*]] = mla.fold_output %[[UV]], %[[WO]]
// CHECK: return %[[Q]], %[[O]]

// CHECK-LABEL: func @first
// CHECK-SAME: tensor<128x32xbf16> {mla.weight = "kv_b_proj.weight"}
// CHECK-SAME: %[[D:[a-z0-9]+]]: tensor<4x32x48xbf16> {mla.derived = "w_q_uk"})
// CHECK-NOT: mla.fold_query
// CHECK-NOT: tensor.expand_shape
// CHECK: mla.project %{{.*}}, %[[D]]
func.func @first(%x: tensor<?x48xbf16>, %kvb: tensor<128x32xbf16> {mla.weight = "kv_b_proj.weight"},
    %uq: tensor<4x16x48xbf16> {mla.weight = "uq"}) -> tensor<?x4x32xbf16> {
  %h = tensor.expand_shape %kvb [[0, 1], [2]] output_shape [4, 32, 32] : tensor<128x32xbf16> into tensor<4x32x32xbf16>
  %uk = tensor.extract_slice %h[0, 0, 0] [4, 16, 32] [1, 1, 1] : tensor<4x32x32xbf16> to tensor<4x16x32xbf16>
  %w = mla.fold_query %uq, %uk : tensor<4x16x48xbf16>, tensor<4x16x32xbf16> -> tensor<4x32x48xbf16>
  %y = mla.project %x, %w : tensor<?x48xbf16>, tensor<4x32x48xbf16> -> tensor<?x4x32xbf16>
  return %y : tensor<?x4x32xbf16>
}

// Weights in another order, folds inside a branch, and a view that the step
// itself reads.
// CHECK-LABEL: func @second_A10_C09
// CHECK-SAME: %[[DQ:[a-z0-9]+]]: tensor<4x32x48xbf16> {mla.derived = "w_q_uk"}, %[[DO:[a-z0-9]+]]: tensor<64x128xbf16> {mla.derived = "w_uv_o"})
// CHECK: tensor.expand_shape
// CHECK: %[[VIEW:.*]] = tensor.extract_slice
// CHECK: scf.if
// CHECK-NOT: mla.fold
// CHECK: %[[L:.*]] = mla.project %{{.*}}, %[[DQ]]
// CHECK: mla.project %[[L]], %[[DO]]
// CHECK: else
// CHECK: mla.project %{{.*}}, %[[VIEW]]
func.func @second_A10_C09(%uq: tensor<4x16x48xbf16> {mla.weight = "uq"}, %x: tensor<?x48xbf16>, %c: tensor<?x32xbf16>,
    %wo: tensor<64x64xbf16> {mla.weight = "o_proj.weight"}, %kvb: tensor<128x32xbf16> {mla.weight = "kv_b_proj.weight"},
    %cond: i1) -> tensor<?x64xbf16> {
  %h = tensor.expand_shape %kvb [[0, 1], [2]] output_shape [4, 32, 32] : tensor<128x32xbf16> into tensor<4x32x32xbf16>
  %uk = tensor.extract_slice %h[0, 0, 0] [4, 16, 32] [1, 1, 1] : tensor<4x32x32xbf16> to tensor<4x16x32xbf16>
  %uv = tensor.extract_slice %h[0, 16, 0] [4, 16, 32] [1, 1, 1] : tensor<4x32x32xbf16> to tensor<4x16x32xbf16>
  %y = scf.if %cond -> (tensor<?x64xbf16>) {
    %w = mla.fold_query %uq, %uk : tensor<4x16x48xbf16>, tensor<4x16x32xbf16> -> tensor<4x32x48xbf16>
    %l = mla.project %x, %w : tensor<?x48xbf16>, tensor<4x32x48xbf16> -> tensor<?x4x32xbf16>
    %f = mla.fold_output %uv, %wo : tensor<4x16x32xbf16>, tensor<64x64xbf16> -> tensor<64x128xbf16>
    %0 = mla.project %l, %f : tensor<?x4x32xbf16>, tensor<64x128xbf16> -> tensor<?x64xbf16>
    scf.yield %0 : tensor<?x64xbf16>
  } else {
    %v = mla.project %c, %uv : tensor<?x32xbf16>, tensor<4x16x32xbf16> -> tensor<?x4x16xbf16>
    %0 = mla.project %v, %wo : tensor<?x4x16xbf16>, tensor<64x64xbf16> -> tensor<?x64xbf16>
    scf.yield %0 : tensor<?x64xbf16>
  }
  return %y : tensor<?x64xbf16>
}

// -----

// Two different values of one kind get two names.
// CHECK-LABEL: func @prepare
// CHECK-SAME: {mla.derived = "w_q_uk"}
// CHECK-SAME: {mla.derived = "w_q_uk_1"}
// CHECK-LABEL: func @two_layers
func.func @two_layers(%x: tensor<?x48xbf16>, %uq: tensor<4x16x48xbf16> {mla.weight = "uq"},
    %a: tensor<4x16x32xbf16> {mla.weight = "a"}, %b: tensor<4x16x32xbf16> {mla.weight = "b"}) -> (tensor<?x4x32xbf16>, tensor<?x4x32xbf16>) {
  %wa = mla.fold_query %uq, %a : tensor<4x16x48xbf16>, tensor<4x16x32xbf16> -> tensor<4x32x48xbf16>
  %wb = mla.fold_query %uq, %b : tensor<4x16x48xbf16>, tensor<4x16x32xbf16> -> tensor<4x32x48xbf16>
  %ya = mla.project %x, %wa : tensor<?x48xbf16>, tensor<4x32x48xbf16> -> tensor<?x4x32xbf16>
  %yb = mla.project %x, %wb : tensor<?x48xbf16>, tensor<4x32x48xbf16> -> tensor<?x4x32xbf16>
  return %ya, %yb : tensor<?x4x32xbf16>, tensor<?x4x32xbf16>
}

// -----

// What a derived value is made of stays inside @prepare.
// CHECK-LABEL: func @prepare
// CHECK: %[[W:.*]] = mla.dequantize
// CHECK: %[[V:.*]] = tensor.expand_shape %[[W]]
// CHECK: %[[F:.*]] = mla.fold_query %{{.*}}, %[[V]]
// CHECK: return %[[F]] :
// CHECK-LABEL: func @chain
// CHECK-NOT: mla.dequantize
func.func @chain(%x: tensor<?x48xbf16>, %uq: tensor<4x16x48xbf16> {mla.weight = "uq"},
    %q: tensor<64x32xf8E4M3FN> {mla.weight = "uk"}, %s: tensor<64x1xf32> {mla.weight = "uk_scale"}) -> tensor<?x4x32xbf16> {
  %d = mla.dequantize %q, %s group 32 : tensor<64x32xf8E4M3FN>, tensor<64x1xf32> -> tensor<64x32xbf16>
  %uk = tensor.expand_shape %d [[0, 1], [2]] output_shape [4, 16, 32] : tensor<64x32xbf16> into tensor<4x16x32xbf16>
  %w = mla.fold_query %uq, %uk : tensor<4x16x48xbf16>, tensor<4x16x32xbf16> -> tensor<4x32x48xbf16>
  %y = mla.project %x, %w : tensor<?x48xbf16>, tensor<4x32x48xbf16> -> tensor<?x4x32xbf16>
  return %y : tensor<?x4x32xbf16>
}

// -----

// Nothing depends on weights alone: no @prepare. The rope table depends on no
// weight; the runtime makes it.
// CHECK-NOT: @prepare
// CHECK-LABEL: func @nothing
// CHECK: mla.rope_table
// CHECK: mla.project
func.func @nothing(%x: tensor<?x4x8xbf16>, %w: tensor<64x32xbf16> {mla.weight = "o_proj.weight"}, %batch: !mla.batch<query_len = 1>) -> tensor<?x64xbf16> {
  %t = mla.rope_table <order = interleaved, dim = 8, theta = 1.0e+04, length = 128> : tensor<?x8xf32>
  %r = mla.rope %x, %t, %batch with <order = interleaved, dim = 8, theta = 1.0e+04, length = 128> : tensor<?x4x8xbf16>, tensor<?x8xf32>, !mla.batch<query_len = 1>
  %y = mla.project %r, %w : tensor<?x4x8xbf16>, tensor<64x32xbf16> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
