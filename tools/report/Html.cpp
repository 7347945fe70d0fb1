//===- Html.cpp - pages that need nothing but a browser ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Html.h"

#include <cmath>
#include <cstdint>
#include <cstdio>

using namespace mlac::report;

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// Bytes of the UTF-8 sequence at the front of `text` that XML allows; 0: there is none.
static size_t sequenceLength(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  size_t length = byte(0) < 0x80 ? 1 : byte(0) >> 5 == 0x6 ? 2 : byte(0) >> 4 == 0xe ? 3 : 4;
  if (length == 4 && byte(0) >> 3 != 0x1e)
    return 0;
  if (text.size() < length)
    return 0;
  constexpr unsigned kLeading[] = {0, 0x7f, 0x1f, 0x0f, 0x07},
                     kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  uint32_t code = byte(0) & kLeading[length];
  for (size_t i = 1; i < length; ++i) {
    if (byte(i) >> 6 != 0x2)
      return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  bool isControl = code < 0x20 || (code >= 0x7f && code < 0xa0);
  bool isSurrogate = code >= 0xd800 && code < 0xe000;
  bool isNoCharacter = (code & 0xfffe) == 0xfffe || code > 0x10ffff;
  return isControl || isSurrogate || isNoCharacter || code < kLeast[length] ? 0 : length;
}

std::string mlac::report::escape(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    size_t length = sequenceLength(text);
    if (length == 0) {
      char hex[sizeof "\\xNN"];
      std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<unsigned char>(text[0]));
      result += hex;
      text.remove_prefix(1);
      continue;
    }
    switch (text[0]) {
    case '&':
      result += "&amp;";
      break;
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '"':
      result += "&quot;";
      break;
    case '\'':
      result += "&#39;";
      break;
    default:
      result += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return result;
}

std::string mlac::report::format(double value, int digits) {
  char text[64];
  constexpr double kLong = 1e6;
  if (value == 0 || !std::isfinite(value) || std::abs(value) >= kLong) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    return text;
  }
  int before = static_cast<int>(std::floor(std::log10(std::abs(value)))) + 1;
  std::snprintf(text, sizeof text, "%.*f", before >= digits ? 0 : digits - before, value);
  return text;
}

std::string mlac::report::formatScaled(double value, int digits) {
  constexpr const char *kPrefixes[] = {"", " k", " M", " G", " T", " P"};
  size_t prefix = 0;
  while (std::abs(value) >= 1000 && prefix + 1 < std::size(kPrefixes)) {
    value /= 1000;
    ++prefix;
  }
  return format(value, digits) + kPrefixes[prefix];
}

//===----------------------------------------------------------------------===//
// Page
//===----------------------------------------------------------------------===//

static constexpr const char *kStyle = R"(
:root { color-scheme: light dark; --ink: #1c2733; --dim: #66717d; --grid: #dde3e9; --paper: #ffffff; --box: #f5f7f9; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e3e8ed; --dim: #98a3ae; --grid: #37414b; --paper: #14191e; --box: #1d242b; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 72rem; margin: 2rem auto; padding: 0 1.5rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; border-bottom: 1px solid var(--grid); } h3 { font-size: 1rem; }
nav a { margin-right: 1rem; color: inherit; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid var(--grid); text-align: right; white-space: nowrap; }
th.t, td.t { text-align: left; } th { color: var(--dim); font-weight: 600; }
figure { margin: 1rem 0; background: var(--box); border-radius: 6px; padding: 1rem; }
figcaption { color: var(--dim); font-size: 13px; }
svg { max-width: 100%; height: auto; } svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
svg .dim { fill: var(--dim); } svg .grid { stroke: var(--grid); stroke-width: 1; }
svg .axis { stroke: var(--dim); stroke-width: 1; } svg .line { fill: none; stroke-width: 2; }
svg .roof { stroke: var(--dim); fill: none; stroke-width: 2; }
.s0 { stroke: #2f6fb7; fill: #2f6fb7; } .s1 { stroke: #d1602b; fill: #d1602b; } .s2 { stroke: #2f8f5b; fill: #2f8f5b; }
.s3 { stroke: #9450a8; fill: #9450a8; } .s4 { stroke: #b08a1e; fill: #b08a1e; } .s5 { stroke: #3d98a3; fill: #3d98a3; }
.wait { fill: var(--grid); stroke: none; }
)";

void Page::section(std::string_view name) {
  sections.emplace_back(name);
  body += "<h2 id=\"s" + std::to_string(sections.size()) + "\">" + escape(name) + "</h2>\n";
}

void Page::subsection(std::string_view name) { body += "<h3>" + escape(name) + "</h3>\n"; }

void Page::paragraph(std::string_view text) { body += "<p>" + escape(text) + "</p>\n"; }

void Page::table(const Table &table) {
  auto row = [&](const std::vector<std::string> &cells, const char *tag) {
    body += "<tr>";
    for (size_t i = 0; i < cells.size(); ++i)
      body += std::string("<") + tag + (i < table.textColumns ? " class=\"t\">" : ">") +
              escape(cells[i]) + "</" + tag + ">";
    body += "</tr>\n";
  };
  body += "<div class=\"wide\"><table>\n<thead>";
  row(table.header, "th");
  body += "</thead>\n<tbody>\n";
  for (const std::vector<std::string> &cells : table.rows)
    row(cells, "td");
  body += "</tbody>\n</table></div>\n";
}

void Page::figure(std::string_view svg, std::string_view caption) {
  body += "<figure>\n";
  body += svg;
  body += "<figcaption>" + escape(caption) + "</figcaption>\n</figure>\n";
}

std::string Page::finish() const {
  std::string text = "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n"
                     "<head>\n<meta charset=\"utf-8\"/>\n<title>" +
                     escape(title) + "</title>\n<style>" + kStyle +
                     "</style>\n</head>\n<body>\n<h1>" + escape(title) + "</h1>\n<nav>";
  for (size_t i = 0; i < sections.size(); ++i)
    text += "<a href=\"#s" + std::to_string(i + 1) + "\">" + escape(sections[i]) + "</a>";
  return text + "</nav>\n" + body + "</body>\n</html>\n";
}
