// What the passes refuse, and the notes that say why.
//
// RUN: mla-opt %s --split-input-file --verify-diagnostics --mla-absorb-weights=mode=offline --mla-chunk-context --mla-hoist-prepare
// RUN: not mla-opt %s --split-input-file --mla-split-kv=num-splits=-1 2>&1 | FileCheck %s --check-prefix=SPLITS
// RUN: not mla-opt %s --split-input-file --mla-split-kv=tile-rows=0 2>&1 | FileCheck %s --check-prefix=ROWS
// RUN: not mla-opt %s --split-input-file --mla-absorb-weights=requests=0 2>&1 | FileCheck %s --check-prefix=REQUESTS
// RUN: not mla-opt %s --split-input-file --mla-absorb-weights=mode=inline 2>&1 | FileCheck %s --check-prefix=MODE

// SPLITS: mla-split-kv: expected num-splits >= 0, got -1
// ROWS: mla-split-kv: expected tile-rows >= 1, got 0
// REQUESTS: mla-absorb-weights: expected requests >= 1, got 0
// MODE: inline

!cache = !mla.cache<page_size = 4, fields = [latent: 32], element = bf16, rope_order = interleaved>

func.func @form_left_open(%qn: tensor<?x4x16xbf16>, %c: tensor<?x32xbf16>, %w: tensor<4x16x32xbf16>, %cache: !cache, %batch: !mla.batch<query_len = ?>) -> tensor<?x4x16xbf16> {
  // expected-error@+1 {{expected form expanded or absorbed, got auto: run mla-choose-form}}
  %0 = mla.attention query(%qn : tensor<?x4x16xbf16>) latent(%c : tensor<?x32xbf16>) weights(%w, %w : tensor<4x16x32xbf16>, tensor<4x16x32xbf16>)
      over %cache, %batch : !cache, !mla.batch<query_len = ?> scale 0.25 -> tensor<?x4x16xbf16>
  return %0 : tensor<?x4x16xbf16>
}

// -----

!cache = !mla.cache<page_size = 4, fields = [latent: 32], element = bf16, rope_order = interleaved>

// expected-note@+1 {{expected q_nope from mla.project with a weight [N, P, Lq] and no bias}}
func.func @query_of_no_projection(%qn: tensor<?x4x16xbf16>, %c: tensor<?x32xbf16>, %w: tensor<4x16x32xbf16>, %cache: !cache, %batch: !mla.batch<query_len = 1>) -> tensor<?x4x16xbf16> {
  // expected-error@+1 {{cannot fold W_UK into the query projection}}
  %0 = mla.attention query(%qn : tensor<?x4x16xbf16>) latent(%c : tensor<?x32xbf16>) weights(%w, %w : tensor<4x16x32xbf16>, tensor<4x16x32xbf16>)
      over %cache, %batch : !cache, !mla.batch<query_len = 1> scale 0.25 {form = #mla.form<absorbed>} -> tensor<?x4x16xbf16>
  return %0 : tensor<?x4x16xbf16>
}

// -----

!cache = !mla.cache<page_size = 4, fields = [latent: 32], element = bf16, rope_order = interleaved>

func.func @output_of_no_projection(%x: tensor<?x48xbf16>, %uq: tensor<4x16x48xbf16>, %c: tensor<?x32xbf16>, %w: tensor<4x16x32xbf16>, %cache: !cache, %batch: !mla.batch<query_len = 1>) -> tensor<?x4x16xbf16> {
  %qn = mla.project %x, %uq : tensor<?x48xbf16>, tensor<4x16x48xbf16> -> tensor<?x4x16xbf16>
  // expected-error@+2 {{cannot fold W_UV into the output projection}}
  // expected-note@+1 {{expected one user of the output, mla.project with a weight [H, N·V]}}
  %0 = mla.attention query(%qn : tensor<?x4x16xbf16>) latent(%c : tensor<?x32xbf16>) weights(%w, %w : tensor<4x16x32xbf16>, tensor<4x16x32xbf16>)
      over %cache, %batch : !cache, !mla.batch<query_len = 1> scale 0.25 {form = #mla.form<absorbed>} -> tensor<?x4x16xbf16>
  return %0 : tensor<?x4x16xbf16>
}

// -----

// expected-error@+1 {{expected no function @prepare, which mla-hoist-prepare makes}}
func.func private @prepare()
func.func @step(%uq: tensor<4x16x48xbf16> {mla.weight = "uq"}, %uk: tensor<4x16x32xbf16> {mla.weight = "uk"}) -> tensor<4x32x48xbf16> {
  // expected-note@+1 {{needed for this weight-only operation}}
  %w = mla.fold_query %uq, %uk : tensor<4x16x48xbf16>, tensor<4x16x32xbf16> -> tensor<4x32x48xbf16>
  return %w : tensor<4x32x48xbf16>
}

// -----

func.func @one(%uq: tensor<4x16x48xbf16> {mla.weight = "uq"}, %uk: tensor<4x16x32xbf16> {mla.weight = "uk"}) -> tensor<4x32x48xbf16> {
  %w = mla.fold_query %uq, %uk : tensor<4x16x48xbf16>, tensor<4x16x32xbf16> -> tensor<4x32x48xbf16>
  return %w : tensor<4x32x48xbf16>
}
// expected-error@+1 {{expected weight "uk" of type 'tensor<4x16x32xbf16>' as in other steps, got 'tensor<4x16x16xbf16>'}}
func.func @two(%uq: tensor<4x16x48xbf16> {mla.weight = "uq"}, %uk: tensor<4x16x16xbf16> {mla.weight = "uk"}) -> tensor<4x16x48xbf16> {
  %w = mla.fold_query %uq, %uk : tensor<4x16x48xbf16>, tensor<4x16x16xbf16> -> tensor<4x16x48xbf16>
  return %w : tensor<4x16x48xbf16>
}
