//===- CallMemory.cpp - nodes that make memory and write to it ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A key is often built in place: memory of its size, into whose slices its parts are copied. The
// graph says only the memory's sizes; which of them is the tokens, the copied tensors know.
//
//===----------------------------------------------------------------------===//

#include "Call.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlac::graph;
using namespace mlir;

Results Call::makeFresh(StringRef sizesName, Expr fill) {
  auto wanted = sizes(sizesName);
  if (!wanted)
    return std::nullopt;
  if (llvm::all_of(*wanted, [](const Size &size) { return size.isOne(); }))
    return give(makeTensor(Dims(wanted->size()), {fill}));
  Cell result;
  result.fresh = std::make_shared<Fresh>();
  result.fresh->sizes.assign(wanted->begin(), wanted->end());
  result.fresh->fill = fill;
  return give(result);
}

Results Call::fillLike(double value) {
  Tensor *self = tensor("self");
  if (!self)
    return std::nullopt;
  return give(makeTensor(self->dims, std::vector<Expr>(self->size(), expressions.constant(value))));
}

bool Call::settle(Cell &self, const Tensor &source) {
  if (!self.fresh || self.fresh->made)
    return true;
  Fresh &fresh = *self.fresh;
  if (source.dims.size() != fresh.sizes.size())
    return false;
  Dims dims;
  for (auto [size, dim] : llvm::zip_equal(fresh.sizes, source.dims)) {
    if (!dim.empty() && !isChannels(dim) && getSize(dim) == size)
      dims.push_back(dim);
    else if (!size.openBatch && !size.openTokens && size.fixed > 0)
      dims.push_back(makeChannels(size.fixed));
    else
      return false;
  }
  if (!isSmall(dims))
    return false;
  size_t count = 1;
  for (const Dim &dim : dims)
    count *= countChannels(dim);
  fresh.made = makeTensor(std::move(dims), std::vector<Expr>(count, fresh.fill));
  return true;
}

Results Call::write(Cell &self, const Tensor &source) {
  if (!settle(self, source))
    return fail("it writes a tensor of other dimensions");
  Tensor *target = tensor("self");
  if (!target)
    return std::nullopt;
  auto dims = broadcastDims(target->dims, source.dims);
  if (!dims || *dims != target->dims)
    return fail("it writes a tensor of other dimensions");
  std::vector<uint32_t> places = target->places;
  llvm::sort(places);
  if (target->memory->mayBeShared ||
      std::adjacent_find(places.begin(), places.end()) != places.end())
    return fail("it writes to memory that others may read");
  std::vector<Expr> values = broadcast(source, *dims).values();
  for (auto [place, value] : llvm::zip_equal(target->places, values))
    target->memory->values[place] = value;
  return give(*target);
}

/// 0, 1, 2, ... of the tokens, or of the batch, whose numbers nothing is made of.
Results Call::makePositions() {
  ignore({"dtype", "layout", "device", "pin_memory"});
  bool isWhole = number("start").value_or(0) == 0 && number("step").value_or(1) == 1;
  std::optional<int64_t> end = integer("end");
  Cell *symbol = cell("end");
  bool isTokens = end ? Size{*end} == evaluator.tokens : symbol && symbol->size == evaluator.tokens;
  bool isBatch = !isTokens && symbol && symbol->size && symbol->size == evaluator.batch &&
                 symbol->size->openBatch > 0;
  if (isWhole && isBatch)
    return give(makeTensor({Dim{Factor{Axis::Batch, evaluator.batch}}},
                           {Expr{expressions.opaque(node, 0, kOfSequences, nullptr), 0}}));
  if (isWhole && !isTokens && end == 1)
    return give(makeTensor({Dim()}, {expressions.constant(0)}));
  if (!isWhole || !isTokens)
    return fail("its numbers are not the positions of the tokens");
  return give(makeTensor({Dim{Factor{Axis::Tokens, evaluator.tokens}}}, {expressions.position()}));
}

/// A copy of `self` with `src` in a slice of it.
Results Call::scatterSlice() {
  Tensor *source = tensor("src");
  Cell *self = cell("self");
  if (!source || !self || !settle(*self, *source))
    return std::nullopt;
  Tensor *whole = tensor("self");
  int64_t rank = whole ? whole->dims.size() : 0;
  auto dim = dimension("dim", rank, 0);
  auto part = whole && dim ? sliceRange(getSize(whole->dims[*dim]), rank) : std::nullopt;
  if (!part)
    return std::nullopt;
  if (part->count < 0)
    return give(copyTensor(*source));
  if (!isChannels(whole->dims[*dim]))
    return fail("it writes a part of the batch or the tokens");
  Tensor result = copyTensor(*whole);
  Tensor target = slice(result, *dim, part->start, part->count, part->step);
  auto dims = broadcastDims(target.dims, source->dims);
  if (!dims || *dims != target.dims)
    return std::nullopt;
  std::vector<Expr> values = broadcast(*source, *dims).values();
  for (auto [place, value] : llvm::zip_equal(target.places, values))
    result.memory->values[place] = value;
  return give(result);
}

Results Call::evaluateMemory(StringRef name, bool &isKnown) {
  isKnown = true;
  if (name.contains("empty") || name.contains("zeros") || name.contains("ones") ||
      name.contains("full") || name == "scalar_tensor") {
    get("self"); // of a new tensor only its type and, of some, its sizes
    ignore({"dtype", "layout", "device", "pin_memory", "memory_format"});
  }
  if (name == "arange")
    return makePositions();
  if (name == "new_empty" || name == "empty")
    return makeFresh("size", expressions.undefined());
  if (name == "new_zeros" || name == "zeros")
    return makeFresh("size", expressions.constant(0));
  if (name == "new_ones" || name == "ones")
    return makeFresh("size", expressions.constant(1));
  if ((name == "new_full" || name == "full") && number("fill_value"))
    return makeFresh("size", expressions.constant(*number("fill_value")));
  if (name == "scalar_tensor" && number("s"))
    return give(makeTensor({}, {expressions.constant(*number("s"))}));
  if (name == "zeros_like" || name == "ones_like")
    return fillLike(name == "ones_like");
  if (name == "full_like" && number("fill_value"))
    return fillLike(*number("fill_value"));
  if (name == "copy_" || name == "copy")
    ignore({"non_blocking"});
  if (name == "copy_") {
    Tensor *source = tensor("src");
    return source && cell("self") ? write(*cell("self"), *source) : std::nullopt;
  }
  if (name == "copy") {
    Tensor *source = tensor("src");
    return source && cell("self") ? give(copyTensor(*source)) : std::nullopt;
  }
  if (name == "slice_scatter")
    return scatterSlice();
  isKnown = false;
  return std::nullopt;
}
