// Blocks of a list in the schedule relay.
// RUN: mla-opt %s --mla-lower-to-tile=target=sm90 --tile-plan-schedules=schedule=relay --convert-tile-to-sm90 2>/dev/null | FileCheck %s

// Whether the first block has a gap is found under its scores' product, the mask is made where it has one,
// and then the next block's entries are read.
// CHECK:     sm90.role "scores"
// CHECK:     %[[FIRST:.*]] = sm90.has_gap %{{.*}}[%{{.*}} for 64] below
// CHECK:     sm90.wgmma_wait 0
// CHECK:     scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %[[GAP:[a-z0-9]+]] = %[[FIRST]],
// CHECK-NOT: sm90.load
// CHECK:     scf.if %[[GAP]]
// CHECK:     %[[ENTRIES:.*]] = sm90.load %{{.*}} : memref<64x?xi32
// CHECK:     } else {
// CHECK-NOT: sm90.load
// CHECK:     sm90.reduce max
// CHECK:     sm90.has_gap
// CHECK:     sm90.wgmma_wait 0
func.func @decode(%q: tensor<?x64x256xbf16> {mla.input = "q"}, %rows: tensor<?x256xi32> {mla.input = "rows"},
                  %batch: !mla.batch<query_len = 1>,
                  %cache: !mla.cache<page_size = 64, fields = [latent: 256], element = bf16>)
    -> (tensor<?x64x256xbf16> {mla.output = "output"}) {
  %o = mla.sparse_attention query(%q : tensor<?x64x256xbf16>) rows(%rows : tensor<?x256xi32>)
      over %cache, %batch : !mla.cache<page_size = 64, fields = [latent: 256], element = bf16>, !mla.batch<query_len = 1>
      scale 0.25 -> tensor<?x64x256xbf16>
  return %o : tensor<?x64x256xbf16>
}
