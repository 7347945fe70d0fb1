// Passes may move tile.program_id into branches; every lowering takes it there.
//
// RUN: mla-opt %s --control-flow-sink | FileCheck %s
// RUN: mla-opt %s --control-flow-sink --convert-tile-to-cpu | FileCheck %s --check-prefix=CPU
// RUN: mla-opt %s --control-flow-sink --convert-tile-to-sm90 | FileCheck %s --check-prefix=SM90
// RUN: mla-opt %s --control-flow-sink --loop-invariant-code-motion | FileCheck %s

// CHECK-LABEL: tile.kernel @branch
// CHECK:       scf.if
// CHECK-NEXT:  tile.program_id 0
// CPU-LABEL:   @branch
// SM90-LABEL:  sm90.kernel @branch
// SM90:        scf.if
// SM90:        sm90.program_id 0
tile.kernel @branch(%out: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %i = tile.program_id 0
  %isAny = arith.cmpi slt, %c0, %n : index
  scf.if %isAny {
    %value = arith.constant dense<1.0> : tensor<64xf32>
    tile.store %value, %out[%i] : tensor<64xf32>, memref<?xf32>
  }
  tile.return
}
