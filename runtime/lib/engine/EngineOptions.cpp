//===- EngineOptions.cpp - maxima of an engine ------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "engine/EngineOptions.h"

#include <algorithm>
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
                                              int64_t pageSize) {
  int64_t pageEach = maxRequests * pageSize;
  int64_t wanted = std::max(8 * maxSeqLen, 4 * pageEach);
  return std::max(std::min(wanted, kWorkspaceCap), pageEach);
}

static Status requireOption(const char *name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high)
    return Status();
  return error(MLA_INVALID_ARGUMENT, "option ", name, " = ", value, ", expected ", low, " to ",
               high);
}

static Status checkOptions(const Package &package, const mla_engine_options &options) {
  int64_t ropeLength = static_cast<int64_t>(package.rope().length());
  int64_t ranks = std::max<int64_t>(package.model().tensor_parallel(), 1);
  int64_t pageSize = package.cache().page_size();
  bool hasWorkspace = options.workspace_tokens != MLA_NO_WORKSPACE;
  struct {
    const char *name;
    int64_t value, low, high;
  } limits[] = {{"max_num_requests", options.max_num_requests, 1, kMaxRequests},
                {"max_num_tokens", options.max_num_tokens, 1, kMaxTokens},
                {"max_seq_len", options.max_seq_len, 1, std::min(ropeLength, kMaxInt32)},
                {"num_layers", options.num_layers, 1, kMaxLayers},
                {"external_pools", options.external_pools, 0, 1},
                {"num_pages", options.num_pages, options.external_pools ? 0 : 1, kMaxPages},
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
  if (!options.external_pools)
    return Status();
  for (auto [name, value] : {std::pair("num_pages", options.num_pages),
                             std::pair("page_padding_tokens", options.page_padding_tokens)})
    if (value != 0)
      return error(MLA_INVALID_ARGUMENT, "option ", name, " = ", value,
                   ", expected 0 with external_pools: the pools have it (mla_engine_bind_pool)");
  return Status();
}

Status mlac::runtime::resolveOptions(const Package &package, const mla_engine_options *given,
                                     mla_engine_options &options) {
  mla_engine_options_init(&options);
  if (given && given->struct_bytes != sizeof options)
    return error(MLA_INVALID_ARGUMENT, "options.struct_bytes = ", given->struct_bytes,
                 ", expected ", sizeof options, " (use mla_engine_options_init)");
  if (given)
    options = *given;
  int64_t pageSize = package.cache().page_size();
  if (options.max_seq_len == 0)
    options.max_seq_len = std::min(static_cast<int64_t>(package.rope().length()), kMaxInt32);
  // Before defaults multiply them.
  MLAC_RETURN_IF_ERROR(
      requireOption("max_num_requests", options.max_num_requests, 1, kMaxRequests));
  MLAC_RETURN_IF_ERROR(requireOption("max_seq_len", options.max_seq_len, 1, kMaxInt32));
  MLAC_RETURN_IF_ERROR(checkExternalPools(options));
  int64_t pagesEach = ceilDiv(options.max_seq_len, pageSize);
  if (options.num_pages == 0 && !options.external_pools)
    options.num_pages = std::min<int64_t>(options.max_num_requests * pagesEach, kMaxPages);
  if (options.workspace_tokens == 0)
    options.workspace_tokens =
        std::min(defaultWorkspaceTokens(options.max_seq_len, options.max_num_requests, pageSize),
                 options.max_num_requests * pagesEach * pageSize);
  return checkOptions(package, options);
}

int64_t mlac::runtime::pageStrideBytes(const Package &package, const mla_engine_options &options) {
  const fb::CacheLayout &cache = package.cache();
  return (cache.page_size() + options.page_padding_tokens) * cache.row_bytes();
}

StepLimits mlac::runtime::stepLimits(const Package &package, const mla_engine_options &options) {
  auto dtype = static_cast<mla_dtype>(package.cache().dtype());
  std::vector<WorkParams> works;
  bool hasParts = false, hasShared = false;
  for (const TargetInfo &target : package.targets())
    for (const FunctionInfo &function : target.functions) {
      if (function.work)
        works.push_back(*function.work);
      hasParts |= function.decodeThreshold > 0;
      hasShared |= function.sharedTokens.has_value();
    }
  return {options.max_num_requests,
          options.max_num_tokens,
          options.max_seq_len,
          std::max<int64_t>(options.workspace_tokens, 0), // MLA_NO_WORKSPACE
          package.cache().page_size(),
          options.num_pages,
          pageStrideBytes(package, options) / elementBytes(dtype),
          options.max_seq_len,
          options.num_sms,
          std::move(works),
          hasParts,
          hasShared};
}
