// The representative kernels go through tile -> sm90 -> fences -> allocation; the
// order of shared-memory accesses is checked by sm90-insert-proxy-fences.
// DEFINE: %{pipeline} = builtin.module(convert-tile-to-sm90,canonicalize,cse,sm90.kernel(sm90-insert-proxy-fences,sm90-allocate-shared-memory))
// RUN: mla-opt %data/tile/linear.mlir --pass-pipeline='%{pipeline}' | FileCheck %s --check-prefix=LINEAR
// RUN: mla-opt %data/tile/rms_norm.mlir --pass-pipeline='%{pipeline}' | FileCheck %s --check-prefix=NORM
// RUN: mla-opt %data/tile/rope.mlir --pass-pipeline='%{pipeline}' | FileCheck %s --check-prefix=ROPE
// RUN: mla-opt %data/tile/expanded_attention.mlir --pass-pipeline='%{pipeline}' | FileCheck %s --check-prefix=EXPANDED
// RUN: mla-opt %data/tile/merge.mlir --pass-pipeline='%{pipeline}' | FileCheck %s --check-prefix=MERGE
// RUN: mla-opt %data/tile/append.mlir --pass-pipeline='%{pipeline}' | FileCheck %s --check-prefix=APPEND
// RUN: mla-opt %data/tile/gather.mlir --pass-pipeline='%{pipeline}' | FileCheck %s --check-prefix=GATHER

// 64x64 and 128x64 bf16.
// LINEAR: sm90.kernel @linear{{.*}}shared_bytes = 24576 : i64, warpgroups = 1 : i32
// LINEAR: sm90.copy {{.*}} vector_bytes 16

// NORM: sm90.kernel @rms_norm{{.*}}shared_bytes = 0 : i64, warpgroups = 1 : i32
// NORM-NOT: sm90.barrier

// ROPE: sm90.kernel @rope{{.*}}shared_bytes = 0 : i64, warpgroups = 1 : i32
// ROPE: sm90.load_pairs {{.*}} strided<[96, 2], offset: 64>> -> tensor<64x16xbf16{{.*}}, tensor<64x16xbf16
// ROPE: sm90.load_rows {{.*}} paired

// EXPANDED: sm90.kernel @expanded_attention{{.*}}shared_bytes = 65536 : i64, sm90.spill_bytes = 256 : i64, warpgroups = 1 : i32
// EXPANDED: %[[Q:.*]] = sm90.alloc offset 0 : <64x192xbf16>
// EXPANDED: sm90.slice %[[Q]][0] : <64x192xbf16> -> <64x128xbf16>
// EXPANDED: sm90.slice %[[Q]][128] : <64x192xbf16> -> <64x64xbf16>
// The probabilities take the bytes of the nope keys, which are dead by then.
// EXPANDED: %[[K:.*]] = sm90.alloc offset 24576 : <64x128xbf16>
// EXPANDED: sm90.alloc offset 24576 : <64x64xbf16>

// MERGE: sm90.kernel @merge{{.*}}shared_bytes = 0 : i64, warpgroups = 2 : i32
// MERGE: sm90.load {{.*}} paired {{.*}} -> tensor<64x512xf32, #sm90.fragment<column_split = 2>>

// APPEND: sm90.kernel @append{{.*}} warpgroups = 2 : i32
// APPEND: sm90.store_slots {{.*}} paired
// APPEND: sm90.store_slots {{.*}} paired

// GATHER: sm90.kernel @gather{{.*}} warpgroups = 3 : i32
// GATHER: sm90.load_paged {{.*}} paired {{.*}} -> tensor<64x576xbf16, #sm90.fragment<column_split = 3>>
