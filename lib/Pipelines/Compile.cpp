//===- Compile.cpp - from a model to a package ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Pipelines/Compile.h"

#include "mla/Machine/TargetDescription.h"
#include "mla/Dialect/Mla/Transforms/FormReport.h"
#include "mla/Dialect/Tile/IR/TileDialect.h"
#include "mla/Import/PackageModel.h"
#include "mla/Package/PackageFile.h"
#include "mla/Package/PlanSerializer.h"
#include "mla/Pipelines/Pipelines.h"
#include "mla/Target/Cpu/CompileKernels.h"
#include "mla/Target/Nvptx/CompileKernels.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"

#include <utility>

using namespace mlir;
using namespace mlac;

/// Attributes that convert-sm90-to-nvvm leaves on a kernel.
static constexpr StringRef kThreadsAttr = "mlac.threads", kSharedBytesAttr = "mlac.shared_bytes",
                           kTensorMapsAttr = "mlac.tensor_maps";

//===----------------------------------------------------------------------===//
// Stages and options
//===----------------------------------------------------------------------===//

void StageTimer::begin(const std::string &name) {
  end();
  running = name;
  started = std::chrono::steady_clock::now();
  if (onBegin)
    onBegin(name);
}

void StageTimer::end() {
  if (running.empty())
    return;
  std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - started;
  finished.push_back({running, elapsed.count()});
  running.clear();
}

static StringRef stringifyActivation(ActivationType type) {
  switch (type) {
  case ActivationType::BF16:
    return "bf16";
  case ActivationType::F16:
    return "f16";
  case ActivationType::F32:
    return "f32";
  }
  llvm_unreachable("unknown activation type");
}

static StringRef stringifyAbsorb(mla::AbsorbMode mode) {
  switch (mode) {
  case mla::AbsorbMode::Online:
    return "online";
  case mla::AbsorbMode::Offline:
    return "offline";
  case mla::AbsorbMode::HalfQuery:
    return "half-query";
  case mla::AbsorbMode::HalfOutput:
    return "half-output";
  case mla::AbsorbMode::Auto:
    return "auto";
  }
  llvm_unreachable("unknown absorb mode");
}

static void describeImport(llvm::raw_ostream &stream, const CompileOptions &options) {
  stream << " --tp=" << options.tensorParallel
         << " --dtype=" << stringifyActivation(options.import.activationType)
         << " --page-size=" << options.import.pageSize
         << (options.import.cacheFormat.empty() ? "" : " --cache-format=")
         << options.import.cacheFormat;
  if (options.import.scaleRule != mla::ScaleRule::Raw)
    stream << " --scale-rule=" << stringifyScaleRule(options.import.scaleRule);
}

std::string mlac::describeOptions(const CompileOptions &options) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << "--target=" << llvm::join(options.targets, ",");
  if (!options.takesModule)
    describeImport(stream, options);
  stream << " --form=" << stringifyForm(options.import.form)
         << " --absorb=" << stringifyAbsorb(options.absorb);
  if (!options.functions.empty())
    stream << " --functions=" << llvm::join(options.functions, ",");
  if (options.import.decodeThreshold > 1)
    stream << " --decode-threshold=" << options.import.decodeThreshold;
  if (options.mixed != mla::SharePrefixMode::Never)
    stream << " --mixed=" << (options.mixed == mla::SharePrefixMode::Auto ? "auto" : "always");
  if (options.numSplits != 0)
    stream << " --num-splits=" << options.numSplits;
  if (options.schedule != "auto")
    stream << " --schedule=" << options.schedule;
  for (const std::string &option : options.scheduleOptions)
    stream << " --schedule-option=" << option;
  for (const std::string &kernel : options.kernelSchedules)
    stream << " --kernel-schedule=" << kernel;
  if (options.batchInvariant >= 0)
    stream << " --batch-invariant=" << options.batchInvariant;
  if (options.itemCost >= 0)
    stream << " --item-cost=" << options.itemCost;
  if (options.mergeCost >= 0)
    stream << " --merge-cost=" << options.mergeCost;
  if (options.partialCost >= 0)
    stream << " --partial-cost=" << options.partialCost;
  if (options.latentNormEpsFromConfig)
    stream << " --norm-eps-from-config";
  if (options.dequantisedWeights)
    stream << " --dequantised-weights";
  if (llvm::is_contained(options.targets, "cpu"))
    stream << " --cpu=" << options.cpu;
  if (llvm::is_contained(options.targets, sm90::kChip))
    stream << " --assembler=" << stringifyAssemblerKind(options.assembler.kind);
  return text;
}

std::string mlac::getCompilerVersion() {
  return "mlac " MLAC_VERSION " (LLVM " LLVM_VERSION_STRING ")";
}

//===----------------------------------------------------------------------===//
// Levels
//===----------------------------------------------------------------------===//

/// Runs a pipeline on a copy of `module`.
static FailureOr<OwningOpRef<ModuleOp>> runOnCopy(ModuleOp module,
                                                  llvm::function_ref<void(OpPassManager &)> build) {
  OwningOpRef<ModuleOp> copy = module.clone();
  PassManager passes(module.getContext(), ModuleOp::getOperationName());
  build(passes);
  if (failed(passes.run(*copy)))
    return failure();
  return copy;
}

/// The same without the plans, which the conversions below tile do not keep.
static FailureOr<OwningOpRef<ModuleOp>>
runOnKernels(ModuleOp module, llvm::function_ref<void(OpPassManager &)> build) {
  OwningOpRef<ModuleOp> copy = module.clone();
  for (tile::PlanOp plan : llvm::make_early_inc_range(copy->getOps<tile::PlanOp>()))
    plan.erase();
  return runOnCopy(*copy, build);
}

/// The rates of the machine that decisions by cost are made for.
static mla::TargetAttr getCostTarget(MLIRContext *context, StringRef target,
                                     ActivationType activation) {
  const TargetDescription &rates = getMachineOf(target);
  bool isF32 = activation == ActivationType::F32;
  return mla::TargetAttr::get(context, rates.name, rates.numSms,
                              mla::Real(isF32 ? rates.f32Tflops : rates.matmulTflops),
                              mla::Real(rates.readGbps), mla::Real(rates.launchMicroseconds));
}

static void setOptions(LowerToTileOptions &lowering, const std::string &target,
                       const CompileOptions &options) {
  lowering.target = target == sm90::kChip ? TileTarget::Sm90 : TileTarget::Cpu;
  lowering.form = options.import.form;
  lowering.absorb = options.absorb;
  lowering.mixed = options.mixed;
  lowering.numSplits = options.numSplits;
  lowering.schedule = options.schedule;
  for (const std::string &option : options.scheduleOptions)
    lowering.scheduleOptions.push_back(option);
  for (const std::string &kernel : options.kernelSchedules)
    lowering.scheduleOptions.push_back(kernel);
  lowering.batchInvariant = options.batchInvariant;
  lowering.itemCost = options.itemCost;
  lowering.mergeCost = options.mergeCost;
  lowering.partialCost = options.partialCost;
}

/// All steps have the same layer, so the first attention tells what its forms cost.
static void reportCost(llvm::raw_ostream &os, ModuleOp module) {
  module.walk([&](mla::AttentionOp attention) {
    mla::printFormReport(os, attention, module);
    return WalkResult::interrupt();
  });
}

static FailureOr<OwningOpRef<ModuleOp>>
lowerWith(ModuleOp module, const std::string &target, const CompileOptions &options,
          void (*build)(OpPassManager &, const LowerToTileOptions &)) {
  OwningOpRef<ModuleOp> copy = module.clone();
  if (!copy->getOperation()->hasAttr("mla.target"))
    copy->getOperation()->setAttr(
        "mla.target", getCostTarget(module.getContext(), target, options.import.activationType));
  if (options.costReport)
    reportCost(*options.costReport, *copy);
  LowerToTileOptions lowering;
  setOptions(lowering, target, options);
  return runOnCopy(*copy, [&](OpPassManager &passes) { build(passes, lowering); });
}

FailureOr<OwningOpRef<ModuleOp>> mlac::lowerMla(ModuleOp module, const std::string &target,
                                                const CompileOptions &options) {
  return lowerWith(module, target, options, buildMlaPipeline);
}

FailureOr<OwningOpRef<ModuleOp>> mlac::lowerToTile(ModuleOp module, const std::string &target,
                                                   const CompileOptions &options) {
  return lowerWith(module, target, options, buildLowerToTilePipeline);
}

FailureOr<std::vector<AttentionKernel>> mlac::listAttentionKernels(ModuleOp module,
                                                                   const CompileOptions &options) {
  FailureOr<OwningOpRef<ModuleOp>> lowered =
      lowerWith(module, sm90::kChip, options, buildUnscheduledTilePipeline);
  if (failed(lowered))
    return failure();
  return findAttentionKernels(**lowered);
}

FailureOr<OwningOpRef<ModuleOp>> mlac::lowerToSm90(ModuleOp tileModule) {
  return runOnKernels(tileModule, buildTileToSm90Pipeline);
}

FailureOr<OwningOpRef<ModuleOp>> mlac::lowerToNvvm(ModuleOp sm90Module) {
  return runOnCopy(sm90Module, buildSm90ToNvvmPipeline);
}

FailureOr<OwningOpRef<ModuleOp>> mlac::lowerToNvptx(ModuleOp nvvmModule) {
  return runOnCopy(nvvmModule, buildNvvmToLlvmPipeline);
}

/// The processor of `options`, or an error at `module`.
static FailureOr<CpuMachine> getMachine(ModuleOp module, const CompileOptions &options) {
  std::string error;
  FailureOr<CpuMachine> machine = resolveCpu(options.cpu, error);
  if (failed(machine))
    return module.emitError("--cpu: ") << error;
  return machine;
}

FailureOr<OwningOpRef<ModuleOp>> mlac::lowerToCpu(ModuleOp tileModule,
                                                  const CompileOptions &options) {
  FailureOr<CpuMachine> machine = getMachine(tileModule, options);
  if (failed(machine))
    return failure();
  return runOnKernels(tileModule,
                      [&](OpPassManager &passes) { addTileToLlvmPasses(passes, machine->lanes); });
}

//===----------------------------------------------------------------------===//
// Kernels
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

static LogicalResult compileForCuda(ModuleOp tileModule, const CompileOptions &options,
                                    StageTimer &timer, package::TargetT &target) {
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
  NvptxOptions nvptx;
  nvptx.stage = options.assembler.kind == AssemblerKind::None ? NvptxStage::Ptx : NvptxStage::Cubin;
  nvptx.assembler = options.assembler;
  nvptx.allowSpills = options.allowSpills;
  nvptx.allowWgmmaMessages = options.allowWgmmaMessages;
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

static LogicalResult compileForCpu(ModuleOp tileModule, const CompileOptions &options,
                                   StageTimer &timer, package::TargetT &target) {
  target.kind = package::TargetKind::Cpu;
  timer.begin("cpu: lower to llvm");
  FailureOr<CpuMachine> machine = getMachine(tileModule, options);
  FailureOr<OwningOpRef<ModuleOp>> llvmModule = lowerToCpu(tileModule, options);
  if (failed(machine) || failed(llvmModule))
    return failure();
  timer.begin("cpu: compile and link");
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

FailureOr<std::unique_ptr<package::TargetT>> mlac::compileTarget(ModuleOp tileModule,
                                                                 const std::string &name,
                                                                 const CompileOptions &options,
                                                                 StageTimer &timer) {
  auto target = std::make_unique<package::TargetT>();
  target->arch = name;
  LogicalResult compiled = name == sm90::kChip ? compileForCuda(tileModule, options, timer, *target)
                                               : compileForCpu(tileModule, options, timer, *target);
  if (failed(compiled))
    return failure();
  timer.begin(name + ": serialise plans");
  KernelIndex kernels;
  for (auto [index, kernel] : llvm::enumerate(target->kernels))
    kernels[kernel->name] = index;
  for (tile::PlanOp plan : tileModule.getOps<tile::PlanOp>()) {
    FailureOr<std::unique_ptr<package::FunctionT>> function = serializePlan(plan, kernels);
    if (failed(function))
      return failure();
    target->functions.push_back(std::move(*function));
  }
  return target;
}

LogicalResult mlac::describePackage(const LoadedModel &model, const CompileOptions &options,
                                    package::PackageT &package) {
  if (!model.config)
    return describeModelFromIr(*model.module, model.origin, package);
  describeModel(*model.config, options.import, model.origin.configText, package);
  return success();
}

FailureOr<std::vector<uint8_t>>
mlac::compilePackage(const LoadedModel &model, const CompileOptions &options, StageTimer &timer) {
  ModuleOp module = *model.module;
  package::PackageT package;
  package.schema_version = kPackageSchemaVersion;
  package.compiler = getCompilerVersion();
  package.options = describeOptions(options);
  if (failed(describePackage(model, options, package)))
    return failure();
  for (const std::string &name : options.targets) {
    timer.begin(name + ": lower to tile");
    FailureOr<OwningOpRef<ModuleOp>> tileModule = lowerToTile(module, name, options);
    if (failed(tileModule) || failed(addDerivedTensors(**tileModule, package)))
      return failure();
    FailureOr<std::unique_ptr<package::TargetT>> target =
        compileTarget(**tileModule, name, options, timer);
    if (failed(target))
      return failure();
    package.targets.push_back(std::move(*target));
  }
  timer.begin("pack");
  llvm::Expected<std::vector<uint8_t>> bytes = packPackage(package);
  timer.end();
  if (!bytes)
    return module.emitError(llvm::toString(bytes.takeError()));
  return std::move(*bytes);
}
