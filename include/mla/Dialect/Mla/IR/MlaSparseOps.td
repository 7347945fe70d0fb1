//===- MlaSparseOps.td - attention over selected rows -*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attention whose keys a list of rows names, token by token. Included by MlaOps.td.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_MLA_IR_MLASPARSEOPS_TD
#define MLA_DIALECT_MLA_IR_MLASPARSEOPS_TD

def Mla_SparseAttentionOp : Mla_Op<"sparse_attention", [
    AttrSizedOperandSegments, AttrSizedResultSegments]> {
  let summary = "multi-query attention on the rows that a list names";
  let description = [{
    One KV head, as in mla.absorbed_attention: the key is a row [c | k_pe], the value its first
    Lkv columns, `S = scale · (q_lat·c + q_pe·k_pe)`; or, with one query of both parts' columns, the
    value is the whole row. The keys of token t, for all of its heads, are
    the rows rows[t, k] for k < lengths[t], or for all K (sparse.md sections 7 to 10). Nothing else
    says what a token sees: no causality, block table or length of its request does.

    **Rows** lie `over` a cache's pool, where mla.convert_indices numbers them, or are those of `keys`, a gathered workspace. An entry that
    is negative, or not below their number, is invalid: it contributes nothing and nothing is read for it. An
    entry at `lengths[t]` and behind is itself not read; a length below 0 is 0, one above K is K. Each
    occurrence of a row counts.

    **A second scope.** The rows of `beside`, of a cache of their own, are keys under the same softmax: those
    of a window, say, and what has been compressed of the tokens before. A split covers its share of the blocks of both lists, one behind the other.

    **Results.** `output[t, n] = Σ p · c / Σ p · 1 / (1 + exp(sink[n] − lse[t, n]))`, the factor only
    with a sink: −inf has no effect, +inf makes 0. lse and `max_logits`, the maximum of S,
    are natural and know nothing of the sink. A token without valid entries has output 0 whatever
    the sink, lse −inf, max_logits −inf.

    **Chunks of requests.** Keys that mla.gather has read `whole` are those of some `prefills`: only the
    tokens of these requests are attended to, gather_query_loc[chunk] up to [chunk + 1]; other rows of
    the output are `onto`'s.

    q_lat [T, N, Lkv], q_pe [T, N, R] (absent iff R = 0) or q_lat [T, N, Lkv + R] over a cache, which is
    Lkv below; rows [T, K] i32, lengths [T] i32, sink [N] f32; keys [S, Lkv] and [S, R]; beside: rows [T, K2], lengths [T].
    Without `num_splits`: output [T, N, Lkv], lse and max_logits [T, N] f32. With it: split s covers
    the s-th of `num_splits` equal ranges of the list's blocks, and the results are partials with a
    leading dimension, as mla.merge_splits takes them; that is also where a sink goes then.
    (C1) shapes agree; K > 0 is static. (C2) rows are over a cache and a batch, or of keys.
    (C3) q_lat, q_pe and the rows have one element type, the output has it or is f32.
    (C4) a cache's rows begin with a latent; those of several sections of a page are whole values.
    (C5) N is static, from 1 to 128. (C6) scale > 0.
    (C7) lse, if there, has an encoding with base e, token_major, empty = neg_inf; max_logits has none.
    (C8) with num_splits: lse is there, and there is no sink.
    (C9) prefills, chunk and onto come together, with keys; then there are neither splits nor lse and
    max_logits, and onto has the output's type.
    (C10) a second scope has rows and a cache, of the fields and element of the first, which is a cache, too.

    Example: a decode step over rows of 656 bytes; a prefill over a workspace.
    ```mlir
    %o, %lse, %max = mla.sparse_attention query(%q_lat, %q_pe : tensor<?x16x512xbf16>, tensor<?x16x64xbf16>)
      rows(%rows : tensor<?x2048xi32>) lengths(%len : tensor<?xi32>) sink(%sink : tensor<16xf32>)
      over %cache, %batch
      : !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved, format = "fp8_ds_mla">,
        !mla.batch<query_len = 1>
      scale 0.1352 -> tensor<?x16x512xbf16>
      lse tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>> max_logits tensor<?x16xf32>
    %p = mla.sparse_attention query(%q_lat, %q_pe : tensor<?x16x512xbf16>, tensor<?x16x64xbf16>)
      rows(%rows : tensor<?x2048xi32>) keys(%c, %k_pe : tensor<?x512xbf16>, tensor<?x64xbf16>)
      scale 0.1352 -> tensor<?x16x512xbf16>
    %b = mla.sparse_attention query(%q : tensor<?x64x512xbf16>)
      rows(%near : tensor<?x128xi32>) lengths(%n : tensor<?xi32>) sink(%sink : tensor<64xf32>)
      over %window, %batch
      : !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved>,
        !mla.batch<query_len = 1>
      beside(%far, %m, %entries : tensor<?x512xi32>, tensor<?xi32>,
             !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved, tokens_per_row = 4>)
      scale 0.0441 -> tensor<?x64x512xbf16>
    ```

    Source: DeepSeek Sparse Attention (deepseek-ai/DeepSeek-V3.2-Exp); FlashMLA (deepseek-ai/FlashMLA).
  }];
  let arguments = (ins Mla_Tensor:$q_lat, Optional<Mla_Tensor>:$q_pe, Mla_IndexTensor:$rows,
                       Optional<Mla_IndexTensor>:$lengths, Optional<Mla_LseTensor>:$sink,
                       Optional<Mla_CacheType>:$cache, Optional<Mla_BatchType>:$batch,
                       Optional<Mla_Tensor>:$latent, Optional<Mla_Tensor>:$k_pe,
                       Optional<Mla_BatchType>:$prefills, Optional<Index>:$chunk,
                       Optional<Mla_Tensor>:$onto,
                       Optional<Mla_IndexTensor>:$beside_rows,
                       Optional<Mla_IndexTensor>:$beside_lengths,
                       Optional<Mla_CacheType>:$beside_cache,
                       Optional<Index>:$num_splits, F64Attr:$scale);
  let results = (outs Mla_Tensor:$output, Optional<Mla_LseTensor>:$lse,
                      Optional<Mla_LseTensor>:$max_logits);
  let hasCanonicalizer = 1;
  let assemblyFormat = [{
    `query` `(` $q_lat (`,` $q_pe^)? `:` type($q_lat) (`,` type($q_pe)^)? `)`
    `rows` `(` $rows `:` type($rows) `)` (`lengths` `(` $lengths^ `:` type($lengths) `)`)?
    (`sink` `(` $sink^ `:` type($sink) `)`)?
    (`over` $cache^ `,` $batch `:` type($cache) `,` type($batch))?
    (`keys` `(` $latent^ (`,` $k_pe^)? `:` type($latent) (`,` type($k_pe)^)? `)`)?
    (`of` $prefills^ `chunk` $chunk `onto` $onto `:` type($prefills) `,` type($onto))?
    (`beside` `(` $beside_rows^ `,` $beside_lengths `,` $beside_cache `:` type($beside_rows) `,`
     type($beside_lengths) `,` type($beside_cache) `)`)?
    (`splits` $num_splits^)? `scale` $scale attr-dict
    `->` type($output) (`lse` type($lse)^)? (`max_logits` type($max_logits)^)?
  }];
  let extraClassDeclaration = [{
    /// The most heads that a token may have (sparse.md section 10).
    static constexpr int64_t kMaxHeads = 128;
    int64_t getHeads();
    /// Entries of a token's list.
    int64_t getWidth();
    /// Columns of a row: of its latent, and of its rope key.
    int64_t getLatentWidth();
    int64_t getRopeWidth();
    /// Whether values are whole rows, of a latent and a rope key.
    bool areValuesRows();
  }];
}

#endif // MLA_DIALECT_MLA_IR_MLASPARSEOPS_TD
