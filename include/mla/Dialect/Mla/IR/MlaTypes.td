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
  let summary = "one layer's pool of pages";
  let description = [{
    A pool [num_pages, page_size, row]; a row is a list of `fields`, each `columns` or
    `heads x columns` wide: the latent and the rotated rope key of a token, its keys and
    values, … (paged-cache.md section 2). Writers and readers deal in `element`.
    `rope_order` is the order in which a rope key, or an indexer's key, was written; a reader of
    the other order is an error. So it is with `hadamard`, which says that an indexer's keys were
    multiplied by a Hadamard matrix.

    `format` names a row of the table of formats (runtime/schema/CacheFormats.h), which
    says what the fields are and how they are stored; without it latents are stored as they
    are (`mla_16` for bf16 and f16, `mla_f32` for f32). Where groups of the first field have
    scales, `scale_rule` says how the writer rounds them; readers take any. A format with
    one scale per layer takes it from the runtime with the pool.

    A row is of `tokens_per_row` tokens (compressed ones, of several) and exists once they
    all do. With a `window` only what the last so many tokens see is kept.

    Examples: rows of 656 bytes; keys and values of 8 heads; keys of an indexer
    ```mlir
    !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16,
               rope_order = interleaved, format = "fp8_ds_mla", scale_rule = power_of_two>
    !mla.cache<page_size = 16, fields = [key: 8x128, value: 8x128], element = bf16,
               format = "kv_nhd">
    !mla.cache<page_size = 64, fields = [index: 128], element = bf16, rope_order = half,
               format = "index_k", scale_rule = power_of_two, hadamard = true>
    ```

    (V1) 2^31 > page_size > 0, tokens_per_row and all widths > 0, window >= 0.
    (V2) the rope key's width is even.
    (V3) element is bf16, f16 or f32.
    (V4) format is one of the table's that takes the element and has the fields, in its order; only
    a rope key may be missing.
    (V5) rows of each section of a given format that has fields are multiples of 16 bytes, and
    so are pages where scales have a section; groups of scales divide the first field. Scales that are
    bare exponents have the rule power_of_two.
    (V6) scale_rule is raw unless the format has groups.
    (V7) hadamard is false unless there is an index field.
  }];
  let parameters = (ins "int64_t":$page_size,
                        ArrayRefParameter<"::mlir::mla::CacheField">:$fields,
                        "::mlir::Type":$element,
                        EnumParameter<Mla_RopeOrder>:$rope_order,
                        StringRefParameter<"format of rows", [{""}]>:$format,
                        DefaultValuedParameter<"::mlir::mla::ScaleRule",
                                               "::mlir::mla::ScaleRule::Raw">:$scale_rule,
                        DefaultValuedParameter<"int64_t", "1">:$tokens_per_row,
                        DefaultValuedParameter<"int64_t", "0">:$window,
                        DefaultValuedParameter<"bool", "false">:$hadamard);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    static ::llvm::SmallVector<CacheField, 2> latentFields(int64_t kvLoraRank, int64_t ropeDim);
    /// A row of every token.
    static CacheType getLatent(::mlir::MLIRContext *context, int64_t pageSize, int64_t kvLoraRank,
                               int64_t ropeDim, ::mlir::Type element, RopeOrder order,
                               ::llvm::StringRef format = {}, ScaleRule rule = ScaleRule::Raw);
    /// Elements of a field, of all heads; 0 if the row has none.
    int64_t getWidth(::mlac::cache::Part part) const;
    int64_t getKvLoraRank() const;
    int64_t getQkRopeHeadDim() const;
    /// Columns of an indexer's key, which rope_order and hadamard are of.
    int64_t getIndexWidth() const;
    /// Elements of one token's row.
    int64_t getRowWidth() const;
    /// Whether every token has a row, as long as its sequence lives.
    bool keepsAllTokens() const { return getTokensPerRow() == 1 && getWindow() == 0; }
    /// The layout's name in the package: the format, or "mla_16" or "mla_f32".
    ::llvm::StringRef getLayoutName() const;
    /// Its row of the table.
    const ::mlac::cache::Format &getLayout() const;
    ::mlac::cache::Widths getWidths() const;
    /// What a field's elements are in memory; e4m3 is f8E4M3FN.
    ::mlir::Type getStorageType(::mlac::cache::Storage storage) const;
    /// Bytes of one token.
    int64_t getRowBytes() const;
    /// Whether rows are stored in another type than `element`.
    bool isQuantized() const;
    /// Whether each of a row's elements is one in memory, as it is or a code of one scale for all.
    bool isStoredByRow() const;
    /// Whether all of a row is codes by one scale of the layer.
    bool hasLayerScale() const;
    /// Whether latents are codes with an f32 scale in the row for each group, beside a rope key as
    /// it is.
    bool hasGroupedLatents() const;
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

    (V1) a static query_len is above 0, a static context_len not negative, both below 2^31.
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
