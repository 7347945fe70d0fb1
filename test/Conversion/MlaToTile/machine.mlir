// RUN: mla-opt %s --split-input-file --convert-mla-to-tile=target=sm90 | FileCheck %s
// RUN: mla-opt %s --split-input-file --convert-mla-to-tile=target=cpu | FileCheck %s --check-prefix=CPU

// Whose rates and measured numbers decide: the machine that the module names, if it is
// one of the target's chip. CPU kernels are not scheduled by cost, so nothing is said.

// CPU-NOT: tile.machine

// CHECK-LABEL: module attributes {
// CHECK-SAME: tile.machine = "h200"
module attributes {mla.target = #mla.target<"h200", num_sms = 132, matmul_tflops = 800.0, read_gbps = 4642.0, launch_us = 1.9>} {
}

// -----

// CHECK-LABEL: module attributes {
// CHECK-SAME: tile.machine = "h200"
module attributes {mla.target = #mla.target<"cpu", num_sms = 2, matmul_tflops = 0.4, read_gbps = 64.0, launch_us = 18.0>} {
}

// -----

// CHECK-LABEL: module attributes {
// CHECK-SAME: tile.machine = "h200"
module {
}
