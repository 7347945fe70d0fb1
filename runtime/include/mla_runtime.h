/*===- mla_runtime.h - the C API of the mlac runtime --------------*- C -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Opens a package, loads its kernels on a device, owns the paged latent cache
// and runs the package's functions over it. Needs neither LLVM nor a CUDA
// toolkit; libcuda.so.1 is opened when a CUDA device is asked for.
//
// Objects, in the order in which a program makes them:
//
//   mla_package   one verified file; immutable.
//   mla_device    the CPU (a pool of worker threads) or one CUDA device.
//   mla_engine    package + device + maxima: loaded kernels, weights, the paged
//                 cache of every layer (or the caller's: mla_engine_bind_pool),
//                 workspaces. All device memory is allocated when it is made.
//   mla_sequence  one request's tokens in the cache: a block table and a length.
//   mla_plan      one step of a batch: metadata, sizes, resolved launches. It is
//                 made once and filled again for every step.
//   mla_cache     who has which page: an engine's, or one of its own without any
//                 package or device. Forks, prefixes, counters, snapshots.
//
// One step of a model with L layers:
//
//   mla_step_plan(plan, &batch, NULL, stream);         // host work, one upload
//   for (layer = 0; layer < L; ++layer)
//     mla_step_run(plan, layer, hidden, output, stream);  // launches only
//
// Words: `page` is the physical unit of the cache and `page_size` its tokens;
// context_len + query_len = seq_len; slot = page * page_size + offset. Tensors
// are row-major. "Host" memory is ordinary memory; "device" memory is host
// memory on a CPU device and CUDA memory on a CUDA device.
//
// Errors: a fallible function returns a status. mla_last_error() then says what
// was wrong, naming value and limit. A refused call changes nothing: neither the
// engine nor, unless said otherwise, what the out parameters point at.
//
// Handles are checked: a null, closed or foreign handle is MLA_INVALID_ARGUMENT
// and never a crash. An object keeps what it was made from alive, so a package
// may be closed as soon as its engine exists.
//
// Threads: every function may be called from any thread. Calls on one engine
// (its sequences and plans included) are serialised by a lock inside; steps that
// must overlap on one GPU use streams, not threads. mla_last_error() is per thread.
// Calls on one mla_cache that only read run side by side, others one at a time,
// and an engine's cache can be read while the engine runs a step. docs/runtime.md
// has the locks and their order.
//
// Memory: where the process runs out of it, any function returns
// MLA_OUT_OF_MEMORY; no exception leaves the library.
//
// What each function does: mla_runtime/, one header an idea; this one includes all.
//
//===----------------------------------------------------------------------===*/

#ifndef MLA_RUNTIME_H
#define MLA_RUNTIME_H

#include "mla_runtime/base.h"
#include "mla_runtime/cache.h"
#include "mla_runtime/cache_format.h"
#include "mla_runtime/device.h"
#include "mla_runtime/engine.h"
#include "mla_runtime/operation.h"
#include "mla_runtime/package.h"
#include "mla_runtime/sequence.h"
#include "mla_runtime/step.h"
#include "mla_runtime/swap.h"
#include "mla_runtime/table.h"
#include "mla_runtime/weights.h"

#endif /* MLA_RUNTIME_H */
