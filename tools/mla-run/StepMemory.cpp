//===- StepMemory.cpp - inputs and outputs of any function ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StepMemory.h"

#include <algorithm>

using namespace mlac::run;

static bool isFloat(const std::string &dtype) {
  return dtype == "bf16" || dtype == "f16" || dtype == "f32";
}

StepMemory::StepMemory(const Session &session, const StepFunction &function, int64_t tokens,
                       uint64_t seed)
    : session(session), function(function) {
  int64_t row = session.hidden;
  if (!function.isLayer())
    row = std::max(row, session.heads * session.rowWidth);
  bytes = static_cast<size_t>(std::max<int64_t>(tokens, 1) * row) * sizeof(float);
  constexpr uint8_t kNan = 0xff, kZero = 0;
  for (const StepBuffer &buffer : this->function.buffers) {
    auto memory = std::make_unique<Buffer>(session.device.get(), bytes);
    memory->upload(std::vector<uint8_t>(bytes, buffer.isInput ? kZero : kNan).data());
    bindings.push_back({buffer.name.c_str(), memory->data(), bytes});
    buffers[buffer.name] = std::move(memory);
    if (buffer.isInput && isFloat(buffer.dtype))
      fill(buffer.name, bytes / sizeof(float), seed++);
  }
}

mla_dtype StepMemory::typeOf(const std::string &name) const {
  for (const StepBuffer &buffer : function.buffers)
    if (buffer.name == name && isFloat(buffer.dtype))
      return parseType(buffer.dtype);
  throw std::runtime_error("buffer '" + name + "' is not of bf16, f16 or f32");
}

std::vector<float> StepMemory::fill(const std::string &name, size_t elements, uint64_t seed) {
  std::vector<float> values = randomBf16(seed, elements, 1.0);
  std::vector<uint8_t> encoded = encode(values, typeOf(name));
  check(mla_device_upload(session.device.get(), buffers.at(name)->data(), encoded.data(),
                          encoded.size()),
        "copying to the device");
  return values;
}

std::vector<float> StepMemory::read(const std::string &name, size_t elements) const {
  mla_dtype dtype = typeOf(name);
  std::vector<uint8_t> encoded(elements * elementBytes(dtype));
  check(mla_device_download(session.device.get(), encoded.data(), buffers.at(name)->data(),
                            encoded.size()),
        "copying from the device");
  return decode(encoded, dtype);
}

void StepMemory::run(mla_plan *plan) const {
  check(
      mla_step_run_bound(plan, 0, bindings.data(), static_cast<int64_t>(bindings.size()), nullptr),
      "running a step");
}
