//===- Nvvm.cpp - the emulator's nvvm operations ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulator.h"
#include "Numbers.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlac::emulator;

static constexpr size_t kWarpThreads = 32, kGroupThreads = 128;

namespace {
/// PTX ISA, "Matrix Descriptor Format" of wgmma.
struct Descriptor {
  uint64_t start, leading, stride, baseOffset, mode;
  explicit Descriptor(uint64_t bits)
      : start((bits & 0x3FFF) << 4), leading((bits >> 16 & 0x3FFF) << 4),
        stride((bits >> 32 & 0x3FFF) << 4), baseOffset(bits >> 49 & 7), mode(bits >> 62) {}
  /// Address of 16-bit element (mn, k): 8 rows of 128 bytes form an atom. The
  /// swizzle exchanges bits 4-6 of the address by bits 7-9.
  uint64_t getKMajor(uint64_t mn, uint64_t k) const {
    return swizzle(start + mn / 8 * stride + mn % 8 * 128 + k * 2);
  }
  uint64_t getMNMajor(uint64_t mn, uint64_t k) const {
    return swizzle(start + mn / 64 * leading + k / 8 * stride + k % 8 * 128 + mn % 64 * 2);
  }
  static uint64_t swizzle(uint64_t address) { return address ^ (address >> 7 & 7) << 4; }
};
} // namespace

void Emulator::runWgmma(Operation *op) {
  auto mma = cast<NVVM::WgmmaMmaAsyncOp>(op);
  size_t columns = mma.getShape().getN(), depth = mma.getShape().getK();
  Type type = mma.getTypeA() == NVVM::WGMMATypes::bf16 ? Type(BFloat16Type::get(op->getContext()))
                                                       : Type(Float16Type::get(op->getContext()));
  Type f32 = Float32Type::get(op->getContext());
  bool isKMajor = mma.getLayoutB() == NVVM::MMALayout::col;
  bool overwrite = mma.getScaleD() == NVVM::WGMMAScaleOut::zero;
  const Parts &source = parts(mma.getInouts());
  Parts &result = parts(mma.getResults());
  auto read = [&](uint64_t address) {
    const char *bytes = access(address, 2, /*isShared=*/true);
    uint16_t bits = 0;
    if (!bytes)
      fail(op, "descriptor points outside");
    else
      memcpy(&bits, bytes, 2);
    return toFloat(bits, type);
  };
  for (size_t group = 0; group < threads; group += kGroupThreads) {
    Descriptor a(lanes(mma.getDescriptorA())[group]), b(lanes(mma.getDescriptorB())[group]);
    for (const Descriptor &descriptor : {a, b})
      if (descriptor.mode != 1 || descriptor.baseOffset != 0)
        return fail(op, "expected 128-byte swizzle and base offset 0");
    std::vector<float> left(64 * depth), right(columns * depth);
    for (size_t k = 0; k < depth; ++k) {
      for (size_t m = 0; m < 64; ++m)
        left[m * depth + k] = read(a.getKMajor(m, k));
      for (size_t n = 0; n < columns; ++n)
        right[n * depth + k] = read(isKMajor ? b.getKMajor(n, k) : b.getMNMajor(n, k));
    }
    for (size_t t = 0; t < kGroupThreads; ++t)
      for (size_t reg = 0; reg < columns / 2; ++reg) {
        size_t row = t / 32 * 16 + t % 32 / 4 + (reg % 4) / 2 * 8;
        size_t column = reg / 4 * 8 + t % 4 * 2 + reg % 2;
        float sum = overwrite ? 0.0f : toFloat(source[reg][group + t], f32);
        for (size_t k = 0; k < depth; ++k)
          sum += left[row * depth + k] * right[column * depth + k];
        result[reg][group + t] = fromFloat(sum, f32);
      }
  }
}

bool Emulator::runNvvm(Operation *op, const Mask &mask) {
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<NVVM::ThreadIdXOp>([&](auto) {
        map(op, mask, [](size_t t) { return t; });
        return true;
      })
      .Case<NVVM::BlockIdXOp>([&](auto) {
        map(op, mask, [&](size_t) { return position[0]; });
        return true;
      })
      .Case<NVVM::BlockIdYOp>([&](auto) {
        map(op, mask, [&](size_t) { return position[1]; });
        return true;
      })
      .Case<NVVM::BlockIdZOp>([&](auto) {
        map(op, mask, [&](size_t) { return position[2]; });
        return true;
      })
      .Case<NVVM::ShflOp>([&](NVVM::ShflOp shuffle) {
        const Lanes &source = lanes(shuffle.getVal()), &offset = lanes(shuffle.getOffset());
        if (llvm::is_contained(mask, 0))
          return fail(op, "shuffle in divergent code"), true;
        map(op, mask, [&](size_t t) {
          size_t lane = t % kWarpThreads, other = offset[t];
          lane = shuffle.getKind() == NVVM::ShflKind::bfly ? lane ^ other : other;
          return source[t / kWarpThreads * kWarpThreads + lane];
        });
        return true;
      })
      .Case<NVVM::Barrier0Op, NVVM::FenceProxyOp, NVVM::WgmmaFenceAlignedOp,
            NVVM::WgmmaGroupSyncAlignedOp>([&](auto) {
        if (llvm::is_contained(mask, 0))
          fail(op, "not all threads arrive");
        return true;
      })
      .Case<NVVM::WgmmaMmaAsyncOp>([&](auto) {
        if (llvm::is_contained(mask, 0))
          fail(op, "not all threads arrive");
        return runWgmma(op), true;
      })
      .Case<NVVM::CpAsyncOp>([&](NVVM::CpAsyncOp copy) {
        size_t bytes = copy.getSize();
        const Lanes &sources = lanes(copy.getSrc()), &targets = lanes(copy.getDst());
        for (size_t t = 0; t < threads; ++t) {
          if (!mask[t])
            continue;
          size_t existing = copy.getCpSize() ? lanes(copy.getCpSize())[t] : bytes;
          uint64_t source = sources[t], target = targets[t];
          // Only the existing bytes are read; the whole address must be aligned.
          if (existing && (source % bytes || !access(source + existing - 1, 1, false) ||
                           !access(source, 1, false)))
            return fail(op, "thread " + Twine(t) + " copies from outside"), true;
          if (existing > bytes || !access(target, bytes, true))
            return fail(op, "thread " + Twine(t) + " copies to outside"), true;
          PendingCopy pending{target, std::vector<char>(bytes, 0)};
          memcpy(pending.bytes.data(), reinterpret_cast<const char *>(source), existing);
          copies[t].back().push_back(std::move(pending));
        }
        return true;
      })
      .Case<NVVM::CpAsyncCommitGroupOp>([&](auto) {
        for (auto &groups : copies)
          groups.emplace_back();
        return true;
      })
      .Case<NVVM::CpAsyncWaitGroupOp>([&](NVVM::CpAsyncWaitGroupOp wait) {
        for (auto &groups : copies)
          while (groups.size() > wait.getN() + 1) {
            for (const PendingCopy &pending : groups.front())
              memcpy(access(pending.target, pending.bytes.size(), true), pending.bytes.data(),
                     pending.bytes.size());
            groups.erase(groups.begin());
          }
        return true;
      })
      .Default([](Operation *) { return false; });
}
