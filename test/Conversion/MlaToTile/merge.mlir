// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --cse | FileCheck %s
// RUN: mla-opt %s --convert-mla-to-tile=target=cpu --cse | FileCheck %s

// A32. Merging partials, and conventions of the LSE.

!lse = tensor<?x20xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
!head_major = tensor<20x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>>
!flash_mla = tensor<20x?xf32, #mla.lse<base = two, layout = head_major, empty = pos_inf>>

// The loop's partial lives in one buffer pair: the identity is written there, and
// every merge is in place. The output of an empty partial is never written.
// CHECK-LABEL: tile.plan @loop_A32
// CHECK: %[[T:.*]] = tile.dim "num_tokens"
// CHECK: %[[X:.*]] = tile.buffer input "x" elements
// CHECK: %[[X_LSE:.*]] = tile.buffer input "x_lse"
// CHECK: %[[OUT:.*]] = tile.buffer output "output" elements %{{.*}} : memref<?xf32>
// CHECK: %[[OUT_LSE:.*]] = tile.buffer output "lse" elements %{{.*}} : memref<?xf32>
// CHECK-NOT: tile.workspace
// CHECK: tile.launch @fill_empty_lse {{.*}} args(%[[OUT_LSE]], %{{.*}})
// CHECK-NOT: tile.launch
// CHECK: scf.for %{{.*}} = %c0{{.*}} to %{{.*}} step %c1
// CHECK: tile.launch @merge {{.*}} args(%[[T]], %[[OUT]], %[[OUT_LSE]], %[[X]], %[[X_LSE]], %[[OUT]], %[[OUT_LSE]])
// CHECK-NOT: tile.launch
// CHECK: tile.return
func.func @loop_A32(%x: tensor<?x20x40xf32> {mla.input = "x"}, %x_lse: !lse {mla.input = "x_lse"},
                %batch: !mla.batch)
    -> (tensor<?x20x40xf32> {mla.output = "output"}, !lse {mla.output = "lse"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = mla.batch_dim %batch "num_chunks" : <query_len = ?>
  %e, %e_lse = mla.empty_partial %batch : <query_len = ?> -> tensor<?x20x40xf32>, !lse
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %e, %a_lse = %e_lse) -> (tensor<?x20x40xf32>, !lse) {
    %m, %m_lse = mla.merge %a, %a_lse with %x, %x_lse
        : tensor<?x20x40xf32>, !lse with tensor<?x20x40xf32>, !lse -> tensor<?x20x40xf32>, !lse
    scf.yield %m, %m_lse : tensor<?x20x40xf32>, !lse
  }
  return %r#0, %r#1 : tensor<?x20x40xf32>, !lse
}

// Head-major LSEs: programs per head.
// CHECK-LABEL: tile.plan @head_major
// CHECK: tile.launch @[[PER_HEAD:merge_[0-9]+]] grid(%{{.*}}, %c20{{.*}}, %c1{{.*}})
// CHECK: tile.launch @convert_lse grid(%{{.*}}, %c20{{.*}}, %c1{{.*}})
func.func @head_major(%x: tensor<?x20x40xbf16> {mla.input = "x"}, %x_lse: !head_major {mla.input = "x_lse"})
    -> (tensor<?x20x40xbf16> {mla.output = "output"}, !flash_mla {mla.output = "lse"}) {
  %m, %m_lse = mla.merge %x, %x_lse with %x, %x_lse
      : tensor<?x20x40xbf16>, !head_major with tensor<?x20x40xbf16>, !head_major -> tensor<?x20x40xbf16>, !head_major
  %c = mla.convert_lse %m_lse : !head_major -> !flash_mla
  return %m, %c : tensor<?x20x40xbf16>, !flash_mla
}

// CHECK-LABEL: tile.kernel @fill_empty_lse(
// CHECK: dense<0xFF800000>
// CHECK: tile.store

// Infinite LSEs read as empty; weights of 0 hide the output; LSEs are stored last.
// CHECK-LABEL: tile.kernel @merge(
// CHECK-SAME: tile.row_kernel
// CHECK: math.absf
// CHECK: arith.cmpf oeq
// CHECK: arith.select
// CHECK: arith.maximumf
// CHECK: %[[W:.*]] = math.exp
// CHECK: arith.divf %[[W]]
// CHECK: tile.load
// CHECK: %[[WB:.*]] = tile.broadcast %[[W]]
// CHECK: %[[EMPTY:.*]] = arith.cmpf oeq, %[[WB]]
// CHECK: arith.select %[[EMPTY]]
// CHECK: tile.store
// CHECK: math.log
// CHECK: tile.store
// CHECK-NOT: tile.load
// CHECK: tile.return

// CHECK: tile.kernel @[[PER_HEAD]](
// CHECK-SAME: %[[TOKENS:.*]]: index, %[[A:.*]]: memref<?xbf16>, %[[A_LSE:[^:]*]]: memref<?xf32>
// CHECK: %[[HEAD:.*]] = tile.program_id 1
// CHECK: %[[AT:.*]] = arith.muli %[[HEAD]], %[[TOKENS]]
// CHECK: memref.reinterpret_cast %[[A_LSE]] to offset: [%[[AT]]], sizes: [%[[TOKENS]]], strides: [1]

// To base 2 (x · log2 e), empty rows +inf.
// CHECK-LABEL: tile.kernel @convert_lse(
// CHECK: %[[INFINITY:.*]] = arith.constant dense<0x7F800000>
// CHECK: %[[EMPTY:.*]] = arith.cmpf oeq, %{{.*}}, %[[INFINITY]]
// CHECK: dense<1.44269502>
// CHECK: arith.select %[[EMPTY]], %[[INFINITY]]
