//===- MlaIndexerOps.cpp - verifiers of the lightning indexer ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ShapeCheck.h"

#include "CacheFormats.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::mla;

LogicalResult LayerNormOp::verify() {
  ShapeCheck check(*this);
  if (failed(check.match("input", getInput(), {"T", "L"})) || // (C1)
      failed(check.match("weight", getWeight(), {"L"})) ||
      failed(check.match("bias", getBias(), {"L"})) ||
      failed(check.match("result", getResult(), {"T", "L"})) ||
      failed(check.sameElement("input", getInput(), "result", getResult())) || // (C2)
      failed(check.sameElement("weight", getWeight(), "bias", getBias())))
    return failure();
  return verifyPositive(*this, "epsilon", getEpsilon()); // (C3)
}

LogicalResult HadamardOp::verify() {
  RankedTensorType type = getTensorType(getInput());
  int64_t width = type.getRank() > 0 ? type.getShape().back() : 0;
  bool isPower = !ShapedType::isDynamic(width) && llvm::isPowerOf2_64(width);
  if ((type.getRank() == 2 || type.getRank() == 3) && isPower) // (C1)
    return success();
  return emitOpError("expected [T, D] or [T, N, D] with D a power of two, got ") << type;
}

LogicalResult RoundMxfp4Op::verify() {
  RankedTensorType type = getTensorType(getInput());
  int64_t width = type.getRank() > 0 ? type.getShape().back() : 0;
  bool isWhole = !ShapedType::isDynamic(width) && width > 0 && width % kBlock == 0;
  if ((type.getRank() != 2 && type.getRank() != 3) || !isWhole) // (C1)
    return emitOpError("expected [T, D] or [T, N, D] with D a multiple of ")
           << kBlock << ", got " << type;
  if (!type.getElementType().isBF16() && !type.getElementType().isF32()) // (C2)
    return emitOpError("expected elements of bf16 or f32, got ") << type;
  return success();
}

LogicalResult IndexWeightsOp::verify() {
  ShapeCheck check(*this);
  check.bind("1", 1, "mla.quantize of whole rows");
  if (failed(check.match("input", getInput(), {"T", "Hi"})) || // (C1)
      (getScales() && failed(check.match("scales", getScales(), {"T", "Hi", "1"}))) ||
      failed(check.match("result", getResult(), {"T", "Hi"})))
    return failure();
  if (!getFactor().isFinite()) // (C2)
    return emitOpError("expected a finite factor, got ") << getFactor().convertToDouble();
  return success();
}

/// The rotations of rows, of which the rope is null where it is not known.
static LogicalResult verifyRotations(Operation *op, StringRef name, RopeAttr rope, bool hadamard,
                                     CacheType cache) {
  if (hadamard != cache.getHadamard())
    return op->emitOpError("expected ")
           << name << (hadamard ? " not to be" : " to be") << " rotated by mla.hadamard, of a "
           << "cache with hadamard = " << (cache.getHadamard() ? "true" : "false");
  if (!rope || rope.getOrder() == cache.getRopeOrder())
    return success();
  return op->emitOpError("expected ")
         << name << " in the cache's rope order " << stringifyRopeOrder(cache.getRopeOrder())
         << ", got " << stringifyRopeOrder(rope.getOrder());
}

LogicalResult IndexScoresOp::verify() {
  CacheType cache = getCache().getType();
  if (cache.getFields().size() != 1 || cache.getIndexWidth() == 0) // (C1)
    return emitOpError("expected a cache with the field 'index' alone, got ") << cache;
  ShapeCheck check(*this);
  check.bind("Di", cache.getIndexWidth(), "cache");
  if (failed(check.match("query", getQuery(), {"T", "Hi", "Di"})) || // (C1)
      failed(check.match("weights", getWeights(), {"T", "Hi"})))
    return failure();
  RankedTensorType query = getTensorType(getQuery()), scores = getTensorType(getResult());
  if (query.isDynamicDim(1) || query.isDynamicDim(2)) // (C1)
    return emitOpError("expected heads and columns of the query to be static, got ") << query;
  if (cache.getWindow() != 0) // (C2)
    return emitOpError("expected a cache that keeps all rows, got window = ") << cache.getWindow();
  if (scores.getRank() != 2 || !scores.isDynamicDim(1) ||
      scores.isDynamicDim(0) != (!getFirst() || getRows()) || (getRows() && !getFirst())) // (C3)
    return emitOpError("expected scores [T, ?], with 'from' [static, ?] or [?, ?] of 'rows', got ")
           << scores;
  Type element = cache.getElement();
  if (!mlac::cache::isPacked(cache.getLayout()))
    element = Float8E4M3FNType::get(getContext());
  if (query.getElementType() != element) // (C5)
    return emitOpError("expected a query of ")
           << element << " over keys of the format " << cache.getLayoutName() << ", got " << query;
  if (auto query = getQuery().getDefiningOp<IndexQueryOp>()) // (C4)
    return verifyRotations(*this, "the query", query.getRope(), /*hadamard=*/false, cache);
  Value rows;
  if (auto quantize = getQuery().getDefiningOp<QuantizeOp>())
    rows = quantize.getInput();
  else if (auto round = getQuery().getDefiningOp<RoundMxfp4Op>())
    rows = round.getInput();
  return rows ? verifyIndexRotations(*this, "the query", rows, cache) : success(); // (C4)
}

LogicalResult mla::verifyIndexRotations(Operation *op, StringRef name, Value rows,
                                        CacheType cache) {
  auto hadamard = rows.getDefiningOp<HadamardOp>();
  auto rope = (hadamard ? hadamard.getInput() : rows).getDefiningOp<RopeOp>();
  bool isKnown = rows.getDefiningOp() != nullptr;
  return verifyRotations(op, name, rope ? rope.getRope() : RopeAttr(),
                         isKnown ? bool(hadamard) : cache.getHadamard(), cache);
}
