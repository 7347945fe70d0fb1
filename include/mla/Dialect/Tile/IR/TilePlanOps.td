//===- TilePlanOps.td - the host's side of a step ----*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Plans, the sizes and buffers that they know, and launches. Included by TileOps.td.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_TILE_IR_TILEPLANOPS_TD
#define MLA_DIALECT_TILE_IR_TILEPLANOPS_TD

def Tile_PlanOp : Tile_Op<"plan", [IsolatedFromAbove, Symbol, SingleBlock,
                                   AutomaticAllocationScope]> {
  let summary = "the host side of one package function";
  let description = [{
    A straight program of `tile.dim`, `tile.buffer`, `tile.workspace`, `index`
    arithmetic, `scf.for` from 0 with step 1, `scf.if` without results,
    `tile.launch`, and at most one `tile.work` and one `tile.shared_prefix`. It is serialised into the package
    as data.

    `max_query_len` is the largest query length of one request that the
    function accepts; 0 means any.

    Example:
    ```mlir
    tile.plan @decode max_query_len 1 {
      %t = tile.dim "num_tokens"
      %hidden = tile.buffer input "hidden" : memref<?xbf16>
      %out = tile.buffer output "output" : memref<?xbf16>
      %c1 = arith.constant 1 : index
      %c64 = arith.constant 64 : index
      %gx = arith.ceildivsi %t, %c64 : index
      tile.launch @copy grid(%gx, %c1, %c1) args(%hidden, %out, %t)
          : memref<?xbf16>, memref<?xbf16>, index
      tile.return
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       DefaultValuedAttr<I64Attr, "0">:$max_query_len);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name (`max_query_len` $max_query_len^)? attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "int64_t":$max_query_len)>];
}

def Tile_DimOp : Tile_Op<"dim", [Pure]> {
  let summary = "a named run-time size of the step";
  let description = [{
    (C1) `name` is one of the sizes the runtime provides (runtime/schema/StepSizes.def;
    docs/design.md has them as a table).
    (C2) the plan has a `tile.work`, a `tile.shared_prefix` or a `tile.decode_threshold`
    if the size is one of its.
  }];
  let arguments = (ins StrAttr:$name);
  let results = (outs Index:$result);
  let assemblyFormat = "$name attr-dict";
  let hasVerifier = 1;
}

def Tile_BufferKind : I32EnumAttr<"BufferKind", "what a plan's buffer is bound to", [
    I32EnumAttrCase<"Input", 0, "input">, I32EnumAttrCase<"Output", 1, "output">,
    I32EnumAttrCase<"Weight", 2, "weight">, I32EnumAttrCase<"Derived", 3, "derived">,
    I32EnumAttrCase<"Cache", 4, "cache">, I32EnumAttrCase<"Metadata", 5, "metadata">,
    I32EnumAttrCase<"RopeTable", 6, "rope_table">,
    I32EnumAttrCase<"CacheScale", 7, "cache_scale">]> {
  let cppNamespace = "::mlir::tile";
  let genSpecializedAttr = 0;
}
def Tile_BufferKindAttr : EnumAttr<Tile_Dialect, Tile_BufferKind, "buffer_kind">;

def Tile_BufferOp : Tile_Op<"buffer", [Pure]> {
  let summary = "a named buffer bound by the runtime";
  let description = [{
    Kinds and names are those of the package (runtime/schema/package.fbs).
    Metadata buffers the runtime fills before a step (spec: mla.md sections 9 and 11).
    A pool whose rows mix element types is several cache buffers, one for each type.
    `cache_scale` is f32 [1], the scale of a layer's rows (paged-cache.md section 3), or has one for
    each of their fields.
    `shape`, where given, is the tensor's static shape (weights, derived). `elements` is how
    many the plan may touch of what the caller binds (inputs, outputs): the runtime refuses less.

    (C1) the name of metadata is one that the runtime provides
    (runtime/schema/StepSizes.def; docs/design.md has them as a table).
    (C2) its elements have the list's type.
    (C3) the plan has a `tile.work`, a `tile.shared_prefix` or a `tile.decode_threshold`
    if the metadata is one of its.
    (C4) `elements` is said of inputs and outputs only.
  }];
  let arguments = (ins Tile_BufferKindAttr:$kind, StrAttr:$name,
                       OptionalAttr<DenseI64ArrayAttr>:$shape, Optional<Index>:$elements);
  let results = (outs Tile_Buffer:$result);
  let assemblyFormat =
      "$kind $name (`shape` $shape^)? (`elements` $elements^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Tile_WorkspaceOp : Tile_Op<"workspace", [MemoryEffects<[MemAlloc]>]> {
  let summary = "a buffer of the function's workspace";
  let description = [{
    Lives from its definition to its last use. Its content is undefined
    (poisoned in tests) until a launch writes it. `tile-plan-workspace` assigns
    `byte_offset` (expression form: the package writer sums the sizes of the
    buffers before it, each rounded up to 256 bytes).
  }];
  let arguments = (ins Index:$elements);
  let results = (outs Tile_Buffer:$result);
  let assemblyFormat = "$elements attr-dict `:` type($result)";
}

def Tile_WorkOp : Tile_Op<"work", [HasParent<"::mlir::tile::PlanOp">]> {
  let summary = "asks the runtime to partition the step's attention";
  let description = [{
    The keys of every request with queries are cut into *blocks* of
    `keys_per_block`, those of a `window` > 0 from the first key that the request's first
    query sees: its own and the window - 1 before it; a *piece* is a run of blocks of one
    request and belongs to one of

        num_parts <= max(1, num_sms / tiles)    (but see below)
        tiles = runs_per_token · ceil(max_query_len · rows_per_token / runs_per_token / rows_per_tile)

    parts, which work side by side; parts behind the last piece do not count. Where whole requests in more parts, up to those of a
    batch of single queries, are done earlier than any cut (75 tiles on 132 multiprocessors: each takes the next program when
    it is done with one), there are so many parts, and nothing is cut. The rows of a token
    are `runs_per_token` runs (1 unless given), each with tiles of its own. A piece
    costs its blocks + `item_cost`; that any request is in several pieces costs
    `merge_cost` once, and each token of a partial `partial_cost` (all in blocks; the partials of all parts share the
    way to the L2 cache). The runtime takes the cheapest of leaving requests whole
    (the longest first, to the part with the least work), of cutting them in
    request order under a load per part (the smallest that fits, or a larger one
    with fewer partials), and of cutting only those longer than a part's share, into equal
    pieces, which are then given away like whole requests. With `fixed_blocks` > 0, costs do not matter:
    every request is cut at multiples of `fixed_blocks` blocks, by a rule that
    looks at nothing but the request, so that its result does not depend on the
    rest of the batch.

    | dim | meaning |
    |---|---|
    | num_parts | see above |
    | num_partials | pieces of requests in several pieces |
    | partial_tokens | Σ query_len over these pieces: rows of partials per head |
    | num_merges | requests in several pieces |
    | num_merge_programs | programs that merge: at most one for each unit, and `merge_programs` on each of num_sms |

    | metadata, i32 | per row |
    |---|---|
    | work_starts [num_parts + 1] | first piece of the part in `work_items` |
    | work_items [n, 8] | request, first block, blocks (≥ 1), seq_len, first token, query_len, partial, 0 |
    | merge_items [num_merges, 6] | first token, query_len, partial of the first piece, pieces, form, tokens from a piece's partial to the next's |
    | merge_starts [num_merge_programs, 4] | first merge, its first unit, last merge, its end unit; last merge −1: nothing |

    `partial` is −1 for a whole request, else the piece's first token in a buffer
    of `partial_tokens`; pieces of one request follow each other in it. `seq_len` is what the
    piece was planned for; kernels read the metadata `seq_lens`, which may say less: a piece
    behind the request's end is an empty partial. A request
    with queries and no keys has one block; one without queries has no piece.

    **Merging.** A request's pieces are merged in the form that its own number of pieces
    selects: the first of `merge_forms` whose number of pieces is not exceeded. Without
    `fixed_blocks` the first form may stand in for the second, where that is cheaper for all
    together: it takes more than its number of pieces in turns. A form is
    (most pieces, rows of a unit, units side by side in the columns): a request of R =
    query_len · rows_per_token rows has ceil(R / rows) · columns *units*, the columns of
    one row after the other. Each program goes over a run of units in the order of
    `merge_items`; the runs cost about the same.

    Example:
    ```mlir
    tile.work keys_per_block 64 rows_per_token 128 rows_per_tile 64 item_cost 5.0 merge_cost 2.0
        merge_forms [4, 64, 16, 1024, 1, 2] merge_programs 2
    ```
    Source: mla.md section 13.

    (C1) `keys_per_block`, `rows_per_token` and `rows_per_tile` are positive.
    (C2) `item_cost`, `merge_cost` and `partial_cost` are finite and not negative.
    (C3) `fixed_blocks` and `window` are not negative.
    (C4) a plan has at most one.
    (C5) `merge_forms` are one to three triples of positive numbers, in ascending order of
         pieces; `merge_programs` is positive. Both are there, or neither: nothing is merged.
    (C6) `runs_per_token` is positive and divides `rows_per_token`.
  }];
  let arguments = (ins I64Attr:$keys_per_block, I64Attr:$rows_per_token, I64Attr:$rows_per_tile,
                       F64Attr:$item_cost, F64Attr:$merge_cost,
                       DefaultValuedAttr<F64Attr, "0.0">:$partial_cost,
                       DefaultValuedAttr<I64Attr, "0">:$fixed_blocks,
                       DefaultValuedAttr<I64Attr, "0">:$window,
                       OptionalAttr<DenseI64ArrayAttr>:$merge_forms,
                       OptionalAttr<I64Attr>:$merge_programs,
                       DefaultValuedAttr<I64Attr, "1">:$runs_per_token);
  let assemblyFormat = [{
    `keys_per_block` $keys_per_block `rows_per_token` $rows_per_token
    `rows_per_tile` $rows_per_tile (`runs_per_token` $runs_per_token^)? `item_cost` $item_cost `merge_cost` $merge_cost
    (`partial_cost` $partial_cost^)? (`fixed_blocks` $fixed_blocks^)? (`window` $window^)?
    (`merge_forms` $merge_forms^ `merge_programs` $merge_programs)? attr-dict
  }];
  let hasVerifier = 1;
}

def Tile_SharedPrefixOp : Tile_Op<"shared_prefix", [HasParent<"::mlir::tile::PlanOp">]> {
  let summary = "asks the runtime to plan a prefix that all requests share apart";
  let description = [{
    The runtime counts num_common_tokens: those of the first pages that all requests (all
    decodes, if the plan splits its batch) have in common and that are full of cached
    tokens in each. Of these, `tokens` are planned apart: `tile.work` then cuts only what
    requests have behind them, and the prefix is gathered in chunks of its own. A padded
    step, and an engine without a workspace for chunks, shares nothing.

    `tokens` is evaluated before chunks and work are planned, whose dims are 0 then, first
    with an upper bound of num_common_tokens: where that gives 0, nobody looks at pages.

    | dim | meaning |
    |---|---|
    | num_common_tokens | see above |
    | num_shared_tokens | `tokens`: at most num_common_tokens, whole blocks of a `tile.work` |
    | num_shared_chunks, shared_chunk_capacity, shared_chunk_tokens | chunks of the prefix, tokens of a whole one, tokens of the largest |

    | metadata, i32 | |
    |---|---|
    | shared_query_start_loc [2] | 0, and the rows of the requests |
    | shared_chunk_cu_seq_lens [num_shared_chunks, 2] | 0, and the tokens of the chunk |

    The prefix's pages are in the first row of block_table.

    Example:
    ```mlir
    %common = tile.dim "num_common_tokens"
    tile.shared_prefix %common
    ```

    (C1) `tokens` is computed in the plan's own block. (C2) a plan has at most one.
  }];
  let arguments = (ins Index:$tokens);
  let assemblyFormat = "$tokens attr-dict";
  let hasVerifier = 1;
}

def Tile_PromptsOp : Tile_Op<"prompts", [HasParent<"::mlir::tile::PlanOp">]> {
  let summary = "asks the runtime to leave prompts to kernels of their own";
  let description = [{
    Prompts are the requests of more than `above` new tokens. Where `pays`, `tile.work` is planned
    for the other requests alone: launches on the condition num_prompts > 0 compute the rows of
    prompts, and of no other request. A step of a shape or of bounds has none.

    `pays` is evaluated before work is planned, with the dims below as if prompts were apart, and
    only if there are any.

    | dim | meaning |
    |---|---|
    | num_prompts | prompts that are apart |
    | num_prompt_tokens | their new tokens |
    | num_prompt_keys | their keys, new tokens among them; 0 where these are more than the engine's workspace_tokens |
    | max_piece_query_len | new tokens of the longest query of other requests |
    | num_prompt_parts | parts of the prompts, see below; 0 for `pays` |

    | metadata, i32 | |
    |---|---|
    | prompt_requests [num_prompts] | which requests they are, in order |
    | prompt_key_loc [num_prompts + 1] | the first key of each among those of all prompts, and the end |
    | prompt_parts [num_prompt_parts, 8] | request, first token, tokens, position of the first among the request's keys, first key, end key, the request's first key among those of all prompts, partial |

    **Parts.** A part is a run of a prompt's keys and at most `tokens_per_item` new tokens that see any of them: of
    those from the first key's own on, up to the last whose `window` (0: all) begins in the run. `partial` is -1
    where a prompt's keys are not cut, else the part's first token in the buffers of partials (`tile.work`), whose
    merges join those of each token. A part is `items_per_token` items, one for some heads each. Keys are
    cut at multiples of `keys_per_block` where that balances all items better
    over the machine, by what they take beside their blocks: `item_cost` each, and of what is cut
    `merge_cost`, and `partial_cost` for each token of a partial. The longest parts come first.

    Example: those that are a full tile.
    ```mlir
    %tokens = tile.dim "num_prompt_tokens"
    %pays = arith.cmpi sgt, %tokens, %c1024 : index
    tile.prompts %pays above 128 items_per_token 8 tokens_per_item 16 keys_per_block 128
        item_cost 1.0 merge_cost 2.0 partial_cost 0.001
    ```

    (C1) `pays` is computed in the plan's own block. (C2) a plan has at most one, and a `tile.work`,
    and splits its batch not otherwise. (C3) `above` is at least 0 and below 2^32.
    (C4) items, tokens and keys are positive and below 2^32, `window` is not negative; costs are finite and not negative.
  }];
  let arguments = (ins I1:$pays, I64Attr:$above, I64Attr:$items_per_token, I64Attr:$tokens_per_item,
                       I64Attr:$keys_per_block, F64Attr:$item_cost, F64Attr:$merge_cost,
                       F64Attr:$partial_cost, DefaultValuedAttr<I64Attr, "0">:$window);
  let assemblyFormat = [{
    $pays `above` $above `items_per_token` $items_per_token `tokens_per_item` $tokens_per_item
    `keys_per_block` $keys_per_block `item_cost` $item_cost `merge_cost` $merge_cost
    `partial_cost` $partial_cost (`window` $window^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Tile_LaunchOp : Tile_Op<"launch", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "launches a kernel over a grid";
  let description = [{
    Launches of one plan run in order; each sees all writes of those before.
    A grid dimension of 0 skips the launch.

    A `dependent` launch may begin while the one before still runs (programmatic
    dependent launch). Its kernel, marked `tile.waits_for_dependency`, waits before
    it touches memory that kernels write, or that kernels before may still read. The
    step's metadata is not among it: it is there before the step's first kernel
    begins and may be read before the wait. A kernel marked
    `tile.triggers_dependents` lets its dependent begin early.

    (C1) `kernel` names a `tile.kernel`; argument types match its signature.
    (C2) the kernel of a `dependent` launch has `tile.waits_for_dependency`.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Index:$grid_x, Index:$grid_y, Index:$grid_z,
                       Variadic<AnyType>:$args, UnitAttr:$dependent);
  let assemblyFormat = [{
    $kernel `grid` `(` $grid_x `,` $grid_y `,` $grid_z `)` (`dependent` $dependent^)?
    `args` `(` $args `)` attr-dict
    (`:` type($args)^)?
  }];
}

def Tile_ForkOp : Tile_Op<"fork", [SingleBlock, NoTerminator, NoRegionArguments,
                                   HasParent<"::mlir::tile::PlanOp">,
                                   DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "launches that may run beside others";
  let description = [{
    Where `condition` holds, the launches of `main` and of `side` run on two streams; both begin when all
    launches before have ended, and all behind see what both wrote. Else `main` runs, then `side`, on one stream.
    The results are the same to the bit, since neither side writes what the other touches.

    A stream has its launches in order. An event that each side waits for is not a launch, so the first launch of
    a side, and the one behind the fork, begin when what they wait for has ended.

    Example:
    ```mlir
    %few = arith.cmpi sle, %num_tokens, %c64 : index
    tile.fork if %few {
      tile.launch @project grid(%gx, %c1, %c1) args(%x, %w, %q) : memref<?xbf16>, memref<?xbf16>, memref<?xbf16>
    } beside {
      tile.launch @index grid(%gx, %c1, %c1) args(%x, %v, %k) : memref<?xbf16>, memref<?xbf16>, memref<?xbf16>
    }
    ```
    Source: v4.md section 13.

    (C1) a plan's own block holds it; both sides hold what a plan may, but no fork and no buffers that are named.
    (C2) no launch of a side writes a buffer that a launch of the other reads or writes: element types of one
    named buffer are one buffer. (C3) the first launch of a side is not `dependent`, nor the next one behind.
  }];
  let arguments = (ins I1:$condition);
  let regions = (region SizedRegion<1>:$main, SizedRegion<1>:$side);
  let assemblyFormat = "`if` $condition $main `beside` $side attr-dict";
  let hasRegionVerifier = 1;
}

#endif // MLA_DIALECT_TILE_IR_TILEPLANOPS_TD
