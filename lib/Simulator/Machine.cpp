//===- Machine.cpp - who goes next ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The scheduler picks, by one of a few policies that the seed chooses, a
// warpgroup that can go on or an asynchronous operation that completes. Nothing
// is decided by time, so a run is a function of kernel, arguments and seed.
//
//===----------------------------------------------------------------------===//

#include "Machine.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlac::simulator;
using namespace mlir;
using namespace mlir::sm90;

namespace {
/// How a seed orders things; see `Machine::schedule`.
enum Policy : unsigned { Uniform, LateCopies, EarlyCopies, Priorities, kPolicies };
/// Bound of the ops that a warpgroup executes at a stretch.
constexpr unsigned kMaxBurst = 12;
} // namespace

Machine::Machine(KernelOp kernel, ArrayRef<Argument> arguments, const Options &options)
    : kernel(kernel), arguments(arguments.begin(), arguments.end()), options(options) {
  isDependent =
      kernel.walk([](WaitDependencyOp) { return WalkResult::interrupt(); }).wasInterrupted();
  int owner = 0;
  kernel.getBody().walk<WalkOrder::PreOrder>([&](Block *block) {
    for (mlir::Value argument : block->getArguments())
      numbers.try_emplace(argument, numbers.size());
    for (Operation &op : *block) {
      for (mlir::Value result : op.getResults())
        numbers.try_emplace(result, numbers.size());
      if (!isa<AllocOp, RingOp>(op))
        continue;
      owners[&op] = owner;
      auto ring = dyn_cast<RingOp>(op);
      owner += ring ? ring.getResult().getType().getTiles().size() *
                          ring.getResult().getType().getStages()
                    : 1;
    }
  });
}

//===----------------------------------------------------------------------===//
// Before the run
//===----------------------------------------------------------------------===//

/// That every place was given, fits, and no tile lies on barriers.
std::optional<Finding> Machine::checkLayout() {
  int64_t total = kernel.getSharedBytes().value_or(0);
  if (total > kMaxSharedBytes)
    return Finding{Defect::SharedOvercommit,
                   kernel,
                   llvm::formatv("asks for {0} bytes of shared memory, more than the limit of {1}",
                                 total, kMaxSharedBytes),
                   {}};
  struct Span {
    int64_t begin, end;
    Operation *op;
    bool isBarrier;
  };
  std::vector<Span> spans;
  Operation *unplaced = nullptr;
  kernel.walk([&](Operation *op) {
    if (auto alloc = dyn_cast<AllocOp>(op)) {
      if (!alloc.getOffset())
        unplaced = op;
      int64_t begin = alloc.getOffset().value_or(0);
      spans.push_back({begin, begin + alloc.getResult().getType().getByteSize(), op, false});
    } else if (auto ring = dyn_cast<RingOp>(op)) {
      RingType type = ring.getResult().getType();
      if (!ring.getBarrierOffset() || (!ring.getOffset() && !type.getTiles().empty()))
        unplaced = op;
      int64_t begin = ring.getOffset().value_or(0), at = ring.getBarrierOffset().value_or(0);
      spans.push_back({begin, begin + type.getByteSize(), op, false});
      spans.push_back({at, at + ring.getBarrierCount() * kBarrierBytes, op, true});
    }
  });
  if (unplaced)
    return Finding{Defect::Unsupported,
                   unplaced,
                   "has no place in shared memory: run sm90-allocate-shared-memory first",
                   {}};
  for (const Span &span : spans)
    if (span.end > total)
      return Finding{
          Defect::OutOfBounds,
          span.op,
          llvm::formatv("ends at byte {0} of shared memory, the kernel has {1}", span.end, total),
          {}};
  for (const Span &barriers : spans)
    for (const Span &other : spans)
      if (barriers.isBarrier && &barriers != &other && barriers.begin < other.end &&
          other.begin < barriers.end)
        return Finding{
            Defect::SharedOvercommit,
            barriers.op,
            llvm::formatv("has barriers at bytes {0} to {1} of shared memory, where "
                          "something else lies",
                          barriers.begin, barriers.end),
            {{other.op, llvm::formatv("takes bytes {0} to {1}", other.begin, other.end)}}};
  return std::nullopt;
}

void Machine::reset(std::array<int64_t, 3> ctaPosition, uint64_t seed) {
  position = ctaPosition;
  random.seed(seed);
  policy = seed % kPolicies;
  int64_t cluster = kernel.getClusterSize();
  sharedBytes = llvm::alignTo(kernel.getSharedBytes().value_or(0), kCellBytes);
  memory = std::make_unique<SharedMemory>(sharedBytes * cluster);
  rings.clear();
  meetings.clear();
  transfers.clear();
  steps = 0;
  warpgroups.assign(kernel.getWarpgroups() * cluster, {});
  priorities.resize(warpgroups.size());
  for (auto [index, warpgroup] : llvm::enumerate(warpgroups)) {
    warpgroup.agent = index;
    warpgroup.index = index % kernel.getWarpgroups();
    warpgroup.rank = index / kernel.getWarpgroups();
    warpgroup.count = kernel.getWarpgroups();
    warpgroup.values.resize(numbers.size());
    Block &body = kernel.getBody().front();
    warpgroup.frames.emplace_back(&body, kernel);
    priorities[index] = random() % 1024;
    for (auto [argument, given] : llvm::zip(body.getArguments(), arguments)) {
      auto type = dyn_cast<MemRefType>(argument.getType());
      if (!type) {
        set(warpgroup, argument,
            argument.getType().isF32() ? Value(given.real) : Value(given.integer));
        continue;
      }
      auto view = std::make_shared<View>();
      *view = {static_cast<char *>(given.data),
               int64_t(given.bytes),
               type.getElementType(),
               0,
               {int64_t(given.bytes) / getElementBytes(type.getElementType())},
               {1}};
      set(warpgroup, argument, ViewRef(view));
    }
  }
}

std::optional<Finding> Machine::run(std::array<int64_t, 3> ctaPosition, uint64_t seed) {
  if (arguments.size() != kernel.getBody().getNumArguments())
    return Finding{Defect::Unsupported,
                   kernel,
                   llvm::formatv("expected {0} arguments, got {1}",
                                 kernel.getBody().getNumArguments(), arguments.size()),
                   {}};
  if (auto problem = checkLayout())
    return problem;
  reset(ctaPosition, seed);
  while (!finding && schedule())
    if (++steps > options.maxSteps)
      fail(Defect::Deadlock, kernel, "does not end after " + Twine(steps) + " turns");
  if (!finding)
    checkEnd();
  return finding;
}

//===----------------------------------------------------------------------===//
// Scheduling
//===----------------------------------------------------------------------===//

/// Operations that may complete next: any TMA transfer and bulk store, the
/// oldest wgmma of a warpgroup, any copy of it (an arrival that waits for copies
/// only when it is the oldest).
size_t Machine::countPending() {
  size_t count = transfers.size();
  for (Warpgroup &warpgroup : warpgroups)
    count += !warpgroup.products.pending.empty() + !warpgroup.copies.pending.empty() +
             !warpgroup.stores.pending.empty();
  return count;
}

template <typename Queue> static Pending take(Queue &queue, size_t index) {
  Pending pending = std::move(queue[index]);
  queue.erase(queue.begin() + index);
  return pending;
}

Step Machine::completePending(size_t index) {
  if (index < transfers.size())
    return take(transfers, index).complete();
  index -= transfers.size();
  for (Warpgroup &warpgroup : warpgroups) {
    rank = warpgroup.rank;
    auto &products = warpgroup.products.pending, &copies = warpgroup.copies.pending,
         &stores = warpgroup.stores.pending;
    if (!products.empty() && index-- == 0)
      return take(products, 0).complete();
    if (!copies.empty() && index-- == 0) {
      size_t which = random() % copies.size();
      return take(copies, copies[which].waitsForEarlier ? 0 : which).complete();
    }
    if (!stores.empty() && index-- == 0)
      return take(stores, random() % stores.size()).complete();
  }
  return Step::Advanced;
}

Step Machine::completeOne() { return completePending(random() % countPending()); }

/// One turn; false at the end of the run.
bool Machine::schedule() {
  SmallVector<size_t> ready;
  bool isOver = true;
  for (auto [index, warpgroup] : llvm::enumerate(warpgroups)) {
    isOver &= warpgroup.isDone;
    if (!warpgroup.isDone && (!warpgroup.waitingAt || warpgroup.blockedVersion != version))
      ready.push_back(index);
  }
  if (isOver)
    return false;
  size_t pending = countPending();
  if (ready.empty() && pending == 0) {
    reportDeadlock();
    return false;
  }
  bool completes = ready.empty();
  if (!ready.empty() && pending > 0) {
    size_t choice = random() % (ready.size() + pending);
    completes = policy == EarlyCopies  ? true
                : policy == LateCopies ? false
                                       : choice >= ready.size();
  }
  if (completes)
    return completeOne() != Step::Failed;
  size_t next = ready[random() % ready.size()];
  if (policy == Priorities) {
    next = *llvm::max_element(ready,
                              [&](size_t a, size_t b) { return priorities[a] < priorities[b]; });
    if (random() % 64 == 0) // now and then another order
      priorities[next] = random() % 1024;
  }
  return runBurst(warpgroups[next]) != Step::Failed;
}

Step Machine::runBurst(Warpgroup &warpgroup) {
  for (unsigned left = 1 + random() % kMaxBurst; left > 0 && !warpgroup.isDone; --left) {
    Step step = execute(warpgroup);
    if (step != Step::Advanced)
      return step;
  }
  return Step::Advanced;
}

void Machine::reportDeadlock() {
  std::vector<Note> waiters;
  for (Warpgroup &warpgroup : warpgroups)
    if (!warpgroup.isDone) {
      std::string who = warpgroup.role ? (" of role '" + warpgroup.role.getName() + "'").str() : "";
      std::string where =
          kernel.getClusterSize() > 1 ? " of rank " + std::to_string(warpgroup.rank) : "";
      waiters.push_back({warpgroup.waitingAt, ("warpgroup " + Twine(warpgroup.index) + who + where +
                                               " waits for " + warpgroup.waitingFor)
                                                  .str()});
    }
  finding = Finding{Defect::Deadlock, waiters.front().op,
                    "waits for ever: " + std::to_string(waiters.size()) +
                        " warpgroups wait, nothing is in flight",
                    waiters};
}

/// A CTA that ends gives its shared memory away, so nothing may still use it.
Step Machine::checkEnd() {
  for (Warpgroup &warpgroup : warpgroups)
    for (auto *queue : {&warpgroup.products, &warpgroup.copies, &warpgroup.stores})
      if (queue->issued > queue->waited)
        return fail(Defect::MissingWait,
                    queue->pending.empty() ? kernel.getOperation() : queue->pending.front().op,
                    "is not waited for before the kernel ends");
  if (!transfers.empty())
    return fail(Defect::MissingWait, transfers.front().op,
                "is still in flight when the kernel ends");
  for (auto &[key, ring] : rings)
    for (Mbarrier &barrier : ring.full)
      if (barrier.delivered > barrier.awaited)
        return fail(Defect::MissingWait, key.first,
                    "nobody waits for the last copy into it before the kernel ends: " +
                        describe(barrier));
  for (auto &[key, meeting] : meetings)
    if (meeting.arrived > 0)
      return fail(Defect::BarrierMismatch, kernel,
                  "ends with " + Twine(meeting.arrived) + " of " + Twine(meeting.expected) +
                      " warps at barrier " + Twine(key.second));
  return Step::Advanced;
}

//===----------------------------------------------------------------------===//
// Execution
//===----------------------------------------------------------------------===//

Step Machine::fail(Defect defect, Operation *op, const Twine &text, Operation *other,
                   const Twine &note) {
  if (!finding) {
    finding = Finding{defect, op, text.str(), {}};
    if (other)
      finding->notes.push_back({other, note.str()});
  }
  return Step::Failed;
}

Step Machine::block(Warpgroup &warpgroup, Operation *op, const Twine &why) {
  warpgroup.waitingAt = op;
  warpgroup.blockedVersion = version;
  warpgroup.waitingFor = why.str();
  return Step::Blocked;
}

std::vector<int64_t> Machine::getInts(Warpgroup &warpgroup, ValueRange values) {
  std::vector<int64_t> result;
  for (mlir::Value value : values)
    result.push_back(getInt(warpgroup, value));
  return result;
}

Step Machine::execute(Warpgroup &warpgroup) {
  rank = warpgroup.rank;
  size_t depth = warpgroup.frames.size();
  Block::iterator at = warpgroup.frames.back().next;
  warpgroup.frames.back().next = std::next(at);
  ++warpgroup.position;
  Step step = dispatch(warpgroup, &*at);
  if (step == Step::Blocked)
    warpgroup.frames[depth - 1].next = at;
  else
    warpgroup.waitingAt = nullptr;
  return step;
}

Step Machine::dispatch(Warpgroup &warpgroup, Operation *op) {
  if (isa<Sm90Dialect>(op->getDialect()))
    return dispatchSm90(warpgroup, op);
  return llvm::TypeSwitch<Operation *, Step>(op)
      .Case([&](scf::ForOp loop) { return runFor(warpgroup, loop); })
      .Case([&](scf::IfOp branch) { return runIf(warpgroup, branch); })
      .Case([&](scf::WhileOp loop) { return runWhile(warpgroup, loop); })
      .Case([&](scf::YieldOp) { return runYield(warpgroup, op); })
      .Case([&](scf::ConditionOp condition) { return runCondition(warpgroup, condition); })
      .Case([&](arith::ConstantOp) { return runConstant(warpgroup, op); })
      .Default([&](Operation *) {
        if (isa_and_nonnull<memref::MemRefDialect>(op->getDialect()))
          return runMemref(warpgroup, op);
        if (isa_and_nonnull<arith::ArithDialect, math::MathDialect>(op->getDialect()))
          return runElementwise(warpgroup, op);
        return fail(Defect::Unsupported, op, "is not known to the simulator");
      });
}

Step Machine::dispatchSm90(Warpgroup &wg, Operation *op) {
  return llvm::TypeSwitch<Operation *, Step>(op)
      .Case([&](ReturnOp) {
        wg.isDone = true;
        return Step::Advanced;
      })
      .Case([&](RoleOp role) { return runRole(wg, role); })
      .Case([&](ElectOp elect) { return runElect(wg, elect); })
      .Case([&](EndOp end) { return runEnd(wg, end); })
      .Case([&](ProgramIdOp id) {
        set(wg, id.getResult(), position[id.getDim()] + (id.getDim() == 0 ? wg.rank : 0));
        return Step::Advanced;
      })
      .Case([&](ClusterRankOp of) {
        set(wg, of.getResult(), wg.rank);
        return Step::Advanced;
      })
      .Case([&](WaitDependencyOp) {
        wg.hasWaitedForKernels = true;
        return Step::Advanced;
      })
      .Case([&](LaunchDependentsOp) { return Step::Advanced; })
      // Scalars.cpp
      .Case([&](AllocOp alloc) { return runAlloc(wg, alloc); })
      .Case([&](SliceOp slice) { return runSlice(wg, slice); })
      .Case([&](TensorMapOp map) { return runTensorMap(wg, map); })
      .Case([&](BarrierOp barrier) { return runBarrier(wg, barrier); })
      .Case([&](NamedBarrierOp barrier) { return runNamedBarrier(wg, barrier); })
      .Case([&](ClusterBarrierOp barrier) { return runClusterBarrier(wg, barrier); })
      .Case([&](ProxyFenceOp) { return runProxyFence(wg); })
      // Rings.cpp
      .Case([&](RingOp ring) { return runRing(wg, ring); })
      .Case([&](StageStartOp start) {
        set(wg, start.getResult(), StageValue{});
        return Step::Advanced;
      })
      .Case([&](StageNextOp next) { return runStageNext(wg, next); })
      .Case([&](StageTileOp tile) { return runStageTile(wg, tile); })
      .Case([&](AcquireOp acquire) { return runAcquire(wg, acquire); })
      .Case([&](AwaitOp await) { return runAwait(wg, await); })
      .Case([&](ExpectOp e) { return runArrival(wg, op, false, e.getPart(), e.getBytes()); })
      .Case([&](PublishOp publish) {
        return publish.getRemote() ? runRemoteArrival(wg, op, false, publish.getPart())
                                   : runArrival(wg, op, false, publish.getPart(), 0);
      })
      .Case([&](ReleaseOp release) {
        return release.getRemote() ? runRemoteArrival(wg, op, true, -1)
                                   : runArrival(wg, op, true, -1, 0);
      })
      // Copies.cpp
      .Case([&](CopyOp copy) { return runDenseCopy(wg, copy); })
      .Case([&](CopyRowsOp copy) { return runCopyRows(wg, copy); })
      .Case([&](CopyPagedOp copy) { return runCopyPaged(wg, copy); })
      .Case([&](HasGapOp gap) { return runHasGap(wg, gap); })
      .Case([&](CopyPublishOp publish) { return runCopyPublish(wg, publish); })
      .Case([&](CopyCommitOp) {
        wg.copies.groups.push_back(wg.copies.issued);
        return Step::Advanced;
      })
      .Case(
          [&](CopyWaitOp wait) { return waitGroups(wg, wg.copies, Unit::Copy, wait.getPending()); })
      .Case([&](TmaLoadOp load) { return runTmaLoad(wg, load); })
      .Case([&](BulkLoadOp load) { return runBulkLoad(wg, load); })
      .Case([&](TmaStoreOp store) { return runTmaStore(wg, store); })
      .Case([&](StoreCommitOp) {
        wg.stores.groups.push_back(wg.stores.issued);
        return Step::Advanced;
      })
      .Case([&](StoreWaitOp wait) {
        return waitGroups(wg, wg.stores, Unit::BulkStore, wait.getPending());
      })
      .Case([&](PrefetchOp prefetch) { return runPrefetch(wg, prefetch); })
      // Fragments.cpp
      .Case([&](LoadOp load) { return runLoad(wg, load); })
      .Case([&](LoadRowsOp load) { return runLoadRows(wg, load); })
      .Case([&](LoadPagedOp load) { return runLoadPaged(wg, load); })
      .Case([&](LoadCodeScalesOp load) { return runLoadCodeScales(wg, load); })
      .Case([&](LoadElementsOp load) { return runLoadElements(wg, load); })
      .Case([&](LoadPairsOp load) { return runLoadPairs(wg, load); })
      .Case([&](StorePairsOp store) { return runStorePairs(wg, store); })
      .Case([&](StoreOp store) { return runStore(wg, store); })
      .Case([&](StoreSlotsOp store) { return runStoreSlots(wg, store); })
      .Case([&](StoreSharedOp store) { return runStoreShared(wg, store); })
      .Case([&](LoadSharedOp load) { return runLoadShared(wg, load); })
      .Case([&](StoreStagedOp store) { return runStoreStaged(wg, store); })
      .Case([&](TransformCodesOp transform) { return runTransformCodes(wg, transform); })
      .Case([&](LoadCodeWordsOp load) { return runLoadCodeWords(wg, load); })
      .Case([&](LoadCodeColumnsOp load) { return runLoadCodeColumns(wg, load); })
      .Case([&](ScaleCodesOp scale) { return runScaleCodes(wg, scale); })
      .Case([&](OrderRunsOp order) { return runOrderRuns(wg, order); })
      .Case([&](StoreRunsOp store) { return runStoreRuns(wg, store); })
      .Case([&](ParkOp park) { return runPark(wg, park); })
      .Case([&](UnparkOp fetch) { return runUnpark(wg, fetch); })
      .Case([&](ZeroRowsOp zero) { return runZeroRows(wg, zero); })
      .Case([&](ReduceOp reduce) { return runReduce(wg, reduce); })
      .Case([&](SumGroupsOp sum) { return runSumGroups(wg, sum); })
      .Case([&](BroadcastOp broadcast) { return runBroadcast(wg, broadcast); })
      .Case([&](TestBitsOp bits) { return runTestBits(wg, bits); })
      .Case([&](TakeColumnsOp columns) { return runTakeColumns(wg, columns); })
      .Case([&](IotaOp iota) { return runIota(wg, iota); })
      .Case([&](SplatOp splat) { return runSplat(wg, splat); })
      .Case([&](WarpAnyOp any) { return runWarpAny(wg, any); })
      .Case([&](RoleAnyOp any) { return runRoleAny(wg, any); })
      .Case([&](PinOp pin) {
        if (!use(wg, op, pin.getSource()))
          return Step::Failed;
        set(wg, pin.getResult(), get(wg, pin.getSource()));
        return Step::Advanced;
      })
      // Select.cpp
      .Case([&](SelectBeginOp begin) { return runSelectBegin(wg, begin); })
      .Case([&](SetBitsOp bits) { return runSetBits(wg, bits); })
      .Case([&](SelectCountUpOp count) { return runSelectCountUp(wg, count); })
      .Case([&](SelectKeepOp keep) { return runSelectKeep(wg, keep); })
      .Case([&](SelectHoldOp hold) { return runSelectHold(wg, hold); })
      .Case([&](SelectMeetOp meet) { return runSelectMeet(wg, meet); })
      .Case([&](SelectCutOp cut) { return runSelectCut(wg, cut); })
      .Case([&](SelectWriteOp write) { return runSelectWrite(wg, write); })
      .Case([&](SelectWriteInOrderOp write) { return runSelectWriteInOrder(wg, write); })
      // Products.cpp
      .Case([&](WgmmaFenceOp) {
        wg.fencedAt = wg.position;
        wg.isGroupFenced = true;
        return Step::Advanced;
      })
      .Case([&](WgmmaOp wgmma) { return runWgmma(wg, wgmma); })
      .Case([&](WgmmaCommitOp) {
        wg.products.groups.push_back(wg.products.issued);
        wg.isGroupFenced = false;
        return Step::Advanced;
      })
      .Case([&](WgmmaWaitOp wait) { return runWgmmaWait(wg, wait); })
      .Default([&](Operation *) {
        return fail(Defect::Unsupported, op, "is not known to the simulator");
      });
}
