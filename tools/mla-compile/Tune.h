//===- Tune.h - measures schedules and keeps the fastest ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The cost model's choice is near the best; which neighbour is the best depends
// on what the model does not know. Tuning compiles every point that
// enumerateSchedules names, times its decode step, and continues with the fastest.
//
// Times go to a cache file after every point, so a run that was stopped goes on
// where it was:
//
//   { "format": "mlac-tune-1",
//     "entries": { "<key>": { "<schedule and parameters>": microseconds or null } } }
//
// The key is the compiler's version, the options, the model's shape, the batch,
// the timer and its device: anything that may change a time. null is a point that
// did not compile.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_COMPILE_TUNE_H
#define MLA_COMPILE_TUNE_H

#include "mla/Analysis/ScheduleCost.h"
#include "mla/Pipelines/Compile.h"

#include "llvm/Support/Error.h"

#include <map>
#include <memory>

namespace mlac {

struct TuneOptions {
  std::string timer = "device"; ///< or "model"
  std::string device = "cuda";
  std::string cachePath;
  int64_t batch = 64, context = 4096;
  int64_t limit = 0; ///< points to measure in this run; 0: all
  bool isQuiet = false;
};

//===----------------------------------------------------------------------===//
// Timers
//===----------------------------------------------------------------------===//

/// How long a point takes.
class TuneTimer {
public:
  virtual ~TuneTimer() = default;
  /// For the key: whose times these are.
  virtual std::string getName() const = 0;
  /// Whether `time` needs the compiled package.
  virtual bool needsPackage() const = 0;
  /// Microseconds of the attention of one decode step.
  virtual llvm::Expected<double> time(const ScheduleCost &point,
                                      const std::vector<uint8_t> &package) = 0;
};

/// Times decode steps on a device of the runtime ("cuda", "cuda:1"), which is opened
/// here: an error says what is missing.
llvm::Expected<std::unique_ptr<TuneTimer>> createDeviceTimer(const TuneOptions &options);
/// The cost model's prediction: for tests, and to see what tuning would try.
std::unique_ptr<TuneTimer> createModelTimer(const AttentionProblem &problem,
                                            const TargetDescription &target,
                                            const TuneOptions &options);

//===----------------------------------------------------------------------===//
// Cache
//===----------------------------------------------------------------------===//

class TuneCache {
public:
  using Times = std::map<std::string, std::optional<double>>;

  /// A file that does not exist is an empty cache; one that is no cache is an
  /// error, and stays as it is.
  static llvm::Expected<TuneCache> load(const std::string &path);
  llvm::Error save() const;
  /// The times of one key, by point.
  Times &get(const std::string &key) { return entries[key]; }

private:
  std::string path;
  std::map<std::string, Times> entries;
};

//===----------------------------------------------------------------------===//
// Tuning
//===----------------------------------------------------------------------===//

/// The first point whose time is within noise of the least; `times` has one for
/// each point, nothing for points that did not compile. Nothing: none has a time.
std::optional<size_t> pickFastest(llvm::ArrayRef<std::optional<double>> times);

/// Sets schedule and parameters of `options` to the fastest.
llvm::Error tune(const LoadedModel &model, const TuneOptions &tuning, CompileOptions &options);

} // namespace mlac

#endif // MLA_COMPILE_TUNE_H
