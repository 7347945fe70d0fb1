// Two CTAs have a summand of two tiles each: rank 0 rows 0 to 127 of x, rank 1 the rows behind. A CTA
// sends 16 columns to the other, adds what that has sent to the other 16, and stores these, twice.
#frag = #sm90.fragment<column_split = 1>
!tile = !sm90.smem<4x256xf32, linear>
!ring = !sm90.ring<stages = 1, parts = 1, tiles = [!tile]>

sm90.kernel @cluster(%x: memref<?xf32>, %y: memref<?xf32>)
    attributes {cluster = 2 : i32, warpgroups = 1 : i32, shared_bytes = 4112 : i64} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c128 = arith.constant 128 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [256, 32], strides: [32, 1]
      : memref<?xf32> to memref<256x32xf32, strided<[32, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [128, 32], strides: [32, 1]
      : memref<?xf32> to memref<128x32xf32, strided<[32, 1]>>
  %sums = sm90.ring "sums" full_count 8 empty_count 8 offset 0 barrier_offset 4096 : !ring
  %rank = sm90.cluster_rank
  sm90.role "math" warpgroups 0 to 1 {
    %s0 = sm90.stage_start
    %isFirst = arith.cmpi eq, %rank, %c0 : index
    %first = arith.muli %rank, %c128 : index
    %ownColumn = arith.muli %rank, %c16 : index
    %sentColumn = arith.subi %c16, %ownColumn : index
    %at0 = arith.constant 0 : index
    %at1 = arith.constant 64 : index
    // Turn 0.
    sm90.acquire %sums[%s0] keeps : !ring
    %t0 = sm90.stage_tile %sums[%s0] tile 0 : !ring -> !tile
    %row0 = arith.addi %first, %at0 : index
    %own0 = sm90.load %xv[%row0, %ownColumn] : memref<256x32xf32, strided<[32, 1]>> -> tensor<64x16xf32, #frag>
    %sent0 = sm90.load %xv[%row0, %sentColumn] : memref<256x32xf32, strided<[32, 1]>> -> tensor<64x16xf32, #frag>
    scf.if %isFirst {
      sm90.park %sent0 to %t0 rank 1 : tensor<64x16xf32, #frag>, !tile
    } else {
      sm90.park %sent0 to %t0 rank 0 : tensor<64x16xf32, #frag>, !tile
    }
    sm90.publish %sums[%s0] part 0 remote : !ring
    sm90.await %sums[%s0] part 0 remote : !ring
    %got0 = sm90.unpark %t0 : !tile -> tensor<64x16xf32, #frag>
    sm90.release %sums[%s0] remote : !ring
    %sum0 = arith.addf %own0, %got0 : tensor<64x16xf32, #frag>
    sm90.store %sum0, %yv[%at0, %ownColumn] : tensor<64x16xf32, #frag>, memref<128x32xf32, strided<[32, 1]>>
    %s1 = sm90.stage_next %s0 of %sums : !ring
    // Turn 1.
    sm90.acquire %sums[%s1] keeps : !ring
    %t1 = sm90.stage_tile %sums[%s1] tile 0 : !ring -> !tile
    %row1 = arith.addi %first, %at1 : index
    %own1 = sm90.load %xv[%row1, %ownColumn] : memref<256x32xf32, strided<[32, 1]>> -> tensor<64x16xf32, #frag>
    %sent1 = sm90.load %xv[%row1, %sentColumn] : memref<256x32xf32, strided<[32, 1]>> -> tensor<64x16xf32, #frag>
    scf.if %isFirst {
      sm90.park %sent1 to %t1 rank 1 : tensor<64x16xf32, #frag>, !tile
    } else {
      sm90.park %sent1 to %t1 rank 0 : tensor<64x16xf32, #frag>, !tile
    }
    sm90.publish %sums[%s1] part 0 remote : !ring
    sm90.await %sums[%s1] part 0 remote : !ring
    %got1 = sm90.unpark %t1 : !tile -> tensor<64x16xf32, #frag>
    sm90.release %sums[%s1] remote : !ring
    %sum1 = arith.addf %own1, %got1 : tensor<64x16xf32, #frag>
    sm90.store %sum1, %yv[%at1, %ownColumn] : tensor<64x16xf32, #frag>, memref<128x32xf32, strided<[32, 1]>>
    %s2 = sm90.stage_next %s1 of %sums : !ring
    // Nobody reaches this CTA's memory behind it.
    sm90.acquire %sums[%s2] keeps : !ring
  }
  sm90.return
}
