// B06: queries that are columns of a wider product, beside an indexer's: rows are no multiple of a head apart.
//
// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse --tile-plan-schedules --tile-loop-over-programs --canonicalize --cse --tile-to-sm90 2>/dev/null | FileCheck %s

// As many heads as end within a row, from the first one's column on; not one of the columns behind them.
// CHECK-LABEL: sm90.kernel @expanded_attention_causal
// CHECK-SAME: #tile.pingpong
// CHECK: %[[HEADS:.*]] = memref.reinterpret_cast %{{.*}} to offset: [8], sizes: [16, %{{.*}}, 64], strides: [64, 1064, 1]
// CHECK-NEXT: sm90.tensor_map %[[HEADS]] : {{.*}} -> <64x64xbf16>
func.func @among_others(%all: tensor<?x1064xbf16> {mla.input = "all"}, %k: tensor<?x16x64xbf16> {mla.input = "k"}, %batch: !mla.batch)
    -> (tensor<?x16x64xbf16> {mla.output = "output"}) {
  %n = mla.batch_dim %batch "num_tokens" : <query_len = ?>
  %q = tensor.extract_slice %all[0, 8] [%n, 1024] [1, 1] : tensor<?x1064xbf16> to tensor<?x1024xbf16>
  %heads = tensor.expand_shape %q [[0], [1, 2]] output_shape [%n, 16, 64] : tensor<?x1024xbf16> into tensor<?x16x64xbf16>
  %o = mla.expanded_attention query(%heads : tensor<?x16x64xbf16>) keys(%k : tensor<?x16x64xbf16>)
      values(%k : tensor<?x16x64xbf16>) over %batch : <query_len = ?> scale 0.25 -> tensor<?x16x64xbf16>
  return %o : tensor<?x16x64xbf16>
}
