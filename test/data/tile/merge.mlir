// Merges the partials of 64 rows: partial_output [splits, rows, 512] f32 and
// partial_lse [splits, rows] f32 (natural log, -inf when empty). Weights are
// exp(lse - max), the maximum kept finite so that an all-empty row gives 0.
tile.kernel @merge(%partial_output: memref<?xf32>, %partial_lse: memref<?xf32>, %out: memref<?xbf16>,
                   %rows: index, %splits: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %c512 = arith.constant 512 : index
  %pid = tile.program_id 0
  %row = arith.muli %pid, %c64 : index
  %lowest = arith.constant dense<-1.0e30> : tensor<64xf32>
  %zero_row = arith.constant dense<0.0> : tensor<64xf32>
  %one_row = arith.constant dense<1.0> : tensor<64xf32>
  %zero_o = arith.constant dense<0.0> : tensor<64x512xf32>
  %max = scf.for %s = %c0 to %splits step %c1 iter_args(%m = %lowest) -> (tensor<64xf32>) {
    %offset = arith.muli %s, %rows : index
    %lv = memref.reinterpret_cast %partial_lse to offset: [%offset], sizes: [%rows], strides: [1]
        : memref<?xf32> to memref<?xf32, strided<[1], offset: ?>>
    %l = tile.load %lv[%row] : memref<?xf32, strided<[1], offset: ?>> -> tensor<64xf32>
    %n = arith.maximumf %m, %l : tensor<64xf32>
    scf.yield %n : tensor<64xf32>
  }
  %sum, %acc = scf.for %s = %c0 to %splits step %c1 iter_args(%w = %zero_row, %o = %zero_o) -> (tensor<64xf32>, tensor<64x512xf32>) {
    %offset = arith.muli %s, %rows : index
    %o_offset = arith.muli %offset, %c512 : index
    %lv = memref.reinterpret_cast %partial_lse to offset: [%offset], sizes: [%rows], strides: [1]
        : memref<?xf32> to memref<?xf32, strided<[1], offset: ?>>
    %pv = memref.reinterpret_cast %partial_output to offset: [%o_offset], sizes: [%rows, 512], strides: [512, 1]
        : memref<?xf32> to memref<?x512xf32, strided<[512, 1], offset: ?>>
    %l = tile.load %lv[%row] : memref<?xf32, strided<[1], offset: ?>> -> tensor<64xf32>
    %d = arith.subf %l, %max : tensor<64xf32>
    %weight = math.exp %d : tensor<64xf32>
    %p = tile.load %pv[%row, %c0] : memref<?x512xf32, strided<[512, 1], offset: ?>> -> tensor<64x512xf32>
    %weight_o = tile.broadcast %weight : tensor<64xf32> -> tensor<64x512xf32>
    %weighted = arith.mulf %p, %weight_o : tensor<64x512xf32>
    %used = arith.cmpf ogt, %weight_o, %zero_o : tensor<64x512xf32>
    %clean = arith.select %used, %weighted, %zero_o : tensor<64x512xi1>, tensor<64x512xf32>
    %no = arith.addf %o, %clean : tensor<64x512xf32>
    %nw = arith.addf %w, %weight : tensor<64xf32>
    scf.yield %nw, %no : tensor<64xf32>, tensor<64x512xf32>
  }
  %empty = arith.cmpf oeq, %sum, %zero_row : tensor<64xf32>
  %safe = arith.select %empty, %one_row, %sum : tensor<64xi1>, tensor<64xf32>
  %inverse = arith.divf %one_row, %safe : tensor<64xf32>
  %inverse_o = tile.broadcast %inverse : tensor<64xf32> -> tensor<64x512xf32>
  %normal = arith.mulf %acc, %inverse_o : tensor<64x512xf32>
  %o16 = arith.truncf %normal : tensor<64x512xf32> to tensor<64x512xbf16>
  %ov = memref.reinterpret_cast %out to offset: [0], sizes: [%rows, 512], strides: [512, 1]
      : memref<?xbf16> to memref<?x512xbf16, strided<[512, 1]>>
  tile.store %o16, %ov[%row, %c0] : tensor<64x512xbf16>, memref<?x512xbf16, strided<[512, 1]>>
  tile.return
}
