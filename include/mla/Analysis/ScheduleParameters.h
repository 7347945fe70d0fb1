//===- ScheduleParameters.h - what schedules can be told ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A parameter has a key, values that it takes, and a meaning; each schedule lists its own
// (ScheduleModel.h). Options, reports, tuning and help read these lists. What was chosen travels as
// the kernel's attribute `tile.schedule` (mla/Dialect/Tile/IR/ScheduleAttrs.td).
//
//===----------------------------------------------------------------------===//

#ifndef MLA_ANALYSIS_SCHEDULEPARAMETERS_H
#define MLA_ANALYSIS_SCHEDULEPARAMETERS_H

#include "mla/Machine/Sm90Limits.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cassert>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace mlac {

/// A line of Schedules.def.
enum class ScheduleKind {
#define MLAC_SCHEDULE(name, option, summary) name,
#include "mla/Analysis/Schedules.def"
};
constexpr ScheduleKind kAllScheduleKinds[] = {
#define MLAC_SCHEDULE(name, option, summary) ScheduleKind::name,
#include "mla/Analysis/Schedules.def"
};
llvm::StringRef getName(ScheduleKind kind);
std::optional<ScheduleKind> parseScheduleKind(llvm::StringRef name);

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

/// What a parameter is set to: a number, the place of a name among its names, or one number for
/// each warpgroup. Doubles hold every integer that a parameter takes.
using ParameterValue = llvm::SmallVector<double, 3>;

struct ScheduleParameter {
  enum class Type { Integer, Number, Name, Warpgroups };
  llvm::StringLiteral key, meaning;
  Type type;
  double least = 0, most = 0; ///< of an integer or a number
  int64_t multiple = 1;       ///< of an integer
  llvm::ArrayRef<llvm::StringLiteral> names = {};

  /// Nothing: the text is not among the values.
  std::optional<ParameterValue> parse(llvm::StringRef text) const;
  std::string format(const ParameterValue &value) const;
  /// "an integer from 1 to 113".
  std::string describeValues() const;
};

/// One whose values are of type T: int64_t, double, an enum in the order of its names, or a list.
template <typename T> struct Parameter : ScheduleParameter {};
using WarpgroupNumbers = llvm::SmallVector<int64_t, 3>;

constexpr Parameter<int64_t> makeInteger(llvm::StringLiteral key, llvm::StringLiteral meaning,
                                         int64_t least, int64_t most, int64_t multiple = 1) {
  return {{key, meaning, ScheduleParameter::Type::Integer, static_cast<double>(least),
           static_cast<double>(most), multiple}};
}
template <typename Enum, size_t count>
constexpr Parameter<Enum> makeName(llvm::StringLiteral key, llvm::StringLiteral meaning,
                                   const llvm::StringLiteral (&names)[count]) {
  return {{key, meaning, ScheduleParameter::Type::Name, 0, 0, 1, names}};
}

/// Values of some parameters.
class ParameterValues {
public:
  template <typename T> std::optional<T> get(const Parameter<T> &parameter) const {
    const ParameterValue *value = find(parameter);
    if (!value)
      return std::nullopt;
    if constexpr (std::is_same_v<T, WarpgroupNumbers>)
      return T(value->begin(), value->end());
    else if constexpr (std::is_enum_v<T>)
      return static_cast<T>(static_cast<int>(value->front()));
    else
      return static_cast<T>(value->front());
  }
  template <typename T> void set(const Parameter<T> &parameter, T value) {
    if constexpr (std::is_same_v<T, WarpgroupNumbers>)
      values[parameter.key] = ParameterValue(value.begin(), value.end());
    else
      values[parameter.key] = {static_cast<double>(value)};
  }
  /// Sets what is not set: forced parameters keep their values.
  template <typename T> void propose(const Parameter<T> &parameter, T value) {
    if (!find(parameter))
      set(parameter, value);
  }
  const ParameterValue *find(const ScheduleParameter &parameter) const {
    auto found = values.find(parameter.key);
    return found == values.end() ? nullptr : &found->second;
  }

protected:
  std::map<llvm::StringRef, ParameterValue> values; // by keys of parameters, which are literals
};

/// No ring has more blocks than fit at the least: 16 keys of one panel. What fits of a
/// kernel's blocks is checked where it is planned, without overflow below this.
constexpr int64_t kMostStages =
    mlir::sm90::kMaxSharedBytes / (mlir::sm90::kWgmmaDepth * mlir::sm90::kPanelRowBytes);

/// The maximum that numerators refer to moves only if the new one is more than
/// 2^threshold larger. Measured: 8 gains 5 to 7% over 0 (docs/lab/decode.md).
/// Numerators reach 2^threshold; 2^15 is the largest power of two that f16 holds.
inline constexpr Parameter<double> kLazyThreshold = {{"lazy-threshold",
                                                      "log2 of how far the row maximum may lag",
                                                      ScheduleParameter::Type::Number, 0, 15}};
constexpr double kUsualLazyThreshold = 8;

/// Parameters of a schedule, chosen or forced.
struct ScheduleParameters : ParameterValues {
  ScheduleKind kind = ScheduleKind::Simple;

  /// "left-stages=3", "right-stages=2", ...: as ScheduleRequest::set takes them.
  std::vector<std::string> list() const;
  /// "relay left-stages=3 right-stages=2 ...".
  std::string describe() const;
};

//===----------------------------------------------------------------------===//
// Requests
//===----------------------------------------------------------------------===//

/// What a user forces; empty: the cost model's choice.
struct ScheduleRequest : ParameterValues {
  std::optional<ScheduleKind> kind;

  using ParameterValues::set;
  /// Takes one `key=value`. False: `error` names what was given and expected.
  bool set(llvm::StringRef option, std::string &error);
  /// Takes "auto" or a kind.
  bool setKind(llvm::StringRef name, std::string &error);
  /// The first forced key that schedules of this kind do not have, or "".
  llvm::StringRef findForeignKey(ScheduleKind kind) const;
  /// What of it concerns kernels that `kinds` are for: a kind that is not among them
  /// and keys that none of them has are for other kernels.
  ScheduleRequest filter(llvm::ArrayRef<ScheduleKind> kinds) const;
};

/// A request for one kernel alone, as text "kernel:kind:key=value:...".
struct KernelRequest {
  std::string kernel;
  ScheduleRequest request;
};
/// Whether a text is that of a kernel, or key=value for all.
inline bool isKernelRequest(llvm::StringRef text) { return text.split('=').first.contains(':'); }
/// Nothing: `error` names what was given and expected.
std::optional<KernelRequest> parseKernelRequest(llvm::StringRef text, std::string &error);
/// The text that asks for exactly these parameters.
std::string formatKernelRequest(llvm::StringRef kernel, const ScheduleParameters &parameters);

/// "simple, relay or stream": what a kind may be, with `last` before the last one.
std::string listScheduleNames(llvm::StringRef last = " or ");
/// Lines "  key  meaning (schedules): values" for the help texts of tools.
std::string describeScheduleOptions();

} // namespace mlac

#endif // MLA_ANALYSIS_SCHEDULEPARAMETERS_H
