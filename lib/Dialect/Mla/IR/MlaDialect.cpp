//===- MlaDialect.cpp - registration, types and attributes of the mla dialect ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Mla/IR/MlaDialect.h"

#include "CacheFormats.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::mla;

#include "mla/Dialect/Mla/IR/MlaDialect.cpp.inc"
#include "mla/Dialect/Mla/IR/MlaEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "mla/Dialect/Mla/IR/MlaAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "mla/Dialect/Mla/IR/MlaTypes.cpp.inc"

void MlaDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "mla/Dialect/Mla/IR/MlaAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "mla/Dialect/Mla/IR/MlaTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "mla/Dialect/Mla/IR/MlaOps.cpp.inc"
      >();
}

LogicalResult MlaDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() == kModelAttr && !isa<ModelAttr>(attribute.getValue()))
    return op->emitError("expected ")
           << kModelAttr << " to be a #mla.model, got " << attribute.getValue();
  return success();
}

//===----------------------------------------------------------------------===//
// Cache
//===----------------------------------------------------------------------===//

static LogicalResult verifyFormat(function_ref<InFlightDiagnostic()> emitError, StringRef name,
                                  int64_t latent, int64_t rope, Type element) {
  namespace cache = mlac::cache;
  const cache::Format *format = cache::findFormat(std::string_view(name));
  if (!format || !cache::hasKernels(*format)) { // (V4)
    InFlightDiagnostic diag = emitError() << "expected a cache format of";
    for (const cache::Format &known : cache::kFormats)
      if (cache::hasKernels(known))
        diag << " " << StringRef(known.name) << ",";
    return diag << " got " << name;
  }
  uint8_t kind = element.isBF16() ? cache::kBF16 : element.isF16() ? cache::kF16 : cache::kF32;
  if (!(format->accepts & kind))
    return emitError() << "cache format " << name << " does not take elements of " << element;
  cache::Widths widths{latent, rope, element.getIntOrFloatBitWidth() / 8};
  for (size_t i = 0; i < format->numFields; ++i) {
    const cache::Field &field = format->fields[i];
    int64_t given = field.part == cache::Part::Latent ? latent : rope;
    bool isRow = field.part == cache::Part::Latent || field.part == cache::Part::Rope;
    if (isRow && field.count > 0 && field.count != given)
      return emitError() << "cache format " << name << " has "
                         << (field.part == cache::Part::Latent ? "kv_lora_rank "
                                                               : "qk_rope_head_dim ")
                         << field.count << ", got " << given;
  }
  for (int section = 0; section < int(cache::kMaxSections); ++section)
    if (int64_t bytes = cache::sectionBytes(*format, section, widths);
        bytes % cache::kPoolAlignment) // (V5)
      return emitError() << "cache format " << name << ": expected rows of a multiple of "
                         << cache::kPoolAlignment << " bytes, got " << bytes;
  return success();
}

LogicalResult CacheType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t pageSize,
                                int64_t kvLoraRank, int64_t ropeDim, Type element, RopeOrder,
                                StringRef format, ScaleRule rule) {
  if (pageSize <= 0 || kvLoraRank <= 0) // (V1)
    return emitError() << "expected page_size and kv_lora_rank above 0, got " << pageSize << " and "
                       << kvLoraRank;
  if (ropeDim < 0 || ropeDim % 2 != 0) // (V2)
    return emitError() << "expected an even qk_rope_head_dim >= 0, got " << ropeDim;
  if (!element.isBF16() && !element.isF16() && !element.isF32()) // (V3)
    return emitError() << "expected a cache element of bf16, f16 or f32, got " << element;
  if (!format.empty() && failed(verifyFormat(emitError, format, kvLoraRank, ropeDim, element)))
    return failure();
  bool hasGroups = !format.empty() && mlac::cache::findFormat(format)->scaleGroup > 0;
  if (rule != ScaleRule::Raw && !hasGroups) // (V6)
    return emitError() << "expected scale_rule raw: the format has no groups of scales";
  return success();
}

StringRef CacheType::getLayoutName() const {
  if (!getFormat().empty())
    return getFormat();
  return getElement().isF32() ? "mla_f32" : "mla_16";
}

const mlac::cache::Format &CacheType::getLayout() const {
  return *mlac::cache::findFormat(std::string_view(getLayoutName()));
}

mlac::cache::Widths CacheType::getWidths() const {
  return {getKvLoraRank(), getQkRopeHeadDim(), getElement().getIntOrFloatBitWidth() / 8};
}

Type CacheType::getStorageType(mlac::cache::Storage storage) const {
  using mlac::cache::Storage;
  switch (storage) {
  case Storage::Model:
    return getElement();
  case Storage::BF16:
    return BFloat16Type::get(getContext());
  case Storage::F32:
    return Float32Type::get(getContext());
  case Storage::E4M3:
    return Float8E4M3FNType::get(getContext());
  case Storage::E8M0:
  case Storage::Zero:
    return IntegerType::get(getContext(), 8);
  }
  llvm_unreachable("unknown storage");
}

int64_t CacheType::getRowBytes() const { return mlac::cache::tokenBytes(getLayout(), getWidths()); }

bool CacheType::isQuantized() const {
  return getStorageType(getLayout().fields[0].storage) != getElement();
}

//===----------------------------------------------------------------------===//
// Batch
//===----------------------------------------------------------------------===//

LogicalResult BatchType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t queryLen,
                                int64_t contextLen) {
  for (int64_t length : {queryLen, contextLen})
    if (!ShapedType::isDynamic(length) && length < 0) // (V1)
      return emitError() << "expected a length >= 0, got " << length;
  return success();
}

/// `!mla.batch`, `!mla.batch<query_len = 1>`, `!mla.batch<context_len = 0>`, …
Type BatchType::parse(AsmParser &parser) {
  int64_t queryLen = ShapedType::kDynamic, contextLen = ShapedType::kDynamic;
  auto parseField = [&]() -> ParseResult {
    StringRef name;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&name))
      return failure();
    if (name != "query_len" && name != "context_len")
      return parser.emitError(loc, "expected query_len or context_len, got ") << name;
    int64_t &value = name == "query_len" ? queryLen : contextLen;
    if (parser.parseEqual())
      return failure();
    if (succeeded(parser.parseOptionalQuestion()))
      return success();
    return parser.parseInteger(value);
  };
  SMLoc loc = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalLess()) &&
      (parser.parseCommaSeparatedList(parseField) || parser.parseGreater()))
    return {};
  return parser.getChecked<BatchType>(loc, parser.getContext(), queryLen, contextLen);
}

void BatchType::print(AsmPrinter &printer) const {
  auto length = [&](StringRef name, int64_t value) {
    printer << name << " = ";
    if (ShapedType::isDynamic(value))
      printer << "?";
    else
      printer << value;
  };
  // Something must stand between the brackets: where ODS knows the type, it
  // prints nothing else.
  printer << "<";
  length("query_len", getQueryLen());
  if (hasStaticContextLen()) {
    printer << ", ";
    length("context_len", getContextLen());
  }
  printer << ">";
}

//===----------------------------------------------------------------------===//
// Model
//===----------------------------------------------------------------------===//

LogicalResult ModelAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringRef,
                                int64_t ranks, int64_t positions, StringRef, StringRef) {
  if (ranks > 0 && positions > 0) // (V1)
    return success();
  return emitError() << "expected ranks and positions above 0, got " << ranks << " and "
                     << positions;
}

//===----------------------------------------------------------------------===//
// Rope
//===----------------------------------------------------------------------===//

LogicalResult RopeAttr::verify(function_ref<InFlightDiagnostic()> emitError, RopeOrder, int64_t dim,
                               Real theta, int64_t length, RopeScaling scaling, Real, Real factor,
                               int64_t originalMaxPosition, Real, Real, ArrayRef<Real> shortFactors,
                               ArrayRef<Real> longFactors) {
  if (dim <= 0 || dim % 2 != 0) // (V1)
    return emitError() << "expected an even rope dim above 0, got " << dim;
  if (!(theta > 0) || length <= 0) // (V2)
    return emitError() << "expected theta and length above 0, got " << theta << " and " << length;
  if (scaling == RopeScaling::Yarn && (!(factor > 0) || originalMaxPosition <= 0)) // (V3)
    return emitError() << "yarn: expected factor and original_max_position above 0, got " << factor
                       << " and " << originalMaxPosition;
  if (scaling == RopeScaling::LongRope)
    for (ArrayRef<Real> factors : {shortFactors, longFactors}) // (V4)
      if (static_cast<int64_t>(factors.size()) != dim / 2)
        return emitError() << "longrope: expected " << dim / 2 << " factors, got "
                           << factors.size();
  return success();
}

/// `<key = value, …>`: keys in any order, those at their default left out.
Attribute RopeAttr::parse(AsmParser &parser, Type) {
  RopeOrder order = RopeOrder::Interleaved;
  RopeScaling scaling = RopeScaling::None;
  int64_t dim = 0, length = 0, originalMaxPosition = 0;
  double theta = 0, multiplier = 1, factor = 1, betaFast = 32, betaSlow = 1;
  SmallVector<Real> shortFactors, longFactors;

  auto parseFactors = [&](SmallVector<Real> &into) {
    return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() {
      return parser.parseFloat(into.emplace_back().value);
    });
  };
  auto parseField = [&]() -> ParseResult {
    StringRef key, word;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&key) || parser.parseEqual())
      return failure();
    if (key == "order" || key == "scaling") {
      SMLoc wordLoc = parser.getCurrentLocation();
      if (parser.parseKeyword(&word))
        return failure();
      auto asOrder = symbolizeRopeOrder(word);
      auto asScaling = symbolizeRopeScaling(word);
      if (key == "order" ? !asOrder : !asScaling)
        return parser.emitError(wordLoc, "unknown rope ") << key << " '" << word << "'";
      if (key == "order")
        order = *asOrder;
      else
        scaling = *asScaling;
      return success();
    }
    if (int64_t *value = llvm::StringSwitch<int64_t *>(key)
                             .Case("dim", &dim)
                             .Case("length", &length)
                             .Case("original_max_position", &originalMaxPosition)
                             .Default(nullptr))
      return parser.parseInteger(*value);
    if (double *value = llvm::StringSwitch<double *>(key)
                            .Case("theta", &theta)
                            .Case("multiplier", &multiplier)
                            .Case("factor", &factor)
                            .Case("beta_fast", &betaFast)
                            .Case("beta_slow", &betaSlow)
                            .Default(nullptr))
      return parser.parseFloat(*value);
    if (key == "short_factors" || key == "long_factors")
      return parseFactors(key == "short_factors" ? shortFactors : longFactors);
    return parser.emitError(loc, "unknown rope field '") << key << "'";
  };
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseCommaSeparatedList(parseField) || parser.parseGreater())
    return {};
  return parser.getChecked<RopeAttr>(loc, parser.getContext(), order, dim, theta, length, scaling,
                                     multiplier, factor, originalMaxPosition, betaFast, betaSlow,
                                     shortFactors, longFactors);
}

void RopeAttr::print(AsmPrinter &printer) const {
  auto number = [&](StringRef key, Real value) { printer << ", " << key << " = " << value; };
  auto list = [&](StringRef key, ArrayRef<Real> values) {
    printer << ", " << key << " = [";
    llvm::interleaveComma(values, printer);
    printer << "]";
  };
  printer << "<order = " << stringifyRopeOrder(getOrder()) << ", dim = " << getDim();
  number("theta", getTheta());
  printer << ", length = " << getLength();
  if (getMultiplier().value != 1.0)
    number("multiplier", getMultiplier());
  if (getScaling() != RopeScaling::None)
    printer << ", scaling = " << stringifyRopeScaling(getScaling());
  if (getScaling() == RopeScaling::Yarn) {
    number("factor", getFactor());
    number("beta_fast", getBetaFast());
    number("beta_slow", getBetaSlow());
  }
  if (getOriginalMaxPosition() != 0)
    printer << ", original_max_position = " << getOriginalMaxPosition();
  if (!getShortFactors().empty())
    list("short_factors", getShortFactors());
  if (!getLongFactors().empty())
    list("long_factors", getLongFactors());
  printer << ">";
}
