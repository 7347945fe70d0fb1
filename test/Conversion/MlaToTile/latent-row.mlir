// RUN: mla-opt %s --mla-join-projections --mla-fuse-append=target=sm90 --mla-sum-parts=target=sm90 --convert-mla-to-tile=target=sm90 --cse | FileCheck %s
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --cse | FileCheck %s --check-prefix=CPU

// C17. Norm, rotation and append of a token's latents are one kernel with a program for each
// token, or for each four of many (LatentRow.cpp), where nothing else uses them.
// Projections by neighbouring rows of each head are one product.

!cache = !mla.cache<page_size = 16, fields = [latent: 64, rope: 32],
                    element = bf16, rope_order = interleaved>

!codes = !mla.cache<page_size = 16, fields = [latent: 64, rope: 32], element = bf16,
                    rope_order = interleaved, format = "mla_fp8_tensor">

// CHECK-LABEL: tile.plan @step_C17
// CHECK: tile.launch @linear_288x64_rows_16
// CHECK-NOT: tile.launch @linear_64x64
// CHECK: tile.launch @rope_32_heads
// CHECK: tile.launch @linear_96x64_rows_16
// CHECK: %[[FEW:.*]] = arith.cmpi sle, %{{.*}}, %c2048
// CHECK: scf.if %[[FEW]]
// CHECK: tile.launch @[[APPEND:append_64]] grid(%{{.*}}, %c1{{.*}}, %c1{{.*}}) dependent
// CHECK: else
// CHECK: arith.ceildivsi %{{.*}}, %c4
// CHECK: tile.launch @[[MANY:append_64_rows_4]] grid(%{{.*}}, %c1{{.*}}, %c1{{.*}}) dependent
// CHECK-NOT: tile.launch @rope_32
// CHECK-NOT: tile.launch @append{{ }}
// CHECK: tile.return

// CPU-LABEL: tile.plan @step_C17
// CPU: tile.launch @linear_64x64
// CPU: tile.launch @linear_32x64
// CPU: tile.launch @rms_norm_64
// CPU: tile.launch @rope_32
// CPU: tile.launch @append
func.func @step_C17(%x: tensor<?x64xbf16> {mla.input = "x"}, %q: tensor<3x96x64xbf16> {mla.weight = "q"},
                %u: tensor<3x64x64xbf16> {mla.weight = "u"},
                %w: tensor<96x64xbf16> {mla.weight = "w"}, %g: tensor<64xbf16> {mla.weight = "g"},
                %batch: !mla.batch, %cache: !cache)
    -> (tensor<?x3x64xbf16> {mla.output = "output"}, tensor<?x3x32xbf16> {mla.output = "pe"}, !cache) {
  %table = mla.rope_table <order = interleaved, dim = 32, theta = 1.000000e+04, length = 64> : tensor<?x32xf32>
  %w_nope = tensor.extract_slice %q[0, 0, 0] [3, 64, 64] [1, 1, 1] : tensor<3x96x64xbf16> to tensor<3x64x64xbf16>
  %w_pe = tensor.extract_slice %q[0, 64, 0] [3, 32, 64] [1, 1, 1] : tensor<3x96x64xbf16> to tensor<3x32x64xbf16>
  %nope = mla.project %x, %w_nope : tensor<?x64xbf16>, tensor<3x64x64xbf16> -> tensor<?x3x64xbf16>
  %pe = mla.project %x, %w_pe : tensor<?x64xbf16>, tensor<3x32x64xbf16> -> tensor<?x3x32xbf16>
  %turned = mla.rope %pe, %table, %batch with <order = interleaved, dim = 32, theta = 1.000000e+04, length = 64>
      : tensor<?x3x32xbf16>, tensor<?x32xf32>, <query_len = ?>
  %latent, %tail = mla.latent_project %x, %w, %g eps 1.0e-6
      : tensor<?x64xbf16>, tensor<96x64xbf16>, tensor<64xbf16> -> tensor<?x64xbf16>, tensor<?x32xbf16>
  %k_pe = mla.rope %tail, %table, %batch with <order = interleaved, dim = 32, theta = 1.000000e+04, length = 64>
      : tensor<?x32xbf16>, tensor<?x32xf32>, <query_len = ?>
  %new = mla.append %latent, %k_pe into %cache, %batch
      : tensor<?x64xbf16>, tensor<?x32xbf16>
      into <page_size = 16, fields = [latent: 64, rope: 32], element = bf16, rope_order = interleaved>, <query_len = ?>
  %z = mla.head_project %nope, %u : tensor<?x3x64xbf16>, tensor<3x64x64xbf16> -> tensor<?x3x64xbf16>
  return %z, %turned, %new : tensor<?x3x64xbf16>, tensor<?x3x32xbf16>, !cache
}

// Two projections of the same input are one product, of few rows and of some hundreds in parts of
// the depth, and one kernel makes both's rows; of very many rows each kind has its own, for four
// rows of which a program appends. No tile has columns of both weights (128 and 96).

// CHECK-LABEL: tile.plan @both
// CHECK: tile.launch @[[JOINT:linear_224x512_rows_16]] grid(%c4{{.*}}, %c4{{.*}}, %c1{{.*}}) args
// CHECK: tile.launch @[[ROWS:sum_rms_norm_128_append_64]] grid(%{{.*}}, %c2{{.*}}, %c1{{.*}}) dependent
// CHECK: arith.cmpi sle, %{{.*}}, %c128
// CHECK: tile.launch @linear_224x512_tile_64x64_parts_4
// CHECK-NEXT: tile.launch @[[ROWS]]
// CHECK: tile.launch @linear_224x512_tile_128x128 grid
// CHECK: tile.launch @rms_norm_row_128_append_64 grid(%{{.*}}, %c2{{.*}}, %c1{{.*}}) dependent
// CHECK: tile.launch @rms_norm_row_128 grid
// CHECK: tile.launch @append_64_rows_4{{.*}} grid
// CHECK: tile.launch @linear_224x512_tile_128x64_parts_4
// CHECK-NEXT: tile.launch @[[ROWS]]
// CHECK: tile.launch @linear_224x512_tile_64x64 grid
// CHECK: tile.launch @rms_norm_row_128_append_64
// CHECK-NOT: tile.launch @linear_128x512
// CHECK-NOT: tile.launch @linear_96x512
// CHECK: tile.return

// CPU-LABEL: tile.plan @both
// CPU: tile.launch @linear_128x512
// CPU: tile.launch @linear_96x512
func.func @both(%x: tensor<?x512xbf16> {mla.input = "x"},
                %v: tensor<128x512xbf16> {mla.weight = "v"}, %h: tensor<128xbf16> {mla.weight = "h"},
                %w: tensor<96x512xbf16> {mla.weight = "w"}, %g: tensor<64xbf16> {mla.weight = "g"},
                %batch: !mla.batch, %cache: !cache)
    -> (tensor<?x128xbf16> {mla.output = "output"}, !cache) {
  %table = mla.rope_table <order = interleaved, dim = 32, theta = 1.000000e+04, length = 64> : tensor<?x32xf32>
  %y = mla.latent_project %x, %v, %h eps 1.0e-6
      : tensor<?x512xbf16>, tensor<128x512xbf16>, tensor<128xbf16> -> tensor<?x128xbf16>
  %latent, %tail = mla.latent_project %x, %w, %g eps 1.0e-6
      : tensor<?x512xbf16>, tensor<96x512xbf16>, tensor<64xbf16> -> tensor<?x64xbf16>, tensor<?x32xbf16>
  %k_pe = mla.rope %tail, %table, %batch with <order = interleaved, dim = 32, theta = 1.000000e+04, length = 64>
      : tensor<?x32xbf16>, tensor<?x32xf32>, <query_len = ?>
  %new = mla.append %latent, %k_pe into %cache, %batch
      : tensor<?x64xbf16>, tensor<?x32xbf16>
      into <page_size = 16, fields = [latent: 64, rope: 32], element = bf16, rope_order = interleaved>, <query_len = ?>
  return %y, %new : tensor<?x128xbf16>, !cache
}

// Where only tiles of 64 columns end with the first weight, very many rows, whose tiles are wider,
// are two products.

// CHECK-LABEL: tile.plan @narrow
// CHECK: tile.launch @linear_448x512_rows_16
// CHECK: tile.launch @sum_rms_norm_320_sum_rms_norm_128 grid(%{{.*}}, %c2{{.*}}, %c1{{.*}}) dependent
// CHECK: arith.cmpi sle, %{{.*}}, %c1024
// CHECK: tile.launch @linear_448x512_tile_128x64
// CHECK-NOT: tile.launch @linear_448x512_tile_128x128
// CHECK: tile.launch @linear_320x512_tile_128x192
// CHECK: tile.launch @rms_norm_row_320
// CHECK: tile.launch @linear_128x512_tile_128x128
// CHECK: tile.launch @rms_norm_row_128
// CHECK: tile.return
func.func @narrow(%x: tensor<?x512xbf16> {mla.input = "x"},
                  %v: tensor<320x512xbf16> {mla.weight = "v"}, %h: tensor<320xbf16> {mla.weight = "h"},
                  %w: tensor<128x512xbf16> {mla.weight = "w"}, %g: tensor<128xbf16> {mla.weight = "g"})
    -> (tensor<?x320xbf16> {mla.output = "a"}, tensor<?x128xbf16> {mla.output = "b"}) {
  %y = mla.latent_project %x, %v, %h eps 1.0e-6
      : tensor<?x512xbf16>, tensor<320x512xbf16>, tensor<320xbf16> -> tensor<?x320xbf16>
  %z = mla.latent_project %x, %w, %g eps 1.0e-6
      : tensor<?x512xbf16>, tensor<128x512xbf16>, tensor<128xbf16> -> tensor<?x128xbf16>
  return %y, %z : tensor<?x320xbf16>, tensor<?x128xbf16>
}

// Tiles of 64 columns would have rows of both weights: two products.

// CHECK-LABEL: tile.plan @uneven
// CHECK: tile.launch @linear_96x512_rows_16
// CHECK: tile.launch @sum_rms_norm_64
// CHECK: tile.launch @linear_128x512_rows_16
// CHECK: tile.launch @sum_rms_norm_128
func.func @uneven(%x: tensor<?x512xbf16> {mla.input = "x"},
                  %v: tensor<128x512xbf16> {mla.weight = "v"}, %h: tensor<128xbf16> {mla.weight = "h"},
                  %w: tensor<96x512xbf16> {mla.weight = "w"}, %g: tensor<64xbf16> {mla.weight = "g"})
    -> (tensor<?x64xbf16> {mla.output = "a"}, tensor<?x32xbf16> {mla.output = "b"}, tensor<?x128xbf16> {mla.output = "c"}) {
  %latent, %tail = mla.latent_project %x, %w, %g eps 1.0e-6
      : tensor<?x512xbf16>, tensor<96x512xbf16>, tensor<64xbf16> -> tensor<?x64xbf16>, tensor<?x32xbf16>
  %y = mla.latent_project %x, %v, %h eps 1.0e-6
      : tensor<?x512xbf16>, tensor<128x512xbf16>, tensor<128xbf16> -> tensor<?x128xbf16>
  return %latent, %tail, %y : tensor<?x64xbf16>, tensor<?x32xbf16>, tensor<?x128xbf16>
}

// Latents that something else reads are tensors, too, of the same kernel.

// CHECK-LABEL: tile.plan @shared
// CHECK: tile.launch @[[KEPT:append_kept_64]] grid
// CHECK: tile.launch @append_kept_64_rows_4 grid
// CHECK-NOT: tile.launch
// CHECK: tile.return
func.func @shared(%x: tensor<?x64xbf16> {mla.input = "x"},
                  %w: tensor<96x64xbf16> {mla.weight = "w"}, %g: tensor<64xbf16> {mla.weight = "g"},
                  %batch: !mla.batch, %cache: !cache)
    -> (tensor<?x64xbf16> {mla.output = "output"}, !cache) {
  %table = mla.rope_table <order = interleaved, dim = 32, theta = 1.000000e+04, length = 64> : tensor<?x32xf32>
  %latent, %tail = mla.latent_project %x, %w, %g eps 1.0e-6
      : tensor<?x64xbf16>, tensor<96x64xbf16>, tensor<64xbf16> -> tensor<?x64xbf16>, tensor<?x32xbf16>
  %k_pe = mla.rope %tail, %table, %batch with <order = interleaved, dim = 32, theta = 1.000000e+04, length = 64>
      : tensor<?x32xbf16>, tensor<?x32xf32>, <query_len = ?>
  %new = mla.append %latent, %k_pe into %cache, %batch
      : tensor<?x64xbf16>, tensor<?x32xbf16>
      into <page_size = 16, fields = [latent: 64, rope: 32], element = bf16, rope_order = interleaved>, <query_len = ?>
  return %latent, %new : tensor<?x64xbf16>, !cache
}

// Into codes of one scale, which the kernel gets with the pool.

// CHECK-LABEL: tile.plan @codes
// CHECK: %[[SCALE:.*]] = tile.buffer cache_scale
// CHECK: tile.launch @[[CODES:append_64[_0-9]*]] grid(%{{.*}}) {{.*}}%[[SCALE]]
// CHECK: tile.launch @append_64_rows_4{{.*}}%[[SCALE]]
// CHECK-NOT: tile.launch
// CHECK: tile.return
func.func @codes(%x: tensor<?x64xbf16> {mla.input = "x"},
                 %w: tensor<96x64xbf16> {mla.weight = "w"}, %g: tensor<64xbf16> {mla.weight = "g"},
                 %batch: !mla.batch, %cache: !codes) -> !codes {
  %table = mla.rope_table <order = interleaved, dim = 32, theta = 1.000000e+04, length = 64> : tensor<?x32xf32>
  %latent, %tail = mla.latent_project %x, %w, %g eps 1.0e-6
      : tensor<?x64xbf16>, tensor<96x64xbf16>, tensor<64xbf16> -> tensor<?x64xbf16>, tensor<?x32xbf16>
  %k_pe = mla.rope %tail, %table, %batch with <order = interleaved, dim = 32, theta = 1.000000e+04, length = 64>
      : tensor<?x32xbf16>, tensor<?x32xf32>, <query_len = ?>
  %new = mla.append %latent, %k_pe into %cache, %batch
      : tensor<?x64xbf16>, tensor<?x32xbf16> into !codes, !mla.batch
  return %new : !codes
}

// The slot decides whether there are rows to store, and where.
// CHECK: tile.kernel @[[APPEND]](
// CHECK: %[[SLOT:.*]] = memref.load
// CHECK: arith.cmpi sge
// CHECK: arith.cmpi slt
// CHECK: %[[INSIDE:.*]] = arith.andi
// CHECK: arith.remui
// CHECK: tile.reduce sum
// CHECK: %[[ROWS:.*]] = arith.select %[[INSIDE]]
// CHECK: tile.store

// Of four rows everything is loaded before the first is normalised. Behind the last row
// comes the last one again.
// CHECK: tile.kernel @[[MANY]](
// CHECK: arith.minsi
// CHECK-NOT: tile.reduce
// CHECK: arith.minsi
// CHECK-NOT: tile.reduce
// CHECK: arith.minsi
// CHECK-NOT: tile.reduce
// CHECK: arith.minsi
// CHECK: tile.load
// CHECK: tile.reduce sum

// A rope key's sum of parts is rounded as the product's result is, and then rotated; each kind of
// rows has a branch.
// CHECK: tile.kernel @sum_rms_norm_128_append_64(
// CHECK: else
// CHECK: arith.addf
// CHECK: %[[KEY:.*]] = arith.truncf %{{.*}} : tensor<64x8xf32> to tensor<64x8xbf16>
// CHECK-NEXT: arith.extf %[[KEY]] : tensor<64x8xbf16> to tensor<64x8xf32>
// CHECK: arith.subf

// Kept rows are stored wherever their slot is; those of the cache only where it is inside.
// CHECK: tile.kernel @[[KEPT]](
// CHECK: math.rsqrt
// CHECK: tile.store %{{.*}} : tensor<64x8xbf16>, memref<2x8xbf16, {{.*}}>
// CHECK: tile.store %{{.*}} : tensor<64x8xbf16>, memref<2x8xbf16, {{.*}}>
// CHECK: tile.store %[[ROW:[0-9]+]], %{{.*}} : tensor<64x8xbf16>, memref<8x8xbf16, {{.*}}>
// CHECK: tile.store %[[ROW]], {{.*}} : tensor<64x8xbf16>, memref<?x8xbf16, {{.*}}>

// Both elements of a pair and the latent are rounded before they are divided, by one reciprocal.
// CHECK: tile.kernel @[[CODES]](
// CHECK: memref.load %{{.*}} : memref<?xf32>
// CHECK: %[[FIRST:.*]] = arith.subf
// CHECK-NEXT: %[[ROUNDED:.*]] = arith.truncf %[[FIRST]] : tensor<64x8xf32> to tensor<64x8xbf16>
// CHECK: arith.divf {{.*}}tile.correctly_rounded
// CHECK-NOT: arith.divf
// CHECK: tile.store %{{.*}} : tensor<64x8xf8E4M3FN>, memref<?x8xf8E4M3FN, {{.*}}>
// CHECK-NOT: arith.divf
// CHECK: tile.store %{{.*}} : tensor<64x8xf8E4M3FN>, memref<?x8xf8E4M3FN, {{.*}}>
// CHECK-NOT: arith.divf
// CHECK: tile.store %{{.*}} : tensor<64x8xf8E4M3FN>, memref<?x8xf8E4M3FN, {{.*}}>
