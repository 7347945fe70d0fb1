//===- AssemblerLibraries.cpp - the assembler as a shared library ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Opens libnvptxcompiler.so or libnvJitLink.so at run time. Their few entry
// points are declared here, so that building needs no CUDA header; signatures
// and enumerator values follow nvPTXCompiler.h and nvJitLink.h of CUDA 12.0 to
// 13.0, which agree on them. The libraries stay open until the process ends:
// they start threads and register exit handlers.
//
//===----------------------------------------------------------------------===//

#include "mla/Target/Nvptx/Assembler.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/DynamicLibrary.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlac;
using llvm::sys::DynamicLibrary;

static llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message.str());
}

namespace {
struct OpenedLibrary {
  DynamicLibrary library;
  std::string path;
};
} // namespace

/// Opens the first of `names` in the lib folders of the toolkit-like roots. Only
/// files at known places are opened: a bare name would depend on the loader's
/// cache.
static std::optional<OpenedLibrary> findLibrary(const AssemblerOptions &options,
                                                llvm::ArrayRef<llvm::StringRef> names,
                                                std::vector<std::string> &tried) {
  for (const std::string &root : detail::getToolkitRoots(options)) {
    tried.push_back(root + "/{lib64,lib}/{" + llvm::join(names, ",") + "}");
    for (llvm::StringRef folder : {"lib64", "lib"}) {
      for (llvm::StringRef name : names) {
        llvm::SmallString<256> path(root);
        llvm::sys::path::append(path, folder, name);
        if (!llvm::sys::fs::exists(path))
          continue;
        std::string message;
        DynamicLibrary library = DynamicLibrary::getPermanentLibrary(path.c_str(), &message);
        if (library.isValid())
          return OpenedLibrary{library, std::string(path)};
        tried.back() += " (" + message + ")";
      }
    }
  }
  return std::nullopt;
}

/// Sets `function` to the library's symbol; false if it lacks it.
template <typename Function>
static bool resolve(const OpenedLibrary &opened, const char *name, Function &function) {
  DynamicLibrary library = opened.library;
  function = reinterpret_cast<Function>(library.getAddressOfSymbol(name));
  return function != nullptr;
}

/// Reads a log through its pair of functions (size, text).
template <typename Handle>
static std::string readLog(Handle handle, int (*getSize)(Handle, size_t *),
                           int (*getText)(Handle, char *)) {
  size_t bytes = 0;
  if (getSize(handle, &bytes) != 0 || bytes == 0)
    return "";
  std::string text(bytes + 1, '\0');
  if (getText(handle, text.data()) != 0)
    return "";
  text.resize(strlen(text.c_str()));
  if (!text.empty() && text.back() != '\n')
    text += '\n';
  return text;
}

//===----------------------------------------------------------------------===//
// nvPTXCompiler
//===----------------------------------------------------------------------===//

namespace {
class NvPtxCompiler : public Assembler {
public:
  using Handle = void *;

  bool open(OpenedLibrary opened) {
    path = opened.path;
    return resolve(opened, "nvPTXCompilerGetVersion", getVersion) &&
           resolve(opened, "nvPTXCompilerCreate", create) &&
           resolve(opened, "nvPTXCompilerDestroy", destroy) &&
           resolve(opened, "nvPTXCompilerCompile", compile) &&
           resolve(opened, "nvPTXCompilerGetCompiledProgramSize", getProgramSize) &&
           resolve(opened, "nvPTXCompilerGetCompiledProgram", getProgram) &&
           resolve(opened, "nvPTXCompilerGetErrorLogSize", getErrorLogSize) &&
           resolve(opened, "nvPTXCompilerGetErrorLog", getErrorLog) &&
           resolve(opened, "nvPTXCompilerGetInfoLogSize", getInfoLogSize) &&
           resolve(opened, "nvPTXCompilerGetInfoLog", getInfoLog);
  }

  std::string getDescription() const override {
    unsigned major = 0, minor = 0;
    getVersion(&major, &minor);
    return ("nvptxcompiler " + llvm::Twine(major) + "." + llvm::Twine(minor)).str();
  }
  std::string getPath() const override { return path; }

  llvm::Expected<AssemblerResult> assemble(llvm::StringRef ptx,
                                           llvm::StringRef chip) const override {
    std::string text = ptx.str(), arch = ("--gpu-name=" + chip).str(); // zero-terminated
    Handle handle = nullptr;
    if (int status = create(&handle, text.size(), text.c_str()))
      return makeError("nvPTXCompilerCreate failed with status " + llvm::Twine(status));
    const char *options[] = {arch.c_str(), "--opt-level=3", "--verbose"};
    int status = compile(handle, std::size(options), options);
    AssemblerResult result;
    result.log = readLog(handle, getInfoLogSize, getInfoLog);
    size_t bytes = 0;
    if (status == 0)
      status = getProgramSize(handle, &bytes);
    if (status == 0) {
      result.cubin.resize(bytes);
      status = getProgram(handle, result.cubin.data());
    }
    std::string errors = status ? readLog(handle, getErrorLogSize, getErrorLog) : "";
    destroy(&handle);
    if (status)
      return makeError("nvPTXCompiler failed with status " + llvm::Twine(status) + ":\n" + errors);
    return result;
  }

private:
  std::string path;
  int (*getVersion)(unsigned *, unsigned *);
  int (*create)(Handle *, size_t, const char *);
  int (*destroy)(Handle *);
  int (*compile)(Handle, int, const char *const *);
  int (*getProgramSize)(Handle, size_t *);
  int (*getProgram)(Handle, void *);
  int (*getErrorLogSize)(Handle, size_t *);
  int (*getErrorLog)(Handle, char *);
  int (*getInfoLogSize)(Handle, size_t *);
  int (*getInfoLog)(Handle, char *);
};
} // namespace

llvm::Expected<std::unique_ptr<Assembler>>
detail::createNvPtxCompiler(const AssemblerOptions &options, std::vector<std::string> &tried) {
  std::optional<OpenedLibrary> opened = findLibrary(options, {"libnvptxcompiler.so"}, tried);
  auto assembler = std::make_unique<NvPtxCompiler>();
  if (!opened || !assembler->open(*opened))
    return nullptr;
  return assembler;
}

//===----------------------------------------------------------------------===//
// nvJitLink
//===----------------------------------------------------------------------===//

/// nvJitLinkInputType::NVJITLINK_INPUT_PTX.
static constexpr int kInputPtx = 2;

namespace {
class NvJitLink : public Assembler {
public:
  using Handle = void *;

  bool open(OpenedLibrary opened) {
    path = opened.path;
    return resolve(opened, "nvJitLinkVersion", getVersion) &&
           resolve(opened, "nvJitLinkCreate", create) &&
           resolve(opened, "nvJitLinkDestroy", destroy) &&
           resolve(opened, "nvJitLinkAddData", addData) &&
           resolve(opened, "nvJitLinkComplete", complete) &&
           resolve(opened, "nvJitLinkGetLinkedCubinSize", getCubinSize) &&
           resolve(opened, "nvJitLinkGetLinkedCubin", getCubin) &&
           resolve(opened, "nvJitLinkGetErrorLogSize", getErrorLogSize) &&
           resolve(opened, "nvJitLinkGetErrorLog", getErrorLog) &&
           resolve(opened, "nvJitLinkGetInfoLogSize", getInfoLogSize) &&
           resolve(opened, "nvJitLinkGetInfoLog", getInfoLog);
  }

  std::string getDescription() const override {
    unsigned major = 0, minor = 0;
    getVersion(&major, &minor);
    return ("nvjitlink " + llvm::Twine(major) + "." + llvm::Twine(minor)).str();
  }
  std::string getPath() const override { return path; }

  llvm::Expected<AssemblerResult> assemble(llvm::StringRef ptx,
                                           llvm::StringRef chip) const override {
    std::string text = ptx.str(), arch = ("-arch=" + chip).str(); // zero-terminated
    const char *options[] = {arch.c_str(), "-O3", "-verbose", "-Xptxas=-v"};
    Handle handle = nullptr;
    if (int status = create(&handle, std::size(options), options))
      return makeError("nvJitLinkCreate failed with status " + llvm::Twine(status));
    int status = addData(handle, kInputPtx, text.c_str(), text.size() + 1, "kernel");
    if (status == 0)
      status = complete(handle);
    AssemblerResult result;
    result.log = readLog(handle, getInfoLogSize, getInfoLog);
    std::string errors = readLog(handle, getErrorLogSize, getErrorLog);
    size_t bytes = 0;
    if (status == 0)
      status = getCubinSize(handle, &bytes);
    if (status == 0) {
      result.cubin.resize(bytes);
      status = getCubin(handle, result.cubin.data());
    }
    destroy(&handle);
    if (status)
      return makeError("nvJitLink failed with status " + llvm::Twine(status) + ":\n" + errors);
    result.log += errors; // warnings come in the error log
    return result;
  }

private:
  std::string path;
  int (*getVersion)(unsigned *, unsigned *);
  int (*create)(Handle *, uint32_t, const char **);
  int (*destroy)(Handle *);
  int (*addData)(Handle, int, const void *, size_t, const char *);
  int (*complete)(Handle);
  int (*getCubinSize)(Handle, size_t *);
  int (*getCubin)(Handle, void *);
  int (*getErrorLogSize)(Handle, size_t *);
  int (*getErrorLog)(Handle, char *);
  int (*getInfoLogSize)(Handle, size_t *);
  int (*getInfoLog)(Handle, char *);
};
} // namespace

llvm::Expected<std::unique_ptr<Assembler>>
detail::createNvJitLink(const AssemblerOptions &options, std::vector<std::string> &tried) {
  std::optional<OpenedLibrary> opened =
      findLibrary(options, {"libnvJitLink.so.13", "libnvJitLink.so.12", "libnvJitLink.so"}, tried);
  auto assembler = std::make_unique<NvJitLink>();
  if (!opened || !assembler->open(*opened))
    return nullptr;
  return assembler;
}
