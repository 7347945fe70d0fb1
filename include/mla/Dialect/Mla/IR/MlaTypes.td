//===- MlaTypes.td - types of the mla dialect -*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_MLA_IR_MLATYPES_TD
#define MLA_DIALECT_MLA_IR_MLATYPES_TD

include "mla/Dialect/Mla/IR/MlaAttrs.td"

class Mla_Type<string name, string typeMnemonic> : TypeDef<Mla_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def Mla_CacheType : Mla_Type<"Cache", "cache"> {
  let summary = "the paged latent cache of one layer";
  let description = [{
    A pool [num_pages, page_size, kv_lora_rank + qk_rope_head_dim] of token
    rows (latent, then rotated rope key; paged-cache.md section 2, layouts
    `mla_16` for bf16 and f16, `mla_f32` for f32). `rope_order` is the order in
    which the rotated key was written; a reader of the other order is an error.

    (V1) page_size, kv_lora_rank > 0. (V2) qk_rope_head_dim is even, >= 0.
    (V3) element is bf16, f16 or f32.
  }];
  let parameters = (ins "int64_t":$page_size, "int64_t":$kv_lora_rank,
                        "int64_t":$qk_rope_head_dim, "::mlir::Type":$element,
                        EnumParameter<Mla_RopeOrder>:$rope_order);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Elements of one token's row.
    int64_t getRowWidth() const { return getKvLoraRank() + getQkRopeHeadDim(); }
    /// The layout's name in the package: "mla_16" or "mla_f32".
    ::llvm::StringRef getLayoutName() const;
  }];
}

def Mla_BatchType : Mla_Type<"Batch", "batch"> {
  let summary = "the composition of one step's batch";
  let description = [{
    B requests with query_len (new) and context_len (cached) tokens each:
    query_start_loc, seq_lens, block_table, slot_mapping, positions and the
    chunk tables of mla.md sections 9 and 11, as one value. `query_len` and
    `context_len` are static when every request of the batch has that length
    (`!mla.batch<query_len = 1>`: a decode step; `context_len = 0`: nothing
    cached), and `?` otherwise. `!mla.batch` alone leaves both dynamic.

    (V1) static lengths are not negative.
  }];
  let parameters = (ins
      DefaultValuedParameter<"int64_t", "::mlir::ShapedType::kDynamic">:$query_len,
      DefaultValuedParameter<"int64_t", "::mlir::ShapedType::kDynamic">:$context_len);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool hasStaticQueryLen() const { return !::mlir::ShapedType::isDynamic(getQueryLen()); }
    bool hasStaticContextLen() const { return !::mlir::ShapedType::isDynamic(getContextLen()); }
  }];
}

#endif // MLA_DIALECT_MLA_IR_MLATYPES_TD
