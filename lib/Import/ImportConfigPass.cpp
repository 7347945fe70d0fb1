//===- ImportConfigPass.cpp - the import as a pass ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Mla/IR/WeightScales.h"
#include "mla/Import/InputFile.h"
#include "mla/Import/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/Support/MemoryBuffer.h"

namespace mlac {
#define GEN_PASS_DEF_IMPORTCONFIG
#include "mla/Import/Passes.h.inc"
} // namespace mlac

using namespace mlac;
using namespace mlir;

namespace {

struct ImportConfigPass : mlac::impl::ImportConfigBase<ImportConfigPass> {
  using ImportConfigBase::ImportConfigBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> buffer = readInputFile(config);
    if (!buffer) {
      module.emitError() << "cannot read option config = '" << config
                         << "': " << llvm::toString(buffer.takeError());
      return signalPassFailure();
    }
    ConfigOptions parsing{.tensorParallel = tensorParallel,
                          .latentNormEpsFromConfig = latentNormEpsFromConfig,
                          .dequantisedWeights = dequantisedWeights,
                          .like = like,
                          .indexer = indexer,
                          .layer = layer};
    llvm::Expected<ModelConfig> model = parseModelConfig((*buffer)->getBuffer(), parsing);
    if (!model) {
      llvm::handleAllErrors(model.takeError(), [&](const ConfigError &error) {
        for (const auto &[message, place] : error.problems)
          module.emitError() << config << ":" << place.line << ":" << place.column << ": "
                             << message;
      });
      return signalPassFailure();
    }
    if (decodeThreshold < 0) {
      module.emitError() << "option decode-threshold = " << decodeThreshold.getValue()
                         << ", expected at least 0";
      return signalPassFailure();
    }
    ImportOptions options{.activationType = activationType,
                          .pageSize = pageSize,
                          .form = form,
                          .cacheFormat = cacheFormat,
                          .scaleRule = scaleRule,
                          .decodeThreshold = decodeThreshold,
                          .rotatesIndex = indexHadamard,
                          .roundsStates = roundStates,
                          .indexFormat = indexFormat};
    OwningOpRef<ModuleOp> imported =
        importConfig(getFileLoc(getContext(), config), *model, options);
    if (!imported)
      return signalPassFailure();
    module.getBodyRegion().takeBody(imported->getBodyRegion());
    module.setSymName(imported->getSymName());
    for (StringRef name : {mla::kModelAttr, mla::kWeightScalesAttr})
      if (Attribute value = imported->getOperation()->getAttr(name))
        module->setAttr(name, value);
  }
};

} // namespace
