//===- Lowerings.h - launches of each mla operation ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One function per operation, one file per family. Each allocates the memory of
// the results and launches kernels that write it.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_PLAN_LOWERINGS_H
#define MLAC_LIB_CONVERSION_MLATOTILE_PLAN_LOWERINGS_H

#include "CacheFormats.h"
#include "Products/Product.h"

namespace mlac::mla_to_tile {

// Latents.cpp
mlir::LogicalResult lower(StepLowering &step, mlir::mla::LatentProjectOp op);
mlir::LogicalResult lower(StepLowering &step, mlir::mla::LatentAppendOp op);
mlir::LogicalResult lower(StepLowering &step, mlir::mla::SumPartsOp op);

// Linear.cpp
mlir::LogicalResult lower(StepLowering &step, mlir::mla::ProjectOp op);
mlir::LogicalResult lower(StepLowering &step, mlir::mla::HeadProjectOp op);
mlir::LogicalResult lower(StepLowering &step, mlir::mla::FoldQueryOp op);
mlir::LogicalResult lower(StepLowering &step, mlir::mla::FoldOutputOp op);

// CodedWeights.cpp, Requantize.cpp, CodedRows.cpp
mlir::LogicalResult lower(StepLowering &step, mlir::mla::ScaledWeightOp op);
mlir::LogicalResult lower(StepLowering &step, mlir::mla::RequantizeOp op);
mlir::LogicalResult lower(StepLowering &step, mlir::mla::CodedRowsOp op);

// RmsNorm.cpp
mlir::LogicalResult lower(StepLowering &step, mlir::mla::RmsNormOp op);
struct RmsNorm {
  TensorRef gamma, output; // gamma without a buffer: ones; output of codes has scales
  double eps, multiplier;
};
/// output[t] = multiplier · gamma · RMSNorm(input[t]) for [T, L] tensors.
void emitRmsNorm(StepLowering &step, const TensorRef &input, const RmsNorm &norm);
/// The factor of a row with this sum of squares.
mlir::Value rmsScale(KernelBuilder &b, mlir::Value squares, int64_t width, const RmsNorm &norm);

// LatentRow.cpp
/// [T, columns], each row the sum of `parts` rows, `partStride` elements apart.
struct RowSource {
  TensorRef rows;
  int64_t parts = 1, partStride = 0;
  /// Rows of a token, `tokenStride` behind those of the token before; 1: a row is a token's.
  int64_t heads = 1, tokenStride = 0;

  /// Where a row begins.
  mlir::Value base(KernelBuilder &b, mlir::Value row) const {
    if (heads == 1)
      return b.mul(row, rows.strides[0]);
    mlir::Value token = b.divNarrow(row, b.index(heads));
    mlir::Value head = b.sub(row, b.mul(token, heads));
    return b.add(b.mul(token, tokenStride), b.mul(head, rows.strides[0]));
  }
};
/// What becomes of a row besides its norm: the columns behind it go to `tail` as they
/// are, or, where `append` is given, all of it goes to the cache, and what that op keeps to
/// `latent` and `ropeKey`.
struct LatentTarget {
  std::optional<TensorRef> tail = std::nullopt;
  mlir::mla::LatentAppendOp append = {};
  std::optional<TensorRef> latent = std::nullopt, ropeKey = std::nullopt;
};
/// A row to normalise and what becomes of it; without a norm all of it goes to the target's tail.
struct LatentRows {
  RowSource source;
  std::optional<RmsNorm> norm;
  LatentTarget target;
};
/// One program for each of `rows` rows of each of `latents`; of very many rows one of a kind takes
/// several that are no parts' sums. Preconditions:
/// TileShapes::canHoldRow of the norms' widths, and of the tails'; all dense.
void emitLatentRows(StepLowering &step, mlir::Value rows, llvm::ArrayRef<LatentRows> latents);

// Rope.cpp
mlir::LogicalResult lower(StepLowering &step, mlir::mla::RopeOp op);
// CodedRope.cpp: where the result is codes
mlir::LogicalResult lowerCodedRope(StepLowering &step, mlir::mla::RopeOp op);

// RotatedRow.cpp
mlir::LogicalResult lower(StepLowering &step, mlir::mla::NormRopeOp op);
mlir::LogicalResult lower(StepLowering &step, mlir::mla::RopeAppendOp op);
/// mla.rope of rows that a program can hold, some of whose channels pass through; false: none.
bool lowerRopeByRow(StepLowering &step, mlir::mla::RopeOp op);
/// An indexer's keys and queries by rows where these are few and a program can hold them, else what
/// `many` launches.
void lowerByRow(StepLowering &step, mlir::mla::IndexAppendOp op, llvm::function_ref<void()> many);
struct IndexQueryOutputs {
  TensorRef codes, weights;
  cache::ScaleRule rule;
};
void lowerByRow(StepLowering &step, mlir::mla::IndexQueryOp op, const IndexQueryOutputs &to,
                llvm::function_ref<void()> many);

// GroupedAppend.cpp
mlir::LogicalResult lower(StepLowering &step, mlir::mla::GroupedAppendOp op);

// Cache.cpp
mlir::LogicalResult lower(StepLowering &step, mlir::mla::AppendOp op);
mlir::LogicalResult lower(StepLowering &step, mlir::mla::GatherOp op);
mlir::LogicalResult lower(StepLowering &step, mlir::mla::KeepRowsOp op);

// CopyPages.cpp
mlir::LogicalResult lower(StepLowering &step, mlir::mla::CopyPagesOp op);

// ConvertIndices.cpp
mlir::LogicalResult lower(StepLowering &step, mlir::mla::ConvertIndicesOp op);

// TopK.cpp
mlir::LogicalResult lower(StepLowering &step, mlir::mla::TopKOp op);

// MarkSelected.cpp
mlir::LogicalResult lower(StepLowering &step, mlir::mla::MarkSelectedOp op);

// Indexer/LayerNorm.cpp, Quantize.cpp, Rows/QuantizeRows.cpp, RoundMxfp4.cpp, Hadamard.cpp,
// IndexWeights.cpp, IndexRows.cpp, IndexScores.cpp
mlir::LogicalResult lower(StepLowering &step, mlir::mla::LayerNormOp op);
mlir::LogicalResult lower(StepLowering &step, mlir::mla::QuantizeOp op);
/// Rows as codes, with a scale for each `group` of columns. Where these lie in blocks of rows
/// (`inBlocks`), `scales` has their buffer alone.
struct CodedTensor {
  TensorRef codes, scales;
  int64_t group;
  std::optional<CodeScales> inBlocks = std::nullopt;
};
void emitQuantize(StepLowering &step, const TensorRef &input, const CodedTensor &to,
                  const cache::ScaleRule &rule);
/// Rows of any width with one scale each.
void emitQuantizeRows(StepLowering &step, const TensorRef &input, const CodedTensor &to,
                      const cache::ScaleRule &rule);
mlir::LogicalResult lower(StepLowering &step, mlir::mla::RoundMxfp4Op op);
mlir::LogicalResult lower(StepLowering &step, mlir::mla::HadamardOp op);
mlir::LogicalResult lower(StepLowering &step, mlir::mla::IndexWeightsOp op);
mlir::LogicalResult lower(StepLowering &step, mlir::mla::IndexAppendOp op);
mlir::LogicalResult lower(StepLowering &step, mlir::mla::IndexQueryOp op);
mlir::LogicalResult lower(StepLowering &step, mlir::mla::IndexScoresOp op);

// Compress/AddPositionBias.cpp, BiasAppend.cpp, Compress.cpp, SeenKeys.cpp
mlir::LogicalResult lower(StepLowering &step, mlir::mla::BiasAppendOp op);
mlir::LogicalResult lower(StepLowering &step, mlir::mla::AddPositionBiasOp op);
mlir::LogicalResult lower(StepLowering &step, mlir::mla::CompressOp op);
mlir::LogicalResult lower(StepLowering &step, mlir::mla::SeenKeysOp op);

// Attention/DenseAttention.cpp
mlir::LogicalResult lower(StepLowering &step, mlir::mla::ExpandedAttentionOp op);

// Attention/AbsorbedAttention.cpp
mlir::LogicalResult lower(StepLowering &step, mlir::mla::AbsorbedAttentionOp op);

// Attention/GroupedAttention.cpp
mlir::LogicalResult lower(StepLowering &step, mlir::mla::GroupedAttentionOp op);

// Attention/SparseAttention.cpp
mlir::LogicalResult lower(StepLowering &step, mlir::mla::SparseAttentionOp op);

// Merge.cpp
mlir::LogicalResult lower(StepLowering &step, mlir::mla::MergeOp op);
mlir::LogicalResult lower(StepLowering &step, mlir::mla::MergeSplitsOp op);
mlir::LogicalResult lower(StepLowering &step, mlir::mla::EmptyPartialOp op);
mlir::LogicalResult lower(StepLowering &step, mlir::mla::ConvertLseOp op);

// MergePieces.cpp
/// The pieces of the requests in several pieces (tile.work): partials
/// [partial_tokens, N, L] of the output's type, and their f32 LSEs [partial_tokens, N].
struct PieceMerge {
  mlir::Value batch;
  TensorRef partialOutput, partialLse, output;
  std::optional<TensorRef> lse;
  bool isLast; // of the step's launches
};
/// Merges them into `output`, where there are any; `user` has the plan's tile.work.
mlir::LogicalResult emitMergePartials(StepLowering &step, const PieceMerge &merge,
                                      mlir::Operation *user);

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_PLAN_LOWERINGS_H
