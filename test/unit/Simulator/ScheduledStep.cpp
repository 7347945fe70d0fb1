//===- ScheduledStep.cpp - a step's kernels in derived schedules, simulated ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScheduledStep.h"

#include "mla/Conversion/Passes.h"
#include "mla/Dialect/Tile/IR/TileDialect.h"
#include "mla/Dialect/Tile/Transforms/Passes.h"
#include "mla/Pipelines/Pipelines.h"
#include "mla/Simulator/Mutations.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include "llvm/ADT/StringExtras.h"

#include "gtest/gtest.h"

#include <limits>
#include <set>

using namespace mlac;
using namespace mlac::test;
using namespace mlir;

int64_t test::getMaxQueryLen(ArrayRef<Request> requests) {
  int64_t most = 1;
  for (const Request &request : requests)
    most = std::max<int64_t>(most, request.queryLen);
  return most;
}

int64_t test::countTokens(ArrayRef<Request> requests) {
  int64_t tokens = 0;
  for (const Request &request : requests)
    tokens += request.queryLen;
  return tokens;
}

static bool haveSameBits(const Data &data, const Data &other) {
  return std::visit(
      [&](auto &value) {
        auto &same = std::get<std::decay_t<decltype(value)>>(other);
        if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>)
          return value == same;
        else
          return memcmp(value.data(), same.data(), value.size() * sizeof(value[0])) == 0;
      },
      data);
}

std::optional<Buffers> test::runUnderEverySeed(const PlanRun &plan, ModuleOp module,
                                               ArrayRef<const char *> outputs) {
  std::optional<Buffers> first;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Buffers buffers = plan.buffers;
    if (auto finding = plan.run(module, buffers, seed)) {
      finding->emit();
      ADD_FAILURE() << "seed " << seed << ": " << finding->text;
      return std::nullopt;
    }
    if (!first)
      first = buffers;
    for (const char *output : outputs)
      if (!haveSameBits(buffers[output], (*first)[output])) {
        ADD_FAILURE() << "seed " << seed << ": " << output << " differs from that of seed 0";
        return std::nullopt;
      }
  }
  return first;
}

bool ScheduledStep::lowerByPipelines(MLIRContext &context, const std::string &graph,
                                     const std::string &schedule) {
  module = parseSourceString<ModuleOp>(graph, &context);
  if (!module)
    return false;
  PassManager toTile(&context), toSm90(&context);
  LowerToTileOptions options;
  options.target = TileTarget::Sm90;
  options.schedule = schedule;
  buildLowerToTilePipeline(toTile, options);
  if (failed(toTile.run(*module)))
    return false;
  for (auto kernel : module->getOps<tile::KernelOp>())
    if (auto planned = kernel->getAttrOfType<tile::ScheduleInterface>(tile::kScheduleAttr))
      schedules[kernel.getSymName().str()] = planned.getScheduleName().str();
  auto op = *module->getOps<tile::PlanOp>().begin();
  buildTileToSm90Pipeline(toSm90);
  return plan.evaluate(op.getBody().front()) && succeeded(toSm90.run(*module));
}

bool ScheduledStep::lowerToTile(MLIRContext &context, const std::string &graph,
                                const std::string &schedule,
                                const std::vector<std::string> &parameters) {
  module = parseSourceString<ModuleOp>(graph, &context);
  if (!module)
    return false;
  PassManager passes(&context);
  ConvertMlaToTileOptions options;
  options.target = TileTarget::Sm90;
  passes.addPass(createConvertMlaToTile(options));
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  TilePlanSchedulesOptions schedules;
  schedules.schedule = schedule;
  for (const std::string &parameter : parameters)
    schedules.parameters.push_back(parameter);
  passes.addPass(createTilePlanSchedules(schedules));
  passes.addPass(tile::createTileLoopOverPrograms());
  return succeeded(passes.run(*module));
}

bool ScheduledStep::lowerToSm90() {
  std::set<std::string> names;
  auto isLaunched = [&](tile::KernelOp kernel) {
    return plan.launches.empty() || llvm::any_of(plan.launches, [&](const auto &launch) {
             return launch.kernel == kernel.getSymName();
           });
  };
  for (auto kernel : llvm::make_filter_range(module->getOps<tile::KernelOp>(), isLaunched))
    if (auto schedule = kernel->getAttrOfType<tile::ScheduleInterface>(tile::kScheduleAttr))
      names.insert(schedule.getScheduleName().str());
  chosen = names.empty() ? "simple" : llvm::join(names, " and ");
  PassManager passes(module->getContext());
  buildTileToSm90Pipeline(passes);
  return succeeded(passes.run(*module));
}

//===----------------------------------------------------------------------===//
// Work and plan
//===----------------------------------------------------------------------===//

template <typename T> static std::vector<int32_t> flatten(std::span<const T> records) {
  const auto *first = reinterpret_cast<const int32_t *>(records.data());
  std::vector<int32_t> flat(first, first + records.size_bytes() / sizeof(int32_t));
  flat.resize(std::max<size_t>(flat.size(), 1));
  return flat;
}

void ScheduledStep::planWork(ArrayRef<Request> requests, int64_t numSms, bool isCut,
                             int64_t mostPieceTokens, const runtime::OtherMerges &others) {
  runtime::WorkParams params{};
  module->walk([&](tile::WorkOp work) {
    params = {int64_t(work.getKeysPerBlock()),
              int64_t(work.getRowsPerToken()),
              int64_t(work.getRowsPerTile()),
              isCut ? 0 : work.getItemCost().convertToDouble(),
              isCut ? 0 : work.getMergeCost().convertToDouble(),
              0};
    if (std::optional<ArrayRef<int64_t>> forms = work.getMergeForms())
      for (size_t i = 0; i < forms->size() / 3; ++i)
        params.mergeForms[i] = {(*forms)[3 * i], (*forms)[3 * i + 1], (*forms)[3 * i + 2]};
    params.mergePrograms = work.getMergePrograms().value_or(0);
    params.window = work.getWindow();
    params.runsPerToken = work.getRunsPerToken();
  });
  std::vector<runtime::WorkRequest> planned;
  std::vector<int32_t> starts = {0};
  int64_t longest = 0;
  for (const Request &request : requests) {
    planned.push_back({request.seqLen, starts.back(), request.queryLen});
    if (request.queryLen > mostPieceTokens)
      planned.back() = {};
    starts.push_back(starts.back() + request.queryLen);
    longest = std::max<int64_t>(longest, request.seqLen);
  }
  runtime::WorkPlanner planner;
  planner.plan(params, planned, numSms, /*skipped=*/0, others);
  bool hasPieces = llvm::any_of(planned, [](const auto &request) { return request.queryLen > 0; });
  runtime::WorkSizes sizes = planner.sizes();
  if (!hasPieces)
    sizes.parts = 0;
  std::vector<int32_t> seqLens;
  for (const Request &request : requests)
    seqLens.push_back(request.seqLen);
  plan.buffers["seq_lens"] = seqLens;
  plan.buffers["query_start_loc"] = starts;
  plan.buffers["item_counters"] = std::vector<int32_t>(2 + 2 * numSms, 0);
  plan.buffers["work_starts"] = flatten(planner.starts());
  plan.buffers["work_items"] = flatten(planner.items());
  plan.buffers["merge_items"] = flatten(planner.merges());
  plan.buffers["merge_starts"] = flatten(planner.mergeStarts());
  plan.dims["num_parts"] = sizes.parts;
  plan.dims["num_partials"] = sizes.partials;
  plan.dims["partial_tokens"] = sizes.partialTokens;
  plan.dims["num_merges"] = sizes.merges;
  plan.dims["num_merge_programs"] = sizes.mergePrograms;
  plan.dims["max_seq_len"] = longest;
  plan.dims["num_tokens"] = countTokens(requests);
  plan.dims["num_requests"] = requests.size();
  plan.dims["max_query_len"] = getMaxQueryLen(requests);
  plan.dims["num_sms"] = numSms;
}

/// The sizes and lists of prompts: the requests of more than `above` new tokens.
static std::vector<runtime::Prompt> setPrompts(PlanRun &plan, ArrayRef<Request> requests,
                                               int64_t above) {
  std::vector<runtime::Prompt> found;
  std::vector<int32_t> prompts, starts = {0};
  int64_t tokens = 0, longestOther = 0;
  int32_t firstToken = 0;
  for (auto [index, request] : llvm::enumerate(requests)) {
    firstToken += request.queryLen;
    if (request.queryLen <= above) {
      longestOther = std::max<int64_t>(longestOther, request.queryLen);
      continue;
    }
    found.push_back({static_cast<int32_t>(index), firstToken - request.queryLen, request.queryLen,
                     request.seqLen - request.queryLen, starts.back()});
    prompts.push_back(index);
    starts.push_back(starts.back() + request.seqLen);
    tokens += request.queryLen;
  }
  plan.dims["num_prompts"] = prompts.size();
  plan.dims["num_prompt_tokens"] = tokens;
  plan.dims["num_prompt_keys"] = starts.back();
  plan.dims["max_piece_query_len"] = longestOther;
  prompts.resize(std::max<size_t>(prompts.size(), 1));
  plan.buffers["prompt_requests"] = prompts;
  plan.buffers["prompt_key_loc"] = starts;
  return found;
}

/// As the runtime cuts them; where all that is cut `isFree`, as often as may be.
static runtime::PromptParams getPromptParams(tile::PromptsOp op, bool isFree) {
  return {int64_t(op.getAbove()),
          /*pays=*/0,
          int64_t(op.getItemsPerToken()),
          int64_t(op.getTokensPerItem()),
          int64_t(op.getKeysPerBlock()),
          isFree ? 0 : op.getItemCost().convertToDouble(),
          isFree ? 0 : op.getMergeCost().convertToDouble(),
          isFree ? 0 : op.getPartialCost().convertToDouble(),
          int64_t(op.getWindow())};
}

void ScheduledStep::planPrompts(ArrayRef<Request> requests, int64_t numSms, bool isCut,
                                bool hasFixedSizes) {
  auto planOp = *module->getOps<tile::PlanOp>().begin();
  auto prompts = planOp.getBody().getOps<tile::PromptsOp>();
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  if (prompts.empty())
    return planWork(requests, numSms, isCut);
  auto above = static_cast<int64_t>((*prompts.begin()).getAbove());
  planWork(requests, numSms, isCut);
  std::vector<runtime::Prompt> found = setPrompts(plan, requests, above);
  runtime::PromptParts parts;
  plan.buffers["prompt_parts"] = flatten(parts.parts());
  plan.dims["num_prompt_parts"] = 0;
  PlanRun trial = plan; // as if they were apart
  ASSERT_TRUE(trial.evaluate(planOp.getBody().front()));
  if (!trial.doPromptsPay || found.empty() || hasFixedSizes) {
    (void)setPrompts(plan, requests, kNone);
    return;
  }
  parts.plan(getPromptParams(*prompts.begin(), isCut), found, numSms);
  plan.buffers["prompt_parts"] = flatten(parts.parts());
  plan.dims["num_prompt_parts"] = parts.parts().size();
  planWork(requests, numSms, isCut, above, {parts.merges(), parts.partialTokens()});
}

//===----------------------------------------------------------------------===//
// Planted bugs
//===----------------------------------------------------------------------===//

unsigned ScheduledStep::countFoundMutations(const std::string &name, const std::string &output,
                                            size_t launch) {
  Buffers right = plan.buffers;
  EXPECT_FALSE(run(right, 0));
  OwningOpRef<ModuleOp> original = module->clone();
  unsigned found = 0, planted = 0;
  for (const std::string &kind : simulator::getMutations()) {
    module = original->clone();
    auto kernel = module->lookupSymbol<sm90::KernelOp>(plan.launches[launch].kernel);
    if (!simulator::mutate(kernel, kind, 0))
      continue;
    ++planted;
    std::string diagnosis;
    for (uint64_t seed = 0; seed < 4 && diagnosis.empty(); ++seed) {
      Buffers buffers = plan.buffers;
      if (auto finding = run(buffers, seed))
        diagnosis = simulator::stringify(finding->defect).str() + ": " +
                    finding->op->getName().getStringRef().str();
      else if (!haveSameBits(buffers[output], right[output]))
        diagnosis = "wrong result";
    }
    found += !diagnosis.empty();
    llvm::outs() << name << " " << kind << ": " << (diagnosis.empty() ? "not found" : diagnosis)
                 << "\n";
  }
  llvm::outs() << name << ": " << found << " of " << planted << " found\n";
  return found;
}
