//===- EngineOptions.cpp - maxima of an engine ------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "engine/EngineOptions.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>

using namespace mlac::runtime;

static constexpr int64_t kDefaultRequests = 8;
static constexpr int64_t kDefaultTokens = 2048;
// Upper limits: generous, and small enough for 32-bit metadata and 64-bit
// products.
static constexpr int64_t kMaxRequests = 1 << 16;
static constexpr int64_t kMaxTokens = 1 << 24;
static constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
static constexpr int64_t kMaxLayers = 1 << 12;
static constexpr int64_t kMaxSms = 1 << 16;
static constexpr int64_t kMaxPadding = 1 << 16;
/// Larger workspaces stop paying: CAP of mla.md section 9.
static constexpr int64_t kWorkspaceCap = 65536;
static constexpr int64_t kMostCap = 1 << 24;
/// Of the longest sequences, in the workspace that whole requests are gathered into (sparse.md
/// section 11).
static constexpr int64_t kGatheredSequences = 5;

extern "C" void mla_engine_options_init(mla_engine_options *options) {
  if (!options)
    return;
  *options = {};
  options->struct_bytes = sizeof *options;
  options->max_num_requests = kDefaultRequests;
  options->max_num_tokens = kDefaultTokens;
  options->num_layers = 1;
}

int64_t mlac::runtime::defaultWorkspaceTokens(int64_t maxSeqLen, int64_t maxRequests,
                                              int64_t pageSize, int64_t cap, bool copiesKeys) {
  int64_t pageEach = maxRequests * pageSize;
  int64_t wanted = std::max(8 * maxSeqLen, 4 * pageEach);
  if (copiesKeys) // of a batch of short sequences there are no fewer
    wanted = std::max(wanted, cap == 0 ? kWorkspaceCap : cap);
  return cap == 0 ? std::max(std::min(wanted, kWorkspaceCap), pageEach) : std::min(wanted, cap);
}

static bool hasFunction(const Package &package, bool (*is)(const FunctionInfo &)) {
  return std::ranges::any_of(package.targets(), [&](const TargetInfo &target) {
    return std::ranges::any_of(target.functions, is);
  });
}
static bool gathersWhole(const FunctionInfo &function) { return function.gathersWhole; }
/// Of prompts, as many as fit.
static bool copiesKeys(const FunctionInfo &function) {
  return function.prompts && function.exprs.usesDim(Dim::NumPromptKeys);
}

/// The workspace of an engine that is given none. Error: a given cap is below a page for each
/// request (mla.md section 9: the reference asserts, where the rule without a cap clamps).
static Status chooseWorkspace(const Package &package, mla_engine_options &options) {
  int64_t pageSize = package.pools().front().pageRows();
  int64_t pageEach = options.max_num_requests * pageSize;
  int64_t allTokens = options.max_num_requests * roundUp(options.max_seq_len, pageSize);
  if (hasFunction(package, gathersWhole)) {
    options.workspace_tokens = std::min(kGatheredSequences * options.max_seq_len, allTokens);
    return Status();
  }
  int64_t wanted = defaultWorkspaceTokens(options.max_seq_len, options.max_num_requests, pageSize,
                                          options.workspace_cap, hasFunction(package, copiesKeys));
  if (wanted < pageEach)
    return error(MLA_INVALID_ARGUMENT, "option workspace_cap = ", options.workspace_cap,
                 ", expected at least a page (", pageSize, " tokens) for each of ",
                 options.max_num_requests, " requests: ", pageEach);
  options.workspace_tokens = std::min(wanted, allTokens);
  return Status();
}

static Status requireOption(const char *name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high)
    return Status();
  return error(MLA_INVALID_ARGUMENT, "option ", name, " = ", value, ", expected ", low, " to ",
               high);
}

static bool isFirstExternal(const mla_engine_options &options) {
  return options.external_pools & 1;
}

static Status checkOptions(const Package &package, const mla_engine_options &options) {
  int64_t ropeLength = static_cast<int64_t>(package.rope().length());
  int64_t ranks = std::max<int64_t>(package.model().tensor_parallel(), 1);
  int64_t pageSize = package.pools().front().pageRows();
  int64_t allPools = (int64_t(1) << package.pools().size()) - 1;
  bool hasWorkspace = options.workspace_tokens != MLA_NO_WORKSPACE;
  struct {
    const char *name;
    int64_t value, low, high;
  } limits[] = {{"max_num_requests", options.max_num_requests, 1, kMaxRequests},
                {"max_num_tokens", options.max_num_tokens, 1, kMaxTokens},
                {"max_seq_len", options.max_seq_len, 1, std::min(ropeLength, kMaxInt32)},
                {"num_layers", options.num_layers, 1, kMaxLayers},
                {"external_pools", options.external_pools, 0, allPools},
                {"num_pages", options.num_pages, isFirstExternal(options) ? 0 : 1, kMaxPages},
                {"workspace_tokens", options.workspace_tokens,
                 hasWorkspace ? pageSize : MLA_NO_WORKSPACE, kMaxInt32},
                {"num_sms", options.num_sms, 0, kMaxSms},
                {"page_padding_tokens", options.page_padding_tokens, 0, kMaxPadding},
                {"tensor_parallel_rank", options.tensor_parallel_rank, 0, ranks - 1}};
  for (auto &limit : limits)
    MLAC_RETURN_IF_ERROR(requireOption(limit.name, limit.value, limit.low, limit.high));
  return Status();
}

/// What pools of the caller's say themselves.
static Status checkExternalPools(const mla_engine_options &options) {
  auto refuse = [](const char *name, int64_t value) {
    return error(MLA_INVALID_ARGUMENT, "option ", name, " = ", value,
                 ", expected 0 with external_pools: the pools have it (mla_engine_bind_pool)");
  };
  if (isFirstExternal(options) && options.num_pages != 0)
    return refuse("num_pages", options.num_pages);
  if (options.external_pools && options.page_padding_tokens != 0)
    return refuse("page_padding_tokens", options.page_padding_tokens);
  return Status();
}

/// Over the defaults: those that the caller's version of the struct has.
static Status copyOptions(const mla_engine_options &given, mla_engine_options &options) {
  size_t least = offsetof(mla_engine_options, external_pools);
  if (given.struct_bytes < least || given.struct_bytes > sizeof options ||
      given.struct_bytes % sizeof(int64_t) != 0)
    return error(MLA_INVALID_ARGUMENT, "options.struct_bytes = ", given.struct_bytes, ", expected ",
                 least, " to ", sizeof options, " (use mla_engine_options_init)");
  std::memcpy(&options, &given, given.struct_bytes);
  options.struct_bytes = sizeof options;
  return Status();
}

Status mlac::runtime::resolveOptions(const Package &package, const mla_engine_options *given,
                                     mla_engine_options &options) {
  mla_engine_options_init(&options);
  if (given)
    MLAC_RETURN_IF_ERROR(copyOptions(*given, options));
  int64_t pageSize = package.pools().front().pageRows();
  if (options.max_seq_len == 0)
    options.max_seq_len = std::min(static_cast<int64_t>(package.rope().length()), kMaxInt32);
  // Before defaults multiply them.
  MLAC_RETURN_IF_ERROR(
      requireOption("max_num_requests", options.max_num_requests, 1, kMaxRequests));
  MLAC_RETURN_IF_ERROR(requireOption("max_seq_len", options.max_seq_len, 1, kMaxInt32));
  MLAC_RETURN_IF_ERROR(checkExternalPools(options));
  int64_t pagesEach = ceilDiv(options.max_seq_len, pageSize);
  if (options.num_pages == 0 && !isFirstExternal(options))
    options.num_pages = std::min<int64_t>(options.max_num_requests * pagesEach, kMaxPages);
  MLAC_RETURN_IF_ERROR(requireOption("workspace_cap", options.workspace_cap, 0, kMostCap));
  if (options.workspace_tokens == 0)
    MLAC_RETURN_IF_ERROR(chooseWorkspace(package, options));
  return checkOptions(package, options);
}

int64_t mlac::runtime::pageStrideBytes(const Package &package, const mla_engine_options &options,
                                       size_t pool) {
  const PoolInfo &info = package.pools()[pool];
  return roundUp((info.pageRows() + options.page_padding_tokens) * info.rowBytes(),
                 info.layout.format().pageMultiple);
}

int64_t mlac::runtime::poolPages(const Package &package, const mla_engine_options &options,
                                 size_t pool) {
  if (options.external_pools >> pool & 1)
    return 0;
  if (pool == 0)
    return options.num_pages;
  const PoolInfo &info = package.pools()[pool];
  int64_t pageTokens = info.pageRows() * info.tokensPerRow, requests = options.max_num_requests;
  int64_t tokens = isFirstExternal(options)
                       ? requests * options.max_seq_len
                       : options.num_pages * package.pools().front().pageRows();
  // The last page of each sequence may be nearly empty.
  int64_t pages = ceilDiv(tokens, pageTokens) + requests;
  // A window begins and ends within a page; new tokens come before old pages go.
  int64_t seen = requests * (ceilDiv(info.window, pageTokens) + 1) +
                 ceilDiv(options.max_num_tokens, pageTokens) + requests;
  return std::min(info.window > 0 ? std::min(pages, seen) : pages, kMaxPages);
}

StepLimits mlac::runtime::stepLimits(const Package &package, const mla_engine_options &options) {
  auto pool = [&](size_t index) -> PoolLimits {
    const PoolInfo &info = package.pools()[index];
    return {info.pageRows(), poolPages(package, options, index),
            pageStrideBytes(package, options, index) / elementBytes(info.dtype), info.tokensPerRow,
            info.window};
  };
  std::vector<PoolLimits> others;
  for (size_t i = 1; i < package.pools().size(); ++i)
    others.push_back(pool(i));
  std::vector<WorkParams> works;
  bool hasParts = false, hasShared = false, hasGathers = false, hasPrompts = false;
  PromptCuts cuts;
  for (const TargetInfo &target : package.targets())
    for (const FunctionInfo &function : target.functions) {
      if (function.work)
        works.push_back(*function.work);
      hasParts |= function.decodeThreshold > 0;
      hasShared |= function.sharedTokens.has_value();
      hasGathers |= function.gathersWhole;
      hasPrompts |= function.prompts.has_value();
      if (function.prompts)
        cuts.raise(boundPromptCuts(*function.prompts, options.num_sms));
    }
  return {options.max_num_requests,
          options.max_num_tokens,
          options.max_seq_len,
          std::max<int64_t>(options.workspace_tokens, 0), // MLA_NO_WORKSPACE
          pool(0).pageRows,
          pool(0).numPages,
          pool(0).pageStrideElements,
          options.max_seq_len,
          options.num_sms,
          std::move(works),
          hasParts,
          hasShared,
          hasGathers,
          hasPrompts,
          cuts,
          std::move(others)};
}
