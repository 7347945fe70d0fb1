//===- RelayModel.h - shape, parameters and period of relay ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What fits and what it costs, known without a program. Symbols: a *panel* is 64 rows of 64
// columns, 8 KiB, one tile of shared memory.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_RELAY_RELAYMODEL_H
#define MLAC_LIB_CONVERSION_TILETOSM90_RELAY_RELAYMODEL_H

#include "mla/Analysis/ScheduleModel.h"

namespace mlac {

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

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
inline constexpr llvm::StringLiteral kGateNames[] = {"none", "left", "right", "both"};
inline bool gatesLeft(GateEdge edge) { return edge == GateEdge::Left || edge == GateEdge::Both; }
inline bool gatesRight(GateEdge edge) { return edge == GateEdge::Right || edge == GateEdge::Both; }

/// Where the scores' role issues the first part of the next block's scores.
enum class IssuePoint {
  BeforeSoftmax,
  AfterExponential,
  /// After the weights are stored.
  AfterStore,
};
inline constexpr llvm::StringLiteral kIssueNames[] = {"before-softmax", "after-exp", "after-store"};
/// What the schedule implements; the model knows the others, so that it can say
/// what they would cost.
constexpr GateEdge kRelayGates[] = {GateEdge::None, GateEdge::Left};
/// The next left keys have come when a block's exponentials are done, as operands, too.
constexpr IssuePoint kRelayIssuePoint = IssuePoint::AfterExponential;

namespace relay {
inline constexpr auto
    kLeftStages =
        makeInteger("left-stages", "blocks in the ring of the left values", 1, kMostStages),
    kRightStages =
        makeInteger("right-stages", "blocks in the ring of the right values", 1, kMostStages),
    kRopeStages = makeInteger("rope-stages", "blocks in the ring of rope keys", 1, kMostStages),
    kEarly =
        makeInteger("early", "panels of scores that the gate does not wait for", 0, kMostStages),
    kStepsPerTurn = makeInteger("steps-per-turn", "blocks in one turn of the scores' loop", 1, 2);
inline constexpr auto kGate =
    makeName<GateEdge>("gate", "what waits so that the next scores come first", kGateNames);
inline constexpr auto kIssue =
    makeName<IssuePoint>("issue", "where the next block's scores begin", kIssueNames);
inline constexpr Parameter<WarpgroupNumbers> kRegisters = {
    {"registers", "per thread of each warpgroup", ScheduleParameter::Type::Warpgroups}};
} // namespace relay

//===----------------------------------------------------------------------===//
// Shape
//===----------------------------------------------------------------------===//

/// How relay divides the panels of one block.
struct RelayShape {
  int64_t left, right, rope; // panels
  /// What the codes of one block take beside the operands, in panels of operands.
  int64_t codes;
  bool hasCodes;

  RelayShape(int64_t left, int64_t right, int64_t rope, bool hasCodes, bool hasRopeCodes);
  explicit RelayShape(const AttentionProblem &problem);
  /// Scores are made in two parts: A from `left`, B from rope and `right`.
  int64_t partA() const { return left; }
  int64_t partB() const { return right + rope; }
  /// Of the queries, not in registers.
  int64_t queryPanels() const { return (hasCodes ? left : 0) + right + rope; }
};

/// Why a latent of so many columns does not divide into two halves, or "".
std::string findHalvesFault(int64_t columns);

/// Blocks of the rings, and how the roles wait for each other.
struct RelayOrder {
  int64_t leftStages = 0, rightStages = 0, ropeStages = 0;
  GateEdge gate = GateEdge::None;
  int64_t early = 0;
  IssuePoint issue = IssuePoint::AfterExponential;

  RelayOrder() = default;
  /// The fewest blocks: one is read while another is loaded, but of right operands that are made of
  /// codes, which have come meanwhile, and of rope keys that are.
  static RelayOrder getLeast(bool hasRope, bool hasCodes, bool hasRopeCodes);
  explicit RelayOrder(const ParameterValues &values);
  void write(ParameterValues &values) const;
};

/// Warpgroups: scores and two halves of values.
inline constexpr int64_t kRelayRoles = 3;

/// Registers of a thread of each role.
struct RelayRegisters {
  int64_t scores, values;
};
/// What the launch gives (168) suits three roles: with 184 for the scores and 160 for the rest
/// ptxas spills in the latter, which hold 128 of output. Where keys are codes nothing is spilled
/// (ptxas 13.0, lists and pages of 64); the scores' role has scores, sums, two operands and the
/// codes of a third.
constexpr RelayRegisters getRelayRegisters(bool hasCodes) {
  return hasCodes ? RelayRegisters{184, 160} : RelayRegisters{168, 168};
}

/// Shared memory: one tile of weights, the queries that are not in registers, the rings, codes,
/// row vectors and barriers. Queries for part A arrive through a slot of the left ring.
int64_t countRelayBytes(const RelayShape &shape, const RelayOrder &order);

//===----------------------------------------------------------------------===//
// Period
//===----------------------------------------------------------------------===//

/// Period and overhead of relay's roles and rings, in cycles.
struct Recurrence {
  double period;
  /// Of a run of blocks beyond its number times the period.
  double fill;
};
/// Nothing if the roles wait for each other for ever.
std::optional<Recurrence> solveRelay(const AttentionProblem &problem,
                                     const TargetDescription &target, const RelayOrder &order);

/// The same run as a picture, of blocks behind those in which the roles settle.
ScheduleTimeline followRelay(const AttentionProblem &problem, const TargetDescription &target,
                             const ScheduleParameters &parameters, int64_t blocks);

//===----------------------------------------------------------------------===//
// Planning
//===----------------------------------------------------------------------===//

ScheduleCost planRelay(const AttentionProblem &problem, const TargetDescription &target,
                       const ScheduleRequest &request);
/// For relay every gate at the ring depths that fill the shared memory (the best
/// three by period), and other thresholds.
void searchRelay(PagedSearch &search, const ScheduleRequest &request);

} // namespace mlac

#endif // MLAC_LIB_CONVERSION_TILETOSM90_RELAY_RELAYMODEL_H
