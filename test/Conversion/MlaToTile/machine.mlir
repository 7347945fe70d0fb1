// RUN: mla-opt %s --split-input-file --convert-mla-to-tile=target=sm90 | FileCheck %s
// RUN: mla-opt %s --split-input-file --convert-mla-to-tile=target=cpu | FileCheck %s --check-prefix=CPU

// Whose rates and measured numbers decide: the machine that the module names, if it is
// one of the target's chip. CPU kernels are not scheduled by cost, so nothing is said.

// CPU-NOT: tile.machine

// CHECK-LABEL: module attributes {
// CHECK-SAME: tile.machine = #tile.machine<"h200">
module attributes {mla.target = #mla.target<"h200", num_sms = 132, matmul_tflops = 800.0, read_gbps = 4642.0, launch_us = 1.9>} {
}

// -----

// CHECK-LABEL: module attributes {
// CHECK-SAME: tile.machine = #tile.machine<"h200">
module attributes {mla.target = #mla.target<"cpu", num_sms = 2, matmul_tflops = 0.4, read_gbps = 64.0, launch_us = 18.0>} {
}

// -----

// CHECK-LABEL: module attributes {
// CHECK-SAME: tile.machine = #tile.machine<"h200">
module {
}

// -----

// Rates that differ from what is known of the machine are the module's.

// CHECK-LABEL: module attributes {
// CHECK-SAME: tile.machine = #tile.machine<"h200", num_sms = 66, matmul_tflops = 4.000000e+02, read_gbps = 2.300000e+03>
module attributes {mla.target = #mla.target<"h200", num_sms = 66, matmul_tflops = 400.0, read_gbps = 2300.0, launch_us = 1.9>} {
}

// -----

// A machine that nobody knows is another one of the chip.

// CHECK-LABEL: module attributes {
// CHECK-SAME: tile.machine = #tile.machine<"h200", num_sms = 78, matmul_tflops = 1.480000e+02, launch_us = 2.500000e+00>
module attributes {mla.target = #mla.target<"h20", num_sms = 78, matmul_tflops = 148.0, read_gbps = 4642.0, launch_us = 2.5>} {
}
