//===- Layout.h - where a recorded tensor's numbers lie ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tensor's dimension is a list of factors: the requests of the batch, the tokens, the keys, or
// channels (heads and the like), which are all written out. What a graph does to batch and
// tokens is only followed: every number stands for that of all of them. Views share memory, so
// that what is written into a slice is seen through the tensor that it is one of.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_LIB_IMPORT_GRAPH_LAYOUT_H
#define MLA_LIB_IMPORT_GRAPH_LAYOUT_H

#include "Expressions.h"

#include "llvm/ADT/SmallVector.h"

#include <memory>
#include <optional>
#include <vector>

namespace mlac::graph {

/// `KeysAndSink` are one more than the keys, whose size stands for theirs.
enum class Axis : uint8_t { Batch, Tokens, Keys, KeysAndSink, Channels };

/// A size: a number times the batch's and the tokens' where those are open.
struct Size {
  int64_t fixed = 1;
  int openBatch = 0, openTokens = 0;

  bool isOne() const { return fixed == 1 && openBatch == 0 && openTokens == 0; }
  bool operator==(const Size &) const = default;
  /// 0 where the number would not fit, which nothing divides.
  Size operator*(const Size &other) const;
  /// None where it does not divide.
  std::optional<Size> dividedBy(const Size &other) const;
};

struct Factor {
  Axis axis;
  Size size;
  bool operator==(const Factor &) const = default;
};

/// From the outermost to the innermost; none: size 1.
using Dim = llvm::SmallVector<Factor, 2>;
using Dims = llvm::SmallVector<Dim, 4>;

Size getSize(const Dim &dim);
/// Channels of one dimension.
int64_t countChannels(const Dim &dim);
bool isChannels(const Dim &dim);
/// Whether it is the batch, tokens or keys in whole.
bool isAxis(const Dim &dim, Axis axis);
Dim makeChannels(int64_t count);

/// Memory, and whether tensors may share it that are not known to.
struct Memory {
  std::vector<Expr> values;
  bool mayBeShared = false;
};

/// An array over the channels of all dimensions, row-major, of places in memory.
struct Tensor {
  Dims dims;
  std::shared_ptr<Memory> memory;
  std::vector<uint32_t> places;

  size_t size() const { return places.size(); }
  Expr operator[](size_t i) const { return memory->values[places[i]]; }
  std::vector<Expr> values() const;
  /// Channels of each dimension.
  llvm::SmallVector<int64_t, 4> shape() const;
};

/// More numbers than any row here has (a vocabulary has 2^18); bounds what a graph can cost.
inline constexpr int64_t kMaxChannels = int64_t(1) << 22;

/// Whether the dimensions can be written out.
bool isSmall(const Dims &dims);

Tensor makeTensor(Dims dims, std::vector<Expr> values);
/// The same numbers in other dimensions.
Tensor withDims(const Tensor &tensor, Dims dims);
/// The same values in memory of its own.
Tensor copyTensor(const Tensor &tensor);

/// Dimension i is `order[i]` of the tensor's.
Tensor permute(const Tensor &tensor, llvm::ArrayRef<int64_t> order);
/// Channels start, start + step, ... of a dimension of channels.
Tensor slice(const Tensor &tensor, int64_t dim, int64_t start, int64_t count, int64_t step);
/// None where tokens or batch would be taken apart. Sizes of -1 are what is left.
std::optional<Tensor> reshape(const Tensor &tensor, llvm::ArrayRef<Size> sizes);
inline constexpr Size kLeftOver{-1, 0, 0};
/// None where the dimensions do not fit each other.
std::optional<Dims> broadcastDims(const Dims &first, const Dims &second);
/// The tensor over `dims`, which broadcastDims gave.
Tensor broadcast(const Tensor &tensor, const Dims &dims);
/// A dimension so many times: all of it (`isWhole`), or each of its numbers.
std::optional<Tensor> repeatDim(const Tensor &tensor, int64_t dim, int64_t times, bool isWhole);
/// Along a dimension of channels.
std::optional<Tensor> concatenate(llvm::ArrayRef<Tensor> tensors, int64_t dim);

} // namespace mlac::graph

#endif // MLA_LIB_IMPORT_GRAPH_LAYOUT_H
