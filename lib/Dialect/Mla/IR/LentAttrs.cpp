//===- LentAttrs.cpp - what attributes of the mla dialect hold ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Mla/IR/InputLayout.h"
#include "mla/Dialect/Mla/IR/MlaDialect.h"
#include "mla/Dialect/Mla/IR/ModuleTarget.h"
#include "mla/Dialect/Mla/IR/TokenAngles.h"
#include "mla/Dialect/Mla/IR/WeightScales.h"
#include "mla/Dialect/VerifyAttrs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::mla;
using mlac::AttrPlace;

static constexpr StringLiteral kSteps = "func.func";

static constexpr mlac::LentAttr kAttrs[] = {
    {kTargetAttr,
     AttrPlace::Op,
     "builtin.module",
     {"rates, as #mla.target<...>", mlac::isOf<TargetAttr>}},
    {kModelAttr, AttrPlace::Op, "builtin.module", {"a #mla.model", mlac::isOf<ModelAttr>}},
    {kWeightScalesAttr,
     AttrPlace::Op,
     "builtin.module",
     {"rows and columns of a block, as array<i64: 128, 128>", isScaleBlock}},
    {kUnsplitAttr, AttrPlace::Op,
     "mla.absorbed_attention mla.grouped_attention mla.sparse_attention", mlac::kUnitContent},
    {kByTokenAttr, AttrPlace::Op, "mla.rope mla.grouped_append", mlac::kUnitContent},
    {kDecodeThresholdAttr, AttrPlace::Op, kSteps, mlac::kCountContent},
    {kDecodesOfAttr, AttrPlace::Op, kSteps, mlac::kStringContent},
    {kOptionalChunksAttr, AttrPlace::Op, kSteps, mlac::kUnitContent},
    {kCrossoverAttr, AttrPlace::Op, "scf.if", {"a number", mlac::isOf<FloatAttr>}},
    {kInputAttr, AttrPlace::Argument, kSteps, mlac::kStringContent},
    {kHeadsOutermostAttr, AttrPlace::Argument, kSteps, mlac::kUnitContent},
    {kPoolAttr, AttrPlace::Argument, kSteps, mlac::kStringContent},
    {kWeightAttr, AttrPlace::Argument, kSteps, mlac::kStringContent},
    {kDerivedAttr, AttrPlace::Argument, kSteps, mlac::kStringContent},
    {kOutputAttr, AttrPlace::Argument, kSteps, mlac::kStringContent},
    {kDerivedAttr, AttrPlace::Result, kSteps, mlac::kStringContent},
    {kOutputAttr, AttrPlace::Result, kSteps, mlac::kStringContent},
};

/// A table with a row for each token of `rows`.
static LogicalResult verifyTokenAngles(Operation *op, Value rows, Value table) {
  auto rowsType = cast<RankedTensorType>(rows.getType());
  auto tableType = cast<RankedTensorType>(table.getType());
  if (tableType.getDimSize(0) == rowsType.getDimSize(0))
    return success();
  return op->emitOpError("expected a table of the tokens of ")
         << rowsType << " by " << kByTokenAttr << ", got " << tableType;
}

static LogicalResult verifyByToken(Operation *op) {
  if (auto append = dyn_cast<GroupedAppendOp>(op))
    return verifyTokenAngles(op, append.getQuery(), append.getTable());
  auto rope = cast<RopeOp>(op);
  if (static_cast<int64_t>(rope.getEvery()) != 1 || rope.getCodesGroup())
    return op->emitOpError("expected no ")
           << (rope.getCodesGroup() ? "codes_group" : "every") << " beside " << kByTokenAttr;
  return verifyTokenAngles(op, rope.getInput(), rope.getTable());
}

LogicalResult MlaDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (failed(mlac::verifyLentAttr(op, attribute, AttrPlace::Op, kAttrs)))
    return failure();
  return attribute.getName() == kByTokenAttr ? verifyByToken(op) : success();
}

/// That the argument is an input [T, N, C] of which only T is dynamic.
static LogicalResult verifyHeadsOutermost(func::FuncOp function, unsigned index) {
  if (!function.getArgAttr(index, kInputAttr))
    return function.emitOpError() << "expected argument " << index << ", which is marked "
                                  << kHeadsOutermostAttr << ", to be marked " << kInputAttr;
  auto type = dyn_cast<RankedTensorType>(function.getArgumentTypes()[index]);
  if (type && type.getRank() == 3 && !type.isDynamicDim(1) && !type.isDynamicDim(2))
    return success();
  return function.emitOpError() << "expected argument " << index << ", which is marked "
                                << kHeadsOutermostAttr
                                << ", to be a tensor of tokens, heads and columns of which only "
                                   "tokens are dynamic, got "
                                << function.getArgumentTypes()[index];
}

LogicalResult MlaDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned index,
                                                   NamedAttribute attribute) {
  if (failed(mlac::verifyLentAttr(op, attribute, AttrPlace::Argument, kAttrs)))
    return failure();
  if (attribute.getName() == kHeadsOutermostAttr)
    return verifyHeadsOutermost(cast<func::FuncOp>(op), index);
  return success();
}

LogicalResult MlaDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned,
                                                      NamedAttribute attribute) {
  return mlac::verifyLentAttr(op, attribute, AttrPlace::Result, kAttrs);
}
