//===- Sm90.cpp - the way to kernels for Hopper ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RunPipeline.h"

#include "mla/Dialect/KernelAttrs.h"
#include "mla/Driver/Compile.h"
#include "mla/Driver/CompileTarget.h"
#include "mla/Package/CudaKernels.h"
#include "mla/Pipelines/Pipelines.h"
#include "mla/Target/Nvptx/CompileKernels.h"

using namespace mlir;
using namespace mlac;

namespace {
class Sm90Target : public CompileTarget {
public:
  Sm90Target() : CompileTarget(TileTarget::Sm90) {}

  llvm::ArrayRef<CompileLevel> getLevels() const override {
    static constexpr CompileLevel kLevels[] = {
        {"sm90"}, {"nvvm"}, {"llvm"}, {"ptx"}, {"cubin", /*isBinary=*/true}};
    return kLevels;
  }
  bool takesF32() const override { return false; }

  bool check(const CompileOptions &options, llvm::StringRef level,
             std::string &error) const override {
    if (level != "cubin" || options.assembler.kind != AssemblerKind::None)
      return true;
    error = "--emit=cubin needs an assembler, got --assembler=none";
    return false;
  }
  std::string describeOptions(const CompileOptions &options) const override {
    return " --assembler=" + stringifyAssemblerKind(options.assembler.kind).str();
  }

  FailureOr<std::vector<EmittedCode>> emit(ModuleOp tileModule, llvm::StringRef level,
                                           const CompileOptions &options) const override;
  LogicalResult compile(ModuleOp tileModule, const CompileOptions &options, StageTimer &timer,
                        package::TargetT &target) const override;

private:
  NvptxOptions makeNvptxOptions(NvptxStage stage, const CompileOptions &options) const;
};
} // namespace

const CompileTarget &mlac::getSm90Target() {
  static const Sm90Target target;
  return target;
}

//===----------------------------------------------------------------------===//
// Levels
//===----------------------------------------------------------------------===//

static FailureOr<OwningOpRef<ModuleOp>> lowerToSm90(ModuleOp tileModule) {
  return runOnKernels(tileModule, buildTileToSm90Pipeline);
}

static FailureOr<OwningOpRef<ModuleOp>> lowerToNvvm(ModuleOp sm90Module) {
  return runOnCopy(sm90Module, buildSm90ToNvvmPipeline);
}

static FailureOr<OwningOpRef<ModuleOp>> lowerToNvptx(ModuleOp nvvmModule) {
  return runOnCopy(nvvmModule, buildNvvmToLlvmPipeline);
}

NvptxOptions Sm90Target::makeNvptxOptions(NvptxStage stage, const CompileOptions &options) const {
  NvptxOptions nvptx;
  nvptx.stage = stage;
  nvptx.chip = getName();
  nvptx.assembler = options.assembler;
  nvptx.allowSpills = options.allowSpills;
  nvptx.allowWgmmaMessages = options.allowWgmmaMessages;
  return nvptx;
}

static std::vector<EmittedCode> print(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  stream << "\n";
  return {{"", std::move(text)}};
}

FailureOr<std::vector<EmittedCode>> Sm90Target::emit(ModuleOp tileModule, llvm::StringRef level,
                                                     const CompileOptions &options) const {
  FailureOr<OwningOpRef<ModuleOp>> lowered = lowerToSm90(tileModule);
  if (failed(lowered))
    return failure();
  if (level == "sm90")
    return print(**lowered);
  if (failed(lowered = lowerToNvvm(**lowered)))
    return failure();
  if (level == "nvvm")
    return print(**lowered);
  if (failed(lowered = lowerToNvptx(**lowered)))
    return failure();
  NvptxStage stage = level == "llvm"  ? NvptxStage::LlvmIr
                     : level == "ptx" ? NvptxStage::Ptx
                                      : NvptxStage::Cubin;
  FailureOr<CompiledKernels> compiled = compileKernels(**lowered, makeNvptxOptions(stage, options));
  if (failed(compiled))
    return failure();
  std::vector<EmittedCode> code;
  if (stage == NvptxStage::Cubin) {
    for (const CompiledKernel &kernel : compiled->kernels)
      code.push_back({kernel.name, std::string(kernel.cubin.begin(), kernel.cubin.end())});
    return code;
  }
  code.resize(1);
  for (const CompiledKernel &kernel : compiled->kernels)
    code.front().bytes += stage == NvptxStage::Ptx ? kernel.ptx : kernel.llvmIr;
  return code;
}

//===----------------------------------------------------------------------===//
// Packages
//===----------------------------------------------------------------------===//

/// Stopped at PTX: the driver assembles text that ends in a zero.
static std::vector<char> toDriverText(const std::string &ptx) {
  std::vector<char> text(ptx.begin(), ptx.end());
  text.push_back(0);
  return text;
}

LogicalResult Sm90Target::compile(ModuleOp tileModule, const CompileOptions &options,
                                  StageTimer &timer, package::TargetT &target) const {
  target.kind = package::TargetKind::Cuda;
  timer.begin(target.arch + ": schedule kernels");
  FailureOr<OwningOpRef<ModuleOp>> sm90 = lowerToSm90(tileModule);
  if (failed(sm90))
    return failure();
  timer.begin(target.arch + ": lower to nvvm");
  FailureOr<OwningOpRef<ModuleOp>> nvvm = lowerToNvvm(**sm90);
  if (failed(nvvm) || failed(nvvm = lowerToNvptx(**nvvm)))
    return failure();
  timer.begin(target.arch + ": compile and assemble");
  bool isPtx = options.assembler.kind == AssemblerKind::None;
  NvptxOptions nvptx = makeNvptxOptions(isPtx ? NvptxStage::Ptx : NvptxStage::Cubin, options);
  nvptx.cache = options.kernels.get();
  FailureOr<CompiledKernels> compiled = compileKernels(**nvvm, nvptx);
  if (failed(compiled))
    return failure();
  target.assembler = compiled->assembler;
  for (const CompiledKernel &kernel : compiled->kernels)
    if (failed(addCudaKernel(**nvvm,
                             {kernel.name,
                              kernel.cubin.empty() ? toDriverText(kernel.ptx) : kernel.cubin,
                              kernel.report.registers},
                             target)))
      return failure();
  return success();
}
