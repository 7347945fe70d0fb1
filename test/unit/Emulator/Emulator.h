//===- Emulator.h - runs one CTA of an nvvm kernel on the host ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Interprets what convert-sm90-to-nvvm makes, all threads of a CTA in step, so
// that index arithmetic is tested where there is no GPU. Registers and memory
// are modelled byte for byte:
//
//   - global memory is the host's; each access must lie in a buffer that was
//     registered, and be aligned, else the run ends with an error;
//   - shared memory starts out as NaN; an access beyond `mlac.shared_bytes` is
//     an error;
//   - the bytes of cp.async arrive at the wait that covers them, not before;
//   - roles run one after the other: kernels with rings cannot be run;
//   - wgmma reads shared memory through its descriptors and the 128-byte
//     swizzle as the PTX manual describes them, written down here a second time
//     and not taken from Layout.h.
//
// Not modelled: anything about the order of threads, proxies and asynchronous
// wgmma. Threads run in step, so that a missing barrier goes unseen.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_TEST_UNIT_EMULATOR_EMULATOR_H
#define MLA_TEST_UNIT_EMULATOR_EMULATOR_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include "llvm/ADT/DenseMap.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mlac::emulator {

/// A kernel argument: a buffer, an integer or a float.
struct Argument {
  uint64_t bits;
  size_t bytes; // of a buffer, 0 for scalars
  template <typename T> static Argument buffer(std::vector<T> &data) {
    return {reinterpret_cast<uint64_t>(data.data()), data.size() * sizeof(T)};
  }
  static Argument index(int64_t value) { return {static_cast<uint64_t>(value), 0}; }
  static Argument f32(float value);
};

class Emulator {
public:
  explicit Emulator(mlir::LLVM::LLVMFuncOp function);
  /// Lets kernels access memory beyond the buffers among their arguments.
  void setMemory(const std::map<uint64_t, size_t> &memory) { this->memory = memory; }
  /// Runs the CTA at `position` of the grid. Returns what went wrong, or "".
  std::string run(llvm::ArrayRef<Argument> arguments, std::array<int64_t, 3> position = {0, 0, 0});

private:
  using Lanes = std::vector<uint64_t>; // one value for each thread
  using Parts = std::vector<Lanes>;    // elements of a struct or vector
  using Mask = std::vector<char>;      // which threads are active
  struct PendingCopy {
    uint64_t target;
    std::vector<char> bytes;
  };

  void runBlock(mlir::Block &block, const Mask &mask);
  void runOp(mlir::Operation *op, const Mask &mask);
  bool runArith(mlir::Operation *op, const Mask &mask);
  bool runFloat(mlir::Operation *op, const Mask &mask);
  bool runLlvm(mlir::Operation *op, const Mask &mask);
  bool runNvvm(mlir::Operation *op, const Mask &mask);
  void runIf(mlir::scf::IfOp op, const Mask &mask);
  void runFor(mlir::scf::ForOp op, const Mask &mask);
  struct Product;
  void runProduct(mlir::Operation *op, const Mask &mask, const Product &product);
  void runWgmma(mlir::Operation *op, const Mask &mask);
  void runRegisterWgmma(mlir::LLVM::InlineAsmOp op, const Mask &mask);
  bool runMatrices(mlir::Operation *op, const Mask &mask);
  /// Whether threads are active in whole units of `unit`, else an error.
  bool checkWhole(mlir::Operation *op, const Mask &mask, size_t unit);
  void runAtomic(mlir::LLVM::AtomicRMWOp op, const Mask &mask);
  void runIntrinsic(mlir::LLVM::CallIntrinsicOp op, const Mask &mask);
  void runVote(mlir::LLVM::CallIntrinsicOp op, const Mask &mask);

  Parts &parts(mlir::Value value);
  Lanes &lanes(mlir::Value value) { return parts(value)[0]; }
  void copy(mlir::Value from, mlir::Value to, const Mask &mask);
  /// Sets the result of `op` in active threads to `compute(thread)`.
  void map(mlir::Operation *op, const Mask &mask, llvm::function_ref<uint64_t(size_t)> compute);
  char *access(uint64_t address, size_t bytes, bool isShared);
  void fail(mlir::Operation *op, const llvm::Twine &why);

  mlir::LLVM::LLVMFuncOp function;
  size_t threads;
  std::array<int64_t, 3> position;
  std::vector<char> shared, zeros;
  std::map<uint64_t, size_t> memory, buffers; // address to size
  // Behind pointers: references to values stay good while others are added.
  llvm::DenseMap<mlir::Value, std::unique_ptr<Parts>> values;
  // For each thread the groups of copies, the last one still open.
  std::vector<std::vector<std::vector<PendingCopy>>> copies;
  std::string error;
};

} // namespace mlac::emulator

#endif // MLA_TEST_UNIT_EMULATOR_EMULATOR_H
