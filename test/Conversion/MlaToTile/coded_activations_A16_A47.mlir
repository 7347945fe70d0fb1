// Products of codes and codes: columns first up to 128 rows, then tiles of 128 rows; their sums of 128 of the depth
// are multiplied by scales of their tokens and of the weight's block. A latent's norm makes codes in the pass that it is.
//
// RUN: mla-opt %s --split-input-file --verify-diagnostics --convert-mla-to-tile=target=sm90 --canonicalize --cse | FileCheck %s
// RUN: mla-opt %s --split-input-file --verify-diagnostics --convert-mla-to-tile=target=cpu --canonicalize --cse | FileCheck %s --check-prefix=CPU

// CHECK-LABEL: tile.plan @chain
// CHECK: tile.launch @quantize_128
// CHECK: tile.launch @linear_coded_256x512_rows_16
// CHECK: tile.launch @linear_coded_256x512_rows_64
// CHECK: tile.launch @linear_coded_256x512_rows_128
// CHECK: tile.launch @linear_coded_256x512_tile_128x{{64|128}}
// CHECK: tile.launch @rms_norm_row_256_codes
// CHECK: tile.launch @linear_coded_128x256_rows_16
// CHECK-NOT: dequantise
// Codes are made by the widest accesses that a thread has.
// CHECK-LABEL: tile.kernel @quantize_128
// CHECK-SAME: tile.row_kernel
// CHECK-LABEL: tile.kernel @linear_coded_256x512_rows_16
// CHECK-SAME: memref<?xf8E4M3FN>, %{{[a-z0-9]+}}: memref<?xf8E4M3FN> {tile.invariant}
// CHECK: %[[SUM:.*]]:2 = scf.for {{.*}} iter_args(%[[ACC:.*]] = %cst{{.*}}, %{{.*}} = %cst{{.*}}) -> (tensor<64x16xf32>, tensor<64x16xf32>)
// CHECK: %[[X:.*]] = tile.load %{{.*}} -> tensor<16x128xf8E4M3FN>
// CHECK: %[[W:.*]] = tile.load %{{.*}} -> tensor<64x128xf8E4M3FN>
// CHECK-DAG: %[[PART:.*]] = tile.dot %[[W]], %[[X]], %cst{{.*}} transpose_rhs
// CHECK-DAG: %[[SCALE:.*]] = memref.load %
// CHECK-DAG: %[[TOKENS:.*]] = tile.load %{{.*}} : memref<16xf32, {{.*}} -> tensor<16xf32>
// CHECK: %[[BOTH:.*]] = arith.mulf %[[TOKENS]], %{{.*}} : tensor<16xf32>
// CHECK: %[[FACTOR:.*]] = tile.broadcast %[[BOTH]] dim 0
// CHECK: math.fma %[[PART]], %[[FACTOR]], %[[ACC]]
// CHECK-LABEL: tile.kernel @linear_coded_256x512_tile_128x64
// CHECK: %[[PART:.*]] = tile.dot %{{.*}} -> tensor<64x64xf32>
// CHECK: %[[ROWS:.*]] = tile.load %{{.*}} -> tensor<64xf32>
// CHECK: %[[BOTH:.*]] = arith.mulf %[[ROWS]], %{{.*}} : tensor<64xf32>
// CHECK: %[[FACTOR:.*]] = tile.broadcast %[[BOTH]]
// CHECK: math.fma %[[PART]], %[[FACTOR]], %
// A column for each group of 128, whose halves are two tiles.
// CHECK-LABEL: tile.kernel @rms_norm_row_256_codes
// CHECK: tile.reduce {{ *}}max %{{.*}} dim 0 : tensor<64x16xf32> -> tensor<16xf32>
// CHECK: %[[FIRST:.*]] = arith.truncf %{{.*}} to tensor<64x16xf8E4M3FN>
// CHECK: %[[SECOND:.*]] = arith.truncf %{{.*}} to tensor<64x16xf8E4M3FN>
// CHECK: tile.store %[[FIRST]]
// CHECK: tile.store %[[SECOND]]
//
// CPU-LABEL: tile.plan @chain
// CPU: tile.launch @quantize_128
// CPU: tile.launch @linear_coded_256x512_tile_1x32
// CPU: tile.launch @linear_coded_256x512_tile_16x64
// CPU: tile.launch @rms_norm_256_codes
// CPU-NOT: dequantise
// CPU-LABEL: tile.kernel @linear_coded_256x512_tile_1x32
// CPU: tile.dot %{{.*}}, %{{.*}}, %{{.*}} transpose_rhs : tensor<1x128xf8E4M3FN>, tensor<32x128xf8E4M3FN>
func.func @chain(%x: tensor<?x512xbf16> {mla.input = "x"}, %c: tensor<256x512xf8E4M3FN> {mla.weight = "w.weight"},
                 %s: tensor<2x4xf32> {mla.weight = "w.weight_scale_inv"}, %g: tensor<256xbf16> {mla.weight = "g"},
                 %d: tensor<128x256xf8E4M3FN> {mla.weight = "v.weight"},
                 %t: tensor<1x2xf32> {mla.weight = "v.weight_scale_inv"}) -> (tensor<?x128xbf16> {mla.output = "y"}) {
  %w = mla.scaled_weight %c, %s block [128, 128] : tensor<256x512xf8E4M3FN>, tensor<2x4xf32> -> tensor<256x512xbf16>
  %v = mla.scaled_weight %d, %t block [128, 128] : tensor<128x256xf8E4M3FN>, tensor<1x2xf32> -> tensor<128x256xbf16>
  %xc = mla.coded_rows %x group 128 : tensor<?x512xbf16>
  %q = mla.latent_project %xc, %w, %g eps 1.0e-6 {codes_group = 128 : i64}
      : tensor<?x512xbf16>, tensor<256x512xbf16>, tensor<256xbf16> -> tensor<?x256xbf16>
  %y = mla.project %q, %v : tensor<?x256xbf16>, tensor<128x256xbf16> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

// -----

func.func @values(%x: tensor<?x512xbf16> {mla.input = "x"}, %w: tensor<128x512xbf16> {mla.weight = "w.weight"})
    -> (tensor<?x128xbf16> {mla.output = "y"}) {
  %xc = mla.coded_rows %x group 128 : tensor<?x512xbf16>
  // expected-error@+1 {{expected a weight of codes beside activations of codes}}
  %y = mla.project %xc, %w : tensor<?x512xbf16>, tensor<128x512xbf16> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

// -----

func.func @groups(%x: tensor<?x512xbf16> {mla.input = "x"}, %c: tensor<128x512xf8E4M3FN> {mla.weight = "w.weight"},
                  %s: tensor<1x4xf32> {mla.weight = "w.weight_scale_inv"}) -> (tensor<?x128xbf16> {mla.output = "y"}) {
  %w = mla.scaled_weight %c, %s block [128, 128] : tensor<128x512xf8E4M3FN>, tensor<1x4xf32> -> tensor<128x512xbf16>
  %xc = mla.coded_rows %x group 256 : tensor<?x512xbf16>
  // expected-error@+1 {{expected activations and weights with scales of 128 columns, or of whole rows, in whole tiles, got scales of 256 and 128 columns and a weight of 128 x 512}}
  %y = mla.project %xc, %w : tensor<?x512xbf16>, tensor<128x512xbf16> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

// -----

func.func @read(%x: tensor<?x512xbf16> {mla.input = "x"}) -> (tensor<?x512xbf16> {mla.output = "y"}) {
  // expected-error@+1 {{expected codes that are activations of projections only}}
  %xc = mla.coded_rows %x group 128 : tensor<?x512xbf16>
  // expected-note@+1 {{also read here}}
  %y = mla.rms_norm %xc eps 1.0e-6 : tensor<?x512xbf16> -> tensor<?x512xbf16>
  return %y : tensor<?x512xbf16>
}

// -----

// A token has one scale where a weight has one for each row: the kernel that makes codes has a row, read twice,
// and what each row of the weight has comes behind the sum.
// CHECK-LABEL: tile.plan @rows
// CHECK: tile.launch @quantize_row_512
// CHECK: tile.launch @linear_coded_128x512_rows_16
// CHECK: tile.launch @linear_coded_128x512_tile_128x64
// CHECK-LABEL: tile.kernel @linear_coded_128x512_rows_16
// CHECK: scf.for
// CHECK: tile.dot
// CHECK: %[[TOKENS:.*]] = tile.load %{{.*}} -> tensor<16xf32>
// CHECK: tile.broadcast %[[TOKENS]] dim 0
// CHECK: scf.yield
// CHECK: %[[SUM:.*]] = arith.addf
// CHECK: %[[ROWS:.*]] = tile.load %{{.*}} -> tensor<64xf32>
// CHECK: %[[FACTORS:.*]] = tile.broadcast %[[ROWS]] :
// CHECK: arith.mulf %[[SUM]], %[[FACTORS]]
// CHECK-LABEL: tile.kernel @linear_coded_128x512_tile_128x64
// CHECK: %[[SUM:.*]]:2 = scf.for
// CHECK: tile.dot
// CHECK: %[[ROWS:.*]] = tile.load %{{.*}} -> tensor<64xf32>
// CHECK: tile.broadcast %[[ROWS]]
// CHECK: scf.yield
// CHECK: %[[COLUMNS:.*]] = tile.load %{{.*}} -> tensor<64x64xf32>
// CHECK: arith.mulf %[[SUM]]#0, %[[COLUMNS]]
// CPU-LABEL: tile.plan @rows
// CPU: tile.launch @quantize_rows_512
func.func @rows(%x: tensor<?x512xbf16> {mla.input = "x"}, %c: tensor<128x512xf8E4M3FN> {mla.weight = "w.weight"},
                %s: tensor<128x1xf32> {mla.weight = "w.weight_scale_inv"}) -> (tensor<?x128xbf16> {mla.output = "y"}) {
  %w = mla.scaled_weight %c, %s block [1, 0] : tensor<128x512xf8E4M3FN>, tensor<128x1xf32> -> tensor<128x512xbf16>
  %xc = mla.coded_rows %x group 512 : tensor<?x512xbf16>
  %y = mla.project %xc, %w : tensor<?x512xbf16>, tensor<128x512xbf16> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

// -----

// More rows of a deep product: tiles of 256 and of 128 rows, by ranges of rows. Scales lie in blocks of rows, group by
// group. The last tile begins where it ends with the rows' last block.

// CHECK-LABEL: tile.plan @deep
// CHECK: tile.launch @linear_coded_8192x4096_rows_128
// CHECK: arith.cmpi sle, {{.*}}, %c256
// CHECK: tile.launch @linear_coded_8192x4096_tile_256x128
// CHECK: tile.launch @linear_coded_8192x4096_tile_128x128
// CHECK-LABEL: tile.kernel @quantize_128
// CHECK-DAG: %[[FIRST:.*]] = arith.muli %{{.*}}, %c64 : index
// CHECK-DAG: %[[GROUP:.*]] = arith.muli %{{.*}}, %c128 : index
// CHECK-DAG: %[[BLOCK:.*]] = arith.muli %{{.*}}, %c4096 : index
// CHECK-DAG: %[[LEFT:.*]] = arith.subi %arg3, %[[FIRST]]
// CHECK: %[[SCALES:.*]] = memref.reinterpret_cast %arg2 to offset: [%{{.*}}], sizes: [%[[LEFT]], 1], strides: [1, 1]
// CHECK: tile.store %{{.*}}, %[[SCALES]][%c0, %c0] : tensor<64x16xf32>
// CHECK-LABEL: tile.kernel @linear_coded_8192x4096_tile_256x128
// CHECK: arith.minsi
// CHECK: %[[ROW:.*]] = arith.maxsi
// CHECK: scf.for %[[K:.*]] = %c0 to %c4096 step %c128
// CHECK-COUNT-4: tile.load {{.*}} -> tensor<64x128xf8E4M3FN>
// CHECK: memref.reinterpret_cast %{{.*}} to offset: [%{{.*}}], sizes: [64], strides: [1]
// CHECK-NEXT: tile.load %{{.*}} : memref<64xf32, {{.*}} -> tensor<64xf32>
//
// CPU-LABEL: tile.plan @deep
// CPU-LABEL: tile.kernel @quantize_128
// CPU: memref.reinterpret_cast %arg2 to offset: [%{{.*}}], sizes: [%{{.*}}, 1], strides: [32, 1]
func.func @deep(%x: tensor<?x4096xbf16> {mla.input = "x"}, %c: tensor<8192x4096xf8E4M3FN> {mla.weight = "w.weight"},
                %s: tensor<64x32xf32> {mla.weight = "w.weight_scale_inv"}) -> (tensor<?x8192xbf16> {mla.output = "y"}) {
  %w = mla.scaled_weight %c, %s block [128, 128] : tensor<8192x4096xf8E4M3FN>, tensor<64x32xf32> -> tensor<8192x4096xbf16>
  %xc = mla.coded_rows %x group 128 : tensor<?x4096xbf16>
  %y = mla.project %xc, %w : tensor<?x4096xbf16>, tensor<8192x4096xbf16> -> tensor<?x8192xbf16>
  return %y : tensor<?x8192xbf16>
}
