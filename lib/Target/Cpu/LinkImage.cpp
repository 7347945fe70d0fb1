//===- LinkImage.cpp - an object to a shared object, with lld ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// lld works on files, so the object goes through two temporary ones. Their names
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
#include "llvm/Support/raw_ostream.h"

#include <mutex>

LLD_HAS_DRIVER(elf)

static bool createTemporary(llvm::StringRef suffix, llvm::SmallString<128> &path,
                            std::string &error) {
  std::error_code code = llvm::sys::fs::createTemporaryFile("mlac-cpu", suffix, path);
  if (code)
    error = "cannot create a temporary file: " + code.message();
  return !code;
}

static bool runLinker(llvm::StringRef object, llvm::StringRef image, std::string &error) {
  // lld keeps global state: one link at a time.
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  std::string objectPath = object.str(), imagePath = image.str();
  const char *arguments[] = {"ld.lld",           "-shared",  "--build-id=none",
                             "--strip-all",      "-soname",  "mlac-kernels.so",
                             "-z",               "noexecstack", "-z", "relro", "-z", "now",
                             "--hash-style=gnu", "--threads=1", "-o",
                             imagePath.c_str(),  objectPath.c_str()};
  std::string messages;
  llvm::raw_string_ostream stream(messages);
  lld::Result result =
      lld::lldMain(arguments, stream, stream, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0)
    error = "lld failed with status " + std::to_string(result.retCode) + ": " + messages;
  return result.retCode == 0;
}

bool mlac::detail::linkCpuImage(llvm::ArrayRef<char> object, std::vector<char> &image,
                                std::string &error) {
  llvm::SmallString<128> objectPath, imagePath;
  if (!createTemporary("o", objectPath, error))
    return false;
  llvm::FileRemover removeObject(objectPath);
  if (!createTemporary("so", imagePath, error))
    return false;
  llvm::FileRemover removeImage(imagePath);
  {
    std::error_code code;
    llvm::raw_fd_ostream file(objectPath, code);
    if (!code)
      file.write(object.data(), object.size());
    file.close();
    if (code || file.has_error()) {
      error = ("cannot write " + objectPath).str();
      return false;
    }
  }
  if (!runLinker(objectPath, imagePath, error))
    return false;
  auto buffer = llvm::MemoryBuffer::getFile(imagePath, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer) {
    error = "cannot read the linked image: " + buffer.getError().message();
    return false;
  }
  image.assign((*buffer)->getBufferStart(), (*buffer)->getBufferEnd());
  return true;
}
