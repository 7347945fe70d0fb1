//===- Replay.cpp - runs a recorded step again ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Api.h"
#include "Arguments.h"
#include "Commands.h"
#include "LayerKind.h"
#include "Printable.h"

#include <algorithm>
#include <cstdio>

using namespace mlac::run;
using nlohmann::json;

static std::string text(const json &value) { return printable(value.get<std::string>()); }

static void printLaunches(const json &launches) {
  bool isFirst = true;
  for (const json &launch : launches) {
    auto bad = launch.at("nan").get<int64_t>();
    std::printf("  %-48s grid %-16s", text(launch.at("kernel")).c_str(),
                launch.at("grid").dump().c_str());
    if (bad > 0)
      std::printf("%ld NaN%s", static_cast<long>(bad), isFirst ? ": the first" : "");
    std::printf("\n");
    isFirst &= bad == 0;
  }
}

static void printOutput(const json &output) {
  const json &different = output.at("different");
  const char *verdict = different.is_null() ? "not recorded"
                        : different         ? "differs from the recorded one"
                                            : "as it was recorded";
  std::printf("  output %s: %s of %s elements are NaN, %s\n", text(output.at("name")).c_str(),
              output.at("nan").dump().c_str(), output.at("elements").dump().c_str(), verdict);
}

int mlac::run::runReplay(const std::vector<std::string> &words) {
  Arguments arguments(words, {kLayerOption, {"device", true}, {"json", false}},
                      {"PACKAGE", "RECORDING"});
  Package package = openLayer(arguments);
  Device device;
  check(mla_device_open(arguments.get("device", "cpu").c_str(), 0, device.out()),
        "opening the device");
  const char *content = nullptr;
  check(mla_step_replay(package.get(), device.get(), arguments.positional(1).c_str(), &content),
        "replaying");
  json result = json::parse(content);
  const json &outputs = result.at("outputs");
  bool isSound = std::all_of(outputs.begin(), outputs.end(), [](const json &output) {
    return output.at("nan") == 0 && output.at("different") == false;
  });
  if (arguments.has("json")) {
    std::puts(printableJson(result, 2).c_str());
    return isSound ? kPassed : kCheckFailed;
  }
  std::printf("layer %s of function %s for %s\n  recorded because: %s\n",
              text(result.at("layer")).c_str(), text(result.at("function")).c_str(),
              text(result.at("target")).c_str(), text(result.at("reason")).c_str());
  printLaunches(result.at("launches"));
  for (const json &output : outputs)
    printOutput(output);
  return isSound ? kPassed : kCheckFailed;
}
