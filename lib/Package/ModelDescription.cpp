//===- ModelDescription.cpp - what a package says of its model ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Package/ModelDescription.h"

#include "CacheFormats.h"
#include "StepSizes.h"

#include "mla/Dialect/Mla/IR/MlaDialect.h"
#include "mla/Dialect/Mla/IR/WeightScales.h"
#include "mla/Dialect/Tile/IR/TileDialect.h"
#include "mla/Import/ImportConfig.h"
#include "mla/Package/PlanSerializer.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/InterleavedRange.h"

using namespace mlir;
using namespace mlac;

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

/// Adds a tensor, or checks that the one of that name is the same.
static LogicalResult addTensor(Operation *op, std::vector<std::unique_ptr<package::TensorT>> &list,
                               StringRef name, Type element, ArrayRef<int64_t> shape) {
  std::optional<package::DataType> dtype = getPackageDataType(element);
  if (!dtype)
    return op->emitError("tensor '")
           << name << "' has an element type that packages do not know: " << element;
  for (const std::unique_ptr<package::TensorT> &tensor : list) {
    if (tensor->name != name)
      continue;
    if (tensor->dtype == *dtype && ArrayRef<int64_t>(tensor->shape) == shape)
      return success();
    return op->emitError("tensor '")
           << name << "' has two types: " << package::EnumNameDataType(tensor->dtype) << " ["
           << llvm::interleaved(tensor->shape) << "] and " << package::EnumNameDataType(*dtype)
           << " [" << llvm::interleaved(shape) << "]";
  }
  auto tensor = std::make_unique<package::TensorT>();
  tensor->name = name.str();
  tensor->dtype = *dtype;
  tensor->shape = shape.vec();
  list.push_back(std::move(tensor));
  return success();
}

static LogicalResult addWeights(func::FuncOp function, package::PackageT &package) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto name = function.getArgAttrOfType<StringAttr>(i, mla::kWeightAttr);
    if (!name)
      continue;
    auto type = dyn_cast<RankedTensorType>(function.getArgumentTypes()[i]);
    if (!type || !type.hasStaticShape())
      return function.emitOpError("weight '") << name.getValue() << "' has no static shape";
    if (failed(addTensor(function, package.weights, name, type.getElementType(), type.getShape())))
      return failure();
  }
  return success();
}

LogicalResult mlac::addDerivedTensors(ModuleOp tileModule, package::PackageT &package) {
  WalkResult walk = tileModule.walk([&](tile::BufferOp op) {
    if (op.getKind() != tile::BufferKind::Derived)
      return WalkResult::advance();
    if (!op.getShape()) {
      op.emitOpError("derived tensor '") << op.getName() << "' has no shape";
      return WalkResult::interrupt();
    }
    Type element = cast<MemRefType>(op.getResult().getType()).getElementType();
    return WalkResult(addTensor(op, package.derived, op.getName(), element, *op.getShape()));
  });
  return failure(walk.wasInterrupted());
}

//===----------------------------------------------------------------------===//
// Model
//===----------------------------------------------------------------------===//

static int64_t getDim(Value value, unsigned dim) {
  return cast<RankedTensorType>(value.getType()).getDimSize(dim);
}

/// Columns of the tensor [tokens, columns] that is called `name`; 0 if there is none.
static int64_t findColumns(TypeRange types, StringRef name,
                           llvm::function_ref<StringAttr(unsigned)> getName) {
  for (auto [i, type] : llvm::enumerate(types)) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (StringAttr own = getName(i);
        own && own.getValue() == name && tensor && tensor.getRank() == 2)
      return tensor.getDimSize(1);
  }
  return 0;
}

static int64_t getInputColumns(func::FuncOp function, StringRef name) {
  return findColumns(function.getArgumentTypes(), name, [&](unsigned i) {
    return function.getArgAttrOfType<StringAttr>(i, mla::kInputAttr);
  });
}

/// Of the layer's input, or of its output where it takes latents.
static int64_t getHiddenSize(func::FuncOp function) {
  int64_t columns = getInputColumns(function, "hidden");
  return columns ? columns : findColumns(function.getResultTypes(), "output", [&](unsigned i) {
    return function.getResultAttrOfType<StringAttr>(i, mla::kOutputAttr);
  });
}

static std::unique_ptr<package::PoolT> describePool(StringRef name, mla::CacheType type) {
  auto pool = std::make_unique<package::PoolT>();
  pool->name = name.str();
  pool->format = type.getLayoutName().str();
  // Rows of several element types are bytes.
  const cache::Format &format = type.getLayout();
  Type storage = type.getStorageType(format.fields[0].storage);
  for (size_t i = 1; i < format.numFields; ++i)
    if (type.getStorageType(format.fields[i].storage) != storage)
      storage = IntegerType::get(type.getContext(), 8);
  pool->dtype = *getPackageDataType(storage);
  pool->element = *getPackageDataType(type.getElement());
  pool->page_size = type.getPageSize();
  for (const mla::CacheField &field : type.getFields()) {
    auto described = std::make_unique<package::PoolFieldT>();
    described->name = cache::partName(field.part);
    described->heads = field.heads;
    described->columns = field.columns;
    pool->fields.push_back(std::move(described));
  }
  pool->rope_order = stringifyRopeOrder(type.getRopeOrder()).str();
  pool->row_bytes = type.getRowBytes();
  pool->tokens_per_row = type.getTokensPerRow();
  pool->window = type.getWindow();
  return pool;
}

//===----------------------------------------------------------------------===//
// Pools
//===----------------------------------------------------------------------===//

namespace {
/// A cache argument that is a pool of the layer's.
struct PoolUse {
  StringRef name;
  mla::CacheType type;
};
} // namespace

/// What plans call a pool without a name (convert-mla-to-tile).
static constexpr StringLiteral kFirstPool = "cache";

/// Memory of the caller's, pages of the host, is no pool.
static std::optional<PoolUse> getPoolUse(func::FuncOp function, unsigned index) {
  auto type = dyn_cast<mla::CacheType>(function.getArgumentTypes()[index]);
  if (!type || function.getArgAttr(index, "mla.input") || function.getArgAttr(index, "mla.output"))
    return std::nullopt;
  auto name = function.getArgAttrOfType<StringAttr>(index, mla::kPoolAttr);
  return PoolUse{name ? name.getValue() : StringRef(kFirstPool), type};
}

/// Every pool of the module's functions, the one without a name first.
static FailureOr<SmallVector<PoolUse>> collectPools(ModuleOp module) {
  SmallVector<PoolUse> pools;
  for (func::FuncOp function : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      std::optional<PoolUse> use = getPoolUse(function, i);
      if (!use)
        continue;
      auto *known = llvm::find_if(pools, [&](const PoolUse &p) { return p.name == use->name; });
      if (known == pools.end())
        pools.insert(use->name == kFirstPool ? pools.begin() : pools.end(), *use);
      else if (known->type != use->type)
        return function.emitOpError("expected one type of the pool '")
               << use->name << "' in a package, got " << use->type << " after " << known->type;
    }
  if (pools.empty())
    return module.emitError("expected a function with a cache argument, found none");
  if (pools.size() > step::kMaxPools)
    return module.emitError("expected at most ")
           << step::kMaxPools << " pools in a package, got " << pools.size();
  if (!pools.front().type.keepsAllTokens())
    return module.emitError("expected the first pool to have a row of every token, '")
           << pools.front().name
           << "' has tokens_per_row = " << pools.front().type.getTokensPerRow()
           << ", window = " << pools.front().type.getWindow();
  return pools;
}

/// Without a table in the module nothing is rotated: frequencies of zero.
static std::unique_ptr<package::RopeSpecT> describeRope(mla::RopeAttr attr, int64_t positions,
                                                        int64_t dim) {
  auto rope = std::make_unique<package::RopeSpecT>();
  rope->length = positions;
  rope->multiplier = 1.0f;
  if (!attr) {
    rope->inv_freq.assign(dim / 2, 0.0f);
    return rope;
  }
  RopeTable table = computeRopeTable(attr);
  rope->inv_freq = table.inverseFrequencies;
  rope->inv_freq_long = table.longInverseFrequencies;
  rope->short_length = table.shortLength;
  rope->multiplier = table.multiplier;
  rope->length = table.length;
  return rope;
}

/// What attends in a module: a layer's attention, or attention alone over a cache.
static bool isAttention(Operation *op) {
  if (auto sparse = dyn_cast<mla::SparseAttentionOp>(op))
    return static_cast<bool>(sparse.getCache());
  return isa<mla::AttentionOp, mla::AbsorbedAttentionOp, mla::GroupedAttentionOp>(op);
}

/// What moves or finds rows of the cache: describes a package that does nothing else.
static bool movesRows(Operation *op) {
  return isa<mla::AppendOp, mla::GatherOp, mla::ConvertIndicesOp, mla::IndexScoresOp>(op);
}

static mla::CacheType getCacheType(Operation *op) {
  return llvm::TypeSwitch<Operation *, mla::CacheType>(op)
      .Case<mla::AttentionOp, mla::AbsorbedAttentionOp, mla::AppendOp, mla::GatherOp,
            mla::ConvertIndicesOp, mla::SparseAttentionOp, mla::IndexScoresOp>(
          [](auto typed) { return typed.getCache().getType(); })
      .Case([](mla::GroupedAttentionOp op) { return op.getKeyCache().getType(); });
}

/// Behind heads and values; those of attention alone are as wide as its outputs.
static void describeHidden(Operation *attention, package::ModelT &model) {
  int64_t hidden = getHiddenSize(attention->getParentOfType<func::FuncOp>());
  model.hidden_size = hidden > 0 ? hidden : model.num_heads * model.v_head_dim;
}

static void describeLayer(mla::AttentionOp attention, package::ModelT &model) {
  model.num_heads = getDim(attention.getQNope(), 1);
  model.qk_nope_head_dim = getDim(attention.getQNope(), 2);
  model.v_head_dim = getDim(attention.getWUv(), 1);
  describeHidden(attention, model);
  model.softmax_scale = static_cast<float>(attention.getScale().convertToDouble());
}

/// Attention alone: queries and outputs are latents of every head.
template <typename OpTy>
static void describeLatentAttention(OpTy attention, package::ModelT &model) {
  model.num_heads = getDim(attention.getQLat(), 1);
  model.qk_nope_head_dim = model.v_head_dim = getDim(attention.getQLat(), 2);
  describeHidden(attention, model);
  model.softmax_scale = static_cast<float>(attention.getScale().convertToDouble());
}

/// The same over keys and values of groups of heads.
static void describeGroups(mla::GroupedAttentionOp attention, package::ModelT &model) {
  model.num_heads = attention.getHeads();
  model.qk_nope_head_dim = getDim(attention.getQuery(), 2);
  model.v_head_dim = getDim(attention.getOutput(), 2);
  describeHidden(attention, model);
  model.softmax_scale = static_cast<float>(attention.getScale().convertToDouble());
}

/// Rows alone: heads as wide as the row's first field.
static void describeRows(mla::CacheType cache, package::ModelT &model) {
  const mla::CacheField &field = cache.getFields().front();
  model.num_heads = field.heads;
  model.qk_nope_head_dim = model.v_head_dim = field.columns;
  model.hidden_size = field.getWidth();
  model.softmax_scale = 1;
}

static std::unique_ptr<package::ModelT>
describeAttention(Operation *attention, const package::PackageT &package, mla::ModelAttr origin) {
  auto model = std::make_unique<package::ModelT>();
  if (auto layer = dyn_cast<mla::AttentionOp>(attention))
    describeLayer(layer, *model);
  else if (movesRows(attention))
    describeRows(getCacheType(attention), *model);
  else if (auto groups = dyn_cast<mla::GroupedAttentionOp>(attention))
    describeGroups(groups, *model);
  else if (auto sparse = dyn_cast<mla::SparseAttentionOp>(attention))
    describeLatentAttention(sparse, *model);
  else
    describeLatentAttention(cast<mla::AbsorbedAttentionOp>(attention), *model);
  model->model_type = origin.getType().str();
  model->tensor_parallel = origin.getRanks();
  for (const std::unique_ptr<package::TensorT> &tensor : package.weights)
    if (tensor->name == "q_a_proj.weight")
      model->q_lora_rank = tensor->shape[0];
  if (auto function = attention->getParentOfType<func::FuncOp>(); model->q_lora_rank == 0)
    model->q_lora_rank = getInputColumns(function, "q_latent");
  mla::CacheType cache = getCacheType(attention);
  model->kv_lora_rank = cache.getKvLoraRank();
  model->qk_rope_head_dim = cache.getQkRopeHeadDim();
  model->activation_dtype = *getPackageDataType(cache.getElement());
  model->config_json = origin.getConfig().str();
  return model;
}

mla::ModelAttr mlac::getModel(ModuleOp module) {
  if (auto model = module->getAttrOfType<mla::ModelAttr>(mla::kModelAttr))
    return model;
  constexpr int64_t kRanks = 1, kPositions = 131072; // as in the attribute's description
  return mla::ModelAttr::get(module.getContext(), module.getSymName().value_or("custom"), kRanks,
                             kPositions, "", "");
}

/// An engine has one table, whichever function reads it.
static LogicalResult verifySameTable(mla::RopeTableOp op, mla::RopeAttr first) {
  if (op.getRope() == first)
    return success();
  RopeTable table = computeRopeTable(op.getRope()), other = computeRopeTable(first);
  if (table.inverseFrequencies == other.inverseFrequencies &&
      table.longInverseFrequencies == other.longInverseFrequencies &&
      table.shortLength == other.shortLength && table.multiplier == other.multiplier)
    return success();
  return op.emitError("a package has one rotary table, and another function has one of ")
         << first << "; got " << op.getRope();
}

/// Of a module without attention and caches: where its functions begin.
static LogicalResult refuseModule(ModuleOp module) {
  SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
  Location loc = functions.empty() ? module.getLoc() : functions.front().getLoc();
  InFlightDiagnostic error = emitError(loc)
                             << "expected a function with an mla.attention, an "
                                "mla.absorbed_attention, an mla.grouped_attention, an "
                                "mla.sparse_attention over a cache, an mla.append or an "
                                "mla.gather, found none";
  if (!functions.empty()) {
    error << " in ";
    llvm::interleaveComma(functions, error, [&](func::FuncOp function) {
      error << "'" << function.getSymName() << "'";
    });
  }
  return error << ": a package describes its model by it";
}

LogicalResult mlac::describeModel(ModuleOp module, package::PackageT &package) {
  Operation *attention = nullptr, *rows = nullptr;
  mla::RopeAttr rope;
  for (func::FuncOp function : module.getOps<func::FuncOp>()) {
    if (failed(addWeights(function, package)))
      return failure();
    function.walk([&](Operation *op) {
      if (!attention && isAttention(op))
        attention = op;
    });
    function.walk([&](Operation *op) {
      if (!rows && movesRows(op))
        rows = op;
    });
    WalkResult alike = function.walk([&](mla::RopeTableOp op) {
      rope = rope ? rope : op.getRope();
      return succeeded(verifySameTable(op, rope)) ? WalkResult::advance() : WalkResult::interrupt();
    });
    if (alike.wasInterrupted())
      return failure();
  }
  attention = attention ? attention : rows;
  if (!attention)
    return refuseModule(module);
  FailureOr<SmallVector<PoolUse>> pools = collectPools(module);
  if (failed(pools))
    return failure();
  if (auto block = module->getAttrOfType<DenseI64ArrayAttr>(mla::kWeightScalesAttr)) {
    package.weight_scales = std::make_unique<package::WeightScalesT>();
    package.weight_scales->rows = block[0];
    package.weight_scales->columns = block[1];
  }
  for (const PoolUse &pool : *pools)
    package.pools.push_back(describePool(pool.name, pool.type));
  package.model = describeAttention(attention, package, getModel(module));
  if (rope)
    package.model->qk_rope_head_dim = rope.getDim();
  package.rope =
      describeRope(rope, getModel(module).getPositions(), package.model->qk_rope_head_dim);
  return success();
}
