//===- PackagedKernel.cpp - a package's kernel and this compiler's ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PackagedKernel.h"

#include "package/Package.h"

#include "mla/Driver/CompileTarget.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

using namespace mlac;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

static Error failed(const llvm::Twine &text) { return llvm::createStringError(text); }

static StringRef toText(const flatbuffers::String *string) {
  std::string_view view = runtime::text(string);
  return {view.data(), view.size()};
}

static StringRef toText(const flatbuffers::Vector<uint8_t> &bytes) {
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

/// A table as bytes that are equal where all of its fields are.
template <typename Table> static std::string pack(const Table &fields) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(Table::TableType::Pack(builder, &fields));
  return {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()};
}

static const package::Target *findTarget(const package::Package &package, StringRef arch) {
  for (const package::Target *target : *package.targets())
    if (toText(target->arch()) == arch)
      return target;
  return nullptr;
}

static const package::Kernel *findKernel(const package::Target &target, StringRef name) {
  for (const package::Kernel *kernel : *target.kernels())
    if (toText(kernel->name()) == name)
      return kernel;
  return nullptr;
}

static const package::Function *findFunction(const package::Target &target, StringRef name) {
  for (const package::Function *function : *target.functions())
    if (toText(function->name()) == name)
      return function;
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

/// Where two texts or binaries differ first. PTX is shown by its line.
static std::string describeDifference(StringRef packaged, StringRef compiled, bool isText) {
  size_t at = 0, common = std::min(packaged.size(), compiled.size());
  while (at < common && packaged[at] == compiled[at])
    ++at;
  if (!isText)
    return ("byte " + llvm::Twine(at) + " of " + llvm::Twine(packaged.size())).str();
  auto lineAt = [&](StringRef text) {
    StringRef head = text.take_front(at), line = text.drop_front(head.rfind('\n') + 1);
    return "'" + line.split('\n').first.trim().str() + "'";
  };
  return ("line " + llvm::Twine(packaged.take_front(at).count('\n') + 1) + ", " + lineAt(packaged) +
          " where this compiler has " + lineAt(compiled))
      .str();
}

/// The assembler to compile with, to have the package's bytes; nothing, with a line to `os`, if
/// it is not here.
static std::optional<AssemblerOptions> chooseAssembler(StringRef packaged, AssemblerOptions options,
                                                       llvm::raw_ostream &os) {
  if (packaged == stringifyAssemblerKind(AssemblerKind::None)) {
    options.kind = AssemblerKind::None;
    return options;
  }
  Expected<std::unique_ptr<Assembler>> assembler = createAssembler(options);
  std::string here = assembler ? (*assembler)->getDescription() : "no assembler";
  if (!assembler)
    llvm::consumeError(assembler.takeError());
  if (here == packaged)
    return options;
  os << "  package: its code was made by " << packaged << ", here is " << here
     << ": not compared\n";
  return std::nullopt;
}

static Error compareCode(const package::Target &packaged, const package::Kernel &kernel,
                         const FreshKernel &fresh, const AssemblerOptions &assembler) {
  CompileOptions options = fresh.options;
  options.assembler = assembler;
  package::TargetT compiled;
  compiled.arch = fresh.target.getName();
  StageTimer timer;
  if (mlir::failed(fresh.target.compile(fresh.module, options, timer, compiled)))
    return failed("the kernel was not compiled");
  package::KernelT &mine = *compiled.kernels.front();
  const std::vector<uint8_t> &bytes = compiled.code.at(mine.code)->bytes;
  StringRef code(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  StringRef other = toText(*packaged.code()->Get(kernel.code())->bytes());
  bool isText = assembler.kind == AssemblerKind::None;
  if (code != other)
    return failed("the package's kernel '" + fresh.name +
                  "' is not what this compiler makes of its configuration: " +
                  describeDifference(other, code, isText));
  std::unique_ptr<package::KernelT> theirs(kernel.UnPack());
  theirs->code = mine.code; // it has another place there
  if (pack(*theirs) != pack(mine))
    return failed("the package launches '" + fresh.name +
                  "' with other threads, shared memory or tensor maps than this compiler");
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

static Error compareFunctions(const package::Target &packaged, const package::Target &compiled) {
  for (const package::Function *function : *compiled.functions()) {
    StringRef name = toText(function->name());
    const package::Function *other = findFunction(packaged, name);
    if (!other)
      return failed("the package has no function '" + name + "'");
    std::unique_ptr<package::FunctionT> mine(function->UnPack()), theirs(other->UnPack());
    if (pack(*mine) != pack(*theirs))
      return failed("the package's function '" + name +
                    "' is not what this compiler makes of its configuration");
  }
  return Error::success();
}

/// Of a package with kinds, that of a layer; null: there is none.
static std::shared_ptr<runtime::Package> takeKind(std::shared_ptr<runtime::Package> package,
                                                  int64_t layer) {
  if (package->kinds().empty())
    return package;
  for (const runtime::KindInfo &kind : package->kinds())
    if (llvm::is_contained(kind.layers, layer))
      return kind.package;
  return nullptr;
}

Error mlac::comparePackaged(const std::string &path, const FreshKernel &fresh,
                            llvm::raw_ostream &os) {
  std::shared_ptr<runtime::Package> package;
  if (runtime::Status status = runtime::Package::openFile(path, package); !status.isOk())
    return failed(status.message());
  int64_t layer = fresh.options.parsing.layer;
  package = takeKind(std::move(package), layer);
  if (!package)
    return failed("'" + path + "' has no layer " + llvm::Twine(layer));
  const package::Target *target = findTarget(package->root(), fresh.target.getName());
  if (!target)
    return failed("'" + path + "' has no code for " + fresh.target.getName());
  const package::Kernel *kernel = findKernel(*target, fresh.name);
  if (!kernel)
    return failed("'" + path + "' has no kernel '" + fresh.name + "'");
  if (Error error =
          compareFunctions(*target, *package::GetPackage(fresh.package.data())->targets()->Get(0)))
    return error;
  std::optional<AssemblerOptions> assembler =
      chooseAssembler(toText(target->assembler()), fresh.options.assembler, os);
  if (!assembler)
    return Error::success();
  if (Error error = compareCode(*target, *kernel, fresh, *assembler))
    return error;
  os << "  package: its code and its launches are those of this compiler\n";
  return Error::success();
}
