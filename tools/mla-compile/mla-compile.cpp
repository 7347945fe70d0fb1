//===- mla-compile.cpp - compiles a model's attention into a package ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Diagnostics.h"
#include "Explain/Explain.h"
#include "Mains.h"
#include "Options.h"
#include "Progress.h"
#include "Tune.h"

#include "mla/Driver/CompileKinds.h"
#include "mla/Driver/Emit.h"
#include "mla/Driver/LoadModel.h"
#include "mla/Package/PackageFile.h"
#include "mla/RegisterAll.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/InitLLVM.h"

using namespace mlac;

/// The page of --explain, empty without it.
static bool makePage(mlir::ModuleOp module, const Invocation &invocation,
                     llvm::ArrayRef<uint8_t> package, StageTimer &timer, std::string &page) {
  if (invocation.explanation.empty())
    return true;
  timer.begin("explain");
  llvm::Expected<std::string> made = explain(module, invocation.options, package);
  timer.end();
  if (!made)
    return fail("--explain: " + llvm::toString(made.takeError()));
  page = std::move(*made);
  return true;
}

/// The kinds of layers that are compiled, of a model that has several; none: the one loaded.
static bool findKinds(mlir::ModuleOp module, const Invocation &invocation,
                      std::vector<LayerKind> &kinds) {
  if (invocation.namesLayer || invocation.simulation || invocation.level != kPackageLevel ||
      !isConfigFile(invocation.input))
    return true;
  mlir::FailureOr<std::vector<LayerKind>> found = loadLayerKinds(module, invocation.options);
  if (mlir::failed(found))
    return fail("cannot compile '" + invocation.input + "'");
  if (found->size() < 2)
    return true;
  if (invocation.tuning || !invocation.explanation.empty()) {
    std::string layers;
    for (const LayerKind &kind : *found)
      layers += (layers.empty() ? "" : ", ") + std::to_string(kind.layers.front()) + " (" +
                kind.name + ")";
    return fail(llvm::Twine(invocation.tuning ? "--tune" : "--explain") +
                " is for one kind of layers: expected a --layer such as " + layers);
  }
  kinds = std::move(*found);
  return true;
}

/// The page comes last, so that there is none without its package.
static bool writePackage(mlir::ModuleOp module, llvm::ArrayRef<LayerKind> kinds,
                         const Invocation &invocation, StageTimer &timer) {
  mlir::FailureOr<std::vector<uint8_t>> bytes =
      kinds.empty() ? compilePackage(module, invocation.options, timer)
                    : compileKinds(module, kinds, invocation.options, timer);
  if (mlir::failed(bytes))
    return fail("no package was written");
  std::string page;
  if (!makePage(module, invocation, *bytes, timer, page))
    return false;
  if (llvm::Error error = writeResult(invocation.output, *bytes))
    return fail(llvm::toString(std::move(error)));
  if (!page.empty())
    if (llvm::Error error = writeResult(
            invocation.explanation, {reinterpret_cast<const uint8_t *>(page.data()), page.size()}))
      return fail("--explain: " + llvm::toString(std::move(error)) + "; the package '" +
                  invocation.output + "' was written");
  endProgress();
  if (!isSilent())
    llvm::errs() << invocation.output << llvm::format(": %.2f MB\n", bytes->size() / 1e6);
  return true;
}

static bool writeLevel(mlir::ModuleOp module, const Invocation &invocation, StageTimer &timer) {
  std::string error;
  bool done =
      emitLevel(invocation.level, module, invocation.options, timer, invocation.output, error);
  timer.end();
  endProgress();
  return done || fail(error);
}

/// Whether both names are of one file that is there; what is no regular file can be read and
/// written.
static bool isSameFile(llvm::StringRef path, llvm::StringRef other) {
  return llvm::sys::fs::is_regular_file(path) && llvm::sys::fs::equivalent(path, other);
}

/// Whether what is written to one is lost by what is written to the other.
static bool isOneOutput(llvm::StringRef path, llvm::StringRef other) {
  return isSameFile(path, other) || (path == other && !llvm::sys::fs::exists(path));
}

/// What cannot be written is found before the work is done, and that an input or another output
/// would be replaced.
static bool checkFiles(const Invocation &invocation) {
  const CompileOptions &options = invocation.options;
  if (invocation.simulation)
    return true;
  const std::string inputs[] = {getModelFile(invocation.input), options.archiveConfig};
  // A folder of one file per kernel is made where it is not there.
  std::string output = isBinaryLevel(invocation.level) ? "" : invocation.output;
  std::string tuneCache = invocation.tuning ? invocation.tuning->cachePath : "";
  llvm::SmallVector<std::string> outputs;
  for (const auto &[option, path] : {std::pair("", output),
                                     {"--explain: ", invocation.explanation},
                                     {"--tune-cache: ", tuneCache},
                                     {"--write-weights: ", options.weightsFile},
                                     {"--partial: ", options.regionsFile},
                                     {"--mask-inputs: ", options.masksFile},
                                     {"--cached: ", options.cachedFile}}) {
    if (path.empty() || path == kStandardOutput)
      continue;
    for (const std::string &read : inputs)
      if (isSameFile(path, read))
        return fail(option + std::string("cannot write '") + path + "': it is an input");
    for (const std::string &other : outputs)
      if (isOneOutput(path, other))
        return fail(option + std::string("expected a file of its own, got '") + path + "'");
    outputs.push_back(path);
    if (llvm::Error error = checkWritable(path))
      return fail(option + llvm::toString(std::move(error)));
  }
  return true;
}

static bool run(Invocation &invocation) {
  if (!checkFiles(invocation))
    return false;
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  // Errors name what is wrong; the IR around it is what mla-opt shows.
  context.printOpOnDiagnostic(false);
  DiagnosticPrinter diagnostics(context,
                                invocation.wantsScheduleReport ? invocation.reports : nullptr);
  StageTimer timer(showStage);

  timer.begin("load " + invocation.input);
  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> module =
      loadModel(context, invocation.input, invocation.options);
  if (mlir::failed(module))
    return fail("cannot compile '" + invocation.input + "'");
  std::vector<LayerKind> kinds;
  if (!checkModule(**module, invocation) || !findKinds(**module, invocation, kinds))
    return false;
  if (invocation.tuning) {
    timer.begin("tune");
    if (llvm::Error error = tune(**module, *invocation.tuning, invocation.options))
      return fail("--tune: " + llvm::toString(std::move(error)));
  }
  if (invocation.simulation) {
    timer.begin("simulate " + invocation.simulation->kernel);
    llvm::Error error =
        simulateKernel(**module, invocation.options, *invocation.simulation, *invocation.reports);
    endProgress();
    return !error || fail("--simulate: " + llvm::toString(std::move(error)));
  }
  bool done = invocation.level == kPackageLevel ? writePackage(**module, kinds, invocation, timer)
                                                : writeLevel(**module, invocation, timer);
  if (done && invocation.wantsTiming)
    printTiming(timer);
  return done;
}

int mlac::compileMain(int argc, char **argv) {
  watchStandardStreams("mla-compile");
  llvm::InitLLVM init(argc, argv);
  Invocation invocation;
  return readInvocation(argc, argv, invocation) && run(invocation) ? EXIT_SUCCESS : EXIT_FAILURE;
}
