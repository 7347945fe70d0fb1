//===- FindLatents.cpp - keys and values made of latents ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FindLatents.h"

#include "MatchParts.h"
#include "TokenRows.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlac;
using namespace mlac::graph;
using namespace mlir;
using mlir::graph::NodeOp;

/// Which channels of a head are no rows of the values' projection: one run of them.
llvm::Error LatentFinder::findShared(const AttentionInfo &attention, const OperandRows &rows) {
  auto isShared = [&](int64_t channel) { return rows.keys[channel].source != up; };
  LatentInfo &info = found.info;
  while (info.first < attention.keyDim && !isShared(info.first))
    ++info.first;
  int64_t end = info.first;
  while (end < attention.keyDim && isShared(end))
    ++end;
  info.width = end - info.first;
  if (info.width == 0 || info.width % 2 != 0 || info.width == attention.keyDim)
    return makeError("keys and values are not rows of one projection beside channels that all "
                     "heads share: " +
                     Twine(info.width) + " of " + Twine(attention.keyDim) + " channels are other");
  if (info.first > 0 && end < attention.keyDim)
    return makeError("channels that heads share lie between others");
  return llvm::Error::success();
}

/// Head by head its key's rows, then its value's.
llvm::Error LatentFinder::matchUpProjection(const AttentionInfo &attention,
                                            const OperandRows &rows) {
  const LatentInfo &info = found.info;
  uint32_t row = 0;
  for (int64_t head = 0; head < attention.heads; ++head) {
    for (int64_t channel = 0; channel < attention.keyDim; ++channel) {
      bool isShared = channel >= info.first && channel < info.first + info.width;
      Expr key = rows.keys[head * attention.keyDim + channel];
      if (key != (isShared ? rows.keys[channel] : Expr{up, row++}))
        return makeError("channel " + Twine(channel) + " of head " + Twine(head) +
                         "'s key is not " +
                         (isShared ? "that of head 0" : "the next row of the projection"));
    }
    for (int64_t channel = 0; channel < attention.valueDim; ++channel)
      if (rows.values[head * attention.valueDim + channel] != Expr{up, row++})
        return makeError("channel " + Twine(channel) + " of head " + Twine(head) +
                         "'s value is not the next row of the projection of its keys");
  }
  auto weight = dyn_cast<RankedTensorType>(function.getArgument(found.weight).getType());
  if (!weight || weight.getRank() != 2 || weight.getDimSize(0) != row ||
      !function.getArgAttr(found.weight, mlir::graph::kWeightAttr))
    return makeError("keys and values are not all rows of a weight");
  return llvm::Error::success();
}

/// Rope of all of the shared channels, by which the queries' are turned.
void LatentFinder::findRope(NodeOp node, const AttentionOperands &operands,
                            const AttentionInfo &attention, const OperandRows &rows) {
  LatentInfo &info = found.info;
  std::vector<Expr> shared(rows.keys.begin() + info.first,
                           rows.keys.begin() + info.first + info.width);
  std::optional<FoundRope> rope =
      RopeFinder(function, expressions, evaluator, node, table)
          .find({operands.query, rows.queries, attention.heads},
                {found.key, std::move(shared), /*heads=*/1, /*firstChannel=*/info.first});
  if (!rope || rope->info.width != info.width)
    return;
  rope->info.first = 0;
  info.rope = rope->info;
  found.rope = std::move(rope);
}

llvm::Expected<FoundLatents> LatentFinder::find(NodeOp node, const AttentionOperands &operands,
                                                const AttentionInfo &attention,
                                                const OperandRows &rows) {
  const Source &first = expressions[rows.values.front()];
  if (rows.keyHeads != attention.heads || first.kind != SourceKind::Linear || first.c != 0)
    return makeError("values are not rows of a projection without bias, those of each head");
  up = rows.values.front().source;
  found.weight = first.b;
  if (llvm::Error error = findShared(attention, rows))
    return std::move(error);
  if (llvm::Error error = matchUpProjection(attention, rows))
    return std::move(error);
  ArrayRef<Expr> latent = expressions.vector(first.a);
  found.info.rank = static_cast<int64_t>(latent.size());
  Type element = cast<RankedTensorType>(operands.key.getType()).getElementType();
  found.latent = findTokenRows(function, evaluator, node, {.numbers = latent, .element = element});
  ArrayRef<Expr> shared = ArrayRef(rows.keys).slice(found.info.first, found.info.width);
  found.key = findTokenRows(function, evaluator, node, {.numbers = shared, .element = element});
  if (!found.latent || !found.key)
    return makeError(Twine("no value of the graph is ") +
                     (found.latent ? "the channels that heads share" : "the latent"));
  findRope(node, operands, attention, rows);
  return std::move(found);
}
