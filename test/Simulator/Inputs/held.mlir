// The 100 largest of a row of up to 2048 values, which one CTA holds whole.
sm90.kernel @held(%scores: memref<?xf32>, %out: memref<?xi32>, %length: index)
    attributes {shared_bytes = 25344 : i64, warpgroups = 2 : i32} {
  %c0 = arith.constant 0 : index
  %s = memref.reinterpret_cast %scores to offset: [0], sizes: [1, 2048], strides: [2048, 1]
      : memref<?xf32> to memref<1x2048xf32, strided<[2048, 1]>>
  %o = memref.reinterpret_cast %out to offset: [0], sizes: [1, 100], strides: [100, 1]
      : memref<?xi32> to memref<1x100xi32, strided<[100, 1]>>
  %work = sm90.alloc offset 0 : !sm90.smem<1x2240xi32, linear>
  %list = sm90.alloc offset 8960 : !sm90.smem<2x2048xf32, linear>
  sm90.select_begin %work : !sm90.smem<1x2240xi32, linear>
  sm90.barrier
  %numbers = sm90.select_hold %s[%c0] of %length to %list work %work
      : memref<1x2048xf32, strided<[2048, 1]>>, !sm90.smem<2x2048xf32, linear>, !sm90.smem<1x2240xi32, linear>
  sm90.barrier
  %count = arith.index_cast %length : index to i32
  %key, %before = sm90.select_cut list(%list : !sm90.smem<2x2048xf32, linear>) in_order of %count rank 100
      work %work : !sm90.smem<1x2240xi32, linear>
  sm90.barrier
  sm90.select_write_in_order %list of %count cut %key, %before to %o[%c0] work %work
      : !sm90.smem<2x2048xf32, linear>, memref<1x100xi32, strided<[100, 1]>>, !sm90.smem<1x2240xi32, linear>
  sm90.return
}
