//===- Passes.td - passes on the Hopper level ----------------*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_SM90_TRANSFORMS_PASSES
#define MLA_DIALECT_SM90_TRANSFORMS_PASSES

include "mlir/Pass/PassBase.td"

def Sm90InsertProxyFences : Pass<"sm90-insert-proxy-fences", "::mlir::sm90::KernelOp"> {
  let summary = "inserts the fences between shared-memory writes and the wgmma that read them";
  let description = [{
    Stores and `cp.async` write shared memory through the generic proxy, wgmma
    reads it through the async proxy; a barrier alone orders only the former.
    The pass puts a `sm90.proxy_fence` before every `sm90.barrier` (and after the
    `sm90.copy_wait` that precedes it) across which such writes become readable.

    ```
    thread a   store_shared   proxy_fence   barrier │
    thread b   copy … wait    proxy_fence   barrier │ wgmma reads both
                              ^ inserted
    ```

    Before:
    ```mlir
    sm90.copy_wait 0
    sm90.barrier
    ```
    After:
    ```mlir
    sm90.copy_wait 0
    sm90.proxy_fence
    sm90.barrier
    ```

    It follows the order of the program through `scf.for` (to a fixed point) and
    `scf.if`, keeping per program point: copies that were not waited for, writes
    without a fence, writes without a barrier, reads without a barrier. These
    are errors: a `sm90.wgmma` after a write that was not waited for, fenced or
    published by a barrier; a write after a read without a barrier between (the
    other warps may still be reading). All of shared memory counts as one buffer
    here, so the check holds whatever tiles share a place.

    Precondition: none. Guarantee: the errors above are absent. A kernel without
    `sm90.wgmma` gets no fence. Running it twice changes nothing.
  }];
}

def Sm90AllocateSharedMemory : Pass<"sm90-allocate-shared-memory", "::mlir::sm90::KernelOp"> {
  let summary = "gives every shared tile its place";
  let description = [{
    Sets `offset` on each `sm90.alloc` and `shared_bytes` on the kernel (the
    highest end, 0 without tiles). Tiles whose lives do not overlap may share
    bytes:

    ```
    bytes │ ┌── sQ: lives through the loop ───────────────┐
          │ │            loop                             │
          │ │   ┌ sK ─────────────┐   ┌ sOut ┐            │
          │ └───┴────────────────-┴───┴──────┴────────────┘
          └───────────────────────────────────────────────→ program order
                                      ^ may take sK's bytes: sK is dead
    ```

    A tile lives from its `sm90.alloc` to the last use of it or of a slice; a use
    inside a nested region extends its life to the end of the op of the
    alloc's own block that holds it. Tiles are placed in program order, each at
    the lowest offset that is a multiple of its alignment (1024 bytes for
    swizzle128) and free of every tile alive at the same time.

    Sharing bytes is safe if a write never overtakes a read: the pass checks, as
    `sm90-insert-proxy-fences` does, that a barrier stands between any read of
    shared memory and the next write. Where that does not hold, or a tile
    already has an offset, no bytes are shared.

    An error names the total and the limit if more than 232448 bytes (227 KiB)
    are needed, and a note each tile.
  }];
}

#endif // MLA_DIALECT_SM90_TRANSFORMS_PASSES
