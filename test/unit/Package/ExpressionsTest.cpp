//===- ExpressionsTest.cpp - the expression table of a package function ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Package/Expressions.h"

#include "gtest/gtest.h"
#include <limits>

using namespace mlac;
using package::ExprOp;

static std::optional<int64_t> evaluate(const ExpressionTable &table, ExprId id,
                                       llvm::ArrayRef<int64_t> dims,
                                       llvm::ArrayRef<int64_t> loops = {}) {
  return evaluateExpression(table.nodes(), id, dims, loops);
}

TEST(Expressions, NodeZeroIsTheConstantZero) {
  ExpressionTable table;
  EXPECT_EQ(table.constant(0), 0u);
  EXPECT_EQ(table.nodes().size(), 1u);
}

TEST(Expressions, EqualNodesAreKeptOnce) {
  ExpressionTable table;
  ExprId tokens = table.dim("num_tokens"), requests = table.dim("num_requests");
  EXPECT_EQ(*table.binary(ExprOp::Add, tokens, requests),
            *table.binary(ExprOp::Add, requests, tokens));
  EXPECT_EQ(tokens, table.dim("num_tokens"));
  EXPECT_NE(*table.binary(ExprOp::Sub, tokens, requests),
            *table.binary(ExprOp::Sub, requests, tokens));
}

TEST(Expressions, ConstantsFoldAndIdentitiesVanish) {
  ExpressionTable table;
  ExprId x = table.dim("num_tokens"), zero = table.constant(0), one = table.constant(1);
  ExprId pages = *table.binary(ExprOp::CeilDiv, table.constant(65), table.constant(64));
  EXPECT_EQ(table.constantValue(pages), 2);
  EXPECT_EQ(*table.binary(ExprOp::Add, zero, x), x);
  EXPECT_EQ(*table.binary(ExprOp::Mul, one, x), x);
  EXPECT_EQ(*table.binary(ExprOp::Mul, x, zero), zero);
  EXPECT_EQ(*table.binary(ExprOp::CeilDiv, x, one), x);
  EXPECT_EQ(*table.binary(ExprOp::Sub, x, x), zero);
  EXPECT_EQ(*table.binary(ExprOp::Max, x, x), x);
  EXPECT_EQ(*table.binary(ExprOp::Le, x, x), one);
  EXPECT_EQ(table.select(one, x, zero), x);
  EXPECT_EQ(table.select(x, one, one), one);
}

TEST(Expressions, UndefinedConstantsAreRefused) {
  ExpressionTable table;
  ExprId x = table.dim("num_tokens"), zero = table.constant(0);
  ExprId least = table.constant(std::numeric_limits<int64_t>::min());
  EXPECT_FALSE(table.binary(ExprOp::Div, x, zero));
  EXPECT_FALSE(table.binary(ExprOp::Rem, table.constant(3), zero));
  EXPECT_FALSE(table.binary(ExprOp::Div, least, table.constant(-1)));
  EXPECT_FALSE(table.binary(ExprOp::Mul, least, table.constant(2)));
}

TEST(Expressions, DivisionIsSigned) {
  EXPECT_EQ(foldExpression(ExprOp::Div, -7, 2), -3);
  EXPECT_EQ(foldExpression(ExprOp::CeilDiv, -7, 2), -3);
  EXPECT_EQ(foldExpression(ExprOp::CeilDiv, 7, 2), 4);
  EXPECT_EQ(foldExpression(ExprOp::CeilDiv, 7, -2), -3);
  EXPECT_EQ(foldExpression(ExprOp::CeilDiv, 8, 2), 4);
  EXPECT_EQ(foldExpression(ExprOp::Rem, -7, 2), -1);
}

TEST(Expressions, EvaluationFollowsDimsAndLoops) {
  ExpressionTable table;
  ExprId tokens = table.dim("num_tokens");
  ExprId sum = *table.binary(ExprOp::Add, *table.roundUp(tokens, 64), table.loopVariable(1));
  EXPECT_EQ(evaluate(table, sum, {65}, {9, 3}), 131);
  EXPECT_TRUE(table.dependsOnLoop(sum));
  EXPECT_FALSE(table.dependsOnLoop(tokens));
  EXPECT_FALSE(evaluate(table, sum, {65}, {9})); // no loop of that depth here
}

TEST(Expressions, OnlyTheChosenSideOfASelectIsEvaluated) {
  ExpressionTable table;
  ExprId chunks = table.dim("num_chunks"), tokens = table.dim("num_tokens");
  ExprId quotient = *table.binary(ExprOp::Div, tokens, chunks);
  ExprId isThere = *table.binary(ExprOp::Ne, chunks, table.constant(0));
  ExprId guarded = table.select(isThere, quotient, table.constant(-1));
  EXPECT_EQ(evaluate(table, guarded, {0, 10}), -1);
  EXPECT_EQ(evaluate(table, guarded, {5, 10}), 2);
  EXPECT_FALSE(evaluate(table, quotient, {0, 10}));
}

TEST(Expressions, SharedNodesAreEvaluatedOnce) {
  ExpressionTable table;
  ExprId x = table.dim("num_tokens");
  for (int i = 0; i < 60; ++i) // 2^60 visits without sharing
    x = *table.binary(ExprOp::Min, *table.binary(ExprOp::Add, x, table.constant(1)),
                      *table.binary(ExprOp::Add, x, table.constant(2)));
  EXPECT_EQ(evaluate(table, x, {0}), 60);
}
