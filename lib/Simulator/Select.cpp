//===- Select.cpp - the steps of a selection ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An op of sm90.select_* is one step of all threads: what it finds is computed as its description
// says, not as its lowering does. Of its accesses to shared memory is modelled what a barrier
// before and behind it must order: it reads its tiles whole, and writes a warpgroup's share of
// them, before the threads meet within it; behind that it reads `work` again. A barrier that is
// missing between two ops thus lets one of these races appear.
//
//===----------------------------------------------------------------------===//

#include "Machine.h"

#include "mla/Dialect/Sm90/Utils/Select.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

using namespace mlac::simulator;
using namespace mlir;
using namespace mlir::sm90;

namespace {
constexpr unsigned kAllWarps = (1 << kWarps) - 1;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// A value of a row and its position.
struct Candidate {
  float value;
  uint32_t position;
};
} // namespace

/// The chunks of every row of a tile that a warpgroup writes.
static SharedMemory::Range getShare(const Warpgroup &warpgroup, const Place &place) {
  SharedMemory::Range range = SharedMemory::getAll(place);
  int64_t chunks = range.endChunk;
  range.firstChunk = chunks * warpgroup.getLocal() / warpgroup.count;
  range.endChunk = chunks * (warpgroup.getLocal() + 1) / warpgroup.count;
  return range;
}

/// The same bytes as numbers, which words are the bits of.
static Place asNumbers(Place place) {
  Type real = Float32Type::get(place.type.getContext());
  place.type = SmemType::get(real.getContext(), place.type.getShape(), real, SmemLayout::Linear);
  return place;
}

Step Machine::readShared(Warpgroup &warpgroup, Operation *op, ArrayRef<mlir::Value> tiles) {
  for (mlir::Value tile : tiles) {
    Place place = getAs<Place>(warpgroup, tile);
    if (access(warpgroup, op, place, SharedMemory::getAll(place), kAllWarps,
               /*isWrite=*/false) == Step::Failed)
      return Step::Failed;
  }
  return Step::Advanced;
}

Step Machine::writeShare(Warpgroup &warpgroup, Operation *op, ArrayRef<mlir::Value> tiles) {
  for (mlir::Value tile : tiles) {
    Place place = getAs<Place>(warpgroup, tile);
    if (access(warpgroup, op, place, getShare(warpgroup, place), kAllWarps,
               /*isWrite=*/true) == Step::Failed)
      return Step::Failed;
  }
  return Step::Advanced;
}

/// Elements [begin, end) of a row, or a failure where they are outside of the buffer.
static std::optional<std::vector<Candidate>> readRow(const View &view, int64_t row, int64_t begin,
                                                     int64_t end) {
  std::vector<Candidate> values;
  for (int64_t i = begin; i < end; ++i) {
    const char *element = view.contains({row, i}) ? view.locate({row, i}) : nullptr;
    if (!element)
      return std::nullopt;
    values.push_back({readReal(element, view.elementType), static_cast<uint32_t>(i)});
  }
  return values;
}

static bool isBefore(const Candidate &a, const Candidate &b) {
  uint32_t left = getSelectKey(a.value), right = getSelectKey(b.value);
  return left != right ? left > right : a.position < b.position;
}

static std::vector<Candidate> readList(const SharedMemory &memory, const Place &place,
                                       int64_t count, bool isInOrder) {
  std::vector<Candidate> list;
  for (int64_t i = 0; i < count; ++i) {
    auto own =
        isInOrder ? static_cast<uint32_t>(i) : std::bit_cast<uint32_t>(memory.get(place, 1, i));
    list.push_back({memory.get(place, 0, i), own});
  }
  return list;
}

static void writeList(SharedMemory &memory, const Place &place, ArrayRef<Candidate> list) {
  int64_t count = std::min<int64_t>(list.size(), place.type.getColumns());
  for (int64_t i = 0; i < count; ++i) {
    memory.set(place, 0, i, list[i].value);
    memory.set(place, 1, i, std::bit_cast<float>(list[i].position));
  }
}

Step Machine::failOutside(Operation *op) {
  return fail(Defect::OutOfBounds, op, "reads a row outside of its buffer");
}

//===----------------------------------------------------------------------===//
// Candidates
//===----------------------------------------------------------------------===//

Step Machine::runSelectBegin(Warpgroup &warpgroup, SelectBeginOp op) {
  if (writeShare(warpgroup, op, {op.getWork()}) == Step::Failed)
    return Step::Failed;
  Place place = asNumbers(getAs<Place>(warpgroup, op.getWork()));
  for (int64_t i = 0; i < kSelectWorkWords; ++i)
    memory->set(place, 0, i, 0);
  return Step::Advanced;
}

Step Machine::runSelectCountUp(Warpgroup &warpgroup, SelectCountUpOp op) {
  if (checkDependency(warpgroup, op) == Step::Failed)
    return Step::Failed;
  const View &out = *getAs<ViewRef>(warpgroup, op.getOut());
  int64_t row = getInt(warpgroup, op.getRow()), length = getInt(warpgroup, op.getLength());
  for (int64_t i = 0; i < out.sizes[1]; ++i)
    if (writeWord(op, out, {row, i}, i < length ? i : -1) == Step::Failed)
      return Step::Failed;
  return Step::Advanced;
}

Step Machine::runSetBits(Warpgroup &warpgroup, SetBitsOp op) {
  if (warpgroup.resume == 0 && (checkDependency(warpgroup, op) == Step::Failed ||
                                writeShare(warpgroup, op, {op.getWork()}) == Step::Failed))
    return Step::Failed;
  if (Step step = meetRole(warpgroup, op); step != Step::Advanced)
    return step;
  if (readShared(warpgroup, op, {op.getWork()}) == Step::Failed)
    return Step::Failed;
  constexpr int64_t bits = 32;
  const View &list = *getAs<ViewRef>(warpgroup, op.getList()),
             &out = *getAs<ViewRef>(warpgroup, op.getOut());
  int64_t row = getInt(warpgroup, op.getRow()), first = getInt(warpgroup, op.getFirst());
  std::vector<uint32_t> words(out.sizes[1]);
  for (int64_t i = 0; i < list.sizes[1]; ++i) {
    const char *entry = list.contains({row, i}) ? list.locate({row, i}) : nullptr;
    if (!entry)
      return failOutside(op);
    int64_t position = readInteger(entry, list.elementType) - first;
    if (position >= 0 && position < bits * out.sizes[1])
      words[position / bits] |= 1u << position % bits;
  }
  for (auto [place, word] : llvm::enumerate(words))
    if (writeWord(op, out, {row, static_cast<int64_t>(place)}, word) == Step::Failed)
      return Step::Failed;
  return Step::Advanced;
}

/// A bound that as many values reach as in a row without order: half as many again as K.
static float getBound(std::vector<Candidate> row, int64_t rank) {
  size_t place = std::min<size_t>(rank + rank / 2, row.size() - 1);
  std::nth_element(row.begin(), row.begin() + place, row.end(), isBefore);
  return row[place].value;
}

Step Machine::checkZeros(Warpgroup &warpgroup, Operation *op, mlir::Value work) {
  Place place = asNumbers(getAs<Place>(warpgroup, work));
  for (int64_t i = 0; i < kSelectWorkWords; ++i)
    if (memory->get(place, 0, i) != 0)
      return fail(Defect::Uninitialized, op,
                  "finds no zeros in its memory, but in word " + Twine(i));
  return Step::Advanced;
}

Step Machine::runSelectKeep(Warpgroup &warpgroup, SelectKeepOp op) {
  Place list = getAs<Place>(warpgroup, op.getList());
  const View &values = *getAs<ViewRef>(warpgroup, op.getValues());
  int64_t row = getInt(warpgroup, op.getRow()), length = getInt(warpgroup, op.getLength());
  int64_t begin = getInt(warpgroup, op.getBegin()), end = getInt(warpgroup, op.getEnd());
  auto whole = readRow(values, row, 0, length);
  if (!whole || begin < 0 || end > length)
    return failOutside(op);
  float bound = -kInfinity;
  if (length > list.type.getColumns())
    bound = getBound(*whole, static_cast<int64_t>(op.getRank()));
  std::vector<Candidate> kept;
  std::copy_if(whole->begin() + begin, whole->begin() + end, std::back_inserter(kept),
               [&](const Candidate &candidate) { return candidate.value >= bound; });
  if (warpgroup.resume == 0) {
    if (checkDependency(warpgroup, op) == Step::Failed ||
        readShared(warpgroup, op, {op.getWork()}) == Step::Failed ||
        writeShare(warpgroup, op, {op.getList()}) == Step::Failed)
      return Step::Failed;
    if (checkZeros(warpgroup, op, op.getWork()) == Step::Failed)
      return Step::Failed;
    writeList(*memory, list, kept);
  }
  if (Step step = meetRole(warpgroup, op); step != Step::Advanced)
    return step;
  if (readShared(warpgroup, op, {op.getWork()}) == Step::Failed)
    return Step::Failed;
  set(warpgroup, op.getCount(), static_cast<int64_t>(kept.size()));
  return Step::Advanced;
}

/// Row 1 keeps what it had: nothing may read it.
Step Machine::runSelectHold(Warpgroup &warpgroup, SelectHoldOp op) {
  Place list = getAs<Place>(warpgroup, op.getList());
  int64_t row = getInt(warpgroup, op.getRow()), length = getInt(warpgroup, op.getLength());
  auto whole = readRow(*getAs<ViewRef>(warpgroup, op.getValues()), row, 0, length);
  if (!whole)
    return failOutside(op);
  if (length > list.type.getColumns())
    return fail(Defect::OutOfBounds, op, "holds more than its list has room for");
  if (warpgroup.resume == 0) {
    if (checkDependency(warpgroup, op) == Step::Failed ||
        readShared(warpgroup, op, {op.getWork()}) == Step::Failed ||
        writeShare(warpgroup, op, {op.getList()}) == Step::Failed ||
        checkZeros(warpgroup, op, op.getWork()) == Step::Failed)
      return Step::Failed;
    for (const Candidate &candidate : *whole)
      memory->set(list, 0, candidate.position, candidate.value);
  }
  if (Step step = meetRole(warpgroup, op); step != Step::Advanced)
    return step;
  if (readShared(warpgroup, op, {op.getWork()}) == Step::Failed)
    return Step::Failed;
  auto numbers =
      llvm::count_if(*whole, [](const Candidate &own) { return own.value == own.value; });
  set(warpgroup, op.getCount(), static_cast<int64_t>(numbers));
  return Step::Advanced;
}

/// CTAs run one after the other: warpgroup 0 does what all of one would, and tells the others in
/// `work`.
Step Machine::runSelectMeet(Warpgroup &warpgroup, SelectMeetOp op) {
  Place list = getAs<Place>(warpgroup, op.getList()),
        work = asNumbers(getAs<Place>(warpgroup, op.getWork()));
  if (warpgroup.resume == 0) {
    if (checkDependency(warpgroup, op) == Step::Failed ||
        writeShare(warpgroup, op, {op.getWork()}) == Step::Failed ||
        readShared(warpgroup, op, {op.getList()}) == Step::Failed)
      return Step::Failed;
    if (warpgroup.getLocal() == 0 && meetPrograms(warpgroup, op, list, work) == Step::Failed)
      return Step::Failed;
  }
  if (Step step = meetRole(warpgroup, op); step != Step::Advanced)
    return step;
  if (readShared(warpgroup, op, {op.getWork()}) == Step::Failed)
    return Step::Failed;
  auto told = [&](int64_t number) { return memory->get(work, 0, kSelectFound + number); };
  set(warpgroup, op.getIsLast(), static_cast<int64_t>(told(0)));
  set(warpgroup, op.getTotal(), static_cast<int64_t>(std::bit_cast<uint32_t>(told(1))));
  return Step::Advanced;
}

Step Machine::meetPrograms(Warpgroup &warpgroup, SelectMeetOp op, const Place &list,
                           const Place &work) {
  const View &lists = *getAs<ViewRef>(warpgroup, op.getLists());
  const View &counters = *getAs<ViewRef>(warpgroup, op.getCounters());
  int64_t row = getInt(warpgroup, op.getRow()), capacity = list.type.getColumns();
  auto count = static_cast<uint32_t>(getInt(warpgroup, op.getCount()));
  char *total = counters.contains({2 * row}) ? counters.locate({2 * row}) : nullptr;
  char *arrived = counters.contains({2 * row + 1}) ? counters.locate({2 * row + 1}) : nullptr;
  if (!total || !arrived || !lists.contains({row, 1, capacity - 1}) ||
      !lists.locate({row, 1, capacity - 1}))
    return fail(Defect::OutOfBounds, op, "meets outside of the lists or the counters");
  auto at = [&](int64_t part, int64_t i) { return lists.locate({row, part, i}); };
  auto start = static_cast<uint32_t>(readInteger(total, counters.elementType));
  auto arrivals = static_cast<uint32_t>(readInteger(arrived, counters.elementType)) + 1;
  Type real = lists.elementType;
  if (start + count <= capacity)
    for (uint32_t i = 0; i < count; ++i) {
      writeReal(at(0, start + i), real, memory->get(list, 0, i));
      writeReal(at(1, start + i), real, memory->get(list, 1, i));
    }
  uint32_t sum = start + count;
  bool isLast = arrivals == static_cast<uint32_t>(getInt(warpgroup, op.getPrograms()));
  uint32_t left[] = {isLast ? 0 : sum, isLast ? 0 : arrivals};
  std::memcpy(total, &left[0], sizeof left[0]);
  std::memcpy(arrived, &left[1], sizeof left[1]);
  std::vector<Candidate> all;
  for (uint32_t i = 0; isLast && i < std::min<uint32_t>(sum, capacity); ++i)
    all.push_back({readReal(at(0, i), real), std::bit_cast<uint32_t>(readReal(at(1, i), real))});
  writeList(*memory, list, all);
  memory->set(work, 0, kSelectFound, isLast ? 1.0f : 0.0f);
  memory->set(work, 0, kSelectFound + 1, std::bit_cast<float>(sum));
  return Step::Advanced;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

Step Machine::runSelectCut(Warpgroup &warpgroup, SelectCutOp op) {
  if (warpgroup.resume == 0) {
    SmallVector<mlir::Value, 1> read;
    if (op.getList())
      read.push_back(op.getList());
    if (checkDependency(warpgroup, op) == Step::Failed ||
        writeShare(warpgroup, op, {op.getWork()}) == Step::Failed ||
        readShared(warpgroup, op, read) == Step::Failed)
      return Step::Failed;
  }
  if (Step step = meetRole(warpgroup, op); step != Step::Advanced)
    return step;
  if (readShared(warpgroup, op, {op.getWork()}) == Step::Failed)
    return Step::Failed;
  int64_t count = getInt(warpgroup, op.getCount()), rank = static_cast<int64_t>(op.getRank());
  std::optional<std::vector<Candidate>> all;
  if (op.getList())
    all = readList(*memory, getAs<Place>(warpgroup, op.getList()), count, op.getInOrder());
  else
    all = readRow(*getAs<ViewRef>(warpgroup, op.getValues()), getInt(warpgroup, op.getRow()), 0,
                  count);
  if (!all || static_cast<int64_t>(all->size()) < rank)
    return failOutside(op);
  std::nth_element(all->begin(), all->begin() + (rank - 1), all->end(), isBefore);
  Candidate last = (*all)[rank - 1];
  set(warpgroup, op.getKey(), static_cast<int64_t>(static_cast<int32_t>(getSelectKey(last.value))));
  set(warpgroup, op.getBefore(), static_cast<int64_t>(last.position) + 1);
  return Step::Advanced;
}

/// The positions, ascending, of what lies on the right side of a cut.
static std::vector<uint32_t> takeAll(ArrayRef<Candidate> all, int64_t key, int64_t before) {
  auto last = static_cast<uint32_t>(key), end = static_cast<uint32_t>(before);
  std::vector<uint32_t> taken;
  for (const Candidate &candidate : all) {
    uint32_t own = getSelectKey(candidate.value);
    if (own > last || (own == last && candidate.position < end))
      taken.push_back(candidate.position);
  }
  llvm::sort(taken);
  return taken;
}

Step Machine::runSelectWrite(Warpgroup &warpgroup, SelectWriteOp op) {
  if (warpgroup.resume == 0) {
    SmallVector<mlir::Value, 1> read;
    if (op.getList())
      read.push_back(op.getList());
    if (checkDependency(warpgroup, op) == Step::Failed ||
        writeShare(warpgroup, op, {op.getWork(), op.getBitmap(), op.getPlaces()}) == Step::Failed ||
        readShared(warpgroup, op, read) == Step::Failed)
      return Step::Failed;
  }
  if (Step step = meetRole(warpgroup, op); step != Step::Advanced)
    return step;
  if (readShared(warpgroup, op, {op.getWork(), op.getBitmap(), op.getPlaces()}) == Step::Failed)
    return Step::Failed;
  int64_t row = getInt(warpgroup, op.getRow()), length = getInt(warpgroup, op.getLength());
  std::optional<std::vector<Candidate>> all;
  if (op.getList())
    all = readList(*memory, getAs<Place>(warpgroup, op.getList()), getInt(warpgroup, op.getCount()),
                   /*isInOrder=*/false);
  else
    all = readRow(*getAs<ViewRef>(warpgroup, op.getValues()), row, 0, length);
  if (!all)
    return failOutside(op);
  return writePositions(
      warpgroup, op, op.getOut(), op.getRow(),
      takeAll(*all, getInt(warpgroup, op.getKey()), getInt(warpgroup, op.getBefore())));
}

Step Machine::runSelectWriteInOrder(Warpgroup &warpgroup, SelectWriteInOrderOp op) {
  if (warpgroup.resume == 0 && (checkDependency(warpgroup, op) == Step::Failed ||
                                writeShare(warpgroup, op, {op.getWork()}) == Step::Failed ||
                                readShared(warpgroup, op, {op.getList()}) == Step::Failed))
    return Step::Failed;
  if (Step step = meetRole(warpgroup, op); step != Step::Advanced)
    return step;
  if (readShared(warpgroup, op, {op.getWork()}) == Step::Failed)
    return Step::Failed;
  auto all = readList(*memory, getAs<Place>(warpgroup, op.getList()),
                      getInt(warpgroup, op.getCount()), /*isInOrder=*/true);
  return writePositions(
      warpgroup, op, op.getOut(), op.getRow(),
      takeAll(all, getInt(warpgroup, op.getKey()), getInt(warpgroup, op.getBefore())));
}

Step Machine::writePositions(Warpgroup &warpgroup, Operation *op, mlir::Value out, mlir::Value row,
                             ArrayRef<uint32_t> positions) {
  const View &view = *getAs<ViewRef>(warpgroup, out);
  int64_t ofRow = getInt(warpgroup, row);
  for (auto [place, position] : llvm::enumerate(positions))
    if (writeWord(op, view, {ofRow, static_cast<int64_t>(place)}, position) == Step::Failed)
      return Step::Failed;
  return Step::Advanced;
}

Step Machine::writeWord(Operation *op, const View &view, ArrayRef<int64_t> indices, int64_t value) {
  char *element = view.contains(indices) ? view.locate(indices) : nullptr;
  if (!element)
    return fail(Defect::OutOfBounds, op, "writes outside of its buffer");
  return write(op, view, element, reinterpret_cast<const char *>(&value));
}
