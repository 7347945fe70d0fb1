//===- WriteWeights.cpp - what a graph is taken apart into ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Driver/WriteWeights.h"

#include "mla/Package/PackageFile.h"

#include "llvm/ADT/STLExtras.h"
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

namespace {
/// A file in the making: its header, and the data behind it.
struct Tensors {
  json::Object header;
  std::string data;
};
} // namespace

static llvm::Error addWeight(const TorchArchive &archive, const RaisedWeight &weight,
                             const std::string &name, Tensors &file) {
  const TorchWeight &stored = archive.weights().find(weight.source)->second;
  StringRef type = getTypeName(stored.dtype);
  if (type.empty())
    return llvm::createStringError("weight '" + llvm::Twine(weight.source) +
                                   "' has torch's dtype " + llvm::Twine(stored.dtype) +
                                   ", expected float32, float16 or bfloat16");
  llvm::Expected<std::string> bytes = archive.readWeight(weight.source);
  if (!bytes)
    return bytes.takeError();
  auto begin = static_cast<int64_t>(file.data.size());
  std::vector<int64_t> shape = stored.shape;
  StringRef part = *bytes;
  if (weight.rows > 0) {
    size_t row = bytes->size() / static_cast<size_t>(shape[0]);
    part = part.substr(row * weight.firstRow, row * weight.rows);
    shape[0] = weight.rows;
  }
  file.data += part;
  file.header[name] =
      json::Object{{"dtype", type},
                   {"shape", json::Array(shape)},
                   {"data_offsets", json::Array{begin, static_cast<int64_t>(file.data.size())}}};
  return llvm::Error::success();
}

/// An error names the option, since its place is the archive.
static llvm::Error writeFile(StringRef option, StringRef path, llvm::ArrayRef<uint8_t> bytes) {
  llvm::Error error = writeFileAtomically(path, bytes);
  if (!error)
    return error;
  return llvm::createStringError("--" + option + ": " + llvm::toString(std::move(error)));
}

llvm::Error mlac::writeWeights(const TorchArchive &archive, const RaisedLayer &layer,
                               StringRef config, StringRef path) {
  Tensors tensors;
  tensors.header["__metadata__"] = json::Object{{"config", config}};
  for (auto [index, region] : llvm::enumerate(layer.regions)) {
    std::string prefix = layer.regions.size() > 1 ? "layers." + std::to_string(index) + "." : "";
    for (const RaisedWeight &weight : region.weights)
      if (llvm::Error error =
              addWeight(archive, weight, prefix + "self_attn." + weight.name, tensors))
        return error;
  }
  std::string text = llvm::formatv("{0}", json::Value(std::move(tensors.header)));
  text.resize(llvm::alignTo(text.size(), sizeof(uint64_t)), ' '); // tensors are aligned
  std::vector<uint8_t> file(sizeof(uint64_t));
  llvm::support::endian::write64le(file.data(), text.size());
  file.insert(file.end(), text.begin(), text.end());
  file.insert(file.end(), tensors.data.begin(), tensors.data.end());
  return writeFile("write-weights", path, file);
}

static llvm::Error writeJson(StringRef option, StringRef path, json::Object object) {
  std::string text = llvm::formatv("{0:2}\n", json::Value(std::move(object)));
  return writeFile(option, path, {reinterpret_cast<const uint8_t *>(text.data()), text.size()});
}

llvm::Error mlac::writeRegions(const RaisedLayer &layer, StringRef path) {
  json::Array regions, left;
  for (const RaisedRegion &region : layer.regions) {
    json::Object weights;
    for (const RaisedWeight &weight : region.weights)
      weights[weight.name] =
          weight.rows == 0
              ? json::Value(weight.source)
              : json::Value(json::Object{
                    {"weight", weight.source},
                    {"rows", json::Array{weight.firstRow, weight.firstRow + weight.rows}}});
    regions.push_back(json::Object{{"module", region.module},
                                   {"input", region.input},
                                   {"output", region.output},
                                   {"weights", std::move(weights)}});
  }
  for (const LeftNode &each : layer.left)
    left.push_back(json::Object{{"node", each.node}, {"reason", each.reason}});
  return writeJson("partial", path,
                   json::Object{{"regions", std::move(regions)}, {"left", std::move(left)}});
}

llvm::Error mlac::writeInputs(const RaisedLayer &layer, StringRef path) {
  json::Array masks, tables;
  for (const RaisedMask &mask : layer.masks)
    masks.push_back(json::Object{{"mask", mask.input},
                                 {"node", mask.node},
                                 {"module", mask.module},
                                 {"window", mask.window}});
  for (const RaisedTables &each : layer.tables)
    tables.push_back(
        json::Object{{"cos", each.cos},
                     {"sin", each.sin},
                     {"node", each.node},
                     {"module", each.module},
                     {"multiplier", each.expected.multiplier},
                     {"frequencies", json::Array(each.expected.inverseFrequencies)},
                     {"long_frequencies", json::Array(each.expected.longInverseFrequencies)}});
  return writeJson("mask-inputs", path,
                   json::Object{{"masks", std::move(masks)}, {"tables", std::move(tables)}});
}

/// The name alone, or with the number of a result.
static json::Value describe(const GraphValue &value) {
  if (value.result < 0)
    return value.name;
  return json::Object{{"node", value.name}, {"result", value.result}};
}

static json::Value describe(const QueryAndKey &operands) {
  return json::Object{{"query", describe(operands.query)},
                      {"key", describe(operands.key)},
                      {"key_is_transposed", operands.isKeyTransposed},
                      {"group", operands.group}};
}

/// Null: [batch, heads, tokens, channels].
static json::Value describe(const HeadDims &dims) {
  if (dims.empty())
    return nullptr;
  json::Array described;
  for (const std::vector<int64_t> &dim : dims) {
    json::Array factors;
    for (int64_t factor : dim)
      factors.push_back(factor == kBatchFactor    ? json::Value("batch")
                        : factor == kTokensFactor ? json::Value("tokens")
                                                  : json::Value(factor));
    described.push_back(std::move(factors));
  }
  return described;
}

static json::Value describe(const std::optional<RopeInfo> &rope) {
  if (!rope)
    return nullptr;
  std::optional<double> theta = findTheta(*rope);
  return json::Object{{"order", rope->pairing == RopePairing::Half ? "half" : "interleaved"},
                      {"first", rope->first},
                      {"dim", rope->width},
                      {"multiplier", rope->multiplier},
                      {"frequencies", json::Array(rope->frequencies)},
                      {"theta", theta ? json::Value(*theta) : json::Value(nullptr)}};
}

static json::Value describe(const std::optional<GraphTables> &tables) {
  if (!tables)
    return nullptr;
  return json::Object{{"cos", describe(tables->cos)},
                      {"sin", describe(tables->sin)},
                      {"repeated", tables->areRepeated}};
}

static json::Value describe(const std::optional<CachedLatents> &latents) {
  if (!latents)
    return nullptr;
  auto operands = [](const GraphValue &query, const GraphValue &key) {
    return json::Object{{"query", describe(query)}, {"key", describe(key)}};
  };
  return json::Object{{"latent", describe(latents->latent)},
                      {"operands", operands(latents->query, latents->key)},
                      {"turned", operands(latents->turnedQuery, latents->turnedKey)},
                      {"weight", latents->weight},
                      {"tables", describe(latents->tables)}};
}

static json::Value describe(const std::optional<LatentInfo> &latents) {
  if (!latents)
    return nullptr;
  return json::Object{{"rank", latents->rank},
                      {"rope_first", latents->first},
                      {"rope_dim", latents->width},
                      {"rope", describe(latents->rope)}};
}

llvm::Error mlac::writeCachedGraph(const CachedGraph &graph, StringRef path) {
  json::Array nodes, kinds;
  for (const CachedNode &node : graph.nodes)
    nodes.push_back(json::Object{{"node", node.node},
                                 {"module", node.module},
                                 {"operands", describe(node.operands)},
                                 {"turned", describe(node.turned)},
                                 {"value", describe(node.value)},
                                 {"dims", json::Object{{"query", describe(node.queryDims)},
                                                       {"key", describe(node.keyDims)},
                                                       {"value", describe(node.valueDims)},
                                                       {"result", describe(node.resultDims)}}},
                                 {"group", node.group},
                                 {"mask", node.mask},
                                 {"sinks", node.sinks},
                                 {"tables", describe(node.tables)},
                                 {"latents", describe(node.latents)},
                                 {"kind", static_cast<int64_t>(node.kind)}});
  for (auto [index, info] : llvm::enumerate(graph.kinds))
    kinds.push_back(json::Object{{"step", getStepName(index, /*isDecode=*/false)},
                                 {"decode", getStepName(index, /*isDecode=*/true)},
                                 {"num_heads", info.heads},
                                 {"num_kv_heads", info.kvHeads},
                                 {"head_dim", info.keyDim},
                                 {"value_dim", info.valueDim},
                                 {"window", info.window},
                                 {"scale", info.scale},
                                 {"softcap", info.softcap},
                                 {"rope", describe(info.rope)},
                                 {"latents", describe(info.latents)}});
  return writeJson("cached", path,
                   json::Object{{"attention", std::move(nodes)}, {"kinds", std::move(kinds)}});
}
