//===- Layout.cpp - where a recorded tensor's numbers lie ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Layout.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlac::graph;
using llvm::ArrayRef;
using llvm::SmallVector;

Size Size::operator*(const Size &other) const {
  int64_t product = 0;
  bool isTooLarge = llvm::MulOverflow(fixed, other.fixed, product);
  return {isTooLarge ? 0 : product, openBatch + other.openBatch, openTokens + other.openTokens};
}

std::optional<Size> Size::dividedBy(const Size &other) const {
  if (other.fixed < 1 || fixed % other.fixed != 0 || openBatch < other.openBatch ||
      openTokens < other.openTokens)
    return std::nullopt;
  return Size{fixed / other.fixed, openBatch - other.openBatch, openTokens - other.openTokens};
}

Size mlac::graph::getSize(const Dim &dim) {
  Size size;
  for (const Factor &factor : dim)
    size = size * factor.size;
  return size;
}

int64_t mlac::graph::countChannels(const Dim &dim) {
  int64_t count = 1;
  for (const Factor &factor : dim)
    if (factor.axis == Axis::Channels)
      count *= factor.size.fixed;
  return count;
}

bool mlac::graph::isChannels(const Dim &dim) {
  return llvm::all_of(dim, [](const Factor &factor) { return factor.axis == Axis::Channels; });
}

bool mlac::graph::isAxis(const Dim &dim, Axis axis) {
  return dim.size() == 1 && dim.front().axis == axis;
}

Dim mlac::graph::makeChannels(int64_t count) {
  if (count == 1)
    return {};
  return {Factor{Axis::Channels, {count}}};
}

std::vector<Expr> Tensor::values() const {
  std::vector<Expr> result;
  result.reserve(places.size());
  for (uint32_t place : places)
    result.push_back(memory->values[place]);
  return result;
}

SmallVector<int64_t, 4> Tensor::shape() const {
  return llvm::map_to_vector<4>(dims, countChannels);
}

bool mlac::graph::isSmall(const Dims &dims) {
  int64_t count = 1;
  for (const Dim &dim : dims)
    for (const Factor &factor : dim)
      if (factor.axis == Axis::Channels) {
        if (factor.size.fixed < 1 || factor.size.fixed > kMaxChannels / count)
          return false;
        count *= factor.size.fixed;
      }
  return true;
}

//===----------------------------------------------------------------------===//
// Making
//===----------------------------------------------------------------------===//

Tensor mlac::graph::makeTensor(Dims dims, std::vector<Expr> values) {
  Tensor tensor;
  tensor.dims = std::move(dims);
  tensor.places.resize(values.size());
  std::iota(tensor.places.begin(), tensor.places.end(), 0u);
  tensor.memory = std::make_shared<Memory>();
  tensor.memory->values = std::move(values);
  return tensor;
}

Tensor mlac::graph::withDims(const Tensor &tensor, Dims dims) {
  Tensor result = tensor;
  result.dims = std::move(dims);
  return result;
}

Tensor mlac::graph::copyTensor(const Tensor &tensor) {
  return makeTensor(tensor.dims, tensor.values());
}

/// The tensor's places at `count` steps along strides: row-major over `shape`.
static std::vector<uint32_t> gather(const Tensor &tensor, ArrayRef<int64_t> shape,
                                    ArrayRef<int64_t> strides, int64_t first) {
  int64_t total = 1;
  for (int64_t size : shape)
    total *= size;
  std::vector<uint32_t> places;
  places.reserve(total);
  SmallVector<int64_t, 4> at(shape.size(), 0);
  int64_t place = first;
  for (int64_t i = 0; i < total; ++i) {
    places.push_back(tensor.places[place]);
    for (size_t dim = shape.size(); dim-- > 0;) {
      place += strides[dim];
      if (++at[dim] < shape[dim])
        break;
      place -= strides[dim] * shape[dim];
      at[dim] = 0;
    }
  }
  return places;
}

static SmallVector<int64_t, 4> getStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t, 4> strides(shape.size(), 1);
  for (size_t dim = shape.size(); dim-- > 1;)
    strides[dim - 1] = strides[dim] * shape[dim];
  return strides;
}

Tensor mlac::graph::permute(const Tensor &tensor, ArrayRef<int64_t> order) {
  SmallVector<int64_t, 4> shape = tensor.shape(), strides = getStrides(shape), toShape, toStrides;
  Tensor result;
  for (int64_t from : order) {
    result.dims.push_back(tensor.dims[from]);
    toShape.push_back(shape[from]);
    toStrides.push_back(strides[from]);
  }
  result.memory = tensor.memory;
  result.places = gather(tensor, toShape, toStrides, 0);
  return result;
}

Tensor mlac::graph::slice(const Tensor &tensor, int64_t dim, int64_t start, int64_t count,
                          int64_t step) {
  SmallVector<int64_t, 4> shape = tensor.shape(), strides = getStrides(shape);
  int64_t first = start * strides[dim];
  shape[dim] = count;
  strides[dim] *= step;
  Tensor result;
  result.dims = tensor.dims;
  result.dims[dim] = makeChannels(count);
  result.memory = tensor.memory;
  result.places = gather(tensor, shape, strides, first);
  return result;
}

//===----------------------------------------------------------------------===//
// Dimensions
//===----------------------------------------------------------------------===//

namespace {
/// Deals the factors of a tensor out to new dimensions, in order.
class FactorDealer {
public:
  explicit FactorDealer(const Dims &dims) {
    for (const Dim &dim : dims)
      llvm::append_range(left, dim);
  }
  /// A dimension of this size; none where it would take a factor apart that is no channels'.
  std::optional<Dim> take(Size size);
  /// What is left must be of size 1; it goes to the last dimension.
  bool finish(Dims &dims);

private:
  SmallVector<Factor, 8> left;
  size_t at = 0;
};
} // namespace

static void append(Dim &dim, Factor factor) {
  if (!dim.empty() && dim.back().axis == Axis::Channels && factor.axis == Axis::Channels)
    dim.back().size = dim.back().size * factor.size;
  else
    dim.push_back(factor);
}

std::optional<Dim> FactorDealer::take(Size size) {
  Dim dim;
  if (size.isOne() && at < left.size() && left[at].size.isOne()) {
    dim.push_back(left[at++]);
    return dim;
  }
  while (!size.isOne()) {
    if (at == left.size())
      return std::nullopt;
    Factor &factor = left[at];
    if (std::optional<Size> rest = size.dividedBy(factor.size)) {
      size = *rest;
      append(dim, factor);
      ++at;
      continue;
    }
    std::optional<Size> rest = factor.size.dividedBy(size);
    if (!rest || factor.axis != Axis::Channels)
      return std::nullopt;
    append(dim, {Axis::Channels, size});
    factor.size = *rest;
    size = {};
  }
  return dim;
}

bool FactorDealer::finish(Dims &dims) {
  for (; at < left.size(); ++at) {
    if (!left[at].size.isOne())
      return false;
    if (!dims.empty() && left[at].axis != Axis::Channels)
      dims.back().push_back(left[at]);
  }
  return true;
}

std::optional<Tensor> mlac::graph::reshape(const Tensor &tensor, ArrayRef<Size> sizes) {
  Size total, known;
  for (const Dim &dim : tensor.dims)
    total = total * getSize(dim);
  for (const Size &size : sizes)
    if (size != kLeftOver)
      known = known * size;
  std::optional<Size> rest = total.dividedBy(known);
  if (!rest)
    return std::nullopt;
  FactorDealer dealer(tensor.dims);
  Dims dims;
  for (const Size &size : sizes) {
    std::optional<Dim> dim = dealer.take(size == kLeftOver ? *rest : size);
    if (!dim)
      return std::nullopt;
    dims.push_back(std::move(*dim));
  }
  if (!dealer.finish(dims))
    return std::nullopt;
  return withDims(tensor, std::move(dims));
}

/// The dimension of both; an empty one, of size 1, is repeated.
static std::optional<Dim> broadcastDim(const Dim &first, const Dim &second) {
  if (first == second)
    return first;
  if (getSize(first).isOne() && (isChannels(first) || !isChannels(second)))
    return second;
  if (getSize(second).isOne())
    return first;
  if (getSize(first).isOne())
    return second;
  return std::nullopt;
}

std::optional<Dims> mlac::graph::broadcastDims(const Dims &first, const Dims &second) {
  size_t rank = std::max(first.size(), second.size());
  Dims result;
  for (size_t i = 0; i < rank; ++i) {
    static const Dim kOne;
    const Dim &a = i + first.size() < rank ? kOne : first[i + first.size() - rank];
    const Dim &b = i + second.size() < rank ? kOne : second[i + second.size() - rank];
    std::optional<Dim> dim = broadcastDim(a, b);
    if (!dim)
      return std::nullopt;
    result.push_back(std::move(*dim));
  }
  return result;
}

Tensor mlac::graph::broadcast(const Tensor &tensor, const Dims &dims) {
  SmallVector<int64_t, 4> shape = tensor.shape(), strides = getStrides(shape);
  SmallVector<int64_t, 4> toShape = llvm::map_to_vector<4>(dims, countChannels);
  SmallVector<int64_t, 4> toStrides(dims.size(), 0);
  size_t lead = dims.size() - shape.size();
  for (size_t dim = 0; dim < shape.size(); ++dim)
    toStrides[lead + dim] = shape[dim] == 1 ? 0 : strides[dim];
  Tensor result;
  result.dims = dims;
  result.memory = tensor.memory;
  result.places = gather(tensor, toShape, toStrides, 0);
  return result;
}

std::optional<Tensor> mlac::graph::repeatDim(const Tensor &tensor, int64_t dim, int64_t times,
                                             bool isWhole) {
  int64_t own = isWhole ? dim : dim + 1;
  Dims dims = tensor.dims;
  dims.insert(dims.begin() + own, Dim());
  Dims wide = dims;
  wide[own] = makeChannels(times);
  if (!isSmall(wide))
    return std::nullopt;
  Tensor repeated = copyTensor(broadcast(withDims(tensor, std::move(dims)), wide));
  SmallVector<Size> sizes = llvm::map_to_vector(tensor.dims, getSize);
  sizes[dim] = sizes[dim] * Size{times};
  return reshape(repeated, sizes);
}

std::optional<Tensor> mlac::graph::concatenate(ArrayRef<Tensor> tensors, int64_t dim) {
  Dims dims = tensors.front().dims;
  int64_t total = 0;
  for (const Tensor &tensor : tensors) {
    if (tensor.dims.size() != dims.size() || !isChannels(tensor.dims[dim]))
      return std::nullopt;
    for (size_t i = 0; i < dims.size(); ++i)
      if (static_cast<int64_t>(i) != dim && tensor.dims[i] != dims[i])
        return std::nullopt;
    total += countChannels(tensor.dims[dim]);
  }
  dims[dim] = makeChannels(total);
  if (!isSmall(dims))
    return std::nullopt;
  int64_t outer = 1, inner = 1;
  SmallVector<int64_t, 4> shape = tensors.front().shape();
  for (size_t i = 0; i < shape.size(); ++i)
    (static_cast<int64_t>(i) < dim ? outer : inner) *=
        static_cast<int64_t>(i) == dim ? 1 : shape[i];
  std::vector<Expr> values;
  values.reserve(outer * total * inner);
  for (int64_t row = 0; row < outer; ++row)
    for (const Tensor &tensor : tensors) {
      int64_t count = countChannels(tensor.dims[dim]) * inner;
      for (int64_t i = 0; i < count; ++i)
        values.push_back(tensor[row * count + i]);
    }
  return makeTensor(std::move(dims), std::move(values));
}
