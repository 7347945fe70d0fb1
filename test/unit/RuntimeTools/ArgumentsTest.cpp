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
    Arguments arguments(words, {{"batch", true}, {"json", false}}, {"PACKAGE"});
    (void)arguments.getIntegers("batch", {1}, 1);
  } catch (const std::runtime_error &error) {
    return error.what();
  }
  return "";
}

TEST(Arguments, BothWaysOfGivingAValue) {
  Arguments arguments({"--batch=3,4", "file", "--json"}, {{"batch", true}, {"json", false}},
                      {"PACKAGE"});
  EXPECT_EQ(arguments.positional(0), "file");
  EXPECT_EQ(arguments.getIntegers("batch", {}, 1), (std::vector<int64_t>{3, 4}));
  EXPECT_TRUE(arguments.has("json"));
  Arguments spaced({"file", "--batch", "7"}, {{"batch", true}}, {"PACKAGE"});
  EXPECT_EQ(spaced.getInteger("batch", 1, 1), 7);
  EXPECT_EQ(spaced.getInteger("context", 9, 1), 9);
}

TEST(Arguments, KIs1024) {
  Arguments arguments({"--batch=1k,4,64k"}, {{"batch", true}}, {});
  EXPECT_EQ(arguments.getIntegers("batch", {}, 1), (std::vector<int64_t>{1024, 4, 65536}));
}

TEST(Arguments, ErrorsNameOptionAndValue) {
  EXPECT_EQ(getError({"f"}), "");
  EXPECT_EQ(getError({"f", "--batsch=1"}),
            "unknown option '--batsch'; did you mean '--batch'? known here: --batch --json");
  EXPECT_EQ(getError({"f", "--frobnicate"}),
            "unknown option '--frobnicate'; known here: --batch --json");
  EXPECT_EQ(getError({"f", "-j"}), "unknown option '-j'; options begin with two dashes");
  EXPECT_EQ(getError({"f", "--batch"}), "option '--batch' expects a value");
  EXPECT_EQ(getError({"f", "--json=1"}), "option '--json' takes no value, got '--json=1'");
  EXPECT_EQ(getError({"f", "--batch=1", "--json", "--batch", "1"}),
            "option '--batch' is given twice");
  EXPECT_EQ(getError({"f", "--json", "--json"}), "option '--json' is given twice");
  EXPECT_EQ(getError({"f", "--batch=0"}),
            "option '--batch' expects integers from 1 to 2147483647, got '0'");
  EXPECT_EQ(getError({"f", "--batch=2x"}),
            "option '--batch' expects integers from 1 to 2147483647, got '2x'");
  EXPECT_EQ(getError({"f", "--batch=99999999999"}),
            "option '--batch' expects integers from 1 to 2147483647, got '99999999999'");
  EXPECT_EQ(getError({"f", "--batch=2097152k"}),
            "option '--batch' expects integers from 1 to 2147483647, got '2097152k'");
  EXPECT_EQ(getError({"f", "--batch=9223372036854775807k"}),
            "option '--batch' expects integers from 1 to 2147483647, got '9223372036854775807k'");
  EXPECT_EQ(getError({"f", "--batch=k"}),
            "option '--batch' expects integers from 1 to 2147483647, got 'k'");
  EXPECT_EQ(getError({"f", "--batch=4kk"}),
            "option '--batch' expects integers from 1 to 2147483647, got '4kk'");
  EXPECT_EQ(getError({}), "expected PACKAGE besides options, got nothing");
  EXPECT_EQ(getError({"f", "g"}), "expected PACKAGE besides options, got 'f' 'g'");
}

TEST(Arguments, NearestNameIsAMisspelling) {
  std::vector<std::string> names = {"info", "check", "bench"};
  EXPECT_EQ(findNearest("chekc", names), "check");
  EXPECT_EQ(findNearest("benhc", names), "bench");
  EXPECT_EQ(findNearest("run", names), "");
  EXPECT_EQ(findNearest("", names), "");
}
