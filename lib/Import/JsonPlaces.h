//===- JsonPlaces.h - where things stand in a JSON text ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The parser of configurations keeps no places; they are looked up here for the few
// members that an error names.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_IMPORT_JSONPLACES_H
#define MLAC_LIB_IMPORT_JSONPLACES_H

#include "mla/Import/ModelConfig.h"

namespace mlac {

/// The line and the column of a byte of `text`, from 1.
TextPlace getPlace(llvm::StringRef text, size_t byte);

/// The key of a member of the top-level object of `json`, which is valid: `a.b` is b of
/// the object under a. Where it is missing, what it would be a member of; the last of
/// several, as parsers take it.
TextPlace findMember(llvm::StringRef json, llvm::StringRef name);

/// Where `text` stops being JSON, and why.
ConfigProblem findSyntaxError(llvm::StringRef text);

} // namespace mlac

#endif // MLAC_LIB_IMPORT_JSONPLACES_H
