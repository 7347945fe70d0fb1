//===- TargetDescription.cpp - rates of the machines that are known ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Machine/TargetDescription.h"

#include "mla/Machine/Sm90Limits.h"

#include "llvm/ADT/STLExtras.h"

#include <cassert>

using namespace mlac;

/// From where 132 programs of 128 rows are busy on: up to a prefill of 8192 tokens.
static constexpr int64_t kProductRows[] = {256, 512, 1024, 2048, 4096, 8192};

static constexpr Tuning kH200Tuning = {
    // With rings of 100 KB in flight each, 112 programs read as fast as 132 do.
    .busyPrograms = 112,
    // With more rows, the programs that wait beside those that work cost more than they
    // hide (docs/lab/layer.md).
    .earlyRows = 16,
    // Each part is one more row that the sum reads.
    .depthParts = 16,
    .rowTileParts = 4,
    // 132 tiles of 128x256 are then 16 by about 8, of as many rows as columns.
    .stripTiles = 16,
    // More stages than this are never full.
    .productStages = 12,
    // 1500 clk of latency at a 132nd of 4.6 TB/s and 1.98 GHz are 26.4 KB; half as much
    // again, as not every multiprocessor has a CTA.
    .productBytesInFlight = 40 * 1000,
    // Fewer are faster stored by the threads themselves than waited for.
    .stagedRows = 64,
    // Programs of one row each would no longer run at once: 16 of 128 threads on each of
    // 132 multiprocessors.
    .manyLatentRows = 2048,
    // Loads of all of them are in flight together, and a program's start and end are paid
    // for once (bench/cache, 2^15 rows of 512 + 64).
    .latentRowsTogether = 4,
    // With as many, layers with an indexer gain in graphs (1.02 to 1.13 of one stream's speed); with
    // 128, DeepSeek-V3.2's gain nothing (bench/overlap.py, docs/lab/steps.md).
    .overlapTokens = 64,
    // More are never full: two stream at full rate (Stream/Stream.h).
    .streamStages = 4,
    // Products start on a quarter of a 512-column latent, and a block costs five waits.
    .streamPartColumns = 128,
    // Of a thread's 255; scores, sums, the mask and addresses take the rest (ptxas 13.0:
    // 254 in all for 128, 72 bytes spilled for 160).
    .streamOutputRegisters = 128,
    // Of one consumer's 255 (ptxas 13.0: 252 in all for 192, 276 bytes spilled for 224), or of the
    // 240 of two that hold one operand of a latent's codes at a time.
    .streamTileRegisters = 192,
    // Of 224 or 232: the rest are vectors of rows, addresses and scalars.
    .streamTurnRegisters = 184,
    // With 128 accumulators 168 registers are clean, 160 spill and 152 serialise wgmma
    // (docs/lab/decode.md).
    .relayValuesRegisters = 40,
    // Addresses, counters and rescaling.
    .relayScoresRegisters = 32,
    // With 128 the wider of S and O of 192/128 columns are equal (FlashAttention-3 has the
    // same).
    .pingPongKeys = 128,
    // More are never full (stream measures the same).
    .pingPongStages = 4,
    // With 44 (256/256 columns, 80 keys) a thread spills 16 bytes, with 48 (64 keys) 4 where
    // attention goes on from a partial.
    .pingPongWorkingRegisters = 56,
    // With 40 the thread that copies and takes items spills 8 bytes over a chunk (ptxas 13.0,
    // 192/128 columns); what consumers get is the same from 48 to 56.
    .pingPongProducerRegisters = 56,
    .productRows = kProductRows,
    // A piece: mla.md section 13. A merge takes about 2 us, a block with 128 rows 1.4 us.
    .itemCost = 5,
    .mergeCost = 2,
    // Whole and split lists of 3, 10 and 18 blocks, 1 to 64 tokens of 16, 64 and 128 heads: of 24
    // shapes these give the faster one or one within 2 % of it (docs/lab/v4.md).
    .mergeBlocks = 4,
    .partialRowsPerBlock = 4096,
    // With 8192 shared tokens: 0.80 with 16 heads, whose tensor cores leave power for a
    // higher clock than the model's, 0.96 with 128. Between them all 21 points of
    // docs/lab/shared-prefix.md are decided for the faster form.
    .absorbedShare = 0.85,
    // What requests of 700 tokens take cut and whole is 0.029 blocks a token with 64 heads and
    // 0.067 with 128 (docs/lab/decode.md), twice what the bytes alone would be.
    .partialShare = 0.5,
};

// h200: one NVIDIA H200, 132 SMs. Measured 2026-11, medians: bf16 matmul
//   8192^3 by cuBLAS in a short burst 800 TFLOP/s (672 sustained at the power
//   limit), read-only stream 4642 GB/s, device copy 4258 GB/s (read + write),
//   a second dependent kernel inside a CUDA graph 1.9 us. Derived: f32 outside the
//   tensor cores 132 SMs · 128 lanes · 2 FLOP · 1.98 GHz = 66.9. Data sheet: L2
//   50 MB. Its multiprocessor (docs/machine-h200.md):
//   4096 FLOP/clk and 128 B/clk are the architecture's (989 TFLOP/s at 1.83 GHz;
//   32 banks of 4 bytes); the rest is measured. The split of a softmax's 650 cycles
//   into 350 and 300 is fitted: it puts the variants of the schedule in their
//   measured order. The 1000 of a panel of codes are fitted, too, to blocks of 3.2 us (one
//   scale) and 3.6 us (scales of rows) of 128 heads.
// cpu: two threads of a server core with AVX-512. Measured 2026-11: f32 matmul
//   1024^3 through MLIR's vector dialect 363 GFLOP/s, with bf16 inputs widened
//   446; sum over a 512 MB array 64 GB/s, memcpy 48 GB/s (read + write), thread
//   fork and join 18 us. L2: 2 MiB per core.
static constexpr TargetDescription kTargets[] = {
    {"h200",
     "sm_90a",
     132,
     800,
     66.9,
     4642,
     4258,
     50 << 20,
     mlir::sm90::kMaxSharedBytes,
     1.9,
     {.tensorFlopsPerClock = 4096,
      .sharedBytesPerClock = 128,
      .l2BytesPerClock = 56.5,
      .storeBytesPerClock = 16,
      .loadLatencyCycles = 2000,
      .copyIssueCycles = 85,
      .handoverCycles = 150,
      .exponentialCycles = 350,
      .packCycles = 300,
      .transformPanelCycles = 325,
      .turnPanelCycles = 228,
      .clockGhz = 1.6,
      .kernelMicroseconds = 0.65},
     kH200Tuning},
    {"cpu", "cpu", 2, 0.446, 0.363, 64, 48, 2 << 20, 0, 18},
};

llvm::ArrayRef<TargetDescription> mlac::getKnownTargets() { return kTargets; }

/// Of which a warpgroup's registers hold `columns` columns each.
static int64_t countRows(int64_t registers, int64_t columns) {
  int64_t rows = registers * mlir::sm90::kWarpgroupThreads / columns;
  return rows / mlir::sm90::kColumnGroup * mlir::sm90::kColumnGroup;
}

int64_t TargetDescription::countSwappedRows(int64_t columns) const {
  return countRows(tuning.streamOutputRegisters, columns);
}

static int64_t countRowsBesideTiles(int64_t registers, int64_t columns) {
  constexpr int64_t kTilesBeside = 4;
  return countRows(registers, columns + kTilesBeside * mlir::sm90::kTileRows);
}

int64_t TargetDescription::countSideRows(int64_t columns) const {
  return countRowsBesideTiles(tuning.streamTileRegisters, columns);
}

int64_t TargetDescription::countCodedRows(int64_t columns, bool carryMore) const {
  int64_t registers = carryMore ? tuning.streamTurnRegisters : tuning.streamTileRegisters;
  return countRowsBesideTiles(registers, columns);
}

int64_t TargetDescription::countTurnRows(int64_t columns) const {
  using namespace mlir::sm90;
  // 64 columns of a block's keys and of its values, in 16 bits.
  constexpr int64_t kOperands = 2 * kTileRows * kPanelColumns / 2 / kWarpgroupThreads;
  return countRowsBesideTiles(tuning.streamTurnRegisters - kOperands, columns);
}

std::optional<TargetDescription> mlac::findTargetDescription(llvm::StringRef name) {
  for (const TargetDescription &target : kTargets)
    if (target.name == name)
      return target;
  return std::nullopt;
}

const TargetDescription &mlac::getMachineOf(llvm::StringRef chip) {
  const auto *machine =
      llvm::find_if(kTargets, [&](const TargetDescription &target) { return target.chip == chip; });
  assert(machine != std::end(kTargets) && "no machine of this chip is described");
  return *machine;
}

const TargetDescription &mlac::getScheduledMachine() {
  const auto *machine = llvm::find_if(
      kTargets, [](const TargetDescription &target) { return target.sm.clockGhz > 0; });
  assert(machine != std::end(kTargets) && "no machine's multiprocessor is described");
  return *machine;
}
