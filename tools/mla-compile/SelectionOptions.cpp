//===- SelectionOptions.cpp - which keys sparse layers attend to, and how ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SelectionOptions.h"

#include "EnumOption.h"
#include "Progress.h"

using namespace mlac;
namespace cl = llvm::cl;

cl::OptionCategory mlac::attentionCategory("Attention and functions");

static EnumOption<mlir::mla::SparseMode> sparseMode(
    "sparse-mode", cl::init(mlir::mla::SparseMode::Mixed), cl::cat(attentionCategory),
    cl::desc("How the prefills of a sparse layer read a cache of codes (default mixed):"),
    cl::values(
        clEnumValN(mlir::mla::SparseMode::Mixed, "mixed", "as decodes do, from the pool"),
        clEnumValN(mlir::mla::SparseMode::Separate, "separate",
                   "from a workspace of 16-bit rows, into which whole requests are gathered"),
        clEnumValN(mlir::mla::SparseMode::Auto, "auto",
                   "separate from --separate-heads heads of a rank on")));
static cl::opt<int64_t>
    separateHeads("separate-heads", cl::init(mlir::mla::kSeparateHeads), cl::value_desc("n"),
                  cl::cat(attentionCategory),
                  cl::desc("Heads of a rank from which on --sparse-mode=auto is separate (32)"));
static cl::opt<bool> selectAlways(
    "select-always", cl::cat(attentionCategory),
    cl::desc("Let indexers select in every step: by default decodes, and prompts without cached "
             "tokens, of no more keys than are selected attend to all of them"));
static EnumOption<mlir::mla::MaskMode> maskSelection(
    "mask-selection", cl::init(mlir::mla::MaskMode::Auto), cl::cat(attentionCategory),
    cl::desc("When prompts score all keys and leave out those that were not selected (default "
             "auto):"),
    cl::values(clEnumValN(mlir::mla::MaskMode::Never, "never", "selected keys are gathered"),
               clEnumValN(mlir::mla::MaskMode::Auto, "auto", "where that takes fewer FLOPs"),
               clEnumValN(mlir::mla::MaskMode::Always, "always", "whatever it takes")));
static cl::opt<int64_t>
    scoresBudget("scores-budget", cl::init(mlir::mla::kScoresBudget), cl::value_desc("bytes"),
                 cl::cat(attentionCategory),
                 cl::desc("Memory of an indexer's scores: steps with more make them and select in "
                          "slices of their tokens, of 64 at least (256 MiB)"));

bool mlac::readSelection(CompileOptions &options) {
  if (scoresBudget < 1)
    return fail("--scores-budget: expected at least 1 byte, got " +
                llvm::Twine(scoresBudget.getValue()));
  if (separateHeads < 1)
    return fail("--separate-heads: expected at least 1, got " + llvm::Twine(separateHeads));
  options.sparseMode = sparseMode;
  options.separateHeads = separateHeads;
  options.scoresBudget = scoresBudget;
  options.selectAlways = selectAlways;
  options.maskSelection = maskSelection;
  return true;
}
