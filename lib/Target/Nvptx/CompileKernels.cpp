//===- CompileKernels.cpp - LLVM IR, PTX and cubins of a module's kernels ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Target/Nvptx/CompileKernels.h"

#include "mla/Dialect/KernelAttrs.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Threading.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/IR/InstIterator.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/SROA.h"

using namespace mlir;
using namespace mlac;

static constexpr llvm::StringLiteral kTriple = "nvptx64-nvidia-cuda";

// Declared by the target itself and not by a header.
extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

void mlac::registerNvptxTranslations(DialectRegistry &registry) {
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
}

static void initializeTarget() {
  static const bool once = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    return true;
  }();
  (void)once;
}

/// Copies `kernel` and the symbols it reaches into a module of its own.
static OwningOpRef<ModuleOp> isolateKernel(LLVM::LLVMFuncOp kernel, ModuleOp module) {
  OwningOpRef<ModuleOp> result = ModuleOp::create(kernel.getLoc());
  llvm::SetVector<Operation *> symbols;
  symbols.insert(kernel);
  for (size_t i = 0; i < symbols.size(); ++i)
    if (std::optional<SymbolTable::UseRange> uses = SymbolTable::getSymbolUses(symbols[i]))
      for (SymbolTable::SymbolUse use : *uses)
        if (Operation *symbol = SymbolTable::lookupSymbolIn(module, use.getSymbolRef()))
          symbols.insert(symbol);
  OpBuilder builder = OpBuilder::atBlockEnd(result->getBody());
  for (Operation &op : *module.getBody()) // keep the module's order
    if (symbols.contains(&op))
      builder.clone(op);
  return result;
}

static std::unique_ptr<llvm::TargetMachine> createTargetMachine(const NvptxOptions &options,
                                                                std::string &error) {
  llvm::Triple triple(kTriple);
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, options.chip, options.features, llvm::TargetOptions(), llvm::Reloc::PIC_,
      std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

/// Marks inline assembly as convergent, which MLIR's op cannot say: wgmma and its
/// waits are executed by whole warps, so LLVM must not copy them into the two
/// sides of a divergent branch.
static void markAssemblyConvergent(llvm::Module &module) {
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::instructions(function))
      if (auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction))
        if (call->isInlineAsm())
          call->setConvergent();
}

/// O3 without what goes across functions, of which a module has one: propagating
/// constants into calls took 40 % of the time, for every register of an accumulator
/// is a value of its own to it, and found nothing.
static llvm::ModulePassManager buildPipeline(llvm::PassBuilder &builder) {
  const llvm::OptimizationLevel level = llvm::OptimizationLevel::O3;
  constexpr auto phase = llvm::ThinOrFullLTOPhase::None;
  llvm::ModulePassManager passes;
  builder.invokePipelineStartEPCallbacks(passes, level);
  llvm::FunctionPassManager early;
  early.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  early.addPass(llvm::EarlyCSEPass());
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(early)));
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(
      builder.buildFunctionSimplificationPipeline(level, phase)));
  passes.addPass(builder.buildModuleOptimizationPipeline(level, phase));
  return passes;
}

static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = tuning.LoopInterleaving = false; // a thread's data is scalar
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  buildPipeline(builder).run(module, modules);
}

/// Generates PTX; empty if the machine cannot.
static std::string generatePtx(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile))
    return "";
  passes.run(module);
  return std::string(text);
}

/// Applies the rules on spills and C75xx messages.
static LogicalResult checkReport(Operation *at, const CompiledKernel &kernel,
                                 const NvptxOptions &options) {
  const AssemblerReport &report = kernel.report;
  for (const std::string &warning : report.warnings)
    emitWarning(at->getLoc()) << "kernel '" << kernel.name << "': " << warning;
  if (!options.allowWgmmaMessages && !report.wgmmaMessages.empty()) {
    InFlightDiagnostic error = emitError(at->getLoc()) << "kernel '" << kernel.name
                                                       << "': the assembler weakened the code: "
                                                       << report.wgmmaMessages.front();
    error.attachNote() << "--allow-wgmma-warnings accepts this";
    return error;
  }
  Operation *function = SymbolTable::lookupSymbolIn(at, kernel.name);
  auto allowed =
      function ? function->getAttrOfType<IntegerAttr>(mlac::kSpillBytesAttr) : IntegerAttr();
  int64_t most = allowed ? allowed.getInt() : 0;
  bool isOver = report.spillStoreBytes > most || (most == 0 && report.spillLoadBytes);
  if (!options.allowSpills && isOver) {
    InFlightDiagnostic error = emitError(at->getLoc())
                               << "kernel '" << kernel.name << "': expected "
                               << (most ? "spills of at most " + std::to_string(most) + " bytes"
                                        : std::string("no spills"))
                               << ", got " << report.spillStoreBytes << " bytes of stores and "
                               << report.spillLoadBytes << " bytes of loads at " << report.registers
                               << " registers";
    error.attachNote() << "--allow-spills accepts this";
    return error;
  }
  return success();
}

/// Assembles `kernel.ptx` and judges the log.
static LogicalResult assembleKernel(Operation *at, CompiledKernel &kernel,
                                    const NvptxOptions &options, const Assembler &assembler) {
  llvm::Expected<AssemblerResult> result = assembler.assemble(kernel.ptx, options.chip);
  if (!result)
    return emitError(at->getLoc())
           << "kernel '" << kernel.name << "': " << llvm::toString(result.takeError());
  kernel.cubin = std::move(result->cubin);
  kernel.log = std::move(result->log);
  kernel.report = parseAssemblerLog(kernel.log);
  return checkReport(at, kernel, options);
}

/// Takes one isolated kernel through all stages. Runs on any thread.
static LogicalResult compileKernel(ModuleOp module, CompiledKernel &kernel,
                                   const NvptxOptions &options, const Assembler *assembler) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> llvmModule = translateModuleToLLVMIR(module, context, kernel.name);
  if (!llvmModule)
    return emitError(module.getLoc())
           << "kernel '" << kernel.name << "': cannot be translated to LLVM IR";
  std::string error;
  std::unique_ptr<llvm::TargetMachine> machine = createTargetMachine(options, error);
  if (!machine)
    return emitError(module.getLoc()) << "this build of LLVM has no NVPTX target: " << error;
  llvmModule->setTargetTriple(machine->getTargetTriple());
  llvmModule->setDataLayout(machine->createDataLayout());
  markAssemblyConvergent(*llvmModule);
  optimize(*llvmModule, *machine);
  if (options.stage == NvptxStage::LlvmIr) {
    llvm::raw_string_ostream(kernel.llvmIr) << *llvmModule;
    return success();
  }

  kernel.ptx = generatePtx(*llvmModule, *machine);
  std::string version = ".version " + options.ptxVersion + "\n";
  if (!llvm::StringRef(kernel.ptx).contains(version))
    return emitError(module.getLoc())
           << "kernel '" << kernel.name << "': expected PTX with '" << StringRef(version).trim()
           << "', got '" << StringRef(kernel.ptx).split(".version").second.split('\n').first.trim()
           << "': this LLVM does not know features '" << options.features << "'";
  if (!assembler)
    return success();
  return assembleKernel(module, kernel, options, *assembler);
}

std::optional<CompiledKernel> KernelCache::find(const std::string &text) const {
  std::lock_guard lock(mutex);
  auto found = kernels.find(text);
  return found == kernels.end() ? std::nullopt : std::optional(found->second);
}

void KernelCache::insert(const std::string &text, const CompiledKernel &kernel) {
  std::lock_guard lock(mutex);
  kernels.insert_or_assign(text, kernel);
}

/// The same, unless the cache has it.
static LogicalResult findOrCompile(ModuleOp module, CompiledKernel &kernel,
                                   const NvptxOptions &options, const Assembler *assembler) {
  if (!options.cache)
    return compileKernel(module, kernel, options, assembler);
  std::string text;
  llvm::raw_string_ostream stream(text);
  // Verifying here would take diagnostics of other threads' kernels.
  module.print(stream, OpPrintingFlags().assumeVerified());
  if (std::optional<CompiledKernel> found = options.cache->find(text)) {
    kernel = std::move(*found);
    return checkReport(module, kernel, options); // which may have warnings
  }
  LogicalResult compiled = compileKernel(module, kernel, options, assembler);
  if (succeeded(compiled))
    options.cache->insert(text, kernel);
  return compiled;
}

FailureOr<CompiledKernels> mlac::compileKernels(ModuleOp module, const NvptxOptions &options) {
  initializeTarget();
  CompiledKernels result;
  result.assembler = "none";
  std::unique_ptr<Assembler> assembler;
  if (options.stage == NvptxStage::Cubin && options.assembler.kind != AssemblerKind::None) {
    llvm::Expected<std::unique_ptr<Assembler>> found = createAssembler(options.assembler);
    if (!found)
      return emitError(module.getLoc()) << llvm::toString(found.takeError());
    assembler = std::move(*found);
    result.assembler = assembler->getDescription();
  }

  std::vector<LLVM::LLVMFuncOp> functions;
  for (auto kernel : module.getOps<LLVM::LLVMFuncOp>()) {
    if (!kernel->hasAttr(NVVM::NVVMDialect::getKernelFuncAttrName()))
      continue;
    result.kernels.emplace_back().name = kernel.getName().str();
    functions.push_back(kernel);
  }

  // Every kernel is tried, so that one run shows all errors, in module order. The threads make
  // and free the copies, too.
  MLIRContext *context = module.getContext();
  ParallelDiagnosticHandler diagnostics(context);
  std::vector<char> hasFailed(functions.size(), false);
  parallelFor(context, 0, functions.size(), [&](size_t i) {
    diagnostics.setOrderIDForThread(i);
    OwningOpRef<ModuleOp> isolated = isolateKernel(functions[i], module);
    hasFailed[i] =
        mlir::failed(findOrCompile(*isolated, result.kernels[i], options, assembler.get()));
    diagnostics.eraseOrderIDForThread();
  });
  if (llvm::is_contained(hasFailed, true))
    return failure();
  return result;
}
