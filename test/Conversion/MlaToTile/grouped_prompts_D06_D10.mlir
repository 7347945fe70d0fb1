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

// Half a tile of two is lost for each prompt; what is left, times the heads and what a full machine
// gains, is compared with the machine's tiles. Queries of up to a third of a tile stay in pieces.
// CHECK-LABEL: tile.plan @prompt
// CHECK-DAG: %[[SMS:.*]] = tile.dim "num_sms"
// CHECK-DAG: %[[TOKENS:.*]] = tile.dim "num_prompt_tokens"
// CHECK-DAG: %[[PROMPTS:.*]] = tile.dim "num_prompts"
// CHECK-DAG: %[[LONGEST:.*]] = tile.dim "max_piece_query_len"
// CHECK-DAG: %[[LIST:.*]] = tile.buffer metadata "prompt_requests"
// CHECK-DAG: %[[STARTS:.*]] = tile.buffer metadata "query_start_loc"
// CHECK: %[[LOST:.*]] = arith.muli %[[PROMPTS]], %c64
// CHECK: %[[FILLED:.*]] = arith.subi %[[TOKENS]], %[[LOST]]
// CHECK: %[[WORK:.*]] = arith.muli %[[FILLED]], %c24
// CHECK: %[[EACH:.*]] = arith.ceildivsi %[[WORK]], %[[SMS]]
// CHECK: %[[PAYS:.*]] = arith.cmpi sgt, %[[EACH]], %c128
// CHECK: tile.prompts %[[PAYS]] above 43
// CHECK: %[[ARE:.*]] = arith.cmpi sgt, %[[PROMPTS]], %c0
// CHECK: scf.if %[[ARE]] {
// CHECK-NEXT: arith.ceildivsi %{{.*}}, %c64
// CHECK-NEXT: tile.launch @grouped_prompts grid(%{{.*}}, %c8, %[[PROMPTS]]) args(%[[LIST]], %[[STARTS]],
// CHECK: }
// CHECK: arith.muli %[[LONGEST]], %c4
// CHECK: tile.launch @grouped_attention
// PLAN-DAG: kernel 'grouped_prompts': schedule pingpong key-block=128
func.func @prompt(%q: tensor<?x8x128xbf16> {mla.input = "q"}, %batch: !any, %k: !keys,
    %v: !values {mla.pool = "values"}) -> (tensor<?x8x64xbf16> {mla.output = "output"}) {
  %o = mla.grouped_attention query(%q : tensor<?x8x128xbf16>) keys(%k : !keys) values(%v : !values)
      over %batch : !any scale 0.088 -> tensor<?x8x64xbf16>
  return %o : tensor<?x8x64xbf16>
}

// Codes are copied first, which has to pay, too: a query of 128 + 500 / 4 rows' worth in a third of
// the time.
// CHECK-LABEL: tile.plan @codes
// CHECK-DAG: %[[PROMPTS:.*]] = tile.dim "num_prompts"
// CHECK-DAG: %[[KEYS:.*]] = tile.dim "num_prompt_keys"
// CHECK-DAG: %[[LIST:.*]] = tile.buffer metadata "prompt_requests"
// CHECK-DAG: %[[STARTS:.*]] = tile.buffer metadata "prompt_key_loc"
// CHECK: %[[FIT:.*]] = arith.cmpi sgt, %[[KEYS]], %c0
// CHECK: %[[PAYS:.*]] = arith.andi %{{.*}}, %[[FIT]]
// CHECK: tile.prompts %[[PAYS]] above 85
// CHECK: scf.if
// CHECK: %[[SIZE:.*]] = arith.muli %[[KEYS]], %c256
// CHECK: %[[K:.*]] = tile.workspace %[[SIZE]] : memref<?xbf16>
// CHECK: %[[V:.*]] = tile.workspace %{{.*}} : memref<?xbf16>
// CHECK: tile.launch @gather grid(%{{.*}}, %[[PROMPTS]], %{{.*}}) args({{.*}}, %[[STARTS]], {{.*}}, %[[K]], %[[V]], %[[LIST]])
// CHECK: tile.launch @grouped_prompts{{.*}} args(%[[LIST]], {{.*}}, %[[STARTS]], %[[KEYS]], %[[K]], %[[V]],
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
// CHECK: tile.prompts %{{.*}} above 85
// CHECK: tile.launch @gather
// CHECK: tile.launch @grouped_prompts
func.func @tiny_pages(%q: tensor<?x8x128xbf16> {mla.input = "q"}, %batch: !any, %kv: !tiny)
    -> (tensor<?x8x64xbf16> {mla.output = "output"}) {
  %o = mla.grouped_attention query(%q : tensor<?x8x128xbf16>) keys(%kv : !tiny) values(%kv : !tiny)
      over %batch : !any scale 0.088 -> tensor<?x8x64xbf16>
  return %o : tensor<?x8x64xbf16>
}

// CHECK-LABEL: tile.plan @narrow_heads
// CHECK: tile.prompts %{{.*}} above 85
// CHECK: tile.launch @gather
// CHECK: tile.launch @grouped_prompts
// PLAN-DAG: kernel 'grouped_prompts_{{[0-9]+}}': schedule pingpong
func.func @narrow_heads(%q: tensor<?x8x96xbf16> {mla.input = "q"}, %batch: !any, %kv: !narrow)
    -> (tensor<?x8x72xbf16> {mla.output = "output"}) {
  %o = mla.grouped_attention query(%q : tensor<?x8x96xbf16>) keys(%kv : !narrow) values(%kv : !narrow)
      over %batch : !any scale 0.088 -> tensor<?x8x72xbf16>
  return %o : tensor<?x8x72xbf16>
}

// Columns that no product has, and few queries at most, are pieces alone.
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

// CHECK: tile.kernel @grouped_prompts(%{{.*}}: memref<?xi32>, %{{.*}}: memref<?xi32>, %{{.*}}: memref<?xi32>, {{.*}}tile.row_count = 3
// CHECK-DAG: %[[HEAD:.*]] = tile.program_id 1
// CHECK: scf.if
// CHECK: %[[CONTEXT:.*]] = arith.subi %{{.*}}, %{{.*}} : index
// CHECK-DAG: %[[KV:.*]] = arith.divui %[[HEAD]], %c4
// CHECK-DAG: %[[OWN:.*]] = arith.addi %[[CONTEXT]], %{{.*}} : index
// CHECK: tile.attend {{.*}} range %c0 to %{{.*}} limit %{{.*}} diagonal %[[OWN]]

// CHECK: tile.kernel @grouped_prompts_[[WINDOW]](
// CHECK: %[[BLOCK:.*]] = arith.divui %{{.*}}, %c64
// CHECK: %[[FIRST:.*]] = arith.muli %[[BLOCK]], %c64
// CHECK: tile.attend {{.*}} range %[[FIRST]] to %{{.*}} behind(%{{.*}}) diagonal
