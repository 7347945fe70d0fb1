//===- Compile.h - from a module to a package ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What mla-compile does with a loaded module (LoadModel.h), as functions: lower it for
// each target, compile the kernels, and put the package together. Nothing here prints
// except diagnostics; a caller follows with StageTimer.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DRIVER_COMPILE_H
#define MLA_DRIVER_COMPILE_H

#include "mla/Conversion/TileToSm90/AttentionKernels.h"
#include "mla/Dialect/Mla/Transforms/Passes.h"
#include "mla/Import/ImportConfig.h"
#include "mla/Machine/Targets.h"
#include "mla/Target/Nvptx/CompileKernels.h"
#include "package_generated.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mlac {

/// Times stages and reports each as it begins.
class StageTimer {
public:
  struct Stage {
    std::string name;
    double seconds;
  };
  explicit StageTimer(std::function<void(const std::string &)> onBegin = {})
      : onBegin(std::move(onBegin)) {}

  /// Ends the running stage and begins another.
  void begin(const std::string &name);
  void end();
  const std::vector<Stage> &stages() const { return finished; }

private:
  std::function<void(const std::string &)> onBegin;
  std::vector<Stage> finished;
  std::string running;
  std::chrono::steady_clock::time_point started;
};

/// What products read as codes where a checkpoint stores codes: nothing, weights where that is
/// predicted to be faster on the first target, weights, or activations, too.
enum class CodesUse { Off, Auto, Weights, Both };

struct CompileOptions {
  /// Names of CompileTargets, in the package's order.
  std::vector<std::string> targets = {getTargetInfos().front().chip.str()};
  /// Of a configuration; a module says all this itself, except the form.
  ConfigOptions parsing;
  ImportOptions import;
  /// Of an archive: the model's config.json, if the archive does not hold one, and the file that
  /// its layer's weights are written to, if any.
  std::string archiveConfig, weightsFile;
  /// Of an archive whose graph holds attention layers beside other things: where their places in it
  /// are written to.
  std::string regionsFile;
  /// Of an archive of layers: where the inputs that are taken as their masks and rope's tables
  /// are written to.
  std::string masksFile;
  /// Of an archive whose attention is to read caches: where what replaces its nodes is written to.
  std::string cachedFile;
  bool isGraphChecked = false; ///< of an archive: the caller answers for what is not proven
  /// Step functions to keep; empty: all.
  std::vector<std::string> functions;
  int64_t expandFrom = 0; ///< new tokens from which on form auto is expanded; 0: by cost
  mlir::mla::AbsorbMode absorb = mlir::mla::AbsorbMode::Online;
  /// mla-keep-codes, mla-quantize-activations.
  CodesUse keepCodes = CodesUse::Off;
  /// Whether what absorption multiplies by becomes codes in the checkpoint's blocks.
  bool requantisesAbsorbed = false;
  /// Whether decodes attend apart to prefixes that they share.
  mlir::mla::SharePrefixMode mixed = mlir::mla::SharePrefixMode::Never;
  mlir::mla::SparseMode sparseMode = mlir::mla::SparseMode::Mixed;
  int64_t separateHeads = mlir::mla::kSeparateHeads;
  /// Bytes of an indexer's scores, beyond which they are made in slices.
  int64_t scoresBudget = mlir::mla::kScoresBudget;
  mlir::mla::MaskMode maskSelection = mlir::mla::MaskMode::Auto;
  bool selectAlways = false; ///< indexers select where that is all keys, too
  /// Tokens of a step, up to which launches that do not wait for each other run on two streams; 0:
  /// never; negative: as the machine likes it (Tuning::overlapTokens).
  int64_t overlapTokens = -1;
  int64_t numSplits = 0; ///< 0: from the batch and the machine
  /// "auto" or a schedule of attention kernels, and forced parameters, key=value.
  std::string schedule = "auto";
  std::vector<std::string> scheduleOptions;
  /// For one kernel each, instead of the two above: kernel:kind:key=value:...
  std::vector<std::string> kernelSchedules;
  int64_t batchInvariant = -1; ///< blocks; 0: by cost; -1: requests are cut by the batch
  /// What a piece of attention and merging pieces cost, in blocks; negative: by the
  /// cost model.
  double itemCost = -1, mergeCost = -1, partialCost = -1;
  llvm::raw_ostream *costReport = nullptr; ///< where to print every form's cost
  std::string cpu = "x86-64-v3";           ///< or "x86-64-v4", "native"
  AssemblerOptions assembler;
  bool allowSpills = false;
  bool allowWgmmaMessages = false;
  /// For callers that compile variants of one model; may be null.
  std::shared_ptr<KernelCache> kernels;
};

/// Everything of a loaded module's import and of `options` that shapes a package, as a
/// command line.
std::string describeOptions(mlir::ModuleOp module, const CompileOptions &options);

/// Name and version of this compiler, as packages record it.
std::string getCompilerVersion();

/// The levels on the way down, each from a copy of the one before.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
lowerMla(mlir::ModuleOp module, const std::string &target, const CompileOptions &options);
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
lowerToTile(mlir::ModuleOp module, const std::string &target, const CompileOptions &options);
/// The attention kernels of the model on a scheduled target, before schedules are chosen.
mlir::FailureOr<std::vector<AttentionKernel>> listAttentionKernels(mlir::ModuleOp module,
                                                                   const std::string &target,
                                                                   const CompileOptions &options);

/// Kernels and functions of one target.
mlir::FailureOr<std::unique_ptr<package::TargetT>> compileTarget(mlir::ModuleOp tileModule,
                                                                 const std::string &target,
                                                                 const CompileOptions &options,
                                                                 StageTimer &timer);

/// All targets, packed.
mlir::FailureOr<std::vector<uint8_t>>
compilePackage(mlir::ModuleOp module, const CompileOptions &options, StageTimer &timer);

} // namespace mlac

#endif // MLA_DRIVER_COMPILE_H
