// B43: sparse attention is cut by the blocks of its lists, whatever is cached, and the parts of the
// machine are divided by the tokens of all queries.
//
// RUN: mla-opt %s --mla-split-kv | FileCheck %s
// RUN: mla-opt %s --mla-split-kv | FileCheck %s --check-prefix=CACHED

// CACHED-NOT: max_seq_len
// CACHED-NOT: max_context_len

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
