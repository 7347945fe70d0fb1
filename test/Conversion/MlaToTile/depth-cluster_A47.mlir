// Where few tiles leave multiprocessors idle, CTAs of a cluster may divide the depth: of values up to 64 rows, of codes
// and codes also of more, in ranges of rows. The CPU knows nothing of it.
//
// RUN: mla-opt %s --split-input-file --convert-mla-to-tile=target=sm90 --canonicalize --cse | FileCheck %s
// RUN: mla-opt %s --split-input-file --convert-mla-to-tile=target=cpu --canonicalize --cse | FileCheck %s --check-prefix=CPU
// CPU-NOT: depth_cluster

// 64 programs of 132, and with more rows whole depths.
// CHECK-LABEL: tile.kernel @linear_4096x8192_rows_16
// CHECK-SAME: tile.depth_cluster = 2
// CHECK-LABEL: tile.kernel @linear_4096x8192_rows_64
// CHECK-SAME: tile.depth_cluster = 2
// CHECK-NOT: depth_cluster
func.func @values(%x: tensor<?x8192xbf16> {mla.input = "x"}, %w: tensor<4096x8192xbf16> {mla.weight = "w"})
    -> (tensor<?x4096xbf16> {mla.output = "y"}) {
  %y = mla.project %x, %w : tensor<?x8192xbf16>, tensor<4096x8192xbf16> -> tensor<?x4096xbf16>
  return %y : tensor<?x4096xbf16>
}

// -----

// 112 programs are enough; one step is none that could be divided.
// CHECK-LABEL: tile.plan @wide
// CHECK-NOT: depth_cluster
func.func @wide(%x: tensor<?x4096xbf16> {mla.input = "x"}, %w: tensor<7168x4096xbf16> {mla.weight = "w"},
                %v: tensor<64x64xbf16> {mla.weight = "v"}, %z: tensor<?x64xbf16> {mla.input = "z"})
    -> (tensor<?x7168xbf16> {mla.output = "y"}, tensor<?x64xbf16> {mla.output = "a"}) {
  %y = mla.project %x, %w : tensor<?x4096xbf16>, tensor<7168x4096xbf16> -> tensor<?x7168xbf16>
  %a = mla.project %z, %v : tensor<?x64xbf16>, tensor<64x64xbf16> -> tensor<?x64xbf16>
  return %y, %a : tensor<?x7168xbf16>, tensor<?x64xbf16>
}

// -----

// The programs of a cluster are fewer: half of the multiprocessors, so that its CTAs are all of them.
// CHECK-LABEL: tile.plan @codes
// CHECK: %[[SMS:.*]] = tile.dim "num_sms"
// CHECK: %[[CLUSTERS:.*]] = arith.ceildivsi %[[SMS]], %c2
// CHECK: tile.launch @linear_coded_4096x8192_tile_128x128_cluster_2 grid(%[[CLUSTERS]], %c1, %c1)
// CHECK-LABEL: tile.kernel @linear_coded_4096x8192_rows_128
// CHECK-SAME: tile.depth_cluster = 2
// CHECK-LABEL: tile.kernel @linear_coded_4096x8192_tile_128x128_cluster_2
// CHECK-SAME: tile.depth_cluster = 2
func.func @codes(%x: tensor<?x8192xbf16> {mla.input = "x"}, %c: tensor<4096x8192xf8E4M3FN> {mla.weight = "w.weight"},
                 %s: tensor<32x64xf32> {mla.weight = "w.weight_scale_inv"}) -> (tensor<?x4096xbf16> {mla.output = "y"}) {
  %w = mla.scaled_weight %c, %s block [128, 128] : tensor<4096x8192xf8E4M3FN>, tensor<32x64xf32> -> tensor<4096x8192xbf16>
  %xc = mla.coded_rows %x group 128 : tensor<?x8192xbf16>
  %y = mla.project %xc, %w : tensor<?x8192xbf16>, tensor<4096x8192xbf16> -> tensor<?x4096xbf16>
  return %y : tensor<?x4096xbf16>
}
