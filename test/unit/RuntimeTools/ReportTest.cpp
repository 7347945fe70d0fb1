//===- ReportTest.cpp - pages and figures ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "report/Html.h"
#include "report/Plot.h"

#include "gtest/gtest.h"

using namespace mlac::report;

TEST(Report, MarkupIsText) {
  EXPECT_EQ(escape("<script>alert('a & \"b\"')</script>"),
            "&lt;script&gt;alert(&#39;a &amp; &quot;b&quot;&#39;)&lt;/script&gt;");
}

/// Names come from packages and configurations, which may hold any bytes.
TEST(Report, BytesThatXmlForbidsAreWritten) {
  EXPECT_EQ(escape("na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80"),
            "na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(escape(std::string_view("a\0b\x1b[2J\n\x7f", 9)), "a\\x00b\\x1b[2J\\x0a\\x7f");
  EXPECT_EQ(escape("\xff \xc3"), "\\xff \\xc3");        // no sequence, half a sequence
  EXPECT_EQ(escape("\xc0\xbc"), "\\xc0\\xbc");          // '<' in two bytes
  EXPECT_EQ(escape("\xed\xa0\x80"), "\\xed\\xa0\\x80"); // a surrogate
  EXPECT_EQ(escape("\xef\xbf\xbf"), "\\xef\\xbf\\xbf"); // no character
  EXPECT_EQ(escape("\xf5\x80\x80\x80"), "\\xf5\\x80\\x80\\x80");
  EXPECT_EQ(escape("\xc2\x9b"), "\\xc2\\x9b"); // a control character of terminals
}

TEST(Report, NumbersKeepSoManyDigits) {
  EXPECT_EQ(format(0), "0");
  EXPECT_EQ(format(0.012345), "0.0123");
  EXPECT_EQ(format(12.345), "12.3");
  EXPECT_EQ(format(123456, 3), "123456");
  EXPECT_EQ(format(1.5e9), "1.5e+09");
  EXPECT_EQ(formatScaled(999), "999");
  EXPECT_EQ(formatScaled(30277632), "30.3 M");
  EXPECT_EQ(formatScaled(1e18), "1000 P");
}

TEST(Report, PagesEscapeWhatTheyAreGiven) {
  Page page("<t>");
  page.section("a & b");
  page.paragraph("<p>");
  page.table({{"<h>"}, {{"<c>"}}});
  std::string text = page.finish();
  for (const char *wanted :
       {"<title>&lt;t&gt;</title>", "<h2 id=\"s1\">a &amp; b</h2>", "<a href=\"#s1\">a &amp; b</a>",
        "<p>&lt;p&gt;</p>", "<th class=\"t\">&lt;h&gt;</th>", "<td class=\"t\">&lt;c&gt;</td>"})
    EXPECT_NE(text.find(wanted), std::string::npos) << wanted;
  EXPECT_EQ(text, page.finish());
}

TEST(Report, FiguresEscapeWhatTheyAreGiven) {
  LogPlot plot{"<x>", "<y>", {{"<s>", {{1, 1, "<m>"}}}}, {}, {}};
  Lanes lanes{"<x>", {"<l>"}, {{0, 0, 1, 0, "<m>", "<"}}};
  std::string text = draw(plot) + draw(lanes) + drawBars({{"<b>", 1, 0, "<v>"}});
  for (const char *hostile : {"<x>", "<y>", "<s>", "<m>", "<l>", "<b>", "<v>"})
    EXPECT_EQ(text.find(hostile), std::string::npos) << hostile;
}

/// Marks at the corners of a plot whose axes end in powers of ten.
TEST(Report, AxesAreLogarithmic) {
  std::string text = draw(LogPlot{"", "", {{"s", {{1, 10, ""}, {100, 1000, ""}}}}, {}, {}});
  EXPECT_NE(text.find("cx=\"80.00\" cy=\"360.00\""), std::string::npos) << text;
  EXPECT_NE(text.find("cx=\"940.00\" cy=\"30.00\""), std::string::npos) << text;
}

TEST(Report, WhatHasNoPlaceIsLeftOut) {
  LogPlot plot{"", "", {{"s", {{0, 1, ""}, {1, -1, ""}, {1, 1 / 0.0, ""}}}}, {}, {}};
  EXPECT_EQ(draw(plot).find("<circle"), std::string::npos);
  EXPECT_EQ(draw(Lanes{}).find("nan"), std::string::npos);
  EXPECT_EQ(drawBars({{"none", 0, 0, ""}}).find("nan"), std::string::npos);
}
