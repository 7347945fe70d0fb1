//===- MlaSelectOps.td - which keys a token attends to ---------*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Selection of keys by their index scores. Included by MlaOps.td.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_MLA_IR_MLASELECTOPS_TD
#define MLA_DIALECT_MLA_IR_MLASELECTOPS_TD

def Mla_TopKOp : Mla_Op<"top_k", [AttrSizedOperandSegments]> {
  let summary = "the positions of the largest scores of each row";
  let description = [{
    For token t, the k positions s < len with the largest scores[t, s], ascending; entries
    behind them are -1. The result is a function of the scores: of equal scores the lower
    position wins, NaN ranks below every number, -0 equals +0. With len <= k it is 0, ...,
    len - 1, and scores are not read.

    len is lengths[t] where given, else the position of token t in its request, plus 1:

        len = max(seq_lens[r] - (query_start_loc[r + 1] - t) + 1, 0),  r = req_id_per_token[t]

    and 0 for rows of padding. It counts as 0 if negative and as S if above.
    Positions are those of a request: column s is key s of it. `mla.convert_indices` makes rows of them.

    With `from`, row i of the scores is token %first + i, as many as there are and the scores have rows;
    rows of other tokens are `onto`'s.

    scores [T, S] f32, lengths [T] i32, result [T, k] i32. S of a dynamic size is the step's max_seq_len
    where the caller binds the scores.
    (C1) scores have rank 2; the result is [T, k]. (C2) 1 <= k <= 4096. (C3) lengths have rank 1.
    (C4) `batch` is a step's, or a part of it, not one that shares a prefix. (C5) first and onto come
    together; onto has the result's type.

    Example:
    ```mlir
    %p = mla.top_k %scores over %batch k 2048 : tensor<?x?xf32>, <query_len = ?> -> tensor<?x2048xi32>
    %q = mla.top_k %scores lengths(%len : tensor<?xi32>) over %batch k 2048
      : tensor<?x?xf32>, <query_len = ?> -> tensor<?x2048xi32>
    ```

    Source: sparse.md sections 5 and 15.
  }];
  let arguments = (ins RankedTensorOf<[F32]>:$scores, Optional<Mla_IndexTensor>:$lengths,
                       Mla_BatchType:$batch, I64Attr:$k, Optional<Index>:$first,
                       Optional<Mla_IndexTensor>:$onto);
  let results = (outs Mla_IndexTensor:$result);
  let assemblyFormat = [{
    $scores (`lengths` `(` $lengths^ `:` type($lengths) `)`)? `over` $batch
    (`from` $first^ `onto` `(` $onto `:` type($onto) `)`)? `k` $k attr-dict `:` type($scores) `,` type($batch) `->` type($result)
  }];
  let extraClassDeclaration = [{
    /// What rows of indices are made for (sparse.md section 15).
    static constexpr int64_t kMostSelected = 4096;
  }];
}

def Mla_MarkSelectedOp : Mla_Op<"mark_selected"> {
  let summary = "selected positions as bits";
  let description = [{
    Bit s mod 32 of result[t, s / 32] is set where first + s is one of selected[t, :], as `mla.attention` with
    `selected` sees key first + s of token t's request. Without `chunk` these are new tokens, from the request's
    first on; with it the cached ones of that chunk, as `mla.gather` counts chunks.

    selected [T, K] i32, result [T, W] i32, both sizes of it dynamic: W = ceil(max_query_len / 32), or
    ceil(chunk_request_tokens / 32) of a chunk.
    (C1) selected has rank 2 and K columns, static; the result has rank 2. (C2) `batch` shares no prefix.

    Example:
    ```mlir
    %marks = mla.mark_selected %selected over %batch : tensor<?x2048xi32>, <query_len = ?> -> tensor<?x?xi32>
    %cached = mla.mark_selected %selected over %batch chunk %i : tensor<?x2048xi32>, <query_len = ?> -> tensor<?x?xi32>
    ```

    Source: sparse.md section 1.
  }];
  let arguments = (ins Mla_IndexTensor:$selected, Mla_BatchType:$batch, Optional<Index>:$chunk);
  let results = (outs Mla_IndexTensor:$result);
  let assemblyFormat = [{
    $selected `over` $batch (`chunk` $chunk^)? attr-dict `:` type($selected) `,` type($batch) `->` type($result)
  }];
}

#endif // MLA_DIALECT_MLA_IR_MLASELECTOPS_TD
