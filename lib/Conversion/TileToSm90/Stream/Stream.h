//===- Stream.h - keys on M, streamed through one consumer ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attention with few query rows (the programs that tile-swap-operands makes):
// reading the cache is what takes time, so everything else hides under it. One
// thread of a producer warpgroup copies blocks of 64 keys by TMA into a ring of
// two stages or more and runs ahead into the next work item; one consumer
// warpgroup does the rest, block after block. N = query rows padded to 8.
//
//   producer | Q(item) K(0) K(1) | K(2)          | K(3) ...        Q(next) K(0) ...
//   memory   | ====K(0)====|====K(1)====|====K(2)====|====K(3)====|====K(0)====
//   consumer |      S: a part of K at a time as it lands
//            |             |max exp P|O += V P|free|  S ...  |max exp P|O += V P|
//
//   consumer, block i
//     Sᵀ [64, N]   += K_part · Qᵀ         a wgmma chain per part, 36 steps of 16 in all
//     mask, max over keys                 shuffles, then 4 warps through shared memory
//     Pᵀ = exp2(Sᵀ - max), to bf16        stmatrix.trans to P [N, 64]
//     last block: V rows behind the request's end are zeroed
//     Oᵀ_p [64, N] += V_pᵀ · Pᵀ           R/64 tiles, 4 steps each, A = V transposed in place
//     release the stage
//
// Estimate for R = 512, RoPE 64, N = 16 (32), in cycles of 1.98 GHz:
//
//   memory       73,728 B per block at 4.6 TB/s / 132 SMs = 17.6 B/clk      4190
//   tensor       a step reads A 2 KiB + B 32·N B of shared memory at 128 B/clk,
//                which exceeds its 8·N/16 cycles of arithmetic:
//                36 + 32 steps of 20 (24)                                   1360 (1632)
//   softmax      8 (16) elements per thread, 3 shuffles, 2 barriers, stores  400 (550)
//   rescale      R/64 tiles of N/2 registers                                  64 (128)
//   sum of the consumer's chain                                             1820 (2310)
//
// so a single consumer is busy less than 60% of the time, and of its chain only what
// follows the last part's arrival (about 1300) holds the stage. While it holds one
// stage, the other has at least 73,728 - 2310 · 17.6 = 33,000 B in flight, more than
// latency · rate = 1500 · 17.6 = 26,400 B: two stages stream at full rate. Two
// consumers would not help there until the cache is in L2.
//
// Of latents so wide that no two blocks fit, the ring's stages are panels of 64 keys by 64 columns:
// a block takes as many as it has, and the next one's follow as far as there are more. All of a
// block's are released together, behind the products of values.
//
// Where memory brings a block before one consumer ends with one, two take blocks in turns:
// StreamTurns.h. So it is with codes, which become operands in registers: StreamCodes.cpp, and of
// heads with keys and values of their own StreamHeads.cpp.
//
// In a dependent launch the producer waits for the kernels before when it first
// loads queries, the consumer before it stores: barriers, tensor maps and the work
// list, which comes from the host, are ready by then.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_STREAM_STREAM_H
#define MLAC_LIB_CONVERSION_TILETOSM90_STREAM_STREAM_H

#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"
#include "mla/Dialect/Tile/IR/TileDialect.h"

#include <string>

namespace mlac {

/// Whether the schedule takes an attention, before tile-swap-operands makes its program; in `why`
/// what stands against it.
bool canStream(mlir::tile::AttendOp attend, std::string &why);

/// Builds, before `kernel`, the sm90.kernel of the same name in the stream
/// schedule; a null op, and in `why` what does not fit, for kernels it does not
/// take. `tile.schedule` may set `stages` (2 or more) and `part_columns` (keys'
/// columns that one barrier announces, a multiple of 64). The given kernel is left
/// as it is.
mlir::sm90::KernelOp buildStreamSchedule(mlir::tile::KernelOp kernel, std::string &why);

} // namespace mlac

#endif // MLAC_LIB_CONVERSION_TILETOSM90_STREAM_STREAM_H
