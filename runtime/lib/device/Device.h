//===- Device.h - where kernels run -----------------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the engine needs of a device: memory, ordered copies, events, and the
// loading and launching of a target's kernels. Two implementations: CpuDevice
// (host memory, worker threads, everything complete on return) and CudaDevice.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_DEVICE_H
#define MLAC_RUNTIME_DEVICE_H

#include "package/LaunchList.h"

namespace mlac::runtime {

/// The loaded kernels of one target.
class Program {
public:
  virtual ~Program() = default;
  /// Makes the descriptor of `map` for a tensor at `address`.
  virtual Status encode(const TensorMap &map, uint64_t address, EncodedTensorMap &encoded) = 0;
  /// Runs one kernel; `args` are 64-bit slots in parameter order, `maps` those of
  /// the launch, encoded. Neither allocates nor waits on a CUDA device.
  virtual Status launch(const Launch &launch, const uint64_t *args, const EncodedTensorMap *maps,
                        mla_stream *stream) = 0;
};

/// A point in a stream's work.
class Event {
public:
  virtual ~Event() = default;
  virtual Status record(mla_stream *stream) = 0;
  virtual Status wait() = 0;
  /// What is enqueued on `stream` from now on waits for the event; the host does not.
  virtual Status delay(mla_stream *stream) = 0;
  /// Milliseconds from this event to `end`; both are recorded and waited for.
  virtual Status elapsed(Event &end, double &milliseconds) = 0;
};

class Device {
public:
  virtual ~Device() = default;

  virtual bool isCuda() const = 0;
  virtual int64_t numSms() const = 0;
  virtual const std::string &infoJson() const = 0;

  /// Whether `target` runs here; otherwise `reason` says what is missing.
  virtual bool supports(const fb::Target &target, std::string &reason) const = 0;
  /// Higher is the better choice among supported targets.
  virtual int64_t preference(const fb::Target &target) const = 0;
  virtual Status load(const fb::Target &target, std::unique_ptr<Program> &program) = 0;

  /// `bytes` > 0. Device memory, and host memory that async uploads start from.
  virtual Status allocate(size_t bytes, void **data) = 0;
  virtual void release(void *data) = 0;
  virtual Status allocateStaging(size_t bytes, void **data) = 0;
  virtual void releaseStaging(void *data) = 0;

  virtual Status upload(void *to, const void *from, size_t bytes) = 0;
  virtual Status download(void *to, const void *from, size_t bytes) = 0;
  virtual Status uploadAsync(void *to, const void *staging, size_t bytes, mla_stream *stream) = 0;
  virtual Status downloadAsync(void *staging, const void *from, size_t bytes,
                               mla_stream *stream) = 0;
  /// The 32-bit words at `offsets` (bytes, multiples of four) become those of `staging`,
  /// in stream order; cheaper than a copy for each.
  virtual Status writeWords(char *to, const uint8_t *staging, std::span<const int64_t> offsets,
                            mla_stream *stream);
  virtual Status copyAsync(void *to, const void *from, size_t bytes, mla_stream *stream) = 0;
  virtual Status fillAsync(void *to, uint8_t value, size_t bytes, mla_stream *stream) = 0;

  virtual Status synchronize() = 0;
  /// Refuses streams that this device cannot have.
  virtual Status checkStream(mla_stream *stream) const = 0;
  /// Whether what is launched on the stream goes into a graph.
  virtual bool isCapturing(mla_stream *) const { return false; }
  virtual Status createStream(mla_stream **stream) = 0;
  virtual Status destroyStream(mla_stream *stream) = 0;
  virtual Status synchronize(mla_stream *stream) = 0;
  virtual Status createEvent(std::unique_ptr<Event> &event) = 0;
};

/// Opens "cpu", "cuda" or "cuda:N".
Status openDevice(std::string_view name, int32_t threads, std::shared_ptr<Device> &device);
Status openCpuDevice(int32_t threads, std::shared_ptr<Device> &device);
Status openCudaDevice(int32_t ordinal, std::shared_ptr<Device> &device);

/// Device memory that frees itself.
class DeviceBuffer {
public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer &&other) noexcept
      : device(std::move(other.device)), data_(other.data_), bytes_(other.bytes_) {
    other.data_ = nullptr;
    other.bytes_ = 0;
  }
  DeviceBuffer &operator=(DeviceBuffer &&other) noexcept {
    std::swap(device, other.device);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceBuffer() {
    if (data_)
      device->release(data_);
  }

  /// `what` names the buffer in the error. Zero bytes: stays null.
  static Status make(std::shared_ptr<Device> device, int64_t bytes, std::string_view what,
                     DeviceBuffer &buffer);

  char *data() const { return static_cast<char *>(data_); }
  int64_t bytes() const { return bytes_; }

private:
  std::shared_ptr<Device> device;
  void *data_ = nullptr;
  int64_t bytes_ = 0;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_DEVICE_H
