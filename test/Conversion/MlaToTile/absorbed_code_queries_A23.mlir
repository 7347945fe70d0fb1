// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse | FileCheck %s
// RUN: sed 's/x12x/x20x/g' %s | mla-opt --convert-mla-to-tile=target=sm90 --canonicalize --cse | FileCheck %s --check-prefix=MANY
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --canonicalize --cse | FileCheck %s --check-prefix=MANY
// RUN: mla-opt %s --convert-mla-to-tile="target=sm90 fixed-blocks=1" --canonicalize --cse | FileCheck %s --check-prefix=MANY

// Where nobody knows how many queries of requests there are, two queries of few heads over a
// latent's codes have a kernel of their own. More rows than consumers in turns hold, the CPU, and
// results that must not depend on the batch have one for all.

!codes = !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = half, format = "mla_fp8_tensor">
!any = !mla.batch

// CHECK-LABEL: tile.plan @queries
// CHECK: %[[LONGEST:.*]] = tile.dim "max_query_len"
// CHECK: %[[ROWS:.*]] = arith.muli %[[LONGEST]], %c12
// CHECK: arith.cmpi sle, %[[ROWS]], %c24
// CHECK: tile.launch @[[FEW:absorbed_attention[_0-9]*]] grid
// CHECK: else
// CHECK: tile.launch @[[OTHERS:absorbed_attention[_0-9]*]] grid
// CHECK-DAG: tile.kernel @[[FEW]]({{.*}}tile.max_rows = 24
// MANY-LABEL: tile.plan @queries
// MANY: tile.launch @absorbed_attention
// MANY-NOT: tile.launch @absorbed_attention
// MANY: tile.return
func.func @queries(%q: tensor<?x12x512xbf16> {mla.input = "q"}, %p: tensor<?x12x64xbf16> {mla.input = "p"}, %batch: !any,
    %kv: !codes) -> (tensor<?x12x512xbf16> {mla.output = "output"}) {
  %o = mla.absorbed_attention query(%q, %p : tensor<?x12x512xbf16>, tensor<?x12x64xbf16>)
      over %kv, %batch : !codes, !any scale 0.1 -> tensor<?x12x512xbf16>
  return %o : tensor<?x12x512xbf16>
}
