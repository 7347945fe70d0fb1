//===- SharedKeyLayer.cpp - steps of a DeepSeek-V4 layer ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SharedKeyLayer.h"

#include "CacheErrors.h"
#include "CacheFormats.h"
#include "SelectionLimits.h"
#include "WeightArguments.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <limits>

using namespace mlac;
using namespace mlir;

/// Tokens of a page of entries, which are what tables of such pools count in (v4.md section 4).
static constexpr int64_t kTokensOfPage = 256;
/// What keys are stored in but rows of the activations' type.
static constexpr StringLiteral kKeyFormat = "model1_584";
/// Places of the list of all entries are a multiple of it (v4.md section 8).
static constexpr int64_t kListAlignment = 128;

/// Rows of a page of states: those of one entry, of the longer entries 8 (v4.md section 4).
static constexpr int64_t kStatesOfPage = 8;

//===----------------------------------------------------------------------===//
// Pools
//===----------------------------------------------------------------------===//

/// Null where there is no such type, with an error.
mla::CacheType SharedKeyLayer::poolType(const RowFormat &rows, int64_t pageSize,
                                        int64_t tokensPerRow, bool hadamard) {
  auto verify = [&](function_ref<InFlightDiagnostic()> emit, const RowFormat &format) {
    return mla::CacheType::verify(emit, pageSize, format.fields, element,
                                  mla::RopeOrder::Interleaved, format.name, format.rule,
                                  tokensPerRow, /*window=*/0, hadamard);
  };
  auto verifyPlain = [&](auto emit) { return verify(emit, plainKeys()); };
  // --cache-format is of keys: rows of an indexer have a format of their own.
  bool isOfOption = rows.name == kKeyFormat;
  auto emit = [&] { return isOfOption ? emitCacheError(loc, verifyPlain) : emitError(loc); };
  if (failed(verify(emit, rows)))
    return {};
  return mla::CacheType::get(builder.getContext(), pageSize, rows.fields, element,
                             mla::RopeOrder::Interleaved, rows.name, rows.rule, tokensPerRow,
                             /*window=*/0, hadamard);
}

mla::CacheType SharedKeyLayer::entryType(const RowFormat &rows, bool hadamard) {
  return poolType(rows, std::max<int64_t>(kTokensOfPage / shared.every, 1), shared.every, hadamard);
}

/// Keys of the activations' type.
SharedKeyLayer::RowFormat SharedKeyLayer::plainKeys() {
  return {"", {{cache::Part::Latent, /*heads=*/1, config.vHeadDim}}, mla::ScaleRule::Raw};
}

/// Keys: whole rows of the activations' type, or codes and the columns that are rotated.
SharedKeyLayer::RowFormat SharedKeyLayer::keyFormat() {
  if (options.cacheFormat.empty())
    return plainKeys();
  return {options.cacheFormat,
          mla::CacheType::latentFields(config.qkNopeHeadDim, config.qkRopeHeadDim),
          mla::ScaleRule::PowerOfTwo};
}

/// What entries are made of, of the tokens that the next one may need.
mla::CacheType SharedKeyLayer::stateType(int64_t dim) {
  int64_t runs = shared.selectsEntries() ? 2 : 1;
  SmallVector<mla::CacheField, 2> fields = {{cache::Part::Key, /*heads=*/1, runs * dim},
                                            {cache::Part::Value, /*heads=*/1, runs * dim}};
  return mla::CacheType::get(builder.getContext(), std::min(shared.every, kStatesOfPage), fields,
                             single, mla::RopeOrder::Interleaved, "kv_nhd", mla::ScaleRule::Raw,
                             /*tokensPerRow=*/1, /*window=*/runs * shared.every,
                             /*hadamard=*/false);
}

SharedKeyLayer::SharedKeyLayer(ModuleOp module, const ModelConfig &config,
                               const ImportOptions &options)
    : builder(module.getBodyRegion()), loc(module.getLoc()), config(config), options(options),
      shared(*config.sharedKeys),
      element(getElementType(*module.getContext(), options.activationType)),
      single(builder.getF32Type()), rope(getRopeAttr(*module.getContext(), config)),
      tensors(getStepTensors(config)) {}

LogicalResult SharedKeyLayer::makePools() {
  RowFormat keys = keyFormat();
  window = {"", poolType(keys, options.pageSize, /*tokensPerRow=*/1)};
  pools.push_back(&window);
  if (shared.hasEntries()) {
    entries = {"entries", entryType(keys)};
    states = {"states", stateType(config.vHeadDim)};
    pools.append({&entries, &states});
  }
  if (config.hasOwnIndexer()) {
    mla::CacheField key{cache::Part::Index, /*heads=*/1, config.indexer->headDim};
    index = {"index",
             entryType({getLayoutName(options.indexFormat), {key}, mla::ScaleRule::PowerOfTwo},
                       options.rotatesIndex)};
    indexStates = {"index_states", stateType(config.indexer->headDim)};
    pools.append({&index, &indexStates});
  }
  return success(llvm::all_of(pools, [](const Pool *pool) { return pool->type; }));
}

LogicalResult SharedKeyLayer::verify() {
  if (options.takesLatents)
    return emitError(loc) << "layers of " << config.modelType
                          << " take hidden states: --inputs=latents does not apply";
  if (StringRef format = options.cacheFormat; !format.empty() && format != kKeyFormat)
    return emitError(loc) << "cache format '" << format << "' is not supported for "
                          << config.modelType << ", expected " << kKeyFormat
                          << " (fp8) or rows of the activations' type";
  // Of codes it is the format's own.
  if (options.scaleRule != mla::ScaleRule::Raw && options.cacheFormat.empty())
    return emitError(loc) << "scale-rule = " << stringifyScaleRule(options.scaleRule)
                          << " does not apply to rows of the activations' type, which have no "
                          << "scales, expected cache format " << kKeyFormat << " (fp8)";
  return success(succeeded(verifySelection(loc, config, options)) && succeeded(makePools()));
}

//===----------------------------------------------------------------------===//
// The function
//===----------------------------------------------------------------------===//

RankedTensorType SharedKeyLayer::tokens(ArrayRef<int64_t> shape, Type type) {
  SmallVector<int64_t, 3> full{ShapedType::kDynamic};
  llvm::append_range(full, shape);
  return RankedTensorType::get(full, type);
}

func::FuncOp SharedKeyLayer::createFunction(StringRef name, mla::BatchType batchType) {
  RankedTensorType hiddenType = tokens(config.hiddenSize, element);
  SmallVector<Type> inputs{hiddenType, batchType}, results{hiddenType};
  for (const Pool *pool : pools) {
    inputs.push_back(pool->type);
    results.push_back(pool->type);
  }
  bool isGivenSelection = config.isSparse() && !config.hasOwnIndexer();
  if (isGivenSelection)
    inputs.push_back(tokens(config.indexer->topk, builder.getI32Type()));
  unsigned firstWeight = inputs.size();
  for (const CheckpointTensor &tensor : tensors)
    inputs.push_back(RankedTensorType::get(tensor.shapeOnRank(config.tensorParallel),
                                           tensor.isSingle ? single : element));

  auto function =
      func::FuncOp::create(builder, loc, name, builder.getFunctionType(inputs, results));
  Block *body = function.addEntryBlock();
  hidden = body->getArgument(0);
  batch = body->getArgument(1);
  function.setArgAttr(0, mla::kInputAttr, builder.getStringAttr("hidden"));
  function.setResultAttr(0, mla::kOutputAttr, builder.getStringAttr("output"));
  for (auto [position, pool] : llvm::enumerate(pools)) {
    unsigned argument = 2 + position;
    pool->cache = body->getArgument(argument);
    if (!pool->name.empty())
      function.setArgAttr(argument, mla::kPoolAttr, builder.getStringAttr(pool->name));
  }
  if (isGivenSelection) {
    selected = body->getArgument(firstWeight - 1);
    function.setArgAttr(firstWeight - 1, mla::kInputAttr, builder.getStringAttr("selected"));
  }
  values = nameWeights(function, firstWeight, tensors);
  return function;
}

func::FuncOp SharedKeyLayer::buildStep(StringRef name, int64_t queryLen) {
  OpBuilder::InsertionGuard guard(builder);
  auto batchType = mla::BatchType::get(builder.getContext(), queryLen, ShapedType::kDynamic);
  func::FuncOp function = createFunction(name, batchType);
  builder.setInsertionPointToStart(&function.getBody().front());
  table = mla::RopeTableOp::create(builder, loc, tokens(rope.getDim(), single), rope);
  Value query = buildQuery();
  append(window, rotate(latent("kv_proj", "kv_norm", config.vHeadDim)));
  if (shared.hasEntries())
    appendEntries({"compressor.", config.vHeadDim, &states, &entries});
  SmallVector<Value> results{buildOutput(buildAttention(query))};
  for (const Pool *pool : pools)
    results.push_back(pool->cache);
  func::ReturnOp::create(builder, loc, results);
  return function;
}

//===----------------------------------------------------------------------===//
// Rows of tokens
//===----------------------------------------------------------------------===//

Value SharedKeyLayer::project(Value input, Value weight, ArrayRef<int64_t> shape, Type type) {
  return mla::ProjectOp::create(builder, loc, tokens(shape, type), input, weight,
                                /*bias=*/Value());
}

/// f32, rounded to the activations' type where the import asks for it.
Value SharedKeyLayer::projectStates(Value weight, int64_t columns) {
  return mla::ProjectOp::create(builder, loc, tokens(columns, single), hidden, weight,
                                /*bias=*/Value(), options.roundsStates && element != single);
}

/// The [groups, rows, in] view of a weight [groups * rows, in].
Value SharedKeyLayer::splitRows(Value weight, int64_t groups) {
  auto type = cast<RankedTensorType>(weight.getType());
  auto split = RankedTensorType::get({groups, type.getDimSize(0) / groups, type.getDimSize(1)},
                                     type.getElementType());
  return tensor::ExpandShapeOp::create(builder, loc, split, weight,
                                       ArrayRef<ReassociationIndices>{{0, 1}, {2}});
}

/// Rows [T, D] as the columns of each field.
SmallVector<Value, 2> SharedKeyLayer::splitColumns(Value rows, ArrayRef<mla::CacheField> fields) {
  SmallVector<Value, 2> parts;
  int64_t column = 0;
  OpFoldResult one = builder.getIndexAttr(1), none = builder.getIndexAttr(0);
  OpFoldResult count = tensor::DimOp::create(builder, loc, rows, 0).getResult();
  for (const mla::CacheField &field : fields) {
    OpFoldResult width = builder.getIndexAttr(field.columns);
    SmallVector<OpFoldResult, 2> offsets = {none, builder.getIndexAttr(column)},
                                 sizes = {count, width}, strides = {one, one};
    parts.push_back(tensor::ExtractSliceOp::create(builder, loc, tokens(field.columns, element),
                                                   rows, offsets, sizes, strides));
    column += field.columns;
  }
  return parts;
}

Value SharedKeyLayer::rotate(Value rows, int64_t every, bool isInverse) {
  auto type = cast<RankedTensorType>(rows.getType());
  int64_t offset = type.getShape().back() - rope.getDim();
  return mla::RopeOp::create(builder, loc, RankedTensorType::get(type.getShape(), element), rows,
                             table, batch, rope, builder.getI64IntegerAttr(offset), isInverse,
                             every, /*codes_group=*/IntegerAttr());
}

Value SharedKeyLayer::latent(StringRef projection, StringRef norm, int64_t width) {
  return mla::LatentProjectOp::create(builder, loc, tokens(width, element), /*tail=*/Type(), hidden,
                                      weight(projection + ".weight"), weight(norm + ".weight"),
                                      /*bias=*/Value(), builder.getF64FloatAttr(config.rmsNormEps),
                                      builder.getF64FloatAttr(1), /*codes_group=*/IntegerAttr())
      .getLatent();
}

void SharedKeyLayer::append(Pool &pool, ValueRange rows) {
  SmallVector<Value, 2> parts(rows);
  if (pool.type.getQkRopeHeadDim() > 0) // whole rows
    parts = splitColumns(rows.front(), pool.type.getFields());
  pool.cache = mla::AppendOp::create(builder, loc, pool.type, parts, pool.cache, batch);
}

/// Heads are normalised without weights, and not rounded before they are rotated.
Value SharedKeyLayer::buildQuery() {
  queryLatent = latent("q_a_proj", "q_a_norm", *config.qLoraRank);
  int64_t heads = config.numHeads(), dim = config.vHeadDim;
  Value up = splitRows(weight("q_b_proj.weight"), heads);
  Value raw = project(queryLatent, up, {heads, dim}, element);
  return rotate(mla::RmsNormOp::create(
      builder, loc, tokens({heads, dim}, single), raw,
      /*gamma=*/Value(), builder.getF64FloatAttr(config.rmsNormEps), builder.getF64FloatAttr(1)));
}

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

/// Writes what the new tokens contribute, then the entries that they close (v4.md section 6).
void SharedKeyLayer::appendEntries(const Compressor &compressor) {
  auto own = [&](StringRef name) { return weight(compressor.prefix + name); };
  bool overlaps = shared.selectsEntries();
  int64_t columns = overlaps ? 2 * compressor.dim : compressor.dim;
  Value rows = projectStates(own("kv_proj.weight"), columns);
  Value gates = projectStates(own("gate_proj.weight"), columns);
  gates = mla::AddPositionBiasOp::create(builder, loc, gates, own("position_bias"), batch);
  append(*compressor.states, {rows, gates});
  RankedTensorType type = tokens(compressor.dim, single);
  Value pooled = mla::CompressOp::create(builder, loc, type, compressor.states->cache, batch,
                                         shared.every, overlaps);
  Value normalised = mla::RmsNormOp::create(builder, loc, type, pooled, own("kv_norm.weight"),
                                            builder.getF64FloatAttr(config.rmsNormEps),
                                            builder.getF64FloatAttr(1));
  Value rotated = rotate(normalised, shared.every);
  append(*compressor.entries,
         compressor.entries->type.getHadamard() ? transform(rotated) : rotated);
}

/// Sums and differences of all columns: products of two rows stay what they are.
Value SharedKeyLayer::transform(Value rows) {
  return mla::HadamardOp::create(builder, loc, rows.getType(), rows);
}

Value SharedKeyLayer::buildIndexQuery() {
  const IndexerParams &indexer = *config.indexer;
  Value up = splitRows(weight("compressor.indexer.q_b_proj.weight"), indexer.numHeads);
  Value query = rotate(project(queryLatent, up, {indexer.numHeads, indexer.headDim}, element));
  return index.type.getHadamard() ? transform(query) : query;
}

/// [T]: entries whose last token is not behind a token.
Value SharedKeyLayer::countEntries() {
  return mla::SeenKeysOp::create(builder, loc, tokens({}, builder.getI32Type()), /*keys=*/Type(),
                                 batch, /*window=*/0, shared.every, /*cache=*/Value())
      .getCount();
}

/// [T, K]: the entries that the layer's indexer selects (v4.md section 7).
Value SharedKeyLayer::buildSelection() {
  const IndexerParams &indexer = *config.indexer;
  int64_t heads = indexer.numHeads, dim = indexer.headDim;
  appendEntries({"compressor.indexer.", dim, &indexStates, &index});
  IndexQuery query = roundIndexQuery(buildIndexQuery());
  Value headWeights =
      project(hidden, weight("compressor.indexer.scorer.weights_proj.weight"), heads, element);
  double factor = 1 / std::sqrt(static_cast<double>(heads * dim));
  Value weights = mla::IndexWeightsOp::create(builder, loc, tokens(heads, single), headWeights,
                                              query.scales, builder.getF64FloatAttr(factor));
  Value scores =
      mla::IndexScoresOp::create(builder, loc, tokens(ShapedType::kDynamic, single), query.rows,
                                 weights, index.cache, batch, /*first=*/Value(), /*rows=*/Value());
  return mla::TopKOp::create(builder, loc, tokens(indexer.topk, builder.getI32Type()), scores,
                             countEntries(), batch, builder.getI64IntegerAttr(indexer.topk),
                             /*first=*/Value(), /*onto=*/Value());
}

/// As the pool's keys are: in MXFP4 numbers, which need no scales.
SharedKeyLayer::IndexQuery SharedKeyLayer::roundIndexQuery(Value query) {
  if (cache::isPacked(index.type.getLayout()))
    return {mla::RoundMxfp4Op::create(builder, loc, query.getType(), query), Value()};
  int64_t heads = config.indexer->numHeads, dim = config.indexer->headDim;
  auto quantised = mla::QuantizeOp::create(
      builder, loc, tokens({heads, dim}, builder.getType<Float8E4M3FNType>()),
      tokens({heads, 1}, single), query, builder.getI64IntegerAttr(dim),
      mla::ScaleRuleAttr::get(builder.getContext(), index.type.getScaleRule()),
      builder.getF64FloatAttr(std::numeric_limits<float>::min()),
      builder.getF64FloatAttr(kIndexAmaxFloor));
  return {quantised.getQuantized(), quantised.getScales()};
}

//===----------------------------------------------------------------------===//
// Attention and output
//===----------------------------------------------------------------------===//

Value SharedKeyLayer::buildAttention(Value query) {
  Type counts = tokens({}, builder.getI32Type());
  auto listType = [&](int64_t width) { return tokens(width, builder.getI32Type()); };
  auto rowsOf = [&](Value keys, const Pool &pool) -> Value {
    return mla::ConvertIndicesOp::create(builder, loc, keys.getType(), keys, pool.cache, batch,
                                         /*prefill_requests=*/Value(),
                                         /*workspace_starts=*/Value());
  };
  auto seen = mla::SeenKeysOp::create(builder, loc, counts, listType(shared.window), batch,
                                      shared.window, /*every=*/1, /*cache=*/Value());
  Value rows = rowsOf(seen.getKeys(), window), far, farCount, farCache;
  if (shared.selectsEntries()) {
    far = rowsOf(selected ? selected : buildSelection(), entries);
    farCount = countEntries();
  } else if (shared.hasEntries()) {
    // Whole vectors of a list, whatever the longest sequence (v4.md section 8).
    int64_t most =
        llvm::alignTo(llvm::divideCeil(getSupportedLength(config), shared.every), kListAlignment);
    auto all = mla::SeenKeysOp::create(builder, loc, counts, listType(most), batch, /*window=*/0,
                                       shared.every, /*cache=*/Value());
    far = rowsOf(all.getKeys(), entries);
    farCount = all.getCount();
  }
  if (far)
    farCache = entries.cache;
  auto attention = mla::SparseAttentionOp::create(
      builder, loc, query.getType(), /*lse=*/Type(), /*max_logits=*/Type(), query,
      /*q_pe=*/Value(), rows, seen.getCount(), weight("sinks"), window.cache, batch,
      /*latent=*/Value(), /*k_pe=*/Value(), /*prefills=*/Value(), /*chunk=*/Value(),
      /*onto=*/Value(), far, farCount, farCache, /*num_splits=*/Value(),
      builder.getF64FloatAttr(config.softmaxScale()));
  return attention.getOutput();
}

/// Values are rotated keys, so that their means are rotated back. Then each group of heads is one
/// row of a product (v4.md section 11).
Value SharedKeyLayer::buildOutput(Value heads) {
  int64_t groups = shared.outputGroups / config.tensorParallel;
  int64_t width = config.numHeads() * config.vHeadDim;
  Value rows = rotate(heads, /*every=*/1, /*isInverse=*/true);
  rows = tensor::CollapseShapeOp::create(builder, loc, tokens(width, element), rows,
                                         ArrayRef<ReassociationIndices>{{0}, {1, 2}});
  rows = tensor::ExpandShapeOp::create(builder, loc, tokens({groups, width / groups}, element),
                                       rows, ArrayRef<ReassociationIndices>{{0}, {1, 2}});
  Value latents = mla::HeadProjectOp::create(
      builder, loc, tokens({groups, shared.outputRank}, element), rows,
      splitRows(weight("o_a_proj.weight"), groups), /*contract_rows=*/false);
  return project(latents, weight("o_b_proj.weight"), config.hiddenSize, element);
}
