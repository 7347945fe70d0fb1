//===- MlaFusedOps.td - what passes make of operations that are done at once -*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Decisions of passes that kernels are made by. No front end makes these.
// Included by MlaOps.td.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_MLA_IR_MLAFUSEDOPS_TD
#define MLA_DIALECT_MLA_IR_MLAFUSEDOPS_TD

def Mla_LatentAppendOp : Mla_Op<"latent_append", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "projection to latent and rope key, both written to the cache";
  let description = [{
    `mla.latent_project`, `mla.rope` of its tail and `mla.append` of both: a program normalises,
    rotates and writes a token's row. Without `rope` the tail is written as it is (Kimi Linear), if
    there is one. Nothing but the cache remains of it; `kept`, its latent [T, L] and its rope key
    [T, R], where R > 0, are tensors of x's type, too, as they were before the append (in whatever
    codes the cache has them). `mla-fuse-append` makes it where the target's programs can hold such
    a row.

    (C1) w is [L + R, I] with L = gamma's length, and R = rope.dim where a rotation is given.
    (C2) one element type. (C3) eps > 0. (C4) bias, if given, is [L + R].
    (C5) the cache's fields are a latent of L and a rope key of R columns, in rope's order, of x's
    type, as they are, codes of one scale, or latents in codes with a scale in the row for each
    group; no rope key where R = 0. (C6) table is [?, R] f32, and goes with rope.

    Example:
    ```mlir
    %after = mla.latent_append %h, %w_kv_a, %gamma eps 1.0e-6
      rope %table with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> into %cache, %batch
      : tensor<?x7168xbf16>, tensor<576x7168xbf16>, tensor<512xbf16> rope tensor<?x64xf32>
      into <page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>, <query_len = ?>
    ```
  }];
  let arguments = (ins Mla_Tensor:$input, Mla_Tensor:$weight, Mla_Tensor:$gamma,
                       Optional<Mla_Tensor>:$bias, F64Attr:$eps,
                       DefaultValuedAttr<F64Attr, "1.0">:$multiplier,
                       Optional<RankedTensorOf<[F32]>>:$table, OptionalAttr<Mla_RopeAttr>:$rope,
                       Mla_CacheType:$cache, Mla_BatchType:$batch, UnitAttr:$kept);
  let results = (outs Mla_CacheType:$result, Variadic<Mla_Tensor>:$rows);
  let assemblyFormat = [{
    $input `,` $weight `,` $gamma (`bias` `(` $bias^ `:` type($bias) `)`)? `eps` $eps
    (`rope` $table^ `with` $rope)? `into` $cache `,` $batch (`kept` $kept^)? attr-dict
    `:` type($input) `,` type($weight) `,` type($gamma) (`rope` type($table)^)?
    `into` type($cache) `,` type($batch)
  }];
  let extraClassDeclaration = [{
    /// L.
    int64_t getLatentColumns();
    /// R, 0 without a rope key.
    int64_t getRopeColumns();
  }];
}

def Mla_GroupedAppendOp : Mla_Op<"grouped_append", [
    AttrSizedOperandSegments, DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "queries and keys of groups of heads rotated, keys and values written to the cache";
  let description = [{
    `mla.rope` of queries and of keys by one table, and `mla.append` of keys and values: rotated
    queries are a tensor, of keys and values nothing but the cache remains. A program rotates or
    copies heads of one token. `mla-fuse-grouped-append` makes it.

    query [T, N, Dk], key [T, Nkv, Dk], value [T, Nkv, Dv]; the channels from `offset` on are
    rotated, the others stay as they are. With `norms`, `mla.rms_norm` of each head of queries and of
    keys comes first, by gammas [Dk]; what it forms is not rounded before it is rotated.
    (C1) shapes agree. (C2) one element type, which is that of the caches; of caches of codes rows are rounded to
    it and then divided. (C3) 0 <= offset <= Dk - R
    with R = rope.dim. (C4) table is [?, R] f32, or [?, R/2, 2] f16 or f32, as of mla.rope.
    (C5) the cache's fields are keys and values, or keys alone, with `values` a cache of the values.
    (C6) norms have gammas of the queries' element type, one for queries and one for keys, and an
    epsilon above 0.

    Example:
    ```mlir
    %rotated, %after = mla.grouped_append %q, %k, %v
      rope %table with <order = half, dim = 128, theta = 1.0e4, length = 4096> offset 0 into %cache, %batch
      : tensor<?x32x128xbf16>, tensor<?x8x128xbf16>, tensor<?x8x128xbf16> rope tensor<?x128xf32>
      into <page_size = 16, fields = [key: 8x128, value: 8x128], element = bf16, format = "kv_nhd">, <query_len = ?>
    ```

    Source: RoFormer (Su et al., 2021); PagedAttention (Kwon et al., 2023); norms of heads: Qwen3
    Technical Report (Yang et al., 2025).
  }];
  let arguments = (ins Mla_Tensor:$query, Mla_Tensor:$key, Mla_Tensor:$value,
                       Optional<Mla_Tensor>:$query_gamma, Optional<Mla_Tensor>:$key_gamma,
                       OptionalAttr<F64Attr>:$epsilon,
                       RankedTensorOf<[F16, F32]>:$table, Mla_RopeAttr:$rope, I64Attr:$offset,
                       Mla_CacheType:$cache, Optional<Mla_CacheType>:$value_cache,
                       Mla_BatchType:$batch);
  let results = (outs Mla_Tensor:$rotated, Mla_CacheType:$result,
                      Optional<Mla_CacheType>:$value_result);
  let assemblyFormat = [{
    $query `,` $key `,` $value (`norms` $query_gamma^ `,` $key_gamma `epsilon` $epsilon)?
    `rope` $table `with` $rope `offset` $offset
    `into` $cache (`values` $value_cache^)? `,` $batch attr-dict
    `:` type($query) `,` type($key) `,` type($value)
    (`norms` type($query_gamma)^ `,` type($key_gamma))? `rope` type($table)
    `into` type($cache) (`values` type($value_cache)^)? `,` type($batch)
  }];
}

def Mla_IndexAppendOp : Mla_Op<"index_append", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "an indexer's keys normalised, rotated and written to the cache";
  let description = [{
    `mla.layer_norm`, `mla.rope` of the channels from `offset` on and `mla.append`, of which
    nothing but the cache remains: a program has all of a token's row, which is not rounded
    before its codes. `mla-fuse-indexer` makes it.

    x [T, D]; weight, bias [D].
    (C1) shapes agree. (C2) weight and bias have one element type. (C3) epsilon > 0. (C4) 0 <= offset <=
    D - rope.dim; table is [?, rope.dim] f32. (C5) the cache has one field, `index` of D columns, whose
    codes have one scale, in rope's order and without mla.hadamard.

    Example:
    ```mlir
    %after = mla.index_append %x, %weight, %bias epsilon 1.0e-6
      rope %table with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0 into %cache, %batch
      : tensor<?x128xbf16>, tensor<128xf32>, tensor<128xf32> rope tensor<?x64xf32>
      into <page_size = 64, fields = [index: 128], element = bf16, rope_order = half, format = "index_k">, <query_len = ?>
    ```

    Source: DeepSeek-V3.2-Exp (DeepSeek-AI, 2025), section 2.1.
  }];
  let arguments = (ins Mla_Tensor:$input, Mla_Tensor:$weight, Mla_Tensor:$bias, F64Attr:$epsilon,
                       RankedTensorOf<[F32]>:$table, Mla_RopeAttr:$rope, I64Attr:$offset,
                       Mla_CacheType:$cache, Mla_BatchType:$batch);
  let results = (outs Mla_CacheType:$result);
  let assemblyFormat = [{
    $input `,` $weight `,` $bias `epsilon` $epsilon `rope` $table `with` $rope `offset` $offset
    `into` $cache `,` $batch attr-dict
    `:` type($input) `,` type($weight) `,` type($bias) `rope` type($table)
    `into` type($cache) `,` type($batch)
  }];
}

def Mla_IndexQueryOp : Mla_Op<"index_query"> {
  let summary = "an indexer's queries rotated and quantised, their scales in the heads' weights";
  let description = [{
    `mla.rope` of the channels from `offset` on, `mla.quantize` of whole rows and
    `mla.index_weights`: a program has a token's heads, which are not rounded before their
    codes. `mla-fuse-indexer` makes it.

    x [T, Hi, Di], head_weights [T, Hi]; codes [T, Hi, Di], weights [T, Hi] f32.
    (C1) shapes agree. (C2) 0 <= offset <= Di - rope.dim; table is [?, rope.dim] f32. (C3) scale_floor > 0,
    amax_floor >= 0. (C4) factor is finite.

    Example:
    ```mlir
    %q8, %w = mla.index_query %q, %x factor 1.1e-2 rope %table, %batch
      with <order = half, dim = 64, theta = 1.0e4, length = 4096> offset 0
      rule <power_of_two> floor 1.0e-38 amax_floor 1.0e-4
      : tensor<?x64x128xbf16>, tensor<?x64xbf16> rope tensor<?x64xf32>, <query_len = ?>
      -> tensor<?x64x128xf8E4M3FN>, tensor<?x64xf32>
    ```

    Source: DeepSeek-V3.2-Exp (DeepSeek-AI, 2025), section 2.1.
  }];
  let arguments = (ins Mla_Tensor:$input, Mla_Tensor:$head_weights, F64Attr:$factor,
                       RankedTensorOf<[F32]>:$table, Mla_BatchType:$batch, Mla_RopeAttr:$rope,
                       I64Attr:$offset, Mla_ScaleRuleAttr:$rule, F64Attr:$scale_floor,
                       DefaultValuedAttr<F64Attr, "0.0">:$amax_floor);
  let results = (outs Mla_Fp8Tensor:$codes, RankedTensorOf<[F32]>:$weights);
  let assemblyFormat = [{
    $input `,` $head_weights `factor` $factor `rope` $table `,` $batch `with` $rope `offset` $offset
    `rule` $rule `floor` $scale_floor (`amax_floor` $amax_floor^)? attr-dict
    `:` type($input) `,` type($head_weights) `rope` type($table) `,` type($batch)
    `->` type($codes) `,` type($weights)
  }];
}

def Mla_NormRopeOp : Mla_Op<"norm_rope"> {
  let summary = "rows normalised and some of their channels rotated";
  let description = [{
    `mla.rms_norm` and `mla.rope` of the channels from `offset` on: a program has whole rows, which
    are not rounded between. `mla-fuse-rows` makes it.

    x [T, D] or [T, N, D]; gamma [D], ones without it.
    (C1) shapes agree. (C2) eps > 0. (C3) 0 <= offset <= D - R with R = rope.dim; table is [?, R]
    f32. (C4) the result has the shape of the input.

    Example:
    ```mlir
    %y = mla.norm_rope %q eps 1.0e-6 rope %table, %batch
      with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> offset 448
      : tensor<?x64x512xbf16> rope tensor<?x64xf32>, <query_len = ?> -> tensor<?x64x512xbf16>
    ```

    Source: v4.md section 5; RMSNorm (Zhang and Sennrich, 2019).
  }];
  let arguments = (ins Mla_Tensor:$input, Optional<Mla_Tensor>:$gamma, F64Attr:$eps,
                       RankedTensorOf<[F32]>:$table, Mla_BatchType:$batch, Mla_RopeAttr:$rope,
                       I64Attr:$offset);
  let results = (outs Mla_Tensor:$result);
  let assemblyFormat = [{
    $input (`gamma` `(` $gamma^ `:` type($gamma) `)`)? `eps` $eps `rope` $table `,` $batch
    `with` $rope `offset` $offset attr-dict
    `:` type($input) `rope` type($table) `,` type($batch) `->` type($result)
  }];
}

def Mla_RopeAppendOp : Mla_Op<"rope_append", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "rows rotated and written to the cache";
  let description = [{
    `mla.rms_norm`, where `eps` is given, `mla.rope` of the channels from `offset` on and `mla.append`, of
    which nothing but the cache remains: a program has whole rows. They are rounded once, to the
    cache's element type, and stored in its format. `mla-fuse-rows` makes it.

    x [T, D]; gamma [D], ones without it.
    (C1) shapes agree. (C2) eps > 0, and gamma with eps alone. (C3) 0 <= offset <= D - R with R =
    rope.dim; table is [?, R] f32. (C4) every > 0, as of mla.rope. (C5) the cache has one field, latent or
    index, of D columns in rope's order, as they are or in e4m3 with one scale a row, and without
    mla.hadamard.

    Example: entries of 4 tokens.
    ```mlir
    %after = mla.rope_append %x gamma(%gamma : tensor<512xf32>) eps 1.0e-6
      rope %table with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> offset 448 every 4
      into %cache, %batch : tensor<?x512xf32> rope tensor<?x64xf32>
      into <page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved, tokens_per_row = 4>, <query_len = ?>
    ```

    Source: v4.md sections 5 and 6.
  }];
  let arguments = (ins Mla_Tensor:$input, Optional<Mla_Tensor>:$gamma, OptionalAttr<F64Attr>:$eps,
                       RankedTensorOf<[F32]>:$table, Mla_RopeAttr:$rope, I64Attr:$offset,
                       DefaultValuedAttr<I64Attr, "1">:$every, Mla_CacheType:$cache,
                       Mla_BatchType:$batch);
  let results = (outs Mla_CacheType:$result);
  let assemblyFormat = [{
    $input (`gamma` `(` $gamma^ `:` type($gamma) `)`)? (`eps` $eps^)? `rope` $table `with` $rope
    `offset` $offset (`every` $every^)? `into` $cache `,` $batch attr-dict
    `:` type($input) `rope` type($table) `into` type($cache) `,` type($batch)
  }];
}

def Mla_BiasAppendOp : Mla_Op<"bias_append", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "values and biased gates of tokens written to the cache";
  let description = [{
    `mla.add_position_bias` of the gates and `mla.append` of values and gates: a program writes a field
    of a token's row. `mla-fuse-rows` makes it.

    values, gates [T, C] f32; bias [r, C] f32.
    (C1) shapes agree; r and C are static. (C2) the cache's fields are keys and values of C columns
    each in f32 as they are: values are its keys, gates its values.

    Example:
    ```mlir
    %after = mla.bias_append %kv, %gates bias %bias into %cache, %batch
      : tensor<?x1024xf32>, tensor<?x1024xf32> bias tensor<4x1024xf32>
      into <page_size = 4, fields = [key: 1024, value: 1024], element = f32, format = "kv_nhd", window = 8>, <query_len = ?>
    ```

    Source: v4.md section 6.
  }];
  let arguments = (ins RankedTensorOf<[F32]>:$values, RankedTensorOf<[F32]>:$gates,
                       RankedTensorOf<[F32]>:$bias, Mla_CacheType:$cache, Mla_BatchType:$batch);
  let results = (outs Mla_CacheType:$result);
  let assemblyFormat = [{
    $values `,` $gates `bias` $bias `into` $cache `,` $batch attr-dict
    `:` type($values) `,` type($gates) `bias` type($bias) `into` type($cache) `,` type($batch)
  }];
}

def Mla_SumPartsOp : Mla_Op<"sum_parts", [SingleBlock, NoRegionArguments]> {
  let summary = "projections of few rows, in parts of the depth";
  let description = [{
    The body is a latent projection, or several projections of the same rows. Where the rows are few,
    their weights are one product, whose depth is cut into `parts`; the kernel that
    normalises adds the parts up, so that the sum does not depend on which was done first,
    and it is not rounded before the norm. Where the rows are many, it is as if they stood
    alone. `mla-sum-parts` makes it where columns alone are too few programs.

    (C1) the body is `mla.project`, `mla.latent_project` and `mla.latent_append`, one or more, and
    `mla.yield` of all their results in order. (C2) they have the same input, weights of two
    dimensions and no bias.
    (C3) parts is above 1 and divides the depth.

    Example:
    ```mlir
    %cq, %after = mla.sum_parts 4 -> tensor<?x1536xbf16>, !cache {
      %0 = mla.latent_project %h, %w_q_a, %gamma_q eps 1.0e-6 : …
      %1 = mla.latent_append %h, %w_kv_a, %gamma_kv eps 1.0e-6 rope %table with … into %cache, %batch : …
      mla.yield %0, %1 : tensor<?x1536xbf16>, !cache
    }
    ```

    Source: split-K of Stream-K (Osama et al., 2023), with a fixed order of sums.
  }];
  let arguments = (ins I64Attr:$parts);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$parts `->` type($results) $body attr-dict";
  let extraClassDeclaration = [{
    /// The projections of the body, in order.
    auto getProjections() { return getBody().front().without_terminator(); }
    /// What the body yields as `result`.
    Value getYielded(OpResult result) {
      return getBody().front().getTerminator()->getOperand(result.getResultNumber());
    }
  }];
}

def Mla_YieldOp : Mla_Op<"yield", [Terminator, HasParent<"SumPartsOp">]> {
  let summary = "the results of a body";
  let description = [{
    Example:
    ```mlir
    mla.yield %0, %1 : tensor<?x1536xbf16>, !cache
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "$values attr-dict `:` type($values)";
  let hasVerifier = 0;
}

#endif // MLA_DIALECT_MLA_IR_MLAFUSEDOPS_TD
