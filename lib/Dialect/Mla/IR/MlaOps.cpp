//===- MlaOps.cpp - verifiers of mla operations ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Check numbers (C1) ... are those of the op descriptions in MlaOps.td.
//
//===----------------------------------------------------------------------===//

#include "CacheFormats.h"
#include "ShapeCheck.h"

#include "StepSizes.h"
#include "mla/Dialect/Mla/IR/WeightScales.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace mlir::mla;

//===----------------------------------------------------------------------===//
// Projections
//===----------------------------------------------------------------------===//

/// Checks that a result has its input's element type, or f32.
static LogicalResult verifyResultElement(Operation *op, ShapeCheck &check, Value input,
                                         Value result) {
  if (getElementTypeOrSelf(result).isF32())
    return success();
  return check.sameElement("input", input, "result", result);
}

LogicalResult RmsNormOp::verify() {
  ShapeCheck check(*this);
  SmallVector<StringRef, 3> row{"T", "L"};
  if (getTensorType(getInput()).getRank() == 3)
    row.insert(row.begin() + 1, "N");
  if (failed(check.match("input", getInput(), row)) || // (C1)
      (getGamma() && failed(check.match("gamma", getGamma(), {"L"}))) ||
      failed(check.match("result", getResult(), row)) ||
      (getGamma() && failed(check.sameElement("input", getInput(), "gamma", getGamma()))) ||
      failed(verifyResultElement(*this, check, getInput(), getResult())))
    return failure();
  return verifyPositive(*this, "eps", getEps()); // (C2)
}

LogicalResult ProjectOp::verify() {
  RankedTensorType input = getTensorType(getInput());
  RankedTensorType weight = getTensorType(getWeight());
  ShapeCheck check(*this);
  if (input.getRank() != 2 && input.getRank() != 3) // (C1)
    return emitOpError("expected input to be [T, I] or [T, N, K], got ") << input;
  if (weight.getRank() != 2 && weight.getRank() != 3)
    return emitOpError("expected weight to be [O, I] or [N, J, I], got ") << weight;
  ArrayRef<int64_t> row = input.getShape().drop_front();
  if (llvm::none_of(row, ShapedType::isDynamic))
    check.bind("I", llvm::product_of(row), "input's rows");
  check.bind("T", input.getDimSize(0), "input");
  bool perHead = weight.getRank() == 3;
  if (perHead ? failed(check.match("weight", getWeight(), {"N", "J", "I"}))
              : failed(check.match("weight", getWeight(), {"O", "I"})))
    return failure();
  if (perHead ? failed(check.match("result", getResult(), {"T", "N", "J"})) // (C2)
              : failed(check.match("result", getResult(), {"T", "O"})))
    return failure();
  if (failed(check.sameElement("input", getInput(), "weight",
                               getWeight())) || // (C3)
      failed(verifyResultElement(*this, check, getInput(), getResult())))
    return failure();
  bool isWidened = getElementTypeOrSelf(getResult()).isF32() && weight.getRank() == 2;
  if (getRounded() && (getBias() || !isWidened)) // (C5)
    return emitOpError("expected rows [T, O] of f32 and no bias of rounded sums, got ")
           << getResult().getType() << (getBias() ? " with a bias" : "");
  if (!getBias())
    return success();
  if (perHead) // (C4)
    return emitOpError("expected weight of rank 2 beside a bias, got ") << weight;
  if (failed(check.match("bias", getBias(), {"O"})))
    return failure();
  return check.sameElement("input", getInput(), "bias", getBias());
}

/// Groups of columns that share a scale.
static LogicalResult verifyCodesGroup(Operation *op, int64_t group, int64_t width) {
  if (group > 0 && (ShapedType::isDynamic(width) || width % group == 0))
    return success();
  return op->emitOpError("expected a group above 0 that divides ")
         << width << " columns, got " << group;
}

LogicalResult LatentProjectOp::verify() {
  ShapeCheck check(*this);
  if (failed(check.match("input", getInput(), {"T", "I"})) || // (C1)
      failed(check.match("gamma", getGamma(), {"L"})) ||
      failed(check.match("weight", getWeight(), {"L + R", "I"})) ||
      failed(check.match("latent", getLatent(), {"T", "L"})))
    return failure();
  int64_t rows = getTensorType(getWeight()).getDimSize(0);
  int64_t rank = getTensorType(getGamma()).getDimSize(0);
  if (!ShapedType::isDynamic(rows) && !ShapedType::isDynamic(rank)) {
    if (rows < rank)
      return emitOpError("expected weight to have at least gamma's ")
             << rank << " rows, got " << rows;
    check.bind("R", rows - rank, "weight and gamma");
  }
  if (failed(check.presentIff("tail", getTail(), "R")))
    return failure();
  if (getTail() && failed(check.match("tail", getTail(), {"T", "R"})))
    return failure();
  for (auto [name, value] : {std::pair<StringRef, Value>("weight", getWeight()), // (C2)
                             {"gamma", getGamma()},
                             {"bias", getBias()},
                             {"latent", getLatent()},
                             {"tail", getTail()}})
    if (value && failed(check.sameElement("input", getInput(), name, value)))
      return failure();
  if (failed(verifyPositive(*this, "eps", getEps()))) // (C3)
    return failure();
  if (getBias() && failed(check.match("bias", getBias(), {"L + R"}))) // (C4)
    return failure();
  return getCodesGroup() ? verifyCodesGroup(*this, *getCodesGroup(), rank) : success(); // (C5)
}

LogicalResult CodedRowsOp::verify() {
  RankedTensorType type = getTensorType(getInput());
  bool isRows = type.getRank() == 2 || type.getRank() == 3;
  if (!isRows || llvm::any_of(type.getShape().drop_front(), ShapedType::isDynamic)) // (C1)
    return emitOpError("expected input [T, I] or [T, N, K] with static I, N and K, got ") << type;
  int64_t width = 1;
  for (int64_t size : type.getShape().drop_front())
    width *= size;
  return verifyCodesGroup(*this, getGroup(), width); // (C2)
}

LogicalResult HeadProjectOp::verify() {
  ShapeCheck check(*this);
  if (failed(check.match("input", getInput(), {"T", "N", "K"}))) // (C1)
    return failure();
  if (getContractRows() ? failed(check.match("weight", getWeight(), {"N", "K", "J"}))
                        : failed(check.match("weight", getWeight(), {"N", "J", "K"})))
    return failure();
  if (failed(check.match("result", getResult(), {"T", "N", "J"})) ||
      failed(check.sameElement("input", getInput(), "weight",
                               getWeight()))) // (C2)
    return failure();
  return check.sameElement("input", getInput(), "result", getResult());
}

/// One scale for each block of codes of static shape.
static LogicalResult verifyScales(Operation *op, Attribute blockAttr, RankedTensorType codes,
                                  Value scales) {
  if (!isScaleBlock(blockAttr))
    return op->emitOpError("expected block to be two numbers of at least 0, got ") << blockAttr;
  SmallVector<int64_t, 2> grid;
  for (auto [size, step] :
       llvm::zip_equal(codes.getShape(), cast<DenseI64ArrayAttr>(blockAttr).asArrayRef()))
    grid.push_back(step == 0 ? 1 : llvm::divideCeil(size, step));
  if (getTensorType(scales).getShape() != ArrayRef<int64_t>(grid))
    return op->emitOpError("expected scales ")
           << RankedTensorType::get(grid, Float32Type::get(op->getContext())) << " of blocks "
           << blockAttr << ", got " << getTensorType(scales);
  return success();
}

LogicalResult ScaledWeightOp::verify() {
  ShapeCheck check(*this);
  if (failed(check.match("codes", getCodes(), {"O", "I"})) || // (C1)
      failed(check.match("result", getResult(), {"O", "I"})))
    return failure();
  RankedTensorType codes = getTensorType(getCodes());
  if (!codes.hasStaticShape())
    return emitOpError("expected codes of static shape, got ") << codes;
  return verifyScales(*this, getBlockAttr(), codes, getScales()); // (C2)
}

LogicalResult RequantizeOp::verify() {
  RankedTensorType weight = getTensorType(getWeight());
  ArrayRef<int64_t> shape = weight.getShape();
  bool isHeads = shape.size() == 3;
  if (weight.getNumDynamicDims() || llvm::is_contained(shape, 0) ||
      (!isHeads && (shape.size() != 2 || getTransposed()))) // (C1)
    return emitOpError("expected a weight [O, I], [N, J, I] or, transposed, [N, I, J], of static "
                       "shape, got ")
           << weight;
  int64_t depth = shape[getTransposed() ? 1 : shape.size() - 1];
  SmallVector<int64_t, 2> matrix = {weight.getNumElements() / depth, depth};
  RankedTensorType codes = getTensorType(getCodes());
  if (codes.getShape() != ArrayRef<int64_t>(matrix))
    return emitOpError("expected codes ")
           << codes.clone(matrix) << " of " << weight << ", got " << codes;
  return verifyScales(*this, getBlockAttr(), codes, getScales()); // (C2)
}

LogicalResult FoldQueryOp::verify() {
  ShapeCheck check(*this);
  if (failed(check.match("w_uq", getWUq(), {"N", "P", "Lq"})) || // (C1)
      failed(check.match("w_uk", getWUk(), {"N", "P", "Lkv"})) ||
      failed(check.match("result", getResult(), {"N", "Lkv", "Lq"})) ||
      failed(check.sameElement("w_uq", getWUq(), "w_uk", getWUk()))) // (C2)
    return failure();
  return check.sameElement("w_uq", getWUq(), "result", getResult());
}

LogicalResult FoldOutputOp::verify() {
  ShapeCheck check(*this);
  if (failed(check.match("w_uv", getWUv(), {"N", "V", "Lkv"}))) // (C1)
    return failure();
  RankedTensorType up = getTensorType(getWUv());
  if (up.hasStaticShape()) {
    check.bind("N * V", up.getDimSize(0) * up.getDimSize(1), "w_uv");
    check.bind("N * Lkv", up.getDimSize(0) * up.getDimSize(2), "w_uv");
  }
  if (failed(check.match("w_o", getWO(), {"H", "N * V"})) ||
      failed(check.match("result", getResult(), {"H", "N * Lkv"})) ||
      failed(check.sameElement("w_uv", getWUv(), "w_o", getWO()))) // (C2)
    return failure();
  return check.sameElement("w_uv", getWUv(), "result", getResult());
}

//===----------------------------------------------------------------------===//
// RoPE
//===----------------------------------------------------------------------===//

LogicalResult RopeTableOp::verify() {
  ShapeCheck check(*this);
  check.bind("length", getRope().getLength(), "rope");
  check.bind("R", getRope().getDim(), "rope");
  return check.match("result", getResult(), {"length", "R"}); // (C1)
}

LogicalResult RopeOp::verify() {
  ShapeCheck check(*this);
  check.bind("R", getRope().getDim(), "rope");
  bool perHead = getTensorType(getInput()).getRank() == 3;
  StringRef width = getOffset() ? "D" : "R";
  if (perHead ? failed(check.match("input", getInput(), {"T", "N", width})) // (C1)
              : failed(check.match("input", getInput(), {"T", width})))
    return failure();
  int64_t offset = getOffset().value_or(0), columns = getTensorType(getInput()).getShape().back();
  if (getOffset() && (offset < 0 || ShapedType::isDynamic(columns) ||
                      offset > columns - getRope().getDim())) // (C1)
    return emitOpError("expected an offset of at least 0 with ")
           << getRope().getDim() << " channels behind it, got " << offset << " in "
           << getInput().getType();
  RankedTensorType input = getTensorType(getInput()), result = getTensorType(getResult());
  bool isRounded = input.getElementType().isF32() || // (C3)
                   input.getElementType() == result.getElementType();
  if (!isRounded || input.getShape() != result.getShape())
    return emitOpError("expected a result of the input's shape and element type, or of an input of "
                       "f32, got ")
           << result << " of " << input;
  if (static_cast<int64_t>(getEvery()) < 1) // (C4)
    return emitOpError("expected every > 0, got ") << static_cast<int64_t>(getEvery());
  if (std::optional<int64_t> group = getCodesGroup()) { // (C5)
    if (!perHead)
      return emitOpError("expected rows of heads [T, N, D] to become codes, got ") << input;
    if (failed(verifyCodesGroup(*this, *group, columns)))
      return failure();
  }
  return verifyAngles(*this, check, getRope(), getTable()); // (C2)
}

/// The type of a result, which is said only where it is not the input's.
static ParseResult parseResultLike(OpAsmParser &parser, Type &result, Type input) {
  result = input;
  return succeeded(parser.parseOptionalArrow()) ? parser.parseType(result) : success();
}

static void printResultLike(OpAsmPrinter &printer, Operation *, Type result, Type input) {
  if (result != input)
    printer << " -> " << result;
}

//===----------------------------------------------------------------------===//
// Cache
//===----------------------------------------------------------------------===//

LogicalResult AppendOp::verify() {
  CacheType cache = getCache().getType();
  if (failed(verifyCacheRows(*this, "T", cache, getRows()))) // (C1)
    return failure();
  for (auto [field, row] : llvm::zip_equal(cache.getFields(), getRows())) {
    if (field.part == mlac::cache::Part::Index &&
        failed(verifyIndexRotations(*this, "the key", row, cache))) // (C2)
      return failure();
    auto rope = row.getDefiningOp<RopeOp>();
    if (field.part == mlac::cache::Part::Rope && rope &&
        rope.getRope().getOrder() != cache.getRopeOrder()) // (C2)
      return emitOpError("expected the rope key in the cache's rope order ")
             << stringifyRopeOrder(cache.getRopeOrder()) << ", got "
             << stringifyRopeOrder(rope.getRope().getOrder());
  }
  return success();
}

LogicalResult AppendOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                         ValueRange operands, DictionaryAttr, OpaqueProperties,
                                         RegionRange, SmallVectorImpl<Type> &types) {
  return inferCache(operands, types);
}

LogicalResult GatherOp::verify() {
  CacheType cache = getCache().getType();
  if (!cache.keepsAllTokens()) // (C2)
    return emitOpError("expected a cache with a row of every token, got tokens_per_row = ")
           << cache.getTokensPerRow() << ", window = " << cache.getWindow();
  if (mlac::cache::isPacked(cache.getLayout())) // (C3)
    return emitOpError("expected a cache of whole bytes for each column, got ") << cache;
  return verifyCacheRows(*this, "S", cache, getRows()); // (C1)
}

//===----------------------------------------------------------------------===//
// Quantisation
//===----------------------------------------------------------------------===//

/// Checks rows [T, L] or [T, N, L] against their scales per group.
static LogicalResult verifyGroups(Operation *op, ShapeCheck &check, Value rows, Value scales,
                                  int64_t group) {
  int64_t width = getTensorType(rows).getShape().back();
  bool isStatic = !ShapedType::isDynamic(width);
  if (group <= 0 || (isStatic && width % group != 0)) // (C1)
    return op->emitOpError("expected group to be above 0 and to divide L, got ")
           << group << " for " << rows.getType();
  if (isStatic)
    check.bind("L / group", width / group, "group");
  return getTensorType(rows).getRank() == 3 ? check.match("scales", scales, {"T", "N", "L / group"})
                                            : check.match("scales", scales, {"T", "L / group"});
}

LogicalResult QuantizeOp::verify() {
  ShapeCheck check(*this);
  SmallVector<StringRef, 3> row{"T", "L"};
  if (getTensorType(getInput()).getRank() == 3)
    row.insert(row.begin() + 1, "N");
  if (failed(check.match("input", getInput(), row)) ||
      failed(check.match("quantized", getQuantized(), row)) ||
      failed(verifyGroups(*this, check, getInput(), getScales(), getGroup())))
    return failure();
  double amaxFloor = getAmaxFloor().convertToDouble();
  if (!(amaxFloor >= 0 && amaxFloor <= std::numeric_limits<float>::max())) // (C2)
    return emitOpError("expected amax_floor to be a finite f32 of at least 0, got ") << amaxFloor;
  return verifyPositive(*this, "scale_floor", getScaleFloor()); // (C2)
}

LogicalResult DequantizeOp::verify() {
  ShapeCheck check(*this);
  if (failed(check.match("quantized", getQuantized(), {"T", "L"})) ||
      failed(check.match("result", getResult(), {"T", "L"})))
    return failure();
  return verifyGroups(*this, check, getQuantized(), getScales(), getGroup());
}

//===----------------------------------------------------------------------===//
// Batch
//===----------------------------------------------------------------------===//

LogicalResult BatchDimOp::verify() {
  namespace step = mlac::step;
  const step::DimInfo *known = step::find(step::kDims, getName());
  if (known && known->level == step::Level::Graph) // (C1)
    return success();
  InFlightDiagnostic diagnostic = emitOpError("expected one of ");
  auto names = llvm::make_filter_range(
      step::kDims, [](const step::DimInfo &dim) { return dim.level == step::Level::Graph; });
  llvm::interleaveComma(names, diagnostic,
                        [&](const step::DimInfo &dim) { diagnostic << dim.name; });
  return diagnostic << ", got '" << getName() << "'";
}

LogicalResult BatchPartOp::verify() {
  // Not every function of a test has one; a step that splits its batch does.
  auto function = (*this)->getParentOfType<FunctionOpInterface>();
  auto threshold =
      function ? function->getAttrOfType<IntegerAttr>(kDecodeThresholdAttr) : IntegerAttr();
  if (!threshold || threshold.getInt() < 1) // (C1)
    return emitOpError("expected a function with a positive ") << kDecodeThresholdAttr;
  BatchType batch = getBatch().getType(), part = getType();
  auto argument = dyn_cast<BlockArgument>(getBatch());
  if (!argument || argument.getOwner() != &function.getFunctionBody().front() ||
      batch.hasStaticQueryLen()) // (C2)
    return emitOpError("expected an argument of the function with a dynamic query_len, got ")
           << batch;
  bool isOneToken = getPart() == BatchPart::Decodes && threshold.getInt() == 1;
  bool isKnown = !part.hasStaticQueryLen() || (isOneToken && part.getQueryLen() == 1);
  if (isKnown && part.getContextLen() == batch.getContextLen()) // (C3)
    return success();
  return emitOpError("expected ") << (isOneToken ? "query_len = 1 or ?" : "query_len = ?")
                                  << " and the batch's context_len, got " << part;
}

SharePrefixOp SharePrefixOp::ofShared(Value batch) {
  auto op = batch.getDefiningOp<SharePrefixOp>();
  return op && batch == op.getShared() ? op : SharePrefixOp();
}

SharePrefixOp SharePrefixOp::ofOwn(Value batch) {
  auto op = batch.getDefiningOp<SharePrefixOp>();
  return op && batch == op.getOwn() ? op : SharePrefixOp();
}

LogicalResult SharePrefixOp::verify() {
  auto function = (*this)->getParentOfType<FunctionOpInterface>();
  bool isSplit = function && function->hasAttr(kDecodeThresholdAttr);
  auto part = getBatch().getDefiningOp<BatchPartOp>();
  bool isDecodes = part && part.getPart() == BatchPart::Decodes;
  if (isSplit ? !isDecodes : !isa<BlockArgument>(getBatch())) // (C1)
    return emitOpError("expected the ")
           << (isSplit ? "decodes of the split batch" : "batch of the function");
  BatchType shared = getShared().getType();
  if (shared.hasStaticQueryLen() || shared.hasStaticContextLen() ||
      getOwn().getType() != getBatch().getType()) // (C2)
    return emitOpError("expected a shared part with query_len = ? and own parts of type ")
           << getBatch().getType() << ", got " << shared << " and " << getOwn().getType();
  WalkResult walk = function ? function->walk([&](SharePrefixOp other) {
    return other == *this ? WalkResult::advance() : WalkResult::interrupt();
  })
                             : WalkResult::advance();
  if (walk.wasInterrupted()) // (C3)
    return emitOpError("expected at most one in a function");
  return success();
}

/// Checks that a size that depends on the batch is dynamic.
static LogicalResult verifyDynamicRows(Operation *op, RankedTensorType type) {
  if (type.getRank() > 0 && type.isDynamicDim(0))
    return success();
  return op->emitOpError("expected a dynamic first size, got ") << type;
}

LogicalResult KeepRowsOp::verify() {
  RankedTensorType type = getTensorType(getInput());
  if (type.getRank() == 2 && type.isDynamicDim(0) && !type.isDynamicDim(1)) // (C1)
    return success();
  return emitOpError("expected rows of a static size, got ") << type;
}

LogicalResult CopyPagesOp::verify() {
  CacheType type = getFrom().getType();
  int64_t bytes = type.getPageSize() * type.getRowBytes();
  if (bytes % mlac::cache::kPoolAlignment == 0) // (C1)
    return success();
  return emitOpError("expected pages of a multiple of ")
         << mlac::cache::kPoolAlignment << " bytes, got " << bytes;
}

LogicalResult ConvertIndicesOp::verify() {
  RankedTensorType type = getTensorType(getPositions());
  if (type.getRank() != 2 || type.isDynamicDim(1)) // (C1)
    return emitOpError("expected positions [T, K] of a static K, got ") << type;
  if (!getPrefillRequests() != !getWorkspaceStarts()) // (C2)
    return emitOpError("expected prefill_requests and workspace_starts together");
  if (getPrefillRequests() && getWorkspace()) // (C2)
    return emitOpError("expected no prefill_requests beside workspace: the step has them");
  for (auto [name, value] : {std::pair<StringRef, Value>("prefill_requests", getPrefillRequests()),
                             {"workspace_starts", getWorkspaceStarts()}})
    if (value && getTensorType(value).getRank() != 1) // (C2)
      return emitOpError("expected ") << name << " of rank 1, got " << value.getType();
  return success();
}

LogicalResult PartRowsOp::verify() {
  if (!getPart().getDefiningOp<BatchPartOp>()) // (C2)
    return emitOpError("expected a mla.batch_part, got ") << getPart();
  return verifyDynamicRows(*this, getTensorType(getInput())); // (C1)
}

LogicalResult JoinPartsOp::verify() {
  Operation *decodes = getDecodes().getDefiningOp(), *prefills = getPrefills().getDefiningOp();
  auto isHere = [&](Value value, Operation *op) {
    return op && op->getBlock() == (*this)->getBlock() && value.hasOneUse();
  };
  if (!isHere(getDecodes(), decodes) || !isHere(getPrefills(), prefills) ||
      !prefills->isBeforeInBlock(decodes)) // (C2)
    return emitOpError("expected decodes computed behind prefills, both here and for this only");
  return verifyDynamicRows(*this, getTensorType(getResult())); // (C1)
}

#define GET_OP_CLASSES
#include "mla/Dialect/Mla/IR/MlaOps.cpp.inc"
