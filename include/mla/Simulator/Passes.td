//===- Passes.td - the simulator as passes -------------------*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_SIMULATOR_PASSES
#define MLA_SIMULATOR_PASSES

include "mlir/Pass/PassBase.td"

def Sm90Simulate : Pass<"sm90-simulate", "::mlir::sm90::KernelOp"> {
  let summary = "runs kernels on the host and reports races, hangs and other defects";
  let description = [{
    Interprets each kernel on buffers made from `args`, `seeds` times from `seed`
    on, each time with other orders of warpgroups and of the completion of
    asynchronous operations, and reports the first defect as an error at the
    operation concerned, with notes at the others (docs/simulator.md). The IR is
    not changed. The results of all seeds must agree in every bit; with `print`
    the first elements of each buffer are reported in a remark.

    `args` has an entry for each argument of the kernel: a number for `index` and
    `f32`, and for a buffer `CONTENT:COUNT`, where the content of its COUNT
    elements is `random` (reproducible, in [-1, 1)), `nan`, `zero`, `iota`, or
    `LIST:COUNT` with a list of numbers joined by `/`, repeated to fill the
    buffer.

    ```
    mla-opt kernel.mlir --sm90-simulate="args=random:4096,64,nan:4096 seeds=20"
    ```

    Precondition: `sm90-allocate-shared-memory`.
  }];
  let options = [
    ListOption<"args", "args", "std::string", "an entry for each argument of the kernel">,
    ListOption<"grid", "grid", "int64_t", "CTAs along x, y and z (1 where absent)">,
    Option<"seed", "seed", "uint64_t", "0", "first seed">,
    Option<"seeds", "seeds", "uint64_t", "20", "how many seeds">,
    Option<"print", "print", "unsigned", "0", "elements of each buffer to report">
  ];
}

def TestSm90Mutate : Pass<"test-sm90-mutate", "::mlir::sm90::KernelOp"> {
  let summary = "plants one bug of a given kind (for tests of the simulator)";
  let description = [{
    Changes the `index`-th place of the kernel where the bug of kind `kind` can be
    planted. An error if there is no such kind or place. The IR stays valid.
  }];
  let options = [
    Option<"kind", "kind", "std::string", "\"\"", "name of the bug">,
    Option<"index", "index", "unsigned", "0", "which of the places">
  ];
}

#endif // MLA_SIMULATOR_PASSES
