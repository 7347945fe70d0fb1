//===- InputFile.cpp - files that a command is given ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Import/InputFile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlac;
using llvm::sys::fs::file_type;

/// Whether the caller opened it: descriptors of this process.
static bool isOpen(llvm::StringRef path) {
  return path == "/dev/stdin" || path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/");
}

/// What it is, if that is nothing to read.
static llvm::StringRef describeSpecial(file_type type) {
  switch (type) {
  case file_type::directory_file:
    return "a folder";
  case file_type::fifo_file:
    return "a named pipe";
  case file_type::socket_file:
    return "a socket";
  case file_type::block_file:
  case file_type::character_file:
    return "a device";
  default:
    return "";
  }
}

llvm::Error mlac::checkInputFile(llvm::StringRef path) {
  llvm::sys::fs::file_status status;
  if (std::error_code code = llvm::sys::fs::status(path, status))
    return llvm::createStringError(code, code.message());
  llvm::StringRef special = describeSpecial(status.type());
  if (special.empty() || path == "/dev/null" || isOpen(path))
    return llvm::Error::success();
  return llvm::createStringError("it is " + special + ", expected a file");
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> mlac::readInputFile(llvm::StringRef path) {
  if (llvm::Error error = checkInputFile(path))
    return std::move(error);
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file)
    return llvm::createStringError(file.getError(), file.getError().message());
  return std::move(*file);
}
