// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse | FileCheck %s --check-prefixes=CHECK,GPU
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --canonicalize --cse | FileCheck %s --check-prefixes=CHECK,CPU
// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse --tile-plan-schedules 2>&1 | FileCheck %s --check-prefix=PLAN
// RUN: mla-opt %s --mla-split-kv=num-splits=3 --convert-mla-to-tile=target=cpu --canonicalize --cse | FileCheck %s --check-prefix=SPLIT

// Heads that share keys. A KV head is an offset in rows of all heads; keys and values come from
// pools of their own, each with its table. Nothing says that there are groups but strides.

!keys = !mla.cache<page_size = 16, fields = [key: 8x128], element = bf16, format = "k_nhd">
!values = !mla.cache<page_size = 32, fields = [value: 8x64], element = bf16, format = "v_nhd">
!both = !mla.cache<page_size = 16, fields = [key: 2x40, value: 2x72], element = bf16, format = "kv_nhd">
!one = !mla.batch<query_len = 1>
!any = !mla.batch

// One query: the 4 heads of a group are a tile's rows; 8 programs side by side for the KV heads.
// 8 runs of 4 rows a token, each with tiles of its own: what the runtime divides for its parts.
// CHECK-LABEL: tile.plan @decode max_query_len 1
// GPU: tile.work keys_per_block 64 rows_per_token 32 rows_per_tile 64 runs_per_token 8 {{.*}} merge_forms
// CHECK-DAG: %[[KT:.*]] = tile.buffer metadata "block_table"
// CHECK-DAG: %[[VT:.*]] = tile.buffer metadata "values/block_table"
// CHECK-DAG: %[[VB:.*]] = tile.dim "values/max_blocks_per_request"
// GPU: tile.launch @grouped_attention grid(%c8, %{{.*}}) dependent args(%{{.*}}, %[[KT]], {{.*}}, %[[VT]], %[[VB]],
// CPU: tile.launch @grouped_attention grid(%c8, %{{.*}}) args(%{{.*}}, %[[KT]], {{.*}}, %[[VT]], %[[VB]],
// PLAN-DAG: kernel 'grouped_attention': schedule stream {{.*}}; not simple: 
func.func @decode(%q: tensor<?x32x128xbf16> {mla.input = "q"}, %batch: !one, %k: !keys,
    %v: !values {mla.pool = "values"}) -> (tensor<?x32x64xbf16> {mla.output = "output"}) {
  %o = mla.grouped_attention query(%q : tensor<?x32x128xbf16>) keys(%k : !keys) values(%v : !values)
      over %batch : !one scale 0.088 -> tensor<?x32x64xbf16>
  return %o : tensor<?x32x64xbf16>
}

// Any queries: rows are pairs of a query and one of the 2 heads of a group; one pool has one table. The first
// key of the tile begins the range, so that what lies before a window is never read.
// CHECK-LABEL: tile.plan @window
// GPU: tile.work keys_per_block 64 rows_per_token 4 rows_per_tile 64 runs_per_token 2 {{.*}} window 100 merge_forms
// SPLIT: tile.launch @grouped_attention{{.*}}_split grid(%{{.*}}, %{{.*}}, %c3{{.*}})
// SPLIT: tile.launch @merge_splits
// PLAN-DAG: kernel 'grouped_attention{{.*}}': schedule stream {{.*}}not relay: its values have rows of their own
func.func @window(%q: tensor<?x4x40xbf16> {mla.input = "q"}, %batch: !any, %kv: !both {mla.pool = "both"})
    -> (tensor<?x4x72xbf16> {mla.output = "output"}) {
  %o = mla.grouped_attention query(%q : tensor<?x4x40xbf16>) keys(%kv : !both) values(%kv : !both)
      over %batch : !any window 100 scale 0.158 -> tensor<?x4x72xbf16>
  return %o : tensor<?x4x72xbf16>
}

// Few rows are one tile, more are two side by side that share keys; queries, outputs and sinks are in
// groups of the 4 heads. A sink is what a request's first piece starts from; scores are capped.
// PLAN-DAG: kernel 'grouped_attention{{.*}}': schedule stream {{.*}}; not simple: 
func.func @prompt(%q: tensor<?x32x128xbf16> {mla.input = "q"}, %sink: tensor<32xf32> {mla.input = "sink"},
    %batch: !any, %k: !keys, %v: !values {mla.pool = "values"}) -> (tensor<?x32x64xbf16> {mla.output = "output"}) {
  %o = mla.grouped_attention query(%q : tensor<?x32x128xbf16>) keys(%k : !keys) values(%v : !values)
      over %batch : !any sink(%sink : tensor<32xf32>) softcap 50.0 scale 0.088 -> tensor<?x32x64xbf16>
  return %o : tensor<?x32x64xbf16>
}

// CHECK: tile.kernel @grouped_attention(
// CHECK: %[[X:.*]] = tile.program_id 0
// CHECK: %[[HEAD:.*]] = arith.remui %[[X]], %c8
// CHECK-DAG: %[[KOFF:.*]] = arith.muli %[[HEAD]], %c128
// CHECK-DAG: %[[VOFF:.*]] = arith.muli %[[HEAD]], %c64
// CHECK-DAG: memref.reinterpret_cast %arg0 to offset: [%[[KOFF]]], sizes: [%{{.*}}, 16, 128], strides: [%{{.*}}, 1024, 1]
// CHECK-DAG: memref.reinterpret_cast %arg5 to offset: [%[[VOFF]]], sizes: [%{{.*}}, 32, 64], strides: [%{{.*}}, 512, 1]
// GPU: tile.attend queries(%{{.*}} : tensor<64x128xbf16>) {{.*}} value_pages({{.*}}) range {{.*}} unit = 64 : i64} -> tensor<64x64xf32>
// CPU: tile.attend queries(%{{.*}} : tensor<4x128xbf16>) {{.*}} value_pages({{.*}}) range {{.*}} unit = 1 : i64} -> tensor<4x64xf32>
// CPU-NOT: behind
// CHECK: tile.kernel @grouped_attention_0(
// 2 runs of two heads, rows of a tile query by query.
// CHECK: %[[Y:.*]] = tile.program_id 0
// CHECK: %[[HEAD2:.*]] = arith.remui %[[Y]], %c2
// CHECK: tile.load %{{.*}} : memref<?x2x40xbf16, strided<[160, 40, 1], offset: ?>> -> tensor<{{64|16}}x48xbf16>
// CHECK: tile.attend {{.*}} values(%{{.*}} : memref<?x16x72xbf16, strided<[?, 144, 1], offset: ?>>) {{.*}} sees({{.*}}) behind({{.*}}) {block = 64 : i64, scale = 1.580000e-01 : f64, unit = 1 : i64} -> tensor<{{[0-9]+x(80|128)}}xf32>
// CHECK: tile.kernel @grouped_attention_{{[12]}}(
// CHECK: %[[Z:.*]] = tile.program_id 0
// CHECK: %[[HEAD3:.*]] = arith.remui %[[Z]], %c8
// CHECK: tile.load %{{.*}} : memref<?x4x128xbf16, strided<[4096, 128, 1], offset: ?>> -> tensor<{{.*}}x128xbf16>
// CHECK: %[[SINKS:.*]] = tile.load %{{.*}} : memref<{{.*}}x4xf32, strided<[0, 1], offset: ?>>
// CHECK: tile.attend {{.*}} start(%{{.*}}, %{{.*}}, %{{.*}} : tensor<{{.*}}xf32>, tensor<{{.*}}xf32>, tensor<{{.*}}x64xf32>) {block = 64 : i64, scale = {{.*}} : f64, softcap = 5.000000e+01 : f64
