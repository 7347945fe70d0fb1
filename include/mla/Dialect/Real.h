//===- Real.h - a double as an attribute's parameter ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attributes are uniqued by hash, and double has none. `Real` is a double that
// compares and hashes by its bits and prints so that it parses back exactly.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_REAL_H
#define MLA_DIALECT_REAL_H

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/bit.h"

namespace mlac {

struct Real {
  double value = 0;

  Real() = default;
  Real(double value) : value(value) {}
  operator double() const { return value; }

  friend bool operator==(Real a, Real b) {
    return llvm::bit_cast<uint64_t>(a.value) == llvm::bit_cast<uint64_t>(b.value);
  }
  friend llvm::hash_code hash_value(Real real) {
    return llvm::hash_value(llvm::bit_cast<uint64_t>(real.value));
  }
  friend mlir::AsmPrinter &operator<<(mlir::AsmPrinter &printer, Real real) {
    printer.printFloat(llvm::APFloat(real.value));
    return printer;
  }
};

} // namespace mlac

template <> struct mlir::FieldParser<mlac::Real> {
  static FailureOr<mlac::Real> parse(AsmParser &parser) {
    double value;
    if (parser.parseFloat(value))
      return failure();
    return mlac::Real(value);
  }
};

#endif // MLA_DIALECT_REAL_H
