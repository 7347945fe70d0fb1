// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --cse | FileCheck %s

// Norm and rotation of heads, and the rotation and append of the same tokens' key that directly follows, are one launch: each token's last
// program has its key. Where tokens alone are many programs, they are two launches of more rows each.

!latents = !mla.cache<page_size = 64, fields = [latent: 512], element = bf16, rope_order = interleaved>
!q = tensor<?x6x512xbf16>
!k = tensor<?x512xbf16>
!t = tensor<?x64xf32>
#rope = #mla.rope<order = interleaved, dim = 64, theta = 1.0e4, length = 4096>

// CHECK-LABEL: tile.plan @together
// CHECK:      %[[T:.*]] = tile.dim "num_tokens"
// CHECK:      %[[ROWS:.*]] = arith.muli %[[T]], %c6
// CHECK:      arith.cmpi sle, %[[ROWS]], %c2048
// CHECK:      tile.launch @norm_rope_64_512_rope_append_64_512 grid(%[[T]], %c7{{.*}}, %c1{{.*}})
// CHECK:      arith.cmpi sle, %[[T]], %c2048
// CHECK:      tile.launch @norm_rope_64_512_rows_4_rope_append_64_512 grid(%[[T]], %c3{{.*}}, %c1{{.*}})
// CHECK:      tile.launch @norm_rope_64_512_rows_4 grid(%[[T]], %c2{{.*}}, %c1{{.*}})
// CHECK:      tile.launch @rope_append_64_512_rows_4 grid(
// CHECK-NOT:  tile.launch
// CHECK-LABEL: tile.plan @apart
// CHECK:      tile.launch @rope_append_64_512{{(_[0-9])?}} grid(
// CHECK:      tile.launch @rope_append_64_512_rows_4{{(_[0-9])?}} grid(
// CHECK:      tile.launch @norm_rope_64_512{{(_[0-9])?}} grid(
// CHECK:      tile.launch @norm_rope_64_512_rows_4{{(_[0-9])?}} grid(
// CHECK-NOT:  tile.launch
// CHECK:      tile.kernel @norm_rope_64_512_rope_append_64_512(
// CHECK-SAME: tile.row_kernel
// CHECK:      %[[PROGRAM:.*]] = tile.program_id 1
// CHECK:      %[[IS_HEAD:.*]] = arith.cmpi slt, %[[PROGRAM]], %c6
// CHECK:      scf.if %[[IS_HEAD]]
func.func @together(%q: !q {mla.input = "q"}, %k: !k {mla.input = "k"}, %b: !mla.batch, %c: !latents) -> (!q {mla.output = "rotated"}, !latents) {
  %t = mla.rope_table #rope : !t
  %r = mla.norm_rope %q eps 1.0e-6 rope %t, %b with #rope offset 448 : !q rope !t, !mla.batch -> !q
  %new = mla.rope_append %k rope %t with #rope offset 448 into %c, %b : !k rope !t into !latents, !mla.batch
  return %r, %new : !q, !latents
}

// The key first, as no layer has it.
func.func @apart(%q: !q {mla.input = "q"}, %k: !k {mla.input = "k"}, %b: !mla.batch, %c: !latents) -> (!q {mla.output = "rotated"}, !latents) {
  %t = mla.rope_table #rope : !t
  %new = mla.rope_append %k rope %t with #rope offset 448 into %c, %b : !k rope !t into !latents, !mla.batch
  %r = mla.norm_rope %q eps 1.0e-6 rope %t, %b with #rope offset 448 : !q rope !t, !mla.batch -> !q
  return %r, %new : !q, !latents
}
