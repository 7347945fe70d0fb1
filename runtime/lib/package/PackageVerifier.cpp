//===- PackageVerifier.cpp - checks of a package ----------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "package/PackageVerifier.h"

#include "SchemaVersion.h"
#include "package/Checks.h"
#include "package/TensorMaps.h"

using namespace mlac::runtime;

static constexpr int64_t kMaxTensorElements = int64_t(1) << 40;
static constexpr int64_t kMaxRank = 4;
// 1024 threads: CUDA C++ Programming Guide, compute capabilities.
static constexpr int64_t kMaxThreads = 1024;
// The kernel ABI's limit; worker stacks are larger (ThreadPool.h).
static constexpr uint64_t kMaxScratchBytes = 4 << 20;

Status PackageVerifier::spend(int64_t parts) {
  numParts += parts;
  if (numParts <= kMaxParts)
    return Status();
  return error(MLA_CORRUPT, "the package has more than ", kMaxParts,
               " parts, counted as often as they are used");
}

Status PackageVerifier::checkVersion(const fb::Package &root) {
  if (root.schema_version() == kSchemaVersion)
    return Status();
  return error(MLA_UNSUPPORTED, "package has schema version ", root.schema_version(),
               ", this runtime reads ", kSchemaVersion);
}

Status PackageVerifier::run() {
  MLAC_RETURN_IF_ERROR(checkVersion(root));
  if (!root.model() || !root.rope())
    return error(MLA_CORRUPT, "package lacks its model or rope table");
  MLAC_RETURN_IF_ERROR(checkModel().in("model"));
  MLAC_RETURN_IF_ERROR(readPools());
  MLAC_RETURN_IF_ERROR(checkRope().in("rope"));
  MLAC_RETURN_IF_ERROR(readTensors(root.weights(), "weight", package.weights_, weights));
  MLAC_RETURN_IF_ERROR(readTensors(root.derived(), "derived tensor", package.derived_, derived));
  MLAC_RETURN_IF_ERROR(readWeightScales().in("weight_scales"));
  if (sizeOf(root.targets()) == 0)
    return error(MLA_CORRUPT, "package has no target");
  for (uint32_t i = 0; i < root.targets()->size(); ++i) {
    const fb::Target *raw = root.targets()->Get(i);
    TargetInfo target;
    MLAC_RETURN_IF_ERROR(readTarget(raw, target).in("target ", i, " '", text(raw->arch()), "'"));
    package.targets_.push_back(std::move(target));
  }
  return Status();
}

static Status readTensor(const fb::Tensor &raw, TensorInfo &tensor) {
  MLAC_RETURN_IF_ERROR(requireText("name", raw.name()));
  MLAC_RETURN_IF_ERROR(requireType("tensor", raw.dtype()));
  MLAC_RETURN_IF_ERROR(
      requireRange("rank", static_cast<int64_t>(sizeOf(raw.shape())), 1, kMaxRank));
  MLAC_RETURN_IF_ERROR(requireAligned("shape", raw.shape(), sizeof(int64_t)));
  tensor.name = text(raw.name());
  tensor.dtype = toType(raw.dtype());
  tensor.elements = 1;
  for (int64_t extent : *raw.shape()) {
    MLAC_RETURN_IF_ERROR(requireRange("extent", extent, 1, kMaxTensorElements));
    if (!checkedMul(tensor.elements, extent, tensor.elements) ||
        tensor.elements > kMaxTensorElements)
      return error(MLA_CORRUPT, "more than ", kMaxTensorElements, " elements");
    tensor.shape.push_back(extent);
  }
  return Status();
}

Status PackageVerifier::readTensors(const TensorTable *table, const char *what,
                                    std::vector<TensorInfo> &tensors, TensorIndices &indices) {
  for (uint32_t i = 0; i < sizeOf(table); ++i) {
    TensorInfo tensor;
    MLAC_RETURN_IF_ERROR(spend(partsOf(table->Get(i)->name())));
    MLAC_RETURN_IF_ERROR(readTensor(*table->Get(i), tensor)
                             .in(what, " ", i, " '", text(table->Get(i)->name()), "'"));
    if (!indices.emplace(text(table->Get(i)->name()), i).second)
      return error(MLA_CORRUPT, what, " '", tensor.name, "' is listed twice");
    tensors.push_back(std::move(tensor));
  }
  return Status();
}

Status PackageVerifier::readWeightScales() {
  const fb::WeightScales *raw = root.weight_scales();
  if (!raw)
    return Status();
  if (raw->codes() != fb::DataType::E4M3)
    return error(MLA_UNSUPPORTED, "codes are of type ", raw->codes(), ", this runtime reads e4m3");
  auto rows = static_cast<int64_t>(raw->rows()), columns = static_cast<int64_t>(raw->columns());
  MLAC_RETURN_IF_ERROR(requireRange("rows", rows, 0, kMaxModelDim));
  MLAC_RETURN_IF_ERROR(requireRange("columns", columns, 0, kMaxModelDim));
  package.weightScales_ = ScaleBlock{rows, columns};
  return Status();
}

Status PackageVerifier::readTarget(const fb::Target *raw, TargetInfo &target) {
  if (raw->kind() > fb::TargetKind::Cuda)
    return error(MLA_CORRUPT, "unknown kind ", raw->kind());
  MLAC_RETURN_IF_ERROR(requireText("arch", raw->arch()));
  MLAC_RETURN_IF_ERROR(checkLength("features", raw->features()));
  MLAC_RETURN_IF_ERROR(checkLength("assembler", raw->assembler()));
  MLAC_RETURN_IF_ERROR(checkKernels(*raw));
  target.raw = raw;
  if (sizeOf(raw->functions()) == 0)
    return error(MLA_CORRUPT, "has no function");
  for (const fb::Function *rawFunction : *raw->functions()) {
    FunctionInfo function;
    MLAC_RETURN_IF_ERROR(
        readFunction(*raw, rawFunction, function).in("function '", text(rawFunction->name()), "'"));
    if (target.find(function.name))
      return error(MLA_CORRUPT, "function '", function.name, "' is listed twice");
    target.functions.push_back(std::move(function));
  }
  return Status();
}

static Status checkKernel(const fb::Target &target, const fb::Kernel &kernel) {
  MLAC_RETURN_IF_ERROR(requireText("symbol", kernel.symbol()));
  MLAC_RETURN_IF_ERROR(checkLength("name", kernel.name()));
  if (kernel.code() >= sizeOf(target.code()))
    return error(MLA_CORRUPT, "code object ", kernel.code(), " of ", sizeOf(target.code()));
  if (target.kind() == fb::TargetKind::Cuda) {
    MLAC_RETURN_IF_ERROR(requireRange("threads", kernel.threads(), 1, kMaxThreads));
    return verifyTensorMaps(kernel);
  }
  if (sizeOf(kernel.tensor_maps()) > 0)
    return error(MLA_CORRUPT, "has tensor maps on a CPU");
  if (kernel.scratch_bytes() > kMaxScratchBytes)
    return error(MLA_CORRUPT, "scratch_bytes is ", kernel.scratch_bytes(), ", limit ",
                 kMaxScratchBytes);
  return Status();
}

Status PackageVerifier::checkKernels(const fb::Target &target) {
  for (uint32_t i = 0; i < sizeOf(target.code()); ++i)
    if (sizeOf(target.code()->Get(i)->bytes()) == 0)
      return error(MLA_CORRUPT, "code object ", i, " is empty");
  for (uint32_t i = 0; i < sizeOf(target.kernels()); ++i) {
    const fb::Kernel &kernel = *target.kernels()->Get(i);
    MLAC_RETURN_IF_ERROR(spend(partsOf(kernel.name()) + partsOf(kernel.symbol()) +
                               static_cast<int64_t>(sizeOf(kernel.tensor_maps()))));
    MLAC_RETURN_IF_ERROR(
        checkKernel(target, kernel).in("kernel ", i, " '", text(kernel.name()), "'"));
  }
  return Status();
}
