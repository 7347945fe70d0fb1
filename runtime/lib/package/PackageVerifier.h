//===- PackageVerifier.h - checks of a package ------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks what the FlatBuffers verifier cannot: required fields, enum values,
// indices, sizes and agreement between the parts of a package. Every message
// names the place ("target 0 'sm_90a', function 'decode', buffer 3").
// CheckLists, CheckModel and CheckFunction have the other members, CheckWork and
// CheckSteps what a function consists of.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_PACKAGEVERIFIER_H
#define MLAC_RUNTIME_PACKAGEVERIFIER_H

#include "package/Package.h"

#include <unordered_map>

namespace mlac::runtime {

class PackageVerifier {
public:
  /// Fills the package's resolved tables from its root.
  explicit PackageVerifier(Package &package) : package(package), root(*package.root_) {}

  Status run();

  /// Whether this runtime knows the schema.
  static Status checkVersion(const fb::Package &root);

  /// Bounds what the FlatBuffers verifier will look at: it reads a list of names again
  /// for every reference to its owner. Of bytes that may be damaged.
  static Status checkLists(const uint8_t *bytes, size_t size);

private:
  Status checkModel();
  Status readPools();
  Status readPool(const fb::Pool &raw, PoolInfo &pool);
  Status checkRope();
  using TensorTable = flatbuffers::Vector<flatbuffers::Offset<fb::Tensor>>;
  using TensorIndices = std::unordered_map<std::string_view, int64_t>;
  Status readTensors(const TensorTable *table, const char *what, std::vector<TensorInfo> &tensors,
                     TensorIndices &indices);
  Status readWeightScales();
  Status readTarget(const fb::Target *raw, TargetInfo &target);
  Status checkKernels(const fb::Target &target);
  Status readFunction(const fb::Target &target, const fb::Function *raw, FunctionInfo &function);
  Status readBuffer(const fb::Buffer *raw, const FunctionInfo &function, BufferInfo &buffer);
  Status resolveBuffer(const fb::Buffer &raw, BufferInfo &buffer);
  Status resolvePool(BufferInfo &buffer) const;
  Status readDims(const fb::Function &raw, std::vector<Dim> &dims) const;
  /// Counts parts of the package, as often as they are reached.
  Status spend(int64_t parts);

  Package &package;
  const fb::Package &root;
  TensorIndices weights, derived; // by the file's names
  int64_t numParts = 0;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_PACKAGEVERIFIER_H
