//===- Plot.h - figures as SVG ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a mark stands for is in its tooltip (an SVG title). Colours are Html.h's classes.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_TOOLS_REPORT_PLOT_H
#define MLAC_TOOLS_REPORT_PLOT_H

#include <optional>
#include <string>
#include <vector>

namespace mlac::report {

struct Mark {
  double x, y;
  std::string tooltip; // may be empty
};

/// Several hues; later series repeat them.
struct Series {
  std::string name;
  std::vector<Mark> marks;
  bool isLine = false; // or points
};

/// Both axes are logarithmic; marks that are not positive are left out.
struct LogPlot {
  std::string xLabel, yLabel;
  std::vector<Series> series;
  /// A roof: y = min(height, slope * x), drawn over the whole width. None: no roof.
  std::optional<double> roofHeight, roofSlope;
};
std::string draw(const LogPlot &plot);

/// [begin, end) in a lane, in hue `hue`; a negative one is waiting.
struct Span {
  size_t lane;
  double begin, end;
  int hue;
  std::string tooltip;
  std::string label; // inside, where there is room
};

/// Lanes from above, one unit on the axis.
struct Lanes {
  std::string xLabel;
  std::vector<std::string> names;
  std::vector<Span> spans;
};
std::string draw(const Lanes &lanes);

/// Horizontal bars from 0.
struct Bar {
  std::string name;
  double value;
  int hue;
  std::string text; // behind the bar
};
std::string drawBars(const std::vector<Bar> &bars);

} // namespace mlac::report

#endif // MLAC_TOOLS_REPORT_PLOT_H
