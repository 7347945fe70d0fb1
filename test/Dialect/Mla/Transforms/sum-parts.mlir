// RUN: mla-opt %s --split-input-file --mla-sum-parts=target=sm90 | FileCheck %s
// RUN: mla-opt %s --split-input-file --mla-sum-parts=target=sm90 --mla-sum-parts=target=sm90 | FileCheck %s
// RUN: mla-opt %s --split-input-file --mla-sum-parts | FileCheck %s --check-prefix=CPU

// CPU-NOT: mla.sum_parts

!x = tensor<?x7168xbf16>
!cache = !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>
#rope = #mla.rope<order = interleaved, dim = 64, theta = 1.0e4, length = 4096>

// DeepSeek-V3's: 1536 + 576 columns are 33 tiles of 64, four parts are 132 programs. What stands
// between them stays behind.
// CHECK-LABEL: func @both
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<?x7168xbf16>
// CHECK-NEXT: %[[SUM:.*]]:2 = mla.sum_parts 4 -> tensor<?x1536xbf16>, !mla.cache<{{.*}}> {
// CHECK-NEXT: %[[Q:.*]] = mla.latent_project %[[X]],
// CHECK-NEXT: %[[KV:.*]] = mla.latent_append %[[X]],
// CHECK-NEXT: mla.yield %[[Q]], %[[KV]] :
// CHECK-NEXT: }
// CHECK-NEXT: mla.project %[[SUM]]#0,
// CHECK-NEXT: return %{{.*}}, %[[SUM]]#1
func.func @both(%x: !x, %v: tensor<1536x7168xbf16>, %h: tensor<1536xbf16>, %w: tensor<576x7168xbf16>,
                %g: tensor<512xbf16>, %u: tensor<24576x1536xbf16>, %t: tensor<?x64xf32>, %b: !mla.batch, %cache: !cache)
    -> (tensor<?x24576xbf16>, !cache) {
  %cq = mla.latent_project %x, %v, %h eps 1.0 : !x, tensor<1536x7168xbf16>, tensor<1536xbf16> -> tensor<?x1536xbf16>
  %q = mla.project %cq, %u : tensor<?x1536xbf16>, tensor<24576x1536xbf16> -> tensor<?x24576xbf16>
  %new = mla.latent_append %x, %w, %g eps 1.0 rope %t with #rope into %cache, %b
    : !x, tensor<576x7168xbf16>, tensor<512xbf16> rope tensor<?x64xf32> into !cache, !mla.batch
  return %q, %new : tensor<?x24576xbf16>, !cache
}

// -----

!x = tensor<?x7168xbf16>

// An indexer's keys and weights of heads join, since they are too narrow by themselves: 27 tiles, of which
// seven parts would be two turns of eight blocks, 14 are three turns of four. A product that is wide enough stays, as does
// one with a bias.
// CHECK-LABEL: func @index
// CHECK: %[[SUM:.*]]:3 = mla.sum_parts 14 -> tensor<?x1536xbf16>, tensor<?x128xbf16>, tensor<?x64xbf16> {
// CHECK-NEXT: mla.latent_project
// CHECK-NEXT: mla.project %{{.*}} tensor<128x7168xbf16>
// CHECK-NEXT: mla.project %{{.*}} tensor<64x7168xbf16>
// CHECK-NEXT: mla.yield
// CHECK-NEXT: }
// CHECK-NEXT: mla.project %{{.*}} tensor<7168x7168xbf16>
// CHECK-NEXT: mla.project %{{.*}} bias
func.func @index(%x: !x, %v: tensor<1536x7168xbf16>, %h: tensor<1536xbf16>, %k: tensor<128x7168xbf16>,
                 %w: tensor<64x7168xbf16>, %wide: tensor<7168x7168xbf16>, %b: tensor<64xbf16>)
    -> (tensor<?x1536xbf16>, tensor<?x128xbf16>, tensor<?x64xbf16>, tensor<?x7168xbf16>, tensor<?x64xbf16>) {
  %cq = mla.latent_project %x, %v, %h eps 1.0 : !x, tensor<1536x7168xbf16>, tensor<1536xbf16> -> tensor<?x1536xbf16>
  %a = mla.project %x, %wide : !x, tensor<7168x7168xbf16> -> tensor<?x7168xbf16>
  %key = mla.project %x, %k : !x, tensor<128x7168xbf16> -> tensor<?x128xbf16>
  %head = mla.project %x, %w : !x, tensor<64x7168xbf16> -> tensor<?x64xbf16>
  %biased = mla.project %x, %w bias(%b : tensor<64xbf16>) : !x, tensor<64x7168xbf16> -> tensor<?x64xbf16>
  return %cq, %key, %head, %a, %biased : tensor<?x1536xbf16>, tensor<?x128xbf16>, tensor<?x64xbf16>, tensor<?x7168xbf16>, tensor<?x64xbf16>
}

// Alone: 9 tiles, cut as often as the machine's sums allow and the depth's blocks of 128 divide.
// CHECK-LABEL: func @alone
// CHECK: mla.sum_parts 14 -> tensor<?x512xbf16>, tensor<?x64xbf16> {
// CHECK-NEXT: %[[C:.*]], %[[K:.*]] = mla.latent_project
// CHECK-NEXT: mla.yield %[[C]], %[[K]]
func.func @alone(%x: !x, %w: tensor<576x7168xbf16>, %g: tensor<512xbf16>) -> (tensor<?x512xbf16>, tensor<?x64xbf16>) {
  %c, %k = mla.latent_project %x, %w, %g eps 1.0 : !x, tensor<576x7168xbf16>, tensor<512xbf16> -> tensor<?x512xbf16>, tensor<?x64xbf16>
  return %c, %k : tensor<?x512xbf16>, tensor<?x64xbf16>
}

// 112 tiles are enough without parts, and so are both together: not cut.
// CHECK-LABEL: func @enough
// CHECK-NOT: mla.sum_parts
func.func @enough(%x: !x, %w: tensor<7168x7168xbf16>, %g: tensor<7168xbf16>) -> tensor<?x7168xbf16> {
  %c = mla.latent_project %x, %w, %g eps 1.0 : !x, tensor<7168x7168xbf16>, tensor<7168xbf16> -> tensor<?x7168xbf16>
  return %c : tensor<?x7168xbf16>
}

// A bias would be added to every part.
// CHECK-LABEL: func @bias
// CHECK-NOT: mla.sum_parts
func.func @bias(%x: !x, %w: tensor<512x7168xbf16>, %g: tensor<512xbf16>) -> tensor<?x512xbf16> {
  %c = mla.latent_project %x, %w, %g bias(%g : tensor<512xbf16>) eps 1.0 : !x, tensor<512x7168xbf16>, tensor<512xbf16> -> tensor<?x512xbf16>
  return %c : tensor<?x512xbf16>
}

// -----

!x = tensor<?x512xbf16>

// Two, but not together: tiles of 64 columns would have rows of both weights.
// CHECK-LABEL: func @uneven
// CHECK-COUNT-2: mla.sum_parts 4
// CHECK-NOT: mla.sum_parts
func.func @uneven(%x: !x, %v: tensor<128x512xbf16>, %h: tensor<128xbf16>, %w: tensor<96x512xbf16>, %g: tensor<64xbf16>)
    -> (tensor<?x64xbf16>, tensor<?x32xbf16>, tensor<?x128xbf16>) {
  %c, %k = mla.latent_project %x, %w, %g eps 1.0 : !x, tensor<96x512xbf16>, tensor<64xbf16> -> tensor<?x64xbf16>, tensor<?x32xbf16>
  %y = mla.latent_project %x, %v, %h eps 1.0 : !x, tensor<128x512xbf16>, tensor<128xbf16> -> tensor<?x128xbf16>
  return %c, %k, %y : tensor<?x64xbf16>, tensor<?x32xbf16>, tensor<?x128xbf16>
}

// Nor of different rows, nor over what sees a cache.
// CHECK-LABEL: func @apart
// CHECK: mla.sum_parts 4 -> tensor<?x128xbf16> {
// CHECK: mla.copy_pages
// CHECK: mla.sum_parts 4 -> tensor<?x128xbf16> {
// CHECK: mla.sum_parts 4 -> tensor<?x128xbf16> {
func.func @apart(%x: !x, %z: !x, %v: tensor<128x512xbf16>, %h: tensor<128xbf16>, %b: !mla.batch,
                 %cache: !mla.cache<page_size = 16, fields = [latent: 64], element = bf16>)
    -> (tensor<?x128xbf16>, tensor<?x128xbf16>, tensor<?x128xbf16>, !mla.cache<page_size = 16, fields = [latent: 64], element = bf16>) {
  %y = mla.latent_project %x, %v, %h eps 1.0 : !x, tensor<128x512xbf16>, tensor<128xbf16> -> tensor<?x128xbf16>
  %new = mla.copy_pages %cache to %cache, %b : !mla.cache<page_size = 16, fields = [latent: 64], element = bf16>, !mla.batch
  %a = mla.latent_project %x, %v, %h eps 2.0 : !x, tensor<128x512xbf16>, tensor<128xbf16> -> tensor<?x128xbf16>
  %c = mla.latent_project %z, %v, %h eps 2.0 : !x, tensor<128x512xbf16>, tensor<128xbf16> -> tensor<?x128xbf16>
  return %y, %a, %c, %new : tensor<?x128xbf16>, tensor<?x128xbf16>, tensor<?x128xbf16>, !mla.cache<page_size = 16, fields = [latent: 64], element = bf16>
}

// Parts are whole blocks of the depth: 1000 has none of 64 or 128.
// CHECK-LABEL: func @ragged
// CHECK-NOT: mla.sum_parts
func.func @ragged(%x: tensor<?x1000xbf16>, %v: tensor<128x1000xbf16>, %h: tensor<128xbf16>) -> tensor<?x128xbf16> {
  %y = mla.latent_project %x, %v, %h eps 1.0 : tensor<?x1000xbf16>, tensor<128x1000xbf16>, tensor<128xbf16> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

// -----

// Another machine of the chip has the numbers of the one that is known.
// CHECK-LABEL: func @other_machine
// CHECK: mla.sum_parts 4
module attributes {mla.target = #mla.target<"other", num_sms = 66, matmul_tflops = 400.0, read_gbps = 2000.0, launch_us = 2.0>} {
func.func @other_machine(%x: tensor<?x512xbf16>, %v: tensor<128x512xbf16>, %h: tensor<128xbf16>) -> tensor<?x128xbf16> {
  %y = mla.latent_project %x, %v, %h eps 1.0 : tensor<?x512xbf16>, tensor<128x512xbf16>, tensor<128xbf16> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}
