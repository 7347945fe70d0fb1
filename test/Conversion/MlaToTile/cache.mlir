// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --cse | FileCheck %s
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --cse | FileCheck %s

// A21, A30. Latent 40 and rope 8 wide: padded tiles never touch the neighbour's
// columns, because each part has its own view of the pool.

!cache = !mla.cache<page_size = 16, fields = [latent: 40, rope: 8],
                    element = bf16, rope_order = half>
!bare = !mla.cache<page_size = 1, fields = [latent: 40],
                   element = f32, rope_order = half>

// CHECK-LABEL: tile.plan @append_A21
// CHECK: %[[CACHE:.*]] = tile.buffer cache "cache" : memref<?xbf16>
// CHECK: tile.launch @[[APPEND:append[_0-9]*]] {{.*}} args(%[[CACHE]], %{{.*}}) : memref<?xbf16>, index, index, memref<?xi64>, index, memref<?xbf16>, memref<?xbf16>
func.func @append_A21(%latent: tensor<?x40xbf16> {mla.input = "latent"},
                  %k_pe: tensor<?x8xbf16> {mla.input = "k_pe"}, %batch: !mla.batch,
                  %cache: !cache) -> !cache {
  %new = mla.append %latent, %k_pe into %cache, %batch
      : tensor<?x40xbf16>, tensor<?x8xbf16>
      into <page_size = 16, fields = [latent: 40, rope: 8], element = bf16, rope_order = half>, <query_len = ?>
  return %new : !cache
}

// No rope columns: one part.
// CHECK-LABEL: tile.plan @append_latent_only
// CHECK: tile.launch @[[LATENT_ONLY:append[_0-9]*]] {{.*}} : memref<?xf32>, index, index, memref<?xi64>, index, memref<?xf32>
func.func @append_latent_only(%latent: tensor<?x40xf32> {mla.input = "latent"},
                              %batch: !mla.batch, %cache: !bare) -> !bare {
  %new = mla.append %latent into %cache, %batch : tensor<?x40xf32>
      into <page_size = 1, fields = [latent: 40], element = f32, rope_order = half>, <query_len = ?>
  return %new : !bare
}

// CHECK-LABEL: tile.plan @gather_A30
// CHECK: tile.launch @[[GATHER:gather[_0-9]*]] grid(%{{.*}}, %[[REQUESTS:.*]], %c2{{.*}})
func.func @gather_A30(%batch: !mla.batch, %cache: !cache)
    -> (tensor<?x40xbf16> {mla.output = "latent"}, tensor<?x8xbf16> {mla.output = "k_pe"}) {
  %chunk = arith.constant 2 : index
  %latent, %k_pe = mla.gather %cache, %batch chunk %chunk
      : <page_size = 16, fields = [latent: 40, rope: 8], element = bf16, rope_order = half>, <query_len = ?>
      -> tensor<?x40xbf16>, tensor<?x8xbf16>
  return %latent, %k_pe : tensor<?x40xbf16>, tensor<?x8xbf16>
}

// CHECK: tile.kernel @[[APPEND]](
// CHECK-SAME: %[[POOL:.*]]: memref<?xbf16>, %[[PAGES:.*]]: index, %[[STRIDE:.*]]: index {tile.divisibility = 8 : i64}, %[[SLOTS:.*]]: memref<?xi64>
// CHECK: %[[LATENT:.*]] = memref.reinterpret_cast %[[POOL]] to offset: [0], sizes: [%[[PAGES]], 16, 40], strides: [%[[STRIDE]], 48, 1]
// CHECK: %[[ROPE:.*]] = memref.reinterpret_cast %[[POOL]] to offset: [40], sizes: [%[[PAGES]], 16, 8], strides: [%[[STRIDE]], 48, 1]
// One program for each block of columns: the latent has one.
// CHECK: %[[IS_LATENT:.*]] = arith.cmpi slt, %{{.*}}, %c1
// CHECK: scf.if %[[IS_LATENT]]
// CHECK: tile.store_slots %{{.*}}, %[[LATENT]]
// CHECK: } else {
// CHECK: tile.store_slots %{{.*}}, %[[ROPE]]

// CHECK: tile.kernel @[[LATENT_ONLY]](
// CHECK-SAME: {tile.divisibility = 4 : i64}

// Rows of a request: its range of chunk_cu_seq_lens, loaded from token
// chunk · capacity on; nothing is read at or above the range's end.
// CHECK: tile.kernel @[[GATHER]](
// CHECK: %[[BEGIN_I32:.*]] = memref.load
// CHECK: %[[BEGIN:.*]] = arith.index_cast %[[BEGIN_I32]]
// CHECK: memref.load
// CHECK: %[[COUNT:.*]] = arith.subi %{{.*}}, %[[BEGIN]]
// CHECK: %[[HAS_ROWS:.*]] = arith.cmpi slt, %{{.*}}, %[[COUNT]]
// CHECK: scf.if %[[HAS_ROWS]]
// CHECK: scf.if
// CHECK: %[[OUT:.*]] = arith.muli %[[BEGIN]], %c40
// CHECK: memref.reinterpret_cast %{{.*}} to offset: [%[[OUT]]], sizes: [%[[COUNT]], 40], strides: [40, 1]
// CHECK: %[[LIMIT:.*]] = arith.addi %{{.*}}, %[[COUNT]]
// CHECK: tile.load_paged %{{.*}} limit %[[LIMIT]]
// CHECK: tile.store
