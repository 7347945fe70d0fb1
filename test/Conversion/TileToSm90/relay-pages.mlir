// Blocks of 64 keys over pages that are smaller. Other pages: simulated
// (test/unit/Simulator/DerivedSchedulesTest.cpp).
// RUN: sed s/PAGE/16/ %s | mla-opt --mla-lower-to-tile=target=sm90 --tile-plan-schedules=schedule=relay --convert-tile-to-sm90 2>/dev/null | FileCheck %s --check-prefix=TMA
// RUN: sed s/PAGE/1/ %s | mla-opt --mla-lower-to-tile=target=sm90 --tile-plan-schedules=schedule=relay --convert-tile-to-sm90 2>/dev/null | FileCheck %s --check-prefix=ROWS

// A box of every page, by the thread that also finds the pages (all threads would
// hold their numbers across the product).
// TMA:     sm90.tensor_map {{.*}} -> <16x64xbf16>
// TMA:     sm90.ring "left" full_count 1 empty_count 4
// TMA:     sm90.role "left"
// TMA:     sm90.elect {
// TMA-COUNT-4: memref.load %{{.*}} : memref<?xi32, strided<[1], offset: ?>>
// TMA:     sm90.acquire
// TMA:     sm90.tma_load %{{.*}}[%[[P:.*]], %[[ROW:.*]], %{{.*}}] to %[[T:[0-9]+]] signals
// TMA:     sm90.tma_load %{{.*}}, %[[ROW]], %{{.*}}] to %[[T]] row 16 signals
// TMA:     sm90.tma_load %{{.*}}, %[[ROW]], %{{.*}}] to %[[T]] row 32 signals
// TMA:     sm90.tma_load %{{.*}}, %[[ROW]], %{{.*}}] to %[[T]] row 48 signals
// TMA-NOT: sm90.copy_paged
// TMA:     sm90.zero_rows

// Rows of single tokens are none of TMA's: all threads copy them, fill a stage by as
// many arrivals, and leave zeros behind the request's end.
// ROWS:     sm90.ring "left" full_count 128 empty_count 4
// ROWS:     sm90.ring "right" full_count 128 empty_count 4
// ROWS:     sm90.role "left"
// ROWS-NOT: sm90.tma_load
// ROWS:     sm90.copy_paged {{.*}} vector_bytes 16
// ROWS-NOT: sm90.tma_load
// ROWS:     sm90.copy_publish
// ROWS-NOT: sm90.zero_rows
// ROWS:     sm90.return
func.func @decode(%q: tensor<?x64x256xbf16> {mla.input = "q"},
                  %batch: !mla.batch<query_len = 1>,
                  %cache: !mla.cache<page_size = PAGE, fields = [latent: 256], element = bf16, rope_order = half>)
    -> (tensor<?x64x256xbf16> {mla.output = "output"}) {
  %o = mla.absorbed_attention query(%q : tensor<?x64x256xbf16>)
      over %cache, %batch : <page_size = PAGE, fields = [latent: 256], element = bf16, rope_order = half>, <query_len = 1>
      scale 0.25 -> tensor<?x64x256xbf16>
  return %o : tensor<?x64x256xbf16>
}
