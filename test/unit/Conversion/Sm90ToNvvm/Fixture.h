//===- Fixture.h - kernels from text to the emulator and a cubin ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels go through convert-sm90-to-nvvm and run in the emulator; those that
// use tensor cores also go on to a cubin, where the machine has an assembler.
// Inputs are small integers, so that products and sums are exact.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_TEST_UNIT_CONVERSION_SM90TONVVM_FIXTURE_H
#define MLA_TEST_UNIT_CONVERSION_SM90TONVVM_FIXTURE_H

#include "../../Emulator/Emulator.h"

#include "mla/Conversion/Passes.h"
#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"
#include "mla/Target/Nvptx/CompileKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include "gtest/gtest.h"

namespace mlac::sm90test {

using mlac::emulator::Argument;
using mlac::emulator::Emulator;

using Bf16 = uint16_t;

inline Bf16 toBf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}

inline float toFloat(Bf16 value) {
  uint32_t bits = uint32_t(value) << 16;
  float result;
  memcpy(&result, &bits, 4);
  return result;
}

inline constexpr Bf16 kNaN = 0x7FC0;

/// Small integers in a fixed order.
inline std::vector<Bf16> makeData(size_t count, unsigned seed) {
  std::vector<Bf16> data(count);
  for (Bf16 &value : data) {
    seed = seed * 1664525 + 1013904223;
    value = toBf16(float(int(seed >> 24) % 9 - 4));
  }
  return data;
}

using Names = std::vector<std::pair<std::string, int64_t>>;

/// Replaces $NAME by numbers.
inline std::string fill(std::string text, const Names &names) {
  for (const auto &[name, value] : names)
    for (size_t at; (at = text.find("$" + name + "$")) != std::string::npos;)
      text.replace(at, name.size() + 2, std::to_string(value));
  return "#f1 = #sm90.fragment<column_split = 1>\n#f2 = #sm90.fragment<column_split = 2>\n" + text;
}

class Sm90ToNvvmTest : public ::testing::Test {
protected:
  Sm90ToNvvmTest() {
    mlir::DialectRegistry registry;
    registry.insert<mlir::sm90::Sm90Dialect, mlir::arith::ArithDialect,
                    mlir::cf::ControlFlowDialect, mlir::LLVM::LLVMDialect, mlir::math::MathDialect,
                    mlir::memref::MemRefDialect, mlir::NVVM::NVVMDialect, mlir::scf::SCFDialect>();
    registerNvptxTranslations(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  void lower(const std::string &text) {
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    ASSERT_TRUE(module);
    mlir::PassManager passes(&context);
    passes.addPass(createConvertSm90ToNvvm());
    ASSERT_TRUE(mlir::succeeded(passes.run(*module)));
  }

  void run(llvm::ArrayRef<Argument> arguments) {
    auto functions = module->getOps<mlir::LLVM::LLVMFuncOp>();
    Emulator emulator(*functions.begin());
    EXPECT_EQ(emulator.run(arguments), "");
  }

  /// Expects a cubin without spills and without messages of the C75xx family.
  /// Without an assembler on this machine: PTX.
  void assemble() {
    AssemblerOptions any;
    auto assembler = createAssembler(any);
    NvptxOptions options;
    if (!assembler) {
      llvm::consumeError(assembler.takeError());
      options.assembler.kind = AssemblerKind::None;
    }
    mlir::PassManager passes(&context);
    passes.addNestedPass<mlir::LLVM::LLVMFuncOp>(createConvertNvvmKernelToLlvm());
    ASSERT_TRUE(mlir::succeeded(passes.run(*module)));
    mlir::FailureOr<CompiledKernels> result = compileKernels(*module, options);
    ASSERT_TRUE(mlir::succeeded(result));
    compiled = std::move(*result);
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  CompiledKernels compiled; // by assemble
};

} // namespace mlac::sm90test

#endif // MLA_TEST_UNIT_CONVERSION_SM90TONVVM_FIXTURE_H
