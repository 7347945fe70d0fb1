//===- TileSelectOps.td - selection of positions ---------------*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Included by TileOps.td.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_TILE_IR_TILESELECTOPS_TD
#define MLA_DIALECT_TILE_IR_TILESELECTOPS_TD

def Tile_TopKOp : Tile_Op<"top_k", [AttrSizedOperandSegments]> {
  let summary = "the positions of a row's largest values";
  let description = [{
    `out[row, 0:K]` becomes the positions, ascending, of the K largest of
    `values[row, 0:length]`, then -1s. Of equal values the lower position wins, NaN ranks
    below every number, -0 equals +0: the result does not depend on how it is found,
    which is a target's choice. With length <= K it is 0, ..., length - 1, and no value is read.
    A negative length counts as 0, one above the view's columns as their number.

    **Several programs** may have one row, with `slice %s of %n`: each s from 0 to n - 1 once, all
    others of their operands alike. Together they write the row. `lists` and `counters` are memory through which
    they meet: what they keep of the row goes to `lists[row]` (values, then positions), and
    `counters[2 * row]` and the next count from zero and are zeros when all have ended. A target may leave the row to
    one of them.

    `longest` promises that no row has more values.

    (C1) values are [rows, columns] f32 with a column stride of 1; out is [rows, K] i32 with a static
    K from 1 to 4096 and a column stride of 1.
    (C2) lists are given exactly beside a slice; they are [rows, 2, capacity] f32 of a static capacity above K.
    (C3) `longest` is positive.

    Example:
    ```mlir
    tile.top_k %values[%row] length %len to %out
        : memref<?x?xf32, strided<[?, 1]>>, memref<?x2048xi32, strided<[2048, 1]>>
    tile.top_k %values[%row] length %len slice %s of %n lists(%l : memref<?x2x8192xf32>)
        counters(%c : memref<?xi32>) to %out
        : memref<?x?xf32, strided<[?, 1]>>, memref<?x2048xi32, strided<[2048, 1]>>
    ```
  }];
  let arguments = (ins Arg<Tile_View, "", [MemRead]>:$values, Index:$row, Index:$length,
                       Optional<Index>:$slice, Optional<Index>:$slices,
                       Arg<Optional<Tile_View>, "", [MemRead, MemWrite]>:$lists,
                       Arg<Optional<Tile_IndexList>, "", [MemRead, MemWrite]>:$counters,
                       Arg<Tile_View, "", [MemWrite]>:$out, OptionalAttr<I64Attr>:$longest);
  let assemblyFormat = [{
    $values `[` $row `]` `length` $length
    (`slice` $slice^ `of` $slices `lists` `(` $lists `:` type($lists) `)`
     `counters` `(` $counters `:` type($counters) `)`)?
    `to` $out attr-dict `:` type($values) `,` type($out)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    static constexpr int64_t kMostSelected = 4096;
    /// K.
    int64_t getCount() {
      return ::mlir::cast<::mlir::MemRefType>(getOut().getType()).getDimSize(1);
    }
  }];
}

def Tile_SetBitsOp : Tile_Op<"set_bits"> {
  let summary = "the numbers of a list as bits of a row";
  let description = [{
    Bit p mod 32 of `out[row, p / 32]` becomes 1 where first + p is in `list[row]`, and 0 elsewhere in the
    row. Numbers below `first`, or not below it and 32 times the columns of `out`, set none; those that
    come twice are there once. `first` is not negative, and what it and the columns name is below 2^31.

    Example: which of the 4096 keys from %first on are among 2048 that were selected.
    ```mlir
    tile.set_bits %list[%row] from %first to %out
        : memref<?x2048xi32, strided<[2048, 1]>>, memref<?x128xi32, strided<[128, 1]>>
    ```

    (C1) both have rank 2, i32 and a column stride of 1; the list's columns are static.
  }];
  let arguments = (ins Arg<Tile_View, "", [MemRead]>:$list, Index:$row, Index:$first,
                       Arg<Tile_View, "", [MemWrite]>:$out);
  let assemblyFormat = [{
    $list `[` $row `]` `from` $first `to` $out attr-dict `:` type($list) `,` type($out)
  }];
  let hasVerifier = 1;
}

def Tile_TestBitsOp : Tile_Op<"test_bits", [Pure]> {
  let summary = "which bits of words are set, as a tile";
  let description = [{
    `result[i, j] = bit j mod 32 of words_n[i]`, n = j / 32.

    Example: two words of each row.
    ```mlir
    %seen = tile.test_bits %low, %high : tensor<64xi32>, tensor<64xi32> -> tensor<64x64xi1>
    ```

    (C1) words are [M] i32, all alike; the result is [M, 32 times their number] i1.
  }];
  let arguments = (ins Variadic<Tile_Tile>:$words);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$words attr-dict `:` type($words) `->` type($result)";
  let hasVerifier = 1;
}

#endif // MLA_DIALECT_TILE_IR_TILESELECTOPS_TD
