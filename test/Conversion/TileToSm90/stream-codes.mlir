// Keys that are codes, behind two consumers: each turns half of the latent's columns into operands in
// registers, of f16 and in runs of four columns, which it stores once, for the values; the scores of the halves add up.
// RUN: mla-opt %s --mla-lower-to-tile=target=sm90 --tile-plan-schedules --tile-swap-operands --convert-tile-to-sm90 2>/dev/null | FileCheck %s
// RUN: sed 's/fp8_ds_mla/mla_fp8_tensor/' %s | mla-opt --mla-lower-to-tile=target=sm90 --tile-plan-schedules --tile-swap-operands --convert-tile-to-sm90 2>/dev/null | FileCheck %s --check-prefix=ONE

// CHECK: sm90.kernel @absorbed_attention
// CHECK-SAME: warpgroups = 3
// CHECK: sm90.ring "queries" full_count 1 empty_count 8
// CHECK: %[[LEFT:.*]] = sm90.ring "left codes" full_count 1 empty_count 4 : <stages = 4, parts = 1, tiles = [<64x128xf8E4M3FN>]>
// CHECK: %[[LSCORES:.*]] = sm90.ring "left scores" full_count 4 empty_count 4 : <stages = 1, parts = 1, tiles = [<4x256xf32, linear>]>
// CHECK: %[[VALUES:.*]] = sm90.alloc : <64x256xf16>
// CHECK: %[[RIGHT:.*]] = sm90.ring "right codes"
// CHECK: %[[RSCORES:.*]] = sm90.ring "right scores"
// CHECK: %[[ROPE:.*]] = sm90.ring "rope" full_count 1 empty_count 4 : <stages = 2, parts = 1, tiles = [<64x64xbf16>]>

// Panels in turns, as the consumers take them.
// CHECK: sm90.role "load" warpgroups 0 to 1 registers 40 {
// CHECK: sm90.acquire %[[LEFT]]
// CHECK: sm90.acquire %[[RIGHT]]
// CHECK: sm90.acquire %[[LEFT]]
// CHECK: sm90.acquire %[[RIGHT]]
// CHECK: sm90.acquire %[[ROPE]]

// The left one: scales a block ahead, codes a step, no RoPE, no more than one product behind the turning.
// CHECK: sm90.role "left" warpgroups 1 to 2 registers 232 {
// CHECK: %[[SLICE:.*]] = sm90.slice %{{.*}}[0] : <16x512xbf16> -> <16x256xbf16>
// CHECK: %[[FACTOR:.*]] = arith.constant 6.250000e-02 : f32
// CHECK: %[[QUERIES:.*]] = sm90.order_runs %[[SLICE]] by %[[FACTOR]] : <16x256xbf16> -> <16x256xf16>
// CHECK-NOT: sm90.order_runs
// CHECK: sm90.wait_dependency
// CHECK: sm90.load_code_scales
// CHECK: sm90.load_code_scales
// CHECK: scf.for
// CHECK: sm90.load_code_scales
// CHECK: sm90.await %[[LEFT]]
// CHECK: %[[WORDS:.*]] = sm90.load_code_words %{{.*}} column 0 columns 64 : <64x128xf8E4M3FN>
// CHECK: %[[KEYS:.*]] = sm90.scale_codes %[[WORDS]] by %{{.*}} : tensor<64x16xi32, {{.*}}>, tensor<64xf32, #sm90.rows> -> tensor<64x64xf16
// CHECK: sm90.load_code_words %{{.*}} column 64 columns 64
// CHECK: sm90.release %[[LEFT]]
// CHECK: sm90.barrier
// CHECK: sm90.store_shared %[[KEYS]], %[[VALUES]] column 0
// CHECK: sm90.wgmma %[[KEYS]], %{{.*}} transpose_rhs : tensor<64x64xf16, #sm90.fragment<column_split = 1>>, <16x64xf16>
// CHECK: sm90.wgmma_commit
// CHECK: sm90.await %[[LEFT]]
// CHECK: sm90.store_shared %{{.*}}, %[[VALUES]] column 64
// CHECK: sm90.wgmma_commit
// CHECK-NEXT: sm90.wgmma_wait 1
// CHECK-NOT: sm90.await %[[ROPE]]
// CHECK: sm90.park %{{.*}} to
// CHECK-NEXT: sm90.publish %[[LSCORES]]
// CHECK-NEXT: sm90.await %[[RSCORES]]
// CHECK: sm90.unpark
// CHECK-NEXT: sm90.release %[[RSCORES]]
// CHECK: sm90.reduce max
// CHECK: scf.if
// CHECK-NEXT: sm90.barrier
// CHECK-NEXT: sm90.zero_rows %[[VALUES]]
// CHECK-COUNT-4: sm90.wgmma {{.*}} transpose_lhs transpose_rhs
// CHECK-NOT: transpose_lhs
// CHECK: sm90.store_runs {{.*}} transposed
// CHECK: sm90.role "right" warpgroups 2 to 3 registers 232 {
// CHECK: sm90.await %[[ROPE]]
// CHECK: sm90.wgmma %{{.*}} : !sm90.smem<64x64xbf16>, <16x64xbf16>

// One scale of all codes is the queries' and the output's: operands are codes. Kernels before may have
// written it.
// ONE: sm90.role "left"
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
// ONE: sm90.wgmma {{.*}} transpose_lhs
// ONE: %[[ALL:.*]] = sm90.splat %[[SCALE]] : f32 -> tensor<64x16xf32
// ONE: arith.mulf %{{.*}}, %[[ALL]]
// ONE: sm90.role "right"
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
