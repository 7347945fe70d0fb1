// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse | FileCheck %s
// RUN: mla-opt %s --convert-mla-to-tile="target=sm90 fixed-blocks=1" --canonicalize --cse | FileCheck %s --check-prefix=INVARIANT
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --canonicalize --cse | FileCheck %s --check-prefix=CPU

// Where nobody knows how many queries of requests there are, attention over heads' codes has a
// kernel for 16, 32 and 48 rows, which two consumers share, and one for more. Where results must
// not depend on the batch, and on the CPU, there is one.

!codes = !mla.cache<page_size = 64, fields = [key: 2x128, value: 2x128], element = bf16, format = "kv_nhd_fp8">
!wide = !mla.cache<page_size = 64, fields = [key: 2x256, value: 2x256], element = bf16, format = "kv_nhd_fp8">
!any = !mla.batch

// CHECK-LABEL: tile.plan @codes
// CHECK: %[[LONGEST:.*]] = tile.dim "max_piece_query_len"
// CHECK: %[[ROWS:.*]] = arith.muli %[[LONGEST]], %c4
// CHECK: arith.cmpi sle, %[[ROWS]], %c16
// CHECK: tile.launch @[[FEW:grouped_attention[_0-9]*]] grid
// CHECK: arith.cmpi sle, %[[ROWS]], %c32
// CHECK: tile.launch @[[SOME:grouped_attention[_0-9]*]] grid
// CHECK: arith.cmpi sle, %[[ROWS]], %c48
// CHECK: tile.launch @[[MORE:grouped_attention[_0-9]*]] grid
// CHECK: else
// CHECK: tile.launch @[[MANY:grouped_attention[_0-9]*]] grid
// INVARIANT-LABEL: tile.plan @codes
// INVARIANT: tile.launch @grouped_attention
// INVARIANT-NOT: tile.launch @grouped_attention
// INVARIANT: tile.return
// CPU-LABEL: tile.plan @codes
// CPU: tile.launch @grouped_attention
// CPU-NOT: tile.launch @grouped_attention
// CPU: tile.return
func.func @codes(%q: tensor<?x8x128xbf16> {mla.input = "q"}, %batch: !any, %kv: !codes)
    -> (tensor<?x8x128xbf16> {mla.output = "output"}) {
  %o = mla.grouped_attention query(%q : tensor<?x8x128xbf16>) keys(%kv : !codes) values(%kv : !codes)
      over %batch : !any scale 0.088 -> tensor<?x8x128xbf16>
  return %o : tensor<?x8x128xbf16>
}

// Registers hold no tile of 64 rows of 256 columns, of two consumers 32: tiles have ten queries of
// a group of three. Sixteen rows are two queries of no more than eight heads.
// CHECK-LABEL: tile.plan @wide
// CHECK: tile.work {{.*}}rows_per_token 6 rows_per_tile 30
// CHECK: arith.cmpi sle, %{{.*}}, %c16
// CHECK: tile.launch @[[WIDE_FEW:grouped_attention[_0-9]*]] grid
// CHECK: else
// CHECK: tile.launch @[[WIDE:grouped_attention[_0-9]*]] grid
// CHECK: tile.return
func.func @wide(%q: tensor<?x6x256xbf16> {mla.input = "q"}, %batch: !any, %kv: !wide {mla.pool = "wide"})
    -> (tensor<?x6x256xbf16> {mla.output = "output"}) {
  %o = mla.grouped_attention query(%q : tensor<?x6x256xbf16>) keys(%kv : !wide) values(%kv : !wide)
      over %batch : !any scale 0.062 -> tensor<?x6x256xbf16>
  return %o : tensor<?x6x256xbf16>
}

// CHECK-DAG: tile.kernel @[[FEW]]{{.*}}tile.max_rows = 16
// CHECK-DAG: tile.kernel @[[SOME]]{{.*}}tile.max_rows = 32
// CHECK-DAG: tile.kernel @[[MORE]]{{.*}}tile.max_rows = 48
// CHECK-DAG: tile.kernel @[[MANY]]{{.*}}tile.max_rows = 64
// CHECK-DAG: tile.kernel @[[WIDE_FEW]]{{.*}}tile.max_rows = 16
// CHECK-DAG: tile.kernel @[[WIDE]]{{.*}}tile.max_rows = 30
