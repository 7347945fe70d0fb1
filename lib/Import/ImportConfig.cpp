//===- ImportConfig.cpp - configuration to mla module ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Import/ImportConfig.h"

#include "CacheErrors.h"
#include "CacheFormats.h"
#include "GroupedLayer.h"
#include "HeadWeights.h"
#include "ModelAttr.h"
#include "SelectionLimits.h"
#include "SharedKeyLayer.h"
#include "WeightArguments.h"
#include "mla/Dialect/Mla/IR/WeightScales.h"
#include "mla/Import/CheckpointTensors.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"

#include <cmath>
#include <limits>

using namespace mlac;
using namespace mlir;

/// The input, or output, of a layer whose selection another has made, or takes.
static constexpr StringLiteral kSelection = "selected";
/// The epsilon of the norm of the indexer's keys (sparse.md section 2).
static constexpr double kIndexNormEps = 1e-6;
/// Far above the pages of any engine (16 to 256 tokens).
static constexpr int64_t kMaxPageSize = 65536;

Type mlac::getElementType(MLIRContext &context, ActivationType type) {
  switch (type) {
  case ActivationType::BF16:
    return BFloat16Type::get(&context);
  case ActivationType::F16:
    return Float16Type::get(&context);
  case ActivationType::F32:
    return Float32Type::get(&context);
  }
  llvm_unreachable("unknown activation type");
}

static mla::RopeOrder getRopeOrder(RopePairing pairing) {
  return pairing == RopePairing::Interleaved ? mla::RopeOrder::Interleaved : mla::RopeOrder::Half;
}

mla::RopeAttr mlac::getRopeAttr(MLIRContext &context, const ModelConfig &config) {
  return getRopeAttr(context, config, config.rope.pairing);
}

mla::RopeAttr mlac::getRopeAttr(MLIRContext &context, const ModelConfig &config,
                                RopePairing pairing) {
  if (config.qkRopeHeadDim == 0 || !config.rope.isApplied)
    return {};
  const RopeParams &rope = config.rope;
  RopeTable table = computeRopeTable(config);
  mla::RopeScaling scaling = rope.kind == RopeKind::Yarn       ? mla::RopeScaling::Yarn
                             : rope.kind == RopeKind::LongRope ? mla::RopeScaling::LongRope
                                                               : mla::RopeScaling::None;
  SmallVector<mlac::Real> shortFactors(rope.shortFactor.begin(), rope.shortFactor.end());
  SmallVector<mlac::Real> longFactors(rope.longFactor.begin(), rope.longFactor.end());
  return mla::RopeAttr::get(
      &context, getRopeOrder(pairing), config.qkRopeHeadDim, rope.theta, getSupportedLength(config),
      scaling, static_cast<double>(table.multiplier), rope.factor, rope.originalMaxPositions,
      rope.betaFast, rope.betaSlow, shortFactors, longFactors);
}

RopeTable mlac::computeRopeTable(mla::RopeAttr rope) {
  ModelConfig config;
  config.qkRopeHeadDim = rope.getDim();
  config.maxPositionEmbeddings = rope.getLength();
  RopeParams &params = config.rope;
  params.kind = rope.getScaling() == mla::RopeScaling::Yarn       ? RopeKind::Yarn
                : rope.getScaling() == mla::RopeScaling::LongRope ? RopeKind::LongRope
                                                                  : RopeKind::Plain;
  params.theta = rope.getTheta();
  params.originalMaxPositions = rope.getOriginalMaxPosition();
  params.factor = rope.getFactor();
  params.betaFast = rope.getBetaFast();
  params.betaSlow = rope.getBetaSlow();
  params.cosSinMultiplier = rope.getMultiplier();
  params.shortFactor.assign(rope.getShortFactors().begin(), rope.getShortFactors().end());
  params.longFactor.assign(rope.getLongFactors().begin(), rope.getLongFactors().end());
  RopeTable table = computeRopeTable(config);
  table.length = rope.getLength();
  return table;
}

/// Keys of the indexer, in pages as long as the latents': both have one slot mapping. Null, with an
/// error at `loc`, where there are no such pages.
static mla::CacheType getIndexCacheType(Location loc, const ModelConfig &config,
                                        const ImportOptions &options) {
  mla::CacheField field = {cache::Part::Index, /*heads=*/1, config.indexer->headDim};
  MLIRContext *context = loc.getContext();
  return mla::CacheType::getChecked(
      [&] { return emitError(loc); }, context, options.pageSize, ArrayRef(field),
      getElementType(*context, options.activationType), getRopeOrder(config.indexer->pairing),
      StringRef("index_k"), mla::ScaleRule::PowerOfTwo, /*tokensPerRow=*/int64_t(1),
      /*window=*/int64_t(0),
      /*hadamard=*/false);
}

namespace {

/// Emits the step functions of one layer.
class LayerBuilder {
public:
  LayerBuilder(ModuleOp module, const ModelConfig &config, const ImportOptions &options)
      : builder(module.getBodyRegion()), loc(module.getLoc()), config(config), options(options),
        element(getElementType(*module.getContext(), options.activationType)),
        rope(getRopeAttr(*module.getContext(), config)),
        cacheType(mla::CacheType::getLatent(
            module.getContext(), options.pageSize, config.kvLoraRank, config.qkRopeHeadDim, element,
            getRopeOrder(config.rope.pairing), options.cacheFormat, options.scaleRule)),
        tensors(getStepTensors(config)) {
    if (options.takesLatents)
      llvm::erase_if(tensors, isOfDownProjection);
    if (config.hasOwnIndexer())
      indexType = getIndexCacheType(loc, config, options);
  }

  /// Adds function `name` for requests of `queryLen` new tokens.
  func::FuncOp buildStep(StringRef name, int64_t queryLen);
  /// Adds the step that takes decodes and prefills in one batch.
  void buildMixedStep();

  /// Pages that kernels cannot move are left to the device's own copies.
  bool canCopyPages() const {
    return cacheType.getPageSize() * cacheType.getRowBytes() % cache::kPoolAlignment == 0;
  }
  /// Adds the copies of whole pages that the runtime makes by itself.
  void buildPageCopies();

private:
  using Shape = SmallVector<int64_t, 3>;
  /// An argument of a function in front of its weights.
  struct Argument {
    Type type;
    StringRef mark, name; // attribute and its value; without one if empty
    Value *value;
  };
  SmallVector<Argument> listArguments(mla::BatchType batchType);
  static bool isOfDownProjection(const CheckpointTensor &tensor) {
    StringRef name = tensor.name;
    return name.starts_with("q_a_") || name.starts_with("kv_a_");
  }

  RankedTensorType tensorType(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, element);
  }
  /// [T, shape...]
  RankedTensorType tokenType(ArrayRef<int64_t> shape) {
    Shape full{ShapedType::kDynamic};
    full.append(shape.begin(), shape.end());
    return tensorType(full);
  }

  func::FuncOp buildStep(StringRef name, int64_t queryLen, mla::Form form);
  /// [T, K], of positions.
  RankedTensorType selectionType();
  func::FuncOp createFunction(StringRef name, mla::BatchType batchType);
  Value splitHeads(Value weight, int64_t heads, int64_t rows) {
    return mlac::splitHeads(builder, loc, weight, heads, rows);
  }
  Value sliceRows(Value heads, int64_t first, int64_t count) {
    return mlac::sliceRows(builder, loc, heads, /*dim=*/1, first, count);
  }
  /// Whether queries and keys have a part that the heads' keys share, rotated or not.
  bool hasRopePart() const { return config.qkRopeHeadDim > 0; }
  /// As it is where the model does not rotate.
  Value rotate(Value rows);
  /// A latent and, where `tailDim` > 0, the raw tail behind it.
  mla::LatentProjectOp projectLatent(StringRef projection, StringRef norm, int64_t rank,
                                     int64_t tailDim, double multiplier);
  /// The new tokens' latents and rope keys, not rotated, unless the caller gives them.
  void projectKeys();
  /// q_nope and (R > 0) rotated q_pe.
  std::pair<Value, Value> buildQuery();
  Value buildOutput(Value heads);
  /// The indexer's queries [T, Hi, Di] and keys [T, Di], rotated.
  Value buildIndexQuery();
  Value buildIndexKey();
  Value rotateIndex(Value rows);
  /// [T, K]: the positions that this layer's indexer selects. Appends the tokens' index keys.
  Value buildSelection();

  Value weight(StringRef name) { return values.lookup(name); }

  OpBuilder builder;
  Location loc;
  const ModelConfig &config;
  const ImportOptions &options;
  Type element;
  mla::RopeAttr rope;
  mla::CacheType cacheType;
  mla::CacheType indexType; ///< null without an indexer of the layer's own
  std::vector<CheckpointTensor> tensors;

  // Of the function being built.
  llvm::StringMap<Value> values;
  Value hidden, batch, cache, table;
  Value indexCache, queryLatent, latent, ropeKey;
  Value selected; ///< null in a dense layer
};

} // namespace

RankedTensorType LayerBuilder::selectionType() {
  return RankedTensorType::get({ShapedType::kDynamic, config.indexer->topk}, builder.getI32Type());
}

SmallVector<LayerBuilder::Argument> LayerBuilder::listArguments(mla::BatchType batchType) {
  hidden = queryLatent = latent = ropeKey = indexCache = selected = {};
  SmallVector<Argument> arguments;
  auto addInput = [&](Type type, StringRef name, Value *value) {
    arguments.push_back({type, mla::kInputAttr, name, value});
  };
  if (!options.takesLatents || !config.qLoraRank || indexType)
    addInput(tokenType(config.hiddenSize), "hidden", &hidden);
  arguments.push_back({batchType, {}, {}, &batch});
  arguments.push_back({cacheType, {}, {}, &cache});
  if (indexType)
    arguments.push_back({indexType, mla::kPoolAttr, "index", &indexCache});
  if (config.isSparse() && !indexType)
    addInput(selectionType(), kSelection, &selected);
  if (!options.takesLatents)
    return arguments;
  if (config.qLoraRank)
    addInput(tokenType(*config.qLoraRank), "q_latent", &queryLatent);
  addInput(tokenType(config.kvLoraRank), "latent", &latent);
  if (hasRopePart())
    addInput(tokenType(config.qkRopeHeadDim), "k_pe", &ropeKey);
  return arguments;
}

func::FuncOp LayerBuilder::createFunction(StringRef name, mla::BatchType batchType) {
  SmallVector<Argument> arguments = listArguments(batchType);
  bool givesSelection = indexType && config.indexer->isShared;
  SmallVector<Type> inputs, results{tokenType(config.hiddenSize), cacheType};
  for (const Argument &argument : arguments)
    inputs.push_back(argument.type);
  if (indexType)
    results.push_back(indexType);
  if (givesSelection)
    results.push_back(selectionType());
  for (const CheckpointTensor &tensor : tensors)
    inputs.push_back(tensorType(tensor.shapeOnRank(config.tensorParallel)));

  auto function =
      func::FuncOp::create(builder, loc, name, builder.getFunctionType(inputs, results));
  Block *body = function.addEntryBlock();
  for (auto [index, argument] : llvm::enumerate(arguments)) {
    *argument.value = body->getArgument(index);
    if (!argument.mark.empty())
      function.setArgAttr(index, argument.mark, builder.getStringAttr(argument.name));
  }
  function.setResultAttr(0, mla::kOutputAttr, builder.getStringAttr("output"));
  if (givesSelection)
    function.setResultAttr(results.size() - 1, mla::kOutputAttr, builder.getStringAttr(kSelection));
  values = nameWeights(function, arguments.size(), tensors);
  return function;
}

Value LayerBuilder::rotate(Value rows) {
  if (!rope)
    return rows;
  return mla::RopeOp::create(builder, loc, rows.getType(), rows, table, batch, rope,
                             /*offset=*/IntegerAttr(), /*inverse=*/false, /*every=*/1,
                             /*codes_group=*/IntegerAttr());
}

mla::LatentProjectOp LayerBuilder::projectLatent(StringRef projection, StringRef norm, int64_t rank,
                                                 int64_t tailDim, double multiplier) {
  Type tail = tailDim > 0 ? tokenType(tailDim) : Type();
  return mla::LatentProjectOp::create(
      builder, loc, tokenType(rank), tail, hidden, weight((projection + ".weight").str()),
      weight((norm + ".weight").str()), weight((projection + ".bias").str()),
      builder.getF64FloatAttr(config.latentNormEps), builder.getF64FloatAttr(multiplier),
      /*codes_group=*/IntegerAttr());
}

void LayerBuilder::projectKeys() {
  if (latent)
    return;
  mla::LatentProjectOp kv = projectLatent("kv_a_proj_with_mqa", "kv_a_layernorm", config.kvLoraRank,
                                          config.qkRopeHeadDim, config.latentMultiplier);
  latent = kv.getLatent();
  ropeKey = kv.getTail();
}

std::pair<Value, Value> LayerBuilder::buildQuery() {
  Value input = hidden, up = weight("q_proj.weight");
  if (config.qLoraRank) {
    // LongCat's factor of the whole query: projections are linear, so it may
    // enter with the latent.
    if (!queryLatent)
      queryLatent = projectLatent("q_a_proj", "q_a_layernorm", *config.qLoraRank,
                                  /*tailDim=*/0, config.queryMultiplier)
                        .getLatent();
    input = queryLatent;
    up = weight("q_b_proj.weight");
  }
  int64_t nope = config.qkNopeHeadDim, ropeDim = config.qkRopeHeadDim;
  Value heads = splitHeads(up, config.numHeads(), nope + ropeDim);
  auto project = [&](int64_t first, int64_t rows) -> Value {
    return mla::ProjectOp::create(builder, loc, tokenType({config.numHeads(), rows}), input,
                                  sliceRows(heads, first, rows), /*bias=*/Value());
  };
  Value queryNope = project(0, nope);
  return {queryNope, hasRopePart() ? rotate(project(nope, ropeDim)) : Value()};
}

Value LayerBuilder::buildOutput(Value heads) {
  return mla::ProjectOp::create(builder, loc, tokenType(config.hiddenSize), heads,
                                weight("o_proj.weight"), weight("o_proj.bias"));
}

Value LayerBuilder::rotateIndex(Value rows) {
  if (!rope)
    return rows;
  mla::RopeAttr pairs = getRopeAttr(*builder.getContext(), config, config.indexer->pairing);
  // The first channels, where the attention's own rope takes the last ones.
  return mla::RopeOp::create(builder, loc, rows.getType(), rows, table, batch, pairs,
                             builder.getI64IntegerAttr(0), /*inverse=*/false, /*every=*/1,
                             /*codes_group=*/IntegerAttr());
}

Value LayerBuilder::buildIndexQuery() {
  const IndexerParams &indexer = *config.indexer;
  Value up = splitHeads(weight("indexer.wq_b.weight"), indexer.numHeads, indexer.headDim);
  return rotateIndex(mla::ProjectOp::create(builder, loc,
                                            tokenType({indexer.numHeads, indexer.headDim}),
                                            queryLatent, up, /*bias=*/Value()));
}

Value LayerBuilder::buildIndexKey() {
  RankedTensorType type = tokenType(config.indexer->headDim);
  Value raw = mla::ProjectOp::create(builder, loc, type, hidden, weight("indexer.wk.weight"),
                                     /*bias=*/Value());
  return rotateIndex(mla::LayerNormOp::create(
      builder, loc, type, raw, weight("indexer.k_norm.weight"), weight("indexer.k_norm.bias"),
      builder.getF64FloatAttr(kIndexNormEps)));
}

Value LayerBuilder::buildSelection() {
  const IndexerParams &indexer = *config.indexer;
  int64_t heads = indexer.numHeads, dim = indexer.headDim;
  indexCache = mla::AppendOp::create(builder, loc, indexType, buildIndexKey(), indexCache, batch);

  auto tokens = [&](ArrayRef<int64_t> shape, Type type) {
    Shape full{ShapedType::kDynamic};
    llvm::append_range(full, shape);
    return RankedTensorType::get(full, type);
  };
  Type f32 = builder.getF32Type();
  auto quantised = mla::QuantizeOp::create(
      builder, loc, tokens({heads, dim}, builder.getType<Float8E4M3FNType>()),
      tokens({heads, 1}, f32), buildIndexQuery(), builder.getI64IntegerAttr(dim),
      mla::ScaleRuleAttr::get(builder.getContext(), indexType.getScaleRule()),
      builder.getF64FloatAttr(std::numeric_limits<float>::min()),
      builder.getF64FloatAttr(kIndexAmaxFloor));
  Value headWeights = mla::ProjectOp::create(builder, loc, tokenType(heads), hidden,
                                             weight("indexer.weights_proj.weight"),
                                             /*bias=*/Value());
  double factor = 1 / std::sqrt(static_cast<double>(heads * dim));
  Value weights =
      mla::IndexWeightsOp::create(builder, loc, tokens(heads, f32), headWeights,
                                  quantised.getScales(), builder.getF64FloatAttr(factor));
  Value scores = mla::IndexScoresOp::create(builder, loc, tokens(ShapedType::kDynamic, f32),
                                            quantised.getQuantized(), weights, indexCache, batch,
                                            /*first=*/Value(), /*rows=*/Value());
  return mla::TopKOp::create(builder, loc, selectionType(), scores, /*lengths=*/Value(), batch,
                             builder.getI64IntegerAttr(indexer.topk), /*first=*/Value(),
                             /*onto=*/Value());
}

func::FuncOp LayerBuilder::buildStep(StringRef name, int64_t queryLen) {
  return buildStep(name, queryLen, options.form);
}

/// Batches of decodes alone get a function of their own: what prefills need beside, latents
/// and queries by parts, would keep it from the kernels that a decode has.
void LayerBuilder::buildMixedStep() {
  constexpr StringLiteral name = "step", ofDecodes = "step_decodes";
  func::FuncOp step = buildStep(name, ShapedType::kDynamic);
  step->setAttr(mla::kDecodeThresholdAttr, builder.getI64IntegerAttr(options.decodeThreshold));
  if (options.form != mla::Form::Auto || config.isSparse()) // not split
    return;
  func::FuncOp decodes = buildStep(ofDecodes, options.decodeThreshold, mla::Form::Absorbed);
  decodes->setAttr(mla::kDecodesOfAttr, builder.getStringAttr(name));
}

func::FuncOp LayerBuilder::buildStep(StringRef name, int64_t queryLen, mla::Form form) {
  OpBuilder::InsertionGuard guard(builder);
  auto batchType = mla::BatchType::get(builder.getContext(), queryLen, ShapedType::kDynamic);
  func::FuncOp function = createFunction(name, batchType);
  builder.setInsertionPointToStart(&function.getBody().front());
  if (rope)
    table = mla::RopeTableOp::create(
        builder, loc,
        RankedTensorType::get({ShapedType::kDynamic, rope.getDim()}, builder.getF32Type()), rope);

  auto [queryNope, queryRope] = buildQuery();
  projectKeys();
  Value keyRope = hasRopePart() ? rotate(ropeKey) : Value();
  SmallVector<Value, 2> rows{latent};
  if (hasRopePart())
    rows.push_back(keyRope);
  Value appended = mla::AppendOp::create(builder, loc, cacheType, rows, cache, batch);

  if (indexType)
    selected = buildSelection();
  Value up = splitHeads(weight("kv_b_proj.weight"), config.numHeads(),
                        config.qkNopeHeadDim + config.vHeadDim);
  Value keyUp = sliceRows(up, 0, config.qkNopeHeadDim);
  Value valueUp = sliceRows(up, config.qkNopeHeadDim, config.vHeadDim);
  auto attention = mla::AttentionOp::create(
      builder, loc, tokenType({config.numHeads(), config.vHeadDim}),
      /*lse=*/Type(), queryNope, queryRope, latent, keyRope, keyUp, valueUp, appended, batch,
      selected, builder.getF64FloatAttr(config.softmaxScale()),
      mla::FormAttr::get(builder.getContext(), selected ? mla::Form::Absorbed : form));
  SmallVector<Value> results{buildOutput(attention.getOutput()), appended};
  if (indexType)
    results.push_back(indexCache);
  if (function.getNumResults() > results.size())
    results.push_back(selected);
  func::ReturnOp::create(builder, loc, results);
  return function;
}

void LayerBuilder::buildPageCopies() {
  enum Place { Pool, Host };
  struct Copy {
    StringRef name;
    Place from, to;
  };
  auto batchType =
      mla::BatchType::get(builder.getContext(), ShapedType::kDynamic, ShapedType::kDynamic);
  for (const Copy &copy : {Copy{"copy_pages", Pool, Pool}, Copy{"swap_out", Pool, Host},
                           Copy{"swap_in", Host, Pool}}) {
    OpBuilder::InsertionGuard guard(builder);
    SmallVector<Type> inputs{batchType, cacheType};
    bool usesHost = copy.from == Host || copy.to == Host;
    if (usesHost)
      inputs.push_back(cacheType);
    auto function =
        func::FuncOp::create(builder, loc, copy.name, builder.getFunctionType(inputs, {cacheType}));
    Block *body = function.addEntryBlock();
    builder.setInsertionPointToStart(body);
    if (usesHost)
      function.setArgAttr(2, copy.from == Host ? mla::kInputAttr : mla::kOutputAttr,
                          builder.getStringAttr("host"));
    auto memory = [&](Place place) { return body->getArgument(place == Host ? 2 : 1); };
    Value copied = mla::CopyPagesOp::create(builder, loc, cacheType, memory(copy.from),
                                            memory(copy.to), body->getArgument(0));
    func::ReturnOp::create(builder, loc, copied);
  }
}

Location mlac::getFileLoc(MLIRContext &context, StringRef path) {
  return FileLineColLoc::get(&context, path, /*line=*/1, /*column=*/1);
}

/// Layers of other kinds than the latent one: DeepSeek-V4's, and of groups of heads.
template <typename LayerT>
static LogicalResult buildOtherKind(ModuleOp module, const ModelConfig &config,
                                    const ImportOptions &options) {
  LayerT layer(module, config, options);
  if (failed(layer.verify()))
    return failure();
  layer.buildStep("prefill", ShapedType::kDynamic);
  layer.buildStep("decode", 1);
  if (options.decodeThreshold > 0)
    layer.buildStep("step", ShapedType::kDynamic)
        ->setAttr(mla::kDecodeThresholdAttr,
                  Builder(module.getContext()).getI64IntegerAttr(options.decodeThreshold));
  return success();
}

/// Whether the cache type of these options exists; says what it lacks if not.
static LogicalResult verifyCache(Location loc, const ModelConfig &config,
                                 const ImportOptions &options) {
  SmallVector<mla::CacheField, 2> fields =
      mla::CacheType::latentFields(config.kvLoraRank, config.qkRopeHeadDim);
  auto verify = [&](function_ref<InFlightDiagnostic()> emit, StringRef format) {
    return mla::CacheType::verify(
        emit, options.pageSize, fields, getElementType(*loc.getContext(), options.activationType),
        getRopeOrder(config.rope.pairing), format, options.scaleRule, /*tokensPerRow=*/1,
        /*window=*/0, /*hadamard=*/false);
  };
  auto verifyPlain = [&](auto emit) { return verify(emit, ""); };
  auto emit = [&] { return emitCacheError(loc, verifyPlain); };
  return verify(emit, options.cacheFormat);
}

/// Names of inference engines (vLLM's kv_cache_dtype) stand for ours. All their kinds of codes are
/// one format of DeepSeek-V4's layers (v4.md, its decisions).
static StringRef getCacheFormat(const ModelConfig &config, StringRef name) {
  if (config.sharedKeys && name.starts_with("fp8"))
    return "model1_584";
  return name == "fp8" && !config.grouped ? "mla_fp8_tensor" : name;
}

OwningOpRef<ModuleOp> mlac::importConfig(Location loc, const ModelConfig &config,
                                         ImportOptions options) {
  options.cacheFormat = getCacheFormat(config, options.cacheFormat).str();
  loc.getContext()->loadDialect<func::FuncDialect, mla::MlaDialect, tensor::TensorDialect>();
  if (options.pageSize < 1 || options.pageSize > kMaxPageSize) {
    emitError(loc) << "page size " << options.pageSize << ", expected 1 to " << kMaxPageSize;
    return {};
  }
  if (config.indexer && !config.isSparse() &&
      computeRopeTable(config).length > config.indexer->topk)
    emitWarning(loc) << config.modelType
                     << ": sparse attention is imported as dense, which is equal up to "
                     << "index_topk = " << config.indexer->topk
                     << " tokens; longer sequences will be refused";
  if (config.rope.scaledFrom > 0 && config.rope.scaledFrom < computeRopeTable(config).length)
    emitWarning(loc) << config.modelType << ": queries from position " << config.rope.scaledFrom
                     << " on are scaled by their position, which no kernel does; longer "
                     << "sequences will be refused";
  if (!config.sharedKeys && !config.grouped &&
      (failed(verifyCache(loc, config, options)) || failed(verifySelection(loc, config, options)) ||
       (config.hasOwnIndexer() && !getIndexCacheType(loc, config, options))))
    return {};
  if (options.rotatesIndex && !config.sharedKeys) {
    emitError(loc) << "index-hadamard does not apply to " << config.modelType
                   << ", expected a model whose indexer selects entries (deepseek_v4)";
    return {};
  }
  if (options.indexFormat != IndexFormat::E4M3 && !config.sharedKeys) {
    emitError(loc) << "index-format does not apply to " << config.modelType
                   << ", expected a model whose indexer selects entries (deepseek_v4)";
    return {};
  }
  if (options.roundsStates && !config.sharedKeys) {
    emitError(loc) << "round-states does not apply to " << config.modelType
                   << ", expected a model that makes entries of tokens (deepseek_v4)";
    return {};
  }
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc, config.modelType);
  module->getOperation()->setAttr(mla::kModelAttr, getModelAttr(loc.getContext(), config, options));
  if (config.weightScales)
    module->getOperation()->setAttr(
        mla::kWeightScalesAttr,
        DenseI64ArrayAttr::get(loc.getContext(),
                               {config.weightScales->rows, config.weightScales->columns}));
  if (config.sharedKeys || config.grouped) {
    auto build = config.sharedKeys ? buildOtherKind<SharedKeyLayer> : buildOtherKind<GroupedLayer>;
    return succeeded(build(*module, config, options)) ? std::move(module) : OwningOpRef<ModuleOp>();
  }
  LayerBuilder layer(*module, config, options);
  layer.buildStep("prefill", ShapedType::kDynamic);
  layer.buildStep("decode", 1);
  if (options.decodeThreshold > 0)
    layer.buildMixedStep();
  if (layer.canCopyPages())
    layer.buildPageCopies();
  return module;
}
