//===- MlaDialect.td - the mla dialect -*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_MLA_IR_MLADIALECT_TD
#define MLA_DIALECT_MLA_IR_MLADIALECT_TD

include "mlir/IR/OpBase.td"

def Mla_Dialect : Dialect {
  let name = "mla";
  let cppNamespace = "::mlir::mla";
  let summary = "What is computed: multi-head latent attention on tensors";
  let description = [{
    Value semantics on tensors plus one cache type. Symbols as in the field:
    T new tokens of the batch, B requests, N heads on this rank, H hidden size,
    Lq = q_lora_rank, Lkv = kv_lora_rank, P = qk_nope_head_dim,
    R = qk_rope_head_dim, V = v_head_dim.

    A *step function* is a `func.func` over one attention layer:

    ```mlir
    func.func @decode(
        %hidden: tensor<?x7168xbf16> {mla.input = "hidden"},
        %batch: !mla.batch<query_len = 1>,
        %cache: !mla.cache<page_size = 64, fields = [latent: 512, rope: 64],
                           element = bf16, rope_order = interleaved>,
        %w_q_a: tensor<1536x7168xbf16> {mla.weight = "q_a_proj.weight"}, ...)
        -> (tensor<?x7168xbf16> {mla.output = "output"}, !mla.cache<...>)
    ```

    A cache argument is a pool of the layer's. Where a function has several, `mla.pool =
    "name"` says which; one may go without, the package's first. A name is one pool, of one
    type, in all functions of a module.

    Weights keep the checkpoint's orientation, [out, in], and its names; a
    result or argument marked `mla.derived = "name"` is computed once by the
    function `@prepare` from weights. Parts of a weight are taken with static
    `tensor.expand_shape` and `tensor.extract_slice`, which cost nothing: the
    conversion to `tile` reads them as strided views.

    Every LSE tensor carries `#mla.lse<…>` as its encoding (base, layout,
    value of an empty row), so that mixing conventions is a type error.

    Phases (each pass removes ops, none adds one of an earlier phase):
    1. imported: `mla.attention` with form auto, expanded or absorbed;
    2. after `mla-choose-form`: no form is auto;
    3. after `mla-chunk-context` and `mla-absorb-weights`: no `mla.attention`;
    4. after `mla-split-kv`: `mla.absorbed_attention` has a split count or is unsplit.
    `convert-mla-to-tile` accepts phase 4.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect",
                           "::mlir::tensor::TensorDialect"];
  let hasConstantMaterializer = 1;
  let hasOperationAttrVerify = 1;
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
}

#endif // MLA_DIALECT_MLA_IR_MLADIALECT_TD
