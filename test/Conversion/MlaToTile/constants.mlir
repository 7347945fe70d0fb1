// A step's constants are known by their numbers, also the largest that there is, with which most of such runs ended in
// a crash.
// RUN: mla-opt %S/sparse_records_V4_27.mlir --mla-lower-to-tile=num-splits=9223372036854775807 | FileCheck %s
// RUN: mla-opt %S/grouped_prompts_D06_D10.mlir --mla-lower-to-tile=num-splits=9223372036854775807 | FileCheck %s
// RUN: mla-opt %S/absorbed_attention.mlir --mla-lower-to-tile=num-splits=9223372036854775807 | FileCheck %s
// RUN: mla-opt %S/merge_pieces.mlir --mla-lower-to-tile=num-splits=9223372036854775807 | FileCheck %s
// CHECK: tile.plan
