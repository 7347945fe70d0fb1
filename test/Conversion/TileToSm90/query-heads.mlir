// Latent queries that lie head by head: a map has all tokens, of which a copy names one (its heads), or
// tokens as groups of heads. What is computed: test/unit/Simulator/DerivedSchedulesTest.cpp.
// RUN: sed 's/HEADS/64/g;s/QUERIES/1/g' %s | mla-opt --mla-lower-to-tile=target=sm90 --tile-plan-schedules=schedule=relay --convert-tile-to-sm90 2>/dev/null | FileCheck %s --check-prefix=RELAY
// RUN: sed 's/HEADS/16/g;s/QUERIES/1/g' %s | mla-opt --mla-lower-to-tile=target=sm90 --tile-plan-schedules=schedule=stream --tile-swap-operands --convert-tile-to-sm90 2>/dev/null | FileCheck %s --check-prefix=STREAM
// RUN: sed 's/HEADS/16/g;s/QUERIES/4/g' %s | mla-opt --mla-lower-to-tile=target=sm90 --tile-plan-schedules=schedule=relay --convert-tile-to-sm90 2>/dev/null | FileCheck %s --check-prefix=GROUPS
// RUN: sed 's/HEADS/20/g;s/QUERIES/2/g' %s | not mla-opt --mla-lower-to-tile=target=sm90 --tile-plan-schedules=schedule=relay 2>&1 | FileCheck %s --check-prefix=NONE

// RELAY: %[[STRIDE:.*]] = arith.muli %[[TOKENS:arg[0-9]+]], %c256
// RELAY: %[[VIEW:.*]] = memref.reinterpret_cast %{{.*}} to offset: [0], sizes: [%[[TOKENS]], 64, 256], strides: [256, %[[STRIDE]], 1]
// RELAY: %[[MAP:.*]] = sm90.tensor_map %[[VIEW]] : {{.*}} -> <64x128xbf16>
// The right half to the ring of queries, the left one to that of the left half: of a token, from head 0 on.
// RELAY: sm90.tma_load %[[MAP]][%{{.*}}, %{{.*}}, %c128{{.*}}] to
// RELAY: sm90.role "left"
// RELAY: sm90.tma_load %[[MAP]][%{{.*}}, %{{.*}}, %c0{{.*}}] to
// RELAY-NOT: sm90.copy

// STREAM: %[[VIEW:.*]] = memref.reinterpret_cast %{{.*}} to offset: [0], sizes: [%[[TOKENS:arg[0-9]+]], 16, 256], strides: [256, %{{.*}}, 1]
// STREAM: %[[MAP:.*]] = sm90.tensor_map %[[VIEW]] : {{.*}} -> <16x64xbf16>
// STREAM: sm90.tma_load %[[MAP]][%{{.*}}, %{{.*}}, %{{.*}}] to
// STREAM-NOT: sm90.copy

// Boxes of 4 tokens of 16 heads, of one panel: two make the half.
// GROUPS: %[[VIEW:.*]] = memref.reinterpret_cast %{{.*}} to offset: [0], sizes: [%[[TOKENS:arg[0-9]+]], 1, 16, 256], strides: [256, 256, %{{.*}}, 1]
// GROUPS: %[[MAP:.*]] = sm90.tensor_map %[[VIEW]] : {{.*}} -> <64x64xbf16>
// GROUPS: sm90.tma_load %[[MAP]][%{{.*}}, %c0{{.*}}, %c0{{.*}}, %c128{{.*}}] to
// GROUPS-NOT: sm90.copy

// NONE: TMA cannot copy its queries
func.func @decode(%q: tensor<?xHEADSx256xbf16> {mla.input = "q", mla.heads_outermost},
                  %q_pe: tensor<?xHEADSx64xbf16> {mla.input = "q_pe"},
                  %batch: !mla.batch<query_len = QUERIES>,
                  %cache: !mla.cache<page_size = 64, fields = [latent: 256, rope: 64], element = bf16, rope_order = half>)
    -> (tensor<?xHEADSx256xbf16> {mla.output = "output"}) {
  %o = mla.absorbed_attention query(%q, %q_pe : tensor<?xHEADSx256xbf16>, tensor<?xHEADSx64xbf16>)
      over %cache, %batch : <page_size = 64, fields = [latent: 256, rope: 64], element = bf16, rope_order = half>, <query_len = QUERIES>
      scale 0.25 -> tensor<?xHEADSx256xbf16>
  return %o : tensor<?xHEADSx256xbf16>
}
