//===- CompileKernels.h - from llvm functions to a CPU image ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The CPU path from tile kernels to bytes:
//
//   tile.kernel --addTileToLlvmPasses--> llvm.func --LLVM--> x86-64 objects
//   --lld, in this process--> ELF shared object
//
// The image needs nothing but memcpy, memmove and memset of the process that
// loads it. The same input gives the same bytes, on every machine unless the CPU
// is `native`.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_TARGET_CPU_COMPILEKERNELS_H
#define MLA_TARGET_CPU_COMPILEKERNELS_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mlir {
class DialectRegistry;
class ModuleOp;
class OpPassManager;
} // namespace mlir

namespace mlac {

/// A program instance may use this much stack: the runtime's workers have 8 MiB,
/// and half of it stays free for their own frames and spills.
inline constexpr uint64_t kMaxCpuScratchBytes = uint64_t(4) << 20;

/// A processor as code is generated for it.
struct CpuMachine {
  std::string arch;                  // "x86-64-v3" or "x86-64-v4"
  std::string tune;                  // whose latencies the scheduler assumes
  std::vector<std::string> features; // beyond `arch`, sorted, LLVM's spelling
  int64_t lanes;                     // f32 elements of a vector register
};

/// Resolves "x86-64-v3", "x86-64-v4" or "native" (the highest of the two that
/// this machine supports, with its further AVX features). An unknown name, or a
/// machine below x86-64-v3, fails with a message in `error`.
mlir::FailureOr<CpuMachine> resolveCpu(llvm::StringRef name, std::string &error);

/// Adds the passes from tile kernels to the llvm dialect.
void addTileToLlvmPasses(mlir::OpPassManager &passes, int64_t lanes);

/// Registers addTileToLlvmPasses as `tile-to-cpu-llvm{lanes=8|16}` for mla-opt.
void registerCpuPipeline();

/// Registers the translations that compileCpuKernels needs.
void registerCpuTranslations(mlir::DialectRegistry &registry);

struct CpuKernelInfo {
  std::string name;          // also the symbol
  uint64_t scratchBytes = 0; // stack for its tiles
};

struct CpuImage {
  std::vector<char> bytes;            // ELF shared object
  std::string arch;                   // CpuMachine::arch
  std::string features;               // comma-separated, everything `arch` implies and more
  std::string assembler;              // what made the code, with its version
  std::vector<CpuKernelInfo> kernels; // in the module's order
};

/// Compiles a module in the llvm dialect (what addTileToLlvmPasses leaves), its
/// kernels in parallel on the context's threads.
/// Errors are reported at the module or at the kernel concerned: scratch above
/// kMaxCpuScratchBytes, or a reference to a function that images may not use.
mlir::FailureOr<CpuImage> compileCpuKernels(mlir::ModuleOp module, const CpuMachine &machine);

/// The optimised LLVM IR of the same module as text.
mlir::FailureOr<std::string> emitCpuLlvmIr(mlir::ModuleOp module, const CpuMachine &machine);

/// The assembly of the same module.
mlir::FailureOr<std::string> emitCpuAssembly(mlir::ModuleOp module, const CpuMachine &machine);

namespace detail {
/// Links objects into a shared object with lld. False: `error` says why.
bool linkCpuImage(llvm::ArrayRef<llvm::SmallVector<char>> objects, std::vector<char> &image,
                  std::string &error);
} // namespace detail

} // namespace mlac

#endif // MLA_TARGET_CPU_COMPILEKERNELS_H
