//===- PackageFile.h - a package as bytes and as a file ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A package is built as the plain structs of the schema's object API
// (package::PackageT and the structs inside it) and packed at the end. Equal
// structs give equal bytes: nothing here depends on time, addresses or hashes.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_PACKAGE_PACKAGEFILE_H
#define MLA_PACKAGE_PACKAGEFILE_H

#include "SchemaVersion.h"
#include "package_generated.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <vector>

namespace mlac {

/// Packs and verifies. An error means that a table refers to something that
/// is not there; it names the target, the function and the index.
llvm::Expected<std::vector<uint8_t>> packPackage(const package::PackageT &package);

/// Writes all of `bytes` or leaves nothing: a temporary file beside `path` is
/// renamed when it is complete. What exists and is no ordinary file (/dev/stdout,
/// a named pipe) is written to directly.
llvm::Error writeFileAtomically(llvm::StringRef path, llvm::ArrayRef<uint8_t> bytes);

/// Whether writeFileAtomically can begin: an error where the folder is not there or takes no
/// files, and where `path` is a folder itself.
llvm::Error checkWritable(llvm::StringRef path);

} // namespace mlac

#endif // MLA_PACKAGE_PACKAGEFILE_H
