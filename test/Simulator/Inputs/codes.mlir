// Codes become operands on the way through shared memory: o = round(codes * scale). They rest there
// once more, as the threads hold them.
#frag = #sm90.fragment<column_split = 1>
!codes = !sm90.smem<64x128xf8E4M3FN>
!operands = !sm90.smem<64x128xbf16>

sm90.kernel @codes(%c: memref<?xf8E4M3FN>, %out: memref<?xbf16>, %scale: f32)
    attributes {warpgroups = 1 : i32, shared_bytes = 57344 : i64} {
  %c0 = arith.constant 0 : index
  %cv = memref.reinterpret_cast %c to offset: [0], sizes: [64, 128], strides: [128, 1]
      : memref<?xf8E4M3FN> to memref<64x128xf8E4M3FN, strided<[128, 1]>>
  %ov = memref.reinterpret_cast %out to offset: [0], sizes: [64, 128], strides: [128, 1]
      : memref<?xbf16> to memref<64x128xbf16, strided<[128, 1]>>
  sm90.role "turn" warpgroups 0 to 1 {
    %tile = sm90.alloc offset 0 : !codes
    %target = sm90.alloc offset 8192 : !operands
    sm90.copy %cv[%c0, %c0] to %tile vector_bytes 16 : memref<64x128xf8E4M3FN, strided<[128, 1]>>, !codes
    sm90.copy_commit
    sm90.copy_wait 0
    sm90.barrier
    sm90.transform_codes %tile by %scale to %target column 0 : !codes, f32, !operands
    sm90.barrier
    %o = sm90.load_shared %target : !operands -> tensor<64x128xbf16, #frag>
    %wide = arith.extf %o : tensor<64x128xbf16, #frag> to tensor<64x128xf32, #frag>
    %rest = sm90.alloc offset 24576 : !sm90.smem<4x2048xf32, linear>
    sm90.park %wide to %rest : tensor<64x128xf32, #frag>, !sm90.smem<4x2048xf32, linear>
    %back = sm90.unpark %rest : !sm90.smem<4x2048xf32, linear> -> tensor<64x128xf32, #frag>
    %n = arith.truncf %back : tensor<64x128xf32, #frag> to tensor<64x128xbf16, #frag>
    sm90.store %n, %ov[%c0, %c0] : tensor<64x128xbf16, #frag>, memref<64x128xbf16, strided<[128, 1]>>
  }
  sm90.return
}
