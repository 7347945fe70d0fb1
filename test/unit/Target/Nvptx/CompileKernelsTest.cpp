//===- CompileKernelsTest.cpp - PTX, cubins and what is refused ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Target/Nvptx/CompileKernels.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlac;

namespace {

constexpr const char *kTwoKernels = R"(
llvm.mlir.global external @smem() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>
llvm.func @first(%p: !llvm.ptr<1>) attributes {nvvm.kernel, nvvm.maxntid = array<i32: 128>} {
  %s = llvm.mlir.addressof @smem : !llvm.ptr<3>
  %v = llvm.load %s : !llvm.ptr<3> -> f32
  llvm.store %v, %p : f32, !llvm.ptr<1>
  llvm.return
}
llvm.func @second(%p: !llvm.ptr<1>, %x: f32) attributes {nvvm.kernel, nvvm.maxntid = array<i32: 128>} {
  llvm.store %x, %p : f32, !llvm.ptr<1>
  llvm.return
})";

// A role change that the assembler ignores: setmaxnreg needs a launch bound.
constexpr const char *kIgnoredSetMaxRegister = R"(
llvm.func @role(%p: !llvm.ptr<1>, %x: f32) attributes {nvvm.kernel} {
  nvvm.setmaxregister decrease 40
  llvm.store %x, %p : f32, !llvm.ptr<1>
  llvm.return
})";

/// A kernel that loads `count` floats and stores them in reverse order under a
/// limit of 24 registers, so that most must wait in memory.
std::string makeSpillingKernel(int count) {
  std::string text = "llvm.func @spill(%p: !llvm.ptr<1>) attributes {nvvm.kernel, "
                     "nvvm.maxntid = array<i32: 128>, nvvm.maxnreg = 24 : i32} {\n";
  for (int i = 0; i < count; ++i) {
    std::string n = std::to_string(i);
    text += "%a" + n + " = llvm.getelementptr %p[" + n +
            "] : (!llvm.ptr<1>) -> !llvm.ptr<1>, f32\n%v" + n + " = llvm.load volatile %a" + n +
            " : !llvm.ptr<1> -> f32\n";
  }
  for (int i = count; i-- > 0;)
    text += "llvm.store volatile %v" + std::to_string(i) + ", %a" + std::to_string(count - 1 - i) +
            " : f32, !llvm.ptr<1>\n";
  return text + "llvm.return\n}\n";
}

class CompileKernelsTest : public ::testing::Test {
protected:
  CompileKernelsTest() {
    mlir::DialectRegistry registry;
    registry.insert<mlir::LLVM::LLVMDialect, mlir::NVVM::NVVMDialect>();
    registerNvptxTranslations(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.getDiagEngine().registerHandler([this](mlir::Diagnostic &diagnostic) {
      messages += diagnostic.str() + "\n";
      for (mlir::Diagnostic &note : diagnostic.getNotes())
        messages += note.str() + "\n";
    });
  }

  mlir::FailureOr<CompiledKernels> compile(llvm::StringRef text, const NvptxOptions &options) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(module) << messages;
    return compileKernels(*module, options);
  }

  /// The kinds of assembler that this machine has.
  std::vector<AssemblerKind> getInstalled() {
    std::vector<AssemblerKind> kinds;
    for (AssemblerKind kind :
         {AssemblerKind::Ptxas, AssemblerKind::NvPtxCompiler, AssemblerKind::NvJitLink}) {
      AssemblerOptions options;
      options.kind = kind;
      if (auto assembler = createAssembler(options))
        kinds.push_back(kind);
      else
        llvm::consumeError(assembler.takeError());
    }
    return kinds;
  }

  mlir::MLIRContext context;
  std::string messages;
};

TEST_F(CompileKernelsTest, StopsAtPtxWithoutAnAssembler) {
  NvptxOptions options;
  options.assembler.kind = AssemblerKind::None;
  auto result = compile(kTwoKernels, options);
  ASSERT_TRUE(mlir::succeeded(result)) << messages;
  ASSERT_EQ(result->kernels.size(), 2u);
  EXPECT_EQ(result->assembler, "none");
  const CompiledKernel &first = result->kernels[0], &second = result->kernels[1];
  EXPECT_EQ(first.name, "first");
  EXPECT_TRUE(first.cubin.empty());
  EXPECT_NE(first.ptx.find(".version 8.8"), std::string::npos);
  EXPECT_NE(first.ptx.find(".target sm_90a"), std::string::npos);
  EXPECT_NE(first.ptx.find(".extern .shared .align 1024 .b8 smem[]"), std::string::npos);
  // One kernel per file, and only the symbols it uses.
  EXPECT_EQ(first.ptx.find("second"), std::string::npos);
  EXPECT_EQ(second.ptx.find("smem"), std::string::npos);
}

TEST_F(CompileKernelsTest, EveryInstalledAssemblerMakesTheSameBytesTwice) {
  for (AssemblerKind kind : getInstalled()) {
    NvptxOptions options;
    options.assembler.kind = kind;
    auto once = compile(kTwoKernels, options), again = compile(kTwoKernels, options);
    ASSERT_TRUE(mlir::succeeded(once) && mlir::succeeded(again)) << messages;
    EXPECT_EQ(llvm::StringRef(once->assembler).split(' ').first, stringifyAssemblerKind(kind));
    for (size_t i = 0; i < once->kernels.size(); ++i) {
      const CompiledKernel &kernel = once->kernels[i];
      EXPECT_EQ(kernel.ptx, again->kernels[i].ptx);
      EXPECT_EQ(kernel.cubin, again->kernels[i].cubin);
      EXPECT_EQ(llvm::StringRef(kernel.cubin.data(), 4), "\177ELF");
      EXPECT_TRUE(kernel.report.known) << kernel.log;
      EXPECT_GT(kernel.report.registers, 0u);
    }
  }
}

TEST_F(CompileKernelsTest, SpillsAreRefusedUnlessAllowed) {
  for (AssemblerKind kind : getInstalled()) {
    NvptxOptions options;
    options.assembler.kind = kind;
    messages.clear();
    EXPECT_TRUE(mlir::failed(compile(makeSpillingKernel(64), options)));
    EXPECT_NE(messages.find("kernel 'spill': expected no spills, got "), std::string::npos)
        << stringifyAssemblerKind(kind).str() << messages;
    options.allowSpills = true;
    auto result = compile(makeSpillingKernel(64), options);
    ASSERT_TRUE(mlir::succeeded(result));
    EXPECT_GT(result->kernels[0].report.spillStoreBytes, 0u);
  }
}

TEST_F(CompileKernelsTest, WgmmaFamilyMessagesAreRefusedUnlessAllowed) {
  for (AssemblerKind kind : getInstalled()) {
    NvptxOptions options;
    options.assembler.kind = kind;
    messages.clear();
    EXPECT_TRUE(mlir::failed(compile(kIgnoredSetMaxRegister, options)));
    EXPECT_NE(messages.find("kernel 'role': the assembler weakened the code"), std::string::npos)
        << stringifyAssemblerKind(kind).str() << messages;
    EXPECT_NE(messages.find("'setmaxnreg' ignored"), std::string::npos) << messages;
    EXPECT_NE(messages.find("--allow-wgmma-warnings accepts this"), std::string::npos) << messages;
    options.allowWgmmaMessages = true;
    EXPECT_TRUE(mlir::succeeded(compile(kIgnoredSetMaxRegister, options)));
  }
}

TEST_F(CompileKernelsTest, UnknownPtxVersionIsAnError) {
  NvptxOptions options;
  options.assembler.kind = AssemblerKind::None;
  options.features = "+ptx99";
  EXPECT_TRUE(mlir::failed(compile(kTwoKernels, options)));
  EXPECT_NE(messages.find("expected PTX with '.version 8.8', got '"), std::string::npos)
      << messages;
}

TEST_F(CompileKernelsTest, MissingAssemblerNamesPlacesAndRemedies) {
  NvptxOptions options;
  options.assembler.assemblerDir = "/nonexistent/packages";
  options.assembler.toolkitRoots = {"/nonexistent/cuda"};
  EXPECT_TRUE(mlir::failed(compile(kTwoKernels, options)));
  for (const char *part :
       {"/nonexistent/packages/nvidia/cu13/bin/ptxas", "/nonexistent/cuda/bin/ptxas",
        "/nonexistent/cuda/{lib64,lib}/{libnvJitLink.so.13", "scripts/get-assembler.sh", "--ptxas",
        "--assembler=none"})
    EXPECT_NE(messages.find(part), std::string::npos) << part << "\n" << messages;
}

TEST_F(CompileKernelsTest, NamedPtxasIsNotReplacedByAnother) {
  NvptxOptions options;
  options.assembler.ptxasPath = "/bin/true";
  EXPECT_TRUE(mlir::failed(compile(kTwoKernels, options)));
  EXPECT_NE(messages.find("--ptxas names '/bin/true'"), std::string::npos) << messages;
}

TEST(AssemblerLog, ReadsResourcesSpillsAndMessages) {
  AssemblerReport report = parseAssemblerLog(
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are "
      "serialized due to x in the function 'k'\n"
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
      "ptxas info    : Function properties for k\n"
      "    40 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 1 barriers, 40 bytes cumulative stack size, "
      "512 bytes smem\n");
  EXPECT_TRUE(report.known);
  EXPECT_EQ(report.registers, 168u);
  EXPECT_EQ(report.stackBytes, 40u);
  EXPECT_EQ(report.spillStoreBytes, 12u);
  EXPECT_EQ(report.spillLoadBytes, 16u);
  EXPECT_EQ(report.staticSharedBytes, 512u);
  EXPECT_EQ(report.wgmmaMessages.size(), 1u);
  EXPECT_TRUE(report.warnings.empty());
  EXPECT_FALSE(parseAssemblerLog("").known);
}

TEST(AssemblerKindNames, RoundTrip) {
  for (const char *name : {"auto", "nvptxcompiler", "nvjitlink", "ptxas", "none"}) {
    auto kind = parseAssemblerKind(name);
    ASSERT_TRUE(kind.has_value()) << name;
    EXPECT_EQ(stringifyAssemblerKind(*kind), name);
  }
  EXPECT_FALSE(parseAssemblerKind("fatbinary").has_value());
}

} // namespace
