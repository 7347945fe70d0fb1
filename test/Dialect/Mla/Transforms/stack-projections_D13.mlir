// RUN: mla-opt %s --split-input-file --mla-stack-projections=target=sm90 | FileCheck %s
// RUN: mla-opt %s --split-input-file --mla-stack-projections=target=sm90 --mla-stack-projections=target=sm90 | FileCheck %s
// RUN: mla-opt %s --split-input-file --mla-stack-projections | FileCheck %s --check-prefix=CPU

// CPU-NOT: tensor.concat

!x = tensor<?x512xbf16>
!cache = !mla.cache<page_size = 16, fields = [key: 1x64, value: 1x64], element = bf16, format = "kv_nhd">
#rope = #mla.rope<order = half, dim = 64, theta = 1.0e4, length = 4096>

// Queries, keys and values with a bias each: one product, of whose columns they are parts.
// CHECK-LABEL: func @grouped
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<?x512xbf16>, %[[WQ:[a-z0-9]+]]: tensor<256x512xbf16>, %[[BQ:[a-z0-9]+]]: tensor<256xbf16>, %[[WK:[a-z0-9]+]]: tensor<64x512xbf16>, %[[BK:[a-z0-9]+]]: tensor<64xbf16>, %[[WV:[a-z0-9]+]]: tensor<64x512xbf16>, %[[BV:[a-z0-9]+]]: tensor<64xbf16>
// CHECK: %[[W:.*]] = tensor.concat dim(0) %[[WQ]], %[[WK]], %[[WV]] : {{.*}} -> tensor<384x512xbf16>
// CHECK: %[[B:.*]] = tensor.concat dim(0) %[[BQ]], %[[BK]], %[[BV]] : {{.*}} -> tensor<384xbf16>
// CHECK: %[[ALL:.*]] = mla.project %[[X]], %[[W]] bias(%[[B]] : tensor<384xbf16>) : {{.*}} -> tensor<?x384xbf16>
// CHECK-NOT: mla.project
// CHECK: tensor.extract_slice %[[ALL]][0, 0] [%{{.*}}, 256] [1, 1]
// CHECK: tensor.extract_slice %[[ALL]][0, 256] [%{{.*}}, 64] [1, 1]
// CHECK: tensor.extract_slice %[[ALL]][0, 320] [%{{.*}}, 64] [1, 1]
// CHECK: mla.grouped_append
func.func @grouped(%x: !x, %wq: tensor<256x512xbf16>, %bq: tensor<256xbf16>, %wk: tensor<64x512xbf16>,
                   %bk: tensor<64xbf16>, %wv: tensor<64x512xbf16>, %bv: tensor<64xbf16>, %t: tensor<?x64xf32>,
                   %b: !mla.batch, %cache: !cache) -> (tensor<?x4x64xbf16>, !cache) {
  %q2 = mla.project %x, %wq bias(%bq : tensor<256xbf16>) : !x, tensor<256x512xbf16> -> tensor<?x256xbf16>
  %k2 = mla.project %x, %wk bias(%bk : tensor<64xbf16>) : !x, tensor<64x512xbf16> -> tensor<?x64xbf16>
  %v2 = mla.project %x, %wv bias(%bv : tensor<64xbf16>) : !x, tensor<64x512xbf16> -> tensor<?x64xbf16>
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : !x
  %q = tensor.expand_shape %q2 [[0], [1, 2]] output_shape [%n, 4, 64] : tensor<?x256xbf16> into tensor<?x4x64xbf16>
  %k = tensor.expand_shape %k2 [[0], [1, 2]] output_shape [%n, 1, 64] : tensor<?x64xbf16> into tensor<?x1x64xbf16>
  %v = tensor.expand_shape %v2 [[0], [1, 2]] output_shape [%n, 1, 64] : tensor<?x64xbf16> into tensor<?x1x64xbf16>
  %r, %new = mla.grouped_append %q, %k, %v rope %t with #rope offset 0 into %cache, %b
    : tensor<?x4x64xbf16>, tensor<?x1x64xbf16>, tensor<?x1x64xbf16> rope tensor<?x64xf32> into !cache, !mla.batch
  return %r, %new : tensor<?x4x64xbf16>, !cache
}

// Heads of a matrix, normalised: the matrix is what is stacked, and slices are heads again.
// CHECK-LABEL: func @heads
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<?x512xbf16>, %[[WQ:[a-z0-9]+]]: tensor<256x512xbf16>, %[[WK:[a-z0-9]+]]: tensor<64x512xbf16>
// CHECK: tensor.concat dim(0) %[[WQ]], %[[WK]]
// CHECK: %[[ALL:.*]] = mla.project
// CHECK: %[[SLICE:.*]] = tensor.extract_slice %[[ALL]][0, 0] [%{{.*}}, 256] [1, 1]
// CHECK: %[[Q:.*]] = tensor.expand_shape %[[SLICE]] {{.*}} into tensor<?x4x64xbf16>
// CHECK: mla.rms_norm %[[Q]]
func.func @heads(%x: !x, %wq: tensor<256x512xbf16>, %wk: tensor<64x512xbf16>, %g: tensor<64xbf16>)
    -> (tensor<?x4x64xbf16>, tensor<?x1x64xbf16>) {
  %hq = tensor.expand_shape %wq [[0, 1], [2]] output_shape [4, 64, 512] : tensor<256x512xbf16> into tensor<4x64x512xbf16>
  %hk = tensor.expand_shape %wk [[0, 1], [2]] output_shape [1, 64, 512] : tensor<64x512xbf16> into tensor<1x64x512xbf16>
  %q = mla.project %x, %hq : !x, tensor<4x64x512xbf16> -> tensor<?x4x64xbf16>
  %nq = mla.rms_norm %q, %g eps 1.0e-6 : tensor<?x4x64xbf16>, tensor<64xbf16> -> tensor<?x4x64xbf16>
  %k = mla.project %x, %hk : !x, tensor<1x64x512xbf16> -> tensor<?x1x64xbf16>
  %nk = mla.rms_norm %k, %g eps 1.0e-6 : tensor<?x1x64xbf16>, tensor<64xbf16> -> tensor<?x1x64xbf16>
  return %nq, %nk : tensor<?x4x64xbf16>, tensor<?x1x64xbf16>
}

// -----

!x = tensor<?x512xbf16>

// Whoever binds the memory of a result reads it dense; other rows, a bias of one alone, and a weight
// made between them are other products; so is what stands in another block.
// CHECK-LABEL: func @apart
// CHECK-NOT: tensor.concat
// CHECK-COUNT-7: mla.project
func.func @apart(%x: !x, %y: !x, %w: tensor<64x512xbf16>, %b: tensor<64xbf16>, %g: tensor<64xbf16>, %is: i1)
    -> (tensor<?x64xbf16>, tensor<?x64xbf16>, tensor<?x64xbf16>, tensor<?x64xbf16>, tensor<?x64xbf16>) {
  %a = mla.project %x, %w : !x, tensor<64x512xbf16> -> tensor<?x64xbf16>
  %c = mla.project %x, %w : !x, tensor<64x512xbf16> -> tensor<?x64xbf16>
  %d = mla.project %y, %w : !x, tensor<64x512xbf16> -> tensor<?x64xbf16>
  %nd = mla.rms_norm %d, %g eps 1.0e-6 : tensor<?x64xbf16>, tensor<64xbf16> -> tensor<?x64xbf16>
  %e = mla.project %x, %w bias(%b : tensor<64xbf16>) : !x, tensor<64x512xbf16> -> tensor<?x64xbf16>
  %ne = mla.rms_norm %e, %g eps 1.0e-6 : tensor<?x64xbf16>, tensor<64xbf16> -> tensor<?x64xbf16>
  %f = mla.project %x, %w : !x, tensor<64x512xbf16> -> tensor<?x64xbf16>
  %nf = mla.rms_norm %f, %g eps 1.0e-6 : tensor<?x64xbf16>, tensor<64xbf16> -> tensor<?x64xbf16>
  %i = scf.if %is -> tensor<?x64xbf16> {
    %h = mla.project %x, %w : !x, tensor<64x512xbf16> -> tensor<?x64xbf16>
    %nh = mla.rms_norm %h, %g eps 1.0e-6 : tensor<?x64xbf16>, tensor<64xbf16> -> tensor<?x64xbf16>
    scf.yield %nh : tensor<?x64xbf16>
  } else {
    %h = mla.project %y, %w : !x, tensor<64x512xbf16> -> tensor<?x64xbf16>
    scf.yield %h : tensor<?x64xbf16>
  }
  return %a, %c, %nd, %ne, %i : tensor<?x64xbf16>, tensor<?x64xbf16>, tensor<?x64xbf16>, tensor<?x64xbf16>, tensor<?x64xbf16>
}

// A tile of 64 columns would have two weights: 96 stands last, or alone.
// CHECK-LABEL: func @uneven
// CHECK: tensor.concat dim(0) {{.*}} : (tensor<64x512xbf16>, tensor<96x512xbf16>) -> tensor<160x512xbf16>
// CHECK-NOT: tensor.concat
func.func @uneven(%x: !x, %v: tensor<64x512xbf16>, %w: tensor<96x512xbf16>, %g: tensor<64xbf16>, %h: tensor<96xbf16>)
    -> (tensor<?x64xbf16>, tensor<?x96xbf16>, tensor<?x64xbf16>) {
  %a = mla.project %x, %v : !x, tensor<64x512xbf16> -> tensor<?x64xbf16>
  %na = mla.rms_norm %a, %g eps 1.0e-6 : tensor<?x64xbf16>, tensor<64xbf16> -> tensor<?x64xbf16>
  %b = mla.project %x, %w : !x, tensor<96x512xbf16> -> tensor<?x96xbf16>
  %nb = mla.rms_norm %b, %h eps 1.0e-6 : tensor<?x96xbf16>, tensor<96xbf16> -> tensor<?x96xbf16>
  %c = mla.project %x, %v : !x, tensor<64x512xbf16> -> tensor<?x64xbf16>
  %nc = mla.rms_norm %c, %g eps 1.0e-6 : tensor<?x64xbf16>, tensor<64xbf16> -> tensor<?x64xbf16>
  return %na, %nb, %nc : tensor<?x64xbf16>, tensor<?x96xbf16>, tensor<?x64xbf16>
}

// Both are wide enough to run side by side: 112 tiles of 64 columns keep the machine busy.
// CHECK-LABEL: func @wide
// CHECK-NOT: tensor.concat
func.func @wide(%x: !x, %v: tensor<7168x512xbf16>, %w: tensor<8192x512xbf16>, %g: tensor<128xbf16>)
    -> (tensor<?x56x128xbf16>, tensor<?x64x128xbf16>) {
  %hv = tensor.expand_shape %v [[0, 1], [2]] output_shape [56, 128, 512] : tensor<7168x512xbf16> into tensor<56x128x512xbf16>
  %hw = tensor.expand_shape %w [[0, 1], [2]] output_shape [64, 128, 512] : tensor<8192x512xbf16> into tensor<64x128x512xbf16>
  %a = mla.project %x, %hv : !x, tensor<56x128x512xbf16> -> tensor<?x56x128xbf16>
  %na = mla.rms_norm %a, %g eps 1.0e-6 : tensor<?x56x128xbf16>, tensor<128xbf16> -> tensor<?x56x128xbf16>
  %b = mla.project %x, %hw : !x, tensor<64x128x512xbf16> -> tensor<?x64x128xbf16>
  %nb = mla.rms_norm %b, %g eps 1.0e-6 : tensor<?x64x128xbf16>, tensor<128xbf16> -> tensor<?x64x128xbf16>
  return %na, %nb : tensor<?x56x128xbf16>, tensor<?x64x128xbf16>
}

// One of them is too narrow: stacked.
// CHECK-LABEL: func @narrow
// CHECK: tensor.concat dim(0) {{.*}} -> tensor<7680x512xbf16>
func.func @narrow(%x: !x, %v: tensor<7168x512xbf16>, %w: tensor<512x512xbf16>, %g: tensor<128xbf16>)
    -> (tensor<?x56x128xbf16>, tensor<?x4x128xbf16>) {
  %hv = tensor.expand_shape %v [[0, 1], [2]] output_shape [56, 128, 512] : tensor<7168x512xbf16> into tensor<56x128x512xbf16>
  %hw = tensor.expand_shape %w [[0, 1], [2]] output_shape [4, 128, 512] : tensor<512x512xbf16> into tensor<4x128x512xbf16>
  %a = mla.project %x, %hv : !x, tensor<56x128x512xbf16> -> tensor<?x56x128xbf16>
  %na = mla.rms_norm %a, %g eps 1.0e-6 : tensor<?x56x128xbf16>, tensor<128xbf16> -> tensor<?x56x128xbf16>
  %b = mla.project %x, %hw : !x, tensor<4x128x512xbf16> -> tensor<?x4x128xbf16>
  %nb = mla.rms_norm %b, %g eps 1.0e-6 : tensor<?x4x128xbf16>, tensor<128xbf16> -> tensor<?x4x128xbf16>
  return %na, %nb : tensor<?x56x128xbf16>, tensor<?x4x128xbf16>
}

// Queries of attention over their own rows, beside those of an indexer.
// CHECK-LABEL: func @expanded
// CHECK: tensor.concat dim(0) {{.*}} -> tensor<768x512xbf16>
// CHECK: mla.expanded_attention
func.func @expanded(%x: !x, %v: tensor<256x512xbf16>, %w: tensor<512x512xbf16>, %g: tensor<128xbf16>, %k: tensor<?x4x64xbf16>, %b: !mla.batch)
    -> (tensor<?x4x64xbf16>, tensor<?x4x128xbf16>) {
  %hv = tensor.expand_shape %v [[0, 1], [2]] output_shape [4, 64, 512] : tensor<256x512xbf16> into tensor<4x64x512xbf16>
  %hw = tensor.expand_shape %w [[0, 1], [2]] output_shape [4, 128, 512] : tensor<512x512xbf16> into tensor<4x128x512xbf16>
  %a = mla.project %x, %hv : !x, tensor<4x64x512xbf16> -> tensor<?x4x64xbf16>
  %o = mla.expanded_attention query(%a : tensor<?x4x64xbf16>) keys(%k : tensor<?x4x64xbf16>) values(%k : tensor<?x4x64xbf16>) over %b : !mla.batch scale 0.125 -> tensor<?x4x64xbf16>
  %i = mla.project %x, %hw : !x, tensor<4x128x512xbf16> -> tensor<?x4x128xbf16>
  %n = mla.rms_norm %i, %g eps 1.0e-6 : tensor<?x4x128xbf16>, tensor<128xbf16> -> tensor<?x4x128xbf16>
  return %o, %n : tensor<?x4x64xbf16>, tensor<?x4x128xbf16>
}
