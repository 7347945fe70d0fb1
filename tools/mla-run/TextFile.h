//===- TextFile.h - results as files ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_RUN_TEXTFILE_H
#define MLA_RUN_TEXTFILE_H

#include <string>

namespace mlac::run {

/// Throws std::runtime_error naming the file and the reason if writeTextFile could not begin:
/// asked before the work whose result is written.
void checkWritable(const std::string &path);

/// Whether what is written to one would replace the other; devices and pipes take both.
bool isOneFile(const std::string &path, const std::string &other);

/// Throws std::runtime_error naming the file and the reason. A file has its name once it is
/// complete: what was there before stays until then. Devices and pipes are written as they are.
void writeTextFile(const std::string &path, const std::string &text);

} // namespace mlac::run

#endif // MLA_RUN_TEXTFILE_H
