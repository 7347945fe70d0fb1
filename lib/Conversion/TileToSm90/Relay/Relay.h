//===- Relay.h - scores, left and right products on warpgroups ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Absorbed attention with 64 query rows per CTA. Roles follow the residency of
// accumulators: one warpgroup owns the scores and the softmax, one the left, one
// the right half of the output's columns. There is no producer warp: a thread
// of each output role refills the ring slot that its role has just freed.
//
// Block i of 64 keys; A = the scores' product with the left half of the latent,
// whose queries stay in registers; B = with the right half and RoPE:
//
//   tensor | PV-right(i) + B(i+1)       | PV-left(i)       | A(i+2)    | PV-right(i+1)
//   scores | issue B(i+1) ... wait S --+- max, exp(i+1) ---+ issue A(i+2), pack, P(i+1) -> full
//   right  | P full: O += P V_r; free slot, refill         .  await P(i+1)
//   left   | ... await gate (part of B(i+1) done)| O += P V_l; free slot, refill
//
// The gate keeps the tensor cores busy during softmax(i+1): they still have
// PV-left(i) then. And the right slots, of which there are fewer, free first.
//
//   ring     stages  tile                 filled by     freed by
//   left     3       64 x R/2             left (TMA)    left; the queries: scores
//   right    2       64 x R/2             right (TMA)   right
//   rope     2       64 x 64              right (TMA)   scores
//   queries  1       64 x R/2, 64 x 64    scores (TMA)  scores
//   weights  1       64 x 64, 64 factors  scores        left and right
//   scale    1       64 per row vector    scores        left and right
//   gate     1       -                    scores        - (kept apart by weights)
//
// The left half of the queries travels through the left ring as entry 0 of each
// item and stays in registers, which pays for the third left slot.
//
// Where pages are too small for TMA, all threads of an output role copy the rows
// (and the left one the queries of entry 0): left, right and rope are filled by 128
// arrivals, in one part, and rows behind the request's end are zeros.
//
// Where the latent is stored as codes, the scores' role turns them into operands in its registers
// and multiplies them there, keys in the place of rows: S^T = K Q^T, 64 columns at a time. What it
// has multiplied it stores for the values' products, so that keys are written once and never read
// back for scores (RelayKeys.cpp). All of the queries stay in their ring. Output roles bring codes
// in place of keys (RelayCodes.cpp):
//
//   ring         stages  tile               filled by            freed by
//   left codes   1       64 x R/2 codes     left                 scores, panel by panel
//   right codes  1       64 x R/2, RoPE     right                scores, panel by panel
//   left         2       64 x R/2           scores               left
//   right        1       64 x R/2           scores               right
//   rope         2       64 x 64            right; none of codes scores
//   queries      1       64 x R, 64 x 64    scores (TMA)         scores
//
//   tensor | S(i+1) and PV-right(i)                               | PV-left(i)                 |
//   S(i+2) scores | RoPE, codes -> registers -> S(i+1), slots; wait S    | max moved?, exp, P(i+1)
//   | left   | left codes(i+2) as those of i+1 are read ... gate    | PV(i) | free slot right  |
//   PV(i) | free slot | codes(i+2) as those are read     | await P(i+1)
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_RELAY_RELAY_H
#define MLAC_LIB_CONVERSION_TILETOSM90_RELAY_RELAY_H

#include "Common/AttentionLoop.h"

#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"

namespace mlac {

/// Parameters of the schedule, from the kernel's `tile.schedule` where it has them.
struct RelayOptions {
  int64_t leftStages, rightStages, ropeStages;
  /// Panels of the right half of the scores that are still to be multiplied
  /// when the gate opens; -1: no gate.
  int64_t gateEarlyPanels;
  /// Panels of the right ring that arrive together.
  int64_t rightPanelsPerPart;
  int64_t scoreRegisters, outputRegisters;
  /// Steps of the scores role in one turn of its loop: with 2 the two accumulators
  /// in flight need no copies, with 1 there is half the code.
  int64_t stepsPerTurn;
};

/// Whether the relay schedule can run `attend`; if not, `why` says what is missing.
bool canRelay(mlir::tile::AttendOp attend, std::string &why);

/// Builds, before the kernel of `attend`, the sm90.kernel of the same name in the relay
/// schedule. Precondition: canRelay. Expands `attend`.
mlir::sm90::KernelOp buildRelaySchedule(mlir::tile::AttendOp attend);

} // namespace mlac

#endif // MLAC_LIB_CONVERSION_TILETOSM90_RELAY_RELAY_H
