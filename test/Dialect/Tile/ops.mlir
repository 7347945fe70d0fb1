// RUN: mla-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: tile.kernel @copy
// CHECK: tile.program_id 0
// CHECK: tile.load
// CHECK: tile.store
tile.kernel @copy(%src: memref<?xbf16>, %dst: memref<?xbf16>, %rows: index) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %pid = tile.program_id 0
  %row = arith.muli %pid, %c64 : index
  %in = memref.reinterpret_cast %src to offset: [0], sizes: [%rows, 40], strides: [40, 1]
      : memref<?xbf16> to memref<?x40xbf16, strided<[40, 1]>>
  %out = memref.reinterpret_cast %dst to offset: [0], sizes: [%rows, 40], strides: [40, 1]
      : memref<?xbf16> to memref<?x40xbf16, strided<[40, 1]>>
  %t = tile.load %in[%row, %c0] : memref<?x40xbf16, strided<[40, 1]>> -> tensor<64x64xbf16>
  tile.store %t, %out[%row, %c0] : tensor<64x64xbf16>, memref<?x40xbf16, strided<[40, 1]>>
  tile.return
}

// CHECK-LABEL: tile.plan @decode max_query_len 1
// CHECK: tile.buffer output "output" elements %{{.*}} : memref<?xbf16>
// CHECK: tile.launch @copy
tile.plan @decode max_query_len 1 {
  %t = tile.dim "num_tokens"
  %hidden = tile.buffer input "hidden" : memref<?xbf16>
  %out = tile.buffer output "output" elements %t : memref<?xbf16>
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %gx = arith.ceildivsi %t, %c64 : index
  tile.launch @copy grid(%gx, %c1, %c1) args(%hidden, %out, %t)
      : memref<?xbf16>, memref<?xbf16>, index
  tile.return
}

// Rows are the default; the other direction is spelled out.
// CHECK-LABEL: func.func @directions
// CHECK: tile.reduce max %{{.*}} : tensor<64x16xf32> -> tensor<64xf32>
// CHECK: tile.reduce max %{{.*}} dim 0 : tensor<64x16xf32> -> tensor<16xf32>
// CHECK: tile.broadcast %{{.*}} : tensor<64xf32> -> tensor<64x16xf32>
// CHECK: tile.broadcast %{{.*}} dim 0 : tensor<16xf32> -> tensor<64x16xf32>
func.func @directions(%s: tensor<64x16xf32>) -> (tensor<64x16xf32>, tensor<64x16xf32>) {
  %m = tile.reduce max %s dim 1 : tensor<64x16xf32> -> tensor<64xf32>
  %n = tile.reduce max %s dim 0 : tensor<64x16xf32> -> tensor<16xf32>
  %a = tile.broadcast %m dim 1 : tensor<64xf32> -> tensor<64x16xf32>
  %b = tile.broadcast %n dim 0 : tensor<16xf32> -> tensor<64x16xf32>
  return %a, %b : tensor<64x16xf32>, tensor<64x16xf32>
}

// CHECK-LABEL: func.func @groups
// CHECK: tile.sum_groups %{{.*}} of 4 : tensor<64xf32>
func.func @groups(%s: tensor<64xf32>) -> tensor<64xf32> {
  %0 = tile.sum_groups %s of 4 : tensor<64xf32>
  return %0 : tensor<64xf32>
}

// CHECK-LABEL: tile.kernel @transposed
// CHECK: tile.dot %{{.*}}, %{{.*}}, %{{.*}} transpose_lhs :
// CHECK: tile.dot %{{.*}}, %{{.*}}, %{{.*}} transpose_lhs transpose_rhs :
// CHECK: tile.store %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] transposed :
tile.kernel @transposed(%src: memref<?xbf16>, %dst: memref<?xf32>, %rows: index) {
  %c0 = arith.constant 0 : index
  %in = memref.reinterpret_cast %src to offset: [0], sizes: [%rows, 32], strides: [32, 1]
      : memref<?xbf16> to memref<?x32xbf16, strided<[32, 1]>>
  %out = memref.reinterpret_cast %dst to offset: [0], sizes: [%rows, 32], strides: [32, 1]
      : memref<?xf32> to memref<?x32xf32, strided<[32, 1]>>
  %kv = tile.load %in[%c0, %c0] : memref<?x32xbf16, strided<[32, 1]>> -> tensor<64x32xbf16>
  %p = tile.load %in[%c0, %c0] : memref<?x32xbf16, strided<[32, 1]>> -> tensor<64x16xbf16>
  %t = tile.load %in[%c0, %c0] : memref<?x32xbf16, strided<[32, 1]>> -> tensor<16x64xbf16>
  %zero = arith.constant dense<0.0> : tensor<32x16xf32>
  %a = tile.dot %kv, %p, %zero transpose_lhs
      : tensor<64x32xbf16>, tensor<64x16xbf16> -> tensor<32x16xf32>
  %b = tile.dot %kv, %t, %a transpose_lhs transpose_rhs
      : tensor<64x32xbf16>, tensor<16x64xbf16> -> tensor<32x16xf32>
  tile.store %b, %out[%c0, %c0] transposed : tensor<32x16xf32>, memref<?x32xf32, strided<[32, 1]>>
  tile.return
}

tile.kernel @merge(%n: index) attributes {tile.waits_for_dependency} {
  tile.return
}

// CHECK-LABEL: tile.plan @partitioned
// CHECK: tile.work keys_per_block 64 rows_per_token 128 rows_per_tile 64 item_cost 5.000000e+00 merge_cost 0.000000e+00{{$}}
// CHECK: tile.launch @merge grid(%{{.*}}, %{{.*}}, %{{.*}}) dependent args(%{{.*}}) : index
tile.plan @partitioned {
  tile.work keys_per_block 64 rows_per_token 128 rows_per_tile 64 item_cost 5.0 merge_cost 0.0
  %parts = tile.dim "num_parts"
  %partials = tile.dim "num_partials"
  %merges = tile.dim "num_merges"
  %programs = tile.dim "num_merge_programs"
  tile.launch @merge grid(%parts, %merges, %programs) dependent args(%partials) : index
  tile.return
}

// CHECK-LABEL: tile.plan @batch_invariant
// CHECK: merge_cost 1.500000e+00 partial_cost 2.500000e-01 fixed_blocks 16 window 4096 merge_forms [4, 64, 16, 1024, 1, 2] merge_programs 2
tile.plan @batch_invariant {
  tile.work keys_per_block 64 rows_per_token 16 rows_per_tile 16 item_cost 2.5 merge_cost 1.5 partial_cost 0.25 fixed_blocks 16 window 4096 merge_forms [4, 64, 16, 1024, 1, 2] merge_programs 2
  tile.return
}

// CHECK-LABEL: tile.plan @runs
// CHECK: tile.work keys_per_block 64 rows_per_token 32 rows_per_tile 64 runs_per_token 8 item_cost
tile.plan @runs {
  tile.work keys_per_block 64 rows_per_token 32 rows_per_tile 64 runs_per_token 8 item_cost 5.0 merge_cost 0.0
  tile.return
}

// CHECK-LABEL: tile.kernel @rows_in_groups
// CHECK: tile.load %{{.*}}[%{{.*}}, %{{.*}}] : memref<?x3x32xbf16, strided<[384, 32, 1]>> -> tensor<64x32xbf16>
// CHECK: tile.store %{{.*}}, %{{.*}}[%{{.*}}] : tensor<64xf32>, memref<?x3xf32, strided<[12, 1]>>
tile.kernel @rows_in_groups(%src: memref<?xbf16>, %dst: memref<?xf32>, %tokens: index) {
  %c0 = arith.constant 0 : index
  %in = memref.reinterpret_cast %src to offset: [0], sizes: [%tokens, 3, 32], strides: [384, 32, 1]
      : memref<?xbf16> to memref<?x3x32xbf16, strided<[384, 32, 1]>>
  %out = memref.reinterpret_cast %dst to offset: [0], sizes: [%tokens, 3], strides: [12, 1]
      : memref<?xf32> to memref<?x3xf32, strided<[12, 1]>>
  %t = tile.load %in[%c0, %c0] : memref<?x3x32xbf16, strided<[384, 32, 1]>> -> tensor<64x32xbf16>
  %f = arith.extf %t : tensor<64x32xbf16> to tensor<64x32xf32>
  %sum = tile.reduce sum %f dim 1 : tensor<64x32xf32> -> tensor<64xf32>
  tile.store %sum, %out[%c0] : tensor<64xf32>, memref<?x3xf32, strided<[12, 1]>>
  tile.return
}

// CHECK-LABEL: tile.plan @shared_prefix
// CHECK: %[[COMMON:.*]] = tile.dim "num_common_tokens"
// CHECK: tile.shared_prefix %[[COMMON]]
tile.plan @shared_prefix {
  %common = tile.dim "num_common_tokens"
  tile.shared_prefix %common
  %chunks = tile.dim "num_shared_chunks"
  tile.launch @merge grid(%chunks, %chunks, %chunks) dependent args(%chunks) : index
  tile.return
}

// CHECK-LABEL: tile.plan @prompts
// CHECK: %[[PAYS:.*]] = arith.cmpi sgt
// CHECK: tile.prompts %[[PAYS]] above 43 items_per_token 8 tokens_per_item 128 keys_per_block 64 item_cost 1.0{{.*}} merge_cost 2.0{{.*}} partial_cost 0.0{{.*}} window 100
tile.plan @prompts {
  tile.work keys_per_block 64 rows_per_token 8 rows_per_tile 64 item_cost 1.0 merge_cost 1.0
  %tokens = tile.dim "num_prompt_tokens"
  %c1024 = arith.constant 1024 : index
  %pays = arith.cmpi sgt, %tokens, %c1024 : index
  tile.prompts %pays above 43 items_per_token 8 tokens_per_item 128 keys_per_block 64 item_cost 1.0 merge_cost 2.0
      partial_cost 0.0 window 100
  %prompts = tile.dim "num_prompts"
  %longest = tile.dim "max_piece_query_len"
  tile.launch @merge grid(%prompts, %longest, %tokens) dependent args(%tokens) : index
  tile.return
}

// CHECK-LABEL: tile.plan @split_batch
// CHECK-SAME: attributes {tile.decode_threshold = 4 : i64}
tile.plan @split_batch attributes {tile.decode_threshold = 4 : i64} {
  %decodes = tile.dim "num_decodes"
  %prefills = tile.dim "num_prefills"
  %tokens = tile.dim "num_decode_tokens"
  tile.launch @merge grid(%decodes, %prefills, %tokens) dependent args(%tokens) : index
  tile.return
}

// One tile of indices for each dimension of the view.
// CHECK-LABEL: tile.kernel @elements
// CHECK: tile.load_elements %{{.*}}[%{{.*}}, %{{.*}}] : memref<?x?xi32, strided<[?, 1]>>, tensor<64x32xi32>, tensor<64x32xi32> -> tensor<64x32xi32>
// CHECK: tile.load_elements %{{.*}}[%{{.*}}] : memref<?xi32>, tensor<64xi32> -> tensor<64xi32>
tile.kernel @elements(%table: memref<?xi32>, %n: index) {
  %view = memref.reinterpret_cast %table to offset: [0], sizes: [%n, %n], strides: [%n, 1]
      : memref<?xi32> to memref<?x?xi32, strided<[?, 1]>>
  %i = tile.iota 0 : tensor<64x32xi32>
  %j = tile.iota 1 : tensor<64x32xi32>
  %a = tile.load_elements %view[%i, %j]
      : memref<?x?xi32, strided<[?, 1]>>, tensor<64x32xi32>, tensor<64x32xi32> -> tensor<64x32xi32>
  %k = tile.iota 0 : tensor<64xi32>
  %b = tile.load_elements %table[%k] : memref<?xi32>, tensor<64xi32> -> tensor<64xi32>
  tile.return
}

// Attention over pages with values in the keys, over dense rows from a partial, and over codes.
// CHECK-LABEL: tile.kernel @attend
// CHECK: tile.attend queries(%{{.*}}, %{{.*}} : tensor<64x128xbf16>, tensor<64x64xbf16>) keys(%{{.*}}, %{{.*}} : memref<?x64x128xbf16{{.*}}>, memref<?x64x64xbf16{{.*}}>) pages(%{{.*}} : memref<?xi32>) range %{{.*}} to %{{.*}} limit %{{.*}} sees(%{{.*}} : tensor<64xi32>) {block = 64 : i64, lag = 8.000000e+00 : f64, scale = 1.000000e-01 : f64, unit = 64 : i64} -> tensor<64x128xf32>
// CHECK: tile.attend queries({{.*}}) keys({{.*}}) values(%{{.*}} : memref<?x64xbf16{{.*}}>) range %{{.*}} to %{{.*}} limit %{{.*}} diagonal %{{.*}} start(%{{.*}}, %{{.*}}, %{{.*}} : tensor<64xf32>, tensor<64xf32>, tensor<64x64xf32>) {block = 64 : i64, scale = 1.000000e-01 : f64, unit = 1 : i64} -> tensor<64x64xf32>
// CHECK: tile.attend {{.*}} pages(%{{.*}} : memref<?xi32>) values(%{{.*}} : memref<?x32x64xbf16{{.*}}>) value_pages(%{{.*}} : memref<?xi32>) range %{{.*}} to %{{.*}} limit %{{.*}} sees(%{{.*}} : tensor<64xi32>) behind(%{{.*}} : tensor<64xi32>) {
// CHECK: tile.attend {{.*}} pages(%{{.*}} : memref<?xi32>) scales(%{{.*}} : memref<?xf32>)
// CHECK: tile.attend {{.*}} keys(%{{.*}} : memref<?x64x128xf8E4M3FN{{.*}}>) pages(%{{.*}} : memref<?xi32>) values(%{{.*}} : memref<?x64x128xf8E4M3FN{{.*}}>) value_pages(%{{.*}} : memref<?xi32>) scales(%{{.*}} : memref<?xf32>)
// CHECK: tile.attend {{.*}} pages(%{{.*}} : memref<?xi32>) scales(%{{.*}} : memref<?x64x2xf32{{.*}}>)
// CHECK: tile.attend {{.*}} keys(%{{.*}} : memref<?x128xbf16, {{.*}}>) rows(%{{.*}} : memref<?xi32>) range %{{.*}} to %{{.*}} limit %{{.*}} {block = 64 : i64, exact, scale = {{.*}}
// CHECK: tile.attend {{.*}} rows(%{{.*}} : memref<?xi32>) scales(%{{.*}} : memref<?x2xf32{{.*}}>)
// CHECK: tile.load_rows %{{.*}}[%{{.*}} at %{{.*}}, %{{.*}}] : memref<?x64x64xbf16{{.*}}>, memref<?xi32> -> tensor<64x64xbf16>
// CHECK: tile.attend {{.*}} keys(%{{.*}}, %{{.*}} : memref<?x64x128xf8E4M3FN{{.*}}>, memref<?x64x64xbf16{{.*}}>) rows(%{{.*}} : memref<?xi32>) scales(%{{.*}} : memref<?x64x2xi8{{.*}}>)
tile.kernel @attend(%q: memref<?xbf16>, %pool: memref<?xbf16>, %codes: memref<?xf8E4M3FN>, %scales: memref<?xf32>,
                    %table: memref<?xi32>, %bytes: memref<?xi8>, %n: index) {
  %c0 = arith.constant 0 : index
  %seen = arith.constant dense<7> : tensor<64xi32>
  %qv = memref.reinterpret_cast %q to offset: [0], sizes: [%n, 128], strides: [128, 1]
      : memref<?xbf16> to memref<?x128xbf16, strided<[128, 1]>>
  %vv = memref.reinterpret_cast %q to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1]>>
  %kv = memref.reinterpret_cast %pool to offset: [0], sizes: [%n, 64, 128], strides: [12288, 192, 1]
      : memref<?xbf16> to memref<?x64x128xbf16, strided<[12288, 192, 1]>>
  %rv = memref.reinterpret_cast %pool to offset: [128], sizes: [%n, 64, 64], strides: [12288, 192, 1]
      : memref<?xbf16> to memref<?x64x64xbf16, strided<[12288, 192, 1], offset: 128>>
  %cv = memref.reinterpret_cast %codes to offset: [0], sizes: [%n, 64, 128], strides: [8192, 128, 1]
      : memref<?xf8E4M3FN> to memref<?x64x128xf8E4M3FN, strided<[8192, 128, 1]>>
  %sv = memref.reinterpret_cast %scales to offset: [0], sizes: [%n, 64, 2], strides: [128, 2, 1]
      : memref<?xf32> to memref<?x64x2xf32, strided<[128, 2, 1]>>
  %qt = tile.load %qv[%c0, %c0] : memref<?x128xbf16, strided<[128, 1]>> -> tensor<64x128xbf16>
  %rt = tile.load %vv[%c0, %c0] : memref<?x64xbf16, strided<[64, 1]>> -> tensor<64x64xbf16>
  %m, %l, %o = tile.attend queries(%qt, %rt : tensor<64x128xbf16>, tensor<64x64xbf16>)
      keys(%kv, %rv : memref<?x64x128xbf16, strided<[12288, 192, 1]>>,
           memref<?x64x64xbf16, strided<[12288, 192, 1], offset: 128>>)
      pages(%table : memref<?xi32>) range %c0 to %n limit %n sees(%seen : tensor<64xi32>)
      {block = 64 : i64, lag = 8.0 : f64, scale = 0.1 : f64, unit = 64 : i64} -> tensor<64x128xf32>
  %z = arith.constant dense<0.0> : tensor<64x64xf32>
  %m1, %l1, %o1 = tile.attend queries(%qt : tensor<64x128xbf16>)
      keys(%qv : memref<?x128xbf16, strided<[128, 1]>>) values(%vv : memref<?x64xbf16, strided<[64, 1]>>)
      range %c0 to %n limit %n diagonal %c0 start(%m, %l, %z : tensor<64xf32>, tensor<64xf32>, tensor<64x64xf32>)
      {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  %hv = memref.reinterpret_cast %pool to offset: [%n], sizes: [%n, 32, 64], strides: [16384, 512, 1]
      : memref<?xbf16> to memref<?x32x64xbf16, strided<[16384, 512, 1], offset: ?>>
  %first = arith.constant dense<3> : tensor<64xi32>
  %m4, %l4, %o4 = tile.attend queries(%qt : tensor<64x128xbf16>)
      keys(%kv : memref<?x64x128xbf16, strided<[12288, 192, 1]>>) pages(%table : memref<?xi32>)
      values(%hv : memref<?x32x64xbf16, strided<[16384, 512, 1], offset: ?>>)
      value_pages(%table : memref<?xi32>)
      range %c0 to %n limit %n sees(%seen : tensor<64xi32>) behind(%first : tensor<64xi32>)
      {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  %m2, %l2, %o2 = tile.attend queries(%qt : tensor<64x128xbf16>)
      keys(%cv : memref<?x64x128xf8E4M3FN, strided<[8192, 128, 1]>>) pages(%table : memref<?xi32>)
      scales(%scales : memref<?xf32>) range %c0 to %n limit %n
      {block = 64 : i64, scale = 0.1 : f64, unit = 64 : i64} -> tensor<64x128xf32>
  %m8, %l8, %o8 = tile.attend queries(%qt : tensor<64x128xbf16>)
      keys(%cv : memref<?x64x128xf8E4M3FN, strided<[8192, 128, 1]>>) pages(%table : memref<?xi32>)
      values(%cv : memref<?x64x128xf8E4M3FN, strided<[8192, 128, 1]>>) value_pages(%table : memref<?xi32>)
      scales(%scales : memref<?xf32>) range %c0 to %n limit %n
      {block = 64 : i64, scale = 0.1 : f64, unit = 64 : i64} -> tensor<64x128xf32>
  %m3, %l3, %o3 = tile.attend queries(%qt : tensor<64x128xbf16>)
      keys(%cv : memref<?x64x128xf8E4M3FN, strided<[8192, 128, 1]>>) pages(%table : memref<?xi32>)
      scales(%sv : memref<?x64x2xf32, strided<[128, 2, 1]>>) range %c0 to %n limit %n
      {block = 64 : i64, scale = 0.1 : f64, unit = 64 : i64} -> tensor<64x128xf32>
  %m5, %l5, %o5 = tile.attend queries(%qt : tensor<64x128xbf16>)
      keys(%qv : memref<?x128xbf16, strided<[128, 1]>>) rows(%table : memref<?xi32>)
      range %c0 to %n limit %n {block = 64 : i64, exact, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x128xf32>
  %cf = memref.reinterpret_cast %codes to offset: [0], sizes: [%n, 128], strides: [128, 1]
      : memref<?xf8E4M3FN> to memref<?x128xf8E4M3FN, strided<[128, 1]>>
  %sf = memref.reinterpret_cast %scales to offset: [0], sizes: [%n, 2], strides: [2, 1]
      : memref<?xf32> to memref<?x2xf32, strided<[2, 1]>>
  %m6, %l6, %o6 = tile.attend queries(%qt : tensor<64x128xbf16>)
      keys(%cf : memref<?x128xf8E4M3FN, strided<[128, 1]>>) rows(%table : memref<?xi32>)
      scales(%sf : memref<?x2xf32, strided<[2, 1]>>) range %c0 to %n limit %n
      {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x128xf32>
  %rt2 = tile.load_rows %rv[%table at %c0, %c0] : memref<?x64x64xbf16, strided<[12288, 192, 1], offset: 128>>, memref<?xi32>
      -> tensor<64x64xbf16>
  %wide = tensor.concat dim(1) %qt, %rt : (tensor<64x128xbf16>, tensor<64x64xbf16>) -> tensor<64x192xbf16>
  %ev = memref.reinterpret_cast %bytes to offset: [0], sizes: [%n, 64, 2], strides: [128, 2, 1]
      : memref<?xi8> to memref<?x64x2xi8, strided<[128, 2, 1]>>
  %m7, %l7, %o7 = tile.attend queries(%wide : tensor<64x192xbf16>)
      keys(%cv, %rv : memref<?x64x128xf8E4M3FN, strided<[8192, 128, 1]>>,
           memref<?x64x64xbf16, strided<[12288, 192, 1], offset: 128>>) rows(%table : memref<?xi32>)
      scales(%ev : memref<?x64x2xi8, strided<[128, 2, 1]>>) range %c0 to %n limit %n
      {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x192xf32>
  tile.return
}

// B06: a list's numbers as bits, bits as a tile, and attention to keys whose bits are set.
// CHECK-LABEL: tile.kernel @bits_B06
// CHECK: tile.set_bits %{{.*}}[%{{.*}}] from %{{.*}} to %{{.*}} : memref<?x7xi32, strided<[7, 1]>>, memref<?x?xi32, strided<[?, 1]>>
// CHECK: tile.test_bits %{{.*}}, %{{.*}} : tensor<64xi32>, tensor<64xi32> -> tensor<64x64xi1>
// CHECK: tile.attend {{.*}} limit %{{.*}} diagonal %{{.*}} marks(%{{.*}} : memref<?x?xi32, strided<[?, 1]>>) {block = 64 : i64
// CHECK: tile.attend {{.*}} limit %{{.*}} marks(%{{.*}} : memref<?x?xi32, strided<[?, 1]>>) start(%{{.*}}, %{{.*}}, %{{.*}} : tensor<64xf32>
tile.kernel @bits_B06(%list: memref<?xi32>, %words: memref<?xi32>, %q: memref<?xbf16>, %n: index) {
  %c0 = arith.constant 0 : index
  %l = memref.reinterpret_cast %list to offset: [0], sizes: [%n, 7], strides: [7, 1]
      : memref<?xi32> to memref<?x7xi32, strided<[7, 1]>>
  %w = memref.reinterpret_cast %words to offset: [0], sizes: [%n, %n], strides: [%n, 1]
      : memref<?xi32> to memref<?x?xi32, strided<[?, 1]>>
  %qv = memref.reinterpret_cast %q to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1]>>
  tile.set_bits %l[%n] from %n to %w : memref<?x7xi32, strided<[7, 1]>>, memref<?x?xi32, strided<[?, 1]>>
  %row = arith.constant dense<5> : tensor<64xi32>
  %bits = tile.test_bits %row, %row : tensor<64xi32>, tensor<64xi32> -> tensor<64x64xi1>
  %qt = tile.load %qv[%c0, %c0] : memref<?x64xbf16, strided<[64, 1]>> -> tensor<64x64xbf16>
  %m, %s, %o = tile.attend queries(%qt : tensor<64x64xbf16>) keys(%qv : memref<?x64xbf16, strided<[64, 1]>>)
      range %c0 to %n limit %n diagonal %c0 marks(%w : memref<?x?xi32, strided<[?, 1]>>)
      {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  %m1, %s1, %o1 = tile.attend queries(%qt : tensor<64x64xbf16>) keys(%qv : memref<?x64xbf16, strided<[64, 1]>>)
      range %c0 to %n limit %n marks(%w : memref<?x?xi32, strided<[?, 1]>>)
      start(%m, %s, %o : tensor<64xf32>, tensor<64xf32>, tensor<64x64xf32>)
      {block = 96 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x64xf32>
  tile.return
}

// CHECK-LABEL: tile.kernel @top_k
// CHECK: tile.top_k %{{.*}}[%{{.*}}] length %{{.*}} to %{{.*}} : memref<?x?xf32, strided<[?, 1]>>, memref<?x7xi32, strided<[7, 1]>>
// CHECK: tile.top_k %{{.*}}[%{{.*}}] length %{{.*}} slice %{{.*}} of %{{.*}} lists(%{{.*}} : memref<?x2x8192xf32, strided<[16384, 8192, 1]>>) counters(%{{.*}} : memref<?xi32>) to %{{.*}} {longest = 8192 : i64}
tile.kernel @top_k(%scores: memref<?xf32>, %out: memref<?xi32>, %lists: memref<?xf32>, %counters: memref<?xi32>, %n: index) {
  %s = memref.reinterpret_cast %scores to offset: [0], sizes: [%n, %n], strides: [%n, 1]
      : memref<?xf32> to memref<?x?xf32, strided<[?, 1]>>
  %o = memref.reinterpret_cast %out to offset: [0], sizes: [%n, 7], strides: [7, 1]
      : memref<?xi32> to memref<?x7xi32, strided<[7, 1]>>
  %l = memref.reinterpret_cast %lists to offset: [0], sizes: [%n, 2, 8192], strides: [16384, 8192, 1]
      : memref<?xf32> to memref<?x2x8192xf32, strided<[16384, 8192, 1]>>
  tile.top_k %s[%n] length %n to %o : memref<?x?xf32, strided<[?, 1]>>, memref<?x7xi32, strided<[7, 1]>>
  tile.top_k %s[%n] length %n slice %n of %n lists(%l : memref<?x2x8192xf32, strided<[16384, 8192, 1]>>)
      counters(%counters : memref<?xi32>) to %o {longest = 8192 : i64}
      : memref<?x?xf32, strided<[?, 1]>>, memref<?x7xi32, strided<[7, 1]>>
  tile.return
}

// -----

// CHECK-LABEL: tile.plan @fork_V4_41
// CHECK: tile.fork if %{{.*}} {
// CHECK-NEXT: tile.launch @one
// CHECK-NEXT: } beside {
// CHECK-NEXT: tile.launch @one
// CHECK-NEXT: }
tile.kernel @one(%to: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %v = arith.constant 1.0 : f32
  memref.store %v, %to[%c0] : memref<?xf32>
  tile.return
}
tile.plan @fork_V4_41 {
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %t = tile.dim "num_tokens"
  %few = arith.cmpi sle, %t, %c64 : index
  %x = tile.buffer output "x" : memref<?xf32>
  %y = tile.buffer output "y" : memref<?xf32>
  tile.fork if %few {
    tile.launch @one grid(%c1, %c1, %c1) args(%x) : memref<?xf32>
  } beside {
    tile.launch @one grid(%c1, %c1, %c1) args(%y) : memref<?xf32>
  }
  tile.return
}
