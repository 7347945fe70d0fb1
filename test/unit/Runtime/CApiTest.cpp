//===- CApiTest.cpp - handles, devices and engines of the C API ----*- C++
//-*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestPackage.h"

#include <dlfcn.h>
#include <thread>

using namespace mlac;
using namespace mlac::test;

extern "C" int mlac_test_use_from_c(void);

TEST(CApi, WorksFromC) { EXPECT_EQ(mlac_test_use_from_c(), 0); }

TEST(CApi, StatusNames) {
  EXPECT_STREQ(mla_status_name(MLA_OUT_OF_PAGES), "MLA_OUT_OF_PAGES");
  EXPECT_STREQ(mla_status_name(MLA_INTERNAL), "MLA_INTERNAL");
  EXPECT_STREQ(mla_status_name(static_cast<mla_status>(15)), "unknown status");
}

TEST(CApi, NullHandlesAndPointersAreRefused) {
  const char *json;
  mla_package *package;
  mla_device *device;
  mla_engine *engine;
  mla_plan *plan;
  expectStatus(mla_package_open(nullptr, &package), MLA_INVALID_ARGUMENT, "path is null");
  expectStatus(mla_package_open("/x", nullptr), MLA_INVALID_ARGUMENT, "package is null");
  expectStatus(mla_package_open_bytes(nullptr, 3, &package), MLA_INVALID_ARGUMENT, "data is null");
  expectStatus(mla_package_info(nullptr, &json), MLA_INVALID_ARGUMENT, "package is null");
  expectStatus(mla_device_open(nullptr, 0, &device), MLA_INVALID_ARGUMENT, "name is null");
  expectStatus(mla_engine_create(nullptr, nullptr, nullptr, &engine), MLA_INVALID_ARGUMENT,
               "package is null");
  expectStatus(mla_plan_create(nullptr, &plan), MLA_INVALID_ARGUMENT, "engine is null");
  expectStatus(mla_step_plan(nullptr, nullptr, nullptr, nullptr), MLA_INVALID_ARGUMENT,
               "plan is null");
  EXPECT_EQ(mla_device_is_cuda(nullptr), -1);
  mla_engine_options_init(nullptr);
}

TEST(CApi, StaleAndForeignHandlesAreRefused) {
  mla_device *device;
  const char *json;
  ASSERT_OK(mla_device_open("cpu", 1, &device));
  EXPECT_EQ(mla_device_is_cuda(device), 0);
  auto *foreign = reinterpret_cast<mla_package *>(device);
  expectStatus(mla_package_close(foreign), MLA_INVALID_ARGUMENT, "the handle is no package");
  int local;
  expectStatus(mla_device_info(reinterpret_cast<mla_device *>(&local), &json), MLA_INVALID_ARGUMENT,
               "the handle is no device");
  ASSERT_OK(mla_device_close(device));
  expectStatus(mla_device_close(device), MLA_INVALID_ARGUMENT, "the device has been closed");
  mla_device *second;
  ASSERT_OK(mla_device_open("cpu", 1, &second));
  EXPECT_NE(second, device);
  EXPECT_EQ(mla_device_info(device, &json), MLA_INVALID_ARGUMENT);
  ASSERT_OK(mla_device_close(second));
}

TEST(CApi, BadDeviceNamesAreRefused) {
  mla_device *device;
  for (const char *name : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda1"})
    expectStatus(mla_device_open(name, 0, &device), MLA_INVALID_ARGUMENT,
                 "expected cpu, cuda or cuda:N");
  expectStatus(mla_device_open("cpu", -1, &device), MLA_INVALID_ARGUMENT, "threads = -1");
  expectStatus(mla_device_open("cuda", 2, &device), MLA_INVALID_ARGUMENT, "threads = 2");
}

TEST(CApi, NoGpuIsNoDevice) {
  mla_device *device;
  mla_status status = mla_device_open("cuda", 0, &device);
  if (status == MLA_OK) {
    mla_device_close(device);
    expectStatus(mla_device_open("cuda:999", 0, &device), MLA_NO_DEVICE, "CUDA device 999 of");
    GTEST_SKIP() << "this machine has a GPU";
  }
  EXPECT_EQ(status, MLA_NO_DEVICE);
  EXPECT_NE(std::string(mla_last_error()).find("CUDA"), std::string::npos) << mla_last_error();
}

TEST(CApi, DeviceMemoryCopies) {
  mla_device *device;
  void *data;
  ASSERT_OK(mla_device_open("cpu", 1, &device));
  ASSERT_OK(mla_device_malloc(device, 64, &data));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 256, 0u);
  int value = 7, back = 0;
  ASSERT_OK(mla_device_upload(device, data, &value, sizeof value));
  ASSERT_OK(mla_device_download(device, &back, data, sizeof back));
  EXPECT_EQ(back, 7);
  ASSERT_OK(mla_device_fill_async(device, data, 0, 64, nullptr));
  ASSERT_OK(mla_device_download(device, &back, data, sizeof back));
  EXPECT_EQ(back, 0);
  EXPECT_EQ(mla_device_upload(device, data, nullptr, 4), MLA_INVALID_ARGUMENT);
  EXPECT_EQ(mla_device_malloc(device, 0, &data), MLA_INVALID_ARGUMENT);
  EXPECT_EQ(mla_device_malloc(device, size_t(1) << 62, &data), MLA_OUT_OF_MEMORY);
  ASSERT_OK(mla_device_free(device, data));
  ASSERT_OK(mla_device_close(device));
}

TEST(CApi, EventsMeasureTime) {
  mla_device *device;
  mla_event *begin, *end;
  double milliseconds = -1;
  ASSERT_OK(mla_device_open("cpu", 1, &device));
  ASSERT_OK(mla_event_create(device, &begin));
  ASSERT_OK(mla_event_create(device, &end));
  ASSERT_OK(mla_event_record(begin, nullptr));
  ASSERT_OK(mla_event_record(end, nullptr));
  ASSERT_OK(mla_event_elapsed(begin, end, &milliseconds));
  EXPECT_GE(milliseconds, 0);
  ASSERT_OK(mla_event_destroy(begin));
  ASSERT_OK(mla_event_destroy(end));
  ASSERT_OK(mla_device_close(device));
}

TEST_F(EngineTest, ObjectsKeepTheirParentsAlive) {
  ASSERT_OK(mla_package_close(package));
  ASSERT_OK(mla_device_close(device));
  mla_sequence sequence = newSequence();
  ASSERT_OK(planStep({sequence}, {1}));
  alignas(16) float hidden[kHidden] = {}, output[kHidden];
  ASSERT_OK(mla_step_run(plan, 0, hidden, output, nullptr));
  ASSERT_OK(mla_engine_destroy(engine));
  expectStatus(mla_step_run(plan, 0, hidden, output, nullptr), MLA_INVALID_ARGUMENT,
               "the plan's engine has been destroyed");
  ASSERT_OK(mla_plan_destroy(plan));
  plan = nullptr;
}

TEST_F(EngineTest, OptionsNameValueAndLimit) {
  auto refuse = [&](int64_t mla_engine_options::*option, int64_t value, const char *text) {
    mla_engine_options options = defaultOptions();
    options.*option = value;
    mla_engine *other;
    expectStatus(mla_engine_create(package, device, &options, &other), MLA_INVALID_ARGUMENT, text);
  };
  using O = mla_engine_options;
  refuse(&O::max_seq_len, 65, "max_seq_len = 65, expected 1 to 64");
  refuse(&O::max_num_requests, 0, "max_num_requests = 0");
  refuse(&O::max_num_tokens, -5, "max_num_tokens = -5");
  refuse(&O::num_pages, -1, "num_pages = -1");
  refuse(&O::workspace_tokens, 3, "workspace_tokens = 3, expected 4");
  refuse(&O::num_layers, 0, "num_layers = 0");
  refuse(&O::tensor_parallel_rank, 1, "tensor_parallel_rank = 1");
  mla_engine_options options = defaultOptions();
  options.struct_bytes = 4;
  mla_engine *other;
  expectStatus(mla_engine_create(package, device, &options, &other), MLA_INVALID_ARGUMENT,
               "options.struct_bytes = 4");
}

TEST_F(EngineTest, PoolsBeyondTheMemoryNameTheirOption) {
  mla_engine_options options = defaultOptions();
  options.num_pages = 2147479999; // the most
  options.page_padding_tokens = 1 << 16;
  mla_engine *other;
  expectStatus(mla_engine_create(package, device, &options, &other), MLA_OUT_OF_MEMORY,
               "option num_pages = 2147479999: a layer's pool takes ");
  fb::PackageT huge = makePackage();
  huge.rope->length = uint64_t(1) << 31; // the most
  std::string bytes = pack(huge);
  mla_package *another;
  ASSERT_OK(mla_package_open_bytes(bytes.data(), bytes.size(), &another));
  options = defaultOptions();
  options.num_pages = 0;
  options.page_padding_tokens = 1 << 16;
  expectStatus(mla_engine_create(another, device, &options, &other), MLA_OUT_OF_MEMORY,
               "option num_pages = 2147479999 (by default enough for max_num_requests = 4 of "
               "max_seq_len = 2147483647): a layer's pool takes ");
  ASSERT_OK(mla_package_close(another));
}

TEST_F(EngineTest, UnboundWeightsAreWrongState) {
  mla_engine *other;
  ASSERT_OK(mla_engine_create(package, device, nullptr, &other));
  expectStatus(mla_engine_prepare(other, 0), MLA_WRONG_STATE, "weights are not bound: w");
  ASSERT_OK(mla_engine_destroy(other));
}

TEST_F(EngineTest, InfoIsJson) {
  const char *json;
  ASSERT_OK(mla_engine_info(engine, &json));
  EXPECT_NE(std::string(json).find("\"num_pages\":12"), std::string::npos) << json;
  ASSERT_OK(mla_package_info(package, &json));
  EXPECT_NE(std::string(json).find("\"hidden_size\":8"), std::string::npos);
  ASSERT_OK(mla_device_info(device, &json));
  EXPECT_NE(std::string(json).find("\"kind\":\"cpu\""), std::string::npos);
}

TEST_F(EngineTest, InfoIsOfTheThreadThatAsked) {
  const char *json;
  ASSERT_OK(mla_engine_info(engine, &json));
  std::string before = json;
  std::thread([&] {
    const char *other;
    EXPECT_OK(mla_engine_info(engine, &other));
    EXPECT_EQ(before, other);
  }).join();
  EXPECT_EQ(before, json); // once freed by the other's call
}

TEST_F(EngineTest, SequencePages) {
  mla_sequence sequence = newSequence();
  ASSERT_OK(planStep({sequence}, {kPage + 1}));
  int64_t count = 0;
  EXPECT_EQ(mla_sequence_pages(engine, sequence, nullptr, 0, &count), MLA_INVALID_ARGUMENT);
  EXPECT_EQ(count, 2);
  int32_t pages[2];
  ASSERT_OK(mla_sequence_pages(engine, sequence, pages, 2, &count));
  EXPECT_EQ(pages[1], 1);
}

/// Creating an engine from a changed package.
static mla_status createChanged(void (*change)(fb::TargetT &)) {
  fb::PackageT description = makePackage();
  change(*description.targets[0]);
  std::string bytes = pack(description);
  mla_package *package;
  mla_device *device;
  mla_engine *engine;
  EXPECT_EQ(mla_package_open_bytes(bytes.data(), bytes.size(), &package), MLA_OK);
  EXPECT_EQ(mla_device_open("cpu", 1, &device), MLA_OK);
  mla_status status = mla_engine_create(package, device, nullptr, &engine);
  std::string message = mla_last_error();
  mla_device_close(device);
  mla_package_close(package);
  return status;
}

TEST(Targets, OtherArchitectureIsUnsupported) {
  expectStatus(createChanged([](fb::TargetT &target) {
                 target.kind = fb::TargetKind::Cuda;
                 target.arch = "sm_90a";
               }),
               MLA_UNSUPPORTED, "package is for another architecture");
  EXPECT_NE(std::string(mla_last_error()).find("sm_90a: not for the CPU"), std::string::npos)
      << mla_last_error();
  expectStatus(
      createChanged([](fb::TargetT &target) { target.features = "+sse2,-avx,+antigravity"; }),
      MLA_UNSUPPORTED, "this processor lacks antigravity");
}

TEST(Targets, DamagedCodeIsCorrupt) {
  expectStatus(createChanged([](fb::TargetT &target) { target.code[0]->bytes.resize(32); }),
               MLA_CORRUPT, "is no ELF image");
  expectStatus(createChanged([](fb::TargetT &target) {
                 auto &bytes = target.code[0]->bytes;
                 bytes.resize(bytes.size() / 2);
               }),
               MLA_CORRUPT, "truncated");
  expectStatus(createChanged([](fb::TargetT &target) { target.kernels[0]->symbol = "missing"; }),
               MLA_CORRUPT, "lacks symbol 'missing'");
  expectStatus(createChanged([](fb::TargetT &target) {
                 target.code[0]->bytes[18] = 190; // e_machine
               }),
               MLA_UNSUPPORTED, "ELF machine 190");
}

TEST(CApi, ErrorsArePerThread) {
  const char *json;
  mla_package_info(nullptr, &json);
  std::string other = "unset";
  std::thread([&] { other = mla_last_error(); }).join();
  EXPECT_EQ(other, "");
  EXPECT_STRNE(mla_last_error(), "");
}
