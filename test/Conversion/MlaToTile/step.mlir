// RUN: mla-opt %s --convert-mla-to-tile --cse | FileCheck %s

// Where the tensors of a step lie.

// Both branches write the output's buffer; nothing is copied.
// CHECK-LABEL: tile.plan @branches
// CHECK: %[[X:.*]] = tile.buffer input "hidden"
// CHECK: %[[W:.*]] = tile.buffer weight "w"
// CHECK: %[[OUT:.*]] = tile.buffer output "output"
// CHECK-NOT: tile.workspace
// CHECK: %[[FEW:.*]] = arith.cmpi sle
// CHECK: scf.if %[[FEW]] {
// CHECK: tile.launch @rms_norm_32 {{.*}} args(%[[X]], %{{.*}}, %[[OUT]], %{{.*}})
// CHECK-NEXT: } else {
// CHECK-NEXT: tile.launch @rms_norm_32_0 {{.*}} args(%[[X]], %{{.*}}, %[[OUT]], %{{.*}})
// CHECK-NEXT: }
// CHECK-NEXT: tile.return
func.func @branches(%x: tensor<?x32xf32> {mla.input = "hidden"}, %w: tensor<32xf32> {mla.weight = "w"},
                    %batch: !mla.batch) -> (tensor<?x32xf32> {mla.output = "output"}) {
  %c7 = arith.constant 7 : index
  %t = mla.batch_dim %batch "num_tokens" : <query_len = ?>
  %few = arith.cmpi sle, %t, %c7 : index
  %y = scf.if %few -> (tensor<?x32xf32>) {
    %a = mla.rms_norm %x, %w eps 1.0e-6 : tensor<?x32xf32>, tensor<32xf32> -> tensor<?x32xf32>
    scf.yield %a : tensor<?x32xf32>
  } else {
    %b = mla.rms_norm %x, %w eps 1.0e-5 : tensor<?x32xf32>, tensor<32xf32> -> tensor<?x32xf32>
    scf.yield %b : tensor<?x32xf32>
  }
  return %y : tensor<?x32xf32>
}

// A value that lies elsewhere is copied: the input itself in one branch; a
// result returned twice.
// CHECK-LABEL: tile.plan @copies
// CHECK: %[[X:.*]] = tile.buffer input "hidden"
// CHECK: %[[SAME:.*]] = tile.buffer output "same"
// CHECK: %[[OUT:.*]] = tile.buffer output "output"
// CHECK: scf.if
// CHECK: tile.launch @rms_norm_32
// CHECK-NEXT: } else {
// CHECK: tile.launch @copy {{.*}} args(%[[X]], %{{.*}})
// CHECK: }
// CHECK: tile.launch @copy
func.func @copies(%x: tensor<?x32xf32> {mla.input = "hidden"}, %w: tensor<32xf32> {mla.weight = "w"},
                  %batch: !mla.batch)
    -> (tensor<?x32xf32> {mla.output = "output"}, tensor<?x32xf32> {mla.output = "same"}) {
  %c7 = arith.constant 7 : index
  %t = mla.batch_dim %batch "num_tokens" : <query_len = ?>
  %few = arith.cmpi sle, %t, %c7 : index
  %y = scf.if %few -> (tensor<?x32xf32>) {
    %a = mla.rms_norm %x, %w eps 1.0e-6 : tensor<?x32xf32>, tensor<32xf32> -> tensor<?x32xf32>
    scf.yield %a : tensor<?x32xf32>
  } else {
    scf.yield %x : tensor<?x32xf32>
  }
  return %y, %y : tensor<?x32xf32>, tensor<?x32xf32>
}

// A carried tensor that is not merged is computed elsewhere and copied back, for
// it is read until the end of the iteration.
// CHECK-LABEL: tile.plan @carried
// CHECK: %[[OUT:.*]] = tile.buffer output "output"
// CHECK: tile.launch @copy {{.*}}
// CHECK: scf.for
// CHECK: %[[NEXT:.*]] = tile.workspace
// CHECK: tile.launch @rms_norm_32 {{.*}} args(%[[OUT]], %{{.*}}, %[[NEXT]], %{{.*}})
// CHECK: tile.launch @copy {{.*}} args(%[[NEXT]], %[[OUT]], %{{.*}})
func.func @carried(%x: tensor<?x32xf32> {mla.input = "hidden"}, %w: tensor<32xf32> {mla.weight = "w"},
                   %batch: !mla.batch) -> (tensor<?x32xf32> {mla.output = "output"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = mla.batch_dim %batch "num_chunks" : <query_len = ?>
  %y = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x) -> (tensor<?x32xf32>) {
    %b = mla.rms_norm %a, %w eps 1.0e-6 : tensor<?x32xf32>, tensor<32xf32> -> tensor<?x32xf32>
    scf.yield %b : tensor<?x32xf32>
  }
  return %y : tensor<?x32xf32>
}

// Rows computed from a gather are those of a chunk.
// CHECK-LABEL: tile.plan @chunk_rows
// CHECK: %[[ROWS:.*]] = tile.dim "chunk_tokens"
// CHECK: arith.muli %[[ROWS]], %c40
// CHECK: tile.launch @linear_24x40_{{.*}} %[[ROWS]])
func.func @chunk_rows(%batch: !mla.batch, %w: tensor<24x40xbf16> {mla.weight = "w"},
    %cache: !mla.cache<page_size = 16, fields = [latent: 40], element = bf16, rope_order = half>)
    -> (tensor<?x24xbf16> {mla.output = "output"}) {
  %c0 = arith.constant 0 : index
  %latent = mla.gather %cache, %batch chunk %c0
      : <page_size = 16, fields = [latent: 40], element = bf16, rope_order = half>, <query_len = ?>
      -> tensor<?x40xbf16>
  %y = mla.project %latent, %w : tensor<?x40xbf16>, tensor<24x40xbf16> -> tensor<?x24xbf16>
  return %y : tensor<?x24xbf16>
}

// Equal kernels exist once, whoever launches them.
// CHECK-COUNT-1: tile.kernel @copy(
// CHECK-NOT: tile.kernel @copy
