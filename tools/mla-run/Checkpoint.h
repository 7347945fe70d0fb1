//===- Checkpoint.h - tensors of a file or a folder ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For the inputs and outputs of golden layers, and for the weights that references compute
// with; the runtime reads and checks the files, and binds weights from them itself.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_RUN_CHECKPOINT_H
#define MLA_RUN_CHECKPOINT_H

#include "Api.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mlac::run {

class Checkpoint {
public:
  /// Throws std::runtime_error when it cannot be read or is damaged.
  explicit Checkpoint(const std::string &path);

  mla_checkpoint *get() const { return handle.get(); }
  /// Prefixes of the attention modules, in the model's order.
  const std::vector<std::string> &attentions() const { return prefixes; }
  const std::map<std::string, std::string> &metadata() const { return strings; }
  /// Nothing when there is none of that name.
  std::optional<mla_tensor> find(const std::string &name) const;
  std::vector<int64_t> shape(const std::string &name) const;
  /// The values of a bf16, f16 or f32 tensor.
  std::vector<float> read(const std::string &name) const;
  /// Those of a weight, under any of its names; of codes times their scales, each of which
  /// is for `block` rows and columns (0: all).
  std::vector<float> readWeight(const std::string &name, const std::vector<int64_t> &block) const;

private:
  mla_tensor require(const std::string &name) const;

  std::string path;
  Handle<mla_checkpoint, mla_checkpoint_close> handle;
  std::vector<std::string> prefixes;
  std::map<std::string, std::string> strings;
};

/// The number of a code of e4m3.
float widenE4m3(uint8_t code);

/// Values [rows, columns] of codes, `block` rows and columns of which have one scale.
std::vector<float> dequantise(const uint8_t *codes, const std::vector<float> &scales, int64_t rows,
                              int64_t columns, const std::vector<int64_t> &block);

} // namespace mlac::run

#endif // MLA_RUN_CHECKPOINT_H
