//===- ZipFile.h - entries of a zip file in memory ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// By minizip, which reads zip64. Only what archives of tensors need: entries that are stored
// as they are, so that no entry is larger than the file.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_LIB_IMPORT_ZIPFILE_H
#define MLA_LIB_IMPORT_ZIPFILE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <map>
#include <memory>
#include <string>

namespace mlac {

class ZipFile {
public:
  /// `bytes` must outlive the object. Refuses compressed and encrypted entries, and two of one
  /// name.
  static llvm::Expected<ZipFile> open(llvm::StringRef bytes);
  ~ZipFile();
  ZipFile(ZipFile &&);
  ZipFile &operator=(ZipFile &&);

  struct Entry {
    uint64_t size;     ///< bytes
    uint64_t position; ///< of its header in the directory
    uint64_t number;
  };
  const std::map<std::string, Entry> &entries() const { return found; }
  bool contains(llvm::StringRef name) const { return found.count(name.str()) > 0; }
  /// The content, its checksum compared.
  llvm::Expected<std::string> read(llvm::StringRef name) const;

private:
  struct Stream;
  ZipFile();
  llvm::Error list();

  std::unique_ptr<Stream> stream;
  std::map<std::string, Entry> found;
};

} // namespace mlac

#endif // MLA_LIB_IMPORT_ZIPFILE_H
