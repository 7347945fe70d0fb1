/*===- mla_runtime/operation.h - what a running library tells -----*- C -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===*/

#ifndef MLA_RUNTIME_OPERATION_H
#define MLA_RUNTIME_OPERATION_H

#include "mla_runtime/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mla_log_level {
  MLA_LOG_OFF = 0,
  /* Calls that fail: name, status, message. A full page pool is no failure. */
  MLA_LOG_ERRORS = 1,
  /* Every call: name, microseconds, status. */
  MLA_LOG_CALLS = 2,
  /* And what each planned step is: function, requests, tokens, keys, launches. */
  MLA_LOG_STEPS = 3
} mla_log_level;

/* One message, of a line without its end; `message` lives during the call only. It is called
   under locks of the library and by several threads at a time: it must call nothing here. */
typedef void (*mla_log_function)(void *user, mla_log_level level, const char *message);

/* Logs up to `level` to `function`, or where it is null to where the environment says:

     MLAC_LOG       off (default), errors, calls or steps: the level until this is called
     MLAC_LOG_FILE  a file to append to, %p being the process id (default: standard error)

   Off costs a load and a branch in each call. MLA_INVALID_ARGUMENT: no such level. */
MLA_API mla_status mla_set_log(mla_log_level level, mla_log_function function, void *user);

/* Counters of this process since the library was loaded, in the text format of Prometheus
   (version 0.0.4): steps, requests and tokens planned by function, layers run, calls failed by
   status, and the pages of every open engine's pools. *text lives until the thread's next call of
   this function. */
MLA_API mla_status mla_metrics(const char **text);

/* The flight recorder. Where the environment variable MLAC_RECORD names a file (%p being the
   process id) when the first layer runs, every mla_step_run and mla_step_run_bound first copies
   what the layer reads (inputs, metadata, weights, the pages that tables and slots name) to the
   host, and waits for the device. If the run or the device fails, or an output has a NaN, the copy
   and the outputs become that file, which so is of the last failing step. Slow by those copies: for
   finding a fault, not for serving. Captured runs are not recorded.

   Runs such a step again, alone, with the package of the recording; needs as much device
   memory as one layer's pools. *json lives until the thread's next call of this function:
     { "function", "layer", "target", "reason": why it was recorded,
       "launches": [{"kernel", "grid", "nan": in what it may have written, zeros before}],
       "outputs": [{"name", "elements", "nan",
                    "different": from the recorded ones; null: none were recorded}] }
   Sizes and pages of the file are checked, other metadata is the kernels' to read: replay
   only recordings of programs that you trust.
   MLA_NOT_FOUND, MLA_CORRUPT: no file, or one that lacks something. MLA_INVALID_ARGUMENT:
   recorded with another package. MLA_UNSUPPORTED: recorded by another version of the
   library, or for a target that the device does not run. */
MLA_API mla_status mla_step_replay(mla_package *package, mla_device *device, const char *path,
                                   const char **json);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MLA_RUNTIME_OPERATION_H */
