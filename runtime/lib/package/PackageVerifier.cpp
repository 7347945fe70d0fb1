//===- PackageVerifier.cpp - checks of a package ----------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "package/PackageVerifier.h"

#include "package/CacheFormat.h"

#include "package/TensorMaps.h"

#include <cmath>
#include <functional>

using namespace mlac::runtime;
namespace step = mlac::step;

// Upper bounds of what a sane package holds. They keep products of sizes far
// from overflow; published models stay below them by more than a factor of ten.
static constexpr int64_t kMaxModelDim = 1 << 20;
static constexpr int64_t kMaxTensorElements = int64_t(1) << 40;
static constexpr int64_t kMaxRank = 4;
static constexpr int64_t kMaxPageSize = 1 << 16;
static constexpr int64_t kMaxRopeLength = int64_t(1) << 31;
static constexpr int64_t kMaxArgs = 256;
// Bounds of the verifier's work, all of them a hundred times what the packages of
// DeepSeek-V3 have (3 functions of 40 buffers, 220 expressions, 120 steps and 440
// arguments, a name of 60 bytes at most). They count what is reached, as often as it
// is: a small file may refer to one part from everywhere.
static constexpr uint32_t kMaxTargets = 64;
static constexpr uint32_t kMaxFunctions = 1024; // of all targets
static constexpr uint32_t kMaxDims = 256;       // of a function
static constexpr size_t kMaxName = 4096;
static constexpr int64_t kMaxParts = 1 << 20;
static constexpr int64_t kMaxTilesPerToken = 1024;
static constexpr uint32_t kMaxStepDepth = 16;
// Costs and cuts of a partition, in blocks.
static constexpr double kMaxWorkCost = 1 << 20;
static constexpr int64_t kMaxFixedBlocks = 1 << 20;
// Programs of a multiprocessor (CUDA C++ Programming Guide, compute capabilities).
static constexpr int64_t kMaxMergePrograms = 32;
// 1024 threads: CUDA C++ Programming Guide, compute capabilities.
static constexpr int64_t kMaxThreads = 1024;
// The kernel ABI's limit; worker stacks are larger (ThreadPool.h).
static constexpr uint64_t kMaxScratchBytes = 4 << 20;

static constexpr uint32_t kSchemaVersion = 1;

template <typename Vector> static size_t sizeOf(const Vector *vector) {
  return vector ? vector->size() : 0;
}

static Status requireRange(const char *what, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high)
    return Status();
  return error(MLA_CORRUPT, what, " is ", value, ", expected ", low, " to ", high);
}

static Status checkLength(const char *what, const flatbuffers::String *value) {
  if (!value || value->size() <= kMaxName)
    return Status();
  return error(MLA_CORRUPT, what, " has ", value->size(), " bytes, limit ", kMaxName);
}

static Status requireText(const char *what, const flatbuffers::String *value) {
  if (!value || value->size() == 0)
    return error(MLA_CORRUPT, what, " is empty");
  return checkLength(what, value);
}

static Status requireType(const char *what, fb::DataType dtype) {
  if (isKnownType(static_cast<int>(dtype)))
    return Status();
  return error(MLA_CORRUPT, what, " has unknown type ", dtype);
}

/// The FlatBuffers verifier aligns only the length in front of a vector.
template <typename Vector>
static Status requireAligned(const char *what, const Vector *vector, size_t alignment) {
  if (!vector || reinterpret_cast<uintptr_t>(vector->Data()) % alignment == 0)
    return Status();
  return error(MLA_CORRUPT, what, " is not aligned to ", alignment, " bytes");
}

static mla_dtype toType(fb::DataType dtype) { return static_cast<mla_dtype>(dtype); }

//===----------------------------------------------------------------------===//
// Before the FlatBuffers verifier
//===----------------------------------------------------------------------===//

using Tables = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::Table>>;
using Names = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;

/// A vector of a table that may be damaged; false where it lies outside of the file.
template <typename Vector>
static bool readVector(flatbuffers::Verifier &verifier, const flatbuffers::Table &table,
                       flatbuffers::voffset_t field, const Vector *&vector) {
  if (!table.VerifyTableStart(verifier) || !table.VerifyOffset(verifier, field))
    return false;
  vector = table.GetPointer<const Vector *>(field);
  return verifier.EndTable() && verifier.VerifyVector(vector);
}

/// What is damaged here is left to the FlatBuffers verifier.
Status PackageVerifier::checkLists(const uint8_t *bytes, size_t size) {
  flatbuffers::Verifier verifier(bytes, size);
  const Tables *targets = nullptr, *functions = nullptr;
  const Names *dims = nullptr;
  const auto *root = flatbuffers::GetRoot<flatbuffers::Table>(bytes);
  if (!verifier.VerifyOffset(0) || !readVector(verifier, *root, fb::Package::VT_TARGETS, targets))
    return Status();
  if (sizeOf(targets) > kMaxTargets)
    return error(MLA_CORRUPT, "package has ", sizeOf(targets), " targets, limit ", kMaxTargets);
  size_t numFunctions = 0;
  for (uint32_t i = 0; i < sizeOf(targets); ++i) {
    if (!readVector(verifier, *targets->Get(i), fb::Target::VT_FUNCTIONS, functions))
      return Status();
    numFunctions += sizeOf(functions);
    if (numFunctions > kMaxFunctions)
      return error(MLA_CORRUPT, "package has more than ", kMaxFunctions, " functions");
    for (uint32_t j = 0; j < sizeOf(functions); ++j) {
      if (!readVector(verifier, *functions->Get(j), fb::Function::VT_DIMS, dims))
        return Status();
      if (sizeOf(dims) > kMaxDims)
        return error(MLA_CORRUPT, "function ", j, " of target ", i, " names ", sizeOf(dims),
                     " sizes, limit ", kMaxDims);
    }
  }
  return Status();
}

//===----------------------------------------------------------------------===//
// Behind it
//===----------------------------------------------------------------------===//

/// A named part: 64 bytes of its name, which is copied, count as one more.
static int64_t partsOf(const flatbuffers::String *name) {
  constexpr size_t kNameBytesPerPart = 64;
  return 1 + static_cast<int64_t>(sizeOf(name) / kNameBytesPerPart);
}

Status PackageVerifier::spend(int64_t parts) {
  numParts += parts;
  if (numParts <= kMaxParts)
    return Status();
  return error(MLA_CORRUPT, "the package has more than ", kMaxParts,
               " parts, counted as often as they are used");
}

Status PackageVerifier::run() {
  if (root.schema_version() != kSchemaVersion)
    return error(MLA_UNSUPPORTED, "package has schema version ", root.schema_version(),
                 ", this runtime reads ", kSchemaVersion);
  if (!root.model() || !root.cache() || !root.rope())
    return error(MLA_CORRUPT, "package lacks its model, cache or rope table");
  MLAC_RETURN_IF_ERROR(checkModel().in("model"));
  MLAC_RETURN_IF_ERROR(checkCache().in("cache"));
  MLAC_RETURN_IF_ERROR(checkRope().in("rope"));
  MLAC_RETURN_IF_ERROR(readTensors(root.weights(), "weight", package.weights_, weights));
  MLAC_RETURN_IF_ERROR(readTensors(root.derived(), "derived tensor", package.derived_, derived));
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

Status PackageVerifier::checkModel() {
  const fb::Model &model = package.model();
  struct {
    const char *name;
    int64_t value, low;
  } dims[] = {{"hidden_size", model.hidden_size(), 1},
              {"num_heads", model.num_heads(), 1},
              {"tensor_parallel", model.tensor_parallel(), 0},
              {"q_lora_rank", model.q_lora_rank(), 0},
              {"kv_lora_rank", model.kv_lora_rank(), 1},
              {"qk_nope_head_dim", model.qk_nope_head_dim(), 1},
              {"qk_rope_head_dim", model.qk_rope_head_dim(), 0},
              {"v_head_dim", model.v_head_dim(), 1}};
  for (auto &dim : dims)
    MLAC_RETURN_IF_ERROR(requireRange(dim.name, dim.value, dim.low, kMaxModelDim));
  return requireType("activation_dtype", model.activation_dtype());
}

Status PackageVerifier::checkCache() {
  const fb::CacheLayout &cache = package.cache();
  const fb::Model &model = package.model();
  MLAC_RETURN_IF_ERROR(requireText("layout", cache.layout()));
  MLAC_RETURN_IF_ERROR(requireType("dtype", cache.dtype()));
  MLAC_RETURN_IF_ERROR(requireRange("page_size", cache.page_size(), 1, kMaxPageSize));
  if (cache.kv_lora_rank() != model.kv_lora_rank() ||
      cache.qk_rope_head_dim() != model.qk_rope_head_dim())
    return error(MLA_CORRUPT, "ranks ", cache.kv_lora_rank(), " + ", cache.qk_rope_head_dim(),
                 " differ from the model's ", model.kv_lora_rank(), " + ",
                 model.qk_rope_head_dim());
  CacheLayout layout;
  CacheShape shape{toType(model.activation_dtype()), cache.kv_lora_rank(), cache.qk_rope_head_dim(),
                   cache.page_size(), 0};
  // As of a file: what a caller of the formats passes wrongly is damage here.
  if (Status status = CacheLayout::make(text(cache.layout()), shape, layout); !status.isOk())
    return status.code() == MLA_UNSUPPORTED ? status : Status(MLA_CORRUPT, status.message());
  if (!cache::hasKernels(layout.format()))
    return error(MLA_UNSUPPORTED, "layout '", text(cache.layout()),
                 "': this runtime's engines need scales beside what they scale");
  mla_dtype stored = storageType(layout.format(), shape.dtype);
  if (toType(cache.dtype()) != stored)
    return error(MLA_CORRUPT, "dtype ", typeName(toType(cache.dtype())), ", rows of layout ",
                 text(cache.layout()), " are ", typeName(stored));
  return requireRange("row_bytes", cache.row_bytes(), layout.tokenBytes(), layout.tokenBytes());
}

/// Whether rows of the package's cache have elements of this type.
bool PackageVerifier::hasCacheType(mla_dtype type) const {
  const cache::Format &format = *cache::findFormat(text(package.cache().layout()));
  auto model = toType(package.model().activation_dtype());
  for (size_t i = 0; i < format.numFields; ++i)
    if (fieldType(format.fields[i], model) == type)
      return true;
  return false;
}

static Status requireFinite(const char *what, const flatbuffers::Vector<float> *values) {
  for (size_t i = 0; i < sizeOf(values); ++i)
    if (!std::isfinite(values->Get(i)))
      return error(MLA_CORRUPT, what, "[", i, "] is not finite");
  return Status();
}

Status PackageVerifier::checkRope() {
  const fb::RopeSpec &rope = package.rope();
  size_t pairs = package.model().qk_rope_head_dim() / 2;
  size_t numLong = sizeOf(rope.inv_freq_long());
  if (sizeOf(rope.inv_freq()) != pairs)
    return error(MLA_CORRUPT, "inv_freq has ", sizeOf(rope.inv_freq()),
                 " values, expected qk_rope_head_dim / 2 = ", pairs);
  if (numLong != 0 && numLong != pairs)
    return error(MLA_CORRUPT, "inv_freq_long has ", numLong, " values, expected 0 or ", pairs);
  MLAC_RETURN_IF_ERROR(requireFinite("inv_freq", rope.inv_freq()));
  MLAC_RETURN_IF_ERROR(requireFinite("inv_freq_long", rope.inv_freq_long()));
  if (!std::isfinite(rope.multiplier()))
    return error(MLA_CORRUPT, "multiplier is not finite");
  return requireRange("length", static_cast<int64_t>(rope.length()), 1, kMaxRopeLength);
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

Status PackageVerifier::resolveBuffer(const fb::Buffer &raw, BufferInfo &buffer) {
  const std::vector<TensorInfo> *tensors = nullptr;
  const TensorIndices *indices = nullptr;
  mla_dtype expected = buffer.dtype;
  int64_t index = 0;
  switch (raw.kind()) {
  case fb::BufferKind::Weight:
    tensors = &package.weights_;
    indices = &weights;
    break;
  case fb::BufferKind::Derived:
    tensors = &package.derived_;
    indices = &derived;
    break;
  case fb::BufferKind::Metadata: {
    std::optional<Metadata> metadata = findMetadata(buffer.name);
    if (!metadata)
      return error(MLA_CORRUPT, "names unknown metadata");
    index = static_cast<int64_t>(*metadata);
    expected = metadataType(*metadata);
    break;
  }
  case fb::BufferKind::RopeTable:
    expected = MLA_F32;
    break;
  case fb::BufferKind::Cache:
    if (!hasCacheType(buffer.dtype))
      expected = toType(package.cache().dtype());
    break;
  case fb::BufferKind::CacheScale:
    expected = MLA_F32;
    break;
  default:
    break;
  }
  if (tensors) {
    auto found = indices->find(buffer.name);
    if (found == indices->end())
      return error(MLA_CORRUPT, "names a tensor that the package lacks");
    index = found->second;
    expected = (*tensors)[index].dtype;
  }
  if (buffer.dtype != expected)
    return error(MLA_CORRUPT, "has type ", typeName(buffer.dtype), ", expected ",
                 typeName(expected));
  buffer.index = static_cast<uint32_t>(index);
  return Status();
}

/// Checks that expression `id` exists and needs at most `depth` loops.
static Status requireExpr(const char *what, const ExpressionTable &exprs, uint32_t id,
                          uint32_t depth) {
  if (id >= exprs.size())
    return error(MLA_CORRUPT, what, " is expression ", id, " of ", exprs.size());
  if (exprs.loopDepth(id) > depth)
    return error(MLA_CORRUPT, what, " uses a loop variable outside its loop");
  return Status();
}

Status PackageVerifier::readBuffer(const fb::Buffer *raw, const FunctionInfo &function,
                                   BufferInfo &buffer) {
  MLAC_RETURN_IF_ERROR(spend(partsOf(raw->name())));
  if (raw->kind() > fb::BufferKind::CacheScale)
    return error(MLA_CORRUPT, "unknown kind ", raw->kind());
  MLAC_RETURN_IF_ERROR(checkLength("name", raw->name()));
  MLAC_RETURN_IF_ERROR(requireType("buffer", raw->dtype()));
  bool isNamed = raw->kind() != fb::BufferKind::Cache && raw->kind() != fb::BufferKind::RopeTable &&
                 raw->kind() != fb::BufferKind::Workspace &&
                 raw->kind() != fb::BufferKind::CacheScale;
  if (isNamed)
    MLAC_RETURN_IF_ERROR(requireText("name", raw->name()));
  buffer = {std::string(text(raw->name())),
            raw->kind(),
            toType(raw->dtype()),
            raw->elements(),
            raw->byte_offset(),
            0};
  MLAC_RETURN_IF_ERROR(requireExpr("elements", function.exprs, buffer.elements, 0));
  if (raw->kind() == fb::BufferKind::Workspace)
    MLAC_RETURN_IF_ERROR(requireExpr("byte_offset", function.exprs, buffer.byteOffset, 0));
  return resolveBuffer(*raw, buffer);
}

namespace {
/// Walks the steps of a function; recursion is bounded by kMaxStepDepth.
class StepVerifier {
public:
  /// `spend` counts what is looked at.
  using Spend = std::function<Status(int64_t)>;
  StepVerifier(const fb::Target &target, const FunctionInfo &function, Spend spend)
      : target(target), function(function), spend(std::move(spend)) {}

  Status run(const StepList *steps, uint32_t loopDepth, uint32_t depth) {
    if (depth > kMaxStepDepth)
      return error(MLA_CORRUPT, "steps are nested deeper than ", kMaxStepDepth);
    for (uint32_t i = 0; i < sizeOf(steps); ++i) {
      MLAC_RETURN_IF_ERROR(spend(1));
      MLAC_RETURN_IF_ERROR(check(*steps->Get(i), loopDepth, depth).in("step ", i));
    }
    return Status();
  }

private:
  Status check(const fb::Step &step, uint32_t loopDepth, uint32_t depth) {
    int set = !!step.launch() + !!step.loop() + !!step.branch();
    if (set != 1)
      return error(MLA_CORRUPT, "expected one of launch, loop and branch, got ", set);
    if (step.launch())
      return check(*step.launch(), loopDepth);
    if (const fb::Loop *loop = step.loop()) {
      MLAC_RETURN_IF_ERROR(requireExpr("loop count", function.exprs, loop->count(), loopDepth));
      return run(loop->body(), loopDepth + 1, depth + 1);
    }
    const fb::Branch &branch = *step.branch();
    MLAC_RETURN_IF_ERROR(requireExpr("condition", function.exprs, branch.condition(), loopDepth));
    MLAC_RETURN_IF_ERROR(run(branch.then_steps(), loopDepth, depth + 1));
    return run(branch.else_steps(), loopDepth, depth + 1);
  }

  Status check(const fb::Launch &launch, uint32_t loopDepth) {
    if (launch.kernel() >= sizeOf(target.kernels()))
      return error(MLA_CORRUPT, "launches kernel ", launch.kernel(), " of ",
                   sizeOf(target.kernels()));
    if (sizeOf(launch.grid()) != 3)
      return error(MLA_CORRUPT, "expected 3 grid expressions, got ", sizeOf(launch.grid()));
    for (uint32_t expr : *launch.grid())
      MLAC_RETURN_IF_ERROR(requireExpr("grid", function.exprs, expr, loopDepth));
    MLAC_RETURN_IF_ERROR(requireRange("number of arguments",
                                      static_cast<int64_t>(sizeOf(launch.args())), 0, kMaxArgs));
    MLAC_RETURN_IF_ERROR(checkLength("label", launch.label()));
    MLAC_RETURN_IF_ERROR(spend(static_cast<int64_t>(sizeOf(launch.args()))));
    for (uint32_t i = 0; i < sizeOf(launch.args()); ++i)
      MLAC_RETURN_IF_ERROR(check(*launch.args()->Get(i), loopDepth).in("argument ", i));
    const fb::Kernel &kernel = *target.kernels()->Get(launch.kernel());
    return verifyTensorMapArgs(kernel, launch).in("kernel '", text(kernel.name()), "'");
  }

  Status check(const fb::Arg &arg, uint32_t loopDepth) {
    switch (arg.kind()) {
    case fb::ArgKind::Buffer:
      if (arg.buffer() < function.buffers.size())
        return Status();
      return error(MLA_CORRUPT, "buffer ", arg.buffer(), " of ", function.buffers.size());
    case fb::ArgKind::Index:
      return requireExpr("index", function.exprs, arg.expr(), loopDepth);
    case fb::ArgKind::F32:
      return Status();
    }
    return error(MLA_CORRUPT, "unknown kind ", arg.kind());
  }

  const fb::Target &target;
  const FunctionInfo &function;
  Spend spend;
};
} // namespace

static Status requireCost(const char *what, double value) {
  if (value >= 0 && value <= kMaxWorkCost) // false for NaN
    return Status();
  return error(MLA_CORRUPT, what, " is ", value, ", expected 0 to ", kMaxWorkCost);
}

/// None, for a function that cuts nothing; the last takes any number of pieces.
static Status readMergeForms(const fb::Work &given, WorkParams &work) {
  constexpr uint32_t fields = 3, most = std::numeric_limits<int32_t>::max();
  const auto *forms = given.merge_forms();
  if ((!forms || forms->size() == 0) && given.merge_programs() == 0)
    return Status();
  uint32_t count = forms ? forms->size() / fields : 0;
  if (count == 0 || count > work.mergeForms.size() || forms->size() != count * fields ||
      forms->Get((count - 1) * fields) != most)
    return error(MLA_CORRUPT, "merge_forms has ", forms ? forms->size() : 0,
                 " numbers, expected one to ", work.mergeForms.size(),
                 " triples, the last for any number of pieces");
  for (uint32_t i = 0; i < count; ++i) {
    auto number = [&](uint32_t field) { return forms->Get(i * fields + field); };
    MLAC_RETURN_IF_ERROR(requireRange("pieces of a merge form", number(0),
                                      i > 0 ? forms->Get((i - 1) * fields) + 1 : 1, most));
    MLAC_RETURN_IF_ERROR(requireRange("rows of a merge form", number(1), 1, kMaxModelDim));
    MLAC_RETURN_IF_ERROR(requireRange("columns of a merge form", number(2), 1, kMaxModelDim));
    work.mergeForms[i] = {number(0), number(1), number(2)};
  }
  MLAC_RETURN_IF_ERROR(
      requireRange("merge_programs", given.merge_programs(), 1, kMaxMergePrograms));
  work.mergePrograms = given.merge_programs();
  return Status();
}

static Status readWork(const fb::Function &raw, std::optional<WorkParams> &work) {
  const fb::Work *given = raw.work();
  if (!given)
    return Status();
  MLAC_RETURN_IF_ERROR(requireRange("keys_per_block", given->keys_per_block(), 1, kMaxPageSize));
  MLAC_RETURN_IF_ERROR(requireRange("rows_per_token", given->rows_per_token(), 1, kMaxModelDim));
  MLAC_RETURN_IF_ERROR(requireRange("rows_per_tile", given->rows_per_tile(), 1, kMaxModelDim));
  MLAC_RETURN_IF_ERROR(requireRange("tiles of a token",
                                    ceilDiv(given->rows_per_token(), given->rows_per_tile()), 1,
                                    kMaxTilesPerToken));
  MLAC_RETURN_IF_ERROR(requireRange("fixed_blocks", given->fixed_blocks(), 0, kMaxFixedBlocks));
  MLAC_RETURN_IF_ERROR(requireCost("item_cost", given->item_cost()));
  MLAC_RETURN_IF_ERROR(requireCost("merge_cost", given->merge_cost()));
  MLAC_RETURN_IF_ERROR(requireCost("partial_cost", given->partial_cost()));
  work = {given->keys_per_block(), given->rows_per_token(), given->rows_per_tile(),
          given->item_cost(),      given->merge_cost(),     given->fixed_blocks(),
          given->partial_cost()};
  return readMergeForms(*given, *work);
}

/// The first size or array of `owner` that the function uses; null if there is none.
static const char *findUse(const FunctionInfo &function, step::Owner owner) {
  for (size_t i = 0; i < kNumDims; ++i)
    if (step::kDims[i].owner == owner && function.exprs.usesDim(static_cast<Dim>(i)))
      return step::kDims[i].name;
  for (const BufferInfo &buffer : function.buffers)
    if (buffer.kind == fb::BufferKind::Metadata && step::kMetadata[buffer.index].owner == owner)
      return step::kMetadata[buffer.index].name;
  return nullptr;
}

/// What only some functions are given is not used by others.
static Status checkUses(const FunctionInfo &function) {
  const struct {
    step::Owner owner;
    bool isGiven;
    const char *missing;
  } owners[] = {
      {step::Owner::Work, function.work.has_value(), "a partition of its work"},
      {step::Owner::Parts, function.decodeThreshold > 0 || !function.decodesOf.empty(),
       "a decode_threshold"},
      {step::Owner::Shared, function.sharedTokens.has_value(), "a shared_prefix"},
  };
  for (const auto &[owner, isGiven, missing] : owners)
    if (const char *name = isGiven ? nullptr : findUse(function, owner))
      return error(MLA_CORRUPT, "uses ", name, " without ", missing);
  return Status();
}

/// The part of a prefix that is attended to apart is measured when only the sizes of the
/// owners in front of it are known.
static Status checkSharedTokens(const FunctionInfo &function) {
  if (!function.sharedTokens)
    return Status();
  for (Dim dim : function.exprs.dimsOf(*function.sharedTokens))
    if (dim != Dim::NumCommonTokens && step::info(dim).owner >= step::Owner::Shared)
      return error(MLA_CORRUPT, "shared_prefix: depends on ", dimName(dim),
                   ", which is not known when it is measured");
  return Status();
}

static Status readDims(const fb::Function &raw, std::vector<Dim> &dims) {
  for (uint32_t i = 0; i < sizeOf(raw.dims()); ++i) {
    std::string_view name = text(raw.dims()->Get(i));
    std::optional<Dim> dim = findDim(name);
    if (!dim)
      return error(MLA_UNSUPPORTED, "names the run-time size '", name,
                   "', which this runtime does not know");
    dims.push_back(*dim);
  }
  return Status();
}

Status PackageVerifier::readFunction(const fb::Target &target, const fb::Function *raw,
                                     FunctionInfo &function) {
  MLAC_RETURN_IF_ERROR(requireText("name", raw->name()));
  function.name = text(raw->name());
  function.raw = raw;
  function.target = &target;
  function.maxQueryLen = raw->max_query_len();
  std::vector<Dim> dims;
  MLAC_RETURN_IF_ERROR(readDims(*raw, dims));
  MLAC_RETURN_IF_ERROR(requireAligned("exprs", raw->exprs(), alignof(fb::ExprNode)));
  MLAC_RETURN_IF_ERROR(spend(static_cast<int64_t>(sizeOf(raw->exprs()))));
  std::vector<fb::ExprNode> nodes;
  for (uint32_t i = 0; i < sizeOf(raw->exprs()); ++i)
    nodes.push_back(*raw->exprs()->Get(i));
  // An expression field that was never set reads as node 0.
  if (nodes.empty())
    nodes.emplace_back(fb::ExprOp::Const, 0, 0, 0, 0);
  MLAC_RETURN_IF_ERROR(ExpressionTable::make(nodes, std::move(dims), function.exprs));
  function.workspaceBytes = raw->workspace_bytes();
  MLAC_RETURN_IF_ERROR(requireExpr("workspace_bytes", function.exprs, function.workspaceBytes, 0));
  for (uint32_t i = 0; i < sizeOf(raw->buffers()); ++i) {
    BufferInfo buffer;
    const fb::Buffer *rawBuffer = raw->buffers()->Get(i);
    MLAC_RETURN_IF_ERROR(readBuffer(rawBuffer, function, buffer)
                             .in("buffer ", i, " '", text(rawBuffer->name()), "'"));
    function.buffers.push_back(std::move(buffer));
  }
  MLAC_RETURN_IF_ERROR(readWork(*raw, function.work).in("work"));
  function.decodeThreshold = raw->decode_threshold();
  function.decodesOf = text(raw->decodes_of());
  if (const fb::SharedPrefix *shared = raw->shared_prefix()) {
    MLAC_RETURN_IF_ERROR(requireExpr("shared_prefix", function.exprs, shared->tokens(), 0));
    function.sharedTokens = shared->tokens();
  }
  MLAC_RETURN_IF_ERROR(checkSharedTokens(function));
  MLAC_RETURN_IF_ERROR(checkUses(function));
  function.usesChunks = findUse(function, step::Owner::Chunks) != nullptr;
  return StepVerifier(target, function, [this](int64_t parts) { return spend(parts); })
      .run(raw->steps(), 0, 0);
}
