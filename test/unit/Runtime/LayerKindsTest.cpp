//===- LayerKindsTest.cpp - packages of several kinds of layers -*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a file with a package for each kind of layers must be, through the C API.
//
//===----------------------------------------------------------------------===//

#include "PackageTrailer.h"
#include "TestPackage.h"

#include <functional>
#include <random>

using namespace mlac::test;

static std::unique_ptr<fb::LayerKindT> makeKind(const char *name, std::vector<uint32_t> layers) {
  auto kind = std::make_unique<fb::LayerKindT>();
  kind->name = name;
  kind->layers = std::move(layers);
  std::string bytes = pack(makePackage());
  kind->package.assign(bytes.begin(), bytes.end());
  return kind;
}

/// Layers 0 and 2 of one kind, 1 of another.
static fb::PackageT makeKinds() {
  fb::PackageT package;
  package.schema_version = kVersion;
  package.kinds.push_back(makeKind("even", {0, 2}));
  package.kinds.push_back(makeKind("odd", {1}));
  return package;
}

static mla_status open(const std::string &bytes, mla_package **package) {
  return mla_package_open_bytes(bytes.data(), bytes.size(), package);
}

static void refuse(const char *text, const std::function<void(fb::PackageT &)> &change,
                   mla_status code = MLA_CORRUPT) {
  fb::PackageT content = makeKinds();
  change(content);
  mla_package *package = nullptr;
  expectStatus(open(pack(content), &package), code, text);
}

TEST(LayerKinds, AreListedAndTaken) {
  mla_package *package = nullptr, *kind = nullptr;
  ASSERT_OK(open(pack(makeKinds()), &package));
  const char *json = nullptr;
  ASSERT_OK(mla_package_info(package, &json));
  EXPECT_NE(std::string(json).find(R"({"name":"even","layers":[0,2],)"), std::string::npos) << json;
  EXPECT_EQ(std::string(json).find("\"model\""), std::string::npos);
  ASSERT_OK(mla_package_kind(package, 1, &kind));
  ASSERT_OK(mla_package_close(package)); // the kind outlives it
  ASSERT_OK(mla_package_info(kind, &json));
  EXPECT_NE(std::string(json).find(R"("kinds":[],"layers":[1],)"), std::string::npos) << json;
  EXPECT_NE(std::string(json).find("\"prefill\""), std::string::npos);
  ASSERT_OK(mla_package_close(kind));
}

TEST(LayerKinds, AreNoPackageToRun) {
  mla_package *package = nullptr, *kind = nullptr;
  mla_device *device = nullptr;
  mla_engine *engine = nullptr;
  ASSERT_OK(open(pack(makeKinds()), &package));
  ASSERT_OK(mla_device_open("cpu", 1, &device));
  constexpr const char *kText = "the package's layers are of 2 kinds (even, odd): take one of them "
                                "by mla_package_kind";
  expectStatus(mla_engine_create(package, device, nullptr, &engine), MLA_INVALID_ARGUMENT, kText);
  const char *json = nullptr;
  expectStatus(mla_step_replay(package, device, "/x", &json), MLA_INVALID_ARGUMENT, kText);
  for (int64_t index : {-1, 2})
    expectStatus(mla_package_kind(package, index, &kind), MLA_INVALID_ARGUMENT,
                 "the package has 2 kinds of layers");
  expectStatus(mla_package_kind(package, 0, nullptr), MLA_INVALID_ARGUMENT, "kind is null");
  ASSERT_OK(mla_device_close(device));
  ASSERT_OK(mla_package_close(package));
}

TEST(LayerKinds, DamageNamesTheKind) {
  refuse("kind 1 'even': the name is listed twice", [](auto &p) { p.kinds[1]->name = "even"; });
  refuse("kind 1 'odd': has a layer of 'even', too", [](auto &p) { p.kinds[1]->layers = {2}; });
  refuse("kind 0 'even': layer 2 behind layer 2", [](auto &p) { p.kinds[0]->layers = {2, 2}; });
  refuse("kind 0 'even': layers is 0", [](auto &p) { p.kinds[0]->layers.clear(); });
  refuse("kind 0 'even': layer is 4294967295", [](auto &p) { p.kinds[0]->layers = {~0u}; });
  refuse("kind 0 '': name", [](auto &p) { p.kinds[0]->name = ""; });
  refuse("kind 1 'odd': package is truncated", [](auto &p) { p.kinds[1]->package.clear(); });
  refuse("kind 1 'odd': package is damaged", [](auto &p) { p.kinds[1]->package[100] ^= 1; });
  refuse("a kind of layers has kinds of its own", [](auto &p) {
    std::string bytes = pack(makeKinds());
    p.kinds[1]->package.assign(bytes.begin(), bytes.end());
  });
  refuse("kinds is 17", [](auto &p) {
    while (p.kinds.size() < 17)
      p.kinds.push_back(makeKind(std::to_string(p.kinds.size()).c_str(),
                                 {static_cast<uint32_t>(p.kinds.size() + 1)}));
  });
  refuse(
      "schema version 0", [](auto &p) { p.schema_version = 0; }, MLA_UNSUPPORTED);
}

TEST(LayerKinds, DamageBehindAValidChecksumNeverCrashes) {
  std::string bytes = pack(makeKinds()), body = bytes.substr(0, bytes.size() - fb::kTrailerBytes);
  std::mt19937 random(1);
  int opened = 0;
  for (int round = 0; round < 500; ++round) {
    std::string damaged = body;
    damaged[random() % damaged.size()] = static_cast<char>(random());
    fb::appendTrailer(damaged);
    mla_package *package = nullptr;
    if (open(damaged, &package) != MLA_OK)
      continue;
    ++opened;
    ASSERT_OK(mla_package_close(package));
  }
  EXPECT_GT(opened, 0); // padding
}
