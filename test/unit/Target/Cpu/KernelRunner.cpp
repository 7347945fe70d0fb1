//===- KernelRunner.cpp - compiles and runs tile kernels in tests ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"

#include "mla/Dialect/Tile/IR/TileDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlac;
using namespace mlac::test;

Bf16::Bf16(double value) {
  uint32_t raw = std::bit_cast<uint32_t>(static_cast<float>(value));
  bits = value != value ? 0x7fc0 : (raw + 0x7fff + ((raw >> 16) & 1)) >> 16;
}

GuardedMemory::GuardedMemory(const void *data, size_t bytes) {
  size_t page = sysconf(_SC_PAGESIZE);
  size_t usable = (bytes + page - 1) / page * page;
  mappedBytes = usable + page;
  mapping = mmap(nullptr, mappedBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(static_cast<char *>(mapping) + usable, page, PROT_NONE);
  start = static_cast<char *>(mapping) + usable - bytes;
  std::memcpy(start, data, bytes);
}

GuardedMemory::~GuardedMemory() { munmap(mapping, mappedBytes); }

std::string mlac::test::substitute(std::string text, const Replacements &replacements) {
  for (auto it = replacements.rbegin(); it != replacements.rend(); ++it) {
    std::string key = "$" + it->first;
    for (size_t at = text.find(key); at != std::string::npos; at = text.find(key, at))
      text.replace(at, key.size(), it->second);
  }
  return text;
}

static mlir::DialectRegistry testRegistry() {
  mlir::DialectRegistry registry;
  registry.insert<mlir::arith::ArithDialect, mlir::math::MathDialect, mlir::memref::MemRefDialect,
                  mlir::scf::SCFDialect, mlir::tensor::TensorDialect, mlir::tile::TileDialect>();
  registerCpuTranslations(registry);
  return registry;
}

static mlir::FailureOr<CpuImage> compileText(mlir::MLIRContext &context, const std::string &text,
                                             const CpuMachine &machine) {
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module)
    return mlir::failure();
  mlir::PassManager passes(&context);
  addTileToLlvmPasses(passes, machine.lanes);
  if (failed(passes.run(*module)))
    return mlir::failure();
  return compileCpuKernels(*module, machine);
}

std::unique_ptr<KernelImage> KernelImage::compile(const std::string &text, const std::string &cpu) {
  std::string error;
  mlir::FailureOr<CpuMachine> machine = resolveCpu(cpu, error);
  if (failed(machine)) {
    ADD_FAILURE() << error;
    return nullptr;
  }
  mlir::MLIRContext context(testRegistry(), mlir::MLIRContext::Threading::DISABLED);
  mlir::FailureOr<CpuImage> image = compileText(context, text, *machine);
  if (failed(image)) {
    ADD_FAILURE() << "does not compile:\n" << text;
    return nullptr;
  }
  auto result = std::unique_ptr<KernelImage>(new KernelImage());
  result->compiled = std::move(*image);
  // The file stays open: dlopen would take a later image under the same number
  // for this one.
  int file = result->file = memfd_create("mlac-test", 0);
  const std::vector<char> &bytes = result->compiled.bytes;
  if (write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()))
    result->handle =
        dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!result->handle) {
    ADD_FAILURE() << dlerror();
    return nullptr;
  }
  return result;
}

KernelImage::~KernelImage() {
  if (handle)
    dlclose(handle);
  if (file >= 0)
    close(file);
}

void KernelImage::launch(const std::string &name, const std::vector<Argument> &arguments,
                         Grid grid) {
  using Kernel = void (*)(const uint64_t *, int64_t, int64_t, int64_t);
  auto kernel = reinterpret_cast<Kernel>(dlsym(handle, name.c_str()));
  ASSERT_NE(kernel, nullptr) << name;
  std::vector<uint64_t> bits;
  for (const Argument &argument : arguments)
    bits.push_back(argument.bits);
  for (int64_t z = 0; z < grid.z; ++z)
    for (int64_t y = 0; y < grid.y; ++y)
      for (int64_t x = 0; x < grid.x; ++x)
        kernel(bits.data(), x, y, z);
}

std::vector<std::string> mlac::test::runnableCpus() {
  std::vector<std::string> cpus = {"x86-64-v3"};
  std::string error;
  mlir::FailureOr<CpuMachine> native = resolveCpu("native", error);
  if (succeeded(native) && native->arch == "x86-64-v4")
    cpus.push_back("x86-64-v4");
  return cpus;
}

std::string mlac::test::diagnosticsOf(const std::string &text) {
  mlir::MLIRContext context(testRegistry(), mlir::MLIRContext::Threading::DISABLED);
  std::string messages, error;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    messages += diagnostic.str() + "\n";
    return mlir::success();
  });
  (void)compileText(context, text, *resolveCpu("x86-64-v3", error));
  return messages;
}
