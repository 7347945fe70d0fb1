//===- Engine.h - a package on a device -------------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Owns everything that a package needs on one device: loaded kernels, each
// layer's weights and page pool, the rotary table and the workspace. Steps are
// planned and run by Plan.
//
// Locking: `mutex` guards all members that change after create; the C API holds
// it for every call on the engine, its sequences and its plans. The cache has a
// lock of its own, taken after this one; isClosed changes under both.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_ENGINE_H
#define MLAC_RUNTIME_ENGINE_H

#include "cache/CacheSnapshot.h"
#include "device/Device.h"
#include "engine/EngineOptions.h"
#include "engine/WeightMatch.h"
#include "package/CacheFormat.h"

#include <array>
#include <mutex>
#include <span>

namespace mlac::runtime {

/// Where a layer's pages of one pool are.
struct LayerPool {
  DeviceBuffer own;    // none where the pages are the caller's
  DeviceBuffer scales; // of its rows, or of their fields, f32; 1 until they are set
  char *base = nullptr;
  int64_t numPages = 0, pageStride = 0; // bytes
  char *data() const { return base; }
};

struct Layer {
  std::vector<DeviceBuffer> weights; // parallel to Package::weights
  std::vector<bool> isBound;
  std::vector<DeviceBuffer> derived; // parallel to Package::derived
  std::vector<LayerPool> pools;      // parallel to Package::pools
  bool isPrepared = false;
};

/// A tensor as a caller or a file gives it. `data` need not be aligned.
struct HostTensor {
  mla_dtype dtype;
  std::vector<int64_t> shape;
  const void *data;
};

/// What sums the ranks' outputs; nothing without a function.
struct AllReduce {
  mla_all_reduce function = nullptr;
  void *user = nullptr;
};

/// Who wants to know how far a long call is; nobody without a function.
struct Progress {
  mla_progress function = nullptr;
  void *user = nullptr;
  void report(int64_t done, int64_t total) const {
    if (function)
      function(user, done, total);
  }
};

class Checkpoint;
class PageMover;

class Engine {
public:
  ~Engine();
  static Status create(std::shared_ptr<Package> package, std::shared_ptr<Device> device,
                       const mla_engine_options *given, std::shared_ptr<Engine> &engine);

  /// Releases device memory; later calls on plans find isClosed.
  Status close();
  bool isClosed() const { return isClosed_; }

  const Package &package() const { return *package_; }
  Device &device() const { return *device_; }
  const std::shared_ptr<Device> &sharedDevice() const { return device_; }
  const TargetInfo &target() const { return *target_; }
  const mla_engine_options &options() const { return options_; }
  const StepLimits &limits() const { return limits_; }
  KVCache &cache() { return cache_; }
  Program &program() { return *program_; }
  std::string infoJson();

  Status getLayer(int64_t index, Layer *&layer);

  // ExternalPools.cpp
  bool hasExternalPools() const { return options_.external_pools != 0; }
  bool isExternal(size_t pool) const { return options_.external_pools >> pool & 1; }
  /// Null: none.
  Status bindPool(int64_t index, int64_t pool, const mla_external_pool *given);
  /// MLA_UNSUPPORTED where pages are the caller's, who does `what` himself.
  Status requireOwnPools(std::string_view what) const;
  /// MLA_WRONG_STATE where the caller has given none.
  Status requirePool(const Layer &layer, size_t pool) const;
  Status checkPoolIndex(int64_t pool) const;

  // Weights.cpp
  Status bindWeight(Layer &layer, std::string_view name, const HostTensor &tensor);
  /// Any of the weights, those that are codes with their scales. All or nothing.
  Status bindTensors(Layer &layer, SourceTensors tensors);
  Status bindSafetensors(Layer &layer, const std::string &path, std::string_view prefix,
                         bool allowsExtra);
  /// Layers from `firstLayer` on from a checkpoint's attentions from `firstAttention` on. All
  /// or nothing.
  Status bindCheckpoint(Checkpoint &checkpoint, int64_t firstLayer, int64_t numLayers,
                        int64_t firstAttention, bool allowsExtra, const Progress &progress);
  Status prepare(Layer &layer);

  Status setAllReduce(const AllReduce &hook);
  const AllReduce &allReduce() const { return allReduce_; }
  /// Zeroes `output` [numTokens, hidden_size].
  Status dryRun(void *output, int64_t numTokens, mla_stream *stream);

  // What plans need.
  /// Makes the workspace at least this large. Outgrown ones stay alive, since
  /// launched work and captured graphs may use them.
  Status ensureWorkspace(int64_t bytes);
  /// Makes rows [0, length) of the rotary table valid.
  Status ensureRopeRows(int64_t length);
  DeviceBuffer &workspace() { return workspace_; }
  DeviceBuffer &ropeTable() { return rope_; }

  /// Scales that a layer's rows have outside of the cache.
  size_t countCacheScales(size_t pool) const {
    return static_cast<size_t>(layouts[pool].format().layerScales);
  }
  /// Sets all of them, for later steps. Waits for the device.
  Status setCacheScales(Layer &layer, size_t pool, std::span<const float> scales);

  // Cache access for tests and tools; they wait for the device.
  Status poison(Layer &layer);
  Status poisonWorkspace();
  /// What copies pages.
  PageMover &mover() { return *mover_; }
  /// Bytes from page to page of a pool, and of a page without what lies between.
  int64_t pageStride(size_t pool) const { return layouts[pool].pageStride(); }
  int64_t pageBytesUsed(size_t pool) const {
    return layouts[pool].shape().pageSize * layouts[pool].tokenBytes();
  }
  /// Of one layer's part of host memory for `pages` pages of a pool.
  int64_t hostBytesPerLayer(size_t pool, int64_t pages) const {
    return roundUp(pages * pageBytesUsed(pool), kBufferAlignment);
  }
  /// What pages of a pool look like.
  const CacheLayout &cacheLayout(size_t pool) const { return layouts[pool]; }
  /// Makes the page copies that the cache asks for, in every layer.
  Status runPageCopies(mla_stream *stream);
  /// The bytes of all layers' pages, for snapshots; each access waits for the
  /// device.
  PageBytes pageBytes();
  Status readRows(Layer &layer, size_t pool, int64_t slot, int64_t count, void *rows);
  Status writeRows(Layer &layer, size_t pool, int64_t slot, int64_t count, const void *rows);

  std::mutex mutex;

private:
  Engine(std::shared_ptr<Package> package, std::shared_ptr<Device> device,
         const mla_engine_options &options);

  Status chooseTarget();
  Status allocate();
  Status allocateLayer(Layer &layer);
  Status allocatePool(size_t pool, LayerPool &memory);
  Status poison(LayerPool &memory, size_t pool);
  int64_t largestWorkspace() const;
  Status checkSlots(size_t pool, int64_t slot, int64_t count) const;
  /// A token's bytes in one section of its page: their address, where they begin in a row
  /// of whole tokens, and how many they are.
  struct RowPiece {
    char *address;
    int64_t begin, bytes;
  };
  std::array<RowPiece, cache::kMaxSections> rowPieces(Layer &layer, size_t pool,
                                                      int64_t slot) const;
  Status checkExternal(size_t pool, const mla_external_pool &given, CacheLayout &layout) const;
  Status checkAlike(const Layer &layer, size_t pool, const LayerPool &memory) const;
  Status upload(Layer &layer, const WeightMatch &match);
  /// The share of unsharded tensors that is this rank's.
  Shard shard() const;

  std::shared_ptr<Package> package_;
  std::shared_ptr<Device> device_;
  mla_engine_options options_;
  StepLimits limits_;
  const TargetInfo *target_ = nullptr;
  std::unique_ptr<Program> program_;
  KVCache cache_;
  std::vector<CacheLayout> layouts; // of each pool, with the engine's strides
  std::vector<Layer> layers;
  DeviceBuffer workspace_, rope_;
  std::vector<DeviceBuffer> outgrown;
  AllReduce allReduce_;
  std::unique_ptr<PageMover> mover_;
  int64_t ropeRows = 0;
  bool isClosed_ = false;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_ENGINE_H
