//===- TestPackage.h - a small package for runtime tests --------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Packages made by hand, so that the runtime is tested without a compiler. The
// kernels (TestKernels.c) do simple things that show whether the runtime passed
// the right addresses and sizes: rows are appended to the cache, then every
// token sums the rows that it may see.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_TEST_UNIT_RUNTIME_TESTPACKAGE_H
#define MLAC_TEST_UNIT_RUNTIME_TESTPACKAGE_H

#include "SchemaVersion.h"
#include "mla_runtime.h"
#include "package_generated.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace mlac::test {

namespace fb = ::mlac::package;

inline constexpr int64_t kHidden = 8; // hidden_size
inline constexpr int64_t kRank = 4;   // kv_lora_rank
inline constexpr int64_t kRope = 4;   // qk_rope_head_dim
inline constexpr int64_t kRow = kRank + kRope;
inline constexpr int64_t kPage = 4; // page_size
inline constexpr int64_t kRopeLength = 64;
inline constexpr int64_t kVersion = kSchemaVersion;

/// Adds expressions to a function.
class Exprs {
public:
  explicit Exprs(fb::FunctionT &function) : function(function) {
    if (function.exprs.empty())
      constant(0);
  }
  uint32_t add(fb::ExprOp op, uint32_t a, uint32_t b, uint32_t c = 0, int64_t value = 0) {
    function.exprs.emplace_back(op, a, b, c, value);
    return static_cast<uint32_t>(function.exprs.size() - 1);
  }
  uint32_t constant(int64_t value) { return add(fb::ExprOp::Const, 0, 0, 0, value); }
  uint32_t dim(const char *name) {
    function.dims.push_back(name);
    return add(fb::ExprOp::Dim, 0, 0, 0, static_cast<int64_t>(function.dims.size()) - 1);
  }
  uint32_t loop(int64_t depth) { return add(fb::ExprOp::LoopVar, 0, 0, 0, depth); }

private:
  fb::FunctionT &function;
};

/// Description, cache layout, rope table and weights ("w" f32 [8]); no target.
fb::PackageT makeEmptyPackage();

/// The package with one CPU target whose functions are
///   prepare  derived "twice" = 2 * w
///   decode   (queries of one token) and prefill: append, then
///            output[t, j] = twice[j] + sum of visible cache rows [j]
///   chunked  lse[i] = chunk_cu_seq_lens[i, last] for each chunk i, by a loop
fb::PackageT makePackage();

/// The same with the functions that move pages: copy_pages, swap_out and swap_in.
fb::PackageT makePagesPackage();

/// With an sm_90 target only, whose code is PTX without kernels: for the emulated driver,
/// which finds them by name.
fb::PackageT makePtxPackage();

/// The same whose decode (of a token) is, up to `limit` tokens beside each other,
///   base = hidden;  first = 2 * base  beside  second = 3 * base;  output = first + second
fb::PackageT makeForkPackage(int64_t limit);

#ifdef MLAC_TEST_CUBIN
/// The same with an sm_90 target only.
fb::PackageT makeCudaPackage();
#endif

/// The finished file.
std::string pack(const fb::PackageT &package);

/// Bytes of a file; fails the test if it cannot be read.
std::string readFile(const std::string &path);

/// A file with the given bytes that is removed at the end of the test.
class TemporaryFile {
public:
  explicit TemporaryFile(const std::string &bytes);
  ~TemporaryFile();
  const char *path() const { return path_.c_str(); }

private:
  std::string path_;
};

/// A safetensors file from a JSON header and data.
std::string safetensors(const std::string &header, const std::string &data);

inline void expectStatus(mla_status status, mla_status expected, const char *text) {
  EXPECT_EQ(status, expected) << mla_status_name(status) << ": " << mla_last_error();
  EXPECT_NE(std::string(mla_last_error()).find(text), std::string::npos)
      << "message: " << mla_last_error();
}

#define EXPECT_OK(call) EXPECT_EQ(call, MLA_OK) << mla_last_error()

/// Asserts success, showing the message.
#define ASSERT_OK(call)                                                                            \
  do {                                                                                             \
    mla_status status_ = (call);                                                                   \
    ASSERT_EQ(status_, MLA_OK) << mla_last_error();                                                \
  } while (false)

/// A package and an engine on the CPU, prepared, with a plan.
class EngineTest : public ::testing::Test {
protected:
  void SetUp() override { start(defaultOptions()); }
  void TearDown() override;

  static mla_engine_options defaultOptions();
  void start(const mla_engine_options &options, const fb::PackageT &content = makePackage());
  void stop();

  mla_sequence newSequence();
  /// Plans one step; the batch is sequences with their query lengths.
  mla_status planStep(const std::vector<mla_sequence> &sequences,
                      const std::vector<int32_t> &queryLens, const char *function = nullptr);
  int64_t freePages();
  int64_t length(mla_sequence sequence);

  mla_package *package = nullptr;
  mla_device *device = nullptr;
  mla_engine *engine = nullptr;
  mla_plan *plan = nullptr;
};

} // namespace mlac::test

#endif // MLAC_TEST_UNIT_RUNTIME_TESTPACKAGE_H
