//===- PrefixIndex.cpp - blocks of tokens that are in the cache -*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cache/PrefixIndex.h"

#include "base/Status.h"

#include <algorithm>
#include <bit>

using namespace mlac::runtime;

PrefixIndex::PrefixIndex(int64_t maxBlocks, int64_t blockTokens, int64_t pagesPerBlock,
                         uint64_t hashMask)
    : maxBlocks_(maxBlocks), blockTokens_(blockTokens), pagesPerBlock_(pagesPerBlock),
      hashMask(hashMask),
      buckets(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(maxBlocks, 1))), kNone),
      blocks(std::make_unique_for_overwrite<Block[]>(maxBlocks)),
      tokens_(std::make_unique_for_overwrite<int32_t[]>(maxBlocks * blockTokens)),
      pages_(std::make_unique_for_overwrite<int32_t[]>(maxBlocks * pagesPerBlock)) {
  unused.reserve(maxBlocks);
}

/// Multiply and fold, two tokens at a time; constants of splitmix64 (Steele et
/// al., 2014), whose finaliser spreads every bit over the bucket's bits.
uint64_t PrefixIndex::hash(int32_t parent, const int32_t *tokens) const {
  constexpr uint64_t kFirst = 0xbf58476d1ce4e5b9, kSecond = 0x94d049bb133111eb;
  uint64_t state = parent == kNone ? kFirst : blocks[parent].hash;
  for (int64_t i = 0; i < blockTokens_; i += 2) {
    uint64_t high = i + 1 < blockTokens_ ? static_cast<uint32_t>(tokens[i + 1]) : 0;
    state = (state ^ (high << 32 | static_cast<uint32_t>(tokens[i]))) * kFirst;
    state ^= state >> 27;
  }
  state *= kSecond;
  state ^= state >> 31;
  return state & hashMask;
}

int32_t PrefixIndex::find(int32_t parent, const int32_t *tokens) const {
  uint64_t wanted = hash(parent, tokens);
  int32_t block = buckets[bucket(wanted)];
  for (; block != kNone; block = blocks[block].next)
    if (blocks[block].hash == wanted && blocks[block].parent == parent &&
        std::equal(tokens, tokens + blockTokens_, this->tokens(block)))
      return block;
  return kNone;
}

int32_t PrefixIndex::insert(int32_t parent, const int32_t *tokens) {
  int32_t block = static_cast<int32_t>(numEver_);
  if (unused.empty()) {
    ++numEver_;
  } else {
    block = unused.back();
    unused.pop_back();
  }
  Block &entry = blocks[block];
  entry.isLive = true;
  entry.hash = hash(parent, tokens);
  entry.parent = parent;
  entry.depth = parent == kNone ? 0 : blocks[parent].depth + 1;
  entry.firstChild = kNone;
  int32_t &first = buckets[bucket(entry.hash)];
  entry.next = first;
  first = block;
  linkChild(block);
  std::copy_n(tokens, blockTokens_, &tokens_[block * blockTokens_]);
  std::fill_n(&pages_[block * pagesPerBlock_], pagesPerBlock_, kNone);
  return block;
}

void PrefixIndex::erase(int32_t block) {
  Block &entry = blocks[block];
  int32_t *link = &buckets[bucket(entry.hash)];
  while (*link != block)
    link = &blocks[*link].next;
  *link = entry.next;
  unlinkChild(block);
  entry.isLive = false;
  unused.push_back(block);
}

/// Puts a block first among its parent's children.
void PrefixIndex::linkChild(int32_t block) {
  Block &entry = blocks[block];
  entry.previousSibling = entry.nextSibling = kNone;
  if (entry.parent == kNone)
    return;
  int32_t &first = blocks[entry.parent].firstChild;
  entry.nextSibling = first;
  if (first != kNone)
    blocks[first].previousSibling = block;
  first = block;
}

void PrefixIndex::unlinkChild(int32_t block) {
  const Block &entry = blocks[block];
  if (entry.parent == kNone)
    return;
  (entry.previousSibling == kNone ? blocks[entry.parent].firstChild
                                  : blocks[entry.previousSibling].nextSibling) = entry.nextSibling;
  if (entry.nextSibling != kNone)
    blocks[entry.nextSibling].previousSibling = entry.previousSibling;
}

bool PrefixIndex::isConsistent(std::string &problem) const {
  auto fail = [&](auto... parts) {
    problem = concat(parts...);
    return false;
  };
  int64_t live = 0, reached = 0, children = 0, parented = 0;
  for (int32_t block = 0; block < numEver_; ++block) {
    const Block &entry = blocks[block];
    if (!entry.isLive)
      continue;
    ++live;
    if (entry.parent != kNone && !isLive(entry.parent))
      return fail("block ", block, " has the dead parent ", entry.parent);
    if (entry.hash != hash(entry.parent, tokens(block)))
      return fail("block ", block, " has a hash of other tokens");
    if (entry.depth != (entry.parent == kNone ? 0 : blocks[entry.parent].depth + 1))
      return fail("block ", block, " has depth ", entry.depth);
    parented += entry.parent != kNone;
    for (int32_t child = entry.firstChild; child != kNone; child = blocks[child].nextSibling)
      if (!isLive(child) || blocks[child].parent != block || ++children > maxBlocks_)
        return fail("block ", block, " has a broken list of children");
  }
  for (size_t i = 0; i < buckets.size(); ++i)
    for (int32_t block = buckets[i]; block != kNone; block = blocks[block].next)
      if (!isLive(block) || bucket(blocks[block].hash) != i || ++reached > live)
        return fail("bucket ", i, " is broken at block ", block);
  if (reached != live || live != numBlocks())
    return fail(live, " blocks live, ", reached, " in buckets, ", numBlocks(), " counted");
  if (children != parented)
    return fail(parented, " blocks have a parent, ", children, " are listed");
  return true;
}
