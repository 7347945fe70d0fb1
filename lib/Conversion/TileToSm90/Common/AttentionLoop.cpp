//===- AttentionLoop.cpp - the parts of an absorbed-attention kernel ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Common/AttentionLoop.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlac;

namespace {
/// Fills in an AttentionLoop; each step returns what is missing, or nothing.
class Matcher {
public:
  explicit Matcher(tile::KernelOp kernel) { loop.kernel = kernel; }
  StringRef match();
  AttentionLoop loop;

private:
  StringRef matchLoops();
  StringRef matchTerms();
};
} // namespace

/// The key loop is the innermost loop with a paged load; the item loop encloses it.
StringRef Matcher::matchLoops() {
  loop.kernel.walk([&](tile::LoadPagedOp load) {
    if (auto parent = dyn_cast<scf::ForOp>(load->getParentOp()))
      loop.keys = parent;
  });
  if (!loop.keys)
    return "no loop over paged keys";
  if (!getConstantIntValue(loop.keys.getStep()))
    return "the loop over keys has no constant step";
  loop.items = loop.keys->getParentOfType<scf::ForOp>();
  if (!loop.items || !isa<tile::KernelOp>(loop.items->getParentOp()))
    return "no loop over work items around the loop over keys";
  if (loop.items.getNumResults() != 0)
    return "the loop over work items carries values";
  return {};
}

/// The carried value that a plain dot adds to.
StringRef SoftmaxLoop::matchProduct() {
  for (auto [index, yielded] : llvm::enumerate(keys.getYieldedValues())) {
    auto dot = yielded.getDefiningOp<tile::DotOp>();
    if (!dot || dot.getTransposeRhs() || dot.getTransposeLhs())
      continue;
    product = dot;
    outputIndex = index;
  }
  if (!product)
    return "no product of weights and values in the loop";
  rescale = product.getAcc().getDefiningOp<arith::MulFOp>();
  auto factor = rescale ? rescale.getRhs().getDefiningOp<tile::BroadcastOp>() : tile::BroadcastOp();
  if (!factor || rescale.getLhs() != keys.getRegionIterArgs()[outputIndex])
    return "the output is not rescaled by one factor per row";
  correction = factor.getSource();
  weights = product.getLhs();
  auto narrow = weights.getDefiningOp<arith::TruncFOp>();
  if (!narrow)
    return "the weights are not narrowed from f32";
  numerators = narrow.getIn();
  return {};
}

SmallVector<tile::DotOp, 2> SoftmaxLoop::matchScores(tile::DotOp dot) {
  SmallVector<tile::DotOp, 2> chain;
  while (dot) {
    chain.push_back(dot);
    scores = dot.getResult();
    auto next = dot->hasOneUse() ? dyn_cast<tile::DotOp>(*dot->user_begin()) : tile::DotOp();
    dot = next && next.getAcc() == dot.getResult() ? next : tile::DotOp();
  }
  return chain;
}

/// From the values' load to the chain of dots that makes the scores.
StringRef Matcher::matchTerms() {
  auto values = loop.product.getRhs().getDefiningOp<tile::LoadPagedOp>();
  if (!values)
    return "the values are not a paged load";
  tile::DotOp first;
  for (Operation *user : values->getUsers())
    if (auto candidate = dyn_cast<tile::DotOp>(user))
      if (candidate.getTransposeRhs() && candidate.getRhs() == values.getResult())
        first = candidate;
  if (!first || !matchPattern(first.getAcc(), m_AnyZeroFloat()))
    return "the scores do not start with a product of queries and values";
  for (tile::DotOp dot : loop.matchScores(first)) {
    auto query = dot.getLhs().getDefiningOp<tile::LoadOp>();
    auto keys = dot.getRhs().getDefiningOp<tile::LoadPagedOp>();
    if (!query || !keys || loop.keys->isAncestor(query))
      return "a query is not a load outside of the loop over keys";
    loop.terms.push_back({query, keys, dot});
  }
  return {};
}

/// The select between the scores and -inf, if it is all that uses them.
void SoftmaxLoop::matchMask() {
  auto select =
      scores.hasOneUse() ? dyn_cast<arith::SelectOp>(*scores.user_begin()) : arith::SelectOp();
  if (select && select.getTrueValue() == scores &&
      matchPattern(select.getFalseValue(), m_NegInfFloat()))
    mask = select;
}

void SoftmaxLoop::matchSum() {
  for (auto [index, yielded] : llvm::enumerate(keys.getYieldedValues())) {
    auto add = yielded.getDefiningOp<arith::AddFOp>();
    auto scaled = add ? add.getLhs().getDefiningOp<arith::MulFOp>() : arith::MulFOp();
    auto reduce = add ? add.getRhs().getDefiningOp<tile::ReduceOp>() : tile::ReduceOp();
    if (scaled && reduce && reduce.getKind() == tile::ReduceKind::Sum &&
        scaled.getLhs() == keys.getRegionIterArgs()[index])
      sum = RunningSum{static_cast<unsigned>(index), add, scaled.getRhs(), reduce};
  }
}

StringRef Matcher::match() {
  if (StringRef why = matchLoops(); !why.empty())
    return why;
  if (StringRef why = loop.matchProduct(); !why.empty())
    return why;
  if (StringRef why = matchTerms(); !why.empty())
    return why;
  loop.matchMask();
  loop.matchSum();
  return {};
}

std::optional<AttentionLoop> mlac::matchAttentionLoop(tile::KernelOp kernel, std::string &why) {
  Matcher matcher(kernel);
  why = matcher.match().str();
  if (!why.empty())
    return std::nullopt;
  return matcher.loop;
}
