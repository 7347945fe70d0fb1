//===- StepReplay.cpp - runs a recorded step again --------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "engine/StepReplay.h"

#include "engine/Safetensors.h"
#include "engine/StepRecording.h"

#include <cstring>

using namespace mlac::runtime;

namespace {
class Replay {
public:
  Replay(const Package &package, std::shared_ptr<Device> device)
      : package(package), device(std::move(device)) {}
  Status open(const std::string &path);
  Status run(Json &result);

private:
  Status findFunction();
  Status readDims();
  /// The bytes of a tensor of the file; MLA_CORRUPT without it.
  Status find(const std::string &name, std::span<const uint8_t> &bytes) const;
  Status allocate();
  Status allocateBuffer(size_t index);
  Status allocatePool(size_t pool);
  Status upload(size_t index, int64_t bytes);
  Status launchAll(Json &launches);
  Status checkLaunch(const Launch &launch, Json &entry) const;
  Status compareOutputs(Json &outputs) const;
  const std::string &tag(const char *name) const {
    static const std::string none;
    auto found = file.metadata().find(name);
    return found == file.metadata().end() ? none : found->second;
  }

  const Package &package;
  std::shared_ptr<Device> device;
  Safetensors file;
  const TargetInfo *target = nullptr;
  const FunctionInfo *function = nullptr;
  DimValues dims{};
  LaunchList list;
  std::unique_ptr<Program> program;
  std::vector<DeviceBuffer> buffers; // of the function, pools and workspace excepted
  std::vector<DeviceBuffer> pools;
  DeviceBuffer workspace;
  std::vector<char *> addresses;
};
} // namespace

//===----------------------------------------------------------------------===//
// What was recorded
//===----------------------------------------------------------------------===//

Status Replay::find(const std::string &name, std::span<const uint8_t> &bytes) const {
  auto found = file.entries().find(name);
  if (found == file.entries().end())
    return error(MLA_CORRUPT, "the recording has no '", name, "'");
  bytes = {file.bytes(found->second), found->second.end - found->second.begin};
  return Status();
}

Status Replay::open(const std::string &path) {
  MLAC_RETURN_IF_ERROR(file.open(path).in("'", path, "'"));
  if (tag("function").empty())
    return error(MLA_CORRUPT, "'", path, "' is no recording of a step (MLAC_RECORD)");
  if (tag("version") != mla_runtime_version())
    return error(MLA_UNSUPPORTED, "recorded by version ", tag("version"), ", this is ",
                 mla_runtime_version());
  if (tag("package") != std::to_string(package.checksum()))
    return error(MLA_INVALID_ARGUMENT, "recorded with another package: its checksum is ",
                 tag("package"), ", this one's ", package.checksum());
  MLAC_RETURN_IF_ERROR(findFunction());
  return readDims();
}

Status Replay::findFunction() {
  for (const TargetInfo &each : package.targets())
    if (each.text() == tag("target"))
      target = &each;
  std::string reason;
  if (!target || !device->supports(*target->raw, reason))
    return error(MLA_UNSUPPORTED, "recorded for target ", tag("target"), ", which this device ",
                 target ? "does not run: " : "'s package does not have", reason);
  function = target->find(tag("function"));
  if (!function)
    return error(MLA_CORRUPT, "the package has no function '", tag("function"), "'");
  return Status();
}

Status Replay::readDims() {
  std::span<const uint8_t> bytes;
  MLAC_RETURN_IF_ERROR(find("dims", bytes));
  if (bytes.size() != sizeof dims)
    return error(MLA_CORRUPT, "dims have ", bytes.size(), " bytes, expected ", sizeof dims);
  std::memcpy(dims.data(), bytes.data(), sizeof dims);
  return resolveLaunches(*function, dims, list);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Zeros, at least as many bytes as kernels may touch, and in front what was recorded. Workspaces
/// and outputs are zeros, so that a NaN in one of them was computed.
Status Replay::upload(size_t index, int64_t bytes) {
  std::span<const uint8_t> recorded;
  if (function->buffers[index].kind != fb::BufferKind::Output)
    MLAC_RETURN_IF_ERROR(find(recordedName("buffer", index), recorded));
  bytes = std::max(bytes, static_cast<int64_t>(recorded.size()));
  if (bytes == 0)
    return Status();
  MLAC_RETURN_IF_ERROR(
      DeviceBuffer::make(device, bytes, function->buffers[index].name, buffers[index]));
  addresses[index] = buffers[index].data();
  std::vector<uint8_t> content(bytes);
  std::copy(recorded.begin(), recorded.end(), content.begin());
  return device->upload(addresses[index], content.data(), content.size());
}

Status Replay::allocateBuffer(size_t index) {
  const BufferInfo &buffer = function->buffers[index];
  int64_t bytes = list.extents[index].bytes;
  switch (buffer.kind) {
  case fb::BufferKind::Weight:
    return upload(index, package.weights()[buffer.index].bytes());
  case fb::BufferKind::Derived:
    return upload(index, package.derived()[buffer.index].bytes());
  case fb::BufferKind::RopeTable: {
    int64_t table;
    if (!checkedMul(at(dims, Dim::RopeLength), package.ropeWidth() * int64_t(sizeof(float)), table))
      return error(MLA_CORRUPT, "a rotary table of ", at(dims, Dim::RopeLength), " rows");
    return upload(index, std::max(bytes, table));
  }
  case fb::BufferKind::Workspace:
    addresses[index] = workspace.data() + list.extents[index].byteOffset;
    return Status();
  case fb::BufferKind::Cache:
    addresses[index] = pools[buffer.index].data();
    return Status();
  default:
    return upload(index, bytes);
  }
}

Status Replay::allocatePool(size_t pool) {
  std::string name = recordedName("pool", pool);
  if (file.entries().count(name + "/pages") == 0)
    return Status(); // the function has none of it
  std::span<const uint8_t> pages, content;
  MLAC_RETURN_IF_ERROR(find(name + "/pages", pages));
  MLAC_RETURN_IF_ERROR(find(name + "/bytes", content));
  int64_t numPages = at(dims, ofPool(Dim::NumPages, pool)), stride, bytes;
  if (!checkedMul(at(dims, ofPool(Dim::PageStride, pool)),
                  elementBytes(package.pools()[pool].dtype), stride) ||
      !checkedMul(numPages, stride, bytes) || bytes == 0)
    return error(MLA_CORRUPT, "pool ", pool, " has ", numPages, " pages");
  size_t count = pages.size() / sizeof(int32_t);
  if (content.size() != count * static_cast<size_t>(stride))
    return error(MLA_CORRUPT, "pool ", pool, ": ", count, " pages of ", stride, " bytes have ",
                 content.size());
  MLAC_RETURN_IF_ERROR(DeviceBuffer::make(device, bytes, "a pool", pools[pool]));
  for (size_t i = 0; i < count; ++i) {
    int32_t page;
    std::memcpy(&page, &pages[i * sizeof page], sizeof page);
    if (page < 0 || page >= numPages)
      return error(MLA_CORRUPT, "pool ", pool, ": page ", page, " of ", numPages);
    MLAC_RETURN_IF_ERROR(
        device->upload(pools[pool].data() + page * stride, &content[i * stride], stride));
  }
  return Status();
}

Status Replay::allocate() {
  buffers.resize(function->buffers.size());
  addresses.resize(function->buffers.size());
  pools.resize(package.pools().size());
  for (size_t pool = 0; pool < pools.size(); ++pool)
    MLAC_RETURN_IF_ERROR(allocatePool(pool));
  int64_t bytes = std::max<int64_t>(list.workspaceBytes, kBufferAlignment);
  MLAC_RETURN_IF_ERROR(DeviceBuffer::make(device, bytes, "the workspace", workspace));
  MLAC_RETURN_IF_ERROR(device->fillAsync(workspace.data(), 0, bytes, nullptr));
  for (size_t i = 0; i < function->buffers.size(); ++i)
    MLAC_RETURN_IF_ERROR(allocateBuffer(i));
  return device->synchronize();
}

//===----------------------------------------------------------------------===//
// Run
//===----------------------------------------------------------------------===//

/// NaN in what the launch may have written. Infinities are the log-sum-exps of no keys.
Status Replay::checkLaunch(const Launch &launch, Json &entry) const {
  for (const BufferSlot &slot : list.slots) {
    if (slot.arg < launch.firstArg || slot.arg >= launch.firstArg + launch.numArgs)
      continue;
    const BufferInfo &buffer = function->buffers[slot.buffer];
    int64_t bytes = list.extents[slot.buffer].bytes;
    bool isWritten =
        buffer.kind == fb::BufferKind::Workspace || buffer.kind == fb::BufferKind::Output;
    if (!isWritten || !hasNumbers(buffer.dtype) || bytes <= 0)
      continue;
    std::vector<uint8_t> content(bytes);
    MLAC_RETURN_IF_ERROR(device->download(content.data(), addresses[slot.buffer], bytes));
    entry["nan"] =
        entry["nan"].get<int64_t>() + countBad(buffer.dtype, content.data(), content.size(), false);
  }
  return Status();
}

Status Replay::launchAll(Json &launches) {
  for (const BufferSlot &slot : list.slots)
    list.args[slot.arg] = reinterpret_cast<uint64_t>(addresses[slot.buffer]);
  std::vector<EncodedTensorMap> maps(list.maps.size());
  for (const Launch &launch : list.launches) {
    Json entry = {{"kernel", text(target->raw->kernels()->Get(launch.kernel)->name())},
                  {"grid", launch.grid},
                  {"nan", 0}};
    for (uint32_t i = launch.firstMap; i < launch.firstMap + launch.numMaps; ++i) {
      const TensorMap &map = list.maps[i];
      uint64_t address = list.args[launch.firstArg + map.arg] + map.byteOffset;
      MLAC_RETURN_IF_ERROR(program->encode(map, address, maps[i]));
    }
    const uint64_t *args = list.args.data() + launch.firstArg;
    Status status = program->launch(launch, args, maps.data() + launch.firstMap, nullptr);
    if (status.isOk())
      status = device->synchronize();
    MLAC_RETURN_IF_ERROR(
        status.in("launch ", launches.size(), " ('", entry["kernel"].get<std::string>(), "')"));
    MLAC_RETURN_IF_ERROR(checkLaunch(launch, entry));
    launches.push_back(std::move(entry));
  }
  return Status();
}

Status Replay::compareOutputs(Json &outputs) const {
  for (size_t i = 0; i < function->buffers.size(); ++i) {
    const BufferInfo &buffer = function->buffers[i];
    if (buffer.kind != fb::BufferKind::Output)
      continue;
    std::vector<uint8_t> bytes(list.extents[i].bytes);
    MLAC_RETURN_IF_ERROR(device->download(bytes.data(), addresses[i], bytes.size()));
    Json entry = {{"name", buffer.name},
                  {"elements", static_cast<int64_t>(bytes.size()) / elementBytes(buffer.dtype)},
                  {"nan", countBad(buffer.dtype, bytes.data(), bytes.size(), false)},
                  {"different", nullptr}};
    if (file.entries().count(recordedName("output", i)) != 0) {
      std::span<const uint8_t> recorded;
      MLAC_RETURN_IF_ERROR(find(recordedName("output", i), recorded));
      entry["different"] = recorded.size() != bytes.size() ||
                           std::memcmp(recorded.data(), bytes.data(), bytes.size()) != 0;
    }
    outputs.push_back(std::move(entry));
  }
  return Status();
}

Status Replay::run(Json &result) {
  MLAC_RETURN_IF_ERROR(device->load(*target->raw, program).in("target ", target->text()));
  MLAC_RETURN_IF_ERROR(allocate());
  Json launches = Json::array(), outputs = Json::array();
  MLAC_RETURN_IF_ERROR(launchAll(launches));
  MLAC_RETURN_IF_ERROR(compareOutputs(outputs));
  result = {{"function", function->name},      {"layer", tag("layer")},
            {"target", target->text()},        {"reason", tag("reason")},
            {"launches", std::move(launches)}, {"outputs", std::move(outputs)}};
  return Status();
}

Status mlac::runtime::replayStep(const Package &package, std::shared_ptr<Device> device,
                                 const std::string &path, Json &result) {
  Replay replay(package, std::move(device));
  MLAC_RETURN_IF_ERROR(replay.open(path));
  return replay.run(result);
}
