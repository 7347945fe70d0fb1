// Weights that only products read stay codes, with their scales beside them.
//
// RUN: mla-opt %s --split-input-file --mla-keep-codes | FileCheck %s
// RUN: mla-opt %s --split-input-file --mla-keep-codes=latents-only | FileCheck %s --check-prefix=LATENTS
// RUN: mla-opt %s --split-input-file --mla-keep-codes=ranks=2 | FileCheck %s --check-prefix=RANKS
// RUN: mla-opt %s --split-input-file --mla-keep-codes=machine=h200 | FileCheck %s --check-prefix=COST
// RUN: mla-opt %s --split-input-file --mla-keep-codes=machine=cpu | FileCheck %s --check-prefix=NONE
// RUN: not mla-opt %s --split-input-file --mla-keep-codes=machine=h300 2>&1 | FileCheck %s --check-prefix=MACHINE
// NONE-NOT: f8E4M3FN
// MACHINE: mla-keep-codes: no machine 'h300'
// RUN: not mla-opt %s --split-input-file --mla-keep-codes=ranks=0 2>&1 | FileCheck %s --check-prefix=NORANKS
// NORANKS: mla-keep-codes: expected ranks >= 1, got 0

module attributes {mla.weight_scales = array<i64: 128, 128>} {
// The latent's rows are no multiple of a block's, which is no cut of any rank's.
// CHECK-LABEL: func.func @products
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<192x256xf8E4M3FN> {mla.weight = "a.weight"}, %[[AS:[a-z0-9]+]]: tensor<2x2xf32> {mla.weight = "a.weight_scale_inv"}, %{{[a-z0-9]+}}: tensor<128xbf16>
// CHECK-SAME: tensor<384x128xf8E4M3FN> {mla.weight = "b.weight"}, %{{[a-z0-9]+}}: tensor<3x1xf32> {mla.weight = "b.weight_scale_inv"}
// CHECK: %[[W:.*]] = mla.scaled_weight %[[A]], %[[AS]] block [128, 128]
// CHECK: mla.latent_project %{{.*}}, %[[W]], %
// LATENTS-LABEL: func.func @products
// LATENTS-SAME: tensor<192x256xf8E4M3FN>
// LATENTS-SAME: tensor<384x128xbf16> {mla.weight = "b.weight"}
// RANKS-LABEL: func.func @products
// RANKS-SAME: tensor<192x256xf8E4M3FN>
// RANKS-SAME: tensor<384x128xf8E4M3FN>
func.func @products(%x: tensor<?x256xbf16>, %a: tensor<192x256xbf16> {mla.weight = "a.weight"},
                    %g: tensor<128xbf16> {mla.weight = "g.weight"},
                    %b: tensor<384x128xbf16> {mla.weight = "b.weight"})
    -> (tensor<?x2x128xbf16>, tensor<?x2x64xbf16>, tensor<?x64xbf16>) {
  %c, %t = mla.latent_project %x, %a, %g eps 1.0e-6
      : tensor<?x256xbf16>, tensor<192x256xbf16>, tensor<128xbf16> -> tensor<?x128xbf16>, tensor<?x64xbf16>
  %e = tensor.expand_shape %b [[0, 1], [2]] output_shape [2, 192, 128] : tensor<384x128xbf16> into tensor<2x192x128xbf16>
  %n = tensor.extract_slice %e[0, 0, 0] [2, 128, 128] [1, 1, 1] : tensor<2x192x128xbf16> to tensor<2x128x128xbf16>
  %r = tensor.extract_slice %e[0, 128, 0] [2, 64, 128] [1, 1, 1] : tensor<2x192x128xbf16> to tensor<2x64x128xbf16>
  %q = mla.project %c, %n : tensor<?x128xbf16>, tensor<2x128x128xbf16> -> tensor<?x2x128xbf16>
  %p = mla.project %c, %r : tensor<?x128xbf16>, tensor<2x64x128xbf16> -> tensor<?x2x64xbf16>
  return %q, %p, %t : tensor<?x2x128xbf16>, tensor<?x2x64xbf16>, tensor<?x64xbf16>
}
}

// -----

module attributes {mla.weight_scales = array<i64: 128, 128>} {
// What another function reads per head is no code here either; a slice that begins inside of 64 rows has
// several scales in a tile; half of 192 rows is no whole block.
// CHECK-LABEL: func.func @one
// CHECK-SAME: tensor<128x128xbf16> {mla.weight = "shared.weight"}
// CHECK-SAME: tensor<192x128xf8E4M3FN> {mla.weight = "cut.weight"}
// CHECK-LABEL: func.func @other
// CHECK-SAME: tensor<128x128xbf16> {mla.weight = "shared.weight"}
// CHECK-SAME: tensor<192x128xbf16> {mla.weight = "odd.weight"}
// RANKS-LABEL: func.func @one
// RANKS-SAME: tensor<192x128xbf16> {mla.weight = "cut.weight"}
func.func @one(%x: tensor<?x128xbf16>, %w: tensor<128x128xbf16> {mla.weight = "shared.weight"},
               %v: tensor<192x128xbf16> {mla.weight = "cut.weight"}) -> (tensor<?x128xbf16>, tensor<?x192xbf16>) {
  %y = mla.project %x, %w : tensor<?x128xbf16>, tensor<128x128xbf16> -> tensor<?x128xbf16>
  %z = mla.project %x, %v : tensor<?x128xbf16>, tensor<192x128xbf16> -> tensor<?x192xbf16>
  return %y, %z : tensor<?x128xbf16>, tensor<?x192xbf16>
}
func.func @other(%x: tensor<?x1x128xbf16>, %z: tensor<?x128xbf16>,
                 %w: tensor<128x128xbf16> {mla.weight = "shared.weight"},
                 %o: tensor<192x128xbf16> {mla.weight = "odd.weight"}) -> (tensor<?x1x128xbf16>, tensor<?x2x64xbf16>) {
  %e = tensor.expand_shape %w [[0, 1], [2]] output_shape [1, 128, 128] : tensor<128x128xbf16> into tensor<1x128x128xbf16>
  %y = mla.head_project %x, %e contract_rows : tensor<?x1x128xbf16>, tensor<1x128x128xbf16> -> tensor<?x1x128xbf16>
  %f = tensor.expand_shape %o [[0, 1], [2]] output_shape [2, 96, 128] : tensor<192x128xbf16> into tensor<2x96x128xbf16>
  %s = tensor.extract_slice %f[0, 32, 0] [2, 64, 128] [1, 1, 1] : tensor<2x96x128xbf16> to tensor<2x64x128xbf16>
  %q = mla.project %z, %s : tensor<?x128xbf16>, tensor<2x64x128xbf16> -> tensor<?x2x64xbf16>
  return %y, %q : tensor<?x1x128xbf16>, tensor<?x2x64xbf16>
}
}

// -----

// Blocks of 48 rows: a tile of 64 has scales of two.
module attributes {mla.weight_scales = array<i64: 48, 56>} {
// CHECK-LABEL: func.func @small_blocks
// CHECK-SAME: tensor<128x128xbf16>
func.func @small_blocks(%x: tensor<?x128xbf16>, %w: tensor<128x128xbf16> {mla.weight = "w.weight"}) -> tensor<?x128xbf16> {
  %y = mla.project %x, %w : tensor<?x128xbf16>, tensor<128x128xbf16> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

module attributes {mla.weight_scales = array<i64: 1, 0>} {
// CHECK-LABEL: func.func @channels
// CHECK-SAME: tensor<128x1xf32> {mla.weight = "w.weight_scale_inv"}
func.func @channels(%x: tensor<?x128xbf16>, %w: tensor<128x128xbf16> {mla.weight = "w.weight"}) -> tensor<?x128xbf16> {
  %y = mla.project %x, %w : tensor<?x128xbf16>, tensor<128x128xbf16> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// What decodes read pays for being codes; a prompt's products would have to write the values first.
module attributes {mla.weight_scales = array<i64: 128, 128>} {
// COST-LABEL: func.func @decode
// COST-SAME: tensor<7168x16384xf8E4M3FN> {mla.weight = "o.weight"}
// COST-LABEL: func.func @prefill
// COST-SAME: tensor<7168x16384xbf16> {mla.weight = "p.weight"}
func.func @decode(%x: tensor<?x16384xbf16>, %w: tensor<7168x16384xbf16> {mla.weight = "o.weight"},
                  %batch: !mla.batch<query_len = 1>) -> tensor<?x7168xbf16> {
  %y = mla.project %x, %w : tensor<?x16384xbf16>, tensor<7168x16384xbf16> -> tensor<?x7168xbf16>
  return %y : tensor<?x7168xbf16>
}
func.func @prefill(%x: tensor<?x16384xbf16>, %w: tensor<7168x16384xbf16> {mla.weight = "p.weight"}) -> tensor<?x7168xbf16> {
  %y = mla.project %x, %w : tensor<?x16384xbf16>, tensor<7168x16384xbf16> -> tensor<?x7168xbf16>
  return %y : tensor<?x7168xbf16>
}
}
