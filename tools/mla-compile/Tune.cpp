//===- Tune.cpp - measures schedules and keeps the fastest ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tune.h"

#include "TuneCache.h"

#include "mla/Analysis/ScheduleModel.h"
#include "mla/Package/ModelDescription.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>

using namespace mlac;
using llvm::Expected;

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

//===----------------------------------------------------------------------===//
// Progress
//===----------------------------------------------------------------------===//

namespace {
/// Lines on standard error: a bar on a terminal, a line per point everywhere.
class Progress {
public:
  explicit Progress(bool isQuiet) : isQuiet(isQuiet) {}

  void expect(size_t points) { numLeft = points; }
  size_t countMeasured() const { return numMeasured; }
  /// Points that are not measured after all.
  void drop(size_t points) { numLeft -= std::min(points, numLeft); }
  void begin(const std::string &what);
  /// `result`: a time or why there is none.
  void end(const std::string &what, const std::string &result);
  void say(const std::string &line);

private:
  using Clock = std::chrono::steady_clock;
  void clear() {
    if (isTerminal)
      llvm::errs() << "\r\033[K";
  }
  /// At the pace so far.
  double estimateLeft() const { return numMeasured ? seconds / numMeasured * numLeft : 0; }

  bool isQuiet, isTerminal = llvm::sys::Process::StandardErrIsDisplayed();
  size_t numLeft = 0, numMeasured = 0;
  double seconds = 0;
  Clock::time_point started;
};
} // namespace

void Progress::begin(const std::string &what) {
  started = Clock::now();
  if (isQuiet || !isTerminal)
    return;
  constexpr size_t kWidth = 30;
  size_t filled = numMeasured * kWidth / (numMeasured + std::max<size_t>(1, numLeft));
  clear();
  llvm::errs() << "[" << std::string(filled, '#') << std::string(kWidth - filled, '.') << "] ";
  if (numMeasured)
    llvm::errs() << llvm::format("%.0f s left, ", estimateLeft());
  llvm::errs() << what;
}

/// A point's result stays on its line.
static std::string joinLines(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef> lines;
  text.split(lines, '\n', -1, /*KeepEmpty=*/false);
  return llvm::join(lines, " ");
}

void Progress::end(const std::string &what, const std::string &result) {
  double last = std::chrono::duration<double>(Clock::now() - started).count();
  seconds += last;
  ++numMeasured;
  drop(1);
  if (isQuiet)
    return;
  clear();
  llvm::errs() << what << ": " << joinLines(result)
               << llvm::format(" (took %.1f s, about %.0f s left)\n", last, estimateLeft());
}

void Progress::say(const std::string &line) {
  if (!isQuiet)
    llvm::errs() << line << "\n";
}

//===----------------------------------------------------------------------===//
// One kernel
//===----------------------------------------------------------------------===//

namespace {
/// A kernel, what may become of it, and what is known.
struct Subject {
  AttentionKernel kernel;
  std::vector<TunePoint> points;
  /// Those that may run it; one, once that is known; none, if none does.
  std::vector<TuneStep> steps;
  /// Of the cache, once the step is known.
  TuneCache::Times *times = nullptr;
  /// Points that failed before it was.
  std::vector<std::string> failed;
  size_t numMeasured = 0;

  bool isKnown(const TunePoint &point) const {
    return times && times->count(getParameters(point).describe());
  }
  size_t countUnknown() const {
    return llvm::count_if(points, [&](const TunePoint &point) { return !isKnown(point); });
  }
};

class Tuner {
public:
  Tuner(mlir::ModuleOp module, const TuneOptions &tuning, const CompileOptions &base)
      : module(module), tuning(tuning), base(base), progress(tuning.isQuiet) {}
  llvm::Error run(CompileOptions &result);

private:
  llvm::Error prepare();
  llvm::Error openTimer(const TargetDescription &machine);
  Expected<ScheduleRequest> readRequest(const std::string &kernel) const;
  llvm::Error addSubject(AttentionKernel kernel);
  std::string makeKey(const AttentionKernel &kernel, const TuneStep &step) const;
  CompileOptions apply(const CompileOptions &options, const AttentionKernel &kernel,
                       const TunePoint &point) const;
  /// Times a point in the subject's step, which the first one finds.
  Expected<double> measure(Subject &subject, const TunePoint &point);
  Expected<std::vector<uint8_t>> compile(const Subject &subject, const TunePoint &point);
  Expected<double> findStep(Subject &subject, const TunePoint &point,
                            const std::vector<uint8_t> &package);
  void useStep(Subject &subject, TuneStep step);
  llvm::Error record(Subject &subject, const TunePoint &point, std::optional<double> time);
  llvm::Error measureAll(Subject &subject);
  /// The options with the subject's fastest point.
  CompileOptions finish(const Subject &subject, const CompileOptions &options);
  bool isDone() const {
    return isLost || (tuning.limit && progress.countMeasured() == size_t(tuning.limit));
  }

  mlir::ModuleOp module;
  const TuneOptions &tuning;
  CompileOptions base;
  std::vector<Subject> subjects;
  std::unique_ptr<TuneTimer> timer;
  std::optional<TuneCache> cache;
  Progress progress;
  bool isLost = false; ///< the device, after an error
};
} // namespace

//===----------------------------------------------------------------------===//
// What there is to measure
//===----------------------------------------------------------------------===//

/// What the command line asks of the kernel.
Expected<ScheduleRequest> Tuner::readRequest(const std::string &kernel) const {
  std::string error;
  ScheduleRequest request;
  for (const std::string &text : base.kernelSchedules) {
    std::optional<KernelRequest> named = parseKernelRequest(text, error);
    if (!named)
      return llvm::createStringError(error);
    if (named->kernel == kernel)
      return named->request;
  }
  if (!request.setKind(base.schedule, error))
    return llvm::createStringError(error);
  for (const std::string &option : base.scheduleOptions)
    if (!request.set(option, error))
      return llvm::createStringError(error);
  return request;
}

llvm::Error Tuner::addSubject(AttentionKernel kernel) {
  Expected<ScheduleRequest> request = readRequest(kernel.name);
  if (!request)
    return request.takeError();
  Subject subject;
  std::string error;
  if (const auto *paged = std::get_if<AttentionProblem>(&kernel.problem))
    llvm::append_range(subject.points, enumerateSchedules(*paged, kernel.machine,
                                                          request->filter(getPagedScheduleKinds()),
                                                          error, kernel.objections));
  else
    llvm::append_range(subject.points,
                       enumerateDenseSchedules(
                           std::get<DenseAttentionProblem>(kernel.problem), kernel.machine,
                           request->filter(getDenseScheduleKinds()), error, kernel.objections));
  if (subject.points.empty())
    return llvm::createStringError("kernel '" + kernel.name + "': no schedule: " + error);
  subject.steps = listSteps(kernel, tuning);
  subject.kernel = std::move(kernel);
  for (const TuneStep &step : subject.steps)
    if (cache->contains(makeKey(subject.kernel, step))) {
      useStep(subject, TuneStep(step));
      break;
    }
  subjects.push_back(std::move(subject));
  return llvm::Error::success();
}

llvm::Error Tuner::openTimer(const TargetDescription &machine) {
  if (tuning.timer == "model") {
    package::PackageT package;
    if (failed(describeModel(module, package)))
      return llvm::createStringError("the model cannot be described");
    timer = createModelTimer(machine, package.model->num_heads);
    return llvm::Error::success();
  }
  Expected<std::unique_ptr<TuneTimer>> device = createDeviceTimer(tuning);
  if (!device)
    return device.takeError();
  timer = std::move(*device);
  return llvm::Error::success();
}

llvm::Error Tuner::prepare() {
  base.costReport = nullptr;
  base.kernels = std::make_shared<KernelCache>();
  mlir::FailureOr<std::vector<AttentionKernel>> kernels =
      listAttentionKernels(module, base.targets.front(), base);
  if (failed(kernels))
    return llvm::createStringError("the model does not compile");
  if (kernels->empty())
    return llvm::createStringError("the model has no attention kernel that could be tuned");
  if (llvm::Error error = openTimer(kernels->front().machine))
    return error;
  Expected<TuneCache> loaded = TuneCache::load(tuning.cachePath);
  if (!loaded)
    return loaded.takeError();
  cache = std::move(*loaded);
  size_t numUnknown = 0;
  for (AttentionKernel &kernel : *kernels) {
    if (llvm::Error error = addSubject(std::move(kernel)))
      return error;
    numUnknown += subjects.back().countUnknown();
  }
  progress.expect(tuning.limit ? std::min<size_t>(tuning.limit, numUnknown) : numUnknown);
  return llvm::Error::success();
}

static std::string describe(const AttentionProblem &problem) {
  return (llvm::Twine("rows ") + llvm::Twine(problem.rows()) +
          (problem.areRowsBounded ? "" : " or more") + ", rank " + llvm::Twine(problem.kvLoraRank) +
          ", rope " + llvm::Twine(problem.ropeDim) + ", page " + llvm::Twine(problem.pageSize))
      .str();
}

static std::string describe(const DenseAttentionProblem &problem) {
  std::string text = "keys of";
  for (int64_t width : problem.keyWidths)
    text += " " + std::to_string(width);
  return text + ", values of " + std::to_string(problem.valueWidth);
}

/// Everything that a time depends on.
std::string Tuner::makeKey(const AttentionKernel &kernel, const TuneStep &step) const {
  std::string problem = std::visit([](const auto &each) { return describe(each); }, kernel.problem);
  return getCompilerVersion() + "; " + describeOptions(module, base) + "; " + kernel.name + ": " +
         problem + "; " + step.describe() + "; " + timer->getName();
}

//===----------------------------------------------------------------------===//
// Measuring
//===----------------------------------------------------------------------===//

CompileOptions Tuner::apply(const CompileOptions &options, const AttentionKernel &kernel,
                            const TunePoint &point) const {
  CompileOptions result = options;
  llvm::erase_if(result.kernelSchedules,
                 [&](llvm::StringRef text) { return text.split(':').first == kernel.name; });
  result.kernelSchedules.push_back(formatKernelRequest(kernel.name, getParameters(point)));
  return result;
}

/// An error is what the compiler said first (spills, say).
Expected<std::vector<uint8_t>> Tuner::compile(const Subject &subject, const TunePoint &point) {
  if (!timer->needsPackage())
    return std::vector<uint8_t>();
  std::string why;
  mlir::ScopedDiagnosticHandler listen(module.getContext(), [&](mlir::Diagnostic &diagnostic) {
    if (why.empty() && diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
      why = diagnostic.str();
    return mlir::success();
  });
  StageTimer stages;
  mlir::FailureOr<std::vector<uint8_t>> package =
      compilePackage(module, apply(base, subject.kernel, point), stages);
  if (mlir::failed(package))
    return llvm::createStringError("does not compile: " + why);
  return std::move(*package);
}

void Tuner::useStep(Subject &subject, TuneStep step) {
  subject.times = &cache->get(makeKey(subject.kernel, step));
  subject.steps = {std::move(step)};
  for (const std::string &point : subject.failed)
    (*subject.times)[point] = std::nullopt;
}

Expected<double> Tuner::findStep(Subject &subject, const TunePoint &point,
                                 const std::vector<uint8_t> &package) {
  for (const TuneStep &step : subject.steps) {
    Expected<std::optional<double>> time = timer->time(subject.kernel, point, step, package);
    if (!time)
      return time.takeError();
    if (!*time)
      continue;
    useStep(subject, TuneStep(step));
    return **time;
  }
  std::string names;
  for (const TuneStep &step : subject.steps)
    names += (names.empty() ? "" : "; ") + step.describe();
  subject.steps.clear(); // nor will other points be
  return llvm::createStringError("is launched in none of the steps " + names);
}

Expected<double> Tuner::measure(Subject &subject, const TunePoint &point) {
  Expected<std::vector<uint8_t>> package = compile(subject, point);
  if (!package)
    return package.takeError();
  Expected<double> time = findStep(subject, point, *package);
  if (time)
    return time;
  std::string why = llvm::toString(time.takeError());
  if (llvm::Error lost = timer->recover()) {
    isLost = true;
    why += "; nothing can be measured any more: " + llvm::toString(std::move(lost));
  }
  return llvm::createStringError(why);
}

llvm::Error Tuner::record(Subject &subject, const TunePoint &point, std::optional<double> time) {
  std::string name = getParameters(point).describe();
  if (!subject.times) {
    subject.failed.push_back(name);
    return llvm::Error::success();
  }
  (*subject.times)[name] = time;
  return cache->save();
}

llvm::Error Tuner::measureAll(Subject &subject) {
  for (auto [index, point] : llvm::enumerate(subject.points)) {
    if (isDone() || subject.steps.empty())
      break;
    if (subject.isKnown(point))
      continue;
    std::string what = ("tune " + subject.kernel.name + " " + llvm::Twine(index + 1) + "/" +
                        llvm::Twine(subject.points.size()) + " " + getParameters(point).describe())
                           .str();
    progress.begin(what);
    Expected<double> time = measure(subject, point);
    std::optional<double> known;
    if (time)
      known = *time;
    ++subject.numMeasured;
    progress.end(what,
                 time ? llvm::formatv("{0:F2} us", *time).str() : llvm::toString(time.takeError()));
    if (llvm::Error error = record(subject, point, known))
      return error;
  }
  progress.drop(subject.countUnknown());
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Choosing
//===----------------------------------------------------------------------===//

CompileOptions Tuner::finish(const Subject &subject, const CompileOptions &options) {
  std::vector<std::optional<double>> inOrder;
  size_t numFailed = subject.times ? 0 : subject.failed.size();
  for (const TunePoint &point : subject.points) {
    inOrder.emplace_back();
    if (!subject.isKnown(point))
      continue;
    inOrder.back() = subject.times->at(getParameters(point).describe());
    numFailed += !inOrder.back();
  }
  std::string counts;
  llvm::raw_string_ostream(counts)
      << "; " << subject.numMeasured << " measured now, "
      << llvm::count_if(inOrder, [](const auto &time) { return time.has_value(); }) << " of "
      << subject.points.size() << " known, " << numFailed << " failed";
  std::optional<size_t> fastest = pickFastest(inOrder);
  if (!fastest) {
    progress.say(subject.kernel.name + ": no time, keeps the cost model's choice" + counts);
    return options;
  }
  const TunePoint &point = subject.points[*fastest];
  std::string line;
  llvm::raw_string_ostream stream(line);
  stream << subject.kernel.name << " tuned by " << timer->getName() << " in "
         << subject.steps.front().describe() << ": " << getParameters(point).describe()
         << llvm::format(", %.2f us", *inOrder[*fastest]);
  if (*fastest != 0 && inOrder[0])
    stream << llvm::format(" (the cost model's choice %.2f us)", *inOrder[0]);
  progress.say(line + counts);
  return apply(options, subject.kernel, point);
}

llvm::Error Tuner::run(CompileOptions &result) {
  if (llvm::Error error = prepare())
    return error;
  result.kernels = base.kernels;
  for (Subject &subject : subjects) {
    if (llvm::Error error = measureAll(subject))
      return error;
    result = finish(subject, result);
  }
  return llvm::Error::success();
}

llvm::Error mlac::tune(mlir::ModuleOp module, const TuneOptions &tuning, CompileOptions &options) {
  return Tuner(module, tuning, options).run(options);
}
