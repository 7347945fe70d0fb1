// RUN: mla-opt %s --split-input-file --convert-mla-to-tile=target=sm90 --canonicalize --cse \
// RUN:     --tile-plan-schedules 2>&1 >/dev/null | FileCheck %s
// RUN: mla-opt %s --split-input-file --convert-mla-to-tile=target=sm90 --canonicalize --cse \
// RUN:     --tile-plan-schedules 2>/dev/null | FileCheck %s --check-prefix=IR
// RUN: mla-opt %s --split-input-file --convert-mla-to-tile=target=sm90 --canonicalize --cse \
// RUN:     --tile-plan-schedules="option=left-stages=3" 2>&1 >/dev/null | FileCheck %s
// RUN: not mla-opt %s --convert-mla-to-tile=target=sm90 --canonicalize --cse \
// RUN:     --tile-plan-schedules="schedule=relay option=left-stages=3" 2>&1 >/dev/null | FileCheck %s --check-prefix=NONE
// RUN: mla-opt %s --split-input-file --convert-mla-to-tile=target=sm90 --canonicalize --cse \
// RUN:     --tile-plan-schedules="schedule=simple" 2>/dev/null | FileCheck %s --check-prefix=SIMPLE
// RUN: not mla-opt %s --split-input-file --convert-mla-to-tile=target=sm90 --canonicalize --cse \
// RUN:     --tile-plan-schedules="schedule=pingpong option=key-block=256" 2>&1 | FileCheck %s --check-prefix=BAD
// RUN: not mla-opt %s --tile-plan-schedules="option=key-block=40" 2>&1 | FileCheck %s --check-prefix=MULTIPLE

// What relay and stream have is for other kernels; but if nobody can be what was asked for, it is an error.
// NONE: error: schedule: no kernel can be relay, which is for attention over a paged cache; kernels here:
// NONE-SAME: 'expanded_attention_causal' (attention over dense keys and values)
// MULTIPLE: error: schedule: key-block: expected a multiple of 16 from 16 to 256, got '40'

// CHECK: remark: kernel 'expanded_attention_causal': schedule pingpong key-block=128 key-stages=2 lazy-threshold=8
// CHECK-SAME: bound by tensor cores
// CHECK-SAME: not simple: 0.96 us for 64 rows and 64 keys
// IR: tile.kernel @expanded_attention_causal
// IR-SAME: tile.schedule = #tile.pingpong<key_block = 128, stages = 2, producer_registers = 56, consumer_registers = 224, lazy_threshold = 8.000000e+00>
// SIMPLE: tile.schedule = #tile.simple
// BAD: error: kernel 'expanded_attention_causal': not pingpong: key-block 256 and values of 128 columns take 256 registers of a thread, 168 are left for them
func.func @wide(%q: tensor<?x16x128xbf16> {mla.input = "q"}, %q_pe: tensor<?x16x64xbf16> {mla.input = "q_pe"},
                %k: tensor<?x16x128xbf16> {mla.input = "k"}, %k_pe: tensor<?x64xbf16> {mla.input = "k_pe"},
                %v: tensor<?x16x128xbf16> {mla.input = "v"}, %batch: !mla.batch)
    -> (tensor<?x16x128xbf16> {mla.output = "output"}) {
  %o = mla.expanded_attention query(%q, %q_pe : tensor<?x16x128xbf16>, tensor<?x16x64xbf16>)
      keys(%k, %k_pe : tensor<?x16x128xbf16>, tensor<?x64xbf16>) values(%v : tensor<?x16x128xbf16>)
      over %batch : <query_len = ?> scale 0.25 -> tensor<?x16x128xbf16>
  return %o : tensor<?x16x128xbf16>
}

// -----

// Wider heads get narrower blocks.
// CHECK: remark: kernel 'expanded_attention_causal': schedule pingpong key-block=48 key-stages=3
func.func @wider(%q: tensor<?x8x256xbf16> {mla.input = "q"}, %k: tensor<?x8x256xbf16> {mla.input = "k"},
                 %v: tensor<?x8x256xbf16> {mla.input = "v"}, %batch: !mla.batch)
    -> (tensor<?x8x256xbf16> {mla.output = "output"}) {
  %o = mla.expanded_attention query(%q : tensor<?x8x256xbf16>) keys(%k : tensor<?x8x256xbf16>)
      values(%v : tensor<?x8x256xbf16>) over %batch : <query_len = ?> scale 0.25 -> tensor<?x8x256xbf16>
  return %o : tensor<?x8x256xbf16>
}

// -----

// Rows of 3 · 20 elements are no multiple of 16 bytes.
// CHECK: remark: kernel 'expanded_attention_causal': schedule simple
// CHECK-SAME: not pingpong: TMA cannot copy a view with a stride or start of 120 bytes, not a multiple of 16
func.func @odd(%q: tensor<?x3x20xbf16> {mla.input = "q"}, %k: tensor<?x3x20xbf16> {mla.input = "k"},
               %v: tensor<?x3x16xbf16> {mla.input = "v"}, %batch: !mla.batch)
    -> (tensor<?x3x16xbf16> {mla.output = "output"}) {
  %o = mla.expanded_attention query(%q : tensor<?x3x20xbf16>) keys(%k : tensor<?x3x20xbf16>)
      values(%v : tensor<?x3x16xbf16>) over %batch : <query_len = ?> scale 0.25 -> tensor<?x3x16xbf16>
  return %o : tensor<?x3x16xbf16>
}
