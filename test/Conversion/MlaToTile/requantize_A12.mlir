// A12: weights become codes by three kernels: largest magnitudes of rows, scales of blocks, codes. Of
// blocks that are rows the first one makes the scales.
//
// RUN: mla-opt %s --split-input-file --verify-diagnostics --convert-mla-to-tile=target=sm90 --canonicalize --cse | FileCheck %s
// RUN: mla-opt %s --split-input-file --verify-diagnostics --convert-mla-to-tile=target=cpu --canonicalize --cse | FileCheck %s

// CHECK-LABEL: tile.plan @prepare
// CHECK: tile.workspace
// CHECK: tile.launch @requantize_peaks_512x128_block_128x128
// CHECK: tile.launch @requantize_scales_512x128_block_128x128
// CHECK: tile.launch @requantize_codes_512x128_block_128x128
// CHECK: tile.launch @requantize_peaks_192x256_block_1x256
// CHECK: tile.launch @requantize_codes_192x256_block_1x256
// CHECK: tile.launch @requantize_peaks_192x256_block_192x256
// CHECK: tile.launch @requantize_scales_192x256_block_192x256
// CHECK: tile.launch @requantize_codes_192x256_block_192x256
// CHECK-LABEL: tile.kernel @requantize_peaks_512x128_block_128x128
// What is contracted lies in rows of the weight: 256 elements apart.
// CHECK: memref.reinterpret_cast %{{.*}}, sizes: [256, 128], strides: [1, 256]
// CHECK: tile.load %{{.*}} -> tensor<64x128xbf16>
// CHECK-LABEL: tile.kernel @requantize_codes_512x128_block_128x128
// CHECK: arith.truncf %{{.*}} : tensor<64x128xf32> to tensor<64x128xf8E4M3FN>
func.func @prepare(%uk: tensor<2x128x256xbf16> {mla.weight = "uk"}, %w: tensor<192x256xbf16> {mla.weight = "w"})
    -> (tensor<512x128xf8E4M3FN> {mla.derived = "a"}, tensor<4x1xf32> {mla.derived = "as"},
        tensor<192x256xf8E4M3FN> {mla.derived = "b"}, tensor<192x1xf32> {mla.derived = "bs"},
        tensor<192x256xf8E4M3FN> {mla.derived = "c"}, tensor<1x1xf32> {mla.derived = "cs"}) {
  %a, %as = mla.requantize %uk block [128, 128] transposed : tensor<2x128x256xbf16> -> tensor<512x128xf8E4M3FN>, tensor<4x1xf32>
  %b, %bs = mla.requantize %w block [1, 0] : tensor<192x256xbf16> -> tensor<192x256xf8E4M3FN>, tensor<192x1xf32>
  %c, %cs = mla.requantize %w block [0, 0] : tensor<192x256xbf16> -> tensor<192x256xf8E4M3FN>, tensor<1x1xf32>
  return %a, %as, %b, %bs, %c, %cs : tensor<512x128xf8E4M3FN>, tensor<4x1xf32>, tensor<192x256xf8E4M3FN>, tensor<192x1xf32>, tensor<192x256xf8E4M3FN>, tensor<1x1xf32>
}

// -----

func.func @prepare(%w: tensor<192x256xbf16> {mla.weight = "w"})
    -> (tensor<192x256xf8E4M3FN> {mla.derived = "b"}, tensor<4x2xf32> {mla.derived = "bs"}) {
  // expected-error@+1 {{expected blocks of all rows, of one, or of a multiple of 64 where heads have whole ones, by all columns or a multiple of 128, got array<i64: 48, 128> of heads of 192 rows}}
  %b, %bs = mla.requantize %w block [48, 128] : tensor<192x256xbf16> -> tensor<192x256xf8E4M3FN>, tensor<4x2xf32>
  return %b, %bs : tensor<192x256xf8E4M3FN>, tensor<4x2xf32>
}
