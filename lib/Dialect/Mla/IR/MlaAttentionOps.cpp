//===- MlaAttentionOps.cpp - verifiers of attention -------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Check numbers (C1) ... are those of the op descriptions in
// MlaAttentionOps.td.
//
//===----------------------------------------------------------------------===//

#include "CacheFormats.h"
#include "ShapeCheck.h"

#include "mla/Dialect/Mla/IR/Softcap.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::mla;

/// (C7): what attention to selected keys can be.
static LogicalResult verifySelection(AttentionOp op, ShapeCheck &check) {
  if (failed(check.match("selected", op.getSelected(), {"T", "K"})))
    return failure();
  if (SharePrefixOp::ofShared(op.getBatch()) || SharePrefixOp::ofOwn(op.getBatch()))
    return op.emitOpError("expected no shared prefix beside selected keys");
  return success();
}

/// (C8)
static LogicalResult verifyGathered(AttentionOp op) {
  if (!op.getSelected())
    return op.emitOpError(
        "expected selected keys with gathered: other attention has chunks of context");
  if (op.getForm() == Form::Expanded)
    return op.emitOpError("expected form auto or absorbed with gathered, got expanded");
  auto part = op.getBatch().getDefiningOp<BatchPartOp>();
  if (part && part.getPart() == BatchPart::Decodes)
    return op.emitOpError("expected no decodes with gathered: each would gather its whole context");
  return success();
}

LogicalResult AttentionOp::verify() {
  ShapeCheck check(*this);
  CacheType cache = getCache().getType();
  bindCacheWidths(check, cache);                                    // (C2)
  if (failed(check.match("q_nope", getQNope(), {"T", "N", "P"})) || // (C1)
      failed(check.presentIff("q_pe", getQPe(), "R")) ||
      (getQPe() && failed(check.match("q_pe", getQPe(), {"T", "N", "R"}))) ||
      failed(verifyLatentRows(*this, check, "T", cache, getLatent(), getKPe())) ||
      failed(check.match("w_uk", getWUk(), {"N", "P", "Lkv"})) ||
      failed(check.match("w_uv", getWUv(), {"N", "V", "Lkv"})) ||
      failed(check.match("output", getOutput(), {"T", "N", "V"})) ||
      failed(verifyPositive(*this, "scale", getScale()))) // (C3)
    return failure();
  for (auto [name, value] : {std::pair<StringRef, Value>("q_pe", getQPe()), // (C4)
                             {"latent", getLatent()},
                             {"k_pe", getKPe()},
                             {"w_uk", getWUk()},
                             {"w_uv", getWUv()},
                             {"output", getOutput()}})
    if (value && !(name == "output" && SharePrefixOp::ofShared(getBatch())) &&
        failed(check.sameElement("q_nope", getQNope(), name, value)))
      return failure();
  if (SharePrefixOp::ofShared(getBatch()) &&
      failed(verifyOutputElement(*this, getQNope(), getOutput())))
    return failure();
  bool isShared = SharePrefixOp::ofShared(getBatch()) != nullptr;
  if ((isShared && getForm() != Form::Expanded) ||
      (SharePrefixOp::ofOwn(getBatch()) && getForm() != Form::Absorbed)) // (C6)
    return emitOpError("expected form ")
           << (isShared ? "expanded over a shared prefix" : "absorbed behind a shared prefix")
           << ", got " << stringifyForm(getForm());
  if (getLse() && failed(check.matchLse("lse", getLse()))) // (C5)
    return failure();
  if (getGathered() && failed(verifyGathered(*this)))
    return failure();
  return getSelected() ? verifySelection(*this, check) : success();
}

LogicalResult ExpandedAttentionOp::verify() {
  ShapeCheck check(*this);
  if (static_cast<bool>(getQPe()) != static_cast<bool>(getKPe())) // (C1)
    return emitOpError("expected q_pe and k_pe both or neither, got ")
           << (getQPe() ? "q_pe" : "k_pe") << " only";
  // The step's new tokens are the keys unless a chunk of the context is.
  StringRef keys = isCausal() ? "T" : "S";
  if (failed(check.match("q_nope", getQNope(), {"T", "N", "P"})) ||
      (getQPe() && failed(check.match("q_pe", getQPe(), {"T", "N", "R"}))) ||
      failed(check.match("k_nope", getKNope(), {keys, "N", "P"})) ||
      (getKPe() && failed(check.match("k_pe", getKPe(), {keys, "R"}))) ||
      failed(check.match("v", getV(), {keys, "N", "V"})) ||
      failed(check.match("output", getOutput(), {"T", "N", "V"})) ||
      failed(verifyOutputElement(*this, getQNope(), getOutput())) ||
      failed(verifyPositive(*this, "scale", getScale()))) // (C2)
    return failure();
  for (auto [name, value] : {std::pair<StringRef, Value>("q_pe", getQPe()),
                             {"k_nope", getKNope()},
                             {"k_pe", getKPe()},
                             {"v", getV()}})
    if (value && failed(check.sameElement("q_nope", getQNope(), name, value)))
      return failure();
  if (getLse() && failed(check.matchLse("lse", getLse()))) // (C3)
    return failure();
  if (getMarks() && failed(check.match("marks", getMarks(), {"T", "W"}))) // (C6)
    return failure();
  if (getNumSplits() && isCausal()) // (C5)
    return emitOpError("expected splits of a chunk's keys only, got splits without chunk");
  if (getNumSplits() && getLse() && getLseEncoding(getLse()).getLayout() != LseLayout::TokenMajor)
    return emitOpError("expected a token_major lse with splits, got ") << getLse().getType();
  if (static_cast<bool>(getPartial()) != static_cast<bool>(getPartialLse())) // (C4)
    return emitOpError("expected partial and partial_lse both or neither, got ")
           << (getPartial() ? "partial" : "partial_lse") << " only";
  if (!getPartial())
    return success();
  if (failed(check.match("partial", getPartial(), {"T", "N", "V"})))
    return failure();
  if (!getElementTypeOrSelf(getPartial()).isF32())
    return emitOpError("expected an f32 partial, got ") << getPartial().getType();
  return check.matchLse("partial_lse", getPartialLse());
}

LogicalResult AbsorbedAttentionOp::verify() {
  ShapeCheck check(*this);
  CacheType cache = getCache().getType();
  bindCacheWidths(check, cache);
  bool isSplit = static_cast<bool>(getNumSplits());
  if (failed(check.match("q_lat", getQLat(), {"T", "N", "Lkv"})) || // (C1)
      failed(check.presentIff("q_pe", getQPe(), "R")) ||
      (getQPe() && failed(check.match("q_pe", getQPe(), {"T", "N", "R"}))) ||
      (getQPe() && failed(check.sameElement("q_lat", getQLat(), "q_pe", getQPe()))))
    return failure();
  if (getElementTypeOrSelf(getQLat()) != cache.getElement())
    return emitOpError("expected q_lat to have the cache's element type ")
           << cache.getElement() << ", got " << getElementTypeOrSelf(getQLat());
  if (isSplit ? failed(check.match("output", getOutput(), {"S", "T", "N", "Lkv"}))
              : failed(check.match("output", getOutput(), {"T", "N", "Lkv"})))
    return failure();
  if (failed(verifyOutputElement(*this, getQLat(), getOutput())) ||
      failed(verifyPositive(*this, "scale", getScale()))) // (C2)
    return failure();
  return verifySplits(*this, check, getLse(), getNumSplits()); // (C3), (C4)
}

//===----------------------------------------------------------------------===//
// Groups of heads
//===----------------------------------------------------------------------===//

/// The field of a pool that holds one part of its rows, or null.
static const CacheField *findField(CacheType cache, mlac::cache::Part part) {
  for (const CacheField &field : cache.getFields())
    if (field.part == part)
      return &field;
  return nullptr;
}

int64_t GroupedAttentionOp::getHeads() { return getTensorType(getQuery()).getDimSize(1); }

int64_t GroupedAttentionOp::getGroup() {
  return getHeads() / findField(getKeyCache().getType(), mlac::cache::Part::Key)->heads;
}

/// (C2), (C3): what a pool needs besides its field.
static LogicalResult verifyPool(GroupedAttentionOp op, StringRef name, CacheType cache) {
  if (getElementTypeOrSelf(op.getQuery()) != cache.getElement())
    return op.emitOpError("expected query to have the element type of the pool of ")
           << name << ", " << cache.getElement() << ", got " << getElementTypeOrSelf(op.getQuery());
  if (cache.getTokensPerRow() != 1)
    return op.emitOpError("expected a pool of ")
           << name << " with tokens_per_row = 1, got " << cache.getTokensPerRow();
  int64_t kept = cache.getWindow(), seen = static_cast<int64_t>(op.getWindow());
  if (kept == 0 || (seen > 0 && seen <= kept))
    return success();
  return op.emitOpError("expected a window from 1 to the ")
         << kept << " tokens that the pool of " << name << " keeps, got " << seen;
}

LogicalResult GroupedAttentionOp::verify() {
  using mlac::cache::Part;
  CacheType keys = getKeyCache().getType(), values = getValueCache().getType();
  const CacheField *key = findField(keys, Part::Key);
  const CacheField *value = findField(values, Part::Value);
  if (!key || !value) // (C1)
    return emitOpError("expected a pool with the field '")
           << (key ? "value" : "key") << "', got " << (key ? values : keys);
  if (key->heads != value->heads)
    return emitOpError("expected as many heads of values as of keys, ")
           << key->heads << ", got " << value->heads;
  ShapeCheck check(*this);
  check.bind("Dk", key->columns, "keys");
  check.bind("Dv", value->columns, "values");
  if (failed(check.match("query", getQuery(), {"T", "N", "Dk"})))
    return failure();
  if (ShapedType::isDynamic(getHeads()) || getHeads() % key->heads != 0)
    return emitOpError("expected query heads that are a multiple of the ")
           << key->heads << " of the keys, got " << getQuery().getType();
  if (getNumSplits() ? failed(check.match("output", getOutput(), {"S", "T", "N", "Dv"}))
                     : failed(check.match("output", getOutput(), {"T", "N", "Dv"})))
    return failure();
  if (failed(verifyPool(*this, "keys", keys)) || // (C2), (C3)
      failed(verifyPool(*this, "values", values)) ||
      failed(verifyOutputElement(*this, getQuery(), getOutput())) ||
      failed(verifyPositive(*this, "scale", getScale()))) // (C4)
    return failure();
  if (static_cast<int64_t>(getWindow()) < 0)
    return emitOpError("expected a window >= 0, got ") << static_cast<int64_t>(getWindow());
  if (!getSoftcap().isFinite() || getSoftcap().isNegative())
    return emitOpError("expected a finite softcap >= 0, got ") << getSoftcap().convertToDouble();
  if (double softcap = getSoftcap().convertToDouble(); softcap > kMaxSoftcap)
    return emitOpError("expected a softcap <= ")
           << static_cast<int64_t>(kMaxSoftcap) << ", got " << softcap;
  if (getSink() && failed(check.match("sink", getSink(), {"N"}))) // (C1)
    return failure();
  return verifySplits(*this, check, getLse(), getNumSplits()); // (C5), (C6)
}

LogicalResult EmptyPartialOp::verify() {
  ShapeCheck check(*this);
  if (failed(check.match("output", getOutput(), {"T", "N", "V"}))) // (C1)
    return failure();
  return check.matchLse("lse", getLse());
}

/// Checks that an LSE has the encoding of another.
static LogicalResult verifySameEncoding(Operation *op, StringRef firstName, Value first,
                                        StringRef name, Value value) {
  if (getLseEncoding(first) == getLseEncoding(value))
    return success();
  return op->emitOpError("expected ") << name << " to have " << firstName << "'s encoding "
                                      << getLseEncoding(first) << ", got " << getLseEncoding(value);
}

LogicalResult MergeOp::verify() {
  ShapeCheck check(*this);
  if (failed(check.match("a", getA(), {"T", "N", "V"})) || // (C1)
      failed(check.match("b", getB(), {"T", "N", "V"})) ||
      failed(check.match("output", getOutput(), {"T", "N", "V"})) ||
      failed(check.matchLse("a_lse", getALse())) || // (C2)
      failed(check.matchLse("b_lse", getBLse())) ||
      failed(verifySameEncoding(*this, "a_lse", getALse(), "b_lse", getBLse())))
    return failure();
  if (!getLse())
    return success();
  if (failed(check.matchLse("lse", getLse())))
    return failure();
  return verifySameEncoding(*this, "a_lse", getALse(), "lse", getLse());
}

LogicalResult MergeSplitsOp::verify() {
  ShapeCheck check(*this);
  if (failed(check.match("partial_output", getPartialOutput(), {"S", "T", "N", "V"})) || // (C1)
      failed(check.match("output", getOutput(), {"T", "N", "V"})) ||
      failed(check.matchLse("partial_lse", getPartialLse(), "S")) || // (C2)
      (getSink() && failed(check.match("sink", getSink(), {"N"}))))
    return failure();
  Type partial = getElementTypeOrSelf(getPartialOutput());
  if (!partial.isF32() && partial != getElementTypeOrSelf(getOutput()))
    return emitOpError("expected a partial_output of f32 or the output's element type, got ")
           << getPartialOutput().getType();
  if (getLseEncoding(getPartialLse()).getLayout() != LseLayout::TokenMajor)
    return emitOpError("expected partial_lse with layout = token_major, got ")
           << getLseEncoding(getPartialLse());
  if (getMaxLogits() && !getPartialMax()) // (C3)
    return emitOpError("expected a partial_max beside max_logits, got none");
  if ((getPartialMax() &&
       failed(check.matchPlain("partial_max", getPartialMax(), {"S", "T", "N"}))) ||
      (getMaxLogits() && failed(check.matchPlain("max_logits", getMaxLogits(), {"T", "N"}))))
    return failure();
  if (!getLse())
    return success();
  if (failed(check.matchLse("lse", getLse())))
    return failure();
  return verifySameEncoding(*this, "partial_lse", getPartialLse(), "lse", getLse());
}

LogicalResult ConvertLseOp::verify() {
  ShapeCheck check(*this);
  for (auto [name, value] : {std::pair<StringRef, Value>("input", getInput()), // (C1)
                             {"result", getResult()}}) {
    LseAttr encoding = getLseEncoding(value);
    if (!encoding)
      return emitOpError("expected ")
             << name << " to have an #mla.lse encoding, got " << value.getType();
    bool isSplit = getTensorType(value).getRank() == 3;
    SmallVector<StringRef, 3> symbols{"T", "N"};
    if (encoding.getLayout() == LseLayout::HeadMajor)
      std::swap(symbols[0], symbols[1]);
    if (isSplit)
      symbols.insert(symbols.begin(), "S");
    if (failed(check.match(name, value, symbols)))
      return failure();
  }
  if (getTensorType(getInput()).getRank() != getTensorType(getResult()).getRank())
    return emitOpError("expected result of input's rank ")
           << getTensorType(getInput()).getRank() << ", got " << getResult().getType();
  return success();
}
