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

#include <cmath>
#include <limits>
#include <tuple>

using namespace mlir;
using namespace mlir::mla;
using mlac::Real;

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

//===----------------------------------------------------------------------===//
// Cache
//===----------------------------------------------------------------------===//

namespace cache = mlac::cache;

/// The layout of a type whose format is left open.
static StringRef getLayoutName(StringRef format, Type element) {
  if (!format.empty())
    return format;
  return element.isF32() ? "mla_f32" : "mla_16";
}

/// (V4), as far as the fields go: those of the format in its order.
static LogicalResult verifyFields(function_ref<InFlightDiagnostic()> emitError,
                                  const cache::Format &format, ArrayRef<CacheField> fields) {
  for (size_t i = 0; i < format.numFields; ++i) {
    const cache::Field &field = format.fields[i];
    if (!cache::isRow(field.part))
      continue;
    StringRef part = cache::partName(field.part);
    if (fields.empty() || fields.front().part != field.part) {
      if (field.part == cache::Part::Rope && field.count == 0)
        continue;
      InFlightDiagnostic diag = emitError() << "expected the field '" << part << "' of format "
                                            << StringRef(format.name) << ", got ";
      return fields.empty() ? diag << "no other field"
                            : diag << "'" << cache::partName(fields.front().part) << "'";
    }
    if (field.count > 0 && fields.front().getWidth() != field.count)
      return emitError() << "cache format " << StringRef(format.name) << " has " << part << " "
                         << field.count << ", got " << fields.front().getWidth();
    fields = fields.drop_front();
  }
  if (fields.empty())
    return success();
  return emitError() << "cache format " << StringRef(format.name) << " has no field '"
                     << cache::partName(fields.front().part) << "' there";
}

/// What each field of the format's rows has of `fields`.
static cache::Widths getWidthsOf(const cache::Format &format, ArrayRef<CacheField> fields,
                                 Type element) {
  cache::Widths widths{};
  widths.modelBytes = element.getIntOrFloatBitWidth() / 8;
  for (size_t i = 0; i < format.numFields; ++i)
    for (const CacheField &field : fields)
      if (field.part == format.fields[i].part)
        widths.columns[cache::rowField(format, i)] = field.getWidth();
  return widths;
}

/// (V4) and (V5) of a format that is given.
static LogicalResult verifyFormat(function_ref<InFlightDiagnostic()> emitError, StringRef name,
                                  int64_t pageSize, ArrayRef<CacheField> fields, Type element) {
  const cache::Format *format = cache::findFormat(std::string_view(name));
  if (!format) {
    InFlightDiagnostic diag = emitError() << "expected a cache format of";
    for (const cache::Format &known : cache::kFormats)
      diag << " " << StringRef(known.name) << ",";
    return diag << " got " << name;
  }
  uint8_t kind = element.isBF16() ? cache::kBF16 : element.isF16() ? cache::kF16 : cache::kF32;
  if (!(format->accepts & kind))
    return emitError() << "cache format " << name << " does not take elements of " << element;
  if (failed(verifyFields(emitError, *format, fields)))
    return failure();
  cache::Widths widths = getWidthsOf(*format, fields, element);
  for (int section = 0; section < int(cache::kMaxSections); ++section)
    if (int64_t bytes = cache::sectionBytes(*format, section, widths);
        cache::hasRows(*format, section) && bytes % cache::kPoolAlignment)
      return emitError() << "cache format " << name << ": expected rows of a multiple of "
                         << cache::kPoolAlignment << " bytes, got " << bytes;
  if (format->scaleGroup && widths.columns[0] % format->scaleGroup)
    return emitError() << "cache format " << name << ": expected "
                       << cache::partName(fields.front().part) << " of a multiple of "
                       << format->scaleGroup << ", got " << widths.columns[0];
  if (int64_t bytes = cache::pageBytes(*format, pageSize, widths); bytes % cache::kPoolAlignment)
    return emitError() << "cache format " << name << ": expected pages of a multiple of "
                       << cache::kPoolAlignment << " bytes, got " << bytes;
  return success();
}

/// Of a page, or of a request's new or cached tokens.
static constexpr int64_t kMaxTokens = std::numeric_limits<int32_t>::max();

static bool isIndexKey(const CacheField &field) { return field.part == cache::Part::Index; }

LogicalResult CacheType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t pageSize,
                                ArrayRef<CacheField> fields, Type element, RopeOrder,
                                StringRef format, ScaleRule rule, int64_t tokensPerRow,
                                int64_t window, bool hadamard) {
  if (pageSize <= 0 || tokensPerRow <= 0 || window < 0) // (V1)
    return emitError() << "expected page_size and tokens_per_row above 0 and window >= 0, got "
                       << pageSize << ", " << tokensPerRow << " and " << window;
  if (pageSize > kMaxTokens) // (V1)
    return emitError() << "expected a page_size of at most " << kMaxTokens << ", got " << pageSize;
  for (const CacheField &field : fields) {
    StringRef part = cache::partName(field.part);
    if (field.heads <= 0 || field.columns <= 0) // (V1)
      return emitError() << "expected a width above 0 of the field '" << part << "', got "
                         << field.heads << " x " << field.columns;
    if (field.part == cache::Part::Rope && field.getWidth() % 2 != 0) // (V2)
      return emitError() << "expected an even width of the field '" << part << "', got "
                         << field.getWidth();
  }
  if (!element.isBF16() && !element.isF16() && !element.isF32()) // (V3)
    return emitError() << "expected a cache element of bf16, f16 or f32, got " << element;
  const cache::Format &open = *cache::findFormat(::getLayoutName("", element));
  if (format.empty() ? failed(verifyFields(emitError, open, fields))
                     : failed(verifyFormat(emitError, format, pageSize, fields, element)))
    return failure();
  bool hasGroups = !format.empty() && cache::findFormat(format)->scaleGroup > 0;
  if (rule != ScaleRule::Raw && !hasGroups) // (V6)
    return emitError() << "expected scale_rule raw, got " << stringifyScaleRule(rule) << ": "
                       << (format.empty() ? "a cache without a format" : "cache format ") << format
                       << " has no groups of scales";
  if (hasGroups && rule != ScaleRule::PowerOfTwo &&
      cache::hasExponents(*cache::findFormat(format))) // (V5)
    return emitError() << "expected scale_rule power_of_two: scales of cache format " << format
                       << " are bare exponents";
  if (hadamard && llvm::none_of(fields, isIndexKey)) // (V7)
    return emitError() << "expected a field 'index' of a cache with hadamard = true";
  return success();
}

SmallVector<CacheField, 2> CacheType::latentFields(int64_t kvLoraRank, int64_t ropeDim) {
  SmallVector<CacheField, 2> fields{{cache::Part::Latent, 1, kvLoraRank}};
  if (ropeDim != 0)
    fields.push_back({cache::Part::Rope, 1, ropeDim});
  return fields;
}

CacheType CacheType::getLatent(MLIRContext *context, int64_t pageSize, int64_t kvLoraRank,
                               int64_t ropeDim, Type element, RopeOrder order, StringRef format,
                               ScaleRule rule) {
  return get(context, pageSize, latentFields(kvLoraRank, ropeDim), element, order, format, rule,
             /*tokensPerRow=*/1, /*window=*/0, /*hadamard=*/false);
}

//===----------------------------------------------------------------------===//
// The text of a cache type
//===----------------------------------------------------------------------===//

static std::optional<cache::Part> findPart(StringRef name) {
  for (const cache::Format &format : cache::kFormats)
    for (size_t i = 0; i < format.numFields; ++i)
      if (cache::Part part = format.fields[i].part;
          cache::isRow(part) && name == cache::partName(part))
        return part;
  return std::nullopt;
}

/// `[latent: 512, key: 8x128]`
static ParseResult parseFields(AsmParser &parser, SmallVectorImpl<CacheField> &fields) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() -> ParseResult {
    StringRef name;
    SMLoc loc = parser.getCurrentLocation();
    SmallVector<int64_t, 2> sizes;
    if (parser.parseKeyword(&name) || parser.parseColon())
      return failure();
    std::optional<cache::Part> part = findPart(name);
    if (!part)
      return parser.emitError(loc, "no format of the cache has a field '") << name << "'";
    loc = parser.getCurrentLocation();
    if (parser.parseDimensionList(sizes, /*allowDynamic=*/false, /*withTrailingX=*/false))
      return failure();
    if (sizes.empty() || sizes.size() > 2)
      return parser.emitError(loc, "expected columns or heads x columns, got ")
             << sizes.size() << " sizes";
    fields.push_back({*part, sizes.size() == 1 ? 1 : sizes.front(), sizes.back()});
    return success();
  });
}

/// `<key = value, …>`: keys in any order, those at their default left out.
Type CacheType::parse(AsmParser &parser) {
  int64_t pageSize = 0, tokensPerRow = 1, window = 0;
  SmallVector<CacheField, 2> fields;
  Type element;
  RopeOrder order = RopeOrder::Interleaved;
  ScaleRule rule = ScaleRule::Raw;
  std::string format;
  bool hadamard = false;
  auto parseWord = [&](auto symbolize, auto &value, StringRef what) -> ParseResult {
    StringRef word;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&word))
      return failure();
    auto known = symbolize(word);
    if (!known)
      return parser.emitError(loc, "unknown ") << what << " '" << word << "'";
    value = *known;
    return success();
  };
  auto parseField = [&]() -> ParseResult {
    StringRef key;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&key) || parser.parseEqual())
      return failure();
    if (int64_t *number = llvm::StringSwitch<int64_t *>(key)
                              .Case("page_size", &pageSize)
                              .Case("tokens_per_row", &tokensPerRow)
                              .Case("window", &window)
                              .Default(nullptr))
      return parser.parseInteger(*number);
    if (key == "fields")
      return parseFields(parser, fields);
    if (key == "element")
      return parser.parseType(element);
    if (key == "rope_order")
      return parseWord([](StringRef word) { return symbolizeRopeOrder(word); }, order, key);
    if (key == "scale_rule")
      return parseWord([](StringRef word) { return symbolizeScaleRule(word); }, rule, key);
    if (key == "format")
      return parser.parseString(&format);
    if (key == "hadamard")
      return parseWord(
          [](StringRef word) {
            return llvm::StringSwitch<std::optional<bool>>(word)
                .Case("true", true)
                .Case("false", false)
                .Default(std::nullopt);
          },
          hadamard, key);
    return parser.emitError(loc, "unknown cache parameter '") << key << "'";
  };
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseCommaSeparatedList(parseField) || parser.parseGreater())
    return {};
  if (!element)
    return parser.emitError(loc, "expected the element of the cache"), Type();
  return parser.getChecked<CacheType>(loc, parser.getContext(), pageSize, fields, element, order,
                                      format, rule, tokensPerRow, window, hadamard);
}

void CacheType::print(AsmPrinter &printer) const {
  printer << "<page_size = " << getPageSize() << ", fields = [";
  llvm::interleaveComma(getFields(), printer, [&](const CacheField &field) {
    printer << cache::partName(field.part) << ": ";
    if (field.heads != 1)
      printer << field.heads << "x";
    printer << field.columns;
  });
  printer << "], element = " << getElement();
  if (getQkRopeHeadDim() > 0 || getKvLoraRank() > 0 || getIndexWidth() > 0)
    printer << ", rope_order = " << stringifyRopeOrder(getRopeOrder());
  if (!getFormat().empty())
    printer << ", format = \"" << getFormat() << "\"";
  if (getScaleRule() != ScaleRule::Raw)
    printer << ", scale_rule = " << stringifyScaleRule(getScaleRule());
  if (getTokensPerRow() != 1)
    printer << ", tokens_per_row = " << getTokensPerRow();
  if (getWindow() != 0)
    printer << ", window = " << getWindow();
  if (getHadamard())
    printer << ", hadamard = true";
  printer << ">";
}

//===----------------------------------------------------------------------===//
// What a cache type says
//===----------------------------------------------------------------------===//

int64_t CacheType::getWidth(cache::Part part) const {
  for (const CacheField &field : getFields())
    if (field.part == part)
      return field.getWidth();
  return 0;
}

int64_t CacheType::getKvLoraRank() const { return getWidth(cache::Part::Latent); }
int64_t CacheType::getQkRopeHeadDim() const { return getWidth(cache::Part::Rope); }
int64_t CacheType::getIndexWidth() const { return getWidth(cache::Part::Index); }

int64_t CacheType::getRowWidth() const {
  int64_t width = 0;
  for (const CacheField &field : getFields())
    width += field.getWidth();
  return width;
}

StringRef CacheType::getLayoutName() const { return ::getLayoutName(getFormat(), getElement()); }

const cache::Format &CacheType::getLayout() const {
  return *cache::findFormat(std::string_view(getLayoutName()));
}

cache::Widths CacheType::getWidths() const {
  return getWidthsOf(getLayout(), getFields(), getElement());
}

Type CacheType::getStorageType(cache::Storage storage) const {
  using cache::Storage;
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
  case Storage::E2M1: // two in each
    return IntegerType::get(getContext(), 8);
  }
  llvm_unreachable("unknown storage");
}

int64_t CacheType::getRowBytes() const { return cache::tokenBytes(getLayout(), getWidths()); }

bool CacheType::isQuantized() const {
  return getStorageType(getLayout().fields[0].storage) != getElement();
}

bool CacheType::hasLayerScale() const { return getLayout().layerScales == 1; }

bool CacheType::hasGroupedLatents() const {
  using mlac::cache::Part;
  const mlac::cache::Format &format = getLayout();
  ArrayRef<CacheField> fields = getFields();
  auto storageOf = [&](Part part) {
    return getStorageType(format.fields[mlac::cache::findField(format, part)].storage);
  };
  return fields.size() == 2 && fields[0].part == Part::Latent && fields[1].part == Part::Rope &&
         isQuantized() && format.scaleGroup > 0 && !mlac::cache::isPacked(format) &&
         !mlac::cache::hasExponents(format) && storageOf(Part::Rope) == getElement();
}

bool CacheType::isStoredByRow() const {
  const mlac::cache::Format &format = getLayout();
  return !isQuantized() || (format.scaleGroup == getFields().front().columns &&
                            !mlac::cache::isPacked(format) && !mlac::cache::hasExponents(format));
}

//===----------------------------------------------------------------------===//
// Batch
//===----------------------------------------------------------------------===//

LogicalResult BatchType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t queryLen,
                                int64_t contextLen) {
  for (auto [name, length, least] :
       {std::tuple("query_len", queryLen, 1), std::tuple("context_len", contextLen, 0)}) {
    if (ShapedType::isDynamic(length))
      continue;
    if (length < least) // (V1)
      return emitError() << "expected " << name << " >= " << least << ", got " << length;
    if (length > kMaxTokens) // (V1)
      return emitError() << "expected " << name << " of at most " << kMaxTokens << ", got "
                         << length;
  }
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

/// (V5): tables are computed in f32, and the runtime refuses infinities in them.
static LogicalResult verifyHeld(function_ref<InFlightDiagnostic()> emitError, StringRef name,
                                double value) {
  using Limits = std::numeric_limits<float>;
  if (value >= Limits::min() && value <= Limits::max())
    return success();
  return emitError() << "expected " << name << " above 0 that f32 holds, got " << value;
}

LogicalResult RopeAttr::verify(function_ref<InFlightDiagnostic()> emitError, RopeOrder, int64_t dim,
                               Real theta, int64_t length, RopeScaling scaling, Real multiplier,
                               Real factor, int64_t originalMaxPosition, Real betaFast,
                               Real betaSlow, ArrayRef<Real> shortFactors,
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
  if (!(std::abs(multiplier) <= std::numeric_limits<float>::max()))
    return emitError() << "expected a multiplier that f32 holds, got " << double(multiplier);
  if (failed(verifyHeld(emitError, "theta", theta)))
    return failure();
  if (scaling == RopeScaling::Yarn && (failed(verifyHeld(emitError, "factor", factor)) ||
                                       failed(verifyHeld(emitError, "beta_fast", betaFast)) ||
                                       failed(verifyHeld(emitError, "beta_slow", betaSlow))))
    return failure();
  if (scaling == RopeScaling::LongRope)
    for (ArrayRef<Real> factors : {shortFactors, longFactors})
      for (double value : factors)
        if (failed(verifyHeld(emitError, "longrope's factors", value)))
          return failure();
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
