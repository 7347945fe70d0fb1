//===- Api.h - the runtime's C API with owners and exceptions ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Handles close themselves; a status other than MLA_OK becomes an exception
// with the runtime's message. Only for this tool: programs that must not throw
// use the C API as it is.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_RUN_API_H
#define MLA_RUN_API_H

#include "mla_runtime.h"

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace mlac::run {

inline void check(mla_status status, const char *what) {
  if (status != MLA_OK)
    throw std::runtime_error(std::string(what) + ": " + mla_last_error() + " (" +
                             mla_status_name(status) + ")");
}

template <typename T, mla_status (*Close)(T *)> class Handle {
public:
  Handle() = default;
  Handle(Handle &&other) noexcept : handle(std::exchange(other.handle, nullptr)) {}
  Handle &operator=(Handle &&other) noexcept {
    std::swap(handle, other.handle);
    return *this;
  }
  ~Handle() {
    if (handle)
      (void)Close(handle);
  }
  T *get() const { return handle; }
  T **out() { return &handle; }

private:
  T *handle = nullptr;
};

using Package = Handle<mla_package, mla_package_close>;
using Device = Handle<mla_device, mla_device_close>;
using Engine = Handle<mla_engine, mla_engine_destroy>;
using Plan = Handle<mla_plan, mla_plan_destroy>;
using Event = Handle<mla_event, mla_event_destroy>;
using Cache = Handle<mla_cache, mla_cache_destroy>;
using Swap = Handle<mla_swap, mla_swap_destroy>;

/// Device memory.
class Buffer {
public:
  Buffer(mla_device *device, size_t bytes) : device(device), size(bytes) {
    check(mla_device_malloc(device, bytes == 0 ? 1 : bytes, &memory), "allocating device memory");
  }
  Buffer(const Buffer &) = delete;
  ~Buffer() { (void)mla_device_free(device, memory); }

  void *data() const { return memory; }
  size_t bytes() const { return size; }
  void upload(const void *host) const {
    if (size != 0)
      check(mla_device_upload(device, memory, host, size), "copying to the device");
  }
  void download(void *host) const {
    if (size != 0)
      check(mla_device_download(device, host, memory, size), "copying from the device");
  }

private:
  mla_device *device;
  size_t size;
  void *memory = nullptr;
};

/// Sequences of one engine, freed together.
class Sequences {
public:
  Sequences(mla_engine *engine, size_t count) : engine(engine) {
    for (size_t i = 0; i < count; ++i) {
      ids.push_back(0);
      check(mla_sequence_create(engine, &ids.back()), "making a sequence");
    }
  }
  Sequences(const Sequences &) = delete;
  ~Sequences() {
    for (mla_sequence id : ids)
      (void)mla_sequence_free(engine, id);
  }
  mla_sequence operator[](size_t index) const { return ids[index]; }

private:
  mla_engine *engine;
  std::vector<mla_sequence> ids;
};

} // namespace mlac::run

#endif // MLA_RUN_API_H
