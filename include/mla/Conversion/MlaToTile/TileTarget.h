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

} // namespace mlac

#endif // MLA_CONVERSION_MLATOTILE_TILETARGET_H
