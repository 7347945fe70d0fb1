//===- RelayOutputState.h - what an output role of relay carries ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_RELAY_RELAYOUTPUTSTATE_H
#define MLAC_LIB_CONVERSION_TILETOSM90_RELAY_RELAYOUTPUTSTATE_H

#include "Relay/RelayKernel.h"

namespace mlac {

/// Walks over the entries of a ring, item by item: `item` and the entry in it, i32.
struct relay::Kernel::Cursor {
  bool hasQueries; // as each item's first entry
  Value item, entry;
};

struct relay::Kernel::OutputState {
  bool isLeft;
  LazyCloner cloner;
  Value output;
  Value consumed, weights, scale; // stages
  Value lastKeys;                 // of the item: keys in its last block, i32
  // What it fills next: stages, and what they get.
  Value filled, filledRope;
  Cursor cursor;
  Value codes, filledScales; // stages of the codes, and scales, of the next keys; null without

  SmallVector<Value> packCursor() const {
    SmallVector<Value> values{filled, filledRope, cursor.item, cursor.entry};
    if (codes)
      values.append({codes, filledScales});
    return values;
  }
  void unpackCursor(ValueRange values) {
    filled = values[0], filledRope = values[1], cursor.item = values[2], cursor.entry = values[3];
    if (codes)
      codes = values[4], filledScales = values[5];
  }
};

/// What the cursor is at; the last two are null in rings without queries.
struct relay::Kernel::Entry {
  Value exists, isQuery;
  SmallVector<Value> queryPlace;
};

} // namespace mlac

#endif // MLAC_LIB_CONVERSION_TILETOSM90_RELAY_RELAYOUTPUTSTATE_H
