//===- QuantizationConfig.cpp - how a checkpoint's weights are quantised ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "QuantizationConfig.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/GlobPattern.h"
#include "llvm/Support/Regex.h"

#include <functional>
#include <memory>
#include <utility>

using namespace mlac;
using nlohmann::json;

/// Upper limit of a block's extents: that of a matrix's (ModelConfig.cpp).
static constexpr int64_t kMaxBlock = int64_t(1) << 20;

/// An error at a key whose value no weights can be bound for.
static void refuse(const ConfigReader &reader, llvm::StringRef key, llvm::StringRef what,
                   llvm::StringRef expected) {
  reader.error(key, llvm::formatv("{0}, expected {1}; the option dequantised-weights takes the "
                                  "configuration for weights that are bound in the activations' "
                                  "type",
                                  what, expected)
                        .str());
}

/// Whether the string under `key` is one of `known`; an error otherwise.
static bool requireOneOf(const ConfigReader &reader, llvm::StringRef key, llvm::StringRef what,
                         llvm::ArrayRef<llvm::StringRef> known) {
  const json *value = reader.find(key);
  if (value && value->is_string() && llvm::is_contained(known, value->get<std::string>()))
    return true;
  std::vector<std::string> quoted;
  for (llvm::StringRef name : known)
    quoted.push_back(("\"" + name + "\"").str());
  refuse(reader, key, what, llvm::join(quoted, " or "));
  return false;
}

/// The same of a key that may be absent.
static bool allowOneOf(const ConfigReader &reader, llvm::StringRef key, llvm::StringRef what,
                       llvm::ArrayRef<llvm::StringRef> known) {
  return !reader.find(key) || requireOneOf(reader, key, what, known);
}

static constexpr WeightScales kTensor{0, 0}, kChannel{1, 0}, kFourGroup{1, 16};

//===----------------------------------------------------------------------===//
// Excluded modules
//===----------------------------------------------------------------------===//

/// Whether `part` is `name` or whole components of it ("self_attn" of "layers.0.self_attn").
static bool hasComponents(llvm::StringRef name, llvm::StringRef part) {
  for (size_t at = name.find(part); !part.empty() && at != llvm::StringRef::npos;
       at = name.find(part, at + 1)) {
    bool begins = at == 0 || name[at - 1] == '.';
    size_t end = at + part.size();
    if (begins && (end == name.size() || name[end] == '.'))
      return true;
  }
  return false;
}

/// Python's regular expression as an extended one: classes of characters by a letter, groups that
/// are not captured and repetitions that are as short as can be. Empty: it has something else.
static std::string toExtendedRegex(llvm::StringRef pattern) {
  std::string text;
  bool isInBrackets = false, isRepeated = false;
  while (!pattern.empty()) {
    char next = pattern.front();
    bool wasRepeated = std::exchange(isRepeated, false);
    if (next == '\\' && pattern.size() > 1 && llvm::isAlnum(pattern[1])) {
      llvm::StringRef known = llvm::StringSwitch<llvm::StringRef>(pattern.take_front(2))
                                  .Case("\\d", "[:digit:]")
                                  .Case("\\w", "[:alnum:]_")
                                  .Case("\\s", "[:space:]")
                                  .Default("");
      if (known.empty())
        return "";
      text += isInBrackets ? known.str() : ("[" + known + "]").str();
      pattern = pattern.drop_front(2);
      continue;
    }
    if (next == '\\') {
      text += pattern.take_front(2);
      pattern = pattern.drop_front(std::min<size_t>(pattern.size(), 2));
      continue;
    }
    pattern = pattern.drop_front();
    if (isInBrackets) {
      isInBrackets = next != ']';
    } else if (next == '?' && wasRepeated) {
      continue;
    } else {
      isInBrackets = next == '[';
      isRepeated = llvm::is_contained({'*', '+', '?', '}'}, next);
      if (next == '(')
        pattern.consume_front("?:");
    }
    text += next;
  }
  return text;
}

using Matcher = std::function<bool(llvm::StringRef)>;

/// Patterns are "re:" and a regular expression from the name's beginning, globs, or names. One
/// that cannot be read matches nothing: its modules then count as quantised.
static Matcher makeMatcher(llvm::StringRef pattern) {
  if (pattern.consume_front("re:")) {
    std::string extended = toExtendedRegex(pattern);
    if (extended.empty())
      return [](llvm::StringRef) { return false; };
    auto regex = std::make_shared<llvm::Regex>("^(" + extended + ")");
    return [regex](llvm::StringRef name) { return regex->match(name); };
  }
  if (!pattern.contains('*'))
    return [part = pattern.str()](llvm::StringRef name) { return hasComponents(name, part); };
  auto text = std::make_shared<std::string>(pattern.str()); // a glob refers to it
  llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(*text);
  // Of a module that holds the projection, too: "model.layers.*.self_attn".
  if (glob)
    return [text, glob = std::move(*glob)](llvm::StringRef name) {
      for (; !name.empty(); name = name.contains('.') ? name.rsplit('.').first : "")
        if (glob.match(name))
          return true;
      return false;
    };
  llvm::consumeError(glob.takeError());
  return [](llvm::StringRef) { return false; };
}

static std::vector<Matcher> listExcluded(const ConfigReader &quantization) {
  std::vector<Matcher> matchers;
  for (llvm::StringRef key : {"ignore", "modules_to_not_convert", "exclude_modules", "exclude",
                              "ignored_layers", "llm_int8_skip_modules"})
    if (const json *list = quantization.find(key); list && list->is_array())
      for (const json &pattern : *list)
        if (pattern.is_string())
          matchers.push_back(makeMatcher(pattern.get_ref<const std::string &>()));
  return matchers;
}

/// Where layers are, also of a model that is a part of a whole one.
static constexpr llvm::StringLiteral kPlacesOfLayers[] = {
    "model.layers.", "language_model.model.layers.", "model.language_model.layers.",
    "language.model.layers."};

static llvm::SmallVector<llvm::StringRef, 5> listProjections(const ModelConfig &config) {
  if (config.grouped)
    return {"q_proj", "k_proj", "v_proj", "o_proj"};
  if (config.sharedKeys)
    return {"q_a_proj", "q_b_proj", "kv_proj", "o_a_proj", "o_b_proj"};
  if (config.qLoraRank)
    return {"q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"};
  return {"q_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"};
}

/// Whether no projection of the model's attention is quantised.
static bool isAttentionExcluded(const ConfigReader &quantization, const ModelConfig &config) {
  std::vector<Matcher> matchers = listExcluded(quantization);
  if (matchers.empty())
    return false;
  llvm::SmallVector<llvm::StringRef, 5> projections = listProjections(config);
  auto isExcluded = [&](int64_t layer, llvm::StringRef projection) {
    return llvm::any_of(kPlacesOfLayers, [&](llvm::StringRef place) {
      std::string name = llvm::formatv("{0}{1}.self_attn.{2}", place, layer, projection).str();
      return llvm::any_of(matchers, [&](const Matcher &matches) { return matches(name); });
    });
  };
  for (int64_t layer = 0; layer < config.numLayers; ++layer)
    if (!llvm::all_of(projections,
                      [&](llvm::StringRef projection) { return isExcluded(layer, projection); }))
      return false;
  return true;
}

/// Whether a group's target may be a projection of the attention. Classes of modules ("Linear") and
/// patterns that cannot be read may be.
static bool mayBeAttention(llvm::StringRef target, const ModelConfig &config) {
  llvm::StringRef pattern = target;
  bool isPattern = pattern.consume_front("re:");
  if (isPattern) {
    std::string extended = toExtendedRegex(pattern);
    if (extended.empty() || !llvm::Regex(extended).isValid())
      return true;
  }
  if ((!isPattern && !target.contains('.')) || target.contains("attn"))
    return true;
  Matcher matches = makeMatcher(target);
  for (int64_t layer = 0; layer < config.numLayers; ++layer)
    for (llvm::StringRef projection : listProjections(config))
      if (llvm::any_of(kPlacesOfLayers, [&](llvm::StringRef place) {
            return matches(llvm::formatv("{0}{1}.self_attn.{2}", place, layer, projection).str());
          }))
        return true;
  return false;
}

/// Whether all groups say which modules they are of, and the attention is none of them.
static bool isAttentionNoTarget(const ConfigReader &quantization, const ModelConfig &config) {
  const json *groups = quantization.find("config_groups");
  if (!groups || !groups->is_object() || groups->empty())
    return false;
  return llvm::all_of(*groups, [&](const json &group) {
    if (!group.is_object() || !group.contains("targets"))
      return false;
    const json &targets = group.at("targets");
    return targets.is_array() && !targets.empty() && llvm::all_of(targets, [&](const json &target) {
             return target.is_string() &&
                    !mayBeAttention(target.get_ref<const std::string &>(), config);
           });
  });
}

//===----------------------------------------------------------------------===//
// Methods
//===----------------------------------------------------------------------===//

static std::optional<WeightScales> readFp8(const ConfigReader &quantization) {
  constexpr llvm::StringLiteral kBlock = "weight_block_size";
  bool isKnown =
      allowOneOf(quantization, "fmt", "codes of this format are not supported", {"e4m3"});
  isKnown &=
      allowOneOf(quantization, "activation_scheme",
                 "this scheme of quantised activations is not supported", {"dynamic", "static"});
  if (!isKnown)
    return std::nullopt;
  if (!quantization.find(kBlock))
    return kTensor;
  std::vector<int64_t> block = quantization.integers(kBlock, 2, 1, kMaxBlock);
  return block.empty() ? std::nullopt : std::optional(WeightScales{block[0], block[1]});
}

/// "128x128" or [128, 128].
static std::optional<WeightScales> readBlockStructure(const ConfigReader &weights) {
  constexpr llvm::StringLiteral kKey = "block_structure";
  const json *value = weights.find(kKey);
  WeightScales block;
  if (value && value->is_string()) {
    std::string given = value->get<std::string>();
    auto [rows, columns] = llvm::StringRef(given).split('x');
    if (llvm::to_integer(rows, block.rows) && llvm::to_integer(columns, block.columns) &&
        block.rows >= 1 && block.rows <= kMaxBlock && block.columns >= 1 &&
        block.columns <= kMaxBlock)
      return block;
  } else if (value) {
    std::vector<int64_t> list = weights.integers(kKey, 2, 1, kMaxBlock);
    return list.empty() ? std::nullopt : std::optional(WeightScales{list[0], list[1]});
  }
  weights.error(kKey, "expected the rows and columns of a block, as \"128x128\"");
  return std::nullopt;
}

/// Whether `numbers` are floating-point numbers of eight bits.
static bool requireFloat8(const ConfigReader &numbers, llvm::StringRef what) {
  constexpr int64_t kBits = 8;
  if (!requireOneOf(numbers, "type", what, {"float"}))
    return false;
  if (numbers.find("num_bits") && *numbers.find("num_bits") == kBits)
    return true;
  refuse(numbers, "num_bits", what, llvm::Twine(kBits).str());
  return false;
}

static std::optional<WeightScales> readGroup(const ConfigReader &group) {
  std::optional<ConfigReader> weights = group.child("weights");
  if (!weights) {
    if (!group.find("weights"))
      refuse(group, "weights", "weights without a type are not supported", "an object");
    return std::nullopt;
  }
  if (!requireFloat8(*weights, "weights of this type are not supported"))
    return std::nullopt;
  if (std::optional<ConfigReader> activations = group.child("input_activations");
      activations && !requireFloat8(*activations, "activations of this type are not supported"))
    return std::nullopt;
  for (auto [key, expected] : {std::pair("symmetric", true), std::pair("dynamic", false)})
    if (weights->boolean(key).value_or(expected) != expected) {
      refuse(*weights, key, "weights quantised so are not supported", expected ? "true" : "false");
      return std::nullopt;
    }
  if (!requireOneOf(*weights, "strategy", "this strategy of weights is not supported",
                    {"tensor", "channel", "block"}))
    return std::nullopt;
  std::string strategy = *weights->string("strategy");
  if (strategy == "block")
    return readBlockStructure(*weights);
  return strategy == "tensor" ? kTensor : kChannel;
}

static std::optional<WeightScales> readCompressedTensors(const ConfigReader &quantization) {
  if (!allowOneOf(quantization, "format", "weights stored in this format are not supported",
                  {"float-quantized", "naive-quantized"}))
    return std::nullopt;
  if (std::optional<ConfigReader> sparsity = quantization.child("sparsity_config");
      sparsity && !allowOneOf(*sparsity, "format", "sparse weights are not supported", {"dense"}))
    return std::nullopt;
  constexpr llvm::StringLiteral kGroups = "config_groups";
  std::optional<ConfigReader> groups = quantization.child(kGroups);
  std::optional<WeightScales> first;
  for (const std::string &name : groups ? groups->keys() : std::vector<std::string>()) {
    std::optional<ConfigReader> group = groups->child(name);
    std::optional<WeightScales> scales = group ? readGroup(*group) : std::nullopt;
    if (!scales)
      return std::nullopt;
    if (first && *first != *scales) {
      refuse(*groups, name, "groups of different strategies are not supported", "one strategy");
      return std::nullopt;
    }
    first = scales;
  }
  if (!first && !quantization.find(kGroups))
    refuse(quantization, kGroups, "weights without a group are not supported", "an object");
  else if (!first && groups)
    refuse(quantization, kGroups, "weights without a group are not supported", "a group");
  return first;
}

static std::optional<WeightScales> readModelOpt(const ConfigReader &quantization) {
  constexpr llvm::StringLiteral kKey = "quant_algo", kPerTensor = "FP8",
                                kPerChannel = "FP8_PER_CHANNEL_PER_TOKEN", kFours = "NVFP4",
                                kGroup = "group_size";
  if (!requireOneOf(quantization, kKey, "weights of this algorithm are not supported",
                    {kPerTensor, kPerChannel, kFours}))
    return std::nullopt;
  std::string algorithm = *quantization.string(kKey);
  if (algorithm != kFours)
    return algorithm == kPerTensor ? kTensor : kChannel;
  if (quantization.find(kGroup) && *quantization.find(kGroup) != kFourGroup.columns) {
    refuse(quantization, kGroup, "numbers of four bits in these groups are not supported",
           llvm::Twine(kFourGroup.columns).str());
    return std::nullopt;
  }
  return kFourGroup;
}

static std::optional<WeightScales> readFbgemm(const ConfigReader &) { return kChannel; }

namespace {
struct Method {
  llvm::StringLiteral name;
  std::optional<WeightScales> (*read)(const ConfigReader &);
};
} // namespace

static constexpr Method kMethods[] = {{"fp8", readFp8},
                                      {"compressed-tensors", readCompressedTensors},
                                      {"fbgemm_fp8", readFbgemm},
                                      {"modelopt", readModelOpt}};

void mlac::readQuantization(const ConfigReader &root, ModelConfig &config) {
  constexpr llvm::StringLiteral kMethod = "quant_method";
  std::optional<ConfigReader> quantization = root.child("quantization_config");
  if (!quantization || isAttentionExcluded(*quantization, config) ||
      isAttentionNoTarget(*quantization, config))
    return;
  llvm::SmallVector<llvm::StringRef, std::size(kMethods)> names;
  for (const Method &method : kMethods)
    names.push_back(method.name);
  if (!requireOneOf(*quantization, kMethod, "weights of this method are not supported", names))
    return;
  std::string name = *quantization->string(kMethod);
  const Method *method = llvm::find_if(kMethods, [&](const Method &m) { return m.name == name; });
  config.weightScales = method->read(*quantization);
}
