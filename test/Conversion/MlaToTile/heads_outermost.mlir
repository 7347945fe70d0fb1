// Latent queries that lie head by head, [N, T, C]: heads of a token are T · C elements apart, whatever T is.
// RUN: sed 's/HEADS/40/g;s/QUERIES/1/g' %s | mla-opt --convert-mla-to-tile=target=sm90 --tile-expand-attend --cse --canonicalize | FileCheck %s --check-prefix=ONE
// RUN: sed 's/HEADS/40/g;s/QUERIES/1/g' %s | mla-opt --convert-mla-to-tile=target=cpu --tile-expand-attend --cse --canonicalize | FileCheck %s --check-prefix=ONE
// RUN: sed 's/HEADS/128/g;s/QUERIES/2/g' %s | mla-opt --convert-mla-to-tile=target=sm90 --tile-expand-attend --cse --canonicalize | FileCheck %s --check-prefix=WHOLE
// RUN: sed 's/HEADS/16/g;s/QUERIES/2/g' %s | mla-opt --convert-mla-to-tile=target=sm90 --tile-expand-attend --cse --canonicalize | FileCheck %s --check-prefix=GROUPS
// RUN: sed 's/HEADS/24/g;s/QUERIES/2/g' %s | mla-opt --convert-mla-to-tile=target=cpu --tile-expand-attend --cse --canonicalize | FileCheck %s --check-prefix=GROUPS

// One query per request: the heads of its token are rows of a view, behind which are zeros.
// ONE-LABEL: tile.kernel @absorbed_attention(
// ONE: %[[TOKEN:.*]] = arith.muli %{{.*}}, %c48
// ONE: %[[STRIDE:.*]] = arith.muli %[[TOKENS:arg[0-9]+]], %c48
// ONE: %[[VIEW:.*]] = memref.reinterpret_cast %{{.*}} to offset: [%[[TOKEN]]], sizes: [40, 48], strides: [%[[STRIDE]], 1]
// ONE-NEXT: tile.load %[[VIEW]][%{{.*}}, %c0{{.*}}] : memref<40x48xbf16, strided<[?, 1], offset: ?>>

// Tiles of whole tokens' halves: which token follows from the row, and tiles that a shorter request does not
// have stay within the tensor.
// WHOLE-LABEL: tile.kernel @absorbed_attention(
// WHOLE: %[[OWN:.*]] = arith.divui %[[ROW:.*]], %c128
// WHOLE: %[[ANY:.*]] = arith.addi %{{.*}}, %[[OWN]]
// WHOLE: %[[LAST:.*]] = arith.subi %[[TOKENS:arg[0-9]+]], %c1
// WHOLE: %[[TOKEN:.*]] = arith.minsi %[[ANY]], %[[LAST]]
// WHOLE: %[[HEAD:.*]] = arith.remui %[[ROW]], %c128
// WHOLE: %[[OFFSET:.*]] = arith.muli %[[TOKEN]], %c48
// WHOLE: %[[VIEW:.*]] = memref.reinterpret_cast %{{.*}} to offset: [%[[OFFSET]]], sizes: [128, 48]
// WHOLE-NEXT: tile.load %[[VIEW]][%[[HEAD]], %c0{{.*}}]

// Tiles of several tokens: rows in groups.
// GROUPS-LABEL: tile.kernel @absorbed_attention(
// GROUPS: %[[STRIDE:.*]] = arith.muli %[[TOKENS:arg[0-9]+]], %c48
// GROUPS: %[[VIEW:.*]] = memref.reinterpret_cast %{{.*}} to offset: [0], sizes: [%[[TOKENS]], {{16|24}}, 48], strides: [48, %[[STRIDE]], 1]
// GROUPS: tile.load %[[VIEW]][%{{.*}}, %c0{{.*}}] : memref<?x{{16|24}}x48xbf16, strided<[48, ?, 1]>>
func.func @decode(%q: tensor<?xHEADSx48xbf16> {mla.input = "q", mla.heads_outermost},
                  %q_pe: tensor<?xHEADSx16xbf16> {mla.input = "q_pe"},
                  %batch: !mla.batch<query_len = QUERIES>,
                  %cache: !mla.cache<page_size = 16, fields = [latent: 48, rope: 16], element = bf16, rope_order = half>)
    -> (tensor<?xHEADSx48xbf16> {mla.output = "output"}) {
  %o = mla.absorbed_attention query(%q, %q_pe : tensor<?xHEADSx48xbf16>, tensor<?xHEADSx16xbf16>)
      over %cache, %batch : <page_size = 16, fields = [latent: 48, rope: 16], element = bf16, rope_order = half>, <query_len = QUERIES>
      scale 0.25 -> tensor<?xHEADSx48xbf16>
  return %o : tensor<?xHEADSx48xbf16>
}
