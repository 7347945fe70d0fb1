//===- Emit.cpp - what mla-compile writes short of a package ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emit.h"

#include "mla/Package/PackageFile.h"
#include "mla/Target/Cpu/CompileKernels.h"
#include "mla/Target/Nvptx/CompileKernels.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlac;
using mlir::failed;
using mlir::FailureOr;
using mlir::ModuleOp;
using mlir::OwningOpRef;

llvm::Error mlac::writeResult(llvm::StringRef path, llvm::ArrayRef<uint8_t> bytes) {
  if (path != kStandardOutput)
    return writeFileAtomically(path, bytes);
  llvm::raw_fd_ostream &stream = llvm::outs();
  stream.write(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  stream.flush();
  std::error_code code = stream.error();
  stream.clear_error(); // else the end of the process would be an abort
  if (!code)
    return llvm::Error::success();
  return llvm::createStringError(code, "cannot write to standard output: " + code.message());
}

std::optional<EmitLevel> mlac::parseEmitLevel(llvm::StringRef name) {
  return llvm::StringSwitch<std::optional<EmitLevel>>(name)
      .Case("mla", EmitLevel::Mla)
      .Case("tile", EmitLevel::Tile)
      .Case("sm90", EmitLevel::Sm90)
      .Case("nvvm", EmitLevel::Nvvm)
      .Case("llvm", EmitLevel::Llvm)
      .Case("ptx", EmitLevel::Ptx)
      .Case("cubin", EmitLevel::Cubin)
      .Case("package", EmitLevel::Package)
      .Default(std::nullopt);
}

static bool isCpu(const std::string &target) { return target == "cpu"; }

/// Levels of the GPU path that a CPU target lacks.
static bool hasLevel(const std::string &target, EmitLevel level) {
  return !isCpu(target) || level == EmitLevel::Mla || level == EmitLevel::Tile ||
         level == EmitLevel::Llvm;
}

static std::string print(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  stream << "\n";
  return text;
}

/// The module at a level that is IR of this project or of MLIR.
static FailureOr<OwningOpRef<ModuleOp>> lowerToLevel(EmitLevel level, ModuleOp module,
                                                     const std::string &target,
                                                     const CompileOptions &options) {
  if (level == EmitLevel::Mla)
    return lowerMla(module, target, options);
  FailureOr<OwningOpRef<ModuleOp>> lowered = lowerToTile(module, target, options);
  if (failed(lowered) || level == EmitLevel::Tile)
    return lowered;
  if (isCpu(target))
    return lowerToCpu(**lowered, options);
  lowered = lowerToSm90(**lowered);
  if (failed(lowered) || level == EmitLevel::Sm90)
    return lowered;
  lowered = lowerToNvvm(**lowered);
  if (failed(lowered) || level == EmitLevel::Nvvm)
    return lowered;
  return lowerToNvptx(**lowered);
}

static FailureOr<CompiledKernels> compileCuda(EmitLevel level, ModuleOp nvvm,
                                              const CompileOptions &options) {
  NvptxOptions nvptx;
  nvptx.stage = level == EmitLevel::Llvm  ? NvptxStage::LlvmIr
                : level == EmitLevel::Ptx ? NvptxStage::Ptx
                                          : NvptxStage::Cubin;
  nvptx.assembler = options.assembler;
  nvptx.allowSpills = options.allowSpills;
  nvptx.allowWgmmaMessages = options.allowWgmmaMessages;
  return compileKernels(nvvm, nvptx);
}

/// LLVM IR or PTX of one target.
static FailureOr<std::string> makeText(EmitLevel level, ModuleOp module, const std::string &target,
                                       const CompileOptions &options) {
  FailureOr<OwningOpRef<ModuleOp>> lowered = lowerToLevel(level, module, target, options);
  if (failed(lowered))
    return mlir::failure();
  if (level != EmitLevel::Llvm && level != EmitLevel::Ptx)
    return print(**lowered);
  if (isCpu(target)) {
    std::string error;
    FailureOr<CpuMachine> machine = resolveCpu(options.cpu, error);
    return failed(machine) ? FailureOr<std::string>(mlir::failure())
                           : emitCpuLlvmIr(**lowered, *machine);
  }
  FailureOr<CompiledKernels> compiled = compileCuda(level, **lowered, options);
  if (failed(compiled))
    return mlir::failure();
  std::string text;
  for (const CompiledKernel &kernel : compiled->kernels)
    text += level == EmitLevel::Llvm ? kernel.llvmIr : kernel.ptx;
  return text;
}

static bool takeError(llvm::Error result, std::string &error) {
  if (!result)
    return true;
  error = llvm::toString(std::move(result));
  return false;
}

static bool writeCubins(const CompiledKernels &compiled, const std::string &folder,
                        std::string &error) {
  if (std::error_code code = llvm::sys::fs::create_directories(folder)) {
    error = "cannot make the folder '" + folder + "': " + code.message();
    return false;
  }
  for (const CompiledKernel &kernel : compiled.kernels) {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, kernel.name + ".cubin");
    llvm::ArrayRef<uint8_t> bytes(reinterpret_cast<const uint8_t *>(kernel.cubin.data()),
                                  kernel.cubin.size());
    if (!takeError(writeFileAtomically(path, bytes), error))
      return false;
  }
  return true;
}

static bool emitCubins(const LoadedModel &model, const CompileOptions &options, StageTimer &timer,
                       const std::string &output, std::string &error) {
  if (output.empty() || output == kStandardOutput) {
    error = "--emit=cubin writes one file per kernel: give their folder with -o";
    return false;
  }
  if (options.assembler.kind == AssemblerKind::None) {
    error = "--emit=cubin needs an assembler, got --assembler=none";
    return false;
  }
  timer.begin("sm_90a: compile and assemble");
  FailureOr<OwningOpRef<ModuleOp>> nvvm =
      lowerToLevel(EmitLevel::Cubin, *model.module, "sm_90a", options);
  FailureOr<CompiledKernels> compiled = failed(nvvm)
                                            ? FailureOr<CompiledKernels>(mlir::failure())
                                            : compileCuda(EmitLevel::Cubin, **nvvm, options);
  if (failed(compiled)) {
    error = "no cubin was written";
    return false;
  }
  return writeCubins(*compiled, output, error);
}

bool mlac::emitLevel(EmitLevel level, const LoadedModel &model, const CompileOptions &options,
                     StageTimer &timer, const std::string &output, std::string &error) {
  for (const std::string &target : options.targets)
    if (!hasLevel(target, level)) {
      error = "--emit: the target " + target + " has only mla, tile and llvm; use --target=sm_90a";
      return false;
    }
  if (level == EmitLevel::Cubin)
    return emitCubins(model, options, timer, output, error);
  std::string text;
  for (const std::string &target : options.targets) {
    timer.begin(target + ": lower");
    FailureOr<std::string> part = makeText(level, *model.module, target, options);
    if (failed(part)) {
      error = "nothing was written";
      return false;
    }
    text += *part;
  }
  timer.end();
  llvm::ArrayRef<uint8_t> bytes(reinterpret_cast<const uint8_t *>(text.data()), text.size());
  llvm::StringRef path = output.empty() ? llvm::StringRef(kStandardOutput) : output;
  return takeError(writeResult(path, bytes), error);
}
