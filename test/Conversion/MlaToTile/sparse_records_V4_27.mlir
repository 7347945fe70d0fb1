// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --canonicalize --cse | FileCheck %s
// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse | FileCheck %s

// Records of 584 bytes: rows have slots, pages their rows and, behind them, exponents. One query of
// whole rows is multiplied with both parts.
!record = !mla.cache<page_size = 2, fields = [latent: 448, rope: 64], element = bf16,
                     rope_order = interleaved, format = "model1_584", scale_rule = power_of_two>
// CHECK-LABEL: tile.plan @records
// CHECK: tile.launch @[[RECORDS:sparse_attention[_0-9]*]]
func.func @records(%q: tensor<?x8x512xbf16> {mla.input = "q"}, %rows: tensor<?x128xi32> {mla.input = "rows"},
    %batch: !mla.batch, %cache: !record) -> (tensor<?x8x512xbf16> {mla.output = "output"}) {
  %o = mla.sparse_attention query(%q : tensor<?x8x512xbf16>) rows(%rows : tensor<?x128xi32>)
      over %cache, %batch : !record, !mla.batch scale 0.1 -> tensor<?x8x512xbf16>
  return %o : tensor<?x8x512xbf16>
}
// CHECK: tile.kernel @[[RECORDS]]
// CHECK: tile.attend queries(%{{.*}} : tensor<{{[0-9]+}}x512xbf16>)
// CHECK-SAME: keys({{.*}} : memref<?x2x448xf8E4M3FN, strided<[?, 576, 1]>>, memref<?x2x64xbf16, strided<[?, 288, 1], offset: 224>>)
// CHECK-SAME: rows({{.*}}) scales({{.*}} : memref<?x2x7xi8, strided<[?, 8, 1], offset: 1152>>)
