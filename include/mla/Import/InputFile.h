//===- InputFile.h - files that a command is given ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reading a named pipe waits for a writer that may never come, and a device may never
// end. What the caller has opened itself, such as a shell's `<(...)` or /dev/stdin, is
// read as it is.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_IMPORT_INPUTFILE_H
#define MLA_IMPORT_INPUTFILE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>

namespace llvm {
class MemoryBuffer;
} // namespace llvm

namespace mlac {

/// Refuses folders, named pipes, sockets, and devices but /dev/null. The error does not
/// repeat the path.
llvm::Error checkInputFile(llvm::StringRef path);

/// The content of a file that checkInputFile takes.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> readInputFile(llvm::StringRef path);

} // namespace mlac

#endif // MLA_IMPORT_INPUTFILE_H
