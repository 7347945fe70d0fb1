//===- ChunkContext.cpp - mla-chunk-context ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Expanded attention needs keys and values of every attended token, far more
// bytes than their latents. So the cached context is gathered, up-projected and
// attended to in chunks of bounded size, and partial results are joined by
// their LSE (mla.md section 9). Assumes that forms are chosen; afterwards no
// expanded mla.attention remains. Idea: vLLM's chunked-context prefill.
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Mla/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::mla {
#define GEN_PASS_DEF_MLACHUNKCONTEXT
#include "mla/Dialect/Mla/Transforms/Passes.h.inc"
} // namespace mlir::mla

using namespace mlir;
using namespace mlir::mla;

namespace {

/// Keys and values of every head for some token rows.
struct HeadRows {
  Value keyNope, keyRope, value;
};

/// An output [T, N, V] and its LSE (null if not computed).
struct Partial {
  Value output, lse;
};

/// Decomposes one attention. The emit functions take a builder because they
/// emit into different regions.
class Decomposition {
public:
  explicit Decomposition(AttentionOp attention);

  void run();

private:
  HeadRows emitUpProjection(OpBuilder &builder, Value latent, Value keyRope);
  Value emitMarks(OpBuilder &builder, Value chunk);
  Partial emitAttention(OpBuilder &builder, const HeadRows &keys, Value chunk, Type outputType,
                        Type lseType);
  Partial emitPartial(OpBuilder &builder, const HeadRows &keys, Value chunk) {
    return emitAttention(builder, keys, chunk, partialType, partialLseType);
  }
  Partial emitMerge(OpBuilder &builder, const Partial &prefix, const Partial &suffix,
                    Type outputType, Type lseType);
  Partial emitChunk(OpBuilder &builder, Value chunk);
  Partial emitContext(OpBuilder &builder, Value numChunks);
  Partial emitSharedPrefix(OpBuilder &builder, Value numChunks);
  /// The final results with and without cached context.
  SmallVector<Value> emitWithContext(OpBuilder &builder, const HeadRows &newRows, Value numChunks);
  SmallVector<Value> emitWithoutContext(OpBuilder &builder, const HeadRows &newRows);
  Value emitIndex(OpBuilder &builder, int64_t value) {
    return arith::ConstantIndexOp::create(builder, loc, value);
  }

  AttentionOp attention;
  Location loc;
  /// f32 [T, N, V] and token-major f32 [T, N]: what merges take and give.
  RankedTensorType partialType, partialLseType;
};

} // namespace

Decomposition::Decomposition(AttentionOp attention)
    : attention(attention), loc(attention.getLoc()) {
  auto outputType = cast<RankedTensorType>(attention.getOutput().getType());
  Type f32 = Float32Type::get(attention.getContext());
  partialType = RankedTensorType::get(outputType.getShape(), f32);
  auto encoding =
      LseAttr::get(attention.getContext(), LseBase::E, LseLayout::TokenMajor, LseEmpty::NegInf);
  partialLseType = RankedTensorType::get(outputType.getShape().drop_back(), f32, encoding);
}

HeadRows Decomposition::emitUpProjection(OpBuilder &builder, Value latent, Value keyRope) {
  auto latentType = cast<RankedTensorType>(latent.getType());
  auto project = [&](Value weight) -> Value {
    auto weightType = cast<RankedTensorType>(weight.getType());
    auto type = RankedTensorType::get(
        {latentType.getDimSize(0), weightType.getDimSize(0), weightType.getDimSize(1)},
        latentType.getElementType());
    return ProjectOp::create(builder, loc, type, latent, weight, /*bias=*/Value());
  };
  Value keyNope = project(attention.getWUk());
  Value values = project(attention.getWUv());
  return {keyNope, keyRope, values};
}

/// Which of the keys the tokens see; null where all that causality leaves.
Value Decomposition::emitMarks(OpBuilder &builder, Value chunk) {
  if (!attention.getSelected())
    return {};
  constexpr int64_t open = ShapedType::kDynamic;
  auto type = RankedTensorType::get({open, open}, builder.getI32Type());
  return MarkSelectedOp::create(builder, loc, type, attention.getSelected(), attention.getBatch(),
                                chunk);
}

Partial Decomposition::emitAttention(OpBuilder &builder, const HeadRows &keys, Value chunk,
                                     Type outputType, Type lseType) {
  auto op = ExpandedAttentionOp::create(builder, loc, outputType, lseType, attention.getQNope(),
                                        attention.getQPe(), keys.keyNope, keys.keyRope, keys.value,
                                        attention.getBatch(), chunk, /*partial=*/Value(),
                                        /*partial_lse=*/Value(), /*num_splits=*/Value(),
                                        emitMarks(builder, chunk), attention.getScaleAttr());
  return {op.getOutput(), op.getLse()};
}

Partial Decomposition::emitMerge(OpBuilder &builder, const Partial &prefix, const Partial &suffix,
                                 Type outputType, Type lseType) {
  auto op = MergeOp::create(builder, loc, outputType, lseType, prefix.output, prefix.lse,
                            suffix.output, suffix.lse);
  return {op.getOutput(), op.getLse()};
}

/// The attention over one chunk.
Partial Decomposition::emitChunk(OpBuilder &builder, Value chunk) {
  auto cacheType = attention.getCache().getType();
  auto rowsType = [&](int64_t width) {
    return RankedTensorType::get({ShapedType::kDynamic, width}, cacheType.getElement());
  };
  SmallVector<Type, 2> types{rowsType(cacheType.getKvLoraRank())};
  if (attention.getKPe())
    types.push_back(rowsType(cacheType.getQkRopeHeadDim()));
  auto rows =
      GatherOp::create(builder, loc, types, attention.getCache(), attention.getBatch(), chunk,
                       /*whole=*/false);
  Value ropeKey = attention.getKPe() ? rows.getRows()[1] : Value();
  return emitPartial(builder, emitUpProjection(builder, rows.getRows()[0], ropeKey), chunk);
}

/// The loop over chunks. It starts from the empty partial, the identity of
/// merge, so that the first chunk needs no peeling.
Partial Decomposition::emitContext(OpBuilder &builder, Value numChunks) {
  auto empty =
      EmptyPartialOp::create(builder, loc, partialType, partialLseType, attention.getBatch());
  Value first = emitIndex(builder, 0);
  Value step = emitIndex(builder, 1);
  auto loop =
      scf::ForOp::create(builder, loc, first, numChunks, step, empty->getResults(),
                         [&](OpBuilder &body, Location, Value chunk, ValueRange accumulator) {
                           Partial joined =
                               emitMerge(body, {accumulator[0], accumulator[1]},
                                         emitChunk(body, chunk), partialType, partialLseType);
                           scf::YieldOp::create(body, loc, ValueRange{joined.output, joined.lse});
                         });
  return {loop.getResult(0), loop.getResult(1)};
}

/// There are no new tokens, and always a first chunk: most often the only one, which
/// then is merged with nothing here.
Partial Decomposition::emitSharedPrefix(OpBuilder &builder, Value numChunks) {
  Value zero = emitIndex(builder, 0), one = emitIndex(builder, 1);
  Partial first = emitChunk(builder, zero);
  Value others = arith::SubIOp::create(builder, loc, numChunks, one);
  auto loop =
      scf::ForOp::create(builder, loc, zero, others, one, ValueRange{first.output, first.lse},
                         [&](OpBuilder &body, Location, Value before, ValueRange accumulator) {
                           Value chunk = arith::AddIOp::create(body, loc, before, one);
                           Partial joined =
                               emitMerge(body, {accumulator[0], accumulator[1]},
                                         emitChunk(body, chunk), partialType, partialLseType);
                           scf::YieldOp::create(body, loc, ValueRange{joined.output, joined.lse});
                         });
  return {loop.getResult(0), loop.getResult(1)};
}

SmallVector<Value> Decomposition::emitWithContext(OpBuilder &builder, const HeadRows &newRows,
                                                  Value numChunks) {
  Partial suffix = emitPartial(builder, newRows, /*chunk=*/Value());
  Partial context = emitContext(builder, numChunks);
  bool wantsLse = bool(attention.getLse());
  Partial result = emitMerge(builder, context, suffix, attention.getOutput().getType(),
                             wantsLse ? partialLseType : RankedTensorType());
  if (!wantsLse)
    return {result.output};
  Type lseType = attention.getLse().getType();
  if (lseType != partialLseType)
    result.lse = ConvertLseOp::create(builder, loc, lseType, result.lse);
  return {result.output, result.lse};
}

SmallVector<Value> Decomposition::emitWithoutContext(OpBuilder &builder, const HeadRows &newRows) {
  Type lseType = attention.getLse() ? attention.getLse().getType() : Type();
  Partial result =
      emitAttention(builder, newRows, /*chunk=*/Value(), attention.getOutput().getType(), lseType);
  if (!result.lse)
    return {result.output};
  return {result.output, result.lse};
}

void Decomposition::run() {
  OpBuilder builder(attention);
  if (SharePrefixOp::ofShared(attention.getBatch())) {
    Value chunks = BatchDimOp::create(builder, loc, builder.getIndexType(), attention.getBatch(),
                                      "num_chunks");
    Partial prefix = emitSharedPrefix(builder, chunks);
    attention->replaceAllUsesWith(ValueRange{prefix.output, prefix.lse});
    attention->erase();
    return;
  }
  HeadRows newRows = emitUpProjection(builder, attention.getLatent(), attention.getKPe());
  BatchType batch = attention.getBatch().getType();
  SmallVector<Value> results;
  if (batch.getContextLen() == 0) {
    results = emitWithoutContext(builder, newRows);
  } else {
    Value numChunks = BatchDimOp::create(builder, loc, builder.getIndexType(), attention.getBatch(),
                                         "num_chunks");
    if (!attention.getSelected()) // this one cannot do without
      attention->getParentOfType<func::FuncOp>()->removeAttr(kOptionalChunksAttr);
    if (batch.hasStaticContextLen()) {
      results = emitWithContext(builder, newRows, numChunks);
    } else {
      Value hasContext = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, numChunks,
                                               emitIndex(builder, 0));
      auto branch = scf::IfOp::create(
          builder, loc, hasContext,
          [&](OpBuilder &nested, Location) {
            scf::YieldOp::create(nested, loc, emitWithContext(nested, newRows, numChunks));
          },
          [&](OpBuilder &nested, Location) {
            scf::YieldOp::create(nested, loc, emitWithoutContext(nested, newRows));
          });
      results.assign(branch.getResults().begin(), branch.getResults().end());
    }
  }
  attention->replaceAllUsesWith(results);
  attention->erase();
}

namespace {
struct ChunkContext : mla::impl::MlaChunkContextBase<ChunkContext> {
  using MlaChunkContextBase::MlaChunkContextBase;

  void runOnOperation() override {
    SmallVector<AttentionOp> expanded;
    WalkResult result = getOperation().walk([&](AttentionOp attention) {
      if (attention.getForm() == Form::Auto) {
        attention.emitOpError("expected form expanded or absorbed, got auto: run mla-choose-form");
        return WalkResult::interrupt();
      }
      if (attention.getForm() == Form::Expanded)
        expanded.push_back(attention);
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return signalPassFailure();
    for (AttentionOp attention : expanded)
      Decomposition(attention).run();
  }
};
} // namespace
