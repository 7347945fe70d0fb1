//===- GroupedCache.cpp - the pool of groups of heads ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GroupedCache.h"

#include "CacheErrors.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlac;
using namespace mlir;

static constexpr StringLiteral kPlain = "kv_nhd", kCodes = "kv_nhd_fp8";

/// The format of a name of ours or of vLLM's kv_cache_dtype; empty for others.
static StringRef findFormat(StringRef name) {
  return llvm::StringSwitch<StringRef>(name)
      .Cases({"", kPlain}, kPlain)
      .Cases({"fp8", "fp8_e4m3", kCodes}, kCodes)
      .Default("");
}

mla::CacheType mlac::getGroupedCache(Location loc, const ImportOptions &options, int64_t kvHeads,
                                     int64_t keyDim, int64_t valueDim) {
  StringRef format = findFormat(options.cacheFormat);
  if (format.empty()) {
    emitError(loc) << "cache format '" << options.cacheFormat
                   << "' is not supported for keys and values of heads, expected " << kPlain
                   << " or " << kCodes << " (fp8)";
    return {};
  }
  const mla::CacheField fields[] = {{cache::Part::Key, kvHeads, keyDim},
                                    {cache::Part::Value, kvHeads, valueDim}};
  Type element = getElementType(*loc.getContext(), options.activationType);
  auto verify = [&](function_ref<InFlightDiagnostic()> emit, StringRef format) {
    return mla::CacheType::verify(emit, options.pageSize, fields, element, mla::RopeOrder::Half,
                                  format, options.scaleRule, /*tokensPerRow=*/1, /*window=*/0,
                                  /*hadamard=*/false);
  };
  auto verifyPlain = [&](auto emit) { return verify(emit, kPlain); };
  auto emit = [&] { return emitCacheError(loc, verifyPlain); };
  if (failed(verify(emit, format)))
    return {};
  return mla::CacheType::get(loc.getContext(), options.pageSize, fields, element,
                             mla::RopeOrder::Half, format, options.scaleRule,
                             /*tokensPerRow=*/1, /*window=*/0, /*hadamard=*/false);
}
