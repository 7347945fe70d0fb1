//===- TorchOps.cpp - operators of torch ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// torch.ops.mlac.{layer, attend, append}: each binds the tensors that it is given to the
// buffers of a filled plan and runs one layer on torch's current stream. Schemas and fake
// kernels are Python's (python/mlac/torch), which also declares each plan's buffers here.
//
// Only torch's stable ABI is used, header by header: the library works with every torch
// from TORCH_TARGET_VERSION on, and links to nothing of it.
//
//===----------------------------------------------------------------------===//

#include "mla_runtime.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

using torch::stable::Tensor;

namespace {

/// Tensors of the operators, in the order of python/mlac/torch/_handle.py's SLOTS.
enum Slot { Output, Lse, Hidden, Query, RopeQuery, Latent, RopeKey, NumSlots };
constexpr std::array<const char *, NumSlots> kSlotNames = {
    "output", "lse", "hidden", "query", "rope_query", "latent", "rope_key"};

/// What Python declared of a plan.
struct Signature {
  std::array<std::string, NumSlots> names;
  std::array<int32_t, NumSlots> dtypes; // torch's, or -1: the functions have no such buffer
  std::array<int64_t, NumSlots> itemBytes;
  int64_t hiddenSize; // elements of a token in `hidden` and its `output`; 0: no such function
  mla_engine *engine;
  bool isCuda;
  std::vector<mla_external_pool> pools; // by layer, data is null: the engine's
};

/// Signatures by the number of their plan. Calls read, handle() and closed plans write.
class Registry {
public:
  void declare(int64_t plan, std::shared_ptr<const Signature> signature) {
    std::unique_lock lock(mutex);
    signatures[plan] = std::move(signature);
  }
  void forget(int64_t plan) {
    std::unique_lock lock(mutex);
    signatures.erase(plan);
  }
  std::shared_ptr<const Signature> find(int64_t plan) {
    std::shared_lock lock(mutex);
    auto it = signatures.find(plan);
    return it == signatures.end() ? nullptr : it->second;
  }

private:
  std::shared_mutex mutex;
  std::unordered_map<int64_t, std::shared_ptr<const Signature>> signatures;
};

Registry &registry() {
  static Registry instance;
  return instance;
}

[[noreturn]] void fail(const std::string &message) { throw std::runtime_error(message); }

[[noreturn]] void refuse(Slot slot, const std::string &expected) {
  fail(std::string(kSlotNames[slot]) + ": expected " + expected);
}

/// torch's number and the bytes of a type that tensors of a step may have, {-1, 0} for others.
std::pair<int32_t, int64_t> torchType(int32_t dtype) {
  switch (dtype) {
  case MLA_BF16:
    return {aoti_torch_dtype_bfloat16(), 2};
  case MLA_F16:
    return {aoti_torch_dtype_float16(), 2};
  case MLA_F32:
    return {aoti_torch_dtype_float32(), 4};
  default:
    return {-1, 0};
  }
}

int32_t dtypeOf(const Tensor &tensor) {
  int32_t dtype = -1;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor.get(), &dtype));
  return dtype;
}

/// torch's current stream. Who tells it is in torch's CUDA library, which a torch without
/// CUDA lacks: it is looked up where a tensor is on a GPU, in what is loaded already.
mla_stream *currentStream(int32_t device) {
  using GetStream = AOTITorchError (*)(int32_t, void **);
  static auto get = []() -> GetStream {
    void *library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    return library
               ? reinterpret_cast<GetStream>(dlsym(library, "aoti_torch_get_current_cuda_stream"))
               : nullptr;
  }();
  void *stream = nullptr;
  if (!get || get(device, &stream) != AOTI_TORCH_SUCCESS)
    fail("torch does not tell its current CUDA stream");
  return static_cast<mla_stream *>(stream);
}

/// One operator's call: binds tensors, checked, and runs.
class Call {
public:
  explicit Call(int64_t plan) : plan(plan), signature(registry().find(plan)) {
    if (!signature)
      fail("plan " + std::to_string(plan) +
           ": expected a number from mlac.torch.handle(), of a plan that lives");
    check(mla_plan_dim(handle(), "num_tokens", &tokens));
  }

  void bind(Slot slot, const Tensor &tensor) {
    if (dtypeOf(tensor) != signature->dtypes[slot])
      refuse(slot, signature->dtypes[slot] < 0 ? "no such tensor" : "the package's dtype");
    if (!tensor.is_contiguous())
      refuse(slot, "a contiguous tensor");
    if (tensor.is_cuda() != signature->isCuda)
      refuse(slot, "a tensor on the engine's device");
    // Packages do not say how large their functions' tensors are.
    int64_t perToken =
        slot == Output || slot == Hidden ? std::max<int64_t>(signature->hiddenSize, 1) : 1;
    if (tensor.numel() < tokens * perToken || (slot != Lse && tensor.size(0) < tokens))
      refuse(slot, "rows for the " + std::to_string(tokens) + " tokens of the step");
    // Wider rows would be read as more of them, at wrong places.
    if (perToken > 1 && tensor.dim() > 1 && tensor.numel() != tensor.size(0) * perToken)
      refuse(slot, "rows of " + std::to_string(perToken) + " columns");
    bindings[count++] = {signature->names[slot].c_str(), tensor.data_ptr(),
                         static_cast<size_t>(tensor.numel() * signature->itemBytes[slot])};
    if (signature->isCuda)
      device = tensor.get_device_index();
  }

  void bind(Slot slot, const std::optional<Tensor> &tensor) {
    if (tensor)
      bind(slot, *tensor);
  }

  /// The layer's pool is this tensor. Where torch has made a copy of what was bound, to have
  /// an operator without side effects, the copy is bound for this call.
  void useCache(const Tensor &cache, int64_t layer) {
    bool isKnown = layer >= 0 && layer < static_cast<int64_t>(signature->pools.size());
    if (!isKnown || !signature->pools[layer].data)
      fail("cache: layer " + std::to_string(layer) +
           " had no pool of one tensor when "
           "mlac.torch.handle() was called");
    mla_external_pool pool = signature->pools[layer];
    if (cache.data_ptr() == pool.data)
      return;
    pool.data = cache.data_ptr();
    pool.num_pages = cache.size(0);
    pool.page_stride_bytes = cache.stride(0) * static_cast<int64_t>(cache.element_size());
    check(mla_engine_bind_pool(signature->engine, layer, 0, &pool));
    replaced = &signature->pools[layer];
    replacedLayer = layer;
  }

  ~Call() {
    if (replaced)
      mla_engine_bind_pool(signature->engine, replacedLayer, 0, replaced);
  }

  void run(int64_t layer) {
    mla_stream *stream = signature->isCuda ? currentStream(device) : nullptr;
    check(mla_step_run_bound(handle(), layer, bindings.data(), count, stream));
  }

private:
  int64_t plan;
  std::shared_ptr<const Signature> signature;
  std::array<mla_binding, NumSlots> bindings;
  int64_t tokens = 0;
  int64_t count = 0;
  int32_t device = 0;
  const mla_external_pool *replaced = nullptr;
  int64_t replacedLayer = 0;

  mla_plan *handle() const { return reinterpret_cast<mla_plan *>(plan); }

  static void check(mla_status status) {
    if (status != MLA_OK)
      fail(mla_last_error());
  }
};

void runLayer(const Tensor &output, const Tensor &hidden, int64_t plan, int64_t layer) {
  Call call(plan);
  call.bind(Output, output);
  call.bind(Hidden, hidden);
  call.run(layer);
}

void attend(const Tensor &output, const std::optional<Tensor> &lse,
            const std::optional<Tensor> &cache, const Tensor &query,
            const std::optional<Tensor> &ropeQuery, const std::optional<Tensor> &latent,
            const std::optional<Tensor> &ropeKey, int64_t plan, int64_t layer) {
  Call call(plan);
  if (cache)
    call.useCache(*cache, layer);
  call.bind(Output, output);
  call.bind(Lse, lse);
  call.bind(Query, query);
  call.bind(RopeQuery, ropeQuery);
  call.bind(Latent, latent);
  call.bind(RopeKey, ropeKey);
  call.run(layer);
}

void append(const Tensor &cache, const Tensor &latent, const std::optional<Tensor> &ropeKey,
            int64_t plan, int64_t layer) {
  Call call(plan);
  call.useCache(cache, layer);
  call.bind(Latent, latent);
  call.bind(RopeKey, ropeKey);
  call.run(layer);
}

} // namespace

/// What python/mlac/torch/_native.py calls.
extern "C" {
__attribute__((visibility("default"))) void
mlac_torch_declare(int64_t plan, mla_engine *engine, const char *const *names,
                   const int32_t *dtypes, int64_t hiddenSize, int32_t isCuda,
                   const mla_external_pool *pools, int64_t numLayers) {
  auto signature = std::make_shared<Signature>();
  for (int slot = 0; slot < NumSlots; ++slot) {
    signature->names[slot] = names[slot];
    std::tie(signature->dtypes[slot], signature->itemBytes[slot]) = torchType(dtypes[slot]);
  }
  signature->hiddenSize = hiddenSize;
  signature->engine = engine;
  signature->isCuda = isCuda != 0;
  signature->pools.assign(pools, pools + numLayers);
  registry().declare(plan, std::move(signature));
}

__attribute__((visibility("default"))) void mlac_torch_forget(int64_t plan) {
  registry().forget(plan);
}
}

STABLE_TORCH_LIBRARY_IMPL(mlac, CPU, library) {
  library.impl("layer", TORCH_BOX(&runLayer));
  library.impl("attend", TORCH_BOX(&attend));
  library.impl("append", TORCH_BOX(&append));
}

STABLE_TORCH_LIBRARY_IMPL(mlac, CUDA, library) {
  library.impl("layer", TORCH_BOX(&runLayer));
  library.impl("attend", TORCH_BOX(&attend));
  library.impl("append", TORCH_BOX(&append));
}
