// Absorbed attention in the kernels that every shape can have: queries (64x576) and keys
// (64x576) lie in shared memory, values are a view of the keys, both products are wgmma.
// DEFINE: %{pipeline} = builtin.module(convert-tile-to-sm90,canonicalize,cse,sm90.kernel(sm90-insert-proxy-fences,sm90-allocate-shared-memory))
// RUN: mla-opt %data/tile/absorbed_attention.mlir --pass-pipeline='%{pipeline}' | FileCheck %s

// CHECK: sm90.kernel @absorbed_attention{{.*}}shared_bytes = 155648 : i64, sm90.spill_bytes = 256 : i64, warpgroups = 2 : i32
// CHECK: scf.for
// CHECK: %[[K:.*]] = sm90.alloc offset 73728 : <64x576xbf16>
// CHECK: sm90.copy_paged {{.*}} to %[[K]] vector_bytes 16
// CHECK: sm90.copy_wait 0
// CHECK-NEXT: sm90.proxy_fence
// CHECK-NEXT: sm90.barrier
// CHECK: sm90.wgmma {{.*}} transpose_rhs : !sm90.smem<64x576xbf16>, <64x576xbf16> -> tensor<64x64xf32, #sm90.fragment<column_split = 1>>
// CHECK: sm90.barrier
// CHECK: sm90.store_shared
// CHECK: %[[V:.*]] = sm90.slice %[[K]][0] : <64x576xbf16> -> <64x512xbf16>
// CHECK: sm90.proxy_fence
// CHECK-NEXT: sm90.barrier
// CHECK: sm90.wgmma %{{.*}}, %[[V]], %{{.*}} -> tensor<64x512xf32, #sm90.fragment<column_split = 2>>
// CHECK: sm90.wgmma_wait
// CHECK-NEXT: sm90.barrier
// CHECK-NEXT: scf.yield
