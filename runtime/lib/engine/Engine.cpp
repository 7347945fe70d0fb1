//===- Engine.cpp - a package on a device -----------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "engine/Engine.h"

#include "CacheFormats.h"
#include "base/Json.h"
#include "engine/PageMover.h"
#include "engine/RopeTable.h"

#include <algorithm>
#include <cassert>
#include <cmath>

using namespace mlac::runtime;

/// All bits set is a NaN in bf16, f16, f32 and e4m3.
static constexpr uint8_t kNanByte = 0xff;

/// The rotary table grows by this many rows: filling all rows of a long-context
/// model at once would take longer than everything else in create.
static constexpr int64_t kRopeRowStep = 1024;

//===----------------------------------------------------------------------===//
// Creation
//===----------------------------------------------------------------------===//

/// What rows are, so that snapshots go to caches of the same rows only.
static std::string rowFormat(const Package &package) {
  std::string text;
  for (const PoolInfo &pool : package.pools()) {
    text += concat(text.empty() ? "" : "; ", "layout ", pool.layout.format().name, ", dtype ",
                   pool.raw->dtype(), ", columns");
    for (int64_t columns : pool.layout.shape().columns)
      text += concat(" ", columns);
    text += concat(", rope order ", mlac::runtime::text(pool.raw->rope_order()), ", row of ",
                   pool.rowBytes(), " bytes");
  }
  return text;
}

/// What the cache keeps books of: of pools of the caller's, nothing.
static std::vector<PoolSpec> poolSpecs(const Package &package, const mla_engine_options &options) {
  std::vector<PoolSpec> specs;
  for (size_t i = 0; i < package.pools().size(); ++i) {
    const PoolInfo &pool = package.pools()[i];
    specs.push_back({pool.name, poolPages(package, options, i), pool.pageRows(), pool.tokensPerRow,
                     pool.window});
  }
  return specs;
}

static std::vector<CacheLayout> poolLayouts(const Package &package,
                                            const mla_engine_options &options) {
  std::vector<CacheLayout> layouts;
  for (size_t i = 0; i < package.pools().size(); ++i) {
    const CacheLayout &dense = package.pools()[i].layout;
    CacheShape shape = dense.shape();
    shape.pageStride = pageStrideBytes(package, options, i);
    [[maybe_unused]] Status status =
        CacheLayout::make(dense.format().name, shape, layouts.emplace_back());
    assert(status.isOk() && "a verified package has layouts that are known");
  }
  return layouts;
}

Engine::Engine(std::shared_ptr<Package> package, std::shared_ptr<Device> device,
               const mla_engine_options &options)
    : package_(std::move(package)), device_(std::move(device)), options_(options),
      limits_(stepLimits(*package_, options)),
      cache_(poolSpecs(*package_, options), options.max_seq_len, rowFormat(*package_)),
      layouts(poolLayouts(*package_, options)), mover_(std::make_unique<PageMover>(*this)) {}

Engine::~Engine() = default;

/// Before anything is multiplied or allocated.
static Status checkPool(Device &device, const Package &package, const mla_engine_options *given,
                        const mla_engine_options &options, size_t pool) {
  int64_t stride = pageStrideBytes(package, options, pool), bytes;
  int64_t pages = poolPages(package, options, pool);
  if (!checkedMul(stride, pages, bytes))
    return error(MLA_INVALID_ARGUMENT, "option num_pages = ", options.num_pages, ": ", pages,
                 " pages of ", stride, " bytes overflow 64 bits");
  auto memory = Json::parse(device.infoJson()).at("memory_bytes").get<int64_t>();
  if (bytes <= memory)
    return Status();
  bool isDefault = !given || given->num_pages == 0;
  return error(MLA_OUT_OF_MEMORY, "option num_pages = ", options.num_pages,
               isDefault
                   ? concat(" (by default enough for max_num_requests = ", options.max_num_requests,
                            " of max_seq_len = ", options.max_seq_len, ")")
                   : "",
               ": a layer's pool takes ", bytes, " bytes, the device has ", memory);
}

/// Pools that the cache can keep books of together; of the caller's it needs no pages.
static Status checkPools(Device &device, const Package &package, const mla_engine_options *given,
                         const mla_engine_options &options) {
  std::vector<PoolSpec> specs = poolSpecs(package, options);
  for (size_t i = 0; i < specs.size(); ++i) {
    MLAC_RETURN_IF_ERROR(checkPool(device, package, given, options, i));
    specs[i].numPages = std::max<int64_t>(specs[i].numPages, 1);
  }
  return KVCache::checkSpecs(specs, options.max_seq_len);
}

Status Engine::create(std::shared_ptr<Package> package, std::shared_ptr<Device> device,
                      const mla_engine_options *given, std::shared_ptr<Engine> &engine) {
  mla_engine_options options;
  MLAC_RETURN_IF_ERROR(resolveOptions(*package, given, options));
  MLAC_RETURN_IF_ERROR(checkPools(*device, *package, given, options));
  if (options.num_sms == 0)
    options.num_sms = device->numSms();
  std::shared_ptr<Engine> result(new Engine(std::move(package), std::move(device), options));
  MLAC_RETURN_IF_ERROR(result->chooseTarget());
  MLAC_RETURN_IF_ERROR(result->device_->load(*result->target_->raw, result->program_)
                           .in(concat("target ", result->target_->text())));
  MLAC_RETURN_IF_ERROR(result->allocate());
  engine = std::move(result);
  return Status();
}

Status Engine::chooseTarget() {
  int64_t best = -1;
  std::string refused;
  for (const TargetInfo &target : package_->targets()) {
    std::string reason;
    if (!device_->supports(*target.raw, reason)) {
      refused += concat(refused.empty() ? "" : "; ", target.text(), ": ", reason);
      continue;
    }
    int64_t preference = device_->preference(*target.raw);
    if (preference > best) {
      best = preference;
      target_ = &target;
    }
  }
  if (target_)
    return Status();
  Json info = Json::parse(device_->infoJson(), nullptr, false);
  return error(MLA_UNSUPPORTED,
               "package is for another architecture: the "
               "device is ",
               info["arch"].get<std::string>(), ", the package's targets are: ", refused);
}

Status Engine::allocateLayer(Layer &layer) {
  auto addAll = [&](const std::vector<TensorInfo> &tensors, std::vector<DeviceBuffer> &buffers) {
    for (const TensorInfo &tensor : tensors)
      MLAC_RETURN_IF_ERROR(
          DeviceBuffer::make(device_, tensor.bytes(), tensor.name, buffers.emplace_back()));
    return Status();
  };
  MLAC_RETURN_IF_ERROR(addAll(package_->weights(), layer.weights));
  MLAC_RETURN_IF_ERROR(addAll(package_->derived(), layer.derived));
  layer.isBound.assign(layer.weights.size(), false);
  layer.pools.resize(layouts.size());
  for (size_t pool = 0; pool < layouts.size(); ++pool)
    MLAC_RETURN_IF_ERROR(allocatePool(pool, layer.pools[pool]));
  return Status();
}

Status Engine::allocatePool(size_t pool, LayerPool &memory) {
  memory.numPages = limits_.pool(pool).numPages;
  memory.pageStride = pageStride(pool);
  int64_t bytes = memory.pageStride * memory.numPages; // see checkPool
  MLAC_RETURN_IF_ERROR(DeviceBuffer::make(device_, bytes, "cache pool", memory.own));
  memory.base = memory.own.data();
  constexpr float kUnscaled[mlac::cache::kMaxRowFields] = {1, 1};
  MLAC_RETURN_IF_ERROR(
      DeviceBuffer::make(device_, sizeof kUnscaled, "scales of the cache", memory.scales));
  return device_->upload(memory.scales.data(), kUnscaled, sizeof kUnscaled);
}

Status Engine::setCacheScales(Layer &layer, size_t pool, std::span<const float> scales) {
  if (countCacheScales(pool) == 0)
    return error(MLA_INVALID_ARGUMENT, "rows of layout '", layouts[pool].format().name,
                 "' have no scale of their layer");
  for (float scale : scales)
    if (!(scale > 0 && std::isfinite(scale)))
      return error(MLA_INVALID_ARGUMENT, "scale = ", scale, ", expected a positive finite number");
  return device_->upload(layer.pools[pool].scales.data(), scales.data(), scales.size_bytes());
}

/// Workspace sizes need not grow with the batch (fewer requests may get more
/// splits), so sample batch sizes; a step that needs more grows it when
/// planned.
int64_t Engine::largestWorkspace() const {
  int64_t bytes = 0;
  // An expression may be undefined for sizes that no real step has together.
  auto sample = [&](const FunctionInfo &function, const DimValues &dims) {
    int64_t need;
    if (resolveWorkspace(function, dims, need).isOk())
      bytes = std::max(bytes, need);
  };
  for (const FunctionInfo &function : target_->functions) {
    if (!isStepFunction(function.name)) {
      sample(function, staticDims(limits_));
      continue;
    }
    for (int64_t requests = 1;; requests *= 2) {
      requests = std::min(requests, limits_.maxRequests);
      for (bool hasContext : {false, true})
        sample(function,
               largestDims(limits_, requests, function.maxQueryLen, hasContext, function.work));
      if (requests == limits_.maxRequests)
        break;
    }
  }
  return bytes;
}

Status Engine::allocate() {
  layers.resize(static_cast<size_t>(options_.num_layers));
  for (size_t i = 0; i < layers.size(); ++i)
    MLAC_RETURN_IF_ERROR(allocateLayer(layers[i]).in(concat("layer ", i)));
  MLAC_RETURN_IF_ERROR(ensureWorkspace(largestWorkspace()));
  int64_t ropeBytes = limits_.ropeLength * package_->ropeWidth() * int64_t(sizeof(float));
  MLAC_RETURN_IF_ERROR(DeviceBuffer::make(device_, ropeBytes, "rotary table", rope_));
  return ensureRopeRows(std::min(kRopeRowStep, limits_.ropeLength));
}

Status Engine::close() {
  Status status = device_->synchronize();
  isClosed_ = true;
  layers.clear();
  mover_ = std::make_unique<PageMover>(*this);
  outgrown.clear();
  workspace_ = DeviceBuffer();
  rope_ = DeviceBuffer();
  program_.reset();
  return status;
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

Status Engine::getLayer(int64_t index, Layer *&layer) {
  if (index < 0 || index >= options_.num_layers)
    return error(MLA_INVALID_ARGUMENT, "layer ", index, ", expected 0 to ",
                 options_.num_layers - 1);
  layer = &layers[static_cast<size_t>(index)];
  return Status();
}

Status Engine::ensureWorkspace(int64_t bytes) {
  if (bytes <= workspace_.bytes())
    return Status();
  DeviceBuffer larger;
  MLAC_RETURN_IF_ERROR(DeviceBuffer::make(device_, bytes, "workspace", larger));
  std::swap(workspace_, larger);
  if (larger.data())
    outgrown.push_back(std::move(larger));
  return Status();
}

Status Engine::ensureRopeRows(int64_t length) {
  int64_t width = package_->ropeWidth();
  if (length <= ropeRows || width == 0)
    return Status();
  int64_t rows = std::min(roundUp(length, kRopeRowStep), limits_.ropeLength);
  std::vector<float> table(static_cast<size_t>((rows - ropeRows) * width));
  fillRopeRows(package_->rope(), options_.max_seq_len, ropeRows, rows, table.data());
  MLAC_RETURN_IF_ERROR(device_->upload(rope_.data() + ropeRows * width * int64_t(sizeof(float)),
                                       table.data(), table.size() * sizeof(float)));
  ropeRows = rows;
  return Status();
}

Status Engine::setAllReduce(const AllReduce &hook) {
  int64_t ranks = package_->model().tensor_parallel();
  if (hook.function && ranks <= 1)
    return error(MLA_INVALID_ARGUMENT, "nothing to reduce: the package is for ", ranks, " rank");
  allReduce_ = hook;
  return Status();
}

Status Engine::dryRun(void *output, int64_t numTokens, mla_stream *stream) {
  MLAC_RETURN_IF_ERROR(device_->checkStream(stream));
  if (numTokens < 0 || numTokens > limits_.maxTokens)
    return error(MLA_INVALID_ARGUMENT, "num_tokens = ", numTokens,
                 ", expected 0 to max_num_tokens = ", limits_.maxTokens);
  if (numTokens == 0)
    return Status();
  if (!output)
    return error(MLA_INVALID_ARGUMENT, "output is null");
  const fb::Model &model = package_->model();
  int64_t bytes = numTokens * model.hidden_size() *
                  elementBytes(static_cast<mla_dtype>(model.activation_dtype()));
  return device_->fillAsync(output, 0, static_cast<size_t>(bytes), stream);
}

std::string Engine::infoJson() {
  Json functions = Json::array();
  for (const FunctionInfo &function : target_->functions)
    functions.push_back(function.name);
  int64_t weightBytes = 0, cacheBytes = 0;
  for (const Layer &layer : layers) {
    for (const LayerPool &pool : layer.pools)
      cacheBytes += pool.own.bytes();
    for (const DeviceBuffer &weight : layer.weights)
      weightBytes += weight.bytes();
    for (const DeviceBuffer &tensor : layer.derived)
      weightBytes += tensor.bytes();
  }
  return toText(Json{{"target", target_->text()},
                     {"options",
                      {{"max_num_requests", options_.max_num_requests},
                       {"max_num_tokens", options_.max_num_tokens},
                       {"max_seq_len", options_.max_seq_len},
                       {"num_pages", limits_.numPages},
                       {"num_layers", options_.num_layers},
                       {"workspace_tokens", options_.workspace_tokens},
                       {"num_sms", options_.num_sms},
                       {"page_padding_tokens", options_.page_padding_tokens},
                       {"tensor_parallel_rank", options_.tensor_parallel_rank},
                       {"external_pools", options_.external_pools}}},
                     {"workspace_bytes", workspace_.bytes()},
                     {"cache_bytes", cacheBytes},
                     {"weight_bytes", weightBytes},
                     {"functions", functions}});
}

//===----------------------------------------------------------------------===//
// Cache access for tests and tools
//===----------------------------------------------------------------------===//

Status Engine::poisonWorkspace() {
  MLAC_RETURN_IF_ERROR(device_->synchronize());
  if (workspace_.bytes() > 0)
    MLAC_RETURN_IF_ERROR(device_->fillAsync(workspace_.data(), kNanByte,
                                            static_cast<size_t>(workspace_.bytes()), nullptr));
  return device_->synchronize();
}

Status Engine::poison(Layer &layer) {
  MLAC_RETURN_IF_ERROR(requireOwnPools("which rows hold no token"));
  MLAC_RETURN_IF_ERROR(device_->synchronize());
  std::shared_lock lock(cache_.mutex);
  for (size_t pool = 0; pool < layouts.size(); ++pool)
    MLAC_RETURN_IF_ERROR(poison(layer.pools[pool], pool));
  return device_->synchronize();
}

Status Engine::poison(LayerPool &memory, size_t pool) {
  const CacheLayout &layout = layouts[pool];
  std::vector<int32_t> used = cache_.usedRows(pool);
  // One fill per run of bytes between rows: free pages are mostly adjacent.
  int64_t begin = 0;
  auto fill = [&](int64_t end) {
    if (begin >= end)
      return Status();
    return device_->fillAsync(memory.data() + begin, kNanByte, static_cast<size_t>(end - begin),
                              nullptr);
  };
  for (size_t page = 0; page < used.size(); ++page) {
    if (used[page] == 0)
      continue;
    for (size_t section = 0; section < mlac::cache::kMaxSections; ++section) {
      int64_t start =
          static_cast<int64_t>(page) * layout.pageStride() + layout.sectionStart(section);
      MLAC_RETURN_IF_ERROR(fill(start));
      begin = std::max(begin, start + used[page] * layout.sectionBytes(section));
    }
  }
  return fill(memory.own.bytes());
}

Status Engine::runPageCopies(mla_stream *stream) {
  if (cache_.copies().empty())
    return Status();
  for (size_t pool = 0; pool < layouts.size(); ++pool) {
    std::vector<PageCopy> copies;
    for (const PageCopy &copy : cache_.copies())
      if (copy.pool == static_cast<int32_t>(pool))
        copies.push_back(copy);
    MLAC_RETURN_IF_ERROR(mover_->copy(pool, resolveChains(copies), stream));
  }
  cache_.copiesDone();
  return Status();
}

PageBytes Engine::pageBytes() {
  auto address = [this](int64_t layer, size_t pool, int32_t page) {
    return layers[static_cast<size_t>(layer)].pools[pool].data() + page * pageStride(pool);
  };
  PageBytes result;
  result.numLayers = options_.num_layers;
  for (size_t pool = 0; pool < layouts.size(); ++pool)
    result.bytesPerPage.push_back(pageBytesUsed(pool));
  result.read = [=, this](int64_t layer, size_t pool, int32_t page, void *to) {
    return device_->download(to, address(layer, pool, page),
                             static_cast<size_t>(pageBytesUsed(pool)));
  };
  result.write = [=, this](int64_t layer, size_t pool, int32_t page, const void *from) {
    return device_->upload(address(layer, pool, page), from,
                           static_cast<size_t>(pageBytesUsed(pool)));
  };
  return result;
}

Status Engine::checkSlots(size_t pool, int64_t slot, int64_t count) const {
  int64_t slots = limits_.pool(pool).numPages * limits_.pool(pool).pageRows;
  if (slot >= 0 && count >= 0 && slot <= slots && count <= slots - slot)
    return Status();
  return error(MLA_INVALID_ARGUMENT, "slots ", slot, " + ", count, ", the pool has ", slots);
}

std::array<Engine::RowPiece, mlac::cache::kMaxSections> Engine::rowPieces(Layer &layer, size_t pool,
                                                                          int64_t slot) const {
  std::array<RowPiece, mlac::cache::kMaxSections> pieces;
  const CacheLayout &layout = layouts[pool];
  int64_t pageRows = layout.shape().pageSize;
  int64_t page = slot / pageRows, inPage = slot % pageRows, begin = 0;
  for (size_t section = 0; section < pieces.size(); ++section) {
    int64_t bytes = layout.sectionBytes(section);
    pieces[section] = {layer.pools[pool].data() + page * layout.pageStride() +
                           layout.sectionStart(section) + inPage * bytes,
                       begin, bytes};
    begin += bytes;
  }
  return pieces;
}

Status Engine::readRows(Layer &layer, size_t pool, int64_t slot, int64_t count, void *rows) {
  MLAC_RETURN_IF_ERROR(requirePool(layer, pool));
  MLAC_RETURN_IF_ERROR(checkSlots(pool, slot, count));
  int64_t rowBytes = layouts[pool].tokenBytes();
  for (int64_t i = 0; i < count; ++i)
    for (const RowPiece &piece : rowPieces(layer, pool, slot + i))
      if (piece.bytes > 0)
        MLAC_RETURN_IF_ERROR(
            device_->download(static_cast<char *>(rows) + i * rowBytes + piece.begin, piece.address,
                              static_cast<size_t>(piece.bytes)));
  return Status();
}

Status Engine::writeRows(Layer &layer, size_t pool, int64_t slot, int64_t count, const void *rows) {
  MLAC_RETURN_IF_ERROR(requirePool(layer, pool));
  MLAC_RETURN_IF_ERROR(checkSlots(pool, slot, count));
  int64_t rowBytes = layouts[pool].tokenBytes();
  for (int64_t i = 0; i < count; ++i)
    for (const RowPiece &piece : rowPieces(layer, pool, slot + i))
      if (piece.bytes > 0)
        MLAC_RETURN_IF_ERROR(device_->upload(
            piece.address, static_cast<const char *>(rows) + i * rowBytes + piece.begin,
            static_cast<size_t>(piece.bytes)));
  return Status();
}
