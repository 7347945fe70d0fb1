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
  let summary = "inserts the fences between accesses to shared memory of both proxies";
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

    So it does between an ordinary read of a ring's stage that TMA fills and the stage's `sm90.release`:
    an mbarrier orders the read before other ordinary accesses only (docs/lab/codes.md, measured).

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
    `scf.if`, for the kernel as a whole or, where it has roles, for each role.

    *Private* tiles are allocs that only the threads of one role (without roles:
    of the kernel) touch. All of them count as one buffer, so the check holds
    whatever tiles share a place. Errors: a read before a wait for the copies, a
    barrier or (wgmma, TMA stores) a fence after the last write; a write after a
    read without a barrier between (the other warps may still be reading).

    Other tiles (of rings, shared by roles, targets of TMA) are ordered by
    mbarriers, which the simulator checks. Fences are needed there too:

    ```
    writer   store_shared, zero_rows or copy_wait   proxy_fence   publish │ release │ barrier
    reader   await (of a ring with copy_publish)    proxy_fence   wgmma
                                                    ^ inserted
    ```

    The writer's stands after the last write before each op by which others learn
    of it; the reader's only where `cp.async` arrives by itself
    (`sm90.copy_publish`), so that nobody could fence on the writer's side. Tiles
    that neither `sm90.wgmma` nor `sm90.tma_store` reads anywhere in the kernel
    (row vectors, scratch) need none.

    Precondition: none. Guarantee: the errors above are absent. Running it twice
    changes nothing.
  }];
}

def Sm90AllocateSharedMemory : Pass<"sm90-allocate-shared-memory", "::mlir::sm90::KernelOp"> {
  let summary = "gives every shared tile its place";
  let description = [{
    Sets `offset` on each `sm90.alloc` and each `sm90.ring` with tiles,
    `barrier_offset` on each ring, and `shared_bytes` on the kernel (the highest
    end, 0 without tiles). The barriers of all rings lie together behind the
    tiles. Rings live for the whole kernel. Tiles of the same role (without roles:
    of the kernel) whose lives do not overlap may share bytes; roles run at the
    same time, so theirs never do:

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
    alloc's own block that holds it. Pieces are placed most aligned first (1024
    bytes for swizzle128), rings and allocs alike in program order, each at the
    lowest aligned offset that is free of every piece alive at the same time.

    Sharing bytes is safe if a write never overtakes a read: the pass checks, as
    `sm90-insert-proxy-fences` does, that a barrier of the role stands between any
    read of a private tile (wgmma and TMA stores waited for) and the next write.
    Roles where that does not hold share nothing, nor does any if a tile already
    has an offset. Tiles that several roles or TMA touch live for the whole
    kernel.

    An error names the total and the limit if more than 232448 bytes (227 KiB; the
    1 KiB that the system reserves per CTA is not in it) are needed, and a note
    each tile and ring.
  }];
}

def Sm90PlaceWgmmaFences : Pass<"sm90-place-wgmma-fences", "::mlir::sm90::KernelOp"> {
  let summary = "places the fences of wgmma and checks their waits";
  let description = [{
    Replaces all `sm90.wgmma_fence` of the kernel by the fewest that are needed:
    before a `sm90.wgmma`

    - that opens a group, unless it continues an accumulator of the group before;
    - that reads registers (accumulator, fragment lhs) which another op has written
      since the last fence;
    - behind a `sm90.await` or `sm90.acquire`, also in the middle of a group: those
      are loops, and ptxas injects waits (C7519) or serialises (C7520) without it;
    - that is the first of a block, or follows an op with regions.

    Before:
    ```mlir
    %0 = sm90.wgmma %q0, %k0, %zero transpose_rhs : …
    sm90.await %keys[%s] part 1 : …
    %1 = sm90.wgmma %q1, %k1, %0 transpose_rhs : …
    %2 = sm90.wgmma %q2, %k2, %1 transpose_rhs : …
    sm90.wgmma_commit
    ```
    After:
    ```mlir
    sm90.wgmma_fence
    %0 = sm90.wgmma %q0, %k0, %zero transpose_rhs : …
    sm90.await %keys[%s] part 1 : …
    sm90.wgmma_fence
    %1 = sm90.wgmma %q1, %k1, %0 transpose_rhs : …
    %2 = sm90.wgmma %q2, %k2, %1 transpose_rhs : …
    sm90.wgmma_commit
    ```

    Errors:

    - an accumulator used by anything but `sm90.wgmma` and yields before a
      `sm90.wgmma_wait` took it;
    - a wait that lists an accumulator of a group that it does not wait for, or
      that was never committed;
    - a loop body whose first wait leaves groups in flight while wgmma are in flight
      across its back edge: ptxas 13.0 serialises all wgmma of such a loop (C7514).
      With `sm90.wgmma_wait 0` first it does not;
    - wgmma in flight across a back edge whose lhs is registers written in the body
      (undefined in PTX, and ptxas says nothing).

    Guarantee: none of these errors. Numerics do not change. Running it twice
    changes nothing.
  }];
}

def Sm90EstimateRegisters : Pass<"sm90-estimate-registers", "::mlir::sm90::KernelOp"> {
  let summary = "checks that roles fit their registers";
  let description = [{
    Estimates what a thread of each role needs, before ptxas has run: the
    fragments that live at the same time plus 26 registers for addresses
    (measured; see `mla/Dialect/Sm90/Transforms/RegisterEstimate.h` for the sizes
    of fragments). It is an error if that exceeds the role's `registers`, since
    ptxas then spills or ignores the budget (C7507, C7602); the note names the op
    behind which most live. Programs without a budget are not checked.

    The IR is not changed.
  }];
  let options = [
    Option<"report", "report", "bool", /*default=*/"false",
           "remark the estimate of the kernel and of each role">
  ];
}

#endif // MLA_DIALECT_SM90_TRANSFORMS_PASSES
