//===- CApiWeights.cpp - C entry points: weights, checkpoints ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "base/Json.h"
#include "capi/CApiSupport.h"
#include "engine/Checkpoint.h"

#include <cmath>

using namespace mlac::runtime;

//===----------------------------------------------------------------------===//
// Binding
//===----------------------------------------------------------------------===//

static Status checkFlags(uint32_t flags) {
  return flags & ~MLA_ALLOW_EXTRA_TENSORS ? error(MLA_INVALID_ARGUMENT, "unknown flags ", flags)
                                          : Status();
}

static Status readTensor(const mla_tensor &given, SourceTensors &tensors) {
  MLAC_RETURN_IF_ERROR(requirePointer(given.name, "name"));
  if (given.rank > 0)
    MLAC_RETURN_IF_ERROR(requirePointer(given.shape, "shape"));
  MLAC_RETURN_IF_ERROR(requirePointer(given.data, "data"));
  if (given.rank < 0)
    return error(MLA_INVALID_ARGUMENT, "rank is ", given.rank);
  if (!isKnownType(given.dtype))
    return error(MLA_INVALID_ARGUMENT, "unknown dtype ", given.dtype);
  SourceTensor tensor = {given.dtype, typeName(given.dtype), {}, given.data};
  tensor.shape.assign(given.shape, given.shape + given.rank);
  return tensors.emplace(given.name, std::move(tensor)).second
             ? Status()
             : error(MLA_INVALID_ARGUMENT, "'", given.name, "' is given twice");
}

mla_status mla_engine_bind_weight(mla_engine *engine, int64_t layer, const char *name,
                                  mla_dtype dtype, const int64_t *shape, int32_t rank,
                                  const void *data) {
  return withLayer(engine, layer, [&](Engine &object, Layer &bound) -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(name, "name"));
    MLAC_RETURN_IF_ERROR(requirePointer(shape, "shape"));
    MLAC_RETURN_IF_ERROR(requirePointer(data, "data"));
    if (rank < 0)
      return error(MLA_INVALID_ARGUMENT, "rank is ", rank);
    if (!isKnownType(dtype))
      return error(MLA_INVALID_ARGUMENT, "unknown dtype ", dtype);
    return object.bindWeight(bound, name, {dtype, {shape, shape + rank}, data});
  });
}

mla_status mla_engine_bind_safetensors(mla_engine *engine, int64_t layer, const char *path,
                                       const char *prefix, uint32_t flags) {
  return withLayer(engine, layer, [&](Engine &object, Layer &bound) -> Status {
    MLAC_RETURN_IF_ERROR(requirePath(path));
    MLAC_RETURN_IF_ERROR(checkFlags(flags));
    return object.bindSafetensors(bound, path, prefix ? prefix : "",
                                  flags & MLA_ALLOW_EXTRA_TENSORS);
  });
}

mla_status mla_engine_prepare(mla_engine *engine, int64_t layer) {
  return withLayer(engine, layer,
                   [&](Engine &object, Layer &bound) { return object.prepare(bound); });
}

mla_status mla_engine_bind_tensors(mla_engine *engine, int64_t layer, const mla_tensor *tensors,
                                   int64_t num_tensors) {
  return withLayer(engine, layer, [&](Engine &object, Layer &bound) -> Status {
    if (num_tensors < 0)
      return error(MLA_INVALID_ARGUMENT, "num_tensors is ", num_tensors);
    if (num_tensors > 0)
      MLAC_RETURN_IF_ERROR(requirePointer(tensors, "tensors"));
    SourceTensors map;
    for (int64_t i = 0; i < num_tensors; ++i)
      MLAC_RETURN_IF_ERROR(readTensor(tensors[i], map).in("tensor ", i));
    return object.bindTensors(bound, std::move(map));
  });
}

//===----------------------------------------------------------------------===//
// Checkpoints
//===----------------------------------------------------------------------===//

mla_status mla_checkpoint_open(const char *path, mla_checkpoint **checkpoint) {
  return report([&]() -> Status {
    MLAC_RETURN_IF_ERROR(requirePath(path));
    MLAC_RETURN_IF_ERROR(requirePointer(checkpoint, "checkpoint"));
    auto object = std::make_shared<CheckpointObject>();
    MLAC_RETURN_IF_ERROR(Checkpoint::open(path, object->checkpoint));
    *checkpoint = checkpoints().insert(std::move(object));
    return Status();
  });
}

mla_status mla_checkpoint_close(mla_checkpoint *checkpoint) {
  return report([&]() -> Status {
    std::shared_ptr<CheckpointObject> object;
    return checkpoints().remove(checkpoint, object);
  });
}

/// Runs function(object) under the checkpoint's lock.
template <typename Function>
static Status withCheckpoint(mla_checkpoint *checkpoint, Function function) {
  std::shared_ptr<CheckpointObject> object;
  MLAC_RETURN_IF_ERROR(checkpoints().find(checkpoint, object));
  std::lock_guard lock(object->mutex);
  return function(*object);
}

mla_status mla_checkpoint_info(mla_checkpoint *checkpoint, const char **json) {
  return report([&] {
    return withCheckpoint(checkpoint, [&](CheckpointObject &object) -> Status {
      MLAC_RETURN_IF_ERROR(requirePointer(json, "json"));
      static thread_local std::string kept;
      kept = toText(Json{{"attentions", object.checkpoint->attentions()},
                         {"metadata", object.checkpoint->metadata()}});
      *json = kept.c_str();
      return Status();
    });
  });
}

mla_status mla_checkpoint_tensor(mla_checkpoint *checkpoint, const char *name, mla_tensor *tensor) {
  return report([&] {
    return withCheckpoint(checkpoint, [&](CheckpointObject &object) -> Status {
      MLAC_RETURN_IF_ERROR(requirePointer(name, "name"));
      MLAC_RETURN_IF_ERROR(requirePointer(tensor, "tensor"));
      const SourceTensor *found;
      const std::string *known;
      MLAC_RETURN_IF_ERROR(object.checkpoint->find(name, known, found));
      if (!found->type)
        return error(MLA_UNSUPPORTED, "tensor '", name, "' is ", found->typeText);
      *tensor = {known->c_str(), *found->type, static_cast<int32_t>(found->shape.size()),
                 found->shape.data(), found->data};
      return Status();
    });
  });
}

mla_status mla_engine_bind_checkpoint(mla_engine *engine, int64_t first_layer, int64_t num_layers,
                                      mla_checkpoint *checkpoint, int64_t first_attention,
                                      uint32_t flags, mla_progress progress, void *user) {
  return withEngine(engine, [&](Engine &object) {
    return withCheckpoint(checkpoint, [&](CheckpointObject &source) -> Status {
      MLAC_RETURN_IF_ERROR(checkFlags(flags));
      Layer *layer;
      MLAC_RETURN_IF_ERROR(object.getLayer(first_layer, layer));
      int64_t most = object.options().num_layers - first_layer;
      if (num_layers < 0 || num_layers > most)
        return error(MLA_INVALID_ARGUMENT, "num_layers = ", num_layers, ", expected 0 to ", most,
                     " from layer ", first_layer, " on");
      return object.bindCheckpoint(*source.checkpoint, first_layer, num_layers ? num_layers : most,
                                   first_attention, flags & MLA_ALLOW_EXTRA_TENSORS,
                                   {progress, user});
    });
  });
}

//===----------------------------------------------------------------------===//
// Quantisation
//===----------------------------------------------------------------------===//

/// Far above any matrix, and products of two fit 64 bits.
static constexpr int64_t kMostRows = int64_t(1) << 31;

mla_status mla_quantize_weight(const float *values, int64_t rows, int64_t columns,
                               int64_t block_rows, int64_t block_columns, uint8_t *codes,
                               float *scales) {
  return report([&]() -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(values, "values"));
    MLAC_RETURN_IF_ERROR(requirePointer(codes, "codes"));
    MLAC_RETURN_IF_ERROR(requirePointer(scales, "scales"));
    if (rows < 1 || rows > kMostRows || columns < 1 || columns > kMostRows)
      return error(MLA_INVALID_ARGUMENT, "a matrix of ", rows, " x ", columns,
                   ", expected extents from 1 to ", kMostRows);
    if (block_rows < 0 || block_rows > kMostRows || block_columns < 0 || block_columns > kMostRows)
      return error(MLA_INVALID_ARGUMENT, "blocks of ", block_rows, " x ", block_columns,
                   ", expected extents from 0 to ", kMostRows);
    for (int64_t i = 0; i < rows * columns; ++i)
      if (!std::isfinite(values[i]))
        return error(MLA_INVALID_ARGUMENT, "value [", i / columns, ", ", i % columns,
                     "] = ", values[i], ", expected a finite number");
    quantise(values, rows, columns, {block_rows, block_columns}, codes, scales);
    return Status();
  });
}
