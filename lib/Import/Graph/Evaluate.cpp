//===- Evaluate.cpp - follows the numbers of a recorded graph ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Evaluate.h"

#include "Call.h"

#include <cstdio>

using namespace mlac::graph;
using namespace mlir;
using mlir::graph::NodeOp;

Evaluator::Evaluator(func::FuncOp function, Expressions &expressions)
    : function(function), expressions(expressions) {}

/// About twice what the attention of 61 layers with 128 heads makes; 3 GB.
static constexpr size_t kMaxNumbers = size_t(1) << 28;

std::string mlac::graph::printNumber(double number) {
  char digits[32];
  int length = std::snprintf(digits, sizeof(digits), "%g", number);
  return {digits, digits + length};
}

std::string Evaluator::describe(Operation *op) {
  auto node = cast<NodeOp>(op);
  std::string text = ("node '" + node.getNodeName() + "' (" + node.getTarget() + ")").str();
  if (std::optional<StringRef> path = node.getModulePath())
    text += (" in " + *path).str();
  return text;
}

//===----------------------------------------------------------------------===//
// Dimensions of arguments
//===----------------------------------------------------------------------===//

/// A dimension that may be the axis: if it has its size, or is open.
std::optional<Dim> Evaluator::labelAxis(int64_t size, Axis axis) const {
  const Size &whole = axis == Axis::Batch ? batch : tokens;
  bool isOpen = ShapedType::isDynamic(size);
  if (isOpen ? whole.openBatch + whole.openTokens > 0 : whole == Size{size})
    return Dim{Factor{axis, whole}};
  return isOpen ? std::nullopt : std::optional(makeChannels(size));
}

/// What the dimensions of a tensor are by their places: [batch, tokens, channels], a mask
/// [batch, heads, tokens, keys], positions [batch, tokens], a table [tokens, channels].
std::optional<Dims> Evaluator::label(Type type, bool isInput) const {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return std::nullopt;
  ArrayRef<int64_t> shape = tensor.getShape();
  int64_t rank = shape.size();
  bool isPositions = tensor.getElementType().isInteger();
  Dims dims;
  for (auto [index, size] : llvm::enumerate(shape)) {
    int64_t behind = rank - 1 - static_cast<int64_t>(index);
    std::optional<Dim> dim;
    if (index == 0 && rank + isPositions >= 3)
      dim = labelAxis(size, Axis::Batch);
    else if (behind == (isPositions && rank <= 2 ? 0 : 1))
      dim = labelAxis(size, Axis::Tokens);
    else if (behind == 0 && rank == 4 && isInput)
      dim = labelAxis(size, Axis::Keys);
    else if (!ShapedType::isDynamic(size))
      dim = makeChannels(size);
    if (!dim || (!dim->empty() && dim->front().axis == Axis::Channels && size == 0))
      return std::nullopt;
    dims.push_back(std::move(*dim));
  }
  return isSmall(dims) ? std::optional(std::move(dims)) : std::nullopt;
}

static Size sizeOfAxis(int64_t size, Axis axis) {
  if (!ShapedType::isDynamic(size))
    return {size};
  return axis == Axis::Batch ? Size{1, 1, 0} : Size{1, 0, 1};
}

/// Batch and tokens are the first sizes of the hidden states, [batch, tokens, channels], or of the
/// tokens of a whole model, [batch, tokens].
void Evaluator::findTokens() {
  for (bool isHidden : {true, false})
    for (BlockArgument argument : function.getArguments()) {
      auto type = dyn_cast<RankedTensorType>(argument.getType());
      bool isInput =
          function.getArgAttr(argument.getArgNumber(), mlir::graph::kInputAttr) != nullptr;
      if (!isInput || !type || type.getRank() != (isHidden ? 3 : 2) ||
          isa<FloatType>(type.getElementType()) != isHidden)
        continue;
      batch = sizeOfAxis(type.getDimSize(0), Axis::Batch);
      tokens = sizeOfAxis(type.getDimSize(1), Axis::Tokens);
      return;
    }
}

void Evaluator::readArguments() {
  findTokens();
  for (BlockArgument argument : function.getArguments()) {
    uint32_t number = argument.getArgNumber();
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type)
      continue;
    Cell &cell = cellOf(argument);
    std::optional<Dims> dims;
    if (function.getArgAttr(number, mlir::graph::kInputAttr)) {
      dims = label(type, /*isInput=*/true);
    } else if (type.getRank() == 2) {
      cell.matrix = number;
    } else if (type.getRank() < 2 && type.hasStaticShape()) {
      dims.emplace();
      for (int64_t size : type.getShape())
        dims->push_back(makeChannels(size));
    }
    if (!dims || !isSmall(*dims))
      continue;
    uint32_t count = 1;
    for (const Dim &dim : *dims)
      count *= countChannels(dim);
    auto held = function.getArgAttrOfType<DenseElementsAttr>(number, mlir::graph::kValuesAttr);
    if (held && type.getRank() == 0 && isa<FloatType>(type.getElementType())) {
      double value = held.getSplatValue<llvm::APFloat>().convertToDouble();
      cell.tensor = makeTensor({}, {expressions.constant(value)});
      continue;
    }
    bool isComplex = isa<ComplexType>(type.getElementType());
    std::vector<Expr> values;
    for (uint32_t i = 0; i < count; ++i)
      values.push_back(isComplex ? expressions.complex(expressions.argument(number, 2 * i),
                                                       expressions.argument(number, 2 * i + 1))
                                 : expressions.argument(number, i));
    cell.tensor = makeTensor(std::move(*dims), std::move(values));
  }
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

/// AutoDeploy's, with the schema of aten's.
static constexpr StringLiteral kCanonicalAttention =
    "attention.scaled_dot_product_attention.default";

/// By its name, torch's convention; operators of others may do anything, but in a graph that torch
/// verified.
bool Evaluator::mayWrite(NodeOp node) {
  StringRef name = node.getTarget().split('.').second.split('.').first;
  bool takesTensor =
      llvm::any_of(node.getOperandTypes(), [](Type type) { return isa<TensorType>(type); });
  bool isInPlace = name.ends_with("_") && !name.ends_with("__"); // __and__ and the like are not
  bool isOfOthers = !node.getTarget().starts_with("aten.");
  return takesTensor &&
         ((isOfOthers && !isFunctional()) || isInPlace || node.getTarget().ends_with("out"));
}

/// An operand that is not understood itself: its first number tells.
const Source *Evaluator::findCause(NodeOp node) {
  for (Value operand : node.getOperands()) {
    const std::optional<Tensor> &tensor = cellOf(operand).tensor;
    if (const Source *opaque = cellOf(operand).opaque)
      return opaque;
    if (tensor && tensor->size() > 0 && expressions[(*tensor)[0]].kind == SourceKind::Opaque)
      return &expressions[(*tensor)[0]];
  }
  return nullptr;
}

void Evaluator::makeOpaque(NodeOp node, StringRef reason) {
  StringRef kept = reasons.save(reason);
  const Source *cause = findCause(node);
  if (!lost.first && mayWrite(node))
    lost = {node, kept};
  for (OpResult result : node->getResults()) {
    uint32_t source = expressions.opaque(node, result.getResultNumber(), kept, cause);
    std::optional<Dims> dims = label(result.getType(), /*isInput=*/false);
    if (!dims) {
      cellOf(result).opaque = &expressions[{source, 0}];
      continue;
    }
    uint32_t count = 1;
    for (const Dim &dim : *dims)
      count *= countChannels(dim);
    std::vector<Expr> values;
    for (uint32_t i = 0; i < count; ++i)
      values.push_back({source, i});
    cellOf(result) = makeTensor(std::move(*dims), std::move(values));
    // It may be a view of what the node takes.
    cellOf(result).tensor->memory->mayBeShared = true;
  }
}

void Evaluator::evaluate(NodeOp node) {
  StringRef name = node.getTarget();
  if (name.consume_front("aten."))
    name = name.rsplit('.').first;
  else if (name == kCanonicalAttention)
    name = name.split('.').second.split('.').first;
  expressions.setMaker(node);
  Call call(*this, node);
  Results results = call.evaluate(name);
  if (!results)
    return makeOpaque(node, call.reason);
  for (const Cell &cell : *results)
    numbers += cell.tensor ? cell.tensor->size() : 0;
  if (numbers > kMaxNumbers)
    return makeOpaque(node, "the graph makes more than 2^28 numbers of a token");
  for (auto [value, cell] : llvm::zip(node.getResults(), *results))
    cellOf(value) = std::move(cell);
}

void Evaluator::run() {
  readArguments();
  for (NodeOp node : function.getOps<NodeOp>())
    evaluate(node);
}
