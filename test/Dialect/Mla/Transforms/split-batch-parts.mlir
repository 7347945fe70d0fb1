// What is no whole batch is not split.
//
// RUN: mla-opt %s --mla-split-batch | FileCheck %s

!cache = !mla.cache<page_size = 4, fields = [latent: 32, rope: 8], element = bf16, rope_order = interleaved>

// Parts that are there already need the threshold, which stays.

// CHECK-LABEL: func.func @parts
// CHECK-SAME: mla.decode_threshold = 4
// CHECK: mla.batch_part
func.func @parts(%qn: tensor<?x4x16xbf16>, %qp: tensor<?x4x8xbf16>, %c: tensor<?x32xbf16>, %kp: tensor<?x8xbf16>,
    %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %cache: !cache, %batch: !mla.batch) -> tensor<?x4x24xbf16>
    attributes {mla.decode_threshold = 4 : i64} {
  %d = mla.batch_part %batch decodes : <query_len = ?> -> <query_len = ?>
  %0 = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x8xbf16>) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %d : !cache, !mla.batch
      scale 0.2 {form = #mla.form<absorbed>} -> tensor<?x4x24xbf16>
  return %0 : tensor<?x4x24xbf16>
}
