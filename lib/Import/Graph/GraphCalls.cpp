//===- GraphCalls.cpp - new nodes of a recorded graph ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GraphCalls.h"

using namespace mlac::graph;
using namespace mlir;
using mlir::graph::InAttr;
using mlir::graph::NodeOp;

void CallOperands::add(StringRef name, Value value) {
  add(name, Attribute(InAttr::get(context, values.size())));
  values.push_back(value);
}

void CallOperands::add(StringRef name, Attribute constant) {
  arguments.push_back(Builder(context).getNamedAttr(name, constant));
}

void CallOperands::add(StringRef name, int64_t constant) {
  add(name, Attribute(Builder(context).getI64IntegerAttr(constant)));
}

void CallOperands::add(StringRef name, double constant) {
  add(name, Attribute(Builder(context).getF64FloatAttr(constant)));
}

void CallOperands::add(StringRef name, StringRef constant) {
  add(name, Attribute(Builder(context).getStringAttr(constant)));
}

std::string mlac::graph::getName(func::FuncOp function, Value value) {
  if (auto node = value.getDefiningOp<NodeOp>())
    return node.getNodeName().str();
  unsigned number = cast<BlockArgument>(value).getArgNumber();
  for (StringRef attribute : {mlir::graph::kInputAttr, mlir::graph::kWeightAttr})
    if (auto name = function.getArgAttrOfType<StringAttr>(number, attribute))
      return name.str();
  return "";
}

Value GraphCalls::call(StringRef target, const CallOperands &operands, Type result,
                       const Twine &name) {
  return NodeOp::create(builder, function.getLoc(), TypeRange(result), target, operands.values,
                        builder.getDictionaryAttr(operands.arguments), builder.getStringAttr(name),
                        StringAttr())
      .getResult(0);
}

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

CallOperands GraphCalls::makeOperandsOf(Value self) const {
  CallOperands operands = makeOperands();
  operands.add("self", self);
  return operands;
}

Value GraphCalls::callOn(Value self, StringRef target, const CallOperands &operands,
                         ArrayRef<int64_t> shape, const Twine &name) {
  Type element = cast<RankedTensorType>(self.getType()).getElementType();
  return call(target, operands, RankedTensorType::get(shape, element), name);
}

Value GraphCalls::slice(Value value, int64_t dim, int64_t first, int64_t count, int64_t step,
                        const Twine &name) {
  SmallVector<int64_t> shape(getShape(value));
  bool isToEnd = first + count * step >= shape[dim];
  shape[dim] = count;
  CallOperands operands = makeOperandsOf(value);
  operands.add("dim", dim);
  operands.add("start", first);
  operands.add("end", isToEnd ? INT64_MAX : first + count * step);
  operands.add("step", step);
  return callOn(value, "aten.slice.Tensor", operands, shape, name);
}

Value GraphCalls::permute(Value value, ArrayRef<int64_t> order, const Twine &name) {
  auto shape = llvm::map_to_vector(order, [&](int64_t dim) { return getShape(value)[dim]; });
  CallOperands operands = makeOperandsOf(value);
  operands.add("dims", builder.getI64ArrayAttr(order));
  return callOn(value, "aten.permute.default", operands, shape, name);
}

Value GraphCalls::multiply(Value left, Value right, const Twine &name) {
  SmallVector<int64_t> shape(getShape(left));
  shape.back() = getShape(right).back();
  CallOperands operands = makeOperandsOf(left);
  operands.add("other", right);
  return callOn(left, "aten.matmul.default", operands, shape, name);
}

Value GraphCalls::unflatten(Value value, int64_t dim, ArrayRef<int64_t> sizes, const Twine &name) {
  ArrayRef<int64_t> from = getShape(value);
  int64_t at = dim < 0 ? dim + static_cast<int64_t>(from.size()) : dim;
  SmallVector<int64_t> shape(from.take_front(at));
  for (int64_t size : sizes)
    shape.push_back(size < 0 ? ShapedType::kDynamic : size);
  llvm::append_range(shape, from.drop_front(at + 1));
  CallOperands operands = makeOperandsOf(value);
  operands.add("dim", dim);
  operands.add("sizes", builder.getI64ArrayAttr(sizes));
  return callOn(value, "aten.unflatten.int", operands, shape, name);
}

Value GraphCalls::flatten(Value value, int64_t dim, int64_t count, const Twine &name) {
  if (count == 1)
    return value;
  ArrayRef<int64_t> from = getShape(value);
  SmallVector<int64_t> shape(from.take_front(dim));
  ArrayRef<int64_t> joined = from.slice(dim, count);
  int64_t size = 1;
  for (int64_t each : joined)
    size *= each;
  shape.push_back(ShapedType::isDynamicShape(joined) ? ShapedType::kDynamic : size);
  llvm::append_range(shape, from.drop_front(dim + count));
  CallOperands operands = makeOperandsOf(value);
  operands.add("start_dim", dim);
  operands.add("end_dim", dim + count - 1);
  return callOn(value, "aten.flatten.using_ints", operands, shape, name);
}

Value GraphCalls::squeeze(Value value, const Twine &name) {
  while (getShape(value).size() > 3) {
    SmallVector<int64_t> shape(getShape(value));
    auto *one = std::find(shape.begin() + 1, shape.end() - 1, 1);
    int64_t dim = one - shape.begin();
    shape.erase(one);
    CallOperands operands = makeOperandsOf(value);
    operands.add("dim", dim);
    value = callOn(value, "aten.squeeze.dim", operands, shape, name);
  }
  return value;
}

Value GraphCalls::addInput(Type type, StringRef name) {
  unsigned index = function.getNumArguments();
  (void)function.insertArgument(index, type,
                                builder.getDictionaryAttr(builder.getNamedAttr(
                                    mlir::graph::kInputAttr, builder.getStringAttr(name))),
                                function.getLoc());
  return function.getArgument(index);
}

Value GraphCalls::findOrAddInput(Type type, StringRef name) {
  for (BlockArgument argument : function.getArguments())
    if (getName(function, argument) == name)
      return argument;
  return addInput(type, name);
}
