//===- PlaceWgmmaFences.cpp - fences and waits of wgmma ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What must hold is PTX ISA, "wgmma.fence" and "wgmma.wait_group". What ptxas
// needs in addition to keep wgmma asynchronous (its notes C75xx) was measured with
// ptxas 13.0 on generated decode kernels.
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Sm90/Transforms/Passes.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::sm90 {
#define GEN_PASS_DEF_SM90PLACEWGMMAFENCES
#include "mla/Dialect/Sm90/Transforms/Passes.h.inc"
} // namespace mlir::sm90

using namespace mlir;
using namespace mlir::sm90;

//===----------------------------------------------------------------------===//
// Fences
//===----------------------------------------------------------------------===//

namespace {
/// Walks blocks in program order. Nothing is known at the start of a block or
/// behind an op with regions: those hold loops, waits or register writes.
class FencePlacer {
public:
  void placeIn(Block &block);

private:
  void place(WgmmaOp op);
  bool isWritten(Value registers) {
    return isa<RankedTensorType>(registers.getType()) && written.contains(registers);
  }

  bool fenced = false;
  bool newGroup = false;         ///< a commit since the last wgmma
  llvm::DenseSet<Value> written; ///< registers written by other ops since the fence
};
} // namespace

/// An accumulator that the group before has in flight needs no fence between: its
/// accesses are ordered among wgmma of one shape.
void FencePlacer::place(WgmmaOp op) {
  bool continues = op.getAcc().getDefiningOp<WgmmaOp>();
  // An accumulator of zeros is not read.
  bool readsAccumulator = !matchPattern(op.getAcc(), m_AnyZeroFloat());
  bool touched = isWritten(op.getLhs()) || (readsAccumulator && isWritten(op.getAcc()));
  if (!fenced || touched || (newGroup && !continues)) {
    OpBuilder builder(op);
    WgmmaFenceOp::create(builder, op.getLoc());
    written.clear();
  }
  fenced = true;
  newGroup = false;
}

void FencePlacer::placeIn(Block &block) {
  fenced = false;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (auto wgmma = dyn_cast<WgmmaOp>(op)) {
      place(wgmma);
      continue;
    }
    for (Region &region : op.getRegions())
      for (Block &nested : region)
        placeIn(nested);
    // The loop that waits for an mbarrier ends what a fence covers.
    if (op.getNumRegions() > 0 || isa<AwaitOp, AcquireOp>(op))
      fenced = false;
    newGroup |= isa<WgmmaCommitOp>(op);
    for (Value result : op.getResults())
      if (isa<RankedTensorType>(result.getType()))
        written.insert(result);
  }
  fenced = false;
}

//===----------------------------------------------------------------------===//
// Waits
//===----------------------------------------------------------------------===//

/// The values by which loops and branches pass on the value of `use`; none for
/// any other op.
static SmallVector<Value> getForwarded(OpOperand &use) {
  if (auto loop = dyn_cast<scf::ForOp>(use.getOwner())) {
    BlockArgument argument = loop.getTiedLoopRegionIterArg(&use);
    return argument ? SmallVector<Value>{argument, loop.getTiedLoopResult(&use)}
                    : SmallVector<Value>();
  }
  unsigned index = use.getOperandNumber();
  Operation *parent = use.getOwner()->getParentOp();
  if (auto loop = dyn_cast<scf::WhileOp>(use.getOwner()))
    return {loop.getBeforeArguments()[index]};
  if (isa<scf::ConditionOp>(use.getOwner())) {
    auto loop = cast<scf::WhileOp>(parent);
    return {loop.getAfterArguments()[index - 1], loop.getResult(index - 1)};
  }
  if (!isa<scf::YieldOp>(use.getOwner()))
    return {};
  if (auto loop = dyn_cast<scf::WhileOp>(parent))
    return {loop.getBeforeArguments()[index]};
  if (auto loop = dyn_cast<scf::ForOp>(parent))
    return {loop.getResult(index), loop.getRegionIterArg(index)};
  return {parent->getResult(index)};
}

/// The commits between the definition of `accumulator` and `wait`. What a loop or
/// a branch passes on was committed before.
static uint32_t countCommits(Value accumulator, WgmmaWaitOp wait) {
  Operation *definition = accumulator.getDefiningOp();
  uint32_t commits = isa_and_present<WgmmaOp>(definition) ? 0 : 1;
  Block *block = accumulator.getParentBlock();
  for (Operation *op = wait; op != definition;) {
    commits += isa<WgmmaCommitOp>(op);
    Operation *previous = op->getPrevNode();
    if (!previous && op->getBlock() == block)
      break;
    op = previous ? previous : op->getParentOp();
  }
  return commits;
}

namespace {
/// Follows the result of a wgmma while it is in flight.
class InFlightUses {
public:
  explicit InFlightUses(WgmmaOp wgmma) : wgmma(wgmma) { add(wgmma.getResult()); }

  /// That nothing but wgmma touches it before a wait that covers its group.
  LogicalResult verify() {
    while (!values.empty())
      for (OpOperand &use : values.pop_back_val().getUses())
        if (failed(verifyUse(use)))
          return failure();
    return success();
  }

private:
  void add(Value value) {
    if (seen.insert(value).second)
      values.push_back(value);
  }
  LogicalResult verifyUse(OpOperand &use);
  LogicalResult report(Operation *user, StringRef what) {
    InFlightDiagnostic diag = user->emitOpError(what);
    diag.attachNote(wgmma.getLoc()) << "of this wgmma";
    return failure();
  }

  WgmmaOp wgmma;
  SmallVector<Value> values;
  llvm::DenseSet<Value> seen;
};
} // namespace

/// A wait that leaves the value's own group in flight passes it on as it is (the
/// accumulator chain of a pipelined loop).
LogicalResult InFlightUses::verifyUse(OpOperand &use) {
  Operation *user = use.getOwner();
  if (isa<WgmmaOp>(user))
    return success();
  if (auto wait = dyn_cast<WgmmaWaitOp>(user)) {
    uint32_t commits = countCommits(use.get(), wait);
    if (commits == 0)
      return report(user, "takes an accumulator whose group no sm90.wgmma_commit has closed");
    if (commits <= wait.getPending())
      add(wait.getResult(use.getOperandNumber()));
    return success();
  }
  SmallVector<Value> forwarded = getForwarded(use);
  if (forwarded.empty())
    return report(user, "uses an accumulator that a wgmma may still write: no sm90.wgmma_wait has "
                        "covered its group");
  llvm::for_each(forwarded, [&](Value value) { add(value); });
  return success();
}

namespace {
/// The groups that may be in flight at a point: the wgmma of each, oldest first.
struct Flight {
  SmallVector<SmallVector<WgmmaOp>> groups;
  SmallVector<WgmmaOp> open; ///< not committed

  void wait(uint32_t pending) {
    if (groups.size() > pending)
      groups.erase(groups.begin(), groups.end() - pending);
  }
  SmallVector<WgmmaOp> getAll() const {
    SmallVector<WgmmaOp> all(open);
    for (const auto &group : groups)
      all.append(group);
    return all;
  }
};

/// Follows what is in flight and checks loops. Alternatives and zero-trip loops
/// add up, which can only find more in flight.
class WaitChecker {
public:
  LogicalResult check(Block &block, Flight &flight);

private:
  LogicalResult checkIf(scf::IfOp op, Flight &flight);
  LogicalResult checkLoop(scf::ForOp loop, Flight &flight);
  LogicalResult checkWhile(scf::WhileOp loop, Flight &flight);
};
} // namespace

static WgmmaWaitOp findFirstWait(Block &block) {
  WgmmaWaitOp first;
  block.walk<WalkOrder::PreOrder>([&](WgmmaWaitOp wait) {
    first = wait;
    return WalkResult::interrupt();
  });
  return first;
}

/// An op in the body of `loop` that is no wgmma and reads the registers of `start`
/// or of what wgmma, waits and yields make of it; `carried` collects the iteration
/// arguments that they pass through the loop's own yield.
static Operation *findReader(scf::ForOp loop, Value start, SmallVectorImpl<Value> &carried) {
  SmallVector<Value> values = {start};
  llvm::DenseSet<Value> seen = {start};
  Operation *reader = nullptr;
  auto add = [&](Value value) {
    if (seen.insert(value).second)
      values.push_back(value);
  };
  while (!values.empty()) {
    for (OpOperand &use : values.pop_back_val().getUses()) {
      Operation *user = use.getOwner();
      if (!loop->isProperAncestor(user))
        continue;
      if (user == loop.getBody()->getTerminator())
        carried.push_back(loop.getRegionIterArg(use.getOperandNumber()));
      else if (isa<WgmmaOp>(user))
        add(user->getResult(0));
      else if (isa<WgmmaWaitOp>(user))
        add(user->getResult(use.getOperandNumber()));
      else if (SmallVector<Value> forwarded = getForwarded(use); !forwarded.empty())
        llvm::for_each(forwarded, add);
      else
        reader = user;
    }
  }
  return reader;
}

/// The non-wgmma op of the body that reads what `wgmma`, in flight at the end of
/// the body, brings to the next iteration.
static Operation *findReaderBehindBackEdge(scf::ForOp loop, WgmmaOp wgmma) {
  SmallVector<Value> carried, again;
  findReader(loop, wgmma.getResult(), carried);
  for (Value argument : carried)
    if (Operation *reader = findReader(loop, argument, again))
      return reader;
  return nullptr;
}

/// Of what is in flight across the back edge of `loop`. C7514 was measured: a wait
/// for 1 before a wait for 0 in the body draws it, the other order does not, nor
/// does an accumulator that only wgmma touch.
static LogicalResult verifyBackEdge(scf::ForOp loop, SmallVector<WgmmaOp> inFlight) {
  WgmmaWaitOp first = findFirstWait(*loop.getBody());
  for (WgmmaOp wgmma : inFlight) {
    Value lhs = wgmma.getLhs();
    if (isa<RankedTensorType>(lhs.getType()) && loop.getRegion().isAncestor(lhs.getParentRegion()))
      return wgmma.emitOpError("may still read its left operand's registers when the next "
                               "iteration writes them: wait for it before the end of the body");
    Operation *reader = findReaderBehindBackEdge(loop, wgmma);
    if (!first || first.getPending() == 0 || !reader)
      continue;
    InFlightDiagnostic diag =
        first.emitOpError("is the first wait of a loop body and leaves ")
        << first.getPending() << " groups in flight, but an accumulator in flight across the back "
        << "edge is read in the body: ptxas serialises every wgmma of such a loop (C7514); wait "
        << "for 0 groups here, or for all before the end of the body";
    diag.attachNote(wgmma.getLoc()) << "in flight at the end of the body";
    diag.attachNote(reader->getLoc()) << "reads its accumulator";
    return failure();
  }
  return success();
}

LogicalResult WaitChecker::checkLoop(scf::ForOp loop, Flight &flight) {
  Flight around;
  if (failed(check(*loop.getBody(), around)) || failed(verifyBackEdge(loop, around.getAll())))
    return failure();
  Flight through = flight;
  through.groups.append(around.groups);
  if (failed(check(*loop.getBody(), through)))
    return failure();
  flight.groups.append(through.groups);
  flight.open.append(through.open);
  return success();
}

/// What ptxas makes of a product in flight across the back edge of such a loop nobody
/// has measured: none may be.
LogicalResult WaitChecker::checkWhile(scf::WhileOp loop, Flight &flight) {
  Flight around;
  if (failed(check(*loop.getBeforeBody(), around)) || failed(check(*loop.getAfterBody(), around)))
    return failure();
  if (SmallVector<WgmmaOp> inFlight = around.getAll(); !inFlight.empty())
    return inFlight.front().emitOpError(
        "is in flight at the end of an scf.while's body: wait for it before");
  return failed(check(*loop.getBeforeBody(), flight)) ? failure()
                                                      : check(*loop.getAfterBody(), flight);
}

LogicalResult WaitChecker::checkIf(scf::IfOp op, Flight &flight) {
  Flight out;
  for (Region &region : op->getRegions()) {
    Flight branch = flight;
    for (Block &block : region)
      if (failed(check(block, branch)))
        return failure();
    if (branch.groups.size() + branch.open.size() >= out.groups.size() + out.open.size())
      out = branch;
  }
  flight = out;
  return success();
}

LogicalResult WaitChecker::check(Block &block, Flight &flight) {
  for (Operation &op : block.without_terminator()) {
    LogicalResult result =
        llvm::TypeSwitch<Operation *, LogicalResult>(&op)
            .Case<WgmmaOp>([&](WgmmaOp wgmma) {
              flight.open.push_back(wgmma);
              return success();
            })
            .Case<WgmmaCommitOp>([&](auto) {
              flight.groups.push_back(std::move(flight.open));
              flight.open.clear();
              return success();
            })
            .Case<WgmmaWaitOp>([&](WgmmaWaitOp wait) {
              flight.wait(wait.getPending());
              return success();
            })
            .Case<scf::IfOp>([&](scf::IfOp branch) { return checkIf(branch, flight); })
            .Case<scf::ForOp>([&](scf::ForOp loop) { return checkLoop(loop, flight); })
            .Case<scf::WhileOp>([&](scf::WhileOp loop) { return checkWhile(loop, flight); })
            .Default([&](Operation *) { return success(); });
    if (failed(result))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

/// The blocks that threads enter from the top: the kernel's and its roles'.
static SmallVector<Block *> getPrograms(KernelOp kernel) {
  Block &entry = kernel.getBody().front();
  SmallVector<Block *> programs = {&entry};
  for (RoleOp role : entry.getOps<RoleOp>())
    programs.push_back(&role.getBody().front());
  return programs;
}

namespace {
struct PlaceWgmmaFences : sm90::impl::Sm90PlaceWgmmaFencesBase<PlaceWgmmaFences> {
  void runOnOperation() override {
    if (failed(verifyWaits()))
      return signalPassFailure();
    KernelOp kernel = getOperation();
    kernel.walk([](WgmmaFenceOp fence) { fence.erase(); });
    FencePlacer().placeIn(kernel.getBody().front());
  }

private:
  LogicalResult verifyWaits() {
    KernelOp kernel = getOperation();
    WalkResult walk = kernel.walk([](WgmmaOp op) {
      return failed(InFlightUses(op).verify()) ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (walk.wasInterrupted())
      return failure();
    for (Block *program : getPrograms(kernel)) {
      Flight flight;
      if (failed(WaitChecker().check(*program, flight)))
        return failure();
    }
    return success();
  }
};
} // namespace
