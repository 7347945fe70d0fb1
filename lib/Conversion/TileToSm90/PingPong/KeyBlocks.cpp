//===- KeyBlocks.cpp - blocks of keys or values, wherever they lie ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PingPong/KeyBlocks.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::pingpong;

bool KeyBlocks::canCopy(tile::AttendOp attend, Value view, std::string &why) {
  if (!attend.isPaged())
    return DenseRows::match(view, why).has_value();
  auto block = static_cast<int64_t>(attend.getBlock());
  why = "TMA cannot copy blocks of " + std::to_string(block) + " rows of its pages";
  return PagedTiles::getBoxRows(view, block) != 0;
}

static bool isInGroups(tile::LoadOp load) { return load.getView().getType().getRank() == 3; }

bool KeyBlocks::canCopyQueries(tile::LoadOp load, std::string &why) {
  if (!isInGroups(load))
    return DenseRows::match(load.getView(), why).has_value();
  why = "TMA cannot copy its rows of queries in groups";
  return QueryRows::canFill(load);
}

KeyBlocks::KeyBlocks(OpBuilder &builder, LazyCloner &entry, Operation *load, int64_t blockRows)
    : load(load) {
  if (auto paged = dyn_cast<tile::LoadPagedOp>(load)) {
    pages = PagedTiles(builder, entry, paged, /*columns=*/0, blockRows);
    return;
  }
  auto dense = cast<tile::LoadOp>(load);
  if (isInGroups(dense)) {
    groups.emplace(builder, entry, dense, blockRows);
    map = groups->getMap();
    return;
  }
  std::string why;
  rows = DenseRows::match(dense, why);
  map = rows->createMap(builder, entry, blockRows);
}

KeyBlocks::Place KeyBlocks::find(OpBuilder &builder, LazyCloner &cloner, bool isInside) const {
  Place place;
  if (rows)
    place.coordinates = rows->getCoordinates(builder, cloner);
  else if (groups)
    place.coordinates = groups->getCoordinates(builder, cloner);
  else
    place.boxes = pages.find(builder, cloner, isInside);
  return place;
}

void KeyBlocks::copy(OpBuilder &builder, const Place &place, Value target, Value ring,
                     Value stage) const {
  if (!map)
    return pages.copy(builder, load->getLoc(), place.boxes, /*column=*/0, target, ring, stage,
                      /*part=*/0);
  sm90::TmaLoadOp::create(builder, load->getLoc(), map, place.coordinates, target, ring, stage,
                          /*part=*/0, /*row=*/0, IntegerAttr());
}

Value KeyBlocks::getRowCount() const {
  if (auto paged = dyn_cast<tile::LoadPagedOp>(load))
    return paged.getLimit();
  return rows->getRowCount();
}
