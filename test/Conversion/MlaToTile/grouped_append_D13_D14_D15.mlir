// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --cse | FileCheck %s --check-prefixes=CHECK,SM90
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --cse | FileCheck %s --check-prefixes=CHECK,CPU

// A program has one token and heads of its queries, keys and values: on sm90 some of their pairs, for
// all of which it loads angles once, and everything before it stores. Cosines and sines stand beside
// each other, and where a slot is outside of the pool, no row is written.

!keys = !mla.cache<page_size = 16, fields = [key: 2x64], element = bf16, format = "k_nhd">
!values = !mla.cache<page_size = 64, fields = [value: 2x32], element = bf16, format = "v_nhd">

// CHECK-LABEL: tile.plan @step
// CHECK-DAG: %[[TOKENS:.*]] = tile.dim "num_tokens"
// CHECK-DAG: %[[ROTATED:.*]] = tile.buffer output "rotated"
// SM90: tile.launch @rope_64_append grid(%[[TOKENS]], %c2{{.*}}, %c1{{.*}}) args(%{{.*}}, %[[ROTATED]],
// SM90: tile.launch @rope_64_append_many grid(%[[TOKENS]], %c1{{.*}}, %c1{{.*}}) args(%{{.*}}, %[[ROTATED]],
// CPU: tile.launch @rope_64_append grid(%[[TOKENS]], %c1, %c1) args(%{{.*}}, %[[ROTATED]],
// CHECK-NOT: tile.launch

// CHECK-LABEL: tile.kernel @rope_64_append
// CHECK-COUNT-2: arith.select %{{.*}}, %c2{{.*}}, %c0
// SM90: tile.load {{.*}} tensor<64x16xbf16>
// SM90: memref.reinterpret_cast {{.*}} strides: [0, 2]
// SM90: memref.reinterpret_cast {{.*}} strides: [0, 2]
// SM90-COUNT-2: tile.load {{.*}} tensor<64x16xf16>
// SM90-COUNT-4: tile.load {{.*}} tensor<64x16xbf16>
// SM90-NOT: tile.load
// SM90-COUNT-5: tile.store
// CPU-COUNT-4: tile.store
func.func @step(%q: tensor<?x8x64xbf16> {mla.input = "q"}, %k: tensor<?x2x64xbf16> {mla.input = "k"}, %v: tensor<?x2x32xbf16> {mla.input = "v"},
    %t: tensor<128x32x2xf16> {mla.input = "table"}, %batch: !mla.batch, %keys: !keys, %values: !values {mla.pool = "values"})
    -> (tensor<?x8x64xbf16> {mla.output = "rotated"}, !keys, !values) {
  %rotated, %0, %1 = mla.grouped_append %q, %k, %v
      rope %t with <order = half, dim = 64, theta = 1.0e4, length = 128> offset 0 into %keys values %values, %batch
      : tensor<?x8x64xbf16>, tensor<?x2x64xbf16>, tensor<?x2x32xbf16> rope tensor<128x32x2xf16>
      into <page_size = 16, fields = [key: 2x64], element = bf16, format = "k_nhd">
      values !mla.cache<page_size = 64, fields = [value: 2x32], element = bf16, format = "v_nhd">, <query_len = ?>
  return %rotated, %0, %1 : tensor<?x8x64xbf16>, !keys, !values
}
