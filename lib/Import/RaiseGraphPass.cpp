//===- RaiseGraphPass.cpp - archives and their graphs as passes ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Mla/IR/WeightScales.h"
#include "mla/Import/CacheAttention.h"
#include "mla/Import/InputFile.h"
#include "mla/Import/Passes.h"
#include "mla/Import/RaiseGraph.h"
#include "mla/Import/TorchArchive.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/Support/MemoryBuffer.h"

namespace mlac {
#define GEN_PASS_DEF_CACHEATTENTION
#define GEN_PASS_DEF_IMPORTARCHIVE
#define GEN_PASS_DEF_RAISEGRAPH
#include "mla/Import/Passes.h.inc"
} // namespace mlac

using namespace mlac;
using namespace mlir;

/// The file that an option names; null: a diagnostic says why not.
static std::unique_ptr<llvm::MemoryBuffer> readOption(ModuleOp module, StringRef option,
                                                      StringRef path) {
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> buffer = readInputFile(path);
  if (buffer)
    return std::move(*buffer);
  module.emitError() << "cannot read option " << option << " = '" << path
                     << "': " << llvm::toString(buffer.takeError());
  return nullptr;
}

/// The module's one function; null: a diagnostic says that it has none or several.
static func::FuncOp getGraph(ModuleOp module) {
  auto functions = llvm::to_vector(module.getOps<func::FuncOp>());
  if (functions.size() == 1)
    return functions.front();
  module.emitError() << "has " << functions.size() << " functions, expected one graph";
  return {};
}

namespace {

struct CacheAttentionPass : mlac::impl::CacheAttentionBase<CacheAttentionPass> {
  using CacheAttentionBase::CacheAttentionBase;

  void runOnOperation() override {
    func::FuncOp graph = getGraph(getOperation());
    const AttentionOperator *found = graph ? findOperator() : nullptr;
    if (!found || failed(cacheAttention(graph, *found, pageSize)))
      signalPassFailure();
  }

private:
  /// Null: a diagnostic says which there are.
  const AttentionOperator *findOperator() {
    const AttentionOperator *found = findAttentionOperator(attention);
    if (!found) {
      InFlightDiagnostic diagnostic = getOperation().emitError()
                                      << "option attention is '" << attention
                                      << "', expected one of ";
      llvm::interleaveComma(getAttentionOperators(), diagnostic,
                            [&](const AttentionOperator &each) { diagnostic << each.name; });
    }
    return found;
  }
};

struct ImportArchivePass : mlac::impl::ImportArchiveBase<ImportArchivePass> {
  using ImportArchiveBase::ImportArchiveBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    std::unique_ptr<llvm::MemoryBuffer> file = readOption(module, "archive", archive);
    if (!file)
      return signalPassFailure();
    Location loc = getFileLoc(getContext(), archive);
    llvm::Expected<TorchArchive> content = TorchArchive::open(file->getBuffer());
    if (!content) {
      emitError(loc) << llvm::toString(content.takeError());
      return signalPassFailure();
    }
    OwningOpRef<ModuleOp> graph = importTorchGraph(loc, *content);
    if (!graph)
      return signalPassFailure();
    module.getBodyRegion().takeBody(graph->getBodyRegion());
  }
};

struct RaiseGraphPass : mlac::impl::RaiseGraphBase<RaiseGraphPass> {
  using RaiseGraphBase::RaiseGraphBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    func::FuncOp graph = getGraph(module);
    if (!graph)
      return signalPassFailure();
    std::unique_ptr<llvm::MemoryBuffer> file = readOption(module, "config", config);
    if (!file)
      return signalPassFailure();
    ConfigOptions parsing{.latentNormEpsFromConfig = latentNormEpsFromConfig};
    llvm::Expected<ModelConfig> model = parseModelConfig(file->getBuffer(), parsing);
    if (!model) {
      module.emitError() << config << ": " << llvm::toString(model.takeError());
      return signalPassFailure();
    }
    FailureOr<RaisedLayer> layer = raiseGraph(graph, *model, {.activationType = activationType});
    if (failed(layer))
      return signalPassFailure();
    ModuleOp raised = *layer->module;
    module.getBodyRegion().takeBody(raised.getBodyRegion());
    module.setSymName(raised.getSymName());
    for (StringRef name : {mla::kModelAttr, mla::kWeightScalesAttr})
      if (Attribute value = raised->getAttr(name))
        module->setAttr(name, value);
  }
};

} // namespace
