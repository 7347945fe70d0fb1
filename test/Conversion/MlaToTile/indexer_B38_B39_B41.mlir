// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --cse | FileCheck %s --check-prefixes=CHECK,SM90
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --cse | FileCheck %s --check-prefixes=CHECK,CPU

// The lightning indexer (B38, B39, B41): its kernels and where their results lie.

!keys = !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k", scale_rule = power_of_two>

// Scores have a column for each key of the longest request, in blocks of 64. Programs of 64 blocks would need so many
// turns of three on each multiprocessor; as many as fill those turns divide each request. Scales are in the pool's second section, f32 from byte 8192 of a page on.
// CHECK-LABEL: tile.plan @scores
// CHECK-DAG: %[[LONGEST:.*]] = tile.dim "max_seq_len"
// CHECK-DAG: %[[SMS:.*]] = tile.dim "num_sms"
// CHECK: tile.launch @quantize_128
// CHECK: tile.launch @index_weights_64
// CHECK: tile.launch @append
// CHECK: %[[BLOCKS:.*]] = arith.ceildivsi %[[LONGEST]], %c64
// CHECK: %[[COLUMNS:.*]] = arith.muli %[[BLOCKS]], %c64
// CHECK: %[[RESIDENT:.*]] = arith.muli %[[SMS]], %c3
// CHECK: %[[OF_TURN:.*]] = arith.muli %[[RESIDENT]], %c64
// CHECK: %[[TURNS:.*]] = arith.ceildivsi %{{.*}}, %[[OF_TURN]]
// CHECK: %[[PROGRAMS:.*]] = arith.muli %[[TURNS]], %[[RESIDENT]]
// CHECK: %[[RUNS:.*]] = arith.divsi %[[PROGRAMS]],
// CHECK: %[[SOME:.*]] = arith.maxsi %[[RUNS]], %c1
// CHECK: %[[WIDTH:.*]] = arith.ceildivsi %[[BLOCKS]], %[[SOME]]
// CHECK: %[[SHARE:.*]] = arith.maxsi %[[WIDTH]], %c1
// CHECK: tile.launch @[[SCORES:index_scores_64x128]] {{.*}}%[[COLUMNS]], %[[SHARE]],
func.func @scores(%q: tensor<?x64x128xbf16> {mla.input = "q"}, %h: tensor<?x64xbf16> {mla.input = "h"},
                  %k: tensor<?x128xbf16> {mla.input = "k"}, %batch: !mla.batch<query_len = 1>, %keys: !keys)
    -> (tensor<?x?xf32> {mla.output = "scores"}, !keys) {
  %q8, %s = mla.quantize %q group 128 rule <power_of_two> floor 1.0e-38 amax_floor 1.0e-4
      : tensor<?x64x128xbf16> -> tensor<?x64x128xf8E4M3FN>, tensor<?x64x1xf32>
  %w = mla.index_weights %h, %s factor 0.125 : tensor<?x64xbf16>, tensor<?x64x1xf32> -> tensor<?x64xf32>
  %after = mla.append %k into %keys, %batch : tensor<?x128xbf16> into !keys, !mla.batch<query_len = 1>
  %all = mla.index_scores query(%q8 : tensor<?x64x128xf8E4M3FN>) weights(%w : tensor<?x64xf32>) over %after, %batch
      : !keys, !mla.batch<query_len = 1> -> tensor<?x?xf32>
  return %all, %after : tensor<?x?xf32>, !keys
}

// A slice of the rows has as many rows as its type says, whatever the batch.
// CHECK-LABEL: tile.plan @slice
// CHECK: tile.launch @[[SLICE:index_scores_64x128[_0-9]*]]
func.func @slice(%q8: tensor<?x64x128xf8E4M3FN> {mla.input = "q"}, %w: tensor<?x64xf32> {mla.input = "w"}, %batch: !mla.batch,
                 %keys: !keys) -> (tensor<512x?xf32> {mla.output = "scores"}) {
  %first = arith.constant 512 : index
  %some = mla.index_scores query(%q8 : tensor<?x64x128xf8E4M3FN>) weights(%w : tensor<?x64xf32>) over %keys, %batch from %first
      : !keys, !mla.batch -> tensor<512x?xf32>
  return %some : tensor<512x?xf32>
}

// CHECK: tile.kernel @[[SCORES]]
// CHECK: memref.reinterpret_cast {{.*}} offset: [2048]{{.*}} strides: [%{{.*}}, 1, 0] : memref<?xf32>
// CHECK: scf.for
// CHECK: tile.load_paged {{.*}} -> tensor<64x128xf8E4M3FN>
// SM90: tile.dot {{.*}} transpose_rhs : tensor<64x128xf8E4M3FN>, tensor<64x128xf8E4M3FN> -> tensor<64x64xf32>
// CPU: tile.dot {{.*}} transpose_rhs : tensor<64x128xf32>, tensor<64x128xf32> -> tensor<64x64xf32>
// CHECK-NOT: tile.dot
// CHECK: tile.store {{.*}} : tensor<64xf32>
// CHECK: tile.kernel @[[SLICE]]
// CHECK-COUNT-2: tile.dot
