//===- Passes.td - conversions between mlac's levels ---------*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_CONVERSION_PASSES
#define MLA_CONVERSION_PASSES

include "mlir/Pass/PassBase.td"

//===----------------------------------------------------------------------===//
// MlaToTile
//===----------------------------------------------------------------------===//

def ConvertMlaToTile : Pass<"convert-mla-to-tile", "::mlir::ModuleOp"> {
  let summary = "turns step functions into plans and block programs";
  let description = [{
    Replaces every step function (phase 4 of the `mla` dialect) by a `tile.plan`
    of the same name and adds the `tile.kernel`s that it launches. Equal kernels
    of a module exist once.

    Before:
    ```mlir
    func.func @step(%x: tensor<?x40xbf16> {mla.input = "hidden"},
                    %w: tensor<24x40xbf16> {mla.weight = "w"}, %batch: !mla.batch)
        -> (tensor<?x24xbf16> {mla.output = "output"}) {
      %y = mla.project %x, %w : tensor<?x40xbf16>, tensor<24x40xbf16> -> tensor<?x24xbf16>
      return %y : tensor<?x24xbf16>
    }
    ```
    After (sm90; the CPU has other tile shapes):
    ```mlir
    tile.plan @step {
      %x = tile.buffer input "hidden" : memref<?xbf16>
      %tokens = tile.dim "num_tokens"
      %w = tile.buffer weight "w" shape [24, 40] : memref<?xbf16>
      %y = tile.buffer output "output" : memref<?xbf16>
      ...
      tile.launch @linear_24x40_tile_64x32 grid(%gx, %gy, %c1) args(%x, %w, %y, %tokens) : ...
      tile.return
    }
    tile.kernel @linear_24x40_tile_64x32(%x: memref<?xbf16>, %w: memref<?xbf16>,
                                  %y: memref<?xbf16>, %rows: index) { ... }
    ```

    Tensors become buffers: the output's for what is returned, one buffer for
    both branches of an `scf.if`, one for a tensor that a loop carries (merges
    write it in place, anything else is copied), a `tile.workspace` otherwise.
    Parts of weights are strides. The cache is written in place. Products exist
    twice where the number of rows is dynamic, for few and for many rows; the
    plan chooses by a condition on `num_tokens`.

    Numbers that were measured (Tuning) are those of the machine that the module's
    `mla.target` names, if it is one of the target's chip, else of the first known one
    of it; the module says which as `tile.machine`.

    On sm90 an `mla.absorbed_attention` without a number of splits becomes one
    persistent kernel over the pieces of `tile.work`, and a merge that runs only
    where a request is in several pieces. With a number of splits, or marked by
    `mla-split-kv` as unsplit, it has a program for each request and split, as on
    the CPU.

    Preconditions: arguments are marked `mla.input`, `mla.weight` or
    `mla.derived`, tensor results `mla.output` or `mla.derived`; loops go from 0
    with step 1. Operations of earlier phases and formats without kernels are
    errors at the operation. No `mla` operation remains.
  }];
  let options = [
    Option<"target", "target", "::mlac::TileTarget", "::mlac::TileTarget::Cpu",
           "machine whose tile shapes are used",
           "::mlac::getTileTargetValues()">,
    Option<"itemCost", "item-cost", "double", "-1",
           "fixed cost of a piece of attention, in blocks of 64 keys (mla.md section 13); "
           "negative: the machine's">,
    Option<"mergeCost", "merge-cost", "double", "-1",
           "cost of merging pieces at all, in blocks; negative: the machine's">,
    Option<"persistentProducts", "persistent-products", "bool", "true",
           "on sm90: products of many rows by programs that go over wide tiles, whose "
           "accumulators only the product schedule holds">,
    Option<"fixedBlocks", "fixed-blocks", "int64_t", "0",
           "cut requests every so many blocks, whatever the batch; 0: by cost">,
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect", "::mlir::tile::TileDialect",
  ];
}

//===----------------------------------------------------------------------===//
// TileToCpu
//===----------------------------------------------------------------------===//

def ConvertTileToCpu : Pass<"convert-tile-to-cpu", "::mlir::ModuleOp"> {
  let summary = "lowers tile kernels to vectorised x86-64 functions";
  let description = [{
    Replaces every `tile.kernel` by an `llvm.func` of the same name with the CPU
    kernel ABI

        void NAME(const uint64_t *args, int64_t pid0, int64_t pid1, int64_t pid2)

    where `args[i]` is a pointer, an int64, or the bits of an f32 in the low 32.
    The functions are re-entrant and keep their tiles in stack scratch.

    Before:
    ```mlir
    tile.kernel @scale(%x: memref<?xf32>, %rows: index, %s: f32) {
      %c0 = arith.constant 0 : index
      %pid = tile.program_id 0
      %v = memref.reinterpret_cast %x to offset: [0], sizes: [%rows, 64], strides: [64, 1]
          : memref<?xf32> to memref<?x64xf32, strided<[64, 1]>>
      %t = tile.load %v[%pid, %c0] : memref<?x64xf32, strided<[64, 1]>> -> tensor<1x64xf32>
      %sv = tile.splat %s : f32 -> tensor<1x64xf32>
      %r = arith.mulf %t, %sv : tensor<1x64xf32>
      tile.store %r, %v[%pid, %c0] : tensor<1x64xf32>, memref<?x64xf32, strided<[64, 1]>>
      tile.return
    }
    ```
    After: `llvm.func @scale(!llvm.ptr, i64, i64, i64) attributes
    {mlac.scratch_bytes = 256 : i64}` whose body is `scf` loops over rows and
    chunks of `lanes` columns, with `arith`, `math` and `vector` operations on
    vectors and `llvm` loads and stores.

    Chains of element-wise operations are evaluated in one loop nest at their
    consumer. Loads that are wholly inside their view are read in place; others
    are copied to scratch with zero fill. Accumulators carried by loops are
    updated in place. Dots become register blocks with f32 accumulation; the
    order of summation over K depends on `lanes`. exp, exp2, log and log2 are
    polynomials with a relative error of at most 4e-7; NaN propagates, and exp of
    -inf is 0.

    Precondition: every view is a `memref.reinterpret_cast` of a kernel argument
    or the argument itself. `tile.plan` operations are erased: what runs on the
    host must have been taken from the module before.
    Guarantee: no `tile` operation and no tensor remains.
  }];
  let options = [
    Option<"lanes", "lanes", "int64_t", "8",
           "f32 elements of one vector register: 8 (AVX2) or 16 (AVX-512)">,
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect",
  ];
}

//===----------------------------------------------------------------------===//
// Sm90ToNvvm
//===----------------------------------------------------------------------===//

def ConvertSm90ToNvvm : Pass<"convert-sm90-to-nvvm", "::mlir::ModuleOp"> {
  let summary = "lowers sm90 kernels to functions of the llvm and nvvm dialects";
  let description = [{
    Replaces every `sm90.kernel` by an `llvm.func` of the same name with the
    CUDA kernel ABI: a global pointer for each memref, i64 for each index, f32.
    Every thread of the CTA runs it; fragments become the registers that
    the encodings give to one thread, and dynamic shared memory is the module's
    `@mlac_shared`, taken to start at byte 1024 (the kernel traps if it does
    not). The function carries `mlac.threads` and `mlac.shared_bytes`, what a
    launch needs.

    Each `sm90.tensor_map` adds a parameter of 128 bytes behind the others; the
    function's `mlac.tensor_maps` says what the launch encodes there, in the same
    order, every number as [factor, kernel argument it multiplies or -1]:

        {argument = 0, offset = array<i64: 0, -1>, box = array<i64: 64, 64>,
         sizes = [array<i64: 64, 1>, array<i64: 576, -1>],
         strides = [array<i64: 576, -1>, array<i64: 1, -1>]}

    Roles are branches on the warpgroup's index that start with `setmaxnreg` where
    their registers differ from the launch's (65536 / threads, rounded down to 8).
    The barriers of rings are initialised first of all.

    Before:
    ```mlir
    sm90.kernel @scale(%x: memref<?xf32>, %n: index, %s: f32)
        attributes {warpgroups = 1 : i32, shared_bytes = 0 : i64} {
      %c0 = arith.constant 0 : index
      %v = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 8], strides: [8, 1]
          : memref<?xf32> to memref<?x8xf32, strided<[8, 1]>>
      %t = sm90.load %v[%c0, %c0] : memref<?x8xf32, strided<[8, 1]>>
          -> tensor<64x8xf32, #sm90.fragment<column_split = 1>>
      %k = sm90.splat %s : f32 -> tensor<64x8xf32, #sm90.fragment<column_split = 1>>
      %r = arith.mulf %t, %k : tensor<64x8xf32, #sm90.fragment<column_split = 1>>
      sm90.store %r, %v[%c0, %c0] : tensor<64x8xf32, #sm90.fragment<column_split = 1>>,
          memref<?x8xf32, strided<[8, 1]>>
      sm90.return
    }
    ```
    After: `llvm.func @scale(!llvm.ptr<1>, i64, f32) attributes {nvvm.kernel,
    nvvm.maxntid = array<i32: 128>, mlac.threads = 128, ...}` that loads four
    elements, multiplies and stores them, each half under its row's bound.

    Preconditions: `sm90-allocate-shared-memory` and `sm90-insert-proxy-fences`
    have run. Guarantee: no `sm90`, `memref` or tensor remains in these
    functions; `scf`, scalar `arith` and `math` do. Numerics: additions and
    products on tiles may contract to FMA; exp, log, rsqrt and division use the
    hardware's approximations (error bounds: Elementwise.cpp).
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
    "::mlir::NVVM::NVVMDialect", "::mlir::scf::SCFDialect",
  ];
}

def ConvertNvvmKernelToLlvm : Pass<"convert-nvvm-kernel-to-llvm", "::mlir::LLVM::LLVMFuncOp"> {
  let summary = "lowers what remains of scf, arith and math in a GPU kernel";
  let description = [{
    Works on one `llvm.func` with `nvvm.kernel` (others are left alone), so that
    kernels are converted in parallel. After it the function is what
    `mlac::compileKernels` takes: llvm, and nvvm ops that LLVM has intrinsics
    for; nvvm ops that are PTX text have become inline assembly.

    Before: `scf.for`, `arith.addi ... : index`, `nvvm.wgmma.mma_async`.
    After: `llvm.cond_br`, `llvm.add ... : i64`, `llvm.inline_asm`.
    Numerics do not change.
  }];
  let dependentDialects = [
    "::mlir::cf::ControlFlowDialect", "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect",
  ];
}

//===----------------------------------------------------------------------===//
// TileToSm90
//===----------------------------------------------------------------------===//

def TilePlanSchedules : Pass<"tile-plan-schedules", "::mlir::ModuleOp"> {
  let summary = "chooses schedule and parameters of attention kernels by cost";
  let description = [{
    Gives every kernel with an attention loop, over paged or over dense keys, the
    attribute `tile.schedule`, which `tile-swap-operands`, `tile-loop-over-programs`
    and `convert-tile-to-sm90` follow, and tells the `tile.work` of the plans that
    launch it what pieces cost. A remark says what was chosen, what bounds it, and why
    not the others. Costs are those of mla/Analysis/ScheduleCost.h and
    DenseScheduleCost.h on the H200 (docs/design.md, "Choosing a schedule"); nothing
    about the kernel's body changes. Paged keys have simple, relay and stream, dense
    ones simple and pingpong; a forced kind or parameter is for the kernels that are of
    that sort, the others are planned by cost. A forced kind that no kernel of the module gets is an error.

    ```
    timeline of one block, relay (tensor pipe; time runs right)
    tensor | right(i) + B(i+1)   | left(i)       | A(i+2)     | right(i+1) + ...
    scores | B(i+1) .. wait -----+- max, exp ----- issue A ---- store P(i+1)
    gate   |             `early` panels before its end: left(i) may start
    ```

    Before:
    ```mlir
    tile.kernel @absorbed_attention(...) { ... }
    ```
    After:
    ```mlir
    tile.kernel @absorbed_attention(...) attributes {tile.schedule = #tile.relay<left_stages = 3,
        right_stages = 2, rope_stages = 2, early = 2, score_registers = 168, output_registers = 168,
        lazy_threshold = 8.0>} { ... }
    ```

    The attributes and their parameters are those of `mla/Dialect/Tile/IR/ScheduleAttrs.td`;
    `mla-compile --help` lists the options that force them.

    Kernels with other products get `#tile.product` where they can (unless simple is
    forced), with as many stages as shared memory holds, or half of it if that still
    covers memory's latency.

    A kernel that has the attribute keeps it. Rows per request are
    `tile.max_rows`; without it those of the plans' `tile.work` are taken as
    typical, and stream is out of question. A forced schedule, or a forced
    parameter, that a kernel cannot have is an error that names value and limit.
    The option `kernel:kind:key=value:...` forces them for one kernel, instead of what
    is asked of all, and leaves the others alone.
    Numerics: `lazy_threshold` and the kind change roundings, nothing else does.
  }];
  let options = [
    Option<"schedule", "schedule", "std::string", "\"auto\"",
           "auto (by cost), or a name of Schedules.def">,
    ListOption<"parameters", "option", "std::string",
               "forced parameters, key=value, for all kernels that have them, or kernel:kind:key=value:...">,
    Option<"itemCost", "item-cost", "double", "-1",
           "fixed cost of a piece of attention, in blocks; negative: by the cost model">,
    Option<"mergeCost", "merge-cost", "double", "-1",
           "cost of merging pieces at all, in blocks; negative: by the cost model">,
    Option<"partialCost", "partial-cost", "double", "-1",
           "cost of a token's partial result, in blocks; negative: by the cost model">,
    Option<"batchInvariant", "batch-invariant", "int64_t", "-1",
           "blocks between the cuts of every request, whatever the batch; 0: by cost; -1: cut by "
           "the batch">,
  ];
  let dependentDialects = ["::mlir::tile::TileDialect"];
}

def ConvertTileToSm90 : Pass<"convert-tile-to-sm90", "::mlir::ModuleOp"> {
  let summary = "schedules tile kernels on the warpgroups of a Hopper CTA";
  let description = [{
    Replaces every `tile.kernel` by a `sm90.kernel` of the same name and
    arguments, in the schedule that the kernel's `tile.schedule` names:

    - *simple*: one step after the other, always right, tensor cores for every
      dot. It does not overlap loads with products. Kernels that another schedule
      does not take get it, and a remark says why.
    - *relay* (Relay/Relay.h): attention with 64 query rows; a warpgroup for the
      scores and one for each half of the output.
    - *stream* (Stream/Stream.h): attention with few query rows, after
      `tile-swap-operands`; a producer that streams the cache and one consumer.
    - *product* (Product/Product.h): matrix products of one or two accumulators; a
      producer for weights, one for activations, a consumer for each accumulator.

    - *pingpong* (PingPong/PingPong.h): attention over dense keys and values, after
      `tile-loop-over-programs`; a producer, and two consumers with 64 query rows each
      whose softmax runs under each other's products.

    The rest is about *simple*. Where values live:

    - operands of dots in shared memory, in 128-byte-swizzled panels; a column
      slice of a loaded tile is a view of it (V = the first columns of K);
    - everything else in registers, in the layout of the wgmma accumulator. A
      tile wider than 256 columns is split by columns (between panels of 64
      where possible) over the fewest
      warpgroups that hold at most 256 each; narrower tiles are computed by
      every warpgroup redundantly and written by one. The CTA has as many
      warpgroups as the widest split.
    - a loaded tile that is used both ways is loaded twice.

    A kernel that is launched as dependent waits right before its first access to
    tiles: what the scalars before it read, metadata, was written by the host before
    the kernel before this one began. Their latency passes while that one runs.

    Loads that feed dots become asynchronous copies whose vector width follows
    from what is known of offsets and strides (static values, constants, loop
    steps, `tile.divisibility` of arguments).

    What is ordered how, for one iteration of attention with an accumulator
    split over two warpgroups (time runs down; │ = all threads meet):

    ```
    warpgroup 0                       warpgroup 1
    copy K, commit, wait              copy K, commit, wait       both copy a share
    [proxy fence]                     [proxy fence]              inserted later
    ────────────────────────── barrier ─────────────────── 1     K is there for all
    S = Q·K^T, commit, wait 0         S = Q·K^T, commit, wait 0  both read Q and K
    P = softmax(S) in registers       the same bits
    ────────────────────────── barrier ─────────────────── 2     nobody reads Q, K any more
    store P                           -                          may reuse bytes of dead tiles
    [proxy fence]                     [proxy fence]
    ────────────────────────── barrier ─────────────────── 3     P is there for all
    O[:, 0:256] += P·V[:, 0:256]      O[:, 256:512] += P·V[:, 256:512]
    commit, wait 0                    commit, wait 0
    ────────────────────────── barrier ─────────────────── 4     P and K may be overwritten
    ```

    Each warp waits for its own part of a wgmma only, so "wait 0" does not say
    that other warps have finished reading: barriers 2 and 4 do. Barrier 2
    treats shared memory as one buffer on purpose: tiles that are dead may
    share their bytes with P. Copies and stores are the generic proxy's, wgmma
    reads through the async proxy: the fence stands on the writer's side before
    barriers 1 and 3 (`sm90-insert-proxy-fences`). At the start and the end of
    every region nothing is outstanding, so a loop that runs zero times and a
    branch not taken change nothing.

    A store to a buffer that the same kernel also loads from is enclosed in
    barriers: loads before it, of any thread, are done, loads after it see it.
    With more than one warpgroup, any argument of the same type that is loaded
    from counts as that buffer, since two arguments may be bound to the same
    memory (merging in place) and narrow tiles are loaded by every warpgroup.

    Before:
    ```mlir
    %x = tile.load %xv[%i, %k] : memref<?x64xbf16, strided<[64, 1]>> -> tensor<64x64xbf16>
    %w = tile.load %wv[%j, %k] : memref<64x64xbf16, strided<[64, 1]>> -> tensor<64x64xbf16>
    %d = tile.dot %x, %w, %a transpose_rhs : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    ```
    After:
    ```mlir
    %x = sm90.alloc : !sm90.smem<64x64xbf16>
    sm90.copy %xv[%i, %k] to %x vector_bytes 16 : memref<?x64xbf16, strided<[64, 1]>>, !sm90.smem<64x64xbf16>
    %w = sm90.alloc : !sm90.smem<64x64xbf16>
    sm90.copy %wv[%j, %k] to %w vector_bytes 16 : memref<64x64xbf16, strided<[64, 1]>>, !sm90.smem<64x64xbf16>
    sm90.copy_commit
    sm90.copy_wait 0
    sm90.barrier
    sm90.wgmma_fence
    %0 = sm90.wgmma %x, %w, %a transpose_rhs : !sm90.smem<64x64xbf16>, !sm90.smem<64x64xbf16>
        -> tensor<64x64xf32, #sm90.fragment<column_split = 1>>
    sm90.wgmma_commit
    %d = sm90.wgmma_wait 0, %0 : tensor<64x64xf32, #sm90.fragment<column_split = 1>>
    ```

    Preconditions (errors name what was found): tiles in registers have 64 rows
    and columns in groups of 8; dots have bf16 or f16 operands, 64 rows, and a
    contraction width that is a multiple of 16; a split accumulator with an rhs
    stored [K, N] splits into whole panels of 64 columns; slices are of columns
    of a load, those for dots at multiples of 64. `tile.plan` operations are
    erased: what runs on the host must have been taken from the module before.
    Guarantee: no `tile` operation remains. Numerics: sums over columns are made
    in the order described at `sm90.reduce`; nothing else changes.
  }];
  let options = [
    Option<"schedule", "schedule", "std::string", "\"auto\"",
           "auto (what each kernel's tile.schedule says, else simple), or a name of Schedules.def">,
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect", "::mlir::sm90::Sm90Dialect",
  ];
}

#endif // MLA_CONVERSION_PASSES
