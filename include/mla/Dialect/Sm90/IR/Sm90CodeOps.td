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
                                           Arg<Sm90_Smem, "", [MemWrite]>:$target,
                                           OptionalAttr<I64Attr>:$rank)> {
  let summary = "leaves a fragment in shared memory, as its threads hold it";
  let description = [{
    Row w of `target` becomes what warp w holds of `value`, in an order of its own: `sm90.unpark` of the
    same warp of any role of one warpgroup, of the same type, gets it back. Two roles that hold
    the summands of one product exchange them so: an access takes every bank once, which no
    order of rows and columns would.

    ```
    target [4, 16 N]    | thread 0: 4 registers | thread 1: 4 | ... | thread 0: the next 4 | ...
    ```

    With `rank` it goes to the same place of the shared memory of this CTA of the cluster, its own
    or another's (`st.shared::cluster`), which has not ended. A `sm90.publish` with `remote` shows
    it to those who await the ring there.

    (C1) a fragment [64, N] of f32 with column_split 1; the tile is linear, [4, 16 N], of f32.
    (C2) stands in a role of one warpgroup.
    (C3) `rank`: the kernel's cluster has it.
  }];
  let assemblyFormat = [{
    $value `to` $target (`rank` $rank^)? attr-dict `:` type($value) `,` type($target)
  }];
}

def Sm90_UnparkOp : Sm90_Parked<"unpark", (ins Arg<Sm90_Smem, "", [MemRead]>:$source)> {
  let summary = "gets a fragment that `sm90.park` left in shared memory";
  let description = [{
    (C1), (C2) as `sm90.park`.
  }];
  let results = (outs Sm90_Tile2D:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
}

//===----------------------------------------------------------------------===//
// Codes that go from shared memory to registers
//===----------------------------------------------------------------------===//
//
// A thread gets whole words of four codes. Columns are in runs of four then: in every 16,
// position 8h + 2t + i, which a fragment's thread t of a row's four holds, is column 4t + 2h + i.
//
//   position   0  1 |  2  3 |  4  5 |  6  7 |  8  9 | 10 11 | 12 13 | 14 15
//   column     0  1 |  4  5 |  8  9 | 12 13 |  2  3 |  6  7 | 10 11 | 14 15
//   thread       0  |   1   |   2   |   3   |   0   |   1   |   2   |   3
//
// A sum over columns may be in any order: the other operand is put into the same one, and what has
// such rows or columns in the end is stored by it.

class Sm90_Runs<string mnemonic, dag operands> : Sm90_Op<mnemonic> {
  let arguments = operands;
  let hasVerifier = 1;
}

def Sm90_LoadCodeWordsOp : Sm90_Runs<"load_code_words", (ins
    Arg<Sm90_Smem, "", [MemRead]>:$codes, ConfinedAttr<I64Attr, [IntNonNegative]>:$column,
    ConfinedAttr<I64Attr, [IntPositive]>:$columns)> {
  let summary = "loads codes from shared memory, four of a word";
  let description = [{
    `result[i, 8 (s / 2) + 2 t + s % 2]` is the word of `codes[i, column + 16 s + 4 t .. + 3]`, the first in the
    lowest byte, for each 16 `s` of the columns, and 0 where there are none. `sm90.load_shared` loads
    pairs, with eight times as many accesses.

    (C1) codes are a swizzle128 tile of 64 rows of f8E4M3FN.
    (C2) `column` is a multiple of 32, `columns` of 16, both within the tile; the result is a whole
    fragment of i32 with 8 columns for each 32.
    (C3) stands in a role of one warpgroup.
  }];
  let results = (outs Sm90_Tile2D:$result);
  let assemblyFormat = [{
    $codes `column` $column `columns` $columns attr-dict `:` type($codes) `->` type($result)
  }];
}

def Sm90_LoadCodeColumnsOp : Sm90_Runs<"load_code_columns", (ins
    Arg<Sm90_Smem, "", [MemRead]>:$codes, ConfinedAttr<I64Attr, [IntNonNegative]>:$column,
    Optional<Index>:$limit)> {
  let summary = "loads 64 columns of codes from shared memory, which become the rows of an operand";
  let description = [{
    Words of which `sm90.scale_codes` makes the transpose of 64 columns: element k of row 16 s + 8 h + g is
    `codes[k, column + 16 s + 2 g + h]`. Rows are in pairs: `ldmatrix` exchanges units of 16 bits, which are two
    codes, so that neighbours stay with one thread. `sm90.store_runs` with `pairs` stores what has such rows.

    ```
    position   0 |  1 |  2 | ... |  7 |  8 |  9 | 10 | ... | 15
    column     0 |  2 |  4 | ... | 14 |  1 |  3 |  5 | ... | 15
    ```

    With `limit`, codes of the tile's rows at and behind it count as 0, whatever lies there.

    (C1) codes are a swizzle128 tile of 64 rows of f8E4M3FN.
    (C2) `column` is a multiple of 64, and 64 columns from there on are within the tile; the result is a whole fragment
    [64, 16] of i32.
    (C3) stands in a role of one warpgroup.
  }];
  let results = (outs Sm90_Tile2D:$result);
  let assemblyFormat = [{
    $codes `column` $column (`limit` $limit^)? attr-dict `:` type($codes) `->` type($result)
  }];
}

def Sm90_ScaleCodesOp : Sm90_Runs<"scale_codes", (ins
    Sm90_Tile2D:$words, AnyTypeOf<[F32, Sm90_Tile1D]>:$scale)> {
  let summary = "turns words of codes into operands of f16, columns in runs of four";
  let description = [{
    `result[i, 16 s + 8 h + 2 t + e] = code(16 s + 4 t + 2 h + e) * round(scale[i])` in f16, or times one
    `scale`, of what `sm90.load_code_words` gives: codes are exact there, the scale and the product are
    rounded once each. 65504 is the largest product.

    (C1) whole fragments of i32 and of f16, as `sm90.load_code_words` has them for the result's columns.
    (C2) a vector of scales is f32, 64 rows.
  }];
  let results = (outs Sm90_Tile2D:$result);
  let assemblyFormat = "$words `by` $scale attr-dict `:` type($words) `,` type($scale) `->` type($result)";
}

def Sm90_OrderRunsOp : Sm90_Runs<"order_runs", (ins
    Arg<Sm90_Smem, "", [MemRead, MemWrite]>:$source, F32:$factor)> {
  let summary = "puts a shared operand's columns in runs of four, as f16, in its place";
  let description = [{
    `result[i, 16 s + 8 h + 2 t + e] = f16(source[i, 16 s + 4 t + 2 h + e] * factor)`, where the source was: it is
    no more. Beyond f16's largest number stands that number. All threads of the role take part, each
    with 32 bytes of a row at a time; what others read needs a barrier and, for products, a fence.

    (C1) swizzle128 tiles of one shape, bf16 or f16, then f16.
    (C2) stands in a role of one warpgroup.
  }];
  let results = (outs Sm90_Smem:$result);
  let assemblyFormat = "$source `by` $factor attr-dict `:` type($source) `->` type($result)";
}

def Sm90_StoreRunsOp : Sm90_Runs<"store_runs", (ins
    Sm90_Tile2D:$value, Arg<Sm90_View, "", [MemWrite]>:$view, Variadic<Index>:$offsets,
    UnitAttr:$paired, UnitAttr:$transposed, UnitAttr:$pairs)> {
  let summary = "stores a fragment whose columns are in runs of four to global memory";
  let description = [{
    `view[offsets[0] + i, offsets[1] + 16 s + 4 t + 2 h + e] = value[i, 16 s + 8 h + 2 t + e]`, dropping what is
    outside of the view. `paired` promises that runs of four are aligned and both inside or outside of it,
    and may be one access. With `transposed` the value's rows are in runs: `view[offsets[0] + j, offsets[1] + 16 s + 4 t + 2 h + e] =
    value[16 s + 8 h + 2 t + e, j]`, or with `pairs`, too, as `sm90.load_code_columns` has them: `view[offsets[0] + j,
    offsets[1] + 16 s + 2 g + h] = value[16 s + 8 h + g, j]`.

    (C1) a whole fragment, a view and offsets of rank 2, of the same element type; of a `transposed` one the view's rows
    may be in groups, as `sm90.load` has them.
    (C2) its columns are a multiple of 16, or it is `transposed`; then it is not `paired`. Only then it may be of `pairs`.
  }];
  let assemblyFormat = [{
    $value `,` $view `[` $offsets `]` (`paired` $paired^)? (`transposed` $transposed^)? (`pairs` $pairs^)? attr-dict
    `:` type($value) `,` type($view)
  }];
}

#endif // MLA_DIALECT_SM90_IR_SM90CODEOPS_TD
