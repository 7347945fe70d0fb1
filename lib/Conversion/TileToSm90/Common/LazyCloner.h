//===- LazyCloner.h - clones what a value needs, where it is needed ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A role of a warp-specialised kernel computes for itself every scalar and every
// row vector that it uses. `get` clones the backward slice of a value of the
// tile kernel at the builder's insertion point; what is mapped already, be it by
// an earlier `get` or because the schedule says what stands for it, is reused.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_COMMON_LAZYCLONER_H
#define MLAC_LIB_CONVERSION_TILETOSM90_COMMON_LAZYCLONER_H

#include "Common/ScheduleBuilder.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

#include <functional>

namespace mlac {

class LazyCloner {
public:
  using TypeConversion = std::function<mlir::FailureOr<mlir::Type>(mlir::Operation *, mlir::Type)>;

  /// `isTransposed`: rows of the tile kernel's tiles are columns of their counterparts, as
  /// `convert` says.
  LazyCloner(mlir::OpBuilder &builder, TypeConversion convert, bool isTransposed = false)
      : builder(builder), convert(std::move(convert)), isTransposed(isTransposed) {}
  /// Starts with what `base` has mapped.
  LazyCloner(const LazyCloner &base, TypeConversion convert, bool isTransposed = false)
      : builder(base.builder), convert(std::move(convert)), isTransposed(isTransposed),
        mapping(base.mapping) {}

  /// The counterpart of `value`. Precondition: every op of its slice up to mapped
  /// values can be cloned by cloneElementwise; where tiles are transposed, none loads a tile or
  /// folds one.
  mlir::Value get(mlir::Value value);
  mlir::SmallVector<mlir::Value> get(mlir::ValueRange values) {
    return llvm::map_to_vector(values, [&](mlir::Value value) { return get(value); });
  }
  void map(mlir::Value from, mlir::Value to) { mapping.map(from, to); }
  void map(mlir::ValueRange from, mlir::ValueRange to) { mapping.map(from, to); }
  bool isMapped(mlir::Value value) const { return mapping.contains(value); }

  /// Forgets at its end what was mapped since: for regions, whose values do not
  /// dominate what follows, and for values with several meanings.
  class Scope {
  public:
    explicit Scope(LazyCloner &cloner) : cloner(cloner), saved(cloner.mapping) {}
    ~Scope() { cloner.mapping = std::move(saved); }

  private:
    LazyCloner &cloner;
    mlir::IRMapping saved;
  };

private:
  mlir::OpBuilder &builder;
  TypeConversion convert;
  bool isTransposed;
  mlir::IRMapping mapping;
};

} // namespace mlac

#endif // MLAC_LIB_CONVERSION_TILETOSM90_COMMON_LAZYCLONER_H
