//===- Dims.cpp - named sizes and metadata of a step ------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "package/Dims.h"

using namespace mlac::runtime;

static constexpr std::array<const char *, kNumDims> kDimNames = {
    "num_tokens",
    "num_requests",
    "max_query_len",
    "max_seq_len",
    "max_context_len",
    "total_context_len",
    "attended_pairs",
    "num_context_requests",
    "max_blocks_per_request",
    "num_pages",
    "page_stride",
    "num_chunks",
    "chunk_capacity",
    "chunk_tokens",
    "rope_length",
    "num_sms",
    "is_padded",
    "num_host_pages",
    "num_parts",
    "num_partials",
    "partial_tokens",
    "num_merges",
    "num_merge_programs",
    "num_decodes",
    "num_prefills",
    "num_decode_tokens",
    "num_prefill_tokens",
    "num_prefill_rows",
    "max_decode_query_len",
    "max_decode_seq_len",
    "max_prefill_query_len",
    "num_common_tokens",
    "num_shared_tokens",
    "num_shared_chunks",
    "shared_chunk_capacity",
    "shared_chunk_tokens",
};

static constexpr std::array<const char *, kNumMetadata> kMetadataNames = {
    "query_start_loc",
    "seq_lens",
    "context_lens",
    "block_table",
    "slot_mapping",
    "positions",
    "chunk_cu_seq_lens",
    "work_starts",
    "work_items",
    "merge_items",
    "merge_starts",
    "req_id_per_token",
    "output_rows",
    "item_counters",
    "decode_query_start_loc",
    "prefill_query_start_loc",
    "prefill_block_table",
    "shared_query_start_loc",
    "shared_chunk_cu_seq_lens"};

template <typename Enum, size_t N>
static std::optional<Enum> find(const std::array<const char *, N> &names, std::string_view name) {
  for (size_t i = 0; i < N; ++i)
    if (name == names[i])
      return static_cast<Enum>(i);
  return std::nullopt;
}

std::optional<Dim> mlac::runtime::findDim(std::string_view name) {
  return find<Dim>(kDimNames, name);
}

const char *mlac::runtime::dimName(Dim dim) { return kDimNames[static_cast<size_t>(dim)]; }

std::optional<Metadata> mlac::runtime::findMetadata(std::string_view name) {
  return find<Metadata>(kMetadataNames, name);
}

const char *mlac::runtime::metadataName(Metadata metadata) {
  return kMetadataNames[static_cast<size_t>(metadata)];
}

mla_dtype mlac::runtime::metadataType(Metadata metadata) {
  bool isWide = metadata == Metadata::SlotMapping || metadata == Metadata::Positions ||
                metadata == Metadata::OutputRows;
  return isWide ? MLA_I64 : MLA_I32;
}
