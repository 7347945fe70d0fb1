//===- DenseAttentionLoop.cpp - the parts of an expanded-attention kernel ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Common/DenseAttentionLoop.h"

#include "mla/Dialect/Tile/Transforms/Passes.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlac;

namespace {
/// Fills in a DenseAttentionLoop; each step returns what is missing, or nothing.
class Matcher {
public:
  explicit Matcher(tile::KernelOp kernel) { loop.kernel = kernel; }
  StringRef match();
  DenseAttentionLoop loop;

private:
  StringRef matchKeys();
  StringRef matchProduct() { return loop.matchProduct(); }
  StringRef matchTerms();
  StringRef matchState();
  StringRef matchStarts();
  StringRef checkPosition();
  void matchPrograms();
};
} // namespace

/// The loop over keys is the innermost one that makes products.
StringRef Matcher::matchKeys() {
  loop.kernel.walk([&](tile::DotOp dot) { loop.keys = dyn_cast<scf::ForOp>(dot->getParentOp()); });
  if (!loop.keys)
    return "no loop that makes products";
  return getConstantIntValue(loop.keys.getStep()) ? "" : "the loop over keys has no constant step";
}

StringRef Matcher::matchTerms() {
  auto isInside = [&](tile::LoadOp load) { return load && load->getParentOp() == loop.keys; };
  loop.values = loop.product.getRhs().getDefiningOp<tile::LoadOp>();
  if (!isInside(loop.values))
    return "the values are not a load in the loop over keys";
  tile::DotOp first;
  for (auto dot : loop.keys.getBody()->getOps<tile::DotOp>())
    if (dot.getTransposeRhs() && matchPattern(dot.getAcc(), m_AnyZeroFloat()))
      first = dot;
  if (!first)
    return "no scores that start with a product of queries and keys";
  for (tile::DotOp dot : loop.matchScores(first)) {
    auto query = dot.getLhs().getDefiningOp<tile::LoadOp>();
    auto keys = dot.getRhs().getDefiningOp<tile::LoadOp>();
    if (!query || !isInside(keys) || loop.keys->isAncestor(query))
      return "the scores are not products of loaded queries and keys";
    loop.terms.push_back({query, keys, dot});
  }
  return "";
}

/// Whether `next` is `carried` or something larger.
static bool isRunningMaximum(Value next, Value carried) {
  if (auto maximum = next.getDefiningOp<arith::MaximumFOp>())
    return llvm::is_contained(maximum->getOperands(), carried);
  // Where tile-lazy-rescale lets it lag.
  auto select = next.getDefiningOp<arith::SelectOp>();
  auto exceeds = select ? select.getCondition().getDefiningOp<arith::CmpFOp>() : arith::CmpFOp();
  return exceeds && exceeds.getPredicate() == arith::CmpFPredicate::UGT &&
         select.getFalseValue() == carried && select.getTrueValue() == exceeds.getLhs();
}

StringRef Matcher::matchState() {
  loop.matchMask();
  loop.matchSum();
  if (!loop.mask)
    return "no mask of the scores";
  if (!loop.sum)
    return "no running sum";
  for (auto [index, next] : llvm::enumerate(loop.keys.getYieldedValues())) {
    bool isKnown = index == loop.outputIndex || index == loop.sum->index ||
                   isRunningMaximum(next, loop.keys.getRegionIterArgs()[index]);
    if (!isKnown)
      return "the loop over keys carries more than output, sum and maximum";
  }
  return "";
}

StringRef Matcher::matchStarts() {
  llvm::SetVector<Value> slice(llvm::from_range, loop.keys.getInitArgs());
  for (unsigned i = 0; i < slice.size(); ++i) {
    Operation *op = slice[i].getDefiningOp();
    if (!op || op->getNumRegions() != 0)
      return "the loop over keys starts from another loop's results";
    if (auto load = dyn_cast<tile::LoadOp>(op))
      loop.starts.push_back(load);
    else
      slice.insert_range(op->getOperands());
  }
  return "";
}

StringRef Matcher::checkPosition() {
  Value position = loop.keys.getInductionVar();
  bool isGeneral = llvm::all_of(position.getUses(), [&](OpOperand &use) {
    auto load = dyn_cast<tile::LoadOp>(use.getOwner());
    if (load)
      return load.getOffsets().front() == position && use.getOperandNumber() == 1;
    return isa<arith::SubIOp>(use.getOwner()) && use.getOperandNumber() == 1;
  });
  return isGeneral ? "" : "the position in the keys is used for more than loads and the mask";
}

void Matcher::matchPrograms() {
  auto programs = loop.keys->getParentOfType<scf::ForOp>();
  if (!programs || !programs->hasAttr(tile::kSideBySideAttr))
    return;
  auto items = dyn_cast<scf::ForOp>(programs->getParentOp());
  auto requests = items ? dyn_cast<scf::ForOp>(items->getParentOp()) : scf::ForOp();
  if (!requests || !isa<tile::KernelOp>(requests->getParentOp()))
    return;
  for (BlockArgument argument : loop.kernel.getBody().getArguments())
    if (loop.kernel.getArgAttr(argument.getArgNumber(), tile::kItemCountersAttr))
      loop.counters = argument;
  if (!loop.counters)
    return;
  loop.programs = programs;
  loop.items = items;
  loop.requests = requests;
}

StringRef Matcher::match() {
  for (auto step : {&Matcher::matchKeys, &Matcher::matchProduct, &Matcher::matchTerms,
                    &Matcher::matchState, &Matcher::matchStarts, &Matcher::checkPosition})
    if (StringRef why = (this->*step)(); !why.empty())
      return why;
  matchPrograms();
  return {};
}

std::optional<DenseAttentionLoop> mlac::matchDenseAttentionLoop(tile::KernelOp kernel,
                                                                std::string &why) {
  Matcher matcher(kernel);
  why = matcher.match().str();
  if (!why.empty())
    return std::nullopt;
  return matcher.loop;
}
