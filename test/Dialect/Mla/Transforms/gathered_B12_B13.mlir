// Sparse attention over codes, separate mode: prefills read a workspace that whole requests are gathered
// into; decodes, and all tokens in mixed mode, the pool.
//
// RUN: mla-opt %s --mla-split-batch=sparse-mode=separate | FileCheck %s --check-prefix=SPLIT
// RUN: mla-opt %s --mla-split-batch="sparse-mode=auto separate-heads=4" | FileCheck %s --check-prefix=SPLIT
// RUN: mla-opt %s --mla-split-batch="sparse-mode=auto separate-heads=5" | FileCheck %s --check-prefix=MIXED
// RUN: mla-opt %s --mla-split-batch=sparse-mode=auto | FileCheck %s --check-prefix=MIXED
// RUN: mla-opt %s --mla-split-batch | FileCheck %s --check-prefix=MIXED
// RUN: mla-opt %s --mla-split-batch=sparse-mode=separate --mla-absorb-weights | FileCheck %s --check-prefix=ABSORB
// RUN: not mla-opt %s --mla-split-batch=separate-heads=0 2>&1 | FileCheck %s --check-prefix=WRONG

// WRONG: mla-split-batch: expected separate-heads >= 1, got 0
// RUN: not mla-opt %s --mla-split-batch=most-decoded-latent=-1 2>&1 | FileCheck %s --check-prefix=WIDEST
// WIDEST: mla-split-batch: expected most-decoded-latent >= 0, got -1

!codes = !mla.cache<page_size = 4, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved, format = "fp8_ds_mla">
!plain = !mla.cache<page_size = 4, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>

// MIXED-LABEL: func @step
// MIXED-NOT: mla.batch_part
// MIXED-NOT: gathered

// SPLIT-LABEL: func @step
// SPLIT-SAME: %[[SELECTED:[a-z0-9]+]]: tensor<?x24xi32>
// SPLIT: %[[P:.*]] = mla.batch_part %{{.*}} prefills
// SPLIT: %[[PS:.*]] = mla.part_rows %[[SELECTED]] of %[[P]] : tensor<?x24xi32>
// SPLIT: %[[PO:.*]] = mla.attention {{.*}} over %{{.*}}, %[[P]] {{.*}} selected(%[[PS]] {{.*}} {form = #mla.form<absorbed>, gathered}
// SPLIT: %[[D:.*]] = mla.batch_part %{{.*}} decodes
// SPLIT: %[[DO:.*]] = mla.attention {{.*}} over %{{.*}}, %[[D]] {{.*}} {form = #mla.form<absorbed>}
// SPLIT: mla.join_parts %[[DO]], %[[PO]]

// ABSORB-LABEL: func @step
// ABSORB: %[[P:.*]] = mla.batch_part %{{.*}} prefills
// ABSORB: %[[Q:.*]] = mla.head_project
// ABSORB: %[[ROWS:.*]] = mla.convert_indices %{{.*}} in %[[CACHE:.*]], %[[P]] workspace
// ABSORB-DAG: %[[T:.*]] = mla.batch_dim %[[P]] "num_tokens"
// ABSORB-DAG: %[[NOTHING:.*]] = tensor.empty(%[[T]]) : tensor<?x4x512xbf16>
// ABSORB-DAG: %[[N:.*]] = mla.batch_dim %[[P]] "num_gathers"
// ABSORB: %[[LATENT:.*]] = scf.for %[[I:.*]] = %c0{{.*}} to %[[N]] step %c1{{.*}} iter_args(%[[ONTO:.*]] = %[[NOTHING]])
// ABSORB-NEXT: %[[KEYS:.*]]:2 = mla.gather %[[CACHE]], %[[P]] whole chunk %[[I]]
// ABSORB-NEXT: %[[O:.*]] = mla.sparse_attention query(%[[Q]], %{{.*}}) rows(%[[ROWS]] {{.*}} keys(%[[KEYS]]#0, %[[KEYS]]#1 {{.*}} of %[[P]] chunk %[[I]] onto %[[ONTO]]
// ABSORB-NEXT: scf.yield %[[O]]
// ABSORB: mla.head_project %[[LATENT]]
// ABSORB: %[[D:.*]] = mla.batch_part %{{.*}} decodes
// ABSORB: mla.convert_indices %{{.*}} in %[[CACHE]], %[[D]] :
// ABSORB: mla.sparse_attention {{.*}} over %[[CACHE]], %[[D]]
func.func @step(%qc: tensor<?x48xbf16>, %uq: tensor<4x16x48xbf16>, %qp: tensor<?x4x64xbf16>, %c: tensor<?x512xbf16>, %kp: tensor<?x64xbf16>,
    %uk: tensor<4x16x512xbf16>, %uv: tensor<4x24x512xbf16>, %cache: !codes, %batch: !mla.batch,
    %selected: tensor<?x24xi32>) -> tensor<?x4x24xbf16> attributes {mla.decode_threshold = 1 : i64} {
  %qn = mla.project %qc, %uq : tensor<?x48xbf16>, tensor<4x16x48xbf16> -> tensor<?x4x16xbf16>
  %o = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x64xbf16>) latent(%c, %kp : tensor<?x512xbf16>, tensor<?x64xbf16>)
      weights(%uk, %uv : tensor<4x16x512xbf16>, tensor<4x24x512xbf16>) over %cache, %batch : !codes, !mla.batch
      selected(%selected : tensor<?x24xi32>) scale 0.2 -> tensor<?x4x24xbf16>
  return %o : tensor<?x4x24xbf16>
}

// A batch of any lengths that is not split is gathered as it is.
// MIXED-LABEL: func @prefill
// MIXED-NOT: gathered
// SPLIT-LABEL: func @prefill
// SPLIT-NOT: mla.batch_part
// SPLIT: mla.attention {{.*}}gathered}
func.func @prefill(%qn: tensor<?x4x16xbf16>, %qp: tensor<?x4x64xbf16>, %c: tensor<?x512xbf16>, %kp: tensor<?x64xbf16>,
    %uk: tensor<4x16x512xbf16>, %uv: tensor<4x24x512xbf16>, %cache: !codes, %batch: !mla.batch,
    %selected: tensor<?x24xi32>) -> tensor<?x4x24xbf16> {
  %o = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x64xbf16>) latent(%c, %kp : tensor<?x512xbf16>, tensor<?x64xbf16>)
      weights(%uk, %uv : tensor<4x16x512xbf16>, tensor<4x24x512xbf16>) over %cache, %batch : !codes, !mla.batch
      selected(%selected : tensor<?x24xi32>) scale 0.2 {form = #mla.form<absorbed>} -> tensor<?x4x24xbf16>
  return %o : tensor<?x4x24xbf16>
}

// A decode is not, and rows of 16 bits have one mode.
// SPLIT-LABEL: func @decode
// SPLIT-NOT: gathered
// SPLIT-LABEL: func @plain
// SPLIT-NOT: gathered
func.func @decode(%qn: tensor<?x4x16xbf16>, %qp: tensor<?x4x64xbf16>, %c: tensor<?x512xbf16>, %kp: tensor<?x64xbf16>,
    %uk: tensor<4x16x512xbf16>, %uv: tensor<4x24x512xbf16>, %cache: !codes, %batch: !mla.batch<query_len = 1>,
    %selected: tensor<?x24xi32>) -> tensor<?x4x24xbf16> {
  %o = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x64xbf16>) latent(%c, %kp : tensor<?x512xbf16>, tensor<?x64xbf16>)
      weights(%uk, %uv : tensor<4x16x512xbf16>, tensor<4x24x512xbf16>) over %cache, %batch : !codes, !mla.batch<query_len = 1>
      selected(%selected : tensor<?x24xi32>) scale 0.2 {form = #mla.form<absorbed>} -> tensor<?x4x24xbf16>
  return %o : tensor<?x4x24xbf16>
}
func.func @plain(%qn: tensor<?x4x16xbf16>, %qp: tensor<?x4x64xbf16>, %c: tensor<?x512xbf16>, %kp: tensor<?x64xbf16>,
    %uk: tensor<4x16x512xbf16>, %uv: tensor<4x24x512xbf16>, %cache: !plain, %batch: !mla.batch,
    %selected: tensor<?x24xi32>) -> tensor<?x4x24xbf16> {
  %o = mla.attention query(%qn, %qp : tensor<?x4x16xbf16>, tensor<?x4x64xbf16>) latent(%c, %kp : tensor<?x512xbf16>, tensor<?x64xbf16>)
      weights(%uk, %uv : tensor<4x16x512xbf16>, tensor<4x24x512xbf16>) over %cache, %batch : !plain, !mla.batch
      selected(%selected : tensor<?x24xi32>) scale 0.2 {form = #mla.form<absorbed>} -> tensor<?x4x24xbf16>
  return %o : tensor<?x4x24xbf16>
}
