// B06: selected positions as bits, and attention to the keys whose bits are set.
//
// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse --split-input-file | FileCheck %s
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --canonicalize --cse --split-input-file | FileCheck %s

// A program for each token, and words for the longest request's keys, which the attention gets beside them.
// CHECK-LABEL: tile.plan @marked
// CHECK-DAG: %[[TOKENS:.*]] = tile.dim "num_tokens"
// CHECK-DAG: %[[SELECTED:.*]] = tile.buffer {{ *}}input "selected"
// CHECK-DAG: tile.buffer {{ *}}metadata "req_id_per_token"
// CHECK-DAG: tile.buffer {{ *}}metadata "context_lens"
// CHECK-DAG: %[[LONGEST:.*]] = tile.dim "max_query_len"
// CHECK-DAG: %[[WORDS:.*]] = arith.ceildivsi %[[LONGEST]], %c32
// CHECK-DAG: %[[ALL:.*]] = arith.muli %[[TOKENS]], %[[WORDS]]
// CHECK: %[[MARKS:.*]] = tile.workspace %[[ALL]] : memref<?xi32>
// CHECK: tile.launch @mark_selected grid(%[[TOKENS]], %c1, %c1) args(%[[SELECTED]], %[[MARKS]], %[[TOKENS]], %[[WORDS]], %[[REQUESTS:.*]], %[[CONTEXTS:.*]])
// CHECK: tile.launch @expanded_attention_marked grid({{.*}}) args({{.*}}, %[[MARKS]], %[[WORDS]])

// CHECK-LABEL: tile.kernel @mark_selected
// CHECK-SAME: %[[LIST:.*]]: memref<?xi32>, %[[OUT:.*]]: memref<?xi32>, %[[N:[a-z0-9]+]]: index, %[[W:[a-z0-9]+]]: index, %[[OF:[a-z0-9]+]]: memref<?xi32>, %[[CACHED:[a-z0-9]+]]: memref<?xi32>
// CHECK: %[[TOKEN:.*]] = tile.program_id 0
// CHECK: %[[ROWS:.*]] = memref.reinterpret_cast %[[LIST]] to offset: [0], sizes: [%[[N]], 48], strides: [48, 1]
// CHECK: %[[BITS:.*]] = memref.reinterpret_cast %[[OUT]] to offset: [0], sizes: [%[[N]], %[[W]]], strides: [%[[W]], 1]
// CHECK: memref.load %[[OF]][%[[TOKEN]]]
// CHECK: memref.load %[[CACHED]]
// CHECK: %[[FIRST:.*]] = arith.index_cast
// CHECK: tile.set_bits %[[ROWS]][%[[TOKEN]]] from %[[FIRST]] to %[[BITS]]
// CHECK-NEXT: tile.return

// Rows of the tile's queries: as many as the request has from its first on, at the row of that one.
// CHECK-LABEL: tile.kernel @expanded_attention_marked
// CHECK-SAME: %[[BUFFER:[a-z0-9]+]]: memref<?xi32>, %[[W:[a-z0-9]+]]: index)
// CHECK: %[[BEGIN:.*]] = arith.index_cast
// CHECK: %[[COUNT:.*]] = arith.subi %{{.*}}, %[[BEGIN]]
// CHECK: %[[ROW:.*]] = arith.muli %{{.*}}, %c{{16|64}} : index
// CHECK: %[[TOKEN:.*]] = arith.addi %[[BEGIN]], %[[ROW]]
// CHECK: %[[OFFSET:.*]] = arith.muli %[[TOKEN]], %[[W]]
// CHECK: %[[LEFT:.*]] = arith.subi %[[COUNT]], %[[ROW]]
// CHECK: %[[VIEW:.*]] = memref.reinterpret_cast %[[BUFFER]] to offset: [%[[OFFSET]]], sizes: [%[[LEFT]], %[[W]]], strides: [%[[W]], 1]
// CHECK: tile.attend {{.*}} diagonal %[[ROW]] marks(%[[VIEW]] : memref<?x?xi32, strided<[?, 1], offset: ?>>) {block = {{32|64}} : i64
func.func @marked(%q: tensor<?x16x64xbf16> {mla.input = "q"}, %k: tensor<?x16x64xbf16> {mla.input = "k"},
                  %selected: tensor<?x48xi32> {mla.input = "selected"}, %batch: !mla.batch)
    -> (tensor<?x16x64xbf16> {mla.output = "output"}) {
  %marks = mla.mark_selected %selected over %batch : tensor<?x48xi32>, !mla.batch -> tensor<?x?xi32>
  %o = mla.expanded_attention query(%q : tensor<?x16x64xbf16>) keys(%k : tensor<?x16x64xbf16>)
      values(%k : tensor<?x16x64xbf16>) over %batch : <query_len = ?> marks(%marks : tensor<?x?xi32>)
      scale 0.25 -> tensor<?x16x64xbf16>
  return %o : tensor<?x16x64xbf16>
}

// -----

// Onto a partial, it is a kernel of its own name.
// CHECK-LABEL: tile.plan @onto
// CHECK: tile.launch @expanded_attention_marked_onto
!lse = tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @onto(%q: tensor<?x16x64xbf16> {mla.input = "q"}, %p: tensor<?x16x64xf32> {mla.input = "p"}, %l: !lse {mla.input = "l"},
                %selected: tensor<?x48xi32> {mla.input = "selected"}, %batch: !mla.batch)
    -> (tensor<?x16x64xbf16> {mla.output = "output"}) {
  %marks = mla.mark_selected %selected over %batch : tensor<?x48xi32>, !mla.batch -> tensor<?x?xi32>
  %o = mla.expanded_attention query(%q : tensor<?x16x64xbf16>) keys(%q : tensor<?x16x64xbf16>)
      values(%q : tensor<?x16x64xbf16>) over %batch : <query_len = ?> onto(%p, %l : tensor<?x16x64xf32>, !lse)
      marks(%marks : tensor<?x?xi32>) scale 0.25 -> tensor<?x16x64xbf16>
  return %o : tensor<?x16x64xbf16>
}

// -----

// Of a chunk the bits of as many keys as a request has there, from the chunk's first position on, which all
// requests have in common. A split reads words from its first key's on: whole ones, as blocks of keys are.
// CHECK-LABEL: tile.plan @chunk
// CHECK-SAME: attributes {tile.optional_chunks}
// CHECK-DAG: %[[KEYS:.*]] = tile.dim "chunk_request_tokens"
// CHECK-DAG: %[[WORDS:.*]] = arith.ceildivsi %[[KEYS]], %c32
// CHECK-DAG: %[[CAPACITY:.*]] = tile.dim "chunk_capacity"
// CHECK: %[[FIRST:.*]] = arith.muli %[[CAPACITY]], %c3
// CHECK: tile.launch @mark_selected grid({{.*}}) args(%{{.*}}, %[[MARKS:.*]], %{{.*}}, %[[WORDS]], %[[FIRST]])
// CHECK: tile.launch @expanded_attention_chunk_marked grid({{.*}}) args({{.*}}, %[[MARKS]], %[[WORDS]]
// CHECK-LABEL: tile.kernel @mark_selected
// CHECK-SAME: %[[FIRST:[a-z0-9]+]]: index)
// CHECK: tile.set_bits %{{.*}}[%{{.*}}] from %[[FIRST]] to
// CHECK-LABEL: tile.kernel @expanded_attention_chunk_marked
// CHECK: %[[SKIPPED:.*]] = arith.minsi %{{.*}}, %{{.*}} : index
// CHECK: %[[BEFORE:.*]] = arith.divui %[[SKIPPED]], %c32
// CHECK: %[[OFFSET:.*]] = arith.addi %{{.*}}, %[[BEFORE]]
// CHECK: %[[LEFT:.*]] = arith.subi %{{.*}}, %[[BEFORE]]
// CHECK: %[[VIEW:.*]] = memref.reinterpret_cast %{{.*}} to offset: [%[[OFFSET]]], sizes: [%{{.*}}, %[[LEFT]]]
// CHECK: tile.attend {{.*}} marks(%[[VIEW]]
!lse = tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @chunk(%q: tensor<?x16x64xbf16> {mla.input = "q"}, %k: tensor<?x16x64xbf16> {mla.input = "k"},
                 %selected: tensor<?x48xi32> {mla.input = "selected"}, %batch: !mla.batch)
    -> (tensor<?x16x64xf32> {mla.output = "output"}, !lse {mla.output = "lse"}) attributes {mla.optional_chunks} {
  %chunk = arith.constant 3 : index
  %splits = arith.constant 2 : index
  %marks = mla.mark_selected %selected over %batch chunk %chunk : tensor<?x48xi32>, !mla.batch -> tensor<?x?xi32>
  %o, %l = mla.expanded_attention query(%q : tensor<?x16x64xbf16>) keys(%k : tensor<?x16x64xbf16>)
      values(%k : tensor<?x16x64xbf16>) over %batch : <query_len = ?> chunk %chunk splits %splits
      marks(%marks : tensor<?x?xi32>) scale 0.25 -> tensor<?x16x64xf32>, !lse
  return %o, %l : tensor<?x16x64xf32>, !lse
}
