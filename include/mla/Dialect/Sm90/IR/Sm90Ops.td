//===- Sm90Ops.td - operations of the Hopper level -----------*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_SM90_IR_SM90OPS_TD
#define MLA_DIALECT_SM90_IR_SM90OPS_TD

include "mla/Dialect/Sm90/IR/Sm90Types.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Sm90_Op<string mnemonic, list<Trait> traits = []>
    : Op<Sm90_Dialect, mnemonic, traits>;

def Sm90_View : StridedMemRefOf<[AnyFloat, AnySignlessInteger]>;
def Sm90_IndexList : MemRefRankOf<[I32, I64], [1]>;

def Sm90_Tile2D : Type<
    CPred<"::mlir::sm90::isFragment($_self)">,
    "tensor with a #sm90.fragment encoding">;
def Sm90_Tile1D : Type<
    CPred<"::mlir::sm90::isRows($_self)">,
    "tensor with a #sm90.rows encoding">;
def Sm90_TilePartial : Type<
    CPred<"::mlir::sm90::isPartial($_self)">,
    "tensor with a #sm90.partial encoding">;
def Sm90_TileColumns : Type<
    CPred<"::mlir::sm90::isColumns($_self)">,
    "tensor with a #sm90.columns encoding">;
def Sm90_Tile : AnyTypeOf<[Sm90_Tile2D, Sm90_Tile1D, Sm90_TilePartial, Sm90_TileColumns]>;

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

def Sm90_KernelOp : Sm90_Op<"kernel", [
    IsolatedFromAbove, FunctionOpInterface, AutomaticAllocationScope]> {
  let summary = "the program of one CTA's warpgroups";
  let description = [{
    Arguments are those of the `tile.kernel` it comes from: `memref<?xT>` (flat
    global buffer, 16-byte aligned base), `index` or `f32`. A CTA has
    `128 · warpgroups` threads. `shared_bytes` is the dynamic shared memory of
    the launch, set by `sm90-allocate-shared-memory`.

    Example:
    ```mlir
    sm90.kernel @empty(%a: memref<?xbf16>, %n: index) attributes {warpgroups = 2 : i32} {
      sm90.return
    }
    ```

    (C1) every argument is `memref<?xT>`, `index` or `f32`; there are no results.
    (C2) the body is one block that ends in `sm90.return`.
    (C3) 1 ≤ warpgroups ≤ 8 (1024 threads).
    (C4) no fragment is split over more warpgroups than its role has, or outside
    of roles the kernel.
    (C5) `cluster`, the CTAs (along grid x) that share work, is 1, 2, 4, 8 or 16.
    (C6) roles do not overlap in warpgroups, and each lies within the kernel's.
    (C7) the registers of all roles are what the launch allocates at most, from which `setmaxnreg`
    takes: sum of 128 · count · registers ≤ threads · (65536 / threads, rounded down to 8). Roles
    without a budget count with the launch's.
    (C8) `shared_bytes` is 0 to 232448, what a CTA may use.
    (C9) `sm90.column_run` is 2, 4 or 8 (Layout.h).
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<FunctionType>:$function_type,
                       I32Attr:$warpgroups,
                       OptionalAttr<I64Attr>:$shared_bytes,
                       OptionalAttr<I32Attr>:$cluster,
                       OptionalAttr<StrAttr>:$sym_visibility,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region MaxSizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name,
                                 "::mlir::TypeRange":$argument_types,
                                 "int32_t":$warpgroups)>];
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    /// CTAs of a cluster, 1 without clusters.
    int64_t getClusterSize() { return getCluster().value_or(1); }
    int64_t getThreads() { return 128 * static_cast<int64_t>(getWarpgroups()); }
  }];
}

def Sm90_ReturnOp : Sm90_Op<"return", [Pure, Terminator, HasParent<"::mlir::sm90::KernelOp">]> {
  let summary = "ends a kernel";
  let assemblyFormat = "attr-dict";
}

def Sm90_ProgramIdOp : Sm90_Op<"program_id", [Pure]> {
  let summary = "position of this CTA in the grid (`%ctaid`)";
  let description = [{ (C1) `dim` is 0, 1 or 2. }];
  let arguments = (ins ConfinedAttr<I32Attr, [IntNonNegative, IntMaxValue<2>]>:$dim);
  let results = (outs Index:$result);
  let assemblyFormat = "$dim attr-dict";
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

def Sm90_AllocOp : Sm90_Op<"alloc"> {
  let summary = "a tile of the CTA's shared memory";
  let description = [{
    Its content is undefined. It is live from here to the last use of it or of
    a slice of it (for a use nested in a loop: to the end of that loop), and
    may share its place with tiles that are not live at the same time. An
    `alloc` inside a loop keeps nothing from one iteration to the next.

    `offset` (bytes from the start of the dynamic shared memory) is set by
    `sm90-allocate-shared-memory`.

    (C1) `offset`, where given, is not negative and a multiple of the alignment
    of the tile: 1024 bytes for swizzle128, 16 for linear.
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$offset);
  let results = (outs Res<Sm90_Smem, "", [MemAlloc]>:$result);
  let assemblyFormat = "(`offset` $offset^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Sm90_SliceOp : Sm90_Op<"slice", [Pure]> {
  let summary = "consecutive columns of a shared tile, without a copy";
  let description = [{
    The columns from `column` on, as many as the result has. Since a tile is
    stored panel by panel, the result is the same memory from panel
    `column / 64` on: its address is `source + column / 64 · panel bytes`.
    `V = K[:, 0:512]` of a cache row is such a slice.

    The result may be of another type of the same width: `sm90.order_runs` leaves f16 where bf16 was,
    and a role that did not make it takes it so.

    (C1) both tiles are swizzle128 with the same rows and width of elements.
    (C2) `column` is a multiple of 64 and `column + C(result) ≤ C(source)`.
  }];
  let arguments = (ins Sm90_Smem:$source,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$column);
  let results = (outs Sm90_Smem:$result);
  let assemblyFormat = "$source `[` $column `]` attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Sm90_CopyOp : Sm90_Op<"copy"> {
  let summary = "asynchronous copy of a dense tile from global to shared memory";
  let description = [{
    `target[i, j] = view[offsets[0] + i, offsets[1] + j]`, or 0 where an index
    is outside the view's sizes, for every row and column of the target's type; of a view of
    rank 3 rows are in groups (tile.load).
    Executed by all threads of the CTA; each copies its share. Reads nothing
    outside the view's sizes.

    The data are in shared memory, and visible to the issuing thread only, once
    a `sm90.copy_wait` that covers the copy's `sm90.copy_commit` has returned.

    `vector_bytes` says how much may be moved at once: 16, 8 or 4 promise that
    the columns are contiguous (stride 1) and that the address of every element
    `(i, j)` with `j · sizeof(T)` a multiple of `vector_bytes` is aligned to
    `vector_bytes` (then `cp.async` with zero fill; a vector that crosses the
    view's last column copies only the bytes inside and zeroes the rest). The
    value sizeof(T) promises nothing beyond natural alignment and any column
    stride: the copy is then made with plain loads and stores.

    (C1) view and target have rank 2 and the same element type; the view may have groups, whose
    size is static.
    (C2) `vector_bytes` is 4, 8, 16 or the size of an element.
    (C3) `vector_bytes` above the size of an element: column stride 1.
  }];
  let arguments = (ins Arg<Sm90_View, "", [MemRead]>:$view, Variadic<Index>:$offsets,
                       Arg<Sm90_Smem, "", [MemWrite]>:$target, I32Attr:$vector_bytes);
  let assemblyFormat = [{
    $view `[` $offsets `]` `to` $target `vector_bytes` $vector_bytes attr-dict
    `:` type($view) `,` type($target)
  }];
  let hasVerifier = 1;
}

def Sm90_CopyRowsOp : Sm90_Op<"copy_rows"> {
  let summary = "asynchronous copy of rows picked by an index list";
  let description = [{
    `target[i, j] = view[indices[first + i], column + j]`. Zero where
    `first + i` is outside the list (which is then not read), where the index is
    negative or not below the view's rows, and where the column is outside. Of pages, a view
    [pages, page_size, D], index n names the row `view[n / page_size, n % page_size]`. Completion and
    `vector_bytes` as in `sm90.copy`.

    (C1) the view has rank 2, or 3 with a static page_size, and the target's element type.
    (C2), (C3) as `sm90.copy`.
  }];
  let arguments = (ins Arg<Sm90_View, "", [MemRead]>:$view,
                       Arg<Sm90_IndexList, "", [MemRead]>:$indices,
                       Index:$first, Index:$column,
                       Arg<Sm90_Smem, "", [MemWrite]>:$target, I32Attr:$vector_bytes);
  let assemblyFormat = [{
    $view `[` $indices `at` $first `,` $column `]` `to` $target `vector_bytes` $vector_bytes
    attr-dict `:` type($view) `,` type($indices) `,` type($target)
  }];
  let hasVerifier = 1;
}

def Sm90_HasGapOp : Sm90_Op<"has_gap"> {
  let summary = "whether a block of a list has an entry that names no row";
  let description = [{
    Whether for some i below `block` there is no entry `first + i`, or
    `list[first + i]`, as an unsigned number, is not below `rows`. Entries outside
    of the list are not read.

    Each warp reads all of the block, `block / 32` entries a lane, and votes
    (`vote.any`), so all threads get the same result: what depends on it may be
    anything. A mask of the block that each thread makes for its own columns reads
    a quarter of the entries in each thread, and is for blocks with gaps only.

    (C1) `block` is a positive multiple of 32.
  }];
  let arguments = (ins Arg<MemRefRankOf<[I32], [1]>, "", [MemRead]>:$list, Index:$first,
                       I64Attr:$block, I32:$rows);
  let results = (outs I1:$result);
  let assemblyFormat = [{
    $list `[` $first `for` $block `]` `below` $rows attr-dict `:` type($list)
  }];
  let hasVerifier = 1;
}

def Sm90_CopyPagedOp : Sm90_Op<"copy_paged"> {
  let summary = "asynchronous copy of one request's rows through its block table";
  let description = [{
    With `page_size = pool.shape[1]` and `t = token + i`:
    `target[i, j] = pool[table[t / page_size], t % page_size, column + j]` where
    `t < limit` and the column is inside, else 0. Entries of the table for
    tokens at or above `limit` are never read, nor is the pool there. Addresses
    are 64-bit. Completion and `vector_bytes` as in `sm90.copy`.

    (C1) the pool is [pages, page_size, D] with static page_size and the
    target's element type.
    (C2), (C3) as `sm90.copy`.
  }];
  let arguments = (ins Arg<Sm90_View, "", [MemRead]>:$pool,
                       Arg<Sm90_IndexList, "", [MemRead]>:$table,
                       Index:$token, Index:$column, Index:$limit,
                       Arg<Sm90_Smem, "", [MemWrite]>:$target, I32Attr:$vector_bytes);
  let assemblyFormat = [{
    $pool `[` $table `at` $token `,` $column `]` `limit` $limit `to` $target
    `vector_bytes` $vector_bytes attr-dict `:` type($pool) `,` type($table) `,` type($target)
  }];
  let hasVerifier = 1;
}

def Sm90_CopyCommitOp : Sm90_Op<"copy_commit"> {
  let summary = "closes a group of this thread's copies (`cp.async.commit_group`)";
  let assemblyFormat = "attr-dict";
}

def Sm90_CopyWaitOp : Sm90_Op<"copy_wait"> {
  let summary = "waits until at most `pending` groups of copies are in flight (`cp.async.wait_group`)";
  let description = [{
    Makes the completed copies visible to the executing thread; other threads
    need a `sm90.barrier` after it, wgmma a `sm90.proxy_fence` between the two.
  }];
  let arguments = (ins ConfinedAttr<I32Attr, [IntNonNegative]>:$pending);
  let assemblyFormat = "$pending attr-dict";
}

def Sm90_StoreSharedOp : Sm90_Op<"store_shared"> {
  let summary = "writes a fragment to a shared tile";
  let description = [{
    `target[i, j] = value[i, j]`, by plain or `stmatrix` stores (the generic
    proxy). Part g of the columns is written by warpgroup g, g < column_split;
    other warpgroups write nothing. With `transposed`, `target[j, i] =
    value[i, j]` (`stmatrix.trans`). With `column`, a fragment goes to the target's columns
    from there on. A row or column vector goes to a linear tile of one
    row, `target[0, i] = value[i]`; of the warps that all hold a column vector the first writes it.

    (C1) a fragment: value and target have the same shape (reversed if
    `transposed`) and element type, and the target is swizzle128.
    (C2) a vector of N elements: the target is linear, [1, N], of the same element type,
    and `transposed` is not set; a column vector stands in a role of one warpgroup.
    (C3) `transposed`: column_split is 1.
    (C4) `column` is a multiple of 16 and not with `transposed`; the fragment, then of
    any number of columns, ends within the target.
  }];
  let arguments = (ins AnyTypeOf<[Sm90_Tile2D, Sm90_Tile1D, Sm90_TileColumns]>:$value,
                       Arg<Sm90_Smem, "", [MemWrite]>:$target, UnitAttr:$transposed,
                       OptionalAttr<I64Attr>:$column);
  let assemblyFormat = [{
    $value `,` $target (`transposed` $transposed^)? (`column` $column^)? attr-dict
    `:` type($value) `,` type($target)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Synchronisation
//===----------------------------------------------------------------------===//

def Sm90_BarrierOp : Sm90_Op<"barrier"> {
  let summary = "all threads of the CTA, or of the enclosing role, meet (`bar.sync`)";
  let description = [{
    Inside a `sm90.role` the role's threads meet, at a named barrier of its own.

    Memory accesses of any thread before it are visible to all threads after
    it, within the generic proxy. Nothing may be moved across it.
  }];
  let assemblyFormat = "attr-dict";
}

def Sm90_ProxyFenceOp : Sm90_Op<"proxy_fence"> {
  let summary = "orders this thread's shared-memory writes before wgmma reads (`fence.proxy.async.shared::cta`)";
  let description = [{
    wgmma reads shared memory through the async proxy, stores and `cp.async`
    write it through the generic proxy. The writing thread executes the fence
    after its writes (for copies: after `sm90.copy_wait`) and before the barrier
    at which the readers learn that the data are there.
    `sm90-insert-proxy-fences` inserts it.
  }];
  let assemblyFormat = "attr-dict";
}

//===----------------------------------------------------------------------===//
// Tensor cores
//===----------------------------------------------------------------------===//

def Sm90_WgmmaFenceOp : Sm90_Op<"wgmma_fence"> {
  let summary = "orders register accesses before the next wgmma (`wgmma.fence.sync.aligned`)";
  let description = [{
    Stands before the first `sm90.wgmma` of each group, and where registers were
    written or an mbarrier was waited for within one;
    `sm90-place-wgmma-fences` puts it there.
  }];
  let assemblyFormat = "attr-dict";
}

def Sm90_WgmmaOp : Sm90_Op<"wgmma", [AllTypesMatch<["acc", "result"]>]> {
  let summary = "asynchronous matrix product of shared tiles";
  let description = [{
    `result = acc + lhs · rhs` with lhs [64, K] and rhs [K, N], or rhs stored
    [N, K] when `transpose_rhs` is set, or lhs stored [K, 64] when
    `transpose_lhs` is. Becomes K/16 instructions `wgmma.mma_async.m64n(N/S)k16`, of codes K/32 of k32,
    S being the column split of the accumulator: warpgroup g (of its role)
    computes the columns from `(g mod S) · N/S` on, so it starts at that row
    (`transpose_rhs`) or at that column's panel of rhs. Descriptors: see
    `!sm90.smem`. lhs is a shared tile, or a fragment (the accumulator's layout is
    that of a register operand: 16 columns are four registers of two elements).

    An accumulator that is a constant of zeros is not read.

    Asynchronous: `result` and the registers of `acc` and of a fragment lhs may
    only be used by further `sm90.wgmma` until a `sm90.wgmma_wait` has taken the
    accumulator; shared lhs and rhs must not be written before that wait.

    (C1) lhs and rhs have one element type, bf16, f16 or f8E4M3FN; shared tiles are
    swizzle128. Codes are both shared, with `transpose_rhs` and without `transpose_lhs`.
    (C2) the accumulator is a fragment of f32, [64, N]; contraction widths agree.
    (C3) K is a multiple of 16, of codes of 32, and N/S of 8 and at most 256.
    (C4) S > 1 without `transpose_rhs`: N/S is a multiple of 64 (whole panels).
    (C5) a fragment lhs has column_split 1 and no `transpose_lhs`.
  }];
  let arguments = (ins Arg<AnyTypeOf<[Sm90_Smem, Sm90_Tile2D]>, "", [MemRead]>:$lhs,
                       Arg<Sm90_Smem, "", [MemRead]>:$rhs,
                       Sm90_Tile2D:$acc, UnitAttr:$transpose_lhs, UnitAttr:$transpose_rhs);
  let results = (outs Sm90_Tile2D:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs `,` $acc (`transpose_lhs` $transpose_lhs^)? (`transpose_rhs` $transpose_rhs^)?
    attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Contraction width K.
    int64_t getDepth();
  }];
}

def Sm90_WgmmaCommitOp : Sm90_Op<"wgmma_commit"> {
  let summary = "closes a group of wgmma (`wgmma.commit_group.sync.aligned`)";
  let assemblyFormat = "attr-dict";
}

def Sm90_WgmmaWaitOp : Sm90_Op<"wgmma_wait", [AllTypesMatch<["accumulators", "results"]>]> {
  let summary = "waits until at most `pending` groups of wgmma are in flight";
  let description = [{
    The accumulators pass through, so that every later use of them depends on
    the wait (the PTX instruction names no registers). All accumulators of the
    groups waited for must be listed; one that later groups go on with (a group in
    the middle of a chain) is listed at the chain's last wait.

    (C1) as many results as accumulators, of the same types.
  }];
  let arguments = (ins ConfinedAttr<I32Attr, [IntNonNegative]>:$pending,
                       Variadic<Sm90_Tile2D>:$accumulators);
  let results = (outs Variadic<Sm90_Tile2D>:$results);
  let assemblyFormat = "$pending (`,` $accumulators^ `:` type($accumulators))? attr-dict";
}

//===----------------------------------------------------------------------===//
// Fragments and global memory
//===----------------------------------------------------------------------===//

def Sm90_LoadOp : Sm90_Op<"load"> {
  let summary = "loads a dense tile from global memory into registers";
  let description = [{
    `result[i, j] = view[offsets[0] + i, offsets[1] + j]`, or 0 where an index is
    outside the view's sizes; rank 1 accordingly. Each thread loads the elements
    it holds. Any strides, 0 included. A view with one dimension more has rows in groups (tile.load).

    `paired` promises for this and the following ops that an element in an even
    column of the tile and its right neighbour are adjacent in memory, aligned
    together to two elements, and both inside or both outside the view, so that
    one access may move both.

    (C1) number of offsets = result rank; the view has as many dimensions, or one more, of
    which the second is static; same element type.
    (C2) `paired`: rank 2 and column stride 1.
  }];
  let arguments = (ins Arg<Sm90_View, "", [MemRead]>:$view, Variadic<Index>:$offsets,
                       UnitAttr:$paired);
  let results = (outs Sm90_Tile:$result);
  let assemblyFormat = [{
    $view `[` $offsets `]` (`paired` $paired^)? attr-dict `:` type($view) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Sm90_LoadRowsOp : Sm90_Op<"load_rows"> {
  let summary = "gathers rows by an index list in memory into registers";
  let description = [{
    Meaning as `sm90.copy_rows`, `paired` as `sm90.load`.

    (C1) the view has rank 2, or 3 with a static page_size, and the result's element type.
    (C2) `paired`: column stride 1.
  }];
  let arguments = (ins Arg<Sm90_View, "", [MemRead]>:$view,
                       Arg<Sm90_IndexList, "", [MemRead]>:$indices,
                       Index:$first, Index:$column, UnitAttr:$paired);
  let results = (outs Sm90_Tile2D:$result);
  let assemblyFormat = [{
    $view `[` $indices `at` $first `,` $column `]` (`paired` $paired^)? attr-dict
    `:` type($view) `,` type($indices) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Sm90_LoadPagedOp : Sm90_Op<"load_paged"> {
  let summary = "loads rows of one request through its block table into registers";
  let description = [{
    Meaning as `sm90.copy_paged`, `paired` as `sm90.load`.

    (C1) the pool is [pages, page_size, D] with static page_size; the result has
    its element type.
    (C2) `paired`: column stride 1.
  }];
  let arguments = (ins Arg<Sm90_View, "", [MemRead]>:$pool,
                       Arg<Sm90_IndexList, "", [MemRead]>:$table,
                       Index:$token, Index:$column, Index:$limit, UnitAttr:$paired);
  let results = (outs Sm90_Tile2D:$result);
  let assemblyFormat = [{
    $pool `[` $table `at` $token `,` $column `]` `limit` $limit (`paired` $paired^)? attr-dict
    `:` type($pool) `,` type($table) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Sm90_LoadElementsOp : Sm90_Op<"load_elements"> {
  let summary = "gathers single elements by computed indices into registers";
  let description = [{
    Meaning as `tile.load_elements`: `result[i, j] = view[indices_0[i, j], …]`, or 0
    where an index is outside. Each thread loads the elements whose indices it holds.

    (C1) as many index tiles as the view has dimensions, i32, of the result's shape
    and encoding.
    (C2) view and result have the same element type.
  }];
  let arguments = (ins Arg<Sm90_View, "", [MemRead]>:$view, Variadic<Sm90_Tile>:$indices);
  let results = (outs Sm90_Tile:$result);
  let assemblyFormat = [{
    $view `[` $indices `]` attr-dict
    `:` type($view) `,` type($indices) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Sm90_StoreOp : Sm90_Op<"store"> {
  let summary = "stores a fragment or a row vector to global memory";
  let description = [{
    `view[offsets[0] + i, offsets[1] + j] = value[i, j]`, dropping what is
    outside the view. Who writes: see the encodings; of `#sm90.columns` the lanes
    0 to 3 of warpgroup 0. `paired` as `sm90.load`. With `transposed`,
    `view[offsets[0] + j, offsets[1] + i] = value[i, j]`. Rows in groups: as `sm90.load`.

    (C1) number of offsets = tile rank; the view has as many dimensions, or one more, of
    which the second is static; same element type.
    (C2) `paired`: rank 2, column stride 1, not `transposed`.
    (C3) `transposed`: rank 2.
    (C4) the value is not `#sm90.partial`.
  }];
  let arguments = (ins Sm90_Tile:$value, Arg<Sm90_View, "", [MemWrite]>:$view,
                       Variadic<Index>:$offsets, UnitAttr:$paired, UnitAttr:$transposed);
  let assemblyFormat = [{
    $value `,` $view `[` $offsets `]` (`paired` $paired^)? (`transposed` $transposed^)? attr-dict
    `:` type($value) `,` type($view)
  }];
  let hasVerifier = 1;
}

def Sm90_LoadPairsOp : Sm90_Op<"load_pairs"> {
  let summary = "loads neighbouring elements from global memory as the same element of two tiles";
  let description = [{
    `first[i, j] = view[offsets[0] + i, offsets[1] + j]` and `second[i, j]` is the element behind it in
    memory, or both are 0 where an index is outside the view's sizes: pairs of channels that a
    rotary embedding rotates, interleaved. One access moves the pairs of a run of columns.

    ```
    memory   a0 b0 a1 b1 a2 b2 a3 b3      first  a0 a1 a2 a3      second  b0 b1 b2 b3
    ```

    The pairs of a run, `sm90.column_run` columns or those of a thread, are promised to be aligned
    together, and to be all inside or all outside the view.

    (C1) a view with column stride 2, of two dimensions or with rows in groups, and two offsets; its
    element type is that of the tiles.
    (C2) both tiles are fragments of one type.
  }];
  let arguments = (ins Arg<Sm90_View, "", [MemRead]>:$view, Variadic<Index>:$offsets);
  let results = (outs Sm90_Tile2D:$first, Sm90_Tile2D:$second);
  let assemblyFormat = [{
    $view `[` $offsets `]` attr-dict `:` type($view) `->` type($first) `,` type($second)
  }];
  let hasVerifier = 1;
}

def Sm90_StorePairsOp : Sm90_Op<"store_pairs"> {
  let summary = "stores the same element of two fragments as neighbours to global memory";
  let description = [{
    What `sm90.load_pairs` would load again, dropping pairs outside the view; the same promise.

    (C1), (C2) as `sm90.load_pairs`.
  }];
  let arguments = (ins Sm90_Tile2D:$first, Sm90_Tile2D:$second,
                       Arg<Sm90_View, "", [MemWrite]>:$view, Variadic<Index>:$offsets);
  let assemblyFormat = [{
    $first `,` $second `to` $view `[` $offsets `]` attr-dict
    `:` type($first) `,` type($second) `,` type($view)
  }];
  let hasVerifier = 1;
}

def Sm90_StoreSlotsOp : Sm90_Op<"store_slots"> {
  let summary = "scatters rows of a fragment into a paged pool by slot mapping";
  let description = [{
    With `page_size = pool.shape[1]` and `s = slots[first + i]`:
    `pool[s / page_size, s % page_size, column + j] = value[i, j]`. Rows whose
    `first + i` is outside the list (which is then not read), whose slot is
    negative or at least pages · page_size, and columns outside the pool's row
    are skipped. `paired` as `sm90.load`.

    (C1) the pool is [pages, page_size, D] with static page_size and the value's
    element type.
    (C2) `paired`: column stride 1.
  }];
  let arguments = (ins Sm90_Tile2D:$value, Arg<Sm90_View, "", [MemWrite]>:$pool,
                       Arg<Sm90_IndexList, "", [MemRead]>:$slots,
                       Index:$first, Index:$column, UnitAttr:$paired);
  let assemblyFormat = [{
    $value `,` $pool `[` $slots `at` $first `,` $column `]` (`paired` $paired^)? attr-dict
    `:` type($value) `,` type($pool) `,` type($slots)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Fragments
//===----------------------------------------------------------------------===//

def Sm90_ReduceKind : I32EnumAttr<"ReduceKind", "row reduction", [
    I32EnumAttrCase<"Max", 0, "max">, I32EnumAttrCase<"Sum", 1, "sum">]> {
  let cppNamespace = "::mlir::sm90";
  let genSpecializedAttr = 0;
}
def Sm90_ReduceKindAttr : EnumAttr<Sm90_Dialect, Sm90_ReduceKind, "reduce_kind">;

def Sm90_ReduceOp : Sm90_Op<"reduce", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "reduces each row, or each column, of a fragment";
  let description = [{
    Rows (`dim` 1): `result[i] = max_j source[i, j]` or `sum_j source[i, j]`; a NaN
    element makes the result NaN in both kinds. Each thread folds its columns in
    ascending order, then the four lanes of a quad exchange (`shfl.bfly` by 1 and
    2). To a `#sm90.partial` result the lanes do not exchange: `result[i, q]`
    folds the columns that lane q of the quad holds; from a partial source only
    they do.

    A source split over S > 1 warpgroups goes through `scratch` (f32, [S, 64],
    linear): warpgroups g < S write their part's result to row g, all threads
    (of the role) meet at a barrier *inside* the op, and every thread folds the S
    values in ascending order. So all threads see the same bits. The caller
    provides a barrier between any earlier use of the scratch's memory and the
    op, and between the op and any later write to it.

    Columns (`dim` 0): `result[j]` folds `source[:, j]`: a thread its two rows,
    then the eight lanes with the same l % 4 (`shfl.bfly` by 4, 8 and 16), then
    the four warps through `scratch` (f32, [4, N], linear) and a barrier inside
    the op as above.

    (C1) source and result are f32; dim 1: fragment to rows, fragment to partial
    or partial to rows; dim 0: fragment with column_split 1 to columns.
    (C2) `scratch` is given exactly for dim 0 or a split source, and has the
    shape above.
    (C3) a partial result: column_split 1.
    (C4) dim 0: inside a role of one warpgroup, or a kernel of one.
  }];
  let arguments = (ins Sm90_ReduceKindAttr:$kind,
                       AnyTypeOf<[Sm90_Tile2D, Sm90_TilePartial]>:$source,
                       Optional<Sm90_Smem>:$scratch,
                       DefaultValuedAttr<ConfinedAttr<I32Attr, [IntNonNegative, IntMaxValue<1>]>,
                                         "1">:$dim);
  let results = (outs AnyTypeOf<[Sm90_Tile1D, Sm90_TilePartial, Sm90_TileColumns]>:$result);
  let assemblyFormat = [{
    $kind $source (`dim` $dim^)? (`scratch` $scratch^ `:` type($scratch))? attr-dict
    `:` type($source) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Sm90_SumGroupsOp : Sm90_Op<"sum_groups", [Pure, SameOperandsAndResultType]> {
  let summary = "sums of groups of neighbouring rows, in each of them";
  let description = [{
    `result[i] = sum_j source[j]` over the `size` rows with `j / size == i / size`. Up to 8 rows are
    in lanes of one warp (`shfl.bfly` by 4, 8 and 16); of 16 a thread adds its two rows up first.

    (C1) source is of f32. (C2) `size` is 2, 4, 8 or 16.
  }];
  let arguments = (ins Sm90_Tile1D:$source, I64Attr:$size);
  let results = (outs Sm90_Tile1D:$result);
  let assemblyFormat = "$source `of` $size attr-dict `:` type($source)";
  let hasVerifier = 1;
}

def Sm90_BroadcastOp : Sm90_Op<"broadcast", [Pure]> {
  let summary = "repeats a vector over the columns or rows of a fragment";
  let description = [{
    `result[i, j] = source[i]` of a row vector, `source[j]` of a column vector. No
    data moves: a thread's rows and columns are the same in all encodings.

    (C1) same element type.
    (C2) rows to a fragment or a partial, columns [N] to a fragment [64, N] with
    column_split 1.
  }];
  let arguments = (ins AnyTypeOf<[Sm90_Tile1D, Sm90_TileColumns]>:$source);
  let results = (outs AnyTypeOf<[Sm90_Tile2D, Sm90_TilePartial]>:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Sm90_TakeColumnsOp : Sm90_Op<"take_columns", [Pure]> {
  let summary = "columns of a fragment as a fragment of their own";
  let description = [{
    `result[i, j] = source[i, first + j]`. No data moves: a thread's registers of these columns
    follow each other. So one product may serve what is used apart.

    (C1) same element type. (C2) both have column_split 1. (C3) `first` is a multiple of 8, and the
    columns are the source's.

    Example:
    ```mlir
    %right = sm90.take_columns %both[64]
      : tensor<64x128xf32, #sm90.fragment<column_split = 1>> -> tensor<64x64xf32, #sm90.fragment<column_split = 1>>
    ```
  }];
  let arguments = (ins Sm90_Tile2D:$source, I64Attr:$first);
  let results = (outs Sm90_Tile2D:$result);
  let assemblyFormat = "$source `[` $first `]` attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Sm90_TestBitsOp : Sm90_Op<"test_bits", [Pure]> {
  let summary = "which bits of words are set, as a fragment";
  let description = [{
    `result[i, j] = bit j mod 32 of words_n[i]`, n = j / 32. No data moves: a thread has the words of its
    own rows.

    (C1) words are rows of i32; the result is a fragment of i1 with column_split 1 and 32 columns for
    each of them.
  }];
  let arguments = (ins Variadic<Sm90_Tile1D>:$words);
  let results = (outs Sm90_Tile2D:$result);
  let assemblyFormat = "$words attr-dict `:` type($words) `->` type($result)";
  let hasVerifier = 1;
}

def Sm90_IotaOp : Sm90_Op<"iota", [Pure]> {
  let summary = "position along one dimension of the whole tile";
  let description = [{
    `result[i, j] = i` (dim 0) or `j` (dim 1; counted over the whole tile, also
    where it is split); rows: `result[i] = i`.

    (C1) the result is of i32 and `dim` below its rank.
  }];
  let arguments = (ins ConfinedAttr<I32Attr, [IntNonNegative, IntMaxValue<1>]>:$dim);
  let results = (outs Sm90_Tile:$result);
  let assemblyFormat = "$dim attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Sm90_SplatOp : Sm90_Op<"splat", [Pure]> {
  let summary = "a tile whose elements are all one run-time scalar";
  let description = [{ (C1) the scalar's type is the tile's element type. }];
  let arguments = (ins AnyType:$source);
  let results = (outs Sm90_Tile:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

include "mla/Dialect/Sm90/IR/Sm90PipelineOps.td"
include "mla/Dialect/Sm90/IR/Sm90SelectOps.td"

#endif // MLA_DIALECT_SM90_IR_SM90OPS_TD
