//===- ForkTest.cpp - children of a process with engines --------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A child has none of its parent's worker threads: a step would wait for them for
// ever, and ending the device would join them. Every call on the parent's objects is
// refused there, closing them ends the handle, and devices of its own work.
//
//===----------------------------------------------------------------------===//

#include "TestPackage.h"

#include <atomic>
#include <functional>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace mlac::test;

namespace {
struct alignas(16) Row {
  float values[kHidden];
};

class ForkTest : public EngineTest {
protected:
  void SetUp() override {
    start(defaultOptions(), makePagesPackage());
    sequence = newSequence();
    ASSERT_OK(planStep({sequence}, {1}));
    ASSERT_OK(runStep());
  }

  mla_status runStep() {
    Row hidden = {}, output;
    return mla_step_run(plan, 0, &hidden, &output, nullptr);
  }

  /// Runs `work` in a child, which must end by itself and without failures.
  void inChild(const std::function<void()> &work) {
    constexpr unsigned kMostSeconds = 20;
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(kMostSeconds);
      work();
      _exit(HasFailure());
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
    ASSERT_OK(runStep()); // the parent goes on
  }

  static void expectRefused(mla_status status, const char *what) {
    std::string text = std::string("the ") + what + " was made before fork()";
    expectStatus(status, MLA_WRONG_STATE, text.c_str());
  }

  mla_sequence sequence = 0;
};
} // namespace

TEST_F(ForkTest, CallsAreRefused) {
  mla_event *event;
  mla_cache *cache;
  mla_table *table;
  mla_swap *swap;
  ASSERT_OK(mla_event_create(device, &event));
  ASSERT_OK(mla_engine_cache(engine, &cache));
  ASSERT_OK(mla_table_create(cache, device, 0, 2, 4, &table));
  ASSERT_OK(mla_swap_create(engine, 2, &swap));
  inChild([&] {
    mla_sequence other;
    uint64_t ticket;
    void *data;
    const char *json;
    expectRefused(planStep({sequence}, {1}), "plan");
    expectRefused(runStep(), "plan");
    expectRefused(mla_plan_function(plan, &json), "plan");
    expectRefused(mla_plan_create(engine, &plan), "engine");
    expectRefused(mla_engine_prepare(engine, 0), "engine");
    expectRefused(mla_step_dry_run(engine, nullptr, 0, nullptr), "engine");
    expectRefused(mla_sequence_create(engine, &other), "engine");
    expectRefused(mla_engine_create(package, device, nullptr, &engine), "device");
    expectRefused(mla_device_malloc(device, 8, &data), "device");
    expectRefused(mla_device_synchronize(device), "device");
    expectRefused(mla_event_record(event, nullptr), "event");
    expectRefused(mla_cache_new_sequence(cache, &other), "cache");
    expectRefused(mla_cache_save(cache, "/nonexistent/snapshot"), "cache");
    expectRefused(mla_table_assign(table, 0, sequence), "block table");
    expectRefused(mla_swap_out(swap, sequence, nullptr, &ticket), "swap space");
    EXPECT_EQ(mla_device_is_cuda(device), -1);
  });
  ASSERT_OK(mla_event_destroy(event));
  ASSERT_OK(mla_table_destroy(table));
  ASSERT_OK(mla_swap_destroy(swap));
  ASSERT_OK(mla_cache_destroy(cache));
}

TEST_F(ForkTest, ClosingIsHarmless) {
  mla_swap *swap;
  ASSERT_OK(mla_swap_create(engine, 2, &swap));
  inChild([&] {
    ASSERT_OK(mla_device_close(device));
    ASSERT_OK(mla_swap_destroy(swap));
    ASSERT_OK(mla_engine_destroy(engine));
    ASSERT_OK(mla_plan_destroy(plan));
    ASSERT_OK(mla_package_close(package));
    expectStatus(mla_plan_destroy(plan), MLA_INVALID_ARGUMENT, "the plan has been closed");
    expectStatus(runStep(), MLA_INVALID_ARGUMENT, "the plan has been closed");
  });
  ASSERT_OK(mla_swap_destroy(swap));
}

/// Packages and caches without an engine are memory only.
TEST_F(ForkTest, ChildrenUseWhatIsTheirs) {
  mla_cache_pool pool = {"latent", 8, kPage, 1, 0, 0};
  mla_cache_options options = {sizeof options, 64, 1, &pool, nullptr};
  mla_cache *own;
  ASSERT_OK(mla_cache_create(&options, &own));
  inChild([&] {
    mla_sequence id;
    const char *json;
    ASSERT_OK(mla_package_info(package, &json));
    ASSERT_OK(mla_cache_new_sequence(own, &id));
    ASSERT_OK(mla_cache_reserve(own, id, 5));
    ASSERT_OK(mla_cache_destroy(own));
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
    return; // starts no threads in children of processes with threads
#endif
#endif
    start(defaultOptions());
    sequence = newSequence();
    ASSERT_OK(planStep({sequence}, {1}));
    ASSERT_OK(runStep());
    stop();
  });
  ASSERT_OK(mla_cache_destroy(own));
}

/// Another thread is in calls all the time: the child finds no table locked.
TEST_F(ForkTest, ThreadsInCallsDoNotBlockTheChild) {
  std::atomic<bool> isOver = false;
  std::thread caller([&] {
    int64_t tokens;
    while (!isOver)
      EXPECT_EQ(mla_sequence_length(engine, sequence, &tokens), MLA_OK);
  });
  for (int i = 0; i < 50; ++i)
    inChild([&] { expectRefused(runStep(), "plan"); });
  isOver = true;
  caller.join();
}
