//===- RaiseGraph.cpp - a recorded graph to an mla module ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Import/RaiseGraph.h"

#include "CompareLayer.h"
#include "Evaluate.h"
#include "MatchLayer.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlac;
using namespace mlac::graph;
using namespace mlir;
using mlir::graph::NodeOp;

namespace {
/// Finds layers of one kind, those of the configuration.
template <typename LayerT> class Raiser {
public:
  Raiser(func::FuncOp function, const ModelConfig &config)
      : function(function), evaluator(function, expressions),
        comparison(function, config, expressions) {}
  /// All of a graph's. What `match` does not take is left, in a part of a graph, or refused.
  FailureOr<RaisedLayer> raise(bool isPartial);

private:
  /// The layers and their output projections.
  FailureOr<std::vector<std::pair<NodeOp, LayerT>>> findLayers(bool isPartial,
                                                               std::vector<LeftNode> &left);
  llvm::MapVector<NodeOp, uint32_t> findProjections();
  llvm::Expected<LayerT> match(uint32_t projection);
  RaisedRegion describeRegion(NodeOp output, const Layer &layer);
  /// Nothing where the graph makes the mask.
  std::optional<RaisedMask> describeMask(NodeOp output, const Layer &layer);
  LogicalResult refuseGraph();
  LogicalResult checkWhole(const Layer &layer, NodeOp output, uint32_t projection);
  LogicalResult checkMask(const Layer &layer, NodeOp output);
  bool isMaskMade(const Layer &layer);
  bool isInput(const Source &source) {
    return source.kind == SourceKind::Argument &&
           !comparison.getName(source.a, mlir::graph::kInputAttr).empty();
  }

  func::FuncOp function;
  Expressions expressions;
  Evaluator evaluator;
  Comparison comparison;
};
} // namespace

/// What an attention that was not matched is not.
template <typename LayerT> static constexpr llvm::StringLiteral kKind = "";
template <> constexpr llvm::StringLiteral kKind<LatentLayer> = "multi-head latent attention";
template <> constexpr llvm::StringLiteral kKind<GroupedLayer> = "attention by groups of heads";

static InFlightDiagnostic emitNodeError(NodeOp node) {
  return emitError(node->getLoc()) << Evaluator::describe(node) << ": ";
}

//===----------------------------------------------------------------------===//
// The layer
//===----------------------------------------------------------------------===//

static llvm::BitVector getWeights(func::FuncOp function) {
  llvm::BitVector weights(function.getNumArguments());
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (function.getArgAttr(i, mlir::graph::kWeightAttr))
      weights.set(i);
  return weights;
}

/// No attention: names the first node on the way to the output that is not understood.
template <typename LayerT> LogicalResult Raiser<LayerT>::refuseGraph() {
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
template <typename LayerT>
LogicalResult Raiser<LayerT>::checkWhole(const Layer &layer, NodeOp output, uint32_t projection) {
  ArrayRef<Expr> hidden = expressions.vector(layer.hidden);
  bool isAsItIs = isInput(expressions[hidden.front()]);
  for (uint32_t i = 0; i < hidden.size() && isAsItIs; ++i)
    isAsItIs = hidden[i] == Expr{hidden.front().source, i};
  if (!isAsItIs)
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

/// Whether the graph makes the mask, and what a step computes.
template <typename LayerT> bool Raiser<LayerT>::isMaskMade(const Layer &layer) {
  std::optional<KeyBand> band = expressions.getMaskBand(*layer.mask);
  bool isCausal = band && !band->isOutside && band->least == 0;
  bool hasWindow = std::is_same_v<LayerT, GroupedLayer>;
  return isCausal && (hasWindow ? band->most >= 0 : band->most == kOpenAbove);
}

/// A mask that is an input is taken as what a step computes; `RaisedLayer::masks` names it.
template <typename LayerT>
LogicalResult Raiser<LayerT>::checkMask(const Layer &layer, NodeOp output) {
  if (!layer.mask)
    return emitNodeError(output) << "its attention has no mask, so that tokens see those after "
                                    "them; a step's attention is causal";
  if (!isMaskMade(layer) && !isInput(expressions[*layer.mask]))
    return emitNodeError(output) << "its attention's mask is no input of the graph but "
                                 << describe(expressions, *layer.mask);
  return success();
}

template <> llvm::Expected<LatentLayer> Raiser<LatentLayer>::match(uint32_t projection) {
  return matchLatents(expressions, projection, getWeights(function));
}

template <> llvm::Expected<GroupedLayer> Raiser<GroupedLayer>::match(uint32_t projection) {
  return matchGroups(expressions, projection, getWeights(function));
}

template <typename LayerT> llvm::MapVector<NodeOp, uint32_t> Raiser<LayerT>::findProjections() {
  llvm::MapVector<NodeOp, uint32_t> found;
  for (auto [node, projection] : evaluator.projections())
    if (readsAttention(expressions, projection))
      found.insert({node, projection});
  return found;
}

template <typename LayerT>
FailureOr<std::vector<std::pair<NodeOp, LayerT>>>
Raiser<LayerT>::findLayers(bool isPartial, std::vector<LeftNode> &left) {
  evaluator.run();
  if (auto [node, reason] = evaluator.lostWrite(); node)
    return emitNodeError(node) << "may write to memory in a way that is not followed: " << reason;
  llvm::MapVector<NodeOp, uint32_t> found = findProjections();
  if (found.empty())
    return refuseGraph();
  if (found.size() > 1 && !isPartial)
    return emitNodeError(found.begin()->first)
           << "is one of " << found.size()
           << " projections of attention; --partial takes each as a part of the graph";
  std::vector<std::pair<NodeOp, LayerT>> layers;
  for (auto [node, projection] : found) {
    llvm::Expected<LayerT> layer = match(projection);
    std::string why = layer ? "" : llvm::toString(layer.takeError());
    if (!layer && isPartial) {
      left.push_back({Evaluator::describe(node), why});
      continue;
    }
    if (!layer)
      return emitNodeError(node) << "its attention is not " << kKind<LayerT> << ": " << why;
    if ((!isPartial && failed(checkWhole(*layer, node, projection))) ||
        failed(checkMask(*layer, node)))
      return failure();
    layers.push_back({node, std::move(*layer)});
  }
  if (layers.empty())
    return emitError(function.getLoc()) << left.front().node << ": its attention is not "
                                        << kKind<LayerT> << ": " << left.front().reason;
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

template <typename LayerT>
RaisedRegion Raiser<LayerT>::describeRegion(NodeOp output, const Layer &layer) {
  RaisedRegion region;
  region.module = output.getModulePath().value_or("").str();
  region.output = output.getNodeName().str();
  for (auto [node, projection] : evaluator.projections())
    if (projection == layer.inputProjection)
      region.input = getValueName(function, node->getOperand(0));
  return region;
}

template <typename LayerT>
std::optional<RaisedMask> Raiser<LayerT>::describeMask(NodeOp output, const Layer &layer) {
  if (isMaskMade(layer))
    return std::nullopt;
  return RaisedMask{
      .input = comparison.getName(expressions[*layer.mask].a, mlir::graph::kInputAttr).str(),
      .node = output.getNodeName().str(),
      .module = output.getModulePath().value_or("").str(),
      .window = comparison.getConfiguredWindow()};
}

template <typename LayerT> FailureOr<RaisedLayer> Raiser<LayerT>::raise(bool isPartial) {
  RaisedLayer raised;
  FailureOr<std::vector<std::pair<NodeOp, LayerT>>> layers = findLayers(isPartial, raised.left);
  if (failed(layers))
    return failure();
  for (auto &[node, layer] : *layers) {
    if (failed(comparison.compare(layer)))
      return failure();
    FailureOr<std::vector<RaisedWeight>> weights = comparison.nameWeights(layer);
    if (failed(weights))
      return failure();
    raised.regions.push_back(describeRegion(node, layer));
    raised.regions.back().weights = std::move(*weights);
    if (std::optional<RaisedMask> mask = describeMask(node, layer))
      raised.masks.push_back(std::move(*mask));
    if (std::optional<RaisedTables> tables = comparison.findTables(layer)) {
      tables->node = node.getNodeName().str();
      tables->module = node.getModulePath().value_or("").str();
      raised.tables.push_back(std::move(*tables));
    }
  }
  return std::move(raised);
}

FailureOr<RaisedLayer> mlac::raiseGraph(func::FuncOp graph, const ModelConfig &config,
                                        const ImportOptions &options, bool isPartial) {
  FailureOr<RaisedLayer> raised = config.grouped
                                      ? Raiser<GroupedLayer>(graph, config).raise(isPartial)
                                      : Raiser<LatentLayer>(graph, config).raise(isPartial);
  if (failed(raised))
    return failure();
  raised->module = importConfig(graph.getLoc(), config, options);
  if (!raised->module)
    return failure();
  return raised;
}
