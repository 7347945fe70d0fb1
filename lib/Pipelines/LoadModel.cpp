//===- LoadModel.cpp - from a file to an mla module ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Pipelines/Compile.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace mlac;

static InFlightDiagnostic emitFileError(MLIRContext &context, StringRef path) {
  return emitError(FileLineColLoc::get(&context, path, 1, 1));
}

/// The configuration in a safetensors header's metadata.
static FailureOr<std::string> readEmbeddedConfig(MLIRContext &context, StringRef path,
                                                 StringRef content) {
  constexpr size_t kLengthBytes = sizeof(uint64_t);
  if (content.size() < kLengthBytes)
    return emitFileError(context, path)
           << "is no safetensors file: it has only " << content.size() << " bytes";
  uint64_t headerBytes = llvm::support::endian::read64le(content.data());
  if (headerBytes > content.size() - kLengthBytes)
    return emitFileError(context, path) << "is damaged: its header of " << headerBytes
                                        << " bytes exceeds the file of " << content.size();
  llvm::Expected<llvm::json::Value> header =
      llvm::json::parse(content.substr(kLengthBytes, headerBytes));
  if (!header)
    return emitFileError(context, path)
           << "is damaged: its header is no JSON (" << llvm::toString(header.takeError()) << ")";
  const llvm::json::Object *root = header->getAsObject();
  const llvm::json::Object *metadata = root ? root->getObject("__metadata__") : nullptr;
  std::optional<StringRef> config = metadata ? metadata->getString("config") : std::nullopt;
  if (!config)
    return emitFileError(context, path)
           << "has no 'config' in its header metadata; give the model's config.json instead";
  return config->str();
}

static FailureOr<LoadedModel> loadConfig(MLIRContext &context, const std::string &path,
                                         const std::string &text, const CompileOptions &options) {
  ConfigOptions parsing;
  parsing.tensorParallel = options.tensorParallel;
  parsing.latentNormEpsFromConfig = options.latentNormEpsFromConfig;
  llvm::Expected<ModelConfig> config = parseModelConfig(text, parsing);
  if (!config) {
    std::string problems = llvm::toString(config.takeError());
    SmallVector<StringRef> lines;
    StringRef(problems).split(lines, '\n', -1, /*KeepEmpty=*/false);
    for (StringRef line : lines)
      emitFileError(context, path) << line;
    return failure();
  }
  LoadedModel model;
  model.module = importConfig(context, *config, options.import);
  if (!model.module)
    return failure();
  model.origin = {config->modelType, text, config->tensorParallel, getSupportedLength(*config)};
  model.config = std::move(*config);
  return model;
}

static FailureOr<LoadedModel> parseModule(MLIRContext &context, const std::string &path) {
  LoadedModel model;
  model.module = parseSourceFile<ModuleOp>(path, &context);
  if (!model.module)
    return failure();
  if (std::optional<StringRef> name = model.module->getSymName())
    model.origin.modelType = name->str();
  return model;
}

/// Erases the functions that were not asked for.
static LogicalResult keepFunctions(ModuleOp module, const std::vector<std::string> &names) {
  if (names.empty())
    return success();
  for (const std::string &name : names) {
    if (module.lookupSymbol<func::FuncOp>(name))
      continue;
    InFlightDiagnostic error = module.emitError("no function '") << name << "'; there are:";
    for (func::FuncOp function : module.getOps<func::FuncOp>())
      error << " " << function.getSymName();
    return error;
  }
  for (func::FuncOp function : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    if (!llvm::is_contained(names, function.getSymName()))
      function.erase();
  return success();
}

FailureOr<LoadedModel> mlac::loadModel(MLIRContext &context, const std::string &path,
                                       const CompileOptions &options) {
  FailureOr<LoadedModel> model = failure();
  if (StringRef(path).ends_with(".mlir")) {
    model = parseModule(context, path);
  } else {
    auto file = llvm::MemoryBuffer::getFile(path);
    if (!file)
      return emitFileError(context, path) << "cannot be read: " << file.getError().message();
    std::string text = (*file)->getBuffer().str();
    if (StringRef(path).ends_with(".safetensors")) {
      FailureOr<std::string> config = readEmbeddedConfig(context, path, text);
      if (failed(config))
        return failure();
      text = *config;
    }
    model = loadConfig(context, path, text, options);
  }
  if (failed(model) || failed(keepFunctions(*model->module, options.functions)))
    return failure();
  return model;
}
