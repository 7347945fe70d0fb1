//===- GroupedReference.h - attention by groups of heads, in double ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Multi-head, grouped-query and multi-query attention (paged-cache.md sections 9, 10 and 14).
// Cached rows are [2 Nkv D]: rotated keys of all KV heads, then their values.
//
// Symbols: H hidden size, N query heads and Nkv KV heads on this rank, D columns of a head, of
// which the first R are rotated.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_RUN_GROUPEDREFERENCE_H
#define MLA_RUN_GROUPEDREFERENCE_H

#include "Reference.h"
#include "ReferenceMath.h"
#include "Rotation.h"

namespace mlac::run {

struct GroupedSpec {
  int64_t hidden = 0, heads = 0, kvHeads = 0, columns = 0;
  int64_t window = 0; // tokens that one sees, itself included; 0: all
  double scale = 0, softcap = 0 /* 0: none */, epsilon = 1e-6;
  bool hasInputBias = false, hasOutputBias = false, normalisesHeads = false, hasSinks = false;
  Rotation rotation;
  QuantisedProjections quantised;

  int64_t rowWidth() const { return 2 * kvHeads * columns; }
};

/// Whether layers of this type have heads that the reference knows.
bool isGroupedType(const std::string &type);

/// Of a layer, whose number says whether it has the model's window. Throws on what it does not
/// know.
GroupedSpec readGroupedSpec(const nlohmann::json &config, const LayerFacts &facts);

class GroupedReference : public Reference {
public:
  /// Throws when a weight is missing, has the wrong number of elements, or is one that such a layer
  /// does not have.
  GroupedReference(const GroupedSpec &spec, const WeightMap &weights);

  std::vector<double> cachedRows(const float *hidden, int64_t tokens, int64_t first) const override;
  std::vector<double> attend(const std::vector<const float *> &hidden,
                             const std::vector<int64_t> &positions,
                             const std::vector<double> &rows) const override;

private:
  /// Rows of `heads` heads of tokens at `first`, first + 1, …, normalised where they are, and
  /// rotated.
  std::vector<double> makeHeads(const std::string &projection, const std::string &norm,
                                const float *hidden, int64_t heads, int64_t first,
                                int64_t tokens) const;
  void attendHead(int64_t head, const std::vector<double> &query, int64_t position,
                  const std::vector<double> &rows, double *attended) const;

  GroupedSpec spec;
  Projections weights;
};

} // namespace mlac::run

#endif // MLA_RUN_GROUPEDREFERENCE_H
