// B43: sparse attention is cut by the blocks of its lists, whatever is cached, and the parts of the
// machine are divided by the tokens of all queries. Of lists that the step makes itself a sequence has no more
// entries than it has tokens, or runs of them (V4-31).
//
// RUN: mla-opt %s --mla-split-kv | FileCheck %s
// RUN: mla-opt %s --mla-split-kv | FileCheck %s --check-prefix=CACHED

// CACHED-LABEL: func @speculative
// CACHED-NOT: max_seq_len
// CACHED-NOT: max_context_len
// CACHED-LABEL: func @listed

// CHECK-LABEL: func @speculative
// 128 heads are two tiles of a token.
// CHECK: %[[T:.*]] = mla.batch_dim %{{.*}} "num_tokens"
// CHECK: %[[TWO:.*]] = arith.constant 2 : index
// CHECK: %[[TILES:.*]] = arith.muli %[[T]], %[[TWO]]
// CHECK: %[[DIV:.*]] = arith.maxsi %[[TILES]]
// CHECK: %[[SMS:.*]] = mla.batch_dim %{{.*}} "num_sms"
// CHECK: %[[PARTS:.*]] = arith.divsi %[[SMS]], %[[DIV]]
// 2048 entries.
// CHECK: arith.constant 2048 : index
// CHECK: %[[N:.*]] = arith.minsi
// CHECK: mla.sparse_attention {{.*}} splits
func.func @speculative(%q: tensor<?x128x512xbf16>, %rows: tensor<?x2048xi32>, %batch: !mla.batch<query_len = 4>,
    %cache: !mla.cache<page_size = 64, fields = [latent: 512], element = bf16>) -> tensor<?x128x512xbf16> {
  %o = mla.sparse_attention query(%q : tensor<?x128x512xbf16>) rows(%rows : tensor<?x2048xi32>) over %cache, %batch
      : !mla.cache<page_size = 64, fields = [latent: 512], element = bf16>, !mla.batch<query_len = 4> scale 0.1 -> tensor<?x128x512xbf16>
  return %o : tensor<?x128x512xbf16>
}

// CHECK-LABEL: func @listed
// CHECK: %[[WINDOW:.*]] = arith.constant 128 : index
// CHECK: %[[LONGEST:.*]] = mla.batch_dim %{{.*}} "max_seq_len"
// CHECK: %[[ONE:.*]] = arith.constant 1 : index
// CHECK: %[[TOKENS:.*]] = arith.ceildivsi %[[LONGEST]], %[[ONE]]
// CHECK: %[[NEAR:.*]] = arith.minsi %[[WINDOW]], %[[TOKENS]]
// CHECK: %[[ALL:.*]] = arith.constant 8192 : index
// CHECK: %[[LONG:.*]] = mla.batch_dim %{{.*}} "max_seq_len"
// CHECK: %[[EVERY:.*]] = arith.constant 128 : index
// CHECK: %[[ENTRIES:.*]] = arith.ceildivsi %[[LONG]], %[[EVERY]]
// CHECK: %[[FAR:.*]] = arith.minsi %[[ALL]], %[[ENTRIES]]
// CHECK: arith.addi %[[NEAR]], %[[FAR]]
func.func @listed(%q: tensor<?x64x512xbf16>, %batch: !mla.batch<query_len = 1>, %w: !mla.cache<page_size = 64, fields = [latent: 512], element = bf16>,
    %e: !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, tokens_per_row = 128>) -> tensor<?x64x512xbf16> {
  %n, %near = mla.seen_keys %batch window 128 in %w : !mla.batch<query_len = 1> in !mla.cache<page_size = 64, fields = [latent: 512], element = bf16> -> tensor<?xi32>, tensor<?x128xi32>
  %m, %far = mla.seen_keys %batch every 128 in %e : !mla.batch<query_len = 1> in !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, tokens_per_row = 128> -> tensor<?xi32>, tensor<?x8192xi32>
  %o = mla.sparse_attention query(%q : tensor<?x64x512xbf16>) rows(%near : tensor<?x128xi32>) lengths(%n : tensor<?xi32>) over %w, %batch
      : !mla.cache<page_size = 64, fields = [latent: 512], element = bf16>, !mla.batch<query_len = 1>
      beside(%far, %m, %e : tensor<?x8192xi32>, tensor<?xi32>, !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, tokens_per_row = 128>)
      scale 0.1 -> tensor<?x64x512xbf16>
  return %o : tensor<?x64x512xbf16>
}
