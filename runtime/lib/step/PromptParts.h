//===- PromptParts.h - runs of the keys of prompts --------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program goes over the keys that some tokens of a prompt see. Few prompts have fewer programs
// than there are multiprocessors, or some that are much longer than the others. Their keys are cut
// then, into runs of a length that is the same for all prompts of a step (tile.prompts), and the
// tokens' rows are merged:
//
//   a prompt of 6 tokens behind 2, keys cut at multiples of 4, 4 tokens a part
//
//     keys      0 1 2 3 4 5 6 7      parts    keys 4 to 8, tokens 2 to 6
//     token 0   x x x                         keys 0 to 4, tokens 0 to 4
//     token 1   x x x x                       keys 0 to 4, tokens 4 to 6
//     token 2   x x x x x            merges   tokens 0 to 2 of one run
//     ...                                     tokens 2 to 6 of two
//
// A token's partials lie as many tokens apart as the prompt has, those of the first run in front.
//
// Of more programs than multiprocessors only those may be cut that fill no whole wave: a prompt
// may be two then, one behind the other, of which the second is cut.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_PROMPTPARTS_H
#define MLAC_RUNTIME_PROMPTPARTS_H

#include "package/PromptParams.h"
#include "step/WorkPlanner.h"

#include <algorithm>
#include <span>
#include <vector>

namespace mlac::runtime {

struct Prompt {
  int32_t request, firstToken, queryLen, contextLen;
  int32_t firstCopy; // its first key among those of all prompts
  int64_t seqLen() const { return int64_t(contextLen) + queryLen; }
};

/// Rows of the metadata array prompt_parts.
struct PromptPart {
  int32_t request, firstToken, tokens;
  int32_t firstPosition; // of the first token, among the request's keys
  int32_t firstKey, endKey, firstCopy;
  int32_t partial; // the first token's, or -1
  int32_t keys() const { return std::min(endKey, firstPosition + tokens) - firstKey; }
};

/// What prompts whose keys are cut take at most, and how many tokens a part of others has.
struct PromptCuts {
  int64_t parts = 0, partialTokens = 0, merges = 0, tokensPerPart = 0;
  void raise(const PromptCuts &other) {
    parts = std::max(parts, other.parts);
    partialTokens = std::max(partialTokens, other.partialTokens);
    merges = std::max(merges, other.merges);
    tokensPerPart =
        tokensPerPart ? std::min(tokensPerPart, other.tokensPerPart) : other.tokensPerPart;
  }
};
PromptCuts boundPromptCuts(const PromptParams &params, int64_t numSms);
/// Parts of all prompts of a step.
int64_t boundPromptParts(const PromptCuts &most, int64_t requests, int64_t tokens);

class PromptParts {
public:
  /// Later plans of no more prompts and tokens do not allocate.
  void reserve(const PromptCuts &most, int64_t maxRequests, int64_t maxTokens);
  void clear();
  void plan(const PromptParams &params, std::span<const Prompt> prompts, int64_t numSms);

  // Of the last plan.
  std::span<const PromptPart> parts() const { return parts_; }
  /// Partials stand in front of those of tile.work.
  std::span<const MergeItem> merges() const { return merges_; }
  int64_t partialTokens() const { return partialTokens_; }

private:
  int64_t chooseCuts(const PromptParams &params, std::span<const Prompt> prompts, int64_t numSms);
  void divide(const PromptParams &params, int64_t wholeParts);
  void emit(const PromptParams &params, const Prompt &prompt, int64_t keysPerRun);
  void emitMerges(const PromptParams &params, const Prompt &prompt, int64_t keysPerRun);

  std::vector<PromptPart> parts_;
  std::vector<MergeItem> merges_;
  std::vector<double> costs;      // of what is weighed
  std::vector<Prompt> byLength;   // all prompts
  std::vector<Prompt> whole, cut; // of which some tokens are left whole, the others cut
  int64_t partialTokens_ = 0;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_PROMPTPARTS_H
