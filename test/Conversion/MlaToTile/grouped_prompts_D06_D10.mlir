// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse | FileCheck %s
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --canonicalize --cse | FileCheck %s --check-prefix=NONE
// RUN: mla-opt %s --convert-mla-to-tile="target=sm90 fixed-blocks=1" --canonicalize --cse | FileCheck %s --check-prefix=NONE
// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse --tile-plan-schedules 2>&1 >/dev/null | FileCheck %s --check-prefix=PLAN

// Queries that fill the machine's tiles have a kernel of their own. On the CPU, and where results
// must not depend on the batch, there is one kernel.
// NONE-NOT: @grouped_prompts

!keys = !mla.cache<page_size = 16, fields = [key: 2x128], element = bf16, format = "k_nhd">
!values = !mla.cache<page_size = 64, fields = [value: 2x64], element = bf16, format = "v_nhd">
!tiny = !mla.cache<page_size = 8, fields = [key: 2x128, value: 2x64], element = bf16, format = "kv_nhd">
!narrow = !mla.cache<page_size = 64, fields = [key: 2x96, value: 2x72], element = bf16, format = "kv_nhd">
!wide = !mla.cache<page_size = 16, fields = [key: 2x320, value: 2x64], element = bf16, format = "kv_nhd">
!codes = !mla.cache<page_size = 8, fields = [key: 2x128, value: 2x64], element = bf16, format = "kv_nhd_fp8">
!any = !mla.batch

// A query of more than a tile's rows, four of each, makes prompts of all requests; the runtime cuts
// their keys.
// CHECK-LABEL: tile.plan @prompt
// CHECK-DAG: %[[PROMPTS:.*]] = tile.dim "num_prompts"
// CHECK-DAG: %[[LONGEST:.*]] = tile.dim "max_piece_query_len"
// CHECK-DAG: %[[PARTS:.*]] = tile.buffer metadata "prompt_parts"
// CHECK-DAG: %[[COUNT:.*]] = tile.dim "num_prompt_parts"
// CHECK-DAG: %[[TOKENS:.*]] = tile.dim "partial_tokens"
// CHECK-DAG: %[[QUERY:.*]] = tile.dim "max_query_len"
// CHECK-DAG: %[[PAYS:.*]] = arith.cmpi sgt, %[[QUERY]], %c16
// CHECK: tile.prompts %[[PAYS]] above 0 items_per_token 2 tokens_per_item 32 keys_per_block 128 item_cost {{.*}} merge_cost {{.*}} partial_cost {{.*}}
// CHECK: %[[ARE:.*]] = arith.cmpi sgt, %[[PROMPTS]], %c0
// CHECK: scf.if %[[ARE]] {
// CHECK: tile.launch @grouped_prompts grid(%c2, %c2, %[[COUNT]]) args(%[[PARTS]],
// CHECK: }
// CHECK: arith.muli %[[LONGEST]], %c4
// CHECK: tile.launch @grouped_attention
// CHECK: tile.launch @merge_partials
// PLAN-DAG: kernel 'grouped_prompts': schedule pingpong key-block=128
func.func @prompt(%q: tensor<?x8x128xbf16> {mla.input = "q"}, %batch: !any, %k: !keys,
    %v: !values {mla.pool = "values"}) -> (tensor<?x8x64xbf16> {mla.output = "output"}) {
  %o = mla.grouped_attention query(%q : tensor<?x8x128xbf16>) keys(%k : !keys) values(%v : !values)
      over %batch : !any scale 0.088 -> tensor<?x8x64xbf16>
  return %o : tensor<?x8x64xbf16>
}

// Codes are copied first, which has to pay, too: 128 + 500 rows' worth in a third of the time, 209 rows.
// CHECK-LABEL: tile.plan @codes
// CHECK-DAG: %[[PROMPTS:.*]] = tile.dim "num_prompts"
// CHECK-DAG: %[[KEYS:.*]] = tile.dim "num_prompt_keys"
// CHECK-DAG: %[[LIST:.*]] = tile.buffer metadata "prompt_requests"
// CHECK-DAG: %[[STARTS:.*]] = tile.buffer metadata "prompt_key_loc"
// CHECK-DAG: %[[PARTS:.*]] = tile.buffer metadata "prompt_parts"
// CHECK: %[[FIT:.*]] = arith.cmpi sgt, %[[KEYS]], %c0
// CHECK: tile.prompts %[[FIT]] above 52
// CHECK: scf.if
// CHECK: %[[SIZE:.*]] = arith.muli %[[KEYS]], %c256
// CHECK: %[[K:.*]] = tile.workspace %[[SIZE]] : memref<?xbf16>
// CHECK: %[[V:.*]] = tile.workspace %{{.*}} : memref<?xbf16>
// CHECK: tile.launch @gather grid(%{{.*}}, %[[PROMPTS]], %{{.*}}) args({{.*}}, %[[STARTS]], {{.*}}, %[[K]], %[[V]], %[[LIST]])
// CHECK: tile.launch @grouped_prompts{{.*}} args(%[[PARTS]], {{.*}}, %[[KEYS]], %[[K]], %[[V]],
// PLAN-DAG: kernel 'grouped_prompts_{{[0-9]+}}': schedule pingpong
func.func @codes(%q: tensor<?x8x128xbf16> {mla.input = "q"}, %batch: !any, %kv: !codes)
    -> (tensor<?x8x64xbf16> {mla.output = "output"}) {
  %o = mla.grouped_attention query(%q : tensor<?x8x128xbf16>) keys(%kv : !codes) values(%kv : !codes)
      over %batch : !any scale 0.088 -> tensor<?x8x64xbf16>
  return %o : tensor<?x8x64xbf16>
}

// The step's batch is one for all attentions: one that has no kernel for prompts leaves none to
// the others.
// CHECK-LABEL: tile.plan @beside_wide
// CHECK-NOT: tile.prompts
// CHECK: tile.return
func.func @beside_wide(%q: tensor<?x8x128xbf16> {mla.input = "q"}, %batch: !any, %k: !keys,
    %v: !values {mla.pool = "values"}, %p: tensor<?x8x320xbf16> {mla.input = "p"}, %kv: !wide {mla.pool = "wide"})
    -> (tensor<?x8x64xbf16> {mla.output = "output"}, tensor<?x8x64xbf16> {mla.output = "other"}) {
  %o = mla.grouped_attention query(%q : tensor<?x8x128xbf16>) keys(%k : !keys) values(%v : !values)
      over %batch : !any scale 0.088 -> tensor<?x8x64xbf16>
  %r = mla.grouped_attention query(%p : tensor<?x8x320xbf16>) keys(%kv : !wide) values(%kv : !wide)
      over %batch : !any scale 0.088 -> tensor<?x8x64xbf16>
  return %o, %r : tensor<?x8x64xbf16>, tensor<?x8x64xbf16>
}

// Pages that no box of 16 rows fits into and columns that are no whole panels are copied, too.
// CHECK-LABEL: tile.plan @tiny_pages
// CHECK: tile.prompts %{{.*}} above 52
// CHECK: tile.launch @gather
// CHECK: tile.launch @grouped_prompts
func.func @tiny_pages(%q: tensor<?x8x128xbf16> {mla.input = "q"}, %batch: !any, %kv: !tiny)
    -> (tensor<?x8x64xbf16> {mla.output = "output"}) {
  %o = mla.grouped_attention query(%q : tensor<?x8x128xbf16>) keys(%kv : !tiny) values(%kv : !tiny)
      over %batch : !any scale 0.088 -> tensor<?x8x64xbf16>
  return %o : tensor<?x8x64xbf16>
}

// CHECK-LABEL: tile.plan @narrow_heads
// CHECK: tile.prompts %{{.*}} above 52
// CHECK: tile.launch @gather
// CHECK: tile.launch @grouped_prompts
// PLAN-DAG: kernel 'grouped_prompts_{{[0-9]+}}': schedule pingpong
func.func @narrow_heads(%q: tensor<?x8x96xbf16> {mla.input = "q"}, %batch: !any, %kv: !narrow)
    -> (tensor<?x8x72xbf16> {mla.output = "output"}) {
  %o = mla.grouped_attention query(%q : tensor<?x8x96xbf16>) keys(%kv : !narrow) values(%kv : !narrow)
      over %batch : !any scale 0.088 -> tensor<?x8x72xbf16>
  return %o : tensor<?x8x72xbf16>
}

// A group of which no part divides a tile's rows has tiles of one head.
// CHECK-LABEL: tile.plan @odd_group
// CHECK: tile.prompts %{{.*}} above 43 items_per_token 6 tokens_per_item 128
func.func @odd_group(%q: tensor<?x6x128xbf16> {mla.input = "q"}, %batch: !any, %k: !keys,
    %v: !values {mla.pool = "values"}) -> (tensor<?x6x64xbf16> {mla.output = "output"}) {
  %o = mla.grouped_attention query(%q : tensor<?x6x128xbf16>) keys(%k : !keys) values(%v : !values)
      over %batch : !any scale 0.088 -> tensor<?x6x64xbf16>
  return %o : tensor<?x6x64xbf16>
}

// One that has a part which does has that part: three tiles for each query's twelve heads.
// CHECK-LABEL: tile.plan @part_of_group
// CHECK: tile.prompts %{{.*}} above 10 items_per_token 6 tokens_per_item 32
// PLAN-DAG: kernel 'grouped_prompts_{{[0-9]+}}': schedule pingpong
func.func @part_of_group(%q: tensor<?x24x128xbf16> {mla.input = "q"}, %batch: !any, %k: !keys,
    %v: !values {mla.pool = "values"}) -> (tensor<?x24x64xbf16> {mla.output = "output"}) {
  %o = mla.grouped_attention query(%q : tensor<?x24x128xbf16>) keys(%k : !keys) values(%v : !values)
      over %batch : !any scale 0.088 -> tensor<?x24x64xbf16>
  return %o : tensor<?x24x64xbf16>
}

// Columns that no product has, and few queries at most, are pieces alone; queries of a known length
// that is more than few have both.
// CHECK-LABEL: tile.plan @wide_heads
// CHECK-NOT: @grouped_prompts
// CHECK: tile.launch @grouped_attention
// CHECK-NOT: tile.launch @grouped_prompts
// CHECK: tile.return
func.func @wide_heads(%q: tensor<?x8x320xbf16> {mla.input = "q"}, %batch: !any, %kv: !wide)
    -> (tensor<?x8x64xbf16> {mla.output = "output"}) {
  %o = mla.grouped_attention query(%q : tensor<?x8x320xbf16>) keys(%kv : !wide) values(%kv : !wide)
      over %batch : !any scale 0.088 -> tensor<?x8x64xbf16>
  return %o : tensor<?x8x64xbf16>
}

// CHECK-LABEL: tile.plan @few_queries
// CHECK-NOT: @grouped_prompts
// CHECK: tile.return
func.func @few_queries(%q: tensor<?x8x128xbf16> {mla.input = "q"}, %batch: !mla.batch<query_len = 4>, %k: !keys,
    %v: !values {mla.pool = "values"}) -> (tensor<?x8x64xbf16> {mla.output = "output"}) {
  %o = mla.grouped_attention query(%q : tensor<?x8x128xbf16>) keys(%k : !keys) values(%v : !values)
      over %batch : !mla.batch<query_len = 4> scale 0.088 -> tensor<?x8x64xbf16>
  return %o : tensor<?x8x64xbf16>
}

// CHECK-LABEL: tile.plan @many_queries
// CHECK: tile.launch @grouped_prompts
// CHECK: tile.launch @grouped_attention
func.func @many_queries(%q: tensor<?x8x128xbf16> {mla.input = "q"}, %batch: !mla.batch<query_len = 32>, %k: !keys,
    %v: !values {mla.pool = "values"}) -> (tensor<?x8x64xbf16> {mla.output = "output"}) {
  %o = mla.grouped_attention query(%q : tensor<?x8x128xbf16>) keys(%k : !keys) values(%v : !values)
      over %batch : !mla.batch<query_len = 32> scale 0.088 -> tensor<?x8x64xbf16>
  return %o : tensor<?x8x64xbf16>
}

// A window's range begins where a block does, up to a block before the tile's first key; no row
// sees what lies before its own first.
// CHECK-LABEL: tile.plan @window
// CHECK: tile.launch @grouped_prompts_[[WINDOW:[0-9]+]] grid
// PLAN-DAG: kernel 'grouped_prompts_{{[0-9]+}}': schedule pingpong key-block=128
func.func @window(%q: tensor<?x8x128xbf16> {mla.input = "q"}, %batch: !any, %k: !keys,
    %v: !values {mla.pool = "values"}) -> (tensor<?x8x64xbf16> {mla.output = "output"}) {
  %o = mla.grouped_attention query(%q : tensor<?x8x128xbf16>) keys(%k : !keys) values(%v : !values)
      over %batch : !any window 100 scale 0.088 -> tensor<?x8x64xbf16>
  return %o : tensor<?x8x64xbf16>
}

// Rows of a tile are four heads of 16 queries; what is behind the loop over keys goes to the output
// or to a partial.
// CHECK: tile.kernel @grouped_prompts(%{{.*}}: memref<?xi32>, {{.*}}tile.row_count = 1
// CHECK-DAG: %[[TILE:.*]] = tile.program_id 0
// CHECK-DAG: %[[KV:.*]] = tile.program_id 1
// CHECK-DAG: %[[QUERY:.*]] = arith.muli %[[TILE]], %c16
// CHECK: scf.if
// CHECK: tile.load %{{.*}} : memref<?x4x128xbf16, strided<[1024, 128, 1], offset: ?>> -> tensor<64x128xbf16>
// CHECK: %[[OWN:.*]] = arith.addi %{{.*}}, %[[QUERY]] : index
// CHECK: tile.attend {{.*}} range %{{.*}} to %{{.*}} limit %{{.*}} diagonal %[[OWN]] {{{.*}}group = 4 : i64
// CHECK: %[[PARTIAL:.*]] = arith.index_cast
// CHECK: %[[WHOLE:.*]] = arith.cmpi slt, %[[PARTIAL]], %c0
// CHECK: scf.if %[[WHOLE]] {
// CHECK: tile.store {{.*}} memref<?x4x64xbf16
// CHECK: } else {
// CHECK: tile.store {{.*}} memref<?x4x64xbf16
// CHECK: tile.store {{.*}} memref<?x4xf32

// CHECK: tile.kernel @grouped_prompts_[[WINDOW]](
// CHECK: %[[BLOCK:.*]] = arith.divui %{{.*}}, %c64
// CHECK: %[[START:.*]] = arith.muli %[[BLOCK]], %c64
// CHECK: %[[FIRST:.*]] = arith.maxsi %[[START]], %{{.*}}
// CHECK: tile.attend {{.*}} range %[[FIRST]] to %{{.*}} behind(%{{.*}}) diagonal
