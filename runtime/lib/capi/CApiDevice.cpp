//===- CApiDevice.cpp - C entry points: packages and devices ----*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "capi/CApiSupport.h"

using namespace mlac::runtime;

//===----------------------------------------------------------------------===//
// Packages
//===----------------------------------------------------------------------===//

static mla_package *publish(std::shared_ptr<Package> package) {
  auto object = std::make_shared<PackageObject>();
  object->package = std::move(package);
  return packages().insert(std::move(object));
}

mla_status mla_package_open(const char *path, mla_package **package) {
  return report([&]() -> Status {
    MLAC_RETURN_IF_ERROR(requirePath(path));
    MLAC_RETURN_IF_ERROR(requirePointer(package, "package"));
    std::shared_ptr<Package> opened;
    MLAC_RETURN_IF_ERROR(Package::openFile(path, opened));
    *package = publish(std::move(opened));
    return Status();
  });
}

mla_status mla_package_open_bytes(const void *data, size_t bytes, mla_package **package) {
  return report([&]() -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(data, "data"));
    MLAC_RETURN_IF_ERROR(requirePointer(package, "package"));
    std::shared_ptr<Package> opened;
    MLAC_RETURN_IF_ERROR(Package::open(data, bytes, opened));
    *package = publish(std::move(opened));
    return Status();
  });
}

mla_status mla_package_kind(mla_package *package, int64_t index, mla_package **kind) {
  return report([&]() -> Status {
    std::shared_ptr<PackageObject> object;
    MLAC_RETURN_IF_ERROR(packages().find(package, object));
    MLAC_RETURN_IF_ERROR(requirePointer(kind, "kind"));
    const std::vector<KindInfo> &kinds = object->package->kinds();
    if (index < 0 || index >= static_cast<int64_t>(kinds.size()))
      return error(MLA_INVALID_ARGUMENT, "index = ", index, ", the package has ", kinds.size(),
                   " kinds of layers");
    *kind = publish(kinds[static_cast<size_t>(index)].package);
    return Status();
  });
}

mla_status mla_package_close(mla_package *package) {
  return report([&]() -> Status {
    std::shared_ptr<PackageObject> object;
    return packages().remove(package, object);
  });
}

mla_status mla_package_info(mla_package *package, const char **json) {
  return report([&]() -> Status {
    std::shared_ptr<PackageObject> object;
    MLAC_RETURN_IF_ERROR(packages().find(package, object));
    MLAC_RETURN_IF_ERROR(requirePointer(json, "json"));
    std::lock_guard lock(object->mutex);
    *json = object->package->infoJson().c_str();
    return Status();
  });
}

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

mla_status mla_device_open(const char *name, int32_t threads, mla_device **device) {
  return report([&]() -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(name, "name"));
    MLAC_RETURN_IF_ERROR(requirePointer(device, "device"));
    std::shared_ptr<Device> opened;
    MLAC_RETURN_IF_ERROR(openDevice(name, threads, opened));
    *device = devices().insert(std::move(opened));
    return Status();
  });
}

mla_status mla_device_close(mla_device *device) {
  return report([&]() -> Status {
    std::shared_ptr<Device> object;
    return devices().remove(device, object);
  });
}

/// Runs function(device) for a valid handle.
template <typename Function>
static mla_status withDevice(mla_device *device, Function function,
                             const char *name = __builtin_FUNCTION()) {
  return report(
      [&]() -> Status {
        std::shared_ptr<Device> object;
        MLAC_RETURN_IF_ERROR(devices().find(device, object));
        return function(*object);
      },
      name);
}

mla_status mla_device_info(mla_device *device, const char **json) {
  return withDevice(device, [&](Device &object) -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(json, "json"));
    *json = object.infoJson().c_str();
    return Status();
  });
}

int mla_device_is_cuda(mla_device *device) {
  std::shared_ptr<Device> object;
  if (!devices().find(device, object).isOk())
    return -1;
  return object->isCuda() ? 1 : 0;
}

mla_status mla_device_malloc(mla_device *device, size_t bytes, void **data) {
  return withDevice(device, [&](Device &object) -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(data, "data"));
    if (bytes == 0)
      return error(MLA_INVALID_ARGUMENT, "bytes is 0");
    return object.allocate(bytes, data);
  });
}

mla_status mla_device_free(mla_device *device, void *data) {
  return withDevice(device, [&](Device &object) -> Status {
    if (data)
      object.release(data);
    return Status();
  });
}

/// Both ends of a copy; may be null when nothing is copied.
static Status requireEnds(const void *to, const void *from, size_t bytes) {
  if (bytes == 0)
    return Status();
  MLAC_RETURN_IF_ERROR(requirePointer(to, "destination"));
  return requirePointer(from, "source");
}

mla_status mla_device_upload(mla_device *device, void *to, const void *from, size_t bytes) {
  return withDevice(device, [&](Device &object) -> Status {
    MLAC_RETURN_IF_ERROR(requireEnds(to, from, bytes));
    return bytes ? object.upload(to, from, bytes) : Status();
  });
}

mla_status mla_device_download(mla_device *device, void *to, const void *from, size_t bytes) {
  return withDevice(device, [&](Device &object) -> Status {
    MLAC_RETURN_IF_ERROR(requireEnds(to, from, bytes));
    return bytes ? object.download(to, from, bytes) : Status();
  });
}

mla_status mla_device_copy_async(mla_device *device, void *to, const void *from, size_t bytes,
                                 mla_stream *stream) {
  return withDevice(device, [&](Device &object) -> Status {
    MLAC_RETURN_IF_ERROR(object.checkStream(stream));
    MLAC_RETURN_IF_ERROR(requireEnds(to, from, bytes));
    return bytes ? object.copyAsync(to, from, bytes, stream) : Status();
  });
}

mla_status mla_device_fill_async(mla_device *device, void *data, uint8_t value, size_t bytes,
                                 mla_stream *stream) {
  return withDevice(device, [&](Device &object) -> Status {
    MLAC_RETURN_IF_ERROR(object.checkStream(stream));
    MLAC_RETURN_IF_ERROR(requireEnds(data, data, bytes));
    return bytes ? object.fillAsync(data, value, bytes, stream) : Status();
  });
}

mla_status mla_device_synchronize(mla_device *device) {
  return withDevice(device, [&](Device &object) { return object.synchronize(); });
}

//===----------------------------------------------------------------------===//
// Streams and events
//===----------------------------------------------------------------------===//

mla_status mla_stream_create(mla_device *device, mla_stream **stream) {
  return withDevice(device, [&](Device &object) -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(stream, "stream"));
    return object.createStream(stream);
  });
}

mla_status mla_stream_destroy(mla_device *device, mla_stream *stream) {
  return withDevice(device, [&](Device &object) -> Status {
    MLAC_RETURN_IF_ERROR(object.checkStream(stream));
    return stream ? object.destroyStream(stream) : Status();
  });
}

mla_status mla_stream_synchronize(mla_device *device, mla_stream *stream) {
  return withDevice(device, [&](Device &object) -> Status {
    MLAC_RETURN_IF_ERROR(object.checkStream(stream));
    return object.synchronize(stream);
  });
}

mla_status mla_event_create(mla_device *device, mla_event **event) {
  return report([&]() -> Status {
    auto object = std::make_shared<EventObject>();
    MLAC_RETURN_IF_ERROR(devices().find(device, object->device));
    MLAC_RETURN_IF_ERROR(requirePointer(event, "event"));
    MLAC_RETURN_IF_ERROR(object->device->createEvent(object->event));
    *event = events().insert(std::move(object));
    return Status();
  });
}

mla_status mla_event_destroy(mla_event *event) {
  return report([&]() -> Status {
    std::shared_ptr<EventObject> object;
    return events().remove(event, object);
  });
}

mla_status mla_event_record(mla_event *event, mla_stream *stream) {
  return report([&]() -> Status {
    std::shared_ptr<EventObject> object;
    MLAC_RETURN_IF_ERROR(events().find(event, object));
    MLAC_RETURN_IF_ERROR(object->device->checkStream(stream));
    MLAC_RETURN_IF_ERROR(object->event->record(stream));
    object->isRecorded = true;
    return Status();
  });
}

mla_status mla_event_elapsed(mla_event *begin, mla_event *end, double *milliseconds) {
  return report([&]() -> Status {
    std::shared_ptr<EventObject> first, last;
    MLAC_RETURN_IF_ERROR(events().find(begin, first));
    MLAC_RETURN_IF_ERROR(events().find(end, last));
    MLAC_RETURN_IF_ERROR(requirePointer(milliseconds, "milliseconds"));
    if (first->device != last->device)
      return error(MLA_INVALID_ARGUMENT, "the events are of two devices");
    if (!first->isRecorded || !last->isRecorded)
      return error(MLA_WRONG_STATE, "the ", first->isRecorded ? "end" : "begin",
                   " event has not been recorded");
    return first->event->elapsed(*last->event, *milliseconds);
  });
}
