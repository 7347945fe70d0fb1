//===- ProductModel.cpp - the parameters of product ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Product/ProductModel.h"

using namespace mlac;

static constexpr const ScheduleParameter *kParameters[] = {&product::kStages};

const ScheduleModel mlac::kProductModel = {kParameters, nullptr, nullptr};
