//===- Compile.cpp - from a module to a package ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Driver/Compile.h"

#include "RunPipeline.h"

#include "mla/Dialect/Mla/IR/ModuleTarget.h"
#include "mla/Dialect/Mla/IR/WeightScales.h"
#include "mla/Dialect/Mla/Transforms/FormReport.h"
#include "mla/Dialect/Tile/IR/TileDialect.h"
#include "mla/Driver/CompileTarget.h"
#include "mla/Machine/TargetDescription.h"
#include "mla/Package/ModelDescription.h"
#include "mla/Package/PackageFile.h"
#include "mla/Package/PlanSerializer.h"
#include "mla/Pipelines/Pipelines.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"

#include <utility>

using namespace mlir;
using namespace mlac;

//===----------------------------------------------------------------------===//
// Stages and options
//===----------------------------------------------------------------------===//

void StageTimer::begin(const std::string &name) {
  end();
  running = name;
  started = std::chrono::steady_clock::now();
  if (onBegin)
    onBegin(name);
}

void StageTimer::end() {
  if (running.empty())
    return;
  std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - started;
  finished.push_back({running, elapsed.count()});
  running.clear();
}

static StringRef stringifyAbsorb(mla::AbsorbMode mode) {
  switch (mode) {
  case mla::AbsorbMode::Online:
    return "online";
  case mla::AbsorbMode::Offline:
    return "offline";
  case mla::AbsorbMode::HalfQuery:
    return "half-query";
  case mla::AbsorbMode::HalfOutput:
    return "half-output";
  case mla::AbsorbMode::Auto:
    return "auto";
  }
  llvm_unreachable("unknown absorb mode");
}

static StringRef stringifyCodesUse(CodesUse use) {
  switch (use) {
  case CodesUse::Off:
    return "off";
  case CodesUse::Auto:
    return "auto";
  case CodesUse::Weights:
    return "weights";
  case CodesUse::Both:
    return "both";
  }
  llvm_unreachable("unknown use of codes");
}

/// Of the functions that split their batch; 0: none.
static int64_t getDecodeThreshold(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>())
    if (auto threshold = function->getAttrOfType<IntegerAttr>(mla::kDecodeThresholdAttr))
      return threshold.getInt();
  return 0;
}

std::string mlac::describeOptions(ModuleOp module, const CompileOptions &options) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  StringRef imported = getModel(module).getOptions();
  stream << "--target=" << llvm::join(options.targets, ",") << (imported.empty() ? "" : " ")
         << imported;
  stream << " --form=" << stringifyForm(options.import.form)
         << " --absorb=" << stringifyAbsorb(options.absorb);
  if (options.expandFrom > 0)
    stream << " --expand-from=" << options.expandFrom;
  if (options.keepCodes != CodesUse::Off)
    stream << " --keep-codes=" << stringifyCodesUse(options.keepCodes);
  if (options.requantisesAbsorbed)
    stream << " --absorbed=codes";
  if (!options.functions.empty())
    stream << " --functions=" << llvm::join(options.functions, ",");
  if (int64_t threshold = getDecodeThreshold(module); threshold > 1)
    stream << " --decode-threshold=" << threshold;
  if (options.mixed != mla::SharePrefixMode::Never)
    stream << " --mixed=" << (options.mixed == mla::SharePrefixMode::Auto ? "auto" : "always");
  if (options.sparseMode != mla::SparseMode::Mixed)
    stream << " --sparse-mode="
           << (options.sparseMode == mla::SparseMode::Auto ? "auto" : "separate");
  if (options.separateHeads != mla::kSeparateHeads)
    stream << " --separate-heads=" << options.separateHeads;
  if (options.selectAlways)
    stream << " --select-always";
  if (options.maskSelection != mla::MaskMode::Auto)
    stream << " --mask-selection="
           << (options.maskSelection == mla::MaskMode::Never ? "never" : "always");
  if (options.scoresBudget != mla::kScoresBudget)
    stream << " --scores-budget=" << options.scoresBudget;
  if (options.overlapTokens >= 0)
    stream << " --overlap-tokens=" << options.overlapTokens;
  if (options.numSplits != 0)
    stream << " --num-splits=" << options.numSplits;
  if (options.schedule != "auto")
    stream << " --schedule=" << options.schedule;
  for (const std::string &option : options.scheduleOptions)
    stream << " --schedule-option=" << option;
  for (const std::string &kernel : options.kernelSchedules)
    stream << " --kernel-schedule=" << kernel;
  if (options.batchInvariant >= 0)
    stream << " --batch-invariant=" << options.batchInvariant;
  if (options.itemCost >= 0)
    stream << " --item-cost=" << options.itemCost;
  if (options.mergeCost >= 0)
    stream << " --merge-cost=" << options.mergeCost;
  if (options.partialCost >= 0)
    stream << " --partial-cost=" << options.partialCost;
  for (const CompileTarget *target : getCompileTargets())
    if (llvm::is_contained(options.targets, target->getName()))
      stream << target->describeOptions(options);
  return text;
}

std::string mlac::getCompilerVersion() {
  return "mlac " MLAC_VERSION " (LLVM " LLVM_VERSION_STRING ")";
}

//===----------------------------------------------------------------------===//
// Levels
//===----------------------------------------------------------------------===//

/// The type of what the model computes on is its cache's, if any function has one.
static bool computesInF32(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>())
    for (Type type : function.getArgumentTypes())
      if (auto cache = dyn_cast<mla::CacheType>(type))
        return cache.getElement().isF32();
  return false;
}

/// The rates of the machine that decisions by cost are made for.
static mla::TargetAttr getCostTarget(ModuleOp module, StringRef target) {
  const TargetDescription &rates = getMachineOf(target);
  return mla::TargetAttr::get(module.getContext(), rates.name, rates.numSms,
                              Real(computesInF32(module) ? rates.f32Tflops : rates.matmulTflops),
                              Real(rates.readGbps), Real(rates.launchMicroseconds));
}

/// Activations have the groups of the weights' blocks (mla-quantize-activations).
static int64_t getActivationGroup(ModuleOp module, const CompileOptions &options) {
  auto block = module->getAttrOfType<DenseI64ArrayAttr>(mla::kWeightScalesAttr);
  bool isAsked = options.requantisesAbsorbed && options.keepCodes == CodesUse::Both;
  return isAsked && block ? block[1] : -1;
}

static void setOptions(LowerToTileOptions &lowering, const std::string &target,
                       const CompileOptions &options) {
  lowering.target = findCompileTarget(target)->info.target;
  lowering.form = options.import.form;
  lowering.expandFrom = options.expandFrom;
  lowering.absorb = options.absorb;
  lowering.requantize = options.requantisesAbsorbed;
  lowering.mixed = options.mixed;
  lowering.sparseMode = options.sparseMode;
  lowering.separateHeads = options.separateHeads;
  lowering.scoresBudget = options.scoresBudget;
  lowering.selectAlways = options.selectAlways;
  lowering.maskSelection = options.maskSelection;
  lowering.overlapTokens = options.overlapTokens >= 0 ? options.overlapTokens
                                                      : getMachineOf(target).tuning.overlapTokens;
  lowering.numSplits = options.numSplits;
  lowering.schedule = options.schedule;
  for (const std::string &option : options.scheduleOptions)
    lowering.scheduleOptions.push_back(option);
  for (const std::string &kernel : options.kernelSchedules)
    lowering.scheduleOptions.push_back(kernel);
  lowering.batchInvariant = options.batchInvariant;
  lowering.itemCost = options.itemCost;
  lowering.mergeCost = options.mergeCost;
  lowering.partialCost = options.partialCost;
}

/// All steps have the same layer, so the first attention tells what its forms cost.
static void reportCost(llvm::raw_ostream &os, ModuleOp module) {
  module.walk([&](mla::AttentionOp attention) {
    mla::printFormReport(os, attention, module);
    return WalkResult::interrupt();
  });
}

static FailureOr<OwningOpRef<ModuleOp>>
lowerWith(ModuleOp module, const std::string &target, const CompileOptions &options,
          void (*build)(OpPassManager &, const LowerToTileOptions &)) {
  OwningOpRef<ModuleOp> copy = module.clone();
  // These say nothing to the levels below.
  copy->getOperation()->removeAttr(mla::kModelAttr);
  if (!options.requantisesAbsorbed) // which asks for the blocks
    copy->getOperation()->removeAttr(mla::kWeightScalesAttr);
  if (!copy->getOperation()->hasAttr(mla::kTargetAttr))
    copy->getOperation()->setAttr(mla::kTargetAttr, getCostTarget(module, target));
  if (options.costReport)
    reportCost(*options.costReport, *copy);
  LowerToTileOptions lowering;
  setOptions(lowering, target, options);
  lowering.codedActivations = getActivationGroup(module, options);
  return runOnCopy(*copy, [&](OpPassManager &passes) { build(passes, lowering); });
}

FailureOr<OwningOpRef<ModuleOp>> mlac::lowerMla(ModuleOp module, const std::string &target,
                                                const CompileOptions &options) {
  return lowerWith(module, target, options, buildMlaPipeline);
}

FailureOr<OwningOpRef<ModuleOp>> mlac::lowerToTile(ModuleOp module, const std::string &target,
                                                   const CompileOptions &options) {
  return lowerWith(module, target, options, buildLowerToTilePipeline);
}

FailureOr<std::vector<AttentionKernel>> mlac::listAttentionKernels(ModuleOp module,
                                                                   const std::string &target,
                                                                   const CompileOptions &options) {
  FailureOr<OwningOpRef<ModuleOp>> lowered =
      lowerWith(module, target, options, buildUnscheduledTilePipeline);
  if (failed(lowered))
    return failure();
  return findAttentionKernels(**lowered);
}

//===----------------------------------------------------------------------===//
// Packages
//===----------------------------------------------------------------------===//

FailureOr<std::unique_ptr<package::TargetT>> mlac::compileTarget(ModuleOp tileModule,
                                                                 const std::string &name,
                                                                 const CompileOptions &options,
                                                                 StageTimer &timer) {
  auto target = std::make_unique<package::TargetT>();
  target->arch = name;
  if (failed(findCompileTarget(name)->compile(tileModule, options, timer, *target)))
    return failure();
  timer.begin(name + ": serialise plans");
  KernelIndex kernels;
  for (auto [index, kernel] : llvm::enumerate(target->kernels))
    kernels[kernel->name] = index;
  for (tile::PlanOp plan : tileModule.getOps<tile::PlanOp>()) {
    FailureOr<std::unique_ptr<package::FunctionT>> function = serializePlan(plan, kernels);
    if (failed(function))
      return failure();
    target->functions.push_back(std::move(*function));
  }
  return target;
}

FailureOr<std::vector<uint8_t>> mlac::compilePackage(ModuleOp module, const CompileOptions &options,
                                                     StageTimer &timer) {
  package::PackageT package;
  if (failed(describeModel(module, package)))
    return failure();
  package.schema_version = kSchemaVersion;
  package.compiler = getCompilerVersion();
  package.options = describeOptions(module, options);
  for (const std::string &name : options.targets) {
    timer.begin(name + ": lower to tile");
    FailureOr<OwningOpRef<ModuleOp>> tileModule = lowerToTile(module, name, options);
    if (failed(tileModule) || failed(addDerivedTensors(**tileModule, package)))
      return failure();
    FailureOr<std::unique_ptr<package::TargetT>> target =
        compileTarget(**tileModule, name, options, timer);
    if (failed(target))
      return failure();
    package.targets.push_back(std::move(*target));
  }
  timer.begin("pack");
  llvm::Expected<std::vector<uint8_t>> bytes = packPackage(package);
  timer.end();
  if (!bytes)
    return module.emitError(llvm::toString(bytes.takeError()));
  return std::move(*bytes);
}
