//===- ZipFile.cpp - entries of a zip file in memory ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ZipFile.h"

#include <minizip/unzip.h>

#include <algorithm>
#include <cstring>

using namespace mlac;

/// What minizip reads from, and its handle.
struct ZipFile::Stream {
  explicit Stream(llvm::StringRef bytes) : bytes(bytes) {}
  ~Stream() {
    if (zip)
      unzClose(zip);
  }
  zlib_filefunc64_def getFunctions();

  llvm::StringRef bytes;
  uint64_t at = 0;
  unzFile zip = nullptr;
};

ZipFile::ZipFile() = default;
ZipFile::~ZipFile() = default;
ZipFile::ZipFile(ZipFile &&) = default;
ZipFile &ZipFile::operator=(ZipFile &&) = default;

zlib_filefunc64_def ZipFile::Stream::getFunctions() {
  auto read = [](voidpf opaque, voidpf, void *buffer, uLong size) -> uLong {
    auto *stream = static_cast<Stream *>(opaque);
    llvm::StringRef part = stream->bytes.substr(stream->at, size);
    std::memcpy(buffer, part.data(), part.size());
    stream->at += part.size();
    return part.size();
  };
  auto seek = [](voidpf opaque, voidpf, ZPOS64_T offset, int origin) -> long {
    auto *stream = static_cast<Stream *>(opaque);
    uint64_t base = origin == ZLIB_FILEFUNC_SEEK_CUR   ? stream->at
                    : origin == ZLIB_FILEFUNC_SEEK_END ? stream->bytes.size()
                                                       : 0;
    if (offset > stream->bytes.size() - base)
      return -1;
    stream->at = base + offset;
    return 0;
  };
  zlib_filefunc64_def functions{};
  functions.zopen64_file = [](voidpf opaque, const void *, int) { return opaque; };
  functions.zread_file = read;
  functions.zwrite_file = [](voidpf, voidpf, const void *, uLong) -> uLong { return 0; };
  functions.ztell64_file = [](voidpf opaque, voidpf) -> ZPOS64_T {
    return static_cast<Stream *>(opaque)->at;
  };
  functions.zseek64_file = seek;
  functions.zclose_file = [](voidpf, voidpf) { return 0; };
  functions.zerror_file = [](voidpf, voidpf) { return 0; };
  functions.opaque = this;
  return functions;
}

static llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(message);
}

llvm::Expected<ZipFile> ZipFile::open(llvm::StringRef bytes) {
  ZipFile file;
  file.stream = std::make_unique<Stream>(bytes);
  zlib_filefunc64_def functions = file.stream->getFunctions();
  file.stream->zip = unzOpen2_64("", &functions);
  if (!file.stream->zip)
    return makeError("is no zip archive, or is truncated: its directory is not at the end of its " +
                     llvm::Twine(bytes.size()) + " bytes");
  if (llvm::Error error = file.list())
    return std::move(error);
  return file;
}

/// Bit 0 of an entry's flags.
static constexpr uLong kEncrypted = 1;

llvm::Error ZipFile::list() {
  unzFile zip = stream->zip;
  for (int status = unzGoToFirstFile(zip); status != UNZ_END_OF_LIST_OF_FILE;
       status = unzGoToNextFile(zip)) {
    char name[4096];
    unz_file_info64 info;
    unz64_file_pos position;
    if (status != UNZ_OK ||
        unzGetCurrentFileInfo64(zip, &info, name, sizeof(name), nullptr, 0, nullptr, 0) != UNZ_OK ||
        unzGetFilePos64(zip, &position) != UNZ_OK || info.size_filename >= sizeof(name))
      return makeError("is damaged: the zip directory's entry " + llvm::Twine(found.size()) +
                       " cannot be read");
    if (info.compression_method != 0 || (info.flag & kEncrypted))
      return makeError("entry '" + llvm::Twine(name) +
                       "' is compressed or encrypted; torch.export stores entries as they are");
    if (info.uncompressed_size > stream->bytes.size())
      return makeError("is damaged: entry '" + llvm::Twine(name) + "' has " +
                       llvm::Twine(info.uncompressed_size) + " bytes, the file only " +
                       llvm::Twine(stream->bytes.size()));
    Entry entry{info.uncompressed_size, position.pos_in_zip_directory, position.num_of_file};
    if (!found.try_emplace(name, entry).second)
      return makeError("is damaged: it has two entries '" + llvm::Twine(name) + "'");
  }
  return llvm::Error::success();
}

llvm::Expected<std::string> ZipFile::read(llvm::StringRef name) const {
  auto entry = found.find(name.str());
  if (entry == found.end())
    return makeError("has no entry '" + name + "'");
  unzFile zip = stream->zip;
  unz64_file_pos position{entry->second.position, entry->second.number};
  if (unzGoToFilePos64(zip, &position) != UNZ_OK || unzOpenCurrentFile(zip) != UNZ_OK)
    return makeError("is damaged: entry '" + name + "' cannot be opened");
  std::string content(entry->second.size, '\0');
  size_t done = 0;
  while (done < content.size()) {
    // minizip counts in 32 bits.
    unsigned part = std::min<size_t>(content.size() - done, 1u << 30);
    int got = unzReadCurrentFile(zip, content.data() + done, part);
    if (got <= 0)
      break;
    done += got;
  }
  // Closing compares the checksum of what was read.
  int closed = unzCloseCurrentFile(zip);
  if (done != content.size() || closed != UNZ_OK)
    return makeError("is damaged: entry '" + name + "' " +
                     (closed == UNZ_CRCERROR
                          ? "does not have its checksum"
                          : "ends before its " + std::to_string(content.size()) + " bytes"));
  return content;
}
