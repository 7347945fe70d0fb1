//===- GroupedCache.cpp - the pool of groups of heads ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GroupedCache.h"

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

/// Kernels copy a token's keys, and its values, by whole units of the pool's alignment.
static LogicalResult verifyRows(Location loc, StringRef format, Type element,
                                ArrayRef<mla::CacheField> fields) {
  bool isCodes = format == kCodes;
  int64_t modelBytes = element.getIntOrFloatBitWidth() / 8;
  auto isWhole = [&](int64_t itemBytes) {
    return llvm::all_of(fields, [&](const mla::CacheField &field) {
      return field.getWidth() * itemBytes % cache::kPoolAlignment == 0;
    });
  };
  int64_t itemBytes = isCodes ? 1 : modelBytes;
  if (isWhole(itemBytes))
    return success();
  for (const mla::CacheField &field : fields) {
    int64_t bytes = field.getWidth() * itemBytes;
    if (bytes % cache::kPoolAlignment == 0)
      continue;
    InFlightDiagnostic error = emitError(loc)
                               << "cache format " << format << ": expected rows of a multiple of "
                               << cache::kPoolAlignment << " bytes, got " << bytes << " ("
                               << cache::partName(field.part) << ": " << field.heads
                               << " heads x " << field.columns << " columns x " << itemBytes << ")";
    if (isCodes && isWhole(modelBytes))
      error << ": --cache-format=auto takes them, in the activations' type";
    return error;
  }
  return success();
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
  if (failed(verifyRows(loc, format, element, fields)))
    return {};
  return mla::CacheType::getChecked(
      [&] { return emitError(loc); }, loc.getContext(), options.pageSize, ArrayRef(fields), element,
      mla::RopeOrder::Half, format,
      options.scaleRule, /*tokensPerRow=*/int64_t(1), /*window=*/int64_t(0), /*hadamard=*/false);
}
