//===- WeightMatch.h - which tensors make up which weights ------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Weights come from memory, from a file or from the shards of a checkpoint: in each case
// as tensors by name, which are matched here with the weights that a package asks for.
// A weight `q_b_proj.weight` is one of
//
//   q_b_proj.weight | qweight | weight_packed            in the package's type
//   the same, e4m3, with                                 where the package says how it is
//   q_b_proj.weight_scale_inv | weight_scale             scaled (Package::weightScales)
//   the same, u8, each byte two e2m1 numbers, with        blocks of 1 x 16 (NVFP4)
//   q_b_proj.weight_scale, e4m3, and
//   q_b_proj.weight_scale_2, one f32
//
// A package whose products read codes has both among its weights, `q_b_proj.weight` of e4m3 and
// `q_b_proj.weight_scale_inv` of f32, and they are bound as they are.
//
// `q_b_proj.input_scale` is ignored: activations are not quantised. Of a tensor that holds
// the heads of all ranks the share of one rank is cut, wherever it begins in a block.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_WEIGHTMATCH_H
#define MLAC_RUNTIME_WEIGHTMATCH_H

#include "package/Package.h"

#include <map>
#include <set>
#include <span>

namespace mlac::runtime {

/// A tensor as a caller or a file gives it. `data` need not be aligned.
struct SourceTensor {
  std::optional<mla_dtype> type; // none: one that the runtime does not know
  std::string typeText;          // of one that it does not know, as its file calls it
  std::vector<int64_t> shape;
  const void *data;
};

/// By their names without the prefix of their attention.
using SourceTensors = std::map<std::string, SourceTensor, std::less<>>;

/// Which share of unsharded tensors to take.
struct Shard {
  int64_t rank = 0, count = 1;
};

/// A weight and what it is made of. The tensor outlives it.
class WeightMatch {
public:
  WeightMatch(size_t index, const TensorInfo &expected, const SourceTensor &tensor)
      : index(index), expected(&expected), tensor(&tensor), shape(tensor.shape),
        first(tensor.shape.size()) {}

  /// Position in Package::weights.
  size_t weight() const { return index; }
  /// Whether codes and scales are numbers of the weight's type.
  Status checkValues() const;
  /// The weight's bytes: the tensor's own where nothing is to be done, else in `room`.
  const void *bytes(std::vector<char> &room) const;

private:
  friend class WeightMatcher;
  ScaledMatrix matrix() const;
  const std::vector<int64_t> &wholeShape() const { return isScales ? grid : shape; }
  Status checkF16() const;
  void cut(const void *from, char *to) const;

  size_t index;
  const TensorInfo *expected;
  const SourceTensor *tensor;
  std::vector<int64_t> shape;    // of the tensor's numbers
  std::vector<uint8_t> unpacked; // codes of numbers of four bits
  std::vector<int64_t> first;    // of the share in the tensor
  bool isCoded = false;          // the tensor is codes
  bool isScales = false;         // the tensor is scales, and so is the weight
  mla_dtype valueType = MLA_F32; // of what codes times scales are
  ScaleBlock block;              // of codes
  std::vector<float> scales;     // of all codes of the tensor
  std::vector<int64_t> grid;     // of scales: [down, across]
};

/// A bias of the output, which is for the sum over all ranks: with several no rank has it.
inline constexpr std::string_view kOutputBias = "o_proj.bias";

class WeightMatcher {
public:
  /// `prefix` is what messages put before the names of `tensors`.
  WeightMatcher(const Package &package, const SourceTensors &tensors, std::string prefix,
                Shard shard)
      : package(package), tensors(tensors), prefix(std::move(prefix)), shard(shard) {}

  /// Matches every weight that has tensors; with `needsAll` the others are MLA_NOT_FOUND.
  Status match(bool needsAll, std::vector<WeightMatch> &matches);
  /// MLA_INVALID_ARGUMENT for a tensor that belongs to no weight and is not `isKnown(name)`.
  template <typename Predicate> Status refuseExtra(Predicate isKnown) const;

private:
  using Entry = SourceTensors::value_type;

  Status matchOne(size_t index, std::vector<WeightMatch> &matches, bool needsAll);
  Status matchScales(size_t index, std::vector<WeightMatch> &matches, bool needsAll);
  Status matchGrid(WeightMatch &match, const Entry &codes, const Entry &scale) const;
  Status matchShape(WeightMatch &match) const;
  Status matchType(WeightMatch &match, const Entry &tensor, const Entry *scale) const;
  Status matchCodes(WeightMatch &match, const Entry &codes, const Entry *scale) const;
  Status matchFours(WeightMatch &match, std::string_view stem, const Entry &fours,
                    const Entry *scale);
  bool arePacked(const SourceTensor &tensor) const;
  /// The one of `names` behind `stem` that there is; null: none. Two are an error.
  Status findOne(std::string_view stem, std::span<const std::string_view> names,
                 const Entry *&found);
  Status extra(std::string_view name) const;

  const Package &package;
  const SourceTensors &tensors;
  std::string prefix;
  Shard shard;
  std::set<std::string_view> used;
};

template <typename Predicate> Status WeightMatcher::refuseExtra(Predicate isKnown) const {
  for (const Entry &entry : tensors)
    if (!used.count(entry.first) && !isKnown(std::string_view(entry.first)))
      return extra(entry.first);
  return Status();
}

/// "q_a_proj.weight, kv_b_proj.weight".
std::string listNames(const std::vector<TensorInfo> &tensors);

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_WEIGHTMATCH_H
