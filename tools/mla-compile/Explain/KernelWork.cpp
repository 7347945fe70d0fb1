//===- KernelWork.cpp - what a launch computes and moves ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Explain/KernelWork.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <cstring>
#include <map>
#include <optional>

using namespace mlir;
using namespace mlac;

/// What device memory moves at the least: a sector of a line of L2.
static constexpr int64_t kSectorBytes = 32;
/// Operations that are followed in one launch: minutes would be no report.
static constexpr uint64_t kMostOps = uint64_t(1) << 27;
/// Memory of one buffer that is looked at sector by sector.
static constexpr int64_t kMostBytes = int64_t(1) << 40;

namespace {
/// Which sectors of a buffer were touched.
class Sectors {
public:
  void mark(int64_t begin, int64_t end) {
    int64_t first = begin / kSectorBytes, last = (end - 1) / kSectorBytes;
    if (static_cast<size_t>(last / 64) >= words.size())
      words.resize(last / 64 + 1);
    for (int64_t word = first / 64; word <= last / 64; ++word) {
      uint64_t mask = ~uint64_t(0);
      if (word == first / 64)
        mask &= ~uint64_t(0) << (first % 64);
      if (word == last / 64)
        mask &= ~uint64_t(0) >> (63 - last % 64);
      count += llvm::popcount(mask & ~words[word]);
      words[word] |= mask;
    }
  }
  double bytes() const { return static_cast<double>(count) * kSectorBytes; }

private:
  std::vector<uint64_t> words;
  int64_t count = 0;
};

/// A strided part of a buffer.
struct View {
  int buffer = -1; // an argument of the launch
  int64_t offset = 0;
  SmallVector<int64_t, 3> sizes, strides;
  int64_t elementBytes = 0;
};

/// What is known of an SSA value: a number, a view, or how much of a tile is real.
struct Known {
  enum Kind { Nothing, Number, Memory, Tile } kind = Nothing;
  int64_t number = 0;
  View view = {};
  SmallVector<int64_t, 2> extent = {}; // of a tile
  int attention = -1;                  // the last one that a tile comes from
};

/// One attention of a program. Its tile of queries may hold rows of the next request, whose
/// results nobody stores.
struct Attention {
  int64_t begin, end; // keys
  std::optional<int64_t> diagonal;
  double width; // of keys and values
  int64_t rows; // of queries
  int before;   // the one that it goes on from
  int64_t stored = -1;

  double flops() const;
};

/// Raised through the interpreter: the first thing that cannot be followed.
using Failure = std::optional<std::string>;

class Counter {
public:
  Counter(tile::KernelOp kernel, const StepLaunch &launch, ArrayRef<StepBufferInfo> buffers);
  KernelWork count();

private:
  void bindArguments();
  void runProgram();
  bool run(Block &block);
  bool execute(Operation &op);
  bool runFor(scf::ForOp op);
  bool runIf(scf::IfOp op);
  bool runScalar(Operation &op);
  bool runElementwise(Operation &op);
  bool runSelect(arith::SelectOp op);
  bool fail(Operation &op, const Twine &why) {
    if (!failure)
      failure = (op.getName().getStringRef() + ": " + why).str();
    return false;
  }

  // Memory
  void touch(const View &view, int64_t element, int64_t elements, bool isWrite);
  /// Rows [row, row + rows) x columns [column, column + columns) inside of a view of rank 2.
  void touchRows(const View &view, int64_t row, int64_t rows, int64_t column, int64_t columns,
                 bool isWrite);
  void touchPaged(const View &pool, const View &table, int64_t first, int64_t end, int64_t column,
                  int64_t columns);
  void touchLoosely(double bytes, bool isWrite) { (isWrite ? looseWrites : looseReads) += bytes; }
  std::optional<int64_t> readInteger(const View &list, int64_t index);
  bool runReinterpret(memref::ReinterpretCastOp op);
  bool runLoadScalar(memref::LoadOp op);
  bool runLoad(tile::LoadOp op);
  bool runLoadRows(tile::LoadRowsOp op);
  bool runLoadPaged(tile::LoadPagedOp op);
  bool runLoadElements(tile::LoadElementsOp op);
  bool runStore(tile::StoreOp op);
  void noteStored(tile::StoreOp op);
  bool runStoreSlots(tile::StoreSlotsOp op);
  bool runTopK(tile::TopKOp op);
  bool runDot(tile::DotOp op);
  bool runAttend(tile::AttendOp op);
  bool touchKeys(tile::AttendOp op, const View &view, Value table, int64_t first, int64_t end);

  Known &at(Value value) { return values[numbers.lookup(value)]; }
  std::optional<int64_t> number(Value value) {
    Known &known = at(value);
    return known.kind == Known::Number ? std::optional(known.number) : std::nullopt;
  }
  void set(Value value, int64_t number) { at(value) = {Known::Number, number}; }
  void setTile(Value value, ArrayRef<int64_t> extent);
  std::optional<int64_t> resolve(OpFoldResult value);

  tile::KernelOp kernel;
  const StepLaunch &launch;
  ArrayRef<StepBufferInfo> buffers;
  llvm::DenseMap<Value, unsigned> numbers;
  std::vector<Known> values;
  std::array<int64_t, 3> program = {};
  std::map<int, Sectors> reads, writes;
  std::vector<Attention> attentions; // of this program
  double looseReads = 0, looseWrites = 0, flops = 0;
  uint64_t ops = 0;
  Failure failure;
};
} // namespace

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// `elements` neighbours from `element` on.
void Counter::touch(const View &view, int64_t element, int64_t elements, bool isWrite) {
  int64_t begin = (view.offset + element) * view.elementBytes;
  int64_t end = begin + elements * view.elementBytes;
  if (elements <= 0 || begin < 0)
    return;
  if (end > kMostBytes) {
    failure = "an address of " + std::to_string(end) + " bytes behind its buffer's";
    return;
  }
  // One buffer may be two arguments.
  (isWrite ? writes : reads)[launch.arguments[view.buffer].buffer].mark(begin, end);
}

void Counter::touchRows(const View &view, int64_t row, int64_t rows, int64_t column,
                        int64_t columns, bool isWrite) {
  rows = std::min(rows, view.sizes[0] - row);
  columns = std::min(columns, view.sizes[1] - column);
  if (columns <= 0)
    return;
  int64_t width = (columns - 1) * view.strides[1] + 1;
  for (int64_t i = 0; i < rows; ++i)
    touch(view, (row + i) * view.strides[0] + column * view.strides[1], width, isWrite);
}

/// Tokens [first, end) of a pool [pages, page size, columns].
void Counter::touchPaged(const View &pool, const View &table, int64_t first, int64_t end,
                         int64_t column, int64_t columns) {
  columns = std::min(columns, pool.sizes[2] - column);
  for (int64_t token = first; token < end; ++token) {
    std::optional<int64_t> page = readInteger(table, token / pool.sizes[1]);
    if (!page) {
      touchLoosely(static_cast<double>(columns * pool.elementBytes), /*isWrite=*/false);
      continue;
    }
    touch(pool,
          *page * pool.strides[0] + token % pool.sizes[1] * pool.strides[1] +
              column * pool.strides[2],
          columns, /*isWrite=*/false);
  }
}

/// An element of the step's metadata; nothing of other memory. Not counted: lists of a few
/// words that every program reads.
std::optional<int64_t> Counter::readInteger(const View &list, int64_t index) {
  int buffer = launch.arguments[list.buffer].buffer;
  ArrayRef<uint8_t> bytes = buffers[buffer].metadata;
  int64_t at =
      (list.offset + index * (list.strides.empty() ? 1 : list.strides[0])) * list.elementBytes;
  if (at < 0 || at + list.elementBytes > static_cast<int64_t>(bytes.size()))
    return std::nullopt;
  int64_t value = 0;
  std::memcpy(&value, bytes.data() + at, list.elementBytes);
  return llvm::SignExtend64(value, 8 * list.elementBytes);
}

std::optional<int64_t> Counter::resolve(OpFoldResult value) {
  if (auto attribute = dyn_cast<Attribute>(value))
    return cast<IntegerAttr>(attribute).getInt();
  return number(cast<Value>(value));
}

bool Counter::runReinterpret(memref::ReinterpretCastOp op) {
  Known result{Known::Memory, 0, at(op.getSource()).view};
  std::optional<int64_t> offset = resolve(op.getMixedOffsets().front());
  if (!offset)
    return fail(*op, "an offset that only the device knows");
  result.view.offset = *offset;
  result.view.sizes.clear();
  result.view.strides.clear();
  for (OpFoldResult size : op.getMixedSizes()) {
    std::optional<int64_t> known = resolve(size);
    if (!known)
      return fail(*op, "a size that only the device knows");
    result.view.sizes.push_back(*known);
  }
  for (OpFoldResult stride : op.getMixedStrides()) {
    std::optional<int64_t> known = resolve(stride);
    if (!known)
      return fail(*op, "a stride that only the device knows");
    result.view.strides.push_back(*known);
  }
  at(op.getResult()) = std::move(result);
  return true;
}

bool Counter::runLoadScalar(memref::LoadOp op) {
  at(op.getResult()) = {};
  int64_t index = 0;
  const View &view = at(op.getMemRef()).view;
  for (auto [dim, value] : llvm::enumerate(op.getIndices())) {
    std::optional<int64_t> known = number(value);
    if (!known)
      return true;
    index += *known * (view.strides.empty() ? 1 : view.strides[dim]);
  }
  if (std::optional<int64_t> value =
          readInteger({view.buffer, view.offset, {}, {}, view.elementBytes}, index))
    set(op.getResult(), *value);
  return true;
}

bool Counter::runLoad(tile::LoadOp op) {
  const View &view = at(op.getView()).view;
  ArrayRef<int64_t> shape = cast<RankedTensorType>(op.getResult().getType()).getShape();
  SmallVector<int64_t, 2> offsets, extent;
  for (auto [dim, value] : llvm::enumerate(op.getOffsets())) {
    std::optional<int64_t> offset = number(value);
    if (!offset)
      return fail(*op, "a place that only the device knows");
    offsets.push_back(*offset);
    extent.push_back(std::clamp<int64_t>(view.sizes[dim] - *offset, 0, shape[dim]));
  }
  if (offsets.size() == 1)
    touch(view, offsets[0] * view.strides[0], (extent[0] - 1) * view.strides[0] + 1, false);
  else
    touchRows(view, offsets[0], extent[0], offsets[1], extent[1], false);
  setTile(op.getResult(), extent);
  return !failure;
}

bool Counter::runLoadRows(tile::LoadRowsOp op) {
  const View &view = at(op.getView()).view, &list = at(op.getIndices()).view;
  ArrayRef<int64_t> shape = cast<RankedTensorType>(op.getResult().getType()).getShape();
  std::optional<int64_t> first = number(op.getFirst()), column = number(op.getColumn());
  if (!first || !column)
    return fail(*op, "a place that only the device knows");
  int64_t count = list.sizes.empty() ? shape[0] : std::min(shape[0], list.sizes[0] - *first);
  int64_t columns = std::min(shape[1], view.sizes[1] - *column);
  for (int64_t i = 0; i < count; ++i) {
    std::optional<int64_t> row = readInteger(list, *first + i);
    if (!row)
      touchLoosely(static_cast<double>(columns * view.elementBytes), false);
    else if (*row >= 0)
      touchRows(view, *row, 1, *column, columns, false);
  }
  setTile(op.getResult(), {std::max<int64_t>(count, 0), columns});
  return !failure;
}

bool Counter::runLoadPaged(tile::LoadPagedOp op) {
  std::optional<int64_t> token = number(op.getToken()), column = number(op.getColumn()),
                         limit = number(op.getLimit());
  if (!token || !column || !limit)
    return fail(*op, "a place that only the device knows");
  ArrayRef<int64_t> shape = cast<RankedTensorType>(op.getResult().getType()).getShape();
  const View &pool = at(op.getPool()).view;
  int64_t end = std::min(*token + shape[0], *limit);
  touchPaged(pool, at(op.getTable()).view, *token, end, *column, shape[1]);
  setTile(op.getResult(),
          {std::max<int64_t>(end - *token, 0), std::min(shape[1], pool.sizes[2] - *column)});
  return !failure;
}

bool Counter::runLoadElements(tile::LoadElementsOp op) {
  auto type = cast<RankedTensorType>(op.getResult().getType());
  touchLoosely(static_cast<double>(type.getNumElements()) * at(op.getView()).view.elementBytes,
               false);
  setTile(op.getResult(), type.getShape());
  return true;
}

bool Counter::runStore(tile::StoreOp op) {
  noteStored(op);
  const View &view = at(op.getView()).view;
  SmallVector<int64_t, 2> shape(cast<RankedTensorType>(op.getValue().getType()).getShape());
  if (op.getTransposed())
    std::swap(shape[0], shape[1]);
  SmallVector<int64_t, 2> offsets;
  for (Value value : op.getOffsets()) {
    std::optional<int64_t> offset = number(value);
    if (!offset)
      return fail(*op, "a place that only the device knows");
    offsets.push_back(*offset);
  }
  if (offsets.size() > 1) {
    touchRows(view, offsets[0], shape[0], offsets[1], shape[1], true);
  } else {
    int64_t count = std::min(shape[0], view.sizes[0] - offsets[0]);
    touch(view, offsets[0] * view.strides[0], (count - 1) * view.strides[0] + 1, true);
  }
  return !failure;
}

/// Rows of an attention's result are those of the view that they are stored to.
void Counter::noteStored(tile::StoreOp op) {
  const View &view = at(op.getView()).view;
  std::optional<int64_t> first = number(op.getOffsets().front());
  if (!first || op.getTransposed())
    return;
  int64_t rows = cast<RankedTensorType>(op.getValue().getType()).getDimSize(0);
  rows = std::clamp<int64_t>(view.sizes[0] - *first, 0, rows);
  for (int each = at(op.getValue()).attention; each >= 0; each = attentions[each].before)
    attentions[each].stored = std::max(attentions[each].stored, rows);
}

bool Counter::runStoreSlots(tile::StoreSlotsOp op) {
  std::optional<int64_t> first = number(op.getFirst()), column = number(op.getColumn());
  if (!first || !column)
    return fail(*op, "a place that only the device knows");
  const View &pool = at(op.getPool()).view, &slots = at(op.getSlots()).view;
  ArrayRef<int64_t> shape = cast<RankedTensorType>(op.getValue().getType()).getShape();
  int64_t columns = std::min(shape[1], pool.sizes[2] - *column);
  int64_t count = slots.sizes.empty() ? shape[0] : std::min(shape[0], slots.sizes[0] - *first);
  for (int64_t i = 0; i < count; ++i) {
    std::optional<int64_t> slot = readInteger(slots, *first + i);
    if (!slot)
      return fail(*op, "slots that only the device knows");
    if (*slot >= 0)
      touch(pool,
            *slot / pool.sizes[1] * pool.strides[0] + *slot % pool.sizes[1] * pool.strides[1] +
                *column * pool.strides[2],
            columns, true);
  }
  return !failure;
}

/// A row of values is read where more are there than are selected.
bool Counter::runTopK(tile::TopKOp op) {
  const View &scores = at(op.getValues()).view, &out = at(op.getOut()).view;
  std::optional<int64_t> row = number(op.getRow()), length = number(op.getLength());
  if (!row || !length)
    return fail(*op, "a row that only the device knows");
  if (*length > out.sizes[1])
    touchRows(scores, *row, 1, 0, *length, false);
  touchRows(out, *row, 1, 0, out.sizes[1], true);
  return !failure;
}

//===----------------------------------------------------------------------===//
// Computation
//===----------------------------------------------------------------------===//

void Counter::setTile(Value value, ArrayRef<int64_t> extent) {
  Known &known = at(value);
  known.kind = Known::Tile;
  known.extent.assign(extent.begin(), extent.end());
  known.attention = -1;
}

/// How much of a tile is real; all of it, unless it is known better.
static SmallVector<int64_t, 2> extentOf(const Known &known, Value value) {
  if (known.kind == Known::Tile)
    return known.extent;
  return SmallVector<int64_t, 2>(cast<RankedTensorType>(value.getType()).getShape());
}

bool Counter::runDot(tile::DotOp op) {
  SmallVector<int64_t, 2> lhs = extentOf(at(op.getLhs()), op.getLhs());
  SmallVector<int64_t, 2> rhs = extentOf(at(op.getRhs()), op.getRhs());
  if (op.getTransposeLhs())
    std::swap(lhs[0], lhs[1]);
  if (op.getTransposeRhs())
    std::swap(rhs[0], rhs[1]);
  flops += 2.0 * lhs[0] * rhs[1] * std::min(lhs[1], rhs[0]);
  setTile(op.getResult(), {lhs[0], rhs[1]});
  return true;
}

double Attention::flops() const {
  double pairs = 0;
  for (int64_t row = 0; row < (stored < 0 ? rows : std::min(stored, rows)); ++row) {
    int64_t seen = diagonal ? std::min(end, *diagonal + row + 1) : end;
    pairs += static_cast<double>(std::max<int64_t>(seen - begin, 0));
  }
  return 2 * pairs * width;
}

/// Rows [first, end) of keys, values or scales.
bool Counter::touchKeys(tile::AttendOp op, const View &view, Value table, int64_t first,
                        int64_t end) {
  if (op.isListed()) {
    touchLoosely(static_cast<double>((end - first) * view.sizes[1] * view.elementBytes), false);
    return true;
  }
  if (!table) {
    touchRows(view, first, end - first, 0, view.sizes[1], false);
    return !failure;
  }
  touchPaged(view, at(table).view, first, end, 0, view.sizes[2]);
  return !failure;
}

bool Counter::runAttend(tile::AttendOp op) {
  std::optional<int64_t> first = number(op.getFirst()), last = number(op.getLast()),
                         limit = number(op.getLimit());
  std::optional<int64_t> diagonal = op.getDiagonal() ? number(op.getDiagonal()) : 0;
  if (!first || !last || !limit || !diagonal)
    return fail(*op, "a range of keys that only the device knows");
  int64_t unit = op.getUnit(), begin = *first * unit, end = std::min(*last * unit, *limit);
  end = std::max(begin, end);
  SmallVector<int64_t, 2> queries = extentOf(at(op.getQueries()[0]), op.getQueries()[0]);
  double width = 0;
  for (auto [term, keys] : llvm::enumerate(op.getKeys())) {
    const View &view = at(keys).view;
    width += static_cast<double>(view.sizes.back());
    if (!touchKeys(op, view, op.getTable(), begin, end))
      return false;
  }
  double valueWidth = static_cast<double>(op.getOutputWidth());
  if (op.getValues()) {
    const View &view = at(op.getValues()).view;
    valueWidth = static_cast<double>(view.sizes.back());
    if (!touchKeys(op, view, op.getValueTable(), begin, end))
      return false;
  }
  if (op.getScales() && at(op.getScales()).view.sizes.size() > 1 &&
      !touchKeys(op, at(op.getScales()).view, op.getTable(), begin, end))
    return false;
  int before = -1;
  for (Value start : op.getStart())
    before = std::max(before, at(start).attention);
  attentions.push_back({begin, end, op.getDiagonal() ? diagonal : std::nullopt, width + valueWidth,
                        queries[0], before});
  setTile(op.getOutput(), {queries[0], op.getOutputWidth()});
  setTile(op.getReference(), {queries[0]});
  setTile(op.getSum(), {queries[0]});
  for (Value result : op.getResults())
    at(result).attention = static_cast<int>(attentions.size()) - 1;
  return true;
}

/// Also of tiles; by a tile of conditions element by element.
bool Counter::runSelect(arith::SelectOp op) {
  if (!op.getCondition().getType().isInteger(1))
    return runElementwise(*op);
  if (std::optional<int64_t> condition = number(op.getCondition()))
    at(op.getResult()) = at(*condition ? op.getTrueValue() : op.getFalseValue());
  else
    at(op.getResult()) = {};
  return true;
}

/// Of tiles of one shape: what is real in all of them.
bool Counter::runElementwise(Operation &op) {
  for (Value result : op.getResults()) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (!type) {
      at(result) = {};
      continue;
    }
    SmallVector<int64_t, 2> extent(type.getShape());
    int attention = -1;
    for (Value operand : op.getOperands()) {
      attention = std::max(attention, at(operand).attention);
      auto other = dyn_cast<RankedTensorType>(operand.getType());
      if (!other || other.getShape() != type.getShape())
        continue;
      SmallVector<int64_t, 2> each = extentOf(at(operand), operand);
      for (size_t dim = 0; dim < extent.size(); ++dim)
        extent[dim] = std::min(extent[dim], each[dim]);
    }
    setTile(result, extent);
    at(result).attention = attention;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

static std::optional<int64_t> compare(arith::CmpIPredicate predicate, int64_t a, int64_t b) {
  auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return a == b;
  case arith::CmpIPredicate::ne:
    return a != b;
  case arith::CmpIPredicate::slt:
    return a < b;
  case arith::CmpIPredicate::sle:
    return a <= b;
  case arith::CmpIPredicate::sgt:
    return a > b;
  case arith::CmpIPredicate::sge:
    return a >= b;
  case arith::CmpIPredicate::ult:
    return ua < ub;
  case arith::CmpIPredicate::ule:
    return ua <= ub;
  case arith::CmpIPredicate::ugt:
    return ua > ub;
  case arith::CmpIPredicate::uge:
    return ua >= ub;
  }
  return std::nullopt;
}

/// Of two numbers; nothing for other operations and for divisors of 0. Sizes and places are
/// far from 2^63, and below 2^31 where they are i32.
static std::optional<int64_t> compute(Operation &op, int64_t a, int64_t b) {
  using Result = std::optional<int64_t>;
  auto divided = [&](auto divide) -> Result { return b == 0 ? Result() : Result(divide()); };
  auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  return llvm::TypeSwitch<Operation *, Result>(&op)
      .Case([&](arith::AddIOp) { return a + b; })
      .Case([&](arith::SubIOp) { return a - b; })
      .Case([&](arith::MulIOp) { return a * b; })
      .Case([&](arith::DivSIOp) { return divided([&] { return a / b; }); })
      .Case([&](arith::DivUIOp) { return divided([&] { return static_cast<int64_t>(ua / ub); }); })
      .Case(
          [&](arith::CeilDivSIOp) { return divided([&] { return llvm::divideCeilSigned(a, b); }); })
      .Case([&](arith::CeilDivUIOp) {
        return divided([&] { return static_cast<int64_t>(llvm::divideCeil(ua, ub)); });
      })
      .Case([&](arith::FloorDivSIOp) {
        return divided([&] { return llvm::divideFloorSigned(a, b); });
      })
      .Case([&](arith::RemSIOp) { return divided([&] { return a % b; }); })
      .Case([&](arith::RemUIOp) { return divided([&] { return static_cast<int64_t>(ua % ub); }); })
      .Case([&](arith::MinSIOp) { return std::min(a, b); })
      .Case([&](arith::MaxSIOp) { return std::max(a, b); })
      .Case([&](arith::MinUIOp) { return static_cast<int64_t>(std::min(ua, ub)); })
      .Case([&](arith::MaxUIOp) { return static_cast<int64_t>(std::max(ua, ub)); })
      .Case([&](arith::AndIOp) { return a & b; })
      .Case([&](arith::OrIOp) { return a | b; })
      .Case([&](arith::XOrIOp) { return a ^ b; })
      .Case([&](arith::CmpIOp each) { return compare(each.getPredicate(), a, b); })
      .Default([](Operation *) { return Result(); });
}

/// Whether `op` was one of numbers, whose result is known where its operands are.
bool Counter::runScalar(Operation &op) {
  Value result = op.getNumResults() == 1 ? op.getResult(0) : Value();
  if (!result || !result.getType().isIntOrIndex())
    return false;
  at(result) = {};
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    bool isTruth = result.getType().isInteger(1);
    if (auto value = dyn_cast<IntegerAttr>(constant.getValue()))
      set(result, isTruth ? value.getValue().getZExtValue() : value.getInt());
    return true;
  }
  if (auto id = dyn_cast<tile::ProgramIdOp>(op)) {
    set(result, program[id.getDim()]);
    return true;
  }
  SmallVector<std::optional<int64_t>, 3> operands;
  for (Value operand : op.getOperands())
    operands.push_back(operand.getType().isIntOrIndex() ? number(operand) : std::nullopt);
  if (isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp, arith::ExtUIOp,
          arith::TruncIOp>(op)) {
    if (operands[0])
      set(result, *operands[0]);
    return true;
  }
  if (operands.size() == 2 && operands[0] && operands[1])
    if (std::optional<int64_t> value = compute(op, *operands[0], *operands[1]))
      set(result, *value);
  return true;
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

bool Counter::runFor(scf::ForOp op) {
  std::optional<int64_t> lower = number(op.getLowerBound()), upper = number(op.getUpperBound()),
                         step = number(op.getStep());
  if (!lower || !upper || !step || *step <= 0)
    return fail(*op, "a bound that only the device knows");
  for (auto [argument, init] : llvm::zip(op.getRegionIterArgs(), op.getInitArgs()))
    at(argument) = at(init);
  for (int64_t i = *lower; i < *upper; i += *step) {
    set(op.getInductionVar(), i);
    if (!run(*op.getBody()))
      return false;
    SmallVector<Known> yielded;
    for (Value value : op.getBody()->getTerminator()->getOperands())
      yielded.push_back(at(value));
    for (auto [argument, value] : llvm::zip(op.getRegionIterArgs(), yielded))
      at(argument) = value;
  }
  for (auto [result, argument] : llvm::zip(op.getResults(), op.getRegionIterArgs()))
    at(result) = at(argument);
  return true;
}

bool Counter::runIf(scf::IfOp op) {
  std::optional<int64_t> condition = number(op.getCondition());
  if (!condition)
    return fail(*op, "a condition that only the device knows");
  Region &taken = *condition ? op.getThenRegion() : op.getElseRegion();
  if (taken.empty())
    return true;
  if (!run(taken.front()))
    return false;
  for (auto [result, value] :
       llvm::zip(op.getResults(), taken.front().getTerminator()->getOperands()))
    at(result) = at(value);
  return true;
}

bool Counter::execute(Operation &op) {
  if (++ops > kMostOps)
    return fail(op, "more operations than a report follows");
  return llvm::TypeSwitch<Operation *, bool>(&op)
      .Case([&](scf::ForOp each) { return runFor(each); })
      .Case([&](scf::IfOp each) { return runIf(each); })
      .Case<scf::YieldOp, tile::ReturnOp>([](Operation *) { return true; })
      .Case([&](memref::ReinterpretCastOp each) { return runReinterpret(each); })
      .Case([&](memref::LoadOp each) { return runLoadScalar(each); })
      .Case([&](tile::LoadOp each) { return runLoad(each); })
      .Case([&](tile::LoadRowsOp each) { return runLoadRows(each); })
      .Case([&](tile::LoadPagedOp each) { return runLoadPaged(each); })
      .Case([&](tile::LoadElementsOp each) { return runLoadElements(each); })
      .Case([&](tile::StoreOp each) { return runStore(each); })
      .Case([&](tile::StoreSlotsOp each) { return runStoreSlots(each); })
      .Case([&](tile::TopKOp each) { return runTopK(each); })
      .Case([&](tile::DotOp each) { return runDot(each); })
      .Case([&](tile::AttendOp each) { return runAttend(each); })
      .Case([&](arith::SelectOp each) { return runSelect(each); })
      .Default([&](Operation *each) {
        if (runScalar(*each))
          return true;
        if (each->getNumRegions() == 0 && isMemoryEffectFree(each))
          return runElementwise(*each);
        return fail(*each, "not known to the report");
      });
}

bool Counter::run(Block &block) {
  for (Operation &op : block)
    if (!execute(op))
      return false;
  return true;
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

Counter::Counter(tile::KernelOp kernel, const StepLaunch &launch, ArrayRef<StepBufferInfo> buffers)
    : kernel(kernel), launch(launch), buffers(buffers) {
  auto add = [&](Value value) { numbers.try_emplace(value, numbers.size()); };
  kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
    for (Region &region : op->getRegions())
      for (Block &block : region)
        llvm::for_each(block.getArguments(), add);
    llvm::for_each(op->getResults(), add);
  });
  values.resize(numbers.size());
}

void Counter::bindArguments() {
  for (auto [index, argument] : llvm::enumerate(kernel.getBody().getArguments())) {
    const StepArgument &given = launch.arguments[index];
    auto memory = dyn_cast<MemRefType>(argument.getType());
    if (!memory) {
      set(argument, given.number);
      continue;
    }
    Known &known = at(argument);
    known.kind = Known::Memory;
    known.view.buffer = static_cast<int>(index);
    known.view.elementBytes = llvm::divideCeil(memory.getElementTypeBitWidth(), 8);
  }
}

void Counter::runProgram() {
  attentions.clear();
  (void)run(kernel.getBody().front());
  for (const Attention &attention : attentions)
    flops += attention.flops();
}

KernelWork Counter::count() {
  KernelWork work;
  if (kernel.getBody().getNumArguments() != launch.arguments.size()) {
    work.whyNot = "the package's launch has other arguments than the kernel";
    return work;
  }
  bindArguments();
  for (program[2] = 0; program[2] < launch.grid[2] && !failure; ++program[2])
    for (program[1] = 0; program[1] < launch.grid[1] && !failure; ++program[1])
      for (program[0] = 0; program[0] < launch.grid[0] && !failure; ++program[0])
        runProgram();
  if (failure) {
    work.whyNot = *failure;
    return work;
  }
  work.flops = flops;
  work.readBytes = looseReads;
  work.writtenBytes = looseWrites;
  for (const auto &[buffer, sectors] : reads)
    work.readBytes += sectors.bytes();
  for (const auto &[buffer, sectors] : writes)
    work.writtenBytes += sectors.bytes();
  return work;
}

KernelWork mlac::countWork(tile::KernelOp kernel, const StepLaunch &launch,
                           ArrayRef<StepBufferInfo> buffers) {
  return Counter(kernel, launch, buffers).count();
}
