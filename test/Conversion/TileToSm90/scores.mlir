// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse --tile-plan-schedules --convert-tile-to-sm90 2>%t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARKS --input-file=%t.remarks
// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse --tile-plan-schedules=option=scores-stages=60 2>&1 >/dev/null | FileCheck %s --check-prefix=MANY

// An indexer's scores (B39): keys by TMA from one thread, products of codes and sums by one consumer.

// REMARKS: kernel 'index_scores_64x128': schedule scores scores-stages=8
// REMARKS: kernel 'index_scores_4x128': schedule simple: TMA cannot copy its keys
// MANY: schedule simple: 60 stages of 8192 bytes do not fit in shared memory

!keys = !mla.cache<page_size = 64, fields = [index: 128], element = bf16, format = "index_k">
!tiny = !mla.cache<page_size = 4, fields = [index: 128], element = bf16, format = "index_k">

// CHECK-LABEL: sm90.kernel @index_scores_64x128
// CHECK-SAME: warpgroups = 2
// CHECK-DAG: sm90.tensor_map %{{.*}} : memref<?x64x128xf8E4M3FN, {{.*}}> -> <64x128xf8E4M3FN>
// CHECK-DAG: sm90.tensor_map %{{.*}} : memref<?x128xf8E4M3FN, {{.*}}> -> <64x128xf8E4M3FN>
// CHECK-DAG: sm90.ring "keys" full_count 1 empty_count 4 : <stages = 8, parts = 1, tiles = [<64x128xf8E4M3FN>]>
// CHECK-DAG: sm90.ring "queries" full_count 1 empty_count 4 : <stages = 1, parts = 1, tiles = [<64x128xf8E4M3FN>]>
// CHECK: sm90.role "load" warpgroups 0 to 1 {
// CHECK: sm90.elect
// CHECK-COUNT-2: sm90.tma_load
// CHECK: sm90.role "math" warpgroups 1 to 2 {

// The stage is free as soon as the product is there; what follows is in registers.
// CHECK: scf.for
// CHECK: sm90.await
// CHECK: sm90.wgmma {{.*}} transpose_rhs : !sm90.smem<64x128xf8E4M3FN>, <64x128xf8E4M3FN> -> tensor<64x64xf32
// CHECK: sm90.wgmma_wait 0
// CHECK-NEXT: sm90.release
// CHECK: sm90.reduce sum
// CHECK: sm90.store
func.func @decode(%q: tensor<?x64x128xf8E4M3FN> {mla.input = "q"}, %w: tensor<?x64xf32> {mla.input = "w"},
                  %batch: !mla.batch<query_len = 1>, %keys: !keys) -> (tensor<?x?xf32> {mla.output = "scores"}) {
  %s = mla.index_scores query(%q : tensor<?x64x128xf8E4M3FN>) weights(%w : tensor<?x64xf32>) over %keys, %batch
      : !keys, !mla.batch<query_len = 1> -> tensor<?x?xf32>
  return %s : tensor<?x?xf32>
}

func.func @tiny_pages(%q: tensor<?x4x128xf8E4M3FN> {mla.input = "q"}, %w: tensor<?x4xf32> {mla.input = "w"},
                      %batch: !mla.batch<query_len = 1>, %keys: !tiny) -> (tensor<?x?xf32> {mla.output = "scores"}) {
  %s = mla.index_scores query(%q : tensor<?x4x128xf8E4M3FN>) weights(%w : tensor<?x4xf32>) over %keys, %batch
      : !tiny, !mla.batch<query_len = 1> -> tensor<?x?xf32>
  return %s : tensor<?x?xf32>
}
