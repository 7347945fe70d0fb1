//===- Main.cpp - the main function of one program ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Mains.h"

// MLAC_MAIN: which one (tools/CMakeLists.txt).
int main(int argc, char **argv) { return mlac::MLAC_MAIN(argc, argv); }
