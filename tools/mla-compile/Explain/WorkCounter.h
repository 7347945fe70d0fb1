//===- WorkCounter.h - follows the programs of a launch ---------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An interpreter of tile kernels that knows numbers, views and how much of a tile is real, and
// counts what is computed and touched. Control flow and scalars are in KernelWork.cpp, memory in
// WorkMemory.cpp, products and attention in WorkTiles.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_TOOLS_MLA_COMPILE_EXPLAIN_WORKCOUNTER_H
#define MLAC_TOOLS_MLA_COMPILE_EXPLAIN_WORKCOUNTER_H

#include "Explain/KernelWork.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <cstring>
#include <map>
#include <optional>

namespace mlac::work {
using namespace mlir;

/// What device memory moves at the least: a sector of a line of L2.
inline constexpr int64_t kSectorBytes = 32;
/// Operations that are followed in one launch: minutes would be no report.
inline constexpr uint64_t kMostOps = uint64_t(1) << 27;
/// Memory of one buffer that is looked at sector by sector.
inline constexpr int64_t kMostBytes = int64_t(1) << 40;

/// Which sectors of a buffer were touched.
class Sectors {
public:
  void mark(int64_t begin, int64_t end) {
    int64_t first = begin / kSectorBytes, last = (end - 1) / kSectorBytes;
    if (static_cast<size_t>(last / 64) >= words.size())
      words.resize(last / 64 + 1);
    for (int64_t word = first / 64; word <= last / 64; ++word) {
      uint64_t mask = ~uint64_t(0);
      if (word == first / 64)
        mask &= ~uint64_t(0) << (first % 64);
      if (word == last / 64)
        mask &= ~uint64_t(0) >> (63 - last % 64);
      count += llvm::popcount(mask & ~words[word]);
      words[word] |= mask;
    }
  }
  double bytes() const { return static_cast<double>(count) * kSectorBytes; }

private:
  std::vector<uint64_t> words;
  int64_t count = 0;
};

/// A strided part of a buffer.
struct View {
  int buffer = -1; // an argument of the launch
  int64_t offset = 0;
  SmallVector<int64_t, 3> sizes, strides;
  int64_t elementBytes = 0;
};

/// What is known of an SSA value: a number, a view, or how much of a tile is real.
struct Known {
  enum Kind { Nothing, Number, Memory, Tile } kind = Nothing;
  int64_t number = 0;
  View view = {};
  SmallVector<int64_t, 2> extent = {}; // of a tile
  int attention = -1;                  // the last one that a tile comes from
};

/// One attention of a program. Its tile of queries may hold rows of the next request, whose
/// results nobody stores.
struct Attention {
  int64_t begin, end; // keys
  std::optional<int64_t> diagonal;
  double width; // of keys and values
  int64_t rows; // of queries
  int before;   // the one that it goes on from
  int64_t stored = -1;

  double flops() const;
};

/// Raised through the interpreter: the first thing that cannot be followed.
using Failure = std::optional<std::string>;

class Counter {
public:
  Counter(tile::KernelOp kernel, const StepLaunch &launch, ArrayRef<StepBufferInfo> buffers);
  KernelWork count();

private:
  void bindArguments();
  void runProgram();
  bool run(Block &block);
  bool execute(Operation &op);
  bool runFor(scf::ForOp op);
  bool runIf(scf::IfOp op);
  bool runScalar(Operation &op);
  bool runElementwise(Operation &op);
  bool runSelect(arith::SelectOp op);
  bool fail(Operation &op, const Twine &why) {
    if (!failure)
      failure = (op.getName().getStringRef() + ": " + why).str();
    return false;
  }

  // Memory
  void touch(const View &view, int64_t element, int64_t elements, bool isWrite);
  /// Rows [row, row + rows) x columns [column, column + columns) inside of a view of rank 2.
  void touchRows(const View &view, int64_t row, int64_t rows, int64_t column, int64_t columns,
                 bool isWrite);
  void touchPaged(const View &pool, const View &table, int64_t first, int64_t end, int64_t column,
                  int64_t columns);
  void touchLoosely(double bytes, bool isWrite) { (isWrite ? looseWrites : looseReads) += bytes; }
  std::optional<int64_t> readInteger(const View &list, int64_t index);
  bool runReinterpret(memref::ReinterpretCastOp op);
  bool runLoadScalar(memref::LoadOp op);
  bool runLoad(tile::LoadOp op);
  bool runLoadRows(tile::LoadRowsOp op);
  bool runLoadPaged(tile::LoadPagedOp op);
  bool runLoadElements(tile::LoadElementsOp op);
  bool runStore(tile::StoreOp op);
  void noteStored(tile::StoreOp op);
  bool runStoreSlots(tile::StoreSlotsOp op);
  bool runTopK(tile::TopKOp op);
  bool runDot(tile::DotOp op);
  bool runAttend(tile::AttendOp op);
  bool touchKeys(tile::AttendOp op, const View &view, Value table, int64_t first, int64_t end);

  Known &at(Value value) { return values[numbers.lookup(value)]; }
  std::optional<int64_t> number(Value value) {
    Known &known = at(value);
    return known.kind == Known::Number ? std::optional(known.number) : std::nullopt;
  }
  void set(Value value, int64_t number) { at(value) = {Known::Number, number}; }
  void setTile(Value value, ArrayRef<int64_t> extent);
  std::optional<int64_t> resolve(OpFoldResult value);

  tile::KernelOp kernel;
  const StepLaunch &launch;
  ArrayRef<StepBufferInfo> buffers;
  llvm::DenseMap<Value, unsigned> numbers;
  std::vector<Known> values;
  std::array<int64_t, 3> program = {};
  std::map<int, Sectors> reads, writes;
  std::vector<Attention> attentions; // of this program
  double looseReads = 0, looseWrites = 0, flops = 0;
  uint64_t ops = 0;
  Failure failure;
};
} // namespace mlac::work

#endif // MLAC_TOOLS_MLA_COMPILE_EXPLAIN_WORKCOUNTER_H
