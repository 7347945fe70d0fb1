// What every MLIR driver can do, mla-opt can: dumps between passes, pipelines as
// text, checked diagnostics, and bug reports that replay.
//
// RUN: mla-opt %s --split-input-file --verify-diagnostics --mla-choose-form -o /dev/null
// RUN: mla-opt --help | FileCheck %s --check-prefix=HELP
// HELP: Available Dialects: {{.*}}mla,{{.*}}sm90,{{.*}}tile
// HELP-DAG: --convert-mla-to-tile
// HELP-DAG: --mla-choose-form
// HELP-DAG: --mla-import-config
// HELP-DAG: --mla-lower-to-tile
// HELP-DAG: --sm90-to-nvvm
// HELP-DAG: --tile-to-cpu-llvm

// RUN: mla-opt --mla-import-config=config=%data/configs/deepseek_v3_tiny.json /dev/null -o %t.mlir
// RUN: mla-opt %t.mlir --pass-pipeline="builtin.module(mla-choose-form,canonicalize)" --mlir-print-ir-after-all -o /dev/null 2>&1 | FileCheck %s --check-prefix=DUMP
// DUMP: IR Dump After {{.*}} (mla-choose-form)
// DUMP: absorbed
// DUMP: IR Dump After {{.*}} (canonicalize)
// RUN: mla-opt %t.mlir --mla-lower-to-tile=target=cpu --mlir-timing -o /dev/null 2>&1 | FileCheck %s --check-prefix=TIME
// TIME: Execution time report
// RUN: mla-opt %t.mlir --mla-lower-to-tile=target=cpu --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE
// PIPELINE: Pass Manager with
// PIPELINE: convert-mla-to-tile

// A pass that fails leaves a file that fails in the same way.
// RUN: not mla-opt %t.mlir --convert-mla-to-tile --mlir-pass-pipeline-crash-reproducer=%t.crash.mlir -o /dev/null 2>&1 | FileCheck %s --check-prefix=FAIL
// FAIL: error: 'mla.attention' op expected a form to have been chosen and expanded
// RUN: FileCheck %s --check-prefix=REPRODUCER < %t.crash.mlir
// REPRODUCER: mlir_reproducer
// REPRODUCER: pipeline: "builtin.module(convert-mla-to-tile{{{.*}}target=cpu})"
// RUN: not mla-opt --run-reproducer %t.crash.mlir -o /dev/null 2>&1 | FileCheck %s --check-prefix=FAIL

// RUN: not mla-opt %t.mlir --mla-chose-form 2>&1 | FileCheck %s --check-prefix=NEAREST
// NEAREST: Unknown command line argument '--mla-chose-form'
// NEAREST: Did you mean '--mla-choose-form'?
// RUN: not mla-opt %t.mlir --pass-pipeline="builtin.module(nosuch)" 2>&1 | FileCheck %s --check-prefix=NOPASS
// NOPASS: 'nosuch' does not refer to a registered pass or pass pipeline

func.func @f(%x: tensor<4x7xbf16>) {
  // expected-error@+1 {{custom op 'mla.nosuch' is unknown}}
  %0 = mla.nosuch %x : tensor<4x7xbf16>
  return
}

// -----

func.func @g(%x: f32) -> f32 {
  return %x : f32
}
