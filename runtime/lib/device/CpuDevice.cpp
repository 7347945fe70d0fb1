//===- CpuDevice.cpp - the processor as a device ----------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Memory is host memory, copies and launches are complete on return, and a
// target's code objects are shared objects: each goes into an anonymous file in
// memory, from where the dynamic loader maps it.
//
//===----------------------------------------------------------------------===//

#include "base/Json.h"
#include "device/CpuFeatures.h"
#include "device/Device.h"
#include "device/ElfImage.h"
#include "device/ThreadPool.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

using namespace mlac::runtime;

/// void kernel(const uint64_t *args, int64_t pid0, int64_t pid1, int64_t pid2)
using Kernel = void (*)(const uint64_t *, int64_t, int64_t, int64_t);

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

namespace {
struct Descriptor {
  int value = -1;
  Descriptor() = default;
  explicit Descriptor(int value) : value(value) {}
  Descriptor(Descriptor &&other) noexcept : value(std::exchange(other.value, -1)) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(value, other.value);
    return *this;
  }
  ~Descriptor() {
    if (value >= 0)
      close(value);
  }
};

/// A loaded code object. Its file stays open: dlopen knows libraries by their
/// path, and the next code object must not get this one's.
struct Library {
  Descriptor file;
  void *handle = nullptr;
  Library() = default;
  Library(Library &&other) noexcept
      : file(std::move(other.file)), handle(std::exchange(other.handle, nullptr)) {}
  ~Library() {
    if (handle)
      dlclose(handle);
  }
};

/// One launch as the pool's workers see it.
struct GridJob {
  Kernel kernel;
  const uint64_t *args;
  std::array<int64_t, 3> grid;
};

class CpuProgram : public Program {
public:
  explicit CpuProgram(ThreadPool &pool) : pool(pool) {}
  Status load(const fb::Target &target);
  Status encode(const TensorMap &, uint64_t, EncodedTensorMap &) override {
    return error(MLA_CORRUPT, "tensor maps on a CPU"); // refused by the verifier
  }
  Status launch(const Launch &launch, const uint64_t *args, const EncodedTensorMap *maps,
                mla_stream *stream) override;

private:
  ThreadPool &pool;
  std::vector<Library> libraries;
  std::vector<Kernel> kernels;
};
} // namespace

static Status writeAll(int file, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return error(MLA_OUT_OF_MEMORY, "cannot write code to memory: ", std::strerror(errno));
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return Status();
}

static Status loadLibrary(std::span<const uint8_t> bytes, Library &library) {
  MLAC_RETURN_IF_ERROR(checkHostImage(bytes));
  library.file = Descriptor(memfd_create("mlac-kernels", MFD_CLOEXEC));
  if (library.file.value < 0)
    return error(MLA_OUT_OF_MEMORY, "memfd_create: ", std::strerror(errno));
  MLAC_RETURN_IF_ERROR(writeAll(library.file.value, bytes));
  std::string path = concat("/proc/self/fd/", library.file.value);
  library.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library.handle)
    return error(MLA_CORRUPT, "cannot load code object: ", dlerror());
  return Status();
}

Status CpuProgram::load(const fb::Target &target) {
  for (uint32_t i = 0; target.code() && i < target.code()->size(); ++i) {
    const auto &bytes = *target.code()->Get(i)->bytes();
    Library library;
    MLAC_RETURN_IF_ERROR(loadLibrary({bytes.data(), bytes.size()}, library));
    libraries.push_back(std::move(library));
  }
  for (uint32_t i = 0; target.kernels() && i < target.kernels()->size(); ++i) {
    const fb::Kernel &kernel = *target.kernels()->Get(i);
    void *address = dlsym(libraries[kernel.code()].handle, kernel.symbol()->c_str());
    if (!address)
      return error(MLA_CORRUPT, "kernel '", text(kernel.name()), "': code object ", kernel.code(),
                   " lacks symbol '", text(kernel.symbol()), "'");
    kernels.push_back(reinterpret_cast<Kernel>(address));
  }
  return Status();
}

/// Programs [first, last) of the grid in x-major order.
static void runPrograms(void *context, int64_t first, int64_t last) {
  const GridJob &job = *static_cast<const GridJob *>(context);
  auto [x, y, z] = job.grid;
  for (int64_t i = first; i < last; ++i)
    job.kernel(job.args, i % x, i / x % y, i / (x * y));
}

Status CpuProgram::launch(const Launch &launch, const uint64_t *args, const EncodedTensorMap *,
                          mla_stream *) {
  int64_t total;
  if (!checkedMul(launch.grid[0], launch.grid[1], total) ||
      !checkedMul(total, launch.grid[2], total))
    return error(MLA_CORRUPT, "grid ", launch.grid[0], " x ", launch.grid[1], " x ", launch.grid[2],
                 " overflows");
  GridJob job = {kernels[launch.kernel], args, launch.grid};
  pool.run(runPrograms, &job, total);
  return Status();
}

//===----------------------------------------------------------------------===//
// Device
//===----------------------------------------------------------------------===//

namespace {
using Clock = std::chrono::steady_clock;

class CpuEvent : public Event {
public:
  Status record(mla_stream *) override {
    time = Clock::now();
    return Status();
  }
  Status wait() override { return Status(); }
  Status delay(mla_stream *) override { return Status(); }
  Status elapsed(Event &end, double &milliseconds) override {
    auto difference = static_cast<CpuEvent &>(end).time - time;
    milliseconds = std::chrono::duration<double, std::milli>(difference).count();
    return Status();
  }

private:
  Clock::time_point time{};
};

class CpuDevice : public Device {
public:
  Status start(int32_t threads);

  bool isCuda() const override { return false; }
  int64_t numSms() const override { return pool.numThreads(); }
  const std::string &infoJson() const override { return info; }

  bool supports(const fb::Target &target, std::string &reason) const override {
    if (target.kind() != fb::TargetKind::Cpu) {
      reason = "not for the CPU";
      return false;
    }
    std::string missing;
    if (hostSupports(text(target.arch()), text(target.features()), missing))
      return true;
    reason = concat("this processor lacks ", missing);
    return false;
  }
  int64_t preference(const fb::Target &target) const override {
    // A higher level first, then the longer list of features.
    constexpr int64_t kLevelWeight = 1 << 16;
    return archLevel(text(target.arch())) * kLevelWeight +
           static_cast<int64_t>(text(target.features()).size());
  }
  Status load(const fb::Target &target, std::unique_ptr<Program> &program) override {
    auto result = std::make_unique<CpuProgram>(pool);
    MLAC_RETURN_IF_ERROR(result->load(target));
    program = std::move(result);
    return Status();
  }

  Status allocate(size_t bytes, void **data) override {
    void *memory = nullptr;
    if (posix_memalign(&memory, kBufferAlignment, bytes) != 0)
      return error(MLA_OUT_OF_MEMORY, "cannot allocate ", bytes, " bytes of host memory");
    *data = memory;
    return Status();
  }
  void release(void *data) override { std::free(data); }
  Status allocateStaging(size_t bytes, void **data) override { return allocate(bytes, data); }
  void releaseStaging(void *data) override { release(data); }

  Status upload(void *to, const void *from, size_t bytes) override {
    std::memmove(to, from, bytes);
    return Status();
  }
  Status download(void *to, const void *from, size_t bytes) override {
    return upload(to, from, bytes);
  }
  Status uploadAsync(void *to, const void *from, size_t bytes, mla_stream *) override {
    return upload(to, from, bytes);
  }
  Status downloadAsync(void *to, const void *from, size_t bytes, mla_stream *) override {
    return download(to, from, bytes);
  }
  Status copyAsync(void *to, const void *from, size_t bytes, mla_stream *) override {
    return upload(to, from, bytes);
  }
  Status fillAsync(void *to, uint8_t value, size_t bytes, mla_stream *) override {
    std::memset(to, value, bytes);
    return Status();
  }

  Status synchronize() override { return Status(); }
  Status synchronize(mla_stream *) override { return Status(); }
  Status checkStream(mla_stream *stream) const override {
    if (!stream)
      return Status();
    return error(MLA_INVALID_ARGUMENT, "the CPU device has no streams, stream "
                                       "must be null");
  }
  Status createStream(mla_stream **stream) override {
    *stream = nullptr;
    return Status();
  }
  Status destroyStream(mla_stream *) override { return Status(); }
  Status createEvent(std::unique_ptr<Event> &event) override {
    event = std::make_unique<CpuEvent>();
    return Status();
  }

private:
  ThreadPool pool;
  std::string info;
};
} // namespace

/// Logical processors that this process may run on.
static int32_t numProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0)
    return 1;
  return CPU_COUNT(&set);
}

Status CpuDevice::start(int32_t threads) {
  constexpr int32_t kMaxThreads = 1024;
  if (threads < 0 || threads > kMaxThreads)
    return error(MLA_INVALID_ARGUMENT, "threads = ", threads, ", expected 0 to ", kMaxThreads);
  MLAC_RETURN_IF_ERROR(pool.start(threads > 0 ? threads : numProcessors()));
  int64_t memory = int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  info = toText(Json{{"kind", "cpu"},
                     {"name", "cpu"},
                     {"arch", hostArch()},
                     {"num_sms", pool.numThreads()},
                     {"memory_bytes", memory}});
  return Status();
}

Status mlac::runtime::openCpuDevice(int32_t threads, std::shared_ptr<Device> &device) {
  auto result = std::make_shared<CpuDevice>();
  MLAC_RETURN_IF_ERROR(result->start(threads));
  device = std::move(result);
  return Status();
}
