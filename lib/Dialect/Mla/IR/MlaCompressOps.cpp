//===- MlaCompressOps.cpp - cached rows of several tokens ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Check numbers (C1) ... are those of the op descriptions in MlaCompressOps.td.
//
//===----------------------------------------------------------------------===//

#include "CacheFormats.h"
#include "ShapeCheck.h"

using namespace mlir;
using namespace mlir::mla;
using mlac::cache::Part;

/// Checks that an attribute that counts tokens is above 0.
static LogicalResult verifyEvery(Operation *op, int64_t every) {
  if (every > 0)
    return success();
  return op->emitOpError("expected every > 0, got ") << every;
}

LogicalResult AddPositionBiasOp::verify() {
  ShapeCheck check(*this);
  if (failed(check.match("input", getInput(), {"T", "C"})) || // (C1)
      failed(check.match("bias", getBias(), {"r", "C"})))
    return failure();
  RankedTensorType bias = getTensorType(getBias());
  if (bias.hasStaticShape() && bias.getNumElements() > 0) // (C1)
    return success();
  return emitOpError("expected a bias of static sizes above 0, got ") << bias;
}

LogicalResult CompressOp::verify() {
  CacheType cache = getCache().getType();
  ArrayRef<CacheField> fields = cache.getFields();
  auto hasPart = [&](size_t index, Part part) {
    return fields[index].part == part && fields[index].heads == 1;
  };
  if (fields.size() != 2 || !hasPart(0, Part::Key) || !hasPart(1, Part::Value) ||
      fields[0].columns != fields[1].columns) // (C1)
    return emitOpError("expected a pool with one key and one value, equally wide, got ") << cache;
  if (failed(verifyEvery(*this, static_cast<int64_t>(getEvery())))) // (C3)
    return failure();
  int64_t parts = getOverlap() ? 2 : 1;
  if (fields[0].columns % parts != 0) // (C2)
    return emitOpError("expected an even number of columns of runs that overlap, got ")
           << fields[0].columns;
  ShapeCheck check(*this);
  check.bind("D", fields[0].columns / parts, "cache");
  if (failed(check.match("result", getResult(), {"T", "D"}))) // (C2)
    return failure();
  if (!getTensorType(getResult()).getElementType().isF32()) // (C2)
    return emitOpError("expected a result of f32, got ") << getResult().getType();
  bool hasWindow = cache.getWindow() != 0;
  if (cache.getTokensPerRow() == 1 && (!hasWindow || cache.getWindow() >= getTokens())) // (C4)
    return success();
  return emitOpError("expected a row of every token, of the last ")
         << getTokens() << " at least, got tokens_per_row = " << cache.getTokensPerRow()
         << ", window = " << cache.getWindow();
}

LogicalResult SeenKeysOp::verify() {
  ShapeCheck check(*this);
  auto window = static_cast<int64_t>(getWindow()), every = static_cast<int64_t>(getEvery());
  if (failed(verifyEvery(*this, every))) // (C1)
    return failure();
  if (window < 0 || (window > 0 && every != 1)) // (C1)
    return emitOpError("expected a window >= 0, and none beside every = ")
           << every << ", got " << window;
  if (failed(check.match("count", getCount(), {"T"})) ||
      (getKeys() && failed(check.match("keys", getKeys(), {"T", "K"}))))
    return failure();
  int64_t width = getKeys() ? getTensorType(getKeys()).getDimSize(1) : window;
  if (getKeys() && (ShapedType::isDynamic(width) || width < 1 || width < window)) // (C2)
    return emitOpError("expected keys [T, K] of a static K above 0 and not below the window ")
           << window << ", got " << getKeys().getType();
  if (getCache() && !getKeys()) // (C4)
    return emitOpError("expected a pool with keys alone");
  if (isa<BlockArgument>(getBatch())) // (C3)
    return success();
  return emitOpError("expected the batch of a step, got a part of one");
}
