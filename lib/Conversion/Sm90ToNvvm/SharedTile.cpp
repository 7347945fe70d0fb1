//===- SharedTile.cpp - shared tiles, and fragments to and from them ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Fragments of 16-bit elements travel by ldmatrix and stmatrix, 8 x 8 elements a
// time: lane 8m + r names row r of matrix m, and every lane gets or gives the
// pair that a fragment has of each matrix. A group of 16 columns is four
// matrices, in the order of the fragment's registers:
//
//                 columns 16q ..  +7 | +8 ..  +15
//     rows 16w .. +7      matrix 0   | matrix 2
//     rows +8 .. +15      matrix 1   | matrix 3
//
// The eight rows of a matrix lie in eight different chunks of the swizzle: one
// access takes every bank once.
//
//===----------------------------------------------------------------------===//

#include "TileAccess.h"

#include "mla/Dialect/Sm90/IR/Sm90CodeOps.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlac::sm90nvvm;

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

namespace {
struct Alloc : public OpConversionPattern<sm90::AllocOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::AllocOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    if (!op.getOffset())
      return op.emitOpError("has no offset; run sm90-allocate-shared-memory first");
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    int64_t units = static_cast<int64_t>(*op.getOffset()) / sm90::kDescriptorUnit;
    rewriter.replaceOp(op, Value(constant32(b, units)));
    return success();
  }
};

struct Slice : public OpConversionPattern<sm90::SliceOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::SliceOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    sm90::SmemType source = op.getSource().getType();
    int64_t bytes =
        static_cast<int64_t>(op.getColumn()) / source.getPanelColumns() * source.getPanelBytes();
    rewriter.replaceOp(op, Value(Int(b, adaptor.getSource()[0]) + bytes / sm90::kDescriptorUnit));
    return success();
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Matrices
//===----------------------------------------------------------------------===//

/// Rows of a matrix, and matrices of one instruction.
static constexpr int64_t kMatrixRows = 8, kMatrices = 4;

static NVVM::LdStMatrixShapeAttr getMatrixShape(ImplicitLocOpBuilder &b) {
  return NVVM::LdStMatrixShapeAttr::get(b.getContext(), kMatrixRows, kMatrixRows);
}
static NVVM::LdStMatrixEltTypeAttr getMatrixElement(ImplicitLocOpBuilder &b) {
  return NVVM::LdStMatrixEltTypeAttr::get(b.getContext(), NVVM::LdStMatrixEltType::B16);
}
static NVVM::MMALayoutAttr getMatrixLayout(ImplicitLocOpBuilder &b, bool transposed) {
  return NVVM::MMALayoutAttr::get(b.getContext(),
                                  transposed ? NVVM::MMALayout::col : NVVM::MMALayout::row);
}

/// The byte of column chunk `chunk`, a constant, of the row that a thread names by `first`, the
/// byte of chunk 0. The swizzle exchanges three bits of it. Pinned: those of a few columns after
/// the other would else all be computed at the role's entry and take registers from
/// everything in between.
static Int getChunkFrom(ImplicitLocOpBuilder &b, Int first, int64_t chunk, int64_t rows) {
  Int pinned(b, emitPin(b, Value(first)).front());
  return (pinned ^ chunk % sm90::kPanelChunks * sm90::kChunkBytes) +
         chunk / sm90::kPanelChunks * (rows * sm90::kPanelRowBytes);
}

namespace {
/// The address that each lane names for the matrices of column group pair `q`.
struct MatrixAddresses {
  ImplicitLocOpBuilder &b;
  const Kernel &kernel;
  sm90::SmemType type;
  Value tile;

  Int getWarp() const { return Int(b, kernel.groupThread) / (kMatrixRows * kMatrices); }
  /// A fragment of the tile's shape whose first column is in chunk `firstChunk`.
  Value get(Int firstChunk, int64_t q) const {
    Int lane(b, kernel.lane);
    Int row = getWarp() * (2 * kMatrixRows) + lane % (2 * kMatrixRows);
    Int chunk = firstChunk + lane / (2 * kMatrixRows) + 2 * q;
    return kernel.getSharedAddress(b, tile, sm90::getSwizzledChunkByte(row, chunk, type.getRows()));
  }
  /// The same, of a chunk that is even and known.
  Value getFrom(int64_t chunk) const {
    Int lane(b, kernel.lane);
    Int row = getWarp() * (2 * kMatrixRows) + lane % (2 * kMatrixRows);
    Int first = sm90::getSwizzledChunkByte(row, lane / (2 * kMatrixRows), type.getRows());
    return kernel.getSharedAddress(b, tile, getChunkFrom(b, first, chunk, type.getRows()));
  }
  /// A fragment of the reversed shape: its columns are the tile's rows.
  Value getTransposed(int64_t q) const {
    Int lane(b, kernel.lane);
    Int row = lane / (2 * kMatrixRows) * kMatrixRows + lane % kMatrixRows + q * 2 * kMatrixRows;
    Int chunk = getWarp() * 2 + lane / kMatrixRows % 2;
    return kernel.getSharedAddress(b, tile, sm90::getSwizzledChunkByte(row, chunk, type.getRows()));
  }
};

struct StoreShared : public KernelPattern<sm90::StoreSharedOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(sm90::StoreSharedOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    const Kernel &kernel = getKernel(op);
    auto type = cast<RankedTensorType>(op.getValue().getType());
    int64_t split = sm90::isRows(type) ? 1 : sm90::getColumnSplit(type);
    emitIf(b, kernel.isWriter(b, split), [&] {
      if (sm90::isRows(type))
        storeRows(b, kernel, type, adaptor.getTarget()[0], adaptor.getValue());
      else
        storeFragment(b, kernel, op, adaptor);
    });
    rewriter.eraseOp(op);
    return success();
  }

private:
  /// The first lane of each quad writes its two elements.
  static void storeRows(ImplicitLocOpBuilder &b, const Kernel &kernel, RankedTensorType type,
                        Value tile, ValueRange registers) {
    int64_t bytes = type.getElementTypeBitWidth() / 8;
    Value isFirstLane = compare(b, arith::CmpIPredicate::eq, Int(b, kernel.lane) % sm90::kQuadLanes,
                                constant32(b, 0));
    emitIf(b, isFirstLane, [&] {
      for (int64_t h = 0; h < sm90::kFragmentRows; ++h)
        LLVM::StoreOp::create(b, registers[h],
                              kernel.getSharedAddress(b, tile, kernel.getRow(b, h) * bytes));
    });
  }

  static void storeFragment(ImplicitLocOpBuilder &b, const Kernel &kernel, sm90::StoreSharedOp op,
                            OneToNOpAdaptor adaptor) {
    auto type = cast<RankedTensorType>(op.getValue().getType());
    int64_t split = sm90::getColumnSplit(type), groups = getPartColumns(type) / sm90::kColumnGroup;
    MatrixAddresses addresses{b, kernel, op.getTarget().getType(), adaptor.getTarget()[0]};
    Int firstChunk = kernel.getPart(b, split) * groups;
    ValueRange registers = adaptor.getValue();
    for (int64_t group = 0; group < groups; group += 2) {
      Value address = op.getColumn()
                          ? addresses.getFrom(*op.getColumn() / sm90::kColumnGroup + group)
                      : op.getTransposed() ? addresses.getTransposed(group / 2)
                                           : addresses.get(firstChunk, group / 2);
      // The last of an odd number of groups has two matrices only.
      SmallVector<Value> matrices;
      int64_t last = std::min<int64_t>(group + 2, groups);
      for (int64_t reg = 4 * group; reg < 4 * last; reg += 2)
        matrices.push_back(packPair(b, registers[reg], registers[reg + 1]));
      NVVM::StMatrixOp::create(b, address, matrices, getMatrixLayout(b, op.getTransposed()),
                               getMatrixShape(b), getMatrixElement(b));
    }
  }
};

/// See the op: a warp writes its rows of a pass, and reads them back in pieces of
/// 16 bytes, a whole row (or several) at a time.
struct StoreStaged : public KernelPattern<sm90::StoreStagedOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(sm90::StoreStagedOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    // Addresses are computed here, once in a while: hoisted to the role's entry they
    // would take registers from everything in between. Not with pinThread: what is
    // computed of its number here spills 8 bytes in relay (ptxas 13.0).
    Kernel kernel = getKernel(op);
    SmallVector<Value> pinned = emitPin(b, ValueRange{kernel.lane, kernel.groupThread});
    kernel.lane = pinned[0], kernel.groupThread = pinned[1];
    auto type = cast<RankedTensorType>(op.getValue().getType());
    MatrixAddresses scratch{b, kernel, op.getScratch().getType(), adaptor.getScratch()[0]};
    TileAccess access = getAccess(b, kernel, op, adaptor);
    int64_t bytes = type.getElementTypeBitWidth() / 8;
    int64_t columns = scratch.type.getPanels() * sm90::kPanelRowBytes / bytes; // of a pass
    emitIf(b, kernel.isWriter(b, /*split=*/1), [&] {
      for (int64_t first = 0; first < type.getDimSize(1); first += columns) {
        if (first > 0) // the warp has read the pass before
          syncWarp(b);
        ValueRange registers =
            adaptor.getValue().slice(first / sm90::kColumnGroup * kGroupRegisters,
                                     columns / sm90::kColumnGroup * kGroupRegisters);
        bytes == 2 ? writeHalves(scratch, registers) : writeWords(scratch, registers);
        syncWarp(b);
        copyOut(scratch, access, first);
      }
    });
    rewriter.eraseOp(op);
    return success();
  }

private:
  /// Registers of a thread in a group of eight columns.
  static constexpr int64_t kGroupRegisters = 4;

  static void syncWarp(ImplicitLocOpBuilder &b) { NVVM::SyncWarpOp::create(b, constant32(b, -1)); }

  static void writeHalves(const MatrixAddresses &scratch, ValueRange registers) {
    ImplicitLocOpBuilder &b = scratch.b;
    for (int64_t reg = 0; reg < static_cast<int64_t>(registers.size());
         reg += 2 * kGroupRegisters) {
      SmallVector<Value> matrices;
      for (int64_t i = 0; i < 2 * kGroupRegisters; i += 2)
        matrices.push_back(packPair(b, registers[reg + i], registers[reg + i + 1]));
      NVVM::StMatrixOp::create(b, scratch.get(constant32(b, 0), reg / (2 * kGroupRegisters)),
                               matrices, getMatrixLayout(b, false), getMatrixShape(b),
                               getMatrixElement(b));
    }
  }

  /// Two neighbouring words at a time: the quads of eight rows take every bank once.
  static void writeWords(const MatrixAddresses &scratch, ValueRange registers) {
    ImplicitLocOpBuilder &b = scratch.b;
    constexpr int64_t pairBytes = 8;
    Type pair = VectorType::get({2}, registers[0].getType());
    Int quadLane = Int(b, scratch.kernel.lane) % sm90::kQuadLanes;
    for (int64_t h = 0; h < sm90::kFragmentRows; ++h)
      for (int64_t j = 0; j < static_cast<int64_t>(registers.size()) / kGroupRegisters; ++j) {
        Int chunk = quadLane / 2 + 2 * j;
        Int byte =
            sm90::getSwizzledChunkByte(scratch.kernel.getRow(b, h), chunk, scratch.type.getRows()) +
            quadLane % 2 * pairBytes;
        Value both = LLVM::UndefOp::create(b, pair);
        for (int64_t i = 0; i < 2; ++i)
          both = LLVM::InsertElementOp::create(
              b, both, registers[sm90::getFragmentRegister(j, h, i)], constant32(b, i));
        LLVM::StoreOp::create(b, both, scratch.kernel.getSharedAddress(b, scratch.tile, byte),
                              pairBytes);
      }
  }

  /// Rows of the warp from scratch to columns `first` and following of the view. The
  /// eight lanes of a row take its 128 bytes in a panel, so that addresses differ by
  /// constants, but for the swizzle of odd groups of rows.
  static void copyOut(const MatrixAddresses &scratch, const TileAccess &access, int64_t first) {
    ImplicitLocOpBuilder &b = scratch.b;
    constexpr int64_t rowsAtOnce = kMatrixRows * kMatrices / sm90::kPanelChunks;
    int64_t elements = sm90::kChunkBytes * 8 / access.elementType.getIntOrFloatBitWidth();
    Type piece = VectorType::get({sm90::kChunkBytes / 4}, b.getI32Type());
    // Rolled: all panels' pieces at once would take too many registers.
    auto loop = scf::ForOp::create(b, constant32(b, 0), constant32(b, scratch.type.getPanels()),
                                   constant32(b, 1));
    keepRolled(loop);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Int panel(b, loop.getInductionVar());
    // Again for every panel: four addresses and conditions kept over the loop spill 24
    // bytes where queries are of any length.
    Int lane(b, emitPin(b, scratch.kernel.lane).front()), chunk = lane % sm90::kPanelChunks;
    Int firstRow = scratch.getWarp() * (2 * kMatrixRows) + lane / sm90::kPanelChunks;
    Int firstTarget(b, toI64(b, firstRow)); // wide, so that a constant more is one
    SmallVector<Int> rows;
    SmallVector<Row> targets;
    for (int64_t row = 0; row < 2 * kMatrixRows; row += rowsAtOnce) {
      rows.push_back(firstRow + row);
      targets.push_back(access.getRow(b, firstTarget + row));
    }
    SmallVector<Value> loaded;
    for (Int row : rows) {
      Int byte = sm90::getSwizzledChunkByte(row, chunk, scratch.type.getRows()) +
                 panel * scratch.type.getPanelBytes();
      Value source = scratch.kernel.getSharedAddress(b, scratch.tile, byte);
      loaded.push_back(LLVM::LoadOp::create(b, piece, source, sm90::kChunkBytes));
    }
    for (auto [value, target] : llvm::zip_equal(loaded, targets))
      emitIf(b, target.inside, [&] {
        Int inRow = chunk + panel * sm90::kPanelChunks;
        Value address = access.getAddress(b, target, inRow * elements + first);
        LLVM::StoreOp::create(b, value, address, sm90::kChunkBytes);
      });
  }
};

struct LoadShared : public KernelPattern<sm90::LoadSharedOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(sm90::LoadSharedOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    const Kernel &kernel = getKernel(op);
    auto type = cast<RankedTensorType>(op.getType());
    Value tile = adaptor.getSource()[0];
    SmallVector<Value> registers = sm90::isRows(type) ? loadRows(b, kernel, type, tile)
                                   : isa<Float8E4M3FNType>(type.getElementType())
                                       ? loadCodes(b, kernel, op, tile)
                                       : loadFragment(b, kernel, op, tile);
    rewriter.replaceOpWithMultiple(op, {registers});
    return success();
  }

private:
  static SmallVector<Value> loadRows(ImplicitLocOpBuilder &b, const Kernel &kernel,
                                     RankedTensorType type, Value tile) {
    int64_t bytes = type.getElementTypeBitWidth() / 8;
    SmallVector<Value> registers;
    for (int64_t h = 0; h < sm90::kFragmentRows; ++h)
      registers.push_back(LLVM::LoadOp::create(
          b, type.getElementType(), kernel.getSharedAddress(b, tile, kernel.getRow(b, h) * bytes)));
    return registers;
  }

  /// Pairs of neighbours: eight rows of a group of columns lie in eight different chunks of
  /// the swizzle, so that an access takes every bank at most once.
  static SmallVector<Value> loadCodes(ImplicitLocOpBuilder &b, const Kernel &kernel,
                                      sm90::LoadSharedOp op, Value tile) {
    auto type = cast<RankedTensorType>(op.getType());
    sm90::SmemType source = op.getSource().getType();
    int64_t first = op.getColumn().value_or(0) / sm90::kColumnGroup;
    constexpr int64_t chunkGroups = sm90::kChunkBytes / sm90::kColumnGroup;
    Type pair = VectorType::get({2}, b.getI8Type());
    Int inChunk = sm90::getFragmentColumn(Int(b, kernel.groupThread));
    Int start = sm90::getSwizzledChunkByte(kernel.getRow(b, 0), constant32(b, 0), source.getRows());
    SmallVector<Value> registers;
    int64_t last = first + type.getDimSize(1) / sm90::kColumnGroup;
    for (int64_t group = first; group < last; group += chunkGroups) {
      Int byte = getChunkFrom(b, start + inChunk, group / chunkGroups, source.getRows());
      for (int64_t half = 0; half < chunkGroups; ++half)
        for (int64_t h = 0; h < sm90::kFragmentRows; ++h) {
          int64_t offset =
              half * sm90::kColumnGroup + h * sm90::kSwizzleRows * sm90::kPanelRowBytes;
          Value both = LLVM::LoadOp::create(
              b, pair, kernel.getSharedAddress(b, tile, byte + offset), /*alignment=*/2);
          for (int64_t i = 0; i < 2; ++i)
            registers.push_back(LLVM::ExtractElementOp::create(b, both, constant32(b, i)));
        }
    }
    return registers;
  }

  static SmallVector<Value> loadFragment(ImplicitLocOpBuilder &b, const Kernel &kernel,
                                         sm90::LoadSharedOp op, Value tile) {
    auto type = cast<RankedTensorType>(op.getType());
    MatrixAddresses addresses{b, kernel, op.getSource().getType(), tile};
    int64_t first = op.getColumn().value_or(0) / sm90::kColumnGroup;
    auto four = LLVM::LLVMStructType::getLiteral(b.getContext(),
                                                 SmallVector<Type>(kMatrices, b.getI32Type()));
    SmallVector<Value> registers;
    for (int64_t q = 0; q < type.getDimSize(1) / (2 * sm90::kColumnGroup); ++q) {
      Value loaded = NVVM::LdMatrixOp::create(
          b, four, addresses.get(constant32(b, static_cast<int32_t>(first)), q),
          b.getI32IntegerAttr(kMatrices), getMatrixLayout(b, /*transposed=*/false),
          getMatrixShape(b), getMatrixElement(b));
      for (int64_t matrix = 0; matrix < kMatrices; ++matrix) {
        auto [first, second] =
            unpackPair(b, type.getElementType(), LLVM::ExtractValueOp::create(b, loaded, matrix));
        registers.append({first, second});
      }
    }
    return registers;
  }
};

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

/// Where a thread's registers are parked: four, 16 bytes, of each thread of the warp side by side.
class ParkedRegisters {
public:
  ParkedRegisters(ImplicitLocOpBuilder &b, const Kernel &kernel, sm90::SmemType type, Value tile)
      : b(b), kernel(kernel), tile(tile) {
    Int warp = Int(b, kernel.groupThread) / kWarpThreads;
    first = warp * (type.getByteSize() / sm90::kWarpgroupWarps) +
            Int(b, kernel.lane) * sm90::kChunkBytes;
  }
  /// Of the registers from 4 `index` on.
  Value get(int64_t index) const {
    return kernel.getSharedAddress(b, tile,
                                   Int(b, first) + index * (kWarpThreads * sm90::kChunkBytes));
  }
  static constexpr int64_t kRegisters = sm90::kChunkBytes / sizeof(float);

private:
  static constexpr int64_t kWarpThreads = sm90::kWarpgroupThreads / sm90::kWarpgroupWarps;
  ImplicitLocOpBuilder &b;
  const Kernel &kernel;
  Value tile, first;
};

struct Park : public KernelPattern<sm90::ParkOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(sm90::ParkOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    ParkedRegisters parked(b, getKernel(op), op.getTarget().getType(), adaptor.getTarget()[0]);
    Type four = VectorType::get({ParkedRegisters::kRegisters}, b.getF32Type());
    ValueRange registers = adaptor.getValue();
    for (size_t at = 0; at < registers.size(); at += ParkedRegisters::kRegisters) {
      Value words = LLVM::UndefOp::create(b, four);
      for (int64_t i = 0; i < ParkedRegisters::kRegisters; ++i)
        words = LLVM::InsertElementOp::create(b, words, registers[at + i], constant32(b, i));
      LLVM::StoreOp::create(b, words, parked.get(at / ParkedRegisters::kRegisters),
                            sm90::kChunkBytes);
    }
    rewriter.eraseOp(op);
    return success();
  }
};

struct Unpark : public KernelPattern<sm90::UnparkOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(sm90::UnparkOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    ParkedRegisters parked(b, getKernel(op), op.getSource().getType(), adaptor.getSource()[0]);
    Type four = VectorType::get({ParkedRegisters::kRegisters}, b.getF32Type());
    int64_t count = getRegisterCount(cast<RankedTensorType>(op.getType()));
    SmallVector<Value> registers;
    for (int64_t at = 0; at < count; at += ParkedRegisters::kRegisters) {
      Value words = LLVM::LoadOp::create(b, four, parked.get(at / ParkedRegisters::kRegisters),
                                         sm90::kChunkBytes);
      for (int64_t i = 0; i < ParkedRegisters::kRegisters; ++i)
        registers.push_back(LLVM::ExtractElementOp::create(b, words, constant32(b, i)));
    }
    rewriter.replaceOpWithMultiple(op, {registers});
    return success();
  }
};

/// Eight lanes zero the 128 bytes of a row of each panel: whole rows, so that the
/// swizzle does not matter. A loop, since it runs for the last rows of a request
/// only and should not take registers.
struct ZeroRows : public KernelPattern<sm90::ZeroRowsOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(sm90::ZeroRowsOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    const Kernel &kernel = getKernel(op);
    sm90::SmemType type = op.getTarget().getType();
    constexpr int64_t lanes = sm90::kPanelChunks;
    int64_t rows = type.getRows(), step = kernel.getThreads() / lanes;
    Value first = arith::MaxSIOp::create(b, toI64(b, adaptor.getFirst()[0]), constant64(b, 0));
    first = arith::MinSIOp::create(b, first, constant64(b, rows));
    first = arith::TruncIOp::create(b, b.getI32Type(), first);
    Int thread(b, kernel.thread);
    auto loop = scf::ForOp::create(b, Int(b, first) / step * step, constant32(b, rows),
                                   constant32(b, step));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Int row = Int(b, loop.getInductionVar()) + thread / lanes;
    Value isLast = compare(b, arith::CmpIPredicate::sge, row, first);
    if (rows % step != 0)
      isLast = andOf(b, isLast, compare(b, arith::CmpIPredicate::slt, row, constant32(b, rows)));
    emitIf(b, isLast, [&] {
      Value zero = arith::ConstantOp::create(
          b, b.getZeroAttr(VectorType::get({sm90::kChunkBytes / 4}, b.getI32Type())));
      Int byte = row * sm90::kPanelRowBytes + thread % lanes * sm90::kChunkBytes;
      for (int64_t panel = 0; panel < type.getPanels(); ++panel)
        LLVM::StoreOp::create(
            b, zero,
            kernel.getSharedAddress(b, adaptor.getTarget()[0], byte + panel * type.getPanelBytes()),
            sm90::kChunkBytes);
    });
    rewriter.eraseOp(op);
    return success();
  }
};
} // namespace

void mlac::sm90nvvm::populateSharedTilePatterns(const TypeConverter &converter,
                                                RewritePatternSet &patterns, const Kernel &kernel) {
  patterns.add<Alloc, Slice>(converter, patterns.getContext());
  patterns.add<StoreShared, StoreStaged, LoadShared, TransformCodes, Park, Unpark, ZeroRows>(
      converter, patterns.getContext(), kernel);
}
