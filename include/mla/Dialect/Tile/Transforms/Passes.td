//===- Passes.td - passes on block programs ------------------*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_TILE_TRANSFORMS_PASSES
#define MLA_DIALECT_TILE_TRANSFORMS_PASSES

include "mlir/Pass/PassBase.td"

def TileSwapOperands : Pass<"tile-swap-operands", "::mlir::tile::KernelOp"> {
  let summary = "puts keys where rows were in attention kernels with few query rows";
  let description = [{
    The M side of a wgmma has 64 rows, so an attention kernel with 16 query rows
    computes four times what it needs. Keys come in blocks of 64 whatever the
    number of heads: the pass expands a kernel's `tile.attend` into its loop (`tile-expand-attend`)
    and turns the kernel into its transpose, whose query rows
    are the N side, padded to a multiple of 8 only.

    ```
                 before (rows 64)                    after (N = rows padded to 8)
      scores     S  [64, keys]  = Q · Kᵀ             Sᵀ  [keys, N] = K · Qᵀ
      softmax    along dim 1                         along dim 0
      output     O  [64, R]    += P · V              Oᵀ_p [64, N] += V[:, 64p..]ᵀ · Pᵀ   R / 64 tiles
      store      rows                                transposed
    ```

    Before:
    ```mlir
    %s = tile.dot %q, %k, %zero transpose_rhs : tensor<64x512xbf16>, tensor<64x512xbf16> -> tensor<64x64xf32>
    %m = tile.reduce max %s : tensor<64x64xf32> -> tensor<64xf32>
    ```
    After:
    ```mlir
    %s = tile.dot %k, %q, %zero transpose_rhs : tensor<64x512xbf16>, tensor<16x512xbf16> -> tensor<64x16xf32>
    %m = tile.reduce max %s dim 0 : tensor<64x16xf32> -> tensor<16xf32>
    ```

    A running sum that the key loop carries, `sum · factor + Σ_keys tile`, is
    carried as a tile and reduced once after the loop: the reduction over the M
    side crosses warps.

    Preconditions: the kernel has `tile.max_rows` = r with r padded to 8 at most
    `max-rows`, so that its grid has one tile of rows; it has one `tile.attend`, of loaded
    queries over keys in pages, with blocks of 64, which starts from nothing and whose
    output is a multiple of 64 wide; what stands around it is element-wise on its rows,
    control flow or a store. A kernel whose `tile.schedule` names
    another kind than `stream` is left alone without a remark. What does not fit
    is named in a remark, and the kernel stays as it is.
    Guarantee: `tile.schedule = #tile.stream` is set where it was absent.
    Numerics: only the order of summation over keys changes.
    Source: FlashMLA and DeepGEMM put keys on M for scores (indexer); the output
    side follows from V being a transposed view of K.
  }];
  let options = [
    Option<"maxRows", "max-rows", "int64_t", "32",
           "most padded query rows: 8 output tiles of [64, 32] take 128 registers of a thread, of [64, 40] the kernel spills">,
  ];
}

def TileLoopOverPrograms : Pass<"tile-loop-over-programs", "::mlir::ModuleOp"> {
  let summary = "lets as many programs as the device has multiprocessors do the work of a grid";
  let description = [{
    A kernel of a ragged batch is launched over the tiles of its longest request, the
    heads, and the requests; programs behind a request's last tile end at once. The
    pass makes it *persistent*: each of `num_sms` programs goes over every
    request's own tiles and heads.

    Before, launched over grid(tiles, heads, requests):
    ```mlir
    %x = tile.program_id 0          // tile
    %y = tile.program_id 1          // head
    %z = tile.program_id 2          // request
    %rows = ... %z ...
    %row = arith.muli %x, %c64 : index
    %exists = arith.cmpi slt, %row, %rows : index
    scf.if %exists { ... }
    ```
    After, launched over grid(num_sms, 1, 1) with heads, requests, num_sms and the
    item counters as arguments:
    ```mlir
    %p = tile.program_id 0
    scf.for %z = %c0 to %requests step %c1 iter_args(%first = %p) {
      %rows = ... %z ...
      %groups = ceildiv(%rows, 64 * 2)
      scf.for %item = %first to %groups * %heads step %num_sms {
        %group, %y = decode %item
        scf.for %i = %c0 to %c2 step %c1 {
          %x = %group * 2 + %i
          ... scf.if %exists { ... }
        } {tile.side_by_side}
      }
      scf.yield the program's first item of the next request
    }
    ```
    Items are numbered so that what is read together is read at the same time, and the
    longest come first (a causal tile is the longer the later it is):

    ```
    section    of 4 heads                       the next
    item       0 1 2 3   4 5 6 7        ...   | 4n ...
    head       0 1 2 3   0 1 2 3              | 4 5 6 7   4 5 6 7
    group      last      last - 1       ..  0 | last      last - 1 ..
    program    0 1 2 ... in turn, without a break from one request to the next
    ```
    A *section* has as many heads as `l2-bytes` hold keys and values of: what a
    `tile.attend` reads of views that depend on the head.

    In turn is what the loop says; programs may share the items otherwise. Taken by
    whoever is free (`pingpong`), the longest share is 1.00 to 1.03 of the mean; in turn
    it would be 1.39 for 16 heads and 2048 tokens on 132 programs, 1.37 for 16 requests
    of 1024. The kernel gets memory to count in for that as its last argument
    (`tile.item_counters`), metadata that the runtime fills with zeros.

    Preconditions: the kernel's `tile.schedule` is of kind `pingpong`; its body is
    scalar code and one `scf.if` without results, on `%x * constant < rows`, with rows
    that depend on %z only; else a remark says what does not fit, and nothing
    changes. Every launch of the kernel is changed with it. Numerics: none.
    Source: the persistent scheduler of FlashAttention-3 (Shah et al., 2024), whose
    sections are those of its LPT scheduler.
  }];
  let options = [
    Option<"sideBySide", "side-by-side", "int64_t", "2", "programs of one item: the consumer "
           "warpgroups of the schedule">,
    Option<"l2Bytes", "l2-bytes", "int64_t", "32 << 20",
           "bytes of keys and values that stay in the L2 cache: of an H200's 50 MB, what queries and "
           "outputs leave">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def TileLazyRescale : Pass<"tile-lazy-rescale", "::mlir::tile::KernelOp"> {
  let summary = "lets the reference of an attention's softmax lag behind its maximum";
  let description = [{
    A loop over keys carries a reference per row, in log2 units, and rescales sum
    and output whenever it moves. The pass moves it only when it is exceeded by more than
    `threshold`: then most factors are exactly 1 and a schedule may skip the rescaling.
    It sets `lag` of each `tile.attend`, whose results are relative to the reference
    whatever it is.

    Before, and after:
    ```mlir
    %m, %l, %o = tile.attend ... {block = 64 : i64, scale = 0.1 : f64, unit = 64 : i64}
    %m, %l, %o = tile.attend ... {block = 64 : i64, lag = 8.0 : f64, scale = 0.1 : f64, unit = 64 : i64}
    ```
    The loop that it becomes has `select(candidate > reference + lag, candidate,
    reference)` in the place of `max(reference, candidate)`.

    Exact up to rounding: with any reference m, `sum = Σ exp2(s - m)` and `output =
    Σ exp2(s - m) v` have the same quotient, and m + log2(sum) the same value; the
    factors keep m one and the same in all terms. Weights are at most 2^threshold
    instead of 1, with the same relative rounding (f32 sums hold 2^100 of them), and
    no weight that counts is lost: m is never above the maximum. NaN propagates.

    A kernel's `tile.schedule` overrides the option by its `lazy_threshold`; 0 is
    the maximum itself.
    Source: FlashAttention-4 (Dao et al., 2025).
  }];
  let options = [
    Option<"threshold", "threshold", "double", "8",
           "how far the maximum may lag, in log2 units (0 to 15); 8: decode on an H200, 5 to 7 % "
           "faster than 0">,
  ];
}

def TileOverlapLaunches : Pass<"tile-overlap-launches", "::mlir::ModuleOp"> {
  let summary = "lets launches run beside others that do not wait for them";
  let description = [{
    A step of few tokens has kernels that leave most of the machine idle. Where a plan has two groups of launches that
    touch nothing that the other writes, one behind the other, they become the sides of a `tile.fork`.

    Before:
    ```mlir
    tile.launch @query ... args(%x, %wq, %q)
    tile.launch @index_query ... args(%x, %wi, %qi)
    tile.launch @append ... args(%q, %pool)
    tile.launch @scores ... args(%qi, %index, %scores)
    tile.launch @attend ... args(%q, %pool, %scores, %out)
    ```
    After:
    ```mlir
    %few = arith.cmpi sle, %num_tokens, %c1024
    tile.fork if %few {
      tile.launch @query ... args(%x, %wq, %q)
      tile.launch @append ... args(%q, %pool)
    } beside {
      tile.launch @index_query ... args(%x, %wi, %qi)
      tile.launch @scores ... args(%qi, %index, %scores)
    }
    tile.launch @attend ... args(%q, %pool, %scores, %out)
    ```

    What depends on what follows from the buffers of a plan's own launches, branches and loops, a branch or a loop being
    one (`LaunchEffects`): of a run of them those that are joined by a buffer that one writes and another touches are a
    group; the largest group is the main side, all others are the other one. Taken is the run whose smaller side has the
    most launches, of these the longest, so that what is short may end late, and once a plan; with fewer than `least` launches on its smaller side none.
    Of a branch its side with the fewest launches counts: a product of many tokens may be two, one of few is one.
    A step of more than `tokens` tokens runs them in order. Dependent launches (`tile.launch`) become
    ordinary ones where a fork or a join comes before them.

    Preconditions: none. Guarantee: what the fork's verifier checks. Numerics: the same to the bit.
    Source: v4.md section 13.
  }];
  let options = [
    Option<"tokens", "tokens", "int64_t", "1024", "of a step, up to which launches run beside others">,
    Option<"least", "least", "int64_t", "3", "launches that the smaller side has at least">];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::tile::TileDialect"];
}

def TileExpandAttend : Pass<"tile-expand-attend", "::mlir::tile::KernelOp"> {
  let summary = "attention as a loop over blocks of keys";
  let description = [{
    Puts in the place of each `tile.attend` the loop that it stands for: loads of a block of
    keys from its source, their transform, products, mask, online softmax
    (FlashAttention-2, Dao, 2023). Targets without schedules take it so; schedules expand the op
    themselves and are told which op does what (`ExpandAttend.h`).

    Before:
    ```mlir
    %m, %l, %o = tile.attend queries(%q : tensor<64x128xbf16>)
        keys(%k : memref<?x128xbf16, strided<[128, 1]>>)
        values(%v : memref<?x128xbf16, strided<[128, 1]>>)
        range %c0 to %n limit %n {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x128xf32>
    ```
    After:
    ```mlir
    %m:3 = scf.for %key = %c0 to %n step %c64 iter_args(%ref = %lowest, %sum = %zero, %out = %zeros) {
      %kt = tile.load %k[%key, %c0] ...
      %s = tile.dot %q, %kt, %none transpose_rhs ...
      %masked = arith.select %seen, %s, %minus_infinity ...
      ...
      %o = tile.dot %weights, %vt, %rescaled ...
      scf.yield %next_ref, %next_sum, %o
    }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"];
}

#endif // MLA_DIALECT_TILE_TRANSFORMS_PASSES
