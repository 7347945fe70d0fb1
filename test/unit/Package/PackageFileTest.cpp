//===- PackageFileTest.cpp - a package as bytes and as a file ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Package/PackageFile.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "gtest/gtest.h"

using namespace mlac;

/// One target with one kernel and a function that launches it.
static package::PackageT makePackage() {
  package::PackageT result;
  result.schema_version = kSchemaVersion;
  result.targets.push_back(std::make_unique<package::TargetT>());
  package::TargetT &target = *result.targets.back();
  target.arch = "sm_90a";
  target.code.push_back(std::make_unique<package::CodeObjectT>());
  target.code.back()->bytes = {1, 2, 3};
  target.kernels.push_back(std::make_unique<package::KernelT>());
  target.kernels.back()->name = "copy";
  target.functions.push_back(std::make_unique<package::FunctionT>());
  package::FunctionT &function = *target.functions.back();
  function.name = "decode";
  function.exprs.emplace_back(package::ExprOp::Const, 0, 0, 0, 1);
  function.steps.push_back(std::make_unique<package::StepT>());
  function.steps.back()->launch = std::make_unique<package::LaunchT>();
  function.steps.back()->launch->grid = {0, 0, 0};
  return result;
}

static package::LaunchT &getLaunch(package::PackageT &package) {
  return *package.targets[0]->functions[0]->steps[0]->launch;
}

TEST(PackageFile, PacksVerifiesAndReadsBack) {
  llvm::Expected<std::vector<uint8_t>> bytes = packPackage(makePackage());
  ASSERT_TRUE(static_cast<bool>(bytes));
  const package::Package *read = package::GetPackage(bytes->data());
  EXPECT_TRUE(package::PackageBufferHasIdentifier(bytes->data()));
  EXPECT_EQ(read->targets()->Get(0)->kernels()->Get(0)->name()->str(), "copy");
  const uint8_t *code = read->targets()->Get(0)->code()->Get(0)->bytes()->data();
  EXPECT_EQ((code - bytes->data()) % 16, 0);
}

TEST(PackageFile, EqualPackagesHaveEqualBytes) {
  EXPECT_EQ(llvm::cantFail(packPackage(makePackage())), llvm::cantFail(packPackage(makePackage())));
}

TEST(PackageFile, IndicesOutOfRangeAreNamed) {
  package::PackageT package = makePackage();
  getLaunch(package).kernel = 7;
  EXPECT_EQ(llvm::toString(packPackage(package).takeError()),
            "sm_90a, function decode: expected a kernel below 1, got 7");
  package = makePackage();
  package.targets[0]->kernels[0]->code = 2;
  EXPECT_EQ(llvm::toString(packPackage(package).takeError()),
            "sm_90a, kernel copy: expected a code object below 1, got 2");
  package = makePackage();
  getLaunch(package).args.emplace_back(package::ArgKind::Buffer, 3, 0, 0.0f);
  EXPECT_EQ(llvm::toString(packPackage(package).takeError()),
            "sm_90a, function decode: expected a buffer below 0, got 3");
}

TEST(PackageFile, WritesAllOrNothing) {
  llvm::SmallString<128> folder;
  ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("mlac-package", folder));
  llvm::SmallString<128> path = folder, missing = folder;
  llvm::sys::path::append(path, "out.mlac");
  llvm::sys::path::append(missing, "no", "out.mlac");
  std::vector<uint8_t> bytes = {'a', 'b', 'c'};
  ASSERT_FALSE(static_cast<bool>(writeFileAtomically(path, bytes)));
  auto read = llvm::MemoryBuffer::getFile(path);
  ASSERT_TRUE(static_cast<bool>(read));
  EXPECT_EQ((*read)->getBuffer(), "abc");

  std::string message = llvm::toString(writeFileAtomically(missing, bytes));
  EXPECT_NE(message.find("cannot write '" + missing.str().str() + "'"), std::string::npos);

  message = llvm::toString(writeFileAtomically(folder, bytes));
  EXPECT_EQ(message, "cannot write '" + folder.str().str() + "': it is a folder");

  std::error_code code;
  int files = 0; // only the complete one
  for (llvm::sys::fs::directory_iterator it(folder, code), end; it != end; it.increment(code))
    ++files;
  EXPECT_EQ(files, 1);
  llvm::sys::fs::remove_directories(folder);
}

TEST(PackageFile, DevicesAreWrittenToAndNotReplaced) {
  std::vector<uint8_t> bytes(100000, 'a');
  std::string message = llvm::toString(writeFileAtomically("/dev/full", bytes));
  EXPECT_EQ(message, "cannot write 100000 bytes to '/dev/full': No space left on device");
  ASSERT_FALSE(static_cast<bool>(writeFileAtomically("/dev/null", bytes)));
  llvm::sys::fs::file_status status;
  ASSERT_FALSE(llvm::sys::fs::status("/dev/null", status));
  EXPECT_EQ(status.type(), llvm::sys::fs::file_type::character_file);
}
