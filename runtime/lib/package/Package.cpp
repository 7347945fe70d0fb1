//===- Package.cpp - reading a package file ---------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "package/Package.h"

#include "PackageTrailer.h"
#include "base/RegularFile.h"
#include "package/Checks.h"
#include "package/PackageVerifier.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/stat.h>

using namespace mlac::runtime;

/// The file's alignment in memory: code objects are aligned to 16 bytes in it.
static constexpr size_t kFileAlignment = 64;

void Package::FreeBytes::operator()(uint8_t *data) const { std::free(data); }

Package::Bytes Package::allocate(size_t bytes) {
  size_t rounded = (bytes + kFileAlignment) / kFileAlignment * kFileAlignment;
  return Bytes(static_cast<uint8_t *>(std::aligned_alloc(kFileAlignment, rounded)));
}

/// Checks the trailer and takes it off `size`.
static Status checkTrailer(const uint8_t *bytes, size_t &size) {
  using namespace mlac::package;
  // Smallest FlatBuffer: root offset and file identifier.
  constexpr size_t kSmallest = 8;
  if (size < kSmallest + kTrailerBytes)
    return error(MLA_CORRUPT, "package is truncated: ", size, " bytes");
  if (!PackageBufferHasIdentifier(bytes)) {
    std::string identifier(reinterpret_cast<const char *>(bytes) + 4, 4);
    for (char &c : identifier)
      c = c >= ' ' && c <= '~' ? c : '?';
    return error(MLA_CORRUPT, "not an mlac package: file identifier '", identifier, "', expected '",
                 PackageIdentifier(), "'");
  }
  size_t body = size - kTrailerBytes;
  if (std::memcmp(bytes + body, kTrailerMagic, kTrailerMagicBytes) != 0)
    return error(MLA_CORRUPT,
                 "package is truncated or damaged: no trailer at "
                 "byte ",
                 body);
  uint64_t expected;
  std::memcpy(&expected, bytes + body + kTrailerMagicBytes, sizeof expected);
  if (uint64_t actual = checksum(bytes, body); actual != expected)
    return error(MLA_CORRUPT, "package is damaged: checksum ", actual, ", expected ", expected);
  size = body;
  return Status();
}

Status Package::adopt(Bytes bytes, size_t size, bool mayHaveKinds,
                      std::shared_ptr<Package> &package) {
  auto result = std::make_shared<Package>();
  result->fileBytes_ = size;
  MLAC_RETURN_IF_ERROR(checkTrailer(bytes.get(), size));
  MLAC_RETURN_IF_ERROR(PackageVerifier::checkLists(bytes.get(), size));
  flatbuffers::Verifier verifier(bytes.get(), size);
  if (!fb::VerifyPackageBuffer(verifier))
    return error(MLA_CORRUPT, "package is damaged: the FlatBuffer's offsets "
                              "are inconsistent");
  result->root_ = fb::GetPackage(bytes.get());
  result->bytes_ = std::move(bytes);
  bool hasKinds = sizeOf(result->root_->kinds()) > 0;
  if (hasKinds && !mayHaveKinds)
    return error(MLA_CORRUPT, "a kind of layers has kinds of its own");
  MLAC_RETURN_IF_ERROR(hasKinds ? result->readKinds() : PackageVerifier(*result).run());
  package = std::move(result);
  return Status();
}

uint64_t Package::checksum() const {
  uint64_t sum;
  std::memcpy(&sum, bytes_.get() + fileBytes_ - sizeof sum, sizeof sum);
  return sum;
}

Status Package::open(const void *data, size_t bytes, std::shared_ptr<Package> &package) {
  Bytes copy = allocate(bytes);
  if (!copy)
    return error(MLA_OUT_OF_MEMORY, "package of ", bytes, " bytes");
  std::memcpy(copy.get(), data, bytes);
  return adopt(std::move(copy), bytes, /*mayHaveKinds=*/true, package);
}

Status Package::openFile(const std::string &path, std::shared_ptr<Package> &package) {
  FilePointer file;
  MLAC_RETURN_IF_ERROR(openRegular(path, file).in(concat("package '", path, "'")));
  struct stat properties {};
  if (fstat(fileno(file.get()), &properties) != 0)
    return error(MLA_NOT_FOUND, "package '", path, "': ", std::strerror(errno));
  int64_t size = properties.st_size;
  if (static_cast<size_t>(size) >= FLATBUFFERS_MAX_BUFFER_SIZE)
    return error(MLA_CORRUPT, "package '", path, "' has ", size, " bytes, limit ",
                 FLATBUFFERS_MAX_BUFFER_SIZE);
  Bytes bytes = allocate(static_cast<size_t>(size));
  if (!bytes)
    return error(MLA_OUT_OF_MEMORY, "package of ", size, " bytes");
  size_t read = std::fread(bytes.get(), 1, size, file.get());
  if (read != static_cast<size_t>(size))
    return error(MLA_NOT_FOUND, "cannot read package '", path, "': got ", read, " of ", size,
                 " bytes");
  return adopt(std::move(bytes), read, /*mayHaveKinds=*/true, package).in(path);
}

const FunctionInfo *TargetInfo::find(std::string_view name) const {
  auto found =
      std::find_if(functions.begin(), functions.end(), [&](auto &f) { return f.name == name; });
  return found == functions.end() ? nullptr : &*found;
}

const FunctionInfo *TargetInfo::findDecodesOf(const FunctionInfo &function) const {
  auto found = std::find_if(functions.begin(), functions.end(), [&](auto &f) {
    return !f.decodesOf.empty() && f.decodesOf == function.name;
  });
  return found == functions.end() ? nullptr : &*found;
}

std::string TargetInfo::text() const {
  std::string result(runtime::text(raw->arch()));
  if (raw->features() && raw->features()->size() > 0)
    result += concat(" (", runtime::text(raw->features()), ")");
  return result;
}

int64_t Package::findPool(std::string_view name) const {
  for (size_t i = 0; i < pools_.size(); ++i)
    if (pools_[i].name == name)
      return static_cast<int64_t>(i);
  return -1;
}

/// `find` knows the names of what the first pool has.
template <typename Find>
static auto findOfPool(const Package &package, std::string_view text, Find find)
    -> decltype(find(text)) {
  mlac::step::PoolName split = mlac::step::splitName(text);
  auto found = find(split.name);
  if (split.pool.empty() || !found)
    return found;
  int64_t pool = package.findPool(split.pool);
  if (pool < 0 || !mlac::step::isOfPool(*found))
    return std::nullopt;
  return ofPool(*found, static_cast<size_t>(pool));
}

std::optional<Dim> Package::findDim(std::string_view name) const {
  return findOfPool(*this, name, runtime::findDim);
}

std::optional<Metadata> Package::findMetadata(std::string_view name) const {
  return findOfPool(*this, name, runtime::findMetadata);
}

int64_t mlac::runtime::findTensor(const std::vector<TensorInfo> &tensors, std::string_view name) {
  auto found = std::find_if(tensors.begin(), tensors.end(),
                            [&](auto &tensor) { return tensor.name == name; });
  return found == tensors.end() ? -1 : found - tensors.begin();
}
