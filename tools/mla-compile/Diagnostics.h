//===- Diagnostics.h - how mla-compile says what is wrong ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_COMPILE_DIAGNOSTICS_H
#define MLA_COMPILE_DIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/MemoryBuffer.h"

#include <map>
#include <memory>
#include <string>

namespace mlac {

/// Prints a context's diagnostics as `file:line:column: error: text`, and below it the
/// line, where it is one that a person can read: not that of a binary, nor a whole file
/// on one line. Remarks are reports; they go to `remarks`, if anywhere.
class DiagnosticPrinter {
public:
  DiagnosticPrinter(mlir::MLIRContext &context, llvm::raw_ostream *remarks);

private:
  void print(const mlir::Diagnostic &diagnostic);
  llvm::StringRef getLine(llvm::StringRef path, unsigned line);

  llvm::raw_ostream *remarks;
  std::map<std::string, std::unique_ptr<llvm::MemoryBuffer>> files; ///< null: unreadable
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace mlac

#endif // MLA_COMPILE_DIAGNOSTICS_H
