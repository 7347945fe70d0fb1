//===- KeepCodes.cpp - mla-keep-codes ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A weight that only products read stays what a checkpoint stores. Assumes names of weights that
// agree between functions; afterwards every function has the same weights as codes.
//
//===----------------------------------------------------------------------===//

#include "mla/Analysis/ProductCost.h"
#include "mla/Dialect/Mla/IR/WeightScales.h"
#include "mla/Dialect/Mla/Transforms/CodeTiles.h"
#include "mla/Dialect/Mla/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::mla {
#define GEN_PASS_DEF_MLAKEEPCODES
#include "mla/Dialect/Mla/Transforms/Passes.h.inc"
} // namespace mlir::mla

using namespace mlir;
using namespace mlir::mla;

namespace {
/// What reads a weight.
struct Uses {
  bool areProducts = true, areLatents = true;
};

struct KeepCodes : mla::impl::MlaKeepCodesBase<KeepCodes> {
  using MlaKeepCodesBase::MlaKeepCodesBase;

  void runOnOperation() override;

private:
  bool suits(BlockArgument weight) const;
  bool pays(StringAttr name);
  void keep(func::FuncOp function, BlockArgument weight, StringRef name);

  int64_t rows = 0, columns = 0; // of a block
};
} // namespace

/// Slices of rows only, so that a tile's rows have one scale.
static bool isSliceOfTiles(tensor::ExtractSliceOp slice) {
  ArrayRef<int64_t> shape = slice.getSourceType().getShape();
  if (shape.size() != 3 || slice.getDroppedDims().any() || !slice.hasUnitStride())
    return false;
  ArrayRef<int64_t> offsets = slice.getStaticOffsets(), sizes = slice.getStaticSizes();
  return offsets[0] == 0 && sizes[0] == shape[0] && offsets[2] == 0 && sizes[2] == shape[2] &&
         shape[1] % kCodeTileRows == 0 && offsets[1] % kCodeTileRows == 0 &&
         sizes[1] % kCodeTileRows == 0;
}

static void findUses(Value weight, Uses &uses) {
  for (OpOperand &use : weight.getUses()) {
    Operation *user = use.getOwner();
    auto slice = dyn_cast<tensor::ExtractSliceOp>(user);
    auto project = dyn_cast<ProjectOp>(user);
    auto latent = dyn_cast<LatentProjectOp>(user);
    auto heads = dyn_cast<HeadProjectOp>(user);
    bool isView = isa<tensor::ExpandShapeOp>(user) || (slice && isSliceOfTiles(slice));
    bool isWeight = (project && &use == &project.getWeightMutable()) ||
                    (latent && &use == &latent.getWeightMutable()) ||
                    (heads && &use == &heads.getWeightMutable() && !heads.getContractRows());
    uses.areProducts &= isView || isWeight;
    uses.areLatents &= isView || latent;
    if (isView)
      findUses(user->getResult(0), uses);
  }
}

bool KeepCodes::suits(BlockArgument weight) const {
  auto type = dyn_cast<RankedTensorType>(weight.getType());
  if (!type || type.getRank() != 2 || !type.hasStaticShape() || weight.use_empty() ||
      type.getDimSize(0) % kCodeTileRows != 0 || type.getDimSize(1) % kScaledDepth != 0)
    return false;
  Uses uses;
  findUses(weight, uses);
  if (!uses.areProducts || (latentsOnly && !uses.areLatents))
    return false;
  // Latents are every rank's, heads are shared.
  bool isCut = ranks > 1 && !uses.areLatents;
  return !isCut || ((rows <= 1 || type.getDimSize(0) % rows == 0) &&
                    (columns == 0 || type.getDimSize(1) % columns == 0));
}

/// Rows of a decode's products.
static constexpr int64_t kDecodeRows[] = {1, 16, 64, 128};

static bool isDecode(func::FuncOp function) {
  return llvm::any_of(function.getArgumentTypes(), [](Type type) {
    auto batch = dyn_cast<BatchType>(type);
    return batch && batch.hasStaticQueryLen();
  });
}

/// Whether the products of the functions that read the weight take less time with codes: the
/// geometric mean over functions.
bool KeepCodes::pays(StringAttr name) {
  mlac::TargetDescription target = *mlac::findTargetDescription(machine);
  if (target.sm.clockGhz == 0)
    return false;
  double product = 1;
  for (auto function : getOperation().getOps<func::FuncOp>())
    for (BlockArgument argument : function.getArguments()) {
      if (function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kWeightAttr) != name)
        continue;
      auto type = cast<RankedTensorType>(argument.getType());
      mlac::ProductShape shape{type.getDimSize(0), type.getDimSize(1)};
      shape.operands = mlac::ProductOperands::CodedWeights;
      ArrayRef<int64_t> rows =
          isDecode(function) ? ArrayRef<int64_t>(kDecodeRows) : target.tuning.productRows;
      product *= mlac::predictCodesShare(shape, rows, target);
    }
  return product < 1;
}

void KeepCodes::keep(func::FuncOp function, BlockArgument weight, StringRef name) {
  OpBuilder builder(function.getBody());
  Location loc = weight.getLoc();
  auto type = cast<RankedTensorType>(weight.getType());
  auto grid = [](int64_t size, int64_t step) {
    return step == 0 ? 1 : static_cast<int64_t>(llvm::divideCeil(size, step));
  };
  auto scaleType = RankedTensorType::get(
      {grid(type.getDimSize(0), rows), grid(type.getDimSize(1), columns)}, builder.getF32Type());
  unsigned index = weight.getArgNumber();
  NamedAttribute scaleName(builder.getStringAttr(kWeightAttr),
                           builder.getStringAttr(name + kScaleSuffix));
  (void)function.insertArgument(index + 1, scaleType, builder.getDictionaryAttr(scaleName), loc);
  weight.setType(type.clone(Float8E4M3FNType::get(&getContext())));
  function.setType(
      builder.getFunctionType(function.getBody().getArgumentTypes(), function.getResultTypes()));
  auto scaled = ScaledWeightOp::create(builder, loc, type, weight, function.getArgument(index + 1),
                                       ArrayRef<int64_t>{rows, columns});
  weight.replaceAllUsesExcept(scaled, scaled);
}

void KeepCodes::runOnOperation() {
  if (ranks < 1) {
    emitError(getOperation().getLoc())
        << "mla-keep-codes: expected ranks >= 1, got " << ranks.getValue();
    return signalPassFailure();
  }
  auto block = getOperation()->getAttrOfType<DenseI64ArrayAttr>(kWeightScalesAttr);
  if (!block)
    return;
  rows = block[0];
  columns = block[1];
  if (!canScaleTiles(block))
    return;
  if (!machine.empty() && !mlac::findTargetDescription(machine)) {
    emitError(getOperation().getLoc()) << "mla-keep-codes: no machine '" << machine << "'";
    return signalPassFailure();
  }
  // Those that some function has in another form are not kept by any.
  llvm::MapVector<StringAttr, bool> weights;
  auto forEachWeight = [&](llvm::function_ref<void(func::FuncOp, BlockArgument, StringAttr)> body) {
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (BlockArgument argument : llvm::to_vector(function.getArguments()))
        if (auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kWeightAttr))
          body(function, argument, name);
  };
  forEachWeight([&](func::FuncOp, BlockArgument weight, StringAttr name) {
    auto known = weights.try_emplace(name, true).first;
    known->second &= suits(weight);
  });
  if (!machine.empty())
    for (auto &[name, isKept] : weights)
      isKept = isKept && pays(name);
  forEachWeight([&](func::FuncOp function, BlockArgument weight, StringAttr name) {
    if (weights.lookup(name))
      keep(function, weight, name);
  });
}
