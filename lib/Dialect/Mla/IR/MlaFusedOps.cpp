//===- MlaFusedOps.cpp - verifiers of operations that passes make ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Check numbers (C1) ... are those of the op descriptions in MlaFusedOps.td.
//
//===----------------------------------------------------------------------===//

#include "CacheFormats.h"
#include "ShapeCheck.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

#include <limits>

using namespace mlir;
using namespace mlir::mla;

//===----------------------------------------------------------------------===//
// mla.latent_append
//===----------------------------------------------------------------------===//

int64_t LatentAppendOp::getLatentColumns() { return getTensorType(getGamma()).getDimSize(0); }

int64_t LatentAppendOp::getRopeColumns() {
  if (std::optional<RopeAttr> rope = getRope())
    return rope->getDim();
  return getTensorType(getWeight()).getDimSize(0) - getLatentColumns();
}

/// (C5)
static LogicalResult verifyCache(LatentAppendOp op) {
  CacheType cache = op.getCache().getType();
  int64_t rank = op.getLatentColumns(), rope = op.getRopeColumns();
  if (cache.getFields() != ArrayRef(CacheType::latentFields(rank, rope))) {
    InFlightDiagnostic diagnostic = op.emitOpError("expected a cache of latent: ") << rank;
    if (rope != 0)
      diagnostic << ", rope: " << rope;
    return diagnostic << ", got " << cache;
  }
  bool isKnown = !cache.isQuantized() || cache.hasLayerScale() || cache.hasGroupedLatents();
  if (!isKnown || cache.getElement() != getElementTypeOrSelf(op.getInput()))
    return op.emitOpError("expected a cache of ")
           << getElementTypeOrSelf(op.getInput())
           << " as it is, in codes of one scale, or of latents in groups with a scale, got "
           << cache;
  if (op.getRope() && cache.getRopeOrder() != op.getRope()->getOrder())
    return op.emitOpError("expected the rope key in the cache's rope order ")
           << stringifyRopeOrder(cache.getRopeOrder()) << ", got "
           << stringifyRopeOrder(op.getRope()->getOrder());
  return success();
}

LogicalResult LatentAppendOp::verify() {
  if (static_cast<bool>(getTable()) != getRope().has_value()) // (C6)
    return emitOpError("expected a table of angles and a rotation, or neither, got ")
           << (getTable() ? "a table" : "a rotation") << " alone";
  ShapeCheck check(*this);
  int64_t rank = getLatentColumns();
  if (getRope()) {
    check.bind("R", getRope()->getDim(), "rope");
    if (!ShapedType::isDynamic(rank))
      check.bind("L + R", rank + getRope()->getDim(), "gamma and rope");
  } else if (int64_t rows = getTensorType(getWeight()).getDimSize(0);
             ShapedType::isDynamic(rank) || ShapedType::isDynamic(rows) || rows < rank) { // (C1)
    return emitOpError("expected a weight of L rows and more, where nothing is rotated, for gamma ")
           << getGamma().getType() << ", got " << getWeight().getType();
  }
  if (failed(check.match("input", getInput(), {"T", "I"})) || // (C1)
      failed(check.match("gamma", getGamma(), {"L"})) ||
      failed(check.match("weight", getWeight(), {"L + R", "I"})))
    return failure();
  for (auto [name, value] : {std::pair<StringRef, Value>("weight", getWeight()), // (C2)
                             {"gamma", getGamma()},
                             {"bias", getBias()}})
    if (value && failed(check.sameElement("input", getInput(), name, value)))
      return failure();
  if (failed(verifyPositive(*this, "eps", getEps()))) // (C3)
    return failure();
  if (getBias() && failed(check.match("bias", getBias(), {"L + R"}))) // (C4)
    return failure();
  if (failed(verifyCache(*this)))
    return failure();
  return getTable() ? check.match("table", getTable(), {"length", "R"}) : success(); // (C6)
}

LogicalResult LatentAppendOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                               ValueRange operands, DictionaryAttr,
                                               OpaqueProperties properties, RegionRange,
                                               SmallVectorImpl<Type> &types) {
  if (failed(inferCache(operands, types)))
    return failure();
  const auto *given = properties.as<Properties *>();
  if (!given->kept)
    return success();
  auto input = cast<RankedTensorType>(operands[0].getType());
  auto countRows = [&](Value operand) {
    return cast<RankedTensorType>(operand.getType()).getShape().front();
  };
  int64_t latent = countRows(operands[2]);
  int64_t rope = given->rope ? given->rope.getDim() : countRows(operands[1]) - latent;
  SmallVector<int64_t, 2> widths{latent};
  if (rope != 0)
    widths.push_back(rope > 0 ? rope : ShapedType::kDynamic); // fewer rows than L: (C1)
  for (int64_t columns : widths)
    types.push_back(
        RankedTensorType::get({input.getShape().front(), columns}, input.getElementType()));
  return success();
}

//===----------------------------------------------------------------------===//
// mla.grouped_append
//===----------------------------------------------------------------------===//

/// The rows of `cache`, as many as it has fields for. (C5)
static LogicalResult verifyGroupedCaches(GroupedAppendOp op) {
  using mlac::cache::Part;
  CacheType cache = op.getCache().getType();
  ArrayRef<CacheField> fields = cache.getFields();
  bool hasKeys = fields.front().part == Part::Key;
  if (!op.getValueCache()) {
    if (!hasKeys || fields.size() != 2)
      return op.emitOpError("expected a cache of keys and values, got ") << cache;
    return verifyCacheRows(op, "T", cache, {op.getKey(), op.getValue()});
  }
  CacheType values = op.getValueCache().getType();
  if (!hasKeys || fields.size() != 1)
    return op.emitOpError("expected a cache of keys beside that of values, got ") << cache;
  if (values.getFields().size() != 1 || values.getFields().front().part != Part::Value)
    return op.emitOpError("expected a cache of values, got ") << values;
  if (failed(verifyCacheRows(op, "T", cache, op.getKey())))
    return failure();
  return verifyCacheRows(op, "T", values, op.getValue());
}

/// (C6)
static LogicalResult verifyNormsOfHeads(GroupedAppendOp op, ShapeCheck &check) {
  if (!op.getQueryGamma() && !op.getKeyGamma() && !op.getEpsilon())
    return success();
  if (!op.getQueryGamma() || !op.getKeyGamma() || !op.getEpsilon())
    return op.emitOpError("expected norms of queries and of keys with an epsilon, got only some");
  for (auto [name, gamma] : {std::pair<StringRef, Value>("query_gamma", op.getQueryGamma()),
                             {"key_gamma", op.getKeyGamma()}})
    if (failed(check.match(name, gamma, {"Dk"})) ||
        failed(check.sameElement("query", op.getQuery(), name, gamma)))
      return failure();
  return verifyPositive(op, "epsilon", *op.getEpsilon());
}

LogicalResult GroupedAppendOp::verify() {
  ShapeCheck check(*this);
  if (failed(check.match("query", getQuery(), {"T", "N", "Dk"})) || // (C1)
      failed(check.match("key", getKey(), {"T", "Nkv", "Dk"})) ||
      failed(check.match("value", getValue(), {"T", "Nkv", "Dv"})) ||
      failed(check.match("rotated", getRotated(), {"T", "N", "Dk"})))
    return failure();
  for (auto [name, value] : {std::pair<StringRef, Value>("key", getKey()), // (C2)
                             {"value", getValue()},
                             {"rotated", getRotated()}})
    if (failed(check.sameElement("query", getQuery(), name, value)))
      return failure();
  int64_t offset = getOffset(), columns = getTensorType(getKey()).getDimSize(2);
  if (offset < 0 || ShapedType::isDynamic(columns) || offset > columns - getRope().getDim()) // (C3)
    return emitOpError("expected an offset of at least 0 with ")
           << getRope().getDim() << " channels behind it, got " << offset << " in " << columns;
  if (failed(verifyAngles(*this, check, getRope(), getTable())) || // (C4)
      failed(verifyNormsOfHeads(*this, check)))
    return failure();
  return verifyGroupedCaches(*this);
}

LogicalResult GroupedAppendOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                                ValueRange operands, DictionaryAttr,
                                                OpaqueProperties, RegionRange,
                                                SmallVectorImpl<Type> &types) {
  types.push_back(operands.front().getType());
  for (Value operand : operands)
    if (isa<CacheType>(operand.getType()))
      types.push_back(operand.getType());
  return success();
}

//===----------------------------------------------------------------------===//
// mla.index_append, mla.index_query
//===----------------------------------------------------------------------===//

/// The channels of rows of `columns` that are rotated, and their table.
static LogicalResult verifyChannels(Operation *op, ShapeCheck &check, RopeAttr rope, int64_t offset,
                                    int64_t columns, Value table) {
  if (offset < 0 || ShapedType::isDynamic(columns) || offset > columns - rope.getDim())
    return op->emitOpError("expected an offset of at least 0 with ")
           << rope.getDim() << " channels behind it, got " << offset << " in " << columns;
  check.bind("R", rope.getDim(), "rope");
  return check.match("table", table, {"length", "R"});
}

LogicalResult IndexAppendOp::verify() {
  ShapeCheck check(*this);
  if (failed(check.match("input", getInput(), {"T", "D"})) || // (C1)
      failed(check.match("weight", getWeight(), {"D"})) ||
      failed(check.match("bias", getBias(), {"D"})) ||
      failed(check.sameElement("weight", getWeight(), "bias", getBias())) || // (C2)
      failed(verifyPositive(*this, "epsilon", getEpsilon())))                // (C3)
    return failure();
  int64_t columns = getTensorType(getInput()).getDimSize(1);
  if (failed(verifyChannels(*this, check, getRope(), getOffset(), columns, getTable()))) // (C4)
    return failure();
  CacheType cache = getCache().getType();
  if (cache.getFields().size() != 1 || cache.getIndexWidth() != columns || // (C5)
      cache.getLayout().scaleGroup != columns || cache.getHadamard() ||
      mlac::cache::isPacked(cache.getLayout()))
    return emitOpError("expected a cache of index: ")
           << columns << " in e4m3 with one scale and without hadamard, got " << cache;
  if (cache.getRopeOrder() != getRope().getOrder()) // (C5)
    return emitOpError("expected the keys in the cache's rope order ")
           << stringifyRopeOrder(cache.getRopeOrder()) << ", got "
           << stringifyRopeOrder(getRope().getOrder());
  return success();
}

LogicalResult IndexAppendOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                              ValueRange operands, DictionaryAttr, OpaqueProperties,
                                              RegionRange, SmallVectorImpl<Type> &types) {
  return inferCache(operands, types);
}

LogicalResult IndexQueryOp::verify() {
  ShapeCheck check(*this);
  if (failed(check.match("input", getInput(), {"T", "Hi", "Di"})) || // (C1)
      failed(check.match("head_weights", getHeadWeights(), {"T", "Hi"})) ||
      failed(check.match("codes", getCodes(), {"T", "Hi", "Di"})) ||
      failed(check.match("weights", getWeights(), {"T", "Hi"})))
    return failure();
  int64_t columns = getTensorType(getInput()).getDimSize(2);
  if (failed(verifyChannels(*this, check, getRope(), getOffset(), columns, getTable()))) // (C2)
    return failure();
  if (double floor = getAmaxFloor().convertToDouble();
      !(floor >= 0 && floor <= std::numeric_limits<float>::max())) // (C3)
    return emitOpError("expected amax_floor to be a finite f32 of at least 0, got ") << floor;
  if (failed(verifyPositive(*this, "scale_floor", getScaleFloor()))) // (C3)
    return failure();
  if (!getFactor().isFinite()) // (C4)
    return emitOpError("expected a finite factor, got ") << getFactor().convertToDouble();
  return success();
}

//===----------------------------------------------------------------------===//
// mla.norm_rope, mla.rope_append, mla.bias_append
//===----------------------------------------------------------------------===//

/// Weights of a norm of rows of `columns`, ones without them.
static LogicalResult verifyGamma(ShapeCheck &check, Value gamma) {
  return gamma ? check.match("gamma", gamma, {"D"}) : success();
}

LogicalResult NormRopeOp::verify() {
  ShapeCheck check(*this);
  bool perHead = getTensorType(getInput()).getRank() == 3;
  if (perHead ? failed(check.match("input", getInput(), {"T", "N", "D"})) // (C1)
              : failed(check.match("input", getInput(), {"T", "D"})))
    return failure();
  if (failed(verifyGamma(check, getGamma())) ||                   // (C1)
      failed(verifyPositive(*this, "eps", getEps())) ||           // (C2)
      failed(verifyChannels(*this, check, getRope(), getOffset(), // (C3)
                            getTensorType(getInput()).getShape().back(), getTable())))
    return failure();
  if (getTensorType(getResult()).getShape() != getTensorType(getInput()).getShape()) // (C4)
    return emitOpError("expected a result of the input's shape, got ")
           << getResult().getType() << " of " << getInput().getType();
  return success();
}

LogicalResult RopeAppendOp::verify() {
  using mlac::cache::Part;
  ShapeCheck check(*this);
  if (failed(check.match("input", getInput(), {"T", "D"})) || // (C1)
      failed(verifyGamma(check, getGamma())))
    return failure();
  if (getGamma() && !getEps()) // (C2)
    return emitOpError("expected gamma with eps alone");
  int64_t columns = getTensorType(getInput()).getDimSize(1);
  if ((getEps() && failed(verifyPositive(*this, "eps", *getEps()))) ||                   // (C2)
      failed(verifyChannels(*this, check, getRope(), getOffset(), columns, getTable()))) // (C3)
    return failure();
  if (static_cast<int64_t>(getEvery()) < 1) // (C4)
    return emitOpError("expected every > 0, got ") << static_cast<int64_t>(getEvery());
  CacheType cache = getCache().getType();
  ArrayRef<CacheField> fields = cache.getFields();
  bool isOne = fields.size() == 1 && fields[0].heads == 1 && fields[0].columns == columns &&
               (fields[0].part == Part::Latent || fields[0].part == Part::Index);
  if (!isOne || !cache.isStoredByRow() || cache.getHadamard()) // (C5)
    return emitOpError("expected a cache of one latent or index of ")
           << columns << " columns, as they are or with one scale a row, and without hadamard, got "
           << cache;
  if (cache.getRopeOrder() != getRope().getOrder()) // (C5)
    return emitOpError("expected rows in the cache's rope order ")
           << stringifyRopeOrder(cache.getRopeOrder()) << ", got "
           << stringifyRopeOrder(getRope().getOrder());
  return success();
}

LogicalResult RopeAppendOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                             ValueRange operands, DictionaryAttr, OpaqueProperties,
                                             RegionRange, SmallVectorImpl<Type> &types) {
  return inferCache(operands, types);
}

LogicalResult BiasAppendOp::verify() {
  using mlac::cache::Part;
  ShapeCheck check(*this);
  if (failed(check.match("values", getValues(), {"T", "C"})) || // (C1)
      failed(check.match("gates", getGates(), {"T", "C"})) ||
      failed(check.match("bias", getBias(), {"r", "C"})))
    return failure();
  RankedTensorType bias = getTensorType(getBias());
  if (!bias.hasStaticShape() || bias.getNumElements() == 0) // (C1)
    return emitOpError("expected a bias of static sizes above 0, got ") << bias;
  CacheType cache = getCache().getType();
  ArrayRef<CacheField> fields = cache.getFields();
  auto isField = [&](size_t index, Part part) {
    return fields[index].part == part && fields[index].heads == 1 &&
           fields[index].columns == bias.getDimSize(1);
  };
  if (fields.size() != 2 || !isField(0, Part::Key) || !isField(1, Part::Value) ||
      cache.isQuantized() || !cache.getElement().isF32()) // (C2)
    return emitOpError("expected a cache of f32 with a key and a value of ")
           << bias.getDimSize(1) << " columns, got " << cache;
  return success();
}

LogicalResult BiasAppendOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                             ValueRange operands, DictionaryAttr, OpaqueProperties,
                                             RegionRange, SmallVectorImpl<Type> &types) {
  return inferCache(operands, types);
}

//===----------------------------------------------------------------------===//
// mla.sum_parts
//===----------------------------------------------------------------------===//

/// (C1): what the body yields is what its operations make.
static LogicalResult verifyYield(SumPartsOp op) {
  SmallVector<Value> made;
  for (Operation &inner : op.getProjections())
    llvm::append_range(made, inner.getResults());
  auto yield = dyn_cast<YieldOp>(op.getBody().front().getTerminator());
  if (!yield || !llvm::equal(yield.getValues(), made))
    return op.emitOpError("expected mla.yield of all results of the body in order");
  if (!llvm::equal(op.getResultTypes(), yield.getValues().getTypes()))
    return op.emitOpError("expected results of the types that the body yields");
  return success();
}

/// (C2): none adds its bias to every part.
static bool hasBias(Operation *projection) {
  return llvm::TypeSwitch<Operation *, bool>(projection)
      .Case<ProjectOp, LatentProjectOp, LatentAppendOp>(
          [](auto op) { return static_cast<bool>(op.getBias()); });
}

LogicalResult SumPartsOp::verify() {
  if (getProjections().empty()) // (C1)
    return emitOpError("expected one projection or more, got none");
  Value input;
  for (Operation &inner : getProjections()) {
    if (!isa<ProjectOp, LatentProjectOp, LatentAppendOp>(inner))
      return inner.emitOpError(
          "expected mla.project, mla.latent_project or mla.latent_append in mla.sum_parts");
    Value rows = inner.getOperand(0);
    if (input && rows != input) // (C2)
      return inner.emitOpError("expected the input of the projection before");
    input = rows;
    if (hasBias(&inner))
      return inner.emitOpError("expected no bias in mla.sum_parts");
    RankedTensorType weight = getTensorType(inner.getOperand(1));
    if (weight.getRank() != 2)
      return inner.emitOpError("expected a weight [columns, depth] in mla.sum_parts, got ")
             << weight;
    int64_t depth = weight.getDimSize(1);
    if (static_cast<int64_t>(getParts()) < 2 || depth % static_cast<int64_t>(getParts()) != 0)
      return emitOpError("expected parts above 1 that divide the depth of ") // (C3)
             << depth << ", got " << getParts();
  }
  return verifyYield(*this);
}
