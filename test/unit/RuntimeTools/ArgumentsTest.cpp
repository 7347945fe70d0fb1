//===- ArgumentsTest.cpp - command line of mla-run ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Arguments.h"

#include "gtest/gtest.h"

using namespace mlac::run;

static std::string getError(const std::vector<std::string> &words) {
  try {
    Arguments arguments(words, {{"batch", true}, {"json", false}}, 1);
    (void)arguments.getIntegers("batch", {1}, 1);
  } catch (const std::runtime_error &error) {
    return error.what();
  }
  return "";
}

TEST(Arguments, BothWaysOfGivingAValue) {
  Arguments arguments({"--batch=3,4", "file", "--json"}, {{"batch", true}, {"json", false}}, 1);
  EXPECT_EQ(arguments.positional(0), "file");
  EXPECT_EQ(arguments.getIntegers("batch", {}, 1), (std::vector<int64_t>{3, 4}));
  EXPECT_TRUE(arguments.has("json"));
  Arguments spaced({"file", "--batch", "7"}, {{"batch", true}}, 1);
  EXPECT_EQ(spaced.getInteger("batch", 1, 1), 7);
  EXPECT_EQ(spaced.getInteger("context", 9, 1), 9);
}

TEST(Arguments, ErrorsNameOptionAndValue) {
  EXPECT_EQ(getError({"f"}), "");
  EXPECT_EQ(getError({"f", "--batsch=1"}), "unknown option '--batsch'; known here: --batch --json");
  EXPECT_EQ(getError({"f", "--batch"}), "option '--batch' expects a value");
  EXPECT_EQ(getError({"f", "--json=1"}), "option '--json' takes no value, got '--json=1'");
  EXPECT_EQ(getError({"f", "--batch=0"}),
            "option '--batch' expects integers of at least 1, got '0'");
  EXPECT_EQ(getError({"f", "--batch=2x"}),
            "option '--batch' expects integers of at least 1, got '2x'");
  EXPECT_EQ(getError({}), "expected 1 argument(s) besides options, got 0");
}
