// RUN: mla-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: tile.kernel @copy
// CHECK: tile.program_id 0
// CHECK: tile.load
// CHECK: tile.store
tile.kernel @copy(%src: memref<?xbf16>, %dst: memref<?xbf16>, %rows: index) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %pid = tile.program_id 0
  %row = arith.muli %pid, %c64 : index
  %in = memref.reinterpret_cast %src to offset: [0], sizes: [%rows, 40], strides: [40, 1]
      : memref<?xbf16> to memref<?x40xbf16, strided<[40, 1]>>
  %out = memref.reinterpret_cast %dst to offset: [0], sizes: [%rows, 40], strides: [40, 1]
      : memref<?xbf16> to memref<?x40xbf16, strided<[40, 1]>>
  %t = tile.load %in[%row, %c0] : memref<?x40xbf16, strided<[40, 1]>> -> tensor<64x64xbf16>
  tile.store %t, %out[%row, %c0] : tensor<64x64xbf16>, memref<?x40xbf16, strided<[40, 1]>>
  tile.return
}

// CHECK-LABEL: tile.plan @decode max_query_len 1
// CHECK: tile.launch @copy
tile.plan @decode max_query_len 1 {
  %t = tile.dim "num_tokens"
  %hidden = tile.buffer input "hidden" : memref<?xbf16>
  %out = tile.buffer output "output" : memref<?xbf16>
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %gx = arith.ceildivsi %t, %c64 : index
  tile.launch @copy grid(%gx, %c1, %c1) args(%hidden, %out, %t)
      : memref<?xbf16>, memref<?xbf16>, index
  tile.return
}
