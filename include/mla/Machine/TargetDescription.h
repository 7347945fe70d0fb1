//===- TargetDescription.h - rates of the machines that are known ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What decisions by cost know of a machine: rates of its memory and of its
// multiprocessors, as measured, and numbers that measurements chose. Nothing here
// depends on MLIR or on a level of the IR, so that every level and every cost model
// may ask.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_MACHINE_TARGETDESCRIPTION_H
#define MLA_MACHINE_TARGETDESCRIPTION_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>

namespace mlac {

/// What one multiprocessor does per clock, and how long its steps take. All 0
/// where the target has none.
struct SmDescription {
  /// Dense bf16 products by wgmma.
  double tensorFlopsPerClock = 0;
  /// Bytes that wgmma, stores and copies together move in shared memory.
  double sharedBytesPerClock = 0;
  /// Bytes that copies bring from L2.
  double l2BytesPerClock = 0;
  /// Bytes that stores, or bulk copies, bring to L2 while every multiprocessor writes.
  double storeBytesPerClock = 0;
  /// From the request of a copy whose bytes are in device memory to its first byte.
  double loadLatencyCycles = 0;
  /// Between two TMA copies of one thread.
  double copyIssueCycles = 0;
  /// From one role's arrival on a barrier to the first product of another.
  double handoverCycles = 0;
  /// Softmax of 64x64 scores by one warpgroup: up to the exponentials; rounding
  /// and storing them.
  double exponentialCycles = 0;
  double packCycles = 0;
  /// 64x64 codes from shared memory to operands there, by one warpgroup of two that do so.
  double transformPanelCycles = 0;
  /// 64x64 codes from shared memory to operands in registers, beside their products.
  double turnPanelCycles = 0;
  /// Under products.
  double clockGhz = 0;
  /// An empty kernel of one wave of CTAs in a graph.
  double kernelMicroseconds = 0;
};

/// What was chosen by measuring on this machine: another has its own. Each number's
/// measurement stands at its value (TargetDescription.cpp). All 0 where the code that asks
/// is not compiled.
struct Tuning {
  /// Programs that read memory as fast as one on every multiprocessor does.
  int64_t busyPrograms = 0;
  /// Rows of a product up to which the next kernel begins early.
  int64_t earlyRows = 0;
  /// Parts that a product's depth is cut into, at most: of few rows, and of one tile of
  /// 128 rows.
  int64_t depthParts = 0, rowTileParts = 0;
  /// Row tiles of a strip of a product of many rows.
  int64_t stripTiles = 0;
  /// Stages of a product's ring, at most, and bytes that it needs in flight.
  int64_t productStages = 0, productBytesInFlight = 0;
  /// Rows of a result from which on it leaves through shared memory.
  int64_t stagedRows = 0;
  /// From so many rows on `latentRowsTogether` of them are appended by one program.
  int64_t manyLatentRows = 0, latentRowsTogether = 0;
  /// Tokens of a step up to which launches that do not wait for each other run on two streams; 0:
  /// never.
  int64_t overlapTokens = 0;
  /// The stream schedule: stages of its ring, at most, columns of keys that one barrier
  /// announces, and registers of a thread that its output may take, and all of its tiles, and those
  /// with operands of consumers that take turns.
  int64_t streamStages = 0, streamPartColumns = 0, streamOutputRegisters = 0,
          streamTileRegisters = 0, streamTurnRegisters = 0;
  /// The relay schedule: registers of a thread beside its accumulators, of the values' roles and of
  /// the scores'.
  int64_t relayValuesRegisters = 0, relayScoresRegisters = 0;
  /// The pingpong schedule: keys of a block and stages of its rings, at most, unless asked;
  /// registers of a thread beside its fragments, and of the producer's.
  int64_t pingPongKeys = 0, pingPongStages = 0, pingPongWorkingRegisters = 0,
          pingPongProducerRegisters = 0;
  /// Rows that the tiles of products of many rows are chosen for.
  llvm::ArrayRef<int64_t> productRows = {};
  /// Costs for tile.work where no schedule is planned, in blocks of 64 keys.
  double itemCost = 0, mergeCost = 0;
  /// Of lists of keys, which are split by their widths: blocks of 64 keys that a merge takes, and
  /// rows of partials that take one more (0: lists are split wherever programs are missing).
  int64_t mergeBlocks = 0, partialRowsPerBlock = 1;
  /// What absorbed attention takes of its predicted time.
  double absorbedShare = 1;
  /// Of the stream's rate, at which partials are written and read again.
  double partialShare = 1;
};

/// Rates of a machine, as measured (the table in TargetDescription.cpp cites each).
struct TargetDescription {
  llvm::StringRef name;
  /// What code for it is compiled for: "sm_90a", "cpu".
  llvm::StringRef chip;
  /// Multiprocessors, or threads on a CPU.
  int64_t numSms;
  double matmulTflops;
  double f32Tflops;
  double readGbps;
  /// Read plus write.
  double copyGbps;
  int64_t l2Bytes;
  /// Shared memory that one CTA may use; 0 where there is none.
  int64_t sharedBytes;
  /// Cost of one dependent kernel (GPU) or fork and join (CPU).
  double launchMicroseconds;
  SmDescription sm = {};
  Tuning tuning = {};

  /// Rows of an output of so many columns, on the side of products that is not padded to 64, that
  /// its registers hold (stream).
  int64_t countSwappedRows(int64_t columns) const;
  /// The same with sums, scores and the two sides of their mask, a block of keys each, beside the
  /// output.
  int64_t countSideRows(int64_t columns) const;
  /// The same of heads' codes. Those that carry sinks or capped scores have fewer.
  int64_t countCodedRows(int64_t columns, bool carryMore) const;
  /// The same of two consumers, which take turns.
  int64_t countTurnRows(int64_t columns) const;
};

/// The machine of this name ("h200", "cpu"), or nothing.
std::optional<TargetDescription> findTargetDescription(llvm::StringRef name);
llvm::ArrayRef<TargetDescription> getKnownTargets();
/// The machine that code for `chip` is planned for where nobody names one: the first
/// known one of that chip, which there must be.
const TargetDescription &getMachineOf(llvm::StringRef chip);
/// The machine that decisions by cost are made for where a module names none: the first
/// known one whose kernels are scheduled by cost.
const TargetDescription &getScheduledMachine();

} // namespace mlac

#endif // MLA_MACHINE_TARGETDESCRIPTION_H
