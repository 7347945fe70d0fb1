//===- MlaAttentionOps.td - attention, partial results and their merge -*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attention in every form, and what joins partial results. Included by MlaOps.td.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_MLA_IR_MLAATTENTIONOPS_TD
#define MLA_DIALECT_MLA_IR_MLAATTENTIONOPS_TD

def Mla_AttentionOp : Mla_Op<"attention", [AttrSizedOperandSegments]> {
  let summary = "attention of new tokens over their requests, in a form to be chosen";
  let description = [{
    For request r with context_len C: query j sees keys s <= C + j. With
    k_nope = c·W_UK, v = c·W_UV per head:
    `S = scale · (q_nope·k_nope + q_pe·k_pe)`, `output = softmax(S) · v`.
    Keys below C come from the cache, the others from `latent` and `k_pe` (which
    `mla.append` has already put into `cache`). Both forms give the same result
    in real arithmetic (mla.md sections 5, 6); `form` says which one to use.
    `scale` is the (P+R)-based value in both.

    q_nope [T, N, P], q_pe [T, N, R], latent [T, Lkv], k_pe [T, R],
    w_uk [N, P, Lkv], w_uv [N, V, Lkv], output [T, N, V];
    q_pe and k_pe are absent iff R = 0.
    lse, if wanted: f32 with an #mla.lse encoding, base e, empty = neg_inf.
    (C1) shapes agree. (C2) cache widths are Lkv and R. (C3) scale > 0.
    Over the parts of a mla.share_prefix: the shared one sees the prefix and nothing
    else; the own ones see keys from num_shared_tokens on.

    (C4) one element type; over a shared prefix the output may be f32. (C5) lse has an encoding and shape [N, T] or [T, N] accordingly.
    (C6) form is expanded over a shared prefix, absorbed over own parts.

    **Sparse attention.** With `selected` [T, K] i32 token t sees the keys at positions
    selected[t, k] of its request and no others, its own among them (append first); negative
    entries, and those at and behind the request's length, are none. Whoever selects sees to causality, and
    that no position comes twice (sparse.md sections 1, 5, 7). (C7) then there is no shared prefix. In the
    expanded form all keys are multiplied, and a mask leaves those that were not selected out.
    With `gathered` the keys of whole requests are first gathered into a workspace, from which they are
    selected (sparse.md section 11, separate mode): the same result. (C8) only with `selected`, not over
    decodes, and not in the expanded form.

    Example:
    ```mlir
    %o = mla.attention query(%q_nope, %q_pe : tensor<?x16x128xbf16>, tensor<?x16x64xbf16>)
      latent(%c, %k_pe : tensor<?x512xbf16>, tensor<?x64xbf16>)
      weights(%w_uk, %w_uv : tensor<16x128x512xbf16>, tensor<16x128x512xbf16>)
      over %cache, %batch
      : <page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>,
        <query_len = ?>
      scale 0.1352 {form = #mla.form<absorbed>} -> tensor<?x16x128xbf16>
    ```

    Source: DeepSeek-V2 (DeepSeek-AI, 2024), section 2.1.
  }];
  let arguments = (ins Mla_Tensor:$q_nope, Optional<Mla_Tensor>:$q_pe, Mla_Tensor:$latent,
                       Optional<Mla_Tensor>:$k_pe, Mla_Tensor:$w_uk, Mla_Tensor:$w_uv,
                       Mla_CacheType:$cache, Mla_BatchType:$batch,
                       Optional<Mla_IndexTensor>:$selected, F64Attr:$scale,
                       DefaultValuedAttr<Mla_FormAttr, "Form::Auto">:$form,
                       UnitAttr:$gathered);
  let results = (outs Mla_Tensor:$output, Optional<Mla_LseTensor>:$lse);
  let hasCanonicalizer = 1;
  let assemblyFormat = [{
    `query` `(` $q_nope (`,` $q_pe^)? `:` type($q_nope) (`,` type($q_pe)^)? `)`
    `latent` `(` $latent (`,` $k_pe^)? `:` type($latent) (`,` type($k_pe)^)? `)`
    `weights` `(` $w_uk `,` $w_uv `:` type($w_uk) `,` type($w_uv) `)`
    `over` $cache `,` $batch `:` type($cache) `,` type($batch)
    (`selected` `(` $selected^ `:` type($selected) `)`)?
    `scale` $scale attr-dict `->` type($output) (`,` type($lse)^)?
  }];
}

def Mla_ExpandedAttentionOp : Mla_Op<"expanded_attention", [AttrSizedOperandSegments]> {
  let summary = "multi-head attention over up-projected keys and values";
  let description = [{
    Without `chunk`: keys are the step's new tokens (rows query_start_loc[r]..),
    causal: query j sees keys i <= j of its request. With `chunk`: keys are that
    chunk of the cached context (rows chunk_cu_seq_lens[chunk][r]..), unmasked;
    a request without rows in the chunk gets output 0, lse −inf.
    `S = scale · (q_nope·k_nope[n] + q_pe·k_pe)` with k_pe shared by the heads.

    With `onto`, the results are those of `mla.merge` of a partial and what this op
    gives without it: attention goes on where the partial's left off, so no partial
    of its own is written. Where the partial's lse is infinite (empty), its output is
    never read into the result.

    With `splits`, programs of their own go over each of `num_splits` equal runs of a request's keys in
    the chunk, the first of them on from the partial, and the runs are merged before the results are
    written: what the results are does not depend on it but for rounding. Fewer than 2 are none.

    q_nope [T, N, P], q_pe [T, N, R], k_nope [S, N, P], k_pe [S, R], v [S, N, V],
    output [T, N, V] (activation type, or f32 for a partial that will be merged),
    lse [T, N] or [N, T] f32 with an #mla.lse encoding; partial [T, N, V] f32,
    partial_lse as lse.
    (C1) shapes and element types agree; q_pe and k_pe are both there or both not;
    S = T without `chunk`. (C2) scale > 0.
    (C3) lse, if there, has an encoding with base e and empty = neg_inf.
    (C4) partial is f32; partial_lse has an encoding as in C3.
    (C5) with num_splits: chunk is there; lse, if there, is token_major.

    With `marks` (`mla.mark_selected` over the same batch and chunk), [T, W] i32, query j sees of these keys
    those whose bits are set; one that sees none gets output 0, lse −inf. (C6) marks have rank 2.

    Example:
    ```mlir
    %o, %lse = mla.expanded_attention query(%q_nope, %q_pe : tensor<?x16x128xbf16>, tensor<?x16x64xbf16>)
      keys(%k_nope, %k_pe : tensor<?x16x128xbf16>, tensor<?x64xbf16>)
      values(%v : tensor<?x16x128xbf16>) over %batch : <query_len = ?> chunk %i
      onto(%p, %p_lse : tensor<?x16x128xf32>, tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>)
      scale 0.1352
      -> tensor<?x16x128xf32>, tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
    ```

    Source: FlashAttention-2 (Dao, 2023); Flash-Decoding (Dao et al., 2023) for splits.
  }];
  let arguments = (ins Mla_Tensor:$q_nope, Optional<Mla_Tensor>:$q_pe, Mla_Tensor:$k_nope,
                       Optional<Mla_Tensor>:$k_pe, Mla_Tensor:$v, Mla_BatchType:$batch,
                       Optional<Index>:$chunk, Optional<Mla_Tensor>:$partial,
                       Optional<Mla_LseTensor>:$partial_lse, Optional<Index>:$num_splits,
                       Optional<Mla_IndexTensor>:$marks, F64Attr:$scale);
  let results = (outs Mla_Tensor:$output, Optional<Mla_LseTensor>:$lse);
  let hasCanonicalizer = 1;
  let assemblyFormat = [{
    `query` `(` $q_nope (`,` $q_pe^)? `:` type($q_nope) (`,` type($q_pe)^)? `)`
    `keys` `(` $k_nope (`,` $k_pe^)? `:` type($k_nope) (`,` type($k_pe)^)? `)`
    `values` `(` $v `:` type($v) `)` `over` $batch `:` type($batch) (`chunk` $chunk^)?
    (`onto` `(` $partial^ `,` $partial_lse `:` type($partial) `,` type($partial_lse) `)`)?
    (`splits` $num_splits^)? (`marks` `(` $marks^ `:` type($marks) `)`)?
    `scale` $scale attr-dict `->` type($output) (`,` type($lse)^)?
  }];
  let extraClassDeclaration = [{
    /// Causal over new tokens, or unmasked over a chunk of context.
    bool isCausal() { return !getChunk(); }
  }];
}

def Mla_AbsorbedAttentionOp : Mla_Op<"absorbed_attention", [AttrSizedOperandSegments]> {
  let summary = "multi-query attention on the cached latents";
  let description = [{
    One KV head: the key is the cache row [c | k_pe], the value its first Lkv
    columns. Query j of request r sees keys s < seq_len − (query_len − 1 − j)
    (mla.md sections 6, 10); a row that sees none gives output 0, lse −inf.
    `S = scale · (q_lat·c + q_pe·k_pe)`.

    q_lat [T, N, Lkv], q_pe [T, N, R] (absent iff R = 0).
    Without `num_splits`: output [T, N, Lkv], lse [T, N].
    With it: split s of request r covers the s-th of `num_splits` equal ranges
    of the request's KV blocks; output [S, T, N, Lkv] normalised per split,
    lse [S, T, N]; an empty split has lse −inf and unspecified output.
    (C1) shapes agree with the cache; q_lat and q_pe have its element type, the
    output has it or is f32. (C2) scale > 0.
    (C3) lse, if there, has an encoding with base e, token_major, empty = neg_inf.
    (C4) with num_splits: lse is there.

    Example:
    ```mlir
    %o = mla.absorbed_attention query(%q_lat, %q_pe : tensor<?x16x512xbf16>, tensor<?x16x64xbf16>)
      over %cache, %batch
      : <page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>,
        <query_len = 1>
      scale 0.1352 -> tensor<?x16x512xbf16>
    ```

    Source: FlashMLA (deepseek-ai/FlashMLA); Flash-Decoding (Dao et al., 2023) for splits.
  }];
  let arguments = (ins Mla_Tensor:$q_lat, Optional<Mla_Tensor>:$q_pe, Mla_CacheType:$cache,
                       Mla_BatchType:$batch, Optional<Index>:$num_splits, F64Attr:$scale);
  let results = (outs Mla_Tensor:$output, Optional<Mla_LseTensor>:$lse);
  let hasCanonicalizer = 1;
  let assemblyFormat = [{
    `query` `(` $q_lat (`,` $q_pe^)? `:` type($q_lat) (`,` type($q_pe)^)? `)`
    `over` $cache `,` $batch `:` type($cache) `,` type($batch) (`splits` $num_splits^)?
    `scale` $scale attr-dict `->` type($output) (`,` type($lse)^)?
  }];
}

def Mla_GroupedAttentionOp : Mla_Op<"grouped_attention", [AttrSizedOperandSegments]> {
  let summary = "attention of groups of heads on cached keys and values";
  let description = [{
    Multi-head (Nkv = N), grouped-query and multi-query (Nkv = 1) attention on caches that have
    each KV head's keys and values: query head n reads KV head n / g, where g = N / Nkv. Query j of request
    r stands at p = seq_len − query_len + j and sees keys s <= p, its own among them: append first
    (paged-cache.md sections 9, 10, 14). With `window` it sees the last so many only,
    p − window < s <= p; 0 is no window. `S = scale · q·k`, with a `softcap` c > 0
    `S = c · tanh(scale · q·k / c)`; `output = softmax(S) · v`; nothing is
    added to sums, and a row that sees no key gives output 0, lse −inf.

    A `sink` is one more score of each head, whose value is 0: `output = Σ exp(S) v / (exp(sink) + Σ exp(S))`,
    and lse is of that denominator; −inf is no sink, +inf makes output 0 and lse a number above 1e29. Of the splits the
    first has it, so that a merge needs none: `lse` of a row without keys is the sink.

    Keys and values are fields of one pool, or each has a pool of its own, with its page size,
    block table and slots. Of their rows only the keys that some query of the request sees are read.

    query [T, N, Dk], keys of Nkv heads x Dk, values of Nkv heads x Dv; Dk and Dv may differ; sink [N] f32.
    Without `num_splits`: output [T, N, Dv], lse [T, N]. With it, as in
    mla.absorbed_attention: output [S, T, N, Dv] normalised per split, lse [S, T, N].
    (C1) shapes agree; the pools have the fields `key` and `value` with equally many heads, of
    which N is a multiple.
    (C2) query and both pools have one element type, the output has it or is f32.
    (C3) both pools have a row of every token (tokens_per_row = 1); a pool's window is 0, or the
    op's is from 1 to it.
    (C4) scale > 0, window >= 0, softcap from 0 to 512. (C5) lse, if there, has an encoding with base e, token_major,
    empty = neg_inf. (C6) with num_splits: lse is there.

    Example: 64 heads on 8 KV heads of 128 columns, in pages of 16.
    ```mlir
    %o, %lse = mla.grouped_attention query(%q : tensor<?x64x128xbf16>)
      keys(%k : <page_size = 16, fields = [key: 8x128], element = bf16, format = "k_nhd">)
      values(%v : <page_size = 16, fields = [value: 8x128], element = bf16, format = "v_nhd">)
      over %batch : <query_len = 1> sink(%sink : tensor<64xf32>) window 4096
      scale 0.088388347648318447 -> tensor<?x64x128xbf16>, tensor<?x64xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
    ```

    Source: GQA (Ainslie et al., 2023); Flash-Decoding (Dao et al., 2023) for splits.
  }];
  let arguments = (ins Mla_Tensor:$query, Mla_CacheType:$key_cache, Mla_CacheType:$value_cache,
                       Mla_BatchType:$batch, Optional<Mla_LseTensor>:$sink,
                       Optional<Index>:$num_splits,
                       DefaultValuedAttr<I64Attr, "0">:$window,
                       DefaultValuedAttr<F64Attr, "0.0">:$softcap, F64Attr:$scale);
  let results = (outs Mla_Tensor:$output, Optional<Mla_LseTensor>:$lse);
  let hasCanonicalizer = 1;
  let assemblyFormat = [{
    `query` `(` $query `:` type($query) `)` `keys` `(` $key_cache `:` type($key_cache) `)`
    `values` `(` $value_cache `:` type($value_cache) `)` `over` $batch `:` type($batch)
    (`sink` `(` $sink^ `:` type($sink) `)`)? (`splits` $num_splits^)? (`window` $window^)?
    (`softcap` $softcap^)? `scale` $scale attr-dict
    `->` type($output) (`,` type($lse)^)?
  }];
  let extraClassDeclaration = [{
    int64_t getHeads();
    /// Query heads that read one KV head.
    int64_t getGroup();
  }];
}

def Mla_EmptyPartialOp : Mla_Op<"empty_partial"> {
  let summary = "the identity of merge";
  let description = [{
    lse −inf everywhere; the output is unspecified (merge never reads it).
    output [T, N, V] f32, lse [T, N] or [N, T] with an encoding.
    (C1) shapes agree; empty = neg_inf.

    Example:
    ```mlir
    %o, %lse = mla.empty_partial %batch : <query_len = ?>
      -> tensor<?x16x128xf32>, tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
    ```
  }];
  let arguments = (ins Mla_BatchType:$batch);
  let results = (outs Mla_Tensor:$output, Mla_LseTensor:$lse);
  let assemblyFormat = "$batch attr-dict `:` type($batch) `->` type($output) `,` type($lse)";
}

def Mla_MergeOp : Mla_Op<"merge"> {
  let summary = "joins two partials by their LSE";
  let description = [{
    Per (token, head), in f32 (mla.md section 8): infinite LSEs count as −inf
    (empty); m = max(lA, lB); w = exp(l − m); output = Σ select(w = 0, 0, o·w)/Σ w;
    lse = m + ln Σ w. Both empty: output 0, lse −inf. NaN propagates. The output of
    an empty partial is never read into the result.

    a, b, output [T, N, V]; lses [T, N] or [N, T].
    (C1) shapes agree. (C2) the LSE encodings, the result's too, are equal, base e, empty = neg_inf.

    Example:
    ```mlir
    %o = mla.merge %a, %a_lse with %b, %b_lse
      : tensor<?x16x128xf32>, tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
      with tensor<?x16x128xf32>, tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
      -> tensor<?x16x128xbf16>
    ```

    Source: Flash-Decoding (Dao et al., 2023); cascade attention of flashinfer-ai/flashinfer.
  }];
  let arguments = (ins Mla_Tensor:$a, Mla_LseTensor:$a_lse, Mla_Tensor:$b, Mla_LseTensor:$b_lse);
  let results = (outs Mla_Tensor:$output, Optional<Mla_LseTensor>:$lse);
  let assemblyFormat = [{
    $a `,` $a_lse `with` $b `,` $b_lse attr-dict
    `:` type($a) `,` type($a_lse) `with` type($b) `,` type($b_lse) `->` type($output) (`,` type($lse)^)?
  }];
  let hasCanonicalizer = 1;
}

def Mla_MergeSplitsOp : Mla_Op<"merge_splits", [
    AttrSizedOperandSegments, AttrSizedResultSegments]> {
  let summary = "joins the splits of every request by their LSE";
  let description = [{
    `lse = ln Σ_s exp(lse_s)`, `output = Σ_s exp(lse_s − lse) · output_s`, in
    ascending split order (deterministic), with the rules of `mla.merge` for
    empty splits. With a sink, output[t, n] is multiplied by 1 / (1 + exp(sink[n] − lse[t, n])), as
    mla.sparse_attention does without splits; the lse knows nothing of it. max_logits is
    the maximum of partial_max over the splits.

    partial_output [S, T, N, V], partial_lse [S, T, N], output [T, N, V], lse [T, N];
    sink [N], partial_max [S, T, N] and max_logits [T, N] f32.
    (C1) shapes agree; partial_output is f32 or has the output's element type. (C2) encodings equal, base e, token_major, empty = neg_inf.
    (C3) max_logits, if there, comes of a partial_max; neither has an encoding.

    Example:
    ```mlir
    %o = mla.merge_splits %p, %p_lse
      : tensor<?x?x16x512xf32>, tensor<?x?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
      -> tensor<?x16x512xbf16>
    %n = mla.merge_splits %p, %p_lse sink(%sink : tensor<16xf32>)
      : tensor<?x?x16x512xf32>, tensor<?x?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
      -> tensor<?x16x512xbf16>
    ```

    Source: Flash-Decoding (Dao et al., 2023).
  }];
  let arguments = (ins Mla_Tensor:$partial_output, Mla_LseTensor:$partial_lse,
                       Optional<Mla_LseTensor>:$partial_max, Optional<Mla_LseTensor>:$sink);
  let results = (outs Mla_Tensor:$output, Optional<Mla_LseTensor>:$lse,
                      Optional<Mla_LseTensor>:$max_logits);
  let hasCanonicalizer = 1;
  let assemblyFormat = [{
    $partial_output `,` $partial_lse (`max` `(` $partial_max^ `:` type($partial_max) `)`)?
    (`sink` `(` $sink^ `:` type($sink) `)`)? attr-dict
    `:` type($partial_output) `,` type($partial_lse)
    `->` type($output) (`,` type($lse)^)? (`max_logits` type($max_logits)^)?
  }];
}

def Mla_ConvertLseOp : Mla_Op<"convert_lse"> {
  let summary = "changes the convention of an LSE tensor";
  let description = [{
    Converts base (lse_e = lse_2 · ln 2), layout and the value of empty rows.
    (C1) both types have an encoding; shapes agree up to layout.

    Example:
    ```mlir
    %api = mla.convert_lse %lse
      : tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
      -> tensor<16x?xf32, #mla.lse<base = two, layout = head_major, empty = pos_inf>>
    ```
  }];
  let arguments = (ins Mla_LseTensor:$input);
  let results = (outs Mla_LseTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
}

#endif // MLA_DIALECT_MLA_IR_MLAATTENTIONOPS_TD
