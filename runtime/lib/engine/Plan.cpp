//===- Plan.cpp - one step of a batch ---------------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "engine/Plan.h"

#include "base/ApiLog.h"
#include "base/Json.h"
#include "base/Nvtx.h"
#include "engine/Metrics.h"
#include "engine/StepRecording.h"

#include <algorithm>

using namespace mlac::runtime;

Plan::Plan(std::shared_ptr<Engine> engine)
    : engine_(std::move(engine)), planner(engine_->limits()), rows(planner.makeRows()) {}

Status Plan::create(std::shared_ptr<Engine> engine, std::shared_ptr<Plan> &plan) {
  std::shared_ptr<Plan> result(new Plan(std::move(engine)));
  MLAC_RETURN_IF_ERROR(result->metadata_.create(result->engine_->sharedDevice(),
                                                result->planner.maxBytes(), "step metadata"));
  for (TableRows &rows : result->rows)
    rows.clear(result->metadata_);
  MLAC_RETURN_IF_ERROR(result->metadata_.uploadNow(result->planner.tableBytes()));
  plan = std::move(result);
  return Status();
}

//===----------------------------------------------------------------------===//
// Filling
//===----------------------------------------------------------------------===//

static bool takes(const FunctionInfo &function, int64_t maxQueryLen) {
  return function.maxQueryLen == 0 || maxQueryLen <= function.maxQueryLen;
}

static std::string listFunctions(const TargetInfo &target) {
  std::string names;
  for (const FunctionInfo &function : target.functions)
    if (isForCallers(function))
      names += (names.empty() ? "" : ", ") + function.name;
  return names;
}

Status Plan::chooseFunction(const char *name, int64_t maxQueryLen,
                            const FunctionInfo *&function) const {
  const TargetInfo &target = engine_->target();
  if (name) {
    function = target.find(name);
    if (!function || !isForCallers(*function))
      return error(MLA_NOT_FOUND, "unknown function '", name,
                   "', the package has: ", listFunctions(target));
    if (takes(*function, maxQueryLen))
      return Status();
    return error(MLA_INVALID_ARGUMENT, "function '", name, "' takes queries of at most ",
                 function->maxQueryLen, " tokens, got ", maxQueryLen);
  }
  auto rank = [&](const FunctionInfo &f) {
    int64_t limit = f.maxQueryLen == 0 ? INT64_MAX : f.maxQueryLen;
    enum { SplitsWell, Whole, SplitsInVain };
    bool isSplit = f.decodeThreshold > 0;
    return std::pair(limit, !isSplit                             ? Whole
                            : planner.isMixed(f.decodeThreshold) ? SplitsWell
                                                                 : SplitsInVain);
  };
  function = nullptr;
  for (const FunctionInfo &candidate : target.functions)
    if (isForCallers(candidate) && takes(candidate, maxQueryLen) &&
        (!function || rank(candidate) < rank(*function)))
      function = &candidate;
  if (function)
    return Status();
  return error(MLA_INVALID_ARGUMENT, "no function takes queries of ", maxQueryLen,
               " tokens; the package has: ", listFunctions(target));
}

/// A padded step without a name: the first function that splits its batch.
Status Plan::choosePadded(const char *&name) const {
  for (const FunctionInfo &function : engine_->target().functions)
    if (function.decodeThreshold > 0) {
      name = function.name.c_str();
      return Status();
    }
  return error(MLA_UNSUPPORTED,
               "no function splits its batch, which padded steps need; the "
               "package has: ",
               listFunctions(engine_->target()));
}

/// What runs for `function`: another one may take the batches that are decodes alone.
const FunctionInfo &Plan::functionFor(const FunctionInfo &function,
                                      const mla_step_shape *shape) const {
  const FunctionInfo *ofDecodes = engine_->target().findDecodesOf(function);
  return ofDecodes && planner.hasOnlyDecodes(function.decodeThreshold, shape) ? *ofDecodes
                                                                              : function;
}

/// Of a batch whose lengths the host knows. Everything that can refuse the step; changes
/// nothing that is visible.
Status Plan::resolveExact(const char *name, const mla_step_shape *shape) {
  const FunctionInfo *function;
  if (shape && !name)
    MLAC_RETURN_IF_ERROR(choosePadded(name));
  MLAC_RETURN_IF_ERROR(chooseFunction(name, at(planner.dims(), Dim::MaxQueryLen), function));
  if (!planner.hasPages(engine_->cache()))
    return Status(MLA_OUT_OF_PAGES, {});
  if (shape && function->decodeThreshold == 0)
    return error(MLA_UNSUPPORTED, "function '", function->name,
                 "' does not split its batch, which padded steps need");
  return resolveFor(*function, shape);
}

/// Bounds instead of lengths say which pieces there are; nothing else may need them.
Status Plan::resolveDevice(const mla_device_batch &batch, const char *name) {
  MLAC_RETURN_IF_ERROR(planner.measureDevice(batch));
  const FunctionInfo *function;
  MLAC_RETURN_IF_ERROR(chooseFunction(name, at(planner.dims(), Dim::MaxQueryLen), function));
  const FunctionInfo &planned = functionFor(*function, nullptr);
  if (planned.maxQueryLen == 0 || planned.usesChunks || planned.gathersWhole)
    return error(MLA_UNSUPPORTED, "function '", function->name, "' with queries of ",
                 at(planner.dims(), Dim::MaxQueryLen),
                 " tokens needs the lengths of cached context on the host: plan prefills with "
                 "mla_step_plan");
  return resolveFor(*function, nullptr);
}

/// A function may count in wider elements or in rows; pools of the engine's are whole ones.
static Status checkPageStrides(const FunctionInfo &function, const DimValues &dims, size_t pools) {
  for (size_t pool = 0; pool < pools; ++pool) {
    Dim dim = ofPool(Dim::PageStride, pool);
    int64_t stride = at(dims, dim);
    if (std::optional<int64_t> unit = function.exprs.findIndivisible(dim, stride))
      return error(MLA_UNSUPPORTED, "function '", function.name, "' counts pages in units of ",
                   *unit, " elements, of which the pool's page stride of ", stride,
                   " is no multiple");
  }
  return Status();
}

Status Plan::resolveFor(const FunctionInfo &chosen, const mla_step_shape *shape) {
  const FunctionInfo &function = functionFor(chosen, shape);
  MLAC_RETURN_IF_ERROR(checkPageStrides(function, planner.dims(), rows.size()));
  MLAC_RETURN_IF_ERROR(planner.measureFor({function, chosen.decodeThreshold, shape}));
  MLAC_RETURN_IF_ERROR(runner.resolve(*engine_, function, planner.dims(), planner.layout()));
  MLAC_RETURN_IF_ERROR(captures.check(runner.next(), planner.dims()));
  MLAC_RETURN_IF_ERROR(engine_->ensureWorkspace(runner.workspaceBytes()));
  return engine_->ensureRopeRows(planner.longestSeqLen());
}

/// Behind the page copies that the step needs.
Status Plan::uploadMetadata(mla_stream *stream) {
  Status status = engine_->runPageCopies(stream);
  DeviceMirror::Sent sent;
  if (status.isOk())
    return metadata_.upload(stream, sent);
  metadata_.forget();
  return status;
}

/// Pools of the caller's may have changed since the last step.
Status Plan::beginFill(mla_stream *stream) {
  MLAC_RETURN_IF_ERROR(engine_->device().checkStream(stream));
  if (!engine_->hasExternalPools())
    return Status();
  for (size_t pool = 0; pool < rows.size(); ++pool) {
    PoolLimits limits = engine_->limits().pool(pool);
    if (limits.numPages == 0)
      return error(MLA_WRONG_STATE, "no layer has a pool",
                   rows.size() > 1 ? concat(" '", engine_->package().pools()[pool].name, "'") : "",
                   ": give each the caller's (mla_engine_bind_pool)");
    planner.setPool(pool, limits.numPages, limits.pageStrideElements);
  }
  return Status();
}

Status Plan::fill(const mla_batch &batch, const char *function, const mla_step_shape *shape,
                  mla_stream *stream) {
  std::unique_lock lock(engine_->cache().mutex);
  MLAC_RETURN_IF_ERROR(
      engine_->requireOwnPools("what sequences they hold: plan with mla_step_plan_tables or "
                               "mla_step_plan_device"));
  MLAC_RETURN_IF_ERROR(beginFill(stream));
  MLAC_RETURN_IF_ERROR(planner.measure(engine_->cache(), batch));
  MLAC_RETURN_IF_ERROR(resolveExact(function, shape));
  return finishFill(stream);
}

Status Plan::fillFromTables(const mla_table_batch &batch, const char *function,
                            const mla_step_shape *shape, mla_stream *stream) {
  std::unique_lock lock(engine_->cache().mutex);
  MLAC_RETURN_IF_ERROR(beginFill(stream));
  MLAC_RETURN_IF_ERROR(planner.measureTables(batch));
  MLAC_RETURN_IF_ERROR(resolveExact(function, shape));
  return finishFill(stream);
}

Status Plan::fillFromDevice(const mla_device_batch &batch, const char *function,
                            mla_stream *stream) {
  std::unique_lock lock(engine_->cache().mutex);
  MLAC_RETURN_IF_ERROR(beginFill(stream));
  MLAC_RETURN_IF_ERROR(resolveDevice(batch, function));
  return finishFill(stream);
}

/// Under the cache's lock.
Status Plan::finishFill(mla_stream *stream) {
  // The last upload may still be under way if its stream is far behind.
  MLAC_RETURN_IF_ERROR(metadata_.wait());
  isFilled = false;
  planner.fill(engine_->cache(), metadata_, rows);
  runner.commit();
  dims_ = planner.dims();
  layout = planner.layout();
  Status status = uploadMetadata(stream);
  if (!status.isOk()) {
    planner.rollback(engine_->cache());
    return status;
  }
  isFilled = true;
  hasSequences = planner.hasSequences();
  cacheEdits = engine_->cache().numEdits();
  noteStep();
  return Status();
}

/// Counts the step, and says what it is where that is logged.
void Plan::noteStep() const {
  const std::string &name = runner.function()->name;
  int64_t requests = at(dims_, Dim::NumRequests), tokens = at(dims_, Dim::NumTokens);
  Metrics::get().countPlan(name, requests, tokens);
  markNvtx(name, requests, tokens);
  if (isLogged(MLA_LOG_STEPS))
    writeLog(MLA_LOG_STEPS,
             concat("step ", name, ": ", requests, " requests, ", tokens, " tokens, longest ",
                    at(dims_, Dim::MaxQueryLen), " new of ", at(dims_, Dim::MaxSeqLen), " keys, ",
                    runner.numLaunches(), " launches"));
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

Status Plan::requireFilled() const {
  if (isFilled)
    return Status();
  return error(MLA_WRONG_STATE, "the plan has not been filled by "
                                "mla_step_plan");
}

/// Pages that a sequence has given up may be another's by now. Nearly always one number
/// is compared: steps run once a layer.
Status Plan::requirePages() {
  const KVCache &cache = engine_->cache();
  if (!hasSequences || cache.numEdits() == cacheEdits)
    return Status();
  std::shared_lock lock(cache.mutex);
  size_t row;
  auto lost = std::ranges::find_if(rows, [&](TableRows &table) {
    return !table.areHeld(cache, metadata_, at(dims_, Dim::NumRequests), row);
  });
  if (lost == rows.end()) {
    cacheEdits = cache.numEdits();
    return Status();
  }
  return error(MLA_WRONG_STATE, "request ", row, ": sequence ", lost->sequence(row),
               cache.findLive(lost->sequence(row))
                   ? " no longer has the pages that the plan was filled for"
                   : " has been freed",
               ": fill the plan again (mla_step_plan)");
}

/// The plan's sizes are those of the pools that it was filled for.
Status Plan::requirePools(const Layer &layer) const {
  for (size_t pool = 0; pool < rows.size(); ++pool)
    if (engine_->isExternal(pool))
      MLAC_RETURN_IF_ERROR(requirePool(layer, pool));
  return Status();
}

Status Plan::requirePool(const Layer &layer, size_t index) const {
  MLAC_RETURN_IF_ERROR(engine_->requirePool(layer, index));
  const LayerPool &pool = layer.pools[index];
  int64_t pages = at(dims_, ofPool(Dim::NumPages, index));
  int64_t stride = at(dims_, ofPool(Dim::PageStride, index));
  int64_t elementSize = elementBytes(engine_->package().pools()[index].dtype);
  if (pool.numPages == pages && pool.pageStride == stride * elementSize)
    return Status();
  return error(MLA_WRONG_STATE, "the layer's pool has ", pool.numPages, " pages, ", pool.pageStride,
               " bytes apart, the plan was filled for ", pages, ", ", stride * elementSize,
               " bytes apart: fill the plan again");
}

Status Plan::requireLayer(int64_t index, Layer *&layer) {
  MLAC_RETURN_IF_ERROR(requireFilled());
  MLAC_RETURN_IF_ERROR(requirePages());
  MLAC_RETURN_IF_ERROR(engine_->getLayer(index, layer));
  MLAC_RETURN_IF_ERROR(requirePools(*layer));
  if (layer->isPrepared)
    return Status();
  return error(MLA_WRONG_STATE, "layer ", index,
               " is not prepared: bind its weights, then call "
               "mla_engine_prepare");
}

/// Graphs depend on what they were captured from.
void Plan::noteCapture(mla_stream *stream) {
  if (engine_->device().isCapturing(stream))
    captures.remember(runner.step(), dims_);
}

/// A run that is being captured reads nothing yet, and a profile is no run of a caller's.
Status Plan::launch(int64_t index, Layer &layer, std::span<const mla_binding> bindings,
                    mla_stream *stream, std::vector<LaunchTime> *times) {
  NvtxRange range(runner.function()->name, index);
  MLAC_RETURN_IF_ERROR(runner.bind(*engine_, layer, metadata_.data(), bindings));
  if (!isRecording() || times || engine_->device().isCapturing(stream))
    return runner.launch(*engine_, stream, times);
  StepRecording recording;
  MLAC_RETURN_IF_ERROR(
      recording.take(*engine_, runner, dims_, index, stream).in("recording the step"));
  return recording.finish(runner.launch(*engine_, stream, nullptr));
}

Status Plan::run(int64_t index, const void *hidden, void *output, mla_stream *stream,
                 std::vector<LaunchTime> *times) {
  Layer *layer;
  MLAC_RETURN_IF_ERROR(requireLayer(index, layer));
  MLAC_RETURN_IF_ERROR(engine_->device().checkStream(stream));
  const fb::Model &model = engine_->package().model();
  auto dtype = static_cast<mla_dtype>(model.activation_dtype());
  int64_t bytes = at(dims_, Dim::NumTokens) * model.hidden_size() * elementBytes(dtype);
  if (bytes == 0)
    return Status();
  noteCapture(stream);
  Metrics::get().countRun();
  // The kernels only read inputs.
  mla_binding bindings[] = {{"hidden", const_cast<void *>(hidden), static_cast<size_t>(bytes)},
                            {"output", output, static_cast<size_t>(bytes)}};
  MLAC_RETURN_IF_ERROR(launch(index, *layer, bindings, stream, times));
  return allReduce(bindings, stream);
}

/// The ranks' addends become the output, where the engine has been told how.
Status Plan::allReduce(std::span<const mla_binding> bindings, mla_stream *stream) {
  const AllReduce &hook = engine_->allReduce();
  if (!hook.function)
    return Status();
  const fb::Model &model = engine_->package().model();
  int64_t elements = at(dims_, Dim::NumTokens) * model.hidden_size();
  for (const mla_binding &binding : bindings) {
    if (std::string_view(binding.name) != "output")
      continue;
    auto dtype = static_cast<mla_dtype>(model.activation_dtype());
    mla_status code = hook.function(hook.user, binding.data, elements, dtype, stream);
    if (code != MLA_OK)
      return error(code, "the all-reduce of the output failed with ", mla_status_name(code));
  }
  return Status();
}

Status Plan::runBound(int64_t index, std::span<const mla_binding> bindings, mla_stream *stream) {
  Layer *layer;
  MLAC_RETURN_IF_ERROR(requireLayer(index, layer));
  MLAC_RETURN_IF_ERROR(engine_->device().checkStream(stream));
  for (const mla_binding &binding : bindings)
    if (!binding.name)
      return error(MLA_INVALID_ARGUMENT, "a binding's name is null");
  if (at(dims_, Dim::NumTokens) == 0)
    return Status();
  noteCapture(stream);
  Metrics::get().countRun();
  MLAC_RETURN_IF_ERROR(launch(index, *layer, bindings, stream, nullptr));
  return allReduce(bindings, stream);
}

Status Plan::profile(int64_t index, const void *hidden, void *output, mla_stream *stream,
                     const char **json) {
  constexpr double kMicrosecondsPerMillisecond = 1000;
  std::vector<LaunchTime> times;
  MLAC_RETURN_IF_ERROR(run(index, hidden, output, stream, &times));
  Json list = Json::array();
  for (const LaunchTime &time : times) {
    const Launch &launch = *time.launch;
    const fb::Kernel &kernel = *engine_->target().raw->kernels()->Get(launch.kernel);
    list.push_back({{"label", text(launch.label)},
                    {"kernel", text(kernel.name())},
                    {"grid", launch.grid},
                    {"microseconds", time.milliseconds * kMicrosecondsPerMillisecond}});
  }
  profileText = toText(list);
  *json = profileText.c_str();
  return Status();
}

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

Status Plan::functionName(const char *&name) const {
  MLAC_RETURN_IF_ERROR(requireFilled());
  const FunctionInfo &function = *runner.function();
  name = (function.decodesOf.empty() ? function.name : function.decodesOf).c_str();
  return Status();
}

Status Plan::dim(std::string_view name, int64_t &value) const {
  MLAC_RETURN_IF_ERROR(requireFilled());
  std::optional<Dim> found = engine_->package().findDim(name);
  if (!found)
    return error(MLA_NOT_FOUND, "unknown size '", name, "'");
  value = at(dims_, *found);
  return Status();
}

Status Plan::metadata(std::string_view name, mla_dtype &dtype, int64_t &elements,
                      const void *&data) const {
  MLAC_RETURN_IF_ERROR(requireFilled());
  std::optional<Metadata> found = engine_->package().findMetadata(name);
  if (!found)
    return error(MLA_NOT_FOUND, "unknown metadata '", name, "'");
  auto place = static_cast<size_t>(*found);
  if (layout.external[place])
    return error(MLA_UNSUPPORTED, "metadata '", name, "' is the caller's, on the device only");
  const MetadataArray &array = layout.arrays[place];
  dtype = metadataType(*found);
  elements = array.elements;
  data = metadata_.host() + array.offset;
  return Status();
}
