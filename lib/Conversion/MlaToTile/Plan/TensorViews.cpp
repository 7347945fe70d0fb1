//===- TensorViews.cpp - tensors in the memory of others ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Views of a step's tensors as strides, and the kernel that copies.
//
//===----------------------------------------------------------------------===//

#include "Plan/StepLowering.h"

#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

/// The ops' verifiers read these places as 32 bits, so that some are left that no tensor has.
static LogicalResult checkGroups(Operation *op, ArrayRef<ReassociationIndices> groups,
                                 int64_t rank) {
  for (const ReassociationIndices &group : groups)
    for (int64_t dim : group)
      if (dim < 0 || dim >= rank)
        return op->emitOpError("expected dimensions below ") << rank << " in groups, got " << dim;
  return success();
}

static LogicalResult expand(tensor::ExpandShapeOp op, const TensorRef &from, TensorRef &to) {
  ArrayRef<int64_t> shape = op.getResultType().getShape();
  SmallVector<ReassociationIndices, 4> groups = op.getReassociationIndices();
  if (failed(checkGroups(op, groups, shape.size())))
    return failure();
  to.strides.assign(shape.size(), 0);
  for (auto [source, group] : llvm::enumerate(groups)) {
    int64_t stride = from.strides[source];
    for (int64_t dim : llvm::reverse(group)) {
      to.strides[dim] = stride;
      if (dim != group.front() && ShapedType::isDynamic(shape[dim]))
        return op.emitOpError("expected static sizes behind the first of a group, got ")
               << op.getResultType();
      stride *= shape[dim];
    }
  }
  return success();
}

static LogicalResult collapse(tensor::CollapseShapeOp op, const TensorRef &from, TensorRef &to) {
  ArrayRef<int64_t> shape = op.getSrcType().getShape();
  SmallVector<ReassociationIndices, 4> groups = op.getReassociationIndices();
  if (failed(checkGroups(op, groups, shape.size())))
    return failure();
  for (const ReassociationIndices &group : groups) {
    for (auto [outer, inner] : llvm::zip(group, llvm::drop_begin(group)))
      if (ShapedType::isDynamic(shape[inner]) ||
          from.strides[outer] != from.strides[inner] * shape[inner])
        return op.emitOpError("expected dimensions that lie together in memory; ")
               << outer << " and " << inner << " do not";
    to.strides.push_back(from.strides[group.back()]);
  }
  return success();
}

static LogicalResult slice(tensor::ExtractSliceOp op, const TensorRef &from, TensorRef &to) {
  to.offset = from.offset;
  llvm::SmallBitVector dropped = op.getDroppedDims();
  for (int64_t dim = 0, end = from.rank(); dim < end; ++dim) {
    int64_t offset = op.getStaticOffset(dim), step = op.getStaticStride(dim);
    if (ShapedType::isDynamic(offset) || ShapedType::isDynamic(step))
      return op.emitOpError("expected static offsets and strides");
    if (offset != 0 && ShapedType::isDynamic(from.strides[dim]))
      return op.emitOpError("expected no offset in dimension ") << dim << " of dynamic stride";
    to.offset += offset == 0 ? 0 : offset * from.strides[dim];
    if (!dropped[dim])
      to.strides.push_back(step == 1 ? from.strides[dim] : from.strides[dim] * step);
  }
  return success();
}

LogicalResult StepLowering::lowerView(Operation *op) {
  Value source = op->getOperand(0), result = op->getResult(0);
  const TensorRef from = lookup(source);
  TensorRef to{.buffer = from.buffer,
               .offset = from.offset,
               .sizes = sizesOf(result),
               .scales = from.scales};
  LogicalResult isView =
      llvm::TypeSwitch<Operation *, LogicalResult>(op)
          .Case<tensor::ExpandShapeOp>([&](auto view) { return expand(view, from, to); })
          .Case<tensor::CollapseShapeOp>([&](auto view) { return collapse(view, from, to); })
          .Case<tensor::ExtractSliceOp>([&](auto view) { return slice(view, from, to); });
  if (succeeded(isView))
    setView(result, std::move(to));
  return isView;
}

void StepLowering::lowerPartRows(mla::PartRowsOp op) {
  TensorRef rows = lookup(op.getInput());
  rows.sizes[0] = partRows(op);
  setView(op.getResult(), std::move(rows));
}

/// Prefills first: what computes them may write the decodes' rows, too.
void StepLowering::lowerJoinParts(mla::JoinPartsOp op) {
  TensorRef joined = allocate(op.getResult());
  for (Value part : {op.getPrefills(), op.getDecodes()})
    if (TensorRef source = lookup(part); !source.isSameMemory(joined))
      copy(source, joined);
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// The tensor as [batch, rows, columns]. A vector is one row.
static void padRank(OpBuilder &b, TensorRef &ref) {
  while (ref.rank() < 3) {
    ref.sizes.insert(ref.sizes.begin(), b.getIndexAttr(1));
    ref.strides.insert(ref.strides.begin(), 0);
  }
}

void StepLowering::copy(const TensorRef &from, const TensorRef &to) {
  TensorRef source = from, target = to;
  padRank(builder, source);
  padRank(builder, target);
  assert(source.rank() == 3 && "only splits have more dimensions, and they are never copied");
  Value rows = value(source.sizes[1]), columns = value(source.sizes[2]);
  std::optional<int64_t> knownColumns = getConstantIntValue(columns);
  int64_t tileRows = shapes.rows;
  int64_t width = knownColumns ? blockWidth(*knownColumns, shapes.columns) : shapes.columns;
  std::array<Value, 3> grid = {ceilDiv(rows, tileRows), ceilDiv(columns, width),
                               value(source.sizes[0])};
  launch(
      "copy", grid, {source.buffer, target.buffer, rows, columns},
      [&](KernelBuilder &b, ValueRange args) {
        OpFoldResult rows = args[2];
        OpFoldResult columns = knownColumns ? b.fixed(*knownColumns) : OpFoldResult(args[3]);
        auto viewOf = [&](Value buffer, const TensorRef &ref) {
          // Strides are dynamic where the columns are tokens (a head-major LSE).
          auto strideOf = [&](int64_t dim) -> OpFoldResult {
            if (!ShapedType::isDynamic(ref.strides[dim]))
              return b.fixed(ref.strides[dim]);
            return dim == 1 ? columns : b.mul(args[2], b.value(columns));
          };
          Value batch = b.mul(b.programId(2), b.value(strideOf(0)));
          return b.view(buffer, b.extent(batch, ref.offset), {rows, columns},
                        {strideOf(1), strideOf(2)});
        };
        SmallVector<Value, 2> at = {b.mul(b.programId(0), tileRows), b.mul(b.programId(1), width)};
        Value tile = b.load(viewOf(args[0], source), at, {tileRows, width});
        b.store(tile, viewOf(args[1], target), at);
      });
}
