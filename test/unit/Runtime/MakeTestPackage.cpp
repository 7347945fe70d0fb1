//===- MakeTestPackage.cpp - the test package as a file ---------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestPackage.h"

#include <cstdio>
#include <fstream>

static bool write(const char *path, const mlac::test::fb::PackageT &package) {
  std::string bytes = mlac::test::pack(package);
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return file.good();
}

int main(int argc, char **argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: %s CPU-PACKAGE [CUDA-PACKAGE]\n", argv[0]);
    return 1;
  }
  bool isWritten = write(argv[1], mlac::test::makePackage());
#ifdef MLAC_TEST_CUBIN
  if (argc == 3)
    isWritten &= write(argv[2], mlac::test::makeCudaPackage());
#endif
  return isWritten ? 0 : 1;
}
