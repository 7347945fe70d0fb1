//===- Device.cpp - where kernels run ---------------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "device/Device.h"

#include <charconv>

using namespace mlac::runtime;

Status mlac::runtime::openDevice(std::string_view name, int32_t threads,
                                 std::shared_ptr<Device> &device) {
  constexpr std::string_view kCuda = "cuda";
  if (name == "cpu")
    return openCpuDevice(threads, device);
  if (!name.starts_with(kCuda))
    return error(MLA_INVALID_ARGUMENT, "unknown device '", name, "', expected cpu, cuda or cuda:N");
  std::string_view rest = name.substr(kCuda.size());
  int32_t ordinal = 0;
  if (!rest.empty()) {
    const char *end = rest.data() + rest.size();
    bool isSeparated = rest.front() == ':' && rest.size() > 1;
    auto [stop, code] = std::from_chars(rest.data() + 1, end, ordinal);
    if (!isSeparated || code != std::errc() || stop != end || ordinal < 0)
      return error(MLA_INVALID_ARGUMENT, "unknown device '", name,
                   "', expected cpu, cuda or cuda:N");
  }
  if (threads != 0)
    return error(MLA_INVALID_ARGUMENT, "threads = ", threads, " for a CUDA device, expected 0");
  return openCudaDevice(ordinal, device);
}

Status Device::writeWords(char *to, const uint8_t *staging, std::span<const int64_t> offsets,
                          mla_stream *stream) {
  for (int64_t offset : offsets)
    MLAC_RETURN_IF_ERROR(uploadAsync(to + offset, staging + offset, sizeof(uint32_t), stream));
  return Status();
}

Status DeviceBuffer::make(std::shared_ptr<Device> device, int64_t bytes, std::string_view what,
                          DeviceBuffer &buffer) {
  DeviceBuffer result;
  result.bytes_ = bytes;
  if (bytes > 0)
    MLAC_RETURN_IF_ERROR(device->allocate(static_cast<size_t>(bytes), &result.data_).in(what));
  result.device = std::move(device);
  buffer = std::move(result);
  return Status();
}
