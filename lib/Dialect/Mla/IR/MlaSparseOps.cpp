//===- MlaSparseOps.cpp - verifiers of attention over selected rows ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Check numbers (C1) ... are those of the op descriptions in MlaSparseOps.td.
//
//===----------------------------------------------------------------------===//

#include "CacheFormats.h"
#include "ShapeCheck.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::mla;
using mlac::cache::Part;

int64_t SparseAttentionOp::getHeads() { return getTensorType(getQLat()).getDimSize(1); }

int64_t SparseAttentionOp::getWidth() { return getTensorType(getRows()).getDimSize(1); }

int64_t SparseAttentionOp::getLatentWidth() { return getTensorType(getQLat()).getShape().back(); }

int64_t SparseAttentionOp::getRopeWidth() {
  return getQPe() ? getTensorType(getQPe()).getShape().back() : 0;
}

bool SparseAttentionOp::areValuesRows() {
  return getCache() && !getQPe() && getCache().getType().getQkRopeHeadDim() > 0 &&
         getLatentWidth() == getCache().getType().getRowWidth();
}

/// (C2), and the widths of the rows that are there.
static LogicalResult verifySource(SparseAttentionOp op, ShapeCheck &check) {
  if (!op.getCache() == !op.getLatent() || !op.getCache() != !op.getBatch())
    return op.emitOpError("expected rows over a cache and a batch, or of keys");
  if (op.areValuesRows()) { // one query of both parts
    check.bind("Lkv", op.getCache().getType().getRowWidth(), "cache's whole rows");
    check.bind("R", 0, "cache's whole rows");
    return success();
  }
  if (op.getCache()) {
    bindCacheWidths(check, op.getCache().getType());
    return success();
  }
  if (failed(check.match("latent", op.getLatent(), {"S", "Lkv"})))
    return failure();
  check.bind("R", op.getKPe() ? getTensorType(op.getKPe()).getShape().back() : 0, "keys");
  return op.getKPe() ? check.match("k_pe", op.getKPe(), {"S", "R"}) : success();
}

/// (C1): what there is an element of for each query.
static LogicalResult verifyQueries(SparseAttentionOp op, ShapeCheck &check) {
  if (failed(check.match("q_lat", op.getQLat(), {"T", "N", "Lkv"})) ||
      failed(check.presentIff("q_pe", op.getQPe(), "R")) ||
      (op.getQPe() && failed(check.match("q_pe", op.getQPe(), {"T", "N", "R"}))) ||
      failed(check.match("rows", op.getRows(), {"T", "K"})) ||
      (op.getLengths() && failed(check.match("lengths", op.getLengths(), {"T"}))) ||
      (op.getSink() && failed(check.match("sink", op.getSink(), {"N"}))))
    return failure();
  if (ShapedType::isDynamic(op.getWidth()) || op.getWidth() == 0)
    return op.emitOpError("expected rows [T, K] of a static K > 0, got ") << op.getRows().getType();
  return success();
}

/// (C3)
static LogicalResult verifyElements(SparseAttentionOp op, ShapeCheck &check) {
  for (auto [name, value] : {std::pair<StringRef, Value>("q_pe", op.getQPe()),
                             {"latent", op.getLatent()},
                             {"k_pe", op.getKPe()}})
    if (value && failed(check.sameElement("q_lat", op.getQLat(), name, value)))
      return failure();
  if (op.getCache() && getElementTypeOrSelf(op.getQLat()) != op.getCache().getType().getElement())
    return op.emitOpError("expected q_lat to have the cache's element type ")
           << op.getCache().getType().getElement() << ", got "
           << getElementTypeOrSelf(op.getQLat());
  return verifyOutputElement(op, op.getQLat(), op.getOutput());
}

/// (C10)
static LogicalResult verifyBeside(SparseAttentionOp op, ShapeCheck &check) {
  Value rows = op.getBesideRows(), lengths = op.getBesideLengths();
  CacheType first = op.getCache() ? op.getCache().getType() : CacheType();
  if (!rows && !lengths && !op.getBesideCache())
    return success();
  if (!rows || !lengths || !op.getBesideCache() || !first)
    return op.emitOpError("expected rows, lengths and a cache of a second scope, beside a cache");
  CacheType cache = op.getBesideCache().getType();
  if (cache.getFields() != first.getFields() || cache.getElement() != first.getElement() ||
      cache.getLayoutName() != first.getLayoutName())
    return op.emitOpError("expected a second scope of rows as the first one's, got ")
           << cache << " beside " << first;
  if (failed(check.match("beside_rows", rows, {"T", "K2"})) ||
      failed(check.match("beside_lengths", lengths, {"T"})))
    return failure();
  int64_t width = getTensorType(rows).getDimSize(1);
  if (ShapedType::isDynamic(width) || width == 0)
    return op.emitOpError("expected rows [T, K2] of a static K2 > 0, got ") << rows.getType();
  return success();
}

/// (C4)
static LogicalResult verifyFormat(SparseAttentionOp op) {
  if (!op.getCache())
    return success();
  const mlac::cache::Format &format = op.getCache().getType().getLayout();
  if ((!mlac::cache::hasSections(format) || op.areValuesRows()) &&
      format.fields[0].part == Part::Latent)
    return success();
  return op.emitOpError("expected a cache of rows that begin with a latent, in one section of a "
                        "page or read whole, got format ")
         << format.name;
}

/// (C9)
static LogicalResult verifyChunk(SparseAttentionOp op) {
  if (!op.getPrefills() != !op.getChunk() || !op.getPrefills() != !op.getOnto())
    return op.emitOpError("expected prefills, chunk and onto together");
  if (!op.getPrefills())
    return success();
  if (!op.getLatent())
    return op.emitOpError("expected the keys of a chunk, got a cache");
  if (op.getNumSplits() || op.getLse() || op.getMaxLogits())
    return op.emitOpError("expected neither splits nor lse and max_logits of a chunk");
  if (op.getOnto().getType() != op.getOutput().getType())
    return op.emitOpError("expected onto to have the output's type ")
           << op.getOutput().getType() << ", got " << op.getOnto().getType();
  return success();
}

LogicalResult SparseAttentionOp::verify() {
  ShapeCheck check(*this);
  if (failed(verifySource(*this, check)) || failed(verifyQueries(*this, check)) ||
      failed(verifyChunk(*this)))
    return failure();
  bool isSplit = static_cast<bool>(getNumSplits());
  if (isSplit ? failed(check.match("output", getOutput(), {"S", "T", "N", "Lkv"}))
              : failed(check.match("output", getOutput(), {"T", "N", "Lkv"})))
    return failure();
  if (failed(verifyElements(*this, check)) || failed(verifyFormat(*this)) ||
      failed(verifyBeside(*this, check)))
    return failure();
  if (ShapedType::isDynamic(getHeads()) || getHeads() < 1 || getHeads() > kMaxHeads) // (C5)
    return emitOpError("expected 1 to ") << kMaxHeads << " heads, got " << getHeads();
  if (failed(verifyPositive(*this, "scale", getScale()))) // (C6)
    return failure();
  if (isSplit && getSink()) // (C8)
    return emitOpError("expected no sink beside num_splits: it goes to mla.merge_splits");
  if (failed(verifySplits(*this, check, getLse(), getNumSplits()))) // (C7), (C8)
    return failure();
  if (!getMaxLogits())
    return success();
  return isSplit ? check.matchPlain("max_logits", getMaxLogits(), {"S", "T", "N"})
                 : check.matchPlain("max_logits", getMaxLogits(), {"T", "N"});
}
