//===- StepMemory.h - inputs and outputs of any function ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Device memory for everything that a function's caller binds. A package does not say
// how large its inputs and outputs are: a layer's rows are hidden states, others at most
// all heads' latents and rope parts. Elements have four bytes at most.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_RUN_STEPMEMORY_H
#define MLA_RUN_STEPMEMORY_H

#include "Functions.h"

#include <map>
#include <memory>

namespace mlac::run {

class StepMemory {
public:
  /// Inputs of floats hold random numbers, other ones zeros, outputs NaN.
  StepMemory(const Session &session, const StepFunction &function, int64_t tokens, uint64_t seed);
  StepMemory(const StepMemory &) = delete;

  /// Fills the front of an input with random numbers, and returns them.
  std::vector<float> fill(const std::string &name, size_t elements, uint64_t seed);
  std::vector<float> read(const std::string &name, size_t elements) const;
  void run(mla_plan *plan) const;
  void *data(const std::string &name) const { return buffers.at(name)->data(); }

private:
  mla_dtype typeOf(const std::string &name) const;

  const Session &session;
  StepFunction function;
  size_t bytes; // of each
  std::map<std::string, std::unique_ptr<Buffer>> buffers;
  std::vector<mla_binding> bindings;
};

} // namespace mlac::run

#endif // MLA_RUN_STEPMEMORY_H
