// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --tile-expand-attend --cse | FileCheck %s --check-prefixes=CHECK,GPU
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --tile-expand-attend --cse | FileCheck %s --check-prefixes=CHECK,CPU
// RUN: mla-opt %s --convert-mla-to-tile='target=sm90 fixed-blocks=32' --tile-expand-attend --cse | FileCheck %s --check-prefix=FIXED

// A02, B22, C10, C11, C14. Rows are (query, head) pairs of a request; the latent's
// tile is key and value. Latent 40 wide, rope 8 wide: two loads of a page, each padded
// with zeros. On the GPU one persistent kernel goes over pieces that the runtime
// makes; on the CPU, and where splits are forced, there is a program for each request.

!cache = !mla.cache<page_size = 16, fields = [latent: 40, rope: 8],
                    element = bf16, rope_order = half>

// One query per request: rows are heads.
// CHECK-LABEL: tile.plan @decode_A02_B22_C10_C11 max_query_len 1
// Up to 4 pieces in tiles of 64 rows and 2 blocks of columns, up to 16 as columns of one
// tile, more as rows of tiles with 3 blocks of columns.
// GPU: tile.work keys_per_block 64 rows_per_token 40 rows_per_tile 64 {{.*}} merge_forms [4, 64, 2, 16, 1, 1, 2147483647, 1, 3] merge_programs 3
// CPU-NOT: tile.work
// CHECK: %[[CACHE:.*]] = tile.buffer cache "cache"
// GPU: %[[TOKENS:.*]] = tile.dim "partial_tokens"
// GPU: %[[SEQ_LENS:.*]] = tile.buffer metadata "seq_lens"
// GPU: %[[STARTS:.*]] = tile.buffer metadata "work_starts"
// GPU: %[[ITEMS:.*]] = tile.buffer metadata "work_items"
// GPU: %[[PARTS:.*]] = tile.dim "num_parts"
// GPU: %[[MERGE_STARTS:.*]] = tile.buffer metadata "merge_starts"
// GPU: %[[MERGES:.*]] = tile.dim "num_merges"
// GPU: %[[PROGRAMS:.*]] = tile.dim "num_merge_programs"
// GPU: %[[SIZE:.*]] = arith.muli %[[TOKENS]], %c1600
// A piece's output has the type of the output, its LSE is f32.
// GPU: %[[PARTIAL:.*]] = tile.workspace %[[SIZE]] : memref<?xbf16>
// GPU: %[[LSE:.*]] = tile.workspace %{{.*}} : memref<?xf32>
// GPU: tile.launch @absorbed_attention grid(%c1{{[_0-9]*}}, %[[PARTS]], %c1{{[_0-9]*}}) dependent args(%[[CACHE]], {{.*}}, %[[SEQ_LENS]], %[[STARTS]], %[[ITEMS]], %[[PARTIAL]], %[[LSE]])
// One kernel merges, whatever the numbers of pieces; with fixed blocks, too: a request's
// own number decides between the forms, which sum in different orders.
// GPU: %[[ANY:.*]] = arith.cmpi sgt, %[[MERGES]], %c0
// GPU: scf.if %[[ANY]] {
// GPU:   tile.launch @merge_partials grid(%[[PROGRAMS]], %c1{{[_0-9]*}}, %c1{{[_0-9]*}}) dependent args(%{{.*}}, %[[PARTIAL]], %[[LSE]], %{{.*}}, %[[MERGE_STARTS]])
// FIXED: tile.work {{.*}} fixed_blocks 32 merge_forms [4, 64, 2, 16, 1, 1, 2147483647, 1, 3]
// FIXED: tile.launch @merge_partials
// FIXED-NOT: tile.launch @merge_many
// CPU: %[[B:.*]] = tile.dim "num_requests"
// CPU: tile.launch @absorbed_attention grid(%c3{{[_0-9]*}}, %[[B]], %c1{{[_0-9]*}}) args(%[[CACHE]]
func.func @decode_A02_B22_C10_C11(%q: tensor<?x40x40xbf16> {mla.input = "q"}, %q_pe: tensor<?x40x8xbf16> {mla.input = "q_pe"},
                  %batch: !mla.batch<query_len = 1>, %cache: !cache)
    -> (tensor<?x40x40xbf16> {mla.output = "output"}) {
  %o = mla.absorbed_attention query(%q, %q_pe : tensor<?x40x40xbf16>, tensor<?x40x8xbf16>)
      over %cache, %batch : <page_size = 16, fields = [latent: 40, rope: 8], element = bf16, rope_order = half>, <query_len = 1>
      scale 0.25 -> tensor<?x40x40xbf16>
  return %o : tensor<?x40x40xbf16>
}

// Splits: partials in workspaces, f32, then one merge into the output.
// CHECK-LABEL: tile.plan @split_C14 {
// CHECK: %[[T:.*]] = tile.dim "num_tokens"
// CHECK: %[[SPLITS:.*]] = tile.dim "num_sms"
// CHECK: %[[OUTPUT:.*]] = tile.buffer output "output" elements %{{.*}} : memref<?xbf16>
// CHECK: %[[ROWS:.*]] = arith.muli %[[SPLITS]], %[[T]]
// CHECK: %[[SIZE:.*]] = arith.muli %[[ROWS]], %c1600
// CHECK: %[[PARTIAL:.*]] = tile.workspace %[[SIZE]] : memref<?xf32>
// CHECK: %[[LSE:.*]] = tile.workspace %{{.*}} : memref<?xf32>
// CHECK: tile.launch @absorbed_attention_split grid(%{{.*}}, %{{.*}}, %[[SPLITS]]) args({{.*}}, %[[PARTIAL]], %{{.*}}, %[[LSE]], %{{.*}}, %{{.*}}, %[[SPLITS]])
// CHECK: tile.launch @merge_splits {{.*}} args(%[[T]], %[[SPLITS]], %[[PARTIAL]], %[[LSE]], %[[OUTPUT]])
func.func @split_C14(%q: tensor<?x40x40xbf16> {mla.input = "q"}, %q_pe: tensor<?x40x8xbf16> {mla.input = "q_pe"},
                 %batch: !mla.batch, %cache: !cache)
    -> (tensor<?x40x40xbf16> {mla.output = "output"}) {
  %splits = mla.batch_dim %batch "num_sms" : <query_len = ?>
  %o, %lse = mla.absorbed_attention query(%q, %q_pe : tensor<?x40x40xbf16>, tensor<?x40x8xbf16>)
      over %cache, %batch : <page_size = 16, fields = [latent: 40, rope: 8], element = bf16, rope_order = half>, <query_len = ?>
      splits %splits scale 0.25
      -> tensor<?x?x40x40xf32>, tensor<?x?x40xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
  %y = mla.merge_splits %o, %lse : tensor<?x?x40x40xf32>, tensor<?x?x40xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>> -> tensor<?x40x40xbf16>
  return %y : tensor<?x40x40xbf16>
}

// The body is one description; only the run of key blocks comes from elsewhere.
// CHECK-LABEL: tile.kernel @absorbed_attention(
// GPU: scf.for %[[ITEM:.*]] =
// GPU:   arith.muli %[[ITEM]], %c8
// GPU-COUNT-6: memref.load
// GPU:   %[[IS_ROW:.*]] = arith.cmpi slt
// GPU:   arith.select %[[IS_ROW]], %{{.*}}, %c1
// CHECK: tile.load {{.*}} -> tensor<{{64|16}}x48xbf16>
// CHECK: arith.divsi
// CHECK: %[[SEEN_KEYS:.*]] = arith.addi {{.*}} : tensor<{{64|16}}xi32>
// CHECK: scf.for %[[BLOCK:.*]] = %{{.*}} to %{{.*}} step %c1{{[_0-9]*}} iter_args(
// CHECK: %[[KEY:.*]] = arith.muli %[[BLOCK]], %c64
// CHECK: %[[LATENT:.*]] = tile.load_paged %{{.*}}[%{{.*}} at %[[KEY]], %{{.*}}] {{.*}} -> tensor<64x48xbf16>
// CHECK: %[[SCORES:.*]] = tile.dot %{{.*}}, %[[LATENT]], %{{.*}} transpose_rhs
// CHECK: tile.load_paged {{.*}} -> tensor<64x16xbf16>
// CHECK: %[[ALL:.*]] = tile.dot %{{.*}}, %{{.*}}, %[[SCORES]] transpose_rhs
// CHECK: tile.broadcast %[[SEEN_KEYS]]
// The mask is on scores as they are; scale and log2(e) are part of the exponent.
// CHECK: %[[MASKED:.*]] = arith.select %{{.*}}, %[[ALL]],
// CHECK: tile.reduce max %[[MASKED]]
// CHECK: %[[SCALED:.*]] = arith.mulf %[[MASKED]],
// CHECK: arith.subf %[[SCALED]],
// CHECK: tile.dot %{{.*}}, %[[LATENT]], %{{.*}} : tensor<{{64|16}}x64xbf16>, tensor<64x48xbf16>
// CHECK: %[[RECIPROCAL:.*]] = arith.divf {{.*}} : tensor<{{64|16}}xf32>
// CHECK: tile.broadcast %[[RECIPROCAL]]
// GPU: %[[WHOLE:.*]] = arith.cmpi slt, %{{.*}}, %c0
// GPU: scf.if %[[WHOLE]] {
// CHECK: arith.truncf
// CHECK: tile.store
// GPU: } else {
// GPU: tile.store {{.*}} memref<?x40xbf16
// GPU: tile.store {{.*}} memref<?xf32

// A program's run: from a unit of the first merge to before a unit of the last, none of
// them if the last is -1. The number of pieces selects the form.
// GPU-LABEL: tile.kernel @merge_partials(
// GPU-SAME: tile.triggers_dependents, tile.waits_for_dependency
// GPU: %[[FIRST_ITEM:.*]] = arith.index_cast
// GPU: %[[FIRST_UNIT:.*]] = arith.index_cast
// GPU: %[[LAST_ITEM:.*]] = arith.index_cast
// GPU: %[[END_UNIT:.*]] = arith.index_cast
// GPU: %[[BEHIND:.*]] = arith.addi %[[LAST_ITEM]], %c1
// GPU: scf.for %[[ITEM:.*]] = %[[FIRST_ITEM]] to %[[BEHIND]] step %c1
// GPU: %[[IS_LATER:.*]] = arith.cmpi slt, %[[FIRST_ITEM]], %[[ITEM]]
// GPU: %[[BEGIN:.*]] = arith.select %[[IS_LATER]], %c0{{[_0-9]*}}, %[[FIRST_UNIT]]
// GPU: %[[IS_BEFORE:.*]] = arith.cmpi slt, %[[ITEM]], %[[LAST_ITEM]]
// GPU: %[[END:.*]] = arith.select %[[IS_BEFORE]], %c2147483647{{[_0-9]*}}, %[[END_UNIT]]
// GPU: arith.cmpi slt, %[[FORM:.*]], %c1
// GPU: scf.if
// GPU: %[[UNITS:.*]] = arith.muli
// GPU: %[[LIMIT:.*]] = arith.minsi %[[END]], %[[UNITS]]
// GPU: scf.for %{{.*}} = %[[BEGIN]] to %[[LIMIT]] step
// Few: two pieces in a turn, whose loads stand before the first use. A piece behind
// the last is a view without rows, and -inf by its index.
// GPU: scf.for %[[FIRST:.*]] = %c0{{.*}} to %[[PIECES:.*]] step %c2{{.*}} iter_args(
// GPU: %[[NEXT:.*]] = arith.addi %[[FIRST]], %c1
// GPU: %[[IS_NEXT:.*]] = arith.cmpi slt, %[[NEXT]], %[[PIECES]]
// GPU: %[[NEXT_ROWS:.*]] = arith.select %[[IS_NEXT]], %{{.*}}, %c0
// GPU: sizes: [%[[NEXT_ROWS]]], strides: [1]
// GPU: tile.load {{.*}} -> tensor<64xf32>
// GPU-NOT: math
// GPU: tile.load {{.*}} -> tensor<64x32xbf16>
// GPU: tile.load {{.*}} -> tensor<64x32xbf16>
// GPU: math.absf
// GPU-NOT: tile.load
// GPU: scf.yield
// Some: a column of a tile is a piece.
// GPU: arith.cmpi slt, %[[FORM]], %c2
// GPU: scf.if
// GPU: tile.load {{.*}} -> tensor<64x16xf32>
// Many: a row of a tile is a piece. The first tile is loaded ahead, and not rescaled; the
// rows are weighed, by vectors, before their columns are added.
// GPU: } else {
// GPU: sizes: [%[[PIECES]]], strides: [%{{.*}}]
// GPU: sizes: [%[[PIECES]], %{{.*}}], strides: [%{{.*}}, 1]
// GPU: %[[TILES:.*]] = arith.ceildivsi %[[PIECES]], %c64
// GPU: tile.load {{.*}} -> tensor<64xf32>
// GPU: tile.load {{.*}} -> tensor<64x[[C:.*]]xbf16>
// GPU-NOT: math.exp
// GPU: scf.for %{{.*}} = %c1{{.*}} to %[[TILES]] step
// GPU: scf.yield
// GPU: tile.reduce max %{{.*}} dim 0 : tensor<64x8xf32> -> tensor<8xf32>
// GPU: tile.reduce sum %{{.*}} dim 0 : tensor<64x8xf32> -> tensor<8xf32>
// GPU: tile.reduce sum %{{.*}} dim 0 : tensor<64x[[C]]xf32> -> tensor<[[C]]xf32>
// GPU-NOT: arith.divf
// GPU: tile.store {{.*}} : tensor<[[C]]xbf16>

// Rows of several queries: row / 40 is the query, which sees one key more than
// the one before. A split's range is whole blocks.
// CHECK-LABEL: tile.kernel @absorbed_attention_split(
// CHECK: arith.ceildivsi %{{.*}}, %c64
// CHECK: arith.divui %{{.*}}, %{{.*}} : i32
// CHECK: arith.minsi
// CHECK: %[[ROW:.*]] = arith.addi %{{.*}} : tensor<{{64|16}}xi32>
// CHECK: %[[HEADS:.*]] = arith.constant dense<40> : tensor<{{64|16}}xi32>
// CHECK: arith.divsi %[[ROW]], %[[HEADS]]
