// RUN: mla-opt %s | mla-opt | FileCheck %s
// RUN: mla-opt --mlir-print-op-generic %s | mla-opt | FileCheck %s

// Codes of a row in groups of 128 with a scale each, and all with one scale.

!codes = !sm90.smem<64x128xf8E4M3FN>
!operands = !sm90.smem<64x256xbf16>
!pool = memref<?x64x164xf32, strided<[10496, 164, 1]>>

// CHECK-LABEL: sm90.kernel @codes
sm90.kernel @codes(%p: memref<?xf32>, %table: memref<?xi32>, %n: index, %s: f32) attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %pool = memref.reinterpret_cast %p to offset: [0], sizes: [%n, 64, 164], strides: [10496, 164, 1]
      : memref<?xf32> to !pool
  %tile = sm90.alloc : !codes
  %target = sm90.alloc : !operands
  %queries = sm90.alloc : !sm90.smem<16x128xbf16>
  %view = memref.reinterpret_cast %p to offset: [0], sizes: [64, 128], strides: [128, 1]
      : memref<?xf32> to memref<64x128xf32, strided<[128, 1]>>
  %rope = sm90.alloc : !sm90.smem<64x64xf16>
  sm90.role "output" warpgroups 0 to 1 {
    // CHECK: %[[SCALES:.*]] = sm90.load_code_scales %{{.*}}[%{{.*}} at %{{.*}}, %{{.*}}] limit %{{.*}} : memref<{{.*}}>, memref<?xi32> -> tensor<64xf32, #sm90.rows>
    %scales = sm90.load_code_scales %pool[%table at %c0, %c0] limit %n : !pool, memref<?xi32> -> tensor<64xf32, #sm90.rows>
    // CHECK: sm90.transform_codes %{{.*}} by %[[SCALES]] to %{{.*}} column 128 : <64x128xf8E4M3FN>, tensor<64xf32, #sm90.rows>, <64x256xbf16>
    sm90.transform_codes %tile by %scales to %target column 128 : !codes, tensor<64xf32, #sm90.rows>, !operands
    // CHECK: sm90.transform_codes %{{.*}} by %{{.*}} to %{{.*}} column 0 : <64x128xf8E4M3FN>, f32, <64x64xf16>
    sm90.transform_codes %tile by %s to %rope column 0 : !codes, f32, !sm90.smem<64x64xf16>
    %scores = arith.constant dense<0.0> : tensor<64x16xf32, #sm90.fragment<column_split = 1>>
    %rest = sm90.alloc : !sm90.smem<4x256xf32, linear>
    // CHECK: sm90.park %{{.*}} to %[[REST:.*]] : tensor<64x16xf32, {{.*}}>, <4x256xf32, linear>
    sm90.park %scores to %rest : tensor<64x16xf32, #sm90.fragment<column_split = 1>>, !sm90.smem<4x256xf32, linear>
    // CHECK: sm90.unpark %[[REST]] : <4x256xf32, linear> -> tensor<64x16xf32
    %back = sm90.unpark %rest : !sm90.smem<4x256xf32, linear> -> tensor<64x16xf32, #sm90.fragment<column_split = 1>>

    // Words of four codes, 48 columns are three words of a thread: the fourth is 0.
    // CHECK: %[[WORDS:.*]] = sm90.load_code_words %{{.*}} column 64 columns 48 : <64x128xf8E4M3FN> -> tensor<64x16xi32, {{.*}}>
    %words = sm90.load_code_words %tile column 64 columns 48 : !codes -> tensor<64x16xi32, #sm90.fragment<column_split = 1>>
    // CHECK: sm90.scale_codes %[[WORDS]] by %[[SCALES]] : tensor<64x16xi32, {{.*}}>, tensor<64xf32, #sm90.rows> -> tensor<64x48xf16, {{.*}}>
    %keys = sm90.scale_codes %words by %scales : tensor<64x16xi32, #sm90.fragment<column_split = 1>>, tensor<64xf32, #sm90.rows> -> tensor<64x48xf16, #sm90.fragment<column_split = 1>>
    // CHECK: sm90.scale_codes %[[WORDS]] by %{{.*}} : tensor<64x16xi32, {{.*}}>, f32 -> tensor<64x64xf16, {{.*}}>
    %all = sm90.scale_codes %words by %s : tensor<64x16xi32, #sm90.fragment<column_split = 1>>, f32 -> tensor<64x64xf16, #sm90.fragment<column_split = 1>>
    // CHECK: sm90.order_runs %{{.*}} by %{{.*}} : <16x128xbf16> -> <16x128xf16>
    %ordered = sm90.order_runs %queries by %s : !sm90.smem<16x128xbf16> -> !sm90.smem<16x128xf16>
    // CHECK: sm90.store_runs %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] paired : tensor<64x16xf32, {{.*}}>, memref<64x128xf32, {{.*}}>
    sm90.store_runs %back, %view[%c0, %c0] paired : tensor<64x16xf32, #sm90.fragment<column_split = 1>>, memref<64x128xf32, strided<[128, 1]>>
    // CHECK: sm90.store_runs %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] transposed
    sm90.store_runs %back, %view[%c0, %c0] transposed : tensor<64x16xf32, #sm90.fragment<column_split = 1>>, memref<64x128xf32, strided<[128, 1]>>
    // CHECK: sm90.store_runs %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] transposed pairs
    sm90.store_runs %back, %view[%c0, %c0] transposed pairs : tensor<64x16xf32, #sm90.fragment<column_split = 1>>, memref<64x128xf32, strided<[128, 1]>>

    // Columns that become rows, of all 64 keys and of some.
    // CHECK: sm90.load_code_columns %{{.*}} column 64 : <64x128xf8E4M3FN> -> tensor<64x16xi32, {{.*}}>
    %columns = sm90.load_code_columns %tile column 64 : !codes -> tensor<64x16xi32, #sm90.fragment<column_split = 1>>
    // CHECK: sm90.load_code_columns %{{.*}} column 0 limit %{{.*}} : <64x128xf8E4M3FN> -> tensor<64x16xi32, {{.*}}>
    %some = sm90.load_code_columns %tile column 0 limit %c0 : !codes -> tensor<64x16xi32, #sm90.fragment<column_split = 1>>
  }
  sm90.return
}
