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
def Mla_IndexTensor : RankedTensorOf<[I32]>;

//===----------------------------------------------------------------------===//
// Projections
//===----------------------------------------------------------------------===//

def Mla_RmsNormOp : Mla_Op<"rms_norm"> {
  let summary = "root-mean-square normalisation of rows";
  let description = [{
    `y[t, i] = multiplier · gamma[i] · x[t, i] / sqrt(mean_i x[t, i]² + eps)`,
    formed in f32, rounded once (mla.md section 3.2). Without gamma it counts as 1.

    x, y [T, L], or [T, N, L], whose rows are normalised each by itself; gamma [L].
    (C1) shapes agree; x and gamma have one element type, y has it or is f32. (C2) eps > 0.

    Example: a latent; the heads of a query, which are rotated before they are rounded.
    ```mlir
    %y = mla.rms_norm %x, %gamma eps 1.0e-6 : tensor<?x512xbf16>, tensor<512xbf16> -> tensor<?x512xbf16>
    %q = mla.rms_norm %heads eps 1.0e-6 : tensor<?x64x512xbf16> -> tensor<?x64x512xf32>
    ```

    Source: Root Mean Square Layer Normalization (Zhang and Sennrich, 2019).
  }];
  let arguments = (ins Mla_Tensor:$input, Optional<Mla_Tensor>:$gamma, F64Attr:$eps,
                       DefaultValuedAttr<F64Attr, "1.0">:$multiplier);
  let results = (outs Mla_Tensor:$result);
  let assemblyFormat = [{
    $input (`,` $gamma^)? `eps` $eps attr-dict
    `:` type($input) (`,` type($gamma)^)? `->` type($result)
  }];
}

def Mla_ProjectOp : Mla_Op<"project"> {
  let summary = "linear projection of token rows";
  let description = [{
    `y[t, o] = Σ_i x[t, i] · w[o, i] (+ bias[o])`, accumulated in f32, rounded
    once. x is [T, I], or [T, N, K] read as [T, N·K]. w is [O, I] giving
    y [T, O], or [N, J, I] giving y [T, N, J] (per-head rows).

    (C1) w's last dimension is the number of elements of one row of x.
    (C2) y is x's first dimension followed by w's leading dimensions.
    A y of f32 that is `rounded` holds sums rounded to x's type.
    (C3) one element type, but y may be f32. (C4) bias, if given, is [O] and w has rank 2.
    (C5) `rounded` is of a y [T, O] of f32, and there is no bias.

    Example:
    ```mlir
    %q = mla.project %qc, %w_uq : tensor<?x1536xbf16>, tensor<16x128x1536xbf16> -> tensor<?x16x128xbf16>
    %y = mla.project %o, %w_o : tensor<?x16x128xbf16>, tensor<7168x2048xbf16> -> tensor<?x7168xbf16>
    ```

    Source: DeepSeek-V2 (DeepSeek-AI, 2024), section 2.1.
  }];
  let arguments = (ins Mla_Tensor:$input, Mla_Tensor:$weight, Optional<Mla_Tensor>:$bias,
                       UnitAttr:$rounded);
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

    With `codes_group` the latent is the coded rows (`mla.coded_rows`) of what it is without, which is not
    rounded to the activations' type in between.

    (C1) w is [L + R, I] with L = gamma's length; the tail is [T, R] iff R > 0.
    (C2) one element type. (C3) eps > 0. (C4) bias, if given, is [L + R].
    (C5) `codes_group`, if given, is above 0 and divides L.

    Example:
    ```mlir
    %c, %k = mla.latent_project %h, %w_kv_a, %gamma eps 1.0e-6
      : tensor<?x7168xbf16>, tensor<576x7168xbf16>, tensor<512xbf16> -> tensor<?x512xbf16>, tensor<?x64xbf16>
    ```

    Source: DeepSeek-V2 (DeepSeek-AI, 2024), section 2.1.
  }];
  let arguments = (ins Mla_Tensor:$input, Mla_Tensor:$weight, Mla_Tensor:$gamma,
                       Optional<Mla_Tensor>:$bias, F64Attr:$eps,
                       DefaultValuedAttr<F64Attr, "1.0">:$multiplier,
                       OptionalAttr<I64Attr>:$codes_group);
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

def Mla_ScaledWeightOp : Mla_Op<"scaled_weight"> {
  let summary = "a matrix that is stored as codes with scales";
  let description = [{
    `w[o, i] = codes[o, i] · scales[o / rows, i / columns]`, a factor of 0 in `block` being all of the matrix's
    rows or columns. A view: nothing is computed, and nothing rounded. A product that reads it multiplies codes,
    which are exact in 16 bits, and its f32 sums by the scales; where a target cannot, it rounds w to
    the activations' type first (mla.md section 7).

    codes and result [O, I]; scales f32.
    (C1) the shapes of codes and result agree. (C2) `block` is two numbers of at least 0, and scales are
    [ceil(O / rows), ceil(I / columns)].

    Example:
    ```mlir
    %w = mla.scaled_weight %codes, %scales block [128, 128]
      : tensor<7168x2048xf8E4M3FN>, tensor<56x16xf32> -> tensor<7168x2048xbf16>
    ```

    Source: DeepSeek-V3 (DeepSeek-AI, 2024), section 3.3.
  }];
  let arguments = (ins Mla_Fp8Tensor:$codes, Mla_LseTensor:$scales, DenseI64ArrayAttr:$block);
  let results = (outs Mla_Tensor:$result);
  let assemblyFormat = "$codes `,` $scales `block` $block attr-dict `:` type($codes) `,` type($scales) `->` type($result)";
}

def Mla_RequantizeOp : Mla_Op<"requantize"> {
  let summary = "a weight as e4m3 codes with a scale per block";
  let description = [{
    `codes[o, i] = e4m3(w[o, i] / scales[o / rows, i / columns])`, a scale being its block's largest magnitude / 448
    and at least 1e-12, so that a block of zeros has codes 0 (mla.md section 7). A factor of 0 in `block` is all of the
    matrix's rows or columns. Of a weight [N, J, I] the matrix is [N · J, I], heads one below the other, and blocks go
    on over their borders as those of a checkpoint do. With `transposed` the weight is [N, I, J]: what a product
    contracts, as W_UK, lies in rows, and must lie in columns where codes are multiplied.

    What absorption computes of a checkpoint's codes becomes codes again, in the checkpoint's blocks
    (`mla.scaled_weight` makes a weight of both results).

    (C1) codes are [O, I] for a weight [O, I] without `transposed`, or [N · J, I]; the shapes are static.
    (C2) `block` is two numbers of at least 0, and scales are [ceil(O / rows), ceil(I / columns)].

    Example:
    ```mlir
    %codes, %scales = mla.requantize %w_uk block [128, 128] transposed
      : tensor<128x128x512xbf16> -> tensor<65536x128xf8E4M3FN>, tensor<512x1xf32>
    ```

    Source: DeepSeek-V3 (DeepSeek-AI, 2024), section 3.3.
  }];
  let arguments = (ins Mla_Tensor:$weight, DenseI64ArrayAttr:$block, UnitAttr:$transposed);
  let results = (outs Mla_Fp8Tensor:$codes, Mla_LseTensor:$scales);
  let assemblyFormat = [{
    $weight `block` $block (`transposed` $transposed^)? attr-dict
    `:` type($weight) `->` type($codes) `,` type($scales)
  }];
}

def Mla_CodedRowsOp : Mla_Op<"coded_rows", [AllTypesMatch<["input", "result"]>]> {
  let summary = "rows of activations as e4m3 codes with a scale per group of columns";
  let description = [{
    `y[t, i] = codes[t, i] · scales[t, i / group]`, with codes and scales as `mla.quantize` makes them of the
    row (of its heads side by side) by the rule `raw` and a floor of 1e-12 (mla.md section 7). y has the
    input's type, but what is stored are codes and scales, and y is not rounded to that type: only products
    whose weights are codes (`mla.scaled_weight`) read it. They multiply codes with codes, and the f32 sum of each `group` of
    the depth by both scales. A group of all columns is a scale for each token.

    (C1) input and result are [T, I] or [T, N, K], of one type. (C2) group is above 0 and divides I, or N · K.

    Example:
    ```mlir
    %y = mla.coded_rows %x group 128 : tensor<?x7168xbf16>
    ```

    Source: DeepSeek-V3 (DeepSeek-AI, 2024), section 3.3.
  }];
  let arguments = (ins Mla_Tensor:$input, I64Attr:$group);
  let results = (outs Mla_Tensor:$result);
  let assemblyFormat = "$input `group` $group attr-dict `:` type($input)";
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

def Mla_RopeOp : Mla_Op<"rope"> {
  let summary = "rotates rows by their positions";
  let description = [{
    For pair (a, b) with angle φ of position[t]: `a' = a cos φ − b sin φ`,
    `b' = a sin φ + b cos φ`; `inverse` rotates by −φ. Pairs are
    (x[2i], x[2i+1]) for `interleaved`, (x[i], x[i + R/2]) for `half`; the
    result keeps the order of its input. f32 arithmetic, one rounding.
    Positions come from the batch: context_len + j for the j-th new token. With `offset`
    only the R channels from there on are rotated; the others pass through. Rows of `every`
    tokens have the position of the first of them: a token's, rounded down to a multiple.

    With `codes_group` the result is coded rows (`mla.coded_rows`) whose scales are powers of two, of largest
    magnitudes of at least 1e-10; what is rotated is not rounded before (v4.md section 11).

    (C1) input is [T, R] or [T, N, R] with R = rope.dim, or, with `offset`, [T, D] or
    [T, N, D] with 0 <= offset <= D - R. (C2) table is [?, R] f32, the cosines of all pairs before
    the sines as mla.rope_table makes it, or [?, R/2, 2] f16 or f32, each pair's cosine and sine
    beside each other. (C3) the result has the
    shape of the input, whose element type may be f32 instead. (C4) every > 0. (C5) `codes_group`, if
    given, is above 0 and divides D; the input is [T, N, D].

    Example:
    ```mlir
    %q_pe = mla.rope %q, %table, %batch
      with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096>
      : tensor<?x16x64xbf16>, tensor<?x64xf32>, <query_len = ?>
    %q_index = mla.rope %q8, %table, %batch
      with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0
      : tensor<?x64x128xbf16>, tensor<?x64xf32>, <query_len = ?>
    %entry = mla.rope %pooled, %table, %batch
      with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> offset 448 every 4
      : tensor<?x512xf32>, tensor<?x64xf32>, <query_len = ?> -> tensor<?x512xbf16>
    ```

    Source: RoFormer (Su et al., 2021).
  }];
  let arguments = (ins Mla_Tensor:$input, RankedTensorOf<[F16, F32]>:$table, Mla_BatchType:$batch,
                       Mla_RopeAttr:$rope, OptionalAttr<I64Attr>:$offset, UnitAttr:$inverse,
                       DefaultValuedAttr<I64Attr, "1">:$every, OptionalAttr<I64Attr>:$codes_group);
  let results = (outs Mla_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $table `,` $batch `with` $rope (`offset` $offset^)? (`inverse` $inverse^)?
    (`every` $every^)? attr-dict `:` type($input) `,` type($table) `,` type($batch)
    `` custom<ResultLike>(type($result), ref(type($input)))
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
    Row of token t: rows[0][t], rows[1][t], … at slot_mapping[t] of the cache's pool;
    negative slots are skipped (paged-cache.md section 5). The result is the cache after
    the write; readers of the step use it, never the operand.

    A tensor for each field of the cache, [T, width] or [T, heads, columns]: the latent
    and the rope key, or keys and values.
    (C1) fields, widths and element type are the cache's.
    (C2) the rope order of a rope key or an indexer's key, and a Hadamard rotation of the
    latter, where they are to be seen, are the cache's.

    Example:
    ```mlir
    %after = mla.append %c, %k_pe into %cache, %batch : tensor<?x512xbf16>, tensor<?x64xbf16>
      into <page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>,
      <query_len = ?>
    ```

    Source: PagedAttention (Kwon et al., 2023).
  }];
  let arguments = (ins Variadic<Mla_Tensor>:$rows, Mla_CacheType:$cache, Mla_BatchType:$batch);
  let results = (outs Mla_CacheType:$result);
  let assemblyFormat = [{
    $rows `into` $cache `,` $batch attr-dict
    `:` type($rows) `into` type($cache) `,` type($batch)
  }];
}

def Mla_GatherOp : Mla_Op<"gather"> {
  let summary = "reads one chunk of every request's cached context, or one of whole requests";
  let description = [{
    With start = chunk · chunk_capacity and cu = chunk_cu_seq_lens[chunk]: rows
    cu[r] + i of the results are token start + i of request r, for
    i < cu[r+1] − cu[r] (mla.md section 9, paged-cache.md section 6). The number
    of rows S is the step's `chunk_tokens`; rows at or above cu[B] are unspecified.

    `whole` reads requests instead, all keys of one in the same chunk, its new tokens among them
    (sparse.md section 11): start is 0, cu = gather_cu_seq_lens[chunk], S = `gather_rows`.

    A result for each field of the cache, [S, width] or [S, heads, columns].
    (C1) fields, widths and type are the cache's. (C2) the cache has a row of every token.
    (C3) no two columns share a byte.

    Example:
    ```mlir
    %c, %k_pe = mla.gather %cache, %batch chunk %i
      : <page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>,
        <query_len = ?> -> tensor<?x512xbf16>, tensor<?x64xbf16>
    ```

    Source: chunked prefill of vllm-project/vllm, `vllm/v1/attention/backends/mla/common.py`.
  }];
  let arguments = (ins Mla_CacheType:$cache, Mla_BatchType:$batch, Index:$chunk,
                       UnitAttr:$whole);
  let results = (outs Variadic<Mla_Tensor>:$rows);
  let assemblyFormat = [{
    $cache `,` $batch (`whole` $whole^)? `chunk` $chunk attr-dict
    `:` type($cache) `,` type($batch) `->` type($rows)
  }];
}

def Mla_CopyPagesOp : Mla_Op<"copy_pages", [AllTypesMatch<["from", "to", "result"]>]> {
  let summary = "copies whole pages, byte by byte";
  let description = [{
    Page block_table[0, i] of `from` goes to page slot_mapping[i] of `to`, for
    i < num_tokens: pages are the rows of this operation. Bytes stay as they are,
    whatever the format. The result is `to` after the write; `from` may be the same
    pool, if no page is both read and written.

    A cache argument marked `mla.input` or `mla.output` is memory of the caller's
    instead of the layer's pool: num_host_pages pages without padding.
    (C1) a page is a multiple of 16 bytes.

    Example: pages leave for memory of the host.
    ```mlir
    %host_after = mla.copy_pages %cache to %host, %batch
      : <page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>,
        <query_len = ?>
    ```

    Source: copy-on-write and swapping of PagedAttention (Kwon et al., 2023), section 4.
  }];
  let arguments = (ins Mla_CacheType:$from, Mla_CacheType:$to, Mla_BatchType:$batch);
  let results = (outs Mla_CacheType:$result);
  let assemblyFormat = "$from `to` $to `,` $batch attr-dict `:` type($from) `,` type($batch)";
}

def Mla_ConvertIndicesOp : Mla_Op<"convert_indices", [
    AttrSizedOperandSegments, AllTypesMatch<["positions", "result"]>]> {
  let summary = "token positions of requests to rows of the cache, or of a workspace";
  let description = [{
    What sparse attention selects are positions in a request; what its kernels read
    are rows. For token t of request r = req_id_per_token[t] and position p = positions[t, k]:

    | case | result[t, k] |
    |---|---|
    | p < 0 | −1 |
    | prefill_requests[t] ≥ 0 | workspace_starts[prefill_requests[t]] + p |
    | p beyond the block table | −1 |
    | else | block_table[r, p / page_size] · rows + p mod page_size |

    where rows = page_stride / row width lie from page to page, and page_size where pages have
    sections, which no one number of rows measures. Nothing is trusted: a
    request, prefill or page that is not there, and a row that needs more than 31 bits,
    give −1, and nothing is read for them. `mla_cache_convert_indices` is the same on the host.

    positions, result [T, K] i32; prefill_requests [T] i32, −1: a decode's token;
    workspace_starts [B] i32, of which entries behind the last prefill are not read.
    With `workspace` both are the step's: gather_req_id_per_token, −1 in front of the prefills,
    and gather_starts, where mla.gather puts them.
    (C1) K is static. (C2) prefill_requests and workspace_starts come together, of rank 1, or `workspace`
    stands for them.

    Example:
    ```mlir
    %rows = mla.convert_indices %positions in %cache, %batch prefill %prefills, %starts
      : tensor<?x2048xi32> in <page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>,
        <query_len = ?> prefill tensor<?xi32>, tensor<?xi32>
    ```

    Source: paged-cache.md section 7.
  }];
  let arguments = (ins Mla_IndexTensor:$positions, Mla_CacheType:$cache, Mla_BatchType:$batch,
                       Optional<Mla_IndexTensor>:$prefill_requests,
                       Optional<Mla_IndexTensor>:$workspace_starts, UnitAttr:$workspace);
  let results = (outs Mla_IndexTensor:$result);
  let assemblyFormat = [{
    $positions `in` $cache `,` $batch (`prefill` $prefill_requests^ `,` $workspace_starts)?
    (`workspace` $workspace^)? attr-dict `:` type($positions) `in` type($cache) `,` type($batch)
    (`prefill` type($prefill_requests)^ `,` type($workspace_starts))?
  }];
}

//===----------------------------------------------------------------------===//
// Quantisation
//===----------------------------------------------------------------------===//

def Mla_QuantizeOp : Mla_Op<"quantize"> {
  let summary = "quantises rows to e4m3 with a scale per group of columns";
  let description = [{
    Per group g of `group` columns: s = max(max(amax, amax_floor) / 448, floor), rounded up
    to a power of two if `rule` says so; q = RNE-saturate(x / s)
    (paged-cache.md section 4; floor is FLT_MIN there). An indexer's queries and keys have
    an amax_floor of 1e-4 (sparse.md section 2).
    input [T, L] or [T, N, L], quantized the same of e4m3, scales [T, L / group] or
    [T, N, L / group] f32.
    (C1) group > 0 divides L; shapes agree. (C2) scale_floor > 0, amax_floor >= 0. Scales are
    normal numbers, at least FLT_MIN.

    Example:
    ```mlir
    %q, %s = mla.quantize %c group 128 rule <power_of_two> floor 1.0e-4
      : tensor<?x512xbf16> -> tensor<?x512xf8E4M3FN>, tensor<?x4xf32>
    %q8, %sq = mla.quantize %q_index group 128 rule <power_of_two> floor 1.0e-38 amax_floor 1.0e-4
      : tensor<?x64x128xbf16> -> tensor<?x64x128xf8E4M3FN>, tensor<?x64x1xf32>
    ```

    Source: DeepSeek-V3 (DeepSeek-AI, 2024), section 3.3.
  }];
  let arguments = (ins Mla_Tensor:$input, I64Attr:$group, Mla_ScaleRuleAttr:$rule,
                       F64Attr:$scale_floor, DefaultValuedAttr<F64Attr, "0.0">:$amax_floor);
  let results = (outs Mla_Fp8Tensor:$quantized, RankedTensorOf<[F32]>:$scales);
  let assemblyFormat = [{
    $input `group` $group `rule` $rule `floor` $scale_floor (`amax_floor` $amax_floor^)? attr-dict
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

include "mla/Dialect/Mla/IR/MlaAttentionOps.td"
include "mla/Dialect/Mla/IR/MlaBatchOps.td"
include "mla/Dialect/Mla/IR/MlaFusedOps.td"
include "mla/Dialect/Mla/IR/MlaSelectOps.td"
include "mla/Dialect/Mla/IR/MlaSparseOps.td"
include "mla/Dialect/Mla/IR/MlaIndexerOps.td"
include "mla/Dialect/Mla/IR/MlaCompressOps.td"

#endif // MLA_DIALECT_MLA_IR_MLAOPS_TD
