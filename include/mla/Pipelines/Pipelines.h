//===- Pipelines.h - the order of passes between levels ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The only place that orders passes. mla-opt runs the same pipelines by name:
//
//   mla-lower-to-tile{target=cpu|sm90 form=… absorb=… num-splits=… schedule=… report}
//       mla (phase 1) -> tile.plan and tile.kernel, on sm90 with their schedules
//   tile-to-sm90      tile.kernel -> sm90.kernel, fences and shared memory placed
//   sm90-to-nvvm      sm90.kernel -> llvm.func with nvvm, scf and arith operations
//   nvvm-to-llvm      -> llvm and those nvvm operations that are intrinsics
//   tile-to-cpu-llvm{lanes=8|16}  (mla/Target/Cpu) tile.kernel -> llvm.func
//
// tile.plan operations do not survive the conversions below tile: whoever needs
// them takes them from the module before (lib/Driver/Compile.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef MLA_PIPELINES_PIPELINES_H
#define MLA_PIPELINES_PIPELINES_H

#include "mla/Conversion/Passes.h"
#include "mla/Dialect/Mla/Transforms/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

namespace mlac {

struct LowerToTileOptions : mlir::PassPipelineOptions<LowerToTileOptions> {
  Option<TileTarget> target{*this, "target", llvm::cl::desc("machine whose tile shapes are used"),
                            llvm::cl::init(TileTarget::Cpu), getTileTargetValues()};
  Option<mlir::mla::Form> form{
      *this, "form", llvm::cl::desc("form of attentions that leave it open"),
      llvm::cl::init(mlir::mla::Form::Auto),
      llvm::cl::values(
          clEnumValN(mlir::mla::Form::Auto, "auto", "by cost, else at run time"),
          clEnumValN(mlir::mla::Form::Expanded, "expanded", "keys and values per head"),
          clEnumValN(mlir::mla::Form::Absorbed, "absorbed", "attend on the latents"))};
  Option<int64_t> expandFrom{
      *this, "expand-from",
      llvm::cl::desc("new tokens from which on form=auto is expanded; 0: by cost"),
      llvm::cl::init(0)};
  Option<mlir::mla::AbsorbMode> absorb{
      *this, "absorb", llvm::cl::desc("where absorbed head projections go"),
      llvm::cl::init(mlir::mla::AbsorbMode::Online),
      llvm::cl::values(
          clEnumValN(mlir::mla::AbsorbMode::Online, "online", "per-head products in the step"),
          clEnumValN(mlir::mla::AbsorbMode::Offline, "offline", "folded on both sides"),
          clEnumValN(mlir::mla::AbsorbMode::HalfQuery, "half-query", "folded into W_UQ only"),
          clEnumValN(mlir::mla::AbsorbMode::HalfOutput, "half-output", "folded into W_O only"),
          clEnumValN(mlir::mla::AbsorbMode::Auto, "auto", "least predicted time"))};
  Option<bool> requantize{
      *this, "requantize",
      llvm::cl::desc("what absorption multiplies by becomes codes in the source's blocks"),
      llvm::cl::init(false)};
  Option<int64_t> codedActivations{
      *this, "coded-activations",
      llvm::cl::desc("columns that have one scale where activations that such codes are multiplied "
                     "with become codes (0: all of a token); -1: they do not"),
      llvm::cl::init(-1)};
  Option<mlir::mla::SharePrefixMode> mixed{
      *this, "mixed", llvm::cl::desc("when prefixes that requests share are attended to apart"),
      llvm::cl::init(mlir::mla::SharePrefixMode::Never),
      llvm::cl::values(
          clEnumValN(mlir::mla::SharePrefixMode::Never, "never", "always absorbed"),
          clEnumValN(mlir::mla::SharePrefixMode::Auto, "auto", "by predicted time"),
          clEnumValN(mlir::mla::SharePrefixMode::Always, "always", "wherever there is one"))};
  Option<mlir::mla::SparseMode> sparseMode{
      *this, "sparse-mode", llvm::cl::desc("how prefills of sparse layers read codes"),
      llvm::cl::init(mlir::mla::SparseMode::Mixed),
      llvm::cl::values(
          clEnumValN(mlir::mla::SparseMode::Mixed, "mixed", "as decodes, from the pool"),
          clEnumValN(mlir::mla::SparseMode::Separate, "separate", "from a gathered workspace"),
          clEnumValN(mlir::mla::SparseMode::Auto, "auto", "separate with many heads"))};
  Option<int64_t> separateHeads{
      *this, "separate-heads",
      llvm::cl::desc("heads of a rank from which on sparse-mode=auto is separate"),
      llvm::cl::init(mlir::mla::kSeparateHeads)};
  Option<bool> selectAlways{
      *this, "select-always",
      llvm::cl::desc("let indexers select where requests have no more keys than they select, too"),
      llvm::cl::init(false)};
  Option<mlir::mla::MaskMode> maskSelection{
      *this, "mask-selection",
      llvm::cl::desc("when prompts see selected keys through a mask over all"),
      llvm::cl::init(mlir::mla::MaskMode::Auto),
      llvm::cl::values(
          clEnumValN(mlir::mla::MaskMode::Never, "never", "selected keys are gathered"),
          clEnumValN(mlir::mla::MaskMode::Auto, "auto", "where that takes fewer FLOPs"),
          clEnumValN(mlir::mla::MaskMode::Always, "always", "wherever there is memory for it"))};
  Option<int64_t> scoresBudget{
      *this, "scores-budget",
      llvm::cl::desc("bytes of an indexer's scores, beyond which they are made in slices"),
      llvm::cl::init(mlir::mla::kScoresBudget)};
  Option<int64_t> numSplits{*this, "num-splits",
                            llvm::cl::desc("KV splits; 0: from the batch and the machine"),
                            llvm::cl::init(0)};
  Option<std::string> schedule{
      *this, "schedule", llvm::cl::desc("schedule of attention kernels (tile-plan-schedules)"),
      llvm::cl::init("auto")};
  ListOption<std::string> scheduleOptions{
      *this, "schedule-option",
      llvm::cl::desc("forced parameters of schedules, key=value; or, "
                     "for one kernel, kernel:kind:key=value:...")};
  Option<int64_t> batchInvariant{
      *this, "batch-invariant",
      llvm::cl::desc("blocks between the cuts of requests; 0: by cost; -1: cut by the batch"),
      llvm::cl::init(-1)};
  Option<double> itemCost{*this, "item-cost",
                          llvm::cl::desc("cost of a piece of attention, in blocks of keys; "
                                         "negative: by the cost model"),
                          llvm::cl::init(-1)};
  Option<double> mergeCost{*this, "merge-cost",
                           llvm::cl::desc("cost of merging pieces, in blocks of keys; negative: "
                                          "by the cost model"),
                           llvm::cl::init(-1)};
  Option<double> partialCost{*this, "partial-cost",
                             llvm::cl::desc("cost of a token's partial result, in blocks of keys; "
                                            "negative: by the cost model"),
                             llvm::cl::init(-1)};
  Option<int64_t> overlapTokens{
      *this, "overlap-tokens",
      llvm::cl::desc(
          "tokens of a step, up to which launches that do not wait for each other run on "
          "two streams; 0: on one"),
      llvm::cl::init(0)};
  Option<bool> report{*this, "report", llvm::cl::desc("print the cost of every form"),
                      llvm::cl::init(false)};
};

/// Decides and decomposes: the part of mla-lower-to-tile that stays in `mla`.
void buildMlaPipeline(mlir::OpPassManager &passes, const LowerToTileOptions &options);
/// The part of mla-lower-to-tile before schedules are chosen.
void buildUnscheduledTilePipeline(mlir::OpPassManager &passes, const LowerToTileOptions &options);
void buildLowerToTilePipeline(mlir::OpPassManager &passes, const LowerToTileOptions &options);
void buildTileToSm90Pipeline(mlir::OpPassManager &passes);
void buildSm90ToNvvmPipeline(mlir::OpPassManager &passes);
/// To what compileKernels (mla/Target/Nvptx) takes, kernel by kernel in parallel.
void buildNvvmToLlvmPipeline(mlir::OpPassManager &passes);

/// Registers the pipelines by name.
void registerPipelines();

} // namespace mlac

#endif // MLA_PIPELINES_PIPELINES_H
