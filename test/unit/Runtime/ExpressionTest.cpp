//===- ExpressionTest.cpp - expressions of a launch plan --------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "package/Expression.h"

#include <gtest/gtest.h>
#include <limits>

using namespace mlac::runtime;
using fb::ExprOp;

namespace {
/// Evaluates the last of `nodes`.
std::optional<int64_t> evaluate(const std::vector<fb::ExprNode> &nodes, DimValues dims = {},
                                std::vector<int64_t> loops = {}) {
  ExpressionTable table;
  Status status = ExpressionTable::make(nodes, {Dim::NumTokens, Dim::NumSms}, table);
  EXPECT_TRUE(status.isOk()) << status.message();
  Evaluator values;
  values.bind(table);
  values.update(dims, loops);
  int64_t value;
  if (!values.get(static_cast<uint32_t>(nodes.size() - 1), value).isOk())
    return std::nullopt;
  return value;
}

std::optional<int64_t> fold(ExprOp op, int64_t a, int64_t b) {
  return evaluate({{ExprOp::Const, 0, 0, 0, a}, {ExprOp::Const, 0, 0, 0, b}, {op, 0, 1, 0, 0}});
}
} // namespace

TEST(Expression, FoldsSignedArithmetic) {
  EXPECT_EQ(fold(ExprOp::Div, -7, 2), -3);
  EXPECT_EQ(fold(ExprOp::CeilDiv, 7, 2), 4);
  EXPECT_EQ(fold(ExprOp::CeilDiv, -7, 2), -3);
  EXPECT_EQ(fold(ExprOp::CeilDiv, -7, -2), 4);
  EXPECT_EQ(fold(ExprOp::CeilDiv, 6, 3), 2);
  EXPECT_EQ(fold(ExprOp::Rem, -7, 2), -1);
  EXPECT_EQ(fold(ExprOp::Min, 3, -4), -4);
  EXPECT_EQ(fold(ExprOp::Max, 3, -4), 3);
  EXPECT_EQ(fold(ExprOp::Xor, 6, 3), 5);
  EXPECT_EQ(fold(ExprOp::Ge, -1, 0), 0);
}

TEST(Expression, ZeroDivisorsAndOverflowAreUndefined) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (ExprOp op : {ExprOp::Div, ExprOp::CeilDiv, ExprOp::Rem}) {
    EXPECT_EQ(fold(op, 1, 0), std::nullopt);
    EXPECT_EQ(fold(op, kMin, -1), std::nullopt);
  }
  EXPECT_EQ(fold(ExprOp::Mul, kMax, 2), std::nullopt);
  EXPECT_EQ(fold(ExprOp::Add, kMax, 1), std::nullopt);
  EXPECT_EQ(fold(ExprOp::Sub, kMin, 1), std::nullopt);
}

TEST(Expression, SelectIgnoresTheOtherSide) {
  auto select = [](int64_t condition) {
    return evaluate({{ExprOp::Const, 0, 0, 0, 0},
                     {ExprOp::Const, 0, 0, 0, 9},
                     {ExprOp::Div, 1, 0, 0, 0}, // undefined
                     {ExprOp::Const, 0, 0, 0, condition},
                     {ExprOp::Select, 3, 1, 2, 0}});
  };
  EXPECT_EQ(select(1), 9);
  EXPECT_EQ(select(0), std::nullopt);
}

TEST(Expression, ReadsDimsAndLoopVariables) {
  DimValues dims{};
  at(dims, Dim::NumSms) = 132;
  std::vector<fb::ExprNode> nodes = {
      {ExprOp::Dim, 0, 0, 0, 1}, {ExprOp::LoopVar, 0, 0, 0, 1}, {ExprOp::Sub, 0, 1, 0, 0}};
  EXPECT_EQ(evaluate(nodes, dims, {5, 2}), 130);
}

TEST(Expression, BadTablesAreRefused) {
  auto refuse = [](fb::ExprNode node, const char *text) {
    ExpressionTable table;
    Status status = ExpressionTable::make(std::vector{node}, {}, table);
    EXPECT_EQ(status.code(), MLA_CORRUPT);
    EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
  };
  refuse({static_cast<ExprOp>(77), 0, 0, 0, 0}, "unknown operator 77");
  refuse({ExprOp::Add, 0, 0, 0, 0}, "does not come before it");
  refuse({ExprOp::Dim, 0, 0, 0, 0}, "names dim 0 of 0");
  refuse({ExprOp::LoopVar, 0, 0, 0, -1}, "loop depth -1");
}
