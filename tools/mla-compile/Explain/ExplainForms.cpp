//===- ExplainForms.cpp - what the forms of the attention cost ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Explain/Sections.h"
#include "report/Plot.h"

#include "mla/Dialect/Mla/Transforms/FormReport.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>

using namespace mlac;

/// All steps have the same layer, so the first one stands for all.
static mlir::mla::AttentionOp findAttention(mlir::ModuleOp module) {
  mlir::mla::AttentionOp found;
  module.walk([&](mlir::mla::AttentionOp attention) {
    found = attention;
    return mlir::WalkResult::interrupt();
  });
  return found;
}

static FormProblem withHitRate(FormProblem problem) {
  problem.l2HitRate = std::max(problem.l2HitRate, estimateL2HitRate(problem));
  return problem;
}

static void addCosts(report::Page &page, const TargetDescription &machine,
                     llvm::ArrayRef<FormProblem> points) {
  report::Table table;
  table.header = {"new, cached", "form", "FLOPs of the core", "FLOPs", "bytes", "predicted us"};
  table.textColumns = 2;
  for (const FormProblem &point : points) {
    FormProblem problem = withHitRate(point);
    for (FormVariant variant : kAllFormVariants) {
      FormCost cost = computeFormCost(problem, variant);
      table.rows.push_back(
          {std::to_string(problem.queryLen) + ", " + std::to_string(problem.contextLen),
           getName(variant).str(), report::formatScaled(cost.coreFlops()),
           report::formatScaled(cost.totalFlops()), report::formatScaled(cost.totalBytes()),
           report::format(cost.predictMicroseconds(machine), 4)});
    }
  }
  page.subsection("Cost of a layer by form, one request");
  page.table(table);
}

static void addCrossover(report::Page &page, const TargetDescription &machine,
                         const FormProblem &given) {
  constexpr int64_t kContexts[] = {0, 4096, 32768}, kMostTokens = 4096;
  report::LogPlot plot;
  plot.xLabel = "new tokens of a request";
  plot.yLabel = "predicted time of the layer, us";
  for (int64_t context : kContexts)
    for (FormVariant variant : {FormVariant::Expanded, FormVariant::AbsorbedOnline}) {
      report::Series series{getName(variant).str() + ", " + std::to_string(context) + " cached",
                            {},
                            /*isLine=*/true};
      for (int64_t tokens = 1; tokens <= kMostTokens; tokens *= 2) {
        FormProblem problem = given;
        problem.queryLen = tokens;
        problem.contextLen = context;
        double time = computeFormCost(withHitRate(problem), variant).predictMicroseconds(machine);
        series.marks.push_back({static_cast<double>(tokens), time,
                                series.name + ", " + std::to_string(tokens) +
                                    " new: " + report::format(time, 4) + " us"});
      }
      plot.series.push_back(std::move(series));
    }
  std::string caption = "The expanded form never needs fewer FLOPs with these dimensions.";
  if (std::optional<double> crossover = computeCrossover(given.dims))
    caption = "By FLOPs the expanded form wins from " + report::format(*crossover, 4) +
              " new tokens on, whatever the context; by time, where its curve falls below.";
  page.figure(report::draw(plot), caption);
}

void mlac::explainForms(report::Page &page, const Explained &explained) {
  mlir::mla::AttentionOp attention = findAttention(explained.module);
  if (!attention) {
    page.paragraph("No attention to latents whose form could be chosen.");
    return;
  }
  llvm::SmallVector<FormProblem> points = mlir::mla::listReportPoints(attention);
  addCosts(page, explained.machine, points);
  page.subsection("Crossover of the forms");
  addCrossover(page, explained.machine, points.front());
}
