//===- ScheduleParameters.cpp - the schedules of attention and their knobs ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Analysis/ScheduleParameters.h"

#include "mla/Machine/Sm90Limits.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlac;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

StringRef mlac::getName(ScheduleKind kind) {
  constexpr StringRef kNames[] = {"simple", "relay", "stream", "pingpong"};
  return kNames[static_cast<size_t>(kind)];
}

StringRef mlac::getName(GateEdge edge) {
  constexpr StringRef kNames[] = {"none", "left", "right", "both"};
  return kNames[static_cast<size_t>(edge)];
}

StringRef mlac::getName(IssuePoint point) {
  constexpr StringRef kNames[] = {"before-softmax", "after-exp", "after-store"};
  return kNames[static_cast<size_t>(point)];
}

template <typename Enum>
static std::optional<Enum> parseName(llvm::ArrayRef<Enum> values, StringRef name) {
  const Enum *found = llvm::find_if(values, [&](Enum value) { return getName(value) == name; });
  return found == values.end() ? std::nullopt : std::optional<Enum>(*found);
}

std::optional<ScheduleKind> mlac::parseScheduleKind(StringRef name) {
  if (auto paged = parseName<ScheduleKind>(kPagedScheduleKinds, name))
    return paged;
  return parseName<ScheduleKind>(kDenseScheduleKinds, name);
}
std::optional<GateEdge> mlac::parseGateEdge(StringRef name) {
  return parseName<GateEdge>(kAllGateEdges, name);
}
std::optional<IssuePoint> mlac::parseIssuePoint(StringRef name) {
  return parseName<IssuePoint>(kAllIssuePoints, name);
}

static std::string formatNumber(double number) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%g", number);
  return text;
}

std::vector<std::string> ScheduleParameters::list() const {
  std::vector<std::string> items;
  auto add = [&](StringRef key, const llvm::Twine &value) {
    items.push_back((key + "=" + value).str());
  };
  if (kind == ScheduleKind::Relay) {
    add("left-stages", llvm::Twine(leftStages));
    add("right-stages", llvm::Twine(rightStages));
    if (ropeStages)
      add("rope-stages", llvm::Twine(ropeStages));
    add("gate", getName(gate));
    add("early", llvm::Twine(early));
    add("issue", getName(issue));
    std::string numbers;
    llvm::raw_string_ostream stream(numbers);
    llvm::interleave(registers, stream, "/");
    add("registers", numbers);
    if (stepsPerTurn)
      add("steps-per-turn", llvm::Twine(stepsPerTurn));
  }
  if (kind == ScheduleKind::Stream) {
    add("stages", llvm::Twine(stages));
    if (partColumns)
      add("part-columns", llvm::Twine(partColumns));
  }
  if (kind == ScheduleKind::PingPong) {
    add("key-block", llvm::Twine(keyBlock));
    add("key-stages", llvm::Twine(keyStages));
  }
  if (kind != ScheduleKind::Simple)
    add("lazy-threshold", formatNumber(lazyThreshold));
  return items;
}

std::string ScheduleParameters::describe() const {
  std::string text = getName(kind).str();
  for (const std::string &item : list())
    text += " " + item;
  return text;
}

//===----------------------------------------------------------------------===//
// Requests
//===----------------------------------------------------------------------===//

namespace {
/// One key: how its text is taken, and who has it.
struct Option {
  StringRef key, values, meaning;
  unsigned kinds; // bits by ScheduleKind
  bool (*take)(ScheduleRequest &request, StringRef value);
  bool (*isSet)(const ScheduleRequest &request);
  void (*clear)(ScheduleRequest &request);
};
} // namespace

/// No ring has more blocks than fit at the least: 16 keys of one panel. What fits of a
/// kernel's blocks is checked where it is planned, without overflow below this.
static constexpr int64_t kMostStages =
    mlir::sm90::kMaxSharedBytes / (kKeyBlockMultiple * mlir::sm90::kPanelRowBytes);
static_assert(kMostStages == 113, "the texts below name it");

template <std::optional<int64_t> ScheduleRequest::*field, int64_t least, int64_t most>
static bool takeInteger(ScheduleRequest &request, StringRef value) {
  int64_t number;
  if (value.getAsInteger(10, number) || number < least || number > most)
    return false;
  request.*field = number;
  return true;
}

template <auto field> static bool hasField(const ScheduleRequest &request) {
  return (request.*field).has_value();
}
template <auto field> static void clearField(ScheduleRequest &request) { (request.*field).reset(); }

static bool takePartColumns(ScheduleRequest &request, StringRef value) {
  // All columns of a block of 64 keys that fits.
  constexpr int64_t kPanelColumns = 64, kMost = 28 * kPanelColumns;
  static_assert(mlir::sm90::kMaxSharedBytes / (64 * mlir::sm90::kPanelRowBytes) == 28);
  return takeInteger<&ScheduleRequest::partColumns, 1, kMost>(request, value) &&
         *request.partColumns % kPanelColumns == 0;
}

static bool takeKeyBlock(ScheduleRequest &request, StringRef value) {
  return takeInteger<&ScheduleRequest::keyBlock, kKeyBlockMultiple, kMaxKeyBlock>(request, value) &&
         *request.keyBlock % kKeyBlockMultiple == 0;
}

static bool takeSteps(ScheduleRequest &request, StringRef value) {
  return takeInteger<&ScheduleRequest::stepsPerTurn, 1, 2>(request, value);
}

static bool takeGate(ScheduleRequest &request, StringRef value) {
  request.gate = parseGateEdge(value);
  return request.gate.has_value();
}

static bool takeIssue(ScheduleRequest &request, StringRef value) {
  request.issue = parseIssuePoint(value);
  return request.issue.has_value();
}

static bool takeThreshold(ScheduleRequest &request, StringRef value) {
  double number;
  if (value.getAsDouble(number) || !(number >= 0 && number <= kMaxLazyThreshold))
    return false;
  request.lazyThreshold = number;
  return true;
}

static bool takeRegisters(ScheduleRequest &request, StringRef value) {
  llvm::SmallVector<int64_t, 3> numbers;
  for (StringRef part : llvm::split(value, '/')) {
    int64_t number;
    if (part.getAsInteger(10, number) || number < 1)
      return false;
    numbers.push_back(number);
  }
  if (numbers.size() != 3)
    return false;
  request.registers = numbers;
  return true;
}

static constexpr unsigned bit(ScheduleKind kind) { return 1u << static_cast<unsigned>(kind); }
static constexpr unsigned kRelay = bit(ScheduleKind::Relay), kStream = bit(ScheduleKind::Stream),
                          kPingPong = bit(ScheduleKind::PingPong);

static constexpr Option kOptions[] = {
    {"left-stages", "an integer from 1 to 113", "blocks in the ring of the left values (relay)",
     kRelay, takeInteger<&ScheduleRequest::leftStages, 1, kMostStages>,
     hasField<&ScheduleRequest::leftStages>, clearField<&ScheduleRequest::leftStages>},
    {"right-stages", "an integer from 1 to 113", "blocks in the ring of the right values (relay)",
     kRelay, takeInteger<&ScheduleRequest::rightStages, 1, kMostStages>,
     hasField<&ScheduleRequest::rightStages>, clearField<&ScheduleRequest::rightStages>},
    {"rope-stages", "an integer from 1 to 113", "blocks in the ring of rope keys (relay)", kRelay,
     takeInteger<&ScheduleRequest::ropeStages, 1, kMostStages>,
     hasField<&ScheduleRequest::ropeStages>, clearField<&ScheduleRequest::ropeStages>},
    {"gate", "none, left, right or both", "what waits so that the next scores come first (relay)",
     kRelay, takeGate, hasField<&ScheduleRequest::gate>, clearField<&ScheduleRequest::gate>},
    {"early", "an integer from 0 to 113",
     "panels of scores that the gate does not wait for (relay)", kRelay,
     takeInteger<&ScheduleRequest::early, 0, kMostStages>, hasField<&ScheduleRequest::early>,
     clearField<&ScheduleRequest::early>},
    {"issue", "before-softmax, after-exp or after-store",
     "where the next block's scores begin (relay)", kRelay, takeIssue,
     hasField<&ScheduleRequest::issue>, clearField<&ScheduleRequest::issue>},
    {"registers", "three numbers as 168/168/168", "per thread of each warpgroup (relay)", kRelay,
     takeRegisters, hasField<&ScheduleRequest::registers>, clearField<&ScheduleRequest::registers>},
    {"steps-per-turn", "1 or 2", "blocks in one turn of the scores' loop (relay)", kRelay,
     takeSteps, hasField<&ScheduleRequest::stepsPerTurn>,
     clearField<&ScheduleRequest::stepsPerTurn>},
    {"lazy-threshold", "a number from 0 to 15", "log2 of how far the row maximum may lag",
     kRelay | kStream | kPingPong, takeThreshold, hasField<&ScheduleRequest::lazyThreshold>,
     clearField<&ScheduleRequest::lazyThreshold>},
    {"stages", "an integer from 1 to 113", "blocks in the ring (stream)", kStream,
     takeInteger<&ScheduleRequest::stages, 1, kMostStages>, hasField<&ScheduleRequest::stages>,
     clearField<&ScheduleRequest::stages>},
    {"part-columns", "a multiple of 64 from 64 to 1792",
     "columns of keys that one barrier announces (stream)", kStream, takePartColumns,
     hasField<&ScheduleRequest::partColumns>, clearField<&ScheduleRequest::partColumns>},
    {"key-block", "a multiple of 16 from 16 to 256", "keys of one block (pingpong)", kPingPong,
     takeKeyBlock, hasField<&ScheduleRequest::keyBlock>, clearField<&ScheduleRequest::keyBlock>},
    {"key-stages", "an integer from 1 to 113", "blocks in the rings of keys and values (pingpong)",
     kPingPong, takeInteger<&ScheduleRequest::keyStages, 1, kMostStages>,
     hasField<&ScheduleRequest::keyStages>, clearField<&ScheduleRequest::keyStages>},
};

bool ScheduleRequest::set(StringRef text, std::string &error) {
  auto [key, value] = text.split('=');
  for (const Option &option : kOptions) {
    if (option.key != key)
      continue;
    if (option.take(*this, value))
      return true;
    error = (key + ": expected " + option.values + ", got '" + value + "'").str();
    return false;
  }
  error = "no schedule option '" + key.str() + "'; there are";
  for (const Option &option : kOptions)
    error += " " + option.key.str();
  return false;
}

bool ScheduleRequest::setKind(StringRef name, std::string &error) {
  kind = parseScheduleKind(name);
  if (kind || name == "auto")
    return true;
  error = "expected auto, simple, relay, stream or pingpong, got '" + name.str() + "'";
  return false;
}

StringRef ScheduleRequest::findForeignKey(ScheduleKind kind) const {
  for (const Option &option : kOptions)
    if (option.isSet(*this) && !(option.kinds & bit(kind)))
      return option.key;
  return "";
}

ScheduleRequest ScheduleRequest::filter(llvm::ArrayRef<ScheduleKind> kinds) const {
  ScheduleRequest result = *this;
  if (kind && !llvm::is_contained(kinds, *kind))
    result.kind.reset();
  unsigned own = 0;
  for (ScheduleKind each : kinds)
    own |= bit(each);
  for (const Option &option : kOptions)
    if (!(option.kinds & own))
      option.clear(result);
  return result;
}

std::optional<KernelRequest> mlac::parseKernelRequest(StringRef text, std::string &error) {
  auto [kernel, rest] = text.split(':');
  auto [kind, options] = rest.split(':');
  if (kernel.empty() || kind.empty()) {
    error = "expected kernel:kind:key=value:..., got '" + text.str() + "'";
    return std::nullopt;
  }
  KernelRequest result;
  result.kernel = kernel.str();
  if (!result.request.setKind(kind, error))
    return std::nullopt;
  llvm::SmallVector<StringRef> items;
  options.split(items, ':', -1, /*KeepEmpty=*/false);
  for (StringRef item : items)
    if (!result.request.set(item, error))
      return std::nullopt;
  return result;
}

std::string mlac::formatKernelRequest(StringRef kernel, const ScheduleParameters &parameters) {
  std::string text = (kernel + ":" + getName(parameters.kind)).str();
  for (const std::string &item : parameters.list())
    text += ":" + item;
  return text;
}

std::string mlac::describeScheduleOptions() {
  std::string text;
  llvm::raw_string_ostream stream(text);
  for (const Option &option : kOptions)
    stream << "  " << llvm::left_justify(option.key, 16) << option.meaning << ": " << option.values
           << "\n";
  return text;
}
