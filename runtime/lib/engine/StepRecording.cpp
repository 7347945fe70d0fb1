//===- StepRecording.cpp - the flight recorder of steps ---------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "engine/StepRecording.h"

#include "base/ApiLog.h"
#include "base/Json.h"
#include "base/NarrowFloat.h"
#include "base/RegularFile.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

using namespace mlac::runtime;

static constexpr const char *kVariable = "MLAC_RECORD";

/// Where recordings go; empty: nowhere. Read once: a process does not change its mind.
static const std::string &recordPath() {
  static const std::string &path = *new std::string([] {
    const char *text = std::getenv(kVariable);
    return std::string(text ? text : "");
  }());
  return path;
}

bool mlac::runtime::isRecording() {
  static const bool is = !recordPath().empty();
  return is;
}

std::string mlac::runtime::recordedName(std::string_view what, size_t index) {
  return concat(what, "/", index);
}

std::optional<size_t> mlac::runtime::findTablePool(const BufferInfo &buffer, size_t numPools,
                                                   bool &isSlots) {
  if (buffer.kind != fb::BufferKind::Metadata)
    return std::nullopt;
  auto array = static_cast<Metadata>(buffer.index);
  for (size_t pool = 0; pool < numPools; ++pool)
    for (Metadata table :
         {Metadata::BlockTable, Metadata::PrefillBlockTable, Metadata::SlotMapping})
      if (array == ofPool(table, pool)) {
        isSlots = table == Metadata::SlotMapping;
        return pool;
      }
  return std::nullopt;
}

bool mlac::runtime::hasNumbers(mla_dtype dtype) {
  return dtype == MLA_F32 || dtype == MLA_F16 || dtype == MLA_BF16;
}

int64_t mlac::runtime::countBad(mla_dtype dtype, const uint8_t *data, size_t bytes,
                                bool isInfinityBad) {
  auto count = [&](auto element, auto exponent) {
    using Element = decltype(element);
    auto mantissa = static_cast<Element>((exponent & -exponent) - 1);
    int64_t bad = 0;
    for (size_t i = 0; i + sizeof element <= bytes; i += sizeof element) {
      std::memcpy(&element, data + i, sizeof element);
      bool isSpecial = (element & exponent) == exponent;
      bad += isSpecial && (isInfinityBad || (element & mantissa) != 0);
    }
    return bad;
  };
  // Exponents of all ones.
  switch (dtype) {
  case MLA_F32:
    return count(uint32_t(0), uint32_t(0x7f800000));
  case MLA_F16:
    return count(uint16_t(0), uint16_t(0x7c00));
  case MLA_BF16:
    return count(uint16_t(0), uint16_t(0x7f80));
  default:
    return 0;
  }
}

//===----------------------------------------------------------------------===//
// Before the run
//===----------------------------------------------------------------------===//

/// Bytes that the step may read or write of what is bound to a buffer; of a rotary table those of
/// its positions.
int64_t StepRecording::bytesOf(size_t index) const {
  const BufferInfo &buffer = runner->step().function->buffers[index];
  const Package &package = engine->package();
  switch (buffer.kind) {
  case fb::BufferKind::Weight:
    return package.weights()[buffer.index].bytes();
  case fb::BufferKind::Derived:
    return package.derived()[buffer.index].bytes();
  case fb::BufferKind::Metadata:
    return runner->step().layout.arrays[buffer.index].elements * elementBytes(buffer.dtype);
  case fb::BufferKind::CacheScale:
    return package.pools()[buffer.index].layout.format().layerScales * int64_t(sizeof(float));
  case fb::BufferKind::RopeTable:
    return std::min(at(dims, Dim::MaxSeqLen), engine->limits().ropeLength) * package.ropeWidth() *
           int64_t(sizeof(float));
  default:
    return runner->step().extents[index].bytes;
  }
}

Status StepRecording::add(std::string name, const void *device, int64_t bytes) {
  Tensor tensor{"U8", {bytes}, std::vector<uint8_t>(static_cast<size_t>(bytes))};
  if (bytes > 0)
    MLAC_RETURN_IF_ERROR(engine->device().download(tensor.bytes.data(), device, bytes));
  tensors[std::move(name)] = std::move(tensor);
  return Status();
}

Status StepRecording::addBuffer(size_t index) {
  const BufferInfo &buffer = runner->step().function->buffers[index];
  switch (buffer.kind) {
  case fb::BufferKind::Output:
  case fb::BufferKind::Workspace:
  case fb::BufferKind::Cache:
    return Status();
  default:
    return add(recordedName("buffer", index), runner->address(index), bytesOf(index));
  }
}

/// Entries that are no pages of the pool stand behind a request's keys.
std::vector<int32_t> StepRecording::listPages(size_t pool) const {
  std::set<int32_t> pages;
  const PoolInfo &info = engine->package().pools()[pool];
  int64_t numPages = at(dims, ofPool(Dim::NumPages, pool));
  auto note = [&](int64_t page) {
    if (page >= 0 && page < numPages)
      pages.insert(static_cast<int32_t>(page));
  };
  const std::vector<BufferInfo> &buffers = runner->step().function->buffers;
  for (size_t i = 0; i < buffers.size(); ++i) {
    bool isSlots = false;
    if (findTablePool(buffers[i], engine->package().pools().size(), isSlots) != pool)
      continue;
    const std::vector<uint8_t> &bytes = tensors.at(recordedName("buffer", i)).bytes;
    for (size_t at = 0; isSlots && at < bytes.size(); at += sizeof(int64_t)) {
      int64_t slot;
      std::memcpy(&slot, &bytes[at], sizeof slot);
      note(slot < 0 ? -1 : slot / info.pageRows());
    }
    for (size_t at = 0; !isSlots && at < bytes.size(); at += sizeof(int32_t)) {
      int32_t page;
      std::memcpy(&page, &bytes[at], sizeof page);
      note(page);
    }
  }
  return {pages.begin(), pages.end()};
}

Status StepRecording::addPool(size_t pool) {
  const std::vector<BufferInfo> &buffers = runner->step().function->buffers;
  auto used = std::find_if(buffers.begin(), buffers.end(), [&](const BufferInfo &buffer) {
    return buffer.kind == fb::BufferKind::Cache && buffer.index == pool;
  });
  if (used == buffers.end())
    return Status();
  const char *base = static_cast<const char *>(runner->address(used - buffers.begin()));
  std::vector<int32_t> pages = listPages(pool);
  auto count = static_cast<int64_t>(pages.size());
  int64_t stride =
      at(dims, ofPool(Dim::PageStride, pool)) * elementBytes(engine->package().pools()[pool].dtype);
  Tensor list{"I32", {count}, std::vector<uint8_t>(pages.size() * sizeof(int32_t))};
  if (!pages.empty())
    std::memcpy(list.bytes.data(), pages.data(), list.bytes.size());
  Tensor content{"U8", {count, stride}, std::vector<uint8_t>(count * stride)};
  for (int64_t i = 0; i < count; ++i)
    MLAC_RETURN_IF_ERROR(
        engine->device().download(&content.bytes[i * stride], base + pages[i] * stride, stride));
  tensors[recordedName("pool", pool) + "/pages"] = std::move(list);
  tensors[recordedName("pool", pool) + "/bytes"] = std::move(content);
  return Status();
}

Status StepRecording::take(Engine &of, const StepRunner &bound, const DimValues &sizes,
                           int64_t index, mla_stream *on) {
  engine = &of;
  runner = &bound;
  dims = sizes;
  layer = index;
  stream = on;
  MLAC_RETURN_IF_ERROR(engine->device().synchronize(stream));
  Tensor list{"I64",
              {static_cast<int64_t>(dims.size())},
              std::vector<uint8_t>(dims.size() * sizeof dims[0])};
  std::memcpy(list.bytes.data(), dims.data(), list.bytes.size());
  tensors["dims"] = std::move(list);
  for (size_t i = 0; i < runner->step().function->buffers.size(); ++i)
    MLAC_RETURN_IF_ERROR(addBuffer(i));
  for (size_t pool = 0; pool < engine->package().pools().size(); ++pool)
    MLAC_RETURN_IF_ERROR(addPool(pool));
  return Status();
}

//===----------------------------------------------------------------------===//
// Behind it
//===----------------------------------------------------------------------===//

Status StepRecording::readOutputs(std::string &reason) {
  const std::vector<BufferInfo> &buffers = runner->step().function->buffers;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].kind != fb::BufferKind::Output)
      continue;
    std::string name = recordedName("output", i);
    MLAC_RETURN_IF_ERROR(add(name, runner->address(i), bytesOf(i)));
    const std::vector<uint8_t> &bytes = tensors.at(name).bytes;
    // A log-sum-exp of no keys is minus infinity.
    int64_t bad = countBad(buffers[i].dtype, bytes.data(), bytes.size(), /*isInfinityBad=*/false);
    if (bad > 0 && reason.empty())
      reason = concat("output '", buffers[i].name, "' has ", bad, " elements that are no numbers");
  }
  return Status();
}

Status StepRecording::finish(Status ran) {
  std::string reason;
  if (ran.isOk())
    ran = engine->device().synchronize(stream);
  if (ran.isOk())
    ran = readOutputs(reason);
  if (!ran.isOk())
    reason = ran.message();
  if (!reason.empty())
    write(reason);
  return ran;
}

static void warn(std::string_view message) {
  std::fprintf(stderr, "mlac: %s: %.*s\n", kVariable, static_cast<int>(message.size()),
               message.data());
  if (isLogged(MLA_LOG_ERRORS))
    writeLog(MLA_LOG_ERRORS, message);
}

/// As safetensors; what cannot be written is said, and the step goes on.
void StepRecording::write(const std::string &reason) const {
  Json header;
  header["__metadata__"] = {{"version", mla_runtime_version()},
                            {"package", std::to_string(engine->package().checksum())},
                            {"target", engine->target().text()},
                            {"function", runner->step().function->name},
                            {"layer", std::to_string(layer)},
                            {"reason", reason}};
  uint64_t at = 0;
  for (const auto &[name, tensor] : tensors) {
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {at, at + tensor.bytes.size()}}};
    at += tensor.bytes.size();
  }
  std::string text = toText(header);
  text.resize(roundUp(static_cast<int64_t>(text.size()), sizeof(uint64_t)), ' ');
  uint64_t length = text.size();
  std::string path = expandProcessId(recordPath()), target;
  if (Status status = resolveTarget(path, target); !status.isOk())
    return warn(concat("cannot write '", path, "': it ", status.message()));
  std::string unfinished = target + ".unfinished";
  FILE *file = std::fopen(unfinished.c_str(), "wbe");
  bool isWritten = file && std::fwrite(&length, sizeof length, 1, file) == 1 &&
                   std::fwrite(text.data(), 1, text.size(), file) == text.size();
  for (const auto &[name, tensor] : tensors)
    isWritten = isWritten && std::fwrite(tensor.bytes.data(), 1, tensor.bytes.size(), file) ==
                                 tensor.bytes.size();
  bool isClosed = file && std::fclose(file) == 0;
  if (isWritten && isClosed && std::rename(unfinished.c_str(), target.c_str()) == 0)
    return warn(concat("layer ", layer, " of function '", runner->step().function->name,
                       "': ", reason, "; recorded in '", path, "'"));
  std::string why = std::strerror(errno);
  if (file)
    std::remove(unfinished.c_str());
  warn(concat("cannot write '", path, "': ", why));
}
