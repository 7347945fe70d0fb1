//===- VectorMath.h - elementary functions on chunks ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// exp, exp2, log, log2 and the rounding of f32 to bf16, on vectors or scalars of
// f32, without a call to the C library.
//
// Relative error of exp and exp2: at most 4e-7, subnormal results included;
// results below half the smallest subnormal are 0, -inf gives 0, overflow +inf.
// Error of log and log2: at most 4e-7 relative; 0 gives -inf, negative NaN.
// NaN gives NaN everywhere.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOCPU_VECTORMATH_H
#define MLAC_LIB_CONVERSION_TILETOCPU_VECTORMATH_H

#include "Emitter.h"

namespace mlac::tile_to_cpu {

mlir::Value emitExp(Emitter &e, mlir::Value x);
mlir::Value emitExp2(Emitter &e, mlir::Value x);
mlir::Value emitLog(Emitter &e, mlir::Value x);
mlir::Value emitLog2(Emitter &e, mlir::Value x);

/// Rounds to nearest, ties to even; NaN stays NaN. LLVM would call
/// __truncsfbf2, which no image may depend on.
mlir::Value emitRoundToBf16(Emitter &e, mlir::Value x);

/// f32 to e4m3: rounds to nearest, ties to even, saturates; NaN becomes 0x7F, as on
/// the GPU. Back: exact.
mlir::Value emitRoundToE4m3(Emitter &e, mlir::Value x);
mlir::Value emitWidenE4m3(Emitter &e, mlir::Value x);

/// Any floats to f32, exactly. A vector of bf16 that a processor without them keeps from one block
/// to another is held as f32, and rounded again by __truncsfbf2: bf16 are widened as integers.
mlir::Value emitWiden(Emitter &e, mlir::Value x);

} // namespace mlac::tile_to_cpu

#endif // MLAC_LIB_CONVERSION_TILETOCPU_VECTORMATH_H
