// A06, A07, A08, A09, C06: the head projections of absorbed attention, online or
// folded into their neighbours. The rope part of the query is never absorbed. Erratum 5 of
// mla.md section 15: W_Q_UK is [Lq, N·Lkv] (here stored [N, Lkv, Lq]), not [Lkv, …].
//
// RUN: mla-opt %s --mla-absorb-weights | FileCheck %s --check-prefixes=CHECK,ONLINE
// RUN: mla-opt %s --mla-absorb-weights=mode=offline | FileCheck %s --check-prefixes=CHECK,OFFLINE
// RUN: mla-opt %s --mla-absorb-weights=mode=half-query | FileCheck %s --check-prefixes=CHECK,HALFQ
// RUN: mla-opt %s --mla-absorb-weights=mode=half-output | FileCheck %s --check-prefixes=CHECK,HALFO
// RUN: mla-opt %s --mla-absorb-weights=mode=auto | FileCheck %s --check-prefixes=CHECK,ONE
// RUN: mla-opt %s --mla-absorb-weights="mode=auto requests=1000000" | FileCheck %s --check-prefixes=CHECK,MANY

!cache = !mla.cache<page_size = 4, fields = [latent: 32, rope: 8], element = bf16, rope_order = interleaved>

// CHECK-LABEL: func @decode_A06_A07_A08_A09_C06
// CHECK-SAME: %[[QC:[a-z0-9]+]]: tensor<?x48xbf16>, %[[UQ:[a-z0-9]+]]: tensor<4x16x48xbf16>, %[[QR:[a-z0-9]+]]: tensor<4x8x48xbf16>, %[[C:[a-z0-9]+]]: tensor<?x32xbf16>, %[[KP:[a-z0-9]+]]: tensor<?x8xbf16>, %[[UK:[a-z0-9]+]]: tensor<4x16x32xbf16>, %[[UV:[a-z0-9]+]]: tensor<4x24x32xbf16>, %[[WO:[a-z0-9]+]]: tensor<64x96xbf16>, %[[CACHE:[a-z0-9]+]]: !mla.cache{{.*}}, %[[BATCH:[a-z0-9]+]]: !mla.batch
//
// ONLINE: %[[QN:.*]] = mla.project %[[QC]], %[[UQ]]
// ONLINE: %[[QP:.*]] = mla.project %[[QC]], %[[QR]]
// ONLINE: %[[QL:.*]] = mla.head_project %[[QN]], %[[UK]] contract_rows : {{.*}} -> tensor<?x4x32xbf16>
// ONLINE: %[[OL:.*]] = mla.absorbed_attention query(%[[QL]], %[[QP]] : {{.*}}) over %[[CACHE]], %[[BATCH]] : {{.*}} scale 2.000000e-01 -> tensor<?x4x32xbf16>
// ONLINE: %[[O:.*]] = mla.head_project %[[OL]], %[[UV]] : {{.*}} -> tensor<?x4x24xbf16>
// ONLINE: mla.project %[[O]], %[[WO]]
//
// OFFLINE-NOT: mla.project %[[QC]], %[[UQ]]
// OFFLINE: %[[QP:.*]] = mla.project %[[QC]], %[[QR]]
// OFFLINE: %[[WQ:.*]] = mla.fold_query %[[UQ]], %[[UK]] : {{.*}} -> tensor<4x32x48xbf16>
// OFFLINE: %[[QL:.*]] = mla.project %[[QC]], %[[WQ]] : {{.*}} -> tensor<?x4x32xbf16>
// OFFLINE: %[[OL:.*]] = mla.absorbed_attention query(%[[QL]], %[[QP]]
// OFFLINE: %[[W:.*]] = mla.fold_output %[[UV]], %[[WO]] : {{.*}} -> tensor<64x128xbf16>
// OFFLINE: %[[Y:.*]] = mla.project %[[OL]], %[[W]] : {{.*}} -> tensor<?x64xbf16>
// OFFLINE: return %[[Y]]
//
// HALFQ: mla.fold_query
// HALFQ: mla.absorbed_attention
// HALFQ-NOT: mla.fold_output
// HALFQ: mla.head_project
//
// HALFO-NOT: mla.fold_query
// HALFO: mla.head_project {{.*}} contract_rows
// HALFO: mla.absorbed_attention
// HALFO: mla.fold_output
//
// One request: launches dominate, so folding pays. Many: FLOPs do, and online
// has the fewest.
// ONE: mla.fold_query
// ONE: mla.fold_output
// MANY-NOT: mla.fold
// MANY: return
func.func @decode_A06_A07_A08_A09_C06(%qc: tensor<?x48xbf16>, %uq: tensor<4x16x48xbf16>, %qr: tensor<4x8x48xbf16>, %c: tensor<?x32xbf16>, %kp: tensor<?x8xbf16>,
    %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %wo: tensor<64x96xbf16>, %cache: !cache, %batch: !mla.batch<query_len = 1>) -> tensor<?x64xbf16> {
  %qn = mla.project %qc, %uq : tensor<?x48xbf16>, tensor<4x16x48xbf16> -> tensor<?x4x16xbf16>
  %qp = mla.project %qc, %qr : tensor<?x48xbf16>, tensor<4x8x48xbf16> -> tensor<?x4x8xbf16>
  %o = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x8xbf16>) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch<query_len = 1>
      scale 0.2 {form = #mla.form<absorbed>} -> tensor<?x4x24xbf16>
  %y = mla.project %o, %wo : tensor<?x4x24xbf16>, tensor<64x96xbf16> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// Both forms on a condition: the output projection moves into the branches where
// the output side is folded, the query projection stays for the other form.
// CHECK-LABEL: func @versioned
// OFFLINE: %[[QN:.*]] = mla.project {{.*}} -> tensor<?x4x16xbf16>
// OFFLINE: %[[Y:.*]] = scf.if %{{.*}} -> (tensor<?x64xbf16>)
// OFFLINE:   %[[E:.*]] = mla.attention query(%[[QN]]
// OFFLINE-SAME: form = #mla.form<expanded>
// OFFLINE:   %[[YE:.*]] = mla.project %[[E]], %[[WO:.*]] : {{.*}} tensor<64x96xbf16> -> tensor<?x64xbf16>
// OFFLINE:   scf.yield %[[YE]]
// OFFLINE: } else {
// OFFLINE:   mla.fold_query
// OFFLINE:   %[[OL:.*]] = mla.absorbed_attention
// OFFLINE:   %[[W:.*]] = mla.fold_output %{{.*}}, %[[WO]]
// OFFLINE:   %[[YA:.*]] = mla.project %[[OL]], %[[W]]
// OFFLINE:   scf.yield %[[YA]]
// OFFLINE: return %[[Y]]
// ONLINE: %[[O:.*]] = scf.if %{{.*}} -> (tensor<?x4x24xbf16>)
// ONLINE: mla.project %[[O]]
func.func @versioned(%qc: tensor<?x48xbf16>, %uq: tensor<4x16x48xbf16>, %qp: tensor<?x4x8xbf16>, %c: tensor<?x32xbf16>, %kp: tensor<?x8xbf16>,
    %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %wo: tensor<64x96xbf16>, %cache: !cache, %batch: !mla.batch<query_len = ?>, %cond: i1) -> tensor<?x64xbf16> {
  %qn = mla.project %qc, %uq : tensor<?x48xbf16>, tensor<4x16x48xbf16> -> tensor<?x4x16xbf16>
  %o = scf.if %cond -> (tensor<?x4x24xbf16>) {
    %e = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x8xbf16>) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
        weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch<query_len = ?>
        scale 0.2 {form = #mla.form<expanded>} -> tensor<?x4x24xbf16>
    scf.yield %e : tensor<?x4x24xbf16>
  } else {
    %a = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x8xbf16>) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
        weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch<query_len = ?>
        scale 0.2 {form = #mla.form<absorbed>} -> tensor<?x4x24xbf16>
    scf.yield %a : tensor<?x4x24xbf16>
  }
  %y = mla.project %o, %wo : tensor<?x4x24xbf16>, tensor<64x96xbf16> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// Of branches in branches it moves into all of them.
// CHECK-LABEL: func @nested
// OFFLINE: %[[Y:.*]] = scf.if %{{.*}} -> (tensor<?x64xbf16>)
// OFFLINE: mla.project %{{.*}}, %[[WO:[a-z0-9]+]] : tensor<?x4x24xbf16>, tensor<64x96xbf16> -> tensor<?x64xbf16>
// OFFLINE: } else {
// OFFLINE:   %[[I:.*]] = scf.if %{{.*}} -> (tensor<?x64xbf16>)
// OFFLINE:     mla.project %{{.*}}, %[[WO]] : tensor<?x4x24xbf16>, tensor<64x96xbf16> -> tensor<?x64xbf16>
// OFFLINE:   } else {
// OFFLINE:     %[[OL:.*]] = mla.absorbed_attention
// OFFLINE:     %[[W:.*]] = mla.fold_output %{{.*}}, %[[WO]]
// OFFLINE:     mla.project %[[OL]], %[[W]]
// OFFLINE:   }
// OFFLINE:   scf.yield %[[I]]
// OFFLINE: return %[[Y]]
func.func @nested(%qc: tensor<?x48xbf16>, %uq: tensor<4x16x48xbf16>, %qp: tensor<?x4x8xbf16>, %c: tensor<?x32xbf16>, %kp: tensor<?x8xbf16>,
    %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %wo: tensor<64x96xbf16>, %other: tensor<?x4x24xbf16>, %cache: !cache, %batch: !mla.batch<query_len = ?>, %cond: i1, %next: i1) -> tensor<?x64xbf16> {
  %qn = mla.project %qc, %uq : tensor<?x48xbf16>, tensor<4x16x48xbf16> -> tensor<?x4x16xbf16>
  %o = scf.if %cond -> (tensor<?x4x24xbf16>) {
    scf.yield %other : tensor<?x4x24xbf16>
  } else {
    %i = scf.if %next -> (tensor<?x4x24xbf16>) {
      scf.yield %other : tensor<?x4x24xbf16>
    } else {
      %a = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x8xbf16>) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
          weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch<query_len = ?>
          scale 0.2 {form = #mla.form<absorbed>} -> tensor<?x4x24xbf16>
      scf.yield %a : tensor<?x4x24xbf16>
    }
    scf.yield %i : tensor<?x4x24xbf16>
  }
  %y = mla.project %o, %wo : tensor<?x4x24xbf16>, tensor<64x96xbf16> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// Not where a step has parts of its batch in another branch.
// CHECK-LABEL: func @beside_parts
// OFFLINE: mla.fold_query
// OFFLINE-NOT: mla.fold_output
// OFFLINE: return
func.func @beside_parts(%qc: tensor<?x48xbf16>, %uq: tensor<4x16x48xbf16>, %qp: tensor<?x4x8xbf16>, %c: tensor<?x32xbf16>, %kp: tensor<?x8xbf16>,
    %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %wo: tensor<64x96xbf16>, %other: tensor<?x4x24xbf16>, %cache: !cache, %batch: !mla.batch<query_len = ?>, %cond: i1) -> tensor<?x64xbf16>
    attributes {mla.decode_threshold = 1 : i64} {
  %qn = mla.project %qc, %uq : tensor<?x48xbf16>, tensor<4x16x48xbf16> -> tensor<?x4x16xbf16>
  %p = mla.batch_part %batch prefills : !mla.batch<query_len = ?> -> !mla.batch<query_len = ?>
  %q = mla.part_rows %other of %p : tensor<?x4x24xbf16>, !mla.batch<query_len = ?>
  %o = scf.if %cond -> (tensor<?x4x24xbf16>) {
    scf.yield %q : tensor<?x4x24xbf16>
  } else {
    %a = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x8xbf16>) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
        weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch<query_len = ?>
        scale 0.2 {form = #mla.form<absorbed>} -> tensor<?x4x24xbf16>
    scf.yield %a : tensor<?x4x24xbf16>
  }
  %y = mla.project %o, %wo : tensor<?x4x24xbf16>, tensor<64x96xbf16> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// An LSE in another layout is converted; a bias of W_O stays.
// CHECK-LABEL: func @lse_and_bias
// CHECK: %[[OL:.*]], %[[L:.*]] = mla.absorbed_attention {{.*}} -> tensor<?x4x32xbf16>, tensor<?x4xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
// CHECK: mla.convert_lse %[[L]]
// OFFLINE: mla.project %[[OL]], %{{.*}} bias(
func.func @lse_and_bias(%qc: tensor<?x48xbf16>, %uq: tensor<4x16x48xbf16>, %qp: tensor<?x4x8xbf16>, %c: tensor<?x32xbf16>, %kp: tensor<?x8xbf16>,
    %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %wo: tensor<64x96xbf16>, %bias: tensor<64xbf16>, %cache: !cache, %batch: !mla.batch<query_len = 1>)
    -> (tensor<?x64xbf16>, tensor<4x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>>) {
  %qn = mla.project %qc, %uq : tensor<?x48xbf16>, tensor<4x16x48xbf16> -> tensor<?x4x16xbf16>
  %o, %lse = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x8xbf16>) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch<query_len = 1>
      scale 0.2 {form = #mla.form<absorbed>} -> tensor<?x4x24xbf16>, tensor<4x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>>
  %y = mla.project %o, %wo bias(%bias : tensor<64xbf16>) : tensor<?x4x24xbf16>, tensor<64x96xbf16> -> tensor<?x64xbf16>
  return %y, %lse : tensor<?x64xbf16>, tensor<4x?xf32, #mla.lse<base = e, layout = head_major, empty = neg_inf>>
}

// The expanded form keeps its weights as they are (A10).
// CHECK-LABEL: func @expanded
// CHECK-NOT: mla.fold
// CHECK-NOT: mla.head_project
// CHECK: mla.attention
// CHECK-SAME: form = #mla.form<expanded>
func.func @expanded(%qn: tensor<?x4x16xbf16>, %qp: tensor<?x4x8xbf16>, %c: tensor<?x32xbf16>, %kp: tensor<?x8xbf16>,
    %uk: tensor<4x16x32xbf16>, %uv: tensor<4x24x32xbf16>, %cache: !cache, %batch: !mla.batch<query_len = ?>) -> tensor<?x4x24xbf16> {
  %0 = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x8xbf16>) latent(%c, %kp : tensor<?x32xbf16>, tensor<?x8xbf16>)
      weights(%uk, %uv : tensor<4x16x32xbf16>, tensor<4x24x32xbf16>) over %cache, %batch : !cache, !mla.batch<query_len = ?>
      scale 0.2 {form = #mla.form<expanded>} -> tensor<?x4x24xbf16>
  return %0 : tensor<?x4x24xbf16>
}
