//===- DeviceTimer.cpp - times a package's kernels on a device ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs one layer with random weights, cache and inputs through the runtime's C
// API (constant data would toggle fewer wires, and a GPU at its power limit would
// run faster than in earnest). Only launches of the kernel that is tuned count, and
// of the merge behind it: the rest is the same at every point.
//
//===----------------------------------------------------------------------===//

#include "TuneTimer.h"

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
  explicit DeviceTimer(std::string deviceName) : deviceName(std::move(deviceName)) {}
  Error open();
  std::string getName() const override { return name; }
  bool needsPackage() const override { return true; }
  Expected<std::optional<double>> time(const AttentionKernel &kernel, const TunePoint &point,
                                       const TuneStep &step,
                                       const std::vector<uint8_t> &package) override;
  Error recover() override;

private:
  using Device = Handle<mla_device, mla_device_close>;
  using Engine = Handle<mla_engine, mla_engine_destroy>;
  using Plan = Handle<mla_plan, mla_plan_destroy>;
  Error makeEngine(mla_package *package, const TuneStep &step, Engine &engine);
  Error bindWeights(mla_engine *engine, const Object &info);
  Error fillCache(mla_engine *engine);
  Error fillSequences(mla_engine *engine, mla_plan *plan, const TuneStep &step,
                      llvm::StringRef filler);
  Expected<std::optional<double>> profile(mla_plan *plan, const AttentionKernel &kernel,
                                          int64_t numValues);

  std::string deviceName, name;
  RandomData random;
  std::unique_ptr<Device> device;
};
} // namespace

Error DeviceTimer::open() {
  device.reset(); // before another is opened
  device = std::make_unique<Device>();
  if (Error error = check(mla_device_open(deviceName.c_str(), 0, &device->handle),
                          "opening the device to tune on"))
    return error;
  const char *text = nullptr;
  if (Error error = check(mla_device_info(device->handle, &text), "asking for the device"))
    return error;
  Expected<llvm::json::Value> info = llvm::json::parse(text);
  if (!info)
    return info.takeError();
  name = info->getAsObject()->getString("name").value_or("unknown device").str();
  return Error::success();
}

/// A kernel that failed may have taken the device's context along.
Error DeviceTimer::recover() {
  if (Error error = open())
    return error;
  constexpr size_t kBytes = 1;
  void *memory = nullptr;
  if (Error error =
          check(mla_device_malloc(device->handle, kBytes, &memory), "asking the device for memory"))
    return error;
  return check(mla_device_free(device->handle, memory), "giving it back");
}

/// Tokens that a step plans at once to give a request its context.
static constexpr int64_t kFillTokens = 4096;

Error DeviceTimer::makeEngine(mla_package *package, const TuneStep &step, Engine &engine) {
  mla_engine_options sizes;
  mla_engine_options_init(&sizes);
  sizes.max_num_requests = step.countRequests();
  sizes.max_num_tokens = std::max(step.countTokens(), std::min(step.getLongest(), kFillTokens));
  sizes.max_seq_len = step.getLongest();
  return check(mla_engine_create(package, device->handle, &sizes, &engine.handle),
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
  if (Error error = check(mla_cache_get_stats(engine, 0, &stats), "asking for the cache"))
    return error;
  if (Error error = check(mla_cache_data(engine, 0, 0, &pool), "asking for the cache"))
    return error;
  size_t bytes = stats.num_pages * stats.page_stride_bytes;
  size_t block = std::min<size_t>(kBlockRows * stats.row_bytes, bytes);
  const uint16_t *data = random.get(block / sizeof(uint16_t));
  if (Error error =
          check(mla_device_upload(device->handle, pool, data, block), "filling the cache"))
    return error;
  for (size_t filled = block; filled < bytes; filled += block) {
    size_t count = std::min(block, bytes - filled);
    if (Error error =
            check(mla_device_copy_async(device->handle, static_cast<char *>(pool) + filled, pool,
                                        count, nullptr),
                  "filling the cache"))
      return error;
  }
  return Error::success();
}

static Error planTokens(mla_plan *plan, llvm::ArrayRef<mla_sequence> sequences,
                        llvm::ArrayRef<int32_t> tokens, llvm::StringRef function) {
  mla_batch batch{sizeof(mla_batch), static_cast<int64_t>(sequences.size()), sequences.data(),
                  tokens.data(), 0};
  return check(mla_step_plan(plan, &batch, function.str().c_str(), nullptr), "planning a step");
}

/// Plans `length` tokens of one request, or where the filler takes few of each, of
/// all; nothing of it is ever run.
static Error planContext(mla_plan *plan, llvm::ArrayRef<mla_sequence> sequences, int64_t length,
                         int64_t most, llvm::StringRef filler) {
  for (int64_t done = 0; done < length;) {
    int64_t piece = std::min(most, length - done);
    std::vector<int32_t> tokens(sequences.size(), static_cast<int32_t>(piece));
    if (Error error = planTokens(plan, sequences, tokens, filler))
      return error;
    done += piece;
  }
  return Error::success();
}

/// Gives every request its context, then plans the step.
Error DeviceTimer::fillSequences(mla_engine *engine, mla_plan *plan, const TuneStep &step,
                                 llvm::StringRef filler) {
  std::vector<mla_sequence> sequences;
  std::vector<int32_t> added;
  bool takesMany = filler != step.function || step.maxQueryLen == 0;
  int64_t piece = takesMany ? std::min(step.getLongest(), kFillTokens) : step.maxQueryLen;
  for (const TuneStep::Requests &each : step.requests) {
    size_t first = sequences.size();
    for (int64_t i = 0; i < each.count; ++i)
      if (Error error =
              check(mla_sequence_create(engine, &sequences.emplace_back()), "making a sequence"))
        return error;
    added.insert(added.end(), each.count, static_cast<int32_t>(each.added));
    llvm::ArrayRef<mla_sequence> same = llvm::ArrayRef(sequences).drop_front(first);
    for (size_t i = 0; takesMany && i < same.size(); ++i)
      if (Error error = planContext(plan, same[i], each.cached, piece, filler))
        return error;
    if (!takesMany)
      if (Error error = planContext(plan, same, each.cached, piece, filler))
        return error;
  }
  return planTokens(plan, sequences, added, step.function);
}

/// Microseconds of the kernel, and of the merge of its pieces.
static Expected<std::optional<double>> sumLaunches(const char *profile,
                                                   const AttentionKernel &kernel) {
  Expected<llvm::json::Value> launches = llvm::json::parse(profile);
  if (!launches)
    return launches.takeError();
  double own = 0, merges = 0;
  for (const llvm::json::Value &value : *launches->getAsArray()) {
    const Object &launch = *value.getAsObject();
    llvm::StringRef name = launch.getString("kernel").value_or("");
    double time = launch.getNumber("microseconds").value_or(0);
    if (name == kernel.name)
      own += time;
    if (kernel.isPaged() && name.starts_with("merge_"))
      merges += time;
  }
  return own > 0 ? std::optional(own + merges) : std::nullopt;
}

/// The median of several runs, behind some that warm up.
Expected<std::optional<double>> DeviceTimer::profile(mla_plan *plan, const AttentionKernel &kernel,
                                                     int64_t numValues) {
  constexpr int kWarmUps = 3, kRuns = 15;
  size_t bytes = numValues * sizeof(uint16_t);
  void *hidden = nullptr, *output = nullptr;
  llvm::scope_exit cleanUp([&] {
    (void)mla_device_free(device->handle, hidden);
    (void)mla_device_free(device->handle, output);
  });
  if (Error error = check(mla_device_malloc(device->handle, bytes, &hidden), "allocating inputs"))
    return error;
  if (Error error = check(mla_device_malloc(device->handle, bytes, &output), "allocating outputs"))
    return error;
  if (Error error = check(mla_device_upload(device->handle, hidden, random.get(numValues), bytes),
                          "copying the inputs"))
    return error;
  std::vector<double> times;
  for (int run = 0; run < kWarmUps + kRuns; ++run) {
    const char *text = nullptr;
    if (Error error =
            check(mla_step_profile(plan, 0, hidden, output, nullptr, &text),
                  "running a step from hidden states to output (--tune-timer=model takes modules "
                  "without them)"))
      return error;
    Expected<std::optional<double>> sum = sumLaunches(text, kernel);
    if (!sum || !*sum)
      return sum;
    if (run >= kWarmUps)
      times.push_back(**sum);
  }
  llvm::sort(times);
  return times[times.size() / 2];
}

/// The function that plans contexts fastest.
static std::string chooseFiller(const Object &info, const TuneStep &step) {
  std::string filler = step.function;
  for (const llvm::json::Value &target : *info.getArray("targets"))
    for (const llvm::json::Value &function : *target.getAsObject()->getArray("functions"))
      if (function.getAsObject()->getString("name") == "prefill")
        filler = "prefill";
  return filler;
}

Expected<std::optional<double>> DeviceTimer::time(const AttentionKernel &kernel, const TunePoint &,
                                                  const TuneStep &step,
                                                  const std::vector<uint8_t> &bytes) {
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
  if (Error error = makeEngine(package.handle, step, engine))
    return error;
  if (Error error = bindWeights(engine.handle, root))
    return error;
  if (Error error = fillCache(engine.handle))
    return error;
  if (Error error = check(mla_plan_create(engine.handle, &plan.handle), "making a plan"))
    return error;
  if (Error error = fillSequences(engine.handle, plan.handle, step, chooseFiller(root, step)))
    return error;
  int64_t hiddenSize = root.getObject("model")->getInteger("hidden_size").value_or(0);
  return profile(plan.handle, kernel, step.countTokens() * hiddenSize);
}

Expected<std::unique_ptr<TuneTimer>> mlac::createDeviceTimer(const TuneOptions &options) {
  auto timer = std::make_unique<DeviceTimer>(options.device);
  if (Error error = timer->open())
    return error;
  return timer;
}
