//===- CallShapes.cpp - nodes that move numbers ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Call.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <algorithm>
#include <numeric>

using namespace mlac::graph;
using namespace mlir;

Results Call::viewAs(const Tensor &self, ArrayRef<Size> sizes) {
  return give(reshape(self, sizes), "it takes the batch or the tokens apart");
}

Results Call::flatten() {
  Tensor *self = tensor("self");
  if (!self)
    return std::nullopt;
  int64_t rank = self->dims.size();
  auto first = dimension("start_dim", rank, 0), last = dimension("end_dim", rank, -1);
  if (!first || !last || *first > *last)
    return std::nullopt;
  SmallVector<Size> sizes;
  for (int64_t dim = 0; dim < rank; ++dim) {
    Size size = getSize(self->dims[dim]);
    if (dim > *first && dim <= *last)
      sizes.back() = sizes.back() * size;
    else
      sizes.push_back(size);
  }
  return viewAs(*self, sizes);
}

Results Call::unflatten() {
  Tensor *self = tensor("self");
  int64_t rank = self ? self->dims.size() : 0;
  auto dim = dimension("dim", rank);
  auto parts = sizes("sizes");
  if (!dim || !parts)
    return std::nullopt;
  SmallVector<Size> wanted = llvm::map_to_vector(self->dims, getSize);
  wanted.erase(wanted.begin() + *dim);
  wanted.insert(wanted.begin() + *dim, parts->begin(), parts->end());
  return viewAs(*self, wanted);
}

Results Call::insertDim() {
  Tensor *self = tensor("self");
  auto dim = self ? dimension("dim", self->dims.size() + 1) : std::nullopt;
  if (!dim)
    return std::nullopt;
  Dims dims = self->dims;
  dims.insert(dims.begin() + *dim, Dim());
  return give(withDims(*self, std::move(dims)));
}

Results Call::removeDim() {
  Tensor *self = tensor("self");
  auto dim = self ? dimension("dim", self->dims.size()) : std::nullopt;
  if (!dim)
    return std::nullopt;
  Dims dims = self->dims;
  if (getSize(dims[*dim]).isOne())
    dims.erase(dims.begin() + *dim);
  return give(withDims(*self, std::move(dims)));
}

Results Call::permuteDims() {
  auto order = integers("dims");
  if (!order)
    return std::nullopt;
  int64_t rank = order->size();
  for (int64_t &dim : *order)
    dim += dim < 0 ? rank : 0;
  SmallVector<int64_t> sorted = *order;
  llvm::sort(sorted);
  for (auto [index, dim] : llvm::enumerate(sorted))
    if (dim != static_cast<int64_t>(index))
      return std::nullopt;
  Cell *self = cell("self");
  if (self && self->matrix && rank == 2) {
    Cell result = *self;
    result.isTransposed ^= order->front() == 1;
    return give(result);
  }
  Tensor *value = tensor("self");
  if (!value || static_cast<int64_t>(value->dims.size()) != rank)
    return std::nullopt;
  return give(permute(*value, *order));
}

/// The dimensions that its arguments name; without, those of a matrix, or the last two of any.
Results Call::transpose(bool areLast) {
  Cell *self = cell("self");
  if (self && self->matrix) {
    auto first = dimension("dim0", 2, 0), second = dimension("dim1", 2, 1);
    if (!first || !second)
      return std::nullopt;
    Cell result = *self;
    result.isTransposed ^= *first != *second;
    return give(result);
  }
  Tensor *value = tensor("self");
  int64_t rank = value ? value->dims.size() : 0;
  bool isT = !has("dim0");
  if (isT && !areLast && rank < 2)
    return value ? give(*value) : std::nullopt;
  auto first = dimension("dim0", rank, areLast ? -2 : 0),
       second = dimension("dim1", rank, areLast ? -1 : 1);
  if (!value || !first || !second || (isT && !areLast && rank != 2))
    return std::nullopt;
  SmallVector<int64_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[*first], order[*second]);
  return give(permute(*value, order));
}

/// Adds a dimension along which numbers are the same. Of tokens by tokens the last are keys.
static void addRepeated(Dims &dims, const Size &size, size_t rank) {
  bool isOfKeys = !dims.empty() && dims.size() + 1 == rank && isAxis(dims.back(), Axis::Tokens);
  if (size.openTokens)
    dims.push_back({Factor{isOfKeys ? Axis::Keys : Axis::Tokens, size}});
  else if (size.openBatch)
    dims.push_back({Factor{Axis::Batch, size}});
  else
    dims.push_back(makeChannels(size.fixed));
}

/// As expand, where a dimension has no other numbers to say again.
Results Call::repeat() {
  Tensor *self = tensor("self");
  auto times = sizes("repeats");
  if (!self || !times || times->size() < self->dims.size())
    return std::nullopt;
  Dims dims;
  size_t lead = times->size() - self->dims.size();
  Tensor whole = *self;
  for (auto [index, count] : llvm::enumerate(*times)) {
    if (index >= lead && !count.isOne() && !getSize(whole.dims[index - lead]).isOne()) {
      const Dim &rows = whole.dims[index - lead]; // one for each token, or written out
      if (count.openBatch || count.openTokens || count.fixed < 1 ||
          (!isAxis(rows, Axis::Tokens) && !isChannels(rows)))
        return fail("it repeats a dimension that is not of size 1");
      auto tiled = repeatDim(whole, index - lead, count.fixed, /*isWhole=*/true);
      if (!tiled)
        return fail("it makes more than 2^22 numbers of a token");
      whole = std::move(*tiled);
      count = {};
    }
    Dim dim = index < lead ? Dim() : whole.dims[index - lead];
    if (count.isOne())
      dims.push_back(dim);
    else
      addRepeated(dims, count, times->size());
  }
  if (!isSmall(dims))
    return fail("it makes more than 2^22 numbers of a token");
  return give(broadcast(whole, dims));
}

Results Call::expand() {
  ignore({"implicit"});
  Tensor *self = tensor("self");
  auto wanted = sizes("size");
  if (!self || !wanted || wanted->size() < self->dims.size())
    return std::nullopt;
  Dims dims;
  size_t lead = wanted->size() - self->dims.size();
  for (auto [index, size] : llvm::enumerate(*wanted)) {
    static const Dim kOne;
    const Dim &dim = index < lead ? kOne : self->dims[index - lead];
    if (size == kLeftOver || size == getSize(dim)) {
      dims.push_back(dim);
    } else if (!getSize(dim).isOne()) {
      return fail("it expands a dimension that is not of size 1");
    } else {
      addRepeated(dims, size, wanted->size());
    }
  }
  if (!isSmall(dims))
    return fail("it makes more than 2^22 numbers of a token");
  return give(broadcast(*self, dims));
}

/// The range of a slice of a dimension of `size`: torch clamps both ends.
std::optional<FreshSlice> Call::sliceRange(const Size &size, int64_t rank) {
  auto dim = dimension("dim", rank, 0);
  int64_t count = size.fixed;
  bool isOpen = size.openBatch || size.openTokens;
  auto start = integer("start", 0), end = integer("end", INT64_MAX), step = integer("step", 1);
  Cell *symbol = cell("end");
  if (isOpen && symbol && symbol->size == size)
    end = INT64_MAX;
  if (!dim || !start || !end || !step || *step < 1)
    return std::nullopt;
  if (isOpen) // in whole or not at all
    return *start == 0 && *end == INT64_MAX && *step == 1
               ? std::optional(FreshSlice{*dim, 0, -1, 1})
               : std::nullopt;
  auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + count : at, 0, count); };
  int64_t first = clamp(*start), last = std::max(clamp(*end), first);
  return FreshSlice{*dim, first, first < last ? 1 + (last - first - 1) / *step : 0, *step};
}

/// A view, but as values of its own: so that nothing may be written to either.
Results Call::firstToken(int64_t dim) {
  Results result = unary([&](Expr x) { return expressions.apply(Function::FirstToken, x); });
  tensor("self")->memory->mayBeShared = true;
  Tensor &first = *result->front().tensor;
  first.dims[dim] = {};
  first.memory->mayBeShared = true;
  return result;
}

Results Call::sliceDim() {
  Cell *found = cell("self");
  if (found && found->fresh && !found->fresh->made) {
    SmallVector<Size, 4> sizes = found->fresh->sizes;
    for (const FreshSlice &part : found->slices)
      sizes[part.dim] = {part.count};
    auto dim = dimension("dim", sizes.size(), 0);
    auto part = dim ? sliceRange(sizes[*dim], sizes.size()) : std::nullopt;
    if (!part)
      return std::nullopt;
    Cell result = *found;
    if (part->count >= 0 && Size{part->count} != sizes[part->dim])
      result.slices.push_back(*part);
    return give(result);
  }
  Tensor *self = tensor("self");
  int64_t rank = self ? self->dims.size() : 0;
  auto dim = dimension("dim", rank, 0);
  if (self && dim && isAxis(self->dims[*dim], Axis::KeysAndSink))
    return dropSink(*self, *dim);
  if (self && dim && isAxis(self->dims[*dim], Axis::Tokens) && integer("start", 0) == 0 &&
      integer("end") == 1 && integer("step", 1) == 1)
    return firstToken(*dim);
  auto part = self && dim ? sliceRange(getSize(self->dims[*dim]), rank) : std::nullopt;
  if (!part)
    return std::nullopt;
  if (part->count < 0 || (part->start == 0 && Size{part->count} == getSize(self->dims[*dim])))
    return give(*self);
  if (!isChannels(self->dims[*dim]) || part->count == 0)
    return fail("it takes a part of the batch or the tokens");
  return give(slice(*self, *dim, part->start, part->count, part->step));
}

Results Call::selectIndex() {
  Tensor *self = tensor("self");
  int64_t rank = self ? self->dims.size() : 0;
  auto dim = dimension("dim", rank), index = integer("index");
  if (!self || !dim || !index)
    return std::nullopt;
  if (!isChannels(self->dims[*dim]))
    return fail("it takes one of the batch or of the tokens");
  int64_t count = countChannels(self->dims[*dim]), at = *index < 0 ? *index + count : *index;
  if (at < 0 || at >= count)
    return std::nullopt;
  Tensor part = slice(*self, *dim, at, 1, 1);
  part.dims.erase(part.dims.begin() + *dim);
  return give(part);
}

/// Consecutive parts of a dimension, one for each of the node's results.
Results Call::split() {
  Tensor *self = tensor("self");
  int64_t rank = self ? self->dims.size() : 0;
  auto dim = dimension("dim", rank, 0);
  if (!self || !dim || !isChannels(self->dims[*dim]))
    return std::nullopt;
  int64_t total = countChannels(self->dims[*dim]), first = 0;
  auto parts = has("split_sizes") ? integers("split_sizes") : std::nullopt;
  if (std::optional<int64_t> each = integer("split_size"); each && *each > 0) {
    parts.emplace();
    for (int64_t at = 0; at < total; at += *each)
      parts->push_back(std::min(*each, total - at));
  }
  if (!parts || parts->size() != node->getNumResults())
    return std::nullopt;
  llvm::SmallVector<Cell, 1> results;
  for (int64_t count : *parts) {
    if (count < 1 || count > total - first)
      return std::nullopt;
    results.push_back(slice(*self, *dim, first, count, 1));
    first += count;
  }
  return first == total ? Results(std::move(results)) : std::nullopt;
}

Results Call::chunk() {
  Tensor *self = tensor("self");
  int64_t rank = self ? self->dims.size() : 0, parts = node->getNumResults();
  auto dim = dimension("dim", rank, 0);
  if (!self || !dim || !isChannels(self->dims[*dim]) || parts == 0 || integer("chunks") != parts ||
      countChannels(self->dims[*dim]) % parts != 0)
    return std::nullopt;
  int64_t count = countChannels(self->dims[*dim]) / parts;
  llvm::SmallVector<Cell, 1> results;
  for (int64_t part = 0; part < parts; ++part)
    results.push_back(slice(*self, *dim, part * count, count, 1));
  return results;
}

Results Call::unbind() {
  Tensor *self = tensor("self");
  int64_t rank = self ? self->dims.size() : 0, parts = node->getNumResults();
  auto dim = dimension("dim", rank, 0);
  if (!self || !dim || !isChannels(self->dims[*dim]) || countChannels(self->dims[*dim]) != parts)
    return std::nullopt;
  llvm::SmallVector<Cell, 1> results;
  for (int64_t at = 0; at < parts; ++at) {
    Tensor part = slice(*self, *dim, at, 1, 1);
    part.dims.erase(part.dims.begin() + *dim);
    results.push_back(part);
  }
  return results;
}

Results Call::joinTensors(bool isStack) {
  auto parts = tensors("tensors");
  if (!parts)
    return std::nullopt;
  int64_t rank = parts->front().dims.size() + isStack;
  auto dim = dimension("dim", rank, 0);
  if (!dim)
    return std::nullopt;
  if (!isStack && parts->size() == 2 && *dim + 1 == rank &&
      isAxis(parts->front().dims[*dim], Axis::Keys) &&
      static_cast<int64_t>(parts->back().dims.size()) == rank &&
      getSize(parts->back().dims[*dim]).isOne())
    return appendSink(parts->front(), parts->back());
  for (Tensor &part : *parts)
    if (isStack)
      part.dims.insert(part.dims.begin() + *dim, Dim());
  return give(concatenate(*parts, *dim),
              "it joins tensors along batch or tokens, or of other sizes");
}

/// [..., 2] of real numbers are [...] complex ones.
Results Call::pairToComplex(bool isToComplex) {
  Tensor *self = tensor("self");
  if (!self)
    return std::nullopt;
  std::vector<Expr> values = self->values(), result;
  Dims dims = self->dims;
  if (isToComplex) {
    if (dims.empty() || !isChannels(dims.back()) || countChannels(dims.back()) != 2)
      return std::nullopt;
    dims.pop_back();
    for (size_t i = 0; i < values.size(); i += 2)
      result.push_back(expressions.complex(values[i], values[i + 1]));
    return give(makeTensor(std::move(dims), std::move(result)));
  }
  dims.push_back(makeChannels(2));
  for (Expr value : values) {
    const Source &source = expressions[value];
    if (source.kind != SourceKind::Complex)
      return fail("its operand is not made of pairs");
    llvm::append_range(result, source.operands);
  }
  return give(makeTensor(std::move(dims), std::move(result)));
}

/// Numbers by their magnitude and angle.
Results Call::polar() {
  Tensor *magnitude = tensor("abs"), *angle = tensor("angle");
  if (!magnitude || !angle)
    return std::nullopt;
  return combine(*magnitude, *angle, [&](Expr x, Expr y) {
    return expressions.complex(expressions.multiply(x, expressions.apply(Function::Cos, y)),
                               expressions.multiply(x, expressions.apply(Function::Sin, y)));
  });
}

Results Call::readSize() {
  Tensor *self = tensor("self");
  auto dim = self ? dimension("dim", self->dims.size()) : std::nullopt;
  if (!dim)
    return std::nullopt;
  Cell result;
  result.size = getSize(self->dims[*dim]);
  return give(result);
}

/// Python's product of two integers, of which torch makes sizes of views.
Results Call::multiplySizes() {
  std::optional<Size> first = size(get("a")), second = size(get("b"));
  if (!first || !second)
    return std::nullopt;
  Cell result;
  result.size = *first * *second;
  return give(result);
}

static bool isNumber(Type type) {
  Type element = getElementTypeOrSelf(type);
  return isa<FloatType>(element) || (element.isInteger() && !element.isInteger(1));
}

/// The same numbers, maybe in the same memory: casts between types of real numbers, and to real
/// ones.
/// What the schema of an operator that gives the same numbers has beside them. Any other argument
/// would be of an operator that nobody knows.
static SmallVector<StringLiteral> getCastArguments(StringRef name) {
  if (name == "to")
    return {"dtype",        "layout", "device",        "pin_memory",
            "non_blocking", "copy",   "memory_format", "other"};
  if (name == "_to_copy")
    return {"dtype", "layout", "device", "pin_memory", "non_blocking", "memory_format"};
  if (name == "type_as")
    return {"other"};
  if (name == "contiguous" || name == "clone")
    return {"memory_format"};
  return {};
}

Results Call::alias(StringRef name) {
  Cell *self = cell(name);
  if (!self || node->getNumResults() != 1)
    return std::nullopt;
  Type from = node.getOperands()[cast<mlir::graph::InAttr>(get(name)).getIndex()].getType();
  Type to = node->getResult(0).getType();
  bool isOfBands = self->tensor && self->tensor->size() > 0 &&
                   llvm::all_of(self->tensor->values(),
                                [&](Expr x) { return expressions.getBand(x).has_value(); });
  if (getElementTypeOrSelf(from) != getElementTypeOrSelf(to) && !isOfBands &&
      (!isNumber(from) || !isa<FloatType>(getElementTypeOrSelf(to))))
    return getElementTypeOrSelf(to).isInteger(1) ? truthOf(*self)
                                                 : fail("it casts to a type of other numbers");
  if (self->tensor)
    self->tensor->memory->mayBeShared = true;
  return give(*self);
}

Results Call::copy() {
  Results same = alias("self");
  if (!same || !same->front().tensor)
    return same;
  return give(copyTensor(*same->front().tensor));
}

Results Call::evaluateShape(StringRef name, bool &isKnown) {
  isKnown = true;
  auto view = [&](StringRef sizesName, StringRef selfName = "self") -> Results {
    Tensor *self = tensor(selfName);
    auto wanted = sizes(sizesName);
    return self && wanted ? viewAs(*self, *wanted) : std::nullopt;
  };
  if (name == "view" || name == "_unsafe_view")
    return view("size");
  if (name == "reshape") {
    Results result = view("shape");
    if (result) // a copy in torch where it cannot be a view
      result->front().tensor->memory->mayBeShared = true;
    return result;
  }
  if (name == "dropout") {
    bool isTraining = flag("train", true), isNone = number("p") == 0.0;
    return isTraining && !isNone ? fail("dropout in training") : alias("input");
  }
  if (name == "sym_size" || name == "size")
    return readSize();
  if (name == "_operator.mul")
    return multiplySizes();
  ignore(getCastArguments(name));
  if (llvm::is_contained(
          {"to", "contiguous", "detach", "detach_", "alias", "lift_fresh_copy", "type_as"}, name))
    return alias("self");
  if (name == "clone" || name == "_to_copy")
    return copy();
  if (name == "cat" || name == "concat" || name == "stack")
    return joinTensors(name == "stack");
  if (name == "view_as_complex" || name == "view_as_real")
    return pairToComplex(name == "view_as_complex");
  if (name == "split" || name == "split_with_sizes")
    return split();
  if (name == "mT")
    return transpose(/*areLast=*/true);
  if (name == "transpose" || name == "t" || name == "numpy_T" || name == "swapdims")
    return transpose(/*areLast=*/false);
  using Method = Results (Call::*)();
  Method method = llvm::StringSwitch<Method>(name)
                      .Case("polar", &Call::polar)
                      .Case("flatten", &Call::flatten)
                      .Case("unflatten", &Call::unflatten)
                      .Case("unsqueeze", &Call::insertDim)
                      .Case("squeeze", &Call::removeDim)
                      .Case("permute", &Call::permuteDims)
                      .Case("expand", &Call::expand)
                      .Case("repeat", &Call::repeat)
                      .Case("slice", &Call::sliceDim)
                      .Case("select", &Call::selectIndex)
                      .Case("chunk", &Call::chunk)
                      .Case("unbind", &Call::unbind)
                      .Default(nullptr);
  isKnown = method != nullptr;
  return method ? (this->*method)() : std::nullopt;
}
