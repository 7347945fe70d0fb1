//===- AbsorbWeights.cpp - mla-absorb-weights ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Absorbed attention works on latents, so W_UK moves to the query side and W_UV
// behind the softmax. Each is a per-head product in the step, or folded into the
// weight next to it (mla.md section 7). Assumes that forms are chosen;
// afterwards no absorbed mla.attention remains. No normalisation sits between
// the folded weights: both norms come before the up-projections.
//
//===----------------------------------------------------------------------===//

#include "LayerShape.h"
#include "mla/Dialect/Mla/IR/WeightScales.h"
#include "mla/Dialect/Mla/Transforms/CodeTiles.h"
#include "mla/Dialect/Mla/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"

namespace mlir::mla {
#define GEN_PASS_DEF_MLAABSORBWEIGHTS
#include "mla/Dialect/Mla/Transforms/Passes.h.inc"
} // namespace mlir::mla

using namespace mlir;
using namespace mlir::mla;

static RankedTensorType getType(Value value) { return cast<RankedTensorType>(value.getType()); }

/// `value` with its last dimension changed to `width`.
static RankedTensorType withLastDim(Value value, int64_t width) {
  SmallVector<int64_t> shape(getType(value).getShape());
  shape.back() = width;
  return RankedTensorType::get(shape, getType(value).getElementType());
}

//===----------------------------------------------------------------------===//
// What can be folded
//===----------------------------------------------------------------------===//

/// The per-head W_UQ projection that makes q_nope, or null.
static ProjectOp findQueryUp(AttentionOp attention) {
  Value query = attention.getQNope();
  if (auto rows = query.getDefiningOp<PartRowsOp>())
    query = rows.getInput();
  auto project = query.getDefiningOp<ProjectOp>();
  if (!project || project.getBias() || getType(project.getWeight()).getRank() != 3)
    return {};
  return project;
}

/// The W_O projection that is the only user of `heads`, or null.
static ProjectOp findOutputProjection(Value heads) {
  if (!heads.hasOneUse())
    return {};
  auto project = dyn_cast<ProjectOp>(*heads.getUsers().begin());
  if (!project || project.getInput() != heads || getType(project.getWeight()).getRank() != 2)
    return {};
  return project;
}

/// The branch that yields `heads` as its only use, with the result's number.
static std::pair<scf::IfOp, unsigned> findYieldingBranch(Value heads) {
  if (!heads.hasOneUse())
    return {};
  OpOperand &use = *heads.use_begin();
  auto branch = dyn_cast<scf::IfOp>(use.getOwner()->getParentOp());
  if (!branch || !isa<scf::YieldOp>(use.getOwner()))
    return {};
  return {branch, use.getOperandNumber()};
}

/// The outermost of the branches around `attention` that yield nothing but its output, with the
/// result's number; null where there is none.
static std::pair<scf::IfOp, unsigned> findOutermostBranch(AttentionOp attention) {
  std::pair<scf::IfOp, unsigned> outermost;
  Value heads = attention.getOutput();
  for (auto next = findYieldingBranch(heads); next.first; next = findYieldingBranch(heads)) {
    outermost = next;
    heads = next.first.getResult(next.second);
  }
  return outermost;
}

/// The W_O projection of the branches around `attention` that can be moved into
/// them, or null.
static ProjectOp findProjectionOfBranch(AttentionOp attention) {
  auto [branch, result] = findOutermostBranch(attention);
  if (!branch)
    return {};
  ProjectOp project = findOutputProjection(branch.getResult(result));
  if (!project)
    return {};
  DominanceInfo dominance(branch->getParentOp());
  for (Value operand : project->getOperands().drop_front())
    if (!dominance.properlyDominates(operand, branch))
      return {};
  return project;
}

static bool canFoldOutput(AttentionOp attention) {
  return findOutputProjection(attention.getOutput()) || findProjectionOfBranch(attention);
}

/// Moves the projection of a branch's result into both of its regions.
static void sinkProjection(ProjectOp project, scf::IfOp branch, unsigned result) {
  for (Region &region : branch->getRegions()) {
    Operation *yield = region.front().getTerminator();
    OpBuilder builder(yield);
    Operation *copy = builder.clone(*project);
    copy->setOperand(0, yield->getOperand(result));
    yield->setOperand(result, copy->getResult(0));
  }
  project.getResult().replaceAllUsesWith(branch.getResult(result));
  branch.getResult(result).setType(project.getType());
  project->erase();
}

/// Moves the projection of the branches around `attention` into all of them, the outermost first,
/// and returns the copy next to `attention`.
static ProjectOp sinkProjection(AttentionOp attention) {
  while (ProjectOp project = findProjectionOfBranch(attention)) {
    auto [branch, result] = findOutermostBranch(attention);
    sinkProjection(project, branch, result);
  }
  return findOutputProjection(attention.getOutput());
}

//===----------------------------------------------------------------------===//
// Rewriting
//===----------------------------------------------------------------------===//

namespace {
/// Which sides are folded.
struct Folding {
  bool query, output;
};

/// What the products of absorption multiply by: values, or codes in blocks of the source's.
class Weights {
public:
  /// `block` is empty for values.
  explicit Weights(ArrayRef<int64_t> block) : block(block) {}

  /// What keeps the product of `weight`, with what is contracted in rows or columns, from codes.
  LogicalResult check(AttentionOp attention, StringRef name, ArrayRef<int64_t> shape,
                      bool contractsRows) const;
  /// A weight of mla.project, or of mla.head_project whose columns are contracted.
  Value make(OpBuilder &builder, Value weight, bool contractsRows = false) const;
  bool areCodes() const { return !block.empty(); }

private:
  ArrayRef<int64_t> block;
};
} // namespace

LogicalResult Weights::check(AttentionOp attention, StringRef name, ArrayRef<int64_t> shape,
                             bool contractsRows) const {
  if (!areCodes())
    return success();
  int64_t depth = shape[contractsRows ? 1 : shape.size() - 1];
  int64_t columns = shape[contractsRows ? 2 : shape.size() - 2];
  if (!canScaleTiles(block))
    return attention.emitOpError("cannot requantise ")
           << name
           << ": expected scales of the tensor, of rows, or of blocks of one row or a multiple of "
           << kCodeTileRows << " by " << kScaledDepth << " columns, got blocks of " << block[0]
           << " x " << block[1];
  if (columns % kCodeTileRows == 0 && depth % kScaledDepth == 0)
    return success();
  return attention.emitOpError("cannot requantise ")
         << name << ": expected a product of a multiple of " << kCodeTileRows
         << " columns with a depth that is a multiple of " << kScaledDepth << ", got " << columns
         << " with " << depth;
}

Value Weights::make(OpBuilder &builder, Value weight, bool contractsRows) const {
  if (!areCodes())
    return weight;
  Location loc = weight.getLoc();
  RankedTensorType type = getType(weight);
  SmallVector<int64_t> shape(type.getShape());
  if (contractsRows)
    std::swap(shape[1], shape[2]);
  SmallVector<int64_t, 2> matrix = {type.getNumElements() / shape.back(), shape.back()}, grid;
  for (auto [size, step] : llvm::zip_equal(matrix, block))
    grid.push_back(step == 0 ? 1 : llvm::divideCeil(size, step));
  auto codes = RequantizeOp::create(
      builder, loc, RankedTensorType::get(matrix, Float8E4M3FNType::get(builder.getContext())),
      RankedTensorType::get(grid, builder.getF32Type()), weight, block, contractsRows);
  Value scaled = ScaledWeightOp::create(builder, loc, type.clone(matrix), codes.getCodes(),
                                        codes.getScales(), block);
  if (shape.size() == 2)
    return scaled;
  SmallVector<ReassociationIndices> heads = {{0, 1}, {2}};
  return tensor::ExpandShapeOp::create(builder, loc, type.clone(shape), scaled, heads);
}

static Value emitLatentQuery(OpBuilder &builder, AttentionOp attention, bool fold,
                             const Weights &weights) {
  Location loc = attention.getLoc();
  Value wUk = attention.getWUk();
  int64_t kvLoraRank = getType(wUk).getShape().back();
  RankedTensorType type = withLastDim(attention.getQNope(), kvLoraRank);
  if (!fold) // codes have what is contracted in their columns
    return HeadProjectOp::create(builder, loc, type, attention.getQNope(),
                                 weights.make(builder, wUk, /*contractsRows=*/true),
                                 /*contract_rows=*/!weights.areCodes());
  ProjectOp up = findQueryUp(attention);
  ArrayRef<int64_t> upShape = getType(up.getWeight()).getShape();
  auto foldedType =
      RankedTensorType::get({upShape[0], kvLoraRank, upShape[2]}, getType(wUk).getElementType());
  Value folded = FoldQueryOp::create(builder, loc, foldedType, up.getWeight(), wUk);
  Value input = up.getInput();
  if (auto rows = attention.getQNope().getDefiningOp<PartRowsOp>())
    input = PartRowsOp::create(builder, loc, input, rows.getPart());
  return ProjectOp::create(builder, loc, type, input, weights.make(builder, folded),
                           /*bias=*/Value());
}

/// Replaces W_O behind `attention` by W_UV_O behind `latentOutput`.
static void foldOutput(AttentionOp attention, Value latentOutput, const Weights &weights) {
  ProjectOp output = findOutputProjection(attention.getOutput());
  OpBuilder builder(output);
  Location loc = output.getLoc();
  ArrayRef<int64_t> latentShape = getType(latentOutput).getShape();
  Value folded = FoldOutputOp::create(
      builder, loc, withLastDim(output.getWeight(), latentShape[1] * latentShape[2]),
      attention.getWUv(), output.getWeight());
  Value result = ProjectOp::create(builder, loc, output.getType(), latentOutput,
                                   weights.make(builder, folded), output.getBias());
  output.getResult().replaceAllUsesWith(result);
  output->erase();
}

static RankedTensorType withTokenMajor(Type lseType, RankedTensorType outputType) {
  auto encoding =
      LseAttr::get(lseType.getContext(), LseBase::E, LseLayout::TokenMajor, LseEmpty::NegInf);
  return RankedTensorType::get(outputType.getShape().drop_back(),
                               Float32Type::get(lseType.getContext()), encoding);
}

/// Attention to selected keys in the pool.
static Operation *emitPoolAttention(OpBuilder &builder, AttentionOp attention, Value latentQuery,
                                    Type lseType) {
  Location loc = attention.getLoc();
  Value selected = attention.getSelected();
  Value rows = ConvertIndicesOp::create(builder, loc, selected.getType(), selected,
                                        attention.getCache(), attention.getBatch(),
                                        /*prefill_requests=*/Value(), /*workspace_starts=*/Value());
  return SparseAttentionOp::create(
      builder, loc, latentQuery.getType(), lseType, /*max_logits=*/Type(), latentQuery,
      attention.getQPe(), rows, /*lengths=*/Value(), /*sink=*/Value(), attention.getCache(),
      attention.getBatch(), /*latent=*/Value(), /*k_pe=*/Value(), /*prefills=*/Value(),
      /*chunk=*/Value(), /*onto=*/Value(), /*beside_rows=*/Value(), /*beside_lengths=*/Value(),
      /*beside_cache=*/Value(), /*num_splits=*/Value(), attention.getScaleAttr());
}

/// Attention to selected keys of one chunk of whole requests.
static Value emitGatheredChunk(OpBuilder &builder, AttentionOp attention, Value latentQuery,
                               Value rows, Value chunk, Value onto) {
  Location loc = attention.getLoc();
  CacheType cacheType = attention.getCache().getType();
  auto keysType = [&](int64_t width) {
    return RankedTensorType::get({ShapedType::kDynamic, width}, cacheType.getElement());
  };
  SmallVector<Type, 2> types{keysType(cacheType.getKvLoraRank())};
  if (attention.getQPe())
    types.push_back(keysType(cacheType.getQkRopeHeadDim()));
  auto keys = GatherOp::create(builder, loc, types, attention.getCache(), attention.getBatch(),
                               chunk, /*whole=*/true);
  Value ropeKeys = attention.getQPe() ? keys.getRows()[1] : Value();
  auto sparse = SparseAttentionOp::create(
      builder, loc, onto.getType(), /*lse=*/Type(), /*max_logits=*/Type(), latentQuery,
      attention.getQPe(), rows, /*lengths=*/Value(), /*sink=*/Value(), /*cache=*/Value(),
      /*batch=*/Value(), keys.getRows()[0], ropeKeys, attention.getBatch(), chunk, onto,
      /*beside_rows=*/Value(), /*beside_lengths=*/Value(), /*beside_cache=*/Value(),
      /*num_splits=*/Value(), attention.getScaleAttr());
  return sparse.getOutput();
}

/// Attention to selected keys of a workspace, into which requests are gathered in chunks.
static Operation *emitGatheredAttention(OpBuilder &builder, AttentionOp attention,
                                        Value latentQuery) {
  Location loc = attention.getLoc();
  auto dim = [&](StringRef name) -> Value {
    return BatchDimOp::create(builder, loc, builder.getIndexType(), attention.getBatch(), name);
  };
  Value selected = attention.getSelected();
  Value rows = ConvertIndicesOp::create(builder, loc, selected.getType(), selected,
                                        attention.getCache(), attention.getBatch(),
                                        /*prefill_requests=*/Value(), /*workspace_starts=*/Value(),
                                        /*workspace=*/true);
  RankedTensorType type = getType(latentQuery);
  Value nothing = tensor::EmptyOp::create(builder, loc, type.getShape(), type.getElementType(),
                                          ValueRange{dim("num_tokens")});
  Value first = arith::ConstantIndexOp::create(builder, loc, 0);
  Value step = arith::ConstantIndexOp::create(builder, loc, 1);
  return scf::ForOp::create(builder, loc, first, dim("num_gathers"), step, nothing,
                            [&](OpBuilder &body, Location, Value chunk, ValueRange onto) {
                              Value output = emitGatheredChunk(body, attention, latentQuery, rows,
                                                               chunk, onto[0]);
                              scf::YieldOp::create(body, loc, output);
                            });
}

/// Attention on the latents, with `latentQuery`: over all keys, or over those selected.
static Operation *emitLatentAttention(OpBuilder &builder, AttentionOp attention,
                                      Value latentQuery) {
  Location loc = attention.getLoc();
  RankedTensorType type = getType(latentQuery);
  Value lse = attention.getLse();
  Type lseType = lse ? withTokenMajor(lse.getType(), type) : Type();
  if (attention.getGathered())
    return emitGatheredAttention(builder, attention, latentQuery);
  if (attention.getSelected())
    return emitPoolAttention(builder, attention, latentQuery, lseType);
  return AbsorbedAttentionOp::create(builder, loc, type, lseType, latentQuery, attention.getQPe(),
                                     attention.getCache(), attention.getBatch(),
                                     /*num_splits=*/Value(), attention.getScaleAttr());
}

static void absorb(AttentionOp attention, Folding folding, const Weights &weights) {
  if (folding.output && !findOutputProjection(attention.getOutput()))
    sinkProjection(attention);
  OpBuilder builder(attention);
  Location loc = attention.getLoc();
  Value latentQuery = emitLatentQuery(builder, attention, folding.query, weights);
  Operation *absorbed = emitLatentAttention(builder, attention, latentQuery);
  Value latentOutput = absorbed->getResult(0);
  if (Value lse = attention.getLse()) {
    Value converted = absorbed->getResult(1);
    if (converted.getType() != lse.getType())
      converted = ConvertLseOp::create(builder, loc, lse.getType(), converted);
    lse.replaceAllUsesWith(converted);
  }
  if (folding.output) {
    foldOutput(attention, latentOutput, weights);
  } else {
    Value heads = HeadProjectOp::create(builder, loc, attention.getOutput().getType(), latentOutput,
                                        weights.make(builder, attention.getWUv()),
                                        /*contract_rows=*/false);
    attention.getOutput().replaceAllUsesWith(heads);
  }
  ProjectOp queryUp = folding.query ? findQueryUp(attention) : ProjectOp();
  attention->erase();
  if (queryUp && queryUp->use_empty())
    queryUp->erase();
}

//===----------------------------------------------------------------------===//
// Choosing the mode
//===----------------------------------------------------------------------===//

static mlac::FormVariant getVariant(Folding folding) {
  if (folding.query)
    return folding.output ? mlac::FormVariant::AbsorbedOffline
                          : mlac::FormVariant::AbsorbedHalfQuery;
  return folding.output ? mlac::FormVariant::AbsorbedHalfOutput : mlac::FormVariant::AbsorbedOnline;
}

/// The possible folding with the least predicted time. Ties go to the first:
/// online costs no extra weights.
static Folding chooseFolding(AttentionOp attention, Folding possible, int64_t requests) {
  mlac::FormProblem problem = readFormProblem(attention);
  problem.numRequests = requests;
  mlac::TargetDescription target = readTarget(attention->getParentOfType<ModuleOp>());
  auto predict = [&](Folding folding) {
    return mlac::computeFormCost(problem, getVariant(folding)).predictMicroseconds(target);
  };
  Folding best{false, false};
  for (Folding candidate : {Folding{true, false}, Folding{false, true}, Folding{true, true}})
    if (candidate.query <= possible.query && candidate.output <= possible.output &&
        predict(candidate) < predict(best))
      best = candidate;
  return best;
}

namespace {
struct AbsorbWeights : mla::impl::MlaAbsorbWeightsBase<AbsorbWeights> {
  using MlaAbsorbWeightsBase::MlaAbsorbWeightsBase;

  void runOnOperation() override {
    if (requests < 1) {
      emitError(getOperation().getLoc())
          << "mla-absorb-weights: expected requests >= 1, got " << requests.getValue();
      return signalPassFailure();
    }
    auto scales = getOperation()->getAttrOfType<DenseI64ArrayAttr>(kWeightScalesAttr);
    if (requantize && !scales) {
      emitError(getOperation().getLoc())
          << "mla-absorb-weights: requantize expects a module with " << kWeightScalesAttr
          << ", the blocks of its weights' scales";
      return signalPassFailure();
    }
    block = requantize ? scales.asArrayRef() : ArrayRef<int64_t>();
    SmallVector<AttentionOp> attentions;
    getOperation().walk([&](AttentionOp attention) { attentions.push_back(attention); });
    for (AttentionOp attention : attentions)
      if (failed(rewrite(attention)))
        return signalPassFailure();
  }

  LogicalResult rewrite(AttentionOp attention);
  FailureOr<Folding> getFolding(AttentionOp attention);
  LogicalResult checkCodes(AttentionOp attention, Folding folding, const Weights &weights) const;

  ArrayRef<int64_t> block; // of codes; empty: values
};
} // namespace

LogicalResult AbsorbWeights::rewrite(AttentionOp attention) {
  if (attention.getForm() == Form::Auto)
    return attention.emitOpError(
        "expected form expanded or absorbed, got auto: run mla-choose-form");
  if (attention.getForm() != Form::Absorbed)
    return success();
  FailureOr<Folding> folding = getFolding(attention);
  if (failed(folding))
    return failure();
  Weights weights(block);
  if (failed(checkCodes(attention, *folding, weights)))
    return failure();
  absorb(attention, *folding, weights);
  return success();
}

LogicalResult AbsorbWeights::checkCodes(AttentionOp attention, Folding folding,
                                        const Weights &weights) const {
  RankedTensorType keys = getType(attention.getWUk()), values = getType(attention.getWUv());
  int64_t rank = keys.getShape().back();
  if (folding.query) {
    int64_t depth = getType(findQueryUp(attention).getWeight()).getShape().back();
    if (failed(weights.check(attention, "W_Q_UK", {keys.getDimSize(0), rank, depth}, false)))
      return failure();
  } else if (failed(weights.check(attention, "W_UK", keys.getShape(), true))) {
    return failure();
  }
  if (!folding.output)
    return weights.check(attention, "W_UV", values.getShape(), false);
  ProjectOp output = findOutputProjection(attention.getOutput());
  if (!output)
    output = findProjectionOfBranch(attention);
  return weights.check(attention, "W_UV_O",
                       {getType(output.getWeight()).getDimSize(0), keys.getDimSize(0) * rank},
                       false);
}

/// Whether the attention, or that of another branch of its step, is of parts of the batch, which
/// are joined in front of W_O: prefills need it as it is. So are a shared prefix and what is behind
/// it.
static bool isOfParts(AttentionOp attention) {
  return attention->getParentOfType<func::FuncOp>()
      .walk([](BatchPartOp) { return WalkResult::interrupt(); })
      .wasInterrupted();
}

FailureOr<Folding> AbsorbWeights::getFolding(AttentionOp attention) {
  bool isJoined = isOfParts(attention) || SharePrefixOp::ofOwn(attention.getBatch());
  Folding possible{bool(findQueryUp(attention)), !isJoined && canFoldOutput(attention)};
  if (mode == AbsorbMode::Auto)
    return chooseFolding(attention, possible, requests);
  Folding wanted{mode == AbsorbMode::Offline || mode == AbsorbMode::HalfQuery,
                 mode == AbsorbMode::Offline || mode == AbsorbMode::HalfOutput};
  if (wanted.query && !possible.query) {
    InFlightDiagnostic error = attention.emitOpError("cannot fold W_UK into the query projection");
    error.attachNote(attention.getQNope().getLoc())
        << "expected q_nope from mla.project with a weight [N, P, Lq] and no bias";
    return error;
  }
  if (isJoined)
    wanted.output = false;
  if (wanted.output && !possible.output) {
    InFlightDiagnostic error = attention.emitOpError("cannot fold W_UV into the output projection");
    error.attachNote() << "expected one user of the output, mla.project with a weight [H, N·V]";
    return error;
  }
  return wanted;
}
