//===- TileOps.td - block program operations -----------------*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_TILE_IR_TILEOPS_TD
#define MLA_DIALECT_TILE_IR_TILEOPS_TD

include "mla/Dialect/Tile/IR/MachineAttr.td"
include "mla/Dialect/Tile/IR/TileDialect.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"

class Tile_Op<string mnemonic, list<Trait> traits = []>
    : Op<Tile_Dialect, mnemonic, traits>;

def Tile_Tile : StaticShapeTensorOf<[AnyFloat, AnySignlessInteger, Index]>;

def Tile_Buffer : MemRefRankOf<[AnyFloat, AnySignlessInteger], [1]>;
def Tile_View : StridedMemRefOf<[AnyFloat, AnySignlessInteger]>;
def Tile_IndexList : MemRefRankOf<[I32, I64], [1]>;

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

def Tile_KernelOp : Tile_Op<"kernel", [
    IsolatedFromAbove, FunctionOpInterface, AutomaticAllocationScope]> {
  let summary = "the program of one CTA";
  let description = [{
    Arguments are `memref<?xT>` (flat global buffer, 16-byte aligned base),
    `index` or `f32`. No results. The grid has three dimensions; a program
    reads its position with `tile.program_id`. Programs of one launch run in
    any order and may not communicate.

    Example:
    ```mlir
    tile.kernel @copy(%src: memref<?xbf16>, %dst: memref<?xbf16>, %rows: index) {
      %c0 = arith.constant 0 : index
      %c64 = arith.constant 64 : index
      %pid = tile.program_id 0
      %row = arith.muli %pid, %c64 : index
      %in = memref.reinterpret_cast %src to offset: [0], sizes: [%rows, 40], strides: [40, 1]
          : memref<?xbf16> to memref<?x40xbf16, strided<[40, 1]>>
      %out = memref.reinterpret_cast %dst to offset: [0], sizes: [%rows, 40], strides: [40, 1]
          : memref<?xbf16> to memref<?x40xbf16, strided<[40, 1]>>
      %t = tile.load %in[%row, %c0] : memref<?x40xbf16, strided<[40, 1]>> -> tensor<64x64xbf16>
      tile.store %t, %out[%row, %c0] : tensor<64x64xbf16>, memref<?x40xbf16, strided<[40, 1]>>
      tile.return
    }
    ```

    An `index` argument may carry `{tile.divisibility = 8 : i64}`: whoever
    launches promises a multiple of that number. Back ends derive vector widths
    from it (a page stride that is a run-time value, say); without it they must
    assume 1. The runtime's `page_stride` is a multiple of 16 bytes. A buffer may
    carry `tile.invariant`: no kernel of the step writes it (weights), so that a
    dependent launch may read it before it waits.

    `tile.resident_programs` (i64) says how many programs of a kernel are to fit on a
    multiprocessor side by side: an assembler may not give a thread more registers; 1: no second
    one.
    `tile.row_kernel` marks a kernel whose tiles are rows that it only moves and
    computes element by element: a back end may give a thread more neighbouring
    columns than a product's layout has.

    (C1) every argument is `memref<?xT>`, `index` or `f32`.
    (C2) the body has one block and ends in `tile.return`.
    (C3) a `tile.row_count` of an argument is the number of an `index` argument.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<StrAttr>:$sym_visibility,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region MaxSizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name,
                                 "::mlir::TypeRange":$argument_types)>];
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
  }];
}

def Tile_ReturnOp : Tile_Op<"return", [Pure, Terminator,
    ParentOneOf<["::mlir::tile::KernelOp", "::mlir::tile::PlanOp"]>]> {
  let summary = "ends a kernel or a plan";
  let assemblyFormat = "attr-dict";
}

def Tile_ProgramIdOp : Tile_Op<"program_id", [Pure]> {
  let summary = "position of this program in the grid";
  let description = [{
    The same everywhere in a kernel, so passes may move it into loops and branches
    and out of them.

    (C1) `dim` is 0, 1 or 2.
    (C2) it stands in a `tile.kernel`, at any depth.
  }];
  let arguments = (ins ConfinedAttr<I32Attr, [IntNonNegative, IntMaxValue<2>]>:$dim);
  let results = (outs Index:$result);
  let assemblyFormat = "$dim attr-dict";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

def Tile_LoadOp : Tile_Op<"load"> {
  let summary = "loads a dense tile, zero outside the view";
  let description = [{
    `result[i, j] = view[offsets[0] + i, offsets[1] + j]`, or 0 where an index
    is outside the view's sizes. Offsets are not negative. Any column stride is
    allowed (0 broadcasts, 2 picks RoPE pairs), unit stride is fast.

    A view with one dimension more has its rows in *groups* of a static size G: row n of
    [groups, G, columns] is row n mod G of group n / G, of groups · G in all. So rows are pairs,
    such as (token, head of a group), which need not have one stride.

    (C1) number of offsets = result rank, 1 or 2; the view has as many dimensions, or one
    more, of which the second is static.
    (C2) view and result have the same element type.
  }];
  let arguments = (ins Arg<Tile_View, "", [MemRead]>:$view, Variadic<Index>:$offsets);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$view `[` $offsets `]` attr-dict `:` type($view) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_LoadRowsOp : Tile_Op<"load_rows"> {
  let summary = "gathers rows by an index list in memory";
  let description = [{
    `result[i, j] = view[indices[first + i], column + j]`. Zero where
    `first + i` is outside the list, where the index is negative or not below
    the view's rows, and where the column is outside. Of pages, a view [pages, page_size, D],
    index n names the row `view[n / page_size, n % page_size]` out of pages · page_size.

    (C1) the view has rank 2, or 3 with a static page_size; the result has rank 2 and its element type.
  }];
  let arguments = (ins Arg<Tile_View, "", [MemRead]>:$view,
                       Arg<Tile_IndexList, "", [MemRead]>:$indices,
                       Index:$first, Index:$column);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = [{
    $view `[` $indices `at` $first `,` $column `]` attr-dict
    `:` type($view) `,` type($indices) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_LoadPagedOp : Tile_Op<"load_paged"> {
  let summary = "loads rows of one request through its block table";
  let description = [{
    With `page_size = pool.shape[1]` (static) and `t = token + i`:
    `result[i, j] = pool[table[t / page_size], t % page_size, column + j]`
    where `t < limit` and the column is inside, else 0. Entries of the table
    for tokens at or above `limit` are never read, nor is the pool
    (spec: mla.md section 11, block_table tails are garbage).
    Offsets are 64-bit. `table` is one request's row of the block table.

    (C1) pool is [pages, page_size, D] with static page_size; result is rank 2.
    (C2) pool and result have the same element type.
  }];
  let arguments = (ins Arg<Tile_View, "", [MemRead]>:$pool,
                       Arg<Tile_IndexList, "", [MemRead]>:$table,
                       Index:$token, Index:$column, Index:$limit);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = [{
    $pool `[` $table `at` $token `,` $column `]` `limit` $limit attr-dict
    `:` type($pool) `,` type($table) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_LoadElementsOp : Tile_Op<"load_elements"> {
  let summary = "gathers single elements by computed indices";
  let description = [{
    `result[i, j] = view[indices_0[i, j], …]`, one tile of indices for each
    dimension of the view, or 0 where an index is negative or not below the view's
    size; the view is not read there. Rank 1 accordingly. Offsets are 64-bit.

    Example: pages of positions through a block table.
    ```mlir
    %page = tile.load_elements %table[%request, %entry]
        : memref<?x?xi32, strided<[?, 1]>>, tensor<64x32xi32>, tensor<64x32xi32>
        -> tensor<64x32xi32>
    ```

    (C1) as many index tiles as the view has dimensions, i32, of the result's shape.
    (C2) view and result have the same element type.
  }];
  let arguments = (ins Arg<Tile_View, "", [MemRead]>:$view, Variadic<Tile_Tile>:$indices);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = [{
    $view `[` $indices `]` attr-dict
    `:` type($view) `,` type($indices) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_StoreOp : Tile_Op<"store"> {
  let summary = "stores a dense tile, dropping what is outside the view";
  let description = [{
    `view[offsets[0] + i, offsets[1] + j] = value[i, j]`. With `transposed`, rows
    of the tile are columns of the view:
    `view[offsets[0] + j, offsets[1] + i] = value[i, j]`. Rows in groups: see tile.load.

    Example:
    ```mlir
    tile.store %t, %v[%row, %c0] transposed
        : tensor<64x16xf32>, memref<?x512xf32, strided<[512, 1]>>
    ```

    (C1) number of offsets = tile rank, 1 or 2; the view has as many dimensions, or one more,
    of which the second is static.
    (C2) view and tile have the same element type.
    (C3) with `transposed` the tile has rank 2.
  }];
  let arguments = (ins Tile_Tile:$value, Arg<Tile_View, "", [MemWrite]>:$view,
                       Variadic<Index>:$offsets, UnitAttr:$transposed);
  let assemblyFormat = [{
    $value `,` $view `[` $offsets `]` (`transposed` $transposed^)? attr-dict
    `:` type($value) `,` type($view)
  }];
  let hasVerifier = 1;
}

def Tile_StoreSlotsOp : Tile_Op<"store_slots"> {
  let summary = "scatters rows into a paged pool by slot mapping";
  let description = [{
    With `page_size = pool.shape[1]` (static) and `s = slots[first + i]`:
    `pool[s / page_size, s % page_size, column + j] = value[i, j]`.
    Rows whose `first + i` is outside the list or whose slot is negative are
    skipped, as are columns outside the pool's row (spec: paged-cache.md
    section 5). A slot at or above pages * page_size is skipped too.

    (C1) pool is [pages, page_size, D] with static page_size; value is rank 2.
    (C2) pool and value have the same element type.
  }];
  let arguments = (ins Tile_Tile:$value, Arg<Tile_View, "", [MemWrite]>:$pool,
                       Arg<Tile_IndexList, "", [MemRead]>:$slots,
                       Index:$first, Index:$column);
  let assemblyFormat = [{
    $value `,` $pool `[` $slots `at` $first `,` $column `]` attr-dict
    `:` type($value) `,` type($pool) `,` type($slots)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Computation
//===----------------------------------------------------------------------===//

def Tile_DotOp : Tile_Op<"dot", [Pure, AllTypesMatch<["acc", "result"]>]> {
  let summary = "matrix product with f32 accumulation";
  let description = [{
    `result = acc + lhs · rhs` with lhs [M, K], or [K, M] when `transpose_lhs`
    is set (rows of values), acc [M, N] f32, and rhs [K, N], or [N, K] when
    `transpose_rhs` is set (rows of keys or of a weight stored [out, in]). Products are exact in f32 for inputs of
    16 and 8 bits; the order of summation over K is unspecified, and on sm_90a sums of codes keep fewer bits than f32.

    (C1) lhs and rhs have the same element type: bf16, f16, f32, or f8E4M3FN; or one of them is
    f8E4M3FN, whose values the other's type has. Codes come with `transpose_rhs` and without `transpose_lhs`.
    (C2) acc is f32 with shape [M, N]; the contraction widths agree; none of them is 0.
  }];
  let arguments = (ins Tile_Tile:$lhs, Tile_Tile:$rhs, Tile_Tile:$acc,
                       UnitAttr:$transpose_rhs, UnitAttr:$transpose_lhs);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs `,` $acc (`transpose_lhs` $transpose_lhs^)?
    (`transpose_rhs` $transpose_rhs^)? attr-dict
    `:` type($lhs) `,` type($rhs) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_ReduceKind : I32EnumAttr<"ReduceKind", "what a reduction computes", [
    I32EnumAttrCase<"Max", 0, "max">, I32EnumAttrCase<"Sum", 1, "sum">]> {
  let cppNamespace = "::mlir::tile";
  let genSpecializedAttr = 0;
}
def Tile_ReduceKindAttr : EnumAttr<Tile_Dialect, Tile_ReduceKind, "reduce_kind">;

/// A dimension of a matrix.
def Tile_MatrixDim : ConfinedAttr<I32Attr, [IntNonNegative, IntMaxValue<1>]>;

def Tile_ReduceOp : Tile_Op<"reduce", [Pure]> {
  let summary = "reduces each row or each column of a tile";
  let description = [{
    `dim` is what disappears. 1, the default, reduces rows:
    `result[i] = max_j source[i, j]` or `sum_j source[i, j]`; 0 reduces columns:
    `result[j] = max_i source[i, j]` or `sum_i source[i, j]`. A NaN element
    makes the result NaN in both kinds (`arith.maximumf` semantics).
    The order of summation is unspecified but fixed for one compiled kernel.

    Example:
    ```mlir
    %m = tile.reduce max %s : tensor<64x16xf32> -> tensor<64xf32>
    %n = tile.reduce max %s dim 0 : tensor<64x16xf32> -> tensor<16xf32>
    ```

    (C1) source is [M, N] f32, result is [M] f32, or [N] f32 with `dim` 0.
    (C2) `dim` is 0 or 1.
  }];
  let arguments = (ins Tile_ReduceKindAttr:$kind, Tile_Tile:$source,
                       DefaultValuedAttr<Tile_MatrixDim, "1">:$dim);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = [{
    $kind $source (`dim` $dim^)? attr-dict `:` type($source) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_SumGroupsOp : Tile_Op<"sum_groups", [Pure, SameOperandsAndResultType]> {
  let summary = "sums of groups of neighbouring elements, in each of them";
  let description = [{
    `result[i] = sum_j source[j]` over the `size` elements with `j / size == i / size`. So rows of
    a model that are several rows of a tile each have one sum. NaN and infinity as in
    `tile.reduce sum`; the order of summation is fixed for one compiled kernel.

    Example: of heads that are four rows of a tile each.
    ```mlir
    %rows = tile.reduce sum %squares : tensor<64x16xf32> -> tensor<64xf32>
    %heads = tile.sum_groups %rows of 4 : tensor<64xf32>
    ```

    (C1) source is [M] f32. (C2) `size` is a power of two of at least 2 that divides M.
  }];
  let arguments = (ins Tile_Tile:$source, I64Attr:$size);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$source `of` $size attr-dict `:` type($source)";
  let hasVerifier = 1;
}

def Tile_BroadcastOp : Tile_Op<"broadcast", [Pure]> {
  let summary = "repeats a vector over a tile";
  let description = [{
    `dim` is what appears, as in `tile.reduce`. 1, the default, repeats a column
    vector over the columns: `result[i, j] = source[i]`; 0 repeats a row vector
    over the rows: `result[i, j] = source[j]`. (Row vectors from memory can be
    loaded with row stride 0.)

    Example:
    ```mlir
    %a = tile.broadcast %m : tensor<64xf32> -> tensor<64x16xf32>
    %b = tile.broadcast %n dim 0 : tensor<16xf32> -> tensor<64x16xf32>
    ```

    (C1) source is [M], or [N] with `dim` 0, result is [M, N], same element type.
    (C2) `dim` is 0 or 1.
  }];
  let arguments = (ins Tile_Tile:$source, DefaultValuedAttr<Tile_MatrixDim, "1">:$dim);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = [{
    $source (`dim` $dim^)? attr-dict `:` type($source) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_IotaOp : Tile_Op<"iota", [Pure]> {
  let summary = "position along one dimension";
  let description = [{
    `result[i, j] = i` (dim 0) or `j` (dim 1); rank 1: `result[i] = i`.

    (C1) the result is an i32 tile; `dim` is below its rank.
  }];
  let arguments = (ins ConfinedAttr<I32Attr, [IntNonNegative, IntMaxValue<1>]>:$dim);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$dim attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Tile_SplatOp : Tile_Op<"splat", [Pure]> {
  let summary = "a tile whose elements are all one run-time scalar";
  let description = [{
    (C1) the scalar's type is the tile's element type. (Constants are
    `arith.constant dense<…>`; `index` scalars are cast to i32 first.)
  }];
  let arguments = (ins AnyType:$source);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

def Tile_AttendOp : Tile_Op<"attend", [
    AttrSizedOperandSegments,
    TypesMatchWith<"a reference for each row of the output", "output", "reference",
                   "getRowType($_self)">,
    TypesMatchWith<"a sum for each row of the output", "output", "sum", "getRowType($_self)">]> {
  let summary = "attention of one tile of queries over a run of keys";
  let description = [{
    What attention computes, without saying how: until a schedule is chosen the loop
    over keys is this one op, and nothing has to be recognised. With blocks of `block`
    keys, for every row i:

        scores[s]   = sum over t of queries_t[i] . keys_t[s]
        reference'  = reference or what it has become, not below max_s scores[s] . c - lag
        sum'        = sum . 2^(reference - reference') + sum_s 2^(scores[s] . c - reference')
        output'     = output . 2^(reference - reference') + sum_s 2^(scores[s] . c - reference') values[s]

    with c = scale . log2(e), over the keys s that row i sees. `sum` is of the
    numerators as they are; for the product with the values they are rounded to the
    element type of the queries. `reference` is what both are relative to, and is good for
    nothing else: with lag = 0 it is the running maximum, else it moves only when a score
    exceeds it by more than `lag` (`tile-lazy-rescale`). The result is output / sum, its
    LSE ln(2) . (reference + log2(sum)); a row that sees no key has sum 0.

    **Queries** are one tile, or several whose scores add up (latent and RoPE): [M, W_t],
    with zeros behind the width of the keys.

    **Key source**: where row s of the keys lies.
    ```
      rows    keys(%k : memref<?xW>)                          s of the view
      pages   keys(%k : memref<?x64xW>) pages(%table)         (table[s / 64], s mod 64)
      list    keys(%k : memref<?xW>) rows(%list)              list[s]; none where that is not a row
      slots   keys(%k : memref<?x64xW>) rows(%list)           (list[s] / 64, list[s] mod 64), likewise
    ```
    Rows at `limit` and behind are not there: nothing of them is read, nor of the list. An
    entry of the list that is negative or not below the view's rows names none: no row of queries sees that
    key, and nothing is read for it. Each term has a
    view; all have the same source. Of rows of several KV heads a view holds one head's
    columns: its strides are those of whole rows, its offset is the head's. One tile of queries
    with views of several *parts* has them side by side: the columns of the second part follow the W of the first.

    **Values** are rows of a view of their own, of the same list, or in pages where the keys are, of a table
    and a page size of their own; or, where none is given, the first columns of the first term's keys
    as far as the output is wide.

    **Transform** of what is stored to what is multiplied, by the views' element types:
    ```
      the queries' type                      as it is
      another float type                     converted
      f8E4M3FN, scales(%s : memref<?xf32>)   code . s[0], of every term of codes
      f8E4M3FN, scales(%s : memref<?x64xG>)  code . s[row, group of the column] for the G equal
                                             groups of columns of the first term; likewise
                                             memref<?xG> of rows by a list
      f8E4M3FN, scales(%s : memref<...xGxi8>) the same of bare exponents: 2^(byte - 127)
    ```
    Products are made in f32 and rounded to the queries' type once. Values of their own are as they are, or
    codes beside keys of codes: code . s[1].

    **Which keys**: the range from %first to %last, counted in `unit` keys (1, or whole
    blocks); its end may lie in a block, whose keys are all looked at. Of these row i sees
    s < seen[i] where `sees` is given (at most `limit`, for rows whose results count), else
    s < limit; with `behind` s >= behind[i] as well (a window), with `diagonal`
    s <= diagonal + i / group: rows come in groups of so many that see alike, such as a query's
    heads. Windows of rows begin one key after another at most, the first row's at
    most one block behind %first. With `marks` row i sees of all these the keys whose bit is set: bit
    s mod 32 of marks[i, s / 32]. Columns that are not there stand for keys that are not, either.

    **Start**: reference, sum and output to go on from; else no keys have been seen yet. So keys of
    two sources are two of these ops.

    `exact` asks for a reference that is the maximum: lag stays 0.

    With a `softcap` t > 0, t . tanh(scores[s] . scale / t) stands for scores[s] . scale.

    Example: absorbed decode over pages of 64 tokens; expanded attention, causal; a KV head of
    128 columns over pages of 16 keys and of 32 values, with a window; the rows that a list names.
    ```mlir
    %m, %l, %o = tile.attend queries(%q, %qr : tensor<64x512xbf16>, tensor<64x64xbf16>)
        keys(%latents, %ropes : memref<?x64x512xbf16, strided<[?, 576, 1]>>,
             memref<?x64x64xbf16, strided<[?, 576, 1], offset: 512>>)
        pages(%table : memref<?xi32, strided<[1], offset: ?>>)
        range %first to %last limit %len sees(%seen : tensor<64xi32>)
        {block = 64 : i64, scale = 0.1 : f64, unit = 64 : i64} -> tensor<64x512xf32>
    %n, %k, %p = tile.attend queries(%r : tensor<64x192xbf16>)
        keys(%kv : memref<?x192xbf16, strided<[24576, 1], offset: ?>>)
        values(%vv : memref<?x128xbf16, strided<[16384, 1], offset: ?>>)
        range %c0 to %end limit %rows diagonal %row
        start(%n0, %k0, %p0 : tensor<64xf32>, tensor<64xf32>, tensor<64x128xf32>)
        {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x128xf32>
    %g, %h, %i = tile.attend queries(%s : tensor<64x128xbf16>)
        keys(%kc : memref<?x16x128xbf16, strided<[?, 1024, 1], offset: ?>>)
        pages(%kt : memref<?xi32, strided<[1], offset: ?>>)
        values(%vc : memref<?x32x128xbf16, strided<[?, 1024, 1], offset: ?>>)
        value_pages(%vt : memref<?xi32, strided<[1], offset: ?>>)
        range %begin to %len limit %len sees(%seen : tensor<64xi32>) behind(%firsts : tensor<64xi32>)
        {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x128xf32>
    %u, %v, %w = tile.attend queries(%q, %qr : tensor<64x512xbf16>, tensor<64x64xbf16>)
        keys(%flat, %pe : memref<?x512xbf16, strided<[576, 1]>>,
             memref<?x64xbf16, strided<[576, 1], offset: 512>>)
        rows(%list : memref<?xi32, strided<[1], offset: ?>>)
        range %c0 to %count limit %count
        {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x512xf32>
    ```

    (C1) one view of keys for each tile of queries, at least one, or one tile of queries and several
         parts, which come by a list and are together as wide as it; queries have as many
         rows as the output and one element type out of bf16, f16, f32.
    (C2) with a table the views of keys are [pages, page_size, W] with one static
         page_size; without they are [rows, W], by a list either. W is at most the width of its queries.
         There is a table, a list of i32, or neither.
    (C3) values are [rows, V] where the keys are rows, [pages, page_size, V] with a static
         page_size and a table where they come in pages; V is at most the output's columns, their
         type the queries', or f8E4M3FN in pages, with scales [2 or more] of keys and of values. Without values there
         is no table of theirs, and the output is as wide as the first queries.
    (C4) element types of keys are floats. Those of 8 bits are f8E4M3FN and come in pages or by a list,
         with scales; there are no scales without them. Scales are f32: [1 or more], or f32 or i8,
         [pages, page_size, G] with the keys' page_size, of rows by a list [rows, G], G a divisor of the first
         term's W.
    (C5) `sees` is i32 with an element for each row, and there is no diagonal beside it; so is
         `behind`, which stands beside one of both. By a list, keys have no order, and there is none of them.
         `group` is positive, and 1 without a diagonal.
    (C8) marks are [rows, words] i32 with a word stride of 1, beside keys that are rows of views; the
         block is of whole words, and so is what is before %first.
    (C6) the start is nothing, or has the types of the results.
    (C7) `block` is positive, `unit` is 1 or `block`; `scale` is finite and positive,
         `lag` from 0 to 15: numerators of up to 2^15 are the largest that f16 holds; 0 if `exact`.
         `softcap` is finite and not negative.
  }];
  let arguments = (ins Variadic<Tile_Tile>:$queries,
                       Arg<Variadic<Tile_View>, "", [MemRead]>:$keys,
                       Arg<Optional<Tile_IndexList>, "", [MemRead]>:$table,
                       Arg<Optional<Tile_IndexList>, "", [MemRead]>:$list,
                       Arg<Optional<Tile_View>, "", [MemRead]>:$values,
                       Arg<Optional<Tile_IndexList>, "", [MemRead]>:$value_table,
                       Arg<Optional<Tile_View>, "", [MemRead]>:$scales,
                       Index:$first, Index:$last, Index:$limit,
                       Optional<Tile_Tile>:$seen, Optional<Tile_Tile>:$behind,
                       Optional<Index>:$diagonal,
                       Arg<Optional<Tile_View>, "", [MemRead]>:$marks,
                       Variadic<Tile_Tile>:$start,
                       I64Attr:$block, I64Attr:$unit, F64Attr:$scale,
                       DefaultValuedAttr<F64Attr, "0.0">:$lag, UnitAttr:$exact,
                       DefaultValuedAttr<F64Attr, "0.0">:$softcap,
                       DefaultValuedAttr<I64Attr, "1">:$group);
  let results = (outs Tile_Tile:$reference, Tile_Tile:$sum, Tile_Tile:$output);
  let assemblyFormat = [{
    `queries` `(` $queries `:` type($queries) `)` `keys` `(` $keys `:` type($keys) `)`
    (`pages` `(` $table^ `:` type($table) `)`)? (`rows` `(` $list^ `:` type($list) `)`)?
    (`values` `(` $values^ `:` type($values) `)`)?
    (`value_pages` `(` $value_table^ `:` type($value_table) `)`)?
    (`scales` `(` $scales^ `:` type($scales) `)`)?
    `range` $first `to` $last `limit` $limit
    (`sees` `(` $seen^ `:` type($seen) `)`)? (`behind` `(` $behind^ `:` type($behind) `)`)?
    (`diagonal` $diagonal^)? (`marks` `(` $marks^ `:` type($marks) `)`)?
    (`start` `(` $start^ `:` type($start) `)`)?
    attr-dict `->` type($output)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The reference where no key has been seen: below every score that can occur, and
    /// finite, so that no (-inf) - (-inf) occurs (mla.md section 14).
    static constexpr double kStartReference = -1e30;
    /// The most that the reference may lag behind, in log2 units.
    static constexpr int64_t kMaxLag = 15;
    /// Keys of a word of marks.
    static constexpr int64_t kWordKeys = 32;

    bool isPaged() { return static_cast<bool>(getTable()); }
    /// Whether a list says which rows of the views are keys.
    bool isListed() { return static_cast<bool>(getList()); }
    ::mlir::RankedTensorType getOutputType() {
      return ::mlir::cast<::mlir::RankedTensorType>(getOutput().getType());
    }
    ::mlir::RankedTensorType getQueryType(unsigned term) {
      return ::mlir::cast<::mlir::RankedTensorType>(getQueries()[term].getType());
    }
    int64_t getRows() { return getOutputType().getDimSize(0); }
    int64_t getOutputWidth() { return getOutputType().getDimSize(1); }
    /// Columns of a term's tiles.
    int64_t getWidth(unsigned term) { return getQueryType(term).getDimSize(1); }
    /// The type that products are made of.
    ::mlir::Type getElementType() { return getQueryType(0).getElementType(); }
    /// The type in which a term's keys are stored.
    ::mlir::Type getStorageType(unsigned term) {
      return ::mlir::cast<::mlir::MemRefType>(getKeys()[term].getType()).getElementType();
    }
    /// Whether a term's keys are multiplied as they are stored.
    bool isPlain(unsigned term) { return getStorageType(term) == getElementType(); }
    /// Whether the views are parts of the rows that one tile of queries is multiplied with.
    bool hasParts() { return getQueries().size() == 1 && getKeys().size() > 1; }
    /// Whether the views are of pages, [pages, page_size, columns].
    bool areKeysInPages() {
      return ::mlir::cast<::mlir::MemRefType>(getKeys()[0].getType()).getRank() == 3;
    }
    /// Columns of a view of keys.
    int64_t getStoredWidth(unsigned view) {
      return ::mlir::cast<::mlir::MemRefType>(getKeys()[view].getType()).getShape().back();
    }
  }];
}

include "mla/Dialect/Tile/IR/TilePlanOps.td"
include "mla/Dialect/Tile/IR/TileSelectOps.td"

#endif // MLA_DIALECT_TILE_IR_TILEOPS_TD
