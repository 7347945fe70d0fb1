//===- ElfImage.cpp - plausibility of a code object -------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "device/ElfImage.h"

#include <cstring>
#include <elf.h>

using namespace mlac::runtime;

#ifndef EM_CUDA
#define EM_CUDA 190
#endif

#if defined(__x86_64__)
static constexpr int kHostMachine = EM_X86_64;
#elif defined(__aarch64__)
static constexpr int kHostMachine = EM_AARCH64;
#else
#error "unknown host machine"
#endif

static bool isInside(uint64_t offset, uint64_t length, uint64_t bytes) {
  return offset <= bytes && length <= bytes - offset;
}

static Status checkHeader(std::span<const uint8_t> bytes, int machine, Elf64_Ehdr &header) {
  if (bytes.size() < sizeof header)
    return error(MLA_CORRUPT, "code object of ", bytes.size(), " bytes is no ELF image");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64)
    return error(MLA_CORRUPT, "code object is no 64-bit ELF image");
  if (header.e_machine != machine)
    return error(MLA_UNSUPPORTED, "code object is for ELF machine ", header.e_machine,
                 ", expected ", machine);
  if (!isInside(header.e_phoff, uint64_t(header.e_phnum) * sizeof(Elf64_Phdr), bytes.size()) ||
      !isInside(header.e_shoff, uint64_t(header.e_shnum) * sizeof(Elf64_Shdr), bytes.size()))
    return error(MLA_CORRUPT,
                 "code object is truncated: its header tables end "
                 "after byte ",
                 bytes.size());
  return Status();
}

static Status checkSegments(std::span<const uint8_t> bytes, const Elf64_Ehdr &header) {
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, bytes.data() + header.e_phoff + i * sizeof segment, sizeof segment);
    if (segment.p_type == PT_LOAD && !isInside(segment.p_offset, segment.p_filesz, bytes.size()))
      return error(MLA_CORRUPT, "code object is truncated: segment ", i, " ends after byte ",
                   bytes.size());
  }
  return Status();
}

Status mlac::runtime::checkHostImage(std::span<const uint8_t> bytes) {
  Elf64_Ehdr header;
  MLAC_RETURN_IF_ERROR(checkHeader(bytes, kHostMachine, header));
  if (header.e_type != ET_DYN)
    return error(MLA_CORRUPT, "code object has ELF type ", header.e_type,
                 ", expected a shared object");
  return checkSegments(bytes, header);
}

Status mlac::runtime::checkCubin(std::span<const uint8_t> bytes) {
  Elf64_Ehdr header;
  MLAC_RETURN_IF_ERROR(checkHeader(bytes, EM_CUDA, header));
  return checkSegments(bytes, header);
}
