//===- Numbers.h - values as bits ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The emulator keeps every value as the low bits of 64, whatever its type.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_TEST_UNIT_EMULATOR_NUMBERS_H
#define MLA_TEST_UNIT_EMULATOR_NUMBERS_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"

namespace mlac::emulator {

using mlir::Type;

inline const llvm::fltSemantics &getSemantics(Type type) {
  return mlir::cast<mlir::FloatType>(type).getFloatSemantics();
}

inline float toFloat(uint64_t bits, Type type) {
  if (type.isF32() || type.isBF16()) // the high half of an f32 is a bf16
    return llvm::bit_cast<float>(static_cast<uint32_t>(type.isF32() ? bits : bits << 16));
  llvm::APFloat value(getSemantics(type), llvm::APInt(type.getIntOrFloatBitWidth(), bits, false,
                                                      /*implicitTrunc=*/true));
  bool exact;
  value.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &exact);
  return value.convertToFloat();
}

inline uint64_t fromFloat(float number, Type type) {
  if (type.isF32())
    return llvm::bit_cast<uint32_t>(number);
  llvm::APFloat value(number);
  bool exact;
  value.convert(getSemantics(type), llvm::APFloat::rmNearestTiesToEven, &exact);
  return value.bitcastToAPInt().getZExtValue();
}

inline unsigned getWidth(Type type) {
  if (mlir::isa<mlir::LLVM::LLVMPointerType>(type) || type.isIndex())
    return 64;
  return type.getIntOrFloatBitWidth();
}

inline uint64_t truncate(uint64_t bits, Type type) {
  return bits & llvm::maskTrailingOnes<uint64_t>(getWidth(type));
}

inline int64_t extend(uint64_t bits, Type type) { return llvm::SignExtend64(bits, getWidth(type)); }

} // namespace mlac::emulator

#endif // MLA_TEST_UNIT_EMULATOR_NUMBERS_H
