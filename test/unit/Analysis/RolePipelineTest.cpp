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
