//===- LoadModel.h - from a file to an mla module ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A front end turns a file into a module of phase 1 of the `mla` dialect. From there on
// nothing knows which one it was: what no operation holds is the module's #mla.model.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DRIVER_LOADMODEL_H
#define MLA_DRIVER_LOADMODEL_H

#include "mla/Driver/Compile.h"
#include "mla/Import/LayerKinds.h"

namespace mlac {

/// Whether the file is a module, for which there is nothing to import.
bool isModuleFile(llvm::StringRef path);
/// Whether the file is a configuration, or a folder that holds one.
bool isConfigFile(llvm::StringRef path);
/// Whether the file is a torch.export archive.
bool isArchiveFile(llvm::StringRef path);
/// The file that is read of a model: of a folder its config.json.
std::string getModelFile(llvm::StringRef path);
/// A name without the extension of a front end.
llvm::StringRef getModelStem(llvm::StringRef path);

/// Loads a file by the front end of its name's ending, of a folder its config.json, and keeps the
/// steps of `options.functions`. Errors go to the context's diagnostics.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
loadModel(mlir::MLIRContext &context, const std::string &path, const CompileOptions &options);

/// The layer `options.parsing.layer` of the configuration that `module` was loaded from; the file
/// is not read again.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> loadSibling(mlir::ModuleOp module,
                                                               const CompileOptions &options);

/// The kinds of layers of the configuration that `module` was loaded from (LayerKinds.h). Errors go
/// to the context's diagnostics, at their places in the file.
mlir::FailureOr<std::vector<LayerKind>> loadLayerKinds(mlir::ModuleOp module,
                                                       const CompileOptions &options);

} // namespace mlac

#endif // MLA_DRIVER_LOADMODEL_H
