//===- Plot.cpp - figures as SVG ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Plot.h"

#include "Html.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace mlac::report;

//===----------------------------------------------------------------------===//
// Elements. Lengths are pixels at the size that the figure was drawn for.
//===----------------------------------------------------------------------===//

static constexpr double kWidth = 960, kLineHeight = 18, kLetter = 6.6;
static constexpr int kNumHues = 6; // s0 to s5

static std::string px(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

static std::string hueClass(int hue) {
  return hue < 0 ? "wait" : "s" + std::to_string(hue % kNumHues);
}

static std::string titled(const std::string &tooltip) {
  return tooltip.empty() ? "" : "<title>" + escape(tooltip) + "</title>";
}

static std::string line(double x1, double y1, double x2, double y2, const char *style) {
  return "<line class=\"" + std::string(style) + "\" x1=\"" + px(x1) + "\" y1=\"" + px(y1) +
         "\" x2=\"" + px(x2) + "\" y2=\"" + px(y2) + "\"/>\n";
}

static std::string text(double x, double y, const std::string &content, const char *anchor,
                        const char *style = "") {
  return "<text class=\"" + std::string(style) + "\" x=\"" + px(x) + "\" y=\"" + px(y) +
         "\" text-anchor=\"" + anchor + "\">" + escape(content) + "</text>\n";
}

static std::string box(double x, double y, double width, double height, int hue,
                       const std::string &tooltip) {
  return "<rect class=\"" + hueClass(hue) + "\" x=\"" + px(x) + "\" y=\"" + px(y) + "\" width=\"" +
         px(std::max(width, 0.5)) + "\" height=\"" + px(height) + "\" fill-opacity=\"0.75\">" +
         titled(tooltip) + "</rect>\n";
}

static std::string svg(double height, const std::string &content) {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + px(kWidth) + " " +
         px(height) + "\" width=\"" + px(kWidth) + "\" height=\"" + px(height) + "\">\n" + content +
         "</svg>\n";
}

static size_t longest(const std::vector<std::string> &names) {
  size_t most = 0;
  for (const std::string &name : names)
    most = std::max(most, name.size());
  return most;
}

//===----------------------------------------------------------------------===//
// Logarithmic plots
//===----------------------------------------------------------------------===//

namespace {
/// From whole powers of ten to whole powers of ten.
struct LogAxis {
  int first = 0, last = 1;
  double from = 0, to = 0; // pixels

  double operator()(double value) const {
    return from + (std::log10(value) - first) / (last - first) * (to - from);
  }
  void fit(const std::vector<double> &values) {
    if (values.empty())
      return;
    auto [least, most] = std::minmax_element(values.begin(), values.end());
    first = static_cast<int>(std::floor(std::log10(*least)));
    last = std::max(first + 1, static_cast<int>(std::ceil(std::log10(*most))));
  }
};
} // namespace

static bool isDrawn(const Mark &mark) {
  return mark.x > 0 && mark.y > 0 && std::isfinite(mark.x) && std::isfinite(mark.y);
}

static std::string powerOfTen(int power) { return formatScaled(std::pow(10, power), /*digits=*/1); }

static std::string drawAxes(const LogPlot &plot, const LogAxis &x, const LogAxis &y) {
  std::string result;
  for (int power = x.first; power <= x.last; ++power) {
    double at = x(std::pow(10, power));
    result += line(at, y.from, at, y.to, "grid");
    result += text(at, y.from + kLineHeight, powerOfTen(power), "middle", "dim");
  }
  for (int power = y.first; power <= y.last; ++power) {
    double at = y(std::pow(10, power));
    result += line(x.from, at, x.to, at, "grid");
    result += text(x.from - 8, at + 4, powerOfTen(power), "end", "dim");
  }
  result += line(x.from, y.from, x.to, y.from, "axis") + line(x.from, y.from, x.from, y.to, "axis");
  result += text((x.from + x.to) / 2, y.from + 2.2 * kLineHeight, plot.xLabel, "middle");
  return result + text(x.from, y.to - 8, plot.yLabel, "start");
}

static std::string drawRoof(const LogPlot &plot, const LogAxis &x, const LogAxis &y) {
  if (!plot.roofHeight || !plot.roofSlope)
    return "";
  double ridge = *plot.roofHeight / *plot.roofSlope;
  double left = std::max(std::pow(10, x.first), std::pow(10, y.first) / *plot.roofSlope);
  double right = std::pow(10, x.last);
  double middle = std::clamp(ridge, left, right);
  return "<polyline class=\"roof\" points=\"" + px(x(left)) + "," + px(y(*plot.roofSlope * left)) +
         " " + px(x(middle)) + "," + px(y(std::min(*plot.roofHeight, *plot.roofSlope * middle))) +
         " " + px(x(right)) + "," + px(y(std::min(*plot.roofHeight, *plot.roofSlope * right))) +
         "\"/>\n";
}

static std::string drawSeries(const Series &series, int hue, const LogAxis &x, const LogAxis &y) {
  std::string points, result;
  for (const Mark &mark : series.marks) {
    if (!isDrawn(mark))
      continue;
    points += (points.empty() ? "" : " ") + px(x(mark.x)) + "," + px(y(mark.y));
    if (!series.isLine || !mark.tooltip.empty())
      result += "<circle class=\"" + hueClass(hue) + "\" fill-opacity=\"0.6\" cx=\"" +
                px(x(mark.x)) + "\" cy=\"" + px(y(mark.y)) + "\" r=\"4.5\">" +
                titled(mark.tooltip) + "</circle>\n";
  }
  // `fill: none` comes after the hue's class, so that lines enclose nothing.
  if (series.isLine && !points.empty())
    result = "<polyline class=\"" + hueClass(hue) +
             "\" style=\"fill:none;stroke-width:2\" points=\"" + points + "\"/>\n" + result;
  return result;
}

std::string mlac::report::draw(const LogPlot &plot) {
  constexpr double kHeight = 420, kLeft = 80, kTop = 30, kBottom = 60;
  std::vector<double> xs, ys;
  for (const Series &series : plot.series)
    for (const Mark &mark : series.marks)
      if (isDrawn(mark)) {
        xs.push_back(mark.x);
        ys.push_back(mark.y);
      }
  if (plot.roofHeight && plot.roofSlope) {
    xs.push_back(*plot.roofHeight / *plot.roofSlope); // the ridge is in the picture
    ys.push_back(*plot.roofHeight);
  }
  LogAxis x, y;
  x.fit(xs);
  y.fit(ys);
  x.from = kLeft;
  x.to = kWidth - 20;
  y.from = kHeight - kBottom;
  y.to = kTop;
  std::string content = drawAxes(plot, x, y) + drawRoof(plot, x, y);
  double at = kLeft, below = kHeight;
  for (size_t i = 0; i < plot.series.size(); ++i) {
    content += drawSeries(plot.series[i], static_cast<int>(i), x, y);
    double width = 30 + kLetter * static_cast<double>(plot.series[i].name.size());
    if (at + width > kWidth) {
      at = kLeft;
      below += kLineHeight;
    }
    content += box(at, below - 10, 12, 12, static_cast<int>(i), "");
    content += text(at + 18, below, plot.series[i].name, "start");
    at += width;
  }
  return svg(below + kLineHeight, content);
}

//===----------------------------------------------------------------------===//
// Lanes and bars
//===----------------------------------------------------------------------===//

/// A round step of which about ten make `extent`.
static double roundStep(double extent) {
  double step = std::pow(10, std::floor(std::log10(extent)) - 1);
  for (double factor : {2.0, 2.5, 2.0})
    if (extent / step > 12)
      step *= factor;
  return step;
}

static std::string axisNumber(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string mlac::report::draw(const Lanes &lanes) {
  constexpr double kTop = 10, kLane = 34, kBar = 26;
  double end = 0;
  for (const Span &span : lanes.spans)
    end = std::max(end, span.end);
  if (end <= 0)
    return svg(kLineHeight, "");
  double left = 20 + kLetter * static_cast<double>(longest(lanes.names));
  double bottom = kTop + kLane * static_cast<double>(lanes.names.size());
  double scale = (kWidth - left - 20) / end;
  std::string content;
  for (double at = 0, step = roundStep(end); at <= end * (1 + 1e-9); at += step) {
    content += line(left + at * scale, kTop, left + at * scale, bottom, "grid");
    content += text(left + at * scale, bottom + kLineHeight, axisNumber(at), "middle", "dim");
  }
  for (size_t lane = 0; lane < lanes.names.size(); ++lane)
    content += text(left - 10, kTop + kLane * static_cast<double>(lane) + kBar * 0.65,
                    lanes.names[lane], "end");
  for (const Span &span : lanes.spans) {
    double y = kTop + kLane * static_cast<double>(span.lane);
    double width = (span.end - span.begin) * scale, x = left + span.begin * scale;
    content += box(x, y, width, kBar, span.hue, span.tooltip);
    if (!span.label.empty() && kLetter * static_cast<double>(span.label.size()) < width)
      content += text(x + 4, y + kBar * 0.65, span.label, "start");
  }
  content += text((left + kWidth) / 2, bottom + 2.2 * kLineHeight, lanes.xLabel, "middle");
  return svg(bottom + 3 * kLineHeight, content);
}

std::string mlac::report::drawBars(const std::vector<Bar> &bars) {
  constexpr double kLane = 24, kBar = 18, kTextRoom = 220;
  std::vector<std::string> names;
  double most = 0;
  for (const Bar &bar : bars) {
    names.push_back(bar.name);
    most = std::max(most, bar.value);
  }
  double left = 20 + kLetter * static_cast<double>(longest(names));
  double scale = most > 0 ? (kWidth - left - kTextRoom) / most : 0;
  std::string content;
  for (size_t i = 0; i < bars.size(); ++i) {
    double y = 4 + kLane * static_cast<double>(i);
    content += text(left - 10, y + kBar * 0.75, bars[i].name, "end");
    content += box(left, y, bars[i].value * scale, kBar, bars[i].hue, bars[i].name);
    content +=
        text(left + bars[i].value * scale + 8, y + kBar * 0.75, bars[i].text, "start", "dim");
  }
  return svg(8 + kLane * static_cast<double>(bars.size()), content);
}
