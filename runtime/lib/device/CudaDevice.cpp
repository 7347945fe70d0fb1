//===- CudaDevice.cpp - one CUDA device -------------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Uses the device's primary context, so that memory and streams are shared with
// the CUDA runtime and PyTorch. Each call makes the context current for its own
// duration and leaves the caller's context as it was.
//
//===----------------------------------------------------------------------===//

#include "base/Json.h"
#include "device/CudaDriver.h"
#include "device/Device.h"
#include "device/ElfImage.h"

#include <charconv>

using namespace mlac::runtime;
using namespace mlac::runtime::cuda;

// Grid limits: CUDA C++ Programming Guide, compute capabilities.
static constexpr int64_t kMaxGridX = (int64_t(1) << 31) - 1;
static constexpr int64_t kMaxGridYZ = 65535;
/// Above this, dynamic shared memory needs the opt-in attribute (same source).
static constexpr int64_t kDefaultSharedBytes = 48 << 10;
/// The package verifier admits as many arguments.
static constexpr size_t kMaxArgs = 256;

static DevicePtr address(const void *data) { return reinterpret_cast<DevicePtr>(data); }
static Stream native(mla_stream *stream) { return reinterpret_cast<Stream>(stream); }

namespace {
/// Makes a context current while it lives.
class Current {
public:
  Current(const Driver &driver, Context context) : driver(driver) {
    status_ = driver.check(driver.ctxPushCurrent(context), "cuCtxPushCurrent");
  }
  Current(const Current &) = delete;
  ~Current() {
    Context popped;
    if (status_.isOk())
      driver.ctxPopCurrent(&popped);
  }
  const Status &status() const { return status_; }

private:
  const Driver &driver;
  Status status_;
};

class CudaDevice;

class CudaProgram : public Program {
public:
  CudaProgram(const Driver &driver, Context context) : driver(driver), context(context) {}
  ~CudaProgram() override;
  /// `sharedLimit`: bytes of shared memory that one CTA may have.
  Status load(const fb::Target &target, int64_t sharedLimit);
  Status encode(const TensorMap &map, uint64_t address, EncodedTensorMap &encoded) override;
  Status launch(const Launch &launch, const uint64_t *args, const EncodedTensorMap *maps,
                mla_stream *stream) override;

private:
  struct LoadedKernel {
    Function function;
    uint32_t threads, sharedBytes;
    std::vector<size_t> parameterBytes; // while loading; of drivers that tell
  };
  Status loadKernel(const fb::Kernel &kernel, int64_t sharedLimit);
  Status readParameters(LoadedKernel &loaded) const;
  Status checkLaunch(const fb::Target &target, const fb::Launch &launch) const;

  const Driver &driver;
  Context context;
  std::vector<Module> modules;
  std::vector<LoadedKernel> kernels;
};

class CudaEvent : public Event {
public:
  CudaEvent(const Driver &driver, Context context) : driver(driver), context(context) {}
  ~CudaEvent() override {
    Current current(driver, context);
    if (handle)
      driver.eventDestroy(handle);
  }
  Status create() {
    return driver.check(driver.eventCreate(&handle, kEventDefault), "cuEventCreate");
  }
  Status record(mla_stream *stream) override {
    Current current(driver, context);
    return driver.check(driver.eventRecord(handle, native(stream)), "cuEventRecord");
  }
  Status wait() override {
    Current current(driver, context);
    return driver.check(driver.eventSynchronize(handle), "cuEventSynchronize");
  }
  Status delay(mla_stream *stream) override {
    Current current(driver, context);
    return driver.check(driver.streamWaitEvent(native(stream), handle, kEventWaitDefault),
                        "cuStreamWaitEvent");
  }
  Status elapsed(Event &end, double &milliseconds) override {
    MLAC_RETURN_IF_ERROR(wait());
    MLAC_RETURN_IF_ERROR(end.wait());
    Current current(driver, context);
    float result = 0;
    MLAC_RETURN_IF_ERROR(
        driver.check(driver.eventElapsedTime(&result, handle, static_cast<CudaEvent &>(end).handle),
                     "cuEventElapsedTime"));
    milliseconds = result;
    return Status();
  }

private:
  const Driver &driver;
  Context context;
  EventHandle handle = nullptr;
};
} // namespace

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

CudaProgram::~CudaProgram() {
  Current current(driver, context);
  for (Module module : modules)
    driver.moduleUnload(module);
}

/// The compiler may stop at PTX; the driver then assembles it, which takes a while.
static bool isPtx(std::string_view code) {
  constexpr size_t kHeaderBytes = 4096; // comments come before the version
  return code.substr(0, kHeaderBytes).find(".version") != std::string_view::npos &&
         code.find('\0') == std::string_view::npos;
}

/// A cubin, or PTX text (which the driver wants to end in a zero byte).
static Status loadModule(const Driver &driver, std::span<const uint8_t> bytes, Module &module) {
  std::string_view code(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  if (code.ends_with('\0')) // as the compiler writes PTX; no matter for a cubin
    code.remove_suffix(1);
  if (isPtx(code))
    return driver.check(driver.moduleLoadData(&module, std::string(code).c_str()),
                        "cuModuleLoadData (PTX)");
  MLAC_RETURN_IF_ERROR(checkCubin(bytes));
  return driver.check(driver.moduleLoadData(&module, bytes.data()), "cuModuleLoadData");
}

Status CudaProgram::load(const fb::Target &target, int64_t sharedLimit) {
  Current current(driver, context);
  MLAC_RETURN_IF_ERROR(current.status());
  for (uint32_t i = 0; target.code() && i < target.code()->size(); ++i) {
    const auto &bytes = *target.code()->Get(i)->bytes();
    Module module;
    MLAC_RETURN_IF_ERROR(
        loadModule(driver, {bytes.data(), bytes.size()}, module).in("code object ", i));
    modules.push_back(module);
  }
  for (uint32_t i = 0; target.kernels() && i < target.kernels()->size(); ++i) {
    const fb::Kernel &kernel = *target.kernels()->Get(i);
    MLAC_RETURN_IF_ERROR(loadKernel(kernel, sharedLimit).in("kernel '", text(kernel.name()), "'"));
  }
  if (!driver.funcGetParamInfo)
    return Status();
  for (uint32_t i = 0; target.functions() && i < target.functions()->size(); ++i) {
    const fb::Function &function = *target.functions()->Get(i);
    MLAC_RETURN_IF_ERROR(forEachLaunch(function.steps(), [&](const fb::Launch &launch) {
                           return checkLaunch(target, launch);
                         }).in("function '", text(function.name()), "'"));
  }
  return Status();
}

/// Bytes of each parameter of the kernel's code.
Status CudaProgram::readParameters(LoadedKernel &loaded) const {
  for (size_t i = 0; driver.funcGetParamInfo; ++i) {
    size_t offset, bytes;
    Result result = driver.funcGetParamInfo(loaded.function, i, &offset, &bytes);
    if (result == kInvalidValue) // behind the last
      break;
    MLAC_RETURN_IF_ERROR(driver.check(result, "cuFuncGetParamInfo"));
    loaded.parameterBytes.push_back(bytes);
  }
  return Status();
}

/// A launch's arguments against the parameters of its kernel's code: the driver reads as
/// many as the code declares, from wherever the list of arguments leads it.
Status CudaProgram::checkLaunch(const fb::Target &target, const fb::Launch &launch) const {
  const std::vector<size_t> &expected = kernels[launch.kernel()].parameterBytes;
  const fb::Kernel &kernel = *target.kernels()->Get(launch.kernel());
  size_t args = launch.args() ? launch.args()->size() : 0;
  size_t maps = kernel.tensor_maps() ? kernel.tensor_maps()->size() : 0;
  auto refuse = [&](const auto &...what) {
    return error(MLA_CORRUPT, "launch '", text(launch.label()), "' of kernel '",
                 text(kernel.name()), "' passes ", what...);
  };
  if (args + maps != expected.size())
    return refuse(args + maps, " arguments, its code takes ", expected.size());
  for (size_t i = 0; i < args + maps; ++i) {
    size_t bytes = i >= args ? sizeof(EncodedTensorMap::bytes)
                   : launch.args()->Get(i)->kind() == fb::ArgKind::F32 ? sizeof(float)
                                                                       : sizeof(uint64_t);
    if (bytes != expected[i])
      return refuse(bytes, " bytes as argument ", i, ", its code takes ", expected[i]);
  }
  return Status();
}

Status CudaProgram::loadKernel(const fb::Kernel &kernel, int64_t sharedLimit) {
  LoadedKernel loaded = {nullptr, kernel.threads(), kernel.shared_bytes(), {}};
  MLAC_RETURN_IF_ERROR(driver.check(
      driver.moduleGetFunction(&loaded.function, modules[kernel.code()], kernel.symbol()->c_str()),
      "cuModuleGetFunction"));
  int staticShared = 0, maxThreads = 0;
  MLAC_RETURN_IF_ERROR(
      driver.check(driver.funcGetAttribute(&staticShared, kFunctionSharedBytes, loaded.function),
                   "cuFuncGetAttribute"));
  MLAC_RETURN_IF_ERROR(
      driver.check(driver.funcGetAttribute(&maxThreads, kFunctionMaxThreads, loaded.function),
                   "cuFuncGetAttribute"));
  if (int64_t(loaded.threads) > maxThreads)
    return error(MLA_CORRUPT, loaded.threads, " threads, its code allows ", maxThreads);
  int64_t shared = int64_t(loaded.sharedBytes) + staticShared;
  if (shared > sharedLimit)
    return error(MLA_UNSUPPORTED, "needs ", shared, " bytes of shared memory, the device has ",
                 sharedLimit);
  if (shared > kDefaultSharedBytes)
    MLAC_RETURN_IF_ERROR(
        driver.check(driver.funcSetAttribute(loaded.function, kFunctionMaxDynamicShared,
                                             static_cast<int>(loaded.sharedBytes)),
                     "cuFuncSetAttribute"));
  MLAC_RETURN_IF_ERROR(readParameters(loaded));
  kernels.push_back(std::move(loaded));
  return Status();
}

static int mapType(mla_dtype dtype) {
  switch (dtype) {
  case MLA_BF16:
    return kMapBFloat16;
  case MLA_F16:
    return kMapFloat16;
  case MLA_F32:
    return kMapFloat32;
  case MLA_I32:
    return kMapInt32;
  case MLA_I64:
    return kMapInt64;
  default:
    return kMapUInt8; // bytes
  }
}

/// L2 promotion of 128 bytes: 256 cost a tenth of the DRAM bandwidth on an H200.
Status CudaProgram::encode(const TensorMap &map, uint64_t address, EncodedTensorMap &encoded) {
  constexpr uint64_t kAlignment = 16;
  if (address % kAlignment != 0)
    return error(MLA_INVALID_ARGUMENT, "starts at an address that ends in ", address % kAlignment,
                 ", expected a multiple of ", kAlignment);
  Current current(driver, context); // the driver asks which device will read it
  MLAC_RETURN_IF_ERROR(current.status());
  constexpr std::array<unsigned, kMaxTensorRank> steps = {1, 1, 1, 1, 1};
  MLAC_RETURN_IF_ERROR(driver.check(
      driver.tensorMapEncodeTiled(
          encoded.bytes.data(), mapType(map.dtype), map.rank, reinterpret_cast<void *>(address),
          map.sizes.data(), map.strideBytes.data(), map.box.data(), steps.data(),
          kMapInterleaveNone, kMapSwizzle128B, kMapPromotion128B, kMapFillZeros),
      "cuTensorMapEncodeTiled"));
  encoded.address = address;
  return Status();
}

Status CudaProgram::launch(const Launch &launch, const uint64_t *args, const EncodedTensorMap *maps,
                           mla_stream *stream) {
  auto [x, y, z] = launch.grid;
  if (x > kMaxGridX || y > kMaxGridYZ || z > kMaxGridYZ)
    return error(MLA_UNSUPPORTED, "grid ", x, " x ", y, " x ", z, " is over the device's ",
                 kMaxGridX, " x ", kMaxGridYZ, " x ", kMaxGridYZ);
  Current current(driver, context);
  MLAC_RETURN_IF_ERROR(current.status());
  // The driver reads as many bytes per parameter as the kernel declares: 8, the low
  // 4 of a slot for an f32 (little-endian), or the 128 of a tensor map.
  void *parameters[kMaxArgs + kMaxTensorMaps];
  for (uint32_t i = 0; i < launch.numArgs; ++i)
    parameters[i] = const_cast<uint64_t *>(args + i);
  for (uint32_t i = 0; i < launch.numMaps; ++i)
    parameters[launch.numArgs + i] = const_cast<uint8_t *>(maps[i].bytes.data());
  const LoadedKernel &kernel = kernels[launch.kernel];
  LaunchAttribute dependent = {kProgrammaticStreamSerialization, 0, {1}};
  LaunchConfig config = {static_cast<unsigned>(x),
                         static_cast<unsigned>(y),
                         static_cast<unsigned>(z),
                         kernel.threads,
                         1,
                         1,
                         kernel.sharedBytes,
                         native(stream),
                         &dependent,
                         launch.isDependent ? 1u : 0u};
  return driver.check(driver.launchKernelEx(&config, kernel.function, parameters, nullptr),
                      "cuLaunchKernelEx");
}

//===----------------------------------------------------------------------===//
// Device
//===----------------------------------------------------------------------===//

namespace {
class CudaDevice : public Device {
public:
  ~CudaDevice() override {
    if (context)
      driver->primaryCtxRelease(id);
  }
  Status open(int32_t ordinal);

  bool isCuda() const override { return true; }
  int64_t numSms() const override { return multiprocessors; }
  const std::string &infoJson() const override { return info; }
  bool supports(const fb::Target &target, std::string &reason) const override;
  int64_t preference(const fb::Target &target) const override;
  Status load(const fb::Target &target, std::unique_ptr<Program> &program) override {
    auto result = std::make_unique<CudaProgram>(*driver, context);
    MLAC_RETURN_IF_ERROR(result->load(target, sharedLimit));
    program = std::move(result);
    return Status();
  }

  Status allocate(size_t bytes, void **data) override {
    DevicePtr pointer = 0;
    MLAC_RETURN_IF_ERROR(call("cuMemAlloc", driver->memAlloc, &pointer, bytes)
                             .in("cannot allocate ", bytes, " bytes"));
    *data = reinterpret_cast<void *>(pointer);
    return Status();
  }
  void release(void *data) override { (void)call("cuMemFree", driver->memFree, address(data)); }
  Status allocateStaging(size_t bytes, void **data) override {
    constexpr unsigned kNoFlags = 0;
    return call("cuMemHostAlloc", driver->memHostAlloc, data, bytes, kNoFlags)
        .in("cannot allocate ", bytes, " bytes of pinned memory");
  }
  void releaseStaging(void *data) override {
    (void)call("cuMemFreeHost", driver->memFreeHost, data);
  }

  Status upload(void *to, const void *from, size_t bytes) override {
    MLAC_RETURN_IF_ERROR(synchronize());
    MLAC_RETURN_IF_ERROR(call("cuMemcpyHtoD", driver->memcpyHtoD, address(to), from, bytes));
    // From pageable memory the call may return before the last bytes arrive.
    return synchronize();
  }
  Status download(void *to, const void *from, size_t bytes) override {
    MLAC_RETURN_IF_ERROR(synchronize());
    return call("cuMemcpyDtoH", driver->memcpyDtoH, to, address(from), bytes);
  }
  Status uploadAsync(void *to, const void *staging, size_t bytes, mla_stream *stream) override {
    return call("cuMemcpyHtoDAsync", driver->memcpyHtoDAsync, address(to), staging, bytes,
                native(stream));
  }
  Status downloadAsync(void *staging, const void *from, size_t bytes, mla_stream *stream) override {
    return call("cuMemcpyDtoHAsync", driver->memcpyDtoHAsync, staging, address(from), bytes,
                native(stream));
  }
  Status writeWords(char *to, const uint8_t *staging, std::span<const int64_t> offsets,
                    mla_stream *stream) override;
  Status copyAsync(void *to, const void *from, size_t bytes, mla_stream *stream) override {
    return call("cuMemcpyDtoDAsync", driver->memcpyDtoDAsync, address(to), address(from), bytes,
                native(stream));
  }
  Status fillAsync(void *to, uint8_t value, size_t bytes, mla_stream *stream) override {
    return call("cuMemsetD8Async", driver->memsetD8Async, address(to), value, bytes,
                native(stream));
  }

  Status synchronize() override { return call("cuCtxSynchronize", driver->ctxSynchronize); }
  Status checkStream(mla_stream *) const override { return Status(); }
  /// The legacy stream cannot be captured, and asking fails where another is.
  bool isCapturing(mla_stream *stream) const override {
    int status = 0; // CU_STREAM_CAPTURE_STATUS_NONE
    return stream && driver->streamIsCapturing(native(stream), &status) == kSuccess && status != 0;
  }
  Status createStream(mla_stream **stream) override {
    return call("cuStreamCreate", driver->streamCreate, reinterpret_cast<Stream *>(stream),
                kStreamNonBlocking);
  }
  Status destroyStream(mla_stream *stream) override {
    return call("cuStreamDestroy", driver->streamDestroy, native(stream));
  }
  Status synchronize(mla_stream *stream) override {
    return call("cuStreamSynchronize", driver->streamSynchronize, native(stream));
  }
  Status createEvent(std::unique_ptr<Event> &event) override {
    Current current(*driver, context);
    MLAC_RETURN_IF_ERROR(current.status());
    auto result = std::make_unique<CudaEvent>(*driver, context);
    MLAC_RETURN_IF_ERROR(result->create());
    event = std::move(result);
    return Status();
  }

private:
  template <typename Function, typename... Args>
  Status call(const char *name, Function function, Args... args) {
    Current current(*driver, context);
    MLAC_RETURN_IF_ERROR(current.status());
    return driver->check(function(args...), name);
  }
  int attribute(int which) const {
    int value = 0;
    driver->deviceGetAttribute(&value, which, id);
    return value;
  }
  void describe(int driverVersion);

  const Driver *driver = nullptr;
  DeviceId id = 0;
  Context context = nullptr;
  int major = 0, minor = 0, multiprocessors = 0, sharedLimit = 0;
  std::string info;
};
} // namespace

Status CudaDevice::open(int32_t ordinal) {
  MLAC_RETURN_IF_ERROR(openDriver(driver));
  int count = 0;
  MLAC_RETURN_IF_ERROR(driver->check(driver->deviceGetCount(&count), "cuDeviceGetCount"));
  if (ordinal >= count)
    return error(MLA_NO_DEVICE, "CUDA device ", ordinal, " of ", count);
  MLAC_RETURN_IF_ERROR(driver->check(driver->deviceGet(&id, ordinal), "cuDeviceGet"));
  MLAC_RETURN_IF_ERROR(
      driver->check(driver->primaryCtxRetain(&context, id), "cuDevicePrimaryCtxRetain"));
  major = attribute(kComputeCapabilityMajor);
  minor = attribute(kComputeCapabilityMinor);
  multiprocessors = attribute(kMultiprocessorCount);
  sharedLimit = attribute(kMaxSharedMemoryOptin);
  int version = 0;
  MLAC_RETURN_IF_ERROR(driver->check(driver->driverGetVersion(&version), "cuDriverGetVersion"));
  describe(version);
  return Status();
}

/// The values travel in the stream's commands. Where the driver has no such commands
/// (some virtual machines), each word is a copy.
Status CudaDevice::writeWords(char *to, const uint8_t *staging, std::span<const int64_t> offsets,
                              mla_stream *stream) {
  constexpr unsigned kNoFlags = 0;
  Current current(*driver, context);
  MLAC_RETURN_IF_ERROR(current.status());
  std::array<StreamWrite, kMostStreamWrites> writes{};
  while (!offsets.empty()) {
    size_t count = std::min(offsets.size(), writes.size());
    for (size_t i = 0; i < count; ++i) {
      writes[i].operation = kStreamWriteValue32;
      writes[i].address = address(to + offsets[i]);
      uint32_t value;
      std::memcpy(&value, staging + offsets[i], sizeof value);
      writes[i].value = value;
    }
    Result result = driver->streamBatchMemOp(native(stream), static_cast<unsigned>(count),
                                             writes.data(), kNoFlags);
    if (result == kNotSupported)
      return Device::writeWords(to, staging, offsets, stream);
    MLAC_RETURN_IF_ERROR(driver->check(result, "cuStreamBatchMemOp"));
    offsets = offsets.subspan(count);
  }
  return Status();
}

void CudaDevice::describe(int driverVersion) {
  constexpr int kMaxName = 256;
  char name[kMaxName] = {};
  size_t memory = 0;
  driver->deviceGetName(name, kMaxName - 1, id);
  driver->deviceTotalMem(&memory, id);
  info = toText(Json{{"kind", "cuda"},
                     {"name", name},
                     {"arch", concat("sm_", major, minor)},
                     {"num_sms", multiprocessors},
                     {"memory_bytes", memory},
                     {"driver_version", driverVersion},
                     {"clock_khz", attribute(kClockRate)},
                     {"memory_clock_khz", attribute(kMemoryClockRate)},
                     {"memory_bus_bits", attribute(kMemoryBusWidth)}});
}

namespace {
/// "sm_90a": capability 90, code for exactly this capability.
struct CudaArch {
  int capability = 0; // 10 * major + minor
  char suffix = 0;    // 'a': this capability only; 'f': this family
};
} // namespace

static bool parseArch(std::string_view name, CudaArch &arch) {
  constexpr std::string_view kPrefix = "sm_";
  if (!name.starts_with(kPrefix))
    return false;
  const char *end = name.data() + name.size();
  auto [stop, code] = std::from_chars(name.data() + kPrefix.size(), end, arch.capability);
  if (code != std::errc() || end - stop > 1)
    return false;
  arch.suffix = stop != end ? *stop : 0;
  return arch.suffix == 0 || arch.suffix == 'a' || arch.suffix == 'f';
}

bool CudaDevice::supports(const fb::Target &target, std::string &reason) const {
  CudaArch arch;
  if (target.kind() != fb::TargetKind::Cuda || !parseArch(text(target.arch()), arch)) {
    reason = "not for a CUDA device";
    return false;
  }
  // Binary compatibility holds within a major version, upwards in the minor
  // one; code with suffix 'a' runs on its own capability only (CUDA C++
  // Programming Guide, "Binary Compatibility").
  int capability = 10 * major + minor;
  bool isExact = capability == arch.capability;
  bool isNewerMinor = arch.capability / 10 == major && capability >= arch.capability;
  if (isExact || (arch.suffix != 'a' && isNewerMinor))
    return true;
  reason = concat("the device is sm_", capability);
  return false;
}

int64_t CudaDevice::preference(const fb::Target &target) const {
  CudaArch arch;
  parseArch(text(target.arch()), arch);
  return 2 * arch.capability + (arch.suffix != 0);
}

Status mlac::runtime::openCudaDevice(int32_t ordinal, std::shared_ptr<Device> &device) {
  auto result = std::make_shared<CudaDevice>();
  MLAC_RETURN_IF_ERROR(result->open(ordinal));
  device = std::move(result);
  return Status();
}
