//===- Passes.td - passes that import models -----------------*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_IMPORT_PASSES
#define MLA_IMPORT_PASSES

include "mlir/Pass/PassBase.td"

def ImportConfig : Pass<"mla-import-config", "::mlir::ModuleOp"> {
  let summary = "replaces the module's content by the layer of a config.json";
  let description = [{
    Reads a Hugging Face `config.json` and puts the `mla` functions of one of its
    attention layers into the module, as `mla-compile` does at its start:
    `@prefill` (any number of new tokens per request) and `@decode` (one), and with
    a `decode-threshold` also `@step`, for batches of both (mla-split-batch). What
    the module held before is erased.

    After, for a model with a query latent (types shortened):
    ```mlir
    func.func @decode(%hidden: tensor<?x7168xbf16> {mla.input = "hidden"},
        %batch: !mla.batch<query_len = 1>, %cache: !mla.cache<...>,
        %w: tensor<1536x7168xbf16> {mla.weight = "q_a_proj.weight"}, ...)
        -> (tensor<?x7168xbf16> {mla.output = "output"}, !mla.cache<...>) {
      %table = mla.rope_table #mla.rope<...>
      %qc = mla.latent_project %hidden, %w, %gamma eps 1.000000e-06
      %q_nope = mla.project %qc, %w_uq
      %q_raw = mla.project %qc, %w_qr
      %q_pe = mla.rope %q_raw, %table, %batch with #mla.rope<...>
      %latent, %k_raw = mla.latent_project %hidden, %w_kv_a, %gamma_kv eps 1.000000e-06
      %k_pe = mla.rope %k_raw, %table, %batch with #mla.rope<...>
      %appended = mla.append %latent, %k_pe into %cache, %batch
      %o = mla.attention query(%q_nope, %q_pe) latent(%latent, %k_pe)
             weights(%w_uk, %w_uv) over %appended, %batch scale 1.352338e-01
      %y = mla.project %o, %w_o
      return %y, %appended
    }
    ```
    w_uq, w_qr, w_uk and w_uv are slices of the checkpoint's q_b_proj (or q_proj)
    and kv_b_proj.

    For a model with an indexer (DeepSeek-V3.2, GLM-5) each token attends to the
    `index_topk` keys that the indexer selects (sparse.md sections 1 to 5): its keys lie in a
    second pool, `index`, and mla.attention takes the positions as `selected`. Where layers
    share a selection it is a result as well (`selected`), and with indexer = shared an
    input in its place. With indexer = none the functions compute dense attention, which
    equals the model's up to `index_topk` tokens; the length of the rotary table is
    reduced to that, so that a runtime refuses longer sequences, and a warning says so.

    DeepSeek-V4 has layers of three kinds (v4.md section 1); `layer` says which one. Its keys are
    values too: those of a window in the first pool and, of layers with entries of several tokens,
    those in the pool `entries`, made of what the pool `states` keeps of the last tokens. Where
    entries are selected, `index` and `index_states` are the same of the indexer's keys.

    Fails with one error per problem of the configuration, naming key, value
    and limit. A `quantization_config` becomes the module's `mla.weight_scales`; one that
    cannot be bound is an error, unless dequantised-weights is given.
  }];
  let options = [
    Option<"config", "config", "std::string", "",
           "path of the config.json">,
    Option<"tensorParallel", "tp", "int64_t", "1",
           "ranks that share the heads">,
    Option<"activationType", "dtype", "::mlac::ActivationType", "::mlac::ActivationType::BF16",
           "element type of activations, weights and cache",
           [{::llvm::cl::values(
             clEnumValN(::mlac::ActivationType::BF16, "bf16", "bfloat16"),
             clEnumValN(::mlac::ActivationType::F16, "f16", "IEEE half"),
             clEnumValN(::mlac::ActivationType::F32, "f32", "IEEE single"))}]>,
    Option<"pageSize", "page-size", "int64_t", "64", "tokens per cache page">,
    Option<"cacheFormat", "cache-format", "std::string", "",
           "rows of the cache: mla_fp8_tensor, fp8_ds_mla or split_ckv_kpe (default: the "
           "activations' type in rows [latent | rope])">,
    Option<"scaleRule", "scale-rule", "::mlir::mla::ScaleRule", "::mlir::mla::ScaleRule::Raw",
           "how scales of groups are rounded when rows are written",
           [{::llvm::cl::values(
             clEnumValN(::mlir::mla::ScaleRule::Raw, "raw", "not"),
             clEnumValN(::mlir::mla::ScaleRule::PowerOfTwo, "power_of_two", "up to a power of two"))}]>,
    Option<"form", "form", "::mlir::mla::Form", "::mlir::mla::Form::Auto",
           "form of the attention",
           [{::llvm::cl::values(
             clEnumValN(::mlir::mla::Form::Auto, "auto", "chosen by mla-choose-form"),
             clEnumValN(::mlir::mla::Form::Expanded, "expanded", "keys and values per head"),
             clEnumValN(::mlir::mla::Form::Absorbed, "absorbed", "on the latents"))}]>,
    Option<"decodeThreshold", "decode-threshold", "int64_t", "0",
           "longest query of a decode in @step; 0: no @step">,
    Option<"latentNormEpsFromConfig", "norm-eps-from-config", "bool", "false",
           "take rms_norm_eps for the latent norms (default: 1e-6, as transformers does)">,
    Option<"dequantisedWeights", "dequantised-weights", "bool", "false",
           "do not look at quantization_config: the weights will be bound in the activations' "
           "type">,
    Option<"like", "like", "std::string", "",
           "the known model type that one which is not known is read as">,
    Option<"indexer", "indexer", "::mlac::IndexerUse", "::mlac::IndexerUse::Full",
           "whose selection of keys a sparse layer attends to",
           [{::llvm::cl::values(
             clEnumValN(::mlac::IndexerUse::Full, "full", "its own indexer's"),
             clEnumValN(::mlac::IndexerUse::Shared, "shared", "an earlier layer's, an input"),
             clEnumValN(::mlac::IndexerUse::None, "none", "all keys, up to index_topk"))}]>,
    Option<"layer", "layer", "int64_t", "0",
           "which layer, of a model whose layers differ in kind">,
    Option<"roundStates", "round-states", "bool", "false",
           "round what tokens contribute to entries to the activations' type">,
    Option<"indexHadamard", "index-hadamard", "bool", "false",
           "multiply the queries and keys of DeepSeek-V4's indexer by a Hadamard matrix">,
    Option<"indexFormat", "index-format", "::mlac::IndexFormat", "::mlac::IndexFormat::E4M3",
           "how the keys of DeepSeek-V4's indexer are kept",
           [{::llvm::cl::values(
             clEnumValN(::mlac::IndexFormat::E4M3, "e4m3", "codes and a scale for each key"),
             clEnumValN(::mlac::IndexFormat::MXFP4, "mxfp4", "e2m1 codes and exponents"))}]>,
  ];
  let dependentDialects = [
    "::mlir::func::FuncDialect", "::mlir::mla::MlaDialect", "::mlir::tensor::TensorDialect",
  ];
}

def ImportArchive : Pass<"mla-import-archive", "::mlir::ModuleOp"> {
  let summary = "replaces the module's content by the graph of a torch.export archive";
  let description = [{
    Reads a `.pt2` file and puts its graph into the module, a function of the `graph` dialect, as
    it stands there (mla-raise-graph understands it). What the module held before is erased.

    Fails where the archive is damaged, of another schema version than 8, or lacks a
    weight that its graph takes.
  }];
  let options = [Option<"archive", "archive", "std::string", "", "path of the .pt2 file">];
  let dependentDialects = ["::mlir::func::FuncDialect", "::mlir::graph::GraphDialect"];
}

def RaiseGraph : Pass<"mla-raise-graph", "::mlir::ModuleOp"> {
  let summary = "recognises the attention layer of a recorded graph";
  let description = [{
    Needs a module with one function of the `graph` dialect, the graph of one attention module.
    After, the module holds the `mla` functions of that layer, as mla-import-config makes them.

    The layer is found from the output projection backwards by what its numbers are made of,
    however they are moved about: eager attention, scaled_dot_product_attention and their
    decompositions into core operators, rope over neighbours or halves, real or complex, give
    the same. A mask that is an input is taken as the causal one. The configuration says which kind
    it is, multi-head latent attention or attention by groups of heads; of groups, masks that the
    graph makes, windows, softcaps, sinks and norms of heads are understood, too.

    Fails at the node that is not understood, where the graph is no attention of that kind,
    and where it computes something else than the configuration says: dimensions, norms, scale,
    rotary frequencies. The configuration is needed for what no graph of a layer says, how many
    positions there are and, where they are inputs, the tables of rope.
  }];
  let options = [
    Option<"config", "config", "std::string", "", "path of the model's config.json">,
    Option<"activationType", "dtype", "::mlac::ActivationType", "::mlac::ActivationType::BF16",
           "element type of activations, weights and cache",
           [{::llvm::cl::values(
             clEnumValN(::mlac::ActivationType::BF16, "bf16", "bfloat16"),
             clEnumValN(::mlac::ActivationType::F16, "f16", "IEEE half"),
             clEnumValN(::mlac::ActivationType::F32, "f32", "IEEE single"))}]>,
    Option<"latentNormEpsFromConfig", "norm-eps-from-config", "bool", "false",
           "expect rms_norm_eps in the latent norms (default: 1e-6, as transformers does)">,
  ];
  let dependentDialects = [
    "::mlir::func::FuncDialect", "::mlir::mla::MlaDialect", "::mlir::tensor::TensorDialect",
  ];
}

def CacheAttention : Pass<"mla-cache-attention", "::mlir::ModuleOp"> {
  let summary = "replaces the attention of a recorded graph by attention over caches";
  let description = [{
    Needs a module with one function of the `graph` dialect, a whole model's or a part of it. Every
    attention in it, scaled_dot_product_attention or the products and the softmax of an eager one,
    becomes a node `mlac.cached_attention` (paged-cache.md section 12):

    ```mlir
    %seq_len, %input_pos, %cache_loc, %seq_start, %page_table =
        graph.node "mlac.prepare_metadata"(%0, %1, %2, %3) {...}
    ...
    %o = graph.node "mlac.cached_attention"(%q, %k, %v, %seq_len, %input_pos, %cache_loc,
        %seq_start, %page_table, %kv_cache_0) {..., scale = 1.25e-01, softcap = 0.0, window = 0}
    ```

    Its operands are the queries, the new keys and values of each KV head as
    [batch, tokens, heads, channels], metadata that one node makes for all attention, a cache of the
    node's own, which is a new input, and sinks where there are any. Heads that were repeated
    for groups of queries are taken once. Masks are left without uses: a causal mask, or one that is
    an input, is taken as the causal one, with a window where it has one.

    Queries and keys are taken from before rope, by the weight that has its frequencies, or by
    cosines and sines of each token, where the graph has those as values of any origin.

    Where all keys and values of the graph are projections of one latent of each token, beside
    channels that all heads' keys share (DeepSeek-V2), the cache has a latent and those channels:

    ```mlir
    %o = graph.node "mlac.cached_latent_attention"(%q, %latent, %k_pe, %seq_len, %input_pos,
        %cache_loc, %seq_start, %page_table, %kv_cache_0, %kv_b_proj, %inv_freq) {...}
    ```

    `attention` names another operator, as mlac.attention registers them: MultiHead,
    TritonWithFlattenedInputs, PagedMultiHead and MultiHeadLatent. Their metadata is also made of the
    graph's tokens, `input_ids`, and of the page's size; keys and values have caches of their own,
    k_cache_N and v_cache_N; buffers of angles are inputs that all nodes share, by names that say
    theta, and empty where the operator does not rotate as the graph does, whose rope then stays;
    scale, window and softcap are constants, but of TritonWithFlattenedInputs. MultiHeadLatent takes
    queries that nodes before it fold to latents, and gives latents that nodes behind it unfold:

    ```mlir
    %o = graph.node "mlac.paged_mha_with_cache.default"(%q, %k, %v, %seq_len, %input_pos,
        %cache_loc, %seq_start, %page_table, %k_cache_0, %v_cache_0, %freqs_cis) {...}
    ```

    Fails at the node whose attention is not causal, whose operands are not found, whose heads
    are not alike, or that has what the operator does not take.
  }];
  let options = [
    Option<"attention", "attention", "std::string", "\"Packaged\"",
           "the operator: Packaged, MultiHead, TritonWithFlattenedInputs, PagedMultiHead or "
           "MultiHeadLatent">,
    Option<"pageSize", "page-size", "int64_t", "64",
           "tokens of a page, a constant of the metadata">];
  let dependentDialects = ["::mlir::func::FuncDialect", "::mlir::graph::GraphDialect"];
}

#endif // MLA_IMPORT_PASSES
