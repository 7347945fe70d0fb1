//===- CompileKinds.cpp - one package of several kinds of layers ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Driver/CompileKinds.h"

#include "mla/Driver/LoadModel.h"
#include "mla/Package/PackageFile.h"

using namespace mlac;
using namespace mlir;

/// What most kinds have in common, such as projections, is assembled once.
static CompileOptions shareKernels(const CompileOptions &options) {
  CompileOptions shared = options;
  if (!shared.kernels)
    shared.kernels = std::make_shared<KernelCache>();
  return shared;
}

static FailureOr<std::unique_ptr<package::LayerKindT>>
compileKind(ModuleOp module, const LayerKind &kind, CompileOptions options, StageTimer &timer) {
  options.parsing.layer = kind.layers.front();
  timer.begin(kind.name + ": load layer " + std::to_string(options.parsing.layer));
  FailureOr<OwningOpRef<ModuleOp>> layer = loadSibling(module, options);
  if (failed(layer))
    return failure();
  FailureOr<std::vector<uint8_t>> bytes = compilePackage(**layer, options, timer);
  if (failed(bytes))
    return failure();
  auto packed = std::make_unique<package::LayerKindT>();
  packed->name = kind.name;
  packed->layers.assign(kind.layers.begin(), kind.layers.end());
  packed->package = std::move(*bytes);
  return packed;
}

FailureOr<std::vector<uint8_t>> mlac::compileKinds(ModuleOp module, ArrayRef<LayerKind> kinds,
                                                   const CompileOptions &options,
                                                   StageTimer &timer) {
  CompileOptions shared = shareKernels(options);
  package::PackageT package;
  package.schema_version = kSchemaVersion;
  package.compiler = getCompilerVersion();
  package.options = describeOptions(module, options);
  for (const LayerKind &kind : kinds) {
    FailureOr<std::unique_ptr<package::LayerKindT>> packed =
        compileKind(module, kind, shared, timer);
    if (failed(packed))
      return module.emitError("layers of kind ") << kind.name << " cannot be compiled";
    package.kinds.push_back(std::move(*packed));
  }
  timer.begin("pack kinds");
  llvm::Expected<std::vector<uint8_t>> bytes = packPackage(package);
  timer.end();
  if (!bytes)
    return module.emitError(llvm::toString(bytes.takeError()));
  return std::move(*bytes);
}
