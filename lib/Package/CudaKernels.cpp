//===- CudaKernels.cpp - kernels of a GPU in a package ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Package/CudaKernels.h"

#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace mlac;

/// Attributes that convert-sm90-to-nvvm leaves on a kernel.
static constexpr StringRef kThreadsAttr = "mlac.threads", kSharedBytesAttr = "mlac.shared_bytes",
                           kTensorMapsAttr = "mlac.tensor_maps";

static FailureOr<int64_t> getLaunchAttr(Operation *function, StringRef name) {
  if (auto value = function->getAttrOfType<IntegerAttr>(name))
    return value.getInt();
  return function->emitError("kernel '") << SymbolTable::getSymbolName(function).getValue()
                                         << "' has no attribute '" << name << "'";
}

//===----------------------------------------------------------------------===//
// Tensor maps
//===----------------------------------------------------------------------===//

/// [factor, index of a kernel argument or -1].
static package::ScaledArg toScaledArg(Attribute number) {
  ArrayRef<int64_t> pair = cast<DenseI64ArrayAttr>(number).asArrayRef();
  return package::ScaledArg(pair[0], static_cast<int32_t>(pair[1]));
}

/// The launch encodes what convert-sm90-to-nvvm describes.
static std::unique_ptr<package::TensorMapT> toTensorMap(DictionaryAttr description) {
  auto map = std::make_unique<package::TensorMapT>();
  auto toList = [&](StringRef name) {
    std::vector<package::ScaledArg> list;
    for (Attribute number : cast<ArrayAttr>(description.get(name)))
      list.push_back(toScaledArg(number));
    return list;
  };
  map->argument = cast<IntegerAttr>(description.get("argument")).getInt();
  map->offset = std::make_unique<package::ScaledArg>(toScaledArg(description.get("offset")));
  map->sizes = toList("sizes");
  map->strides = toList("strides");
  for (int64_t extent : cast<DenseI64ArrayAttr>(description.get("box")).asArrayRef())
    map->box.push_back(static_cast<uint32_t>(extent));
  return map;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

LogicalResult mlac::addCudaKernel(ModuleOp nvvm, const CudaKernelCode &code,
                                  package::TargetT &target) {
  Operation *function = nvvm.lookupSymbol(code.name);
  if (!function)
    return nvvm.emitError("no function of the kernel '") << code.name << "'";
  FailureOr<int64_t> threads = getLaunchAttr(function, kThreadsAttr);
  FailureOr<int64_t> sharedBytes = getLaunchAttr(function, kSharedBytesAttr);
  if (failed(threads) || failed(sharedBytes))
    return failure();
  auto object = std::make_unique<package::CodeObjectT>();
  object->name = code.name;
  object->bytes.assign(code.bytes.begin(), code.bytes.end());
  auto kernel = std::make_unique<package::KernelT>();
  kernel->name = kernel->symbol = code.name;
  kernel->code = target.code.size();
  kernel->threads = *threads;
  kernel->shared_bytes = *sharedBytes;
  kernel->registers = code.registers;
  if (auto maps = function->getAttrOfType<ArrayAttr>(kTensorMapsAttr))
    for (auto map : maps.getAsRange<DictionaryAttr>())
      kernel->tensor_maps.push_back(toTensorMap(map));
  target.code.push_back(std::move(object));
  target.kernels.push_back(std::move(kernel));
  return success();
}
