//===- ProductModel.h - the parameters of product ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_PRODUCT_PRODUCTMODEL_H
#define MLAC_LIB_CONVERSION_TILETOSM90_PRODUCT_PRODUCTMODEL_H

#include "mla/Analysis/ScheduleModel.h"

namespace mlac::product {

/// One block is read while another is loaded.
inline constexpr auto kStages =
    makeInteger("product-stages", "blocks in the rings", 2, kMostStages);

} // namespace mlac::product

#endif // MLAC_LIB_CONVERSION_TILETOSM90_PRODUCT_PRODUCTMODEL_H
