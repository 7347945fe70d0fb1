//===- StepLowering.cpp - one step function to one tile.plan ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Control flow, scalars and launches of a step. Where tensors lie is decided in
// TensorMemory.cpp.
//
//===----------------------------------------------------------------------===//

#include "Plan/StepLowering.h"

#include "Plan/Lowerings.h"

#include "mla/Dialect/KernelAttrs.h"
#include "mla/Dialect/Tile/IR/PlanAttrs.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

StepLowering::StepLowering(func::FuncOp func, KernelTable &kernels, const TileShapes &shapes,
                           const TargetDescription &machine, const WorkCosts &costs)
    : shapes(shapes), machine(machine), costs(costs), func(func), kernels(kernels),
      builder(func.getContext()), loc(func.getLoc()) {}

/// The longest query that the step accepts: its static length, or 0 for any.
static int64_t maxQueryLen(func::FuncOp func) {
  for (Type type : func.getArgumentTypes())
    if (auto batch = dyn_cast<mla::BatchType>(type); batch && batch.hasStaticQueryLen())
      return batch.getQueryLen();
  return 0;
}

LogicalResult StepLowering::run() {
  if (!func.getBody().hasOneBlock())
    return func.emitOpError("expected one block, got ") << func.getBody().getBlocks().size();
  builder.setInsertionPointAfter(func);
  planOp = tile::PlanOp::create(builder, loc, func.getSymName(), maxQueryLen(func));
  if (Attribute threshold = func->getAttr(mla::kDecodeThresholdAttr))
    planOp->setAttr(tile::kDecodeThresholdAttr, threshold);
  if (Attribute whole = func->getAttr(mla::kDecodesOfAttr))
    planOp->setAttr(tile::kDecodesOfAttr, whole);
  if (func->hasAttr(mla::kOptionalChunksAttr))
    planOp->setAttr(tile::kOptionalChunksAttr, builder.getUnitAttr());
  builder.setInsertionPointToStart(&planOp.getBody().front());
  tile::ReturnOp::create(builder, loc);
  builder.setInsertionPointToStart(&planOp.getBody().front());
  if (failed(bindArguments()))
    return failure();
  return lowerBlock(func.getBody().front());
}

//===----------------------------------------------------------------------===//
// Scalars and launches of the plan
//===----------------------------------------------------------------------===//

Value StepLowering::value(OpFoldResult size) {
  if (std::optional<int64_t> known = getConstantIntValue(size))
    return constant(*known);
  return cast<Value>(size);
}

Value StepLowering::multiply(Value a, int64_t b) {
  return b == 1 ? a : builder.createOrFold<arith::MulIOp>(loc, a, constant(b));
}

Value StepLowering::ceilDiv(Value a, int64_t b) {
  return b == 1 ? a : builder.createOrFold<arith::CeilDivSIOp>(loc, a, constant(b));
}

Value StepLowering::divide(Value a, int64_t b) {
  return b == 1 ? a : builder.createOrFold<arith::DivSIOp>(loc, a, constant(b));
}

void StepLowering::launch(StringRef name, std::array<Value, 3> grid, ValueRange args,
                          WriteBody write, Overlap overlap) {
  OpBuilder detached(builder.getContext());
  auto kernel = tile::KernelOp::create(detached, loc, name, args.getTypes());
  KernelBuilder b(kernel);
  write(b, kernel.getBody().getArguments());
  tile::ReturnOp::create(b);
  bool isDependent = overlap == Overlap::Dependent || overlap == Overlap::Both;
  if (overlap == Overlap::Triggers || overlap == Overlap::Both)
    kernel->setAttr(tile::kTriggersDependentsAttr, builder.getUnitAttr());
  if (isDependent)
    kernel->setAttr(tile::kWaitsForDependencyAttr, builder.getUnitAttr());
  kernel = kernels.insert(kernel);
  tile::LaunchOp::create(builder, loc, kernel.getSymName(), grid[0], grid[1], grid[2], args,
                         isDependent);
  hasLaunched = true;
}

/// Whether the function computes weights of others.
bool StepLowering::makesWeights() const {
  func::FuncOp function = func;
  for (unsigned index = 0; index < function.getNumResults(); ++index)
    if (function.getResultAttr(index, mla::kDerivedAttr))
      return true;
  return false;
}

StepLowering::Overlap StepLowering::chained(bool early) const {
  if (!shapes.overlapsLaunches || makesWeights())
    return Overlap::None;
  if (!early)
    return hasLaunched ? Overlap::Dependent : Overlap::None;
  return hasLaunched ? Overlap::Both : Overlap::Triggers;
}

StepLowering::Overlap StepLowering::chainedReading(Value scalars) const {
  auto callers = scalars.getDefiningOp<tile::BufferOp>();
  bool isReady = callers && (callers.getKind() == tile::BufferKind::Input ||
                             callers.getKind() == tile::BufferKind::Metadata);
  return isReady ? chained() : Overlap::None;
}

bool StepLowering::isInvariant(Value value) const {
  auto buffer = value.getDefiningOp<tile::BufferOp>();
  if (!buffer || makesWeights())
    return false;
  return buffer.getKind() == tile::BufferKind::Weight ||
         buffer.getKind() == tile::BufferKind::Derived;
}

void StepLowering::versionByRows(Value rows, int64_t limit, llvm::function_ref<void()> few,
                                 llvm::function_ref<void()> many) {
  if (std::optional<int64_t> known = getConstantIntValue(rows)) {
    *known <= limit ? few() : many();
    return;
  }
  Value isFew =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, rows, constant(limit));
  auto op = scf::IfOp::create(builder, loc, isFew, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(op.thenBlock());
  bool before = hasLaunched;
  few();
  bool launchesFew = std::exchange(hasLaunched, before);
  builder.setInsertionPointToStart(op.elseBlock());
  many();
  hasLaunched &= launchesFew;
}

void StepLowering::ifAbove(Value size, int64_t limit, llvm::function_ref<void()> body) {
  Value isAbove =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, size, constant(limit));
  auto op = scf::IfOp::create(builder, loc, isAbove, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(op.thenBlock());
  bool before = hasLaunched;
  body();
  hasLaunched = before;
}

LogicalResult StepLowering::requestWork(Operation *user, int64_t rowsPerToken, int64_t rowsPerTile,
                                        int64_t runs, int64_t window) {
  int64_t asked[] = {rowsPerToken, rowsPerTile, window, runs};
  if (work) {
    int64_t before[] = {
        static_cast<int64_t>(work.getRowsPerToken()), static_cast<int64_t>(work.getRowsPerTile()),
        static_cast<int64_t>(work.getWindow()), static_cast<int64_t>(work.getRunsPerToken())};
    if (ArrayRef(asked) == ArrayRef(before))
      return success();
    InFlightDiagnostic error = user->emitOpError("expected all attentions of a step to have ")
                               << before[0] << " rows per token in tiles of " << before[1];
    if (before[2] != window)
      error << " and a window of " << before[2];
    error << ", got " << asked[0] << " in tiles of " << asked[1];
    if (before[2] != window)
      error << " and " << window;
    return error;
  }
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&planOp.getBody().front());
  work = tile::WorkOp::create(builder, loc, shapes.keys, rowsPerToken, rowsPerTile,
                              llvm::APFloat(costs.item), llvm::APFloat(costs.merge),
                              /*partial_cost=*/llvm::APFloat(0.0), costs.fixedBlocks, window,
                              /*merge_forms=*/DenseI64ArrayAttr(), /*merge_programs=*/IntegerAttr(),
                              runs);
  return success();
}

LogicalResult StepLowering::requestMerge(Operation *user, ArrayRef<int64_t> forms,
                                         int64_t programs) {
  std::optional<ArrayRef<int64_t>> before = work.getMergeForms();
  if (before && *before != forms)
    return user->emitOpError("expected all attentions of a step to merge alike, by [")
           << *before << "], got [" << forms << "]";
  work.setMergeForms(forms);
  work.setMergePrograms(programs);
  return success();
}

void StepLowering::requestPrompts(int64_t above, const PromptCuts &cuts,
                                  llvm::function_ref<Value()> pays) {
  if (!planOp.getBody().getOps<tile::PromptsOp>().empty())
    return;
  OpBuilder::InsertionGuard guard(builder);
  (void)constant(0); // the header is there
  builder.setInsertionPointAfter(lastHeader);
  tile::PromptsOp::create(builder, loc, pays(), above, cuts.itemsPerToken, cuts.tokensPerItem,
                          cuts.keysPerBlock, llvm::APFloat(cuts.itemCost),
                          llvm::APFloat(cuts.mergeCost), llvm::APFloat(cuts.partialCost),
                          cuts.window);
}

/// The runtime plans whole blocks of keys; the rest of the prefix stays with the requests.
void StepLowering::lowerSharePrefix(mla::SharePrefixOp op) {
  Value blocks =
      arith::DivSIOp::create(builder, loc, scalar(op.getTokens()), constant(shapes.keys));
  tile::SharedPrefixOp::create(builder, loc, multiply(blocks, shapes.keys));
}

Value StepLowering::firstKeyBlock(Value batch) {
  if (!mla::SharePrefixOp::ofOwn(batch))
    return constant(0);
  return divide(dim("num_shared_tokens"), shapes.keys);
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

LogicalResult StepLowering::lowerBlock(Block &block) {
  for (Operation &op : block.without_terminator()) {
    loc = op.getLoc();
    if (failed(lowerOp(&op)))
      return failure();
  }
  if (auto returnOp = dyn_cast<func::ReturnOp>(block.getTerminator()))
    return lowerReturn(returnOp);
  return success();
}

/// Matrices that lie apart are no matrix to anybody but a projection by all of them.
static LogicalResult checkStack(tensor::ConcatOp concat) {
  if (concat.getDim() != 0)
    return concat.emitOpError("expected weights one below the other, got dimension ")
           << concat.getDim();
  for (OpOperand &use : concat->getUses()) {
    auto project = dyn_cast<mla::ProjectOp>(use.getOwner());
    bool isIn = project && use.getOperandNumber() != 0 &&
                !isa<mla::SumPartsOp>(project->getParentOp()) &&
                project.getWeight().getDefiningOp<tensor::ConcatOp>();
    if (!isIn)
      return use.getOwner()->emitOpError(
          "cannot read what tensor.concat makes: expected an "
          "mla.project, not one in mla.sum_parts, that has such a weight");
  }
  return success();
}

LogicalResult StepLowering::lowerOp(Operation *op) {
  if (isa<mla::MlaDialect>(op->getDialect()))
    return lowerMlaOp(op);
  if (isa<arith::ArithDialect>(op->getDialect()))
    return lowerScalar(op);
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<scf::IfOp>([&](auto ifOp) { return lowerIf(ifOp); })
      .Case<scf::ForOp>([&](auto forOp) { return lowerFor(forOp); })
      .Case<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::ExtractSliceOp>(
          [&](auto view) { return lowerView(view); })
      .Case<tensor::ConcatOp>(
          [](auto concat) { return checkStack(concat); }) // its users look at it
      .Case<tensor::EmptyOp>([&](auto empty) {
        allocate(empty.getResult());
        return success();
      })
      .Case<tensor::DimOp>([&](auto dimOp) { return lowerDim(dimOp); })
      .Default([](Operation *other) {
        return other->emitOpError("is not supported in a step function");
      });
}

LogicalResult StepLowering::lowerMlaOp(Operation *op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<mla::BatchDimOp>([&](auto dimOp) {
        scalars.map(dimOp.getResult(), dim(dimOp.getBatch(), dimOp.getName()));
        return success();
      })
      .Case<mla::BatchPartOp>([](auto) { return success(); }) // its users look at it
      .Case<mla::SharePrefixOp>([&](auto prefix) {
        lowerSharePrefix(prefix);
        return success();
      })
      .Case<mla::PartRowsOp>([&](auto rows) {
        lowerPartRows(rows);
        return success();
      })
      .Case<mla::JoinPartsOp>([&](auto join) {
        lowerJoinParts(join);
        return success();
      })
      .Case<mla::RopeTableOp>([&](auto table) {
        auto type = cast<RankedTensorType>(table.getResult().getType());
        setView(table.getResult(),
                {.buffer = ropeTable(),
                 .sizes = {dim("rope_length"), builder.getIndexAttr(type.getDimSize(1))},
                 .strides = {type.getDimSize(1), 1}});
        return success();
      })
      .Case<mla::AttentionOp>([](auto attention) -> LogicalResult {
        auto diag = attention.emitOpError("expected a form to have been chosen and expanded");
        diag.attachNote() << "run mla-choose-form, mla-chunk-context, mla-absorb-weights and "
                             "mla-split-kv before this pass";
        return diag;
      })
      .Case<
#define GET_OP_LIST
#include "mla/Dialect/Mla/IR/MlaOps.cpp.inc"
          >([&](auto typed) -> LogicalResult {
        if constexpr (requires { lower(*this, typed); }) // an overload in Lowerings.h
          return lower(*this, typed);
        else
          return typed.emitOpError("has no kernels yet on any target");
      });
}

/// Views take sizes from their sources, so that most of these have no other reader.
LogicalResult StepLowering::lowerDim(tensor::DimOp op) {
  if (llvm::all_of(op->getUsers(),
                   [](Operation *user) { return isa<tensor::TensorDialect>(user->getDialect()); }))
    return success();
  int64_t rank = op.getSource().getType().getRank();
  std::optional<int64_t> index = op.getConstantIndex();
  if (!index)
    return op.emitOpError("expected a constant dimension in a step function");
  if (*index < 0 || *index >= rank)
    return op.emitOpError("expected a dimension below ") << rank << ", got " << *index;
  scalars.map(op.getResult(), value(lookup(op.getSource()).sizes[*index]));
  return success();
}

LogicalResult StepLowering::lowerScalar(Operation *op) {
  auto isScalar = [](Type type) { return type.isIntOrIndex(); };
  if (!llvm::all_of(op->getResultTypes(), isScalar) ||
      !llvm::all_of(op->getOperandTypes(), isScalar))
    return op->emitOpError("expected integer scalars only in a step function");
  if (std::optional<int64_t> known = getConstantIntValue(op->getResult(0));
      known && op->getResult(0).getType().isIndex())
    scalars.map(op->getResult(0), constant(*known));
  else
    builder.clone(*op, scalars);
  return success();
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

/// Makes `to` (a region's result, memory already known) hold `from`.
void StepLowering::assign(Value from, Value to) {
  if (isa<mla::CacheType>(from.getType())) {
    caches[to] = cache(from);
    return;
  }
  TensorRef source = lookup(from), target = lookup(to);
  if (!source.isSameMemory(target))
    copy(source, target);
}

LogicalResult StepLowering::lowerBranch(scf::IfOp op, Region &from, Block *to) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(to);
  if (failed(lowerBlock(from.front())))
    return failure();
  for (auto [yielded, result] :
       llvm::zip(from.front().getTerminator()->getOperands(), op.getResults())) {
    assign(yielded, result);
    // Who reads the lists does so where this branch has run.
    if (std::optional<TensorRef> ends = listEnds(yielded))
      setListEnds(result, *ends);
  }
  return success();
}

LogicalResult StepLowering::lowerIf(scf::IfOp op) {
  for (Value result : op.getResults()) {
    if (isa<RankedTensorType>(result.getType()))
      allocate(result);
    else if (!isa<mla::CacheType>(result.getType()))
      return op.emitOpError("expected results that are tensors or caches, got ")
             << result.getType();
  }
  bool hasElse = !op.getElseRegion().empty(), before = hasLaunched;
  auto branch = scf::IfOp::create(builder, op.getLoc(), scalar(op.getCondition()), hasElse);
  if (failed(lowerBranch(op, op.getThenRegion(), branch.thenBlock())))
    return failure();
  bool launchesThen = std::exchange(hasLaunched, before);
  if (hasElse && failed(lowerBranch(op, op.getElseRegion(), branch.elseBlock())))
    return failure();
  hasLaunched &= launchesThen;
  return success();
}

LogicalResult StepLowering::lowerFor(scf::ForOp op) {
  if (getConstantIntValue(op.getLowerBound()) != 0 || getConstantIntValue(op.getStep()) != 1)
    return op.emitOpError("expected a loop from 0 with step 1 in a step function");
  for (auto [init, carried, result, yielded] : llvm::zip(op.getInitArgs(), op.getRegionIterArgs(),
                                                         op.getResults(), op.getYieldedValues())) {
    if (isa<mla::CacheType>(init.getType())) {
      caches[carried] = caches[result] = cache(init);
      continue;
    }
    if (!isa<RankedTensorType>(init.getType()))
      return op.emitOpError("expected carried values that are tensors or caches, got ")
             << init.getType();
    // Copying one carried value over another could destroy what is still to be read.
    if (llvm::is_contained(op.getRegionIterArgs(), yielded) && yielded != carried)
      return op.emitOpError("expected a loop that does not exchange its carried tensors");
    allocate(result);
    assign(init, result);
    setView(carried, lookup(result));
  }
  auto loop = scf::ForOp::create(builder, op.getLoc(), scalar(op.getLowerBound()),
                                 scalar(op.getUpperBound()), scalar(op.getStep()));
  scalars.map(op.getInductionVar(), loop.getInductionVar());
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  bool before = hasLaunched;
  if (failed(lowerBlock(*op.getBody())))
    return failure();
  hasLaunched = before;
  for (auto [yielded, result] : llvm::zip(op.getYieldedValues(), op.getResults()))
    assign(yielded, result);
  return success();
}

LogicalResult StepLowering::lowerReturn(func::ReturnOp op) {
  for (OpOperand &returned : op->getOpOperands()) {
    if (isa<mla::CacheType>(returned.get().getType()))
      continue; // written in place
    std::optional<TensorRef> target =
        returnDestination(returned.get(), returned.getOperandNumber());
    if (!target)
      return op.emitOpError("expected result ")
             << returned.getOperandNumber() << " to be a cache or marked mla.output or mla.derived";
    TensorRef source = lookup(returned.get());
    if (!source.isSameMemory(*target))
      copy(source, *target);
  }
  return success();
}
