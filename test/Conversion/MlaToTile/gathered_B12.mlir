// Separate mode: whole requests go to a workspace, and tokens of a chunk attend to it in place.
//
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --canonicalize --cse | FileCheck %s --check-prefixes=CHECK,GRID
// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse | FileCheck %s --check-prefixes=CHECK,ITEMS

!cache = !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16,
                    rope_order = interleaved, format = "fp8_ds_mla">

// CHECK-LABEL: tile.plan @prefill
// CHECK-DAG: %[[NUM:.*]] = tile.dim "num_gathers"
// CHECK-DAG: %[[ROWS:.*]] = tile.dim "gather_rows"
// GRID-DAG: %[[TOKENS:.*]] = tile.dim "gather_tokens"
// CHECK-DAG: %[[LONGEST:.*]] = tile.dim "max_seq_len"
// CHECK-DAG: %[[OWNERS:.*]] = tile.buffer metadata "gather_req_id_per_token"
// CHECK-DAG: %[[STARTS:.*]] = tile.buffer metadata "gather_starts"
// CHECK-DAG: %[[ENDS:.*]] = tile.buffer metadata "gather_cu_seq_lens"
// CHECK-DAG: %[[FIRSTS:.*]] = tile.buffer metadata "gather_query_loc"
// CHECK-DAG: %[[OUTPUT:.*]] = tile.buffer output "output"
// CHECK: tile.launch @convert_indices{{.*}}%[[OWNERS]], %[[STARTS]]
// CHECK-NOT: tile.launch @copy
// CHECK: scf.for %[[I:.*]] = %c0{{.*}} to %[[NUM]]
// CHECK: %[[ELEMENTS:.*]] = arith.muli %[[ROWS]], %c512
// CHECK: tile.workspace %[[ELEMENTS]]
// CHECK: %[[MOST:.*]] = arith.minsi %[[LONGEST]], %[[ROWS]]
// CHECK: arith.ceildivsi %[[MOST]]
// CHECK: tile.launch @gather{{.*}}%[[ENDS]], %{{.*}}, %[[I]], %c0
// GRID: tile.launch @sparse_attention_chunk{{[_0-9]*}} grid(%[[TOKENS]], %c1{{.*}}%[[I]], %[[FIRSTS]], %[[OUTPUT]]
// ITEMS: tile.launch @sparse_attention_chunk{{.*}}%[[I]], %[[FIRSTS]], %[[OUTPUT]]
func.func @prefill(%q: tensor<?x8x512xbf16> {mla.input = "q"}, %qp: tensor<?x8x64xbf16> {mla.input = "q_pe"},
    %positions: tensor<?x2048xi32> {mla.input = "positions"}, %batch: !mla.batch, %cache: !cache)
    -> (tensor<?x8x512xbf16> {mla.output = "output"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = mla.convert_indices %positions in %cache, %batch workspace : tensor<?x2048xi32> in !cache, !mla.batch
  %t = mla.batch_dim %batch "num_tokens" : !mla.batch
  %nothing = tensor.empty(%t) : tensor<?x8x512xbf16>
  %n = mla.batch_dim %batch "num_gathers" : !mla.batch
  %o = scf.for %i = %c0 to %n step %c1 iter_args(%onto = %nothing) -> (tensor<?x8x512xbf16>) {
    %c, %k_pe = mla.gather %cache, %batch whole chunk %i : !cache, !mla.batch -> tensor<?x512xbf16>, tensor<?x64xbf16>
    %p = mla.sparse_attention query(%q, %qp : tensor<?x8x512xbf16>, tensor<?x8x64xbf16>) rows(%rows : tensor<?x2048xi32>)
        keys(%c, %k_pe : tensor<?x512xbf16>, tensor<?x64xbf16>) of %batch chunk %i onto %onto
        : !mla.batch, tensor<?x8x512xbf16> scale 0.1 -> tensor<?x8x512xbf16>
    scf.yield %p : tensor<?x8x512xbf16>
  }
  return %o : tensor<?x8x512xbf16>
}

// Tokens of the chunk, counted from its first one.
// CHECK: tile.kernel @sparse_attention_chunk
// CHECK: memref.load
// CHECK: memref.load
// GRID: scf.if
// ITEMS: scf.for
// CHECK: tile.attend
