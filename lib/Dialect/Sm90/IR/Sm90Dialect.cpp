//===- Sm90Dialect.cpp - registration, types and encodings ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//

#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"
#include "mla/Dialect/Sm90/IR/Sm90CodeOps.h"

#include "mla/Dialect/KernelAttrs.h"
#include "mla/Dialect/Sm90/Utils/Layout.h"
#include "mla/Dialect/VerifyAttrs.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::sm90;

#include "mla/Dialect/Sm90/IR/Sm90Dialect.cpp.inc"
#include "mla/Dialect/Sm90/IR/Sm90Enums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "mla/Dialect/Sm90/IR/Sm90Attrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "mla/Dialect/Sm90/IR/Sm90Types.cpp.inc"

void Sm90Dialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "mla/Dialect/Sm90/IR/Sm90Attrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "mla/Dialect/Sm90/IR/Sm90Types.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "mla/Dialect/Sm90/IR/Sm90Ops.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "mla/Dialect/Sm90/IR/Sm90CodeOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Shared tiles
//===----------------------------------------------------------------------===//

/// Alignment of a linear tile: a vector of 16 bytes.
static constexpr int64_t kLinearAlignment = 16;

Type SmemType::parse(AsmParser &parser) {
  SmallVector<int64_t> shape;
  Type elementType;
  SmemLayout layout = SmemLayout::Swizzle128;
  if (parser.parseLess() || parser.parseDimensionList(shape, /*allowDynamic=*/false) ||
      parser.parseType(elementType))
    return {};
  if (succeeded(parser.parseOptionalComma())) {
    FailureOr<SmemLayout> parsed = FieldParser<SmemLayout>::parse(parser);
    if (failed(parsed))
      return {};
    layout = *parsed;
  }
  if (parser.parseGreater())
    return {};
  return parser.getChecked<SmemType>(parser.getContext(), shape, elementType, layout);
}

void SmemType::print(AsmPrinter &printer) const {
  printer << "<";
  printer.printDimensionList(getShape());
  printer << "x" << getElementType();
  if (getLayout() != SmemLayout::Swizzle128)
    printer << ", " << stringifySmemLayout(getLayout());
  printer << ">";
}

/// What lies in panels: operands of products, and codes of 8 bits.
static bool isPanelElement(Type type) {
  return type.isBF16() || type.isF16() || isa<Float8E4M3FNType>(type);
}

int64_t sm90::getWgmmaDepth(Type element) {
  return kWgmmaDepth * 16 / element.getIntOrFloatBitWidth();
}

int64_t sm90::getPanelColumns(Type element) {
  return kPanelRowBytes * 8 / element.getIntOrFloatBitWidth();
}

LogicalResult SmemType::verify(function_ref<InFlightDiagnostic()> emitError,
                               ArrayRef<int64_t> shape, Type elementType, SmemLayout layout) {
  if (shape.size() != 2 || shape[0] <= 0 || shape[1] <= 0) // (C2)
    return emitError() << "expected a shared tile of two positive dimensions, got [" << shape
                       << "]";
  if (!elementType.isIntOrFloat() || elementType.getIntOrFloatBitWidth() % 8 != 0)
    return emitError() << "expected an element type of whole bytes, got " << elementType;
  if (layout != SmemLayout::Swizzle128)
    return success();
  if (!isPanelElement(elementType)) // (C1)
    return emitError() << "expected bf16, f16 or f8E4M3FN elements in a swizzle128 tile, got "
                       << elementType;
  if (shape[0] % kSwizzleRows != 0) // (C1)
    return emitError() << "expected the rows of a swizzle128 tile to be a multiple of "
                       << kSwizzleRows << ", got " << shape[0];
  return success();
}

int64_t SmemType::getPanelColumns() const { return sm90::getPanelColumns(getElementType()); }

int64_t SmemType::getPanels() const { return llvm::divideCeil(getColumns(), getPanelColumns()); }

int64_t SmemType::getPanelBytes() const { return getRows() * kPanelRowBytes; }

int64_t SmemType::getByteSize() const {
  if (getLayout() == SmemLayout::Swizzle128)
    return getPanels() * getPanelBytes();
  return getRows() * getColumns() * (getElementType().getIntOrFloatBitWidth() / 8);
}

int64_t SmemType::getAlignment() const {
  return getLayout() == SmemLayout::Swizzle128 ? kSwizzleAtomBytes : kLinearAlignment;
}

//===----------------------------------------------------------------------===//
// Rings and tensor maps
//===----------------------------------------------------------------------===//

LogicalResult RingType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t stages,
                               int64_t parts, ArrayRef<SmemType> tiles) {
  if (stages >= 1 && parts >= 1) // (C1)
    return success();
  return emitError() << "expected at least one stage and one part, got " << stages << " and "
                     << parts;
}

int64_t RingType::getTileOffset(unsigned index) const {
  int64_t offset = 0;
  for (SmemType tile : getTiles().take_front(index))
    offset = llvm::alignTo(offset, tile.getAlignment()) + tile.getByteSize();
  return llvm::alignTo(offset, getTiles()[index].getAlignment());
}

int64_t RingType::getStageBytes() const {
  if (getTiles().empty())
    return 0;
  unsigned last = getTiles().size() - 1;
  return llvm::alignTo(getTileOffset(last) + getTiles()[last].getByteSize(), getAlignment());
}

int64_t RingType::getAlignment() const {
  int64_t alignment = 1;
  for (SmemType tile : getTiles())
    alignment = std::max(alignment, tile.getAlignment());
  return alignment;
}

int64_t TensorMapType::getPanelColumns() const { return sm90::getPanelColumns(getElementType()); }

int64_t TensorMapType::getPanels() const {
  return llvm::divideCeil(getColumns(), getPanelColumns());
}

int64_t TensorMapType::countBytes(SmemType target) const {
  int64_t boxBytes = getRows() * getColumns() * (getElementType().getIntOrFloatBitWidth() / 8);
  return target.getPanels() / getPanels() * boxBytes;
}

Type TensorMapType::parse(AsmParser &parser) {
  SmallVector<int64_t> shape;
  Type elementType;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseDimensionList(shape, /*allowDynamic=*/false) ||
      parser.parseType(elementType) || parser.parseGreater())
    return {};
  if (shape.size() != 2) {
    parser.emitError(loc, "expected a box of two dimensions, got ") << shape.size();
    return {};
  }
  return parser.getChecked<TensorMapType>(parser.getContext(), shape[0], shape[1], elementType);
}

void TensorMapType::print(AsmPrinter &printer) const {
  printer << "<" << getRows() << "x" << getColumns() << "x" << getElementType() << ">";
}

LogicalResult TensorMapType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t rows,
                                    int64_t columns, Type elementType) {
  if (!isPanelElement(elementType)) // (C1)
    return emitError() << "expected bf16, f16 or f8E4M3FN elements in a tensor map, got "
                       << elementType;
  int64_t panel = sm90::getPanelColumns(elementType);
  int64_t part = kTmaAlignment * 8 / elementType.getIntOrFloatBitWidth();
  bool isWhole = columns > 0 && columns % (columns < panel ? part : panel) == 0;
  if (rows < 1 || rows > kMaxBoxRows || !isWhole) // (C1)
    return emitError() << "expected a box of 1 to " << kMaxBoxRows << " rows and a multiple of "
                       << panel << " columns, or below that of " << part << ", got " << rows
                       << " and " << columns;
  return success();
}

//===----------------------------------------------------------------------===//
// Encodings
//===----------------------------------------------------------------------===//

LogicalResult FragmentAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   int64_t columnSplit) {
  if (columnSplit >= 1) // (C1)
    return success();
  return emitError() << "expected a positive column_split, got " << columnSplit;
}

LogicalResult FragmentAttr::verifyEncoding(ArrayRef<int64_t> shape, Type elementType,
                                           function_ref<InFlightDiagnostic()> emitError) const {
  if (shape.size() != 2 || shape[0] != kTileRows) // (C1)
    return emitError() << "expected a fragment of " << kTileRows << " rows, got shape [" << shape
                       << "]";
  int64_t group = kColumnGroup * getColumnSplit();
  if (shape[1] <= 0 || shape[1] % group != 0) // (C1)
    return emitError() << "expected the columns of a fragment split over " << getColumnSplit()
                       << " warpgroups to be a multiple of " << group << ", got " << shape[1];
  return success();
}

LogicalResult RowsAttr::verifyEncoding(ArrayRef<int64_t> shape, Type elementType,
                                       function_ref<InFlightDiagnostic()> emitError) const {
  if (shape.size() == 1 && shape[0] == kTileRows) // (C1)
    return success();
  return emitError() << "expected a row vector of " << kTileRows << " elements, got shape ["
                     << shape << "]";
}

LogicalResult PartialAttr::verifyEncoding(ArrayRef<int64_t> shape, Type elementType,
                                          function_ref<InFlightDiagnostic()> emitError) const {
  if (shape.size() == 2 && shape[0] == kTileRows && shape[1] == kQuadLanes) // (C1)
    return success();
  return emitError() << "expected partial rows of shape [" << kTileRows << ", " << kQuadLanes
                     << "], got shape [" << shape << "]";
}

LogicalResult ColumnsAttr::verifyEncoding(ArrayRef<int64_t> shape, Type elementType,
                                          function_ref<InFlightDiagnostic()> emitError) const {
  if (shape.size() == 1 && shape[0] > 0 && shape[0] % kColumnGroup == 0) // (C1)
    return success();
  return emitError() << "expected a column vector whose length is a multiple of " << kColumnGroup
                     << ", got shape [" << shape << "]";
}

template <typename Encoding> static bool hasEncoding(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && isa_and_present<Encoding>(tensor.getEncoding());
}

bool mlir::sm90::isFragment(Type type) { return hasEncoding<FragmentAttr>(type); }
bool mlir::sm90::isRows(Type type) { return hasEncoding<RowsAttr>(type); }
bool mlir::sm90::isPartial(Type type) { return hasEncoding<PartialAttr>(type); }
bool mlir::sm90::isColumns(Type type) { return hasEncoding<ColumnsAttr>(type); }

int64_t mlir::sm90::getColumnSplit(Type fragment) {
  auto encoding = cast<RankedTensorType>(fragment).getEncoding();
  return cast<FragmentAttr>(encoding).getColumnSplit();
}

//===----------------------------------------------------------------------===//
// Attributes of other ops
//===----------------------------------------------------------------------===//

static bool isColumnRun(Attribute value) {
  auto run = dyn_cast<IntegerAttr>(value);
  return run && llvm::is_contained(kColumnRuns, run.getValue().getSExtValue());
}

static constexpr mlac::LentAttr kLentAttrs[] = {
    {kColumnRunAttr, mlac::AttrPlace::Op, "sm90.kernel", {"2, 4 or 8", isColumnRun}},
    {kAtLeastOnceAttr, mlac::AttrPlace::Op, "scf.for", mlac::kUnitContent},
    {kSpillBytesAttr, mlac::AttrPlace::Op, "sm90.kernel", mlac::kCountContent},
};

LogicalResult Sm90Dialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  return mlac::verifyLentAttr(op, attribute, mlac::AttrPlace::Op, kLentAttrs);
}
