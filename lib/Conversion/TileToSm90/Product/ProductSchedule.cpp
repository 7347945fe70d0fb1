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

/// Rings of the forced depth, or as deep as they should be. The kernel keeps the cluster that it
/// gets.
static std::optional<ScheduleParameters> plan(tile::KernelOp kernel, const ScheduleRequest &request,
                                              std::string &why) {
  ScheduleParameters parameters;
  parameters.kind = ScheduleKind::Product;
  ProductPlan product = planProduct(kernel, request.get(product::kStages), why);
  if (product.stages == 0)
    return std::nullopt;
  parameters.set(product::kStages, product.stages);
  if (product.cluster == 1)
    kernel->removeAttr(tile::kDepthClusterAttr);
  return parameters;
}

const Schedule mlac::kProductSchedule = {
    .describe = ::describe,
    .build = [](tile::KernelOp kernel, std::string &why) -> FailureOr<sm90::KernelOp> {
      return buildProductSchedule(kernel, why);
    },
    .planOther = plan};
