//===- TileAccess.h - what an op reads or writes ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_SM90TONVVM_TILEACCESS_H
#define MLAC_LIB_CONVERSION_SM90TONVVM_TILEACCESS_H

#include "Lowering.h"

namespace mlac::sm90nvvm {

/// The rows and columns that `op` names: of pages of a pool (sm90.load_paged), of slots
/// (sm90.store_slots), of a list of rows (sm90.load_rows), or of a view from offsets on.
template <typename Op>
TileAccess getAccess(ImplicitLocOpBuilder &b, const Kernel &kernel, Op op,
                     typename KernelPattern<Op>::OneToNOpAdaptor adaptor) {
  auto viewOf = [&](Value memory, ValueRange parts) {
    return getView(b, mlir::cast<MemRefType>(memory.getType()), parts);
  };
  auto number = [&](ValueRange parts) -> Value { return toI64(b, parts[0]); };
  if constexpr (requires { op.getTable(); }) {
    View pool = viewOf(op.getPool(), adaptor.getPool());
    View table = viewOf(op.getTable(), adaptor.getTable());
    Value token = number(adaptor.getToken()), column = number(adaptor.getColumn());
    return getPagedAccess(kernel, pool, table, token, column, number(adaptor.getLimit()));
  } else if constexpr (requires { op.getSlots(); }) {
    View pool = viewOf(op.getPool(), adaptor.getPool());
    View slots = viewOf(op.getSlots(), adaptor.getSlots());
    Value first = number(adaptor.getFirst());
    return getSlotAccess(kernel, pool, slots, first, number(adaptor.getColumn()));
  } else if constexpr (requires { op.getIndices(); }) {
    View view = viewOf(op.getView(), adaptor.getView());
    View indices = viewOf(op.getIndices(), adaptor.getIndices());
    Value first = number(adaptor.getFirst());
    return getListAccess(kernel, view, indices, first, number(adaptor.getColumn()));
  } else {
    View view = viewOf(op.getView(), adaptor.getView());
    Value row = number(adaptor.getOffsets()[0]);
    return getDenseAccess(kernel, view, row, number(adaptor.getOffsets()[1]));
  }
}

} // namespace mlac::sm90nvvm

#endif // MLAC_LIB_CONVERSION_SM90TONVVM_TILEACCESS_H
