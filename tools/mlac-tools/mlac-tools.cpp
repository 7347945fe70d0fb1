//===- mlac-tools.cpp - the compiler's programs in one file ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A wheel carries this one: LLVM and MLIR, nine tenths of every program, are in it once. Which
// program it is, is its own name (a link, or argv[0] of an exec), else its first argument.
//
//===----------------------------------------------------------------------===//

#include "Mains.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

namespace {
struct Program {
  llvm::StringLiteral name;
  int (*main)(int, char **);
  llvm::StringLiteral summary;
};
} // namespace

static constexpr Program kPrograms[] = {
    {"mla-compile", mlac::compileMain, "compiles a model's attention into a package"},
    {"mla-opt", mlac::optMain, "runs passes over mlac's IR"},
    {"mla-lsp-server", mlac::lspServerMain, "serves editors that show mlac's IR"},
};

static const Program *find(llvm::StringRef name) {
  const Program *found =
      llvm::find_if(kPrograms, [&](const Program &program) { return program.name == name; });
  return found == std::end(kPrograms) ? nullptr : found;
}

static void printUsage(llvm::raw_ostream &os) {
  os << "usage: mlac-tools PROGRAM [argument...]\n"
     << "PROGRAM, which may also be this file's name:\n";
  for (const Program &program : kPrograms)
    os << "  " << llvm::left_justify(program.name, 16) << program.summary << "\n";
}

int main(int argc, char **argv) {
  if (argc > 0)
    if (const Program *program = find(llvm::sys::path::filename(argv[0])))
      return program->main(argc, argv);
  llvm::StringRef first = argc > 1 ? argv[1] : "";
  if (const Program *program = find(first))
    return program->main(argc - 1, argv + 1);
  if (first == "--help" || first == "-h") {
    printUsage(llvm::outs());
    return EXIT_SUCCESS;
  }
  llvm::errs() << "mlac-tools: error: "
               << (argc > 1 ? "no program '" + first.str() + "'" : "no program named") << "\n";
  printUsage(llvm::errs());
  return EXIT_FAILURE;
}
