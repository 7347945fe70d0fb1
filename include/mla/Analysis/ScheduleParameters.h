//===- ScheduleParameters.h - the schedules of attention and their knobs ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a schedule of absorbed attention can be told, and what a user asked of
// it. Parameters travel as the attribute `tile.schedule` of a kernel, whose keys
// are the ones here with underscores (`left-stages` is `left_stages`).
//
//   key             schedules      meaning
//   left-stages     relay          blocks in the ring of the values' left half
//   right-stages    relay          ... right half
//   rope-stages     relay          ... rope keys
//   gate            relay          which product waits for scores or goes first
//   early           relay          panels of the scores that the gate does not wait for
//   issue           relay          where in the softmax the next scores begin
//   registers       relay          per thread: scores/values left/values right
//   lazy-threshold  all but simple log2 of how far the maximum may lag behind
//   steps-per-turn  relay          blocks in one turn of the scores' loop
//   stages          stream         blocks in the ring
//   part-columns    stream         columns of keys that one barrier announces
//   key-block       pingpong       keys of one block
//   key-stages      pingpong       blocks in the rings of keys and of values
//
//===----------------------------------------------------------------------===//

#ifndef MLA_ANALYSIS_SCHEDULEPARAMETERS_H
#define MLA_ANALYSIS_SCHEDULEPARAMETERS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mlac {

enum class ScheduleKind {
  /// One step after the other: always right.
  Simple,
  /// Rows on M; three warpgroups: scores and softmax, values' left half, right half.
  Relay,
  /// Keys on M, few rows on N, so that rows are not padded to 64.
  Stream,
  /// Two warpgroups with 64 rows each, which take turns at the tensor cores.
  PingPong,
};
/// Of attention over a paged cache, and over dense keys and values.
constexpr ScheduleKind kPagedScheduleKinds[] = {ScheduleKind::Simple, ScheduleKind::Relay,
                                                ScheduleKind::Stream};
constexpr ScheduleKind kDenseScheduleKinds[] = {ScheduleKind::Simple, ScheduleKind::PingPong};
llvm::StringRef getName(ScheduleKind kind);
std::optional<ScheduleKind> parseScheduleKind(llvm::StringRef name);

/// What a gate between the roles of relay orders. Where both roles have products,
/// the pipe is shared evenly, which delays the one that the next block waits for.
enum class GateEdge {
  None,
  /// Values' left half of block i after the scores of block i + 1 (but `early` panels).
  Left,
  /// The second part of the scores of block i + 1 after the right half of block i.
  Right,
  Both,
};
constexpr GateEdge kAllGateEdges[] = {GateEdge::None, GateEdge::Left, GateEdge::Right,
                                      GateEdge::Both};
llvm::StringRef getName(GateEdge edge);
std::optional<GateEdge> parseGateEdge(llvm::StringRef name);
inline bool gatesLeft(GateEdge edge) { return edge == GateEdge::Left || edge == GateEdge::Both; }
inline bool gatesRight(GateEdge edge) { return edge == GateEdge::Right || edge == GateEdge::Both; }

/// Where the scores' role issues the first part of the next block's scores.
enum class IssuePoint {
  BeforeSoftmax,
  AfterExponential,
  /// After the weights are stored.
  AfterStore,
};
constexpr IssuePoint kAllIssuePoints[] = {IssuePoint::BeforeSoftmax, IssuePoint::AfterExponential,
                                          IssuePoint::AfterStore};
/// What the schedule implements; the model knows the others, so that it can say
/// what they would cost.
constexpr GateEdge kRelayGates[] = {GateEdge::None, GateEdge::Left};
constexpr IssuePoint kRelayIssuePoints[] = {IssuePoint::AfterExponential};

llvm::StringRef getName(IssuePoint point);
std::optional<IssuePoint> parseIssuePoint(llvm::StringRef name);

/// The maximum that numerators refer to moves only if the new one is more than
/// 2^threshold larger. Measured: 8 gains 5 to 7% over 0 (docs/lab/decode.md).
constexpr double kLazyThreshold = 8;
/// Numerators reach 2^threshold; 2^15 is the largest power of two that f16 holds.
constexpr double kMaxLazyThreshold = 15;

/// The keys of one block of pingpong: the depth of a product, and the rows of a box
/// that TMA copies, at most.
constexpr int64_t kKeyBlockMultiple = 16, kMaxKeyBlock = 256;

struct ScheduleParameters {
  ScheduleKind kind = ScheduleKind::Simple;
  int64_t leftStages = 0, rightStages = 0, ropeStages = 0;
  GateEdge gate = GateEdge::None;
  int64_t early = 0;
  IssuePoint issue = IssuePoint::AfterExponential;
  llvm::SmallVector<int64_t, 3> registers;
  double lazyThreshold = kLazyThreshold;
  int64_t stepsPerTurn = 0; ///< 0: the schedule's own
  int64_t stages = 0;
  int64_t partColumns = 0; ///< 0: the schedule's own
  int64_t keyBlock = 0, keyStages = 0;

  /// "left-stages=3", "right-stages=2", ...: the parameters that the kind has, as
  /// ScheduleRequest::set takes them.
  std::vector<std::string> list() const;
  /// "relay left-stages=3 right-stages=2 ...".
  std::string describe() const;
};

/// What a user forces; empty: the cost model's choice.
struct ScheduleRequest {
  std::optional<ScheduleKind> kind;
  std::optional<int64_t> leftStages, rightStages, ropeStages, early, stages, partColumns,
      stepsPerTurn;
  std::optional<int64_t> keyBlock, keyStages;
  std::optional<GateEdge> gate;
  std::optional<IssuePoint> issue;
  std::optional<llvm::SmallVector<int64_t, 3>> registers;
  std::optional<double> lazyThreshold;

  /// Takes one `key=value`. False: `error` names what was given and expected.
  bool set(llvm::StringRef option, std::string &error);
  /// Takes "auto" or a kind.
  bool setKind(llvm::StringRef name, std::string &error);
  /// The first forced key that schedules of this kind do not have, or "".
  llvm::StringRef findForeignKey(ScheduleKind kind) const;
  /// What of it concerns kernels that `kinds` are for: a kind that is not among them
  /// and keys that none of them has are for other kernels.
  ScheduleRequest filter(llvm::ArrayRef<ScheduleKind> kinds) const;
};

/// A request for one kernel alone, as text "kernel:kind:key=value:...".
struct KernelRequest {
  std::string kernel;
  ScheduleRequest request;
};
/// Whether a text is that of a kernel, or key=value for all.
inline bool isKernelRequest(llvm::StringRef text) { return text.split('=').first.contains(':'); }
/// Nothing: `error` names what was given and expected.
std::optional<KernelRequest> parseKernelRequest(llvm::StringRef text, std::string &error);
/// The text that asks for exactly these parameters.
std::string formatKernelRequest(llvm::StringRef kernel, const ScheduleParameters &parameters);

/// Lines "  key  meaning" for the help texts of tools.
std::string describeScheduleOptions();

} // namespace mlac

#endif // MLA_ANALYSIS_SCHEDULEPARAMETERS_H
