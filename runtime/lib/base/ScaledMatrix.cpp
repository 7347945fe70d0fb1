//===- ScaledMatrix.cpp - matrices of e4m3 codes and scales -----*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "base/ScaledMatrix.h"

#include "base/NarrowFloat.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace mlac::runtime;

/// Codes are bytes.
static constexpr size_t kNumCodes = 256;

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

std::array<int64_t, 2> ScaleBlock::grid(int64_t matrixRows, int64_t matrixColumns) const {
  return {rows ? ceilDiv(matrixRows, rows) : 1, columns ? ceilDiv(matrixColumns, columns) : 1};
}

const char *ScaleBlock::strategy() const {
  if (rows == 0 && columns == 0)
    return "tensor";
  return rows == 1 && columns == 0 ? "channel" : "block";
}

namespace {
/// Elements of the part that have one scale: rows [row, rowEnd) and columns [column, columnEnd)
/// of the whole matrix, and the scale's place in the grid.
struct Tile {
  int64_t row, rowEnd, column, columnEnd;
  int64_t scaleRow, scaleColumn, scale;
};
} // namespace

/// Calls function(tile) for every tile of the part until one returns an error.
template <typename Function>
static Status forEachTile(const ScaledMatrix &matrix, Function function) {
  int64_t rows = matrix.block.rows ? matrix.block.rows : matrix.rows;
  int64_t columns = matrix.block.columns ? matrix.block.columns : matrix.columns;
  int64_t gridColumns = matrix.block.grid(matrix.rows, matrix.columns)[1];
  int64_t lastRow = matrix.firstRow + matrix.numRows;
  int64_t lastColumn = matrix.firstColumn + matrix.numColumns;
  for (int64_t i = matrix.firstRow / rows; i * rows < lastRow; ++i)
    for (int64_t j = matrix.firstColumn / columns; j * columns < lastColumn; ++j) {
      Tile tile = {std::max(i * rows, matrix.firstRow),
                   std::min(i * rows + rows, lastRow),
                   std::max(j * columns, matrix.firstColumn),
                   std::min(j * columns + columns, lastColumn),
                   i,
                   j,
                   i * gridColumns + j};
      MLAC_RETURN_IF_ERROR(function(tile));
    }
  return Status();
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

/// Short, and of many digits where they matter: 3.38953e+38.
static std::string numberText(float value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", static_cast<double>(value));
  return text;
}

static float roundTo(mla_dtype type, float value) {
  if (type == MLA_F32)
    return value;
  return type == MLA_BF16 ? widenBf16(roundToBf16(value)) : widenF16(roundToF16(value));
}

static float largestOf(mla_dtype type) {
  constexpr uint16_t kLargestBf16 = 0x7f7f, kLargestF16 = 0x7bff;
  if (type == MLA_F32)
    return std::numeric_limits<float>::max();
  return type == MLA_BF16 ? widenBf16(kLargestBf16) : widenF16(kLargestF16);
}

/// The first element of a tile whose code is `isWrong`; false if there is none.
template <typename Predicate>
static bool findCode(const ScaledMatrix &matrix, const Tile &tile, Predicate isWrong, int64_t &row,
                     int64_t &column) {
  for (row = tile.row; row < tile.rowEnd; ++row) {
    const uint8_t *codes = matrix.codes + row * matrix.columns;
    const uint8_t *end = codes + tile.columnEnd;
    const uint8_t *found = std::find_if(codes + tile.column, end, isWrong);
    column = found - codes;
    if (found != end)
      return true;
  }
  return false;
}

static bool isNanCode(uint8_t code) { return (code & 0x7f) == 0x7f; }

static Status checkTile(const ScaledMatrix &matrix, const Tile &tile, mla_dtype type) {
  float scale = matrix.scales[tile.scale];
  if (!(scale >= 0 && std::isfinite(scale)))
    return error(MLA_INVALID_ARGUMENT, "scale [", tile.scaleRow, ", ", tile.scaleColumn,
                 "] = ", numberText(scale), ", expected a finite number of at least 0");
  int64_t row, column;
  if (findCode(matrix, tile, isNanCode, row, column))
    return error(MLA_INVALID_ARGUMENT, "element [", row, ", ", column, "] is NaN (code ",
                 int(matrix.codes[row * matrix.columns + column]),
                 "), expected a number of at most ", numberText(kMaxE4m3));
  if (std::isfinite(roundTo(type, kMaxE4m3 * scale)))
    return Status();
  auto overflows = [&](uint8_t code) {
    return !std::isfinite(roundTo(type, widenE4m3(code) * scale));
  };
  if (!findCode(matrix, tile, overflows, row, column))
    return Status();
  float code = widenE4m3(matrix.codes[row * matrix.columns + column]);
  return error(MLA_INVALID_ARGUMENT, "element [", row, ", ", column, "] = ", numberText(code),
               " * ", numberText(scale), " is beyond the largest ", typeName(type), ", ",
               numberText(largestOf(type)));
}

Status mlac::runtime::checkValues(const ScaledMatrix &matrix, mla_dtype type) {
  return forEachTile(matrix, [&](const Tile &tile) { return checkTile(matrix, tile, type); });
}

//===----------------------------------------------------------------------===//
// Conversion
//===----------------------------------------------------------------------===//

/// A tile has few codes and many elements: each code is multiplied and rounded once.
template <typename Element, Element (*round)(float)>
static void dequantiseAs(const ScaledMatrix &matrix, Element *values) {
  std::array<float, kNumCodes> wide;
  for (size_t code = 0; code < kNumCodes; ++code)
    wide[code] = widenE4m3(static_cast<uint8_t>(code));
  std::array<Element, kNumCodes> table;
  (void)forEachTile(matrix, [&](const Tile &tile) {
    for (size_t code = 0; code < kNumCodes; ++code)
      table[code] = round(wide[code] * matrix.scales[tile.scale]);
    for (int64_t row = tile.row; row < tile.rowEnd; ++row) {
      const uint8_t *codes = matrix.codes + row * matrix.columns;
      Element *out = values + (row - matrix.firstRow) * matrix.numColumns - matrix.firstColumn;
      for (int64_t column = tile.column; column < tile.columnEnd; ++column)
        out[column] = table[codes[column]];
    }
    return Status();
  });
}

static float keep(float value) { return value; }

void mlac::runtime::dequantise(const ScaledMatrix &matrix, mla_dtype type, void *values) {
  if (type == MLA_F32)
    dequantiseAs<float, keep>(matrix, static_cast<float *>(values));
  else if (type == MLA_BF16)
    dequantiseAs<uint16_t, roundToBf16>(matrix, static_cast<uint16_t *>(values));
  else
    dequantiseAs<uint16_t, roundToF16>(matrix, static_cast<uint16_t *>(values));
}

/// mla.md section 7 has both floors.
static float chooseScale(float largest, const ScaleBlock &block) {
  constexpr float kLeastMagnitude = 1e-10f, kLeastScale = 1e-12f;
  bool isWhole = block.rows == 0 && block.columns == 0;
  return isWhole ? std::max(largest, kLeastMagnitude) / kMaxE4m3
                 : std::max(largest / kMaxE4m3, kLeastScale);
}

void mlac::runtime::quantise(const float *values, int64_t rows, int64_t columns,
                             const ScaleBlock &block, uint8_t *codes, float *scales) {
  ScaledMatrix matrix = {codes, scales, rows, columns, block, 0, 0, rows, columns};
  (void)forEachTile(matrix, [&](const Tile &tile) {
    float largest = 0;
    for (int64_t row = tile.row; row < tile.rowEnd; ++row)
      for (int64_t column = tile.column; column < tile.columnEnd; ++column)
        largest = std::max(largest, std::fabs(values[row * columns + column]));
    float scale = scales[tile.scale] = chooseScale(largest, block);
    for (int64_t row = tile.row; row < tile.rowEnd; ++row)
      for (int64_t column = tile.column; column < tile.columnEnd; ++column)
        codes[row * columns + column] = roundToE4m3(values[row * columns + column] / scale);
    return Status();
  });
}
