//===- SchemaVersion.h - which packages a runtime may run -------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One number, for the compiler and the runtime alike.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_SCHEMA_SCHEMAVERSION_H
#define MLAC_SCHEMA_SCHEMAVERSION_H

#include <cstdint>

namespace mlac {

/// Raised with every change after which a package and the runtime of different versions would
/// not do the right thing together, whether or not package.fbs changes: fields of metadata
/// arrays, their lengths, the meaning of a size. Nothing else can tell them apart.
///   2  item_counters holds what each program works on, too; merges have forms
///   3  a list of pools in the place of one cache; buffers are named by their pool
///   4  a merge says how far its partials lie apart; prompts have parts
/// Packages without forks are as before: a runtime that knows none refuses a step of no kind.
inline constexpr uint32_t kSchemaVersion = 4;

} // namespace mlac

#endif // MLAC_SCHEMA_SCHEMAVERSION_H
