/*===- mla_runtime/base.h - status, types, handles ----------------*- C -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===*/

#ifndef MLA_RUNTIME_BASE_H
#define MLA_RUNTIME_BASE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define MLA_API __attribute__((visibility("default")))
#else
#define MLA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mla_status {
  MLA_OK = 0,
  /* The caller passed something wrong (null, stale, misaligned, out of range):
     the caller fixes the call. */
  MLA_INVALID_ARGUMENT = 1,
  /* Not an error: the page pool cannot hold the new tokens now. Frequent and
     cheap (no message is formatted). Free or truncate sequences, then retry. */
  MLA_OUT_OF_PAGES = 2,
  /* A file, function, tensor or target that was named does not exist: the caller
     (or who deployed the files). */
  MLA_NOT_FOUND = 3,
  /* A package or safetensors file is truncated, damaged or inconsistent: who made
     or copied the file. */
  MLA_CORRUPT = 4,
  /* Well-formed, but not for this machine or this version (another architecture,
     missing CPU features, newer schema): compile for this target or upgrade. */
  MLA_UNSUPPORTED = 5,
  /* No GPU, no driver, or a driver that is too old: the operator of the machine. */
  MLA_NO_DEVICE = 6,
  /* The device reported a failure during a call; after a CUDA fault the context
     is lost: the operator, or us if it repeats on another machine. */
  MLA_DEVICE_ERROR = 7,
  /* Host or device memory is exhausted: smaller maxima or a larger machine. */
  MLA_OUT_OF_MEMORY = 8,
  /* The call is right but comes at the wrong time (weights not bound, engine not
     prepared, plan not filled): the caller reorders its calls. */
  MLA_WRONG_STATE = 9,
  /* A bug of the runtime: report it to us. */
  MLA_INTERNAL = 10
} mla_status;

/* The name of a code ("MLA_OUT_OF_PAGES"); static storage, never null. */
MLA_API const char *mla_status_name(mla_status status);

/* The message of this thread's last failed call ("" before the first). Valid
   until the thread's next failing call. */
MLA_API const char *mla_last_error(void);

/* "major.minor.patch" of the library; static storage. */
MLA_API const char *mla_runtime_version(void);

typedef enum mla_dtype {
  MLA_BF16 = 0,
  MLA_F16 = 1,
  MLA_F32 = 2,
  MLA_E4M3 = 3,
  MLA_I32 = 4,
  MLA_I64 = 5,
  MLA_U8 = 6
} mla_dtype;

/* Opaque. The values are checked ids, not addresses: never dereference them. */
typedef struct mla_package mla_package;
typedef struct mla_device mla_device;
typedef struct mla_engine mla_engine;
typedef struct mla_plan mla_plan;
typedef struct mla_cache mla_cache;
typedef struct mla_table mla_table;
typedef struct mla_swap mla_swap;
typedef struct mla_checkpoint mla_checkpoint;
typedef struct mla_stream mla_stream;
typedef struct mla_event mla_event;

/* A sequence of one engine. 0 is never a sequence. Ids of freed sequences and of
   other engines are refused. */
typedef uint64_t mla_sequence;

/* Alignment in bytes of every pointer to device data that a caller passes. */
#define MLA_DATA_ALIGNMENT 16

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MLA_RUNTIME_BASE_H */
