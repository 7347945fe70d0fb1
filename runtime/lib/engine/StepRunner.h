//===- StepRunner.h - resolved launches and their buffers -------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The launches of one function for given sizes, and their run: buffers are
// bound to addresses, argument slots patched, kernels launched in order. Used
// by plans and by "prepare".
//
// resolve() works on a spare list, so that a refused step leaves the current
// one runnable; commit() makes the spare one current.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_STEPRUNNER_H
#define MLAC_RUNTIME_STEPRUNNER_H

#include "engine/Engine.h"
#include "step/CapturedRuns.h"

#include <span>

namespace mlac::runtime {

/// Duration of one launch, for mla_step_profile.
struct LaunchTime {
  const Launch *launch;
  double milliseconds;
};

/// A second stream for launches that run beside the step's, and points of both to wait for.
class SideStream {
public:
  SideStream() = default;
  SideStream(const SideStream &) = delete;
  ~SideStream();
  /// Nothing where it has been made, or where the device completes launches one by one.
  Status make(const std::shared_ptr<Device> &device);

  mla_stream *stream() const { return stream_; }
  /// Ahead of a launch, or (kJoins) behind the last one.
  Status synchronise(uint8_t sync, mla_stream *main);

private:
  std::shared_ptr<Device> device;
  mla_stream *stream_ = nullptr;
  std::unique_ptr<Event> forked, joined;
};

class StepRunner {
public:
  /// Evaluates `function` for `dims` and checks that every buffer lies inside
  /// what the engine will bind to it.
  Status resolve(const Engine &engine, const FunctionInfo &function, const DimValues &dims,
                 const StepLayout &layout);
  /// Of the function resolved last.
  int64_t workspaceBytes() const { return spare.workspaceBytes; }
  void commit();

  const FunctionInfo *function() const { return current.function; }
  size_t numLaunches() const { return current.launches.size(); }
  /// What run() launches, and what it will after commit().
  const ResolvedStep &step() const { return current; }
  const ResolvedStep &next() const { return spare; }

  /// Gives every buffer its address, for launch(). `metadata`: device address of the
  /// step's metadata. `bindings`: inputs and outputs.
  Status bind(Engine &engine, Layer &layer, char *metadata, std::span<const mla_binding> bindings);
  /// Launches everything. With `times`, waits after every launch and records it.
  Status launch(Engine &engine, mla_stream *stream, std::vector<LaunchTime> *times);
  /// Both.
  Status run(Engine &engine, Layer &layer, char *metadata, std::span<const mla_binding> bindings,
             mla_stream *stream, std::vector<LaunchTime> *times) {
    MLAC_RETURN_IF_ERROR(bind(engine, layer, metadata, bindings));
    return launch(engine, stream, times);
  }
  /// Of a buffer of the function, since bind().
  const void *address(size_t buffer) const { return addresses[buffer]; }

private:
  struct Resolved : ResolvedStep {
    std::vector<EncodedTensorMap> encoded; // parallel to `maps`
  };

  static Status checkExtent(const Engine &engine, const BufferInfo &buffer,
                            const BufferExtent &extent, const StepLayout &layout);
  Status bindBuffers(Engine &engine, Layer &layer, char *metadata,
                     std::span<const mla_binding> bindings);
  Status bindCaller(const BufferInfo &buffer, const BufferExtent &extent,
                    std::span<const mla_binding> bindings, void *&address);
  Status checkBindings(std::span<const mla_binding> bindings) const;
  Status encodeMaps(Engine &engine);
  Status launchOne(Engine &engine, const Launch &launch, mla_stream *stream);
  Status launchTimed(Engine &engine, mla_stream *stream, std::vector<LaunchTime> &times);

  Resolved current, spare;
  SideStream side;
  std::vector<void *> addresses; // of the current function's buffers
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_STEPRUNNER_H
