//===- LoopOverPrograms.cpp - few programs that do the work of many ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernel's scalars are cloned to where what they depend on is known: those of a
// request into the loop over requests, the others into the loop over items. All
// index arithmetic of items is of 32 bits: a division of 64 takes a hundred
// instructions.
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Tile/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::tile {
#define GEN_PASS_DEF_TILELOOPOVERPROGRAMS
#include "mla/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace mlir::tile

using namespace mlir;
using namespace mlir::tile;

//===----------------------------------------------------------------------===//
// Recognition
//===----------------------------------------------------------------------===//

namespace {
/// A kernel of the form that the pass takes.
struct Program {
  KernelOp kernel;
  scf::IfOp body;       // behind it only the return
  int64_t tileRows = 0; // `row = x * tileRows`
  Value rows;           // of the request
  std::optional<int64_t> mostRows;
  /// Of keys and values that depend on the head: how many rows, and the bytes of one.
  SmallVector<std::pair<Value, int64_t>> headRows;
  /// Whether heads share keys, or they lie in pages, where they do, too: then there is one section.
  /// Of an item nothing has to be divided by its request's length, which took 6 % of ragged
  /// prompts. Heads one by one lose up to 13 % where items are few, as the longest are not first.
  bool hasSharedKeys = false;
};
} // namespace

/// Which of the grid's dimensions `value` depends on, as bits.
static unsigned getGridDims(Value value) {
  llvm::SetVector<Value> slice;
  slice.insert(value);
  unsigned dims = 0;
  for (unsigned i = 0; i < slice.size(); ++i) {
    Operation *op = slice[i].getDefiningOp();
    if (!op)
      continue;
    if (auto id = dyn_cast<ProgramIdOp>(op))
      dims |= 1u << id.getDim();
    slice.insert_range(op->getOperands());
  }
  return dims;
}

enum GridDim : unsigned { kTile, kHead, kRequest };
static unsigned bit(GridDim dim) { return 1u << dim; }

/// Nothing, or what does not fit.
static StringRef matchGuard(Program &program) {
  auto compare = program.body.getCondition().getDefiningOp<arith::CmpIOp>();
  if (!compare || compare.getPredicate() != arith::CmpIPredicate::slt)
    return "its body does not depend on a row being there";
  auto row = compare.getLhs().getDefiningOp<arith::MulIOp>();
  auto id = row ? row.getLhs().getDefiningOp<ProgramIdOp>() : ProgramIdOp();
  std::optional<int64_t> tileRows = row ? getConstantIntValue(row.getRhs()) : std::nullopt;
  if (!id || id.getDim() != kTile || !tileRows)
    return "its first row is not a multiple of the program's position";
  program.tileRows = *tileRows;
  program.rows = compare.getRhs();
  if (auto most = program.kernel->getAttrOfType<IntegerAttr>(kMaxRowsAttr))
    program.mostRows = most.getInt();
  return getGridDims(program.rows) & ~bit(kRequest)
             ? "its number of rows depends on more than the request"
             : "";
}

/// Whether what lies in `memory` is of a quotient of the head: of a group of heads.
static bool isOfGroup(Value memory) {
  llvm::SetVector<Value> slice;
  slice.insert(memory);
  for (unsigned i = 0; i < slice.size(); ++i) {
    Operation *op = slice[i].getDefiningOp();
    if (isa_and_present<arith::DivUIOp>(op) && getGridDims(op->getOperand(0)) == bit(kHead))
      return true;
    if (op)
      slice.insert_range(op->getOperands());
  }
  return false;
}

/// What of `attend` depends on the head, as wide as the tiles are that it is loaded into.
static void findHeadRows(AttendOp attend, Program &program) {
  program.hasSharedKeys = attend.isPaged() || llvm::any_of(attend.getKeys(), isOfGroup);
  auto note = [&](Value memory, int64_t width) {
    auto view = memory.getDefiningOp<memref::ReinterpretCastOp>();
    if (!view || !(getGridDims(memory) & bit(kHead)))
      return;
    auto rows = dyn_cast<Value>(view.getMixedSizes().front());
    if (rows && (getGridDims(rows) & ~bit(kRequest)) == 0)
      program.headRows.push_back({rows, width * view.getType().getElementTypeBitWidth() / 8});
  };
  for (auto [term, keys] : llvm::enumerate(attend.getKeys()))
    note(keys, attend.getWidth(term));
  if (attend.getValues())
    note(attend.getValues(), attend.getOutputWidth());
}

/// Nothing, or what does not fit.
static StringRef match(Program &program) {
  for (Operation &op : program.kernel.getBody().front().without_terminator()) {
    if (program.body)
      return "something follows its body";
    program.body = dyn_cast<scf::IfOp>(op);
    if (!program.body && op.getNumRegions() != 0)
      return "it has a loop outside of its body";
    if (program.body && program.body.getNumResults() != 0)
      return "its body has results";
  }
  if (!program.body)
    return "it has no condition on its rows";
  if (StringRef why = matchGuard(program); !why.empty())
    return why;
  bool asksInside =
      program.body.walk([](ProgramIdOp) { return WalkResult::interrupt(); }).wasInterrupted();
  if (asksInside)
    return "its body asks for the program's position";
  program.body.walk([&](AttendOp attend) { findHeadRows(attend, program); });
  return "";
}

//===----------------------------------------------------------------------===//
// Rewriting
//===----------------------------------------------------------------------===//

namespace {
class Rewriter {
public:
  Rewriter(Program &program, int64_t sideBySide, int64_t l2Bytes)
      : program(program), b(program.kernel.getLoc(), program.kernel.getContext()),
        sideBySide(sideBySide), l2Bytes(l2Bytes) {}
  void rewriteKernel();
  void rewriteLaunch(LaunchOp launch);

private:
  Value emitRequest(Value request, Value first);
  bool hasOneGroup() const {
    return program.mostRows && *program.mostRows <= program.tileRows * sideBySide;
  }
  std::pair<Value, Value> placeItem(Value item, Value groups, Value section);
  void emitItem(Value item, Value groups, Value section);
  void emitProgram(Value tile, Value head);
  Value countSectionHeads();
  /// Lets the kernel's own `program_id dim` stand for `value`.
  void mapId(GridDim dim, Value value) {
    for (Operation *op : scalars)
      if (auto id = dyn_cast<ProgramIdOp>(op); id && id.getDim() == dim)
        mapping.map(id.getResult(), value);
  }
  /// The clone of a value that depends on what is mapped.
  Value get(Value value);

  MemRefType getCountersType() { return MemRefType::get({ShapedType::kDynamic}, b.getI32Type()); }
  Value constant(int64_t value) { return arith::ConstantIntOp::create(b, b.getI32Type(), value); }
  Value index(int64_t value) { return arith::ConstantIndexOp::create(b, value); }
  Value to32(Value value) { return arith::IndexCastOp::create(b, b.getI32Type(), value); }
  Value toIndex(Value value) { return arith::IndexCastOp::create(b, b.getIndexType(), value); }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, x, y); }
  Value sub(Value x, Value y) { return arith::SubIOp::create(b, x, y); }
  Value mul(Value x, Value y) { return arith::MulIOp::create(b, x, y); }
  Value div(Value x, Value y) { return arith::DivUIOp::create(b, x, y); }
  Value ceilDiv(Value x, Value y) { return div(add(x, sub(y, constant(1))), y); }

  Program &program;
  ImplicitLocOpBuilder b;
  int64_t sideBySide, l2Bytes;
  IRMapping mapping;
  SmallVector<Operation *> scalars; // beside the body, constants excepted
  Value heads, requests, programs;  // i32, index, i32
};
} // namespace

Value Rewriter::get(Value value) {
  if (Value known = mapping.lookupOrNull(value))
    return known;
  Operation *op = value.getDefiningOp();
  // Constants stand before all loops.
  if (op->hasTrait<OpTrait::ConstantLike>())
    return value;
  for (Value operand : op->getOperands())
    get(operand);
  b.clone(*op, mapping);
  return mapping.lookup(value);
}

/// Heads whose keys and values fit in the cache together, at least one.
Value Rewriter::countSectionHeads() {
  if (program.hasSharedKeys)
    return heads;
  Value bytes = constant(0);
  for (auto [rows, rowBytes] : program.headRows)
    bytes = add(bytes, mul(to32(get(rows)), constant(rowBytes)));
  Value fitting = div(constant(l2Bytes), arith::MaxUIOp::create(b, bytes, constant(1)));
  return arith::MaxUIOp::create(b, arith::MinUIOp::create(b, fitting, heads), constant(1));
}

/// What one program of the grid does.
void Rewriter::emitProgram(Value tile, Value head) {
  mapId(kTile, tile);
  mapId(kHead, head);
  for (Operation *op : scalars)
    for (Value result : op->getResults())
      get(result);
  b.clone(*program.body, mapping);
}

/// Tiles side by side and a head. A request of one group has an item for each head.
std::pair<Value, Value> Rewriter::placeItem(Value item, Value groups, Value section) {
  if (hasOneGroup())
    return {index(0), toIndex(item)};
  Value number = div(item, mul(groups, section));
  Value firstHead = mul(number, section);
  Value rest = sub(item, mul(firstHead, groups));
  Value width = arith::MinUIOp::create(b, section, sub(heads, firstHead));
  Value line = div(rest, width);
  Value head = toIndex(add(firstHead, sub(rest, mul(line, width))));
  // The longest first.
  return {toIndex(sub(sub(groups, constant(1)), line)), head};
}

void Rewriter::emitItem(Value item, Value groups, Value section) {
  auto [group, head] = placeItem(item, groups, section);
  auto loop = scf::ForOp::create(b, index(0), index(sideBySide), index(1));
  loop->setAttr(kSideBySideAttr, b.getUnitAttr());
  OpBuilder::InsertionGuard guard(b);
  IRMapping outside = mapping;
  b.setInsertionPoint(loop.getBody()->getTerminator());
  emitProgram(add(mul(group, index(sideBySide)), loop.getInductionVar()), head);
  mapping = outside;
}

/// All items of a request from `first` on, in steps of the number of programs.
/// Returns the first of the next request.
Value Rewriter::emitRequest(Value request, Value first) {
  mapId(kRequest, request);
  Value groups, section, items = heads;
  if (!hasOneGroup()) {
    groups = ceilDiv(to32(get(program.rows)), constant(program.tileRows * sideBySide));
    section = countSectionHeads();
    items = mul(groups, heads);
  }
  auto loop = scf::ForOp::create(b, first, items, programs);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(loop.getBody()->getTerminator());
    emitItem(loop.getInductionVar(), groups, section);
  }
  Value rest = arith::MaxSIOp::create(b, sub(items, first), constant(0));
  return sub(add(first, mul(ceilDiv(rest, programs), programs)), items);
}

void Rewriter::rewriteKernel() {
  KernelOp kernel = program.kernel;
  Block &block = kernel.getBody().front();
  Type index = b.getIndexType();
  for (int i = 0; i < 3; ++i)
    (void)kernel.insertArgument(kernel.getNumArguments(), index, {}, kernel.getLoc());
  // Its own loops do not read them.
  NamedAttribute mark(b.getStringAttr(kItemCountersAttr), b.getUnitAttr());
  (void)kernel.insertArgument(kernel.getNumArguments(), getCountersType(),
                              b.getDictionaryAttr(mark), kernel.getLoc());
  ValueRange added = block.getArguments().take_back(4);
  for (BlockArgument argument : block.getArguments())
    mapping.map(argument, argument);
  for (Operation &op : block.without_terminator())
    if (!op.hasTrait<OpTrait::ConstantLike>() && &op != program.body)
      scalars.push_back(&op);
  b.setInsertionPoint(block.getTerminator());
  // Scalars that are the same in all programs.
  for (Operation *op : scalars)
    for (Value result : op->getResults())
      if (getGridDims(result) == 0)
        get(result);
  heads = to32(added[0]), requests = added[1], programs = to32(added[2]);
  Value position = to32(ProgramIdOp::create(b, index, b.getI32IntegerAttr(kTile)));
  auto loop = scf::ForOp::create(b, this->index(0), requests, this->index(1), position);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(loop.getBody());
    Value next = emitRequest(loop.getInductionVar(), loop.getRegionIterArg(0));
    scf::YieldOp::create(b, next);
  }
  program.body.erase();
  for (Operation *op : llvm::reverse(scalars))
    op->erase();
}

void Rewriter::rewriteLaunch(LaunchOp launch) {
  auto plan = launch->getParentOfType<PlanOp>();
  b.setInsertionPointToStart(&plan.getBody().front());
  Value programs = DimOp::create(b, b.getIndexType(), "num_sms");
  Value one = arith::ConstantIndexOp::create(b, 1);
  Value counters = BufferOp::create(b, getCountersType(), BufferKind::Metadata, "item_counters",
                                    DenseI64ArrayAttr(), Value());
  launch.getArgsMutable().append({launch.getGridY(), launch.getGridZ(), programs, counters});
  launch.getGridXMutable().assign(programs);
  launch.getGridYMutable().assign(one);
  launch.getGridZMutable().assign(one);
}

namespace {
struct LoopOverPrograms : tile::impl::TileLoopOverProgramsBase<LoopOverPrograms> {
  using Base::Base;
  void runOnOperation() override {
    for (KernelOp kernel : getOperation().getOps<KernelOp>()) {
      auto schedule = kernel->getAttrOfType<ScheduleInterface>(kScheduleAttr);
      if (schedule && schedule.loopsOverPrograms())
        rewrite(kernel);
    }
  }

private:
  void rewrite(KernelOp kernel) {
    Program program;
    program.kernel = kernel;
    if (StringRef why = match(program); !why.empty()) {
      kernel.emitRemark("kernel '") << kernel.getSymName() << "' keeps its grid: " << why;
      return;
    }
    Rewriter rewriter(program, sideBySide, l2Bytes);
    rewriter.rewriteKernel();
    getOperation().walk([&](LaunchOp launch) {
      if (launch.getKernel() == kernel.getSymName())
        rewriter.rewriteLaunch(launch);
    });
  }
};
} // namespace
