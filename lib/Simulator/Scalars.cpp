//===- Scalars.cpp - constants, views, places and barriers of the CTA ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Machine.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlac::simulator;
using namespace mlir;
using namespace mlir::sm90;

//===----------------------------------------------------------------------===//
// Constants and memrefs
//===----------------------------------------------------------------------===//

/// An integer as the simulator keeps it: i1 as 0 and 1, others sign-extended.
static int64_t toInteger(const APInt &value) {
  return value.getBitWidth() == 1 ? value.getZExtValue() : value.getSExtValue();
}

static float toReal(APFloat value) {
  bool isExact;
  value.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &isExact);
  return value.convertToFloat();
}

Step Machine::runConstant(Warpgroup &warpgroup, Operation *op) {
  auto constant = cast<arith::ConstantOp>(op);
  if (auto elements = dyn_cast<DenseElementsAttr>(constant.getValue())) {
    Value &result = get(warpgroup, constant.getResult());
    if (std::holds_alternative<TileRef>(result)) // made in an earlier iteration
      return Step::Advanced;
    auto tile = std::make_shared<Tile>();
    tile->isConstant = true;
    if (isa<FloatType>(elements.getElementType()))
      for (const APFloat &value : elements.getValues<APFloat>())
        tile->reals.push_back(toReal(value));
    else
      for (const APInt &value : elements.getValues<APInt>())
        tile->integers.push_back(toInteger(value));
    result = TileRef{tile};
  } else if (auto real = dyn_cast<FloatAttr>(constant.getValue())) {
    set(warpgroup, constant.getResult(), toReal(real.getValue()));
  } else {
    set(warpgroup, constant.getResult(),
        toInteger(cast<IntegerAttr>(constant.getValue()).getValue()));
  }
  return Step::Advanced;
}

Step Machine::runMemref(Warpgroup &warpgroup, Operation *op) {
  if (auto cast = dyn_cast<memref::ReinterpretCastOp>(op)) {
    auto evaluate = [&](OpFoldResult value) {
      if (auto attribute = dyn_cast<Attribute>(value))
        return mlir::cast<IntegerAttr>(attribute).getInt();
      return getInt(warpgroup, mlir::cast<mlir::Value>(value));
    };
    auto view = std::make_shared<View>(*getAs<ViewRef>(warpgroup, cast.getSource()));
    view->offset = evaluate(cast.getMixedOffsets().front());
    view->sizes.clear();
    view->strides.clear();
    for (OpFoldResult size : cast.getMixedSizes())
      view->sizes.push_back(evaluate(size));
    for (OpFoldResult stride : cast.getMixedStrides())
      view->strides.push_back(evaluate(stride));
    set(warpgroup, cast.getResult(), ViewRef(view));
    return Step::Advanced;
  }
  if (auto cast = dyn_cast<memref::CastOp>(op)) {
    set(warpgroup, cast.getResult(), get(warpgroup, cast.getSource()));
    return Step::Advanced;
  }
  if (auto dim = dyn_cast<memref::DimOp>(op)) {
    const View &view = *getAs<ViewRef>(warpgroup, dim.getSource());
    set(warpgroup, dim.getResult(), view.sizes[getInt(warpgroup, dim.getIndex())]);
    return Step::Advanced;
  }
  if (isa<memref::StoreOp, memref::AtomicRMWOp>(op))
    return runScalarWrite(warpgroup, op);
  auto load = dyn_cast<memref::LoadOp>(op);
  if (!load)
    return fail(Defect::Unsupported, op, "is not known to the simulator");
  const View &view = *getAs<ViewRef>(warpgroup, load.getMemRef());
  std::vector<int64_t> indices = getInts(warpgroup, load.getIndices());
  // Lists of integers (work, block tables) come from the host.
  bool isList = load.getMemRefType().getElementType().isInteger();
  if (!isList && checkDependency(warpgroup, op) == Step::Failed)
    return Step::Failed;
  char *element = view.contains(indices) ? view.locate(indices) : nullptr;
  if (!element)
    return fail(Defect::OutOfBounds, op,
                "loads outside of its buffer, at index " +
                    Twine(indices.empty() ? 0 : indices.front()));
  if (isa<FloatType>(view.elementType)) {
    set(warpgroup, load.getResult(), readReal(element, view.elementType));
    return Step::Advanced;
  }
  set(warpgroup, load.getResult(), readInteger(element, view.elementType));
  return Step::Advanced;
}

/// An integer stored, or added to what is there (CTAs run one after the other here: the
/// first takes all numbers that it can get).
Step Machine::runScalarWrite(Warpgroup &warpgroup, Operation *op) {
  if (checkDependency(warpgroup, op) == Step::Failed)
    return Step::Failed;
  auto atomic = dyn_cast<memref::AtomicRMWOp>(op);
  auto store = dyn_cast<memref::StoreOp>(op);
  if (atomic && atomic.getKind() != arith::AtomicRMWKind::addi)
    return fail(Defect::Unsupported, op, "is not known to the simulator: a sum is");
  const View &view = *getAs<ViewRef>(warpgroup, atomic ? atomic.getMemref() : store.getMemref());
  std::vector<int64_t> indices =
      getInts(warpgroup, atomic ? atomic.getIndices() : store.getIndices());
  char *element = view.contains(indices) ? view.locate(indices) : nullptr;
  if (!element || !view.elementType.isInteger(32))
    return fail(Defect::OutOfBounds, op, "writes outside of its buffer, or no i32");
  auto value =
      static_cast<int32_t>(getInt(warpgroup, atomic ? atomic.getValue() : store.getValue()));
  if (atomic) {
    int64_t before = readInteger(element, view.elementType);
    set(warpgroup, atomic.getResult(), before);
    value += static_cast<int32_t>(before);
  }
  memcpy(element, &value, sizeof(value));
  return Step::Advanced;
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

Step Machine::runAlloc(Warpgroup &warpgroup, AllocOp op) {
  set(warpgroup, op.getResult(),
      Place{op.getResult().getType(),
            warpgroup.rank * sharedBytes + static_cast<int64_t>(*op.getOffset()), owners[op]});
  return Step::Advanced;
}

Step Machine::runSlice(Warpgroup &warpgroup, SliceOp op) {
  Place place = getAs<Place>(warpgroup, op.getSource());
  place.base += op.getColumn() / place.type.getPanelColumns() * place.type.getPanelBytes();
  place.type = op.getResult().getType();
  set(warpgroup, op.getResult(), place);
  return Step::Advanced;
}

Step Machine::runTensorMap(Warpgroup &warpgroup, TensorMapOp op) {
  TensorMapType type = op.getResult().getType();
  ViewRef view = getAs<ViewRef>(warpgroup, op.getView());
  int64_t columns = view->sizes.back();
  if (type.getPanels() > 1)
    columns -= columns % type.getPanelColumns();
  set(warpgroup, op.getResult(), TensorMap{view, type.getRows(), columns});
  return Step::Advanced;
}

std::string Machine::describe(const Place &place) {
  for (auto &[key, ring] : rings) {
    RingType type = ring.op.getResult().getType();
    int index = place.owner - ring.firstOwner, tiles = type.getTiles().size();
    if (index < 0 || index >= tiles * type.getStages())
      continue;
    StringRef label = ring.op.getLabel().value_or("");
    return llvm::formatv("ring '{0}', slot {1}, tile {2}", label, index / tiles, index % tiles);
  }
  return llvm::formatv("the tile of bytes {0} to {1}", place.base,
                       place.base + place.type.getByteSize());
}

Accessor Machine::makeAccessor(Warpgroup &warpgroup, Operation *op, Unit unit, unsigned warps) {
  Access access{op, ++warpgroup.accesses, Access::getAgent(warpgroup.agent, 0, unit), unit,
                uint8_t(warps)};
  if (unit == Unit::Generic)
    for (int warp = 0; warp < kWarps; ++warp)
      if (warps >> warp & 1)
        warpgroup.warps[warp].seen.raise(access.agent + warp * kUnitsOfWarp, access.count);
  return {access, warpgroup.warps};
}

Step Machine::check(const std::optional<Conflict> &conflict, Operation *op, const Place &place) {
  if (!conflict)
    return Step::Advanced;
  return fail(conflict->defect, op, describe(place) + ": " + conflict->text, conflict->other,
              "the other access");
}

Step Machine::access(Warpgroup &warpgroup, Operation *op, const Place &place,
                     const SharedMemory::Range &range, unsigned warps, bool isWrite) {
  if (!isInside(place))
    return fail(Defect::OutOfBounds, op, "reaches beyond the kernel's shared memory");
  Accessor accessor = makeAccessor(warpgroup, op, Unit::Generic, warps);
  return check(isWrite ? memory->write(place, range, accessor)
                       : memory->read(place, range, accessor),
               op, place);
}

Step Machine::accessByRows(Warpgroup &warpgroup, Operation *op, const Place &place, bool isWrite) {
  constexpr int64_t warpRows = kTileRows / kWarps;
  SharedMemory::Range range = SharedMemory::getAll(place);
  bool isVector = place.type.getLayout() == SmemLayout::Linear;
  for (int warp = 0; warp < kWarps; ++warp) {
    SharedMemory::Range part = range;
    if (isVector) { // the elements of 16 rows lie one behind the other
      part.firstChunk = range.endChunk * warp / kWarps;
      part.endChunk = range.endChunk * (warp + 1) / kWarps;
    } else {
      part.firstRow = warp * warpRows;
      part.endRow = part.firstRow + warpRows;
    }
    if (access(warpgroup, op, place, part, 1 << warp, isWrite) == Step::Failed)
      return Step::Failed;
  }
  return Step::Advanced;
}

//===----------------------------------------------------------------------===//
// Meetings
//===----------------------------------------------------------------------===//

/// The number of the cluster's barrier: no other's.
static constexpr int kClusterMeeting = 1 << 16;

Step Machine::meet(Warpgroup &warpgroup, Operation *op, int id, int64_t expected, bool waits) {
  Meeting &meeting = meetings[{id == kClusterMeeting ? 0 : warpgroup.rank, id}];
  int64_t active = llvm::popcount(warpgroup.getActiveWarps());
  if (warpgroup.resume == 0) {
    if (meeting.arrived > 0 && meeting.expected != expected)
      return fail(Defect::BarrierMismatch, op,
                  "expects " + Twine(expected) + " warps at barrier " + Twine(id) +
                      ", where others expect " + Twine(meeting.expected));
    meeting.expected = expected;
    meeting.arrived += active;
    if (meeting.arrived > expected)
      return fail(Defect::BarrierMismatch, op,
                  Twine(meeting.arrived) + " warps come to barrier " + Twine(id) +
                      ", which is for " + Twine(expected));
    for (int warp = 0; warp < kWarps; ++warp)
      if (warpgroup.getActiveWarps() >> warp & 1)
        meeting.arriving.join(warpgroup.warps[warp]);
    warpgroup.generation = meeting.generation;
    if (meeting.arrived == expected) {
      meeting.done = std::move(meeting.arriving);
      meeting.arriving = {};
      meeting.arrived = 0;
      ++meeting.generation;
      ++version;
    }
    if (!waits)
      return Step::Advanced;
    warpgroup.resume = 1;
  }
  if (meeting.generation == warpgroup.generation)
    return block(warpgroup, op,
                 "barrier " + Twine(id) + " with " + Twine(meeting.arrived) + " of " +
                     Twine(meeting.expected) + " warps");
  warpgroup.resume = 0;
  for (Knowledge &warp : warpgroup.warps)
    warp.join(meeting.done);
  return Step::Advanced;
}

/// All warps of the role, or of the CTA (barrier 0), as the lowering numbers them.
Step Machine::meetRole(Warpgroup &warpgroup, Operation *op) {
  int id = warpgroup.role ? -1 - int(warpgroup.first) : 0;
  return meet(warpgroup, op, id, warpgroup.count * kWarps, /*waits=*/true);
}

Step Machine::runBarrier(Warpgroup &warpgroup, BarrierOp op) { return meetRole(warpgroup, op); }

Step Machine::runNamedBarrier(Warpgroup &warpgroup, NamedBarrierOp op) {
  return meet(warpgroup, op, op.getId(), op.getWarps(), !op.getArrive());
}

/// All warps of all CTAs.
Step Machine::runClusterBarrier(Warpgroup &warpgroup, ClusterBarrierOp op) {
  return meet(warpgroup, op, kClusterMeeting, warpgroups.size() * kWarps, /*waits=*/true);
}

/// What a warp knows to be written is now visible to the async proxy as well.
Step Machine::runProxyFence(Warpgroup &warpgroup) {
  for (int warp = 0; warp < kWarps; ++warp)
    if (warpgroup.getActiveWarps() >> warp & 1)
      warpgroup.warps[warp].fenced.join(warpgroup.warps[warp].seen);
  return Step::Advanced;
}
