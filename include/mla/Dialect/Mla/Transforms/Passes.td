//===- Passes.td - passes on the mla dialect -----------------*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// They run in the order of this file. Types are abbreviated in the examples;
// test/Dialect/Mla/Transforms has them in full.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_MLA_TRANSFORMS_PASSES
#define MLA_DIALECT_MLA_TRANSFORMS_PASSES

include "mlir/Pass/PassBase.td"

def MlaSplitBatch : Pass<"mla-split-batch", "::mlir::ModuleOp"> {
  let summary = "attends to decodes and prefills of a batch apart";
  let description = [{
    In functions with `mla.decode_threshold` = t, every attention whose form is open
    becomes two: the prefills in the expanded form and, behind them, the decodes
    (queries of at most t tokens in front of the batch) in the absorbed one. A batch
    of one kind leaves the other part without requests: its launches have empty
    grids, and the runtime skips them.

    Before:
    ```mlir
    %o = mla.attention query(%q, %q_pe) latent(%c, %k_pe) weights(%w_uk, %w_uv)
      over %cache, %batch … -> tensor<?x16x128xbf16>
    ```
    After (t = 1):
    ```mlir
    %prefills = mla.batch_part %batch prefills : <query_len = ?> -> <query_len = ?>
    %all = mla.part_rows %q of %prefills …
    %p = mla.attention query(%all, …) … over %cache, %prefills … {form = #mla.form<expanded>}
    %decodes = mla.batch_part %batch decodes : <query_len = ?> -> <query_len = 1>
    %q1 = mla.part_rows %q of %decodes …
    %d = mla.attention query(%q1, …) … over %cache, %decodes … {form = #mla.form<absorbed>}
    %o = mla.join_parts %d, %p : tensor<?x16x128xbf16>
    ```

    **Sparse layers.** Over a cache of codes, `sparse-mode` = separate lets the prefills of an attention to
    selected keys read a workspace of 16-bit rows: it is split like others, both parts in the absorbed
    form, and the prefills' is marked `gathered`; so is that of a function of prefills alone. auto
    does so from `separate-heads` heads on. A cache of 16-bit rows has one mode.

    **Wide latents.** Where a target attends to no latents as wide (`most-latent`, and
    `most-decoded-latent` where t is 1), nothing is split, and the function for batches of decodes
    alone (`mla.decodes_of`), which has the absorbed form, goes: the step itself takes them.

    Preconditions: before mla-choose-form. An attention whose form is given, by
    itself or by `form`, is not split; a function without split attentions loses the
    attribute. Guarantee: the attribute is there iff the batch is split. Numerics: as
    those of the forms.
  }];
  let options = [
    Option<"form", "form", "::mlir::mla::Form", "::mlir::mla::Form::Auto",
           "form of attentions that leave it open; other than auto, nothing is split",
           [{::llvm::cl::values(
             clEnumValN(::mlir::mla::Form::Auto, "auto", "each part its own"),
             clEnumValN(::mlir::mla::Form::Expanded, "expanded", "keys and values per head"),
             clEnumValN(::mlir::mla::Form::Absorbed, "absorbed", "attend on the latents"))}]>,
    Option<"sparseMode", "sparse-mode", "::mlir::mla::SparseMode", "::mlir::mla::SparseMode::Mixed",
           "how prefills of sparse layers read codes",
           [{::llvm::cl::values(
             clEnumValN(::mlir::mla::SparseMode::Mixed, "mixed", "as decodes, from the pool"),
             clEnumValN(::mlir::mla::SparseMode::Separate, "separate", "from a gathered workspace"),
             clEnumValN(::mlir::mla::SparseMode::Auto, "auto", "separate with many heads"))}]>,
    Option<"separateHeads", "separate-heads", "int64_t", "::mlir::mla::kSeparateHeads",
           "heads of a rank from which on `auto` is separate">,
    Option<"mostLatent", "most-latent", "int64_t", "0",
           "kv_lora_rank of the absorbed form at most, wider ones are expanded; 0: any">,
    Option<"mostDecodedLatent", "most-decoded-latent", "int64_t", "0",
           "the same of requests of one query over rows that are no codes; 0: most-latent"> ];
  let dependentDialects = ["::mlir::mla::MlaDialect"];
}

def MlaSkipSelection : Pass<"mla-skip-selection", "::mlir::ModuleOp"> {
  let summary = "attends to all keys where an indexer would select all";
  let description = [{
    An indexer that selects K keys of each token selects all that it sees while no request has more than K. Scores,
    selection and gathered rows then give what a dense layer's kernels give sooner.

    Before, decodes:
    ```mlir
    %selected = mla.top_k %scores over %batch k 2048
    %rows = mla.convert_indices %selected in %cache, %batch
    %out = mla.sparse_attention query(%q, %q_pe) rows(%rows) over %cache, %batch
    ```
    After:
    ```mlir
    %longest = mla.batch_dim %batch "max_seq_len"
    %all = arith.cmpi sle, %longest, %c2048
    %rows = scf.if %all { tensor.empty } else { mla.index_scores …, mla.top_k …, mla.convert_indices … }
    %out = scf.if %all { mla.absorbed_attention query(%q, %q_pe) over %cache, %batch } else { mla.sparse_attention … }
    ```
    Batches of any lengths are versioned while their attention is `mla.attention … selected(…)`: the condition is that
    no request has context, too, and the other version is `mla.expanded_attention` of the new tokens. Keys of the index are
    appended in any case; projections stay where they are, one product with others.

    It is done where nothing else reads the selection. Steps of decodes and prompts (`mla.decode_threshold`) keep theirs,
    and so do latents of more than `most-latent` columns, which no dense kernel of the target takes.

    Preconditions: none; before mla-choose-form for prompts, behind mla-absorb-weights for decodes. Guarantee: none.
    Numerics: the same keys; sums in another order, and of prompts in the expanded form.
  }];
  let options = [
    Option<"mostLatent", "most-latent", "int64_t", "0",
           "kv_lora_rank of a dense decode at most; 0: any">];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::mla::MlaDialect",
                           "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

def MlaMaskSelection : Pass<"mla-mask-selection", "::mlir::ModuleOp"> {
  let summary = "attends to the selected keys of prompts through a mask over all";
  let description = [{
    Gathered attention multiplies the latents of K keys with all heads of a token, whose rows of keys nobody shares: (2 Lkv +
    R) columns for each head and key, heads in whole tiles. A prompt's tokens see the same keys, up to their own, and in the
    expanded form a head has P + R + V columns. While a prompt is not many times longer than K, it takes fewer FLOPs to
    score all keys and leave out those that were not selected. Cached tokens' keys and values take (P + V) Lkv
    products for each head besides, once for all new tokens.

    Before:
    ```mlir
    %out = mla.attention query(…) latent(…) … selected(%selected)
    ```
    After:
    ```mlir
    %out = scf.if %few {   // tokens see no more keys than cost as much, cached tokens' rows counted
      mla.attention query(…) latent(…) … selected(%selected) {form = #mla.form<expanded>}
    } else {
      mla.attention … selected(%selected)
    }
    ```
    In steps of decodes and prompts (`mla.decode_threshold`) the condition is of the prompts, and decodes are a part of
    their own in the first branch (`mla.batch_part`, `mla.join_parts`). What returns an LSE stays as it is.
    Functions get `mla.optional_chunks`: where the engine has no workspace for chunks of context, or the step is
    padded, there are none, and prompts behind cached tokens gather.

    Preconditions: none; behind mla-skip-selection, before mla-split-batch. Guarantee: none.
    Numerics: the same keys in the expanded form.
  }];
  let options = [
    Option<"mode", "mode", "::mlir::mla::MaskMode", "::mlir::mla::MaskMode::Auto",
           "when prompts see selected keys through a mask",
           [{::llvm::cl::values(
             clEnumValN(::mlir::mla::MaskMode::Never, "never", "selected keys are gathered"),
             clEnumValN(::mlir::mla::MaskMode::Auto, "auto", "where that takes fewer FLOPs"),
             clEnumValN(::mlir::mla::MaskMode::Always, "always", "wherever there is memory for it"))}]>,
    Option<"headTile", "head-tile", "int64_t", "1",
           "heads of a token that gathered keys are multiplied with together">,
    Option<"cost", "cost", "double", "1.0",
           "time of a FLOP of masked attention, that of one over gathered keys being 1">,
    Option<"chunkFlops", "chunk-flops", "double", "0.0",
           "FLOPs of masked attention in the time of what only steps with chunks of context launch">,
    Option<"budget", "budget", "int64_t", "::mlir::mla::kMasksBudget",
           "bytes of a step's masks at most">,
    Option<"contextBudget", "context-budget", "int64_t", "::mlir::mla::kMaskedContextBudget",
           "bytes of a chunk's keys and values at most">];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::mla::MlaDialect",
                           "::mlir::scf::SCFDialect"];
}

def MlaHoistQueries : Pass<"mla-hoist-queries", "::mlir::ModuleOp"> {
  let summary = "makes queries on latents ahead of the branch that attends with them";
  let description = [{
    Which form a sparse layer's attention takes is a branch behind the indexer's. Its queries on latents need no selection;
    ahead of the branch they can run while the indexer selects (`tile-overlap-launches`). It is done in steps of decodes and
    prompts (`mla.decode_threshold`): decodes alone need it most, prompts alone gain nothing.

    Before:
    ```mlir
    %selected = mla.top_k …
    %out = scf.if %all { … } else { %q = mla.head_project %q_nope, %w_uk …, mla.sparse_attention query(%q, …) … }
    ```
    After:
    ```mlir
    %q = scf.if %all { tensor.empty } else { mla.head_project %q_nope, %w_uk … }
    %selected = mla.top_k …
    %out = scf.if %all { … } else { mla.sparse_attention query(%q, …) … }
    ```

    Preconditions: none; behind mla-absorb-weights. Guarantee: none. Numerics: none.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::mla::MlaDialect",
                           "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

def MlaChooseForm : Pass<"mla-choose-form", "::mlir::ModuleOp"> {
  let summary = "resolves form = auto of every mla.attention";
  let description = [{
    The expanded form needs no more FLOPs than the absorbed one iff

        C·Lkv(P+V) <= (2·Lkv − P − V)·A                     (mla.md section 12)

    with C the cached tokens and A the attended pairs, both summed over the
    batch. Where the batch type fixes enough, the pass decides:

    | query_len | context_len | form |
    |---|---|---|
    | any | 0 | expanded (absorbed if 2·Lkv < P + V) |
    | q | c | by the inequality |
    | q >= Sq* = Lkv(P+V)/(2·Lkv−P−V) | ? | expanded: it wins for every context |
    | q, absorbed wins with one cached token | ? | absorbed: it wins for every longer context; so decode |
    | else | ? | both, on a run-time condition |

    If 2·Lkv <= P + V and there is context, the absorbed form always wins.

    With `expand-from` = n the batch's longest query decides instead: from n new tokens on the expanded
    form, whatever is cached. A kv_lora_rank above `most-latent` is expanded, whatever it costs: a
    target's programs hold no wider sums of latents; of requests of one query, over rows that are no
    codes, one above `most-decoded-latent`.

    Before:
    ```mlir
    %out = mla.attention … over %cache, %batch : …, !mla.batch<query_len = ?, context_len = ?> …
    ```
    After (DeepSeek-V3):
    ```mlir
    %context = mla.batch_dim %batch "total_context_len"
    %pairs = mla.batch_dim %batch "attended_pairs"
    %up = arith.muli %context, %c131072 : index
    %extra = arith.muli %pairs, %c768 : index
    %expanded = arith.cmpi sle, %up, %extra : index
    %out = scf.if %expanded -> (tensor<?x128x128xbf16>) {
      %0 = mla.attention … {form = #mla.form<expanded>}
      scf.yield %0
    } else {
      %0 = mla.attention … {form = #mla.form<absorbed>}
      scf.yield %0
    } {mla.crossover_query_len = 170.66666666666666 : f64}
    ```

    Preconditions: none. An attention whose form is given already keeps it.
    Guarantee: no `mla.attention` has form auto (phase 2).
    Numerics: the forms are equal in real arithmetic and round at different
    places (mla.md section 6). Products of the condition are 64-bit.

    `report` prints, to standard error, FLOPs, bytes and predicted time of every
    variant at representative lengths, and the crossover; rates are those of the
    module's `mla.target` attribute (#mla.target), or of an H200 without one.
  }];
  let options = [
    Option<"form", "form", "::mlir::mla::Form", "::mlir::mla::Form::Auto",
           "form for every attention that leaves it open: auto (by cost), expanded or absorbed",
           [{::llvm::cl::values(
             clEnumValN(::mlir::mla::Form::Auto, "auto", "by cost, else at run time"),
             clEnumValN(::mlir::mla::Form::Expanded, "expanded", "keys and values per head"),
             clEnumValN(::mlir::mla::Form::Absorbed, "absorbed", "attend on the latents"))}]>,
    Option<"expandFrom", "expand-from", "int64_t", "0",
           "new tokens of the longest query from which on auto is expanded; 0: by cost">,
    Option<"mostLatent", "most-latent", "int64_t", "0",
           "kv_lora_rank of the absorbed form at most, wider ones are expanded; 0: any">,
    Option<"mostDecodedLatent", "most-decoded-latent", "int64_t", "0",
           "the same of requests of one query over rows that are no codes; 0: most-latent">,
    Option<"report", "report", "bool", "false",
           "print the cost of every form for each attention"> ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::mla::MlaDialect",
                           "::mlir::scf::SCFDialect"];
}

def MlaSharePrefix : Pass<"mla-share-prefix", "::mlir::ModuleOp"> {
  let summary = "attends once to a prefix that all requests share";
  let description = [{
    Requests that were forked from one, or that start with the same published blocks, have
    their first pages in common. For T query tokens together, S common keys cost
    Lkv(P+V) once and P+R+V per token and key in the expanded form, 2·Lkv+R per token and
    key in the absorbed one (times the heads). So from some number of tokens on it pays to
    attend to the prefix once for all of them, expanded, and to each request's own keys
    absorbed, and to merge by LSE (mla.md section 8).

    Before:
    ```mlir
    %o = mla.attention query(%q, …) … over %cache, %batch … {form = #mla.form<absorbed>}
    ```
    After:
    ```mlir
    %common = mla.batch_dim %batch "num_common_tokens"
    %n = …                                   // %common where it pays, else 0
    %shared, %own = mla.share_prefix %n of %batch
    %taken = mla.batch_dim %batch "num_shared_tokens"
    %shares = arith.cmpi sgt, %taken, %c0
    %o = scf.if %shares -> (tensor<?x128x128xbf16>) {
      %a, %a_lse = mla.attention query(%q, …) … over %cache, %own … {form = #mla.form<absorbed>}
      %b, %b_lse = mla.attention query(%q, …) … over %cache, %shared … {form = #mla.form<expanded>}
      %0 = mla.merge %a, %a_lse with %b, %b_lse
      scf.yield %0
    } else {
      %0 = mla.attention query(%q, …) … over %cache, %batch … {form = #mla.form<absorbed>}
      scf.yield %0
    }
    ```
    `n` is `common` if (SharedPrefixCost.h; in picoseconds of the module's `mla.target`)

        max(requests, ⌈tokens·N / rows⌉) · common · a
            > min(⌈items / num_sms⌉ · common · e, items · common · e / num_sms + s)
              + common · u + tokens · m + f                        items = ⌈tokens / turn⌉ · N

    with a for an absorbed tile of `rows` rows and one key, e for an expanded turn of
    `turn` tokens of a head, u for up-projecting a key, m for a token's way through the
    merge, f for launches, and s for splitting keys where turns would leave multiprocessors idle
    (mla-split-chunks). Of each of the two, what is saved is linear in `common` but for what is fixed, so that a
    prefix that does not pay does not pay when it is shorter. With `mode=always` it is `common`.

    The pass emits a remark with the least number of tokens for which it pays.

    Preconditions: forms are chosen. Only absorbed attentions in the function's body are
    rewritten: where both forms have been versioned, long queries share already.
    Guarantee: none. Numerics: as those of the forms; the own part is rounded to
    the activations' type before it is merged.
  }];
  let options = [
    Option<"mode", "mode", "::mlir::mla::SharePrefixMode", "::mlir::mla::SharePrefixMode::Auto",
           "when to attend to a shared prefix apart",
           [{::llvm::cl::values(
             clEnumValN(::mlir::mla::SharePrefixMode::Never, "never", "the pass does nothing"),
             clEnumValN(::mlir::mla::SharePrefixMode::Auto, "auto", "by predicted time"),
             clEnumValN(::mlir::mla::SharePrefixMode::Always, "always", "wherever there is one"))}]> ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::mla::MlaDialect",
                           "::mlir::scf::SCFDialect"];
}

def MlaAbsorbWeights : Pass<"mla-absorb-weights", "::mlir::ModuleOp"> {
  let summary = "decomposes absorbed attention and places its head projections";
  let description = [{
    Replaces `mla.attention` of form absorbed by `mla.absorbed_attention` on the
    cache, with q_lat = q_nope·W_UK before and o_lat·W_UV after it.

    Before:
    ```mlir
    %q_nope = mla.project %qc, %w_uq
    %out = mla.attention query(%q_nope, %q_pe) … weights(%w_uk, %w_uv) … {form = #mla.form<absorbed>}
    %y = mla.project %out, %w_o
    ```
    After, mode online:
    ```mlir
    %q_nope = mla.project %qc, %w_uq
    %q_lat = mla.head_project %q_nope, %w_uk contract_rows
    %o_lat = mla.absorbed_attention query(%q_lat, %q_pe) over %cache, %batch …
    %out = mla.head_project %o_lat, %w_uv
    %y = mla.project %out, %w_o
    ```
    After, mode offline:
    ```mlir
    %w_q_uk = mla.fold_query %w_uq, %w_uk
    %q_lat = mla.project %qc, %w_q_uk
    %o_lat = mla.absorbed_attention query(%q_lat, %q_pe) over %cache, %batch …
    %w_uv_o = mla.fold_output %w_uv, %w_o
    %y = mla.project %o_lat, %w_uv_o
    ```
    Attention to `selected` keys becomes mla.convert_indices and mla.sparse_attention over the pool; where it is
    `gathered`, a loop over chunks of whole requests, each of which is gathered and attended to:
    ```mlir
    %rows = mla.convert_indices %selected in %cache, %batch workspace
    %o_lat = scf.for %i = %c0 to %num_gathers step %c1 iter_args(%onto = %nothing) {
      %c, %k_pe = mla.gather %cache, %batch whole chunk %i
      %o = mla.sparse_attention query(%q_lat, %q_pe) rows(%rows) keys(%c, %k_pe) of %batch chunk %i onto %onto
    ```
    `half-query` folds only the query side, `half-output` only the output side.
    `auto` takes, among those that are possible, the one with the least predicted
    time on the module's `mla.target` (an H200 without one) for `requests`
    requests of the batch type's query_len (1 where dynamic). W_QR, the rope
    part of the query, is never absorbed.

    An attention inside an `scf.if` (both forms, from mla-choose-form) whose
    result is only projected by W_O: the projection is moved into both branches
    where the output side is folded. A W_UQ projection that other users share
    stays for them.

    With `requantize`, in a module with `mla.weight_scales`, what absorption multiplies by becomes codes in the blocks of the
    source's (mla.md section 7): the folded weights, or W_UK, turned so that what is contracted lies in columns, and W_UV:
    ```mlir
    %codes, %scales = mla.requantize %w_uk block [128, 128] transposed : …
    %w = mla.scaled_weight %codes, %scales block [128, 128] : …
    %q_lat = mla.head_project %q_nope, %w_heads : …
    ```
    A product whose columns are no multiple of 64, or whose depth is none of 128, and a block of other than 0 or 128
    columns, or of rows that are neither 0 (not beside 128 columns) nor 1 nor a multiple of 64, are errors.

    Preconditions: no attention has form auto; folding the query side needs
    q_nope from an `mla.project` without bias, folding the output side an output
    used by exactly one `mla.project`. An explicit mode that is impossible is an
    error.
    Guarantee: no `mla.attention` of form absorbed remains. Folded weights are
    computed in place, by mla-hoist-prepare moves them.
    Numerics: folding rounds the folded weight once and drops the rounding of
    q_nope and of the heads' outputs. With `requantize` it is rounded to e4m3 behind that.
  }];
  let options = [
    Option<"mode", "mode", "::mlir::mla::AbsorbMode", "::mlir::mla::AbsorbMode::Online",
           "where the head projections go",
           [{::llvm::cl::values(
             clEnumValN(::mlir::mla::AbsorbMode::Online, "online", "per-head products in the step"),
             clEnumValN(::mlir::mla::AbsorbMode::Offline, "offline", "folded on both sides"),
             clEnumValN(::mlir::mla::AbsorbMode::HalfQuery, "half-query", "folded into W_UQ only"),
             clEnumValN(::mlir::mla::AbsorbMode::HalfOutput, "half-output", "folded into W_O only"),
             clEnumValN(::mlir::mla::AbsorbMode::Auto, "auto", "least predicted time"))}]>,
    Option<"requests", "requests", "int64_t", "1",
           "requests per step that mode=auto assumes, at least 1">,
    Option<"requantize", "requantize", "bool", "false",
           "what absorption multiplies by becomes codes in the source's blocks">];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::mla::MlaDialect",
                           "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

def MlaGuardPadding : Pass<"mla-guard-padding", "::mlir::ModuleOp"> {
  let summary = "keeps a padded step from writing rows of padding";
  let description = [{
    A step may be padded to fixed sizes, so that a CUDA graph of it holds for every
    batch within them (mla_step_plan_padded). Its launches then cover rows that are
    no tokens. Appending skips them (their slots are negative) and attention has no
    request for them; only the last projection would write them. In functions with
    `mla.decode_threshold` or `mla.decodes_of`, results that are made by mla.project and marked
    `mla.output` go through mla.keep_rows if the step is padded.

    Before:
    ```mlir
    %y = mla.project %o, %w_o : …
    return %y
    ```
    After:
    ```mlir
    %is_padded = mla.batch_dim %batch "is_padded"
    %guards = arith.cmpi ne, %is_padded, %c0 : index
    %y = scf.if %guards -> (tensor<?x7168xbf16>) {
      %all = mla.project %o, %w_o : …
      %kept = mla.keep_rows %all, %batch
      scf.yield %kept
    } else {
      %all = mla.project %o, %w_o : …
      scf.yield %all
    }
    return %y
    ```

    Preconditions: after mla-absorb-weights, which wants to see the projection.
    Guarantee: such a function writes no row of padding. Numerics: none.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::mla::MlaDialect",
                           "::mlir::scf::SCFDialect"];
}

def MlaHoistPrepare : Pass<"mla-hoist-prepare", "::mlir::ModuleOp"> {
  let summary = "moves weight-only computation into @prepare";
  let description = [{
    A value is *weight-only* if it is computed by pure operations from arguments
    marked `mla.weight` alone. Weight-only values that cost something (all but
    views: expand_shape, collapse_shape, extract_slice) and that a step needs
    become results of `@prepare`, marked `mla.derived = "name"`, and arguments of
    the step, marked likewise. The runtime runs `@prepare` once when weights are
    bound.

    Before:
    ```mlir
    func.func @decode(…, %w_uq: … {mla.weight = "q_b_proj.weight"}, %w_uk: … {mla.weight = "kv_b_proj.weight"}) {
      %w = mla.fold_query %w_uq, %w_uk
      %q_lat = mla.project %qc, %w
    ```
    After:
    ```mlir
    func.func @prepare(%0: … {mla.weight = "q_b_proj.weight"}, %1: … {mla.weight = "kv_b_proj.weight"})
        -> (… {mla.derived = "w_q_uk"}) {
      %w = mla.fold_query %0, %1
      return %w
    }
    func.func @decode(…, %w: … {mla.derived = "w_q_uk"}) {
      %q_lat = mla.project %qc, %w
    ```

    Steps that derive the same value share it. Names: `w_q_uk` for fold_query,
    `w_uv_o` for fold_output, else the operation's name; a second, different value
    of that name gets `_1`, and so on. New arguments are appended. Weight
    arguments stay, used or not: the raw weights are kept beside the derived ones.

    Preconditions: no function is called @prepare unless there is nothing to
    move; a weight's name has one type in all functions.
    Guarantee: no step function computes a weight-only value other than a view.
    Numerics: unchanged.
  }];
  let dependentDialects = ["::mlir::func::FuncDialect"];
}

def MlaChunkContext : Pass<"mla-chunk-context", "::mlir::ModuleOp"> {
  let summary = "decomposes expanded attention: new tokens, then context in chunks";
  let description = [{
    Replaces `mla.attention` of form expanded by the steps of mla.md section 9.

    Before:
    ```mlir
    %out = mla.attention query(%q_nope, %q_pe) latent(%c, %k_pe) weights(%w_uk, %w_uv)
        over %cache, %batch scale σ {form = #mla.form<expanded>}
    ```
    After:
    ```mlir
    %k = mla.project %c, %w_uk
    %v = mla.project %c, %w_uv
    %chunks = mla.batch_dim %batch "num_chunks"
    %has_context = arith.cmpi sgt, %chunks, %c0 : index
    %out = scf.if %has_context -> (tensor<?x128x128xbf16>) {
      %new, %new_lse = mla.expanded_attention query(%q_nope, %q_pe) keys(%k, %k_pe) values(%v) over %batch …
      %none, %none_lse = mla.empty_partial %batch
      %ctx:2 = scf.for %i = %c0 to %chunks step %c1 iter_args(%acc = %none, %acc_lse = %none_lse) {
        %ci, %pi = mla.gather %cache, %batch chunk %i
        %ki = mla.project %ci, %w_uk
        %vi = mla.project %ci, %w_uv
        %oi, %li = mla.expanded_attention query(%q_nope, %q_pe) keys(%ki, %pi) values(%vi) over %batch chunk %i …
        %o, %l = mla.merge %acc, %acc_lse with %oi, %li
        scf.yield %o, %l
      }
      %0 = mla.merge %ctx#0, %ctx#1 with %new, %new_lse
      scf.yield %0
    } else {
      %0 = mla.expanded_attention query(%q_nope, %q_pe) keys(%k, %k_pe) values(%v) over %batch …
      scf.yield %0
    }
    ```
    Over a shared prefix (mla.share_prefix) there are no new tokens: the first chunk
    starts the loop, which goes over the others.

    With `!mla.batch<context_len = 0>` only the attention over new tokens is
    made, without LSE (unless the LSE is wanted); with another static
    context_len only the branch with context.

    Partials are f32 with token-major LSE. The first merge joins a chunk with the
    empty partial, which returns the chunk exactly.

    Preconditions: no attention has form auto.
    Guarantee: no `mla.attention` of form expanded remains. Memory for
    up-projected keys and values is bounded by one chunk (dim `chunk_tokens`).
    Numerics: the result is the one-shot result up to f32 rounding of the merges,
    for any chunk size; partials are not rounded to the activation type.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::mla::MlaDialect",
                           "::mlir::scf::SCFDialect"];
}

def MlaFuseMerge : Pass<"mla-fuse-merge", "::mlir::ModuleOp"> {
  let summary = "lets attention go on from the partial that it would be merged with";
  let description = [{
    A merge reads two partials; one of them expanded attention has just written. It
    can start from the other instead (`onto`), and write the merge's result.

    Before:
    ```mlir
    %new, %new_lse = mla.expanded_attention query(%q) keys(%k) values(%v) over %batch …
    %ctx:2 = scf.for %i = … iter_args(%acc = %none, %acc_lse = %none_lse) {
      %oi, %li = mla.expanded_attention query(%q) keys(%ki) values(%vi) over %batch chunk %i …
      %o, %l = mla.merge %acc, %acc_lse with %oi, %li
      scf.yield %o, %l
    }
    %0 = mla.merge %ctx#0, %ctx#1 with %new, %new_lse -> tensor<?x128x128xbf16>
    ```
    After:
    ```mlir
    %ctx:2 = scf.for %i = … iter_args(%acc = %none, %acc_lse = %none_lse) {
      %o, %l = mla.expanded_attention query(%q) keys(%ki) values(%vi) over %batch chunk %i onto(%acc, %acc_lse) …
      scf.yield %o, %l
    }
    %0 = mla.expanded_attention query(%q) keys(%k) values(%v) over %batch onto(%ctx#0, %ctx#1) …
      -> tensor<?x128x128xbf16>
    ```

    Cost, in bytes of a row (one token of one head, V columns of f32 and an LSE):

    | | attention | merge | both |
    |---|---|---|---|
    | apart | write 4V + 4 | read 8V + 8, write the result | 12V + 12 and the result |
    | fused | read 4V + 4, write the result | | 4V + 4 and the result |

    and a launch less; the one read left runs under the first scores. So what is
    legal pays: the attention stands in the merge's block (it moves to the merge's
    place), the merge alone uses its results (else it would be computed twice), it
    has no partial yet, the other partial is f32, and the result has a type that
    attention can write. If both partials are such attentions, the second goes on.

    Preconditions: none; useful behind mla-chunk-context. Guarantee: no merge of that
    kind remains. Numerics: the merge's weights become those of the online softmax;
    both are f32.
  }];
  let dependentDialects = ["::mlir::mla::MlaDialect"];
}

def MlaSplitChunks : Pass<"mla-split-chunks", "::mlir::ModuleOp"> {
  let summary = "splits attention over chunks of context";
  let description = [{
    Expanded attention has a program for `program_rows` queries of a head, which goes over all keys
    of a chunk. Few heads and new tokens leave multiprocessors idle; the keys are split then. The
    number of splits is computed at run time. For S splits of the longest request's `blocks`

        longest  = min(chunk_capacity, max_context_len)
        items    = N · ⌈max_query_len / program_rows⌉ · ⌈chunk_tokens / longest⌉
        blocks   = ⌈longest / block_keys⌉
        time(S)  = ⌈items · S / num_sms⌉ · (⌈blocks / S⌉ · block + item_cycles)
                   + (merge_cycles + S · turn_cycles + T · N · S · partial, where S > 1)

    are cycles, where a block is 2 · program_rows · block_keys · (P + R + V) operations at
    `flops_per_cycle` and the partial of a row 8 · V bytes at `bytes_per_cycle`. S is 1, or what fills 1/4, 1/2 or 1
    to 8 waves of programs, whichever takes the least time: ⌊waves · num_sms / items⌋, at most
    `blocks` and 8 · num_sms · program_rows / (T · N), what bounds the workspace of partials.

    Before:
    ```mlir
    %o, %l = mla.expanded_attention query(%q) keys(%k) values(%v) over %batch chunk %i onto(%acc, %acc_lse) scale σ
    ```
    After:
    ```mlir
    %o, %l = mla.expanded_attention query(%q) keys(%k) values(%v) over %batch chunk %i onto(%acc, %acc_lse)
        splits %s scale σ
    ```
    `num-splits=N` forces a constant; 1 leaves the module as it is.

    Preconditions: none; useful behind mla-fuse-merge. An attention that has a split count keeps it.
    Guarantee: with num-splits other than 1 every expanded attention over a chunk has a split count.
    Numerics: splits merge in ascending order in f32, deterministically for a
    given batch and machine; the number of splits changes rounding.
  }];
  let options = [
    Option<"numSplits", "num-splits", "int64_t", "0",
           "number of splits; 0: from the batch's and the machine's sizes">,
    Option<"programRows", "program-rows", "int64_t", "128", "queries of a head that one program handles">,
    Option<"blockKeys", "block-keys", "int64_t", "128", "keys of one step of a program">,
    Option<"flopsPerCycle", "flops-per-cycle", "double", "3500",
           "operations that a multiprocessor does in a clock cycle within a block">,
    Option<"itemCycles", "item-cycles", "int64_t", "4000", "cycles of a program beside its blocks">,
    Option<"mergeCycles", "merge-cycles", "int64_t", "3000", "cycles that merging takes at least">,
    Option<"turnCycles", "turn-cycles", "int64_t", "1000",
           "cycles that a merge waits for each of a row's partials">,
    Option<"bytesPerCycle", "bytes-per-cycle", "double", "1450",
           "bytes of partials that the machine writes or reads in a clock cycle">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::mla::MlaDialect"];
}

def MlaSplitKv : Pass<"mla-split-kv", "::mlir::ModuleOp"> {
  let summary = "splits attention over the cached tokens";
  let description = [{
    A decode step has too few query tiles to fill a machine, so the KV range of
    every request is split, and the partials are merged. The number of splits is
    computed at run time:

        tiles  = num_requests · Nkv · ⌈max_query_len · N / Nkv / tile_rows⌉, absorbed with Nkv = 1
        blocks = ⌈max_seq_len / block_tokens⌉, behind a shared prefix without its blocks, of
                 min(max_seq_len, window + max_query_len - 1) tokens where there is a window
        splits = min(max(⌊num_sms / tiles⌋, 1), max(⌈blocks / min_split_blocks⌉, 1), max_splits)

    A merge takes as long as `merge_blocks` blocks and one more for each `partial_rows_per_block`
    rows of partials. With merge_blocks > 0 splits is 1 where a program does not save more blocks:

        blocks - ⌈blocks / splits⌉ <= merge_blocks + num_tokens · N · splits / partial_rows_per_block

    Of attention over a list of K rows (mla.sparse_attention over a batch) the lists are split:
    tiles = num_tokens · ⌈N / tile_rows⌉, blocks = ⌈K / block_tokens⌉. Its sink goes to the merge.

    Before:
    ```mlir
    %o = mla.absorbed_attention query(%q_lat, %q_pe) over %cache, %batch scale σ
    ```
    After:
    ```mlir
    %many = arith.cmpi sgt, %splits, %c1 : index
    %o = scf.if %many -> (tensor<?x128x512xbf16>) {
      %p, %p_lse = mla.absorbed_attention query(%q_lat, %q_pe) over %cache, %batch splits %splits scale σ
      %0 = mla.merge_splits %p, %p_lse
      scf.yield %0
    } else {
      %0 = mla.absorbed_attention query(%q_lat, %q_pe) over %cache, %batch scale σ
      scf.yield %0
    }
    ```
    `num-splits=N` forces a constant: 1 leaves the operation as it is, more makes
    the split branch alone.

    Preconditions: none. An attention that has a split count keeps it. The pass
    is not idempotent by itself: a branch it made without a split count is marked
    `mla.unsplit` and left alone.
    Guarantee: every attention over a batch that it is asked for has a split count or
    `mla.unsplit` (phase 4).
    Numerics: splits merge in ascending order in f32, deterministically for a
    given batch and machine; the number of splits changes rounding.
  }];
  let options = [
    Option<"numSplits", "num-splits", "int64_t", "0",
           "number of splits; 0: from the batch's and the machine's sizes">,
    Option<"tileRows", "tile-rows", "int64_t", "64",
           "query rows (token, head) that one program handles">,
    Option<"blockTokens", "block-tokens", "int64_t", "64",
           "tokens of one KV block, the granule of a split">,
    Option<"minSplitBlocks", "min-split-blocks", "int64_t", "2",
           "KV blocks per split below which splitting further does not pay">,
    Option<"maxSplits", "max-splits", "int64_t", "160",
           "upper bound of splits per request">,
    Option<"mergeBlocks", "merge-blocks", "int64_t", "0",
           "KV blocks whose time merging takes at least; 0: split wherever programs are missing">,
    Option<"partialRowsPerBlock", "partial-rows-per-block", "int64_t", "1",
           "rows of partials whose merging takes one block's time">,
    Option<"listsOnly", "lists-only", "bool", "false",
           "leave attention over requests alone: the runtime partitions it">];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::mla::MlaDialect",
                           "::mlir::scf::SCFDialect"];
}

def MlaSliceScores : Pass<"mla-slice-scores", "::mlir::ModuleOp"> {
  let summary = "computes an indexer's scores in slices of the tokens";
  let description = [{
    Scores of all new tokens and all keys, of which nothing but a selection is made, are T·S·4 bytes.

    Before:
    ```mlir
    %scores = mla.index_scores query(%q) weights(%w) over %cache, %batch
    %selected = mla.top_k %scores over %batch k 2048
    ```
    After:
    ```mlir
    %none = tensor.empty(%T)
    %selected = scf.for %i = %c0 to %slices step %c1 iter_args(%before = %none) {
      %first = arith.muli %i, %rows
      %scores = mla.index_scores query(%q) weights(%w) over %cache, %batch from %first rows %rows
      %next = mla.top_k %scores over %batch from %first onto(%before) k 2048
      scf.yield %next
    }
    ```
    A slice has as many rows as fit into `budget` with the keys of the longest request, in whole
    tiles of 64, one at least; most steps are one slice. Scores that are used otherwise stay whole, and
    so do those of a static query_len: decodes have few tokens.

    Preconditions: none.
    Guarantee: scores of a selection over a batch of any lengths take at most `budget` bytes, or 64 rows.
    Numerics: the same bits.
  }];
  let options = [
    Option<"budget", "budget", "int64_t", "::mlir::mla::kScoresBudget", "bytes of scores at a time">];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::mla::MlaDialect",
                           "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

def MlaJoinProjections : Pass<"mla-join-projections", "::mlir::ModuleOp"> {
  let summary = "makes one product of two whose weights lie together";
  let description = [{
    The keys and the values of expanded attention are made from the same latents, by the two parts of one
    weight's rows of a head. Apart they are two products, each of which reads the latents.

    Before:
    ```mlir
    %wk = tensor.extract_slice %w[0, 0, 0] [128, 128, 512] [1, 1, 1] : tensor<128x256x512xbf16> to …
    %wv = tensor.extract_slice %w[0, 128, 0] [128, 128, 512] [1, 1, 1] : tensor<128x256x512xbf16> to …
    %k = mla.project %c, %wk …
    %v = mla.project %c, %wv …
    ```
    After:
    ```mlir
    %kv = mla.project %c, %w … -> tensor<?x128x256xbf16>
    %k = tensor.extract_slice %kv[0, 0, 0] [%tokens, 128, 128] [1, 1, 1] : …
    %v = tensor.extract_slice %kv[0, 0, 128] [%tokens, 128, 128] [1, 1, 1] : …
    ```

    | | launches | bytes read |
    |---|---|---|
    | apart | 2 | 2 · T · L of latents, the weight |
    | joined | 1 | T · L of latents, the weight |

    It is done where the second weight begins at the row of each head where the first ends, both projections
    stand in one block, neither has a bias, and all who use the results take rows of any
    stride: `mla.head_project`, `mla.rope` and `mla.expanded_attention`.

    Preconditions: none; useful behind mla-absorb-weights and mla-chunk-context, which make such
    projections. Guarantee: no such pair remains. Numerics do not change.
  }];
  let dependentDialects = ["::mlir::mla::MlaDialect", "::mlir::tensor::TensorDialect"];
}

def MlaFuseAppend : Pass<"mla-fuse-append", "::mlir::ModuleOp"> {
  let summary = "normalises, rotates and appends a token's row at once";
  let description = [{
    A latent and its rope key go to the cache: three kernels, between which the row is written to
    memory and read again, for a few hundred elements each.

    Before:
    ```mlir
    %c, %tail = mla.latent_project %h, %w, %gamma eps 1.0e-6 …
    %k_pe = mla.rope %tail, %table, %batch with <order = interleaved, dim = 64, …> …
    %after = mla.append %c, %k_pe into %cache, %batch …
    ```
    After:
    ```mlir
    %after = mla.latent_append %h, %w, %gamma eps 1.0e-6
      rope %table with <order = interleaved, dim = 64, …> into %cache, %batch …
    ```

    | | launches | bytes of a row of 512 + 64 bf16 |
    |---|---|---|
    | apart | product, norm, rotation, append | product 1152 w; then 1152 r, 1152 w twice |
    | fused | product, row | product 1152 w; then 1152 r, 1152 w |

    What something else reads of them, as a prompt's expanded keys do, is `kept` as tensors.

    It is done where the rotation is the whole tail's, one append has both, the latent is no codes,
    the cache stores rows as they are, as codes of one scale or latents as codes of groups, its
    table and cache are known where the projection stands (the write moves there), and a program of
    `target` can hold the latent and half of the rope key as one tile (TileShapes::canHoldRow; on a
    CPU none does).

    Preconditions: none; behind mla-absorb-weights and mla-chunk-context, which may read the latent as a
    tensor. Guarantee: no such projection remains. Numerics: the bytes that the three kernels write.
  }];
  let options = [
    Option<"target", "target", "::mlac::TileTarget", "::mlac::TileTarget::Cpu",
           "machine whose tile shapes decide", "::mlac::getTileTargetValues()">];
  let dependentDialects = ["::mlir::mla::MlaDialect"];
}

def MlaFuseGroupedAppend : Pass<"mla-fuse-grouped-append", "::mlir::ModuleOp"> {
  let summary = "rotates queries and keys of groups of heads and appends at once";
  let description = [{
    Keys of heads are rotated and go to the cache and nowhere else, beside their values, and queries
    are rotated by the same angles: three or four launches that one does. Norms of heads of both that
    are alike are done with it (`norms`), two launches less.

    Before:
    ```mlir
    %rotated = mla.rope %q, %table, %batch with <order = half, dim = 128, …> …
    %k_rope = mla.rope %k, %table, %batch with <order = half, dim = 128, …> …
    %after = mla.append %k_rope, %v into %cache, %batch …
    ```
    After:
    ```mlir
    %rotated, %after = mla.grouped_append %q, %k, %v
      rope %table with <order = half, dim = 128, …> offset 0 into %cache, %batch …
    ```

    | | launches | bytes of a token's keys, heads of 128 bf16 |
    |---|---|---|
    | apart | rotations, append | 256 r, 256 w; then 256 r, 256 w |
    | fused | one | 256 r, 256 w |

    It is done where both rotations have the same table and channels and are no inverse, the rotated keys have no other
    use, and nothing uses the rotated queries or the cache before the append, where the operation will stand. Values of
    a pool of their own are taken along if they are appended in the same block. Norms are taken along if they have
    gammas and one epsilon, if nothing else reads what they form, and if `target` holds all channels of a head.

    Preconditions: none. Guarantee: no such append remains. Numerics: the same bits; with norms, heads are not rounded
    between norm and rotation.
  }];
  let options = [
    Option<"target", "target", "::mlac::TileTarget", "::mlac::TileTarget::Cpu",
           "machine whose tile shapes decide", "::mlac::getTileTargetValues()">];
  let dependentDialects = ["::mlir::mla::MlaDialect"];
}

def MlaFuseRows : Pass<"mla-fuse-rows", "::mlir::ModuleOp"> {
  let summary = "norm, rotation and append of rows in one pass over a row";
  let description = [{
    Between the products of a DeepSeek-V4 layer and its attention stand chains of kernels of a few hundred
    elements a row, each of which waits for the one before.

    Before:
    ```mlir
    %n = mla.rms_norm %q eps 1.0e-6 : tensor<?x64x512xbf16> -> tensor<?x64x512xf32>
    %q_rope = mla.rope %n, %table, %batch with <…> offset 448 …
    %e = mla.rms_norm %pooled, %gamma eps 1.0e-6 : tensor<?x512xf32>, tensor<512xf32> -> tensor<?x512xf32>
    %r = mla.rope %e, %table, %batch with <…> offset 448 every 4 … -> tensor<?x512xbf16>
    %after = mla.append %r into %entries, %batch …
    %b = mla.add_position_bias %gates, %bias, %batch …
    %states = mla.append %kv, %b into %pool, %batch …
    %n, %keys = mla.seen_keys %batch window 128 …
    %rows = mla.convert_indices %keys in %cache, %batch …
    ```
    After:
    ```mlir
    %q_rope = mla.norm_rope %q eps 1.0e-6 rope %table, %batch with <…> offset 448 …
    %after = mla.rope_append %pooled gamma(%gamma : tensor<512xf32>) eps 1.0e-6 rope %table with <…> offset 448 every 4 into %entries, %batch …
    %states = mla.bias_append %kv, %gates bias %bias into %pool, %batch …
    %n, %rows = mla.seen_keys %batch window 128 in %cache …
    ```

    It is done where no value in between has another use, a norm gives f32 (which is not rounded between), pools keep
    rows as they are or with one scale, and a program of `target` can hold a row.

    Preconditions: none. Guarantee: no such chain remains. Numerics: a norm's sum of squares in another order.
  }];
  let options = [
    Option<"target", "target", "::mlac::TileTarget", "::mlac::TileTarget::Cpu",
           "machine whose tile shapes decide", "::mlac::getTileTargetValues()">];
  let dependentDialects = ["::mlir::mla::MlaDialect"];
}

def MlaFuseIndexer : Pass<"mla-fuse-indexer", "::mlir::ModuleOp"> {
  let summary = "an indexer's keys in one pass over a row, and its queries in one";
  let description = [{
    Between the products of an indexer and its scores stand six kernels of a few hundred elements a
    token, each of which waits for the one before.

    Before:
    ```mlir
    %n = mla.layer_norm %k, %weight, %bias epsilon 1.0e-6 …
    %r = mla.rope %n, %table, %batch with <…> offset 0 …
    %after = mla.append %r into %index, %batch …
    %p = mla.rope %q, %table, %batch with <…> offset 0 …
    %q8, %s = mla.quantize %p group 128 rule <power_of_two> floor 1.0e-38 amax_floor 1.0e-4 …
    %w = mla.index_weights %x, %s factor 1.1e-2 …
    ```
    After:
    ```mlir
    %after = mla.index_append %k, %weight, %bias epsilon 1.0e-6 rope %table with <…> offset 0 into %index, %batch …
    %q8, %w = mla.index_query %q, %x factor 1.1e-2 rope %table, %batch with <…> offset 0
      rule <power_of_two> floor 1.0e-38 amax_floor 1.0e-4 …
    ```

    | | launches | bytes of a key of 128 bf16, and of 64 queries |
    |---|---|---|
    | apart | 6 | 256 r, 256 w three times; 16 KiB r three times, 16 KiB w, 8 KiB w |
    | fused | 2 | 256 r, 132 w; 16 KiB r, 8 KiB w |

    It is done where no value in between has another use, keys and queries have one scale a row, are not
    rotated by mla.hadamard, and pairs and other channels are whole tiles of `target`.

    Preconditions: none. Guarantee: no such chain remains. Numerics: rows are not rounded
    between their steps.
  }];
  let options = [
    Option<"target", "target", "::mlac::TileTarget", "::mlac::TileTarget::Cpu",
           "machine whose tile shapes decide", "::mlac::getTileTargetValues()">];
  let dependentDialects = ["::mlir::mla::MlaDialect"];
}

def MlaKeepCodes : Pass<"mla-keep-codes", "::mlir::ModuleOp"> {
  let summary = "lets products read weights as the codes that a checkpoint stores";
  let description = [{
    A module that says `mla.weight_scales` computes on weights that are dequantised when they are bound. Few rows are
    bound by the weights' bytes, which are half as many as codes.

    Before:
    ```mlir
    func.func @decode(%w: tensor<7168x16384xbf16> {mla.weight = "o_proj.weight"}, …) {
      %y = mla.project %o, %w : tensor<?x128x128xbf16>, tensor<7168x16384xbf16> -> tensor<?x7168xbf16>
    ```
    After:
    ```mlir
    func.func @decode(%c: tensor<7168x16384xf8E4M3FN> {mla.weight = "o_proj.weight"}, …
                      %s: tensor<56x128xf32> {mla.weight = "o_proj.weight_scale_inv"}) {
      %w = mla.scaled_weight %c, %s block [128, 128] : …
      %y = mla.project %o, %w : …
    ```

    It is done for a matrix all of whose uses, in all functions, are weights of `mla.project` and
    `mla.latent_project`, whole or in slices of rows that begin and end at multiples of 64 rows, where the
    scales are one of the tensor, of rows, or of blocks of one row or a multiple of 64 by 128 columns. What else reads a weight
    (attention, which splits W_UK and W_UV off kv_b) has it in 16 bits. With `latents-only` projections are left alone whose weights
    will be folded into others; with `ranks` above 1 a matrix that is cut between them keeps codes where the cut is one
    between blocks. With `machine` a matrix is kept where its products are predicted to take less time there
    (`predictCodesShare`), those of all functions counted alike: of 1 to 128 rows where queries have a fixed length, else of prompts.

    Preconditions: before mla-choose-form. Guarantee: none but that of the conversion. Numerics: weights are
    not rounded to the activations' type.
  }];
  let options = [
    Option<"latentsOnly", "latents-only", "bool", "false", "only weights of latent projections">,
    Option<"ranks", "ranks", "int64_t", "1", "ranks that share the heads">,
    Option<"machine", "machine", "std::string", "\"\"", "whose cost decides; none: all are kept">];
  let dependentDialects = ["::mlir::mla::MlaDialect"];
}

def MlaQuantizeActivations : Pass<"mla-quantize-activations", "::mlir::ModuleOp"> {
  let summary = "lets products with weights of codes read activations as codes, too";
  let description = [{
    Products of codes and codes run at twice the rate of the tensor cores, and nothing is turned into operands.

    Before:
    ```mlir
    %w = mla.scaled_weight %c, %s block [128, 128] : …
    %q, = mla.latent_project %x, %wa, %gamma eps 1.0e-6 : …
    %y = mla.project %q, %w : …
    %z = mla.project %o, %w2 : …
    ```
    After:
    ```mlir
    %q, = mla.latent_project %xc, %wa, %gamma eps 1.0e-6 {codes_group = 128} : …
    %y = mla.project %q, %w : …
    %oc = mla.coded_rows %o group 128 : …
    %z = mla.project %oc, %w2 : …
    ```

    A tensor is quantised once for all products that read it. A latent that nothing else reads is so where its norm
    is computed, in the same pass over the row. What is codes already stays: the pass runs again where later ones have
    made weights codes (mla-absorb-weights). With `group` 0 a token has one scale, beside weights that have one for the
    matrix or for each of its rows (mla.md section 7).

    Preconditions: weights of codes (mla-keep-codes) have scales of `group` columns; others are an error that names the block. Guarantee: no
    product multiplies values with codes. Numerics: activations are rounded to e4m3, in groups with a scale each.
  }];
  let options = [Option<"group", "group", "int64_t", "128", "columns that have one scale; 0: all of a token">];
  let dependentDialects = ["::mlir::mla::MlaDialect"];
}

def MlaStackProjections : Pass<"mla-stack-projections", "::mlir::ModuleOp"> {
  let summary = "makes one product of projections of the same rows";
  let description = [{
    Queries, keys and values of grouped attention are three projections of the same rows, and so are the queries of
    attention and those of its indexer. Apart, the narrow ones leave most of the machine idle, and each reads the rows again.

    Before:
    ```mlir
    %q = mla.project %x, %wq : tensor<?x4096xbf16>, tensor<32x128x4096xbf16> -> tensor<?x32x128xbf16>
    %k = mla.project %x, %wk : tensor<?x4096xbf16>, tensor<8x128x4096xbf16> -> tensor<?x8x128xbf16>
    ```
    After (weights stay where they are: a kernel reads each where its columns begin):
    ```mlir
    %w = tensor.concat dim(0) %wq2, %wk2 : (tensor<4096x4096xbf16>, tensor<1024x4096xbf16>) -> tensor<5120x4096xbf16>
    %all = mla.project %x, %w : tensor<?x4096xbf16>, tensor<5120x4096xbf16> -> tensor<?x5120xbf16>
    %q2 = tensor.extract_slice %all[0, 0] [%tokens, 4096] [1, 1] : …
    %q = tensor.expand_shape %q2 … : … into tensor<?x32x128xbf16>
    ```

    | 1 token, 5120 of depth, 5120 + 1280 + 1280 columns | launches | programs |
    |---|---|---|
    | apart | 3 | 80, 40, 40 |
    | stacked | 1 | 120 |

    They are stacked where they stand in one block, all have a bias or none, weights are all codes or none,
    matrices or the heads of one, of whole tiles of 64 columns but for the last, together of rows of whole 16 bytes, and where all who use the results
    take rows of any stride: `mla.grouped_append`, `mla.rope`, `mla.norm_rope`, `mla.rms_norm`, `mla.head_project` and
    `mla.index_query`; and where one of them by itself has too few columns to keep the machine busy: two that are wide enough run side by side
    (DeepSeek-V3.2's 24576 and 8192 columns; stacked, 1 and 16 requests take 2 % longer). Whether many rows are multiplied as one is the conversion's choice, by cost.

    Preconditions: none; useful behind mla-fuse-grouped-append and mla-sum-parts. Guarantee: no two such projections
    remain. Without a target of tiles for few rows (the CPU) nothing changes. Numerics do not change.
  }];
  let options = [
    Option<"target", "target", "::mlac::TileTarget", "::mlac::TileTarget::Cpu",
           "machine whose tiles of few rows decide", "::mlac::getTileTargetValues()">];
  let dependentDialects = ["::mlir::mla::MlaDialect", "::mlir::tensor::TensorDialect"];
}

def MlaSumParts : Pass<"mla-sum-parts", "::mlir::ModuleOp"> {
  let summary = "cuts the depth of latent projections whose columns are too few";
  let description = [{
    A product of few rows reads its weights once, and needs as many programs as read memory
    at full rate (`busyPrograms` of the machine, 112 on an H200). Tiles of 64 columns
    of a latent are far fewer: 576 columns are 9. So the query's and the keys' projection
    become one product where they can, and its depth is cut until there are enough programs, at most `depthParts`
    times (16 on an H200: each part is a row more that the sum reads).

    Before:
    ```mlir
    %cq = mla.latent_project %h, %w_q_a, %gamma_q … : tensor<?x7168xbf16>, tensor<1536x7168xbf16>, …
    %after = mla.latent_append %h, %w_kv_a, %gamma_kv … : tensor<?x7168xbf16>, tensor<576x7168xbf16>, …
    ```
    After (33 tiles of 64 columns, four parts: 132 programs):
    ```mlir
    %cq, %after = mla.sum_parts 4 -> tensor<?x1536xbf16>, !cache {
      %0 = mla.latent_project %h, %w_q_a, %gamma_q …
      %1 = mla.latent_append %h, %w_kv_a, %gamma_kv …
      mla.yield %0, %1 : …
    }
    ```

    Projections are joined where they have the same input and no bias, the columns in front of each are whole tiles
    of 64, nothing between them sees a cache, and the operands of all are known where the first
    stands. Those without a norm (`mla.project`: an indexer's keys and weights of heads) join where their columns are
    too few to keep the machine busy by themselves, however they are cut; the number of parts is then the one
    whose turns of programs take the least of the depth (36 tiles on 132 multiprocessors: 7 and not 4). It is that
    of at most 64 rows; more rows are one product, too, as far as that is fastest, in parts that the conversion
    chooses for each range of rows. A projection is cut where a program of `target` can hold its rows, and by whole
    blocks of the depth (chooseDepthParts in ProductCost.h). Thresholds are those of the machine
    that the module's `mla.target` names, if it is one of the target's chip, else of the first
    known one of it. On a CPU, whose products read weights row by row, nothing is cut.

    Preconditions: none; behind mla-fuse-append. Guarantee: every latent projection that is
    cut stands in an `mla.sum_parts`. Numerics: the sum of parts is f32 and not rounded
    before the norm, the sum of a whole depth is rounded to the norm's type; the order of sums is fixed.
  }];
  let options = [
    Option<"target", "target", "::mlac::TileTarget", "::mlac::TileTarget::Cpu",
           "machine whose tile shapes and measured numbers decide",
           "::mlac::getTileTargetValues()">];
  let dependentDialects = ["::mlir::mla::MlaDialect"];
}

#endif // MLA_DIALECT_MLA_TRANSFORMS_PASSES
