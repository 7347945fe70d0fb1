//===- PackageTest.cpp - opening packages -----------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "package/LaunchList.h"

#include "PackageTrailer.h"
#include "TestPackage.h"

#include <functional>
#include <random>

using namespace mlac;
using namespace mlac::test;
using runtime::Package;
using runtime::Status;

static Status open(const std::string &bytes) {
  std::shared_ptr<Package> package;
  return Package::open(bytes.data(), bytes.size(), package);
}

/// Opens the test package after a change.
static Status openChanged(const std::function<void(fb::PackageT &)> &change) {
  fb::PackageT package = makePackage();
  change(package);
  return open(pack(package));
}

static void refuse(const char *text, const std::function<void(fb::PackageT &)> &change,
                   mla_status code = MLA_CORRUPT) {
  Status status = openChanged(change);
  EXPECT_EQ(status.code(), code) << text << ": " << status.message();
  EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
}

TEST(Package, OpensAndDescribes) {
  std::string bytes = pack(makePackage());
  std::shared_ptr<Package> package;
  Status status = Package::open(bytes.data(), bytes.size(), package);
  ASSERT_TRUE(status.isOk()) << status.message();
  EXPECT_NE(package->infoJson().find("\"prefill\""), std::string::npos);
  EXPECT_EQ(package->targets().size(), 1u);
}

TEST(Package, EveryTruncationIsCorrupt) {
  std::string bytes = pack(makeEmptyPackage());
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_EQ(open(bytes.substr(0, length)).code(), MLA_CORRUPT) << length;
}

TEST(Package, EveryDamagedByteIsCorrupt) {
  std::string bytes = pack(makeEmptyPackage());
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] ^= 0x10;
    EXPECT_EQ(open(damaged).code(), MLA_CORRUPT) << i;
  }
}

TEST(Package, DamageBehindAValidChecksumNeverCrashes) {
  fb::PackageT package = makePackage();
  package.targets[0]->code[0]->bytes.assign(16, 0); // keep the file small
  std::string bytes = pack(package);
  std::string body = bytes.substr(0, bytes.size() - fb::kTrailerBytes);
  std::mt19937 random(1);
  int opened = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = body;
    for (int change = 0; change <= round % 3; ++change)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    fb::appendTrailer(damaged);
    std::shared_ptr<Package> result;
    if (!Package::open(damaged.data(), damaged.size(), result).isOk())
      continue;
    ++opened;
    EXPECT_FALSE(result->infoJson().empty());
    for (const runtime::FunctionInfo &function : result->targets()[0].functions) {
      runtime::DimValues dims;
      dims.fill(3);
      runtime::LaunchList list;
      (void)resolveLaunches(function, dims, list);
    }
  }
  // Most damage hits padding, names or numbers that nothing depends on.
  EXPECT_GT(opened, 0);
}

TEST(Package, OtherFilesAreNotPackages) {
  EXPECT_NE(open(std::string(100, 'x')).message().find("not an mlac package"), std::string::npos);
}

TEST(Package, MissingFileIsNotFound) {
  std::shared_ptr<Package> package;
  EXPECT_EQ(Package::openFile("/nonexistent.mlac", package).code(), MLA_NOT_FOUND);
}

TEST(Package, OtherSchemaVersionIsUnsupported) {
  for (uint32_t other : {0u, kSchemaVersion - 1, kSchemaVersion + 1}) {
    std::string text = "schema version " + std::to_string(other) + ", this runtime reads " +
                       std::to_string(kSchemaVersion);
    refuse(
        text.c_str(), [&](auto &p) { p.schema_version = other; }, MLA_UNSUPPORTED);
  }
}

TEST(Package, InconsistentModelsAreRefused) {
  refuse("lacks its model", [](auto &p) { p.model.reset(); });
  refuse("hidden_size is 0", [](auto &p) { p.model->hidden_size = 0; });
  refuse("row_bytes is 32", [](auto &p) { p.pools[0]->fields[1]->columns = 2; });
  refuse("row_bytes is 31", [](auto &p) { p.pools[0]->row_bytes = 31; });
  refuse("page_size is 0", [](auto &p) { p.pools[0]->page_size = 0; });
  refuse("field 'latent' is not of format mla_f32 there",
         [](auto &p) { std::swap(p.pools[0]->fields[0], p.pools[0]->fields[1]); });
  refuse("columns is 0", [](auto &p) { p.pools[0]->fields[0]->columns = 0; });
  refuse("tokens_per_row = 4", [](auto &p) { p.pools[0]->tokens_per_row = 4; });
  refuse("the name has a slash", [](auto &p) { p.pools[0]->name = "a/b"; });
  refuse("package has 0 pools, expected 1 to 8", [](auto &p) { p.pools.clear(); });
  refuse("names no pool of the package", [](auto &p) { p.pools[0]->name = "other"; });
  refuse("inv_freq has 1 values", [](auto &p) { p.rope->inv_freq.pop_back(); });
  refuse("inv_freq[0] is not finite", [](auto &p) { p.rope->inv_freq[0] = INFINITY; });
  refuse("length is 0", [](auto &p) { p.rope->length = 0; });
  refuse("extent is -1", [](auto &p) { p.weights[0]->shape[0] = -1; });
  refuse("'w' is listed twice",
         [](auto &p) { p.weights.push_back(std::make_unique<fb::TensorT>(*p.weights[0])); });
  refuse("package has no target", [](auto &p) { p.targets.clear(); });
}

TEST(Package, BadIndicesAreRefused) {
  auto inPrefill = [](const std::function<void(fb::FunctionT &)> &change) {
    return [change](fb::PackageT &p) { change(*p.targets[0]->functions[1]); };
  };
  refuse("code object 9 of 1", [](auto &p) { p.targets[0]->kernels[0]->code = 9; });
  refuse("scratch_bytes is 8388608",
         [](auto &p) { p.targets[0]->kernels[0]->scratch_bytes = 8 << 20; });
  refuse("function 'prefill': step 0: launches kernel 9 of 4",
         inPrefill([](auto &f) { f.steps[0]->launch->kernel = 9; }));
  refuse("argument 0: buffer 99", inPrefill([](auto &f) {
           f.steps[0]->launch->args[0] = fb::Arg(fb::ArgKind::Buffer, 99, 0, 0);
         }));
  refuse("index is expression 999", inPrefill([](auto &f) {
           f.steps[0]->launch->args[0] = fb::Arg(fb::ArgKind::Index, 0, 999, 0);
         }));
  refuse("expected 3 grid expressions, got 2",
         inPrefill([](auto &f) { f.steps[0]->launch->grid.pop_back(); }));
  refuse("workspace_bytes is expression 999", inPrefill([](auto &f) { f.workspace_bytes = 999; }));
  refuse("expected one of launch, loop, branch and fork, got 0",
         inPrefill([](auto &f) { f.steps[0]->launch.reset(); }));
  refuse("names unknown metadata", inPrefill([](auto &f) { f.buffers[2]->name = "slots"; }));
  refuse("has type i32, expected i64",
         inPrefill([](auto &f) { f.buffers[2]->dtype = fb::DataType::I32; }));
  refuse("uses a loop variable outside its loop",
         inPrefill([](auto &f) { f.workspace_bytes = Exprs(f).loop(0); }));
  refuse("function 'prefill' is listed twice",
         [](auto &p) { p.targets[0]->functions[2]->name = "prefill"; });
}

TEST(Package, UnknownRunTimeSizeIsUnsupported) {
  refuse(
      "run-time size 'num_moons'",
      [](auto &p) { p.targets[0]->functions[1]->dims[0] = "num_moons"; }, MLA_UNSUPPORTED);
}

TEST(Package, B26_BadPartitionsAreRefused) {
  auto inPrefill = [](const std::function<void(fb::WorkT &)> &change) {
    return [change](fb::PackageT &p) {
      fb::FunctionT &function = *p.targets[0]->functions[1];
      function.work = std::make_unique<fb::WorkT>();
      function.work->keys_per_block = function.work->rows_per_tile = 64;
      function.work->rows_per_token = 128;
      change(*function.work);
    };
  };
  EXPECT_TRUE(openChanged(inPrefill([](auto &) {})).isOk());
  refuse("function 'prefill': work: keys_per_block is 0",
         inPrefill([](auto &w) { w.keys_per_block = 0; }));
  refuse("keys_per_block is 65537", inPrefill([](auto &w) { w.keys_per_block = 65537; }));
  refuse("rows_per_token is 0", inPrefill([](auto &w) { w.rows_per_token = 0; }));
  refuse("rows_per_tile is 0", inPrefill([](auto &w) { w.rows_per_tile = 0; }));
  refuse("runs_per_token is 0", inPrefill([](auto &w) { w.runs_per_token = 0; }));
  refuse("runs_per_token is 4294967295", inPrefill([](auto &w) { w.runs_per_token = ~0u; }));
  refuse("rows_per_tile is 4294967295", inPrefill([](auto &w) { w.rows_per_tile = ~0u; }));
  refuse("fixed_blocks is 2097152", inPrefill([](auto &w) { w.fixed_blocks = 1 << 21; }));
  refuse("window is 4294967295", inPrefill([](auto &w) { w.window = ~0u; }));
  refuse("item_cost is -1", inPrefill([](auto &w) { w.item_cost = -1; }));
  refuse("item_cost is nan", inPrefill([](auto &w) { w.item_cost = NAN; }));
  refuse("merge_cost is inf", inPrefill([](auto &w) { w.merge_cost = INFINITY; }));
  refuse("uses num_parts without a partition of its work",
         [](auto &p) { p.targets[0]->functions[1]->dims[0] = "num_parts"; });
  refuse("uses work_items without a partition of its work", [](auto &p) {
    p.targets[0]->functions[1]->buffers[5]->name = "work_items"; // was query_start_loc
  });
}

TEST(Package, SizesAndMetadataOfWhatAFunctionLacksAreRefused) {
  const struct {
    const char *size, *metadata, *missing;
  } owners[] = {{"num_decodes", "prefill_query_start_loc", "a decode_threshold"},
                {"num_shared_tokens", "shared_query_start_loc", "a shared_prefix"},
                {"num_prompts", "prompt_requests", "prompts"}};
  for (const auto &[size, metadata, missing] : owners) {
    refuse(mlac::runtime::concat("uses ", size, " without ", missing).c_str(),
           [size](auto &p) { p.targets[0]->functions[1]->dims[0] = size; });
    refuse(mlac::runtime::concat("uses ", metadata, " without ", missing).c_str(),
           [metadata](auto &p) {
             p.targets[0]->functions[1]->buffers[5]->name = metadata; // was query_start_loc
           });
  }
}

TEST(Package, SharedTokensDependOnWhatIsKnownBeforeThem) {
  auto ofSize = [](const char *size) {
    return [size](fb::PackageT &p) {
      fb::FunctionT &function = *p.targets[0]->functions[1];
      auto dim = static_cast<int64_t>(function.dims.size());
      auto node = static_cast<uint32_t>(function.exprs.size());
      function.dims.push_back(size);
      function.exprs.emplace_back(fb::ExprOp::Dim, 0, 0, 0, dim);
      function.exprs.emplace_back(fb::ExprOp::Add, node, node, 0, 0);
      function.shared_prefix = std::make_unique<fb::SharedPrefixT>();
      function.shared_prefix->tokens = node + 1;
    };
  };
  EXPECT_TRUE(openChanged(ofSize("num_common_tokens")).isOk());
  EXPECT_TRUE(openChanged(ofSize("num_requests")).isOk());
  for (const char *later : {"num_chunks", "num_shared_tokens"})
    refuse(mlac::runtime::concat("shared_prefix: depends on ", later).c_str(), ofSize(later));
}

TEST(Package, D10_PromptsHaveARuleThatIsKnownBeforeThem) {
  auto change = [](const char *size, uint32_t above, uint32_t threshold = 0) {
    return [=](fb::PackageT &p) {
      fb::FunctionT &function = *p.targets[0]->functions[1];
      auto dim = static_cast<int64_t>(function.dims.size());
      auto node = static_cast<uint32_t>(function.exprs.size());
      function.dims.push_back(size);
      function.exprs.emplace_back(fb::ExprOp::Dim, 0, 0, 0, dim);
      function.prompts = std::make_unique<fb::PromptsT>();
      function.prompts->pays = node;
      function.prompts->above = above;
      function.prompts->items_per_token = function.prompts->tokens_per_item = 1;
      function.prompts->keys_per_block = 4;
      function.decode_threshold = threshold;
      if (!function.work)
        function.work = std::make_unique<fb::WorkT>();
      function.work->keys_per_block = 4;
      function.work->rows_per_token = function.work->rows_per_tile = 1;
      function.work->merge_forms = {std::numeric_limits<int32_t>::max(), 1, 1};
      function.work->merge_programs = 1;
    };
  };
  for (const char *known : {"num_prompt_tokens", "num_prompts", "num_requests", "num_sms"})
    EXPECT_TRUE(openChanged(change(known, 43)).isOk()) << known;
  for (const char *later : {"num_chunks", "num_parts", "num_prompt_parts"})
    refuse(mlac::runtime::concat("prompts: depends on ", later).c_str(), change(later, 43));
  EXPECT_TRUE(openChanged(change("max_query_len", 0)).isOk()); // all requests
  refuse("prompts: without a partition of the whole batch's work", change("num_prompts", 43, 4));
  refuse("prompts: without a partition of the whole batch's work", [&](fb::PackageT &p) {
    change("num_prompts", 43)(p);
    p.targets[0]->functions[1]->work = nullptr;
  });
  auto spoil = [&](auto changePrompts) {
    return [=](fb::PackageT &p) {
      change("num_prompts", 43)(p);
      changePrompts(*p.targets[0]->functions[1]);
    };
  };
  refuse("prompts: without programs that merge their parts", spoil([](fb::FunctionT &function) {
           function.work->merge_forms.clear();
           function.work->merge_programs = 0;
         }));
  refuse("tokens_per_item", spoil([](fb::FunctionT &f) { f.prompts->tokens_per_item = 0; }));
  refuse("merge_cost", spoil([](fb::FunctionT &f) { f.prompts->merge_cost = -1; }));
}

/// A map of the buffer argument 0 of the launch, [argument 4, 64] with stride 64.
static std::unique_ptr<fb::TensorMapT> makeMap() {
  auto map = std::make_unique<fb::TensorMapT>();
  map->argument = 0;
  map->offset = std::make_unique<fb::ScaledArg>(0, -1);
  map->sizes = {fb::ScaledArg(1, 4), fb::ScaledArg(64, -1)};
  map->strides = {fb::ScaledArg(64, -1), fb::ScaledArg(1, -1)};
  map->box = {64, 32};
  return map;
}

TEST(Package, BadTensorMapsAreRefused) {
  // The kernel of the first launch of prefill: hidden, cache, slots, scratch, stride.
  auto onGpu = [](const std::function<void(fb::TensorMapT &)> &change) {
    return [change](fb::PackageT &p) {
      p.targets[0]->kind = fb::TargetKind::Cuda;
      auto &maps = p.targets[0]->kernels[1]->tensor_maps;
      maps.push_back(makeMap());
      change(*maps.back());
    };
  };
  EXPECT_TRUE(openChanged(onGpu([](auto &) {})).isOk());
  refuse("kernel 1 'append': tensor map 0: has rank 1, expected 2 to 5", onGpu([](auto &m) {
           m.sizes.resize(1);
           m.strides.resize(1);
           m.box.resize(1);
         }));
  refuse("has 2 sizes, 1 strides and a box of 2", onGpu([](auto &m) { m.strides.resize(1); }));
  refuse("has 2 sizes, 2 strides and a box of 3", onGpu([](auto &m) { m.box.push_back(1); }));
  refuse("has no offset", onGpu([](auto &m) { m.offset.reset(); }));
  refuse("has an innermost stride that is not 1",
         onGpu([](auto &m) { m.strides[1] = fb::ScaledArg(2, -1); }));
  refuse("has an innermost stride that is not 1",
         onGpu([](auto &m) { m.strides[1] = fb::ScaledArg(1, 4); }));
  refuse("has a box of 257, expected 1 to 256", onGpu([](auto &m) { m.box[0] = 257; }));
  refuse("has a box of 0, expected 1 to 256", onGpu([](auto &m) { m.box[0] = 0; }));
  refuse("step 0: kernel 'append': tensor map 0: names argument 5 of 5",
         onGpu([](auto &m) { m.argument = 5; }));
  refuse("names argument 4, expected kind Buffer, got Index",
         onGpu([](auto &m) { m.argument = 4; }));
  refuse("names argument 0, expected kind Index, got Buffer",
         onGpu([](auto &m) { m.sizes[0] = fb::ScaledArg(1, 0); }));
  refuse("names argument 9 of 5", onGpu([](auto &m) { m.strides[0] = fb::ScaledArg(1, 9); }));
  refuse("17 tensor maps, limit 16", [](auto &p) {
    p.targets[0]->kind = fb::TargetKind::Cuda;
    for (int i = 0; i < 17; ++i)
      p.targets[0]->kernels[1]->tensor_maps.push_back(makeMap());
  });
  refuse("has tensor maps on a CPU",
         [](auto &p) { p.targets[0]->kernels[1]->tensor_maps.push_back(makeMap()); });
}

TEST(Package, DeepNestingIsRefused) {
  Status status = openChanged([](fb::PackageT &p) {
    auto *steps = &p.targets[0]->functions[1]->steps;
    for (int depth = 0; depth < 1000; ++depth) {
      steps->push_back(std::make_unique<fb::StepT>());
      steps->back()->loop = std::make_unique<fb::LoopT>();
      steps = &steps->back()->loop->body;
    }
  });
  EXPECT_EQ(status.code(), MLA_CORRUPT);
}
