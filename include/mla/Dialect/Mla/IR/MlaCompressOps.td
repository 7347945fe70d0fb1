//===- MlaCompressOps.td - cached rows of several tokens -------*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows that stand for runs of tokens, how they are made and which of them a token sees (v4.md
// sections 6 and 8). Included by MlaOps.td.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_MLA_IR_MLACOMPRESSOPS_TD
#define MLA_DIALECT_MLA_IR_MLACOMPRESSOPS_TD

def Mla_AddPositionBiasOp : Mla_Op<"add_position_bias", [AllTypesMatch<["input", "result"]>]> {
  let summary = "adds to each row the bias of its place in a run of tokens";
  let description = [{
    `y[t, c] = x[t, c] + bias[position[t] mod r, c]`, formed in f32, rounded once: a learned bias
    of the r places in a run.

    x, y [T, C]; bias [r, C].
    (C1) shapes agree; r and C are static.

    Example:
    ```mlir
    %y = mla.add_position_bias %x, %bias, %batch
      : tensor<?x1024xf32>, tensor<4x1024xf32>, <query_len = ?>
    ```

    Source: v4.md section 6.
  }];
  let arguments = (ins Mla_Tensor:$input, Mla_Tensor:$bias, Mla_BatchType:$batch);
  let results = (outs Mla_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $bias `,` $batch attr-dict `:` type($input) `,` type($bias) `,` type($batch)
  }];
}

def Mla_CompressOp : Mla_Op<"compress"> {
  let summary = "weighted means of runs of tokens";
  let description = [{
    Entry e of a request stands for its tokens e · r to e · r + r − 1, with r = `every`. The token that
    closes it, at position p with (p + 1) mod r = 0, gets

        C[d] = sum over t of softmax over t(gate[t, d]) · kv[t, d]

    each column by itself, in f32; all other tokens get zeros. kv and gate of a token are the fields
    `key` and `value` of its row in the pool (append first); of tokens before this step they are still
    there, so that entries do not depend on how a sequence is cut into steps.

    With `overlap` an entry is also of the run before, whose tokens have the first D columns of
    both fields, where those of its own have the last D. The first entry has no run before.

    states: fields of D columns, with `overlap` of 2 D; result [T, D].
    (C1) the pool has the fields key and value, one head each, equally wide. (C2) the result is
    [T, D] f32. (C3) every > 0. (C4) the pool has a row of every token, and its window, if it has
    one, the tokens of an entry.

    Example: entries of 4 tokens, from 8.
    ```mlir
    %entries = mla.compress %states, %batch every 4 overlap
      : <page_size = 4, fields = [key: 1024, value: 1024], element = f32, format = "kv_nhd", window = 8>,
        <query_len = ?> -> tensor<?x512xf32>
    ```

    Source: v4.md section 6.
  }];
  let arguments = (ins Mla_CacheType:$cache, Mla_BatchType:$batch, I64Attr:$every,
                       UnitAttr:$overlap);
  let results = (outs Mla_Tensor:$result);
  let assemblyFormat = [{
    $cache `,` $batch `every` $every (`overlap` $overlap^)? attr-dict
    `:` type($cache) `,` type($batch) `->` type($result)
  }];
  let extraClassDeclaration = [{
    /// Tokens whose rows an entry is made of.
    int64_t getTokens() { return getEvery() * (getOverlap() ? 2 : 1); }
  }];
}

def Mla_SeenKeysOp : Mla_Op<"seen_keys"> {
  let summary = "which keys of a pool a token sees that selects none";
  let description = [{
    For a token at position p, with a `window` w the w last tokens, itself included, else the entries
    of `every` r tokens whose last one is not behind it:

    | | count[t] | keys[t, 0], keys[t, 1], … |
    |---|---|---|
    | window w | min(p + 1, w) | p + 1 − count, …, p |
    | every r | (p + 1) / r, rounded down | 0, 1, … |

    and −1 from entry count[t] on. Counts may be above K, the keys' static size, which then holds the
    first K. Rows of padding see none. Keys are positions in a request, as `mla.convert_indices` takes
    them, or numbers of entries; counts are lengths of `mla.top_k` and `mla.sparse_attention`.

    With a pool keys are its rows, as `mla.convert_indices` gives them, and beyond entry max_seq_len / r of the
    batch nothing is written where there are runs, which no token sees. `mla-fuse-rows` makes it.

    count [T] i32, keys [T, K] i32.
    (C1) a window or runs of tokens: window >= 0, every > 0, every = 1 with a window. (C2) K is static, above 0 and
    not below the window. (C3) `batch` is a step's, not a part of one. (C4) a pool only with keys.

    Example: the last 128 tokens; the number of entries of 4.
    ```mlir
    %n, %near = mla.seen_keys %batch window 128 : <query_len = ?> -> tensor<?xi32>, tensor<?x128xi32>
    %m = mla.seen_keys %batch every 4 : <query_len = ?> -> tensor<?xi32>
    %r, %rows = mla.seen_keys %batch window 128 in %cache : <query_len = ?> in <…> -> tensor<?xi32>, tensor<?x128xi32>
    ```

    Source: v4.md section 8.
  }];
  let arguments = (ins Mla_BatchType:$batch, DefaultValuedAttr<I64Attr, "0">:$window,
                       DefaultValuedAttr<I64Attr, "1">:$every, Optional<Mla_CacheType>:$cache);
  let results = (outs Mla_IndexTensor:$count, Optional<Mla_IndexTensor>:$keys);
  let assemblyFormat = [{
    $batch (`window` $window^)? (`every` $every^)? (`in` $cache^)? attr-dict
    `:` type($batch) (`in` type($cache)^)? `->` type($count) (`,` type($keys)^)?
  }];
}

#endif // MLA_DIALECT_MLA_IR_MLACOMPRESSOPS_TD
