//===- CeilingsCuda.cpp - what the GPU can do at most ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Talks to the driver directly, opened at run time, in the device's primary
// context: the runtime's C API has no business loading foreign kernels.
//
//===----------------------------------------------------------------------===//

#include "Ceilings.h"

#include "Numbers.h"
#include "ReadStreamPtx.h"

#include <algorithm>
#include <cstdint>
#include <dlfcn.h>
#include <functional>
#include <stdexcept>
#include <vector>

using namespace mlac::run;

namespace {
/// A library and its symbols; closing is left to the end of the process, as
/// the driver expects.
class Library {
public:
  explicit Library(const std::vector<std::string> &names) {
    for (const std::string &name : names)
      if (!handle)
        handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  explicit operator bool() const { return handle != nullptr; }
  template <typename... Args> int call(const char *symbol, Args... args) const {
    void *address = dlsym(handle, symbol);
    if (!address)
      throw std::runtime_error(std::string("the library has no ") + symbol);
    return reinterpret_cast<int (*)(Args...)>(address)(args...);
  }

private:
  void *handle = nullptr;
};

using Address = uint64_t; // CUdeviceptr

class Driver {
public:
  explicit Driver(int ordinal) : library({"libcuda.so.1"}) {
    if (!library)
      throw std::runtime_error("libcuda.so.1 cannot be opened");
    int device = 0;
    void *context = nullptr;
    run("cuInit", 0u);
    run("cuDeviceGet", &device, ordinal);
    run("cuDevicePrimaryCtxRetain", &context, device);
    run("cuCtxSetCurrent", context);
  }

  template <typename... Args> void run(const char *symbol, Args... args) const {
    if (int status = library.call(symbol, args...))
      throw std::runtime_error(std::string(symbol) + " failed with CUDA error " +
                               std::to_string(status));
  }

  Address allocate(size_t bytes) const {
    Address address = 0;
    run("cuMemAlloc_v2", &address, bytes);
    return address;
  }
  void free(Address address) const { run("cuMemFree_v2", address); }

  /// Best time of `body` by events, after one warm-up.
  double bestSeconds(const std::function<void()> &body) const {
    constexpr int kRuns = 10;
    void *begin = nullptr, *end = nullptr, *stream = nullptr;
    run("cuEventCreate", &begin, 0u);
    run("cuEventCreate", &end, 0u);
    body();
    float best = 1e30f;
    for (int i = 0; i < kRuns; ++i) {
      float milliseconds = 0;
      run("cuEventRecord", begin, stream);
      body();
      run("cuEventRecord", end, stream);
      run("cuEventSynchronize", end);
      run("cuEventElapsedTime", &milliseconds, begin, end);
      best = std::min(best, milliseconds);
    }
    run("cuEventDestroy_v2", begin);
    run("cuEventDestroy_v2", end);
    return best / 1e3;
  }

private:
  Library library;
};
} // namespace

static double measureRead(const Driver &driver) {
  constexpr uint64_t kBytes = uint64_t{4} << 30; // far beyond the L2 cache
  constexpr unsigned kThreads = 512, kBlocks = 2048;
  constexpr uint64_t kTurn = uint64_t{kThreads} * kBlocks * 4; // words of all threads' turn
  void *module = nullptr, *kernel = nullptr;
  driver.run("cuModuleLoadData", &module, static_cast<const void *>(kReadStreamPtx));
  driver.run("cuModuleGetFunction", &kernel, module, "mla_read_stream");
  Address data = driver.allocate(kBytes), sink = driver.allocate(16);
  driver.run("cuMemsetD8_v2", data, static_cast<unsigned char>(0), size_t{kBytes});
  uint64_t words = kBytes / 16 / kTurn * kTurn;
  void *arguments[] = {&data, &words, &sink};
  double seconds = driver.bestSeconds([&] {
    driver.run("cuLaunchKernel", kernel, kBlocks, 1u, 1u, kThreads, 1u, 1u, 0u,
               static_cast<void *>(nullptr), static_cast<void **>(arguments),
               static_cast<void **>(nullptr));
  });
  driver.free(data);
  driver.free(sink);
  driver.run("cuModuleUnload", module);
  return words * 16 / seconds;
}

static double measureProduct(const Driver &driver, const Library &cublas) {
  constexpr int kSize = 8192, kBf16 = 14 /* CUDA_R_16BF */, kF32 = 68 /* CUBLAS_COMPUTE_32F */;
  constexpr int kDefaultAlgorithm = -1, kPlain = 0, kTransposed = 1;
  size_t bytes = size_t{kSize} * kSize * 2;
  Address a = driver.allocate(bytes), b = driver.allocate(bytes), c = driver.allocate(bytes);
  // Random numbers: with constants the tensor cores draw less power and run
  // above the clock that real data allows (seen on an H200: 890 against 790).
  uint64_t seed = 0;
  for (Address matrix : {a, b}) {
    std::vector<uint8_t> values = encode(randomBf16(++seed, size_t{kSize} * kSize, 1.0), MLA_BF16);
    driver.run("cuMemcpyHtoD_v2", matrix, static_cast<const void *>(values.data()), bytes);
  }
  void *handle = nullptr;
  if (int status = cublas.call("cublasCreate_v2", &handle))
    throw std::runtime_error("cublasCreate failed with " + std::to_string(status));
  float one = 1, zero = 0;
  double seconds = driver.bestSeconds([&] {
    int status = cublas.call("cublasGemmEx", handle, kTransposed, kPlain, kSize, kSize, kSize,
                             static_cast<const void *>(&one), reinterpret_cast<const void *>(a),
                             kBf16, kSize, reinterpret_cast<const void *>(b), kBf16, kSize,
                             static_cast<const void *>(&zero), reinterpret_cast<void *>(c), kBf16,
                             kSize, kF32, kDefaultAlgorithm);
    if (status)
      throw std::runtime_error("cublasGemmEx failed with " + std::to_string(status));
  });
  (void)cublas.call("cublasDestroy_v2", handle);
  for (Address matrix : {a, b, c})
    driver.free(matrix);
  return 2.0 * kSize * kSize * kSize / seconds;
}

Ceilings mlac::run::measureCudaCeilings(int ordinal) {
  Ceilings ceilings;
  try {
    Driver driver(ordinal);
    ceilings.readBytesPerSecond = measureRead(driver);
    Library cublas({"libcublas.so.13", "libcublas.so.12", "libcublas.so"});
    if (!cublas) {
      ceilings.notes = "no libcublas.so.12 or .13 on the library path: matrix ceiling unknown";
      return ceilings;
    }
    ceilings.flopsPerSecond = measureProduct(driver, cublas);
    ceilings.notes = "read of 4 GiB by a PTX kernel; bf16 8192^3 by cuBLAS";
  } catch (const std::exception &error) {
    ceilings.notes += std::string("not all ceilings measured: ") + error.what();
  }
  return ceilings;
}
