//===- HeadDims.cpp - heads among the dimensions of products -*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HeadDims.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlac;
using namespace mlac::graph;
using namespace mlir;

/// The factors of a dimension beside channels; none where they are no batch, tokens or heads.
static std::optional<std::vector<int64_t>> readFactors(const Dim &dim) {
  std::vector<int64_t> factors;
  for (const Factor &factor : dim) {
    if (factor.axis == Axis::Batch)
      factors.push_back(kBatchFactor);
    else if (factor.axis == Axis::Tokens)
      factors.push_back(kTokensFactor);
    else if (factor.axis == Axis::Channels)
      factors.push_back(factor.size.fixed);
    else
      return std::nullopt;
  }
  return factors;
}

std::optional<FoundHeads> mlac::graph::findHeads(const Tensor &tensor, bool isTransposed) {
  size_t rank = tensor.dims.size();
  if (rank < 3)
    return std::nullopt;
  size_t rows = rank - (isTransposed ? 1 : 2), channels = rank - (isTransposed ? 2 : 1);
  if (!isChannels(tensor.dims[channels]))
    return std::nullopt;
  if (rank == 4 && isAxis(tensor.dims[rows], Axis::Tokens) && isChannels(tensor.dims[1]))
    return FoundHeads{countChannels(tensor.dims[1]), {}};
  FoundHeads found;
  size_t numBatches = 0, numTokens = 0, numHeadFactors = 0;
  for (auto [index, dim] : llvm::enumerate(tensor.dims)) {
    if (index == channels) {
      found.dims.push_back({countChannels(dim)});
      continue;
    }
    std::optional<std::vector<int64_t>> factors = readFactors(dim);
    if (!factors)
      return std::nullopt;
    if (factors->empty())
      factors->push_back(1);
    for (int64_t factor : *factors) {
      numBatches += factor == kBatchFactor;
      numTokens += factor == kTokensFactor;
      numHeadFactors += factor > 0;
      found.count *= factor > 0 ? factor : 1;
    }
    found.dims.push_back(std::move(*factors));
  }
  if (numTokens != 1 || numBatches > 1 || !llvm::is_contained(found.dims[rows], kTokensFactor))
    return std::nullopt;
  std::vector<int64_t> &first = found.dims.front();
  if (numBatches == 0) // of one sequence
    first.insert(first.begin(), kBatchFactor);
  if (numHeadFactors == 0) // of one head
    first.push_back(1);
  return found;
}

/// Where batch, heads, tokens and channels are among the factors of all dimensions.
static SmallVector<int64_t> getOrder(const HeadDims &dims, bool isTransposed) {
  size_t channels = dims.size() - (isTransposed ? 2 : 1);
  int64_t batch = 0, tokens = 0, channel = 0, at = 0;
  SmallVector<int64_t> order;
  for (auto [index, dim] : llvm::enumerate(dims))
    for (int64_t factor : dim) {
      if (index == channels)
        channel = at++;
      else if (factor == kBatchFactor)
        batch = at++;
      else if (factor == kTokensFactor)
        tokens = at++;
      else
        order.push_back(at++);
    }
  order.insert(order.begin(), batch);
  order.push_back(isTransposed ? channel : tokens);
  order.push_back(isTransposed ? tokens : channel);
  return order;
}

static bool isOrdered(ArrayRef<int64_t> order) {
  return llvm::equal(order, llvm::seq<int64_t>(order.size()));
}

/// The sizes of a dimension's factors: batch and tokens are what is left.
static SmallVector<int64_t> getSizes(Value value, int64_t dim, ArrayRef<int64_t> factors) {
  int64_t whole = cast<RankedTensorType>(value.getType()).getDimSize(dim), known = 1;
  for (int64_t factor : factors)
    known *= factor > 0 ? factor : 1;
  int64_t rest = ShapedType::isDynamic(whole) ? -1 : whole / known;
  return llvm::map_to_vector(factors, [&](int64_t factor) { return factor > 0 ? factor : rest; });
}

Value mlac::graph::toHeads(GraphCalls &calls, Value value, const HeadDims &dims, bool isTransposed,
                           const Twine &name) {
  if (dims.empty())
    return value;
  for (int64_t dim = static_cast<int64_t>(dims.size()) - 1; dim >= 0; --dim)
    if (dims[dim].size() > 1)
      value = calls.unflatten(value, dim, getSizes(value, dim, dims[dim]), name + "_split");
  SmallVector<int64_t> order = getOrder(dims, isTransposed);
  if (!isOrdered(order))
    value = calls.permute(value, order, name + "_ordered");
  return calls.flatten(value, /*dim=*/1, static_cast<int64_t>(order.size()) - 3, name + "_heads");
}

Value mlac::graph::fromHeads(GraphCalls &calls, Value heads, const HeadDims &dims,
                             const Twine &name) {
  if (dims.empty())
    return heads;
  SmallVector<int64_t> factors, order = getOrder(dims, /*isTransposed=*/false);
  for (const std::vector<int64_t> &dim : dims)
    llvm::append_range(factors, dim);
  SmallVector<int64_t> sizes;
  for (int64_t at : ArrayRef(order).drop_front().drop_back(2))
    sizes.push_back(factors[at]);
  if (sizes.size() > 1)
    heads = calls.unflatten(heads, /*dim=*/1, sizes, name + "_split");
  SmallVector<int64_t> back(order.size());
  for (auto [to, from] : llvm::enumerate(order))
    back[from] = static_cast<int64_t>(to);
  if (!isOrdered(back))
    heads = calls.permute(heads, back, name + "_ordered");
  for (auto [dim, each] : llvm::enumerate(dims))
    heads = calls.flatten(heads, static_cast<int64_t>(dim), static_cast<int64_t>(each.size()),
                          name + "_joined");
  return heads;
}
