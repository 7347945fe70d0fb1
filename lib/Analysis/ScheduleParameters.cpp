//===- ScheduleParameters.cpp - what schedules can be told ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Analysis/ScheduleParameters.h"

#include "mla/Analysis/ScheduleModel.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlac;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

StringRef mlac::getName(ScheduleKind kind) {
  constexpr llvm::StringLiteral kNames[] = {
#define MLAC_SCHEDULE(name, option, summary) option,
#include "mla/Analysis/Schedules.def"
  };
  return kNames[static_cast<size_t>(kind)];
}

std::optional<ScheduleKind> mlac::parseScheduleKind(StringRef name) {
  const ScheduleKind *found =
      llvm::find_if(kAllScheduleKinds, [&](ScheduleKind kind) { return getName(kind) == name; });
  return found == std::end(kAllScheduleKinds) ? std::nullopt : std::optional(*found);
}

/// "a, b or c".
template <typename Range> static std::string enumerateNames(const Range &names, StringRef last) {
  std::string text;
  size_t left = std::size(names);
  for (StringRef name : names)
    text += (name + (--left == 0 ? "" : left == 1 ? last : ", ")).str();
  return text;
}

std::string mlac::listScheduleNames(StringRef last) {
  return enumerateNames(
      llvm::map_to_vector(kAllScheduleKinds, [](ScheduleKind kind) { return getName(kind); }),
      last);
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

static std::string formatNumber(double number) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%g", number);
  return text;
}

/// One number for each warpgroup: "168/168/168".
static std::optional<ParameterValue> parseWarpgroups(StringRef text) {
  constexpr size_t kWarpgroups = 3;
  ParameterValue numbers;
  for (StringRef part : llvm::split(text, '/')) {
    int64_t number;
    if (part.getAsInteger(10, number) || number < 1)
      return std::nullopt;
    numbers.push_back(static_cast<double>(number));
  }
  return numbers.size() == kWarpgroups ? std::optional(numbers) : std::nullopt;
}

std::optional<ParameterValue> ScheduleParameter::parse(StringRef text) const {
  int64_t integer;
  double number;
  switch (type) {
  case Type::Integer:
    if (text.getAsInteger(10, integer) || integer < static_cast<int64_t>(least) ||
        integer > static_cast<int64_t>(most) || integer % multiple != 0)
      return std::nullopt;
    return ParameterValue{static_cast<double>(integer)};
  case Type::Number:
    if (text.getAsDouble(number) || !(number >= least && number <= most))
      return std::nullopt;
    return ParameterValue{number};
  case Type::Name: {
    const llvm::StringLiteral *found = llvm::find(names, text);
    if (found == names.end())
      return std::nullopt;
    return ParameterValue{static_cast<double>(found - names.begin())};
  }
  case Type::Warpgroups:
    return parseWarpgroups(text);
  }
  llvm_unreachable("unknown type of a parameter");
}

std::string ScheduleParameter::format(const ParameterValue &value) const {
  if (type == Type::Name)
    return names[static_cast<size_t>(value.front())].str();
  return llvm::join(llvm::map_range(value, formatNumber), "/");
}

std::string ScheduleParameter::describeValues() const {
  std::string range = formatNumber(least) + " to " + formatNumber(most);
  switch (type) {
  case Type::Integer:
    if (most == least + 1)
      return formatNumber(least) + " or " + formatNumber(most);
    return (multiple == 1 ? "an integer" : "a multiple of " + std::to_string(multiple)) + " from " +
           range;
  case Type::Number:
    return "a number from " + range;
  case Type::Name:
    return enumerateNames(names, " or ");
  case Type::Warpgroups:
    return "three numbers as 168/168/168";
  }
  llvm_unreachable("unknown type of a parameter");
}

/// Of all schedules, each once.
static llvm::ArrayRef<const ScheduleParameter *> getAllParameters() {
  static const auto all = [] {
    llvm::SetVector<const ScheduleParameter *> parameters;
    for (ScheduleKind kind : kAllScheduleKinds)
      parameters.insert_range(getModel(kind).parameters);
    return parameters.takeVector();
  }();
  return all;
}

static bool hasParameter(ScheduleKind kind, const ScheduleParameter *parameter) {
  return llvm::is_contained(getModel(kind).parameters, parameter);
}

std::vector<std::string> ScheduleParameters::list() const {
  std::vector<std::string> items;
  for (const ScheduleParameter *parameter : getModel(kind).parameters)
    if (const ParameterValue *value = find(*parameter))
      items.push_back(parameter->key.str() + "=" + parameter->format(*value));
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

bool ScheduleRequest::set(StringRef text, std::string &error) {
  auto [key, value] = text.split('=');
  for (const ScheduleParameter *parameter : getAllParameters()) {
    if (parameter->key != key)
      continue;
    std::optional<ParameterValue> taken = parameter->parse(value);
    if (taken)
      values[parameter->key] = *taken;
    else
      error = (key + ": expected " + parameter->describeValues() + ", got '" + value + "'").str();
    return taken.has_value();
  }
  error = "no schedule option '" + key.str() + "'; there are";
  for (const ScheduleParameter *parameter : getAllParameters())
    error += " " + parameter->key.str();
  return false;
}

bool ScheduleRequest::setKind(StringRef name, std::string &error) {
  kind = parseScheduleKind(name);
  if (kind || name == "auto")
    return true;
  error = "expected auto, " + listScheduleNames() + ", got '" + name.str() + "'";
  return false;
}

StringRef ScheduleRequest::findForeignKey(ScheduleKind kind) const {
  for (const ScheduleParameter *parameter : getAllParameters())
    if (find(*parameter) && !hasParameter(kind, parameter))
      return parameter->key;
  return "";
}

ScheduleRequest ScheduleRequest::filter(llvm::ArrayRef<ScheduleKind> kinds) const {
  ScheduleRequest result = *this;
  if (kind && !llvm::is_contained(kinds, *kind))
    result.kind.reset();
  for (const ScheduleParameter *parameter : getAllParameters())
    if (llvm::none_of(kinds, [&](ScheduleKind each) { return hasParameter(each, parameter); }))
      result.values.erase(parameter->key);
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
  for (const ScheduleParameter *parameter : getAllParameters()) {
    llvm::SmallVector<StringRef> schedules;
    for (ScheduleKind kind : kAllScheduleKinds)
      if (hasParameter(kind, parameter))
        schedules.push_back(getName(kind));
    stream << "  " << llvm::left_justify(parameter->key, 16) << parameter->meaning << " ("
           << enumerateNames(schedules, ", ") << "): " << parameter->describeValues() << "\n";
  }
  return text;
}
