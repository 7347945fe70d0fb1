//===- Tune.cpp - measures schedules and keeps the fastest ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tune.h"

#include "mla/Package/PackageFile.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace mlac;
using llvm::Expected;

static constexpr llvm::StringLiteral kFormat = "mlac-tune-1";

//===----------------------------------------------------------------------===//
// Cache
//===----------------------------------------------------------------------===//

static llvm::Error refuseCache(const std::string &path, const llvm::Twine &why) {
  return llvm::createStringError("'" + path + "' is no cache of tuning: " + why +
                                 "; remove it, or name another with --tune-cache");
}

/// One entry: numbers, or null.
static bool readTimes(const llvm::json::Object &object, TuneCache::Times &times) {
  for (const auto &[point, value] : object) {
    std::optional<double> number = value.getAsNumber();
    if (!number && !value.getAsNull())
      return false;
    if (number && !(*number > 0))
      return false;
    times[point.str()] = number;
  }
  return true;
}

Expected<TuneCache> TuneCache::load(const std::string &path) {
  TuneCache cache;
  cache.path = path;
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file) {
    if (file.getError() == std::errc::no_such_file_or_directory)
      return cache;
    return refuseCache(path, file.getError().message());
  }
  Expected<llvm::json::Value> value = llvm::json::parse((*file)->getBuffer());
  if (!value)
    return refuseCache(path, llvm::toString(value.takeError()));
  const llvm::json::Object *object = value->getAsObject();
  if (!object || object->getString("format") != kFormat || !object->getObject("entries"))
    return refuseCache(path, "expected the format '" + kFormat + "'");
  for (const auto &[key, entry] : *object->getObject("entries")) {
    const llvm::json::Object *times = entry.getAsObject();
    if (!times || !readTimes(*times, cache.entries[key.str()]))
      return refuseCache(path, "times of '" + key.str() + "' are not numbers above 0 or null");
  }
  return cache;
}

llvm::Error TuneCache::save() const {
  llvm::json::Object object;
  for (const auto &[key, times] : entries) {
    llvm::json::Object points;
    for (const auto &[point, time] : times)
      points[point] = time ? llvm::json::Value(*time) : llvm::json::Value(nullptr);
    object[key] = std::move(points);
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << llvm::formatv("{0:2}\n", llvm::json::Value(llvm::json::Object{
                                         {"format", kFormat}, {"entries", std::move(object)}}));
  return writeFileAtomically(
      path, llvm::ArrayRef(reinterpret_cast<const uint8_t *>(text.data()), text.size()));
}

//===----------------------------------------------------------------------===//
// Timer of the model
//===----------------------------------------------------------------------===//

namespace {
class ModelTimer : public TuneTimer {
public:
  ModelTimer(const AttentionProblem &problem, const TargetDescription &target,
             const TuneOptions &options)
      : problem(problem), target(target), options(options) {}
  std::string getName() const override { return "model of " + target.name.str(); }
  bool needsPackage() const override { return false; }
  Expected<double> time(const ScheduleCost &point, const std::vector<uint8_t> &) override {
    return predictMicroseconds(problem, target, point, options.batch, options.context + 1);
  }

private:
  AttentionProblem problem;
  TargetDescription target;
  TuneOptions options;
};
} // namespace

std::unique_ptr<TuneTimer> mlac::createModelTimer(const AttentionProblem &problem,
                                                  const TargetDescription &target,
                                                  const TuneOptions &options) {
  return std::make_unique<ModelTimer>(problem, target, options);
}

//===----------------------------------------------------------------------===//
// Tuning
//===----------------------------------------------------------------------===//

std::optional<size_t> mlac::pickFastest(llvm::ArrayRef<std::optional<double>> times) {
  // Medians of one kernel under two names differ by 0.1 to 0.2% in one run
  // (docs/performance.md); either may be off.
  constexpr double kNoise = 0.004;
  std::optional<double> least;
  for (const std::optional<double> &time : times)
    if (time && (!least || *time < *least))
      least = time;
  for (auto [index, time] : llvm::enumerate(times))
    if (time && *time <= *least * (1 + kNoise))
      return index;
  return std::nullopt;
}

namespace {
class Tuner {
public:
  Tuner(const LoadedModel &model, const TuneOptions &tuning, const CompileOptions &base)
      : model(model), tuning(tuning), base(base) {}
  llvm::Error run(CompileOptions &result);

private:
  llvm::Error prepare();
  llvm::Error readProblem();
  std::string makeKey() const;
  CompileOptions apply(const ScheduleCost &point) const;
  Expected<std::optional<double>> measure(const ScheduleCost &point);
  llvm::Error measureAll();
  void show(size_t done, const std::string &point);
  llvm::Error finish(CompileOptions &result);

  const LoadedModel &model;
  const TuneOptions &tuning;
  const CompileOptions &base;
  AttentionProblem problem;
  const TargetDescription &target = getScheduledMachine();
  std::vector<ScheduleCost> points;
  std::unique_ptr<TuneTimer> timer;
  std::optional<TuneCache> cache;
  TuneCache::Times *times = nullptr;
  size_t numMeasured = 0;
};
} // namespace

llvm::Error Tuner::readProblem() {
  package::PackageT package;
  if (failed(describePackage(model, base, package)))
    return llvm::createStringError("the model cannot be described");
  problem.rowsPerToken = package.model->num_heads;
  problem.kvLoraRank = package.model->kv_lora_rank;
  problem.ropeDim = package.model->qk_rope_head_dim;
  problem.pageSize = package.cache->page_size;
  return llvm::Error::success();
}

/// Everything that a time depends on.
std::string Tuner::makeKey() const {
  std::string key;
  llvm::raw_string_ostream stream(key);
  stream << getCompilerVersion() << "; " << describeOptions(base) << "; heads "
         << problem.rowsPerToken << ", rank " << problem.kvLoraRank << ", rope " << problem.ropeDim
         << ", page " << problem.pageSize << "; batch " << tuning.batch << ", context "
         << tuning.context << "; " << timer->getName();
  return key;
}

llvm::Error Tuner::prepare() {
  if (llvm::Error error = readProblem())
    return error;
  ScheduleRequest request;
  std::string error;
  if (!request.setKind(base.schedule, error))
    return llvm::createStringError(error);
  for (const std::string &option : base.scheduleOptions)
    if (!request.set(option, error))
      return llvm::createStringError(error);
  points = enumerateSchedules(problem, target, request.filter(kPagedScheduleKinds), error);
  if (points.empty())
    return llvm::createStringError("no schedule: " + error);
  if (tuning.timer == "model") {
    timer = createModelTimer(problem, target, tuning);
  } else {
    Expected<std::unique_ptr<TuneTimer>> device = createDeviceTimer(tuning);
    if (!device)
      return device.takeError();
    timer = std::move(*device);
  }
  Expected<TuneCache> loaded = TuneCache::load(tuning.cachePath);
  if (!loaded)
    return loaded.takeError();
  cache = std::move(*loaded);
  times = &cache->get(makeKey());
  return llvm::Error::success();
}

CompileOptions Tuner::apply(const ScheduleCost &point) const {
  CompileOptions options = base;
  options.schedule = getName(point.parameters.kind).str();
  options.scheduleOptions = point.parameters.list();
  return options;
}

/// Nothing: the point does not compile (spills, say). Its diagnostics are dropped.
Expected<std::optional<double>> Tuner::measure(const ScheduleCost &point) {
  std::vector<uint8_t> bytes;
  if (timer->needsPackage()) {
    mlir::ScopedDiagnosticHandler silence(model.module.get().getContext(),
                                          [](mlir::Diagnostic &) { return mlir::success(); });
    StageTimer stages;
    mlir::FailureOr<std::vector<uint8_t>> package = compilePackage(model, apply(point), stages);
    if (mlir::failed(package))
      return std::nullopt;
    bytes = std::move(*package);
  }
  Expected<double> time = timer->time(point, bytes);
  if (!time)
    return time.takeError();
  return std::optional<double>(*time);
}

/// A bar on a terminal, a line per point elsewhere.
void Tuner::show(size_t done, const std::string &point) {
  if (tuning.isQuiet)
    return;
  constexpr size_t kWidth = 30;
  size_t filled = points.empty() ? 0 : done * kWidth / points.size();
  bool isTerminal = llvm::sys::Process::StandardErrIsDisplayed();
  llvm::raw_ostream &os = llvm::errs();
  if (isTerminal)
    os << "\r\033[K[" << std::string(filled, '#') << std::string(kWidth - filled, '.') << "] ";
  os << "tune " << done << "/" << points.size() << " " << point << (isTerminal ? "" : "\n");
}

llvm::Error Tuner::measureAll() {
  for (auto [index, point] : llvm::enumerate(points)) {
    std::string name = point.parameters.describe();
    if (times->count(name))
      continue;
    if (tuning.limit && numMeasured == static_cast<size_t>(tuning.limit))
      break;
    show(index, name);
    Expected<std::optional<double>> time = measure(point);
    if (!time)
      return time.takeError();
    ++numMeasured;
    (*times)[name] = *time;
    if (llvm::Error error = cache->save())
      return error;
  }
  return llvm::Error::success();
}

llvm::Error Tuner::finish(CompileOptions &result) {
  std::vector<std::optional<double>> inOrder;
  size_t numFailed = 0;
  for (const ScheduleCost &point : points) {
    auto found = times->find(point.parameters.describe());
    inOrder.push_back(found == times->end() ? std::nullopt : found->second);
    numFailed += found != times->end() && !found->second;
  }
  std::optional<size_t> fastest = pickFastest(inOrder);
  if (!fastest)
    return llvm::createStringError("none of the " + llvm::Twine(points.size()) +
                                   " schedules compiles");
  show(points.size(), "");
  if (llvm::sys::Process::StandardErrIsDisplayed() && !tuning.isQuiet)
    llvm::errs() << "\r\033[K";
  size_t numKnown = llvm::count_if(inOrder, [](const auto &time) { return time.has_value(); });
  if (!tuning.isQuiet) {
    llvm::errs() << "tuned by " << timer->getName() << ": "
                 << points[*fastest].parameters.describe()
                 << llvm::format(", %.2f us", *inOrder[*fastest]);
    if (*fastest != 0 && inOrder[0])
      llvm::errs() << llvm::format(" (the cost model's choice %.2f us)", *inOrder[0]);
    llvm::errs() << "; " << numMeasured << " measured now, " << numKnown << " of " << points.size()
                 << " known, " << numFailed << " do not compile\n";
  }
  result = apply(points[*fastest]);
  return llvm::Error::success();
}

llvm::Error Tuner::run(CompileOptions &result) {
  if (llvm::Error error = prepare())
    return error;
  if (llvm::Error error = measureAll())
    return error;
  return finish(result);
}

llvm::Error mlac::tune(const LoadedModel &model, const TuneOptions &tuning,
                       CompileOptions &options) {
  CompileOptions base = options;
  return Tuner(model, tuning, base).run(options);
}
