// The same for copies by many threads: one warpgroup gathers rows by cp.async, two
// share an accumulator by columns, a fourth writes what they leave in shared memory.
//
//   o = sum over blocks of q · k(block);  r[row] = sum_j o[row, j], twice that where an entry of the
//   first block names no row
//   q [64, 64], rows of k picked by `indices`, o [64, 128]
//
//   copy    | k(0) k(1) | k(2) ...
//   math    | q |  o += q · k(0)  | o += q · k(1) | ... | r | o -> shared
//   store   |                                                  named barrier | o -> out

#frag = #sm90.fragment<column_split = 1>
#half = #sm90.fragment<column_split = 2>
!tile = !sm90.smem<64x128xbf16>
!keys = !sm90.ring<stages = 2, parts = 1, tiles = [!sm90.smem<64x128xbf16>]>

sm90.kernel @gather(%q: memref<?xbf16>, %k: memref<?xbf16>, %indices: memref<?xi32>, %out: memref<?xbf16>,
                    %sums: memref<?xf32>, %rows: index, %count: index)
    attributes {warpgroups = 4 : i32, shared_bytes = 58400 : i64} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %qv = memref.reinterpret_cast %q to offset: [0], sizes: [64, 64], strides: [64, 1]
      : memref<?xbf16> to memref<64x64xbf16, strided<[64, 1]>>
  %kv = memref.reinterpret_cast %k to offset: [0], sizes: [%rows, 128], strides: [128, 1]
      : memref<?xbf16> to memref<?x128xbf16, strided<[128, 1]>>
  %iv = memref.reinterpret_cast %indices to offset: [0], sizes: [%count], strides: [1]
      : memref<?xi32> to memref<?xi32, strided<[1]>>
  %ov = memref.reinterpret_cast %out to offset: [0], sizes: [64, 128], strides: [128, 1]
      : memref<?xbf16> to memref<64x128xbf16, strided<[128, 1]>>
  %sv = memref.reinterpret_cast %sums to offset: [0], sizes: [64], strides: [1]
      : memref<?xf32> to memref<64xf32, strided<[1]>>
  %keys = sm90.ring "keys" full_count 128 empty_count 8 offset 0 barrier_offset 58368 : !keys
  %ot = sm90.alloc offset 41984 : !tile

  sm90.role "copy" warpgroups 0 to 1 registers 64 {
    %start = sm90.stage_start
    %last = scf.for %i = %c0 to %count step %c64 iter_args(%s = %start) -> (!sm90.stage) {
      sm90.acquire %keys[%s] : !keys
      %t = sm90.stage_tile %keys[%s] tile 0 : !keys -> !tile
      sm90.copy_rows %kv[%iv at %i, %c0] to %t vector_bytes 16
          : memref<?x128xbf16, strided<[128, 1]>>, memref<?xi32, strided<[1]>>, !tile
      sm90.copy_publish %keys[%s] part 0 : !keys
      %next = sm90.stage_next %s of %keys : !keys
      scf.yield %next : !sm90.stage
    }
  }

  sm90.role "math" warpgroups 1 to 3 registers 160 {
    %start = sm90.stage_start
    %zero = arith.constant dense<0.0> : tensor<64x128xf32, #half>
    %qt = sm90.alloc offset 32768 : !sm90.smem<64x64xbf16>
    sm90.copy %qv[%c0, %c0] to %qt vector_bytes 16 : memref<64x64xbf16, strided<[64, 1]>>, !sm90.smem<64x64xbf16>
    sm90.copy_commit
    sm90.copy_wait 0
    sm90.proxy_fence
    sm90.barrier
    %last, %acc = scf.for %i = %c0 to %count step %c64 iter_args(%s = %start, %o = %zero)
        -> (!sm90.stage, tensor<64x128xf32, #half>) {
      sm90.await %keys[%s] part 0 : !keys
      sm90.proxy_fence
      %t = sm90.stage_tile %keys[%s] tile 0 : !keys -> !tile
      sm90.wgmma_fence
      %o0 = sm90.wgmma %qt, %t, %o : !sm90.smem<64x64xbf16>, !tile -> tensor<64x128xf32, #half>
      sm90.wgmma_commit
      %o1 = sm90.wgmma_wait 0, %o0 : tensor<64x128xf32, #half>
      sm90.release %keys[%s] : !keys
      %next = sm90.stage_next %s of %keys : !keys
      scf.yield %next, %o1 : !sm90.stage, tensor<64x128xf32, #half>
    }
    %scratch = sm90.alloc offset 40960 : !sm90.smem<2x64xf32, linear>
    %r = sm90.reduce sum %acc scratch %scratch : !sm90.smem<2x64xf32, linear> : tensor<64x128xf32, #half> -> tensor<64xf32, #sm90.rows>
    %n = arith.index_cast %rows : index to i32
    %gap = sm90.has_gap %iv[%c0 for 64] below %n : memref<?xi32, strided<[1]>>
    %once = arith.constant 1.0 : f32
    %twice = arith.constant 2.0 : f32
    %factor = arith.select %gap, %twice, %once : f32
    %factors = sm90.splat %factor : f32 -> tensor<64xf32, #sm90.rows>
    %counted = arith.mulf %r, %factors : tensor<64xf32, #sm90.rows>
    sm90.store %counted, %sv[%c0] : tensor<64xf32, #sm90.rows>, memref<64xf32, strided<[1]>>
    %o16 = arith.truncf %acc : tensor<64x128xf32, #half> to tensor<64x128xbf16, #half>
    sm90.store_shared %o16, %ot : tensor<64x128xbf16, #half>, !tile
    sm90.named_barrier arrive 8 warps 12
  }

  sm90.role "store" warpgroups 3 to 4 registers 96 {
    sm90.named_barrier 8 warps 12
    %o = sm90.load_shared %ot : !tile -> tensor<64x128xbf16, #frag>
    sm90.store %o, %ov[%c0, %c0] : tensor<64x128xbf16, #frag>, memref<64x128xbf16, strided<[128, 1]>>
  }
  sm90.return
}
