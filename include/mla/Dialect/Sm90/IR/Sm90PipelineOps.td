//===- Sm90PipelineOps.td - roles, rings and asynchronous copies -*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What warp-specialised kernels are made of. Included by Sm90Ops.td.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_SM90_IR_SM90PIPELINEOPS_TD
#define MLA_DIALECT_SM90_IR_SM90PIPELINEOPS_TD

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

def Sm90_EndOp : Sm90_Op<"end", [Pure, Terminator, ParentOneOf<["::mlir::sm90::RoleOp",
                                                               "::mlir::sm90::ElectOp"]>]> {
  let summary = "ends a role or an elected thread's part";
  let assemblyFormat = "attr-dict";
}

def Sm90_RoleOp : Sm90_Op<"role", [SingleBlockImplicitTerminator<"::mlir::sm90::EndOp">,
                                   HasParent<"::mlir::sm90::KernelOp">]> {
  let summary = "what the warpgroups [first, end) do";
  let description = [{
    The region is executed by all threads of the warpgroups `first` to `end - 1`,
    side by side with the other roles of the kernel; its warpgroups skip the
    other roles. `registers`, where given, is what each thread may use
    (`setmaxnreg`), and must hold for every thread of the role.

    Inside, column parts of fragments (`#sm90.fragment`), copies and barriers
    refer to the role's warpgroups, counted from `first`. A role reads values of
    the kernel's entry that are the same for all threads: scalars, views, shared
    tiles, rings, tensor maps; never fragments.

    (C1) 0 ≤ first < end.
    (C2) `registers` is a multiple of 8 from 24 to 240 (PTX `setmaxnreg`; 255 is
    the most a thread can have).
    (C3) no tensor from outside is used inside, constants excepted.
  }];
  let arguments = (ins StrAttr:$name, ConfinedAttr<I32Attr, [IntNonNegative]>:$first,
                       I32Attr:$end, OptionalAttr<I32Attr>:$registers);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $name `warpgroups` $first `to` $end (`registers` $registers^)? attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    int64_t getWarpgroups() { return static_cast<int64_t>(getEnd()) - getFirst(); }
  }];
}

def Sm90_ElectOp : Sm90_Op<"elect", [SingleBlockImplicitTerminator<"::mlir::sm90::EndOp">]> {
  let summary = "one thread of the role executes the region";
  let description = [{
    Thread 0 of the role (outside of roles: of the CTA) runs the region; the other
    threads of its warp wait at its end. What is inside arrives on barriers once.

    (C1) inside stand only scalar ops, scf, nested regions of these, and of this
    dialect: program_id, cluster_rank, acquire, await, expect, publish, release, stage ops, tma_load,
    tma_store, store_commit, store_wait, bulk_load, prefetch, wait_dependency.
  }];
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

def Sm90_WarpAnyOp : Sm90_Op<"warp_any", [Pure]> {
  let summary = "whether a condition holds for any row of the warp (`vote.any`)";
  let description = [{
    The result is the same in all threads of a warp, but may differ between warps:
    an `scf.if` on it holds element-wise ops on fragments only (no barrier, no
    wgmma, no ring, no store).
  }];
  let arguments = (ins Sm90_Tile1D:$condition);
  let results = (outs I1:$result);
  let assemblyFormat = "$condition attr-dict `:` type($condition)";
  let hasVerifier = 1;
}

def Sm90_RoleAnyOp : Sm90_Op<"role_any"> {
  let summary = "whether a condition holds for any element that the role holds (`barrier.red.or`)";
  let description = [{
    The role's threads meet, as at `sm90.barrier`, and all get the same result: what depends on it may
    be anything.

    (C1) a fragment of i1 with column_split 1.
    (C2) inside a role of one warpgroup.
  }];
  let arguments = (ins Sm90_Tile2D:$condition);
  let results = (outs I1:$result);
  let assemblyFormat = "$condition attr-dict `:` type($condition)";
  let hasVerifier = 1;
}

def Sm90_PinOp : Sm90_Op<"pin", [AllTypesMatch<["source", "result"]>]> {
  let summary = "keeps a fragment's computation before what follows";
  let description = [{
    The result is the source. Element-wise ops have no order of their own, so a
    compiler may move them behind an asynchronous product that was meant to run
    under them; what the source depends on stays before this op, and with it
    the registers that it reads are free for that product.

    (C1) the fragment is of f32.
  }];
  let arguments = (ins Sm90_Tile2D:$source);
  let results = (outs Sm90_Tile2D:$result);
  let assemblyFormat = "$source attr-dict `:` type($source)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Rings
//===----------------------------------------------------------------------===//

def Sm90_RingOp : Sm90_Op<"ring", [HasParent<"::mlir::sm90::KernelOp">]> {
  let summary = "a ring of stages and its barriers";
  let description = [{
    `full_count` arrivals (and all bytes expected) complete a full barrier,
    `empty_count` an empty one: an op inside `sm90.elect` arrives once, outside
    once per warp (4 per warpgroup) except `sm90.copy_publish`, once per thread.
    `empty_count` 0: nobody frees the stages (a signal whose turns something else
    keeps apart); such a ring has no empty barriers.

    `offset` of the tiles and `barrier_offset`, in bytes from the start of the
    dynamic shared memory, are set by `sm90-allocate-shared-memory`. The
    barriers are initialised before any role starts.

    (C1) full_count ≥ 1.
    (C2) the offsets, where given, are not negative and multiples of the tiles'
    alignment, and of 8.
  }];
  let arguments = (ins ConfinedAttr<I32Attr, [IntPositive]>:$full_count,
                       ConfinedAttr<I32Attr, [IntNonNegative]>:$empty_count,
                       OptionalAttr<I64Attr>:$offset, OptionalAttr<I64Attr>:$barrier_offset,
                       OptionalAttr<StrAttr>:$label);
  let results = (outs Res<Sm90_Ring, "", [MemAlloc]>:$result);
  let assemblyFormat = [{
    ($label^)? `full_count` $full_count `empty_count` $empty_count (`offset` $offset^)?
    (`barrier_offset` $barrier_offset^)? attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// mbarriers of the ring: stages · parts full ones, then the empty ones.
    int64_t getBarrierCount();
  }];
}

def Sm90_StageStartOp : Sm90_Op<"stage_start", [Pure]> {
  let summary = "the first stage of any ring";
  let results = (outs Sm90_Stage:$result);
  let assemblyFormat = "attr-dict";
}

def Sm90_StageNextOp : Sm90_Op<"stage_next", [Pure]> {
  let summary = "the stage after another: slot 0 of the other phase behind the last slot";
  let arguments = (ins Sm90_Stage:$stage, Sm90_Ring:$ring);
  let results = (outs Sm90_Stage:$result);
  let assemblyFormat = "$stage `of` $ring attr-dict `:` type($ring)";
}

def Sm90_StageTileOp : Sm90_Op<"stage_tile", [Pure]> {
  let summary = "a tile of a ring's stage";
  let description = [{
    (C1) the result is the type of the ring's tile `index`.
  }];
  let arguments = (ins Sm90_Ring:$ring, Sm90_Stage:$stage,
                       ConfinedAttr<I32Attr, [IntNonNegative]>:$index);
  let results = (outs Sm90_Smem:$result);
  let assemblyFormat = [{
    $ring `[` $stage `]` `tile` $index attr-dict `:` type($ring) `->` type($result)
  }];
  let hasVerifier = 1;
}

class Sm90_RingAccess<string mnemonic, dag more = (ins)> : Sm90_Op<mnemonic> {
  let arguments = !con((ins Sm90_Ring:$ring, Sm90_Stage:$stage), more);
}

def Sm90_AcquireOp : Sm90_RingAccess<"acquire", (ins UnitAttr:$keeps)> {
  let summary = "a producer waits until the stage is free";
  let description = [{
    Returns when every consumer has released the stage's previous use (at once
    for the first). Every executing thread waits.

    What the stage held is undefined behind it, but for `keeps`: elements that no
    copy writes again stay as they were. So zeros behind a head's columns, which
    the first copies wrote, are written once.

    (C1) the ring has empty barriers (empty_count > 0).
  }];
  let assemblyFormat = "$ring `[` $stage `]` (`keeps` $keeps^)? attr-dict `:` type($ring)";
  let hasVerifier = 1;
}

def Sm90_ExpectOp : Sm90_RingAccess<"expect", (ins I32Attr:$part,
                                               ConfinedAttr<I32Attr, [IntPositive]>:$bytes)> {
  let summary = "arrives on a full barrier and makes it wait for bytes (`arrive.expect_tx`)";
  let description = [{
    Stands before the copies that signal the barrier; `bytes` is their total.

    (C1) 0 ≤ part < parts of the ring.
    (C2) stands inside `sm90.elect`.
    (C3) bytes < 2^20 (the barrier's transaction count).
  }];
  let assemblyFormat = "$ring `[` $stage `]` `part` $part `bytes` $bytes attr-dict `:` type($ring)";
  let hasVerifier = 1;
}

def Sm90_PublishOp : Sm90_RingAccess<"publish", (ins I32Attr:$part, UnitAttr:$remote)> {
  let summary = "a producer's warps arrive on a full barrier";
  let description = [{
    What the executing warps wrote to shared memory with ordinary stores before
    is visible to whoever awaits the barrier (wgmma: after a `sm90.proxy_fence`
    before the publish).
    With `remote` the arrival goes to this ring's barrier in every CTA of the cluster, and shows
    what was written there (`sm90.park` with a rank): it releases at cluster scope, which costs a
    GPU-wide fence for each warp, so it is for the end of a tile and not for its steps.

    (C1) 0 ≤ part < parts of the ring.
    (C2) `remote`: the kernel has a cluster of more than 1.
  }];
  let assemblyFormat = [{
    $ring `[` $stage `]` `part` $part (`remote` $remote^)? attr-dict `:` type($ring)
  }];
  let hasVerifier = 1;
}

def Sm90_CopyPublishOp : Sm90_RingAccess<"copy_publish", (ins I32Attr:$part)> {
  let summary = "each thread arrives on a full barrier when its copies have landed";
  let description = [{
    `cp.async.mbarrier.arrive.noinc`: the arrival happens when all `sm90.copy*`
    issued by the thread before have completed. The data are the generic
    proxy's: consumers that read by wgmma execute a `sm90.proxy_fence` after
    their await.

    (C1) 0 ≤ part < parts of the ring.
  }];
  let assemblyFormat = "$ring `[` $stage `]` `part` $part attr-dict `:` type($ring)";
  let hasVerifier = 1;
}

def Sm90_AwaitOp : Sm90_RingAccess<"await", (ins I32Attr:$part, UnitAttr:$remote)> {
  let summary = "a consumer waits until a part of the stage is full";
  let description = [{
    With `remote` it sees what other CTAs of the cluster wrote to this one's shared memory and
    published with `remote` (it acquires at cluster scope).

    (C1) 0 ≤ part < parts of the ring.
    (C2) `remote`: the kernel has a cluster of more than 1.
  }];
  let assemblyFormat = [{
    $ring `[` $stage `]` `part` $part (`remote` $remote^)? attr-dict `:` type($ring)
  }];
  let hasVerifier = 1;
}

def Sm90_ReleaseOp : Sm90_RingAccess<"release", (ins UnitAttr:$remote)> {
  let summary = "a consumer's warps give the stage back";
  let description = [{
    The executing warps have finished reading: their wgmma have been waited for.
    With `remote` the arrival goes to this ring's barrier in every CTA of the
    cluster (in the plain remote form: an arrive that releases at cluster scope costs a
    GPU-wide fence each).

    (C1) the ring has empty barriers (empty_count > 0).
    (C2) `remote`: the kernel has a cluster of more than 1.
  }];
  let assemblyFormat = "$ring `[` $stage `]` (`remote` $remote^)? attr-dict `:` type($ring)";
  let hasVerifier = 1;
}

def Sm90_NamedBarrierOp : Sm90_Op<"named_barrier", []> {
  let summary = "some warps of the CTA meet, or only say that they were there (`bar.sync`, `bar.arrive`)";
  let description = [{
    `warps` warps take part in all; with `arrive` the executing ones do not wait.

    (C1) 8 ≤ id ≤ 15 (0 is the CTA's, 1 to 7 are the roles').
    (C2) 1 ≤ warps ≤ 32.
  }];
  let arguments = (ins ConfinedAttr<I32Attr, [IntMinValue<8>, IntMaxValue<15>]>:$id,
                       ConfinedAttr<I32Attr, [IntMinValue<1>, IntMaxValue<32>]>:$warps,
                       UnitAttr:$arrive);
  let assemblyFormat = "(`arrive` $arrive^)? $id `warps` $warps attr-dict";
}

//===----------------------------------------------------------------------===//
// Asynchronous copies
//===----------------------------------------------------------------------===//

def Sm90_TensorMapOp : Sm90_Op<"tensor_map", [Pure]> {
  let summary = "a TMA descriptor of a view, made by the host";
  let description = [{
    The launch encodes the descriptor from the kernel's arguments: 128-byte
    swizzle, zeros outside, L2 promotion of 128 bytes (256 costs a tenth of the
    DRAM bandwidth, docs/machine-h200.md). The view has rank 2 [rows, columns],
    rank 3 [pages, page_size, columns] or rank 4 [groups, runs, G, columns]; a box is `rows`
    rows (of one page; of one run, rows / G groups of G rows, or rows of one group) by the map's
    columns.

    (C1) the view is a kernel argument or a memref.reinterpret_cast of one, whose
    offset, sizes and strides are constants, `index` arguments, or an argument
    times a constant.
    (C2) innermost stride 1; the element type is the map's.
    (C3) rank 2, 3, or 4 with a static G that divides the map's rows or is a multiple, and boxes of
    one panel.
    (C4) boxes of several panels: the view's number of columns is constant and at
    least a box's.
    (C5) it stands in an `sm90.kernel`, at any depth: it becomes a parameter.
  }];
  let arguments = (ins Sm90_View:$view);
  let results = (outs Sm90_TensorMap:$result);
  let assemblyFormat = "$view attr-dict `:` type($view) `->` type($result)";
  let hasVerifier = 1;
}

def Sm90_TmaLoadOp : Sm90_Op<"tma_load"> {
  let summary = "asynchronous copy of a box of rows to a shared tile";
  let description = [{
    Copies the map's `rows` rows from the view's position `coordinates` (one
    index per dimension of the view, the last a column) to rows `row` and
    following of the target, for as many columns as the target has, box by box;
    a panel counts rows · 128 bytes, a part of one as many as it has. Outside the view
    zeros arrive. The bytes complete the full barrier of the ring's stage and part.
    `multicast`, a mask of cluster ranks, writes the same place of the shared
    memory, and completes the same barrier, in each of these CTAs.

    (C1) the target is swizzle128 of the map's element type.
    (C2) `row` is a multiple of 8 and row + rows ≤ rows of the target.
    (C3) 0 ≤ part < parts of the ring.
    (C4) stands inside `sm90.elect`.
    (C5) `multicast`: the kernel's cluster has every rank of the mask.
    (C6) boxes of several panels: rows and `row` are the target's and 0 (its panels
    follow each other as the box's do), the target's columns are whole boxes, and
    the coordinate of the column is a constant multiple of a panel's columns. Boxes of a
    part of a panel: the target has as many columns.
  }];
  let arguments = (ins Sm90_TensorMap:$map, Variadic<Index>:$coordinates,
                       Arg<Sm90_Smem, "", [MemWrite]>:$target,
                       Sm90_Ring:$ring, Sm90_Stage:$stage, I32Attr:$part,
                       DefaultValuedAttr<I64Attr, "0">:$row, OptionalAttr<I32Attr>:$multicast);
  let assemblyFormat = [{
    $map `[` $coordinates `]` `to` $target (`row` $row^)? `signals` $ring `[` $stage `]` `part` $part
    (`multicast` $multicast^)? attr-dict `:` type($map) `,` type($target) `,` type($ring)
  }];
  let hasVerifier = 1;
}

def Sm90_TmaStoreOp : Sm90_Op<"tma_store"> {
  let summary = "asynchronous copy of a shared tile to a box of a view";
  let description = [{
    Drops what lies outside the view. The tile may be overwritten after a
    `sm90.store_commit` and a `sm90.store_wait`; what ordinary stores wrote to it
    needs a `sm90.proxy_fence` and a barrier before.

    (C1) the source is swizzle128 of the map's element type and rows; its columns
    are whole boxes.
    (C2) stands inside `sm90.elect`.
  }];
  let arguments = (ins Arg<Sm90_Smem, "", [MemRead]>:$source,
                       Arg<Sm90_TensorMap, "the view", [MemWrite]>:$map,
                       Variadic<Index>:$coordinates);
  let assemblyFormat = [{
    $source `to` $map `[` $coordinates `]` attr-dict `:` type($source) `,` type($map)
  }];
  let hasVerifier = 1;
}

def Sm90_StoreCommitOp : Sm90_Op<"store_commit"> {
  let summary = "closes a group of this thread's bulk stores (`cp.async.bulk.commit_group`)";
  let assemblyFormat = "attr-dict";
}

def Sm90_StoreWaitOp : Sm90_Op<"store_wait"> {
  let summary = "waits until at most `pending` groups of bulk stores still read shared memory";
  let arguments = (ins ConfinedAttr<I32Attr, [IntNonNegative]>:$pending);
  let assemblyFormat = "$pending attr-dict";
}

def Sm90_BulkLoadOp : Sm90_Op<"bulk_load"> {
  let summary = "asynchronous copy of contiguous bytes to a linear shared tile";
  let description = [{
    `target = view[offset .. offset + R·C)` of a one-dimensional view with stride
    1 (`cp.async.bulk`); address and size are multiples of 16 bytes, and all of it
    lies inside the view. Completion as `sm90.tma_load`.

    (C1) the view has rank 1 and stride 1; the target is linear, of the view's
    element type, and takes a multiple of 16 bytes.
    (C2) 0 ≤ part < parts of the ring.
    (C3) stands inside `sm90.elect`.
  }];
  let arguments = (ins Arg<Sm90_View, "", [MemRead]>:$view, Index:$offset,
                       Arg<Sm90_Smem, "", [MemWrite]>:$target,
                       Sm90_Ring:$ring, Sm90_Stage:$stage, I32Attr:$part);
  let assemblyFormat = [{
    $view `[` $offset `]` `to` $target `signals` $ring `[` $stage `]` `part` $part attr-dict
    `:` type($view) `,` type($target) `,` type($ring)
  }];
  let hasVerifier = 1;
}

def Sm90_PrefetchOp : Sm90_Op<"prefetch"> {
  let summary = "asks the L2 cache for a row of a view (`cp.async.bulk.prefetch.L2`)";
  let description = [{
    `bytes` bytes from the element at `offsets` on, all inside the view's memory.
    A hint: nothing waits for it.

    (C1) bytes is a positive multiple of 16.
    (C2) as many offsets as the view has dimensions.
    (C3) stands inside `sm90.elect`.
  }];
  let arguments = (ins Sm90_View:$view, Variadic<Index>:$offsets,
                       ConfinedAttr<I32Attr, [IntPositive]>:$bytes);
  let assemblyFormat = "$view `[` $offsets `]` `bytes` $bytes attr-dict `:` type($view)";
  let hasVerifier = 1;
}

def Sm90_LoadSharedOp : Sm90_Op<"load_shared"> {
  let summary = "reads a shared tile into registers";
  let description = [{
    A fragment of a swizzle128 tile by `ldmatrix`, which is also the layout of a
    wgmma register operand, codes of 8 bits by pairs; a row or column vector of a linear tile of one
    row, `result[i] = source[0, i]`. With `column`, a fragment is the source's columns from
    there on, and a row vector that column of a linear tile with a row for each element.

    (C1) a fragment: same shape and element type, swizzle128, column_split 1,
    columns a multiple of 16.
    (C2) a row vector: the source is linear, [1, 64], or with `column` [64, N], of its element type;
    a column vector of N: linear, [1, N], of its element type, and no `column`.
    (C3) `column` is within the source, and of a fragment a multiple of 16; the fragment, then of any
    number of columns, ends within the source.
  }];
  let arguments = (ins Arg<Sm90_Smem, "", [MemRead]>:$source, OptionalAttr<I64Attr>:$column);
  let results = (outs AnyTypeOf<[Sm90_Tile2D, Sm90_Tile1D, Sm90_TileColumns]>:$result);
  let assemblyFormat = [{
    $source (`column` $column^)? attr-dict `:` type($source) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Sm90_ZeroRowsOp : Sm90_Op<"zero_rows"> {
  let summary = "writes zeros to the last rows of a shared tile";
  let description = [{
    `target[i, :] = 0` for i ≥ `first` (any integer), by ordinary stores of the
    role's threads. Rows beyond a request's end may hold NaN, which a weight of
    0 does not remove from a product (spec mla.md section 14).

    (C1) the target is swizzle128.
  }];
  let arguments = (ins Arg<Sm90_Smem, "", [MemWrite]>:$target, Index:$first);
  let assemblyFormat = "$target `from` $first attr-dict `:` type($target)";
  let hasVerifier = 1;
}

def Sm90_StoreStagedOp : Sm90_Op<"store_staged"> {
  let summary = "stores a fragment to global memory in whole rows, by way of a shared tile";
  let description = [{
    `view[offsets[0] + i, offsets[1] + j] = value[i, j]`, dropping rows outside the
    view. A fragment's lanes hold 4 or 8 bytes of eight rows; here each warp writes
    its sixteen rows to `scratch` and reads them back in 16-byte pieces, so that a
    store instruction covers whole cache lines. Warps use rows of `scratch` of their
    own: no barrier. What `scratch` holds afterwards is undefined.

    ```
    value [64, C]    | pass 0 | pass 1 |    a pass fills the rows of scratch
    scratch          | ====== |
    ```

    (C1) a fragment of 64 rows with column_split 1, of 2- or 4-byte elements.
    (C2) `scratch` is swizzle128 of 64 rows; its row bytes divide the value's.
    (C3) the view has rank 2, or rows in groups (`tile.load`), the value's element type, innermost
    stride 1 and a constant number of columns; offsets[1] is a constant, and all columns are inside.
    The address of every row's first element is a multiple of 16 bytes.
  }];
  let arguments = (ins Sm90_Tile2D:$value, Arg<Sm90_Smem, "", [MemWrite]>:$scratch,
                       Arg<Sm90_View, "", [MemWrite]>:$view, Variadic<Index>:$offsets);
  let assemblyFormat = [{
    $value `through` $scratch `to` $view `[` $offsets `]` attr-dict
    `:` type($value) `,` type($scratch) `,` type($view)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Clusters and dependent launch
//===----------------------------------------------------------------------===//

def Sm90_ClusterRankOp : Sm90_Op<"cluster_rank", [Pure]> {
  let summary = "rank of this CTA in its cluster (`%cluster_ctarank`)";
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict";
}

def Sm90_ClusterBarrierOp : Sm90_Op<"cluster_barrier"> {
  let summary = "all threads of the cluster meet (`barrier.cluster.arrive`, `.wait`)";
  let description = [{ (C1) the kernel has a cluster of more than 1. }];
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def Sm90_WaitDependencyOp : Sm90_Op<"wait_dependency"> {
  let summary = "waits until the kernels before have completed (`griddepcontrol.wait`)";
  let description = [{
    In a dependent launch nothing that earlier kernels wrote may be read, nor
    anything they read be written, before it. Otherwise it returns at once.
  }];
  let assemblyFormat = "attr-dict";
}

def Sm90_LaunchDependentsOp : Sm90_Op<"launch_dependents"> {
  let summary = "lets a dependent launch start (`griddepcontrol.launch_dependents`)";
  let description = [{
    The next kernel of the stream, if launched as dependent, may start once every
    CTA has executed this or ended.
  }];
  let assemblyFormat = "attr-dict";
}

#endif // MLA_DIALECT_SM90_IR_SM90PIPELINEOPS_TD
