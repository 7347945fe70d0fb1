//===- CudaDriver.h - the CUDA driver, opened at run time -------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Declares the few driver functions that the runtime calls and finds them in
// libcuda.so.1 when a CUDA device is asked for: neither headers nor libraries
// of a CUDA toolkit are needed. Names, signatures and values follow the CUDA
// Driver API reference; the _v2 suffixes are what cuda.h maps the plain names
// to.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_CUDADRIVER_H
#define MLAC_RUNTIME_CUDADRIVER_H

#include "base/Status.h"

#include <cstddef>
#include <cstdint>

namespace mlac::runtime::cuda {

using Result = int;
using DeviceId = int;
using DevicePtr = unsigned long long;
using Context = struct ContextTag *;
using Module = struct ModuleTag *;
using Function = struct FunctionTag *;
using Stream = struct StreamTag *;
using EventHandle = struct EventTag *;

inline constexpr Result kSuccess = 0;
inline constexpr Result kInvalidValue = 1;   // CUDA_ERROR_INVALID_VALUE
inline constexpr Result kOutOfMemory = 2;    // CUDA_ERROR_OUT_OF_MEMORY
inline constexpr Result kNoDevice = 100;     // CUDA_ERROR_NO_DEVICE
inline constexpr Result kNotSupported = 801; // CUDA_ERROR_NOT_SUPPORTED

// CUdevice_attribute
inline constexpr int kClockRate = 13;
inline constexpr int kMultiprocessorCount = 16;
inline constexpr int kMemoryClockRate = 36;
inline constexpr int kMemoryBusWidth = 37;
inline constexpr int kComputeCapabilityMajor = 75;
inline constexpr int kComputeCapabilityMinor = 76;
inline constexpr int kMaxSharedMemoryOptin = 97;
// CUfunction_attribute
inline constexpr int kFunctionMaxThreads = 0;
inline constexpr int kFunctionSharedBytes = 1; // static shared memory
inline constexpr int kFunctionMaxDynamicShared = 8;
// CUlaunchAttributeID
inline constexpr int kProgrammaticStreamSerialization = 6;
// CUtensorMapDataType
inline constexpr int kMapUInt8 = 0, kMapInt32 = 3, kMapInt64 = 5, kMapFloat16 = 6, kMapFloat32 = 7,
                     kMapBFloat16 = 9;
// CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
// CUtensorMapFloatOOBfill
inline constexpr int kMapInterleaveNone = 0, kMapSwizzle128B = 3, kMapPromotion128B = 2,
                     kMapFillZeros = 0;
// CUstream_flags, CUevent_flags
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDefault = 0;
// CUevent_wait_flags
inline constexpr unsigned kEventWaitDefault = 0;

/// CUlaunchAttribute: the value is a union of 64 bytes.
struct LaunchAttribute {
  int id;
  int padding;
  union {
    int programmaticStreamSerializationAllowed;
    char bytes[64];
  } value;
};

/// CUlaunchConfig.
struct LaunchConfig {
  unsigned gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes;
  Stream stream;
  LaunchAttribute *attributes;
  unsigned numAttributes;
};

/// CUstreamBatchMemOpParams: a union of 48 bytes, here its 32-bit write.
struct StreamWrite {
  int operation;
  DevicePtr address;
  uint64_t value; // its lower half is written
  unsigned flags;
  uint64_t alias, padding;
};
static_assert(sizeof(StreamWrite) == 48);
inline constexpr int kStreamWriteValue32 = 2; // CU_STREAM_MEM_OP_WRITE_VALUE_32
/// cuStreamBatchMemOp takes fewer than 256.
inline constexpr size_t kMostStreamWrites = 255;

/// X(member, symbol, arguments): every function returns a Result.
#define MLAC_CUDA_FUNCTIONS(X)                                                                     \
  X(init, "cuInit", (unsigned))                                                                    \
  X(driverGetVersion, "cuDriverGetVersion", (int *))                                               \
  X(deviceGetCount, "cuDeviceGetCount", (int *))                                                   \
  X(deviceGet, "cuDeviceGet", (DeviceId *, int))                                                   \
  X(deviceGetName, "cuDeviceGetName", (char *, int, DeviceId))                                     \
  X(deviceGetAttribute, "cuDeviceGetAttribute", (int *, int, DeviceId))                            \
  X(deviceTotalMem, "cuDeviceTotalMem_v2", (size_t *, DeviceId))                                   \
  X(primaryCtxRetain, "cuDevicePrimaryCtxRetain", (Context *, DeviceId))                           \
  X(primaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (DeviceId))                                 \
  X(ctxPushCurrent, "cuCtxPushCurrent_v2", (Context))                                              \
  X(ctxPopCurrent, "cuCtxPopCurrent_v2", (Context *))                                              \
  X(ctxSynchronize, "cuCtxSynchronize", ())                                                        \
  X(memAlloc, "cuMemAlloc_v2", (DevicePtr *, size_t))                                              \
  X(memFree, "cuMemFree_v2", (DevicePtr))                                                          \
  X(memHostAlloc, "cuMemHostAlloc", (void **, size_t, unsigned))                                   \
  X(memFreeHost, "cuMemFreeHost", (void *))                                                        \
  X(memcpyHtoD, "cuMemcpyHtoD_v2", (DevicePtr, const void *, size_t))                              \
  X(memcpyDtoH, "cuMemcpyDtoH_v2", (void *, DevicePtr, size_t))                                    \
  X(memcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void *, DevicePtr, size_t, Stream))                  \
  X(memcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (DevicePtr, const void *, size_t, Stream))            \
  X(memcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", (DevicePtr, DevicePtr, size_t, Stream))               \
  X(memsetD8Async, "cuMemsetD8Async", (DevicePtr, unsigned char, size_t, Stream))                  \
  X(moduleLoadData, "cuModuleLoadData", (Module *, const void *))                                  \
  X(moduleUnload, "cuModuleUnload", (Module))                                                      \
  X(moduleGetFunction, "cuModuleGetFunction", (Function *, Module, const char *))                  \
  X(funcSetAttribute, "cuFuncSetAttribute", (Function, int, int))                                  \
  X(funcGetAttribute, "cuFuncGetAttribute", (int *, int, Function))                                \
  X(launchKernelEx, "cuLaunchKernelEx", (const LaunchConfig *, Function, void **, void **))        \
  X(tensorMapEncodeTiled, "cuTensorMapEncodeTiled",                                                \
    (void *, int, unsigned, void *, const uint64_t *, const uint64_t *, const unsigned *,          \
     const unsigned *, int, int, int, int))                                                        \
  X(streamCreate, "cuStreamCreate", (Stream *, unsigned))                                          \
  X(streamDestroy, "cuStreamDestroy_v2", (Stream))                                                 \
  X(streamSynchronize, "cuStreamSynchronize", (Stream))                                            \
  X(streamIsCapturing, "cuStreamIsCapturing", (Stream, int *))                                     \
  X(streamWaitEvent, "cuStreamWaitEvent", (Stream, EventHandle, unsigned))                         \
  X(streamBatchMemOp, "cuStreamBatchMemOp_v2", (Stream, unsigned, StreamWrite *, unsigned))        \
  X(eventCreate, "cuEventCreate", (EventHandle *, unsigned))                                       \
  X(eventDestroy, "cuEventDestroy_v2", (EventHandle))                                              \
  X(eventRecord, "cuEventRecord", (EventHandle, Stream))                                           \
  X(eventSynchronize, "cuEventSynchronize", (EventHandle))                                         \
  X(eventElapsedTime, "cuEventElapsedTime", (float *, EventHandle, EventHandle))                   \
  X(getErrorName, "cuGetErrorName", (Result, const char **))                                       \
  X(getErrorString, "cuGetErrorString", (Result, const char **))

/// The same, of later drivers: null where the driver has none.
#define MLAC_CUDA_LATER_FUNCTIONS(X)                                                               \
  X(funcGetParamInfo, "cuFuncGetParamInfo", (Function, size_t, size_t *, size_t *)) /* 12.4 */

struct Driver {
#define MLAC_DECLARE(member, symbol, arguments) Result(*member) arguments;
  MLAC_CUDA_FUNCTIONS(MLAC_DECLARE)
  MLAC_CUDA_LATER_FUNCTIONS(MLAC_DECLARE)
#undef MLAC_DECLARE

  /// "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
  Status check(Result result, const char *call) const;
};

/// The process's driver, opened and initialised on first use. MLA_NO_DEVICE:
/// the library is missing, too old, or finds no driver.
Status openDriver(const Driver *&driver);

} // namespace mlac::runtime::cuda

#endif // MLAC_RUNTIME_CUDADRIVER_H
