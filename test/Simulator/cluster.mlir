// CTAs of a cluster run side by side; a grid has whole clusters.
//
// RUN: mla-opt %S/Inputs/cluster.mlir --sm90-simulate="args=iota:8192,nan:4096 grid=2 seeds=20 print=2" -o /dev/null 2>&1 | FileCheck %s
// CHECK: remark: argument 1: 4096 4098
//
// RUN: not mla-opt %S/Inputs/cluster.mlir --sm90-simulate="args=iota:8192,nan:4096 grid=3" 2>&1 | FileCheck %s --check-prefix=GRID
// GRID: error: 'sm90.kernel' op [unsupported] has clusters of 2 CTAs, a grid of 3 along x is no whole number of them
//
// RUN: not mla-opt %S/Inputs/cluster.mlir --test-sm90-mutate="kind=await-locally index=1" --sm90-simulate="args=iota:8192,nan:4096 grid=2" 2>&1 | FileCheck %s --check-prefix=SCOPE
// SCOPE: error: 'sm90.unpark' op [race] ring 'sums', slot 0, tile 0: reaches row 0
// SCOPE: note: 'sm90.park': the other access
//
// RUN: not mla-opt %S/Inputs/cluster.mlir --test-sm90-mutate="kind=drop-acquire index=2" --sm90-simulate="args=iota:8192,nan:4096 grid=2 seeds=8" 2>&1 | FileCheck %s --check-prefix=ENDED
// ENDED: error: 'sm90.release' op [race] reaches the shared memory of the CTA of rank {{[01]}}, which has ended
