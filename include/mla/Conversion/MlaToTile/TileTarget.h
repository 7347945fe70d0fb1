//===- TileTarget.h - machines that tile programs are shaped for ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_CONVERSION_MLATOTILE_TILETARGET_H
#define MLA_CONVERSION_MLATOTILE_TILETARGET_H

namespace mlac {

/// The machine whose tile shapes `convert-mla-to-tile` uses. The algorithms are
/// the same for all.
enum class TileTarget { Cpu, Sm90 };

/// Costs for tile.work, in blocks of 64 keys. A piece: mla.md section 13. A merge: it
/// takes about 2 us on an H200, a block with 128 rows 1.4 us.
inline constexpr double kDefaultItemCost = 5, kDefaultMergeCost = 2;

} // namespace mlac

#endif // MLA_CONVERSION_MLATOTILE_TILETARGET_H
