//===- ImportConfig.h - configuration to mla module ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Builds the `mla` module of one attention layer from its configuration:
//
//   @prefill  any number of new tokens per request; form left to the compiler
//   @decode   one new token per request
//   @step     any mix, split into decodes and prefills; only with a decode threshold
//
// All take the hidden states, the batch, the cache and the checkpoint's
// tensors (this rank's share, [out, in], named as in the checkpoint) and return
// the layer's output and the cache after appending. With tensor parallelism the
// output is this rank's addend: the caller reduces it over ranks and then adds
// `o_proj.bias`, where the model has one.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_IMPORT_IMPORTCONFIG_H
#define MLA_IMPORT_IMPORTCONFIG_H

#include "mla/Dialect/Mla/IR/MlaDialect.h"
#include "mla/Import/RopeTable.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace mlac {

/// Element type of activations, weights and cache.
enum class ActivationType { BF16, F16, F32 };

/// How the keys of DeepSeek-V4's indexer are kept: codes with a scale for each, or MXFP4.
enum class IndexFormat { E4M3, MXFP4 };

/// The name in CacheFormats.h.
llvm::StringRef getLayoutName(IndexFormat format);

struct ImportOptions {
  ActivationType activationType = ActivationType::BF16;
  int64_t pageSize = 64; ///< tokens per cache page
  mlir::mla::Form form = mlir::mla::Form::Auto;
  std::string cacheFormat = {}; ///< of CacheFormats.h, or fp8; empty: the activations' type
  mlir::mla::ScaleRule scaleRule = mlir::mla::ScaleRule::Raw;
  int64_t decodeThreshold = 0; ///< longest query of a decode in @step; 0: no @step
  /// Whether the caller projects down: functions take normalised latents and unrotated keys.
  bool takesLatents = false;
  /// Whether an indexer's queries and keys are multiplied by a Hadamard matrix (v4.md section 6).
  bool rotatesIndex = false;
  /// Whether what tokens contribute to entries is rounded to the activations' type (v4.md section
  /// 6).
  bool roundsStates = false;
  IndexFormat indexFormat = IndexFormat::E4M3;
};

mlir::Type getElementType(mlir::MLIRContext &context, ActivationType type);

/// What the largest of an indexer's row counts at least when the row is quantised (sparse.md
/// section 2).
inline constexpr double kIndexAmaxFloor = 1e-4;

/// The rotary embedding of a configuration, with pairs of its own or those given; null when
/// R = 0.
mlir::mla::RopeAttr getRopeAttr(mlir::MLIRContext &context, const ModelConfig &config);
mlir::mla::RopeAttr getRopeAttr(mlir::MLIRContext &context, const ModelConfig &config,
                                RopePairing pairing);

/// The frequencies of a rotary embedding given in IR.
RopeTable computeRopeTable(mlir::mla::RopeAttr rope);

/// The start of the file `path`, which all that comes from it is attributed to:
/// JSON is read without keeping positions.
mlir::Location getFileLoc(mlir::MLIRContext &context, llvm::StringRef path);

/// The mla module of `config`, whose operations are at `loc`. Fails with a
/// diagnostic for options out of range.
mlir::OwningOpRef<mlir::ModuleOp> importConfig(mlir::Location loc, const ModelConfig &config,
                                               ImportOptions options);

} // namespace mlac

#endif // MLA_IMPORT_IMPORTCONFIG_H
