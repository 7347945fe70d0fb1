//===- MatchRope.cpp - the pairs that rope turns ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MatchParts.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

using namespace mlac::graph;
using llvm::ArrayRef;
using llvm::Twine;
using mlac::RopePairing;

/// Which of the frequencies a table's number is of: its place in the table, or in the weight that
/// the angle is a multiple of.
std::optional<int64_t> RopeParts::readFrequency(Expr table) const {
  const Source &read = parts.source(table);
  if (read.kind == SourceKind::Argument)
    return table.index;
  for (Expr operand : read.operands)
    if (const Source &inner = parts.source(operand);
        inner.kind != SourceKind::Argument || parts.weights.test(inner.a))
      if (std::optional<int64_t> frequency = readFrequency(operand))
        return frequency;
  return std::nullopt;
}

/// The tables' numbers of a channel. Tables of all channels repeat their first half; those of
/// complex numbers hold a pair's cosine and sine side by side.
RopePair RopeParts::readPair(const Channel &channel) const {
  RopePair pair{channel.tables[0], channel.tables[1]};
  if (pair.cos.source == pair.sin.source)
    return pair;
  for (Expr *table : {&pair.cos, &pair.sin})
    if (parts.is(*table, SourceKind::Argument))
      table->index %= width / 2;
  return pair;
}

/// One frequency of both tables.
std::optional<int64_t> RopeParts::readFrequency(const RopePair &pair) const {
  if (pair.cos.source == pair.sin.source) {
    bool isComplex = pair.cos.index % 2 == 0 && pair.sin.index == pair.cos.index + 1;
    return isComplex ? std::optional<int64_t>(pair.cos.index / 2) : std::nullopt;
  }
  std::optional<int64_t> cos = readFrequency(pair.cos), sin = readFrequency(pair.sin);
  return cos == sin ? cos : std::nullopt;
}

/// Keeps the tables of a frequency: the same for all heads, and all frequencies' from one input.
llvm::Error RopeParts::keepPair(int64_t frequency, const RopePair &pair) {
  pairs.resize(width / 2);
  RopePair &known = pairs[frequency];
  if (known != RopePair{} && known != pair)
    return makeError("queries and keys are rotated by different tables");
  known = pair;
  for (const RopePair &other : pairs)
    if (other != RopePair{} && parts.is(pair.cos, SourceKind::Argument) &&
        (other.cos.source != pair.cos.source || other.sin.source != pair.sin.source))
      return makeError("pairs are rotated by different tables");
  return llvm::Error::success();
}

/// The frequency of a channel's pair, whose rows must lie where it says. `first` is the pair's
/// channel x cos - y sin, `channel` that or y cos + x sin.
llvm::Expected<int64_t> RopeParts::matchPair(const Channel &first, Channel channel,
                                             uint32_t firstRow) {
  int64_t count = width / 2;
  std::string rows =
      "rows " + std::to_string(first.rows[0]) + " and " + std::to_string(first.rows[1]);
  if (channel.sign > 0 && channel.rows[0] != first.rows[1]) {
    std::swap(channel.rows[0], channel.rows[1]);
    std::swap(channel.tables[0], channel.tables[1]);
  }
  RopePair pair = readPair(first);
  std::optional<int64_t> frequency = readFrequency(pair);
  if (readPair(channel) != pair || !frequency || *frequency >= count)
    return makeError("the pair of " + rows + " is rotated by tables of several frequencies");
  auto lies = [&](RopePairing order) {
    bool isHalf = order == RopePairing::Half;
    return first.rows[0] == firstRow + *frequency * (isHalf ? 1 : 2) &&
           first.rows[1] == first.rows[0] + (isHalf ? count : 1);
  };
  if (pairs.empty())
    pairing = lies(RopePairing::Half) ? RopePairing::Half : RopePairing::Interleaved;
  if (!lies(pairing))
    return makeError("rope rotates " + rows + " by frequency " + Twine(*frequency) +
                     ", expected pairs of neighbours or of halves from row " + Twine(firstRow));
  if (llvm::Error error = keepPair(*frequency, pair))
    return std::move(error);
  return *frequency;
}

/// What rope makes at each channel, by number: twice the frequency, plus 1 at y cos + x sin.
llvm::Expected<std::vector<int64_t>> RopeParts::match(ArrayRef<Channel> channels,
                                                      uint32_t firstRow) {
  std::map<std::pair<uint32_t, uint32_t>, const Channel *> firsts;
  for (const Channel &channel : channels)
    if (channel.isRotated && channel.sign < 0)
      firsts[std::minmax(channel.rows[0], channel.rows[1])] = &channel;
  std::vector<int64_t> codes;
  for (const Channel &channel : channels) {
    if (!channel.isRotated)
      continue;
    auto first = firsts.find(std::minmax(channel.rows[0], channel.rows[1]));
    if (first == firsts.end())
      return makeError("rows " + Twine(channel.rows[0]) + " and " + Twine(channel.rows[1]) +
                       " are not rotated as a pair");
    llvm::Expected<int64_t> frequency = matchPair(*first->second, channel, firstRow);
    if (!frequency)
      return frequency.takeError();
    codes.push_back(2 * *frequency + (channel.sign > 0));
  }
  std::vector<int64_t> sorted = codes;
  llvm::sort(sorted);
  for (auto [index, code] : llvm::enumerate(sorted))
    if (code != static_cast<int64_t>(index))
      return makeError("rope does not rotate every pair once");
  if (static_cast<int64_t>(codes.size()) != width)
    return makeError("rope rotates " + Twine(codes.size()) + " of its channels, and " +
                     Twine(width) + " of the first head's");
  return codes;
}

llvm::Error RopeParts::matchHead(size_t number, const Head &head, uint32_t queryRow,
                                 uint32_t keyRow) {
  llvm::Expected<std::vector<int64_t>> query = match(head.query, queryRow);
  if (!query)
    return makeError("queries of head " + Twine(number) + ": " + llvm::toString(query.takeError()));
  llvm::Expected<std::vector<int64_t>> key = match(head.key, keyRow);
  if (!key)
    return makeError("keys of head " + Twine(number) + ": " + llvm::toString(key.takeError()));
  if (*query != *key)
    return makeError("the rotated channels of head " + Twine(number) +
                     "'s query and key do not stand in one order");
  return llvm::Error::success();
}
