//===- Prefill.cpp - a step of expanded attention, simulated ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Prefill.h"

#include "mla/Dialect/Tile/IR/TileDialect.h"
#include "mla/Dialect/Tile/Transforms/Passes.h"
#include "mla/Pipelines/Pipelines.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlac;
using namespace mlac::test;
using namespace mlir;

int64_t PrefillCase::getKeys(const Request &request) const {
  return isCausal ? request.queryLen : request.seqLen;
}

int64_t PrefillCase::getTokens() const {
  int64_t tokens = 0;
  for (const Request &request : requests)
    tokens += request.queryLen;
  return tokens;
}

int64_t PrefillCase::getKeyTokens() const {
  int64_t tokens = 0;
  for (const Request &request : requests)
    tokens += getKeys(request);
  return tokens;
}

static std::string makeGraph(const PrefillCase &test) {
  // {0} type of q, {1} of k, {2} of v, {3} to {6} about RoPE, {7} the chunk and the partial,
  // {8} the scale, {9} heads, {10} width of the values, {11} splits, {12} and {13} the marks.
  constexpr const char *text = R"(
!lse = tensor<?x{9}xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
!partial = tensor<?x{9}x{10}xf32>
func.func @prefill(%q: {0} {{mla.input = "q"}, %k: {1} {{mla.input = "k"}, %v: {2} {{mla.input = "v"}, {3}
    %p: !partial {{mla.input = "p"}, %p_lse: !lse {{mla.input = "p_lse"}, {12}
    %batch: !mla.batch) -> ({2} {{mla.output = "output"}, !lse {{mla.output = "lse"}) {{
  %c = arith.constant 0 : index
  %splits = arith.constant {11} : index
  {13}
  %o, %lse = mla.expanded_attention query(%q {4}) keys(%k {5}) values(%v : {2})
      over %batch : <query_len = ?> {7} scale {8} -> {2}, !lse
  return %o, %lse : {2}, !lse
})";
  auto type = [&](int64_t width) {
    return llvm::formatv("tensor<?x{0}x{1}xbf16>", test.heads, width).str();
  };
  std::string q = type(test.nope), v = type(test.value), pe = type(test.rope),
              keyPe = llvm::formatv("tensor<?x{0}xbf16>", test.rope).str();
  bool hasRope = test.rope > 0;
  std::string arguments =
      "%q_pe: " + pe + " {mla.input = \"q_pe\"}, %k_pe: " + keyPe + " {mla.input = \"k_pe\"},";
  std::string list = llvm::formatv("tensor<?x{0}xi32>", test.selected).str();
  return llvm::formatv(
      text, q, q, v, hasRope ? arguments : "", hasRope ? ", %q_pe : " + q + ", " + pe : ": " + q,
      hasRope ? ", %k_pe : " + q + ", " + keyPe : ": " + q, "",
      std::string(test.isCausal ? "" : "chunk %c") +
          (test.goesOn ? " onto(%p, %p_lse : !partial, !lse)" : "") +
          (test.splits ? " splits %splits" : "") +
          (test.selected ? " marks(%marks : tensor<?x?xi32>)" : ""),
      llvm::formatv("{0:f2}", test.scale).str(), test.heads, test.value, test.splits,
      test.selected ? "%s: " + list + " {mla.input = \"selected\"}," : "",
      test.selected
          ? std::string("%marks = mla.mark_selected %s over %batch ") +
                (test.isCausal ? "" : "chunk %c ") + ": " + list + ", !mla.batch -> tensor<?x?xi32>"
          : "");
}

/// Rows of all requests one behind the other, NaN behind the last.
static Bits makeRows(int64_t rows, int64_t width, unsigned seed) {
  constexpr int64_t kBehind = 3;
  Bits bits = makeRandom(rows * width, seed);
  bits.resize((rows + kBehind) * width, kNaN);
  return bits;
}

/// What a token may have selected: nothing, few of its own and earlier keys, the same twice, and
/// later ones, which it does not see. Many blocks have none. Of a chunk any of its keys, and such
/// as are behind it.
static std::vector<int32_t> makeSelected(const PrefillCase &test) {
  std::mt19937 random(29);
  std::vector<int32_t> selected;
  for (const Request &request : test.requests)
    for (int64_t query = 0; query < request.queryLen; ++query)
      for (int64_t i = 0; i < test.selected; ++i) {
        uint32_t drawn = random();
        int64_t keys = test.isCausal ? query : request.seqLen;
        bool isEmpty = query % 5 == 3 || i >= keys + 2;
        selected.push_back(isEmpty ? -1 : static_cast<int32_t>(drawn % (keys + 3)));
      }
  return selected;
}

/// Whether row (token, head) has no partial to go on from.
static bool isEmptyBefore(int64_t row) { return row % 3 == 0; }

bool Prefill::lowerToTile(MLIRContext &context) {
  if (!ScheduledStep::lowerToTile(context, makeGraph(test), test.schedule, test.parameters))
    return false;
  PassManager passes(&context);
  passes.addPass(tile::createTileLoopOverPrograms());
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  return succeeded(passes.run(*module));
}

bool Prefill::lowerToSm90() {
  // Marks are made before, and splits are merged behind.
  auto kernels = module->getOps<tile::KernelOp>();
  auto kernel = *llvm::find_if(kernels, [](tile::KernelOp each) {
    return each.getName().starts_with("expanded_attention");
  });
  auto schedule = kernel->getAttrOfType<tile::ScheduleInterface>(tile::kScheduleAttr);
  chosen = schedule ? schedule.getScheduleName().str() : "";
  PassManager passes(module->getContext());
  buildTileToSm90Pipeline(passes);
  return succeeded(passes.run(*module));
}

Prefill::Prefill(const PrefillCase &test, MLIRContext &context) : test(test) {
  if (!lowerToTile(context))
    return;
  makeBuffers();
  auto planOp = *module->getOps<tile::PlanOp>().begin();
  if (!plan.evaluate(planOp.getBody().front()) || !lowerToSm90())
    chosen.clear();
}

void Prefill::makeBuffers() {
  std::vector<int32_t> queryStarts{0}, keyStarts{0}, requestOfToken;
  int64_t most = 0, mostKeys = 0;
  for (const Request &request : test.requests) {
    requestOfToken.insert(requestOfToken.end(), request.queryLen,
                          static_cast<int32_t>(queryStarts.size()) - 1);
    mostKeys = std::max<int64_t>(mostKeys, request.seqLen);
    queryStarts.push_back(queryStarts.back() + request.queryLen);
    keyStarts.push_back(keyStarts.back() + request.seqLen);
    most = std::max<int64_t>(most, request.queryLen);
  }
  plan.dims = {{"num_tokens", test.getTokens()},
               {"num_requests", test.requests.size()},
               {"max_query_len", most},
               {"max_seq_len", most}, // of causal ones
               {"chunk_tokens", test.getKeyTokens()},
               {"chunk_request_tokens", mostKeys},
               {"chunk_capacity", mostKeys},
               {"num_sms", test.numSms}};
  int64_t tokens = test.getTokens(), keys = test.getKeyTokens();
  plan.buffers["query_start_loc"] = queryStarts;
  plan.buffers["chunk_cu_seq_lens"] = keyStarts;
  plan.buffers["item_counters"] = std::vector<int32_t>(2 + 2 * test.numSms, 0);
  plan.buffers["req_id_per_token"] = requestOfToken;
  plan.buffers["context_lens"] = std::vector<int32_t>(test.requests.size(), 0);
  plan.buffers["selected"] = makeSelected(test);
  plan.buffers["q"] = makeRows(tokens, test.heads * test.nope, 1);
  plan.buffers["k"] = makeRows(keys, test.heads * test.nope, 2);
  plan.buffers["v"] = makeRows(keys, test.heads * test.value, 3);
  plan.buffers["q_pe"] = makeRows(tokens, test.heads * test.rope, 4);
  plan.buffers["k_pe"] = makeRows(keys, test.rope, 5);
  if (test.poisoned >= 0) {
    const std::vector<int32_t> &starts = test.isCausal ? queryStarts : keyStarts;
    for (auto [name, width] : {std::pair{"k", test.heads * test.nope},
                               {"v", test.heads * test.value},
                               {"k_pe", test.rope}}) {
      Bits &rows = std::get<Bits>(plan.buffers[name]);
      std::fill(rows.begin() + starts[test.poisoned] * width,
                rows.begin() + starts[test.poisoned + 1] * width, kNaN);
    }
  }
  std::vector<float> partial(tokens * test.heads * test.value), lses(tokens * test.heads);
  for (size_t i = 0; i < partial.size(); ++i)
    partial[i] = isEmptyBefore(i / test.value) ? NAN : std::sin(static_cast<float>(i));
  for (size_t row = 0; row < lses.size(); ++row) // some far below the scores', some above
    lses[row] = isEmptyBefore(row) ? -INFINITY : 8 * std::cos(static_cast<float>(row));
  plan.buffers["p"] = partial;
  plan.buffers["p_lse"] = lses;
  plan.buffers["output"] = Bits(tokens * test.heads * test.value, kNaN);
  plan.buffers["lse"] = std::vector<float>(tokens * test.heads, NAN);
}

Prefill::Reference Prefill::computeReference() const {
  auto get = [&](const char *name) -> const Bits & {
    return std::get<Bits>(plan.buffers.at(name));
  };
  const auto &partial = std::get<std::vector<float>>(plan.buffers.at("p")),
             &partialLse = std::get<std::vector<float>>(plan.buffers.at("p_lse"));
  const auto &selected = std::get<std::vector<int32_t>>(plan.buffers.at("selected"));
  auto isSelected = [&](int64_t token, int64_t key) {
    auto own = llvm::ArrayRef(selected).slice(token * test.selected, test.selected);
    return test.selected == 0 || llvm::is_contained(own, key);
  };
  const Bits &q = get("q"), &k = get("k"), &v = get("v"), &qPe = get("q_pe"), &kPe = get("k_pe");
  Reference result{std::vector<double>(test.getTokens() * test.heads * test.value),
                   std::vector<double>(test.getTokens() * test.heads, -INFINITY)};
  int64_t token = 0, firstKey = 0;
  for (const Request &request : test.requests) {
    for (int64_t query = 0; query < request.queryLen; ++query, ++token)
      for (int64_t head = 0; head < test.heads; ++head) {
        int64_t row = token * test.heads + head, seen = test.isCausal ? query + 1 : request.seqLen;
        std::vector<double> weights(seen);
        double sum = 0;
        for (int64_t key = 0; key < seen; ++key) {
          if (!isSelected(token, key))
            continue;
          int64_t keyRow = (firstKey + key) * test.heads + head;
          double score = 0;
          for (int64_t i = 0; i < test.nope; ++i)
            score += toFloat(q[row * test.nope + i]) * toFloat(k[keyRow * test.nope + i]);
          for (int64_t i = 0; i < test.rope; ++i)
            score +=
                toFloat(qPe[row * test.rope + i]) * toFloat(kPe[(firstKey + key) * test.rope + i]);
          sum += weights[key] = std::exp(score * test.scale); // widths of a test do not overflow
        }
        double before = test.goesOn ? std::exp(partialLse[row]) : 0;
        sum += before;
        result.lse[row] = std::log(sum);
        for (int64_t i = 0; i < test.value && before > 0; ++i)
          result.output[row * test.value + i] = before / sum * partial[row * test.value + i];
        for (int64_t key = 0; key < seen && sum != 0; ++key)
          for (int64_t i = 0; i < test.value; ++i)
            result.output[row * test.value + i] +=
                weights[key] / sum *
                toFloat(v[((firstKey + key) * test.heads + head) * test.value + i]);
      }
    firstKey += test.getKeys(request);
  }
  return result;
}
