// A configuration whose weights are codes: the module says how they are scaled, and the
// package what can be bound.
//
// RUN: mla-opt --mla-import-config=config=%S/Inputs/deepseek_v3_fp8.json /dev/null | FileCheck %s
// CHECK: module @deepseek_v3 attributes {
// CHECK-SAME: mla.weight_scales = array<i64: 128, 128>
// CHECK-LABEL: func.func @prefill(
// CHECK-SAME: tensor<32768x512xbf16> {mla.weight = "kv_b_proj.weight"}
//
// RUN: mla-compile %S/Inputs/deepseek_v3_fp8.json --functions=decode --quiet -o %t.mlac
// RUN: mla-run info %t.mlac | FileCheck %s --check-prefix=INFO
// INFO: weights, matrices also as e4m3 codes with a scale per block of 128 x 128
// INFO: kv_b_proj.weight bf16 [32768,512]
//
// The kernels are those of the same model without codes.
// RUN: mla-compile %data/configs/deepseek_v3.json --functions=decode --emit=llvm --quiet -o %t.plain
// RUN: mla-compile %S/Inputs/deepseek_v3_fp8.json --functions=decode --emit=llvm --quiet -o %t.scaled
// RUN: cmp %t.plain %t.scaled
//
// A folder stands for its config.json.
// RUN: rm -rf %t && mkdir -p %t/DeepSeek && cp %S/Inputs/deepseek_v3_fp8.json %t/DeepSeek/config.json
// RUN: mla-compile %t/DeepSeek/ --functions=decode --quiet
// RUN: cmp %t/DeepSeek.mlac %t.mlac
//
// RUN: not mla-opt --split-input-file --verify-each %s 2>&1 | FileCheck %s --check-prefix=BAD
// BAD: expected mla.weight_scales to be rows and columns of a block, as array<i64: 128, 128>, got array<i64: 128>
module attributes {mla.weight_scales = array<i64: 128>} {}
