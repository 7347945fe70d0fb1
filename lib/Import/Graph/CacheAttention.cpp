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

using namespace mlac;
using namespace mlac::graph;
using namespace mlir;
using mlir::graph::InAttr;
using mlir::graph::NodeOp;

/// Operands of prepare_metadata (paged-cache.md section 12), inputs of the graph from then on; and
/// what the operators of attention take of it (mlac.sequence_info).
static constexpr StringLiteral kBatchInputs[] = {"seq_len", "input_pos", "cache_loc",
                                                 "pages_per_seq"};
static constexpr StringLiteral kMetadata[] = {"seq_len", "input_pos", "page_table", "seq_start"};

namespace {
class Cacher {
public:
  explicit Cacher(func::FuncOp function) : function(function), builder(function.getContext()) {}
  FailureOr<CachedGraph> run();

private:
  void addMetadata(Block &body);
  Value addArgument(Type type, StringRef name);
  Value call(StringRef target, ValueRange operands, ArrayRef<NamedAttribute> attributes,
             Type result, const Twine &name);
  Value toRows(Value heads, bool isTransposed, int64_t group, const Twine &name);
  Value addCache(const FoundAttention &found, size_t index);
  Value callAttention(const FoundAttention &found, const CachedNode &cached, Value cache,
                      const std::string &name);
  CachedNode replace(FoundAttention &found, size_t index);

  func::FuncOp function;
  OpBuilder builder;
  SmallVector<Value> metadata;
};
} // namespace

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

/// The node that makes the metadata, once, for all attention.
void Cacher::addMetadata(Block &body) {
  Type list = RankedTensorType::get(ShapedType::kDynamic, builder.getI32Type());
  SmallVector<Value> inputs;
  SmallVector<NamedAttribute> attributes;
  for (StringRef name : kBatchInputs) {
    attributes.push_back(
        builder.getNamedAttr(name, InAttr::get(builder.getContext(), inputs.size())));
    inputs.push_back(addArgument(list, name));
  }
  Type table =
      RankedTensorType::get({ShapedType::kDynamic, ShapedType::kDynamic}, builder.getI32Type());
  SmallVector<Type> results{list, list, table, list};
  builder.setInsertionPointToStart(&body);
  auto node = NodeOp::create(builder, function.getLoc(), results, "mlac.prepare_metadata", inputs,
                             builder.getDictionaryAttr(attributes),
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

/// The operator's call: query, key, value; metadata; caches; buffers; constants (paged-cache.md
/// section 12).
Value Cacher::callAttention(const FoundAttention &found, const CachedNode &cached, Value cache,
                            const std::string &name) {
  const AttentionOperands &from = found.operands;
  SmallVector<StringRef> names{"query", "key", "value"};
  SmallVector<Value> operands{
      toRows(from.query, /*isTransposed=*/false, /*group=*/1, name + "_query"),
      toRows(from.key, from.isKeyTransposed, cached.group, name + "_key"),
      toRows(from.value, /*isTransposed=*/false, cached.group, name + "_value")};
  llvm::append_range(names, kMetadata);
  llvm::append_range(operands, metadata);
  names.push_back("kv_cache");
  operands.push_back(cache);
  if (found.sinks) {
    names.push_back("sinks");
    operands.push_back(function.getArgument(*found.sinks));
  }
  SmallVector<NamedAttribute> attributes;
  for (auto [number, each] : llvm::enumerate(names))
    attributes.push_back(builder.getNamedAttr(each, InAttr::get(builder.getContext(), number)));
  const AttentionInfo &info = found.info;
  attributes.push_back(builder.getNamedAttr("scale", builder.getF64FloatAttr(info.scale)));
  attributes.push_back(builder.getNamedAttr("softcap", builder.getF64FloatAttr(info.softcap)));
  attributes.push_back(builder.getNamedAttr("window", builder.getI64IntegerAttr(info.window)));
  Type result = permute(NodeOp(found.node)->getResult(0).getType(), {0, 2, 1, 3});
  return call("mlac.cached_attention", operands, attributes, result, name);
}

/// A cache of the node's own: keys and values of each KV head, by pages.
Value Cacher::addCache(const FoundAttention &found, size_t index) {
  const AttentionInfo &info = found.info;
  Type element = cast<RankedTensorType>(found.operands.key.getType()).getElementType();
  int64_t width = info.kvHeads * (info.keyDim + info.valueDim);
  return addArgument(
      RankedTensorType::get({ShapedType::kDynamic, ShapedType::kDynamic, width}, element),
      "kv_cache_" + std::to_string(index));
}

CachedNode Cacher::replace(FoundAttention &found, size_t index) {
  const AttentionOperands &from = found.operands;
  Value result = found.node->getResult(0);
  CachedNode cached{.node = getName(function, result),
                    .module = found.node.getModulePath().value_or("").str(),
                    .query = getValue(function, from.query),
                    .key = getValue(function, from.key),
                    .value = getValue(function, from.value),
                    .isKeyTransposed = from.isKeyTransposed};
  int64_t keyHeads = cast<RankedTensorType>(from.key.getType()).getDimSize(1);
  cached.group = keyHeads / found.info.kvHeads;
  if (found.sinks)
    cached.sinks = getName(function, function.getArgument(*found.sinks));
  Value cache = addCache(found, index);
  std::string name = "cached_attention_" + std::to_string(index);
  builder.setInsertionPointAfter(found.node);
  Value attended = callAttention(found, cached, cache, name);
  Value back = call("aten.permute.default", attended,
                    {builder.getNamedAttr("self", InAttr::get(builder.getContext(), 0)),
                     builder.getNamedAttr("dims", builder.getI64ArrayAttr({0, 2, 1, 3}))},
                    result.getType(), name + "_output");
  result.replaceAllUsesWith(back);
  found.node.erase();
  return cached;
}

FailureOr<CachedGraph> Cacher::run() {
  FailureOr<std::vector<FoundAttention>> all = AttentionFinder(function).run();
  if (failed(all))
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

FailureOr<CachedGraph> mlac::cacheAttention(func::FuncOp graph) { return Cacher(graph).run(); }
