// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --cse | FileCheck %s
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --cse | FileCheck %s

// Copies inside of the pool, to the host and from it are one kernel; 64 rows of 656 bytes
// are a row of 20992 words of 16 bits, whatever they hold.

!cache = !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16,
                    rope_order = interleaved, format = "fp8_ds_mla">
!codes = !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = bf16,
                    rope_order = half, format = "mla_fp8_tensor">

// CHECK-LABEL: tile.plan @copy_pages
// CHECK-DAG: %[[BYTES:.*]] = tile.dim "page_stride"
// CHECK-DAG: %[[POOL:.*]] = tile.buffer cache "cache" : memref<?xbf16>
// CHECK-DAG: %[[PAGES:.*]] = tile.dim "num_pages"
// CHECK: %[[STRIDE:.*]] = arith.divsi %[[BYTES]], %c2
// CHECK: tile.launch @[[KERNEL:copy_pages_[0-9]+]] {{.*}} args(%[[POOL]], %[[PAGES]], %[[STRIDE]], %[[POOL]], %[[PAGES]], %[[STRIDE]],
func.func @copy_pages(%batch: !mla.batch, %cache: !cache) -> !cache {
  %0 = mla.copy_pages %cache to %cache, %batch : !cache, !mla.batch
  return %0 : !cache
}

// CHECK-LABEL: tile.plan @swap_out
// CHECK: tile.buffer output "host" : memref<?xbf16>
// CHECK: tile.launch @[[KERNEL]] {{.*}} %c20992
func.func @swap_out(%batch: !mla.batch, %cache: !cache, %host: !cache {mla.output = "host"}) -> !cache {
  %0 = mla.copy_pages %cache to %host, %batch : !cache, !mla.batch
  return %0 : !cache
}

// CHECK-LABEL: tile.plan @swap_in
// CHECK: %[[HOST:.*]] = tile.buffer input "host" : memref<?xbf16>
// CHECK: tile.launch @[[KERNEL]] {{.*}} args(%[[HOST]], %{{.*}}, %c20992
func.func @swap_in(%batch: !mla.batch, %cache: !cache, %host: !cache {mla.input = "host"}) -> !cache {
  %0 = mla.copy_pages %host to %cache, %batch : !cache, !mla.batch
  return %0 : !cache
}

// A format of one type is moved as that.
// CHECK-LABEL: tile.plan @codes
// CHECK: tile.launch @[[CODES:copy_pages_[0-9]+]] {{.*}} memref<?xf8E4M3FN>
func.func @codes(%batch: !mla.batch, %cache: !codes) -> !codes {
  %0 = mla.copy_pages %cache to %cache, %batch : !codes, !mla.batch
  return %0 : !codes
}

// CHECK: tile.kernel @[[KERNEL]](%[[FROM:.*]]: memref<?xbf16>, %[[N:.*]]: index, %[[S:.*]]: index {tile.divisibility = 8 : i64}, %[[TO:[a-z0-9]+]]: memref<?xbf16>
// CHECK-SAME: tile.row_kernel
// CHECK: %[[SOURCE:.*]] = memref.reinterpret_cast %[[FROM]] to offset: [0], sizes: [%[[N]], 1, 20992], strides: [%[[S]], 20992, 1]
// CHECK: %[[TARGET:.*]] = memref.reinterpret_cast %[[TO]]
// CHECK: %[[ROWS:.*]] = tile.load_paged %[[SOURCE]]
// CHECK-NEXT: tile.store_slots %[[ROWS]], %[[TARGET]]
// CHECK: tile.kernel @[[CODES]]
// CHECK-SAME: tile.divisibility = 16 : i64
