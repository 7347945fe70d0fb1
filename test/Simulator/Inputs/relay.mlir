// What a derived attention schedule is made of, in small: one thread copies pages
// by TMA, one warpgroup computes weights from them (left operand in registers and
// in shared memory, committed in two groups with a signal in between), another
// accumulates weights times rows and stores the result by TMA.
//
//   s = q · k^T,  p = min(s · scale, 1), 0 beyond `length`,  alpha = max_j p / 4
//   o = o · alpha + p · k          over blocks of 64 keys; o is [64, 128]
//
//   load    | keys(0) keys(1) | keys(2) ...      keys: 2 stages in 2 halves
//   scores  |   S(0) p(0) ---+| S(1) p(1) ---+
//   values  |                |P(0): o += p·k |P(1): ...

#frag = #sm90.fragment<column_split = 1>
!half = !sm90.smem<64x64xbf16>
!tile = !sm90.smem<64x128xbf16>
!row = !sm90.smem<1x64xf32, linear>
!keys = !sm90.ring<stages = 2, parts = 2, tiles = [!sm90.smem<64x128xbf16>]>
!query = !sm90.ring<stages = 1, parts = 1, tiles = [!sm90.smem<64x128xbf16>]>
!weights = !sm90.ring<stages = 1, parts = 1, tiles = [!sm90.smem<64x64xbf16>, !sm90.smem<1x64xf32, linear>]>
!signal = !sm90.ring<stages = 2, parts = 1>

sm90.kernel @relay(%q: memref<?xbf16>, %pool: memref<?xbf16>, %table: memref<?xi32>, %out: memref<?xbf16>,
                   %pages: index, %length: index, %scale: f32)
    attributes {warpgroups = 3 : i32, shared_bytes = 74840 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c63 = arith.constant 63 : index
  %c64 = arith.constant 64 : index
  %rounded = arith.addi %length, %c63 : index
  %blocks = arith.divui %rounded, %c64 : index
  %qv = memref.reinterpret_cast %q to offset: [0], sizes: [64, 128], strides: [128, 1]
      : memref<?xbf16> to memref<64x128xbf16, strided<[128, 1]>>
  %kv = memref.reinterpret_cast %pool to offset: [0], sizes: [%pages, 64, 128], strides: [8192, 128, 1]
      : memref<?xbf16> to memref<?x64x128xbf16, strided<[8192, 128, 1]>>
  %ov = memref.reinterpret_cast %out to offset: [0], sizes: [64, 128], strides: [128, 1]
      : memref<?xbf16> to memref<64x128xbf16, strided<[128, 1]>>
  %qmap = sm90.tensor_map %qv : memref<64x128xbf16, strided<[128, 1]>> -> !sm90.tensor_map<64x128xbf16>
  %kmap = sm90.tensor_map %kv : memref<?x64x128xbf16, strided<[8192, 128, 1]>> -> !sm90.tensor_map<64x64xbf16>
  %omap = sm90.tensor_map %ov : memref<64x128xbf16, strided<[128, 1]>> -> !sm90.tensor_map<64x64xbf16>
  %keys = sm90.ring "keys" full_count 1 empty_count 8 offset 0 barrier_offset 74752 : !keys
  %query = sm90.ring "query" full_count 1 empty_count 0 offset 32768 barrier_offset 74800 : !query
  %weights = sm90.ring "weights" full_count 4 empty_count 4 offset 49152 barrier_offset 74808 : !weights
  %half_done = sm90.ring "half done" full_count 4 empty_count 0 barrier_offset 74824 : !signal

  sm90.role "load" warpgroups 0 to 1 registers 40 {
    sm90.elect {
      %start = sm90.stage_start
      sm90.expect %query[%start] part 0 bytes 16384 : !query
      %qt = sm90.stage_tile %query[%start] tile 0 : !query -> !tile
      sm90.tma_load %qmap[%c0, %c0] to %qt signals %query[%start] part 0 : !sm90.tensor_map<64x128xbf16>, !tile, !query
      %last = scf.for %i = %c0 to %blocks step %c1 iter_args(%s = %start) -> (!sm90.stage) {
        %page32 = memref.load %table[%i] : memref<?xi32>
        %page = arith.index_cast %page32 : i32 to index
        sm90.acquire %keys[%s] : !keys
        %t = sm90.stage_tile %keys[%s] tile 0 : !keys -> !tile
        %left = sm90.slice %t[0] : !tile -> !half
        %right = sm90.slice %t[64] : !tile -> !half
        sm90.expect %keys[%s] part 0 bytes 8192 : !keys
        sm90.tma_load %kmap[%page, %c0, %c0] to %left signals %keys[%s] part 0 : !sm90.tensor_map<64x64xbf16>, !half, !keys
        sm90.expect %keys[%s] part 1 bytes 8192 : !keys
        sm90.tma_load %kmap[%page, %c0, %c64] to %right signals %keys[%s] part 1 : !sm90.tensor_map<64x64xbf16>, !half, !keys
        %next = sm90.stage_next %s of %keys : !keys
        scf.yield %next : !sm90.stage
      }
    }
  }

  sm90.role "scores" warpgroups 1 to 2 registers 160 {
    %start = sm90.stage_start
    %zero = arith.constant dense<0.0> : tensor<64x64xf32, #frag>
    %one = arith.constant dense<1.0> : tensor<64x64xf32, #frag>
    %quarter = arith.constant dense<0.25> : tensor<64xf32, #sm90.rows>
    %column = sm90.iota 1 : tensor<64x64xi32, #frag>
    %scales = sm90.splat %scale : f32 -> tensor<64x64xf32, #frag>
    sm90.await %query[%start] part 0 : !query
    %qt = sm90.stage_tile %query[%start] tile 0 : !query -> !tile
    %qleft = sm90.slice %qt[0] : !tile -> !half
    %qright = sm90.slice %qt[64] : !tile -> !half
    %qfrag = sm90.load_shared %qleft : !half -> tensor<64x64xbf16, #frag>
    %k_last, %p_last, %g_last = scf.for %i = %c0 to %blocks step %c1
        iter_args(%ks = %start, %ps = %start, %gs = %start) -> (!sm90.stage, !sm90.stage, !sm90.stage) {
      %t = sm90.stage_tile %keys[%ks] tile 0 : !keys -> !tile
      %left = sm90.slice %t[0] : !tile -> !half
      %right = sm90.slice %t[64] : !tile -> !half
      sm90.await %keys[%ks] part 0 : !keys
      sm90.wgmma_fence
      %s0 = sm90.wgmma %qfrag, %left, %zero transpose_rhs : tensor<64x64xbf16, #frag>, !half -> tensor<64x64xf32, #frag>
      sm90.wgmma_commit
      sm90.await %keys[%ks] part 1 : !keys
      sm90.wgmma_fence
      %s1 = sm90.wgmma %qright, %right, %s0 transpose_rhs : !half, !half -> tensor<64x64xf32, #frag>
      sm90.wgmma_commit
      %s2 = sm90.wgmma_wait 1, %s1 : tensor<64x64xf32, #frag>
      sm90.publish %half_done[%gs] part 0 : !signal
      %s3 = sm90.wgmma_wait 0, %s2 : tensor<64x64xf32, #frag>
      sm90.release %keys[%ks] : !keys
      %scaled = arith.mulf %s3, %scales : tensor<64x64xf32, #frag>
      %bounded = arith.minimumf %scaled, %one : tensor<64x64xf32, #frag>
      %done = arith.muli %i, %c64 : index
      %left_keys = arith.subi %length, %done : index
      %left32 = arith.index_cast %left_keys : index to i32
      %bound = sm90.splat %left32 : i32 -> tensor<64x64xi32, #frag>
      %inside = arith.cmpi slt, %column, %bound : tensor<64x64xi32, #frag>
      %p = arith.select %inside, %bounded, %zero : tensor<64x64xi1, #frag>, tensor<64x64xf32, #frag>
      %p16 = arith.truncf %p : tensor<64x64xf32, #frag> to tensor<64x64xbf16, #frag>
      %max = sm90.reduce max %p : tensor<64x64xf32, #frag> -> tensor<64xf32, #sm90.rows>
      %alpha = arith.mulf %max, %quarter : tensor<64xf32, #sm90.rows>
      sm90.acquire %weights[%ps] : !weights
      %pt = sm90.stage_tile %weights[%ps] tile 0 : !weights -> !half
      %at = sm90.stage_tile %weights[%ps] tile 1 : !weights -> !row
      sm90.store_shared %p16, %pt : tensor<64x64xbf16, #frag>, !half
      sm90.store_shared %alpha, %at : tensor<64xf32, #sm90.rows>, !row
      sm90.proxy_fence
      sm90.publish %weights[%ps] part 0 : !weights
      %kn = sm90.stage_next %ks of %keys : !keys
      %pn = sm90.stage_next %ps of %weights : !weights
      %gn = sm90.stage_next %gs of %half_done : !signal
      scf.yield %kn, %pn, %gn : !sm90.stage, !sm90.stage, !sm90.stage
    }
  }

  sm90.role "values" warpgroups 2 to 3 registers 160 {
    %start = sm90.stage_start
    %zero = arith.constant dense<0.0> : tensor<64x128xf32, #frag>
    %k_last, %p_last, %g_last, %acc = scf.for %i = %c0 to %blocks step %c1
        iter_args(%ks = %start, %ps = %start, %gs = %start, %o = %zero)
        -> (!sm90.stage, !sm90.stage, !sm90.stage, tensor<64x128xf32, #frag>) {
      sm90.await %half_done[%gs] part 0 : !signal
      sm90.await %keys[%ks] part 0 : !keys
      sm90.await %keys[%ks] part 1 : !keys
      %t = sm90.stage_tile %keys[%ks] tile 0 : !keys -> !tile
      %pt = sm90.stage_tile %weights[%ps] tile 0 : !weights -> !half
      %at = sm90.stage_tile %weights[%ps] tile 1 : !weights -> !row
      sm90.await %weights[%ps] part 0 : !weights
      %done = arith.muli %i, %c64 : index
      %left_keys = arith.subi %length, %done : index
      %is_ragged = arith.cmpi slt, %left_keys, %c64 : index
      scf.if %is_ragged {
        sm90.zero_rows %t from %left_keys : !tile
        sm90.proxy_fence
        sm90.barrier
      }
      %alpha = sm90.load_shared %at : !row -> tensor<64xf32, #sm90.rows>
      %alphas = sm90.broadcast %alpha : tensor<64xf32, #sm90.rows> -> tensor<64x128xf32, #frag>
      %scaled = arith.mulf %o, %alphas : tensor<64x128xf32, #frag>
      sm90.wgmma_fence
      %o0 = sm90.wgmma %pt, %t, %scaled : !half, !tile -> tensor<64x128xf32, #frag>
      sm90.wgmma_commit
      %o1 = sm90.wgmma_wait 0, %o0 : tensor<64x128xf32, #frag>
      sm90.release %weights[%ps] : !weights
      sm90.release %keys[%ks] : !keys
      %kn = sm90.stage_next %ks of %keys : !keys
      %pn = sm90.stage_next %ps of %weights : !weights
      %gn = sm90.stage_next %gs of %half_done : !signal
      scf.yield %kn, %pn, %gn, %o1 : !sm90.stage, !sm90.stage, !sm90.stage, tensor<64x128xf32, #frag>
    }
    %ot = sm90.alloc offset 58368 : !tile
    %o16 = arith.truncf %acc : tensor<64x128xf32, #frag> to tensor<64x128xbf16, #frag>
    sm90.store_shared %o16, %ot : tensor<64x128xbf16, #frag>, !tile
    sm90.proxy_fence
    sm90.barrier
    sm90.elect {
      sm90.tma_store %ot to %omap[%c0, %c0] : !tile, !sm90.tensor_map<64x64xbf16>
      sm90.store_commit
      sm90.store_wait 0
    }
  }
  sm90.return
}
