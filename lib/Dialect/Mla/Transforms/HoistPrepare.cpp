//===- HoistPrepare.cpp - mla-hoist-prepare ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Weights change once per model, steps run millions of times: what depends on
// weights alone is computed by @prepare when weights are bound. Assumes nothing
// of its input but names of weights that agree between functions; afterwards no
// step computes a weight-only value other than a view.
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Mla/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::mla {
#define GEN_PASS_DEF_MLAHOISTPREPARE
#include "mla/Dialect/Mla/Transforms/Passes.h.inc"
} // namespace mlir::mla

using namespace mlir;
using namespace mlir::mla;

static constexpr StringLiteral kPrepare = "prepare";

/// Views cost nothing: the next level reads them as strides.
static bool isView(Operation *op) {
  return isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::ExtractSliceOp,
             ScaledWeightOp>(op);
}

//===----------------------------------------------------------------------===//
// Finding weight-only values
//===----------------------------------------------------------------------===//

namespace {
/// The weight-only operations of one function, in program order.
class WeightOnlyOps {
public:
  explicit WeightOnlyOps(func::FuncOp function) {
    function.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (isWeightOnly(op))
        ops.insert(op);
    });
  }

  /// Results that cost something and that the step reads, directly or through views.
  SmallVector<Value> getNeeded() const {
    SmallVector<Value> needed;
    for (Operation *op : ops)
      for (Value result : op->getResults())
        if (!isView(op) && isReadByStep(result))
          needed.push_back(result);
    return needed;
  }

  /// Erases what has no users any more.
  void eraseUnused() {
    for (Operation *op : llvm::reverse(ops))
      if (op->use_empty())
        op->erase();
  }

private:
  /// Operands are seen before users, so one pass finds the closure.
  bool isWeightOnly(Operation *op) const {
    if (op->getNumRegions() || !op->getNumOperands() || !op->getNumResults() || !isPure(op))
      return false;
    return llvm::all_of(op->getOperands(), [&](Value operand) {
      if (Operation *definition = operand.getDefiningOp())
        return ops.contains(definition);
      auto argument = cast<BlockArgument>(operand);
      auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
      return function && function.getArgAttr(argument.getArgNumber(), kWeightAttr);
    });
  }

  bool isReadByStep(Value value) const {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      if (!ops.contains(user))
        return true;
      return isView(user) && isReadByStep(user->getResult(0));
    });
  }

  llvm::SetVector<Operation *> ops;
};
} // namespace

//===----------------------------------------------------------------------===//
// Building @prepare
//===----------------------------------------------------------------------===//

namespace {
/// Collects derived values of several steps; equal ones are computed once.
class PrepareBuilder {
public:
  explicit PrepareBuilder(ModuleOp module) : module(module), builder(module.getContext()) {}

  /// The name under which @prepare returns `value` of a step.
  FailureOr<StringAttr> derive(Value value);
  /// Ends the function; nothing if nothing was derived.
  LogicalResult finish();

private:
  FailureOr<func::FuncOp> getFunction(Location loc);
  FailureOr<Value> materialize(Value value);
  FailureOr<Value> materializeWeight(BlockArgument argument);
  Operation *findEqual(Operation *op);
  StringAttr makeName(Value value);

  ModuleOp module;
  OpBuilder builder;
  func::FuncOp function;
  llvm::DenseMap<Value, Value> materialized;
  llvm::MapVector<StringAttr, Value> weights;
  llvm::MapVector<Value, StringAttr> results;
  llvm::StringSet<> names;
};
} // namespace

FailureOr<func::FuncOp> PrepareBuilder::getFunction(Location loc) {
  if (function)
    return function;
  if (Operation *taken = module.lookupSymbol(kPrepare)) {
    InFlightDiagnostic error =
        taken->emitError("expected no function @prepare, which mla-hoist-prepare makes");
    error.attachNote(loc) << "needed for this weight-only operation";
    return error;
  }
  builder.setInsertionPointToStart(module.getBody());
  function = func::FuncOp::create(builder, loc, kPrepare, builder.getFunctionType({}, {}));
  builder.setInsertionPointToEnd(function.addEntryBlock());
  return function;
}

FailureOr<StringAttr> PrepareBuilder::derive(Value value) {
  if (failed(getFunction(value.getLoc())))
    return failure();
  FailureOr<Value> copy = materialize(value);
  if (failed(copy))
    return failure();
  StringAttr &name = results[*copy];
  if (!name)
    name = makeName(*copy);
  return name;
}

FailureOr<Value> PrepareBuilder::materialize(Value value) {
  if (Value known = materialized.lookup(value))
    return known;
  auto argument = dyn_cast<BlockArgument>(value);
  if (argument)
    return materializeWeight(argument);
  Operation *op = value.getDefiningOp();
  IRMapping mapping;
  for (Value operand : op->getOperands()) {
    FailureOr<Value> copy = materialize(operand);
    if (failed(copy))
      return failure();
    mapping.map(operand, *copy);
  }
  Operation *copy = builder.clone(*op, mapping);
  if (Operation *equal = findEqual(copy)) {
    copy->erase();
    copy = equal;
  }
  for (auto [original, result] : llvm::zip(op->getResults(), copy->getResults()))
    materialized[original] = result;
  return materialized.lookup(value);
}

FailureOr<Value> PrepareBuilder::materializeWeight(BlockArgument argument) {
  auto step = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  auto name = step.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kWeightAttr);
  Value &weight = weights[name];
  if (!weight) {
    unsigned index = function.getNumArguments();
    auto attributes = builder.getDictionaryAttr(builder.getNamedAttr(kWeightAttr, name));
    (void)function.insertArgument(index, argument.getType(), attributes, argument.getLoc());
    weight = function.getArgument(index);
  }
  if (weight.getType() != argument.getType())
    return step.emitOpError("expected weight ") << name << " of type " << weight.getType()
                                                << " as in other steps, got " << argument.getType();
  return weight;
}

/// An earlier operation of @prepare that computes the same as `op`.
Operation *PrepareBuilder::findEqual(Operation *op) {
  for (Operation &candidate : *op->getBlock())
    if (&candidate != op &&
        OperationEquivalence::isEquivalentTo(&candidate, op, OperationEquivalence::IgnoreLocations))
      return &candidate;
  return nullptr;
}

/// What the specification calls it (mla.md section 7); scales behind the name of their codes.
static std::string getStem(Value value) {
  Operation *op = value.getDefiningOp();
  if (auto codes = dyn_cast<RequantizeOp>(op)) {
    Operation *source = codes.getWeight().getDefiningOp();
    bool isFolded = isa_and_nonnull<FoldQueryOp, FoldOutputOp>(source);
    std::string stem = isFolded                ? getStem(codes.getWeight())
                       : codes.getTransposed() ? "w_uk"
                                               : "w_uv";
    return value == codes.getScales() ? stem + "_scales" : stem;
  }
  return isa<FoldQueryOp>(op)    ? "w_q_uk"
         : isa<FoldOutputOp>(op) ? "w_uv_o"
                                 : op->getName().stripDialect().str();
}

StringAttr PrepareBuilder::makeName(Value value) {
  std::string stem = getStem(value), name = stem;
  for (unsigned count = 1; !names.insert(name).second; ++count)
    name = stem + "_" + std::to_string(count);
  return builder.getStringAttr(name);
}

LogicalResult PrepareBuilder::finish() {
  if (!function)
    return success();
  SmallVector<Value> values;
  SmallVector<Type> types;
  for (auto &[value, name] : results) {
    values.push_back(value);
    types.push_back(value.getType());
  }
  func::ReturnOp::create(builder, function.getLoc(), values);
  function.setType(builder.getFunctionType(function.getArgumentTypes(), types));
  for (auto [index, result] : llvm::enumerate(results))
    function.setResultAttr(index, kDerivedAttr, result.second);
  return success();
}

namespace {
struct HoistPrepare : mla::impl::MlaHoistPrepareBase<HoistPrepare> {
  using MlaHoistPrepareBase::MlaHoistPrepareBase;

  void runOnOperation() override {
    PrepareBuilder prepare(getOperation());
    SmallVector<func::FuncOp> steps;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && function.getName() != kPrepare)
        steps.push_back(function);
    for (func::FuncOp step : steps)
      if (failed(hoist(step, prepare)))
        return signalPassFailure();
    if (failed(prepare.finish()))
      signalPassFailure();
  }

  LogicalResult hoist(func::FuncOp step, PrepareBuilder &prepare);
};
} // namespace

LogicalResult HoistPrepare::hoist(func::FuncOp step, PrepareBuilder &prepare) {
  WeightOnlyOps weightOnly(step);
  llvm::DenseMap<StringAttr, Value> arguments;
  for (Value value : weightOnly.getNeeded()) {
    FailureOr<StringAttr> name = prepare.derive(value);
    if (failed(name))
      return failure();
    Value &argument = arguments[*name];
    if (!argument) {
      unsigned index = step.getNumArguments();
      Builder builder(step.getContext());
      auto attributes = builder.getDictionaryAttr(builder.getNamedAttr(kDerivedAttr, *name));
      (void)step.insertArgument(index, value.getType(), attributes, value.getLoc());
      argument = step.getArgument(index);
    }
    value.replaceAllUsesWith(argument);
  }
  weightOnly.eraseUnused();
  return success();
}
