//===- FormCost.h - what each form of the attention costs ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One attention layer can be computed in the expanded form (keys and values of
// every head are made from the latents) or in the absorbed form (the heads'
// projections move to the query and output side). This file counts what either
// costs for given lengths, and says from which number of new tokens on the
// expanded form wins (mla.md section 12).
//
//   FLOPs     2 per multiply-add, per step of the layer
//   bytes     device memory traffic per step; weights are counted once per
//             batch, everything else once per request
//   time      Σ over steps of max(FLOPs / rate, bytes / bandwidth), plus one
//             launch per step: a roofline, not a simulation
//
// Symbols: H hidden size, N heads on this rank, Lq, Lkv, P, R, V as in the
// published configurations; Sq new tokens of a request, C cached tokens,
// Skv = C + Sq; A = Sq·C + Sq(Sq+1)/2 attended pairs (causal).
//
//===----------------------------------------------------------------------===//

#ifndef MLA_ANALYSIS_FORMCOST_H
#define MLA_ANALYSIS_FORMCOST_H

#include "mla/Machine/TargetDescription.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>

namespace mlac {

/// A form of the attention together with the place of its head projections.
enum class FormVariant {
  Expanded,
  /// q_nope·W_UK and o_lat·W_UV as per-head products in the step.
  AbsorbedOnline,
  /// Both folded into the neighbouring weights.
  AbsorbedOffline,
  /// Only W_UQ·W_UK folded.
  AbsorbedHalfQuery,
  /// Only W_UV·W_O folded.
  AbsorbedHalfOutput,
};
constexpr FormVariant kAllFormVariants[] = {
    FormVariant::Expanded, FormVariant::AbsorbedOnline, FormVariant::AbsorbedOffline,
    FormVariant::AbsorbedHalfQuery, FormVariant::AbsorbedHalfOutput};
llvm::StringRef getName(FormVariant variant);

/// The dimensions of one layer on one rank.
struct LayerDims {
  int64_t hiddenSize = 0;
  int64_t numHeads = 0;
  /// 0: no query latent; the query is projected from H directly.
  int64_t qLoraRank = 0;
  int64_t kvLoraRank = 0;
  int64_t qkNopeHeadDim = 0;
  int64_t qkRopeHeadDim = 0;
  int64_t vHeadDim = 0;

  /// Width from which W_UQ and W_QR project.
  int64_t queryInputDim() const { return qLoraRank ? qLoraRank : hiddenSize; }
};

/// One batch of equal requests.
struct FormProblem {
  LayerDims dims;
  int64_t numRequests = 1;
  int64_t queryLen = 1;   // Sq
  int64_t contextLen = 0; // C
  int64_t elementBytes = 2;
  /// Bytes of one cached token (1152 for DeepSeek-V3 in bf16); 0 derives
  /// (Lkv + R) · elementBytes.
  int64_t cacheRowBytes = 0;
  /// Query rows that share one reading of the cache in the absorbed form: 64
  /// for one CTA's tile, 128 for a cluster of two.
  int64_t tileRows = 64;
  /// Share of repeated cache reads that L2 serves, in [0, 1].
  double l2HitRate = 0;
  /// Whether K = [k_nope | k_pe] is copied together before the attention.
  bool concatenatesKeys = false;

  int64_t seqLen() const { return contextLen + queryLen; }
  int64_t bytesPerCachedToken() const {
    return cacheRowBytes ? cacheRowBytes : (dims.kvLoraRank + dims.qkRopeHeadDim) * elementBytes;
  }
};

/// A = Sq·C + Sq(Sq+1)/2.
int64_t countAttendedPairs(int64_t queryLen, int64_t contextLen);

/// One step of the layer. Core steps are those that the form changes:
/// everything but the query, KV-down and output projections.
struct CostStep {
  llvm::StringRef name;
  double flops;
  double bytes;
  bool isCore;
};

struct FormCost {
  FormVariant variant;
  llvm::SmallVector<CostStep, 8> steps;

  double totalFlops() const;
  double coreFlops() const;
  double totalBytes() const;
  /// The bytes of section 12: latents, W_UK and W_UV, keys and values, queries
  /// and outputs of the attention.
  double coreBytes() const;
  double predictMicroseconds(const TargetDescription &target) const;
};

FormCost computeFormCost(const FormProblem &problem, FormVariant variant);

/// L2 hit rate of the absorbed form when the row tiles of one request run side
/// by side: only the first reading of a token comes from memory.
double estimateL2HitRate(const FormProblem &problem);

/// FLOPs per cache byte of the absorbed form at long context:
/// 2·N·Sq(2·Lkv+R) / bytes per cached token.
double computeDecodeIntensity(const FormProblem &problem);

/// Whether the expanded form needs no more FLOPs than the absorbed-online one:
/// C·Lkv(P+V) <= (2·Lkv−P−V)·A. Sums over the requests of a batch may be given.
bool isExpandedCheaper(const LayerDims &dims, int64_t contextTokens, int64_t attendedPairs);

/// Sq* = Lkv(P+V) / (2·Lkv−P−V), the number of new tokens from which on the
/// expanded form wins for every context; nothing if 2·Lkv <= P+V (never).
std::optional<double> computeCrossover(const LayerDims &dims);

/// The smallest Sq >= 1 for which the expanded form wins with this context, or
/// nothing if none does.
std::optional<int64_t> findSmallestExpandedQueryLen(const LayerDims &dims, int64_t contextLen);

} // namespace mlac

#endif // MLA_ANALYSIS_FORMCOST_H
