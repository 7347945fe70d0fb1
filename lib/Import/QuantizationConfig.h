//===- QuantizationConfig.h - how a checkpoint's weights are quantised ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The key `quantization_config` in the spellings of those who write checkpoints:
//
//   quant_method         strategy from                             scale per
//   fp8                  weight_block_size [m, n], or absent       m x n, or tensor
//   compressed-tensors   config_groups.*.weights.strategy          block, channel, tensor
//   fbgemm_fp8           -                                         channel
//   modelopt             quant_algo FP8, FP8_PER_CHANNEL_PER_TOKEN tensor, channel
//
// All of them are e4m3. How activations would be quantised does not matter, as long as they
// would be numbers of eight bits: weights are dequantised, so activations stay as they are.
// Modules that the configuration excludes (`ignore`, `modules_to_not_convert`,
// `exclude_modules`, Quark's `exclude`, vLLM's `ignored_layers`, bitsandbytes'
// `llm_int8_skip_modules`) are not quantised; where it excludes every projection of the
// attention, or where no group of `config_groups` has it among its `targets`, it does not
// concern us, whatever its method.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_IMPORT_QUANTIZATIONCONFIG_H
#define MLAC_LIB_IMPORT_QUANTIZATIONCONFIG_H

#include "ConfigReader.h"

#include "mla/Import/ModelConfig.h"

namespace mlac {

/// Sets `config.weightScales` where the attention's weights are quantised; an error names a
/// strategy that is not supported. Needs the number of layers.
void readQuantization(const ConfigReader &root, ModelConfig &config);

} // namespace mlac

#endif // MLAC_LIB_IMPORT_QUANTIZATIONCONFIG_H
