//===- CudaStepTest.cpp - running steps on a GPU ----------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Skipped without a GPU. The kernels are TestKernelsCuda.c.
//
//===----------------------------------------------------------------------===//

#include "TestPackage.h"

#include <chrono>
#include <cmath>
#include <dlfcn.h>
#include <iostream>
#include <random>

using namespace mlac;
using namespace mlac::test;

#ifdef MLAC_TEST_CUBIN

namespace {
struct Row {
  float values[kHidden];
};

class CudaStepTest : public ::testing::Test {
protected:
  static constexpr int64_t kMaxTokens = 32;

  void SetUp() override {
    if (mla_device_open("cuda", 0, &device) != MLA_OK)
      GTEST_SKIP() << mla_last_error();
    std::string bytes = pack(makeCudaPackage());
    ASSERT_OK(mla_package_open_bytes(bytes.data(), bytes.size(), &package));
    mla_engine_options options;
    mla_engine_options_init(&options);
    options.max_num_requests = 4;
    options.max_num_tokens = kMaxTokens;
    options.num_pages = 12;
    mla_status status = mla_engine_create(package, device, &options, &engine);
    if (status == MLA_UNSUPPORTED)
      GTEST_SKIP() << mla_last_error();
    ASSERT_EQ(status, MLA_OK) << mla_last_error();
    std::vector<float> weight = {1, 2, 3, 4, 5, 6, 7, 8};
    int64_t shape[] = {kHidden};
    ASSERT_OK(mla_engine_bind_weight(engine, 0, "w", MLA_F32, shape, 1, weight.data()));
    ASSERT_OK(mla_engine_prepare(engine, 0));
    ASSERT_OK(mla_plan_create(engine, &plan));
    ASSERT_OK(mla_stream_create(device, &stream));
    size_t rows = kMaxTokens * sizeof(Row);
    ASSERT_OK(mla_device_malloc(device, rows, &hidden));
    ASSERT_OK(mla_device_malloc(device, rows, &output));
    ASSERT_OK(mla_sequence_create(engine, &sequence));
  }

  void TearDown() override {
    if (!device)
      return;
    mla_device_free(device, hidden);
    mla_device_free(device, output);
    if (stream)
      EXPECT_EQ(mla_stream_destroy(device, stream), MLA_OK);
    if (plan)
      EXPECT_EQ(mla_plan_destroy(plan), MLA_OK);
    if (engine)
      EXPECT_EQ(mla_engine_destroy(engine), MLA_OK);
    if (package)
      mla_package_close(package);
    EXPECT_EQ(mla_device_close(device), MLA_OK);
  }

  mla_status planStep(int32_t queryLen, const char *function) {
    mla_batch batch = {sizeof batch, 1, &sequence, &queryLen, 0};
    return mla_step_plan(plan, &batch, function, stream);
  }

  void uploadOnes(int64_t tokens) {
    std::vector<float> ones(static_cast<size_t>(tokens * kHidden), 1.0f);
    ASSERT_OK(mla_device_upload(device, hidden, ones.data(), ones.size() * sizeof(float)));
  }

  /// The rows of ones so far are the tokens: output = 2 * w + position + 1.
  void expectOutput(int64_t context, int64_t tokens) {
    std::vector<Row> rows(static_cast<size_t>(tokens));
    ASSERT_OK(mla_device_download(device, rows.data(), output, rows.size() * sizeof(Row)));
    for (int64_t i = 0; i < tokens; ++i)
      for (int64_t j = 0; j < kHidden; ++j)
        EXPECT_EQ(rows[i].values[j], 2 * (j + 1) + context + i + 1)
            << "token " << i << " column " << j;
  }

  mla_device *device = nullptr;
  mla_package *package = nullptr;
  mla_engine *engine = nullptr;
  mla_plan *plan = nullptr;
  mla_stream *stream = nullptr;
  mla_sequence sequence = 0;
  void *hidden = nullptr, *output = nullptr;
};

/// A driver function that the runtime itself does not use.
template <typename... Args> int driver(const char *symbol, Args... args) {
  static void *library = dlopen("libcuda.so.1", RTLD_NOW);
  auto *function = reinterpret_cast<int (*)(Args...)>(dlsym(library, symbol));
  return function(args...);
}
} // namespace

TEST_F(CudaStepTest, PrefillThenDecode) {
  uploadOnes(kPage + 1);
  ASSERT_OK(planStep(kPage + 1, nullptr));
  ASSERT_OK(mla_cache_poison(engine, 0));
  ASSERT_OK(mla_engine_poison_workspace(engine));
  ASSERT_OK(mla_step_run(plan, 0, hidden, output, stream));
  expectOutput(0, kPage + 1);
  for (int64_t i = 1; i <= kPage; ++i) {
    ASSERT_OK(planStep(1, "decode"));
    ASSERT_OK(mla_step_run(plan, 0, hidden, output, stream));
    expectOutput(kPage + i, 1);
  }
  Row row;
  ASSERT_OK(mla_cache_read(engine, 0, 0, 0, 1, &row));
  EXPECT_EQ(row.values[3], 1.0f);
  ASSERT_OK(mla_cache_read(engine, 0, 0, 11 * kPage, 1, &row));
  EXPECT_TRUE(std::isnan(row.values[0]));
}

TEST_F(CudaStepTest, ManyStepsWithoutWaiting) {
  // Plans follow each other faster than the stream: staging must not be
  // overwritten before its copy is done.
  uploadOnes(1);
  for (int i = 0; i < 40; ++i) {
    ASSERT_OK(planStep(1, "decode"));
    ASSERT_OK(mla_step_run(plan, 0, hidden, output, stream));
  }
  expectOutput(39, 1);
}

TEST_F(CudaStepTest, C15_CapturedRunReplays) {
  constexpr int kRelaxed = 2; // CU_STREAM_CAPTURE_MODE_RELAXED
  uploadOnes(3);
  ASSERT_OK(planStep(3, "prefill"));
  void *graph = nullptr, *executable = nullptr, *context = nullptr;
  // The runtime leaves the caller's context as it was: none in this test.
  ASSERT_EQ(driver("cuDevicePrimaryCtxRetain", &context, 0), 0);
  ASSERT_EQ(driver("cuCtxPushCurrent_v2", context), 0);
  ASSERT_EQ(driver("cuStreamBeginCapture_v2", stream, kRelaxed), 0);
  ASSERT_OK(mla_step_run(plan, 0, hidden, output, stream));
  ASSERT_EQ(driver("cuStreamEndCapture", stream, &graph), 0);
  ASSERT_EQ(driver("cuGraphInstantiateWithFlags", &executable, graph, 0ull), 0);
  ASSERT_OK(mla_device_fill_async(device, output, 0xff, kMaxTokens * sizeof(Row), stream));
  for (int replay = 0; replay < 2; ++replay)
    ASSERT_EQ(driver("cuGraphLaunch", executable, stream), 0);
  ASSERT_OK(mla_stream_synchronize(device, stream));
  expectOutput(0, 3);
  EXPECT_EQ(driver("cuGraphExecDestroy", executable), 0);
  EXPECT_EQ(driver("cuGraphDestroy", graph), 0);
  EXPECT_EQ(driver("cuCtxPopCurrent_v2", &context), 0);
  EXPECT_EQ(driver("cuDevicePrimaryCtxRelease_v2", 0), 0);
}

/// Rows of the block table stay on the device from step to step, far enough apart for
/// single words to be sent: what the kernels read through them must be each sequence's.
TEST_F(CudaStepTest, TablesFollowTheCache) {
  constexpr int64_t kRequests = 1024;
  ASSERT_OK(mla_plan_destroy(plan));
  ASSERT_OK(mla_engine_destroy(engine));
  mla_engine_options options;
  mla_engine_options_init(&options);
  options.max_num_requests = kRequests;
  options.max_num_tokens = kMaxTokens;
  options.num_pages = 100;
  ASSERT_OK(mla_engine_create(package, device, &options, &engine));
  std::vector<float> weight(kHidden, 0);
  int64_t shape[] = {kHidden};
  ASSERT_OK(mla_engine_bind_weight(engine, 0, "w", MLA_F32, shape, 1, weight.data()));
  ASSERT_OK(mla_engine_prepare(engine, 0));
  ASSERT_OK(mla_plan_create(engine, &plan));
  uploadOnes(kMaxTokens);
  std::vector<std::pair<mla_sequence, int64_t>> batch; // and lengths
  std::mt19937 random(5);
  for (int step = 0; step < 400; ++step) {
    if (batch.size() < 6) {
      ASSERT_OK(mla_sequence_create(engine, &batch.emplace_back().first));
      batch.back().second = 0;
    }
    auto &[id, tokens] = batch[random() % batch.size()];
    switch (random() % 12) {
    case 0:
      tokens /= 2;
      ASSERT_OK(mla_sequence_truncate(engine, id, tokens));
      break;
    case 1:
      ASSERT_OK(mla_sequence_free(engine, id));
      ASSERT_OK(mla_sequence_create(engine, &id));
      tokens = 0;
      break;
    case 2:
      std::swap(batch.front(), batch.back());
    }
    std::vector<mla_sequence> ids;
    std::vector<int32_t> lens;
    for (auto &[id, tokens] : batch) {
      ids.push_back(id);
      lens.push_back(tokens < kRopeLength - 4 ? 1 + static_cast<int32_t>(random() % 4 / 3) : 0);
      tokens += lens.back();
    }
    mla_batch requests = {sizeof requests, static_cast<int64_t>(ids.size()), ids.data(),
                          lens.data(), 0};
    ASSERT_OK(mla_step_plan(plan, &requests, "prefill", stream));
    ASSERT_OK(mla_step_run(plan, 0, hidden, output, stream));
    ASSERT_OK(mla_stream_synchronize(device, stream));
    std::vector<Row> rows(kMaxTokens);
    ASSERT_OK(mla_device_download(device, rows.data(), output, rows.size() * sizeof(Row)));
    for (size_t i = 0, row = 0; i < batch.size(); row += lens[i], ++i)
      if (lens[i] > 0)
        ASSERT_EQ(rows[row + lens[i] - 1].values[0], batch[i].second) << step << " request " << i;
  }
  ASSERT_OK(mla_sequence_create(engine, &sequence));
}

TEST_F(CudaStepTest, LoopsProfilesAndEvents) {
  uploadOnes(kPage);
  ASSERT_OK(planStep(kPage, "prefill"));
  const char *json;
  ASSERT_OK(mla_step_profile(plan, 0, hidden, output, stream, &json));
  EXPECT_NE(std::string(json).find("\"label\":\"attend\""), std::string::npos);
  ASSERT_OK(planStep(1, "chunked"));
  mla_binding binding = {"lse", output, sizeof(float)};
  mla_event *begin, *end;
  ASSERT_OK(mla_event_create(device, &begin));
  ASSERT_OK(mla_event_create(device, &end));
  ASSERT_OK(mla_event_record(begin, stream));
  ASSERT_OK(mla_step_run_bound(plan, 0, &binding, 1, stream));
  ASSERT_OK(mla_event_record(end, stream));
  double milliseconds = -1;
  ASSERT_OK(mla_event_elapsed(begin, end, &milliseconds));
  EXPECT_GE(milliseconds, 0);
  float total;
  ASSERT_OK(mla_device_download(device, &total, output, sizeof total));
  EXPECT_EQ(total, kPage);
  mla_event_destroy(begin);
  mla_event_destroy(end);
}

TEST_F(CudaStepTest, HostTimeOfAStep) {
  using Clock = std::chrono::steady_clock;
  constexpr int kSteps = 20;
  uploadOnes(1);
  double planUs = 0, runUs = 0;
  auto since = [](Clock::time_point begin) {
    return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  };
  for (int i = 0; i < kSteps; ++i) {
    auto begin = Clock::now();
    ASSERT_OK(planStep(1, "decode"));
    planUs += since(begin);
    begin = Clock::now();
    ASSERT_OK(mla_step_run(plan, 0, hidden, output, stream));
    runUs += since(begin);
  }
  std::cout << "plan " << planUs / kSteps << " us, run of two launches " << runUs / kSteps
            << " us\n";
}

/// A table of 512 x 1025 pages: host time of plans, and what they take of the stream, which
/// is kept busy meanwhile.
TEST_F(CudaStepTest, TimeOfPlansOf512Requests) {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t kRequests = 512, kContext = 4000, kSteps = 40, kBusyBytes = 1 << 28;
  fb::PackageT description = makeCudaPackage();
  description.rope->length = 4100;
  std::string bytes = pack(description);
  mla_package *long_;
  mla_engine *large;
  mla_plan *plans;
  ASSERT_OK(mla_package_open_bytes(bytes.data(), bytes.size(), &long_));
  mla_engine_options options;
  mla_engine_options_init(&options);
  options.max_num_requests = kRequests;
  options.max_num_tokens = kRequests * kContext;
  ASSERT_OK(mla_engine_create(long_, device, &options, &large));
  ASSERT_OK(mla_plan_create(large, &plans));
  std::vector<mla_sequence> ids(kRequests);
  std::vector<int32_t> lens(kRequests);
  for (int64_t i = 0; i < kRequests; ++i) {
    ASSERT_OK(mla_sequence_create(large, &ids[i]));
    lens[i] = static_cast<int32_t>(kContext - (i % 64 ? 0 : 1)); // eight start pages alone
  }
  mla_batch batch = {sizeof batch, kRequests, ids.data(), lens.data(), 0};
  ASSERT_OK(mla_step_plan(plans, &batch, "prefill", stream));
  std::fill(lens.begin(), lens.end(), 1);
  void *busy;
  mla_event *begin, *end;
  ASSERT_OK(mla_device_malloc(device, kBusyBytes, &busy));
  ASSERT_OK(mla_event_create(device, &begin));
  ASSERT_OK(mla_event_create(device, &end));
  for (int64_t i = 0; i < kSteps; ++i) {
    ASSERT_OK(mla_stream_synchronize(device, stream));
    for (int j = 0; j < 4; ++j)
      ASSERT_OK(mla_device_fill_async(device, busy, 0, kBusyBytes, stream));
    ASSERT_OK(mla_event_record(begin, stream));
    auto before = Clock::now();
    ASSERT_OK(mla_step_plan(plans, &batch, "decode", stream));
    double hostUs = std::chrono::duration<double, std::micro>(Clock::now() - before).count();
    ASSERT_OK(mla_event_record(end, stream));
    double milliseconds;
    ASSERT_OK(mla_event_elapsed(begin, end, &milliseconds));
    if (i >= kSteps - 8)
      std::cout << "plan of 512 requests: " << hostUs << " us on the host, " << milliseconds * 1e3
                << " us of the stream\n";
  }
  mla_event_destroy(begin);
  mla_event_destroy(end);
  mla_device_free(device, busy);
  ASSERT_OK(mla_plan_destroy(plans));
  ASSERT_OK(mla_engine_destroy(large));
  mla_package_close(long_);
}

TEST_F(CudaStepTest, OtherArchitectureIsUnsupported) {
  fb::PackageT description = makeCudaPackage();
  description.targets[0]->arch = "sm_80a";
  std::string bytes = pack(description);
  mla_package *other;
  mla_engine *none;
  ASSERT_OK(mla_package_open_bytes(bytes.data(), bytes.size(), &other));
  expectStatus(mla_engine_create(other, device, nullptr, &none), MLA_UNSUPPORTED,
               "sm_80a: the device is sm_");
  mla_package_close(other);
}

TEST_F(CudaStepTest, DamagedCubinIsRefused) {
  fb::PackageT description = makeCudaPackage();
  auto &code = description.targets[0]->code[0]->bytes;
  code.resize(code.size() / 2);
  std::string bytes = pack(description);
  mla_package *other;
  mla_engine *none;
  ASSERT_OK(mla_package_open_bytes(bytes.data(), bytes.size(), &other));
  expectStatus(mla_engine_create(other, device, nullptr, &none), MLA_CORRUPT, "truncated");
  mla_package_close(other);
}

TEST_F(CudaStepTest, PtxIsAssembledByTheDriver) {
  fb::PackageT description = makeCudaPackage();
  std::string ptx = readFile(MLAC_TEST_CUBIN ".ptx") + '\0'; // as mla-compile writes it
  description.targets[0]->code[0]->bytes.assign(ptx.begin(), ptx.end());
  std::string bytes = pack(description);
  mla_package *other;
  mla_engine *loaded;
  ASSERT_OK(mla_package_open_bytes(bytes.data(), bytes.size(), &other));
  ASSERT_OK(mla_engine_create(other, device, nullptr, &loaded));
  ASSERT_OK(mla_engine_destroy(loaded));
  mla_package_close(other);
}

#endif // MLAC_TEST_CUBIN
