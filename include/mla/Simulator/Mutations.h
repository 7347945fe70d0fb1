//===- Mutations.h - bugs to plant in kernels ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_SIMULATOR_MUTATIONS_H
#define MLA_SIMULATOR_MUTATIONS_H

#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"

#include <string>
#include <vector>

namespace mlac::simulator {

/// The kinds of bugs, by name.
std::vector<std::string> getMutations();

/// Plants a bug of `kind` at the `index`-th place that can take it; false, with
/// the kernel unchanged, if there is no such place. The IR stays valid.
bool mutate(mlir::sm90::KernelOp kernel, llvm::StringRef kind, unsigned index);

} // namespace mlac::simulator

#endif // MLA_SIMULATOR_MUTATIONS_H
