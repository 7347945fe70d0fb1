//===- Reference.cpp - which reference a configuration has ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GroupedReference.h"
#include "LatentReference.h"

#include <stdexcept>

using namespace mlac::run;
using nlohmann::json;

std::unique_ptr<Reference> mlac::run::makeReference(const json &config, const LayerFacts &facts,
                                                    const WeightMap &weights) {
  if (isGroupedType(config.at("model_type")))
    return std::make_unique<GroupedReference>(readGroupedSpec(config, facts), weights);
  if (config.contains("kv_lora_rank"))
    return std::make_unique<LatentReference>(readLatentSpec(config, facts), weights);
  throw std::runtime_error("the reference knows layers with kv_lora_rank and by groups of heads, "
                           "not those of model_type " +
                           config.at("model_type").dump() +
                           ": mlac.reference has them (docs/v4.md)");
}
