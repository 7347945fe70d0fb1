//===- RaiseGraph.cpp - a recorded graph to an mla module ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Import/RaiseGraph.h"

#include "Evaluate.h"
#include "MatchLayer.h"

#include "mla/Import/CheckpointTensors.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlac;
using namespace mlac::graph;
using namespace mlir;
using mlir::graph::NodeOp;

/// How far a scale may be from the configuration's: it is computed in double in both.
static constexpr double kScaleTolerance = 1e-9;
/// And a rotary frequency: f32, in another order of operations.
static constexpr double kFrequencyTolerance = 1e-6;

namespace {
class Raiser {
public:
  Raiser(func::FuncOp function, const ModelConfig &config)
      : function(function), config(config), evaluator(function, expressions) {}
  /// The layers and their output projections.
  FailureOr<std::vector<std::pair<NodeOp, Layer>>> findLayers(bool isPartial,
                                                              std::vector<LeftNode> &left);
  RaisedRegion describeRegion(NodeOp output, const Layer &layer);
  LogicalResult compare(const Layer &layer);
  FailureOr<std::vector<RaisedWeight>> nameWeights(const Layer &layer);

private:
  LogicalResult refuseGraph();
  LogicalResult checkWhole(const Layer &layer, NodeOp output, uint32_t projection);
  LogicalResult checkMask(const Layer &layer, NodeOp output);
  LogicalResult compareRope(const Layer &layer);
  std::optional<double> readFrequency(const Source &angle);
  LogicalResult checkTable(Expr table, Function function, size_t index, double expected,
                           double multiplier);
  StringRef getName(uint32_t argument, StringRef attribute);
  void differ(const Twine &what, const Twine &inGraph, const Twine &inConfig) {
    emitError(function.getLoc()) << "the graph has " << what.str() << " " << inGraph.str()
                                 << ", the configuration " << inConfig.str();
    differs = true;
  }

  func::FuncOp function;
  const ModelConfig &config;
  Expressions expressions;
  Evaluator evaluator;
  bool differs = false;
};
} // namespace

static InFlightDiagnostic emitNodeError(NodeOp node) {
  return emitError(node->getLoc()) << Evaluator::describe(node) << ": ";
}

StringRef Raiser::getName(uint32_t argument, StringRef attribute) {
  auto name = function.getArgAttrOfType<StringAttr>(argument, attribute);
  return name ? name.getValue() : StringRef();
}

//===----------------------------------------------------------------------===//
// The layer
//===----------------------------------------------------------------------===//

/// No attention: names the first node on the way to the output that is not understood.
LogicalResult Raiser::refuseGraph() {
  for (Value output : function.getBody().front().getTerminator()->getOperands()) {
    const Cell &cell = evaluator[output];
    const Source *opaque = cell.tensor ? findOpaque(expressions, cell.tensor->values()) : nullptr;
    if (opaque)
      return emitNodeError(cast<NodeOp>(opaque->node)) << "is not understood: " << opaque->reason;
  }
  return emitError(function.getLoc())
         << "the graph has no attention: no projection reads sums over "
            "keys that a softmax weighs";
}

/// The graph is the layer: it takes the hidden states and gives what the projection does.
LogicalResult Raiser::checkWhole(const Layer &layer, NodeOp output, uint32_t projection) {
  ArrayRef<Expr> hidden = expressions.vector(layer.hidden);
  const Source &first = expressions[hidden.front()];
  bool isInput =
      first.kind == SourceKind::Argument && !getName(first.a, mlir::graph::kInputAttr).empty();
  for (uint32_t i = 0; i < hidden.size() && isInput; ++i)
    isInput = hidden[i] == Expr{hidden.front().source, i};
  if (!isInput)
    return emitNodeError(output) << "the layer's hidden states are no input of the graph but "
                                 << describe(expressions, hidden.front())
                                 << "; export the attention module alone";
  const Cell &result = evaluator[function.getBody().front().getTerminator()->getOperand(0)];
  bool isOutput = result.tensor && static_cast<int64_t>(result.tensor->size()) == layer.hiddenSize;
  for (uint32_t i = 0; i < layer.hiddenSize && isOutput; ++i)
    isOutput = (*result.tensor)[i] == Expr{projection, i};
  if (!isOutput)
    return emitNodeError(output) << "the graph's first output is not this projection; export the "
                                    "attention module alone";
  return success();
}

/// A mask that is an input is taken as the causal one, which is what a step computes.
LogicalResult Raiser::checkMask(const Layer &layer, NodeOp output) {
  if (!layer.mask)
    return emitNodeError(output) << "its attention has no mask, so that tokens see those after "
                                    "them; a step's attention is causal";
  const Source &mask = expressions[*layer.mask];
  bool isInput =
      mask.kind == SourceKind::Argument && !getName(mask.a, mlir::graph::kInputAttr).empty();
  if (!isInput && mask.kind != SourceKind::Causal)
    return emitNodeError(output) << "its attention's mask is no input of the graph but "
                                 << describe(expressions, *layer.mask);
  return success();
}

FailureOr<std::vector<std::pair<NodeOp, Layer>>> Raiser::findLayers(bool isPartial,
                                                                    std::vector<LeftNode> &left) {
  evaluator.run();
  if (auto [node, reason] = evaluator.lostWrite(); node)
    return emitNodeError(node) << "may write to memory in a way that is not followed: " << reason;
  llvm::MapVector<NodeOp, uint32_t> found;
  for (auto [node, projection] : evaluator.projections())
    if (readsAttention(expressions, projection))
      found.insert({node, projection});
  if (found.empty())
    return refuseGraph();
  if (found.size() > 1 && !isPartial)
    return emitNodeError(found.begin()->first)
           << "is one of " << found.size()
           << " projections of attention; --partial takes each as a part of the graph";
  llvm::BitVector weights(function.getNumArguments());
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (!getName(i, mlir::graph::kWeightAttr).empty())
      weights.set(i);
  std::vector<std::pair<NodeOp, Layer>> layers;
  for (auto [node, projection] : found) {
    llvm::Expected<Layer> layer = matchLayer(expressions, projection, weights);
    std::string why = layer ? "" : llvm::toString(layer.takeError());
    if (!layer && isPartial) {
      left.push_back({Evaluator::describe(node), why});
      continue;
    }
    if (!layer)
      return emitNodeError(node) << "its attention is not multi-head latent attention: " << why;
    if ((!isPartial && failed(checkWhole(*layer, node, projection))) ||
        failed(checkMask(*layer, node)))
      return failure();
    layers.push_back({node, std::move(*layer)});
  }
  if (layers.empty())
    return emitError(function.getLoc())
           << left.front().node
           << ": its attention is not multi-head latent attention: " << left.front().reason;
  return layers;
}

/// The name of a value: its node's result, or the argument's.
static std::string getValueName(func::FuncOp function, Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    for (StringRef attribute : {mlir::graph::kInputAttr, mlir::graph::kWeightAttr})
      if (auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), attribute))
        return name.str();
    return "";
  }
  return value.getDefiningOp<NodeOp>().getNodeName().str();
}

RaisedRegion Raiser::describeRegion(NodeOp output, const Layer &layer) {
  RaisedRegion region;
  region.module = output.getModulePath().value_or("").str();
  region.output = output.getNodeName().str();
  for (auto [node, projection] : evaluator.projections())
    if (projection == layer.latentProjection)
      region.input = getValueName(function, node->getOperand(0));
  return region;
}

//===----------------------------------------------------------------------===//
// The configuration
//===----------------------------------------------------------------------===//

static std::string print(double value) { return llvm::formatv("{0:e9}", value).str(); }

LogicalResult Raiser::compare(const Layer &layer) {
  auto compareDim = [&](StringRef key, int64_t inGraph, int64_t inConfig) {
    if (inGraph != inConfig)
      differ(key + " =", Twine(inGraph), Twine(inConfig));
  };
  auto compareNumber = [&](StringRef what, double inGraph, double inConfig) {
    if (!(std::abs(inGraph - inConfig) <= kScaleTolerance * std::abs(inConfig)))
      differ(what, print(inGraph), print(inConfig));
  };
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
  auto compareBias = [&](StringRef projection, const Weight &bias) {
    if (bias.has_value() != config.attentionBias)
      differ(projection + "'s bias:", bias ? "one" : "none",
             config.attentionBias ? "attention_bias" : "no attention_bias");
  };
  if (layer.queryLatent)
    compareBias("q_a_proj", layer.queryDownBias);
  compareBias("kv_a_proj_with_mqa", layer.keyDownBias);
  compareBias("o_proj", layer.outputBias);
  if (layer.rope == config.qkRopeHeadDim && layer.rope > 0 && failed(compareRope(layer)))
    return failure();
  return failure(differs);
}

/// The frequency in a product of it and a token's position, which an input is taken as.
std::optional<double> Raiser::readFrequency(const Source &angle) {
  if (angle.kind != SourceKind::Product || angle.operands.size() != 2 || angle.number != 1)
    return std::nullopt;
  std::optional<double> frequency;
  bool hasPosition = false;
  for (Expr each : angle.operands) {
    const Source &source = expressions[each];
    bool isArgument = source.kind == SourceKind::Argument;
    hasPosition |= source.kind == SourceKind::Position ||
                   (isArgument && !getName(source.a, mlir::graph::kInputAttr).empty());
    auto values =
        isArgument
            ? function.getArgAttrOfType<DenseElementsAttr>(source.a, mlir::graph::kValuesAttr)
            : DenseElementsAttr();
    if (values && values.getElementType().isF32() && each.index < values.getNumElements())
      frequency = values.getValues<float>()[each.index];
  }
  return hasPosition ? frequency : std::nullopt;
}

/// The table's number is multiplier · function(position · frequency), or an input's.
LogicalResult Raiser::checkTable(Expr table, Function function, size_t index, double expected,
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
  std::optional<double> frequency = angle ? readFrequency(*angle) : std::nullopt;
  if (!frequency)
    return emitError(this->function.getLoc())
           << "rope's table is no input of the graph and not the cosine or sine of positions times "
              "frequencies, but "
           << describe(expressions, table);
  if (std::abs(*frequency - expected) > kFrequencyTolerance * expected)
    differ("a rotary frequency " + Twine(index) + " of", print(*frequency), print(expected));
  if (std::abs(factor - multiplier) > kFrequencyTolerance * multiplier)
    differ("a factor of rope's tables of", print(factor), print(multiplier));
  return success();
}

LogicalResult Raiser::compareRope(const Layer &layer) {
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

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

FailureOr<std::vector<RaisedWeight>> Raiser::nameWeights(const Layer &layer) {
  const std::pair<StringRef, Weight> roles[] = {
      {"q_a_proj.weight", layer.queryDown},
      {"q_a_proj.bias", layer.queryDownBias},
      {"q_a_layernorm.weight", layer.queryNorm},
      {layer.queryLatent ? "q_b_proj.weight" : "q_proj.weight", layer.queryUp},
      {"kv_a_proj_with_mqa.weight", layer.keyDown},
      {"kv_a_proj_with_mqa.bias", layer.keyDownBias},
      {"kv_a_layernorm.weight", layer.keyNorm},
      {"kv_b_proj.weight", layer.keyUp},
      {"o_proj.weight", layer.output},
      {"o_proj.bias", layer.outputBias}};
  std::vector<RaisedWeight> weights;
  for (const CheckpointTensor &tensor : getCheckpointTensors(config)) {
    auto role = llvm::find_if(roles, [&](const auto &each) { return each.first == tensor.name; });
    if (role == std::end(roles) || !role->second)
      return emitError(function.getLoc()) << "the graph has no weight for " << tensor.name;
    StringRef source = getName(*role->second, mlir::graph::kWeightAttr);
    auto type = cast<RankedTensorType>(function.getArgumentTypes()[*role->second]);
    if (source.empty() || type.getShape() != ArrayRef<int64_t>(tensor.shape))
      return emitError(function.getLoc())
             << "the graph's weight for " << tensor.name << ", '" << source << "', is " << type
             << ", expected " << tensor.formula << " = "
             << RankedTensorType::get(tensor.shape, type.getElementType());
    weights.push_back({tensor.name, source.str()});
  }
  return weights;
}

FailureOr<RaisedLayer> mlac::raiseGraph(func::FuncOp graph, const ModelConfig &config,
                                        const ImportOptions &options, bool isPartial) {
  Raiser raiser(graph, config);
  RaisedLayer raised;
  FailureOr<std::vector<std::pair<NodeOp, Layer>>> layers =
      raiser.findLayers(isPartial, raised.left);
  if (failed(layers))
    return failure();
  for (auto &[node, layer] : *layers) {
    if (failed(raiser.compare(layer)))
      return failure();
    FailureOr<std::vector<RaisedWeight>> weights = raiser.nameWeights(layer);
    if (failed(weights))
      return failure();
    raised.regions.push_back(raiser.describeRegion(node, layer));
    raised.regions.back().weights = std::move(*weights);
  }
  raised.module = importConfig(graph.getLoc(), config, options);
  if (!raised.module)
    return failure();
  return std::move(raised);
}
