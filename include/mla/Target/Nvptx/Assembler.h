//===- Assembler.h - from PTX to a cubin ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX becomes machine code in one of three programs of NVIDIA which share one
// code base but not one packaging. An assembler is chosen once per compilation
// and its name and version are recorded in the package, because two versions
// may make different code from the same PTX:
//
//   ptxas          the program of the CUDA toolkit, run as a child process
//   nvptxcompiler  the same as a library. NVIDIA ships it as a static archive
//                  only; scripts/get-assembler.sh --all links it into a shared
//                  object, which is opened at run time
//   nvjitlink      the linking library that serving systems have installed. It
//                  assembles relocatable code, which has fewer registers: the
//                  unsplit absorbed attention of 512 columns spills 568 bytes
//                  (ptxas: none), so that it needs --allow-spills
//   none           stop at PTX
//
// Places are searched in a fixed order (see `findPtxas`, `findLibrary`). The
// result depends on what is installed, never on the machine's load or time.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_TARGET_NVPTX_ASSEMBLER_H
#define MLA_TARGET_NVPTX_ASSEMBLER_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mlac {

enum class AssemblerKind { Auto, NvPtxCompiler, NvJitLink, Ptxas, None };

/// The spelling used by options: auto, nvptxcompiler, nvjitlink, ptxas, none.
llvm::StringRef stringifyAssemblerKind(AssemblerKind kind);
std::optional<AssemblerKind> parseAssemblerKind(llvm::StringRef name);

struct AssemblerOptions {
  AssemblerKind kind = AssemblerKind::Auto;
  /// The `ptxas` to run. Empty: search. Named but unusable: an error, no search.
  std::string ptxasPath;
  /// Where scripts/get-assembler.sh put its packages. Empty: `assembler` beside
  /// the folder of the running program (that is `<build>/assembler`).
  std::string assemblerDir;
  /// Folders that hold or resemble a CUDA toolkit, searched after the above.
  /// Unset: CUDA_HOME, CUDA_PATH, the folder above `ptxas` in PATH, and
  /// /usr/local/cuda. Set but empty: no toolkit is looked for.
  std::optional<std::vector<std::string>> toolkitRoots;
};

/// What one assembler run said and made.
struct AssemblerResult {
  std::vector<char> cubin;
  /// Messages as printed, without the paths of temporary files.
  std::string log;
};

/// Assembles PTX. `assemble` may be called from several threads at once.
class Assembler {
public:
  virtual ~Assembler() = default;
  /// For instance "ptxas 13.0.88" or "nvjitlink 13.0".
  virtual std::string getDescription() const = 0;
  /// Where it was found.
  virtual std::string getPath() const = 0;
  /// `chip` is for instance "sm_90a". An error carries the assembler's messages.
  virtual llvm::Expected<AssemblerResult> assemble(llvm::StringRef ptx,
                                                   llvm::StringRef chip) const = 0;
};

/// Finds the assembler that `options` asks for. With `auto` the order is ptxas,
/// nvptxcompiler, nvjitlink. The error names every place that was tried and how
/// to get an assembler. `none` is not an assembler: the caller stops before.
llvm::Expected<std::unique_ptr<Assembler>> createAssembler(const AssemblerOptions &options);

/// What the assembler reports of one kernel.
struct AssemblerReport {
  uint32_t registers = 0;
  uint32_t stackBytes = 0;
  uint32_t spillStoreBytes = 0;
  uint32_t spillLoadBytes = 0;
  uint32_t staticSharedBytes = 0;
  /// True if the log had a resource line. Only then are the numbers known.
  bool known = false;
  /// Lines with a code of the C75xx family: wgmma serialised, waits injected,
  /// setmaxnreg ignored.
  std::vector<std::string> wgmmaMessages;
  /// Other lines marked as a warning.
  std::vector<std::string> warnings;
};

/// Parses the log of a verbose run (`ptxas -v`) over a file with one kernel.
AssemblerReport parseAssemblerLog(llvm::StringRef log);

namespace detail {
/// The implementations behind createAssembler; null when not installed. `tried`
/// receives the places looked at.
llvm::Expected<std::unique_ptr<Assembler>> createPtxas(const AssemblerOptions &options,
                                                       std::vector<std::string> &tried);
llvm::Expected<std::unique_ptr<Assembler>> createNvPtxCompiler(const AssemblerOptions &options,
                                                               std::vector<std::string> &tried);
llvm::Expected<std::unique_ptr<Assembler>> createNvJitLink(const AssemblerOptions &options,
                                                           std::vector<std::string> &tried);
/// Folders with the lay-out of a toolkit (bin/, lib/, lib64/), best first.
std::vector<std::string> getToolkitRoots(const AssemblerOptions &options);
} // namespace detail

} // namespace mlac

#endif // MLA_TARGET_NVPTX_ASSEMBLER_H
