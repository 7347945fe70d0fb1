//===- CheckFunction.cpp - one function of a package ------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Its expressions, buffers and steps, and that it uses no size or metadata that nobody
// provides for it.
//
//===----------------------------------------------------------------------===//

#include "package/CheckSteps.h"
#include "package/CheckWork.h"
#include "package/Checks.h"
#include "package/PackageVerifier.h"

using namespace mlac::runtime;
namespace step = mlac::step;

Status PackageVerifier::resolveBuffer(const fb::Buffer &raw, BufferInfo &buffer) {
  const std::vector<TensorInfo> *tensors = nullptr;
  const TensorIndices *indices = nullptr;
  mla_dtype expected = buffer.dtype;
  int64_t index = 0;
  switch (raw.kind()) {
  case fb::BufferKind::Weight:
    tensors = &package.weights_;
    indices = &weights;
    break;
  case fb::BufferKind::Derived:
    tensors = &package.derived_;
    indices = &derived;
    break;
  case fb::BufferKind::Metadata: {
    std::optional<Metadata> metadata = package.findMetadata(buffer.name);
    if (!metadata)
      return error(MLA_CORRUPT, "names unknown metadata");
    index = static_cast<int64_t>(*metadata);
    expected = metadataType(*metadata);
    break;
  }
  case fb::BufferKind::RopeTable:
    expected = MLA_F32;
    break;
  case fb::BufferKind::Cache:
  case fb::BufferKind::CacheScale:
    return resolvePool(buffer);
  default:
    break;
  }
  if (tensors) {
    auto found = indices->find(buffer.name);
    if (found == indices->end())
      return error(MLA_CORRUPT, "names a tensor that the package lacks");
    index = found->second;
    expected = (*tensors)[index].dtype;
  }
  if (buffer.dtype != expected)
    return error(MLA_CORRUPT, "has type ", typeName(buffer.dtype), ", expected ",
                 typeName(expected));
  buffer.index = static_cast<uint32_t>(index);
  return Status();
}

Status PackageVerifier::readBuffer(const fb::Buffer *raw, const FunctionInfo &function,
                                   BufferInfo &buffer) {
  MLAC_RETURN_IF_ERROR(spend(partsOf(raw->name())));
  if (raw->kind() > fb::BufferKind::CacheScale)
    return error(MLA_CORRUPT, "unknown kind ", raw->kind());
  MLAC_RETURN_IF_ERROR(checkLength("name", raw->name()));
  MLAC_RETURN_IF_ERROR(requireType("buffer", raw->dtype()));
  bool isNamed =
      raw->kind() != fb::BufferKind::RopeTable && raw->kind() != fb::BufferKind::Workspace;
  if (isNamed)
    MLAC_RETURN_IF_ERROR(requireText("name", raw->name()));
  buffer = {std::string(text(raw->name())),
            raw->kind(),
            toType(raw->dtype()),
            raw->elements(),
            raw->byte_offset(),
            0};
  MLAC_RETURN_IF_ERROR(requireExpr("elements", function.exprs, buffer.elements, 0));
  if (raw->kind() == fb::BufferKind::Workspace)
    MLAC_RETURN_IF_ERROR(requireExpr("byte_offset", function.exprs, buffer.byteOffset, 0));
  return resolveBuffer(*raw, buffer);
}

/// The first size or array of `owner` that the function uses; null if there is none.
static const char *findUse(const FunctionInfo &function, step::Owner owner) {
  for (size_t i = 0; i < kNumDims; ++i)
    if (step::kDims[i].owner == owner && function.exprs.usesDim(static_cast<Dim>(i)))
      return step::kDims[i].name;
  for (const BufferInfo &buffer : function.buffers)
    if (const step::MetadataInfo &info = step::info(static_cast<Metadata>(buffer.index));
        buffer.kind == fb::BufferKind::Metadata && info.owner == owner)
      return info.name;
  return nullptr;
}

/// What only some functions are given is not used by others.
static Status checkUses(const FunctionInfo &function) {
  const struct {
    step::Owner owner;
    bool isGiven;
    const char *missing;
  } owners[] = {
      {step::Owner::Work, function.work.has_value(), "a partition of its work"},
      {step::Owner::Parts, function.decodeThreshold > 0 || !function.decodesOf.empty(),
       "a decode_threshold"},
      {step::Owner::Shared, function.sharedTokens.has_value(), "a shared_prefix"},
      {step::Owner::Prompts, function.prompts.has_value(), "prompts"},
  };
  for (const auto &[owner, isGiven, missing] : owners)
    if (const char *name = isGiven ? nullptr : findUse(function, owner))
      return error(MLA_CORRUPT, "uses ", name, " without ", missing);
  return Status();
}

/// What is measured when only the sizes of the owners in front, and of its own those that `knows`
/// says, are known.
template <typename Knows>
static Status checkEarly(const char *what, const FunctionInfo &function, uint32_t expression,
                         Knows knows) {
  MLAC_RETURN_IF_ERROR(requireExpr(what, function.exprs, expression, 0));
  for (Dim dim : function.exprs.dimsOf(expression))
    if (!knows(dim) && step::info(dim).owner >= step::Owner::Shared)
      return error(MLA_CORRUPT, what, ": depends on ", dimName(dim),
                   ", which is not known when it is measured");
  return Status();
}

static Status readSharedPrefix(const fb::SharedPrefix &raw, FunctionInfo &function) {
  function.sharedTokens = raw.tokens();
  return checkEarly("shared_prefix", function, raw.tokens(),
                    [](Dim dim) { return dim == Dim::NumCommonTokens; });
}

static Status readPrompts(const fb::Prompts &raw, FunctionInfo &function) {
  if (!function.work || function.decodeThreshold > 0 || !function.decodesOf.empty())
    return error(MLA_CORRUPT, "prompts: without a partition of the whole batch's work");
  if (function.work->mergePrograms == 0)
    return error(MLA_CORRUPT, "prompts: without programs that merge their parts");
  MLAC_RETURN_IF_ERROR(requireRange("items_per_token", raw.items_per_token(), 1, kMaxModelDim));
  MLAC_RETURN_IF_ERROR(requireRange("tokens_per_item", raw.tokens_per_item(), 1, kMaxModelDim));
  MLAC_RETURN_IF_ERROR(requireRange("keys_per_block", raw.keys_per_block(), 1, kMaxPageSize));
  MLAC_RETURN_IF_ERROR(requireRange("window", raw.window(), 0, kMaxWindow));
  for (auto [name, cost] : {std::pair("item_cost", raw.item_cost()),
                            {"merge_cost", raw.merge_cost()},
                            {"partial_cost", raw.partial_cost()}})
    MLAC_RETURN_IF_ERROR(requireCost(name, cost));
  function.prompts = {raw.above(),           raw.pays(),           raw.items_per_token(),
                      raw.tokens_per_item(), raw.keys_per_block(), raw.item_cost(),
                      raw.merge_cost(),      raw.partial_cost(),   raw.window()};
  return checkEarly("prompts", function, raw.pays(), [](Dim dim) {
    return step::info(dim).owner == step::Owner::Prompts && dim != Dim::NumPromptParts;
  });
}

Status PackageVerifier::readDims(const fb::Function &raw, std::vector<Dim> &dims) const {
  for (uint32_t i = 0; i < sizeOf(raw.dims()); ++i) {
    std::string_view name = text(raw.dims()->Get(i));
    std::optional<Dim> dim = package.findDim(name);
    if (!dim)
      return error(MLA_UNSUPPORTED, "names the run-time size '", name,
                   "', which this runtime does not know of these pools");
    dims.push_back(*dim);
  }
  return Status();
}

Status PackageVerifier::readFunction(const fb::Target &target, const fb::Function *raw,
                                     FunctionInfo &function) {
  MLAC_RETURN_IF_ERROR(requireText("name", raw->name()));
  function.name = text(raw->name());
  function.raw = raw;
  function.target = &target;
  function.maxQueryLen = raw->max_query_len();
  std::vector<Dim> dims;
  MLAC_RETURN_IF_ERROR(readDims(*raw, dims));
  MLAC_RETURN_IF_ERROR(requireAligned("exprs", raw->exprs(), alignof(fb::ExprNode)));
  MLAC_RETURN_IF_ERROR(spend(static_cast<int64_t>(sizeOf(raw->exprs()))));
  std::vector<fb::ExprNode> nodes;
  for (uint32_t i = 0; i < sizeOf(raw->exprs()); ++i)
    nodes.push_back(*raw->exprs()->Get(i));
  // An expression field that was never set reads as node 0.
  if (nodes.empty())
    nodes.emplace_back(fb::ExprOp::Const, 0, 0, 0, 0);
  MLAC_RETURN_IF_ERROR(ExpressionTable::make(nodes, std::move(dims), function.exprs));
  function.workspaceBytes = raw->workspace_bytes();
  MLAC_RETURN_IF_ERROR(requireExpr("workspace_bytes", function.exprs, function.workspaceBytes, 0));
  for (uint32_t i = 0; i < sizeOf(raw->buffers()); ++i) {
    BufferInfo buffer;
    const fb::Buffer *rawBuffer = raw->buffers()->Get(i);
    MLAC_RETURN_IF_ERROR(readBuffer(rawBuffer, function, buffer)
                             .in("buffer ", i, " '", text(rawBuffer->name()), "'"));
    function.buffers.push_back(std::move(buffer));
  }
  MLAC_RETURN_IF_ERROR(readWork(*raw, function.work).in("work"));
  function.decodeThreshold = raw->decode_threshold();
  function.decodesOf = text(raw->decodes_of());
  if (const fb::SharedPrefix *shared = raw->shared_prefix())
    MLAC_RETURN_IF_ERROR(readSharedPrefix(*shared, function));
  if (const fb::Prompts *prompts = raw->prompts())
    MLAC_RETURN_IF_ERROR(readPrompts(*prompts, function));
  MLAC_RETURN_IF_ERROR(checkUses(function));
  function.usesChunks = findUse(function, step::Owner::Chunks) != nullptr;
  function.hasOptionalChunks = raw->optional_chunks();
  function.gathersWhole = findUse(function, step::Owner::Gathers) != nullptr;
  return checkSteps(target, function, raw->steps(), [this](int64_t parts) { return spend(parts); });
}
