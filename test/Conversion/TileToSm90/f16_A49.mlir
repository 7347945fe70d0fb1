// Hopper's kernels of f16: schedules, copies and products are those of bf16, and only the type of
// what is multiplied differs. They run in the simulator here; no GPU has run them.
//
// Both schedules compute the same bits, without a race (stream.mlir has the same of bf16).
// DEFINE: %{args} = random:36864,6,6144,3/0/4/1/5:5,150/22:2,random:4096,random:2048,nan:4096,nan:32,32,2
// RUN: sed 's/bf16/f16/g' %S/Inputs/few_rows.mlir > %t.mlir
// RUN: mla-opt %t.mlir --tile-to-sm90 --sm90-simulate="args=%{args} seeds=10 print=4096" -o /dev/null 2>&1 | grep -o "argument [78]: .*" > %t.stream
// RUN: sed 's/kind = "stream"/kind = "simple"/' %t.mlir | mla-opt --tile-to-sm90 --sm90-simulate="args=%{args} seeds=2 print=4096" -o /dev/null 2>&1 | grep -o "argument [78]: .*" > %t.simple
// RUN: diff %t.stream %t.simple
// RUN: FileCheck %s --check-prefix=VALUES --input-file=%t.stream
// VALUES: argument 7: 0.3144
// VALUES: argument 8: 2.086
//
// A model's layer is scheduled as in bf16.
// RUN: mla-compile %data/configs/deepseek_v3.json --target=sm_90a --functions=decode --dtype=bf16 --emit=ptx --schedule-report --quiet -o %t.bf16 > %t.bf16.txt
// RUN: mla-compile %data/configs/deepseek_v3.json --target=sm_90a --functions=decode --dtype=f16 --emit=ptx --schedule-report --quiet -o %t.f16 > %t.f16.txt
// RUN: diff %t.bf16.txt %t.f16.txt
// RUN: FileCheck %s --input-file=%t.f16 --implicit-check-not=bf16
// CHECK: cvt.rn.f16x2.f32
// CHECK: wgmma.mma_async.sync.aligned.{{m64n[0-9]+k16}}.f32.f16.f16
