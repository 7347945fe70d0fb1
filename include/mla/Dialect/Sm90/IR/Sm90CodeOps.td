//===- Sm90CodeOps.td - rows that are stored as codes -*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What brings codes and their scales to a role and turns them into operands. Headers of their own
// are made of this file: few need them.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_SM90_IR_SM90CODEOPS_TD
#define MLA_DIALECT_SM90_IR_SM90CODEOPS_TD

include "mla/Dialect/Sm90/IR/Sm90Ops.td"

def Sm90_LoadCodeScalesOp : Sm90_Op<"load_code_scales"> {
  let summary = "loads a scale of each of one request's rows through its block table";
  let description = [{
    `result[i] = row(token + i)[column]` of the pool's rows, or 0 at and behind `limit`; rows are
    found as by `sm90.copy_paged`. Each thread loads the elements of its rows.

    (C1) the pool is [pages, page_size, D] with static page_size; the result is a row vector of its
    element type.
  }];
  let arguments = (ins Arg<Sm90_View, "", [MemRead]>:$pool,
                       Arg<Sm90_IndexList, "", [MemRead]>:$table,
                       Index:$token, Index:$column, Index:$limit);
  let results = (outs Sm90_Tile1D:$result);
  let assemblyFormat = [{
    $pool `[` $table `at` $token `,` $column `]` `limit` $limit attr-dict
    `:` type($pool) `,` type($table) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Sm90_TransformCodesOp : Sm90_Op<"transform_codes"> {
  let summary = "turns a shared tile of codes into operands";
  let description = [{
    `target[i, column + j] = round(codes[i, j] * scale[i])`, or times one `scale`: the codes exactly
    in f32, one product, one rounding to the target's type, so that NaN stays NaN. Each warp reads and writes
    its sixteen rows, in pieces of 16 bytes, by ordinary accesses: what others read needs a barrier and, for products, a fence.

    ```
    codes  [64, 128], a row      |0 ..  15|16 ..  31|  a lane's piece: one load,
    target panels of 64, a row   |0..7|..15|16..|..31| two stores
    ```

    (C1) codes and target are swizzle128 of 64 rows; codes are f8E4M3FN, the target bf16 or f16.
    (C2) a vector of scales is f32, 64 rows.
    (C3) `column` is a multiple of a panel's 64 and within the target; codes beyond its end are left
    out (rows of codes are padded to 128).
    (C4) stands in a role of one warpgroup.
  }];
  let arguments = (ins Arg<Sm90_Smem, "", [MemRead]>:$codes, AnyTypeOf<[F32, Sm90_Tile1D]>:$scale,
                       Arg<Sm90_Smem, "", [MemWrite]>:$target,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$column);
  let extraClassDeclaration = [{
    /// Columns that are turned.
    int64_t countColumns();
  }];
  let assemblyFormat = [{
    $codes `by` $scale `to` $target `column` $column attr-dict
    `:` type($codes) `,` type($scale) `,` type($target)
  }];
  let hasVerifier = 1;
}

class Sm90_Parked<string mnemonic, dag operands> : Sm90_Op<mnemonic> {
  let arguments = operands;
  let hasVerifier = 1;
}

def Sm90_ParkOp : Sm90_Parked<"park", (ins Sm90_Tile2D:$value,
                                           Arg<Sm90_Smem, "", [MemWrite]>:$target)> {
  let summary = "leaves a fragment in shared memory, as its threads hold it";
  let description = [{
    Row w of `target` becomes what warp w holds of `value`, in an order of its own: `sm90.unpark` of the
    same warp of any role of one warpgroup, of the same type, gets it back. Two roles that hold
    the summands of one product exchange them so: an access takes every bank once, which no
    order of rows and columns would.

    ```
    target [4, 16 N]    | thread 0: 4 registers | thread 1: 4 | ... | thread 0: the next 4 | ...
    ```

    (C1) a fragment [64, N] of f32 with column_split 1; the tile is linear, [4, 16 N], of f32.
    (C2) stands in a role of one warpgroup.
  }];
  let assemblyFormat = "$value `to` $target attr-dict `:` type($value) `,` type($target)";
}

def Sm90_UnparkOp : Sm90_Parked<"unpark", (ins Arg<Sm90_Smem, "", [MemRead]>:$source)> {
  let summary = "gets a fragment that `sm90.park` left in shared memory";
  let description = [{
    (C1), (C2) as `sm90.park`.
  }];
  let results = (outs Sm90_Tile2D:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
}

#endif // MLA_DIALECT_SM90_IR_SM90CODEOPS_TD
