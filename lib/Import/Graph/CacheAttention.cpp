//===- CacheAttention.cpp - a whole model's attention over caches ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Import/CacheAttention.h"

#include "FindAttention.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

#include <cmath>
#include <limits>

using namespace mlac;
using namespace mlac::graph;
using namespace mlir;
using mlir::graph::InAttr;
using mlir::graph::NodeOp;

/// What metadata is made of (paged-cache.md section 12): inputs of the graph from then on.
static constexpr StringLiteral kBatchInputs[] = {"seq_len", "input_pos", "cache_loc",
                                                 "pages_per_seq"};
static constexpr StringLiteral kTokens = "input_ids", kPageTable = "page_table";
/// The frequencies of rope, which all attention of a graph may share.
static constexpr StringLiteral kFrequencies = "inv_freq";
/// Rope is the graph's own: what a buffer of angles is called that holds none, as descriptors name
/// it (mode, theta, scale).
static constexpr StringLiteral kNoRope = "_None_10000_0_1_0";

namespace {
class Cacher {
public:
  Cacher(func::FuncOp function, const AttentionOperator &attention, int64_t pageSize)
      : function(function), attention(attention), pageSize(pageSize),
        builder(function.getContext()) {}
  FailureOr<CachedGraph> run();

private:
  /// Operands of a node by their names, in order.
  struct Operands {
    SmallVector<Value> values;
    SmallVector<NamedAttribute> arguments;
  };
  void add(Operands &operands, StringRef name, Value value);
  LogicalResult verify(FoundAttention &found);
  void addMetadata(Block &body);
  Value addArgument(Type type, StringRef name);
  Value findOrAddArgument(Type type, StringRef name);
  Value call(StringRef target, ValueRange operands, ArrayRef<NamedAttribute> attributes,
             Type result, const Twine &name);
  Value toRows(Value heads, bool isTransposed, int64_t group, const Twine &name);
  void addCaches(Operands &operands, const FoundAttention &found, size_t index);
  void addScores(Operands &operands, const AttentionInfo &info);
  void addRope(Operands &operands, const FoundRope &rope);
  QueryAndKey describe(const AttentionOperands &operands, int64_t kvHeads);
  Value callAttention(const FoundAttention &found, const CachedNode &cached, size_t index,
                      const std::string &name);
  Value splitHeads(Value joined, const AttentionInfo &info, Type type, const Twine &name);
  CachedNode replace(FoundAttention &found, size_t index);

  func::FuncOp function;
  const AttentionOperator &attention;
  int64_t pageSize;
  OpBuilder builder;
  SmallVector<Value> metadata;
};
} // namespace

void Cacher::add(Operands &operands, StringRef name, Value value) {
  operands.arguments.push_back(
      builder.getNamedAttr(name, InAttr::get(builder.getContext(), operands.values.size())));
  operands.values.push_back(value);
}

/// The name of a value: its node's result, or the argument's.
static std::string getName(func::FuncOp function, Value value) {
  if (auto node = value.getDefiningOp<NodeOp>())
    return node.getNodeName().str();
  unsigned number = cast<BlockArgument>(value).getArgNumber();
  for (StringRef attribute : {mlir::graph::kInputAttr, mlir::graph::kWeightAttr})
    if (auto name = function.getArgAttrOfType<StringAttr>(number, attribute))
      return name.str();
  return "";
}

static GraphValue getValue(func::FuncOp function, Value value) {
  auto result = dyn_cast<OpResult>(value);
  bool isOneOfMany = result && result.getOwner()->getNumResults() > 1;
  return {getName(function, value),
          isOneOfMany ? static_cast<int64_t>(result.getResultNumber()) : -1};
}

Value Cacher::addArgument(Type type, StringRef name) {
  unsigned index = function.getNumArguments();
  (void)function.insertArgument(index, type,
                                builder.getDictionaryAttr(builder.getNamedAttr(
                                    mlir::graph::kInputAttr, builder.getStringAttr(name))),
                                function.getLoc());
  return function.getArgument(index);
}

Value Cacher::call(StringRef target, ValueRange operands, ArrayRef<NamedAttribute> attributes,
                   Type result, const Twine &name) {
  return NodeOp::create(builder, function.getLoc(), TypeRange(result), target, operands,
                        builder.getDictionaryAttr(attributes), builder.getStringAttr(name),
                        StringAttr())
      .getResult(0);
}

/// That of the graph, if it has one.
Value Cacher::findOrAddArgument(Type type, StringRef name) {
  for (BlockArgument argument : function.getArguments())
    if (getName(function, argument) == name)
      return argument;
  return addArgument(type, name);
}

/// The node that makes the metadata, once, for all attention.
void Cacher::addMetadata(Block &body) {
  Type i32 = builder.getI32Type(), list = RankedTensorType::get(ShapedType::kDynamic, i32);
  Type table = RankedTensorType::get({ShapedType::kDynamic, ShapedType::kDynamic}, i32);
  Operands operands;
  if (attention.takesTokens)
    add(operands, kTokens, findOrAddArgument(table, kTokens));
  for (StringRef name : kBatchInputs)
    add(operands, name, addArgument(list, name));
  if (attention.takesTokens)
    operands.arguments.push_back(
        builder.getNamedAttr("page_size", builder.getI64IntegerAttr(pageSize)));
  auto results = llvm::map_to_vector(
      attention.metadata, [&](StringRef name) { return name == kPageTable ? table : list; });
  builder.setInsertionPointToStart(&body);
  auto node = NodeOp::create(builder, function.getLoc(), results, attention.prepareOp,
                             operands.values, builder.getDictionaryAttr(operands.arguments),
                             builder.getStringAttr("prepare_metadata"), StringAttr());
  llvm::append_range(metadata, node.getResults());
}

static RankedTensorType permute(Type type, ArrayRef<int64_t> order) {
  auto tensor = cast<RankedTensorType>(type);
  return RankedTensorType::get(
      llvm::map_to_vector(order, [&](int64_t dim) { return tensor.getDimSize(dim); }),
      tensor.getElementType());
}

/// [batch, tokens, heads, channels], each of a group's heads once.
Value Cacher::toRows(Value heads, bool isTransposed, int64_t group, const Twine &name) {
  MLIRContext *context = builder.getContext();
  Attribute self = InAttr::get(context, 0);
  auto integer = [&](int64_t value) { return builder.getI64IntegerAttr(value); };
  if (group > 1) {
    auto type = cast<RankedTensorType>(heads.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape[1] = shape[1] / group;
    heads = call("aten.slice.Tensor", heads,
                 {builder.getNamedAttr("self", self), builder.getNamedAttr("dim", integer(1)),
                  builder.getNamedAttr("start", integer(0)),
                  builder.getNamedAttr("end", integer(INT64_MAX)),
                  builder.getNamedAttr("step", integer(group))},
                 RankedTensorType::get(shape, type.getElementType()), name + "_heads");
  }
  SmallVector<int64_t> order =
      isTransposed ? SmallVector<int64_t>{0, 3, 1, 2} : SmallVector<int64_t>{0, 2, 1, 3};
  return call("aten.permute.default", heads,
              {builder.getNamedAttr("self", self),
               builder.getNamedAttr("dims", builder.getI64ArrayAttr(order))},
              permute(heads.getType(), order), name + "_rows");
}

/// Caches of the node's own, by pages: a row has keys or values of each KV head, or both.
void Cacher::addCaches(Operands &operands, const FoundAttention &found, size_t index) {
  const AttentionInfo &info = found.info;
  Type element = cast<RankedTensorType>(found.operands.key.getType()).getElementType();
  for (const CacheOperand &cache : attention.caches) {
    SmallVector<int64_t> shape(2, ShapedType::kDynamic);
    if (cache.hasKeys && cache.hasValues)
      shape.push_back(info.kvHeads * (info.keyDim + info.valueDim));
    else
      shape.append({info.kvHeads, cache.hasKeys ? info.keyDim : info.valueDim});
    std::string name = cache.name.str() + "_" + std::to_string(index);
    add(operands, cache.name, addArgument(RankedTensorType::get(shape, element), name));
  }
}

void Cacher::addScores(Operands &operands, const AttentionInfo &info) {
  auto constant = [&](StringRef name, Attribute value) {
    operands.arguments.push_back(builder.getNamedAttr(name, value));
  };
  constant("scale", builder.getF64FloatAttr(info.scale));
  constant("softcap", builder.getF64FloatAttr(info.softcap));
  constant("window", builder.getI64IntegerAttr(info.window));
}

/// The weight that has the frequencies is one of the graph, and so one for all attention.
void Cacher::addRope(Operands &operands, const FoundRope &rope) {
  auto constant = [&](StringRef name, Attribute value) {
    operands.arguments.push_back(builder.getNamedAttr(name, value));
  };
  bool isHalf = rope.info.pairing == RopePairing::Half;
  add(operands, kFrequencies, function.getArgument(rope.weight));
  constant("rope_order", builder.getStringAttr(isHalf ? "half" : "interleaved"));
  constant("rope_first", builder.getI64IntegerAttr(rope.info.first));
  constant("rope_dim", builder.getI64IntegerAttr(rope.info.width));
  constant("rope_multiplier", builder.getF64FloatAttr(rope.info.multiplier));
}

/// [batch, tokens, heads, channels] of what the operator gives.
Value Cacher::splitHeads(Value joined, const AttentionInfo &info, Type type, const Twine &name) {
  return call("aten.unflatten.int", joined,
              {builder.getNamedAttr("self", InAttr::get(builder.getContext(), 0)),
               builder.getNamedAttr("dim", builder.getI64IntegerAttr(-1)),
               builder.getNamedAttr("sizes", builder.getI64ArrayAttr({info.heads, info.valueDim}))},
              type, name + "_heads");
}

/// The operator's call: query, key, value; metadata; caches; buffers; constants (paged-cache.md
/// section 12).
Value Cacher::callAttention(const FoundAttention &found, const CachedNode &cached, size_t index,
                            const std::string &name) {
  const AttentionOperands &from = found.operands;
  Value rows[] = {toRows(from.query, /*isTransposed=*/false, /*group=*/1, name + "_query"),
                  toRows(from.key, from.isKeyTransposed, cached.operands.group, name + "_key"),
                  toRows(from.value, /*isTransposed=*/false, cached.group, name + "_value")};
  Operands operands;
  for (auto [input, value] : llvm::zip_equal(attention.inputs, rows))
    add(operands, input, value);
  for (auto [each, value] : llvm::zip_equal(attention.metadata, metadata))
    add(operands, each, value);
  addCaches(operands, found, index);
  if (!attention.buffer.empty())
    add(operands, attention.buffer,
        findOrAddArgument(RankedTensorType::get(0, builder.getF32Type()),
                          attention.buffer.str() + kNoRope.str()));
  if (found.sinks)
    add(operands, "sinks", function.getArgument(*found.sinks));
  if (found.rope)
    addRope(operands, *found.rope);
  if (attention.hasScores)
    addScores(operands, found.info);
  RankedTensorType result = permute(NodeOp(found.node)->getResult(0).getType(), {0, 2, 1, 3});
  if (!attention.joinsHeads)
    return call(attention.op, operands.values, operands.arguments, result, name);
  auto joined = RankedTensorType::get(
      {result.getDimSize(0), result.getDimSize(1), found.info.heads * found.info.valueDim},
      result.getElementType());
  return splitHeads(call(attention.op, operands.values, operands.arguments, joined, name),
                    found.info, result, name);
}

/// Whether the operator takes all that the attention has.
LogicalResult Cacher::verify(FoundAttention &found) {
  const AttentionInfo &info = found.info;
  auto fail = [&](const Twine &what) -> LogicalResult {
    return emitError(found.node->getLoc())
           << Evaluator::describe(found.node) << ": its attention has " << what.str()
           << ", which the operator of '" << attention.name << "' does not take";
  };
  if (found.sinks && !attention.hasSinks)
    return fail("sinks");
  if (attention.hasScores)
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

/// Erases `node` and what only it read, rope among it. Writes to memory stay.
static void eraseWithOperands(NodeOp node) {
  // What tracing saw of a tensor's type keeps nothing.
  auto isCheck = [](Operation *user) {
    return cast<NodeOp>(user).getTarget() == "aten._assert_tensor_metadata.default";
  };
  SmallVector<NodeOp> next{node};
  while (!next.empty()) {
    node = next.pop_back_val();
    bool writes = node.getTarget().rsplit('.').first.ends_with("_"); // aten.add_.Tensor
    bool isRead = llvm::any_of(
        node->getUsers(), [&](Operation *user) { return !isa<NodeOp>(user) || !isCheck(user); });
    if (writes || isRead)
      continue;
    for (Operation *check : llvm::make_early_inc_range(node->getUsers()))
      check->erase();
    llvm::SetVector<NodeOp> makers;
    for (Value operand : node.getOperands())
      if (auto maker = operand.getDefiningOp<NodeOp>())
        makers.insert(maker);
    node->erase();
    llvm::append_range(next, makers);
  }
}

QueryAndKey Cacher::describe(const AttentionOperands &operands, int64_t kvHeads) {
  int64_t heads = cast<RankedTensorType>(operands.key.getType()).getDimSize(1);
  return {getValue(function, operands.query), getValue(function, operands.key),
          operands.isKeyTransposed, heads / kvHeads};
}

CachedNode Cacher::replace(FoundAttention &found, size_t index) {
  Value result = found.node->getResult(0);
  QueryAndKey turned = describe(found.operands, found.info.kvHeads);
  if (!attention.rotates)
    found.rope.reset();
  if (found.rope) {
    found.info.rope = found.rope->info;
    found.operands.query = found.rope->query;
    found.operands.key = found.rope->key;
    found.operands.isKeyTransposed = false;
  }
  CachedNode cached{.node = getName(function, result),
                    .module = found.node.getModulePath().value_or("").str(),
                    .operands = describe(found.operands, found.info.kvHeads),
                    .turned = turned,
                    .value = getValue(function, found.operands.value)};
  int64_t valueHeads = cast<RankedTensorType>(found.operands.value.getType()).getDimSize(1);
  cached.group = valueHeads / found.info.kvHeads;
  if (found.sinks)
    cached.sinks = getName(function, function.getArgument(*found.sinks));
  std::string name = "cached_attention_" + std::to_string(index);
  builder.setInsertionPointAfter(found.node);
  Value attended = callAttention(found, cached, index, name);
  Value back = call("aten.permute.default", attended,
                    {builder.getNamedAttr("self", InAttr::get(builder.getContext(), 0)),
                     builder.getNamedAttr("dims", builder.getI64ArrayAttr({0, 2, 1, 3}))},
                    result.getType(), name + "_output");
  result.replaceAllUsesWith(back);
  eraseWithOperands(found.node);
  return cached;
}

FailureOr<CachedGraph> Cacher::run() {
  FailureOr<std::vector<FoundAttention>> all = AttentionFinder(function).run();
  if (failed(all))
    return failure();
  for (FoundAttention &found : *all)
    if (failed(verify(found)))
      return failure();
  addMetadata(function.getBody().front());
  CachedGraph graph;
  for (auto [index, found] : llvm::enumerate(*all)) {
    graph.nodes.push_back(replace(found, index));
    auto kind = llvm::find(graph.kinds, found.info);
    graph.nodes.back().kind = kind - graph.kinds.begin();
    if (kind == graph.kinds.end())
      graph.kinds.push_back(found.info);
  }
  return graph;
}

FailureOr<CachedGraph> mlac::cacheAttention(func::FuncOp graph, const AttentionOperator &attention,
                                            int64_t pageSize) {
  return Cacher(graph, attention, pageSize).run();
}
