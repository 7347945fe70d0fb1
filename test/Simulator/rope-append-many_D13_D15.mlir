// RUN: mla-compile %s --target=sm_90a --quiet --simulate=rope_128_append_many --simulate-step=2:3:210 | FileCheck %s
// RUN: mla-compile %s --target=sm_90a --quiet --simulate=rope_128_append --simulate-step=2:3:5 | FileCheck %s

// Rotation of some channels of each head with append (D13, D15): of many tokens a program has all pairs of folded heads, and another what is
// before and behind them. Three queries' heads and one key's are folded differently.

// CHECK: simulator: no defect
// CHECK: 'rotated': {{[0-9]+}} of {{[0-9]+}} elements written
// CHECK: 'cache':
// CHECK: 'values':

!q = tensor<?x3x144xbf16>
!k = tensor<?x1x144xbf16>
!v = tensor<?x1x80xbf16>
!t = tensor<256x128xf32>
!b = !mla.batch<query_len = ?>
!keys = !mla.cache<page_size = 16, fields = [key: 1x144], element = bf16, format = "k_nhd">
!values = !mla.cache<page_size = 16, fields = [value: 1x80], element = bf16, format = "v_nhd">
#rope = #mla.rope<order = interleaved, dim = 128, theta = 1.0e4, length = 256>

func.func @step(%q: !q {mla.input = "q"}, %k: !k {mla.input = "k"}, %v: !v {mla.input = "v"}, %t: !t {mla.input = "table"}, %b: !b, %keys: !keys,
    %values: !values {mla.pool = "values"}) -> (!q {mla.output = "rotated"}, !keys, !values) {
  %rotated = mla.rope %q, %t, %b with #rope offset 8 : !q, !t, !b
  %rk = mla.rope %k, %t, %b with #rope offset 8 : !k, !t, !b
  %0 = mla.append %rk into %keys, %b : !k into !keys, !b
  %1 = mla.append %v into %values, %b : !v into !values, !b
  return %rotated, %0, %1 : !q, !keys, !values
}
