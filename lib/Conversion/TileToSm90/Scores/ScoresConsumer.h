//===- ScoresConsumer.h - products and sums of the scores schedule ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_SCORES_SCORESCONSUMER_H
#define MLAC_LIB_CONVERSION_TILETOSM90_SCORES_SCORESCONSUMER_H

#include "Stream/StreamKernel.h"

namespace mlac::scores {

/// Whether `tile` is one of codes, an operand of products.
bool isOfCodes(mlir::Value tile);

/// The products of a block of keys, in order.
mlir::SmallVector<mlir::tile::DotOp> findProducts(const stream::Program &program);

/// Fills the consumer that `b` stands in.
void emitConsumer(mlir::ImplicitLocOpBuilder &b, const stream::Program &program,
                  const stream::Entry &entry, const LazyCloner &cloner);

} // namespace mlac::scores

#endif // MLAC_LIB_CONVERSION_TILETOSM90_SCORES_SCORESCONSUMER_H
