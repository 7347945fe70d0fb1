// Heads whose keys and values are codes: two consumers take blocks in turns, each with queries of its own. Codes
// go to registers, keys in runs of four columns, values transposed, and are operands there; at the end the second gives its state
// to the first.
// RUN: mla-opt %s --mla-lower-to-tile=target=sm90 --tile-plan-schedules --tile-swap-operands --convert-tile-to-sm90 2>/dev/null | FileCheck %s
// RUN: sed 's/8x128, value: 8x128/8x256, value: 8x256/; s/x32x128x/x256x256x/g' %s | mla-opt --mla-lower-to-tile=target=sm90 --tile-plan-schedules --tile-swap-operands --convert-tile-to-sm90 2>/dev/null | FileCheck %s --check-prefix=WIDE
// RUN: sed 's/query_len = 1/query_len = ?/g' %s | mla-opt --mla-lower-to-tile=target=sm90 --tile-plan-schedules --tile-swap-operands --convert-tile-to-sm90 2>/dev/null | FileCheck %s --check-prefix=MANY

// RUN: sed 's/8x128, value: 8x128/8x64, value: 8x64/; s/x32x128x/x32x64x/g; s/page_size = 64/page_size = 16/' %s | mla-opt --mla-lower-to-tile=target=sm90 --tile-plan-schedules --tile-swap-operands --convert-tile-to-sm90 2>/dev/null | FileCheck %s --check-prefix=NARROW

// Where the number of queries is not known, up to 16, 32 and 48 rows have two consumers, more one.
// MANY-COUNT-3: sm90.kernel @grouped_attention{{.*}}warpgroups = 3
// MANY: sm90.kernel @grouped_attention
// MANY-SAME: sm90.spill_bytes = 96
// MANY-SAME: warpgroups = 2

// CHECK: sm90.kernel @grouped_attention
// CHECK-SAME: warpgroups = 3
// CHECK: %[[KEYS:.*]] = sm90.ring "keys" full_count 1 empty_count 4 : <stages = 4, parts = 2, tiles = [<64x128xf8E4M3FN>, <64x128xf8E4M3FN>]>
// CHECK: %[[QUERIES:.*]] = sm90.ring "queries" full_count 1 empty_count 8 : <stages = 2, parts = 1, tiles = [<8x128xbf16>, <8x128xbf16>]>
// CHECK: %[[STATE:.*]] = sm90.ring "state 1" full_count 4 empty_count 4 : <stages = 4, parts = 1, tiles = [<4x128xf32, linear>]>
// Nothing that codes become has a place in shared memory.
// CHECK-NOT: sm90.alloc : <64x

// Registers as the launch gives: one of the next kernel has room beside it. The queries twice.
// CHECK: sm90.role "load" warpgroups 0 to 1 {
// CHECK: sm90.expect %[[QUERIES]]{{.*}} bytes 4096
// CHECK-COUNT-4: sm90.tma_load

// CHECK: sm90.role "math" warpgroups 1 to 2 {
// CHECK: %[[KEYSCALE:.*]] = memref.load %[[SCALES:.*]][%{{.*}}] : memref<?xf32>
// CHECK: %[[VALUESCALE:.*]] = memref.load %[[SCALES]][%{{.*}}] : memref<?xf32>
// CHECK: sm90.stage_tile %[[QUERIES]][%{{.*}}] tile 0
// CHECK: sm90.order_runs %{{.*}} by %[[KEYSCALE]] : <8x128xbf16> -> <8x128xf16>
// Every second block.
// CHECK: %[[STEP:.*]] = arith.muli %{{.*}}, %c2
// CHECK: scf.for %{{.*}} step %[[STEP]]
// CHECK: sm90.await %[[KEYS]]{{.*}} part 0
// CHECK: %[[WORDS:.*]] = sm90.load_code_words %{{.*}} column 0 columns 64 : <64x128xf8E4M3FN>
// CHECK: sm90.load_code_words %{{.*}} column 64 columns 64
// CHECK: sm90.await %[[KEYS]]{{.*}} part 1
// Rows behind the request's end are hidden where there are some.
// CHECK: %[[VALUES:.*]]:2 = scf.if
// CHECK: sm90.load_code_columns %{{.*}} column 0 limit %{{.*}} : <64x128xf8E4M3FN>
// CHECK: sm90.load_code_columns %{{.*}} column 64 limit
// CHECK: } else {
// CHECK: sm90.load_code_columns %{{.*}} column 0 : <64x128xf8E4M3FN>
// CHECK: sm90.load_code_columns %{{.*}} column 64 :
// CHECK: %[[OPERAND:.*]] = sm90.scale_codes %[[WORDS]] by
// CHECK: sm90.wgmma %[[OPERAND]], %{{.*}} transpose_rhs : tensor<64x64xf16, {{.*}}>, <8x64xf16>
// CHECK: sm90.wgmma_commit
// Under the product.
// CHECK: sm90.release %[[KEYS]]
// CHECK: %[[FIRST:.*]] = sm90.scale_codes %[[VALUES]]#0
// CHECK: %[[SECOND:.*]] = sm90.scale_codes %[[VALUES]]#1
// CHECK: sm90.wgmma_wait 0
// CHECK: sm90.reduce max
// CHECK: sm90.store_shared %{{.*}} transposed : tensor<64x8xf16
// CHECK: sm90.barrier
// CHECK: sm90.wgmma %[[FIRST]], %{{.*}} transpose_rhs
// CHECK: sm90.wgmma %[[SECOND]], %{{.*}} transpose_rhs
// CHECK: scf.yield
// CHECK: sm90.await %[[STATE]]
// CHECK: sm90.unpark
// CHECK: sm90.release %[[STATE]]
// CHECK: sm90.reduce max
// CHECK-COUNT-3: sm90.unpark
// CHECK-NOT: sm90.unpark
// CHECK: sm90.splat %[[VALUESCALE]] : f32 -> tensor<64x8xf32
// CHECK: sm90.store_runs {{.*}} transposed pairs

// CHECK: sm90.role "math1" warpgroups 2 to 3 {
// CHECK: sm90.stage_tile %[[QUERIES]][%{{.*}}] tile 1
// From nothing, whatever the first one starts from.
// CHECK: scf.for
// CHECK: scf.yield
// CHECK: sm90.acquire %[[STATE]]
// CHECK: sm90.park
// CHECK-NEXT: sm90.publish %[[STATE]]
// CHECK-COUNT-3: sm90.park
// CHECK-NOT: sm90.store
// CHECK: sm90.return

// 32 rows of 256 columns: a block does not fit into registers at once, of which the consumers take all there are. Two of the
// keys' operands do.
// WIDE: sm90.kernel @grouped_attention
// WIDE-SAME: sm90.spill_bytes = 96
// WIDE: sm90.role "load" warpgroups 0 to 1 registers 40 {
// WIDE: sm90.role "math" warpgroups 1 to 2 registers 232 {
// WIDE: scf.for
// WIDE: sm90.await
// WIDE-NOT: sm90.load_code_columns
// WIDE: sm90.wgmma_commit
// WIDE: sm90.wgmma_commit
// WIDE-NEXT: sm90.wgmma_wait 1
// WIDE: sm90.wgmma_wait 0
// WIDE: sm90.load_code_columns
// WIDE-COUNT-4: sm90.wgmma %
// WIDE: sm90.wgmma_wait 0
// WIDE-NEXT: sm90.release

// Heads of half a panel: boxes have their columns alone, of a page each. A box's bytes are awaited, not those
// of its rows in shared memory.
// NARROW: sm90.tensor_map %{{.*}} : memref<?x16x512xf8E4M3FN, {{.*}}> -> <16x64xf8E4M3FN>
// NARROW: sm90.ring "keys" full_count 1 empty_count 4 : <stages = 8, parts = 2, tiles = [<64x64xf8E4M3FN>, <64x64xf8E4M3FN>]>
// NARROW: sm90.role "load"
// NARROW: %[[COLUMN:.*]] = arith.muli %{{.*}}, %c64_{{[0-9]+}} : index
// NARROW: sm90.expect %{{.*}} part 0 bytes 4096
// NARROW-COUNT-4: sm90.tma_load %{{.*}}[%{{.*}}, %{{.*}}, %[[COLUMN]]] to %{{.*}} part 0
// NARROW: sm90.expect %{{.*}} part 1 bytes 4096
// NARROW-NOT: sm90.copy_paged
// NARROW: sm90.role "math"

!keys = !mla.cache<page_size = 64, fields = [key: 8x128, value: 8x128], element = bf16, format = "kv_nhd_fp8">
func.func @decode(%q: tensor<?x32x128xbf16> {mla.input = "q"}, %batch: !mla.batch<query_len = 1>, %keys: !keys)
    -> (tensor<?x32x128xbf16> {mla.output = "output"}) {
  %o = mla.grouped_attention query(%q : tensor<?x32x128xbf16>) keys(%keys : !keys) values(%keys : !keys)
      over %batch : !mla.batch<query_len = 1> scale 0.1 -> tensor<?x32x128xbf16>
  return %o : tensor<?x32x128xbf16>
}
