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
// a wait in the place of each load. Codes become operands in registers: those of latents
// StreamCodes.cpp has, those of heads StreamHeads.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_STREAM_STREAMKERNEL_H
#define MLAC_LIB_CONVERSION_TILETOSM90_STREAM_STREAMKERNEL_H

#include "Common/PagedTiles.h"
#include "Common/QueryRows.h"
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
  /// What products take of `keys`, in their order: the loads, or what codes become.
  mlir::SmallVector<mlir::Value> operands;
  /// What a term's codes are multiplied by, a tile; null for keys that are no codes.
  mlir::SmallVector<mlir::Value> scales;
  /// Of the key loop, by which codes become operands: roles have a way of their own.
  llvm::DenseSet<mlir::Operation *> transforms;
  mlir::Operation *queriesEnd = nullptr; // last op of the queries' block that uses them
  mlir::Operation *keysEnd = nullptr;    // the same of the keys
  mlir::SmallVector<Part> parts;
  int64_t rows = 0; // N
  /// The loop over tiles of queries that share keys, a consumer each; null: there is one.
  mlir::scf::ForOp sides;
  /// Loads of queries whose tiles lie one below the other, as one.
  int64_t queriesPerTile = 1;
  int64_t queryStages = 0;
  /// Of a ring whose stages are panels of 64 keys, each a part of a block; 0: they are blocks.
  int64_t slots = 0;
  bool usesTma = true; // for keys; else all threads of the producer copy them
  /// Keys and values of heads are codes.
  bool areHeadsCodes = false;
  /// That take blocks in turns, each with a state of its own.
  int64_t consumers = 1;
  /// Of codes: tiles leave no registers for two operands at a time.
  bool isTight = false;
  /// Tiles of a state that one consumer has ready for another.
  int64_t stateStages = 0;
  /// Roles divide the registers of the multiprocessor.
  bool takesAllRegisters = false;

  mlir::Value getKeys(unsigned tile) const { return keys[tile]->getResult(0); }
  /// A latent's codes.
  bool hasCodes() const { return !areHeadsCodes && !scales.empty() && scales.front(); }
  int64_t countSides() const;
  /// Consumers that have queries of their own. Of a latent's codes they share them.
  int64_t countOwners() const { return countSides() * (hasCodes() ? 1 : consumers); }
  /// Whether two consumers that take turns each store a half of an item's output.
  bool sharesOutputs() const { return hasCodes(); }
  /// Tiles of weights of a consumer: of a latent's codes with scales of rows one for each group.
  int64_t countWeights() const;
  mlir::scf::ForOp getLoop() const {
    return mlir::cast<mlir::scf::ForOp>(keys.front()->getParentOp());
  }
  /// Threads that arrive for a stage of keys.
  int32_t countFillers() const { return usesTma ? 1 : mlir::sm90::kWarpgroupThreads; }
  bool hasRope() const { return keys.size() > 1; }
  int64_t getWidth(unsigned term) const {
    return mlir::cast<mlir::RankedTensorType>(operands[term].getType()).getDimSize(1);
  }
  /// Columns of a tile of keys as it is loaded.
  int64_t getLoadWidth(unsigned load) const;
  /// The part that has a column of an operand.
  unsigned findPart(mlir::Value operand, int64_t column) const;
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
  mlir::SmallVector<QueryRows> queryMaps;
  /// Rings by which consumers that take blocks in turns give their states away; null: it does not.
  llvm::SmallVector<mlir::Value, 2> states;
  /// Shared tiles of computed operands, and scratch of reductions.
  llvm::DenseMap<mlir::Value, mlir::Value> operands;
  /// Those of weights, by groups of columns.
  llvm::SmallVector<mlir::Value> weights;
  llvm::DenseMap<mlir::Operation *, mlir::Value> scratch;
};

/// Tiles of one loop's products: fills `program.operands` and what stands beside it. "", or what
/// does not fit.
std::string findOperands(Program &program);

/// Whether an operand has no product but that of the values.
bool areOwnValues(mlir::Value operand);

/// The scalar that is the scale of all of a term's codes; null where rows have scales.
mlir::Value getOneScale(const Program &program, unsigned term);
/// The scale of the elements from a column on: one for each row, or a scalar for all; null where
/// the tile is in a form not known. Which of several groups' it is is decided bit by bit of the
/// column (ExpandAttend.cpp).
mlir::Value findScale(mlir::Value tile, int64_t column);
/// What is loaded for a group's scale: all its columns are the same one.
mlir::Operation *getScaleLoad(mlir::Value rows);

/// What the key loop carries: for each row a reference that scores are relative to, and tiles that
/// scale with it.
struct LoopState {
  unsigned reference = 0;
  llvm::SmallVector<unsigned> sums, outputs; // of weights, of weighted values
  int64_t countTiles() const { return static_cast<int64_t>(sums.size() + outputs.size()); }
};
/// Of the key loop; nothing where it carries something else.
std::optional<LoopState> findLoopState(mlir::scf::ForOp loop);

/// A ring for each consumer that takes turns, but for the first where that one stores all.
void createStates(mlir::ImplicitLocOpBuilder &b, const Program &program, Entry &entry);

mlir::Value createRing(mlir::ImplicitLocOpBuilder &b, llvm::StringRef label, int64_t stages,
                       int64_t parts, llvm::ArrayRef<mlir::sm90::SmemType> tiles, int32_t fullCount,
                       int32_t emptyCount);
mlir::Value alloc(mlir::ImplicitLocOpBuilder &b, mlir::sm90::SmemType type);
mlir::sm90::SmemType getScratchType(const Program &program);
mlir::sm90::SmemType getOperandType(const Program &program);

/// Fills the role that `b` stands in.
void emitProducer(mlir::ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
                  const LazyCloner &cloner);
/// Of the tile of queries `side`, whose own shared tiles `entry` has.
void emitConsumer(mlir::ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
                  const LazyCloner &cloner, unsigned side);
/// The one that takes block `which` of as many as there are consumers.
void emitTurnConsumer(mlir::ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
                      const LazyCloner &cloner, unsigned which);
/// Of heads' codes, that one or the only one.
void emitHeadConsumer(mlir::ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
                      const LazyCloner &cloner, unsigned which);
/// Of a latent's codes, that one.
void emitCodeConsumer(mlir::ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
                      const LazyCloner &cloner, unsigned which);

} // namespace mlac::stream

#endif // MLAC_LIB_CONVERSION_TILETOSM90_STREAM_STREAMKERNEL_H
