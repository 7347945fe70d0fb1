//===- CachedSteps.cpp - steps that only attend ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Import/CacheAttention.h"

#include "GroupedCache.h"

using namespace mlac;
using namespace mlir;

std::string mlac::getStepName(size_t kind, bool isDecode) {
  return (isDecode ? "decode" : "step") + (kind > 0 ? "_" + std::to_string(kind) : "");
}

namespace {
/// The functions of all kinds, over one type of cache.
class StepsBuilder {
public:
  StepsBuilder(ModuleOp module, const CachedGraph &graph, const ImportOptions &options)
      : builder(module.getBodyRegion()), loc(module.getLoc()), graph(graph),
        element(getElementType(*module.getContext(), options.activationType)), options(options) {}
  LogicalResult verify();
  void buildStep(size_t kind, bool isDecode);

private:
  /// Rows under rope, where the kind has one.
  Value rotate(Value heads, const AttentionInfo &info, Value batch);
  RankedTensorType rows(int64_t heads, int64_t dim) {
    return RankedTensorType::get({ShapedType::kDynamic, heads, dim}, element);
  }

  OpBuilder builder;
  Location loc;
  const CachedGraph &graph;
  Type element;
  const ImportOptions &options;
  mla::CacheType cacheType; // null before verify()
};
} // namespace

LogicalResult StepsBuilder::verify() {
  for (const CachedNode &node : graph.nodes) {
    const AttentionInfo &info = graph.kinds[node.kind], &first = graph.kinds[0];
    if (info.kvHeads != first.kvHeads || info.keyDim != first.keyDim ||
        info.valueDim != first.valueDim)
      return emitError(loc) << "node '" << node.node << "' in " << node.module
                            << ": its cache would have " << info.kvHeads << " heads of "
                            << info.keyDim << " and " << info.valueDim << " columns, expected "
                            << first.kvHeads << " of " << first.keyDim << " and " << first.valueDim
                            << " as that of node '" << graph.nodes[0].node
                            << "': the layers of an engine have caches of one kind";
    if (node.sinks.empty() != graph.nodes[0].sinks.empty())
      return emitError(loc) << "node '" << node.node << "' in " << node.module << " has "
                            << (node.sinks.empty() ? "no sinks" : "sinks") << ", and node '"
                            << graph.nodes[0].node
                            << "' not so: the layers of an engine have weights of one kind";
  }
  const AttentionInfo &info = graph.kinds[0];
  cacheType = getGroupedCache(loc, options, info.kvHeads, info.keyDim, info.valueDim);
  return success(cacheType != nullptr);
}

/// Positions of a model that names no number of them (mla.model).
static constexpr int64_t kPositions = 131072;

/// Frequencies as the graph stores them are those of theta 1, each divided by a number of its own,
/// which is what longrope's factors are.
static mla::RopeAttr getRope(MLIRContext &context, const RopeInfo &info) {
  ModelConfig config;
  config.qkRopeHeadDim = info.width;
  config.maxPositionEmbeddings = kPositions;
  RopeParams &rope = config.rope;
  rope.kind = RopeKind::LongRope;
  rope.pairing = info.pairing;
  rope.theta = 1;
  rope.originalMaxPositions = kPositions;
  rope.cosSinMultiplier = info.multiplier;
  for (double frequency : info.frequencies)
    rope.shortFactor.push_back(1 / frequency);
  rope.longFactor = rope.shortFactor;
  return getRopeAttr(context, config);
}

Value StepsBuilder::rotate(Value heads, const AttentionInfo &info, Value batch) {
  if (!info.rope)
    return heads;
  mla::RopeAttr rope = getRope(*builder.getContext(), *info.rope);
  auto tableType =
      RankedTensorType::get({ShapedType::kDynamic, rope.getDim()}, builder.getF32Type());
  Value table = mla::RopeTableOp::create(builder, loc, tableType, rope);
  IntegerAttr offset =
      info.rope->width < info.keyDim ? builder.getI64IntegerAttr(info.rope->first) : IntegerAttr();
  return mla::RopeOp::create(builder, loc, heads.getType(), heads, table, batch, rope, offset,
                             /*inverse=*/false, /*every=*/1, /*codes_group=*/IntegerAttr());
}

void StepsBuilder::buildStep(size_t kind, bool isDecode) {
  OpBuilder::InsertionGuard guard(builder);
  const AttentionInfo &info = graph.kinds[kind];
  auto batchType = mla::BatchType::get(builder.getContext(), isDecode ? 1 : ShapedType::kDynamic,
                                       ShapedType::kDynamic);
  RankedTensorType outputType = rows(info.heads, info.valueDim);
  SmallVector<Type> inputs{rows(info.heads, info.keyDim), rows(info.kvHeads, info.keyDim),
                           rows(info.kvHeads, info.valueDim), batchType, cacheType};
  bool hasSinks = !graph.nodes[0].sinks.empty();
  if (hasSinks)
    inputs.push_back(RankedTensorType::get(info.heads, builder.getF32Type()));
  auto function = func::FuncOp::create(builder, loc, getStepName(kind, isDecode),
                                       builder.getFunctionType(inputs, {outputType, cacheType}));
  Block *body = function.addEntryBlock();
  builder.setInsertionPointToStart(body);
  for (auto [index, name] : llvm::enumerate(ArrayRef<StringRef>{"query", "key", "value"}))
    function.setArgAttr(index, mla::kInputAttr, builder.getStringAttr(name));
  if (hasSinks)
    function.setArgAttr(inputs.size() - 1, mla::kWeightAttr, builder.getStringAttr("sinks"));
  function.setResultAttr(0, mla::kOutputAttr, builder.getStringAttr("output"));
  Value batch = body->getArgument(3);
  Value query = rotate(body->getArgument(0), info, batch);
  Value key = rotate(body->getArgument(1), info, batch);
  Value appended = mla::AppendOp::create(
      builder, loc, cacheType, ValueRange{key, body->getArgument(2)}, body->getArgument(4), batch);
  auto attention = mla::GroupedAttentionOp::create(
      builder, loc, outputType, /*lse=*/Type(), query, appended, appended, batch,
      hasSinks ? Value(body->getArguments().back()) : Value(), /*num_splits=*/Value(),
      builder.getI64IntegerAttr(info.window), builder.getF64FloatAttr(info.softcap),
      builder.getF64FloatAttr(info.scale));
  func::ReturnOp::create(builder, loc, ValueRange{attention.getOutput(), appended});
}

OwningOpRef<ModuleOp> mlac::buildCachedSteps(Location loc, const CachedGraph &graph,
                                             const ImportOptions &options) {
  loc.getContext()->loadDialect<func::FuncDialect, mla::MlaDialect>();
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc, "cached_attention");
  StepsBuilder steps(*module, graph, options);
  if (failed(steps.verify()))
    return {};
  for (size_t kind = 0; kind < graph.kinds.size(); ++kind)
    for (bool isDecode : {false, true})
      steps.buildStep(kind, isDecode);
  return module;
}
