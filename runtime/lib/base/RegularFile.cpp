//===- RegularFile.cpp - files that can be read and replaced ----*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "base/RegularFile.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace mlac::runtime;

static const char *kindOf(mode_t mode) {
  switch (mode & S_IFMT) {
  case S_IFDIR:
    return "a directory";
  case S_IFIFO:
    return "a FIFO";
  case S_IFSOCK:
    return "a socket";
  case S_IFLNK:
    return "a link to nothing";
  default:
    return "a device";
  }
}

static Status requireRegular(mla_status code, const struct stat &info) {
  if (S_ISREG(info.st_mode))
    return Status();
  return error(code, "is ", kindOf(info.st_mode), ", expected a regular file");
}

Status mlac::runtime::openRegular(const std::string &path, int &descriptor) {
  struct stat info {};
  // Looked at before it is opened, which some devices notice, and after: the name
  // may have become another file's.
  if (stat(path.c_str(), &info) != 0)
    return error(MLA_NOT_FOUND, "cannot open: ", std::strerror(errno));
  MLAC_RETURN_IF_ERROR(requireRegular(MLA_NOT_FOUND, info));
  int opened = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (opened < 0)
    return error(MLA_NOT_FOUND, "cannot open: ", std::strerror(errno));
  Status status = fstat(opened, &info) == 0
                      ? requireRegular(MLA_NOT_FOUND, info)
                      : error(MLA_NOT_FOUND, "cannot open: ", std::strerror(errno));
  if (!status.isOk())
    close(opened);
  else
    descriptor = opened;
  return status;
}

Status mlac::runtime::openRegular(const std::string &path, FilePointer &file) {
  int descriptor;
  MLAC_RETURN_IF_ERROR(openRegular(path, descriptor));
  file.reset(fdopen(descriptor, "rb"));
  if (file)
    return Status();
  close(descriptor);
  return error(MLA_OUT_OF_MEMORY, "cannot open: ", std::strerror(errno));
}

Status mlac::runtime::resolveTarget(const std::string &path, std::string &target) {
  target = path;
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) // a new name; a missing folder is found when written
    return Status();
  if (S_ISLNK(info.st_mode)) {
    std::unique_ptr<char, void (*)(void *)> real(realpath(path.c_str(), nullptr), std::free);
    if (real && stat(real.get(), &info) == 0)
      target = real.get();
  }
  return requireRegular(MLA_INVALID_ARGUMENT, info);
}
