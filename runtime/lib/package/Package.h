//===- Package.h - a verified package ---------------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads a package file, verifies everything that later code relies on, and
// resolves names to indices. After Package::open succeeds no index, expression
// or enum of the file needs another check; what depends on run-time sizes
// (undefined expressions, buffer bounds) is checked when a step is planned.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_PACKAGE_H
#define MLAC_RUNTIME_PACKAGE_H

#include "base/ScaledMatrix.h"
#include "package/CacheFormat.h"
#include "package/Expression.h"
#include "package/PromptParams.h"
#include "package/WorkParams.h"

#include <memory>
#include <optional>
#include <string>

namespace mlac::runtime {

/// One buffer of a function. `index` is the position in the package's weights,
/// derived tensors or pools, or the Metadata value; unused for the other kinds.
struct BufferInfo {
  std::string name;
  fb::BufferKind kind;
  mla_dtype dtype;
  uint32_t elements;   // expression; value 0: unchecked
  uint32_t byteOffset; // expression, Workspace only
  uint32_t index;
};

struct FunctionInfo {
  std::string name;
  ExpressionTable exprs;
  std::vector<BufferInfo> buffers;
  const fb::Function *raw; // steps: verified
  const fb::Target *target;
  uint32_t workspaceBytes; // expression
  int64_t maxQueryLen;     // 0: any
  /// Whether the function asks for the tables of chunked context.
  bool usesChunks;
  /// Whether it does without them where the workspace holds none.
  bool hasOptionalChunks;
  /// Whether it asks for those of whole requests.
  bool gathersWhole;
  /// How the step's attention is partitioned; nothing if it is not.
  std::optional<WorkParams> work;
  /// Longest query of a decode, if the batch is split into decodes and prefills;
  /// 0 if it is not.
  int64_t decodeThreshold;
  /// The function whose batches without prefills this one takes; else empty.
  std::string decodesOf;
  /// How many tokens of a common prefix are attended to apart: an expression; nothing
  /// if the function never does.
  std::optional<uint32_t> sharedTokens;
  /// Nothing if the function has no kernels for prompts.
  std::optional<PromptParams> prompts;
};

struct TargetInfo {
  const fb::Target *raw;
  std::vector<FunctionInfo> functions;

  const FunctionInfo *find(std::string_view name) const;
  /// What takes the batches of `function` that are decodes alone; null: itself.
  const FunctionInfo *findDecodesOf(const FunctionInfo &function) const;
  /// "sm_90a" or "x86-64-v3 (+avx2,+fma)".
  std::string text() const;
};

struct TensorInfo {
  std::string name;
  mla_dtype dtype;
  std::vector<int64_t> shape;
  int64_t elements;

  int64_t bytes() const { return elements * elementBytes(dtype); }
};

struct PoolInfo {
  std::string name;
  mla_dtype dtype;    // what kernels count the pool in
  CacheLayout layout; // of pages without gaps
  int64_t tokensPerRow, window;
  const fb::Pool *raw;

  int64_t pageRows() const { return layout.shape().pageSize; }
  int64_t rowBytes() const { return layout.tokenBytes(); }
};

class Package;

/// Layers of one kind, of a model whose layers differ in kind.
struct KindInfo {
  std::string name;
  std::vector<int64_t> layers; // ascending
  std::shared_ptr<Package> package;
};

/// The function that runs when weights are bound; never chosen for a batch.
inline constexpr std::string_view kPrepareFunction = "prepare";
/// Functions that the runtime runs by itself, never as a step.
inline constexpr std::string_view kCopyPagesFunction = "copy_pages", kSwapOutFunction = "swap_out",
                                  kSwapInFunction = "swap_in";
inline bool isStepFunction(std::string_view name) {
  return name != kPrepareFunction && name != kCopyPagesFunction && name != kSwapOutFunction &&
         name != kSwapInFunction;
}
/// Whether a caller may ask for it.
inline bool isForCallers(const FunctionInfo &function) {
  return isStepFunction(function.name) && function.decodesOf.empty();
}

class Package {
public:
  /// `bytes` is copied.
  static Status open(const void *data, size_t bytes, std::shared_ptr<Package> &package);
  static Status openFile(const std::string &path, std::shared_ptr<Package> &package);

  const fb::Package &root() const { return *root_; }
  /// The kinds of the model's layers; where there are any, they have all that follows.
  const std::vector<KindInfo> &kinds() const { return kinds_; }
  /// MLA_INVALID_ARGUMENT where there are kinds.
  Status requireOneKind() const;
  /// Of a kind: its layers' numbers in the model; else nothing.
  const std::vector<int64_t> &layers() const { return layers_; }
  const fb::Model &model() const { return *root_->model(); }
  /// At least one; the first keeps a row of every token.
  const std::vector<PoolInfo> &pools() const { return pools_; }
  /// The pool of this name; -1 if there is none.
  int64_t findPool(std::string_view name) const;
  /// A size or an array by its name, which may begin with a pool's.
  std::optional<Dim> findDim(std::string_view name) const;
  std::optional<Metadata> findMetadata(std::string_view name) const;
  const fb::RopeSpec &rope() const { return *root_->rope(); }
  /// Columns of the rotary table.
  int64_t ropeWidth() const {
    return 2 * int64_t(rope().inv_freq() ? rope().inv_freq()->size() : 0);
  }
  const std::vector<TargetInfo> &targets() const { return targets_; }
  const std::vector<TensorInfo> &weights() const { return weights_; }
  const std::vector<TensorInfo> &derived() const { return derived_; }
  /// How the checkpoint scales weights that are codes; none where it has no codes.
  const std::optional<ScaleBlock> &weightScales() const { return weightScales_; }
  size_t fileBytes() const { return fileBytes_; }
  /// Of the file, as its end has it.
  uint64_t checksum() const;

  /// The text of mla_package_info, made on first use by the caller's lock.
  const std::string &infoJson();

private:
  friend class PackageVerifier;
  struct FreeBytes {
    void operator()(uint8_t *data) const;
  };
  using Bytes = std::unique_ptr<uint8_t, FreeBytes>;

  static Bytes allocate(size_t bytes);
  static Status adopt(Bytes bytes, size_t size, bool mayHaveKinds,
                      std::shared_ptr<Package> &package);
  /// Opens the packages of a verified root's kinds, which have none themselves.
  Status readKinds();
  Status readKind(const fb::LayerKind &raw);

  Bytes bytes_;
  size_t fileBytes_ = 0;
  const fb::Package *root_ = nullptr;
  std::vector<KindInfo> kinds_;
  std::vector<int64_t> layers_;
  std::vector<PoolInfo> pools_;
  std::vector<TargetInfo> targets_;
  std::vector<TensorInfo> weights_, derived_;
  std::optional<ScaleBlock> weightScales_;
  std::string info_;
};

/// Finds a tensor by name; -1 where there is none.
int64_t findTensor(const std::vector<TensorInfo> &tensors, std::string_view name);

using StepList = flatbuffers::Vector<flatbuffers::Offset<fb::Step>>;

/// Calls function(launch) for every launch of verified steps, as they are written, until
/// one returns an error.
template <typename Function> Status forEachLaunch(const StepList *steps, Function function) {
  for (uint32_t i = 0; steps && i < steps->size(); ++i) {
    const fb::Step &step = *steps->Get(i);
    if (step.launch()) {
      MLAC_RETURN_IF_ERROR(function(*step.launch()));
    } else if (step.loop()) {
      MLAC_RETURN_IF_ERROR(forEachLaunch(step.loop()->body(), function));
    } else if (step.fork()) {
      MLAC_RETURN_IF_ERROR(forEachLaunch(step.fork()->main(), function));
      MLAC_RETURN_IF_ERROR(forEachLaunch(step.fork()->side(), function));
    } else {
      MLAC_RETURN_IF_ERROR(forEachLaunch(step.branch()->then_steps(), function));
      MLAC_RETURN_IF_ERROR(forEachLaunch(step.branch()->else_steps(), function));
    }
  }
  return Status();
}

inline std::string_view text(const flatbuffers::String *string) {
  return string ? std::string_view(string->c_str(), string->size()) : std::string_view();
}

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_PACKAGE_H
