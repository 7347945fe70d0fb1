//===- PrefixIndex.h - blocks of tokens that are in the cache ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A forest of published blocks. A block is `blockTokens` token ids behind a
// given prefix; it names the pages that hold their rows.
//
//   (root) -- [1 2 3 4] -- [5 6 7 8]     pages of block 0: 11, of block 1: 4
//                      \-- [5 6 9 9]     the same prefix, another continuation
//
// A block is found by the hash of its parent's hash and its tokens. Equal hashes
// are not trusted: parent and tokens are compared, so by induction the whole
// prefix is equal, and with it every absolute position (cached keys are
// rotated by position). Which pages a block has and when it dies is the cache's
// business. Everything is allocated by the constructor; its large arrays cost
// no memory until they are used. The idea is vLLM's automatic prefix caching.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_PREFIXINDEX_H
#define MLAC_RUNTIME_PREFIXINDEX_H

#include "cache/PagePool.h"

#include <memory>
#include <span>

namespace mlac::runtime {

class PrefixIndex {
public:
  static constexpr int32_t kNone = PagePool::kNone;

  /// `hashMask` keeps so much of every hash (tests: 0 makes all of them equal).
  PrefixIndex(int64_t maxBlocks, int64_t blockTokens, int64_t pagesPerBlock,
              uint64_t hashMask = ~uint64_t(0));

  int64_t maxBlocks() const { return maxBlocks_; }
  int64_t numBlocks() const { return numEver_ - static_cast<int64_t>(unused.size()); }
  /// Blocks that ever lived have lower numbers.
  int64_t numEver() const { return numEver_; }
  int64_t blockTokens() const { return blockTokens_; }
  int64_t pagesPerBlock() const { return pagesPerBlock_; }

  /// The block with these tokens [blockTokens] behind `parent`, or kNone.
  int32_t find(int32_t parent, const int32_t *tokens) const;
  /// Adds it; its pages are kNone. There is room for maxBlocks.
  int32_t insert(int32_t parent, const int32_t *tokens);
  /// Removes a block without children.
  void erase(int32_t block);

  bool isLive(int32_t block) const {
    return block >= 0 && block < numEver_ && blocks[block].isLive;
  }
  int32_t parent(int32_t block) const { return blocks[block].parent; }
  /// A block behind this one, kNone if there is none.
  int32_t firstChild(int32_t block) const { return blocks[block].firstChild; }
  /// Blocks before this one.
  int64_t depth(int32_t block) const { return blocks[block].depth; }
  const int32_t *tokens(int32_t block) const { return &tokens_[block * blockTokens_]; }
  std::span<int32_t> pages(int32_t block) {
    return {&pages_[block * pagesPerBlock_], static_cast<size_t>(pagesPerBlock_)};
  }
  std::span<const int32_t> pages(int32_t block) const {
    return {&pages_[block * pagesPerBlock_], static_cast<size_t>(pagesPerBlock_)};
  }

  /// Whether links, hashes and counts agree; else says what does not.
  bool isConsistent(std::string &problem) const;

private:
  struct Block {
    uint64_t hash;
    int32_t parent, next; // next of the same bucket
    int32_t firstChild, previousSibling, nextSibling;
    int32_t depth;
    bool isLive;
  };

  uint64_t hash(int32_t parent, const int32_t *tokens) const;
  size_t bucket(uint64_t hash) const { return hash & (buckets.size() - 1); }
  void linkChild(int32_t block);
  void unlinkChild(int32_t block);

  int64_t maxBlocks_, blockTokens_, pagesPerBlock_;
  uint64_t hashMask;
  int64_t numEver_ = 0;         // blocks from here on were never used
  std::vector<int32_t> unused;  // blocks that are used no more, the next one last
  std::vector<int32_t> buckets; // first block of each; a power of two of them
  std::unique_ptr<Block[]> blocks;
  std::unique_ptr<int32_t[]> tokens_, pages_;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_PREFIXINDEX_H
