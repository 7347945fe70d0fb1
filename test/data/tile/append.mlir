// Writes the cache rows (512 latent columns and 64 rope columns, from two
// sources) of 64 tokens to their slots.
tile.kernel @append(%latent: memref<?xbf16>, %rope: memref<?xbf16>, %pool: memref<?xbf16>, %slots: memref<?xi64>,
                    %tokens: index, %pages: index, %page_stride: index {tile.divisibility = 8 : i64}) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c512 = arith.constant 512 : index
  %pid = tile.program_id 0
  %row = arith.muli %pid, %c64 : index
  %cv = memref.reinterpret_cast %latent to offset: [0], sizes: [%tokens, 512], strides: [512, 1]
      : memref<?xbf16> to memref<?x512xbf16, strided<[512, 1]>>
  %rv = memref.reinterpret_cast %rope to offset: [0], sizes: [%tokens, 64], strides: [64, 1]
      : memref<?xbf16> to memref<?x64xbf16, strided<[64, 1]>>
  %pv = memref.reinterpret_cast %pool to offset: [0], sizes: [%pages, 16, 576], strides: [%page_stride, 576, 1]
      : memref<?xbf16> to memref<?x16x576xbf16, strided<[?, 576, 1]>>
  %list = memref.reinterpret_cast %slots to offset: [0], sizes: [%tokens], strides: [1]
      : memref<?xi64> to memref<?xi64, strided<[1]>>
  %c = tile.load %cv[%row, %c0] : memref<?x512xbf16, strided<[512, 1]>> -> tensor<64x512xbf16>
  %r = tile.load %rv[%row, %c0] : memref<?x64xbf16, strided<[64, 1]>> -> tensor<64x64xbf16>
  tile.store_slots %c, %pv[%list at %row, %c0]
      : tensor<64x512xbf16>, memref<?x16x576xbf16, strided<[?, 576, 1]>>, memref<?xi64, strided<[1]>>
  tile.store_slots %r, %pv[%list at %row, %c512]
      : tensor<64x64xbf16>, memref<?x16x576xbf16, strided<[?, 576, 1]>>, memref<?xi64, strided<[1]>>
  tile.return
}
