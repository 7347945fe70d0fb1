//===- SparseAttentionTest.cpp - attention on the rows that a list names ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Against double sums written from sparse.md sections 7 to 9. Rows that no valid entry names
// hold NaN; entries behind a length are valid numbers of such rows.
//
//===----------------------------------------------------------------------===//

#include "PlanRunner.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

using namespace mlac::test;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr double kScale = 0.3;
constexpr double kTolerance = 1e-5;
constexpr float kUntouched = -77;
constexpr int32_t kHostile[] = {std::numeric_limits<int32_t>::min(), -1,
                                std::numeric_limits<int32_t>::max()};

/// Where the rows lie and which optional parts the step has.
struct Form {
  int64_t heads = 3, latent = 20, rope = 6, width = 70, page = 16;
  /// Rows from page to page; more than `page` with padding between.
  int64_t pageRows = 18;
  bool isOverPool = true, hasLengths = false, hasSink = false, wantsRowResults = true;
  int64_t splits = 0;
  bool isConcatenated = false; // queries' latent and rope parts are one tensor

  int64_t rowWidth() const { return latent + rope; }
};

std::string operationsOf(const Form &form) {
  if (form.splits)
    return R"(
  %n = arith.constant $SPLITS : index
  %p, %pl, %pm = mla.sparse_attention query(%q, %q_pe : !q, !r) rows(%rows : !list) $LENGTHS
      $KEYS splits %n scale 0.3 -> !so lse !slse max_logits !smax
  %o, %lse, %max = mla.merge_splits %p, %pl max(%pm : !smax) $SINK : !so, !slse -> !q, !lse max_logits !max)";
  std::string attention = R"( = mla.sparse_attention query(%q, %q_pe : !q, !r) rows(%rows : !list)
      $LENGTHS $SINK $KEYS scale 0.3 -> !q)";
  return form.wantsRowResults ? "%o, %lse, %max" + attention + " lse !lse max_logits !max"
                              : "%o" + attention;
}

/// Queries in two tensors, or parts of one, which are views.
std::string argumentsOf(const Form &form) {
  return form.isConcatenated ? R"(%both: tensor<?x$Nx$Dxf32> {mla.input = "both"})"
                             : R"(%q: !q {mla.input = "q"}, %q_pe: !r {mla.input = "q_pe"})";
}
std::string partsOf(const Form &form) {
  return form.isConcatenated ? R"(
  %c0 = arith.constant 0 : index
  %t = tensor.dim %both, %c0 : tensor<?x$Nx$Dxf32>
  %q = tensor.extract_slice %both[0, 0, 0] [%t, $N, $LATENT] [1, 1, 1] : tensor<?x$Nx$Dxf32> to !q
  %q_pe = tensor.extract_slice %both[0, 0, $LATENT] [%t, $N, $ROPE] [1, 1, 1] : tensor<?x$Nx$Dxf32> to !r
  )"
                             : "";
}

std::string moduleOf(const Form &form) {
  std::string text = R"(
!q = tensor<?x$Nx$LATENTxf32>
!r = tensor<?x$Nx$ROPExf32>
!list = tensor<?x$Wxi32>
!lse = tensor<?x$Nxf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
!max = tensor<?x$Nxf32>
!so = tensor<?x?x$Nx$LATENTxf32>
!slse = tensor<?x?x$Nxf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
!smax = tensor<?x?x$Nxf32>
!cache = !mla.cache<page_size = $PAGE, fields = [latent: $LATENT, rope: $ROPE], element = f32, rope_order = half>
func.func @step($QUERIES, %rows: !list {mla.input = "rows"}, %len: tensor<?xi32> {mla.input = "lengths"},
                %sink: tensor<$Nxf32> {mla.input = "sink"}, %c: tensor<50x$LATENTxf32> {mla.input = "c"},
                %k_pe: tensor<50x$ROPExf32> {mla.input = "k_pe"}, %batch: !mla.batch, %cache: !cache)
    -> (!q {mla.output = "output"}$RESULTS) {$PARTS
  $OPERATIONS
  return %o$VALUES : !q$TYPES
})";
  bool hasMore = form.wantsRowResults;
  text = substitute(
      text,
      {{"OPERATIONS", operationsOf(form)},
       {"PARTS", partsOf(form)},
       {"QUERIES", argumentsOf(form)},
       {"RESULTS", hasMore ? R"(, !lse {mla.output = "lse"}, !max {mla.output = "max"})" : ""},
       {"TYPES", hasMore ? ", !lse, !max" : ""},
       {"VALUES", hasMore ? ", %lse, %max" : ""}});
  std::string keys = form.isOverPool
                         ? "over %cache, %batch : !cache, !mla.batch"
                         : "keys(%c, %k_pe : tensor<50x$LATENTxf32>, tensor<50x$ROPExf32>)";
  text = substitute(text, {{"KEYS", keys},
                           {"LENGTHS", form.hasLengths ? "lengths(%len : tensor<?xi32>)" : ""},
                           {"SINK", form.hasSink ? "sink(%sink : tensor<$Nxf32>)" : ""}});
  return substitute(text, {{"SPLITS", std::to_string(form.splits)},
                           {"LATENT", std::to_string(form.latent)},
                           {"ROPE", std::to_string(form.rope)},
                           {"PAGE", std::to_string(form.page)},
                           {"W", std::to_string(form.width)},
                           {"D", std::to_string(form.rowWidth())},
                           {"N", std::to_string(form.heads)}});
}

/// Tokens with lists of rows, of which `rows` are there and the listed ones hold numbers.
struct Batch {
  Batch(const Form &form, int64_t tokens, unsigned seed)
      : form(form), tokens(tokens), random(seed) {
    pages = form.isOverPool ? 3 : 0;
    rows = form.isOverPool ? (pages - 1) * form.pageRows + form.page : 50;
    memory.assign((rows + 1) * form.rowWidth(), kNan);
    lists.resize(tokens * form.width);
    lengths.resize(tokens);
    query = randomVector<float>(tokens * form.heads * form.latent, seed + 1);
    ropeQuery = randomVector<float>(tokens * form.heads * form.rope, seed + 2);
    sinks = randomVector<float>(form.heads, seed + 3);
    for (int64_t t = 0; t < tokens; ++t)
      fillList(t);
  }

  int64_t lengthOf(int64_t t) const {
    return form.hasLengths ? std::clamp<int64_t>(lengths[t], 0, form.width) : form.width;
  }
  int32_t &entry(int64_t t, int64_t k) { return lists[t * form.width + k]; }
  float *row(int64_t index) { return &memory[index * form.rowWidth()]; }
  bool isRow(int64_t index) const { return index >= 0 && index < rows; }
  /// Makes a row that may be read.
  void fill(int64_t index) {
    if (std::isnan(row(index)[0]))
      for (int64_t i = 0; i < form.rowWidth(); ++i)
        row(index)[i] = static_cast<float>(random() % 2001) / 1000.0F - 1;
  }

  Form form;
  int64_t tokens, pages, rows;
  std::vector<float> memory, query, ropeQuery, sinks;
  std::vector<int32_t> lists, lengths;
  std::mt19937 random;

private:
  /// A fifth of the entries is invalid; every fourth token has none that is valid. Half of the
  /// rows are never listed and stay NaN; entries behind a length name such.
  void fillList(int64_t t) {
    lengths[t] = t % 5 == 0 ? form.width + 7 : static_cast<int32_t>(random() % (form.width + 1));
    if (t % 7 == 3)
      lengths[t] = t % 2 ? 0 : -5;
    for (int64_t k = 0; k < form.width; ++k) {
      bool isInvalid = t % 4 == 2 || random() % 5 == 0;
      entry(t, k) = static_cast<int32_t>(random() % rows / 2 * 2);
      if (isInvalid)
        entry(t, k) = random() % 4 == 0 ? static_cast<int32_t>(rows) : kHostile[random() % 3];
      if (k >= lengthOf(t))
        entry(t, k) = 1;
      else if (isRow(entry(t, k)))
        fill(entry(t, k));
    }
  }
};

struct Results {
  std::vector<float> output, lse, maxLogits;
};

Results run(Steps &steps, Batch &batch) {
  const Form &form = batch.form;
  constexpr int64_t padding = 2;
  int64_t count = (batch.tokens + padding) * form.heads;
  Results results{std::vector<float>(count * form.latent, kUntouched),
                  std::vector<float>(count, kUntouched), std::vector<float>(count, kUntouched)};
  std::vector<float> latent, rope;
  for (int64_t s = 0; s < batch.rows; ++s) {
    latent.insert(latent.end(), batch.row(s), batch.row(s) + form.latent);
    rope.insert(rope.end(), batch.row(s) + form.latent, batch.row(s) + form.rowWidth());
  }
  std::vector<float> both;
  for (int64_t row = 0; row < batch.tokens * form.heads; ++row) {
    const float *q = &batch.query[row * form.latent], *qPe = &batch.ropeQuery[row * form.rope];
    both.insert(both.end(), q, q + form.latent);
    both.insert(both.end(), qPe, qPe + form.rope);
  }
  steps.run("step",
            {{"num_tokens", batch.tokens},
             {"num_pages", batch.pages},
             {"page_stride", form.pageRows * form.rowWidth()}},
            {{"q", batch.query},
             {"q_pe", batch.ropeQuery},
             {"both", both},
             {"rows", batch.lists},
             {"lengths", batch.lengths},
             {"sink", batch.sinks},
             {"c", latent},
             {"k_pe", rope},
             {"cache", batch.memory},
             {"output", results.output},
             {"lse", results.lse},
             {"max", results.maxLogits}});
  for (int64_t i = batch.tokens * form.heads; i < count; ++i) {
    EXPECT_EQ(results.lse[i], kUntouched) << "LSE " << i << " behind the tokens";
    EXPECT_EQ(results.output[i * form.latent], kUntouched) << "row " << i << " behind the tokens";
  }
  return results;
}

struct Expected {
  std::vector<double> output;
  double lse = -kInf, maximum = -kInf;
};

Expected reference(Batch &batch, int64_t t, int64_t head) {
  const Form &form = batch.form;
  int64_t place = t * form.heads + head;
  std::vector<std::pair<double, const float *>> keys;
  Expected result{std::vector<double>(form.latent, 0)};
  for (int64_t k = 0; k < batch.lengthOf(t); ++k) {
    if (!batch.isRow(batch.entry(t, k)))
      continue;
    const float *row = batch.row(batch.entry(t, k));
    double score = 0;
    for (int64_t i = 0; i < form.rowWidth(); ++i)
      score +=
          double(row[i]) * (i < form.latent ? batch.query[place * form.latent + i]
                                            : batch.ropeQuery[place * form.rope + i - form.latent]);
    keys.push_back({kScale * score, row});
    result.maximum = std::max(result.maximum, kScale * score);
  }
  if (keys.empty())
    return result;
  double sum = 0;
  for (auto [score, row] : keys)
    sum += std::exp(score - result.maximum);
  result.lse = result.maximum + std::log(sum);
  double factor = form.hasSink ? 1 / (1 + std::exp(batch.sinks[head] - result.lse)) : 1;
  for (auto [score, row] : keys)
    for (int64_t i = 0; i < form.latent; ++i)
      result.output[i] += factor * std::exp(score - result.lse) * row[i];
  return result;
}

void expectNear(float got, double expected, const std::string &what) {
  if (std::isinf(expected))
    ASSERT_EQ(got, expected) << what;
  else
    ASSERT_NEAR(got, expected, kTolerance) << what;
}

void expectResults(Batch &batch, const Results &got) {
  const Form &form = batch.form;
  for (int64_t t = 0; t < batch.tokens; ++t)
    for (int64_t head = 0; head < form.heads; ++head) {
      Expected expected = reference(batch, t, head);
      int64_t place = t * form.heads + head;
      std::string what = "token " + std::to_string(t) + ", head " + std::to_string(head);
      for (int64_t i = 0; i < form.latent; ++i)
        ASSERT_NO_FATAL_FAILURE(expectNear(got.output[place * form.latent + i], expected.output[i],
                                           what + ", column " + std::to_string(i)));
      if (!form.wantsRowResults)
        continue;
      ASSERT_NO_FATAL_FAILURE(expectNear(got.lse[place], expected.lse, what + ", LSE"));
      ASSERT_NO_FATAL_FAILURE(
          expectNear(got.maxLogits[place], expected.maximum, what + ", maximum"));
    }
}

void check(const Form &form, int64_t tokens, unsigned seed) {
  auto steps = Steps::compile(moduleOf(form));
  ASSERT_TRUE(steps);
  Batch batch(form, tokens, seed);
  for (int64_t head = 0; head < form.heads; ++head) // a third of each kind of sink
    if (head % 3 != 2)
      batch.sinks[head] = head % 3 == 0 ? -kInf : kInf;
  ASSERT_NO_FATAL_FAILURE(expectResults(batch, run(*steps, batch)));
}

TEST(SparseAttention, B05_B06_B10_B36_RowsOfAPoolAndOfAWorkspace) {
  for (bool isOverPool : {true, false})
    for (bool hasLengths : {false, true}) {
      Form form;
      form.isOverPool = isOverPool;
      form.hasLengths = hasLengths;
      check(form, 12, 1);
    }
}

/// Each number of heads at tiles of its own size, without padding to 64.
TEST(SparseAttention, B15_B16_B35_AnyNumberOfHeads) {
  for (int64_t heads : {1, 2, 8, 16, 17, 40, 128}) {
    Form form;
    form.heads = heads;
    check(form, 3, static_cast<unsigned>(heads));
  }
}

TEST(SparseAttention, B29_QueriesInOneTensorOrInTwo) {
  for (bool isConcatenated : {false, true}) {
    Form form;
    form.isConcatenated = isConcatenated;
    check(form, 5, 7);
  }
}

TEST(SparseAttention, SinksOfEveryKind) {
  for (int64_t splits : {0, 1, 3}) {
    Form form;
    form.heads = 6;
    form.hasSink = form.hasLengths = true;
    form.splits = splits;
    check(form, 9, 5);
  }
  Form alone; // the factor needs an LSE that nobody asked for
  alone.hasSink = true;
  alone.wantsRowResults = false;
  check(alone, 9, 6);
}

/// More splits than blocks of the list, too.
TEST(SparseAttention, SplitsOfEveryCount) {
  for (int64_t splits : {1, 2, 3, 7}) {
    Form form;
    form.width = 200;
    form.splits = splits;
    form.hasLengths = true;
    check(form, 9, static_cast<unsigned>(splits));
  }
}

TEST(SparseAttention, ListsOfEveryWidth) {
  for (int64_t width : {1, 2, 63, 64, 65, 128, 1000}) {
    Form form;
    form.width = width;
    check(form, 5, static_cast<unsigned>(width));
  }
}

/// The same keys in another order.
TEST(SparseAttention, PermutedListsGiveTheSame) {
  Form form;
  auto steps = Steps::compile(moduleOf(form));
  ASSERT_TRUE(steps);
  Batch batch(form, 4, 3);
  Results before = run(*steps, batch);
  EXPECT_EQ(before.output, run(*steps, batch).output) << "twice the same";
  for (int64_t t = 0; t < batch.tokens; ++t)
    std::shuffle(&batch.entry(t, 0), &batch.entry(t, 0) + form.width, batch.random);
  Results after = run(*steps, batch);
  for (size_t i = 0; i < before.output.size(); ++i)
    ASSERT_NEAR(after.output[i], before.output[i], kTolerance);
}

/// Every occurrence of a row counts.
TEST(SparseAttention, RepeatedRowsWeighMore) {
  Form form;
  form.width = 3;
  auto steps = Steps::compile(moduleOf(form));
  ASSERT_TRUE(steps);
  Batch batch(form, 1, 4);
  batch.lists = {2, 2, 4};
  batch.fill(2);
  batch.fill(4);
  expectResults(batch, run(*steps, batch));
}

} // namespace
