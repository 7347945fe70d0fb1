//===- Pipelines.cpp - the order of passes between levels ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Pipelines/Pipelines.h"

#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"
#include "mla/Dialect/Sm90/Transforms/Passes.h"
#include "mla/Dialect/Tile/Transforms/Passes.h"
#include "mla/Machine/TargetDescription.h"
#include "mla/Machine/TileShapes.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mlac;

/// What a dense attention's loop reaches of the tensor cores' rate, with 192/128 columns
/// (docs/lab/prefill.md).
static constexpr double kDenseReached = 0.85;

/// Time of a FLOP of attention through marks, one over gathered keys being 1: GLM-5.2 breaks even
/// at 7,700 tokens, V3.2 of 128 and 16 heads at 17,000 and 45,000 (docs/lab/sparse.md).
static constexpr double kMaskedCost = 1.15;

/// What steps whose prompts have cached tokens launch besides for masked attention, and what its
/// programs leave idle: an H200's steps of 128 to 1024 tokens behind 512 to 8192 of three layers
/// (docs/lab/sparse.md).
static constexpr double kMaskedChunkMicroseconds = 45;

/// Of scheduled kernels; batch-invariant ones add in an order that no size changes.
static void splitChunks(OpPassManager &passes, const LowerToTileOptions &options) {
  bool isForced = options.numSplits != 0;
  if (!isForced && (!getInfo(options.target).isScheduled || options.batchInvariant >= 0))
    return;
  const TargetDescription &machine = getScheduledMachine();
  const TileShapes &shapes = TileShapes::get(options.target);
  const double cyclesPerMicrosecond = 1000 * machine.sm.clockGhz;
  mla::MlaSplitChunksOptions split;
  split.numSplits = options.numSplits;
  split.programRows = kSides * shapes.queryRows;
  split.blockKeys = machine.tuning.pingPongKeys;
  split.flopsPerCycle = kDenseReached * machine.sm.tensorFlopsPerClock;
  // Its queries, then its keys come from memory, and its rows leave.
  split.itemCycles = std::llround(2 * machine.sm.loadLatencyCycles);
  split.mergeCycles = std::llround(machine.launchMicroseconds * cyclesPerMicrosecond);
  split.turnCycles =
      std::llround(machine.sm.loadLatencyCycles / static_cast<double>(shapes.turnPieces));
  split.bytesPerCycle = machine.tuning.partialShare * machine.readGbps / machine.sm.clockGhz;
  passes.addPass(mla::createMlaSplitChunks(split));
}

void mlac::buildMlaPipeline(OpPassManager &passes, const LowerToTileOptions &options) {
  // Which kernels a request goes through would depend on the others of its step.
  bool skipsSelection = !options.selectAlways && options.batchInvariant < 0;
  mla::MlaSkipSelectionOptions skipSelection;
  skipSelection.mostLatent = TileShapes::get(options.target).maxAccumulatorColumns;
  if (skipsSelection)
    passes.addPass(mla::createMlaSkipSelection(skipSelection));
  if (options.batchInvariant < 0) {
    mla::MlaMaskSelectionOptions maskSelection;
    maskSelection.mode = options.maskSelection;
    maskSelection.headTile = TileShapes::get(options.target).queryRows;
    maskSelection.cost = kMaskedCost;
    if (getInfo(options.target).isScheduled) {
      const TargetDescription &machine = getScheduledMachine();
      maskSelection.chunkFlops = kMaskedChunkMicroseconds * 1e3 * machine.sm.clockGhz *
                                 kDenseReached * machine.sm.tensorFlopsPerClock * machine.numSms;
    }
    passes.addPass(mla::createMlaMaskSelection(maskSelection));
  }
  mla::MlaSplitBatchOptions splitBatch;
  splitBatch.form = options.form;
  splitBatch.sparseMode = options.sparseMode;
  splitBatch.separateHeads = options.separateHeads;
  const TileShapes &shapes = TileShapes::get(options.target);
  splitBatch.mostLatent = shapes.maxAccumulatorColumns;
  splitBatch.mostDecodedLatent = shapes.maxDecodedLatent;
  passes.addPass(mla::createMlaSplitBatch(splitBatch));

  mla::MlaChooseFormOptions chooseForm;
  chooseForm.form = options.form;
  chooseForm.expandFrom = options.expandFrom;
  chooseForm.mostLatent = splitBatch.mostLatent;
  chooseForm.mostDecodedLatent = splitBatch.mostDecodedLatent;
  chooseForm.report = options.report;
  passes.addPass(mla::createMlaChooseForm(chooseForm));

  if (options.mixed != mla::SharePrefixMode::Never) {
    mla::MlaSharePrefixOptions sharePrefix;
    sharePrefix.mode = options.mixed;
    passes.addPass(mla::createMlaSharePrefix(sharePrefix));
  }

  mla::MlaAbsorbWeightsOptions absorbWeights;
  absorbWeights.mode = options.absorb;
  absorbWeights.requantize = options.requantize;
  passes.addPass(mla::createMlaAbsorbWeights(absorbWeights));
  if (options.codedActivations >= 0) { // again: beside what absorption has made codes
    mla::MlaQuantizeActivationsOptions quantize;
    quantize.group = options.codedActivations;
    passes.addPass(mla::createMlaQuantizeActivations(quantize));
  }
  if (skipsSelection) // again: decodes are attention on latents now
    passes.addPass(mla::createMlaSkipSelection(skipSelection));
  passes.addPass(mla::createMlaHoistQueries());
  passes.addPass(mla::createMlaGuardPadding());
  passes.addPass(mla::createMlaHoistPrepare());
  passes.addPass(mla::createMlaChunkContext());
  passes.addPass(mla::createMlaFuseMerge());
  splitChunks(passes, options);

  // Of scheduled kernels the runtime partitions each step's work, unless splits are forced; it
  // knows lengths of requests, not of lists.
  mla::MlaSplitKvOptions splitKv;
  splitKv.numSplits = options.numSplits;
  splitKv.listsOnly = getInfo(options.target).isScheduled && options.numSplits == 0;
  // Lists would be split by the batch's tokens and its longest sequence.
  if (splitKv.listsOnly && options.batchInvariant >= 0)
    splitKv.numSplits = 1;
  const Tuning &tuning = getMachineOf(getInfo(options.target).chip).tuning;
  splitKv.mergeBlocks = tuning.mergeBlocks;
  splitKv.partialRowsPerBlock = tuning.partialRowsPerBlock;
  passes.addPass(mla::createMlaSplitKv(splitKv));
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  // Where one product of both is as wide as the machine likes them.
  if (getInfo(options.target).isScheduled)
    passes.addPass(mla::createMlaJoinProjections());
  mla::MlaFuseAppendOptions fuseAppend;
  fuseAppend.target = options.target;
  passes.addPass(mla::createMlaFuseAppend(fuseAppend));
  mla::MlaFuseGroupedAppendOptions fuseGroupedAppend;
  fuseGroupedAppend.target = options.target;
  passes.addPass(mla::createMlaFuseGroupedAppend(fuseGroupedAppend));
  mla::MlaFuseIndexerOptions fuseIndexer;
  fuseIndexer.target = options.target;
  passes.addPass(mla::createMlaFuseIndexer(fuseIndexer));
  // Behind the indexer's, whose keys have a norm of their own.
  mla::MlaFuseRowsOptions fuseRows;
  fuseRows.target = options.target;
  passes.addPass(mla::createMlaFuseRows(fuseRows));
  passes.addPass(mla::createMlaSliceScores(mla::MlaSliceScoresOptions{options.scoresBudget}));
  mla::MlaSumPartsOptions sumParts;
  sumParts.target = options.target;
  passes.addPass(mla::createMlaSumParts(sumParts));
  mla::MlaStackProjectionsOptions stackProjections;
  stackProjections.target = options.target;
  passes.addPass(mla::createMlaStackProjections(stackProjections));
}

void mlac::buildUnscheduledTilePipeline(OpPassManager &passes, const LowerToTileOptions &options) {
  buildMlaPipeline(passes, options);
  ConvertMlaToTileOptions convert;
  convert.target = options.target;
  convert.persistentProducts = options.schedule != "simple";
  if (options.itemCost >= 0)
    convert.itemCost = options.itemCost;
  if (options.mergeCost >= 0)
    convert.mergeCost = options.mergeCost;
  // By cost (0): the plan needs to know now that cuts are fixed, where comes later.
  convert.fixedBlocks =
      options.batchInvariant < 0 ? 0 : std::max<int64_t>(1, options.batchInvariant);
  passes.addPass(createConvertMlaToTile(convert));
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
}

/// Behind passes that change launches.
static void overlapLaunches(OpPassManager &passes, const LowerToTileOptions &options) {
  if (options.overlapTokens == 0)
    return;
  tile::TileOverlapLaunchesOptions overlap;
  overlap.tokens = options.overlapTokens;
  passes.addPass(tile::createTileOverlapLaunches(overlap));
}

void mlac::buildLowerToTilePipeline(OpPassManager &passes, const LowerToTileOptions &options) {
  buildUnscheduledTilePipeline(passes, options);
  if (!getInfo(options.target).isScheduled)
    return overlapLaunches(passes, options);
  TilePlanSchedulesOptions planSchedules;
  planSchedules.schedule = options.schedule;
  llvm::append_range(planSchedules.parameters, options.scheduleOptions);
  planSchedules.itemCost = options.itemCost;
  planSchedules.mergeCost = options.mergeCost;
  planSchedules.partialCost = options.partialCost;
  planSchedules.batchInvariant = options.batchInvariant;
  passes.addPass(createTilePlanSchedules(planSchedules));
  passes.addPass(tile::createTileLoopOverPrograms());
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  overlapLaunches(passes, options);
}

void mlac::buildTileToSm90Pipeline(OpPassManager &passes) {
  // Only where a schedule asks for it.
  tile::TileLazyRescaleOptions lazy;
  lazy.threshold = 0;
  passes.addNestedPass<tile::KernelOp>(tile::createTileLazyRescale(lazy));
  passes.addNestedPass<tile::KernelOp>(tile::createTileSwapOperands());
  passes.addPass(createConvertTileToSm90());
  OpPassManager &kernels = passes.nest<sm90::KernelOp>();
  kernels.addPass(createCanonicalizerPass());
  kernels.addPass(createCSEPass());
  kernels.addPass(sm90::createSm90InsertProxyFences());
  kernels.addPass(sm90::createSm90PlaceWgmmaFences());
  kernels.addPass(sm90::createSm90AllocateSharedMemory());
}

void mlac::buildSm90ToNvvmPipeline(OpPassManager &passes) {
  passes.addPass(createConvertSm90ToNvvm());
  // Removes a third of a kernel's ops; folding the rest here as well would take ten
  // times as long as LLVM does.
  passes.nest<LLVM::LLVMFuncOp>().addPass(createCSEPass());
}

void mlac::buildNvvmToLlvmPipeline(OpPassManager &passes) {
  passes.nest<LLVM::LLVMFuncOp>().addPass(createConvertNvvmKernelToLlvm());
}

void mlac::registerPipelines() {
  PassPipelineRegistration<LowerToTileOptions>("mla-lower-to-tile",
                                               "from mla (phase 1) to tile kernels and plans",
                                               buildLowerToTilePipeline);
  PassPipelineRegistration<>("tile-to-sm90", "from tile kernels to scheduled sm90 kernels",
                             buildTileToSm90Pipeline);
  PassPipelineRegistration<>("sm90-to-nvvm", "from sm90 kernels to the llvm and nvvm dialects",
                             buildSm90ToNvvmPipeline);
  PassPipelineRegistration<>("nvvm-to-llvm", "what remains of scf, arith and PTX text in kernels",
                             buildNvvmToLlvmPipeline);
}
