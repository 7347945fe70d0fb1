//===- LinkImage.cpp - objects to a shared object, with lld ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// lld works on files, so objects and image go through temporary ones. Their names
// do not reach the image: it has no build id, no symbol table beside the dynamic
// one, and a fixed soname.
//
//===----------------------------------------------------------------------===//

#include "mla/Target/Cpu/CompileKernels.h"

#include "lld/Common/Driver.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <memory>
#include <mutex>

LLD_HAS_DRIVER(elf)

static bool createTemporary(llvm::StringRef suffix, llvm::SmallString<128> &path,
                            std::string &error) {
  std::error_code code = llvm::sys::fs::createTemporaryFile("mlac-cpu", suffix, path);
  if (!code)
    return true;
  llvm::SmallString<128> folder;
  llvm::sys::path::system_temp_directory(/*ErasedOnReboot=*/true, folder);
  error = ("cannot create a temporary file in '" + folder + "' (TMPDIR): " + code.message()).str();
  return false;
}

static bool runLinker(llvm::ArrayRef<std::string> objects, const std::string &image,
                      std::string &error) {
  // lld keeps global state: one link at a time.
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  std::vector<const char *> arguments = {
      "ld.lld", "-shared", "--build-id=none",  "--strip-all", "-soname", "mlac-kernels.so",
      "-z",     "now",     "--hash-style=gnu", "--threads=1", "-o",      image.c_str()};
  for (const std::string &object : objects)
    arguments.push_back(object.c_str());
  std::string messages;
  llvm::raw_string_ostream stream(messages);
  lld::Result result = lld::lldMain(arguments, stream, stream, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0)
    error = "lld failed with status " + std::to_string(result.retCode) + ": " + messages;
  return result.retCode == 0;
}

static bool writeFile(llvm::StringRef path, llvm::ArrayRef<char> bytes, std::string &error) {
  std::error_code code;
  llvm::raw_fd_ostream file(path, code);
  if (!code)
    file.write(bytes.data(), bytes.size());
  file.close();
  bool isWritten = !code && !file.has_error();
  if (!isWritten)
    error = ("cannot write '" + path + "': " + (code ? code : file.error()).message()).str();
  file.clear_error();
  return isWritten;
}

static bool readFile(llvm::StringRef path, std::vector<char> &bytes, std::string &error) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer) {
    error = "cannot read the linked image: " + buffer.getError().message();
    return false;
  }
  bytes.assign((*buffer)->getBufferStart(), (*buffer)->getBufferEnd());
  return true;
}

bool mlac::detail::linkCpuImage(llvm::ArrayRef<llvm::SmallVector<char>> objects,
                                std::vector<char> &image, std::string &error) {
  std::vector<std::string> paths;
  std::vector<std::unique_ptr<llvm::FileRemover>> removers;
  auto createPath = [&](llvm::StringRef suffix) {
    llvm::SmallString<128> path;
    if (!createTemporary(suffix, path, error))
      return false;
    removers.push_back(std::make_unique<llvm::FileRemover>(path));
    paths.push_back(path.str().str());
    return true;
  };
  for (const llvm::SmallVector<char> &object : objects)
    if (!createPath("o") || !writeFile(paths.back(), object, error))
      return false;
  if (!createPath("so"))
    return false;
  std::string imagePath = paths.back();
  paths.pop_back();
  return runLinker(paths, imagePath, error) && readFile(imagePath, image, error);
}
