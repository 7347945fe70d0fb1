// RUN: mla-opt %s --split-input-file --verify-diagnostics

// One case per constraint of TileOps.td.

// expected-error@+1 {{expected argument 0 to be memref<?xT>, index or f32, got 'i32'}}
tile.kernel @kernel_argument(%n: i32) {
  tile.return
}

// -----

tile.kernel @load_offsets(%a: memref<?xbf16>) {
  %c0 = arith.constant 0 : index
  // expected-error@+1 {{expected 1 offsets, got 2}}
  %t = tile.load %a[%c0, %c0] : memref<?xbf16> -> tensor<64xbf16>
  tile.return
}

// -----

tile.kernel @load_rank(%a: memref<?xbf16>) {
  %c0 = arith.constant 0 : index
  // expected-error@+1 {{expected a view of rank 2, got rank 1}}
  %t = tile.load %a[%c0, %c0] : memref<?xbf16> -> tensor<64x64xbf16>
  tile.return
}

// -----

tile.kernel @load_groups(%a: memref<?xbf16>, %n: index) {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %a to offset: [0], sizes: [%n, %n, 64], strides: [512, 64, 1]
      : memref<?xbf16> to memref<?x?x64xbf16, strided<[512, 64, 1]>>
  // expected-error@+1 {{expected groups of a static size (view dimension 1), got 'memref<?x?x64xbf16}}
  %t = tile.load %v[%c0, %c0] : memref<?x?x64xbf16, strided<[512, 64, 1]>> -> tensor<64x64xbf16>
  tile.return
}

// -----

tile.kernel @load_element(%a: memref<?xbf16>) {
  %c0 = arith.constant 0 : index
  // expected-error@+1 {{expected the tile's element type to be the view's, 'bf16', got 'f32'}}
  %t = tile.load %a[%c0] : memref<?xbf16> -> tensor<64xf32>
  tile.return
}

// -----

tile.kernel @load_rows_rank(%a: memref<?xf32>, %i: memref<?xi64>) {
  %c0 = arith.constant 0 : index
  // expected-error@+1 {{expected a view of rank 2, got rank 1}}
  %t = tile.load_rows %a[%i at %c0, %c0] : memref<?xf32>, memref<?xi64> -> tensor<64x32xf32>
  tile.return
}

// -----

tile.kernel @load_paged_page_size(%a: memref<?xbf16>, %table: memref<?xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %pool = memref.reinterpret_cast %a to offset: [0], sizes: [%n, %n, 576], strides: [36864, 576, 1]
      : memref<?xbf16> to memref<?x?x576xbf16, strided<[36864, 576, 1]>>
  // expected-error@+1 {{expected a static page size (pool dimension 1)}}
  %t = tile.load_paged %pool[%table at %c0, %c0] limit %n
      : memref<?x?x576xbf16, strided<[36864, 576, 1]>>, memref<?xi32> -> tensor<64x576xbf16>
  tile.return
}

// -----

tile.kernel @store_element(%a: memref<?xbf16>, %t: f32) {
  %c0 = arith.constant 0 : index
  %tile = tile.splat %t : f32 -> tensor<64xf32>
  // expected-error@+1 {{expected the tile's element type to be the view's, 'bf16', got 'f32'}}
  tile.store %tile, %a[%c0] : tensor<64xf32>, memref<?xbf16>
  tile.return
}

// -----

tile.kernel @store_transposed_vector(%a: memref<?xf32>, %t: f32) {
  %c0 = arith.constant 0 : index
  %tile = tile.splat %t : f32 -> tensor<64xf32>
  // expected-error@+1 {{expected a transposed tile of rank 2, got 'tensor<64xf32>'}}
  tile.store %tile, %a[%c0] transposed : tensor<64xf32>, memref<?xf32>
  tile.return
}

// -----

tile.kernel @store_slots_rank(%a: memref<?xf32>, %slots: memref<?xi64>, %x: f32) {
  %c0 = arith.constant 0 : index
  %tile = tile.splat %x : f32 -> tensor<64x16xf32>
  // expected-error@+1 {{expected a pool of rank 3, got rank 1}}
  tile.store_slots %tile, %a[%slots at %c0, %c0]
      : tensor<64x16xf32>, memref<?xf32>, memref<?xi64>
  tile.return
}

// -----

func.func @dot_elements(%a: tensor<64x16xbf16>, %b: tensor<16x8xf32>, %c: tensor<64x8xf32>) {
  // expected-error@+1 {{expected lhs and rhs of one element type out of bf16, f16, f32, f8E4M3FN, or one of them f8E4M3FN, got 'bf16' and 'f32'}}
  %d = tile.dot %a, %b, %c : tensor<64x16xbf16>, tensor<16x8xf32> -> tensor<64x8xf32>
  return
}

// -----

func.func @dot_mixed_codes(%a: tensor<64x32xbf16>, %b: tensor<32x8xf8E4M3FN>, %c: tensor<64x8xf32>) {
  // expected-error@+1 {{expected 'transpose_rhs' and no 'transpose_lhs' of f8E4M3FN}}
  %d = tile.dot %a, %b, %c : tensor<64x32xbf16>, tensor<32x8xf8E4M3FN> -> tensor<64x8xf32>
  return
}

// -----

func.func @dot_empty(%a: tensor<0x16xbf16>, %b: tensor<8x16xbf16>, %c: tensor<0x8xf32>) {
  // expected-error@+1 {{expected rows, columns and a contraction width above 0, got 0, 8 and 16}}
  %d = tile.dot %a, %b, %c transpose_rhs
      : tensor<0x16xbf16>, tensor<8x16xbf16> -> tensor<0x8xf32>
  return
}

// -----

func.func @dot_contraction(%a: tensor<64x16xbf16>, %b: tensor<16x8xbf16>, %c: tensor<64x16xf32>) {
  // expected-error@+1 {{expected equal contraction widths, got lhs 16 and rhs 8}}
  %d = tile.dot %a, %b, %c transpose_rhs
      : tensor<64x16xbf16>, tensor<16x8xbf16> -> tensor<64x16xf32>
  return
}

// -----

func.func @dot_contraction_of_columns(%a: tensor<16x64xbf16>, %b: tensor<64x8xbf16>, %c: tensor<16x8xf32>) {
  // expected-error@+1 {{expected equal contraction widths, got lhs 16 and rhs 64}}
  %d = tile.dot %a, %b, %c transpose_lhs
      : tensor<16x64xbf16>, tensor<64x8xbf16> -> tensor<16x8xf32>
  return
}

// -----

func.func @dot_accumulator_of_columns(%a: tensor<64x32xbf16>, %b: tensor<64x8xbf16>, %c: tensor<64x8xf32>) {
  // expected-error@+1 {{expected acc tensor<32x8xf32>, got 'tensor<64x8xf32>'}}
  %d = tile.dot %a, %b, %c transpose_lhs
      : tensor<64x32xbf16>, tensor<64x8xbf16> -> tensor<64x8xf32>
  return
}

// -----

func.func @dot_accumulator(%a: tensor<64x16xbf16>, %b: tensor<16x8xbf16>, %c: tensor<64x16xf32>) {
  // expected-error@+1 {{expected acc tensor<64x8xf32>, got 'tensor<64x16xf32>'}}
  %d = tile.dot %a, %b, %c : tensor<64x16xbf16>, tensor<16x8xbf16> -> tensor<64x16xf32>
  return
}

// -----

func.func @reduce_result(%a: tensor<64x16xf32>) {
  // expected-error@+1 {{expected an f32 source and a result of type 'tensor<64xf32>'}}
  %d = tile.reduce max %a : tensor<64x16xf32> -> tensor<16xf32>
  return
}

// -----

func.func @reduce_columns(%a: tensor<64x16xf32>) {
  // expected-error@+1 {{expected an f32 source and a result of type 'tensor<16xf32>'}}
  %d = tile.reduce max %a dim 0 : tensor<64x16xf32> -> tensor<64xf32>
  return
}

// -----

func.func @sum_groups_rank(%a: tensor<64x16xf32>) {
  // expected-error@+1 {{expected a source [M] of f32, got 'tensor<64x16xf32>'}}
  %d = tile.sum_groups %a of 2 : tensor<64x16xf32>
  return
}

// -----

func.func @sum_groups_type(%a: tensor<64xbf16>) {
  // expected-error@+1 {{expected a source [M] of f32, got 'tensor<64xbf16>'}}
  %d = tile.sum_groups %a of 2 : tensor<64xbf16>
  return
}

// -----

func.func @sum_groups_one(%a: tensor<64xf32>) {
  // expected-error@+1 {{expected a power of two of at least 2 that divides 64, got 1}}
  %d = tile.sum_groups %a of 1 : tensor<64xf32>
  return
}

// -----

func.func @sum_groups_three(%a: tensor<48xf32>) {
  // expected-error@+1 {{expected a power of two of at least 2 that divides 48, got 3}}
  %d = tile.sum_groups %a of 3 : tensor<48xf32>
  return
}

// -----

func.func @sum_groups_rest(%a: tensor<40xf32>) {
  // expected-error@+1 {{expected a power of two of at least 2 that divides 40, got 16}}
  %d = tile.sum_groups %a of 16 : tensor<40xf32>
  return
}

// -----

func.func @reduce_dim(%a: tensor<64x16xf32>) {
  // expected-error@+1 {{attribute 'dim' failed to satisfy constraint}}
  %d = tile.reduce max %a dim 2 : tensor<64x16xf32> -> tensor<64xf32>
  return
}

// -----

func.func @broadcast_columns(%a: tensor<64xf32>) {
  // expected-error@+1 {{expected a source [N] and a result [M, N] of one element type}}
  %d = tile.broadcast %a dim 0 : tensor<64xf32> -> tensor<64x16xf32>
  return
}

// -----

func.func @broadcast_dim(%a: tensor<64xf32>) {
  // expected-error@+1 {{attribute 'dim' failed to satisfy constraint}}
  %d = tile.broadcast %a dim 2 : tensor<64xf32> -> tensor<64x16xf32>
  return
}

// -----

func.func @broadcast_rows(%a: tensor<16xf32>) {
  // expected-error@+1 {{expected a source [M] and a result [M, N] of one element type}}
  %d = tile.broadcast %a : tensor<16xf32> -> tensor<64x16xf32>
  return
}

// -----

func.func @iota_dimension() {
  // expected-error@+1 {{expected an i32 tile with a dimension 1, got 'tensor<64xi32>'}}
  %d = tile.iota 1 : tensor<64xi32>
  return
}

// -----

func.func @splat_type(%x: f32) {
  // expected-error@+1 {{expected a scalar of type 'bf16', got 'f32'}}
  %d = tile.splat %x : f32 -> tensor<64xbf16>
  return
}

// -----

tile.plan @unknown_dim {
  // expected-error@+1 {{unknown dim 'tokens', expected one of: num_tokens}}
  %t = tile.dim "tokens"
  tile.return
}

// -----

tile.plan @launch_unknown {
  %c1 = arith.constant 1 : index
  // expected-error@+1 {{expected a tile.kernel named @nowhere}}
  tile.launch @nowhere grid(%c1, %c1, %c1) args()
  tile.return
}

// -----

tile.kernel @takes_index(%n: index) {
  tile.return
}
tile.plan @launch_arguments {
  %c1 = arith.constant 1 : index
  // expected-error@+1 {{expected arguments ('index'), got ()}}
  tile.launch @takes_index grid(%c1, %c1, %c1) args()
  tile.return
}

// -----

tile.plan @work_keys {
  // expected-error@+1 {{expected keys_per_block of at least 1, got 0}}
  tile.work keys_per_block 0 rows_per_token 128 rows_per_tile 64 item_cost 5.0 merge_cost 2.0 fixed_blocks 0
  tile.return
}

// -----

tile.plan @work_rows {
  // expected-error@+1 {{expected rows_per_token of at least 1, got 0}}
  tile.work keys_per_block 64 rows_per_token 0 rows_per_tile 64 item_cost 5.0 merge_cost 2.0 fixed_blocks 0
  tile.return
}

// -----

tile.plan @work_tile {
  // expected-error@+1 {{expected rows_per_tile of at least 1, got -64}}
  tile.work keys_per_block 64 rows_per_token 128 rows_per_tile -64 item_cost 5.0 merge_cost 2.0 fixed_blocks 0
  tile.return
}

// -----

tile.plan @work_runs {
  // expected-error@+1 {{expected runs_per_token of at least 1, got 0}}
  tile.work keys_per_block 64 rows_per_token 128 rows_per_tile 64 runs_per_token 0 item_cost 5.0 merge_cost 2.0
  tile.return
}

// -----

tile.plan @work_unequal_runs {
  // expected-error@+1 {{expected runs_per_token to divide the 128 rows of a token, got 3}}
  tile.work keys_per_block 64 rows_per_token 128 rows_per_tile 64 runs_per_token 3 item_cost 5.0 merge_cost 2.0
  tile.return
}

// -----

tile.plan @work_fixed {
  // expected-error@+1 {{expected fixed_blocks of at least 0, got -1}}
  tile.work keys_per_block 64 rows_per_token 128 rows_per_tile 64 item_cost 5.0 merge_cost 2.0 fixed_blocks -1
  tile.return
}

// -----

tile.plan @work_window {
  // expected-error@+1 {{expected window of at least 0, got -1}}
  tile.work keys_per_block 64 rows_per_token 128 rows_per_tile 64 item_cost 5.0 merge_cost 2.0 window -1
  tile.return
}

// -----

tile.plan @work_item_cost {
  // expected-error@+1 {{expected a finite item_cost that is not negative, got -1.000000e+00}}
  tile.work keys_per_block 64 rows_per_token 128 rows_per_tile 64 item_cost -1.0 merge_cost 2.0 fixed_blocks 0
  tile.return
}

// -----

tile.plan @work_merge_cost {
  // expected-error@+1 {{expected a finite merge_cost that is not negative, got INF}}
  tile.work keys_per_block 64 rows_per_token 128 rows_per_tile 64 item_cost 5.0 merge_cost 0x7FF0000000000000 fixed_blocks 0
  tile.return
}

// -----

tile.plan @work_partial_cost {
  // expected-error@+1 {{expected a finite partial_cost that is not negative, got -5.000000e-01}}
  tile.work keys_per_block 64 rows_per_token 128 rows_per_tile 64 item_cost 5.0 merge_cost 2.0 partial_cost -0.5 fixed_blocks 0
  tile.return
}

// -----

// (C5)
tile.plan @merge_forms_three_numbers {
  // expected-error@+1 {{expected merge_forms of one to 3 triples (pieces, rows, columns), got 4 numbers}}
  tile.work keys_per_block 64 rows_per_token 128 rows_per_tile 64 item_cost 5.0 merge_cost 2.0 merge_forms [4, 64, 16, 8] merge_programs 2
  tile.return
}

// -----

// (C5)
tile.plan @merge_forms_no_forms {
  // expected-error@+1 {{expected merge_forms of one to 3 triples (pieces, rows, columns), got 0 numbers}}
  tile.work keys_per_block 64 rows_per_token 128 rows_per_tile 64 item_cost 5.0 merge_cost 2.0 merge_forms [] merge_programs 2
  tile.return
}

// -----

// (C5)
tile.plan @merge_forms_zero_rows {
  // expected-error@+1 {{expected merge_forms of positive numbers, got 0}}
  tile.work keys_per_block 64 rows_per_token 128 rows_per_tile 64 item_cost 5.0 merge_cost 2.0 merge_forms [4, 0, 16] merge_programs 2
  tile.return
}

// -----

// (C5)
tile.plan @merge_forms_descending {
  // expected-error@+1 {{expected merge_forms in ascending order of pieces, got 4 behind 4}}
  tile.work keys_per_block 64 rows_per_token 128 rows_per_tile 64 item_cost 5.0 merge_cost 2.0 merge_forms [4, 64, 16, 4, 1, 2] merge_programs 2
  tile.return
}

// -----

// (C5)
tile.plan @merge_forms_no_programs {
  // expected-error@+1 {{expected merge_programs of at least 1, got 0}}
  tile.work keys_per_block 64 rows_per_token 128 rows_per_tile 64 item_cost 5.0 merge_cost 2.0 merge_forms [4, 64, 16] merge_programs 0
  tile.return
}

// -----

tile.plan @two_works {
  tile.work keys_per_block 64 rows_per_token 128 rows_per_tile 64 item_cost 5.0 merge_cost 2.0
  // expected-error@+1 {{expected at most one in a tile.plan}}
  tile.work keys_per_block 64 rows_per_token 64 rows_per_tile 64 item_cost 5.0 merge_cost 2.0
  tile.return
}

// -----

tile.plan @unknown_metadata {
  // expected-error@+1 {{unknown metadata 'lens', expected one of: query_start_loc, seq_lens, }}
  %lens = tile.buffer metadata "lens" : memref<?xi32>
  tile.return
}

// -----

tile.plan @metadata_type {
  // expected-error@+1 {{expected 'slot_mapping' of type i64, got 'i32'}}
  %slots = tile.buffer metadata "slot_mapping" : memref<?xi32>
  tile.return
}

// -----

tile.plan @elements_of_metadata {
  %t = tile.dim "num_tokens"
  // expected-error@+1 {{expected elements of an input or an output, got those of metadata 'seq_lens'}}
  %lens = tile.buffer metadata "seq_lens" elements %t : memref<?xi32>
  tile.return
}

// -----

tile.plan @metadata_without_work {
  // expected-error@+1 {{expected a tile.work in the plan, which provides 'work_items'}}
  %items = tile.buffer metadata "work_items" : memref<?xi32>
  tile.return
}

// -----

tile.plan @metadata_without_threshold {
  // expected-error@+1 {{expected a plan with tile.decode_threshold, which provides 'output_rows'}}
  %rows = tile.buffer metadata "output_rows" : memref<?xi64>
  tile.return
}

// -----

tile.plan @dim_without_work {
  // expected-error@+1 {{expected a tile.work in the plan, which provides 'num_parts'}}
  %parts = tile.dim "num_parts"
  tile.return
}

// -----

// expected-error@+1 {{expects parent op 'tile.plan'}}
tile.work keys_per_block 64 rows_per_token 64 rows_per_tile 64 item_cost 5.0 merge_cost 2.0

// -----

tile.kernel @impatient() {
  tile.return
}
tile.plan @dependent_launch {
  %c1 = arith.constant 1 : index
  // expected-error@+1 {{expected a dependent launch's kernel to have tile.waits_for_dependency, @impatient has not}}
  tile.launch @impatient grid(%c1, %c1, %c1) dependent args()
  tile.return
}

// -----

tile.plan @shared_without_prefix {
  // expected-error @+1 {{expected a tile.shared_prefix in the plan, which provides 'num_shared_tokens'}}
  %0 = tile.dim "num_shared_tokens"
  tile.return
}

// -----

tile.plan @two_prefixes {
  %0 = tile.dim "num_common_tokens"
  tile.shared_prefix %0
  // expected-error @+1 {{expected at most one in a tile.plan}}
  tile.shared_prefix %0
  tile.return
}

// -----

tile.plan @sizes_without_prompts {
  // expected-error @+1 {{expected a tile.prompts in the plan, which provides 'num_prompts'}}
  %0 = tile.dim "num_prompts"
  tile.return
}

// -----

tile.plan @two_prompts {
  tile.work keys_per_block 64 rows_per_token 8 rows_per_tile 64 item_cost 1.0 merge_cost 1.0
  %true = arith.constant true
  tile.prompts %true above 1 items_per_token 8 tokens_per_item 128 keys_per_block 64 item_cost 1.0 merge_cost 1.0 partial_cost 0.0
  // expected-error @+1 {{expected at most one in a tile.plan}}
  tile.prompts %true above 1 items_per_token 8 tokens_per_item 128 keys_per_block 64 item_cost 1.0 merge_cost 1.0 partial_cost 0.0
  tile.return
}

// -----

tile.plan @prompts_without_work {
  %true = arith.constant true
  // expected-error @+1 {{expected a tile.work in the plan}}
  tile.prompts %true above 1 items_per_token 8 tokens_per_item 128 keys_per_block 64 item_cost 1.0 merge_cost 1.0 partial_cost 0.0
  tile.return
}

// -----

tile.plan @prompts_of_split_batch attributes {tile.decode_threshold = 4 : i64} {
  tile.work keys_per_block 64 rows_per_token 8 rows_per_tile 64 item_cost 1.0 merge_cost 1.0
  %true = arith.constant true
  // expected-error @+1 {{expected a plan without tile.decode_threshold}}
  tile.prompts %true above 1 items_per_token 8 tokens_per_item 128 keys_per_block 64 item_cost 1.0 merge_cost 1.0 partial_cost 0.0
  tile.return
}

// -----

tile.plan @prompts_above_less_than_nothing {
  tile.work keys_per_block 64 rows_per_token 8 rows_per_tile 64 item_cost 1.0 merge_cost 1.0
  %true = arith.constant true
  // expected-error @+1 {{expected at least 0 and below 2^32 new tokens, got -1}}
  tile.prompts %true above -1 items_per_token 8 tokens_per_item 128 keys_per_block 64 item_cost 1.0 merge_cost 1.0 partial_cost 0.0
  tile.return
}

// -----

tile.plan @prompts_of_no_rows {
  tile.work keys_per_block 64 rows_per_token 8 rows_per_tile 64 item_cost 1.0 merge_cost 1.0
  %true = arith.constant true
  // expected-error @+1 {{expected tokens_per_item of at least 1 and below 2^32, got 0}}
  tile.prompts %true above 1 items_per_token 8 tokens_per_item 0 keys_per_block 64 item_cost 1.0 merge_cost 1.0 partial_cost 0.0
  tile.return
}

// -----

tile.plan @prompts_above_too_much {
  tile.work keys_per_block 64 rows_per_token 8 rows_per_tile 64 item_cost 1.0 merge_cost 1.0
  %true = arith.constant true
  // expected-error @+1 {{expected at least 0 and below 2^32 new tokens, got 4294967296}}
  tile.prompts %true above 4294967296 items_per_token 8 tokens_per_item 128 keys_per_block 64 item_cost 1.0 merge_cost 1.0 partial_cost 0.0
  tile.return
}

// -----

tile.plan @prompts_of_no_items {
  tile.work keys_per_block 64 rows_per_token 8 rows_per_tile 64 item_cost 1.0 merge_cost 1.0
  %true = arith.constant true
  // expected-error @+1 {{expected items_per_token of at least 1 and below 2^32, got 0}}
  tile.prompts %true above 1 items_per_token 0 tokens_per_item 128 keys_per_block 64 item_cost 1.0 merge_cost 1.0 partial_cost 0.0
  tile.return
}

// -----

tile.plan @prompts_of_no_keys {
  tile.work keys_per_block 64 rows_per_token 8 rows_per_tile 64 item_cost 1.0 merge_cost 1.0
  %true = arith.constant true
  // expected-error @+1 {{expected keys_per_block of at least 1 and below 2^32, got 0}}
  tile.prompts %true above 1 items_per_token 8 tokens_per_item 128 keys_per_block 0 item_cost 1.0 merge_cost 1.0 partial_cost 0.0
  tile.return
}

// -----

tile.plan @prompts_of_too_many_keys {
  tile.work keys_per_block 64 rows_per_token 8 rows_per_tile 64 item_cost 1.0 merge_cost 1.0
  %true = arith.constant true
  // expected-error @+1 {{expected keys_per_block of at least 1 and below 2^32, got 4294967296}}
  tile.prompts %true above 1 items_per_token 8 tokens_per_item 128 keys_per_block 4294967296 item_cost 1.0 merge_cost 1.0 partial_cost 0.0
  tile.return
}

// -----

tile.plan @prompts_before_their_window {
  tile.work keys_per_block 64 rows_per_token 8 rows_per_tile 64 item_cost 1.0 merge_cost 1.0
  %true = arith.constant true
  // expected-error @+1 {{expected window of at least 0 and below 2^32, got -1}}
  tile.prompts %true above 1 items_per_token 8 tokens_per_item 128 keys_per_block 64 item_cost 1.0 merge_cost 1.0 partial_cost 0.0 window -1
  tile.return
}

// -----

tile.plan @prompts_of_infinite_item {
  tile.work keys_per_block 64 rows_per_token 8 rows_per_tile 64 item_cost 1.0 merge_cost 1.0
  %true = arith.constant true
  // expected-error @+1 {{expected a finite item_cost that is not negative, got }}
  tile.prompts %true above 1 items_per_token 8 tokens_per_item 128 keys_per_block 64 item_cost 0x7FF0000000000000 merge_cost 1.0 partial_cost 0.0
  tile.return
}

// -----

tile.plan @prompts_of_negative_partial {
  tile.work keys_per_block 64 rows_per_token 8 rows_per_tile 64 item_cost 1.0 merge_cost 1.0
  %true = arith.constant true
  // expected-error @+1 {{expected a finite partial_cost that is not negative, got -2.000000e+00}}
  tile.prompts %true above 1 items_per_token 8 tokens_per_item 128 keys_per_block 64 item_cost 1.0 merge_cost 1.0 partial_cost -2.0
  tile.return
}

// -----

tile.plan @prompts_of_negative_cost {
  tile.work keys_per_block 64 rows_per_token 8 rows_per_tile 64 item_cost 1.0 merge_cost 1.0
  %true = arith.constant true
  // expected-error @+1 {{expected a finite merge_cost that is not negative, got -1.000000e+00}}
  tile.prompts %true above 1 items_per_token 8 tokens_per_item 128 keys_per_block 64 item_cost 1.0 merge_cost -1.0 partial_cost 0.0
  tile.return
}

// -----

tile.plan @prompts_in_a_branch {
  tile.work keys_per_block 64 rows_per_token 8 rows_per_tile 64 item_cost 1.0 merge_cost 1.0
  %true = arith.constant true
  scf.if %true {
    // expected-error @+1 {{expects parent op 'tile.plan'}}
    tile.prompts %true above 1 items_per_token 8 tokens_per_item 128 keys_per_block 64 item_cost 1.0 merge_cost 1.0 partial_cost 0.0
  }
  tile.return
}

// -----

tile.plan @parts_without_threshold {
  // expected-error @+1 {{expected a plan with tile.decode_threshold, which provides 'num_decodes'}}
  %0 = tile.dim "num_decodes"
  tile.return
}

// -----

// expected-error @+1 {{expected tile.decode_threshold to be an integer of at least 1, got 0 : i64}}
tile.plan @no_decodes attributes {tile.decode_threshold = 0 : i64} {
  tile.return
}

// -----

tile.kernel @load_elements_c1_rank(%list: memref<?xi32>) {
  %i = tile.iota 0 : tensor<64x32xi32>
  // expected-error@+1 {{expected a view of rank 2, got rank 1}}
  %t = tile.load_elements %list[%i, %i] : memref<?xi32>, tensor<64x32xi32>, tensor<64x32xi32> -> tensor<64x32xi32>
  tile.return
}

// -----

tile.kernel @load_elements_c1_shape(%list: memref<?xi32>) {
  %i = tile.iota 0 : tensor<64x32xi32>
  // expected-error@+1 {{expected indices of type 'tensor<64x16xi32>', got 'tensor<64x32xi32>'}}
  %t = tile.load_elements %list[%i] : memref<?xi32>, tensor<64x32xi32> -> tensor<64x16xi32>
  tile.return
}

// -----

tile.kernel @load_elements_c2(%list: memref<?xf32>) {
  %i = tile.iota 0 : tensor<64x32xi32>
  // expected-error@+1 {{expected the tile's element type to be the view's, 'f32', got 'i32'}}
  %t = tile.load_elements %list[%i] : memref<?xf32>, tensor<64x32xi32> -> tensor<64x32xi32>
  tile.return
}

// -----

// expected-error@+1 {{expected a body that ends in tile.return}}
"tile.kernel"() <{function_type = () -> (), sym_name = "kernel_without_ops"}> ({
^bb0:
}) : () -> ()

// -----

// expected-error@+1 {{expected tile.row_count of argument 1 to be the number of an index argument below 2, got -1 : i64}}
tile.kernel @row_count_outside(%n: index, %a: memref<?xbf16> {tile.row_count = -1 : i64}) {
  tile.return
}

// -----

// expected-error@+1 {{expected tile.row_count of argument 0 to be the number of an index argument below 1, got 0 : i64}}
tile.kernel @row_count_of_no_index(%a: memref<?xbf16> {tile.row_count = 0 : i64}) {
  tile.return
}

// -----

func.func @program_id_outside() -> index {
  // expected-error@+1 {{expected to stand in a tile.kernel}}
  %i = tile.program_id 0
  return %i : index
}

// -----

"tile.plan"() <{max_query_len = 0 : i64, sym_name = "dim_without_name"}> ({
  // expected-error@+1 {{requires attribute 'name'}}
  %n = "tile.dim"() : () -> index
  "tile.return"() : () -> ()
}) : () -> ()

// -----

// expected-error@+1 {{expected the name of a machine, got "a100"; known: h200 cpu}}
module attributes {tile.machine = #tile.machine<"a100">} {}

// -----

// expected-error@+1 {{num_sms: expected at least 1, got 0}}
module attributes {tile.machine = #tile.machine<"h200", num_sms = 0>} {}

// -----

// expected-error@+1 {{matmul_tflops: expected a rate above 0, got 0.000000e+00}}
module attributes {tile.machine = #tile.machine<"h200", matmul_tflops = 0.0>} {}

// -----

// expected-error@+1 {{expected tile.machine to be a machine, as #tile.machine<"h200">, got "h200"}}
module attributes {tile.machine = "h200"} {}

// -----

// expected-error@+1 {{tile.machine is for builtin.module}}
tile.kernel @machine_of_a_kernel(%a: memref<?xf32>) attributes {tile.machine = #tile.machine<"h200">} {
  tile.return
}

// -----

// expected-error@+1 {{unknown attribute tile.tiggers_dependents; those of ops are tile.triggers_dependents}}
tile.kernel @misspelt(%a: memref<?xf32>) attributes {tile.tiggers_dependents} {
  tile.return
}

// -----

// expected-error@+1 {{unknown attribute tile.divisor; those of arguments are tile.divisibility}}
tile.kernel @misspelt_argument(%n: index {tile.divisor = 8 : i64}) {
  tile.return
}

// -----

// expected-error@+1 {{expected tile.waits_for_dependency to be no value, got true}}
tile.kernel @not_a_unit(%a: memref<?xf32>) attributes {tile.waits_for_dependency = true} {
  tile.return
}

// -----

// expected-error@+1 {{expected tile.max_rows to be an integer of at least 1, got 0 : i64}}
tile.kernel @no_rows(%a: memref<?xf32>) attributes {tile.max_rows = 0 : i64} {
  tile.return
}

// -----

// expected-error@+1 {{expected tile.divisibility to be an integer of at least 1, got -8 : i64}}
tile.kernel @negative_divisor(%n: index {tile.divisibility = -8 : i64}) {
  tile.return
}

// -----

// expected-error@+1 {{expected tile.schedule to be a schedule, as #tile.simple, got "relay"}}
tile.kernel @named_schedule(%a: memref<?xf32>) attributes {tile.schedule = "relay"} {
  tile.return
}

// -----

// expected-error@+1 {{left_stages: expected from 2 to 113, got 1}}
tile.kernel @shallow_ring(%a: memref<?xf32>) attributes {tile.schedule = #tile.relay<left_stages = 1>} {
  tile.return
}

// -----

// expected-error@+1 {{part_columns: expected a multiple of 64 from 64 to 1792, got 96}}
tile.kernel @half_panel(%a: memref<?xf32>) attributes {tile.schedule = #tile.stream<part_columns = 96>} {
  tile.return
}

// -----

// expected-error@+1 {{consumer_registers: expected a multiple of 8 from 24 to 240, got 256}}
tile.kernel @many_registers(%a: memref<?xf32>) attributes {tile.schedule = #tile.pingpong<consumer_registers = 256>} {
  tile.return
}

// -----

// expected-error@+1 {{lazy_threshold: expected 0 to 15, got 1.600000e+01}}
tile.kernel @far_behind(%a: memref<?xf32>) attributes {tile.schedule = #tile.stream<lazy_threshold = 16.0>} {
  tile.return
}

// -----

tile.kernel @rounded_sum(%a: memref<?xf32>, %x: f32) {
  // expected-error@+1 {{tile.correctly_rounded is for arith.divf llvm.fdiv}}
  %0 = arith.addf %x, %x {tile.correctly_rounded} : f32
  tile.return
}


// -----

!rows = memref<?x64xbf16, strided<[64, 1]>>
func.func @attend(%n: index, %q: tensor<64x64xbf16>, %k: !rows) {
  // expected-error @below {{expected a view of keys for each of at least one tile of queries, got 2 and 3}}
  %m, %l, %o = tile.attend queries(%q, %q : tensor<64x64xbf16>, tensor<64x64xbf16>) keys(%k, %k, %k : !rows, !rows, !rows)
      range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!rows = memref<?x64xbf16, strided<[64, 1]>>
func.func @attend_parts(%n: index, %q: tensor<64x64xbf16>, %k: !rows) {
  // expected-error @below {{expected parts of keys to come by a list}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k, %k : !rows, !rows)
      range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!rows = memref<?x48xbf16, strided<[64, 1]>>
func.func @attend_parts(%n: index, %q: tensor<64x64xbf16>, %k: !rows, %t: memref<?xi32>) {
  // expected-error @below {{expected parts as wide as the queries together, 64 columns, got 96}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k, %k : !rows, !rows) rows(%t : memref<?xi32>)
      range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!near = memref<?x16x32xbf16, strided<[1024, 64, 1]>>
!far = memref<?x8x32xbf16, strided<[1024, 64, 1]>>
func.func @attend_parts(%n: index, %q: tensor<64x64xbf16>, %k: !near, %f: !far, %t: memref<?xi32>) {
  // expected-error @below {{expected one static page size (dimension 1), got 'memref<?x8x32xbf16, strided<[1024, 64, 1]>>'}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k, %f : !near, !far) rows(%t : memref<?xi32>)
      range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!rows = memref<?x64xbf16, strided<[64, 1]>>
func.func @attend_groups_of_nothing(%n: index, %q: tensor<64x64xbf16>, %k: !rows) {
  // expected-error @below {{expected groups of at least one row, and of one without a diagonal, got 0}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k : !rows)
      range %n to %n limit %n diagonal %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64, group = 0 : i64} -> tensor<64x64xf32>
  return
}

// -----

!rows = memref<?x64xbf16, strided<[64, 1]>>
func.func @attend_groups_without_diagonal(%n: index, %q: tensor<64x64xbf16>, %k: !rows) {
  // expected-error @below {{expected groups of at least one row, and of one without a diagonal, got 8}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k : !rows)
      range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64, group = 8 : i64} -> tensor<64x64xf32>
  return
}

// -----

!rows = memref<?x64xbf16, strided<[64, 1]>>
func.func @attend(%n: index, %short: tensor<32x64xbf16>, %k: !rows) {
  // expected-error @below {{expected queries of 64 rows, got 'tensor<32x64xbf16>'}}
  %m, %l, %o = tile.attend queries(%short : tensor<32x64xbf16>) keys(%k : !rows)
      range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!rows = memref<?x64xbf16, strided<[64, 1]>>
func.func @attend(%n: index, %ints: tensor<64x64xi32>, %k: !rows) {
  // expected-error @below {{expected queries of one element type out of bf16, f16, f32, got 'tensor<64x64xi32>'}}
  %m, %l, %o = tile.attend queries(%ints : tensor<64x64xi32>) keys(%k : !rows)
      range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!pages = memref<?x64x64xbf16, strided<[4096, 64, 1]>>
func.func @attend(%n: index, %q: tensor<64x64xbf16>, %p: !pages) {
  // expected-error @below {{expected keys [rows, W], got 'memref<?x64x64xbf16, strided<[4096, 64, 1]>>'}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%p : !pages)
      range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!rows = memref<?x64xbf16, strided<[64, 1]>>
func.func @attend(%n: index, %q: tensor<64x64xbf16>, %k: !rows, %t: memref<?xi32>) {
  // expected-error @below {{expected keys [pages, page_size, W], got 'memref<?x64xbf16, strided<[64, 1]>>'}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k : !rows) pages(%t : memref<?xi32>)
      range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!dynamic = memref<?x?x64xbf16, strided<[4096, 64, 1]>>
func.func @attend(%n: index, %q: tensor<64x64xbf16>, %d: !dynamic, %t: memref<?xi32>) {
  // expected-error @below {{expected one static page size (dimension 1), got 'memref<?x?x64xbf16, strided<[4096, 64, 1]>>'}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%d : !dynamic) pages(%t : memref<?xi32>)
      range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!wide = memref<?x128xbf16, strided<[128, 1]>>
func.func @attend(%n: index, %q: tensor<64x64xbf16>, %w: !wide) {
  // expected-error @below {{expected keys of at most the 64 columns of their queries, got 'memref<?x128xbf16, strided<[128, 1]>>'}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%w : !wide)
      range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!rows = memref<?x64xbf16, strided<[64, 1]>>
func.func @attend(%n: index, %q: tensor<64x64xbf16>, %k: !rows) {
  // expected-error @below {{expected an output as wide as the first queries, 64 columns, as values are columns of keys; got 128}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k : !rows)
      range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x128xf32>
  return
}

// -----

!rows = memref<?x64xbf16, strided<[64, 1]>>
!pages = memref<?x64x64xbf16, strided<[4096, 64, 1]>>
func.func @attend(%n: index, %q: tensor<64x64xbf16>, %k: !rows, %p: !pages, %t: memref<?xi32>) {
  // expected-error @below {{expected values to come in pages if the keys do, got no table of them}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%p : !pages) pages(%t : memref<?xi32>) values(%k : !rows)
      range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!rows = memref<?x64xbf16, strided<[64, 1]>>
!wide = memref<?x128xbf16, strided<[128, 1]>>
func.func @attend(%n: index, %q: tensor<64x64xbf16>, %k: !rows, %w: !wide) {
  // expected-error @below {{expected values [rows, V] of type 'bf16', V at most 64, got 'memref<?x128xbf16, strided<[128, 1]>>'}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k : !rows) values(%w : !wide)
      range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!rows = memref<?x64xbf16, strided<[64, 1]>>
func.func @attend(%n: index, %q: tensor<64x64xbf16>, %k: !rows, %t: memref<?xi32>) {
  // expected-error @below {{expected values to come in pages if the keys do, got a table of them}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k : !rows) values(%k : !rows) value_pages(%t : memref<?xi32>)
      range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!pages = memref<?x64x64xbf16, strided<[4096, 64, 1]>>
func.func @attend(%n: index, %q: tensor<64x64xbf16>, %p: !pages, %t: memref<?xi32>) {
  // expected-error @below {{expected no table of values, as values are columns of keys}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%p : !pages) pages(%t : memref<?xi32>) value_pages(%t : memref<?xi32>)
      range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!pages = memref<?x64x64xbf16, strided<[4096, 64, 1]>>
!codes = memref<?x64x64xf8E4M3FN, strided<[4096, 64, 1]>>
func.func @attend(%n: index, %q: tensor<64x64xbf16>, %p: !pages, %c: !codes, %t: memref<?xi32>) {
  // expected-error @below {{expected values of 8 bits to come in pages, beside keys of 8 bits and f32 scales [n] of both, got no scales}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%p : !pages) pages(%t : memref<?xi32>) values(%c : !codes) value_pages(%t : memref<?xi32>)
      range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!codes = memref<?x64x64xf8E4M3FN, strided<[4096, 64, 1]>>
func.func @attend(%n: index, %q: tensor<64x64xbf16>, %c: !codes, %t: memref<?xi32>, %s: memref<1xf32>) {
  // expected-error @below {{expected values of 8 bits to come in pages, beside keys of 8 bits and f32 scales [n] of both, got 'memref<1xf32>'}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%c : !codes) pages(%t : memref<?xi32>) values(%c : !codes) value_pages(%t : memref<?xi32>)
      scales(%s : memref<1xf32>) range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!codes = memref<?x64x64xf8E4M3FN, strided<[4096, 64, 1]>>
func.func @attend(%n: index, %q: tensor<64x64xbf16>, %c: !codes, %t: memref<?xi32>, %s: memref<?x64x1xf32>) {
  // expected-error @below {{expected values of 8 bits to come in pages, beside keys of 8 bits and f32 scales [n] of both, got 'memref<?x64x1xf32>'}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%c : !codes) pages(%t : memref<?xi32>) values(%c : !codes) value_pages(%t : memref<?xi32>)
      scales(%s : memref<?x64x1xf32>) range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!rows = memref<?x64xbf16, strided<[64, 1]>>
!codes = memref<?x64xf8E4M3FN, strided<[64, 1]>>
func.func @attend(%n: index, %q: tensor<64x64xbf16>, %k: !rows, %c: !codes) {
  // expected-error @below {{expected values of 8 bits to come in pages, beside keys of 8 bits and f32 scales [n] of both, got no scales}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k : !rows) values(%c : !codes)
      range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!pages = memref<?x64x64xbf16, strided<[4096, 64, 1]>>
!any = memref<?x?x64xbf16, strided<[4096, 64, 1]>>
func.func @attend(%n: index, %q: tensor<64x64xbf16>, %p: !pages, %v: !any, %t: memref<?xi32>) {
  // expected-error @below {{expected values [pages, page_size, V] of type 'bf16', V at most 64, got 'memref<?x?x64xbf16, strided<[4096, 64, 1]>>'}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%p : !pages) pages(%t : memref<?xi32>) values(%v : !any) value_pages(%t : memref<?xi32>)
      range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!rows = memref<?x64xbf16, strided<[64, 1]>>
func.func @attend(%n: index, %q: tensor<64x64xbf16>, %k: !rows, %s: tensor<64xi32>) {
  // expected-error @below {{expected behind of type 'tensor<64xi32>' beside sees or a diagonal, got 'tensor<64xi32>'}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k : !rows)
      range %n to %n limit %n behind(%s : tensor<64xi32>) {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!codes = memref<?x64x64xf8E4M3FN, strided<[4096, 64, 1]>>
func.func @attend(%n: index, %q: tensor<64x64xbf16>, %c: !codes, %t: memref<?xi32>) {
  // expected-error @below {{expected scales for keys of 8 bits}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%c : !codes) pages(%t : memref<?xi32>)
      range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!rows = memref<?x64xbf16, strided<[64, 1]>>
func.func @attend(%n: index, %q: tensor<64x64xbf16>, %k: !rows, %s: memref<?xf32>) {
  // expected-error @below {{expected no scales, as no keys have 8 bits}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k : !rows) scales(%s : memref<?xf32>)
      range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!dense = memref<?x64xf8E4M3FN, strided<[64, 1]>>
func.func @attend(%n: index, %q: tensor<64x64xbf16>, %e: !dense, %s: memref<?xf32>) {
  // expected-error @below {{expected keys of 8 bits to come in pages}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%e : !dense) scales(%s : memref<?xf32>)
      range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!codes = memref<?x64x64xf8E4M3FN, strided<[4096, 64, 1]>>
!groups = memref<?x64x3xf32, strided<[192, 3, 1]>>
func.func @attend(%n: index, %q: tensor<64x64xbf16>, %c: !codes, %g: !groups, %t: memref<?xi32>) {
  // expected-error @below {{expected f32 scales [n], or f32 or i8 [pages, 64, G] with G a divisor of 64, got 'memref<?x64x3xf32, strided<[192, 3, 1]>>'}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%c : !codes) pages(%t : memref<?xi32>) scales(%g : !groups)
      range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!int = memref<?x64xi32, strided<[64, 1]>>
func.func @attend(%n: index, %q: tensor<64x64xbf16>, %i: !int) {
  // expected-error @below {{expected keys of floats, those of 8 bits f8E4M3FN, got 'memref<?x64xi32, strided<[64, 1]>>'}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%i : !int)
      range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!rows = memref<?x64xbf16, strided<[64, 1]>>
func.func @attend(%n: index, %q: tensor<64x64xbf16>, %k: !rows, %few: tensor<32xi32>) {
  // expected-error @below {{expected sees of type 'tensor<64xi32>' and no diagonal beside it, got 'tensor<32xi32>'}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k : !rows)
      range %n to %n limit %n sees(%few : tensor<32xi32>) {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!rows = memref<?x64xbf16, strided<[64, 1]>>
func.func @attend(%n: index, %q: tensor<64x64xbf16>, %k: !rows, %seen: tensor<64xi32>) {
  // expected-error @below {{expected sees of type 'tensor<64xi32>' and no diagonal beside it, got 'tensor<64xi32>'}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k : !rows)
      range %n to %n limit %n sees(%seen : tensor<64xi32>) diagonal %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!rows = memref<?x64xbf16, strided<[64, 1]>>
func.func @attend(%n: index, %q: tensor<64x64xbf16>, %k: !rows, %seen: tensor<64xi32>) {
  // expected-error @below {{expected a start of the results' types 'tensor<64xf32>', 'tensor<64xf32>', 'tensor<64x64xf32>', got 'tensor<64xi32>'}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k : !rows)
      range %n to %n limit %n start(%seen : tensor<64xi32>) {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!rows = memref<?x64xbf16, strided<[64, 1]>>
func.func @attend(%n: index, %q: tensor<64x64xbf16>, %k: !rows) {
  // expected-error @below {{expected a positive block and a unit of 1 or a block, got 64 and 2}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k : !rows)
      range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 2 : i64} -> tensor<64x64xf32>
  return
}

// -----

!rows = memref<?x64xbf16, strided<[64, 1]>>
func.func @attend(%n: index, %q: tensor<64x64xbf16>, %k: !rows) {
  // expected-error @below {{expected a positive, finite scale, got -1.0}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k : !rows)
      range %n to %n limit %n {block = 64 : i64, scale = -1.0 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!rows = memref<?x64xbf16, strided<[64, 1]>>
func.func @attend(%n: index, %q: tensor<64x64xbf16>, %k: !rows) {
  // expected-error @below {{expected a lag from 0 to 15, got 1.6}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k : !rows)
      range %n to %n limit %n {block = 64 : i64, lag = 16.0 : f64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!rows = memref<?x64xbf16, strided<[64, 1]>>
func.func @attend(%n: index, %q: tensor<64x64xbf16>, %k: !rows) {
  // expected-error @below {{expected a finite softcap that is not negative, got -5.0}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k : !rows)
      range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, softcap = -5.0 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

func.func @set_bits_c1_list_k(%n: index, %l: memref<?x?xi32>, %o: memref<?x?xi32>) {
  // expected-error @below {{expected a list [rows, K] of i32 with a static K and a column stride of 1, got 'memref<?x?xi32>'}}
  tile.set_bits %l[%n] from %n to %o : memref<?x?xi32>, memref<?x?xi32>
  return
}

// -----

func.func @set_bits_c1_list_type(%n: index, %l: memref<?x8xi64>, %o: memref<?x?xi32>) {
  // expected-error @below {{expected a list [rows, K] of i32 with a static K and a column stride of 1, got 'memref<?x8xi64>'}}
  tile.set_bits %l[%n] from %n to %o : memref<?x8xi64>, memref<?x?xi32>
  return
}

// -----

func.func @set_bits_c1_list_rank(%n: index, %l: memref<8xi32>, %o: memref<?x?xi32>) {
  // expected-error @below {{expected a list [rows, K] of i32 with a static K and a column stride of 1, got 'memref<8xi32>'}}
  tile.set_bits %l[%n] from %n to %o : memref<8xi32>, memref<?x?xi32>
  return
}

// -----

func.func @set_bits_c1_list_stride(%n: index, %l: memref<?x8xi32, strided<[16, 2]>>, %o: memref<?x?xi32>) {
  // expected-error @below {{expected a list [rows, K] of i32 with a static K and a column stride of 1, got 'memref<?x8xi32, strided<[16, 2]>>'}}
  tile.set_bits %l[%n] from %n to %o : memref<?x8xi32, strided<[16, 2]>>, memref<?x?xi32>
  return
}

// -----

func.func @set_bits_c1_out_type(%n: index, %l: memref<?x8xi32>, %o: memref<?x?xf32>) {
  // expected-error @below {{expected out [rows, words] of i32 with a column stride of 1, got 'memref<?x?xf32>'}}
  tile.set_bits %l[%n] from %n to %o : memref<?x8xi32>, memref<?x?xf32>
  return
}

// -----

func.func @set_bits_c1_out_rank(%n: index, %l: memref<?x8xi32>, %o: memref<?xi32>) {
  // expected-error @below {{expected out [rows, words] of i32 with a column stride of 1, got 'memref<?xi32>'}}
  tile.set_bits %l[%n] from %n to %o : memref<?x8xi32>, memref<?xi32>
  return
}

// -----

func.func @set_bits_c1_out_stride(%n: index, %l: memref<?x8xi32>, %o: memref<?x?xi32, strided<[?, 2]>>) {
  // expected-error @below {{expected out [rows, words] of i32 with a column stride of 1, got 'memref<?x?xi32, strided<[?, 2]>>'}}
  tile.set_bits %l[%n] from %n to %o : memref<?x8xi32>, memref<?x?xi32, strided<[?, 2]>>
  return
}

// -----

func.func @test_bits_c1_type(%w0: tensor<64xi32>) {
  // expected-error @below {{expected a result [M, N] of i1, got 'tensor<64x32xi8>'}}
  %0 = tile.test_bits %w0 : tensor<64xi32> -> tensor<64x32xi8>
  return
}

// -----

func.func @test_bits_c1_rank(%w0: tensor<64xi32>) {
  // expected-error @below {{expected a result [M, N] of i1, got 'tensor<64xi1>'}}
  %0 = tile.test_bits %w0 : tensor<64xi32> -> tensor<64xi1>
  return
}

// -----

func.func @test_bits_c1_word(%w0: tensor<64xi64>) {
  // expected-error @below {{expected words of type 'tensor<64xi32>', got 'tensor<64xi64>'}}
  %0 = tile.test_bits %w0 : tensor<64xi64> -> tensor<64x32xi1>
  return
}

// -----

func.func @test_bits_c1_rows(%w0: tensor<64xi32>, %w1: tensor<32xi32>) {
  // expected-error @below {{expected words of type 'tensor<64xi32>', got 'tensor<32xi32>'}}
  %0 = tile.test_bits %w0, %w1 : tensor<64xi32>, tensor<32xi32> -> tensor<64x64xi1>
  return
}

// -----

func.func @test_bits_c1_columns(%w0: tensor<64xi32>, %w1: tensor<64xi32>) {
  // expected-error @below {{expected 32 columns for each of 2 words, got 'tensor<64x96xi1>'}}
  %0 = tile.test_bits %w0, %w1 : tensor<64xi32>, tensor<64xi32> -> tensor<64x96xi1>
  return
}

// -----

func.func @attend_c8_type(%n: index, %q: tensor<64x64xbf16>, %k: memref<?x64xbf16>, %w: memref<?x?xi64>) {
  // expected-error @below {{expected marks [rows, words] of i32 with a word stride of 1, got 'memref<?x?xi64>'}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k : memref<?x64xbf16>)
      range %n to %n limit %n marks(%w : memref<?x?xi64>) {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

func.func @attend_c8_rank(%n: index, %q: tensor<64x64xbf16>, %k: memref<?x64xbf16>, %w: memref<?xi32>) {
  // expected-error @below {{expected marks [rows, words] of i32 with a word stride of 1, got 'memref<?xi32>'}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k : memref<?x64xbf16>)
      range %n to %n limit %n marks(%w : memref<?xi32>) {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

func.func @attend_c8_stride(%n: index, %q: tensor<64x64xbf16>, %k: memref<?x64xbf16>, %w: memref<?x?xi32, strided<[?, 2]>>) {
  // expected-error @below {{expected marks [rows, words] of i32 with a word stride of 1, got 'memref<?x?xi32, strided<[?, 2]>>'}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k : memref<?x64xbf16>)
      range %n to %n limit %n marks(%w : memref<?x?xi32, strided<[?, 2]>>) {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

func.func @attend_c8_table(%n: index, %q: tensor<64x64xbf16>, %k: memref<?x16x64xbf16>, %w: memref<?x?xi32>, %t: memref<?xi32>) {
  // expected-error @below {{expected marks beside keys that are rows of views, got a table}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k : memref<?x16x64xbf16>) pages(%t : memref<?xi32>)
      range %n to %n limit %n marks(%w : memref<?x?xi32>) {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

func.func @attend_c8_list(%n: index, %q: tensor<64x64xbf16>, %k: memref<?x64xbf16>, %w: memref<?x?xi32>, %t: memref<?xi32>) {
  // expected-error @below {{expected marks beside keys that are rows of views, got a list}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k : memref<?x64xbf16>) rows(%t : memref<?xi32>)
      range %n to %n limit %n marks(%w : memref<?x?xi32>) {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

func.func @attend_c8_block(%n: index, %q: tensor<64x64xbf16>, %k: memref<?x64xbf16>, %w: memref<?x?xi32>) {
  // expected-error @below {{expected blocks of whole words of 32 keys, got 48}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k : memref<?x64xbf16>)
      range %n to %n limit %n marks(%w : memref<?x?xi32>) {block = 48 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

func.func @top_k_c1_values(%n: index, %v: memref<?x?xf32, strided<[1, ?]>>, %o: memref<?x2xi32>) {
  // expected-error @below {{expected values [rows, columns] of f32 with a column stride of 1, got}}
  tile.top_k %v[%n] length %n to %o : memref<?x?xf32, strided<[1, ?]>>, memref<?x2xi32>
  return
}

// -----

func.func @top_k_c1_out(%n: index, %v: memref<?x?xf32, strided<[?, 1]>>, %o: memref<?x?xi32>) {
  // expected-error @below {{expected out [rows, K] of i32 with a static K and a column stride of 1, got}}
  tile.top_k %v[%n] length %n to %o : memref<?x?xf32, strided<[?, 1]>>, memref<?x?xi32>
  return
}

// -----

func.func @top_k_c1_k(%n: index, %v: memref<?x?xf32, strided<[?, 1]>>, %o: memref<?x4097xi32>) {
  // expected-error @below {{expected K from 1 to 4096, got 4097}}
  tile.top_k %v[%n] length %n to %o : memref<?x?xf32, strided<[?, 1]>>, memref<?x4097xi32>
  return
}

// -----

func.func @top_k_c2_lists(%n: index, %v: memref<?x?xf32, strided<[?, 1]>>, %o: memref<?x2xi32>, %l: memref<?x2x2xf32>, %c: memref<?xi32>) {
  // expected-error @below {{expected lists [rows, 2, capacity] of f32 with a static capacity above 2, got}}
  tile.top_k %v[%n] length %n slice %n of %n lists(%l : memref<?x2x2xf32>) counters(%c : memref<?xi32>) to %o : memref<?x?xf32, strided<[?, 1]>>, memref<?x2xi32>
  return
}

// -----

func.func @top_k_c3(%n: index, %v: memref<?x?xf32, strided<[?, 1]>>, %o: memref<?x2xi32>) {
  // expected-error @below {{expected longest to be positive, got 0}}
  tile.top_k %v[%n] length %n to %o {longest = 0 : i64} : memref<?x?xf32, strided<[?, 1]>>, memref<?x2xi32>
  return
}

// -----

func.func @top_k_c2_together(%n: index, %v: memref<?x?xf32, strided<[?, 1]>>, %o: memref<?x2xi32>) {
  // expected-error @below {{expected a slice, lists and counters together}}
  "tile.top_k"(%v, %n, %n, %n, %n, %o) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0, 1>}>
      : (memref<?x?xf32, strided<[?, 1]>>, index, index, index, index, memref<?x2xi32>) -> ()
  return
}

// -----

!rows = memref<?x64xbf16, strided<[64, 1]>>
!pages = memref<?x16x64xbf16, strided<[1024, 64, 1]>>
!codes = memref<?x64xf8E4M3FN, strided<[64, 1]>>
!groups = memref<?x3xf32, strided<[3, 1]>>
func.func @attend_list(%n: index, %q: tensor<64x64xbf16>, %k: !pages, %t: memref<?xi32>) {
  // expected-error @below {{expected a list of i32 and no table beside it, got 'memref<?xi32>' and a table}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k : !pages) pages(%t : memref<?xi32>)
      rows(%t : memref<?xi32>) range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!rows = memref<?x64xbf16, strided<[64, 1]>>
!pages = memref<?x16x64xbf16, strided<[1024, 64, 1]>>
!codes = memref<?x64xf8E4M3FN, strided<[64, 1]>>
!groups = memref<?x3xf32, strided<[3, 1]>>
func.func @attend_list(%n: index, %q: tensor<64x64xbf16>, %k: !rows, %t: memref<?xi64>) {
  // expected-error @below {{expected a list of i32 and no table beside it, got 'memref<?xi64>'}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k : !rows)
      rows(%t : memref<?xi64>) range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!flat = memref<?xbf16, strided<[1]>>
!rows = memref<?x64xbf16, strided<[64, 1]>>
!pages = memref<?x16x64xbf16, strided<[1024, 64, 1]>>
!codes = memref<?x64xf8E4M3FN, strided<[64, 1]>>
!groups = memref<?x3xf32, strided<[3, 1]>>
func.func @attend_list(%n: index, %q: tensor<64x64xbf16>, %k: !flat, %t: memref<?xi32>) {
  // expected-error @below {{expected keys [rows, W], got 'memref<?xbf16, strided<[1]>>'}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k : !flat)
      rows(%t : memref<?xi32>) range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!rows = memref<?x64xbf16, strided<[64, 1]>>
!pages = memref<?x16x64xbf16, strided<[1024, 64, 1]>>
!codes = memref<?x64xf8E4M3FN, strided<[64, 1]>>
!groups = memref<?x3xf32, strided<[3, 1]>>
func.func @attend_list(%n: index, %q: tensor<64x64xbf16>, %k: !codes, %g: !groups, %t: memref<?xi32>) {
  // expected-error @below {{expected f32 scales [n], or f32 or i8 [rows, G] with G a divisor of 64, got 'memref<?x3xf32, strided<[3, 1]>>'}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k : !codes)
      rows(%t : memref<?xi32>) scales(%g : !groups) range %n to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!rows = memref<?x64xbf16, strided<[64, 1]>>
!pages = memref<?x16x64xbf16, strided<[1024, 64, 1]>>
!codes = memref<?x64xf8E4M3FN, strided<[64, 1]>>
!groups = memref<?x3xf32, strided<[3, 1]>>
func.func @attend_list(%n: index, %q: tensor<64x64xbf16>, %k: !rows, %t: memref<?xi32>) {
  // expected-error @below {{expected neither sees nor a diagonal beside a list, whose keys have no order}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k : !rows)
      rows(%t : memref<?xi32>) range %n to %n limit %n diagonal %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

!rows = memref<?x64xbf16, strided<[64, 1]>>
!pages = memref<?x16x64xbf16, strided<[1024, 64, 1]>>
!codes = memref<?x64xf8E4M3FN, strided<[64, 1]>>
!groups = memref<?x3xf32, strided<[3, 1]>>
func.func @attend_list(%n: index, %q: tensor<64x64xbf16>, %k: !rows, %t: memref<?xi32>) {
  // expected-error @below {{expected no lag of an exact reference, got 2.0}}
  %m, %l, %o = tile.attend queries(%q : tensor<64x64xbf16>) keys(%k : !rows)
      rows(%t : memref<?xi32>) range %n to %n limit %n
      {block = 64 : i64, exact, lag = 2.0 : f64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  return
}

// -----

tile.kernel @dot_c1_codes(%a: memref<?xf8E4M3FN>) {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %a to offset: [0], sizes: [64, 64], strides: [64, 1] : memref<?xf8E4M3FN> to memref<64x64xf8E4M3FN, strided<[64, 1]>>
  %t = tile.load %v[%c0, %c0] : memref<64x64xf8E4M3FN, strided<[64, 1]>> -> tensor<64x64xf8E4M3FN>
  %z = arith.constant dense<0.0> : tensor<64x64xf32>
  // expected-error@+1 {{expected 'transpose_rhs' and no 'transpose_lhs' of f8E4M3FN}}
  %r = tile.dot %t, %t, %z : tensor<64x64xf8E4M3FN>, tensor<64x64xf8E4M3FN> -> tensor<64x64xf32>
  tile.return
}

// -----

tile.kernel @copy(%from: memref<?xf32>, %to: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %v = memref.load %from[%c0] : memref<?xf32>
  memref.store %v, %to[%c0] : memref<?xf32>
  tile.return
}
tile.plan @fork_c2_V4_41 {
  %c1 = arith.constant 1 : index
  %true = arith.constant true
  %x = tile.buffer input "x" : memref<?xf32>
  %out = tile.buffer output "out" : memref<?xf32>
  // expected-note@+1 {{the buffer is here}}
  %a = tile.workspace %c1 : memref<?xf32>
  // expected-error@+1 {{expected sides that do not wait for each other, but one writes a workspace, which the other touches}}
  tile.fork if %true {
    tile.launch @copy grid(%c1, %c1, %c1) args(%x, %a) : memref<?xf32>, memref<?xf32>
  } beside {
    tile.launch @copy grid(%c1, %c1, %c1) args(%a, %out) : memref<?xf32>, memref<?xf32>
  }
  tile.return
}

// -----

// What one overwrites while the other reads it; fields of a pool are one buffer.
tile.kernel @copy(%from: memref<?xf32>, %to: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %v = memref.load %from[%c0] : memref<?xf32>
  memref.store %v, %to[%c0] : memref<?xf32>
  tile.return
}
tile.kernel @read(%from: memref<?xi8>, %to: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %v = memref.load %from[%c0] : memref<?xi8>
  tile.return
}
tile.plan @fork_c2_pool_V4_41 {
  %c1 = arith.constant 1 : index
  %true = arith.constant true
  %x = tile.buffer input "x" : memref<?xf32>
  %out = tile.buffer output "out" : memref<?xf32>
  // expected-note@+1 {{the buffer is here}}
  %pool = tile.buffer cache "cache" : memref<?xf32>
  %codes = tile.buffer cache "cache" : memref<?xi8>
  // expected-error@+1 {{expected sides that do not wait for each other, but one writes 'cache', which the other touches}}
  tile.fork if %true {
    tile.launch @copy grid(%c1, %c1, %c1) args(%x, %pool) : memref<?xf32>, memref<?xf32>
  } beside {
    tile.launch @read grid(%c1, %c1, %c1) args(%codes, %out) : memref<?xi8>, memref<?xf32>
  }
  tile.return
}

// -----

tile.kernel @wait(%to: memref<?xf32>) attributes {tile.waits_for_dependency} {
  tile.return
}
tile.plan @fork_c3_V4_41 {
  %c1 = arith.constant 1 : index
  %true = arith.constant true
  %x = tile.buffer input "x" : memref<?xf32>
  %out = tile.buffer output "out" : memref<?xf32>
  tile.fork if %true {
    tile.launch @wait grid(%c1, %c1, %c1) args(%x) : memref<?xf32>
  } beside {
    tile.launch @wait grid(%c1, %c1, %c1) args(%x) : memref<?xf32>
  }
  // expected-error@+1 {{expected no dependent launch where a tile.fork begins or behind its end, got one of @wait}}
  tile.launch @wait grid(%c1, %c1, %c1) dependent args(%out) : memref<?xf32>
  tile.return
}

// -----

tile.plan @fork_c1_V4_41 {
  %true = arith.constant true
  tile.fork if %true {
    // expected-error@+1 {{expected in the plan's own block, not in a side of a tile.fork}}
    %x = tile.buffer input "x" : memref<?xf32>
  } beside {
  }
  tile.return
}

// -----

// expected-error @+1 {{expected tile.optional_chunks to be no value, got 1 : i64}}
tile.plan @optional_chunks_value attributes {tile.optional_chunks = 1 : i64} {
  tile.return
}
