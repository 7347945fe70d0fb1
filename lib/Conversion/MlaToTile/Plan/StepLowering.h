//===- StepLowering.h - one step function to one tile.plan ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns tensors (values) into buffers (memory). Every tensor of a step is a
// `TensorRef`: a buffer of the plan with a static offset and strides. Where a
// tensor lies is decided by its uses, in `StepLowering::destination`:
//
//     returned                        the output's buffer
//     yielded by scf.if               the buffer of the scf.if's result
//     only the start of a loop        the loop's buffer
//     yielded by scf.for from a merge the loop's buffer (merging is in place, and so is
//                                     attention that goes on from a partial)
//     otherwise                       a new workspace
//
// Where a value cannot be computed in place it is copied at the terminator.
// Parts of weights and activations (expand_shape, collapse_shape, extract_slice)
// are other strides on the same buffer and cost nothing.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_PLAN_STEPLOWERING_H
#define MLAC_LIB_CONVERSION_MLATOTILE_PLAN_STEPLOWERING_H

#include "Plan/KernelTable.h"

#include "mla/Dialect/Mla/IR/MlaDialect.h"
#include "mla/Dialect/Tile/Utils/KernelBuilder.h"
#include "mla/Machine/TargetDescription.h"
#include "mla/Machine/TileShapes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

#include <map>

namespace mlac::mla_to_tile {

using mlac::blockWidth;
using mlac::KernelBuilder;
using mlac::kWidthMultiple;
using mlac::MatmulTile;
using mlac::paddedWidth;
using mlac::SwappedTile;
using mlac::TileShapes;

/// By what the runtime cuts the keys of prompts (tile.prompts).
struct PromptCuts {
  int64_t itemsPerToken = 0, tokensPerItem = 0, keysPerBlock = 0, window = 0;
  double itemCost = 0, mergeCost = 0, partialCost = 0;
};

/// Scales of a matrix of codes: one for each `rows` x `columns` of it (0: all of them), row-major.
/// Activations have a dynamic number of rows.
struct CodeScales {
  mlir::Value buffer;
  int64_t rows, columns;
  int64_t matrixRows, matrixColumns;
  /// Rows of a block, whose scales of one group lie together: row r and group g have theirs at
  /// (r / blockRows * countAcross() + g) * blockRows + r % blockRows. 0: row by row.
  int64_t blockRows = 0;

  /// Scales beside each other, across the matrix.
  int64_t countAcross() const {
    return columns == 0 ? 1 : llvm::divideCeil(matrixColumns, columns);
  }
  /// Elements from a row's scale to that of the next row of its block, and of the next group.
  int64_t rowStride() const { return blockRows == 0 ? countAcross() : 1; }
  int64_t groupStride() const { return blockRows == 0 ? 1 : blockRows; }
  /// Where the scale of group 0 of `row` is.
  mlir::Value place(KernelBuilder &b, mlir::Value row) const {
    if (blockRows == 0)
      return b.mul(row, countAcross());
    mlir::Value block = b.divNarrow(row, b.index(blockRows));
    mlir::Value inBlock = b.sub(row, b.mul(block, blockRows));
    return b.add(b.mul(block, countAcross() * blockRows), inBlock);
  }
};

/// A tensor of the step as it lies in a buffer of the plan. A stride is kDynamic
/// where an inner size is.
struct TensorRef {
  mlir::Value buffer;
  int64_t offset = 0; // elements
  llvm::SmallVector<mlir::OpFoldResult> sizes = {};
  llvm::SmallVector<int64_t> strides = {}; // elements
  /// Of codes: the tensor is a part of a matrix whose scales these are.
  std::optional<CodeScales> scales = std::nullopt;

  mlir::Type element() const {
    return llvm::cast<mlir::MemRefType>(buffer.getType()).getElementType();
  }
  int64_t rank() const { return sizes.size(); }
  /// A size that must be static.
  int64_t size(int64_t dim) const;
  bool isSameMemory(const TensorRef &other) const {
    return buffer == other.buffer && offset == other.offset;
  }
};

/// How the runtime is to weigh pieces of attention (see tile.work).
struct WorkCosts {
  double item, merge; // blocks of keys
  int64_t fixedBlocks;
};

/// What whole pages are moved as: a type of the format's rows, of 16 bits where it has
/// one.
mlir::Type getPageWord(mlir::mla::CacheType type);

class StepLowering {
public:
  StepLowering(mlir::func::FuncOp func, KernelTable &kernels, const TileShapes &shapes,
               const TargetDescription &machine, const WorkCosts &costs);

  /// Builds the plan after the function. The caller erases the function.
  mlir::LogicalResult run();

  // What the lowerings of operations use.
  const TileShapes &shapes;
  const TargetDescription &machine;
  const WorkCosts &costs;
  mlir::OpBuilder &plan() { return builder; }
  mlir::Value constant(int64_t value);
  mlir::Value dim(llvm::StringRef name);
  mlir::Value metadata(llvm::StringRef name);
  /// The same of a batch, which may be a part of the step's (mla.batch_part).
  mlir::Value dim(mlir::Value batch, llvm::StringRef name);
  mlir::Value metadata(mlir::Value batch, llvm::StringRef name);
  /// The same of a cache's pool.
  mlir::Value poolDim(mlir::Value cache, llvm::StringRef name);
  mlir::Value poolMetadata(mlir::Value cache, mlir::Value batch, llvm::StringRef name);
  /// Rows that the longest request has in a cache's pool.
  mlir::Value mostRows(mlir::Value cache, mlir::Value batch);
  mlir::Value ropeTable();
  /// Asks for the partition of attentions with so many rows, over the keys of a window (0: all);
  /// a plan has one.
  mlir::LogicalResult requestWork(mlir::Operation *user, int64_t rowsPerToken, int64_t rowsPerTile,
                                  int64_t runs, int64_t window);
  /// Says how its pieces are merged (tile.work), alike for all attentions.
  mlir::LogicalResult requestMerge(mlir::Operation *user, llvm::ArrayRef<int64_t> forms,
                                   int64_t programs);
  /// The first block of keys that attention over `batch` sees: 0, or behind a prefix that
  /// its requests share.
  mlir::Value firstKeyBlock(mlir::Value batch);
  mlir::Value cache(mlir::Value value) { return caches.lookup(value); }
  /// The pool of cache `value` as elements of one type.
  mlir::Value cacheMemory(mlir::Value value, mlir::Type element);
  /// The scales of the rows of a cache's pool, f32: one, or one for each field.
  mlir::Value cacheScales(mlir::Value value);
  mlir::Value scalar(mlir::Value value) { return scalars.lookup(value); }
  TensorRef lookup(mlir::Value tensor) const { return tensors.at(tensor); }
  void setView(mlir::Value tensor, TensorRef ref) { tensors[tensor] = std::move(ref); }
  void forwardCache(mlir::Value result, mlir::Value from) { caches[result] = cache(from); }
  /// Of lists of rows [T, K] the place behind the last valid entry of each part, i32 [T, parts];
  /// nothing: whoever made them did not say.
  std::optional<TensorRef> listEnds(mlir::Value rows) const {
    auto known = ends.find(rows);
    return known == ends.end() ? std::nullopt : std::optional(known->second);
  }
  void setListEnds(mlir::Value rows, TensorRef ref) { ends[rows] = std::move(ref); }

  /// Gives an operation's result its memory.
  TensorRef allocate(mlir::Value tensor);
  /// A contiguous workspace of no tensor.
  TensorRef workspace(llvm::ArrayRef<mlir::OpFoldResult> sizes, mlir::Type element);
  /// The same, with innermost rows `kRowAlignment` bytes apart, or a multiple.
  TensorRef alignedRows(llvm::ArrayRef<mlir::OpFoldResult> sizes, mlir::Type element);
  /// Whether there is memory of so many elements behind `buffer`, whatever it holds: a workspace
  /// gets it.
  bool extendBuffer(mlir::Value buffer, int64_t elements);

  /// A size of the plan as a value; arithmetic on such.
  mlir::Value value(mlir::OpFoldResult size);
  mlir::Value multiply(mlir::Value a, int64_t b);
  mlir::Value ceilDiv(mlir::Value a, int64_t b);
  /// a / b without a remainder.
  mlir::Value divide(mlir::Value a, int64_t b);

  /// Launches a kernel whose body `write` builds from its arguments.
  using WriteBody = llvm::function_ref<void(KernelBuilder &, mlir::ValueRange)>;
  /// How a launch meets its neighbours (tile.launch): a dependent one may begin when
  /// the one before says so (if that `Triggers`) or ends.
  enum class Overlap { None, Triggers, Dependent, Both };
  void launch(llvm::StringRef name, std::array<mlir::Value, 3> grid, mlir::ValueRange args,
              WriteBody write, Overlap overlap = Overlap::None);
  /// How most launches meet their neighbours: the first of a plan waits for whatever
  /// ran before, all others begin while the one before runs: as soon as its programs
  /// have, or, not `early`, as these end.
  Overlap chained(bool early = true) const;
  /// The same of a kernel that reads scalars of a buffer: a dependent one does so before it waits.
  Overlap chainedReading(mlir::Value scalars) const;
  /// Whether no kernel of the step writes what `buffer` holds.
  bool isInvariant(mlir::Value buffer) const;
  /// `few` where `rows` is at most `limit`, else `many`: decided now if `rows`
  /// is a constant, else by a condition of the plan.
  void versionByRows(mlir::Value rows, int64_t limit, llvm::function_ref<void()> few,
                     llvm::function_ref<void()> many);
  /// Once for the step: requests of more than `above` new tokens are left to kernels of their own
  /// where `pays()`, an expression of what comes with tile.prompts.
  void requestPrompts(int64_t above, const PromptCuts &cuts,
                      llvm::function_ref<mlir::Value()> pays);
  /// What runs only where `size` is above `limit`.
  void ifAbove(mlir::Value size, int64_t limit, llvm::function_ref<void()> body);
  void copy(const TensorRef &from, const TensorRef &to);

private:
  mlir::LogicalResult bindArguments();
  mlir::LogicalResult bindTensor(mlir::BlockArgument argument);
  mlir::Value bindCache(mlir::BlockArgument argument, mlir::mla::CacheType type);
  mlir::LogicalResult checkPools();
  std::string nameInPool(mlir::Value cache, llvm::StringRef name);
  mlir::Value addBuffer(mlir::tile::BufferKind kind, llvm::StringRef name, mlir::Type element,
                        llvm::ArrayRef<int64_t> shape = {}, mlir::Value elements = {});
  mlir::Value addCallers(mlir::tile::BufferKind kind, llvm::StringRef name, mlir::Value tensor);
  TensorRef contiguous(mlir::Value buffer, llvm::ArrayRef<mlir::OpFoldResult> sizes) const;
  llvm::SmallVector<mlir::OpFoldResult> sizesOf(mlir::Value tensor);
  mlir::Value dynamicRows(mlir::Value tensor);
  mlir::Value scoreColumns(mlir::mla::IndexScoresOp op);
  std::optional<TensorRef> destination(mlir::Value tensor);
  std::optional<TensorRef> returnDestination(mlir::Value tensor, unsigned index);

  mlir::LogicalResult lowerBlock(mlir::Block &block);
  mlir::LogicalResult lowerOp(mlir::Operation *op);
  mlir::LogicalResult lowerMlaOp(mlir::Operation *op);
  mlir::Value partRows(mlir::mla::PartRowsOp op);
  void lowerPartRows(mlir::mla::PartRowsOp op);
  void lowerJoinParts(mlir::mla::JoinPartsOp op);
  void lowerSharePrefix(mlir::mla::SharePrefixOp op);
  mlir::LogicalResult lowerView(mlir::Operation *op);
  mlir::LogicalResult lowerDim(mlir::tensor::DimOp op);
  mlir::LogicalResult lowerScalar(mlir::Operation *op);
  mlir::LogicalResult lowerIf(mlir::scf::IfOp op);
  mlir::LogicalResult lowerBranch(mlir::scf::IfOp op, mlir::Region &from, mlir::Block *to);
  mlir::LogicalResult lowerFor(mlir::scf::ForOp op);
  mlir::LogicalResult lowerReturn(mlir::func::ReturnOp op);
  bool makesWeights() const;
  /// What a value that leaves a region becomes.
  void assign(mlir::Value from, mlir::Value to);

  mlir::func::FuncOp func;
  KernelTable &kernels;
  mlir::OpBuilder builder;
  mlir::tile::PlanOp planOp;
  mlir::tile::WorkOp work;
  mlir::Location loc;
  mlir::Operation *lastHeader = nullptr; // dims, buffers and constants come first
  llvm::DenseMap<mlir::Value, TensorRef> tensors, ends;
  llvm::DenseMap<mlir::Value, mlir::Value> caches;
  llvm::DenseMap<mlir::Operation *, int64_t> elementsBehind; // of workspaces
  mlir::IRMapping scalars;
  llvm::StringMap<mlir::Value> dims, buffers;
  std::map<int64_t, mlir::Value> constants; // a DenseMap has no place for the least and the most
  bool hasLaunched = false; // on every path to where the builder stands
};

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_PLAN_STEPLOWERING_H
