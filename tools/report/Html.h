//===- Html.h - pages that need nothing but a browser ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One file that works offline: no scripts, no fonts, no images but SVG inside. It is
// well-formed XML, so that any XML parser can check it, and equal inputs give equal bytes.
// Whatever text is given is escaped here; only `raw` takes markup, of Plot.h.
// Standard library only, for tools with LLVM and without.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_TOOLS_REPORT_HTML_H
#define MLAC_TOOLS_REPORT_HTML_H

#include <string>
#include <string_view>
#include <vector>

namespace mlac::report {

/// Text for content and attributes: markup and control characters as entities or \xNN, and
/// bytes that are no UTF-8 as \xNN.
std::string escape(std::string_view text);

/// A number with so many significant digits, without an exponent below 10^6: "12.3".
std::string format(double value, int digits = 3);
/// With a prefix for thousands: "1.23 M".
std::string formatScaled(double value, int digits = 3);

struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  size_t textColumns = 1; // in front; the others are aligned as numbers
};

class Page {
public:
  explicit Page(std::string title) : title(std::move(title)) {}

  /// A section of the page, which its contents list.
  void section(std::string_view name);
  void subsection(std::string_view name);
  void paragraph(std::string_view text);
  void table(const Table &table);
  /// SVG of Plot.h, with a line below it.
  void figure(std::string_view svg, std::string_view caption);

  std::string finish() const;

private:
  std::string title, body;
  std::vector<std::string> sections;
};

} // namespace mlac::report

#endif // MLAC_TOOLS_REPORT_HTML_H
