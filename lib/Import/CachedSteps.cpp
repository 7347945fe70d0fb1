//===- CachedSteps.cpp - steps that only attend ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Import/CacheAttention.h"

#include "GroupedCache.h"
#include "HeadWeights.h"

#include "mla/Dialect/Mla/IR/TokenAngles.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

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
  /// A step in the making.
  struct Step {
    const AttentionInfo &info;
    llvm::StringMap<Value> arguments;
    Value table; ///< of angles; null before it is needed
    Value batch() const { return arguments.lookup("batch"); }
    Value cache() const { return arguments.lookup("cache"); }
  };
  /// What marks an input or a weight is that attribute.
  struct Argument {
    Type type;
    StringRef mark, name;
  };

  SmallVector<Argument> listArguments(const AttentionInfo &info);
  LogicalResult verifyAlike(const CachedNode &node);
  mla::CacheType makeCacheType();
  Value makeTable(Step &step, const RopeInfo &info, mla::RopeAttr rope);
  /// Rows under rope, where there is one; those of heads may have channels that are not.
  Value rotate(Step &step, Value rows, const std::optional<RopeInfo> &info);
  /// The attention's output and the cache behind it.
  std::pair<Value, Value> attend(Step &step);
  std::pair<Value, Value> attendToLatents(Step &step);
  RankedTensorType rows(ArrayRef<int64_t> shape) {
    SmallVector<int64_t> full{ShapedType::kDynamic};
    llvm::append_range(full, shape);
    return RankedTensorType::get(full, element);
  }
  bool hasSinks() const { return !graph.nodes[0].sinks.empty(); }

  OpBuilder builder;
  Location loc;
  const CachedGraph &graph;
  Type element;
  const ImportOptions &options;
  mla::CacheType cacheType; // null before verify()
};
} // namespace

//===----------------------------------------------------------------------===//
// The cache
//===----------------------------------------------------------------------===//

LogicalResult StepsBuilder::verifyAlike(const CachedNode &node) {
  const AttentionInfo &info = graph.kinds[node.kind], &first = graph.kinds[0];
  if (info.kvHeads != first.kvHeads || info.keyDim != first.keyDim ||
      info.valueDim != first.valueDim)
    return emitError(loc) << "node '" << node.node << "' in " << node.module
                          << ": its cache would have " << info.kvHeads << " heads of "
                          << info.keyDim << " and " << info.valueDim << " columns, expected "
                          << first.kvHeads << " of " << first.keyDim << " and " << first.valueDim
                          << " as that of node '" << graph.nodes[0].node
                          << "': the layers of an engine have caches of one kind";
  if (node.sinks.empty() == hasSinks())
    return emitError(loc) << "node '" << node.node << "' in " << node.module << " has "
                          << (node.sinks.empty() ? "no sinks" : "sinks") << ", and node '"
                          << graph.nodes[0].node
                          << "' not so: the layers of an engine have weights of one kind";
  return success();
}

static mla::RopeOrder getOrder(const std::optional<RopeInfo> &rope) {
  return rope && rope->pairing == RopePairing::Half ? mla::RopeOrder::Half
                                                    : mla::RopeOrder::Interleaved;
}

/// Null: a diagnostic says why.
mla::CacheType StepsBuilder::makeCacheType() {
  const AttentionInfo &info = graph.kinds[0];
  if (!info.latents)
    return getGroupedCache(loc, options, info.kvHeads, info.keyDim, info.valueDim);
  StringRef format = options.cacheFormat;
  if (format == "fp8")
    format = "mla_fp8_tensor";
  SmallVector<mla::CacheField, 2> fields =
      mla::CacheType::latentFields(info.latents->rank, info.latents->width);
  mla::RopeOrder order = getOrder(info.latents->rope);
  if (failed(mla::CacheType::verify([&] { return emitError(loc); }, options.pageSize, fields,
                                    element, order, format, options.scaleRule, /*tokensPerRow=*/1,
                                    /*window=*/0, /*hadamard=*/false)))
    return {};
  return mla::CacheType::getLatent(builder.getContext(), options.pageSize, info.latents->rank,
                                   info.latents->width, element, order, format, options.scaleRule);
}

LogicalResult StepsBuilder::verify() {
  for (const CachedNode &node : graph.nodes)
    if (failed(verifyAlike(node)))
      return failure();
  cacheType = makeCacheType();
  return success(cacheType != nullptr);
}

//===----------------------------------------------------------------------===//
// Rope
//===----------------------------------------------------------------------===//

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
  // Tables that are inputs say it all.
  if (info.isByToken())
    rope.shortFactor.assign(info.width / 2, 1);
  rope.longFactor = rope.shortFactor;
  return getRopeAttr(context, config);
}

/// That of positions, or an input with the cosines of all pairs before the sines for each token.
Value StepsBuilder::makeTable(Step &step, const RopeInfo &info, mla::RopeAttr rope) {
  if (info.isByToken())
    return step.arguments["angles"];
  if (!step.table)
    step.table = mla::RopeTableOp::create(
        builder, loc,
        RankedTensorType::get({ShapedType::kDynamic, rope.getDim()}, builder.getF32Type()), rope);
  return step.table;
}

Value StepsBuilder::rotate(Step &step, Value rows, const std::optional<RopeInfo> &info) {
  if (!info)
    return rows;
  mla::RopeAttr rope = getRope(*builder.getContext(), *info);
  bool isPart = info->width < cast<RankedTensorType>(rows.getType()).getShape().back();
  auto rotated = mla::RopeOp::create(
      builder, loc, rows.getType(), rows, makeTable(step, *info, rope), step.batch(), rope,
      isPart ? builder.getI64IntegerAttr(info->first) : IntegerAttr(), /*inverse=*/false,
      /*every=*/1, /*codes_group=*/IntegerAttr());
  if (info->isByToken())
    rotated->setAttr(mla::kByTokenAttr, builder.getUnitAttr());
  return rotated;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// Inputs, then weights.
SmallVector<StepsBuilder::Argument> StepsBuilder::listArguments(const AttentionInfo &info) {
  SmallVector<Argument> arguments;
  arguments.push_back({rows({info.heads, info.keyDim}), mla::kInputAttr, "query"});
  if (info.latents)
    arguments.append({{rows(info.latents->rank), mla::kInputAttr, "latent"},
                      {rows(info.latents->width), mla::kInputAttr, "k_pe"}});
  else
    arguments.append({{rows({info.kvHeads, info.keyDim}), mla::kInputAttr, "key"},
                      {rows({info.kvHeads, info.valueDim}), mla::kInputAttr, "value"}});
  const std::optional<RopeInfo> &rope = info.latents ? info.latents->rope : info.rope;
  if (rope && rope->isByToken())
    arguments.push_back(
        {RankedTensorType::get({ShapedType::kDynamic, rope->width}, builder.getF32Type()),
         mla::kInputAttr, "angles"});
  if (info.latents)
    arguments.push_back(
        {RankedTensorType::get(
             {info.heads * (info.latents->nope(info.keyDim) + info.valueDim), info.latents->rank},
             element),
         mla::kWeightAttr, "kv_b_proj.weight"});
  if (hasSinks())
    arguments.push_back(
        {RankedTensorType::get(info.heads, builder.getF32Type()), mla::kWeightAttr, "sinks"});
  return arguments;
}

std::pair<Value, Value> StepsBuilder::attend(Step &step) {
  const AttentionInfo &info = step.info;
  Value query = rotate(step, step.arguments["query"], info.rope);
  Value key = rotate(step, step.arguments["key"], info.rope);
  Value appended =
      mla::AppendOp::create(builder, loc, cacheType, ValueRange{key, step.arguments["value"]},
                            step.cache(), step.batch());
  auto attention = mla::GroupedAttentionOp::create(
      builder, loc, rows({info.heads, info.valueDim}), /*lse=*/Type(), query, appended, appended,
      step.batch(), step.arguments.lookup("sinks"), /*num_splits=*/Value(),
      builder.getI64IntegerAttr(info.window), builder.getF64FloatAttr(info.softcap),
      builder.getF64FloatAttr(info.scale));
  return {attention.getOutput(), appended};
}

/// In the form that the compiler chooses: over latents, or over keys and values made of them.
std::pair<Value, Value> StepsBuilder::attendToLatents(Step &step) {
  const AttentionInfo &info = step.info;
  const LatentInfo &latents = *info.latents;
  int64_t nope = latents.nope(info.keyDim);
  Value query = step.arguments["query"], latent = step.arguments["latent"];
  auto part = [&](Value of, int64_t dim, int64_t first, int64_t count) {
    return sliceRows(builder, loc, of, dim, first, count);
  };
  Value queryNope = part(query, /*dim=*/2, latents.first > 0 ? 0 : latents.width, nope);
  Value queryRope =
      rotate(step, part(query, /*dim=*/2, latents.first, latents.width), latents.rope);
  Value keyRope = rotate(step, step.arguments["k_pe"], latents.rope);
  Value appended = mla::AppendOp::create(builder, loc, cacheType, ValueRange{latent, keyRope},
                                         step.cache(), step.batch());
  Value up = splitHeads(builder, loc, step.arguments["kv_b_proj.weight"], info.heads,
                        nope + info.valueDim);
  auto attention = mla::AttentionOp::create(
      builder, loc, rows({info.heads, info.valueDim}), /*lse=*/Type(), queryNope, queryRope, latent,
      keyRope, part(up, /*dim=*/1, 0, nope), part(up, /*dim=*/1, nope, info.valueDim), appended,
      step.batch(), /*selected=*/Value(), builder.getF64FloatAttr(info.scale),
      mla::FormAttr::get(builder.getContext(), options.form));
  return {attention.getOutput(), appended};
}

void StepsBuilder::buildStep(size_t kind, bool isDecode) {
  OpBuilder::InsertionGuard guard(builder);
  const AttentionInfo &info = graph.kinds[kind];
  auto batchType = mla::BatchType::get(builder.getContext(), isDecode ? 1 : ShapedType::kDynamic,
                                       ShapedType::kDynamic);
  SmallVector<Argument> arguments = listArguments(info);
  auto *weights =
      llvm::find_if(arguments, [](const Argument &each) { return each.mark == mla::kWeightAttr; });
  arguments.insert(weights, {Argument{batchType, {}, "batch"}, Argument{cacheType, {}, "cache"}});
  auto inputs = llvm::map_to_vector(arguments, [](const Argument &each) { return each.type; });
  auto function = func::FuncOp::create(
      builder, loc, getStepName(kind, isDecode),
      builder.getFunctionType(inputs, {rows({info.heads, info.valueDim}), cacheType}));
  Block *body = function.addEntryBlock();
  builder.setInsertionPointToStart(body);
  Step step{info, {}, {}};
  for (auto [index, argument] : llvm::enumerate(arguments)) {
    if (!argument.mark.empty())
      function.setArgAttr(index, argument.mark, builder.getStringAttr(argument.name));
    step.arguments[argument.name] = body->getArgument(index);
  }
  function.setResultAttr(0, mla::kOutputAttr, builder.getStringAttr("output"));
  auto [output, appended] = info.latents ? attendToLatents(step) : attend(step);
  func::ReturnOp::create(builder, loc, ValueRange{output, appended});
}

OwningOpRef<ModuleOp> mlac::buildCachedSteps(Location loc, const CachedGraph &graph,
                                             const ImportOptions &options) {
  loc.getContext()->loadDialect<func::FuncDialect, mla::MlaDialect, tensor::TensorDialect>();
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc, "cached_attention");
  StepsBuilder steps(*module, graph, options);
  if (failed(steps.verify()))
    return {};
  for (size_t kind = 0; kind < graph.kinds.size(); ++kind)
    for (bool isDecode : {false, true})
      steps.buildStep(kind, isDecode);
  return module;
}
