//===- HostilePackageTest.cpp - packages that would take for ever -*- C++ -*-=//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Small files that ask for a lot of work: loops in loops, expressions by the hundred
// thousand, one part that is referred to from everywhere. Opening and planning are
// bounded: each of these is refused, or done, within a second.
//
//===----------------------------------------------------------------------===//

#include "PackageFuzzer.h" // cpuSeconds, kMostSeconds

#include "PackageTrailer.h"

#include <functional>

using namespace mlac::test;

namespace {
class HostilePackageTest : public EngineTest {
protected:
  void SetUp() override { ASSERT_OK(mla_device_open("cpu", 2, &device)); }
  void TearDown() override {
    if (plan)
      ASSERT_OK(mla_plan_destroy(plan));
    if (engine)
      ASSERT_OK(mla_engine_destroy(engine));
    if (package)
      ASSERT_OK(mla_package_close(package));
    plan = nullptr;
    ASSERT_OK(mla_device_close(device));
  }

  /// Opens the file and plans a decode; the first failure ends it.
  mla_status planDecode(const std::string &bytes) {
    double begin = cpuSeconds();
    mla_status status = mla_package_open_bytes(bytes.data(), bytes.size(), &package);
    mla_engine_options options = defaultOptions();
    if (status == MLA_OK)
      status = mla_engine_create(package, device, &options, &engine);
    if (status == MLA_OK)
      status = mla_plan_create(engine, &plan);
    if (status == MLA_OK)
      status = planStep({newSequence()}, {1}, "decode");
    EXPECT_LT(cpuSeconds() - begin, kMostSeconds);
    return status;
  }
  void expectRefused(const std::string &bytes, const char *text) {
    expectStatus(planDecode(bytes), MLA_CORRUPT, text);
  }
};

fb::FunctionT &decodeOf(fb::PackageT &package) { return *package.targets[0]->functions[2]; }

std::unique_ptr<fb::StepT> makeLoop(uint32_t count) {
  auto step = std::make_unique<fb::StepT>();
  step->loop = std::make_unique<fb::LoopT>();
  step->loop->count = count;
  return step;
}

constexpr int64_t kManyTimes = (1 << 20) - 5;
constexpr const char *kTooMuch = "the plan comes to more than 16777216 steps, arguments and "
                                 "expressions";
} // namespace

TEST_F(HostilePackageTest, ExpressionsOfEveryIteration) {
  fb::PackageT content = makePackage();
  fb::FunctionT &decode = decodeOf(content);
  Exprs exprs(decode);
  uint32_t last = exprs.loop(0);
  for (int i = 0; i < 100000; ++i)
    last = exprs.add(fb::ExprOp::Add, last, last);
  decode.steps.insert(decode.steps.begin(), makeLoop(exprs.constant(kManyTimes)));
  expectRefused(pack(content), kTooMuch);
}

/// What does not depend on the loop is not evaluated again: a plan like any other.
TEST_F(HostilePackageTest, ExpressionsOutsideOfTheLoop) {
  fb::PackageT content = makePackage();
  fb::FunctionT &decode = decodeOf(content);
  Exprs exprs(decode);
  for (int i = 0; i < 100000; ++i)
    exprs.add(fb::ExprOp::Add, 0, 0);
  decode.steps.insert(decode.steps.begin(), makeLoop(exprs.constant(kManyTimes)));
  EXPECT_OK(planDecode(pack(content)));
}

TEST_F(HostilePackageTest, EmptyLoopsInALoop) {
  fb::PackageT content = makePackage();
  fb::FunctionT &decode = decodeOf(content);
  Exprs exprs(decode);
  uint32_t none = exprs.constant(0);
  decode.steps.insert(decode.steps.begin(), makeLoop(exprs.constant(kManyTimes)));
  for (int i = 0; i < 60000; ++i)
    decode.steps[0]->loop->body.push_back(makeLoop(none));
  expectRefused(pack(content), kTooMuch);
}

TEST_F(HostilePackageTest, ArgumentsOfEveryLaunch) {
  fb::PackageT content = makePackage();
  fb::FunctionT &decode = decodeOf(content);
  Exprs exprs(decode);
  fb::LaunchT &launch = *decode.steps[0]->launch;
  launch.args.resize(256, launch.args[0]);
  auto loop = makeLoop(exprs.constant(kManyTimes));
  loop->loop->body.push_back(std::move(decode.steps[0]));
  decode.steps[0] = std::move(loop);
  expectRefused(pack(content), kTooMuch);
}

TEST_F(HostilePackageTest, NamesOfTensors) {
  fb::PackageT content = makePackage();
  for (int i = 0; i < 200000; ++i) {
    content.derived.push_back(std::make_unique<fb::TensorT>(*content.derived[0]));
    content.derived.back()->name = "d" + std::to_string(i);
    content.derived.back()->shape = {1};
  }
  fb::FunctionT &decode = decodeOf(content);
  for (int i = 0; i < 60000; ++i) {
    decode.buffers.push_back(std::make_unique<fb::BufferT>());
    decode.buffers.back()->kind = fb::BufferKind::Derived;
    decode.buffers.back()->name = content.derived.back()->name;
    decode.buffers.back()->dtype = fb::DataType::F32;
  }
  std::string bytes = pack(content);
  double begin = cpuSeconds();
  EXPECT_OK(mla_package_open_bytes(bytes.data(), bytes.size(), &package));
  EXPECT_LT(cpuSeconds() - begin, kMostSeconds);
}

TEST_F(HostilePackageTest, LongNames) {
  fb::PackageT content = makePackage();
  content.targets[0]->kernels[0]->name.assign(1 << 22, 'x');
  expectRefused(pack(content), "name has 4194304 bytes, limit 4096");
}

/// A file whose functions are made by hand: one part may be referred to many times.
static std::string packShared(const std::function<std::vector<flatbuffers::Offset<fb::Function>>(
                                  flatbuffers::FlatBufferBuilder &)> &makeFunctions) {
  fb::PackageT content = makePackage();
  flatbuffers::FlatBufferBuilder builder;
  fb::TargetT &given = *content.targets[0];
  auto functions = builder.CreateVector(makeFunctions(builder));
  auto arch = builder.CreateString(given.arch);
  auto code = builder.CreateVector(std::vector{fb::CreateCodeObject(builder, given.code[0].get())});
  auto kernels =
      builder.CreateVector(std::vector{fb::CreateKernel(builder, given.kernels[0].get())});
  fb::TargetBuilder target(builder);
  target.add_arch(arch);
  target.add_code(code);
  target.add_kernels(kernels);
  target.add_functions(functions);
  auto targets = builder.CreateVector(std::vector{target.Finish()});
  auto model = fb::CreateModel(builder, content.model.get());
  auto pools =
      builder.CreateVector(std::vector{fb::CreatePool(builder, content.pools[0].get())});
  auto rope = fb::CreateRopeSpec(builder, content.rope.get());
  fb::PackageBuilder package(builder);
  package.add_schema_version(kVersion);
  package.add_model(model);
  package.add_pools(pools);
  package.add_rope(rope);
  package.add_targets(targets);
  fb::FinishPackageBuffer(builder, package.Finish());
  std::string bytes(reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize());
  fb::appendTrailer(bytes);
  return bytes;
}

/// The FlatBuffers verifier would read the list once for each of the functions.
TEST_F(HostilePackageTest, OneListOfNamesForAllFunctions) {
  auto make = [](size_t numDims, size_t numFunctions) {
    return packShared([&](flatbuffers::FlatBufferBuilder &builder) {
      auto name = builder.CreateString("num_tokens");
      auto dims = builder.CreateVector(std::vector(numDims, name));
      auto function = builder.CreateString("decode");
      fb::FunctionBuilder table(builder);
      table.add_name(function);
      table.add_dims(dims);
      return std::vector(numFunctions, table.Finish());
    });
  };
  expectRefused(make(1 << 20, 1 << 18), "package has more than 1024 functions");
  expectRefused(make(1 << 20, 1000), "function 0 of target 0 names 1048576 sizes, limit 256");
  expectRefused(make(200, 1000), "function 'decode' is listed twice");
}

/// Sixteen levels of ten steps each, that are one step ten times: 10^16 in all.
TEST_F(HostilePackageTest, OneStepEverywhere) {
  std::string bytes = packShared([](flatbuffers::FlatBufferBuilder &builder) {
    auto makeStep = [&](flatbuffers::Offset<fb::Loop> loop) {
      fb::StepBuilder step(builder);
      step.add_loop(loop);
      return step.Finish();
    };
    auto body = builder.CreateVector(std::vector<flatbuffers::Offset<fb::Step>>());
    for (int level = 0; level < 16; ++level)
      body = builder.CreateVector(std::vector(10, makeStep(fb::CreateLoop(builder, 0, body))));
    auto name = builder.CreateString("decode");
    fb::FunctionBuilder function(builder);
    function.add_name(name);
    function.add_steps(body);
    return std::vector{function.Finish()};
  });
  expectRefused(bytes, "the FlatBuffer's offsets are inconsistent"); // more than a million tables
}

/// Few enough for FlatBuffers, too many arguments for the runtime.
TEST_F(HostilePackageTest, OneLaunchEverywhere) {
  std::string bytes = packShared([](flatbuffers::FlatBufferBuilder &builder) {
    std::vector<fb::Arg> args(256, fb::Arg(fb::ArgKind::F32, 0, 0, 1));
    auto given = builder.CreateVectorOfStructs(args);
    auto grid = builder.CreateVector(std::vector<uint32_t>(3));
    fb::LaunchBuilder launch(builder);
    launch.add_grid(grid);
    launch.add_args(given);
    auto launched = launch.Finish();
    fb::StepBuilder step(builder);
    step.add_launch(launched);
    auto steps = builder.CreateVector(std::vector(200000, step.Finish()));
    auto name = builder.CreateString("decode");
    fb::FunctionBuilder function(builder);
    function.add_name(name);
    function.add_steps(steps);
    return std::vector{function.Finish()};
  });
  expectRefused(bytes, "the package has more than 1048576 parts");
}
