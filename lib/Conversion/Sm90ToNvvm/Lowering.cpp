//===- Lowering.cpp - small emission helpers ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlac::sm90nvvm;

Int mlac::sm90nvvm::constant(ImplicitLocOpBuilder &b, Type type, int64_t value) {
  return Int(b, arith::ConstantOp::create(b, b.getIntegerAttr(type, value)));
}

Int mlac::sm90nvvm::toI64(ImplicitLocOpBuilder &b, Value value) {
  Type i64 = b.getI64Type();
  if (value.getType() == i64)
    return Int(b, value);
  if (value.getType().isIndex())
    return Int(b, b.createOrFold<arith::IndexCastOp>(i64, value));
  return Int(b, b.createOrFold<arith::ExtSIOp>(i64, value));
}

Value mlac::sm90nvvm::selectOf(ImplicitLocOpBuilder &b, Value condition, Value value, Value other) {
  return condition ? b.createOrFold<arith::SelectOp>(condition, value, other) : value;
}

Value mlac::sm90nvvm::andOf(ImplicitLocOpBuilder &b, Value left, Value right) {
  if (!left || !right)
    return left ? left : right;
  return b.createOrFold<arith::AndIOp>(left, right);
}

Int mlac::sm90nvvm::compare(ImplicitLocOpBuilder &b, arith::CmpIPredicate predicate, Value left,
                            Value right) {
  return Int(b, b.createOrFold<arith::CmpIOp>(predicate, left, right));
}

std::optional<int64_t> mlac::sm90nvvm::getConstant(Value value) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return constant.getSExtValue();
  return std::nullopt;
}

void mlac::sm90nvvm::emitIf(ImplicitLocOpBuilder &b, Value condition, function_ref<void()> body) {
  if (!condition || getConstant(condition).value_or(0) != 0)
    return body();
  auto branch = scf::IfOp::create(b, TypeRange(), condition, /*addThenBlock=*/true,
                                  /*addElseBlock=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  body();
  scf::YieldOp::create(b);
}

const Kernel &Kernel::getScope(Operation *op) const {
  for (Operation *parent = op->getParentOp(); parent; parent = parent->getParentOp())
    if (auto role = parent->getAttrOfType<IntegerAttr>(kRoleAttr))
      return roles[role.getInt()];
  return *this;
}

Value Kernel::getSharedAddress(ImplicitLocOpBuilder &b, Value tile, Value bytes) const {
  Int start = Int(b, tile) * sm90::kDescriptorUnit;
  return moveAddress(b, shared, start + Int(b, bytes));
}

Value Kernel::getSharedAddress(ImplicitLocOpBuilder &b, Value tile, int64_t bytes) const {
  return getSharedAddress(b, tile, constant32(b, bytes));
}

Value mlac::sm90nvvm::mapToRank(ImplicitLocOpBuilder &b, Value own, Value rank) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext(), kClusterSpace);
  return NVVM::MapaOp::create(b, pointer, own, rank);
}

Int Kernel::getRow(ImplicitLocOpBuilder &b, int64_t h) const {
  return sm90::getFragmentRow(Int(b, groupThread), h);
}

Int Kernel::getPart(ImplicitLocOpBuilder &b, int64_t split) const {
  if (split == 1)
    return constant32(b, 0);
  return split == warpgroups ? Int(b, warpgroup) : Int(b, warpgroup) % split;
}

Int Kernel::getColumn(ImplicitLocOpBuilder &b, RankedTensorType type) const {
  Int column = Int(b, groupThread) % sm90::kQuadLanes * getRun(type);
  int64_t split = sm90::isColumns(type) ? 1 : sm90::getColumnSplit(type);
  return split == 1 ? column : column + getPart(b, split) * getPartColumns(type);
}

int64_t Kernel::getRun(RankedTensorType type) const {
  int64_t run = columnRun;
  while (getPartColumns(type) % (run * sm90::kQuadLanes) != 0)
    run /= 2;
  return run;
}

Value Kernel::isWriter(ImplicitLocOpBuilder &b, int64_t split) const {
  if (split >= warpgroups)
    return Value();
  return compare(b, arith::CmpIPredicate::ult, warpgroup, constant32(b, split));
}

Type mlac::sm90nvvm::getRegisterType(Type element) {
  return isa<Float8E4M3FNType>(element) ? IntegerType::get(element.getContext(), 8) : element;
}

int64_t mlac::sm90nvvm::getPartColumns(RankedTensorType fragment) {
  if (sm90::isColumns(fragment))
    return fragment.getDimSize(0);
  return fragment.getDimSize(1) / sm90::getColumnSplit(fragment);
}

int64_t mlac::sm90nvvm::getRegisterCount(RankedTensorType tile) {
  if (sm90::isRows(tile) || sm90::isPartial(tile))
    return sm90::kFragmentRows;
  if (sm90::isColumns(tile))
    return tile.getDimSize(0) / sm90::kQuadLanes;
  return getPartColumns(tile) * sm90::kTileRows / sm90::kWarpgroupThreads;
}

Value mlac::sm90nvvm::getElementAddress(ImplicitLocOpBuilder &b, Value base, Type elementType,
                                        Value elements) {
  if (getConstant(elements) == 0)
    return base;
  return LLVM::GEPOp::create(b, base.getType(), elementType, base,
                             ArrayRef<LLVM::GEPArg>{elements});
}

Value mlac::sm90nvvm::moveAddress(ImplicitLocOpBuilder &b, Value base, Value bytes) {
  return getElementAddress(b, base, b.getI8Type(), bytes);
}

Value mlac::sm90nvvm::packPair(ImplicitLocOpBuilder &b, Value first, Value second) {
  Value pair = LLVM::UndefOp::create(b, VectorType::get({2}, first.getType()));
  pair = LLVM::InsertElementOp::create(b, pair, first, constant32(b, 0));
  pair = LLVM::InsertElementOp::create(b, pair, second, constant32(b, 1));
  return LLVM::BitcastOp::create(b, b.getI32Type(), pair);
}

std::pair<Value, Value> mlac::sm90nvvm::unpackPair(ImplicitLocOpBuilder &b, Type elementType,
                                                   Value packed) {
  Value pair = LLVM::BitcastOp::create(b, VectorType::get({2}, elementType), packed);
  return {LLVM::ExtractElementOp::create(b, pair, constant32(b, 0)),
          LLVM::ExtractElementOp::create(b, pair, constant32(b, 1))};
}
