//===- ProductSchedule.cpp - product in the list of schedules ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Product/Product.h"
#include "Product/ProductModel.h"
#include "Schedules.h"

using namespace mlir;
using namespace mlac;

static Attribute describe(MLIRContext *context, const ScheduleParameters &parameters) {
  return tile::ProductScheduleAttr::get(context, parameters.get(product::kStages));
}

/// Rings of the forced depth, or as deep as they should be.
static std::optional<ScheduleParameters> plan(tile::KernelOp kernel, const ScheduleRequest &request,
                                              std::string &why) {
  ScheduleParameters parameters;
  parameters.kind = ScheduleKind::Product;
  int64_t stages = chooseProductStages(kernel, request.get(product::kStages), why);
  if (stages == 0)
    return std::nullopt;
  parameters.set(product::kStages, stages);
  return parameters;
}

const Schedule mlac::kProductSchedule = {
    .describe = ::describe,
    .build = [](tile::KernelOp kernel, std::string &why) -> FailureOr<sm90::KernelOp> {
      return buildProductSchedule(kernel, why);
    },
    .planOther = plan};
