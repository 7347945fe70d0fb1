//===- StreamOperands.cpp - which keys are codes, and their scales ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Recognises what keys become before they are multiplied: codes converted, times scales of rows, of
// groups of columns or of all.
//
//===----------------------------------------------------------------------===//

#include "Stream/StreamKernel.h"
#include "Stream/StreamRole.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::stream;

/// The only user of a type, or null.
template <typename Op> static Op getUser(Value value) {
  return value.hasOneUse() ? dyn_cast<Op>(*value.user_begin()) : Op();
}

/// Everything of the key loop that `value`, a tile, is made of.
static void collectMakers(Value value, Operation *loop, DenseSet<Operation *> &makers) {
  Operation *op = value.getDefiningOp();
  if (!op || !isTile(value) || !loop->isProperAncestor(op) || !makers.insert(op).second)
    return;
  for (Value operand : op->getOperands())
    collectMakers(operand, loop, makers);
}

Value stream::findScale(Value tile, int64_t column) {
  while (auto select = tile.getDefiningOp<arith::SelectOp>()) {
    auto compare = select.getCondition().getDefiningOp<arith::CmpIOp>();
    auto masked = compare ? compare.getLhs().getDefiningOp<arith::AndIOp>() : arith::AndIOp();
    DenseElementsAttr bit;
    bool isBit = masked && compare.getPredicate() == arith::CmpIPredicate::eq &&
                 masked.getLhs().getDefiningOp<tile::IotaOp>() &&
                 matchPattern(masked.getRhs(), m_Constant(&bit)) &&
                 matchPattern(compare.getRhs(), m_Zero());
    if (!isBit)
      return {};
    bool isEven = (column & bit.getSplatValue<APInt>().getSExtValue()) == 0;
    tile = isEven ? select.getTrueValue() : select.getFalseValue();
  }
  if (auto splat = tile.getDefiningOp<tile::SplatOp>())
    return splat.getSource();
  auto broadcast = tile.getDefiningOp<tile::BroadcastOp>();
  return broadcast ? broadcast.getSource() : Value();
}

Operation *stream::getScaleLoad(Value rows) {
  auto reduce = rows.getDefiningOp<tile::ReduceOp>();
  return reduce ? reduce.getSource().getDefiningOp() : nullptr;
}

Value stream::getOneScale(const Program &program, unsigned term) {
  Value scale = program.scales[term] ? findScale(program.scales[term], /*column=*/0) : Value();
  return scale && !isTile(scale) ? scale : Value();
}

/// "", or why the codes of a term have neither one scale nor one for each row of a panel.
static std::string checkScales(const Program &program, unsigned term) {
  Value one = getOneScale(program, term);
  for (int64_t column = 0; column < program.getWidth(term); column += sm90::kCodePanelColumns) {
    Value scale = findScale(program.scales[term], column);
    Value last = findScale(program.scales[term],
                           std::min(column + sm90::kCodePanelColumns, program.getWidth(term)) - 1);
    if (!scale || scale != last)
      return "codes whose panels of " + std::to_string(sm90::kCodePanelColumns) +
             " columns have not one scale each";
    bool isKnown = one ? scale == one
                       : isTile(scale) && isa_and_present<tile::LoadPagedOp, tile::LoadRowsOp>(
                                              getScaleLoad(scale));
    if (!isKnown)
      return "scales in a form not known";
  }
  return "";
}

bool stream::areOwnValues(Value operand) {
  return llvm::none_of(operand.getUsers(), [&](Operation *user) {
    auto dot = dyn_cast<tile::DotOp>(user);
    return dot && dot.getTransposeRhs();
  });
}

/// Of keys and values of heads.
static std::string checkHeads(const Program &program) {
  if (llvm::is_contained(program.scales, Value()))
    return "keys or values that are codes, of which the others are not";
  for (unsigned term = 0; term < program.keys.size(); ++term) {
    if (!getOneScale(program, term))
      return "codes of heads that have not one scale";
    if (program.getWidth(term) % sm90::kPanelColumns != 0)
      return "codes of heads that are not whole panels of operands";
  }
  return "";
}

std::string stream::findOperands(Program &program) {
  Operation *loop = program.keys.front()->getParentOp();
  for (Operation *load : program.keys) {
    Value tile = load->getResult(0), scale;
    auto type = cast<RankedTensorType>(tile.getType());
    if (isa<Float8E4M3FNType>(type.getElementType())) {
      auto wide = getUser<arith::ExtFOp>(tile);
      auto scaled = wide ? getUser<arith::MulFOp>(wide.getResult()) : arith::MulFOp();
      auto narrow = scaled ? getUser<arith::TruncFOp>(scaled.getResult()) : arith::TruncFOp();
      if (!narrow || scaled.getLhs() != wide.getResult())
        return "codes in a form not known";
      tile = narrow.getResult();
      scale = scaled.getRhs();
      collectMakers(tile, loop, program.transforms);
      program.transforms.erase(load);
    }
    program.operands.push_back(tile);
    program.scales.push_back(scale);
  }
  if (program.keys.size() == 2 && areOwnValues(program.operands[1]) &&
      llvm::any_of(program.scales, [](Value scale) { return bool(scale); })) {
    program.areHeadsCodes = true;
    return checkHeads(program);
  }
  if (!program.hasCodes())
    return llvm::none_of(program.scales, [](Value scale) { return bool(scale); })
               ? ""
               : "RoPE keys that are codes, of a latent that is not";
  if (program.keys.size() > 2)
    return "scores of more than two terms of codes";
  for (unsigned term = 0; term < program.keys.size(); ++term)
    if (std::string why = program.scales[term] ? checkScales(program, term) : ""; !why.empty())
      return why;
  if (program.hasRope() && program.scales[1] && !getOneScale(program, 1))
    return "RoPE keys that are codes with scales of rows";
  if (program.getWidth(0) % sm90::kCodePanelColumns != 0 ||
      (program.hasRope() && program.getWidth(1) > sm90::kPanelColumns))
    return "codes that are not whole panels and a panel of RoPE keys";
  return "";
}
