//===- KernelTable.cpp - the kernels of a module, each once ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Plan/KernelTable.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

tile::KernelOp KernelTable::insert(tile::KernelOp kernel) {
  std::string name = kernel.getSymName().str();
  kernel.setSymName("kernel"); // the text must not depend on the name
  std::string text;
  llvm::raw_string_ostream stream(text);
  kernel->print(stream, OpPrintingFlags().useLocalScope());
  auto [entry, isNew] = byText.try_emplace(text, kernel);
  if (!isNew) {
    kernel->erase();
    return entry->second;
  }
  kernel.setSymName(name);
  symbols.insert(kernel); // makes the name unique
  return kernel;
}
