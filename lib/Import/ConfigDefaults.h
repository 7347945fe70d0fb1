//===- ConfigDefaults.h - keys that a configuration lacks ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A file need not have keys whose value is the default of its model type's class in transformers
// (`PreTrainedConfig.to_diff_dict` leaves them out). Defaults differ from type to type, and a model
// that is read with another type's is another model. Keys of which a wrong guess shows at once
// (hidden_size, num_attention_heads, ranks, ...) have no default here; their absence is an error.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_IMPORT_CONFIGDEFAULTS_H
#define MLAC_LIB_IMPORT_CONFIGDEFAULTS_H

#include "ConfigReader.h"

#include "llvm/ADT/ArrayRef.h"

namespace mlac {

/// Adds the type's defaults to a configuration for keys that it lacks; one that is null is there.
/// Of rope, whose keys have several places, what no place has. The keys that were added.
std::vector<std::string> fillDefaults(nlohmann::json &document, llvm::StringRef modelType);

/// Says of problems with such keys, behind `path`, where their values come from.
void explainDefaults(llvm::ArrayRef<std::string> keys, llvm::StringRef path,
                     llvm::StringRef modelType, std::vector<KeyProblem> &problems);

} // namespace mlac

#endif // MLAC_LIB_IMPORT_CONFIGDEFAULTS_H
