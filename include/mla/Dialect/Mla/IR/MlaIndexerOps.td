//===- MlaIndexerOps.td - the lightning indexer -*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What sparse attention asks before it selects: how much each cached token may matter to
// each new one (sparse.md sections 2 to 4). Included by MlaOps.td.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_MLA_IR_MLAINDEXEROPS_TD
#define MLA_DIALECT_MLA_IR_MLAINDEXEROPS_TD

def Mla_LayerNormOp : Mla_Op<"layer_norm"> {
  let summary = "layer normalisation of rows, with a bias";
  let description = [{
    With mean and variance of a row (divided by its width):
    `y[t, i] = weight[i] · (x[t, i] − mean[t]) / sqrt(variance[t] + epsilon) + bias[i]`,
    formed in f32, rounded once (sparse.md section 2).

    x, y [T, L]; weight, bias [L].
    (C1) shapes agree. (C2) x and y have one element type, weight and bias another or
    the same. (C3) epsilon > 0.

    Example:
    ```mlir
    %y = mla.layer_norm %x, %weight, %bias epsilon 1.0e-6
      : tensor<?x128xbf16>, tensor<128xf32>, tensor<128xf32> -> tensor<?x128xbf16>
    ```

    Source: Layer Normalization (Ba et al., 2016).
  }];
  let arguments = (ins Mla_Tensor:$input, Mla_Tensor:$weight, Mla_Tensor:$bias,
                       F64Attr:$epsilon);
  let results = (outs Mla_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $weight `,` $bias `epsilon` $epsilon attr-dict
    `:` type($input) `,` type($weight) `,` type($bias) `->` type($result)
  }];
}

def Mla_HadamardOp : Mla_Op<"hadamard", [AllTypesMatch<["input", "result"]>]> {
  let summary = "multiplies rows by a Hadamard matrix";
  let description = [{
    `y[…, i] = D^(-1/2) · Σ_j (−1)^(number of bits that i and j have in common) · x[…, j]`:
    Sylvester's matrix, which leaves dot products as they are and spreads outliers before
    rows are quantised. Accumulated in f32, rounded once.

    (C1) input is [T, D] or [T, N, D]; D is a power of two.

    Example:
    ```mlir
    %y = mla.hadamard %x : tensor<?x64x128xbf16>
    ```

    Source: QuaRot (Ashkboos et al., 2024).
  }];
  let arguments = (ins Mla_Tensor:$input);
  let results = (outs Mla_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Mla_RoundMxfp4Op : Mla_Op<"round_mxfp4", [AllTypesMatch<["input", "result"]>]> {
  let summary = "rounds rows to numbers of MXFP4";
  let description = [{
    Of each block of 32 columns with the largest magnitude a: to multiples of s = 2^⌈log2(max(a,
    6·2^-126) / 6)⌉ by 0, ±0.5, ±1, ±1.5, ±2, ±3, ±4 and ±6, to the nearest, of two that are as near
    to the one with an even code. So a row that is kept as such codes with its exponents and one
    that is not have the same numbers, and the result needs no scales (v4.md sections 2 and 7).

    (C1) input is [T, D] or [T, N, D]; D is a multiple of 32. (C2) its elements are bf16 or f32,
    which have all of the numbers.

    Example:
    ```mlir
    %y = mla.round_mxfp4 %x : tensor<?x64x128xbf16>
    ```

    Source: OCP Microscaling Formats (MX) Specification 1.0 (Open Compute Project, 2023).
  }];
  let arguments = (ins Mla_Tensor:$input);
  let results = (outs Mla_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
  let extraClassDeclaration = [{
    /// Columns that share an exponent.
    static constexpr int64_t kBlock = 32;
  }];
}

def Mla_IndexWeightsOp : Mla_Op<"index_weights"> {
  let summary = "weights of an indexer's heads, times the scales of its queries";
  let description = [{
    `w[t, h] = factor · x[t, h] · scales[t, h, 0]` in f32: relu commutes with the scale of
    a query, which is positive, but not with its weight (sparse.md section 2, step 6).
    `factor` is Hi^(-1/2) · Di^(-1/2) there.

    x [T, Hi]; scales [T, Hi, 1] as `mla.quantize` gives them; w [T, Hi] f32. Without scales, of
    queries that have theirs in them (`mla.round_mxfp4`), they count as 1.
    (C1) shapes agree. (C2) factor is finite.

    Example:
    ```mlir
    %w = mla.index_weights %x, %s factor 0.011048543456039806
      : tensor<?x64xbf16>, tensor<?x64x1xf32> -> tensor<?x64xf32>
    ```

    Source: DeepSeek-V3.2-Exp (DeepSeek-AI, 2025), section 2.1.
  }];
  let arguments = (ins Mla_Tensor:$input, Optional<RankedTensorOf<[F32]>>:$scales, F64Attr:$factor);
  let results = (outs RankedTensorOf<[F32]>:$result);
  let assemblyFormat = [{
    $input (`,` $scales^)? `factor` $factor attr-dict
    `:` type($input) (`,` type($scales)^)? `->` type($result)
  }];
}

def Mla_IndexScoresOp : Mla_Op<"index_scores", [AttrSizedOperandSegments]> {
  let summary = "what each key of a request may matter to each of its new tokens";
  let description = [{
    `scores[t, s] = Σ_h weights[t, h] · relu(Σ_d query[t, h, d] · k[s, d])` for key s of
    t's own request, k being codes times scales of the cache's row; with one scale a row it
    comes last. Products of codes are exact, sums are f32 (sparse.md section 4).

    Of a cache whose rows are of r tokens (tokens_per_row) the keys are its rows: read seq_len / r and
    (seq_len − query_len + j + 1) / r below, rounded down.

    query [T, Hi, Di] e4m3 codes, weights [T, Hi] f32, which have the scales of the queries in
    them (`mla.index_weights`); over keys in MXFP4 queries of the cache's element, rounded to the
    same numbers (`mla.round_mxfp4`); scores [T, S] f32 with S = max_seq_len, rounded up to a
    multiple of 64. Token j of the query_len new ones of a request with seq_len keys sees
    seq_len − query_len + j + 1 of them: columns at and behind that, and rows of padding,
    are unspecified. Nobody reads pages behind a request's last key.

    With `from`, only rows %first, %first + 1, … are computed, as many as `rows` or the result's
    static first size says; what is behind the last token is unspecified. So the scores of
    long prompts need no more memory than a slice of them.

    (C1) shapes agree; the cache has one field `index`, of Di columns. (C2) the cache keeps
    all rows (window = 0). (C3) scores are [T, ?], with `from` [static, ?] or [?, ?] of `rows`. (C4) where the
    query's rotations are to be seen, they are the cache's: rope_order and hadamard. (C5) the
    query's elements are e4m3 codes where the cache's are, else of the cache's element.

    Example:
    ```mlir
    %s = mla.index_scores query(%q : tensor<?x64x128xf8E4M3FN>) weights(%w : tensor<?x64xf32>)
      over %cache, %batch : <page_size = 64, fields = [index: 128], element = bf16, rope_order = half,
      format = "index_k", scale_rule = power_of_two>, <query_len = ?> -> tensor<?x?xf32>
    ```

    Source: DeepSeek-V3.2-Exp (DeepSeek-AI, 2025), section 2.1.
  }];
  let arguments = (ins AnyTypeOf<[Mla_Fp8Tensor, Mla_Tensor]>:$query, RankedTensorOf<[F32]>:$weights,
                       Mla_CacheType:$cache, Mla_BatchType:$batch, Optional<Index>:$first,
                       Optional<Index>:$rows);
  let results = (outs RankedTensorOf<[F32]>:$result);
  let assemblyFormat = [{
    `query` `(` $query `:` type($query) `)` `weights` `(` $weights `:` type($weights) `)`
    `over` $cache `,` $batch (`from` $first^)? (`rows` $rows^)? attr-dict
    `:` type($cache) `,` type($batch) `->` type($result)
  }];
}

#endif // MLA_DIALECT_MLA_IR_MLAINDEXEROPS_TD
