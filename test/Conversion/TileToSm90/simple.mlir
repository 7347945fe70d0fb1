// RUN: mla-opt %s --convert-tile-to-sm90 --split-input-file | FileCheck %s

// Loads that feed dots are copied, published together by one barrier, and the
// end of the body waits for all readers. A ragged K needs nothing special.
// CHECK-LABEL: sm90.kernel @linear
// CHECK-SAME:  warpgroups = 1 : i32
// CHECK:       scf.for
// CHECK-NEXT:    %[[X:.*]] = sm90.alloc : <64x48xbf16>
// CHECK-NEXT:    sm90.copy %{{.*}} to %[[X]] vector_bytes 16
// CHECK-NEXT:    %[[W:.*]] = sm90.alloc : <32x48xbf16>
// CHECK-NEXT:    sm90.copy %{{.*}} to %[[W]] vector_bytes 16
// CHECK-NEXT:    sm90.copy_commit
// CHECK-NEXT:    sm90.copy_wait 0
// CHECK-NEXT:    sm90.barrier
// CHECK-NEXT:    sm90.wgmma_fence
// CHECK-NEXT:    %[[D:.*]] = sm90.wgmma %[[X]], %[[W]], %{{.*}} transpose_rhs
// CHECK-NEXT:    sm90.wgmma_commit
// CHECK-NEXT:    %[[R:.*]] = sm90.wgmma_wait 0, %[[D]]
// CHECK-NEXT:    sm90.barrier
// CHECK-NEXT:    scf.yield %[[R]]
// CHECK:       sm90.store
// CHECK-NEXT:  sm90.return
tile.kernel @linear(%x: memref<?xbf16>, %w: memref<?xbf16>, %out: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c48 = arith.constant 48 : index
  %c40 = arith.constant 40 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 40], strides: [40, 1]
      : memref<?xbf16> to memref<?x40xbf16, strided<[40, 1]>>
  %wv = memref.reinterpret_cast %w to offset: [0], sizes: [32, 40], strides: [40, 1]
      : memref<?xbf16> to memref<32x40xbf16, strided<[40, 1]>>
  %ov = memref.reinterpret_cast %out to offset: [0], sizes: [%n, 32], strides: [32, 1]
      : memref<?xf32> to memref<?x32xf32, strided<[32, 1]>>
  %zero = arith.constant dense<0.0> : tensor<64x32xf32>
  %acc = scf.for %k = %c0 to %c40 step %c48 iter_args(%a = %zero) -> (tensor<64x32xf32>) {
    %xt = tile.load %xv[%c0, %k] : memref<?x40xbf16, strided<[40, 1]>> -> tensor<64x48xbf16>
    %wt = tile.load %wv[%c0, %k] : memref<32x40xbf16, strided<[40, 1]>> -> tensor<32x48xbf16>
    %d = tile.dot %xt, %wt, %a transpose_rhs : tensor<64x48xbf16>, tensor<32x48xbf16> -> tensor<64x32xf32>
    scf.yield %d : tensor<64x32xf32>
  }
  tile.store %acc, %ov[%c0, %c0] : tensor<64x32xf32>, memref<?x32xf32, strided<[32, 1]>>
  tile.return
}

// -----

// A value from outside a loop that a dot inside reads is stored once, outside.
// CHECK-LABEL: sm90.kernel @stored_once
// CHECK:       %[[F:.*]] = arith.mulf
// CHECK:       %[[S:.*]] = sm90.alloc : <64x64xbf16>
// CHECK-NEXT:  sm90.store_shared %[[F]], %[[S]]
// CHECK-NEXT:  sm90.barrier
// CHECK-NEXT:  scf.for
// CHECK-NOT:     store_shared
// CHECK:         sm90.wgmma %[[S]]
tile.kernel @stored_once(%x: memref<?xbf16>, %w: memref<?xbf16>, %out: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1]>>
  %wv = memref.reinterpret_cast %w to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1]>>
  %ov = memref.reinterpret_cast %out to offset: [0], sizes: [%n, %n], strides: [%n, 1]
      : memref<?xf32> to memref<?x?xf32, strided<[?, 1]>>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %xt = tile.load %xv[%c0, %c0] : memref<?x64xbf16, strided<[64, 1]>> -> tensor<64x64xbf16>
  %x2 = arith.mulf %xt, %xt : tensor<64x64xbf16>
  scf.for %j = %c0 to %n step %c64 {
    %wt = tile.load %wv[%j, %c0] : memref<?x64xbf16, strided<[64, 1]>> -> tensor<64x64xbf16>
    %d = tile.dot %x2, %wt, %zero transpose_rhs : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    tile.store %d, %ov[%c0, %j] : tensor<64x64xf32>, memref<?x?xf32, strided<[?, 1]>>
  }
  tile.return
}

// -----

// A carried tile that a dot reads is stored at the start of the body; a branch
// begins and ends with nothing outstanding.
// CHECK-LABEL: sm90.kernel @carried
// CHECK:       scf.for {{.*}} iter_args(%[[P:.*]] = %{{.*}}) -> (tensor<64x16xbf16, #sm90.fragment<column_split = 1>>)
// CHECK-NEXT:    %[[S:.*]] = sm90.alloc : <64x16xbf16>
// CHECK-NEXT:    sm90.store_shared %[[P]], %[[S]]
// CHECK-NEXT:    arith.cmpi
// CHECK-NEXT:    sm90.barrier
// CHECK-NEXT:    scf.if %{{.*}} -> (tensor<64x16xf32, #sm90.fragment<column_split = 1>>)
// CHECK-NEXT:      sm90.wgmma_fence
// CHECK:           sm90.wgmma_wait
// CHECK-NEXT:      sm90.barrier
// CHECK-NEXT:      scf.yield
// CHECK-NEXT:    } else {
// CHECK-NEXT:      scf.yield
tile.kernel @carried(%out: memref<?xbf16>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ov = memref.reinterpret_cast %out to offset: [0], sizes: [%n, 16], strides: [16, 1]
      : memref<?xbf16> to memref<?x16xbf16, strided<[16, 1]>>
  %one = arith.constant dense<1.0> : tensor<64x16xbf16>
  %zero = arith.constant dense<0.0> : tensor<64x16xf32>
  %w = arith.constant dense<1.0> : tensor<64x64xbf16>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%p = %one) -> (tensor<64x16xbf16>) {
    %b = arith.cmpi slt, %i, %c1 : index
    %q = scf.if %b -> (tensor<64x16xf32>) {
      %d = tile.dot %w, %p, %zero : tensor<64x64xbf16>, tensor<64x16xbf16> -> tensor<64x16xf32>
      scf.yield %d : tensor<64x16xf32>
    } else {
      scf.yield %zero : tensor<64x16xf32>
    }
    %h = arith.truncf %q : tensor<64x16xf32> to tensor<64x16xbf16>
    scf.yield %h : tensor<64x16xbf16>
  }
  tile.store %r, %ov[%c0, %c0] : tensor<64x16xbf16>, memref<?x16xbf16, strided<[16, 1]>>
  tile.return
}

// -----

// A tile used both ways is loaded twice; its slices become views in shared
// memory and narrower loads in registers.
// CHECK-LABEL: sm90.kernel @both
// CHECK-SAME:  warpgroups = 1 : i32
// CHECK:       %[[S:.*]] = sm90.alloc : <64x576xbf16>
// CHECK-NEXT:  sm90.copy_paged %{{.*}} limit %{{.*}} to %[[S]] vector_bytes 16
// CHECK-NEXT:  %[[C:.*]] = arith.constant 512 : index
// CHECK-NEXT:  %[[COL:.*]] = arith.addi %{{.*}}, %[[C]]
// CHECK-NEXT:  %[[R:.*]] = sm90.load_paged %{{.*}}[%{{.*}} at %{{.*}}, %[[COL]]] limit %{{.*}} paired {{.*}} -> tensor<64x64xbf16
// CHECK-NEXT:  %[[V:.*]] = sm90.slice %[[S]][256] : <64x576xbf16> -> <64x256xbf16>
// CHECK:       sm90.wgmma %{{.*}}, %[[V]], %{{.*}} : !sm90.smem<64x64xbf16>, <64x256xbf16> -> tensor<64x256xf32
tile.kernel @both(%pool: memref<?xbf16>, %table: memref<?xi32>, %out: memref<?xf32>, %n: index,
                  %stride: index {tile.divisibility = 64 : i64}) {
  %c0 = arith.constant 0 : index
  %pv = memref.reinterpret_cast %pool to offset: [0], sizes: [%n, 64, 576], strides: [%stride, 576, 1]
      : memref<?xbf16> to memref<?x64x576xbf16, strided<[?, 576, 1]>>
  %ov = memref.reinterpret_cast %out to offset: [0], sizes: [%n, 256], strides: [256, 1]
      : memref<?xf32> to memref<?x256xf32, strided<[256, 1]>>
  %zero = arith.constant dense<0.0> : tensor<64x256xf32>
  %k = tile.load_paged %pv[%table at %c0, %c0] limit %n
      : memref<?x64x576xbf16, strided<[?, 576, 1]>>, memref<?xi32> -> tensor<64x576xbf16>
  %v = tensor.extract_slice %k[0, 256] [64, 256] [1, 1] : tensor<64x576xbf16> to tensor<64x256xbf16>
  %r = tensor.extract_slice %k[0, 512] [64, 64] [1, 1] : tensor<64x576xbf16> to tensor<64x64xbf16>
  %r2 = arith.addf %r, %r : tensor<64x64xbf16>
  %d = tile.dot %r2, %v, %zero : tensor<64x64xbf16>, tensor<64x256xbf16> -> tensor<64x256xf32>
  tile.store %d, %ov[%c0, %c0] : tensor<64x256xf32>, memref<?x256xf32, strided<[256, 1]>>
  tile.return
}

// -----

// Wide tiles are split over warpgroups; a reduction of one goes through shared
// memory, with barriers around for those who used it before and after.
// CHECK-LABEL: sm90.kernel @split_reduce
// CHECK-SAME:  warpgroups = 3 : i32
// CHECK:       %[[X:.*]] = sm90.load {{.*}} -> tensor<64x576xf32, #sm90.fragment<column_split = 3>>
// CHECK-NEXT:  %[[A:.*]] = sm90.alloc : <3x64xf32, linear>
// CHECK-NEXT:  sm90.reduce max %[[X]] scratch %[[A]]
// CHECK-NEXT:  sm90.barrier
// CHECK-NEXT:  %[[B:.*]] = sm90.alloc : <3x64xf32, linear>
// CHECK-NEXT:  sm90.reduce sum %[[X]] scratch %[[B]]
// CHECK:       sm90.store
// CHECK:       sm90.barrier
// CHECK-NEXT:  sm90.return
tile.kernel @split_reduce(%x: memref<?xf32>, %out: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 576], strides: [576, 1]
      : memref<?xf32> to memref<?x576xf32, strided<[576, 1]>>
  %t = tile.load %xv[%c0, %c0] : memref<?x576xf32, strided<[576, 1]>> -> tensor<64x576xf32>
  %m = tile.reduce max %t : tensor<64x576xf32> -> tensor<64xf32>
  %s = tile.reduce sum %t : tensor<64x576xf32> -> tensor<64xf32>
  %r = arith.addf %m, %s : tensor<64xf32>
  tile.store %r, %out[%c0] : tensor<64xf32>, memref<?xf32>
  tile.return
}

// -----

// Sums of a head's rows need no shared memory.
// CHECK-LABEL: sm90.kernel @groups
// CHECK-NOT:   sm90.alloc
// CHECK:       %[[ROWS:.*]] = sm90.reduce sum %{{.*}} -> tensor<64xf32, #sm90.rows>
// CHECK-NEXT:  sm90.sum_groups %[[ROWS]] of 4 : tensor<64xf32, #sm90.rows>
// CHECK-NOT:   sm90.alloc
// CHECK:       sm90.return
tile.kernel @groups(%x: memref<?xf32>, %out: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 32], strides: [32, 1]
      : memref<?xf32> to memref<?x32xf32, strided<[32, 1]>>
  %t = tile.load %xv[%c0, %c0] : memref<?x32xf32, strided<[32, 1]>> -> tensor<64x32xf32>
  %s = tile.reduce sum %t : tensor<64x32xf32> -> tensor<64xf32>
  %g = tile.sum_groups %s of 4 : tensor<64xf32>
  tile.store %g, %out[%c0] : tensor<64xf32>, memref<?xf32>
  tile.return
}

// -----

// A buffer that is loaded from and stored to: barriers around the store.
// CHECK-LABEL: sm90.kernel @in_place
// CHECK:       sm90.load
// CHECK:       sm90.barrier
// CHECK-NEXT:  sm90.store
// CHECK-NEXT:  sm90.barrier
// CHECK-NEXT:  sm90.return
tile.kernel @in_place(%x: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xf32> to memref<?x64xf32, strided<[64, 1]>>
  %t = tile.load %xv[%c0, %c0] : memref<?x64xf32, strided<[64, 1]>> -> tensor<64x64xf32>
  %u = arith.addf %t, %t : tensor<64x64xf32>
  tile.store %u, %xv[%c0, %c0] : tensor<64x64xf32>, memref<?x64xf32, strided<[64, 1]>>
  tile.return
}

// -----

// What is known of addresses decides the width: here offset % 4 = 0, an odd row
// stride, an odd column count, a column stride of 2, an unknown stride.
// CHECK-LABEL: sm90.kernel @widths
// CHECK: sm90.copy {{.*}} vector_bytes 8
// CHECK: sm90.copy {{.*}} vector_bytes 2
// CHECK: sm90.copy {{.*}} vector_bytes 4
// CHECK: sm90.copy {{.*}} vector_bytes 2
// CHECK: sm90.copy {{.*}} vector_bytes 2
// CHECK: sm90.load {{.*}}] : {{.*}}x65x
// CHECK: sm90.load {{.*}}] paired
tile.kernel @widths(%x: memref<?xbf16>, %out: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %o = arith.muli %n, %c4 : index
  %a = memref.reinterpret_cast %x to offset: [%o], sizes: [%n, 64], strides: [64, 1]
      : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1], offset: ?>>
  %b = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 65], strides: [65, 1]
      : memref<?xbf16> to memref<?x65xbf16, strided<[65, 1]>>
  %c = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 65], strides: [66, 1]
      : memref<?xbf16> to memref<?x65xbf16, strided<[66, 1]>>
  %d = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 64], strides: [128, 2]
      : memref<?xbf16> to memref<?x64xbf16, strided<[128, 2]>>
  %e = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 64], strides: [%n, 1]
      : memref<?xbf16> to memref<?x64xbf16, strided<[?, 1]>>
  %f = memref.reinterpret_cast %out to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xf32> to memref<?x64xf32, strided<[64, 1]>>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %ta = tile.load %a[%c0, %c0] : memref<?x64xbf16, strided<[64, 1], offset: ?>> -> tensor<64x64xbf16>
  %tb = tile.load %b[%c0, %c0] : memref<?x65xbf16, strided<[65, 1]>> -> tensor<64x64xbf16>
  %tc = tile.load %c[%c0, %c2] : memref<?x65xbf16, strided<[66, 1]>> -> tensor<64x64xbf16>
  %td = tile.load %d[%c0, %c0] : memref<?x64xbf16, strided<[128, 2]>> -> tensor<64x64xbf16>
  %te = tile.load %e[%c0, %c0] : memref<?x64xbf16, strided<[?, 1]>> -> tensor<64x64xbf16>
  %d0 = tile.dot %ta, %tb, %zero transpose_rhs : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
  %d1 = tile.dot %tc, %td, %d0 transpose_rhs : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
  %d2 = tile.dot %tc, %te, %d1 transpose_rhs : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
  %tg = tile.load %c[%c0, %c0] : memref<?x65xbf16, strided<[66, 1]>> -> tensor<64x64xbf16>
  %tf = tile.load %f[%c0, %c0] : memref<?x64xf32, strided<[64, 1]>> -> tensor<64x64xf32>
  %g = arith.extf %tg : tensor<64x64xbf16> to tensor<64x64xf32>
  %s0 = arith.addf %d2, %tf : tensor<64x64xf32>
  %s1 = arith.addf %s0, %g : tensor<64x64xf32>
  tile.store %s1, %f[%c0, %c0] : tensor<64x64xf32>, memref<?x64xf32, strided<[64, 1]>>
  tile.return
}

// -----

// Two arguments of one type may be the same memory; that matters once another
// warpgroup may load what this one stores.
// CHECK-LABEL: sm90.kernel @in_place_by_two_names
// CHECK-SAME:  warpgroups = 2 : i32
// CHECK:       sm90.load {{.*}} -> tensor<64x64xf32
// CHECK:       sm90.barrier
// CHECK-NEXT:  sm90.store
// CHECK-NEXT:  sm90.barrier
// CHECK:       sm90.barrier
// CHECK-NEXT:  sm90.store
// CHECK-NEXT:  sm90.barrier
// CHECK-NEXT:  sm90.return
tile.kernel @in_place_by_two_names(%x: memref<?xf32>, %y: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 512], strides: [512, 1]
      : memref<?xf32> to memref<?x512xf32, strided<[512, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [%n, 512], strides: [512, 1]
      : memref<?xf32> to memref<?x512xf32, strided<[512, 1]>>
  %t = tile.load %xv[%c0, %c0] : memref<?x512xf32, strided<[512, 1]>> -> tensor<64x512xf32>
  %u = tile.load %xv[%c0, %c0] : memref<?x512xf32, strided<[512, 1]>> -> tensor<64x64xf32>
  tile.store %t, %yv[%c0, %c0] : tensor<64x512xf32>, memref<?x512xf32, strided<[512, 1]>>
  tile.store %u, %yv[%c0, %c0] : tensor<64x64xf32>, memref<?x512xf32, strided<[512, 1]>>
  tile.return
}

// -----

// A dependent launch reads its metadata, and waits before it touches tiles, with all
// of its threads; the kernel before lets it begin.
// CHECK-LABEL: sm90.kernel @dependent
// CHECK:       memref.load
// CHECK:       %[[ANY:.*]] = arith.cmpi sgt
// CHECK-NEXT:  sm90.wait_dependency
// CHECK-NEXT:  scf.if %[[ANY]] {
// CHECK-NEXT:    sm90.load
// CHECK-NOT:   sm90.wait_dependency
tile.kernel @dependent(%items: memref<?xi32>, %x: memref<?xf32>, %y: memref<?xf32>)
    attributes {tile.waits_for_dependency} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i32
  %count = memref.load %items[%c0] : memref<?xi32>
  %any = arith.cmpi sgt, %count, %zero : i32
  scf.if %any {
    %t = tile.load %x[%c0] : memref<?xf32> -> tensor<64xf32>
    tile.store %t, %y[%c0] : tensor<64xf32>, memref<?xf32>
  }
  tile.return
}

// CHECK-LABEL: sm90.kernel @dependent_on_nothing
// CHECK-NEXT:  sm90.wait_dependency
// CHECK-NEXT:  sm90.return
tile.kernel @dependent_on_nothing(%n: index) attributes {tile.waits_for_dependency} {
  tile.return
}

// CHECK-LABEL: sm90.kernel @triggers
// CHECK-NEXT:  sm90.launch_dependents
tile.kernel @triggers(%n: index) attributes {tile.triggers_dependents} {
  tile.return
}

// -----

// Rows that are only moved: as many columns in a thread as every access allows.
// CHECK-LABEL: sm90.kernel @rows
// CHECK-SAME:  sm90.column_run = 8
tile.kernel @rows(%x: memref<?xbf16>, %out: memref<?xbf16>, %n: index) attributes {tile.row_kernel} {
  %c0 = arith.constant 0 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1]>>
  %ov = memref.reinterpret_cast %out to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1]>>
  %t = tile.load %xv[%c0, %c0] : memref<?x64xbf16, strided<[64, 1]>> -> tensor<64x64xbf16>
  tile.store %t, %ov[%c0, %c0] : tensor<64x64xbf16>, memref<?x64xbf16, strided<[64, 1]>>
  tile.return
}

// -----

// Rows of 4 elements' alignment.
// CHECK-LABEL: sm90.kernel @rows_of_four
// CHECK-SAME:  sm90.column_run = 4
tile.kernel @rows_of_four(%x: memref<?xbf16>, %out: memref<?xbf16>, %n: index) attributes {tile.row_kernel} {
  %c0 = arith.constant 0 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 60], strides: [60, 1]
      : memref<?xbf16> to memref<?x60xbf16, strided<[60, 1]>>
  %ov = memref.reinterpret_cast %out to offset: [0], sizes: [%n, 60], strides: [60, 1]
      : memref<?xbf16> to memref<?x60xbf16, strided<[60, 1]>>
  %t = tile.load %xv[%c0, %c0] : memref<?x60xbf16, strided<[60, 1]>> -> tensor<64x64xbf16>
  tile.store %t, %ov[%c0, %c0] : tensor<64x64xbf16>, memref<?x60xbf16, strided<[60, 1]>>
  tile.return
}

// -----

// A transposed store needs the fragment's own order; nobody asked in the second.
// CHECK-LABEL: sm90.kernel @transposed
// CHECK-SAME:  sm90.column_run = 2
tile.kernel @transposed(%x: memref<?xbf16>, %out: memref<?xbf16>, %n: index) attributes {tile.row_kernel} {
  %c0 = arith.constant 0 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1]>>
  %ov = memref.reinterpret_cast %out to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1]>>
  %t = tile.load %xv[%c0, %c0] : memref<?x64xbf16, strided<[64, 1]>> -> tensor<64x64xbf16>
  tile.store %t, %ov[%c0, %c0] transposed : tensor<64x64xbf16>, memref<?x64xbf16, strided<[64, 1]>>
  tile.return
}

// -----

// CHECK-LABEL: sm90.kernel @unmarked
// CHECK-NOT:   sm90.column_run
tile.kernel @unmarked(%x: memref<?xbf16>, %out: memref<?xbf16>, %n: index) {
  %c0 = arith.constant 0 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1]>>
  %ov = memref.reinterpret_cast %out to offset: [0], sizes: [%n, 64], strides: [64, 1]
      : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1]>>
  %t = tile.load %xv[%c0, %c0] : memref<?x64xbf16, strided<[64, 1]>> -> tensor<64x64xbf16>
  tile.store %t, %ov[%c0, %c0] : tensor<64x64xbf16>, memref<?x64xbf16, strided<[64, 1]>>
  tile.return
}
