//===- ChooseForm.cpp - mla-choose-form ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which form wins depends on lengths that a batch type may leave open. Assumes
// nothing of its input; afterwards no attention has form auto. The crossover is
// the FLOP count of mla.md section 12, which is linear in two totals of the
// batch, so that the run-time condition is exact for ragged batches too.
//
//===----------------------------------------------------------------------===//

#include "LayerShape.h"

#include "mla/Analysis/FormReport.h"
#include "mla/Dialect/Mla/Transforms/FormReport.h"
#include "mla/Dialect/Mla/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::mla {
#define GEN_PASS_DEF_MLACHOOSEFORM
#include "mla/Dialect/Mla/Transforms/Passes.h.inc"
} // namespace mlir::mla

using namespace mlir;
using namespace mlir::mla;

/// Context lengths and new tokens (query_len, context_len) at which the report
/// shows the forms: decode, a short extension, and prefill without and with context.
static constexpr std::pair<int64_t, int64_t> kReportPoints[] = {
    {1, 639}, {1, 4095}, {1, 32767}, {4, 4092}, {128, 3968}, {4096, 0}, {4096, 28672}};

/// The form that wins for every batch of this type, or auto if that depends on
/// lengths which it leaves open.
static Form decideStatically(const mlac::LayerDims &dims, BatchType batch) {
  auto choose = [&](int64_t contextLen, int64_t pairs) {
    return mlac::isExpandedCheaper(dims, contextLen, pairs) ? Form::Expanded : Form::Absorbed;
  };
  // Without context both sides of the comparison scale with the pairs.
  if (batch.getContextLen() == 0)
    return choose(0, 1);
  std::optional<double> crossover = mlac::computeCrossover(dims);
  if (!crossover)
    return Form::Absorbed;
  if (!batch.hasStaticQueryLen())
    return Form::Auto;
  int64_t queryLen = batch.getQueryLen();
  if (batch.hasStaticContextLen())
    return choose(batch.getContextLen(), mlac::countAttendedPairs(queryLen, batch.getContextLen()));
  if (queryLen >= *crossover)
    return Form::Expanded;
  // Below the crossover the absorbed form's advantage grows with the context.
  if (choose(1, mlac::countAttendedPairs(queryLen, 1)) == Form::Absorbed)
    return Form::Absorbed;
  return Form::Auto;
}

/// The same where the longest query decides alone.
static Form decideByQuery(int64_t expandFrom, BatchType batch) {
  if (!batch.hasStaticQueryLen())
    return Form::Auto;
  return batch.getQueryLen() >= expandFrom ? Form::Expanded : Form::Absorbed;
}

static Value buildQueryCondition(OpBuilder &builder, Location loc, int64_t expandFrom,
                                 Value batch) {
  Value longest = BatchDimOp::create(builder, loc, builder.getIndexType(), batch, "max_query_len");
  Value least = arith::ConstantIndexOp::create(builder, loc, expandFrom);
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, longest, least);
}

/// `Σ C·Lkv(P+V) <= (2·Lkv−P−V)·ΣA` over the batch.
static Value buildCondition(OpBuilder &builder, Location loc, const mlac::LayerDims &dims,
                            Value batch) {
  auto total = [&](StringRef name, int64_t factor) -> Value {
    Value sum = BatchDimOp::create(builder, loc, builder.getIndexType(), batch, name);
    Value scale = arith::ConstantIndexOp::create(builder, loc, factor);
    return arith::MulIOp::create(builder, loc, sum, scale);
  };
  int64_t headDims = dims.qkNopeHeadDim + dims.vHeadDim;
  Value up = total("total_context_len", dims.kvLoraRank * headDims);
  Value extra = total("attended_pairs", 2 * dims.kvLoraRank - headDims);
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, up, extra);
}

/// Replaces `attention` by a branch with one copy per form. `expandFrom` 0: by cost.
static void versionForm(AttentionOp attention, const mlac::LayerDims &dims, int64_t expandFrom) {
  OpBuilder builder(attention);
  Location loc = attention.getLoc();
  Value condition = expandFrom ? buildQueryCondition(builder, loc, expandFrom, attention.getBatch())
                               : buildCondition(builder, loc, dims, attention.getBatch());
  double crossover = expandFrom ? static_cast<double>(expandFrom) : *mlac::computeCrossover(dims);
  auto yieldForm = [&](Form form) {
    return [&, form](OpBuilder &nested, Location nestedLoc) {
      auto copy = cast<AttentionOp>(nested.clone(*attention));
      copy.setForm(form);
      scf::YieldOp::create(nested, nestedLoc, copy->getResults());
    };
  };
  auto branch = scf::IfOp::create(builder, loc, condition, yieldForm(Form::Expanded),
                                  yieldForm(Form::Absorbed));
  branch->setAttr(kCrossoverAttr, builder.getF64FloatAttr(crossover));
  attention->replaceAllUsesWith(branch);
  attention->erase();
}

SmallVector<mlac::FormProblem> mla::listReportPoints(AttentionOp attention) {
  SmallVector<mlac::FormProblem> points;
  for (auto [queryLen, contextLen] : kReportPoints) {
    mlac::FormProblem point = readFormProblem(attention);
    point.queryLen = queryLen;
    point.contextLen = contextLen;
    points.push_back(point);
  }
  return points;
}

void mla::printFormReport(llvm::raw_ostream &os, AttentionOp attention, ModuleOp module) {
  mlac::printFormReport(os, readTarget(module), listReportPoints(attention));
}

namespace {
struct ChooseForm : mla::impl::MlaChooseFormBase<ChooseForm> {
  using MlaChooseFormBase::MlaChooseFormBase;

  void runOnOperation() override {
    for (const Option<int64_t> *option : {&expandFrom, &mostLatent, &mostDecodedLatent})
      if (*option < 0) {
        emitError(getOperation().getLoc()) << "mla-choose-form: expected " << option->ArgStr
                                           << " >= 0, got " << option->getValue();
        return signalPassFailure();
      }
    SmallVector<AttentionOp> attentions;
    getOperation().walk([&](AttentionOp attention) { attentions.push_back(attention); });
    for (AttentionOp attention : attentions) {
      if (report)
        printFormReport(llvm::errs(), attention, getOperation());
      if (attention.getForm() == Form::Auto)
        resolve(attention);
    }
  }

  void resolve(AttentionOp attention) {
    mlac::LayerDims dims = readLayerDims(attention);
    // Keys that are selected token by token are expanded for nobody else.
    Form chosen = attention.getSelected() ? Form::Absorbed : form;
    bool hasOneQuery = attention.getBatch().getType().getQueryLen() == 1;
    LatentLimits limits{mostLatent, mostDecodedLatent};
    if (chosen == Form::Auto && limits.areExceeded(attention, hasOneQuery))
      chosen = Form::Expanded;
    if (chosen == Form::Auto)
      chosen = expandFrom ? decideByQuery(expandFrom, attention.getBatch().getType())
                          : decideStatically(dims, attention.getBatch().getType());
    if (chosen == Form::Auto)
      versionForm(attention, dims, expandFrom);
    else
      attention.setForm(chosen);
  }
};
} // namespace
