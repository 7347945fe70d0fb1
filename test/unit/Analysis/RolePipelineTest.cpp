//===- RolePipelineTest.cpp - roles, rings and a shared pipe ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Analysis/RolePipeline.h"

#include <gtest/gtest.h>

using namespace mlac;

namespace {

TEST(RolePipeline, ProductsOfOneRoleRunInOrder) {
  PipelineRole role;
  role.issue(0, 100);
  role.issue(1, 50);
  role.await(1);
  EXPECT_EQ(runPipeline({role}, 2).value(), (std::vector<double>{100, 150}));
}

TEST(RolePipeline, TwoRolesShareThePipeEvenly) {
  PipelineRole first, second;
  first.issue(0, 100);
  second.issue(1, 300);
  // Both at half speed until 200, then the longer alone.
  EXPECT_EQ(runPipeline({first, second}, 2).value(), (std::vector<double>{200, 400}));
}

TEST(RolePipeline, WorkAndCopiesOverlapProducts) {
  PipelineRole role;
  role.issue(0, 100);
  role.load(1, 250);
  role.work(80);
  role.signal(2);
  role.await(1);
  role.signal(3);
  EXPECT_EQ(runPipeline({role}, 4).value(), (std::vector<double>{100, 250, 80, 250}));
}

TEST(RolePipeline, AwaitOrdersRoles) {
  PipelineRole producer, consumer;
  producer.work(40);
  producer.signal(0);
  consumer.await(0);
  consumer.issue(1, 10);
  EXPECT_EQ(runPipeline({producer, consumer}, 2).value(), (std::vector<double>{40, 50}));
}

/// Products and copies begin when they are issued, whatever holds them up.
TEST(RolePipeline, SpansSayWhatTookHowLong) {
  PipelineRole producer, consumer;
  producer.load(0, 30);
  producer.work(40);
  producer.signal(1);
  consumer.await(0);
  consumer.issue(2, 10);
  consumer.await(1);
  std::vector<PipelineSpan> spans;
  ASSERT_TRUE(runPipeline({producer, consumer}, 3, &spans));
  using Kind = PipelineStep::Kind;
  struct {
    size_t role;
    Kind kind;
    double begin, end;
  } expected[] = {{0, Kind::Load, 0, 30},
                  {1, Kind::Await, 0, 30},
                  {1, Kind::Issue, 30, 40},
                  {0, Kind::Work, 0, 40},
                  {1, Kind::Await, 30, 40}};
  ASSERT_EQ(spans.size(), std::size(expected));
  for (size_t i = 0; i < spans.size(); ++i) {
    EXPECT_EQ(spans[i].role, expected[i].role) << i;
    EXPECT_EQ(spans[i].step.kind, expected[i].kind) << i;
    EXPECT_EQ(spans[i].begin, expected[i].begin) << i;
    EXPECT_EQ(spans[i].end, expected[i].end) << i;
  }
}

TEST(RolePipeline, EventsThatNeverHappenAreNegative) {
  PipelineRole role;
  role.signal(0);
  EXPECT_EQ(runPipeline({role}, 2).value(), (std::vector<double>{0, -1}));
}

TEST(RolePipeline, RolesThatWaitForEachOtherAreReported) {
  PipelineRole first, second;
  first.await(1);
  first.signal(0);
  second.await(0);
  second.signal(1);
  EXPECT_FALSE(runPipeline({first, second}, 2).has_value());
}

} // namespace
