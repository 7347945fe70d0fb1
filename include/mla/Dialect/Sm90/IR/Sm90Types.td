//===- Sm90Types.td - shared tiles and fragment layouts ------*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_SM90_IR_SM90TYPES_TD
#define MLA_DIALECT_SM90_IR_SM90TYPES_TD

include "mla/Dialect/Sm90/IR/Sm90Dialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/TensorEncoding.td"

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

def Sm90_SmemLayout : I32EnumAttr<"SmemLayout", "how a tile lies in shared memory", [
    I32EnumAttrCase<"Swizzle128", 0, "swizzle128">,
    I32EnumAttrCase<"Linear", 1, "linear">]> {
  let cppNamespace = "::mlir::sm90";
  let genSpecializedAttr = 0;
}

def Sm90_Smem : TypeDef<Sm90_Dialect, "Smem"> {
  let mnemonic = "smem";
  let summary = "a tile of shared memory";
  let description = [{
    `!sm90.smem<RxCxT>` is a tile of R rows and C columns in layout
    `swizzle128`; `!sm90.smem<RxCxT, linear>` is row-major and dense.

    **swizzle128** (of 16-bit elements) is what wgmma reads with its 128-byte
    swizzle. The columns are cut into *panels* of 64 (128 bytes); panel p is
    stored at `p · R · 128` bytes, its row r follows at `r · 128`, and the eight
    16-byte chunks of a row are permuted by the row:

    ```
    byte(r, c) = (c / 64) · R · 128  +  r · 128  +  (((c % 64) / 8) ^ (r % 8)) · 16  +  (c % 8) · 2

              chunk 0   1   2   3   4   5   6   7          (16 bytes each)
      row 0         0   1   2   3   4   5   6   7
      row 1         1   0   3   2   5   4   7   6
      row 2         2   3   0   1   6   7   4   5          entry = which 8 columns lie there
      …
      row 7         7   6   5   4   3   2   1   0
    ```

    A last panel with fewer than 64 columns keeps the full 128-byte rows; what
    lies beyond column C is never read. The tile starts at a multiple of 1024
    bytes. The same bytes serve two roles of a product:

    | role | contraction runs along | descriptor: stride / leading offset, step |
    |---|---|---|
    | A [M, K], B stored [N, K] (`transpose_rhs`) | columns (K-major) | 1024 B per 8 rows / unused; K += 16 is 32 B, 64 is a panel (R · 128 B) |
    | B stored [K, N] | rows (MN-major) | 1024 B per 8 rows of K / R · 128 B per 64 columns of N; K += 16 is 2048 B |

    Codes of 8 bits (f8E4M3FN) lie in the same bytes, 128 columns to a panel; TMA
    brings them, and `sm90.load_shared` reads them: no product takes them.

    (C1) swizzle128: T is a 16-bit float or f8E4M3FN and R a multiple of 8.
    (C2) R and C are positive.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$elementType,
                        "::mlir::sm90::SmemLayout":$layout);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let builders = [TypeBuilderWithInferredContext<
      (ins "::llvm::ArrayRef<int64_t>":$shape, "::mlir::Type":$element_type), [{
        return $_get(element_type.getContext(), shape, element_type, SmemLayout::Swizzle128);
      }]>];
  let extraClassDeclaration = [{
    int64_t getRows() const { return getShape()[0]; }
    int64_t getColumns() const { return getShape()[1]; }
    /// Columns of a panel, and how many panels there are (swizzle128 only).
    int64_t getPanelColumns() const;
    int64_t getPanels() const;
    /// Bytes from one panel to the next: rows times 128 (swizzle128 only).
    int64_t getPanelBytes() const;
    /// Bytes that the tile takes.
    int64_t getByteSize() const;
    /// What its offset must be a multiple of, in bytes.
    int64_t getAlignment() const;
  }];
}

//===----------------------------------------------------------------------===//
// Registers
//===----------------------------------------------------------------------===//

class Sm90_Encoding<string name, string attrMnemonic>
    : AttrDef<Sm90_Dialect, name, [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let mnemonic = attrMnemonic;
}

def Sm90_FragmentAttr : Sm90_Encoding<"Fragment", "fragment"> {
  let summary = "encoding: a tile in the layout of a wgmma accumulator";
  let description = [{
    `tensor<64xNxT, #sm90.fragment<column_split = S>>`: warpgroup g holds the
    N/S columns that start at `(g mod S) · N/S`. Within a warpgroup, thread t
    (warp w = t / 32, lane l = t % 32) holds, for j < N/S/8,

    ```
    rows      16·w + l/4 + 8·h         h = 0, 1
    columns   8·j + 2·(l % 4) + i      i = 0, 1     (within the warpgroup's part)
    register  4·j + 2·h + i            so N/(2·S) registers per thread
    ```

    which is the accumulator layout of `wgmma.mma_async.m64nNk16` (PTX ISA,
    "Register fragments for wgmma"). With S = 1 every warpgroup holds the whole
    tile (each computes it redundantly). Writes of a fragment to memory are done
    by the warpgroups g < S only.

    (C1) S ≥ 1; N is a multiple of 8·S; the tile has rank 2 and 64 rows.
  }];
  let parameters = (ins "int64_t":$column_split);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Sm90_RowsAttr : Sm90_Encoding<"Rows", "rows"> {
  let summary = "encoding: one element per row of a fragment";
  let description = [{
    `tensor<64xT, #sm90.rows>`: thread t of every warpgroup holds the elements
    of its two fragment rows, `16·(t/32) + (t%32)/4 + 8·h` for h = 0, 1; the four
    lanes of a quad and all warpgroups hold the same values. Writes to memory
    are done by the lanes with `l % 4 = 0` of warpgroup 0.

    (C1) the tile has rank 1 and 64 elements.
  }];
}

def Sm90_PartialAttr : Sm90_Encoding<"Partial", "partial"> {
  let summary = "encoding: the four lanes' shares of a row reduction";
  let description = [{
    `tensor<64x4xT, #sm90.partial>`: lane l of a warp holds the elements
    (row, l % 4) of its two fragment rows (see `#sm90.rows`); all warpgroups hold
    the same. A sum that a loop carries stays in this form, so that the lanes of
    a quad meet once after the loop instead of in every iteration.

    (C1) the tile has rank 2 and shape [64, 4].
  }];
}

def Sm90_ColumnsAttr : Sm90_Encoding<"Columns", "columns"> {
  let summary = "encoding: one element per column of a fragment";
  let description = [{
    `tensor<NxT, #sm90.columns>`: a thread holds the elements of its fragment
    columns, 8·j + 2·(l % 4) + i in register 2·j + i, for j < N/8 and i < 2. All
    threads with the same l % 4 hold the same values.

    (C1) the tile has rank 1 and N is a positive multiple of 8.
  }];
}

//===----------------------------------------------------------------------===//
// Pipelines
//===----------------------------------------------------------------------===//

def Sm90_Ring : TypeDef<Sm90_Dialect, "Ring"> {
  let mnemonic = "ring";
  let summary = "stages of shared memory that producers fill and consumers free";
  let description = [{
    `!sm90.ring<stages = 3, parts = 2, tiles = [!sm90.smem<64x256xbf16>]>` has
    three stages of one tile each. Every stage has `parts` *full* barriers, so
    that a consumer can start on the first part of a stage while the rest still
    arrives, and one *empty* barrier. Without tiles a ring is a signal.

    ```
    producer   acquire(s) ── fill, expect/publish(s, part) ──→ next stage
                  ^ empty[s]            │ full[s, part]
    consumer   release(s) ←── read ←── await(s, part)
    ```

    The tiles of a stage lie one behind the other, each aligned to what its
    layout asks for; stages follow at `stageBytes`. Barriers (8 bytes each, an
    mbarrier): full[stage · parts + part], then empty[stage].

    (C1) stages ≥ 1, parts ≥ 1.
  }];
  let parameters = (ins "int64_t":$stages, "int64_t":$parts,
                        OptionalArrayRefParameter<"::mlir::sm90::SmemType">:$tiles);
  let assemblyFormat = [{
    `<` `stages` `=` $stages `,` `parts` `=` $parts (`,` `tiles` `=` `[` $tiles^ `]`)? `>`
  }];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Bytes from the start of a stage to its tile `index`, and of one stage.
    int64_t getTileOffset(unsigned index) const;
    int64_t getStageBytes() const;
    int64_t getByteSize() const { return getStages() * getStageBytes(); }
    /// What the ring's offset must be a multiple of, in bytes.
    int64_t getAlignment() const;
  }];
}

def Sm90_Stage : TypeDef<Sm90_Dialect, "Stage"> {
  let mnemonic = "stage";
  let summary = "a position in a ring: slot and phase as one value";
  let description = [{
    The n-th use of a ring of S stages has slot n mod S and phase (n / S) mod 2.
    Producer and consumers each carry their own stage and start at the same one:
    `await` waits for the full barrier's phase, `acquire` for the end of the
    empty barrier's previous phase, which a fresh barrier has already.
  }];
}

def Sm90_TensorMap : TypeDef<Sm90_Dialect, "TensorMap"> {
  let mnemonic = "tensor_map";
  let summary = "a TMA descriptor of a global view";
  let description = [{
    `!sm90.tensor_map<64x256xbf16>` moves boxes of 64 rows and 256 columns into
    swizzle128 tiles, by one instruction. Elements outside the view read as 0 and
    are not written.

    Boxes of one panel (64 columns) see all columns of the view. Boxes of several
    see whole panels only: the host describes the view's columns by two
    dimensions, panels and columns in a panel. Boxes of a part of a panel bring no other
    columns: `!sm90.tensor_map<64x64xf8E4M3FN>` brings 64 bytes of each row to the first
    half of the tile's row of 128 bytes, swizzled as a whole row is (CUDA C++ Programming
    Guide, "Swizzle Modes": a narrower box takes memory of the swizzle's full width), and
    these 64 complete the barrier, not 128. Measured on an H100.

    (C1) 16-bit floats or f8E4M3FN; 1 ≤ rows ≤ 256; columns a positive multiple of a panel's
    (64, of f8E4M3FN 128), or fewer of whole 16 bytes.
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$columns, "::mlir::Type":$elementType);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getPanelColumns() const;
    /// Panels of one box, or 1 of which it has a part.
    int64_t getPanels() const;
    /// Bytes that a load brings to `target`, what lies outside the view included.
    int64_t countBytes(SmemType target) const;
  }];
}

#endif // MLA_DIALECT_SM90_IR_SM90TYPES_TD
