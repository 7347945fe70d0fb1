//===- TilePlanOps.cpp - verifiers of a step's plan ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Check numbers (C1) … are those of the op descriptions in TilePlanOps.td.
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/KernelAttrs.h"
#include "mla/Dialect/Tile/IR/PlanAttrs.h"

#include "StepSizes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::tile;

void PlanOp::build(OpBuilder &builder, OperationState &state, StringRef name, int64_t maxQueryLen) {
  state.addAttribute(getSymNameAttrName(state.name), builder.getStringAttr(name));
  state.addAttribute(getMaxQueryLenAttrName(state.name), builder.getI64IntegerAttr(maxQueryLen));
  state.addRegion()->emplaceBlock();
}

/// Only what the package can hold as data may stand in a plan.
static bool isPlanOp(Operation *op) {
  if (isa<DimOp, BufferOp, WorkspaceOp, WorkOp, SharedPrefixOp, PromptsOp, LaunchOp, ForkOp,
          ReturnOp, scf::ForOp, scf::IfOp, scf::YieldOp>(op))
    return true;
  return isa<arith::ArithDialect>(op->getDialect());
}

/// Whom the runtime provides a size or metadata for; nothing for other operations.
static std::optional<mlac::step::Owner> ownerOf(Operation *op) {
  if (auto dim = dyn_cast<DimOp>(op))
    if (const auto *known = mlac::step::find(mlac::step::kDims, dim.getName()))
      return known->owner;
  if (auto buffer = dyn_cast<BufferOp>(op); buffer && buffer.getKind() == BufferKind::Metadata)
    if (const auto *known = mlac::step::find(mlac::step::kMetadata, buffer.getName()))
      return known->owner;
  return std::nullopt;
}

/// No sizes and metadata of what the plan lacks.
static LogicalResult verifyUnused(PlanOp plan, mlac::step::Owner owner, const Twine &missing) {
  WalkResult walk = plan.getBody().walk([&](Operation *op) {
    if (ownerOf(op) != owner)
      return WalkResult::advance();
    op->emitOpError("expected ") << missing << ", which provides '"
                                 << op->getAttrOfType<StringAttr>("name").getValue() << "'";
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

/// One partition for all kernels of a plan, and none that nobody asked for.
static LogicalResult verifyWork(PlanOp plan) {
  auto works = llvm::to_vector(plan.getBody().getOps<WorkOp>());
  if (works.size() > 1)
    return works[1].emitOpError("expected at most one in a tile.plan"); // (C4)
  if (!works.empty())
    return success();
  return verifyUnused(plan, mlac::step::Owner::Work, "a tile.work in the plan");
}

/// Sizes of decodes and prefills need the threshold that tells them apart, of the plan or of
/// the one whose decodes it takes.
static LogicalResult verifyParts(PlanOp plan) {
  Attribute given = plan->getAttr(kDecodeThresholdAttr);
  if (given || plan->hasAttr(kDecodesOfAttr))
    return success();
  return verifyUnused(plan, mlac::step::Owner::Parts, "a plan with " + kDecodeThresholdAttr);
}

/// One prefix, and no sizes of one that nobody asked for.
static LogicalResult verifySharedPrefix(PlanOp plan) {
  auto prefixes = llvm::to_vector(plan.getBody().getOps<SharedPrefixOp>());
  if (prefixes.size() > 1)
    return prefixes[1].emitOpError("expected at most one in a tile.plan"); // (C2)
  if (!prefixes.empty())
    return success();
  return verifyUnused(plan, mlac::step::Owner::Shared, "a tile.shared_prefix in the plan");
}

/// One rule for prompts, and no sizes of any that nobody asked for.
static LogicalResult verifyPrompts(PlanOp plan) {
  auto prompts = llvm::to_vector(plan.getBody().getOps<PromptsOp>());
  if (prompts.empty())
    return verifyUnused(plan, mlac::step::Owner::Prompts, "a tile.prompts in the plan");
  if (prompts.size() > 1)
    return prompts[1].emitOpError("expected at most one in a tile.plan"); // (C2)
  if (plan.getBody().getOps<WorkOp>().empty())
    return prompts[0].emitOpError("expected a tile.work in the plan");
  for (StringRef split : {kDecodeThresholdAttr, kDecodesOfAttr})
    if (plan->hasAttr(split))
      return prompts[0].emitOpError("expected a plan without ") << split;
  return success();
}

template <typename Op> static LogicalResult verifyCosts(Op op) {
  for (auto [name, cost] : {std::pair("item_cost", op.getItemCost()),
                            {"merge_cost", op.getMergeCost()},
                            {"partial_cost", op.getPartialCost()}})
    if (!cost.isFinite() || cost.isNegative())
      return op.emitOpError("expected a finite ")
             << name << " that is not negative, got " << cost.convertToDouble();
  return success();
}

static bool isOfOwnBlock(Operation *op, Value value) {
  Operation *producer = value.getDefiningOp();
  return producer && producer->getBlock() == op->getBlock();
}

LogicalResult SharedPrefixOp::verify() {
  if (isOfOwnBlock(*this, getTokens())) // (C1)
    return success();
  return emitOpError("expected tokens that are computed in the plan's own block");
}

LogicalResult PromptsOp::verify() {
  if (!isOfOwnBlock(*this, getPays())) // (C1)
    return emitOpError("expected a condition that is computed in the plan's own block");
  auto above = static_cast<int64_t>(getAbove());
  if (above < 0 || above > std::numeric_limits<uint32_t>::max()) // (C3)
    return emitOpError("expected at least 0 and below 2^32 new tokens, got ") << above;
  for (auto [name, number, least] : {std::tuple("items_per_token", getItemsPerToken(), 1), // (C4)
                                     {"tokens_per_item", getTokensPerItem(), 1},
                                     {"keys_per_block", getKeysPerBlock(), 1},
                                     {"window", getWindow(), 0}})
    if (auto value = static_cast<int64_t>(number);
        value < least || value > std::numeric_limits<uint32_t>::max())
      return emitOpError("expected ")
             << name << " of at least " << least << " and below 2^32, got " << value;
  return verifyCosts(*this);
}

/// Looks into ops of the body, so they come first.
LogicalResult PlanOp::verifyRegions() {
  if (!isa<ReturnOp>(getBody().front().back()))
    return emitOpError("expected a body that ends in tile.return");
  if (failed(verifyWork(*this)) || failed(verifyParts(*this)) ||
      failed(verifySharedPrefix(*this)) || failed(verifyPrompts(*this)))
    return failure();
  WalkResult walk = getBody().walk([&](Operation *op) {
    if (!isPlanOp(op)) {
      op->emitOpError("is not allowed in a tile.plan");
      return WalkResult::interrupt();
    }
    if (isa<scf::ForOp, scf::IfOp>(op) && op->getNumResults() != 0) {
      op->emitOpError("expected no results inside a tile.plan, got ") << op->getNumResults();
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

static LogicalResult verifyMergeForms(WorkOp work) { // (C5)
  constexpr size_t kFields = 3, kMostForms = 3;
  ArrayRef<int64_t> forms = work.getMergeForms().value_or(ArrayRef<int64_t>());
  int64_t programs = work.getMergePrograms().value_or(0);
  if (!work.getMergeForms() && !work.getMergePrograms())
    return success();
  if (forms.empty() || forms.size() % kFields != 0 || forms.size() > kMostForms * kFields)
    return work.emitOpError("expected merge_forms of one to ")
           << kMostForms << " triples (pieces, rows, columns), got " << forms.size() << " numbers";
  for (int64_t value : forms)
    if (value < 1)
      return work.emitOpError("expected merge_forms of positive numbers, got ") << value;
  for (size_t i = kFields; i < forms.size(); i += kFields)
    if (forms[i] <= forms[i - kFields])
      return work.emitOpError("expected merge_forms in ascending order of pieces, got ")
             << forms[i] << " behind " << forms[i - kFields];
  if (programs < 1)
    return work.emitOpError("expected merge_programs of at least 1, got ") << programs;
  return success();
}

LogicalResult WorkOp::verify() {
  auto check = [&](StringRef name, int64_t value, int64_t least) -> LogicalResult {
    if (value >= least)
      return success();
    return emitOpError("expected ") << name << " of at least " << least << ", got " << value;
  };
  if (failed(check("keys_per_block", getKeysPerBlock(), 1)) || // (C1)
      failed(check("rows_per_token", getRowsPerToken(), 1)) ||
      failed(check("rows_per_tile", getRowsPerTile(), 1)) ||
      failed(check("runs_per_token", getRunsPerToken(), 1)) || // (C6)
      failed(check("fixed_blocks", getFixedBlocks(), 0)) ||    // (C3)
      failed(check("window", getWindow(), 0)))
    return failure();
  if (getRowsPerToken() % getRunsPerToken() != 0) // (C6)
    return emitOpError("expected runs_per_token to divide the ")
           << getRowsPerToken() << " rows of a token, got " << getRunsPerToken();
  if (failed(verifyCosts(*this))) // (C2)
    return failure();
  return verifyMergeForms(*this);
}

/// The runtime provides the name; a pool in front of it, where each pool has one.
template <typename Op, typename Enum, typename Info, size_t N, size_t M>
static LogicalResult verifyName(Op op, StringRef what, const Info (&table)[N],
                                const Enum (&ofPools)[M]) {
  auto [pool, name] = mlac::step::splitName(op.getName());
  const Info *known = mlac::step::find(table, name);
  bool isOfPool = known && mlac::step::isOfPool(ofPools, static_cast<Enum>(known - table));
  if (known && !pool.empty() && !isOfPool)
    return op.emitOpError() << what << " '" << StringRef(name)
                            << "' is of the whole step, not of a pool, got '" << op.getName()
                            << "'";
  if (known)
    return success();
  InFlightDiagnostic diag = op.emitOpError("unknown ")
                            << what << " '" << op.getName() << "', expected one of: ";
  llvm::interleaveComma(table, diag, [&](const Info &known) { diag << known.name; });
  return diag;
}

LogicalResult DimOp::verify() {
  return verifyName(*this, "dim", mlac::step::kDims, mlac::step::kPoolDims); // (C1)
}

LogicalResult BufferOp::verify() {
  if (getElements() && getKind() != BufferKind::Input && getKind() != BufferKind::Output) // (C4)
    return emitOpError("expected elements of an input or an output, got those of ")
           << stringifyBufferKind(getKind()) << " '" << getName() << "'";
  if (getKind() != BufferKind::Metadata)
    return success();
  if (failed(verifyName(*this, "metadata", mlac::step::kMetadata,
                        mlac::step::kPoolMetadata))) // (C1)
    return failure();
  Type element = cast<MemRefType>(getType()).getElementType();
  unsigned bits =
      mlac::step::find(mlac::step::kMetadata, mlac::step::splitName(getName()).name)->bits;
  if (element.isInteger(bits)) // (C2)
    return success();
  return emitOpError("expected '") << getName() << "' of type i" << bits << ", got " << element;
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel = symbols.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("expected a tile.kernel named ") << getKernelAttr();
  TypeRange expected = kernel.getArgumentTypes();
  TypeRange got = getArgs().getTypes();
  if (expected != got)
    return emitOpError("expected arguments (") << expected << "), got (" << got << ")"; // (C1)
  if (getDependent() && !kernel->hasAttr(kWaitsForDependencyAttr))                      // (C2)
    return emitOpError("expected a dependent launch's kernel to have tile.waits_for_dependency, ")
           << getKernelAttr() << " has not";
  return success();
}
