//===- TileOps.cpp - verifiers and syntax of tile operations ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Check numbers (C1) … are those of the op descriptions in TileOps.td.
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/KernelAttrs.h"
#include "mla/Dialect/Tile/IR/PlanAttrs.h"

#include "mla/Dialect/KernelOp.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace mlir::tile;

//===----------------------------------------------------------------------===//
// Shared checks
//===----------------------------------------------------------------------===//

static LogicalResult verifySameElement(Operation *op, Type memory, Type tile) {
  Type expected = cast<ShapedType>(memory).getElementType();
  Type got = cast<ShapedType>(tile).getElementType();
  if (expected == got)
    return success();
  return op->emitOpError("expected the tile's element type to be the view's, ")
         << expected << ", got " << got;
}

static LogicalResult verifyRank(Operation *op, StringRef what, Type type, int64_t rank) {
  int64_t got = cast<ShapedType>(type).getRank();
  if (got == rank)
    return success();
  return op->emitOpError("expected ") << what << " of rank " << rank << ", got rank " << got;
}

/// Dense access: as many offsets as the tile has dimensions, 1 or 2; rows may be in groups.
static LogicalResult verifyDense(Operation *op, Type view, Type tile, int64_t offsets) {
  int64_t rank = cast<ShapedType>(tile).getRank();
  if (rank != 1 && rank != 2) // (C1)
    return op->emitOpError("expected a tile of rank 1 or 2, got rank ") << rank;
  bool hasGroups = cast<ShapedType>(view).getRank() == rank + 1;
  if (hasGroups && cast<ShapedType>(view).isDynamicDim(1))
    return op->emitOpError("expected groups of a static size (view dimension 1), got ") << view;
  if (!hasGroups && failed(verifyRank(op, "a view", view, rank)))
    return failure();
  if (offsets != rank)
    return op->emitOpError("expected ") << rank << " offsets, got " << offsets;
  return verifySameElement(op, view, tile); // (C2)
}

/// Paged access: pool [pages, page_size, D] with static page_size.
static LogicalResult verifyPaged(Operation *op, Type pool, Type tile) {
  if (failed(verifyRank(op, "a pool", pool, 3)) || failed(verifyRank(op, "a tile", tile, 2)))
    return failure(); // (C1)
  if (cast<ShapedType>(pool).isDynamicDim(1))
    return op->emitOpError("expected a static page size (pool dimension 1), got ") << pool;
  return verifySameElement(op, pool, tile); // (C2)
}

//===----------------------------------------------------------------------===//
// KernelOp
//===----------------------------------------------------------------------===//

void KernelOp::build(OpBuilder &builder, OperationState &state, StringRef name,
                     TypeRange argumentTypes) {
  state.addAttribute(getSymNameAttrName(state.name), builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name),
                     TypeAttr::get(builder.getFunctionType(argumentTypes, {})));
  Block &body = state.addRegion()->emplaceBlock();
  for (Type type : argumentTypes)
    body.addArgument(type, state.location);
}

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  return mlac::parseKernel<KernelOp>(parser, result);
}

void KernelOp::print(OpAsmPrinter &printer) { mlac::printKernel(*this, printer); }

LogicalResult KernelOp::verify() {
  if (failed(mlac::verifyKernelSignature(*this))) // (C1)
    return failure();
  if (!mlac::endsIn<ReturnOp>(getBody())) // (C2)
    return emitOpError("expected a body that ends in tile.return");
  for (unsigned index = 0; index < getNumArguments(); ++index) {
    Attribute given = getArgAttr(index, kRowCountAttr);
    auto count = dyn_cast_or_null<IntegerAttr>(given);
    bool isIndex = count && count.getValue().ult(getNumArguments()) &&
                   getArgumentTypes()[count.getValue().getZExtValue()].isIndex();
    if (given && !isIndex) // (C3)
      return emitOpError("expected ") << kRowCountAttr << " of argument " << index
                                      << " to be the number of an index argument below "
                                      << getNumArguments() << ", got " << given;
  }
  return success();
}

LogicalResult ProgramIdOp::verify() {
  if ((*this)->getParentOfType<KernelOp>()) // (C2)
    return success();
  return emitOpError("expected to stand in a tile.kernel");
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

LogicalResult LoadOp::verify() {
  return verifyDense(*this, getView().getType(), getResult().getType(), getOffsets().size());
}

LogicalResult LoadRowsOp::verify() {
  if (getView().getType().getRank() == 3) // (C1)
    return verifyPaged(*this, getView().getType(), getResult().getType());
  if (failed(verifyRank(*this, "a view", getView().getType(), 2)) ||
      failed(verifyRank(*this, "a tile", getResult().getType(), 2)))
    return failure(); // (C1)
  return verifySameElement(*this, getView().getType(), getResult().getType());
}

LogicalResult LoadPagedOp::verify() {
  return verifyPaged(*this, getPool().getType(), getResult().getType());
}

LogicalResult LoadElementsOp::verify() {
  auto result = cast<RankedTensorType>(getResult().getType());
  int64_t indices = getIndices().size();
  if (failed(verifyRank(*this, "a view", getView().getType(), indices)))
    return failure(); // (C1)
  auto expected = RankedTensorType::get(result.getShape(), IntegerType::get(getContext(), 32));
  for (Value index : getIndices())
    if (index.getType() != expected) // (C1)
      return emitOpError("expected indices of type ") << expected << ", got " << index.getType();
  return verifySameElement(*this, getView().getType(), result); // (C2)
}

LogicalResult StoreOp::verify() {
  if (getTransposed() && cast<ShapedType>(getValue().getType()).getRank() != 2) // (C3)
    return emitOpError("expected a transposed tile of rank 2, got ") << getValue().getType();
  return verifyDense(*this, getView().getType(), getValue().getType(), getOffsets().size());
}

LogicalResult StoreSlotsOp::verify() {
  return verifyPaged(*this, getPool().getType(), getValue().getType());
}

//===----------------------------------------------------------------------===//
// Computation
//===----------------------------------------------------------------------===//

LogicalResult DotOp::verify() {
  auto lhs = cast<RankedTensorType>(getLhs().getType());
  auto rhs = cast<RankedTensorType>(getRhs().getType());
  auto acc = cast<RankedTensorType>(getAcc().getType());
  if (failed(verifyRank(*this, "lhs", lhs, 2)) || failed(verifyRank(*this, "rhs", rhs, 2)) ||
      failed(verifyRank(*this, "acc", acc, 2)))
    return failure();
  auto isCode = [](Type type) { return isa<Float8E4M3FNType>(type); };
  auto isKnown = [&](Type type) {
    return type.isBF16() || type.isF16() || type.isF32() || isCode(type);
  };
  Type element = lhs.getElementType(), other = rhs.getElementType();
  bool isOfCodes = isCode(element) || isCode(other);
  if (!isKnown(element) || !isKnown(other) || (element != other && !isOfCodes))
    return emitOpError("expected lhs and rhs of one element type out of bf16, f16, f32, "
                       "f8E4M3FN, or one of them f8E4M3FN, got ")
           << element << " and " << other; // (C1)
  if (isOfCodes && (getTransposeLhs() || !getTransposeRhs()))
    return emitOpError("expected 'transpose_rhs' and no 'transpose_lhs' of f8E4M3FN"); // (C1)
  int64_t lhsK = lhs.getDimSize(getTransposeLhs() ? 0 : 1);
  int64_t lhsM = lhs.getDimSize(getTransposeLhs() ? 1 : 0);
  int64_t rhsK = rhs.getDimSize(getTransposeRhs() ? 1 : 0);
  int64_t rhsN = rhs.getDimSize(getTransposeRhs() ? 0 : 1);
  if (lhsM == 0 || lhsK == 0 || rhsN == 0) // (C2)
    return emitOpError("expected rows, columns and a contraction width above 0, got ")
           << lhsM << ", " << rhsN << " and " << lhsK;
  if (lhsK != rhsK) // (C2)
    return emitOpError("expected equal contraction widths, got lhs ")
           << lhsK << " and rhs " << rhsK;
  if (!acc.getElementType().isF32() || acc.getDimSize(0) != lhsM || acc.getDimSize(1) != rhsN)
    return emitOpError("expected acc tensor<")
           << lhsM << "x" << rhsN << "xf32>, got " << acc; // (C2)
  return success();
}

LogicalResult ReduceOp::verify() {
  auto source = cast<RankedTensorType>(getSource().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  if (failed(verifyRank(*this, "source", source, 2)))
    return failure();
  auto expected =
      RankedTensorType::get({source.getDimSize(1 - getDim())}, Float32Type::get(getContext()));
  if (!source.getElementType().isF32() || result != expected) // (C1)
    return emitOpError("expected an f32 source and a result of type ")
           << expected << ", got " << source << " and " << result;
  return success();
}

LogicalResult SumGroupsOp::verify() {
  auto source = cast<RankedTensorType>(getSource().getType());
  if (source.getRank() != 1 || !source.getElementType().isF32()) // (C1)
    return emitOpError("expected a source [M] of f32, got ") << source;
  int64_t size = getSize();
  if (size < 2 || !llvm::isPowerOf2_64(size) || source.getDimSize(0) % size != 0) // (C2)
    return emitOpError("expected a power of two of at least 2 that divides ")
           << source.getDimSize(0) << ", got " << size;
  return success();
}

LogicalResult BroadcastOp::verify() {
  auto source = cast<RankedTensorType>(getSource().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  if (source.getRank() != 1 || result.getRank() != 2 ||
      source.getDimSize(0) != result.getDimSize(1 - getDim()) ||
      source.getElementType() != result.getElementType()) // (C1)
    return emitOpError("expected a source [")
           << (getDim() == 0 ? "N" : "M") << "] and a result [M, N] of one element type, got "
           << source << " and " << result;
  return success();
}

LogicalResult IotaOp::verify() {
  auto result = cast<RankedTensorType>(getResult().getType());
  if (!result.getElementType().isInteger(32) || getDim() >= result.getRank()) // (C1)
    return emitOpError("expected an i32 tile with a dimension ") << getDim() << ", got " << result;
  return success();
}

LogicalResult SplatOp::verify() {
  Type element = cast<RankedTensorType>(getResult().getType()).getElementType();
  if (getSource().getType() != element) // (C1)
    return emitOpError("expected a scalar of type ")
           << element << ", got " << getSource().getType();
  return success();
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

Type tile::getRowType(Type type) {
  auto tile = dyn_cast<RankedTensorType>(type);
  if (!tile || tile.getRank() != 2 || !tile.getElementType().isF32())
    return {};
  return RankedTensorType::get({tile.getDimSize(0)}, tile.getElementType());
}

static LogicalResult verifyQueries(AttendOp op) { // (C1)
  if (op.getQueries().empty() || op.getKeys().empty() ||
      (op.getQueries().size() != op.getKeys().size() && !op.hasParts()))
    return op.emitOpError("expected a view of keys for each of at least one tile of queries, got ")
           << op.getQueries().size() << " and " << op.getKeys().size();
  if (op.hasParts() && !op.isListed())
    return op.emitOpError("expected parts of keys to come by a list");
  for (Value query : op.getQueries()) {
    auto type = cast<RankedTensorType>(query.getType());
    if (type.getRank() != 2 || type.getDimSize(0) != op.getRows())
      return op.emitOpError("expected queries of ") << op.getRows() << " rows, got " << type;
    Type element = type.getElementType();
    if (element != cast<RankedTensorType>(op.getQueries()[0].getType()).getElementType() ||
        !(element.isBF16() || element.isF16() || element.isF32()))
      return op.emitOpError("expected queries of one element type out of bf16, f16, f32, got ")
             << type;
  }
  return success();
}

static LogicalResult verifyKeys(AttendOp op) { // (C2)
  bool isOfI32 =
      !op.isListed() || cast<MemRefType>(op.getList().getType()).getElementType().isInteger(32);
  if (op.isListed() && (op.isPaged() || !isOfI32))
    return op.emitOpError("expected a list of i32 and no table beside it, got ")
           << op.getList().getType() << (op.isPaged() ? " and a table" : "");
  bool areInPages = op.isPaged() || (op.isListed() && op.areKeysInPages());
  int64_t rank = areInPages ? 3 : 2, partsWidth = 0;
  int64_t pageSize = ShapedType::kDynamic;
  for (auto [index, keys] : llvm::enumerate(op.getKeys())) {
    auto type = cast<MemRefType>(keys.getType());
    if (type.getRank() != rank)
      return op.emitOpError("expected keys ")
             << (areInPages ? "[pages, page_size, W]" : "[rows, W]") << ", got " << type;
    if (areInPages && (type.isDynamicDim(1) || (index && type.getDimSize(1) != pageSize)))
      return op.emitOpError("expected one static page size (dimension 1), got ") << type;
    if (areInPages)
      pageSize = type.getDimSize(1);
    int64_t most = op.getWidth(op.hasParts() ? 0 : index);
    if (type.isDynamicDim(rank - 1) || type.getDimSize(rank - 1) > most)
      return op.emitOpError("expected keys of at most the ")
             << most << " columns of their queries, got " << type;
    partsWidth += type.getDimSize(rank - 1);
  }
  if (op.hasParts() && partsWidth != op.getWidth(0)) // (C1)
    return op.emitOpError("expected parts as wide as the queries together, ")
           << op.getWidth(0) << " columns, got " << partsWidth;
  return success();
}

/// Values of codes stand beside keys of codes, and have the second of the scales.
static LogicalResult verifyValueCodes(AttendOp op) { // (C3)
  auto scales = op.getScales() ? cast<MemRefType>(op.getScales().getType()) : MemRefType();
  bool hasOwn =
      scales && scales.getRank() == 1 && (scales.isDynamicDim(0) || scales.getDimSize(0) > 1);
  if (op.isPaged() && hasOwn)
    return success();
  InFlightDiagnostic diag =
      op.emitOpError("expected values of 8 bits to come in pages, beside keys "
                     "of 8 bits and f32 scales [n] of both, got ");
  return scales ? diag << scales : diag << "no scales";
}

static LogicalResult verifyValues(AttendOp op) { // (C3)
  if (!op.getValues()) {
    if (op.getValueTable())
      return op.emitOpError("expected no table of values, as values are columns of keys");
    if (op.getOutputWidth() == op.getWidth(0))
      return success();
    return op.emitOpError("expected an output as wide as the first queries, ")
           << op.getWidth(0) << " columns, as values are columns of keys; got "
           << op.getOutputWidth();
  }
  auto type = cast<MemRefType>(op.getValues().getType());
  if (op.isPaged() != static_cast<bool>(op.getValueTable()))
    return op.emitOpError("expected values to come in pages if the keys do, got ")
           << (op.isPaged() ? "no table of them" : "a table of them");
  int64_t rank = op.isPaged() ? 3 : 2;
  bool areRows = type.getRank() == rank && !type.isDynamicDim(rank - 1) &&
                 (!op.isPaged() || !type.isDynamicDim(1));
  bool areCodes = isa<Float8E4M3FNType>(type.getElementType());
  if (areRows && type.getDimSize(rank - 1) <= op.getOutputWidth() &&
      (areCodes || type.getElementType() == op.getElementType()))
    return areCodes ? verifyValueCodes(op) : success();
  return op.emitOpError("expected values ")
         << (op.isPaged() ? "[pages, page_size, V]" : "[rows, V]") << " of type "
         << op.getElementType() << ", V at most " << op.getOutputWidth() << ", got " << type;
}

static LogicalResult verifyScales(AttendOp op, bool hasCodes) { // (C4)
  if (hasCodes != static_cast<bool>(op.getScales()))
    return hasCodes ? op.emitOpError("expected scales for keys of 8 bits")
                    : op.emitOpError("expected no scales, as no keys have 8 bits");
  if (!hasCodes)
    return success();
  if (!op.isPaged() && !op.isListed())
    return op.emitOpError("expected keys of 8 bits to come in pages or by a list");
  auto type = cast<MemRefType>(op.getScales().getType());
  auto first = cast<MemRefType>(op.getKeys()[0].getType());
  int64_t groups = type.getShape().back(), width = first.getShape().back();
  bool isGrouped = type.getRank() > 1 && type.getRank() == first.getRank() &&
                   !ShapedType::isDynamic(groups) && width % groups == 0 &&
                   (first.getRank() == 2 || type.getDimSize(1) == first.getDimSize(1));
  bool isScale = type.getElementType().isF32() || type.getElementType().isInteger(8);
  if (type.getRank() == 1 ? type.getElementType().isF32() : isScale && isGrouped)
    return success();
  InFlightDiagnostic diag = op.emitOpError("expected f32 scales [n], or f32 or i8 ");
  if (first.getRank() == 2)
    diag << "[rows";
  else
    diag << "[pages, " << first.getDimSize(1);
  return diag << ", G] with G a divisor of " << width << ", got " << type;
}

static LogicalResult verifyStorage(AttendOp op) { // (C4)
  bool hasCodes = false;
  for (unsigned term = 0; term < op.getKeys().size(); ++term) {
    auto type = dyn_cast<FloatType>(op.getStorageType(term));
    bool isCode = type && type.getWidth() == 8;
    if (!type || (isCode && !isa<Float8E4M3FNType>(type)))
      return op.emitOpError("expected keys of floats, those of 8 bits f8E4M3FN, got ")
             << op.getKeys()[term].getType();
    hasCodes |= isCode;
  }
  return verifyScales(op, hasCodes);
}

static LogicalResult verifyRows(AttendOp op) {
  auto expected = RankedTensorType::get({op.getRows()}, IntegerType::get(op.getContext(), 32));
  bool hasEnd = op.getSeen() || op.getDiagonal();
  if (op.getBehind() && (!hasEnd || op.getBehind().getType() != expected)) // (C5)
    return op.emitOpError("expected behind of type ")
           << expected << (hasEnd ? "" : " beside sees or a diagonal") << ", got "
           << op.getBehind().getType();
  if (op.getSeen()) { // (C5)
    if (op.getSeen().getType() != expected || op.getDiagonal())
      return op.emitOpError("expected sees of type ")
             << expected << " and no diagonal beside it, got " << op.getSeen().getType();
  }
  auto group = static_cast<int64_t>(op.getGroup());
  if (group < 1 || (group != 1 && !op.getDiagonal())) // (C5)
    return op.emitOpError(
               "expected groups of at least one row, and of one without a diagonal, got ")
           << group;
  if (op.isListed() && (op.getSeen() || op.getDiagonal())) // (C5)
    return op.emitOpError(
        "expected neither sees nor a diagonal beside a list, whose keys have no order");
  if (op.getStart().empty() || op.getStart().getTypes() == op->getResultTypes()) // (C6)
    return success();
  return op.emitOpError("expected a start of the results' types ")
         << op->getResultTypes() << ", got " << op.getStart().getTypes();
}

static LogicalResult verifyMarks(AttendOp op) {
  if (!op.getMarks())
    return success();
  auto type = cast<MemRefType>(op.getMarks().getType());
  int64_t offset;
  SmallVector<int64_t> strides;
  bool areWords = type.getRank() == 2 && type.getElementType().isInteger(32) &&
                  succeeded(type.getStridesAndOffset(strides, offset)) && strides.back() == 1;
  if (!areWords) // (C8)
    return op.emitOpError("expected marks [rows, words] of i32 with a word stride of 1, got ")
           << type;
  if (op.isPaged() || op.isListed()) // (C8)
    return op.emitOpError("expected marks beside keys that are rows of views, got a ")
           << (op.isPaged() ? "table" : "list");
  if (auto block = static_cast<int64_t>(op.getBlock()); block % AttendOp::kWordKeys != 0) // (C8)
    return op.emitOpError("expected blocks of whole words of ")
           << AttendOp::kWordKeys << " keys, got " << block;
  return success();
}

LogicalResult AttendOp::verify() {
  if (failed(verifyQueries(*this)) || failed(verifyKeys(*this)) || failed(verifyValues(*this)) ||
      failed(verifyStorage(*this)) || failed(verifyRows(*this)) || failed(verifyMarks(*this)))
    return failure();
  int64_t block = getBlock(), unit = getUnit(); // (C7)
  if (block <= 0 || (unit != 1 && unit != block))
    return emitOpError("expected a positive block and a unit of 1 or a block, got ")
           << block << " and " << unit;
  double scale = getScale().convertToDouble(), lag = getLag().convertToDouble();
  if (!(scale > 0) || !getScale().isFinite())
    return emitOpError("expected a positive, finite scale, got ") << scale;
  if (!(lag >= 0 && lag <= kMaxLag))
    return emitOpError("expected a lag from 0 to ") << kMaxLag << ", got " << lag;
  if (getExact() && lag != 0)
    return emitOpError("expected no lag of an exact reference, got ") << lag;
  if (!getSoftcap().isFinite() || getSoftcap().isNegative())
    return emitOpError("expected a finite softcap that is not negative, got ")
           << getSoftcap().convertToDouble();
  return success();
}

#define GET_OP_CLASSES
#include "mla/Dialect/Tile/IR/TileOps.cpp.inc"
