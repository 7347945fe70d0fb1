//===- CacheAttention.cpp - a whole model's attention over caches ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Import/CacheAttention.h"

#include "EraseUnread.h"
#include "FindAttention.h"
#include "GraphCalls.h"
#include "HeadDims.h"

#include "llvm/ADT/STLExtras.h"

#include <charconv>
#include <cmath>
#include <limits>

using namespace mlac;
using namespace mlac::graph;
using namespace mlir;
using mlir::graph::NodeOp;

/// What metadata is made of (paged-cache.md section 12): inputs of the graph from then on.
static constexpr StringLiteral kBatchInputs[] = {"seq_len", "input_pos", "cache_loc",
                                                 "pages_per_seq"};
static constexpr StringLiteral kTokens = "input_ids", kPageTable = "page_table";
/// The frequencies of rope, which all attention of a graph may share.
static constexpr StringLiteral kFrequencies = "inv_freq";
/// What a buffer of angles is called behind its name, as descriptors do (mode, theta, scale): none,
/// where rope is the graph's own, or those of a theta.
static constexpr StringLiteral kNoRope = "_None_10000_0_1_0";
static std::string getRopeEnding(double theta) {
  char digits[64];
  char *end =
      std::to_chars(std::begin(digits), std::end(digits), theta, std::chars_format::fixed).ptr;
  std::string number(std::begin(digits), end);
  if (number.find('.') == std::string::npos)
    number += ".0";
  llvm::replace(number, '.', '_');
  return "_rope_" + number + "_1_0";
}

namespace {
class Cacher : GraphCalls {
public:
  Cacher(func::FuncOp function, const AttentionOperator &attention, int64_t pageSize)
      : GraphCalls(function), function(function), attention(&attention), pageSize(pageSize) {}
  FailureOr<CachedGraph> run();

private:
  LogicalResult verify(const FoundAttention &found);
  LogicalResult verifyScores(const FoundAttention &found);
  InFlightDiagnostic refuse(const FoundAttention &found);
  void addMetadata(Block &body);
  bool rotates(const RopeInfo &rope, int64_t columns) const;
  void chooseRope(FoundAttention &found) const;
  Value toRows(Value heads, bool isTransposed, int64_t group, const Twine &name);
  SmallVector<Value> makeHeadRows(const FoundAttention &found, const CachedNode &cached,
                                  const std::string &name);
  SmallVector<Value> makeLatentRows(const FoundAttention &found, const std::string &name);
  Value sliceWeight(const FoundAttention &found, bool isOfValues, const std::string &name);
  void addCaches(CallOperands &operands, const FoundAttention &found, size_t index);
  void addBuffers(CallOperands &operands, const std::optional<FoundRope> &rope);
  void addRope(CallOperands &operands, const FoundRope &rope);
  void addConstants(CallOperands &operands, const FoundAttention &found);
  Value callAttention(const FoundAttention &found, ValueRange rows, size_t index,
                      const std::string &name);
  Value unfold(const FoundAttention &found, Value latents, const std::string &name);
  GraphValue describe(Value value) const;
  QueryAndKey describeOperands(const FoundAttention &found) const;
  std::optional<GraphTables> describeTables(const std::optional<FoundRope> &rope) const;
  CachedLatents describeLatents(const FoundAttention &found);
  void followReplaced(FoundAttention &found) const;
  CachedNode replace(FoundAttention &found, size_t index);

  func::FuncOp function;
  const AttentionOperator *attention;
  int64_t pageSize;
  SmallVector<Value> metadata;
  llvm::DenseMap<Value, Value> replaced;    ///< results of attention, which are no more
  llvm::DenseMap<Value, std::string> names; ///< of what they became: as the caller's graph has them
};
} // namespace

//===----------------------------------------------------------------------===//
// What is known of an attention
//===----------------------------------------------------------------------===//

GraphValue Cacher::describe(Value value) const {
  if (auto known = names.find(value); known != names.end())
    return {known->second, -1};
  auto result = dyn_cast<OpResult>(value);
  bool isOneOfMany = result && result.getOwner()->getNumResults() > 1;
  return {getName(function, value),
          isOneOfMany ? static_cast<int64_t>(result.getResultNumber()) : -1};
}

/// Of [batch, heads, tokens, channels], else of what the graph's products read.
static int64_t countKeyHeads(const FoundAttention &found) {
  const AttentionOperands &operands = found.operands;
  return operands.keyDims.empty() ? cast<RankedTensorType>(operands.key.getType()).getDimSize(1)
                                  : found.keyHeads;
}

QueryAndKey Cacher::describeOperands(const FoundAttention &found) const {
  const AttentionOperands &operands = found.operands;
  return {describe(operands.query), describe(operands.key), operands.isKeyTransposed,
          countKeyHeads(found) / found.info.kvHeads};
}

std::optional<GraphTables> Cacher::describeTables(const std::optional<FoundRope> &rope) const {
  if (!rope || !rope->info.isByToken())
    return std::nullopt;
  return GraphTables{describe(rope->cos), describe(rope->sin), rope->areRepeated};
}

CachedLatents Cacher::describeLatents(const FoundAttention &found) {
  const FoundLatents &latents = *found.latents;
  GraphValue query = describe(found.operands.query), key = describe(latents.key);
  CachedLatents cached{.latent = describe(latents.latent),
                       .query = query,
                       .key = key,
                       .turnedQuery = query,
                       .turnedKey = key,
                       .weight = getName(function, function.getArgument(latents.weight)),
                       .tables = describeTables(latents.rope)};
  if (latents.rope) {
    cached.query = describe(latents.rope->query);
    cached.key = describe(latents.rope->key);
  }
  return cached;
}

InFlightDiagnostic Cacher::refuse(const FoundAttention &found) {
  return emitError(found.node->getLoc()) << Evaluator::describe(found.node) << ": ";
}

LogicalResult Cacher::verifyScores(const FoundAttention &found) {
  const AttentionInfo &info = found.info;
  auto fail = [&](const Twine &what) -> LogicalResult {
    return refuse(found) << "its attention has " << what.str() << ", which the operator of '"
                         << attention->name << "' does not take";
  };
  if (found.sinks && !attention->hasSinks)
    return fail("sinks");
  if (attention->hasScores || attention->latents != LatentOperand::None)
    return success();
  if (info.window > 0)
    return fail("a window of " + Twine(info.window));
  if (info.softcap > 0)
    return fail("a softcap of " + Twine(std::to_string(info.softcap)));
  // Both are rounded once.
  double expected = 1 / std::sqrt(static_cast<double>(info.keyDim));
  if (std::abs(info.scale - expected) > expected * std::numeric_limits<float>::epsilon())
    return fail("a scale of " + Twine(std::to_string(info.scale)) + ", not " +
                Twine(std::to_string(expected)));
  return success();
}

/// Whether the operator takes all that the attention has.
LogicalResult Cacher::verify(const FoundAttention &found) {
  if (attention->latents != LatentOperand::None && !found.latents)
    return refuse(found) << "its attention is not over latents, which the operator of '"
                         << attention->name << "' takes: " << found.whyNoLatents;
  return verifyScores(found);
}

/// Whether the operator rotates so, in heads, or shared parts of heads, of so many columns.
bool Cacher::rotates(const RopeInfo &rope, int64_t columns) const {
  bool isHalf = rope.pairing == RopePairing::Half, isWhole = rope.width == columns;
  switch (attention->rope) {
  case RopeOperand::None:
    return false;
  case RopeOperand::Frequencies:
    return true;
  case RopeOperand::Angles:
    return isHalf && isWhole && findTheta(rope);
  case RopeOperand::Tables:
    return !isHalf && isWhole && findTheta(rope);
  }
  llvm_unreachable("unknown rope operand");
}

/// Takes operands from before the rope that the operator does.
void Cacher::chooseRope(FoundAttention &found) const {
  if (attention->latents != LatentOperand::None) {
    FoundLatents &latents = *found.latents;
    if (latents.rope && !rotates(latents.rope->info, latents.info.width))
      latents.rope.reset();
    if (latents.rope) {
      found.operands.query = latents.rope->query;
      found.operands.queryDims = {};
      latents.key = latents.rope->key;
    }
    return;
  }
  if (found.rope && !rotates(found.rope->info, found.info.keyDim))
    found.rope.reset();
  if (found.rope) {
    found.operands.query = found.rope->query;
    found.operands.key = found.rope->key;
    found.operands.isKeyTransposed = false;
    found.operands.queryDims = found.operands.keyDims = {};
  }
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// The node that makes the metadata, once, for all attention.
void Cacher::addMetadata(Block &body) {
  Type i32 = builder.getI32Type(), list = RankedTensorType::get(ShapedType::kDynamic, i32);
  Type table = RankedTensorType::get({ShapedType::kDynamic, ShapedType::kDynamic}, i32);
  CallOperands operands = makeOperands();
  if (attention->takesTokens)
    operands.add(kTokens, findOrAddInput(table, kTokens));
  for (StringRef name : kBatchInputs)
    operands.add(name, addInput(list, name));
  if (attention->takesTokens)
    operands.add("page_size", pageSize);
  auto results = llvm::map_to_vector(
      attention->metadata, [&](StringRef name) { return name == kPageTable ? table : list; });
  builder.setInsertionPointToStart(&body);
  auto node = NodeOp::create(builder, function.getLoc(), results, attention->prepareOp,
                             operands.values, builder.getDictionaryAttr(operands.arguments),
                             builder.getStringAttr("prepare_metadata"), StringAttr());
  llvm::append_range(metadata, node.getResults());
}

/// [batch, tokens, heads, channels], each of a group's heads once.
Value Cacher::toRows(Value heads, bool isTransposed, int64_t group, const Twine &name) {
  if (group > 1) {
    int64_t count = cast<RankedTensorType>(heads.getType()).getDimSize(1) / group;
    heads = slice(heads, /*dim=*/1, /*first=*/0, count, /*step=*/group, name + "_heads");
  }
  SmallVector<int64_t> order =
      isTransposed ? SmallVector<int64_t>{0, 3, 1, 2} : SmallVector<int64_t>{0, 2, 1, 3};
  return permute(heads, order, name + "_rows");
}

SmallVector<Value> Cacher::makeHeadRows(const FoundAttention &found, const CachedNode &cached,
                                        const std::string &name) {
  const AttentionOperands &from = found.operands;
  int64_t keyHeads = countKeyHeads(found);
  auto rows = [&](Value value, const HeadDims &dims, bool isTransposed, int64_t group,
                  StringRef part) {
    Value heads = toHeads(*this, value, dims, isTransposed, name + part);
    return toRows(heads, isTransposed, group, name + part);
  };
  return {rows(from.query, from.queryDims, /*isTransposed=*/false, /*group=*/1, "_query"),
          rows(from.key, from.keyDims, from.isKeyTransposed, keyHeads / found.info.kvHeads, "_key"),
          rows(from.value, from.valueDims, /*isTransposed=*/false, cached.group, "_value")};
}

/// [heads, keys or values, latent] of the weight that projects latents up.
Value Cacher::sliceWeight(const FoundAttention &found, bool isOfValues, const std::string &name) {
  int64_t keys = found.latents->info.nope(found.info.keyDim), values = found.info.valueDim;
  Value heads = unflatten(function.getArgument(found.latents->weight), /*dim=*/0,
                          {found.info.heads, keys + values}, name + "_heads");
  return slice(heads, /*dim=*/1, isOfValues ? keys : 0, isOfValues ? values : keys, /*step=*/1,
               name);
}

/// Of whole queries, or of those folded to latents beside their channels under rope; and rows of
/// the latent and of the channels that heads share.
SmallVector<Value> Cacher::makeLatentRows(const FoundAttention &found, const std::string &name) {
  const LatentInfo &info = found.latents->info;
  Value query = toHeads(*this, found.operands.query, found.operands.queryDims,
                        /*isTransposed=*/false, name + "_query");
  SmallVector<Value> rows;
  auto add = [&](Value heads, const Twine &part) {
    rows.push_back(toRows(heads, /*isTransposed=*/false, /*group=*/1, name + part));
  };
  if (attention->latents == LatentOperand::Folded) {
    int64_t nope = info.nope(found.info.keyDim);
    Value plain = slice(query, /*dim=*/3, info.first > 0 ? 0 : info.width, nope, /*step=*/1,
                        name + "_query_nope");
    Value keys = sliceWeight(found, /*isOfValues=*/false, name + "_keys");
    add(multiply(plain, keys, name + "_query_folded"), "_query_latents");
    add(slice(query, /*dim=*/3, info.first, info.width, /*step=*/1, name + "_query_rope"),
        "_query_pe");
  } else {
    add(query, "_query");
  }
  rows.push_back(squeeze(found.latents->latent, name + "_latent"));
  rows.push_back(squeeze(found.latents->key, name + "_key"));
  return rows;
}

/// Caches of the node's own, by pages: a row has keys or values of each KV head, or both; or a
/// latent beside the channels that heads share.
void Cacher::addCaches(CallOperands &operands, const FoundAttention &found, size_t index) {
  const AttentionInfo &info = found.info;
  Type element = cast<RankedTensorType>(found.operands.key.getType()).getElementType();
  for (const CacheOperand &cache : attention->caches) {
    SmallVector<int64_t> shape(2, ShapedType::kDynamic);
    if (attention->latents != LatentOperand::None)
      shape.push_back(found.latents->info.rank + found.latents->info.width);
    else if (cache.hasKeys && cache.hasValues)
      shape.push_back(info.kvHeads * (info.keyDim + info.valueDim));
    else
      shape.append({info.kvHeads, cache.hasKeys ? info.keyDim : info.valueDim});
    std::string name = cache.name.str() + "_" + std::to_string(index);
    operands.add(cache.name, addInput(RankedTensorType::get(shape, element), name));
  }
}

/// Angles of positions: one input of all nodes that are rotated alike, empty without rope.
void Cacher::addBuffers(CallOperands &operands, const std::optional<FoundRope> &rope) {
  SmallVector<int64_t> shape{0};
  std::string ending = kNoRope.str();
  if (rope) {
    shape = {ShapedType::kDynamic, rope->info.width / 2};
    if (attention->rope == RopeOperand::Angles)
      shape.push_back(2);
    ending = getRopeEnding(*findTheta(rope->info));
  }
  Type type = RankedTensorType::get(shape, builder.getF32Type());
  for (StringRef name : attention->buffers)
    operands.add(name, findOrAddInput(type, name.str() + ending));
}

/// The weight that has the frequencies is one of the graph, and so one for all attention.
void Cacher::addRope(CallOperands &operands, const FoundRope &rope) {
  bool isHalf = rope.info.pairing == RopePairing::Half;
  if (rope.info.isByToken()) {
    operands.add("cos", rope.cos);
    operands.add("sin", rope.sin);
  } else {
    operands.add(kFrequencies, Value(function.getArgument(rope.weight)));
  }
  operands.add("rope_order", isHalf ? "half" : "interleaved");
  operands.add("rope_first", rope.info.first);
  operands.add("rope_dim", rope.info.width);
  if (!rope.info.isByToken())
    operands.add("rope_multiplier", rope.info.multiplier);
}

void Cacher::addConstants(CallOperands &operands, const FoundAttention &found) {
  const AttentionInfo &info = found.info;
  if (attention->hasScores) {
    operands.add("scale", info.scale);
    operands.add("softcap", info.softcap);
    operands.add("window", info.window);
  }
  if (attention->latents == LatentOperand::None)
    return;
  operands.add("scale", info.scale);
  operands.add("kv_lora_rank", found.latents->info.rank);
  bool isWide = cast<RankedTensorType>(found.operands.key.getType()).getElementType().isF32();
  if (attention->latents == LatentOperand::Folded)
    operands.add("layout", isWide ? "mla_f32" : "mla_16");
}

//===----------------------------------------------------------------------===//
// The call
//===----------------------------------------------------------------------===//

/// [batch, heads, tokens, values] of latents [batch, tokens, heads, latent].
Value Cacher::unfold(const FoundAttention &found, Value latents, const std::string &name) {
  Value values = permute(sliceWeight(found, /*isOfValues=*/true, name + "_values"), {0, 2, 1},
                         name + "_values_transposed");
  return multiply(permute(latents, {0, 2, 1, 3}, name + "_output_latents"), values,
                  name + "_output");
}

/// The operator's call: rows; metadata; caches; buffers; constants (paged-cache.md section 12).
/// Gives [batch, heads, tokens, channels].
Value Cacher::callAttention(const FoundAttention &found, ValueRange rows, size_t index,
                            const std::string &name) {
  bool isFolded = attention->latents == LatentOperand::Folded;
  bool hasLatents = attention->latents != LatentOperand::None;
  const std::optional<FoundRope> &rope = hasLatents ? found.latents->rope : found.rope;
  CallOperands operands = makeOperands();
  for (auto [input, value] : llvm::zip_equal(attention->inputs, rows))
    operands.add(input, value);
  for (auto [each, value] : llvm::zip_equal(attention->metadata, metadata))
    operands.add(each, value);
  addCaches(operands, found, index);
  addBuffers(operands, rope);
  if (found.sinks)
    operands.add("sinks", Value(function.getArgument(*found.sinks)));
  if (attention->latents == LatentOperand::Projected)
    operands.add("kv_b_proj", Value(function.getArgument(found.latents->weight)));
  if (rope && attention->rope == RopeOperand::Frequencies)
    addRope(operands, *rope);
  addConstants(operands, found);

  auto query = cast<RankedTensorType>(rows.front().getType());
  SmallVector<int64_t> heads{found.info.heads,
                             isFolded ? found.latents->info.rank : found.info.valueDim};
  SmallVector<int64_t> shape(query.getShape().take_front(2));
  if (attention->joinsHeads)
    shape.push_back(heads[0] * heads[1]);
  else
    llvm::append_range(shape, heads);
  Value result =
      call(attention->op, operands, RankedTensorType::get(shape, query.getElementType()), name);
  if (attention->joinsHeads)
    result = unflatten(result, /*dim=*/-1, heads, name + "_heads");
  return isFolded ? unfold(found, result, name) : permute(result, {0, 2, 1, 3}, name + "_output");
}

/// An attention may read that of another as it stands.
void Cacher::followReplaced(FoundAttention &found) const {
  auto follow = [&](Value &value) {
    if (Value made = replaced.lookup(value))
      value = made;
  };
  auto followRope = [&](std::optional<FoundRope> &rope) {
    if (!rope)
      return;
    for (Value *value : {&rope->query, &rope->key, &rope->cos, &rope->sin})
      follow(*value);
  };
  for (Value *value : {&found.operands.query, &found.operands.key, &found.operands.value})
    follow(*value);
  followRope(found.rope);
  if (!found.latents)
    return;
  follow(found.latents->latent);
  follow(found.latents->key);
  followRope(found.latents->rope);
}

CachedNode Cacher::replace(FoundAttention &found, size_t index) {
  followReplaced(found);
  Value result = found.node->getResult(0);
  CachedNode cached{.node = getName(function, result),
                    .module = found.node.getModulePath().value_or("").str(),
                    .operands = {},
                    .turned = describeOperands(found),
                    .value = describe(found.operands.value),
                    .queryDims = found.operands.queryDims,
                    .keyDims = found.operands.keyDims,
                    .valueDims = found.operands.valueDims,
                    .resultDims = found.resultDims};
  if (found.latents) {
    found.info.latents = found.latents->info;
    cached.latents = describeLatents(found);
  }
  chooseRope(found);
  if (attention->latents == LatentOperand::None && found.rope) {
    found.info.rope = found.rope->info;
    cached.tables = describeTables(found.rope);
  }
  cached.operands =
      attention->latents == LatentOperand::None ? describeOperands(found) : cached.turned;
  cached.group = found.keyHeads / found.info.kvHeads;
  if (found.mask)
    cached.mask = getName(function, function.getArgument(*found.mask));
  if (found.sinks)
    cached.sinks = getName(function, function.getArgument(*found.sinks));
  std::string name = "cached_attention_" + std::to_string(index);
  builder.setInsertionPointAfter(found.node);
  SmallVector<Value> rows = attention->latents == LatentOperand::None
                                ? makeHeadRows(found, cached, name)
                                : makeLatentRows(found, name);
  Value made = callAttention(found, rows, index, name);
  made = fromHeads(*this, made, found.resultDims, name);
  result.replaceAllUsesWith(made);
  replaced[result] = made;
  names[made] = cached.node;
  eraseWithOperands(found.node);
  return cached;
}

/// Latents of all or of none, since the layers of an engine have caches of one kind.
static bool haveLatents(ArrayRef<FoundAttention> all) {
  const std::optional<FoundLatents> &first = all.front().latents;
  return llvm::all_of(all, [&](const FoundAttention &found) {
    return first && found.latents && found.latents->info.rank == first->info.rank &&
           found.latents->info.width == first->info.width;
  });
}

FailureOr<CachedGraph> Cacher::run() {
  FailureOr<std::vector<FoundAttention>> all =
      AttentionFinder(function, attention->rope == RopeOperand::Frequencies).run();
  if (failed(all))
    return failure();
  bool hasLatents = haveLatents(*all);
  if (hasLatents && attention->ofLatents)
    attention = attention->ofLatents;
  for (FoundAttention &found : *all) {
    if (failed(verify(found)))
      return failure();
    if (!hasLatents && attention->latents == LatentOperand::None)
      found.latents.reset();
  }
  addMetadata(function.getBody().front());
  CachedGraph graph;
  for (auto [index, found] : llvm::enumerate(*all)) {
    graph.nodes.push_back(replace(found, index));
    auto kind = llvm::find(graph.kinds, found.info);
    graph.nodes.back().kind = kind - graph.kinds.begin();
    if (kind == graph.kinds.end())
      graph.kinds.push_back(found.info);
  }
  eraseUnreadMemory(function);
  return graph;
}

FailureOr<CachedGraph> mlac::cacheAttention(func::FuncOp graph, const AttentionOperator &attention,
                                            int64_t pageSize) {
  return Cacher(graph, attention, pageSize).run();
}
