// Attention over lists that the step itself has made of positions is told where they end: behind as many keys
// as a token sees where they were selected among these, else behind the last valid entry, which few tokens' do
// without. Lists with lengths of their own, or that no attention reads, need none.
//
// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse | FileCheck %s
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --canonicalize --cse | FileCheck %s --check-prefix=CPU

!cache = !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved>
!q = tensor<?x16x512xbf16>

// CHECK-LABEL: tile.plan @selected
// CHECK: %[[TOKENS:.*]] = tile.dim "num_tokens"
// CHECK: %[[REQUESTS:.*]] = tile.buffer metadata "req_id_per_token"
// CHECK: %[[ENDS:.*]] = tile.workspace %[[TOKENS]] : memref<?xi32>
// CHECK-NEXT: tile.launch @convert_indices grid({{.*}}) dependent args({{.*}}, %[[ENDS]], %[[REQUESTS]],
// CHECK: tile.launch @sparse_attention grid({{.*}}) args({{.*}}, %[[ENDS]],
// CPU-LABEL: tile.plan @selected
// CPU: tile.launch @convert_indices grid({{.*}}) args({{.*}}%[[ENDS:[0-9]+]]) :
// CPU: tile.launch @sparse_attention grid({{.*}}) args({{.*}}%[[ENDS]]
func.func @selected(%q: !q {mla.input = "q"}, %scores: tensor<?x4096xf32> {mla.input = "scores"},
    %batch: !mla.batch, %cache: !cache) -> (!q {mla.output = "output"}) {
  %p = mla.top_k %scores over %batch k 2048 : tensor<?x4096xf32>, !mla.batch -> tensor<?x2048xi32>
  %rows = mla.convert_indices %p in %cache, %batch : tensor<?x2048xi32> in !cache, !mla.batch
  %o = mla.sparse_attention query(%q : !q) rows(%rows : tensor<?x2048xi32>)
      over %cache, %batch : !cache, !mla.batch scale 0.1 -> !q
  return %o : !q
}

// Two parts of 1024 entries.
// CHECK-LABEL: tile.plan @given
// CHECK: %[[TWICE:.*]] = arith.muli %{{.*}}, %c2 : index
// CHECK: %[[ENDS:.*]] = tile.workspace %[[TWICE]] : memref<?xi32>
// CHECK: %[[FEW:.*]] = arith.cmpi sle, %{{.*}}, %c33
// CHECK: scf.if %[[FEW]]
// CHECK: tile.launch @convert_indices{{[_0-9]*}} grid({{.*}}) args({{.*}}, %[[ENDS]]) :
// CHECK: tile.launch @convert_indices_many grid({{.*}}) args({{.*}}, %[[ENDS]]) :
// CHECK: tile.launch @sparse_attention{{[_0-9]*}} grid({{.*}}) args({{.*}}, %[[ENDS]],
func.func @given(%q: !q {mla.input = "q"}, %p: tensor<?x2048xi32> {mla.input = "positions"},
    %batch: !mla.batch, %cache: !cache) -> (!q {mla.output = "output"}) {
  %rows = mla.convert_indices %p in %cache, %batch : tensor<?x2048xi32> in !cache, !mla.batch
  %o = mla.sparse_attention query(%q : !q) rows(%rows : tensor<?x2048xi32>)
      over %cache, %batch : !cache, !mla.batch scale 0.1 -> !q
  return %o : !q
}

// CHECK-LABEL: tile.plan @lengths
// CHECK: %[[ROWS:.*]] = tile.workspace
// CHECK-NOT: tile.workspace
// CHECK: tile.launch @sparse_attention{{[_0-9]*}} grid({{.*}}) args({{.*}}%[[ROWS]]
// CHECK: tile.return
func.func @lengths(%q: !q {mla.input = "q"}, %p: tensor<?x2048xi32> {mla.input = "positions"},
    %n: tensor<?xi32> {mla.input = "lengths"}, %batch: !mla.batch, %cache: !cache) -> (!q {mla.output = "output"}) {
  %rows = mla.convert_indices %p in %cache, %batch : tensor<?x2048xi32> in !cache, !mla.batch
  %o = mla.sparse_attention query(%q : !q) rows(%rows : tensor<?x2048xi32>) lengths(%n : tensor<?xi32>)
      over %cache, %batch : !cache, !mla.batch scale 0.1 -> !q
  return %o : !q
}

// CHECK-LABEL: tile.plan @unread
// CHECK-NOT: tile.workspace
// CHECK: tile.return
func.func @unread(%p: tensor<?x2048xi32> {mla.input = "positions"}, %batch: !mla.batch, %cache: !cache)
    -> (tensor<?x2048xi32> {mla.output = "rows"}) {
  %rows = mla.convert_indices %p in %cache, %batch : tensor<?x2048xi32> in !cache, !mla.batch
  return %rows : tensor<?x2048xi32>
}

// A selection that is made in one branch and attended to in another of the same condition: ends lie ahead of both.
// CHECK-LABEL: tile.plan @branches
// CHECK: %[[ENDS:.*]] = tile.workspace %{{.*}} : memref<?xi32>
// CHECK: scf.if
// CHECK: tile.launch @convert_indices{{[_0-9]*}} grid({{.*}}) dependent args({{.*}}, %[[ENDS]], %{{.*}},
// CHECK: tile.launch @sparse_attention{{[_0-9]*}} grid({{.*}}) args({{.*}}, %[[ENDS]],
// CHECK: tile.return
func.func @branches(%q: !q {mla.input = "q"}, %scores: tensor<?x4096xf32> {mla.input = "scores"},
    %batch: !mla.batch, %cache: !cache) -> (!q {mla.output = "output"}) {
  %most = arith.constant 2048 : index
  %longest = mla.batch_dim %batch "max_seq_len" : !mla.batch
  %tokens = mla.batch_dim %batch "num_tokens" : !mla.batch
  %all = arith.cmpi sle, %longest, %most : index
  %rows = scf.if %all -> (tensor<?x2048xi32>) {
    %none = tensor.empty(%tokens) : tensor<?x2048xi32>
    scf.yield %none : tensor<?x2048xi32>
  } else {
    %p = mla.top_k %scores over %batch k 2048 : tensor<?x4096xf32>, !mla.batch -> tensor<?x2048xi32>
    %r = mla.convert_indices %p in %cache, %batch : tensor<?x2048xi32> in !cache, !mla.batch
    scf.yield %r : tensor<?x2048xi32>
  }
  %o = scf.if %all -> (!q) {
    scf.yield %q : !q
  } else {
    %s = mla.sparse_attention query(%q : !q) rows(%rows : tensor<?x2048xi32>)
        over %cache, %batch : !cache, !mla.batch scale 0.1 -> !q
    scf.yield %s : !q
  }
  return %o : !q
}
