//===- Plan.h - one step of a batch -----------------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A plan: the planner's metadata on the device, with a mirror on the host, and the
// resolved launches. Block tables stay from step to step: only what has changed of them
// is sent, with all other arrays (StepLayout.h).
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_PLAN_H
#define MLAC_RUNTIME_PLAN_H

#include "engine/StepRunner.h"

namespace mlac::runtime {

class Plan {
public:
  static Status create(std::shared_ptr<Engine> engine, std::shared_ptr<Plan> &plan);

  Engine &engine() { return *engine_; }

  /// With a `shape`, padded to it.
  Status fill(const mla_batch &batch, const char *function, const mla_step_shape *shape,
              mla_stream *stream);
  /// With the caller's table, lengths and slots.
  Status fillFromTables(const mla_table_batch &batch, const char *function,
                        const mla_step_shape *shape, mla_stream *stream);
  /// With lengths, table and slots on the device.
  Status fillFromDevice(const mla_device_batch &batch, const char *function, mla_stream *stream);
  Status run(int64_t layer, const void *hidden, void *output, mla_stream *stream,
             std::vector<LaunchTime> *times = nullptr);
  Status runBound(int64_t layer, std::span<const mla_binding> bindings, mla_stream *stream);
  Status profile(int64_t layer, const void *hidden, void *output, mla_stream *stream,
                 const char **json);

  void releaseCaptures() { captures.forget(); }

  Status functionName(const char *&name) const;
  Status dim(std::string_view name, int64_t &value) const;
  Status metadata(std::string_view name, mla_dtype &dtype, int64_t &elements,
                  const void *&data) const;

private:
  explicit Plan(std::shared_ptr<Engine> engine);
  Status chooseFunction(const char *name, int64_t maxQueryLen, const FunctionInfo *&function) const;
  Status choosePadded(const char *&name) const;
  const FunctionInfo &functionFor(const FunctionInfo &function, const mla_step_shape *shape) const;
  Status beginFill(mla_stream *stream);
  Status resolveExact(const char *function, const mla_step_shape *shape);
  Status resolveDevice(const mla_device_batch &batch, const char *function);
  Status resolveFor(const FunctionInfo &chosen, const mla_step_shape *shape);
  Status finishFill(mla_stream *stream);
  void noteStep() const;
  Status launch(int64_t index, Layer &layer, std::span<const mla_binding> bindings,
                mla_stream *stream, std::vector<LaunchTime> *times);
  Status allReduce(std::span<const mla_binding> bindings, mla_stream *stream);
  Status uploadMetadata(mla_stream *stream);
  void noteCapture(mla_stream *stream);
  Status requireFilled() const;
  Status requireLayer(int64_t index, Layer *&layer);
  Status requirePages();
  Status requirePools(const Layer &layer) const;
  Status requirePool(const Layer &layer, size_t index) const;

  std::shared_ptr<Engine> engine_;
  StepPlanner planner;
  StepRunner runner;
  CapturedRuns captures;
  std::vector<TableRows> rows;
  DeviceMirror metadata_;
  bool isFilled = false;
  bool hasSequences = false; // else the pages are the caller's
  uint64_t cacheEdits = 0;   // of the cache when the plan's pages were last seen to be held
  DimValues dims_{};
  StepLayout layout;
  std::string profileText;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_PLAN_H
