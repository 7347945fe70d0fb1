//===- Sm90.cpp - the way to kernels for Hopper ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RunPipeline.h"

#include "mla/Pipelines/Compile.h"
#include "mla/Pipelines/CompileTarget.h"
#include "mla/Pipelines/Pipelines.h"
#include "mla/Target/Nvptx/CompileKernels.h"

using namespace mlir;
using namespace mlac;

/// Attributes that convert-sm90-to-nvvm leaves on a kernel.
static constexpr StringRef kThreadsAttr = "mlac.threads", kSharedBytesAttr = "mlac.shared_bytes",
                           kTensorMapsAttr = "mlac.tensor_maps";

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

/// An integer attribute that a lowering left on a kernel's function.
static FailureOr<int64_t> getLaunchAttr(ModuleOp module, StringRef kernel, StringRef name) {
  Operation *function = module.lookupSymbol(kernel);
  auto value = function ? function->getAttrOfType<IntegerAttr>(name) : IntegerAttr();
  if (!value)
    return module.emitError("kernel '") << kernel << "' has no attribute '" << name << "'";
  return value.getInt();
}

/// [factor, index of a kernel argument or -1].
static package::ScaledArg toScaledArg(Attribute number) {
  ArrayRef<int64_t> pair = cast<DenseI64ArrayAttr>(number).asArrayRef();
  return package::ScaledArg(pair[0], static_cast<int32_t>(pair[1]));
}

/// The launch encodes what convert-sm90-to-nvvm describes.
static std::unique_ptr<package::TensorMapT> toTensorMap(DictionaryAttr description) {
  auto map = std::make_unique<package::TensorMapT>();
  auto toList = [&](StringRef name) {
    auto numbers = cast<ArrayAttr>(description.get(name));
    return std::vector<package::ScaledArg>(llvm::map_range(numbers, toScaledArg).begin(),
                                           llvm::map_range(numbers, toScaledArg).end());
  };
  map->argument = cast<IntegerAttr>(description.get("argument")).getInt();
  map->offset = std::make_unique<package::ScaledArg>(toScaledArg(description.get("offset")));
  map->sizes = toList("sizes");
  map->strides = toList("strides");
  for (int64_t extent : cast<DenseI64ArrayAttr>(description.get("box")).asArrayRef())
    map->box.push_back(static_cast<uint32_t>(extent));
  return map;
}

static LogicalResult addCudaKernel(ModuleOp nvvm, const CompiledKernel &compiled,
                                   package::TargetT &target) {
  FailureOr<int64_t> threads = getLaunchAttr(nvvm, compiled.name, kThreadsAttr);
  FailureOr<int64_t> sharedBytes = getLaunchAttr(nvvm, compiled.name, kSharedBytesAttr);
  if (failed(threads) || failed(sharedBytes))
    return failure();
  auto code = std::make_unique<package::CodeObjectT>();
  code->name = compiled.name;
  code->bytes.assign(compiled.cubin.begin(), compiled.cubin.end());
  if (compiled.cubin.empty()) {
    // Stopped at PTX: the driver assembles text that ends in a zero.
    code->bytes.assign(compiled.ptx.begin(), compiled.ptx.end());
    code->bytes.push_back(0);
  }
  auto kernel = std::make_unique<package::KernelT>();
  kernel->name = kernel->symbol = compiled.name;
  kernel->code = target.code.size();
  kernel->threads = *threads;
  kernel->shared_bytes = *sharedBytes;
  kernel->registers = compiled.report.registers;
  if (auto maps = nvvm.lookupSymbol(compiled.name)->getAttrOfType<ArrayAttr>(kTensorMapsAttr))
    for (auto map : maps.getAsRange<DictionaryAttr>())
      kernel->tensor_maps.push_back(toTensorMap(map));
  target.code.push_back(std::move(code));
  target.kernels.push_back(std::move(kernel));
  return success();
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
    if (failed(addCudaKernel(**nvvm, kernel, target)))
      return failure();
  return success();
}
