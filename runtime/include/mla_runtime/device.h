/*===- mla_runtime/device.h - the CPU and GPUs, streams, events ---*- C -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===*/

#ifndef MLA_RUNTIME_DEVICE_H
#define MLA_RUNTIME_DEVICE_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opens "cpu", "cuda" (ordinal 0) or "cuda:N".
   threads: CPU only, workers of the pool (the calling thread waits); 0 means one
   per logical processor this process may use. 0 for CUDA.
   MLA_NO_DEVICE says whether the driver library, the driver or the device is
   missing. The CUDA device's primary context is used, as by the CUDA runtime
   and by PyTorch. */
MLA_API mla_status mla_device_open(const char *name, int32_t threads, mla_device **device);
MLA_API mla_status mla_device_close(mla_device *device);

/* { "kind": "cpu"|"cuda", "name", "arch" ("x86-64-v4", "sm_90"), "num_sms"
     (multiprocessors, or CPU threads), "memory_bytes", "driver_version",
     "clock_khz", "memory_clock_khz", "memory_bus_bits" (CUDA) } as JSON text that
   lives until the device is closed. */
MLA_API mla_status mla_device_info(mla_device *device, const char **json);

/* 1 if the device is a CUDA device, 0 if it is the CPU, -1 if it is no device. */
MLA_API int mla_device_is_cuda(mla_device *device);

/* Device memory of `bytes` (> 0), aligned to 256 bytes; content undefined.
   Freed by mla_device_free only; a null pointer may be freed. */
MLA_API mla_status mla_device_malloc(mla_device *device, size_t bytes, void **data);
MLA_API mla_status mla_device_free(mla_device *device, void *data);

/* Synchronous copies between host and device; they wait for the whole device
   first, so they are ordered after every stream's earlier work. */
MLA_API mla_status mla_device_upload(mla_device *device, void *device_data, const void *host_data,
                                     size_t bytes);
MLA_API mla_status mla_device_download(mla_device *device, void *host_data, const void *device_data,
                                       size_t bytes);

/* Stream-ordered copy and fill inside device memory (bench: bandwidth). */
MLA_API mla_status mla_device_copy_async(mla_device *device, void *to, const void *from,
                                         size_t bytes, mla_stream *stream);
MLA_API mla_status mla_device_fill_async(mla_device *device, void *data, uint8_t value,
                                         size_t bytes, mla_stream *stream);

/* Waits for all work on the device. */
MLA_API mla_status mla_device_synchronize(mla_device *device);

/* Streams. On CUDA an `mla_stream *` IS a CUstream/cudaStream_t (this one type
   is not a checked id), so a caller passes its own streams; NULL is the default
   stream. On the CPU every call is complete when it returns and the stream must
   be NULL; mla_stream_create returns NULL there. */
MLA_API mla_status mla_stream_create(mla_device *device, mla_stream **stream);
MLA_API mla_status mla_stream_destroy(mla_device *device, mla_stream *stream);
MLA_API mla_status mla_stream_synchronize(mla_device *device, mla_stream *stream);

/* Events measure time on a stream (wall-clock time on the CPU).
   elapsed: milliseconds between two recorded events; waits for both.
   MLA_WRONG_STATE: an event has not been recorded. */
MLA_API mla_status mla_event_create(mla_device *device, mla_event **event);
MLA_API mla_status mla_event_destroy(mla_event *event);
MLA_API mla_status mla_event_record(mla_event *event, mla_stream *stream);
MLA_API mla_status mla_event_elapsed(mla_event *begin, mla_event *end, double *milliseconds);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MLA_RUNTIME_DEVICE_H */
