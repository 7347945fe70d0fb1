//===- FindAttention.cpp - the attention in a whole model's graph ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FindAttention.h"

#include "GraphCalls.h"
#include "HeadDims.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

using namespace mlac;
using namespace mlac::graph;
using namespace mlir;
using mlir::graph::InAttr;
using mlir::graph::NodeOp;

/// An argument of a node that is a value; null otherwise.
static Value getOperand(NodeOp node, StringRef name) {
  auto in = dyn_cast_or_null<InAttr>(node.getArguments().get(name));
  return in ? node.getOperands()[in.getIndex()] : Value();
}

bool AttentionFinder::attends(Value value) {
  const Cell &cell = evaluator[value];
  if (!cell.tensor || cell.tensor->size() == 0)
    return false;
  const Source &sum = expressions[(*cell.tensor)[0]];
  return sum.kind == SourceKind::Attend && expressions[sum.operands[0]].kind == SourceKind::Softmax;
}

/// Whether its sums over keys are those of an operand, which may be another attention's: then it
/// does something else with them.
bool AttentionFinder::movesAttention(NodeOp node) {
  Expr first = (*evaluator[node->getResult(0)].tensor)[0];
  return llvm::any_of(node.getOperands(), [&](Value value) {
    const Cell &cell = evaluator[value];
    return attends(value) && llvm::is_contained(cell.tensor->values(), first);
  });
}

/// The two operands of a product, null where there are none: those of baddbmm stand behind what is
/// added to it.
static std::pair<Value, Value> getFactors(NodeOp node) {
  if (Value left = getOperand(node, "batch1"))
    return {left, getOperand(node, "batch2")};
  Value right = getOperand(node, "other");
  return {getOperand(node, "self"), right ? right : getOperand(node, "mat2")};
}

/// The product that sums over keys: what exponentials weigh may be divided by their sum behind it.
NodeOp AttentionFinder::findProduct(NodeOp node) {
  for (Value operand : node.getOperands()) {
    const Cell &cell = evaluator[operand];
    auto maker = operand.getDefiningOp<NodeOp>();
    if (maker && cell.tensor && cell.tensor->size() > 0 &&
        expressions[(*cell.tensor)[0]].kind == SourceKind::Attend && !attends(operand))
      return findProduct(maker);
  }
  return node;
}

/// From the weights of a second product back to the first.
std::optional<AttentionOperands> AttentionFinder::findOperands(NodeOp node) {
  if (Value query = getOperand(node, "query"))
    return AttentionOperands{query, getOperand(node, "key"), getOperand(node, "value")};
  auto [weights, value] = getFactors(findProduct(node));
  while (weights && value) {
    auto maker = weights.getDefiningOp<NodeOp>();
    if (!maker || maker->getNumOperands() == 0)
      return std::nullopt;
    auto [left, right] = getFactors(maker);
    const Cell &scores = evaluator[weights];
    bool isProduct = maker.getTarget().contains("matmul") || maker.getTarget().contains("bmm");
    if (isProduct && left && right && scores.tensor)
      return AttentionOperands{left, right, value, /*isKeyTransposed=*/true};
    // A mask may stand before its scores, as the condition of a choice or the first of a sum.
    auto scored = llvm::find_if(maker->getOperands(), [&](Value each) { return areScores(each); });
    weights = scored == maker->operand_end() ? maker->getOperand(0) : *scored;
  }
  return std::nullopt;
}

llvm::Error AttentionFinder::matchMask(const Scores &scores, FoundAttention &found) {
  std::optional<KeyBand> band =
      scores.mask ? expressions.getMaskBand(*scores.mask) : std::optional(KeyBand());
  if (band == KeyBand())
    return makeError("it has no mask, so that tokens see those after them");
  const Source &mask = expressions[*scores.mask];
  bool isInput = mask.kind == SourceKind::Argument &&
                 function.getArgAttr(mask.a, mlir::graph::kInputAttr) != nullptr;
  bool isCausal = band && !band->isOutside && band->least == 0 && band->most >= 0;
  if (!isInput && !isCausal)
    return makeError("its mask is no input of the graph and not causal but " +
                     describe(expressions, *scores.mask));
  if (isInput)
    found.mask = mask.a;
  if (isCausal && band->most != kOpenAbove)
    found.info.window = static_cast<int64_t>(band->most) + 1;
  return llvm::Error::success();
}

llvm::Error AttentionFinder::matchSinks(const std::vector<Scores> &heads, FoundAttention &found) {
  for (auto [h, head] : llvm::enumerate(heads)) {
    if (!head.sink)
      return llvm::Error::success();
    const Source &sink = expressions[*head.sink];
    bool isWeight = sink.kind == SourceKind::Argument &&
                    function.getArgAttr(sink.a, mlir::graph::kWeightAttr) != nullptr;
    if (!isWeight || head.sink->index != h || (h > 0 && found.sinks != sink.a))
      return makeError("the sink of head " + Twine(h) + " is not that element of a weight, but " +
                       describe(expressions, *head.sink));
    found.sinks = sink.a;
  }
  return llvm::Error::success();
}

llvm::Error AttentionFinder::readOperands(FoundAttention &found, OperandRows &rows) {
  AttentionOperands &operands = found.operands;
  const Tensor *tensors[3];
  int64_t heads[3];
  HeadDims *dims[3] = {&operands.queryDims, &operands.keyDims, &operands.valueDims};
  for (auto [tensor, count, factors, value] : llvm::zip_equal(
           tensors, heads, dims, ArrayRef{operands.query, operands.key, operands.value})) {
    const Cell &cell = evaluator[value];
    tensor = cell.tensor ? &*cell.tensor : nullptr;
    bool isTransposed = value == operands.key && operands.isKeyTransposed;
    std::optional<FoundHeads> known = tensor ? findHeads(*tensor, isTransposed) : std::nullopt;
    if (!known)
      return makeError("its operands are no heads of [batch, tokens, channels]");
    count = known->count;
    *factors = std::move(known->dims);
  }
  const Cell &result = evaluator[found.node->getResult(0)];
  std::optional<FoundHeads> own = findHeads(*result.tensor, /*isTransposed=*/false);
  if (!own)
    return makeError("its result is no heads of [batch, tokens, channels]");
  found.resultDims = std::move(own->dims);
  const Tensor &query = *tensors[0], &key = *tensors[1], &value = *tensors[2];
  AttentionInfo &info = found.info;
  info.heads = heads[0];
  info.keyDim = static_cast<int64_t>(query.size()) / info.heads;
  info.valueDim = countChannels(value.dims.back());
  found.keyHeads = heads[1];
  rows = {query.values(), key.values(), value.values(), heads[1]};
  if (info.heads % rows.keyHeads != 0 || heads[2] != rows.keyHeads ||
      static_cast<int64_t>(rows.keys.size()) != rows.keyHeads * info.keyDim)
    return makeError("its heads are no groups of those of keys and values");
  return llvm::Error::success();
}

static ArrayRef<Expr> getRow(const std::vector<Expr> &heads, int64_t head, int64_t width) {
  return ArrayRef(heads).slice(head * width, width);
}

/// Heads that share keys may have been repeated before: then their numbers are the same.
void AttentionFinder::countKvHeads(const OperandRows &rows, AttentionInfo &info) {
  auto repeats = [&](int64_t count) {
    for (int64_t h = 0; h < rows.keyHeads; ++h) {
      int64_t first = h / count * count;
      if (getRow(rows.keys, h, info.keyDim) != getRow(rows.keys, first, info.keyDim) ||
          getRow(rows.values, h, info.valueDim) != getRow(rows.values, first, info.valueDim))
        return false;
    }
    return true;
  };
  int64_t same = 1;
  for (int64_t count = 2; count <= rows.keyHeads; ++count)
    if (rows.keyHeads % count == 0 && repeats(count))
      same = count;
  info.kvHeads = rows.keyHeads / same;
}

/// The scores of every head, which are those of its own query and of its group's key.
llvm::Expected<std::vector<Scores>> AttentionFinder::matchScores(FoundAttention &found,
                                                                 const OperandRows &rows) {
  const AttentionInfo &info = found.info;
  const Tensor &output = *evaluator[found.node->getResult(0)].tensor;
  if (static_cast<int64_t>(output.size()) != info.heads * info.valueDim)
    return makeError("its result has not the channels of its values");
  llvm::BitVector weights(function.getNumArguments());
  Parts parts(expressions, weights);
  std::vector<Scores> heads;
  for (int64_t h = 0; h < info.heads; ++h) {
    const Source &sum = expressions[output[h * info.valueDim]];
    if (sum.kind != SourceKind::Attend)
      return makeError("head " + Twine(h) + " is no sum over keys");
    llvm::Expected<Scores> scores = parts.matchScores(sum.operands.front());
    if (!scores)
      return scores.takeError();
    int64_t shared = h / (info.heads / rows.keyHeads);
    auto [factor, dot] = expressions.splitFactor(expressions.dot(
        getRow(rows.queries, h, info.keyDim), getRow(rows.keys, shared, info.keyDim)));
    const Source &product = expressions[dot];
    if (product.kind != SourceKind::Dot || product.a != scores->query || product.b != scores->key)
      return makeError("the scores of head " + Twine(h) + " are not those of its query and key");
    // A factor of the operands is in them.
    scores->scale /= factor;
    heads.push_back(*scores);
    const Scores &first = heads.front();
    if (scores->scale != first.scale || scores->softcap != first.softcap ||
        scores->mask != first.mask || scores->sink.has_value() != first.sink.has_value())
      return makeError("head " + Twine(h) +
                       " has another scale, softcap, mask or sink than head 0");
  }
  return heads;
}

llvm::Error AttentionFinder::matchHeads(FoundAttention &found) {
  OperandRows rows;
  if (llvm::Error error = readOperands(found, rows))
    return error;
  countKvHeads(rows, found.info);
  found.rope = RopeFinder(function, expressions, evaluator, found.node, table)
                   .find({found.operands.query, rows.queries, found.info.heads},
                         {found.operands.key, rows.keys, rows.keyHeads});
  // Keys that were repeated behind rope for heads of other values: the cache has more of them.
  if (found.rope &&
      cast<RankedTensorType>(found.rope->key.getType()).getDimSize(1) % found.info.kvHeads != 0)
    found.rope.reset();
  llvm::Expected<std::vector<Scores>> heads = matchScores(found, rows);
  if (!heads)
    return heads.takeError();
  if (llvm::Error error = checkValues(found, rows))
    return error;
  found.info.scale = heads->front().scale;
  found.info.softcap = heads->front().softcap;
  if (llvm::Error error = matchMask(heads->front(), found))
    return error;
  if (llvm::Error error = matchSinks(*heads, found))
    return error;
  if (llvm::Error error = matchLatents(found, rows))
    found.whyNoLatents = llvm::toString(std::move(error));
  return llvm::Error::success();
}

llvm::Error AttentionFinder::matchLatents(FoundAttention &found, const OperandRows &rows) {
  if (found.sinks || found.info.softcap > 0 || found.info.window > 0)
    return makeError("attention over latents has no sinks, softcaps or windows");
  llvm::Expected<FoundLatents> latents = LatentFinder(function, expressions, evaluator, table)
                                             .find(found.node, found.operands, found.info, rows);
  if (!latents)
    return latents.takeError();
  found.latents = std::move(*latents);
  return llvm::Error::success();
}

/// Every number of the result is the sum over that channel of its group's values.
llvm::Error AttentionFinder::checkValues(FoundAttention &found, const OperandRows &rows) {
  const AttentionInfo &info = found.info;
  const Tensor &output = *evaluator[found.node->getResult(0)].tensor;
  for (int64_t h = 0; h < info.heads; ++h) {
    Expr weights = expressions[output[h * info.valueDim]].operands.front();
    int64_t shared = h / (info.heads / rows.keyHeads);
    for (int64_t channel = 0; channel < info.valueDim; ++channel)
      if (output[h * info.valueDim + channel] !=
          expressions.attend(weights, rows.values[shared * info.valueDim + channel]))
        return makeError("head " + Twine(h) + " does not sum its values");
  }
  return llvm::Error::success();
}

llvm::Expected<FoundAttention> AttentionFinder::match(NodeOp node) {
  FoundAttention found;
  found.node = node;
  std::optional<AttentionOperands> operands = findOperands(node);
  if (!operands || !operands->query || !operands->key || !operands->value ||
      node->getNumResults() != 1)
    return makeError("the products of its queries, keys and values are not found");
  found.operands = *operands;
  if (llvm::Error error = matchHeads(found))
    return std::move(error);
  return found;
}

/// Of a node that is not understood and reads an input [batch, tokens], which may be a tokenizer's
/// mask.
static std::string describePadding(func::FuncOp function, NodeOp node) {
  for (Value operand : node.getOperands()) {
    auto argument = dyn_cast<BlockArgument>(operand);
    auto type = argument ? dyn_cast<RankedTensorType>(argument.getType()) : nullptr;
    if (type && type.getRank() == 2 &&
        function.getArgAttr(argument.getArgNumber(), mlir::graph::kInputAttr))
      return ": if input '" + getName(function, argument) +
             "' says which tokens are padding, leave it out: over caches there is none";
  }
  return "";
}

/// What a value's numbers are that are not followed; null where they are.
const Source *AttentionFinder::getOpaque(Value value) {
  const Cell &cell = evaluator[value];
  const Source *source = cell.opaque;
  if (!source && cell.tensor && cell.tensor->size() > 0)
    source = &expressions[(*cell.tensor)[0]];
  return source && source->kind == SourceKind::Opaque ? source : nullptr;
}

static std::string explain(const Source &opaque) {
  std::string why = opaque.reason.str();
  if (opaque.cause)
    why += ": " + Evaluator::describe(opaque.cause->node) + ": " + opaque.cause->reason.str();
  return why;
}

/// Whether a node weighs tokens, and why that is not followed: it would be left to whoever runs the
/// rest, on new tokens alone.
std::optional<std::string> AttentionFinder::findLost(NodeOp node) {
  StringRef name = node.getTarget();
  auto type = node->getNumResults() > 0 ? dyn_cast<RankedTensorType>(node->getResult(0).getType())
                                        : RankedTensorType();
  bool isAttention = name.contains("scaled_dot_product");
  // Over a dimension of open size, which no row of channels has.
  bool isSoftmax = name.contains("softmax") && type && type.getRank() > 0 &&
                   type.isDynamicDim(type.getRank() - 1);
  if (!isAttention && !isSoftmax)
    return std::nullopt;
  const Source *source = getOpaque(node->getResult(0));
  if (!source)
    return std::nullopt;
  std::string why = explain(*source);
  auto mask = dyn_cast_or_null<BlockArgument>(getOperand(node, "attn_mask"));
  if (mask && function.getArgAttr(mask.getArgNumber(), mlir::graph::kInputAttr))
    why += ": input '" + getName(function, mask) +
           "' is no mask [batch, heads, tokens, keys]; leave it out, and the graph makes its own";
  else if (source->cause)
    why += describePadding(function, cast<NodeOp>(source->cause->node));
  return why;
}

/// Whether a product of queries and keys is in what makes a number. Expressions share their
/// operands: each is looked at once.
bool AttentionFinder::hasScores(Expr expr) const {
  llvm::DenseSet<uint32_t> seen;
  for (SmallVector<Expr> left{expr}; !left.empty();) {
    Expr next = left.pop_back_val();
    if (!seen.insert(next.source).second)
      continue;
    const Source &source = expressions[next];
    if (source.kind == SourceKind::Dot)
      return true;
    llvm::append_range(left, source.operands);
  }
  return false;
}

/// Whether a value has numbers of queries and keys that are made of their products.
bool AttentionFinder::areScores(Value value) {
  const Cell &cell = evaluator[value];
  auto isOfKeys = [](const Dim &dim) {
    return isAxis(dim, Axis::Keys) || isAxis(dim, Axis::KeysAndSink);
  };
  return cell.tensor && cell.tensor->size() > 0 && llvm::any_of(cell.tensor->dims, isOfKeys) &&
         hasScores((*cell.tensor)[0]);
}

/// Whoever runs the rest of the graph has new tokens alone, so that nothing there may read scores:
/// an output, or a sink that is a logarithm of their sum.
LogicalResult AttentionFinder::checkReaders(ArrayRef<FoundAttention> all) {
  llvm::DenseMap<Operation *, const FoundAttention *> replaced;
  for (const FoundAttention &found : all)
    replaced[found.node] = &found;
  auto refuse = [&](Operation *op, Value scores) -> LogicalResult {
    auto node = cast<NodeOp>(isa<NodeOp>(op) ? op : scores.getDefiningOp());
    return emitError(node->getLoc())
           << Evaluator::describe(node)
           << (node == op ? ": reads scores of queries and keys beside the attention that is cached"
                          : ": its scores of queries and keys are an output of the graph")
           << ": of the keys, new tokens alone would be left";
  };
  llvm::SetVector<Operation *> live;
  live.insert(function.getBody().front().getTerminator());
  for (size_t next = 0; next < live.size(); ++next) {
    SmallVector<Value> read(live[next]->getOperands());
    if (const FoundAttention *found = replaced.lookup(live[next]))
      read = {found->operands.query, found->operands.key, found->operands.value};
    for (Value value : read) {
      if (areScores(value))
        return refuse(live[next], value);
      if (Operation *maker = value.getDefiningOp())
        live.insert(maker);
    }
  }
  return success();
}

static constexpr StringLiteral kHowToBeFunctional =
    " (torch makes a graph that does not write: program.run_decompositions({}))";

/// By the first node that makes something of scores which is not followed: an attention, maybe.
LogicalResult AttentionFinder::refuseToFindNone() {
  for (NodeOp node : function.getOps<NodeOp>())
    for (Value operand : node->getOperands())
      if (node->getNumResults() > 0 && areScores(operand))
        if (const Source *opaque = getOpaque(node->getResult(0)))
          return emitError(node->getLoc())
                 << Evaluator::describe(node)
                 << ": what it makes of scores of queries and keys is not understood: "
                 << explain(*opaque);
  return emitError(function.getLoc())
         << "the graph has no attention: no node sums over keys that a softmax weighs";
}

FailureOr<std::vector<FoundAttention>> AttentionFinder::run() {
  evaluator.run();
  auto fail = [](NodeOp node, const Twine &why) -> LogicalResult {
    return emitError(node->getLoc()) << Evaluator::describe(node) << ": " << why.str();
  };
  if (auto [node, reason] = evaluator.lostWrite(); node)
    return fail(node, "may write to memory in a way that is not followed: " + reason +
                          (evaluator.isFunctional() ? "" : kHowToBeFunctional));
  std::vector<FoundAttention> all;
  for (NodeOp node : function.getOps<NodeOp>()) {
    if (std::optional<std::string> why = findLost(node))
      return fail(node, "its attention is not understood: " + *why);
    bool isFirst =
        node->getNumResults() == 1 && attends(node->getResult(0)) && !movesAttention(node);
    if (!isFirst)
      continue;
    if (!hasOneTable)
      table.reset();
    llvm::Expected<FoundAttention> found = match(node);
    if (!found)
      return fail(node, "its attention cannot be cached: " + llvm::toString(found.takeError()));
    all.push_back(std::move(*found));
  }
  if (all.empty())
    return refuseToFindNone();
  if (failed(checkReaders(all)))
    return failure();
  return all;
}
