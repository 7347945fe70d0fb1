// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --canonicalize --cse | FileCheck %s --check-prefixes=CHECK,GRID
// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse | FileCheck %s --check-prefixes=CHECK,ITEMS

// Tiles are heads of a token. Without splits a program has one tile, or goes over its part of the tokens.

!cache = !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16,
                    rope_order = interleaved, format = "fp8_ds_mla">
!lse = tensor<?x128xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>

// Rows have numbers up to the last page's last one: 656 bytes are a row, padding between pages counts.
// CHECK-LABEL: tile.plan @decode
// CHECK-DAG: %[[T:.*]] = tile.dim "num_tokens"
// CHECK-DAG: %[[PAGES:.*]] = tile.dim "num_pages"
// CHECK-DAG: %[[STRIDE:.*]] = tile.dim "page_stride"
// CHECK-DAG: %[[OTHERS:.*]] = arith.subi %[[PAGES]], %c1
// CHECK-DAG: %[[PAGEROWS:.*]] = arith.divsi %[[STRIDE]], %c656
// CHECK: %[[BEFORE:.*]] = arith.muli %[[OTHERS]], %[[PAGEROWS]]
// CHECK: %[[COUNT:.*]] = arith.addi %[[BEFORE]], %c64
// CHECK: tile.launch @[[DECODE:sparse_attention[_0-9]*]]
// GRID-SAME: grid(%{{.*}}, %c1{{[_0-9]*}}, %c1{{[_0-9]*}})
// ITEMS-SAME: grid(%c2{{[_0-9]*}}, %{{.*}}, %c1{{[_0-9]*}})
// CHECK-SAME: %[[COUNT]]
func.func @decode(%q: tensor<?x128x512xbf16> {mla.input = "q"}, %qp: tensor<?x128x64xbf16> {mla.input = "q_pe"},
    %rows: tensor<?x2048xi32> {mla.input = "rows"}, %len: tensor<?xi32> {mla.input = "lengths"},
    %sink: tensor<128xf32> {mla.input = "sink"}, %batch: !mla.batch, %cache: !cache)
    -> (tensor<?x128x512xbf16> {mla.output = "output"}, !lse {mla.output = "lse"},
        tensor<?x128xf32> {mla.output = "max"}) {
  %o, %lse, %max = mla.sparse_attention query(%q, %qp : tensor<?x128x512xbf16>, tensor<?x128x64xbf16>)
      rows(%rows : tensor<?x2048xi32>) lengths(%len : tensor<?xi32>) sink(%sink : tensor<128xf32>)
      over %cache, %batch : !cache, !mla.batch scale 0.1
      -> tensor<?x128x512xbf16> lse !lse max_logits tensor<?x128xf32>
  return %o, %lse, %max : tensor<?x128x512xbf16>, !lse, tensor<?x128xf32>
}

// A workspace has as many rows as its tensor.
// CHECK-LABEL: tile.plan @workspace
// CHECK: tile.launch @[[WORKSPACE:sparse_attention[_0-9]*]] {{.*}}%c4096, %c2048
func.func @workspace(%q: tensor<?x8x512xbf16> {mla.input = "q"}, %rows: tensor<?x2048xi32> {mla.input = "rows"},
    %c: tensor<4096x512xbf16> {mla.input = "c"}, %batch: !mla.batch) -> (tensor<?x8x512xbf16> {mla.output = "output"}) {
  %o = mla.sparse_attention query(%q : tensor<?x8x512xbf16>) rows(%rows : tensor<?x2048xi32>)
      keys(%c : tensor<4096x512xbf16>) scale 0.1 -> tensor<?x8x512xbf16>
  return %o : tensor<?x8x512xbf16>
}

// The length is clamped to the list, of which nothing behind is in the view. The maximum asks for an
// exact reference; the sink takes its share behind the LSE.
// CHECK: tile.kernel @[[DECODE]]
// ITEMS-SAME: tile.max_rows = 128
// ITEMS: scf.for
// CHECK: memref.load
// CHECK: arith.maxsi %{{.*}}, %c0
// CHECK: %[[LEN:.*]] = arith.minsi
// CHECK: %[[LIST:.*]] = memref.reinterpret_cast %{{.*}} to offset: [%{{.*}}], sizes: [%[[LEN]]], strides: [1]
// CHECK: tile.attend {{.*}} keys({{.*}} : memref<?x512xf8E4M3FN, strided<[656, 1]>>, memref<?x64xbf16, strided<[328, 1], offset: 264>>)
// CHECK-SAME: rows(%[[LIST]] : {{.*}}) scales({{.*}} : memref<?x4xf32, strided<[164, 1], offset: 128>>) range %c0 to %[[LEN]] limit %[[LEN]]
// CHECK-SAME: exact
// CHECK: math.exp
// CHECK: tile.store
// CHECK: tile.kernel @[[WORKSPACE]]
// CHECK: tile.attend {{.*}} keys({{.*}} : memref<?x512xbf16, strided<[512, 1]>>) rows({{.*}}) range %c0 to %[[K:.*]] limit %[[K]] {block
