// out = x · rsqrt(mean(x²) + eps) · gamma over 320 columns, in chunks of 128:
// one pass for the sum of squares, one to scale. gamma is a view with row stride 0.
tile.kernel @rms_norm(%x: memref<?xbf16>, %gamma: memref<?xbf16>, %out: memref<?xbf16>, %tokens: index, %eps: f32) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %width = arith.constant 320 : index
  %inverse_width = arith.constant dense<0.003125> : tensor<64xf32>
  %pid = tile.program_id 0
  %row = arith.muli %pid, %c64 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%tokens, 320], strides: [320, 1]
      : memref<?xbf16> to memref<?x320xbf16, strided<[320, 1]>>
  %gv = memref.reinterpret_cast %gamma to offset: [0], sizes: [64, 320], strides: [0, 1]
      : memref<?xbf16> to memref<64x320xbf16, strided<[0, 1]>>
  %ov = memref.reinterpret_cast %out to offset: [0], sizes: [%tokens, 320], strides: [320, 1]
      : memref<?xbf16> to memref<?x320xbf16, strided<[320, 1]>>
  %zero = arith.constant dense<0.0> : tensor<64xf32>
  %sum = scf.for %i = %c0 to %width step %c128 iter_args(%s = %zero) -> (tensor<64xf32>) {
    %t = tile.load %xv[%row, %i] : memref<?x320xbf16, strided<[320, 1]>> -> tensor<64x128xbf16>
    %f = arith.extf %t : tensor<64x128xbf16> to tensor<64x128xf32>
    %q = arith.mulf %f, %f : tensor<64x128xf32>
    %r = tile.reduce sum %q : tensor<64x128xf32> -> tensor<64xf32>
    %n = arith.addf %s, %r : tensor<64xf32>
    scf.yield %n : tensor<64xf32>
  }
  %mean = arith.mulf %sum, %inverse_width : tensor<64xf32>
  %e = tile.splat %eps : f32 -> tensor<64xf32>
  %me = arith.addf %mean, %e : tensor<64xf32>
  %scale = math.rsqrt %me : tensor<64xf32>
  %sb = tile.broadcast %scale : tensor<64xf32> -> tensor<64x128xf32>
  scf.for %i = %c0 to %width step %c128 {
    %t = tile.load %xv[%row, %i] : memref<?x320xbf16, strided<[320, 1]>> -> tensor<64x128xbf16>
    %g = tile.load %gv[%c0, %i] : memref<64x320xbf16, strided<[0, 1]>> -> tensor<64x128xbf16>
    %f = arith.extf %t : tensor<64x128xbf16> to tensor<64x128xf32>
    %gf = arith.extf %g : tensor<64x128xbf16> to tensor<64x128xf32>
    %n = arith.mulf %f, %sb : tensor<64x128xf32>
    %ng = arith.mulf %n, %gf : tensor<64x128xf32>
    %o = arith.truncf %ng : tensor<64x128xf32> to tensor<64x128xbf16>
    tile.store %o, %ov[%row, %i] : tensor<64x128xbf16>, memref<?x320xbf16, strided<[320, 1]>>
  }
  tile.return
}
