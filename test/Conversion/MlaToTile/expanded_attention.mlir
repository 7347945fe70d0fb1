// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --tile-expand-attend --cse | FileCheck %s --check-prefixes=CHECK,GPU
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --tile-expand-attend --cse | FileCheck %s --check-prefixes=CHECK,CPU

// A01, A43. One program: a tile of queries of one head of one request. 20 heads of
// 24 + 8 (queries, keys) and 40 (values): nothing is a multiple of a tile.

// CHECK-LABEL: tile.plan @causal_A01_A43
// CHECK: %[[QSL:.*]] = tile.buffer metadata "query_start_loc"
// CHECK: %[[B:.*]] = tile.dim "num_requests"
// CHECK: %[[MAXQ:.*]] = tile.dim "max_query_len"
// GPU: %[[TILES:.*]] = arith.ceildivsi %[[MAXQ]], %c64
// CPU: %[[TILES:.*]] = arith.ceildivsi %[[MAXQ]], %c16
// CHECK: tile.launch @expanded_attention_causal grid(%[[TILES]], %c20{{.*}}, %[[B]]) args(%[[QSL]], %[[QSL]],
func.func @causal_A01_A43(%q: tensor<?x20x24xbf16> {mla.input = "q"}, %q_pe: tensor<?x20x8xbf16> {mla.input = "q_pe"},
                  %k: tensor<?x20x24xbf16> {mla.input = "k"}, %k_pe: tensor<?x8xbf16> {mla.input = "k_pe"},
                  %v: tensor<?x20x40xbf16> {mla.input = "v"}, %batch: !mla.batch)
    -> (tensor<?x20x40xbf16> {mla.output = "output"}) {
  %o = mla.expanded_attention query(%q, %q_pe : tensor<?x20x24xbf16>, tensor<?x20x8xbf16>)
      keys(%k, %k_pe : tensor<?x20x24xbf16>, tensor<?x8xbf16>) values(%v : tensor<?x20x40xbf16>)
      over %batch : <query_len = ?> scale 0.25 -> tensor<?x20x40xbf16>
  return %o : tensor<?x20x40xbf16>
}

// A chunk of context, without rope; f32 partial and a head-major LSE.
// CHECK-LABEL: tile.plan @chunk
// CHECK: tile.buffer metadata "chunk_cu_seq_lens"
// CHECK: tile.launch @expanded_attention_chunk
func.func @chunk(%q: tensor<?x20x24xf32> {mla.input = "q"}, %batch: !mla.batch,
                 %k: tensor<?x20x24xf32> {mla.input = "k"}, %v: tensor<?x20x40xf32> {mla.input = "v"})
    -> (tensor<?x20x40xf32> {mla.output = "output"},
        tensor<20x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>> {mla.output = "lse"}) {
  %chunk = arith.constant 1 : index
  %o, %lse = mla.expanded_attention query(%q : tensor<?x20x24xf32>) keys(%k : tensor<?x20x24xf32>)
      values(%v : tensor<?x20x40xf32>) over %batch : <query_len = ?> chunk %chunk
      scale 0.25 -> tensor<?x20x40xf32>, tensor<20x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>>
  return %o, %lse : tensor<?x20x40xf32>, tensor<20x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>>
}

// A33. Chunk after chunk goes on in one memory, the loop's. The start's rows are read
// as any: they are not known to be empty.
// CHECK-LABEL: tile.plan @chunks_A33
// CHECK-DAG: %[[P:.*]] = tile.workspace %{{.*}} : memref<?xf32>
// CHECK: tile.launch @fill_empty_lse
// CHECK: scf.for
// CHECK: tile.launch @expanded_attention_chunk_onto
// CHECK-SAME: args(%{{.*}}, %[[OUT:[a-z0-9_]+]], %[[LSE:[a-z0-9_]+]], %[[OUT]], %[[LSE]])
// CHECK-NEXT: }
// CHECK: tile.launch @expanded_attention_causal_onto
// CHECK-SAME: args(%{{.*}}, %[[OUT]], %[[LSE]])
func.func @chunks_A33(%q: tensor<?x4x16xbf16> {mla.input = "q"}, %k: tensor<?x4x16xbf16> {mla.input = "k"}, %batch: !mla.batch)
    -> (tensor<?x4x16xbf16> {mla.output = "output"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = mla.batch_dim %batch "num_chunks" : <query_len = ?>
  %p, %p_lse = mla.empty_partial %batch : <query_len = ?> -> tensor<?x4x16xf32>, tensor<?x4xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
  %ctx:2 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %p, %acc_lse = %p_lse)
      -> (tensor<?x4x16xf32>, tensor<?x4xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>) {
    %o, %lse = mla.expanded_attention query(%q : tensor<?x4x16xbf16>) keys(%k : tensor<?x4x16xbf16>) values(%k : tensor<?x4x16xbf16>)
        over %batch : <query_len = ?> chunk %i
        onto(%acc, %acc_lse : tensor<?x4x16xf32>, tensor<?x4xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>)
        scale 0.25 -> tensor<?x4x16xf32>, tensor<?x4xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
    scf.yield %o, %lse : tensor<?x4x16xf32>, tensor<?x4xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
  }
  %all = mla.expanded_attention query(%q : tensor<?x4x16xbf16>) keys(%q : tensor<?x4x16xbf16>) values(%q : tensor<?x4x16xbf16>)
      over %batch : <query_len = ?>
      onto(%ctx#0, %ctx#1 : tensor<?x4x16xf32>, tensor<?x4xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>)
      scale 0.25 -> tensor<?x4x16xbf16>
  return %all : tensor<?x4x16xbf16>
}

// A33. Splits of a chunk's keys: the same kernel writes partials, which are merged, or without splits the
// results. Only the partials are in a workspace, which is empty without splits.
// CHECK-LABEL: tile.plan @splits_A33
// CHECK-DAG: %[[OUT:.*]] = tile.buffer output "output"
// CHECK-DAG: %[[LSE:.*]] = tile.buffer output "lse"
// CHECK-DAG: %[[B:.*]] = tile.dim "num_requests"
// CHECK-DAG: %[[S:.*]] = tile.dim "num_chunks"
// CHECK: %[[FEW:.*]] = arith.cmpi sle, %[[S]], %c1
// CHECK: scf.if %[[FEW]] {
// CHECK:   tile.launch @[[KERNEL:expanded_attention_chunk_onto.*]] grid({{.*}}, %c4{{.*}}, %{{.*}}) args({{.*}}, %[[OUT]], %[[LSE]], {{.*}})
// CHECK: } else {
// CHECK:   %[[COUNT:.*]] = arith.select %{{.*}}, %[[S]], %c0
// CHECK:   %[[P:.*]] = tile.workspace %{{.*}} : memref<?xf32>
// CHECK:   %[[PL:.*]] = tile.workspace %{{.*}} : memref<?xf32>
// CHECK:   %[[PARTS:.*]] = arith.muli %[[B]], %[[S]]
// CHECK:   tile.launch @[[KERNEL]] grid({{.*}}, %c4{{.*}}, %[[PARTS]]) args({{.*}}, %[[P]], %[[PL]], {{.*}})
// CHECK:   tile.launch @merge_splits grid({{.*}}) args({{.*}}, %[[COUNT]], %[[P]], %[[PL]], %[[OUT]], %[[LSE]])
// CHECK: }
func.func @splits_A33(%q: tensor<?x4x16xbf16> {mla.input = "q"}, %k: tensor<?x4x16xbf16> {mla.input = "k"},
                      %p: tensor<?x4x16xf32> {mla.input = "p"},
                      %p_lse: tensor<?x4xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>> {mla.input = "p_lse"},
                      %batch: !mla.batch)
    -> (tensor<?x4x16xf32> {mla.output = "output"},
        tensor<?x4xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>> {mla.output = "lse"}) {
  %c0 = arith.constant 0 : index
  %n = mla.batch_dim %batch "num_chunks" : <query_len = ?>
  %o, %lse = mla.expanded_attention query(%q : tensor<?x4x16xbf16>) keys(%k : tensor<?x4x16xbf16>) values(%k : tensor<?x4x16xbf16>)
      over %batch : <query_len = ?> chunk %c0
      onto(%p, %p_lse : tensor<?x4x16xf32>, tensor<?x4xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>)
      splits %n scale 0.25 -> tensor<?x4x16xf32>, tensor<?x4xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
  return %o, %lse : tensor<?x4x16xf32>, tensor<?x4xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
}

// CHECK-LABEL: tile.kernel @expanded_attention_causal(
// A head's queries and keys are views with the row stride of all heads; the rope
// key is shared by the heads.
// CHECK: %[[HAS_ROWS:.*]] = arith.cmpi slt
// CHECK: scf.if %[[HAS_ROWS]]
// CHECK-DAG: sizes: [%{{.*}}, 24], strides: [480, 1]
// CHECK-DAG: sizes: [%{{.*}}, 8], strides: [160, 1]
// CHECK-DAG: sizes: [%{{.*}}, 40], strides: [800, 1]
// CHECK-DAG: sizes: [%{{.*}}, 8], strides: [8, 1]
// The loop stops at the last row's diagonal.
// CHECK: %[[LIMIT:.*]] = arith.minsi
// CHECK: scf.for %{{.*}} = %c0{{.*}} to %[[LIMIT]] step %c64
// Two products, no concatenation.
// CHECK: %[[NOPE:.*]] = tile.dot %{{.*}}, %{{.*}}, %{{.*}} transpose_rhs : tensor<{{64|16}}x32xbf16>, tensor<64x32xbf16>
// CHECK: tile.dot %{{.*}}, %{{.*}}, %[[NOPE]] transpose_rhs : tensor<{{64|16}}x16xbf16>, tensor<64x16xbf16>
// CHECK: arith.cmpi slt
// CHECK: arith.cmpi sle
// CHECK: %[[SEEN:.*]] = arith.andi
// CHECK: %[[MASKED:.*]] = arith.select %[[SEEN]]
// CHECK: tile.reduce max %[[MASKED]]
// scale · log2(e)
// CHECK: %[[FACTOR:.*]] = arith.constant dense<0.360673755> : tensor<{{64|16}}x64xf32>
// CHECK: arith.mulf %[[MASKED]], %[[FACTOR]]
// CHECK: %[[P:.*]] = math.exp2 %{{.*}} : tensor<{{64|16}}x64xf32>
// The sum takes the unrounded numerators, the product the rounded ones.
// CHECK: tile.reduce sum %[[P]]
// CHECK: arith.truncf %[[P]]
// CHECK: tile.dot {{.*}} : tensor<{{64|16}}x64xbf16>, tensor<64x48xbf16>
// CHECK: scf.yield
// CHECK: arith.divf
// CHECK: tile.store

// CHECK-LABEL: tile.kernel @expanded_attention_chunk(
// CHECK: scf.for
// CHECK-NOT: arith.andi
// CHECK: scf.yield
// CHECK: math.log2
// CHECK: dense<0.693147182>
// CHECK: tile.store %{{.*}} : tensor<{{64|16}}xf32>, memref<?xf32, strided<[1], offset: ?>>

// In place a request without keys in the chunk has no rows to compute.
// CHECK-LABEL: tile.kernel @expanded_attention_chunk_onto(
// CHECK: %[[KEYS:.*]] = arith.subi
// CHECK: %[[HAS_KEYS:.*]] = arith.cmpi slt, %c0{{.*}}, %{{.*}}
// CHECK: %[[ROWS:.*]] = arith.select %[[HAS_KEYS]]
// CHECK: arith.cmpi slt, %{{.*}}, %[[ROWS]]
// CHECK: scf.if
// The partial's rows: the output's, an LSE for each; an infinite one is empty.
// CHECK: %[[O:.*]] = tile.load %{{.*}} -> tensor<{{64|16}}x16xf32>
// CHECK: %[[L:.*]] = tile.load %{{.*}} -> tensor<{{64|16}}xf32>
// CHECK: %[[ABS:.*]] = math.absf %[[L]]
// CHECK: %[[EMPTY:.*]] = arith.cmpf oeq, %[[ABS]]
// CHECK: %[[MAX:.*]] = arith.select %[[EMPTY]]
// CHECK: %[[SUM:.*]] = arith.select %[[EMPTY]]
// CHECK: arith.mulf %[[O]]
// CHECK: %[[START:.*]] = arith.select
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %[[MAX]], %{{.*}} = %[[SUM]], %{{.*}} = %[[START]])

// CHECK-LABEL: tile.kernel @expanded_attention_causal_onto(
// CHECK-NOT: arith.select {{.*}} : index
// CHECK: scf.if
