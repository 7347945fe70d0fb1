//===- Cpu.cpp - the way to a CPU image ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RunPipeline.h"

#include "mla/Driver/Compile.h"
#include "mla/Driver/CompileTarget.h"
#include "mla/Target/Cpu/CompileKernels.h"

using namespace mlir;
using namespace mlac;

namespace {
class CpuTarget : public CompileTarget {
public:
  CpuTarget() : CompileTarget(TileTarget::Cpu) {}

  llvm::ArrayRef<CompileLevel> getLevels() const override {
    static constexpr CompileLevel kLevels[] = {{"llvm"}};
    return kLevels;
  }
  bool takesF32() const override { return true; }

  bool check(const CompileOptions &options, llvm::StringRef, std::string &error) const override {
    if (succeeded(resolveCpu(options.cpu, error)))
      return true;
    error = "--cpu: " + error;
    return false;
  }
  std::string describeOptions(const CompileOptions &options) const override {
    return " --cpu=" + options.cpu;
  }

  FailureOr<std::vector<EmittedCode>> emit(ModuleOp tileModule, llvm::StringRef level,
                                           const CompileOptions &options) const override;
  LogicalResult compile(ModuleOp tileModule, const CompileOptions &options, StageTimer &timer,
                        package::TargetT &target) const override;
};
} // namespace

const CompileTarget &mlac::getCpuTarget() {
  static const CpuTarget target;
  return target;
}

/// The processor of `options`, or an error at `module`.
static FailureOr<CpuMachine> getMachine(ModuleOp module, const CompileOptions &options) {
  std::string error;
  FailureOr<CpuMachine> machine = resolveCpu(options.cpu, error);
  if (failed(machine))
    return module.emitError("--cpu: ") << error;
  return machine;
}

static FailureOr<OwningOpRef<ModuleOp>> lowerToLlvm(ModuleOp tileModule,
                                                    const CpuMachine &machine) {
  return runOnKernels(tileModule,
                      [&](OpPassManager &passes) { addTileToLlvmPasses(passes, machine.lanes); });
}

FailureOr<std::vector<EmittedCode>> CpuTarget::emit(ModuleOp tileModule, llvm::StringRef,
                                                    const CompileOptions &options) const {
  FailureOr<CpuMachine> machine = getMachine(tileModule, options);
  if (failed(machine))
    return failure();
  FailureOr<OwningOpRef<ModuleOp>> llvmModule = lowerToLlvm(tileModule, *machine);
  if (failed(llvmModule))
    return failure();
  FailureOr<std::string> text = emitCpuLlvmIr(**llvmModule, *machine);
  if (failed(text))
    return failure();
  return std::vector<EmittedCode>{{"", std::move(*text)}};
}

LogicalResult CpuTarget::compile(ModuleOp tileModule, const CompileOptions &options,
                                 StageTimer &timer, package::TargetT &target) const {
  target.kind = package::TargetKind::Cpu;
  timer.begin(getName() + ": lower to llvm");
  FailureOr<CpuMachine> machine = getMachine(tileModule, options);
  if (failed(machine))
    return failure();
  FailureOr<OwningOpRef<ModuleOp>> llvmModule = lowerToLlvm(tileModule, *machine);
  if (failed(llvmModule))
    return failure();
  timer.begin(getName() + ": compile and link");
  FailureOr<CpuImage> image = compileCpuKernels(**llvmModule, *machine);
  if (failed(image))
    return failure();
  target.arch = image->arch;
  target.features = image->features;
  target.assembler = image->assembler;
  target.code.push_back(std::make_unique<package::CodeObjectT>());
  target.code.back()->name = "image";
  target.code.back()->bytes.assign(image->bytes.begin(), image->bytes.end());
  for (const CpuKernelInfo &info : image->kernels) {
    auto kernel = std::make_unique<package::KernelT>();
    kernel->name = kernel->symbol = info.name;
    kernel->threads = 1;
    kernel->scratch_bytes = info.scratchBytes;
    target.kernels.push_back(std::move(kernel));
  }
  return success();
}
