// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse | FileCheck %s
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --canonicalize --cse | FileCheck %s
// RUN: mla-opt %s --mla-fuse-grouped-append --convert-mla-to-tile=target=cpu --canonicalize --cse | FileCheck %s --check-prefix=FUSED
// RUN: mla-opt %s --mla-fuse-grouped-append --convert-mla-to-tile=target=sm90 --canonicalize --cse | FileCheck %s --check-prefix=FUSED
// RUN: mla-opt %s --mla-lower-to-tile=target=sm90 --tile-plan-schedules --tile-swap-operands --convert-tile-to-sm90 2>/dev/null | FileCheck %s --check-prefix=STREAM

// Keys and values of heads as codes, with a scale of the layer each: they are elements 0 and 1 of one
// buffer. Both appends divide what was rounded to the activations' type; attention multiplies.

!codes = !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x64], element = bf16, format = "kv_nhd_fp8">
#rope = #mla.rope<order = half, dim = 64, theta = 1.0e4, length = 4096>

// CHECK-LABEL: tile.plan @step
// CHECK: tile.buffer cache_scale "cache/scale" shape [2] : memref<?xf32>
// CHECK: tile.launch @append
// CHECK: tile.launch @grouped_attention
// FUSED: tile.launch @rope_64_append
// FUSED-NOT: tile.launch @append
func.func @step(%q: tensor<?x4x64xbf16> {mla.input = "q"}, %k: tensor<?x2x64xbf16> {mla.input = "k"},
    %v: tensor<?x2x64xbf16> {mla.input = "v"}, %t: tensor<4096x64xf32> {mla.input = "table"},
    %batch: !mla.batch<query_len = 1>, %cache: !codes)
    -> (tensor<?x4x64xbf16> {mla.output = "output"}, !codes) {
  %rq = mla.rope %q, %t, %batch with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0
      : tensor<?x4x64xbf16>, tensor<4096x64xf32>, !mla.batch<query_len = 1>
  %rk = mla.rope %k, %t, %batch with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0
      : tensor<?x2x64xbf16>, tensor<4096x64xf32>, !mla.batch<query_len = 1>
  %new = mla.append %rk, %v into %cache, %batch : tensor<?x2x64xbf16>, tensor<?x2x64xbf16> into !codes, !mla.batch<query_len = 1>
  %o = mla.grouped_attention query(%rq : tensor<?x4x64xbf16>) keys(%new : !codes) values(%new : !codes)
      over %batch : !mla.batch<query_len = 1> scale 0.125 -> tensor<?x4x64xbf16>
  return %o, %new : tensor<?x4x64xbf16>, !codes
}

// Rows are rounded to bf16, then divided.
// CHECK: tile.kernel @append
// CHECK-DAG: memref.load %{{.*}}[%c0] : memref<?xf32>
// CHECK-DAG: memref.load %{{.*}}[%c1] : memref<?xf32>
// CHECK: tile.store_slots {{.*}}xf8E4M3FN
// FUSED: tile.kernel @rope_64_append
// FUSED: memref.load %{{.*}}[%c0] : memref<?xf32>
// FUSED: arith.truncf %{{.*}} to tensor<{{.*}}xbf16>
// FUSED: arith.truncf %{{.*}} to tensor<{{.*}}xf8E4M3FN>
// FUSED: memref.load %{{.*}}[%c1] : memref<?xf32>
// FUSED: arith.truncf %{{.*}} to tensor<{{.*}}xf8E4M3FN>

// CHECK: tile.kernel @grouped_attention
// CHECK: tile.attend {{.*}} keys(%{{.*}} : memref<?x16x64xf8E4M3FN, {{.*}}values(%{{.*}} : memref<?x16x64xf8E4M3FN, {{.*}} scales(%{{.*}} : memref<?xf32>)

// A block's keys and values come as codes, which a consumer has in registers when it multiplies: the block is released
// under the first product.
// STREAM: sm90.kernel @grouped_attention
// STREAM: %[[KEYS:.*]] = sm90.ring "keys" {{.*}}tiles = [<64x64xf8E4M3FN>, <64x64xf8E4M3FN>]>
// STREAM: sm90.role "math"
// STREAM: sm90.load_code_words
// STREAM: sm90.load_code_columns
// STREAM: sm90.wgmma %{{.*}} transpose_rhs : tensor<64x64xf16
// STREAM: sm90.release %[[KEYS]]
// STREAM: sm90.reduce max
// STREAM: sm90.wgmma %{{.*}} transpose_rhs : tensor<64x64xf16
