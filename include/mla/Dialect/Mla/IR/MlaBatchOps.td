//===- MlaBatchOps.td - what depends on the requests of a step -*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sizes of a batch, and its parts. Included by MlaOps.td.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_MLA_IR_MLABATCHOPS_TD
#define MLA_DIALECT_MLA_IR_MLABATCHOPS_TD

def Mla_BatchDimOp : Mla_Op<"batch_dim"> {
  let summary = "a size of the batch or of the machine, as an index";
  let description = [{
    (C1) `name` is a size of level Graph (runtime/schema/StepSizes.def; docs/design.md
    has them as a table).
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

def Mla_SharePrefixOp : Mla_Op<"share_prefix"> {
  let summary = "a prefix that all requests share, and the requests behind it";
  let description = [{
    The first `tokens` cached tokens, at most num_common_tokens, lie on the same pages
    in all requests of `batch`. num_shared_tokens is their number rounded down to whole
    blocks of keys; 0 where a step cannot or shall not share (a padded step never does).

    `shared` is one request without new tokens: its query rows are all rows of `batch`,
    its cached context is the prefix, which comes in chunks of its own.
    `own` are the requests of `batch`, whose attention begins behind the prefix; all other
    sizes and tables of theirs are the batch's.

    (C1) `batch` is the decodes of a split batch, or the batch of a function that splits
    none. (C2) `shared` has query_len = ? and context_len = ?; own's type is batch's.
    (C3) a function has at most one.

    Example:
    ```mlir
    %shared, %own = mla.share_prefix %n of %batch : <query_len = 1> -> <query_len = ?>, <query_len = 1>
    ```

    Source: cascade attention of flashinfer-ai/flashinfer.
  }];
  let arguments = (ins Index:$tokens, Mla_BatchType:$batch);
  let results = (outs Mla_BatchType:$shared, Mla_BatchType:$own);
  let assemblyFormat = [{
    $tokens `of` $batch attr-dict `:` type($batch) `->` type($shared) `,` type($own)
  }];
  let extraClassDeclaration = [{
    /// The operation that `batch` is the shared prefix of, or the own parts; else null.
    static SharePrefixOp ofShared(::mlir::Value batch);
    static SharePrefixOp ofOwn(::mlir::Value batch);
  }];
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
  let arguments = (ins AnyTypeOf<[Mla_Tensor, Mla_IndexTensor]>:$input, Mla_BatchType:$part);
  let results = (outs AnyTypeOf<[Mla_Tensor, Mla_IndexTensor]>:$result);
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

#endif // MLA_DIALECT_MLA_IR_MLABATCHOPS_TD
