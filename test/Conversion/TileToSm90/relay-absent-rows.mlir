// A tile of 64 rows of a request that has 40: weights and queries of the rows that it does not
// have are zeros, not another request's, which takes less power. 64 heads need none of it.
// RUN: sed s/HEADS/40/g %s | mla-opt --mla-lower-to-tile=target=sm90 --tile-plan-schedules=schedule=relay --convert-tile-to-sm90 2>/dev/null | FileCheck %s --check-prefix=SOME
// RUN: sed s/HEADS/64/g %s | mla-opt --mla-lower-to-tile=target=sm90 --tile-plan-schedules=schedule=relay --convert-tile-to-sm90 2>/dev/null | FileCheck %s --check-prefix=ALL

// SOME: sm90.role "scores"
// SOME: %[[PRESENT:.*]] = arith.subi %c40_i32{{[_0-9]*}}, %{{.*}} : i32
// SOME: scf.if
// SOME-NEXT: %[[ROWS:.*]] = arith.index_cast %[[PRESENT]]
// SOME-NEXT: sm90.zero_rows %[[LEFT:.*]] from %[[ROWS]] :
// SOME-NEXT: sm90.barrier
// SOME: sm90.load_shared %[[LEFT]]
// SOME: scf.if
// SOME: sm90.zero_rows
// SOME: sm90.zero_rows
// SOME: sm90.barrier
// SOME: sm90.wgmma
// The reference that rows start from.
// SOME: %[[IS_THERE:.*]] = arith.cmpi slt, %{{.*}} : tensor<64xi32, #sm90.rows>
// SOME: %[[ABOVE:.*]] = arith.constant dense<1.000000e+30>
// SOME: arith.select %[[IS_THERE]], %{{.*}}, %[[ABOVE]]
// SOME: sm90.role "left"

// ALL: sm90.role "scores"
// ALL-NOT: sm90.zero_rows
// ALL: sm90.role "left"
func.func @decode(%q: tensor<?xHEADSx256xbf16> {mla.input = "q"}, %q_pe: tensor<?xHEADSx64xbf16> {mla.input = "q_pe"},
                  %batch: !mla.batch<query_len = 1>,
                  %cache: !mla.cache<page_size = 64, fields = [latent: 256, rope: 64], element = bf16, rope_order = half>)
    -> (tensor<?xHEADSx256xbf16> {mla.output = "output"}) {
  %o = mla.absorbed_attention query(%q, %q_pe : tensor<?xHEADSx256xbf16>, tensor<?xHEADSx64xbf16>)
      over %cache, %batch : <page_size = 64, fields = [latent: 256, rope: 64], element = bf16, rope_order = half>, <query_len = 1>
      scale 0.25 -> tensor<?xHEADSx256xbf16>
  return %o : tensor<?xHEADSx256xbf16>
}
