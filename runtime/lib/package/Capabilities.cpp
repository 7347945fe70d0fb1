//===- Capabilities.cpp - what an engine asks a package -------------------===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "package/Capabilities.h"

#include <algorithm>

using namespace mlac::runtime;

/// The name that engines have for a type of activations.
static const char *engineName(mla_dtype dtype) {
  switch (dtype) {
  case MLA_BF16:
    return "bfloat16";
  case MLA_F16:
    return "float16";
  default:
    return "float32";
  }
}

/// Whether rows are kept as they are multiplied.
static bool isPlain(const PoolInfo &pool, mla_dtype activation) {
  return static_cast<mla_dtype>(pool.raw->dtype()) == activation;
}

/// The names that ask for the pool's format; "auto" is rows as they are multiplied.
static Json namesOf(const PoolInfo &pool, mla_dtype activation) {
  std::string format(text(pool.raw->format()));
  if (format == "mla_fp8_tensor")
    return Json::array({"fp8", "fp8_e4m3"});
  if (format == "model1_584") // which engines call as V3.2's rows, of another model version
    return Json::array({"fp8", "fp8_e4m3", "fp8_ds_mla"});
  return isPlain(pool, activation) ? Json::array({"auto", engineName(activation)})
                                   : Json::array({format});
}

static int64_t countColumns(const PoolInfo &pool) {
  int64_t columns = 0;
  for (const fb::PoolField *field : *pool.raw->fields())
    columns += field->heads() * field->columns();
  return columns;
}

/// A tensor of the whole pool, without the pages' number: of elements where rows are such, else of
/// bytes.
static Json shapeOf(const PoolInfo &pool, mla_dtype activation) {
  bool isOfElements = isPlain(pool, activation);
  int64_t width = isOfElements ? countColumns(pool) : pool.rowBytes();
  return {{"pool", pool.name},
          {"dtype", isOfElements ? engineName(activation) : "uint8"},
          {"shape", Json::array({"num_pages", pool.pageRows(), width})}};
}

static bool hasField(const PoolInfo &pool, std::string_view name) {
  return std::ranges::any_of(
      *pool.raw->fields(), [&](const fb::PoolField *field) { return text(field->name()) == name; });
}

/// Whether attention reads rows by a list: the layer has an indexer, or is given its selection.
static bool isSparse(std::span<const PoolInfo> pools, std::span<const TargetInfo> targets) {
  auto takesList = [](const FunctionInfo &function) {
    return std::ranges::any_of(function.buffers,
                               [](const BufferInfo &buffer) { return buffer.name == "selected"; });
  };
  return std::ranges::any_of(pools, [](const PoolInfo &pool) { return hasField(pool, "index"); }) ||
         std::ranges::any_of(targets, [&](const TargetInfo &target) {
           return std::ranges::any_of(target.functions, takesList);
         });
}

Json mlac::runtime::describeCapabilities(mla_dtype activation, std::span<const PoolInfo> pools,
                                         std::span<const TargetInfo> targets) {
  bool isMla = hasField(pools.front(), "latent"), isList = isSparse(pools, targets);
  Json widths = Json::array(), names = Json::array(), pages = Json::array(), shapes = Json::array(),
       archs = Json::array();
  for (const PoolInfo &pool : pools) {
    widths.push_back(countColumns(pool));
    pages.push_back(pool.pageRows());
    shapes.push_back(shapeOf(pool, activation));
  }
  for (const TargetInfo &target : targets)
    archs.push_back(text(target.raw->arch()));
  return {{"name", isList  ? "MLAC_MLA_SPARSE"
                   : isMla ? "MLAC_MLA"
                           : "MLAC"},
          {"is_mla", isMla},
          {"is_sparse", isList},
          {"row_widths", widths},
          {"activation_dtypes", Json::array({engineName(activation)})},
          {"cache_dtypes", namesOf(pools.front(), activation)},
          {"page_sizes", pages},
          {"architectures", archs},
          {"accepts_output_buffer", true},
          {"cache_shapes", shapes}};
}
