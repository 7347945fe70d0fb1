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

using namespace mlir;
using namespace mlir::mla;

//===----------------------------------------------------------------------===//
// mla.latent_append
//===----------------------------------------------------------------------===//

/// (C5)
static LogicalResult verifyCache(LatentAppendOp op) {
  CacheType cache = op.getCache().getType();
  int64_t rank = getTensorType(op.getGamma()).getDimSize(0);
  const CacheField fields[] = {{mlac::cache::Part::Latent, 1, rank},
                               {mlac::cache::Part::Rope, 1, op.getRope().getDim()}};
  if (cache.getFields() != ArrayRef(fields))
    return op.emitOpError("expected a cache of latent: ")
           << rank << ", rope: " << op.getRope().getDim() << ", got " << cache;
  if (cache.isQuantized() || cache.getElement() != getElementTypeOrSelf(op.getInput()))
    return op.emitOpError("expected a cache of ")
           << getElementTypeOrSelf(op.getInput()) << " without scales, got " << cache;
  if (cache.getRopeOrder() != op.getRope().getOrder())
    return op.emitOpError("expected the rope key in the cache's rope order ")
           << stringifyRopeOrder(cache.getRopeOrder()) << ", got "
           << stringifyRopeOrder(op.getRope().getOrder());
  return success();
}

LogicalResult LatentAppendOp::verify() {
  ShapeCheck check(*this);
  int64_t rank = getTensorType(getGamma()).getDimSize(0);
  check.bind("R", getRope().getDim(), "rope");
  if (!ShapedType::isDynamic(rank))
    check.bind("L + R", rank + getRope().getDim(), "gamma and rope");
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
  return check.match("table", getTable(), {"length", "R"}); // (C6)
}

LogicalResult LatentAppendOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                               ValueRange operands, DictionaryAttr,
                                               OpaqueProperties, RegionRange,
                                               SmallVectorImpl<Type> &types) {
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
