//===- SnapshotFile.cpp - checksummed files, all or nothing -----*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cache/SnapshotFile.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
#include <vector>

using namespace mlac::runtime;

static constexpr char kMagic[] = "MLACSNP1";
static constexpr int64_t kMagicBytes = sizeof(kMagic) - 1;
/// Magic, bytes of the file, bytes of the state.
static constexpr int64_t kHeaderBytes = kMagicBytes + 2 * kSnapshotWord;
/// What is read at a time; large enough for the disk, small enough for L2.
static constexpr int64_t kChunkBytes = 1 << 18;

void WordChecksum::add(const void *data, size_t bytes) {
  constexpr uint64_t kPrime = 0x100000001b3;
  auto *from = static_cast<const char *>(data);
  for (size_t i = 0; i < bytes; i += kSnapshotWord) {
    uint64_t word;
    std::memcpy(&word, from + i, sizeof word);
    state = (state ^ word) * kPrime;
    state ^= state >> 32; // carries high bits down; also a bijection
  }
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

Status SnapshotWriter::fail(const char *what) const {
  return error(MLA_INVALID_ARGUMENT, "cannot ", what, " ", path, ": ", std::strerror(errno));
}

Status SnapshotWriter::open(const std::string &to, const std::string &state, int64_t pageBytes) {
  path = to;
  MLAC_RETURN_IF_ERROR(resolveTarget(to, target).in(to));
  std::string name = target + ".XXXXXX";
  int descriptor = mkstemp(name.data());
  if (descriptor < 0)
    return fail("write next to");
  temporary = std::move(name);
  file.reset(fdopen(descriptor, "wb"));
  if (!file) {
    ::close(descriptor);
    return fail("write");
  }
  int64_t sizes[] = {0, static_cast<int64_t>(state.size())};
  sizes[0] = kHeaderBytes + sizes[1] + pageBytes + kSnapshotWord;
  MLAC_RETURN_IF_ERROR(write(kMagic, kMagicBytes));
  MLAC_RETURN_IF_ERROR(write(sizes, sizeof sizes));
  return write(state.data(), state.size());
}

Status SnapshotWriter::write(const void *data, size_t bytes) {
  checksum.add(data, bytes);
  return std::fwrite(data, 1, bytes, file.get()) == bytes ? Status() : fail("write");
}

Status SnapshotWriter::commit() {
  uint64_t sum = checksum.value();
  if (std::fwrite(&sum, 1, sizeof sum, file.get()) != sizeof sum || std::fflush(file.get()) != 0 ||
      fsync(fileno(file.get())) != 0)
    return fail("write");
  if (std::fclose(file.release()) != 0)
    return fail("write");
  // Another file may have come to lie there while this one was written.
  MLAC_RETURN_IF_ERROR(resolveTarget(path, target).in(path));
  if (std::rename(temporary.c_str(), target.c_str()) != 0)
    return fail("replace");
  temporary.clear();
  return Status();
}

SnapshotWriter::~SnapshotWriter() {
  file.reset();
  if (!temporary.empty())
    std::remove(temporary.c_str());
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

Status SnapshotReader::read(void *data, size_t bytes) {
  if (std::fread(data, 1, bytes, file.get()) == bytes)
    return Status();
  return error(MLA_CORRUPT, path, ": the file ends too early");
}

/// Length and checksum of the whole file.
Status SnapshotReader::checkFile(int64_t &stateBytes) {
  char magic[kMagicBytes];
  int64_t sizes[2];
  if (std::fseek(file.get(), 0, SEEK_END) != 0)
    return error(MLA_CORRUPT, path, ": not a file that can be read twice");
  int64_t bytes = std::ftell(file.get());
  std::rewind(file.get());
  if (bytes < kHeaderBytes + kSnapshotWord)
    return error(MLA_CORRUPT, path, ": ", bytes, " bytes are too few for a snapshot");
  MLAC_RETURN_IF_ERROR(read(magic, sizeof magic));
  MLAC_RETURN_IF_ERROR(read(sizes, sizeof sizes));
  if (std::memcmp(magic, kMagic, kMagicBytes) != 0)
    return error(MLA_CORRUPT, path, ": not a snapshot of this version");
  if (sizes[0] != bytes)
    return error(MLA_CORRUPT, path, ": ", bytes, " bytes, the header says ", sizes[0]);
  stateBytes = sizes[1];
  int64_t most = bytes - kHeaderBytes - kSnapshotWord;
  if (bytes % kSnapshotWord != 0 || stateBytes < 0 || stateBytes > most ||
      stateBytes % kSnapshotWord != 0)
    return error(MLA_CORRUPT, path, ": a state of ", stateBytes, " bytes in ", bytes);
  pageBytes_ = most - stateBytes;
  WordChecksum checksum;
  checksum.add(magic, sizeof magic);
  checksum.add(sizes, sizeof sizes);
  std::vector<char> chunk(kChunkBytes);
  for (int64_t left = most; left > 0; left -= kChunkBytes) {
    auto size = static_cast<size_t>(std::min(left, kChunkBytes));
    MLAC_RETURN_IF_ERROR(read(chunk.data(), size));
    checksum.add(chunk.data(), size);
  }
  uint64_t expected;
  MLAC_RETURN_IF_ERROR(read(&expected, sizeof expected));
  if (checksum.value() != expected)
    return error(MLA_CORRUPT, path, ": the checksum is wrong");
  return Status();
}

Status SnapshotReader::open(const std::string &from, std::string &state) {
  path = from;
  MLAC_RETURN_IF_ERROR(openRegular(path, file).in(path));
  int64_t stateBytes;
  MLAC_RETURN_IF_ERROR(checkFile(stateBytes));
  if (std::fseek(file.get(), kHeaderBytes, SEEK_SET) != 0)
    return error(MLA_CORRUPT, path, ": ", std::strerror(errno));
  state.resize(static_cast<size_t>(stateBytes));
  return read(state.data(), state.size());
}
