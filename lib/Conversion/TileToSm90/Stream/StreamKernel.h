//===- StreamKernel.h - the parts of a kernel in the stream schedule ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Stream.cpp recognises the program and makes the entry; StreamProducer.cpp and
// StreamConsumer.cpp each walk the program once (StreamRole.h). The producer keeps
// of it the control flow, the scalars and the loads, the consumer everything, with
// a wait in the place of each load.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_STREAM_STREAMKERNEL_H
#define MLAC_LIB_CONVERSION_TILETOSM90_STREAM_STREAMKERNEL_H

#include "Common/PagedTiles.h"
#include "Common/RoleKernel.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlac::stream {

/// Columns of a tile of keys that one barrier of a stage announces.
struct Part {
  unsigned tile;
  int64_t column, columns;
};

/// What the schedule needs to know of a tile kernel.
struct Program : RoleProgram {
  using RoleProgram::RoleProgram;
  mlir::SmallVector<mlir::tile::LoadOp> queries; // one block's, [N, width]
  // One loop's tile.load_paged, or load_rows by a list, of [64, width].
  mlir::SmallVector<mlir::Operation *> keys;
  mlir::Operation *queriesEnd = nullptr;           // last op of the queries' block that uses them
  mlir::Operation *keysEnd = nullptr;              // the same of the keys
  mlir::SmallVector<Part> parts;
  int64_t rows = 0;    // N
  bool usesTma = true; // for keys; else all threads of the producer copy them

  mlir::Value getKeys(unsigned tile) const { return keys[tile]->getResult(0); }

  bool isKeys(mlir::Value tile) const;
  /// Whether `op` is or contains a load that the producer makes.
  bool hasLoads(mlir::Operation *op) const;
};

/// Null, and in `why` the reason, for kernels that the schedule does not take.
std::optional<Program> matchProgram(mlir::tile::KernelOp kernel, std::string &why);

/// The fragment, or the vector with an element per column, of a tile.
mlir::Type convertType(mlir::Type type);

/// What the kernel's entry provides to the roles.
struct Entry {
  mlir::Value keyRing, queryRing;
  mlir::SmallVector<PagedTiles> keyMaps; // with TMA
  mlir::SmallVector<mlir::Value> queryMaps;
  /// Shared tiles of computed operands, and scratch of reductions.
  llvm::DenseMap<mlir::Value, mlir::Value> operands;
  llvm::DenseMap<mlir::Operation *, mlir::Value> scratch;
};

/// Fills the role that `b` stands in.
void emitProducer(mlir::ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
                  const LazyCloner &cloner);
void emitConsumer(mlir::ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
                  const LazyCloner &cloner);

} // namespace mlac::stream

#endif // MLAC_LIB_CONVERSION_TILETOSM90_STREAM_STREAMKERNEL_H
