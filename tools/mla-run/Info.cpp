//===- Info.cpp - what a package holds ---*- C++ -*-===//
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

#include "nlohmann/json.hpp"

#include <cstdio>

using namespace mlac::run;
using nlohmann::json;

static std::string text(const json &value) {
  return value.is_string() ? printable(value.get<std::string>()) : value.dump();
}

static void printTarget(const json &target) {
  std::printf("\ntarget %s %s", text(target.at("kind")).c_str(), text(target.at("arch")).c_str());
  if (!text(target.at("features")).empty())
    std::printf(" (%s)", text(target.at("features")).c_str());
  std::printf(", %.1f KB of code by %s\n", target.at("code_bytes").get<double>() / 1000,
              text(target.at("assembler")).c_str());
  bool isCpu = target.at("kind") == "cpu";
  std::printf("  %-44s %7s %9s %9s\n", "kernel", isCpu ? "" : "threads", isCpu ? "" : "shared B",
              isCpu ? "scratch B" : "registers");
  for (const json &kernel : target.at("kernels"))
    std::printf("  %-44s %7s %9s %9s\n", text(kernel.at("name")).c_str(),
                isCpu ? "" : text(kernel.at("threads")).c_str(),
                isCpu ? "" : text(kernel.at("shared_bytes")).c_str(),
                text(kernel.at(isCpu ? "scratch_bytes" : "registers")).c_str());
  std::printf("  %-44s %7s %9s %9s\n", "function", "", "launches", "max query");
  for (const json &function : target.at("functions")) {
    int64_t longest = function.at("max_query_len");
    std::printf("  %-44s %7s %9s %9s\n", text(function.at("name")).c_str(), "",
                text(function.at("launches")).c_str(),
                longest == 0 ? "any" : std::to_string(longest).c_str());
  }
}

static void printTensors(const char *title, const json &tensors) {
  if (!tensors.empty())
    std::printf("\n%s\n", title);
  for (const json &tensor : tensors)
    std::printf("  %-44s %s %s\n", text(tensor.at("name")).c_str(),
                text(tensor.at("dtype")).c_str(), tensor.at("shape").dump().c_str());
}

/// What may be bound in the place of matrices; nothing where they are bound as they are.
static std::string describeScales(const json &scales) {
  if (scales.is_null())
    return "";
  std::string codes = scales.at("codes"), strategy = scales.at("strategy");
  std::string text = ", matrices also as " + codes + " codes with a scale per " + strategy;
  if (strategy == "block")
    text += " of " + scales.at("block").at(0).dump() + " x " + scales.at("block").at(1).dump();
  return text;
}

/// A package without a layer of its own.
static void printKinds(const std::string &path, const json &info) {
  std::printf("%s: %.2f MB, schema %s, by %s\n", path.c_str(), info.at("bytes").get<double>() / 1e6,
              text(info.at("schema_version")).c_str(), text(info.at("compiler")).c_str());
  std::printf("options  %s\n", text(info.at("options")).c_str());
  for (const json &kind : info.at("kinds"))
    std::printf("kind     %s: %.2f MB, layers %s\n", text(kind.at("name")).c_str(),
                kind.at("bytes").get<double>() / 1e6, kind.at("layers").dump().c_str());
}

int mlac::run::runInfo(const std::vector<std::string> &words) {
  Arguments arguments(words, {kLayerOption, {"json", false}}, {"PACKAGE"});
  Package package;
  const std::string &path = arguments.positional(0);
  if (arguments.has(kLayerOption.name))
    package = openLayer(arguments);
  else
    check(mla_package_open(path.c_str(), package.out()), "opening the package");
  json info = readInfo(package);
  if (arguments.has("json")) {
    std::puts(printableJson(info, -1).c_str());
    return kPassed;
  }
  if (!info.at("kinds").empty()) {
    printKinds(path, info);
    return kPassed;
  }
  const json &model = info.at("model"), &cache = info.at("pools").at(0), &rope = info.at("rope");
  std::printf("%s: %.2f MB, schema %s, by %s\n", path.c_str(), info.at("bytes").get<double>() / 1e6,
              text(info.at("schema_version")).c_str(), text(info.at("compiler")).c_str());
  std::printf("options  %s\n", text(info.at("options")).c_str());
  std::printf("model    %s, hidden %s, %s heads on each of %s ranks, %s activations\n",
              text(model.at("model_type")).c_str(), text(model.at("hidden_size")).c_str(),
              text(model.at("num_heads")).c_str(), text(model.at("tensor_parallel")).c_str(),
              text(model.at("activation_dtype")).c_str());
  std::printf("         q rank %s, kv rank %s, head dims nope %s rope %s value %s, scale %s\n",
              text(model.at("q_lora_rank")).c_str(), text(model.at("kv_lora_rank")).c_str(),
              text(model.at("qk_nope_head_dim")).c_str(),
              text(model.at("qk_rope_head_dim")).c_str(), text(model.at("v_head_dim")).c_str(),
              text(model.at("softmax_scale")).c_str());
  std::printf("cache    %s, page size %s, %s bytes a token, %s rope, positions below %s\n",
              text(cache.at("format")).c_str(), text(cache.at("page_size")).c_str(),
              text(cache.at("row_bytes")).c_str(), text(cache.at("rope_order")).c_str(),
              text(rope.at("length")).c_str());
  for (size_t i = 1; i < info.at("pools").size(); ++i) {
    const json &pool = info.at("pools").at(i);
    std::printf("pool     %s: %s, page size %s, %s bytes a row of %s tokens, window %s\n",
                text(pool.at("name")).c_str(), text(pool.at("format")).c_str(),
                text(pool.at("page_size")).c_str(), text(pool.at("row_bytes")).c_str(),
                text(pool.at("tokens_per_row")).c_str(), text(pool.at("window")).c_str());
  }
  printTensors(("weights" + describeScales(info.at("weight_scales"))).c_str(), info.at("weights"));
  printTensors("derived when weights are bound", info.at("derived"));
  for (const json &target : info.at("targets"))
    printTarget(target);
  return kPassed;
}
