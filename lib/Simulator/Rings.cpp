//===- Rings.cpp - stages and their barriers ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The hardware sees one bit of a phase. Here a stage carries the whole turn
// number, so that a wait which passes, or never passes, because the barrier is a
// turn off is an error at once and not a matter of luck.
//
//===----------------------------------------------------------------------===//

#include "Machine.h"

using namespace mlac::simulator;
using namespace mlir;
using namespace mlir::sm90;

static std::string getLabel(Ring &ring) {
  return ring.op.getLabel() ? ("ring '" + *ring.op.getLabel() + "'").str() : "a ring";
}

std::string Machine::describe(const Mbarrier &barrier) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << getLabel(*barrier.ring) << ", slot " << barrier.slot << ", ";
  if (barrier.part < 0)
    stream << "empty";
  else
    stream << "full, part " << barrier.part;
  stream << " (in phase " << barrier.phase << ", " << barrier.pending << " of " << barrier.count
         << " arrivals and " << barrier.transactions << " bytes pending)";
  return text;
}

Step Machine::runRing(Warpgroup &warpgroup, RingOp op) {
  set(warpgroup, op.getResult(), &getRing(op, warpgroup.rank));
  return Step::Advanced;
}

/// All CTAs of a cluster have made their barriers before any goes on.
Ring &Machine::getRing(RingOp op, int64_t ofRank) {
  auto [at, isNew] = rings.try_emplace({op, ofRank});
  Ring &ring = at->second;
  if (!isNew)
    return ring;
  RingType type = op.getResult().getType();
  ring.op = op;
  ring.base = ofRank * sharedBytes + op.getOffset().value_or(0);
  ring.firstOwner = owners[op];
  ring.acquiredTurn.assign(type.getStages(), -1);
  int firstAgent = Access::getAgent(warpgroups.size(), 0, Unit::Generic);
  for (auto &[other, known] : rings)
    if (other != at->first)
      firstAgent += known.full.size();
  for (int64_t index = 0; index < type.getStages() * type.getParts(); ++index) {
    Mbarrier full;
    full.ring = &ring;
    full.slot = index / type.getParts();
    full.part = index % type.getParts();
    full.count = full.pending = op.getFullCount();
    full.agent = firstAgent + index;
    ring.full.push_back(full);
  }
  for (int64_t slot = 0; slot < type.getStages() && op.getEmptyCount() > 0; ++slot) {
    Mbarrier empty;
    empty.ring = &ring;
    empty.slot = slot;
    empty.part = -1;
    empty.count = empty.pending = op.getEmptyCount();
    ring.empty.push_back(empty);
  }
  return ring;
}

Step Machine::runStageNext(Warpgroup &warpgroup, StageNextOp op) {
  StageValue stage = getAs<StageValue>(warpgroup, op.getStage());
  if (++stage.slot >= op.getRing().getType().getStages())
    stage = {0, stage.turn + 1};
  set(warpgroup, op.getResult(), stage);
  return Step::Advanced;
}

bool Machine::checkSlot(Operation *op, Ring &ring, const StageValue &stage) {
  int64_t stages = ring.op.getResult().getType().getStages();
  if (stage.slot < stages)
    return true;
  fail(Defect::OutOfBounds, op,
       "uses slot " + Twine(stage.slot) + " of " + getLabel(ring) + ", which has " + Twine(stages),
       ring.op, "defined here");
  return false;
}

Step Machine::runStageTile(Warpgroup &warpgroup, StageTileOp op) {
  Ring &ring = getRing(warpgroup, op.getRing());
  StageValue stage = getAs<StageValue>(warpgroup, op.getStage());
  if (!checkSlot(op, ring, stage))
    return Step::Failed;
  RingType type = op.getRing().getType();
  int64_t offset = stage.slot * type.getStageBytes() + type.getTileOffset(op.getIndex());
  int owner = ring.firstOwner + stage.slot * type.getTiles().size() + op.getIndex();
  set(warpgroup, op.getResult(), Place{op.getResult().getType(), ring.base + offset, owner});
  return Step::Advanced;
}

//===----------------------------------------------------------------------===//
// Barriers
//===----------------------------------------------------------------------===//

/// Waits until `phases` phases have completed. The hardware passes whenever the
/// number of completed phases has the other parity than phases - 1.
Step Machine::waitFor(Warpgroup &warpgroup, Operation *op, Mbarrier &barrier, int64_t phases,
                      bool isRemote) {
  bool passes = (barrier.phase & 1) != ((phases - 1) & 1);
  if (barrier.phase > phases)
    return fail(Defect::WrongPhase, op,
                "waits for phase " + Twine(phases - 1) +
                    ", but its end passed unseen: " + describe(barrier),
                barrier.ring->op, "of this ring");
  if (barrier.phase < phases && passes)
    return fail(Defect::WrongPhase, op,
                "does not wait: it asks for phase " + Twine(phases - 1) +
                    " by parity, too early: " + describe(barrier),
                barrier.ring->op, "of this ring");
  if (barrier.phase < phases)
    return block(warpgroup, op, "phase " + Twine(phases - 1) + " of " + describe(barrier));
  barrier.awaited = std::max(barrier.awaited, phases);
  for (int warp = 0; warp < kWarps; ++warp)
    if (warpgroup.getActiveWarps() >> warp & 1) {
      warpgroup.warps[warp].join(barrier.done);
      if (isRemote)
        warpgroup.warps[warp].join(barrier.doneFar);
    }
  return Step::Advanced;
}

Mbarrier *Machine::getFull(Warpgroup &warpgroup, Operation *op, mlir::Value ringValue,
                           mlir::Value stageValue, int64_t part) {
  Ring &ring = getRing(warpgroup, ringValue);
  StageValue stage = getAs<StageValue>(warpgroup, stageValue);
  if (!checkSlot(op, ring, stage))
    return nullptr;
  return &ring.full[stage.slot * ring.op.getResult().getType().getParts() + part];
}

Step Machine::runAwait(Warpgroup &warpgroup, AwaitOp op) {
  Mbarrier *barrier = getFull(warpgroup, op, op.getRing(), op.getStage(), op.getPart());
  if (!barrier)
    return Step::Failed;
  int64_t turn = getAs<StageValue>(warpgroup, op.getStage()).turn;
  return waitFor(warpgroup, op, *barrier, turn + 1, op.getRemote());
}

/// The first to acquire a stage finds it without content, unless the stage keeps what it held.
Step Machine::runAcquire(Warpgroup &warpgroup, AcquireOp op) {
  Ring &ring = getRing(warpgroup, op.getRing());
  StageValue stage = getAs<StageValue>(warpgroup, op.getStage());
  if (!checkSlot(op, ring, stage))
    return Step::Failed;
  if (stage.turn > 0)
    if (Step step = waitFor(warpgroup, op, ring.empty[stage.slot], stage.turn);
        step != Step::Advanced)
      return step;
  if (stage.turn == 0 && ring.empty[stage.slot].phase > 0)
    return fail(Defect::WrongPhase, op,
                "takes the first use of a slot that is already released: " +
                    describe(ring.empty[stage.slot]),
                ring.op, "of this ring");
  if (ring.acquiredTurn[stage.slot] < stage.turn) {
    ring.acquiredTurn[stage.slot] = stage.turn;
    int64_t stageBytes = op.getRing().getType().getStageBytes();
    if (!op.getKeeps())
      memory->forget(ring.base + stage.slot * stageBytes, stageBytes);
  }
  return Step::Advanced;
}

Step Machine::tryComplete(Mbarrier &barrier, Operation *op) {
  if (barrier.pending > 0 || barrier.transactions > 0)
    return Step::Advanced;
  if (barrier.transactions < 0)
    return fail(Defect::BytesMismatch, op,
                "brings more bytes than the phase expects: " + describe(barrier), barrier.ring->op,
                "of this ring");
  ++barrier.phase;
  barrier.pending = barrier.count;
  barrier.done = std::move(barrier.arriving);
  barrier.doneFar = std::move(barrier.arrivingFar);
  barrier.arriving = {};
  barrier.arrivingFar = {};
  ++version;
  return Step::Advanced;
}

Step Machine::arrive(Mbarrier &barrier, Operation *op, int64_t turn, int64_t arrivals) {
  if (barrier.phase != turn)
    return fail(Defect::WrongPhase, op,
                "arrives for phase " + Twine(turn) + " of " + describe(barrier), barrier.ring->op,
                "of this ring");
  if (barrier.pending < arrivals)
    return fail(Defect::WrongPhase, op,
                "arrives " + Twine(arrivals) +
                    " times, more than the phase has left: " + describe(barrier),
                barrier.ring->op, "of this ring");
  barrier.pending -= arrivals;
  return tryComplete(barrier, op);
}

/// expect, publish (on a full barrier) and release (on the empty one): inside an
/// elected region one arrival, outside one for each warp.
Step Machine::runArrival(Warpgroup &warpgroup, Operation *op, bool isRelease, int64_t part,
                         int64_t bytes) {
  mlir::Value ringValue = op->getOperand(0), stageValue = op->getOperand(1);
  Ring &ring = getRing(warpgroup, ringValue);
  StageValue stage = getAs<StageValue>(warpgroup, stageValue);
  if (!checkSlot(op, ring, stage))
    return Step::Failed;
  Mbarrier &barrier =
      isRelease ? ring.empty[stage.slot] : *getFull(warpgroup, op, ringValue, stageValue, part);
  for (int warp = 0; warp < kWarps; ++warp)
    if (warpgroup.getActiveWarps() >> warp & 1)
      barrier.arriving.join(warpgroup.warps[warp]);
  barrier.transactions += bytes;
  return arrive(barrier, op, stage.turn, warpgroup.isElected ? 1 : kWarps);
}

/// A CTA that ends gives its shared memory away.
Step Machine::checkRuns(Operation *op, int64_t ofRank) {
  for (Warpgroup &other : warpgroups)
    if (other.rank == ofRank && !other.isDone)
      return Step::Advanced;
  return fail(Defect::Race, op,
              "reaches the shared memory of the CTA of rank " + Twine(ofRank) +
                  ", which has ended");
}

/// The same at the ring's barrier in every CTA of the cluster. Who publishes shows its writes to
/// those who wait at cluster scope; who releases has only read.
Step Machine::runRemoteArrival(Warpgroup &warpgroup, Operation *op, bool isRelease, int64_t part) {
  Ring &own = getRing(warpgroup, op->getOperand(0));
  StageValue stage = getAs<StageValue>(warpgroup, op->getOperand(1));
  if (!checkSlot(op, own, stage))
    return Step::Failed;
  int64_t parts = own.op.getResult().getType().getParts();
  for (int64_t to = 0; to < static_cast<int64_t>(kernel.getClusterSize()); ++to) {
    if (checkRuns(op, to) == Step::Failed)
      return Step::Failed;
    Ring &ring = getRing(own.op, to);
    Mbarrier &barrier = isRelease ? ring.empty[stage.slot] : ring.full[stage.slot * parts + part];
    bool isFar = !isRelease && to != warpgroup.rank;
    for (int warp = 0; warp < kWarps; ++warp)
      if (warpgroup.getActiveWarps() >> warp & 1)
        (isFar ? barrier.arrivingFar : barrier.arriving).join(warpgroup.warps[warp]);
    if (arrive(barrier, op, stage.turn, warpgroup.isElected ? 1 : kWarps) == Step::Failed)
      return Step::Failed;
  }
  return Step::Advanced;
}
