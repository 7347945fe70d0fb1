//===- PagedKernel.h - attention of ragged queries over pages ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows of a tile are (query, head) pairs of a request, query-major, of heads that share keys:
//
//     row i      query i / run, sees keys s < seq_len − (query_len − 1 − i / run)
//
// One description, `emitAttend`, goes over a range of keys of one request. Who says which:
//
//     grid    x: tiles of query_len · run rows, of each run of heads   y: request   z: split
//             A split is an equal share of the request's blocks; without splits
//             the only share is everything.
//     items   x: the same   y: part of the step's work
//             The program goes over the pieces that the runtime gave its part
//             (tile.work). A whole request gets its final result; pieces leave
//             partials, which a second kernel merges where there are any.
//
// Ranges are counted in blocks of keys, which TMA can copy, or in keys, from the first that
// the tile sees to the last, where a window has one and where programs are cheap.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_ATTENTION_PAGEDKERNEL_H
#define MLAC_LIB_CONVERSION_MLATOTILE_ATTENTION_PAGEDKERNEL_H

#include "Plan/PagedPool.h"

namespace mlac::mla_to_tile {

class PagedKernel {
public:
  virtual ~PagedKernel() = default;
  /// A program for each request and split, or for each part of the step's work.
  mlir::LogicalResult launch();
  /// What pieces are written to; launches in front that write some of them ask for them first.
  struct Partials {
    TensorRef output, lse;
  };
  const Partials &getPartials();

protected:
  /// The rows of a token, N heads, as tiles take them: in runs of heads that share keys.
  struct Rows {
    int64_t heads, run;
    int64_t countRuns() const { return heads / run; }
    /// Heads in memory from one row of a tile to the next. Rows of several queries have one stride
    /// if their runs are of one head or of all, else 0: they are in groups (tile.load), of whole
    /// queries in each tile.
    int64_t stride;
    bool areInGroups() const { return stride == 0; }
  };
  /// What the op says.
  struct Problem {
    mlir::Operation *op;
    mlir::TypedValue<mlir::mla::BatchType> batch;
    mlir::Value numSplits; // null: none
    std::string name;      // of the kernel
    int64_t window = 0;    // 0: none
    mlir::Value longestQuery = {}; // null: the batch's
    /// Ranges of the grid are counted in keys and end where the tile's last row sees no more.
    bool countsKeys = false;
    /// Values are not columns of the keys, so that outputs are narrow and 64 rows fit on either
    /// side of a product.
    bool hasOwnValues = false;
    /// Schedules may have two tiles of half as many rows side by side, which share keys.
    bool canHaveSides = false;
    /// Where requests have one query, rows of a side at most. Without sides: of a program, whose
    /// outputs are so wide, or whose keys take so many registers, that only the side of a product
    /// that is not padded to 64 rows holds them; 0: a tile's.
    int64_t mostSideRows = 0;
    /// Without sides: rows of a request, ascending, up to each of which a kernel of its own is the
    /// faster where how many there are is not known.
    mlir::SmallVector<int64_t, 3> fewRows = {};
  };
  /// Rows of one request and a range of its keys.
  struct Work {
    mlir::Value firstToken, queryLen, seqLen;
    mlir::Value rows;        // query_len · run
    mlir::Value row;         // first of the tile, or of both sides', whose range of keys is one
    mlir::Value side;        // which one; null: the first
    mlir::Value ownRow;      // first of the side's
    mlir::Value query;       // its query, where rows are in groups
    mlir::Value run;         // of heads, which one; null: the only one
    mlir::Value first, last; // of the range, in `getUnit` keys
    mlir::Value piece;       // its place in the request; null: the grid's split says
    mlir::Value end;         // no row sees keys from here on; null: `rowLimits` say all
    mlir::SmallVector<mlir::Value, 2> tables; // the request's rows
  };
  struct Result {
    mlir::Value output, lse; // f32; no LSE unless asked for
  };

  PagedKernel(StepLowering &step, Problem problem, Rows layout, int64_t tileRows);

  /// The attention of `work`'s rows, without the epilogue.
  virtual mlir::tile::AttendOp emitAttend(KernelBuilder &b, mlir::ValueRange args,
                                          const Work &work) = 0;

  unsigned addArg(mlir::Value value);
  /// The block table of a cache's pool, by which it is in `Work::tables`. Arguments of pools come
  /// first.
  unsigned addTable(mlir::Value cache);
  mlir::Value loadQueries(KernelBuilder &b, mlir::ValueRange args, mlir::Value buffer,
                          const TensorRef &ref, const Work &work, int64_t width);
  /// Per row, the number of keys up to the last that it sees.
  mlir::Value rowLimits(KernelBuilder &b, const Work &work);
  /// Per row, the first key that it sees; null without a window.
  mlir::Value rowStarts(KernelBuilder &b, mlir::Value limits);
  /// The limits within the piece: the last block of a range in keys may go on behind it.
  mlir::Value limitsInPiece(KernelBuilder &b, mlir::Value limits, const Work &work);
  /// Whether the range is the first of its request's, of those that are merged.
  mlir::Value isFirstRange(KernelBuilder &b, mlir::ValueRange args, const Work &work);
  /// The first head of a run.
  mlir::Value firstHead(KernelBuilder &b, const Work &work) { return b.mul(work.run, layout.run); }
  int64_t getUnit() const { return isInKeys ? 1 : tileKeys; }

  StepLowering &step;
  Problem problem;
  Rows layout;
  mlir::SmallVector<mlir::Value> planArgs;
  TensorRef output;
  std::optional<TensorRef> lse;
  /// Positions in `planArgs`.
  struct {
    unsigned tokens, output, lse;
    unsigned seqLens;                                          // both
    unsigned queryStarts, splits, firstBlock;                  // grid
    unsigned workStarts, workItems, partialOutput, partialLse; // items
  } arg{};
  int64_t tileRows, tileKeys;
  /// Rows that a request has at most in the kernel under construction, where that is known.
  std::optional<int64_t> knownRows;
  bool hasOneQuery;

private:
  /// Rows of the request that a side computes: all of its tile, those of whole queries, or an equal
  /// share of a query's.
  int64_t getSideRows() const;
  /// Whether programs may have fewer rows than a tile only.
  bool hasFewRows() const { return !problem.canHaveSides && problem.mostSideRows != 0; }
  /// Rows that a program computes.
  int64_t getUsedRows() const { return sides * getSideRows(); }
  /// A view of the run's rows of `queries` queries in `buffer`, where rows of all heads are
  /// `stride` elements apart, from `offset` on; no `width`: of a vector.
  mlir::Value viewGroups(KernelBuilder &b, mlir::Value buffer, mlir::OpFoldResult offset,
                         mlir::OpFoldResult queries, int64_t stride,
                         std::optional<int64_t> width = std::nullopt);

  /// A place of the kernel for results: rows of `ref`, and their LSEs.
  struct Target {
    mlir::Value outputBuffer, lseBuffer; // the latter may be null
    TensorRef output;
    int64_t lseOffset;
    mlir::Value firstRow; // of the request's, in the buffers
  };

  // Both forms.
  mlir::Value loadOutermostHeads(KernelBuilder &b, mlir::ValueRange args, mlir::Value buffer,
                                 const TensorRef &ref, const Work &work, int64_t width);
  mlir::Value longestQuery();
  mlir::Value rowTiles();
  void placeTile(KernelBuilder &b, Work &work);
  mlir::Value firstKey(KernelBuilder &b, const Work &work, mlir::Value row);
  mlir::Value endKey(KernelBuilder &b, const Work &work);
  Result attend(KernelBuilder &b, mlir::ValueRange args, const Work &work, bool wantsLse);
  void store(KernelBuilder &b, const Work &work, const Target &target, const Result &result);

  // A program for each request and split.
  void launchGrid();
  Work loadGridWork(KernelBuilder &b, mlir::ValueRange args);
  void splitBlocks(KernelBuilder &b, mlir::ValueRange args, Work &work);
  void splitKeys(KernelBuilder &b, mlir::ValueRange args, Work &work);
  void writeGrid(KernelBuilder &b, mlir::ValueRange args, const Work &work);

  // A program for each part.
  mlir::LogicalResult launchItems();
  std::optional<int64_t> getMostRows() const;
  /// Says of the kernel under construction how many rows a request has.
  void setMostRows(KernelBuilder &b, std::optional<int64_t> rows);
  void launchVersions(llvm::ArrayRef<int64_t> fewRows);
  void launchParts(std::optional<int64_t> mostRows, bool hasSides);
  enum ItemField { kRequest, kFirstBlock, kBlocks, kSeqLen, kFirstToken, kQueryLen, kPartial };
  mlir::Value loadField(KernelBuilder &b, mlir::ValueRange args, mlir::Value item, ItemField field);
  mlir::Value seenBlocks(KernelBuilder &b, const Work &work, mlir::Value blocks);
  Work loadItem(KernelBuilder &b, mlir::ValueRange args, mlir::Value item, mlir::Value side);
  void rangeInWindow(KernelBuilder &b, mlir::Value blocks, Work &work);
  void writeItem(KernelBuilder &b, mlir::ValueRange args, mlir::Value item, mlir::Value side);
  void storeItem(KernelBuilder &b, mlir::ValueRange args, mlir::Value item, mlir::Value side,
                 const Result &result, bool isWhole);

  void findTables(KernelBuilder &b, mlir::ValueRange args, mlir::Value request, Work &work);

  /// Positions of a table's pages and of its number of columns.
  struct Table {
    unsigned pages, maxBlocks;
  };
  mlir::SmallVector<Table, 2> tables;
  std::optional<Partials> partials; // of items
  bool isOwn, isInKeys = false;
  int64_t sides = 1; // of a program
};

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_ATTENTION_PAGEDKERNEL_H
