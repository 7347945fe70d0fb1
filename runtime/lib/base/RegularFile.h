//===- RegularFile.h - files that can be read and replaced ------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Packages, weights and snapshots are regular files. Anything else is refused: a
// FIFO would block its reader for ever, and a rename over a device node would take
// the node away from the whole machine.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_REGULARFILE_H
#define MLAC_RUNTIME_REGULARFILE_H

#include "base/Status.h"

#include <cstdio>
#include <memory>

namespace mlac::runtime {

struct CloseFile {
  void operator()(std::FILE *file) const { std::fclose(file); }
};
using FilePointer = std::unique_ptr<std::FILE, CloseFile>;

/// Opens a regular file for reading, or a link to one. Never waits for a writer.
Status openRegular(const std::string &path, int &descriptor);
Status openRegular(const std::string &path, FilePointer &file);

/// The file that a rename may replace, or make, where `path` is to be written: of a
/// link to a regular file the target, so that the link stays. Anything else that is
/// there is refused.
Status resolveTarget(const std::string &path, std::string &target);

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_REGULARFILE_H
