//===- CompileKernels.cpp - LLVM IR, objects and images of CPU kernels ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Target/Cpu/CompileKernels.h"

#include "mla/Dialect/KernelAttrs.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Threading.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace mlac;

static constexpr llvm::StringLiteral kTriple = "x86_64-unknown-linux-gnu";
/// The name LLVM's module carries; it would reach the image if it varied.
static constexpr llvm::StringLiteral kModuleName = "mlac-kernels";

// Declared by the target itself and not by a header.
extern "C" {
void LLVMInitializeX86TargetInfo();
void LLVMInitializeX86Target();
void LLVMInitializeX86TargetMC();
void LLVMInitializeX86AsmPrinter();
}

void mlac::registerCpuTranslations(DialectRegistry &registry) {
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

static void initializeTarget() {
  static const bool once = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    return true;
  }();
  (void)once;
}

//===----------------------------------------------------------------------===//
// LLVM IR
//===----------------------------------------------------------------------===//

static std::string featureString(const CpuMachine &machine) {
  return llvm::join(
      llvm::map_range(machine.features, [](const std::string &name) { return "+" + name; }), ",");
}

static std::unique_ptr<llvm::TargetMachine> createTargetMachine(const CpuMachine &machine,
                                                                std::string &error) {
  initializeTarget();
  llvm::Triple triple(kTriple);
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  llvm::TargetOptions options;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, machine.arch, featureString(machine), options, llvm::Reloc::PIC_, std::nullopt,
      llvm::CodeGenOptLevel::Aggressive));
}

static void setFunctionAttributes(llvm::Module &module, const CpuMachine &machine) {
  constexpr int64_t kBitsPerLane = 32;
  std::string width = std::to_string(machine.lanes * kBitsPerLane);
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", machine.arch);
    function.addFnAttr("tune-cpu", machine.tune);
    if (!machine.features.empty())
      function.addFnAttr("target-features", featureString(machine));
    // The registers the kernels were written for; x86-64-v4 alone prefers half.
    function.addFnAttr("prefer-vector-width", width);
    function.addFnAttr("min-legal-vector-width", width);
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }
}

/// O2 without vectorisers and unrolling: the kernels are vectors and register
/// blocks already. What else O3 does takes 2.5 times as long for DeepSeek-V3's
/// kernels, doubles their size, and makes none faster (cpu-kernel-bench).
static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager callGraph;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = tuning.SLPVectorization = false;
  tuning.LoopUnrolling = false;
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(callGraph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, callGraph, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
}

namespace {
/// One module on its way through LLVM.
struct Compilation {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::TargetMachine> target;
  std::unique_ptr<llvm::Module> module;
};
} // namespace

static LogicalResult translate(ModuleOp module, const CpuMachine &machine, Compilation &result) {
  std::string error;
  result.target = createTargetMachine(machine, error);
  if (!result.target)
    return module.emitError("LLVM cannot generate x86-64 code: ") << error;
  result.module = translateModuleToLLVMIR(module, result.context, kModuleName);
  if (!result.module)
    return module.emitError("expected a module in the llvm dialect only");
  result.module->setTargetTriple(llvm::Triple(kTriple));
  result.module->setDataLayout(result.target->createDataLayout());
  result.module->setSourceFileName(kModuleName);
  setFunctionAttributes(*result.module, machine);
  optimize(*result.module, *result.target);
  return success();
}

FailureOr<std::string> mlac::emitCpuLlvmIr(ModuleOp module, const CpuMachine &machine) {
  Compilation compilation;
  if (failed(translate(module, machine, compilation)))
    return failure();
  std::string text;
  llvm::raw_string_ostream stream(text);
  compilation.module->print(stream, nullptr);
  return text;
}

static LogicalResult generate(ModuleOp module, Compilation &compilation, llvm::CodeGenFileType type,
                              SmallVectorImpl<char> &code) {
  llvm::raw_svector_ostream stream(code);
  llvm::legacy::PassManager passes;
  if (compilation.target->addPassesToEmitFile(passes, stream, nullptr, type))
    return module.emitError("LLVM's x86 target cannot emit this kind of file");
  passes.run(*compilation.module);
  return success();
}

FailureOr<std::string> mlac::emitCpuAssembly(ModuleOp module, const CpuMachine &machine) {
  Compilation compilation;
  SmallVector<char> text;
  if (failed(translate(module, machine, compilation)) ||
      failed(generate(module, compilation, llvm::CodeGenFileType::AssemblyFile, text)))
    return failure();
  return std::string(text.begin(), text.end());
}

//===----------------------------------------------------------------------===//
// Images
//===----------------------------------------------------------------------===//

static LogicalResult collectKernels(ModuleOp module, std::vector<CpuKernelInfo> &kernels) {
  for (auto function : module.getOps<LLVM::LLVMFuncOp>()) {
    auto scratch = function->getAttrOfType<IntegerAttr>(mlac::kScratchBytesAttr);
    if (!scratch)
      continue;
    uint64_t bytes = scratch.getInt();
    if (bytes > kMaxCpuScratchBytes)
      return function.emitError("kernel '")
             << function.getSymName() << "': needs " << bytes
             << " bytes of scratch, more than the limit of " << kMaxCpuScratchBytes;
    kernels.push_back({function.getSymName().str(), bytes});
  }
  return success();
}

/// Images are loaded into processes of which nothing but libc may be assumed.
static LogicalResult checkUndefinedSymbols(ModuleOp module, ArrayRef<char> object) {
  static constexpr llvm::StringLiteral kAllowed[] = {"memcpy", "memmove", "memset"};
  auto file = llvm::object::ObjectFile::createObjectFile(
      llvm::MemoryBufferRef(StringRef(object.data(), object.size()), kModuleName));
  if (!file)
    return module.emitError("cannot read the object: ") << llvm::toString(file.takeError());
  for (const llvm::object::SymbolRef &symbol : (*file)->symbols()) {
    auto flags = symbol.getFlags();
    auto name = symbol.getName();
    if (!flags || !name) {
      llvm::consumeError(flags ? name.takeError() : flags.takeError());
      return module.emitError("cannot read the object's symbols");
    }
    bool isUndefined = *flags & llvm::object::SymbolRef::SF_Undefined;
    if (isUndefined && !name->empty() && !llvm::is_contained(kAllowed, *name))
      return module.emitError("expected kernels without calls, got one of ") << *name;
  }
  return success();
}

/// Everything the code may use, as a list for the loader to check.
static std::string allFeatures(const CpuMachine &machine) {
  std::string list = machine.arch == "x86-64-v4"
                         ? "avx2,avx512bw,avx512cd,avx512dq,avx512f,avx512vl,bmi2,f16c,fma"
                         : "avx2,bmi2,f16c,fma";
  for (const std::string &feature : machine.features)
    list += "," + feature;
  return list;
}

/// One object: the functions are in a module of their own.
static FailureOr<SmallVector<char>> compileObject(ModuleOp module, const CpuMachine &machine) {
  Compilation compilation;
  SmallVector<char> object;
  if (failed(translate(module, machine, compilation)) ||
      failed(generate(module, compilation, llvm::CodeGenFileType::ObjectFile, object)) ||
      failed(checkUndefinedSymbols(module, object)))
    return failure();
  return object;
}

/// Kernels know nothing of each other, so each is compiled alone and in parallel.
static FailureOr<std::vector<SmallVector<char>>> compileObjects(ModuleOp module,
                                                                const CpuMachine &machine) {
  std::vector<OwningOpRef<ModuleOp>> parts;
  for (auto function : module.getOps<LLVM::LLVMFuncOp>()) {
    parts.push_back(ModuleOp::create(function.getLoc()));
    OpBuilder::atBlockEnd(parts.back()->getBody()).clone(*function);
  }
  std::vector<SmallVector<char>> objects(parts.size());
  LogicalResult result =
      failableParallelForEachN(module.getContext(), 0, parts.size(), [&](size_t i) {
        FailureOr<SmallVector<char>> object = compileObject(*parts[i], machine);
        if (succeeded(object))
          objects[i] = std::move(*object);
        return LogicalResult(object);
      });
  if (failed(result))
    return failure();
  return objects;
}

FailureOr<CpuImage> mlac::compileCpuKernels(ModuleOp module, const CpuMachine &machine) {
  CpuImage image;
  if (failed(collectKernels(module, image.kernels)))
    return failure();
  FailureOr<std::vector<SmallVector<char>>> objects = compileObjects(module, machine);
  if (failed(objects))
    return failure();
  std::string error;
  if (!detail::linkCpuImage(*objects, image.bytes, error))
    return module.emitError(error);
  image.arch = machine.arch;
  image.features = allFeatures(machine);
  image.assembler = "LLVM " LLVM_VERSION_STRING;
  return image;
}
