//===- MlaSelectOps.cpp - verifiers of what selects keys ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Check numbers (C1) ... are those of the op descriptions in MlaSelectOps.td.
//
//===----------------------------------------------------------------------===//

#include "ShapeCheck.h"

using namespace mlir;
using namespace mlir::mla;

/// Whose rows are those of another batch.
static LogicalResult verifySharesNothing(Operation *op, Value batch) {
  if (SharePrefixOp::ofShared(batch) || SharePrefixOp::ofOwn(batch))
    return op->emitOpError("expected a batch that shares no prefix: its rows are those of another");
  return success();
}

LogicalResult MarkSelectedOp::verify() {
  ShapeCheck check(*this);
  if (failed(check.match("selected", getSelected(), {"T", "K"})) || // (C1)
      failed(check.match("result", getResult(), {"T", "W"})))
    return failure();
  if (getTensorType(getSelected()).isDynamicDim(1)) // (C1)
    return emitOpError("expected a static number of selected positions, got ")
           << getSelected().getType();
  if (!getTensorType(getResult()).isDynamicDim(1)) // (C1)
    return emitOpError("expected a result [T, W] of dynamic W, got ") << getResult().getType();
  return verifySharesNothing(*this, getBatch()); // (C2)
}

LogicalResult TopKOp::verify() {
  ShapeCheck check(*this);
  RankedTensorType result = getTensorType(getResult());
  if (bool(getFirst()) != bool(getOnto())) // (C5)
    return emitOpError("expected from and onto together");
  StringRef rows = getFirst() ? "R" : "T";
  if (failed(check.match("scores", getScores(), {rows, "S"}))) // (C1)
    return failure();
  if (getOnto() && getOnto().getType() != getResult().getType()) // (C5)
    return emitOpError("expected onto of the result's type ")
           << getResult().getType() << ", got " << getOnto().getType();
  int64_t k = static_cast<int64_t>(getK());
  if (k < 1 || k > kMostSelected) // (C2)
    return emitOpError("expected k from 1 to ") << kMostSelected << ", got " << k;
  if (result.getRank() != 2 || result.getDimSize(1) != k) // (C1)
    return emitOpError("expected a result [T, ") << k << "] for k = " << k << ", got " << result;
  if (failed(check.match("result", getResult(), {"T", "k"})))
    return failure();
  if (getLengths() && failed(check.match("lengths", getLengths(), {"T"}))) // (C3)
    return failure();
  return verifySharesNothing(*this, getBatch()); // (C4)
}
