//===- Simulator.h - runs sm90 kernels and looks for defects ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Interprets an `sm90.kernel` on host buffers, tile by tile, one coroutine for
// each warpgroup, and stops at the first thing that the hardware does not
// promise to survive: docs/simulator.md describes the model and what it does
// not see. Asynchronous operations complete late and in an order drawn from a
// seed; what is ordered with what is decided by vector clocks, not by the order
// in which the run happened to go, so most defects show up under every seed.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_SIMULATOR_SIMULATOR_H
#define MLA_SIMULATOR_SIMULATOR_H

#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mlac::simulator {

/// What is wrong with a kernel.
enum class Defect {
  Race,               ///< two accesses of shared memory, one a write, in no order
  MissingProxyFence,  ///< ordinary writes reach wgmma or TMA without a proxy fence
  MissingWgmmaFence,  ///< registers reach wgmma without a wgmma fence
  MissingWait,        ///< own asynchronous operation not waited for
  WrongPhase,         ///< a barrier is in another phase than the stage says
  BytesMismatch,      ///< more bytes arrive in a phase than were expected
  BarrierMismatch,    ///< a named barrier's participants do not agree
  Deadlock,           ///< nobody can go on
  OutOfBounds,        ///< global or shared memory beyond its end
  Uninitialized,      ///< what was never written reaches an output
  Aliasing,           ///< a tile reads what was written as another tile
  RegisterOvercommit, ///< a role needs more registers than it has
  SharedOvercommit,   ///< tiles do not fit, or lie on barriers
  Unsupported,        ///< an operation that the simulator does not know
};
llvm::StringRef stringify(Defect defect);

/// A kernel argument: a buffer of the host, an `index` or an `f32`.
struct Argument {
  void *data = nullptr;
  size_t bytes = 0;
  int64_t integer = 0;
  float real = 0;

  template <typename T> static Argument buffer(std::vector<T> &values) {
    return {values.data(), values.size() * sizeof(T)};
  }
  static Argument index(int64_t value) { return {nullptr, 0, value}; }
  static Argument f32(float value) { return {nullptr, 0, 0, value}; }
};

struct Options {
  uint64_t seed = 0; ///< order of completion and of warpgroups
  std::array<int64_t, 3> grid = {1, 1, 1};
  bool checkRegisters = true;            ///< compare RegisterEstimate with budgets
  uint64_t maxSteps = uint64_t(1) << 32; ///< of one CTA, against endless loops
};

struct Note {
  mlir::Operation *op;
  std::string text;
};

/// The first defect of a run, at the operation concerned.
struct Finding {
  Defect defect;
  mlir::Operation *op;
  std::string text;
  std::vector<Note> notes;

  /// Emits it as an error with notes: `[race] ...`.
  void emit() const;
};

/// Runs every CTA of the grid, one after the other. Needs what
/// `sm90-allocate-shared-memory` leaves behind.
std::optional<Finding> simulate(mlir::sm90::KernelOp kernel, llvm::ArrayRef<Argument> arguments,
                                const Options &options = {});

} // namespace mlac::simulator

#endif // MLA_SIMULATOR_SIMULATOR_H
