//===- Emulator.cpp - runs one CTA of an nvvm kernel on the host ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulator.h"
#include "Numbers.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"

#include <bit>
#include <cmath>

using namespace mlir;
using namespace mlac::emulator;

/// Size of the module's zeros.
static constexpr size_t kZeroBytes = 4096;
/// Where the dynamic shared memory of an sm_90 kernel starts.
static constexpr uint64_t kSharedBase = 1024;

Argument Argument::f32(float value) { return {llvm::bit_cast<uint32_t>(value), 0}; }

//===----------------------------------------------------------------------===//
// State
//===----------------------------------------------------------------------===//

static size_t countParts(Type type) {
  if (auto structure = dyn_cast<LLVM::LLVMStructType>(type))
    return structure.getBody().size();
  if (auto vector = dyn_cast<VectorType>(type))
    return vector.getNumElements();
  return 1;
}

Emulator::Emulator(LLVM::LLVMFuncOp function) : function(function) {
  threads = cast<IntegerAttr>(function->getAttr("mlac.threads")).getInt();
  zeros.assign(kZeroBytes, 0);
  shared.resize(cast<IntegerAttr>(function->getAttr("mlac.shared_bytes")).getInt());
}

Emulator::Parts &Emulator::parts(Value value) {
  std::unique_ptr<Parts> &entry = values[value];
  if (!entry)
    entry = std::make_unique<Parts>(countParts(value.getType()), Lanes(threads));
  return *entry;
}

void Emulator::copy(Value from, Value to, const Mask &mask) {
  const Parts &source = parts(from);
  Parts &target = parts(to);
  for (size_t part = 0; part < target.size(); ++part)
    for (size_t t = 0; t < threads; ++t)
      if (mask[t])
        target[part][t] = source[part][t];
}

void Emulator::map(Operation *op, const Mask &mask, function_ref<uint64_t(size_t)> compute) {
  // In SSA form no operand is the result, so that it may be written directly.
  Lanes &target = lanes(op->getResult(0));
  uint64_t bits = llvm::maskTrailingOnes<uint64_t>(getWidth(op->getResult(0).getType()));
  for (size_t t = 0; t < threads; ++t)
    if (mask[t])
      target[t] = compute(t) & bits;
}

void Emulator::fail(Operation *op, const Twine &why) {
  if (!error.empty())
    return;
  llvm::raw_string_ostream stream(error);
  stream << why << " at " << *op;
}

/// The bytes behind an address, or null if some are outside.
char *Emulator::access(uint64_t address, size_t bytes, bool isShared) {
  if (address % bytes != 0)
    return nullptr;
  if (isShared) {
    uint64_t offset = address - kSharedBase;
    return offset + bytes <= shared.size() ? &shared[offset] : nullptr;
  }
  auto buffer = buffers.upper_bound(address);
  if (buffer == buffers.begin())
    return nullptr;
  --buffer;
  uint64_t offset = address - buffer->first; // no sum that might wrap around
  bool isInside = bytes <= buffer->second && offset <= buffer->second - bytes;
  return isInside ? reinterpret_cast<char *>(address) : nullptr;
}

std::string Emulator::run(ArrayRef<Argument> arguments, std::array<int64_t, 3> position) {
  this->position = position;
  error.clear();
  buffers = memory;
  std::fill(shared.begin(), shared.end(), char(0xFF)); // NaN in every float type
  copies.assign(threads, {{}});
  buffers[reinterpret_cast<uint64_t>(zeros.data())] = zeros.size();
  for (auto [argument, value] : llvm::zip_equal(arguments, function.getArguments())) {
    if (argument.bytes)
      buffers[argument.bits] = argument.bytes;
    lanes(value).assign(threads, argument.bits);
  }
  runBlock(function.getBody().front(), Mask(threads, 1));
  return error;
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

void Emulator::runBlock(Block &block, const Mask &mask) {
  for (Operation &op : block) {
    if (!error.empty())
      return;
    runOp(&op, mask);
  }
}

void Emulator::runOp(Operation *op, const Mask &mask) {
  if (isa<scf::YieldOp, LLVM::ReturnOp>(op))
    return;
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return runIf(branch, mask);
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return runFor(loop, mask);
  if (!runArith(op, mask) && !runFloat(op, mask) && !runLlvm(op, mask) && !runNvvm(op, mask))
    fail(op, "the emulator does not know the op");
}

void Emulator::runIf(scf::IfOp op, const Mask &mask) {
  Mask taken(mask), other(mask);
  const Lanes condition = lanes(op.getCondition());
  for (size_t t = 0; t < threads; ++t) {
    taken[t] = mask[t] && condition[t];
    other[t] = mask[t] && !condition[t];
  }
  for (auto [region, active] :
       {std::pair(&op.getThenRegion(), &taken), std::pair(&op.getElseRegion(), &other)}) {
    if (region->empty() || !llvm::is_contained(*active, 1))
      continue;
    runBlock(region->front(), *active);
    for (auto [yielded, result] :
         llvm::zip_equal(region->front().getTerminator()->getOperands(), op.getResults()))
      copy(yielded, result, *active);
  }
}

/// Threads may begin and end at counters of their own; those that are done wait.
void Emulator::runFor(scf::ForOp op, const Mask &mask) {
  Type type = op.getInductionVar().getType();
  std::vector<int64_t> counters(threads), ends(threads), steps(threads);
  for (size_t t = 0; t < threads; ++t) {
    counters[t] = extend(lanes(op.getLowerBound())[t], type);
    ends[t] = extend(lanes(op.getUpperBound())[t], type);
    steps[t] = extend(lanes(op.getStep())[t], type);
  }
  for (auto [init, argument] : llvm::zip_equal(op.getInitArgs(), op.getRegionIterArgs()))
    copy(init, argument, mask);
  Mask active(mask);
  while (error.empty()) {
    Lanes &induction = lanes(op.getInductionVar());
    for (size_t t = 0; t < threads; ++t) {
      active[t] = active[t] && counters[t] < ends[t];
      if (active[t])
        induction[t] = truncate(counters[t], type);
    }
    if (!llvm::is_contained(active, 1))
      break;
    runBlock(*op.getBody(), active);
    // All yields are read before any is written: they may swap.
    std::vector<Parts> yielded;
    for (Value value : op.getBody()->getTerminator()->getOperands())
      yielded.push_back(parts(value));
    for (auto [value, argument] : llvm::zip_equal(yielded, op.getRegionIterArgs()))
      for (size_t part = 0; part < value.size(); ++part)
        for (size_t t = 0; t < threads; ++t)
          if (active[t])
            parts(argument)[part][t] = value[part][t];
    for (size_t t = 0; t < threads; ++t)
      counters[t] += active[t] ? steps[t] : 0;
  }
  for (auto [argument, result] : llvm::zip_equal(op.getRegionIterArgs(), op.getResults()))
    copy(argument, result, mask);
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

static bool compareIntegers(arith::CmpIPredicate predicate, uint64_t a, uint64_t b, Type type) {
  int64_t x = extend(a, type), y = extend(b, type);
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return a == b;
  case arith::CmpIPredicate::ne:
    return a != b;
  case arith::CmpIPredicate::slt:
    return x < y;
  case arith::CmpIPredicate::sle:
    return x <= y;
  case arith::CmpIPredicate::sgt:
    return x > y;
  case arith::CmpIPredicate::sge:
    return x >= y;
  case arith::CmpIPredicate::ult:
    return a < b;
  case arith::CmpIPredicate::ule:
    return a <= b;
  case arith::CmpIPredicate::ugt:
    return a > b;
  case arith::CmpIPredicate::uge:
    return a >= b;
  }
  return false;
}

bool Emulator::runArith(Operation *op, const Mask &mask) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    uint64_t bits = 0;
    if (auto vector = dyn_cast<SplatElementsAttr>(constant.getValue())) {
      for (Lanes &part : parts(constant))
        part.assign(threads, vector.getSplatValue<APInt>().getZExtValue());
      return true;
    }
    if (auto integer = dyn_cast<IntegerAttr>(constant.getValue()))
      bits = integer.getValue().getZExtValue();
    else if (auto number = dyn_cast<FloatAttr>(constant.getValue()))
      bits = number.getValue().bitcastToAPInt().getZExtValue();
    map(op, mask, [&](size_t) { return bits; });
    return true;
  }
  if (op->getNumOperands() == 0 || op->getNumResults() != 1 ||
      !isa<arith::ArithDialect>(op->getDialect()))
    return false;
  Type type = op->getOperand(0).getType();
  const Lanes &first = lanes(op->getOperand(0)), &last = lanes(op->getOperands().back());
  auto apply = [&](auto compute) {
    map(op, mask, [&](size_t t) { return uint64_t(compute(first[t], last[t])); });
    return true;
  };
  auto ext = [&](uint64_t bits) { return extend(bits, type); };
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<arith::AddIOp>([&](auto) { return apply([](auto a, auto b) { return a + b; }); })
      .Case<arith::SubIOp>([&](auto) { return apply([](auto a, auto b) { return a - b; }); })
      .Case<arith::MulIOp>([&](auto) { return apply([](auto a, auto b) { return a * b; }); })
      .Case<arith::DivUIOp>([&](auto) { return apply([](auto a, auto b) { return a / b; }); })
      .Case<arith::CeilDivUIOp>([&](auto) { return apply(llvm::divideCeil<uint64_t, uint64_t>); })
      .Case<arith::RemUIOp>([&](auto) { return apply([](auto a, auto b) { return a % b; }); })
      .Case<arith::DivSIOp>(
          [&](auto) { return apply([&](auto a, auto b) { return ext(a) / ext(b); }); })
      .Case<arith::CeilDivSIOp>([&](auto) {
        return apply([&](auto a, auto b) { return llvm::divideCeilSigned(ext(a), ext(b)); });
      })
      .Case<arith::RemSIOp>(
          [&](auto) { return apply([&](auto a, auto b) { return ext(a) % ext(b); }); })
      .Case<arith::XOrIOp>([&](auto) { return apply([](auto a, auto b) { return a ^ b; }); })
      .Case<arith::AndIOp>([&](auto) { return apply([](auto a, auto b) { return a & b; }); })
      .Case<arith::OrIOp>([&](auto) { return apply([](auto a, auto b) { return a | b; }); })
      .Case<arith::ShLIOp>([&](auto) { return apply([](auto a, auto b) { return a << b; }); })
      .Case<arith::ShRUIOp>([&](auto) { return apply([](auto a, auto b) { return a >> b; }); })
      .Case<arith::MinUIOp>(
          [&](auto) { return apply([](auto a, auto b) { return std::min(a, b); }); })
      .Case<arith::MaxUIOp>(
          [&](auto) { return apply([](auto a, auto b) { return std::max(a, b); }); })
      .Case<arith::MinSIOp>(
          [&](auto) { return apply([&](auto a, auto b) { return std::min(ext(a), ext(b)); }); })
      .Case<arith::MaxSIOp>(
          [&](auto) { return apply([&](auto a, auto b) { return std::max(ext(a), ext(b)); }); })
      .Case<arith::CmpIOp>([&](arith::CmpIOp cmp) {
        return apply(
            [&](auto a, auto b) { return compareIntegers(cmp.getPredicate(), a, b, type); });
      })
      .Case<arith::ExtSIOp, arith::IndexCastOp>(
          [&](auto) { return apply([&](auto a, auto) { return uint64_t(ext(a)); }); })
      .Case<arith::ExtUIOp, arith::TruncIOp, arith::IndexCastUIOp>(
          [&](auto) { return apply([](auto a, auto) { return a; }); })
      .Case<arith::SelectOp>([&](auto) {
        const Lanes &second = lanes(op->getOperand(1));
        map(op, mask, [&](size_t t) { return first[t] ? second[t] : last[t]; });
        return true;
      })
      .Default([](Operation *) { return false; });
}

static bool compareFloats(arith::CmpFPredicate predicate, float a, float b) {
  switch (predicate) {
  case arith::CmpFPredicate::OEQ:
    return a == b;
  case arith::CmpFPredicate::OGT:
    return a > b;
  case arith::CmpFPredicate::OGE:
    return a >= b;
  case arith::CmpFPredicate::OLT:
    return a < b;
  case arith::CmpFPredicate::OLE:
    return a <= b;
  case arith::CmpFPredicate::ONE:
    return a < b || a > b;
  case arith::CmpFPredicate::UGT:
    return !(a <= b);
  case arith::CmpFPredicate::UNE:
    return a != b;
  case arith::CmpFPredicate::UNO:
    return std::isnan(a) || std::isnan(b);
  default:
    return false;
  }
}

/// arith.maximumf: NaN wins.
static float maximum(float a, float b) { return std::isnan(a) || a > b ? a : b; }

bool Emulator::runFloat(Operation *op, const Mask &mask) {
  if (op->getNumOperands() == 0 || op->getNumResults() != 1 ||
      !isa<arith::ArithDialect, LLVM::LLVMDialect>(op->getDialect()))
    return false;
  Type from = op->getOperand(0).getType(), to = op->getResult(0).getType();
  const Lanes &first = lanes(op->getOperand(0)), &last = lanes(op->getOperands().back());
  auto apply = [&](auto compute) {
    map(op, mask, [&](size_t t) {
      return fromFloat(compute(toFloat(first[t], from), toFloat(last[t], from)), to);
    });
    return true;
  };
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<arith::AddFOp>([&](auto) { return apply([](float a, float b) { return a + b; }); })
      .Case<arith::SubFOp>([&](auto) { return apply([](float a, float b) { return a - b; }); })
      .Case<arith::MulFOp>([&](auto) { return apply([](float a, float b) { return a * b; }); })
      .Case<arith::MaximumFOp>([&](auto) { return apply(maximum); })
      .Case<arith::MinNumFOp>(
          [&](auto) { return apply([](float a, float b) { return std::fmin(a, b); }); })
      .Case<arith::MaxNumFOp>(
          [&](auto) { return apply([](float a, float b) { return std::fmax(a, b); }); })
      .Case<arith::MinimumFOp>(
          [&](auto) { return apply([](float a, float b) { return -maximum(-a, -b); }); })
      .Case<arith::NegFOp>([&](auto) { return apply([](float a, float) { return -a; }); })
      .Case<arith::ExtFOp, arith::TruncFOp>(
          [&](auto) { return apply([](float a, float) { return a; }); })
      .Case<LLVM::SqrtOp>([&](auto) { return apply([](float a, float) { return std::sqrt(a); }); })
      .Case<LLVM::FAbsOp>([&](auto) { return apply([](float a, float) { return std::fabs(a); }); })
      .Case<arith::SIToFPOp>([&](auto) {
        map(op, mask, [&](size_t t) { return fromFloat(extend(first[t], from), to); });
        return true;
      })
      .Case<arith::FPToSIOp>([&](auto) {
        map(op, mask, [&](size_t t) { return uint64_t(int64_t(toFloat(first[t], from))); });
        return true;
      })
      .Case<arith::BitcastOp>([&](auto) {
        map(op, mask, [&](size_t t) { return first[t]; });
        return true;
      })
      .Case<arith::CmpFOp>([&](arith::CmpFOp cmp) {
        map(op, mask, [&](size_t t) {
          return compareFloats(cmp.getPredicate(), toFloat(first[t], from), toFloat(last[t], from));
        });
        return true;
      })
      .Default([](Operation *) { return false; });
}

//===----------------------------------------------------------------------===//
// llvm
//===----------------------------------------------------------------------===//

static bool isShared(Value pointer) {
  return cast<LLVM::LLVMPointerType>(pointer.getType()).getAddressSpace() == 3;
}

static Type getElement(Type type) {
  if (auto vector = dyn_cast<VectorType>(type))
    return vector.getElementType();
  return type;
}

/// A barrier of so many threads that gives all of them whether any has a 1.
void Emulator::runVote(LLVM::CallIntrinsicOp op, const Mask &mask) {
  const Lanes &expected = lanes(op.getArgs()[1]), &votes = lanes(op.getArgs()[2]);
  uint64_t arrived = 0, any = 0;
  for (size_t t = 0; t < mask.size(); ++t)
    if (mask[t]) {
      ++arrived;
      any |= votes[t] & 1;
    }
  size_t leader = llvm::find(mask, 1) - mask.begin();
  if (arrived != expected[leader])
    fail(op, "not all threads arrive");
  map(op, mask, [&](size_t) { return any; });
}

void Emulator::runIntrinsic(LLVM::CallIntrinsicOp op, const Mask &mask) {
  StringRef name = op.getIntrin();
  if (name.contains("barrier.cta.red.or"))
    return runVote(op, mask);
  Type type = op->getResult(0).getType();
  const Lanes &first = lanes(op.getArgs()[0]);
  map(op, mask, [&](size_t t) {
    float x = toFloat(first[t], type);
    if (name.contains("ex2"))
      return fromFloat(std::exp2(x), type);
    if (name.contains("lg2"))
      return fromFloat(std::log2(x), type);
    if (name.contains("rsqrt"))
      return fromFloat(1.0f / std::sqrt(x), type);
    if (name.contains("div.full"))
      return fromFloat(x / toFloat(lanes(op.getArgs()[1])[t], type), type);
    fail(op, "unknown intrinsic");
    return uint64_t(0);
  });
}

/// Of 32 bits; threads one after the other.
void Emulator::runAtomic(LLVM::AtomicRMWOp op, const Mask &mask) {
  const Lanes addresses = lanes(op.getPtr()), operands = lanes(op.getVal());
  map(op, mask, [&](size_t t) {
    char *target = access(addresses[t], sizeof(uint32_t), isShared(op.getPtr()));
    if (!target)
      return fail(op, "thread " + Twine(t) + " updates outside"), uint64_t(0);
    uint32_t before, operand = operands[t];
    memcpy(&before, target, sizeof before);
    uint32_t after = operand;
    if (op.getBinOp() == LLVM::AtomicBinOp::add)
      after = before + operand;
    else if (op.getBinOp() == LLVM::AtomicBinOp::_or)
      after = before | operand;
    else if (op.getBinOp() != LLVM::AtomicBinOp::xchg)
      fail(op, "unknown update");
    memcpy(target, &after, sizeof after);
    return uint64_t(before);
  });
}

bool Emulator::runLlvm(Operation *op, const Mask &mask) {
  // Positions are the same in all active threads.
  size_t leader = llvm::find(mask, 1) - mask.begin();
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<LLVM::AddressOfOp>([&](LLVM::AddressOfOp address) {
        uint64_t base = isShared(address) ? kSharedBase : reinterpret_cast<uint64_t>(zeros.data());
        map(op, mask, [&](size_t) { return base; });
        return true;
      })
      .Case<LLVM::UndefOp>([&](auto) {
        for (Lanes &part : parts(op->getResult(0)))
          part.assign(threads, ~uint64_t(0));
        return true;
      })
      .Case<LLVM::Trap>([&](auto) { return fail(op, "trap"), true; })
      .Case<LLVM::AssumeOp>([&](LLVM::AssumeOp assume) {
        for (size_t t = 0; t < threads; ++t)
          if (mask[t] && !lanes(assume.getCond())[t])
            fail(op, "wrong assumption");
        return true;
      })
      .Case<LLVM::PtrToIntOp, LLVM::IntToPtrOp>([&](auto) {
        const Lanes &source = lanes(op->getOperand(0));
        map(op, mask, [&](size_t t) { return source[t]; });
        return true;
      })
      .Case<LLVM::GEPOp>([&](LLVM::GEPOp gep) {
        int64_t bytes = getWidth(gep.getElemType()) / 8;
        const Lanes &base = lanes(gep.getBase());
        auto index = gep.getIndices()[0];
        if (auto constant = dyn_cast<IntegerAttr>(index)) {
          map(op, mask, [&](size_t t) { return base[t] + bytes * constant.getInt(); });
        } else {
          const Lanes &elements = lanes(cast<Value>(index));
          Type type = cast<Value>(index).getType();
          map(op, mask, [&](size_t t) { return base[t] + bytes * extend(elements[t], type); });
        }
        return true;
      })
      .Case<LLVM::InsertValueOp>([&](LLVM::InsertValueOp insert) {
        // A chain of insertions would copy the struct each time: take it over.
        if (insert.getContainer().hasOneUse())
          std::swap(parts(insert.getRes()), parts(insert.getContainer()));
        else
          copy(insert.getContainer(), insert.getRes(), mask);
        parts(insert.getRes())[insert.getPosition()[0]] = lanes(insert.getValue());
        return true;
      })
      .Case<LLVM::ExtractValueOp>([&](LLVM::ExtractValueOp extract) {
        const Lanes &source = parts(extract.getContainer())[extract.getPosition()[0]];
        map(op, mask, [&](size_t t) { return source[t]; });
        return true;
      })
      .Case<LLVM::InsertElementOp>([&](LLVM::InsertElementOp insert) {
        copy(insert.getVector(), insert.getRes(), mask);
        parts(insert.getRes())[lanes(insert.getPosition())[leader]] = lanes(insert.getValue());
        return true;
      })
      .Case<LLVM::ExtractElementOp>([&](LLVM::ExtractElementOp extract) {
        const Lanes &source = parts(extract.getVector())[lanes(extract.getPosition())[leader]];
        map(op, mask, [&](size_t t) { return source[t]; });
        return true;
      })
      .Case<LLVM::BitcastOp>([&](LLVM::BitcastOp cast) { // pair <-> integer of both
        const Parts &source = parts(cast.getArg());
        Parts &target = parts(cast.getRes());
        bool isPair = source.size() == 2;
        size_t width = getWidth(getElement(isPair ? cast.getArg().getType() : cast.getType()));
        uint64_t low = (uint64_t(1) << width) - 1;
        for (size_t t = 0; t < threads; ++t) {
          uint64_t bits =
              isPair ? (source[1][t] & low) << width | (source[0][t] & low) : source[0][t];
          for (size_t part = 0; part < target.size(); ++part)
            if (mask[t])
              target[part][t] = target.size() == 1 ? bits : bits >> (width * part) & low;
        }
        return true;
      })
      .Case<LLVM::FPTruncOp>([&](LLVM::FPTruncOp trunc) {
        Type from = getElement(trunc.getArg().getType()), to = getElement(trunc.getType());
        for (auto [source, target] : llvm::zip_equal(parts(trunc.getArg()), parts(trunc.getRes())))
          for (size_t t = 0; t < threads; ++t)
            target[t] = fromFloat(toFloat(source[t], from), to);
        return true;
      })
      .Case<LLVM::FMulOp>([&](LLVM::FMulOp product) { // of pairs
        Type type = getElement(product.getType());
        for (auto [left, right, target] : llvm::zip_equal(
                 parts(product.getLhs()), parts(product.getRhs()), parts(product.getRes())))
          for (size_t t = 0; t < threads; ++t)
            target[t] = fromFloat(toFloat(left[t], type) * toFloat(right[t], type), type);
        return true;
      })
      .Case<LLVM::CallIntrinsicOp>([&](LLVM::CallIntrinsicOp call) {
        runIntrinsic(call, mask);
        return true;
      })
      .Case<LLVM::InlineAsmOp>([&](LLVM::InlineAsmOp wait) {
        if (wait.getAsmString().starts_with("wgmma.mma_async"))
          return runRegisterWgmma(wait, mask), true;
        // The tied wgmma wait; launches run one by one, so griddepcontrol.wait is nothing.
        for (auto [index, operand] : llvm::enumerate(wait.getOperands()))
          parts(wait.getRes())[index] = lanes(operand);
        return true;
      })
      .Case<LLVM::CtPopOp>([&](LLVM::CtPopOp count) {
        const Lanes &source = lanes(count.getIn());
        map(op, mask, [&](size_t t) { return uint64_t(std::popcount(source[t])); });
        return true;
      })
      .Case<LLVM::CountLeadingZerosOp>([&](LLVM::CountLeadingZerosOp count) {
        const Lanes &source = lanes(count.getIn());
        map(op, mask, [&](size_t t) { return uint64_t(std::countl_zero(uint32_t(source[t]))); });
        return true;
      })
      .Case<LLVM::FMAOp>([&](LLVM::FMAOp fma) {
        const Lanes &a = lanes(fma.getA()), &b = lanes(fma.getB()), &c = lanes(fma.getC());
        Type type = fma.getType();
        map(op, mask, [&](size_t t) {
          return fromFloat(std::fma(toFloat(a[t], type), toFloat(b[t], type), toFloat(c[t], type)),
                           type);
        });
        return true;
      })
      .Case<LLVM::AtomicRMWOp>([&](LLVM::AtomicRMWOp atomic) {
        runAtomic(atomic, mask);
        return true;
      })
      .Case<LLVM::LoadOp>([&](LLVM::LoadOp load) {
        size_t bytes = getWidth(getElement(load.getType())) / 8;
        Parts &result = parts(load.getRes());
        const Lanes &addresses = lanes(load.getAddr());
        for (size_t t = 0; t < threads; ++t) {
          if (!mask[t])
            continue;
          const char *source =
              access(addresses[t], bytes * result.size(), isShared(load.getAddr()));
          if (!source)
            return fail(op, "thread " + Twine(t) + " loads outside"), true;
          for (auto [index, part] : llvm::enumerate(result))
            part[t] = 0, memcpy(&part[t], source + index * bytes, bytes);
        }
        return true;
      })
      .Case<LLVM::StoreOp>([&](LLVM::StoreOp store) {
        size_t bytes = getWidth(getElement(store.getValue().getType())) / 8;
        Parts &value = parts(store.getValue());
        const Lanes &addresses = lanes(store.getAddr());
        for (size_t t = 0; t < threads; ++t) {
          if (!mask[t])
            continue;
          char *target = access(addresses[t], bytes * value.size(), isShared(store.getAddr()));
          if (!target)
            return fail(op, "thread " + Twine(t) + " stores outside"), true;
          for (auto [index, part] : llvm::enumerate(value))
            memcpy(target + index * bytes, &part[t], bytes);
        }
        return true;
      })
      .Default([](Operation *) { return false; });
}
