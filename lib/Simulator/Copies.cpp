//===- Copies.cpp - cp.async, TMA and bulk copies ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Data move when an operation completes, not when it is issued: from that point
// on nothing may have changed at either end, which the accesses noted at the
// issue make sure of.
//
//===----------------------------------------------------------------------===//

#include "Machine.h"

using namespace mlac::simulator;
using namespace mlir;
using namespace mlir::sm90;

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

static std::optional<int64_t> readIndex(const View &view, int64_t index) {
  char *element = view.locate({index});
  if (!element)
    return std::nullopt;
  return readInteger(element, view.elementType);
}

/// The element, 0 outside of the view; nothing, and a finding, outside of the buffer.
static std::optional<float> readElement(const View &view, ArrayRef<int64_t> indices) {
  if (!view.contains(indices))
    return 0.0f;
  char *element = view.locate(indices);
  if (!element)
    return std::nullopt;
  if (isa<IntegerType>(view.elementType)) // of few bits, which f32 holds
    return static_cast<float>(readInteger(element, view.elementType));
  return readReal(element, view.elementType);
}

Machine::Fetch Machine::fetchRows(Warpgroup &, Operation *, ViewRef view, ViewRef indices,
                                  int64_t first, int64_t column) {
  return [=](int64_t row, int64_t j) -> std::optional<float> {
    if (!indices->contains({first + row}))
      return 0.0f;
    std::optional<int64_t> picked = readIndex(*indices, first + row);
    if (!picked)
      return std::nullopt;
    if (view->sizes.size() == 2)
      return readElement(*view, {*picked, column + j});
    int64_t pageSize = view->sizes[1]; // of pages
    if (*picked < 0)
      return 0.0f;
    return readElement(*view, {*picked / pageSize, *picked % pageSize, column + j});
  };
}

Machine::Fetch Machine::fetchPaged(Warpgroup &, Operation *, ViewRef pool, ViewRef table,
                                   int64_t token, int64_t column, int64_t limit) {
  return [=](int64_t row, int64_t j) -> std::optional<float> {
    int64_t at = token + row, pageSize = pool->sizes[1];
    if (at >= limit)
      return 0.0f;
    std::optional<int64_t> page =
        table->contains({at / pageSize}) ? readIndex(*table, at / pageSize) : std::nullopt;
    if (!page || *page < 0 || *page >= pool->sizes[0])
      return std::nullopt;
    return readElement(*pool, {*page, at % pageSize, column + j});
  };
}

//===----------------------------------------------------------------------===//
// cp.async
//===----------------------------------------------------------------------===//

/// Warpgroup g of G copies the groups of eight rows (or, of a linear tile, the
/// chunks) g, g + G, ...
Step Machine::runCopy(Warpgroup &warpgroup, Operation *op, mlir::Value target, Fetch fetch) {
  Place place = getAs<Place>(warpgroup, target);
  if (checkDependency(warpgroup, op) == Step::Failed)
    return Step::Failed;
  if (!isInside(place))
    return fail(Defect::OutOfBounds, op, "reaches beyond the kernel's shared memory");
  constexpr unsigned all = (1 << kWarps) - 1;
  Accessor accessor = makeAccessor(warpgroup, op, Unit::Copy, all);
  accessor.access.count = ++warpgroup.copies.issued;
  SharedMemory::Range whole = SharedMemory::getAll(place);
  bool isLinear = place.type.getLayout() == SmemLayout::Linear;
  std::vector<SharedMemory::Range> shares;
  if (isLinear && warpgroup.getLocal() == 0)
    shares.push_back(whole);
  for (int64_t row = 8 * warpgroup.getLocal(); !isLinear && row < whole.endRow;
       row += 8 * warpgroup.count)
    shares.push_back({row, std::min(row + 8, whole.endRow), 0, whole.endChunk});
  for (const SharedMemory::Range &share : shares)
    if (check(memory->write(place, share, accessor), op, place) == Step::Failed)
      return Step::Failed;
  Access access = accessor.access;
  warpgroup.copies.pending.push_back(
      {op, access.count, false, [=, this]() -> Step {
         for (const SharedMemory::Range &share : shares) {
           int64_t endRow = isLinear ? place.type.getRows() : share.endRow;
           for (int64_t row = share.firstRow; row < endRow; ++row)
             for (int64_t column = 0; column < place.type.getColumns(); ++column) {
               std::optional<float> value = fetch(row, column);
               if (!value)
                 return fail(Defect::OutOfBounds, op,
                             "reads outside of its buffer for row " + Twine(row) + ", column " +
                                 Twine(column));
               memory->set(place, row, column, *value);
             }
           memory->land(place, share, access);
         }
         return Step::Advanced;
       }});
  return Step::Advanced;
}

Step Machine::runDenseCopy(Warpgroup &warpgroup, CopyOp op) {
  ViewRef view = getAs<ViewRef>(warpgroup, op.getView());
  std::vector<int64_t> offsets = getInts(warpgroup, op.getOffsets());
  return runCopy(warpgroup, op, op.getTarget(), [=](int64_t row, int64_t column) {
    return readElement(*view, view->getIndices(offsets, row, column));
  });
}

Step Machine::runCopyRows(Warpgroup &warpgroup, CopyRowsOp op) {
  return runCopy(warpgroup, op, op.getTarget(),
                 fetchRows(warpgroup, op, getAs<ViewRef>(warpgroup, op.getView()),
                           getAs<ViewRef>(warpgroup, op.getIndices()),
                           getInt(warpgroup, op.getFirst()), getInt(warpgroup, op.getColumn())));
}

Step Machine::runHasGap(Warpgroup &warpgroup, HasGapOp op) {
  if (checkDependency(warpgroup, op) == Step::Failed)
    return Step::Failed;
  ViewRef list = getAs<ViewRef>(warpgroup, op.getList());
  int64_t first = getInt(warpgroup, op.getFirst()), isGap = 0;
  auto rows = static_cast<uint32_t>(getInt(warpgroup, op.getRows()));
  for (int64_t entry = first; entry < first + int64_t(op.getBlock()); ++entry) {
    std::optional<int64_t> number = -1; // outside of the list
    if (list->contains({entry}))
      number = readIndex(*list, entry);
    if (!number)
      return fail(Defect::OutOfBounds, op, "reads outside of its buffer for entry " + Twine(entry));
    isGap |= static_cast<uint32_t>(*number) >= rows;
  }
  set(warpgroup, op.getResult(), isGap);
  return Step::Advanced;
}

Step Machine::runCopyPaged(Warpgroup &warpgroup, CopyPagedOp op) {
  return runCopy(warpgroup, op, op.getTarget(),
                 fetchPaged(warpgroup, op, getAs<ViewRef>(warpgroup, op.getPool()),
                            getAs<ViewRef>(warpgroup, op.getTable()),
                            getInt(warpgroup, op.getToken()), getInt(warpgroup, op.getColumn()),
                            getInt(warpgroup, op.getLimit())));
}

/// Waits until at most `pending` of the closed groups are in flight; the rest
/// completes here at the latest.
Step Machine::waitGroups(Warpgroup &warpgroup, Warpgroup::Queue &queue, Unit unit,
                         int64_t pending) {
  int64_t covered = int64_t(queue.groups.size()) - pending;
  if (covered <= 0)
    return Step::Advanced;
  uint64_t last = queue.groups[covered - 1];
  for (size_t index = 0; index < queue.pending.size();) {
    if (queue.pending[index].sequence > last) {
      ++index;
      continue;
    }
    Pending operation = std::move(queue.pending[index]);
    queue.pending.erase(queue.pending.begin() + index);
    if (operation.complete() == Step::Failed)
      return Step::Failed;
  }
  queue.waited = std::max(queue.waited, last);
  for (int warp = 0; warp < kWarps; ++warp)
    if (warpgroup.getActiveWarps() >> warp & 1)
      warpgroup.warps[warp].seen.raise(Access::getAgent(warpgroup.agent, warp, unit), last);
  return Step::Advanced;
}

/// 128 arrivals, one for each thread, once all its earlier copies are there.
Step Machine::runCopyPublish(Warpgroup &warpgroup, CopyPublishOp op) {
  Mbarrier *barrier = getFull(warpgroup, op, op.getRing(), op.getStage(), op.getPart());
  if (!barrier)
    return Step::Failed;
  int64_t turn = getAs<StageValue>(warpgroup, op.getStage()).turn;
  uint64_t last = warpgroup.copies.issued;
  int64_t index = warpgroup.agent;
  warpgroup.copies.waited = last;
  barrier->delivered = turn + 1;
  warpgroup.copies.pending.push_back({op, last, true, [=, this]() -> Step {
                                        for (int warp = 0; warp < kWarps; ++warp)
                                          barrier->arriving.seen.raise(
                                              Access::getAgent(index, warp, Unit::Copy), last);
                                        return arrive(*barrier, op, turn, kWarpgroupThreads);
                                      }});
  return Step::Advanced;
}

//===----------------------------------------------------------------------===//
// TMA
//===----------------------------------------------------------------------===//

/// Notes the write of a transfer and puts it in flight; its bytes complete
/// `barrier` in the phase of `turn`.
Step Machine::deliver(Warpgroup &warpgroup, Operation *op, Place place, SharedMemory::Range range,
                      Mbarrier &barrier, int64_t turn, int64_t bytes, std::function<Step()> move) {
  if (checkDependency(warpgroup, op) == Step::Failed)
    return Step::Failed;
  if (!isInside(place))
    return fail(Defect::OutOfBounds, op, "reaches beyond the kernel's shared memory");
  if (barrier.phase != turn)
    return fail(Defect::WrongPhase, op, "signals phase " + Twine(turn) + " of " + describe(barrier),
                barrier.ring->op, "of this ring");
  Access access{op, uint64_t(turn) + 1, barrier.agent, Unit::Tma, 1};
  if (check(memory->write(place, range, {access, warpgroup.warps}), op, place) == Step::Failed)
    return Step::Failed;
  Mbarrier *signalled = &barrier;
  barrier.delivered = turn + 1;
  transfers.push_back({op, 0, false, [=, this]() -> Step {
                         if (move() == Step::Failed)
                           return Step::Failed;
                         memory->land(place, range, access);
                         if (signalled->phase != turn)
                           return fail(
                               Defect::BytesMismatch, op,
                               "arrives after its phase " + Twine(turn) +
                                   " is over, which expected fewer bytes: " + describe(*signalled),
                               signalled->ring->op, "of this ring");
                         signalled->arriving.seen.raise(access.agent, access.count);
                         signalled->transactions -= bytes;
                         return tryComplete(*signalled, op);
                       }});
  return Step::Advanced;
}

/// Calls `function(row, column, indices)` for every element of the box in `view`, whose rows are of
/// one run in groups where it has four dimensions.
template <typename Function>
static void forEachOfBox(const View &view, ArrayRef<int64_t> coordinates, int64_t rows,
                         int64_t columns, Function function) {
  std::vector<int64_t> indices(coordinates);
  size_t rowAt = indices.size() - 2, columnAt = indices.size() - 1;
  bool hasGroups = view.sizes.size() == 4;
  int64_t group = hasGroups ? view.sizes[rowAt] : rows;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      indices[rowAt] = coordinates[rowAt] + row % group;
      if (hasGroups)
        indices[0] = coordinates[0] + row / group;
      indices[columnAt] = coordinates[columnAt] + column;
      function(row, column, ArrayRef<int64_t>(indices));
    }
}

Step Machine::runTmaLoad(Warpgroup &warpgroup, TmaLoadOp op) {
  if (op.getMulticast())
    return fail(Defect::Unsupported, op, "with multicast is not known to the simulator");
  Place place = getAs<Place>(warpgroup, op.getTarget());
  TensorMap map = getAs<TensorMap>(warpgroup, op.getMap());
  std::vector<int64_t> coordinates = getInts(warpgroup, op.getCoordinates());
  Mbarrier *barrier = getFull(warpgroup, op, op.getRing(), op.getStage(), op.getPart());
  if (!barrier)
    return Step::Failed;
  int64_t first = op.getRow(), columns = place.type.getColumns();
  SharedMemory::Range range = SharedMemory::getAll(place);
  range.firstRow = first;
  range.endRow = first + map.rows;
  int64_t bytes = op.getMap().getType().countBytes(place.type);
  auto move = [=, this]() -> Step {
    bool isInside = true;
    forEachOfBox(*map.view, coordinates, map.rows, columns,
                 [&](int64_t row, int64_t column, auto indices) {
                   std::optional<float> value =
                       indices.back() < map.endColumn ? readElement(*map.view, indices) : 0.0f;
                   isInside &= value.has_value();
                   memory->set(place, first + row, column, value.value_or(0));
                 });
    return isInside ? Step::Advanced
                    : fail(Defect::OutOfBounds, op, "reads a view that exceeds its buffer");
  };
  return deliver(warpgroup, op, place, range, *barrier,
                 getAs<StageValue>(warpgroup, op.getStage()).turn, bytes, move);
}

Step Machine::runBulkLoad(Warpgroup &warpgroup, BulkLoadOp op) {
  Place place = getAs<Place>(warpgroup, op.getTarget());
  ViewRef view = getAs<ViewRef>(warpgroup, op.getView());
  int64_t offset = getInt(warpgroup, op.getOffset());
  Mbarrier *barrier = getFull(warpgroup, op, op.getRing(), op.getStage(), op.getPart());
  if (!barrier)
    return Step::Failed;
  int64_t elementBytes = getElementBytes(view->elementType);
  if ((view->offset + offset) * elementBytes % kTmaAlignment != 0)
    return fail(Defect::OutOfBounds, op,
                "starts at element " + Twine(offset) + ", which is not aligned to 16 bytes");
  auto move = [=, this]() -> Step {
    int64_t columns = place.type.getColumns();
    for (int64_t element = 0; element < place.type.getRows() * columns; ++element) {
      char *source =
          view->contains({offset + element}) ? view->locate({offset + element}) : nullptr;
      if (!source)
        return fail(Defect::OutOfBounds, op,
                    "reads outside of its view, at element " + Twine(offset + element));
      memory->set(place, element / columns, element % columns, readReal(source, view->elementType));
    }
    return Step::Advanced;
  };
  return deliver(warpgroup, op, place, SharedMemory::getAll(place), *barrier,
                 getAs<StageValue>(warpgroup, op.getStage()).turn, place.type.getByteSize(), move);
}

Step Machine::runTmaStore(Warpgroup &warpgroup, TmaStoreOp op) {
  Place place = getAs<Place>(warpgroup, op.getSource());
  TensorMap map = getAs<TensorMap>(warpgroup, op.getMap());
  std::vector<int64_t> coordinates = getInts(warpgroup, op.getCoordinates());
  Accessor accessor = makeAccessor(warpgroup, op, Unit::BulkStore, 1);
  accessor.access.count = ++warpgroup.stores.issued;
  SharedMemory::Range range = SharedMemory::getAll(place);
  if (checkDependency(warpgroup, op) == Step::Failed ||
      check(memory->read(place, range, accessor), op, place) == Step::Failed)
    return Step::Failed;
  warpgroup.stores.pending.push_back(
      {op, accessor.access.count, false, [=, this]() -> Step {
         Step step = Step::Advanced;
         forEachOfBox(*map.view, coordinates, map.rows, place.type.getColumns(),
                      [&](int64_t row, int64_t column, auto indices) {
                        if (!map.view->contains(indices) || indices.back() >= map.endColumn ||
                            step == Step::Failed)
                          return;
                        char *target = map.view->locate(indices);
                        float value = memory->get(place, row, column);
                        if (!target)
                          step = fail(Defect::OutOfBounds, op,
                                      "writes a view that exceeds its buffer");
                        else if (isPoison(value))
                          step = fail(Defect::Uninitialized, op,
                                      "stores what was never written, in row " + Twine(row) +
                                          ", column " + Twine(column));
                        else {
                          char bytes[sizeof(float)];
                          writeReal(bytes, map.view->elementType, value);
                          step = write(op, *map.view, target, bytes);
                        }
                      });
         return step;
       }});
  return Step::Advanced;
}

Step Machine::runPrefetch(Warpgroup &warpgroup, PrefetchOp op) {
  const View &view = *getAs<ViewRef>(warpgroup, op.getView());
  std::vector<int64_t> offsets = getInts(warpgroup, op.getOffsets());
  char *first = view.contains(offsets) ? view.locate(offsets) : nullptr;
  if (!first || first + op.getBytes() > view.data + view.bytes)
    return fail(Defect::OutOfBounds, op, "asks for memory outside of its view");
  return Step::Advanced;
}
