// Keys that are codes, behind two consumers that take blocks in turns: each turns all columns of its own into operands
// in registers, of f16, once for the scores, in runs of four columns, and once, transposed, for the values.
// RUN: mla-opt %s --mla-lower-to-tile=target=sm90 --tile-plan-schedules --tile-swap-operands --convert-tile-to-sm90 2>/dev/null | FileCheck %s
// RUN: sed 's/fp8_ds_mla/mla_fp8_tensor/' %s | mla-opt --mla-lower-to-tile=target=sm90 --tile-plan-schedules --tile-swap-operands --convert-tile-to-sm90 2>/dev/null | FileCheck %s --check-prefix=ONE
// RUN: sed 's/fp8_ds_mla/mla_fp8_tensor/; s/?x16x/?x32x/g; s/page_size = 64/page_size = 16/' %s | mla-opt --mla-lower-to-tile=target=sm90 --tile-plan-schedules --tile-swap-operands --convert-tile-to-sm90 2>/dev/null | FileCheck %s --check-prefix=TIGHT
// RUN: sed 's/?x16x/?x32x/g' %s | mla-opt --mla-lower-to-tile=target=sm90 --tile-plan-schedules 2>&1 >/dev/null | FileCheck %s --check-prefix=GROUPS
// RUN: sed 's/fp8_ds_mla/mla_fp8_tensor/; s/?x16x/?x32x/g; s/page_size = 64/page_size = 1/' %s | mla-opt --mla-lower-to-tile=target=sm90 --tile-plan-schedules 2>&1 >/dev/null | FileCheck %s --check-prefix=COPIES

// Tiles of 32 rows take what the producer can spare, and one operand at a time. With scales of rows, or threads that
// copy rows, there is no room for them.
// TIGHT: sm90.spill_bytes = 128
// TIGHT: sm90.role "load" warpgroups 0 to 1 registers 24
// TIGHT: sm90.role "math" warpgroups 1 to 2 registers 240
// TIGHT: sm90.wgmma_commit
// TIGHT-NEXT: sm90.wgmma_wait 0
// GROUPS: schedule relay
// GROUPS-SAME: not stream: an output with sums, scores, their mask and scales of 208 registers per thread, it has 192
// COPIES: schedule relay
// COPIES-SAME: not stream: an output with sums, scores, their mask and scales of 192 registers per thread, it has 184

// CHECK: sm90.kernel @absorbed_attention
// CHECK-SAME: warpgroups = 3
// CHECK: %[[KEYS:.*]] = sm90.ring "keys" full_count 1 empty_count 4 : <stages = 4, parts = 5, tiles = [<64x512xf8E4M3FN>, <64x64xbf16>]>
// CHECK: sm90.ring "queries" full_count 1 empty_count 8 : <stages = 2, parts = 1, tiles = [<16x512xbf16>, <16x64xbf16>]>
// CHECK: %[[FIRST:.*]] = sm90.ring "state 0" full_count 4 empty_count 4 : <stages = 1, parts = 1, tiles = [<4x256xf32, linear>]>
// CHECK: %[[SECOND:.*]] = sm90.ring "state 1"

// A block is five parts: four panels of codes and RoPE keys.
// CHECK: sm90.role "load" warpgroups 0 to 1 registers 40 {
// CHECK: sm90.acquire %[[KEYS]]
// CHECK: sm90.slice %{{.*}}[384] : <64x512xf8E4M3FN> -> <64x128xf8E4M3FN>
// CHECK: sm90.expect %[[KEYS]]{{.*}} part 3 bytes 8192
// CHECK: sm90.expect %[[KEYS]]{{.*}} part 4 bytes 8192

// Queries: a half by each, which meet. Scales a block ahead, which is the next but one; codes a step ahead, and no
// more than one product behind the turning.
// CHECK: sm90.role "math" warpgroups 1 to 2 registers 232 {
// CHECK: %[[SLICE:.*]] = sm90.slice %[[TILE:.*]][0] : <16x512xbf16> -> <16x256xbf16>
// CHECK: %[[FACTOR:.*]] = arith.constant 6.250000e-02 : f32
// CHECK: sm90.order_runs %[[SLICE]] by %[[FACTOR]] : <16x256xbf16> -> <16x256xf16>
// CHECK-NEXT: sm90.named_barrier 8 warps 8
// CHECK-NEXT: %[[QUERIES:.*]] = sm90.slice %[[TILE]][0] : <16x512xbf16> -> <16x512xf16>
// CHECK: sm90.wait_dependency
// CHECK-COUNT-4: sm90.load_code_scales
// CHECK: scf.for
// CHECK-COUNT-4: sm90.load_code_scales
// CHECK: sm90.await %[[KEYS]]{{.*}} part 0
// CHECK: %[[WORDS:.*]] = sm90.load_code_words %[[CODES:.*]] column 0 columns 64 : <64x512xf8E4M3FN>
// CHECK: %[[OPERAND:.*]] = sm90.scale_codes %[[WORDS]] by %[[SCALE:.*]] : tensor<64x16xi32, {{.*}}>, tensor<64xf32, #sm90.rows> -> tensor<64x64xf16
// CHECK: %[[NEXT:.*]] = sm90.load_code_words %[[CODES]] column 64 columns 64
// CHECK: %[[PART:.*]] = sm90.slice %[[QUERIES]][0] : <16x512xf16> -> <16x64xf16>
// CHECK: sm90.wgmma %[[OPERAND]], %[[PART]], %{{.*}} transpose_rhs : tensor<64x64xf16, #sm90.fragment<column_split = 1>>, <16x64xf16>
// CHECK: sm90.wgmma_commit
// CHECK: sm90.scale_codes %[[NEXT]] by %[[SCALE]]
// CHECK-NEXT: sm90.await %[[KEYS]]{{.*}} part 1
// CHECK: sm90.wgmma_commit
// CHECK-NEXT: sm90.wgmma_wait 1
// CHECK: sm90.await %[[KEYS]]{{.*}} part 4
// CHECK: sm90.wgmma %{{.*}} : !sm90.smem<64x64xbf16>, <16x64xbf16>
// CHECK: sm90.reduce max

// Weights for each group of columns; rows behind the request's end are zeroed.
// CHECK: sm90.broadcast %[[SCALE]] : tensor<64xf32, #sm90.rows>
// CHECK: sm90.store_shared %{{.*}}, %[[WEIGHTS:.*]] transposed : tensor<64x16xf16
// CHECK-COUNT-2: sm90.store_shared {{.*}} transposed : tensor<64x16xf16
// CHECK: sm90.store_shared %{{.*}}, %[[LAST:.*]] transposed : tensor<64x16xf16
// CHECK: scf.if
// CHECK: sm90.zero_rows %[[CODES]]
// CHECK: sm90.barrier
// CHECK: %[[WORDS:.*]] = sm90.load_code_columns %[[CODES]] column 0
// CHECK: %[[VALUES:.*]] = sm90.scale_codes %[[WORDS]] by
// CHECK: sm90.wgmma %[[VALUES]], %[[WEIGHTS]]
// CHECK: sm90.load_code_columns %[[CODES]] column 448
// CHECK-COUNT-2: sm90.wgmma %{{.*}}, %[[LAST]]
// CHECK-NEXT: sm90.wgmma_commit
// CHECK-NEXT: sm90.release %[[KEYS]]
// CHECK: sm90.wgmma_wait 0

// Each gives what the other stores: a reference, a sum and four of eight tiles.
// CHECK: sm90.acquire %[[FIRST]]
// CHECK-NEXT: sm90.stage_tile
// CHECK-NEXT: sm90.park
// CHECK-NEXT: sm90.publish %[[FIRST]]
// CHECK: sm90.await %[[SECOND]]
// CHECK: sm90.unpark
// CHECK-NEXT: sm90.release %[[SECOND]]
// CHECK-COUNT-5: sm90.park
// CHECK-NOT: sm90.park
// CHECK-COUNT-4: sm90.store_runs {{.*}} transposed pairs
// CHECK: sm90.role "math1" warpgroups 2 to 3 registers 232 {

// One scale of all codes is the queries' and the output's: operands are codes, and weights are in one tile. Kernels
// before may have written it.
// ONE: sm90.role "math"
// ONE: sm90.wait_dependency
// ONE: %[[SCALE:.*]] = memref.load %{{.*}} : memref<?xf32>
// ONE: sm90.order_runs %{{.*}} by %[[SCALE]] : <16x256xbf16> -> <16x256xf16>
// ONE-NOT: memref.load
// ONE-NOT: sm90.load_code_scales
// ONE: scf.for
// ONE-NOT: memref.load
// ONE: %[[WORDS:.*]] = sm90.load_code_words
// ONE: %[[NONE:.*]] = arith.constant 1.000000e+00 : f32
// ONE: sm90.scale_codes %[[WORDS]] by %[[NONE]]
// ONE: sm90.store_shared {{.*}} transposed : tensor<64x16xf16
// ONE-NOT: sm90.store_shared
// ONE: %[[ALL:.*]] = sm90.splat %[[SCALE]] : f32 -> tensor<64x16xf32
// ONE: arith.mulf %{{.*}}, %[[ALL]]
// ONE: sm90.role "math1"
// ONE: %[[SCALE:.*]] = memref.load %{{.*}} : memref<?xf32>
// ONE: sm90.order_runs %{{.*}} by %[[SCALE]] : <16x256xbf16> -> <16x256xf16>
// ONE: sm90.order_runs %{{.*}} by %[[SCALE]] : <16x64xbf16> -> <16x64xf16>

!cache = !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = half, format = "fp8_ds_mla">
func.func @decode(%q: tensor<?x16x512xbf16> {mla.input = "q"}, %q_pe: tensor<?x16x64xbf16> {mla.input = "q_pe"},
                  %batch: !mla.batch<query_len = 1>, %cache: !cache) -> (tensor<?x16x512xbf16> {mla.output = "output"}) {
  %o = mla.absorbed_attention query(%q, %q_pe : tensor<?x16x512xbf16>, tensor<?x16x64xbf16>) over %cache, %batch
      : !cache, !mla.batch<query_len = 1> scale 0.1 -> tensor<?x16x512xbf16>
  return %o : tensor<?x16x512xbf16>
}
