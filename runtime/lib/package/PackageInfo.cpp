//===- PackageInfo.cpp - a package as JSON text -----------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The text of mla_package_info.
//
//===----------------------------------------------------------------------===//

#include "base/Json.h"
#include "package/Capabilities.h"

using namespace mlac::runtime;

template <typename Vector> static size_t sizeOf(const Vector *vector) {
  return vector ? vector->size() : 0;
}

static std::string str(const flatbuffers::String *value) { return std::string(text(value)); }

static const char *name(fb::DataType dtype) { return typeName(static_cast<mla_dtype>(dtype)); }

static Json describe(const fb::Model &model) {
  return {{"model_type", str(model.model_type())},
          {"hidden_size", model.hidden_size()},
          {"num_heads", model.num_heads()},
          {"tensor_parallel", model.tensor_parallel()},
          {"q_lora_rank", model.q_lora_rank()},
          {"kv_lora_rank", model.kv_lora_rank()},
          {"qk_nope_head_dim", model.qk_nope_head_dim()},
          {"qk_rope_head_dim", model.qk_rope_head_dim()},
          {"v_head_dim", model.v_head_dim()},
          {"softmax_scale", model.softmax_scale()},
          {"activation_dtype", name(model.activation_dtype())},
          {"config", str(model.config_json())}};
}

static Json describe(const fb::Pool &pool) {
  Json fields = Json::array();
  for (uint32_t i = 0; i < sizeOf(pool.fields()); ++i) {
    const fb::PoolField &field = *pool.fields()->Get(i);
    fields.push_back(
        {{"name", str(field.name())}, {"heads", field.heads()}, {"columns", field.columns()}});
  }
  return {{"name", str(pool.name())},
          {"format", str(pool.format())},
          {"dtype", name(pool.dtype())},
          {"element", name(pool.element())},
          {"page_size", pool.page_size()},
          {"fields", fields},
          {"rope_order", str(pool.rope_order())},
          {"row_bytes", pool.row_bytes()},
          {"tokens_per_row", pool.tokens_per_row()},
          {"window", pool.window()}};
}

static Json describe(const fb::RopeSpec &rope) {
  return {{"length", rope.length()},
          {"short_length", rope.short_length()},
          {"multiplier", rope.multiplier()},
          {"has_long", sizeOf(rope.inv_freq_long()) > 0}};
}

static Json describe(const std::vector<TensorInfo> &tensors) {
  Json list = Json::array();
  for (const TensorInfo &tensor : tensors)
    list.push_back(
        {{"name", tensor.name}, {"dtype", typeName(tensor.dtype)}, {"shape", tensor.shape}});
  return list;
}

/// Null where weights have no scales.
static Json describe(const std::optional<ScaleBlock> &scales) {
  if (!scales)
    return nullptr;
  return {{"codes", typeName(MLA_E4M3)},
          {"strategy", scales->strategy()},
          {"block", {scales->rows, scales->columns}}};
}

static Json describe(const fb::Kernel &kernel) {
  return {{"name", str(kernel.name())},      {"symbol", str(kernel.symbol())},
          {"threads", kernel.threads()},     {"shared_bytes", kernel.shared_bytes()},
          {"registers", kernel.registers()}, {"scratch_bytes", kernel.scratch_bytes()}};
}

/// Launch steps as written (a loop's body counts once).
static int64_t countLaunches(const StepList *steps) {
  int64_t count = 0;
  (void)forEachLaunch(steps, [&](const fb::Launch &) {
    ++count;
    return Status();
  });
  return count;
}

static Json describe(const FunctionInfo &function) {
  Json dims = Json::array(), buffers = Json::array();
  for (uint32_t i = 0; i < sizeOf(function.raw->dims()); ++i)
    dims.push_back(str(function.raw->dims()->Get(i)));
  for (const BufferInfo &buffer : function.buffers)
    buffers.push_back({{"name", buffer.name},
                       {"kind", fb::EnumNameBufferKind(buffer.kind)},
                       {"dtype", typeName(buffer.dtype)}});
  return {{"name", function.name},
          {"dims", dims},
          {"max_query_len", function.maxQueryLen},
          {"decode_threshold", function.decodeThreshold},
          {"decodes_of", function.decodesOf},
          {"shares_prefixes", function.sharedTokens.has_value()},
          {"prompts_above", function.prompts ? function.prompts->above : 0},
          {"launches", countLaunches(function.raw->steps())},
          {"buffers", buffers}};
}

static Json describe(const TargetInfo &target) {
  Json kernels = Json::array(), functions = Json::array();
  int64_t codeBytes = 0;
  for (uint32_t i = 0; i < sizeOf(target.raw->kernels()); ++i)
    kernels.push_back(describe(*target.raw->kernels()->Get(i)));
  for (uint32_t i = 0; i < sizeOf(target.raw->code()); ++i)
    codeBytes += target.raw->code()->Get(i)->bytes()->size();
  for (const FunctionInfo &function : target.functions)
    functions.push_back(describe(function));
  bool isCpu = target.raw->kind() == fb::TargetKind::Cpu;
  return {{"kind", isCpu ? "cpu" : "cuda"},
          {"arch", str(target.raw->arch())},
          {"features", str(target.raw->features())},
          {"assembler", str(target.raw->assembler())},
          {"code_bytes", codeBytes},
          {"kernels", kernels},
          {"functions", functions}};
}

static Json describe(const std::vector<KindInfo> &kinds) {
  Json list = Json::array();
  for (const KindInfo &kind : kinds)
    list.push_back(
        {{"name", kind.name}, {"layers", kind.layers}, {"bytes", kind.package->fileBytes()}});
  return list;
}

/// What every file has.
static Json describeFile(const Package &package) {
  return {{"schema_version", package.root().schema_version()},
          {"compiler", str(package.root().compiler())},
          {"options", str(package.root().options())},
          {"bytes", package.fileBytes()},
          {"kinds", describe(package.kinds())},
          {"layers", package.layers()}};
}

/// What one kind of layers has.
static Json describeLayer(const Package &package) {
  Json pools = Json::array(), targets = Json::array();
  for (const PoolInfo &pool : package.pools())
    pools.push_back(describe(*pool.raw));
  for (const TargetInfo &target : package.targets())
    targets.push_back(describe(target));
  auto activation = static_cast<mla_dtype>(package.model().activation_dtype());
  return {{"capabilities", describeCapabilities(activation, package.pools(), package.targets())},
          {"model", describe(package.model())},
          {"pools", pools},
          {"rope", describe(package.rope())},
          {"weights", describe(package.weights())},
          {"weight_scales", describe(package.weightScales())},
          {"derived", describe(package.derived())},
          {"targets", targets}};
}

const std::string &Package::infoJson() {
  if (!info_.empty())
    return info_;
  Json info = describeFile(*this);
  if (kinds_.empty())
    info.update(describeLayer(*this));
  return info_ = toText(info);
}
