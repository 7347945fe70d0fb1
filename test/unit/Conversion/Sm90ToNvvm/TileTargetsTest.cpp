//===- TileTargetsTest.cpp - one tile program, two targets, one result ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The representative kernels of test/data/tile are compiled for the CPU and run,
// and lowered through sm90, simulated there, to nvvm and run in the emulator, on
// the same data.
// Every buffer must agree. The nvvm form is then assembled: no spills, no C75xx.
//
//===----------------------------------------------------------------------===//

#include "../../Emulator/Emulator.h"
#include "../../Select/Rows.h"
#include "../../Target/Cpu/KernelRunner.h"

#include "mla/Conversion/Passes.h"
#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"
#include "mla/Dialect/Sm90/Transforms/Passes.h"
#include "mla/RegisterAll.h"
#include "mla/Simulator/Simulator.h"
#include "mla/Target/Nvptx/CompileKernels.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include "llvm/Support/MemoryBuffer.h"

#include "gtest/gtest.h"

#include <cmath>
#include <optional>
#include <variant>

using namespace mlac;
using mlac::test::Bf16;
using mlac::test::randomVector;

namespace {

using Data = std::variant<std::vector<Bf16>, std::vector<float>, std::vector<int32_t>,
                          std::vector<int64_t>, int64_t, float>;

struct Case {
  std::string name; // file of test/data/tile and kernel in it
  std::vector<Data> arguments;
  std::array<int64_t, 3> grid = {1, 1, 1};
  double tolerance = 0;               // relative to 1 + |value|
  std::optional<size_t> scratch = {}; // the argument that targets may leave as they like
};

constexpr double kOneRounding = 1.0 / 256; // of bf16, 2^-8
const float kInfinity = INFINITY;

/// A paged pool of NaN in which only the rows of `lengths` are set, through a
/// table whose other entries are absurd.
struct Pool {
  std::vector<Bf16> pool;
  std::vector<int32_t> table;
};

Pool makePool(int64_t pages, int64_t pageSize, int64_t width, int64_t stride, int64_t maxBlocks,
              const std::vector<int32_t> &lengths) {
  Pool result{std::vector<Bf16>(pages * stride, Bf16(NAN)),
              std::vector<int32_t>(maxBlocks * lengths.size(), 0x7FFFFFF0)};
  int32_t page = pages;
  for (size_t request = 0; request < lengths.size(); ++request)
    for (int64_t token = 0; token < lengths[request]; ++token) {
      int32_t &entry = result.table[request * maxBlocks + token / pageSize];
      if (token % pageSize == 0)
        entry = --page;
      std::vector<Bf16> row = randomVector<Bf16>(width, 100 * request + token);
      std::copy(row.begin(), row.end(),
                result.pool.begin() + entry * stride + token % pageSize * width);
    }
  return result;
}

Case makeLinear() {
  return {"linear",
          {randomVector<Bf16>(70 * 200, 1), randomVector<Bf16>(168 * 200, 2),
           std::vector<Bf16>(70 * 168), int64_t(70)},
          {2, 2, 1},
          kOneRounding};
}

Case makeRmsNorm() {
  return {"rms_norm",
          {randomVector<Bf16>(67 * 320, 3), randomVector<Bf16>(320, 4), std::vector<Bf16>(67 * 320),
           int64_t(67), 1e-6f},
          {2, 1, 1},
          kOneRounding};
}

Case makeRope() {
  std::vector<int64_t> positions(65);
  for (size_t i = 0; i < positions.size(); ++i)
    positions[i] = i * 7 % 40;
  return {"rope",
          {randomVector<Bf16>(65 * 96, 5), randomVector<float>(40 * 32, 6), positions, int64_t(65),
           int64_t(40)},
          {2, 1, 1},
          kOneRounding};
}

Case makeAbsorbedAttention() {
  constexpr int64_t heads = 72, requests = 3, pages = 9, maxBlocks = 3, stride = 64 * 576 + 8;
  std::vector<int32_t> lengths{130, 0, 64};
  Pool pool = makePool(pages, 64, 576, stride, maxBlocks, lengths);
  return {"absorbed_attention",
          {randomVector<Bf16>(requests * heads * 576, 7), pool.pool, pool.table, lengths,
           std::vector<Bf16>(requests * heads * 512), std::vector<float>(requests * heads),
           requests, heads, pages, maxBlocks, stride, 0.1f},
          {2, 3, 1},
          kOneRounding};
}

Case makeExpandedAttention() {
  constexpr int64_t heads = 2, tokens = 73;
  std::vector<int32_t> starts{0, 70, 70, 73};
  return {"expanded_attention",
          {randomVector<Bf16>(tokens * heads * 192, 8), randomVector<Bf16>(tokens * heads * 128, 9),
           randomVector<Bf16>(tokens * 64, 10), randomVector<Bf16>(tokens * heads * 128, 11),
           std::vector<Bf16>(tokens * heads * 128), starts, heads, 0.1f},
          {2, 2, 3},
          kOneRounding};
}

Case makeMerge() {
  constexpr int64_t rows = 70, splits = 3;
  std::vector<float> partial = randomVector<float>(splits * rows * 512, 12);
  std::vector<float> lse = randomVector<float>(splits * rows, 13);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t split = 0; split < splits; ++split)
      if ((row % 5 == split) || row == 69) { // empty partials, and one empty row
        lse[split * rows + row] = -kInfinity;
        std::fill_n(partial.begin() + (split * rows + row) * 512, 512, NAN);
      }
  return {"merge",
          {partial, lse, std::vector<Bf16>(rows * 512), rows, splits},
          {2, 1, 1},
          kOneRounding};
}

Case makeAppend() {
  constexpr int64_t tokens = 70, pages = 6, stride = 16 * 576 + 8;
  std::vector<int64_t> slots(tokens);
  for (int64_t i = 0; i < tokens; ++i)
    slots[i] = i % 9 == 4 ? -1 : (i * 5) % (pages * 16 + 3); // some beyond the pool
  return {"append",
          {randomVector<Bf16>(tokens * 512, 14), randomVector<Bf16>(tokens * 64, 15),
           std::vector<Bf16>(pages * stride, Bf16(NAN)), slots, tokens, pages, stride},
          {2, 1, 1}};
}

Case makeGather() {
  constexpr int64_t pages = 12, maxBlocks = 6, maxTokens = 96, stride = 16 * 576 + 8;
  std::vector<int32_t> lengths{70, 0, 17};
  Pool pool = makePool(pages, 16, 576, stride, maxBlocks, lengths);
  return {"gather",
          {pool.pool, pool.table, lengths, std::vector<Bf16>(3 * maxTokens * 576, Bf16(-1)), pages,
           maxBlocks, maxTokens, stride},
          {2, 3, 1}};
}

/// Requests, prefills, pages and positions in range and out of it.
Case makeConvertIndices() {
  constexpr int64_t tokens = 70, width = 100, requests = 3, maxBlocks = 5, pageRows = 50;
  constexpr int64_t pageLimit = 9;
  auto draw = [](int64_t i, int64_t limit) {
    int64_t value = (i * 2654435761) % (limit + 3) - 1;
    return static_cast<int32_t>(i % 11 == 5 ? value * 0x10000000 : value);
  };
  auto list = [&](int64_t count, int64_t limit) {
    std::vector<int32_t> values(count);
    for (int64_t i = 0; i < count; ++i)
      values[i] = draw(i, limit);
    return values;
  };
  std::vector<int32_t> prefills = list(tokens, requests);
  for (int64_t i = 0; i < tokens; i += 2)
    prefills[i] = -1;
  return {"convert_indices",
          {list(tokens * width, 48 * maxBlocks), std::vector<int32_t>(tokens * width, 0x5a5a5a5a),
           tokens, list(tokens, requests), requests, list(requests * maxBlocks, pageLimit),
           maxBlocks, pageRows, pageLimit, prefills, list(requests, 1000), requests},
          {2, 1, 1}};
}

/// Rows of every kind, of every length.
Case makeTopK(const std::string &name, int64_t k, const std::vector<int64_t> &lengths) {
  int64_t columns = *std::max_element(lengths.begin(), lengths.end());
  std::vector<float> scores;
  std::vector<int32_t> given;
  for (mlac::test::RowKind kind : mlac::test::kRowKinds)
    for (int64_t length : lengths) {
      std::vector<float> row = mlac::test::makeScores(kind, columns, length);
      scores.insert(scores.end(), row.begin(), row.end());
      given.push_back(static_cast<int32_t>(length));
    }
  auto rows = static_cast<int64_t>(given.size());
  return {name,
          {scores, std::vector<int32_t>(rows * k, 0x5a5a5a5a), rows, columns, given},
          {rows, 1, 1}};
}

/// Lists hold 8192: longer rows are sampled.
Case makeSharedTopK() {
  constexpr int64_t slices = 3;
  Case test = makeTopK("top_k", 512, {0, 512, 513, 2051, 9001});
  int64_t rows = test.grid[0];
  test.grid[1] = slices;
  test.arguments.insert(test.arguments.end(), {slices, std::vector<float>(rows * 2 * 8192),
                                               std::vector<int32_t>(2 * rows)});
  test.scratch = test.arguments.size() - 2;
  return test;
}
Case makeShortTopK() { return makeTopK("top_k_short", 64, {63, 65, 4097, 5001}); }
Case makeMostTopK() { return makeTopK("top_k_most", 4096, {4097, 12345}); }

/// Rows of more words than are put together at a time, of numbers with a bit and without.
Case makeSetBits() {
  constexpr int64_t rows = 3, count = 300, words = 1100, first = 41;
  std::mt19937 random(17);
  std::vector<int32_t> list(rows * count);
  for (int32_t &number : list)
    number = static_cast<int32_t>(random() % (32 * words + 99)) - 50;
  return {"set_bits",
          {list, std::vector<int32_t>(rows * words, 0x5a5a5a5a), rows, words, first},
          {rows, 1, 1}};
}

/// Rows that see few keys, nearly all, none, and of the last block's words none that are there.
Case makeMarkedAttention() {
  constexpr int64_t tokens = 150, words = 5;
  std::mt19937 random(18);
  std::vector<int32_t> marks(tokens * words);
  for (int64_t i = 0; i < tokens * words; ++i) {
    uint32_t drawn = random();
    uint32_t word = i / words % 3 ? drawn & random() & random() : drawn | random();
    marks[i] = static_cast<int32_t>(i / words % 7 ? word : 0);
  }
  return {"marked_attention",
          {randomVector<Bf16>(tokens * 64, 15), randomVector<Bf16>(tokens * 64, 16), marks,
           std::vector<float>(tokens * 64, NAN), std::vector<float>(tokens, NAN), tokens, words},
          {3, 1, 1},
          kOneRounding};
}

std::string readKernel(const std::string &name) {
  auto file = llvm::MemoryBuffer::getFile(MLAC_TEST_DATA "/tile/" + name + ".mlir");
  return file ? (*file)->getBuffer().str() : "";
}

void runOnCpu(const Case &test, const std::string &text, std::vector<Data> &data) {
  auto image = mlac::test::KernelImage::compile(text, "x86-64-v3");
  ASSERT_TRUE(image);
  std::vector<mlac::test::Argument> arguments;
  for (Data &argument : data)
    std::visit([&](auto &value) { arguments.push_back(mlac::test::Argument(value)); }, argument);
  image->launch(test.name, arguments, {test.grid[0], test.grid[1], test.grid[2]});
}

template <typename T> emulator::Argument toArgument(std::vector<T> &value) {
  return emulator::Argument::buffer(value);
}
emulator::Argument toArgument(int64_t value) { return emulator::Argument::index(value); }
emulator::Argument toArgument(float value) { return emulator::Argument::f32(value); }

simulator::Argument toSimulated(int64_t value) { return simulator::Argument::index(value); }
simulator::Argument toSimulated(float value) { return simulator::Argument::f32(value); }
template <typename T> simulator::Argument toSimulated(std::vector<T> &value) {
  return simulator::Argument::buffer(value);
}

void lowerToSm90(mlir::ModuleOp module) {
  mlir::PassManager passes(module.getContext());
  passes.addPass(createConvertTileToSm90());
  passes.addPass(mlir::createCanonicalizerPass());
  passes.addPass(mlir::createCSEPass());
  passes.addNestedPass<mlir::sm90::KernelOp>(mlir::sm90::createSm90InsertProxyFences());
  passes.addNestedPass<mlir::sm90::KernelOp>(mlir::sm90::createSm90AllocateSharedMemory());
  ASSERT_TRUE(mlir::succeeded(passes.run(module)));
}

void lowerToNvvm(mlir::ModuleOp module) {
  mlir::PassManager passes(module.getContext());
  passes.addPass(createConvertSm90ToNvvm());
  ASSERT_TRUE(mlir::succeeded(passes.run(module)));
}

void runInSimulator(const Case &test, mlir::ModuleOp module, std::vector<Data> &data,
                    uint64_t seed) {
  std::vector<simulator::Argument> arguments;
  for (Data &argument : data)
    std::visit([&](auto &value) { arguments.push_back(toSimulated(value)); }, argument);
  simulator::Options options;
  options.seed = seed;
  options.grid = test.grid;
  auto finding =
      simulator::simulate(*module.getOps<mlir::sm90::KernelOp>().begin(), arguments, options);
  if (finding)
    finding->emit();
  ASSERT_FALSE(finding.has_value()) << finding->text;
}

void runInEmulator(const Case &test, mlir::ModuleOp module, std::vector<Data> &data) {
  auto functions = module.getOps<mlir::LLVM::LLVMFuncOp>();
  emulator::Emulator emulator(*functions.begin());
  std::vector<emulator::Argument> arguments;
  for (Data &argument : data)
    std::visit([&](auto &value) { arguments.push_back(toArgument(value)); }, argument);
  for (int64_t z = 0; z < test.grid[2]; ++z)
    for (int64_t y = 0; y < test.grid[1]; ++y)
      for (int64_t x = 0; x < test.grid[0]; ++x)
        ASSERT_EQ(emulator.run(arguments, {x, y, z}), "") << x << " " << y << " " << z;
}

void assemble(mlir::ModuleOp module) {
  mlir::PassManager passes(module.getContext());
  passes.addNestedPass<mlir::LLVM::LLVMFuncOp>(createConvertNvvmKernelToLlvm());
  ASSERT_TRUE(mlir::succeeded(passes.run(module)));
  NvptxOptions options;
  auto assembler = createAssembler(options.assembler);
  if (!assembler) {
    llvm::consumeError(assembler.takeError());
    options.assembler.kind = AssemblerKind::None;
  }
  EXPECT_TRUE(mlir::succeeded(compileKernels(module, options)));
}

template <typename T>
void expectEqual(const std::vector<T> &cpu, const std::vector<T> &gpu, double tolerance) {
  ASSERT_EQ(cpu.size(), gpu.size());
  for (size_t i = 0; i < cpu.size(); ++i) {
    double x = double(cpu[i]), y = double(gpu[i]);
    if ((std::isnan(x) && std::isnan(y)) || x == y)
      continue;
    ASSERT_LE(std::fabs(x - y), tolerance * (1 + std::fabs(x))) << i << ": " << x << ", " << y;
  }
}
void expectEqual(int64_t, int64_t, double) {}
void expectEqual(float, float, double) {}

class TileTargets : public ::testing::TestWithParam<Case (*)()> {};

TEST_P(TileTargets, GiveTheSameResult) {
  Case test = GetParam()();
  std::string text = readKernel(test.name);
  ASSERT_NE(text, "");
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  ASSERT_TRUE(module);
  std::vector<Data> cpu = test.arguments, gpu = test.arguments;
  runOnCpu(test, text, cpu);
  auto expectCpuResult = [&](const std::vector<Data> &other) {
    for (size_t i = 0; i < cpu.size(); ++i) {
      if (i == test.scratch)
        continue;
      std::visit(
          [&](auto &value) {
            SCOPED_TRACE("argument " + std::to_string(i));
            expectEqual(value, std::get<std::decay_t<decltype(value)>>(other[i]), test.tolerance);
          },
          cpu[i]);
    }
  };
  lowerToSm90(*module);
  for (uint64_t seed = 0; seed < 4 && !HasFatalFailure(); ++seed) { // every policy once
    std::vector<Data> simulated = test.arguments;
    runInSimulator(test, *module, simulated, seed);
    expectCpuResult(simulated);
  }
  lowerToNvvm(*module);
  if (HasFatalFailure())
    return;
  runInEmulator(test, *module, gpu);
  expectCpuResult(gpu);
  assemble(*module);
}

INSTANTIATE_TEST_SUITE_P(Kernels, TileTargets,
                         ::testing::Values(makeLinear, makeRmsNorm, makeRope, makeAbsorbedAttention,
                                           makeExpandedAttention, makeMerge, makeAppend, makeGather,
                                           makeConvertIndices, makeSharedTopK, makeShortTopK,
                                           makeMostTopK, makeSetBits, makeMarkedAttention),
                         [](const auto &info) { return info.param().name; });

} // namespace
