// Bugs planted in right kernels and what is said about them.

// RUN: not mla-opt %S/Inputs/relay.mlir --test-sm90-mutate="kind=drop-await index=0" --sm90-simulate="args=random:8192,random:65536,4/1/7/2/0:5,nan:8192,8,300,0.25" 2>&1 | FileCheck %s --check-prefix=RACE
// RACE: error: 'sm90.load_shared' op [race] ring 'query', slot 0, tile 0: reaches row 0
// RACE: note: 'sm90.tma_load': the other access

// RUN: not mla-opt %S/Inputs/relay.mlir --test-sm90-mutate="kind=drop-proxy-fence index=0" --sm90-simulate="args=random:8192,random:65536,4/1/7/2/0:5,nan:8192,8,300,0.25" 2>&1 | FileCheck %s --check-prefix=PROXY
// PROXY: error: 'sm90.wgmma' op [missing proxy fence] ring 'weights', slot 0, tile 0
// PROXY: note: 'sm90.store_shared'

// RUN: not mla-opt %S/Inputs/relay.mlir --test-sm90-mutate="kind=drop-wgmma-fence" --sm90-simulate="args=random:8192,random:65536,4/1/7/2/0:5,nan:8192,8,300,0.25" 2>&1 | FileCheck %s --check-prefix=FENCE
// FENCE: error: 'sm90.wgmma' op [missing wgmma fence] begins a group without a wgmma_fence

// RUN: not mla-opt %S/Inputs/relay.mlir --test-sm90-mutate="kind=touch-operand" --sm90-simulate="args=random:8192,random:65536,4/1/7/2/0:5,nan:8192,8,300,0.25" 2>&1 | FileCheck %s --check-prefix=WAIT
// WAIT: error: 'arith.negf' op [missing wait] uses the registers of an operand of a wgmma in flight

// RUN: not mla-opt %S/Inputs/relay.mlir --test-sm90-mutate="kind=drop-release" --sm90-simulate="args=random:8192,random:65536,4/1/7/2/0:5,nan:8192,8,300,0.25" 2>&1 | FileCheck %s --check-prefix=DEADLOCK
// DEADLOCK: error: 'sm90.acquire' op [deadlock] waits for ever: 3 warpgroups wait, nothing is in flight
// DEADLOCK: note: 'sm90.acquire': warpgroup 0 of role 'load' waits for phase 0 of ring 'keys', slot 0, empty (in phase 0, 4 of 8 arrivals and 0 bytes pending)
// DEADLOCK: note: 'sm90.await': warpgroup 1 of role 'scores' waits for phase 1 of ring 'keys', slot 0, full, part 0
// DEADLOCK: note: 'sm90.await': warpgroup 2 of role 'values'

// RUN: not mla-opt %S/Inputs/relay.mlir --test-sm90-mutate="kind=double-publish index=1" --sm90-simulate="args=random:8192,random:65536,4/1/7/2/0:5,nan:8192,8,300,0.25" 2>&1 | FileCheck %s --check-prefix=PHASE
// PHASE: error: 'sm90.publish' op [wrong phase] arrives for phase 0 of ring 'weights', slot 0, full, part 0 (in phase 1

// RUN: not mla-opt %S/Inputs/relay.mlir --test-sm90-mutate="kind=bytes-minus" --sm90-simulate="args=random:8192,random:65536,4/1/7/2/0:5,nan:8192,8,300,0.25" 2>&1 | FileCheck %s --check-prefix=BYTES
// BYTES: error: 'sm90.tma_load' op [bytes mismatch] brings more bytes than the phase expects: ring 'query', slot 0, full, part 0 (in phase 0, 0 of 1 arrivals and -128 bytes pending)

// RUN: not mla-opt %S/Inputs/relay.mlir --test-sm90-mutate="kind=shrink-shared" --sm90-simulate="args=random:8192,random:65536,4/1/7/2/0:5,nan:8192,8,300,0.25" 2>&1 | FileCheck %s --check-prefix=SHARED
// SHARED: error: 'sm90.ring' op [out of bounds] ends at byte 74840 of shared memory, the kernel has 74832

// RUN: not mla-opt %S/Inputs/relay.mlir --test-sm90-mutate="kind=shrink-budget" --sm90-simulate="args=random:8192,random:65536,4/1/7/2/0:5,nan:8192,8,300,0.25" 2>&1 | FileCheck %s --check-prefix=REGISTERS
// REGISTERS: error: {{.*}} [register overcommit] needs about {{[0-9]+}} registers, {{[0-9]+}} of them for the fragments that live here, but a thread of role 'scores' has 24

// RUN: not mla-opt %S/Inputs/relay.mlir --sm90-simulate="args=random:8192,random:65536,4/1/7/2/0:5,nan:8192,8,384,0.25" 2>&1 | FileCheck %s --check-prefix=BOUNDS
// BOUNDS: error: 'memref.load' op [out of bounds] loads outside of its buffer, at index 5

// RUN: not mla-opt %S/Inputs/gather.mlir --test-sm90-mutate="kind=drop-copy-wait" --sm90-simulate="args=random:4096,random:12800,3/99/-1:150,nan:8192,nan:64,100,150" 2>&1 | FileCheck %s --check-prefix=COPY
// COPY: error: 'sm90.wgmma' op [{{race|missing wait}}] the tile of bytes 32768 to 40960
// COPY: note: 'sm90.copy'

// RUN: not mla-opt %S/Inputs/gather.mlir --test-sm90-mutate="kind=named-barrier-count" --sm90-simulate="args=random:4096,random:12800,3/99/-1:150,nan:8192,nan:64,100,150" 2>&1 | FileCheck %s --check-prefix=NAMED
// NAMED: error: 'sm90.named_barrier' op [barrier mismatch] expects {{12|16}} warps at barrier 8, where others expect {{12|16}}

// RUN: not mla-opt %S/Inputs/gather.mlir --test-sm90-mutate="kind=drop-store-shared" --sm90-simulate="args=random:4096,random:12800,3/99/-1:150,nan:8192,nan:64,100,150" 2>&1 | FileCheck %s --check-prefix=POISON
// POISON: error: 'sm90.store' op [uninitialized] stores an element that depends on shared memory which was never written

// RUN: not mla-opt %S/Inputs/gather.mlir --test-sm90-mutate="kind=drop-acquire index=5" 2>&1 | FileCheck %s --check-prefix=PLACE
// PLACE: error: has no place 5 for a bug of kind 'drop-acquire'

// B06: between two ops that work in the same memory stands a barrier.
// RUN: not mla-opt %S/Inputs/marks.mlir --test-sm90-mutate="kind=drop-barrier" --sm90-simulate="args=3/-1/3/140/127:48,1/2:8,nan:256,0" -o /dev/null 2>&1 | FileCheck %s --check-prefix=BITS
// BITS: error: 'sm90.set_bits' op [race] the tile of bytes 0 to 256
// BITS: note: 'sm90.set_bits': the other access
