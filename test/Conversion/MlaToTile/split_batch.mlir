// A35, A36, B23, B24: one plan for decodes and prefills. Decodes read the first rows of the
// batch's tables, prefills tables of their own; both leave their results in one buffer, and
// the rows of a padded step that are no tokens stay out of the output (A37).
//
// RUN: mla-opt --mla-import-config="config=%S/../../data/configs/deepseek_v2_lite.json dtype=f32 decode-threshold=1" %s \
// RUN:   --mla-lower-to-tile=target=cpu | FileCheck %s
// RUN: mla-opt --mla-import-config="config=%S/../../data/configs/deepseek_v2_lite.json decode-threshold=4" %s \
// RUN:   --mla-lower-to-tile=target=sm90 | FileCheck %s --check-prefix=GPU

// CHECK: tile.plan @prefill {
// CHECK: tile.plan @step attributes {tile.decode_threshold = 1 : i64} {
// CHECK-DAG: %[[DECODES:.*]] = tile.dim "num_decodes"
// CHECK-DAG: %[[PREFILLS:.*]] = tile.dim "num_prefills"
// CHECK-DAG: %[[ROWS:.*]] = tile.dim "num_prefill_rows"
// CHECK-DAG: %[[DECODED:.*]] = tile.dim "num_decode_tokens"
// CHECK-DAG: tile.buffer metadata "prefill_query_start_loc"
// CHECK-DAG: tile.buffer metadata "prefill_block_table"
// CHECK-DAG: tile.buffer metadata "decode_query_start_loc"
// CHECK-DAG: tile.buffer metadata "output_rows"
// CHECK: tile.launch @gather grid(%{{.*}}, %[[PREFILLS]], %{{.*}})
// CHECK: tile.launch @expanded_attention_causal{{[_0-9]*}} grid(%{{.*}}, %{{.*}}, %[[PREFILLS]])
// CHECK: tile.launch @absorbed_attention{{.*}} grid(%{{.*}}, %[[DECODES]], %{{.*}})
// CHECK: tile.launch @keep_rows
// GPU: tile.plan @step attributes {tile.decode_threshold = 4 : i64} {
// GPU: tile.launch @absorbed_attention
// GPU: tile.launch @keep_rows
module {
}
