// Activations become codes once for all products with codes; a latent where its norm is computed, if only
// such products read it.
//
// RUN: mla-opt %s --split-input-file --verify-diagnostics --mla-quantize-activations | FileCheck %s

// CHECK-LABEL: func.func @products
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<?x256xbf16>
// CHECK: %[[XC:.*]] = mla.coded_rows %[[X]] group 128
// CHECK-NOT: mla.coded_rows
// CHECK: %[[Q:.*]] = mla.latent_project %[[XC]], %{{.*}} {codes_group = 128 : i64}
// CHECK: %[[KV:.*]], %{{.*}} = mla.latent_project %[[XC]], %
// CHECK-NOT: codes_group
// CHECK: mla.project %[[Q]], %
// CHECK: mla.project %[[KV]], %
func.func @products(%x: tensor<?x256xbf16>, %ac: tensor<128x256xf8E4M3FN>, %as: tensor<1x2xf32>,
                    %bc: tensor<256x128xf8E4M3FN>, %bs: tensor<2x1xf32>,
                    %kc: tensor<192x256xf8E4M3FN>, %ks: tensor<2x2xf32>, %v: tensor<128x128xbf16>,
                    %g: tensor<128xbf16>) -> (tensor<?x2x128xbf16>, tensor<?x128xbf16>, tensor<?x64xbf16>) {
  %a = mla.scaled_weight %ac, %as block [128, 128] : tensor<128x256xf8E4M3FN>, tensor<1x2xf32> -> tensor<128x256xbf16>
  %b = mla.scaled_weight %bc, %bs block [128, 128] : tensor<256x128xf8E4M3FN>, tensor<2x1xf32> -> tensor<256x128xbf16>
  %k = mla.scaled_weight %kc, %ks block [128, 128] : tensor<192x256xf8E4M3FN>, tensor<2x2xf32> -> tensor<192x256xbf16>
  %q = mla.latent_project %x, %a, %g eps 1.0e-6
      : tensor<?x256xbf16>, tensor<128x256xbf16>, tensor<128xbf16> -> tensor<?x128xbf16>
  %kv, %pe = mla.latent_project %x, %k, %g eps 1.0e-6
      : tensor<?x256xbf16>, tensor<192x256xbf16>, tensor<128xbf16> -> tensor<?x128xbf16>, tensor<?x64xbf16>
  %e = tensor.expand_shape %b [[0, 1], [2]] output_shape [2, 128, 128] : tensor<256x128xbf16> into tensor<2x128x128xbf16>
  %y = mla.project %q, %e : tensor<?x128xbf16>, tensor<2x128x128xbf16> -> tensor<?x2x128xbf16>
  %z = mla.project %kv, %v : tensor<?x128xbf16>, tensor<128x128xbf16> -> tensor<?x128xbf16>
  return %y, %z, %pe : tensor<?x2x128xbf16>, tensor<?x128xbf16>, tensor<?x64xbf16>
}

// -----

// Who else reads the latent has it as it is. Heads of 64 columns share a group.
// CHECK-LABEL: func.func @others
// CHECK: mla.coded_rows %{{.*}} group 128 : tensor<?x2x64xbf16>
// CHECK: %[[Q:.*]] = mla.latent_project
// CHECK-NOT: codes_group
// CHECK: %[[QC:.*]] = mla.coded_rows %[[Q]] group 128 : tensor<?x128xbf16>
// CHECK: mla.project %[[QC]], %
// CHECK: mla.rms_norm %[[Q]]
func.func @others(%x: tensor<?x256xbf16>, %o: tensor<?x2x64xbf16>, %a: tensor<128x256xbf16>,
                  %bc: tensor<128x128xf8E4M3FN>, %bs: tensor<1x1xf32>, %g: tensor<128xbf16>)
    -> (tensor<?x128xbf16>, tensor<?x128xbf16>, tensor<?x128xbf16>) {
  %b = mla.scaled_weight %bc, %bs block [128, 128] : tensor<128x128xf8E4M3FN>, tensor<1x1xf32> -> tensor<128x128xbf16>
  %q = mla.latent_project %x, %a, %g eps 1.0e-6
      : tensor<?x256xbf16>, tensor<128x256xbf16>, tensor<128xbf16> -> tensor<?x128xbf16>
  %y = mla.project %q, %b : tensor<?x128xbf16>, tensor<128x128xbf16> -> tensor<?x128xbf16>
  %n = mla.rms_norm %q, %g eps 1.0e-6 : tensor<?x128xbf16>, tensor<128xbf16> -> tensor<?x128xbf16>
  %z = mla.project %o, %b : tensor<?x2x64xbf16>, tensor<128x128xbf16> -> tensor<?x128xbf16>
  return %y, %n, %z : tensor<?x128xbf16>, tensor<?x128xbf16>, tensor<?x128xbf16>
}

// -----

func.func @channels(%x: tensor<?x256xbf16>, %c: tensor<128x256xf8E4M3FN>, %s: tensor<128x1xf32>) -> tensor<?x128xbf16> {
  %w = mla.scaled_weight %c, %s block [1, 0] : tensor<128x256xf8E4M3FN>, tensor<128x1xf32> -> tensor<128x256xbf16>
  // expected-error@+1 {{expected weights with scales of 128 columns beside activations in groups of as many, got block array<i64: 1, 0>}}
  %y = mla.project %x, %w : tensor<?x256xbf16>, tensor<128x256xbf16> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

// -----

// A rotation that a product of groups of heads reads makes codes itself, whatever asks for sizes; one
// whose rotated columns lie in two groups does not, and another reader keeps it what it is.
// CHECK-LABEL: func.func @groups_of_heads
// CHECK: mla.rope {{.*}} offset 192 inverse {codes_group = 128 : i64}
// CHECK-NOT: mla.coded_rows
// CHECK: mla.rope {{.*}} offset 96 inverse :
// CHECK: mla.coded_rows %{{.*}} group 128 : tensor<?x2x512xbf16>
// CHECK: mla.rope {{.*}} offset 192 inverse :
// CHECK: mla.coded_rows %{{.*}} group 128 : tensor<?x2x512xbf16>
#rope = #mla.rope<order = interleaved, dim = 64, theta = 1.0e4, length = 4096>
func.func @groups_of_heads(%x: tensor<?x4x256xbf16>, %c: tensor<128x512xf8E4M3FN>, %s: tensor<1x4xf32>,
    %t: tensor<?x64xf32>, %b: !mla.batch, %n: index)
    -> (tensor<?x2x64xbf16>, tensor<?x2x64xbf16>, tensor<?x2x64xbf16>, tensor<?x4x256xbf16>, index) {
  %c0 = arith.constant 0 : index
  %w = mla.scaled_weight %c, %s block [128, 128] : tensor<128x512xf8E4M3FN>, tensor<1x4xf32> -> tensor<128x512xbf16>
  %g = tensor.expand_shape %w [[0, 1], [2]] output_shape [2, 64, 512] : tensor<128x512xbf16> into tensor<2x64x512xbf16>
  %0 = mla.rope %x, %t, %b with #rope offset 192 inverse : tensor<?x4x256xbf16>, tensor<?x64xf32>, !mla.batch
  %f0 = tensor.collapse_shape %0 [[0], [1, 2]] : tensor<?x4x256xbf16> into tensor<?x1024xbf16>
  %d = tensor.dim %f0, %c0 : tensor<?x1024xbf16>
  %e0 = tensor.expand_shape %f0 [[0], [1, 2]] output_shape [%d, 2, 512] : tensor<?x1024xbf16> into tensor<?x2x512xbf16>
  %y0 = mla.head_project %e0, %g : tensor<?x2x512xbf16>, tensor<2x64x512xbf16> -> tensor<?x2x64xbf16>
  %1 = mla.rope %x, %t, %b with #rope offset 96 inverse : tensor<?x4x256xbf16>, tensor<?x64xf32>, !mla.batch
  %f1 = tensor.collapse_shape %1 [[0], [1, 2]] : tensor<?x4x256xbf16> into tensor<?x1024xbf16>
  %e1 = tensor.expand_shape %f1 [[0], [1, 2]] output_shape [%n, 2, 512] : tensor<?x1024xbf16> into tensor<?x2x512xbf16>
  %y1 = mla.head_project %e1, %g : tensor<?x2x512xbf16>, tensor<2x64x512xbf16> -> tensor<?x2x64xbf16>
  %2 = mla.rope %x, %t, %b with #rope offset 192 inverse : tensor<?x4x256xbf16>, tensor<?x64xf32>, !mla.batch
  %f2 = tensor.collapse_shape %2 [[0], [1, 2]] : tensor<?x4x256xbf16> into tensor<?x1024xbf16>
  %e2 = tensor.expand_shape %f2 [[0], [1, 2]] output_shape [%n, 2, 512] : tensor<?x1024xbf16> into tensor<?x2x512xbf16>
  %y2 = mla.head_project %e2, %g : tensor<?x2x512xbf16>, tensor<2x64x512xbf16> -> tensor<?x2x64xbf16>
  return %y0, %y1, %y2, %2, %d : tensor<?x2x64xbf16>, tensor<?x2x64xbf16>, tensor<?x2x64xbf16>, tensor<?x4x256xbf16>, index
}
