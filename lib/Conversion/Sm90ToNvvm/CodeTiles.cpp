//===- CodeTiles.cpp - codes in shared memory and what they become ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Matrices.h"

#include "mla/Dialect/Sm90/IR/Sm90CodeOps.h"

using namespace mlir;
using namespace mlac::sm90nvvm;

//===----------------------------------------------------------------------===//
// From shared memory to shared memory
//===----------------------------------------------------------------------===//

namespace {
/// Two neighbouring codes as operands: exactly in f16, then f32, where they are scaled.
Value transformPair(ImplicitLocOpBuilder &b, Value bits, Value scale, Type element) {
  Value codes = LLVM::BitcastOp::create(b, VectorType::get({2}, b.getI8Type()), bits);
  Value halves =
      NVVM::ConvertF8x2ToF16x2Op::create(b, VectorType::get({2}, b.getF16Type()), codes,
                                         /*relu=*/false, Float8E4M3FNType::get(b.getContext()));
  Value scaled = LLVM::UndefOp::create(b, VectorType::get({2}, b.getF32Type()));
  for (int64_t i = 0; i < 2; ++i) {
    Value one = LLVM::ExtractElementOp::create(b, halves, constant32(b, i));
    Value product = arith::MulFOp::create(b, arith::ExtFOp::create(b, b.getF32Type(), one), scale);
    scaled = LLVM::InsertElementOp::create(b, scaled, product, constant32(b, i));
  }
  Value narrow = LLVM::FPTruncOp::create(b, VectorType::get({2}, element), scaled);
  return LLVM::BitcastOp::create(b, b.getI32Type(), narrow);
}

/// Thread (row g, g + 8; lane t of the row's quad) takes chunks t and t + 4 of a row of codes,
/// odd rows the second first. So the eight lanes of an access, which are two neighbouring rows,
/// have eight different chunks of the swizzle, of codes and of either target panel:
///
///     codes   row g      t = 0 1 2 3 . . . .    then . . . . 0 1 2 3
///             row g + 1      . . . . 0 1 2 3         0 1 2 3 . . . .
class TransformCodes : public KernelPattern<sm90::TransformCodesOp> {
public:
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(sm90::TransformCodesOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Kernel kernel = getKernel(op);
    // Addresses are computed here: kept from panel to panel they would spill.
    kernel.groupThread = emitPin(b, kernel.groupThread).front();
    sm90::SmemType codes = op.getCodes().getType(), target = op.getTarget().getType();
    int64_t first = static_cast<int64_t>(op.getColumn()) / sm90::kPanelColumns;
    int64_t panels = op.countColumns() / sm90::kPanelColumns; // of the target
    for (int64_t panel = 0; panel < panels; panel += kMaxPieces) {
      Value source = moveTile(b, adaptor.getCodes()[0], panel / kMaxPieces * codes.getPanelBytes());
      Value result = moveTile(b, adaptor.getTarget()[0], (first + panel) * target.getPanelBytes());
      transformPanel(b, kernel,
                     {source, result, adaptor.getScale(), target.getElementType(),
                      std::min(panels - panel, kMaxPieces)});
    }
    rewriter.eraseOp(op);
    return success();
  }

private:
  /// 128 columns of codes, and the two panels that they become.
  struct Panel {
    Value codes, target;
    ValueRange scale; // of all, or of each row of a thread
    Type element;
    int64_t pieces; // of a row and thread: as many as target panels
  };
  static constexpr int64_t kMaxPieces = 2;
  static constexpr int64_t kPanelBytes = sm90::kTileRows * sm90::kPanelRowBytes;

  static Value moveTile(ImplicitLocOpBuilder &b, Value tile, int64_t bytes) {
    return Int(b, tile) + bytes / sm90::kDescriptorUnit;
  }

  static void transformPanel(ImplicitLocOpBuilder &b, const Kernel &kernel, const Panel &panel) {
    Int row = kernel.getRow(b, 0), lane = Int(b, kernel.groupThread) % sm90::kQuadLanes;
    Int parity = row % 2;
    constexpr int64_t quarter = sm90::kQuadLanes,
                      halfRows = sm90::kSwizzleRows * sm90::kPanelRowBytes;
    Type words = VectorType::get({sm90::kChunkBytes / 4}, b.getI32Type());
    SmallVector<Value> sources, loaded;
    SmallVector<std::pair<Int, Int>> targets; // of a piece's halves
    for (int64_t piece = 0; piece < panel.pieces; ++piece) {
      // Whether it is the row's second half, if there is one.
      Int second = panel.pieces == 1 ? constant32(b, 0) : parity ^ piece;
      sources.push_back(sm90::getSwizzledChunkByte(row, lane + second * quarter, sm90::kTileRows));
      Int base = second * kPanelBytes;
      Int chunk = lane * 2;
      targets.push_back({base + sm90::getSwizzledChunkByte(row, chunk, sm90::kTileRows),
                         base + sm90::getSwizzledChunkByte(row, chunk + 1, sm90::kTileRows)});
    }
    auto load = [&](int64_t number) {
      Int byte = Int(b, sources[number % panel.pieces]) + number / panel.pieces * halfRows;
      Value address = kernel.getSharedAddress(b, panel.codes, byte);
      loaded.push_back(LLVM::LoadOp::create(b, words, address, sm90::kChunkBytes));
    };
    // One piece ahead: what is stored in between may be what is loaded, for all that LLVM knows.
    int64_t count = panel.pieces * sm90::kFragmentRows;
    load(0);
    for (int64_t number = 0; number < count; ++number) {
      if (number + 1 < count)
        load(number + 1);
      int64_t h = number / panel.pieces;
      auto [low, high] = targets[number % panel.pieces];
      Value scale = panel.scale[panel.scale.size() == 1 ? 0 : h];
      for (int64_t half = 0; half < 2; ++half) {
        Value operands = LLVM::UndefOp::create(b, words);
        for (int64_t word = 0; word < 2; ++word) {
          Value codes =
              LLVM::ExtractElementOp::create(b, loaded[number], constant32(b, half * 2 + word));
          auto [first, second] = unpackPair(b, b.getI16Type(), codes);
          int64_t pair = 2 * word;
          for (Value bits : {first, second})
            operands = LLVM::InsertElementOp::create(
                b, operands, transformPair(b, bits, scale, panel.element), constant32(b, pair++));
        }
        Int byte = (half == 0 ? low : high) + h * halfRows;
        LLVM::StoreOp::create(b, operands, kernel.getSharedAddress(b, panel.target, byte),
                              sm90::kChunkBytes);
      }
    }
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// To registers
//===----------------------------------------------------------------------===//

/// Columns that are one word of each thread of a row's four.
static constexpr int64_t kPieceColumns = sm90::kChunkBytes;

/// Register of the word of piece `s`, half `h`.
static int64_t getWordRegister(int64_t s, int64_t h) {
  return sm90::getFragmentRegister(s / 2, h, s % 2);
}

namespace {
struct LoadCodeWords : public KernelPattern<sm90::LoadCodeWordsOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(sm90::LoadCodeWordsOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    MatrixAddresses addresses{b, getKernel(op), op.getCodes().getType(), adaptor.getCodes()[0]};
    auto first = static_cast<int64_t>(op.getColumn()) / kPieceColumns;
    int64_t pieces = static_cast<int64_t>(op.getColumns()) / kPieceColumns;
    SmallVector<Value> registers(getRegisterCount(cast<RankedTensorType>(op.getType())),
                                 constant32(b, 0));
    for (int64_t piece = 0; piece < pieces; piece += 2) {
      int64_t count = std::min<int64_t>(pieces - piece, 2) * sm90::kFragmentRows;
      auto type = LLVM::LLVMStructType::getLiteral(b.getContext(),
                                                   SmallVector<Type>(count, b.getI32Type()));
      Value loaded = NVVM::LdMatrixOp::create(b, type, addresses.getFrom(first + piece),
                                              b.getI32IntegerAttr(static_cast<int32_t>(count)),
                                              getMatrixLayout(b, false), getMatrixShape(b),
                                              getMatrixElement(b));
      for (int64_t matrix = 0; matrix < count; ++matrix)
        registers[getWordRegister(piece + matrix / 2, matrix % 2)] =
            LLVM::ExtractValueOp::create(b, loaded, matrix);
    }
    rewriter.replaceOpWithMultiple(op, {registers});
    return success();
  }
};

/// Bytes `bytes` of two words, the lowest first.
Value permute(ImplicitLocOpBuilder &b, Value low, Value high, int64_t bytes) {
  return NVVM::PermuteOp::create(b, b.getI32Type(), low, high, constant32(b, bytes),
                                 NVVM::PermuteMode::DEFAULT);
}

/// Warp w has the columns 16w .. 16w + 15: of each eight rows a matrix, whose transpose gives a
/// thread two columns (g) of two rows (t). A word has one of them, of two matrices.
///
///     matrix 2s, t    | row 2t: c, c + 1 | row 2t + 1: c, c + 1 |     c = 16w + 2g
///     matrix 2s + 1   | row 2t: c, c + 1 | row 2t + 1: c, c + 1 |
///     word, h = 0     | c c | c c |         h = 1     | c + 1 c + 1 | c + 1 c + 1 |
struct LoadCodeColumns : public KernelPattern<sm90::LoadCodeColumnsOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(sm90::LoadCodeColumnsOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    const Kernel &kernel = getKernel(op);
    sm90::SmemType type = op.getCodes().getType();
    MatrixAddresses addresses{b, kernel, type, adaptor.getCodes()[0]};
    // Bits of a warp's chunk are none of the column's.
    Int first =
        sm90::getSwizzledChunkByte(Int(b, kernel.lane), addresses.getWarp(), type.getRows());
    Int place = getChunkFrom(b, first, static_cast<int64_t>(op.getColumn()) / kPieceColumns,
                             type.getRows());
    auto four = LLVM::LLVMStructType::getLiteral(b.getContext(),
                                                 SmallVector<Type>(kMatrices, b.getI32Type()));
    constexpr int64_t loads = sm90::kTileRows / (kMatrices * kMatrixRows);
    constexpr int64_t lowBytes = 0x6420, highBytes = 0x7531; // of both words
    SmallVector<Value> registers(getRegisterCount(cast<RankedTensorType>(op.getType())));
    for (int64_t load = 0; load < loads; ++load) {
      Int byte = place + load * (kMatrices * kMatrixRows * sm90::kPanelRowBytes);
      Value loaded = NVVM::LdMatrixOp::create(
          b, four, kernel.getSharedAddress(b, adaptor.getCodes()[0], byte),
          b.getI32IntegerAttr(kMatrices), getMatrixLayout(b, /*transposed=*/true),
          getMatrixShape(b), getMatrixElement(b));
      for (int64_t pair = 0; pair < kMatrices / 2; ++pair) {
        Value low = LLVM::ExtractValueOp::create(b, loaded, 2 * pair);
        Value high = LLVM::ExtractValueOp::create(b, loaded, 2 * pair + 1);
        int64_t s = load * kMatrices / 2 + pair;
        registers[getWordRegister(s, 0)] = permute(b, low, high, lowBytes);
        registers[getWordRegister(s, 1)] = permute(b, low, high, highBytes);
      }
    }
    if (op.getLimit())
      hideRows(b, kernel, adaptor.getLimit()[0], registers);
    rewriter.replaceOpWithMultiple(op, {registers});
    return success();
  }

private:
  /// Clears the codes of rows at and behind `limit`: of a word two rows, and two of eight rows on.
  static void hideRows(ImplicitLocOpBuilder &b, const Kernel &kernel, Value limit,
                       MutableArrayRef<Value> registers) {
    Value end = arith::TruncIOp::create(b, b.getI32Type(), toI64(b, limit));
    // Pinned: the rows would else be computed ahead of a loop, in 16 registers, for its last block.
    Int lane = Int(b, emitPin(b, kernel.lane).front()) % sm90::kQuadLanes * 2;
    for (int64_t s = 0; s < sm90::kTileRows / kPieceColumns; ++s) {
      Value mask = constant32(b, 0);
      for (int64_t byte = 0; byte < 4; ++byte) {
        Int row = lane + (s * kPieceColumns + byte / 2 * kMatrixRows + byte % 2);
        Value isSeen = compare(b, arith::CmpIPredicate::slt, row, end);
        auto all = static_cast<int32_t>(0xFFu << 8 * byte);
        Value bits = arith::SelectOp::create(b, isSeen, constant32(b, all), constant32(b, 0));
        mask = arith::OrIOp::create(b, mask, bits);
      }
      for (int64_t h = 0; h < sm90::kFragmentRows; ++h)
        registers[getWordRegister(s, h)] =
            arith::AndIOp::create(b, registers[getWordRegister(s, h)], mask);
    }
  }
};

struct ScaleCodes : public OpConversionPattern<sm90::ScaleCodesOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::ScaleCodesOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    auto type = cast<RankedTensorType>(op.getType());
    Type halves = VectorType::get({2}, b.getF16Type());
    SmallVector<Value> scales; // of each half's row, or of all
    for (Value scale : adaptor.getScale()) {
      Value narrow = arith::TruncFOp::create(b, b.getF16Type(), scale);
      scales.push_back(LLVM::UndefOp::create(b, halves));
      for (int64_t i = 0; i < 2; ++i)
        scales.back() = LLVM::InsertElementOp::create(b, scales.back(), narrow, constant32(b, i));
    }
    SmallVector<Value> registers(getRegisterCount(type));
    for (int64_t s = 0; s < type.getDimSize(1) / kPieceColumns; ++s)
      for (int64_t h = 0; h < sm90::kFragmentRows; ++h) {
        Value word = adaptor.getWords()[getWordRegister(s, h)];
        auto [low, high] = unpackPair(b, b.getI16Type(), word);
        for (auto [group, bits] : llvm::enumerate(ArrayRef<Value>{low, high})) {
          Value codes = LLVM::BitcastOp::create(b, VectorType::get({2}, b.getI8Type()), bits);
          Value exact = NVVM::ConvertF8x2ToF16x2Op::create(b, halves, codes, /*relu=*/false,
                                                           Float8E4M3FNType::get(b.getContext()));
          Value scaled = LLVM::FMulOp::create(b, exact, scales[h % scales.size()]);
          for (int64_t i = 0; i < 2; ++i)
            registers[sm90::getFragmentRegister(2 * s + static_cast<int64_t>(group), h, i)] =
                LLVM::ExtractElementOp::create(b, scaled, constant32(b, i));
        }
      }
    rewriter.replaceOpWithMultiple(op, {registers});
    return success();
  }
};

//===----------------------------------------------------------------------===//
// The other operand
//===----------------------------------------------------------------------===//

/// 16 columns of a row are two chunks: a thread loads both and stores both. The eight threads of
/// an access have eight rows of a group, so that they meet eight chunks of the swizzle.
class OrderRuns : public KernelPattern<sm90::OrderRunsOp> {
public:
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(sm90::OrderRunsOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    const Kernel &kernel = getKernel(op);
    sm90::SmemType type = op.getSource().getType();
    Value tile = adaptor.getSource()[0];
    Units units{b, kernel, type, tile, adaptor.getFactor()[0]};
    int64_t count = type.getRows() * type.getColumns() / kPieceColumns;
    int64_t turns = llvm::divideCeilSigned(count, sm90::kWarpgroupThreads);
    // Registers of 8 words each: as many at once as hide a load's latency.
    constexpr int64_t atOnce = 4;
    Int thread(b, kernel.groupThread);
    int64_t whole = count % sm90::kWarpgroupThreads == 0 ? turns / atOnce * atOnce : 0;
    if (whole > 0) {
      auto loop =
          scf::ForOp::create(b, constant32(b, 0), constant32(b, whole * sm90::kWarpgroupThreads),
                             constant32(b, atOnce * sm90::kWarpgroupThreads));
      keepRolled(loop);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      units.move(thread + Int(b, loop.getInductionVar()), atOnce);
    }
    for (int64_t turn = whole; turn < turns; ++turn) {
      Int unit = thread + turn * sm90::kWarpgroupThreads;
      bool isWhole = (turn + 1) * sm90::kWarpgroupThreads <= count;
      Value exists = isWhole
                         ? Value()
                         : Value(compare(b, arith::CmpIPredicate::ult, unit, constant32(b, count)));
      emitIf(b, exists, [&] { units.move(unit, 1); });
    }
    rewriter.replaceOp(op, tile);
    return success();
  }

private:
  static constexpr int64_t kWords = 2 * sm90::kChunkBytes / 4; // of a unit, two elements each

  struct Units {
    ImplicitLocOpBuilder &b;
    const Kernel &kernel;
    sm90::SmemType type;
    Value tile;
    Value factor;

    /// Of unit `number`, its chunk `half`.
    Value getAddress(Int number, int64_t half) const {
      constexpr int64_t perPanel = sm90::kPanelColumns / kPieceColumns;
      int64_t groups = type.getRows() / sm90::kSwizzleRows;
      Int rest = number / sm90::kSwizzleRows;
      Int row = rest / perPanel % groups * sm90::kSwizzleRows + number % sm90::kSwizzleRows;
      Int chunk = rest / (perPanel * groups) * sm90::kPanelChunks + rest % perPanel * 2 + half;
      return kernel.getSharedAddress(b, tile,
                                     sm90::getSwizzledChunkByte(row, chunk, type.getRows()));
    }
    void move(Int first, int64_t count) const;
    Value convert(Value word) const;
  };
};
} // namespace

/// Two elements as f16, times the factor, up to its largest number; NaN stays NaN.
Value OrderRuns::Units::convert(Value word) const {
  Type element = type.getElementType();
  if (element.isF16() && matchPattern(factor, m_OneFloat()))
    return word;
  auto [low, high] = unpackPair(b, element, word);
  Value wide = LLVM::UndefOp::create(b, VectorType::get({2}, b.getF32Type()));
  auto number = [&](float value) -> Value {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(value));
  };
  constexpr float largest = 65504;
  int64_t index = 0;
  for (Value half : {low, high}) {
    Value value = arith::ExtFOp::create(b, b.getF32Type(), half);
    value = arith::MulFOp::create(b, value, factor);
    value = arith::MinimumFOp::create(b, value, number(largest));
    value = arith::MaximumFOp::create(b, value, number(-largest));
    wide = LLVM::InsertElementOp::create(b, wide, value, constant32(b, index++));
  }
  Value narrow = LLVM::FPTruncOp::create(b, VectorType::get({2}, b.getF16Type()), wide);
  return LLVM::BitcastOp::create(b, b.getI32Type(), narrow);
}

void OrderRuns::Units::move(Int first, int64_t count) const {
  Type chunk = VectorType::get({sm90::kChunkBytes / 4}, b.getI32Type());
  SmallVector<Value> addresses, words;
  for (int64_t unit = 0; unit < count; ++unit)
    for (int64_t half = 0; half < 2; ++half) {
      addresses.push_back(getAddress(first + unit * sm90::kWarpgroupThreads, half));
      Value loaded = LLVM::LoadOp::create(b, chunk, addresses.back(), sm90::kChunkBytes);
      for (int64_t i = 0; i < kWords / 2; ++i)
        words.push_back(LLVM::ExtractElementOp::create(b, loaded, constant32(b, i)));
    }
  // Position 8h + 2t + e is column 4t + 2h + e: word 4h + t is word 2t + h.
  for (auto [index, address] : llvm::enumerate(addresses)) {
    int64_t start = static_cast<int64_t>(index) / 2 * kWords, h = static_cast<int64_t>(index) % 2;
    Value ordered = LLVM::UndefOp::create(b, chunk);
    for (int64_t t = 0; t < sm90::kQuadLanes; ++t)
      ordered = LLVM::InsertElementOp::create(b, ordered, convert(words[start + 2 * t + h]),
                                              constant32(b, t));
    LLVM::StoreOp::create(b, ordered, address, sm90::kChunkBytes);
  }
}

void mlac::sm90nvvm::populateCodeTilePatterns(const TypeConverter &converter,
                                              RewritePatternSet &patterns, const Kernel &kernel) {
  patterns.add<ScaleCodes>(converter, patterns.getContext());
  patterns.add<TransformCodes, LoadCodeWords, LoadCodeColumns, OrderRuns>(
      converter, patterns.getContext(), kernel);
}
