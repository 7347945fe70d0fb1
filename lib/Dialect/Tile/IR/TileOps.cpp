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

#include "StepSizes.h"
#include "mla/Dialect/KernelOp.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
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
  if (op.isListed() && (op.getSeen() || op.getDiagonal())) // (C5)
    return op.emitOpError(
        "expected neither sees nor a diagonal beside a list, whose keys have no order");
  if (op.getStart().empty() || op.getStart().getTypes() == op->getResultTypes()) // (C6)
    return success();
  return op.emitOpError("expected a start of the results' types ")
         << op->getResultTypes() << ", got " << op.getStart().getTypes();
}

LogicalResult AttendOp::verify() {
  if (failed(verifyQueries(*this)) || failed(verifyKeys(*this)) || failed(verifyValues(*this)) ||
      failed(verifyStorage(*this)) || failed(verifyRows(*this)))
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

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

void PlanOp::build(OpBuilder &builder, OperationState &state, StringRef name, int64_t maxQueryLen) {
  state.addAttribute(getSymNameAttrName(state.name), builder.getStringAttr(name));
  state.addAttribute(getMaxQueryLenAttrName(state.name), builder.getI64IntegerAttr(maxQueryLen));
  state.addRegion()->emplaceBlock();
}

/// Only what the package can hold as data may stand in a plan.
static bool isPlanOp(Operation *op) {
  if (isa<DimOp, BufferOp, WorkspaceOp, WorkOp, SharedPrefixOp, LaunchOp, ForkOp, ReturnOp,
          scf::ForOp, scf::IfOp, scf::YieldOp>(op))
    return true;
  return isa<arith::ArithDialect>(op->getDialect());
}

/// Whom the runtime provides a size or metadata for; nothing for other operations.
static std::optional<mlac::step::Owner> ownerOf(Operation *op) {
  if (auto dim = dyn_cast<DimOp>(op))
    if (const auto *known = mlac::step::find(mlac::step::kDims, dim.getName()))
      return known->owner;
  if (auto buffer = dyn_cast<BufferOp>(op); buffer && buffer.getKind() == BufferKind::Metadata)
    if (const auto *known = mlac::step::find(mlac::step::kMetadata, buffer.getName()))
      return known->owner;
  return std::nullopt;
}

/// No sizes and metadata of what the plan lacks.
static LogicalResult verifyUnused(PlanOp plan, mlac::step::Owner owner, const Twine &missing) {
  WalkResult walk = plan.getBody().walk([&](Operation *op) {
    if (ownerOf(op) != owner)
      return WalkResult::advance();
    op->emitOpError("expected ") << missing << ", which provides '"
                                 << op->getAttrOfType<StringAttr>("name").getValue() << "'";
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

/// One partition for all kernels of a plan, and none that nobody asked for.
static LogicalResult verifyWork(PlanOp plan) {
  auto works = llvm::to_vector(plan.getBody().getOps<WorkOp>());
  if (works.size() > 1)
    return works[1].emitOpError("expected at most one in a tile.plan"); // (C4)
  if (!works.empty())
    return success();
  return verifyUnused(plan, mlac::step::Owner::Work, "a tile.work in the plan");
}

/// Sizes of decodes and prefills need the threshold that tells them apart, of the plan or of
/// the one whose decodes it takes.
static LogicalResult verifyParts(PlanOp plan) {
  Attribute given = plan->getAttr(kDecodeThresholdAttr);
  if (given || plan->hasAttr(kDecodesOfAttr))
    return success();
  return verifyUnused(plan, mlac::step::Owner::Parts, "a plan with " + kDecodeThresholdAttr);
}

/// One prefix, and no sizes of one that nobody asked for.
static LogicalResult verifySharedPrefix(PlanOp plan) {
  auto prefixes = llvm::to_vector(plan.getBody().getOps<SharedPrefixOp>());
  if (prefixes.size() > 1)
    return prefixes[1].emitOpError("expected at most one in a tile.plan"); // (C2)
  if (!prefixes.empty())
    return success();
  return verifyUnused(plan, mlac::step::Owner::Shared, "a tile.shared_prefix in the plan");
}

LogicalResult SharedPrefixOp::verify() {
  Operation *tokens = getTokens().getDefiningOp();
  if (tokens && tokens->getBlock() == (*this)->getBlock()) // (C1)
    return success();
  return emitOpError("expected tokens that are computed in the plan's own block");
}

/// Looks into ops of the body, so they come first.
LogicalResult PlanOp::verifyRegions() {
  if (!isa<ReturnOp>(getBody().front().back()))
    return emitOpError("expected a body that ends in tile.return");
  if (failed(verifyWork(*this)) || failed(verifyParts(*this)) || failed(verifySharedPrefix(*this)))
    return failure();
  WalkResult walk = getBody().walk([&](Operation *op) {
    if (!isPlanOp(op)) {
      op->emitOpError("is not allowed in a tile.plan");
      return WalkResult::interrupt();
    }
    if (isa<scf::ForOp, scf::IfOp>(op) && op->getNumResults() != 0) {
      op->emitOpError("expected no results inside a tile.plan, got ") << op->getNumResults();
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

static LogicalResult verifyMergeForms(WorkOp work) { // (C5)
  constexpr size_t kFields = 3, kMostForms = 3;
  ArrayRef<int64_t> forms = work.getMergeForms().value_or(ArrayRef<int64_t>());
  int64_t programs = work.getMergePrograms().value_or(0);
  if (!work.getMergeForms() && !work.getMergePrograms())
    return success();
  if (forms.empty() || forms.size() % kFields != 0 || forms.size() > kMostForms * kFields)
    return work.emitOpError("expected merge_forms of one to ")
           << kMostForms << " triples (pieces, rows, columns), got " << forms.size() << " numbers";
  for (int64_t value : forms)
    if (value < 1)
      return work.emitOpError("expected merge_forms of positive numbers, got ") << value;
  for (size_t i = kFields; i < forms.size(); i += kFields)
    if (forms[i] <= forms[i - kFields])
      return work.emitOpError("expected merge_forms in ascending order of pieces, got ")
             << forms[i] << " behind " << forms[i - kFields];
  if (programs < 1)
    return work.emitOpError("expected merge_programs of at least 1, got ") << programs;
  return success();
}

LogicalResult WorkOp::verify() {
  auto check = [&](StringRef name, int64_t value, int64_t least) -> LogicalResult {
    if (value >= least)
      return success();
    return emitOpError("expected ") << name << " of at least " << least << ", got " << value;
  };
  if (failed(check("keys_per_block", getKeysPerBlock(), 1)) || // (C1)
      failed(check("rows_per_token", getRowsPerToken(), 1)) ||
      failed(check("rows_per_tile", getRowsPerTile(), 1)) ||
      failed(check("runs_per_token", getRunsPerToken(), 1)) || // (C6)
      failed(check("fixed_blocks", getFixedBlocks(), 0)) ||    // (C3)
      failed(check("window", getWindow(), 0)))
    return failure();
  if (getRowsPerToken() % getRunsPerToken() != 0) // (C6)
    return emitOpError("expected runs_per_token to divide the ")
           << getRowsPerToken() << " rows of a token, got " << getRunsPerToken();
  for (auto [name, cost] : {std::pair("item_cost", getItemCost()),
                            {"merge_cost", getMergeCost()},
                            {"partial_cost", getPartialCost()}})
    if (!cost.isFinite() || cost.isNegative()) // (C2)
      return emitOpError("expected a finite ")
             << name << " that is not negative, got " << cost.convertToDouble();
  return verifyMergeForms(*this);
}

/// The runtime provides the name; a pool in front of it, where each pool has one.
template <typename Op, typename Enum, typename Info, size_t N, size_t M>
static LogicalResult verifyName(Op op, StringRef what, const Info (&table)[N],
                                const Enum (&ofPools)[M]) {
  auto [pool, name] = mlac::step::splitName(op.getName());
  const Info *known = mlac::step::find(table, name);
  bool isOfPool = known && mlac::step::isOfPool(ofPools, static_cast<Enum>(known - table));
  if (known && !pool.empty() && !isOfPool)
    return op.emitOpError() << what << " '" << StringRef(name)
                            << "' is of the whole step, not of a pool, got '" << op.getName()
                            << "'";
  if (known)
    return success();
  InFlightDiagnostic diag = op.emitOpError("unknown ")
                            << what << " '" << op.getName() << "', expected one of: ";
  llvm::interleaveComma(table, diag, [&](const Info &known) { diag << known.name; });
  return diag;
}

LogicalResult DimOp::verify() {
  return verifyName(*this, "dim", mlac::step::kDims, mlac::step::kPoolDims); // (C1)
}

LogicalResult BufferOp::verify() {
  if (getElements() && getKind() != BufferKind::Input && getKind() != BufferKind::Output) // (C4)
    return emitOpError("expected elements of an input or an output, got those of ")
           << stringifyBufferKind(getKind()) << " '" << getName() << "'";
  if (getKind() != BufferKind::Metadata)
    return success();
  if (failed(verifyName(*this, "metadata", mlac::step::kMetadata,
                        mlac::step::kPoolMetadata))) // (C1)
    return failure();
  Type element = cast<MemRefType>(getType()).getElementType();
  unsigned bits =
      mlac::step::find(mlac::step::kMetadata, mlac::step::splitName(getName()).name)->bits;
  if (element.isInteger(bits)) // (C2)
    return success();
  return emitOpError("expected '") << getName() << "' of type i" << bits << ", got " << element;
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel = symbols.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("expected a tile.kernel named ") << getKernelAttr();
  TypeRange expected = kernel.getArgumentTypes();
  TypeRange got = getArgs().getTypes();
  if (expected != got)
    return emitOpError("expected arguments (") << expected << "), got (" << got << ")"; // (C1)
  if (getDependent() && !kernel->hasAttr(kWaitsForDependencyAttr))                      // (C2)
    return emitOpError("expected a dependent launch's kernel to have tile.waits_for_dependency, ")
           << getKernelAttr() << " has not";
  return success();
}

#define GET_OP_CLASSES
#include "mla/Dialect/Tile/IR/TileOps.cpp.inc"
