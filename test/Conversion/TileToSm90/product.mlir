// RUN: mla-opt %s --tile-plan-schedules --convert-tile-to-sm90 --split-input-file --verify-diagnostics | FileCheck %s
// RUN: mla-opt %s --tile-plan-schedules=schedule=simple --convert-tile-to-sm90 --split-input-file 2>/dev/null | FileCheck %s --check-prefix=SIMPLE
// RUN: mla-opt %s --tile-plan-schedules=option=product-stages=2 --split-input-file 2>&1 >/dev/null | FileCheck %s --check-prefix=FORCED
// RUN: not mla-opt %s --tile-plan-schedules="schedule=product option=product-stages=113" 2>&1 >/dev/null | FileCheck %s --check-prefix=DEEP
// RUN: not mla-opt %s --convert-tile-to-sm90=schedule=fast 2>&1 >/dev/null | FileCheck %s --check-prefix=NAME

// FORCED: remark: kernel 'product': schedule product product-stages=2
// FORCED: remark: kernel 'choice': schedule product product-stages=2
// DEEP: error: kernel 'product': not product: 113 stages of {{[0-9]+}} bytes do not fit in shared memory
// NAME: error: schedule: expected auto, simple, relay, stream, pingpong, scores or product, got 'fast'

// Weights have a producer of their own, which does not wait for the kernel before;
// 5 stages let two CTAs share a multiprocessor.

// SIMPLE-NOT: sm90.role

// CHECK-LABEL: sm90.kernel @product
// CHECK-SAME: warpgroups = 3
// CHECK: sm90.launch_dependents
// CHECK-DAG: %[[W:.*]] = sm90.tensor_map %{{.*}} : memref<256x512xbf16, {{.*}}> -> <64x64xbf16>
// CHECK-DAG: %[[X:.*]] = sm90.tensor_map %{{.*}} : memref<?x512xbf16, {{.*}}> -> <16x64xbf16>
// CHECK-DAG: %[[WEIGHTS:.*]] = sm90.ring "invariant" full_count 1 empty_count 4 : <stages = 5, parts = 1, tiles = [<64x128xbf16>]>
// CHECK-DAG: %[[OPERANDS:.*]] = sm90.ring "operands" full_count 1 empty_count 4 : <stages = 5, parts = 1, tiles = [<16x128xbf16>]>
// CHECK: sm90.role "load_invariant" warpgroups 0 to 1 {
// CHECK: sm90.elect
// CHECK-NOT: sm90.wait_dependency
// CHECK: scf.for
// CHECK: sm90.acquire %[[WEIGHTS]]
// CHECK: sm90.expect %[[WEIGHTS]]{{.*}} bytes 16384
// CHECK: sm90.tma_load %[[W]]
// CHECK-NOT: sm90.tma_load
// CHECK: sm90.role "load" warpgroups 1 to 2 {
// CHECK: sm90.wait_dependency
// CHECK: sm90.expect %[[OPERANDS]]{{.*}} bytes 4096
// CHECK: sm90.tma_load %[[X]]
// CHECK: sm90.role "math0" warpgroups 2 to 3 {
// CHECK: sm90.wait_dependency
// CHECK: scf.for
// CHECK: sm90.await %[[WEIGHTS]]
// CHECK: sm90.await %[[OPERANDS]]
// CHECK: sm90.wgmma {{.*}} transpose_rhs
// CHECK-NOT: sm90.wgmma_wait 1
// CHECK: sm90.wgmma_wait 0
// CHECK: sm90.release %[[WEIGHTS]]
// CHECK: sm90.release %[[OPERANDS]]
// CHECK: arith.truncf
// CHECK: sm90.store {{.*}} transposed
// expected-remark @below {{kernel 'product': schedule product product-stages=5}}
tile.kernel @product(%x: memref<?xbf16>, %w: memref<?xbf16> {tile.invariant}, %y: memref<?xbf16>, %rows: index)
    attributes {tile.triggers_dependents, tile.waits_for_dependency} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %c512 = arith.constant 512 : index
  %pid = tile.program_id 0
  %column = arith.muli %pid, %c64 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%rows, 512], strides: [512, 1]
      : memref<?xbf16> to memref<?x512xbf16, strided<[512, 1]>>
  %wv = memref.reinterpret_cast %w to offset: [0], sizes: [256, 512], strides: [512, 1]
      : memref<?xbf16> to memref<256x512xbf16, strided<[512, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [%rows, 256], strides: [256, 1]
      : memref<?xbf16> to memref<?x256xbf16, strided<[256, 1]>>
  %zero = arith.constant dense<0.0> : tensor<64x16xf32>
  %acc = scf.for %k = %c0 to %c512 step %c128 iter_args(%a = %zero) -> (tensor<64x16xf32>) {
    %xt = tile.load %xv[%c0, %k] : memref<?x512xbf16, strided<[512, 1]>> -> tensor<16x128xbf16>
    %wt = tile.load %wv[%column, %k] : memref<256x512xbf16, strided<[512, 1]>> -> tensor<64x128xbf16>
    %d = tile.dot %wt, %xt, %a transpose_rhs : tensor<64x128xbf16>, tensor<16x128xbf16> -> tensor<64x16xf32>
    scf.yield %d : tensor<64x16xf32>
  }
  %n = arith.truncf %acc : tensor<64x16xf32> to tensor<64x16xbf16>
  tile.store %n, %yv[%c0, %column] transposed : tensor<64x16xbf16>, memref<?x256xbf16, strided<[256, 1]>>
  tile.return
}

// -----

// From 64 columns of a result on a single consumer, too, has its next product in flight before it frees
// the stage of the one before.

// CHECK-LABEL: sm90.kernel @wide_consumer
// CHECK: sm90.role "math0"
// CHECK: sm90.wgmma
// CHECK: scf.for
// CHECK: sm90.wgmma
// CHECK: sm90.wgmma_wait 1
// CHECK: sm90.release
// CHECK: sm90.wgmma_wait 0
// expected-remark @below {{kernel 'wide_consumer': schedule product}}
tile.kernel @wide_consumer(%x: memref<?xbf16>, %w: memref<?xbf16> {tile.invariant}, %y: memref<?xbf16>, %rows: index)
    attributes {tile.triggers_dependents, tile.waits_for_dependency} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %c512 = arith.constant 512 : index
  %pid = tile.program_id 0
  %column = arith.muli %pid, %c64 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%rows, 512], strides: [512, 1]
      : memref<?xbf16> to memref<?x512xbf16, strided<[512, 1]>>
  %wv = memref.reinterpret_cast %w to offset: [0], sizes: [256, 512], strides: [512, 1]
      : memref<?xbf16> to memref<256x512xbf16, strided<[512, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [%rows, 256], strides: [256, 1]
      : memref<?xbf16> to memref<?x256xbf16, strided<[256, 1]>>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %acc = scf.for %k = %c0 to %c512 step %c128 iter_args(%a = %zero) -> (tensor<64x64xf32>) {
    %xt = tile.load %xv[%c0, %k] : memref<?x512xbf16, strided<[512, 1]>> -> tensor<64x128xbf16>
    %wt = tile.load %wv[%column, %k] : memref<256x512xbf16, strided<[512, 1]>> -> tensor<64x128xbf16>
    %d = tile.dot %wt, %xt, %a transpose_rhs : tensor<64x128xbf16>, tensor<64x128xbf16> -> tensor<64x64xf32>
    scf.yield %d : tensor<64x64xf32>
  }
  %n = arith.truncf %acc : tensor<64x64xf32> to tensor<64x64xbf16>
  tile.store %n, %yv[%c0, %column] transposed : tensor<64x64xbf16>, memref<?x256xbf16, strided<[256, 1]>>
  tile.return
}

// -----

// One of two weights by a condition that the whole program shares: one ring, a map of each. The next
// kernel does not begin early, so that the rings take what there is.

// CHECK-LABEL: sm90.kernel @choice
// CHECK-DAG: %[[A:.*]] = sm90.tensor_map %{{.*}} : memref<128x512xbf16, {{.*}}> -> <64x64xbf16>
// CHECK-DAG: %[[B:.*]] = sm90.tensor_map %{{.*}} : memref<64x512xbf16, {{.*}}> -> <64x64xbf16>
// CHECK: sm90.ring "invariant" full_count 1 empty_count 4 : <stages = 11, parts = 1, tiles = [<64x128xbf16>]>
// CHECK: sm90.role "load_invariant"
// CHECK: sm90.expect {{.*}} bytes 16384
// CHECK: scf.if
// CHECK: sm90.tma_load %[[A]]
// CHECK: else
// CHECK: sm90.tma_load %[[B]]
// CHECK: sm90.role "load"
// expected-remark @below {{kernel 'choice': schedule product product-stages=11}}
tile.kernel @choice(%x: memref<?xbf16>, %w: memref<?xbf16> {tile.invariant}, %y: memref<?xf32>, %rows: index,
                    %v: memref<?xbf16> {tile.invariant}) attributes {tile.waits_for_dependency} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %c512 = arith.constant 512 : index
  %pid = tile.program_id 0
  %column = arith.muli %pid, %c64 : index
  %behind = arith.subi %column, %c128 : index
  %other = arith.maxsi %behind, %c0 : index
  %first = arith.cmpi slt, %column, %c128 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%rows, 512], strides: [512, 1]
      : memref<?xbf16> to memref<?x512xbf16, strided<[512, 1]>>
  %wv = memref.reinterpret_cast %w to offset: [0], sizes: [128, 512], strides: [512, 1]
      : memref<?xbf16> to memref<128x512xbf16, strided<[512, 1]>>
  %vv = memref.reinterpret_cast %v to offset: [0], sizes: [64, 512], strides: [512, 1]
      : memref<?xbf16> to memref<64x512xbf16, strided<[512, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [%rows, 192], strides: [192, 1]
      : memref<?xf32> to memref<?x192xf32, strided<[192, 1]>>
  %zero = arith.constant dense<0.0> : tensor<64x16xf32>
  %acc = scf.for %k = %c0 to %c512 step %c128 iter_args(%a = %zero) -> (tensor<64x16xf32>) {
    %xt = tile.load %xv[%c0, %k] : memref<?x512xbf16, strided<[512, 1]>> -> tensor<16x128xbf16>
    %wt = tile.load %wv[%column, %k] : memref<128x512xbf16, strided<[512, 1]>> -> tensor<64x128xbf16>
    %vt = tile.load %vv[%other, %k] : memref<64x512xbf16, strided<[512, 1]>> -> tensor<64x128xbf16>
    %chosen = arith.select %first, %wt, %vt : tensor<64x128xbf16>
    %d = tile.dot %chosen, %xt, %a transpose_rhs : tensor<64x128xbf16>, tensor<16x128xbf16> -> tensor<64x16xf32>
    scf.yield %d : tensor<64x16xf32>
  }
  tile.store %acc, %yv[%c0, %column] transposed : tensor<64x16xf32>, memref<?x192xf32, strided<[192, 1]>>
  tile.return
}

// -----

// One of three: the first whose condition holds, a branch within the other.

// CHECK-LABEL: sm90.kernel @choice_of_three
// CHECK-DAG: %[[A:.*]] = sm90.tensor_map %{{.*}} : memref<128x512xbf16, {{.*}}> -> <64x64xbf16>
// CHECK-DAG: %[[B:.*]] = sm90.tensor_map %{{.*}} : memref<64x512xbf16, {{.*}}> -> <64x64xbf16>
// CHECK-DAG: %[[C:.*]] = sm90.tensor_map %{{.*}} : memref<32x512xbf16, {{.*}}> -> <64x64xbf16>
// CHECK: sm90.role "load_invariant"
// CHECK: scf.if
// CHECK-NEXT: sm90.tma_load %[[A]]
// CHECK-NEXT: } else {
// CHECK-NEXT: scf.if
// CHECK-NEXT: sm90.tma_load %[[B]]
// CHECK-NEXT: } else {
// CHECK-NEXT: sm90.tma_load %[[C]]
// expected-remark @below {{kernel 'choice_of_three': schedule product product-stages=11}}
tile.kernel @choice_of_three(%x: memref<?xbf16>, %w: memref<?xbf16> {tile.invariant}, %y: memref<?xf32>, %rows: index,
                             %v: memref<?xbf16> {tile.invariant}, %u: memref<?xbf16> {tile.invariant}) attributes {tile.waits_for_dependency} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %c192 = arith.constant 192 : index
  %c512 = arith.constant 512 : index
  %pid = tile.program_id 0
  %column = arith.muli %pid, %c64 : index
  %behind = arith.subi %column, %c128 : index
  %second = arith.maxsi %behind, %c0 : index
  %behind_both = arith.subi %column, %c192 : index
  %third = arith.maxsi %behind_both, %c0 : index
  %in_first = arith.cmpi slt, %column, %c128 : index
  %in_second = arith.cmpi slt, %column, %c192 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%rows, 512], strides: [512, 1]
      : memref<?xbf16> to memref<?x512xbf16, strided<[512, 1]>>
  %wv = memref.reinterpret_cast %w to offset: [0], sizes: [128, 512], strides: [512, 1]
      : memref<?xbf16> to memref<128x512xbf16, strided<[512, 1]>>
  %vv = memref.reinterpret_cast %v to offset: [0], sizes: [64, 512], strides: [512, 1]
      : memref<?xbf16> to memref<64x512xbf16, strided<[512, 1]>>
  %uv = memref.reinterpret_cast %u to offset: [0], sizes: [32, 512], strides: [512, 1]
      : memref<?xbf16> to memref<32x512xbf16, strided<[512, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [%rows, 224], strides: [224, 1]
      : memref<?xf32> to memref<?x224xf32, strided<[224, 1]>>
  %zero = arith.constant dense<0.0> : tensor<64x16xf32>
  %acc = scf.for %k = %c0 to %c512 step %c128 iter_args(%a = %zero) -> (tensor<64x16xf32>) {
    %xt = tile.load %xv[%c0, %k] : memref<?x512xbf16, strided<[512, 1]>> -> tensor<16x128xbf16>
    %wt = tile.load %wv[%column, %k] : memref<128x512xbf16, strided<[512, 1]>> -> tensor<64x128xbf16>
    %vt = tile.load %vv[%second, %k] : memref<64x512xbf16, strided<[512, 1]>> -> tensor<64x128xbf16>
    %ut = tile.load %uv[%third, %k] : memref<32x512xbf16, strided<[512, 1]>> -> tensor<64x128xbf16>
    %rest = arith.select %in_second, %vt, %ut : tensor<64x128xbf16>
    %chosen = arith.select %in_first, %wt, %rest : tensor<64x128xbf16>
    %d = tile.dot %chosen, %xt, %a transpose_rhs : tensor<64x128xbf16>, tensor<16x128xbf16> -> tensor<64x16xf32>
    scf.yield %d : tensor<64x16xf32>
  }
  tile.store %acc, %yv[%c0, %column] transposed : tensor<64x16xf32>, memref<?x224xf32, strided<[224, 1]>>
  tile.return
}

// -----

// Two products that share an operand, over tiles in turn: a consumer each, with a product
// in flight when it frees the stage of the one before. Results leave by TMA while the next
// tile is multiplied.

// CHECK-LABEL: sm90.kernel @tiles
// CHECK-SAME: warpgroups = 3
// CHECK: %[[RING:.*]] = sm90.ring "operands" full_count 1 empty_count 8 : <stages = 3, parts = 1, tiles = [<64x64xbf16>, <64x64xbf16>, <256x64xbf16>]>
// CHECK: %[[TILE:.*]] = sm90.alloc : <64x256xbf16>
// CHECK: %[[OUT:.*]] = sm90.tensor_map %{{.*}} : memref<?x512xbf16, {{.*}}> -> <64x64xbf16>
// CHECK: sm90.alloc : <64x256xbf16>
// CHECK: sm90.role "load" warpgroups 0 to 1 registers 40
// CHECK: sm90.role "math0" warpgroups 1 to 2 registers 232
// CHECK: sm90.wgmma
// CHECK: sm90.wgmma_commit
// CHECK-NOT: sm90.release
// CHECK: scf.for
// CHECK: sm90.wgmma
// CHECK: sm90.wgmma_wait 1
// CHECK: sm90.release %[[RING]]
// CHECK: scf.yield
// CHECK: sm90.wgmma_wait 0
// CHECK: sm90.release %[[RING]]
// CHECK: sm90.store_wait 0
// CHECK: sm90.barrier
// CHECK: sm90.store_shared %{{.*}}, %[[TILE]]
// CHECK: sm90.barrier
// CHECK: sm90.tma_store %[[TILE]] to %[[OUT]]
// CHECK: sm90.store_commit
// CHECK: }
// CHECK: sm90.elect
// CHECK-NEXT: sm90.store_wait 0
// CHECK: sm90.role "math1" warpgroups 2 to 3 registers 232
// expected-remark @below {{kernel 'tiles': schedule product product-stages=3}}
tile.kernel @tiles(%x: memref<?xbf16>, %w: memref<?xbf16>, %y: memref<?xbf16>, %rows: index, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %c512 = arith.constant 512 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%rows, 512], strides: [512, 1]
      : memref<?xbf16> to memref<?x512xbf16, strided<[512, 1]>>
  %wv = memref.reinterpret_cast %w to offset: [0], sizes: [256, 512], strides: [512, 1]
      : memref<?xbf16> to memref<256x512xbf16, strided<[512, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [%rows, 512], strides: [512, 1]
      : memref<?xbf16> to memref<?x512xbf16, strided<[512, 1]>>
  %zero = arith.constant dense<0.0> : tensor<64x256xf32>
  %pid = tile.program_id 0
  scf.for %t = %pid to %n step %c1 {
    %row = arith.muli %t, %c128 : index
    %next = arith.addi %row, %c64 : index
    %acc:2 = scf.for %k = %c0 to %c512 step %c64 iter_args(%a = %zero, %b = %zero) -> (tensor<64x256xf32>, tensor<64x256xf32>) {
      %x0 = tile.load %xv[%row, %k] : memref<?x512xbf16, strided<[512, 1]>> -> tensor<64x64xbf16>
      %x1 = tile.load %xv[%next, %k] : memref<?x512xbf16, strided<[512, 1]>> -> tensor<64x64xbf16>
      %wt = tile.load %wv[%c0, %k] : memref<256x512xbf16, strided<[512, 1]>> -> tensor<256x64xbf16>
      %d = tile.dot %x0, %wt, %a transpose_rhs : tensor<64x64xbf16>, tensor<256x64xbf16> -> tensor<64x256xf32>
      %e = tile.dot %x1, %wt, %b transpose_rhs : tensor<64x64xbf16>, tensor<256x64xbf16> -> tensor<64x256xf32>
      scf.yield %d, %e : tensor<64x256xf32>, tensor<64x256xf32>
    }
    %m = arith.truncf %acc#0 : tensor<64x256xf32> to tensor<64x256xbf16>
    tile.store %m, %yv[%row, %c0] : tensor<64x256xbf16>, memref<?x512xbf16, strided<[512, 1]>>
    %o = arith.truncf %acc#1 : tensor<64x256xf32> to tensor<64x256xbf16>
    tile.store %o, %yv[%next, %c0] : tensor<64x256xbf16>, memref<?x512xbf16, strided<[512, 1]>>
  }
  tile.return
}

// -----

// Rows of 36 elements are not aligned to 16 bytes: TMA cannot copy them.

// CHECK-LABEL: sm90.kernel @unaligned
// CHECK-NOT: sm90.role
// CHECK: sm90.copy
// expected-remark @below {{kernel 'unaligned': schedule simple: TMA cannot copy an operand}}
tile.kernel @unaligned(%x: memref<?xbf16>, %y: memref<?xf32>, %rows: index) {
  %c0 = arith.constant 0 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%rows, 36], strides: [36, 1]
      : memref<?xbf16> to memref<?x36xbf16, strided<[36, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [64, 64], strides: [64, 1]
      : memref<?xf32> to memref<64x64xf32, strided<[64, 1]>>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %xt = tile.load %xv[%c0, %c0] : memref<?x36xbf16, strided<[36, 1]>> -> tensor<64x48xbf16>
  %d = tile.dot %xt, %xt, %zero transpose_rhs : tensor<64x48xbf16>, tensor<64x48xbf16> -> tensor<64x64xf32>
  tile.store %d, %yv[%c0, %c0] : tensor<64x64xf32>, memref<64x64xf32, strided<[64, 1]>>
  tile.return
}

// -----

// CHECK-LABEL: sm90.kernel @branches
// CHECK-NOT: sm90.role
// CHECK: sm90.copy
// expected-remark @below {{kernel 'branches': schedule simple: it branches}}
tile.kernel @branches(%x: memref<?xbf16>, %y: memref<?xf32>, %rows: index) {
  %c0 = arith.constant 0 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%rows, 64], strides: [64, 1]
      : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [64, 64], strides: [64, 1]
      : memref<?xf32> to memref<64x64xf32, strided<[64, 1]>>
  %some = arith.cmpi sgt, %rows, %c0 : index
  scf.if %some {
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %xt = tile.load %xv[%c0, %c0] : memref<?x64xbf16, strided<[64, 1]>> -> tensor<64x64xbf16>
    %d = tile.dot %xt, %xt, %zero transpose_rhs : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    tile.store %d, %yv[%c0, %c0] : tensor<64x64xf32>, memref<64x64xf32, strided<[64, 1]>>
  }
  tile.return
}
