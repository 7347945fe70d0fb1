//===- TuneTimer.h - how long a kernel takes in a step ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_COMPILE_TUNETIMER_H
#define MLA_COMPILE_TUNETIMER_H

#include "mla/Conversion/TileToSm90/AttentionKernels.h"

#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace mlac {

struct TuneOptions {
  std::string timer = "device"; ///< or "model"
  std::string device = "cuda";
  std::string cachePath;
  int64_t batch = 64, context = 4096; ///< requests of decodes, and what each has cached
  int64_t prefill = 4096;             ///< new tokens of a prefill
  int64_t limit = 0;                  ///< points to measure in this run; 0: all
  bool isQuiet = false;
};

/// A step that a kernel is timed in.
struct TuneStep {
  struct Requests {
    int64_t count, cached, added;
  };
  std::string function;
  int64_t maxQueryLen = 0; ///< of the function; 0: any
  std::vector<Requests> requests;

  int64_t countRequests() const;
  int64_t countTokens() const;
  /// Of a request, with its new tokens.
  int64_t getLongest() const;
  /// "decode: 64 x (4096 + 1)".
  std::string describe() const;
};

/// The steps that may run `kernel`, best suited first: which one does is decided by
/// the package at run time.
std::vector<TuneStep> listSteps(const AttentionKernel &kernel, const TuneOptions &options);

/// One schedule of a kernel.
using TunePoint = std::variant<ScheduleCost, DenseScheduleCost>;
inline const ScheduleParameters &getParameters(const TunePoint &point) {
  return std::visit([](const auto &cost) -> const ScheduleParameters & { return cost.parameters; },
                    point);
}

class TuneTimer {
public:
  virtual ~TuneTimer() = default;
  /// For the key: whose times these are.
  virtual std::string getName() const = 0;
  /// Whether `time` needs the compiled package.
  virtual bool needsPackage() const = 0;
  /// Microseconds of `kernel` in one step, with the merge that follows it; nothing:
  /// the step does not launch it.
  virtual llvm::Expected<std::optional<double>> time(const AttentionKernel &kernel,
                                                     const TunePoint &point, const TuneStep &step,
                                                     const std::vector<uint8_t> &package) = 0;
  /// After an error of `time`: whether others can still be timed.
  virtual llvm::Error recover() { return llvm::Error::success(); }
};

/// Times steps on a device of the runtime ("cuda", "cuda:1"), which is opened here: an
/// error says what is missing.
llvm::Expected<std::unique_ptr<TuneTimer>> createDeviceTimer(const TuneOptions &options);
/// The cost model's prediction: for tests, and to see what tuning would try.
std::unique_ptr<TuneTimer> createModelTimer(const TargetDescription &target, int64_t heads);

} // namespace mlac

#endif // MLA_COMPILE_TUNETIMER_H
