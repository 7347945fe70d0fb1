//===- DeviceTimer.cpp - times a package's decode step on a device ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs one layer with random weights, cache and inputs through the runtime's C
// API (constant data would toggle fewer wires, and a GPU at its power limit would
// run faster than in earnest). Only launches of the attention count: the
// projections around it are the same at every point.
//
//===----------------------------------------------------------------------===//

#include "Tune.h"

#include "mla_runtime.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/JSON.h"

#include <algorithm>
#include <random>

using namespace mlac;
using llvm::Error;
using llvm::Expected;
using llvm::json::Array;
using llvm::json::Object;

static Error check(mla_status status, const char *what) {
  if (status == MLA_OK)
    return Error::success();
  return llvm::createStringError(llvm::Twine(what) + ": " + mla_last_error() + " (" +
                                 mla_status_name(status) + ")");
}

namespace {
/// A handle that closes itself.
template <typename T, mla_status (*Close)(T *)> struct Handle {
  Handle() = default;
  Handle(const Handle &) = delete;
  ~Handle() {
    if (handle)
      (void)Close(handle);
  }
  T *handle = nullptr;
};

/// Random bf16 values between 2^-8 and 1 in magnitude, as many as anyone asked for.
class RandomData {
public:
  const uint16_t *get(size_t count) {
    for (size_t i = data.size(); i < count; ++i)
      data.push_back(makeValue());
    return data.data();
  }

private:
  uint16_t makeValue() {
    constexpr uint32_t kMantissaBits = 7, kBias = 127, kExponents = 8;
    uint32_t bits = random();
    uint32_t exponent = kBias - 1 - (bits >> kMantissaBits) % kExponents;
    uint32_t mantissa = bits & ((1u << kMantissaBits) - 1);
    return static_cast<uint16_t>((bits >> 31) << 15 | exponent << kMantissaBits | mantissa);
  }
  std::mt19937 random;
  std::vector<uint16_t> data;
};

class DeviceTimer : public TuneTimer {
public:
  explicit DeviceTimer(const TuneOptions &options) : options(options) {}
  Error open();
  std::string getName() const override { return name; }
  bool needsPackage() const override { return true; }
  Expected<double> time(const ScheduleCost &point, const std::vector<uint8_t> &bytes) override;

private:
  using Engine = Handle<mla_engine, mla_engine_destroy>;
  using Plan = Handle<mla_plan, mla_plan_destroy>;
  Error makeEngine(mla_package *package, Engine &engine);
  Error bindWeights(mla_engine *engine, const Object &info);
  Error fillCache(mla_engine *engine);
  Error fillSequences(mla_engine *engine, mla_plan *plan, bool hasPrefill);
  Expected<double> profile(mla_plan *plan, int64_t hiddenSize);

  TuneOptions options;
  std::string name;
  RandomData random;
  Handle<mla_device, mla_device_close> device;
};
} // namespace

Error DeviceTimer::open() {
  if (Error error = check(mla_device_open(options.device.c_str(), 0, &device.handle),
                          "opening the device to tune on"))
    return error;
  const char *text = nullptr;
  if (Error error = check(mla_device_info(device.handle, &text), "asking for the device"))
    return error;
  Expected<llvm::json::Value> info = llvm::json::parse(text);
  if (!info)
    return info.takeError();
  name = info->getAsObject()->getString("name").value_or("unknown device").str();
  return Error::success();
}

Error DeviceTimer::makeEngine(mla_package *package, Engine &engine) {
  mla_engine_options sizes;
  mla_engine_options_init(&sizes);
  sizes.max_num_requests = options.batch;
  sizes.max_num_tokens = options.batch;
  sizes.max_seq_len = options.context + 1;
  return check(mla_engine_create(package, device.handle, &sizes, &engine.handle),
               "making an engine");
}

Error DeviceTimer::bindWeights(mla_engine *engine, const Object &info) {
  const Array *weights = info.getArray("weights");
  for (const llvm::json::Value &value : *weights) {
    const Object &tensor = *value.getAsObject();
    std::vector<int64_t> shape;
    size_t count = 1;
    for (const llvm::json::Value &size : *tensor.getArray("shape")) {
      shape.push_back(size.getAsInteger().value_or(1));
      count *= shape.back();
    }
    std::string tensorName = tensor.getString("name")->str();
    if (Error error = check(mla_engine_bind_weight(engine, 0, tensorName.c_str(), MLA_BF16,
                                                   shape.data(), shape.size(), random.get(count)),
                            "binding a weight"))
      return error;
  }
  return check(mla_engine_prepare(engine, 0), "preparing the weights");
}

/// A random block whose number of rows is prime, repeated, so that no two pages
/// near each other are equal.
Error DeviceTimer::fillCache(mla_engine *engine) {
  constexpr size_t kBlockRows = 8191;
  mla_cache_stats stats;
  void *pool = nullptr;
  if (Error error = check(mla_cache_get_stats(engine, &stats), "asking for the cache"))
    return error;
  if (Error error = check(mla_cache_data(engine, 0, &pool), "asking for the cache"))
    return error;
  size_t bytes = stats.num_pages * stats.page_stride_bytes;
  size_t block = std::min<size_t>(kBlockRows * stats.row_bytes, bytes);
  const uint16_t *data = random.get(block / sizeof(uint16_t));
  if (Error error = check(mla_device_upload(device.handle, pool, data, block), "filling the cache"))
    return error;
  for (size_t filled = block; filled < bytes; filled += block) {
    size_t count = std::min(block, bytes - filled);
    if (Error error = check(mla_device_copy_async(device.handle, static_cast<char *>(pool) + filled,
                                                  pool, count, nullptr),
                            "filling the cache"))
      return error;
  }
  return Error::success();
}

/// Gives every request its context, which is planned but never run, then plans
/// the decode step.
Error DeviceTimer::fillSequences(mla_engine *engine, mla_plan *plan, bool hasPrefill) {
  std::vector<mla_sequence> sequences(options.batch);
  for (mla_sequence &sequence : sequences)
    if (Error error = check(mla_sequence_create(engine, &sequence), "making a sequence"))
      return error;
  auto planTokens = [&](llvm::ArrayRef<mla_sequence> requests, int32_t tokens,
                        const char *function) {
    std::vector<int32_t> lengths(requests.size(), tokens);
    mla_batch batch{sizeof(mla_batch), static_cast<int64_t>(requests.size()), requests.data(),
                    lengths.data(), 0};
    return check(mla_step_plan(plan, &batch, function, nullptr), "planning a step");
  };
  if (!hasPrefill) {
    for (int64_t done = 0; done < options.context; ++done)
      if (Error error = planTokens(sequences, 1, nullptr))
        return error;
    return planTokens(sequences, 1, nullptr);
  }
  for (mla_sequence &sequence : sequences)
    for (int64_t done = 0; done < options.context;) {
      int64_t piece = std::min(options.batch, options.context - done);
      if (Error error = planTokens(sequence, static_cast<int32_t>(piece), "prefill"))
        return error;
      done += piece;
    }
  return planTokens(sequences, 1, nullptr);
}

/// Microseconds of the attention and of its merge.
static Expected<double> sumAttention(const char *profile) {
  Expected<llvm::json::Value> launches = llvm::json::parse(profile);
  if (!launches)
    return launches.takeError();
  double sum = 0;
  for (const llvm::json::Value &value : *launches->getAsArray()) {
    const Object &launch = *value.getAsObject();
    llvm::StringRef kernel = launch.getString("kernel").value_or("");
    if (kernel.starts_with("absorbed_attention") || kernel.starts_with("merge_"))
      sum += launch.getNumber("microseconds").value_or(0);
  }
  if (sum > 0)
    return sum;
  return llvm::createStringError("the decode step has no absorbed attention to tune");
}

/// The median of several runs, behind some that warm up.
Expected<double> DeviceTimer::profile(mla_plan *plan, int64_t hiddenSize) {
  constexpr int kWarmUps = 3, kRuns = 15;
  size_t bytes = options.batch * hiddenSize * sizeof(uint16_t);
  void *hidden = nullptr, *output = nullptr;
  llvm::scope_exit cleanUp([&] {
    (void)mla_device_free(device.handle, hidden);
    (void)mla_device_free(device.handle, output);
  });
  if (Error error = check(mla_device_malloc(device.handle, bytes, &hidden), "allocating inputs"))
    return error;
  if (Error error = check(mla_device_malloc(device.handle, bytes, &output), "allocating outputs"))
    return error;
  const uint16_t *data = random.get(bytes / sizeof(uint16_t));
  if (Error error =
          check(mla_device_upload(device.handle, hidden, data, bytes), "copying the inputs"))
    return error;
  std::vector<double> times;
  for (int run = 0; run < kWarmUps + kRuns; ++run) {
    const char *text = nullptr;
    if (Error error =
            check(mla_step_profile(plan, 0, hidden, output, nullptr, &text),
                  "running a step from hidden states to output (--tune-timer=model takes modules "
                  "without them)"))
      return error;
    Expected<double> sum = sumAttention(text);
    if (!sum)
      return sum.takeError();
    if (run >= kWarmUps)
      times.push_back(*sum);
  }
  llvm::sort(times);
  return times[times.size() / 2];
}

Expected<double> DeviceTimer::time(const ScheduleCost &, const std::vector<uint8_t> &bytes) {
  Handle<mla_package, mla_package_close> package;
  Engine engine;
  Plan plan;
  const char *text = nullptr;
  if (Error error = check(mla_package_open_bytes(bytes.data(), bytes.size(), &package.handle),
                          "opening the package"))
    return error;
  if (Error error = check(mla_package_info(package.handle, &text), "asking for the package"))
    return error;
  Expected<llvm::json::Value> info = llvm::json::parse(text);
  if (!info)
    return info.takeError();
  const Object &root = *info->getAsObject();
  if (Error error = makeEngine(package.handle, engine))
    return error;
  if (Error error = bindWeights(engine.handle, root))
    return error;
  if (Error error = fillCache(engine.handle))
    return error;
  if (Error error = check(mla_plan_create(engine.handle, &plan.handle), "making a plan"))
    return error;
  bool hasPrefill = llvm::StringRef(text).contains("\"name\":\"prefill\"") ||
                    llvm::StringRef(text).contains("\"name\": \"prefill\"");
  if (Error error = fillSequences(engine.handle, plan.handle, hasPrefill))
    return error;
  return profile(plan.handle, root.getObject("model")->getInteger("hidden_size").value_or(0));
}

Expected<std::unique_ptr<TuneTimer>> mlac::createDeviceTimer(const TuneOptions &options) {
  auto timer = std::make_unique<DeviceTimer>(options);
  if (Error error = timer->open())
    return error;
  return timer;
}
