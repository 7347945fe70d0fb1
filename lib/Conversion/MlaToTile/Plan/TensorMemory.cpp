//===- TensorMemory.cpp - where the tensors of a step lie ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The buffers of a plan, and the choice of a tensor's buffer by its uses (the table
// in StepLowering.h).
//
//===----------------------------------------------------------------------===//

#include "Plan/StepLowering.h"

#include "CacheFormats.h"
#include "StepSizes.h"

#include "mla/Dialect/Mla/IR/InputLayout.h"

#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

/// What a plan calls the pool of a cache without a name.
static constexpr StringLiteral kFirstPool = "cache";

int64_t TensorRef::size(int64_t dim) const {
  std::optional<int64_t> known = getConstantIntValue(sizes[dim]);
  assert(known && "a size that the op's verifier keeps static is dynamic");
  return *known;
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

/// Creates `create(builder)` in the head of the plan, where dims and buffers are.
template <typename Create>
static Value createInHeader(OpBuilder &builder, tile::PlanOp plan, Operation *&last,
                            Create create) {
  OpBuilder::InsertionGuard guard(builder);
  if (last)
    builder.setInsertionPointAfter(last);
  else
    builder.setInsertionPointToStart(&plan.getBody().front());
  Operation *op = create();
  last = op;
  return op->getResult(0);
}

Value StepLowering::dim(StringRef name) {
  Value &value = dims[name];
  if (!value)
    value = createInHeader(builder, planOp, lastHeader, [&]() -> Operation * {
      return tile::DimOp::create(builder, loc, builder.getIndexType(), builder.getStringAttr(name));
    });
  return value;
}

Value StepLowering::constant(int64_t value) {
  Value &known = constants[value];
  if (!known)
    known = createInHeader(builder, planOp, lastHeader, [&]() -> Operation * {
      return arith::ConstantIndexOp::create(builder, loc, value);
    });
  return known;
}

Value StepLowering::addBuffer(tile::BufferKind kind, StringRef name, Type element,
                              ArrayRef<int64_t> shape, Value elements) {
  // A pool is the memory of all types of its fields.
  std::string key = (tile::stringifyBufferKind(kind) + ":" + name).str();
  if (kind == tile::BufferKind::Cache)
    llvm::raw_string_ostream(key) << ":" << element;
  Value &value = buffers[key];
  if (!value)
    value = createInHeader(builder, planOp, lastHeader, [&]() -> Operation * {
      auto shapeAttr = shape.empty() ? nullptr : builder.getDenseI64ArrayAttr(shape);
      return tile::BufferOp::create(builder, loc, MemRefType::get({ShapedType::kDynamic}, element),
                                    tile::BufferKindAttr::get(builder.getContext(), kind),
                                    builder.getStringAttr(name), shapeAttr, elements);
    });
  return value;
}

/// An input or output: the memory of `tensor`, which the caller binds whole.
Value StepLowering::addCallers(tile::BufferKind kind, StringRef name, Value tensor) {
  int64_t fixed = 1;
  Value elements;
  for (OpFoldResult size : sizesOf(tensor)) {
    if (std::optional<int64_t> known = getConstantIntValue(size))
      fixed *= *known;
    else if (!elements)
      elements = dyn_cast<Value>(size);
    else
      return addBuffer(kind, name, cast<ShapedType>(tensor.getType()).getElementType());
  }
  // Tensors of a step have the rows of a dim, which is in the header like the buffer.
  if (elements && !elements.getDefiningOp<tile::DimOp>())
    return addBuffer(kind, name, cast<ShapedType>(tensor.getType()).getElementType());
  Value perRow = constant(fixed);
  if (elements)
    elements = createInHeader(builder, planOp, lastHeader, [&]() -> Operation * {
      return arith::MulIOp::create(builder, loc, elements, perRow);
    });
  return addBuffer(kind, name, cast<ShapedType>(tensor.getType()).getElementType(), {},
                   elements ? elements : perRow);
}

Value StepLowering::metadata(StringRef name) {
  std::string_view base = mlac::step::splitName(std::string_view(name)).name;
  const auto *known = mlac::step::find(mlac::step::kMetadata, base);
  assert(known && "metadata that StepSizes.def does not list");
  return addBuffer(tile::BufferKind::Metadata, name, builder.getIntegerType(known->bits));
}

/// The name under which the runtime provides `name` of a part of the batch.
static StringRef nameOfPart(Value batch, StringRef name) {
  using mlac::step::Part;
  if (auto prefix = batch.getDefiningOp<mla::SharePrefixOp>()) {
    bool isShared = batch == prefix.getShared();
    if (StringRef ofShared = mlac::step::nameOfPart(Part::SharedPrefix, name);
        isShared && ofShared != name)
      return ofShared;
    // Its query is made of all rows.
    bool isQuery = isShared && name == "max_query_len";
    return nameOfPart(prefix.getBatch(), isQuery ? StringRef("num_tokens") : name);
  }
  auto part = batch.getDefiningOp<mla::BatchPartOp>();
  if (!part)
    return name;
  bool isDecodes = part.getPart() == mla::BatchPart::Decodes;
  return mlac::step::nameOfPart(isDecodes ? Part::Decodes : Part::Prefills, name);
}

Value StepLowering::partRows(mla::PartRowsOp op) { return dim(op.getPart(), "num_tokens"); }

Value StepLowering::dim(Value batch, StringRef name) {
  if (name == "num_requests" && mla::SharePrefixOp::ofShared(batch))
    return constant(1);
  return dim(nameOfPart(batch, name));
}

Value StepLowering::metadata(Value batch, StringRef name) {
  return metadata(nameOfPart(batch, name));
}

Value StepLowering::ropeTable() {
  return addBuffer(tile::BufferKind::RopeTable, "rope_table", builder.getF32Type());
}

/// Elements of the pool's first field, which a step's `cache` is.
static Type firstElement(mla::CacheType type) {
  return type.getStorageType(type.getLayout().fields[0].storage);
}

Value StepLowering::cacheMemory(Value value, Type element) {
  if (element == firstElement(cast<mla::CacheType>(value.getType())))
    return cache(value);
  return addBuffer(tile::BufferKind::Cache, cache(value).getDefiningOp<tile::BufferOp>().getName(),
                   element);
}

Value StepLowering::cacheScales(Value value) {
  int64_t count = cast<mla::CacheType>(value.getType()).getLayout().layerScales;
  StringRef pool = cache(value).getDefiningOp<tile::BufferOp>().getName();
  return addBuffer(tile::BufferKind::CacheScale,
                   (pool + Twine(mlac::step::kOfPool) + "scale").str(), builder.getF32Type(),
                   {count});
}

/// What the runtime calls a size or an array of the cache's pool.
std::string StepLowering::nameInPool(Value value, StringRef name) {
  StringRef pool = cache(value).getDefiningOp<tile::BufferOp>().getName();
  return pool == kFirstPool ? name.str() : (pool + Twine(mlac::step::kOfPool) + name).str();
}

Value StepLowering::poolDim(Value cache, StringRef name) { return dim(nameInPool(cache, name)); }

Value StepLowering::poolMetadata(Value cache, Value batch, StringRef name) {
  return metadata(nameInPool(cache, nameOfPart(batch, name)));
}

Value StepLowering::mostRows(Value cache, Value batch) {
  return divide(dim(batch, "max_seq_len"), cast<mla::CacheType>(cache.getType()).getTokensPerRow());
}

TensorRef StepLowering::contiguous(Value buffer, ArrayRef<OpFoldResult> sizes) const {
  TensorRef ref{.buffer = buffer, .sizes = llvm::to_vector<4>(sizes)};
  ref.strides.resize(sizes.size());
  int64_t stride = 1;
  for (int64_t i = sizes.size() - 1; i >= 0; --i) {
    ref.strides[i] = stride;
    std::optional<int64_t> size = getConstantIntValue(sizes[i]);
    stride = ShapedType::isDynamic(stride) || !size ? ShapedType::kDynamic : stride * *size;
  }
  return ref;
}

TensorRef StepLowering::workspace(ArrayRef<OpFoldResult> sizes, Type element) {
  int64_t fixed = 1;
  Value elements;
  for (OpFoldResult size : sizes) {
    if (std::optional<int64_t> known = getConstantIntValue(size))
      fixed *= *known;
    else
      elements =
          elements ? builder.createOrFold<arith::MulIOp>(loc, elements, value(size)) : value(size);
  }
  elements = elements ? multiply(elements, fixed) : constant(fixed);
  Value buffer = tile::WorkspaceOp::create(
      builder, loc, MemRefType::get({ShapedType::kDynamic}, element), elements);
  return contiguous(buffer, sizes);
}

TensorRef StepLowering::alignedRows(ArrayRef<OpFoldResult> sizes, Type element) {
  int64_t elements = kRowAlignment / llvm::divideCeil(element.getIntOrFloatBitWidth(), 8);
  SmallVector<OpFoldResult> padded(sizes);
  padded.back() = builder.getIndexAttr(llvm::alignTo(*getConstantIntValue(sizes.back()), elements));
  TensorRef rows = workspace(padded, element);
  rows.sizes.assign(sizes.begin(), sizes.end());
  return rows;
}

bool StepLowering::extendBuffer(Value buffer, int64_t elements) {
  auto workspace = buffer.getDefiningOp<tile::WorkspaceOp>();
  if (!workspace)
    return false;
  int64_t &behind = elementsBehind[workspace];
  if (behind < elements) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(workspace);
    Value more = arith::ConstantIndexOp::create(builder, loc, elements - behind);
    workspace.getElementsMutable().assign(
        arith::AddIOp::create(builder, loc, workspace.getElements(), more));
    behind = elements;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

/// Whether `use` is that of latent queries, whose strides attention takes, or of a size.
static bool takesHeadsOutermost(OpOperand &use) {
  return llvm::TypeSwitch<Operation *, bool>(use.getOwner())
      .Case<mla::AbsorbedAttentionOp, mla::SparseAttentionOp>(
          [&](auto attention) { return &use == &attention.getQLatMutable(); })
      .Case<tensor::DimOp>([](auto) { return true; })
      .Default([](Operation *) { return false; });
}

/// Whoever cannot read [N, T, C] would read the wrong elements.
static LogicalResult checkHeadsOutermost(BlockArgument argument) {
  for (OpOperand &use : argument.getUses())
    if (!takesHeadsOutermost(use))
      return use.getOwner()->emitOpError("cannot read argument ")
             << argument.getArgNumber() << ", which is marked " << mla::kHeadsOutermostAttr
             << ": expected it to be the latent queries of mla.absorbed_attention or "
                "mla.sparse_attention alone";
  return success();
}

LogicalResult StepLowering::bindTensor(BlockArgument argument) {
  auto type = cast<RankedTensorType>(argument.getType());
  unsigned index = argument.getArgNumber();
  auto bind = [&](Value buffer) {
    TensorRef ref = contiguous(buffer, sizesOf(argument));
    if (func.getArgAttr(index, mla::kHeadsOutermostAttr)) {
      if (failed(checkHeadsOutermost(argument)))
        return failure();
      ref.strides = {ref.size(2), ShapedType::kDynamic, 1};
    }
    setView(argument, std::move(ref));
    return success();
  };
  if (auto name = func.getArgAttrOfType<StringAttr>(index, mla::kInputAttr))
    return bind(addCallers(tile::BufferKind::Input, name, argument));
  auto weight = func.getArgAttrOfType<StringAttr>(index, mla::kWeightAttr);
  auto derived = func.getArgAttrOfType<StringAttr>(index, mla::kDerivedAttr);
  if (!weight && !derived)
    return func.emitOpError("expected argument ")
           << index << " to be marked mla.input, mla.weight or mla.derived";
  if (!type.hasStaticShape())
    return func.emitOpError("expected argument ")
           << index << " to have a static shape, got " << type;
  tile::BufferKind kind = weight ? tile::BufferKind::Weight : tile::BufferKind::Derived;
  return bind(addBuffer(kind, weight ? weight : derived, type.getElementType(), type.getShape()));
}

Type mlac::mla_to_tile::getPageWord(mla::CacheType type) {
  Type word = firstElement(type);
  const mlac::cache::Format &format = type.getLayout();
  for (size_t i = 0; i < format.numFields; ++i)
    if (Type element = type.getStorageType(format.fields[i].storage); element.isBF16())
      word = element;
  return word;
}

/// The layer's pool, or memory of the caller's that holds such pages.
Value StepLowering::bindCache(BlockArgument argument, mla::CacheType type) {
  unsigned index = argument.getArgNumber();
  for (auto [mark, kind] : {std::pair(mla::kInputAttr, tile::BufferKind::Input),
                            std::pair(mla::kOutputAttr, tile::BufferKind::Output)})
    if (auto name = func.getArgAttrOfType<StringAttr>(index, mark))
      return addBuffer(kind, name, getPageWord(type));
  auto pool = func.getArgAttrOfType<StringAttr>(index, mla::kPoolAttr);
  return addBuffer(tile::BufferKind::Cache, pool ? pool.getValue() : StringRef(kFirstPool),
                   firstElement(type));
}

/// Two arguments that are one pool would be one memory.
LogicalResult StepLowering::checkPools() {
  llvm::StringMap<unsigned> arguments;
  for (BlockArgument argument : func.getArguments()) {
    unsigned index = argument.getArgNumber();
    if (!isa<mla::CacheType>(argument.getType()) || func.getArgAttr(index, mla::kInputAttr) ||
        func.getArgAttr(index, mla::kOutputAttr))
      continue;
    StringRef name;
    if (auto pool = func.getArgAttrOfType<StringAttr>(index, mla::kPoolAttr)) {
      name = pool;
      if (name.empty() || name == kFirstPool || name.contains(mlac::step::kOfPool))
        return func.emitOpError("expected ")
               << mla::kPoolAttr << " of argument " << index << " to be a name without '"
               << mlac::step::kOfPool << "' and not '" << kFirstPool << "', got " << pool;
    }
    auto [known, isNew] = arguments.try_emplace(name, index);
    if (isNew)
      continue;
    auto diag = func.emitOpError("expected the caches of arguments ")
                << known->second << " and " << index << " to be marked " << mla::kPoolAttr
                << " with names of their own, got ";
    return name.empty() ? diag << "none" : diag << "'" << name << "' twice";
  }
  return success();
}

LogicalResult StepLowering::bindArguments() {
  if (failed(checkPools()))
    return failure();
  for (BlockArgument argument : func.getArguments()) {
    Type type = argument.getType();
    if (isa<RankedTensorType>(type)) {
      if (failed(bindTensor(argument)))
        return failure();
    } else if (auto cacheType = dyn_cast<mla::CacheType>(type)) {
      caches[argument] = bindCache(argument, cacheType);
    } else if (!isa<mla::BatchType>(type)) {
      return func.emitOpError("expected argument ")
             << argument.getArgNumber() << " to be a tensor, a batch or a cache, got " << type;
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The memory of a result
//===----------------------------------------------------------------------===//

/// The number of rows that a dynamic dimension of `tensor` stands for: those of
/// a chunk for what is computed from a gather, those of the decodes for what is
/// computed from their rows, else the step's tokens.
Value StepLowering::dynamicRows(Value tensor) {
  auto result = dyn_cast<OpResult>(tensor);
  if (!result) {
    auto argument = cast<BlockArgument>(tensor);
    auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
    if (loop)
      return dynamicRows(loop.getTiedLoopInit(argument)->get());
    // Of what a caller binds, one thing has rows of requests.
    bool isOfRequests = llvm::any_of(argument.getUsers(), [&](Operation *user) {
      auto convert = dyn_cast<mla::ConvertIndicesOp>(user);
      return convert && convert.getWorkspaceStarts() == argument;
    });
    return dim(isOfRequests ? "num_requests" : "num_tokens");
  }
  unsigned index = result.getResultNumber();
  return llvm::TypeSwitch<Operation *, Value>(result.getOwner())
      .Case<mla::GatherOp>([&](auto gather) {
        return dim(gather.getBatch(), gather.getWhole() ? "gather_rows" : "chunk_tokens");
      })
      .Case<tensor::EmptyOp>([&](auto empty) { return scalar(empty.getDynamicSizes().front()); })
      .Case<mla::ExpandedAttentionOp>([&](auto attention) {
        return mla::SharePrefixOp::ofShared(attention.getBatch())
                   ? dynamicRows(attention.getQNope())
                   : dim("num_tokens");
      })
      .Case<mla::PartRowsOp>([&](auto rows) { return partRows(rows); })
      .Case<mla::ProjectOp, mla::RmsNormOp, mla::LatentProjectOp, mla::HeadProjectOp, mla::RopeOp,
            mla::GroupedAppendOp, mla::AbsorbedAttentionOp, mla::GroupedAttentionOp,
            mla::SparseAttentionOp, mla::LayerNormOp, mla::HadamardOp, mla::QuantizeOp,
            mla::RoundMxfp4Op, mla::CodedRowsOp, mla::IndexWeightsOp, mla::IndexQueryOp,
            mla::NormRopeOp, mla::IndexScoresOp, mla::MergeSplitsOp, mla::MergeOp,
            mla::MarkSelectedOp, mla::ConvertLseOp, tensor::ExtractSliceOp, tensor::ExpandShapeOp,
            tensor::CollapseShapeOp>([&](auto op) { return dynamicRows(op->getOperand(0)); })
      .Case<mla::SumPartsOp>([&](auto op) { return dynamicRows(op.getYielded(result)); })
      .Case<scf::IfOp>([&](auto op) { return dynamicRows(op.thenYield().getOperand(index)); })
      .Case<scf::ForOp>([&](auto op) { return dynamicRows(op.getInitArgs()[index]); })
      .Default([&](Operation *) { return dim("num_tokens"); });
}

/// How many splits the partials of an attention are of; null where they are of none.
static Value findSplits(Value tensor) {
  if (auto absorbed = tensor.getDefiningOp<mla::AbsorbedAttentionOp>())
    return absorbed.getNumSplits();
  if (auto sparse = tensor.getDefiningOp<mla::SparseAttentionOp>())
    return sparse.getNumSplits();
  auto grouped = tensor.getDefiningOp<mla::GroupedAttentionOp>();
  return grouped ? grouped.getNumSplits() : Value();
}

/// Whether the caller binds `tensor` as the scores of a selection, [T, S].
static bool isBoundScores(Value tensor) {
  return isa<BlockArgument>(tensor) && llvm::any_of(tensor.getUsers(), [&](Operation *user) {
           auto select = dyn_cast<mla::TopKOp>(user);
           return select && select.getScores() == tensor;
         });
}

/// A column for each key of the longest request, in whole blocks of keys.
Value StepLowering::scoreColumns(mla::IndexScoresOp op) {
  constexpr int64_t block = 64; // "a multiple of 64" (mla.index_scores)
  return multiply(ceilDiv(mostRows(op.getCache(), op.getBatch()), block), block);
}

SmallVector<OpFoldResult> StepLowering::sizesOf(Value tensor) {
  auto type = cast<RankedTensorType>(tensor.getType());
  SmallVector<OpFoldResult> sizes;
  for (int64_t size : type.getShape())
    sizes.push_back(ShapedType::isDynamic(size) ? OpFoldResult(dynamicRows(tensor))
                                                : OpFoldResult(builder.getIndexAttr(size)));
  if (Value splits = findSplits(tensor)) // [splits, T, N, …]
    sizes[0] = getAsOpFoldResult(scalar(splits));
  if (isBoundScores(tensor) && type.isDynamicDim(1))
    sizes[1] = dim("max_seq_len");
  if (auto marks = tensor.getDefiningOp<mla::MarkSelectedOp>()) {
    StringRef keys = marks.getChunk() ? "chunk_request_tokens" : "max_query_len";
    sizes[1] = OpFoldResult(ceilDiv(dim(marks.getBatch(), keys), tile::AttendOp::kWordKeys));
  }
  if (auto scores = tensor.getDefiningOp<mla::IndexScoresOp>()) {
    sizes[1] = OpFoldResult(scoreColumns(scores));
    if (scores.getRows())
      sizes[0] = getAsOpFoldResult(scalar(scores.getRows()));
  }
  return sizes;
}

/// The operands whose memory `tensor` may take, elements in the same places: merging, and
/// attention that goes on from a partial, read each element before they write it; attention of a
/// chunk's requests and selections of a slice leave those of others.
static SmallVector<Value, 2> findReplaceable(Value tensor) {
  if (auto merge = tensor.getDefiningOp<mla::MergeOp>())
    return tensor == merge.getOutput() ? SmallVector<Value, 2>{merge.getA(), merge.getB()}
                                       : SmallVector<Value, 2>{merge.getALse(), merge.getBLse()};
  if (auto attention = tensor.getDefiningOp<mla::ExpandedAttentionOp>())
    return {tensor == attention.getOutput() ? attention.getPartial() : attention.getPartialLse()};
  if (auto sparse = tensor.getDefiningOp<mla::SparseAttentionOp>(); sparse && sparse.getOnto())
    return {sparse.getOnto()};
  if (auto select = tensor.getDefiningOp<mla::TopKOp>(); select && select.getOnto())
    return {select.getOnto()};
  return {};
}

/// Whether `tensor`, yielded by a loop as carried value `carried`, may be written over it.
static bool isUpdatedInPlace(Value tensor, BlockArgument carried) {
  return carried.hasOneUse() && tensor.getParentBlock() == carried.getOwner() &&
         tensor.getType() == carried.getType() &&
         llvm::is_contained(findReplaceable(tensor), carried);
}

std::optional<TensorRef> StepLowering::returnDestination(Value tensor, unsigned index) {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (auto name = func.getResultAttrOfType<StringAttr>(index, mla::kOutputAttr))
    return contiguous(addCallers(tile::BufferKind::Output, name, tensor), sizesOf(tensor));
  if (auto name = func.getResultAttrOfType<StringAttr>(index, mla::kDerivedAttr))
    return contiguous(
        addBuffer(tile::BufferKind::Derived, name, type.getElementType(), type.getShape()),
        sizesOf(tensor));
  return std::nullopt;
}

std::optional<TensorRef> StepLowering::destination(Value tensor) {
  for (OpOperand &use : tensor.getUses()) {
    Operation *user = use.getOwner();
    unsigned index = use.getOperandNumber();
    if (isa<func::ReturnOp>(user))
      return returnDestination(tensor, index);
    if (isa<mla::JoinPartsOp>(user))
      return allocate(user->getResult(0));
    if (isa<mla::YieldOp>(user))
      return allocate(user->getParentOp()->getResult(index));
    if (!isa<scf::YieldOp>(user) || user->getBlock() != tensor.getParentBlock())
      continue;
    if (auto ifOp = dyn_cast<scf::IfOp>(user->getParentOp()))
      return lookup(ifOp.getResult(index));
    auto loop = cast<scf::ForOp>(user->getParentOp());
    if (isUpdatedInPlace(tensor, loop.getRegionIterArg(index)))
      return lookup(loop.getResult(index));
  }
  if (!tensor.hasOneUse())
    return std::nullopt;
  OpOperand &use = *tensor.use_begin();
  auto loop = dyn_cast<scf::ForOp>(use.getOwner());
  if (!loop || loop->getBlock() != tensor.getParentBlock())
    return std::nullopt;
  return allocate(loop.getTiedLoopResult(&use));
}

TensorRef StepLowering::allocate(Value tensor) {
  auto known = tensors.find(tensor);
  if (known != tensors.end())
    return known->second;
  std::optional<TensorRef> ref = destination(tensor);
  if (!ref)
    ref = workspace(sizesOf(tensor), cast<RankedTensorType>(tensor.getType()).getElementType());
  tensors[tensor] = *ref;
  return *ref;
}
