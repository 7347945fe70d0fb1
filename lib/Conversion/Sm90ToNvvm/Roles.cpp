//===- Roles.cpp - roles, elected threads and what precedes them ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs on a function whose body is still sm90, before the conversion:
//
//   sm90.role "a" {...}      scf.if (warpgroup == 0) {registers; ...}
//   sm90.role "b" {...}  ->  else { scf.if (warpgroup - 1 < 2) {registers; ...} }
//
//   sm90.elect {...}     ->  scf.if (thread == 0, or elected of warp 0) {...}; bar.warp.sync
//
// Roles form one chain of else branches, so that the paths of two roles meet
// behind the last one only: what comes between two roles is moved up before the
// first of them, which it must allow.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "mla/Dialect/KernelAttrs.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlac::sm90nvvm;
using arith::CmpIPredicate;

/// Role r meets at hardware barrier 1 + r; 0 is the CTA's.
static constexpr int64_t kFirstRoleBarrier = 1;

//===----------------------------------------------------------------------===//
// Barriers
//===----------------------------------------------------------------------===//

bool mlac::sm90nvvm::isElected(Operation *op) {
  for (Operation *parent = op->getParentOp(); parent; parent = parent->getParentOp())
    if (parent->hasAttr(kElectedAttr))
      return true;
  return false;
}

void mlac::sm90nvvm::emitBarrier(ImplicitLocOpBuilder &b, const Kernel &kernel) {
  if (kernel.barrier == 0) {
    NVVM::Barrier0Op::create(b);
    return;
  }
  NVVM::BarrierOp::create(b, TypeRange(), constant32(b, kernel.barrier),
                          constant32(b, kernel.getThreads()), NVVM::BarrierReductionAttr(),
                          Value());
}

Value mlac::sm90nvvm::emitBarrierAny(ImplicitLocOpBuilder &b, const Kernel &kernel,
                                     Value condition) {
  // nvvm.barrier reduces at barrier 0 only.
  return LLVM::CallIntrinsicOp::create(
             b, b.getI1Type(), b.getStringAttr("llvm.nvvm.barrier.cta.red.or.aligned.count"),
             ValueRange{constant32(b, kernel.barrier), constant32(b, kernel.getThreads()),
                        condition})
      .getResult(0);
}

void mlac::sm90nvvm::emitClusterBarrier(ImplicitLocOpBuilder &b) {
  NVVM::ClusterArriveOp::create(b, b.getUnitAttr());
  NVVM::ClusterWaitOp::create(b, b.getUnitAttr());
}

void mlac::sm90nvvm::emitWarpBarrier(ImplicitLocOpBuilder &b) {
  NVVM::SyncWarpOp::create(b, constant32(b, -1));
}

void mlac::sm90nvvm::emitRingSetup(ImplicitLocOpBuilder &b, const Kernel &kernel,
                                   ArrayRef<sm90::RingOp> rings, ValueRange tensorMaps) {
  if (rings.empty() && tensorMaps.empty())
    return;
  emitIf(b, compare(b, CmpIPredicate::eq, kernel.thread, constant32(b, 0)), [&] {
    for (sm90::RingOp ring : rings) {
      sm90::RingType type = ring.getResult().getType();
      for (int64_t index = 0; index < ring.getBarrierCount(); ++index) {
        bool isFull = index < type.getStages() * type.getParts();
        Value address =
            moveAddress(b, kernel.shared,
                        constant32(b, *ring.getBarrierOffset() + index * sm90::kBarrierBytes));
        NVVM::MBarrierInitOp::create(
            b, address, constant32(b, isFull ? ring.getFullCount() : ring.getEmptyCount()),
            Value());
      }
    }
    if (!rings.empty())
      NVVM::FenceMbarrierInitOp::create(b);
    for (Value map : tensorMaps)
      NVVM::PrefetchOp::create(b, NVVM::PrefetchCacheLevelAttr(), NVVM::CacheEvictionPriorityAttr(),
                               map, Value(), b.getUnitAttr());
  });
  if (rings.empty())
    return;
  if (kernel.cluster > 1)
    return emitClusterBarrier(b);
  NVVM::Barrier0Op::create(b);
}

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

/// Moves the body of `region`, which ends in sm90.end, into a new scf.if at `b`.
static scf::IfOp moveIntoIf(ImplicitLocOpBuilder &b, Value condition, Region &region) {
  auto branch = scf::IfOp::create(b, TypeRange(), condition, /*addThenBlock=*/true,
                                  /*addElseBlock=*/false);
  Block *block = branch.thenBlock();
  block->getOperations().splice(block->end(), region.front().getOperations());
  Operation *end = block->getTerminator();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(end);
  scf::YieldOp::create(b);
  end->erase();
  return branch;
}

/// Registers of a thread at the launch: the register file is divided evenly, in
/// the granule of its allocation.
static int64_t getLaunchRegisters(int64_t threads) {
  return llvm::alignDown(sm90::kRegisterFile / threads, sm90::kRegisterGranule);
}

/// Gives registers back or takes more; asking for what one has, or in the wrong
/// direction, is an illegal instruction.
static void emitRegisters(ImplicitLocOpBuilder &b, int64_t registers, int64_t threads) {
  int64_t launch = getLaunchRegisters(threads);
  if (registers == launch)
    return;
  auto action = registers > launch ? NVVM::SetMaxRegisterAction::increase
                                   : NVVM::SetMaxRegisterAction::decrease;
  NVVM::SetMaxRegisterOp::create(b, registers, action);
}

/// The kernel as a role sees it; its values are computed at `b`.
static Kernel makeScope(ImplicitLocOpBuilder &b, const Kernel &kernel, sm90::RoleOp role,
                        int64_t index) {
  Kernel scope = kernel;
  scope.roles.clear();
  scope.warpgroups = role.getWarpgroups();
  scope.barrier = kFirstRoleBarrier + index;
  int64_t first = role.getFirst();
  auto subtract = [&](Value value, int64_t amount) -> Value {
    return amount == 0 ? value : b.createOrFold<arith::SubIOp>(value, constant32(b, amount));
  };
  scope.thread = subtract(kernel.thread, first * sm90::kWarpgroupThreads);
  scope.warpgroup =
      scope.warpgroups == 1 ? Value(constant32(b, 0)) : subtract(kernel.warpgroup, first);
  return scope;
}

static Value isInRole(ImplicitLocOpBuilder &b, const Kernel &kernel, sm90::RoleOp role) {
  if (role.getWarpgroups() == 1)
    return compare(b, CmpIPredicate::eq, kernel.warpgroup, constant32(b, role.getFirst()));
  // Unsigned: warpgroups before the first are far above.
  Value behind = b.createOrFold<arith::SubIOp>(kernel.warpgroup, constant32(b, role.getFirst()));
  return compare(b, CmpIPredicate::ult, behind, constant32(b, role.getWarpgroups()));
}

/// Moves what stands between two neighbouring roles up before `chain`. False if
/// an op between them has an effect: order matters then.
static bool moveOpsBetween(Operation *chain, Operation *role) {
  SmallVector<Operation *> between;
  for (Operation *op = chain->getNextNode(); op != role; op = op->getNextNode()) {
    if (!isMemoryEffectFree(op) && !isa<sm90::RingOp>(op))
      return false;
    between.push_back(op);
  }
  for (Operation *op : between)
    op->moveBefore(chain);
  return true;
}

static void expandRole(sm90::RoleOp role, Kernel &kernel, int64_t kernelThreads, scf::IfOp &chain,
                       scf::IfOp &last) {
  ImplicitLocOpBuilder b(role.getLoc(), role.getContext());
  if (chain && moveOpsBetween(chain, role)) {
    OpBuilder::InsertionGuard guard(b);
    b.createBlock(&last.getElseRegion());
    scf::YieldOp::create(b);
    b.setInsertionPointToStart(last.elseBlock());
    last = moveIntoIf(b, isInRole(b, kernel, role), role.getBody());
  } else {
    b.setInsertionPoint(role);
    chain = last = moveIntoIf(b, isInRole(b, kernel, role), role.getBody());
  }
  int64_t index = kernel.roles.size();
  last->setAttr(kRoleAttr, b.getI64IntegerAttr(index));
  b.setInsertionPointToStart(last.thenBlock());
  if (std::optional<uint32_t> registers = role.getRegisters())
    emitRegisters(b, *registers, kernelThreads);
  kernel.roles.push_back(makeScope(b, kernel, role, index));
  role.erase();
}

//===----------------------------------------------------------------------===//
// Elected threads and loops
//===----------------------------------------------------------------------===//

/// Whether a thread is the one that `elect`'s body is for. Where it copies by TMA the hardware
/// elects it: of a comparison the assembler does not see that one lane is left, and gives each copy
/// a loop over lanes, 12 instructions and a branch (pages of 16: 515 instead of 640 TFLOP/s).
static Value isElectedThread(ImplicitLocOpBuilder &b, sm90::ElectOp elect, const Kernel &kernel) {
  bool copies = elect
                    .walk([](Operation *op) {
                      bool isCopy = isa<sm90::TmaLoadOp, sm90::TmaStoreOp, sm90::BulkLoadOp>(op);
                      return isCopy ? WalkResult::interrupt() : WalkResult::advance();
                    })
                    .wasInterrupted();
  if (!copies)
    return compare(b, CmpIPredicate::eq, kernel.thread, constant32(b, 0));
  Value isFirstWarp = compare(b, CmpIPredicate::ult, kernel.thread, constant32(b, kWarpThreads));
  b.setInsertionPointToStart(
      scf::IfOp::create(b, isFirstWarp, /*withElseRegion=*/false).thenBlock());
  return NVVM::ElectSyncOp::create(b, b.getI1Type(), Value());
}

static void expandElect(sm90::ElectOp elect, const Kernel &kernel) {
  ImplicitLocOpBuilder b(elect.getLoc(), elect);
  scf::IfOp branch = moveIntoIf(b, isElectedThread(b, elect, kernel), elect.getBody());
  branch->setAttr(kElectedAttr, b.getUnitAttr());
  // What follows may be an instruction of the whole warp.
  b.setInsertionPoint(elect);
  emitWarpBarrier(b);
  elect.erase();
}

/// LLVM guards a loop that may run zero times; on the path around it the
/// assembler sees accumulators written by moves and serialises wgmma (C7515).
static void assumeRuns(scf::ForOp loop) {
  ImplicitLocOpBuilder b(loop.getLoc(), loop);
  Value runs =
      arith::CmpIOp::create(b, CmpIPredicate::slt, loop.getLowerBound(), loop.getUpperBound());
  LLVM::AssumeOp::create(b, runs);
  loop->removeAttr(sm90::kAtLeastOnceAttr);
}

void mlac::sm90nvvm::keepRolled(scf::ForOp loop) {
  MLIRContext *context = loop.getContext();
  auto unroll = LLVM::LoopUnrollAttr::get(context, /*disable=*/BoolAttr::get(context, true),
                                          /*count=*/{}, /*runtimeDisable=*/{}, /*full=*/{},
                                          /*followupUnrolled=*/{}, /*followupRemainder=*/{},
                                          /*followupAll=*/{});
  loop->setAttr("llvm.loop_annotation",
                LLVM::LoopAnnotationAttr::get(context, {}, {}, {}, unroll, {}, {}, {}, {}, {}, {},
                                              {}, {}, {}, {}, {}));
}

void mlac::sm90nvvm::expandRoles(LLVM::LLVMFuncOp function, Kernel &kernel) {
  int64_t threads = kernel.getThreads();
  scf::IfOp chain, last;
  for (auto role : llvm::make_early_inc_range(function.getBody().front().getOps<sm90::RoleOp>()))
    expandRole(role, kernel, threads, chain, last);
  function.walk([&](sm90::ElectOp elect) { expandElect(elect, kernel.getScope(elect)); });
  function.walk([&](scf::ForOp loop) {
    if (loop->hasAttr(sm90::kAtLeastOnceAttr))
      assumeRuns(loop);
    if (chain)
      keepRolled(loop);
  });
}
