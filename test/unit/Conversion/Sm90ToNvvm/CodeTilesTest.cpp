//===- CodeTilesTest.cpp - codes in shared memory and in registers ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fixture.h"

#include "llvm/ADT/APFloat.h"

#include <cmath>

using namespace mlac;
using namespace mlac::sm90test;

namespace {

class CodeTiles : public Sm90ToNvvmTest {};

/// Bytes of e4m3 travel to shared memory as rows of 64 bf16, which take the same place.
constexpr const char *kCodes = R"(
sm90.kernel @codes(%x: memref<?xbf16>, %f: memref<?xf32>, %y: memref<?xbf16>, %all: f32)
    attributes {warpgroups = 2 : i32, shared_bytes = 40960 : i64} {
  %c0 = arith.constant 0 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [64, 64], strides: [64, 1]
      : memref<?xbf16> to memref<64x64xbf16, strided<[64, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [64, 192], strides: [192, 1]
      : memref<?xbf16> to memref<64x192xbf16, strided<[192, 1]>>
  %bytes = sm90.alloc offset 0 : !sm90.smem<64x64xbf16>
  %codes = sm90.alloc offset 0 : !sm90.smem<64x128xf8E4M3FN>
  %tile = sm90.alloc offset 8192 : !sm90.smem<64x192xbf16>
  sm90.role "idle" warpgroups 0 to 1 {
  }
  sm90.role "codes" warpgroups 1 to 2 {
    sm90.copy %xv[%c0, %c0] to %bytes vector_bytes 16
        : memref<64x64xbf16, strided<[64, 1]>>, !sm90.smem<64x64xbf16>
    sm90.copy_commit
    sm90.copy_wait 0
    sm90.barrier
    %scales = sm90.load %f[%c0] : memref<?xf32> -> tensor<64xf32, #sm90.rows>
    sm90.transform_codes %codes by %scales to %tile column 0
        : !sm90.smem<64x128xf8E4M3FN>, tensor<64xf32, #sm90.rows>, !sm90.smem<64x192xbf16>
    sm90.transform_codes %codes by %all to %tile column 128
        : !sm90.smem<64x128xf8E4M3FN>, f32, !sm90.smem<64x192xbf16>
    sm90.barrier
    %t = sm90.load_shared %tile : !sm90.smem<64x192xbf16> -> tensor<64x192xbf16, #f1>
    sm90.store %t, %yv[%c0, %c0] paired : tensor<64x192xbf16, #f1>, memref<64x192xbf16, strided<[192, 1]>>
  }
  sm90.return
})";

float decodeE4m3(uint8_t code) {
  llvm::APFloat value(llvm::APFloat::Float8E4M3FN(), llvm::APInt(8, code));
  bool isInexact;
  value.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &isInexact);
  return value.convertToFloat();
}

/// All 256 codes, with a scale of each row and with one; the second tile has room for half of them.
TEST_F(CodeTiles, TurnCodesIntoOperands) {
  constexpr int64_t rows = 64, columns = 128, width = 192;
  lower(fill(kCodes, {}));
  if (HasFatalFailure())
    return;
  std::vector<Bf16> x(rows * columns / 2), y(rows * width, 0);
  std::vector<float> scales(rows);
  auto code = [](int64_t row, int64_t column) { return uint8_t(37 * row + column); };
  for (int64_t row = 0; row < rows; ++row) {
    scales[row] = 0.013f * float(row + 1);
    for (int64_t column = 0; column < columns; ++column)
      reinterpret_cast<uint8_t *>(x.data())[row * columns + column] = code(row, column);
  }
  constexpr float all = 0.37f;
  run({Argument::buffer(x), Argument::buffer(scales), Argument::buffer(y), Argument::f32(all)});
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < width; ++column) {
      bool isFirst = column < columns;
      float value = decodeE4m3(code(row, isFirst ? column : column - columns)) *
                    (isFirst ? scales[row] : all);
      float got = toFloat(y[row * width + column]);
      if (std::isnan(value))
        ASSERT_TRUE(std::isnan(got)) << row << ", " << column;
      else
        ASSERT_EQ(got, toFloat(toBf16(value))) << row << ", " << column;
    }
  assemble();
}

/// Codes to registers in words, and an operand that is put into their order, where it was.
constexpr const char *kRuns = R"(
sm90.kernel @runs(%x: memref<?xbf16>, %f: memref<?xf32>, %q: memref<?xbf16>, %y: memref<?xf16>, %w: memref<?xf16>, %z: memref<?xf16>, %all: f32)
    attributes {warpgroups = 2 : i32, shared_bytes = 40960 : i64} {
  %c0 = arith.constant 0 : index
  %c96 = arith.constant 96 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [64, 64], strides: [64, 1]
      : memref<?xbf16> to memref<64x64xbf16, strided<[64, 1]>>
  %qv = memref.reinterpret_cast %q to offset: [0], sizes: [$ROWS$, $COLUMNS$], strides: [$COLUMNS$, 1]
      : memref<?xbf16> to memref<$ROWS$x$COLUMNS$xbf16, strided<[$COLUMNS$, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [64, 144], strides: [144, 1]
      : memref<?xf16> to memref<64x144xf16, strided<[144, 1]>>
  %wv = memref.reinterpret_cast %w to offset: [0], sizes: [96, 64], strides: [64, 1]
      : memref<?xf16> to memref<96x64xf16, strided<[64, 1]>>
  %zv = memref.reinterpret_cast %z to offset: [0], sizes: [$ROWS$, $COLUMNS$], strides: [$COLUMNS$, 1]
      : memref<?xf16> to memref<$ROWS$x$COLUMNS$xf16, strided<[$COLUMNS$, 1]>>
  %bytes = sm90.alloc offset 0 : !sm90.smem<64x64xbf16>
  %codes = sm90.alloc offset 0 : !sm90.smem<64x128xf8E4M3FN>
  %queries = sm90.alloc offset 8192 : !sm90.smem<$ROWS$x$COLUMNS$xbf16>
  %place = sm90.alloc offset 8192 : !sm90.smem<64x$COLUMNS$xf16>
  sm90.role "idle" warpgroups 0 to 1 {
  }
  sm90.role "runs" warpgroups 1 to 2 {
    sm90.copy %xv[%c0, %c0] to %bytes vector_bytes 16
        : memref<64x64xbf16, strided<[64, 1]>>, !sm90.smem<64x64xbf16>
    sm90.copy %qv[%c0, %c0] to %queries vector_bytes 16
        : memref<$ROWS$x$COLUMNS$xbf16, strided<[$COLUMNS$, 1]>>, !sm90.smem<$ROWS$x$COLUMNS$xbf16>
    sm90.copy_commit
    sm90.copy_wait 0
    sm90.barrier
    %scales = sm90.load %f[%c0] : memref<?xf32> -> tensor<64xf32, #sm90.rows>
    %first = sm90.load_code_words %codes column 0 columns 96
        : !sm90.smem<64x128xf8E4M3FN> -> tensor<64x24xi32, #f1>
    %rest = sm90.load_code_words %codes column 64 columns 48
        : !sm90.smem<64x128xf8E4M3FN> -> tensor<64x16xi32, #f1>
    %a = sm90.scale_codes %first by %scales
        : tensor<64x24xi32, #f1>, tensor<64xf32, #sm90.rows> -> tensor<64x96xf16, #f1>
    %b = sm90.scale_codes %rest by %all : tensor<64x16xi32, #f1>, f32 -> tensor<64x48xf16, #f1>
    sm90.store_runs %a, %yv[%c0, %c0] paired : tensor<64x96xf16, #f1>, memref<64x144xf16, strided<[144, 1]>>
    sm90.store_runs %b, %yv[%c0, %c96] : tensor<64x48xf16, #f1>, memref<64x144xf16, strided<[144, 1]>>
    %head = sm90.take_columns %a[0] : tensor<64x96xf16, #f1> -> tensor<64x64xf16, #f1>
    sm90.store_runs %head, %wv[%c0, %c0] transposed : tensor<64x64xf16, #f1>, memref<96x64xf16, strided<[64, 1]>>
    %ordered = sm90.order_runs %queries by %all
        : !sm90.smem<$ROWS$x$COLUMNS$xbf16> -> !sm90.smem<$ROWS$x$COLUMNS$xf16>
    sm90.barrier
    %t = sm90.load_shared %place : !sm90.smem<64x$COLUMNS$xf16> -> tensor<64x$COLUMNS$xf16, #f1>
    sm90.store_runs %t, %zv[%c0, %c0] paired
        : tensor<64x$COLUMNS$xf16, #f1>, memref<$ROWS$x$COLUMNS$xf16, strided<[$COLUMNS$, 1]>>
  }
  sm90.return
})";

uint16_t toF16(float value) {
  llvm::APFloat half(value);
  bool isInexact;
  half.convert(llvm::APFloat::IEEEhalf(), llvm::APFloat::rmNearestTiesToEven, &isInexact);
  return static_cast<uint16_t>(half.bitcastToAPInt().getZExtValue());
}
float fromF16(uint16_t bits) {
  llvm::APFloat value(llvm::APFloat::IEEEhalf(), llvm::APInt(16, bits));
  bool isInexact;
  value.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &isInexact);
  return value.convertToFloat();
}
bool isSameF16(uint16_t got, float expected) {
  return std::isnan(expected) ? std::isnan(fromF16(got)) : got == toF16(expected);
}

/// What is stored is in its own order again; queries of few rows leave threads without work.
TEST_F(CodeTiles, OrderRunsOfCodes) {
  constexpr int64_t rows = 64, columns = 128, width = 144;
  for (auto [queryRows, queryColumns] : {std::pair<int64_t, int64_t>{64, 192}, {24, 64}}) {
    lower(fill(kRuns, {{"ROWS", queryRows}, {"COLUMNS", queryColumns}}));
    if (HasFatalFailure())
      return;
    std::vector<Bf16> x(rows * columns / 2), q(queryRows * queryColumns);
    std::vector<uint16_t> y(rows * width), w(96 * rows), z(q.size());
    std::vector<float> scales(rows);
    auto code = [](int64_t row, int64_t column) { return uint8_t(37 * row + column); };
    for (int64_t row = 0; row < rows; ++row) {
      scales[row] = 0.013f * float(row + 1);
      for (int64_t column = 0; column < columns; ++column)
        reinterpret_cast<uint8_t *>(x.data())[row * columns + column] = code(row, column);
    }
    for (auto [index, value] : llvm::enumerate(q))
      value = toBf16(0.37f * float(int64_t(index) % 1013 - 500));
    q[3] = toBf16(1e20f), q[4] = toBf16(-1e20f), q[5] = kNaN;
    constexpr float all = 0.37f;
    run({Argument::buffer(x), Argument::buffer(scales), Argument::buffer(q), Argument::buffer(y),
         Argument::buffer(w), Argument::buffer(z), Argument::f32(all)});
    auto scaled = [&](int64_t row, int64_t column, float scale) {
      return decodeE4m3(code(row, column)) * fromF16(toF16(scale));
    };
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < width; ++column) {
        bool isFirst = column < 96;
        float value = isFirst ? scaled(row, column, scales[row]) : scaled(row, column - 32, all);
        ASSERT_TRUE(isSameF16(y[row * width + column], value)) << row << ", " << column;
      }
    // Rows of what is stored transposed are in runs, columns are as they were made.
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < 64; ++column) {
        auto toColumn = [](int64_t p) {
          return p / 16 * 16 + p / 2 % 4 * 4 + p / 8 % 2 * 2 + p % 2;
        };
        float value = scaled(row, toColumn(column), scales[row]);
        ASSERT_TRUE(isSameF16(w[column * rows + toColumn(row)], value)) << row << ", " << column;
      }
    for (auto [index, value] : llvm::enumerate(q)) {
      float expected = toFloat(value) * all;
      if (!std::isnan(expected))
        expected = std::clamp(expected, -65504.f, 65504.f);
      ASSERT_TRUE(isSameF16(z[index], expected)) << queryRows << ": " << index;
    }
  }
  assemble();
}

/// Columns of codes as rows of an operand, of all rows and of those before a limit.
constexpr const char *kColumns = R"(
sm90.kernel @columns(%x: memref<?xbf16>, %v: memref<?xf16>, %w: memref<?xf16>, %limit: index, %all: f32)
    attributes {warpgroups = 2 : i32, shared_bytes = 8192 : i64} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [64, 64], strides: [64, 1]
      : memref<?xbf16> to memref<64x64xbf16, strided<[64, 1]>>
  %vv = memref.reinterpret_cast %v to offset: [0], sizes: [64, 64], strides: [64, 1]
      : memref<?xf16> to memref<64x64xf16, strided<[64, 1]>>
  %wv = memref.reinterpret_cast %w to offset: [0], sizes: [64, 128], strides: [128, 1]
      : memref<?xf16> to memref<64x128xf16, strided<[128, 1]>>
  %bytes = sm90.alloc offset 0 : !sm90.smem<64x64xbf16>
  %codes = sm90.alloc offset 0 : !sm90.smem<64x128xf8E4M3FN>
  sm90.role "idle" warpgroups 0 to 1 {
  }
  sm90.role "columns" warpgroups 1 to 2 {
    sm90.copy %xv[%c0, %c0] to %bytes vector_bytes 16
        : memref<64x64xbf16, strided<[64, 1]>>, !sm90.smem<64x64xbf16>
    sm90.copy_commit
    sm90.copy_wait 0
    sm90.barrier
    %first = sm90.load_code_columns %codes column 0 limit %limit
        : !sm90.smem<64x128xf8E4M3FN> -> tensor<64x16xi32, #f1>
    %second = sm90.load_code_columns %codes column 64
        : !sm90.smem<64x128xf8E4M3FN> -> tensor<64x16xi32, #f1>
    %a = sm90.scale_codes %first by %all : tensor<64x16xi32, #f1>, f32 -> tensor<64x64xf16, #f1>
    %b = sm90.scale_codes %second by %all : tensor<64x16xi32, #f1>, f32 -> tensor<64x64xf16, #f1>
    sm90.store %b, %vv[%c0, %c0] paired : tensor<64x64xf16, #f1>, memref<64x64xf16, strided<[64, 1]>>
    sm90.store_runs %a, %wv[%c0, %c0] transposed pairs : tensor<64x64xf16, #f1>, memref<64x128xf16, strided<[128, 1]>>
    sm90.store_runs %b, %wv[%c0, %c64] transposed pairs : tensor<64x64xf16, #f1>, memref<64x128xf16, strided<[128, 1]>>
  }
  sm90.return
})";

/// The fragment's rows are in pairs; the store has all in its order again.
TEST_F(CodeTiles, TransposeColumnsOfCodes) {
  constexpr int64_t rows = 64, columns = 128;
  lower(fill(kColumns, {}));
  if (HasFatalFailure())
    return;
  for (int64_t limit : {-3, 0, 1, 6, 21, 63, 64, 100}) {
    std::vector<Bf16> x(rows * columns / 2);
    std::vector<uint16_t> v(rows * rows), w(rows * columns);
    auto code = [](int64_t row, int64_t column) { return uint8_t(37 * row + column); };
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column)
        reinterpret_cast<uint8_t *>(x.data())[row * columns + column] = code(row, column);
    constexpr float all = 0.5f;
    run({Argument::buffer(x), Argument::buffer(v), Argument::buffer(w), Argument::index(limit),
         Argument::f32(all)});
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column) {
        bool isHidden = column < rows && row >= limit;
        float value = isHidden ? 0 : decodeE4m3(code(row, column)) * all;
        ASSERT_TRUE(isSameF16(w[row * columns + column], value)) << row << ", " << column;
      }
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t key = 0; key < rows; ++key) {
        int64_t column = 64 + row / 16 * 16 + 2 * (row % 8) + row / 8 % 2;
        float value = decodeE4m3(code(key, column)) * all;
        ASSERT_TRUE(isSameF16(v[row * rows + key], value)) << row << ", " << key;
      }
  }
  assemble();
}

} // namespace
