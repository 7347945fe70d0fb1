//===- FragmentMemory.cpp - fragments to and from global memory ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each thread moves the elements it holds: two rows, and of every group of eight
// columns two neighbours, or runs of more (see Layout.h). A row's address and bounds are found
// once; columns are only checked where the types do not say that they are inside.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"
#include "PinThread.h"
#include "TileAccess.h"

#include "mla/Dialect/Sm90/IR/Sm90CodeOps.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlac::sm90nvvm;

static int64_t getByteWidth(Type type) { return std::max(type.getIntOrFloatBitWidth() / 8, 1u); }

namespace {
/// One access of a thread: `count` neighbouring columns, at `column` columns to the
/// right of the thread's first; `reg` is the first's register. Of pairs a column is two elements,
/// one of each tile.
struct Access {
  int64_t reg, column, count;
  /// Register of element `i`: pairs are four registers apart.
  int64_t getRegister(int64_t i) const { return reg + i / 2 * 4 + i % 2; }
};
} // namespace

/// The widest access of a thread.
static constexpr int64_t kMaxAccessBytes = 16;

/// The registers of one tile, or of two whose elements in memory are pairs.
using Tiles = SmallVector<SmallVector<Value>, 2>;

/// The accesses that cover half `h` of a fragment with runs of `run` columns, of so many `tiles`.
static SmallVector<Access> getAccesses(RankedTensorType type, int64_t h, bool paired, int64_t run,
                                       size_t tiles) {
  int64_t width = getByteWidth(type.getElementType()) * static_cast<int64_t>(tiles);
  int64_t count = paired ? std::min(run, std::max<int64_t>(kMaxAccessBytes / width, 2)) : 1;
  SmallVector<Access> accesses;
  for (int64_t element = 0; element < getPartColumns(type) / sm90::kQuadLanes; element += count) {
    int64_t j = element / 2, i = element % 2;
    accesses.push_back({sm90::getFragmentRegister(j, h, i), sm90::getRunColumn(j, i, run), count});
  }
  return accesses;
}

static Type getAccessType(Type elementType, int64_t count) {
  return count == 1 ? elementType : Type(VectorType::get({count}, elementType));
}

/// Where access `access` of a row is. The row's first address is computed once;
/// constant strides make the rest immediate offsets.
static Value getAccessAddress(ImplicitLocOpBuilder &b, const TileAccess &tile, Value rowAddress,
                              int64_t column) {
  return getElementAddress(b, rowAddress, tile.elementType,
                           constant64(b, column) * Int(b, tile.columnStride));
}

//===----------------------------------------------------------------------===//
// Loads
//===----------------------------------------------------------------------===//

static void loadAccess(ImplicitLocOpBuilder &b, Type elementType, Value address,
                       const Access &access, Tiles &tiles) {
  int64_t count = access.count * static_cast<int64_t>(tiles.size()), element = 0;
  Value loaded = LLVM::LoadOp::create(b, getAccessType(elementType, count), address,
                                      count * getByteWidth(elementType));
  for (int64_t i = 0; i < access.count; ++i)
    for (SmallVector<Value> &registers : tiles)
      registers[access.getRegister(i)] =
          count == 1
              ? loaded
              : LLVM::ExtractElementOp::create(b, loaded, constant32(b, element++)).getResult();
}

/// Whether a row of `columns` columns, laid out like the tile's, fits the zeros.
static bool fitsZeros(const TileAccess &tile, int64_t columns) {
  std::optional<int64_t> stride = getConstant(tile.columnStride);
  return stride && *stride >= 0 && columns * *stride * getByteWidth(tile.elementType) <= kZeroBytes;
}

/// Whether a column, whose rows are all inside, fits the zeros from its first row on.
static bool haveWholeColumns(const TileAccess &tile) {
  if (!tile.areRowsInside(sm90::kTileRows))
    return false;
  std::optional<int64_t> stride = getConstant(tile.rowStride);
  int64_t rows = *getConstant(tile.firstRow) + sm90::kTileRows;
  return stride && *stride >= 0 && rows * *stride * getByteWidth(tile.elementType) <= kZeroBytes;
}

/// Columns are whole or absent: an absent one is exchanged for zeros at once, and rows
/// are immediate offsets, also those of other loads from the same columns.
static void emitLoadByColumns(ImplicitLocOpBuilder &b, const Kernel &kernel, const TileAccess &tile,
                              RankedTensorType type, bool paired, Tiles &tiles) {
  int64_t rowStride = *getConstant(tile.rowStride), firstRow = *getConstant(tile.firstRow);
  Int column = kernel.getColumn(b, type);
  Int elements = Int(b, tile.viewOffset) + toI64(b, kernel.getRow(b, 0)) * rowStride +
                 (Int(b, tile.firstColumn) + toI64(b, column)) * Int(b, tile.columnStride);
  Value address = getElementAddress(b, tile.base, tile.elementType, elements);
  int64_t last = 0;
  for (const Access &access :
       getAccesses(type, /*h=*/0, paired, kernel.getRun(type), tiles.size())) {
    // From one to the next: a product with the stride for each would cost more.
    address = getElementAddress(b, address, tile.elementType,
                                Int(b, tile.columnStride) * (access.column - last));
    last = access.column;
    Value inside = tile.isColumnInside(b, column + access.column, /*known=*/false);
    Value start = tile.getLoadAddress(b, address, inside);
    for (int64_t h = 0; h < sm90::kFragmentRows; ++h) {
      // Rows of the halves are 8 apart, as their registers are 2.
      Value below = constant64(b, (firstRow + h * sm90::kColumnGroup) * rowStride);
      Access inHalf{access.reg + 2 * h, access.column, access.count};
      loadAccess(b, tile.elementType, getElementAddress(b, start, tile.elementType, below), inHalf,
                 tiles);
    }
  }
}

static Tiles emitLoad(ImplicitLocOpBuilder &b, const Kernel &kernel, const TileAccess &tile,
                      RankedTensorType type, bool paired, size_t count = 1) {
  Tiles tiles(count, SmallVector<Value>(getRegisterCount(type)));
  bool known = tile.areColumnsInside(type.getDimSize(1));
  // If rows are whole or absent, an absent one is exchanged for zeros at once.
  bool wholeRows = known && fitsZeros(tile, getPartColumns(type));
  if (!known && haveWholeColumns(tile)) {
    emitLoadByColumns(b, kernel, tile, type, paired, tiles);
    return tiles;
  }
  Int firstColumn = kernel.getColumn(b, type);
  for (int64_t h = 0; h < sm90::kFragmentRows; ++h) {
    Row row = tile.getRow(b, kernel.getRow(b, h));
    Value rowAddress = tile.getAddress(b, row, firstColumn);
    if (wholeRows)
      rowAddress = tile.getLoadAddress(b, rowAddress, row.inside);
    for (const Access &access : getAccesses(type, h, paired, kernel.getRun(type), count)) {
      Value address = getAccessAddress(b, tile, rowAddress, access.column);
      if (!wholeRows)
        address = tile.getLoadAddress(
            b, address,
            andOf(b, row.inside, tile.isColumnInside(b, firstColumn + access.column, known)));
      loadAccess(b, tile.elementType, address, access, tiles);
    }
  }
  return tiles;
}

/// The elements of a thread's rows in the first column.
static SmallVector<Value> emitColumnLoad(ImplicitLocOpBuilder &b, const Kernel &kernel,
                                         const TileAccess &tile) {
  SmallVector<Value> registers;
  for (int64_t h = 0; h < sm90::kFragmentRows; ++h) {
    Row row = tile.getRow(b, kernel.getRow(b, h));
    Value address = tile.getAddress(b, row, constant32(b, 0));
    registers.push_back(
        LLVM::LoadOp::create(b, tile.elementType, tile.getLoadAddress(b, address, row.inside)));
  }
  return registers;
}

/// Position in the vector of register `reg` of a row or column vector.
static Int getVectorIndex(ImplicitLocOpBuilder &b, const Kernel &kernel, RankedTensorType type,
                          int64_t reg) {
  if (sm90::isRows(type))
    return kernel.getRow(b, reg);
  return kernel.getColumn(b, type) + sm90::getRunColumn(reg / 2, reg % 2, kernel.getRun(type));
}

/// The first element of a view's row; 0 where it is outside, which is not read.
static Value loadElement(ImplicitLocOpBuilder &b, const Kernel &kernel, const View &view,
                         const Row &row) {
  Value address = getElementAddress(b, view.base, view.elementType, row.offset);
  return LLVM::LoadOp::create(b, view.elementType, selectOf(b, row.inside, address, kernel.zeros));
}

/// Loads the elements of a row or column vector that a thread holds.
static SmallVector<Value> emitVectorLoad(ImplicitLocOpBuilder &b, const Kernel &kernel,
                                         RankedTensorType type, const View &view, Value offset) {
  SmallVector<Value> registers;
  for (int64_t reg = 0; reg < getRegisterCount(type); ++reg) {
    Int index = Int(b, offset) + toI64(b, getVectorIndex(b, kernel, type, reg));
    registers.push_back(
        loadElement(b, kernel, view, getViewRow(b, view, index, view.sizes.size() == 2)));
  }
  return registers;
}

//===----------------------------------------------------------------------===//
// Stores
//===----------------------------------------------------------------------===//

static void storeAccess(ImplicitLocOpBuilder &b, const TileAccess &tile, Value rowAddress,
                        const Access &access, ArrayRef<ValueRange> tiles) {
  int64_t count = access.count * static_cast<int64_t>(tiles.size()), element = 0;
  Value value = tiles.front()[access.reg];
  if (count > 1) {
    value = LLVM::UndefOp::create(b, getAccessType(tile.elementType, count));
    for (int64_t i = 0; i < access.count; ++i)
      for (ValueRange registers : tiles)
        value = LLVM::InsertElementOp::create(b, value, registers[access.getRegister(i)],
                                              constant32(b, element++));
  }
  LLVM::StoreOp::create(b, value, getAccessAddress(b, tile, rowAddress, access.column),
                        count * getByteWidth(tile.elementType));
}

/// Of one tile, or of two whose elements become pairs.
static void emitStore(ImplicitLocOpBuilder &b, const Kernel &kernel, const TileAccess &tile,
                      RankedTensorType type, bool paired, ArrayRef<ValueRange> tiles) {
  bool known = tile.areColumnsInside(type.getDimSize(1));
  Int firstColumn = kernel.getColumn(b, type);
  emitIf(b, kernel.isWriter(b, sm90::getColumnSplit(type)), [&] {
    for (int64_t h = 0; h < sm90::kFragmentRows; ++h) {
      Row row = tile.getRow(b, kernel.getRow(b, h));
      emitIf(b, row.inside, [&] {
        Value rowAddress = tile.getAddress(b, row, firstColumn);
        for (const Access &access : getAccesses(type, h, paired, kernel.getRun(type), tiles.size()))
          emitIf(b, tile.isColumnInside(b, firstColumn + access.column, known),
                 [&] { storeAccess(b, tile, rowAddress, access, tiles); });
      });
    }
  });
}

/// Where a fragment's rows stand in memory: as they are, or 16w + 2t + e of half h at 16w + 4t + 2h
/// + e, or 16w + g of half h at 16w + 2g + h.
enum class RowOrder { Plain, Runs, Pairs };

static int64_t getHalfDistance(RowOrder order) {
  switch (order) {
  case RowOrder::Plain:
    return sm90::kColumnGroup;
  case RowOrder::Runs:
    return 2;
  case RowOrder::Pairs:
    return 1;
  }
  llvm_unreachable("unknown order");
}

/// view[first + column, second + row] = value[row, column]. Eight lanes have
/// consecutive rows of the fragment, so they write consecutive elements, or such between which the
/// other half's are.
static void emitTransposedStore(ImplicitLocOpBuilder &b, const Kernel &kernel,
                                const TileAccess &tile, RankedTensorType type, RowOrder order,
                                ValueRange registers) {
  bool known = tile.areColumnsInside(sm90::kTileRows);
  Int firstColumn = kernel.getColumn(b, type);
  emitIf(b, kernel.isWriter(b, sm90::getColumnSplit(type)), [&] {
    Int fragmentRow = kernel.getRow(b, 0);
    Int inGroup = fragmentRow % sm90::kColumnGroup;
    if (order == RowOrder::Runs)
      fragmentRow = fragmentRow + inGroup / 2 * 2;
    else if (order == RowOrder::Pairs)
      fragmentRow = fragmentRow + inGroup;
    for (int64_t reg = 0; reg < getRegisterCount(type); reg += reg % 2 ? 3 : 1) {
      // Registers reg and reg + 2 are the two rows of one column.
      Row row = tile.getRow(b, firstColumn + (reg / 4 * sm90::kColumnGroup + reg % 2));
      emitIf(b, row.inside, [&] {
        Value address = tile.getAddress(b, row, fragmentRow);
        for (int64_t h = 0; h < sm90::kFragmentRows; ++h) {
          int64_t below = h * getHalfDistance(order);
          emitIf(b, tile.isColumnInside(b, fragmentRow + below, known), [&] {
            LLVM::StoreOp::create(b, registers[reg + 2 * h],
                                  getAccessAddress(b, tile, address, below));
          });
        }
      });
    }
  });
}

/// Of the first warpgroup, one lane of each quad stores a row vector. All quads have
/// a whole column vector: each stores its share of the groups of columns.
static void emitVectorStore(ImplicitLocOpBuilder &b, const Kernel &kernel, RankedTensorType type,
                            const View &view, Value offset, ValueRange registers) {
  constexpr int64_t quads = sm90::kWarpgroupThreads / sm90::kQuadLanes;
  Int thread(b, kernel.groupThread);
  auto isStorer = [&](int64_t reg) {
    bool isRows = sm90::isRows(type);
    Int number = isRows ? sm90::getFragmentColumn(thread) : thread / sm90::kQuadLanes;
    return compare(b, arith::CmpIPredicate::eq, number,
                   constant32(b, isRows ? 0 : reg / 2 % quads));
  };
  emitIf(b, kernel.isWriter(b, 1), [&] {
    for (int64_t reg = 0; reg < getRegisterCount(type); ++reg) {
      Int index = Int(b, offset) + toI64(b, getVectorIndex(b, kernel, type, reg));
      Row row = getViewRow(b, view, index, view.sizes.size() == 2);
      emitIf(b, andOf(b, isStorer(reg), row.inside), [&] {
        LLVM::StoreOp::create(b, registers[reg],
                              getElementAddress(b, view.base, view.elementType, row.offset));
      });
    }
  });
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

namespace {
struct Load : public KernelPattern<sm90::LoadOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(sm90::LoadOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    const Kernel &kernel = getKernel(op);
    auto type = cast<RankedTensorType>(op.getType());
    View view = getView(b, cast<MemRefType>(op.getView().getType()), adaptor.getView());
    if (sm90::isPartial(type))
      return rewriter.notifyMatchFailure(op, "a partial has no place in memory");
    Value first = toI64(b, adaptor.getOffsets()[0][0]);
    SmallVector<Value> registers;
    if (type.getRank() == 1)
      registers = emitVectorLoad(b, kernel, type, view, first);
    else
      registers =
          emitLoad(b, kernel,
                   getDenseAccess(kernel, view, first, toI64(b, adaptor.getOffsets()[1][0])), type,
                   op.getPaired())
              .front();
    rewriter.replaceOpWithMultiple(op, {registers});
    return success();
  }
};

struct HasGap : public KernelPattern<sm90::HasGapOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(sm90::HasGapOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    const Kernel &kernel = getKernel(op);
    View list = getView(b, op.getList().getType(), adaptor.getList());
    Int first = toI64(b, adaptor.getFirst()[0]) + toI64(b, kernel.lane);
    Value isNamed;
    for (int64_t entry = 0; entry < op.getBlock(); entry += kWarpThreads) {
      Row row = getViewRow(b, list, first + entry, /*inGroups=*/false);
      Value isBelow = compare(b, arith::CmpIPredicate::ult, loadElement(b, kernel, list, row),
                              adaptor.getRows()[0]);
      isNamed = andOf(b, isNamed, andOf(b, row.inside, isBelow));
    }
    Value isGap = compare(b, arith::CmpIPredicate::eq, isNamed,
                          arith::ConstantOp::create(b, b.getBoolAttr(false)));
    rewriter.replaceOpWithNewOp<NVVM::VoteSyncOp>(op, b.getI1Type(), constant32(b, -1), isGap,
                                                  NVVM::VoteSyncKind::any);
    return success();
  }
};

/// Of any op that loads rows by an index.
template <typename Op> struct LoadTile : public KernelPattern<Op> {
  using KernelPattern<Op>::KernelPattern;
  LogicalResult matchAndRewrite(Op op, typename KernelPattern<Op>::OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    const Kernel &kernel = this->getKernel(op);
    TileAccess access = getAccess(b, kernel, op, adaptor);
    Tiles tiles = emitLoad(b, kernel, access, cast<RankedTensorType>(op.getType()), op.getPaired());
    rewriter.replaceOpWithMultiple(op, {tiles.front()});
    return success();
  }
};

struct LoadCodeScales : public KernelPattern<sm90::LoadCodeScalesOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(sm90::LoadCodeScalesOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    const Kernel &kernel = getKernel(op);
    TileAccess access = getAccess(b, kernel, op, adaptor);
    rewriter.replaceOpWithMultiple(op, {emitColumnLoad(b, kernel, access)});
    return success();
  }
};

/// Registers of all tiles belong to the same element.
struct LoadElements : public KernelPattern<sm90::LoadElementsOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(sm90::LoadElementsOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    const Kernel &kernel = getKernel(op);
    View view = getView(b, cast<MemRefType>(op.getView().getType()), adaptor.getView());
    SmallVector<Value> registers;
    for (int64_t reg = 0; reg < getRegisterCount(cast<RankedTensorType>(op.getType())); ++reg) {
      Int element(b, view.offset);
      Value inside;
      for (auto [index, size, stride] : llvm::zip(adaptor.getIndices(), view.sizes, view.strides)) {
        Int at = toI64(b, index[reg]);
        // Unsigned, so that negative indices are outside too.
        inside = andOf(b, inside, compare(b, arith::CmpIPredicate::ult, at, size));
        element = element + at * Int(b, stride);
      }
      Value address = getElementAddress(b, view.base, view.elementType, element);
      registers.push_back(
          LLVM::LoadOp::create(b, view.elementType, selectOf(b, inside, address, kernel.zeros)));
    }
    rewriter.replaceOpWithMultiple(op, {registers});
    return success();
  }
};

struct Store : public KernelPattern<sm90::StoreOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(sm90::StoreOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Kernel kernel = pinThread(b, getKernel(op));
    auto type = cast<RankedTensorType>(op.getValue().getType());
    View view = getView(b, cast<MemRefType>(op.getView().getType()), adaptor.getView());
    Value first = toI64(b, adaptor.getOffsets()[0][0]);
    if (type.getRank() == 1) {
      emitVectorStore(b, kernel, type, view, first, adaptor.getValue());
    } else {
      TileAccess access = getDenseAccess(kernel, view, first, toI64(b, adaptor.getOffsets()[1][0]));
      if (op.getTransposed())
        emitTransposedStore(b, kernel, access, type, RowOrder::Plain, adaptor.getValue());
      else
        emitStore(b, kernel, access, type, op.getPaired(), {adaptor.getValue()});
    }
    rewriter.eraseOp(op);
    return success();
  }
};

struct LoadPairs : public KernelPattern<sm90::LoadPairsOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(sm90::LoadPairsOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    const Kernel &kernel = getKernel(op);
    TileAccess access = getAccess(b, kernel, op, adaptor);
    Tiles tiles = emitLoad(b, kernel, access, cast<RankedTensorType>(op.getFirst().getType()),
                           /*paired=*/true, op->getNumResults());
    rewriter.replaceOpWithMultiple(op, SmallVector<ValueRange>(tiles.begin(), tiles.end()));
    return success();
  }
};

struct StorePairs : public KernelPattern<sm90::StorePairsOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(sm90::StorePairsOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Kernel kernel = pinThread(b, getKernel(op));
    TileAccess access = getAccess(b, kernel, op, adaptor);
    emitStore(b, kernel, access, cast<RankedTensorType>(op.getFirst().getType()), /*paired=*/true,
              {adaptor.getFirst(), adaptor.getSecond()});
    rewriter.eraseOp(op);
    return success();
  }
};

/// A thread's columns are as in a kernel whose fragments have runs of four (Layout.h).
struct StoreRuns : public KernelPattern<sm90::StoreRunsOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(sm90::StoreRunsOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Kernel kernel = pinThread(b, getKernel(op));
    auto type = cast<RankedTensorType>(op.getValue().getType());
    TileAccess access = getAccess(b, kernel, op, adaptor);
    if (op.getTransposed()) {
      emitTransposedStore(b, kernel, access, type, op.getPairs() ? RowOrder::Pairs : RowOrder::Runs,
                          adaptor.getValue());
    } else {
      kernel.columnRun = 4;
      emitStore(b, kernel, access, type, op.getPaired(), {adaptor.getValue()});
    }
    rewriter.eraseOp(op);
    return success();
  }
};

struct StoreSlots : public KernelPattern<sm90::StoreSlotsOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(sm90::StoreSlotsOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    const Kernel &kernel = getKernel(op);
    TileAccess access = getAccess(b, kernel, op, adaptor);
    emitStore(b, kernel, access, cast<RankedTensorType>(op.getValue().getType()), op.getPaired(),
              {adaptor.getValue()});
    rewriter.eraseOp(op);
    return success();
  }
};
} // namespace

void mlac::sm90nvvm::populateFragmentMemoryPatterns(const TypeConverter &converter,
                                                    RewritePatternSet &patterns,
                                                    const Kernel &kernel) {
  patterns.add<Load, HasGap, LoadTile<sm90::LoadRowsOp>, LoadTile<sm90::LoadPagedOp>,
               LoadCodeScales, LoadElements, LoadPairs, Store, StorePairs, StoreRuns, StoreSlots>(
      converter, patterns.getContext(), kernel);
}
