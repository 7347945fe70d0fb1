//===- PackageTrailer.h - the end of a package file ------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A package file is a FlatBuffer (package.fbs) followed by a trailer of 16
// bytes:
//
//   "MLACEND1"  checksum (64 bits, little-endian) of all bytes before the
//   trailer
//
// The FlatBuffers verifier checks structure but cannot see damage inside kernel
// code; the checksum finds truncation and any damage before code is loaded. It
// protects against accidents, not against an attacker. Shared by the compiler's
// writer and the runtime; depends on neither.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_PACKAGETRAILER_H
#define MLAC_PACKAGETRAILER_H

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mlac::package {

inline constexpr char kTrailerMagic[] = "MLACEND1";
inline constexpr size_t kTrailerMagicBytes = 8;
inline constexpr size_t kTrailerBytes = kTrailerMagicBytes + sizeof(uint64_t);

/// FNV-1a over 64-bit little-endian words (the last one zero-padded), started
/// from the length. Every step is a bijection of the state, so damage confined
/// to one word always changes the result.
inline uint64_t checksum(const void *data, size_t bytes) {
  constexpr uint64_t kPrime = 0x100000001b3, kBasis = 0xcbf29ce484222325;
  auto *from = static_cast<const unsigned char *>(data);
  uint64_t state = kBasis ^ bytes;
  for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
    uint64_t word = 0;
    size_t rest = bytes - i < sizeof word ? bytes - i : sizeof word;
    std::memcpy(&word, from + i, rest);
    state = (state ^ word) * kPrime;
    state ^= state >> 32; // carries high bits down; also a bijection
  }
  return state;
}

/// Appends the trailer to a finished FlatBuffer; Bytes is a string or a vector
/// of bytes.
template <typename Bytes> void appendTrailer(Bytes &file) {
  uint64_t sum = checksum(file.data(), file.size());
  unsigned char trailer[kTrailerBytes];
  std::memcpy(trailer, kTrailerMagic, kTrailerMagicBytes);
  std::memcpy(trailer + kTrailerMagicBytes, &sum, sizeof sum);
  file.insert(file.end(), trailer, trailer + kTrailerBytes);
}

} // namespace mlac::package

#endif // MLAC_PACKAGETRAILER_H
