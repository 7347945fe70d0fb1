//===- CompileKernels.h - from llvm/nvvm kernels to cubins ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The last leg of the GPU path: takes a module whose kernels are `llvm.func`s
// with the `nvvm.kernel` attribute, written in the llvm and nvvm dialects (what
// convert-sm90-to-nvvm leaves), and makes LLVM IR, PTX and one cubin for each
// kernel, in this process except for a `ptxas` child. Kernels are independent
// and are compiled in parallel on the context's threads; the results come in
// the module's order and are the same bytes every time.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_TARGET_NVPTX_COMPILEKERNELS_H
#define MLA_TARGET_NVPTX_COMPILEKERNELS_H

#include "mla/Target/Nvptx/Assembler.h"

#include "mlir/Support/LLVM.h"

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace mlir {
class DialectRegistry;
class ModuleOp;
} // namespace mlir

namespace mlac {

namespace sm90 {
/// Architecture name with the `a` suffix that wgmma and setmaxnreg need (PTX ISA
/// 9.0, "wgmma.mma_async": requires sm_90a).
inline constexpr const char *kChip = "sm_90a";
/// PTX ISA version 8.8: the newest that the CUDA 12.9 assemblers read too, and
/// new enough for copies to `.shared::cta` (8.6).
inline constexpr const char *kPtxFeatures = "+ptx88";
inline constexpr const char *kPtxVersion = "8.8";
} // namespace sm90

/// How far to go. Each stage includes those before it.
enum class NvptxStage { LlvmIr, Ptx, Cubin };

struct CompiledKernel {
  std::string name;
  std::string llvmIr; // optimised, as text
  std::string ptx;
  std::vector<char> cubin; // empty below NvptxStage::Cubin and with assembler none
  AssemblerReport report;
  std::string log;
};

/// Kernels that were compiled with the same options, by their text: what differs
/// between variants of a model is often one kernel.
class KernelCache {
public:
  std::optional<CompiledKernel> find(const std::string &text) const;
  void insert(const std::string &text, const CompiledKernel &kernel);

private:
  mutable std::mutex mutex;
  std::map<std::string, CompiledKernel> kernels;
};

struct NvptxOptions {
  NvptxStage stage = NvptxStage::Cubin;
  std::string chip = sm90::kChip;
  std::string features = sm90::kPtxFeatures;
  /// The `.version` that the PTX must carry. LLVM ignores a version it does not
  /// know with a mere warning, so that the result has to be checked.
  std::string ptxVersion = sm90::kPtxVersion;
  AssemblerOptions assembler;
  /// Accept kernels whose registers spill to memory.
  bool allowSpills = false;
  /// Accept messages of the C75xx family (wgmma serialised and the like).
  bool allowWgmmaMessages = false;
  KernelCache *cache = nullptr; ///< may be null
};

struct CompiledKernels {
  std::string assembler; // "ptxas 13.0.88"; "none" if no cubins were made
  std::vector<CompiledKernel> kernels;
};

/// Registers the translations from the llvm and nvvm dialects to LLVM IR that
/// compileKernels needs.
void registerNvptxTranslations(mlir::DialectRegistry &registry);

/// Compiles every kernel of `module`. Errors are reported at the kernels'
/// locations and name the kernel; all kernels are tried before it fails.
mlir::FailureOr<CompiledKernels> compileKernels(mlir::ModuleOp module, const NvptxOptions &options);

} // namespace mlac

#endif // MLA_TARGET_NVPTX_COMPILEKERNELS_H
