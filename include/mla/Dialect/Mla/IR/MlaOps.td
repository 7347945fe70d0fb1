//===- MlaOps.td - operations of the mla dialect -*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_MLA_IR_MLAOPS_TD
#define MLA_DIALECT_MLA_IR_MLAOPS_TD

include "mla/Dialect/Mla/IR/MlaTypes.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"

class Mla_Op<string mnemonic, list<Trait> traits = []>
    : Op<Mla_Dialect, mnemonic, !listconcat([Pure], traits)> {
  let hasVerifier = 1;
}

def Mla_Tensor : RankedTensorOf<[BF16, F16, F32]>;
def Mla_LseTensor : RankedTensorOf<[F32]>;
def Mla_Fp8Tensor : RankedTensorOf<[F8E4M3FN]>;

//===----------------------------------------------------------------------===//
// Projections
//===----------------------------------------------------------------------===//

def Mla_RmsNormOp : Mla_Op<"rms_norm"> {
  let summary = "root-mean-square normalisation of rows";
  let description = [{
    `y[t, i] = multiplier · gamma[i] · x[t, i] / sqrt(mean_i x[t, i]² + eps)`,
    formed in f32, rounded once (mla.md section 3.2).

    x, y [T, L]; gamma [L].
    (C1) shapes agree; x, gamma and y have one element type. (C2) eps > 0.

    Example:
    ```mlir
    %y = mla.rms_norm %x, %gamma eps 1.0e-6 : tensor<?x512xbf16>, tensor<512xbf16> -> tensor<?x512xbf16>
    ```

    Source: Root Mean Square Layer Normalization (Zhang and Sennrich, 2019).
  }];
  let arguments = (ins Mla_Tensor:$input, Mla_Tensor:$gamma, F64Attr:$eps,
                       DefaultValuedAttr<F64Attr, "1.0">:$multiplier);
  let results = (outs Mla_Tensor:$result);
  let assemblyFormat = "$input `,` $gamma `eps` $eps attr-dict `:` type($input) `,` type($gamma) `->` type($result)";
}

def Mla_ProjectOp : Mla_Op<"project"> {
  let summary = "linear projection of token rows";
  let description = [{
    `y[t, o] = Σ_i x[t, i] · w[o, i] (+ bias[o])`, accumulated in f32, rounded
    once. x is [T, I], or [T, N, K] read as [T, N·K]. w is [O, I] giving
    y [T, O], or [N, J, I] giving y [T, N, J] (per-head rows).

    (C1) w's last dimension is the number of elements of one row of x.
    (C2) y is x's first dimension followed by w's leading dimensions.
    (C3) one element type. (C4) bias, if given, is [O] and w has rank 2.

    Example:
    ```mlir
    %q = mla.project %qc, %w_uq : tensor<?x1536xbf16>, tensor<16x128x1536xbf16> -> tensor<?x16x128xbf16>
    %y = mla.project %o, %w_o : tensor<?x16x128xbf16>, tensor<7168x2048xbf16> -> tensor<?x7168xbf16>
    ```

    Source: DeepSeek-V2 (DeepSeek-AI, 2024), section 2.1.
  }];
  let arguments = (ins Mla_Tensor:$input, Mla_Tensor:$weight, Optional<Mla_Tensor>:$bias);
  let results = (outs Mla_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $weight (`bias` `(` $bias^ `:` type($bias) `)`)? attr-dict
    `:` type($input) `,` type($weight) `->` type($result)
  }];
}

def Mla_LatentProjectOp : Mla_Op<"latent_project"> {
  let summary = "projection to a normalised latent, with an unnormalised tail";
  let description = [{
    `z = x · wᵀ (+ bias)`, rounded to the activation dtype; `latent =
    RMSNorm(z[:, :L]) · multiplier` with gamma [L]; `tail = z[:, L:]`. For the KV side
    w is kv_a_proj_with_mqa [Lkv + R, H] and the tail is the raw rope key; for
    the query side w is q_a_proj [Lq, H] and there is no tail
    (mla.md section 3.2, steps 1, 3, 4). `multiplier` is LongCat's (section 3.4).

    (C1) w is [L + R, I] with L = gamma's length; the tail is [T, R] iff R > 0.
    (C2) one element type. (C3) eps > 0. (C4) bias, if given, is [L + R].

    Example:
    ```mlir
    %c, %k = mla.latent_project %h, %w_kv_a, %gamma eps 1.0e-6
      : tensor<?x7168xbf16>, tensor<576x7168xbf16>, tensor<512xbf16> -> tensor<?x512xbf16>, tensor<?x64xbf16>
    ```

    Source: DeepSeek-V2 (DeepSeek-AI, 2024), section 2.1.
  }];
  let arguments = (ins Mla_Tensor:$input, Mla_Tensor:$weight, Mla_Tensor:$gamma,
                       Optional<Mla_Tensor>:$bias, F64Attr:$eps,
                       DefaultValuedAttr<F64Attr, "1.0">:$multiplier);
  let results = (outs Mla_Tensor:$latent, Optional<Mla_Tensor>:$tail);
  let assemblyFormat = [{
    $input `,` $weight `,` $gamma (`bias` `(` $bias^ `:` type($bias) `)`)? `eps` $eps attr-dict
    `:` type($input) `,` type($weight) `,` type($gamma) `->` type($latent) (`,` type($tail)^)?
  }];
}

def Mla_HeadProjectOp : Mla_Op<"head_project"> {
  let summary = "per-head projection (online absorption)";
  let description = [{
    With w [N, J, K]: `y[t, n, j] = Σ_k x[t, n, k] · w[n, j, k]` (W_UV after
    attention). With `contract_rows`, w is [N, K, J] and
    `y[t, n, j] = Σ_k x[t, n, k] · w[n, k, j]` (q_nope · W_UK; mla.md sections 6, 7).
    Accumulated in f32, rounded once.

    (C1) x [T, N, K], y [T, N, J]; dimensions agree. (C2) one element type.

    Example:
    ```mlir
    %q_lat = mla.head_project %q_nope, %w_uk contract_rows
      : tensor<?x16x128xbf16>, tensor<16x128x512xbf16> -> tensor<?x16x512xbf16>
    ```

    Source: DeepSeek-V2 (DeepSeek-AI, 2024), section 2.1.
  }];
  let arguments = (ins Mla_Tensor:$input, Mla_Tensor:$weight, UnitAttr:$contract_rows);
  let results = (outs Mla_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $weight (`contract_rows` $contract_rows^)? attr-dict
    `:` type($input) `,` type($weight) `->` type($result)
  }];
}

def Mla_FoldQueryOp : Mla_Op<"fold_query"> {
  let summary = "absorbs W_UK into the query up-projection";
  let description = [{
    `result[n, l, q] = Σ_p w_uk[n, p, l] · w_uq[n, p, q]`: W_Q_UK of mla.md
    section 7, stored [out, in] per head. f32 accumulation.

    w_uq [N, P, Lq], w_uk [N, P, Lkv], result [N, Lkv, Lq].
    (C1) dimensions agree. (C2) one element type.

    Example:
    ```mlir
    %w = mla.fold_query %w_uq, %w_uk
      : tensor<16x128x1536xbf16>, tensor<16x128x512xbf16> -> tensor<16x512x1536xbf16>
    ```

    Source: DeepSeek-V2 (DeepSeek-AI, 2024), section 2.1.
  }];
  let arguments = (ins Mla_Tensor:$w_uq, Mla_Tensor:$w_uk);
  let results = (outs Mla_Tensor:$result);
  let assemblyFormat = "$w_uq `,` $w_uk attr-dict `:` type($w_uq) `,` type($w_uk) `->` type($result)";
}

def Mla_FoldOutputOp : Mla_Op<"fold_output"> {
  let summary = "absorbs W_UV into the output projection";
  let description = [{
    `result[h, n·Lkv + l] = Σ_v w_o[h, n·V + v] · w_uv[n, v, l]`: W_UV_O of
    mla.md section 7, stored [out, in]. f32 accumulation.

    w_uv [N, V, Lkv], w_o [H, N·V], result [H, N·Lkv].
    (C1) dimensions agree. (C2) one element type.

    Example:
    ```mlir
    %w = mla.fold_output %w_uv, %w_o
      : tensor<16x128x512xbf16>, tensor<7168x2048xbf16> -> tensor<7168x8192xbf16>
    ```

    Source: DeepSeek-V2 (DeepSeek-AI, 2024), section 2.1.
  }];
  let arguments = (ins Mla_Tensor:$w_uv, Mla_Tensor:$w_o);
  let results = (outs Mla_Tensor:$result);
  let assemblyFormat = "$w_uv `,` $w_o attr-dict `:` type($w_uv) `,` type($w_o) `->` type($result)";
}

//===----------------------------------------------------------------------===//
// RoPE
//===----------------------------------------------------------------------===//

def Mla_RopeTableOp : Mla_Op<"rope_table"> {
  let summary = "the cos/sin table of a rotary embedding";
  let description = [{
    f32 [length, R]: cos of positions in columns [0, R/2), sin in [R/2, R),
    both times the multiplier; angles formed in f32 (mla.md section 4.1). The
    runtime computes it when an engine is made.

    (C1) the result is [length, R] (length may be dynamic) with R = rope.dim.

    Example:
    ```mlir
    %table = mla.rope_table <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> : tensor<?x64xf32>
    ```

    Source: RoFormer (Su et al., 2021); YaRN (Peng et al., 2023); LongRoPE (Ding et al., 2024).
  }];
  let arguments = (ins Mla_RopeAttr:$rope);
  let results = (outs RankedTensorOf<[F32]>:$result);
  let assemblyFormat = "$rope attr-dict `:` type($result)";
}

def Mla_RopeOp : Mla_Op<"rope", [AllTypesMatch<["input", "result"]>]> {
  let summary = "rotates rows by their positions";
  let description = [{
    For pair (a, b) with angle φ of position[t]: `a' = a cos φ − b sin φ`,
    `b' = a sin φ + b cos φ`; `inverse` rotates by −φ. Pairs are
    (x[2i], x[2i+1]) for `interleaved`, (x[i], x[i + R/2]) for `half`; the
    result keeps the order of its input. f32 arithmetic, one rounding.
    Positions come from the batch: context_len + j for the j-th new token.

    (C1) input is [T, R] or [T, N, R] with R = rope.dim. (C2) table is [?, R] f32.

    Example:
    ```mlir
    %q_pe = mla.rope %q, %table, %batch
      with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096>
      : tensor<?x16x64xbf16>, tensor<?x64xf32>, <query_len = ?>
    ```

    Source: RoFormer (Su et al., 2021).
  }];
  let arguments = (ins Mla_Tensor:$input, RankedTensorOf<[F32]>:$table, Mla_BatchType:$batch,
                       Mla_RopeAttr:$rope, UnitAttr:$inverse);
  let results = (outs Mla_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $table `,` $batch `with` $rope (`inverse` $inverse^)? attr-dict
    `:` type($input) `,` type($table) `,` type($batch)
  }];
}

//===----------------------------------------------------------------------===//
// Cache
//===----------------------------------------------------------------------===//

// Not AllTypesMatch: it infers the result from an operand position, which
// shifts when k_pe is absent.
def Mla_AppendOp : Mla_Op<"append", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "writes the new tokens' rows into the paged cache";
  let description = [{
    Row of token t: latent[t] followed by k_pe[t] at slot_mapping[t]; negative
    slots are skipped (paged-cache.md section 5). The result is the cache after
    the write; readers of the step use it, never the operand.

    latent [T, Lkv], k_pe [T, R] (absent iff R = 0).
    (C1) widths and element type are the cache's.
    (C2) the rope order of k_pe, where a mla.rope defines it, is the cache's.

    Example:
    ```mlir
    %after = mla.append %c, %k_pe into %cache, %batch : tensor<?x512xbf16>, tensor<?x64xbf16>
      into <page_size = 64, kv_lora_rank = 512, qk_rope_head_dim = 64, element = bf16, rope_order = interleaved>,
      <query_len = ?>
    ```

    Source: PagedAttention (Kwon et al., 2023).
  }];
  let arguments = (ins Mla_Tensor:$latent, Optional<Mla_Tensor>:$k_pe, Mla_CacheType:$cache,
                       Mla_BatchType:$batch);
  let results = (outs Mla_CacheType:$result);
  let assemblyFormat = [{
    $latent (`,` $k_pe^)? `into` $cache `,` $batch attr-dict
    `:` type($latent) (`,` type($k_pe)^)? `into` type($cache) `,` type($batch)
  }];
}

def Mla_GatherOp : Mla_Op<"gather"> {
  let summary = "reads one chunk of every request's cached context";
  let description = [{
    With start = chunk · chunk_capacity and cu = chunk_cu_seq_lens[chunk]: rows
    cu[r] + i of the results are token start + i of request r, for
    i < cu[r+1] − cu[r] (mla.md section 9, paged-cache.md section 6). The number
    of rows S is the step's `chunk_tokens`; rows at or above cu[B] are unspecified.

    latent [S, Lkv], k_pe [S, R] (absent iff R = 0). (C1) widths and type are the cache's.

    Example:
    ```mlir
    %c, %k_pe = mla.gather %cache, %batch chunk %i
      : <page_size = 64, kv_lora_rank = 512, qk_rope_head_dim = 64, element = bf16, rope_order = interleaved>,
        <query_len = ?> -> tensor<?x512xbf16>, tensor<?x64xbf16>
    ```

    Source: chunked prefill of vllm-project/vllm, `vllm/v1/attention/backends/mla/common.py`.
  }];
  let arguments = (ins Mla_CacheType:$cache, Mla_BatchType:$batch, Index:$chunk);
  let results = (outs Mla_Tensor:$latent, Optional<Mla_Tensor>:$k_pe);
  let assemblyFormat = [{
    $cache `,` $batch `chunk` $chunk attr-dict
    `:` type($cache) `,` type($batch) `->` type($latent) (`,` type($k_pe)^)?
  }];
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

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
    (C4) one element type. (C5) lse has an encoding and shape [N, T] or [T, N] accordingly.

    Example:
    ```mlir
    %o = mla.attention query(%q_nope, %q_pe : tensor<?x16x128xbf16>, tensor<?x16x64xbf16>)
      latent(%c, %k_pe : tensor<?x512xbf16>, tensor<?x64xbf16>)
      weights(%w_uk, %w_uv : tensor<16x128x512xbf16>, tensor<16x128x512xbf16>)
      over %cache, %batch
      : <page_size = 64, kv_lora_rank = 512, qk_rope_head_dim = 64, element = bf16, rope_order = interleaved>,
        <query_len = ?>
      scale 0.1352 {form = #mla.form<absorbed>} -> tensor<?x16x128xbf16>
    ```

    Source: DeepSeek-V2 (DeepSeek-AI, 2024), section 2.1.
  }];
  let arguments = (ins Mla_Tensor:$q_nope, Optional<Mla_Tensor>:$q_pe, Mla_Tensor:$latent,
                       Optional<Mla_Tensor>:$k_pe, Mla_Tensor:$w_uk, Mla_Tensor:$w_uv,
                       Mla_CacheType:$cache, Mla_BatchType:$batch, F64Attr:$scale,
                       DefaultValuedAttr<Mla_FormAttr, "Form::Auto">:$form);
  let results = (outs Mla_Tensor:$output, Optional<Mla_LseTensor>:$lse);
  let hasCanonicalizer = 1;
  let assemblyFormat = [{
    `query` `(` $q_nope (`,` $q_pe^)? `:` type($q_nope) (`,` type($q_pe)^)? `)`
    `latent` `(` $latent (`,` $k_pe^)? `:` type($latent) (`,` type($k_pe)^)? `)`
    `weights` `(` $w_uk `,` $w_uv `:` type($w_uk) `,` type($w_uv) `)`
    `over` $cache `,` $batch `:` type($cache) `,` type($batch)
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

    q_nope [T, N, P], q_pe [T, N, R], k_nope [S, N, P], k_pe [S, R], v [S, N, V],
    output [T, N, V] (activation type, or f32 for a partial that will be merged),
    lse [T, N] or [N, T] f32 with an #mla.lse encoding.
    (C1) shapes and element types agree; q_pe and k_pe are both there or both not;
    S = T without `chunk`. (C2) scale > 0.
    (C3) lse, if there, has an encoding with base e and empty = neg_inf.

    Example:
    ```mlir
    %o, %lse = mla.expanded_attention query(%q_nope, %q_pe : tensor<?x16x128xbf16>, tensor<?x16x64xbf16>)
      keys(%k_nope, %k_pe : tensor<?x16x128xbf16>, tensor<?x64xbf16>)
      values(%v : tensor<?x16x128xbf16>) over %batch : <query_len = ?> chunk %i scale 0.1352
      -> tensor<?x16x128xf32>, tensor<?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
    ```

    Source: FlashAttention-2 (Dao, 2023).
  }];
  let arguments = (ins Mla_Tensor:$q_nope, Optional<Mla_Tensor>:$q_pe, Mla_Tensor:$k_nope,
                       Optional<Mla_Tensor>:$k_pe, Mla_Tensor:$v, Mla_BatchType:$batch,
                       Optional<Index>:$chunk, F64Attr:$scale);
  let results = (outs Mla_Tensor:$output, Optional<Mla_LseTensor>:$lse);
  let hasCanonicalizer = 1;
  let assemblyFormat = [{
    `query` `(` $q_nope (`,` $q_pe^)? `:` type($q_nope) (`,` type($q_pe)^)? `)`
    `keys` `(` $k_nope (`,` $k_pe^)? `:` type($k_nope) (`,` type($k_pe)^)? `)`
    `values` `(` $v `:` type($v) `)` `over` $batch `:` type($batch) (`chunk` $chunk^)?
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
    of the request's KV blocks; output [S, T, N, Lkv] f32 normalised per split,
    lse [S, T, N]; an empty split has lse −inf and unspecified output.
    (C1) shapes agree with the cache; q_lat and q_pe have its element type, the
    output has it or is f32. (C2) scale > 0.
    (C3) lse, if there, has an encoding with base e, token_major, empty = neg_inf.
    (C4) with num_splits: output is f32 and lse is there.

    Example:
    ```mlir
    %o = mla.absorbed_attention query(%q_lat, %q_pe : tensor<?x16x512xbf16>, tensor<?x16x64xbf16>)
      over %cache, %batch
      : <page_size = 64, kv_lora_rank = 512, qk_rope_head_dim = 64, element = bf16, rope_order = interleaved>,
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

def Mla_MergeSplitsOp : Mla_Op<"merge_splits"> {
  let summary = "joins the splits of every request by their LSE";
  let description = [{
    `lse = ln Σ_s exp(lse_s)`, `output = Σ_s exp(lse_s − lse) · output_s`, in
    ascending split order (deterministic), with the rules of `mla.merge` for
    empty splits.

    partial_output [S, T, N, V] f32, partial_lse [S, T, N], output [T, N, V], lse [T, N].
    (C1) shapes agree; partial_output is f32. (C2) encodings equal, base e, token_major, empty = neg_inf.

    Example:
    ```mlir
    %o = mla.merge_splits %p, %p_lse
      : tensor<?x?x16x512xf32>, tensor<?x?x16xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
      -> tensor<?x16x512xbf16>
    ```

    Source: Flash-Decoding (Dao et al., 2023).
  }];
  let arguments = (ins Mla_Tensor:$partial_output, Mla_LseTensor:$partial_lse);
  let results = (outs Mla_Tensor:$output, Optional<Mla_LseTensor>:$lse);
  let hasCanonicalizer = 1;
  let assemblyFormat = [{
    $partial_output `,` $partial_lse attr-dict
    `:` type($partial_output) `,` type($partial_lse) `->` type($output) (`,` type($lse)^)?
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

//===----------------------------------------------------------------------===//
// Quantisation
//===----------------------------------------------------------------------===//

def Mla_QuantizeOp : Mla_Op<"quantize"> {
  let summary = "quantises rows to e4m3 with a scale per group of columns";
  let description = [{
    Per group g of `group` columns: s = max(amax / 448, floor), rounded up to a
    power of two if `rule` says so; q = RNE-saturate(x / s)
    (paged-cache.md section 4; floor is FLT_MIN there).
    input [T, L], quantized [T, L] e4m3, scales [T, L / group] f32.
    (C1) group > 0 divides L; shapes agree. (C2) scale_floor > 0.

    Example:
    ```mlir
    %q, %s = mla.quantize %c group 128 rule <power_of_two> floor 1.0e-4
      : tensor<?x512xbf16> -> tensor<?x512xf8E4M3FN>, tensor<?x4xf32>
    ```

    Source: DeepSeek-V3 (DeepSeek-AI, 2024), section 3.3.
  }];
  let arguments = (ins Mla_Tensor:$input, I64Attr:$group, Mla_ScaleRuleAttr:$rule,
                       F64Attr:$scale_floor);
  let results = (outs Mla_Fp8Tensor:$quantized, RankedTensorOf<[F32]>:$scales);
  let assemblyFormat = [{
    $input `group` $group `rule` $rule `floor` $scale_floor attr-dict
    `:` type($input) `->` type($quantized) `,` type($scales)
  }];
}

def Mla_DequantizeOp : Mla_Op<"dequantize"> {
  let summary = "widens e4m3 rows by their scales";
  let description = [{
    `x[t, i] = round(f32(q[t, i]) · scales[t, i / group])` in the result's type.
    (C1) scales are [T, L / group]; shapes agree.

    Example:
    ```mlir
    %c = mla.dequantize %q, %s group 128 : tensor<?x512xf8E4M3FN>, tensor<?x4xf32> -> tensor<?x512xbf16>
    ```
  }];
  let arguments = (ins Mla_Fp8Tensor:$quantized, RankedTensorOf<[F32]>:$scales, I64Attr:$group);
  let results = (outs Mla_Tensor:$result);
  let assemblyFormat = [{
    $quantized `,` $scales `group` $group attr-dict
    `:` type($quantized) `,` type($scales) `->` type($result)
  }];
}

//===----------------------------------------------------------------------===//
// Batch
//===----------------------------------------------------------------------===//

def Mla_BatchDimOp : Mla_Op<"batch_dim"> {
  let summary = "a size of the batch or of the machine, as an index";
  let description = [{
    (C1) `name` is a dim of `tile.dim` (num_tokens, num_requests, max_query_len,
    max_seq_len, total_context_len, attended_pairs, num_chunks, num_sms, …).
    Folds to a constant where the batch type fixes it: max_query_len of
    `query_len = q`, max_context_len of `context_len = c`, max_seq_len of both;
    total_context_len, num_context_requests, num_chunks and chunk_tokens of
    `context_len = 0`.

    Example:
    ```mlir
    %chunks = mla.batch_dim %batch "num_chunks" : <query_len = ?>
    ```
  }];
  let arguments = (ins Mla_BatchType:$batch, StrAttr:$name);
  let results = (outs Index:$result);
  let assemblyFormat = "$batch $name attr-dict `:` type($batch)";
  let hasFolder = 1;
  let extraClassDeclaration = [{
    /// The names that (C1) accepts.
    static ::llvm::ArrayRef<::llvm::StringRef> getKnownNames();
  }];
}

def Mla_BatchPartOp : Mla_Op<"batch_part"> {
  let summary = "the decodes or the prefills of a batch";
  let description = [{
    Decodes are the requests in front of the first one whose query is longer than
    the function's `mla.decode_threshold`; prefills are the others
    (mla.md section 10). A part has its own num_requests, max_query_len, tables and,
    the prefills, chunks of context. Rows keep their numbers: those of decodes are
    the first, [0, Td); an operation over the prefills takes and gives tensors of
    all T rows, of which the first Td are unspecified in its results.

    (C1) the function has a positive `mla.decode_threshold`.
    (C2) `batch` is an argument of the function with a dynamic query_len.
    (C3) the result's query_len is 1 only for the decodes of a threshold of 1,
    else dynamic; context_len is the batch's.

    Example:
    ```mlir
    %d = mla.batch_part %batch decodes : <query_len = ?> -> <query_len = 1>
    %p = mla.batch_part %batch prefills : <query_len = ?> -> <query_len = ?>
    ```

    Source: vllm-project/vllm, `vllm/v1/attention/backends/mla/common.py`.
  }];
  let arguments = (ins Mla_BatchType:$batch, Mla_BatchPartAttr:$part);
  let results = (outs Mla_BatchType:$result);
  let assemblyFormat = "$batch $part attr-dict `:` type($batch) `->` type($result)";
}

def Mla_PartRowsOp : Mla_Op<"part_rows", [AllTypesMatch<["input", "result"]>]> {
  let summary = "the rows that a part of the batch works on";
  let description = [{
    `result[t] = input[t]`: of decodes for t < Td, their tokens; of prefills for all
    T, or for none if there is no prefill. Costs nothing.

    input [T, …], result [Td, …], [T, …] or [0, …]. (C1) the first size is dynamic.
    (C2) `part` is the result of a mla.batch_part.

    Example:
    ```mlir
    %q = mla.part_rows %all of %decodes : tensor<?x16x128xbf16>, <query_len = 1>
    ```
  }];
  let arguments = (ins Mla_Tensor:$input, Mla_BatchType:$part);
  let results = (outs Mla_Tensor:$result);
  let assemblyFormat = "$input `of` $part attr-dict `:` type($input) `,` type($part)";
}

def Mla_JoinPartsOp : Mla_Op<"join_parts", [
    AllTypesMatch<["decodes", "prefills", "result"]>]> {
  let summary = "decodes' rows in front of prefills' rows";
  let description = [{
    `result[t] = decodes[t]` for t < Td, else `prefills[t]`. Both are computed where
    the result lies, so that this costs nothing.

    decodes [Td, …], prefills and result [T, …].
    (C1) the first size is dynamic. (C2) `decodes` is computed behind `prefills`,
    whose operations may write any row, and both are results of operations in this
    operation's block that nothing else uses.

    Example:
    ```mlir
    %o = mla.join_parts %decoded, %prefilled : tensor<?x16x128xbf16>
    ```
  }];
  let arguments = (ins Mla_Tensor:$decodes, Mla_Tensor:$prefills);
  let results = (outs Mla_Tensor:$result);
  let assemblyFormat = "$decodes `,` $prefills attr-dict `:` type($result)";
}

def Mla_KeepRowsOp : Mla_Op<"keep_rows", [AllTypesMatch<["input", "result"]>]> {
  let summary = "the rows of tokens, without those of padding";
  let description = [{
    `result[t] = input[t]` where row t is a token of the batch; other rows of the
    result keep what its memory held (a padded step: mla_step_plan_padded).

    input, result [T, H]. (C1) the first size is dynamic, the second static.

    Example:
    ```mlir
    %kept = mla.keep_rows %y, %batch : tensor<?x7168xbf16>, <query_len = ?>
    ```
  }];
  let arguments = (ins Mla_Tensor:$input, Mla_BatchType:$batch);
  let results = (outs Mla_Tensor:$result);
  let assemblyFormat = "$input `,` $batch attr-dict `:` type($input) `,` type($batch)";
}

#endif // MLA_DIALECT_MLA_IR_MLAOPS_TD
