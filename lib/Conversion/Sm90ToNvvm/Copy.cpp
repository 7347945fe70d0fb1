//===- Copy.cpp - global to shared memory ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A copy is shared by all threads of the CTA or role. With 128 / vector_bytes lanes to a
// panel's row, thread t starts at
//
//   row    t / lanes, then every threads / lanes rows
//   bytes  (t % lanes) * vector_bytes of each panel of that row
//
// so that lanes read consecutive bytes of global memory, the row (with its
// table look-up and its bounds) is found once for all panels, and, with 16-byte
// vectors, eight lanes fill one 128-byte row: every bank once.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"
#include "PinThread.h"
#include "TileAccess.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlac::sm90nvvm;

/// Rows steps that are written out; more become a loop.
static constexpr int64_t kUnrolledRowSteps = 4;

namespace {
/// Where the pieces of one copy go and how big they are.
struct CopyPlan {
  sm90::SmemType type;
  Value target;
  int64_t elementBytes, vectorBytes, threads;
  bool isAsync() const { return vectorBytes > elementBytes; }
  int64_t getVectorElements() const { return vectorBytes / elementBytes; }
};
} // namespace

static int64_t getByteWidth(Type type) { return type.getIntOrFloatBitWidth() / 8; }

/// Calls `body(step)` for 0 <= step < count, unrolled if short.
static void emitLoop(ImplicitLocOpBuilder &b, int64_t count, function_ref<void(Int)> body) {
  if (count <= kUnrolledRowSteps) {
    for (int64_t step = 0; step < count; ++step)
      body(constant32(b, step));
    return;
  }
  auto loop = scf::ForOp::create(b, constant32(b, 0), constant32(b, count), constant32(b, 1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  body(Int(b, loop.getInductionVar()));
}

/// `cp.async` of one vector. `bytes` (i32) of it exist, the rest becomes zero;
/// null: all. With 0 bytes the source is not read (PTX ISA, "cp.async").
static void emitVectorCopy(ImplicitLocOpBuilder &b, Value target, Value source, int64_t vectorBytes,
                           Value bytes) {
  // Only 16-byte copies may bypass L1.
  auto cache =
      vectorBytes == 16 ? NVVM::LoadCacheModifierKind::CG : NVVM::LoadCacheModifierKind::CA;
  NVVM::CpAsyncOp::create(b, target, source, vectorBytes, cache, bytes);
}

/// Bytes of the vector at tile column `column` that the view has, from 0 to
/// vectorBytes; null: all.
static Value getExistingBytes(ImplicitLocOpBuilder &b, const CopyPlan &plan,
                              const TileAccess &access, const Row &row, Int column, bool known) {
  Value bytes;
  if (!known) {
    Int left(b, b.createOrFold<arith::SubIOp>(access.columns,
                                              Int(b, access.firstColumn) + toI64(b, column)));
    Value clamped = b.createOrFold<arith::MinSIOp>(left, constant64(b, plan.getVectorElements()));
    clamped = b.createOrFold<arith::MaxSIOp>(clamped, constant64(b, 0));
    bytes = Int(b, b.createOrFold<arith::TruncIOp>(b.getI32Type(), clamped)) * plan.elementBytes;
  }
  if (!row.inside)
    return bytes;
  if (!bytes)
    bytes = constant32(b, plan.vectorBytes);
  return selectOf(b, row.inside, bytes, constant32(b, 0));
}

/// Copies one piece: by `cp.async`, or an element by load and store.
static void emitPiece(ImplicitLocOpBuilder &b, const CopyPlan &plan, const TileAccess &access,
                      const Row &row, Int column, Value target, bool known) {
  Value source = access.getAddress(b, row, column);
  if (plan.isAsync())
    return emitVectorCopy(b, target, source, plan.vectorBytes,
                          getExistingBytes(b, plan, access, row, column, known));
  Value inside = andOf(b, row.inside, access.isColumnInside(b, column, known));
  Value value =
      LLVM::LoadOp::create(b, access.elementType, access.getLoadAddress(b, source, inside));
  LLVM::StoreOp::create(b, value, target);
}

/// Copies into a swizzled tile, in the order described on top.
static void emitSwizzledCopy(ImplicitLocOpBuilder &b, const CopyPlan &plan,
                             const TileAccess &access, Int thread) {
  int64_t rows = plan.type.getRows(), columns = plan.type.getColumns();
  int64_t panel = plan.type.getPanelColumns();
  int64_t lanes = sm90::kPanelRowBytes / plan.vectorBytes, rowsPerStep = plan.threads / lanes;
  bool known = access.areColumnsInside(columns);
  Int firstRow = thread / lanes, byte = thread % lanes * plan.vectorBytes;
  Int firstColumn = thread % lanes * plan.getVectorElements();
  emitLoop(b, llvm::divideCeil(rows, rowsPerStep), [&](Int step) {
    Int row = firstRow + step * rowsPerStep;
    Value exists = rows % rowsPerStep == 0
                       ? Value()
                       : compare(b, arith::CmpIPredicate::ult, row, constant32(b, rows));
    emitIf(b, exists, [&] {
      Row found = access.getRow(b, row);
      Value rowTarget =
          moveAddress(b, plan.target,
                      sm90::getSwizzledChunkByte(row, byte / sm90::kChunkBytes, rows) +
                          byte % sm90::kChunkBytes);
      for (int64_t start = 0; start < columns; start += panel) {
        // The last panel may be narrower than its rows.
        int64_t width = std::min(columns - start, panel);
        Value inTile = width == panel ? Value()
                                      : compare(b, arith::CmpIPredicate::ult, firstColumn,
                                                constant32(b, width));
        emitIf(b, inTile, [&] {
          Value target =
              moveAddress(b, rowTarget, constant32(b, start / panel * plan.type.getPanelBytes()));
          emitPiece(b, plan, access, found, firstColumn + start, target, known);
        });
      }
    });
  });
}

/// Copies into a dense row-major tile: rows in vectors that divide them, else element by element.
static void emitLinearCopy(ImplicitLocOpBuilder &b, CopyPlan plan, const TileAccess &access,
                           Int thread) {
  int64_t columns = plan.type.getColumns(), elements = plan.type.getRows() * columns;
  bool known = access.areColumnsInside(columns);
  if (columns * plan.elementBytes % plan.vectorBytes != 0)
    plan.vectorBytes = plan.elementBytes;
  int64_t width = plan.getVectorElements();
  emitLoop(b, llvm::divideCeil(elements, plan.threads * width), [&](Int step) {
    Int element = (thread + step * plan.threads) * width;
    emitIf(b, compare(b, arith::CmpIPredicate::ult, element, constant32(b, elements)), [&] {
      Row row = access.getRow(b, element / columns);
      Value target = moveAddress(b, plan.target, element * plan.elementBytes);
      emitPiece(b, plan, access, row, element % columns, target, known);
    });
  });
}

static void emitCopy(ImplicitLocOpBuilder &b, const Kernel &kernel, const TileAccess &access,
                     sm90::SmemType type, Value tile, int64_t vectorBytes) {
  CopyPlan plan{type, kernel.getSharedAddress(b, tile), getByteWidth(type.getElementType()),
                vectorBytes, kernel.getThreads()};
  Value thread = pinThread(b, kernel).thread;
  if (type.getLayout() == sm90::SmemLayout::Linear)
    emitLinearCopy(b, plan, access, Int(b, thread));
  else
    emitSwizzledCopy(b, plan, access, Int(b, thread));
}

namespace {
/// Of any op that copies rows to a shared tile.
template <typename Op> struct CopyTile : public KernelPattern<Op> {
  using KernelPattern<Op>::KernelPattern;
  LogicalResult matchAndRewrite(Op op, typename KernelPattern<Op>::OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    const Kernel &kernel = this->getKernel(op);
    TileAccess access = getAccess(b, kernel, op, adaptor);
    emitCopy(b, kernel, access, op.getTarget().getType(), adaptor.getTarget()[0],
             op.getVectorBytes());
    rewriter.eraseOp(op);
    return success();
  }
};
} // namespace

void mlac::sm90nvvm::populateCopyPatterns(const TypeConverter &converter,
                                          RewritePatternSet &patterns, const Kernel &kernel) {
  patterns.add<CopyTile<sm90::CopyOp>, CopyTile<sm90::CopyRowsOp>, CopyTile<sm90::CopyPagedOp>>(
      converter, patterns.getContext(), kernel);
}
