//===- CompareLayer.cpp - a layer and its model's configuration ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CompareLayer.h"
#include "FindRope.h"

#include "mla/Dialect/Graph/IR/GraphDialect.h"
#include "mla/Import/CheckpointTensors.h"
#include "mla/Import/ImportConfig.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlac;
using namespace mlac::graph;
using namespace mlir;

/// How far a scale may be from the configuration's: it is computed in double in both.
static constexpr double kScaleTolerance = 1e-9;
/// And a rotary frequency: f32, in another order of operations.
static constexpr double kFrequencyTolerance = 1e-6;

StringRef Comparison::getName(uint32_t argument, StringRef attribute) {
  auto name = function.getArgAttrOfType<StringAttr>(argument, attribute);
  return name ? name.getValue() : StringRef();
}

void Comparison::differ(const Twine &what, const Twine &inGraph, const Twine &inConfig) {
  emitError(function.getLoc()) << "the graph has " << what.str() << " " << inGraph.str()
                               << ", the configuration " << inConfig.str();
  differs = true;
}

static std::string print(double value) { return llvm::formatv("{0:e9}", value).str(); }

void Comparison::compareDim(StringRef key, int64_t inGraph, int64_t inConfig) {
  if (inGraph != inConfig)
    differ(key + " =", Twine(inGraph), Twine(inConfig));
}

void Comparison::compareNumber(StringRef what, double inGraph, double inConfig) {
  if (!(std::abs(inGraph - inConfig) <= kScaleTolerance * std::abs(inConfig)))
    differ(what, print(inGraph), print(inConfig));
}

void Comparison::compareBias(StringRef projection, bool isInGraph, bool isInConfig) {
  if (isInGraph != isInConfig)
    differ(projection + "'s bias:", isInGraph ? "one" : "none",
           isInConfig ? "attention_bias" : "no attention_bias");
}

LogicalResult Comparison::compare(const LatentLayer &layer) {
  compareDim("hidden_size", layer.hiddenSize, config.hiddenSize);
  compareDim("num_attention_heads", layer.heads, config.numHeadsTotal);
  compareDim("q_lora_rank", layer.queryLatent.value_or(0), config.qLoraRank.value_or(0));
  compareDim("kv_lora_rank", layer.latent, config.kvLoraRank);
  compareDim("qk_nope_head_dim", layer.nope, config.qkNopeHeadDim);
  compareDim("qk_rope_head_dim", layer.rope, config.qkRopeHeadDim);
  compareDim("v_head_dim", layer.value, config.vHeadDim);
  if (layer.queryEpsilon)
    compareNumber("a norm of the query's latent with epsilon", *layer.queryEpsilon,
                  config.latentNormEps);
  compareNumber("a norm of the latent with epsilon", layer.keyEpsilon, config.latentNormEps);
  compareNumber("a factor of the query", layer.queryMultiplier, config.queryMultiplier);
  compareNumber("a factor of the latent", layer.latentMultiplier, config.latentMultiplier);
  compareNumber("a scale of the scores of", layer.scale, config.softmaxScale());
  if (config.indexer)
    differ("attention to", "all keys", "an indexer");
  if (layer.queryLatent)
    compareBias("q_a_proj", layer.queryDownBias.has_value(), config.attentionBias);
  compareBias("kv_a_proj_with_mqa", layer.keyDownBias.has_value(), config.attentionBias);
  compareBias("o_proj", layer.outputBias.has_value(), config.attentionBias);
  if (layer.rope == config.qkRopeHeadDim && layer.rope > 0 && failed(compareRope(layer)))
    return failure();
  return failure(differs);
}

/// The window of a mask that the graph makes; nothing where the mask is an input, which may be any.
static std::optional<int64_t> getWindow(const Expressions &expressions, const Layer &layer) {
  std::optional<KeyBand> band = layer.mask ? expressions.getMaskBand(*layer.mask) : std::nullopt;
  if (!band)
    return std::nullopt;
  return band->most == kOpenAbove ? 0 : static_cast<int64_t>(band->most) + 1;
}

LogicalResult Comparison::compare(const GroupedLayer &layer) {
  const GroupedParams &grouped = *config.grouped;
  compareDim("hidden_size", layer.hiddenSize, config.hiddenSize);
  compareDim("num_attention_heads", layer.heads, config.numHeadsTotal);
  compareDim("num_key_value_heads", layer.kvHeads, grouped.kvHeadsTotal);
  compareDim("head_dim", layer.headDim, config.qkHeadDim());
  compareDim("a head dim of values", layer.value, config.vHeadDim);
  compareDim("rotated channels of a head", layer.rope, config.qkRopeHeadDim);
  compareDim("a first rotated channel", layer.ropeOffset, 0);
  for (auto [side, norm, epsilon] : {std::tuple("queries", layer.queryNorm, layer.queryEpsilon),
                                     std::tuple("keys", layer.keyNorm, layer.keyEpsilon)}) {
    if (norm.has_value() != grouped.normalisesHeads)
      differ(Twine("heads of ") + side + " that are", norm ? "normalised" : "not normalised",
             grouped.normalisesHeads ? "q_norm and k_norm" : "neither q_norm nor k_norm");
    else if (norm)
      compareNumber((Twine("a norm of ") + side + " with epsilon").str(), epsilon,
                    config.rmsNormEps);
  }
  compareNumber("a scale of the scores of", layer.scale, config.softmaxScale());
  compareNumber("a softcap of", layer.softcap, grouped.softcap);
  if (std::optional<int64_t> window = getWindow(expressions, layer);
      window.value_or(grouped.window) != grouped.window)
    differ("a window of", *window ? Twine(*window).str() + " tokens" : "all tokens",
           grouped.window ? Twine(grouped.window).str() + " tokens" : "all tokens");
  if (layer.sinks.has_value() != grouped.hasSinks)
    differ("sinks:", layer.sinks ? "some" : "none", grouped.hasSinks ? "some" : "none");
  for (auto [name, rows] : {std::pair("q_proj", &layer.query), std::pair("k_proj", &layer.key),
                            std::pair("v_proj", &layer.values)})
    compareBias(name, rows->bias.has_value(), grouped.hasInputBias);
  compareBias("o_proj", layer.outputBias.has_value(), grouped.hasOutputBias);
  if (layer.rope == config.qkRopeHeadDim && layer.rope > 0 && failed(compareRope(layer)))
    return failure();
  return failure(differs);
}

/// The table's number is multiplier · function(position · frequency), or an input's.
LogicalResult Comparison::checkTable(Expr table, Function function, size_t index, double expected,
                                     double multiplier) {
  auto [factor, rest] = expressions.splitFactor(table);
  const Source &outer = expressions[rest];
  if (outer.kind == SourceKind::Argument && factor == 1 &&
      !getName(outer.a, mlir::graph::kInputAttr).empty()) {
    // Tables of all channels repeat their first half.
    auto type = cast<RankedTensorType>(this->function.getArgumentTypes()[outer.a]);
    int64_t width = type.getShape().back(), pairs = config.qkRopeHeadDim / 2;
    if (width == pairs || (width == 2 * pairs && !isa<ComplexType>(type.getElementType())))
      return success();
    return emitError(this->function.getLoc())
           << "rope's table '" << getName(outer.a, mlir::graph::kInputAttr) << "' is " << type
           << ", expected " << pairs << " or " << 2 * pairs << " columns";
  }
  const Source *angle =
      outer.kind == SourceKind::Apply && outer.a == static_cast<uint32_t>(function)
          ? &expressions[outer.operands.front()]
          : nullptr;
  std::optional<StoredFrequency> frequency =
      angle ? readFrequency(this->function, expressions, *angle) : std::nullopt;
  if (!frequency)
    return emitError(this->function.getLoc())
           << "rope's table is no input of the graph and not the cosine or sine of positions times "
              "frequencies, but "
           << describe(expressions, table);
  if (std::abs(frequency->value - expected) > kFrequencyTolerance * expected)
    differ("a rotary frequency " + Twine(index) + " of", print(frequency->value), print(expected));
  if (std::abs(factor - multiplier) > kFrequencyTolerance * multiplier)
    differ("a factor of rope's tables of", print(factor), print(multiplier));
  return success();
}

LogicalResult Comparison::compareRope(const Layer &layer) {
  auto name = [](RopePairing pairing) {
    return pairing == RopePairing::Half ? "halves" : "neighbours";
  };
  if (layer.pairing != config.rope.pairing && layer.rope > 2)
    differ("rope over pairs of", name(layer.pairing), name(config.rope.pairing));
  RopeTable table = computeRopeTable(config);
  for (auto [index, pair] : llvm::enumerate(layer.ropePairs)) {
    double frequency = table.inverseFrequencies[index];
    if (failed(checkTable(pair.cos, Function::Cos, index, frequency, table.multiplier)) ||
        failed(checkTable(pair.sin, Function::Sin, index, frequency, table.multiplier)))
      return failure();
    if (differs)
      break;
  }
  return success();
}

std::optional<RaisedTables> Comparison::findTables(const Layer &layer) {
  if (layer.ropePairs.empty())
    return std::nullopt;
  const RopePair &pair = layer.ropePairs.front(); // all pairs' are of one input
  const Source &cos = expressions[pair.cos], &sin = expressions[pair.sin];
  if (cos.kind != SourceKind::Argument || sin.kind != SourceKind::Argument)
    return std::nullopt;
  RaisedTables tables;
  tables.cos = getName(cos.a, mlir::graph::kInputAttr).str();
  tables.sin = getName(sin.a, mlir::graph::kInputAttr).str();
  tables.expected = computeRopeTable(config);
  return tables;
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

FailureOr<std::vector<RaisedWeight>> Comparison::nameWeights(ArrayRef<Role> roles) {
  std::vector<RaisedWeight> weights;
  for (const CheckpointTensor &tensor : getCheckpointTensors(config)) {
    const Role *role =
        llvm::find_if(roles, [&](const Role &each) { return each.name == tensor.name; });
    if (role == roles.end() || !role->weight)
      return emitError(function.getLoc()) << "the graph has no weight for " << tensor.name;
    StringRef source = getName(*role->weight, mlir::graph::kWeightAttr);
    auto type = cast<RankedTensorType>(function.getArgumentTypes()[*role->weight]);
    SmallVector<int64_t> shape(type.getShape());
    RaisedWeight weight{tensor.name, source.str()};
    if (role->rows > 0 && role->firstRow + role->rows <= shape[0] && role->rows < shape[0]) {
      weight.firstRow = role->firstRow;
      weight.rows = shape[0] = role->rows;
    }
    if (source.empty() || ArrayRef<int64_t>(shape) != ArrayRef<int64_t>(tensor.shape))
      return emitError(function.getLoc())
             << "the graph's weight for " << tensor.name << ", '" << source << "', is " << type
             << ", expected " << tensor.formula << " = "
             << RankedTensorType::get(tensor.shape, type.getElementType());
    weights.push_back(std::move(weight));
  }
  return weights;
}

FailureOr<std::vector<RaisedWeight>> Comparison::nameWeights(const LatentLayer &layer) {
  return nameWeights({{"q_a_proj.weight", layer.queryDown},
                      {"q_a_proj.bias", layer.queryDownBias},
                      {"q_a_layernorm.weight", layer.queryNorm},
                      {layer.queryLatent ? "q_b_proj.weight" : "q_proj.weight", layer.queryUp},
                      {"kv_a_proj_with_mqa.weight", layer.keyDown},
                      {"kv_a_proj_with_mqa.bias", layer.keyDownBias},
                      {"kv_a_layernorm.weight", layer.keyNorm},
                      {"kv_b_proj.weight", layer.keyUp},
                      {"o_proj.weight", layer.output},
                      {"o_proj.bias", layer.outputBias}});
}

FailureOr<std::vector<RaisedWeight>> Comparison::nameWeights(const GroupedLayer &layer) {
  const WeightRows &query = layer.query, &key = layer.key, &values = layer.values;
  return nameWeights({{"q_proj.weight", query.weight, query.firstRow, query.rows},
                      {"q_proj.bias", query.bias, query.firstRow, query.rows},
                      {"k_proj.weight", key.weight, key.firstRow, key.rows},
                      {"k_proj.bias", key.bias, key.firstRow, key.rows},
                      {"v_proj.weight", values.weight, values.firstRow, values.rows},
                      {"v_proj.bias", values.bias, values.firstRow, values.rows},
                      {"q_norm.weight", layer.queryNorm},
                      {"k_norm.weight", layer.keyNorm},
                      {"sinks", layer.sinks},
                      {"o_proj.weight", layer.output},
                      {"o_proj.bias", layer.outputBias}});
}
