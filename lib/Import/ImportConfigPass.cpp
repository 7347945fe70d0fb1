//===- ImportConfigPass.cpp - the import as a pass ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

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
    auto buffer = llvm::MemoryBuffer::getFile(config, /*IsText=*/true);
    if (!buffer) {
      module.emitError() << "cannot read option config = '" << config
                         << "': " << buffer.getError().message();
      return signalPassFailure();
    }
    ConfigOptions parsing{.tensorParallel = tensorParallel,
                          .latentNormEpsFromConfig = latentNormEpsFromConfig};
    llvm::Expected<ModelConfig> model = parseModelConfig((*buffer)->getBuffer(), parsing);
    if (!model) {
      SmallVector<StringRef> lines;
      std::string text = llvm::toString(model.takeError());
      StringRef(text).split(lines, '\n');
      for (StringRef line : lines)
        module.emitError() << config << ": " << line;
      return signalPassFailure();
    }
    if (decodeThreshold < 0) {
      module.emitError() << "option decode-threshold = " << decodeThreshold
                         << ", expected at least 0";
      return signalPassFailure();
    }
    ImportOptions options{.activationType = activationType,
                          .pageSize = pageSize,
                          .form = form,
                          .cacheFormat = cacheFormat,
                          .scaleRule = scaleRule,
                          .decodeThreshold = decodeThreshold};
    OwningOpRef<ModuleOp> imported =
        importConfig(getFileLoc(getContext(), config), *model, options);
    if (!imported)
      return signalPassFailure();
    module.getBodyRegion().takeBody(imported->getBodyRegion());
    module.setSymName(imported->getSymName());
  }
};

} // namespace
