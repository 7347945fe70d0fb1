//===- Kernels.h - hand-made kernels and their data ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernels of test/Simulator/Inputs with arguments that fit them.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_TEST_UNIT_SIMULATOR_KERNELS_H
#define MLAC_TEST_UNIT_SIMULATOR_KERNELS_H

#include "mla/RegisterAll.h"
#include "mla/Simulator/Simulator.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

#include <cmath>
#include <cstring>
#include <random>
#include <variant>

namespace mlac::test {

using Bits = std::vector<uint16_t>; // bf16
using Codes = std::vector<uint8_t>; // e4m3
using Data = std::variant<Bits, Codes, std::vector<float>, std::vector<int32_t>,
                          std::vector<int64_t>, int64_t, float>;

inline float toFloat(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  memcpy(&value, &wide, 4);
  return value;
}
inline uint16_t toBf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}
constexpr uint16_t kNaN = 0x7FC0;

inline Bits makeRandom(size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> distribution(-1, 1);
  Bits values(count);
  for (uint16_t &value : values)
    value = toBf16(distribution(engine));
  return values;
}

struct Kernel {
  std::string name; ///< of the file and of the kernel in it
  std::vector<Data> arguments;
};

/// Rows of the last page beyond `length` are NaN.
inline Kernel makeRelay(int64_t length) {
  constexpr int64_t pages = 8, pageElements = 64 * 128;
  std::vector<int32_t> table{4, 1, 7, 2, 0, 5};
  Bits pool = makeRandom(pages * pageElements, 2);
  for (int64_t row = length; row < (length + 63) / 64 * 64; ++row)
    std::fill_n(pool.begin() + table[row / 64] * pageElements + row % 64 * 128, 128, kNaN);
  return {"relay",
          {makeRandom(64 * 128, 1), pool, table, Bits(64 * 128, kNaN), pages, length, 0.25f}};
}

inline Kernel makeGather(int64_t count) {
  constexpr int64_t rows = 100;
  std::vector<int32_t> indices(count);
  for (int64_t i = 0; i < count; ++i)
    indices[i] = i % 7 == 3 ? -1 : i * 31 % 103; // some beyond the rows
  return {"gather",
          {makeRandom(64 * 64, 3), makeRandom(rows * 128, 4), indices, Bits(64 * 128, kNaN),
           std::vector<float>(64, NAN), rows, count}};
}

/// A row of `length` values, and the positions of the 100 largest.
inline Kernel makeSelect(int64_t length) {
  std::vector<float> scores(3000, NAN);
  for (int64_t i = 0; i < length; ++i)
    scores[i] = static_cast<float>(i * 7919 % 3001) - 1500;
  return {"select",
          {scores, std::vector<int32_t>(100, -2), std::vector<float>(2 * 2048),
           std::vector<int32_t>(2), length}};
}

/// Every third value is NaN.
inline Kernel makeHeld(int64_t length) {
  std::vector<float> scores(2048, NAN);
  for (int64_t i = 0; i < length; ++i)
    if (i % 3 != 0)
      scores[i] = static_cast<float>(i * 7919 % 3001) - 1500;
  return {"held", {scores, std::vector<int32_t>(100, -2), length}};
}

/// The number that the first bit stands for.
inline constexpr int64_t kFirstMark = 5;

/// Two lists, of which some numbers are those of no bit and some come twice.
inline Kernel makeMarks() {
  std::vector<int32_t> list(2 * 24);
  for (int32_t i = 0; i < 2 * 24; ++i)
    list[i] = i % 5 == 3 ? -1 : i * i * 31 % 140;
  return {"marks",
          {list, std::vector<int32_t>(2 * 4, -2), std::vector<float>(2 * 128, NAN), kFirstMark}};
}

/// All codes of e4m3 but NaN's, several times, as they are turned into bf16.
inline Kernel makeCodes() {
  Codes codes(64 * 128);
  for (size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<uint8_t>(i % 127 + (i / 127 % 2) * 128);
  return {"codes", {codes, Bits(64 * 128, kNaN), 0.75f}};
}

/// Two CTAs that exchange sums.
inline Kernel makeCluster() {
  std::vector<float> summands(2 * 128 * 32);
  for (size_t i = 0; i < summands.size(); ++i)
    summands[i] = static_cast<float>(i * 7919 % 3001) - 1500;
  return {"cluster", {summands, std::vector<float>(128 * 32, NAN)}};
}

template <typename T> simulator::Argument toArgument(std::vector<T> &value) {
  return simulator::Argument::buffer(value);
}
inline simulator::Argument toArgument(int64_t value) { return simulator::Argument::index(value); }
inline simulator::Argument toArgument(float value) { return simulator::Argument::f32(value); }

/// Runs on `data`, which the kernel changes.
inline std::optional<simulator::Finding> run(mlir::ModuleOp module, std::vector<Data> &data,
                                             uint64_t seed) {
  std::vector<simulator::Argument> arguments;
  for (Data &argument : data)
    std::visit([&](auto &value) { arguments.push_back(toArgument(value)); }, argument);
  simulator::Options options;
  options.seed = seed;
  options.maxSteps = 1 << 20;
  mlir::sm90::KernelOp kernel = *module.getOps<mlir::sm90::KernelOp>().begin();
  options.grid[0] = kernel.getClusterSize();
  return simulator::simulate(kernel, arguments, options);
}

inline mlir::OwningOpRef<mlir::ModuleOp> parse(const std::string &name,
                                               mlir::MLIRContext &context) {
  return mlir::parseSourceFile<mlir::ModuleOp>(MLAC_SIMULATOR_INPUTS "/" + name + ".mlir",
                                               &context);
}

/// A context with all of mlac's dialects.
struct Context {
  Context() {
    mlir::DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
};

} // namespace mlac::test

#endif // MLAC_TEST_UNIT_SIMULATOR_KERNELS_H
