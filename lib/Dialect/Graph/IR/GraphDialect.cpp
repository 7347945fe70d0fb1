//===- GraphDialect.cpp - recorded graphs of models ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Graph/IR/GraphDialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::graph;

#include "mla/Dialect/Graph/IR/GraphDialect.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "mla/Dialect/Graph/IR/GraphAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "mla/Dialect/Graph/IR/GraphOps.cpp.inc"

void GraphDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "mla/Dialect/Graph/IR/GraphAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "mla/Dialect/Graph/IR/GraphOps.cpp.inc"
      >();
}

LogicalResult GraphDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned argument,
                                                     NamedAttribute attribute) {
  StringRef name = attribute.getName();
  if (name == kInputAttr || name == kWeightAttr) {
    if (!isa<StringAttr>(attribute.getValue()))
      return op->emitError() << name << " of argument " << argument << " is not a string";
    return success();
  }
  if (name != kValuesAttr)
    return op->emitError() << "unknown attribute '" << name << "' of argument " << argument;
  auto values = dyn_cast<DenseElementsAttr>(attribute.getValue());
  // Declarations have no body, whose arguments would say the same.
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function || argument >= function.getNumArguments())
    return op->emitError() << name << " of argument " << argument << " is of no function's";
  Type type = function.getArgumentTypes()[argument];
  if (!values || values.getType() != type)
    return op->emitError() << name << " of argument " << argument << " are not elements of "
                           << type;
  return success();
}

LogicalResult GraphDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() != kFunctionalAttr)
    return op->emitError() << "unknown attribute '" << attribute.getName().getValue() << "'";
  if (!isa<UnitAttr>(attribute.getValue()))
    return op->emitError() << kFunctionalAttr << " is no unit attribute";
  return success();
}

LogicalResult NodeOp::verify() {
  WalkResult result = getArguments().walk([&](InAttr in) {
    if (in.getIndex() >= 0 && in.getIndex() < static_cast<int64_t>(getOperands().size()))
      return WalkResult::advance();
    emitOpError() << "(C1) has " << getOperands().size() << " operands, no operand "
                  << in.getIndex();
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

void NodeOp::getAsmResultNames(function_ref<void(Value, StringRef)> setName) {
  for (Value result : getResults())
    setName(result, getNodeName());
}
