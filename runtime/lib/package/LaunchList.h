//===- LaunchList.h - the launches of one planned step ----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Interprets a function of a package for given sizes: loops and branches are
// unrolled, expressions evaluated, and what is left is a flat list that
// mla_step_run walks without deciding anything.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_LAUNCHLIST_H
#define MLAC_RUNTIME_LAUNCHLIST_H

#include "package/Package.h"
#include "package/TensorMaps.h"

namespace mlac::runtime {

/// What streams wait for ahead of a launch. `Marks` names the point of the step's stream that
/// `Forks` lets the side stream wait for; with `Joins` the step's stream waits for the side stream.
enum LaunchSync : uint8_t { kNoSync = 0, kMarks = 1, kForks = 2, kJoins = 4 };

struct Launch {
  uint32_t kernel;
  uint32_t firstArg, numArgs; // into LaunchList::args
  uint32_t firstMap, numMaps; // into LaunchList::maps
  std::array<int64_t, 3> grid;
  const flatbuffers::String *label; // may be null
  bool isDependent;                 // may begin before the launch before has ended
  bool isSide = false;              // on the side stream
  uint8_t sync = kNoSync;           // LaunchSync
};

/// An argument slot that holds the address of a buffer.
struct BufferSlot {
  uint32_t arg;    // into LaunchList::args
  uint32_t buffer; // into FunctionInfo::buffers
};

/// What a buffer of the function comes to for these sizes.
struct BufferExtent {
  int64_t byteOffset; // Workspace only; negative: unused by this step
  int64_t bytes;      // that the step may touch; 0: not stated
};

struct LaunchList {
  std::vector<Launch> launches;
  /// 64-bit slots: an int64, the bits of an f32, or (see slots) an address.
  std::vector<uint64_t> args;
  std::vector<BufferSlot> slots;
  std::vector<TensorMap> maps;
  std::vector<BufferExtent> extents; // parallel to FunctionInfo::buffers
  int64_t workspaceBytes = 0;
  bool hasSide = false;    // some launches are on the side stream
  bool joinsAtEnd = false; // the step's stream waits for it behind the last launch

  void clear();
};

/// Fills `list`. Errors: an expression is undefined or out of range, a grid is
/// negative, or the plan comes to an absurd number of launches.
Status resolveLaunches(const FunctionInfo &function, const DimValues &dims, LaunchList &list);

/// Only the size of the workspace, for allocating it.
Status resolveWorkspace(const FunctionInfo &function, const DimValues &dims, int64_t &bytes);

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_LAUNCHLIST_H
