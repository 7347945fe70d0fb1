//===- GroupedLayer.cpp - steps of a layer with groups of heads ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GroupedLayer.h"

#include "WeightArguments.h"

#include "GroupedCache.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlac;
using namespace mlir;

GroupedLayer::GroupedLayer(ModuleOp module, const ModelConfig &config, const ImportOptions &options)
    : builder(module.getBodyRegion()), loc(module.getLoc()), config(config), options(options),
      element(getElementType(*module.getContext(), options.activationType)),
      rope(getRopeAttr(*module.getContext(), config)), tensors(getStepTensors(config)) {}

LogicalResult GroupedLayer::verify() {
  if (options.takesLatents)
    return emitError(loc) << "layers of " << config.modelType
                          << " have no latents: --inputs=latents does not apply";
  if (options.form != mla::Form::Auto)
    return emitError(loc) << "layers of " << config.modelType
                          << " have no latents: --form does not apply";
  cacheType = getGroupedCache(loc, options, config.numKvHeads(), config.vHeadDim, config.vHeadDim);
  return success(cacheType != nullptr);
}

RankedTensorType GroupedLayer::tokens(ArrayRef<int64_t> shape) {
  SmallVector<int64_t, 3> full{ShapedType::kDynamic};
  llvm::append_range(full, shape);
  return RankedTensorType::get(full, element);
}

func::FuncOp GroupedLayer::createFunction(StringRef name, mla::BatchType batchType) {
  RankedTensorType hiddenType = tokens(config.hiddenSize);
  SmallVector<Type> inputs{hiddenType, batchType, cacheType};
  unsigned firstWeight = inputs.size();
  for (const CheckpointTensor &tensor : tensors)
    inputs.push_back(RankedTensorType::get(tensor.shapeOnRank(config.tensorParallel),
                                           tensor.isSingle ? builder.getF32Type() : element));
  auto function = func::FuncOp::create(builder, loc, name,
                                       builder.getFunctionType(inputs, {hiddenType, cacheType}));
  Block *body = function.addEntryBlock();
  hidden = body->getArgument(0);
  batch = body->getArgument(1);
  cache = body->getArgument(2);
  function.setArgAttr(0, mla::kInputAttr, builder.getStringAttr("hidden"));
  function.setResultAttr(0, mla::kOutputAttr, builder.getStringAttr("output"));
  values = nameWeights(function, firstWeight, tensors);
  return function;
}

/// A bias is of rows side by side, which are split into heads behind it.
Value GroupedLayer::projectHeads(StringRef projection, int64_t heads) {
  Value matrix = weight(projection + ".weight"), bias = weight(projection + ".bias");
  int64_t dim = config.vHeadDim;
  if (bias) {
    Value rows = mla::ProjectOp::create(builder, loc, tokens(heads * dim), hidden, matrix, bias);
    return tensor::ExpandShapeOp::create(builder, loc, tokens({heads, dim}), rows,
                                         ArrayRef<ReassociationIndices>{{0}, {1, 2}});
  }
  auto split = RankedTensorType::get({heads, dim, config.hiddenSize}, element);
  Value ofHeads = tensor::ExpandShapeOp::create(builder, loc, split, matrix,
                                                ArrayRef<ReassociationIndices>{{0, 1}, {2}});
  return mla::ProjectOp::create(builder, loc, tokens({heads, dim}), hidden, ofHeads,
                                /*bias=*/Value());
}

Value GroupedLayer::buildRows(StringRef projection, StringRef norm, int64_t heads) {
  Value rows = projectHeads(projection, heads);
  if (config.grouped->normalisesHeads)
    rows = mla::RmsNormOp::create(builder, loc, rows.getType(), rows, weight(norm + ".weight"),
                                  builder.getF64FloatAttr(config.rmsNormEps),
                                  builder.getF64FloatAttr(1));
  if (!rope)
    return rows;
  IntegerAttr offset =
      rope.getDim() < config.vHeadDim ? builder.getI64IntegerAttr(0) : IntegerAttr();
  return mla::RopeOp::create(builder, loc, rows.getType(), rows, table, batch, rope, offset,
                             /*inverse=*/false, /*every=*/1,
                             /*codes_group=*/IntegerAttr());
}

func::FuncOp GroupedLayer::buildStep(StringRef name, int64_t queryLen) {
  OpBuilder::InsertionGuard guard(builder);
  auto batchType = mla::BatchType::get(builder.getContext(), queryLen, ShapedType::kDynamic);
  func::FuncOp function = createFunction(name, batchType);
  builder.setInsertionPointToStart(&function.getBody().front());
  if (rope)
    table = mla::RopeTableOp::create(
        builder, loc,
        RankedTensorType::get({ShapedType::kDynamic, rope.getDim()}, builder.getF32Type()), rope);
  int64_t heads = config.numHeads(), kvHeads = config.numKvHeads();
  Value query = buildRows("q_proj", "q_norm", heads);
  Value key = buildRows("k_proj", "k_norm", kvHeads);
  Value value = projectHeads("v_proj", kvHeads);
  Value appended =
      mla::AppendOp::create(builder, loc, cache.getType(), ValueRange{key, value}, cache, batch);
  const GroupedParams &grouped = *config.grouped;
  auto attention = mla::GroupedAttentionOp::create(
      builder, loc, tokens({heads, config.vHeadDim}), /*lse=*/Type(), query, appended, appended,
      batch, weight("sinks"), /*num_splits=*/Value(), builder.getI64IntegerAttr(grouped.window),
      builder.getF64FloatAttr(grouped.softcap), builder.getF64FloatAttr(config.softmaxScale()));
  Value output =
      mla::ProjectOp::create(builder, loc, tokens(config.hiddenSize), attention.getOutput(),
                             weight("o_proj.weight"), weight("o_proj.bias"));
  func::ReturnOp::create(builder, loc, ValueRange{output, appended});
  return function;
}
