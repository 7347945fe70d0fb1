//===- MlaAttrs.td - attributes of the mla dialect -*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_MLA_IR_MLAATTRS_TD
#define MLA_DIALECT_MLA_IR_MLAATTRS_TD

include "mla/Dialect/Mla/IR/MlaDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class Mla_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Mla_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

class Mla_I32Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mlir::mla";
  let genSpecializedAttr = 0;
}

def Mla_Form : Mla_I32Enum<"Form", "form of the attention", [
    I32EnumAttrCase<"Auto", 0, "auto">, I32EnumAttrCase<"Expanded", 1, "expanded">,
    I32EnumAttrCase<"Absorbed", 2, "absorbed">]>;
def Mla_FormAttr : EnumAttr<Mla_Dialect, Mla_Form, "form"> {
  let assemblyFormat = "`<` $value `>`";
}

def Mla_BatchPart : Mla_I32Enum<"BatchPart", "a part of a split batch", [
    I32EnumAttrCase<"Decodes", 0, "decodes">, I32EnumAttrCase<"Prefills", 1, "prefills">]>;
def Mla_BatchPartAttr : EnumAttr<Mla_Dialect, Mla_BatchPart, "batch_part">;

def Mla_RopeOrder : Mla_I32Enum<"RopeOrder", "pairing of rotated elements", [
    I32EnumAttrCase<"Interleaved", 0, "interleaved">, I32EnumAttrCase<"Half", 1, "half">]>;
def Mla_RopeScaling : Mla_I32Enum<"RopeScaling", "rule that scales RoPE frequencies", [
    I32EnumAttrCase<"None", 0, "none">, I32EnumAttrCase<"Yarn", 1, "yarn">,
    I32EnumAttrCase<"LongRope", 2, "longrope">]>;

def Mla_LseBase : Mla_I32Enum<"LseBase", "base of a log-sum-exp", [
    I32EnumAttrCase<"E", 0, "e">, I32EnumAttrCase<"Two", 1, "two">]>;
def Mla_LseLayout : Mla_I32Enum<"LseLayout", "order of an LSE tensor's dimensions", [
    I32EnumAttrCase<"HeadMajor", 0, "head_major">, I32EnumAttrCase<"TokenMajor", 1, "token_major">]>;
def Mla_LseEmpty : Mla_I32Enum<"LseEmpty", "LSE of a row that sees no key", [
    I32EnumAttrCase<"NegInf", 0, "neg_inf">, I32EnumAttrCase<"PosInf", 1, "pos_inf">]>;

def Mla_ScaleRule : Mla_I32Enum<"ScaleRule", "how a quantisation scale is rounded", [
    I32EnumAttrCase<"Raw", 0, "raw">, I32EnumAttrCase<"PowerOfTwo", 1, "power_of_two">]>;
def Mla_ScaleRuleAttr : EnumAttr<Mla_Dialect, Mla_ScaleRule, "scale_rule"> {
  let assemblyFormat = "`<` $value `>`";
}

def Mla_LseAttr : Mla_Attr<"Lse", "lse"> {
  let summary = "convention of an LSE tensor";
  let description = [{
    Encoding of every LSE tensor: logarithm base, layout and the value of an
    empty row. Layout `head_major` is [N, T], `token_major` is [T, N]; a split
    dimension, where there is one, comes before both. The canonical convention
    at an API's edge is `#mla.lse<base = e, layout = head_major, empty =
    neg_inf>` (mla.md section 8); partials inside a step are token-major.
  }];
  let parameters = (ins EnumParameter<Mla_LseBase>:$base,
                        EnumParameter<Mla_LseLayout>:$layout,
                        EnumParameter<Mla_LseEmpty>:$empty);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Mla_RopeAttr : Mla_Attr<"Rope", "rope"> {
  let summary = "a rotary embedding";
  let description = [{
    `dim` = R; frequencies theta^(-2i/dim) scaled by `scaling` (mla.md section
    4): yarn uses factor, original_max_position, beta_fast and beta_slow;
    longrope uses short_factors and long_factors (dim/2 values each) and
    original_max_position. cos and sin are multiplied by `multiplier`.
    Positions at or above `length` are refused by the runtime. The softmax
    scale is not part of it.

    (V1) dim is even and positive. (V2) theta > 0, length > 0.
    (V3) yarn: factor > 0 and original_max_position > 0.
    (V4) longrope: both factor lists have dim/2 values.
    (V5) f32 holds theta, factors above 0, yarn's betas above 0, and the multiplier.
  }];
  let parameters = (ins EnumParameter<Mla_RopeOrder>:$order, "int64_t":$dim,
      "::mlac::Real":$theta, "int64_t":$length,
      DefaultValuedParameter<EnumParameter<Mla_RopeScaling>.cppType, "RopeScaling::None">:$scaling,
      DefaultValuedParameter<"::mlac::Real", "1.0">:$multiplier,
      DefaultValuedParameter<"::mlac::Real", "1.0">:$factor,
      DefaultValuedParameter<"int64_t", "0">:$original_max_position,
      DefaultValuedParameter<"::mlac::Real", "32.0">:$beta_fast,
      DefaultValuedParameter<"::mlac::Real", "1.0">:$beta_slow,
      OptionalArrayRefParameter<"::mlac::Real">:$short_factors,
      OptionalArrayRefParameter<"::mlac::Real">:$long_factors);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Mla_TargetAttr : Mla_Attr<"Target", "target"> {
  let summary = "rates of a machine, for the cost model";
  let description = [{
    Rates as measured, not nominal: `matmul_tflops` of the activation dtype,
    `read_gbps` of a read-only stream, `launch_us` per dependent kernel.
    `num_sms` are multiprocessors, or threads on a CPU. Attached to a module as
    `mla.target`; `mlac::getTargetDescription` gives the known ones by name.
  }];
  let parameters = (ins StringRefParameter<"target name">:$name, "int64_t":$num_sms,
                        "::mlac::Real":$matmul_tflops, "::mlac::Real":$read_gbps, "::mlac::Real":$launch_us);
  let assemblyFormat = [{ `<` $name `,` `num_sms` `=` $num_sms `,` `matmul_tflops` `=` $matmul_tflops
      `,` `read_gbps` `=` $read_gbps `,` `launch_us` `=` $launch_us `>` }];
}

def Mla_ModelAttr : Mla_Attr<"Model", "model"> {
  let summary = "what a package says of its model that no operation holds";
  let description = [{
    Attached to a module as `mla.model` by whoever makes it: the model's type, the
    `ranks` that share its heads, how many `positions` a model without a rotary table
    has, the `options` of the import as a command line, and the configuration's text.
    A module without it is of the type of its name, or `custom`.

    Example:
    ```mlir
    module attributes {mla.model = #mla.model<"deepseek_v3", ranks = 8, positions = 163840>} {}
    ```

    (V1) ranks and positions are above 0.
  }];
  let parameters = (ins StringRefParameter<"model type">:$type,
                        DefaultValuedParameter<"int64_t", "1">:$ranks,
                        DefaultValuedParameter<"int64_t", "131072">:$positions,
                        StringRefParameter<"command line", [{""}]>:$options,
                        StringRefParameter<"text", [{""}]>:$config);
  let assemblyFormat = [{ `<` $type (`,` struct($ranks, $positions, $options, $config)^)? `>` }];
  let genVerifyDecl = 1;
}

#endif // MLA_DIALECT_MLA_IR_MLAATTRS_TD
