//===- Lists.cpp - a step of attention over lists of rows, simulated ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lists.h"
#include "CodeRows.h"

#include "mla/Dialect/Tile/IR/TileDialect.h"

#include "llvm/Support/FormatVariadic.h"

#include <numeric>

using namespace mlac;
using namespace mlac::test;
using namespace mlir;

static constexpr double kScale = 0.1;
/// The second pool has other pages, and so other rows.
static constexpr int64_t kPage = 16, kOtherPage = 12, kPages = 20, kRows = kPage * kPages;

std::string Lists::makeGraph() const {
  // {0} heads, {1} rank, {2} entries of a list, {3} results, {4} sink, {5} splits, scale and how
  // they are merged, {6} the format, {7} to {9} RoPE: its field, argument and operand, {10} and
  // {11} a second pool: its arguments and operands, {12} how queries lie, {13} and {14} where rows
  // are from: arguments and operations, {15} lengths.
  constexpr const char *text = R"(
!q = tensor<?x{0}x{1}xbf16>
!lse = tensor<?x{0}xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
!po = tensor<?x?x{0}x{1}xf32>
!pl = tensor<?x?x{0}xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
!cache = !mla.cache<page_size = 16, fields = [latent: {1}{7}], element = bf16, rope_order = half{6}>
func.func @decode(%q: !q {{mla.input = "q"{12}}{8},
    {13}, %sink: tensor<{0}xf32> {{mla.input = "sink"}, %batch: !mla.batch<query_len = 1>, %cache: !cache{10})
    -> (!q {{mla.output = "output"}, !lse {{mla.output = "lse"}) {{
  {14}
  {3} = mla.sparse_attention query({9}) rows(%rows : tensor<?x{2}xi32>)
      {15} {4} over %cache, %batch : !cache, !mla.batch<query_len = 1> {11}
      {5}
  return %o, %l : !q, !lse
})";
  std::string results = "%o, %l", sink, splits = llvm::formatv("scale {0:f2} -> ", kScale);
  std::string given = llvm::formatv("sink(%sink : tensor<{0}xf32>)", test.heads);
  if (!test.hasSink)
    given = "";
  if (test.splits == 0) {
    sink = given;
    splits += "!q lse !lse";
  } else {
    results = llvm::formatv("%n = arith.constant {0} : index\n  %p, %m", test.splits);
    splits = "splits %n " + splits + "!po lse !pl\n  %o, %l = mla.merge_splits %p, %m " + given +
             " : !po, !pl -> !q, !lse";
  }
  std::string field, argument, operand = "%q : !q", pool, beside;
  if (test.rope != 0) {
    std::string type = llvm::formatv("tensor<?x{0}x{1}xbf16>", test.heads, test.rope);
    field = llvm::formatv(", rope: {0}", test.rope);
    argument = ", %q_pe: " + type + " {mla.input = \"q_pe\"}";
    operand = "%q, %q_pe : !q, " + type;
  }
  if (test.others != 0) {
    std::string type =
        llvm::formatv("!mla.cache<page_size = {0}, fields = [latent: {1}], element = "
                      "bf16, rope_order = half, tokens_per_row = 4>",
                      kOtherPage, test.rank);
    std::string lists = llvm::formatv("tensor<?x{0}xi32>", test.others);
    pool = ", %others: " + lists + " {mla.input = \"others\"}, %counts: tensor<?xi32> " +
           "{mla.input = \"counts\"}, %far: " + type + " {mla.pool = \"far\"}";
    beside = "beside(%others, %counts, %far : " + lists + ", tensor<?xi32>, " + type + ")";
  }
  std::string list = llvm::formatv("tensor<?x{0}xi32>", test.width), rowsGiven, made, lengths;
  if (test.from == ListsFrom::Rows) {
    rowsGiven = "%rows: " + list + " {mla.input = \"rows\"}, %lengths: tensor<?xi32> " +
                "{mla.input = \"lengths\"}";
    lengths = "lengths(%lengths : tensor<?xi32>)";
  } else {
    std::string scores = llvm::formatv("tensor<?x{0}xf32>", kRows);
    rowsGiven = test.from == ListsFrom::Scores ? "%scores: " + scores + " {mla.input = \"scores\"}"
                                               : "%positions: " + list + " {mla.input = \"rows\"}";
    if (test.from == ListsFrom::Scores)
      made = llvm::formatv("%positions = mla.top_k %scores over %batch k {0} : {1}, "
                           "!mla.batch<query_len = 1> -> {2}\n  ",
                           test.width, scores, list);
    made += "%rows = mla.convert_indices %positions in %cache, %batch : " + list +
            " in !cache, !mla.batch<query_len = 1>";
  }
  std::string format = test.format.empty() ? "" : ", format = \"" + test.format + "\"";
  return llvm::formatv(text, test.heads, test.rank, test.width, results, sink, splits, format,
                       field, argument, operand, pool, beside,
                       test.areHeadsOutermost ? ", mla.heads_outermost" : "", rowsGiven, made,
                       lengths);
}

std::string Lists::makeChunkGraph() const {
  // {0} heads, {1} rank, {2} RoPE width, {3} entries of a list, {4} rows, {5} scale.
  return llvm::formatv(R"(
!q = tensor<?x{0}x{1}xbf16>
!r = tensor<?x{0}x{2}xbf16>
func.func @chunk(%q: !q {{mla.input = "q"}, %q_pe: !r {{mla.input = "q_pe"},
    %rows: tensor<?x{3}xi32> {{mla.input = "rows"}, %lengths: tensor<?xi32> {{mla.input = "lengths"},
    %c: tensor<{4}x{1}xbf16> {{mla.input = "c"}, %k_pe: tensor<{4}x{2}xbf16> {{mla.input = "k_pe"},
    %onto: !q {{mla.input = "onto"}, %batch: !mla.batch) -> (!q {{mla.output = "output"}) {{
  %second = arith.constant 1 : index
  %o = mla.sparse_attention query(%q, %q_pe : !q, !r) rows(%rows : tensor<?x{3}xi32>)
      lengths(%lengths : tensor<?xi32>) keys(%c, %k_pe : tensor<{4}x{1}xbf16>, tensor<{4}x{2}xbf16>)
      of %batch chunk %second onto %onto : !mla.batch, !q scale {5:f2} -> !q
  return %o : !q
})",
                       test.heads, test.rank, test.rope, test.width, kRows, kScale)
      .str();
}

int64_t Lists::countRow() const {
  return test.format.empty() ? test.rank + test.rope : countGroupedRow(test.rank, test.rope);
}

void Lists::storeRow(Scope &scope, int32_t row) {
  unsigned seed = row + 7 + 1000 * static_cast<unsigned>(&scope - scopes.data());
  std::vector<float> &key = scope.keys[row];
  key.clear();
  if (!test.format.empty()) {
    Codes &pool = std::get<Codes>(plan.buffers[scope.pool]);
    return storeCodeRow(&pool[row * countRow()], test.rank, test.rope, /*isGrouped=*/true, 0, seed,
                        key);
  }
  Bits bits = makeRandom(countRow(), seed);
  auto put = [&](StringRef name, auto first, int64_t width) {
    std::copy_n(first, width, &std::get<Bits>(plan.buffers[name.str()])[row * width]);
  };
  if (test.isChunk) {
    put("c", bits.begin(), test.rank);
    put("k_pe", bits.begin() + test.rank, test.rope);
  } else {
    put(scope.pool, bits.begin(), countRow());
  }
  for (uint16_t value : bits)
    key.push_back(toFloat(value));
}

/// Selected are the positions of the largest scores, which are those of the last keys; listed rows
/// are even otherwise, or hostile.
int32_t Lists::makeEntry(const Scope &scope, int64_t token, int64_t index) {
  if (test.from == ListsFrom::Scores)
    return static_cast<int32_t>(std::max<int64_t>(scope.given[token] - scope.width, 0) + index);
  auto rows = static_cast<int32_t>(scope.page * kPages);
  const int32_t hostile[] = {std::numeric_limits<int32_t>::min(), -1, rows,
                             std::numeric_limits<int32_t>::max()};
  auto entry = static_cast<int32_t>(engine() % (rows / 2) * 2);
  return engine() % 5 == 0 ? hostile[engine() % std::size(hostile)] : entry;
}

/// Requests of a token each, of as many keys as the first lists are long, whose pages are the
/// pool's in order: a position is a row.
void Lists::makeRequests() {
  std::vector<int32_t> requests(getTokens()), starts(getTokens() + 1), table;
  std::iota(requests.begin(), requests.end(), 0);
  std::iota(starts.begin(), starts.end(), 0);
  for (int64_t token = 0; token < getTokens(); ++token)
    for (int32_t page = 0; page < kPages; ++page)
      table.push_back(page);
  std::vector<float> scores(getTokens() * kRows);
  for (size_t i = 0; i < scores.size(); ++i)
    scores[i] = static_cast<float>(i % kRows) - 5;
  plan.dims["num_requests"] = getTokens();
  plan.dims["max_blocks_per_request"] = kPages;
  plan.dims["max_seq_len"] = kRows;
  plan.buffers["req_id_per_token"] = requests;
  plan.buffers["query_start_loc"] = starts;
  plan.buffers["seq_lens"] = scopes.front().given;
  plan.buffers["block_table"] = table;
  plan.buffers["scores"] = scores;
  plan.buffers["item_counters"] = std::vector<int32_t>(2 + 2 * test.numSms, 0);
}

/// Rows that are not listed are NaN.
void Lists::makeLists(Scope &scope) {
  auto rows = static_cast<int32_t>(scope.page * kPages);
  if (test.isChunk) {
    plan.buffers["c"] = Bits(kRows * test.rank, kNaN);
    plan.buffers["k_pe"] = Bits(kRows * test.rope, kNaN);
  } else if (test.format.empty())
    plan.buffers[scope.pool] = Bits(rows * countRow(), kNaN);
  else
    plan.buffers[scope.pool] = Codes(rows * countRow(), 0xFF);
  scope.keys.resize(rows);
  std::vector<int32_t> lists(getTokens() * scope.width, test.from == ListsFrom::Rows ? 1 : -1);
  for (int64_t token = 0; token < getTokens(); ++token)
    for (int64_t k = 0; k < std::min<int64_t>(scope.given[token], scope.width); ++k) {
      int32_t &entry = lists[token * scope.width + k];
      entry = makeEntry(scope, token, k);
      if (entry >= 0 && entry < rows)
        storeRow(scope, entry);
    }
  plan.buffers[scope.rows] = std::move(lists);
  plan.buffers[scope.lengths] = scope.given;
}

Lists::Lists(const ListsCase &test, MLIRContext &context) : test(test) {
  scopes = {{"cache", "rows", "lengths", test.width, kPage, test.lengths, {}}};
  if (test.others != 0)
    scopes.push_back({"far", "others", "counts", test.others, kOtherPage, test.otherLengths, {}});
  if (!lowerToTile(context, test.isChunk ? makeChunkGraph() : makeGraph(), test.schedule, {}))
    return;
  plan.dims["num_tokens"] = getTokens();
  plan.dims["num_sms"] = test.numSms;
  plan.dims["num_pages"] = kPages;
  plan.dims["page_stride"] = kPage * countRow();
  plan.dims["far/num_pages"] = kPages;
  plan.dims["far/page_stride"] = kOtherPage * countRow();
  for (Scope &scope : scopes)
    makeLists(scope);
  if (test.from != ListsFrom::Rows)
    makeRequests();
  plan.buffers["q"] = makeRandom(getTokens() * test.heads * test.rank, 1);
  plan.buffers["q_pe"] = makeRandom(getTokens() * test.heads * test.rope, 2);
  std::vector<float> sinks(test.heads);
  for (int64_t head = 0; head < test.heads; ++head)
    sinks[head] = head % 3 == 0 ? INFINITY : head % 3 == 1 ? -INFINITY : 0.5f * (head % 7);
  plan.buffers["sink"] = sinks;
  if (test.isChunk) {
    auto tokens = static_cast<int32_t>(getTokens());
    plan.dims["gather_tokens"] = tokens - 1;
    plan.buffers["gather_query_loc"] = std::vector<int32_t>{0, 1, tokens};
    plan.buffers["onto"] = Bits(getTokens() * test.heads * test.rank, toBf16(kOnto));
  }
  plan.buffers["output"] = Bits(getTokens() * test.heads * test.rank, kNaN);
  plan.buffers["lse"] = std::vector<float>(getTokens() * test.heads, NAN);
  auto planOp = *module->getOps<tile::PlanOp>().begin();
  if (!plan.evaluate(planOp.getBody().front()) || !lowerToSm90())
    chosen.clear();
}

Lists::Results Lists::computeReference() const {
  const Bits &q = std::get<Bits>(plan.buffers.at("q")),
             &pe = std::get<Bits>(plan.buffers.at("q_pe"));
  const auto &sinks = std::get<std::vector<float>>(plan.buffers.at("sink"));
  int64_t width = test.rank + test.rope;
  Results results{std::vector<double>(getTokens() * test.heads * test.rank),
                  std::vector<double>(getTokens() * test.heads, -INFINITY)};
  int64_t firstRow = test.isChunk ? test.heads : 0;
  std::fill_n(results.output.begin(), firstRow * test.rank, kOnto);
  for (int64_t row = firstRow; row < getTokens() * test.heads; ++row) {
    int64_t token = row / test.heads, head = row % test.heads;
    int64_t latentRow = test.areHeadsOutermost ? head * getTokens() + token : row;
    std::vector<std::pair<double, const float *>> seen;
    double max = -INFINITY, sum = 0;
    for (const Scope &scope : scopes) {
      const auto &lists = std::get<std::vector<int32_t>>(plan.buffers.at(scope.rows));
      for (int64_t k = 0; k < std::min<int64_t>(scope.given[token], scope.width); ++k) {
        int32_t entry = lists[token * scope.width + k];
        if (entry < 0 || entry >= scope.page * kPages)
          continue;
        const float *key = scope.keys[entry].data();
        double score = 0;
        for (int64_t i = 0; i < width; ++i)
          score += kScale * key[i] *
                   toFloat(i < test.rank ? q[latentRow * test.rank + i]
                                         : pe[row * test.rope + i - test.rank]);
        seen.push_back({score, key});
        max = std::max(max, score);
      }
    }
    for (auto [score, key] : seen)
      sum += std::exp(score - max);
    if (seen.empty())
      continue;
    double lse = results.lse[row] = max + std::log(sum);
    double factor = test.hasSink ? 1 / (1 + std::exp(sinks[row % test.heads] - lse)) : 1;
    for (auto [score, key] : seen)
      for (int64_t i = 0; i < test.rank; ++i)
        results.output[row * test.rank + i] += factor * std::exp(score - lse) * key[i];
  }
  return results;
}
