//===- TestPackage.cpp - a small package for runtime tests ------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestPackage.h"

#include "PackageTrailer.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <unistd.h>

using namespace mlac;
using namespace mlac::test;

//===----------------------------------------------------------------------===//
// Packages
//===----------------------------------------------------------------------===//

fb::PackageT test::makeEmptyPackage() {
  fb::PackageT package;
  package.schema_version = kVersion;
  package.compiler = "unit test";
  package.model = std::make_unique<fb::ModelT>();
  package.model->model_type = "test";
  package.model->hidden_size = kHidden;
  package.model->num_heads = 1;
  package.model->tensor_parallel = 1;
  package.model->kv_lora_rank = kRank;
  package.model->qk_nope_head_dim = kRank;
  package.model->qk_rope_head_dim = kRope;
  package.model->v_head_dim = kRank;
  package.model->activation_dtype = fb::DataType::F32;
  auto pool = std::make_unique<fb::PoolT>();
  pool->name = "cache";
  pool->format = "mla_f32";
  pool->dtype = pool->element = fb::DataType::F32;
  pool->page_size = kPage;
  for (auto [name, columns] : {std::pair("latent", kRank), std::pair("rope", kRope)}) {
    pool->fields.push_back(std::make_unique<fb::PoolFieldT>());
    pool->fields.back()->name = name;
    pool->fields.back()->heads = 1;
    pool->fields.back()->columns = columns;
  }
  pool->rope_order = "interleaved";
  pool->row_bytes = kRow * sizeof(float);
  package.pools.push_back(std::move(pool));
  package.rope = std::make_unique<fb::RopeSpecT>();
  package.rope->inv_freq = {1.0f, 0.01f};
  package.rope->multiplier = 1.0f;
  package.rope->length = kRopeLength;
  package.weights.push_back(std::make_unique<fb::TensorT>());
  package.weights.back()->name = "w";
  package.weights.back()->dtype = fb::DataType::F32;
  package.weights.back()->shape = {kHidden};
  package.derived.push_back(std::make_unique<fb::TensorT>());
  package.derived.back()->name = "twice";
  package.derived.back()->dtype = fb::DataType::F32;
  package.derived.back()->shape = {kHidden};
  return package;
}

static uint32_t addBuffer(fb::FunctionT &function, fb::BufferKind kind, const char *name,
                          fb::DataType dtype, uint32_t elements = 0) {
  auto buffer = std::make_unique<fb::BufferT>();
  buffer->name = name;
  buffer->kind = kind;
  buffer->dtype = dtype;
  buffer->elements = elements;
  function.buffers.push_back(std::move(buffer));
  return static_cast<uint32_t>(function.buffers.size() - 1);
}

static fb::Arg pointer(uint32_t buffer) { return fb::Arg(fb::ArgKind::Buffer, buffer, 0, 0); }
static fb::Arg index(uint32_t expr) { return fb::Arg(fb::ArgKind::Index, 0, expr, 0); }
static fb::Arg number(float value) { return fb::Arg(fb::ArgKind::F32, 0, 0, value); }

static std::unique_ptr<fb::StepT> makeLaunch(uint32_t kernel, std::vector<uint32_t> grid,
                                             std::vector<fb::Arg> args, const char *label) {
  auto step = std::make_unique<fb::StepT>();
  step->launch = std::make_unique<fb::LaunchT>();
  step->launch->kernel = kernel;
  step->launch->grid = std::move(grid);
  step->launch->args = std::move(args);
  step->launch->label = label;
  return step;
}

/// Kernels by their place in the target.
enum KernelIndex : uint32_t { kScale, kAppend, kAttend, kChunk };

static std::unique_ptr<fb::FunctionT> makePrepare() {
  auto function = std::make_unique<fb::FunctionT>();
  function->name = "prepare";
  Exprs exprs(*function);
  uint32_t one = exprs.constant(1), width = exprs.constant(kHidden);
  uint32_t w = addBuffer(*function, fb::BufferKind::Weight, "w", fb::DataType::F32, width);
  uint32_t twice = addBuffer(*function, fb::BufferKind::Derived, "twice", fb::DataType::F32, width);
  function->steps.push_back(makeLaunch(
      kScale, {one, one, one}, {pointer(w), pointer(twice), index(width), number(2.0f)}, "scale"));
  return function;
}

static std::unique_ptr<fb::FunctionT> makeStep(const char *name, uint32_t maxQueryLen) {
  auto function = std::make_unique<fb::FunctionT>();
  function->name = name;
  function->max_query_len = maxQueryLen;
  Exprs exprs(*function);
  uint32_t one = exprs.constant(1), width = exprs.constant(kHidden);
  uint32_t tokens = exprs.dim("num_tokens");
  uint32_t requests = exprs.dim("num_requests");
  uint32_t columns = exprs.dim("max_blocks_per_request");
  uint32_t stride = exprs.dim("page_stride");
  uint32_t elements = exprs.add(fb::ExprOp::Mul, tokens, width);
  uint32_t bytes = exprs.add(fb::ExprOp::Mul, elements, exprs.constant(4));
  uint32_t unit = exprs.constant(256);
  function->workspace_bytes =
      exprs.add(fb::ExprOp::Mul, exprs.add(fb::ExprOp::CeilDiv, bytes, unit), unit);
  auto add = [&](fb::BufferKind kind, const char *buffer, fb::DataType dtype, uint32_t count = 0) {
    return pointer(addBuffer(*function, kind, buffer, dtype, count));
  };
  using Kind = fb::BufferKind;
  using Type = fb::DataType;
  fb::Arg hidden = add(Kind::Input, "hidden", Type::F32, elements);
  fb::Arg cache = add(Kind::Cache, "cache", Type::F32);
  fb::Arg slots = add(Kind::Metadata, "slot_mapping", Type::I64, tokens);
  fb::Arg scratch = add(Kind::Workspace, "", Type::F32, elements);
  fb::Arg output = add(Kind::Output, "output", Type::F32, elements);
  fb::Arg starts = add(Kind::Metadata, "query_start_loc", Type::I32);
  fb::Arg contexts = add(Kind::Metadata, "context_lens", Type::I32);
  fb::Arg blocks = add(Kind::Metadata, "block_table", Type::I32);
  fb::Arg twice = add(Kind::Derived, "twice", Type::F32);
  function->steps.push_back(makeLaunch(kAppend, {tokens, one, one},
                                       {hidden, cache, slots, scratch, index(stride)}, "append"));
  function->steps.push_back(makeLaunch(kAttend, {tokens, one, one},
                                       {cache, blocks, starts, contexts, twice, scratch, output,
                                        index(requests), index(columns), index(stride)},
                                       "attend"));
  return function;
}

static std::unique_ptr<fb::FunctionT> makeChunked() {
  auto function = std::make_unique<fb::FunctionT>();
  function->name = "chunked";
  Exprs exprs(*function);
  uint32_t one = exprs.constant(1);
  uint32_t requests = exprs.dim("num_requests");
  uint32_t chunks = exprs.dim("num_chunks");
  uint32_t chunk = exprs.loop(0);
  uint32_t table =
      addBuffer(*function, fb::BufferKind::Metadata, "chunk_cu_seq_lens", fb::DataType::I32);
  uint32_t lse = addBuffer(*function, fb::BufferKind::Output, "lse", fb::DataType::F32, chunks);
  auto loop = std::make_unique<fb::StepT>();
  loop->loop = std::make_unique<fb::LoopT>();
  loop->loop->count = chunks;
  loop->loop->body.push_back(
      makeLaunch(kChunk, {one, one, one},
                 {pointer(table), pointer(lse), index(requests), index(chunk)}, "chunk"));
  function->steps.push_back(std::move(loop));
  // As a decode function of queries that no other test uses, it is chosen only
  // by name.
  function->max_query_len = 3;
  return function;
}

/// Pages block_table[0, i] of `from` go to pages slot_mapping[i] of `to`; null: the pool.
static std::unique_ptr<fb::FunctionT> makePageCopy(const char *name, const char *from,
                                                   const char *to, uint32_t kernel) {
  auto function = std::make_unique<fb::FunctionT>();
  function->name = name;
  Exprs exprs(*function);
  uint32_t one = exprs.constant(1), pages = exprs.dim("num_tokens");
  uint32_t poolStride = exprs.dim("page_stride"), hostStride = exprs.constant(kPage * kRow);
  uint32_t hostElements = exprs.add(fb::ExprOp::Mul, exprs.dim("num_host_pages"), hostStride);
  using Kind = fb::BufferKind;
  auto add = [&](Kind kind, const char *buffer, fb::DataType dtype, uint32_t count) {
    return pointer(addBuffer(*function, kind, buffer, dtype, count));
  };
  fb::Arg pool = add(Kind::Cache, "cache", fb::DataType::F32, 0);
  fb::Arg blocks = add(Kind::Metadata, "block_table", fb::DataType::I32, pages);
  fb::Arg slots = add(Kind::Metadata, "slot_mapping", fb::DataType::I64, pages);
  auto memory = [&](const char *host, Kind kind) {
    return host ? add(kind, host, fb::DataType::F32, hostElements) : pool;
  };
  fb::Arg source = memory(from, Kind::Input), target = memory(to, Kind::Output);
  function->steps.push_back(makeLaunch(kernel, {pages, one, one},
                                       {source, index(from ? hostStride : poolStride), target,
                                        index(to ? hostStride : poolStride), blocks, slots},
                                       name));
  return function;
}

static fb::PackageT makePackageFor(fb::TargetKind kind, const char *arch, uint32_t threads,
                                   const std::string &code) {
  fb::PackageT package = makeEmptyPackage();
  auto target = std::make_unique<fb::TargetT>();
  target->kind = kind;
  target->arch = arch;
  target->assembler = "clang";
  target->code.push_back(std::make_unique<fb::CodeObjectT>());
  target->code.back()->name = "kernels";
  target->code.back()->bytes.assign(code.begin(), code.end());
  for (const char *name : {"scale", "append", "attend", "chunk"}) {
    target->kernels.push_back(std::make_unique<fb::KernelT>());
    target->kernels.back()->name = name;
    target->kernels.back()->symbol = std::string("test_") + name;
    target->kernels.back()->threads = threads;
  }
  target->functions.push_back(makePrepare());
  target->functions.push_back(makeStep("prefill", 0));
  target->functions.push_back(makeStep("decode", 1));
  target->functions.push_back(makeChunked());
  package.targets.push_back(std::move(target));
  return package;
}

fb::PackageT test::makePackage() {
  return makePackageFor(fb::TargetKind::Cpu, "x86-64", 1, readFile(MLAC_TEST_KERNELS));
}

fb::PackageT test::makePagesPackage() {
  fb::PackageT package = makePackage();
  fb::TargetT &target = *package.targets.front();
  target.kernels.push_back(std::make_unique<fb::KernelT>(*target.kernels.front()));
  target.kernels.back()->name = "copy";
  target.kernels.back()->symbol = "test_copy";
  auto kernel = static_cast<uint32_t>(target.kernels.size() - 1);
  target.functions.push_back(makePageCopy("copy_pages", nullptr, nullptr, kernel));
  target.functions.push_back(makePageCopy("swap_out", nullptr, "host", kernel));
  target.functions.push_back(makePageCopy("swap_in", "host", nullptr, kernel));
  return package;
}

fb::PackageT test::makePtxPackage() {
  using namespace std::string_literals;
  return makePackageFor(fb::TargetKind::Cuda, "sm_90", kHidden, ".version 8.0\n\0"s);
}

fb::PackageT test::makeForkPackage(int64_t limit) {
  fb::PackageT package = makePtxPackage();
  constexpr size_t kDecode = 2;
  std::unique_ptr<fb::FunctionT> &decode = package.targets.front()->functions[kDecode];
  std::unique_ptr<fb::FunctionT> whole = std::move(decode);
  decode = std::make_unique<fb::FunctionT>();
  decode->name = whole->name;
  decode->max_query_len = whole->max_query_len;
  Exprs exprs(*decode);
  uint32_t one = exprs.constant(1), width = exprs.constant(kHidden),
           tokens = exprs.dim("num_tokens");
  using Kind = fb::BufferKind;
  auto add = [&](Kind kind, const char *name, fb::DataType type = fb::DataType::F32) {
    return addBuffer(*decode, kind, name, type, width);
  };
  constexpr int64_t kUnit = 256;
  auto workspace = [&](int64_t number) {
    uint32_t buffer = add(Kind::Workspace, "");
    decode->buffers[buffer]->byte_offset = exprs.constant(number * kUnit);
    return pointer(buffer);
  };
  fb::Arg hidden = pointer(add(Kind::Input, "hidden")),
          output = pointer(add(Kind::Output, "output"));
  fb::Arg base = workspace(0), first = workspace(1), second = workspace(2);
  decode->workspace_bytes = exprs.constant(3 * kUnit);
  auto scale = [&](fb::Arg from, fb::Arg to, float factor) {
    return makeLaunch(kScale, {one, one, one}, {from, to, index(width), number(factor)}, "scale");
  };
  decode->steps.push_back(scale(hidden, base, 1));
  auto fork = std::make_unique<fb::StepT>();
  fork->fork = std::make_unique<fb::ForkT>();
  fork->fork->condition = exprs.add(fb::ExprOp::Le, tokens, exprs.constant(limit));
  fork->fork->main.push_back(scale(base, first, 2));
  fork->fork->side.push_back(scale(base, second, 3));
  decode->steps.push_back(std::move(fork));
  auto other = [&](Kind kind, const char *name, fb::DataType type) {
    return pointer(addBuffer(*decode, kind, name, type, 0));
  };
  fb::Arg cache = other(Kind::Cache, "cache", fb::DataType::F32),
          blocks = other(Kind::Metadata, "block_table", fb::DataType::I32),
          starts = other(Kind::Metadata, "query_start_loc", fb::DataType::I32),
          contexts = other(Kind::Metadata, "context_lens", fb::DataType::I32);
  decode->steps.push_back(makeLaunch(
      kAttend, {tokens, one, one},
      {cache, blocks, starts, contexts, first, second, output, index(one), index(one), index(one)},
      "attend"));
  return package;
}

#ifdef MLAC_TEST_CUBIN
fb::PackageT test::makeCudaPackage() {
  return makePackageFor(fb::TargetKind::Cuda, "sm_90", kHidden, readFile(MLAC_TEST_CUBIN));
}
#endif

std::string test::pack(const fb::PackageT &package) {
  flatbuffers::FlatBufferBuilder builder;
  fb::FinishPackageBuffer(builder, fb::CreatePackage(builder, &package));
  std::string bytes(reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize());
  fb::appendTrailer(bytes);
  return bytes;
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

/// Where a file of the build is: there, or in the folder that it was carried to with
/// this program (test/gpu/run_all.py).
static std::string locate(const std::string &built) {
  const char *folder = std::getenv("MLAC_TEST_FILES");
  return folder ? std::string(folder) + built.substr(built.rfind('/')) : built;
}

std::string test::readFile(const std::string &path) {
  std::ifstream file(locate(path), std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

TemporaryFile::TemporaryFile(const std::string &bytes) {
  path_ = ::testing::TempDir() + "mlac-runtime-XXXXXX";
  int file = mkstemp(path_.data());
  EXPECT_GE(file, 0);
  EXPECT_EQ(write(file, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  close(file);
}

TemporaryFile::~TemporaryFile() { unlink(path_.c_str()); }

std::string test::safetensors(const std::string &header, const std::string &data) {
  uint64_t length = header.size();
  std::string file(reinterpret_cast<const char *>(&length), sizeof length);
  return file + header + data;
}

//===----------------------------------------------------------------------===//
// Engine
//===----------------------------------------------------------------------===//

mla_engine_options EngineTest::defaultOptions() {
  mla_engine_options options;
  mla_engine_options_init(&options);
  options.max_num_requests = 4;
  options.max_num_tokens = 32;
  options.num_pages = 12;
  return options;
}

void EngineTest::start(const mla_engine_options &options, const fb::PackageT &content) {
  std::string bytes = pack(content);
  ASSERT_OK(mla_package_open_bytes(bytes.data(), bytes.size(), &package));
  ASSERT_OK(mla_device_open("cpu", 2, &device));
  ASSERT_OK(mla_engine_create(package, device, &options, &engine));
  std::vector<float> weight = {1, 2, 3, 4, 5, 6, 7, 8};
  int64_t shape[] = {kHidden};
  for (int64_t layer = 0; layer < options.num_layers; ++layer) {
    ASSERT_OK(mla_engine_bind_weight(engine, layer, "w", MLA_F32, shape, 1, weight.data()));
    ASSERT_OK(mla_engine_prepare(engine, layer));
  }
  ASSERT_OK(mla_plan_create(engine, &plan));
}

void EngineTest::stop() {
  EXPECT_EQ(mla_plan_destroy(plan), MLA_OK);
  EXPECT_EQ(mla_engine_destroy(engine), MLA_OK);
  EXPECT_EQ(mla_device_close(device), MLA_OK);
  EXPECT_EQ(mla_package_close(package), MLA_OK);
  plan = nullptr;
}

void EngineTest::TearDown() {
  if (plan)
    stop();
}

mla_sequence EngineTest::newSequence() {
  mla_sequence sequence = 0;
  EXPECT_EQ(mla_sequence_create(engine, &sequence), MLA_OK);
  return sequence;
}

mla_status EngineTest::planStep(const std::vector<mla_sequence> &sequences,
                                const std::vector<int32_t> &queryLens, const char *function) {
  mla_batch batch = {sizeof batch, static_cast<int64_t>(sequences.size()), sequences.data(),
                     queryLens.data(), 0};
  return mla_step_plan(plan, &batch, function, nullptr);
}

int64_t EngineTest::freePages() {
  mla_cache_stats stats{};
  EXPECT_EQ(mla_cache_get_stats(engine, 0, &stats), MLA_OK);
  return stats.free_pages;
}

int64_t EngineTest::length(mla_sequence sequence) {
  int64_t tokens = -1;
  EXPECT_EQ(mla_sequence_length(engine, sequence, &tokens), MLA_OK);
  return tokens;
}
