//===- AttentionLoop.cpp - attention over pages, divided among roles ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Common/AttentionLoop.h"

#include "mla/Dialect/KernelAttrs.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlac;

static scf::ForOp findItems(tile::AttendOp attend) {
  auto items = attend->getParentOfType<scf::ForOp>();
  if (items && items->hasAttr(tile::kSideBySideAttr)) // tiles that share keys
    items = items->getParentOfType<scf::ForOp>();
  return items && isa<tile::KernelOp>(items->getParentOp()) ? items : scf::ForOp();
}

bool mlac::hasCodes(tile::AttendOp attend, unsigned term) {
  return isa<Float8E4M3FNType>(attend.getStorageType(term));
}

/// Rows may have seen a score of no value.
static bool isPartial(OperandRange start) {
  return !start.empty() && !matchPattern(start.back(), m_AnyZeroFloat());
}

bool mlac::isInItems(tile::AttendOp attend, std::string &why) {
  scf::ForOp items = findItems(attend);
  bool areLoaded = llvm::all_of(attend.getQueries(),
                                [](Value query) { return query.getDefiningOp<tile::LoadOp>(); });
  if (attend.hasParts()) {
    why = "its keys are parts of rows";
    return false;
  }
  bool areKnown = true;
  for (unsigned term = 0; term < attend.getKeys().size(); ++term)
    areKnown &= attend.isPlain(term) || hasCodes(attend, term);
  why = !items                               ? "no loop over work items around the loop over keys"
        : items.getNumResults() != 0         ? "the loop over work items carries values"
        : !areLoaded                         ? "a query is not a load"
        : isPartial(tile::findStart(attend)) ? "it goes on from a partial"
        : !areKnown                          ? "its keys are converted, and are no codes"
                                             : "";
  return why.empty();
}

AttentionLoop mlac::expandPaged(tile::AttendOp attend) {
  AttentionLoop loop;
  loop.items = findItems(attend);
  static_cast<SoftmaxLoop &>(loop) = tile::expandAttend(attend);
  for (SoftmaxLoop::Summand &summand : loop.summands)
    loop.terms.push_back({summand.query.getDefiningOp<tile::LoadOp>(), summand.load});
  return loop;
}
