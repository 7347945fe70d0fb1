//===- ShapeCheck.cpp - shapes against symbols ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ShapeCheck.h"

#include "CacheFormats.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::mla;

LseAttr mlir::mla::getLseEncoding(Value lse) {
  return dyn_cast_or_null<LseAttr>(
      cast<RankedTensorType>(lse.getType()).getEncoding());
}

void ShapeCheck::bind(StringRef symbol, int64_t size, StringRef origin) {
  if (!ShapedType::isDynamic(size))
    bindings.try_emplace(symbol, Binding{size, origin.str()});
}

LogicalResult ShapeCheck::match(StringRef name, Value value,
                                ArrayRef<StringRef> symbols) {
  auto type = cast<RankedTensorType>(value.getType());
  auto emit = [&] {
    InFlightDiagnostic diagnostic = op->emitOpError("expected ");
    diagnostic << name << " to be [";
    llvm::interleaveComma(symbols, diagnostic);
    diagnostic << "]";
    return diagnostic;
  };
  if (type.getRank() != static_cast<int64_t>(symbols.size()))
    return emit() << ", got " << type;
  for (auto [size, symbol] : llvm::zip_equal(type.getShape(), symbols)) {
    if (ShapedType::isDynamic(size))
      continue;
    auto [it, isNew] = bindings.try_emplace(symbol, Binding{size, name.str()});
    if (!isNew && it->second.size != size)
      return emit() << " with " << symbol << " = " << it->second.size
                    << " (from " << it->second.origin << "), got " << type;
  }
  return success();
}

LogicalResult ShapeCheck::sameElement(StringRef firstName, Value first,
                                      StringRef name, Value value) {
  Type expected = getElementTypeOrSelf(first),
       actual = getElementTypeOrSelf(value);
  if (expected != actual)
    return op->emitOpError("expected ")
           << name << " to have " << firstName << "'s element type " << expected
           << ", got " << actual;
  return success();
}

LogicalResult ShapeCheck::presentIff(StringRef name, Value value,
                                     StringRef symbol) {
  auto it = bindings.find(symbol);
  if (it == bindings.end())
    return success();
  const auto &[size, origin] = it->second;
  if (static_cast<bool>(value) != (size > 0))
    return op->emitOpError("expected ")
           << (size > 0 ? "" : "no ") << name << " with " << symbol << " = "
           << size << " (from " << origin << "), got "
           << (value ? "one" : "none");
  return success();
}

LogicalResult ShapeCheck::matchLse(StringRef name, Value value,
                                   StringRef leading) {
  LseAttr encoding = getLseEncoding(value);
  if (!encoding)
    return op->emitOpError("expected ")
           << name << " to have an #mla.lse encoding, got " << value.getType();
  if (encoding.getBase() != LseBase::E ||
      encoding.getEmpty() != LseEmpty::NegInf)
    return op->emitOpError("expected ")
           << name << " with base = e and empty = neg_inf, got " << encoding;
  SmallVector<StringRef, 3> symbols{"T", "N"};
  if (encoding.getLayout() == LseLayout::HeadMajor)
    std::swap(symbols[0], symbols[1]);
  if (!leading.empty())
    symbols.insert(symbols.begin(), leading);
  return match(name, value, symbols);
}

LogicalResult ShapeCheck::matchPlain(StringRef name, Value value, ArrayRef<StringRef> symbols) {
  if (!getTensorType(value).getEncoding())
    return match(name, value, symbols);
  return op->emitOpError("expected ") << name << " without an encoding, got " << value.getType();
}

LogicalResult mla::verifyPositive(Operation *op, StringRef name,
                                  const APFloat &value) {
  double number = value.convertToDouble();
  if (!(number > 0))
    return op->emitOpError("expected ") << name << " > 0, got " << number;
  // Kernels have it in f32, and scores times log2(e).
  constexpr double kMost = 1e38;
  if (number > kMost)
    return op->emitOpError("expected ") << name << " <= " << kMost << ", got " << number;
  return success();
}

RankedTensorType mla::getTensorType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

LogicalResult mla::verifyOutputElement(Operation *op, Value query, Value output) {
  Type expected = getElementTypeOrSelf(query), actual = getElementTypeOrSelf(output);
  if (actual == expected || actual.isF32())
    return success();
  return op->emitOpError("expected output of the query's element type ")
         << expected << " or f32, got " << actual;
}

LogicalResult mla::verifySplits(Operation *op, ShapeCheck &check, Value lse, Value numSplits) {
  if (numSplits && !lse)
    return op->emitOpError("expected an lse beside num_splits, got none");
  if (!lse)
    return success();
  if (failed(check.matchLse("lse", lse, numSplits ? "S" : "")))
    return failure();
  if (getLseEncoding(lse).getLayout() != LseLayout::TokenMajor)
    return op->emitOpError("expected lse with layout = token_major, got ") << getLseEncoding(lse);
  return success();
}

void mla::bindCacheWidths(ShapeCheck &check, CacheType cache) {
  check.bind("Lkv", cache.getKvLoraRank(), "cache");
  check.bind("R", cache.getQkRopeHeadDim(), "cache");
}

static LogicalResult verifyElement(Operation *op, StringRef name, Value value,
                                   CacheType cache) {
  if (getElementTypeOrSelf(value) == cache.getElement())
    return success();
  return op->emitOpError("expected ")
         << name << " to have the cache's element type " << cache.getElement()
         << ", got " << getElementTypeOrSelf(value);
}

LogicalResult mla::verifyCacheRows(Operation *op, StringRef tokens,
                                   CacheType cache, ValueRange rows) {
  ArrayRef<CacheField> fields = cache.getFields();
  if (rows.size() != fields.size())
    return op->emitOpError("expected a tensor for each of the cache's ")
           << fields.size() << " fields, got " << rows.size();
  ShapeCheck check(op);
  for (auto [field, row] : llvm::zip_equal(fields, rows)) {
    std::string name = mlac::cache::partName(field.part);
    std::string heads = name + " heads", columns = name + " columns";
    bool hasHeads = getTensorType(row).getRank() == 3;
    check.bind(name, field.getWidth(), "cache");
    check.bind(heads, field.heads, "cache");
    check.bind(columns, field.columns, "cache");
    if (failed(hasHeads ? check.match(name, row, {tokens, heads, columns})
                        : check.match(name, row, {tokens, name})) ||
        failed(verifyElement(op, name, row, cache)))
      return failure();
  }
  return success();
}

LogicalResult mla::verifyLatentRows(Operation *op, ShapeCheck &check,
                                    StringRef tokens, CacheType cache,
                                    Value latent, Value ropeKey) {
  if (failed(check.match("latent", latent, {tokens, "Lkv"})) ||
      failed(check.presentIff("k_pe", ropeKey, "R")) ||
      (ropeKey && failed(check.match("k_pe", ropeKey, {tokens, "R"}))))
    return failure();
  for (auto [name, value] :
       {std::pair<StringRef, Value>("latent", latent), {"k_pe", ropeKey}})
    if (value && failed(verifyElement(op, name, value, cache)))
      return failure();
  return success();
}

LogicalResult mla::verifyAngles(Operation *op, ShapeCheck &check, RopeAttr rope, Value table) {
  check.bind("R", rope.getDim(), "rope");
  check.bind("R / 2", rope.getDim() / 2, "rope");
  check.bind("2", 2, "cosine and sine");
  bool isBeside = getTensorType(table).getRank() == 3;
  if (!isBeside && !getElementTypeOrSelf(table).isF32())
    return op->emitOpError("expected a table of f32 where cosines stand before sines, got ")
           << table.getType();
  return isBeside ? check.match("table", table, {"length", "R / 2", "2"})
                  : check.match("table", table, {"length", "R"});
}

LogicalResult mla::inferCache(ValueRange operands, SmallVectorImpl<Type> &types) {
  for (Value operand : operands)
    if (isa<CacheType>(operand.getType()))
      types.push_back(operand.getType());
  return success(types.size() == 1);
}
