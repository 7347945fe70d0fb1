//===- KernelRunner.h - compiles and runs tile kernels in tests ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tests give kernels as text with `$NAME` placeholders, run them over a grid as
// the runtime does, and compare with loops in double. Outputs are poisoned first.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_TEST_UNIT_TARGET_CPU_KERNELRUNNER_H
#define MLAC_TEST_UNIT_TARGET_CPU_KERNELRUNNER_H

#include "mla/Target/Cpu/CompileKernels.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace mlac::test {

/// bf16 as its 16 bits.
struct Bf16 {
  uint16_t bits = 0;
  Bf16() = default;
  Bf16(double value);
  operator double() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
};

/// Uniform numbers in [-1, 1), rounded to T.
template <typename T> std::vector<T> randomVector(size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> distribution(-1.0f, 1.0f);
  std::vector<T> values(count);
  for (T &value : values)
    value = T(distribution(engine));
  return values;
}

using Replacements = std::map<std::string, std::string>;
/// Replaces every `$KEY`; longer keys first.
std::string substitute(std::string text, const Replacements &replacements);

/// A copy of bytes that ends where an inaccessible page begins: reading or
/// writing past the end stops the test.
class GuardedMemory {
public:
  GuardedMemory(const void *data, size_t bytes);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory &) = delete;
  GuardedMemory &operator=(const GuardedMemory &) = delete;
  void *data() const { return start; }

private:
  void *mapping = nullptr, *start = nullptr;
  size_t mappedBytes = 0;
};

template <typename T> class Guarded : public GuardedMemory {
public:
  explicit Guarded(const std::vector<T> &values)
      : GuardedMemory(values.data(), values.size() * sizeof(T)) {}
};

/// One argument of a kernel in the CPU ABI.
struct Argument {
  uint64_t bits;
  template <typename T>
  Argument(std::vector<T> &buffer) : bits(reinterpret_cast<uint64_t>(buffer.data())) {}
  Argument(const GuardedMemory &memory) : bits(reinterpret_cast<uint64_t>(memory.data())) {}
  Argument(int64_t value) : bits(value) {}
  Argument(int value) : bits(static_cast<int64_t>(value)) {}
  Argument(float value) : bits(std::bit_cast<uint32_t>(value)) {}
};

struct Grid {
  int64_t x = 1, y = 1, z = 1;
};

/// A compiled module, loaded into this process.
class KernelImage {
public:
  /// Null, with a test failure, when it does not compile.
  static std::unique_ptr<KernelImage> compile(const std::string &text, const std::string &cpu);
  ~KernelImage();

  void launch(const std::string &name, const std::vector<Argument> &arguments, Grid grid);
  const CpuImage &image() const { return compiled; }

private:
  CpuImage compiled;
  void *handle = nullptr;
  int file = -1;
};

/// The CPUs that this machine can run code for.
std::vector<std::string> runnableCpus();

/// The MLIR text of the module after addTileToLlvmPasses; for messages of errors
/// that compilation must give: the diagnostics, empty if it succeeded.
std::string diagnosticsOf(const std::string &text);

} // namespace mlac::test

#endif // MLAC_TEST_UNIT_TARGET_CPU_KERNELRUNNER_H
