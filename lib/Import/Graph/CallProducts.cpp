//===- CallProducts.cpp - nodes that project and attend ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Call.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace mlac::graph;
using namespace mlir;

//===----------------------------------------------------------------------===//
// Projections
//===----------------------------------------------------------------------===//

/// Rows times a weight [out, in].
Results Call::project(const Tensor &rows, const Cell &weight, std::optional<uint32_t> bias) {
  auto type = cast<RankedTensorType>(evaluator.function.getArgumentTypes()[*weight.matrix]);
  int64_t outputs = type.getDimSize(0), width = type.getDimSize(1);
  if (rows.dims.empty() || !isChannels(rows.dims.back()) ||
      countChannels(rows.dims.back()) != width)
    return fail("its weight has not as many columns as its operand has channels");
  Dims dims = rows.dims;
  dims.back() = makeChannels(outputs);
  if (!isSmall(dims))
    return fail("it makes more than 2^22 numbers of a token");
  std::vector<Expr> values = rows.values(), result;
  for (size_t row = 0; row < values.size(); row += width) {
    VectorId vector = expressions.internVector(ArrayRef(values).slice(row, width));
    uint32_t source = expressions.linear(vector, *weight.matrix, bias);
    evaluator.linears.push_back({node, source});
    for (int64_t output = 0; output < outputs; ++output)
      result.push_back({source, static_cast<uint32_t>(output)});
  }
  return give(makeTensor(std::move(dims), std::move(result)));
}

/// The number of the graph's argument that an argument of the node is.
std::optional<uint32_t> Call::vectorArgument(StringRef name) {
  Tensor *vector = tensor(name);
  if (!vector || vector->size() == 0)
    return std::nullopt;
  const Source &first = expressions[(*vector)[0]];
  if (vector->dims.size() != 1 || first.kind != SourceKind::Argument)
    return std::nullopt;
  for (size_t i = 0; i < vector->size(); ++i)
    if ((*vector)[i] != Expr{(*vector)[0].source, static_cast<uint32_t>(i)})
      return std::nullopt;
  return first.a;
}

Results Call::linear() {
  Tensor *input = tensor("input");
  Cell *weight = cell("weight");
  if (!input || !weight || !weight->matrix || weight->isTransposed)
    return std::nullopt;
  auto bias = has("bias") ? vectorArgument("bias") : std::nullopt;
  if (has("bias") && !bias)
    return fail("its bias is not a weight as it stands");
  return project(*input, *weight, bias);
}

Results Call::product(StringRef left, StringRef right) {
  Tensor *first = tensor(left);
  Cell *second = cell(right);
  if (!first || !second)
    return std::nullopt;
  if (second->matrix)
    return second->isTransposed ? project(*first, *second, std::nullopt)
                                : fail("it multiplies by a weight's columns");
  Tensor *other = tensor(right);
  return other ? multiply(*first, *other) : std::nullopt;
}

/// self + mat1 mat2: a projection with a bias.
Results Call::addProduct() {
  Tensor *rows = tensor("mat1");
  Cell *weight = cell("mat2");
  auto bias = vectorArgument("self");
  double alpha = number("alpha").value_or(1), beta = number("beta").value_or(1);
  if (!rows || !weight || !weight->matrix || !weight->isTransposed || !bias || alpha != 1 ||
      beta != 1)
    return std::nullopt;
  return project(*rows, *weight, bias);
}

//===----------------------------------------------------------------------===//
// Products of activations
//===----------------------------------------------------------------------===//

/// Both operands over common outer dimensions; none where they do not fit.
static std::optional<std::pair<Tensor, Tensor>> alignOuter(const Tensor &left,
                                                           const Tensor &right) {
  if (left.dims.size() < 2 || right.dims.size() < 2)
    return std::nullopt;
  Dims outerLeft(left.dims.begin(), left.dims.end() - 2);
  Dims outerRight(right.dims.begin(), right.dims.end() - 2);
  auto outer = broadcastDims(outerLeft, outerRight);
  if (!outer)
    return std::nullopt;
  Dims toLeft = *outer, toRight = *outer;
  toLeft.append(left.dims.end() - 2, left.dims.end());
  toRight.append(right.dims.end() - 2, right.dims.end());
  if (!isSmall(toLeft) || !isSmall(toRight))
    return std::nullopt;
  return std::pair(broadcast(left, toLeft), broadcast(right, toRight));
}

/// What is not followed in a number, but for rows of queries and keys.
static const Source *findOpaqueOperand(const Expressions &expressions, Expr x) {
  const Source &source = expressions[x];
  if (source.kind == SourceKind::Opaque)
    return source.cause ? source.cause : &source;
  for (Expr operand : source.operands)
    if (const Source *found = findOpaqueOperand(expressions, operand))
      return found;
  return nullptr;
}

/// A number beside exponentials' sum, of which a product has the reciprocal.
static std::optional<double> findAddedToSum(const Expressions &expressions, Expr product) {
  for (Expr factor : expressions[product].operands) {
    if (!expressions.isFunction(factor, Function::Reciprocal))
      continue;
    const Source &sum = expressions[expressions[factor].operands[0]];
    if (sum.kind != SourceKind::Sum)
      continue;
    for (size_t i = 0; i < 2; ++i)
      if (expressions.isFunction(sum.operands[1 - i], Function::SumKeys))
        return expressions.getConstant(sum.operands[i]);
  }
  return std::nullopt;
}

static Dim toKeys(Dim tokens) {
  tokens.front().axis = Axis::Keys;
  return tokens;
}

/// Rows of tokens, maybe of several heads that share a matrix on the right.
static bool areRows(const Dim &dim) {
  bool isKnown = llvm::all_of(dim, [](const Factor &factor) {
    return factor.axis == Axis::Tokens || factor.axis == Axis::Channels;
  });
  return isKnown &&
         llvm::count_if(dim, [](const Factor &factor) { return factor.axis == Axis::Tokens; }) == 1;
}

/// [..., tokens, channels] times [..., channels, tokens], a dot for every row of the left. A key's
/// channels lie side by side in either order, since tokens are not written out.
std::optional<Tensor> Call::score(const Tensor &query, const Tensor &key) {
  size_t width = countChannels(query.dims.back());
  size_t count = query.size() / width, shared = count / (key.size() / width);
  std::vector<Expr> left = query.values(), right = key.values(), result;
  for (size_t i = 0; i < count; ++i)
    result.push_back(expressions.dot(ArrayRef(left).slice(i * width, width),
                                     ArrayRef(right).slice(i / shared * width, width)));
  Dims dims = query.dims;
  dims.back() = toKeys(key.dims.back());
  return makeTensor(std::move(dims), std::move(result));
}

/// Of a softmax, or exponentials whose sum may divide what they weigh.
bool Call::areWeights(Expr x) {
  if (expressions[x].kind == SourceKind::Softmax || expressions.isFunction(x, Function::Exp))
    return true;
  std::string why = "it sums over keys with weights that are no softmax";
  if (std::optional<double> added = findAddedToSum(expressions, x))
    why += ": " + printNumber(*added) +
           " is added to the sum that divides them, so that theirs is not 1 (less than " +
           printNumber(kRoundedAway) + ", behind each row's largest score, is nothing in f32)";
  if (const Source *opaque = findOpaqueOperand(expressions, x))
    why += ": " + Evaluator::describe(opaque->node) + ": " + opaque->reason.str();
  fail(why);
  return false;
}

/// [..., tokens, keys] times [..., tokens, channels].
std::optional<Tensor> Call::weigh(const Tensor &weights, const Tensor &value) {
  size_t width = countChannels(value.dims.back());
  size_t shared = weights.size() / (value.size() / width);
  std::vector<Expr> result;
  result.reserve(weights.size() * width);
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!areWeights(weights[i]))
      return std::nullopt;
    for (size_t channel = 0; channel < width; ++channel)
      result.push_back(expressions.attend(weights[i], value[i / shared * width + channel]));
  }
  Dims dims = weights.dims;
  dims.back() = value.dims.back();
  return makeTensor(std::move(dims), std::move(result));
}

/// [..., m, 1] times [..., 1, n].
std::optional<Tensor> Call::outer(const Tensor &left, const Tensor &right) {
  size_t columns = countChannels(right.dims.back());
  size_t rows = countChannels(left.dims[left.dims.size() - 2]);
  std::vector<Expr> result;
  result.reserve(left.size() * columns);
  for (size_t i = 0; i < left.size(); ++i)
    for (size_t j = 0; j < columns; ++j)
      result.push_back(expressions.multiply(left[i], right[i / rows * columns + j]));
  Dims dims = left.dims;
  dims.back() = right.dims.back();
  return isSmall(dims) ? std::optional(makeTensor(std::move(dims), std::move(result)))
                       : std::nullopt;
}

Results Call::multiply(const Tensor &left, const Tensor &right) {
  constexpr llvm::StringLiteral kWhy = "it is no projection, no product of queries and keys and no "
                                       "sum over keys";
  auto aligned = alignOuter(left, right);
  if (!aligned)
    return fail(kWhy);
  auto &[a, b] = *aligned;
  size_t rank = a.dims.size();
  const Dim &aRows = a.dims[rank - 2], &aInner = a.dims[rank - 1], &bInner = b.dims[rank - 2],
            &bColumns = b.dims[rank - 1];
  if (areRows(aRows) && isChannels(aInner) && aInner == bInner && isAxis(bColumns, Axis::Tokens))
    return give(score(a, b), kWhy);
  if (areRows(aRows) && isAxis(aInner, Axis::Keys) && isAxis(bInner, Axis::Tokens) &&
      isChannels(bColumns))
    return give(weigh(a, b), kWhy);
  if (getSize(aInner).isOne() && getSize(bInner).isOne())
    return give(outer(a, b), kWhy);
  return fail(kWhy);
}

/// baddbmm: beta self + alpha batch1 batch2, of which self is not read where beta is 0.
Results Call::addScores() {
  Tensor *left = tensor("batch1"), *right = tensor("batch2");
  double alpha = number("alpha").value_or(1), beta = number("beta").value_or(1);
  ignore({"self"});
  Results product = left && right ? multiply(*left, *right) : std::nullopt;
  if (!product)
    return std::nullopt;
  Tensor scores = *product->front().tensor;
  std::vector<Expr> values = scores.values();
  for (Expr &value : values)
    value = expressions.scale(alpha, value);
  scores = makeTensor(scores.dims, std::move(values));
  if (beta == 0)
    return give(scores);
  Tensor *self = tensor("self");
  return self ? combine(
                    scores, *self,
                    [&](Expr x, Expr y) { return expressions.add(x, expressions.scale(beta, y)); })
              : std::nullopt;
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

Results Call::softmax() {
  ignore({"dtype", "half_to_float"});
  Tensor *self = tensor("self");
  auto dim = self ? dimension("dim", self->dims.size()) : std::nullopt;
  if (!dim ||
      (!isAxis(self->dims[*dim], Axis::Keys) && !isAxis(self->dims[*dim], Axis::KeysAndSink)))
    return fail("it is no softmax over keys");
  return unary([&](Expr x) { return expressions.softmax(x); });
}

std::optional<Tensor> Call::addMask(const Tensor &scores) {
  auto add = [&](Expr x, Expr y) { return expressions.add(x, y); };
  bool hasMask = has("attn_mask");
  if (flag("is_causal", false)) {
    if (hasMask) // torch refuses it
      return std::nullopt;
    Tensor causal = makeTensor({}, {expressions.causal()});
    Results masked = combine(scores, causal, add);
    return masked ? masked->front().tensor : std::nullopt;
  }
  if (!hasMask)
    return scores;
  Tensor *mask = tensor("attn_mask");
  // Of truth values a key is seen where they are true; numbers are added, also ones and zeros.
  auto toNumber = [&](Expr x) { return addsNumbers() ? x : makeMask(x).value_or(x); };
  Results masked =
      mask ? combine(scores, *mask, [&](Expr x, Expr y) { return expressions.add(x, toNumber(y)); })
           : std::nullopt;
  return masked ? masked->front().tensor : std::nullopt;
}

/// repeat_interleave, of heads for groups of queries, or of a mask's rows for heads beside them.
Results Call::repeatHeads() {
  ignore({"output_size"});
  Tensor *self = tensor("self");
  auto dim = self ? dimension("dim", self->dims.size()) : std::nullopt;
  auto times = integer("repeats");
  if (!dim || !times || *times < 1)
    return std::nullopt;
  return give(repeatDim(*self, *dim, *times, /*isWhole=*/false),
              "it makes more than 2^22 numbers of a token");
}

/// scaled_dot_product_attention: what the eager form computes.
Results Call::attention() {
  Tensor *query = tensor("query"), *key = tensor("key"), *value = tensor("value");
  if (!query || !key || !value || number("dropout_p").value_or(0) != 0)
    return std::nullopt;
  size_t rank = query->dims.size();
  std::optional<Tensor> repeated[2];
  if (flag("enable_gqa", false))
    for (auto [tensor, own] : {std::pair(&key, &repeated[0]), std::pair(&value, &repeated[1])}) {
      bool hasHeads = rank >= 3 && (*tensor)->dims.size() == rank &&
                      isChannels(query->dims[rank - 3]) && isChannels((*tensor)->dims[rank - 3]);
      int64_t heads = hasHeads ? countChannels(query->dims[rank - 3]) : 0;
      int64_t groups = hasHeads ? countChannels((*tensor)->dims[rank - 3]) : 1;
      *own = hasHeads && heads % groups == 0
                 ? repeatDim(**tensor, rank - 3, heads / groups, /*isWhole=*/false)
                 : std::nullopt;
      if (!*own)
        return fail("its heads are no groups of those of keys and values");
      *tensor = &**own;
    }
  auto aligned = alignOuter(*query, *key);
  auto isRows = [&](const Tensor &tensor) {
    return tensor.dims.size() == rank && rank >= 2 && isAxis(tensor.dims[rank - 2], Axis::Tokens) &&
           isChannels(tensor.dims[rank - 1]);
  };
  if (!isRows(*query) || !isRows(*key) || !isRows(*value) || !aligned ||
      query->dims.back() != key->dims.back())
    return fail("its operands are not [..., tokens, channels]");
  double width = countChannels(query->dims.back());
  double factor = number("scale").value_or(1 / std::sqrt(width));
  Tensor keys = aligned->second;
  keys.dims.back().swap(keys.dims[rank - 2]);
  std::optional<Tensor> scores = score(aligned->first, keys);
  std::vector<Expr> scaled = scores->values();
  for (Expr &score : scaled)
    score = expressions.scale(factor, score);
  std::optional<Tensor> masked = addMask(makeTensor(scores->dims, std::move(scaled)));
  if (!masked)
    return std::nullopt;
  std::vector<Expr> weights = masked->values();
  for (Expr &weight : weights)
    weight = expressions.softmax(weight);
  auto last = alignOuter(makeTensor(masked->dims, std::move(weights)), *value);
  return last ? give(weigh(last->first, last->second), "") : std::nullopt;
}

Results Call::evaluateProduct(StringRef name, bool &isKnown) {
  isKnown = true;
  if (name == "linear")
    return linear();
  if (name == "matmul")
    return product("self", "other");
  if (name == "mm" || name == "bmm")
    return product("self", "mat2");
  if (name == "addmm")
    return addProduct();
  if (name == "baddbmm")
    return addScores();
  if (name == "softmax" || name == "_softmax" || name == "_safe_softmax")
    return softmax();
  if (name == "scaled_dot_product_attention")
    return attention();
  if (name == "repeat_interleave")
    return repeatHeads();
  if (name == "einsum")
    return fail("of einsum only the products are followed that torch makes of it "
                "(program.run_decompositions; mlac.export and mlac.cached do it)");
  isKnown = false;
  return std::nullopt;
}
