//===- WorkspaceLayoutTest.cpp - offsets inside a function's workspace ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Package/WorkspaceLayout.h"

#include "gtest/gtest.h"

using namespace mlac;
using package::ExprOp;

TEST(WorkspaceLayout, LiveBuffersDoNotOverlapAndAreAligned) {
  ExpressionTable table;
  ExprId a = *table.binary(ExprOp::Mul, table.dim("num_tokens"), table.constant(10));
  auto layout = layOutWorkspace(table, {{a, 0, 2}, {table.constant(100), 1, 3}});
  ASSERT_TRUE(layout);
  for (int64_t count : {0, 1, 25, 26, 1000}) {
    auto at = [&](ExprId id) { return *evaluateExpression(table.nodes(), id, {count}); };
    int64_t first = at(layout->offsets[0]), second = at(layout->offsets[1]);
    EXPECT_EQ(first % kWorkspaceAlignment, 0);
    EXPECT_EQ(second % kWorkspaceAlignment, 0);
    EXPECT_TRUE(first + 10 * count <= second || second + 100 <= first);
    EXPECT_LE(std::max(first + 10 * count, second + 100), at(layout->totalBytes));
  }
}

TEST(WorkspaceLayout, BuffersThatDoNotMeetShareTheLargerSize) {
  ExpressionTable table;
  ExprId a = *table.binary(ExprOp::Mul, table.dim("num_tokens"), table.constant(512));
  ExprId b = *table.binary(ExprOp::Mul, table.dim("num_requests"), table.constant(1024));
  auto layout = layOutWorkspace(table, {{a, 0, 1}, {b, 2, 3}});
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->offsets[0], layout->offsets[1]);
  EXPECT_EQ(evaluateExpression(table.nodes(), layout->totalBytes, {10, 1}), 5120);
  EXPECT_EQ(evaluateExpression(table.nodes(), layout->totalBytes, {1, 10}), 10240);
}

TEST(WorkspaceLayout, EqualSizesShareFirst) {
  ExpressionTable table;
  ExprId large = table.constant(1 << 20), small = table.constant(512);
  auto layout =
      layOutWorkspace(table, {{large, 0, 1}, {small, 0, 1}, {small, 2, 3}, {large, 4, 5}});
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->offsets[1], layout->offsets[2]);
  EXPECT_EQ(layout->offsets[0], layout->offsets[3]);
  EXPECT_EQ(table.constantValue(layout->totalBytes), (1 << 20) + 512);
}

TEST(WorkspaceLayout, NothingTakesNothing) {
  ExpressionTable table;
  auto layout = layOutWorkspace(table, {});
  ASSERT_TRUE(layout);
  EXPECT_EQ(table.constantValue(layout->totalBytes), 0);
}
