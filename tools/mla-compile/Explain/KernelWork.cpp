//===- KernelWork.cpp - what a launch computes and moves ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Explain/WorkCounter.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::work;

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

/// Of two numbers; nothing for other operations and for divisors of 0. Sizes and places are
/// far from 2^63, and below 2^31 where they are i32.
static std::optional<int64_t> compute(Operation &op, int64_t a, int64_t b) {
  using Result = std::optional<int64_t>;
  auto divided = [&](auto divide) -> Result { return b == 0 ? Result() : Result(divide()); };
  auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  return llvm::TypeSwitch<Operation *, Result>(&op)
      .Case([&](arith::AddIOp) { return a + b; })
      .Case([&](arith::SubIOp) { return a - b; })
      .Case([&](arith::MulIOp) { return a * b; })
      .Case([&](arith::DivSIOp) { return divided([&] { return a / b; }); })
      .Case([&](arith::DivUIOp) { return divided([&] { return static_cast<int64_t>(ua / ub); }); })
      .Case(
          [&](arith::CeilDivSIOp) { return divided([&] { return llvm::divideCeilSigned(a, b); }); })
      .Case([&](arith::CeilDivUIOp) {
        return divided([&] { return static_cast<int64_t>(llvm::divideCeil(ua, ub)); });
      })
      .Case([&](arith::FloorDivSIOp) {
        return divided([&] { return llvm::divideFloorSigned(a, b); });
      })
      .Case([&](arith::RemSIOp) { return divided([&] { return a % b; }); })
      .Case([&](arith::RemUIOp) { return divided([&] { return static_cast<int64_t>(ua % ub); }); })
      .Case([&](arith::MinSIOp) { return std::min(a, b); })
      .Case([&](arith::MaxSIOp) { return std::max(a, b); })
      .Case([&](arith::MinUIOp) { return static_cast<int64_t>(std::min(ua, ub)); })
      .Case([&](arith::MaxUIOp) { return static_cast<int64_t>(std::max(ua, ub)); })
      .Case([&](arith::AndIOp) { return a & b; })
      .Case([&](arith::OrIOp) { return a | b; })
      .Case([&](arith::XOrIOp) { return a ^ b; })
      .Case([&](arith::CmpIOp each) {
        return arith::applyCmpPredicate(each.getPredicate(), llvm::APInt(64, ua),
                                        llvm::APInt(64, ub));
      })
      .Default([](Operation *) { return Result(); });
}

/// Whether `op` was one of numbers, whose result is known where its operands are.
bool Counter::runScalar(Operation &op) {
  Value result = op.getNumResults() == 1 ? op.getResult(0) : Value();
  if (!result || !result.getType().isIntOrIndex())
    return false;
  at(result) = {};
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    bool isTruth = result.getType().isInteger(1);
    if (auto value = dyn_cast<IntegerAttr>(constant.getValue()))
      set(result, isTruth ? value.getValue().getZExtValue() : value.getInt());
    return true;
  }
  if (auto id = dyn_cast<tile::ProgramIdOp>(op)) {
    set(result, program[id.getDim()]);
    return true;
  }
  SmallVector<std::optional<int64_t>, 3> operands;
  for (Value operand : op.getOperands())
    operands.push_back(operand.getType().isIntOrIndex() ? number(operand) : std::nullopt);
  if (isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp, arith::ExtUIOp,
          arith::TruncIOp>(op)) {
    if (operands[0])
      set(result, *operands[0]);
    return true;
  }
  if (operands.size() == 2 && operands[0] && operands[1])
    if (std::optional<int64_t> value = compute(op, *operands[0], *operands[1]))
      set(result, *value);
  return true;
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

bool Counter::runFor(scf::ForOp op) {
  std::optional<int64_t> lower = number(op.getLowerBound()), upper = number(op.getUpperBound()),
                         step = number(op.getStep());
  if (!lower || !upper || !step || *step <= 0)
    return fail(*op, "a bound that only the device knows");
  for (auto [argument, init] : llvm::zip(op.getRegionIterArgs(), op.getInitArgs()))
    at(argument) = at(init);
  for (int64_t i = *lower; i < *upper; i += *step) {
    set(op.getInductionVar(), i);
    if (!run(*op.getBody()))
      return false;
    SmallVector<Known> yielded;
    for (Value value : op.getBody()->getTerminator()->getOperands())
      yielded.push_back(at(value));
    for (auto [argument, value] : llvm::zip(op.getRegionIterArgs(), yielded))
      at(argument) = value;
  }
  for (auto [result, argument] : llvm::zip(op.getResults(), op.getRegionIterArgs()))
    at(result) = at(argument);
  return true;
}

bool Counter::runIf(scf::IfOp op) {
  std::optional<int64_t> condition = number(op.getCondition());
  if (!condition)
    return fail(*op, "a condition that only the device knows");
  Region &taken = *condition ? op.getThenRegion() : op.getElseRegion();
  if (taken.empty())
    return true;
  if (!run(taken.front()))
    return false;
  for (auto [result, value] :
       llvm::zip(op.getResults(), taken.front().getTerminator()->getOperands()))
    at(result) = at(value);
  return true;
}

bool Counter::execute(Operation &op) {
  if (++ops > kMostOps)
    return fail(op, "more operations than a report follows");
  return llvm::TypeSwitch<Operation *, bool>(&op)
      .Case([&](scf::ForOp each) { return runFor(each); })
      .Case([&](scf::IfOp each) { return runIf(each); })
      .Case<scf::YieldOp, tile::ReturnOp>([](Operation *) { return true; })
      .Case([&](memref::ReinterpretCastOp each) { return runReinterpret(each); })
      .Case([&](memref::LoadOp each) { return runLoadScalar(each); })
      .Case([&](tile::LoadOp each) { return runLoad(each); })
      .Case([&](tile::LoadRowsOp each) { return runLoadRows(each); })
      .Case([&](tile::LoadPagedOp each) { return runLoadPaged(each); })
      .Case([&](tile::LoadElementsOp each) { return runLoadElements(each); })
      .Case([&](tile::StoreOp each) { return runStore(each); })
      .Case([&](tile::StoreSlotsOp each) { return runStoreSlots(each); })
      .Case([&](tile::TopKOp each) { return runTopK(each); })
      .Case([&](tile::DotOp each) { return runDot(each); })
      .Case([&](tile::AttendOp each) { return runAttend(each); })
      .Case([&](arith::SelectOp each) { return runSelect(each); })
      .Default([&](Operation *each) {
        if (runScalar(*each))
          return true;
        if (each->getNumRegions() == 0 && isMemoryEffectFree(each))
          return runElementwise(*each);
        return fail(*each, "not known to the report");
      });
}

bool Counter::run(Block &block) {
  for (Operation &op : block)
    if (!execute(op))
      return false;
  return true;
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

Counter::Counter(tile::KernelOp kernel, const StepLaunch &launch, ArrayRef<StepBufferInfo> buffers)
    : kernel(kernel), launch(launch), buffers(buffers) {
  auto add = [&](Value value) { numbers.try_emplace(value, numbers.size()); };
  kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
    for (Region &region : op->getRegions())
      for (Block &block : region)
        llvm::for_each(block.getArguments(), add);
    llvm::for_each(op->getResults(), add);
  });
  values.resize(numbers.size());
}

void Counter::bindArguments() {
  for (auto [index, argument] : llvm::enumerate(kernel.getBody().getArguments())) {
    const StepArgument &given = launch.arguments[index];
    auto memory = dyn_cast<MemRefType>(argument.getType());
    if (!memory) {
      set(argument, given.number);
      continue;
    }
    Known &known = at(argument);
    known.kind = Known::Memory;
    known.view.buffer = static_cast<int>(index);
    known.view.elementBytes = llvm::divideCeil(memory.getElementTypeBitWidth(), 8);
  }
}

void Counter::runProgram() {
  attentions.clear();
  (void)run(kernel.getBody().front());
  for (const Attention &attention : attentions)
    flops += attention.flops();
}

KernelWork Counter::count() {
  KernelWork work;
  if (kernel.getBody().getNumArguments() != launch.arguments.size()) {
    work.whyNot = "the package's launch has other arguments than the kernel";
    return work;
  }
  bindArguments();
  for (program[2] = 0; program[2] < launch.grid[2] && !failure; ++program[2])
    for (program[1] = 0; program[1] < launch.grid[1] && !failure; ++program[1])
      for (program[0] = 0; program[0] < launch.grid[0] && !failure; ++program[0])
        runProgram();
  if (failure) {
    work.whyNot = *failure;
    return work;
  }
  work.flops = flops;
  work.readBytes = looseReads;
  work.writtenBytes = looseWrites;
  for (const auto &[buffer, sectors] : reads)
    work.readBytes += sectors.bytes();
  for (const auto &[buffer, sectors] : writes)
    work.writtenBytes += sectors.bytes();
  return work;
}

KernelWork mlac::countWork(tile::KernelOp kernel, const StepLaunch &launch,
                           ArrayRef<StepBufferInfo> buffers) {
  return Counter(kernel, launch, buffers).count();
}
