//===- Session.cpp - a package on a device, and one step of a batch ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Session.h"

#include "Functions.h"
#include "LayerKind.h"
#include "Printable.h"

#include <cmath>
#include <limits>
#include <numeric>

using namespace mlac::run;
using nlohmann::json;

Session::Session(const Arguments &arguments, const std::string &deviceName, int32_t threads) {
  openSeconds = timeWork([&] { package = openLayer(arguments); });
  check(mla_device_open(deviceName.c_str(), threads, device.out()), "opening the device");
  info = readInfo(package);
  const char *text = nullptr;
  check(mla_device_info(device.get(), &text), "asking the device");
  deviceInfo = json::parse(text);

  const json &model = info.at("model"), &cache = info.at("pools").at(0);
  activation = parseType(model.at("activation_dtype"));
  if (const json &scales = info.at("weight_scales"); !scales.is_null())
    weightBlock = scales.at("block").get<std::vector<int64_t>>();
  hidden = model.at("hidden_size");
  heads = model.at("num_heads");
  ranks = model.at("tensor_parallel");
  pageSize = cache.at("page_size");
  cacheFormat = cache.at("format");
  mla_cache_layout_init(&this->cache, cacheFormat.c_str()); // the name is set where it is used
  this->cache.dtype = activation;
  this->cache.page_size = 1;
  rowWidth = 0;
  for (int64_t &columns : this->cache.columns)
    columns = 0;
  for (size_t i = 0; i < cache.at("fields").size(); ++i) {
    const json &field = cache.at("fields").at(i);
    this->cache.columns[i] = field.at("heads").get<int64_t>() * field.at("columns").get<int64_t>();
    rowWidth += this->cache.columns[i];
  }
  auto elements = static_cast<int64_t>(elementBytes(activation));
  isCacheQuantized = cache.at("row_bytes").get<int64_t>() < rowWidth * elements;
  auto options = info.at("options").get<std::string>();
  quantisesActivations = options.find("--keep-codes=both") != std::string::npos;
  requantisesAbsorbed = options.find("--absorbed=codes") != std::string::npos;
}

std::vector<uint8_t> mlac::run::encodeRows(const Session &session, const std::vector<float> &rows) {
  mla_cache_layout layout = session.cache;
  layout.format = session.cacheFormat.c_str();
  layout.num_pages = static_cast<int64_t>(rows.size()) / session.rowWidth; // of one row each
  std::vector<uint8_t> plain = encode(rows, session.activation);
  std::vector<uint8_t> bytes(layout.num_pages *
                             session.info.at("pools").at(0).at("row_bytes").get<int64_t>());
  check(mla_cache_encode(&layout, plain.data(), layout.num_pages, nullptr, bytes.data(),
                         bytes.size()),
        "encoding cache rows");
  return bytes;
}

std::vector<float> mlac::run::decodeRows(const Session &session,
                                         const std::vector<uint8_t> &bytes) {
  mla_cache_layout layout = session.cache;
  layout.format = session.cacheFormat.c_str();
  layout.num_pages = static_cast<int64_t>(bytes.size()) /
                     session.info.at("pools").at(0).at("row_bytes").get<int64_t>();
  std::vector<uint8_t> plain(layout.num_pages * session.rowWidth *
                             elementBytes(session.activation));
  check(mla_cache_decode(&layout, bytes.data(), bytes.size(), layout.num_pages, nullptr,
                         plain.data()),
        "decoding cache rows");
  return decode(plain, session.activation);
}

std::string Session::describe() const {
  return printable(info.at("model").at("model_type").get<std::string>()) + ", " +
         std::to_string(heads) + " heads" +
         (ranks > 1 ? " on each of " + std::to_string(ranks) + " ranks" : "") + ", " +
         typeName(activation) + ", page size " + std::to_string(pageSize) + ", on " +
         deviceInfo.at("kind").get<std::string>() + " (" +
         deviceInfo.at("name").get<std::string>() + ", " +
         std::to_string(deviceInfo.at("num_sms").get<int64_t>()) +
         (deviceInfo.at("kind") == "cpu" ? " threads)" : " multiprocessors)");
}

/// Keys that are null are absent, as mla-compile reads them; but no window is not a type's own.
static void dropNulls(json &object) {
  for (auto it = object.begin(); it != object.end();) {
    if (it->is_null() && it.key() != "sliding_window") {
      it = object.erase(it);
      continue;
    }
    if (it->is_object())
      dropNulls(*it);
    ++it;
  }
}

json Session::modelConfig() const {
  const json &text = info.at("model").at("config");
  if (text == "") // of a module that was lowered, or written by hand
    throw std::runtime_error("the package holds no configuration of its model, which this needs: "
                             "expected a package of a config.json, or of a module with mla.model");
  json config = text.is_string() ? json::parse(text.get<std::string>(), /*cb=*/nullptr,
                                               /*allow_exceptions=*/false)
                                 : text;
  if (!config.is_object())
    throw std::runtime_error("the configuration of its model in the package is no JSON object");
  dropNulls(config);
  config["model_type"] = info.at("model").at("model_type"); // what it was read as (--like)
  return config;
}

int64_t Session::layerNumber() const {
  static const std::string option = "--layer=";
  auto options = info.at("options").get<std::string>();
  size_t at = options.find(option);
  return at == std::string::npos ? 0 : std::stoll(options.substr(at + option.size()));
}

/// Who runs a command knows its options, not those of the engine that they make.
static void checkSizes(mla_status status, const char *what) {
  static constexpr std::pair<const char *, const char *> kOptions[] = {
      {"workspace_tokens", "--chunk-tokens sets it"},
      {"max_seq_len", "--context and --query-len set it"},
      {"max_num_tokens", "--batch and --query-len set it"},
      {"num_pages", "--batch, --context and --query-len set it"},
      {"num_sms", "--num-sms sets it"}};
  if (status == MLA_OK)
    return;
  std::string message = mla_last_error();
  for (const auto &[name, hint] : kOptions)
    if (message.find(name + std::string(" = ")) != std::string::npos)
      message += std::string("; ") + hint;
  throw std::runtime_error(std::string(what) + ": " + message + " (" + mla_status_name(status) +
                           ")");
}

Engine mlac::run::makeEngine(const Session &session, const EngineSizes &sizes) {
  mla_engine_options options;
  mla_engine_options_init(&options);
  options.max_num_requests = sizes.requests;
  options.max_num_tokens = sizes.tokens;
  options.max_seq_len = sizes.sequenceTokens;
  options.num_pages = sizes.pages;
  options.workspace_tokens = sizes.workspaceTokens;
  options.num_sms = sizes.processors;
  options.tensor_parallel_rank = sizes.rank;
  Engine engine;
  checkSizes(mla_engine_create(session.package.get(), session.device.get(), &options, engine.out()),
             "making the engine");
  return engine;
}

/// How a pool of the package keeps rows of the activations' type.
static mla_cache_layout layoutOf(const json &pool, const std::string &format, mla_dtype dtype) {
  mla_cache_layout layout;
  mla_cache_layout_init(&layout, format.c_str());
  layout.dtype = dtype;
  std::fill(std::begin(layout.columns), std::end(layout.columns), 0);
  int64_t *columns = layout.columns;
  for (const json &field : pool.at("fields"))
    *columns++ = field.at("heads").get<int64_t>() * field.at("columns").get<int64_t>();
  layout.page_size = pool.at("page_size").get<int64_t>();
  return layout;
}

/// A block of pages on the host, of random rows.
static std::vector<uint8_t> randomPages(mla_cache_layout layout, uint64_t seed) {
  constexpr int64_t kBlockRows = 8191;
  layout.num_pages = std::max<int64_t>(kBlockRows / layout.page_size, 1);
  int64_t count = layout.num_pages * layout.page_size;
  int64_t width = std::accumulate(std::begin(layout.columns), std::end(layout.columns), int64_t{0});
  std::vector<uint8_t> rows = encode(randomBf16(seed, count * width, 1.0), layout.dtype);
  std::vector<uint8_t> pages(layout.num_pages * layout.page_stride_bytes);
  check(mla_cache_encode(&layout, rows.data(), count, nullptr, pages.data(), pages.size()),
        "making rows of the cache");
  return pages;
}

static void fillPool(const Session &session, mla_engine *engine, int32_t pool, uint64_t seed) {
  mla_cache_stats stats;
  void *data = nullptr;
  check(mla_cache_get_stats(engine, pool, &stats), "asking for the cache");
  check(mla_cache_data(engine, 0, pool, &data), "asking for the cache");
  const json &description = session.info.at("pools").at(pool);
  std::string format = description.at("format").get<std::string>();
  mla_cache_layout layout = layoutOf(description, format, session.activation);
  layout.page_stride_bytes = stats.page_stride_bytes;
  std::vector<uint8_t> block = randomPages(layout, seed);
  size_t bytes = stats.num_pages * stats.page_stride_bytes;
  size_t filled = std::min(block.size(), bytes);
  check(mla_device_upload(session.device.get(), data, block.data(), filled), "filling the cache");
  while (filled < bytes) {
    size_t count = std::min(filled, bytes - filled);
    check(mla_device_copy_async(session.device.get(), static_cast<char *>(data) + filled, data,
                                count, nullptr),
          "filling the cache");
    filled += count;
  }
}

void mlac::run::fillCache(const Session &session, mla_engine *engine, uint64_t seed) {
  for (size_t pool = 0; pool < session.info.at("pools").size(); ++pool)
    fillPool(session, engine, static_cast<int32_t>(pool), seed + pool);
}

int64_t Batch::tokens() const {
  return std::accumulate(queryLens.begin(), queryLens.end(), int64_t{0});
}

void mlac::run::planStep(mla_plan *plan, const Batch &batch, const char *function) {
  mla_batch description{sizeof(mla_batch), static_cast<int64_t>(batch.sequences.size()),
                        batch.sequences.data(), batch.queryLens.data(), 0};
  mla_status status = mla_step_plan(plan, &description, function, nullptr);
  if (status == MLA_OUT_OF_PAGES)
    throw std::runtime_error("planning a step: out of cache pages");
  checkSizes(status, "planning a step");
}

std::optional<int64_t> Session::selectedKeys() const {
  for (const json &pool : info.at("pools"))
    if (pool.at("name") == "index")
      return modelConfig().at("index_topk").get<int64_t>();
  return std::nullopt;
}

void mlac::run::requireDense(const Session &session, int64_t tokens) {
  std::optional<int64_t> most = session.selectedKeys();
  if (most && tokens > *most)
    throw std::runtime_error("sequences of " + std::to_string(tokens) +
                             " tokens: checks attend to all keys, as a sparse layer does up to "
                             "index_topk = " +
                             std::to_string(*most) + " tokens (longer ones: docs/sparse.md)");
}

/// Hidden states and output, and the selection where the layer gives it.
static void runLayer(const Session &session, mla_plan *plan, const Buffer &hidden,
                     const Buffer &output, int64_t tokens) {
  StepFunction function = plannedFunction(session, plan);
  std::vector<mla_binding> bindings = {{"hidden", hidden.data(), hidden.bytes()},
                                       {"output", output.data(), output.bytes()}};
  std::optional<Buffer> selection;
  for (const StepBuffer &buffer : function.buffers) {
    if (buffer.name != "selected")
      continue;
    if (buffer.isInput)
      throw std::runtime_error("function '" + function.name +
                               "' takes the selection of another layer ('selected'): check a layer "
                               "with an indexer of its own");
    size_t bytes = tokens * session.selectedKeys().value() * sizeof(int32_t);
    selection.emplace(session.device.get(), bytes);
    bindings.push_back({"selected", selection->data(), bytes});
  }
  check(
      mla_step_run_bound(plan, 0, bindings.data(), static_cast<int64_t>(bindings.size()), nullptr),
      "running a step");
}

std::vector<float> mlac::run::runStep(const Session &session, mla_plan *plan,
                                      const std::vector<float> &hidden) {
  std::vector<uint8_t> input = encode(hidden, session.activation);
  std::vector<float> unwritten(hidden.size(), std::numeric_limits<float>::quiet_NaN());
  std::vector<uint8_t> output = encode(unwritten, session.activation);
  Buffer hiddenBuffer(session.device.get(), input.size());
  Buffer outputBuffer(session.device.get(), output.size());
  hiddenBuffer.upload(input.data());
  outputBuffer.upload(output.data());
  runLayer(session, plan, hiddenBuffer, outputBuffer, hidden.size() / session.hidden);
  outputBuffer.download(output.data());
  return decode(output, session.activation);
}
