//===- Driver.cpp - a CUDA driver without a GPU ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The part of libcuda.so.1 that the runtime uses, over the emulator: device
// memory is host memory, streams are immediate (Streams.h), and a launch interprets the
// kernel's nvvm form. Cubins are not looked into: MLAC_EMULATED_MODULE names a
// file made by `mla-compile --emit=nvvm` with the options of the package, and
// functions are found there by name. So the whole way of a step (package, plan,
// arguments, kernels) is tested where there is no GPU:
//
//   mla-compile layer.safetensors --target=sm_90a -o layer.mlac
//   mla-compile layer.safetensors --target=sm_90a --emit=nvvm -o layer.mlir
//   LD_LIBRARY_PATH=build/emulator MLAC_EMULATED_MODULE=layer.mlir \
//     mla-run check layer.mlac --device=cuda ...
//
//===----------------------------------------------------------------------===//

#include "Emulator.h"
#include "Streams.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/StringMap.h"

#include <cstdlib>
#include <cstring>

using namespace mlir;
using namespace mlac::emulator;

namespace {
using Result = int;
enum : Result {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidContext = 201,
  kNotFound = 500,
  kIllegalAddress = 700,
  kLaunchTimeout = 702
};
/// CTAs of one launch: more would take the emulator hours.
constexpr int64_t kMaxCtas = 1 << 16;
// Attributes of an H200 that the runtime asks for (cuda.h, CUdevice_attribute).
enum : int { kMultiprocessors = 16, kMajor = 75, kMinor = 76, kSharedOptin = 97 };

struct Function {
  LLVM::LLVMFuncOp op;
  Emulator emulator;
};

/// What the process has of the device.
struct Device {
  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
  std::map<uint64_t, size_t> memory;
  llvm::StringMap<std::unique_ptr<Function>> functions; // that were asked for
  size_t memoryBytes = size_t(1) << 33, usedBytes = 0;

  Device() {
    if (const char *bytes = std::getenv("MLAC_EMULATED_MEMORY"))
      memoryBytes = std::strtoull(bytes, nullptr, 10);
    context.loadDialect<arith::ArithDialect, LLVM::LLVMDialect, math::MathDialect,
                        NVVM::NVVMDialect, scf::SCFDialect>();
    context.allowUnregisteredDialects(); // attributes of levels above
    if (const char *path = std::getenv("MLAC_EMULATED_MODULE"))
      module = parseSourceFile<ModuleOp>(path, &context);
  }
  static Device &get() {
    static Device *device = new Device(); // outlives every user
    return *device;
  }
};

Result launch(Function &function, std::array<int64_t, 3> grid, int64_t threads, int64_t sharedBytes,
              void **parameters) {
  auto getSize = [&](StringRef name) {
    return cast<IntegerAttr>(function.op->getAttr(name)).getInt();
  };
  if (threads != getSize("mlac.threads") || sharedBytes != getSize("mlac.shared_bytes"))
    return kInvalidValue;
  if (double(grid[0]) * double(grid[1]) * double(grid[2]) > kMaxCtas)
    return kLaunchTimeout;
  std::vector<Argument> arguments;
  for (auto [type, parameter] : llvm::zip(function.op.getArgumentTypes(),
                                          ArrayRef(parameters, function.op.getNumArguments()))) {
    Argument argument{0, 0};
    if (function.op.getArgAttr(arguments.size(), LLVM::LLVMDialect::getByValAttrName()))
      argument.bits = reinterpret_cast<uint64_t>(parameter); // a tensor map
    else
      memcpy(&argument.bits, parameter, type.isF32() ? 4 : 8);
    arguments.push_back(argument);
  }
  function.emulator.setMemory(Device::get().memory);
  for (int64_t z = 0; z < grid[2]; ++z)
    for (int64_t y = 0; y < grid[1]; ++y)
      for (int64_t x = 0; x < grid[0]; ++x) {
        std::string error = function.emulator.run(arguments, {x, y, z});
        if (error.empty())
          continue;
        llvm::errs() << "emulated kernel '" << function.op.getName() << "', CTA " << x << ", " << y
                     << ", " << z << ": " << error << "\n";
        return kIllegalAddress;
      }
  return kSuccess;
}
/// A launch that was captured: it repeats these arguments, whatever happens to their owner.
struct Recorded {
  Function *function;
  std::array<int64_t, 3> grid;
  int64_t threads, sharedBytes;
  std::vector<std::vector<uint8_t>> parameters;
};
struct Recorder {
  bool isOn = false;
  std::vector<Recorded> launches;
};
Recorder &recorder() {
  static auto *instance = new Recorder();
  return *instance;
}

size_t countBytes(Function &function, unsigned index) {
  constexpr size_t tensorMapBytes = 128;
  if (function.op.getArgAttr(index, LLVM::LLVMDialect::getByValAttrName()))
    return tensorMapBytes;
  return function.op.getArgumentTypes()[index].isF32() ? 4 : 8;
}

Recorded keep(Function &function, std::array<int64_t, 3> grid, int64_t threads, int64_t sharedBytes,
              void **parameters) {
  Recorded launch = {&function, grid, threads, sharedBytes, {}};
  for (unsigned i = 0; i < function.op.getNumArguments(); ++i) {
    const auto *bytes = static_cast<const uint8_t *>(parameters[i]);
    launch.parameters.emplace_back(bytes, bytes + countBytes(function, i));
  }
  return launch;
}

Result repeat(Recorded &recorded) {
  std::vector<void *> parameters;
  for (std::vector<uint8_t> &bytes : recorded.parameters)
    parameters.push_back(bytes.data());
  return launch(*recorded.function, recorded.grid, recorded.threads, recorded.sharedBytes,
                parameters.data());
}

/// How the streams are that are made from now on, and all that there are.
struct Streams {
  bool areLazy = false;
  std::vector<std::unique_ptr<EmulatedStream>> all;

  Result runAll() {
    Result result = kSuccess;
    for (auto &stream : all)
      if (Result failed = stream->runAll())
        result = failed;
    return result;
  }
  /// Null of the default stream, and of a handle that an engine made without this driver: their
  /// work is done at once.
  EmulatedStream *find(const void *handle) {
    for (auto &stream : all)
      if (stream.get() == handle)
        return stream.get();
    return nullptr;
  }
};
Streams &streams() {
  static auto *instance = new Streams();
  return *instance;
}

template <typename Function> Result enqueue(const void *handle, Function work) {
  EmulatedStream *stream = streams().find(handle);
  return stream ? stream->enqueue(std::move(work)) : work();
}
} // namespace

#define MLAC_DRIVER extern "C" __attribute__((visibility("default"))) Result

MLAC_DRIVER cuInit(unsigned) { return Device::get().module ? kSuccess : kNotFound; }
MLAC_DRIVER cuDriverGetVersion(int *version) { return *version = 13000, kSuccess; }
MLAC_DRIVER cuDeviceGetCount(int *count) { return *count = 1, kSuccess; }
MLAC_DRIVER cuDeviceGet(int *device, int) { return *device = 0, kSuccess; }
MLAC_DRIVER cuDeviceGetName(char *name, int size, int) {
  snprintf(name, size, "mlac emulator of sm_90a");
  return kSuccess;
}
MLAC_DRIVER cuDeviceGetAttribute(int *value, int which, int) {
  *value = which == kMultiprocessors ? 4 // few: splits are chosen for them
           : which == kMajor         ? 9
           : which == kMinor         ? 0
           : which == kSharedOptin   ? 232448
                                     : 1;
  return kSuccess;
}
MLAC_DRIVER cuDeviceTotalMem_v2(size_t *bytes, int) {
  return *bytes = Device::get().memoryBytes, kSuccess;
}
MLAC_DRIVER cuDevicePrimaryCtxRetain(void **context, int) {
  return *context = &Device::get(), kSuccess;
}
MLAC_DRIVER cuDevicePrimaryCtxRelease_v2(int) { return kSuccess; }
/// Contexts that the caller's thread has made current; like the real driver's, calls
/// that need one fail without.
static thread_local int currentContexts = 0;
MLAC_DRIVER cuCtxPushCurrent_v2(void *) { return ++currentContexts, kSuccess; }
MLAC_DRIVER cuCtxPopCurrent_v2(void **) { return --currentContexts, kSuccess; }
MLAC_DRIVER cuCtxSynchronize() { return streams().runAll(); }

MLAC_DRIVER cuMemAlloc_v2(uint64_t *pointer, size_t bytes) {
  Device &device = Device::get();
  void *data = bytes <= device.memoryBytes - device.usedBytes
                   ? std::aligned_alloc(256, (bytes + 255) / 256 * 256)
                   : nullptr;
  if (!data)
    return kOutOfMemory;
  memset(data, 0xFF, bytes); // NaN
  *pointer = reinterpret_cast<uint64_t>(data);
  device.memory[*pointer] = bytes;
  device.usedBytes += bytes;
  return kSuccess;
}
MLAC_DRIVER cuMemFree_v2(uint64_t pointer) {
  streams().runAll();
  Device &device = Device::get();
  auto entry = device.memory.find(pointer);
  if (entry == device.memory.end())
    return kInvalidValue;
  device.usedBytes -= entry->second;
  device.memory.erase(entry);
  return std::free(reinterpret_cast<void *>(pointer)), kSuccess;
}
MLAC_DRIVER cuMemHostAlloc(void **data, size_t bytes, unsigned) {
  return *data = std::malloc(bytes), kSuccess;
}
MLAC_DRIVER cuMemFreeHost(void *data) { return std::free(data), kSuccess; }
MLAC_DRIVER cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) {
  return memcpy(reinterpret_cast<void *>(to), from, bytes), kSuccess;
}
MLAC_DRIVER cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) {
  return memcpy(to, reinterpret_cast<void *>(from), bytes), kSuccess;
}
MLAC_DRIVER cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
  return enqueue(stream, [=] { return cuMemcpyDtoH_v2(to, from, bytes); });
}
MLAC_DRIVER cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
  return enqueue(stream, [=] { return cuMemcpyHtoD_v2(to, from, bytes); });
}
/// 32-bit writes, of CUstreamBatchMemOpParams (48 bytes).
MLAC_DRIVER cuStreamBatchMemOp_v2(void *stream, unsigned count, const uint64_t (*writes)[6],
                                  unsigned) {
  constexpr uint32_t kWriteValue32 = 2;
  for (unsigned i = 0; i < count; ++i) {
    if (static_cast<uint32_t>(writes[i][0]) != kWriteValue32)
      return kInvalidValue;
    enqueue(stream, [to = writes[i][1], value = static_cast<uint32_t>(writes[i][2])] {
      memcpy(reinterpret_cast<void *>(to), &value, sizeof value);
      return kSuccess;
    });
  }
  return kSuccess;
}
MLAC_DRIVER cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
  return enqueue(stream, [=]() -> Result {
    memmove(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), bytes);
    return kSuccess;
  });
}
MLAC_DRIVER cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void *stream) {
  return enqueue(stream, [=]() -> Result {
    memset(reinterpret_cast<void *>(to), value, bytes);
    return kSuccess;
  });
}

/// An image, or PTX text that ends in a zero byte.
MLAC_DRIVER cuModuleLoadData(void **module, const void *image) {
  StringRef text(static_cast<const char *>(image));
  bool isKnown = text.starts_with("\x7f"
                                  "ELF") ||
                 text.contains(".version");
  return *module = &Device::get(), isKnown ? kSuccess : kInvalidValue;
}
MLAC_DRIVER cuModuleUnload(void *) { return kSuccess; }
MLAC_DRIVER cuModuleGetFunction(Function **function, void *, const char *name) {
  auto op = Device::get().module->lookupSymbol<LLVM::LLVMFuncOp>(name);
  if (!op)
    return kNotFound;
  std::unique_ptr<Function> &known = Device::get().functions[op.getName()];
  if (!known)
    known = std::make_unique<Function>(Function{op, Emulator(op)});
  return *function = known.get(), kSuccess;
}
MLAC_DRIVER cuFuncSetAttribute(Function *, int, int) { return kSuccess; }
MLAC_DRIVER cuFuncGetAttribute(int *value, int which, Function *) {
  return *value = which == 0 ? 1024 : 0, kSuccess; // threads; static shared bytes
}
/// Offsets are not asked for.
MLAC_DRIVER cuFuncGetParamInfo(Function *function, size_t index, size_t *, size_t *bytes) {
  if (index >= function->op.getNumArguments())
    return kInvalidValue;
  constexpr size_t kTensorMapBytes = 128;
  bool isMap = bool(function->op.getArgAttr(index, LLVM::LLVMDialect::getByValAttrName()));
  bool isFloat = function->op.getArgumentTypes()[index].isF32();
  return *bytes = isMap ? kTensorMapBytes : isFloat ? 4 : 8, kSuccess;
}
/// CUlaunchConfig. Launches are over when they return, so attributes change nothing.
struct LaunchConfig {
  unsigned gridX, gridY, gridZ, threads, blockY, blockZ, sharedBytes;
  void *stream;
};
MLAC_DRIVER cuLaunchKernelEx(const LaunchConfig *config, Function *function, void **parameters,
                             void **) {
  std::array<int64_t, 3> grid = {config->gridX, config->gridY, config->gridZ};
  if (recorder().isOn)
    return recorder().launches.push_back(
               keep(*function, grid, config->threads, config->sharedBytes, parameters)),
           kSuccess;
  if (!streams().find(config->stream))
    return launch(*function, grid, config->threads, config->sharedBytes, parameters);
  auto kept = std::make_shared<Recorded>(
      keep(*function, grid, config->threads, config->sharedBytes, parameters));
  return enqueue(config->stream, [kept] { return repeat(*kept); });
}

// What tests have in place of graphs: launches are kept while recording is on, and
// repeated or compared later.
MLAC_DRIVER mlacEmulatorRecord(int isOn) {
  if (isOn)
    recorder().launches.clear();
  return recorder().isOn = isOn, kSuccess;
}
MLAC_DRIVER mlacEmulatorReplay() {
  for (Recorded &recorded : recorder().launches)
    if (Result result = repeat(recorded))
      return result;
  return kSuccess;
}
/// A number that two recordings share only if all of their launches are alike.
MLAC_DRIVER mlacEmulatorDigest(uint64_t *digest) {
  llvm::hash_code hash(0);
  for (const Recorded &recorded : recorder().launches) {
    hash = llvm::hash_combine(hash, recorded.function, recorded.grid[0], recorded.grid[1],
                              recorded.grid[2]);
    for (const std::vector<uint8_t> &bytes : recorded.parameters)
      hash = llvm::hash_combine(hash, llvm::hash_combine_range(bytes.begin(), bytes.end()));
  }
  return *digest = hash, kSuccess;
}
/// What a tensor map was made of, as plain data.
struct TensorMap {
  void *address;
  int type;
  unsigned rank;
  uint64_t sizes[5], strides[4];
  unsigned box[5];
};
static_assert(sizeof(TensorMap) <= 128);
MLAC_DRIVER cuTensorMapEncodeTiled(TensorMap *map, int type, unsigned rank, void *address,
                                   const uint64_t *sizes, const uint64_t *strides,
                                   const unsigned *box, const unsigned *, int, int, int, int) {
  if (currentContexts == 0)
    return kInvalidContext;
  *map = {address, type, rank, {}, {}, {}};
  std::copy_n(sizes, rank, map->sizes);
  std::copy_n(strides, rank - 1, map->strides);
  std::copy_n(box, rank, map->box);
  return kSuccess;
}

/// Streams stay, since events may know them.
MLAC_DRIVER cuStreamCreate(void **stream, unsigned) {
  streams().all.push_back(std::make_unique<EmulatedStream>(streams().areLazy));
  return *stream = streams().all.back().get(), kSuccess;
}
MLAC_DRIVER cuStreamDestroy_v2(void *handle) {
  EmulatedStream *stream = streams().find(handle);
  return stream ? stream->runAll() : kSuccess;
}
MLAC_DRIVER cuStreamSynchronize(void *stream) { return cuStreamDestroy_v2(stream); }
MLAC_DRIVER cuEventCreate(EmulatedEvent **event, unsigned) {
  return *event = new EmulatedEvent(), kSuccess;
}
MLAC_DRIVER cuEventDestroy_v2(EmulatedEvent *event) { return delete event, kSuccess; }
MLAC_DRIVER cuEventRecord(EmulatedEvent *event, void *handle) {
  EmulatedStream *stream = streams().find(handle);
  return *event = {stream, stream ? stream->position() : 0}, kSuccess;
}
MLAC_DRIVER cuEventSynchronize(EmulatedEvent *event) { return event->wait(); }
/// Of streams that tests make: 1, as late as possible; 0, at once.
MLAC_DRIVER mlacEmulatorLazyStreams(int areLazy) { return streams().areLazy = areLazy, kSuccess; }
MLAC_DRIVER cuStreamIsCapturing(void *, int *status) { return *status = recorder().isOn, kSuccess; }
/// The event as it is now, whatever is recorded later.
MLAC_DRIVER cuStreamWaitEvent(void *stream, EmulatedEvent *event, unsigned) {
  return enqueue(stream, [point = *event] { return point.wait(); });
}
MLAC_DRIVER cuEventElapsedTime(float *milliseconds, void *, void *) {
  return *milliseconds = 1, kSuccess;
}
MLAC_DRIVER cuGetErrorName(Result result, const char **name) {
  *name = result == kIllegalAddress  ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : result == kInvalidValue  ? "CUDA_ERROR_INVALID_VALUE"
          : result == kOutOfMemory   ? "CUDA_ERROR_OUT_OF_MEMORY"
          : result == kLaunchTimeout ? "CUDA_ERROR_LAUNCH_TIMEOUT"
                                     : "CUDA_ERROR_NOT_FOUND";
  return kSuccess;
}
MLAC_DRIVER cuGetErrorString(Result, const char **text) {
  return *text = "reported by the emulator", kSuccess;
}
