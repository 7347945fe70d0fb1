//===- Mains.h - the compiler's programs as functions ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each is the `main` of a program of its own, and mlac-tools is all of them in one file.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_TOOLS_MAINS_H
#define MLAC_TOOLS_MAINS_H

namespace mlac {

int compileMain(int argc, char **argv);
int optMain(int argc, char **argv);
int lspServerMain(int argc, char **argv);

/// Takes the options away that LLVM's back ends, and other programs in this file, registered
/// before main: --help of a program shows its own.
void forgetForeignOptions();

/// Makes standard output that cannot be written (a full disk, a closed pipe) an error of the
/// program when it ends, instead of an abort, and standard error none.
void watchStandardStreams(const char *program);

} // namespace mlac

#endif // MLAC_TOOLS_MAINS_H
