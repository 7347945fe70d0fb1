//===- TextFile.cpp - results as files ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TextFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <stdexcept>
#include <sys/stat.h>
#include <unistd.h>

using namespace mlac::run;
namespace fs = std::filesystem;

[[noreturn]] static void fail(const std::string &path, int code) {
  throw std::runtime_error(path + ": cannot write: " + std::strerror(code));
}

/// Returns errno, or 0.
static int writeAll(int descriptor, const std::string &text) {
  for (size_t done = 0; done < text.size();) {
    ssize_t count = write(descriptor, text.data() + done, text.size() - done);
    if (count < 0 && errno != EINTR)
      return errno;
    done += count < 0 ? 0 : count;
  }
  return 0;
}

static bool isSpecial(const fs::path &path) {
  std::error_code ignored;
  fs::file_status status = fs::status(path, ignored);
  return fs::exists(status) && !fs::is_regular_file(status);
}

static void writeToDevice(const std::string &path, const std::string &text) {
  int descriptor = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0)
    fail(path, errno);
  int code = writeAll(descriptor, text);
  if (close(descriptor) != 0 && code == 0)
    code = errno;
  if (code != 0)
    fail(path, code);
}

/// The file that a link leads to, so that the link stays.
static fs::path resolve(const std::string &path) {
  std::error_code ignored;
  fs::path real = fs::canonical(path, ignored);
  return real.empty() ? fs::path(path) : real;
}

/// What a file gets that has no permissions yet.
static mode_t defaultMode() {
  mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

bool mlac::run::isOneFile(const std::string &path, const std::string &other) {
  std::error_code ignored;
  return !isSpecial(path) && (path == other || fs::equivalent(path, other, ignored));
}

void mlac::run::checkWritable(const std::string &path) {
  if (path.empty())
    fail("''", ENOENT);
  if (isSpecial(path)) {
    if (fs::is_directory(path))
      fail(path, EISDIR);
    return;
  }
  fs::path folder = resolve(path).parent_path();
  if (access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0)
    fail(path, errno);
}

void mlac::run::writeTextFile(const std::string &path, const std::string &text) {
  checkWritable(path);
  if (isSpecial(path))
    return writeToDevice(path, text);
  fs::path target = resolve(path);
  std::string temporary = target.string() + ".XXXXXX";
  int descriptor = mkostemp(temporary.data(), O_CLOEXEC);
  if (descriptor < 0)
    fail(path, errno);
  struct stat before {};
  mode_t mode = stat(target.c_str(), &before) == 0 ? before.st_mode & 07777 : defaultMode();
  int code = writeAll(descriptor, text);
  if (code == 0 && fchmod(descriptor, mode) != 0)
    code = errno;
  if (close(descriptor) != 0 && code == 0)
    code = errno;
  if (code == 0 && std::rename(temporary.c_str(), target.c_str()) != 0)
    code = errno;
  if (code == 0)
    return;
  unlink(temporary.c_str());
  fail(path, code);
}
