//===- SharedTile.cpp - shared tiles, and fragments to and from them ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Places of tiles, and fragments to and from them by Matrices.h. Codes: CodeTiles.cpp.
//
//===----------------------------------------------------------------------===//

#include "Matrices.h"
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

namespace {
struct StoreShared : public KernelPattern<sm90::StoreSharedOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(sm90::StoreSharedOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    const Kernel &kernel = getKernel(op);
    auto type = cast<RankedTensorType>(op.getValue().getType());
    int64_t split = sm90::isFragment(type) ? sm90::getColumnSplit(type) : 1;
    emitIf(b, kernel.isWriter(b, split), [&] {
      if (sm90::isRows(type))
        storeRows(b, kernel, type, adaptor.getTarget()[0], adaptor.getValue());
      else if (sm90::isColumns(type))
        storeColumns(b, kernel, type, adaptor.getTarget()[0], adaptor.getValue());
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

  /// The first quad writes pairs of neighbours: all others hold the same.
  static void storeColumns(ImplicitLocOpBuilder &b, const Kernel &kernel, RankedTensorType type,
                           Value tile, ValueRange registers) {
    int64_t bytes = type.getElementTypeBitWidth() / 8;
    Value isFirstQuad =
        compare(b, arith::CmpIPredicate::ult, kernel.groupThread, constant32(b, sm90::kQuadLanes));
    Type pairType = VectorType::get({2}, type.getElementType());
    emitIf(b, isFirstQuad, [&] {
      Int first = sm90::getFragmentColumn(Int(b, kernel.groupThread));
      for (int64_t j = 0; j < type.getDimSize(0) / sm90::kColumnGroup; ++j) {
        Value pair = LLVM::UndefOp::create(b, pairType);
        for (int64_t i : {0, 1})
          pair = LLVM::InsertElementOp::create(b, pair, registers[2 * j + i], constant32(b, i));
        Int element = first + j * sm90::kColumnGroup;
        LLVM::StoreOp::create(b, pair, kernel.getSharedAddress(b, tile, element * bytes),
                              2 * bytes);
      }
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
    SmallVector<Value> registers = sm90::isRows(type)      ? loadRows(b, kernel, op, tile)
                                   : sm90::isColumns(type) ? loadColumns(b, kernel, op, tile)
                                   : isa<Float8E4M3FNType>(type.getElementType())
                                       ? loadCodes(b, kernel, op, tile)
                                       : loadFragment(b, kernel, op, tile);
    rewriter.replaceOpWithMultiple(op, {registers});
    return success();
  }

private:
  /// Of a tile of one row, or a column of one with a row for each element.
  static SmallVector<Value> loadRows(ImplicitLocOpBuilder &b, const Kernel &kernel,
                                     sm90::LoadSharedOp op, Value tile) {
    Type element = cast<RankedTensorType>(op.getType()).getElementType();
    int64_t bytes = element.getIntOrFloatBitWidth() / 8, column = op.getColumn().value_or(0);
    int64_t stride = op.getColumn() ? op.getSource().getType().getColumns() : 1;
    SmallVector<Value> registers;
    for (int64_t h = 0; h < sm90::kFragmentRows; ++h)
      registers.push_back(LLVM::LoadOp::create(
          b, element,
          kernel.getSharedAddress(b, tile, (kernel.getRow(b, h) * stride + column) * bytes)));
    return registers;
  }

  /// Of a tile of one row, by pairs of neighbours.
  static SmallVector<Value> loadColumns(ImplicitLocOpBuilder &b, const Kernel &kernel,
                                        sm90::LoadSharedOp op, Value tile) {
    auto type = cast<RankedTensorType>(op.getType());
    Type element = type.getElementType(), pair = VectorType::get({2}, element);
    int64_t bytes = element.getIntOrFloatBitWidth() / 8;
    Int first = sm90::getFragmentColumn(Int(b, kernel.groupThread));
    SmallVector<Value> registers;
    for (int64_t group = 0; group < type.getDimSize(0) / sm90::kColumnGroup; ++group) {
      Int column = first + group * sm90::kColumnGroup;
      Value both = LLVM::LoadOp::create(b, pair, kernel.getSharedAddress(b, tile, column * bytes),
                                        /*alignment=*/2 * bytes);
      for (int64_t i = 0; i < 2; ++i)
        registers.push_back(LLVM::ExtractElementOp::create(b, both, constant32(b, i)));
    }
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
    auto place = [&](size_t register4) {
      Value own = parked.get(static_cast<int64_t>(register4));
      std::optional<int64_t> rank = op.getRank();
      return rank ? mapToRank(b, own, constant32(b, *rank)) : own;
    };
    ValueRange registers = adaptor.getValue();
    for (size_t at = 0; at < registers.size(); at += ParkedRegisters::kRegisters) {
      Value words = LLVM::UndefOp::create(b, four);
      for (int64_t i = 0; i < ParkedRegisters::kRegisters; ++i)
        words = LLVM::InsertElementOp::create(b, words, registers[at + i], constant32(b, i));
      LLVM::StoreOp::create(b, words, place(at / ParkedRegisters::kRegisters), sm90::kChunkBytes);
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
  patterns.add<StoreShared, StoreStaged, LoadShared, Park, Unpark, ZeroRows>(
      converter, patterns.getContext(), kernel);
}
