//===- StepRecording.h - the flight recorder of steps -----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// MLAC_RECORD names a file (%p: the process id). Every run of a layer then copies what it is
// about to read to the host, launches, waits, and looks at what it gave; the copy becomes
// that file if the run failed, if the device did, or if an output is not finite. The copy comes
// first because a device that has failed gives nothing back. So the file is of the last
// failing step, and StepReplay.h runs it again, alone.
//
//   dims              I64 [slots]          sizes of the step
//   buffer/I          U8  [bytes]          buffer I of the function, but for
//   pool/P/pages      I32 [n]              the pages of pool P that tables and slots name,
//   pool/P/bytes      U8  [n, stride]      and what they held
//   output/I          U8  [bytes]          after the run, if it could be read
//   __metadata__      version, package, target, function, layer, reason
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_STEPRECORDING_H
#define MLAC_RUNTIME_STEPRECORDING_H

#include "engine/StepRunner.h"

#include <map>

namespace mlac::runtime {

/// Whether the environment asks for recordings; a load.
bool isRecording();

/// "buffer/3" and the like, also for who reads the file.
std::string recordedName(std::string_view what, size_t index);
/// The package's pages of a pool as a metadata array names them: their size in bytes and the
/// tokens that one slot's page has.
std::optional<size_t> findTablePool(const BufferInfo &buffer, size_t numPools, bool &isSlots);
/// How many elements of a float type are neither numbers nor, unless asked for, infinite.
int64_t countBad(mla_dtype dtype, const uint8_t *data, size_t bytes, bool isInfinityBad);
bool hasNumbers(mla_dtype dtype);

class StepRecording {
public:
  /// Copies what the runner's bound step reads. An error leaves the step as it is.
  Status take(Engine &engine, const StepRunner &runner, const DimValues &dims, int64_t layer,
              mla_stream *stream);
  /// Behind the launches: `ran`, or what the device says of them. Writes the file where there
  /// is a reason to.
  Status finish(Status ran);

private:
  struct Tensor {
    const char *dtype;
    std::vector<int64_t> shape;
    std::vector<uint8_t> bytes;
  };

  Status add(std::string name, const void *device, int64_t bytes);
  Status addBuffer(size_t index);
  Status addPool(size_t pool);
  std::vector<int32_t> listPages(size_t pool) const;
  int64_t bytesOf(size_t index) const;
  /// Copies the outputs, and says which is not finite.
  Status readOutputs(std::string &reason);
  void write(const std::string &reason) const;

  Engine *engine = nullptr;
  const StepRunner *runner = nullptr;
  DimValues dims{};
  int64_t layer = 0;
  mla_stream *stream = nullptr;
  std::map<std::string, Tensor> tensors;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_STEPRECORDING_H
