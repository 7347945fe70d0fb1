//===- PackageFile.cpp - a package as bytes and as a file ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Package/PackageFile.h"

#include "PackageTrailer.h"

#include "llvm/ADT/Twine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlac;

/// Start of the FlatBuffer builder's buffer; it doubles when full.
static constexpr size_t kInitialBytes = 1 << 20;

template <typename... Parts> static llvm::Error makeError(const Parts &...parts) {
  std::string message;
  llvm::raw_string_ostream stream(message);
  (stream << ... << parts);
  return llvm::createStringError(message);
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

static llvm::Error checkIndex(llvm::StringRef where, llvm::StringRef what, size_t index,
                              size_t count) {
  if (index < count)
    return llvm::Error::success();
  return makeError(where, ": expected a ", what, " below ", count, ", got ", index);
}

static llvm::Error checkLaunch(llvm::StringRef where, const package::LaunchT &launch,
                               const package::FunctionT &function, const package::TargetT &target) {
  if (llvm::Error error = checkIndex(where, "kernel", launch.kernel, target.kernels.size()))
    return error;
  for (uint32_t size : launch.grid)
    if (llvm::Error error = checkIndex(where, "grid expression", size, function.exprs.size()))
      return error;
  for (const package::Arg &arg : launch.args) {
    if (llvm::Error error = checkIndex(where, "expression", arg.expr(), function.exprs.size()))
      return error;
    bool isBuffer = arg.kind() == package::ArgKind::Buffer;
    if (!isBuffer)
      continue;
    if (llvm::Error error = checkIndex(where, "buffer", arg.buffer(), function.buffers.size()))
      return error;
  }
  return llvm::Error::success();
}

static llvm::Error checkSteps(llvm::StringRef where,
                              const std::vector<std::unique_ptr<package::StepT>> &steps,
                              const package::FunctionT &function, const package::TargetT &target) {
  for (const std::unique_ptr<package::StepT> &step : steps) {
    llvm::Error error = llvm::Error::success();
    if (step->launch)
      error = checkLaunch(where, *step->launch, function, target);
    else if (step->loop)
      error = checkSteps(where, step->loop->body, function, target);
    else if (step->fork)
      error = llvm::joinErrors(checkSteps(where, step->fork->main, function, target),
                               checkSteps(where, step->fork->side, function, target));
    else if (step->branch)
      error = llvm::joinErrors(checkSteps(where, step->branch->then_steps, function, target),
                               checkSteps(where, step->branch->else_steps, function, target));
    if (error)
      return error;
  }
  return llvm::Error::success();
}

static llvm::Error checkTarget(const package::TargetT &target) {
  for (const std::unique_ptr<package::KernelT> &kernel : target.kernels)
    if (llvm::Error error = checkIndex(target.arch + ", kernel " + kernel->name, "code object",
                                       kernel->code, target.code.size()))
      return error;
  for (const std::unique_ptr<package::FunctionT> &function : target.functions)
    if (llvm::Error error = checkSteps(target.arch + ", function " + function->name,
                                       function->steps, *function, target))
      return error;
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Packing and writing
//===----------------------------------------------------------------------===//

llvm::Expected<std::vector<uint8_t>> mlac::packPackage(const package::PackageT &package) {
  for (const std::unique_ptr<package::TargetT> &target : package.targets)
    if (llvm::Error error = checkTarget(*target))
      return std::move(error);

  flatbuffers::FlatBufferBuilder builder(kInitialBytes);
  package::FinishPackageBuffer(builder, package::CreatePackage(builder, &package));
  std::vector<uint8_t> bytes(builder.GetBufferPointer(),
                             builder.GetBufferPointer() + builder.GetSize());
  flatbuffers::Verifier verifier(bytes.data(), bytes.size());
  if (!package::VerifyPackageBuffer(verifier))
    return makeError("the packed package of ", bytes.size(),
                     " bytes does not pass FlatBuffers' verification (steps nested too deeply?)");
  package::appendTrailer(bytes);
  return bytes;
}

llvm::Error mlac::checkWritable(llvm::StringRef path) {
  namespace fs = llvm::sys::fs;
  fs::file_status status;
  if (!fs::status(path, status) && fs::exists(status)) {
    if (fs::is_directory(status))
      return makeError("cannot write '", path, "': it is a folder");
    if (!fs::is_regular_file(status))
      return llvm::Error::success(); // /dev/stdout, a named pipe
  }
  llvm::StringRef parent = llvm::sys::path::parent_path(path);
  if (std::error_code code = fs::access(parent.empty() ? "." : parent, fs::AccessMode::Write))
    return makeError("cannot write '", path, "': ", code.message());
  if (!parent.empty() && !fs::is_directory(parent))
    return makeError("cannot write '", path, "': '", parent, "' is no folder");
  return llvm::Error::success();
}

/// Writes to what is no ordinary file and must not be replaced by one, such as
/// /dev/stdout or a named pipe.
static llvm::Error writeToDevice(llvm::StringRef path, llvm::ArrayRef<uint8_t> bytes) {
  std::error_code code;
  llvm::raw_fd_ostream stream(path, code, llvm::sys::fs::CD_OpenExisting);
  if (!code) {
    stream.write(reinterpret_cast<const char *>(bytes.data()), bytes.size());
    stream.flush();
    code = stream.error();
    stream.clear_error();
  }
  if (code)
    return makeError("cannot write ", bytes.size(), " bytes to '", path, "': ", code.message());
  return llvm::Error::success();
}

llvm::Error mlac::writeFileAtomically(llvm::StringRef path, llvm::ArrayRef<uint8_t> bytes) {
  llvm::sys::fs::file_status status;
  if (!llvm::sys::fs::status(path, status) && llvm::sys::fs::exists(status)) {
    if (llvm::sys::fs::is_directory(status))
      return makeError("cannot write '", path, "': it is a folder");
    if (!llvm::sys::fs::is_regular_file(status))
      return writeToDevice(path, bytes);
  }
  llvm::Expected<llvm::sys::fs::TempFile> file = llvm::sys::fs::TempFile::create(
      path + ".%%%%%%%%.tmp", llvm::sys::fs::all_read | llvm::sys::fs::owner_write);
  if (!file)
    return makeError("cannot write '", path, "': ", llvm::toString(file.takeError()));
  llvm::raw_fd_ostream stream(file->FD, /*shouldClose=*/false);
  stream.write(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  stream.flush();
  if (std::error_code code = stream.error()) {
    stream.clear_error();
    llvm::consumeError(file->discard());
    return makeError("cannot write ", bytes.size(), " bytes to '", path, "': ", code.message());
  }
  if (llvm::Error error = file->keep(path)) {
    llvm::consumeError(file->discard());
    return makeError("cannot write '", path, "': ", llvm::toString(std::move(error)));
  }
  return llvm::Error::success();
}
