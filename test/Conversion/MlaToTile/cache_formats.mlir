// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --tile-expand-attend --cse --split-input-file | FileCheck %s
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --tile-expand-attend --cse --split-input-file | FileCheck %s

// A23. One scale per layer, bound by the runtime: codes are e4m3(x / scale), the quotient
// by a reciprocal and two FMAs; what a reader gets is round(code * scale).

!cache = !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = half, format = "mla_fp8_tensor">

// CHECK-LABEL: tile.plan @append_A23
// CHECK-DAG: %[[CACHE:.*]] = tile.buffer cache "cache" : memref<?xf8E4M3FN>
// CHECK-DAG: %[[SCALE:.*]] = tile.buffer cache_scale "cache/scale" shape [1] : memref<?xf32>
// CHECK: tile.launch @[[APPEND:append[_0-9]*]] {{.*}} args(%[[CACHE]], %{{.*}}, %{{.*}}, %[[SCALE]]
func.func @append_A23(%latent: tensor<?x512xbf16> {mla.input = "latent"},
                  %k_pe: tensor<?x64xbf16> {mla.input = "k_pe"}, %batch: !mla.batch,
                  %cache: !cache) -> !cache {
  %new = mla.append %latent, %k_pe into %cache, %batch : tensor<?x512xbf16>, tensor<?x64xbf16>
      into <page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = half, format = "mla_fp8_tensor">, <query_len = ?>
  return %new : !cache
}

// CHECK-LABEL: tile.plan @gather_A23
// CHECK: tile.launch @[[GATHER:gather[_0-9]*]]
func.func @gather_A23(%batch: !mla.batch, %cache: !cache)
    -> (tensor<?x512xbf16> {mla.output = "latent"}, tensor<?x64xbf16> {mla.output = "k_pe"}) {
  %chunk = arith.constant 2 : index
  %latent, %k_pe = mla.gather %cache, %batch chunk %chunk
      : <page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = half, format = "mla_fp8_tensor">, <query_len = ?> -> tensor<?x512xbf16>, tensor<?x64xbf16>
  return %latent, %k_pe : tensor<?x512xbf16>, tensor<?x64xbf16>
}

// CHECK: tile.kernel @[[APPEND]]({{.*}} index {tile.divisibility = 16 : i64}
// CHECK: memref.load
// CHECK: arith.divf {{.*}}tile.correctly_rounded{{.*}} : tensor<{{[0-9]+}}xf32>
// CHECK: math.fma
// CHECK: math.fma
// CHECK: arith.truncf {{.*}} to tensor<{{.*}}xf8E4M3FN>
// CHECK: tile.store_slots
// CHECK: tile.kernel @[[GATHER]](
// CHECK: tile.load_paged {{.*}} -> tensor<{{.*}}xf8E4M3FN>
// CHECK: arith.extf
// CHECK: arith.mulf
// CHECK: arith.truncf {{.*}} to tensor<{{.*}}xbf16>

// -----

// B03. 656 bytes: each type of field is a view of the same memory with its own stride;
// scales are 128 elements of f32 into the row, rope keys 264 of bf16.

!cache = !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = half, format = "fp8_ds_mla", scale_rule = power_of_two>

// CHECK-LABEL: tile.plan @rows_of_656_bytes_B03
// CHECK-DAG: tile.buffer cache "cache" : memref<?xf8E4M3FN>
// CHECK-DAG: tile.buffer cache "cache" : memref<?xf32>
// CHECK-DAG: tile.buffer cache "cache" : memref<?xbf16>
// CHECK-DAG: arith.divsi %{{.*}}, %c4
// CHECK-DAG: arith.divsi %{{.*}}, %c2
func.func @rows_of_656_bytes_B03(%latent: tensor<?x512xbf16> {mla.input = "latent"},
                             %k_pe: tensor<?x64xbf16> {mla.input = "k_pe"}, %batch: !mla.batch,
                             %cache: !cache) -> !cache {
  %new = mla.append %latent, %k_pe into %cache, %batch : tensor<?x512xbf16>, tensor<?x64xbf16>
      into <page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = half, format = "fp8_ds_mla", scale_rule = power_of_two>, <query_len = ?>
  return %new : !cache
}
// CHECK: tile.kernel @append
// CHECK-DAG: offset: [0], sizes: [%{{.*}}, 64, 512], strides: [%{{.*}}, 656, 1]
// CHECK-DAG: offset: [264], sizes: [%{{.*}}, 64, 64], strides: [%{{.*}}, 328, 1]
// CHECK: tile.reduce max
// CHECK: arith.divf {{.*}}tile.correctly_rounded
// CHECK: arith.bitcast {{.*}}xf32> to tensor<{{.*}}xi32>
// CHECK: %[[INDEX:.*]] = arith.addi %{{.*}}, %c128
// CHECK: offset: [%[[INDEX]]], sizes: [%{{.*}}, 64, 1], strides: [%{{.*}}, 164, 1]

// -----

// B02. Absorbed attention reads all four groups of a key at once: each scale once for a
// row, as a vector, and by its column an element takes one of them.

!cache = !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = half, format = "fp8_ds_mla">

// CHECK-LABEL: tile.plan @decode_B02
func.func @decode_B02(%q: tensor<?x2x512xbf16> {mla.input = "q"}, %r: tensor<?x2x64xbf16> {mla.input = "r"},
                  %batch: !mla.batch<query_len = 1>, %cache: !cache) -> (tensor<?x2x512xbf16> {mla.output = "output"}) {
  %o = mla.absorbed_attention query(%q, %r : tensor<?x2x512xbf16>, tensor<?x2x64xbf16>)
      over %cache, %batch : <page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = half, format = "fp8_ds_mla">, <query_len = 1>
      scale 0.25 -> tensor<?x2x512xbf16>
  return %o : tensor<?x2x512xbf16>
}
// CHECK: tile.kernel @absorbed_attention
// CHECK-COUNT-4: tile.load_paged {{.*}} -> tensor<64x16xf32>
// CHECK: tile.iota 1 : tensor<64x512xi32>
// CHECK: arith.andi
// CHECK: arith.cmpi eq
// CHECK: arith.select
// CHECK: arith.select
// CHECK: arith.andi
// CHECK: %[[SCALES:.*]] = arith.select
// CHECK: %[[CODES:.*]] = tile.load_paged {{.*}} -> tensor<64x512xf8E4M3FN>
// CHECK: %[[WIDE:.*]] = arith.extf %[[CODES]]
// CHECK: arith.mulf %[[WIDE]], %[[SCALES]] : tensor<64x512xf32>
// CHECK: arith.truncf {{.*}} to tensor<64x512xbf16>

// -----

// C01. Latents and rope keys of a page one behind the other, each with dense rows: rope
// keys of a page of 64 tokens begin 64 * 512 elements into it.

!cache = !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = half, format = "split_ckv_kpe">

// CHECK-LABEL: tile.plan @split_C01
// CHECK: tile.launch @[[SPLIT:append[_0-9]*]]
func.func @split_C01(%latent: tensor<?x512xbf16> {mla.input = "latent"},
                 %k_pe: tensor<?x64xbf16> {mla.input = "k_pe"}, %batch: !mla.batch,
                 %cache: !cache) -> !cache {
  %new = mla.append %latent, %k_pe into %cache, %batch : tensor<?x512xbf16>, tensor<?x64xbf16>
      into <page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = half, format = "split_ckv_kpe">, <query_len = ?>
  return %new : !cache
}

// CHECK: tile.kernel @[[SPLIT]](
// CHECK-DAG: to offset: [0], sizes: [%{{.*}}, 64, 512], strides: [%{{.*}}, 512, 1]
// CHECK-DAG: to offset: [32768], sizes: [%{{.*}}, 64, 64], strides: [%{{.*}}, 64, 1]
