//===- WriteWeights.cpp - an archive's weights as safetensors ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Driver/WriteWeights.h"

#include "mla/Package/PackageFile.h"

#include "llvm/ADT/Twine.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace mlac;
using llvm::StringRef;
namespace json = llvm::json;

/// What safetensors calls a torch ScalarType; empty for those that no layer is bound in.
static StringRef getTypeName(int64_t dtype) {
  switch (dtype) {
  case 6:
    return "F16";
  case 7:
    return "F32";
  case 13:
    return "BF16";
  default:
    return "";
  }
}

llvm::Error mlac::writeWeights(const TorchArchive &archive, llvm::ArrayRef<RaisedWeight> weights,
                               StringRef config, StringRef path) {
  json::Object header{{"__metadata__", json::Object{{"config", config}}}};
  std::string data;
  for (const RaisedWeight &weight : weights) {
    const TorchWeight &stored = archive.weights().find(weight.source)->second;
    StringRef type = getTypeName(stored.dtype);
    if (type.empty())
      return llvm::createStringError("weight '" + llvm::Twine(weight.source) +
                                     "' has torch's dtype " + llvm::Twine(stored.dtype) +
                                     ", expected float32, float16 or bfloat16");
    llvm::Expected<std::string> bytes = archive.readWeight(weight.source);
    if (!bytes)
      return bytes.takeError();
    auto begin = static_cast<int64_t>(data.size());
    data += *bytes;
    header["self_attn." + weight.name] =
        json::Object{{"dtype", type},
                     {"shape", json::Array(stored.shape)},
                     {"data_offsets", json::Array{begin, static_cast<int64_t>(data.size())}}};
  }
  std::string text = llvm::formatv("{0}", json::Value(std::move(header)));
  text.resize(llvm::alignTo(text.size(), sizeof(uint64_t)), ' '); // tensors are aligned
  std::vector<uint8_t> file(sizeof(uint64_t));
  llvm::support::endian::write64le(file.data(), text.size());
  file.insert(file.end(), text.begin(), text.end());
  file.insert(file.end(), data.begin(), data.end());
  return writeFileAtomically(path, file);
}
