//===- AttentionTest.cpp - both forms over ragged batches ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attention against double sums written from mla.md sections 5, 6 and 8, with
// NaN in every row that may not be read and absurd entries at the block table's
// tails (section 14). f32, so that tolerances are tight.
//
//===----------------------------------------------------------------------===//

#include "PlanRunner.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

using namespace mlac::test;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kScale = 0.3;
constexpr double kTolerance = 1e-5;
constexpr int32_t kGarbagePage = 2147480000;

struct Reference {
  std::vector<double> output;
  double lse;
};

/// Softmax over `keys` keys; `score(s)` unscaled, `value(s, i)` of `width`.
Reference attend(int64_t keys, int64_t width, const std::function<double(int64_t)> &score,
                 const std::function<double(int64_t, int64_t)> &value) {
  Reference result{std::vector<double>(width, 0), -kInf};
  double maximum = -kInf, sum = 0;
  for (int64_t s = 0; s < keys; ++s)
    maximum = std::max(maximum, kScale * score(s));
  for (int64_t s = 0; s < keys; ++s) {
    double weight = std::exp(kScale * score(s) - maximum);
    sum += weight;
    for (int64_t i = 0; i < width; ++i)
      result.output[i] += weight * value(s, i);
  }
  for (double &element : result.output)
    element = keys > 0 ? element / sum : 0;
  result.lse = keys > 0 ? maximum + std::log(sum) : -kInf;
  return result;
}

void expectRow(const float *output, float lse, const Reference &expected, const char *what,
               int64_t token, int64_t head) {
  for (size_t i = 0; i < expected.output.size(); ++i)
    ASSERT_NEAR(output[i], expected.output[i], kTolerance)
        << what << ", token " << token << ", head " << head << ", column " << i;
  if (expected.lse == -kInf)
    ASSERT_EQ(lse, -kInf) << what << ", token " << token << ", head " << head;
  else
    ASSERT_NEAR(lse, expected.lse, kTolerance) << what << ", token " << token;
}

std::vector<int32_t> prefixSums(const std::vector<int64_t> &lengths) {
  std::vector<int32_t> sums = {0};
  for (int64_t length : lengths)
    sums.push_back(sums.back() + length);
  return sums;
}

//===----------------------------------------------------------------------===//
// Absorbed
//===----------------------------------------------------------------------===//

constexpr int64_t kHeads = 3, kLatent = 20, kRope = 6, kRow = kLatent + kRope, kPage = 16,
                  kPageStride = 432, // 416 elements of rows, then padding
    kRopeLength = 512;

double angle(int64_t position, int64_t pair) {
  return position * std::pow(1e4, -2.0 * pair / kRope);
}

std::vector<float> makeRopeTable() {
  std::vector<float> table(kRopeLength * kRope);
  for (int64_t position = 0; position < kRopeLength; ++position)
    for (int64_t pair = 0; pair < kRope / 2; ++pair) {
      table[position * kRope + pair] = std::cos(angle(position, pair));
      table[position * kRope + kRope / 2 + pair] = std::sin(angle(position, pair));
    }
  return table;
}

/// A batch over a pool in which each request has its own pages.
struct PagedBatch {
  std::vector<int64_t> queryLens, seqLens;
  int64_t maxBlocks = 1, pages = 0;
  std::vector<int32_t> queryStarts, seqLens32, blockTable;
  std::vector<float> pool, latentQuery, ropeQuery;

  PagedBatch(std::vector<int64_t> queries, std::vector<int64_t> sequences)
      : queryLens(std::move(queries)), seqLens(std::move(sequences)),
        queryStarts(prefixSums(queryLens)), seqLens32(seqLens.begin(), seqLens.end()) {
    for (int64_t length : seqLens) {
      maxBlocks = std::max(maxBlocks, (length + kPage - 1) / kPage + 1);
      pages += (length + kPage - 1) / kPage;
    }
    pool.assign(pages * kPageStride, kNan);
    blockTable.assign(maxBlocks * seqLens.size(), kGarbagePage);
    latentQuery = randomVector<float>(tokens() * kHeads * kLatent, 1);
    ropeQuery = randomVector<float>(tokens() * kHeads * kRope, 2);
    fillPool();
  }
  int64_t tokens() const { return queryStarts.back(); }
  std::vector<int64_t> positions() const {
    std::vector<int64_t> result;
    for (size_t r = 0; r < seqLens.size(); ++r)
      for (int64_t j = 0; j < queryLens[r]; ++j)
        result.push_back(std::max<int64_t>(seqLens[r] - queryLens[r] + j, 0));
    return result;
  }
  float *row(size_t request, int64_t token) {
    int64_t page = blockTable[request * maxBlocks + token / kPage];
    return &pool[page * kPageStride + token % kPage * kRow];
  }

private:
  void fillPool() {
    auto values = randomVector<float>(pool.size(), 3);
    size_t used = 0;
    int32_t next = pages; // backwards, so that no page is where it seems
    for (size_t r = 0; r < seqLens.size(); ++r)
      for (int64_t token = 0; token < seqLens[r]; ++token) {
        if (token % kPage == 0)
          blockTable[r * maxBlocks + token / kPage] = --next;
        for (int64_t i = 0; i < kRow; ++i)
          row(r, token)[i] = values[used++];
      }
  }
};

std::string absorbedModule(const std::string &queryLen, bool isSplit) {
  return substitute(R"(
!q = tensor<?x3x20xf32>
!lse = tensor<?x3xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
!so = tensor<?x?x3x20xf32>
!slse = tensor<?x?x3xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
!cache = !mla.cache<page_size = 16, fields = [latent: 20, rope: 6], element = f32, rope_order = half>
func.func @step(%q: !q {mla.input = "q"}, %q_pe: tensor<?x3x6xf32> {mla.input = "q_pe"},
                %batch: !mla.batch<query_len = $len>, %cache: !cache)
    -> (!q {mla.output = "output"}, !lse {mla.output = "lse"}) {
  $operations
  return %o, %lse : !q, !lse
}
)",
                    {{"len", queryLen},
                     {"operations", isSplit ? R"(
  %n = mla.batch_dim %batch "num_sms" : <query_len = $len>
  %p, %pl = mla.absorbed_attention query(%q, %q_pe : !q, tensor<?x3x6xf32>) over %cache, %batch
      : <page_size = 16, fields = [latent: 20, rope: 6], element = f32, rope_order = half>, <query_len = $len>
      splits %n scale 0.3 -> !so, !slse
  %o, %lse = mla.merge_splits %p, %pl : !so, !slse -> !q, !lse
)"
                                            : R"(
  %o, %lse = mla.absorbed_attention query(%q, %q_pe : !q, tensor<?x3x6xf32>) over %cache, %batch
      : <page_size = 16, fields = [latent: 20, rope: 6], element = f32, rope_order = half>, <query_len = $len>
      scale 0.3 -> !q, !lse
)"}});
}

/// Rows of a caller's buffers behind the batch's tokens, as graph capture pads them.
constexpr int64_t kPaddingRows = 5;
constexpr float kUntouched = -77;

/// `unrotated`: what the step gets in place of the batch's rotated rope queries.
void checkAbsorbed(Steps &steps, PagedBatch batch, int64_t splits,
                   std::vector<float> *unrotated = nullptr) {
  int64_t rows = batch.tokens() * kHeads;
  std::vector<float> output((rows + kPaddingRows) * kLatent, kUntouched),
      lse(rows + kPaddingRows, kUntouched), table = makeRopeTable();
  std::vector<int64_t> positions = batch.positions();
  int64_t maxQuery = *std::max_element(batch.queryLens.begin(), batch.queryLens.end());
  steps.run("step",
            {{"num_tokens", batch.tokens()},
             {"num_requests", batch.queryLens.size()},
             {"max_query_len", maxQuery},
             {"num_pages", batch.pages},
             {"num_sms", splits},
             {"page_stride", kPageStride},
             {"max_blocks_per_request", batch.maxBlocks},
             {"rope_length", kRopeLength}},
            {{"q", batch.latentQuery},
             {"q_pe", unrotated ? *unrotated : batch.ropeQuery},
             {"cache", batch.pool},
             {"block_table", batch.blockTable},
             {"query_start_loc", batch.queryStarts},
             {"seq_lens", batch.seqLens32},
             {"rope_table", table},
             {"positions", positions},
             {"output", output},
             {"lse", lse}});
  for (int64_t i = 0; i < kPaddingRows * kLatent; ++i)
    ASSERT_EQ(output[rows * kLatent + i], kUntouched) << "element " << i << " behind the tokens";
  for (int64_t i = 0; i < kPaddingRows; ++i)
    ASSERT_EQ(lse[rows + i], kUntouched) << "LSE " << i << " behind the tokens";
  for (size_t r = 0; r < batch.queryLens.size(); ++r)
    for (int64_t j = 0; j < batch.queryLens[r]; ++j)
      for (int64_t head = 0; head < kHeads; ++head) {
        int64_t token = batch.queryStarts[r] + j, row = token * kHeads + head;
        const float *q = &batch.latentQuery[row * kLatent], *qPe = &batch.ropeQuery[row * kRope];
        int64_t keys = std::max<int64_t>(batch.seqLens[r] - (batch.queryLens[r] - 1 - j), 0);
        Reference expected = attend(
            keys, kLatent,
            [&](int64_t s) {
              double score = 0;
              for (int64_t i = 0; i < kRow; ++i)
                score += double(i < kLatent ? q[i] : qPe[i - kLatent]) * batch.row(r, s)[i];
              return score;
            },
            [&](int64_t s, int64_t i) { return batch.row(r, s)[i]; });
        ASSERT_NO_FATAL_FAILURE(
            expectRow(&output[row * kLatent], lse[row], expected, "absorbed", token, head));
      }
}

TEST(Absorbed, A02_A37_DecodeAtPageAndBlockBoundaries) {
  auto steps = Steps::compile(absorbedModule("1", false));
  ASSERT_TRUE(steps);
  checkAbsorbed(*steps, PagedBatch({1, 1, 1, 1, 1, 1, 1}, {1, 15, 16, 17, 63, 64, 200}), 1);
  checkAbsorbed(*steps, PagedBatch({1, 1}, {0, 65}), 1); // a padding request
}

TEST(Absorbed, C10_SplitsOfEveryCount) {
  auto steps = Steps::compile(absorbedModule("1", true));
  ASSERT_TRUE(steps);
  for (int64_t splits : {1, 2, 3, 7}) // more splits than blocks of keys, too
    checkAbsorbed(*steps, PagedBatch({1, 1, 1, 1}, {1, 64, 129, 300}), splits);
}

/// Speculative decode: [tokens] are [B, Sq], and results come back in that order
/// whatever the lengths, of which one is shorter than its queries.
TEST(Absorbed, B22_UniformQueriesAreRowsOfTheirRequest) {
  for (const char *queryLen : {"2", "4"})
    for (bool isSplit : {false, true}) {
      auto steps = Steps::compile(absorbedModule(queryLen, isSplit));
      ASSERT_TRUE(steps);
      int64_t length = std::stoi(queryLen);
      checkAbsorbed(*steps, PagedBatch({length, length, length, length}, {100, 4, 1, 64}), 2);
    }
}

TEST(Absorbed, C05_SeveralQueriesSeeDifferentKeys) {
  for (bool isSplit : {false, true}) {
    auto steps = Steps::compile(absorbedModule("?", isSplit));
    ASSERT_TRUE(steps);
    // The first row of request 1 sees no key at all (mla.md section 10).
    checkAbsorbed(*steps, PagedBatch({2, 4, 0, 70}, {66, 2, 5, 100}), 2);
  }
}

/// The queries' rope part rotated by the step, or by its caller.
TEST(Absorbed, C17_RotationInTheStepOrOutside) {
  std::string text = absorbedModule("1", false);
  std::string attention = "%o, %lse = mla.absorbed_attention query(%q, %q_pe";
  size_t at = text.find(attention);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, attention.size(), R"(
  %table = mla.rope_table <order = half, dim = 6, theta = 1.0e4, length = 512> : tensor<?x6xf32>
  %rotated = mla.rope %q_pe, %table, %batch with <order = half, dim = 6, theta = 1.0e4, length = 512>
      : tensor<?x3x6xf32>, tensor<?x6xf32>, <query_len = 1>
  %o, %lse = mla.absorbed_attention query(%q, %rotated)");
  auto inside = Steps::compile(text), outside = Steps::compile(absorbedModule("1", false));
  ASSERT_TRUE(inside && outside);
  PagedBatch batch({1, 1, 1}, {1, 64, 200});
  std::vector<float> unrotated = batch.ropeQuery;
  std::vector<int64_t> positions = batch.positions();
  for (int64_t row = 0; row < batch.tokens() * kHeads; ++row)
    for (int64_t pair = 0; pair < kRope / 2; ++pair) {
      double phi = angle(positions[row / kHeads], pair);
      float *a = &batch.ropeQuery[row * kRope + pair], *b = a + kRope / 2;
      double x = *a, y = *b;
      *a = x * std::cos(phi) - y * std::sin(phi);
      *b = x * std::sin(phi) + y * std::cos(phi);
    }
  checkAbsorbed(*inside, batch, 1, &unrotated);
  checkAbsorbed(*outside, batch, 1);
}

//===----------------------------------------------------------------------===//
// Expanded
//===----------------------------------------------------------------------===//

constexpr int64_t kNope = 10, kValue = 7, kSelected = 13;

std::string expandedModule(bool hasChunk, bool hasRope, int64_t valueWidth = kValue,
                           bool hasPartial = false, int64_t splits = 0, bool isMarked = false) {
  bool isHeadMajor = hasChunk && splits == 0;
  return substitute(R"(
!q = tensor<?x3x10xf32>
!r = tensor<?x3x6xf32>
!o = tensor<?x3x$valuexf32>
!lse = tensor<$shapexf32, #mla.lse<base = e, layout = $layout, empty = neg_inf>>
func.func @step(%q: !q {mla.input = "q"}, %q_pe: !r {mla.input = "q_pe"}, %k: !q {mla.input = "k"},
                %k_pe: tensor<?x6xf32> {mla.input = "k_pe"}, %v: !o {mla.input = "v"},
                %p: !o {mla.input = "p"}, %p_lse: !lse {mla.input = "p_lse"},
                %s: tensor<?x13xi32> {mla.input = "selected"}, %batch: !mla.batch)
    -> (!o {mla.output = "output"}, !lse {mla.output = "lse"}) {
  %chunk = arith.constant 1 : index
  $mark
  %n = arith.constant $count : index
  %o, %lse = mla.expanded_attention query(%q$qrope) keys(%k$krope)
      values(%v : !o) over %batch : <query_len = ?> $chunk $onto $splits $given scale 0.3 -> !o, !lse
  return %o, %lse : !o, !lse
}
)",
                    {{"chunk", hasChunk ? "chunk %chunk" : ""},
                     {"count", std::to_string(splits)},
                     {"given", isMarked ? "marks(%marks : tensor<?x?xi32>)" : ""},
                     {"krope", hasRope ? ", %k_pe : !q, tensor<?x6xf32>" : " : !q"},
                     {"mark", isMarked ? std::string("%marks = mla.mark_selected %s over %batch ") +
                                             (hasChunk ? "chunk %chunk " : "") +
                                             ": tensor<?x13xi32>, !mla.batch -> tensor<?x?xi32>"
                                       : ""},
                     {"layout", isHeadMajor ? "head_major" : "token_major"},
                     {"onto", hasPartial ? "onto(%p, %p_lse : !o, !lse)" : ""},
                     {"qrope", hasRope ? ", %q_pe : !q, !r" : " : !q"},
                     {"shape", isHeadMajor ? "3x?" : "?x3"},
                     {"splits", splits ? "splits %n" : ""},
                     {"value", std::to_string(valueWidth)}});
}

/// A partial that attention goes on from: LSEs of every kind, NaN in the output of empty
/// ones.
struct GivenPartial {
  std::vector<float> output, lse;

  GivenPartial(int64_t tokens, bool isHeadMajor)
      : output(randomVector<float>(tokens * kHeads * kValue, 6)),
        lse(randomVector<float>(tokens * kHeads, 7)) {
    for (int64_t row = 0; row < tokens * kHeads; ++row) {
      constexpr double kinds[] = {0, -kInf, 60, kInf, -60}; // added to what is in -1 .. 1
      int64_t at = isHeadMajor ? row % kHeads * tokens + row / kHeads : row;
      lse[at] += kinds[row % std::size(kinds)];
      if (std::isinf(lse[at]))
        std::fill_n(&output[row * kValue], kValue, kNan);
    }
  }

  /// Merges row `row`, whose LSE is at `at`, with attention's own result.
  Reference mergeWith(const Reference &own, int64_t row, int64_t at) const {
    if (std::isinf(lse[at]))
      return own;
    double maximum = std::max<double>(lse[at], own.lse);
    double weights[] = {std::exp(lse[at] - maximum), std::exp(own.lse - maximum)};
    double sum = weights[0] + weights[1];
    Reference result{std::vector<double>(kValue), maximum + std::log(sum)};
    for (int64_t i = 0; i < kValue; ++i)
      result.output[i] = (weights[0] * output[row * kValue + i] + weights[1] * own.output[i]) / sum;
    return result;
  }
};

/// Of some tokens nothing, of others positions of keys that they may see, the first of which is at
/// firsts[r], and of others before and behind these: new tokens, or chunkLens[r] of a chunk.
std::vector<int32_t> makeSelected(const std::vector<int64_t> &queryLens,
                                  const std::vector<int64_t> *chunkLens,
                                  const std::vector<int32_t> &firsts) {
  std::mt19937 random(8);
  std::vector<int32_t> selected;
  for (size_t r = 0; r < queryLens.size(); ++r)
    for (int64_t j = 0; j < queryLens[r]; ++j)
      for (int64_t i = 0; i < kSelected; ++i) {
        uint32_t drawn = random();
        int64_t keys = chunkLens ? (*chunkLens)[r] : j + 1, place = drawn % (keys + 5) - 2;
        bool isNone = j % 5 == 3 || i > keys;
        selected.push_back(isNone ? -1 : static_cast<int32_t>(firsts[r] + place));
      }
  return selected;
}

/// Keys are the new tokens (causal), or rows `keyLens` of chunk 1.
void checkExpanded(const std::vector<int64_t> &queryLens, const std::vector<int64_t> *chunkLens,
                   bool hasRope, bool hasPartial = false, int64_t splits = 0,
                   bool isMarked = false) {
  auto steps =
      Steps::compile(expandedModule(chunkLens, hasRope, kValue, hasPartial, splits, isMarked));
  ASSERT_TRUE(steps);
  const std::vector<int64_t> &keyLens = chunkLens ? *chunkLens : queryLens;
  int64_t requests = queryLens.size();
  auto queryStarts = prefixSums(queryLens), keyStarts = prefixSums(keyLens);
  std::vector<int32_t> chunkStarts(requests + 1, 0); // chunk 0 is empty
  chunkStarts.insert(chunkStarts.end(), keyStarts.begin(), keyStarts.end());
  int64_t tokens = queryStarts.back(), keys = keyStarts.back();
  auto q = randomVector<float>(tokens * kHeads * kNope, 1),
       qPe = randomVector<float>(tokens * kHeads * kRope, 2),
       k = randomVector<float>(keys * kHeads * kNope, 3),
       kPe = randomVector<float>(keys * kRope, 4),
       v = randomVector<float>(keys * kHeads * kValue, 5);
  for (auto *buffer : {&k, &kPe, &v}) // rows behind the last are not specified
    buffer->resize(buffer->size() + 64 * kHeads * kNope, kNan);
  std::vector<float> output(tokens * kHeads * kValue, kNan), lse(tokens * kHeads, kNan);
  bool isHeadMajor = chunkLens && splits == 0;
  GivenPartial partial(tokens, isHeadMajor);
  constexpr int64_t capacity = 150;
  std::vector<int32_t> contextLens, requestOfToken;
  for (int64_t r = 0; r < requests; ++r) {
    contextLens.push_back(static_cast<int32_t>(r * 37));
    requestOfToken.insert(requestOfToken.end(), queryLens[r], static_cast<int32_t>(r));
  }
  std::vector<int32_t> firsts = chunkLens ? std::vector<int32_t>(requests, capacity) : contextLens;
  std::vector<int32_t> selected = makeSelected(queryLens, chunkLens, firsts);
  int64_t longest = *std::max_element(queryLens.begin(), queryLens.end());
  steps->run("step",
             {{"num_tokens", tokens},
              {"num_requests", requests},
              {"max_query_len", longest},
              {"max_seq_len", longest}, // of causal ones
              {"chunk_tokens", keys},
              {"chunk_request_tokens", *std::max_element(keyLens.begin(), keyLens.end())},
              {"chunk_capacity", capacity}},
             {{"q", q},
              {"q_pe", qPe},
              {"k", k},
              {"k_pe", kPe},
              {"v", v},
              {"p", partial.output},
              {"p_lse", partial.lse},
              {"selected", selected},
              {"query_start_loc", queryStarts},
              {"chunk_cu_seq_lens", chunkStarts},
              {"req_id_per_token", requestOfToken},
              {"context_lens", contextLens},
              {"output", output},
              {"lse", lse}});
  for (int64_t r = 0; r < requests; ++r)
    for (int64_t j = 0; j < queryLens[r]; ++j)
      for (int64_t head = 0; head < kHeads; ++head) {
        int64_t token = queryStarts[r] + j, row = token * kHeads + head;
        std::vector<int64_t> seen; // positions
        const int32_t *own = selected.data() + token * kSelected;
        for (int64_t s = 0; s < (chunkLens ? keyLens[r] : j + 1); ++s)
          if (!isMarked || std::find(own, own + kSelected, firsts[r] + s) != own + kSelected)
            seen.push_back(s);
        auto keyRow = [&](int64_t s) { return keyStarts[r] + seen[s]; };
        Reference expected = attend(
            static_cast<int64_t>(seen.size()), kValue,
            [&](int64_t s) {
              double score = 0;
              for (int64_t i = 0; i < kNope; ++i)
                score += double(q[row * kNope + i]) * k[(keyRow(s) * kHeads + head) * kNope + i];
              for (int64_t i = 0; hasRope && i < kRope; ++i)
                score += double(qPe[row * kRope + i]) * kPe[keyRow(s) * kRope + i];
              return score;
            },
            [&](int64_t s, int64_t i) { return v[(keyRow(s) * kHeads + head) * kValue + i]; });
        int64_t lseAt = isHeadMajor ? head * tokens + token : row;
        if (hasPartial)
          expected = partial.mergeWith(expected, row, lseAt);
        ASSERT_NO_FATAL_FAILURE(
            expectRow(&output[row * kValue], lse[lseAt], expected, "expanded", token, head));
      }
}

TEST(Expanded, A01_A43_CausalRaggedBatch) {
  checkExpanded({1, 0, 63, 64, 65, 16, 17}, nullptr, true);
}
TEST(Expanded, WithoutRope) { checkExpanded({5, 20}, nullptr, false); }
TEST(Expanded, A25_ChunkOfContextIsUnmasked) {
  // Requests 0 and 3 have nothing in the chunk: output 0, LSE -inf.
  std::vector<int64_t> chunkLens = {0, 1, 64, 0, 130};
  checkExpanded({3, 17, 1, 2, 33}, &chunkLens, true);
}

TEST(Expanded, B06_MarkedKeysAreSeen) {
  std::vector<int64_t> queryLens = {1, 0, 63, 64, 130, 16, 17};
  checkExpanded(queryLens, nullptr, true, /*hasPartial=*/false, 0, /*isMarked=*/true);
  checkExpanded(queryLens, nullptr, false, /*hasPartial=*/true, 0, /*isMarked=*/true);
}

/// Of the second chunk, whose keys have positions from its first on; with splits, of whose words
/// each reads its own.
TEST(Expanded, B06_MarkedKeysOfAChunkAreSeen) {
  std::vector<int64_t> queryLens = {3, 17, 1, 2, 33}, chunkLens = {0, 1, 64, 0, 130};
  checkExpanded(queryLens, &chunkLens, true, /*hasPartial=*/false, 0, /*isMarked=*/true);
  checkExpanded(queryLens, &chunkLens, false, /*hasPartial=*/true, 0, /*isMarked=*/true);
  for (int64_t splits : {1, 2, 5})
    checkExpanded(queryLens, &chunkLens, true, /*hasPartial=*/true, splits, /*isMarked=*/true);
}

/// As a merge with what came before gives: a request without keys keeps its partial, and
/// an empty partial is never read.
TEST(Expanded, A33_GoesOnFromAPartial) {
  std::vector<int64_t> chunkLens = {0, 1, 64, 0, 130};
  checkExpanded({3, 17, 1, 2, 33}, &chunkLens, true, /*hasPartial=*/true);
  checkExpanded({1, 0, 63, 64, 65, 16, 17}, nullptr, false, /*hasPartial=*/true);
}

/// Splits without keys are empty, and only the first goes on from the partial.
TEST(Expanded, A33_SplitsOfAChunk) {
  std::vector<int64_t> chunkLens = {0, 1, 64, 0, 330};
  for (int64_t splits : {1, 2, 5}) {
    checkExpanded({3, 17, 1, 2, 33}, &chunkLens, true, /*hasPartial=*/false, splits);
    checkExpanded({3, 17, 1, 2, 33}, &chunkLens, true, /*hasPartial=*/true, splits);
  }
}

/// Output and LSE of one causal request whose values are padded with zeros to `width`.
std::pair<std::vector<float>, std::vector<float>> runWithValuesOfWidth(int64_t width) {
  constexpr int64_t tokens = 21, rows = tokens * kHeads;
  auto q = randomVector<float>(rows * kNope, 1), qPe = randomVector<float>(rows * kRope, 2),
       k = randomVector<float>(rows * kNope, 3), kPe = randomVector<float>(tokens * kRope, 4),
       narrow = randomVector<float>(rows * kValue, 5);
  std::vector<float> v(rows * width, 0), output(rows * width, kNan), lse(rows, kNan);
  for (int64_t row = 0; row < rows; ++row)
    std::copy_n(&narrow[row * kValue], kValue, &v[row * width]);
  std::vector<int32_t> starts = {0, tokens}, selected(tokens * kSelected, -1);
  auto steps = Steps::compile(expandedModule(false, true, width));
  if (steps)
    steps->run("step", {{"num_tokens", tokens}, {"num_requests", 1}, {"max_query_len", tokens}},
               {{"q", q},
                {"q_pe", qPe},
                {"k", k},
                {"k_pe", kPe},
                {"v", v},
                {"p", output},
                {"p_lse", lse},
                {"selected", selected},
                {"query_start_loc", starts},
                {"output", output},
                {"lse", lse}});
  return {output, lse};
}

TEST(Expanded, A31_ValuesPaddedToTheQueryWidthGiveTheSame) {
  constexpr int64_t wide = kNope + kRope; // A01_A43 checks the native width
  auto [native, lse] = runWithValuesOfWidth(kValue);
  auto [padded, paddedLse] = runWithValuesOfWidth(wide);
  for (size_t row = 0; row < lse.size(); ++row) {
    EXPECT_EQ(lse[row], paddedLse[row]);
    for (int64_t i = 0; i < wide; ++i)
      EXPECT_NEAR(padded[row * wide + i], i < kValue ? native[row * kValue + i] : 0, 1e-6)
          << "row " << row << ", column " << i;
  }
}

} // namespace
