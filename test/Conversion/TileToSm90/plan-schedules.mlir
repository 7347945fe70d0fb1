// RUN: mla-opt %s --tile-plan-schedules --split-input-file --verify-diagnostics | FileCheck %s
// RUN: mla-opt %s --pass-pipeline='builtin.module(tile-plan-schedules{batch-invariant=0})' --split-input-file 2>/dev/null | FileCheck %s --check-prefix=FIXED
// RUN: mla-opt %s --pass-pipeline='builtin.module(tile-plan-schedules{batch-invariant=40})' --split-input-file 2>/dev/null | FileCheck %s --check-prefix=FORTY

// 128 rows, rank 512 and rope 64, launched by the decode plan: the parameters that
// were measured. What pieces cost goes to the plan's tile.work.

// CHECK-LABEL: tile.plan @decode
// CHECK: tile.work keys_per_block 64 rows_per_token 128 rows_per_tile 64 item_cost 3.050000e+00 merge_cost 1.720000e+00
// FIXED: tile.work {{.*}} fixed_blocks 16
// FORTY: tile.work {{.*}} fixed_blocks 40
tile.plan @decode max_query_len 1 {
  tile.work keys_per_block 64 rows_per_token 128 rows_per_tile 64 item_cost 5.0 merge_cost 2.0
  %pool = tile.buffer cache "cache" : memref<?xbf16>
  %table = tile.buffer metadata "block_table" : memref<?xi32>
  %q = tile.buffer input "q" : memref<?xbf16>
  %o = tile.buffer output "o" : memref<?xf32>
  %n = tile.dim "num_pages"
  %c2 = arith.constant 2 : index
  %c1 = arith.constant 1 : index
  tile.launch @attention grid(%c2, %n, %c1) args(%pool, %table, %q, %o, %n)
      : memref<?xbf16>, memref<?xi32>, memref<?xbf16>, memref<?xf32>, index
  tile.return
}

// CHECK-LABEL: tile.kernel @attention
// CHECK-SAME: tile.schedule = #tile.relay<left_stages = 3, right_stages = 2, rope_stages = 2, early = 2, score_registers = 168, output_registers = 168, lazy_threshold = 8.000000e+00>
// expected-remark @below {{schedule relay left-stages=3 right-stages=2 rope-stages=2 gate=left early=2 issue=after-exp registers=168/168/168 lazy-threshold=8 (1.53 us per block and SM, bound by the roles' recurrence; item 7459 cycles; 231424 bytes of shared memory); predicted with 4096 keys: batch 1 12.4 us, batch 16 36.5 us, batch 128 205.6 us; not simple: 4.93 us, bound by the roles' recurrence; not stream: how many rows a request has is not known when compiling}}
tile.kernel @attention(%pool: memref<?xbf16>, %table: memref<?xi32>, %q: memref<?xbf16>,
                       %out: memref<?xf32>, %len: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c512 = arith.constant 512 : index
  %pv = memref.reinterpret_cast %pool to offset: [0], sizes: [%len, 64, 512], strides: [36864, 576, 1]
      : memref<?xbf16> to memref<?x64x512xbf16, strided<[36864, 576, 1]>>
  %rv = memref.reinterpret_cast %pool to offset: [512], sizes: [%len, 64, 64], strides: [36864, 576, 1]
      : memref<?xbf16> to memref<?x64x64xbf16, strided<[36864, 576, 1], offset: 512>>
  %qv = memref.reinterpret_cast %q to offset: [0], sizes: [64, 576], strides: [576, 1]
      : memref<?xbf16> to memref<64x576xbf16, strided<[576, 1]>>
  %ov = memref.reinterpret_cast %out to offset: [0], sizes: [64, 512], strides: [512, 1]
      : memref<?xf32> to memref<64x512xf32, strided<[512, 1]>>
  scf.for %item = %c0 to %len step %c1 {
    %ql = tile.load %qv[%item, %c0] : memref<64x576xbf16, strided<[576, 1]>> -> tensor<64x512xbf16>
    %qr = tile.load %qv[%item, %c512] : memref<64x576xbf16, strided<[576, 1]>> -> tensor<64x64xbf16>
    %m, %l, %o = tile.attend queries(%ql, %qr : tensor<64x512xbf16>, tensor<64x64xbf16>)
        keys(%pv, %rv : memref<?x64x512xbf16, strided<[36864, 576, 1]>>,
             memref<?x64x64xbf16, strided<[36864, 576, 1], offset: 512>>)
        pages(%table : memref<?xi32>) range %c0 to %len limit %len
        {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x512xf32>
    tile.store %o, %ov[%item, %c0] : tensor<64x512xf32>, memref<64x512xf32, strided<[512, 1]>>
  }
  tile.return
}

// -----

// At most 16 rows, rank 512 without rope, page size 64: keys go on M.

// CHECK-LABEL: tile.kernel @few_rows
// CHECK-SAME: tile.schedule = #tile.stream<stages = 2, lazy_threshold = 8.000000e+00>
// expected-remark @below {{schedule stream}}
tile.kernel @few_rows(%pool: memref<?xbf16>, %table: memref<?xi32>, %q: memref<?xbf16>,
                      %out: memref<?xf32>, %len: index) attributes {tile.max_rows = 16 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %pv = memref.reinterpret_cast %pool to offset: [0], sizes: [%len, 64, 512], strides: [32768, 512, 1]
      : memref<?xbf16> to memref<?x64x512xbf16, strided<[32768, 512, 1]>>
  %qv = memref.reinterpret_cast %q to offset: [0], sizes: [16, 512], strides: [512, 1]
      : memref<?xbf16> to memref<16x512xbf16, strided<[512, 1]>>
  scf.for %item = %c0 to %len step %c1 {
    %query = tile.load %qv[%item, %c0] : memref<16x512xbf16, strided<[512, 1]>> -> tensor<64x512xbf16>
    %m, %l, %o = tile.attend queries(%query : tensor<64x512xbf16>)
        keys(%pv : memref<?x64x512xbf16, strided<[32768, 512, 1]>>)
        pages(%table : memref<?xi32>) range %c0 to %len limit %len
        {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x512xf32>
  }
  tile.return
}

// -----

// What the schedule itself cannot take is out: these queries have a stride that
// TMA cannot copy.

// CHECK-LABEL: tile.kernel @strided
// CHECK-SAME: tile.schedule = #tile.simple
// expected-remark @below {{not relay: TMA cannot copy its queries}}
tile.kernel @strided(%pool: memref<?xbf16>, %table: memref<?xi32>, %q: memref<?xbf16>,
                      %out: memref<?xf32>, %len: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %pv = memref.reinterpret_cast %pool to offset: [0], sizes: [%len, 64, 512], strides: [32768, 512, 1]
      : memref<?xbf16> to memref<?x64x512xbf16, strided<[32768, 512, 1]>>
  %qv = memref.reinterpret_cast %q to offset: [0], sizes: [16, 512], strides: [1024, 2]
      : memref<?xbf16> to memref<16x512xbf16, strided<[1024, 2]>>
  scf.for %item = %c0 to %len step %c1 {
    %query = tile.load %qv[%item, %c0] : memref<16x512xbf16, strided<[1024, 2]>> -> tensor<64x512xbf16>
    %m, %l, %o = tile.attend queries(%query : tensor<64x512xbf16>)
        keys(%pv : memref<?x64x512xbf16, strided<[32768, 512, 1]>>)
        pages(%table : memref<?xi32>) range %c0 to %len limit %len
        {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x512xf32>
  }
  tile.return
}

// -----

// Attention that no loop over items stands around keeps the schedule that is always right.

// CHECK-LABEL: tile.kernel @no_items
// CHECK-NOT: tile.schedule
// expected-remark @below {{schedule simple: no loop over work items around the loop over keys}}
tile.kernel @no_items(%pool: memref<?xbf16>, %table: memref<?xi32>, %q: memref<?xbf16>, %len: index) {
  %c0 = arith.constant 0 : index
  %pv = memref.reinterpret_cast %pool to offset: [0], sizes: [%len, 64, 128], strides: [8192, 128, 1]
      : memref<?xbf16> to memref<?x64x128xbf16, strided<[8192, 128, 1]>>
  %qv = memref.reinterpret_cast %q to offset: [0], sizes: [64, 128], strides: [128, 1]
      : memref<?xbf16> to memref<64x128xbf16, strided<[128, 1]>>
  %query = tile.load %qv[%c0, %c0] : memref<64x128xbf16, strided<[128, 1]>> -> tensor<64x128xbf16>
  %m, %l, %o = tile.attend queries(%query : tensor<64x128xbf16>)
      keys(%pv : memref<?x64x128xbf16, strided<[8192, 128, 1]>>)
      pages(%table : memref<?xi32>) range %c0 to %len limit %len
      {block = 64 : i64, scale = 0.1 : f64, unit = 1 : i64} -> tensor<64x128xf32>
  tile.return
}

// -----

// A gather is no attention; a schedule that is written stays.

// CHECK-LABEL: tile.kernel @gather
// CHECK-NOT: tile.schedule
tile.kernel @gather(%pool: memref<?xbf16>, %table: memref<?xi32>, %out: memref<?xbf16>, %len: index) {
  %c0 = arith.constant 0 : index
  %pv = memref.reinterpret_cast %pool to offset: [0], sizes: [%len, 64, 128], strides: [8192, 128, 1]
      : memref<?xbf16> to memref<?x64x128xbf16, strided<[8192, 128, 1]>>
  %ov = memref.reinterpret_cast %out to offset: [0], sizes: [%len, 128], strides: [128, 1]
      : memref<?xbf16> to memref<?x128xbf16, strided<[128, 1]>>
  %k = tile.load_paged %pv[%table at %c0, %c0] limit %len
      : memref<?x64x128xbf16, strided<[8192, 128, 1]>>, memref<?xi32> -> tensor<64x128xbf16>
  tile.store %k, %ov[%c0, %c0] : tensor<64x128xbf16>, memref<?x128xbf16, strided<[128, 1]>>
  tile.return
}

// CHECK-LABEL: tile.kernel @written
// CHECK-SAME: tile.schedule = #tile.simple
tile.kernel @written(%pool: memref<?xbf16>, %table: memref<?xi32>, %len: index)
    attributes {tile.schedule = #tile.simple} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %pv = memref.reinterpret_cast %pool to offset: [0], sizes: [%len, 64, 128], strides: [8192, 128, 1]
      : memref<?xbf16> to memref<?x64x128xbf16, strided<[8192, 128, 1]>>
  %k = tile.load_paged %pv[%table at %c0, %c0] limit %len
      : memref<?x64x128xbf16, strided<[8192, 128, 1]>>, memref<?xi32> -> tensor<64x128xbf16>
  %s = tile.dot %k, %k, %zero transpose_rhs : tensor<64x128xbf16>, tensor<64x128xbf16> -> tensor<64x64xf32>
  tile.return
}
