//===- PlanSerializerTest.cpp - tile.plan to package function ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Package/PlanSerializer.h"

#include "mla/Dialect/Tile/IR/TileDialect.h"
#include "mla/Package/Expressions.h"
#include "mla/Package/PackageFile.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlac;
using package::FunctionT;

namespace {
/// Three compiled kernels, and a plan around a test's body.
class PlanSerializerTest : public ::testing::Test {
protected:
  PlanSerializerTest() {
    context.loadDialect<tile::TileDialect, arith::ArithDialect, memref::MemRefDialect,
                        scf::SCFDialect>();
    kernels["fill"] = 0;
    kernels["copy"] = 1;
    kernels["patient"] = 2;
  }

  /// The function, or null with the diagnostic in `error`.
  std::unique_ptr<FunctionT> serialize(const std::string &body) {
    std::string text = R"mlir(
      tile.kernel @fill(%a: memref<?xbf16>, %n: index, %v: f32) { tile.return }
      tile.kernel @copy(%a: memref<?xbf16>, %b: memref<?xbf16>, %n: index) { tile.return }
      tile.kernel @unknown(%n: index) { tile.return }
      tile.kernel @patient(%n: index) attributes {tile.waits_for_dependency} { tile.return }
      tile.plan @decode max_query_len 4 {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c2 = arith.constant 2 : index
        %f = arith.constant 1.5 : f32
        %t = tile.dim "num_tokens"
        %chunks = tile.dim "num_chunks"
        %hidden = tile.buffer input "hidden" : memref<?xbf16>
    )mlir" + body + "\n tile.return }";
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      llvm::raw_string_ostream stream(error);
      stream << diagnostic.getLocation() << ": " << diagnostic;
      return success();
    });
    module = parseSourceString<ModuleOp>(text, &context);
    if (!module)
      return nullptr;
    auto plan = *module->getOps<tile::PlanOp>().begin();
    auto function = serializePlan(plan, kernels);
    return failed(function) ? nullptr : std::move(*function);
  }

  static int64_t evaluate(const FunctionT &function, ExprId id, ArrayRef<int64_t> dims,
                          ArrayRef<int64_t> loops = {}) {
    return evaluateExpression(function.exprs, id, dims, loops).value_or(-1);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  KernelIndex kernels;
  std::string error;
};
} // namespace

TEST_F(PlanSerializerTest, LaunchHoldsGridAndArguments) {
  auto function = serialize(R"mlir(
    %c64 = arith.constant 64 : index
    %gx = arith.ceildivsi %t, %c64 : index
    tile.launch @fill grid(%gx, %c1, %c1) args(%hidden, %t, %f) {label = "fill it"}
        : memref<?xbf16>, index, f32)mlir");
  ASSERT_TRUE(function) << error;
  EXPECT_EQ(function->name, "decode");
  EXPECT_EQ(function->max_query_len, 4u);
  EXPECT_EQ(function->dims, std::vector<std::string>{"num_tokens"}); // num_chunks is dead
  ASSERT_EQ(function->steps.size(), 1u);
  const package::LaunchT &launch = *function->steps[0]->launch;
  EXPECT_EQ(launch.label, "fill it");
  EXPECT_EQ(launch.kernel, 0u);
  ASSERT_EQ(launch.grid.size(), 3u);
  EXPECT_EQ(evaluate(*function, launch.grid[0], {65}), 2);
  EXPECT_EQ(evaluate(*function, launch.grid[1], {65}), 1);
  ASSERT_EQ(launch.args.size(), 3u);
  EXPECT_EQ(launch.args[0].kind(), package::ArgKind::Buffer);
  EXPECT_EQ(function->buffers[launch.args[0].buffer()]->name, "hidden");
  EXPECT_EQ(evaluate(*function, launch.args[1].expr(), {65}), 65);
  EXPECT_EQ(launch.args[2].f32(), 1.5f);
}

TEST_F(PlanSerializerTest, ElementsOfTheCallersBuffers) {
  auto function = serialize(R"mlir(
    %n = arith.muli %t, %c2 : index
    %out = tile.buffer output "output" elements %n : memref<?xbf16>
    tile.launch @copy grid(%t, %c1, %c1) args(%hidden, %out, %t)
        : memref<?xbf16>, memref<?xbf16>, index)mlir");
  ASSERT_TRUE(function) << error;
  ASSERT_EQ(function->buffers.size(), 2u);
  EXPECT_EQ(function->buffers[0]->elements, 0u); // not said
  EXPECT_EQ(evaluate(*function, function->buffers[1]->elements, {65}), 130);
}

TEST_F(PlanSerializerTest, LoopsAndBranchesNest) {
  auto function = serialize(R"mlir(
    %has = arith.cmpi sgt, %chunks, %c0 : index
    scf.if %has {
      scf.for %i = %c0 to %chunks step %c1 {
        scf.for %j = %c0 to %c2 step %c1 {
          %n = arith.addi %i, %j : index
          tile.launch @fill grid(%t, %c1, %c1) args(%hidden, %n, %f) : memref<?xbf16>, index, f32
        }
      }
    } else {
      tile.launch @fill grid(%c1, %c1, %c1) args(%hidden, %c0, %f) : memref<?xbf16>, index, f32
    })mlir");
  ASSERT_TRUE(function) << error;
  const package::BranchT &branch = *function->steps[0]->branch;
  EXPECT_EQ(evaluate(*function, branch.condition, {3, 8}), 1);
  EXPECT_EQ(evaluate(*function, branch.condition, {0, 8}), 0);
  EXPECT_EQ(branch.else_steps.size(), 1u);
  const package::LoopT &outer = *branch.then_steps[0]->loop;
  EXPECT_EQ(evaluate(*function, outer.count, {3, 8}), 3);
  const package::LoopT &inner = *outer.body[0]->loop;
  EXPECT_EQ(evaluate(*function, inner.count, {3, 8}), 2);
  const package::LaunchT &launch = *inner.body[0]->launch;
  EXPECT_EQ(evaluate(*function, launch.args[1].expr(), {3, 8}, {2, 1}), 3);
}

TEST_F(PlanSerializerTest, V4_41_SidesOfAForkShareNoWorkspace) {
  auto function = serialize(R"mlir(
    %few = arith.cmpi sle, %t, %c2 : index
    %a = tile.workspace %t : memref<?xbf16>
    %b = tile.workspace %t : memref<?xbf16>
    %c = tile.workspace %t : memref<?xbf16>
    tile.fork if %few {
      tile.launch @fill grid(%t, %c1, %c1) args(%a, %c0, %f) : memref<?xbf16>, index, f32
      tile.launch @fill grid(%t, %c1, %c1) args(%c, %c0, %f) : memref<?xbf16>, index, f32
    } beside {
      tile.launch @fill grid(%t, %c1, %c1) args(%b, %c0, %f) : memref<?xbf16>, index, f32
    }
    %d = tile.workspace %t : memref<?xbf16>
    tile.launch @fill grid(%t, %c1, %c1) args(%d, %c0, %f) : memref<?xbf16>, index, f32)mlir");
  ASSERT_TRUE(function) << error;
  const package::ForkT &fork = *function->steps[0]->fork;
  EXPECT_EQ(evaluate(*function, fork.condition, {2, 8}), 1);
  EXPECT_EQ(evaluate(*function, fork.condition, {3, 8}), 0);
  EXPECT_EQ(fork.main.size(), 2u);
  EXPECT_EQ(fork.side.size(), 1u);
  // The fork's are apart, whichever comes first; what is behind it takes one of their places.
  std::set<int64_t> places;
  for (const auto &buffer : function->buffers)
    if (buffer->kind == package::BufferKind::Workspace)
      places.insert(evaluate(*function, buffer->byte_offset, {3, 8}));
  EXPECT_EQ(places.size(), 3u);
}

TEST_F(PlanSerializerTest, KnownConditionKeepsOneSide) {
  auto function = serialize(R"mlir(
    %true = arith.constant true
    scf.if %true {
      tile.launch @fill grid(%t, %c1, %c1) args(%hidden, %c1, %f) : memref<?xbf16>, index, f32
    } else {
      tile.launch @fill grid(%t, %c2, %c1) args(%hidden, %c0, %f) : memref<?xbf16>, index, f32
    })mlir");
  ASSERT_TRUE(function) << error;
  ASSERT_EQ(function->steps.size(), 1u);
  ASSERT_TRUE(function->steps[0]->launch);
  EXPECT_EQ(evaluate(*function, function->steps[0]->launch->grid[1], {8}), 1);
}

TEST_F(PlanSerializerTest, WorkspacesShareWhereRangesDoNotMeet) {
  // a and c are never live together; b overlaps both.
  auto function = serialize(R"mlir(
    %n = arith.muli %t, %c2 : index
    %a = tile.workspace %n : memref<?xbf16>
    %b = tile.workspace %n : memref<?xbf16>
    %c = tile.workspace %n : memref<?xbf16>
    tile.launch @copy grid(%t, %c1, %c1) args(%hidden, %a, %t) : memref<?xbf16>, memref<?xbf16>, index
    tile.launch @copy grid(%t, %c1, %c1) args(%a, %b, %t) : memref<?xbf16>, memref<?xbf16>, index
    tile.launch @copy grid(%t, %c1, %c1) args(%b, %c, %t) : memref<?xbf16>, memref<?xbf16>, index
  )mlir");
  ASSERT_TRUE(function) << error;
  auto offset = [&](size_t step, size_t arg) {
    uint32_t buffer = function->steps[step]->launch->args[arg].buffer();
    return evaluate(*function, function->buffers[buffer]->byte_offset, {100});
  };
  EXPECT_EQ(offset(1, 0), offset(2, 1));
  EXPECT_NE(offset(1, 0), offset(1, 1));
  EXPECT_EQ(evaluate(*function, function->workspace_bytes, {100}), 2 * 512); // 400 rounded up
  EXPECT_EQ(evaluate(*function, function->buffers[1]->elements, {100}), 200);
}

TEST_F(PlanSerializerTest, WorkspaceUsedInALoopLivesThroughIt) {
  // acc may carry a value to the next iteration: tmp may not share with it,
  // although each is used by one launch only.
  auto function = serialize(R"mlir(
    %acc = tile.workspace %t : memref<?xbf16>
    %tmp = tile.workspace %t : memref<?xbf16>
    scf.for %i = %c0 to %chunks step %c1 {
      tile.launch @fill grid(%t, %c1, %c1) args(%acc, %t, %f) : memref<?xbf16>, index, f32
      tile.launch @fill grid(%t, %c1, %c1) args(%tmp, %t, %f) : memref<?xbf16>, index, f32
    })mlir");
  ASSERT_TRUE(function) << error;
  EXPECT_EQ(evaluate(*function, function->workspace_bytes, {1, 1}), 512);
}

TEST_F(PlanSerializerTest, WorkspacesOfTheTwoSidesOfABranchShare) {
  auto function = serialize(R"mlir(
    %has = arith.cmpi sgt, %chunks, %c0 : index
    %x = tile.workspace %t : memref<?xbf16>
    %y = tile.workspace %t : memref<?xbf16>
    scf.if %has {
      tile.launch @fill grid(%t, %c1, %c1) args(%x, %t, %f) : memref<?xbf16>, index, f32
    } else {
      tile.launch @fill grid(%t, %c1, %c1) args(%y, %t, %f) : memref<?xbf16>, index, f32
    })mlir");
  ASSERT_TRUE(function) << error;
  EXPECT_EQ(evaluate(*function, function->workspace_bytes, {1, 1}), 256);
}

TEST_F(PlanSerializerTest, NamedBuffersAreKeptOnceWithTheirShape) {
  auto function = serialize(R"mlir(
    %w0 = tile.buffer weight "o_proj.weight" shape [64, 32] : memref<?xbf16>
    %w1 = tile.buffer weight "o_proj.weight" shape [64, 32] : memref<?xbf16>
    tile.launch @copy grid(%t, %c1, %c1) args(%w0, %w1, %t) : memref<?xbf16>, memref<?xbf16>, index
  )mlir");
  ASSERT_TRUE(function) << error;
  ASSERT_EQ(function->buffers.size(), 1u);
  EXPECT_EQ(function->buffers[0]->kind, package::BufferKind::Weight);
  EXPECT_EQ(evaluate(*function, function->buffers[0]->elements, {1}), 2048);
}

TEST_F(PlanSerializerTest, B26_WorkKeepsItsNumbers) {
  auto function = serialize(R"mlir(
    tile.work keys_per_block 64 rows_per_token 128 rows_per_tile 32 runs_per_token 4 item_cost 2.5 merge_cost 0.75 fixed_blocks 8
    %parts = tile.dim "num_parts"
    tile.launch @fill grid(%parts, %c1, %c1) args(%hidden, %t, %f) : memref<?xbf16>, index, f32
    tile.launch @patient grid(%c1, %c1, %c1) dependent args(%t) : index
  )mlir");
  ASSERT_TRUE(function) << error;
  ASSERT_TRUE(function->work);
  EXPECT_EQ(function->work->keys_per_block, 64u);
  EXPECT_EQ(function->work->rows_per_token, 128u);
  EXPECT_EQ(function->work->rows_per_tile, 32u);
  EXPECT_EQ(function->work->runs_per_token, 4u);
  EXPECT_EQ(function->work->item_cost, 2.5);
  EXPECT_EQ(function->work->merge_cost, 0.75);
  EXPECT_EQ(function->work->fixed_blocks, 8u);
  ASSERT_EQ(function->steps.size(), 2u);
  EXPECT_FALSE(function->steps[0]->launch->dependent);
  EXPECT_TRUE(function->steps[1]->launch->dependent);
}

TEST_F(PlanSerializerTest, EqualPlansGiveEqualBytes) {
  auto pack = [&] {
    package::PackageT package;
    package.targets.push_back(std::make_unique<package::TargetT>());
    package::TargetT &target = *package.targets.back();
    target.code.push_back(std::make_unique<package::CodeObjectT>());
    target.kernels.push_back(std::make_unique<package::KernelT>());
    target.functions.push_back(serialize(R"mlir(
      %x = tile.workspace %t : memref<?xbf16>
      tile.launch @fill grid(%t, %chunks, %c1) args(%x, %t, %f) : memref<?xbf16>, index, f32
    )mlir"));
    return llvm::cantFail(packPackage(package));
  };
  EXPECT_EQ(pack(), pack());
}

TEST_F(PlanSerializerTest, ErrorsNameTheOpAndItsPlace) {
  struct {
    const char *body, *message;
  } cases[] = {
      {"tile.launch @unknown grid(%c1, %c1, %c1) args(%t) : index",
       "expected a compiled kernel, got @unknown"},
      {R"mlir(scf.for %i = %c1 to %t step %c1 {
        tile.launch @fill grid(%c1, %c1, %c1) args(%hidden, %i, %f) : memref<?xbf16>, index, f32
      })mlir",
       "expected a loop from 0 with step 1"},
      {R"mlir(%q = arith.divsi %t, %c0 : index
        tile.launch @fill grid(%q, %c1, %c1) args(%hidden, %t, %f) : memref<?xbf16>, index, f32)mlir",
       "divides by zero"},
      {R"mlir(%q = arith.divui %t, %c2 : index
        tile.launch @fill grid(%q, %c1, %c1) args(%hidden, %t, %f) : memref<?xbf16>, index, f32)mlir",
       "has no counterpart in a package's index expressions"},
      {R"mlir(%v = arith.addf %f, %f : f32
        tile.launch @fill grid(%t, %c1, %c1) args(%hidden, %t, %v) : memref<?xbf16>, index, f32)mlir",
       "expected f32 arguments to be constants"},
      {R"mlir(scf.for %i = %c0 to %t step %c1 {
        %w = tile.workspace %i : memref<?xbf16>
        tile.launch @fill grid(%c1, %c1, %c1) args(%w, %i, %f) : memref<?xbf16>, index, f32
      })mlir",
       "expected a size that is the same in every iteration"},
      {R"mlir(%true = arith.constant true
        %s = arith.select %true, %hidden, %hidden : memref<?xbf16>
        tile.launch @fill grid(%c1, %c1, %c1) args(%s, %t, %f) : memref<?xbf16>, index, f32)mlir",
       "expected buffers from tile.buffer or tile.workspace"},
      {"tile.work keys_per_block 64 rows_per_token 4294967296 rows_per_tile 64 item_cost 1.0 "
       "merge_cost 1.0",
       "expected numbers below 2^32, got 4294967296"},
  };
  for (auto [body, message] : cases) {
    error.clear();
    EXPECT_FALSE(serialize(body)) << body;
    EXPECT_NE(error.find(message), std::string::npos) << error;
    EXPECT_NE(error.find("loc("), std::string::npos) << error;
  }
}
