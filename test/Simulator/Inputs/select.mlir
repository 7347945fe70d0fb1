// The 100 largest of a row of up to 3000 values; the CTA meets no other.
sm90.kernel @select(%scores: memref<?xf32>, %out: memref<?xi32>, %lists: memref<?xf32>, %counters: memref<?xi32>,
                    %length: index) attributes {shared_bytes = 25824 : i64, warpgroups = 2 : i32} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %s = memref.reinterpret_cast %scores to offset: [0], sizes: [1, 3000], strides: [3000, 1]
      : memref<?xf32> to memref<1x3000xf32, strided<[3000, 1]>>
  %o = memref.reinterpret_cast %out to offset: [0], sizes: [1, 100], strides: [100, 1]
      : memref<?xi32> to memref<1x100xi32, strided<[100, 1]>>
  %l = memref.reinterpret_cast %lists to offset: [0], sizes: [1, 2, 2048], strides: [4096, 2048, 1]
      : memref<?xf32> to memref<1x2x2048xf32, strided<[4096, 2048, 1]>>
  %work = sm90.alloc offset 0 : !sm90.smem<1x2240xi32, linear>
  %list = sm90.alloc offset 8960 : !sm90.smem<2x2048xf32, linear>
  %bitmap = sm90.alloc offset 25344 : !sm90.smem<1x96xi32, linear>
  %places = sm90.alloc offset 25728 : !sm90.smem<1x24xi32, linear>
  sm90.select_begin %work : !sm90.smem<1x2240xi32, linear>
  sm90.barrier
  %count = sm90.select_keep %s[%c0] range %c0 to %length of %length rank 100 to %list work %work
      : memref<1x3000xf32, strided<[3000, 1]>>, !sm90.smem<2x2048xf32, linear>, !sm90.smem<1x2240xi32, linear>
  sm90.barrier
  %last, %total = sm90.select_meet %list of %count at %l[%c0] counters %counters programs %c1 work %work
      : !sm90.smem<2x2048xf32, linear>, memref<1x2x2048xf32, strided<[4096, 2048, 1]>>, memref<?xi32>,
        !sm90.smem<1x2240xi32, linear>
  sm90.barrier
  %key, %before = sm90.select_cut list(%list : !sm90.smem<2x2048xf32, linear>) of %total rank 100
      work %work : !sm90.smem<1x2240xi32, linear>
  sm90.barrier
  sm90.select_write list(%list : !sm90.smem<2x2048xf32, linear>) of %total length %length cut %key, %before
      to %o[%c0] bitmap %bitmap places %places work %work
      : memref<1x100xi32, strided<[100, 1]>>, !sm90.smem<1x96xi32, linear>, !sm90.smem<1x24xi32, linear>,
        !sm90.smem<1x2240xi32, linear>
  sm90.return
}
