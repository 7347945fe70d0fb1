// RUN: mla-opt %s --verify-roundtrip | FileCheck %s

#fragment = #sm90.fragment<column_split = 1>
#halves = #sm90.fragment<column_split = 2>

// CHECK-LABEL: sm90.kernel @empty(%{{.*}}: memref<?xbf16>, %{{.*}}: index, %{{.*}}: f32) attributes {warpgroups = 1 : i32}
sm90.kernel @empty(%a: memref<?xbf16>, %n: index, %s: f32) attributes {warpgroups = 1 : i32} {
  sm90.return
}

// One tile of attention in the absorbed form: V is a slice of K.
// CHECK-LABEL: sm90.kernel @attention
// CHECK-SAME:  shared_bytes = 155648 : i64, warpgroups = 2 : i32
sm90.kernel @attention(%q: memref<?xbf16>, %pool: memref<?xbf16>, %table: memref<?xi32>,
                       %out: memref<?xf32>, %n: index)
    attributes {warpgroups = 2 : i32, shared_bytes = 155648 : i64} {
  %c0 = arith.constant 0 : index
  %pid = sm90.program_id 0
  %qv = memref.reinterpret_cast %q to offset: [0], sizes: [%n, 576], strides: [576, 1]
      : memref<?xbf16> to memref<?x576xbf16, strided<[576, 1]>>
  %kv = memref.reinterpret_cast %pool to offset: [0], sizes: [%n, 64, 576], strides: [36864, 576, 1]
      : memref<?xbf16> to memref<?x64x576xbf16, strided<[36864, 576, 1]>>
  // CHECK: sm90.alloc offset 0 : <64x576xbf16>
  %sq = sm90.alloc offset 0 : !sm90.smem<64x576xbf16>
  %sk = sm90.alloc offset 73728 : !sm90.smem<64x576xbf16>
  %sp = sm90.alloc offset 147456 : !sm90.smem<64x64xbf16>
  sm90.copy %qv[%pid, %c0] to %sq vector_bytes 16
      : memref<?x576xbf16, strided<[576, 1]>>, !sm90.smem<64x576xbf16>
  sm90.copy_paged %kv[%table at %c0, %c0] limit %n to %sk vector_bytes 8
      : memref<?x64x576xbf16, strided<[36864, 576, 1]>>, memref<?xi32>, !sm90.smem<64x576xbf16>
  sm90.copy_commit
  sm90.copy_wait 0
  sm90.proxy_fence
  sm90.barrier
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #fragment>
  sm90.wgmma_fence
  // CHECK: sm90.wgmma %{{.*}}, %{{.*}}, %{{.*}} transpose_rhs : !sm90.smem<64x576xbf16>, <64x576xbf16> -> tensor<64x64xf32, #sm90.fragment<column_split = 1>>
  %s0 = sm90.wgmma %sq, %sk, %zero transpose_rhs
      : !sm90.smem<64x576xbf16>, !sm90.smem<64x576xbf16> -> tensor<64x64xf32, #fragment>
  sm90.wgmma_commit
  %s = sm90.wgmma_wait 0, %s0 : tensor<64x64xf32, #fragment>
  // CHECK: sm90.reduce max %{{.*}} : tensor<64x64xf32, #sm90.fragment<column_split = 1>> -> tensor<64xf32, #sm90.rows>
  %m = sm90.reduce max %s : tensor<64x64xf32, #fragment> -> tensor<64xf32, #sm90.rows>
  %mb = sm90.broadcast %m : tensor<64xf32, #sm90.rows> -> tensor<64x64xf32, #fragment>
  // CHECK: sm90.take_columns %{{.*}}[32] : tensor<64x64xf32, #sm90.fragment<column_split = 1>> -> tensor<64x16xf32, #sm90.fragment<column_split = 1>>
  %some = sm90.take_columns %s[32] : tensor<64x64xf32, #fragment> -> tensor<64x16xf32, #fragment>
  %d = arith.subf %s, %mb : tensor<64x64xf32, #fragment>
  %p = math.exp2 %d : tensor<64x64xf32, #fragment>
  %p16 = arith.truncf %p : tensor<64x64xf32, #fragment> to tensor<64x64xbf16, #fragment>
  sm90.store_shared %p16, %sp : tensor<64x64xbf16, #fragment>, !sm90.smem<64x64xbf16>
  sm90.proxy_fence
  sm90.barrier
  // CHECK: sm90.slice %{{.*}}[0] : <64x576xbf16> -> <64x512xbf16>
  %sv = sm90.slice %sk[0] : !sm90.smem<64x576xbf16> -> !sm90.smem<64x512xbf16>
  %zero2 = arith.constant dense<0.0> : tensor<64x512xf32, #halves>
  sm90.wgmma_fence
  %o0 = sm90.wgmma %sp, %sv, %zero2
      : !sm90.smem<64x64xbf16>, !sm90.smem<64x512xbf16> -> tensor<64x512xf32, #halves>
  sm90.wgmma_commit
  %o = sm90.wgmma_wait 0, %o0 : tensor<64x512xf32, #halves>
  %ov = memref.reinterpret_cast %out to offset: [0], sizes: [%n, 512], strides: [512, 1]
      : memref<?xf32> to memref<?x512xf32, strided<[512, 1]>>
  sm90.store %o, %ov[%pid, %c0] paired : tensor<64x512xf32, #halves>, memref<?x512xf32, strided<[512, 1]>>
  sm90.barrier
  // CHECK: sm90.alloc : <2x64xf32, linear>
  %scratch = sm90.alloc : !sm90.smem<2x64xf32, linear>
  %norm = sm90.reduce sum %o scratch %scratch : !sm90.smem<2x64xf32, linear>
      : tensor<64x512xf32, #halves> -> tensor<64xf32, #sm90.rows>
  sm90.store %norm, %out[%c0] : tensor<64xf32, #sm90.rows>, memref<?xf32>
  sm90.return
}

// CHECK-LABEL: sm90.kernel @rows
sm90.kernel @rows(%x: memref<?xbf16>, %ids: memref<?xi64>, %slots: memref<?xi64>, %table: memref<?xi32>,
                  %n: index, %s: f32) attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 32], strides: [64, 2]
      : memref<?xbf16> to memref<?x32xbf16, strided<[64, 2]>>
  %pool = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 16, 64], strides: [1024, 64, 1]
      : memref<?xbf16> to memref<?x16x64xbf16, strided<[1024, 64, 1]>>
  // CHECK: sm90.load %{{.*}}[%{{.*}}, %{{.*}}] : memref<?x32xbf16, strided<[64, 2]>> -> tensor<64x32xbf16
  %a = sm90.load %v[%c0, %c0] : memref<?x32xbf16, strided<[64, 2]>> -> tensor<64x32xbf16, #fragment>
  %r = sm90.load %x[%c0] : memref<?xbf16> -> tensor<64xbf16, #sm90.rows>
  %b = sm90.load_rows %v[%ids at %c0, %c0]
      : memref<?x32xbf16, strided<[64, 2]>>, memref<?xi64> -> tensor<64x32xbf16, #fragment>
  // CHECK: sm90.load_paged %{{.*}}[%{{.*}} at %{{.*}}, %{{.*}}] limit %{{.*}} paired
  %c = sm90.load_paged %pool[%table at %c0, %c0] limit %n paired
      : memref<?x16x64xbf16, strided<[1024, 64, 1]>>, memref<?xi32> -> tensor<64x64xbf16, #fragment>
  sm90.store_slots %c, %pool[%slots at %c0, %c0] paired
      : tensor<64x64xbf16, #fragment>, memref<?x16x64xbf16, strided<[1024, 64, 1]>>, memref<?xi64>
  %e0 = sm90.iota 0 : tensor<64x32xi32, #fragment>
  // CHECK: sm90.load_pairs %{{.*}}[%{{.*}}, %{{.*}}] : memref<?x32xbf16, strided<[64, 2]>> -> tensor<64x32xbf16, #sm90.fragment<column_split = 1>>, tensor<64x32xbf16, #sm90.fragment<column_split = 1>>
  // CHECK: sm90.store_pairs %{{.*}}, %{{.*}} to %{{.*}}[%{{.*}}, %{{.*}}] : tensor<64x32xbf16, #sm90.fragment<column_split = 1>>, tensor<64x32xbf16, #sm90.fragment<column_split = 1>>, memref<?x32xbf16, strided<[64, 2]>>
  %first, %second = sm90.load_pairs %v[%c0, %c0]
      : memref<?x32xbf16, strided<[64, 2]>> -> tensor<64x32xbf16, #sm90.fragment<column_split = 1>>, tensor<64x32xbf16, #sm90.fragment<column_split = 1>>
  sm90.store_pairs %second, %first to %v[%c0, %c0]
      : tensor<64x32xbf16, #sm90.fragment<column_split = 1>>, tensor<64x32xbf16, #sm90.fragment<column_split = 1>>, memref<?x32xbf16, strided<[64, 2]>>

  // CHECK: sm90.load_elements %{{.*}}[%{{.*}}, %{{.*}}] : memref<?x32xbf16, strided<[64, 2]>>, tensor<64x32xi32, #sm90.fragment<column_split = 1>>, tensor<64x32xi32, #sm90.fragment<column_split = 1>> -> tensor<64x32xbf16, #sm90.fragment<column_split = 1>>
  %e1 = sm90.load_elements %v[%e0, %e0]
      : memref<?x32xbf16, strided<[64, 2]>>, tensor<64x32xi32, #fragment>, tensor<64x32xi32, #fragment>
        -> tensor<64x32xbf16, #fragment>
  // CHECK: sm90.has_gap %{{.*}}[%{{.*}} for 64] below %{{.*}} : memref<?xi32>
  %rows = arith.constant 7 : i32
  %gap = sm90.has_gap %table[%c0 for 64] below %rows : memref<?xi32>
  %t = sm90.alloc : !sm90.smem<64x32xbf16>
  sm90.copy_rows %v[%ids at %c0, %c0] to %t vector_bytes 2
      : memref<?x32xbf16, strided<[64, 2]>>, memref<?xi64>, !sm90.smem<64x32xbf16>
  %i = sm90.iota 1 : tensor<64x32xi32, #fragment>
  %f = sm90.splat %s : f32 -> tensor<64x32xf32, #fragment>
  sm90.return
}
