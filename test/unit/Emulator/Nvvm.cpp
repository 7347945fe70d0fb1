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

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/TypeSwitch.h"

#include <numeric>

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

/// What the two forms of wgmma have in common. Descriptors have one value for
/// each thread; a null `a` means that `left` holds lhs in registers.
struct Emulator::Product {
  Type type;
  size_t columns, depth;
  bool isKMajorA, isKMajorB, overwrite;
  const Lanes *a, *b;
  std::vector<const Lanes *> left; // four pairs
  const Parts &source;
  Parts &result;
};

/// Row and column of register `reg` of thread `t` in an accumulator.
static std::pair<size_t, size_t> getPlace(size_t t, size_t reg) {
  return {t / 32 * 16 + t % 32 / 4 + (reg % 4) / 2 * 8, reg / 4 * 8 + t % 4 * 2 + reg % 2};
}

void Emulator::runProduct(Operation *op, const Mask &mask, const Product &product) {
  Type f32 = Float32Type::get(op->getContext());
  size_t columns = product.columns, depth = product.depth;
  auto read = [&](const Descriptor &descriptor, bool isKMajor, size_t mn, size_t k) {
    uint64_t address = isKMajor ? descriptor.getKMajor(mn, k) : descriptor.getMNMajor(mn, k);
    const char *bytes = access(address, 2, /*isShared=*/true);
    uint16_t bits = 0;
    if (!bytes)
      fail(op, "descriptor points outside");
    else
      memcpy(&bits, bytes, 2);
    return toFloat(bits, product.type);
  };
  for (size_t group = 0; group < threads; group += kGroupThreads) {
    if (!mask[group])
      continue;
    std::vector<float> left(64 * depth), right(columns * depth);
    for (const Lanes *bits : {product.a, product.b})
      if (bits && (Descriptor((*bits)[group]).mode != 1 || Descriptor((*bits)[group]).baseOffset))
        return fail(op, "expected 128-byte swizzle and base offset 0");
    for (size_t k = 0; k < depth; ++k) {
      for (size_t m = 0; product.a && m < 64; ++m)
        left[m * depth + k] = read(Descriptor((*product.a)[group]), product.isKMajorA, m, k);
      for (size_t n = 0; n < columns; ++n)
        right[n * depth + k] = read(Descriptor((*product.b)[group]), product.isKMajorB, n, k);
    }
    // A register operand has the layout of an accumulator of 16 columns.
    for (size_t reg = 0; reg < 2 * product.left.size(); ++reg)
      for (size_t t = 0; t < kGroupThreads; ++t) {
        auto [row, k] = getPlace(t, reg);
        left[row * depth + k] =
            toFloat((*product.left[reg / 2])[group + t] >> (reg % 2 * 16) & 0xFFFF, product.type);
      }
    for (size_t t = 0; t < kGroupThreads; ++t)
      for (size_t reg = 0; reg < columns / 2; ++reg) {
        auto [row, column] = getPlace(t, reg);
        float sum = product.overwrite ? 0.0f : toFloat(product.source[reg][group + t], f32);
        for (size_t k = 0; k < depth; ++k)
          sum += left[row * depth + k] * right[column * depth + k];
        product.result[reg][group + t] = fromFloat(sum, f32);
      }
  }
}

void Emulator::runWgmma(Operation *op, const Mask &mask) {
  auto mma = cast<NVVM::WgmmaMmaAsyncOp>(op);
  Type type = mma.getTypeA() == NVVM::WGMMATypes::bf16 ? Type(BFloat16Type::get(op->getContext()))
                                                       : Type(Float16Type::get(op->getContext()));
  runProduct(op, mask,
             {type,
              static_cast<size_t>(mma.getShape().getN()),
              static_cast<size_t>(mma.getShape().getK()),
              mma.getLayoutA() == NVVM::MMALayout::row,
              mma.getLayoutB() == NVVM::MMALayout::col,
              mma.getScaleD() == NVVM::WGMMAScaleOut::zero,
              &lanes(mma.getDescriptorA()),
              &lanes(mma.getDescriptorB()),
              {},
              parts(mma.getInouts()),
              parts(mma.getResults())});
}

/// `wgmma.mma_async...f32.T.T {d...}, {a0..a3}, b, scale-d, 1, 1, transpose-b;`
void Emulator::runRegisterWgmma(LLVM::InlineAsmOp op, const Mask &mask) {
  if (!checkWhole(op, mask, kGroupThreads))
    return;
  Parts &result = parts(op.getRes());
  StringRef text = op.getAsmString();
  Type type = text.contains(".bf16.") ? Type(BFloat16Type::get(op->getContext()))
                                      : Type(Float16Type::get(op->getContext()));
  SmallVector<StringRef> flags;
  text.rsplit('$').second.rtrim(';').split(flags, ", "); // number of b, then the flags
  Parts source;
  for (Value operand : op.getOperands().drop_front(5))
    source.push_back(lanes(operand));
  runProduct(op, mask,
             {type,
              2 * result.size(),
              16,
              true,
              flags[4] == "0",
              flags[1] == "0",
              nullptr,
              &lanes(op.getOperands()[4]),
              {&lanes(op.getOperands()[0]), &lanes(op.getOperands()[1]),
               &lanes(op.getOperands()[2]), &lanes(op.getOperands()[3])},
              source,
              result});
}

bool Emulator::checkWhole(Operation *op, const Mask &mask, size_t unit) {
  for (size_t t = 0; t < threads; ++t)
    if (mask[t] != mask[t / unit * unit]) {
      fail(op, "not all threads of a group of " + Twine(unit) + " arrive");
      return false;
    }
  return true;
}

/// ldmatrix and stmatrix: PTX ISA, "Warp-level matrix load/store instruction".
/// Lane 8m + r names row r of matrix m; lane l has of each matrix the pair (row
/// l / 4, columns 2 (l % 4) and the next), or of its transpose.
bool Emulator::runMatrices(Operation *op, const Mask &mask) {
  auto store = dyn_cast<NVVM::StMatrixOp>(op);
  auto load = dyn_cast<NVVM::LdMatrixOp>(op);
  if (!store && !load)
    return false;
  if (!checkWhole(op, mask, kWarpThreads))
    return true;
  const Lanes &addresses = lanes(op->getOperand(0));
  bool transposed = (store ? store.getLayout() : load.getLayout()) == NVVM::MMALayout::col;
  size_t matrices = store ? store.getSources().size() : load.getNum();
  for (size_t t = 0; t < threads; ++t)
    for (size_t matrix = 0; mask[t] && matrix < matrices; ++matrix) {
      uint64_t loaded = 0;
      for (size_t i = 0; i < 2; ++i) {
        size_t lane = t % kWarpThreads, row = lane / 4, column = lane % 4 * 2 + i;
        if (transposed)
          std::swap(row, column);
        uint64_t start = addresses[t - lane + 8 * matrix + row];
        char *place = start % 16 ? nullptr : access(start + 2 * column, 2, /*isShared=*/true);
        if (!place)
          return fail(op, "thread " + Twine(t) + " moves a matrix outside"), true;
        uint16_t bits = store ? lanes(store.getSources()[matrix])[t] >> (16 * i) : 0;
        memcpy(store ? place : reinterpret_cast<char *>(&bits),
               store ? reinterpret_cast<char *>(&bits) : place, 2);
        loaded |= uint64_t(bits) << (16 * i);
      }
      if (load)
        parts(load.getRes())[matrix][t] = loaded;
    }
  return true;
}

/// A code's value as the bits of an f16, which has all of them.
static uint64_t widenCode(uint64_t code) {
  llvm::APFloat value(llvm::APFloat::Float8E4M3FN(), llvm::APInt(8, code & 0xFF));
  bool isInexact;
  value.convert(llvm::APFloat::IEEEhalf(), llvm::APFloat::rmNearestTiesToEven, &isInexact);
  return value.bitcastToAPInt().getZExtValue();
}

bool Emulator::runNvvm(Operation *op, const Mask &mask) {
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<NVVM::ConvertF8x2ToF16x2Op>([&](NVVM::ConvertF8x2ToF16x2Op convert) {
        for (auto [codes, halves] :
             llvm::zip_equal(parts(convert.getSrc()), parts(convert.getDst())))
          for (size_t t = 0; t < threads; ++t)
            if (mask[t])
              halves[t] = widenCode(codes[t]);
        return true;
      })
      .Case<NVVM::PermuteOp>([&](NVVM::PermuteOp permute) { // four bytes of eight
        const Lanes &low = lanes(permute.getLo()), &high = lanes(permute.getHi()),
                    &selector = lanes(permute.getSelector());
        if (permute.getMode() != NVVM::PermuteMode::DEFAULT)
          return fail(op, "unknown permutation"), true;
        map(op, mask, [&](size_t t) {
          uint64_t bytes = (low[t] & 0xFFFFFFFF) | high[t] << 32, result = 0;
          for (unsigned i = 0; i < 4; ++i)
            result |= (bytes >> (selector[t] >> (4 * i) & 7) * 8 & 0xFF) << (8 * i);
          return result;
        });
        return true;
      })
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
        if (!checkWhole(op, mask, kWarpThreads))
          return true;
        map(op, mask, [&](size_t t) {
          size_t lane = t % kWarpThreads, other = offset[t];
          if (shuffle.getKind() == NVVM::ShflKind::up)
            lane -= std::min(lane, other) == other ? other : 0;
          else
            lane = shuffle.getKind() == NVVM::ShflKind::bfly ? lane ^ other : other;
          return source[t / kWarpThreads * kWarpThreads + lane];
        });
        return true;
      })
      .Case<NVVM::VoteSyncOp>([&](NVVM::VoteSyncOp vote) { // any, or all bits
        const Lanes &source = lanes(vote.getPred());
        bool isAny = vote.getKind() == NVVM::VoteSyncKind::any;
        if (checkWhole(op, mask, kWarpThreads))
          map(op, mask, [&](size_t t) {
            auto first = source.begin() + t / kWarpThreads * kWarpThreads;
            uint64_t bits = 0;
            for (size_t lane = 0; lane < kWarpThreads; ++lane)
              bits |= uint64_t(first[lane] & 1) << lane;
            return isAny ? uint64_t(bits != 0) : bits;
          });
        return true;
      })
      .Case<NVVM::ReduxOp>([&](NVVM::ReduxOp redux) {
        const Lanes &source = lanes(redux.getVal());
        if (checkWhole(op, mask, kWarpThreads))
          map(op, mask, [&](size_t t) {
            auto first = source.begin() + t / kWarpThreads * kWarpThreads,
                 last = first + kWarpThreads;
            switch (redux.getKind()) {
            case NVVM::ReduxKind::ADD:
              return std::accumulate(first, last, uint64_t(0));
            case NVVM::ReduxKind::UMIN:
              return *std::min_element(first, last);
            case NVVM::ReduxKind::UMAX:
              return *std::max_element(first, last);
            default:
              fail(op, "unknown reduction");
              return uint64_t(0);
            }
          });
        return true;
      })
      .Case<NVVM::GriddepcontrolOp>([](auto) { return true; }) // launches run one by one
      .Case<NVVM::Barrier0Op, NVVM::FenceProxyOp>([&](auto) {
        if (isa<NVVM::Barrier0Op>(op) && llvm::is_contained(mask, 0))
          fail(op, "not all threads arrive");
        return true;
      })
      .Case<NVVM::BarrierOp>([&](NVVM::BarrierOp barrier) {
        size_t leader = llvm::find(mask, 1) - mask.begin();
        if (llvm::count(mask, 1) != static_cast<long>(lanes(barrier.getNumberOfThreads())[leader]))
          fail(op, "not all threads arrive");
        return true;
      })
      .Case<NVVM::WgmmaFenceAlignedOp, NVVM::WgmmaGroupSyncAlignedOp, NVVM::SetMaxRegisterOp>(
          [&](auto) { return checkWhole(op, mask, kGroupThreads), true; })
      .Case<NVVM::SyncWarpOp>([&](auto) { return checkWhole(op, mask, kWarpThreads), true; })
      .Case<NVVM::WgmmaMmaAsyncOp>([&](auto) {
        if (checkWhole(op, mask, kGroupThreads))
          runWgmma(op, mask);
        return true;
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
      .Default([&](Operation *) { return runMatrices(op, mask); });
}
